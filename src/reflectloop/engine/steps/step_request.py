"""Builds the FileOps request that an executor of a step is given, and the response that the engine writes for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reflectloop.agents.answer_models import StepClaim, StepDesign
from reflectloop.engine.steps.agent_fileops import PROTO
from reflectloop.engine.steps.execution import StepResult
from reflectloop.errors import NeedsInput
from reflectloop.fileops import paths
from reflectloop.fileops.request import Constraints, FileopsRequest, RequestReport
from reflectloop.fileops.response import CommandProof, Failure, OpResult, Response, ResponseProof
from reflectloop.plan.model import Plan, Step
from reflectloop.system import files
from reflectloop.workspace.patch import TouchedFile

_WILD = "*?["
_SHOWN = 4_000  # characters of a check's output
_MOST_OPS = 100


def request(
    run_id: str, number: int, plan: Plan, step: Step, done: Sequence[str] = (), design: StepDesign | None = None
) -> FileopsRequest:
    """Return the request for an attempt: what is to be done, by the design, and the commands that must succeed."""
    checks = [wanted for wanted in plan.checks_of(step) if not wanted.must_fail]
    conditions = [*done, *(design.done if design else ())] or [wanted.check.description for wanted in checks]
    return FileopsRequest.model_validate(
        {
            "proto": PROTO,
            "id": f"{run_id}.{step.id}.{number}",
            "purpose": "execute_step",
            "summary": (design.approach if design and design.approach else step.title or step.details)[:20_000],
            "done": tuple(dict.fromkeys(text for text in conditions if text)),
            "ops": tuple(_ops(plan, step)),
            "constraints": Constraints(writable_roots=writable_roots(plan), max_attempts=plan.limits.step_attempts),
            "report": RequestReport(diffSummary=True, commandOutputs="always"),
        }
    )


def _ops(plan: Plan, step: Step) -> Iterator[dict[str, Any]]:
    commands = [*step.commands, *(wanted.check.run for wanted in plan.checks_of(step) if not wanted.must_fail)]
    runs = list(dict.fromkeys(command for command in commands if command is not None))[:_MOST_OPS]
    yield from ({"op": "run", "cmd": command} for command in runs)
    if not runs:
        yield {"op": "list_dir", "path": "."}


def writable_roots(plan: Plan) -> tuple[str, ...]:
    """Return the files and folders that `may_change` names; everything if it names none, or a pattern of any folder."""
    roots = list(dict.fromkeys(_fixed_part(pattern) for pattern in plan.may_change))
    return tuple(roots) if roots and all(root != "." and not paths.fault_in(root) for root in roots) else (".",)


def _fixed_part(pattern: str) -> str:
    parts: list[str] = []
    for part in pattern.removeprefix("./").rstrip("/").split("/"):
        if any(char in part for char in _WILD):
            break
        parts.append(part)
    return "/".join(parts) or "."


def response(
    asked: FileopsRequest, result: StepResult, claim: StepClaim | None, touched: Sequence[TouchedFile]
) -> Response:
    """Return what came of the request: the files that differ, and the commands that the engine ran."""
    commands = tuple(_proofs(asked, result))
    status = "ok" if result.success else _status(result, claim)
    substeps = [part.title for part in claim.substeps] if claim else []
    summary = f"{len(commands)} command(s) ran" if result.success else result.reason[:300]
    return Response.model_validate(
        {
            "proto": asked.proto,
            "id": asked.id,
            "status": status,
            "changedFiles": tuple(dict.fromkeys(path for file in touched for path in (file.source, file.path) if path)),
            "data": {"diffSummary": [{"path": file.path, "change": file.change} for file in touched]},
            "ops": tuple(_op(number, result, summary) for number in range(len(asked.ops))),
            "proof": ResponseProof(commands=commands),
            "split": {"reason": result.reason, "substeps": substeps} if status == "split" else None,
            "ask": {"question": result.reason.removeprefix("asks: ")} if status == "ask" else None,
            "fail": Failure(reason=result.reason) if status == "fail" else None,
        }
    )


def _status(result: StepResult, claim: StepClaim | None) -> str:
    if claim and claim.control == "split":
        return "split"
    return "ask" if result.error_code == NeedsInput.code else "fail"


def _op(number: int, result: StepResult, summary: str) -> OpResult:
    return OpResult(opIndex=number, status="ok" if result.success else "fail", summary=summary)


def _proofs(asked: FileopsRequest, result: StepResult) -> Iterator[CommandProof]:
    """Yield the commands with their exit codes, as far as the engine ran them."""
    for check in result.checks:
        printed = files.last_lines(check.log)[-_SHOWN:] if check.log and check.log.is_file() else ""
        code = check.exit_code if check.exit_code is not None else int(not check.held)
        yield CommandProof(cmd=check.name, exitCode=code, stdout=printed)
    if not result.checks and result.success:
        yield from (CommandProof(cmd=op.cmd, exitCode=0) for op in asked.ops if op.op == "run")
