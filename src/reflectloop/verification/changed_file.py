"""One file of a change: its contents and modes before and after."""

from __future__ import annotations

from typing import NamedTuple


class ChangedFile(NamedTuple):
    """One file before and after a patch; None if it does not exist."""

    path: str
    before: bytes | None
    after: bytes | None
    mode_before: str = "100644"
    mode_after: str = "100644"
