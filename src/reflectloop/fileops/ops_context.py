"""What a request is carried out with: workspace, box, the plan's domain, and the memory of what was answered."""

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
    """An op cannot be carried out; the request fails, and what it did is taken back."""

    def __init__(self, reason: str, *, hint: str = "", key: str = "") -> None:
        self.reason, self.hint, self.key = reason, hint, key
        super().__init__(reason)


class PersonNeeded(Exception):
    """Nobody but a person can say how to go on."""

    def __init__(self, question: str, **more: JsonValue) -> None:
        self.data: Data = {"question": question, **more}
        super().__init__(question)


class SplitNeeded(Exception):
    """The step is too large; what it might be split into."""

    def __init__(self, reason: str, **more: JsonValue) -> None:
        self.data: Data = {"reason": reason, **more}
        super().__init__(reason)


class EngineEvidence(NamedTuple):
    """What the engine itself knows when an op on the plan is carried out; the only evidence there is."""

    request_id: str
    begun: str  # the tree when the request began
    tree: str  # the tree now
    commands: tuple[CommandProof, ...]  # of this request, so far


class Domain(Protocol):
    """The plan and its state. Each op answers with data, or raises Refusal, Asked or SplitAsked.

    A request is all or nothing: what ops did holds once `keep` is called, and is gone after `take_back`.
    """

    def plan_init(self, op: PlanInit, seen: EngineEvidence) -> Data: ...
    def preflight(self, op: Preflight, seen: EngineEvidence) -> Data: ...
    def finalize(self, op: Finalize, seen: EngineEvidence) -> Data: ...
    def mark_blocked(self, op: MarkBlocked, seen: EngineEvidence) -> Data: ...
    def apply_split(self, op: ApplySplit, seen: EngineEvidence) -> Data: ...
    def append_steps(self, op: AppendSteps, seen: EngineEvidence) -> Data: ...
    def keep(self) -> None: ...
    def take_back(self) -> None: ...


class NoPlanOps:
    """Stands where there is no plan to act on, or whoever asks may not."""

    def _refuse(self, op: object, seen: EngineEvidence) -> Data:  # noqa: ARG002
        raise Refusal("only the engine acts on the plan, by what it has seen", key="op")

    plan_init = preflight = finalize = mark_blocked = apply_split = append_steps = _refuse

    def keep(self) -> None:
        pass

    def take_back(self) -> None:
        pass


class StoredResponse(NamedTuple):
    content: str  # the request's hash
    response: Response


class ResponseStore(Protocol):
    """What was answered, by the request's id. Only what was carried out is remembered."""

    def recall(self, request_id: str) -> StoredResponse | None: ...
    def secure(self) -> None: ...  # what was recorded outlives us from here on
    def remember(self, request: FileopsRequest, response: Response) -> None: ...
    def failures(self, purpose: str) -> int: ...
    def denied(self) -> int: ...  # notes that a command was refused; how many were since the last stop
    def forgive(self) -> None: ...  # begins to count anew


class InMemoryResponses:
    """A memory that lasts as long as the process."""

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
        self._failures[request.purpose] = count_on(self.failures(request.purpose), response)

    def failures(self, purpose: str) -> int:
        return self._failures.get(purpose, 0)

    def denied(self) -> int:
        self._denied += 1
        return self._denied

    def forgive(self) -> None:
        self._denied = 0


def count_on(failures: int, response: Response) -> int:
    """Failed tries in a row: one that went well ends the row, a question leaves it as it is."""
    return {"fail": failures + 1, "ok": 0}.get(response.status, failures)


@dataclass
class OpsContext:
    workspace: Workspace
    box: Box
    domain: Domain
    memory: ResponseStore
    logs: Path  # a folder of the engine's
    writable: tuple[str, ...] = (".",)
    policy: CommandPolicy = field(default_factory=lambda: policy.default().in_workspace)
    notes: list[str] = field(default_factory=list)  # said with the next answer
    shelf: IgnoredBackup = field(init=False)
    commands: int = field(default=0, init=False)  # run so far; names their logs

    def __post_init__(self) -> None:
        self.shelf = IgnoredBackup(self.workspace)

    def log(self) -> Path:
        self.commands += 1
        self.logs.mkdir(parents=True, exist_ok=True)
        return self.logs / f"{self.workspace.name}.{self.commands}.log"

    def close(self) -> None:
        """Remove what was put aside; the workspace is its owner's."""
        self.shelf.close()
