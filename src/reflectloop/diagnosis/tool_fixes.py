"""What mended a tool's failure, kept as a lesson: found again by tool and signature, counted each time it is tried."""

from __future__ import annotations

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
from reflectloop.system import clock

_LONGEST = 200  # of a title
_KIND = ErrorClass.ITERATION
_AFTERWARDS = f"{_KIND} {_KIND.english} ({_KIND.chinese}): it passed after a changed attempt"


class ToolFixes:
    """The project's shelf, where new ones go, and the user's behind it."""

    def __init__(self, shelves: Sequence[LessonDir]) -> None:
        self._shelves = tuple(shelves)

    def __iter__(self) -> Iterator[FailFix]:
        """Read when a failure asks for them: a call that goes well reads nothing."""
        for shelf in self._shelves:
            for one in lesson_store.read(shelf).lessons:
                if one.kind == "failfix" and one.status in ("active", "candidate"):
                    yield from _pairs(one)

    def learn(self, outcome: Outcome) -> None:
        """A fix that worked is kept; one that was known and did not help loses by it."""
        if isinstance(outcome, ToolSuccess):
            if outcome.pair:
                self._count(self._shelves[0], _page(outcome.pair), "worked")
        elif outcome.attempts > 1:  # else nothing was tried
            self._blame(outcome.reports[0])

    def _blame(self, met: ToolReport) -> None:
        for shelf in self._shelves:
            for one in lesson_recall.known_fixes([shelf], met.signature):
                if _said(one) == met.known_fix:
                    self._count(shelf, _same(one), "failed")

    @staticmethod
    def _count(shelf: LessonDir, page: Page, what: What) -> None:
        sighting = Occurrence(lesson=page.id, what=what, at=clock.stamp(clock.now()), level="L2")
        lesson_store.keep(shelf, [NewLesson(page, sighting)], lesson_scopes.new_session_id())


def _page(pair: FailFix) -> Page:
    symptom = pair.symptoms[0] if pair.symptoms else "failed"
    return Page(
        kind="failfix",
        title=secrets.current().redact(f"{pair.tool}: {symptom}")[:_LONGEST],
        signature=pair.signature,
        keywords=(pair.tool[:_LONGEST], *([str(pair.error_type)] if pair.error_type else [])),
        fix=secrets.current().redact(pair.successful_fix),
        body=secrets.current().redact("\n".join((*pair.symptoms, _AFTERWARDS))),
    )


def _same(one: Lesson) -> Page:
    return Page(kind="failfix", title=one.title, signature=one.signature, fix=one.fix, commands=one.commands)


def _said(one: Lesson) -> str:
    return one.fix or "\n".join(one.commands)


def _pairs(one: Lesson) -> Iterator[FailFix]:
    """The tool is among the keywords."""
    for word in one.keywords:
        yield FailFix(
            pattern_id=one.id,
            tool=word,
            error_type=None,
            signature=one.signature,
            symptoms=(one.title,),
            successful_fix=_said(one),
            timestamp=one.last_seen,
            worked=one.worked,
            failed=one.failed,
        )
