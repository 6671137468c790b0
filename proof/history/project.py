"""One repository of the user's folder: a clone with an environment of its own, and its plain suite at any commit."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

from proof.history.recipes import Recipe, find_recipe, requirements_for_tests
from proof.history.sampling import LAST, Commit, is_test_path, read_log
from proof.outcome import of_pytest

ENVIRONMENTS = (".venv", "node_modules")
COMMON = ("pytest", "pytest-cov", "hypothesis", "setuptools")
# Signs that a suite did not start its tests, as against tests that failed.
_NOT_STARTED = ("error: could not compile", "[build failed]", "[setup failed]", "Cannot find module", "SyntaxError")
_NO_TESTS = ("Ran 0 tests", "[no test files]", "No tests were found")


class SuiteRun(NamedTuple):
    """How the plain suite ended on one tree."""

    exit_code: int
    seconds: float
    failing: tuple[str, ...]
    tail: str

    @property
    def green(self) -> bool:
        return self.exit_code == 0 and not any(sign in self.tail for sign in _NO_TESTS)

    @property
    def started(self) -> bool:
        """Whether tests ran: pytest ends with 2 for what it cannot collect, other runners say it."""
        return self.exit_code != 2 and not any(sign in self.tail for sign in _NOT_STARTED)


class Project:
    """A clone under the work folder; every result is kept in a file named by commit."""

    def __init__(self, source: Path, work: Path, *, read_only: bool = False) -> None:
        self.name = source.name
        self.source = source
        self.folder = work / source.name
        self.clone = self.folder / "project"
        self.home = self.folder / "home"
        self.results = self.folder / "results"
        self.read_only = read_only  # run no suite: one that was not run before counts as red
        self._recipe: Recipe | None = None

    # Git

    def git(self, *words: str, check: bool = True) -> str:
        """Run git in the clone, with no settings of the user."""
        done = subprocess.run(
            ["git", "-c", "advice.detachedHead=false", *words],
            cwd=self.clone,
            env=self.env(),
            capture_output=True,
            check=False,
        )
        if check and done.returncode:
            raise RuntimeError(f"{self.name}: git {' '.join(words)}: {done.stderr.decode('utf-8', 'replace').strip()}")
        return done.stdout.decode("utf-8", "replace")

    def log(self) -> list[Commit]:
        """Return the newest commits of the default branch, without merges."""
        text = self.git("log", "--no-merges", f"-n{LAST}", "--format=%x1e%H%x1f%P%x1f%s", "--name-only", "origin/HEAD")
        return read_log(text)

    def commit(self, name: str) -> Commit:
        """Return one commit by its name."""
        return read_log(self.git("log", "-n1", "--format=%x1e%H%x1f%P%x1f%s", "--name-only", name))[0]

    def show(self, revision: str, path: str) -> str:
        """Return the text of a file at a revision, or nothing where it is not there."""
        return self.git("show", f"{revision}:{path}", check=False)

    def paths(self, commit: Commit) -> list[str]:
        """Return the paths that a commit changes; a move counts as two."""
        return self.git("diff", "--name-only", "--no-renames", commit.parent, commit.id).splitlines()

    def check_out(self, revision: str, tests_of: str | None = None, paths: list[str] | None = None) -> None:
        """Put a revision into the clone; with tests_of, the tests among the paths come from that revision."""
        self.git("checkout", "-q", "-f", revision)
        self.git("clean", "-qffdx", *(word for name in (*ENVIRONMENTS, *self.recipe.ignored) for word in ("-e", name)))
        for path, text in self.recipe.generated.items():
            if (self.clone / path).parent.is_dir():
                (self.clone / path).write_text(text)
        for path in (path for path in paths or () if tests_of and is_test_path(path)):
            (self.clone / path).unlink(missing_ok=True)
            if tests_of and self.git("ls-tree", tests_of, "--", path).strip():
                self.git("checkout", "-q", tests_of, "--", path)

    # The environment

    @property
    def recipe(self) -> Recipe:
        if self._recipe is None:
            names = self.git("ls-tree", "--name-only", "origin/HEAD").splitlines()
            recipe = find_recipe(self.name, names)
            if recipe is None:
                raise RuntimeError(f"{self.name}: no way to run its tests is known; name one in repositories.toml")
            self._recipe = recipe
        return self._recipe

    def env(self) -> dict[str, str]:
        """Return the variables of every process: a clean HOME, and the project's own tools first."""
        own = str(Path(sys.executable).parent)
        path = [name for name in os.environ["PATH"].split(os.pathsep) if name != own]
        passed = {
            name: os.environ[name]
            for name in os.environ
            if name.startswith(("PIP_", "UV_", "NPM_CONFIG_", "GOPROXY", "SSL_CERT", "NODE_EXTRA_CA", "RUSTUP_HOME"))
        }
        return passed | {
            "PATH": os.pathsep.join(path),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "BUILD": str(self.folder / "build"),
            "PIP_CACHE_DIR": str(self.folder.parent / "packages"),
            "UV_CACHE_DIR": str(self.folder.parent / "packages"),
            "npm_config_cache": str(self.folder.parent / "packages" / "npm"),
            **(self._recipe.env if self._recipe else {}),
        }

    def _tool_env(self) -> dict[str, str]:
        env = self.env()
        tools = [str(self.clone / ".venv" / "bin"), str(self.clone / "node_modules" / ".bin")]
        return env | {"PATH": os.pathsep.join([*tools, env["PATH"]]), "CARGO_TARGET_DIR": str(self.folder / "target")}

    def prepare(self) -> None:
        """Clone the repository and set up its environment at the newest commit, unless that was done before."""
        ready = self.folder / "ready"
        if ready.exists():
            return
        if self.read_only:
            raise RuntimeError(f"{self.name}: not set up yet")
        shutil.rmtree(self.folder, ignore_errors=True)
        for folder in (self.results, self.home / ".config" / "reflectloop"):
            folder.mkdir(parents=True)
        subprocess.run(["git", "clone", "-q", str(self.source), str(self.clone)], check=True)
        if self.git("rev-parse", "-q", "--verify", "origin/HEAD", check=False) == "":
            self.git("update-ref", "refs/remotes/origin/HEAD", "HEAD")
        (self.home / ".config" / "reflectloop" / "config.toml").write_text(self.recipe.settings)
        with (self.clone / ".git" / "info" / "exclude").open("a") as file:
            file.write("".join(f"/{name}\n" for name in (*ENVIRONMENTS, ".reflectloop/", *self.recipe.ignored)))
        self._install()
        ready.write_text("")

    def _install(self) -> None:
        names = self.git("ls-tree", "--name-only", "HEAD").splitlines()
        if self.recipe.test.startswith("python"):
            self._install_python()
        elif "package.json" in names:
            self._sh("npm install --no-audit --no-fund --ignore-scripts --no-package-lock --legacy-peer-deps")
        if self.recipe.install:
            self._sh(self.recipe.install)

    def _install_python(self) -> None:
        """Install what the tests need, by uv where it is there, which is much faster, else by pip."""
        python, uv = self.clone / ".venv" / "bin" / "python", shutil.which("uv")
        make = [uv, "venv", "-q", "--python", sys.executable] if uv else [sys.executable, "-m", "venv"]
        subprocess.run([*make, str(self.clone / ".venv")], check=True)
        pip = f"{uv} pip install -q --compile-bytecode --python {python}" if uv else f"{python} -m pip install -q"
        wanted = [
            *COMMON,
            *requirements_for_tests(tomllib.loads(self.show("HEAD", "pyproject.toml"))),
            *self.recipe.packages,
        ]
        self._sh(f"{pip} {shlex.join(wanted)}")
        # An editable install gives the project its metadata; where the build fails, the path below is enough.
        self._sh(f"{pip} --no-deps -e . || true")
        site = next((self.clone / ".venv" / "lib").glob("python3*")) / "site-packages"
        (site / "history.pth").write_text(f"{self.clone}/src\n{self.clone}\n")

    def _sh(self, command: str) -> None:
        done = subprocess.run(
            ["sh", "-ec", command], cwd=self.clone, env=self._tool_env(), capture_output=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{self.name}: {command}: {done.stderr.decode('utf-8', 'replace')[-2000:]}")

    # The suite

    def has_own_runner(self, revision: str) -> bool:
        """Return False if the test script of a revision starts a program that is not installed here."""
        try:
            manifest = json.loads(self.git("show", f"{revision}:package.json", check=False) or "{}")
            words = str(manifest.get("scripts", {}).get("test", "")).split()
        except (ValueError, AttributeError):
            return True
        program = words[0] if words else ""
        if not program or program in ("npm", "node", "yarn", "pnpm", "make") or "/" in program or "=" in program:
            return True
        return (self.clone / "node_modules" / ".bin" / program).exists() or shutil.which(program) is not None

    def suite(self, revision: str, tests_of: str | None = None, paths: list[str] | None = None) -> SuiteRun:
        """Run the plain suite on a revision, or read how it ended the last time."""
        key = revision[:12] + (f"+tests-{tests_of[:12]}" if tests_of else "")
        record = self.results / f"{key}.suite.json"
        if record.exists():
            entry = json.loads(record.read_text())
            return SuiteRun(entry["exit_code"], entry["seconds"], tuple(entry["failing"]), entry["tail"])
        if self.read_only:
            return SuiteRun(1, 0.0, (), "not run")
        self.check_out(revision, tests_of, paths)
        began = time.monotonic()
        with subprocess.Popen(
            ["sh", "-c", self.recipe.test],
            cwd=self.clone,
            env=self._tool_env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as suite:
            try:
                output, _ = suite.communicate(timeout=self.recipe.timeout_s)
                code, text = suite.returncode, output.decode("utf-8", "replace")
            except subprocess.TimeoutExpired:
                os.killpg(suite.pid, signal.SIGKILL)  # the shell and whatever it started
                code, text = 124, "stopped: it took too long"
        run = SuiteRun(
            code, round(time.monotonic() - began, 2), tuple(sorted(of_pytest(code, text).failing)), text[-1500:]
        )
        record.write_text(json.dumps(run._asdict()))
        return run
