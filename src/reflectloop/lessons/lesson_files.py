"""The lesson files of a scope: one file per page, one file of occurrences per session, one writer at a time."""

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

OCCURRENCES = "sightings"
_FOLDERS = (*KINDS, OCCURRENCES)
_LONGEST = 64 << 20  # bytes of a file of occurrences
_TIMEOUT_S, _PAUSE_S = 10.0, 0.02


class LessonDir(NamedTuple):
    """The folders of one lesson scope."""

    folder: Path  # the source of truth
    cache: Path  # index and lock; may be deleted
    scope: Scope = "project"


class LessonFile(NamedTuple):
    """A file, and a stamp that changes with it."""

    name: str
    stamp: str


class Content(NamedTuple):
    """The content of a file; for a damaged one the readable part and its faults."""

    page: Page | None = None
    occurrences: tuple[Occurrence, ...] = ()
    faults: tuple[Fault, ...] = ()


# Reading ----------------------------------------------------------------------------------------------------------


def folder_stamps(lesson_dir: LessonDir, now_ns: int) -> dict[str, str]:
    """Return when a file was last added or removed, per folder.

    The stamp is empty if that was just now, since more files may follow within the same clock tick.
    """
    out = {}
    for folder in _FOLDERS:
        with contextlib.suppress(OSError):
            changed = (lesson_dir.folder / folder).stat().st_mtime_ns
            out[folder] = str(changed) if changed < now_ns - 50_000_000 else ""
    return out


def entries(lesson_dir: LessonDir) -> list[LessonFile]:
    return [entry for folder in _FOLDERS for entry in _entries(lesson_dir.folder, folder)]


def _entries(top: Path, folder: str) -> Iterator[LessonFile]:
    ending = ".jsonl" if folder == OCCURRENCES else ".md"
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


def stamp(lesson_dir: LessonDir, name: str) -> str:
    """Return the file's stamp, or "" if it does not exist."""
    try:
        return _stamp((lesson_dir.folder / name).lstat())
    except OSError:
        return ""


def content(lesson_dir: LessonDir, name: str) -> Content:
    try:
        with tree_walk.open_folder(lesson_dir.folder) as top:
            raw = beneath.read(top, name, _LONGEST)
    except OSError as fault:
        return Content(faults=(Fault(name, None, f"cannot be read: {fault.strerror}", InvalidInput.code),))
    if name.startswith(OCCURRENCES):
        return _occurrences(name, raw)
    try:
        return Content(lesson_page.read(raw))
    except lesson_page.DamagedPage as damaged:
        return Content(faults=tuple(_named(name, fault) for fault in damaged.faults))


def _named(name: str, fault: Fault) -> Fault:
    inside = f"{fault.path}: " if fault.path else ""
    return Fault(name, fault.line, f"{inside}{fault.message}", InvalidInput.code)


def _occurrences(name: str, raw: bytes) -> Content:
    occurrences, faults = [], []
    for number, line in enumerate(raw.split(b"\n")[:-1], 1):  # a crash may leave an incomplete last line
        if not line.strip():
            continue
        try:
            occurrences.append(Occurrence.model_validate_json(line))
        except ValidationError as fault:
            message = fault.errors()[0]["msg"]
            faults.append(Fault(name, number, f"not an occurrence: {message}", InvalidInput.code))
    return Content(occurrences=tuple(occurrences), faults=tuple(faults))


# Writing ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def writing(lesson_dir: LessonDir, purpose: str) -> Iterator[None]:
    """Lock the lessons for writing, waiting a while for another writer."""
    until = clock.monotonic() + _TIMEOUT_S
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(lock.hold_lock(lesson_dir.cache, purpose))
                break
            except Locked as busy:
                if clock.monotonic() > until:
                    raise Locked(
                        f"another process is writing the lessons: {lock.owner(lesson_dir.cache / 'lock')}"
                    ) from busy
                clock.wait(_PAUSE_S)
        yield


def put(lesson_dir: LessonDir, page: Page) -> str:
    """Write a page to its file, and return the file's name."""
    name = lesson_page.name(page)
    _refuse_link(lesson_dir, page.kind)
    files.write_atomic(lesson_dir.folder / name, lesson_page.text(page))
    return name


def amend(lesson_dir: LessonDir, name: str, field: str, value: str) -> None:
    """Set one field of a page's file, or raise InvalidInput if the result would not be valid."""
    path = lesson_dir.folder / name
    new = lesson_page.with_field(beneath.read_path(path, _LONGEST, within=lesson_dir.folder).decode(), field, value)
    try:
        lesson_page.read(new.encode())
    except lesson_page.DamagedPage as damaged:
        raise InvalidInput(
            f"{path} cannot be changed: {damaged}", next_step=f"write {field}: {value} yourself"
        ) from None
    files.write_atomic(path, new)


def note(lesson_dir: LessonDir, session_id: str, occurrences: Sequence[Occurrence]) -> None:
    """Append occurrences to this process's own file; no other branch has that file, so git merges never conflict."""
    if not occurrences:
        return
    lines = "".join(occurrence.model_dump_json(exclude_defaults=True) + "\n" for occurrence in occurrences)
    _refuse_link(lesson_dir, OCCURRENCES)
    path = lesson_dir.folder / OCCURRENCES / f"{session_id}.jsonl"
    before = beneath.read_path(path, _LONGEST, within=lesson_dir.folder) if path.exists() else b""
    files.write_atomic(path, before[: before.rfind(b"\n") + 1] + lines.encode())


def _refuse_link(lesson_dir: LessonDir, folder: str) -> None:
    """Raise InvalidInput if the folder is a link, which could lead the writer outside the project."""
    if (lesson_dir.folder / folder).is_symlink():
        raise InvalidInput(f"{lesson_dir.folder / folder} is a link", next_step="inspect it and remove it")


def refuse_secret(text: str, what: str) -> None:
    """Raise SecretLeak if the text may contain a secret, since lessons are committed and shown to agents."""
    for match in secrets.current_detector().scan(text.encode("utf-8", "replace")):
        description = f"{match.rule}, fingerprint {match.fingerprint}"
        subject = secrets.current_detector().redact(what)
        raise SecretLeak(
            f"{subject} contains what looks like a secret ({description}); it was not saved",
            next_step="write it without the secret",
        )
