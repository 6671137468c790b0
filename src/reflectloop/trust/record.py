"""The user's record of trusted projects: a private file that only the user can have written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import NotTrusted
from reflectloop.trust import private_file
from reflectloop.trust.digests import digest
from reflectloop.trust.grants import Grant

_VERSION = 1
_HEX = 64


class TrustEntry(NamedTuple):
    """One project's entry: the digest of each setting that the user trusted."""

    digests: Mapping[str, str]  # by the setting's name
    at: str


def path() -> Path:
    return private_file.state_folder() / "trust.json"


def is_trusted(root: Path, grants: Iterable[Grant]) -> bool:
    """Return True if the user trusted each of these grants in its present form."""
    known = read(root).get(os.fspath(root.resolve()))
    return known is not None and all(known.digests.get(grant.key) == digest(grant, root) for grant in grants)


def changed_grants(root: Path, grants: Iterable[Grant]) -> list[str]:
    """Return the grants that the user trusted in an earlier form."""
    known = read(root).get(os.fspath(root.resolve()))
    if known is None:
        return []
    return [grant.key for grant in grants if known.digests.get(grant.key, digest(grant, root)) != digest(grant, root)]


def trust(root: Path, digests: Mapping[str, str], at: str) -> None:
    _write({**read(root), os.fspath(root.resolve()): TrustEntry(digests, at)})


def revoke(root: Path) -> bool:
    """Remove a project; return True if it was trusted."""
    known = read(root)
    name = os.fspath(root.resolve())
    if name not in known:
        return False
    _write({project: entry for project, entry in known.items() if project != name})
    return True


def read(root: Path | None = None) -> dict[str, TrustEntry]:
    """Return every trusted project; raise NotTrusted if another user could have written the file."""
    raw = private_file.read(path(), root, _refusal)
    return {} if raw is None else _parse(raw)


def _parse(raw: bytes) -> dict[str, TrustEntry]:
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as fault:
        raise _refusal("it is not JSON") from fault
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        raise _refusal(f"it is not of version {_VERSION}")
    projects = document.get("projects")
    if not isinstance(projects, dict) or not all(_is_entry(entry) for entry in projects.values()):
        raise _refusal("it has an invalid entry")
    return {name: TrustEntry(entry["digests"], entry["at"]) for name, entry in projects.items()}


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, dict) or set(entry) != {"digests", "at"} or not isinstance(entry["at"], str):
        return False
    digests = entry["digests"]
    return isinstance(digests, dict) and all(
        isinstance(value, str) and len(value) == _HEX and set(value) <= set("0123456789abcdef")
        for value in digests.values()
    )


def _write(projects: Mapping[str, TrustEntry]) -> None:
    document = {"version": _VERSION, "projects": {name: entry._asdict() for name, entry in sorted(projects.items())}}
    text = json.dumps(document, indent=2) + "\n"
    private_file.write(path(), text, "the record of trust", _refusal)


def _refusal(why: str) -> NotTrusted:
    return NotTrusted(
        f"the record of trust {path()} is not accepted: {why}",
        next_step="check it and remove it, then: reflectloop trust",
    )
