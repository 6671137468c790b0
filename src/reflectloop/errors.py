"""Every published code, one class each; who must act is in the branch it stands on.

ReflectloopError
├── PlanFault                  the plan's author acts
│   ├── MissingPlan            10
│   └── InvalidPlan            11
├── UserFault                  whoever typed the command acts
│   ├── InvalidInput           12
│   ├── NothingToDo            14
│   ├── UnsupportedRepository  16
│   └── NotTrusted             17
├── WorkFault                  the work did not hold; a new attempt or a new plan acts
│   ├── StepFailed             30
│   ├── StepTimeout            31
│   ├── VerificationFailed     32
│   ├── GateRejected           33
│   ├── ApplyConflict          34
│   ├── RecordsDisagree        35
│   ├── NotAuthenticated       36
│   └── NeedsInput             40
├── MachineFault               the machine's owner acts
│   ├── SandboxCreateFailed    20
│   ├── Locked                 50
│   ├── StateDamaged           51
│   ├── NoSpace                52
│   ├── AgentFailed            60
│   └── AgentUnavailable       61
├── SafetyFault                a person acts; nothing goes on before
│   ├── Latched                41
│   ├── MaxRetries             42
│   ├── BudgetSpent            43
│   ├── SandboxEscape          98
│   └── SecretLeak             99
├── Interrupted                130
└── Internal                   70, our bug

A step that failed is a value of the flow; these are raised when the engine cannot go on, and are
caught once, in the door.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple


class Fault(NamedTuple):
    """One thing wrong with an input: where it stands and what to do about it."""

    path: str
    line: int | None
    message: str
    code: str = "INVALID_PLAN"

    def __str__(self) -> str:
        place = self.path or "(top)"
        return f"line {self.line}: {place}: {self.message}" if self.line else f"{place}: {self.message}"


class ReflectloopError(Exception):
    """The engine cannot go on. `next_step` is the one command or edit that helps."""

    code: ClassVar[str]
    exit_code: ClassVar[int]
    when: ClassVar[str]
    default_next: ClassVar[str] = "reflectloop status"
    stops: bool = False  # whether it holds the project, besides the codes that always do
    review: bool = False  # whether a person may approve what stopped the work
    asks: bool = False  # whether nobody but a person can go on
    packet: object = None  # what the gates tell a person when a limit stops a batch

    def __init__(
        self,
        message: str,
        *,
        next_step: str | None = None,
        missing: tuple[str, ...] = (),
        faults: tuple[Fault, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step or self.default_next
        self.missing = missing
        self.faults = faults


class PlanFault(ReflectloopError):
    default_next = "reflectloop plan check PLAN"


class MissingPlan(PlanFault):
    code, exit_code, when = "MISSING_PLAN", 10, "there is no plan where one was looked for"
    default_next = "reflectloop init"


class InvalidPlan(PlanFault):
    code, exit_code, when = "INVALID_PLAN", 11, "the plan has faults; each is listed with its line"


class UserFault(ReflectloopError):
    default_next = "reflectloop --help"


class InvalidInput(UserFault):
    code, exit_code, when = "INVALID_INPUT", 12, "a patch, revision, configuration or file is not usable"


class NothingToDo(UserFault):
    code, exit_code, when = "NOTHING_TO_DO", 14, "nothing to show, apply or continue; no such run"
    default_next = "reflectloop run PLAN"


class UnsupportedRepository(UserFault):
    code, exit_code, when = "UNSUPPORTED_REPOSITORY", 16, "no repository, a bare one, or one without commits"


class NotTrusted(UserFault):
    code, exit_code, when = (
        "NOT_TRUSTED",
        17,
        "a setting that the project brings is needed and nobody trusted it, or the record of trust is not sound",
    )
    default_next = "reflectloop trust"


class WorkFault(ReflectloopError):
    pass


class StepFailed(WorkFault):
    code, exit_code, when = "STEP_FAILED", 30, "a command of a step exited non-zero"


class StepTimeout(WorkFault):
    code, exit_code, when = "STEP_TIMEOUT", 31, "a command ran past its time and was killed with its children"


class VerificationFailed(WorkFault):
    code, exit_code, when = "VERIFICATION_FAILED", 32, "a check did not come out as the plan expects"


class ApplyConflict(WorkFault):
    code, exit_code, when = (
        "APPLY_CONFLICT",
        34,
        "the patch does not fit the tree as it is now; nothing was changed",
    )
    default_next = "reflectloop diff"


class GateRejected(WorkFault):
    code, exit_code, when = "GATE_REJECTED", 33, "a gate refused the work; nothing of it was let through"


class RecordsDisagree(WorkFault):
    code, exit_code, when = (
        "RECORDS_DISAGREE",
        35,
        "journal, receipt, evidence, logs and objects of a run do not agree, so one was changed; nothing was applied",
    )


class NotAuthenticated(WorkFault):
    code, exit_code, when = (
        "NOT_AUTHENTICATED",
        36,
        "the hashes agree, but this user's key did not sign the records: an earlier version or another machine did",
    )


class NeedsInput(WorkFault):
    code, exit_code, when = (
        "NEEDS_INPUT",
        40,
        "a person must say something: a command waited for input, a step asks, nobody agreed to a plan",
    )


class MachineFault(ReflectloopError):
    default_next = "reflectloop doctor"


class SandboxCreateFailed(MachineFault):
    code, exit_code, when = (
        "SANDBOX_CREATE_FAILED",
        20,
        "the workspace could not be made, or not with the isolation that was asked for",
    )


class Locked(MachineFault):
    code, exit_code, when = "LOCKED", 50, "another engine works in this project"
    default_next = "reflectloop status"


class StateDamaged(MachineFault):
    code, exit_code, when = "STATE_DAMAGED", 51, "a journal is damaged at the line named; nothing was changed"


class NoSpace(MachineFault):
    code, exit_code, when = "NO_SPACE", 52, "the disk is full or the folder cannot be written"
    default_next = "df -h . ; reflectloop doctor"


class NotJudged(MachineFault):
    code, exit_code, when = (
        "NOT_JUDGED",
        53,
        "no check could judge the change: there is none, it gave no result on the base either, or `--quick` ran a part",
    )


class AgentFailed(MachineFault):
    code, exit_code, when = "AGENT_FAILED", 60, "an agent was asked and did not answer as it must, again and again"
    default_next = "reflectloop agents --check"


class AgentUnavailable(MachineFault):
    code, exit_code, when = (
        "AGENT_UNAVAILABLE",
        61,
        "a role is bound to no agent, or to one that is not installed, too old, or has no key",
    )


class SafetyFault(ReflectloopError):
    pass


class Latched(SafetyFault):
    code, exit_code, when = (
        "LATCHED",
        41,
        "an earlier failure holds; nothing is run until something changed or a person says so",
    )


class MaxRetries(SafetyFault):
    code, exit_code, when = "MAX_RETRIES", 42, "the task has failed as often as its limit allows; a person is needed"
    default_next = "reflectloop unlock --reason TEXT"


class BudgetSpent(SafetyFault):
    code, exit_code, when = "BUDGET_SPENT", 43, "the agents of a task have used what they may: tokens, money or time"
    default_next = "reflectloop unlock --reason TEXT"


class SandboxEscape(SafetyFault):
    code, exit_code, when = (
        "SANDBOX_ESCAPE",
        98,
        "a path leads out of the workspace; refused before anything ran",
    )
    default_next = "reflectloop plan check PLAN"


class SecretLeak(SafetyFault):
    code, exit_code, when = (
        "SECRET_LEAK",
        99,
        "a secret was seen; the work was stopped and nothing of it was kept",
    )


class Interrupted(ReflectloopError):
    code, exit_code, when = "INTERRUPTED", 130, "stopped by ^C or a signal; children are dead"
    default_next = "reflectloop run PLAN"


class Internal(ReflectloopError):
    code, exit_code, when = "INTERNAL", 70, "a bug of ours"
    default_next = "run the same command with --debug and report what it prints"


GRAVITY = ("SECRET_LEAK", "SANDBOX_ESCAPE", "INVALID_PLAN")


def published() -> tuple[type[ReflectloopError], ...]:
    """Return every class that carries a code, by exit code."""

    def leaves(parent: type[ReflectloopError]) -> list[type[ReflectloopError]]:
        below = [leaf for child in parent.__subclasses__() for leaf in leaves(child)]
        return below + ([parent] if "code" in vars(parent) else [])

    return tuple(sorted(leaves(ReflectloopError), key=lambda cls: cls.exit_code))


def by_code(code: str) -> type[ReflectloopError]:
    return next(cls for cls in published() if cls.code == code)
