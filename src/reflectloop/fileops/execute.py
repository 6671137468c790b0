"""One request, all or nothing: when an op fails, the workspace is what it was, and the answer says which and why."""

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
from reflectloop.fileops.response import Failure, FieldError, OpResult, Response, ResponseProof, Status, clean
from reflectloop.fileops.validate import Invalid
from reflectloop.system import git
from reflectloop.terms import Isolation
from reflectloop.workspace import patch
from reflectloop.workspace.patch import TouchedFile
from reflectloop.workspace.record_tree import Unrecordable

_NAMED = 5
_MOST_DENIED = 3
_SHOWN = 200  # characters of a command, in a question


class _Stopped(NamedTuple):
    """Why a request did not come to its end."""

    number: int  # of the op
    status: Status
    reason: str
    key: str = ""
    hint: str = ""
    data: Data | None = None


def answer(raw: bytes, hands: OpsContext, *, strict: bool = False) -> Response:
    """Read a request out of a text, and carry it out."""
    try:
        return execute(validate.parse(raw, strict=strict), hands)
    except Invalid as fault:
        return clean(fault.response)


def execute(request: FileopsRequest, hands: OpsContext) -> Response:
    """What the ops did, or why nothing of it was done. Leaks, escapes and faults of the machine are raised."""
    known = hands.memory.recall(request.id)
    if known:
        return known.response if known.content == request.hash else _refused(request, [_TAKEN])
    errors = validate.misfits(request) or _denied(request, hands) or _barred(request, hands)
    if errors:
        return _refused(request, errors)
    stopped = _spent(request, hands) or _unsure(request, hands)
    if stopped:
        return stopped
    response = clean(_Try(request, hands).run())
    hands.memory.remember(request, response)
    return response


_TAKEN = FieldError(field="id", error="was used for another request; every request has an id of its own")


def _refused(request: FileopsRequest, errors: list[FieldError]) -> Response:
    return clean(Response(proto=request.proto, id=request.id, status="validation_error", errors=tuple(errors)))


def _denied(request: FileopsRequest, hands: OpsContext) -> list[FieldError]:
    """Commands that are refused whoever asks. Whoever asks a third time is not asked for a fourth request."""
    errors = []
    for number, op in enumerate(request.ops):
        verdict = hands.policy.judge(op.cmd) if isinstance(op, RunOp) else None
        if verdict and verdict.verdict == "deny":
            errors.append(FieldError(field=f"ops[{number}].cmd", error=f"{verdict.reason} ({verdict.rule})"))
    if errors and hands.memory.denied() >= _MOST_DENIED:
        hands.memory.forgive()
        stop = GateRejected(
            f"a command was refused for the third time: {errors[0].error}", next_step="reflectloop unlock --reason TEXT"
        )
        stop.stops = True
        raise stop
    return errors


def _barred(request: FileopsRequest, hands: OpsContext) -> list[FieldError]:
    """What these hands do not do, found before they do anything."""
    errors = []
    for number, op in enumerate(request.ops):
        errors += [
            FieldError(field=f"ops[{number}].{key}", error=f"{path!r} lies outside what may be written here")
            for key, path in validate.writes(op)
            if not is_within(path, hands.writable)
        ]
    runs = any(isinstance(op, RunOp) for op in request.ops)
    if runs and request.constraints.no_network and hands.box.wall.level.rank < Isolation.FS.rank:
        why = f"cannot be promised at isolation level {hands.box.wall.level}"
        errors.append(FieldError(field="constraints.no_network", error=why))
    return errors


def _spent(request: FileopsRequest, hands: OpsContext) -> Response | None:
    most, failed = request.constraints.max_attempts, hands.memory.failures(request.purpose)
    if most is None or failed < most:
        return None
    reason = f"{failed} requests to {request.purpose} failed in a row, and max_attempts is {most}"
    return Response(
        proto=request.proto,
        id=request.id,
        status="fail",
        fail=Failure(reason=reason, hint="look at why they failed; then another max_attempts, or another way"),
        errors=(FieldError(field="constraints.max_attempts", error=reason),),
    )


def _unsure(request: FileopsRequest, hands: OpsContext) -> Response | None:
    """A command that only a person may let run; nothing was done, and no flag answers for them."""
    for number, op in enumerate(request.ops):
        verdict = hands.policy.judge(op.cmd) if isinstance(op, RunOp) else None
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


class _Try:
    def __init__(self, request: FileopsRequest, hands: OpsContext) -> None:
        self.request, self.hands, self.space = request, hands, hands.workspace
        self.idle = validate.is_idle(request)
        self.results: list[OpResult] = []

    def run(self) -> Response:
        self.begun = self._record_first()
        if not self.idle:
            self.hands.shelf.put_aside()
        with safe_files.opened(self.space.repo, self.space.identity[2:]) as top:
            self.doing = RequestExecution(self.request, self.hands, top, self.begun)
            try:
                stopped = self._work()
                if stopped is None:
                    response = self._done()
                    self.hands.memory.secure()  # the state must not name a tree that could be lost
                    self.hands.domain.keep()
                    return response
            except BaseException:
                with contextlib.suppress(Exception):  # what stopped us is what the caller must know
                    self._take_back()
                raise
        self._take_back()
        return self._not_done(stopped)

    def _record_first(self) -> str:
        try:
            return self.space.record().tree
        except Unrecordable as fault:
            raise SandboxCreateFailed(f"the workspace cannot be worked in: {fault}") from fault

    def _work(self) -> _Stopped | None:
        for number, op in enumerate(self.request.ops):
            try:
                summary = self.doing.do(number, op)
            except Refusal as fault:
                return _Stopped(number, "fail", fault.reason, fault.key or "op", fault.hint)
            except PersonNeeded as fault:
                return _Stopped(number, "ask", str(fault), "op", data=fault.data)
            except SplitNeeded as fault:
                return _Stopped(number, "split", str(fault), "op", data=fault.data)
            except Unrecordable as fault:
                return _Stopped(number, "fail", f"what was left cannot be recorded: {fault}", "op")
            self.results.append(OpResult(opIndex=number, status="ok", summary=summary))
        return self._look_back()

    def _look_back(self) -> _Stopped | None:
        """What came of it all: recorded, scanned, and only where the request may write."""
        last = len(self.request.ops) - 1
        try:
            now = self.space.record()
        except Unrecordable as fault:
            return _Stopped(last, "fail", f"what was left cannot be recorded: {fault}", "op")
        self.end = now.tree
        self.doing.notes += [f"{name} is a repository of its own and no part of the change" for name in now.nested]
        self.doing.notes += [f"{name} has a name of git's own and is no part of the change" for name in now.refused]
        self.touched: tuple[TouchedFile, ...] = patch.touched(self.space.git(), self.begun, self.end)
        roots = self.request.constraints.writable_roots
        outside = [one.path for one in self.touched if not self._may_write(one, roots)]
        if outside:
            named = ", ".join(outside[:_NAMED]) + (" …" if len(outside) > _NAMED else "")
            return _Stopped(last, "fail", f"was changed outside of what may be written: {named}", "op")
        return None

    def _may_write(self, one: TouchedFile, roots: tuple[str, ...]) -> bool:
        places = [one.path, *([one.source] if one.source else [])]
        return all(is_within(place, self.hands.writable) and (not roots or is_within(place, roots)) for place in places)

    def _take_back(self) -> None:
        self.hands.domain.take_back()
        if not self.idle:
            self.hands.shelf.give_back(self.begun)

    # The answer --------------------------------------------------------------------------------------------------

    def _done(self) -> Response:
        report = self.request.report
        data = dict(self.doing.data)
        if report.diffSummary:
            data["diffSummary"] = [{"path": one.path, "change": one.change, "from": one.source} for one in self.touched]
        return Response(
            proto=self.request.proto,
            id=self.request.id,
            status="ok",
            changedFiles=self._changed() if report.changedFiles else (),
            data=data,
            ops=tuple(self.results),
            proof=ResponseProof(commands=tuple(self.doing.commands), notes=tuple(self._notes())),
        )

    def _changed(self) -> tuple[str, ...]:
        return tuple(path for one in self.touched for path in ([one.source] if one.source else []) + [one.path])

    def _notes(self) -> list[str]:
        known = {*self._changed()}
        ignored = self._unrecorded([path for path in dict.fromkeys(self.doing.wrote) if path not in known])
        return [*self.doing.notes, *(f"ignored by git, and so no part of the change: {path}" for path in ignored)]

    def _unrecorded(self, paths: list[str]) -> list[str]:
        """Those that are there, and are in no tree."""
        named = [f":(literal){path}" for path in paths]
        listed = git.paths(self.space.git().run("ls-files", "-z", "--cached", "--", *named)) if named else []
        return [path for path in paths if path.encode() not in listed and self._is_there(path)]

    def _is_there(self, path: str) -> bool:
        try:
            return self.doing.reach.status(path) is not None
        except safe_files.AccessBarred:
            return False

    def _not_done(self, stopped: _Stopped) -> Response:
        undone = [one.model_copy(update={"status": "undone"}) for one in self.results if one.opIndex != stopped.number]
        failed = OpResult(opIndex=stopped.number, status="fail", summary=stopped.reason)
        rest = range(stopped.number + 1, len(self.request.ops))
        skipped = [OpResult(opIndex=number, status="skipped", summary="") for number in rest]
        left_out = self.hands.shelf.left_out if not self.idle else ()
        notes = [*self.doing.notes, *(f"could not be kept, and is gone: {name}" for name in left_out[:_NAMED])]
        field = f"ops[{stopped.number}].{stopped.key}"
        return Response(
            proto=self.request.proto,
            id=self.request.id,
            status=stopped.status,
            ops=(*undone, failed, *skipped),
            proof=ResponseProof(commands=tuple(self.doing.commands), notes=tuple(notes)),
            split=stopped.data if stopped.status == "split" else None,
            ask=stopped.data if stopped.status == "ask" else None,
            fail=Failure(reason=stopped.reason, hint=stopped.hint) if stopped.status == "fail" else None,
            errors=(FieldError(field=field, error=stopped.reason),),
        )
