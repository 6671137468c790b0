"""The files that each client gets besides its hooks: skills, subagents, a block in AGENTS.md, the hook of git."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import InvalidInput
from reflectloop.hooks import plugin
from reflectloop.hooks.fragments import SETTINGS, Scope
from reflectloop.hooks.pieces import Piece
from reflectloop.skills import bundle
from reflectloop.skills.bundle import Subagent
from reflectloop.system import process

CLIENTS = ("claude", "codex", "agents", "cursor", "copilot", "antigravity", "git", "autoloop")
_SHARED = ".agents/skills"  # Codex, Cursor, Copilot and others read it, in a project and in the home folder


def _without_tools(agent: Subagent) -> str:
    head = f"---\nname: {agent.name}\ndescription: {json.dumps(agent.description, ensure_ascii=False)}\n---\n\n"
    return head + agent.text


def toml(agent: Subagent) -> str:
    """Return a definition as Codex reads it. A JSON string is a TOML string."""
    name, description = (json.dumps(text, ensure_ascii=False) for text in (agent.name, agent.description))
    return f"name = {name}\ndescription = {description}\ndeveloper_instructions = '''\n{agent.text}'''\n"


class ClientFolders(NamedTuple):
    """The folders in which a client looks for skills and subagents, and the form of a subagent's definition."""

    skills: str
    agents: Mapping[Scope, str] = {}
    ending: str = ".md"
    form: Callable[[Subagent], str] = _without_tools


def _both(folder: str) -> dict[Scope, str]:
    return {"project": folder, "user": folder}


FOLDERS: Mapping[str, ClientFolders] = {
    "claude": ClientFolders(".claude/skills", _both(".claude/agents"), form=plugin.agent_page),
    "codex": ClientFolders(_SHARED, _both(".codex/agents"), ".toml", toml),
    "cursor": ClientFolders(_SHARED, _both(".cursor/agents")),
    "copilot": ClientFolders(_SHARED, {"project": ".github/agents", "user": ".copilot/agents"}, ".agent.md"),
    "agents": ClientFolders(_SHARED),
}
_ANTIGRAVITY: Mapping[Scope, str] = {
    "project": ".agents/plugins/reflectloop",
    "user": ".gemini/config/plugins/reflectloop",
}


def pieces(client: str, scope: Scope, root: Path, program: str) -> list[Piece]:
    """Return everything that an installation enters, the hooks first."""
    return [item._replace(path=_real(item)) for item in _pieces(client, scope, root, program)]


def _real(item: Piece) -> Path:
    """Return where a piece goes: settings may be a link, a file of ours is never written through one."""
    if item.content is None:
        return Path(os.path.realpath(item.path))
    return Path(os.path.realpath(item.path.parent)) / item.path.name


def _pieces(client: str, scope: Scope, root: Path, program: str) -> Iterator[Piece]:
    if scope == "plugin":
        yield from _files(root, plugin.files(program))
        return
    if client == "git":
        yield _push_hook(scope, root, program)
        return
    if client == "autoloop":
        yield from _automation(scope, root, program)
        return
    if client == "antigravity":
        yield from _files(root / _ANTIGRAVITY[scope], plugin.antigravity(program))
        return
    if client in SETTINGS:
        settings = SETTINGS[client]
        yield Piece(root / settings.files[scope], tuple(settings.fragments(program)))
    if client == "agents" and scope == "project":
        yield Piece(root / "AGENTS.md", block="\n" + bundle.page("agents.md"))
    folders = FOLDERS[client]
    for name, data in bundle.skill_files().items():
        yield Piece(root / folders.skills / name, content=data, unit=f"{folders.skills}/{name.partition('/')[0]}")
    for agent in bundle.subagents() if folders.agents else ():
        path = f"{folders.agents[scope]}/{agent.name}{folders.ending}"
        yield Piece(root / path, content=folders.form(agent).encode(), unit=path)


def _files(folder: Path, contents: Mapping[str, bytes]) -> Iterator[Piece]:
    for name, data in contents.items():
        yield Piece(folder / name, content=data, unit=str(folder))


def _automation(scope: Scope, root: Path, program: str) -> Iterator[Piece]:
    """Yield the files that start autoloop: in a project, or as a unit of the user's systemd."""
    if scope == "user":
        path = root / AUTOLOOP_UNIT
        yield Piece(path, content=autoloop_unit(_whole_path(program)), unit=str(path))
        return
    for name, data in autoloop_files(program).items():
        folder = root / AUTOLOOP_FOLDER
        yield Piece(folder / name, content=data, mode=0o777, unit=str(folder))


def _whole_path(program: str) -> str:
    """Return the path of a program: systemd takes none from PATH."""
    return shutil.which(program) or program


def _push_hook(scope: Scope, root: Path, program: str) -> Piece:
    """Return the hook that git runs before a push, in the folder that git takes hooks from."""
    if scope != "project":
        raise InvalidInput("the hook before a push is installed in a project", next_step="reflectloop install git")
    done = process.capture(["git", "rev-parse", "--git-path", "hooks"], cwd=root)
    if done.code != 0:
        raise InvalidInput(f"{root} is no git repository", next_step="git init")
    folder = root / done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")
    text = f"#!/bin/sh\nexec {shlex.quote(program)} hook pre-push --client git\n"
    return Piece(folder / "pre-push", content=text.encode(), mode=0o777, unit=str(folder / "pre-push"))


# The files that start autoloop --------------------------------------------------------------------------------------


AUTOLOOP_FOLDER = "automation"
AUTOLOOP_UNIT = ".config/systemd/user/reflectloop-autoloop@.service"
_PYTHON = '''#!/usr/bin/env python3
"""Look once (--once, the default), or start, stop, status, logs: `reflectloop autoloop` for this project."""

import os
import shutil
import subprocess
import sys

PROGRAM = {program}


def main(words):
    words = ["once"] if words in ([], ["--once"]) else words
    program = shutil.which(PROGRAM)
    if program is None:  # inside of a sandbox, or not installed
        print("reflectloop is not here; autoloop did nothing")
        return 0
    project = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    code = subprocess.call([program, "autoloop", *words, "--project", project])
    return 0 if words[0] == "once" else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
'''
_SHELL = """#!/bin/sh
# start, stop, status, once or logs: `reflectloop autoloop` for this project
exec python3 "$(dirname "$0")/autoloop.py" "$@"
"""
_SERVICE = """[Unit]
Description=reflectloop autoloop in %f

[Service]
ExecStart={program} autoloop start --foreground --project %f
EnvironmentFile=-%h/.config/reflectloop/environment
Restart=on-failure
RestartSec=30
RestartPreventExitStatus=12 16 50
KillMode=mixed
TimeoutStopSec=150

[Install]
WantedBy=default.target
"""


def autoloop_files(program: str) -> dict[str, bytes]:
    """Return the files of a project, by name."""
    return {
        "autoloop.py": _PYTHON.format(program=json.dumps(program)).encode(),
        "autoloop.sh": _SHELL.encode(),
    }


def autoloop_unit(program: str) -> bytes:
    """Return the unit: `systemctl --user start "reflectloop-autoloop@$(systemd-escape -p DIR)"`.

    A service has neither the PATH of a shell, in which agents are found, nor the variables with their keys: a file of
    the user's may set them.
    """
    return _SERVICE.format(program=shlex.quote(program).replace("%", "%%")).encode()
