"""The context in which a request is executed: workspace, sandbox, plan operations and stored responses."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from pydantic import JsonValue

from reflectloop import policy
from reflectloop.fileops.ignored_backup import IgnoredBackup
from reflectloop.fileops.plan_ops import AppendSteps, ApplySplit, Finalize, MarkBlocked, PlanInit, Preflight
from reflectloop.fileops.request import FileopsRequest
from reflectloop.fileops.response import CommandProof, Response
from reflectloop.policy import CommandPolicy
from reflectloop.sandbox.sandbox import Box
from reflectloop.workspace.checkout import Workspace

Data = dict[str, JsonValue]


class Refusal(Exception):
    """An op cannot be executed; the request fails and is rolled back."""

    def __init__(self, reason: str, *, hint: str = "", key: str = "") -> None:
        self.reason, self.hint, self.key = reason, hint, key
        super().__init__(reason)


class PersonNeeded(Exception):
    """Raised if only a person can decide how to continue."""

    def __init__(self, question: str, **more: JsonValue) -> None:
        self.data: Data = {"question": question, **more}
        super().__init__(question)


class SplitNeeded(Exception):
    """The step is too large and should be split."""

    def __init__(self, reason: str, **more: JsonValue) -> None:
        self.data: Data = {"reason": reason, **more}
        super().__init__(reason)


class EngineEvidence(NamedTuple):
    """The facts the engine itself established when a plan op is executed; the only accepted evidence."""

    begun: str  # the tree when the request began
    tree: str  # the tree now
    commands: tuple[CommandProof, ...]  # of this request, so far
    reads_only: bool = False  # the request may not change the state


class Domain(Protocol):
    """The operations on the plan and its state. Each returns data, or raises Refusal, PersonNeeded or SplitNeeded.

    A request is all or nothing: `keep` makes the changes permanent, `take_back` discards them.
    """

    def plan_init(self, op: PlanInit, evidence: EngineEvidence) -> Data: ...
    def preflight(self, op: Preflight, evidence: EngineEvidence) -> Data: ...
    def finalize(self, op: Finalize, evidence: EngineEvidence) -> Data: ...
    def mark_blocked(self, op: MarkBlocked, evidence: EngineEvidence) -> Data: ...
    def apply_split(self, op: ApplySplit, evidence: EngineEvidence) -> Data: ...
    def append_steps(self, op: AppendSteps, evidence: EngineEvidence) -> Data: ...
    def state_file(self, name: str) -> bytes | None: ...  # a view of the task's state; None if there is no task
    def keep(self) -> None: ...
    def take_back(self) -> None: ...


class NoPlanOps:
    """Refuses every plan op: there is no plan, or the caller may not change it."""

    def _refuse(self, op: object, evidence: EngineEvidence) -> Data:  # noqa: ARG002
        raise Refusal("only the engine changes the plan, based on its own evidence", key="op")

    plan_init = preflight = finalize = mark_blocked = apply_split = append_steps = _refuse

    def state_file(self, name: str) -> bytes | None:  # noqa: ARG002
        return None

    def keep(self) -> None:
        pass

    def take_back(self) -> None:
        pass


class StoredResponse(NamedTuple):
    content: str  # the request's hash
    response: Response


class ResponseStore(Protocol):
    """The responses by request id. Only executed requests are stored."""

    def recall(self, request_id: str) -> StoredResponse | None: ...
    def secure(self) -> None: ...  # makes recorded trees permanent
    def remember(self, request: FileopsRequest, response: Response) -> None: ...
    def failures(self, purpose: str) -> int: ...
    def denied(self) -> int: ...  # counts a refused command; returns the number since the last stop
    def forgive(self) -> None: ...  # resets the count


class InMemoryResponses:
    """Stores responses for the life of the process."""

    def __init__(self) -> None:
        self._answered: dict[str, StoredResponse] = {}
        self._failures: dict[str, int] = {}
        self._denied = 0

    def recall(self, request_id: str) -> StoredResponse | None:
        return self._answered.get(request_id)

    def secure(self) -> None:
        pass

    def remember(self, request: FileopsRequest, response: Response) -> None:
        self._answered[request.id] = StoredResponse(request.hash, response)
        self._failures[request.purpose] = count_failures(self.failures(request.purpose), response)

    def failures(self, purpose: str) -> int:
        return self._failures.get(purpose, 0)

    def denied(self) -> int:
        self._denied += 1
        return self._denied

    def forgive(self) -> None:
        self._denied = 0


def count_failures(failures: int, response: Response) -> int:
    """Return the number of consecutive failures after a response: success resets it, a question does not change it."""
    return {"fail": failures + 1, "ok": 0}.get(response.status, failures)


@dataclass
class OpsContext:
    workspace: Workspace
    box: Box
    domain: Domain
    memory: ResponseStore
    logs: Path  # a folder outside the sandbox
    writable: tuple[str, ...] = (".",)
    policy: CommandPolicy = field(default_factory=lambda: policy.default().in_workspace)
    notes: list[str] = field(default_factory=list)  # added to the next response
    backup: IgnoredBackup = field(init=False)
    commands: int = field(default=0, init=False)  # commands run so far; numbers their logs

    def __post_init__(self) -> None:
        self.backup = IgnoredBackup(self.workspace)

    def log(self) -> Path:
        self.commands += 1
        self.logs.mkdir(parents=True, exist_ok=True)
        return self.logs / f"{self.workspace.name}.{self.commands}.log"

    def close(self) -> None:
        """Remove the backup; the workspace belongs to the caller."""
        self.backup.close()
