"""Where the lessons of a scope lie: a page a file, the sightings of a sitting a file, one writer at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from reflectloop import secrets
from reflectloop.errors import Fault, InvalidInput, Locked, SecretLeak
from reflectloop.knowledge import pages
from reflectloop.knowledge.lesson import KINDS, Page, Scope, Sighting
from reflectloop.state import lock
from reflectloop.world import beneath, clock, files, trees

SIGHTINGS = "sightings"
_FOLDERS = (*KINDS, SIGHTINGS)
_LONGEST = 64 << 20  # of a file of sightings
_PATIENCE_S, _PAUSE_S = 10.0, 0.02


class Shelf(NamedTuple):
    folder: Path  # the truth
    desk: Path  # index and lock; may be deleted
    scope: Scope = "project"


class Entry(NamedTuple):
    """A file, and by what it is seen that it changed."""

    name: str
    stamp: str


class Content(NamedTuple):
    """What a file says; of a damaged one what can be read of it, and what is wrong."""

    page: Page | None = None
    sightings: tuple[Sighting, ...] = ()
    faults: tuple[Fault, ...] = ()


# Looking ----------------------------------------------------------------------------------------------------------


def folder_stamps(shelf: Shelf, now_ns: int) -> dict[str, str]:
    """When a name last came or went, by folder; empty where that was just now, since more may come in the same tick."""
    out = {}
    for folder in _FOLDERS:
        with contextlib.suppress(OSError):
            changed = (shelf.folder / folder).stat().st_mtime_ns
            out[folder] = str(changed) if changed < now_ns - 50_000_000 else ""
    return out


def entries(shelf: Shelf) -> list[Entry]:
    return [entry for folder in _FOLDERS for entry in _entries(shelf.folder, folder)]


def _entries(top: Path, folder: str) -> Iterator[Entry]:
    ending = ".jsonl" if folder == SIGHTINGS else ".md"
    if (top / folder).is_symlink():
        return
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(top / folder) as found:
        for one in found:
            # A link would show what lies outside as a lesson.
            if one.name.endswith(ending) and not one.name.startswith(".") and one.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):
                    yield Entry(f"{folder}/{one.name}", _stamp(one.stat(follow_symlinks=False)))


def _stamp(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns}-{status.st_size}-{status.st_ino}"


def stamp(shelf: Shelf, name: str) -> str:
    """Empty where the file is gone."""
    try:
        return _stamp((shelf.folder / name).lstat())
    except OSError:
        return ""


def content(shelf: Shelf, name: str) -> Content:
    try:
        with trees.opened(shelf.folder) as top:
            raw = beneath.read(top, name, _LONGEST)
    except OSError as fault:
        return Content(faults=(Fault(name, None, f"cannot be read: {fault.strerror}", InvalidInput.code),))
    if name.startswith(SIGHTINGS):
        return _sightings(name, raw)
    try:
        return Content(pages.read(raw))
    except pages.Damaged as damaged:
        return Content(faults=tuple(_named(name, fault) for fault in damaged.faults))


def _named(name: str, fault: Fault) -> Fault:
    inside = f"{fault.path}: " if fault.path else ""
    return Fault(name, fault.line, f"{inside}{fault.message}", InvalidInput.code)


def _sightings(name: str, raw: bytes) -> Content:
    found, faults = [], []
    for number, line in enumerate(raw.split(b"\n")[:-1], 1):  # a torn last line is what a crash leaves
        if not line.strip():
            continue
        try:
            found.append(Sighting.model_validate_json(line))
        except ValidationError as fault:
            said = fault.errors()[0]["msg"]
            faults.append(Fault(name, number, f"no sighting: {said}", InvalidInput.code))
    return Content(sightings=tuple(found), faults=tuple(faults))


# Writing ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def writing(shelf: Shelf, purpose: str) -> Iterator[None]:
    """One writer at a time; another is waited for, for a while."""
    until = clock.monotonic() + _PATIENCE_S
    with contextlib.ExitStack() as held:
        while True:
            try:
                held.enter_context(lock.hold(shelf.desk, purpose))
                break
            except Locked as busy:
                if clock.monotonic() > until:
                    raise Locked(f"the lessons are being written: {lock.owner(shelf.desk / 'lock')}") from busy
                clock.wait(_PAUSE_S)
        yield


def put(shelf: Shelf, page: Page) -> str:
    name = pages.name(page)
    _refuse_link(shelf, page.kind)
    files.write_atomic(shelf.folder / name, pages.text(page))
    return name


def amend(shelf: Shelf, name: str, field: str, value: str) -> None:
    path = shelf.folder / name
    new = pages.with_field(beneath.read_path(path, _LONGEST, within=shelf.folder).decode(), field, value)
    try:
        pages.read(new.encode())
    except pages.Damaged as damaged:
        raise InvalidInput(
            f"{path} cannot be changed: {damaged}", next_step=f"write {field}: {value} yourself"
        ) from None
    files.write_atomic(path, new)


def note(shelf: Shelf, sitting: str, sightings: Sequence[Sighting]) -> None:
    """In a file of this sitting's own: no other branch has one of that name, so nothing is there to conflict."""
    if not sightings:
        return
    lines = "".join(one.model_dump_json(exclude_defaults=True) + "\n" for one in sightings)
    _refuse_link(shelf, SIGHTINGS)
    path = shelf.folder / SIGHTINGS / f"{sitting}.jsonl"
    before = beneath.read_path(path, _LONGEST, within=shelf.folder) if path.exists() else b""
    files.write_atomic(path, before[: before.rfind(b"\n") + 1] + lines.encode())


def _refuse_link(shelf: Shelf, folder: str) -> None:
    """A repository can bring a link along; what is written through it would land where it leads."""
    if (shelf.folder / folder).is_symlink():
        raise InvalidInput(f"{shelf.folder / folder} is a link", next_step="look at it and remove it")


def refuse_secret(text: str, what: str) -> None:
    """Lessons are committed and shown to agents: nothing that may be a secret is kept in one."""
    for one in secrets.current().scan(text.encode("utf-8", "replace")):
        found = f"{one.rule}, fingerprint {one.fingerprint}"
        raise SecretLeak(
            f"{secrets.current().redact(what)} holds what looks like a secret ({found}); it was not kept",
            next_step="say it without the secret",
        )
