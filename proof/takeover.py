"""An executor and its engine are killed in mid-task; another backend continues from the brief alone, both ways."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from proof.clis import PINNED, programs
from proof.paper import ROOT, Paper

sys.path.insert(0, str(ROOT / "tests"))

from model import Call, Line, Model, Seen, Turn, say

_BIN = ROOT / ".venv" / "bin" / "reflectloop"
_MODELS = {"claude": "claude-sonnet-4-5", "codex": "gpt-5-codex"}
_UNSAID = "blue-heron-7"  # the killed agent said and wrote it; nothing recorded it
_FORMULA = "a + b + carry"
_GOAL = f"calc.add(a, b, carry) returns {_FORMULA}"
_BASE = "def add(a, b, carry=0):\n    return a - b\n"
_TEST = (
    "import unittest\n\nimport calc\n\n\nclass Add(unittest.TestCase):\n"
    "    def test_add(self):\n        self.assertEqual(calc.add(2, 5, 1), 8)\n"
)
_CHECK = "python3 -m unittest -q"
_DESIGN = {
    "title": "Mend add",
    "goal": _GOAL,
    "steps": [
        {"title": "Note it", "commands": ["echo noted > NOTES"], "checks": ["test -s NOTES"]},
        {"title": "Make add add", "details": "calc.add subtracts, and forgets the carry", "checks": [_CHECK]},
    ],
}
_REACHED_S = 180
_CLAIM = {"control": "step_done"}


class Hands:
    """How the model of one program makes it work: Claude Code edits by tools, Codex by its shell."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def shell(self, command: str, text: str | None = None) -> Turn:
        name, words = (
            ("Bash", {"command": command, "description": "work"})
            if self.kind == "claude"
            else ("exec_command", {"cmd": command})
        )
        return Turn(text=text, calls=(Call(name, words),))

    def write(self, formula: str) -> Turn:
        return self.shell(f"printf 'def add(a, b, carry=0):\\n    return {formula}\\n' > calc.py")

    def done(self, approach: str) -> tuple[Turn, ...]:
        claim = {**_CLAIM, "approach": approach}
        if self.kind == "claude":
            return Turn(calls=(Call("StructuredOutput", claim),)), say("done")
        full = {"summary": "", "question": "", "reason": "", "substeps": [], **claim}
        return (say(json.dumps(full)),)


class Given(NamedTuple):
    """What the agent that took over was given: its first request, and the brief at that moment."""

    request: Seen
    brief: str

    @property
    def prompt(self) -> str:
        return next((text for text in texts_of(self.request.body) if "# Brief of task" in text), "")

    @property
    def turns(self) -> list[dict[str, Any]]:
        body = self.request.body
        turns: list[dict[str, Any]] = [*body.get("messages", ()), *body.get("input", ())]
        return turns

    @property
    def begins_anew(self) -> bool:
        """Return whether nothing was said or done before: no turn of a model, no call of a tool."""
        return {(turn.get("type", "message"), turn.get("role") == "assistant") for turn in self.turns} == {
            ("message", False)
        }

    @property
    def said_by_user(self) -> list[str]:
        """Return the texts in the name of the user, besides the prompt."""
        users = [turn["content"] for turn in self.turns if turn.get("role") == "user"]
        texts = [
            text for content in users for text in texts_of(content) if text not in ("text", "input_text", "ephemeral")
        ]
        return [text for text in texts if text != self.prompt]


class Scene:
    """A project with a task of two steps, and both programs as agents."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "project"
        for name in ("project", "home", "temp"):
            (folder / name).mkdir()
        for name, text in {"calc.py": _BASE, "test_calc.py": _TEST}.items():
            (self.root / name).write_text(text)
        (folder / "design.json").write_text(json.dumps(_DESIGN))

    def env(self) -> dict[str, str]:
        return {
            "PATH": f"{_BIN.parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "temp"),
            "LANG": "C.UTF-8",
            "REFLECTLOOP_TRUST_PROJECT": "1",
            "PROOF_KEY": "dummy",
        }

    def commit(self) -> None:
        person = ("-c", "user.name=a", "-c", "user.email=a@localhost")
        for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*person, "commit", "-qm", "a calculator")):
            subprocess.run(["git", *words], cwd=self.root, env=self.env(), check=True, capture_output=True)

    def bind(self, kind: str, url: str) -> None:
        """Let this program be the executor, with a model at this address."""
        lines = [
            "[roles]",
            f'executor = "{kind}"',
            f"[agents.{kind}]",
            f'run = ["{programs()[kind]}"]',
            f'base_url = "{url}{"/v1" if kind == "codex" else ""}"',
            f'model = "{_MODELS[kind]}"',
            'key_env = "PROOF_KEY"',
        ]
        (self.root / "reflectloop.toml").write_text("\n".join(lines) + "\n")

    def reflectloop(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(_BIN), *words], cwd=self.root, env=self.env(), capture_output=True, text=True, check=False
        )

    def processes(self) -> list[int]:
        """Return the processes that this scene started, by their environment."""
        out = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"TMPDIR={self.folder}".encode() in (place / "environ").read_bytes() or (
                    str(self.folder).encode() in (place / "cmdline").read_bytes() and int(place.name) != os.getpid()
                ):
                    out.append(int(place.name))
        return out


# The story --------------------------------------------------------------------------------------------------------


def texts_of(value: Any) -> Iterator[str]:  # noqa: ANN401 - the body of a request
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)


def _killed(scene: Scene, kind: str) -> tuple[int, int]:
    """Let an agent fail once and begin again, and kill it and its engine; return how many were killed and are left."""
    hands, reached = Hands(kind), threading.Event()

    def hang(_body: dict[str, Any]) -> Turn:
        reached.set()
        return say("too late", wait_s=3600)

    begun = hands.shell(f"echo {_UNSAID} > half.txt", f"I will try {_UNSAID} now.")
    script: list[Line] = [hands.write("a * b"), *hands.done("multiply instead"), begun, hang]
    with Model(script, aside=True) as model:
        scene.bind(kind, model.url)
        scene.commit()
        planned = scene.reflectloop("tp", "--from", str(scene.folder / "design.json"), "--yes")
        if planned.returncode:
            raise RuntimeError(planned.stderr)
        with (scene.folder / "engine.log").open("wb") as log:
            engine = subprocess.Popen(
                [str(_BIN), "tr", "--all"],
                cwd=scene.root,
                env=scene.env(),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        if not reached.wait(_REACHED_S):
            engine.kill()
            raise RuntimeError((scene.folder / "engine.log").read_text() + f" after {len(model.seen)} requests")
        started = scene.processes()
        for process in [engine.pid, *(one for one in started if one != engine.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        engine.wait()
        deadline = time.monotonic() + 20
        while (left := scene.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
    return len(started), len(left)


def _taken_over(scene: Scene, kind: str) -> tuple[Given, list[Seen], subprocess.CompletedProcess[str]]:
    """Let the other program continue; its model knows only what its request says."""
    hands, given = Hands(kind), []
    steps: list[Turn] = []

    def work(body: dict[str, Any]) -> Turn:
        """Derive the work from the first request; then go on with it."""
        if not steps:
            brief = scene.reflectloop("brief").stdout
            given.append(Given(Seen("", {}, body, keyed=False), brief))
            goal = re.search(r"^BEGIN goal (\w+)\n(.*)\nEND goal \1$", given[0].prompt, re.MULTILINE)
            tried = re.search(r"^\+    return (.*)$", given[0].prompt, re.MULTILINE)
            formula = goal[2].split(" returns ")[1] if goal else "nothing"
            other = "" if tried is None or tried[1] == formula else f", not {tried[1]}"
            steps.extend([hands.write(formula), *hands.done(f"{formula}{other}")])
        return steps.pop(0) if len(steps) > 1 else steps[0]

    with Model([work] * 20, aside=True) as model:
        scene.bind(kind, model.url)
        done = scene.reflectloop("tr", "--all", "--json")
    if not given:
        raise RuntimeError(done.stdout + done.stderr)
    return given[0], model.seen, done


def _prove(paper: Paper, first: str, second: str) -> None:
    way = f"{first} → {second}"
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-", ignore_cleanup_errors=True) as name:
        scene = Scene(Path(name).resolve())
        killed, left = _killed(scene, first)
        paper.claim(
            f"{way}: kill -9 of the engine and of {first} in the middle of its second attempt",
            f"{killed} process(es) killed, {left} left",
            holds=killed > 1 and left == 0,
        )
        brief = scene.reflectloop("brief").stdout
        facts = json.loads(scene.reflectloop("brief", "--json").stdout)["data"]
        failed = [entry for entry in facts["history"] if entry["kind"] == "attempt_failed"]
        paper.claim(
            f"{way}: the brief has the step that is done, the failed attempt with its test, and the open step",
            f"{len(brief)} characters; steps done {facts['now']['steps_done']} of {facts['now']['steps_total']}; "
            f"failed: {failed[0]['failure']['places'][0]['test'] if failed else 'none'}; next `{facts['now']['next']}`",
            holds=len(failed) == 1
            and "test_add" in json.dumps(failed[0]["failure"])
            and facts["now"]["step"]["id"] == "2"
            and facts["now"]["next"] == "reflectloop tr --all"
            and _UNSAID not in brief
            and brief == scene.reflectloop("brief").stdout,
        )
        _prove_end(paper, scene, way, second, brief)


def _prove_end(paper: Paper, scene: Scene, way: str, second: str, before: str) -> None:
    given, seen, done = _taken_over(scene, second)
    (prompt,) = scene.root.glob(".reflectloop/tasks/*/steps/2/2/executor.prompt.md")
    rest = given.prompt.strip().replace(given.brief.strip(), "")
    others = [text for text in texts_of(given.request.body) if text != given.prompt]
    paper.claim(
        f"{way}: the first request to {second}'s model holds the brief, byte for byte, in the engine's prompt",
        f"prompt {len(given.prompt)} characters, brief {len(given.brief)}; the rest: the role, the request of the step",
        holds=given.prompt.strip() == prompt.read_text().strip()
        and given.brief.strip() in given.prompt
        and len(rest) < 4_000
        and "BEGIN request " in rest,
    )
    shared = next((at for at, pair in enumerate(zip(before, given.brief, strict=False)) if pair[0] != pair[1]), 0)
    paper.claim(
        f"{way}: the brief before and after the takeover begins with the same text",
        f"{shared} of {len(before)} characters",
        holds=shared > 0.6 * len(before),
    )
    heads = Counter(text.split()[0] for text in given.said_by_user)
    parts = [f"{count} `{head}` of {second}" for head, count in heads.items()]
    everything = json.dumps([request.body for request in seen])
    paper.claim(
        f"{way}: nothing else was given: no earlier turn, no word of the killed agent, no session",
        f"{len(seen)} request(s); {len(given.turns)} message(s) in the first, none of a model; "
        f"besides the prompt: {', '.join(parts) or 'nothing'}",
        holds=_UNSAID not in everything
        and given.begins_anew
        and all(text.startswith(("<environment_context>", "<system-reminder>")) for text in given.said_by_user)
        and "multiply instead" not in "".join(others)
        and not any(_GOAL in text for text in others),
    )
    applied = scene.reflectloop("apply", "--yes")
    line = (scene.root / "calc.py").read_text().splitlines()[-1].strip()
    paper.claim(
        f"{way}: {second} finishes: the gates pass, and the change applies",
        f"tr exits {done.returncode}, apply {applied.returncode}; `{line}`",
        holds=done.returncode == 0
        and applied.returncode == 0
        and f"return {_FORMULA}" in (scene.root / "calc.py").read_text()
        and (scene.root / "NOTES").exists()
        and not (scene.root / "half.txt").exists(),
    )


# A session that begins ---------------------------------------------------------------------------------------------


def _session(paper: Paper) -> None:
    """Start Claude Code by hand in a project with an open task, and look at what its first request holds."""
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-", ignore_cleanup_errors=True) as name:
        scene = Scene(Path(name).resolve())
        scene.commit()
        for words in (("tp", "--from", str(scene.folder / "design.json"), "--yes"), ("install", "claude")):
            done = scene.reflectloop(*words)
            if done.returncode:
                raise RuntimeError(done.stderr)
        with Model([say("I know.")] * 3, aside=True) as model:
            quiet = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING")
            more = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "dummy", "CLAUDE_CODE_MAX_RETRIES": "1"}
            more |= dict.fromkeys((*quiet, "DISABLE_AUTOUPDATER"), "1")
            done = subprocess.run(
                [str(programs()["claude"]), "-p", "What is to be done here?", "--model", _MODELS["claude"]],
                cwd=scene.root,
                env={**scene.env(), **more},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
        told = next((text for seen in model.seen for text in texts_of(seen.body) if "# Brief of task T-" in text), "")
        paper.claim(
            "a session of Claude Code that a person starts begins with the brief of the open task, by the hook",
            f"{len(model.seen)} request(s); the text with the brief has {len(told)} characters; exit {done.returncode}",
            holds=done.returncode == 0 and _GOAL in told and "Next command, while no engine works" in told,
        )


def main() -> None:
    named = ", ".join(PINNED)
    about = (
        f"Real CLIs ({named}) as executors of one task; their models are scripts on loopback that know only a request."
    )
    paper = Paper("takeover", about)
    for first, second in (("claude", "codex"), ("codex", "claude")):
        _prove(paper, first, second)
    _session(paper)
    paper.write()


if __name__ == "__main__":
    main()
