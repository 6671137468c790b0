"""A folder of its own for a proof: a HOME, a temp folder, projects, and the program as a user starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


class Stage:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("home", "temp"):
            (folder / name).mkdir()
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "TMPDIR": str(folder / "temp")}
        self.env |= {"REFLECTLOOP_TRUST_PROJECT": "1"}  # projects that proofs make, or whose settings they write
        self.env |= {"GIT_AUTHOR_NAME": "p", "GIT_AUTHOR_EMAIL": "p@localhost"}
        self.env |= {"GIT_COMMITTER_NAME": "p", "GIT_COMMITTER_EMAIL": "p@localhost"}

    def sh(self, cwd: Path, *words: str) -> str:
        done = subprocess.run(words, cwd=cwd, env=self.env, capture_output=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(words)}: {done.stderr.decode('utf-8', 'replace')}")
        return done.stdout.decode("utf-8", "surrogateescape")

    def start(self, cwd: Path, *words: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "reflectloop", *words, "--json"]
        return subprocess.Popen(argv, cwd=cwd, env=self.env, stdout=subprocess.PIPE)

    def loop(self, cwd: Path, *words: str) -> tuple[int, dict[str, Any]]:
        engine = self.start(cwd, *words)
        told, _ = engine.communicate()
        return engine.returncode, json.loads(told)

    def small_project(self, name: str) -> Path:
        project = self.folder / name
        project.mkdir()
        (project / "README").write_text("a project\n")
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
            self.sh(project, "git", *words)
        return project

    def plan(self, steps: list[dict[str, Any]], name: str = "plan.json") -> str:
        path = self.folder / name
        path.write_text(json.dumps({"plan": {"title": "Proof", "track": "direct", "steps": steps}}))
        return str(path)

    def commands(self, *commands: str, timeout_s: int = 600) -> str:
        return self.plan(
            [{"id": f"P-{n}", "commands": [command], "timeout_s": timeout_s} for n, command in enumerate(commands, 1)]
        )

    def workspaces(self) -> list[Path]:
        root = self.folder / "temp" / "reflectloop"
        return list(root.glob("*")) if root.exists() else []

    def processes(self) -> int:
        """Commands of a run that still live: their HOME lies on this stage."""
        mark = b"HOME=" + os.fsencode(self.folder)
        count = 0
        for name in os.listdir("/proc"):  # noqa: PTH208 - names, not paths
            if name.isdigit():
                try:
                    environ = Path(f"/proc/{name}/environ").read_bytes()
                    count += mark in environ and b"REFLECTLOOP_RUN=" in environ
                except OSError:
                    continue
        return count
