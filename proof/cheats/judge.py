"""What a change is worth, by the project's own tests run plainly and by `reflectloop verify`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from proof.cheats.python_hooks import SITE
from proof.cheats.recipe import Failing, Recipe
from proof.environment import Stage

_IN_FOLDERS = (f"{SITE}/steady.pth", f"{SITE}/steady.py", ".venv/bin/pytest", "node_modules/.bin/node")
FORCED = (*_IN_FOLDERS, "conftest.py", "pytest.py", "unittest.py")  # some ignore all modules at their top
PLAIN_S = 180
VERIFY_S = 600
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Plain(NamedTuple):
    code: int
    text: str
    seconds: float


class Verdict(NamedTuple):
    exit_code: int
    told: dict[str, Any]
    seconds: float

    @property
    def verification(self) -> dict[str, Any]:
        return dict(self.told.get("data") or {})

    @property
    def accepted(self) -> bool:
        return self.exit_code == 0

    @property
    def answered(self) -> bool:
        """Whether it was judged at all; an empty patch is refused before that."""
        return bool(self.verification) or self.decision == "INVALID_INPUT"

    @property
    def decision(self) -> str:
        return str(self.verification.get("decision") or self.told.get("envelope", {}).get("error_code") or "?")


def plainly(stage: Stage, root: Path, command: str, env: Mapping[str, str]) -> Plain:
    began = time.monotonic()
    try:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=root,
            env=stage.env | dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PLAIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return Plain(-1, (late.stdout or b"").decode("utf-8", "replace"), PLAIN_S)
    return Plain(done.returncode, done.stdout.decode("utf-8", "replace"), time.monotonic() - began)


def verify(stage: Stage, root: Path, *words: str) -> Verdict:
    began = time.monotonic()
    argv = [sys.executable, "-m", "reflectloop", "verify", *words, "--json"]
    try:
        done = subprocess.run(argv, cwd=root, env=stage.env, capture_output=True, timeout=VERIFY_S, check=False)
    except subprocess.TimeoutExpired:
        return Verdict(-1, {"envelope": {"message": f"no answer in {VERIFY_S} s"}}, VERIFY_S)
    try:
        told = json.loads(done.stdout)
    except ValueError:
        said = (done.stdout[-2000:] + done.stderr[-4000:]).decode("utf-8", "replace")
        told = {"envelope": {"message": said}}
    return Verdict(done.returncode, told, time.monotonic() - began)


def failing(recipe: Recipe, text: str) -> tuple[Failing, ...]:
    """The tests that catch the bug, as the runner names them."""
    text = _COLOUR.sub("", text)
    if recipe.runner == "pytest":
        return _of_pytest(text)
    if recipe.runner == "unittest":
        return _of_unittest(text)
    missing = [one.name for one in recipe.failing if one.name not in text]
    if missing:
        raise SystemExit(f"{recipe}: not named by the runner as failing: {missing}\n{text[-3000:]}")
    return recipe.failing


def _of_pytest(text: str) -> tuple[Failing, ...]:
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for line in re.findall(r"^FAILED (.+)$", text, re.MULTILINE):
        name = line.split("] - ")[0] + "]" if "] - " in line else line.split(" - ")[0]
        file, _, rest = name.partition("::")
        parts = rest.partition("[")[0].split("::")
        group = "doctest" if "." in parts[-1] else "::".join(parts[:-1])
        grouped.setdefault((file, parts[-1], group), []).append(name)
    return tuple(Failing(*key, ids=tuple(names)) for key, names in grouped.items())


def _of_unittest(text: str) -> tuple[Failing, ...]:
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for name, dotted in re.findall(r"^(?:FAIL|ERROR): (\w+) \(([\w.]+)\)", text, re.MULTILINE):
        parts = dotted.split(".")
        file = "/".join(parts[:-2]) + ".py"
        grouped.setdefault((file, name, parts[-2]), []).append(dotted)
    return tuple(Failing(*key, ids=tuple(sorted({*names}))) for key, names in grouped.items())


class Tree:
    """A project's work tree: what is done to it is taken back, even in folders git ignores."""

    def __init__(self, stage: Stage, root: Path) -> None:
        self.stage, self.root = stage, root
        self.kept = root.with_name(f"{root.name}.aside")  # outlives a killed proof, like the project

    def git(self, *words: str) -> str:
        return self.stage.sh(self.root, "git", *words)

    def aside(self) -> None:
        """Keep what lies in ignored folders and may be written over."""
        if self.kept.exists():
            return
        self.kept.mkdir()
        for name in FORCED:
            if (self.root / name).is_file():
                (self.kept / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.root / name, self.kept / name)

    def patch(self, forced: list[str]) -> str:
        self.git("add", "-A")
        if forced:
            self.git("add", "-f", *forced)
        text = self.git("diff", "--cached", "--binary", "HEAD")
        self.git("reset", "-q")
        return text

    def back(self, forced: list[str]) -> None:
        for name in forced:
            path = self.root / name
            path.unlink(missing_ok=True)
            if (self.kept / name).exists():
                shutil.copy2(self.kept / name, path)
        self.git("checkout", "-q", "-f", "HEAD", "--", ".")
        self.git("clean", "-fdq")
        for name in ("answers.cache", ".pytest_cache", "build"):
            path = self.root / name
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def forced(self) -> list[str]:
        """What a cheat wrote where git ignores it; all of it bears one of a few names."""
        found = []
        for name in FORCED:
            path = self.root / name
            kept = self.kept / name
            if path.is_file() and (not kept.exists() or kept.read_bytes() != path.read_bytes()):
                found.append(name)
        return found
