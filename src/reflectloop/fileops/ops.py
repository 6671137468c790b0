"""Executes the ops of a request. A failed op raises Refusal; leaks and escapes are raised as errors."""

from __future__ import annotations

import errno
from typing import Any

from reflectloop import secrets
from reflectloop.errors import NoSpace, SecretLeak
from reflectloop.fileops import patches, read_ops
from reflectloop.fileops.ops_context import Data, EngineEvidence, OpsContext, PersonNeeded, Refusal
from reflectloop.fileops.plan_ops import AppendSteps, ApplySplit, Finalize, MarkBlocked, PlanInit, Preflight
from reflectloop.fileops.request import (
    ApplyPatch,
    DeleteFile,
    FileopsRequest,
    ListDir,
    MoveFile,
    ReadFile,
    RunOp,
    Search,
    WriteFile,
    WriteJson,
    as_text,
)
from reflectloop.fileops.response import CommandProof
from reflectloop.fileops.safe_files import AccessBarred, SafeFiles
from reflectloop.plan.model import command_text
from reflectloop.sandbox.sandbox import CommandResult, SandboxCommand
from reflectloop.secrets import content as file_content
from reflectloop.terms import Network, shorten

_LARGEST_PATCHED = 64 << 20  # bytes of a file that a patch may change
_HEAD, _TAIL = 4_000, 16_000  # characters of a command's output in the response
_SHOWN = 80  # characters of a command in a summary
READ_STATE = "read_state"
STATE_FILES = ("state.json", "todo.md", "plan_log.md")
AUTOLOOP = "automation/autoloop.py"


class ShownOutput:
    """The redacted head and tail of one output stream of a command."""

    def __init__(self) -> None:
        self._head, self._tail, self._cut = bytearray(), bytearray(), 0

    def take(self, data: bytes) -> None:
        room = _HEAD - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * _TAIL:
            self._trim()

    def _trim(self) -> None:
        excess = max(0, len(self._tail) - _TAIL)
        self._cut += excess
        del self._tail[:excess]

    def text(self) -> str:
        self._trim()
        cut = f"\n[… {self._cut} bytes cut …]\n".encode() if self._cut else b""
        return (self._head + cut + self._tail).decode("utf-8", "replace")


class RequestExecution:
    """The execution of one request."""

    def __init__(self, request: FileopsRequest, context: OpsContext, files: SafeFiles, begun: str) -> None:
        self.request, self.context, self.files, self.begun = request, context, files, begun
        self.data: Data = {}
        self.commands: list[CommandProof] = []
        self.wrote: list[str] = []
        self.notes, context.notes = context.notes, []

    def do(self, number: int, op: Any) -> str:  # noqa: ANN401 - any op
        """Execute an op and return a summary."""
        try:
            match op:
                case WriteFile():
                    return self._write(op.path, op.content.encode())
                case WriteJson():
                    return self._write(op.path, as_text(op.value).encode())
                case RunOp() | ApplyPatch() | DeleteFile() | MoveFile():
                    return self._change(op)
                case _:
                    self.data[str(number)], summary = self._read(op)
                    return summary
        except AccessBarred as fault:
            raise Refusal(str(fault), key=_key(op)) from fault
        except patches.PatchUnfit as fault:
            raise Refusal(str(fault), hint="read the current file and write a new patch", key="patch") from fault
        except OSError as fault:
            if fault.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoSpace(f"cannot write in the workspace: {fault.strerror}") from fault
            raise

    def _change(self, op: RunOp | ApplyPatch | DeleteFile | MoveFile) -> str:
        match op:
            case RunOp():
                return self._run(op)
            case ApplyPatch():
                return self._patch(op)
            case DeleteFile():
                return self._delete(op)
            case MoveFile():
                return self._move(op)

    def _delete(self, op: DeleteFile) -> str:
        self.files.delete(op.path)
        return self._wrote(f"deleted {op.path}", op.path)

    def _move(self, op: MoveFile) -> str:
        self.files.move(op.source, op.target)
        return self._wrote(f"moved {op.source} to {op.target}", op.source, op.target)

    def _read(self, op: Any) -> tuple[Data, str]:  # noqa: ANN401
        match op:
            case ReadFile():
                return self._read_file(op), f"read {op.path}"
            case ListDir():
                return read_ops.list_folder(op, self.files), f"listed {op.path}"
            case Search():
                return read_ops.search(op, self.files), f"searched {op.path}"
            case _:
                return self._plan(op), str(op.op)

    def _read_file(self, op: ReadFile) -> Data:
        """Read a file of the workspace; a request to read the state gets the views of the task by their names."""
        wants_state = self.request.purpose == READ_STATE and op.path in STATE_FILES
        view = self.context.domain.state_file(op.path) if wants_state else None
        return read_ops.read_file(op, self.files) if view is None else read_ops.shown(op, view)

    def _wrote(self, summary: str, *paths: str) -> str:
        self.wrote += paths
        return summary

    def _write(self, path: str, content: bytes, executable: bool | None = None) -> str:
        before = self._old(path)
        _refuse_secrets(path, content, before)
        self.files.write(path, content, executable)
        return self._wrote(f"{'wrote' if before is None else 'replaced'} {path} ({len(content)} bytes)", path)

    def _old(self, path: str) -> bytes | None:
        return self.files.read(path, _LARGEST_PATCHED + 1) if self.files.status(path) is not None else None

    def _patch(self, op: ApplyPatch) -> str:
        made = patches.resulting_files(patches.parse_patch(op.patch), self._patched)
        for path, after in made.items():
            if after.content is None:
                self.files.delete(path)
                self.wrote.append(path)
            else:
                self._write(path, after.content, after.executable)
        return f"patched {', '.join(made)}"

    def _patched(self, path: str) -> bytes | None:
        content = self._old(path)
        if content is not None and len(content) > _LARGEST_PATCHED:
            raise AccessBarred(f"{path!r} has more than {_LARGEST_PATCHED >> 20} MB")
        return content

    # Commands ----------------------------------------------------------------------------------------------------

    def _run(self, op: RunOp) -> str:
        if self._is_missing_autoloop(op):
            self.notes.append(f"{AUTOLOOP} is not in the project: not run; `reflectloop tr` does the next step")
            return f"left out {AUTOLOOP}, which is not in the project"
        with self.files.folder(tuple(part for part in op.cwd.split("/") if part != ".")):
            pass  # raises if the path contains a link
        printed = {"stdout": ShownOutput(), "stderr": ShownOutput()}
        order = SandboxCommand(
            op.cmd,
            self.context.workspace.repo / op.cwd,
            self.context.log(),
            op.timeoutMs / 1000,
            merge=False,
            apart=lambda stream, data: printed[stream].take(data),
            network=Network.NONE if self.request.constraints.no_network else None,
        )
        done = self.context.box.run(order)
        failed = bool(done.exit_code) or done.timed_out or done.idle or done.cancelled
        outputs = (
            {stream: printed_stream.text() for stream, printed_stream in printed.items()}
            if self._shows(failed=failed)
            else {}
        )
        self.commands.append(CommandProof(cmd=op.cmd, exitCode=done.exit_code, **outputs))
        self.notes += [
            f"removed from a command's output because it may be a secret: {secret}" for secret in done.doubtful
        ]
        return _judged(op, done)

    def _is_missing_autoloop(self, op: RunOp) -> bool:
        """Return True for TriFlow's call of its own daemon, which TriFlow puts after a finalize, if there is none."""
        words = op.cmd.split() if isinstance(op.cmd, str) else list(op.cmd)
        if self.request.purpose != "finalize_step" or words[1:] != [AUTOLOOP, "--once"] or op.cwd != ".":
            return False
        return words[0] in ("python", "python3") and self.files.status(AUTOLOOP) is None

    def _shows(self, *, failed: bool) -> bool:
        setting = self.request.report.commandOutputs
        return setting == "always" or (setting == "on_failure" and failed)

    # The plan ----------------------------------------------------------------------------------------------------

    def _plan(self, op: Any) -> Data:  # noqa: ANN401
        evidence = EngineEvidence(
            self.begun,
            self.context.workspace.record().tree,
            tuple(self.commands),
            reads_only=self.request.purpose == READ_STATE,
        )
        done: Data = getattr(self.context.domain, _METHODS[type(op)])(op, evidence)
        return done


_METHODS: dict[type[Any], str] = {
    PlanInit: "plan_init",
    Preflight: "preflight",
    Finalize: "finalize",
    MarkBlocked: "mark_blocked",
    ApplySplit: "apply_split",
    AppendSteps: "append_steps",
}


def _key(op: Any) -> str:  # noqa: ANN401
    if isinstance(op, ApplyPatch):
        return "patch"
    return "from" if isinstance(op, MoveFile) else "cwd" if isinstance(op, RunOp) else "path"


def _refuse_secrets(path: str, content: bytes, before: bytes | None) -> None:
    """Raise SecretLeak if the content adds a secret to the file, before it is written."""
    detector = secrets.current_detector()
    leaks = [finding for finding in file_content.scan_content(detector, content) if finding.grade == "certain"]
    known = (
        {finding.fingerprint for finding in file_content.scan_content(detector, before)} if leaks and before else set()
    )
    leaks = [finding for finding in leaks if finding.fingerprint not in known]
    leaks += [finding for finding in detector.scan(path.encode()) if finding.grade == "certain"]
    if leaks:
        finding = leaks[0]
        raise SecretLeak(
            f"{finding.rule} in the content for {detector.redact(path)}, line {finding.line} "
            f"(fingerprint {finding.fingerprint})",
            next_step="remove the secret from the request and revoke it: it was exposed",
        )


def _judged(op: RunOp, done: CommandResult) -> str:
    command = command_text(op.cmd)
    summary = shorten(command, _SHOWN)
    if done.idle:
        raise PersonNeeded(
            f"{summary}: printed nothing and used no CPU for a long time: it seems to wait for input", command=command
        )
    if done.timed_out:
        raise Refusal(f"{summary}: ran past {op.timeoutMs} ms and was killed with its children", key="timeoutMs")
    if done.cancelled:
        raise Refusal(f"{summary}: was cancelled", key="cmd")
    if done.exit_code:
        why = f": {done.limit}" if done.limit else ""
        raise Refusal(f"{summary}: exited {done.exit_code}{why}", key="cmd", hint="see proof.commands")
    return f"ran {summary} (exit 0, {done.duration_ms} ms)"
