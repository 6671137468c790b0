"""The test suites of real packages come out inside the box as outside, and see the workspace, not the original."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from proof.environment import Stage
from proof.foundation import state
from proof.outcome import Outcome
from proof.paper import Paper
from proof.suites import FASTIFY, FASTIFY_NEEDS, PYTHON, QS, QS_MEMBERS, QS_NEEDS, STORIES, Package, Story
from proof.watch import Watch

LEVEL = "full"
TIMEOUT_S = 1200
ABOUT = (
    "The test suites of real packages, from their own sources, run plainly and then as a step of a plan. Each is a git "
    "repository with its `.venv` or `node_modules` inside, ignored by git and named in `[workspace] carry`.\n\n"
    "Sources and tests are as published, with these exceptions. The configuration with absolute paths is ours. Node "
    "packages lose the linters and builders of their `package.json`, and three are joined to a workspace by us. Of "
    "joblib, pexpect and fastify some test files are run, for time. Left out after they were seen to differ: of sh, a "
    "test that adds a user to the machine, which the box refuses to root, and two that failed outside only, on a busy "
    "machine; of pexpect, `test_winsize.py`, which failed once inside, by a race in its own script as it seems. Both "
    "sides get `PYENV_ROOT`: without it, and with another HOME, commands in the box find shims of pyenv that cannot "
    "start. A suite that ends differently is run once more on both sides, and the table says so."
)


class Ran(NamedTuple):
    outcome: Outcome
    seconds: float
    text: str


class Row(NamedTuple):
    package: Package
    plain: Ran
    boxed: Ran
    tries: int

    @property
    def same(self) -> bool:
        return self.plain.outcome == self.boxed.outcome and bool(self.plain.outcome.counts)

    @property
    def cells(self) -> list[str]:
        cells = [str(self.package), self.package.kind, self.package.runner]
        cells += [str(self.plain.outcome), str(self.boxed.outcome)]
        same = "yes" if self.tries == 1 else "yes, at the second try"
        return [*cells, same if self.same else "**no**", f"{self.plain.seconds:.1f}, {self.boxed.seconds:.1f}"]


class Yard:
    """Where projects are laid out. Sources and output outlive the proof in PROOF_FOLDER, when it is set."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        kept = Path(os.environ.get("PROOF_FOLDER") or stage.folder / "kept").resolve()
        self.sources, self.output = kept / "sources", kept / "output"
        for folder in (self.sources, self.output):
            folder.mkdir(parents=True, exist_ok=True)

    def call(self, cwd: Path, *words: str) -> None:
        done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")

    def lay_out(self, package: Package) -> Path:
        if package is FASTIFY:
            return self.node_project(package, FASTIFY_NEEDS)
        if package is QS:
            return self.node_workspace(package, QS_MEMBERS, QS_NEEDS)
        return self.python_project(package)

    def python_project(self, package: Package) -> Path:
        project = self._unpack(self._sdist(package), package.name)
        self.call(project, sys.executable, "-m", "venv", ".venv")
        self._commit(project, package)
        pip = [".venv/bin/python", "-m", "pip", "install", "-q"]
        if package.needs:
            self.call(project, *pip, *package.needs)
        if package.install:
            self.call(project, *pip, *package.install)
        return project

    def node_project(self, package: Package, needs: list[str]) -> Path:
        project = self._unpack(self._tarball(f"{package.name}@{package.version}"), package.name)
        self._trim(project / "package.json", needs)
        return self._install(project, package)

    def node_workspace(self, package: Package, members: tuple[str, ...], needs: list[str]) -> Path:
        """Packages as npm links them: each under packages/, its link in node_modules."""
        project = self.stage.folder / package.name
        (project / "packages").mkdir(parents=True)
        for member in members:
            place = self._unpack(self._tarball(member), "member")
            self._trim(place / "package.json", [])
            place.rename(project / "packages" / member.partition("@")[0])
        root = {"private": True, "workspaces": ["packages/*"], "devDependencies": dict.fromkeys(needs, "*")}
        (project / "package.json").write_text(json.dumps(root, indent=2))
        return self._install(project, package)

    def _install(self, project: Path, package: Package) -> Path:
        self.call(project, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")
        self._commit(project, package)
        return project

    @staticmethod
    def _trim(path: Path, needs: list[str]) -> None:
        """Leave out linters and builders: the tests do not load them."""
        told = json.loads(path.read_text())
        wanted = told.get("devDependencies", {})
        told["devDependencies"] = {name: wanted[name] for name in needs}
        told.pop("scripts", None)
        path.write_text(json.dumps(told, indent=2))

    def _tarball(self, wanted: str) -> Path:
        archive = self.sources / f"{wanted.replace('@', '-')}.tgz"
        if not archive.exists():
            self.call(self.sources, "npm", "pack", "--silent", wanted)
        return archive

    def _sdist(self, package: Package) -> Path:
        stem = f"{package.name.replace('-', '_')}-{package.version}"
        archive = self.sources / f"{stem}.tar.gz"
        if not archive.exists():
            tools = self.stage.folder / "tools"
            if not tools.exists():
                self.call(self.stage.folder, sys.executable, "-m", "venv", str(tools))
            pip = [str(tools / "bin" / "pip"), "download", "-q", "--no-deps", "--no-binary", package.name]
            self.call(self.stage.folder, *pip, "-d", str(self.sources), f"{package.name}=={package.version}")
        return archive

    def _unpack(self, archive: Path, name: str) -> Path:
        place = self.stage.folder / "unpacked"
        with tarfile.open(archive) as tar:
            tar.extractall(place, filter="data")
        (source,) = place.iterdir()
        return source.rename(self.stage.folder / name)

    def _commit(self, project: Path, package: Package) -> None:
        for name, text in package.files:
            (project / name).write_text(text.format(project=project))
        carried = ", ".join(f'"{path}"' for path in package.carry)
        (project / "reflectloop.toml").write_text(f"[workspace]\ncarry = [{carried}]\n")
        with (project / ".gitignore").open("a") as file:
            file.write("\n" + "".join(f"/{path}\n" for path in package.carry) + "__pycache__/\n*.egg-info/\n")
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "source"], ["tag", package.version]):
            self.stage.sh(project, "git", *words)

    def clean(self, project: Path, package: Package) -> None:
        """Take away what a suite left, so that the next begins with what the package ships."""
        kept = [word for path in package.carry for word in ("-e", f"/{path}")]
        self.stage.sh(project, "git", "clean", "-ffdxq", "-e", "/.reflectloop", "-e", "*.egg-info", *kept)
        self.stage.sh(project, "git", "checkout", "-q", ".")


def outside(stage: Stage, project: Path, package: Package) -> Ran:
    command = package.suite.format(project=project)
    began = time.monotonic()
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", command],
        cwd=project,
        env=stage.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIMEOUT_S,
        check=False,
    )
    text = done.stdout.decode("utf-8", "replace")
    return Ran(package.read(done.returncode, text), time.monotonic() - began, text)


def inside(stage: Stage, project: Path, package: Package) -> Ran:
    plan = stage.commands(package.suite.format(project=project), timeout_s=TIMEOUT_S)
    _, told = stage.loop(project, "run", "--new", "--isolation", LEVEL, plan)
    steps = told.get("data", {}).get("steps") or []
    if not steps or steps[0]["exit_code"] is None:
        return Ran(Outcome(-1, (), frozenset()), 0.0, f"{told['envelope']['message']}\n")
    text = (Path(told["data"]["folder"]) / "logs" / "P-1.1.log").read_text(errors="replace")
    return Ran(package.read(steps[0]["exit_code"], text), steps[0]["duration_ms"] / 1000, text)


def compare(yard: Yard, package: Package, project: Path) -> Row:
    """Both ways, and once more where they differ: some suites depend on the load of the machine. The table says so."""
    for tries in (1, 2):
        plain = outside(yard.stage, project, package)
        yard.clean(project, package)
        boxed = inside(yard.stage, project, package)
        row = Row(package, plain, boxed, tries)
        print("ok " if row.same else "NOT", package, plain.outcome, boxed.outcome, sep=" | ", flush=True)
        for name, ran, other in (("outside", plain, boxed), ("inside", boxed, plain)):
            (yard.output / f"{package.name}.{name}.{tries}.txt").write_text(ran.text)
            for one in sorted(ran.outcome.failing - other.outcome.failing):
                print(f"    fails {name} only: {one}", flush=True)
        if row.same:
            break
    return row


def prove_same(paper: Paper, rows: list[Row]) -> None:
    same = sum(row.same for row in rows)
    tests = sum(number for row in rows for word, number in row.plain.outcome.counts if word != "deselected")
    failing = sum(len(row.plain.outcome.failing) for row in rows)
    paper.claim(
        f"the suites of {len(rows)} packages end inside the box ({LEVEL}) as outside: exit code, counts, failing tests",
        f"{same} of {len(rows)} the same, {tests} tests, {failing} of them failing on both sides",
        holds=same == len(rows),
    )
    paper.table(
        ["package", "kind", "runner", "outside", "inside", "same", "seconds outside, inside"],
        [row.cells for row in rows],
    )


def prove_source(yard: Yard, paper: Paper, story: Story, project: Path, package: Package) -> None:
    """Red, change, green in the workspace; and nobody opens the original, which the watch does see outside."""
    stage, probe = yard.stage, story.probe(project)
    originals = sorted(path for path in (project / story.source).rglob("*") if path.is_file())
    with Watch(originals) as watch:
        env = stage.env | {"PYTHONPYCACHEPREFIX": str(stage.folder / "unused")}  # or it would read compiled files only
        subprocess.run(["bash", "-c", probe], cwd=project, env=env, capture_output=True, check=False)
        control = len(watch.seen())
    yard.clean(project, package)
    before = state(stage, project)
    plan = stage.commands(f"if ({probe}); then exit 1; fi", story.edit, probe)
    with Watch(originals) as watch:
        code, told = stage.loop(project, "run", "--new", "--isolation", LEVEL, plan)
        opened = len(watch.seen())
    equal = state(stage, project) == before
    touched = [change["path"] for change in told["data"].get("touched_files", [])]
    paper.claim(
        f"{package}, linked by {story.how}: a test sees a change made in the workspace, not the original",
        f"exit {code}: red, changed `{', '.join(touched)}`, green; files of the original opened meanwhile: {opened} "
        f"(by the same test outside: {control}); the original is {'as it was' if equal else 'CHANGED'}",
        holds=code == 0 and touched == [story.file] and equal and not opened and control > 0,
    )


def main() -> None:
    wanted = sys.argv[1:]  # names of packages, to look at some of them; the paper is about all
    paper = Paper("packages", ABOUT)
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as name:
        yard = Yard(Stage(Path(name).resolve()))
        # What a user's shell has, and commands in the box get: the suites read it.
        yard.stage.env |= {"LANG": "C.UTF-8"} | {key: os.environ[key] for key in ("PYENV_ROOT",) if key in os.environ}
        rows, projects = [], {}
        for package in (*PYTHON, FASTIFY, QS):
            if wanted and package.name not in wanted:
                continue
            projects[package.name] = yard.lay_out(package)
            rows.append(compare(yard, package, projects[package.name]))
        prove_same(paper, rows)
        for row in rows:
            for story in STORIES:
                if story.package == row.package.name:
                    prove_source(yard, paper, story, projects[row.package.name], row.package)
    if not wanted:
        paper.write()


if __name__ == "__main__":
    main()
