"""The command diagnose: what it says about a log, to a person and to a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reflectloop.secrets.rulefile import fill_sample
from support import reflectloop

KEY = fill_sample("ghp_{alnum:36}", "a log")


def test_diagnose_answers_lines_by_id_and_shows_no_secret(tmp_path: Path) -> None:
    log = f"FAILED t.py::test_a - AssertionError: {KEY}\n1 failed in 0.1s\n"
    lines = [json.dumps({"id": "a", "text": log}), json.dumps({"id": "b", "text": "3 passed in 0.1s\n"})]
    done = reflectloop(tmp_path, "diagnose", "--jsonl", stdin="\n".join(lines) + "\n")
    assert KEY not in done.stdout
    answers = {one["id"]: one["result"] for one in map(json.loads, done.stdout.splitlines())}
    assert answers["a"]["type"] == "test_failure"
    assert answers["a"]["details"][0]["test"] == "t.py::test_a"
    assert answers["b"]["ok"] is True


def test_diagnose_tells_a_person_and_a_program_the_same(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(f"a.py:3:1: F401 unused {KEY}\n")
    said = reflectloop(tmp_path, "diagnose", "log.txt")
    assert said.code == 1
    assert "lint: log: 1 issue in 1 file" in said.stdout
    assert "a.py:3:1: error: F401 unused" in said.stdout
    shown = reflectloop(tmp_path, "diagnose", "log.txt", "--json")
    assert json.loads(shown.stdout)["data"]["result"]["details"][0]["line"] == 3
    assert KEY not in said.stdout + shown.stdout
    assert reflectloop(tmp_path, "diagnose", "-", "--exit-code", "0", stdin="All checks passed!\n").code == 0


def test_diagnose_refuses_what_is_not_there(tmp_path: Path) -> None:
    done = reflectloop(tmp_path, "diagnose", "nothing.txt", "--json")
    assert json.loads(done.stdout)["envelope"]["error_code"] == "INVALID_INPUT"
    assert reflectloop(tmp_path, "diagnose", "--jsonl", stdin="no json\n").code != 0


@pytest.mark.parametrize(
    ("text", "type_", "summary", "next_step"),
    [
        (
            '# example.com/add\n./add.go:5:9: undefined: foo\n./add.go:7:2: "fmt" imported and not used\n',
            "build_failure",
            "go: 2 issues in 1 file",
            "correct the code where the tool points, beginning with the first complaint",
        ),
        (
            "error: gen/api.py is missing, run make generate\n",
            "crashed",
            "error: gen/api.py is missing, run make generate",
            "read the log around the first error",
        ),
        (
            "ERROR: Could not find a version that satisfies the requirement x\nERROR: No matching distribution found for x\n",
            "crashed",
            "2 errors, the first: ERROR: Could not find a version that satisfies the requirement x",
            "correct its name or version; see that the index is reachable and has it for this version of the language",
        ),
        (
            "curl: (6) Could not resolve host: index.example\n",
            "unknown_project",
            "no known test result format was recognised",
            "getent hosts index.example",
        ),
        (
            "socket.gaierror: [Errno -2] Name or service not known\n",
            "unknown_project",
            "no known test result format was recognised",
            "check the name and the network (a sealed box has none); retry later",
        ),
        (
            'npm error Missing script: "nope"\nnpm error\nnpm error To see a list of scripts, run:\nnpm error   npm run\n',
            "tool_missing",
            "package.json has no script 'nope'",
            "npm run",
        ),
    ],
)
def test_diagnose_calls_a_failure_what_it_is(
    text: str, type_: str, summary: str, next_step: str, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_text(text)
    said = reflectloop(tmp_path, "diagnose", "a.log", "--json")
    result = said.json["data"]["result"]
    assert (said.code, result["type"], result["summary"]) == (1, type_, summary)
    assert said.envelope["next"] == next_step
