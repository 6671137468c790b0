"""The proof gate (定): determine an output's level of evidence, and decide if its track accepts that level; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from reflectloop.gates.contract import Contract, Reproduction
from reflectloop.gates.decisions import Gate, GateApproval, GateReason, Ruling, make_ruling
from reflectloop.system.patterns import lazy
from reflectloop.terms import Decision, Track
from reflectloop.verification.evidence import Level
from reflectloop.verification.verdict import Verdict, spellings

NEEDED: dict[Track, Level] = {Track.FEATURE: "L2", Track.FIX: "L2", Track.REFACTOR: "L2", Track.DIRECT: "L1"}
_RANK: tuple[Level, ...] = ("L0", "L1", "L2", "L3")

# Words of an author who did not check.
_HEDGES = lazy(
    r"\b(?:should|probably|presumably|likely|maybe|perhaps|might|usually|seems? to|i (?:think|believe|guess|assume))\b"
    r"|应该|大概|可能|也许|估计|理论上|差不多",
    re.IGNORECASE,
)


class ProofInput(NamedTuple):
    """The evidence that the engine gathered. Only the engine fills it in."""

    verdict: Verdict | None = None  # of the sealed verification
    tampering: Sequence[GateReason] = ()  # weakened tests or settings, if there was no sealed verification
    exits: bool = False  # True if every command of the steps exited as expected
    cited: Sequence[bool] = ()  # for each citation, True if the cited line contains the quoted text
    claim_correct: bool = False  # True if the claimed files are the changed ones
    report: str = ""  # the author's own report
    breaks: Sequence[str] = ()  # incompatible changes of the public interface


class GateProof(NamedTuple):
    ruling: Ruling
    level: Level
    why: str  # the reason for the level


def check_proof(contract: Contract, evidence: ProofInput, start: str = "") -> GateProof:
    level, why = evidence_level(contract.track, evidence)
    reasons = [
        *_level_reasons(contract.track, level, why),
        *evidence.tampering,
        *_verdict_reasons(evidence),
        *_track_reasons(contract, evidence),
    ]
    ruling = make_ruling(Gate.PROOF, reasons, start)
    return GateProof(ruling._replace(approved=_approved(evidence)), level, why)


def evidence_level(track: Track, evidence: ProofInput) -> tuple[Level, str]:
    """Return the level of evidence and the reason for it. Only commands that the engine ran raise it above L1."""
    if evidence.verdict and evidence.verdict.level == "L3":
        return "L3", "the engine ran the checks on a sealed copy"
    remembered = evidence.verdict is not None and evidence.verdict.level == "L2"
    if remembered or evidence.exits:
        source = "the results on a sealed copy are remembered from an earlier verification"
        return "L2", source if remembered else "the engine ran the commands and saw them exit"
    if not all(evidence.cited):
        return "L0", "a cited line does not exist, or does not contain the quoted text"
    if evidence.cited:
        return _unless_hedged(evidence, f"{len(evidence.cited)} citation(s), each confirmed")
    if track is Track.DIRECT and evidence.claim_correct:
        return _unless_hedged(evidence, "the changed files are the claimed ones")
    return "L0", "nothing was run, and a claim is not evidence"


def _unless_hedged(evidence: ProofInput, why: str) -> tuple[Level, str]:
    """Return L1, or L0 if the author's report hedges."""
    hedge = _HEDGES.search(evidence.report)
    return ("L0", f"its author says {hedge[0]!r}") if hedge else ("L1", why)


def is_enough(track: Track, level: Level) -> bool:
    return _RANK.index(level) >= _RANK.index(NEEDED[track])


def _level_reasons(track: Track, level: Level, why: str) -> list[GateReason]:
    if is_enough(track, level):
        return []
    wanted = NEEDED[track]
    if level == "L0":
        text = f"evidence is at L0 ({why}), and track {track} needs {wanted}"
        return [GateReason(Decision.REDO, "evidence.none", text, "redo it with a check that the engine can run")]
    text = f"evidence is at {level} ({why}), and track {track} needs {wanted}"
    return [GateReason(Decision.RETRY, "evidence.cited", text, "name a check or a test that the engine can run")]


def _verdict_reasons(evidence: ProofInput) -> list[GateReason]:
    if evidence.verdict is None:
        return []
    return [
        GateReason(
            reason.decision,
            "sealed",
            reason.text,
            finding=reason.finding,
            unjudged=reason.unjudged,
            finding_rule=reason.rule,
            details=tuple(reason.details),
        )
        for reason in evidence.verdict.reasons
    ]


def _approved(evidence: ProofInput) -> tuple[GateApproval, ...]:
    items = evidence.verdict.approved if evidence.verdict else ()
    return tuple(
        GateApproval(
            GateReason(
                item.reason.decision,
                "sealed",
                item.reason.text,
                finding=item.reason.finding,
                finding_rule=item.reason.rule,
            ),
            item.approval,
        )
        for item in items
    )


def _track_reasons(contract: Contract, evidence: ProofInput) -> list[GateReason]:
    out = []
    reproduction = contract.reproduction
    if (
        contract.track is Track.FIX
        and reproduction
        and evidence.verdict
        and not _reproduced(evidence.verdict, reproduction)
    ):
        text = f"the reproduction {reproduction.test or reproduction.check} does not fail on base and pass now"
        out.append(
            GateReason(
                Decision.RETRY, "evidence.reproduction", text, "add a test that fails on base and shows the fault"
            )
        )
    if contract.track is Track.REFACTOR:
        out += [
            GateReason(
                Decision.RETRY,
                "api.changed",
                f"a refactoring must keep the public interface: {change}",
                "keep it, or plan a feature",
            )
            for change in evidence.breaks
        ]
    return out


def _reproduced(verdict: Verdict, wanted: Reproduction) -> bool:
    """Return True if the reproduction failed on base and passes now; a `run` command is judged as a check elsewhere."""
    if wanted.test:
        return wanted.test in newly_passing(verdict)
    if wanted.check is None:
        return True
    named = any(check.name == wanted.check and check.held and check.red_on_base for check in verdict.named)
    comparisons = [
        comparison for comparison in verdict.checks if comparison.check.name == wanted.check and not comparison.left_out
    ]
    return named or any(
        comparison.base is not None and not comparison.base.ok and comparison.sealed.ok for comparison in comparisons
    )


def newly_passing(verdict: Verdict) -> set[str]:
    """Return the tests that failed on base and pass now, in every spelling of their ids."""
    names = (*verdict.comparison.fixed, *(name for tests in verdict.own for name in tests.red_then_green))
    return {spelling for name in names for spelling in spellings(name)}


def commands_text(verdict: Verdict | None) -> str:
    """Return the commands that were run, as text."""
    if verdict is None:
        return ""
    ran = [
        " ".join(comparison.sealed.command) or comparison.check.name
        for comparison in verdict.checks
        if not comparison.left_out
    ]
    return "; ".join([*ran, *(check.name for check in verdict.named)])


def results_text(verdict: Verdict | None) -> str:
    """Return the results of the checks, as text."""
    if verdict is None:
        return ""
    results = [
        f"{comparison.check.name}: {comparison.sealed.summary}"
        for comparison in verdict.checks
        if not comparison.left_out
    ]
    return "; ".join(
        [*results, *(f"{check.name}: {'holds' if check.held else check.reason}" for check in verdict.named)]
    )
