"""The files of one plugin folder that Claude Code, Codex and Antigravity install by their own commands.

Codex loads no hooks from a folder that has Agent Plugins' `plugin.json` at its top (seen with 0.163), so the package in
that form, which Antigravity and others take, lies in a folder of its own.
"""

from __future__ import annotations

import importlib.util
import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import reflectloop
from reflectloop.hooks.fragments import SETTINGS, Fragment, command_of
from reflectloop.skills import bundle
from reflectloop.skills.bundle import Subagent

_NAME = "reflectloop"
_DESCRIPTION = "Lets an agent's work through only if it is proven: hooks that verify, skills that plan and carry out."
_AUTHOR = {"name": "The reflectloop maintainers"}
_KEYWORDS = ["verification", "planning", "review", "hooks"]
_PORTABLE = "portable"
_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
# How a client installs the folder by its own program.
_BY_CLIENT = {
    "claude": "claude plugin marketplace add {folder} && claude plugin install reflectloop@reflectloop",
    "codex": "codex plugin marketplace add {folder} && codex plugin add reflectloop@reflectloop",
    "antigravity": "agy plugin install {folder}/portable",
}
_MCP_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"
_STOP_LIMIT_S = 600
_TOOL_LIMIT_S = 60


def files(program: str) -> dict[str, bytes]:
    """Return every file of the plugin folder by its path in it."""
    manifest = {"name": _NAME, "version": reflectloop.__version__, "description": _DESCRIPTION, "author": _AUTHOR}
    more = {"license": "Apache-2.0", "keywords": _KEYWORDS}
    codex = {"skills": "./skills/", "hooks": "./hooks/codex.json"}
    portable = {"plugin.json": _json({"$schema": _SCHEMA, **manifest, **more}), **_package(program)}
    servers: dict[str, bytes] = {}
    if serves(program):
        server = {"command": program, "args": ["mcp"]}
        servers = {".mcp.json": _json({"mcpServers": {_NAME: server}})}
        codex["mcpServers"] = "./.mcp.json"
        stdio = {_NAME: {"type": "stdio", **server}}
        portable["mcp.json"] = _json({"$schema": _MCP_SCHEMA, "mcpServers": stdio})
    return {
        ".claude-plugin/plugin.json": _json({**manifest, **more}),
        ".claude-plugin/marketplace.json": _json(_marketplace()),
        ".codex-plugin/plugin.json": _json({**manifest, **more, **codex}),
        "hooks/hooks.json": _hooks("claude", program),
        "hooks/codex.json": _hooks("codex", program),
        **servers,
        **_content(),
        **{f"{_PORTABLE}/{name}": data for name, data in portable.items()},
    }


def serves(program: str) -> bool:
    """Return True if the MCP server can be started by a plain word, as Agent Plugins asks, and its extra is there."""
    return program == _NAME and importlib.util.find_spec("mcp") is not None


def _package(program: str) -> dict[str, bytes]:
    return {"hooks.json": _antigravity_hooks(program), **_content()}


def command_of_client(client: str, folder: Path) -> str:
    """Return the command by which a client installs the folder; Claude Code's for one that has none."""
    return _BY_CLIENT.get(client, _BY_CLIENT["claude"]).format(folder=shlex.quote(str(folder)))


def antigravity(program: str) -> dict[str, bytes]:
    """Return the files of the plugin as Antigravity reads it in place."""
    manifest = {"name": _NAME, "version": reflectloop.__version__, "description": _DESCRIPTION}
    return {"plugin.json": _json(manifest), **_package(program)}


def agent_page(agent: Subagent) -> str:
    """Return the definition of a subagent with all its fields."""
    description = json.dumps(agent.description, ensure_ascii=False)
    return f"---\nname: {agent.name}\ndescription: {description}\ntools: {agent.tools}\n---\n\n{agent.text}"


def _content() -> dict[str, bytes]:
    skills = {f"skills/{name}": data for name, data in bundle.skill_files().items()}
    agents = {f"agents/{agent.name}.md": agent_page(agent).encode() for agent in bundle.subagents()}
    return {"README.md": _readme().encode(), "LICENSE": bundle.page("license.txt").encode(), **skills, **agents}


def _marketplace() -> dict[str, Any]:
    entry = {"name": _NAME, "source": "./", "description": _DESCRIPTION}
    return {"name": _NAME, "owner": _AUTHOR, "description": _DESCRIPTION, "plugins": [entry]}


def _readme() -> str:
    agents = ", ".join(f"`{agent.name}`" for agent in bundle.subagents())
    return bundle.page("plugin.md").format(skills=", ".join(f"`{name}`" for name in bundle.skills()), agents=agents)


def _hooks(client: str, program: str) -> bytes:
    return _json({"hooks": _listed(item for item in SETTINGS[client].fragments(program) if item.keys[0] == "hooks")})


def _listed(fragments: Iterable[Fragment]) -> dict[str, list[object]]:
    return {item.keys[1]: [item.value] for item in fragments}


def _antigravity_hooks(program: str) -> bytes:
    """Return named hooks: tools have groups with a matcher, the other events handlers alone."""

    def handler(event: str, limit_s: int) -> dict[str, Any]:
        return {"type": "command", "command": command_of(program, "antigravity", event), "timeout": limit_s}

    tools = {
        event: [{"matcher": "*", "hooks": [handler(event, _TOOL_LIMIT_S)]}] for event in ("PreToolUse", "PostToolUse")
    }
    others = {"SessionStart": _TOOL_LIMIT_S, "Stop": _STOP_LIMIT_S}
    return _json({_NAME: {**tools, **{event: [handler(event, limit)] for event, limit in others.items()}}})


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
