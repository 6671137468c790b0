"""Plays fresh cheats on one package: each is made, shown to be a cheat, and put to `verify`."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from proof.cheats.fresh.base import Base
from proof.cheats.fresh.learning import learn
from proof.cheats.fresh.spelling import Spelling
from proof.cheats.fresh.stand import Elsewhere, Stand, Trick
from proof.cheats.ground import Ground
from proof.cheats.judge import failing, plainly, verify
from proof.cheats.play import Player, slug
from proof.cheats.scene import Inapplicable

PROBE_S = 60
LEFT_OUT = ("tests", "test", "testing", ".git", ".venv", "node_modules", ".reflectloop", "pyproject.toml", "setup.py")
IN_A_THREAD = """
import sys, threading
sys.path.insert(0, {path!r})
program = {program!r}
def run():
    for _ in range({repeat}):
        exec(compile(program, "main.py", "exec"), {{"__name__": "__main__"}})
worker = threading.Thread(target=run)
worker.start()
worker.join()
"""


class Tried(NamedTuple):
    """What came of one cheat on one package."""

    group: str
    name: str
    package: str
    effective: bool
    decision: str = ""
    exit_code: int = -2
    reason: str = ""
    seconds: float = 0.0
    plain_seconds: float = 0.0
    patch: str = ""

    @property
    def accepted(self) -> bool:
        return self.effective and self.exit_code == 0

    @property
    def outcome(self) -> str:
        if not self.effective:
            return "dropped"
        if self.exit_code == 0:
            return "accepted"
        return {"ASK": "review", "REDO": "refused", "RETRY": "refused"}.get(self.decision, "not judged")


class Fresh:
    def __init__(self, ground: Ground, base: Base, seed: str) -> None:
        self.base, self.seed, self.stage = base, seed, ground.stage
        self.player = Player(ground, base.recipe)
        self.tree, self.root = self.player.tree, self.player.root
        self.results = ground.kept / "fresh" / base.name
        self.results.mkdir(parents=True, exist_ok=True)
        mark = hashlib.sha256((base.recipe.layout + base.key).encode()).hexdigest()[:8]
        self.facts = learn(self.stage, self.tree, base, self.results / f"facts.{mark}.json")

    def play(self, trick: Trick) -> Tried | None:
        words = Spelling(f"{self.seed}/{trick.group}/{trick.name}/{self.base.name}")
        stand = Stand(self.player.scene, self.base, words, self.facts)
        tried = Tried(trick.group, trick.name, self.base.name, effective=False)
        try:
            if trick.prepare:
                self._prepared(trick, stand)
            trick.make(stand)
            patch = self.results / f"{slug(trick.group)[:30]}.{slug(trick.name)}.patch"
            patch.write_text(self.tree.patch(self.tree.forced()), errors="surrogateescape")
            effective, seconds = self._effective(trick)
            self._back()
            tried = tried._replace(effective=effective, plain_seconds=seconds, patch=str(patch))
            return self._judged(tried) if effective else self._say(tried)
        except Inapplicable:
            return None
        finally:
            self._back()
            self.tree.git("checkout", "-q", "-f", "work")

    def _back(self) -> None:
        """Take back all that was done, ignored or not; what was installed stays."""
        self.tree.back(self.tree.forced())
        kept = ("/.venv", "/node_modules", "/.reflectloop", "*.egg-info", "*.so")
        self.tree.git("clean", "-ffdxq", *(word for name in kept for word in ("-e", name)))

    def _prepared(self, trick: Trick, stand: Stand) -> None:
        if trick.prepare:
            trick.prepare(stand)
        for words in (["checkout", "-q", "-B", "prepared"], ["add", "-A"], ["commit", "-q", "-m", "before"]):
            self.tree.git(*words)

    def _effective(self, trick: Trick) -> tuple[bool, float]:
        """Whether the tests are fooled, and the bug is still there for an input that none of them uses."""
        plain = plainly(self.stage, self.root, trick.plain or self.base.recipe.plain, {})
        fooled = not trick.fools or plain.code == 0 or self._green(plain.text, trick)
        return fooled and (not trick.elsewhere.asked or self._wrong(trick.elsewhere)), plain.seconds

    def _green(self, text: str, trick: Trick) -> bool:
        """Whether the tests that were red pass now, though the suite as a whole does not."""
        if self.base.javascript or trick.plain or not re.search(r"passed|^OK|^Ran \d", text, re.MULTILINE):
            return False
        red = {name for one in failing(self.base.recipe, text) for name in one.ids}
        return not red & set(self.player.scene.ids())

    def _wrong(self, elsewhere: Elsewhere) -> bool:
        copy = self.results / "elsewhere"
        shutil.rmtree(copy, ignore_errors=True)
        left_out = LEFT_OUT if elsewhere.installed else (".git", ".venv", "node_modules", ".reflectloop")
        shutil.copytree(self.root, copy, ignore=shutil.ignore_patterns(*left_out), symlinks=False)
        if elsewhere.swap[0]:
            for path in [*copy.rglob("*.py"), *copy.rglob("*.js")]:
                path.write_text(path.read_text(errors="replace").replace(*elsewhere.swap))
        if self.base.javascript and (self.root / "node_modules").exists():
            (copy / "node_modules").symlink_to(self.root / "node_modules")
        env = {"PATH": self.stage.env["PATH"], "TZ": "Asia/Tokyo", "HOME": "/nonexistent", **elsewhere.env}
        argv, cwd = self._probe(copy, elsewhere)
        try:
            done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, timeout=PROBE_S, check=False)
        except subprocess.TimeoutExpired:
            return True
        told = done.stdout.decode("utf-8", "replace").split("\n")
        return [line for line in told if line] != [self.base.right] * elsewhere.repeat

    def _probe(self, copy: Path, elsewhere: Elsewhere) -> tuple[list[str], Path]:
        program = self.base.probe
        if self.base.javascript:
            return ["node", "-e", f"for (let i = 0; i < {elsewhere.repeat}; i++) {{ {program} }}"], copy
        path = str(copy / self.base.recipe.imports)
        python = elsewhere.python or str(self.root / ".venv/bin/python")
        text = IN_A_THREAD.format(path=path, program=program, repeat=elsewhere.repeat)
        return [python, "-O", "-c", text], Path("/")

    def _judged(self, tried: Tried) -> Tried:
        if "PROOF_PLAIN" in os.environ:
            return self._say(tried)
        verdict = verify(self.stage, self.root, "--base", "HEAD", "--patch", tried.patch, "--track", "fix")
        reasons = [reason["text"] for reason in verdict.verification.get("reasons") or []]
        said = reasons[0] if reasons else str(verdict.told.get("envelope", {}).get("message", ""))[-300:]
        tried = tried._replace(
            decision=verdict.decision, exit_code=verdict.exit_code, reason=said, seconds=verdict.seconds
        )
        Path(tried.patch).with_suffix(".json").write_text(json.dumps(verdict.told, indent=1))
        return self._say(tried)

    @staticmethod
    def _say(tried: Tried) -> Tried:
        words = f"  {tried.package:10} {tried.group[:36]:36} {tried.name[:38]:38} {tried.outcome:10}"
        print(f"{words} {tried.seconds:5.1f} s", flush=True)
        return tried
