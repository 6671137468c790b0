"""Claude Code as an agent: how it is started, and what is made of what it really printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_call import Verdict, asking
from fake_cli import player, recorded, told
from fileops_workspace import Place, place_in
from reflectloop.agents import AgentLimits, Reply, bind
from reflectloop.agents.backend import Backend
from reflectloop.agents.claude import ClaudeBackend
from reflectloop.agents.sessions import ContextUse
from reflectloop.config import AgentConfig, Config
from reflectloop.errors import AgentUnavailable, SandboxEscape
from reflectloop.terms import Isolation, Role
from support import Repo

KEY = "dummy-" + "key-of-a-test"
CALLER = {"PATH": "/usr/bin:/bin", "ANTHROPIC_API_KEY": KEY}


def backend(run: tuple[str, ...], caller: dict[str, str] | None = None, **more: Any) -> Backend:
    agent = AgentConfig(kind="claude", run=run, **more)
    return bind("claude", Config(agents={"claude": agent}), CALLER if caller is None else caller)


def played(place: Place, tmp_path: Path, name: str, role: Role = Role.EXECUTOR, **more: Any) -> Reply:
    """What is made of a recording that ended with this exit code."""
    run = player(tmp_path, "claude", recorded(name), code=more.pop("code", 0))
    return backend(run).run(asking(place, tmp_path, role, **more))


def test_text_and_usage_are_read_from_the_stream(place: Place, tmp_path: Path) -> None:
    reply = played(place, tmp_path, "claude-executor")
    assert (reply.status, reply.text) == ("ok", "Fixed.")
    assert reply.session_id == json.loads(recorded("claude-executor").splitlines()[0])["session_id"]
    assert reply.usage == (5200, 120, 1000, 900, 3)
    assert reply.cost_usd == pytest.approx(0.021075)
    assert reply.raw_log
    assert "Fixed." in reply.raw_log.read_text()


def test_the_cost_of_a_resumed_session_is_that_of_this_call(place: Place, tmp_path: Path) -> None:
    reply = played(place, tmp_path, "claude-resumed", session="s-1")
    assert reply.usage.tokens == 1240
    assert reply.cost_usd == pytest.approx(0.0042)
    assert json.loads(recorded("claude-resumed").splitlines()[-1])["total_cost_usd"] > 0.02


def test_refusals_are_reported(place: Place, tmp_path: Path) -> None:
    reply = played(place, tmp_path, "claude-planner", Role.PLANNER)
    assert reply.ok
    assert [denial.split(":")[0] for denial in reply.denials] == ["Write", "Bash"]


def test_a_valid_structured_answer_is_the_data(place: Place, tmp_path: Path) -> None:
    reply = played(place, tmp_path, "claude-schema", Role.REVIEWER, answer=Verdict)
    assert (reply.status, reply.data) == ("ok", {"verdict": "PASS", "reason": "it adds"})


@pytest.mark.parametrize(
    ("name", "code", "status", "reason"),
    [
        ("claude-401", 1, "denied", "401"),
        ("claude-529", 1, "error", "529"),
        ("claude-max-turns", 1, "error", "all of its turns"),
        ("claude-max-budget", 1, "error", "all of its budget"),
        ("claude-timeout", 143, "error", "without a result (exit 143)"),
        ("claude-executor", 1, "error", "exit 1"),
    ],
)
def test_a_claim_of_success_is_not_enough(
    place: Place, tmp_path: Path, name: str, code: int, status: str, reason: str
) -> None:
    reply = played(place, tmp_path, name, code=code)
    assert (reply.status, reason in reply.reason) == (status, True), reply


def test_exit_0_without_a_structured_answer_is_not_ok(place: Place, tmp_path: Path) -> None:
    assert played(place, tmp_path, "claude-no-schema", Role.REVIEWER, answer=Verdict).status == "no_output"
    wrong = recorded("claude-schema").replace("PASS", "FAIL").replace('"reason": "it adds"', '"why": "it adds"')
    run = player(tmp_path, "claude", wrong)
    reply = backend(run).run(asking(place, tmp_path, Role.REVIEWER, answer=Verdict))
    assert (reply.status, "why" in reply.reason) == ("error", True)


def test_an_agent_that_uses_too_many_tokens_is_ended(place: Place, tmp_path: Path) -> None:
    text = "".join(f"{line}\n" for line in recorded("claude-executor").splitlines()[:-1])
    run = player(tmp_path, "claude", text, sleep_s=60)
    reply = backend(run).run(asking(place, tmp_path, bounds=AgentLimits(9, 60.0, tokens=3000)))
    assert (reply.status, reply.reason) == ("error", "used more than 3000 tokens")
    assert reply.usage.input_tokens == 1500 + 1200


def test_an_answer_that_is_too_long_is_an_error(place: Place, tmp_path: Path) -> None:
    text = recorded("claude-executor").replace("Fixed.", "x" * (9 << 20))
    reply = backend(player(tmp_path, "claude", text)).run(asking(place, tmp_path))
    assert (reply.status, reply.reason, reply.text) == ("error", "answered with more than 8 MB", "")


def test_lines_that_are_not_events_are_ignored(place: Place, tmp_path: Path) -> None:
    odd = '{"type": "new-kind"}\nnot json\n[]\n"text"\n{"type": "assistant"}\n' + recorded("claude-executor")
    run = player(tmp_path, "claude", odd)
    assert backend(run).run(asking(place, tmp_path)).ok


def test_the_command_line(place: Place, tmp_path: Path) -> None:
    run = player(tmp_path, "claude", recorded("claude-executor"))
    agent = backend(run, base_url="http://127.0.0.1:1", model="some-model")
    long = "Think. " * 50_000
    agent.run(
        asking(place, tmp_path, prompt=long, system="You fix.", bounds=AgentLimits(7, 60.0, usd=0.5), session="s-1")
    )
    seen = told(tmp_path)
    words = " ".join(seen["argv"])
    for part in (
        "-p --output-format stream-json --verbose",
        "--setting-sources  --strict-mcp-config",
        "--max-turns 7",
        "--permission-mode acceptEdits --allowedTools Bash",
        "--model some-model",
        "--max-budget-usd 0.5",
        "--resume s-1",
    ):
        assert part in words
    assert seen["stdin"] == long
    assert (tmp_path / "agent" / ".reflectloop-system.md").read_text() == "You fix."
    assert seen["env"]["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1"
    for name in ("CLAUDE_CODE_MAX_RETRIES", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "API_TIMEOUT_MS"):
        assert seen["env"][name]


def test_a_read_only_role_runs_in_plan_mode_with_the_schema(place: Place, tmp_path: Path) -> None:
    run = player(tmp_path, "claude", recorded("claude-schema"))
    backend(run).run(asking(place, tmp_path, Role.CRITIC, answer=Verdict))
    words = told(tmp_path)["argv"]
    assert words[words.index("--permission-mode") + 1] == "plan"
    assert "--allowedTools" not in words
    assert json.loads(words[words.index("--json-schema") + 1])["title"] == "Verdict"


def test_the_prompt_names_the_guides_of_the_project(place: Place, tmp_path: Path) -> None:
    (place.repo / "CLAUDE.md").write_text("Use tabs.\n")
    backend(player(tmp_path, "claude", recorded("claude-executor"))).run(asking(place, tmp_path))
    assert "CLAUDE.md" in (tmp_path / "agent" / ".reflectloop-system.md").read_text()


def test_the_key_is_in_its_environment_and_not_in_its_commands(place: Place, tmp_path: Path) -> None:
    run = player(tmp_path, "claude", recorded("claude-executor"))
    backend(run, {"PATH": "/usr/bin:/bin", "MINE": KEY, "OTHER": "no"}, key_env="MINE").run(asking(place, tmp_path))
    seen = told(tmp_path)
    assert seen["env"]["ANTHROPIC_API_KEY"] == KEY
    assert "OTHER" not in seen["env"]
    assert "MINE" not in seen["env"]
    assert KEY not in " ".join(seen["argv"])
    (tmp_path / "agent" / "told.json").unlink()
    assert all(KEY.encode() not in path.read_bytes() for path in (tmp_path / "agent").rglob("*") if path.is_file())
    shell = (tmp_path / "agent" / ".reflectloop-shell").read_text()
    assert "unset ANTHROPIC_API_KEY" in shell


def test_a_subscription_token_keeps_its_variable_name(place: Place, tmp_path: Path) -> None:
    run = player(tmp_path, "claude", recorded("claude-executor"))
    backend(run, {"PATH": "/usr/bin:/bin", "CLAUDE_CODE_OAUTH_TOKEN": KEY}).run(asking(place, tmp_path))
    assert told(tmp_path)["env"]["CLAUDE_CODE_OAUTH_TOKEN"] == KEY
    assert "ANTHROPIC_API_KEY" not in told(tmp_path)["env"]


def test_a_private_server_needs_no_key(place: Place, tmp_path: Path) -> None:
    run = player(tmp_path, "claude", recorded("claude-executor"))
    assert backend(run, {"PATH": "/usr/bin:/bin"}, base_url="http://127.0.0.1:1").run(asking(place, tmp_path)).ok


@pytest.mark.parametrize("level", [Isolation.WORKSPACE, Isolation.FS])
def test_it_runs_at_weaker_levels_too(repo: Repo, tmp_path: Path, level: Isolation) -> None:
    run = player(tmp_path, "claude", recorded("claude-executor"))
    with place_in(repo, tmp_path, level) as place:
        assert backend(run).run(asking(place, tmp_path)).ok
    assert told(tmp_path)["env"]["CLAUDE_CODE_SHELL_PREFIX"].endswith("/.reflectloop-shell")


def test_missing_parts_are_reported_with_the_next_command(place: Place, tmp_path: Path) -> None:
    old = player(tmp_path, "old", "", version="1.0.3 (Claude Code)")
    mute = player(tmp_path, "mute", "", version="hello")
    fine = player(tmp_path, "fine", "", version="2.1.325 (Claude Code)")
    for agent, words, next_step in (
        (backend(("no-such-claude",)), "needs the program no-such-claude", "npm install"),
        (backend(fine, {"PATH": "/usr/bin:/bin"}), "has no key: ANTHROPIC_API_KEY", "export ANTHROPIC_API_KEY="),
        (backend(fine, key_env="MINE"), "has no key: MINE", "export MINE="),
        (backend(fine, base_url="http://models.example"), "without encryption", "https"),
        (backend(fine, base_url="ftp://models.example"), "not an http address", "base_url"),
    ):
        probe = agent.probe()
        assert probe.problem
        assert words in probe.problem
        assert next_step in probe.next_step
        with pytest.raises(AgentUnavailable, match=words):
            agent.run(asking(place, tmp_path))
    for run, words in ((old, "is version 1.0.3; 2.1.0 or newer"), (mute, "does not say its version")):
        with pytest.raises(AgentUnavailable, match=words) as refused:
            backend(run).run(asking(place, tmp_path))
        assert "npm install" in refused.value.next_step
    assert backend(fine).probe().problem is None


def test_the_version_is_read_from_the_package_without_starting_it(place: Place, tmp_path: Path) -> None:
    package = tmp_path / "lib" / "node_modules" / "@anthropic-ai" / "claude-code"
    package.mkdir(parents=True)
    started = tmp_path / "started"
    cli = package / "cli"
    cli.write_text(f"#!/bin/sh\ntouch {started}\n")
    cli.chmod(0o755)
    (tmp_path / "claude").symlink_to(cli)
    (package / "package.json").write_text('{"version": "2.1.325"}')
    assert backend((str(tmp_path / "claude"),)).probe()[::5] == ("2.1.325", None)
    (package / "package.json").write_text('{"version": "1.0.3"}')
    assert "is version 1.0.3" in (backend((str(tmp_path / "claude"),)).probe().problem or "")
    for words in (("sh", "-c", f"touch {started}; echo 2.9.9"), (str(cli), "--flag")):
        probe = backend(words).probe()
        assert (probe.version, probe.problem) == (None, None)
    assert not started.exists()
    with pytest.raises(AgentUnavailable, match="does not say its version"):
        backend((str(cli), "--flag")).run(asking(place, tmp_path))
    assert not started.exists()  # it was asked in its box, where it cannot write there


def test_a_link_left_in_home_is_not_followed(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / ".reflectloop-shell").symlink_to(outside)
    with pytest.raises(SandboxEscape):
        played(place, tmp_path, "claude-executor")
    assert outside.read_text() == "mine"


def test_the_context_use_is_read_from_the_transcript(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "projects" / "-project"
    folder.mkdir(parents=True)
    aside = '{"type": "assistant", "isSidechain": true, "message": {"usage": {"input_tokens": 9}}}\nnot json\n'
    (folder / "s-1.jsonl").write_text(recorded("claude-transcript") + aside)
    agent = ClaudeBackend("claude", AgentConfig(kind="claude", window=200_000), {})
    assert agent.context(tmp_path, "s-1") == ContextUse(2500 + 900 + 50, 200_000)
    assert agent.context(tmp_path, "s-2") is None
    assert agent.context(tmp_path / "nowhere", "s-1") is None
