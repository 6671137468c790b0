"""Plays every kind on one project: made, tried plainly, put to `verify`, and taken back."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import reflectloop
from proof.cheats import ctests, doctests, javascript, python_config, python_hooks, python_tests, sources
from proof.cheats.ground import Ground
from proof.cheats.honest import HONEST, Honest
from proof.cheats.judge import Tree, Verdict, failing, plainly, verify
from proof.cheats.recipe import Recipe
from proof.cheats.scene import Inapplicable, Kind, Scene

KINDS: tuple[Kind, ...] = (
    *sources.SOURCES[:2],
    *python_tests.TESTS,
    *doctests.DOCTESTS,
    *javascript.CHEATS,
    *ctests.CHEATS,
    *sources.SOURCES[2:4],
    *python_hooks.HOOKS,
    *python_config.CONFIGURED,
    *sources.SOURCES[4:],
)
TITLES = tuple(dict.fromkeys(kind.title for kind in KINDS))


class Played(NamedTuple):
    """What came of one kind on one project; kept as JSON between runs."""

    title: str
    project: str
    patch: str
    touched: list[str]
    fooled: bool | None  # None where the plain tests do not read what was changed
    meant_to_fool: bool
    exit_code: int
    told: dict[str, Any]
    wanted: str = ""
    names: str = ""
    current: bool = True  # answered by the engine as it is now

    @property
    def verdict(self) -> Verdict:
        return Verdict(self.exit_code, self.told, 0.0)


def engine() -> str:
    told = hashlib.sha256()
    for path in sorted(Path(reflectloop.__file__).parent.rglob("*.py")):
        told.update(path.read_bytes())
    return told.hexdigest()[:8]


class Player:
    def __init__(self, ground: Ground, recipe: Recipe) -> None:
        self.ground, self.recipe = ground, recipe
        self.root = ground.project(recipe)
        self.tree = Tree(ground.stage, self.root)
        self._forget()
        self.results = ground.kept / "results" / recipe.name
        self.results.mkdir(parents=True, exist_ok=True)
        self.tree.aside()
        self.tree.back(self.tree.forced())
        self.tree.git("checkout", "-q", "-f", "-B", "work", "master")
        self.scene = Scene(recipe, self.root, self._failing())
        self.asks = "PROOF_PLAIN" not in os.environ

    def _forget(self) -> None:
        """What another engine remembers of its runs is not this one's answer."""
        mark = self.ground.projects / f"{self.recipe.name}.engine"
        if not mark.exists() or mark.read_text() != engine():
            shutil.rmtree(self.root / ".reflectloop", ignore_errors=True)
            mark.write_text(engine())

    def _failing(self) -> tuple[Any, ...]:
        broken = plainly(self.ground.stage, self.root, self.recipe.plain, {})
        self.tree.back([])
        if not broken.code:
            raise SystemExit(f"{self.recipe}: the suite does not catch the bug\n{broken.text[-2000:]}")
        found = failing(self.recipe, broken.text)
        print(f"{self.recipe}: {len(found)} tests catch the bug, {broken.seconds:.1f} s", flush=True)
        return found

    def cheats(self) -> list[Played]:
        played: dict[str, Played] = {}
        for kind in KINDS:
            if kind.title not in played and kind.fits(self.recipe) and wanted(kind.title):
                found = self.cheat(kind)
                if found:
                    played[kind.title] = found
        return list(played.values())

    def cheat(self, kind: Kind) -> Played | None:
        try:
            kind.make(self.scene)
            patch = self._patch(kind.title)
            fooled = self._fooled(kind, patch) if kind.run else None
        except Inapplicable:
            return None
        finally:
            self.tree.back(self.tree.forced())
        return self._judged(kind.title, patch, fooled, meant=kind.fools)

    def _patch(self, title: str) -> Path:
        path = self.results / f"{slug(title)}.patch"
        path.write_text(self.tree.patch(self.tree.forced()), errors="surrogateescape")
        return path

    def _fooled(self, kind: Kind, patch: Path) -> bool:
        """Whether the plain tests pass; asked once for each patch."""
        kept = self.results / f"{slug(kind.title)}.plain.json"
        mark = hashlib.sha256(patch.read_bytes() + repr((kind.plain, dict(kind.env))).encode()).hexdigest()
        if kept.exists() and (told := json.loads(kept.read_text()))["patch"] == mark:
            return bool(told["fooled"])
        plain = plainly(self.ground.stage, self.root, kind.plain or self.recipe.plain, kind.env)
        kept.write_text(json.dumps({"patch": mark, "fooled": plain.code == 0, "text": plain.text[-3000:]}, indent=1))
        return plain.code == 0

    def _judged(self, title: str, patch: Path, fooled: bool | None, *, meant: bool) -> Played:
        words = ["--base", "HEAD", "--patch", str(patch), "--track", "fix"]
        return self._asked(Played(title, self.recipe.name, str(patch), touched(patch), fooled, meant, -2, {}), words)

    def _asked(self, played: Played, words: list[str]) -> Played:
        stem = f"{slug(played.title)}.{self._asked_of(played, words)}"
        kept = self.results / f"{stem}.{engine()}.json"
        if found := self._kept(stem, kept):
            told = json.loads(found.read_text())
            return played._replace(exit_code=told["exit_code"], told=told["told"], current=found == kept)
        if not self.asks:
            print(f"  {self.recipe.name:11} {played.title:45} fools plain tests: {played.fooled}", flush=True)
            return played
        verdict = verify(self.ground.stage, self.root, *words)
        if verdict.answered:
            kept.write_text(json.dumps({"exit_code": verdict.exit_code, "told": verdict.told}, indent=1))
        played = played._replace(exit_code=verdict.exit_code, told=verdict.told)
        print(f"  {self.recipe.name:11} {played.title:45} {verdict.decision:6} {verdict.seconds:5.1f} s", flush=True)
        return played

    def _kept(self, stem: str, mine: Path) -> Path | None:
        """This engine's answer; with PROOF_KEEP, that of an earlier one too, which the paper says."""
        if mine.exists():
            return mine
        earlier = self.results.glob(f"{stem}.*.json") if "PROOF_KEEP" in os.environ else ()
        return max(earlier, key=lambda path: path.stat().st_mtime, default=None)

    def _asked_of(self, played: Played, words: list[str]) -> str:
        """What is asked, in a few letters: another project, patch or command line is asked anew."""
        said = [self.recipe.layout, Path(played.patch).read_text(errors="surrogateescape"), *words]
        return hashlib.sha256(repr(said).encode("utf-8", "surrogateescape")).hexdigest()[:8]

    def honest(self) -> list[Played]:
        found = [self._honest(one) for one in HONEST if wanted(one.title)]
        return [one for one in found if one]

    def _honest(self, honest: Honest) -> Played | None:
        try:
            if honest.prepare:
                honest.prepare(self.scene)
                for words in (["checkout", "-q", "-B", "prepared"], ["add", "-A"], ["commit", "-q", "-m", "before"]):
                    self.tree.git(*words)
            honest.make(self.scene)
            patch = self._patch(honest.title)
            played = Played(honest.title, self.recipe.name, str(patch), touched(patch), None, False, -2, {})
            words = ["--track", "fix"] if honest.track else []
            if not honest.worktree:
                self.tree.back([])
                words += ["--base", "HEAD", "--patch", str(patch)]
            return self._asked(played._replace(wanted=honest.wanted, names=honest.names), words)
        except Inapplicable:
            return None
        finally:
            self.tree.back([])
            self.tree.git("checkout", "-q", "-f", "work")


def wanted(title: str) -> bool:
    return os.environ.get("PROOF_KIND", "") in title


def slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def touched(patch: Path) -> list[str]:
    text = patch.read_text(errors="replace")
    return sorted({name for pair in re.findall(r"^diff --git a/(.*) b/(.*)$", text, re.MULTILINE) for name in pair})
