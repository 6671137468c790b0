"""Stores the answers to FileOps requests, and the tree that the last request left."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from reflectloop.errors import NoSpace
from reflectloop.fileops.ops_context import StoredResponse, count_failures
from reflectloop.fileops.request import FileopsRequest
from reflectloop.fileops.response import Response
from reflectloop.plan.model import command_text
from reflectloop.state.fold import RunState, Task
from reflectloop.system import files
from reflectloop.system.git import GitFailed
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.store import Store

_POINTER = "pointer.json"


class _Now(NamedTuple):
    """The content of the pointer file: how far the requests of a task have come."""

    task: str | None = None
    base: str = ""  # the project's tree when the first of them began
    tree: str = ""  # what the last of them left
    number: int = 0  # of the last one
    failures: Mapping[str, int] = {}
    denied: int = 0  # requests with a command that the policy refuses
    stands: str = ""  # the tree that the task's journal named when this was written
    ran: Mapping[str, Any] = {}  # the commands that succeeded for the step at work: step, tree, commands


def attempt_at_work(task: Task) -> str:
    """Return a name for the current attempt at the step that is running; empty if none is."""
    run = task.last_run
    step = next(iter(run.unfinished_steps), None) if run and run.kind.is_stepwise else None
    return f"{task.id} {step.id} {step.attempts}" if step and step.status == "running" else ""


class RequestLog:
    """The memory of requests on disk, and the tree they have come to.

    An answer counts only up to the number that the pointer names: whatever a crash leaves behind it did not happen.
    """

    def __init__(self, folders: Folders, store: Store) -> None:
        self._folders, self._folder, self._store = folders, folders.own / "requests", store
        self._current = folders.current_task()
        with files.room_for("the answers to requests", self._folder):
            self._folder.mkdir(exist_ok=True)
        self.now = self._read()
        self.restarted = False  # whether the work of earlier requests is left behind
        self._space: Workspace | None = None

    @property
    def logs(self) -> Path:
        return self._folder / "logs"

    def begin(self, task: str | None, base: str, tree: str, stands: str = "") -> str:
        """Return the tree to continue from: that of the last request of this task on this project, else `tree`."""
        same = (self.now.task, self.now.base) == (task, base)
        if not same or not self.has(self.now.tree):
            self.restarted = bool(self.now.number)
            self.now = self.now._replace(task=task, base=base, tree=tree, failures={})
        elif self.is_behind(stands):
            self.now = self.now._replace(tree=tree)
        self.now = self.now._replace(stands=stands)
        return self.now.tree

    def is_behind(self, stands: str) -> bool:
        """Return whether an engine died between writing the journal and the pointer; the journal is then right."""
        return self.now.stands not in ("", stands)

    def tree_of(self, task_id: str, run: RunState) -> str:
        """Return the tree that the last request of a task left; if the pointer is lost, that of its last done step."""
        if self.now.task == task_id and self.has(self.now.tree) and not self.is_behind(run.stands):
            return self.now.tree
        return run.reached

    def serve(self, space: Workspace) -> None:
        self._space = space

    def recall(self, request_id: str) -> StoredResponse | None:
        try:
            stored = json.loads(self._path(request_id).read_bytes())
            if stored["number"] <= self.now.number:
                return StoredResponse(stored["content"], Response.model_validate(stored["response"]))
        except (OSError, ValueError, KeyError, TypeError, ValidationError):
            pass
        return None

    def secure(self) -> None:
        self._kept_tree()

    def remember(self, request: FileopsRequest, response: Response) -> None:
        """Tree, answer, pointer, in this order: the last of them makes it true."""
        number = self.now.number + 1
        self._follow()
        if any(op.op.startswith("triflow_") for op in request.ops):
            self.now = self.now._replace(stands=self._stands())
        tree = self._kept_tree()
        stored = {"number": number, "content": request.hash, "tree": tree, "response": response.as_json()}
        files.write_atomic(self._path(request.id), files.json_text(stored, indent=None) + "\n")
        counts = {**self.now.failures, request.purpose: count_failures(self.failures(request.purpose), response)}
        self.now = self.now._replace(tree=tree, number=number, failures=counts, ran=self._ran(response, tree))
        self._point()

    def ran_before(self, attempt: str, tree: str) -> list[str]:
        """Return the commands that earlier requests of this attempt ran with success and that left this tree."""
        known = self.now.ran
        return list(known["commands"]) if (known.get("step"), known.get("tree")) == (attempt, tree) else []

    def _ran(self, response: Response, tree: str) -> dict[str, Any]:
        """Return what proves the step at work after a response: a changed tree or a failed command ends it."""
        attempt = attempt_at_work(self._folders.load_current())
        if not attempt or any(command.exitCode for command in response.proof.commands):
            return {}
        commands = [command_text(command.cmd) for command in response.proof.commands] if response.status == "ok" else []
        known = [command for command in self.ran_before(attempt, tree) if command not in commands]
        return {"step": attempt, "tree": tree, "commands": [*known, *commands]} if known or commands else {}

    def _point(self) -> None:
        files.write_atomic(self._folder / _POINTER, json.dumps({**self.now._asdict(), "owner": self._owner()}) + "\n")

    def _follow(self) -> None:
        """Continue with the task that the request opened, if it opened one."""
        current = self._folders.current_task()
        if current != self._current:
            self._current, self.now = current, self.now._replace(task=current)

    def failures(self, purpose: str) -> int:
        return self.now.failures.get(purpose, 0)

    def continue_from(self, tree: str) -> None:
        """Let the next session of the current task begin with `tree`."""
        self._follow()
        self.now = self.now._replace(tree=tree, stands=self._stands())
        self._point()

    def _stands(self) -> str:
        """Return the tree in the journal of the current task, or nothing if it is not stepwise."""
        last = self._folders.load_current().last_run
        return last.stands if last and last.kind.is_stepwise else ""

    def denied(self) -> int:
        self.now = self.now._replace(denied=self.now.denied + 1)
        self._point()
        return self.now.denied

    def forgive(self) -> None:
        self.now = self.now._replace(denied=0)
        self._point()

    def _kept_tree(self) -> str:
        assert self._space  # noqa: S101
        tree = self._space.tree
        try:
            self._store.take_in(self._space.quarantine)
            end = self._store.commit(tree, message="End of a request")
            self._store.keep(f"requests/{self.now.task or 'no-task'}", end)
        except (GitFailed, OSError) as fault:
            raise NoSpace(f"cannot keep what a request did in {self._store.path}: {fault}") from fault
        return tree

    def _path(self, request_id: str) -> Path:
        return self._folder / f"{hashlib.sha256(request_id.encode()).hexdigest()}.json"

    def has(self, tree: str) -> bool:
        return bool(tree) and self._store.git().attempt("cat-file", "-e", f"{tree}^{{tree}}").code == 0

    def _owner(self) -> list[int]:
        """Answers that came with a project, or were copied from elsewhere, are not ours."""
        return files.identity_of(self._folder)

    def _read(self) -> _Now:
        try:
            stored: dict[str, Any] = json.loads((self._folder / _POINTER).read_bytes())
            if stored.pop("owner") == self._owner():
                return _Now(**stored)
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return _Now()
