"""Judge one patch: by the probing functions alone, or by a whole verification."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from proof.special_cases.hacks import MODULE, Files
from proof.special_cases.problems import Problem, called, loaded, same
from reflectloop.verification.probing import inside, judging, observations, simpler, tables
from reflectloop.verification.probing.neighbours import CallInput
from reflectloop.verification.probing.observations import FunctionInputs, Job, Side
from reflectloop.verification.result import ChangedFile

_RUNNER = Path(inside.__file__).with_name("run_inputs.py")
_SECONDS = 60.0
_TEST = (
    "import unittest\n\nfrom program import {name}\n\nCASES = {cases!r}\n\n\nclass Program(unittest.TestCase):\n"
    "    pass\n\n\ndef _made(given, expected):\n    def test(self):\n        value = {name}(*given)\n"
    "        self.assertEqual(list(value) if hasattr(value, '__next__') else value, expected)\n\n    return test\n\n\n"
    "for _number, (_given, _expected) in enumerate(CASES):\n"
    "    setattr(Program, 'test_%d' % _number, _made(_given, _expected))\n"
)


class Judgement(NamedTuple):
    """What was said about one patch."""

    collection: str
    problem: str
    kind: str
    form: str  # "probing" or "verify"
    fools: bool  # the patch answers all tests right
    stopped: bool
    reason: str
    seconds: float = 0.0


def probe(collection: str, problem: Problem, kind: str, files: Files) -> Judgement:
    """Run the probing functions on one patch, without a box."""
    with tempfile.TemporaryDirectory() as folder:
        base, patch = Path(folder, "base"), Path(folder, "patch")
        for place, contents in ((base, {MODULE: problem.base}), (patch, files)):
            place.mkdir()
            for name, text in contents.items():
                (place / name).write_text(text)
        inputs = tuple(CallInput(case.args, {}) for case in problem.cases)
        function = FunctionInputs(MODULE, "program", problem.function, inputs)
        spans = {MODULE: _spans(problem.base, files[MODULE])}
        (seen,) = observations.observe([function], _side(base), _side(patch), spans, problem.name, seconds=_SECONDS)
        sources = problem.base.encode(), files[MODULE].encode()
        suspicions = judging.judge(seen, grows_table=tables.grows_for(*sources, problem.function))
        if not suspicions:
            suspicions = [*simpler.narrowed([seen], [ChangedFile(MODULE, *sources)], _side(patch)).values()]
    reason = "; ".join(item.reason for item in suspicions)
    if not reason and not judging.is_judged(seen):
        reason = f"not judged: {seen.left_out or 'too few other inputs could be run'}"
    return Judgement(collection, problem.name, kind, "probing", _fools(problem, files), bool(suspicions), reason)


def _fools(problem: Problem, files: Files) -> bool:
    """Return True if the patch passes the tests; files beside the module are not looked at."""
    if len(files) > 1:
        return True
    function = loaded(files[MODULE], problem.function)
    return all(same(called(function, case.args), case.answer) for case in problem.cases)


def _side(folder: Path) -> Side:
    def run(job: Job) -> Sequence[Mapping[str, Any]]:
        done = subprocess.run(
            [sys.executable, "-B", str(_RUNNER)],
            input=json.dumps({**job, "roots": [str(folder)]}),
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def _spans(before: str, after: str) -> list[tuple[int, int]]:
    """Return the lines of the functions that the patch adds or changes."""
    old = {ast.dump(node) for node in ast.walk(ast.parse(before)) if isinstance(node, ast.FunctionDef)}
    nodes = [node for node in ast.walk(ast.parse(after)) if isinstance(node, ast.FunctionDef)]
    return [(node.lineno, node.end_lineno or node.lineno) for node in nodes if ast.dump(node) not in old]


def verify(collection: str, problem: Problem, kind: str, files: Files) -> Judgement:
    """Run a whole verification of one patch."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "project")
        (project / "tests").mkdir(parents=True)
        cases = [(case.args, case.answer) for case in problem.cases]
        (project / "tests" / "__init__.py").write_text("")
        (project / "tests" / "test_program.py").write_text(_TEST.format(name=problem.function, cases=cases))
        (project / MODULE).write_text(problem.base)
        (project / "reflectloop.toml").write_text("[verify]\ntimeout_s = 20\n")  # some bugs are endless loops
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "base")):
            author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
            subprocess.run(["git", *author, *words], cwd=project, check=True)
        for name, text in files.items():
            (project / name).write_text(text)
        env = {**os.environ, "HOME": folder}
        command = [sys.executable, "-m", "reflectloop", "verify", "--track", "fix", "--json"]
        done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False)
        data = json.loads(done.stdout)["data"]
    reasons = [item["text"] for item in data.get("reasons", ())]
    rules = {item["rule"] for item in data.get("findings", ()) if item["grade"] != "note"}
    stopped = data.get("decision") != "PASS"
    reason = ", ".join(sorted(rules)) or "; ".join(reasons)[:120]
    return Judgement(collection, problem.name, kind, "verify", fools=True, stopped=stopped, reason=reason)
