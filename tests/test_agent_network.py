"""What an agent's program can reach: the address of its model, and nothing else unless its user says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_call import asking, python
from fileops_workspace import Place
from model import Model, say
from reflectloop.agents import Reply, bind
from reflectloop.agents import network as networks
from reflectloop.config import AgentConfig, Config
from reflectloop.errors import AgentUnavailable
from reflectloop.terms import Network, Role

ASK = """
import json, urllib.request
def tried(action):
    try:
        return str(action())
    except OSError:
        return "no"
"""


def asked(place: Place, tmp_path: Path, code: str, **settings: Any) -> Reply:
    agent = AgentConfig(kind="command", run=python(place, "agent.py", ASK + code), **settings)
    backend = bind("mine", Config(agents={"mine": agent}), {"PATH": "/usr/bin:/bin"})
    return backend.run(asking(place, tmp_path, Role.EXECUTOR))


def test_an_agent_reaches_only_its_base_url_unless_the_user_allows_more(place: Place, tmp_path: Path) -> None:
    with Model([say("hello")]) as model:
        code = f'print(json.dumps({{"text": tried(lambda: urllib.request.urlopen("{model.url}/v1/models").status)}}))'
        assert asked(place, tmp_path, code, base_url=f"{model.url}/v1").text == "200"
        assert asked(place, tmp_path, code, reach=(model.url.removeprefix("http://"),)).text == "200"
        assert asked(place, tmp_path, code, network="host").text == "200"
        assert asked(place, tmp_path, code).text == "no"
        assert asked(place, tmp_path, code, base_url=model.url, network="none").text == "no"
    assert "no network unless [agents.mine] names" in asked(place, tmp_path, "raise SystemExit(3)").reason


def test_a_refused_host_is_reported_with_the_reply(place: Place, tmp_path: Path) -> None:
    code = """
tried(lambda: urllib.request.urlopen("https://evil.example/key"))
print(json.dumps({"text": "done", "denials": ["mine"]}))
"""
    reply = asked(place, tmp_path, code, base_url="https://models.example")
    assert reply.denials == ("mine", "connect to evil.example:443: not its model's address")
    reply = asked(place, tmp_path, f"{code}\nraise SystemExit(1)", base_url="https://models.example")
    assert "refused connections to evil.example:443" in reply.reason


def test_the_settings_decide_the_network_of_each_kind() -> None:
    def reached(maker: tuple[str, ...] = (), **settings: Any) -> list[str] | None:
        found = networks.forward_for("mine", AgentConfig(**settings), maker)
        return None if found is None else [str(place) for place in found.places]

    maker = ("api.maker.example",)
    assert reached(maker) == ["api.maker.example:443"]
    assert reached(maker, base_url="http://127.0.0.1:4000/v1") == ["127.0.0.1:4000"]
    assert reached(maker, base_url="http://models.example/v1", reach=("b.example:8443",)) == [
        "models.example:80",
        "b.example:8443",
    ]
    assert reached(base_url="https://[::1]:8443") == ["[::1]:8443"]
    assert reached() == []
    assert reached(network="none", base_url="https://models.example") == []
    assert reached(maker, network="host") is None
    for url in (None, "https://", "https://a@b.example"):
        with pytest.raises(AgentUnavailable):
            reached(network="model", base_url=url)
    with pytest.raises(ValueError, match="reach"):
        reached(reach=("http://a.example",))


def test_only_an_agent_with_the_host_network_lowers_the_level() -> None:
    def network_of(**settings: Any) -> Network | None:
        words = {"roles": {"planner": "mine"}, "agents": {"mine": {"kind": "claude", **settings}}}
        return Config.model_validate(words).network_of(Role.PLANNER)

    assert network_of() is None
    assert network_of(network="host") is Network.HOST
    assert network_of(network="none") is Network.NONE
