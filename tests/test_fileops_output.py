"""What a command of a request printed is answered stream by stream, and bounded."""

from __future__ import annotations

import json
from typing import Any

from reflectloop.fileops.doing import Shown
from reflectloop.flow import requests
from support import Repo


def run(repo: Repo, script: str) -> dict[str, Any]:
    request: dict[str, Any] = {
        "proto": "triflow.fileops.v1",
        "id": script,
        "purpose": "execute_step",
        "report": {"commandOutputs": "always"},
    }
    request |= {"ops": [{"op": "run", "cmd": ["sh", "-c", script]}]}
    answer = requests.answer(requests.Place(repo.path), json.dumps(request).encode()).as_json()
    found: dict[str, Any] = answer["proof"]["commands"][0]
    return found


def test_both_streams_are_answered_apart(repo: Repo) -> None:
    found = run(repo, "echo good; echo bad >&2; echo more")
    assert (found["stdout"], found["stderr"]) == ("good\nmore\n", "bad\n")


def test_long_output_keeps_its_head_and_its_tail() -> None:
    shown = Shown()
    for number in range(100_000):
        shown.take(b"%d\n" % number)
    text = shown.text()
    assert text.startswith("0\n1\n")
    assert text.endswith("99998\n99999\n")
    assert "bytes cut" in text
    assert len(text) < 25_000
