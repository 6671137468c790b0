"""Drives an agent in a live terminal by tmux: types only at an empty prompt, and never over a person."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
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
from reflectloop.errors import AgentFailed, AgentUnavailable, InvalidInput, Locked, NeedsInput
from reflectloop.system import clock, process
from reflectloop.system.patterns import lazy

WORD = "tmux"  # the first word of a session in a terminal
_PROMPT = lazy(r"^[│┃|]?[ \u00a0]{0,2}[>❯›][ \u00a0]")
_ESCAPE = lazy(r"\x1b\[([0-9;:]*)m|\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_UNKNOWN = lazy(r"(?:Unknown|Unrecognized) command:? '?[/$]")
_BUSY = "esc to interrupt"
_STEP_S = 0.25
_STEPS_STILL = 4  # the prompt must stay empty for so many steps before something is typed
_STEPS_ECHO = 20  # for the letters to be seen
_STEPS_ANSWER = 60
_STEPS_SURE = 2  # an answer must hold: the screen lags behind the transcript
_QUIET_S = 5  # since the last key of a person who looks at the pane
_IDLE_S = 2.0  # at the prompt, before the work counts as ended
_STILL_S = 600.0  # a screen that does not change so long, and is not at the prompt, waits for a person
_TMUX_S = 10.0
_DARKEST_TEXT = 200  # a grey below it is a hint
_GREYS = range(232, 253)  # of the 256 colours, without the lightest
_COLOUR = {"2": 4, "5": 2}  # kind of a colour: the codes that it takes, with the kind
Run = Callable[[Sequence[str]], process.CapturedOutput]


class TerminalClient(NamedTuple):
    """The program, words and transcripts of one agent."""

    program: str
    says: str  # calls the skill that carries out the plan
    clear: str
    transcript: Callable[[Path, Path], LiveTranscript | None]
    fill: Callable[[LiveTranscript, Prices, int | None], ContextFill | None]


CLIENTS = {
    "claude": TerminalClient("claude", "/tr", "/clear", context_use.claude_transcript, context_use.claude_fill),
    # With the blank, Codex closes its list of skills, and Enter sends the line. Its /new asks for a worktree.
    "codex": TerminalClient("codex", "$tr ", "/clear", context_use.codex_transcript, context_use.codex_fill),
}


class PaneView(NamedTuple):
    """The content of a pane at one moment."""

    lines: tuple[str, ...]  # with the escapes that colour them
    column: int
    row: int
    in_mode: bool  # somebody scrolls or copies
    pid: int

    @property
    def place(self) -> tuple[int, int, str]:
        """Return the cursor and its line: other lines may have a clock."""
        return self.column, self.row, self.lines[self.row] if self.row < len(self.lines) else ""

    @property
    def _at_cursor(self) -> list[tuple[str, bool]]:
        """Return the letters of the line with the cursor; tmux leaves blanks at its end out."""
        letters = _letters(self.place[2])
        return [*letters, *[(" ", False)] * (self.column - len(letters))]

    @property
    def _prompt_end(self) -> int | None:
        prompt = _PROMPT.match("".join(letter for letter, _ in self._at_cursor))
        return None if prompt is None or self.column < prompt.end() else prompt.end()

    @property
    def typed(self) -> str | None:
        """Return what stands at the prompt, without a faint hint; None if the cursor is not at a prompt."""
        start = self._prompt_end
        if start is None:
            return None
        entered = [letter for letter, faint in self._at_cursor[start:] if not faint]
        return "".join(entered).rstrip(" \u00a0│┃|")

    @property
    def before_cursor(self) -> str:
        """Return what stands between the prompt and the cursor, with the blanks at its end."""
        return "".join(letter for letter, _ in self._at_cursor[self._prompt_end or 0 : self.column])

    @property
    def is_idle(self) -> bool:
        """Return True if the program waits at an empty prompt, and nobody scrolls."""
        if self.in_mode or self.typed != "" or self.column != self._prompt_end:
            return False
        return not self.is_busy

    @property
    def is_busy(self) -> bool:
        return any(_BUSY in _plain(line).lower() for line in self.lines)

    @property
    def unknown_commands(self) -> int:
        """Count the answers of the program that it does not know a command."""
        return sum(_UNKNOWN.search(_plain(line)) is not None for line in self.lines)

    @property
    def last_words(self) -> str:
        """Return the last lines that are not blank or drawn, for a person."""
        lines = [_plain(line).strip(" \u00a0│┃|─━╭╮╰╯") for line in self.lines]
        return " / ".join([line for line in lines if line][-4:])


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
    """Return True if letters after this escape are faint or grey. A colour's numbers are not attributes."""
    parts, faint = codes.replace(":", ";").split(";"), before
    while parts:
        code = parts.pop(0)
        if code in ("38", "48"):
            colour = [parts.pop(0) for _ in range(_COLOUR.get(parts[0] if parts else "", 0)) if parts]
            faint = _is_grey(colour) if code == "38" else faint
        elif code in ("", "0", "22", "39"):
            faint = False
        else:
            faint = faint or code in ("2", "90")
    return faint


def _is_grey(colour: Sequence[str]) -> bool:
    numbers = [int(part) for part in colour if part]
    if numbers[:1] == [5]:
        return numbers[-1] in _GREYS
    return len(set(numbers[1:])) == 1 and numbers[-1] < _DARKEST_TEXT


def _plain(line: str) -> str:
    return _ESCAPE.sub("", line)


def _tmux(words: Sequence[str]) -> process.CapturedOutput:
    return process.capture(["tmux", *words], timeout_s=_TMUX_S)


class Pane:
    """One pane of tmux, by its name such as `work:0.1` or `%3`."""

    def __init__(
        self, name: str, run: Run = _tmux, commands: Callable[[int], list[list[str]]] = process.foreground_commands
    ) -> None:
        self.name, self._run, self._commands = name, run, commands

    def look(self) -> PaneView:
        state = self._call("display-message", "-p", "-t", self.name, _FORMAT).split()
        if len(state) != _FORMAT.count("#") or state[0] != "0":
            raise InvalidInput(f"the pane {self.name} is gone", next_step=_OTHER_PANE)
        text = self._call("capture-pane", "-p", "-e", "-t", self.name)
        column, row, in_mode, pid = map(int, state[1:])
        return PaneView(tuple(text.split("\n")), column, row, bool(in_mode), pid)

    def is_used(self, at: datetime) -> bool:
        """Return True if somebody who has this pane before them pressed a key a moment ago."""
        mine = self._call("display-message", "-p", "-t", self.name, "#{pane_id}").strip()
        listed = self._call("list-clients", "-F", "#{pane_id} #{client_activity}").splitlines()
        keys = [float(line.split()[1]) for line in listed if line.startswith(f"{mine} ")]
        return any(0 <= at.timestamp() - key < _QUIET_S for key in keys)

    def runs(self, program: str, pid: int) -> bool:
        """Return True if this program is in the foreground of the pane; a shell with a like prompt is not it."""
        words = [word for command in self._commands(pid) for word in command]
        return any(part.startswith(program) for word in words for part in word.split("/"))

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
            raise InvalidInput(f"the pane {self.name} cannot be reached: {reason}", next_step=_OTHER_PANE)
        return done.stdout.decode("utf-8", "replace")


_FORMAT = "#{pane_dead} #{cursor_x} #{cursor_y} #{pane_in_mode} #{pane_pid}"
_OTHER_PANE = "tmux list-panes -a; then: reflectloop autoloop start --tmux PANE"


class TerminalDriver:
    """Delivers the work on the current task into a pane; all other tasks get sessions of their own."""

    def __init__(
        self,
        pane: Pane,
        client: TerminalClient,
        prices: Prices,
        *,
        says: str | None = None,
        threshold: float = 70.0,
        limit: int | None = None,
        home: Path | None = None,
        wait: Callable[[float], None] = clock.wait,
        monotonic: Callable[[], float] = clock.monotonic,
    ) -> None:
        self.pane, self._client, self._prices = pane, client, prices
        self._wait, self._monotonic = wait, monotonic
        self._says, self._threshold, self._limit = says or client.says, threshold, limit
        self._home = home or Path(os.path.expanduser("~"))  # noqa: PTH111 - HOME may be anything
        self._shown: tuple[str, ...] = ()
        self._shown_at = self._idle_at = self._monotonic()
        self._end = SessionEnd("")

    def start(self, project: ProjectState, own: DaemonFiles, view: TaskView) -> WorkSession:
        """Begin the next session of a task: in the pane, if the task is the current one."""
        if view.words[:1] != ("tr",) or view.task_id != project.folders.current_task():
            return headless.start(project, own, view)
        self._refuse_other_program(self.pane.look())
        headless.prepare(project.folders, view)
        root = project.folders.root
        transcript = self._client.transcript(self._home, root)
        fill = self._client.fill(transcript, self._prices, self._limit) if transcript else None
        if fill is not None and fill.is_above(self._threshold):
            self._deliver(self._client.clear)
            own.log("clear", entry=view.entry, used=fill.used, window=fill.window)
            self._await(lambda: self.pane.look().is_idle, "the terminal is not at its prompt after it was cleared")
            transcript = self._client.transcript(self._home, root)
        unknown = self._deliver(self._says)
        self._await(
            lambda: self._client.transcript(self._home, root) != transcript or self.pane.look().is_busy,
            f"{self._says} was typed, and nothing acknowledges it",
            unknown,
        )
        self._idle_at = self._shown_at = self._monotonic()
        pid = self.pane.look().pid
        words = (WORD, self.pane.name, self._says)
        return WorkSession(view.entry, view.position, pid, process.start_time(pid), words, "", clock.stamp(clock.now()))

    def _refuse_other_program(self, view: PaneView) -> None:
        if not self.pane.runs(self._client.program, view.pid):
            raise AgentUnavailable(
                f"the pane {self.pane.name} does not run {self._client.program}",
                next_step=f"start {self._client.program} in it, then: reflectloop autoloop start --tmux PANE",
            )

    def _deliver(self, text: str) -> int:
        """Type a line and send it, if the prompt is empty and stays so; take it back if somebody else typed, too.

        Return how many commands the program had not known before.
        """
        first = self.pane.look()
        for _ in range(_STEPS_STILL):
            if not first.is_idle:
                raise Locked("the terminal is not idle at an empty prompt", next_step="finish what is typed there")
            self._wait(_STEP_S)
            if self.pane.look().place != first.place:
                raise Locked("somebody uses the terminal", next_step="finish what is typed there")
        if self.pane.is_used(clock.now()):
            raise Locked("somebody pressed a key in the terminal a moment ago", next_step="wait")
        self.pane.type(text)
        view = self._echoed(text)
        if view.typed != text.rstrip():
            self._take_back(view, text)
            raise Locked("somebody types in the terminal", next_step="finish what is typed there")
        self.pane.press("Enter")
        return view.unknown_commands

    def _echoed(self, text: str) -> PaneView:
        """Wait until the program shows the typed letters; a busy machine takes its time."""
        for _ in range(_STEPS_ECHO):
            self._wait(_STEP_S)
            view = self.pane.look()
            if view.typed is None or not text.startswith(view.typed) or view.typed == text.rstrip():
                break
        return view

    def _take_back(self, view: PaneView, text: str) -> None:
        """Remove our letters from among those of a person, who may type on: the keys arrive as one."""
        _, ours, after = view.before_cursor.partition(text)
        if ours:
            self.pane.press(*["Left"] * len(after), *["BSpace"] * len(text), "End")

    def _await(self, holds: Callable[[], bool], otherwise: str, unknown: int | None = None) -> None:
        """Wait until something holds; with a count of unknown commands, refuse one that the program does not know."""
        times = 0
        for _ in range(_STEPS_ANSWER):
            self._wait(_STEP_S)
            times = times + 1 if holds() else 0
            if unknown is not None and self.pane.look().unknown_commands > unknown:
                raise InvalidInput(
                    f"{self._client.program} does not know {self._says.strip()}",
                    next_step=f"reflectloop install {self._client.program}; then start {self._client.program} again",
                )
            if times == _STEPS_SURE:
                return
        raise AgentFailed(otherwise, next_step="look at the terminal")

    def runs(self, session: WorkSession) -> bool:
        """Return True while the program in the pane works; if it cannot any more, remember why."""
        if session.words[0] != WORD:
            return session.runs
        self._end = SessionEnd("")
        try:
            view = self.pane.look()
            self._refuse_other_program(view)
        except (InvalidInput, AgentUnavailable) as fault:
            self._end = SessionEnd(fault.code, fault.message)
            return False
        now = self._monotonic()
        if view.lines != self._shown:
            self._shown, self._shown_at = view.lines, now
        if not view.is_idle:
            self._idle_at = now
            if now - self._shown_at >= _STILL_S:
                self._end = SessionEnd(NeedsInput.code, f"the terminal waits for a person: {view.last_words}")
                return False
        return now - self._idle_at < _IDLE_S

    def end_of(self, own: DaemonFiles, session: WorkSession) -> SessionEnd:
        return headless.end_of(own, session) if session.words[0] != WORD else self._end

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
