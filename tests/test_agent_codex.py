"""Codex CLI as an agent: how it is started, and what is made of what it really printed."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agent_call import Verdict, asking
from fake_cli import player, recorded, told
from fileops_workspace import Place, place_in
from reflectloop.agents import AgentLimits, Reply, bind, codex, prices
from reflectloop.agents.backend import Backend
from reflectloop.agents.sessions import ContextUse
from reflectloop.config import AgentConfig, Config
from reflectloop.errors import AgentUnavailable
from reflectloop.terms import Isolation, Role
from support import Repo

KEY = "dummy-" + "key-of-a-test"
CALLER = {"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": KEY}


class Loose(BaseModel):
    """A shape that no server can be held to."""

    notes: dict[str, str]


def backend(run: tuple[str, ...], caller: dict[str, str] | None = None, **more: Any) -> Backend:
    agent = AgentConfig(kind="codex", run=run, **more)
    return bind("codex", Config(agents={"codex": agent}), CALLER if caller is None else caller)


def played(place: Place, tmp_path: Path, name: str, role: Role = Role.EXECUTOR, **more: Any) -> Reply:
    run = player(tmp_path, "codex", recorded(name), code=more.pop("code", 0))
    return backend(run).run(asking(place, tmp_path, role, **more))


def session_of(name: str) -> str:
    found: str = json.loads(recorded(name).splitlines()[0])["thread_id"]
    return found


def keep_rollout(home: Path, session: str, records: int) -> None:
    folder = home / ".codex" / "sessions" / "2026" / "11" / "15"
    folder.mkdir(parents=True)
    lines = recorded("codex-rollout").splitlines(keepends=True)[:records]
    (folder / f"rollout-2026-11-15T10-00-00-{session}.jsonl").write_text("".join(lines))


def test_text_and_usage_are_read_from_the_stream(place: Place, tmp_path: Path) -> None:
    reply = played(place, tmp_path, "codex-executor")
    assert (reply.status, reply.text, reply.session_id) == ("ok", "Fixed.", session_of("codex-executor"))
    assert reply.usage == (5000, 80, 6000, 0, 2)
    assert reply.cost_usd is None


def test_the_cost_is_computed_from_the_price_of_the_model(place: Place, tmp_path: Path) -> None:
    run = player(tmp_path, "codex", recorded("codex-executor"))
    reply = backend(run, model="gpt-5").run(asking(place, tmp_path))
    price = prices.builtin_prices().of("gpt-5")
    assert price
    assert reply.cost_usd == pytest.approx(price.cost(reply.usage))
    assert reply.cost_usd
    assert backend(run, model="nobody-knows").run(asking(place, tmp_path)).cost_usd is None
    broken = player(tmp_path, "codex", recorded("codex-timeout"), code=143)
    assert backend(broken, model="gpt-5").run(asking(place, tmp_path)).cost_usd is None


def test_the_usage_of_a_resumed_session_is_that_of_this_call(place: Place, tmp_path: Path) -> None:
    session = session_of("codex-resumed")
    keep_rollout(tmp_path / "agent", session, 2)
    reply = played(place, tmp_path, "codex-resumed", session=session)
    assert reply.usage == (1200, 40, 0, 0, 1)


def test_the_usage_of_an_interrupted_call_is_read_from_the_transcript(place: Place, tmp_path: Path) -> None:
    keep_rollout(tmp_path / "agent", session_of("codex-timeout"), 1)
    reply = played(place, tmp_path, "codex-timeout", code=143)
    assert (reply.status, reply.usage) == ("error", (4000, 30, 1000, 0, 1))
    assert "without a result (exit 143)" in reply.reason


def test_refusals_by_the_sandbox_are_reported(place: Place, tmp_path: Path) -> None:
    reply = played(place, tmp_path, "codex-planner", Role.PLANNER)
    assert reply.ok
    assert len(reply.denials) == 1
    assert "EVIL.txt: Read-only file system" in reply.denials[0]


def test_an_answer_must_validate_against_the_requested_model(place: Place, tmp_path: Path) -> None:
    reply = played(place, tmp_path, "codex-schema", Role.REVIEWER, answer=Verdict)
    assert (reply.status, reply.data) == ("ok", {"verdict": "PASS", "reason": "it adds"})
    assert played(place, tmp_path, "codex-executor", Role.REVIEWER, answer=Verdict).status == "no_output"
    wrong = player(tmp_path, "codex", recorded("codex-schema").replace("verdict", "word"))
    reply = backend(wrong).run(asking(place, tmp_path, Role.REVIEWER, answer=Verdict))
    assert (reply.status, "word" in reply.reason) == ("error", True)


@pytest.mark.parametrize(
    ("name", "code", "status", "reason"),
    [
        ("codex-401", 1, "denied", "401"),
        ("codex-529", 1, "error", "529"),
        ("codex-executor", 1, "error", "exit 1"),
    ],
)
def test_every_way_to_fail_has_its_status_and_reason(
    place: Place, tmp_path: Path, name: str, code: int, status: str, reason: str
) -> None:
    reply = played(place, tmp_path, name, code=code)
    assert (reply.status, reason in reply.reason) == (status, True), reply


def test_an_answer_that_is_too_long_ends_the_agent(place: Place, tmp_path: Path) -> None:
    text = recorded("codex-executor").replace("Fixed.", "x" * (9 << 20))
    reply = backend(player(tmp_path, "codex", text, sleep_s=60)).run(asking(place, tmp_path))
    assert (reply.status, reply.reason, reply.text) == ("error", "answered with more than 8 MB", "")


def test_an_agent_that_takes_too_many_turns_is_ended(place: Place, tmp_path: Path) -> None:
    begun = '{"type":"item.started","item":{"id":"item_%d","type":"command_execution","command":"true"}}\n'
    run = player(tmp_path, "codex", "".join(begun % number for number in range(9)), sleep_s=60)
    reply = backend(run).run(asking(place, tmp_path, bounds=AgentLimits(3, 60.0)))
    assert (reply.status, reply.reason) == ("error", "took more than 3 turns")


def test_the_command_line(place: Place, tmp_path: Path) -> None:
    run = player(tmp_path, "codex", recorded("codex-schema"))
    agent = backend(run, base_url="http://127.0.0.1:1/v1", model="some-model", env=("MINE",))
    agent.run(asking(place, tmp_path, Role.REVIEWER, answer=Verdict, session="s-1", prompt="Review."))
    seen = told(tmp_path)
    home = seen["env"]["HOME"]
    assert seen["argv"] == [
        *("exec", "--json", "--skip-git-repo-check", "--sandbox", "danger-full-access", "--model", "some-model"),
        *("--output-schema", f"{home}/.codex/answer-schema.json", "resume", "s-1", "-"),
    ]
    assert seen["stdin"] == "Review."
    assert seen["env"]["CODEX_HOME"] == f"{home}/.codex"
    assert not seen["env"]["CODEX_HOME"].startswith(seen["env"]["TMPDIR"])


def test_the_agents_sandbox_is_used_only_without_ours(repo: Repo, tmp_path: Path) -> None:
    with place_in(repo, tmp_path) as place:
        box = place.hands.box
        assert codex.sandbox_mode(box, Role.PLANNER) == "danger-full-access"
        box.wall = box.wall._replace(by="landlock", level=Isolation.FS)
        assert codex.sandbox_mode(box, Role.EXECUTOR) == "danger-full-access"
        box.wall = box.wall._replace(by="nothing", level=Isolation.WORKSPACE)
        assert codex.sandbox_mode(box, Role.PLANNER) == "read-only"
        assert codex.sandbox_mode(box, Role.EXECUTOR) == "workspace-write"


def test_it_does_not_run_without_any_sandbox(repo: Repo, tmp_path: Path) -> None:
    run = player(tmp_path, "codex", recorded("codex-executor"))
    with (
        place_in(repo, tmp_path, Isolation.WORKSPACE) as place,
        pytest.raises(AgentUnavailable, match="fs is needed") as raised,
    ):
        backend(run).run(asking(place, tmp_path))
    assert raised.value.missing == ("isolation:fs",)
    assert not (tmp_path / "agent" / "told.json").exists()


def test_the_configuration_is_ours_and_contains_no_key(place: Place, tmp_path: Path) -> None:
    run = player(tmp_path, "codex", recorded("codex-executor"))
    caller = {"PATH": "/usr/bin:/bin", "MINE": KEY}
    backend(run, caller, key_env="MINE", base_url="http://127.0.0.1:1/v1", model="m").run(
        asking(place, tmp_path, system='Say "hé" 😀\n\x7f')
    )
    text = (tmp_path / "agent" / ".codex" / "config.toml").read_text()
    values = tomllib.loads(text)
    assert values["model_providers"]["reflectloop"]["base_url"] == "http://127.0.0.1:1/v1"
    assert values["model_providers"]["reflectloop"]["env_key"] == "MINE"
    assert values["shell_environment_policy"]["exclude"] == ["OPENAI_API_KEY", "CODEX_API_KEY", "MINE"]
    assert values["developer_instructions"] == 'Say "hé" 😀\n\x7f'
    assert (values["model"], values["analytics"]["enabled"], values["features"]["plugins"]) == ("m", False, False)
    assert values["features"]["unbounded_connection_retries"] is False
    assert KEY not in text
    assert told(tmp_path)["env"]["MINE"] == KEY


def test_the_default_server_is_the_providers() -> None:
    values = tomllib.loads(codex.configuration(AgentConfig(kind="codex"), "", "OPENAI_API_KEY"))
    assert values["model_providers"]["reflectloop"]["base_url"].startswith("https://")
    assert "model" not in values
    alone = tomllib.loads(codex.configuration(AgentConfig(kind="codex", base_url="http://127.0.0.1:1"), "", None))
    assert "env_key" not in alone["model_providers"]["reflectloop"]


def test_a_schema_that_no_server_can_enforce_is_put_into_the_prompt(place: Place, tmp_path: Path) -> None:
    said = recorded("codex-schema").replace(
        r"{\"verdict\":\"PASS\",\"reason\":\"it adds\"}", r"{\"notes\": {\"a\": \"b\"}}"
    )
    reply = backend(player(tmp_path, "codex", said)).run(asking(place, tmp_path, Role.CRITIC, answer=Loose))
    assert (reply.status, reply.data) == ("ok", {"notes": {"a": "b"}})
    assert "--output-schema" not in told(tmp_path)["argv"]
    assert "JSON Schema" in told(tmp_path)["stdin"]


def test_a_schema_in_its_strict_form_requires_every_key() -> None:
    class Item(BaseModel):
        title: str
        count: int = 3

    class Answer(BaseModel):
        items: list[Item]
        note: str | None = None

    made = codex.strict_form(Answer.model_json_schema())
    assert made
    assert made["required"] == ["items", "note"]
    assert made["$defs"]["Item"]["required"] == ["title", "count"]
    assert made["$defs"]["Item"]["additionalProperties"] is False
    assert "default" not in json.dumps(made)
    assert codex.strict_form(Loose.model_json_schema()) is None


def test_missing_parts_are_reported_with_the_next_command(place: Place, tmp_path: Path) -> None:
    old = player(tmp_path, "old", "", version="codex-cli 0.39.0")
    fine = player(tmp_path, "fine", "", version="codex-cli 0.163.0")
    for agent, words in (
        (backend(("no-such-codex",)), "needs the program no-such-codex"),
        (backend(fine, {"PATH": "/usr/bin:/bin"}), "has no key: OPENAI_API_KEY or CODEX_API_KEY"),
    ):
        problem = agent.probe().problem
        assert problem
        assert words in problem
        with pytest.raises(AgentUnavailable, match=words):
            agent.run(asking(place, tmp_path))
    with pytest.raises(AgentUnavailable, match=r"is version 0\.39\.0"):
        backend(old).run(asking(place, tmp_path))
    assert backend(fine).probe().problem is None
    with pytest.raises(AgentUnavailable, match=r"is version 0\.39\.0"):
        backend(old).run(asking(place, tmp_path))


def test_the_context_use_is_read_from_the_transcript(tmp_path: Path) -> None:
    keep_rollout(tmp_path, "s-1", 2)
    agent = codex.CodexBackend("codex", AgentConfig(kind="codex"), {})
    assert agent.context(tmp_path, "s-1") == ContextUse(6050, 258_400)
    shutil.rmtree(tmp_path / ".codex")
    assert agent.context(tmp_path, "s-1") is None
