"""The built-in rules, read from the index that `make docs` writes, because parsing the rule files is slow."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from reflectloop.secrets.rule import SecretRule

FOLDER = Path(__file__).parent / "rules"
FILES = (FOLDER / "general.toml", FOLDER / "providers.toml")
INDEX = FOLDER / "index.json"


@cache
def rules() -> tuple[SecretRule, ...]:
    return tuple(SecretRule(entry[0], tuple(entry[1]), *entry[2:]) for entry in json.loads(INDEX.read_bytes()))


def index() -> str:
    """Return the content of the index: the rules of the files, without descriptions and samples."""
    from reflectloop.secrets import rulefile  # noqa: PLC0415 - loads pydantic, needed only to write the index

    lines = [json.dumps(entry.rule) for path in FILES for entry in rulefile.read_rule_file(path)]
    return "[\n" + ",\n".join(lines) + "\n]\n"
