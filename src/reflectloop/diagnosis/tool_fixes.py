"""Fixes of tool failures, stored as lessons by tool and signature, with a count of their successes and failures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from reflectloop import secrets
from reflectloop.diagnosis.failfix import FailFix
from reflectloop.diagnosis.failure_record import ErrorClass
from reflectloop.diagnosis.safe_call import Outcome, ToolSuccess
from reflectloop.diagnosis.tool_failure_report import ToolReport
from reflectloop.lessons import lesson_recall, lesson_scopes, lesson_store
from reflectloop.lessons.lesson import Lesson, Occurrence, Page, What
from reflectloop.lessons.lesson_files import LessonDir
from reflectloop.lessons.lesson_store import NewLesson
from reflectloop.system import clock, files

_LONGEST = 200  # of a title
PAIRS = "reflections"  # below the knowledge, one file each
_KIND = ErrorClass.ITERATION
_AFTERWARDS = f"{_KIND} {_KIND.english} ({_KIND.chinese}): it passed after a changed attempt"


class ToolFixes:
    """The fixes in lesson folders; new ones are written to the first, the project's."""

    def __init__(self, dirs: Sequence[LessonDir]) -> None:
        self._dirs = tuple(dirs)

    def __iter__(self) -> Iterator[FailFix]:
        """Yield the stored fixes. They are read only when a call fails."""
        for place in self._dirs:
            for lesson in lesson_store.read(place).lessons:
                if lesson.kind == "failfix" and lesson.status in ("active", "candidate"):
                    yield from _fixes(lesson)

    def learn(self, outcome: Outcome) -> None:
        """Store a fix that worked, and count a failure of a known fix that did not help."""
        if isinstance(outcome, ToolSuccess):
            if outcome.pair:
                self._count(self._dirs[0], _page(outcome.pair), "worked")
                _write_pair(self._dirs[0], outcome.pair)
        elif outcome.attempts > 1:  # otherwise no fix was tried
            self._count_failure(outcome.reports[0])

    def _count_failure(self, report: ToolReport) -> None:
        for place in self._dirs:
            for lesson in lesson_recall.known_fixes([place], report.signature):
                if _fix_text(lesson) == report.known_fix:
                    self._count(place, _page_of(lesson), "failed")

    @staticmethod
    def _count(place: LessonDir, page: Page, what: What) -> None:
        occurrence = Occurrence(lesson=page.id, what=what, at=clock.stamp(clock.now()), level="L2")
        lesson_store.add_lessons(place, [NewLesson(page, occurrence)], lesson_scopes.new_session_id())


def _write_pair(place: LessonDir, pair: FailFix) -> None:
    """Write a fail-fix pair as the reflection protocol does, beside the lessons."""
    text = json.dumps(pair.as_protocol(), indent=2, ensure_ascii=False)
    path = place.folder / PAIRS / f"{pair.pattern_id}.json"
    with files.room_for("a fail-fix pair", path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomic(path, secrets.current_detector().redact(text) + "\n")


def _page(pair: FailFix) -> Page:
    symptom = pair.symptoms[0] if pair.symptoms else "failed"
    return Page(
        kind="failfix",
        title=secrets.current_detector().redact(f"{pair.tool}: {symptom}")[:_LONGEST],
        signature=pair.signature,
        keywords=(pair.tool[:_LONGEST], *([str(pair.error_type)] if pair.error_type else [])),
        fix=secrets.current_detector().redact(pair.successful_fix),
        body=secrets.current_detector().redact("\n".join((*pair.symptoms, _AFTERWARDS))),
    )


def _page_of(lesson: Lesson) -> Page:
    return Page(
        kind="failfix", title=lesson.title, signature=lesson.signature, fix=lesson.fix, commands=lesson.commands
    )


def _fix_text(lesson: Lesson) -> str:
    return lesson.fix or "\n".join(lesson.commands)


def _fixes(lesson: Lesson) -> Iterator[FailFix]:
    """Yield the lesson as a fix of each of its keywords, one of which is the tool."""
    for keyword in lesson.keywords:
        yield FailFix(
            pattern_id=lesson.id,
            tool=keyword,
            error_type=None,
            signature=lesson.signature,
            symptoms=(lesson.title,),
            successful_fix=_fix_text(lesson),
            timestamp=lesson.last_seen,
            worked=lesson.worked,
            failed=lesson.failed,
        )
