"""Find the verification that already proved the same change under the same conditions, so that nothing runs twice."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import reflectloop
from reflectloop import settings_files
from reflectloop.errors import ReflectloopError
from reflectloop.system import files, tree_walk
from reflectloop.terms import OutcomeWord
from reflectloop.trust import signing
from reflectloop.verification import evidence
from reflectloop.verification.evidence import RECEIPT, SignatureState
from reflectloop.workspace.folders import Folders

if TYPE_CHECKING:
    from reflectloop.config import Config
    from reflectloop.verification.result import DetectedCheck

CONDITIONS = "conditions"  # in a receipt: the hash of all that the verdict depends on, besides the trees
VERDICT = "verdict.json"
_LARGEST = 8 << 20  # bytes of a file of ours


class ProvenBefore(NamedTuple):
    """A verification that ended with PASS."""

    run_id: str
    folder: Path
    finished: str
    data: dict[str, Any]  # as `verify --json` printed it
    envelope: dict[str, Any]


@functools.cache
def program() -> list[str]:
    """Return the files of this engine with their times: another engine may judge differently."""
    folder = Path(reflectloop.__file__).parent
    listed = []
    for inside in tree_walk.walk(folder):
        inside.entries = [entry for entry in inside.entries if entry.name != "__pycache__"]
        listed += [
            f"{inside.within(entry.name)!r} {entry.stat().st_size} {entry.stat().st_mtime_ns}"
            for entry in inside.entries
            if entry.is_file(follow_symlinks=False)
        ]
    return [reflectloop.__version__, *sorted(listed)]


def policy_rules(settings: Config, root: Path) -> list[str]:
    """Return the project's own files of policy rules with the hashes of their contents."""
    return [f"{path} {_content_hash(path)}" for path in settings_files.policy_rules(root, settings.policy.rules)]


def _content_hash(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as fault:
        return str(fault)


def checks(folders: Folders, tree: str, detect: Callable[[], list[DetectedCheck]]) -> list[DetectedCheck]:
    """Return the checks that this engine detects in a tree; they are looked for once, since a tree never changes."""
    from reflectloop.verification.result import DetectedCheck  # noqa: PLC0415 - a hook that detects nothing starts sooner

    key, user_key = hashed([program(), tree]), None if signing.lies_in(folders.root) else signing.key()
    if user_key is None:
        return detect()  # nobody could believe what is written
    path = folders.own / "cache" / "checks" / f"{key}.json"
    before = read_json(path)

    def signature(rows: object) -> str:
        return user_key.sign("checks", evidence.canonical([key, rows]))

    if signing.matches(str(before.get("mac")), signature(before.get("checks"))):
        return [DetectedCheck(*row)._replace(command=tuple(row[3])) for row in before["checks"]]
    detected = detect()
    rows = [[*check] for check in detected]
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomic(path, json.dumps({"checks": rows, "mac": signature(rows)}), mode=0o600)
    return detected


def hashed(conditions: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(conditions, default=str).encode()).hexdigest()


def find(folders: Folders, base: str, tree: str, conditions: Callable[[], str]) -> ProvenBefore | None:
    """Return the newest signed PASS, without approvals, on this change under these conditions.

    The conditions are computed only if there is a receipt about this change.
    """
    every = sorted((folders.own / "verifications").glob(f"*/{RECEIPT}"), key=lambda path: path.parent.name)
    wanted = {"base_tree": base, "tree": tree, "outcome": str(OutcomeWord.PASS)}
    for path in reversed(every):
        receipt = read_json(path)
        if any(receipt.get(name) != value for name, value in wanted.items()) or receipt.get("approvals"):
            continue
        if receipt.get(CONDITIONS) != conditions():
            continue
        written = read_json(path.parent / VERDICT) if is_authentic(folders.root, path) else {}
        if isinstance(written.get("data"), dict) and isinstance(written.get("envelope"), dict):
            finished = str(receipt.get("finished"))
            return ProvenBefore(path.parent.name, path.parent, finished, written["data"], written["envelope"])
    return None


def is_authentic(root: Path, path: Path) -> bool:
    """Return True if this user's engine signed a receipt, and its files are unchanged.

    The patch is not applied again, as `receipt verify` does: the caller has computed the trees.
    """
    try:
        check = evidence.verify(path)
    except ReflectloopError:
        return False
    return not check.faults and check.signed is SignatureState.HERE and not signing.lies_in(root)


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object of ours; empty if there is none that can be read."""
    try:
        if path.stat().st_size > _LARGEST:
            return {}
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
