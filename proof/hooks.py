"""Real sessions of Claude Code, Codex and Copilot CLI with our hooks: what they may do, and when they may end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from proof.clis import copilot, programs
from proof.paper import ROOT, Claim, Paper

sys.path.insert(0, str(ROOT / "tests"))

from model import Call, Line, Model, Seen, Turn, say

_KEY = "AKIA" + "QYLPMN5HFIQR7XYA"  # looks like a key, and is none
_TEST = (
    "import unittest\n\nimport calc\n\n\nclass Calc(unittest.TestCase):\n"
    "    def test_one(self):\n        self.assertEqual(calc.one(), 1)\n"
)
_BASE = "def one():\n    return 1\n"
_BIN = ROOT / ".venv" / "bin" / "reflectloop"


class Session(NamedTuple):
    """One session of the client: the requests that the model saw, and the last line that the client printed."""

    seen: list[Seen]
    result: dict[str, object]
    code: int

    def told(self, text: str) -> bool:
        """Return True if the client told the model this."""
        return any(text in json.dumps(request.body, ensure_ascii=False) for request in self.seen)


class Scene:
    """A project with hooks, and a home folder of its own for the client."""

    def __init__(self, folder: Path) -> None:
        self.root, self.home = folder / "project", folder / "home"
        self.root.mkdir(parents=True)
        self.home.mkdir()
        (self.root / "calc.py").write_text(_BASE)
        (self.root / "test_calc.py").write_text(_TEST)
        for words in (
            ("init", "-q", "-b", "main"),
            ("add", "-A"),
            ("-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-qm", "a calculator"),
        ):
            subprocess.run(["git", *words], cwd=self.root, env=self.env(), check=True, capture_output=True)
        self.reflectloop("install", "claude")

    def env(self, **more: str) -> dict[str, str]:
        return {
            "PATH": f"{_BIN.parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            **more,
        }

    def reflectloop(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(_BIN), *words], cwd=self.root, env=self.env(), capture_output=True, text=True, check=False
        )

    def claude(
        self,
        *script: Line,
        options: Sequence[str] = ("--permission-mode", "acceptEdits"),
        prompt: str = "Make the test pass.",
    ) -> Session:
        with Model(script, aside=True) as model:
            more = {
                "ANTHROPIC_BASE_URL": model.url,
                "ANTHROPIC_API_KEY": "dummy",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_TELEMETRY": "1",
                "DISABLE_ERROR_REPORTING": "1",
                "DISABLE_AUTOUPDATER": "1",
                "CLAUDE_CODE_MAX_RETRIES": "1",
                "API_TIMEOUT_MS": "60000",
            }
            command = [str(programs()["claude"]), "-p", prompt, "--output-format", "stream-json"]
            command += ["--verbose", "--model", "claude-sonnet-4-5", "--allowedTools", "Bash(*)", *options]
            done = subprocess.run(
                command,
                cwd=self.root,
                env=self.env(**more),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=600,
            )
            lines = [json.loads(line) for line in done.stdout.decode().splitlines() if line.startswith("{")]
            return Session(model.seen, lines[-1] if lines else {}, done.returncode)

    def write(self, name: str, content: str) -> Turn:
        return Turn(calls=(Call("Write", {"file_path": str(self.root / name), "content": content}),))

    def bash(self, command: str) -> Turn:
        return Turn(calls=(Call("Bash", {"command": command, "description": "work"}),))

    def source(self) -> str:
        return (self.root / "calc.py").read_text()

    def latched(self) -> bool:
        return (self.root / ".reflectloop" / "latch.json").exists()


_RIGHT = "def one():\n    return 2 - 1\n"
_WRONG = "def one():\n    return 3\n"


def _read(scene: Scene) -> Turn:
    return Turn(calls=(Call("Read", {"file_path": str(scene.root / "calc.py")}),))


def _stop_until_right(scene: Scene) -> Claim:
    session = scene.claude(
        _read(scene), scene.write("calc.py", _WRONG), say("Done."), scene.write("calc.py", _RIGHT), say("Done now.")
    )
    refused = session.told("AssertionError: 3 != 1")
    return Claim(
        "a wrong fix: the stop is refused with the failing test; the right one ends the session",
        f"told {refused}, {len(session.seen)} requests, `{session.result.get('subtype')}`, locked {scene.latched()}",
        refused and session.code == 0 and scene.source() == _RIGHT and not scene.latched(),
    )


def _three_refusals(scene: Scene) -> Claim:
    session = scene.claude(_read(scene), scene.write("calc.py", _WRONG), *[say("Done.")] * 6)
    verify = scene.reflectloop("verify")
    return Claim(
        "three refusals end the session, and the project is locked",
        f"{len(session.seen)} requests, locked {scene.latched()}, then `verify` exits {verify.returncode}",
        scene.latched() and verify.returncode != 0 and "could not prove" in verify.stderr,
    )


def _test_by_tool(scene: Scene) -> Claim:
    path = scene.root / "test_calc.py"
    read = Turn(calls=(Call("Read", {"file_path": str(path)}),))
    session = scene.claude(read, scene.write("test_calc.py", _TEST.replace("1)", "2)")), say("Done."))
    return Claim(
        "an edit of the test that judges is not carried out without a person",
        f"told {session.told('judges this work')}, test unchanged {path.read_text() == _TEST}",
        session.told("judges this work") and path.read_text() == _TEST,
    )


def _test_by_shell(scene: Scene) -> Claim:
    session = scene.claude(scene.bash("sed -i 's/, 1)/, 2)/' test_calc.py"), say("Done."), say("Still done."))
    told = session.told("not proven")
    passed = scene.reflectloop("verify", "--session", "latest").returncode == 0
    return Claim(
        "a test weakened through the shell does not pass the stop",
        f"told {told}, verify passes {passed}",
        told and not passed,
    )


def _leak(scene: Scene) -> Claim:
    half = len(_KEY) // 2
    session = scene.claude(scene.bash(f"printf '%s%s' {_KEY[:half]} {_KEY[half:]}"), say("Done."))
    return Claim(
        "a key in a tool's output is pointed out",
        f"told {session.told('A secret is in the output')}",
        session.told("A secret is in"),
    )


def _forbidden(scene: Scene) -> Claim:
    keep = scene.home / "keep"
    keep.write_text("x")
    session = scene.claude(scene.bash("rm -rf ~/keep ~"), say("Done."))
    return Claim(
        "a forbidden command is not run",
        f"told {session.told('rm.machine')}, file there {keep.exists()}",
        keep.exists(),
    )


def _planner(scene: Scene) -> Claim:
    session = scene.claude(scene.bash("echo x > PLAN"), say("Planned."), options=("--permission-mode", "plan"))
    there = (scene.root / "PLAN").exists()
    return Claim(
        "a planner cannot write", f"told {session.told('planner may not write')}, file there {there}", not there
    )


def _dead_hook(scene: Scene, how: str) -> Claim:
    """Replace our program by one that dies, hangs, prints rubbish or is missing."""
    settings = scene.root / ".claude" / "settings.json"
    bad = scene.home / "bad"
    scripts = {
        "killed": "kill -9 $$",
        "rubbish": "echo '{{{'; exit 1",
        "missing": None,
    }
    text = scripts[how]
    if text is not None:
        bad.write_text(f"#!/bin/sh\n{text}\n")
        bad.chmod(0o755)
    settings.write_text(
        settings.read_text()
        .replace("reflectloop hook Stop", f"{bad} hook Stop")
        .replace(f"{_BIN.parent}/{bad}", str(bad))
    )
    session = scene.claude(_read(scene), scene.write("calc.py", _WRONG), say("Done."), say("Done again."))
    told = session.told("reflectloop could not answer")
    proven = any(
        json.loads(path.read_text()).get("outcome") == "PASS"
        for path in (scene.root / ".reflectloop").glob("verifications/*/receipt.json")
    )
    return Claim(
        f"the stop hook is {how}: the stop is refused once, and nothing is proven",
        f"told {told}, a receipt that passes {proven}",
        told and not proven,
    )


def _uninstalled(scene: Scene) -> Claim:
    scene.claude(_read(scene), scene.write("calc.py", _RIGHT), say("Done."))
    scene.reflectloop("install", "claude", "--uninstall")
    left = (scene.root / ".claude").exists()
    return Claim("uninstall leaves nothing", f".claude there {left}", not left)


def _codex(scene: Scene) -> Claim:
    """Codex skips our hooks until it trusts them; then a wrong fix does not end its turn."""
    home = scene.home / ".codex"
    home.mkdir()
    shell = "printf 'def one():\\n    return {}\\n' > calc.py"
    turns = [Turn(calls=(Call("exec_command", {"cmd": shell.format(value)}),)) for value in ("3", "2 - 1")]
    with Model([turns[0], say("Done."), turns[1], say("Done now.")], aside=True) as model:
        (home / "config.toml").write_text(CODEX_SETTINGS.format(root=scene.root, url=model.url))
        more = {"CODEX_HOME": str(home), "TMPDIR": str(scene.home), "FAKE_API_KEY": "dummy"}
        more["PATH"] = f"{programs()['codex'].parent}:{scene.env()['PATH']}"

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                words,
                cwd=scene.root,
                env=scene.env(**more),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=600,
            )

        run(str(_BIN), "install", "codex")
        before = run(str(_BIN), "install", "codex", "--check").returncode
        run(str(_BIN), "install", "codex", "--trust")
        after = run(str(_BIN), "install", "codex", "--check").returncode
        codex = str(programs()["codex"])
        done = run(codex, "exec", "--json", "--sandbox", "danger-full-access", "Make the test pass.")
        told = Session(model.seen, {}, done.returncode).told("AssertionError: 3 != 1")
    return Claim(
        f"{run(codex, '--version').stdout.strip()}: --check fails until it trusts our hooks, and then refuses",
        f"--check exits {before}, then {after}; told {told}, {len(model.seen)} requests",
        before != 0 and after == 0 and told and scene.source() == _RIGHT,
    )


def _copilot_session(scene: Scene, *script: Line) -> Session:
    """Run a session of Copilot CLI with our hooks."""
    with Model(script) as model:
        more = {
            "COPILOT_PROVIDER_BASE_URL": model.url,
            "COPILOT_PROVIDER_TYPE": "anthropic",
            "COPILOT_PROVIDER_API_KEY": "dummy",
            "COPILOT_MODEL": "claude-sonnet-4-20250514",
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
        }
        words = ("-p", "Make the test pass.", "--allow-all-tools", "--trust-folder", "--disable-client-telemetry")
        done = subprocess.run(
            [str(copilot()), *words],
            cwd=scene.root,
            env=scene.env(**more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=600,
        )
        return Session(model.seen, {}, done.returncode)


def _install_copilot(scene: Scene) -> None:
    """Install Copilot's hooks alone: it would run Claude Code's too."""
    scene.reflectloop("install", "claude", "--uninstall")
    scene.reflectloop("install", "copilot")


def _by_copilot(command: str) -> Turn:
    return Turn(calls=(Call("bash", {"command": command, "description": "work"}),))


_COPILOT_EDIT = "printf 'def one():\\n    return {}\\n' > calc.py"


def _copilot(scene: Scene) -> Claim:
    _install_copilot(scene)
    turns = [_by_copilot(_COPILOT_EDIT.format(value)) for value in ("3", "2 - 1")]
    session = _copilot_session(scene, turns[0], say("Done."), turns[1], say("Done now."))
    told = session.told("AssertionError: 3 != 1")
    version = subprocess.run(
        [str(copilot()), "--version"],
        env=scene.env(COPILOT_OFFLINE="true"),
        capture_output=True,
        text=True,
        check=False,
    )
    return Claim(
        f"{version.stdout.splitlines()[0].strip('.')}: a wrong fix does not end its turn, the right one does",
        f"told {told}, {len(session.seen)} requests",
        told and session.code == 0 and scene.source() == _RIGHT,
    )


def _copilot_before_tools(scene: Scene) -> Claim:
    _install_copilot(scene)
    keep, test = scene.home / "keep", scene.root / "test_calc.py"
    keep.write_text("x")
    edit = Call("edit", {"path": str(test), "old_str": "one(), 1)", "new_str": "one(), 2)"})
    session = _copilot_session(scene, _by_copilot("rm -rf ~/keep ~"), Turn(calls=(edit,)), say("Done."))
    kept = keep.exists() and test.read_text() == _TEST
    told = session.told("rm.machine"), session.told("judges this work")
    return Claim(
        "Copilot: a forbidden command and an edit of the test that judges are not carried out",
        f"told {told[0]}, {told[1]}; both files as before {kept}",
        all(told) and kept,
    )


def _copilot_dead_hook(scene: Scene) -> Claim:
    """Let the stop hook die: Copilot lets a turn end whose hook fails, so the entry itself refuses once."""
    _install_copilot(scene)
    settings, bad = scene.root / ".github" / "hooks" / "reflectloop.json", scene.home / "bad"
    bad.write_text("#!/bin/sh\necho '{{{'\nkill -9 $$\n")
    bad.chmod(0o755)
    settings.write_text(settings.read_text().replace("reflectloop hook agentStop", f"{bad} hook agentStop"))
    session = _copilot_session(scene, _by_copilot(_COPILOT_EDIT.format(3)), say("Done."), say("Done again."))
    told = session.told("reflectloop could not answer")
    receipts = list((scene.root / ".reflectloop").glob("verifications/*/receipt.json"))
    proven = any(json.loads(path.read_text()).get("outcome") == "PASS" for path in receipts)
    return Claim(
        "Copilot: a stop hook that is killed refuses the stop once, and nothing is proven",
        f"told {told}, {len(session.seen)} requests, a receipt that passes {proven}",
        told and not proven,
    )


CODEX_SETTINGS = """\
model = "gpt-5-codex"
model_provider = "fake"
check_for_update_on_startup = false
[analytics]
enabled = false
[projects."{root}"]
trust_level = "trusted"
[model_providers.fake]
name = "fake"
base_url = "{url}/v1"
env_key = "FAKE_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 0
"""


def main() -> None:
    shown = subprocess.run([str(programs()["claude"]), "--version"], capture_output=True, text=True, check=False)
    clients = f"Claude Code ({shown.stdout.strip()}), Codex and Copilot CLI"
    about = f"Sessions of the real {clients} with our hooks; the model is a script."
    paper = Paper("hooks", about)
    wanted = os.environ.get("PROOF_ONLY", "")
    with tempfile.TemporaryDirectory(prefix="hooks-") as folder:
        for story in _STORIES:
            if wanted in story.__name__:
                claim = story(Scene(Path(folder) / story.__name__))
                paper.claim(claim.text, claim.seen, holds=claim.holds)
        for how in ("killed", "rubbish", "missing"):
            if wanted in f"_dead_{how}":
                claim = _dead_hook(Scene(Path(folder) / how), how)
                paper.claim(claim.text, claim.seen, holds=claim.holds)
    if not wanted:
        paper.write()


_STORIES = (
    *(_stop_until_right, _three_refusals, _test_by_tool, _test_by_shell),
    *(_leak, _forbidden, _planner, _uninstalled, _codex),
    *(_copilot, _copilot_before_tools, _copilot_dead_hook),
)


if __name__ == "__main__":
    main()
