"""The names of files that the records of tools list, read from the index that `make docs` writes.

Loading every record takes a quarter of a second, and a hook asks about one path.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

INDEX = Path(__file__).with_name("tool_names.json")


@cache
def of_tools(field: str) -> frozenset[str]:
    """Return the names that the records of all tools list in a field of `Files`."""
    return frozenset(_fields()[field])


@cache
def _fields() -> dict[str, list[str]]:
    fields: dict[str, list[str]] = json.loads(INDEX.read_bytes())
    return fields


def index() -> str:
    """Return the content of the index: for each field of `Files`, the names of all tools."""
    from reflectloop.verification.tools.record import Files  # noqa: PLC0415 - needed only to write the index
    from reflectloop.verification.tools.registry import tools  # noqa: PLC0415

    fields: dict[str, list[str]] = {}
    for field in Files.__dataclass_fields__:
        values = [getattr(tool.files, field) for tool in tools()]
        lists = [value.split() if isinstance(value, str) else value for value in values]
        listed = {name for names in lists for name in names if isinstance(name, str)}
        fields[field] = sorted(listed)
    return json.dumps(fields, indent=1, ensure_ascii=False) + "\n"
