"""Lay the programs of `inside/` into a box, with texts of the changed sources in which calls can be followed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from reflectloop.verification.probing import programs
from reflectloop.verification.probing.changed import ChangedFunction
from reflectloop.verification.probing.javascript import changes, functions, instrument, tokens
from reflectloop.verification.probing.programs import RecordedCall, Recording
from reflectloop.verification.run_extras import RunPlace
from reflectloop.verification.tools import PreparedCommand
from reflectloop.verification.tree_builder import TreeBuilder

FOLDER = "lib"
_INSIDE = Path(__file__).with_name("inside")


def lay_programs(folder: Path, name: str = "") -> str:
    """Copy the programs below a folder and return the name of their folder."""
    name = name or programs.random_name()
    shutil.copytree(_INSIDE, folder / name)
    (folder / name / "out").mkdir()
    return name


class FollowedFiles(NamedTuple):
    """The texts of one tree in which some functions are followed."""

    mark: str
    files: Mapping[str, Mapping[str, Any]]  # by path: source, text, esm, functions
    ids: Mapping[tuple[str, str], int]  # by path and name of the function
    places: Mapping[str, Mapping[str, tuple[int, ...]]]  # by path and function: where its tokens are
    unfollowed: Mapping[tuple[str, str], str]  # by path and name: why calls cannot be followed

    def names(self) -> dict[str, str]:
        return {str(number): path for (path, _), number in self.ids.items()}


def follow(
    trees: TreeBuilder,
    tree: str,
    chosen: Sequence[ChangedFunction],
    mark: str = "",
    others: Mapping[str, bytes] = MappingProxyType({}),
) -> FollowedFiles:
    """Return the texts of a tree in which the chosen functions are followed; a file that it lacks is left out.

    `others` has other contents for some files.
    """
    mark = mark or f"_{programs.random_name()}"
    ids = {(function.path, function.qualname): number for number, function in enumerate(chosen)}
    files: dict[str, dict[str, Any]] = {}
    places: dict[str, Mapping[str, tuple[int, ...]]] = {}
    unfollowed: dict[tuple[str, str], str] = {}
    for path in dict.fromkeys(function.path for function in chosen):
        content = others.get(path) or trees.read(tree, path)
        own = {name: number for (file, name), number in ids.items() if file == path}
        try:
            source = tokens.split(content) if content is not None else None
        except tokens.Unreadable:
            source = None
        if source is None:
            continue
        parts = functions.read(source)
        unfollowed |= {(path, item.qualname): item.form for item in parts.functions if not instrument.is_followed(item)}
        followed = instrument.write(source, parts, own, mark)
        texts = {item.qualname: item.texts(source) for item in parts.functions}
        lines = {function.qualname: function.line for function in chosen if function.path == path}
        esm = path.endswith(".mjs") or changes.is_module(source)
        text = followed.text if esm or changes.EXPORTS not in own else _with_exports(followed.text, mark, own)
        files[path] = {
            "source": source.text,
            "text": text,
            "esm": esm,
            "functions": [
                {"id": number, "name": name, "line": lines[name], "self": "this" in texts.get(name, ())}
                for name, number in own.items()
            ],
        }
        places[path] = followed.tokens
    return FollowedFiles(mark, files, ids, places, unfollowed)


def _with_exports(text: str, mark: str, own: Mapping[str, int]) -> str:
    return f"{text}\n;globalThis.{mark}.exported(module,{own[changes.EXPORTS]});\n"


@dataclass
class NodeRecordingExtras:
    """A run of tests that records calls, in given surroundings."""

    trees: TreeBuilder
    tree: str
    functions: Sequence[ChangedFunction]
    env: Mapping[str, str] = field(default_factory=dict)
    tests: Sequence[str] = ()  # files whose reading is noticed
    reads: bool = False  # True if the runner reads sources itself
    recording: Recording = field(default_factory=Recording)
    _name: str = ""
    _unfollowed: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def lay(
        self, prepared: PreparedCommand, env: dict[str, str], place: RunPlace
    ) -> tuple[PreparedCommand, dict[str, str]]:
        changed = {**env, **self.env}
        if not self.functions:
            return prepared, changed
        self._name = lay_programs(place.outside / FOLDER)
        followed = follow(self.trees, self.tree, self.functions)
        self._unfollowed = followed.unfollowed
        option = f"--require {place.inside / FOLDER / self._name / 'recorder.cjs'}"
        settings = {
            "mark": followed.mark,
            "root": os.fspath(place.root),
            "option": option,
            "reads": self.reads,
            "tests": list(self.tests),
            "files": followed.files,
        }
        (place.outside / FOLDER / self._name / "settings.json").write_text(json.dumps(settings))
        changed["NODE_OPTIONS"] = " ".join(filter(None, (option, env.get("NODE_OPTIONS"))))
        return prepared, changed

    def collect(self, place: RunPlace) -> None:
        if self._name:
            lines = programs.read_lines(place.outside, (FOLDER, self._name, "out"), "calls-*.jsonl")
            out = programs.recording_of(self.functions, lines)
            out = out._replace(calls=tuple(_telling(out.calls)))
            known = {item: self._unfollowed.get((item.path, item.qualname), why) for item, why in out.reasons.items()}
            self.recording = out._replace(reasons=known)


def _telling(calls: Sequence[RecordedCall]) -> Iterator[RecordedCall]:
    """Yield the calls without those whose result was used: the uses say what these returned."""
    used = {(call.function, json.dumps(call.data["args"][0]["history"]["args"])) for call in calls if _is_use(call)}
    for call in calls:
        args = call.data["args"][1:] if call.data["first"] else call.data["args"]
        if _is_use(call) or (call.function, json.dumps(args)) not in used:
            yield call


def _is_use(call: RecordedCall) -> bool:
    args = call.data["args"]
    history = args[0].get("history") if len(args) == 1 and isinstance(args[0], dict) else None
    return isinstance(history, dict) and "args" in history and not call.data["first"]


def replay_job(calls: Sequence[RecordedCall], followed: FollowedFiles, groups: Mapping[str, str]) -> dict[str, Any]:
    """Return the job that repeats these calls; their ids are their places in the list."""
    listed = [
        {
            "id": number,
            "group": groups.get(call.test, call.test),
            "file": call.function.path,
            "fn": followed.ids[call.function.path, call.function.qualname],
            "module": call.data["module"],
            "args": call.data["args"],
            "first": call.data["first"],
            "env": call.data.get("env") or {},
        }
        for number, call in enumerate(calls)
    ]
    return {"calls": listed, "files": followed.files, "names": followed.names(), "mark": followed.mark}
