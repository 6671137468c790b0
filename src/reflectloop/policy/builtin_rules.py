"""The built-in rules, read from the index that `make docs` writes, because parsing the rule files is slow."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from reflectloop.policy.rule import PolicyRule, from_row

FOLDER = Path(__file__).parent / "rules"
INDEX = FOLDER / "index.json"


def files() -> list[Path]:
    return sorted(FOLDER.glob("*.yaml"))


@cache
def rules() -> tuple[PolicyRule, ...]:
    return tuple(from_row(row) for row in json.loads(INDEX.read_bytes()))


def index() -> str:
    """Return the content of the index: the rules of the files, without their samples."""
    from reflectloop.policy import rulefile  # noqa: PLC0415 - loads pydantic, needed only to write the index

    lines = [json.dumps(entry.rule, ensure_ascii=False) for path in files() for entry in rulefile.read(path)]
    return "[\n" + ",\n".join(lines) + "\n]\n"
