"""The replies of tools: their fields are the output schemas that clients see."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from reflectloop.errors import ReflectloopError
from reflectloop.system import files

LARGEST_DATA = 48_000  # characters of a command's data in one reply
_MOST_REASONS = 30
_MOST_FAILURES = 10
_LONGEST_REASON = 1000


class ToolFault(BaseModel):
    """Why a call was not carried out, or the work did not hold."""

    code: str = Field(description="A code of docs/codes.md, such as INVALID_INPUT or VERIFICATION_FAILED.")
    message: str
    next: str = Field(description="The one command or edit that helps.")
    faults: list[str] = Field(default=[], description="Each thing that is wrong with the input, with its place.")


class ToolReply(BaseModel):
    """The fields of every reply."""

    model_config = ConfigDict(extra="forbid")

    error: ToolFault | None = None
    next: str | None = Field(default=None, description="The command to type, or the tool to call, next.")


class WorkReply(ToolReply):
    """The state of a command, and its result once it has ended."""

    handle: str | None = Field(default=None, description="Names this work for `status` and `cancel`.")
    tool: str = ""
    state: Literal["running", "ended", "cancelled", "lost", "refused"] = Field(
        default="refused", description="lost: its process was killed. refused: it was not started."
    )
    ok: bool | None = Field(default=None, description="Whether all is well; null while it runs.")
    outcome: str | None = Field(default=None, description="PASS, REVIEW, REFUSED or NOT JUDGED, of a change.")
    level: str | None = Field(default=None, description="The level of the evidence.")
    run_id: str | None = None
    reasons: list[str] = Field(default=[], description="Why the change did not pass.")
    failures: list[str] = Field(default=[], description="Where the failing tests failed, and with which words.")
    data: dict[str, Any] | None = Field(default=None, description="As the command prints it with --json.")
    data_left_out: bool = Field(default=False, description="True if there is data: ask for details, or it is too long.")
    warnings: list[str] = []
    seconds: float = 0
    poll_after_s: int | None = Field(default=None, description="Call `status` with the handle after this time.")


class ProjectReply(ToolReply):
    """The current task, its runs and verifications, and the works of clients."""

    project: str = ""
    task: dict[str, Any] | None = None
    runs: list[dict[str, Any]] = []
    verifications: list[dict[str, Any]] = []
    latch: dict[str, Any] | None = Field(default=None, description="What locked the project, if something did.")
    warnings: list[str] = []
    work: list[WorkReply] = Field(default=[], description="Of the handle asked for, or all that run and the last ones.")


class NextReply(ToolReply):
    """The next command and why."""

    why: str = ""
    route: str | None = Field(default=None, description="research, replan, ask, unlock or retry, after a failure.")
    then: str | None = None


class RecallReply(ToolReply):
    """Lessons from earlier work."""

    text: str = ""
    lessons: list[dict[str, Any]] = []


class ContextReply(ToolReply):
    """The brief for an agent before it works here."""

    text: str = ""


class AnswerReply(ToolReply):
    """The end of a question that only a person can answer."""

    done: bool = False
    run_id: str | None = None
    outcome: str | None = None
    remaining: list[str] = []


def fault_of(error: ReflectloopError) -> ToolFault:
    return ToolFault(
        code=error.code, message=error.message, next=error.next_step, faults=[str(fault) for fault in error.faults]
    )


def of_document(reply: WorkReply, document: dict[str, Any]) -> WorkReply:
    """Fill a reply from the JSON document that a command printed."""
    envelope = document.get("envelope")
    if not isinstance(envelope, dict):  # `fileops` prints its own answer
        failed = document.get("status") != "ok"
        return reply.model_copy(update={"ok": not failed, **_bounded(document)})
    data = document.get("data")
    facts = data if isinstance(data, dict) else {}
    update: dict[str, Any] = {
        "ok": envelope.get("status") == "OK" and _is_good(reply.tool, facts),
        "run_id": envelope.get("run_id") or facts.get("run_id"),
        "outcome": facts.get("outcome"),
        "level": envelope.get("evidence_level") or facts.get("level"),
        "next": envelope.get("next"),
        "warnings": envelope.get("warnings") or [],
        "reasons": _reasons(facts),
        "failures": _failures(facts),
        **_bounded(facts if data is None or facts else {"items": data}),
    }
    if envelope.get("status") == "ERROR":
        update["error"] = ToolFault(
            code=str(envelope.get("error_code")),
            message=str(envelope.get("message") or ""),
            next=str(envelope.get("next") or "reflectloop status"),
            faults=[f"{fault.get('path')}:{fault.get('line')}: {fault.get('message')}" for fault in envelope["faults"]],
        )
    return reply.model_copy(update=update)


def _is_good(tool: str, data: dict[str, Any]) -> bool:
    """Return what a command that only looks says by its exit code: nothing is wrong with what it looked at."""
    if tool == "scan":
        return bool(data.get("clean"))
    result = data.get("result")
    return bool(result.get("ok")) if tool == "diagnose" and isinstance(result, dict) else True


def _bounded(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data, or a note that it is too long."""
    if not data:
        return {"data": None}
    long = len(files.json_text(data, indent=None)) > LARGEST_DATA
    return {"data": None if long else data, "data_left_out": long}


def _failures(data: dict[str, Any]) -> list[str]:
    """Return where the tests of a verdict failed on the change."""
    checks = data.get("checks")
    details = [
        detail
        for check in (checks if isinstance(checks, list) else [])
        for detail in (check.get("sealed") or {}).get("details", [])
        if detail.get("test") or detail.get("severity") == "error"
    ]
    texts = [f"{item.get('file')}:{item.get('line')}: {item.get('error')}" for item in details[:_MOST_FAILURES]]
    return [text[:_LONGEST_REASON] for text in texts]


def _reasons(data: dict[str, Any]) -> list[str]:
    stages = data.get("gates")
    listed = [reason for stage in stages for reason in stage.get("reasons", ())] if isinstance(stages, list) else []
    reasons = listed or data.get("reasons") or []
    texts = [str(reason.get("text") if isinstance(reason, dict) else reason) for reason in reasons]
    shown = [text[:_LONGEST_REASON] for text in texts[:_MOST_REASONS]]
    return [*shown, f"and {len(texts) - len(shown)} more"] if len(texts) > len(shown) else shown
