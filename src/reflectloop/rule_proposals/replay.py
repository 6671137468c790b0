"""A rule put to past work: which failed runs it would have caught, and which good ones it would have stopped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from reflectloop.gates import added_lines
from reflectloop.policy import additions
from reflectloop.policy.rule import PolicyRule
from reflectloop.policy.rulefile import SingleRulePolicy
from reflectloop.rule_proposals.past_runs import ChangeLost, History, PastRun, UnreadableRun

_SHOWN = 120


class ReplayHit(NamedTuple):
    run: str
    place: str
    what: str


class Replay(NamedTuple):
    """What was looked at, and where the rule spoke: once for each run, at the first place."""

    rule: str
    runs: int
    passed: int
    failed: int
    caught: tuple[ReplayHit, ...]  # in runs that failed
    wrong: tuple[ReplayHit, ...]  # in runs that passed
    undecided: tuple[ReplayHit, ...]  # in runs that the machine or a person ended
    same: tuple[str, ...]  # runs that failed of the very failure it was learned from
    unread: tuple[UnreadableRun, ...]

    @property
    def same_caught(self) -> int:
        return len({one.run for one in self.caught} & set(self.same))

    def as_data(self) -> dict[str, Any]:
        hits = {name: [one._asdict() for one in getattr(self, name)] for name in ("caught", "wrong", "undecided")}
        return {
            **self._asdict(),
            **hits,
            "counts": {"caught": len(self.caught), "wrong": len(self.wrong), "undecided": len(self.undecided)},
            "same": list(self.same),
            "same_caught": self.same_caught,
            "unread": [one._asdict() for one in self.unread],
        }

    def __str__(self) -> str:
        same = f" ({self.same_caught} of {len(self.same)} that failed of the same)" if self.same else ""
        looked = f"{self.runs} run(s) looked at, {self.passed} passed and {self.failed} failed"
        return f"{looked}: caught {len(self.caught)}{same}, wrongly stopped {len(self.wrong)}"


def replay(rule: PolicyRule, history: History, same: Iterable[str] = ()) -> Replay:
    alone = SingleRulePolicy(rule).in_workspace
    hits: dict[str, list[ReplayHit]] = {"passed": [], "failed": [], "undecided": []}
    unread = list(history.unread)
    for one in history.past:
        try:
            hits[one.fate] += next(([hit] for hit in _hits(alone, one)), [])
        except ChangeLost as gone:
            unread.append(UnreadableRun(one.id, str(gone)))
    fates = [one.fate for one in history.past]
    known = {one.id for one in history.past}
    return Replay(
        rule.id,
        len(fates),
        fates.count("passed"),
        fates.count("failed"),
        tuple(hits["failed"]),
        tuple(hits["passed"]),
        tuple(hits["undecided"]),
        tuple(name for name in same if name in known),
        tuple(unread),
    )


def speaks(alone: SingleRulePolicy, one: PastRun) -> bool:
    """Of its commands."""
    return any(True for _ in _hits(alone, one))


def _hits(alone: SingleRulePolicy, one: PastRun) -> Iterator[ReplayHit]:
    """As 戒 would have found it: the commands before the run, then what its change adds."""
    for place, command in one.commands:
        part = alone.part(command) if _may_name(alone.rule, command) else ""
        if part:
            yield ReplayHit(one.id, place, part[:_SHOWN])
    if alone.rule.kind == "added":
        for path, number, text in added(one):
            if bool(number) == bool(alone.rule.line) and additions.fits(alone.rule, path, text):
                yield ReplayHit(one.id, f"{path}:{number}" if number else path, text.strip()[:_SHOWN])


def _may_name(rule: PolicyRule, command: str | tuple[str, ...]) -> bool:
    """Cheap, and wrong in one direction only: a program can also be named by pieces, or be any."""
    text = command if isinstance(command, str) else " ".join(command)
    plain = rule.kind == "command" and "*" not in rule.program and not any(mark in text for mark in "$\\'\"`{")
    return not plain or any(name in text for name in rule.program)


def added(one: PastRun) -> Iterator[tuple[str, int, str]]:
    """Paths (line 0) and added lines of a change."""
    for change in one.changes():
        yield change.path, 0, ""
        yield from ((change.path, line.number, line.text) for line in added_lines.added(change))
