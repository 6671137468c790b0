"""Lay the programs of `inside/` into a box under a random name, and read what they wrote as foreign data."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.system import beneath, tree_walk
from reflectloop.verification.probing.changed import ChangedFunction
from reflectloop.verification.run_extras import RunPlace
from reflectloop.verification.tools import PreparedCommand

FOLDER = "lib"  # beside a report; not the folder itself, which the runner's observer takes from the path
_INSIDE = Path(__file__).with_name("inside")
_LARGEST_FILE = 64 << 20
_MOST_FILES = 64
_LONGEST_LINE = 256 << 10
_RUNNERS = ("pytest", "py.test")
NOW = math.floor(time.time()) + 0.25  # the moment of all repeated calls; not near the end of a second


def random_name() -> str:
    """Return a name that no project can expect."""
    return f"m{uuid.uuid4().hex[:10]}"


def lay_programs(folder: Path, name: str = "") -> str:
    """Copy the programs below a folder and return the name of their package."""
    name = name or random_name()
    shutil.copytree(_INSIDE, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / name / "out").mkdir()
    return name


def read_lines(folder: Path, parts: Sequence[str], pattern: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of files that a box wrote; what is not one is passed over, and no link is followed."""
    try:
        with tree_walk.open_folder(folder) as root, beneath.open_folder(root, tuple(parts)) as inner:
            for path in beneath.find_files(inner, pattern, _MOST_FILES):
                yield from _objects(beneath.read(inner, path, _LARGEST_FILE))
    except OSError:
        return


def _objects(content: bytes) -> Iterator[dict[str, Any]]:
    for line in content.splitlines():
        if len(line) <= _LONGEST_LINE:
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield value


_NOT_LOADED = "no test loads its file"
CallPath = tuple[tuple[str, int], ...]  # files and first lines of functions, innermost first


class RecordedCall(NamedTuple):
    """One call of a changed function by a test; see `inside/plain_data.py` for the fields of `data`."""

    function: ChangedFunction
    test: str
    outcome: Mapping[str, Any]
    data: Mapping[str, Any]


class Recording(NamedTuple):
    """All that a run recorded."""

    calls: tuple[RecordedCall, ...] = ()
    reasons: Mapping[ChangedFunction, str] = {}  # why a function has no recorded call
    python: str = ""  # the interpreter
    path: tuple[str, ...] = ()  # folders of the workspace from which modules are imported, relative to it
    reads: tuple[Mapping[str, Any], ...] = ()  # of tests and of git by changed sources: see `inside/audit.py`
    reached: frozenset[str] = frozenset()  # tests that call a changed function
    paths: Mapping[ChangedFunction, tuple[CallPath, ...]] = {}  # through which functions of the project they call it


@dataclass
class RecordingExtras:
    """A run of tests that records calls, in given surroundings."""

    functions: Sequence[ChangedFunction]
    env: Mapping[str, str] = field(default_factory=dict)
    order: str = ""
    sources: Sequence[str] = ()  # more files whose reading of tests is noticed
    makers: Mapping[str, Sequence[int]] = field(default_factory=dict)  # lines of constructors to remember
    recording: Recording = field(default_factory=Recording)
    _name: str = ""

    def lay(
        self, prepared: PreparedCommand, env: dict[str, str], place: RunPlace
    ) -> tuple[PreparedCommand, dict[str, str]]:
        self._name = lay_programs(place.outside / FOLDER)
        files: dict[str, list[list[Any]]] = {}
        for function in self.functions:
            files.setdefault(function.path, []).append([function.qualname, function.line])
        settings = {"mark": f"_{random_name()}", "root": os.fspath(place.root), "out": "out", "files": files}
        settings["order"], settings["makers"] = self.order, {path: list(lines) for path, lines in self.makers.items()}
        settings["sources"] = sorted({*files, *self.sources})
        (place.outside / FOLDER / self._name / "settings.json").write_text(json.dumps(settings))
        changed = {**env, **self.env, "PYTHONPATH": with_first(place.inside / FOLDER, env)}
        return _with_plugin(prepared, self._name, place.inside / FOLDER), changed

    def collect(self, place: RunPlace) -> None:
        self.recording = recording_of(self.functions, _calls(place, self._name))


def _calls(place: RunPlace, name: str) -> Iterator[dict[str, Any]]:
    return read_lines(place.outside, (FOLDER, name, "out"), "calls-*.jsonl")


def with_first(folder: Path, env: Mapping[str, str]) -> str:
    """Return PYTHONPATH with a folder before what it has."""
    return os.pathsep.join([os.fspath(folder), *filter(None, [env.get("PYTHONPATH")])])


def with_options(prepared: PreparedCommand, options: Sequence[str]) -> PreparedCommand:
    """Return a command of pytest with more options; another runner's has none."""
    argv = list(prepared.argv)
    at = next((at for at, word in enumerate(argv) if Path(word).name in _RUNNERS), None)
    if at is None or not options:
        return prepared
    argv[at + 1 : at + 1] = options
    return prepared._replace(argv=tuple(argv))


def _with_plugin(prepared: PreparedCommand, name: str, folder: Path) -> PreparedCommand:
    """Return the command with the recorder: as a plugin of pytest, or started before the stand-in for unittest."""
    if prepared.stand_in is None:
        return with_options(prepared, ("-p", f"{name}.recorder"))
    argv = list(prepared.argv)
    at = next(at for at, word in enumerate(argv) if word.endswith(prepared.stand_in.name))
    argv.insert(at, os.fspath(folder / name / "launch.py"))
    return prepared._replace(argv=tuple(argv))


def recording_of(functions: Sequence[ChangedFunction], lines: Iterator[dict[str, Any]]) -> Recording:
    """Return what the lines of a recorder say about some functions."""
    known = {(function.path, function.line): function for function in functions}
    calls: list[RecordedCall] = []
    reasons: dict[ChangedFunction, str] = {}
    header: dict[str, Any] = {}
    reads: list[Mapping[str, Any]] = []
    reached: set[str] = set()
    paths: dict[ChangedFunction, tuple[CallPath, ...]] = {}
    for line in lines:
        function = known.get((line.get("file"), line.get("line")))  # type: ignore[arg-type]
        if "python" in line and not header:
            header = line
        elif "audit" in line:
            reads.append(line)
        elif function is None:
            continue
        elif "summary" in line:
            if reasons.get(function, _NOT_LOADED) == _NOT_LOADED:
                reasons[function] = _reason(line)
            tests = line.get("tests")
            reached.update(map(str, tests) if isinstance(tests, list) else ())
            paths[function] = (*paths.get(function, ()), *_paths(line.get("paths")))
        elif _is_call(line):
            calls.append(RecordedCall(function, line["test"], line["outcome"], line))
    recorded = {call.function for call in calls}
    missing = {function: reasons.get(function, _NOT_LOADED) for function in functions}
    path = header.get("path")
    return Recording(
        tuple(calls),
        {function: why for function, why in missing.items() if function not in recorded},
        str(header.get("python", "")),
        tuple(str(folder) for folder in path) if isinstance(path, list) else (),
        tuple(reads),
        frozenset(reached - {""}),
        paths,
    )


def _paths(written: object) -> Iterator[CallPath]:
    for path in written if isinstance(written, list) else ():
        steps = [step for step in path if isinstance(step, list)] if isinstance(path, list) else []
        yield tuple((step[0], step[1]) for step in steps if [*map(type, step)] == [str, int])


def _is_call(line: Mapping[str, Any]) -> bool:
    kinds = {"args": list, "kwargs": list, "outcome": dict, "test": str, "module": str, "qualname": str, "first": str}
    return all(isinstance(line.get(name), kind) for name, kind in kinds.items())


def _reason(line: Mapping[str, Any]) -> str:
    reasons = line.get("reasons")
    if not line.get("loaded"):
        return _NOT_LOADED
    if not line.get("tries"):
        return "no test calls it"
    return f"its arguments cannot be written down ({next(iter(reasons))})" if reasons else "no call ended"


def replay_job(calls: Sequence[RecordedCall], path: Sequence[str], groups: Mapping[str, str]) -> dict[str, Any]:
    """Return the job that repeats these calls; their ids are their places in the list."""
    names = ("module", "qualname", "line", "args", "kwargs", "first", "argv", "env", "states", "surroundings")
    listed = [
        {
            **{name: call.data[name] for name in names if name in call.data},
            "id": number,
            "group": groups.get(call.test, ""),
        }
        for number, call in enumerate(calls)
    ]
    return {"calls": listed, "path": list(path), "now": NOW}
