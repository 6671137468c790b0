"""The checks that a plan names, sealed: whether they hold, are red on base, and, of a refactoring, got no slower."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from reflectloop.box.box import Box
from reflectloop.plan.model import Check
from reflectloop.verify import checks as plan_checks
from reflectloop.verify import evidence
from reflectloop.verify.checks import CheckResult
from reflectloop.verify.runs import Runs
from reflectloop.verify.verdict import Named
from reflectloop.world import clock

_INTERPRETER = re.compile(r"python[\d.]*|(?:ba|da|z|k)?sh|node|deno|bun|ruby|perl|php|lua|Rscript")
_IMPORTED = re.compile(r"(?:\bimport|\bfrom)\s+([\w.]+)")
_ROUNDS = 3  # of a benchmark, on each side in turn: the best of them counts
_SLOWER = 1.25
_NOISE_MS = 100  # less than so much more is no loss anybody could tell


@dataclass(frozen=True)
class NamedChecks:
    """`base` and `patch` are trees with the patch's own tests; `origin` is the base itself."""

    runs: Runs
    origin: str
    base: str
    patch: str
    write_down: Callable[..., None]
    unedited: str = ""  # `patch` with every test that was there before as it was
    edited: tuple[str, ...] = ()  # these tests

    def judge(self, wanted: Mapping[str, Check], *, timed: bool, looks_back: bool = False) -> list[Named]:
        """`timed` asks of benchmarks that they take no longer than on base; `looks_back`, what was red there."""
        if not wanted:
            return []
        after = self._on(self.patch, wanted, "base + patch")
        red = {name: check for name, check in wanted.items() if check.red_on_base or (looks_back and after[name].held)}
        before = self._on(self.base, red, "base") if red else {}
        leaning = self._leaning({name: check for name, check in wanted.items() if after[name].held})
        slow = self._slow({name: one for name, one in wanted.items() if timed and one.kind == "benchmark"})
        return [
            Named(
                name,
                after[name].held and name not in slow,
                slow.get(name) or after[name].reason,
                red_on_base=_was_red(check, before.get(name)),
                edited=self.edited if name in leaning else (),
            )
            for name, check in wanted.items()
        ]

    def _leaning(self, held: Mapping[str, Check]) -> set[str]:
        """Those that hold because a test was changed, and not because of what it tests."""
        if not self.edited or self.unedited == self.patch or not held:
            return set()
        found = self._on(self.unedited, held, "base + patch, old tests")
        return {name for name, one in found.items() if not one.held}

    def _on(self, tree: str, wanted: Mapping[str, Check], words: str) -> dict[str, CheckResult]:
        out = {}
        with self.runs.ground.open(tree, self.origin, self.runs.carried.get(tree)) as box:
            for name, check in wanted.items():
                out[name] = done = self._run(box, name, check, words)
                self._note(name, check, tree, done)
        return out

    def _run(self, box: Box, name: str, check: Check, words: str) -> CheckResult:
        self.runs.told.check(name, f"on {words}, sealed")
        return plan_checks.run(
            name,
            check,
            box,
            must_fail=False,
            log=self.runs.logs / f"verify.{words.replace(' ', '')}.{name}.log",
            cwd=box.workspace.resolve("."),
            env={},
            printed=lambda _: True,  # said of a step's own commands, which do not run here
            exited=check.commands_exit or 0,
            show=lambda data: self.runs.told.output(name, data),
        )

    def _slow(self, wanted: Mapping[str, Check]) -> dict[str, str]:
        """Those that take longer than on base, and how long."""
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
                        took = self._run(box, name, check, side).duration_ms
                        best[name, side] = min(took, best.get((name, side), took))
        return {name: words for name in wanted if (words := _loss(best[name, "base"], best[name, "base + patch"]))}

    def _note(self, name: str, check: Check, tree: str, done: CheckResult) -> None:
        self.write_down(
            claim=f"check {name}: {done.reason}",
            level="L3" if done.held and tree == self.patch else "L2",
            kind=check.kind,
            command=(check.run,) if isinstance(check.run, str) else check.run or (),
            exit_code=done.exit_code,
            tree=tree,
            output_sha256=evidence.digest_of(done.log) if done.log else None,
            isolation=self.runs.ground.wall.stamp(()),
            started=clock.stamp(clock.now()),
            duration_ms=done.duration_ms,
        )


def _was_red(check: Check, before: CheckResult | None) -> bool | None:
    """None where nobody asked: a check that is green on base is no fault, unless it was to be red there."""
    if before is None:
        return None
    return True if not before.held else False if check.red_on_base else None


def scripts(checks: Iterable[Check], paths: Collection[str]) -> list[str]:
    """Files of the project that commands of checks run: as a program, by an interpreter, by `-m`, by an import in `-c`.

    A file that a command merely reads, as `grep` does, judges nothing.
    """
    found: list[str] = []
    for check in checks:
        found += _run_by(_words(check.run)) if check.run is not None else []
    return [name for name in dict.fromkeys(found) if name in paths]


def _run_by(words: Sequence[str]) -> Iterator[str]:
    if not words:
        return
    yield words[0]
    if not _INTERPRETER.fullmatch(PurePosixPath(words[0]).name):
        return
    for at, word in enumerate(words[1:], 1):
        if word in ("-m", "-c") and at + 1 < len(words):
            names = [words[at + 1]] if word == "-m" else _IMPORTED.findall(words[at + 1])
            yield from (f"{name.replace('.', '/')}{end}" for name in names for end in (".py", "/__main__.py"))
            return
        if not word.startswith("-"):
            yield word
            return


def _words(command: str | tuple[str, ...]) -> list[str]:
    try:
        found = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError:  # a quotation that does not end
        found = str(command).split()
    return [word.removeprefix("./") for word in found]


def _loss(before_ms: int, after_ms: int) -> str:
    if after_ms <= before_ms * _SLOWER or after_ms - before_ms < _NOISE_MS:
        return ""
    return f"got slower: {after_ms / 1000:.2f} s instead of {before_ms / 1000:.2f} s on base, the best of {_ROUNDS}"
