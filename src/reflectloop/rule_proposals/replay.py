"""Replay a policy rule on past runs: which failed ones it would have caught, which good ones wrongly stopped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from reflectloop.gates import added_lines
from reflectloop.plan.model import command_text
from reflectloop.policy import additions
from reflectloop.policy.rule import PolicyRule
from reflectloop.policy.rulefile import SingleRulePolicy
from reflectloop.rule_proposals.past_runs import ChangeLost, History, PastRun, UnreadableRun

_LONGEST = 120  # characters of a command or a line in a hit


class ReplayHit(NamedTuple):
    run: str
    place: str
    what: str


class Replay(NamedTuple):
    """The runs that were examined, and the first place in each where the rule matched."""

    rule: str
    runs: int
    passed: int
    failed: int
    caught: tuple[ReplayHit, ...]  # in runs that failed
    wrong: tuple[ReplayHit, ...]  # in runs that passed
    undecided: tuple[ReplayHit, ...]  # in runs that the machine or a person ended
    same: tuple[str, ...]  # runs with the failure that the rule was learned from
    unread: tuple[UnreadableRun, ...]

    @property
    def same_caught(self) -> int:
        return len({hit.run for hit in self.caught} & set(self.same))

    def as_data(self) -> dict[str, Any]:
        hits = {name: [hit._asdict() for hit in getattr(self, name)] for name in ("caught", "wrong", "undecided")}
        return {
            **self._asdict(),
            **hits,
            "counts": {"caught": len(self.caught), "wrong": len(self.wrong), "undecided": len(self.undecided)},
            "same": list(self.same),
            "same_caught": self.same_caught,
            "unread": [run._asdict() for run in self.unread],
        }

    def __str__(self) -> str:
        same = f" ({self.same_caught} of {len(self.same)} with the same failure)" if self.same else ""
        looked = f"{self.runs} run(s) examined, {self.passed} passed and {self.failed} failed"
        return f"{looked}: caught {len(self.caught)}{same}, wrongly stopped {len(self.wrong)}"


def replay(rule: PolicyRule, history: History, same: Iterable[str] = ()) -> Replay:
    """Apply a rule to every past run; `same` are the runs with the failure it was learned from."""
    policy = SingleRulePolicy(rule).in_workspace
    hits: dict[str, list[ReplayHit]] = {"passed": [], "failed": [], "undecided": []}
    unread = list(history.unread)
    for run in history.past:
        try:
            hits[run.fate] += next(([hit] for hit in _hits(policy, run)), [])
        except ChangeLost as lost:
            unread.append(UnreadableRun(run.id, str(lost)))
    fates = [run.fate for run in history.past]
    known = {run.id for run in history.past}
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


def matches(policy: SingleRulePolicy, run: PastRun) -> bool:
    """Return True if the rule matches a command or an added line of the run."""
    return any(True for _ in _hits(policy, run))


def _hits(policy: SingleRulePolicy, run: PastRun) -> Iterator[ReplayHit]:
    """Yield the matches in the order of the rules gate: the commands before the run, then the added lines."""
    for place, command in run.commands:
        part = policy.part(command) if _may_match(policy.rule, command) else ""
        if part:
            yield ReplayHit(run.id, place, part[:_LONGEST])
    if policy.rule.kind == "added":
        for path, number, text in added(run):
            if bool(number) == bool(policy.rule.line) and additions.fits(policy.rule, path, text):
                yield ReplayHit(run.id, f"{path}:{number}" if number else path, text.strip()[:_LONGEST])


def _may_match(rule: PolicyRule, command: str | tuple[str, ...]) -> bool:
    """Return False if the rule certainly does not match; a cheap test before the real one."""
    text = command_text(command)
    plain = rule.kind == "command" and "*" not in rule.program and not any(mark in text for mark in "$\\'\"`{")
    return not plain or any(name in text for name in rule.program)


def added(run: PastRun) -> Iterator[tuple[str, int, str]]:
    """Yield each changed path (as line 0) and each added line of a run's change."""
    for change in run.changes():
        yield change.path, 0, ""
        yield from ((change.path, line.number, line.text) for line in added_lines.added_lines(change))
