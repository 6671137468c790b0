"""Measures what a turn of the built-in loop costs beside its HTTP exchange, and how trimming grows with a history."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from bench import race
from bench.ground import Ground
from bench.race import Contestant
from bench.table import Measure, Row, Section
from reflectloop.agents.backend import Act, AgentLimits, AgentRequest
from reflectloop.agents.http import Http
from reflectloop.agents.loop.context_window import trim_history
from reflectloop.agents.messages import Message, ToolCall, ToolResult
from reflectloop.config import AgentConfig
from reflectloop.fileops.response import Response
from reflectloop.terms import Role

_BAR_S = 0.020
_GROWTH_BAR = 1.3
_TURNS = 20
_ROOM = 5_000


def measure(ground: Ground) -> Section:
    rounds = 3 if ground.quick else 9
    notes = [
        (
            f"A turn: {_TURNS} in a row, each a call of a tool, by the whole backend, against a model on loopback that "
            "answers at once; beside it the same requests and answers by httpx alone, in turn. CPU of the whole "
            "process, the model's thread included; what is shown is the difference. The floor of a bar is the bar "
            "itself."
        ),
        "Loop: the tool answers at once. FileOps: each call is validated, carried out in a small repository, scanned.",
    ]
    return Section("agents: a turn, and a long history", notes, [*_turns(ground, rounds), *_trimming(rounds)])


# A turn --------------------------------------------------------------------------------------------------------------


def _turns(ground: Ground, rounds: int) -> list[Row]:
    sys.path.append(str(Path(__file__).parent.parent / "tests"))
    from fileops_workspace import place_in
    from model import call
    from support import Repo

    repo = Repo(ground.disk / "agents")
    repo.path.mkdir()
    repo.git("init", "-q", "-b", "main")
    repo.write("README.md", "# sample\n" * 50)
    repo.commit("first")
    reads = [call("read_file", path="README.md", endLine=number + 1) for number in range(_TURNS)]
    writes = [call("write_file", path="a.txt", content=f"{number}\n") for number in range(_TURNS)]
    tempfile.tempdir = str(ground.disk)
    with contextlib.ExitStack() as stack:
        stack.callback(setattr, tempfile, "tempdir", None)
        place = stack.enter_context(place_in(repo, ground.disk / "agents-logs"))

        def act(ops: Sequence[Mapping[str, Any]]) -> Response:
            answered: Response = place.ask(*(dict(one) for one in ops))
            return answered

        def asked(role: Role, hands: Act) -> AgentRequest:
            return AgentRequest(
                role, "Do it.", place.hands.box, ground.disk / "raw", AgentLimits(_TURNS + 1, 600.0), act=hands
            )

        return [
            _row("loop", lambda: asked(Role.RESEARCHER, _at_once), reads, rounds, _BAR_S),
            _row("FileOps, read_file", lambda: asked(Role.RESEARCHER, act), reads, rounds, _BAR_S),
            _row("FileOps, write_file", lambda: asked(Role.EXECUTOR, act), writes, rounds, None),
        ]


def _at_once(ops: Sequence[Mapping[str, Any]]) -> Response:
    return Response(id="R", status="ok", data={"0": {"path": ops[0]["path"]}})


def _row(what: str, asked: Callable[[], AgentRequest], calls: list[Any], rounds: int, bar: float | None) -> Row:
    from model import Model, Turn, call

    ends = call("step_done")._replace(text="done") if bar is None else Turn("done")
    with Model(itertools.cycle([*calls, ends])) as model:
        http = Http("bench", AgentConfig(kind="http", base_url=model.url, model="bench"), {})
        assert http.run(asked()).ok  # noqa: S101
        bodies = [json.dumps(one.body).encode() for one in model.seen]
        taken = race.run(
            [
                Contestant("ours", lambda: http.run(asked())),
                Contestant("http", lambda: _alone(model.url, bodies)),
            ],
            rounds,
        )
    alone, ours = (taken[name].cpu_s / len(bodies) for name in ("http", "ours"))
    floor = Measure("bar", bar) if bar else None
    name = f"one turn beyond its {alone * 1000:.1f} ms of HTTP, {what}: CPU"
    return Row(name, Measure("", ours - alone), None, floor, 1.0 if bar else None)


def _alone(url: str, bodies: Sequence[bytes]) -> None:
    """The same exchanges, with nothing made of them."""
    with httpx.Client(trust_env=False, verify=False, headers={"content-type": "application/json"}) as client:  # noqa: S501
        for body in bodies:
            with client.stream("POST", f"{url}/v1/messages", content=body) as response:
                for _ in response.iter_bytes():
                    pass


# A long history ------------------------------------------------------------------------------------------------------


def _history(count: int) -> list[Message]:
    pairs = (
        (
            Message("assistant", "", (ToolCall(str(number), "run", {"cmd": f"make {number}"}),)),
            Message("user", results=(ToolResult(str(number), f"line {number}\n" * 20),)),
        )
        for number in range(count // 2)
    )
    return [Message("user", "brief"), *(one for pair in pairs for one in pair)]


def _trimming(rounds: int) -> list[Row]:
    histories = {count: _history(count) for count in (5_000, 10_000, 20_000)}
    entrants = [
        Contestant(str(count), lambda made=made: trim_history(made, _ROOM))  # type: ignore[misc]
        for count, made in histories.items()
    ]
    taken = {int(name): spent.cpu_s / int(name) for name, spent in race.run(entrants, rounds).items()}
    few = Measure("ours of 5,000", taken[5_000])
    return [
        Row(f"trimming, a message of {count:,}: CPU", Measure("", taken[count]), few, None, _GROWTH_BAR)
        for count in (10_000, 20_000)
    ]
