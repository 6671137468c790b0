"""Run base and patch on inputs that no test has, in boxes with Node.js."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from reflectloop.verification.probing.changed import ChangedFunction
from reflectloop.verification.probing.defaults import ParameterDefaults
from reflectloop.verification.probing.javascript import changes, programs
from reflectloop.verification.probing.javascript.programs import FollowedFiles
from reflectloop.verification.probing.observations import Job, Option
from reflectloop.verification.probing.second_inputs import NeighbourProbe, ProgramBox
from reflectloop.verification.result import ChangedFile

_NODE = ("node", "--max-old-space-size=512")
_MOST_TRIED = 200  # recorded inputs of one function


@dataclass(frozen=True)
class NodeNeighbourProbe(NeighbourProbe):
    """Probes the JavaScript functions of one recording."""

    _endings: ClassVar[tuple[str, ...]] = changes.ENDINGS
    _plainly: ClassVar[bool] = False

    def _tried(self) -> int:
        return _MOST_TRIED

    def _is_inner(self, function: ChangedFunction) -> bool:  # noqa: ARG002 - those are not listed
        return False

    def _literals(self, source: bytes) -> tuple[object, ...]:
        return changes.literals(source)

    def _options(self, function: ChangedFunction) -> Mapping[str, frozenset[Option]]:  # noqa: ARG002
        return {}

    def _defaults(self, source: bytes, line: int) -> ParameterDefaults:  # noqa: ARG002 - only given values are recorded
        return ParameterDefaults(0)

    def _spans(self, functions: Sequence[ChangedFunction]) -> dict[str, list[tuple[int, int]]]:
        return {function.path: [(1, 1)] for function in functions}  # which tokens, a box knows

    def _grows_table(self, function: ChangedFunction) -> bool:
        sources = {change.path: change for change in self.changes if change.path.endswith(changes.ENDINGS)}
        chosen = [sources[function.path]] if function.path in sources else list(sources.values())
        return bool(chosen) and all(changes.only_grows(item.before, item.after) for item in chosen)

    def _is_shorter(self, change: ChangedFile) -> bool:
        return change.after is None or changes.only_removes(change.before or b"", change.after)

    @contextmanager
    def _open(self, tree: str) -> Iterator[_NodeBox]:
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
            yield _NodeBox(box, name, _NODE, self.runs.new_log, note, followed=followed, edited=edited, version=version)

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
class _NodeBox(ProgramBox):
    followed: FollowedFiles = field(kw_only=True)
    edited: set[tuple[str, str]] = field(kw_only=True)  # path and name of the functions whose code is looked at
    version: Callable[..., dict[str, Any]] = field(kw_only=True)  # of a file and its text
    script: ClassVar[str] = "run_inputs.cjs"

    def written(self, job: Job, top: Path) -> dict[str, Any]:
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
