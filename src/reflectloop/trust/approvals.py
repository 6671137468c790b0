"""The user's store of approvals: which findings on which change a person agreed to, who, when and why.

One private file for each change, by its base tree and its tree: a changed patch or base has another file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import NotTrusted
from reflectloop.system import files
from reflectloop.trust import private_file

_VERSION = 1


class Approval(NamedTuple):
    """One finding that a person approved."""

    finding: str
    text: str
    by: str
    reason: str
    at: str = ""
    run_id: str = ""

    def __str__(self) -> str:
        return f"{self.by}: {self.reason}"


def path(base_tree: str, tree: str) -> Path:
    name = hashlib.sha256(json.dumps([base_tree, tree]).encode()).hexdigest()[:32]
    return private_file.state_folder() / "approvals" / f"{name}.json"


def read(root: Path, base_tree: str, tree: str) -> dict[str, Approval]:
    """Return the approvals of a change by finding; raise NotTrusted if another user could have written the file."""
    place = path(base_tree, tree)
    if not os.path.lexists(place):
        return {}
    raw = private_file.read(place, root, lambda why: _refusal(place, why))
    return {} if raw is None else _parse(place, raw, base_tree, tree)


def add(root: Path, base_tree: str, tree: str, approvals: Iterable[Approval]) -> None:
    """Record approvals, beside those that the change has already."""
    place = path(base_tree, tree)
    if place.resolve().is_relative_to(root.resolve()):
        raise _refusal(place, "it would be inside the project")
    merged = {**read(root, base_tree, tree), **{approval.finding: approval for approval in approvals}}
    document = {
        "version": _VERSION,
        "base_tree": base_tree,
        "tree": tree,
        "approvals": [approval._asdict() for approval in merged.values()],
    }
    text = files.json_text(document) + "\n"
    private_file.write(place, text, "the store of approvals", lambda why: _refusal(place, why))


def _parse(place: Path, raw: bytes, base_tree: str, tree: str) -> dict[str, Approval]:
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as fault:
        raise _refusal(place, "it is not JSON") from fault
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        raise _refusal(place, f"it is not of version {_VERSION}")
    if (document.get("base_tree"), document.get("tree")) != (base_tree, tree):
        raise _refusal(place, "it is about another change")
    entries = document.get("approvals")
    if not isinstance(entries, list) or not all(_is_entry(entry) for entry in entries):
        raise _refusal(place, "it has an invalid entry")
    return {entry["finding"]: Approval(**entry) for entry in entries}


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, dict) or set(entry) != set(Approval._fields):
        return False
    return all(isinstance(value, str) for value in entry.values()) and bool(entry["finding"] and entry["reason"])


def _refusal(place: Path, why: str) -> NotTrusted:
    return NotTrusted(
        f"the store of approvals {place} is not accepted: {why}",
        next_step="check it and remove it, then approve again: reflectloop approve RUN --reason TEXT",
    )
