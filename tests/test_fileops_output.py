"""What a command of a request printed is answered stream by stream; one that is refused too often ends it all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reflectloop.commands import apply_run
from reflectloop.engine.requests import fileops_session
from reflectloop.errors import GateRejected, Latched
from reflectloop.fileops.ops import ShownOutput
from reflectloop.fileops.response import Response
from support import Repo


def run(repo: Repo, script: str) -> dict[str, Any]:
    request: dict[str, Any] = {
        "proto": "triflow.fileops.v1",
        "id": script,
        "purpose": "execute_step",
        "report": {"commandOutputs": "always"},
    }
    request |= {"ops": [{"op": "run", "cmd": ["sh", "-c", script]}]}
    answer = fileops_session.answer(fileops_session.FileopsTarget(repo.path), json.dumps(request).encode()).as_json()
    found: dict[str, Any] = answer["proof"]["commands"][0]
    return found


def test_both_streams_are_reported_separately(repo: Repo) -> None:
    found = run(repo, "echo good; echo bad >&2; echo more")
    assert (found["stdout"], found["stderr"]) == ("good\nmore\n", "bad\n")


def test_long_output_keeps_its_head_and_its_tail() -> None:
    shown = ShownOutput()
    for number in range(100_000):
        shown.take(b"%d\n" % number)
    text = shown.text()
    assert text.startswith("0\n1\n")
    assert text.endswith("99998\n99999\n")
    assert "bytes cut" in text
    assert len(text) < 25_000


def test_the_third_refused_command_stops_the_project(repo: Repo) -> None:
    def ask(number: int) -> Response:
        request = {"proto": "triflow.fileops.v1", "id": str(number), "purpose": "execute_step"}
        text = json.dumps({**request, "ops": [{"op": "run", "cmd": "rm -rf / --no-preserve-root"}]})
        return fileops_session.answer(fileops_session.FileopsTarget(repo.path), text.encode())

    assert [ask(number).status for number in (1, 2)] == ["validation_error", "validation_error"]
    with pytest.raises(GateRejected, match="for the third time"):
        ask(3)
    with pytest.raises(Latched):
        ask(4)
    apply_run.unlock(repo.path, "it was told not to")
    assert ask(5).status == "validation_error"
