"""Lays projects out: sources fetched once, dependencies in the tree, the bug committed as the base."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from proof.cheats.recipe import Bug, Recipe
from proof.environment import Stage
from proof.packages import Yard
from proof.suites import Package

IGNORED = ["__pycache__/", "*.egg-info/", "*.pyc", ".pytest_cache/", ".coverage", "coverage/", "*.so", "/build/"]
IGNORED += [".reflectloop/", ".benchmarks/", ".cache/", ".tox/", "junit.xml"]


class Ground(Yard):
    """A yard whose projects outlive the proof in PROOF_FOLDER, with all that was installed into them."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.kept = self.sources.parent
        self.projects = self.kept / "projects"
        self.projects.mkdir(exist_ok=True)
        stage.env |= {"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
        stage.env |= {key: os.environ[key] for key in ("PYENV_ROOT",) if key in os.environ}

    def project(self, recipe: Recipe) -> Path:
        place = self.projects / recipe.name
        ready = self.projects / f"{recipe.name}.ready"
        if ready.exists() and ready.read_text() == recipe.layout:
            return place
        shutil.rmtree(place, ignore_errors=True)
        shutil.move(self._unpack(self._archive(recipe), recipe.name), place)
        self._shape(place, recipe)
        self._depend(place, recipe)
        self._base(place, recipe)
        ready.write_text(recipe.layout)
        return place

    def _archive(self, recipe: Recipe) -> Path:
        if recipe.origin == "debian":
            return self._debian(recipe)
        if recipe.origin == "sdist":
            return self._sdist(Package(recipe.wanted, recipe.version, recipe.kind, recipe.runner, recipe.plain))
        kept = self.sources / recipe.archive
        if not kept.exists():
            self.call(self.sources, "npm", "pack", "--silent", f"{recipe.wanted}@{recipe.version}")
        return kept

    def _debian(self, recipe: Recipe) -> Path:
        """The upstream archive of a source package, asked for with lists of our own: the machine's stay as they are."""
        kept = self.sources / f"{recipe.wanted}_{recipe.version}.orig.tar.gz"
        if not kept.exists():
            options = self._apt()
            self.call(
                self.sources, "apt-get", *options, "source", "-qq", "--download-only", "--tar-only", recipe.wanted
            )
        return kept

    def _apt(self) -> list[str]:
        folder = self.stage.folder / "apt"
        options = [f"Dir::Etc::SourceList={os.devnull}", f"Dir::Etc::SourceParts={folder / 'parts'}"]
        options += [f"Dir::State::Lists={folder / 'lists'}", f"Dir::Cache={folder / 'cache'}"]
        words = [word for option in options for word in ("-o", option)]
        if not folder.exists():
            for name in ("parts", "lists/partial", "cache/archives/partial"):
                (folder / name).mkdir(parents=True)
            for path in Path("/etc/apt/sources.list.d").glob("*.sources"):
                text = path.read_text().replace("Types: deb\n", "Types: deb-src\n")
                (folder / "parts" / path.name).write_text(text)
            self.call(folder, "apt-get", *words, "-qq", "update")
        return words

    @staticmethod
    def _shape(place: Path, recipe: Recipe) -> None:
        for name in recipe.removed:
            for path in sorted(place.glob(name)):
                path.unlink()
        for file, old, new in recipe.swaps:
            replace(place / file, old, new)
        if recipe.language == "javascript":
            told = json.loads((place / "package.json").read_text())
            wanted = told.get("devDependencies", {})
            told["devDependencies"] = {name: wanted[name] for name in recipe.needs}
            told["scripts"] = dict(recipe.scripts)
            (place / "package.json").write_text(json.dumps(told, indent=2) + "\n")

    def _depend(self, place: Path, recipe: Recipe) -> None:
        if recipe.language == "python":
            flags = ["--system-site-packages"] if recipe.system_site else []
            self.call(place, sys.executable, "-m", "venv", *flags, ".venv")
            self.stage.sh(place, "git", "init", "-q")
            version = f"SETUPTOOLS_SCM_PRETEND_VERSION={recipe.version}"
            pip = ["env", version, ".venv/bin/python", "-m", "pip", "install", "-q", "--no-warn-conflicts"]
            self.call(place, *pip, *recipe.needs)
            if recipe.install:
                self.call(place, *pip, *recipe.install)
        elif recipe.language == "javascript":
            self.call(place, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund")

    def _base(self, place: Path, recipe: Recipe) -> None:
        break_it(place, recipe.bug)
        (place / "reflectloop.toml").write_text(recipe.settings)
        with (place / ".gitignore").open("a") as file:
            file.write("\n" + "".join(f"{line}\n" for line in [*(f"/{name}" for name in recipe.ignored), *IGNORED]))
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "source"]):
            self.stage.sh(place, "git", *words)


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    if text.count(old) != 1:
        raise SystemExit(f"{path}: {text.count(old)} times, not once: {old!r}")
    path.write_text(text.replace(old, new))


def break_it(root: Path, bug: Bug) -> None:
    replace(root / bug.file, bug.text(bug.right), bug.text(bug.wrong))


def mend(root: Path, bug: Bug) -> None:
    replace(root / bug.file, bug.text(bug.wrong), bug.text(bug.right))
