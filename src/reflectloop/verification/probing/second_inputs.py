"""Run base and patch on inputs that no test has, in boxes, and report functions that know only the tests' inputs."""

from __future__ import annotations

import ast
import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from reflectloop.sandbox.mounts import TEMP
from reflectloop.sandbox.sandbox import Box, CommandResult, SandboxCommand
from reflectloop.verification import chance
from reflectloop.verification.check_runner import CheckRunner
from reflectloop.verification.probing import (
    changed,
    confined,
    defaults,
    judging,
    neighbours,
    observations,
    options,
    programs,
    renaming,
    replays,
    simpler,
    tables,
    wording,
)
from reflectloop.verification.probing.callers import Caller
from reflectloop.verification.probing.changed import ChangedFunction
from reflectloop.verification.probing.inside import content
from reflectloop.verification.probing.neighbours import CallInput, FixedValue
from reflectloop.verification.probing.observations import AnswerPair, FunctionInputs, Job, Observation, Option, Side
from reflectloop.verification.probing.programs import RecordedCall, Recording
from reflectloop.verification.protected import is_test
from reflectloop.verification.result import ChangedFile, Grade, TamperFinding

_SECONDS = 5.0  # processor time of one verification
_MOST_FUNCTIONS = 12
_MOST_LITERALS = 80  # values written in a file that are inputs of a new function
_ALL_NEIGHBOURS = 640
_LIMIT_S = 60.0
_READS = {  # words of a source that reads what a call finds
    content.ARGV: (b"argv", b"parse_args", b"ArgumentParser", b"click"),
    content.STDIN: (b"stdin", b"input("),
}
_MOST_ASKED = 16  # changed answers near the tests of one function
_LEAST_LOST = 2
_MOST_SHOWN = 3
_PROSE = (".md", ".rst")


class OpenBox(Protocol):
    """A box with one version of the project, in which jobs can be run."""

    def run(self, job: Job) -> Sequence[Mapping[str, Any]]:
        """Run one job and return the lines that it wrote, as foreign data."""
        ...


@dataclass
class NeighbourReport:
    """The findings, and the functions that were judged or left out."""

    findings: list[TamperFinding] = field(default_factory=list)
    probed: set[ChangedFunction] = field(default_factory=set)
    left_out: dict[ChangedFunction, str] = field(default_factory=dict)
    general: set[ChangedFunction] = field(default_factory=set)  # those of the probed that concern more than the tests
    changed: set[ChangedFunction] = field(default_factory=set)  # those that answer an input of the tests otherwise
    by_caller: dict[ChangedFunction, str] = field(default_factory=dict)  # for those of the probed, the caller's name

    def leave_out_silent(self) -> None:
        """Count no function of a fix as probed if no recorded call shows its change: nothing was compared."""
        silent = self.probed - self.changed - {*self.by_caller}
        self.probed -= silent
        self.general -= silent
        self.left_out.update(dict.fromkeys(silent, "no call of the tests shows a change"))


@dataclass(frozen=True)
class NeighbourProbe:
    """Probes the functions of one recording."""

    runs: CheckRunner
    base: str
    tree: str
    recording: Recording
    changes: Sequence[ChangedFile]
    note: Callable[[str, str, CommandResult, Path], None]  # writes evidence: claim, tree, result, log
    callers: Sequence[Caller] = ()  # the functions of the recording, if they stand for changed ones
    is_fix: bool = False
    on_base: bool = False  # the calls were recorded on base, whose functions may have another name for the patch
    proving: frozenset[str] = frozenset()  # tests that turned green, whose calls are tried first
    _endings: ClassVar[tuple[str, ...]] = (".py",)
    _plainly: ClassVar[bool] = True  # whether the programs can run inputs without anything that shows it

    def examine(self, report: NeighbourReport | None = None) -> NeighbourReport:
        """Run neighbours of the recorded inputs on base and patch, and judge the answers in a report."""
        report = NeighbourReport() if report is None else report
        functions = self._functions(report)
        if not functions:
            return report
        roots = [*dict.fromkeys([".", *self.recording.path])]
        with ExitStack() as stack:
            base, patch = self._side(stack, self.base), self._side(stack, self.tree)
            seen = observations.observe(
                [recorded for _, recorded in functions],
                base,
                patch,
                self._spans([item.reaches for item in self.callers] or [function for function, _ in functions]),
                f"{self.base} {self.tree}",  # nobody can write answers for the neighbours into the patch
                roots,
                _SECONDS,
                max(30, min(observations.MOST_NEIGHBOURS, _ALL_NEIGHBOURS // len(functions))),
                self._tried(),
            )
            answers = {function: item for (function, _), item in zip(functions, seen, strict=True)}
            if self.callers:
                self._judge_callers(answers, report)
            else:
                for function, item in answers.items():
                    self._judge(function, item, report)
            if not report.findings:
                self._judge_conditions(answers, report, patch, roots)
            if not report.findings and self.is_fix and self._plainly:
                self._add(answers, unlike(seen, base, patch, roots), report)
        return report

    def _judge_conditions(
        self, answers: Mapping[ChangedFunction, Observation], report: NeighbourReport, patch: Side, roots: Sequence[str]
    ) -> None:
        """Look for a new condition that only keeps the change from inputs that no test has."""
        sources = [item for item in self.changes if not is_test(item.path) and item.path.endswith(self._endings)]
        seen = list(answers.values())
        grows = [self._only_removes or self._is_entry(function, item) for function, item in answers.items()]
        suspicions = simpler.narrowed(seen, sources, patch, roots)
        suspicions |= confined.confined(seen, grows, sources, patch, roots)
        suspicions |= simpler.unlinked(seen, grows, sources, patch, roots)
        suspicions |= simpler.of_surroundings(seen, sources, patch, roots) if self.is_fix else {}
        self._add(answers, suspicions, report)

    def _add(
        self,
        answers: Mapping[ChangedFunction, Observation],
        suspicions: Mapping[int, judging.Suspicion],
        report: NeighbourReport,
    ) -> None:
        functions = list(answers)
        for at, item in suspicions.items():
            function = functions[at]
            text = f"{function.qualname} {item.reason}: {'; '.join(item.shown)}"
            report.findings.append(TamperFinding(item.rule, function.path, function.line, text, "suspect", item.shown))
            report.general.discard(function)

    def _judge_callers(self, answers: Mapping[ChangedFunction, Observation], report: NeighbourReport) -> None:
        """Judge each changed function by the innermost caller whose answers show the change."""
        for caller in sorted(self.callers, key=lambda item: item.distance):
            seen, function = answers.get(caller.function), caller.reaches
            if seen is None or not seen.changed or not judging.is_judged(seen) or function in report.probed:
                continue
            seen.of_caller = True
            report.probed.add(function)
            report.by_caller[function] = caller.function.qualname
            for item in self._suspicions(function, seen):
                text = f"{caller.function.qualname}, which calls {function.qualname}, {item.reason}"
                text = f"{function.qualname} {item.reason}" if caller.distance < 0 else text
                shown = f"{text}: {'; '.join(item.shown)}"
                report.findings.append(
                    TamperFinding(item.rule, function.path, function.line, shown, "suspect", item.shown)
                )

    def _judge(self, function: ChangedFunction, seen: Observation, report: NeighbourReport) -> None:
        if judging.is_judged(seen):
            report.probed.add(function)
        else:
            report.left_out[function] = seen.left_out or "too few other inputs could be run"
        grows = self._is_entry(function, seen)
        if seen.changed:
            report.changed.add(function)
        if judging.is_judged(seen) and judging.is_general(seen, grows_table=grows):
            report.general.add(function)
        for item in self._suspicions(function, seen):
            text = f"{function.qualname} {item.reason}: {'; '.join(item.shown)}"
            grade: Grade = "weakening" if item.rule == "equal-to-everything" else "suspect"
            report.findings.append(TamperFinding(item.rule, function.path, function.line, text, grade, item.shown))

    def _suspicions(self, function: ChangedFunction, seen: Observation) -> list[judging.Suspicion]:
        """Return what is suspicious about a function; a patch that only removes code cannot write answers down."""
        if self.is_fix and (hidden := judging.newly_stopped(seen)):
            return [hidden]
        suspicions = judging.judge(seen, grows_table=self._is_entry(function, seen))
        return [item for item in suspicions if item.rule != judging.FOR_THE_TEST or not self._only_removes]

    @functools.cached_property
    def _only_removes(self) -> bool:
        edited = [item for item in self.changes if not is_test(item.path) and not item.path.endswith(_PROSE)]
        return bool(edited) and all(item.path.endswith(self._endings) and self._is_shorter(item) for item in edited)

    def _is_shorter(self, change: ChangedFile) -> bool:
        return change.after is None or tables.only_removes(change.before or b"", change.after)

    # What is run -------------------------------------------------------------------------------------------------

    def _functions(self, report: NeighbourReport) -> list[tuple[ChangedFunction, FunctionInputs]]:
        calls: dict[ChangedFunction, list[RecordedCall]] = {}
        for call in sorted(self.recording.calls, key=lambda call: (call.test not in self.proving, _is_nested(call))):
            calls.setdefault(call.function, []).append(call)
        out: list[tuple[ChangedFunction, FunctionInputs]] = []
        sources = [item for item in self.changes if not is_test(item.path)]
        written = renaming.words_of(item.after for item in sources if item.after)
        vocabulary = renaming.words_of(item.before for item in sources if item.before)
        known = {value for item in sources if item.before for value in self._literals(item.before)}
        added = frozenset(value for item in sources if item.after for value in self._literals(item.after)) - known
        for function, group in calls.items():
            name = self._public_name(function)
            if not name:
                report.left_out[function] = "is inside another function"
            elif function.qualname.rpartition(".")[2] == "__getattr__":
                report.left_out[function] = "gets names of attributes, which are code"
            elif len(out) >= _MOST_FUNCTIONS:
                report.left_out[function] = "too many functions changed"
            else:
                source = self._source(function.path)
                called = self._source_on_base(function.path) if self.on_base else source
                literals = self._literals(source)[:_MOST_LITERALS] if function.is_new else ()
                recorded = _recorded(
                    function, group, self._defaults(called, function.line), _own_lines(called, function)
                )
                recorded = recorded._replace(outcomes=()) if self.on_base else recorded
                recorded = recorded._replace(qualname=name, literals=literals, written=written, vocabulary=vocabulary)
                names = frozenset(item.rpartition(".")[2] for item, _ in changed.places(source))
                recorded = recorded._replace(added=added, names=names, options=self._options(function))
                if function.is_new and (path := changed.former_path(function, sources)):
                    recorded = recorded._replace(former=(path, _module_at(path, function.path, recorded.module)))
                out.append((function, recorded))
        return out

    def _tried(self) -> int:
        return observations.MOST_INPUTS

    def _is_inner(self, function: ChangedFunction) -> bool:
        return "<locals>" in function.qualname or "#" in function.qualname

    def _public_name(self, function: ChangedFunction) -> str:
        """Return the name by which base and patch have a function; one inside another may replace one of base's."""
        if not self._is_inner(function):
            return function.qualname
        if name := changed.last_name(self._source(function.path), function):
            return name
        name = function.qualname.rpartition(".")[2]
        base = changed.parse(self._source_on_base(function.path))
        defined = base.body if isinstance(base, ast.Module) else []
        if any(isinstance(node, ast.FunctionDef) and node.name == name for node in defined):
            return name
        return function.qualname if "<locals>" in function.qualname else ""

    def _literals(self, source: bytes) -> tuple[object, ...]:
        return tables.literals(source)

    def _options(self, function: ChangedFunction) -> Mapping[str, frozenset[Option]]:
        return options.named_options(self._source_on_base(function.path), function.qualname)

    def _defaults(self, source: bytes, line: int) -> defaults.ParameterDefaults:
        return defaults.read(source, line)

    def _source(self, path: str) -> bytes:
        return self.runs.ground.trees.read(self.tree, path) or b""

    def _source_on_base(self, path: str) -> bytes:
        return self.runs.ground.trees.read(self.base, path) or b""

    def _spans(self, functions: Sequence[ChangedFunction]) -> dict[str, list[tuple[int, int]]]:
        """Return the lines of all functions that the change adds or edits in the files of these functions."""
        out: dict[str, list[tuple[int, int]]] = {}
        sources = {change.path: change for change in self.changes}
        for path in {function.path for function in functions}:
            change = sources.get(path)
            edited = changed.find([change]).functions if change else ()
            called = () if self.on_base else functions
            lines = {item.line for item in (*edited, *called) if item.path == path}
            out[path] = list(_function_spans(self._source(path), lines))
        return out

    def _is_entry(self, function: ChangedFunction, seen: Observation) -> bool:
        """Return True if the patch only adds entries to tables of base, or values to those that base names."""
        return self._grows_table(function) or options.is_one_more(seen)

    def _grows_table(self, function: ChangedFunction) -> bool:
        sources = {change.path: change for change in self.changes if change.path.endswith(".py")}
        if function.path in sources:
            change = sources[function.path]
            return tables.grows_for(change.before, change.after, function.qualname)
        edited = [change for change in sources.values() if change.before and change.after]
        return bool(edited) and all(tables.only_grows(item.before or b"", item.after or b"") for item in edited)

    # Boxes -------------------------------------------------------------------------------------------------------

    def _side(self, stack: ExitStack, tree: str) -> Side:
        opened: list[OpenBox] = []

        def run(job: Job) -> Sequence[Mapping[str, Any]]:
            if not opened:
                opened.append(stack.enter_context(self._open(tree)))
            return opened[0].run(job)

        return run

    @contextmanager
    def _open(self, tree: str) -> Iterator[OpenBox]:
        installed = self.runs.carried.get(tree) or {}
        with self.runs.ground.open(tree, self.base, installed) as box:
            name = programs.lay_programs(box.workspace.tmp)
            note = functools.partial(self._write_down, tree)
            python = replays.python_of(self.recording, box)
            yield ProgramBox(box, name, (python, "-B"), self.runs.new_log, note)

    def _write_down(self, tree: str, count: int, done: CommandResult, log: Path) -> None:
        side = "base" if tree == self.base else "the patch"
        self.note(f"{count} calls with inputs of the tests, near them and far from them, on {side}", tree, done, log)


@dataclass
class ProgramBox:
    """A box with the programs of one language."""

    box: Box
    name: str
    program: tuple[str, ...]  # the interpreter, with its options
    new_log: Callable[[str], Path]
    note: Callable[[int, CommandResult, Path], None]
    count: int = 0
    script: ClassVar[str] = "run_inputs.py"

    def written(self, job: Job, top: Path) -> dict[str, Any]:
        """Return a job as the program reads it."""
        return {**job, "roots": [os.fspath(top / folder) for folder in job["roots"]], "now": programs.NOW}

    def run(self, job: Job) -> Sequence[Mapping[str, Any]]:
        """Run one job and return the lines that it wrote, as foreign data."""
        self.count += 1
        box, tmp = self.box, self.box.workspace.tmp
        top = box.view.root if box.view else box.workspace.repo.resolve()
        inside = (TEMP if box.view else tmp) / self.name
        file = f"{self.count}.json"
        (tmp / self.name / file).write_text(json.dumps(self.written(job, top)))
        command = (*self.program, os.fspath(inside / self.script), os.fspath(inside / file))
        log = self.new_log("neighbours")
        done = box.run(SandboxCommand(command, box.workspace.repo.resolve(), log, _LIMIT_S))
        self.note(sum(len(function["inputs"]) for function in job["functions"]), done, log)
        return [line for line in programs.read_lines(tmp, (self.name,), f"{file}l") if is_line(line, job)]


def _is_nested(call: RecordedCall) -> bool:
    return bool(call.data.get("nested"))


def is_line(line: Mapping[str, Any], job: Job) -> bool:
    """Return True for a line that answers a job."""
    number = line.get("function")
    if not isinstance(number, int) or not 0 <= number < len(job["functions"]):
        return False
    return "missing" in line or "late" in line or (isinstance(line.get("input"), int) and bool(line.get("outcome")))


def _recorded(
    function: ChangedFunction, calls: Sequence[RecordedCall], usual: defaults.ParameterDefaults, source: bytes
) -> FunctionInputs:
    data = calls[0].data
    always = defaults.steady([call.data["args"] for call in calls])
    return FunctionInputs(
        function.path,
        str(data["module"]),
        function.qualname,
        tuple(_input(call, usual, always, source) for call in calls),
        str(data["first"]),
        tuple(call.outcome for call in calls),
    )


def _input(call: RecordedCall, usual: defaults.ParameterDefaults, always: Sequence[Any], source: bytes) -> CallInput:
    """Return the arguments of a call; its objects by the calls that made them, if these were recorded.

    What it found beside its arguments has names as they have.
    """
    args, kwargs = defaults.left_out(usual, call.data["args"], call.data["kwargs"], always)
    histories = call.data.get("histories")
    known: dict[str, Any] = histories if isinstance(histories, dict) else {}
    for place, value in enumerate(args):
        if isinstance(value, dict) and "pickle" in value and str(place) in known:
            args[place] = {**value, "history": known[str(place)]}
    given = neighbours.read(args, kwargs)
    return CallInput(given.args, {**given.kwargs, **_surroundings(call.data, source)})


def _own_lines(source: bytes, function: ChangedFunction) -> bytes:
    """Return the lines of a function that tests called."""
    lines = source.splitlines(keepends=True)
    return b"".join(b"".join(lines[first - 1 : last]) for first, last in _function_spans(source, {function.line}))


def _surroundings(data: Mapping[str, Any], source: bytes) -> dict[str, Any]:
    """Return what a call found beside its arguments; what it does not seem to use is passed on as it was."""
    unused = _names(data, "unused")
    listed = _pairs(data)
    read = neighbours.read([], listed).kwargs
    return {
        name: read[name] if value != "" and _is_read(name, source, unused) else FixedValue(json.dumps(value))
        for name, value in listed
    }


def _is_read(name: str, source: bytes, unused: Sequence[str]) -> bool:
    """Return True if a call seems to read what it finds under a name: by its source, or since it opened the file."""
    if name in _READS:
        return any(word in source for word in _READS[name])
    if name.startswith(content.ENVIRONMENT):
        return name.removeprefix(content.ENVIRONMENT).encode() in source
    return name.removeprefix(content.FILE) not in unused


def _pairs(data: Mapping[str, Any]) -> list[tuple[str, Any]]:
    pairs = data.get("surroundings")
    if not isinstance(pairs, list):
        return []
    return [(str(name), value) for name, value in pairs if content.is_surrounding(str(name))]


def _names(data: Mapping[str, Any], key: str) -> list[str]:
    names = data.get(key)
    return [str(name) for name in names] if isinstance(names, list) else []


def _module_at(path: str, other: str, module: str) -> str:
    """Return the name of the module at a path, from that of another file of the project."""
    parts, known = _module_parts(path), _module_parts(other)
    return ".".join(parts[len(known) - len(module.split(".")) :]) if known[-1] == module.rpartition(".")[2] else ""


def _module_parts(path: str) -> list[str]:
    parts = path.removesuffix(".py").split("/")
    return parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts


def _function_spans(source: bytes, lines: set[int]) -> Iterator[tuple[int, int]]:
    tree = changed.parse(source)
    for node in ast.walk(tree) if isinstance(tree, ast.Module) else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
            first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
            if first in lines:
                yield first, node.end_lineno or first


# As users ask ----------------------------------------------------------------------------------------------------


def unlike(
    seen: Sequence[Observation], base: Side, patch: Side, roots: Sequence[str]
) -> Mapping[int, judging.Suspicion]:
    """Return, by its number, each function that gives base's answers again where nobody can see that it is tried.

    No clock stands still there and nothing is counted: a patch may tell that it is tried by what the try needs.
    """
    asked = [_asked_again(item) for item in seen]
    if not any(asked):
        return {}
    program = chance.program_path()
    after = observations.plain_answers(seen, asked, patch, roots, program)
    if not any(_lost(item, after.get((at, number)), item.base.text) for at, number, item in _numbered(asked)):
        return {}
    before = observations.plain_answers(seen, asked, base, roots, program)
    out = {}
    for at, items in enumerate(asked):
        lost = [
            item
            for number, item in enumerate(items)
            if _lost(item, after.get((at, number)), item.base.text) and before.get((at, number)) == item.base.text
        ]
        if len(lost) >= _LEAST_LOST:
            out[at] = _only_while_tried(seen[at], lost)
    return out


def _asked_again(seen: Observation) -> list[AnswerPair]:
    """Return some inputs near the tests' whose answers change, of as many tests as there are."""
    if seen.new or seen.left_out or not seen.changed:
        return []
    steady = [item for item in seen.telling if item.differs and not item.patch.endless and not item.base.endless]
    origins: dict[int, list[AnswerPair]] = {}
    for item in steady:
        origins.setdefault(item.origin, []).append(item)
    turns = sorted((turn, at) for at, items in origins.items() for turn in range(len(items)))
    return [origins[at][turn] for turn, at in turns[:_MOST_ASKED]]


def _numbered(asked: Sequence[Sequence[AnswerPair]]) -> list[tuple[int, int, AnswerPair]]:
    return [(at, number, item) for at, items in enumerate(asked) for number, item in enumerate(items)]


def _lost(item: AnswerPair, answer: str | None, base: str) -> bool:
    return answer is not None and answer == base != item.patch.text


def _only_while_tried(seen: Observation, lost: Sequence[AnswerPair]) -> judging.Suspicion:
    shown = tuple(
        f"{wording.write_call(seen, item.input)}: {wording.write_change(item)} while it is tried, "
        f"{wording.write_answer(item.base)} otherwise"
        for item in lost[:_MOST_SHOWN]
    )
    reason = "gives the old answers where nothing shows that it is tried on other inputs"
    return judging.Suspicion("only-in-these-surroundings", reason, shown)
