"""A first, cheap look at a patch: whether any security rule speaks about it, so that the gates must be asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from reflectloop.policy import AddedLineRules
from reflectloop.workspace.patch import TouchedFile

_HUNK = re.compile(rb"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class _Line(NamedTuple):
    path: str
    number: int
    text: str


def raised(patch: Path, touched: Iterable[TouchedFile], rules: AddedLineRules) -> bool:
    """May be wrong in one direction only: where it says no, the gates would find nothing either."""
    if any(rules.judge(change.path, 0, "") for change in touched):
        return True
    return any(rules.judge(line.path, line.number, line.text) for line in _added(patch))


def _added(patch: Path) -> Iterator[_Line]:
    """Every line that begins with a plus; a header taken for one does no harm."""
    path, number = "", 0
    with patch.open("rb") as file:
        for raw in file:
            if raw.startswith(b"+++ "):
                path = raw[4:].strip().strip(b'"').removeprefix(b"b/").decode("utf-8", "replace")
            elif hunk := _HUNK.match(raw):
                number = int(hunk[1])
            elif raw.startswith(b"+"):
                yield _Line(path, max(number, 1), raw[1:].decode("utf-8", "replace").rstrip("\r\n"))
