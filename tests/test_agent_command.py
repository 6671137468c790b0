"""Any program can be an agent: what it is told, what it may answer, and how each way to fail is told apart."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from agent_call import Verdict, asking, python
from fileops_workspace import ROOT, TOKEN, Place
from model import Model, say
from reflectloop.agents import AgentLimits, Reply, bind
from reflectloop.config import AgentConfig, Config
from reflectloop.errors import AgentUnavailable, SecretLeak
from reflectloop.system import process
from reflectloop.terms import Network, Role


def asked(place: Place, tmp_path: Path, code: str, role: Role = Role.EXECUTOR, **more: Any) -> Reply:
    """What comes of an agent whose program is this Python."""
    own = {name: more.pop(name) for name in ("env", "key_env", "network") if name in more}
    caller = more.pop("caller", {"PATH": "/usr/bin:/bin"})
    agent = AgentConfig(kind="command", run=python(place, "agent.py", code), **own)
    return bind("mine", Config(agents={"mine": agent}), caller).run(asking(place, tmp_path, role, **more))


def published_schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "schemas" / f"{name}.json").read_text())
    return loaded


SAY = "import json, sys; request = json.load(sys.stdin); print(json.dumps({}))"


def test_the_request_and_the_result_are_json(place: Place, tmp_path: Path) -> None:
    code = SAY.format('{"text": "seen", "data": request, "session_id": "s-1", "cost_usd": 0.5,'
                      ' "usage": {"input_tokens": 10, "output_tokens": 2}}')  # fmt: skip
    reply = asked(place, tmp_path, code, prompt="Häh?", system="You plan.", step="P-1", attempt=2, session="s-0")
    assert reply.ok, reply
    assert reply.data
    jsonschema.validate(reply.data, published_schema("agent-request"))
    assert (reply.data["prompt"], reply.data["system"], reply.data["step"]) == ("Häh?", "You plan.", "P-1")
    assert (reply.data["role"], reply.data["attempt"], reply.data["session"]) == ("executor", 2, "s-0")
    assert reply.data["bounds"] == {"turns": 5, "timeout_s": 60.0, "tokens": None, "usd": None}
    assert (reply.session_id, reply.cost_usd, reply.usage.tokens, reply.usage.turns) == ("s-1", 0.5, 12, 1)
    assert reply.raw_log
    assert "seen" in reply.raw_log.read_text()


def test_a_result_among_prose_and_fences_is_found(place: Place, tmp_path: Path) -> None:
    code = """print('Sure:\\n```json\\n{"text": "fine"}\\n```\\nThat is all.')"""
    assert asked(place, tmp_path, code).text == "fine"


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        ("", "no_output", "without any output"),
        ("print('  ')", "no_output", "without any output"),
        ("print('I have done it.')", "error", "contains no JSON object"),
        ("""print('{"text": "a", "text": "b"}')""", "error", "occurs twice"),
        ("""print('{"txet": "a"}')""", "error", "txet"),
        ("""print('{"text": ""}')""", "no_output", "gave no answer"),
        ("""print('{"text": 5}')""", "error", "text"),
        ("""print('{"usage": {"input_tokens": -5}, "text": "x"}')""", "error", "input_tokens"),
        ("""print('{"status": "error", "reason": "tired"}')""", "error", "tired"),
        ("""print('{"status": "denied"}')""", "denied", "it reported denied"),
        ("""print('{"text": "fine"}'); raise SystemExit(3)""", "error", "exit 3"),
        ("raise ValueError('no luck')", "error", "ValueError: no luck"),
        ("print('x' * (10 << 20))", "error", "more than 8 MB"),
        ("import os; os.kill(os.getpid(), 9)", "error", "exit 137"),
    ],
)
def test_every_way_to_fail_has_its_status_and_reason(
    place: Place, tmp_path: Path, code: str, status: str, reason: str
) -> None:
    reply = asked(place, tmp_path, code)
    assert (reply.status, reason in reply.reason) == (status, True), reply


def test_a_program_that_takes_too_long_is_ended_with_what_it_started(place: Place, tmp_path: Path) -> None:
    code = "import subprocess; subprocess.run(['sleep', '3600'])"
    reply = asked(place, tmp_path, code, bounds=AgentLimits(5, 0.5))
    assert reply.status == "timeout"


def test_a_cancel_ends_it(place: Place, tmp_path: Path) -> None:
    cancel = process.Cancel()
    place.hands.box.cancel = cancel
    timer = threading.Timer(0.5, cancel.set)
    timer.start()
    try:
        reply = asked(place, tmp_path, "import time; time.sleep(60)")
    finally:
        timer.join()
        cancel.close()
    assert (reply.status, reply.reason) == ("error", "cancelled")


def test_an_answer_must_validate_against_the_requested_model(place: Place, tmp_path: Path) -> None:
    right = SAY.format('{"data": {"verdict": "PASS", "reason": request["schema"]["title"]}}')
    reply = asked(place, tmp_path, right, answer=Verdict)
    assert (reply.status, reply.data) == ("ok", {"verdict": "PASS", "reason": "Verdict"})
    reply = asked(place, tmp_path, SAY.format('{"data": {"verdict": 5}}'), answer=Verdict)
    assert reply.status == "error"
    assert "verdict" in reply.reason
    assert "reason" in reply.reason
    reply = asked(place, tmp_path, SAY.format('{"text": "PASS"}'), answer=Verdict)
    assert reply.status == "no_output"


WRITES = '{"text": "done", "ops": [{"op": "write_file", "path": "new.txt", "content": "hello\\n"}]}'


def test_the_engine_executes_the_ops_of_the_program(place: Place, tmp_path: Path) -> None:
    reply = asked(place, tmp_path, SAY.format(WRITES))
    assert reply.ok, reply
    assert place.text("new.txt") == "hello\n"


def test_failed_ops_are_an_error(place: Place, tmp_path: Path) -> None:
    reply = asked(place, tmp_path, SAY.format('{"text": "done", "ops": [{"op": "write_file", "path": "../x"}]}'))
    assert reply.status == "error"
    assert "its ops" in reply.reason


def test_ops_are_not_executed_for_a_read_only_role(place: Place, tmp_path: Path) -> None:
    reply = asked(place, tmp_path, SAY.format(WRITES), Role.PLANNER)
    assert reply.status == "denied"
    assert reply.denials
    assert not (place.repo / "new.txt").exists()


def test_the_program_of_a_read_only_role_cannot_write(place: Place, tmp_path: Path) -> None:
    code = """
import json
try:
    open("evil.txt", "w")
except OSError as fault:
    print(json.dumps({"text": fault.strerror}))
"""
    assert asked(place, tmp_path, code, Role.REVIEWER).text == "Read-only file system"
    assert not (place.repo / "evil.txt").exists()


def test_the_program_is_called_again_with_the_response_to_its_ops(place: Place, tmp_path: Path) -> None:
    code = """
import json, sys
request = json.load(sys.stdin)
usage = {"input_tokens": 10}
if request["response"] is None:
    print(json.dumps({"ops": [{"op": "read_file", "path": "README.md"}], "more": True, "usage": usage, "cost_usd": 1}))
else:
    print(json.dumps({"text": json.dumps(request["response"]), "usage": usage, "cost_usd": 2}))
"""
    reply = asked(place, tmp_path, code)
    assert reply.ok, reply
    assert "# sample" in reply.text
    assert (reply.usage.turns, reply.usage.input_tokens, reply.cost_usd) == (2, 20, 3)


def test_a_program_that_always_asks_for_more_turns_is_stopped(place: Place, tmp_path: Path) -> None:
    ops = '{"ops": [{"op": "read_file", "path": "README.md"}], "more": True}'
    reply = asked(place, tmp_path, SAY.format(ops), bounds=AgentLimits(3, 60.0))
    assert (reply.status, reply.usage.turns, reply.cost_usd) == ("error", 3, None)
    assert "more than 3 turns" in reply.reason


def test_it_sees_only_the_variables_it_may_see(place: Place, tmp_path: Path) -> None:
    caller = {"PATH": "/usr/bin:/bin", "MINE": "yes", "OTHER": "no", "MY_KEY": "k" * 20}
    code = "import json, os; print(json.dumps({'data': dict(os.environ)}))"
    reply = asked(place, tmp_path, code, env=("MINE",), key_env="MY_KEY", caller=caller)
    assert reply.data
    assert reply.data["MINE"] == "yes"
    assert "MY_KEY" in reply.data
    assert "OTHER" not in reply.data


@pytest.mark.parametrize("network", list(Network))
def test_the_network_of_the_program_is_set(place: Place, tmp_path: Path, network: Network) -> None:
    with Model([say("hello")]) as model:
        code = f"""
import json, urllib.request
try:
    said = urllib.request.urlopen("{model.url}/v1/models").status
except OSError as fault:
    said = "nothing"
print(json.dumps({{"text": str(said)}}))
"""
        assert asked(place, tmp_path, code, network=network).text == ("200" if network is Network.HOST else "nothing")


def test_a_secret_in_the_output_stops_everything(place: Place, tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with pytest.raises(SecretLeak):
        asked(place, tmp_path, f"""print('{{"text": "the key is {token}"}}')""")
    (log,) = (tmp_path / "agent-logs").iterdir()
    assert token not in log.read_text()


def test_a_possible_secret_is_redacted_in_the_reply(place: Place, tmp_path: Path) -> None:
    said = f'{{"text": "the key is {TOKEN}", "data": {{"found": ["the key is {TOKEN}"]}}, "denials": ["the key is {TOKEN}"]}}'
    reply = asked(place, tmp_path, f"print('{said}')")
    assert reply.ok
    assert "REDACTED" in reply.text
    assert TOKEN not in repr(reply)


@pytest.mark.parametrize(("run", "named"), [((), "has no program"), (("no-such-program",), "no-such-program")])
def test_a_missing_program_is_reported(run: tuple[str, ...], named: str) -> None:
    agent = bind("mine", Config(agents={"mine": AgentConfig(kind="command", run=run)}), {"PATH": "/usr/bin:/bin"})
    problem = agent.probe().problem
    assert problem
    assert named in problem
    with pytest.raises(AgentUnavailable, match=named) as raised:
        agent.run(None)  # type: ignore[arg-type]
    assert "[agents.mine] run" in raised.value.next_step


def test_the_examples_in_the_reference_fit_the_schemas() -> None:
    text = (Path(__file__).parent.parent / "docs" / "agents.md").read_text()
    request, result = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL))
    jsonschema.validate(request, published_schema("agent-request"))
    jsonschema.validate(result, published_schema("agent-result"))
