"""The failed attempts at a step, and findings, stored beside its files: so another engine can tell the next agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from reflectloop import secrets
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.steps.prompts import FailedAttempt
from reflectloop.state.fold import StepState
from reflectloop.system import files

if TYPE_CHECKING:  # reading what was tried needs no agents
    from reflectloop.agents.answer_models import StepDesign

FINDINGS = "findings.md"
_FILE = "failed.json"
_LONGEST = 15_000


class AttemptHistory(NamedTuple):
    """The failed attempts at the current step."""

    step: str
    tried: tuple[FailedAttempt, ...] = ()
    trees: frozenset[str] = frozenset()  # that did not hold
    asked: str = ""  # by a review, of the next attempt
    design: StepDesign | None = None

    def plus(self, attempt: FailedAttempt, tree: str, asked: str = "") -> AttemptHistory:
        return self._replace(tried=(*self.tried, attempt), trees=self.trees | {tree} - {""}, asked=asked)


class _StoredAttempt(BaseModel):
    """One attempt that did not hold, on disk."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    why: str
    approach: str = ""
    output: str = ""
    diff: str = ""
    tree: str = ""  # that did not hold
    asked: str = ""
    learnt: str = ""
    failure: FailureRecord | None = None

    def failed_attempt(self, number: int) -> FailedAttempt:
        return FailedAttempt(number, self.approach, self.why, self.failure, self.output, self.diff, self.learnt)


def keep(folder: Path, attempt: FailedAttempt, tree: str, asked: str) -> None:
    stored = _StoredAttempt(
        why=attempt.why,
        approach=attempt.approach,
        output=attempt.output,
        diff=attempt.diff,
        tree=tree,
        asked=asked,
        learnt=attempt.learnt,
        failure=attempt.failure,
    )
    text = json.dumps(stored.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=False)
    files.write_atomic(folder / _FILE, secrets.current_detector().redact(text) + "\n")


def recall(folder: Path, step: StepState) -> AttemptHistory:
    """Return the stored attempts. Trees from before a person's last answer do not count as failed any more."""
    past = AttemptHistory(step.id)
    for number in range(1, step.attempts + 1):
        stored = _stored_attempt(folder, number)
        if stored:
            past = past.plus(stored.failed_attempt(number), stored.tree if number > step.forgiven else "", stored.asked)
    return past


def read_attempt(folder: Path, number: int) -> FailedAttempt | None:
    """Return one failed attempt at a step; None if it is not stored."""
    stored = _stored_attempt(folder, number)
    return stored.failed_attempt(number) if stored else None


def _stored_attempt(folder: Path, number: int) -> _StoredAttempt | None:
    """Return a stored attempt; a file that cannot be read is passed over."""
    try:
        return _StoredAttempt.model_validate_json((folder / str(number) / _FILE).read_bytes())
    except (OSError, ValidationError):
        return None


def findings_in(folder: Path) -> str:
    """Return what the last attempt at an analysis found; `folder` has a folder for each attempt."""
    written = sorted(folder.glob(f"*/{FINDINGS}"), key=lambda path: (len(path.parent.name), path.parent.name))
    return written[-1].read_text(encoding="utf-8")[:_LONGEST] if written else ""
