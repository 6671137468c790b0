"""A project, a decoy HOME and one workspace, and a real agent that is asked in it as the flow asks."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from proof.paper import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from agent_call import Verdict, asking
from fileops_workspace import Place, place_in
from model import Call, Line, Model, Seen, Tokens, Turn, say
from reflectloop.agents import AgentRequest, Reply, bind
from reflectloop.config import AgentConfig, Config
from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.system import process
from reflectloop.terms import Isolation, Role
from support import Repo

__all__ = ["Line", "Model", "Seen", "Tokens", "Turn", "Verdict", "say"]  # what the claims are told with

KEY = hashlib.sha256(os.urandom(16)).hexdigest()  # stands for a key, and is looked for in every file
_NOBODY = "http://127.0.0.1:9"
MODELS = {"claude": "claude-sonnet-4-5", "codex": "gpt-5-codex", "gemini": "gemini-2.5-pro"}


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

    def ask(
        self,
        *script: Line,
        role: Role = Role.EXECUTOR,
        under: tuple[str, ...] = (),
        nowhere: bool = False,
        **more: Any,  # noqa: ANN401
    ) -> Answer:
        with Model(script, aside=True) as model:
            url = (_NOBODY if nowhere else model.url) + ("/v1" if self.kind == "codex" else "")
            run = (*under, str(self.program))
            words = {"run": run, "base_url": url, "model": MODELS[self.kind], "key_env": "PROOF_KEY"}
            agent = AgentConfig.model_validate({"kind": self.kind, **words})
            backend = bind(self.kind, Config(agents={self.kind: agent}), {**os.environ, "PROOF_KEY": KEY})
            backend.probe()
            began = time.monotonic()
            reply = backend.run(self.asking(role, **more))
            return Answer(reply, model.seen, time.monotonic() - began)

    def asking(self, role: Role, **more: Any) -> AgentRequest:  # noqa: ANN401
        unlocked, unboxed = more.pop("unlocked", False), more.pop("unboxed", False)
        made = asking(self.place, self.folder, role, **more)
        if unlocked:  # an executor's permissions where only the file system says no
            made.box.read_only = True
        if unboxed:  # nobody can be traced in a box
            made.box.wall = IsolationLevel(Isolation.WORKSPACE, "nothing")
        return made

    def write(self, name: str) -> Turn:
        """The CLI's own way to make a file."""
        if self.kind == "claude":
            return call("Write", file_path=str(self.root / name), content="x")
        return self.shell(f"echo x > {name}")

    def shell(self, command: str, tokens: Tokens | None = None) -> Turn:
        if self.kind == "claude":
            return call("Bash", tokens, command=command, description="work")
        return call("exec_command", tokens, cmd=command)

    def verdict(self, **said: str) -> Turn:
        if self.kind == "claude":
            return call("StructuredOutput", **said)
        return say(str(said).replace("'", '"'))


def call(name: str, tokens: Tokens | None = None, /, **arguments: str) -> Turn:
    return Turn(calls=(Call(name, arguments),), tokens=tokens or Tokens())


def digest(folder: Path) -> dict[str, str]:
    """Every file below a folder with its content and time; a link is where it leads."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path)] = f"link {path.readlink()}"
        elif path.is_file():
            found[str(path)] = f"{path.stat().st_mtime_ns} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return found


def holding(folder: Path, value: str) -> list[str]:
    plain = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path.relative_to(folder)) for path in plain if value.encode() in path.read_bytes()]


@contextlib.contextmanager
def scene_of(kind: str, program: Path, top: str, made: type[Scene] = Scene) -> Iterator[Scene]:
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-", dir=top, ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        for part in ("home/.ssh", "home/.claude", "home/.codex", "temp", "elsewhere"):
            (folder / part).mkdir(parents=True)
        (folder / "home/.ssh/id_canary").write_text("canary\n")
        (folder / "home/.claude/settings.json").write_text("{}\n")
        (folder / "home/.codex/config.toml").write_text('model = "decoy"\n')
        caller = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder / "home"), "TMPDIR": str(folder / "temp")}
        os.environ.clear()
        os.environ.update(caller, REFLECTLOOP_TRUST_PROJECT="1")  # the settings of the project are the proof's own
        tempfile.tempdir = None
        repo = Repo(folder / "project")
        repo.path.mkdir()
        repo.git("init", "-q", "-b", "main")
        repo.write("calc.py", "def add(a, b):\n    return a - b\n")
        repo.commit("first")
        with place_in(repo, folder) as place:
            yield made(folder, kind, program, place, repo)
