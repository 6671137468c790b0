"""The insight gate (慧): look for unproven, repeated, conflicting or wasted work in the results of rules and proof."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from reflectloop.gates import added_lines, cooperation
from reflectloop.gates.attempt_limits import GateAttempt
from reflectloop.gates.contract import READ_ONLY_ROLES, Contract
from reflectloop.gates.cooperation import RoleCall
from reflectloop.gates.decisions import Gate
from reflectloop.gates.proof import GateProof, newly_passing
from reflectloop.lessons.lesson_words import signature
from reflectloop.plan.globs import matches_any
from reflectloop.plan.model import Plan
from reflectloop.plan.order import batches
from reflectloop.system.patterns import lazy
from reflectloop.terms import RemarkKind, Track
from reflectloop.verification import protected
from reflectloop.verification.evidence_chain import EvidenceRecord
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.verdict import Verdict, held

SMALL_FIX = 20  # changed lines; a fix with fewer is small
_WIDE = ("**", "*", ".", "./")
_WORTH_MS = 2_000  # savings below this are not reported
_EDGES = lazy(r"edge|empty|none|zero|boundary|limit|large|long|negative|odd|last|first|unicode|single", re.IGNORECASE)
_ERRORS = lazy(r"error|fail|invalid|raise|refus|reject|bad|missing|wrong|malformed|timeout|denied", re.IGNORECASE)

Kind = Literal["D", "C", "I", "P", "M"]  # decision, constraint, interface, problem, pattern
Grade = Literal["A", "B", "C", "D"]


class Anchor(NamedTuple):
    """A fact worth finding again: a decision, constraint, interface, problem or pattern."""

    kind: Kind
    text: str
    impact: bool = False  # on architecture, security, performance or several modules
    reusable: bool = False  # elsewhere too

    @property
    def signature(self) -> str:
        return signature(f"{self.kind} {self.text}")


class RulePatch(NamedTuple):
    """A proposed change of a rule. Nothing changes until somebody accepts it."""

    action: Literal["add", "tighten", "loosen", "remove"]
    target: str
    rule: str
    reason: str
    priority: Literal["HIGH", "MEDIUM", "LOW"]


class Remark(NamedTuple):
    """A problem noticed after the proof, by the functions below or by a reviewer."""

    kind: RemarkKind
    text: str


# The gate that a remark sends the output back to; None if the remark is only recorded.
BACK: Mapping[str, Gate | None] = {
    "security": Gate.RULES,
    "contract": Gate.RULES,
    "evidence": Gate.PROOF,
    "scenario": Gate.PROOF,
    "efficiency": None,
    "constraint": None,
}


class Background(NamedTuple):
    """Everything that the insight gate looks at."""

    contract: Contract
    changes: Sequence[ChangedFile]
    proof: GateProof
    verdict: Verdict | None = None
    records: Sequence[EvidenceRecord] = ()  # the evidence chain of the run
    past: Sequence[GateAttempt] = ()
    plan: Plan | None = None
    durations_ms: Mapping[str, int] = {}
    jobs: int = 1
    breaks: Sequence[str] = ()
    remarks: Sequence[Remark] = ()  # by a reviewer
    turns: Sequence[RoleCall] = ()  # the calls of agents


class Insight(NamedTuple):
    grade: Grade
    anchors: tuple[Anchor, ...]
    patches: tuple[RulePatch, ...]
    unproven: tuple[str, ...]
    feedback: tuple[str, ...]
    backtrack: Remark | None = None

    @property
    def back_to(self) -> Gate | None:
        return BACK[self.backtrack.kind] if self.backtrack else None


def next_remarks(remarks: Sequence[Remark]) -> tuple[list[Remark], list[Remark]]:
    """Return the remarks for one pass of insight, and those left for later passes.

    Remarks that go back to the same gate are one remark; those that are only recorded are part of every pass.
    """
    recorded = [remark for remark in remarks if BACK[remark.kind] is None]
    going_back = [remark for remark in remarks if BACK[remark.kind]]
    if not going_back:
        return recorded, recorded
    first = going_back[0]
    same = [remark for remark in going_back if BACK[remark.kind] is BACK[first.kind]]
    merged = Remark(first.kind, "; ".join(dict.fromkeys(remark.text for remark in same)))
    return [merged, *recorded], [remark for remark in remarks if remark not in same]


def skip_reason(contract: Contract, changes: Sequence[ChangedFile]) -> str:
    """Return why insight has nothing to decide for this change; empty if it has."""
    if contract.role in READ_ONLY_ROLES:
        return f"a {contract.role.replace('_', ' ')} implements nothing"
    if contract.track is Track.DIRECT:
        return "track direct"
    if contract.track is Track.FIX and len(changes) <= 1:
        count = sum(added_lines.touched_lines(change) for change in changes)
        if count < SMALL_FIX:
            return f"a fix of {count} line(s) in one file"
    return ""


def reflect(background: Background) -> Insight:
    repeated, conflicts, waste = repeated_reasons(background), rule_conflicts(background), wasted_work(background)
    missed = [*background.remarks, *unreliable_evidence(background)]
    return Insight(
        grade(background),
        (*anchors(background), *(Anchor("P", text, reusable=True) for text in repeated), *constraints(missed)),
        (*conflicts, *vague_boundaries(background)),
        tuple(unproven(background)),
        (
            *(f"unproven: {text}" for text in unproven(background)),
            *waste,
            *(f"again: {text}" for text in repeated),
            *(f"rules at odds: {patch.reason}" for patch in conflicts),
            *(f"efficiency: {remark.text}" for remark in missed if remark.kind == "efficiency"),
            *(f"cooperation: {text}" for text in cooperation.remarks(background.turns)),
        ),
        next((remark for remark in missed if BACK[remark.kind]), None),
    )


def unproven(background: Background) -> list[str]:
    """Return the assumptions that no passed check supports."""
    passed = passed_names(background.verdict)
    return [
        assumption.text
        for assumption in background.contract.assumptions or ()
        if assumption.check is None or assumption.check not in passed
    ]


def passed_names(verdict: Verdict | None) -> set[str]:
    """Return the names of all checks and tests that passed."""
    results = held(verdict.checks, verdict.own, verdict.named) if verdict else {}
    return {name for name, passed in results.items() if passed}


def repeated_reasons(background: Background) -> list[str]:
    """Return the reasons that a gate gave more than once in earlier attempts."""
    counts = Counter(signature(text) for attempt in background.past for text in set(attempt.reasons))
    texts = {signature(text): text for attempt in background.past for text in attempt.reasons}
    return [texts[key] for key, times in counts.items() if times > 1]


def rule_conflicts(background: Background) -> list[RulePatch]:
    """Return a proposal for each changed file that two rules contradict each other about."""
    free, barred = background.contract.may_change or (), background.contract.must_not_change or ()
    both = [
        change.path
        for change in background.changes
        if matches_any(change.path, free) and matches_any(change.path, barred)
    ]
    patches = [
        RulePatch(
            "tighten", "may_change", f"leave out {path}", f"{path} is in may_change and in must_not_change", "HIGH"
        )
        for path in both
    ]
    protected_paths = [path for path in free if path not in _WIDE and _names_protected(path)]
    patches += [
        RulePatch("loosen", "may_change_protected", path, f"may_change names {path}, which is protected", "MEDIUM")
        for path in protected_paths
    ]
    return patches


def _names_protected(pattern: str) -> bool:
    return "*" not in pattern and protected.guard(pattern) is not None


def vague_boundaries(background: Background) -> list[RulePatch]:
    """Return a proposal to narrow `may_change` if it allows everything."""
    contract = background.contract
    needs_bounds = contract.track in (Track.FEATURE, Track.REFACTOR)
    if not needs_bounds or not any(pattern in _WIDE for pattern in contract.may_change or ()):
        return []
    folders = sorted(
        {change.path.split("/")[0] + "/**" if "/" in change.path else change.path for change in background.changes}
    )
    return [RulePatch("tighten", "may_change", ", ".join(folders[:5]), "may_change allows everything", "LOW")]


def wasted_work(background: Background) -> list[str]:
    return [*_serial_steps(background), *_repeated_commands(background.records)]


def _serial_steps(background: Background) -> list[str]:
    """Report steps that could have run in parallel."""
    if background.plan is None or background.jobs > 1:
        return []
    groups = batches({step.id: step.depends_on for step in background.plan.steps})
    durations = background.durations_ms
    saved = sum(
        sum(durations.get(name, 0) for name in group) - max(durations.get(name, 0) for name in group)
        for group in groups
    )
    if saved < _WORTH_MS:
        return []
    largest = max(groups, key=len)
    advice = f"--jobs {min(len(largest), 4)} would save {saved / 1000:.1f} s"
    return [f"steps {', '.join(largest[:5])} do not depend on each other: {advice}"]


def _repeated_commands(records: Sequence[EvidenceRecord]) -> list[str]:
    """Report commands that ran more than once on the same tree."""
    counts = Counter(
        (record.command, record.tree)
        for record in records
        if record.command and record.duration_ms >= _WORTH_MS and record.exit_code == 0
    )
    return [
        f"ran {times} times on one tree: {' '.join(command)}" for (command, _), times in counts.items() if times > 1
    ]


def unreliable_evidence(background: Background) -> list[Remark]:
    """Return remarks on evidence that the proof accepted although it is flaky or empty."""
    verdict = background.verdict
    if verdict is None:
        return []
    flaky = set(verdict.comparison.flaky)
    needed = {criterion.check for criterion in background.contract.acceptance or () if criterion.check}
    needed |= newly_passing(verdict) if background.contract.track is Track.FIX else set()
    out = [Remark("evidence", f"{name} is flaky, and the proof depends on it") for name in sorted(flaky & needed)]
    empty = [
        comparison.check
        for comparison in verdict.checks
        if not comparison.left_out and not comparison.sealed.counts.passed
    ]
    return out + [
        Remark("scenario", f"{check.name} is the check of a criterion, and passed no test")
        for check in empty
        if check.kind == "test" and check.name in needed
    ]


def anchors(background: Background) -> list[Anchor]:
    contract = background.contract
    several_modules = len({change.path.split("/")[0] for change in background.changes}) > 2  # noqa: PLR2004 - modules
    out: list[Anchor] = []
    if contract.track in (Track.FEATURE, Track.REFACTOR):
        out += [Anchor("D", text, impact=several_modules) for text in contract.decisions or ()]
    if contract.track is Track.FIX and background.verdict:
        tests = ", ".join(sorted(newly_passing(background.verdict))[:3])
        out.append(Anchor("P", f"{contract.goal}" + (f" (shown by {tests})" if tests else ""), impact=several_modules))
    out += [Anchor("I", text, impact=True) for text in background.breaks]
    causes = [attempt.cause for attempt in background.past if attempt.cause]
    return out + [Anchor("M", f"root cause of an earlier failure: {cause}", reusable=True) for cause in causes]


def constraints(remarks: Sequence[Remark]) -> list[Anchor]:
    return [Anchor("C", remark.text, reusable=True) for remark in remarks if remark.kind == "constraint"]


def grade(background: Background) -> Grade:
    """Grade the evidence: A is sealed with edge and error tests, B is run with some of those, C is run, D is less."""
    if background.proof.level not in ("L2", "L3"):
        return "D"
    names = [name.rsplit("::", 1)[-1] for name in passed_names(background.verdict)]
    edges = any(_EDGES.search(name) for name in names)
    errors = any(_ERRORS.search(name) for name in names)
    if background.proof.level == "L3" and edges and errors:
        return "A"
    return "B" if edges or errors else "C"
