"""Repeat recorded calls: in a bare interpreter without the project's tests, and in stand-ins for the tests.

A stand-in has the place and the name of the test that made the call, so that a function sees the runner, the folder and
the file of the test, but none of its fixtures, patches or expected values.
"""

from __future__ import annotations

import ast
import functools
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, NamedTuple

from reflectloop.sandbox.mounts import TEMP
from reflectloop.sandbox.sandbox import Box, CommandResult, SandboxCommand
from reflectloop.system.patterns import lazy
from reflectloop.verification import protected
from reflectloop.verification.check_runner import CheckRunner
from reflectloop.verification.probing import programs
from reflectloop.verification.probing.changed import parse
from reflectloop.verification.probing.inside import plain_data
from reflectloop.verification.probing.programs import RecordedCall, Recording
from reflectloop.verification.protected.names import IMPORT_ROOTS
from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.run_extras import RunPlace
from reflectloop.verification.tools import PreparedCommand
from reflectloop.workspace.carry import ENVIRONMENTS

MOST_FILES, _MOST_COPIED = 20_000, 3_000
_LIMIT_S, CALL_S = 20.0, 2.0
_ADDRESS = lazy(r"0x[0-9a-fA-F]{6,}")
_INSTALLED = "lib/python3/site-packages"  # where a user's copy of the package would be
_TEST_FOLDERS = frozenset(("tests", "test", "testing", ".github"))

Key = tuple[int, str]  # a call's number, and "raw" or "public"


class Way(NamedTuple):
    """One kind of bare interpreter."""

    name: str
    flags: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    moved: Mapping[str, Any] = {}
    terminal: bool = False


class RepeatedCall(NamedTuple):
    """The outcome of one repeated call."""

    text: str  # by which outcomes are compared
    outcome: Mapping[str, Any]
    equal: str = ""  # the class of a result that is equal to everything
    states: Mapping[str, str] = {}  # by module, a hash of its state before the call
    drawn: bool = False  # whether the call drew random numbers, which are equal in all repetitions

    @property
    def left_out(self) -> str:
        return str(self.outcome.get("left_out", ""))


Outcomes = Mapping[Key, RepeatedCall]


def _without(outcome: Mapping[str, Any], tops: Iterable[str]) -> dict[str, Any]:
    """Return an outcome as people see it, without folders that have random names."""
    text = json.dumps(outcome)
    for top in tops:
        text = text.replace(json.dumps(top)[1:-1], "<top>")
    out: dict[str, Any] = json.loads(text)
    return out


def outcome_text(outcome: object, after: object, tops: Iterable[str]) -> str:
    """Return the text by which outcomes are compared: without memory addresses, and without the package's folder."""
    text = plain_data.text_of([outcome, after])
    for top in tops:
        text = text.replace(top, "<top>")
    return _ADDRESS.sub("0x", text)


@dataclass(frozen=True)
class BareReplay(ABC):
    """Repeats calls in processes without test runner and tests, in a fresh box."""

    runs: CheckRunner
    base_tree: str
    note: Callable[[str, str, CommandResult, Path], None]  # writes evidence: claim, tree, result, log
    start: ClassVar[str]  # the program of a box that starts them

    def run(
        self, tree: str, calls: Sequence[RecordedCall], ways: Sequence[Way], *, in_checkout: bool = False
    ) -> dict[str, Outcomes]:
        """Return the outcomes of the calls by the name of the way. `in_checkout`: where the tests are, not a copy."""
        if not calls:
            return {way.name: {} for way in ways}
        with self.runs.ground.open(tree, self.base_tree, self.runs.installed_on(tree)) as box:
            tmp = box.workspace.tmp
            seen = TEMP if box.view else tmp  # as the box sees it
            top = box.view.root if box.view else box.workspace.repo.resolve()
            into = top if in_checkout else seen / programs.random_name() / self.place(tree)
            name = self.lay_programs(tmp)
            plan = self.plan(tree, calls, into != top) | {
                "top": os.fspath(top),
                "into": os.fspath(into),
                "programs": os.fspath((TEMP if box.view else into.parent) / programs.random_name()),
                "limit_s": _LIMIT_S,
                "ways": [{**way._asdict(), "env": dict(way.env), "moved": dict(way.moved)} for way in ways],
            }
            (tmp / name / "plan.json").write_text(json.dumps(plan))
            command = (self.interpreter(box), os.fspath(seen / name / self.start), os.fspath(seen / name / "plan.json"))
            log = self.runs.new_log("replay")
            done = box.run(SandboxCommand(command, box.workspace.repo.resolve(), log, 4 * _LIMIT_S))
            claim = f"{len(calls)} calls in {len(ways)} processes without tests"
            self.note(f"replay of {claim}", tree, done, log)
            return {
                way.name: read_outcomes(programs.read_lines(tmp, (name,), f"{way.name}.jsonl"), (f"{into}", f"{top}"))
                for way in ways
            }

    @abstractmethod
    def lay_programs(self, folder: Path) -> str:
        """Copy the programs of the box below a folder, and return the name of theirs."""

    @abstractmethod
    def place(self, tree: str) -> str:
        """Return where a user's copy of the package would be."""

    @abstractmethod
    def plan(self, tree: str, calls: Sequence[RecordedCall], copied: bool) -> dict[str, Any]:
        """Return what the start program must know: the files to copy, those to leave out, the calls."""

    @abstractmethod
    def interpreter(self, box: Box) -> str:
        """Return the interpreter that runs the start program."""


@dataclass(frozen=True)
class PythonReplay(BareReplay):
    """Repeats calls of Python."""

    recording: Recording
    start = "bare.py"

    def lay_programs(self, folder: Path) -> str:
        return programs.lay_programs(folder)

    def place(self, tree: str) -> str:  # noqa: ARG002 - the same for all
        return _INSTALLED

    def plan(self, tree: str, calls: Sequence[RecordedCall], copied: bool) -> dict[str, Any]:
        of_users: list[str] = []
        gone: list[str] = []
        for path in self.runs.ground.trees.listing(tree):
            (gone if belongs_to_tests(path) else of_users).append(path)
        chosen, linked = files_and_links(of_users, calls)
        if len(chosen) > MOST_FILES:
            read = functools.partial(self.runs.ground.trees.read, tree)
            chosen = needed_first(chosen, calls, read, self.recording.path)[:MOST_FILES]
        folders = [folder for folder in self.recording.path if not belongs_to_tests(f"{folder}/x")]
        return {
            "files": chosen if copied else [],
            "linked": linked if copied else [],
            "gone": [*gone[:MOST_FILES], ".git"] if copied else [],
            "script": f"{programs.random_name()}.py",
            "job": {**programs.replay_job(calls, [*dict.fromkeys([*folders, "."])], {}), "limit_s": CALL_S},
        }

    def interpreter(self, box: Box) -> str:
        return python_of(self.recording, box)


def files_and_links(paths: Sequence[str], calls: Sequence[RecordedCall]) -> tuple[list[str], list[str]]:
    """Return the files to copy and, of a large project, the folders far from the functions, to which a link leads."""
    if len(paths) <= _MOST_COPIED:
        return list(paths), []
    own = {_top(call.function.path) for call in calls}
    folders: dict[str, list[str]] = {}
    for path in paths:
        folders.setdefault(_top(path), []).append(path)
    copied: list[str] = []
    linked = []
    for top in sorted(folders, key=lambda top: (top not in own, len(folders[top]))):
        if top in own or len(copied) + len(folders[top]) <= _MOST_COPIED:
            copied += folders[top]
        else:
            linked.append(top)
    return copied, linked


def needed_first(
    paths: Sequence[str], calls: Sequence[RecordedCall], read: Callable[[str], bytes | None], roots: Iterable[str]
) -> list[str]:
    """Return files with those of the called functions before the others, and with what they import next."""
    known = {*paths}
    tops = [f"{folder}/" if folder not in ("", ".") else "" for folder in {*IMPORT_ROOTS, *roots}]
    chosen = [path for path in dict.fromkeys(call.function.path for call in calls) if path in known]
    order = dict.fromkeys(chosen)
    for path in chosen:  # grows
        if len(order) >= MOST_FILES:
            break
        stems = {stem for name in _imported(path, read(path) or b"") for stem in _stems(name, tops)}
        packages = {str(folder) for stem in (path, *stems) for folder in PurePosixPath(stem).parents}
        files = {f"{stem}.py" for stem in stems} | {f"{stem}/__init__.py" for stem in (*stems, *packages)}
        new = sorted(files & known - order.keys())
        order |= dict.fromkeys(new)
        chosen += new
    return [*order, *(path for path in paths if path not in order)]


def _stems(name: str, tops: Iterable[str]) -> list[str]:
    """Return the paths without ending that a module may have; one of a relative import is known."""
    return [name[1:]] if name.startswith("/") else [f"{top}{name.replace('.', '/')}" for top in tops]


def _imported(path: str, source: bytes) -> Iterator[str]:
    """Yield the names of modules that a source imports; for a relative import, "/" and the path without its ending."""
    tree = parse(source) if path.endswith(".py") else ""
    for node in ast.walk(tree) if isinstance(tree, ast.Module) else ():
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = [*path.split("/")[: -node.level], *(node.module or "").split(".")] if node.level else []
            name = "/" + "/".join(filter(None, parts)) if node.level else node.module or ""
            yield name
            yield from (f"{name}{'/' if node.level else '.'}{alias.name}" for alias in node.names)


def _top(path: str) -> str:
    """Return the topmost folder of a package, or the file itself where there is none."""
    parts = path.split("/")
    return "/".join(parts[:2] if parts[0] in IMPORT_ROOTS else parts[:1])


def python_of(recording: Recording, box: Box) -> str:
    """Return the interpreter of the tests, unless it would be a file of the change."""
    top = box.view.root if box.view else box.workspace.repo.resolve()
    path = Path(recording.python)
    if not path.is_absolute() or ".." in path.parts:
        return "python3"
    inside = path.relative_to(top).parts if path.is_relative_to(top) else (ENVIRONMENTS[0],)
    return os.fspath(path) if inside[0] in ENVIRONMENTS else "python3"


def belongs_to_tests(path: str) -> bool:
    """Return True for a file that users of an installed package do not have."""
    return protected.is_test(path) or not _TEST_FOLDERS.isdisjoint(path.split("/")[:-1])


def read_outcomes(lines: Iterable[Mapping[str, Any]], tops: Sequence[str]) -> dict[Key, RepeatedCall]:
    """Return the outcomes that a program of a box wrote; `tops` are folders that do not matter in them."""
    out: dict[Key, RepeatedCall] = {}
    for line in lines:
        number, which, outcome = line.get("id"), line.get("which"), line.get("outcome")
        if isinstance(number, int) and isinstance(which, str) and isinstance(outcome, dict):
            text = outcome_text(outcome, line.get("after"), tops)
            outcome = _without(outcome, tops)
            states = line.get("states")
            known = states if isinstance(states, dict) else {}
            repeated = RepeatedCall(text, outcome, str(line.get("equal") or ""), known, bool(line.get("drawn")))
            out.setdefault((number, which), repeated)
    return out


# Stand-ins for tests -----------------------------------------------------------------------------------------------


class StandIns(NamedTuple):
    """Files that replace the files of tests, and the group of calls that each test repeats."""

    package: str  # the name by which they import the replayer
    files: Mapping[str, bytes]
    groups: Mapping[str, str]


def stand_ins(calls: Sequence[RecordedCall], paths: Iterable[str]) -> StandIns:
    """Return stand-ins for the tests that made these calls. A call of no known test belongs to no group."""
    package = programs.random_name()
    known = frozenset(path for path in paths if belongs_to_tests(path))  # not sources, whose doctests call too
    groups: dict[str, str] = {}
    by_file: dict[str, dict[tuple[str, str], str]] = {}
    for test in dict.fromkeys(call.test for call in calls):
        place = _place_of(test, known)
        if place is None:
            continue
        path, holder, name = place
        groups[test] = by_file.setdefault(path, {}).setdefault((holder, name), f"g{len(groups)}")
    if by_file:
        first = next(iter(next(iter(by_file.values())).values()))
        groups |= {call.test: first for call in calls if call.test not in groups}
    files = {path: _stand_in(package, tests) for path, tests in by_file.items()}
    return StandIns(package, files, groups)


def _place_of(test: str, known: frozenset[str]) -> tuple[str, str, str] | None:
    """Return the file, the class and the name of a test, from an id of pytest or unittest."""
    if "::" in test:
        path, *parts = test.partition("[")[0].split("::")
        if path in known and path.endswith(".py") and parts and all(part.isidentifier() for part in parts):
            return path, parts[0] if len(parts) > 1 else "", parts[-1]
        return None
    words = test.split(" ", maxsplit=1)[0].split(".")
    if not all(word.isidentifier() for word in words):
        return None
    for end in range(len(words) - 1, 0, -1):
        wanted = "/".join(words[:end]) + ".py"
        path = next((path for path in sorted(known) if path == wanted or path.endswith(f"/{wanted}")), "")
        if path:
            return path, words[end] if end < len(words) - 1 else "", words[-1]
    return None


def _stand_in(package: str, tests: Mapping[tuple[str, str], str]) -> bytes:
    lines = ["import unittest", f"from {package}.replayer import replay_group"]
    lines += [f"def {name}():\n    replay_group({group!r})" for (holder, name), group in tests.items() if not holder]
    for holder in dict.fromkeys(holder for holder, _ in tests if holder):
        lines.append(f"class {holder}(unittest.TestCase):")
        own = {name: group for (other, name), group in tests.items() if other == holder}
        lines += [f"    def {name}(self):\n        replay_group({group!r})" for name, group in own.items()]
    return ("\n".join(lines) + "\n").encode()


@dataclass
class StandInExtras:
    """A run of stand-ins for tests."""

    calls: Sequence[RecordedCall]
    stand_ins: StandIns
    path: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()  # more options of pytest
    outcomes: Outcomes = field(default_factory=dict)

    def lay(
        self, prepared: PreparedCommand, env: dict[str, str], place: RunPlace
    ) -> tuple[PreparedCommand, dict[str, str]]:
        name = self.stand_ins.package
        programs.lay_programs(place.outside / programs.FOLDER, name)
        job = programs.replay_job(self.calls, self.path, self.stand_ins.groups)
        job |= {"top": os.fspath(place.root), "limit_s": CALL_S}
        (place.outside / programs.FOLDER / name / "job.json").write_text(json.dumps(job))
        changed = {**env, **self.env, "PYTHONPATH": programs.with_first(place.inside / programs.FOLDER, env)}
        return programs.with_options(prepared, self.options), changed

    def collect(self, place: RunPlace) -> None:
        lines = programs.read_lines(place.outside, (programs.FOLDER, self.stand_ins.package), "outcomes.jsonl")
        self.outcomes = read_outcomes(lines, (f"{place.root}",))


def selected(check: DetectedCheck, stand_in: StandIns) -> list[str]:
    """Return the arguments that select the stand-ins: their files, or their names for unittest."""
    if check.tool == "pytest":
        return list(stand_in.files)
    return [test for test in stand_in.groups if test and "::" not in test]
