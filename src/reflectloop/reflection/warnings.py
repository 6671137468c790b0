"""Warn before a step by matching lessons; afterwards score the warnings by precision and recall. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from reflectloop.diagnosis.failure_record import FailureRecord

_MOST = 5  # warnings; nobody reads more
WARNING_KINDS = {"problem": 3, "antipattern": 3, "failfix": 3, "constraint": 2, "pattern": 1}
_WORD = re.compile(r"[a-z][a-z0-9]+|[\u4e00-\u9fff]{2}", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_COMMON = frozenset(
    "the and for with from that this not are was were has have must when then into step run file test tests".split()  # noqa: SIM905 - a list of words
)
_LEAST_SHARED = 2


class WarningLesson(NamedTuple):
    """The parts of a lesson that matter for warnings."""

    kind: str
    title: str
    body: str = ""
    keywords: tuple[str, ...] = ()
    signature: str = ""
    commands: tuple[str, ...] = ()  # commands of a fix


class StepToWarn(NamedTuple):
    """A step that is about to begin."""

    id: str
    title: str = ""
    commands: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()  # of its earlier failures


class StepWarning(NamedTuple):
    """A risk, its mitigation, and what would show that it came true."""

    lesson: str  # title of the lesson
    risk: str
    mitigation: str
    check: str
    signature: str
    keywords: tuple[str, ...]


class WarningOutcome(NamedTuple):
    """The warnings of a step, scored after it ended."""

    right: tuple[StepWarning, ...]
    wrong: tuple[StepWarning, ...]
    missed: bool  # it failed, and no warning predicted it

    @property
    def precision(self) -> float | None:
        warned = len(self.right) + len(self.wrong)
        return len(self.right) / warned if warned else None

    @property
    def recall(self) -> float | None:
        """The recall, or None if nothing happened that could have been predicted."""
        return 1.0 if self.right else 0.0 if self.missed else None


class WarningStats(NamedTuple):
    """The sum of all scored warnings."""

    right: int = 0
    wrong: int = 0
    foreseen: int = 0  # predicted failures
    missed: int = 0

    def with_(self, scored: WarningOutcome) -> WarningStats:
        return WarningStats(
            self.right + len(scored.right),
            self.wrong + len(scored.wrong),
            self.foreseen + bool(scored.right),
            self.missed + scored.missed,
        )

    @property
    def precision(self) -> float | None:
        return self.right / (self.right + self.wrong) if self.right + self.wrong else None

    @property
    def recall(self) -> float | None:
        return self.foreseen / (self.foreseen + self.missed) if self.foreseen + self.missed else None


def preflect(step: StepToWarn, lessons: Iterable[WarningLesson], most: int = _MOST) -> tuple[StepWarning, ...]:
    """Return the lessons that match such a step, best matches first."""
    about = _keywords(" ".join((step.id, step.title, *step.commands, *step.paths)))
    rated = [(_weight(lesson, about, step.signatures), lesson) for lesson in lessons if lesson.kind in WARNING_KINDS]
    chosen = sorted(
        ((weight, lesson) for weight, lesson in rated if weight), key=lambda pair: (-pair[0], pair[1].title)
    )
    return tuple(_warning(lesson) for _, lesson in chosen[:most])


def _weight(lesson: WarningLesson, about: frozenset[str], signatures: Sequence[str]) -> int:
    if lesson.signature and lesson.signature in signatures:
        return 1_000
    lesson_words = _keywords(" ".join((lesson.title, *lesson.keywords)))
    shared = len(lesson_words & about)
    return shared * 10 + WARNING_KINDS[lesson.kind] if shared >= min(_LEAST_SHARED, len(lesson_words)) and shared else 0


def _warning(lesson: WarningLesson) -> StepWarning:
    first = next((line.strip() for line in lesson.body.splitlines() if line.strip()), "")
    todo = "; ".join(lesson.commands) or first
    return StepWarning(
        lesson=lesson.title,
        risk=lesson.title,
        mitigation=todo or f"see that this does not happen again: {lesson.title}",
        check=f"signature {lesson.signature}" if lesson.signature else f"the log says: {lesson.title}",
        signature=lesson.signature,
        keywords=tuple(sorted(_keywords(" ".join((lesson.title, *lesson.keywords))))),
    )


def afterflect(
    warnings: Sequence[StepWarning], failure: FailureRecord | None, heeded: Collection[str] = ()
) -> WarningOutcome:
    """Score warnings: one was right if the step failed with its signature, or with its words in the failure.

    A heeded warning is not scored, since its risk was avoided; `heeded` are titles of lessons.
    """
    warnings = [warning for warning in warnings if warning.lesson not in heeded]
    if failure is None:
        return WarningOutcome((), tuple(warnings), missed=False)
    known = failure.diagnosis
    failure_words = _keywords(
        f"{failure.log_excerpt} {known.root_cause if known else ''} {known.rule if known else ''}"
    )
    right = tuple(warning for warning in warnings if _came_true(warning, failure.signature, failure_words))
    wrong = tuple(warning for warning in warnings if warning not in right)
    return WarningOutcome(right, wrong, missed=not right)


def _came_true(warning: StepWarning, signature: str, failure_words: frozenset[str]) -> bool:
    if warning.signature:
        return warning.signature == signature
    return len(failure_words & set(warning.keywords)) >= min(_LEAST_SHARED, len(warning.keywords) or 1)


def _keywords(text: str) -> frozenset[str]:
    """Return the words of a text, splitting names so that `load_users` and `loadUsers` share them."""
    lowered = (word.lower() for word in _WORD.findall(_CAMEL.sub(" ", text).replace("_", " ")))
    return frozenset(word for word in lowered if word not in _COMMON)
