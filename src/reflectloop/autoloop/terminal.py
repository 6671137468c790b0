"""Drives an agent in a live terminal by tmux: types only at an empty prompt, and never over a person."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from reflectloop.agents.prices import Prices
from reflectloop.autoloop import context_use, headless
from reflectloop.autoloop.context_use import ContextFill, LiveTranscript
from reflectloop.autoloop.daemon_files import DaemonFiles, WorkSession
from reflectloop.autoloop.headless import SessionEnd
from reflectloop.autoloop.loop import LoopWorld
from reflectloop.autoloop.project_state import ProjectState
from reflectloop.autoloop.task_view import TaskView
from reflectloop.errors import AgentFailed, InvalidInput, Locked
from reflectloop.system import clock, process
from reflectloop.system.patterns import lazy

WORD = "tmux"  # the first word of a session in a terminal
_PROMPT = lazy(r"^[│┃|]?[ \u00a0]{0,2}[>❯›][ \u00a0]")
_ESCAPE = lazy(r"\x1b\[([0-9;:]*)m|\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_BUSY = "esc to interrupt"
_STEP_S = 0.25
_STEPS_STILL = 4  # the screen must not change for so many steps before something is typed
_STEPS_ANSWER = 60
_FAINT = {"2", "90"}
_TMUX_S = 10.0
Run = Callable[[Sequence[str]], process.CapturedOutput]


class TerminalClient(NamedTuple):
    """The words and transcripts of one agent's program."""

    clear: str
    transcript: Callable[[Path, Path], LiveTranscript | None]
    fill: Callable[[LiveTranscript, Prices, int | None], ContextFill | None]


CLIENTS = {
    "claude": TerminalClient("/clear", context_use.claude_transcript, context_use.claude_fill),
    "codex": TerminalClient("/new", context_use.codex_transcript, context_use.codex_fill),
}


class PaneView(NamedTuple):
    """The content of a pane at one moment."""

    lines: tuple[str, ...]  # with the escapes that colour them
    column: int
    row: int
    in_mode: bool  # somebody scrolls or copies
    pid: int

    @property
    def _at_cursor(self) -> list[tuple[str, bool]]:
        """Return the letters of the line with the cursor; tmux leaves blanks at its end out."""
        letters = _letters(self.lines[self.row] if self.row < len(self.lines) else "")
        return [*letters, *[(" ", False)] * (self.column - len(letters))]

    @property
    def typed(self) -> str | None:
        """Return what stands at the prompt, without a faint hint; None if the cursor is not at a prompt."""
        letters = self._at_cursor
        prompt = _PROMPT.match("".join(letter for letter, _ in letters))
        if prompt is None or self.column < prompt.end():
            return None
        entered = [letter for letter, faint in letters[prompt.end() :] if not faint]
        return "".join(entered).rstrip(" \u00a0│┃|")

    @property
    def is_idle(self) -> bool:
        """Return True if the program waits at an empty prompt, and nobody scrolls."""
        if self.in_mode or self.typed != "":
            return False
        prompt = _PROMPT.match("".join(letter for letter, _ in self._at_cursor))
        is_at_start = prompt is not None and self.column == prompt.end()
        return is_at_start and not any(_BUSY in _plain(line).lower() for line in self.lines)


def _letters(line: str) -> list[tuple[str, bool]]:
    """Return each letter of a line, and True if it is faint: a hint of the program, not what somebody typed."""
    out: list[tuple[str, bool]] = []
    faint, at = False, 0
    for escape in _ESCAPE.finditer(line):
        out += [(letter, faint) for letter in line[at : escape.start()]]
        at = escape.end()
        if escape[1] is not None:
            faint = _is_faint(escape[1], before=faint)
    return [*out, *((letter, faint) for letter in line[at:])]


def _is_faint(codes: str, *, before: bool) -> bool:
    parts = codes.replace(":", ";").split(";")
    if parts[0] in ("", "0", "22", "39"):
        return bool(_FAINT & set(parts[1:]))
    if parts[:2] == ["38", "2"] and len(parts) >= 5:  # noqa: PLR2004 - red, green and blue follow
        red, green, blue = parts[2:5]
        return red == green == blue
    return before or bool(_FAINT & set(parts))


def _plain(line: str) -> str:
    return _ESCAPE.sub("", line)


def _tmux(words: Sequence[str]) -> process.CapturedOutput:
    return process.capture(["tmux", *words], timeout_s=_TMUX_S)


class Pane:
    """One pane of tmux, by its name such as `work:0.1` or `%3`."""

    def __init__(self, name: str, run: Run = _tmux) -> None:
        self.name, self._run = name, run

    def look(self) -> PaneView:
        state = self._call("display-message", "-p", "-t", self.name, _FORMAT).split()
        if len(state) != _FORMAT.count("#") or state[0] != "0":
            raise InvalidInput(f"the pane {self.name} is gone", next_step="tmux list-panes -a")
        text = self._call("capture-pane", "-p", "-e", "-t", self.name)
        column, row, in_mode, pid = map(int, state[1:])
        return PaneView(tuple(text.split("\n")), column, row, bool(in_mode), pid)

    def type(self, text: str) -> None:
        self._call("send-keys", "-t", self.name, "-l", "--", text)

    def press(self, *keys: str) -> None:
        self._call("send-keys", "-t", self.name, *keys)

    def _call(self, *words: str) -> str:
        try:
            done = self._run(words)
        except (OSError, TimeoutError) as fault:
            raise InvalidInput(f"tmux cannot be asked: {fault}", next_step="install tmux") from fault
        if done.code:
            reason = done.stderr.decode("utf-8", "replace").strip()
            raise InvalidInput(f"the pane {self.name} cannot be reached: {reason}", next_step="tmux list-panes -a")
        return done.stdout.decode("utf-8", "replace")


_FORMAT = "#{pane_dead} #{cursor_x} #{cursor_y} #{pane_in_mode} #{pane_pid}"


class TerminalDriver:
    """Delivers the work on the current task into a pane; all other tasks get sessions of their own."""

    def __init__(
        self,
        pane: Pane,
        client: TerminalClient,
        prices: Prices,
        *,
        says: str = "/tr",
        threshold: float = 70.0,
        limit: int | None = None,
        home: Path | None = None,
        wait: Callable[[float], None] = clock.wait,
    ) -> None:
        self.pane, self._client, self._prices, self._wait = pane, client, prices, wait
        self._says, self._threshold, self._limit = says, threshold, limit
        self._home = home or Path(os.path.expanduser("~"))  # noqa: PTH111 - HOME may be anything

    def start(self, project: ProjectState, own: DaemonFiles, view: TaskView) -> WorkSession:
        """Begin the next session of a task: in the pane, if the task is the current one."""
        if view.words[:1] != ("tr",) or view.task_id != project.folders.current_task():
            return headless.start(project, own, view)
        headless.prepare(project.folders, view)
        root = project.folders.root
        transcript = self._client.transcript(self._home, root)
        fill = self._client.fill(transcript, self._prices, self._limit) if transcript else None
        if fill is not None and fill.is_above(self._threshold):
            self._deliver(self._client.clear)
            own.log("clear", entry=view.entry, used=fill.used, window=fill.window)
            self._await(lambda: self.pane.look().is_idle, "the terminal is not at its prompt after it was cleared")
            transcript = self._client.transcript(self._home, root)
        self._deliver(self._says)
        self._await(
            lambda: self._client.transcript(self._home, root) != transcript or not self.pane.look().is_idle,
            f"{self._says} was typed, and nothing acknowledges it",
        )
        pid = self.pane.look().pid
        words = (WORD, self.pane.name, self._says)
        return WorkSession(view.entry, view.position, pid, process.start_time(pid), words, "", clock.stamp(clock.now()))

    def _deliver(self, text: str) -> None:
        """Type a line and send it, if the prompt is empty and stays so; take it back if somebody else typed, too."""
        first = self.pane.look()
        for _ in range(_STEPS_STILL):
            if not first.is_idle:
                raise Locked("the terminal is not idle at an empty prompt", next_step="finish what is typed there")
            self._wait(_STEP_S)
            if self.pane.look() != first:
                raise Locked("somebody uses the terminal", next_step="finish what is typed there")
        self.pane.type(text)
        self._wait(_STEP_S)
        typed = self.pane.look().typed
        if typed != text:
            if typed is not None and typed.endswith(text):
                self.pane.press(*["BSpace"] * len(text))
            raise Locked("somebody types in the terminal", next_step="finish what is typed there")
        self.pane.press("Enter")

    def _await(self, holds: Callable[[], bool], otherwise: str) -> None:
        for _ in range(_STEPS_ANSWER):
            self._wait(_STEP_S)
            if holds():
                return
        raise AgentFailed(otherwise, next_step="look at the terminal")

    def runs(self, session: WorkSession) -> bool:
        """Return True while the program in the pane works, or the pane is not at its prompt."""
        if session.words[0] != WORD:
            return session.runs
        try:
            return session.runs and not self.pane.look().is_idle
        except InvalidInput:
            return False

    def end_of(self, own: DaemonFiles, session: WorkSession) -> SessionEnd:
        if session.words[0] != WORD:
            return headless.end_of(own, session)
        return SessionEnd("" if session.runs else "NO_ANSWER", "" if session.runs else "the terminal is gone")

    def stop(self, session: WorkSession) -> None:
        """Stop a session of its own; the program in a terminal belongs to the person."""
        if session.words[0] != WORD:
            headless.stop(session)

    def world(self) -> LoopWorld:
        """Return the world of a loop whose current task is worked on in the terminal."""
        return LoopWorld(
            start=self.start,
            runs=self.runs,
            end_of=self.end_of,
            stop=self.stop,
            looks_at=lambda session: session.words[0] == WORD,
        )
