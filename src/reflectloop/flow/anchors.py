"""Where 识 keeps what it has seen: every sighting a line, counted across tasks; and the pages made from it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from reflectloop import secrets
from reflectloop.errors import StateDamaged
from reflectloop.flow.folders import Folders
from reflectloop.gates import store
from reflectloop.gates.insight import Anchor
from reflectloop.gates.store import Kept, Sifted
from reflectloop.state import journal
from reflectloop.state.events import Json
from reflectloop.workspace.published import HEAD
from reflectloop.world import files

SEEN, PAGE, COMPACT = "anchors.jsonl", "anchors.md", "compact.md"


class Memory(NamedTuple):
    """The sightings of a project. Lessons themselves are kept by whoever comes after; this is what they build on."""

    folder: Path
    sightings: tuple[Json, ...]

    @property
    def known(self) -> dict[str, str]:
        return {str(one["signature"]): str(one["id"]) for one in self.sightings if one["id"]}

    def counts(self, but: str) -> Counter[str]:
        """How often each was seen, in other runs than this one."""
        return Counter(str(one["signature"]) for one in self.sightings if one["run_id"] != but)

    def sift(self, found: Sequence[Anchor], run_id: str) -> Sifted:
        return store.sift(found, self.counts(run_id), self.known)

    def kept(self) -> list[Kept]:
        """Each once, as it was last seen."""
        last = {str(one["id"]): one for one in self.sightings if one["id"]}
        times = Counter(str(one["signature"]) for one in self.sightings)
        return [_kept(one, times[str(one["signature"])]) for _, one in sorted(last.items())]


def _kept(one: Json, seen: int) -> Kept:
    return Kept(str(one["id"]), Anchor(str(one["kind"]), str(one["text"])), seen, str(one["why"]))  # type: ignore[arg-type]


def remembered(folders: Folders) -> Memory:
    folder = folders.own / "knowledge"
    raw = journal.content(folder / SEEN)
    lines = raw.split(b"\n")[:-1]  # a torn last line is what a crash leaves
    return Memory(folder, tuple(_line(folder / SEEN, number, line) for number, line in enumerate(lines, 1)))


def _line(path: Path, number: int, line: bytes) -> Json:
    found = journal.unseal(line)
    if found is None:
        raise StateDamaged(f"{path}:{number}: the checksum does not match", next_step=f"move {path} away")
    return found


def keep(memory: Memory, sifted: Sifted, run_id: str) -> None:
    """Write the sightings of a run down, once however often it is judged, and the page of all that is kept."""
    if any(one["run_id"] == run_id for one in memory.sightings):
        return
    made = [_sighting(one.anchor, run_id, one.id, one.why) for one in sifted.kept]
    made += [_sighting(anchor, run_id, None, "") for anchor in sifted.waiting]
    if not made:
        return
    with files.room_for("what was seen", memory.folder):
        memory.folder.mkdir(parents=True, exist_ok=True)
        _append(memory.folder / SEEN, b"".join(map(journal.seal, made)))
    now = memory._replace(sightings=(*memory.sightings, *made))
    files.write_atomic(memory.folder / PAGE, store.anchors_page(now.kept(), HEAD))


def _sighting(anchor: Anchor, run_id: str, name: str | None, why: str) -> Json:
    return {
        "signature": anchor.signature,
        "kind": anchor.kind,
        "text": secrets.current().redact(anchor.text),
        "id": name,
        "why": why,
        "run_id": run_id,
    }


def _append(path: Path, raw: bytes) -> None:
    """After the last whole line, on disk before we go on."""
    whole = journal.content(path).rfind(b"\n") + 1
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(target, whole)
        os.lseek(target, 0, os.SEEK_END)
        os.write(target, raw)
        os.fsync(target)
    finally:
        os.close(target)
