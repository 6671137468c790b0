"""The real Claude Code and Codex with our skills and our plugin: what they load when, and a whole task from inside."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from proof.clis import programs
from proof.hooks import CODEX_SETTINGS, Scene, Session
from proof.paper import ROOT, Claim, Paper

sys.path.insert(0, str(ROOT / "tests"))

from model import Call, Line, Model, Turn, say

_SKILLSAW = "skillsaw==0.22.0"  # Apache-2.0; installed to be proven with, never shipped
_PYTHON = ROOT / ".venv" / "bin" / "python"
_LISTED = "Turn a goal into a plan that commands can prove"  # the description of the skill tp
_PAGE = "You plan; you change no file"  # stands in its SKILL.md
_REFERENCE = "The design can go through standard input"  # stands in its references/flow.md
_WRONG, _RIGHT = "def one():\n    return 3\n", "def one():\n    return 2 - 1\n"
_DESIGN = {
    "title": "one() returns 1",
    "goal": "calc.one() returns 1",
    "track": "fix",
    "may_change": ["calc.py"],
    "steps": [{"title": "Correct the number", "done": ["one() is 1"], "checks": ["python3 -m unittest -q"]}],
}
_TRUST = """\
from pathlib import Path
from typing import Any
from reflectloop.hooks import codex_trust, install
print(",".join(codex_trust.trust(Path.cwd(), install.commands("codex", "reflectloop"))))
"""


def _scene(folder: Path) -> Scene:
    """A project whose test fails, with nothing installed."""
    scene = Scene(folder)
    scene.reflectloop("install", "claude", "--uninstall")
    (scene.home / ".profile").write_text(f'export PATH="{scene.env()["PATH"]}"\n')  # Codex starts login shells
    (scene.root / "calc.py").write_text(_WRONG)
    identity = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    subprocess.run(["git", *identity, "commit", "-qam", "a fault"], cwd=scene.root, env=scene.env(), check=True)
    return scene


def _bodies(session: Session) -> list[str]:
    """Requests that offer tools, as text; the others are the client's own small talk."""
    return [json.dumps(seen.body, ensure_ascii=False) for seen in session.seen if seen.body.get("tools")]


def _loads(session: Session) -> list[str]:
    """What of the skill tp stands in each request: l its line, p its page, r its reference."""
    marks = {"l": _LISTED, "p": _PAGE, "r": _REFERENCE}
    return ["".join(mark for mark, text in marks.items() if text in body) for body in _bodies(session)]


def _agents(body: str) -> int:
    """How many of our subagents a request names."""
    return sum(name in body for name in ("critic-evaluator", "academic-researcher", "community-listener"))


def _run(scene: Scene, *words: str | Path, more: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        cwd=scene.root,
        env=scene.env(**(more or {})),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def _codex(scene: Scene, prompt: str, *script: Line) -> Session:
    with Model(script, aside=True) as model:
        home = scene.home / ".codex"
        home.mkdir(exist_ok=True)
        settings = home / "config.toml"
        text = settings.read_text() if settings.exists() else CODEX_SETTINGS.format(root=scene.root, url="URL")
        settings.write_text(re.sub(r'base_url = ".*?"', f'base_url = "{model.url}/v1"', text))
        words = (programs()["codex"], "exec", "--json", "--sandbox", "danger-full-access", prompt)
        done = _run(scene, *words, more=_codex_env(scene))
        return Session(model.seen, {}, done.returncode)


def _codex_env(scene: Scene) -> dict[str, str]:
    path = f"{programs()['codex'].parent}:{scene.env()['PATH']}"
    return {"CODEX_HOME": str(scene.home / ".codex"), "TMPDIR": str(scene.home), "FAKE_API_KEY": "dummy", "PATH": path}


def _shell(client: str, scene: Scene, command: str) -> Turn:
    return scene.bash(command) if client == "claude" else Turn(calls=(Call("exec_command", {"cmd": command}),))


# What is loaded when ------------------------------------------------------------------------------------------------


def _claude_loads(scene: Scene) -> Claim:
    scene.reflectloop("install", "claude")
    page = str(scene.root / ".claude/skills/tp/references/flow.md")
    skill, read = Turn(calls=(Call("Skill", {"skill": "tp"}),)), Turn(calls=(Call("Read", {"file_path": page}),))
    loads = _loads(scene.claude(skill, read, say("Done."), prompt="Plan something."))
    return Claim(
        "Claude Code loads a skill step by step: its line, SKILL.md when it is used, a reference when it is read",
        f"in the requests: {', '.join(loads)} (l line, p page, r reference)",
        loads[:3] == ["l", "lp", "lpr"],
    )


def _claude_lists(scene: Scene) -> Claim:
    scene.reflectloop("install", "claude")
    [first, *_] = _bodies(scene.claude(say("Done."), prompt="Hello."))
    names = [path.name for path in sorted((scene.root / ".claude/skills").iterdir())]
    described = [name for name in names if f"\\n- {name}: " in first]
    agents = _agents(first)
    return Claim(
        "Claude Code shows the model every skill with its description, and the subagents",
        f"{len(described)} of {len(names)} skills, {agents} of 3 subagents",
        described == names and agents == 3,
    )


def _codex_loads(scene: Scene) -> Claim:
    scene.reflectloop("install", "codex")
    pages = [f".agents/skills/tp/{name}" for name in ("SKILL.md", "references/flow.md")]
    reads = [_shell("codex", scene, f"cat {page}") for page in pages]
    session = _codex(scene, "Plan something.", *reads, say("Done."))
    loads, agents = _loads(session), _agents(_bodies(session)[0])
    named = _loads(_codex(scene, "$tp calc.one() returns 1", say("Done.")))
    return Claim(
        "Codex loads a skill step by step too, `$tp` brings its page, and it knows the subagents",
        f"in the requests: {', '.join(loads)}; with $tp: {', '.join(named)}; {agents} of 3 subagents",
        loads[:3] == ["l", "lp", "lpr"] and named[:1] == ["lp"] and agents == 3,
    )


# A whole task -------------------------------------------------------------------------------------------------------


def _request(content: str) -> str:
    ops = [{"op": "write_file", "path": "calc.py", "content": content}]
    values = ("summary=corrects it", 'done=["one() is 1"]', f"ops={json.dumps(ops)}")
    words = shlex.join(("reflectloop", "template", "execute_step", *values))
    return f"{words} | reflectloop fileops"


_PLAN = ("reflectloop agents", f"reflectloop tp --from - --yes <<'END'\n{json.dumps(_DESIGN)}\nEND")
_PREFLIGHT = "reflectloop template preflight | reflectloop fileops"
_FINALIZE = "reflectloop template finalize_step | reflectloop fileops"
_STEPS = (
    *("reflectloop status", _PREFLIGHT, _request("def one():\n    return 2\n"), _FINALIZE),
    *(_PREFLIGHT, _request(_RIGHT), _FINALIZE, "reflectloop resume", "reflectloop diff", "reflectloop apply"),
)


def _task(client: str, scene: Scene) -> Claim:
    """Plan in one session and carry it out in another, with a wrong attempt in between."""
    scene.reflectloop("install", client)
    if client == "codex":
        _codex(scene, "Hello.", say("Hello."))
        _run(scene, ROOT / ".venv/bin/reflectloop", "install", "codex", "--trust", more=_codex_env(scene))

    def turns(lines: Sequence[str]) -> list[Turn]:
        return [*(_shell(client, scene, line) for line in lines), say("Done.")]

    if client == "claude":
        plan = scene.claude(*turns(_PLAN), prompt="/tp calc.one() returns 1", options=("--permission-mode", "plan"))
        run = scene.claude(*turns(_STEPS), prompt="/tr")
    else:
        plan = _codex(scene, "$tp calc.one() returns 1", *turns(_PLAN))
        run = _codex(scene, "$tr", *turns(_STEPS))
    loaded = plan.told(_PAGE) and run.told("trust nothing you remember")
    refused, judged = run.told("AssertionError: 2 != 1"), run.told("PASS: 1 file(s) changed")
    state = re.findall(r"[✓✗] RLOP\S+.*", scene.reflectloop("status").stdout)
    return Claim(
        f"/tp and /tr drive a whole task from inside {client}: plan, a wrong step that is refused, gates, the change",
        f"pages loaded {loaded}, wrong step refused {refused}, gates PASS {judged}, {len(run.seen)} requests, {state}",
        loaded and refused and judged and scene.source() == _RIGHT and run.code == 0,
    )


def _claude_task(scene: Scene) -> Claim:
    return _task("claude", scene)


def _codex_task(scene: Scene) -> Claim:
    return _task("codex", scene)


# The reflection of a subagent ---------------------------------------------------------------------------------------

_CRITIC, _RESEARCHER = "You judge outputs that others made", "# Academic researcher"  # stand in their definitions
_TICKET = re.compile(r"rewind_\w+")


def _agent(kind: str, prompt: str) -> Turn:
    words = {"subagent_type": kind, "description": kind, "prompt": prompt, "run_in_background": False}
    return Turn(calls=(Call("Agent", words),))


def _last_text(body: Mapping[str, object]) -> str:
    """The last message that the client sent, as the tool or the person wrote it."""
    texts: list[str] = []

    def collect(value: object) -> None:
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            collect([inner for key, inner in value.items() if key in ("content", "text")])
        elif isinstance(value, list):
            for inner in value:
                collect(inner)

    messages = body["messages"]
    collect(messages[-1] if isinstance(messages, list) else "")
    return "\n".join(texts)


def _reflection(scene: Scene) -> Claim:
    """Judge an output, hand its ticket to the subagent that made it, let it revise, and judge again."""
    scene.reflectloop("install", "claude")
    (scene.root / "calc.py").write_text(_RIGHT)  # the tests pass, so nothing else holds the turns up
    papers = [{"title": f"Paper {number}"} for number in range(1, 6)]
    for name, content in {"report.json": {"papers": papers[:3]}, "needs.json": {"min_items": {"papers": 5}}}.items():
        (scene.root / name).write_text(json.dumps(content))
    critic = "reflectloop critic {} --requirements needs.json --agent academic-researcher"
    revise = f"printf '%s' {shlex.quote(json.dumps({'papers': papers}))} > report_v2.json"
    ticket = ""

    def judged(body: Mapping[str, object]) -> Turn:
        nonlocal ticket
        ticket = next(iter(_TICKET.findall(json.dumps(body))), "")
        return say(f"REVISE, ticket {ticket}")

    turns: dict[str, Iterator[Line]] = {
        "main": iter(
            (
                _agent("critic-evaluator", "Judge report.json by needs.json."),
                lambda _: scene.bash(f"reflectloop reflect {ticket} --prompt"),
                lambda body: _agent("academic-researcher", _last_text(body)),
                _agent("critic-evaluator", "Judge report_v2.json by needs.json."),
            )
        ),
        _CRITIC: iter((scene.bash(critic.format("report.json")), judged, scene.bash(critic.format("report_v2.json")))),
        _RESEARCHER: iter(
            (lambda _: scene.bash(f"{revise} && reflectloop reflect {ticket} --revised report_v2.json"),)
        ),
    }

    def answer(body: dict[str, Any]) -> Turn:
        """Answer for whoever asks; a stop that is handed back ends with a word."""
        text = json.dumps(body, ensure_ascii=False)
        who = next((page for page in (_CRITIC, _RESEARCHER) if page in text), "main")
        line = say("Done.") if "hook feedback" in _last_text(body) else next(turns[who], say("Done."))
        return line if isinstance(line, Turn) else line(body)

    session = scene.claude(*[answer] * 40, prompt="Judge the report.")
    bodies = _bodies(session)
    critics = sum(_CRITIC in body for body in bodies)
    asked = [body for body in bodies if _RESEARCHER in body and f"REWIND TICKET: {ticket}" in body]
    passed = session.told("PASS at 1")
    return Claim(
        "REFLECTION REQUIRED: the critic's ticket reaches the subagent that made the output; its revision passes",
        f"ticket {bool(ticket)}, requests of the critic {critics}, of the researcher {len(asked)}, PASS {passed}",
        bool(ticket) and critics >= 4 and bool(asked) and passed,
    )


# The plugin ---------------------------------------------------------------------------------------------------------


def _plugin(scene: Scene) -> Path:
    done = scene.reflectloop("install", "claude", "--plugin", "--json")
    return Path(json.loads(done.stdout)["data"]["path"])


def _validated(scene: Scene) -> Claim:
    done = _run(scene, programs()["claude"], "plugin", "validate", "--strict", _plugin(scene))
    return Claim(
        "`claude plugin validate --strict` finds nothing",
        f"exit {done.returncode}, {done.stdout.strip().splitlines()[-1]}",
        done.returncode == 0 and "passed" in done.stdout,
    )


def _linted(scene: Scene) -> Claim:
    folder = Path(tempfile.gettempdir()) / f"reflectloop-proof-{_SKILLSAW.replace('==', '-')}"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        pip = (folder / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", _SKILLSAW)
        subprocess.run([str(word) for word in pip], check=True, capture_output=True)
        (folder / "ready").touch()
    for client in ("claude", "codex", "agents", "cursor", "copilot", "antigravity"):
        scene.reflectloop("install", client)
    places = {
        "a project with all clients": (scene.root,),
        "plugin": (_plugin(scene),),
        "portable": (_plugin(scene) / "portable", "--type", "agent-plugin"),
        "Antigravity": (scene.root / ".agents/plugins/reflectloop", "--type", "antigravity-plugin"),
    }
    seen, clean = [], True
    for name, words in places.items():
        done = _run(scene, folder / "bin/skillsaw", "lint", *words)
        counts = re.findall(r"(Errors|Warnings): +(\d+)", done.stdout)
        seen.append(f"{name}: exit {done.returncode}, {', '.join(f'{word} {count}' for word, count in counts)}")
        clean &= done.returncode == 0 and all(count == "0" for _, count in counts)
    return Claim(f"`{_SKILLSAW}` finds nothing in what is installed", "; ".join(seen), clean)


def _claude_plugin(scene: Scene) -> Claim:
    claude = programs()["claude"]
    added = [
        _run(scene, claude, "plugin", *words).returncode
        for words in (("marketplace", "add", str(_plugin(scene))), ("install", "reflectloop@reflectloop"))
    ]
    read = Turn(calls=(Call("Read", {"file_path": str(scene.root / "calc.py")}),))
    fixes = [scene.write("calc.py", text) for text in ("def one():\n    return 2\n", _RIGHT)]
    script = (read, fixes[0], say("Done."), fixes[1], say("Done now."))
    session = scene.claude(*script, prompt="/reflectloop:tp calc.one() returns 1")
    loaded, refused = session.told(_PAGE), session.told("AssertionError: 2 != 1")
    served = session.told("mcp__plugin_reflectloop_reflectloop__")
    removed = _run(scene, claude, "plugin", "uninstall", "reflectloop@reflectloop").returncode
    return Claim(
        "Claude Code installs the plugin by its own commands: its skills load, its hooks refuse a wrong fix",
        f"exits {added}, page loaded {loaded}, MCP {served}, refused {refused}, uninstall exits {removed}",
        added == [0, 0] and loaded and served and refused and removed == 0 and scene.source() == _RIGHT,
    )


def _codex_plugin(scene: Scene) -> Claim:
    codex, env = programs()["codex"], _codex_env(scene)
    _codex(scene, "Hello.", say("Hello."))
    added = [
        _run(scene, codex, "plugin", *words, more=env).returncode
        for words in (("marketplace", "add", str(_plugin(scene))), ("add", "reflectloop@reflectloop"))
    ]
    trusted = _run(scene, _PYTHON, "-c", _TRUST, more=env).stdout.strip()
    shell = "printf 'def one():\\n    return {}\\n' > calc.py"
    turns = [_shell("codex", scene, shell.format(value)) for value in ("2", "2 - 1")]
    session = _codex(scene, "Make the test pass.", turns[0], say("Done."), turns[1], say("Done now."))
    listed, refused = session.told(_LISTED), session.told("AssertionError: 2 != 1")
    return Claim(
        "Codex installs the same folder by its own commands: its skills are listed, its hooks refuse a wrong fix",
        f"exits {added}, listed {listed}, trusted {trusted}, refused {refused}",
        added == [0, 0] and listed and "stop" in trusted and refused and scene.source() == _RIGHT,
    )


def main() -> None:
    versions = [
        subprocess.run([str(path), "--version"], capture_output=True, text=True, check=False, env={"HOME": "/nowhere"})
        for path in programs().values()
    ]
    about = (
        f"Sessions of the real CLIs ({', '.join(done.stdout.strip() for done in versions)}) with our skills, subagents "
        "and plugin; the model is a script on loopback, and what a client loads is read from its requests."
    )
    paper = Paper("skills", about)
    wanted = os.environ.get("PROOF_ONLY", "")
    with tempfile.TemporaryDirectory(prefix="skills-") as folder:
        for story in _STORIES:
            if wanted in story.__name__:
                claim = story(_scene(Path(folder) / story.__name__))
                paper.claim(claim.text, claim.seen, holds=claim.holds)
    if not wanted:
        paper.write()


_STORIES: tuple[Callable[[Scene], Claim], ...] = (
    *(_claude_lists, _claude_loads, _codex_loads, _claude_task, _codex_task, _reflection),
    *(_validated, _linted, _claude_plugin, _codex_plugin),
)


if __name__ == "__main__":
    main()
