"""The entries that each client needs in its settings, so that it calls our hooks."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

Scope = Literal["project", "user", "plugin"]

_STOP_LIMIT_S = 600
_TOOL_LIMIT_S = 60
_CAP = "20"  # refused stops after which Claude Code gives up; our own limits are lower
# Keeps the input, so that a second stop is let through if the hook cannot answer at all. Claude Code ignores a hook
# whose errors say that a file is missing, so they are left out.
_GUARDED = (
    "i=$(cat); o=$(printf '%s' \"$i\" | timeout -k 5 {limit} {command} 2>/dev/null) && printf '%s' \"$o\" || "
    'case "$i" in '
    "*'\"stop_hook_active\":true'*|*'\"stop_hook_active\": true'*) exit 0;; "
    "*) {refuse};; esac"
)
_REFUSE = 'echo "reflectloop could not answer; run: reflectloop doctor" >&2; exit 2'
_REFUSE_BY_JSON = 'echo \'{"decision": "block", "reason": "reflectloop could not answer; run: reflectloop doctor"}\''
_REFUSING = "timeout -k 5 {limit} {command} 2>/dev/null || {{ {refuse}; }}"


class Fragment(NamedTuple):
    """One value at one place of a settings file. In a list it is an entry of its own."""

    keys: tuple[str, ...]
    value: object


class ClientSettings(NamedTuple):
    """The place of a client's hooks, and the function that writes them."""

    files: Mapping[Scope, str]  # relative to the project, or to the user's home folder
    fragments: Callable[[str], list[Fragment]]  # from the command of the program
    advice: str = ""


def command_of(program: str, client: str, event: str) -> str:
    return f"{shlex.quote(program)} hook {event} --client {client}"


def _grouped(program: str, client: str, events: Mapping[str, str]) -> list[Fragment]:
    """Return entries in the form of Claude Code and Codex: groups with a matcher, each with handlers."""
    out = []
    for event, kind in events.items():
        command = command_of(program, client, event)
        limit = _STOP_LIMIT_S if kind == "stop" else _TOOL_LIMIT_S
        guard = {"stop": _GUARDED, "before": _REFUSING}.get(kind, "{command}")
        handler: dict[str, Any] = {
            "type": "command",
            "command": guard.format(limit=limit - 5, command=command, refuse=_REFUSE),
            "timeout": limit,
        }
        if kind == "before" and client == "claude":
            handler["onFailure"] = "block"
        group: dict[str, Any] = {"matcher": "*"} if kind in ("before", "after") else {}
        out.append(Fragment(("hooks", event), {**group, "hooks": [handler]}))
    return out


_CLAUDE_EVENTS = {
    "SessionStart": "plain",
    "PreToolUse": "before",
    "PostToolUse": "after",
    "PostToolUseFailure": "after",
    "PreCompact": "plain",
    "Stop": "stop",
    "SubagentStop": "stop",
}
_CODEX_EVENTS = {
    "SessionStart": "plain",
    "PreToolUse": "before",
    "PostToolUse": "after",
    "PreCompact": "plain",
    "Stop": "stop",
}


def _claude(program: str) -> list[Fragment]:
    cap = Fragment(("env", "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"), _CAP)
    return [*_grouped(program, "claude", _CLAUDE_EVENTS), cap]


def _codex(program: str) -> list[Fragment]:
    return _grouped(program, "codex", _CODEX_EVENTS)


def _cursor(program: str) -> list[Fragment]:
    out = [Fragment(("version",), 1)]
    for event in ("sessionStart", "preToolUse", "afterFileEdit", "afterShellExecution", "stop"):
        entry: dict[str, Any] = {"command": command_of(program, "cursor", event)}
        if event == "preToolUse":
            entry["failClosed"] = True
        if event == "stop":
            entry |= {"timeout": _STOP_LIMIT_S, "loop_limit": 10}
        out.append(Fragment(("hooks", event), entry))
    return out


def _copilot(program: str) -> list[Fragment]:
    out = [Fragment(("version",), 1)]
    for event in ("sessionStart", "preToolUse", "postToolUse", "agentStop"):
        limit = _STOP_LIMIT_S if event == "agentStop" else 30
        command = command_of(program, "copilot", event)
        if event == "agentStop":  # before a tool, Copilot refuses by itself if the hook fails
            command = _GUARDED.format(
                limit=limit - 5, command=f"{command} --limit {limit - 15}", refuse=_REFUSE_BY_JSON
            )
        out.append(Fragment(("hooks", event), {"type": "command", "bash": command, "timeoutSec": limit}))
    return out


SETTINGS: Mapping[str, ClientSettings] = {
    "claude": ClientSettings(
        {"project": ".claude/settings.json", "user": ".claude/settings.json"},
        _claude,
        "Claude Code asks once whether it may trust this folder; until then it runs no hook in its terminal.",
    ),
    "codex": ClientSettings(
        {"project": ".codex/hooks.json", "user": ".codex/hooks.json"},
        _codex,
        "Codex runs a hook only after you trusted it: start codex, type /hooks, and trust each of them.",
    ),
    "cursor": ClientSettings({"project": ".cursor/hooks.json", "user": ".cursor/hooks.json"}, _cursor),
    "copilot": ClientSettings(
        {"project": ".github/hooks/reflectloop.json", "user": ".copilot/hooks/reflectloop.json"},
        _copilot,
        "Copilot runs a project's hooks only in a folder that you trusted; with -p, add --trust-folder.",
    ),
}
