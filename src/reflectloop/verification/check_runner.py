"""Run a project's checks on a tree in a fresh workspace, and cache the results."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import ValidationError

import reflectloop
from reflectloop.errors import Interrupted, ReflectloopError, SandboxCreateFailed
from reflectloop.sandbox import editable_installs
from reflectloop.sandbox.mounts import TEMP
from reflectloop.sandbox.sandbox import Box, SandboxCommand
from reflectloop.system import beneath, clock, files, tree_walk
from reflectloop.system.patterns import lazy
from reflectloop.trust import signing
from reflectloop.verification import detect, environment_key, evidence, reports, tools
from reflectloop.verification.builds import carry_output
from reflectloop.verification.compare import NO_ANSWER
from reflectloop.verification.fresh_workspaces import WorkspaceFactory
from reflectloop.verification.observe import TamperWatch
from reflectloop.verification.progress import CheckObserver, RunningCheck, Times
from reflectloop.verification.reports import report_builder
from reflectloop.verification.result import Detail, DetectedCheck, ReportReading, VerificationResult
from reflectloop.verification.run_extras import RunExtras, RunPlace
from reflectloop.verification.seal import JudgingFiles, Seal, TouchedFiles, seal_files
from reflectloop.verification.sidecar import beside
from reflectloop.verification.stable_ids import HiddenIds
from reflectloop.verification.tools import PreparedCommand

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
    boxed = [site for environment in installed for site in detect.installed_sites(environment)]
    tops = {site: _names_in(site) for site in sites}
    known: dict[str, Copy] = {}
    for folder, module_path in _modules(paths):
        if folder not in known:
            top = module_path.partition("/")[0]
            site = next((site for site in boxed if detect.contains_file(site, module_path)), None)
            near = (site for site, names in tops.items() if top in names)
            site = site or next((site for site in near if (site / module_path).is_file()), None)
            if site:
                known[folder] = Copy(folder, module_path.removesuffix("/__init__.py").removesuffix(".py"), site)
    return list(known.values())


def _names_in(site: Path) -> set[str]:
    try:
        return {path.name for path in site.iterdir()}
    except OSError:
        return set()  # Python finds no module there either


def _modules(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield every top-level importable module: its folder, and its file relative to that folder."""
    for path in paths:
        if not path.endswith(".py"):
            continue
        parts = path.split("/")
        folder = parts[0] if parts[0] in _ROOTS else "."
        relative = parts[1:] if folder != "." else parts
        if not relative or relative[0] in _NOT_THE_PROJECTS or len(relative) > _DEEPEST + 1:
            continue
        package = relative[-1] == "__init__.py" and len(relative) > 1
        single_module = len(relative) == 1 and relative[0].endswith(".py") and relative[0][:-3] not in _NO_MODULES
        if package or single_module:
            yield folder, "/".join(relative)


_SAMPLE = Path("/report/report")
_LARGEST_REPORT = 256 << 20
_LARGEST_REPORTS = 1 << 30  # bytes of all reports of one check
_MOST_REPORTS = 20_000
_LOG_READ = 16 << 20
_LOG_END, _LAST_LINES = 16 << 10, 40
# The lines by which runners show the test that they are in: a name without an outcome after it.
_STARTED = tuple(
    lazy(pattern)
    for pattern in (
        r"(?!.* (?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b)(?P<test>\S+\.py::\S.*?) *$",  # pytest -v
        r"(?P<test>\w+ \([\w.]+\)) \.\.\. *$",  # unittest -v
        r"(?P<test>\S+\.py)(?: [.FEsxX]*)$",  # pytest: the file, with the outcomes so far
        r"=== (?:RUN|CONT) +(?P<test>\S+)$",  # go test -v
        r"test (?P<test>\S+) has been running for over ",  # cargo test
        r"\s*RUNS +(?P<test>\S+)$",  # jest
        r"\s*Start +\d+: (?P<test>\S+)$",  # ctest
    )
)
_NO_REPORT = "exited 0, but did not write the report that was requested"  # any program can print a success
# Outcomes that may change on another attempt; they are not cached.
_FLEETING = frozenset(("timeout", "crashed", "tampered"))
_LEAST_LIMIT_S, _TIMES_BASE = 60.0, 10  # the time limit after a run of base: a test that hangs is not awaited longer
_FOREIGN_MEMORY = (
    "a remembered result does not have the signature of this user's key: it was changed or written elsewhere; "
    "its check was run again"
)
_NOT_FOUND = (4, 5)  # pytest's exit codes where the whole command does not reach a chosen test
_FORM = 8  # of a cached result: those of another form are computed again


class CheckRun(NamedTuple):
    """The result of one check on one tree, and where it comes from."""

    result: VerificationResult
    tree: str
    output_sha256: str | None
    isolation: str
    started: str
    remembered: bool = False
    restricted: bool = False
    by: str = ""  # the run or verification that ran it
    touched: tuple[str, ...] = ()  # files that judge the change, and that the check changed
    built: tuple[str, ...] = ()  # files that a build of base made, and that would judge a change


@dataclass
class CheckRunner:
    """Runs checks. `memory` is the folder of cached results."""

    ground: WorkspaceFactory
    memory: Path
    logs: Path
    surroundings: Callable[[Mapping[Path, Path]], str]  # the hash of what else a result depends on
    base_tree: str
    observer: CheckObserver
    times: Times
    expected_runs: int = 0  # an estimate, for the observer
    carried: Mapping[str, Mapping[Path, Path]] = field(default_factory=dict)  # by tree, the files that its set-up made
    notes: set[str] = field(default_factory=set)  # remarks for the reader of the verdict
    judging: JudgingFiles = field(default_factory=JudgingFiles)
    touched: TouchedFiles = field(default_factory=TouchedFiles)
    _built_on_base: set[str] = field(default_factory=set)
    made_from: dict[str, str] = field(default_factory=dict)  # by a tree made for one run, the tree it was made from
    _logs: int = 0
    _hashes: dict[tuple[Path, ...], str] = field(default_factory=dict)
    _unsure: dict[str, CheckRun] = field(default_factory=dict)  # by key, to be cached when the layers are compared
    _runs: int = 0
    _ids: HiddenIds = field(default_factory=HiddenIds)
    # The tests of earlier runs in their order, by the check and what it was restricted to.
    _orders: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tampering = TamperWatch(self.base_tree, self.ground.settings.verify.canaries, self.notes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Cache what was run since the layers were compared, if they are as they were."""
        if not self._unsure or not (kind is None or issubclass(kind, (ReflectloopError, KeyboardInterrupt))):
            return
        try:
            self.ground.layers.compare_again(self.ground.trees.store)
        except SandboxCreateFailed:
            if kind is None:
                raise
            return  # the first fault is the one to report
        for key, ran in self._unsure.items():
            self._write(key, ran)

    def on(
        self,
        tree: str,
        checks: Sequence[DetectedCheck],
        words: str,
        only: Mapping[str, Sequence[str]] | None = None,
        attempt: int = 0,
        limits: Mapping[str, float] | None = None,
        extras: RunExtras | None = None,
    ) -> dict[str, CheckRun]:
        """Run every check on one tree, in one workspace, in order.

        `only` names the tests that a check is restricted to. A second attempt is not answered from the cache. `limits`
        are seconds by the check's name, below the one of the settings: see `time_limit`. With `extras`, nothing
        is cached.
        """
        installed = self.installed_on(tree)
        chosen = {name: exact for name, names in (only or {}).items() if (exact := self._ids.exact(names)) is not None}
        root = self.ground.project.root
        checks = self._resolved(tree, checks)
        if self.ground.settings.verify.setup:
            left = [name for name in detect.beside(checks, root) if Path(name) not in installed]
            self.notes |= {f"[verify] setup made no {name}, so the project's own is used" for name in left}
        keys = {check.name: self._key(tree, check, checks, chosen.get(check.name, ()), attempt) for check in checks}
        cached = keys if extras is None else {}
        known = {name: ran for name, key in cached.items() if (ran := self._recall(key)) is not None}
        asked = [check for check in checks if check.name not in known]
        self._orders |= {(name, *chosen.get(name, ())): tuple(ran.result.tests) for name, ran in known.items()}
        for name, ran in known.items():
            self.touched.add(tree, name, ran.touched)
            self._built_on_base.update(ran.built)
        self.expected_runs -= len(known)
        if tree == self.base_tree:
            for name, ran in known.items():
                self._tampering.learn(name, ran.result)
        if not asked:
            return known
        out = dict(known)
        with self.ground.open(tree, self.base_tree, installed) as box:
            self.notes.update(box.workspace.notes)
            run = functools.partial(
                self._run_all, tree=tree, words=words, chosen=chosen, limits=limits or {}, extras=extras, keys=cached
            )
            builds = [check for check in checks if check.kind == "build"]
            others = [check for check in checks if check.kind != "build" and check.name not in known]
            # Tests run also after a build that failed: many do not need it, such as that of an optional extension.
            if builds and others and self.ground.wall.mounted:
                out |= self._built_apart(run, builds, box, tree, installed)
                out |= run(box, others)
            else:
                out |= run(box, [*builds, *others])
        for name in (check.name for check in builds if extras is None):
            self._remember(keys[name], out[name])
        return out

    def remembers(self, tree: str, check: DetectedCheck, beside: Sequence[DetectedCheck]) -> bool:
        """Return True if the whole of a check, one of several on a tree, would be answered from the cache."""
        checks = self._resolved(tree, beside)
        own = next(item for item in checks if item.name == check.name)
        return self._recall(self._key(tree, own, checks, (), 0)) is not None

    def _resolved(self, tree: str, checks: Sequence[DetectedCheck]) -> list[DetectedCheck]:
        root, caller, installed = self.ground.project.root, self.ground.caller, self.installed_on(tree)
        return [detect.resolve(check, root, caller, installed=installed) for check in checks]

    def _run_all(
        self,
        box: Box,
        checks: Sequence[DetectedCheck],
        *,
        tree: str,
        words: str,
        chosen: Mapping[str, Sequence[str]],
        limits: Mapping[str, float],
        extras: RunExtras | None,
        keys: Mapping[str, str],
    ) -> dict[str, CheckRun]:
        """Run checks in one workspace, see which judging files each changes, and remember what is no build at once.

        Whoever interrupts a later one need not repeat those that have ended.
        """
        out, sealed = {}, self.seal(box, tree)
        for check in checks:
            with sealed.watched() as touched:
                ran = self._run(box, tree, check, words, chosen.get(check.name, ()), limits.get(check.name), extras)
            out[check.name] = ran._replace(touched=tuple(sorted(touched)))
            self.touched.add(tree, check.name, out[check.name].touched)
            if check.kind != "build" and check.name in keys:
                self._remember(keys[check.name], out[check.name])
        return out

    def _built_apart(
        self,
        run: Callable[[Box, Sequence[DetectedCheck]], dict[str, CheckRun]],
        builds: Sequence[DetectedCheck],
        box: Box,
        tree: str,
        installed: Mapping[Path, Path],
    ) -> dict[str, CheckRun]:
        """Run builds in a workspace of their own, and carry what they made to that of the other checks."""
        with self.ground.open(tree, self.base_tree, installed) as workshop:
            out = run(workshop, builds)
            is_base = tree == self.base_tree
            made = carry_output(
                workshop, box, self.ground.trees.listing(tree), None if is_base else self._built_on_base
            )
        self.notes |= {made.note()} - {""}
        if is_base:
            self._built_on_base.update(made.judging)
            out = {name: ran._replace(built=made.judging) for name, ran in out.items()}
        return out

    def seal(self, box: Box, tree: str) -> Seal:
        """Seal the files of a workspace that judge the change; base may change its own."""
        listing = self.ground.trees.listing(tree)
        free = None if tree == self.base_tree else self.touched.on(self.base_tree)
        return seal_files(box, listing, self.judging, free)

    def installed_on(self, tree: str) -> Mapping[Path, Path]:
        """Return the files that a set-up made for a tree, or for the tree that it was made from."""
        return self.carried.get(self.made_from.get(tree, tree)) or {}

    def new_log(self, name: str) -> Path:
        """Return the path of the next log."""
        self._logs += 1
        return self.logs / f"verify.{self._logs}.{_file_name(name)}.log"

    def _stamp(self) -> str:
        return self.ground.wall.stamp(())

    def announce(self, name: str, words: str, only: Sequence[str] = ()) -> RunningCheck:
        """Tell the observer that a check begins on a tree, which `words` describe."""
        self._runs += 1
        duration_ms, tests = self.times.last(name, only) or (None, None)
        run = RunningCheck(self._runs, self.expected_runs, name, words, duration_ms, tests)
        self.observer.check_started(run)
        return run

    # One check -----------------------------------------------------------------------------------------------

    def time_limit(self, base: VerificationResult) -> float:
        """Return the seconds that a check may take after a run of base took as long as it did."""
        most = float(self.ground.settings.verify.timeout_s)
        if base.type == "timeout":
            return most
        return min(most, max(_LEAST_LIMIT_S, round(_TIMES_BASE * base.duration_ms / 1000)))

    def _run(
        self,
        box: Box,
        tree: str,
        check: DetectedCheck,
        words: str,
        only: Sequence[str],
        limit_s: float | None,
        extras: RunExtras | None = None,
        *,
        by_name: bool = False,
    ) -> CheckRun:
        run = self.announce(check.name, words, only)
        name = f"tmp{secrets.token_hex(4)}"  # checks can see it, so it does not name the engine
        inside = (TEMP if box.view else box.workspace.tmp) / name
        (box.workspace.tmp / name).mkdir()
        prepared, chosen = self._prepared(check, inside / "report", only, by_name=by_name)
        if prepared.stand_in:
            shutil.copyfile(prepared.stand_in, box.workspace.tmp / name / prepared.stand_in.name)
        home = self.ground.caller.get("HOME", "")
        named = {name: value.replace("{home}", home) for name, value in prepared.env.items()}
        env = {**self._own_modules(box, tree, check), **named}
        place = RunPlace(box.workspace.tmp / name, inside, box.view.root if box.view else box.workspace.repo.resolve())
        if extras and check.kind == "test":
            prepared, env = extras.lay(prepared, env, place)
        watch = self._tampering.begin(check, prepared, box.workspace.tmp / name, inside, chosen)
        log = self.new_log(check.name)
        started = clock.stamp(clock.now())
        order = SandboxCommand(
            beside(check.service, watch.argv),
            box.workspace.resolve(check.cwd),
            log,
            min(self.ground.settings.verify.timeout_s, limit_s or float("inf")),
            env=watch.environment(env),
            show=lambda data: self.observer.output(check.name, data),
            look=run.counter.feed,
        )
        try:
            done = box.run(order)
        finally:
            events = watch.close()
        if done.cancelled:
            raise Interrupted("the verification was stopped", next_step="reflectloop verify")
        unreached = bool(chosen) and done.exit_code in _NOT_FOUND
        if self._tampering.is_unwatchable(check, tree, watch, events) or unreached:
            return self._run(box, tree, check, words, only, limit_s, extras, by_name=unreached)
        if extras and check.kind == "test":
            extras.collect(place)
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
            top=os.fspath(self.ground.project.root if box.wall.mounted else box.workspace.repo.resolve()),
        )
        if result.ok and reading is None and prepared.report is not None:
            result = result.model_copy(update={"ok": False, "type": "crashed", "summary": _NO_REPORT})
        if done.timed_out or done.idle:
            why = f"did nothing for {box.idle_s:g} s" if done.idle else f"did not end within {order.timeout_s:g} s"
            earlier = self._orders.get((check.name, *only), ())
            result = _with_hanging_test(result, why, hanging_test(log_text, run.counter.done, earlier))
        ended = not (done.timed_out or done.idle)
        result = self._tampering.judge(check, tree, watch, events, result, ended=ended)
        result = self._ids.clean(result)
        if result.tests:
            self._orders[check.name, *only] = tuple(result.tests)
        restricted = bool(only) and prepared.restricted
        if result.type not in NO_ANSWER:
            self.times.add(check.name, only, result.duration_ms, len(result.tests))
        self.observer.check_ended(run, result.summary, result.duration_ms, ok=result.ok)
        digest = evidence.digest_of(log)
        return CheckRun(result, tree, digest, self._stamp(), started, restricted=restricted, by=self.ground.name)

    def _prepared(
        self, check: DetectedCheck, report: Path, only: Sequence[str], *, by_name: bool
    ) -> tuple[PreparedCommand, Sequence[str]]:
        """Return the command, and the tests that the observer must choose because the command does not name them.

        To name files would change what pytest imports, and from where.
        """
        prepared = tools.prepare(check, report=report, only=only)
        if by_name or not prepared.restricted or not self._tampering.can_choose(check, prepared):
            return prepared, ()
        return tools.prepare(check, report=report)._replace(restricted=True), only

    def _own_modules(self, box: Box, tree: str, check: DetectedCheck) -> dict[str, str]:
        """If the project is installed as a copy, put its sources first: the copy is not what is judged."""
        root = self.ground.project.root
        installed = [path for path in self.installed_on(tree).values() if path.is_dir() and not path.is_symlink()]
        names = [name for name in detect.beside([check], root) if Path(name) not in self.installed_on(tree)]
        sites = editable_installs.sites(self.ground.caller, [root / name for name in names])
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
            _FORM,
            reflectloop.__version__,
            tree,
            check.tool,
            argv,
            check.cwd,
            repr(check.service),
            built,
            sorted(only),
            self._environment(self.installed_on(tree)),
            environment_key.program(self._place(check), self.ground.caller.get("PATH", os.defpath)),
            attempt,
            self.ground.settings.verify.canaries,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _environment(self, installed: Mapping[Path, Path]) -> str:
        places = tuple(sorted(installed.values()))
        if places not in self._hashes:
            self._hashes[places] = self.surroundings(installed)
        return self._hashes[places]

    def _place(self, check: DetectedCheck) -> str:
        """Return the check's program: a name on PATH, or a path in the project."""
        name = check.command[0]
        return os.path.normpath(self.ground.project.root / check.cwd / name) if "/" in name else name

    def _recall(self, key: str) -> CheckRun | None:
        if key in self._unsure:
            return self._unsure[key]._replace(remembered=True)
        try:
            fields = json.loads((self.memory / f"{key}.json").read_bytes())
            if not self._is_signed(key, fields):
                self.notes.add(_FOREIGN_MEMORY)
                return None
            result = VerificationResult.model_validate(fields.pop("result"))
            if not self._ids.recall(result.tests, fields.pop("ids")):
                return None
            fields |= {name: tuple(map(str, fields[name])) for name in ("touched", "built")}
            return CheckRun(result, **{**fields, "remembered": True})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, ValidationError):
            return None  # an unreadable entry is computed again

    def _remember(self, key: str, ran: CheckRun) -> None:
        if ran.result.type in _FLEETING:
            return
        if self.ground.layers.is_sure:
            self._write(key, ran)
        else:
            self._unsure[key] = ran

    def _write(self, key: str, ran: CheckRun) -> None:
        self.memory.mkdir(parents=True, exist_ok=True)
        fields = {**ran._asdict(), "result": ran.result.model_dump(mode="json")}
        fields["ids"] = self._ids.key_mark
        fields["mac"] = self._signature(key, fields)
        files.write_atomic(self.memory / f"{key}.json", json.dumps(fields) + "\n", mode=0o600)

    def _is_signed(self, key: str, fields: dict[str, Any]) -> bool:
        """Return True if this user's engine wrote the entry, for this key; take the signature out."""
        mac, expected = fields.pop("mac", None), self._signature(key, fields)
        return bool(expected) and signing.matches(mac, expected)

    def _signature(self, key: str, fields: Mapping[str, Any]) -> str:
        user_key = signing.key()
        return user_key.sign("memory", evidence.canonical([key, fields])) if user_key else ""


def _with_hanging_test(result: VerificationResult, why: str, test: str | None) -> VerificationResult:
    """Return the result of a check that was ended, with the test that it was in."""
    hanging = (Detail(error=why, test=test),) if test else ()
    summary = f"{result.tool}: {why}" + (f", in {test}" if test else "")
    return result.model_copy(update={"summary": summary, "details": (*hanging, *result.details)})


def hanging_test(log: str, done: int, order: Sequence[str]) -> str | None:
    """Return the test that a runner was in when it was ended, or at least its file, if its log shows it.

    `done` tests were reported; `order` are all tests as an earlier run reported them.
    """
    started = last_started(log)
    following = order[done] if started and done < len(order) else ""
    return following if started and following.startswith(f"{started}::") else started


def last_started(log: str) -> str | None:
    """Return the test or the file that a log shows as begun and not as ended."""
    later: list[str] = []
    for line in reversed([line for line in log[-_LOG_END:].splitlines() if line.strip()][-_LAST_LINES:]):
        tests = [match["test"] for pattern in _STARTED if (match := pattern.match(line))]
        if tests and not any(tests[0] in after for after in later):
            return tests[0]
        later.append(line)
    return None


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name)


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
    return report_builder.joined(readings) if readings else None
