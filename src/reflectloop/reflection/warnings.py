"""Warn before a step by matching lessons; afterwards score the warnings by precision and recall."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from reflectloop import secrets
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.errors import ReflectloopError
from reflectloop.lessons import lesson_scopes, lesson_store, lesson_words
from reflectloop.lessons.lesson import Lesson
from reflectloop.lessons.lesson_files import LessonDir
from reflectloop.plan.model import Step, command_text
from reflectloop.system import clock, files
from reflectloop.system.patterns import lazy
from reflectloop.workspace.folders import Folders

_MOST = 5  # warnings; nobody reads more
WARNING_KINDS = {"problem": 3, "antipattern": 3, "failfix": 3, "constraint": 2, "pattern": 1}
_WORD = lazy(r"[a-z][a-z0-9]+|[\u4e00-\u9fff]{2}", re.IGNORECASE)
_CAMEL = lazy(r"(?<=[a-z0-9])(?=[A-Z])")
_COMMON = frozenset(
    "the and for with from that this not are was were has have must when then into step run file test tests".split()  # noqa: SIM905 - a list of words
)
_LEAST_SHARED = 2
_FILE = "foresight.jsonl"
_LONGEST_QUERY = 2_000  # characters
_CONSIDERED = 12  # lessons per lesson folder

Warn = Callable[[str, str], None]  # step and message


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


def match_warnings(step: StepToWarn, lessons: Iterable[WarningLesson], most: int = _MOST) -> tuple[StepWarning, ...]:
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


def score_outcome(
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


# On disk ----------------------------------------------------------------------------------------------------------


def warnings_for(folders: Folders, step: Step, signatures: Sequence[str], warn: Warn) -> tuple[StepWarning, ...]:
    """Return the warnings for a step from the lessons of the project and the user.

    Lessons that cannot be read are reported through `warn`; they never stop a run.
    """
    commands = tuple(command_text(command) for command in step.commands)
    about = StepToWarn(step.id, step.title, commands, signatures=tuple(signatures))
    dirs = [place for place in lesson_scopes.lesson_dirs(folders) if place.folder.is_dir()]
    try:
        return match_warnings(about, dict.fromkeys(lesson for place in dirs for lesson in _matching(place, about)))
    except (ReflectloopError, OSError) as fault:
        warn(step.id, f"lessons could not be read: {fault}")
        return ()


def _matching(place: LessonDir, about: StepToWarn) -> list[WarningLesson]:
    query = " ".join((about.title, *about.commands))[:_LONGEST_QUERY]
    near = lesson_store.search(place, query, kinds=tuple(WARNING_KINDS), statuses=("active",), limit=_CONSIDERED)
    same = (lesson for mark in about.signatures for lesson in lesson_store.by_mark(place, mark))
    lessons = {lesson.id: lesson for lesson in (*(lesson for lesson in same if lesson.status == "active"), *near)}
    return [
        WarningLesson(
            lesson.kind, lesson.title, lesson.body, lesson.keywords, _failure_signature(lesson), lesson.commands
        )
        for lesson in lessons.values()
    ]


def _failure_signature(lesson: Lesson) -> str:
    """Return the signature of a lesson's failure; empty if it was made of kind and title, which no log contains."""
    return "" if lesson.signature == lesson_words.signature(f"{lesson.kind} {lesson.title}") else lesson.signature


def score_warnings(
    folders: Folders,
    run_id: str,
    step_id: str,
    warned: tuple[StepWarning, ...],
    failure: FailureRecord | None,
    warn: Warn,
) -> None:
    """Score the warnings of a step that ended and append the score; a fault is reported through `warn`."""
    try:
        append_score(folders, run_id, step_id, score_outcome(warned, failure))
    except (ReflectloopError, OSError) as fault:
        warn(step_id, f"the score of the warnings was not written: {fault}")


def append_score(folders: Folders, run_id: str, step_id: str, scored: WarningOutcome) -> None:
    """Append one line to the file of scores. The caller holds the project's lock."""
    path = folders.own / _FILE
    line = {
        "timestamp": clock.stamp(clock.now()),
        "run_id": run_id,
        "step_id": step_id,
        "right": [warning.lesson for warning in scored.right],
        "wrong": [warning.lesson for warning in scored.wrong],
        "missed": scored.missed,
        "precision": scored.precision,
        "recall": scored.recall,
    }
    text = secrets.current_detector().redact(json.dumps(line, ensure_ascii=False))
    with files.room_for("the score of warnings", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
