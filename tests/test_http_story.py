"""A goal becomes a proven patch by nobody but a model behind HTTP, and its key is nowhere."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from http_agent import KEY
from model import Model, Turn, call
from support import Repo

FIXED = "import math\n\n\ndef pages(n, size):\n    return math.ceil(n / size)\n"
STEP = {"title": "Round up", "done": ["it rounds up"], "checks": ["grep -q ceil pager.py"]}


def play(asked: dict[str, Any]) -> Turn:
    """Whatever role it is asked to be, by what has been said so far."""
    role = asked["system"][0]["text"].partition("You work as the ")[2].partition(" inside")[0]
    if role == "executor":
        fix = call("write_file", path="pager.py", content=FIXED)
        return {1: call("read_file", path="pager.py"), 3: fix}.get(
            len(asked["messages"]), call("step_done", approach="ceil")
        )
    wanted = next(one for one in asked["tools"] if one["name"] == "answer")["input_schema"]["properties"]
    if "steps" in wanted:
        return call("answer", title="Round up", goal="pages() rounds up", steps=[STEP])
    return call("answer", approach="ceil") if "approach" in wanted else call("answer", verdict="PASS")


def test_a_model_over_http_plans_executes_and_reviews_a_task(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    repo.write("pager.py", "def pages(n, size):\n    return n // size\n")
    with Model(itertools.repeat(play)) as model:
        repo.write(
            "reflectloop.toml",
            f'[roles]\nplanner = "m"\nexecutor = "m"\nreviewer = "m"\n[cost]\nusd = 5.0\n'
            f'[agents.m]\nkind = "http"\nbase_url = "{model.url}"\nmodel = "claude-sonnet-4-5"\n',
        )
        repo.commit("a pager")
        before = repo.state()
        planned = repo.run("tp", "pages() rounds up", "--yes")
        assert planned.code == 0, planned.stderr
        worked = repo.run("tr", "--all")
    assert worked.code == 0, worked.stderr
    assert repo.state() == before
    assert "+    return math.ceil(n / size)" in repo.run("diff").stdout
    assert all(one.keyed for one in model.seen)
    kept = [path for path in repo.path.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path.name for path in kept if path.suffix == ".jsonl" and path.name.startswith("executor-")]
    assert not [path for path in kept if KEY.encode() in path.read_bytes()]
