"""Sessions of an agent in the user's own folder: the tree at which each began, and how often it was held back."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from reflectloop.errors import NothingToDo
from reflectloop.system import clock
from reflectloop.system.patterns import lazy
from reflectloop.workspace import session_records, snapshot
from reflectloop.workspace.project import Project
from reflectloop.workspace.store import Store

_PLAIN = lazy(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


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
    disturbed: bool = False  # its record in the project was edited or deleted
    told: bool = False  # that it was
    start_known: bool = True  # False if no record of its start can be believed

    @property
    def ref(self) -> str:
        return f"session/{self.name}"


def safe_name(client: str, identity: str) -> str:
    """Return a name for a folder and a ref from a client's own id, which is foreign text."""
    plain = identity if _PLAIN.fullmatch(identity) and ".." not in identity and not identity.endswith(".lock") else ""
    return f"{client}-{plain or hashlib.sha256(identity.encode('utf-8', 'replace')).hexdigest()[:16]}"


def folder_of(own: Path, name: str) -> Path:
    return session_records.place_of(own, name).parent


def begin(
    project: Project, store: Store, own: Path, scratch: Path, client: str, identity: str, *, unseen: bool = False
) -> Session:
    """Record the tree of the folder as the start of a session; return the known session if it began before.

    A session whose start was `unseen` may have changed files already: it starts at the last commit. So does one whose
    record was edited, if no copy of it is left that can be believed.
    """
    name = safe_name(client, identity)
    known, disturbed = _known(own, name)
    if known and not known.disturbed:
        return known
    if known and store.git().attempt("cat-file", "-e", f"{known.tree}^{{tree}}").code == 0:
        return known
    disturbed = disturbed or known is not None
    taken = snapshot.take_snapshot(project, store, scratch)
    late = (unseen or disturbed) and project.head
    tree = project.git().line("rev-parse", f"{project.head}^{{tree}}") if late else taken.tree
    session = Session(name, client, tree, project.head or taken.commit, clock.stamp(clock.now()))
    session = replace(session, disturbed=disturbed, start_known=not disturbed)
    store.keep(session.ref, taken.commit)
    write(own, session)
    return session


def read(own: Path, name: str) -> Session | None:
    """Return a session, or None if there is none of this name whose record can be believed."""
    return _known(own, name)[0]


def _known(own: Path, name: str) -> tuple[Session | None, bool]:
    """Return a session, and whether its record in the project was edited or deleted."""
    stored = session_records.read(own, name)
    if stored.fields is None:
        return None, stored.disturbed
    try:
        session = _parsed(stored.fields)
    except (TypeError, KeyError):  # of another version
        return None, True
    if stored.disturbed:
        session = replace(session, disturbed=True)
        write(own, session)
    return session, stored.disturbed


def find(own: Path, name: str) -> Session:
    """Return a session by its name, or the newest for `latest`."""
    if name == "latest":
        records = sorted(
            (own / session_records.FOLDER).glob(f"*/{session_records.NAME}"), key=lambda path: path.stat().st_mtime_ns
        )
        name = records[-1].parent.name if records else ""
    session = read(own, name) if _PLAIN.fullmatch(name) else None
    if not session:
        raise NothingToDo("no session of an agent is known here", next_step="reflectloop install claude")
    return session


def write(own: Path, session: Session) -> None:
    session_records.write(own, session.name, asdict(session))


def with_refusal(session: Session, tree: str, outcome: str, failing: Sequence[str]) -> Session:
    refusal = RefusedStop(tree, outcome, tuple(failing), clock.stamp(clock.now()))
    return replace(session, refusals=(*session.refusals, refusal))


def _parsed(record: dict[str, Any]) -> Session:
    refusals = tuple(RefusedStop(**{**entry, "failing": tuple(entry["failing"])}) for entry in record.pop("refusals"))
    return Session(**{**record, "refusals": refusals, "checkpoints": tuple(record.pop("checkpoints"))})
