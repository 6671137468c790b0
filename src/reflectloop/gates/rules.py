"""The rules gate (戒): check the contract, the boundaries and the security rules. Nothing is run before it passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from reflectloop.gates import added_lines, autorun_edits
from reflectloop.gates import contract as contracts
from reflectloop.gates.contract import READ_ONLY_ROLES, ContractReading
from reflectloop.gates.decisions import Gate, GateReason, Ruling, make_ruling
from reflectloop.plan.globs import matches_any
from reflectloop.plan.model import command_text
from reflectloop.policy import code_commands
from reflectloop.terms import Decision, join_first, shorten
from reflectloop.verification.result import ChangedFile

_NAMES_LISTED = 5
_QUOTED = 80  # characters
_PIPELINE = "autorun.pipeline"
AUTORUN = "autorun."  # prefix of the rules about files that tools run automatically


class Breach(NamedTuple):
    """The violation of a security rule by a line, a path or a command."""

    denied: bool  # False if a person may allow it
    rule: str
    reason: str


class DangerPolicy(NamedTuple):
    """The security rules as functions: of an added line (or of a path alone, as line 0), and of a command."""

    line: Callable[[str, int, str], Breach | None]
    command: Callable[[str | tuple[str, ...]], Breach | None]


class GateSubject(NamedTuple):
    """The output that the gates judge."""

    reading: ContractReading
    changes: Sequence[ChangedFile]
    start: str  # the tree that the work started from
    may_change_protected: Sequence[str] = ()  # protected paths that a user-confirmed plan allows to change
    possible_secrets: Sequence[str] = ()  # descriptions of possible secrets

    @property
    def paths(self) -> list[str]:
        return [change.path for change in self.changes]


def check_rules(output: GateSubject, judges: DangerPolicy) -> Ruling:
    """Check every rule, and return all faults at once."""
    reasons = [
        *contracts.incomplete_reasons(output.reading),
        *contracts.claim_reasons(output.reading, output.paths),
        *boundaries(output),
        *permissions(output),
        *security(output, judges),
    ]
    return make_ruling(Gate.RULES, reasons, output.start)


def boundaries(output: GateSubject) -> list[GateReason]:
    contract = output.reading.contract
    allowed, forbidden = contract.may_change or ("**",), contract.must_not_change or ()
    outside = [path for path in output.paths if not matches_any(path, (*allowed, *output.may_change_protected))]
    violations = [path for path in output.paths if matches_any(path, forbidden)]
    out = []
    if outside:
        text = f"changed outside may_change ({', '.join(allowed)}): {join_first(outside, _NAMES_LISTED)}"
        out.append(
            GateReason(Decision.REDO, "boundary.outside", text, "revert that change, or ask for a wider may_change")
        )
    if violations:
        text = f"changed though must_not_change names it: {join_first(violations, _NAMES_LISTED)}"
        out.append(GateReason(Decision.REDO, "boundary.barred", text, "revert that change"))
    return out


def permissions(output: GateSubject) -> list[GateReason]:
    role = output.reading.contract.role
    if role not in READ_ONLY_ROLES or not output.changes:
        return []
    paths = join_first(output.paths, _NAMES_LISTED)
    text = f"a {role.replace('_', ' ')} may not change files, and this one changed {paths}"
    return [GateReason(Decision.REDO, "role.wrote", text, "let an executor make the change")]


def change_reasons(
    changes: Sequence[ChangedFile], judges: DangerPolicy, may_change_protected: Sequence[str] = ()
) -> list[GateReason]:
    """Return the reasons of the patch rules about added or changed files and their new lines.

    A file that tools run automatically is allowed if the plan names it, and if the edit adds nothing that acts.
    """
    breaches = [
        (specific, f"{change.path}:{line.number}" if line.number else change.path)
        for change in changes
        if change.after is not None
        for line in (added_lines.NumberedLine(0, ""), *added_lines.added_lines(change))
        if (breach := judges.line(change.path, line.number, line.text))
        and not (breach.rule.startswith(AUTORUN) and matches_any(change.path, may_change_protected))
        and (specific := breach if line.number else _autorun_breach(change, breach, judges))
    ]
    places: dict[Breach, list[str]] = {}
    for breach, place in breaches:
        places.setdefault(breach, []).append(place)
    reasons = [_breach(breach, join_first(named, _NAMES_LISTED)) for breach, named in places.items()]
    return [*reasons, *started_commands(changes, judges)]


def started_commands(changes: Sequence[ChangedFile], judges: DangerPolicy) -> list[GateReason]:
    """Return the reasons against commands that added source code starts, in any language; only what is denied."""
    reasons = []
    for change in changes:
        added = {line.number for line in added_lines.added_lines(change)} if change.after is not None else set()
        if not added:
            continue
        text = (change.after or b"").decode("utf-8", "replace")
        for start in code_commands.commands_in(change.path, text):
            breach = (
                judges.command(start.command) if added & set(range(start.first_line, start.last_line + 1)) else None
            )
            if breach and breach.denied:
                reasons.append(_breach(breach, f"{change.path}:{start.first_line}"))
    return reasons


def _autorun_breach(change: ChangedFile, breach: Breach, judges: DangerPolicy) -> Breach | None:
    """Return the breach by a file that tools run automatically, or None if the edit adds nothing that acts."""
    if not breach.rule.startswith(AUTORUN):
        return breach
    if breach.rule != _PIPELINE:
        return breach if autorun_edits.adds_action(change) else None
    power = autorun_edits.added_power(change, lambda text: judges.command(text) is not None)
    if power:
        return breach._replace(reason=f"{breach.reason}; adds `{shorten(power, _QUOTED)}`")
    return breach if power is None else None


def security(output: GateSubject, judges: DangerPolicy) -> list[GateReason]:
    reasons = change_reasons(output.changes, judges, output.may_change_protected)
    for run in output.reading.contract.tests_run or ():
        breach = judges.command(run.command)
        if breach:
            reasons.append(_breach(breach, f"command {command_text(run.command)!r}"))
    secret_reasons = [
        GateReason(Decision.ASK, "security.secret", text, "remove it, or add its fingerprint to the baseline")
        for text in output.possible_secrets
    ]
    return [*dict.fromkeys(reasons), *secret_reasons]


def _breach(breach: Breach, place: str) -> GateReason:
    if breach.denied:
        return GateReason(
            Decision.STOP, f"security.{breach.rule}", f"{place}: {breach.reason} ({breach.rule})", "remove it"
        )
    fix = f'remove it, or allow it: [policy] allow = ["{breach.rule}"]'
    return GateReason(Decision.ASK, f"security.{breach.rule}", f"{place}: {breach.reason} ({breach.rule})", fix)
