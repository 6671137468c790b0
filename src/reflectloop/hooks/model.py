"""One call of a hook, and the answer to it, in words that do not depend on the client."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, NamedTuple


class HookEvent(StrEnum):
    BEFORE_TOOL = "before-tool"
    AFTER_TOOL = "after-tool"
    TOOL_FAILED = "tool-failed"
    PROMPT = "prompt"
    STOP = "stop"
    SUBAGENT_STOP = "subagent-stop"
    SESSION_START = "session-start"
    COMPACT = "compact"
    SESSION_END = "session-end"


class HookCall(NamedTuple):
    """One moment of a session, as its client describes it."""

    event: HookEvent
    client: str
    session: str
    folder: Path
    tool: str = ""
    command: str | tuple[str, ...] | None = None  # that the tool runs
    writes: tuple[str, ...] = ()  # paths that the tool writes
    output: str = ""
    read_only: bool = False  # the client's agent is planning, and may write nothing
    asked_before: bool = False  # the agent goes on because a stop was refused
    raw: Mapping[str, Any] = {}


# allow: nothing to say; ask: a person decides; deny: the tool may not run, or its result must not be used; block: the
# agent must go on; end: the turn ends here, unproven.
Word = Literal["allow", "ask", "deny", "block", "end"]


class HookAnswer(NamedTuple):
    word: Word = "allow"
    reason: str = ""
    context: str = ""  # more for the agent to read


ALLOW = HookAnswer()


class HookOutput(NamedTuple):
    """The output of the hook's process, and its exit code."""

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
