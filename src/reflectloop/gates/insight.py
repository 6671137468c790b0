"""慧: what 戒 and 定 saw, looked at once more: unproven, repeated, in conflict, wasted. Computed: it needs no model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from reflectloop.gates import added_lines
from reflectloop.gates.attempt_limits import GateAttempt
from reflectloop.gates.contract import IDLE, Contract
from reflectloop.gates.decisions import Gate
from reflectloop.gates.proof import GateProof, turned
from reflectloop.lessons.lesson_words import signature
from reflectloop.plan.globs import named
from reflectloop.plan.model import Plan
from reflectloop.plan.order import batches
from reflectloop.terms import Track
from reflectloop.verification import protected
from reflectloop.verification.evidence import EvidenceRecord
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.verdict import Verdict, held

SMALL_FIX = 20  # changed lines; a fix of so many is no small one any more
_WIDE = ("**", "*", ".", "./")
_WORTH_MS = 2_000  # what could be saved, before it is worth a word
_EDGES = re.compile(
    r"edge|empty|none|zero|boundary|limit|large|long|negative|odd|last|first|unicode|single", re.IGNORECASE
)
_ERRORS = re.compile(r"error|fail|invalid|raise|refus|reject|bad|missing|wrong|malformed|timeout|denied", re.IGNORECASE)

Kind = Literal["D", "C", "I", "P", "M"]  # decision, constraint, interface, problem, pattern
Grade = Literal["A", "B", "C", "D"]


class Anchor(NamedTuple):
    """Something worth finding again."""

    kind: Kind
    text: str
    impact: bool = False  # on architecture, security, performance or several modules
    reusable: bool = False  # elsewhere too

    @property
    def signature(self) -> str:
        return signature(f"{self.kind} {self.text}")


class RulePatch(NamedTuple):
    """A proposal. Nothing changes until somebody accepts it."""

    action: Literal["add", "tighten", "loosen", "remove"]
    target: str
    rule: str
    reason: str
    priority: Literal["HIGH", "MEDIUM", "LOW"]


class Remark(NamedTuple):
    """What a second look found: by the rules below, or by a reviewer."""

    kind: Literal["security", "contract", "evidence", "scenario", "efficiency", "constraint"]
    text: str


# What was missed by a gate goes back to it; the rest is only written down.
BACK: Mapping[str, Gate | None] = {
    "security": Gate.RULES,
    "contract": Gate.RULES,
    "evidence": Gate.PROOF,
    "scenario": Gate.PROOF,
    "efficiency": None,
    "constraint": None,
}


class Background(NamedTuple):
    """What 慧 looks at."""

    contract: Contract
    changes: Sequence[ChangedFile]
    proof: GateProof
    verdict: Verdict | None = None
    records: Sequence[EvidenceRecord] = ()  # of the evidence
    past: Sequence[GateAttempt] = ()
    plan: Plan | None = None
    durations_ms: Mapping[str, int] = {}
    jobs: int = 1
    breaks: Sequence[str] = ()
    remarks: Sequence[Remark] = ()  # of a reviewer


class Insight(NamedTuple):
    grade: Grade
    anchors: tuple[Anchor, ...]
    patches: tuple[RulePatch, ...]
    unproven: tuple[str, ...]
    feedback: tuple[str, ...]
    backtrack: Remark | None = None


# Whether it is looked at all --------------------------------------------------------------------------------------


def skipped(contract: Contract, changes: Sequence[ChangedFile]) -> str:
    """Why 慧 has nothing to decide here; empty where it has. Haste is no reason, and nobody is asked for one."""
    if contract.role in IDLE:
        return f"a {contract.role.replace('_', ' ')} implements nothing"
    if contract.track is Track.DIRECT:
        return "track direct"
    if contract.track is Track.FIX and len(changes) <= 1:
        count = sum(added_lines.touched(change) for change in changes)
        if count < SMALL_FIX:
            return f"a fix of {count} line(s) in one file"
    return ""


# Looking ----------------------------------------------------------------------------------------------------------


def reflect(background: Background) -> Insight:
    repeated, conflicts, waste = repeats(background), conflict(background), wasted(background)
    missed = [*background.remarks, *unreliable(background)]
    return Insight(
        grade(background),
        (*anchors(background), *(Anchor("P", text, reusable=True) for text in repeated), *constraints(missed)),
        (*conflicts, *vague(background)),
        tuple(unproven(background)),
        (
            *(f"unproven: {text}" for text in unproven(background)),
            *waste,
            *(f"again: {text}" for text in repeated),
            *(f"rules at odds: {one.reason}" for one in conflicts),
        ),
        next((one for one in missed if BACK[one.kind]), None),
    )


def unproven(background: Background) -> list[str]:
    """Assumptions that no check bears out."""
    seen = shown(background.verdict)
    return [one.text for one in background.contract.assumptions or () if one.check is None or one.check not in seen]


def shown(verdict: Verdict | None) -> set[str]:
    """Every check and test that was seen to hold, by name."""
    seen = held(verdict.checks, verdict.own, verdict.named) if verdict else {}
    return {name for name, good in seen.items() if good}


def repeats(background: Background) -> list[str]:
    """What a gate found more than once on the way here."""
    seen = Counter(signature(text) for one in background.past for text in set(one.reasons))
    words = {signature(text): text for one in background.past for text in one.reasons}
    return [words[mark] for mark, times in seen.items() if times > 1]


def conflict(background: Background) -> list[RulePatch]:
    """Two rules that a changed file could not both keep."""
    free, barred = background.contract.may_change or (), background.contract.must_not_change or ()
    both = [change.path for change in background.changes if named(change.path, free) and named(change.path, barred)]
    patches = [
        RulePatch(
            "tighten", "may_change", f"leave out {path}", f"{path} is in may_change and in must_not_change", "HIGH"
        )
        for path in both
    ]
    guarded = [path for path in free if path not in _WIDE and _names_protected(path)]
    patches += [
        RulePatch("loosen", "may_change_protected", path, f"may_change names {path}, which is protected", "MEDIUM")
        for path in guarded
    ]
    return patches


def _names_protected(pattern: str) -> bool:
    return "*" not in pattern and protected.guard(pattern) is not None


def vague(background: Background) -> list[RulePatch]:
    """A boundary that bounds nothing."""
    contract = background.contract
    asked = contract.track in (Track.FEATURE, Track.REFACTOR)
    if not asked or not any(one in _WIDE for one in contract.may_change or ()):
        return []
    folders = sorted(
        {change.path.split("/")[0] + "/**" if "/" in change.path else change.path for change in background.changes}
    )
    return [RulePatch("tighten", "may_change", ", ".join(folders[:5]), "may_change allows everything", "LOW")]


def wasted(background: Background) -> list[str]:
    return [*_one_by_one(background), *_twice(background.records)]


def _one_by_one(background: Background) -> list[str]:
    """Steps that waited for each other for nothing."""
    if background.plan is None or background.jobs > 1:
        return []
    groups = batches({step.id: step.depends_on for step in background.plan.steps})
    spent = background.durations_ms
    saved = sum(
        sum(spent.get(name, 0) for name in group) - max(spent.get(name, 0) for name in group) for group in groups
    )
    if saved < _WORTH_MS:
        return []
    wide = max(groups, key=len)
    how = f"--jobs {min(len(wide), 4)} would save {saved / 1000:.1f} s"
    return [f"steps {', '.join(wide[:5])} do not depend on each other: {how}"]


def _twice(records: Sequence[EvidenceRecord]) -> list[str]:
    """The same command on the same tree, where the first answer would have done."""
    ran = Counter(
        (one.command, one.tree)
        for one in records
        if one.command and one.duration_ms >= _WORTH_MS and one.exit_code == 0
    )
    return [f"ran {times} times on one tree: {' '.join(command)}" for (command, _), times in ran.items() if times > 1]


def unreliable(background: Background) -> list[Remark]:
    """Evidence that 定 took and that does not bear what it carries."""
    verdict = background.verdict
    if verdict is None:
        return []
    flaky = set(verdict.comparison.flaky)
    borne = {one.check for one in background.contract.acceptance or () if one.check}
    borne |= turned(verdict) if background.contract.track is Track.FIX else set()
    out = [
        Remark("evidence", f"{name} comes out one way and the other, and the proof rests on it")
        for name in sorted(flaky & borne)
    ]
    idle = [one.check for one in verdict.checks if not one.left_out and not one.sealed.counts.passed]
    return out + [
        Remark("scenario", f"{check.name} is to show that a criterion is met, and passed no test")
        for check in idle
        if check.kind == "test" and check.name in borne
    ]


def anchors(background: Background) -> list[Anchor]:
    contract = background.contract
    several = len({change.path.split("/")[0] for change in background.changes}) > 2  # noqa: PLR2004 - modules
    out: list[Anchor] = []
    if contract.track in (Track.FEATURE, Track.REFACTOR):
        out += [Anchor("D", text, impact=several) for text in contract.decisions or ()]
    if contract.track is Track.FIX and background.verdict:
        shown_by = ", ".join(sorted(turned(background.verdict))[:3])
        out.append(Anchor("P", f"{contract.goal}" + (f" (shown by {shown_by})" if shown_by else ""), impact=several))
    out += [Anchor("I", text, impact=True) for text in background.breaks]
    mended = [one.cause for one in background.past if one.cause]
    return out + [Anchor("M", f"root cause of an earlier failure: {cause}", reusable=True) for cause in mended]


def constraints(missed: Sequence[Remark]) -> list[Anchor]:
    return [Anchor("C", one.text, reusable=True) for one in missed if one.kind == "constraint"]


def grade(background: Background) -> Grade:
    """A: sealed, with edges and errors; B: run, with some edges; C: run; D: less than that."""
    if background.proof.level not in ("L2", "L3"):
        return "D"
    names = [name.rsplit("::", 1)[-1] for name in shown(background.verdict)]
    edges = any(_EDGES.search(name) for name in names)
    errors = any(_ERRORS.search(name) for name in names)
    if background.proof.level == "L3" and edges and errors:
        return "A"
    return "B" if edges or errors else "C"
