"""Real Claude Code and Codex CLIs, in the box, against a model on loopback that says what a script tells it to."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from proof import clis
from proof.paper import ROOT, Paper

sys.path.insert(0, str(ROOT / "tests"))

from asking import Verdict, asking
from model import Call, Line, Model, Seen, Tokens, Turn, say
from place import Place, place_in
from reflectloop.agents import Bounds, Reply, bind, sessions
from reflectloop.config import AgentConfig, Config
from reflectloop.terms import Role
from reflectloop.world import process
from support import Repo

KEY = "dummy-" + hashlib.sha256(os.urandom(16)).hexdigest()  # stands for a key, and is looked for in every file
_MODELS = {"claude": "claude-sonnet-4-5", "codex": "gpt-5-codex"}


class Answer(NamedTuple):
    reply: Reply
    seen: list[Seen]
    seconds: float

    @property
    def told(self) -> str:
        word = f"`{self.reply.status}`" + (f" ({self.reply.reason[:110]})" if self.reply.reason else "")
        return f"{word}, {len(self.seen)} request(s), {self.seconds:.1f} s".replace("|", "/").replace("\n", " ")


class Scene:
    """A project, a decoy HOME with things in it, one workspace; and a CLI that is asked in it."""

    def __init__(self, folder: Path, kind: str, program: Path, place: Place, repo: Repo) -> None:
        self.folder, self.kind, self.program, self.place, self.repo = folder, kind, program, place, repo
        self.cancel = process.Cancel()
        place.hands.box.cancel = self.cancel

    @property
    def root(self) -> Path:
        return self.repo.path

    @property
    def home(self) -> Path:
        return self.folder / "agent"

    def ask(self, *script: Line, role: Role = Role.EXECUTOR, **more: Any) -> Answer:  # noqa: ANN401
        with Model(script, aside=True) as model:
            url = model.url + ("/v1" if self.kind == "codex" else "")
            words = {"run": (str(self.program),), "base_url": url, "model": _MODELS[self.kind], "key_env": "PROOF_KEY"}
            agent = AgentConfig.model_validate({"kind": self.kind, **words})
            backend = bind(self.kind, Config(agents={self.kind: agent}), {**os.environ, "PROOF_KEY": KEY})
            backend.probe()
            began = time.monotonic()
            reply = backend.run(self.asking(role, **more))
            return Answer(reply, model.seen, time.monotonic() - began)

    def asking(self, role: Role, **more: Any) -> Any:  # noqa: ANN401
        unlocked = more.pop("unlocked", False)
        made = asking(self.place, self.folder, role, **more)
        if unlocked:  # an executor's permissions where only the file system says no
            made.box.read_only = True
        return made

    def write(self, name: str) -> Turn:
        """The CLI's own way to make a file."""
        if self.kind == "claude":
            return _call("Write", file_path=str(self.root / name), content="x")
        return self.shell(f"echo x > {name}")

    def shell(self, command: str, tokens: Tokens | None = None) -> Turn:
        if self.kind == "claude":
            return _call("Bash", tokens, command=command, description="work")
        return _call("exec_command", tokens, cmd=command)

    def verdict(self, **said: str) -> Turn:
        if self.kind == "claude":
            return _call("StructuredOutput", **said)
        return say(str(said).replace("'", '"'))


def _call(name: str, tokens: Tokens | None = None, /, **arguments: str) -> Turn:
    return Turn(calls=(Call(name, arguments),), tokens=tokens or Tokens())


def _digest(folder: Path) -> dict[str, str]:
    """Every file below a folder with its content and time; a link is where it leads."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path)] = f"link {path.readlink()}"
        elif path.is_file():
            found[str(path)] = f"{path.stat().st_mtime_ns} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return found


def _holding(folder: Path, value: str) -> list[str]:
    plain = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path.relative_to(folder)) for path in plain if value.encode() in path.read_bytes()]


@contextlib.contextmanager
def _scene(kind: str, program: Path, top: str) -> Iterator[Scene]:
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-", dir=top, ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        for part in ("home/.ssh", "home/.claude", "home/.codex", "temp", "elsewhere"):
            (folder / part).mkdir(parents=True)
        (folder / "home/.ssh/id_canary").write_text("canary\n")
        (folder / "home/.claude/settings.json").write_text("{}\n")
        (folder / "home/.codex/config.toml").write_text('model = "decoy"\n')
        caller = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder / "home"), "TMPDIR": str(folder / "temp")}
        os.environ.clear()
        os.environ.update(caller)
        tempfile.tempdir = None
        repo = Repo(folder / "project")
        repo.path.mkdir()
        repo.git("init", "-q", "-b", "main")
        repo.write("calc.py", "def add(a, b):\n    return a - b\n")
        repo.commit("first")
        with place_in(repo, folder) as place:
            yield Scene(folder, kind, program, place, repo)


# What is claimed ------------------------------------------------------------------------------------------------------


def _planner(scene: Scene, paper: Paper) -> None:
    before = _digest(scene.place.repo)
    done = scene.ask(scene.write("EVIL.txt"), scene.shell("echo x > EVIL.txt"), say("Planned."), role=Role.PLANNER)
    by = "policy" if scene.kind == "claude" else "box"
    paper.claim(
        f"{scene.kind}: a planner is denied a write by its {by}, and the denial is told",
        f"{done.told}; denials: {'; '.join(one.replace(str(scene.folder), '…')[:90] for one in done.reply.denials)}",
        holds=done.reply.ok and len(done.reply.denials) == 2 and _digest(scene.place.repo) == before,
    )
    script = 'python3 -c "open(\\"EVIL.txt\\", \\"w\\")"; rm -f calc.py; echo x >> calc.py; git commit -qam x; true'
    done = scene.ask(scene.write("EVIL.txt"), scene.shell(script), say("Done."), unlocked=True)
    paper.claim(
        f"{scene.kind}: with every permission, in a read-only box, the tree stays as it was",
        f"{done.told}; {len(before)} files compared",
        holds=done.reply.ok and _digest(scene.place.repo) == before,
    )


def _executor(scene: Scene, paper: Paper) -> None:
    outside = [scene.folder / name for name in ("home", "elsewhere", "project")]
    before = {str(path): _digest(path) for path in outside}
    own = scene.folder / "elsewhere"
    tries = f"echo x > {own}/x; echo x >> ~/.ssh/id_canary; echo x > /etc/x; echo x > {scene.root}/inside.txt; true"
    edit = (
        [
            _call("Read", file_path=str(scene.root / "calc.py")),
            _call("Edit", file_path=str(scene.root / "calc.py"), old_string="a - b", new_string="a + b"),
        ]
        if scene.kind == "claude"
        else [scene.shell("sed -i 's/a - b/a + b/' calc.py")]
    )
    done = scene.ask(*edit, scene.shell(tries), say("Fixed."))
    changed = sorted(path.name for path in scene.place.repo.iterdir() if path.name != ".git")
    same = all(_digest(path) == before[str(path)] for path in outside)
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
    done = scene.ask(*[scene.shell("true")] * 9, bounds=Bounds(3, 60.0))
    paper.claim(
        f"{scene.kind}: more than 3 turns", done.told, holds=done.reply.status == "error" and len(done.seen) <= 4
    )
    done = scene.ask(say("Late.", wait_s=60), bounds=Bounds(9, 3.0))
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
    read = {"claude": sessions.of_claude, "codex": sessions.of_codex}[scene.kind]
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


def _no_key(scene: Scene, paper: Paper) -> None:
    found = _holding(scene.folder, KEY)
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
    _no_key,
)


def main() -> None:
    programs, top = clis.programs(), tempfile.gettempdir()
    about = (
        f"Real CLIs ({', '.join(clis.PINNED)}) in the box at its strongest, asked as the flow asks; the model is the "
    )
    paper = Paper(
        "agents", about + "tests' own, on loopback. Nothing of it needs the internet once they are installed."
    )
    for kind, program in programs.items():
        with _scene(kind, program, top) as scene:
            for claim in _CLAIMS:
                claim(scene, paper)
    paper.write()


if __name__ == "__main__":
    main()
