"""A box around a copy of the project as it stands, for a few commands that judge or mend one output."""

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
from reflectloop.workspace.store import open_for

_FIX_TIMEOUT_S = 900.0


class CheckSandbox:
    """For one project; each use is a fresh workspace, gone afterwards."""

    def __init__(self, folders: Folders, settings: Config, caller: Mapping[str, str]) -> None:
        self.folders, self.settings, self.caller = folders, settings, caller

    def check(self, target: str, content: bytes, asked: Mapping[str, Check]) -> list[CriticCheck]:
        """What comes of every check with this content in the target's place."""
        if not asked:
            return []
        self._refuse({name: check.run for name, check in asked.items() if check.run is not None})
        with self._open() as (box, logs):
            _put(box, target, content)
            return [_checked(name, check, box, logs / f"{at}.log") for at, (name, check) in enumerate(asked.items())]

    def mend(self, target: str, content: bytes, fixes: Sequence[str]) -> tuple[list[RepairResult], bytes | None]:
        """Run a fix's commands one after another; the target's content afterwards where all went well."""
        self._refuse({f"fix {number}": fix for number, fix in enumerate(fixes, 1)})
        results: list[RepairResult] = []
        with self._open() as (box, logs):
            place = _put(box, target, content)
            for number, fix in enumerate(fixes):
                log = logs / f"{number}.log"
                done = box.run(SandboxCommand(fix, box.workspace.resolve("."), log, _FIX_TIMEOUT_S))
                well = done.exit_code == 0 and not done.timed_out
                status = "completed" if well else "failed"
                results.append(RepairResult(step=fix, status=status, output=files.last_lines(log)))
                if not well:
                    return results, None
            box.workspace.record()  # scans what was written: a leak ends it here
            return results, _read_back(place)

    def _refuse(self, commands: Mapping[str, Command]) -> None:
        rules = policy.of(self.settings.policy, self.folders.root).in_workspace
        for name, command in commands.items():
            verdict = rules.judge(command)
            if not verdict.allowed:
                raise GateRejected(
                    f"the command policy refuses {name}: {verdict.rule}: {verdict.reason}",
                    next_step=f'write it otherwise; or, if meant: [policy] allow = ["{verdict.rule}"] in {NAME}, '
                    "then: reflectloop trust",
                )

    @contextmanager
    def _open(self) -> Iterator[tuple[Box, Path]]:
        latch.refuse_if_stopped(self.folders.own)
        name = clock.run_id(clock.now())
        wall = isolation.reach(self.settings.box.isolation, self.settings.box.strongest)
        found = project.open_at(self.folders.root)
        store = open_for(found, self.settings.workspace)
        base = snapshot.take(found, store, self.folders.scratch)
        objects, logs = self.folders.scratch / f"objects-{name}", self.folders.scratch / f"logs-{name}"
        for folder in (objects, logs):
            folder.mkdir()
        root = checkout.sandbox_root(found, self.settings.workspace.root)
        trees = TreeBuilder(store, self.folders.scratch, objects)
        ground = WorkspaceFactory(name, found, trees, self.settings, wall, self.caller, root, base.commit)
        try:
            with ground.open(base.tree, base.tree) as box:
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
    place: Path = box.workspace.resolve(target)
    place.parent.mkdir(parents=True, exist_ok=True)
    mode = place.stat().st_mode & 0o777 if place.is_file() else 0o644
    place.unlink(missing_ok=True)  # a new file: what was there may have another name, too
    place.write_bytes(content)
    place.chmod(mode)
    return place


def _read_back(place: Path) -> bytes | None:
    """Not through a link that a command may have put there."""
    if place.is_symlink() or not place.is_file():
        return None
    with os.fdopen(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise InvalidInput(f"the fix left more than {LARGEST >> 20} MB in {place.name}", next_step="write less")
    return content


def _checked(name: str, check: Check, box: Box, log: Path) -> CriticCheck:
    result = checking.run(
        name,
        check,
        box,
        must_fail=False,
        log=log,
        cwd=box.workspace.resolve("."),
        env={},
        printed=_printed_nothing,
        exited=0,
        show=_to_nobody,
    )
    last = files.last_lines(log, 1) if log.is_file() and not result.held else ""
    return CriticCheck(name, result.held, f"{result.reason}: {last}" if last else result.reason)


def _to_nobody(_: bytes) -> None:
    return None


def _printed_nothing(_: str) -> bool:
    """There is no step here that could have printed anything."""
    return False
