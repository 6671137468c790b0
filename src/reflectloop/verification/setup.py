"""Install a project's dependencies once per set of lock files, and store the result read-only.

The stored files were written by untrusted programs, among them the change under judgement. They are moved, inspected
and mounted by file descriptor and through no link; a link in them is resolved only inside the sandbox.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import stat
import threading
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from reflectloop.errors import StateDamaged, VerificationFailed
from reflectloop.sandbox.sandbox import Box, SandboxCommand
from reflectloop.system import beneath, files, git, process, tree_walk
from reflectloop.terms import Network
from reflectloop.verification import protected
from reflectloop.verification.fresh_workspaces import WorkspaceFactory
from reflectloop.verification.progress import CheckObserver, RunningCheck
from reflectloop.workspace.record_tree import Unrecordable

# Files besides lock files that declare dependencies.
_MANIFESTS = frozenset(
    ("pyproject.toml", "setup.py", "setup.cfg", "package.json", "Cargo.toml", "go.mod", "Gemfile", "composer.json")
)
_LISTING, _FILES = "made.json", "files"  # the list of stored files, and the folder that contains them
_SHOWN = 300  # characters of a message about a refused file
_RUNTIMES = ("python3", "node")  # what is installed depends on their versions
_installing = threading.Lock()
_FORM = 4  # version of the stored format; another version has another key


def key(ground: WorkspaceFactory, tree: str, author: str = "") -> str:
    """Return the name under which the set-up of a tree is stored; it depends on the dependencies and `author`."""
    listing = ground.trees.listing(tree)
    manifests = [path for path in listing if protected.dependencies(path) or PurePosixPath(path).name in _MANIFESTS]
    blobs = [(path, listing[path].blob) for path in sorted(manifests)]
    setup, path = ground.settings.verify.setup, ground.caller.get("PATH", os.defpath)
    programs = [process.find(name, path=path, cwd=Path()) for name in (*(command[0] for command in setup), *_RUNTIMES)]
    parts = [_FORM, setup, blobs, programs, os.fspath(ground.project.root), author]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def made(
    ground: WorkspaceFactory, tree: str, base: str, memory: Path, logs: Path, observer: CheckObserver
) -> Mapping[Path, Path]:
    """Return the files that the set-up makes for a tree: where each belongs, and where it is stored.

    A change that leaves the dependencies alone uses the installation from base's own files. A change that alters them
    is installed from its own files, and that installation serves only this tree.
    """
    commands = ground.settings.verify.setup
    if not commands:
        return {}
    name = key(ground, base)
    if key(ground, tree) == name:
        tree = base
    else:
        name = key(ground, tree, author=tree)
    store = memory / name
    with ground.strands.alone(_installing):  # runs side by side need the same set-up
        if not (store / _LISTING).exists():
            if store.exists():
                files.remove_tree(store)
            with ground.open(tree, tree, for_setup=True) as box, files.room_for("what the set-up installed", memory):
                _install(box, commands, logs, observer)
                ground.layers.refuse_damage(ground.trees.store)  # later verifications use what is stored
                _store(box, store)
    names = _names(store)
    with tree_walk.open_folder(store / _FILES) as top:
        for name in names:
            _refuse_strange(top, name)
    return {Path(name): store / _FILES / name for name in names}


def _names(store: Path) -> list[str]:
    try:
        return [str(name) for name in json.loads(beneath.read_path(store / _LISTING))]
    except (OSError, ValueError, TypeError) as fault:
        raise StateDamaged(
            f"{store} cannot be read: {fault}", next_step=f"remove {store}, then run it again"
        ) from fault


def _install(box: Box, commands: tuple[tuple[str, ...], ...], logs: Path, observer: CheckObserver) -> None:
    for number, command in enumerate(commands, 1):
        run = RunningCheck(0, 0, "setup", " ".join(command))
        observer.check_started(run)
        log = logs / f"verify.setup.{number}.log"
        order = SandboxCommand(
            command,
            box.workspace.resolve("."),
            log,
            3600,
            show=lambda data: observer.output("setup", data),
            network=Network.HOST,
        )
        done = box.run(order)
        observer.check_ended(run, f"exit code {done.exit_code}", done.duration_ms, ok=not done.exit_code)
        if done.exit_code:
            why = "ran past an hour" if done.timed_out else f"exited {done.exit_code}"
            raise VerificationFailed(
                f"[verify] setup: {' '.join(command)[:80]}: {why}", next_step=f"look at {log}, then run it again"
            )


def _store(box: Box, store: Path) -> None:
    """Move every untracked file to the store. The list is written last, so that a partial store is made again."""
    try:
        lister = box.workspace.git_on_files()
    except Unrecordable as fault:
        raise _refused(", ".join(fault.names), "would hold git up") from fault
    listed = lister.run("ls-files", "-z", "--others", "--directory", "--no-empty-directory")
    names = [os.fsdecode(name).rstrip("/") for name in git.paths(listed)]
    names = [name for name in names if name not in box.workspace.copied]  # the user's own, carried anyway
    (store / _FILES).mkdir(parents=True)
    with tree_walk.open_folder(box.workspace.repo) as source, tree_walk.open_folder(store / _FILES) as target:
        for name in names:
            _refuse_strange(source, name)
            beneath.move(source, target, name)
    files.write_atomic(store / _LISTING, json.dumps(names))


def _refuse_strange(top: int, name: str) -> None:
    """Refuse anything but a folder, a file, or a link that stays in the project."""
    status = beneath.status(top, name)
    if status is None:
        raise _refused(name, "is reached through a link, or is not there any more")
    if stat.S_ISLNK(status.st_mode):
        *above, last = name.split("/")
        with beneath.open_folder(top, above) as folder:
            target = os.readlink(last, dir_fd=folder)
        if not stays_inside(name, target):
            raise _refused(name, f"is a link out of the project, to {target}")
    elif not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        raise _refused(name, f"is {beneath.kind_of(status)}")


def stays_inside(name: str, target: str) -> bool:
    """Return True if a link at `name`, relative to the project's top, points inside the project."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    return not target.startswith("/") and path != ".." and not path.startswith("../")


def _refused(name: str, why: str) -> VerificationFailed:
    text = files.display(f"{name} {why}")[:_SHOWN]
    return VerificationFailed(
        f"[verify] setup left a file that no check may use: {text}",
        next_step="inspect the set-up commands of this change, then run it again",
    )
