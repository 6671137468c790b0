"""Repeat recorded calls: in bare Node.js without the project's tests, and in stand-ins for the tests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from reflectloop.sandbox.sandbox import Box
from reflectloop.verification.probing import programs as python_programs
from reflectloop.verification.probing import replays
from reflectloop.verification.probing.changed import ChangedFunction
from reflectloop.verification.probing.javascript import programs
from reflectloop.verification.probing.programs import RecordedCall
from reflectloop.verification.probing.replays import Outcomes
from reflectloop.verification.run_extras import RunPlace
from reflectloop.verification.tools import PreparedCommand
from reflectloop.verification.tree_builder import TreeBuilder

_PACKAGES = "node_modules"
_USUAL_NAME = "package"


@dataclass(frozen=True)
class NodeReplay(replays.BareReplay):
    """Repeats calls of JavaScript in bare processes of Node.js."""

    functions: Sequence[ChangedFunction]
    start = "start.cjs"

    def lay_programs(self, folder: Path) -> str:
        return programs.lay_programs(folder)

    def place(self, tree: str) -> str:
        """Return the folder of packages, with the name under which this one would be installed."""
        try:
            name = json.loads(self.runs.ground.trees.read(tree, "package.json") or b"{}").get("name")
        except (ValueError, AttributeError, RecursionError):
            name = None
        plain = isinstance(name, str) and name.replace("-", "").replace(".", "").replace("_", "").isalnum()
        return f"{_PACKAGES}/{name if plain and not str(name).startswith('.') else _USUAL_NAME}"

    def plan(self, tree: str, calls: Sequence[RecordedCall], copied: bool) -> dict[str, Any]:
        trees = self.runs.ground.trees
        own = {call.function.path for call in calls}
        near = {folder for path in own for folder in PurePosixPath(path).parents}
        paths = sorted(trees.listing(tree), key=lambda path: (path not in own, PurePosixPath(path).parent not in near))
        paths = paths[: replays.MOST_FILES]
        gone = {path for path in paths if replays.belongs_to_tests(path)}
        job = programs.replay_job(calls, programs.follow(trees, tree, self.functions), {})
        return {
            "files": [path for path in paths if path not in gone] if copied else [],
            "gone": [*sorted(gone), *_folders(gone), ".git"] if copied else [],
            "packages": [_PACKAGES],
            "script": f"{python_programs.random_name()}.cjs",
            "job": {**job, "limit_s": replays.CALL_S},
        }

    def interpreter(self, box: Box) -> str:  # noqa: ARG002 - the first on PATH
        return "node"


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
        job |= {"top": os.fspath(place.root), "limit_s": replays.CALL_S}
        (place.outside / programs.FOLDER / self.package / "job.json").write_text(json.dumps(job))
        paths = os.pathsep.join(filter(None, (os.fspath(place.inside / programs.FOLDER), env.get("NODE_PATH"))))
        return prepared, {**env, **self.env, "NODE_PATH": paths}

    def collect(self, place: RunPlace) -> None:
        lines = python_programs.read_lines(place.outside, (programs.FOLDER, self.package), "outcomes.jsonl")
        self.outcomes = replays.read_outcomes(lines, (f"{place.root}",))
