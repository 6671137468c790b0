"""Sealed verification: base and patch judged by the engine's own runs, with what judges them as it was in base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reflectloop import secrets
from reflectloop.plan.globs import named as is_named
from reflectloop.plan.model import Check
from reflectloop.terms import Decision, Track
from reflectloop.verify import compare, protected, runners, verdict, weakening
from reflectloop.verify.compare import Comparison
from reflectloop.verify.evidence import Chain, Level, Record
from reflectloop.verify.named import NamedChecks, scripts
from reflectloop.verify.owning import collects
from reflectloop.verify.result import Change, Detected, Finding, VerificationResult
from reflectloop.verify.runs import Ran, Runs
from reflectloop.verify.verdict import Judged, Named, Own, Reason, Verdict

_TRIES = 2  # of a newly failing test, before it counts
_MOST_FLAKES = 50  # so many tests do not turn red by chance
_RED = ("failed", "error")
_SOURCES = (
    ".py",
    ".js",
    ".mjs",
    ".ts",
    ".tsx",
    ".jsx",
    ".go",
    ".rs",
    ".rb",
    ".java",
    ".c",
    ".cc",
    ".cpp",
    ".php",
    ".sh",
)
_CONTEXT = 8 << 20  # bytes of test files that are looked at for inputs a patch singles out


@dataclass(frozen=True)
class Case:
    """What is to be judged. `lifted` are paths whose protection a user-confirmed plan lifts."""

    base: str
    head: str
    checks: Sequence[Detected]
    track: Track | None = None
    lifted: Sequence[str] = ()
    protect: Sequence[str] = ()
    required: frozenset[str] = frozenset()  # checks that must have run, whatever is installed
    named: Mapping[str, Check] = field(default_factory=dict)
    criteria: Mapping[str, str | None] = field(default_factory=dict)  # acceptance: what is asked, and its check
    has_setup: bool = False
    doubts: Sequence[str] = ()  # what may be a secret in the lines it adds


@dataclass
class Sealed:
    """One verification from its trees to its verdict."""

    case: Case
    runs: Runs
    chain: Chain
    plan_hash: str | None = None
    _attempts: dict[tuple[str, ...], int] = field(default_factory=dict)

    def judge(self) -> Verdict:
        self._lay_out()
        checks = self._suite()
        own = self._own_tests(checks)
        asked = NamedChecks(
            self.runs,
            self.case.base,
            self.base_with_tests,
            self.with_tests,
            self._write_down,
            self.unedited,
            tuple(self.edited),
        )
        fix = self.case.track is Track.FIX
        named = asked.judge(self.case.named, timed=self.case.track is Track.REFACTOR, looks_back=fix)
        proven = self._proven(checks, own, named)
        reasons = [
            *verdict.of_findings(self.findings, self.freed),
            *(verdict.of_checks(checks, self.case.track) if self.case.checks or not named else []),
            *verdict.of_own(own),
            *verdict.of_named(named),
            *(verdict.of_fix(proven) if self.case.track is Track.FIX else []),
            *self._of_criteria(verdict.held(checks, own, named)),
            *self._of_dependencies(),
            *(Reason(Decision.ASK, doubt) for doubt in self.case.doubts),
        ]
        total = Comparison()
        for one in checks:
            total = total.joined(one.comparison) if not one.left_out else total
        level: Level = "L3" if any(not one.left_out for one in checks) or named else "L0"
        return Verdict(
            verdict.gravest(reasons),
            level,
            self.case.track,
            tuple(reasons),
            tuple(self.findings),
            tuple(checks),
            tuple(own),
            tuple(named),
            total,
            self.case.base,
            self.case.head,
            self.tree,
            tuple(self.restored),
            (*(f"{one.check.name}: {one.left_out}" for one in checks if one.left_out), *sorted(self.runs.notes)),
        )

    # The trees -----------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        """The sealed tree, and those in which the patch's own tests are in their new version."""
        trees, case = self.runs.ground.trees, self.case
        self.changes = trees.changes(case.base, case.head)
        self.freed = [change.path for change in self.changes if is_named(change.path, case.lifted)]
        self.restored = [change.path for change in self.changes if self._is_restored(change)]
        served = [change.path for change in self.changes if protected.serves_tests(change)]
        self.tree = trees.laid_over(case.head, case.base, self.restored)
        self.with_tests = trees.laid_over(self.tree, case.head, served)
        self.base_with_tests = trees.laid_over(case.base, case.head, served)
        kept = {*served} - {*self.freed}
        self.edited = [one.path for one in self.changes if one.path in kept and one.before is not None]
        tested = trees.laid_over(self.tree, case.head, [path for path in served if path not in self.edited])
        judging = self._scripts()
        self.edited += judging
        self.unedited = trees.laid_over(tested, case.base, judging)
        self.findings = self._look()

    def _scripts(self) -> list[str]:
        """Programs that checks run by name and the change edits besides other sources; alone, one is what is judged."""
        plain = [
            change.path
            for change in self.changes
            if change.path.endswith(_SOURCES) and not protected.guard(change.path) and change.path not in self.freed
        ]
        edited = {change.path for change in self.changes if change.before is not None}
        found = [path for path in scripts(self.case.named.values(), edited) if path in plain]
        return found if len(plain) > len(found) else []

    def _is_restored(self, change: Change) -> bool:
        if change.path in self.freed:
            return False
        return protected.restored(change) or is_named(change.path, self.case.protect)

    def _look(self) -> list[Finding]:
        found = weakening.look(self.changes, self._tests_of_base())
        seen = {one.path for one in found}
        known = {change.path: change for change in self.changes}
        kept = [
            Finding("protected", path, _first(known.get(path)), "is protected; judged as it is in base", "note")
            for path in self.restored
            if path not in seen
        ]
        return found + kept

    def _tests_of_base(self) -> dict[str, bytes]:
        trees, room = self.runs.ground.trees, _CONTEXT
        listing = trees.listing(self.case.base)
        paths = [path for path in listing if protected.is_test(path)]
        contents = trees.contents([listing[path].blob for path in paths])
        out: dict[str, bytes] = {}
        for path in paths:
            room -= len(contents[listing[path].blob])
            if room > 0:
                out[path] = contents[listing[path].blob]
        return out

    # (a) Nothing that passed on base may fail or vanish -------------------------------------------------------

    def _suite(self) -> list[Judged]:
        if not self.case.checks:
            return []
        before = self._run(self.case.base, self.case.checks, "on base")
        after = self._run(self.tree, self.case.checks, "on base + patch, sealed")
        return [self._judged(check, before[check.name], after[check.name]) for check in self.case.checks]

    def _judged(self, check: Detected, before: Ran, after: Ran) -> Judged:
        missing = before.result.type == after.result.type == "tool_missing"
        if missing and check.kind in ("lint", "type") and check.name not in self.case.required:
            why = f"{check.tool} is configured, and not installed here: it judged nothing"
            return Judged(check, before.result, after.result, Comparison(), why)
        change = compare.compare(before.result, after.result)
        if change.newly_failing and after.result.tests:
            change = change.without(self._flaky(check, change.newly_failing))
        return Judged(check, before.result, after.result, change)

    def _flaky(self, check: Detected, failing: Sequence[str]) -> list[str]:
        """Tests that pass when run again: alone first, then, since order may matter, in a whole run."""
        suspects = list(failing)
        if len(suspects) > _MOST_FLAKES:
            return []
        for _ in range(_TRIES):
            alone = self._again(self.tree, check, "newly failing tests again", suspects)
            if all(alone.tests.get(name, "failed") in _RED for name in suspects):
                continue
            whole = self._again(self.tree, check, "once more, whole")
            return [name for name in suspects if whole.tests.get(name, "failed") not in _RED]
        return []

    def _again(self, tree: str, check: Detected, words: str, only: Sequence[str] = ()) -> VerificationResult:
        """In a workspace of its own: what the first try left behind must not help the second."""
        builds = [one for one in self.case.checks if one.kind == "build" and one.cwd == check.cwd]
        chosen = {check.name: list(only)} if only and runners.selection(check, list(only)) else {}
        asked = (tree, check.name, *sorted(chosen.get(check.name, ())))
        self._attempts[asked] = self._attempts.get(asked, 0) + 1
        found = self._run(tree, [*builds, check], words, chosen, self._attempts[asked])[check.name].result
        if chosen and not any(name in found.tests for name in only):
            return self._again(tree, check, f"{words}, whole")  # its tool did not know them by these names
        return found

    # (b) The tests that the patch adds or changes, in their new version ---------------------------------------

    def _own_tests(self, judged: Sequence[Judged]) -> list[Own]:
        changed = [
            change.path for change in self.changes if change.after is not None and protected.is_test(change.path)
        ]
        if not changed or self.with_tests == self.tree:
            return []
        out = []
        for one in judged:
            files = [path for path in changed if collects(one.check, path)]
            if one.check.kind == "test" and files and not one.left_out:
                out.append(self._own(one, files))
        return out

    def _own(self, judged: Judged, files: Sequence[str]) -> Own:
        check = judged.check
        builds = [one for one in self.case.checks if one.kind == "build" and one.cwd == check.cwd]
        only = {check.name: [_within(path, check.cwd) for path in files]}
        now = self._run(self.with_tests, [*builds, check], "its own tests, on base + patch", only)[check.name].result
        before = self._run(self.base_with_tests, [*builds, check], "its own tests, on base", only)[check.name].result
        known = judged.base.tests if judged.base else {}
        failing = [name for name, came in now.tests.items() if came in _RED and known.get(name) not in _RED]
        if failing:
            again = self._again(self.with_tests, check, "its own failing tests again", failing)
            failing = [name for name in failing if again.tests.get(name, "failed") in _RED]
        # What its old version still finds wrong, a new version does not prove right.
        old = {name for name, came in judged.sealed.tests.items() if came in _RED}
        green = [name for name, came in now.tests.items() if came == "passed" and name not in old]
        turned = [name for name in green if before.tests.get(name) in _RED]
        return Own(check.name, before, now, tuple(sorted(turned)), tuple(sorted(failing)))

    # What it comes to ------------------------------------------------------------------------------------------

    def _proven(self, checks: Sequence[Judged], own: Sequence[Own], named: Sequence[Named]) -> list[str]:
        """What was red on base and is green now, each time it is asked: a flake proves nothing."""
        out = [one.name for one in named if one.held and one.red_on_base]
        if self.case.track is not Track.FIX or out:
            return out
        for one in checks:
            if one.check.kind in ("test", "build", "custom") and one.comparison.fixed:
                out += self._each_time(one, self.case.base, self.tree, one.comparison.fixed)
        by_name = {one.check.name: one for one in checks}
        for mine in own:
            if mine.red_then_green and not out:
                judged = by_name[mine.check]
                out += self._each_time(judged, self.base_with_tests, self.with_tests, mine.red_then_green)
        return out

    def _each_time(self, judged: Judged, red: str, green: str, names: Sequence[str]) -> list[str]:
        """The names that are red on the one tree and green on the other once more."""
        if not judged.sealed.tests or judged.base is None or not judged.base.tests:
            return list(names)  # a build, say, or tests without names: seen whole, on both sides
        kept = list(names)[:_MOST_FLAKES]
        for _ in range(_TRIES):
            again = self._again(red, judged.check, "red on base, once more", kept)
            kept = [name for name in kept if again.tests.get(name) in _RED]
            if not kept:
                return []
        again = self._again(green, judged.check, "green on base + patch, once more", kept)
        return [name for name in kept if again.tests.get(name) == "passed"]

    def _of_criteria(self, held: Mapping[str, bool]) -> list[Reason]:
        out = []
        for text, check in self.case.criteria.items():
            if check is None and self.case.track is Track.FEATURE:
                out.append(
                    Reason(Decision.RETRY, f"acceptance {text!r} names no check, so nothing shows that it is met")
                )
            elif check is not None and not held.get(check):
                why = "does not hold" if check in held else f"is not known; known: {verdict.shown(list(held))}"
                out.append(Reason(Decision.RETRY, f"acceptance {text!r} is not met: check {check} {why}"))
        return out

    def _of_dependencies(self) -> list[Reason]:
        changed = [change.path for change in self.changes if protected.dependencies(change.path)]
        if not changed or self.case.has_setup:
            return []
        return [
            Reason(
                Decision.ASK,
                f"{verdict.shown(changed)} changed, and nothing says how dependencies are set up: "
                "the checks ran with what was installed before ([verify] setup)",
            )
        ]

    # Evidence --------------------------------------------------------------------------------------------------

    def _run(
        self,
        tree: str,
        checks: Sequence[Detected],
        words: str,
        only: Mapping[str, Sequence[str]] | None = None,
        attempt: int = 0,
    ) -> dict[str, Ran]:
        ran = self.runs.on(tree, checks, words, only, attempt)
        for check in checks:
            self._note(check, ran[check.name], words)
        return ran

    def _note(self, check: Detected, ran: Ran, words: str) -> None:
        sealed = ran.tree == self.tree and ran.result.ok and not ran.restricted
        self._write_down(
            claim=f"{check.name} {words}: {ran.result.summary}",
            level="L3" if sealed else "L2",
            kind=check.kind,
            command=ran.result.command,
            exit_code=ran.result.exit_code,
            counts=ran.result.counts,
            tree=ran.tree,
            output_sha256=ran.output_sha256,
            isolation=ran.isolation,
            started=ran.started,
            duration_ms=ran.result.duration_ms,
        )

    def _write_down(self, *, claim: str, **seen: Any) -> None:  # noqa: ANN401 - the fields of a record
        said = secrets.current().redact(claim)
        self.chain.add(Record(claim=said, base_tree=self.case.base, plan_hash=self.plan_hash, **seen))


def _first(change: Change | None) -> int | None:
    """The first line that differs; None where there are no lines."""
    if change is None or b"\0" in (change.after or b"\0"):
        return None
    old, new = ((data or b"").splitlines() for data in (change.before, change.after))
    return next(
        (at for at, (one, two) in enumerate(zip(old, new, strict=False), 1) if one != two), min(len(old), len(new)) + 1
    )


def _within(path: str, folder: str) -> str:
    return path if folder in (".", "") else path.removeprefix(f"{folder.rstrip('/')}/")
