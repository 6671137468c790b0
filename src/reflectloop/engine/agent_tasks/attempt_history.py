"""What was tried for a step, kept beside its papers: whoever goes on with it, another engine too, is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from reflectloop import secrets
from reflectloop.agents.answer_models import StepDesign
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.steps.prompts import FailedAttempt
from reflectloop.state.fold import StepState
from reflectloop.system import files

_FILE = "failed.json"


class AttemptHistory(NamedTuple):
    """Of the step at work; gone once it is done."""

    step: str
    tried: tuple[FailedAttempt, ...] = ()
    trees: frozenset[str] = frozenset()  # that did not hold
    asked: str = ""  # by a review, of the next attempt
    design: StepDesign | None = None

    def plus(self, one: FailedAttempt, tree: str, asked: str = "") -> AttemptHistory:
        return self._replace(tried=(*self.tried, one), trees=self.trees | {tree} - {""}, asked=asked)


class _Paper(BaseModel):
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


def keep(folder: Path, one: FailedAttempt, tree: str, asked: str) -> None:
    paper = _Paper(
        why=one.why,
        approach=one.approach,
        output=one.output,
        diff=one.diff,
        tree=tree,
        asked=asked,
        learnt=one.learnt,
        failure=one.failure,
    )
    text = json.dumps(paper.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=False)
    files.write_atomic(folder / _FILE, secrets.current_detector().redact(text) + "\n")


def recall(folder: Path, step: StepState) -> AttemptHistory:
    """What earlier attempts left; a person who answered since then may have changed what holds."""
    past = AttemptHistory(step.id)
    for number, paper in _papers(folder, step.attempts):
        one = FailedAttempt(number, paper.approach, paper.why, paper.failure, paper.output, paper.diff, paper.learnt)
        past = past.plus(one, paper.tree if number > step.forgiven else "", paper.asked)
    return past


def _papers(folder: Path, last: int) -> Iterator[tuple[int, _Paper]]:
    """A paper that cannot be read tells nothing, and stands in nobody's way."""
    for number in range(1, last + 1):
        try:
            yield number, _Paper.model_validate_json((folder / str(number) / _FILE).read_bytes())
        except (OSError, ValidationError):
            continue
