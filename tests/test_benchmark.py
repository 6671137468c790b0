"""A refactoring that makes a named benchmark slower is sent back; on other tracks nobody asks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reflectloop.engine.pipeline import run
from reflectloop.engine.run.request import RunOutcome, RunRequest
from support import Repo

pytestmark = pytest.mark.usefixtures("without_probing")

SETTINGS = '[[verify.checks]]\nname = "suite"\nkind = "custom"\nrun = ["sh", "work.sh"]\n'


def plan(repo: Repo, command: str, **more: object) -> Path:
    said = {
        "title": "Tidy up",
        "may_change": ["work.sh"],
        "must_not_change": ["reflectloop.toml"],
        "checks": {"speed": {"run": ["sh", "work.sh"], "kind": "benchmark"}},
        "steps": [{"id": "S1", "commands": [command]}],
        **more,
    }
    return repo.plan(json.dumps({"plan": said}))


def outcome(repo: Repo, command: str, **more: object) -> RunOutcome:
    return run(RunRequest(repo.path, plan(repo, command, **more), new_task=True))


def test_a_refactoring_may_not_be_slower_where_a_benchmark_is_named(repo: Repo) -> None:
    repo.write("work.sh", "sleep 0.05\n")
    repo.write("reflectloop.toml", SETTINGS)
    repo.commit("work")
    slower = "echo 'sleep 0.6' > work.sh"
    refused = outcome(repo, slower, track="refactor")
    assert refused.error is not None
    assert "speed: got slower" in refused.error.message
    assert outcome(repo, "echo '# tidy' >> work.sh", track="refactor").error is None
    assert outcome(repo, slower, track="direct").error is None
