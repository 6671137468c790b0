"""Stores the anchors of the retention gate as lessons of five kinds, and writes their page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reflectloop import languages, secrets
from reflectloop.gates import insight, retention
from reflectloop.gates.insight import Anchor
from reflectloop.gates.retention import RetainedAnchor, RetentionResult
from reflectloop.lessons import lesson_scopes, lesson_store
from reflectloop.lessons.lesson import Kind, Lesson, Occurrence, Page
from reflectloop.lessons.lesson_files import LessonDir
from reflectloop.lessons.lesson_store import NewLesson
from reflectloop.system import clock, files
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.generated_files import HEAD

PAGE, COMPACT = "anchors.md", "compact.md"
_KINDS: dict[insight.Kind, Kind] = {
    "D": "decision",
    "C": "constraint",
    "I": "interface",
    "P": "problem",
    "M": "pattern",
}
_LETTERS = {kind: letter for letter, kind in _KINDS.items()}
_LONGEST = 200  # of a title; a longer text goes on in the body


class AnchorLessons(NamedTuple):
    """The lessons of a project that are anchors, the eldest first."""

    lesson_dir: LessonDir
    lessons: tuple[Lesson, ...]

    @property
    def known(self) -> dict[str, str]:
        names = self._names()
        return {mark: names[lesson.id] for lesson in self.lessons if lesson.name for mark in _marks(lesson)}

    def counts(self, but: str) -> dict[str, int]:
        """Return how often each anchor was seen in other runs than this one."""
        return {mark: lesson.count - (but in lesson.runs) for lesson in self.lessons for mark in _marks(lesson)}

    def sift(self, anchors: Sequence[Anchor], run_id: str) -> RetentionResult:
        return retention.select_anchors(anchors, self.counts(run_id), self.known)

    def retained(self) -> list[RetainedAnchor]:
        """Return the anchors that are in force."""
        names = self._names()
        made = [(lesson, _anchor(lesson)) for lesson in self.lessons if lesson.status == "active"]
        anchors = [
            RetainedAnchor(names[lesson.id], anchor, lesson.count, retention.reason_to_keep(anchor, lesson.count))
            for lesson, anchor in made
        ]
        return sorted(anchors, key=lambda anchor: anchor.id)

    def _names(self) -> dict[str, str]:
        """Return the name of each lesson. If two branches gave the same number, the older lesson keeps it."""
        out: dict[str, str] = {}
        for lesson in self.lessons:
            taken = lesson.name in out.values()
            out[lesson.id] = (
                retention.next_id(_LETTERS[lesson.kind], list(out.values())) if taken else lesson.name or lesson.id
            )
        return out


def _anchor(lesson: Lesson) -> Anchor:
    return Anchor(_LETTERS[lesson.kind], lesson.title, lesson.impact, lesson.reusable)


def _marks(lesson: Lesson) -> set[str]:
    """Return every signature of a lesson; one that a person wrote in the same words has one of them."""
    return {lesson.signature, _anchor(lesson).signature, *lesson.aliases}


def remembered(folders: Folders) -> AnchorLessons:
    lesson_dir = lesson_scopes.project_dir(folders)
    lessons = [lesson for lesson in lesson_store.read(lesson_dir).lessons if lesson.kind in _LETTERS]
    return AnchorLessons(lesson_dir, tuple(sorted(lessons, key=lambda lesson: (lesson.first_seen, lesson.id))))


def keep(memory: AnchorLessons, sifted: RetentionResult, run_id: str) -> None:
    """Store the occurrences of a run, once however often it is judged, and write the page of all anchors."""
    if any(run_id in lesson.runs for lesson in memory.lessons):
        return
    made = [_draft(item.anchor, run_id, item.id) for item in sifted.retained]
    made += [_draft(anchor, run_id, "") for anchor in sifted.waiting]
    if not made:
        return
    with files.room_for("what was seen", memory.lesson_dir.folder):
        lesson_store.add_lessons(memory.lesson_dir, made, run_id)
    now = remembered(Folders(memory.lesson_dir.folder.parent.parent))
    files.write_atomic(
        memory.lesson_dir.folder / PAGE, languages.document(retention.anchors_page(now.retained(), HEAD))
    )


def _draft(anchor: Anchor, run_id: str, name: str) -> NewLesson:
    text = secrets.current_detector().redact(" ".join(anchor.text.split()))
    page = Page(
        kind=_KINDS[anchor.kind],
        title=text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…",
        body=text if len(text) > _LONGEST else "",
        signature=anchor.signature,
        impact=anchor.impact,
        reusable=anchor.reusable,
    )
    at = clock.stamp(clock.now())
    return NewLesson(page, Occurrence(lesson=page.id, at=at, run=run_id, level="L1", refs=(run_id,), name=name))
