"""Installs a project's dependencies once for each set of lock files, and keeps what that made, to be read only."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from reflectloop.box.box import Box, Order
from reflectloop.errors import VerificationFailed
from reflectloop.terms import Network
from reflectloop.verify import protected
from reflectloop.verify.ground import Ground
from reflectloop.verify.runs import Told
from reflectloop.world import files, git

# Besides lock files: what says which dependencies there are.
_MANIFESTS = frozenset(
    ("pyproject.toml", "setup.py", "setup.cfg", "package.json", "Cargo.toml", "go.mod", "Gemfile", "composer.json")
)
_MADE = "made.json"


def key(ground: Ground, tree: str) -> str:
    """The same for two trees whose dependencies are the same."""
    listing = ground.trees.listing(tree)
    said = [path for path in listing if protected.dependencies(path) or PurePosixPath(path).name in _MANIFESTS]
    blobs = [(path, listing[path].blob) for path in sorted(said)]
    whole = [ground.settings.verify.setup, blobs, ground.caller.get("PATH"), os.fspath(ground.project.root)]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()


def made(ground: Ground, tree: str, memory: Path, logs: Path, told: Told) -> Mapping[Path, Path]:
    """What the project's set-up makes of a tree: where it is to lie, and where it is kept."""
    commands = ground.settings.verify.setup
    if not commands:
        return {}
    kept = memory / key(ground, tree)
    if not (kept / _MADE).exists():
        if kept.exists():
            files.remove_tree(kept)
        with ground.open(tree, tree) as box, files.room_for("what the set-up installed", memory):
            _install(box, commands, logs, told)
            _keep(box, kept)
    return {Path(name): kept / name for name in json.loads((kept / _MADE).read_text())}


def _install(box: Box, commands: tuple[tuple[str, ...], ...], logs: Path, told: Told) -> None:
    for number, command in enumerate(commands, 1):
        told.check("setup", " ".join(command))
        log = logs / f"verify.setup.{number}.log"
        order = Order(
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
    """Everything that is no file of the project; the list last, so that a half-kept one is made again."""
    listed = box.workspace.git().run("ls-files", "-z", "--others", "--directory", "--no-empty-directory")
    names = [os.fsdecode(name).rstrip("/") for name in git.paths(listed)]
    for name in names:
        target = kept / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(box.workspace.repo / name, target)
    kept.mkdir(parents=True, exist_ok=True)
    files.write_atomic(kept / _MADE, json.dumps(names))
