"""`autoloop --tmux` with the real Claude Code and Codex in their terminals, and a person who types there, too."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from proof.clis import PINNED, programs
from proof.hooks import CODEX_SETTINGS
from proof.paper import ROOT, Paper
from proof.takeover import texts_of

sys.path.insert(0, str(ROOT / "tests"))

from model import Call, Model, Tokens, Turn, say
from reflectloop.agents.prices import builtin_prices
from reflectloop.autoloop.daemon_files import DaemonFiles
from reflectloop.autoloop.project_state import ProjectState
from reflectloop.autoloop.terminal import CLIENTS, Pane, PaneView, TerminalDriver
from reflectloop.errors import ReflectloopError
from reflectloop.system.process import CapturedOutput

_BIN = ROOT / ".venv" / "bin" / "reflectloop"
_PANE, _SHELL = "work:0.0", "work:1.0"
_GOAL = "The calculator has notes"
_STEPS = 3
_DESIGN = {
    "title": _GOAL,
    "goal": _GOAL,
    "steps": [
        {"title": f"Note {n}", "commands": [f"echo {n} > note{n}.txt"], "checks": [f"test -s note{n}.txt"]}
        for n in range(1, _STEPS + 1)
    ],
}
_FIRST_WORDS, _LAST_WORDS = "wait, I look ", "at it first"
_PAUSE_S = 15.0  # of the person, with half a line at the prompt
_PATIENCE_S = 180.0
_FEW, _MANY = Tokens(input=20_000), {"claude": Tokens(input=150_000), "codex": Tokens(input=200_000)}
_CODEX_MORE = 'approval_policy = "never"\nsandbox_mode = "danger-full-access"\n'
_ONBOARDED = {  # else it asks the maker's server first, whatever its address is set to
    "hasCompletedOnboarding": True,
    "theme": "dark",
    "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
}


class Person:
    """Somebody at a terminal of tmux, who sees the pane and types with their own keys."""

    def __init__(self, scene: Scene) -> None:
        self._child, self._keys = pty.fork()
        if self._child == 0:
            words = ["tmux", "attach", "-t", "work"]
            os.execvpe(words[0], words, scene.env | {"TERM": "xterm-256color"})  # noqa: S606 - no shell is wanted
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        with contextlib.suppress(OSError):
            while os.read(self._keys, 1 << 16):
                pass

    def types(self, text: str, pause_s: float = 0.1) -> None:
        for letter in text:
            os.write(self._keys, letter.encode())
            time.sleep(pause_s)

    def leaves(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._keys)
        os.waitpid(self._child, 0)


class Desk:
    """The model of the program: it carries out one step for each call of the skill, and hears the person."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.calls: list[list[dict[str, Any]]] = []  # the turns that each call of the skill begins with
        self.heard: list[str] = []
        self.is_working, self.may_end = threading.Event(), threading.Event()

    def answers(self) -> Iterator[Callable[[dict[str, Any]], Turn]]:
        while True:
            yield self.answer

    def answer(self, body: dict[str, Any]) -> Turn:
        turns = [*body.get("messages", ()), *body.get("input", ())]
        last = json.dumps(turns[-1])
        if "tool_result" in last or "function_call_output" in last:
            return self._worked()
        text = " ".join(texts_of(_spoken(turns)))
        if _FIRST_WORDS in text:
            self.heard.append(text)
            return say("I wait.", tokens=_MANY[self.kind])
        self.calls.append(turns)
        command = f"{_BIN} tr"
        name, words = (
            ("Bash", {"command": command, "description": "work"})
            if self.kind == "claude"
            else ("exec_command", {"cmd": command})
        )
        return Turn(calls=(Call(name, words),), tokens=_FEW)

    def _worked(self) -> Turn:
        if len(self.calls) != 2:
            return say("One step is done.", tokens=_FEW)
        self.is_working.set()
        self.may_end.wait(_PATIENCE_S)
        return say("Two steps are done.", tokens=_MANY[self.kind])


def _spoken(turns: Sequence[dict[str, Any]]) -> list[Any]:
    """Return what the user said last: all after the last turn of the model."""
    roles = [turn.get("role") == "assistant" or "call" in turn.get("type", "") for turn in turns]
    last = max((at for at, is_model in enumerate(roles) if is_model), default=-1)
    return list(turns[last + 1 :])


class Scene:
    """A project with an open task of three steps, tmux with the program in it, and a HOME of their own."""

    def __init__(self, folder: Path, kind: str, url: str) -> None:
        self.folder, self.kind, self.root, self.home = folder, kind, folder / "my.project", folder / "home"
        for path in (self.root, self.home, folder / "temp", folder / "tmux"):
            path.mkdir()
        self.env = {
            "PATH": f"{_BIN.parent}:{programs()[kind].parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "TMPDIR": str(folder / "temp"),
            "TMUX_TMPDIR": str(folder / "tmux"),
            "LANG": "C.UTF-8",
            "REFLECTLOOP_TRUST_PROJECT": "1",
        }
        (self.root / "calc.py").write_text("def add(a, b):\n    return a + b\n")
        person = ("-c", "user.name=a", "-c", "user.email=a@localhost")
        self.words = self._claude(url) if kind == "claude" else self._codex(url)
        for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*person, "commit", "-qm", "a calculator")):
            self._run("git", *words)
        (folder / "design.json").write_text(json.dumps(_DESIGN))
        self.reflectloop("install", kind)
        if kind == "codex":
            self.reflectloop("install", kind, "--trust")
        self.reflectloop("tp", "--from", str(folder / "design.json"), "--yes")

    def _claude(self, url: str) -> list[str]:
        quiet = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING")
        self.env |= dict.fromkeys((*quiet, "DISABLE_AUTOUPDATER", "CLAUDE_CODE_MAX_RETRIES"), "1")
        self.env |= {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "dummy"}
        trusted = {str(self.root): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}}
        (self.home / ".claude.json").write_text(json.dumps(_ONBOARDED | {"projects": trusted}))
        return [str(programs()["claude"]), "--model", "claude-sonnet-4-5", "--allowedTools", "Bash(*)"]

    def _codex(self, url: str) -> list[str]:
        (self.home / ".codex").mkdir()
        settings = CODEX_SETTINGS.format(root=self.root, url=url)
        (self.home / ".codex" / "config.toml").write_text(_CODEX_MORE + settings)
        self.env |= {"CODEX_HOME": str(self.home / ".codex"), "FAKE_API_KEY": "dummy"}
        return [str(programs()["codex"])]

    def _run(self, *words: str) -> str:
        done = subprocess.run(words, cwd=self.root, env=self.env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def reflectloop(self, *words: str) -> str:
        return self._run(str(_BIN), *words)

    def tmux(self, words: Sequence[str]) -> CapturedOutput:
        done = subprocess.run(["tmux", *words], cwd=self.root, env=self.env, capture_output=True, check=False)
        return CapturedOutput(done.returncode, done.stdout, done.stderr)

    def open_terminal(self) -> None:
        size = ("-x", "110", "-y", "36")
        self.tmux(("-f", "/dev/null", "new-session", "-d", "-s", "work", *size, "-c", str(self.root), *self.words))
        self.tmux(("new-window", "-d", "-t", "work:1", "env", "PS1=❯ ", "bash", "--norc", "--noprofile"))
        self.until(lambda: self.view().is_idle, f"{self.kind} does not come to its prompt")

    def view(self) -> PaneView:
        return Pane(_PANE, self.tmux).look()

    def until(self, holds: Callable[[], object], otherwise: str) -> None:
        end = time.monotonic() + _PATIENCE_S
        while not holds():
            if time.monotonic() > end:
                raise RuntimeError(f"{otherwise}: {self.view().last_words}; {self.log()[-3:]}")
            time.sleep(0.2)

    def driver(self, pane: Pane) -> TerminalDriver:
        return TerminalDriver(pane, CLIENTS[self.kind], builtin_prices(), home=self.home)

    def try_start(self, pane: Pane) -> str:
        """Let a driver begin the next session in a pane; return why it did not."""
        project = ProjectState(self.root, in_terminal=True)
        try:
            self.driver(pane).start(project, DaemonFiles(project.folders), project.views()[0])
        except ReflectloopError as fault:
            return f"{fault.code}: {fault.message}"
        return ""

    def log(self) -> list[dict[str, Any]]:
        path = self.root / ".reflectloop" / "autoloop" / "daemon" / "log.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def start_daemon(self) -> subprocess.Popen[bytes]:
        words = ["autoloop", "start", "--foreground", "--tmux", _PANE, "--client", self.kind, "--cooldown", "2"]
        return subprocess.Popen([str(_BIN), *words, "--json"], cwd=self.root, env=self.env, stdout=subprocess.DEVNULL)


def _prove_edges(paper: Paper, scene: Scene, person: Person) -> None:
    """Try what must not be typed into, before the daemon is started."""
    refused = scene.try_start(Pane(_SHELL, scene.tmux))
    paper.claim(
        f"{scene.kind}: a shell whose prompt looks the same is not typed into",
        refused,
        holds=refused.startswith("AGENT_UNAVAILABLE") and "/tr" not in Pane(_SHELL, scene.tmux).look().last_words,
    )

    def interrupted(words: Sequence[str]) -> CapturedOutput:
        if words[0] == "send-keys" and "-l" in words:
            person.types("he", 0)
            scene.until(lambda: scene.view().typed == "he", "the person's letters do not come")
            done = scene.tmux(words)
            person.types("llo", 0)
            scene.until(lambda: (scene.view().typed or "").endswith("llo"), "the person's letters do not come")
            return done
        return scene.tmux(words)

    time.sleep(6)  # nobody has pressed a key for a while
    refused = scene.try_start(Pane(_PANE, interrupted))
    time.sleep(1)
    typed = scene.view().typed
    paper.claim(
        f"{scene.kind}: a person begins to type in the same moment, before and after our letters: theirs stay",
        f"{refused}; at the prompt: {typed!r}",
        holds=refused.startswith("LOCKED") and typed == "hello",
    )
    person.types("\x7f" * 5)
    scene.until(lambda: scene.view().typed == "", "the prompt is not empty again")


def _prove(paper: Paper, kind: str) -> None:
    desk = Desk(kind)
    with (
        tempfile.TemporaryDirectory(prefix="terminal-", ignore_cleanup_errors=True) as name,
        Model(desk.answers(), aside=True) as model,
    ):
        scene = Scene(Path(name).resolve(), kind, model.url)
        scene.open_terminal()
        person = Person(scene)
        try:
            _prove_edges(paper, scene, person)
            _prove_night(paper, scene, desk, person)
        finally:
            scene.tmux(("kill-server",))
            person.leaves()


def _prove_night(paper: Paper, scene: Scene, desk: Desk, person: Person) -> None:
    daemon = scene.start_daemon()
    try:
        scene.until(desk.is_working.is_set, "the second call of the skill does not come")
        person.types(_FIRST_WORDS, 0.3)
        desk.may_end.set()
        before = len(scene.log())
        scene.until(lambda: any(line["action"] == "end" for line in scene.log()), "no session ends")
        time.sleep(_PAUSE_S)
        half, meanwhile = scene.view().typed, scene.log()[before:]
        person.types(_LAST_WORDS + "\r", 0.3)
        scene.until(lambda: desk.heard, "the person is not heard")
        scene.until(lambda: len(desk.calls) == _STEPS, "the third call of the skill does not come")
        scene.until(lambda: any(line.get("standing") == "proven" for line in scene.log()), "the task is not proven")
        _judge(paper, scene, desk, half, meanwhile)
        scene.tmux(("kill-pane", "-t", _PANE))
    finally:
        daemon.terminate()
        daemon.wait()


def _judge(paper: Paper, scene: Scene, desk: Desk, half: str | None, meanwhile: list[dict[str, Any]]) -> None:
    kind, log = scene.kind, scene.log()
    starts = [line for line in log if line["action"] == "start"]
    clears = [line for line in log if line["action"] == "clear"]
    at = [line["action"] for line in log if line["action"] in ("start", "clear")]
    paper.claim(
        f"{kind}: the work is typed once for each step, and the session is cleared once, above 70 %",
        f"{' '.join(at)}; cleared at {clears[0]['used']} of {clears[0]['window']} tokens" if clears else str(at),
        holds=at == ["start", "start", "clear", "start"] and len(starts) == _STEPS,
    )
    fresh = desk.calls[-1]
    said = " ".join(texts_of(fresh))
    models = sum(turn.get("role") == "assistant" or "call" in turn.get("type", "") for turn in fresh)
    paper.claim(
        f"{kind}: after that the session continues from the brief: no earlier turn, and the brief of the task",
        f"{len(fresh)} message(s), {models} of a model; the brief is there: {'# Brief of task' in said}",
        holds=models == 0 and "# Brief of task" in said and _GOAL in said and "Two steps are done" not in said,
    )
    waits = [line for line in meanwhile if line["action"] in ("start", "clear")]
    paper.claim(
        f"{kind}: half a line of a person stands at the prompt for {_PAUSE_S:.0f} s: nothing is typed",
        f"at the prompt: {half!r}; typed by autoloop meanwhile: {len(waits)}",
        holds=half == _FIRST_WORDS.rstrip() and not waits,
    )
    heard = desk.heard[0]
    paper.claim(
        f"{kind}: the person's line reaches the model as they typed it, and then the work continues",
        f"heard {len(desk.heard)} time(s); the words stand there: {_FIRST_WORDS + _LAST_WORDS in heard}",
        holds=len(desk.heard) == 1 and _FIRST_WORDS + _LAST_WORDS in heard,
    )


def main() -> None:
    about = (
        f"The real programs ({', '.join(PINNED)}) wait in panes of tmux, with our hooks and skills; their models are "
        "scripts on loopback. `autoloop start --tmux` carries out a task of three steps in them. A person is attached "
        "to the same tmux by a terminal of their own and types with their own keys."
    )
    paper = Paper("terminal", about)
    for kind in sys.argv[1:] or ("claude", "codex"):
        _prove(paper, kind)
    if len(sys.argv) == 1:
        paper.write()


if __name__ == "__main__":
    main()
