"""Run one check in the sandbox and judge it by the results the engine observed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import re2

from reflectloop.plan.model import FILE_STATEMENTS, Check
from reflectloop.sandbox.sandbox import Box, SandboxCommand
from reflectloop.system.patterns import lazy
from reflectloop.terms import Network
from reflectloop.verification.sidecar import beside
from reflectloop.workspace import tree_diff
from reflectloop.workspace.checkout import Workspace

AS_EXPECTED = "as expected"
_NO_VERDICT = 126  # not runnable, not found, or killed by a signal
_REGEX_LIMIT = 8 << 20
_LOG_READ = 16 << 20
_NOT_RUN = frozenset(("tool_missing", "collection_error", "no_tests"))  # types of results that say nothing of the code
_IMPORT_FAILED = lazy(
    r"^(?:ModuleNotFoundError|ImportError): .+|^(?:Error: )?Cannot find module '.+|.*cannot load such file -- \S+.*",
    re.MULTILINE,
)


class CheckResult(NamedTuple):
    """The result of one check of a plan."""

    name: str
    held: bool
    reason: str
    exit_code: int | None
    duration_ms: int
    log: Path | None
    timed_out: bool = False
    doubtful: tuple[str, ...] = ()
    command: str = ""  # the check in one line


class Needle:
    """A search for a text in a stream of any length."""

    def __init__(self, text: str) -> None:
        self._needle = text.encode()
        self._end = b""
        self.seen = not text

    def look(self, chunk: bytes) -> None:
        if not self.seen:
            window = self._end + chunk
            self.seen = self._needle in window
            self._end = window[-len(self._needle) + 1 :] if len(self._needle) > 1 else b""


class _CapturedOutput:
    """The output of a command, as far as the memory limit allows."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.complete = True

    def look(self, chunk: bytes) -> None:
        self.complete = self.complete and len(self.data) + len(chunk) <= _REGEX_LIMIT
        if self.complete:
            self.data += chunk


def run(
    name: str,
    check: Check,
    box: Box,
    *,
    must_fail: bool,
    log: Path,
    cwd: Path,
    env: Mapping[str, str],
    printed: Callable[[str], bool],
    exited: int,
    show: Callable[[bytes], None],
    network: Network | None = None,
) -> CheckResult:
    """Run a check; it passes if it meets its expectation or, with `must_fail`, if its command ran and did not."""
    exit_code, duration_ms, faults = None, 0, []
    doubtful: tuple[str, ...] = ()

    def result(*, held: bool, reason: str, timed_out: bool = False) -> CheckResult:
        own_log, command = (log if check.run is not None else None), check.description
        return CheckResult(
            name, held, reason, exit_code, duration_ms, own_log, timed_out, doubtful=doubtful, command=command
        )

    if check.run is not None:
        wanted, unwanted = Needle(check.stdout_contains or ""), Needle(check.not_contains or "\0")
        captured = _CapturedOutput()
        observers = [wanted, unwanted] + ([captured] if check.stdout_regex else [])

        def look(chunk: bytes) -> None:
            for observer in observers:
                observer.look(chunk)

        done = box.run(
            SandboxCommand(
                beside(check.service, check.run),
                cwd,
                log,
                check.timeout_s,
                env=env,
                show=show,
                look=look,
                merge=False,
                network=network,
            )
        )
        exit_code, duration_ms, doubtful = done.exit_code, done.duration_ms, done.doubtful
        if done.timed_out:
            return result(held=False, reason=f"ran past {check.timeout_s} s", timed_out=True)
        faults += _output_faults(check, exit_code, wanted, unwanted, captured)
        why = why_no_verdict(check, exit_code, log) if must_fail and exit_code else ""
        if why:
            return result(held=False, reason=f"gave no verdict: {why}")
    if check.output_contains and not printed(check.output_contains):
        faults.append(f"the step's output does not contain {check.output_contains!r}")
    if check.commands_exit not in (None, exited):
        faults.append(f"the step's last command exited {exited}, not {check.commands_exit}")
    faults += _file_faults(check, box)
    passed = bool(faults) if must_fail else not faults
    reason = "; ".join(faults) if faults else AS_EXPECTED
    if must_fail:
        reason = f"red, as expected ({reason})" if faults else "was expected to fail, but passed"
    return result(held=passed, reason=reason)


def why_no_verdict(check: Check, exit_code: int, log: Path) -> str:
    """Return why a check that failed says nothing about the code: it could not run, or found no test. Empty if it does.

    A test check that cannot import or build what it tests did not run either.
    """
    from reflectloop.verification import reports  # noqa: PLC0415 - only for a check that is expected to fail

    if exit_code >= _NO_VERDICT:
        return f"exit code {exit_code}"
    with log.open("rb") as file:
        text = file.read(_LOG_READ).decode("utf-8", "replace")
    result = reports.judge(reports.read(text), exit_code=exit_code, log=text)
    is_test = check.kind in ("test", "e2e")
    if result.type in _NOT_RUN or (is_test and result.type == "build_failure"):
        return result.summary
    imports = _IMPORT_FAILED.findall(text) if is_test and not result.tests and not result.counts.failed else []
    return imports[-1].strip() if imports else ""


def run_command(name: str, check: Check, box: Box, log: Path) -> CheckResult:
    """Run a check that belongs to no step, at the top of the workspace."""
    return run(
        name,
        check,
        box,
        must_fail=False,
        log=log,
        cwd=box.workspace.resolve("."),
        env={},
        printed=lambda _text: False,
        exited=0,
        show=lambda _data: None,
    )


def _output_faults(
    check: Check, exit_code: int, wanted: Needle, unwanted: Needle, captured: _CapturedOutput
) -> list[str]:
    faults = []
    if exit_code != check.exit_code:
        faults.append(f"exit code {exit_code}, not {check.exit_code}")
    if not wanted.seen:
        faults.append(f"output does not contain {check.stdout_contains!r}")
    if check.not_contains and unwanted.seen:
        faults.append(f"output contains {check.not_contains!r}")
    if check.stdout_regex and not captured.complete:
        faults.append(f"output is over {_REGEX_LIMIT >> 20} MB, too long for stdout_regex")
    elif check.stdout_regex and not re2.search(check.stdout_regex, captured.data.decode("utf-8", "replace")):
        faults.append(f"output does not match {check.stdout_regex!r}")
    return faults


def _file_faults(check: Check, box: Box) -> list[str]:
    """Return why the statements of a check about files are not true."""
    faults = [_STATEMENTS[name](path, box.workspace) for name in FILE_STATEMENTS if (path := getattr(check, name))]
    return [fault for fault in faults if fault]


def _exists(path: str, space: Workspace) -> str:
    return "" if space.resolve(path).exists() else f"{path} does not exist"


def _nonempty(path: str, space: Workspace) -> str:
    file = space.resolve(path)
    return "" if file.is_file() and file.stat().st_size else f"{path} is missing or empty"


def _unchanged(path: str, space: Workspace) -> str:
    now = space.record(thorough=True).tree
    changed = tree_diff.changed_names(space.git(), space.base_tree, now, within=[f":(literal){path}"])
    return f"{path} changed" if changed else ""


# For each `file_*` field of a check: a function that returns why the statement is not true, or an empty text.
_STATEMENTS = {"file_exists": _exists, "file_nonempty": _nonempty, "file_unchanged": _unchanged}
