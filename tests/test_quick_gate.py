"""The quick gate between batches finds broken files before the next batch starts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gate_builders import changed_file
from reflectloop.gates import batch_gate
from reflectloop.terms import Decision
from support import Repo

PROJECT = {"src/pkg/__init__.py": 0, "src/pkg/core.py": 0, "src/pkg/sub/__init__.py": 0, "app.py": 0}


def check_batch(path: str, after: str | None, before: str | None = None, **more: Any) -> str:
    ruling = batch_gate.check_batch([changed_file(path, before, after)], PROJECT, **{"has_contract": True, **more})
    return " | ".join(str(reason) for reason in ruling.reasons)


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("a.py", "def f(:\n", "a.py:1: does not parse"),
        ("a.json", '{"a": 1,}', "a.json:1: does not parse"),
        ("a.toml", "a = \n", "a.toml: does not parse"),
        ("a.yaml", "a: [1\nb: 2\n", "a.yaml:"),
        ("a.yml", "a: {\n", "does not parse"),
        ("a.svg", "<svg><g></svg>", "does not parse"),
        ("a.py", "", "a.py: is empty"),
        ("a.go", "  \n", "a.go: is empty"),
        ("a.json", "", "a.json: is empty"),
    ],
)
def test_a_file_that_is_empty_or_does_not_parse_is_named_with_its_line(path: str, text: str, words: str) -> None:
    assert words in check_batch(path, text)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "x = 1\n"),
        ("pkg/__init__.py", ""),
        ("marker", ""),
        ("notes.txt", ""),
        ("tsconfig.json", "// comments are allowed here\n{}"),
        ("a.yaml", "a: 1\n---\nb: !custom 2\n"),
        ("a.py", None),
        ("data.bin", "\0\1"),
    ],
)
def test_valid_and_unknown_files_pass(path: str, text: str | None) -> None:
    assert check_batch(path, text) == ""


def test_a_file_that_did_not_parse_before_is_not_reported() -> None:
    assert check_batch("template.py", "{{ name }} = 2\n", before="{{ name }} = 1 1\n") == ""


@pytest.mark.parametrize(
    ("path", "text", "lost"),
    [
        ("src/pkg/new.py", "from pkg.missing import x\n", "pkg.missing"),
        ("src/pkg/new.py", "import pkg.sub.gone\n", "pkg.sub.gone"),
        ("src/pkg/new.py", "from .missing import x\n", "missing"),
        ("src/pkg/sub/new.py", "from ..gone import x\n", "gone"),
        (
            "src/pkg/new.py",
            "from pkg.core import x\nfrom . import core\nfrom .core import y\n",
            "",
        ),
        ("src/pkg/new.py", "import os\nimport numpy.linalg\nfrom app import main\n", ""),
        ("src/pkg/new.py", "try:\n    import pkg.fast\nexcept ImportError:\n    pass\n", ""),
    ],
)
def test_an_import_of_a_missing_project_module_is_named(path: str, text: str, lost: str) -> None:
    reasons = check_batch(path, text)
    assert f"imports {lost}, which is not in the project" in reasons if lost else reasons == ""


def test_a_batch_without_a_contract_does_not_pass() -> None:
    assert "no contract" in check_batch("a.py", "x = 1\n", has_contract=False)
    assert batch_gate.check_batch([], PROJECT, has_contract=False).decision is Decision.RETRY


def plan(repo: Repo, broken: str) -> Any:
    steps = [
        {"id": "left", "commands": [f"printf '{broken}' > left.py"]},
        {"id": "right", "commands": ["echo 'y = 2' > right.py"]},
        {"id": "after", "commands": ["echo ran > after.txt"], "depends_on": ["left", "right"]},
    ]
    return repo.plan(json.dumps({"plan": {"title": "Batches", "track": "direct", "jobs": 2, "steps": steps}}))


def test_the_next_batch_starts_only_when_the_broken_one_is_fixed(repo: Repo) -> None:
    done = repo.run("run", "--json", plan(repo, "def f(:"))
    assert done.code == 32, done.stdout
    assert "batch left,right: REFUSED: left.py:1: does not parse" in done.envelope["message"]
    assert [step["id"] for step in done.json["data"]["steps"]] == ["left", "right"]
    [journal] = (repo.path / ".reflectloop" / "tasks").glob("*/journal.jsonl")
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [event["subject"] for event in events if event["kind"] == "gate_decided"] == ["batch left,right"]
    assert repo.run("run", plan(repo, "x = 1")).code == 0
