"""Executes one request, all or nothing: if an op fails, the workspace is restored and the response says why."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from reflectloop import config
from reflectloop.errors import GateRejected, SandboxCreateFailed
from reflectloop.fileops import safe_files, validate
from reflectloop.fileops.ops import RequestExecution
from reflectloop.fileops.ops_context import Data, OpsContext, PersonNeeded, Refusal, SplitNeeded
from reflectloop.fileops.paths import is_within
from reflectloop.fileops.request import FileopsRequest, RunOp
from reflectloop.fileops.response import Failure, FieldError, OpResult, Response, ResponseProof, Status, redact_response
from reflectloop.fileops.validate import Invalid
from reflectloop.system import git
from reflectloop.system.undo import on_failure
from reflectloop.terms import Isolation
from reflectloop.workspace import patch
from reflectloop.workspace.patch import TouchedFile
from reflectloop.workspace.record_tree import Unrecordable

_NAMED = 5
_MOST_DENIED = 3
_SHOWN = 200  # characters of a command, in a question


class _Stopped(NamedTuple):
    """The reason why a request was not completed."""

    number: int  # of the op
    status: Status
    reason: str
    key: str = ""
    hint: str = ""
    data: Data | None = None


def answer(raw: bytes, context: OpsContext, *, strict: bool = False) -> Response:
    """Parse a request from a text and execute it."""
    try:
        return execute(validate.parse(raw, strict=strict), context)
    except Invalid as fault:
        return redact_response(fault.response)


def execute(request: FileopsRequest, context: OpsContext) -> Response:
    """Execute a request and return its response. Leaks, escapes and system failures are raised."""
    known = context.memory.recall(request.id)
    if known:
        return known.response if known.content == request.hash else _refused(request, [_TAKEN])
    errors = validate.rule_errors(request) or _denied(request, context) or _not_allowed(request, context)
    if errors:
        return _refused(request, errors)
    stopped = _attempts_used(request, context) or _needs_person(request, context)
    if stopped:
        return stopped
    response = redact_response(_Attempt(request, context).run())
    context.memory.remember(request, response)
    return response


_TAKEN = FieldError(field="id", error="was used for another request; every request needs a new id")


def _refused(request: FileopsRequest, errors: list[FieldError]) -> Response:
    return redact_response(
        Response(proto=request.proto, id=request.id, status="validation_error", errors=tuple(errors))
    )


def _denied(request: FileopsRequest, context: OpsContext) -> list[FieldError]:
    """Return errors for commands that the policy denies. Raise when it happens for the third time."""
    errors = []
    for number, op in enumerate(request.ops):
        verdict = context.policy.judge(op.cmd) if isinstance(op, RunOp) else None
        if verdict and verdict.verdict == "deny":
            errors.append(FieldError(field=f"ops[{number}].cmd", error=f"{verdict.reason} ({verdict.rule})"))
    if errors and context.memory.denied() >= _MOST_DENIED:
        context.memory.forgive()
        stop = GateRejected(
            f"a command was refused for the third time: {errors[0].error}", next_step="reflectloop unlock --reason TEXT"
        )
        stop.stops = True
        raise stop
    return errors


def _not_allowed(request: FileopsRequest, context: OpsContext) -> list[FieldError]:
    """Return errors for paths and promises that this context does not allow, before any op runs."""
    errors = []
    for number, op in enumerate(request.ops):
        errors += [
            FieldError(field=f"ops[{number}].{key}", error=f"{path!r} is outside the paths that may be written here")
            for key, path in validate.written_paths(op)
            if not is_within(path, context.writable)
        ]
    runs = any(isinstance(op, RunOp) for op in request.ops)
    if runs and request.constraints.no_network and context.box.wall.level.rank < Isolation.FS.rank:
        why = f"cannot be enforced at isolation level {context.box.wall.level}"
        errors.append(FieldError(field="constraints.no_network", error=why))
    return errors


def _attempts_used(request: FileopsRequest, context: OpsContext) -> Response | None:
    most, failed = request.constraints.max_attempts, context.memory.failures(request.purpose)
    if most is None or failed < most:
        return None
    reason = f"{failed} requests to {request.purpose} failed in a row, and max_attempts is {most}"
    return Response(
        proto=request.proto,
        id=request.id,
        status="fail",
        fail=Failure(reason=reason, hint="read why they failed; then raise max_attempts or change the approach"),
        errors=(FieldError(field="constraints.max_attempts", error=reason),),
    )


def _needs_person(request: FileopsRequest, context: OpsContext) -> Response | None:
    """Return a question if a command needs a person's approval. Nothing was executed, and no flag can approve it."""
    for number, op in enumerate(request.ops):
        verdict = context.policy.judge(op.cmd) if isinstance(op, RunOp) else None
        if verdict and not verdict.allowed:
            question = f"may this run? {verdict.where[:_SHOWN]}: {verdict.reason}"
            how = f'[policy] allow = ["{verdict.rule}"] in {config.NAME}, then: reflectloop trust'
            return Response(
                proto=request.proto,
                id=request.id,
                status="ask",
                ask={"question": question, "rule": verdict.rule, "allow": how},
                errors=(FieldError(field=f"ops[{number}].cmd", error=f"{verdict.reason} ({verdict.rule})"),),
            )
    return None


class _Attempt:
    def __init__(self, request: FileopsRequest, context: OpsContext) -> None:
        self.request, self.context, self.space = request, context, context.workspace
        self.idle = validate.is_read_only(request)
        self.results: list[OpResult] = []

    def run(self) -> Response:
        self.begun = self._record_first()
        if not self.idle:
            self.context.backup.save()
        with safe_files.open_folder(self.space.repo, self.space.identity[2:]) as top:
            self.execution = RequestExecution(self.request, self.context, top, self.begun)
            with on_failure(self._try_to_take_back):
                stopped = self._work()
                if stopped is None:
                    response = self._done()
                    self.context.memory.secure()  # store the tree before the state refers to it
                    self.context.domain.keep()
                    return response
        self._take_back()
        return self._not_done(stopped)

    def _record_first(self) -> str:
        try:
            return self.space.record().tree
        except Unrecordable as fault:
            raise SandboxCreateFailed(f"the workspace cannot be used: {fault}") from fault

    def _work(self) -> _Stopped | None:
        for number, op in enumerate(self.request.ops):
            try:
                summary = self.execution.do(number, op)
            except Refusal as fault:
                return _Stopped(number, "fail", fault.reason, fault.key or "op", fault.hint)
            except PersonNeeded as fault:
                return _Stopped(number, "ask", str(fault), "op", data=fault.data)
            except SplitNeeded as fault:
                return _Stopped(number, "split", str(fault), "op", data=fault.data)
            except Unrecordable as fault:
                return _Stopped(number, "fail", f"the result cannot be recorded: {fault}", "op")
            self.results.append(OpResult(opIndex=number, status="ok", summary=summary))
        return self._check_result()

    def _check_result(self) -> _Stopped | None:
        """Record and scan the result, and refuse changes outside the writable paths."""
        last = len(self.request.ops) - 1
        try:
            now = self.space.record()
        except Unrecordable as fault:
            return _Stopped(last, "fail", f"the result cannot be recorded: {fault}", "op")
        self.end = now.tree
        self.execution.notes += [
            f"{name} is a separate git repository and not part of the change" for name in now.nested
        ]
        self.execution.notes += [
            f"{name} has a name that git reserves and is not part of the change" for name in now.refused
        ]
        self.touched: tuple[TouchedFile, ...] = patch.touched_files(self.space.git(), self.begun, self.end)
        roots = self.request.constraints.writable_roots
        outside = [file.path for file in self.touched if not self._may_write(file, roots)]
        if outside:
            named = ", ".join(outside[:_NAMED]) + (" …" if len(outside) > _NAMED else "")
            return _Stopped(last, "fail", f"files outside the writable paths were changed: {named}", "op")
        return None

    def _may_write(self, file: TouchedFile, roots: tuple[str, ...]) -> bool:
        places = [file.path, *([file.source] if file.source else [])]
        return all(
            is_within(place, self.context.writable) and (not roots or is_within(place, roots)) for place in places
        )

    def _try_to_take_back(self) -> None:
        with contextlib.suppress(Exception):  # the caller needs the error that came first
            self._take_back()

    def _take_back(self) -> None:
        self.context.domain.take_back()
        if not self.idle:
            self.context.backup.restore(self.begun)

    # The response ------------------------------------------------------------------------------------------------

    def _done(self) -> Response:
        report = self.request.report
        data = dict(self.execution.data)
        if report.diffSummary:
            data["diffSummary"] = [
                {"path": file.path, "change": file.change, "from": file.source} for file in self.touched
            ]
        return Response(
            proto=self.request.proto,
            id=self.request.id,
            status="ok",
            changedFiles=self._changed() if report.changedFiles else (),
            data=data,
            ops=tuple(self.results),
            proof=ResponseProof(commands=tuple(self.execution.commands), notes=tuple(self._notes())),
        )

    def _changed(self) -> tuple[str, ...]:
        return tuple(path for file in self.touched for path in ([file.source] if file.source else []) + [file.path])

    def _notes(self) -> list[str]:
        known = {*self._changed()}
        ignored = self._unrecorded([path for path in dict.fromkeys(self.execution.wrote) if path not in known])
        return [*self.execution.notes, *(f"ignored by git, so not part of the change: {path}" for path in ignored)]

    def _unrecorded(self, paths: list[str]) -> list[str]:
        """Return the paths that exist but are not recorded in the tree."""
        named = [f":(literal){path}" for path in paths]
        listed = git.paths(self.space.git().run("ls-files", "-z", "--cached", "--", *named)) if named else []
        return [path for path in paths if path.encode() not in listed and self._is_there(path)]

    def _is_there(self, path: str) -> bool:
        try:
            return self.execution.files.status(path) is not None
        except safe_files.AccessBarred:
            return False

    def _not_done(self, stopped: _Stopped) -> Response:
        undone = [
            result.model_copy(update={"status": "undone"})
            for result in self.results
            if result.opIndex != stopped.number
        ]
        failed = OpResult(opIndex=stopped.number, status="fail", summary=stopped.reason)
        rest = range(stopped.number + 1, len(self.request.ops))
        skipped = [OpResult(opIndex=number, status="skipped", summary="") for number in rest]
        left_out = self.context.backup.left_out if not self.idle else ()
        notes = [*self.execution.notes, *(f"could not be backed up and is lost: {name}" for name in left_out[:_NAMED])]
        field = f"ops[{stopped.number}].{stopped.key}"
        return Response(
            proto=self.request.proto,
            id=self.request.id,
            status=stopped.status,
            ops=(*undone, failed, *skipped),
            proof=ResponseProof(commands=tuple(self.execution.commands), notes=tuple(notes)),
            split=stopped.data if stopped.status == "split" else None,
            ask=stopped.data if stopped.status == "ask" else None,
            fail=Failure(reason=stopped.reason, hint=stopped.hint) if stopped.status == "fail" else None,
            errors=(FieldError(field=field, error=stopped.reason),),
        )
