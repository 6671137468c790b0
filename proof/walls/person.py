"""A user with a HOME, projects and an engine: root or nobody, behind one of the walls."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from proof.paper import ROOT
from proof.walls.records import ASIDE

NOBODY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
WALLS = ("full", "fs", "landlock")
CANARY = "canary-sings-outside"
_TIMEOUT_S = 150
_CONTROL_S = 0.5  # of the processor


def load() -> float:
    """Return how many seconds a second of work takes now: the control for every limit of time. At least 1."""
    begun, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < _CONTROL_S:
        sum(range(1000))
    return max(1.0, (time.monotonic() - begun) / _CONTROL_S)


def _end_session(leader: int) -> None:
    """Kill every process of a session, those that left its first group too: they keep the pipe of the output open."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if os.getsid(int(entry.name)) == leader:
                    os.kill(int(entry.name), signal.SIGKILL)


def _not_played(folder: str, names: list[str]) -> list[str]:
    aside = ASIDE if Path(folder) == ROOT / "src/reflectloop" else ()
    return [name for name in names if name == "__pycache__" or name in aside]


class Answer(NamedTuple):
    """How a command of the engine ended: its exit code, what it printed, and its JSON document."""

    code: int | None  # None: it did not end within the time and was killed
    out: str
    document: dict[str, Any]

    @property
    def word(self) -> str:
        """The code of the envelope, or the exit code, or that it hung."""
        if self.code is None:
            return "hung"
        envelope = self.document.get("envelope")
        return str((envelope or {}).get("error_code") or f"exit {self.code}")


class Grounds:
    """Shared by all persons of one proof: the interpreter, the sources, and a PATH without bubblewrap."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.chmod(0o755)
        self.python = os.environ.get("PROOF_PYTHON") or self._environment()
        self.sources = folder / "src"
        shutil.copytree(ROOT / "src", self.sources, ignore=_not_played)
        self.bare_path = self._without_bubblewrap()
        self._count = 0
        self.users: tuple[int, ...] = (0, NOBODY) if os.geteuid() == 0 else (os.geteuid(),)
        self.walls: tuple[str, ...] = WALLS
        self._counting = threading.Lock()

    def _environment(self) -> str:
        venv = self.folder / "venv"
        subprocess.run([SYSTEM_PYTHON, "-m", "venv", str(venv)], check=True)
        python = str(venv / "bin/python")
        install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes"]
        subprocess.run([*install, "-r", str(ROOT / "requirements/dev.txt")], check=True)
        return python

    def _without_bubblewrap(self) -> str:
        tools = self.folder / "tools"
        tools.mkdir()
        for place in SYSTEM_PATH.split(":"):
            for tool in Path(place).iterdir():
                if tool.name != "bwrap" and not (tools / tool.name).is_symlink():
                    (tools / tool.name).symlink_to(tool)
        return str(tools)

    def person(self, uid: int, wall: str) -> Person:
        with self._counting:
            self._count += 1
            number = self._count
        return Person(self, self.folder / f"p{number}", uid, wall)


class Person:
    def __init__(self, grounds: Grounds, folder: Path, uid: int, wall: str) -> None:
        self.grounds, self.folder, self.uid, self.wall = grounds, folder, uid, wall
        self.home, self.temp, self.sibling = folder / "home", folder / "temp", folder / "sibling"
        for place in (folder, self.home, self.temp, self.sibling):
            place.mkdir()
            os.chown(place, uid, uid)
        self.home.chmod(0o700)
        path = grounds.bare_path if wall == "landlock" else SYSTEM_PATH
        self.env = {"PATH": path, "HOME": str(self.home), "LANG": "C.UTF-8", "TMPDIR": str(self.temp)}
        self.env |= {"PYTHONPATH": str(grounds.sources), "PYTHONDONTWRITEBYTECODE": "1"}
        self.env |= {
            f"GIT_{who}_{what}": "p@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        self.put(self.home / ".ssh/id_walls", CANARY + "\n", mode=0o600)
        self.put(self.sibling / "secret.txt", CANARY + "\n", mode=0o600)
        self.own_settings()

    def __str__(self) -> str:
        return f"{'root' if self.uid == 0 else 'nobody'}/{self.wall}"

    def own_settings(self, text: str = "") -> None:
        """Write the user's own configuration: how strong the wall may be, and whatever else is given."""
        floor = f'[box]\nstrongest = "{"full" if self.wall == "full" else "fs"}"\n' if "[box]" not in text else ""
        self.put(self.home / ".config/reflectloop/config.toml", floor + text)

    def put(self, path: Path, text: str | bytes, *, mode: int = 0o644) -> Path:
        """Write a file of this user, with the folders above it."""
        above = [place for place in path.parents if not place.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        for place in (path, *above):
            os.chown(place, self.uid, self.uid)
        return path

    def words(self, argv: list[str]) -> list[str]:
        if not self.uid:
            return argv
        return ["/usr/bin/setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups", "--", *argv]

    def popen(self, argv: list[str], cwd: Path | None = None, **more: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401
        env = {**self.env, **more.pop("env", {})}
        return subprocess.Popen(self.words(argv), cwd=cwd or self.folder, env=env, start_new_session=True, **more)

    def sh(self, line: str, cwd: Path | None = None, *, timeout_s: int = _TIMEOUT_S) -> tuple[int | None, str]:
        """Run a shell line as a plain process of the user, in no box; what does not end in time was not meant to."""
        return self._finish(["/bin/bash", "-c", line], cwd, timeout_s, {}, b"", patient=False)

    def engine(self, *words: str) -> list[str]:
        return [self.grounds.python, "-m", "reflectloop", *words]

    def loop(
        self, cwd: Path, *words: str, timeout_s: int = _TIMEOUT_S, env: dict[str, str] | None = None, given: bytes = b""
    ) -> Answer:
        """Run a command of the engine in a project, to its end or to the end of the time."""
        code, out = self._finish(self.engine(*words), cwd, timeout_s, env or {}, given)
        if "No module named 'reflectloop." in out:
            sys.exit(f"`{words[0]}` needs a package that is left out: {out}")
        try:
            document = json.loads(out[out.index("{") :]) if "--json" in words else {}
        except ValueError:
            document = {}
        return Answer(code, out, document if isinstance(document, dict) else {})

    def _finish(
        self,
        argv: list[str],
        cwd: Path | None,
        timeout_s: int,
        env: dict[str, str],
        given: bytes,
        *,
        patient: bool = True,
    ) -> tuple[int | None, str]:
        pipe = subprocess.PIPE
        process = self.popen(argv, cwd, env=env, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT)
        try:
            out, _ = process.communicate(given, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            pass
        else:
            return process.returncode, out.decode("utf-8", "replace")
        try:  # where the machine has other work, a second of it is worth less
            out, _ = process.communicate(timeout=timeout_s * (load() - 1) if patient else 0)
        except subprocess.TimeoutExpired:
            _end_session(process.pid)
            out, _ = process.communicate()
            return None, out.decode("utf-8", "replace")
        return process.returncode, out.decode("utf-8", "replace")

    def project(self, files: dict[str, str | bytes] | None = None, name: str = "project") -> Path:
        """Make a repository of this user with one commit."""
        project = self.folder / name
        for path, text in {"README.md": "a project\n", **(files or {})}.items():
            self.put(project / path, text, mode=0o755 if path.endswith((".sh", "mvnw")) else 0o644)
        os.chown(project, self.uid, self.uid)
        code, out = self.sh("git init -q . && git add -A -f && git commit -qm first", project)
        if code:
            sys.exit(f"git: {out}")
        return project

    def plan(self, steps: list[Any], **more: Any) -> str:  # noqa: ANN401
        """Write a plan outside of the project; a step is a shell line or the fields of one."""
        whole = [
            {"id": f"P-{number}", "title": "s", **(step if isinstance(step, dict) else {"commands": [step]})}
            for number, step in enumerate(steps, 1)
        ]
        body = {"title": "Walls", "track": "direct", "verification": {"mode": "none"}, "steps": whole, **more}
        return str(self.put(self.folder / "plan.json", json.dumps({"plan": body})))

    def run(self, project: Path, *steps: Any, timeout_s: int = _TIMEOUT_S, **more: Any) -> Answer:  # noqa: ANN401
        return self.loop(project, "run", self.plan(list(steps), **more), "--new", "--json", timeout_s=timeout_s)

    def log(self, project: Path) -> str:
        return self.loop(project, "log").out

    def kept(self, project: Path) -> str:
        """Return all text that the engine keeps of its work, git's objects apart; nothing through a link."""
        if (project / ".reflectloop").is_symlink():
            return ""
        paths = [path for path in (project / ".reflectloop").rglob("*") if ".reflectloop/git" not in str(path)]
        plain = [path for path in sorted(paths) if path.is_file() and not path.is_symlink()]
        return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in plain)

    def trust(self, project: Path) -> bool:
        """Trust what the project's settings ask for, as the user may; False where the program knows no trust."""
        return self.loop(project, "trust", "--yes").code == 0


def remove(folder: Path) -> None:
    """Remove a folder, however deep it is."""
    subprocess.run(["/bin/rm", "-rf", "--", str(folder)], check=False, stderr=subprocess.DEVNULL)


# The names of what a proof makes on the machine hold its process id: a later proof finds what a killed one left.
_PLANTED = (
    "var/tmp/walls-proof-*",
    "etc/reflectloop-*-p*",
    "opt/reflectloop-*-p*",
    "usr/local/lib/reflectloop-*-p*",
    "dev/shm/reflectloop-walls-*-p*",
)


def clear_leftovers(root: Path = Path("/")) -> list[Path]:
    """Remove what proofs that were killed have left on the machine; keep what belongs to a living process."""
    left = []
    for pattern in _PLANTED:
        for path in root.glob(pattern):
            owner = next((word for word in path.name.split("-") if word.isdigit()), "")
            if owner and not Path("/proc", owner).exists():
                remove(path)
                left.append(path)
    return left


@contextlib.contextmanager
def ground() -> Iterator[Path]:
    clear_leftovers()
    folder = Path(tempfile.mkdtemp(prefix=f"walls-proof-{os.getpid()}-", dir="/var/tmp"))
    try:
        yield folder
    finally:
        remove(folder)
