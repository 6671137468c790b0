"""Sessions of an agent in the user's own folder: the tree at which each began, and how often it was held back."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from reflectloop.errors import InvalidInput, NothingToDo
from reflectloop.system import beneath, clock, files
from reflectloop.workspace import snapshot
from reflectloop.workspace.project import Project
from reflectloop.workspace.store import Store

_FOLDER = "sessions"
_RECORD = "session.json"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_LARGEST = 1 << 20  # bytes of a record


@dataclass(frozen=True)
class RefusedStop:
    """One time that the session was not allowed to end."""

    tree: str
    outcome: str
    failing: tuple[str, ...]
    at: str


@dataclass(frozen=True)
class Session:
    """One session of a client, such as Claude Code, in this project."""

    name: str
    client: str
    tree: str  # of the folder when the session began
    commit: str  # the user's HEAD then
    started: str
    refusals: tuple[RefusedStop, ...] = ()
    checkpoints: tuple[str, ...] = ()  # trees
    reminded: bool = False  # of tests that were red before it

    @property
    def ref(self) -> str:
        return f"session/{self.name}"


def safe_name(client: str, identity: str) -> str:
    """Return a name for a folder and a ref from a client's own id, which is foreign text."""
    plain = identity if _PLAIN.fullmatch(identity) and ".." not in identity and not identity.endswith(".lock") else ""
    return f"{client}-{plain or hashlib.sha256(identity.encode('utf-8', 'replace')).hexdigest()[:16]}"


def folder_of(own: Path, name: str) -> Path:
    return own / _FOLDER / name


def begin(
    project: Project, store: Store, own: Path, scratch: Path, client: str, identity: str, *, unseen: bool = False
) -> Session:
    """Record the tree of the folder as the start of a session; return the known session if it began before.

    A session whose start was `unseen` may have changed files already: it starts at the last commit.
    """
    name = safe_name(client, identity)
    known = read(own, name)
    if known:
        return known
    taken = snapshot.take_snapshot(project, store, scratch)
    tree = project.git().line("rev-parse", f"{project.head}^{{tree}}") if unseen and project.head else taken.tree
    session = Session(name, client, tree, project.head or taken.commit, clock.stamp(clock.now()))
    store.keep(session.ref, taken.commit)
    write(own, session)
    return session


def read(own: Path, name: str) -> Session | None:
    """Return a session, or None if there is none of this name. Raise InvalidInput if its record is damaged."""
    path = folder_of(own, name) / _RECORD
    try:
        raw = beneath.read_path(path, _LARGEST, within=own)
    except FileNotFoundError:
        return None
    try:
        return _parsed(json.loads(raw))
    except (ValueError, TypeError, KeyError) as fault:
        raise InvalidInput(f"{path} cannot be read: {fault}", next_step=f"remove {path}") from fault


def find(own: Path, name: str) -> Session:
    """Return a session by its name, or the newest for `latest`."""
    if name == "latest":
        records = sorted((own / _FOLDER).glob(f"*/{_RECORD}"), key=lambda path: path.stat().st_mtime_ns)
        name = records[-1].parent.name if records else ""
    session = read(own, name) if _PLAIN.fullmatch(name) else None
    if not session:
        raise NothingToDo("no session of an agent is known here", next_step="reflectloop install claude")
    return session


def write(own: Path, session: Session) -> None:
    files.write_atomic(folder_of(own, session.name) / _RECORD, json.dumps(asdict(session), indent=2) + "\n")


def with_refusal(session: Session, tree: str, outcome: str, failing: Sequence[str]) -> Session:
    refusal = RefusedStop(tree, outcome, tuple(failing), clock.stamp(clock.now()))
    return replace(session, refusals=(*session.refusals, refusal))


def _parsed(record: dict[str, Any]) -> Session:
    refusals = tuple(RefusedStop(**{**entry, "failing": tuple(entry["failing"])}) for entry in record.pop("refusals"))
    return Session(**{**record, "refusals": refusals, "checkpoints": tuple(record.pop("checkpoints"))})
