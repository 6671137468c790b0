"""The tools: each calls a function that the command line calls, or starts the command itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
from anyio import to_thread
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, ToolAnnotations
from pydantic import Field

from reflectloop.errors import InvalidInput, SandboxEscape
from reflectloop.fileops import json_from_text
from reflectloop.lessons.lesson_recall import Moment
from reflectloop.mcp.reading import ProjectReader, in_full, reply_of
from reflectloop.mcp.replies import ContextReply, NextReply, ProjectReply, RecallReply, ToolReply, WorkReply
from reflectloop.mcp.results import guarded
from reflectloop.mcp.work import Work
from reflectloop.system import files

_LONGEST_WAIT_S = 240  # Codex ends a call after 300 seconds
_POLL_S = 0.1
_PROGRESS_S = 2.0
_LARGEST_TEXT = 8 << 20

WorkResult = Annotated[CallToolResult, WorkReply]
ProjectResult = Annotated[CallToolResult, ProjectReply]
NextResult = Annotated[CallToolResult, NextReply]
RecallResult = Annotated[CallToolResult, RecallReply]
ContextResult = Annotated[CallToolResult, ContextReply]

Client = Context[Any, Any]
Wait = Annotated[
    float,
    Field(ge=0, le=_LONGEST_WAIT_S, description="Seconds to wait for the end; then a handle for `status` is returned."),
]
Details = Annotated[bool, Field(description="Return all data of the command, which is long.")]
Name = Annotated[str, Field(max_length=4096)]
_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)


class ToolSet:
    """The tools of one project."""

    def __init__(self, reader: ProjectReader) -> None:
        self.reader = reader
        self.words = CommandWords(reader.root)

    def register(self, server: MCPServer[Any]) -> None:
        """Add the tools in the order in which clients list them."""
        reading: tuple[Callable[..., Any], ...] = (self.status, self.next, self.context, self.recall)
        for tool in reading:
            server.add_tool(tool, annotations=_READS)
        for tool in (self.verify, self.gate, self.run_plan, self.fileops, self.scan, self.diagnose, self.reflect):
            server.add_tool(tool, annotations=_RUNS)
        ends = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
        server.add_tool(self.cancel, annotations=ends)

    # Reading ---------------------------------------------------------------------------------------------------------

    async def status(
        self, ctx: Client, handle: Name | None = None, details: Details = False, wait_s: Wait = 0
    ) -> ProjectResult:
        """Show the current task, its runs, the latch and the next command; with a handle, what became of that work."""

        async def act() -> ToolReply:
            if handle is None:
                return await to_thread.run_sync(self.reader.project)
            work = reply_of(await self._wait(ctx, handle, wait_s), details=details)
            return ProjectReply(project=str(self.reader.root), work=[work], error=work.error, next=work.next)

        return await guarded(ProjectReply, act)

    async def next(self) -> NextResult:
        """Say which command comes next, and why; after a failure, the way out of it."""
        return await self._read(NextReply, self.reader.next)

    async def context(self) -> ContextResult:
        """Return the brief: goal, contract, plan, code, lessons, what was tried and how it failed, the next command."""
        return await self._read(ContextReply, self.reader.context)

    async def recall(
        self,
        query: Annotated[str, Field(min_length=1, max_length=4096)],
        moment: Annotated[Moment | None, Field(description="Return the advice for this moment of work.")] = None,
        signature: Annotated[str, Field(max_length=400, description="Of a failure, with the moment failure.")] = "",
        limit: Annotated[int, Field(ge=1, le=100)] = 10,
    ) -> RecallResult:
        """Find lessons from earlier work by words."""
        return await self._read(RecallReply, lambda: self.reader.recall(query, moment, signature, limit))

    async def _read(self, kind: type[ToolReply], read: Callable[[], ToolReply]) -> CallToolResult:
        return await guarded(kind, lambda: to_thread.run_sync(read))

    # Work that may take long -----------------------------------------------------------------------------------------

    async def verify(
        self,
        ctx: Client,
        base: Annotated[Name | None, Field(description="A revision to compare with; default: HEAD.")] = None,
        patch: Annotated[Name | None, Field(description="A patch file of the project to judge.")] = None,
        branch: Annotated[Name | None, Field(description="A branch to judge.")] = None,
        track: Annotated[
            Literal["feature", "fix", "refactor", "direct"] | None, Field(description="The kind of change.")
        ] = None,
        checks: Annotated[list[Name], Field(max_length=50, description="Only these checks.")] = [],  # noqa: B006
        session: Annotated[Name | None, Field(description="An agent's session to judge, or latest.")] = None,
        details: Details = False,
        wait_s: Wait = 50,
    ) -> WorkResult:
        """Verify a change with the project's own checks in fresh copies; without patch and branch the working tree."""

        def words() -> list[str]:
            change = self.words.change(base, patch, branch)
            return self.words.verify(change, track=track, checks=checks, session=session)

        return await self._work(ctx, "verify", words, wait_s, details=details)

    async def gate(
        self,
        ctx: Client,
        contract: Annotated[Name, Field(description="The file that says what the change claims to be.")],
        base: Name | None = None,
        patch: Name | None = None,
        branch: Name | None = None,
        report: Annotated[Name | None, Field(description="The author's report; it proves nothing.")] = None,
        details: Details = False,
        wait_s: Wait = 50,
    ) -> WorkResult:
        """Put a change and its contract through the four gates: rules, proof, insight, retention."""

        def words() -> list[str]:
            return self.words.gate(contract, self.words.change(base, patch, branch), report=report)

        return await self._work(ctx, "gate", words, wait_s, details=details)

    async def run_plan(
        self,
        ctx: Client,
        plan: Annotated[Name | None, Field(description="A plan file of the project; default: the project's.")] = None,
        new_task: Annotated[bool, Field(description="Open a new task, even if one is open for this plan.")] = False,
        jobs: Annotated[int | None, Field(ge=1, le=64, description="Steps of a batch at once.")] = None,
        details: Details = False,
        wait_s: Wait = 50,
    ) -> WorkResult:
        """Run a plan in an isolated copy of the project; it goes on when the client ends."""
        return await self._work(
            ctx, "run_plan", lambda: self.words.run_plan(plan, new_task=new_task, jobs=jobs), wait_s, details=details
        )

    async def fileops(
        self,
        ctx: Client,
        request: Annotated[dict[str, Any], Field(description="A request as docs/fileops.md describes it.")],
        strict: bool = False,
        wait_s: Wait = 50,
    ) -> WorkResult:
        """Carry out a FileOps request in the workspace of the current task, all or nothing."""

        def content() -> bytes:
            raw = files.json_text(request, indent=None).encode("utf-8", "surrogatepass")
            if len(raw) > json_from_text.LARGEST:
                raise InvalidInput("the request is too long", next_step="send it in parts")
            return raw

        return await self._work(ctx, "fileops", lambda: self.words.fileops(strict=strict), wait_s, content)

    async def scan(
        self,
        ctx: Client,
        paths: Annotated[list[Name], Field(max_length=1000, description="Files or folders; default: all.")] = [],  # noqa: B006
        staged: Annotated[bool, Field(description="Only the lines that the next commit adds.")] = False,
        commits: Annotated[Name | None, Field(description="A range A..B of commits.")] = None,
        wait_s: Wait = 50,
    ) -> WorkResult:
        """Search files, staged lines or commits for secrets; a finding names the place, never the secret."""
        return await self._work(ctx, "scan", lambda: self.words.scan(paths, staged=staged, commits=commits), wait_s)

    async def diagnose(
        self,
        ctx: Client,
        text: Annotated[str | None, Field(max_length=_LARGEST_TEXT, description="The output of any tool.")] = None,
        log: Annotated[Name | None, Field(description="Or a log or report file of the project.")] = None,
        exit_code: int | None = None,
        wait_s: Wait = 50,
    ) -> WorkResult:
        """Explain the output of a tool: what failed, where, and what to do."""

        def words() -> list[str]:
            if (text is None) == (log is None):
                raise InvalidInput("send either text or log", next_step="send one of them")
            return self.words.diagnose(log, exit_code=exit_code)

        return await self._work(ctx, "diagnose", words, wait_s, lambda: (text or "").encode("utf-8", "surrogatepass"))

    async def reflect(
        self,
        ctx: Client,
        name: Annotated[Name, Field(description="A ticket, a failed run, or a report file of the project.")],
        revised: Annotated[Name | None, Field(description="A file with the repaired output, to be judged.")] = None,
        agents: Annotated[bool, Field(description="Let the agents of [roles] take part.")] = False,
        wait_s: Wait = 50,
    ) -> WorkResult:
        """Reflect on a ticket or a failed run in six steps."""
        return await self._work(
            ctx, "reflect", lambda: self.words.reflect(name, revised=revised, agents=agents), wait_s
        )

    async def cancel(self, handle: Name) -> WorkResult:
        """Stop a work that runs: it cleans up, and its processes end with it."""
        return await self._read(WorkReply, lambda: in_full(self.reader.works().cancel(handle)))

    async def _work(
        self,
        ctx: Client,
        tool: str,
        words: Callable[[], list[str]],
        wait_s: float,
        content: Callable[[], bytes] | None = None,
        *,
        details: bool = True,
    ) -> CallToolResult:
        """Start a command, and return its result if it ends in time, or else its handle."""

        def start() -> str:
            return self.reader.works().start(tool, words(), content() if content else b"")

        async def act() -> ToolReply:
            handle = await to_thread.run_sync(start)
            return reply_of(await self._wait(ctx, handle, wait_s), details=details)

        return await guarded(WorkReply, act)

    async def _wait(self, ctx: Client, handle: str, wait_s: float) -> Work:
        """Wait for the end of a work and report progress. If the client gives up, the work goes on."""
        works, began = self.reader.works(), anyio.current_time()
        reported = began
        while True:
            work = await to_thread.run_sync(works.look, handle)
            now = anyio.current_time()
            if work.state != "running" or now - began >= wait_s:
                return work
            if now - reported >= _PROGRESS_S:
                reported = now
                await ctx.report_progress(now - began, None, f"{work.tool} runs for {work.seconds:.0f} s ({handle})")
            await anyio.sleep(_POLL_S)


# The command line of each tool --------------------------------------------------------------------------------------
# Values are joined to their options: none can be read as one. Nothing outside of the project is named.


class CommandWords:
    """Builds command lines for one project."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def _command(self, name: str, options: Sequence[str], arguments: Sequence[str] = ()) -> list[str]:
        return [name, "--json", f"--project={self.root}", *options, "--", *arguments]

    def run_plan(self, plan: str | None, *, new_task: bool, jobs: int | None) -> list[str]:
        options = ["--wait", *(["--new"] if new_task else []), *([f"--jobs={jobs}"] if jobs else [])]
        return self._command("run", options, [inside(self.root, plan)] if plan else [])

    def verify(
        self, change: Sequence[str], *, track: str | None, checks: Sequence[str], session: str | None
    ) -> list[str]:
        options = [*change, *([f"--track={track}"] if track else [])]
        options += [f"--check={word(check, 'the name of a check')}" for check in checks]
        options += [f"--session={word(session, 'the session')}"] if session else []
        return self._command("verify", ["--wait", *options])

    def gate(self, contract: str, change: Sequence[str], *, report: str | None) -> list[str]:
        options = [f"--contract={inside(self.root, contract)}", *change]
        options += [f"--report={inside(self.root, report)}"] if report else []
        return self._command("gate", ["--wait", *options])

    def change(self, base: str | None, patch: str | None, branch: str | None) -> list[str]:
        """Return the options that name a change: a patch, a branch, or else the working tree."""
        if patch and branch:
            raise InvalidInput("patch and branch exclude each other", next_step="send one of them")
        options = [f"--base={word(base, 'the base')}"] if base else []
        options += [f"--patch={inside(self.root, patch)}"] if patch else []
        return options + ([f"--branch={word(branch, 'the branch')}"] if branch else [])

    def scan(self, paths: Sequence[str], *, staged: bool, commits: str | None) -> list[str]:
        if bool(paths) + staged + bool(commits) > 1:
            raise InvalidInput("paths, staged and commits exclude each other", next_step="send one of them")
        options = ["--staged"] if staged else [f"--range={word(commits, 'the range')}"] if commits else []
        return self._command("scan", options, [inside(self.root, path) for path in paths])

    def diagnose(self, log: str | None, *, exit_code: int | None) -> list[str]:
        """Return the command for a log file of the project, or for a text on standard input."""
        options = [f"--exit-code={exit_code}"] if exit_code is not None else []
        return self._command("diagnose", options, [inside(self.root, log) if log else "-"])

    def fileops(self, *, strict: bool) -> list[str]:
        return self._command("fileops", ["--strict"] if strict else [], ["-"])

    def reflect(self, name: str, *, revised: str | None, agents: bool) -> list[str]:
        options = [f"--revised={inside(self.root, revised)}"] if revised else []
        options += [] if agents else ["--no-agents"]
        is_file = "/" in name or (self.root / name).exists()
        return self._command("reflect", options, [inside(self.root, name) if is_file else word(name, "the name")])


# Paths and words that a client sends --------------------------------------------------------------------------------


_LONGEST = 4096


def inside(root: Path, name: str) -> str:
    """Return the absolute path of a file of the project; raise SandboxEscape if it lies outside."""
    word(name, "the path")
    path = Path(os.path.normpath(root / name))
    if not _is_below(path, root) or not _is_below(path.resolve(), root.resolve()):
        raise SandboxEscape(
            f"{name!r} leads out of the project {root}", next_step="name a file of the project, relative to its top"
        )
    return os.fspath(path)


def _is_below(path: Path, root: Path) -> bool:
    return path == root or path.is_relative_to(root)


def word(text: str, what: str) -> str:
    """Return a word for a command line; refuse one that is too long or has control characters."""
    if len(text) > _LONGEST or any(ord(char) < ord(" ") for char in text):
        raise InvalidInput(f"{what} is too long or has control characters", next_step="send a shorter, plain text")
    return text
