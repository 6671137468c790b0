"""Small programs with a real bug each, laid out as projects; the folder comes from QUIXBUGS_DIR."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from proof.environment import Stage

NAMES = (
    "gcd",
    "max_sublist_sum",
    "next_permutation",
    "sieve",
    "is_valid_parenthesization",
    "get_factors",
    "longest_common_subsequence",
    "lis",
    "next_palindrome",
    "quicksort",
    "rpn_eval",
    "pascal",
)
IGNORED = "/.venv\n__pycache__/\n.pytest_cache/\n.reflectloop/\n"
TEST = """import pytest

from program.{name} import {name}

CASES = {cases}


@pytest.mark.parametrize(("arguments", "expected"), CASES)
def test_{name}(arguments, expected):
    assert {name}(*arguments) == expected
"""
COUNTERCHECK = """protected = ["tests/**", "pytest.ini", "conftest.py", "**/conftest.py"]

[[check]]
name = "tests"
run = "{python} -m pytest -q"
timeout_secs = 300
"""


class Program(NamedTuple):
    name: str
    wrong: str
    right: str
    cases: list[tuple[list[Any], Any]]

    @property
    def test(self) -> str:
        return self.tested(self.cases)

    def tested(self, cases: list[tuple[list[Any], Any]]) -> str:
        rows = "".join(f"    ({arguments!r}, {expected!r}),\n" for arguments, expected in cases)
        return TEST.format(name=self.name, cases=f"[\n{rows}]")


def programs() -> list[Program]:
    place = os.environ.get("QUIXBUGS_DIR")
    if not place:
        raise SystemExit("QUIXBUGS_DIR names no folder with python_programs, correct_python_programs, json_testcases")
    wanted = os.environ.get("PROOF_ONLY", "").split(",") if os.environ.get("PROOF_ONLY") else list(NAMES)
    return [_program(Path(place), name) for name in wanted]


def _program(place: Path, name: str) -> Program:
    lines = (place / "json_testcases" / f"{name}.json").read_text().splitlines()
    cases = [tuple(json.loads(line)) for line in lines if line.strip()]
    wrong, right = (
        _code(place / folder / f"{name}.py", name) for folder in ("python_programs", "correct_python_programs")
    )
    return Program(name, wrong, right, [(_list(arguments), expected) for arguments, expected in cases][:12])


def _list(arguments: object) -> list[Any]:
    return arguments if isinstance(arguments, list) else [arguments]


def _code(path: Path, name: str) -> str:
    """The program without the notes that say what is wrong in it."""
    text = path.read_text()
    tree = ast.parse(text)
    kept = [node for node in tree.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    if not any(isinstance(node, ast.FunctionDef) and node.name == name for node in kept):
        raise SystemExit(f"{path}: no function {name}")
    return "\n\n".join(ast.unparse(node) for node in kept) + "\n"


def at_the_start(source: str, name: str, lines: list[str]) -> str:
    """Put lines before all that a function does."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            node.body = [*ast.parse("\n".join(lines)).body, *node.body]
            break
    return ast.unparse(tree) + "\n"


def parameters(source: str, name: str) -> list[str]:
    node = next(one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.FunctionDef) and one.name == name)
    return [argument.arg for argument in node.args.args]


class Yard:
    """One folder with one environment; each program in turn is committed there as the base."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        kept = Path(os.environ.get("PROOF_FOLDER") or stage.folder).resolve()
        self.root = kept / "programs"
        self.python = self.root / ".venv/bin/python"
        if not self.python.exists():
            self.root.mkdir(parents=True, exist_ok=True)
            subprocess.run([sys.executable, "-m", "venv", self.root / ".venv"], check=True)
            subprocess.run([self.python, "-m", "pip", "install", "-q", "pytest"], check=True)
            self.git("init", "-q")

    def git(self, *words: str) -> str:
        return self.stage.sh(self.root, "git", *words)

    def lay_out(self, program: Program, source: str, test: str) -> None:
        for path in self.root.iterdir():
            if path.name not in (".venv", ".git", ".reflectloop"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        files = {
            ".gitignore": IGNORED,
            "program/__init__.py": "",
            f"program/{program.name}.py": source,
            f"tests/test_{program.name}.py": test,
            "pytest.ini": "[pytest]\naddopts = -q\npythonpath = .\n",
            ".countercheck/checks.toml": COUNTERCHECK.format(python=self.python),
        }
        for name, text in files.items():
            self.write(name, text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", program.name)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def back(self) -> None:
        self.git("checkout", "-q", "-f", "HEAD", "--", ".")
        self.git("clean", "-fdq")
