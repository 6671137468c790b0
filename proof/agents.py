"""Real Claude Code, Codex and Gemini CLIs, in the box, against a model on loopback that says what a script tells it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proof import clis, gemini
from proof.agent_case import (
    KEY,
    MODELS,
    Answer,
    Model,
    Scene,
    Tokens,
    Turn,
    Verdict,
    call,
    digest,
    holding,
    say,
    scene_of,
)
from proof.paper import Paper
from reflectloop import secrets
from reflectloop.agents import AgentLimits, sessions
from reflectloop.commands import agent_status
from reflectloop.config import SecretsConfig
from reflectloop.errors import SecretLeak
from reflectloop.terms import Role

# What is claimed ------------------------------------------------------------------------------------------------------


def _planner(scene: Scene, paper: Paper) -> None:
    before = digest(scene.place.repo)
    done = scene.ask(scene.write("EVIL.txt"), scene.shell("echo x > EVIL.txt"), say("Planned."), role=Role.PLANNER)
    by = "policy" if scene.kind == "claude" else "box"
    paper.claim(
        f"{scene.kind}: a planner is denied a write by its {by}, and the denial is told",
        f"{done.told}; denials: {'; '.join(one.replace(str(scene.folder), '…')[:90] for one in done.reply.denials)}",
        holds=done.reply.ok and len(done.reply.denials) == 2 and digest(scene.place.repo) == before,
    )
    script = 'python3 -c "open(\\"EVIL.txt\\", \\"w\\")"; rm -f calc.py; echo x >> calc.py; git commit -qam x; true'
    done = scene.ask(scene.write("EVIL.txt"), scene.shell(script), say("Done."), unlocked=True)
    paper.claim(
        f"{scene.kind}: with every permission, in a read-only box, the tree stays as it was",
        f"{done.told}; {len(before)} files compared",
        holds=done.reply.ok and digest(scene.place.repo) == before,
    )


def _executor(scene: Scene, paper: Paper) -> None:
    outside = [scene.folder / name for name in ("home", "elsewhere", "project")]
    before = {str(path): digest(path) for path in outside}
    own = scene.folder / "elsewhere"
    tries = f"echo x > {own}/x; echo x >> ~/.ssh/id_canary; echo x > /etc/x; echo x > {scene.root}/inside.txt; true"
    edit = (
        [
            call("Read", file_path=str(scene.root / "calc.py")),
            call("Edit", file_path=str(scene.root / "calc.py"), old_string="a - b", new_string="a + b"),
        ]
        if scene.kind == "claude"
        else [scene.shell("sed -i 's/a - b/a + b/' calc.py")]
    )
    done = scene.ask(*edit, scene.shell(tries), say("Fixed."))
    changed = sorted(path.name for path in scene.place.repo.iterdir() if path.name != ".git")
    same = all(digest(path) == before[str(path)] for path in outside)
    paper.claim(
        f"{scene.kind}: an executor edits in the workspace, and nothing outside it and its own HOME is touched",
        f"{done.told}; workspace: {', '.join(changed)}; decoy HOME, project and a folder beside it: "
        f"{sum(map(len, before.values()))} files the same by content and time",
        holds=done.reply.ok and same and "a + b" in scene.place.text("calc.py") and "inside.txt" in changed,
    )
    environment = scene.ask(scene.shell("env > env.txt; true"), say("Looked."))
    paper.claim(
        f"{scene.kind}: the commands it starts do not have its key in their environment",
        f"{environment.told}; {len(scene.place.text('env.txt').splitlines())} variables",
        holds=environment.reply.ok and KEY not in scene.place.text("env.txt"),
    )


def _shapes(scene: Scene, paper: Paper) -> None:
    def ask(*script: Turn, **more: Any) -> Answer:  # noqa: ANN401
        return scene.ask(*script, role=Role.REVIEWER, answer=Verdict, **more)

    right = scene.verdict(verdict="PASS", reason="it adds")
    done = ask(right, say("done"))
    paper.claim(f"{scene.kind}: an answer of the right shape", done.told, holds=done.reply.ok and bool(done.reply.data))
    if scene.kind == "claude":
        done = ask(scene.verdict(verdict="PASS"), right, say("done"))
        how, right_end = "it asks its model again", done.reply.ok
    else:
        wrong = ask(scene.verdict(verdict="PASS"))
        done = ask(right, session=wrong.reply.session_id)
        how, right_end = (
            "we refuse it, and the session is gone on with",
            wrong.reply.status == "error" and done.reply.ok,
        )
    paper.claim(
        f"{scene.kind}: a wrong shape, then the right one: {how}",
        f"{done.told}; {done.reply.data}",
        holds=right_end and done.reply.data == {"verdict": "PASS", "reason": "it adds"},
    )
    done = ask(*[say("It is fine.")] * 5)
    paper.claim(f"{scene.kind}: no such answer at all", done.told, holds=done.reply.status == "no_output")


def _faults(scene: Scene, paper: Paper) -> None:
    done = scene.ask(*[Turn(status=401, error="authentication_error")] * 20)
    paper.claim(f"{scene.kind}: 401", done.told, holds=done.reply.status == "denied" and "401" in done.reply.reason)
    done = scene.ask(*[Turn(status=529, error="overloaded_error")] * 20)
    paper.claim(f"{scene.kind}: 529", done.told, holds=done.reply.status == "error" and "529" in done.reply.reason)
    done = scene.ask(Turn(status=529, error="overloaded_error"), say("Back."))
    paper.claim(f"{scene.kind}: 529 once, then well", done.told, holds=done.reply.ok and done.reply.text == "Back.")
    done = scene.ask(*[Turn(text="half an ans", fault="cut")] * 20)
    paper.claim(f"{scene.kind}: streams that break off", done.told, holds=not done.reply.ok)
    done = scene.ask(*[Turn(fault="html")] * 20)
    paper.claim(f"{scene.kind}: a proxy that answers with HTML", done.told, holds=not done.reply.ok)
    done = scene.ask(*[say("")] * 20)
    paper.claim(f"{scene.kind}: an empty answer", done.told, holds=not done.reply.ok)
    done = scene.ask(say("x " * (5 << 20)))
    paper.claim(f"{scene.kind}: an answer of 10 MB", done.told, holds=done.reply.status == "error")
    done = scene.ask(nowhere=True)
    paper.claim(f"{scene.kind}: nobody there", done.told, holds=done.reply.status == "error" and done.seconds < 30)
    done = scene.ask(*[scene.shell("true")] * 9, bounds=AgentLimits(3, 60.0))
    paper.claim(
        f"{scene.kind}: more than 3 turns", done.told, holds=done.reply.status == "error" and len(done.seen) <= 4
    )
    done = scene.ask(say("Late.", wait_s=60), bounds=AgentLimits(9, 3.0))
    paper.claim(f"{scene.kind}: slow, past its time", done.told, holds=done.reply.status == "timeout")


def _cancelled(scene: Scene, paper: Paper) -> None:
    timer = threading.Timer(3.0, scene.cancel.set)
    timer.start()
    done = scene.ask(scene.shell("sleep 300 & sleep 301"), say("Late.", wait_s=60))
    timer.join()
    os.read(scene.cancel.reader, 1)  # so that the next is not cancelled too
    left = [one for one in _processes() if str(scene.folder) in one]
    paper.claim(
        f"{scene.kind}: cancelled after 3 s at work",
        f"{done.told}; {len(left)} process(es) left",
        holds=done.reply.reason == "cancelled" and not left and done.seconds < 20,
    )


def _processes() -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environ = (folder / "environ").read_bytes().decode("utf-8", "replace")
            if "REFLECTLOOP_COMMAND=" in environ:
                found.append(environ)
    return found


def _usage(scene: Scene, paper: Paper) -> None:
    first, last, again = Tokens(1500, 30, 100, 0), Tokens(2500, 50, 900, 0), Tokens(3100, 20, 400, 0)
    done = scene.ask(scene.shell("true", first), say("Fixed.", tokens=last))
    used = done.reply.usage
    wanted = [sum(pair) for pair in zip(first, last, strict=True)]
    paper.claim(
        f"{scene.kind}: what it used is what the model said",
        f"{used.input_tokens} in, {used.output_tokens} out, {used.cache_read_tokens} from the cache; "
        f"{done.reply.cost_usd} dollars",
        holds=[*used[:4]] == wanted and bool(done.reply.cost_usd),
    )
    session = str(done.reply.session_id)
    read = {"claude": sessions.claude_context, "codex": sessions.codex_context}[scene.kind]
    held = read(scene.home, session)
    paper.claim(
        f"{scene.kind}: its transcript says the context holds the last request",
        f"{held}, the model said {sum(last)}",
        holds=held is not None and held.used == sum(last),
    )
    more = scene.ask(say("Again.", tokens=again), session=session)
    known = "Fixed." in str(more.seen[-1].body)
    paper.claim(
        f"{scene.kind}: a session gone on with: the same id, the past in the prompt, this call's numbers",
        f"{more.told}; {more.reply.usage.tokens} tokens, the model said {sum(again)}",
        holds=more.reply.ok and more.reply.session_id == session and known and more.reply.usage.tokens == sum(again),
    )


def _check(scene: Scene, paper: Paper) -> None:
    """As a user sees it: `reflectloop agents --check`, on a project of its own."""
    project = scene.folder / "listed"
    project.mkdir()
    with Model([say("ready")], aside=True) as model:
        url = model.url + ("/v1" if scene.kind == "codex" else "")
        lines = [f'run = ["{scene.program}"]', f'base_url = "{url}"', f'model = "{MODELS[scene.kind]}"']
        settings = "\n".join(["[roles]", f'planner = "{scene.kind}"', f"[agents.{scene.kind}]", *lines, ""])
        (project / "reflectloop.toml").write_text(settings)
        found = agent_status.list_agents(project, check=True)
    (row,) = (one for one in found.rows if one.name == scene.kind)
    paper.claim(
        f"{scene.kind}: `agents --check` asks it for a word",
        f"version {row.probe.version}, {row.tried.status if row.tried else row.probe.problem}",
        holds=found.fault is None and row.tried is not None and row.tried.text == "ready",
    )


def _dug_out(scene: Scene, paper: Paper) -> None:
    """What a harmful command can do: the box does not keep it from the memory of the program that started it."""
    os.environ["PROOF_KEY"] = KEY
    secrets.use_detector(secrets.detector_for(SecretsConfig(), scene.root))
    seen = "no leak was seen"
    try:
        scene.ask(scene.shell("cat /proc/[0-9]*/environ | tr '\\0' '\\n'"), say("Found it."))
    except SecretLeak as fault:
        seen = f"{fault.code}: {fault.message}"
    logs = holding(scene.folder / "agent-logs", KEY)
    paper.claim(
        f"{scene.kind}: a command that prints the key out of the CLI's memory stops everything, and no log has it",
        f"{seen}; {len(logs)} log(s) hold it",
        holds="SECRET_LEAK" in seen and not logs,
    )


def _connections(scene: Scene, paper: Paper) -> None:
    strace = shutil.which("strace")
    if strace is None:
        paper.claim(f"{scene.kind}: it connects to the model and nowhere else", "not tried: no strace", holds=True)
        return
    watch = scene.folder / "watch"
    watch.write_text(f'#!/bin/sh\nexec {strace} -f -qq -e trace=connect -o "$HOME/connects.txt" "$@"\n')
    watch.chmod(0o755)
    done = scene.ask(scene.shell("true"), say("Fixed."), under=(str(watch),), unboxed=True)
    text = (scene.home / "connects.txt").read_text()
    found = re.findall(r"sin6?_port=htons\((\d+)\).*?inet_(?:addr|pton)\((?:AF_INET6, )?\"([^\"]+)\"", text)
    places = sorted({address for _, address in found})
    paper.claim(
        f"{scene.kind}: it connects to the model and nowhere else, by strace",
        f"{done.told}; {len(found)} connection(s) to {', '.join(places)}",
        holds=done.reply.ok and places == ["127.0.0.1"],
    )


_CONNECT = """python3 -c '
import socket
for family, address in ((socket.AF_INET, ("127.0.0.1", {port})), (socket.AF_UNIX, chr(0) + "{name}")):
    with socket.socket(family) as one:
        print("seen", one.connect_ex(address), file=open("reached.txt", "a"))
'"""


def _enclosed(scene: Scene, paper: Paper) -> None:
    """Another server on loopback, and an abstract socket as X11 and D-Bus have: neither is the model's address."""
    name = f"reflectloop-proof-{os.getpid()}-{scene.kind}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as hidden:
        hidden.bind(f"\0{name}")
        hidden.listen()
        done = scene.ask(scene.shell(_CONNECT.format(port=server.getsockname()[1], name=name)), say("Tried."))
    reached = scene.place.text("reached.txt").split("seen ")[1:]
    paper.claim(
        f"{scene.kind}: in the box, its model answers, and no other server or abstract socket can be connected to",
        f"{done.told}; error numbers {', '.join(word.strip() for word in reached)}",
        holds=done.reply.ok and len(reached) == 2 and "0" not in [word.strip() for word in reached],
    )


def _no_key(scene: Scene, paper: Paper) -> None:
    found = holding(scene.folder, KEY)
    count = sum(1 for path in scene.folder.rglob("*") if path.is_file())
    paper.claim(
        f"{scene.kind}: the key is in no file: workspace, HOMEs, logs, transcripts, .reflectloop",
        f"{count} files looked through; {', '.join(found) or 'none holds it'}",
        holds=not found and count > 50,
    )


_CLAIMS: tuple[Callable[[Scene, Paper], None], ...] = (
    _planner,
    _executor,
    _shapes,
    _faults,
    _cancelled,
    _usage,
    _check,
    _connections,
    _enclosed,
    _no_key,
    _dug_out,  # last: its own transcript holds the key then, and goes with the workspace
)


def main() -> None:
    programs, third, top = clis.programs(), gemini.program(), tempfile.gettempdir()
    named = ", ".join([*clis.PINNED, *([gemini.PINNED] if third else [])])
    about = f"Real CLIs ({named}) in the box at its strongest, asked as the flow asks; the model is ours, on loopback."
    paper = Paper("agents", f"{about} Nothing of it needs the internet once they are installed.")
    for kind, program in programs.items():
        with scene_of(kind, program, top) as scene:
            for claim in _CLAIMS:
                claim(scene, paper)
    if third:
        with scene_of("gemini", third, top, gemini.GeminiScene) as scene:
            gemini.prove(scene, paper)
    paper.write()


if __name__ == "__main__":
    main()
