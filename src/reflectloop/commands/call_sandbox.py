"""Run the commands of `call` in a sandbox with a copy of the project; their changes are reported and discarded."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from reflectloop.config import Config
from reflectloop.diagnosis.safe_call import ToolError
from reflectloop.errors import InvalidInput, ReflectloopError
from reflectloop.sandbox import editable_installs, isolation, limits
from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.sandbox.limits import Limiter
from reflectloop.sandbox.sandbox import Box, SandboxCommand
from reflectloop.state import lock
from reflectloop.system import cgroup, clock, files
from reflectloop.terms import Isolation, Network
from reflectloop.workspace import apply as applying
from reflectloop.workspace import checkout, patch, project, snapshot, workspace_registry
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.patch import TouchedFile
from reflectloop.workspace.record_tree import Unrecordable
from reflectloop.workspace.store import open_store

_LONGEST_OUTPUT = 1 << 20  # bytes; the end is kept

Show = Callable[[str, bytes], None]  # the stream, and redacted output of it


class Calls:
    """One workspace for all attempts of a call."""

    def __init__(self, space: Workspace, box: Box, cwd: Path, network: Network | None) -> None:
        self._space, self._box, self._cwd, self._network = space, box, cwd, network
        self._base = space.tree
        self.stop: ReflectloopError | None = None  # a leak or an escape, after which no command is started

    def run(self, argv: tuple[str, ...], timeout_s: float, show: Show) -> str:
        """Return the output of a command; raise ToolError with it if the command fails."""
        if self.stop:
            raise ToolError(self.stop.message)
        printed = bytearray()

        def take(stream: str, clean: bytes) -> None:
            printed.extend(clean)
            del printed[:-_LONGEST_OUTPUT]
            show(stream, clean)

        log = self._space.engine_dir / "call.log"
        # Only the timeout ends it: a tool that waits for a service is not idle.
        command = SandboxCommand(argv, self._cwd, log, timeout_s, apart=take, merge=False, idle_s=2 * timeout_s)
        try:
            done = self._box.run(command._replace(network=self._network))
        except ReflectloopError as fault:
            self.stop = fault
            raise ToolError(fault.message) from fault
        text = printed.decode("utf-8", "replace")
        if done.timed_out:
            raise TimeoutError(f"ran past {timeout_s:g} s and was ended with its children")
        if done.limit:
            raise ToolError(f"{text}\n{done.limit}", exit_code=done.exit_code)
        if done.exit_code:
            raise ToolError(text, exit_code=done.exit_code)
        return text

    def changes(self) -> tuple[TouchedFile, ...] | None:
        """Return the files that the commands changed in the copy; None if that cannot be determined."""
        try:
            now = self._space.record()
            return patch.touched_files(self._space.git(), self._base, now.tree) if now.changed else ()
        except (Unrecordable, ReflectloopError):
            return None


def isolation_level(settings: Config, network: Network | None) -> IsolationLevel:
    """Return the isolation level of calls; raise if the settings forbid the network that they want."""
    level = isolation.choose_level(settings.box.isolation, settings.box.strongest)
    isolation.refuse_network(level, settings.box.isolation, {"call": network})
    return level


@contextlib.contextmanager
def open_calls(
    folders: Folders, settings: Config, level: IsolationLevel, network: Network | None, waits: Callable[[str], None]
) -> Iterator[Calls]:
    """Lock the project and create a copy of it; afterwards remove the copy, or keep it for the next run."""
    folders.reject_links()
    folders.ensure_owned()
    with lock.hold_lock(folders.own, "call", wait=waits):
        name = clock.run_id(clock.now())
        space = _create(folders, settings, level, name)
        limiter = Limiter(space.name, limits.limits_from(settings.box)) if level.level is Isolation.FULL else None
        calls: Calls | None = None
        try:
            box = Box.by(settings, space, dict(os.environ), level, limiter)
            calls = Calls(space, box, _cwd(folders.root, space), network)
            yield calls
        finally:
            if limiter:
                limiter.close()
            clean = calls is not None and calls.stop is None and calls.changes() == ()
            space.close()
            _remove(folders, settings, space, clean=clean)


def _create(folders: Folders, settings: Config, level: IsolationLevel, name: str) -> Workspace:
    home = project.open_project(folders.root)
    store = open_store(home, settings.workspace)
    applying.undo_killed(home, store, folders.scratch)
    cgroup.sweep()
    space = checkout.create(
        home,
        store,
        snapshot.take_snapshot(home, store, folders.scratch),
        name=name,
        root=checkout.sandbox_root(home, settings.workspace.root),
        carry=settings.workspace,
        mounted=level.mounted,
        bound=level.by == "bubblewrap",
    )
    if not level.mounted:
        editable_installs.refuse_editable_installs(
            folders.root, dict(os.environ), [*map(Path, space.copied), *space.carried]
        )
    return space


def _cwd(root: Path, space: Workspace) -> Path:
    """Return the folder in the copy that corresponds to the current one; its top if that is outside the project."""
    here = Path.cwd()
    if not here.is_relative_to(root):
        return space.repo
    inside = here.relative_to(root)
    if not (space.repo / inside).is_dir():
        raise InvalidInput(
            f"{inside} is not in the copy of the project: git ignores it",
            next_step="call it from another folder, or with --host",
        )
    return space.resolve(str(inside))


def _remove(folders: Folders, settings: Config, space: Workspace, *, clean: bool) -> None:
    """Keep an unchanged copy for the next run; remove a changed one."""
    entry = workspace_registry.find(folders.own, space.name)
    if entry is None:
        return
    with contextlib.suppress(OSError):
        files.remove_tree(space.engine_dir / "call.log")
    if not (clean and settings.workspace.warm):
        workspace_registry.remove(entry)
        return
    workspace_registry.keep_warm(folders.own, entry, space.mark_ns, space.identity)
