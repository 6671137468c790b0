"""The clients: how each writes the input of its hooks, and the shape in which it takes an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reflectloop.errors import InvalidInput
from reflectloop.hooks.model import HookAnswer, HookCall, HookEvent, HookOutput

_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)
_SHELLS = frozenset(("bash", "shell", "run_command", "local_shell", "exec_command", "powershell"))
_WRITERS = frozenset(
    """
    write edit multiedit notebookedit apply_patch create str_replace write_to_file replace_file_content
    multi_replace_file_content edit_file delete_file write_file replace
    """.split()  # noqa: SIM905 - reads better as text
)
_PATH_KEYS = ("file_path", "notebook_path", "path", "filePath", "TargetFile", "AbsolutePath")
_COMMAND_KEYS = ("command", "CommandLine", "cmd")
_OUTPUT_KEYS = ("tool_response", "tool_output", "toolResult", "output", "error")


class HookClient(NamedTuple):
    """One client of hooks."""

    name: str
    events: Mapping[str, HookEvent]  # by the client's own names
    seen: Literal["seen live", "by its documentation"]
    write: Callable[[HookCall, HookAnswer], Mapping[str, Any]]
    asks: bool = True  # False if it cannot ask a person: a question becomes a refusal
    timeout_s: float = 600.0  # after which it goes on without an answer


def read(client: HookClient, event: str, text: str) -> HookCall:
    """Return the call of a hook. Raise InvalidInput for an unknown event and for what is no JSON object."""
    known = {name.lower(): kind for name, kind in client.events.items()}
    kind = known.get(event.lower())
    if kind is None:
        raise InvalidInput(
            f"{client.name} has no hook {event!r} here; known: {', '.join(client.events)}",
            next_step=f"reflectloop install {client.name} --check",
        )
    try:
        document = json.loads(text or "{}")
    except ValueError as fault:
        raise InvalidInput(f"the input of the hook is no JSON: {fault}", next_step="reflectloop hook --help") from fault
    if not isinstance(document, dict):
        raise InvalidInput("the input of the hook is no JSON object", next_step="reflectloop hook --help")
    return _call(client, kind, document)


def _call(client: HookClient, kind: HookEvent, document: Mapping[str, Any]) -> HookCall:
    inner = document.get("toolCall")
    tool_call: Mapping[str, Any] = inner if isinstance(inner, dict) else {}
    tool = _text(document.get("tool_name") or document.get("toolName") or tool_call.get("name"))
    given = document.get("tool_input") or document.get("toolArgs") or tool_call.get("args") or {}
    arguments = _object(given)
    command = _command(tool, arguments) if tool else _command("bash", document)
    roots = document.get("workspace_roots")
    root = roots[0] if isinstance(roots, list) and roots else ""
    return HookCall(
        kind,
        client.name,
        _text(document.get("session_id") or document.get("conversation_id") or document.get("sessionId")) or "unnamed",
        Path(_text(document.get("cwd") or root) or "."),
        tool,
        command,
        _written(tool, arguments, command, document),
        _output(document),
        document.get("permission_mode") == "plan",
        bool(document.get("stop_hook_active") or document.get("loop_count")),
        document,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object(value: object) -> Mapping[str, Any]:
    """Return arguments as an object; some clients write them as JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {"input": value}
    return value if isinstance(value, dict) else {}


def _command(tool: str, arguments: Mapping[str, Any]) -> str | tuple[str, ...] | None:
    if tool.lower() not in _SHELLS:
        return None
    value = next((arguments[key] for key in _COMMAND_KEYS if key in arguments), None)
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return tuple(value)
    return value if isinstance(value, str) else None


def _written(
    tool: str, arguments: Mapping[str, Any], command: str | tuple[str, ...] | None, document: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the paths that a tool writes, also where a patch is given to a shell."""
    texts = [value for value in (*arguments.values(), command) if isinstance(value, str)]
    texts += [word for word in command or () if isinstance(command, tuple)]
    patched = [name for text in texts if "*** Begin Patch" in text for pair in _PATCHED.findall(text) for name in pair]
    if tool and tool.lower() not in _WRITERS:
        return tuple(filter(None, patched))
    source = arguments if tool else document
    named = [source[key] for key in _PATH_KEYS if isinstance(source.get(key), str)]
    return tuple(dict.fromkeys(filter(None, (*named, *patched))))


def _output(document: Mapping[str, Any]) -> str:
    """Return all text that a tool printed."""
    texts: list[str] = []

    def collect(value: object) -> None:
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            for item in value.values():
                collect(item)
        elif isinstance(value, list):
            for item in value:
                collect(item)

    for key in _OUTPUT_KEYS:
        collect(document.get(key))
    return "\n".join(texts)


def output(client: HookClient, call: HookCall, answer: HookAnswer) -> HookOutput:
    """Return the answer in the shape of the client. A client that cannot ask a person refuses instead."""
    if answer.word == "ask" and not client.asks:
        answer = HookAnswer("deny", f"{answer.reason} A person must do or allow this.", answer.context)
    document = client.write(call, answer)
    return HookOutput(json.dumps(document, ensure_ascii=False) + "\n" if document else "")


# Claude Code and Codex ---------------------------------------------------------------------------------------------

_CLAUDE_NAMES = {
    HookEvent.BEFORE_TOOL: "PreToolUse",
    HookEvent.AFTER_TOOL: "PostToolUse",
    HookEvent.TOOL_FAILED: "PostToolUseFailure",
    HookEvent.PROMPT: "UserPromptSubmit",
    HookEvent.STOP: "Stop",
    HookEvent.SUBAGENT_STOP: "SubagentStop",
    HookEvent.SESSION_START: "SessionStart",
    HookEvent.COMPACT: "PreCompact",
    HookEvent.SESSION_END: "SessionEnd",
}
_WITH_CONTEXT = (
    HookEvent.AFTER_TOOL,
    HookEvent.TOOL_FAILED,
    HookEvent.PROMPT,
    HookEvent.SESSION_START,
)


def _write_claude(call: HookCall, answer: HookAnswer) -> dict[str, Any]:
    name = _CLAUDE_NAMES[call.event]
    if answer.word == "end":
        return {"continue": False, "stopReason": answer.reason}
    if call.event is HookEvent.BEFORE_TOOL:
        if answer.word == "allow":
            return {}
        decision = "ask" if answer.word == "ask" else "deny"
        inner = {"permissionDecision": decision, "permissionDecisionReason": answer.reason}
        return {"hookSpecificOutput": {"hookEventName": name, **inner}}
    out: dict[str, Any] = {}
    if answer.word in ("deny", "block", "ask") and call.event not in (
        HookEvent.SESSION_START,
        HookEvent.SESSION_END,
        HookEvent.COMPACT,
    ):
        out = {"decision": "block", "reason": answer.reason}
    if answer.context and call.event in _WITH_CONTEXT:
        out["hookSpecificOutput"] = {"hookEventName": name, "additionalContext": answer.context}
    return out


_CLAUDE = HookClient("claude", {name: kind for kind, name in _CLAUDE_NAMES.items()}, "seen live", _write_claude)
_CODEX_EVENTS = ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStop", "SessionStart", "PreCompact")
_CODEX = HookClient(
    "codex",
    {name: _CLAUDE.events[name] for name in (*_CODEX_EVENTS, "SessionEnd")},
    "seen live",
    _write_claude,
    asks=False,
)


# Cursor, Copilot and Antigravity ------------------------------------------------------------------------------------


def _write_cursor(call: HookCall, answer: HookAnswer) -> dict[str, Any]:
    if call.event in (HookEvent.STOP, HookEvent.SUBAGENT_STOP):
        return {"followup_message": answer.reason} if answer.word == "block" else {}
    if call.event is HookEvent.BEFORE_TOOL:
        if answer.word == "allow":
            return {"permission": "allow"}
        word = "ask" if answer.word == "ask" else "deny"
        return {"permission": word, "user_message": answer.reason, "agent_message": answer.reason}
    if call.event is HookEvent.PROMPT:
        blocked = answer.word in ("deny", "block", "end")
        return {"continue": False, "user_message": answer.reason} if blocked else {"continue": True}
    return {"additional_context": answer.context} if answer.context else {}


_CURSOR = HookClient(
    "cursor",
    {
        "preToolUse": HookEvent.BEFORE_TOOL,
        "beforeShellExecution": HookEvent.BEFORE_TOOL,
        "postToolUse": HookEvent.AFTER_TOOL,
        "afterShellExecution": HookEvent.AFTER_TOOL,
        "afterFileEdit": HookEvent.AFTER_TOOL,
        "postToolUseFailure": HookEvent.TOOL_FAILED,
        "beforeSubmitPrompt": HookEvent.PROMPT,
        "stop": HookEvent.STOP,
        "subagentStop": HookEvent.SUBAGENT_STOP,
        "sessionStart": HookEvent.SESSION_START,
        "preCompact": HookEvent.COMPACT,
        "sessionEnd": HookEvent.SESSION_END,
    },
    "by its documentation",
    _write_cursor,
)


def _write_copilot(call: HookCall, answer: HookAnswer) -> dict[str, Any]:
    if call.event is HookEvent.BEFORE_TOOL:
        if answer.word == "allow":
            return {}
        return {"permissionDecision": "deny", "permissionDecisionReason": answer.reason}
    if call.event in (HookEvent.STOP, HookEvent.SUBAGENT_STOP) and answer.word == "block":
        return {"decision": "block", "reason": answer.reason}
    return {"additionalContext": answer.context} if answer.context else {}


_COPILOT = HookClient(
    "copilot",
    {
        "preToolUse": HookEvent.BEFORE_TOOL,
        "postToolUse": HookEvent.AFTER_TOOL,
        "errorOccurred": HookEvent.TOOL_FAILED,
        "userPromptSubmitted": HookEvent.PROMPT,
        "agentStop": HookEvent.STOP,
        "subagentStop": HookEvent.SUBAGENT_STOP,
        "sessionStart": HookEvent.SESSION_START,
        "sessionEnd": HookEvent.SESSION_END,
    },
    "seen live",
    _write_copilot,
    asks=False,
    timeout_s=30.0,
)


def _write_antigravity(call: HookCall, answer: HookAnswer) -> dict[str, Any]:
    if call.event is HookEvent.BEFORE_TOOL:
        if answer.word == "allow":
            return {"decision": "allow"}
        return {"decision": "ask" if answer.word == "ask" else "deny", "reason": answer.reason}
    if call.event is HookEvent.STOP and answer.word == "block":
        return {"decision": "block", "reason": answer.reason}
    return {}


_ANTIGRAVITY = HookClient(
    "antigravity",
    {
        "PreToolUse": HookEvent.BEFORE_TOOL,
        "PostToolUse": HookEvent.AFTER_TOOL,
        "Stop": HookEvent.STOP,
        "SessionStart": HookEvent.SESSION_START,
    },
    "by its documentation",
    _write_antigravity,
)

_ALL = (_CLAUDE, _CODEX, _CURSOR, _COPILOT, _ANTIGRAVITY)
CLIENTS: Mapping[str, HookClient] = {client.name: client for client in _ALL}
