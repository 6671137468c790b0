"""Agents of the Agent Client Protocol: a real one, as a program in the box, and what it may and may not."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from acp.schema import PromptResponse

from agent_call import Verdict, asking
from fileops_workspace import Place
from reflectloop.agents import AgentLimits, Reply, acp, bind
from reflectloop.config import AgentConfig, Config
from reflectloop.errors import AgentUnavailable
from reflectloop.system import process
from reflectloop.terms import Network, Role
from support import wait_until

PROGRAM = Path(__file__).parent / "acp_agent.py"


def asked(place: Place, tmp_path: Path, what: str, role: Role = Role.EXECUTOR, **more: Any) -> Reply:
    run = (sys.executable, str(PROGRAM), what)
    agent = AgentConfig(kind="acp", run=run, network=Network.NONE)
    return bind("mine", Config(agents={"mine": agent}), {"PATH": "/usr/bin:/bin"}).run(
        asking(place, tmp_path, role, **more)
    )


def test_the_agent_gets_the_prompt_and_its_text_is_the_answer(place: Place, tmp_path: Path) -> None:
    reply = asked(place, tmp_path, "echo", prompt="Look around.", system="You are careful.")
    assert (reply.status, reply.text) == ("ok", "You are careful.\n\nLook around.")
    assert reply.session_id == "s-1"
    assert reply.usage == (100, 15, 5, 0, 1)
    assert reply.cost_usd == 0.25
    assert reply.raw_log
    assert "Look around." in reply.raw_log.read_text()


def test_an_answer_must_validate_against_the_requested_model(place: Place, tmp_path: Path) -> None:
    reply = asked(place, tmp_path, "answer", Role.REVIEWER, answer=Verdict)
    assert (reply.status, reply.data) == ("ok", {"verdict": "PASS", "reason": "it adds"})
    reply = asked(place, tmp_path, "babbles", Role.REVIEWER, answer=Verdict)
    assert reply.status == "no_output"


def test_permission_requests_are_answered_by_the_policy(place: Place, tmp_path: Path) -> None:
    reply = asked(place, tmp_path, "ask")
    assert json.loads(reply.text) == {
        "read": "yes",
        "edit": "yes",
        "edit outside": "no",
        "test": "yes",
        "push": "no",
        "silent": "no",
    }
    assert len(reply.denials) == 3
    assert "/etc/passwd is not in the workspace" in reply.denials[0]


def test_commands_and_paths_of_a_request_decide_not_its_stated_kind(place: Place, tmp_path: Path) -> None:
    reply = asked(place, tmp_path, "lies")
    lies, true = json.loads(reply.text)
    assert {name for name, said in lies.items() if said != "no"} == set()
    assert {name for name, said in true.items() if said != "yes"} == set()
    assert len(reply.denials) == len(lies)


def test_a_read_only_role_may_only_read(place: Place, tmp_path: Path) -> None:
    reply = asked(place, tmp_path, "ask", Role.PLANNER)
    allowed = {name for name, said in json.loads(reply.text).items() if said == "yes"}
    assert allowed == {"read"}
    assert asked(place, tmp_path, "writes", Role.PLANNER).text == "Read-only file system"
    assert not (place.repo / "evil.txt").exists()


def test_files_are_served_inside_the_workspace_only(place: Place, tmp_path: Path) -> None:
    said = json.loads(asked(place, tmp_path, "files").text)
    assert said["can write"] is True
    assert said["plain"] == "# sample\n"
    assert said["lines"] == "line 2\nline 3\n"
    assert [said[name] for name in ("outside", "etc", "git", "evil", "hook")] == ["refused -32602"] * 5
    assert said["made"] == "done"
    assert place.text("new.txt") == "hello\n"
    assert not Path("/tmp/evil.txt").exists()


def test_nothing_is_written_for_a_read_only_role(place: Place, tmp_path: Path) -> None:
    reply = asked(place, tmp_path, "files", Role.CRITIC)
    said = json.loads(reply.text)
    assert (said["can write"], said["plain"], said["made"]) == (False, "# sample\n", "refused -32602")
    assert not (place.repo / "new.txt").exists()
    assert any("may only look" in denial for denial in reply.denials)


def test_a_link_in_the_workspace_is_not_read_through(place: Place, tmp_path: Path) -> None:
    (place.repo / "README.md").unlink()
    (place.repo / "README.md").symlink_to("/etc/hostname")
    assert json.loads(asked(place, tmp_path, "files").text)["plain"] == "refused -32602"


@pytest.mark.parametrize(
    ("what", "status", "reason"),
    [
        ("login", "denied", "Authentication required"),
        ("refuses", "denied", "refused to answer"),
        ("mute", "no_output", "gave no answer"),
        ("dies", "error", "(exit 3): out of luck"),
        ("garbage", "error", "ended without an answer"),
        ("no-such-scenario", "error", "Internal error"),
    ],
)
def test_every_way_to_fail_has_its_status_and_reason(
    place: Place, tmp_path: Path, what: str, status: str, reason: str
) -> None:
    reply = asked(place, tmp_path, what)
    assert (reply.status, reason in reply.reason) == (status, True), reply


def test_an_agent_that_takes_too_many_turns_is_asked_to_stop(place: Place, tmp_path: Path) -> None:
    reply = asked(place, tmp_path, "loops", bounds=AgentLimits(5, 60.0))
    assert (reply.status, reply.reason) == ("error", "took more than 5 turns")
    assert (tmp_path / "agent" / "cancelled").read_text() == "s-1"


def test_a_cancel_is_passed_on_to_the_agent(place: Place, tmp_path: Path) -> None:
    cancel = process.Cancel()
    place.hands.box.cancel = cancel

    def stop() -> None:
        wait_until((tmp_path / "agent" / "waiting").exists)
        cancel.set()

    timer = threading.Thread(target=stop)
    timer.start()
    try:
        reply = asked(place, tmp_path, "waits")
    finally:
        timer.join()
        cancel.close()
    assert (reply.status, reply.reason) == ("error", "cancelled")
    assert (tmp_path / "agent" / "cancelled").exists()


def test_an_agent_that_hangs_is_ended_in_time(place: Place, tmp_path: Path) -> None:
    reply = asked(place, tmp_path, "hangs", bounds=AgentLimits(5, 2.0))
    assert reply.status == "timeout"


@pytest.mark.parametrize(
    ("bounds", "status", "reason"),
    [(AgentLimits(5, 6.0), "timeout", "took longer than"), (AgentLimits(2, 60.0), "error", "took more than 2 turns")],
)
def test_an_agent_that_does_not_read_is_ended(
    place: Place, tmp_path: Path, bounds: AgentLimits, status: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    reply = asked(place, tmp_path, "deaf", bounds=bounds)
    assert (reply.status, reason in reply.reason) == (status, True), reply
    assert capfd.readouterr().err == ""


def test_a_resumed_session_does_not_repeat_its_past_as_the_answer(place: Place, tmp_path: Path) -> None:
    reply = asked(place, tmp_path, "echo", session="s-7")
    assert (reply.status, reply.text, reply.session_id) == ("ok", "Do it.", "s-7")
    assert reply.cost_usd is None


def test_an_answer_that_is_too_long_ends_the_agent(place: Place, tmp_path: Path) -> None:
    reply = asked(place, tmp_path, "floods")
    assert (reply.status, reply.reason) == ("error", "answered with more than 8 MB")


def test_usage_is_read_where_gemini_puts_it() -> None:
    told = {"quota": {"token_count": {"input_tokens": 1200, "output_tokens": 40}}}
    response = PromptResponse(stop_reason="end_turn", field_meta=told)
    assert acp._usage(response, 2) == (1200, 40, 0, 0, 2)
    assert acp._usage(PromptResponse(stop_reason="end_turn", field_meta={"quota": []}), 1).tokens == 0


def test_a_missing_program_is_reported() -> None:
    agent = bind("mine", Config(agents={"mine": AgentConfig(kind="acp", run=("no-such-agent",))}), {"PATH": "/bin"})
    problem = agent.probe().problem
    assert problem
    assert "no-such-agent" in problem
    with pytest.raises(AgentUnavailable):
        agent.run(None)  # type: ignore[arg-type]
