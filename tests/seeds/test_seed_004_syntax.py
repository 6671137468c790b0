"""The pipeline's document, lines 367 and 405: the quick gate sees broken syntax of compiled languages too."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gate_builders import changed_file
from reflectloop.engine.steps import syntax_tools
from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.sandbox.sandbox import Box
from reflectloop.terms import Isolation
from scripted_task import WRITE, Crew
from support import Repo

_PROGRAMS = {
    ".c": "gcc",
    ".cpp": "g++",
    ".h": "g++",
    ".hpp": "g++",
    ".js": "node",
    ".mjs": "node",
    ".go": "gofmt",
    ".rs": "rustc",
}


class _Space:
    """As much of a workspace as a command needs that runs without walls."""

    name, mark_ns = "syntax", 0

    def __init__(self, folder: Path) -> None:
        self.folder = self.repo = self.home = self.tmp = self.root = folder
        self.carried: dict[Path, Path] = {}

    def resolve(self, _name: str) -> Path:
        return self.repo


@pytest.fixture
def box(tmp_path: Path) -> Box:
    space: Any = _Space(tmp_path)
    return Box(space, dict(os.environ), IsolationLevel(Isolation.WORKSPACE, "nothing"), own_tools=False)


def _needs(path: str) -> None:
    program = _PROGRAMS[Path(path).suffix]
    found = shutil.which(program)
    version = [program, "-V"] if program == "rustc" else ["true"]  # a proxy of rustup may have no compiler behind it
    if found is None or subprocess.run(version, capture_output=True, check=False).returncode:
        pytest.skip(f"{program} is not installed")


def _look(box: Box, path: str, after: str, before: str | None = None) -> list[str]:
    report = syntax_tools.look(box, [changed_file(path, before, after)], box.workspace.folder / "logs")
    return [str(problem) for problem in report.problems]


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("main.cpp", "int main( {\n", 1),
        ("main.c", "int a;\nint f(void) { return 1 }\n", 2),
        ("a.h", "int f(void) {\n", 1),
        ("a.hpp", "namespace a {\nstruct b {\n", 2),
        ("a.js", "const a = 1;\nconst b = ;\n", 2),
        ("a.mjs", "export const a = (;\n", 1),
        ("a.go", "package a\n\nfunc f( {\n", 3),
        ("a.rs", "fn f() {\n    let a = ;\n}\n", 2),
    ],
)
def test_line_367_a_file_that_its_compiler_cannot_parse_is_named_with_its_line(
    box: Box, path: str, text: str, line: int
) -> None:
    _needs(path)
    [problem] = _look(box, path, text)
    assert problem.startswith(f"{path}:{line}: does not parse: ")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("main.cpp", '#include "not/here.h"\nAPI int main( {\n'),
        ("main.cpp", "#include <vector>\nint main() { std::vector<int> a{1}; return a[0]; }\n"),
        ("main.c", "unknown_t f(void);\n"),
        ("a.h", "template <class T> T id(T a) { return a; }\n"),
        ("a.h", "typedef void (API_CALL * function)(int a);\n"),
        ("a.hpp", "typedef typename rebind_traits<int>::other pointer;\n"),
        ("a.js", 'import a from "./b.js";\nexport default a;\n'),
        ("a.js", 'const a = require("./b");\nmodule.exports = a;\n'),
        ("a.js", "export const a = () => <b>text</b>;\n"),
        ("a.go", 'package a\n\nimport "example.com/none"\n\nvar b = none.C\n'),
        ("a.rs", "mod other;\nuse other::Thing;\npub fn f(a: Thing) -> u8 { a.b() }\n"),
    ],
)
def test_line_367_code_that_parses_or_cannot_be_judged_alone_passes(box: Box, path: str, text: str) -> None:
    _needs(path)
    assert _look(box, path, text) == []


def test_line_367_a_file_that_did_not_parse_before_is_not_reported(box: Box) -> None:
    _needs("a.js")
    assert _look(box, "a.js", "{{ name }} = 2;\n", before="{{ name }} = 1;\n") == []


def test_line_367_a_compiler_that_is_missing_is_named_and_fails_nothing(box: Box, tmp_path: Path) -> None:
    bare = Box(box.workspace, {"PATH": str(tmp_path)}, box.wall, own_tools=False)
    report = syntax_tools.look(bare, [changed_file("a.go", None, "package (")], tmp_path / "logs")
    assert report.problems == ()
    assert report.not_parsed == ("gofmt is not installed: the syntax of its files was not looked at",)


_STEPS = [
    {"id": "broken", "commands": ["echo 'int main( {' > main.cpp"]},
    {"id": "other", "commands": ["echo 'int a;' > other.c"]},
    {"id": "after", "commands": ["echo ran > after.txt"], "depends_on": ["broken", "other"]},
]


def test_line_367_the_next_batch_does_not_start_on_broken_cpp(repo: Repo) -> None:
    _needs("main.cpp")
    plan = {"plan": {"title": "Batches", "track": "direct", "jobs": 2, "steps": _STEPS}}
    done = repo.run("run", "--json", repo.plan(json.dumps(plan)))
    assert done.code == 32, done.stderr
    assert "main.cpp:1: does not parse" in done.envelope["message"]
    assert done.envelope["next"] == "reflectloop redo broken --reason TEXT"


def test_line_367_the_review_of_a_step_sees_it_before_an_agent_is_asked(repo: Repo) -> None:
    _needs("a.js")
    broken = {"op": "write_file", "path": "new.js", "content": "const a = ;\n"}
    crew = Crew(repo).plays(
        {"role": "executor", "attempt": 1, "ops": [WRITE, broken], "answer": {"control": "step_done"}}
    )
    crew.plan()
    crew.work(every=False)
    assert any("new.js" in line and "does not parse" in line for line in crew.said), crew.said
