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

    shelf: LessonDir
    lessons: tuple[Lesson, ...]

    @property
    def known(self) -> dict[str, str]:
        names = self._names()
        return {mark: names[one.id] for one in self.lessons if one.name for mark in _marks(one)}

    def counts(self, but: str) -> dict[str, int]:
        """Return how often each anchor was seen in other runs than this one."""
        return {mark: one.count - (but in one.runs) for one in self.lessons for mark in _marks(one)}

    def sift(self, found: Sequence[Anchor], run_id: str) -> RetentionResult:
        return retention.select_anchors(found, self.counts(run_id), self.known)

    def kept(self) -> list[RetainedAnchor]:
        """All that is in force."""
        names = self._names()
        made = [(one, _anchor(one)) for one in self.lessons if one.status == "active"]
        kept = [
            RetainedAnchor(names[one.id], anchor, one.count, retention.reason_to_keep(anchor, one.count))
            for one, anchor in made
        ]
        return sorted(kept, key=lambda one: one.id)

    def _names(self) -> dict[str, str]:
        """Return the name of each lesson. If two branches gave the same number, the older lesson keeps it."""
        out: dict[str, str] = {}
        for one in self.lessons:
            taken = one.name in out.values()
            out[one.id] = retention.next_id(_LETTERS[one.kind], list(out.values())) if taken else one.name or one.id
        return out


def _anchor(one: Lesson) -> Anchor:
    return Anchor(_LETTERS[one.kind], one.title, one.impact, one.reusable)


def _marks(one: Lesson) -> set[str]:
    """A person's lesson of the same words is the same."""
    return {one.signature, _anchor(one).signature, *one.aliases}


def remembered(folders: Folders) -> AnchorLessons:
    shelf = lesson_scopes.project_dir(folders)
    found = [one for one in lesson_store.read(shelf).lessons if one.kind in _LETTERS]
    return AnchorLessons(shelf, tuple(sorted(found, key=lambda one: (one.first_seen, one.id))))


def keep(memory: AnchorLessons, sifted: RetentionResult, run_id: str) -> None:
    """Write the sightings of a run down, once however often it is judged, and the page of all that is kept."""
    if any(run_id in one.runs for one in memory.lessons):
        return
    made = [_draft(one.anchor, run_id, one.id) for one in sifted.retained]
    made += [_draft(anchor, run_id, "") for anchor in sifted.waiting]
    if not made:
        return
    with files.room_for("what was seen", memory.shelf.folder):
        lesson_store.keep(memory.shelf, made, run_id)
    now = remembered(Folders(memory.shelf.folder.parent.parent))
    files.write_atomic(memory.shelf.folder / PAGE, languages.document(retention.anchors_page(now.kept(), HEAD)))


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
