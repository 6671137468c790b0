"""定: which level of evidence an output has, and whether its track is content with it; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from reflectloop.gates.contract import Contract, Reproduction
from reflectloop.gates.decisions import Gate, GateReason, Ruling, settle
from reflectloop.terms import Decision, Track
from reflectloop.verification.evidence import Level
from reflectloop.verification.verdict import Verdict, spellings

NEEDED: dict[Track, Level] = {Track.FEATURE: "L2", Track.FIX: "L2", Track.REFACTOR: "L2", Track.DIRECT: "L1"}
_RANK: tuple[Level, ...] = ("L0", "L1", "L2", "L3")

# Words of somebody who did not look.
_HEDGES = re.compile(
    r"\b(?:should|probably|presumably|likely|maybe|perhaps|might|usually|seems? to|i (?:think|believe|guess|assume))\b"
    r"|应该|大概|可能|也许|估计|理论上|差不多",
    re.IGNORECASE,
)


class ProofInput(NamedTuple):
    """What there is to go by. Only the engine fills it."""

    verdict: Verdict | None = None  # of sealed runs
    weakened: Sequence[GateReason] = ()  # what was done to the judges of later changes, where nothing was run sealed
    exits: bool = False  # whether the engine saw every command of the steps exit as it should
    cited: Sequence[bool] = ()  # for each citation, whether the place exists and says so
    claim_held: bool = False  # whether the files that are said to be changed are
    report: str = ""  # what the author says about it
    breaks: Sequence[str] = ()  # of the public interface


class GateProof(NamedTuple):
    ruling: Ruling
    level: Level
    why: str  # it is at that level


def weigh(contract: Contract, seen: ProofInput, start: str = "") -> GateProof:
    level, why = graded(contract.track, seen)
    reasons = [*_of_level(contract.track, level, why), *seen.weakened, *_of_verdict(seen), *_of_track(contract, seen)]
    return GateProof(settle(Gate.PROOF, reasons, start), level, why)


def graded(track: Track, seen: ProofInput) -> tuple[Level, str]:
    """By what the engine ran. Words raise nothing, and lower nothing that was run."""
    if seen.verdict and seen.verdict.level == "L3":
        return "L3", "the engine ran it, sealed"
    if seen.exits:
        return "L2", "the engine ran the commands and saw them exit"
    if not all(seen.cited):
        return "L0", "a place that is cited does not exist, or does not say so"
    if seen.cited:
        return _doubted(seen, f"{len(seen.cited)} place(s) cited, and found to say so")
    if track is Track.DIRECT and seen.claim_held:
        return _doubted(seen, "the change is the one that is claimed")
    return "L0", "nothing was run, and what is said is no evidence"


def _doubted(seen: ProofInput, why: str) -> tuple[Level, str]:
    hedge = _HEDGES.search(seen.report)
    return ("L0", f"its author says {hedge[0]!r}") if hedge else ("L1", why)


def enough(track: Track, level: Level) -> bool:
    return _RANK.index(level) >= _RANK.index(NEEDED[track])


def _of_level(track: Track, level: Level, why: str) -> list[GateReason]:
    if enough(track, level):
        return []
    wanted = NEEDED[track]
    if level == "L0":
        text = f"evidence is at L0 ({why}), and track {track} needs {wanted}"
        return [GateReason(Decision.REDO, "evidence.none", text, "do it with a check that the engine can run")]
    text = f"evidence is at {level} ({why}), and track {track} needs {wanted}"
    return [GateReason(Decision.RETRY, "evidence.cited", text, "name a check or a test that the engine can run")]


def _of_verdict(seen: ProofInput) -> list[GateReason]:
    if seen.verdict is None:
        return []
    return [GateReason(one.decision, "sealed", one.text) for one in seen.verdict.reasons]


def _of_track(contract: Contract, seen: ProofInput) -> list[GateReason]:
    out = []
    wanted = contract.reproduction
    if contract.track is Track.FIX and wanted and seen.verdict and not _reproduced(seen.verdict, wanted):
        text = f"the reproduction {wanted.test or wanted.check} is not red on base and green now"
        out.append(
            GateReason(Decision.RETRY, "evidence.reproduction", text, "show the fault by a test that fails on base")
        )
    if contract.track is Track.REFACTOR:
        out += [
            GateReason(
                Decision.RETRY,
                "api.changed",
                f"a refactoring keeps the public interface: {words}",
                "keep it, or plan a feature",
            )
            for words in seen.breaks
        ]
    return out


def _reproduced(verdict: Verdict, wanted: Reproduction) -> bool:
    """A command is run as a check of its own, and judged there."""
    if wanted.test:
        return wanted.test in turned(verdict)
    if wanted.check is None:
        return True
    named = any(one.name == wanted.check and one.held and one.red_on_base for one in verdict.named)
    found = [one for one in verdict.checks if one.check.name == wanted.check and not one.left_out]
    return named or any(one.base is not None and not one.base.ok and one.sealed.ok for one in found)


def turned(verdict: Verdict) -> set[str]:
    """Tests that were red on base and are green now."""
    found = (*verdict.comparison.fixed, *(name for one in verdict.own for name in one.red_then_green))
    return {known for name in found for known in spellings(name)}


def command(verdict: Verdict | None) -> str:
    """What was run, for a reader."""
    if verdict is None:
        return ""
    ran = [" ".join(one.sealed.command) or one.check.name for one in verdict.checks if not one.left_out]
    return "; ".join([*ran, *(one.name for one in verdict.named)])


def result(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    said = [f"{one.check.name}: {one.sealed.summary}" for one in verdict.checks if not one.left_out]
    return "; ".join([*said, *(f"{one.name}: {'holds' if one.held else one.reason}" for one in verdict.named)])
