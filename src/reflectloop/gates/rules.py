"""戒: contract, boundaries and security. Cheap, first, without a model; what does not pass here is not even run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from reflectloop.gates import added_lines
from reflectloop.gates import contract as contracts
from reflectloop.gates.contract import IDLE, ContractReading
from reflectloop.gates.decisions import Gate, GateReason, Ruling, settle
from reflectloop.plan.globs import named
from reflectloop.terms import Decision
from reflectloop.verification.result import ChangedFile

_SHOWN = 5
AUTORUN = "autorun."  # how the ids begin of rules about files that run without anybody starting them by name


class Breach(NamedTuple):
    """What a security rule says of a line, a path or a command."""

    denied: bool  # else a person may allow it
    rule: str
    reason: str


class DangerPolicy(NamedTuple):
    """Who knows what is dangerous: of a line that a patch adds, of a path alone (line 0), and of a command."""

    line: Callable[[str, int, str], Breach | None]
    command: Callable[[str | tuple[str, ...]], Breach | None]


class GateSubject(NamedTuple):
    """What comes before the gates."""

    said: ContractReading
    changes: Sequence[ChangedFile]
    start: str  # the tree the work began with
    lifted: Sequence[str] = ()  # protected paths that a user-confirmed plan frees
    doubts: Sequence[str] = ()  # what may be a secret, in words

    @property
    def paths(self) -> list[str]:
        return [change.path for change in self.changes]


def examine(output: GateSubject, judges: DangerPolicy) -> Ruling:
    """Every fault at once."""
    reasons = [
        *contracts.complete(output.said),
        *contracts.claims(output.said, output.paths),
        *boundaries(output),
        *permissions(output),
        *security(output, judges),
    ]
    return settle(Gate.RULES, reasons, output.start)


def boundaries(output: GateSubject) -> list[GateReason]:
    contract = output.said.contract
    free, barred = contract.may_change or ("**",), contract.must_not_change or ()
    outside = [path for path in output.paths if not named(path, (*free, *output.lifted))]
    against = [path for path in output.paths if named(path, barred)]
    out = []
    if outside:
        text = f"changed outside may_change ({', '.join(free)}): {_shown(outside)}"
        out.append(GateReason(Decision.REDO, "boundary.outside", text, "leave it alone, or ask for a wider may_change"))
    if against:
        text = f"changed though must_not_change names it: {_shown(against)}"
        out.append(GateReason(Decision.REDO, "boundary.barred", text, "leave it alone"))
    return out


def permissions(output: GateSubject) -> list[GateReason]:
    role = output.said.contract.role
    if role not in IDLE or not output.changes:
        return []
    text = f"a {role.replace('_', ' ')} changes nothing, and this one changed {_shown(output.paths)}"
    return [GateReason(Decision.REDO, "role.wrote", text, "let an executor make the change")]


def of_changes(changes: Sequence[ChangedFile], judges: DangerPolicy, lifted: Sequence[str] = ()) -> list[GateReason]:
    """Return what the rules for patches say about files that were added or changed, and about their new lines.

    A file that runs by itself may stand where a person has named it in the plan.
    """
    return [
        _breach(breach, f"{change.path}:{line.number}" if line.number else change.path)
        for change in changes
        if change.after is not None
        for line in (added_lines.NumberedLine(0, ""), *added_lines.added(change))
        if (breach := judges.line(change.path, line.number, line.text))
        and not (breach.rule.startswith(AUTORUN) and named(change.path, lifted))
    ]


def security(output: GateSubject, judges: DangerPolicy) -> list[GateReason]:
    found = of_changes(output.changes, judges, output.lifted)
    for run in output.said.contract.tests_run or ():
        breach = judges.command(run.command)
        if breach:
            found.append(_breach(breach, f"command {_spoken(run.command)!r}"))
    doubted = [
        GateReason(Decision.ASK, "security.secret", doubt, "take it out; or name its fingerprint in the baseline")
        for doubt in output.doubts
    ]
    return [*dict.fromkeys(found), *doubted]


def _breach(breach: Breach, place: str) -> GateReason:
    if breach.denied:
        return GateReason(
            Decision.STOP, f"security.{breach.rule}", f"{place}: {breach.reason} ({breach.rule})", "take it out"
        )
    mend = f'take it out, or allow it: [policy] allow = ["{breach.rule}"]'
    return GateReason(Decision.ASK, f"security.{breach.rule}", f"{place}: {breach.reason} ({breach.rule})", mend)


def _spoken(command: str | tuple[str, ...]) -> str:
    return command if isinstance(command, str) else " ".join(command)


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
