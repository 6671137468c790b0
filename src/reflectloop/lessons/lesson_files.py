"""The lesson files of a scope: one file per page, one file of sightings per session, one writer at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from reflectloop import secrets
from reflectloop.errors import Fault, InvalidInput, Locked, SecretLeak
from reflectloop.lessons import lesson_page
from reflectloop.lessons.lesson import KINDS, Occurrence, Page, Scope
from reflectloop.state import lock
from reflectloop.system import beneath, clock, files, tree_walk

SIGHTINGS = "sightings"
_FOLDERS = (*KINDS, SIGHTINGS)
_LONGEST = 64 << 20  # bytes of a sightings file
_TIMEOUT_S, _PAUSE_S = 10.0, 0.02


class LessonDir(NamedTuple):
    """The folders of one lesson scope."""

    folder: Path  # the source of truth
    desk: Path  # index and lock; may be deleted
    scope: Scope = "project"


class LessonFile(NamedTuple):
    """A file, and a stamp that changes with it."""

    name: str
    stamp: str


class Content(NamedTuple):
    """The content of a file; for a damaged one the readable part and its faults."""

    page: Page | None = None
    sightings: tuple[Occurrence, ...] = ()
    faults: tuple[Fault, ...] = ()


# Reading ----------------------------------------------------------------------------------------------------------


def folder_stamps(shelf: LessonDir, now_ns: int) -> dict[str, str]:
    """Return when a file was last added or removed, per folder.

    The stamp is empty if that was just now, since more files may follow within the same clock tick.
    """
    out = {}
    for folder in _FOLDERS:
        with contextlib.suppress(OSError):
            changed = (shelf.folder / folder).stat().st_mtime_ns
            out[folder] = str(changed) if changed < now_ns - 50_000_000 else ""
    return out


def entries(shelf: LessonDir) -> list[LessonFile]:
    return [entry for folder in _FOLDERS for entry in _entries(shelf.folder, folder)]


def _entries(top: Path, folder: str) -> Iterator[LessonFile]:
    ending = ".jsonl" if folder == SIGHTINGS else ".md"
    if (top / folder).is_symlink():
        return
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(top / folder) as listing:
        for item in listing:
            # A link could present an outside file as a lesson.
            if item.name.endswith(ending) and not item.name.startswith(".") and item.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):
                    yield LessonFile(f"{folder}/{item.name}", _stamp(item.stat(follow_symlinks=False)))


def _stamp(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns}-{status.st_size}-{status.st_ino}"


def stamp(shelf: LessonDir, name: str) -> str:
    """Return the file's stamp, or "" if it does not exist."""
    try:
        return _stamp((shelf.folder / name).lstat())
    except OSError:
        return ""


def content(shelf: LessonDir, name: str) -> Content:
    try:
        with tree_walk.open_folder(shelf.folder) as top:
            raw = beneath.read(top, name, _LONGEST)
    except OSError as fault:
        return Content(faults=(Fault(name, None, f"cannot be read: {fault.strerror}", InvalidInput.code),))
    if name.startswith(SIGHTINGS):
        return _sightings(name, raw)
    try:
        return Content(lesson_page.read(raw))
    except lesson_page.DamagedPage as damaged:
        return Content(faults=tuple(_named(name, fault) for fault in damaged.faults))


def _named(name: str, fault: Fault) -> Fault:
    inside = f"{fault.path}: " if fault.path else ""
    return Fault(name, fault.line, f"{inside}{fault.message}", InvalidInput.code)


def _sightings(name: str, raw: bytes) -> Content:
    sightings, faults = [], []
    for number, line in enumerate(raw.split(b"\n")[:-1], 1):  # a crash may leave an incomplete last line
        if not line.strip():
            continue
        try:
            sightings.append(Occurrence.model_validate_json(line))
        except ValidationError as fault:
            message = fault.errors()[0]["msg"]
            faults.append(Fault(name, number, f"not a sighting: {message}", InvalidInput.code))
    return Content(sightings=tuple(sightings), faults=tuple(faults))


# Writing ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def writing(shelf: LessonDir, purpose: str) -> Iterator[None]:
    """Lock the lessons for writing, waiting a while for another writer."""
    until = clock.monotonic() + _TIMEOUT_S
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(lock.hold_lock(shelf.desk, purpose))
                break
            except Locked as busy:
                if clock.monotonic() > until:
                    raise Locked(f"another process is writing the lessons: {lock.owner(shelf.desk / 'lock')}") from busy
                clock.wait(_PAUSE_S)
        yield


def put(shelf: LessonDir, page: Page) -> str:
    """Write a page to its file, and return the file's name."""
    name = lesson_page.name(page)
    _refuse_link(shelf, page.kind)
    files.write_atomic(shelf.folder / name, lesson_page.text(page))
    return name


def amend(shelf: LessonDir, name: str, field: str, value: str) -> None:
    """Set one field of a page's file, or raise InvalidInput if the result would not be valid."""
    path = shelf.folder / name
    new = lesson_page.with_field(beneath.read_path(path, _LONGEST, within=shelf.folder).decode(), field, value)
    try:
        lesson_page.read(new.encode())
    except lesson_page.DamagedPage as damaged:
        raise InvalidInput(
            f"{path} cannot be changed: {damaged}", next_step=f"write {field}: {value} yourself"
        ) from None
    files.write_atomic(path, new)


def note(shelf: LessonDir, sitting: str, sightings: Sequence[Occurrence]) -> None:
    """Append sightings to this process's own file; no other branch has that file, so git merges never conflict."""
    if not sightings:
        return
    lines = "".join(sighting.model_dump_json(exclude_defaults=True) + "\n" for sighting in sightings)
    _refuse_link(shelf, SIGHTINGS)
    path = shelf.folder / SIGHTINGS / f"{sitting}.jsonl"
    before = beneath.read_path(path, _LONGEST, within=shelf.folder) if path.exists() else b""
    files.write_atomic(path, before[: before.rfind(b"\n") + 1] + lines.encode())


def _refuse_link(shelf: LessonDir, folder: str) -> None:
    """Raise InvalidInput if the folder is a link, which could lead the writer outside the project."""
    if (shelf.folder / folder).is_symlink():
        raise InvalidInput(f"{shelf.folder / folder} is a link", next_step="inspect it and remove it")


def refuse_secret(text: str, what: str) -> None:
    """Raise SecretLeak if the text may contain a secret, since lessons are committed and shown to agents."""
    for match in secrets.current_detector().scan(text.encode("utf-8", "replace")):
        description = f"{match.rule}, fingerprint {match.fingerprint}"
        subject = secrets.current_detector().redact(what)
        raise SecretLeak(
            f"{subject} contains what looks like a secret ({description}); it was not saved",
            next_step="write it without the secret",
        )
