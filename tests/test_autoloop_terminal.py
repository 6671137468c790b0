"""`autoloop` in a live terminal: the fill of a context by transcripts, and a pane that a test plays."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from reflectloop.agents.prices import builtin_prices
from reflectloop.autoloop import context_use
from reflectloop.autoloop.daemon_files import DaemonFiles, WorkSession
from reflectloop.autoloop.project_state import ProjectState
from reflectloop.autoloop.task_view import Standing
from reflectloop.autoloop.terminal import CLIENTS, Pane, PaneView, TerminalDriver
from reflectloop.errors import AgentFailed, AgentUnavailable, InvalidInput, Locked
from reflectloop.state import events
from reflectloop.system.process import CapturedOutput
from reflectloop.workspace.folders import Folders, open_project_dirs
from support import Repo

MODEL = "claude-sonnet-4-5-20250929"  # its window is 200,000
PRICES = builtin_prices()


def answer(tokens: int, **more: Any) -> str:
    usage = {
        "input_tokens": 1,
        "cache_creation_input_tokens": 2,
        "cache_read_input_tokens": tokens - 6,
        "output_tokens": 3,
    }
    return json.dumps({"type": "assistant", "message": {"model": MODEL, "usage": usage}, **more})


def transcript(home: Path, root: Path, *lines: str, name: str = "session", age_s: int = 0) -> Path:
    folder = home / ".claude" / "projects" / "".join(char if char.isalnum() else "-" for char in str(root))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.jsonl"
    path.write_text("\n".join(lines))
    os.utime(path, (1_700_000_000 - age_s, 1_700_000_000 - age_s))
    return path


def fill(home: Path, root: Path, limit: int | None = None) -> tuple[int, int | None] | None:
    newest = context_use.claude_transcript(home, root)
    known = context_use.claude_fill(newest, PRICES, limit) if newest else None
    return known[:2] if known else None


def test_the_last_answer_on_the_main_chain_counts(tmp_path: Path) -> None:
    root = Path("/code/my.project")
    assert fill(tmp_path, root) is None
    lines = [answer(1000), answer(5000), answer(90_000, isSidechain=True), '{"type": "user"}', "[]", '{"type": "assi']
    transcript(tmp_path, root, *lines)
    transcript(tmp_path, root, answer(7), name="agent-1")
    transcript(tmp_path, root, answer(8), name="old", age_s=60)
    assert fill(tmp_path, root) == (5000, 200_000)
    assert fill(tmp_path, root, limit=6000) == (5000, 6000)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\0\0\0",
        '{"type": "assistant"}',
        '{"type": "assistant", "message": "text"}',
        '{"type": "assistant", "message": {"usage": {"input_tokens": "many"}}}',
        '{"type": "assistant", "message": {"model": "<synthetic>", "usage": {"input_tokens": 0}}}',
        "[" * 100_000,
    ],
)
def test_a_torn_or_foreign_transcript_is_unknown_and_never_cleared(tmp_path: Path, line: str) -> None:
    transcript(tmp_path, Path("/p"), line)
    assert fill(tmp_path, Path("/p")) is None


def test_a_model_without_a_window_is_never_full(tmp_path: Path) -> None:
    path = transcript(tmp_path, Path("/p"), answer(10**9).replace(MODEL, "unheard-of"))
    newest = context_use.LiveTranscript(path, 1)
    known = context_use.claude_fill(newest, PRICES)
    assert known is not None
    assert not known.is_above(0.0)


def test_the_threshold_is_strict() -> None:
    at = context_use.ContextFill(70, 100, Path())
    assert not at.is_above(70.0)
    assert at._replace(used=71).is_above(70.0)


def test_only_the_end_of_a_huge_transcript_is_read(tmp_path: Path) -> None:
    path = transcript(tmp_path, Path("/p"))
    with path.open("wb") as file:
        file.truncate(2 << 30)  # two gigabytes, without a single line
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + answer(4000).encode() + b"\n" + b'{"type": "user"}\n' * 3)
    assert fill(tmp_path, Path("/p")) == (4000, 200_000)
    with path.open("wb") as file:
        file.truncate(2 << 30)
    assert fill(tmp_path, Path("/p")) is None


def test_codex_counts_by_its_own_window_in_the_rollout_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CODEX_HOME", raising=False)
    folder = tmp_path / ".codex" / "sessions" / "2026" / "01" / "31"
    folder.mkdir(parents=True)
    count = {"last_token_usage": {"total_tokens": 700}, "total_token_usage": {"total_tokens": 9000}}
    counted = {"payload": {"type": "token_count", "info": {**count, "model_context_window": 1000}}}
    lines = [{"payload": {"cwd": "/p"}}, counted, {"payload": {"type": "token_count", "info": None}}]
    (folder / "rollout-2.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n{torn")
    (folder / "rollout-3.jsonl").write_text(json.dumps({"payload": {"cwd": "/other"}}))
    newest = context_use.codex_transcript(tmp_path, Path("/p"))
    assert newest is not None
    known = context_use.codex_fill(newest, PRICES)
    assert known is not None
    assert known[:2] == (700, 1000)
    assert context_use.codex_transcript(tmp_path, Path("/nowhere")) is None


# The pane ------------------------------------------------------------------------------------------------------------


class Screen:
    """Plays tmux: a program at its prompt, and what happens when somebody types."""

    def __init__(self, prompt: str = "> ") -> None:
        self.prompt, self.entered, self.sent = prompt, "", []  # type: ignore[var-annotated]
        self.hint, self.below = "", ""
        self.in_mode, self.gone, self.in_use = False, False, False
        self.on_type: Callable[[str], None] = lambda _text: None
        self.on_enter: Callable[[str], None] = lambda _text: None

    def __call__(self, words: Sequence[str]) -> CapturedOutput:
        if self.gone:
            return CapturedOutput(1, b"", b"can't find pane")
        match words[0]:
            case "display-message" if words[-1] == "#{pane_id}":
                return self._out("%1\n")
            case "list-clients":
                now = int(time.time())
                return self._out(f"%2 {now}\n%1 {now if self.in_use else 0}\n")
            case "display-message":
                column = len(self.prompt) + len(self.entered)
                return self._out(f"0 {column} 1 {int(self.in_mode)} {os.getpid()}")
            case "capture-pane":
                shown = self.entered or (f"\x1b[2m{self.hint}\x1b[0m" if self.hint else "")
                return self._out(f"welcome\n{self.prompt}{shown}\n{self.below}")
        keys = words[3:]
        if keys[0] == "-l":
            self.entered += keys[2]
            self.on_type(keys[2])
        elif keys[0] == "Enter":
            line, self.entered = self.entered, ""
            self.sent.append(line)
            self.on_enter(line)
        else:
            self._edit(keys)
        return self._out("")

    def _edit(self, keys: Sequence[str]) -> None:
        at = len(self.entered)
        for key in keys:
            if key == "BSpace":
                self.entered = self.entered[: at - 1] + self.entered[at:]
            at = len(self.entered) if key == "End" else at - 1

    @staticmethod
    def _out(text: str) -> CapturedOutput:
        return CapturedOutput(0, text.encode(), b"")


@pytest.fixture
def folders(repo: Repo) -> Folders:
    opened = open_project_dirs(repo.path)
    opened.ensure_owned()
    book = opened.open_journal("T-20260131-abcdef")
    book.append(events.TaskOpened(task_id="T-20260131-abcdef", plan_path="", title="Mend it"))
    book.append(
        events.RunStarted(
            run_id="R", plan_hash="", base_tree="t", base_commit="c", isolation="full", steps=["a"], mode="fileops"
        )
    )
    book.close()
    opened.set_current_task("T-20260131-abcdef")
    return opened


class Scene:
    """A driver at a screen, with a HOME for transcripts."""

    def __init__(self, folders: Folders, home: Path, screen: Screen) -> None:
        self.screen, self.home, self.folders = screen, home, folders
        self.project = ProjectState(folders.root, in_terminal=True)
        self.program, self.now = "claude", 0.0
        pane = Pane("%1", screen, lambda _pid: [["-zsh"], ["/opt/bin/" + self.program, "--model", "x"]])
        self.driver = TerminalDriver(
            pane, CLIENTS["claude"], PRICES, home=home, wait=lambda _seconds: None, monotonic=lambda: self.now
        )
        self.screen.on_enter = self.acknowledge

    def acknowledge(self, line: str) -> None:
        name = "fresh" if line == "/clear" else "session"
        text = "" if line == "/clear" else answer(10)
        transcript(self.home, self.folders.root, text, name=name, age_s=-60 - len(self.screen.sent))

    def start(self) -> WorkSession:
        (view,) = self.project.views()
        assert view.standing is Standing.UNFINISHED
        return self.driver.start(self.project, DaemonFiles(self.folders), view)

    def runs_at(self, session: WorkSession, now: float) -> bool:
        self.now = now
        return self.driver.runs(session)


@pytest.fixture
def scene(folders: Folders, tmp_path: Path) -> Scene:
    return Scene(folders, tmp_path / "home", Screen())


def test_below_the_threshold_the_work_is_typed(scene: Scene) -> None:
    transcript(scene.home, scene.folders.root, answer(140_000))  # exactly 70 %
    scene.start()
    assert scene.screen.sent == ["/tr"]


def test_above_the_threshold_the_session_is_cleared_first(scene: Scene) -> None:
    transcript(scene.home, scene.folders.root, answer(140_001))
    scene.start()
    assert scene.screen.sent == ["/clear", "/tr"]


def test_an_unknown_fill_is_never_cleared(scene: Scene) -> None:
    transcript(scene.home, scene.folders.root, "garbage")
    scene.start()
    assert scene.screen.sent == ["/tr"]


@pytest.mark.parametrize("disturb", ["text", "mode", "busy", "other program", "a key"])
def test_nothing_is_typed_over_a_person_or_a_program_that_works(scene: Scene, disturb: str) -> None:
    screen = scene.screen
    match disturb:
        case "text":
            screen.entered = "fix the"
        case "mode":
            screen.in_mode = True
        case "busy":
            screen.below = "✻ Thinking… (esc to interrupt)"
        case "a key":
            screen.in_use = True
        case _:
            screen.prompt = "user@host:~$ "
    before = screen.entered
    with pytest.raises(Locked):
        scene.start()
    assert (screen.sent, screen.entered) == ([], before)


@pytest.mark.parametrize(("before", "after"), [("he", ""), ("", "he"), ("he", "llo ")])
def test_a_person_who_begins_to_type_meanwhile_gets_the_line_back(scene: Scene, before: str, after: str) -> None:
    def type_too(_text: str) -> None:
        scene.screen.entered = before + scene.screen.entered + after

    scene.screen.on_type = type_too
    with pytest.raises(Locked, match="somebody types"):
        scene.start()
    assert (scene.screen.sent, scene.screen.entered) == ([], before + after)


def test_a_faint_hint_at_the_prompt_is_not_a_persons_text(scene: Scene) -> None:
    scene.screen.hint = 'Try "edit foo.py to..."'
    scene.start()
    assert scene.screen.sent == ["/tr"]


def test_what_nothing_acknowledges_is_tried_again_later(scene: Scene) -> None:
    scene.screen.on_enter = lambda _line: None
    with pytest.raises(AgentFailed, match="nothing acknowledges it"):
        scene.start()


def test_a_pane_that_is_gone_is_told(scene: Scene) -> None:
    session = scene.start()
    scene.screen.gone = True
    with pytest.raises(InvalidInput, match="cannot be reached"):
        scene.start()
    assert not scene.driver.runs(session)
    assert scene.driver.end_of(DaemonFiles(scene.folders), session).code == InvalidInput.code


def test_a_shell_with_the_prompt_of_the_program_is_not_typed_into(scene: Scene) -> None:
    session = scene.start()
    scene.program = "vim"
    with pytest.raises(AgentUnavailable, match="does not run claude"):
        scene.start()
    assert not scene.driver.runs(session)
    assert scene.driver.end_of(DaemonFiles(scene.folders), session).reason == "the pane %1 does not run claude"


def test_a_command_that_the_program_does_not_know_is_told(scene: Scene) -> None:
    def refuse(line: str) -> None:
        scene.acknowledge(line)  # Claude Code writes that down, too
        scene.screen.below = "\x1b[33m● Unknown command: /tr. Did you mean /btw?"

    scene.screen.on_enter = refuse
    with pytest.raises(InvalidInput, match="claude does not know /tr") as fault:
        scene.start()
    assert fault.value.next_step == "reflectloop install claude; then start claude again"


def test_work_in_a_terminal_ends_at_the_prompt_and_a_dialog_is_told_to_a_person(scene: Scene) -> None:
    session = scene.start()
    scene.screen.below = "✻ Thinking… (esc to interrupt)"
    assert scene.runs_at(session, 100.0)
    scene.screen.below = ""
    assert scene.runs_at(session, 101.0)  # between two turns the prompt may be empty for a moment
    assert not scene.runs_at(session, 103.0)
    assert scene.driver.end_of(DaemonFiles(scene.folders), session).code == ""
    scene.screen.prompt, scene.screen.below = "Run this command?", "❯ 1. Yes"
    assert scene.runs_at(session, 200.0)
    assert not scene.runs_at(session, 800.0)
    end = scene.driver.end_of(DaemonFiles(scene.folders), session)
    assert end[:2] == ("NEEDS_INPUT", "the terminal waits for a person: welcome / Run this command? / ❯ 1. Yes")


@pytest.mark.parametrize(
    ("colour", "is_hint"),
    [
        *((code, True) for code in ("2", "90", "0;2", "38;5;246", "38;2;120;120;120")),
        *((code, False) for code in ("38;5;2", "38;5;90", "38;5;231", "48;5;244", "38;2;255;255;255")),
    ],
)
def test_grey_letters_are_a_hint_and_coloured_ones_are_a_persons(colour: str, is_hint: bool) -> None:
    view = PaneView((f"❯ \x1b[{colour}mfix the bug\x1b[0m",), 2, 0, in_mode=False, pid=1)
    assert view.is_idle is is_hint


@pytest.mark.parametrize("line", ["> ", "❯ ", "› ", "│ > ", "❯\u00a0"])
def test_prompts_of_the_programs_are_known(line: str) -> None:
    view = PaneView(("", line), len(line), 1, in_mode=False, pid=1)
    assert view.is_idle
    assert not view._replace(lines=("", f"{line}x")).is_idle
    assert not view._replace(column=len(line) + 1).is_idle
    assert view._replace(lines=("", line.rstrip())).is_idle  # tmux leaves blanks at the end out
    boxed = PaneView((f"{line}{' ' * 20}│",), len(line), 0, in_mode=False, pid=1)
    assert boxed.is_idle
