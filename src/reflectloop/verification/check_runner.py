"""Run a project's checks on a tree in a fresh workspace, and cache the results."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pydantic import ValidationError

import reflectloop
from reflectloop import secrets
from reflectloop.sandbox import editable_installs
from reflectloop.sandbox.mounts import TEMP
from reflectloop.sandbox.sandbox import Box, SandboxCommand
from reflectloop.system import beneath, clock, files, tree_walk
from reflectloop.verification import detect, evidence, reports, tools
from reflectloop.verification.fresh_workspaces import WorkspaceFactory
from reflectloop.verification.result import DetectedCheck, ReportReading, VerificationResult
from reflectloop.verification.sidecar import beside
from reflectloop.verification.tools import PreparedCommand

_PACKAGES = ("site-packages", "dist-packages")
_ROOTS = ("src", "lib", "python")
_DEEPEST = 3  # folders in a package's name
_NOT_THE_PROJECTS = frozenset(("tests", "test", "testing", "docs", "doc", "examples", "benchmarks", "scripts", "tools"))
_NO_MODULES = frozenset(("setup", "conftest", "noxfile", "tasks", "manage", "versioneer"))


class Copy(NamedTuple):
    """A project module of which an environment has a copy."""

    folder: str  # the project folder that contains the module
    module: str
    site: Path  # the site-packages folder that contains the copy


def installed_copies(paths: Iterable[str], sites: Sequence[Path], installed: Sequence[Path] = ()) -> list[Copy]:
    """Return one installed copy for each folder of modules.

    `installed` are environments that a set-up made in a sandbox: links in them are not followed, unlike in the user's.
    """
    boxed = [site for environment in installed for site in _sites(environment)]
    known: dict[str, Copy] = {}
    for folder, module_path in _modules(paths):
        if folder not in known:
            site = next((site for site in boxed if _contains(site, module_path)), None)
            site = site or next((site for site in sites if (site / module_path).is_file()), None)
            if site:
                known[folder] = Copy(folder, module_path.removesuffix("/__init__.py").removesuffix(".py"), site)
    return list(known.values())


def _sites(environment: Path) -> Iterator[Path]:
    with tree_walk.open_folder(environment) as top:
        if beneath.is_folder(top, "lib"):
            names = sorted(path.name for path in (environment / "lib").iterdir() if path.name.startswith("python3"))
            inside = [f"lib/{name}/{part}" for name in names for part in _PACKAGES]
            yield from (environment / path for path in inside if beneath.is_folder(top, path))


def _contains(site: Path, path: str) -> bool:
    with tree_walk.open_folder(site) as top:
        return beneath.is_file(top, path)


def _modules(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield every top-level importable module: its folder, and its file relative to that folder."""
    for path in paths:
        parts = PurePosixPath(path).parts
        folder = parts[0] if parts[0] in _ROOTS else "."
        relative = parts[1:] if folder != "." else parts
        if not relative or relative[0] in _NOT_THE_PROJECTS or len(relative) > _DEEPEST + 1:
            continue
        package = relative[-1] == "__init__.py" and len(relative) > 1
        single_module = len(relative) == 1 and relative[0].endswith(".py") and relative[0][:-3] not in _NO_MODULES
        if package or single_module:
            yield folder, "/".join(relative)


_REPORT = "reflectloop-report"
_SAMPLE = Path("/report/report")
_LARGEST_REPORT = 256 << 20
_LARGEST_REPORTS = 1 << 30  # bytes of all reports of one check
_MOST_REPORTS = 20_000
_LOG_READ = 16 << 20
_NO_REPORT = "exited 0 without the report it was asked for"  # any program can print a success
# Outcomes that may change on another attempt; they are not cached.
_FLEETING = frozenset(("timeout", "crashed"))


class CheckRun(NamedTuple):
    """The result of one check on one tree, and where it comes from."""

    result: VerificationResult
    tree: str
    output_sha256: str | None
    isolation: str
    started: str
    remembered: bool = False
    restricted: bool = False


class CheckProgress(NamedTuple):
    """Callbacks that report progress while checks run."""

    check: Callable[[str, str], None]  # called with the check's name and a description of the tree
    output: Callable[[str, bytes], None]


@dataclass
class CheckRunner:
    """Runs checks. `surroundings` is what else a result depends on, `memory` the folder of cached results."""

    ground: WorkspaceFactory
    memory: Path
    logs: Path
    surroundings: str
    base_tree: str
    progress: CheckProgress
    carried: Mapping[str, Mapping[Path, Path]] = field(default_factory=dict)  # by tree, the files that its set-up made
    notes: set[str] = field(default_factory=set)  # remarks for the reader of the verdict
    _logs: int = 0

    def on(
        self,
        tree: str,
        checks: Sequence[DetectedCheck],
        words: str,
        only: Mapping[str, Sequence[str]] | None = None,
        attempt: int = 0,
    ) -> dict[str, CheckRun]:
        """Run every check on one tree, in one workspace, in order.

        `only` names the tests that a check is restricted to. A second attempt is not answered from the cache.
        """
        chosen = only or {}
        keys = {check.name: self._key(tree, check, checks, chosen.get(check.name, ()), attempt) for check in checks}
        known = {name: ran for name, key in keys.items() if (ran := self._recall(key)) is not None}
        asked = [check for check in checks if check.name not in known]
        if not asked:
            return known
        out = dict(known)
        with self.ground.open(tree, self.base_tree, self.carried.get(tree)) as box:
            broken: set[str] = set()
            for check in checks:
                if check.kind != "build" and check.name in known:
                    continue
                if check.cwd in broken:
                    out[check.name] = CheckRun(_not_built(check), tree, None, self._stamp(), clock.stamp(clock.now()))
                    continue
                ran = self._run(box, tree, check, words, chosen.get(check.name, ()))
                out[check.name] = ran
                if check.kind == "build" and not ran.result.ok:
                    broken.add(check.cwd)
                self._remember(keys[check.name], ran)
        return out

    def _stamp(self) -> str:
        return self.ground.wall.stamp(())

    # One check -----------------------------------------------------------------------------------------------

    def _run(self, box: Box, tree: str, check: DetectedCheck, words: str, only: Sequence[str]) -> CheckRun:
        self.progress.check(check.name, words)
        self._logs += 1
        name = f"{_REPORT}-{self._logs}"
        inside = (TEMP if box.view else box.workspace.tmp) / name
        (box.workspace.tmp / name).mkdir()
        prepared = tools.prepare(check, report=inside / "report", only=only)
        if prepared.stand_in:
            shutil.copyfile(prepared.stand_in, box.workspace.tmp / name / prepared.stand_in.name)
        log = self.logs / f"verify.{self._logs}.{_file_name(check.name)}.log"
        started = clock.stamp(clock.now())
        order = SandboxCommand(
            beside(check.service, prepared.argv),
            box.workspace.resolve(check.cwd),
            log,
            self.ground.settings.verify.timeout_s,
            env={**self._own_tools(box, check), **self._own_modules(box, tree, check), **prepared.env},
            show=lambda data: self.progress.output(check.name, data),
        )
        done = box.run(order)
        log_text = _log_text(log)
        reading = self._read(box, check, prepared, order.cwd, name, log_text)
        result = reports.judge(
            reading,
            exit_code=done.exit_code,
            timed_out=done.timed_out or done.idle,
            kind=check.kind,
            tool=check.tool,
            command=prepared.argv,
            duration_ms=done.duration_ms,
            log=log_text,
            log_path=os.fspath(log),
        )
        if result.ok and reading is None and prepared.report is not None:
            result = result.model_copy(update={"ok": False, "type": "crashed", "summary": _NO_REPORT})
        return CheckRun(
            result, tree, evidence.digest_of(log), self._stamp(), started, restricted=bool(only) and prepared.restricted
        )

    def _own_tools(self, box: Box, check: DetectedCheck) -> dict[str, str]:
        """Put the project's own `python`, `jest` and so on first in PATH, as after `activate`."""
        root = self.ground.project.root
        top = root if box.wall.mounted else box.workspace.repo
        folders = detect.beside([check], root)
        bins = [top / name / (".bin" if name.endswith("node_modules") else "bin") for name in folders]
        usual = self.ground.caller.get("PATH", os.defpath)
        return {"PATH": os.pathsep.join([*map(os.fspath, bins), usual])} if bins else {}

    def _own_modules(self, box: Box, tree: str, check: DetectedCheck) -> dict[str, str]:
        """If the project is installed as a copy, put its sources first: the copy is not what is judged."""
        root = self.ground.project.root
        installed = [
            path for path in (self.carried.get(tree) or {}).values() if path.is_dir() and not path.is_symlink()
        ]
        sites = editable_installs.sites(self.ground.caller, [root / name for name in detect.beside([check], root)])
        copied = installed_copies(self.ground.trees.listing(tree), sites, installed)
        if not copied:
            return {}
        self.notes |= {
            f"{copy.module} is also installed in {copy.site}: the workspace's comes first" for copy in copied
        }
        top = root if box.wall.mounted else box.workspace.repo
        return {"PYTHONPATH": os.pathsep.join(os.path.normpath(top / copy.folder) for copy in copied)}

    def _read(
        self, box: Box, check: DetectedCheck, prepared: PreparedCommand, cwd: Path, name: str, log_text: str
    ) -> ReportReading | None:
        """Return the report that the tool wrote, or its parsed output if it writes no report."""
        if prepared.report is None:
            return reports.read(log_text, tool=check.tool)
        if prepared.report.is_absolute():
            return _reported(box.workspace.tmp, (name,), prepared.report.name, check.tool)
        # The folder that the check ran in, not one that the check replaced it with.
        parts = cwd.relative_to(box.workspace.repo.resolve()).parts
        return _reported(box.workspace.repo, parts, os.fspath(prepared.report), check.tool)

    # Memory --------------------------------------------------------------------------------------------------

    def _key(
        self, tree: str, check: DetectedCheck, checks: Sequence[DetectedCheck], only: Sequence[str], attempt: int
    ) -> str:
        built = [list(other.command) for other in checks if other.kind == "build" and other.cwd == check.cwd]
        # The argv as it is run, because another version of this engine may call a tool differently.
        argv = list(tools.prepare(check, report=_SAMPLE, only=only).argv)
        parts = [
            reflectloop.__version__,
            tree,
            check.tool,
            argv,
            check.cwd,
            repr(check.service),
            built,
            sorted(only),
            self.surroundings,
            attempt,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _recall(self, key: str) -> CheckRun | None:
        try:
            fields = json.loads((self.memory / f"{key}.json").read_bytes())
            result = VerificationResult.model_validate(fields.pop("result"))
            return CheckRun(result, **{**fields, "remembered": True})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, ValidationError):
            return None  # an unreadable entry is computed again

    def _remember(self, key: str, ran: CheckRun) -> None:
        if ran.result.type in _FLEETING:
            return
        self.memory.mkdir(parents=True, exist_ok=True)
        fields = {**ran._asdict(), "result": ran.result.model_dump(mode="json")}
        files.write_atomic(self.memory / f"{key}.json", secrets.current_detector().redact(json.dumps(fields)) + "\n")


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name)


def _not_built(check: DetectedCheck) -> VerificationResult:
    return VerificationResult(
        ok=False,
        type="build_failure",
        summary="not run, since the build failed",
        kind=check.kind,
        tool=check.tool,
        command=check.command,
    )


def _log_text(log: Path) -> str:
    with log.open("rb") as file:
        return file.read(_LOG_READ).decode("utf-8", "replace")


def _reported(top: Path, parts: tuple[str, ...], pattern: str, tool: str) -> ReportReading | None:
    """Return the reports in a folder that a command could write to, or None if there are none to read.

    No link is followed, not even one above a report: it would lead to the reports of another project.
    """
    readings: list[ReportReading] = []
    left = _LARGEST_REPORTS
    try:
        with tree_walk.open_folder(top) as root, beneath.open_folder(root, parts) as folder:
            inside = f"{pattern}/**/*" if beneath.is_folder(folder, pattern) else pattern
            for path in beneath.find_files(folder, inside, _MOST_REPORTS):
                content = beneath.read(folder, path, min(_LARGEST_REPORT, left))
                left -= len(content)
                reading = reports.read(content, tool=tool)
                readings += [reading] if reading is not None else []
    except OSError:
        return None  # partial reports are useless: a failed test may be in the missing part
    return _joined(readings) if readings else None


def _joined(readings: Sequence[ReportReading]) -> ReportReading:
    if len(readings) == 1:
        return readings[0]
    counts = [reading.counts for reading in readings if reading.counts is not None]
    summed = (
        {name: sum(getattr(count, name) for count in counts) for name in type(counts[0]).model_fields}
        if counts
        else None
    )
    return ReportReading(
        readings[0].tool,
        readings[0].kind,
        tuple(detail for reading in readings for detail in reading.details),
        type(counts[0])(**summed) if summed is not None else None,
        {name: outcome for reading in readings for name, outcome in reading.tests.items()},
        all(reading.collected for reading in readings),
    )
