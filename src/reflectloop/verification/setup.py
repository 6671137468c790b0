"""Installs a project's dependencies once for each set of lock files, and keeps what that made, to be read only.

What is kept was written by programs that nobody vouches for, the change under judgement among them. It is moved, looked
at and carried by descriptor and through no link; a link in it means what it means in a box, and nothing outside.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from reflectloop.errors import StateDamaged, VerificationFailed
from reflectloop.sandbox.sandbox import Box, SandboxCommand
from reflectloop.system import beneath, files, git, tree_walk
from reflectloop.terms import Network
from reflectloop.verification import protected
from reflectloop.verification.check_runner import CheckProgress
from reflectloop.verification.fresh_workspaces import WorkspaceFactory
from reflectloop.workspace.record_tree import Unrecordable

# Besides lock files: what says which dependencies there are.
_MANIFESTS = frozenset(
    ("pyproject.toml", "setup.py", "setup.cfg", "package.json", "Cargo.toml", "go.mod", "Gemfile", "composer.json")
)
_LISTING, _FILES = "made.json", "files"  # what was made, and the folder it is kept in
_SHOWN = 300  # letters of what was refused
_FORM = 3  # of what is kept; another form has another key


def key(ground: WorkspaceFactory, tree: str, author: str = "") -> str:
    """Return the name of what is kept for a tree: the same where dependencies and `author` are the same."""
    listing = ground.trees.listing(tree)
    manifests = [path for path in listing if protected.dependencies(path) or PurePosixPath(path).name in _MANIFESTS]
    blobs = [(path, listing[path].blob) for path in sorted(manifests)]
    setup, path = ground.settings.verify.setup, ground.caller.get("PATH")
    parts = [_FORM, setup, blobs, path, os.fspath(ground.project.root), author]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def made(
    ground: WorkspaceFactory, tree: str, base: str, memory: Path, logs: Path, told: CheckProgress
) -> Mapping[Path, Path]:
    """Return what the set-up makes for a tree: where it is to lie, and where it is kept.

    A change that leaves the dependencies alone gets what base's own files installed. One that changes them is
    installed by its own files, and what those left serves that very tree and no other change.
    """
    commands = ground.settings.verify.setup
    if not commands:
        return {}
    name = key(ground, base)
    if key(ground, tree) == name:
        tree = base
    else:
        name = key(ground, tree, author=tree)
    kept = memory / name
    if not (kept / _LISTING).exists():
        if kept.exists():
            files.remove_tree(kept)
        with ground.open(tree, tree) as box, files.room_for("what the set-up installed", memory):
            _install(box, commands, logs, told)
            _keep(box, kept)
    names = _names(kept)
    with tree_walk.opened(kept / _FILES) as top:
        for name in names:
            _refuse_strange(top, name)
    return {Path(name): kept / _FILES / name for name in names}


def _names(kept: Path) -> list[str]:
    try:
        return [str(name) for name in json.loads(beneath.read_path(kept / _LISTING))]
    except (OSError, ValueError, TypeError) as fault:
        raise StateDamaged(f"{kept} cannot be read: {fault}", next_step=f"remove {kept}, then run it again") from fault


def _install(box: Box, commands: tuple[tuple[str, ...], ...], logs: Path, told: CheckProgress) -> None:
    for number, command in enumerate(commands, 1):
        told.check("setup", " ".join(command))
        log = logs / f"verify.setup.{number}.log"
        order = SandboxCommand(
            command,
            box.workspace.resolve("."),
            log,
            3600,
            show=lambda data: told.output("setup", data),
            network=Network.HOST,
        )
        done = box.run(order)
        if done.exit_code:
            why = "ran past an hour" if done.timed_out else f"exited {done.exit_code}"
            raise VerificationFailed(
                f"[verify] setup: {' '.join(command)[:80]}: {why}", next_step=f"look at {log}, then run it again"
            )


def _keep(box: Box, kept: Path) -> None:
    """Move everything there that is no file of the project; the list last, so that a half-kept one is made again."""
    try:
        lister = box.workspace.git_on_files()
    except Unrecordable as fault:
        raise _refused(", ".join(fault.names), "would hold git up") from fault
    listed = lister.run("ls-files", "-z", "--others", "--directory", "--no-empty-directory")
    names = [os.fsdecode(name).rstrip("/") for name in git.paths(listed)]
    (kept / _FILES).mkdir(parents=True)
    with tree_walk.opened(box.workspace.repo) as source, tree_walk.opened(kept / _FILES) as target:
        for name in names:
            _refuse_strange(source, name)
            beneath.move(source, target, name)
    files.write_atomic(kept / _LISTING, json.dumps(names))


def _refuse_strange(top: int, name: str) -> None:
    """Refuse what is not a folder, a file, or a link that stays in the project; no check sees what a link leads to."""
    found = beneath.status(top, name)
    if found is None:
        raise _refused(name, "is reached through a link, or is not there any more")
    if stat.S_ISLNK(found.st_mode):
        *above, last = name.split("/")
        with beneath.open_folder(top, above) as folder:
            target = os.readlink(last, dir_fd=folder)
        if not stays_inside(name, target):
            raise _refused(name, f"is a link out of the project, to {target}")
    elif not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        raise _refused(name, f"is {beneath.kind_of(found)}")


def stays_inside(name: str, target: str) -> bool:
    """Whether a link at `name`, from the project's top, leads to something in the project by what it says."""
    leads = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    return not target.startswith("/") and leads != ".." and not leads.startswith("../")


def _refused(name: str, why: str) -> VerificationFailed:
    shown = files.display(f"{name} {why}")[:_SHOWN]
    return VerificationFailed(
        f"[verify] setup left what no check may be given: {shown}",
        next_step="look at what the set-up of this change does, then run it again",
    )
