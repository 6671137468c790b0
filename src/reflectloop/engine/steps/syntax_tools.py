"""Looks at the syntax of C, C++, JavaScript, Go and Rust by the machine's own compilers, in the sandbox.

A file counts as broken only for errors of syntax, in every way it may be read, and only if its old version had none.
Missing headers, unknown names and extensions of the language (JSX, decorators) prove nothing about a single file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from reflectloop.gates.batch_gate import SyntaxProblem
from reflectloop.sandbox.mounts import TEMP
from reflectloop.sandbox.sandbox import NOT_FOUND, NOT_RUNNABLE, Box, SandboxCommand
from reflectloop.system.patterns import lazy
from reflectloop.terms import Network
from reflectloop.verification.result import ChangedFile

_TIMEOUT_S = 10.0
_MOST_FILES = 40
_LARGEST = 1 << 20  # bytes of a file
_LONGEST = 64 << 10  # characters of a compiler's output that are read
_PLACE = lazy(r"(?:<stdin>|\[stdin\]|<anon>|<standard input>):\d")  # of an error, in what a compiler prints

_OUTPUT = "{temp}/syntax.rmeta"  # never /dev/null: rustc replaces its output file, and root may replace that one

_GCC = ("-fsyntax-only", "-fmax-errors=20", "-fdiagnostics-plain-output", "-w", "-I.", "-Iinclude", "-Isrc")
_RUSTC = ("--crate-type", "lib", "--emit=metadata", "-o", _OUTPUT, "--error-format=short", "--cap-lints", "allow")


class SyntaxTool(NamedTuple):
    """A program that reads source text from its standard input, and the ways in which it may read it."""

    program: str
    ways: tuple[tuple[str, ...], ...]
    fault: re.Pattern[str]  # an error of syntax; groups `line` and `what`
    doubt: re.Pattern[str] | None = None  # output that leaves open whether the text itself is at fault

    def argv(self, way: Sequence[str], path: str) -> tuple[str, ...]:
        quoted = ("-iquote", str(PurePosixPath(path).parent)) if self.program in ("gcc", "g++") else ()
        return (self.program, *way, *quoted, *(("-",) if self.program != "gofmt" else ()))


def _gcc(program: str, *languages: str, alone: bool = True) -> SyntaxTool:
    """Return a compiler; a header does not stand alone: in one, only text that never ends is wrong for certain."""
    expected = "expected .*" if alone else "expected .* at end of input"
    other = "(?:missing terminating|unterminated|stray) .*"
    return SyntaxTool(
        program,
        tuple((*_GCC, "-x", language) for language in languages),
        re.compile(rf"<stdin>:(?P<line>\d+):\d+: error: (?P<what>{expected}|{other})"),
        re.compile(
            r"error: (?:.*: No such file or directory|#error|unknown type name|.* was not declared"
            r"|.* (?:does not name|is not|has not been) |.*no member named)"
        ),
    )


def _node(*kinds: str) -> SyntaxTool:
    return SyntaxTool(
        "node",
        tuple(("--check", f"--input-type={kind}") for kind in kinds),
        re.compile(r"\[stdin\]:(?P<line>\d+)\n[\s\S]*?\n(?P<what>SyntaxError: .*)"),
        re.compile(r"SyntaxError: Unexpected token '<'|\n@\w|^\s*@\w", re.MULTILINE),  # JSX, decorators
    )


_C, _CXX = _gcc("gcc", "c"), _gcc("g++", "c++")
_TOOLS: Mapping[str, SyntaxTool] = {
    ".c": _C,
    **dict.fromkeys((".cc", ".cpp", ".cxx"), _CXX),
    ".h": _gcc("g++", "c", "c++", alone=False),
    **dict.fromkeys((".hh", ".hpp", ".hxx"), _gcc("g++", "c++", alone=False)),
    ".js": _node("commonjs", "module"),
    ".cjs": _node("commonjs"),
    ".mjs": _node("module"),
    ".go": SyntaxTool("gofmt", (("-e",),), lazy(r"<standard input>:(?P<line>\d+):\d+: (?P<what>.*)")),
    ".rs": SyntaxTool(
        "rustc",
        tuple((*_RUSTC, "--edition", edition) for edition in ("2021", "2015")),
        lazy(
            r"<anon>:(?P<line>\d+):\d+: error: (?P<what>(?:expected|unexpected|mismatched closing|unterminated"
            r"|unknown start|this file contains an unclosed|missing `) ?.*)"
        ),
    ),
}


class SyntaxReport(NamedTuple):
    problems: tuple[SyntaxProblem, ...] = ()
    not_parsed: tuple[str, ...] = ()  # reasons, each once


def parsed_by_tools(changes: Sequence[ChangedFile]) -> list[ChangedFile]:
    """Return the changed files that a compiler could parse."""
    return [
        change
        for change in changes
        if change.after and change.mode_after != "120000" and PurePosixPath(change.path).suffix.lower() in _TOOLS
    ]


def look(box: Box, changes: Sequence[ChangedFile], logs: Path) -> SyntaxReport:
    """Parse the changed files; the workspace of the box has the files that they include."""
    reader = _Reader(replace(box, read_only=True), logs)
    wanted = parsed_by_tools(changes)
    problems = [problem for change in wanted[:_MOST_FILES] for problem in reader.problems(change)]
    if len(wanted) > _MOST_FILES:
        reader.not_parsed[f"the syntax of {len(wanted) - _MOST_FILES} more files was not looked at"] = None
    return SyntaxReport(tuple(problems), tuple(reader.not_parsed))


class _Fault(NamedTuple):
    line: int
    what: str


class _Reader:
    def __init__(self, box: Box, logs: Path) -> None:
        self.box, self.logs = box, logs
        self.not_parsed: dict[str, None] = {}

    def problems(self, change: ChangedFile) -> Iterator[SyntaxProblem]:
        tool = _TOOLS[PurePosixPath(change.path).suffix.lower()]
        fault = self._fault(tool, change.path, change.after or b"")
        if fault is None or (change.before is not None and self._fault(tool, change.path, change.before)):
            return
        yield SyntaxProblem(change.path, fault.line, f"does not parse: {fault.what} ({tool.program})")

    def _fault(self, tool: SyntaxTool, path: str, text: bytes) -> _Fault | None:
        """Return the first error of syntax; None if the text can be read in one of the ways, or nobody can tell."""
        if len(text) > _LARGEST:
            self.not_parsed[f"{path} is too large for a look at its syntax"] = None
            return None
        fault: _Fault | None = None
        for way in tool.ways:
            printed = self._run(tool, tool.argv(way, path), text)
            if printed is None or (tool.doubt and tool.doubt.search(printed)):
                return None
            seen = tool.fault.search(printed)
            if seen is None:
                return None
            fault = fault or _Fault(int(seen["line"]), seen["what"].strip()[:200])
        return fault

    @property
    def _temp(self) -> str:
        return os.fspath(TEMP if self.box.view else self.box.workspace.tmp)

    def _run(self, tool: SyntaxTool, argv: tuple[str, ...], text: bytes) -> str | None:
        """Return what a compiler printed about a text; None if there is no such compiler or it came to no end."""
        chunks: list[bytes] = []
        descriptor = os.memfd_create("source")
        try:
            with os.fdopen(os.dup(descriptor), "wb") as source:
                source.write(text)
            os.lseek(descriptor, 0, os.SEEK_SET)
            self.logs.mkdir(parents=True, exist_ok=True)
            ended = self.box.run(
                SandboxCommand(
                    tuple(word.replace("{temp}", self._temp) for word in argv),
                    self.box.workspace.resolve("."),
                    self.logs / "syntax.log",
                    _TIMEOUT_S,
                    env={"LC_ALL": "C"},
                    show=chunks.append,
                    network=Network.NONE,
                    stdin=descriptor,
                )
            )
        finally:
            os.close(descriptor)
        if ended.exit_code in (NOT_FOUND, NOT_RUNNABLE):
            self.not_parsed[f"{tool.program} is not installed: the syntax of its files was not looked at"] = None
            return None
        if ended.timed_out or ended.idle or ended.limit or ended.cancelled:
            self.not_parsed[f"{tool.program} came to no end within {_TIMEOUT_S:g} s"] = None
            return None
        printed = b"".join(chunks).decode("utf-8", "replace")[:_LONGEST]
        if ended.exit_code and not _PLACE.search(printed):
            self.not_parsed[f"{tool.program} does not work here: {printed.strip().partition(chr(10))[0][:200]}"] = None
            return None
        return printed
