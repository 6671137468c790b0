"""Repeat recorded calls: in bare Node.js without the project's tests, and in stand-ins for the tests."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from reflectloop.sandbox.mounts import TEMP
from reflectloop.sandbox.sandbox import Box, CommandResult, SandboxCommand
from reflectloop.verification.check_runner import CheckRunner
from reflectloop.verification.probing import programs as python_programs
from reflectloop.verification.probing import replays
from reflectloop.verification.probing.changed import ChangedFunction
from reflectloop.verification.probing.javascript import programs
from reflectloop.verification.probing.programs import RecordedCall
from reflectloop.verification.probing.replays import Outcomes, Way
from reflectloop.verification.run_extras import RunPlace
from reflectloop.verification.tools import PreparedCommand
from reflectloop.verification.tree_builder import TreeBuilder

_MOST_FILES = 20_000
_LIMIT_S, _CALL_S = 20.0, 2.0
_PACKAGES = "node_modules"
_USUAL_NAME = "package"


@dataclass(frozen=True)
class NodeReplay:
    """Repeats calls in bare processes of Node.js, in a fresh box."""

    runs: CheckRunner
    base_tree: str
    functions: Sequence[ChangedFunction]
    note: Callable[[str, str, CommandResult, Path], None]  # writes evidence: claim, tree, result, log

    def run(
        self, tree: str, calls: Sequence[RecordedCall], ways: Sequence[Way], *, in_checkout: bool = False
    ) -> dict[str, Outcomes]:
        """Return the outcomes of the calls by the name of the way. `in_checkout`: where the tests are, not a copy."""
        if not calls:
            return {way.name: {} for way in ways}
        installed = self.runs.installed_on(tree)
        with self.runs.ground.open(tree, self.base_tree, installed) as box:
            tmp = box.workspace.tmp
            name = programs.lay_programs(tmp)
            inside = (TEMP if box.view else tmp) / name
            top = box.view.root if box.view else box.workspace.repo.resolve()
            copy = (TEMP if box.view else tmp) / python_programs.random_name() / _PACKAGES / self._package(tree)
            into = top if in_checkout else copy
            plan = self._plan(tree, calls, ways, top, into)
            (tmp / name / "plan.json").write_text(json.dumps(plan))
            self._execute(box, inside, tree, f"{len(calls)} calls in {len(ways)} processes without tests")
            tops = (f"{into}", f"{top}")
            return {
                way.name: replays.read_outcomes(python_programs.read_lines(tmp, (name,), f"{way.name}.jsonl"), tops)
                for way in ways
            }

    def _package(self, tree: str) -> str:
        """Return the name under which the package would be installed."""
        try:
            name = json.loads(self.runs.ground.trees.read(tree, "package.json") or b"{}").get("name")
        except (ValueError, AttributeError, RecursionError):
            name = None
        plain = isinstance(name, str) and name.replace("-", "").replace(".", "").replace("_", "").isalnum()
        return str(name) if plain and not str(name).startswith(".") else _USUAL_NAME

    def _plan(
        self, tree: str, calls: Sequence[RecordedCall], ways: Sequence[Way], top: Path, into: Path
    ) -> dict[str, Any]:
        trees = self.runs.ground.trees
        paths = list(trees.listing(tree))[:_MOST_FILES]
        gone = {path for path in paths if replays.belongs_to_tests(path)}
        copied = into != top
        followed = programs.follow(trees, tree, self.functions)
        return {
            "top": os.fspath(top),
            "files": [path for path in paths if path not in gone] if copied else [],
            "gone": [*sorted(gone), *_folders(gone), ".git"] if copied else [],
            "packages": [_PACKAGES],
            "into": os.fspath(into),
            "programs": os.fspath(
                (TEMP if self.runs.ground.wall.mounted else into.parent) / python_programs.random_name()
            ),
            "script": f"{python_programs.random_name()}.cjs",
            "limit_s": _LIMIT_S,
            "job": {**programs.replay_job(calls, followed, {}), "limit_s": _CALL_S},
            "ways": [{"name": way.name, "env": dict(way.env), "moved": dict(way.moved)} for way in ways],
        }

    def _execute(self, box: Box, inside: Path, tree: str, claim: str) -> None:
        command = ("node", os.fspath(inside / "start.cjs"), os.fspath(inside / "plan.json"))
        log = self.runs.new_log("replay")
        done = box.run(SandboxCommand(command, box.workspace.repo.resolve(), log, 4 * _LIMIT_S))
        self.note(f"replay of {claim}", tree, done, log)


def _folders(paths: Iterable[str]) -> list[str]:
    """Return the folders that hold nothing but tests."""
    return sorted({parts[0] for path in paths if len(parts := PurePosixPath(path).parts) > 1 and parts[0] in _TESTS})


_TESTS = ("test", "tests", "__tests__", "spec")

# Stand-ins for tests -----------------------------------------------------------------------------------------------

_BODIES = {
    "mocha": "(globalThis.it || globalThis.test)('repeats', () => work());",
    "node-test": "load('node:test').test('repeats', () => work());",
    "tape": "load('tape')('repeats', (t) => { const end = () => { t.pass(); t.end(); }; work().then(end, end); });",
}
READING = ("jest", "vitest")  # they read sources themselves; there are no stand-ins for their tests
TOOLS = (*_BODIES, *READING)


def stand_ins(tool: str, package: str, groups: Mapping[str, str], modules: Iterable[str]) -> dict[str, bytes]:
    """Return files that replace files of tests: each repeats the calls of its group. `modules` are ES modules."""
    out = {}
    for path, group in groups.items():
        if path in modules:
            head = "import { createRequire } from 'module'; const load = createRequire(import.meta.url);"
        else:
            head = "const load = require;"
        work = f"const work = () => load('{package}/replayer.cjs').replayGroup({json.dumps(group)}, load);"
        out[path] = f"{head}\n{work}\n{_BODIES[tool]}\n".encode()
    return out


@dataclass
class NodeStandInExtras:
    """A run of stand-ins for tests."""

    trees: TreeBuilder
    tree: str
    calls: Sequence[RecordedCall]
    functions: Sequence[ChangedFunction]
    package: str
    groups: Mapping[str, str]
    env: Mapping[str, str] = field(default_factory=dict)
    outcomes: Outcomes = field(default_factory=dict)

    def lay(
        self, prepared: PreparedCommand, env: dict[str, str], place: RunPlace
    ) -> tuple[PreparedCommand, dict[str, str]]:
        programs.lay_programs(place.outside / programs.FOLDER, self.package)
        followed = programs.follow(self.trees, self.tree, self.functions)
        job = programs.replay_job(self.calls, followed, self.groups)
        job |= {"top": os.fspath(place.root), "limit_s": _CALL_S}
        (place.outside / programs.FOLDER / self.package / "job.json").write_text(json.dumps(job))
        paths = os.pathsep.join(filter(None, (os.fspath(place.inside / programs.FOLDER), env.get("NODE_PATH"))))
        return prepared, {**env, **self.env, "NODE_PATH": paths}

    def collect(self, place: RunPlace) -> None:
        lines = python_programs.read_lines(place.outside, (programs.FOLDER, self.package), "outcomes.jsonl")
        self.outcomes = replays.read_outcomes(lines, (f"{place.root}",))
