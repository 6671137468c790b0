"""Run base and patch on inputs that no test has, in boxes with Node.js."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from reflectloop.sandbox.mounts import TEMP
from reflectloop.sandbox.sandbox import Box, CommandResult, SandboxCommand
from reflectloop.verification.probing import programs as python_programs
from reflectloop.verification.probing import second_inputs
from reflectloop.verification.probing.changed import ChangedFunction
from reflectloop.verification.probing.defaults import ParameterDefaults
from reflectloop.verification.probing.javascript import changes, programs
from reflectloop.verification.probing.javascript.programs import FollowedFiles
from reflectloop.verification.probing.observations import Job
from reflectloop.verification.probing.second_inputs import NeighbourProbe

_LIMIT_S = 60.0
_MOST_TRIED = 200  # recorded inputs of one function


@dataclass(frozen=True)
class NodeNeighbourProbe(NeighbourProbe):
    """Probes the JavaScript functions of one recording."""

    _endings: ClassVar[tuple[str, ...]] = changes.ENDINGS

    def _tried(self) -> int:
        return _MOST_TRIED

    def _is_inner(self, function: ChangedFunction) -> bool:  # noqa: ARG002 - those are not listed
        return False

    def _literals(self, source: bytes) -> tuple[object, ...]:
        return changes.literals(source)

    def _defaults(self, source: bytes, line: int) -> ParameterDefaults:  # noqa: ARG002 - only given values are recorded
        return ParameterDefaults(0)

    def _spans(self, functions: Sequence[ChangedFunction]) -> dict[str, list[tuple[int, int]]]:
        return {function.path: [(1, 1)] for function in functions}  # which tokens, a box knows

    def _grows_table(self, function: ChangedFunction) -> bool:
        sources = {change.path: change for change in self.changes if change.path.endswith(changes.ENDINGS)}
        chosen = [sources[function.path]] if function.path in sources else list(sources.values())
        return bool(chosen) and all(changes.only_grows(item.before, item.after) for item in chosen)

    @contextmanager
    def _open(self, tree: str) -> Iterator[_OpenNodeBox]:
        functions = list(dict.fromkeys(call.function for call in self.recording.calls))
        edited = {(item.path, item.qualname) for item in self.recording.reasons} | {
            (item.path, item.qualname) for item in functions
        }
        followed = programs.follow(self.runs.ground.trees, tree, functions)
        installed = self.runs.carried.get(tree) or {}
        with self.runs.ground.open(tree, self.base, installed) as box:
            name = programs.lay_programs(box.workspace.tmp)
            note = functools.partial(self._write_down, tree)
            version = functools.partial(self._version, tree, functions, followed)
            yield _OpenNodeBox(box, name, followed, edited, self.runs.new_log, note, version)

    def _version(
        self, tree: str, functions: Sequence[ChangedFunction], followed: FollowedFiles, file: str, text: str
    ) -> dict[str, Any]:
        """Return the files of a job in which one has another text."""
        trees = self.runs.ground.trees
        source = (trees.read(tree, file) or b"").decode(errors="replace")
        made = programs.follow(trees, tree, functions, followed.mark, {file: text.encode()}).files.get(file)
        esm = followed.files[file]["esm"] if file in followed.files else file.endswith(".mjs")
        return {"files": {file: {**(made or {"text": text, "functions": []}), "source": source, "esm": esm}}}


@dataclass
class _OpenNodeBox:
    box: Box
    name: str
    followed: FollowedFiles
    edited: set[tuple[str, str]]  # path and name of the functions whose code is looked at
    new_log: Callable[[str], Path]
    note: Callable[[int, CommandResult, Path], None]
    version: Callable[..., dict[str, Any]]  # of a file and its text
    count: int = 0

    def run(self, job: Job) -> Sequence[Mapping[str, Any]]:
        """Run one job and return the lines that it wrote, as foreign data."""
        self.count += 1
        box, tmp = self.box, self.box.workspace.tmp
        top = box.view.root if box.view else box.workspace.repo.resolve()
        inside = (TEMP if box.view else tmp) / self.name
        file = f"{self.count}.json"
        (tmp / self.name / file).write_text(json.dumps(self._job(job, top)))
        command = ("node", "--max-old-space-size=512", os.fspath(inside / "run_inputs.cjs"), os.fspath(inside / file))
        log = self.new_log("neighbours")
        done = box.run(SandboxCommand(command, box.workspace.repo.resolve(), log, _LIMIT_S))
        self.note(sum(len(function["inputs"]) for function in job["functions"]), done, log)
        lines = python_programs.read_lines(tmp, (self.name,), f"{file}l")
        return [line for line in lines if second_inputs.is_line(line, job)]

    def _job(self, job: Job, top: Path) -> dict[str, Any]:
        functions = [
            {**item, "fn": self.followed.ids[item["file"], item["qualname"]], "file": item["file"]}
            for item in job["functions"]
        ]
        changed = {
            path: {
                name: places
                for name, places in self.followed.places.get(path, {}).items()
                if (path, name) in self.edited
            }
            for path in job["changed"]
        }
        return {
            **job,
            "roots": [os.fspath(top)],
            "functions": functions,
            "changed": changed,
            "files": self.followed.files,
            "names": self.followed.names(),
            "mark": self.followed.mark,
            **({"versions": [self.version(**item) for item in job["versions"]]} if "versions" in job else {}),
        }
