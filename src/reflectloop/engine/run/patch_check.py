"""Decides, without loading the gates, whether the change of a run must go through them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from reflectloop import policy
from reflectloop.engine.run.context import ExecutedRun
from reflectloop.plan import proof
from reflectloop.policy import AddedLineRules, code_commands
from reflectloop.system.patterns import lazy
from reflectloop.workspace.patch import TouchedFile

_HUNK = lazy(rb"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def must_judge(run: ExecutedRun) -> bool:
    """Return whether the change goes through the gates: by its plan, or because it touches what is dangerous."""
    if run.is_stepwise or proof.is_judged(run.plan):
        return True
    return _touches_protected(run.touched) or _is_dangerous(run)


def _touches_protected(touched: Sequence[TouchedFile]) -> bool:
    if not touched:
        return False
    from reflectloop.verification import protected  # noqa: PLC0415 - knows many names

    return any(protected.guard(change.path) for change in touched)


def _is_dangerous(run: ExecutedRun) -> bool:
    """Return whether a security rule matches the patch. If it says no, the gates would find nothing either."""
    active = policy.of(run.config.policy, run.folders.root)
    rules = AddedLineRules(active.rules, active.allowed)
    if any(rules.judge(change.path, 0, "") for change in run.touched):
        return True
    return any(
        rules.judge(line.path, line.number, line.text) or code_commands.may_start_commands(line.path, line.text)
        for line in _added_lines(run.folder.patch)
    )


class _AddedLine(NamedTuple):
    path: str
    number: int
    text: str


def _added_lines(patch: Path) -> Iterator[_AddedLine]:
    """Yield every line that begins with a plus; a header taken for one does no harm."""
    path, number = "", 0
    with patch.open("rb") as file:
        for raw in file:
            if raw.startswith(b"+++ "):
                path = raw[4:].strip().strip(b'"').removeprefix(b"b/").decode("utf-8", "replace")
            elif hunk := _HUNK.match(raw):
                number = int(hunk[1])
            elif raw.startswith(b"+"):
                yield _AddedLine(path, max(number, 1), raw[1:].decode("utf-8", "replace").rstrip("\r\n"))
