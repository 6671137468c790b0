"""The client side of the Agent Client Protocol: decides what an agent may do, serves its files, collects its text.

The kind that an agent states for its request is a claim: the commands and paths in the request decide.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from acp import RequestError
from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    DeniedOutcome,
    PermissionOption,
    ReadTextFileResponse,
    RequestPermissionResponse,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    UsageUpdate,
    WriteTextFileResponse,
)

from reflectloop.agents.backend import AgentRequest
from reflectloop.fileops import paths, safe_files
from reflectloop.policy import CommandPolicy

_COMMANDS = frozenset(("command", "commands", "cmd", "commandline", "shellcommand", "shell", "bash", "script", "argv"))
_ARGUMENTS = frozenset(("args", "arguments"))
_PATHS = frozenset(("path", "paths", "file", "files", "filepath", "filename", "absolutepath", "abspath", "uri"))
_PATHS |= frozenset(("dir", "directory", "dirpath", "cwd", "workdir", "workingdirectory", "notebookpath"))
_PATHS |= frozenset(("oldpath", "newpath", "source", "destination", "src", "dst", "target", "from", "to"))
_DEEPEST = 6
_FILE = "file://"

Command = str | tuple[str, ...]


class Request(NamedTuple):
    """The commands, paths and addresses of a permission request."""

    commands: tuple[Command, ...]
    paths: tuple[str, ...]
    addresses: tuple[str, ...]


def read_request(call: ToolCallUpdate) -> Request:
    """Return what a request names, in whichever field the agent put it."""
    raw = call.raw_input
    if isinstance(raw, (str, list)):
        raw = {"command": raw}
    commands = tuple(_commands(raw, _DEEPEST))
    named = [place.path for place in call.locations or []]
    named += [path for item in call.content or [] if isinstance(path := getattr(item, "path", None), str)]
    named += _strings(raw, _PATHS, _DEEPEST)
    paths = [path.removeprefix(_FILE) for path in named if "://" not in path.removeprefix(_FILE)]
    addresses = [*_strings(raw, frozenset(("url", "urls", "uri", "address")), _DEEPEST)]
    return Request(commands, tuple(dict.fromkeys(paths)), tuple(address for address in addresses if "://" in address))


def _commands(value: Any, depth: int) -> Iterator[Command]:  # noqa: ANN401 - any JSON value
    if depth and isinstance(value, list):
        for item in value:
            yield from _commands(item, depth - 1)
    if not depth or not isinstance(value, dict):
        return
    arguments = [word for name, item in value.items() if _plain(name) in _ARGUMENTS for word in _words(item)]
    for name, item in value.items():
        if _plain(name) not in _COMMANDS:
            yield from _commands(item, depth - 1)
        elif isinstance(item, str) and item.strip():
            yield f"{item} {shlex.join(arguments)}" if arguments else item
        elif argv := _words(item):
            yield (*argv, *arguments)
            if _plain(name) == "commands":  # a list of command lines, or the arguments of one command
                yield from argv


def _words(value: Any) -> list[str]:  # noqa: ANN401 - any JSON value
    return value if isinstance(value, list) and all(isinstance(word, str) for word in value) else []


def _strings(value: Any, names: frozenset[str], depth: int, *, named: bool = False) -> Iterator[str]:  # noqa: ANN401
    """Yield every string under one of these keys."""
    if isinstance(value, str):
        if named and value:
            yield value
    elif depth and isinstance(value, list):
        for item in value:
            yield from _strings(item, names, depth - 1, named=named)
    elif depth and isinstance(value, dict):
        for name, item in value.items():
            yield from _strings(item, names, depth - 1, named=_plain(name) in names)


def _plain(name: str) -> str:
    return str(name).replace("_", "").replace("-", "").lower()


_LOOKING = ("read", "search", "think")
_CHANGING = ("edit", "delete", "move")
_LARGEST_FILE = 8 << 20
_MOST_READ = 256 << 20  # bytes of files sent in one call: responses that the agent does not read stay in memory


class Client:
    """Answers the requests of an agent and records every refusal."""

    def __init__(self, request: AgentRequest, policy: CommandPolicy, *, online: bool = False) -> None:
        self._request, self._policy, self._online = request, policy, online
        self._root = request.box.view.root if request.box.view else request.box.workspace.repo
        self._chunks: list[str] = []
        self.denials: list[str] = []
        self.session: str | None = None
        self._calls: set[str] = set()
        self.length = 0
        self._read_bytes = 0
        self.cost_usd: float | None = None

    @property
    def text(self) -> str:
        return "".join(self._chunks)

    @property
    def calls(self) -> int:
        """Return the number of tool calls; some are only known from their permission request."""
        return len(self._calls)

    def begin(self, session: str) -> None:
        """Start counting at this point: updates before it replay an earlier session."""
        self.session, self._chunks, self.length, self._calls = session, [], 0, set()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:  # noqa: ANN401, ARG002
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContentBlock):
            self._chunks.append(update.content.text)
            self.length += len(update.content.text)
        elif isinstance(update, (ToolCallStart, ToolCallProgress)):
            self._calls.add(update.tool_call_id)
        elif isinstance(update, UsageUpdate) and update.cost and update.cost.currency == "USD":
            self.cost_usd = update.cost.amount

    async def request_permission(
        self,
        session_id: str,  # noqa: ARG002
        tool_call: ToolCallUpdate,
        options: list[PermissionOption],
        **_: Any,  # noqa: ANN401
    ) -> RequestPermissionResponse:
        self._calls.add(tool_call.tool_call_id)
        refusal = self._refusal(tool_call)
        if refusal:
            self.denials.append(f"{tool_call.title or tool_call.kind}: {refusal}")
        kinds = ("reject_once", "reject_always") if refusal else ("allow_once", "allow_always")
        chosen = next((option for kind in kinds for option in options if option.kind == kind), None)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen.option_id))

    def _refusal(self, call: ToolCallUpdate) -> str:
        """Return why the call is refused, or "". Commands and paths decide, not the kind that the agent states."""
        permission = read_request(call)
        if call.kind == "execute" and not permission.commands and call.raw_input is None and call.title:
            permission = permission._replace(commands=(call.title,))  # the text that a person would have seen
        outside = [path for path in permission.paths if self._is_outside(path)]
        if outside:
            return f"{outside[0]} is not in the workspace"
        for command in permission.commands:
            verdict = self._policy.judge(command)
            if not verdict.allowed:
                return f"{verdict.rule}: {verdict.reason}"
        return self._refusal_by_kind(str(call.kind), permission)

    def _refusal_by_kind(self, kind: str, permission: Request) -> str:
        if kind == "fetch" or permission.addresses:
            return "" if self._online else "it can connect only to its model"
        if kind in _LOOKING:
            return ""
        if self._request.role.looks_only:
            return f"{self._request.role} may only look"
        if kind == "switch_mode":
            return "an agent may not change its mode"
        targets = {"execute": permission.commands, **dict.fromkeys(_CHANGING, permission.paths)}
        return (
            "" if targets.get(kind, permission.commands or permission.paths) else "the request names no command or path"
        )

    def _is_outside(self, path: str) -> bool:
        return os.path.normpath(self._root / path) != os.fspath(self._root) and self._name(path) is None

    def _name(self, path: str) -> str | None:
        """Return the path relative to the workspace, or None if it is outside. Opening the file checks for links."""
        plain = os.path.normpath(self._root / path)
        name = os.path.relpath(plain, self._root)
        return None if paths.fault_in(name) else name

    def _named(self, path: str, what: str) -> str:
        name = self._name(path)
        if name is None:
            raise self._refused(f"{what} {path}", "is not a file of the workspace")
        return name

    def _refused(self, what: str, why: str) -> RequestError:
        self.denials.append(f"{what}: {why}")
        return RequestError.invalid_params({"path": what, "reason": why})

    async def read_text_file(
        self,
        session_id: str,  # noqa: ARG002
        path: str,
        line: int | None = None,
        limit: int | None = None,
        **_: Any,  # noqa: ANN401
    ) -> ReadTextFileResponse:
        name = self._named(path, "read")
        try:
            with safe_files.open_folder(self._request.box.workspace.repo) as files:
                text = files.read(name, _LARGEST_FILE).decode("utf-8", "replace")
        except safe_files.PathMissing as fault:
            raise RequestError.resource_not_found(path) from fault
        except safe_files.AccessBarred as fault:
            raise self._refused(f"read {path}", str(fault)) from fault
        if line is not None or limit is not None:
            first = max((line or 1) - 1, 0)
            text = "".join(text.splitlines(keepends=True)[first : None if limit is None else first + limit])
        self._read_bytes += len(text)
        if self._read_bytes > _MOST_READ:
            raise self._refused(f"read {path}", f"more than {_MOST_READ >> 20} MB were read in one call")
        return ReadTextFileResponse(content=text)

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> WriteTextFileResponse:  # noqa: ANN401, ARG002
        name = self._named(path, "write")
        if self._request.act is None:
            raise self._refused(f"write {path}", f"{self._request.role} may only look")
        response = self._request.act([{"op": "write_file", "path": name, "content": content}])
        if response.status != "ok":
            raise self._refused(f"write {path}", response.fail.reason if response.fail else response.status)
        return WriteTextFileResponse()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignore the notification: no extension is supported."""
