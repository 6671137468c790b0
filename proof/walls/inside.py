"""Attempts made by a command in the box, carried in by each door that a repository has."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from proof.walls.outside import Outside
from proof.walls.person import CANARY, SYSTEM_PYTHON, Grounds, Person
from proof.walls.rows import Row, row

_FOLDER = Path(__file__).parent
_RUNNER = (_FOLDER / "runner.py").read_text()
_NETWORK = "has the host's network, as documented"
_COMMAND = f"{SYSTEM_PYTHON} runner.py"


class Seen(NamedTuple):
    """What an attempt said inside, and how it got out, if it did."""

    said: str
    out: str


def attempts() -> list[dict[str, Any]]:
    """Read every attempt of the tables beside this file."""
    tables = [tomllib.loads(path.read_text()) for path in sorted(_FOLDER.glob("inside_*.toml"))]
    return [attempt for table in tables for attempt in table["attempt"]]


def _project(person: Person, outside: Outside) -> Path:
    agent = (
        f"import json, subprocess, sys\njson.load(sys.stdin)\nout = subprocess.run([{SYSTEM_PYTHON!r}, 'runner.py'], "
    )
    agent += "stdout=subprocess.PIPE, text=True).stdout\nopen('found.txt', 'w').write(out)\n"
    agent += "print(json.dumps({'text': 'done', 'data': {'control': 'step_done'}}))\n"
    files: dict[str, str | bytes] = {
        "runner.py": _RUNNER,
        "agent.py": agent,
        ".gitignore": ".env.local\n.venv\nkept/\n",
    }
    files["reflectloop.toml"] = "" if person.wall == "full" else '[box]\nstrongest = "fs"\n'
    project = person.project(files)
    person.put(project / ".env.local", CANARY)
    person.put(project / ".venv/bin/tool", "#!/bin/sh\n", mode=0o755)
    person.put(person.sibling / "x", "x")
    person.sh("git init -q . && git add secret.txt && git commit -qm s", person.sibling)
    person.sh(f"git config remote.origin.url https://x:{CANARY}@localhost/r.git", project)
    person.put(project / "attempts.json", json.dumps({"place": outside.place(project), "attempts": outside.attempts}))
    person.sh("git add -A && git commit -qm attempts", project)
    if person.wall == "control":
        person.run(project, "true")
    return project


def _by_step(person: Person, project: Path) -> str:
    person.run(project, {"commands": [_COMMAND], "timeout_s": 600}, timeout_s=700)
    return person.log(project)


def _by_step_with_network(person: Person, project: Path) -> str:
    person.run(project, {"commands": [_COMMAND], "timeout_s": 600, "network": "host"}, timeout_s=700)
    return person.log(project)


def _settings(person: Person, project: Path, text: str) -> None:
    """Bind an agent, a set-up or a check as the user would: in a file that is trusted."""
    person.put(project / "reflectloop.toml", (project / "reflectloop.toml").read_text() + text)
    person.sh("git commit -qam settings", project)
    person.trust(project)


def _by_check(person: Person, project: Path) -> str:
    _settings(
        person,
        project,
        f'[verify]\nchecks = [{{name = "t", run = ["{SYSTEM_PYTHON}", "runner.py"], kind = "custom"}}]\n',
    )
    person.put(project / "README.md", "changed\n")
    person.loop(project, "verify", "--json", timeout_s=700)
    return person.kept(project)


def _by_setup(person: Person, project: Path) -> str:
    line = f"{SYSTEM_PYTHON} runner.py > kept/found.txt"
    checks = 'checks = [{name = "t", run = ["cat", "kept/found.txt"], kind = "custom"}]'
    _settings(person, project, f'[verify]\nsetup = [["sh", "-c", "mkdir -p kept; {line}"]]\n{checks}\n')
    person.put(project / "README.md", "changed\n")
    person.loop(project, "verify", "--json", timeout_s=700)
    return person.kept(project)


def _by_agent(person: Person, project: Path) -> str:
    agent = f'[roles]\nexecutor = "m"\n[agents.m]\nkind = "command"\nrun = ["{SYSTEM_PYTHON}", "agent.py"]\n'
    _settings(person, project, agent)
    person.run(project, {"agent": {"prompt": "x"}, "verify": [{"run": ["true"]}]}, timeout_s=700)
    return "\n".join(line.lstrip("+ ") for line in person.loop(project, "diff").out.splitlines())


def _by_call(person: Person, project: Path) -> str:
    return person.loop(project, "call", "--", SYSTEM_PYTHON, "runner.py", timeout_s=700).out


def _by_fileops(person: Person, project: Path) -> str:
    request: dict[str, Any] = {"proto": "triflow.fileops.v1", "id": "W1", "purpose": "execute_step", "ops": []}
    request["ops"] = [{"op": "run", "cmd": f"{_COMMAND} > found.txt; true", "timeoutMs": 600_000}]
    person.loop(project, "fileops", given=json.dumps(request).encode(), timeout_s=700)
    request |= {"id": "W2", "ops": [{"op": "read_file", "path": "found.txt"}]}
    answer = person.loop(project, "fileops", given=json.dumps(request).encode()).out
    return answer.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\") + _text(project / "found.txt")


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


class Door(NamedTuple):
    name: str
    carry: Callable[[Person, Path], str]
    network: bool = False  # it has the host's network by what is documented
    model_only: bool = False  # it reaches its model at every level, and nothing else


DOORS = (
    Door("step", _by_step),
    Door("step with network", _by_step_with_network, network=True),
    Door("check", _by_check),
    Door("set-up", _by_setup, network=True),
    Door("agent", _by_agent, model_only=True),
    Door("call", _by_call),
)


def _control(person: Person, project: Path) -> str:
    descriptor = os.open(person.sibling, os.O_PATH)
    try:
        process = person.popen([SYSTEM_PYTHON, "runner.py"], project, stdout=-1, stderr=-2, pass_fds=(descriptor,))
        out, _ = process.communicate(timeout=600)
    finally:
        os.close(descriptor)
    return out.decode("utf-8", "replace")


def _said(text: str) -> dict[str, str]:
    """Read the runner's lines, whatever stands around them."""
    found = {}
    for line in text.splitlines():
        if "@@{" in line:
            try:
                answer, _ = json.JSONDecoder().raw_decode(line[line.index("@@{") + 2 :])
            except ValueError:
                continue
            found[answer["id"]] = answer["said"]
    return found


def seen(person: Person, carry: Callable[[Person, Path], str]) -> dict[str, Seen]:
    """Make all attempts through one door; return what came of each."""
    with Outside(person, attempts()) as outside:
        project = _project(person, outside)
        for attempt in outside.attempts:
            outside.note(attempt)
        said = _said(carry(person, project))
        return {
            attempt["id"]: Seen(said.get(attempt["id"], ""), outside.got_out(attempt, said.get(attempt["id"], "")))
            for attempt in outside.attempts
        } | {"end": Seen(said.get("end", ""), "")}


def _why_not(attempt: dict[str, Any], door: Door, wall: str) -> str:
    networked = door.network or (wall != "full" and not door.model_only)
    if "network" in attempt["judge"] and networked:
        return _NETWORK
    if "says network" in attempt["judge"] and wall != "full":
        return "what is listed is the host's where there is no network namespace"
    return str(attempt.get("open", {}).get(wall, ""))


def rows(grounds: Grounds, doors: tuple[Door, ...] = DOORS) -> Iterator[Row]:
    """Play the control and each door behind each wall, as each user."""
    table = {attempt["id"]: attempt for attempt in attempts()}
    for uid in grounds.users:
        control = seen(grounds.person(uid, "control"), _control)
        for door in doors:
            for wall in grounds.walls:
                person = grounds.person(uid, wall)
                found = seen(person, door.carry)
                if not found["end"].said:
                    yield Row(
                        "inside", f"by {door.name}: the attempts end", "new", str(person), "got out", "no end seen"
                    )
                for name, attempt in table.items():
                    why_not = _why_not(attempt, door, wall)
                    if (
                        not found[name].said
                        and not found[name].out
                        and not attempt["judge"].startswith(("file", "keep"))
                    ):
                        why_not = why_not or "it said nothing"
                    yield row(
                        "inside",
                        f"{name} (by {door.name})",
                        attempt["of"],
                        str(person),
                        out=found[name].out,
                        control=control[name].out,
                        why_not=why_not,
                    )
