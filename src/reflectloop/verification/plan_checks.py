"""Run the checks that a plan names, sealed: do they pass, fail on base, and, for a refactoring, get no slower."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from reflectloop.plan.model import Check
from reflectloop.sandbox.sandbox import Box
from reflectloop.system import clock, files
from reflectloop.system.patterns import lazy
from reflectloop.verification import checks as plan_checks
from reflectloop.verification import evidence, new_names
from reflectloop.verification.check_runner import CheckRunner
from reflectloop.verification.checks import CheckResult
from reflectloop.verification.verdict import PlanCheckResult

_INTERPRETER = lazy(r"python[\d.]*|(?:ba|da|z|k)?sh|node|deno|bun|ruby|perl|php|lua|Rscript")
_IMPORTED = lazy(r"(?:\bimport|\bfrom)\s+([\w.]+)")
_SIGNALLED = 128
_ROUNDS = 3  # runs of a benchmark, on each side in turn; the best one counts
_SLOWER = 1.25
_NOISE_MS = 100  # a smaller difference is measurement noise


@dataclass(frozen=True)
class PlanChecks:
    """The plan's checks for one verification.

    `base` and `patch` are trees with the patch's tests; `origin` is the base itself.
    """

    runs: CheckRunner
    origin: str
    base: str
    patch: str
    write_down: Callable[..., None]
    unedited: str = ""  # `patch` with the old version of every existing test
    edited: tuple[str, ...] = ()  # the existing tests that the patch changes

    def judge(self, wanted: Mapping[str, Check], *, timed: bool, looks_back: bool = False) -> list[PlanCheckResult]:
        """Run the checks.

        `timed` requires benchmarks to take no longer than on base; `looks_back` also runs passing checks on base.
        """
        if not wanted:
            return []
        after = self._on(self.patch, wanted, "base + patch")
        red = {name: check for name, check in wanted.items() if check.red_on_base or (looks_back and after[name].held)}
        before = self._on(self.base, red, "base") if red else {}
        dependent = self._depends_on_edits({name: check for name, check in wanted.items() if after[name].held})
        slow = self._slow({name: check for name, check in wanted.items() if timed and check.kind == "benchmark"})
        unproven = {name: why for name, check in wanted.items() if (why := _not_run_on_base(check, before.get(name)))}
        return [
            PlanCheckResult(
                name,
                after[name].held and name not in slow and not (check.red_on_base and name in unproven),
                slow.get(name) or (unproven.get(name, "") if check.red_on_base else "") or after[name].reason,
                red_on_base=None if name in unproven else _was_red(check, before.get(name)),
                edited=self.edited if name in dependent else (),
                failed_on_base=name in before and not before[name].held,
                missing=_missing_name(before.get(name)),
            )
            for name, check in wanted.items()
        ]

    def _depends_on_edits(self, passing: Mapping[str, Check]) -> set[str]:
        """Return the checks that pass only because a test was changed."""
        if not self.edited or self.unedited == self.patch or not passing:
            return set()
        results = self._on(self.unedited, passing, "base + patch, old tests")
        return {name for name, result in results.items() if not result.held}

    def _on(self, tree: str, wanted: Mapping[str, Check], description: str) -> dict[str, CheckResult]:
        out = {}
        with self.runs.ground.open(tree, self.origin, self.runs.carried.get(tree)) as box:
            self.runs.notes.update(box.workspace.notes)
            sealed = self.runs.seal(box, tree)
            for name, check in wanted.items():
                with sealed.watched() as touched:
                    out[name] = result = self._run(box, name, check, description)
                self.runs.touched.add(tree, name, sorted(touched))
                self._note(name, check, tree, result)
        return out

    def _run(self, box: Box, name: str, check: Check, description: str) -> CheckResult:
        run = self.runs.announce(name, f"on {description}, sealed")

        def show(data: bytes) -> None:
            run.counter.feed(data)
            self.runs.observer.output(name, data)

        result = plan_checks.run(
            name,
            check,
            box,
            must_fail=False,
            log=self.runs.logs / f"verify.{description.replace(' ', '')}.{name}.log",
            cwd=box.workspace.resolve("."),
            env={},
            printed=lambda _: True,  # concerns the step's commands, which do not run here
            exited=check.commands_exit or 0,
            show=show,
        )
        self.runs.times.add(name, (), result.duration_ms, 0)
        self.runs.observer.check_ended(run, result.reason, result.duration_ms, ok=result.held)
        return result

    def _slow(self, wanted: Mapping[str, Check]) -> dict[str, str]:
        """Return the benchmarks that take longer than on base, with a description."""
        if not wanted:
            return {}
        ground, carried = self.runs.ground, self.runs.carried
        best: dict[tuple[str, str], int] = {}
        with (
            ground.open(self.base, self.origin, carried.get(self.base)) as old,
            ground.open(self.patch, self.origin, carried.get(self.patch)) as new,
        ):
            for _ in range(_ROUNDS):
                for name, check in wanted.items():
                    for side, box in (("base", old), ("base + patch", new)):
                        took = self._run(box, name, check, f"{side}, timed").duration_ms
                        best[name, side] = min(took, best.get((name, side), took))
        return {name: loss for name in wanted if (loss := _loss(best[name, "base"], best[name, "base + patch"]))}

    def _note(self, name: str, check: Check, tree: str, result: CheckResult) -> None:
        self.write_down(
            claim=f"check {name}: {result.reason}",
            level="L3" if result.held and tree == self.patch else "L2",
            kind=check.kind,
            command=(check.run,) if isinstance(check.run, str) else check.run or (),
            exit_code=result.exit_code,
            tree=tree,
            **evidence.log_of(result.log, self.runs.logs.parent),
            isolation=self.runs.ground.wall.stamp(()),
            started=clock.stamp(clock.now()),
            duration_ms=result.duration_ms,
        )


def _not_run_on_base(check: Check, before: CheckResult | None) -> str:
    """Return why a check that failed on base proves nothing there, or an empty text."""
    if before is None or before.held or before.timed_out or not before.exit_code or before.log is None:
        return ""
    if before.exit_code >= _SIGNALLED:
        return ""  # a crash may be the fault that the change repairs
    why = plan_checks.why_no_verdict(check, before.exit_code, before.log)
    return f"on base it must fail, but gave no verdict there: {why}" if why else ""


def _missing_name(before: CheckResult | None) -> str:
    """Return the name whose absence made a check fail on base, by the end of its log."""
    if before is None or before.held or before.log is None:
        return ""
    return new_names.missing_in_log(files.last_lines(before.log)) or ""


def _was_red(check: Check, before: CheckResult | None) -> bool | None:
    """Return True if the check failed on base, False if it passed but should have failed, otherwise None."""
    if before is None:
        return None
    return True if not before.held else False if check.red_on_base else None


def scripts(checks: Iterable[Check], paths: Collection[str]) -> list[str]:
    """Return project files that the checks' commands run: directly, by an interpreter, by `-m` or by an import in `-c`.

    A file that a command only reads, as `grep` does, is not included.
    """
    programs: list[str] = []
    for check in checks:
        programs += _run_by(_argv(check.run)) if check.run is not None else []
    return [name for name in dict.fromkeys(programs) if name in paths]


def _run_by(argv: Sequence[str]) -> Iterator[str]:
    if not argv:
        return
    yield argv[0]
    if not _INTERPRETER.fullmatch(PurePosixPath(argv[0]).name):
        return
    for at, argument in enumerate(argv[1:], 1):
        if argument in ("-m", "-c") and at + 1 < len(argv):
            names = [argv[at + 1]] if argument == "-m" else _IMPORTED.findall(argv[at + 1])
            yield from (f"{name.replace('.', '/')}{end}" for name in names for end in (".py", "/__main__.py"))
            return
        if not argument.startswith("-"):
            yield argument
            return


def _argv(command: str | tuple[str, ...]) -> list[str]:
    try:
        argv = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError:  # an unclosed quote
        argv = str(command).split()
    return [argument.removeprefix("./") for argument in argv]


def _loss(before_ms: int, after_ms: int) -> str:
    if after_ms <= before_ms * _SLOWER or after_ms - before_ms < _NOISE_MS:
        return ""
    return f"got slower: {after_ms / 1000:.2f} s instead of {before_ms / 1000:.2f} s on base, the best of {_ROUNDS}"
