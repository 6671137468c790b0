"""The box on this machine: as root and as an ordinary user, with bubblewrap and without it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from proof.paper import ROOT, Paper

_NOBODY = 65534
_SYSTEM_PYTHON = Path("/usr/bin/python3")
_PATH = "/usr/local/bin:/usr/bin:/bin"


class Person:
    """Somebody with a checkout, a virtual environment of the system's Python, and a HOME, none of it root's."""

    def __init__(self, folder: Path, uid: int) -> None:
        self.folder, self.uid = folder, uid
        self.home, self.project = folder / "home", folder / "home" / "project"
        self.home.mkdir()
        _do("git", "clone", "-q", str(ROOT), str(folder / "checkout"))
        _do(str(_SYSTEM_PYTHON), "-m", "venv", str(folder / "venv"))
        pip = [str(folder / "venv/bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        _do(*pip, "--require-hashes", "-r", str(ROOT / "requirements/base.txt"))
        (site,) = (folder / "venv").glob("lib/python3*/site-packages")
        (site / "checkout.pth").write_text(f"{folder}/checkout/src\n")
        self.project.mkdir()
        (self.project / "README").write_text("a project\n")
        (self.project / "reflectloop.toml").write_text('[policy]\nallow = ["file.reads-private"]\n')
        (self.home / ".ssh").mkdir()
        (self.home / ".ssh" / "id_canary").write_text("canary\n")
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
            who = ("-c", "user.name=p", "-c", "user.email=p@localhost")
            _do("git", "-C", str(self.project), *who, *words)
        _do("chown", "-R", str(uid), str(folder))

    def loop(self, *words: str, path: str = _PATH) -> tuple[int, dict[str, Any]]:
        become = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"] if self.uid else []
        done = subprocess.run(
            [*become, str(self.folder / "venv/bin/python"), "-m", "reflectloop", *words, "--json"],
            cwd=self.project,
            env={
                "PATH": path,
                "HOME": str(self.home),
                "TMPDIR": str(self.folder),
                "REFLECTLOOP_TRUST_PROJECT": "1",
            },
            capture_output=True,
            check=False,
        )
        told: dict[str, Any] = json.loads(done.stdout)
        if told["data"] is None and words[0] == "doctor":
            sys.exit(f"doctor: {told}")
        return done.returncode, told

    def plan(self, **more: Any) -> str:  # noqa: ANN401
        step = {"id": "P-1", "commands": [f"id -u; ls -A ~; cat {self.home}/.ssh/id_canary"]}
        path = self.folder / "plan.json"
        path.write_text(json.dumps({"plan": {"title": "Proof", "track": "direct", "steps": [step], **more}}))
        return str(path)


def _do(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr.decode('utf-8', 'replace')}")


def _without_bubblewrap(folder: Path) -> str:
    tools = folder / "tools"
    tools.mkdir()
    for place in _PATH.split(":"):
        for tool in Path(place).iterdir():
            if tool.name != "bwrap" and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    return str(tools)


def _told(answer: dict[str, Any]) -> str:
    levels = [
        f"{one['level']} by {one['by']}{' proven' if one['proven'] else ' NOT proven'}" for one in answer["levels"]
    ]
    bound = next((one["limits_by"] for one in answer["levels"] if one["limits_by"]), None)
    return f"{answer['isolation']}: {', '.join(levels)}" + (f"; limits by {bound}" if bound else "")


def _prove(paper: Paper, name: str, uid: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="reflectloop-proof-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        person = Person(folder, uid)
        code, told = person.loop("doctor")
        paper.claim(
            f"{name}: `doctor` reaches full where bubblewrap works",
            f"exit {code}, {_told(told['data'])}",
            holds=code == 0 and told["data"]["isolation"] == "full",
        )
        code, told = person.loop("run", "--isolation", "full", person.plan())
        paper.claim(
            f"{name}: a run at full does not read a key in HOME",
            f"{told['envelope']['error_code']} at {told['envelope']['isolation']}",
            holds=code == 30 and told["envelope"]["isolation"] == "full",
        )
        bare = _without_bubblewrap(folder)
        code, told = person.loop("doctor", path=bare)
        paper.claim(
            f"{name}: without bubblewrap it reaches fs, by Landlock",
            f"exit {code}, {_told(told['data'])}",
            holds=code == 0 and told["data"]["isolation"] == "fs" and told["data"]["levels"][0]["by"] == "landlock",
        )
        code, told = person.loop("run", "--new", person.plan(isolation={"require": "full"}), path=bare)
        paper.claim(
            f"{name}: a plan that requires full is refused there",
            f"exit {code}, {told['envelope']['error_code']}: {told['envelope']['message']}",
            holds=code == 20,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    if os.geteuid():
        sys.exit("run this as root: it plays an ordinary user besides")
    paper = Paper("box", "Isolation levels, proven by trying to get out, as root and as an ordinary user.")
    _prove(paper, "root", 0)
    _prove(paper, "an ordinary user", _NOBODY)
    paper.write()


if __name__ == "__main__":
    main()
