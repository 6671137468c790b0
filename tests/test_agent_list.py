"""`agents` lists the agents, what each lacks, and whether it answers."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fake_cli import player, recorded
from reflectloop.commands import agent_status
from reflectloop.commands.agent_status import AgentRow
from support import Repo, reflectloop, start, wait_until

KEY = "dummy-" + "key-of-a-test"
FINE = """import json, sys; request = json.load(sys.stdin); print(json.dumps({"text": "ready", "usage": {"input_tokens": 7}}))"""


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "OPENAI_API_KEY",
        "CODEX_API_KEY",
    ):
        monkeypatch.delenv(name, raising=False)


def settings(repo: Repo, text: str) -> None:
    (repo.path / "reflectloop.toml").write_text(text)


def rows(repo: Repo, **more: Any) -> dict[str, AgentRow]:
    return {row.name: row for row in agent_status.list_agents(repo.path, **more).rows}


def packaged(tmp_path: Path, name: str, version: str) -> str:
    """A program of an npm package, which starts nothing but a trap."""
    folder = tmp_path / "node_modules" / name
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps({"name": name, "version": version}))
    program = folder / "cli"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\necho {version}\n")
    program.chmod(0o755)
    return str(program)


def test_kinds_and_agents_are_listed_with_their_missing_parts(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude = packaged(tmp_path, "claude", "2.1.325")
    old = packaged(tmp_path, "old", "0.1.0")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("MINE", KEY)
    settings(
        repo,
        f"""
[roles]
planner = "claude"
critic = "mine"
[agents.mine]
kind = "claude"
run = ["{claude}"]
key_env = "MINE"
[agents.claude]
run = ["{claude}"]
[agents.codex]
run = ["{old}"]
key_env = "MINE"
""",
    )
    found = rows(repo)
    assert set(found) == {"mine", "claude", "codex", "script", "command", "http", "acp"}
    assert (found["mine"].state, found["mine"].probe.version) == ("ready", "2.1.325"), "read from its package"
    assert (found["mine"].roles, found["mine"].keys) == (("critic",), {"MINE": "<SET>"})
    assert found["claude"].state == "unavailable"
    assert found["claude"].keys["ANTHROPIC_API_KEY"] == "<UNSET>"
    assert "has no key" in str(found["claude"].probe.problem)
    assert "is version 0.1.0" in str(found["codex"].probe.problem)
    assert not (tmp_path / "started").exists()
    assert found["command"].state == "not set up"
    assert "[agents.command]" in found["command"].probe.next_step


def test_listing_agents_imports_no_optional_package(repo: Repo) -> None:
    program = "import sys; from reflectloop.commands import agent_status; agent_status.list_agents(__import__('pathlib').Path('.'))"
    program += "; sys.exit(bool({'acp', 'httpx', 'click', 'rich'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], cwd=repo.path, check=False).returncode == 0


def test_a_role_bound_to_a_missing_agent_is_agent_unavailable(repo: Repo) -> None:
    settings(repo, '[roles]\nreviewer = "claude"\n[agents.claude]\nrun = ["no-such-claude"]\n')
    answer = reflectloop(repo.path, "agents", "--json")
    assert answer.code == 61
    assert answer.envelope["error_code"] == "AGENT_UNAVAILABLE"
    assert answer.envelope["missing_inputs"] == ["agent:claude"]
    assert "npm install" in answer.envelope["next"]
    (row,) = [one for one in answer.json["data"]["agents"] if one["name"] == "claude"]
    assert (row["state"], row["roles"]) == ("unavailable", ["reviewer"])
    assert "planner" in answer.json["data"]["unbound_roles"]


def test_each_ready_agent_gets_a_test_prompt(repo: Repo, tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(FINE)
    mute = tmp_path / "mute.py"
    mute.write_text("import os; open(os.path.expanduser('~/x'), 'w'); print(os.listdir('.'))")
    python = sys.executable
    settings(
        repo,
        f"""
[roles]
executor = "fine"
[agents.fine]
kind = "command"
run = ["{python}", "{program}"]
[agents.mute]
kind = "command"
run = ["{python}", "{mute}"]
""",
    )
    answer = reflectloop(repo.path, "agents", "--check")
    assert answer.code == 0, answer.stderr
    assert "answered in" in answer.stdout
    assert "no JSON object" not in answer.stdout  # an agent without a role is not asked, since that may cost money
    answer = reflectloop(repo.path, "agents", "--check", "fine", "mute")
    assert answer.code == 0, answer.stderr
    assert "7 tokens" in answer.stdout
    assert "error: its result contains no JSON object" in answer.stdout
    assert not (tmp_path / "home" / "x").exists()
    assert not list((tmp_path / "temp").glob("reflectloop-agents-*"))
    found = {row.name: row for row in agent_status.list_agents(repo.path, ("mute",), check=True).rows}
    assert list(found) == ["mute"]
    assert found["mute"].tried
    assert not found["mute"].tried.ok
    assert "known: fine, mute, " in repo.run("agents", "nobody").stderr


def test_a_bound_agent_that_does_not_answer_is_agent_unavailable(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    (claude,) = player(tmp_path, "claude", recorded("claude-401"), code=1, version="2.1.325")
    settings(repo, f'[roles]\nplanner = "claude"\n[agents.claude]\nrun = ["{claude}"]\n')
    found = agent_status.list_agents(repo.path, check=True)
    assert found.fault
    assert "401" in found.fault.message
    assert KEY not in repr(found)


def test_an_interrupt_ends_the_check_of_agents(repo: Repo, tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text("import time; time.sleep(60)")
    settings(repo, f'[agents.slow]\nkind = "command"\nrun = ["{sys.executable}", "{slow}"]\n')
    engine = start(repo.path, "agents", "--check", "slow")
    assert wait_until(lambda: running(slow))
    engine.send_signal(signal.SIGINT)
    assert engine.wait(30) == 130
    assert wait_until(lambda: not running(slow))


def running(program: Path) -> bool:
    mark = f"{program}\0".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "cmdline").read_bytes():
                return True
    return False


def test_a_program_of_the_project_is_found_where_it_is_tried(repo: Repo) -> None:
    repo.write("tools/agent.py", "import beside; print(beside.SAYS)\n")
    repo.write("tools/beside.py", 'SAYS = \'{"text": "ready"}\'\n')
    settings = '[roles]\nexecutor = "own"\n[agents.own]\nkind = "command"\nrun = ["python3", "tools/agent.py"]\n'
    repo.write("reflectloop.toml", settings)
    answer = repo.run("agents", "--check", "--json")
    assert answer.code == 0, answer.stdout
    assert next(row for row in answer.json["data"]["agents"] if row["name"] == "own")["tried"]["status"] == "ok"
