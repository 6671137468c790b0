"""Recorded calls of JavaScript have the same outcome when they are repeated, also of functions with a state."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reflectloop.verification.probing.changed import ChangedFunction
from reflectloop.verification.probing.javascript import programs
from reflectloop.verification.probing.programs import RecordedCall, read_lines
from reflectloop.verification.probing.replays import outcome_text, read_outcomes
from reflectloop.verification.run_extras import RunPlace
from reflectloop.verification.tools import PreparedCommand
from reflectloop.verification.tree_builder import TreeBuilder

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")

SOURCE = """'use strict';
exports.sums = function (start) {
  let total = start;
  return function (number) { return (total += number); };
};
exports.add = function (a, b) {
  if (b === undefined) return function (c) { return a + c; };
  return a + b;
};
"""


class Session:
    """A program whose calls are recorded and repeated."""

    def __init__(self, folder: Path, *lines: str) -> None:
        self.folder = folder
        (folder / "lib.js").write_text(SOURCE)
        (folder / "test.js").write_text("\n".join(["const lib = require('./lib');", *lines]))
        names = [("sums", 2), ("add", 6)]
        self.functions = [ChangedFunction("lib.js", name, line, base_line=line) for name, line in names]
        contents: Mapping[str, bytes] = {"lib.js": SOURCE.encode()}
        self.trees = cast(TreeBuilder, SimpleNamespace(read=lambda _tree, path: contents[path]))
        extras = programs.NodeRecordingExtras(self.trees, "tree", self.functions)
        place = RunPlace(folder / "out", folder / "out", folder)
        prepared = PreparedCommand(("node", "test.js"))
        _, env = extras.lay(prepared, dict(os.environ), place)
        subprocess.run(prepared.argv, cwd=folder, env=env, check=True)
        extras.collect(place)
        self.calls = extras.recording.calls

    def repeated(self) -> list[str]:
        """Return for each call that it had the recorded outcome, that it had another one, or why it has none."""
        programs.lay_programs(self.folder, "programs")
        job: dict[str, Any] = programs.replay_job(self.calls, programs.follow(self.trees, "tree", self.functions), {})
        job |= {"top": os.fspath(self.folder), "out": os.fspath(self.folder / "outcomes.jsonl"), "limit_s": 5}
        (self.folder / "job.json").write_text(json.dumps(job))
        subprocess.run(("node", "programs/replayer.cjs", "job.json"), cwd=self.folder, check=True)
        outcomes = read_outcomes(read_lines(self.folder, (), "outcomes.jsonl"), ())
        results = [(call, outcomes[number, "raw"]) for number, call in enumerate(self.calls)]
        return [result.left_out or str(result.text == _text(call)) for call, result in results]


def _text(call: RecordedCall) -> str:
    return outcome_text(call.outcome, call.data.get("after"), ())


def test_a_function_with_a_state_is_repeated_after_its_earlier_calls(tmp_path: Path) -> None:
    session = Session(tmp_path, "const f = lib.sums(10); f(5); f(7); f(5); f(1); const g = lib.sums(1); g(5); g(2);")
    assert [call.outcome for call in session.calls] == [{"value": value} for value in (15, 22, 28, 6, 8)]
    assert session.repeated() == ["True"] * 5


def test_a_call_after_too_many_others_is_left_out_by_name(tmp_path: Path) -> None:
    session = Session(tmp_path, "const f = lib.sums(0); for (let n = 1; n <= 30; n++) f(n);")
    assert session.repeated() == ["True"] * 25 + ["its result was called too often before"] * 5


def test_calls_of_a_function_that_was_also_used_in_two_steps_are_kept(tmp_path: Path) -> None:
    session = Session(tmp_path, "lib.add(1, 2); lib.add(7)(8); lib.add(3, 4);")
    assert [call.outcome for call in session.calls] == [{"value": value} for value in (3, 15, 7)]
    assert session.repeated() == ["True"] * 3
