"""A sandbox with a copy of the project, for the commands that check or repair one output."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from reflectloop import policy
from reflectloop.config import NAME, Config
from reflectloop.errors import GateRejected, InvalidInput, SandboxEscape, SecretLeak
from reflectloop.plan.model import Check, Command
from reflectloop.reflection.critic import CriticCheck
from reflectloop.reflection.critic_command import LARGEST
from reflectloop.reflection.reflection import RepairResult
from reflectloop.sandbox import isolation
from reflectloop.sandbox.sandbox import Box, SandboxCommand
from reflectloop.state import latch
from reflectloop.system import clock, files
from reflectloop.verification import checks as checking
from reflectloop.verification.fresh_workspaces import WorkspaceFactory
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.workspace import checkout, project, snapshot
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.store import open_store

_FIX_TIMEOUT_S = 900.0


class CheckSandbox:
    """Runs checks and fixes for one project, each call in a fresh workspace that is removed afterwards."""

    def __init__(self, folders: Folders, settings: Config, caller: Mapping[str, str]) -> None:
        self.folders, self.settings, self.caller = folders, settings, caller

    def check(self, target: str, content: bytes, checks: Mapping[str, Check]) -> list[CriticCheck]:
        """Return the result of every check, run with this content as the target."""
        if not checks:
            return []
        self._refuse({name: check.run for name, check in checks.items() if check.run is not None})
        with self._open() as (box, logs):
            _put(box, target, content)
            return [_run_check(name, check, box, logs / f"{at}.log") for at, (name, check) in enumerate(checks.items())]

    def repair(self, target: str, content: bytes, fixes: Sequence[str]) -> tuple[list[RepairResult], bytes | None]:
        """Run commands in order; return their results, and the target's new content if all of them passed."""
        self._refuse({f"fix {number}": fix for number, fix in enumerate(fixes, 1)})
        results: list[RepairResult] = []
        with self._open() as (box, logs):
            path = _put(box, target, content)
            for number, fix in enumerate(fixes):
                log = logs / f"{number}.log"
                done = box.run(SandboxCommand(fix, box.workspace.resolve("."), log, _FIX_TIMEOUT_S))
                passed = done.exit_code == 0 and not done.timed_out
                status = "completed" if passed else "failed"
                results.append(RepairResult(step=fix, status=status, output=files.last_lines(log)))
                if not passed:
                    return results, None
            box.workspace.record()  # raises SecretLeak if a command wrote a secret
            return results, _read_back(path)

    def _refuse(self, commands: Mapping[str, Command]) -> None:
        rules = policy.of(self.settings.policy, self.folders.root).in_workspace
        for name, command in commands.items():
            verdict = rules.judge(command)
            if not verdict.allowed:
                raise GateRejected(
                    f"the command policy refuses {name}: {verdict.rule}: {verdict.reason}",
                    next_step=f'change the command; or, if it is meant: [policy] allow = ["{verdict.rule}"] in {NAME}, '
                    "then: reflectloop trust",
                )

    @contextmanager
    def _open(self) -> Iterator[tuple[Box, Path]]:
        latch.refuse_if_stopped(self.folders.own)
        name = clock.run_id(clock.now())
        wall = isolation.choose_level(self.settings.box.isolation, self.settings.box.strongest)
        home = project.open_project(self.folders.root)
        store = open_store(home, self.settings.workspace)
        base = snapshot.take_snapshot(home, store, self.folders.scratch)
        objects, logs = self.folders.scratch / f"objects-{name}", self.folders.scratch / f"logs-{name}"
        for folder in (objects, logs):
            folder.mkdir()
        root = checkout.sandbox_root(home, self.settings.workspace.root)
        trees = TreeBuilder(store, self.folders.scratch, objects)
        workspaces = WorkspaceFactory(name, home, trees, self.settings, wall, self.caller, root, base.commit)
        try:
            with workspaces, workspaces.open(base.tree, base.tree) as box:
                yield box, logs
        except (SecretLeak, SandboxEscape) as fault:
            stop = latch.make(
                clock.now(),
                reason=fault.message,
                error_code=fault.code,
                run_id=name,
                step_id=None,
                plan_hash="",
                base_tree=base.tree,
            )
            latch.set_stop(self.folders.own, stop)
            raise
        finally:
            files.remove_tree(objects)
            files.remove_tree(logs)


def _put(box: Box, target: str, content: bytes) -> Path:
    path: Path = box.workspace.resolve(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.is_file() else 0o644
    path.unlink(missing_ok=True)  # a new file: the old one may be a hard link
    path.write_bytes(content)
    path.chmod(mode)
    return path


def _read_back(path: Path) -> bytes | None:
    """Return the content of a file; None if a command removed it or replaced it by a link."""
    if path.is_symlink() or not path.is_file():
        return None
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise InvalidInput(f"the fix left more than {LARGEST >> 20} MB in {path.name}", next_step="write less")
    return content


def _run_check(name: str, check: Check, box: Box, log: Path) -> CriticCheck:
    result = checking.run_command(name, check, box, log)
    last = files.last_lines(log, 1) if log.is_file() and not result.held else ""
    return CriticCheck(name, result.held, f"{result.reason}: {last}" if last else result.reason)
