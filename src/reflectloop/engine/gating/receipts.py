"""Reading proofs back: a receipt and all it speaks of, and what is protected here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reflectloop.engine.gating import one_truth
from reflectloop.errors import InvalidInput, NotAuthenticated, NothingToDo, ReflectloopError
from reflectloop.plan.globs import matches_any
from reflectloop.system import clock, files
from reflectloop.system.git import GitFailed
from reflectloop.verification import evidence, protected
from reflectloop.verification.evidence import RECEIPT, ReceiptCheck, SignatureState
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.workspace import object_hashes, project
from reflectloop.workspace.folders import Folders, open_project_dirs
from reflectloop.workspace.store import open_store

if TYPE_CHECKING:
    from reflectloop.config import Config


class ReceiptResult(NamedTuple):
    path: Path
    verified: ReceiptCheck
    trees: str  # what could be said of them, in words
    unsigned: list[str]  # why it cannot be authenticated; empty if it can

    def data(self) -> dict[str, Any]:
        return {
            "path": os.fspath(self.path),
            "unchanged": not self.verified.faults,
            "faults": self.verified.faults,
            "authenticated": not self.verified.faults and not self.unsigned,
            "signed": str(self.verified.signed),
            "trees": self.trees,
            "receipt": self.verified.receipt,
            "evidence": self.verified.records,
        }

    def refuse_changed(self) -> None:
        if self.verified.faults:
            raise InvalidInput(
                f"{self.path}: {'; '.join(self.verified.faults)}", next_step="do not trust it; verify the change again"
            )

    def refuse_unsigned(self) -> None:
        """Raise if the hashes agree, but nothing shows that this user's engine wrote them."""
        if self.unsigned:
            raise NotAuthenticated(
                f"{self.path}: {len(self.verified.records)} record(s), hashes agree; {'; '.join(self.unsigned)}",
                next_step="check it on the machine that made it, or verify the change again: reflectloop verify",
            )


def checked(start: Path, name: str | None) -> ReceiptResult:
    """Check a receipt, named by its file or by its run (the newest if not named), and its trees if they are here."""
    path = _find(start, name)
    receipt = evidence.verify(path)
    words, faults = _trees(start, path, receipt)
    other_faults, unsigned = _beside(start, path, receipt)
    return ReceiptResult(path, receipt._replace(faults=[*receipt.faults, *faults, *other_faults]), words, unsigned)


def _beside(start: Path, path: Path, receipt: ReceiptCheck) -> tuple[list[str], list[str]]:
    """Compare a receipt with the journal and the objects of its project; return faults, and what is not signed."""
    try:
        folders = open_project_dirs(start)
        home = project.open_project(folders.root)
        store = open_store(home, _settings(folders).workspace)
    except ReflectloopError:
        return [], [] if receipt.signed is SignatureState.HERE else [f"{RECEIPT}: {receipt.signed}"]
    unsigned = one_truth.not_authenticated(folders.root, receipt)
    if not path.resolve().is_relative_to(folders.own.resolve()):
        return [], unsigned
    records = one_truth.find_run(folders, str(receipt.receipt.get("run_id")))
    faults = one_truth.faults_between(records, receipt) if records else []
    unsigned += records.unsigned if records else []
    base, tree = str(receipt.receipt.get("base_tree")), str(receipt.receipt.get("tree"))
    if store.git().attempt("cat-file", "-e", tree).code == 0:
        wrong = object_hashes.first_fault(store.git(), store.object_format, base, tree)
        faults += [wrong] if wrong else []
    return faults, unsigned


def _settings(folders: Folders) -> Config:
    from reflectloop import config  # noqa: PLC0415 - loads pydantic, and the stop gate needs no settings

    return config.load(folders.root)


def _find(start: Path, name: str | None) -> Path:
    if name and (os.sep in name or name.endswith(".json")):
        return Path(name) / RECEIPT if Path(name).is_dir() else Path(name)
    own = open_project_dirs(start).own
    every = sorted((*own.glob(f"runs/*/{RECEIPT}"), *own.glob(f"verifications/*/{RECEIPT}")), key=_age)
    fitting = [path for path in every if not name or name in path.parent.name]
    if not fitting:
        raise NothingToDo(f"there is no receipt{f' of {name!r}' if name else ''} here", next_step="reflectloop verify")
    return fitting[-1]


def _age(path: Path) -> int:
    return path.stat().st_mtime_ns


def _trees(start: Path, path: Path, receipt: ReceiptCheck) -> tuple[str, list[str]]:
    """Return whether base and patch still make the tree that was judged."""
    change = path.parent / "changes.patch"
    base, tree = receipt.receipt.get("base_tree"), receipt.receipt.get("tree")
    try:
        folders = open_project_dirs(start)
        home = project.open_project(folders.root)
        store = open_store(home, _settings(folders).workspace)
    except ReflectloopError:
        return "trees not looked at: no repository here", []
    if not change.is_file() or store.git().attempt("cat-file", "-e", f"{base}^{{tree}}").code:
        return "trees not looked at: the base is not in this repository", []
    return _made_again(
        folders,
        TreeBuilder(store, folders.scratch, folders.scratch / f"objects-{clock.run_id(clock.now())}"),
        change,
        base,
        tree,
    )


def _made_again(folders: Folders, trees: TreeBuilder, change: Path, base: Any, tree: Any) -> tuple[str, list[str]]:  # noqa: ANN401, ARG001
    trees.objects.mkdir(parents=True)
    try:
        made = base if change.stat().st_size == 0 else trees.patched(str(base), change)
    except (InvalidInput, GitFailed):
        return "", ["the patch does not apply to the base it names"]
    finally:
        files.remove_tree(trees.objects)
    if made != tree:
        return "", ["base and patch do not make the tree that was judged"]
    return "base and patch make the tree that was judged", []


def protected_files(start: Path) -> list[dict[str, str]]:
    """Return every file of the project that a patch may not weaken, and why."""
    folders = open_project_dirs(start)
    home = project.open_project(folders.root)
    settings = _settings(folders)
    store = open_store(home, settings.workspace)
    listed = TreeBuilder(store, folders.scratch, store.objects).listing(home.head or "") if home.head else {}
    out = []
    for path in listed:
        guard = protected.guard(path)
        if guard and guard.kind not in ("shadow", "artefact"):
            out.append({"path": path, "kind": guard.kind, "why": guard.why})
        elif matches_any(path, settings.verify.protect):
            out.append({"path": path, "kind": "named", "why": "[verify] protect in reflectloop.toml"})
    return out
