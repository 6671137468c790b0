"""Find checks that continuous integration or git hooks no longer run, or whose failure they let pass."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import yaml

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering import commands, recipes, shell_scripts, versions
from reflectloop.verification.tampering.added import stood
from reflectloop.verification.tampering.commands import Command
from reflectloop.verification.tampering.setting_effects import number, truth
from reflectloop.verification.tampering.workflows import (
    LETS_PASS_LINE,
    MAY_FAIL,
    CheckStep,
    Workflow,
    is_workflow,
    line_of,
    pairs,
    read,
)

_NEVER = lazy(r"^(?:\$\{\{)?\s*(?:false|never|always\(\)\s*&&\s*false)\s*(?:\}\})?$")
_EVENTS = ("pull_request", "push", "merge_group", "pull_request_target")
_MAIN_BRANCHES = lazy(r"\b(?:main|master|develop|trunk|default|next)\b|[*$]")
_PROSE = lazy(r"(?i)docs?/|\.(?:md|rst|txt|adoc)$|license|changelog|\.github/issue")
_UNFINISHED = lazy(r"dev|nightly|beta|tip|master|head|alpha|rc\b")


def look(changes: Sequence[ChangedFile], context: Mapping[str, bytes]) -> Iterator[TamperFinding]:
    """Compare all workflows of a patch together, since checks move between them."""
    relevant = [change for change in changes if is_workflow(change.path)]
    before = {change.path: read(change.before) for change in relevant}
    after = {change.path: read(change.after) for change in relevant}
    unchanged = [read(data) for path, data in context.items() if is_workflow(path)]
    remaining = [step for workflow in (*after.values(), *unchanged) if workflow for step in workflow.steps]
    elsewhere = recipes.tools_run(changes, context)
    for change in relevant:
        if change.path.lower().rpartition("/")[2].lstrip(".").startswith("codecov"):
            yield from _coverage_service(change)
            continue
        old, new = before[change.path], after[change.path]
        if new is None:
            if old is not None:
                yield TamperFinding(
                    "config-unreadable", change.path, 1, "the workflow can no longer be read", "suspect"
                )
        elif old is not None:
            yield from _compared(change, old, new, remaining, elsewhere)


# What changed -----------------------------------------------------------------------------------------------


def _compared(
    change: ChangedFile, old: Workflow, new: Workflow, remaining: Sequence[CheckStep], elsewhere: frozenset[str]
) -> Iterator[TamperFinding]:
    reported = set[str]()
    replacing: list[Command | None] = []
    for loss in commands.lost(_plain(old.steps), [*_plain(new.steps), *_plain(remaining)], elsewhere):
        line = next((step.line for step in new.steps if step.command == loss.new), None)
        at = next(step.line for step in old.steps if step.command == loss.old)
        reported.add(loss.old.program)
        if "` became `" in loss.effect.why and loss.new in replacing:
            continue  # one command stands in the place of several
        replacing.append(loss.new)
        line = line or stood(change.before, change.after, at)
        what = f"{loss.effect.why} (line {at} before)" if loss.new is None else loss.effect.why
        if change.after is None:
            yield TamperFinding("ci-loosened", change.path, None, f"the file was removed: {what}", loss.effect.grade)
            return
        yield TamperFinding("ci-loosened", change.path, line, what, loss.effect.grade)
    if change.after is None or not any(not LETS_PASS_LINE.match(step.command.text) for step in new.steps):
        return
    let_pass = list(_let_pass(change, old, new, reported))
    yield from let_pass
    lines = {finding.line for finding in let_pass}
    yield from (finding for finding in _conditional(change, old, new, remaining) if finding.line not in lines)
    yield from _elsewhere(change, old, new, remaining)
    yield from _prepared(change, old, new, remaining)
    yield from _matrix_losses(change, old, new)
    yield from _unusual(change, old, new)


def _plain(steps: Iterable[CheckStep]) -> list[Command]:
    return [step.command for step in steps if not LETS_PASS_LINE.match(step.command.text)]


def _let_pass(change: ChangedFile, old: Workflow, new: Workflow, reported: set[str]) -> Iterator[TamperFinding]:
    firm = {step.command.program for step in new.steps if not step.lenient and not step.command.lets_pass}
    known = {(step.command.program, step.lenient[0] if step.lenient else step.command.lets_pass) for step in old.steps}
    lines = {step.command.text for step in old.steps}
    for step in new.steps:
        flag = step.lenient[0] if step.lenient else step.command.lets_pass
        if LETS_PASS_LINE.match(step.command.text):
            if step.command.text not in lines:
                yield TamperFinding(
                    "ci-loosened", change.path, step.line, f"`{step.command.text[:80]}` lets a failure pass"
                )
        elif flag and (step.command.program, flag) not in known and step.command.program not in firm | reported:
            reported.add(step.command.program)
            line = step.lenient[1] if step.lenient else step.line
            certain = not step.lenient or truth(flag.strip("${} "))
            what = f"`{flag[:60]}` lets a failure of `{step.command.text[:60]}` pass"
            yield TamperFinding("ci-loosened", change.path, line, what, "weakening" if certain else "suspect")


def _conditional(
    change: ChangedFile, old: Workflow, new: Workflow, remaining: Sequence[CheckStep]
) -> Iterator[TamperFinding]:
    before, after = _by_program(old.steps), _by_program([*new.steps, *remaining])
    reported = set[str]()
    met = {_plain_condition(text) for step in new.steps for text, _ in step.conditions}
    for program, steps in _by_program(new.steps).items():
        known = {_plain_condition(text) for step in before.get(program, ()) for text, _ in step.conditions}
        always = any(not step.conditions for step in after[program])
        fresh = [
            (text, line)
            for step in steps
            for text, line in step.conditions
            # Where the opposite holds, another check runs.
            if _plain_condition(text) not in known and not _opposites(_plain_condition(text)) & met
        ]
        for text, line in fresh[:1] if program in before and not always else ():
            if text not in reported:
                reported.add(text)
                never = text.startswith(shell_scripts.NEVER)
                how = f"is never reached: {text[7:60]}" if never else f"now runs only if `{text[:60]}`"
                what = f"`{steps[0].command.text[:60]}` {how}"
                grade: Literal["weakening", "suspect"] = "weakening" if never or _NEVER.match(text) else "suspect"
                yield TamperFinding("ci-loosened", change.path, line, what, grade)


def _elsewhere(
    change: ChangedFile, old: Workflow, new: Workflow, remaining: Sequence[CheckStep]
) -> Iterator[TamperFinding]:
    """Yield the checks that run in no folder any more in which they ran before."""
    before, after = _by_program(old.steps), _by_program([*new.steps, *remaining])
    for program, steps in _by_program(new.steps).items():
        folders = {step.folder[0] for step in before.get(program, ())}
        if folders and not folders & {step.folder[0] for step in after[program]}:
            folder, line = steps[0].folder
            what = f"`{steps[0].command.text[:60]}` now runs in `{folder}`, and ran in `{min(folders)}`"
            yield TamperFinding("ci-loosened", change.path, line, what, "suspect")


def _prepared(
    change: ChangedFile, old: Workflow, new: Workflow, remaining: Sequence[CheckStep]
) -> Iterator[TamperFinding]:
    """Yield what steps newly change for every run of a check."""
    after = _by_program([*new.steps, *remaining])
    reported = {effect for step in old.steps for effect, _ in step.effects}
    before = _by_program(old.steps)
    for step in new.steps:
        for effect, line in step.effects if step.command.program in before else ():
            everywhere = all(effect in dict(other.effects) for other in after[step.command.program])
            if effect not in reported and everywhere:
                reported.add(effect)
                yield TamperFinding("ci-loosened", change.path, line, f"before the checks, {effect}", "suspect")


def _plain_condition(text: str) -> str:
    """Return a condition without quotes, spaces and the numbers of versions."""
    return re.sub(r"[\s\"'${}\d.]+", "", text)


def _opposites(plain: str) -> set[str]:
    return {f"not{plain}", plain.removeprefix("not")} - {plain}


def _by_program(steps: Iterable[CheckStep]) -> dict[str, list[CheckStep]]:
    programs: dict[str, list[CheckStep]] = {}
    for step in steps:
        programs.setdefault(step.command.program, []).append(step)
    return programs


def _matrix_losses(change: ChangedFile, old: Workflow, new: Workflow) -> Iterator[TamperFinding]:
    for axis, lost_versions in versions.dropped(old.axes, new.axes).items():
        prefix = "on" if axis == "system" else f"with {axis}"
        what = f"no longer runs {prefix} {', '.join(lost_versions)}"
        line = _where(change, lost_versions[0])
        yield TamperFinding("ci-loosened", change.path, line, what, "suspect")
    gone = [name for name in old.others if name not in new.others]
    if gone and len(new.others) < len(old.others) and not any(name in " ".join(_texts(new)) for name in gone):
        line = stood(change.before, change.after, old.others[gone[0]])
        yield TamperFinding(
            "ci-loosened", change.path, line, f"the matrix no longer has `{', '.join(gone)[:80]}`", "suspect"
        )
    left_out = [
        (text, line)
        for text, line in new.left_out.items()
        if text not in old.left_out and not (text.endswith(MAY_FAIL) and _UNFINISHED.search(text))
    ]
    if left_out and old.steps:
        text = left_out[0][0]
        entry = text.removesuffix(MAY_FAIL)[:80]
        what = f"`{entry}` may fail" if text.endswith(MAY_FAIL) else f"the matrix leaves out `{entry}`"
        yield TamperFinding("ci-loosened", change.path, left_out[0][1], what, "suspect")


def _texts(workflow: Workflow) -> list[str]:
    return [step.command.text for step in workflow.steps]


def _where(change: ChangedFile, word: str) -> int:
    rows = (change.before or b"").decode(errors="replace").splitlines()
    number_before = next((at for at, row in enumerate(rows, 1) if word.lower() in row.lower()), 1)
    return stood(change.before, change.after, number_before)


def _unusual(change: ChangedFile, old: Workflow, new: Workflow) -> Iterator[TamperFinding]:
    for shell, line in new.shells.items():
        if (
            shell not in old.shells
            and "{0}" in shell
            and re.match(r"(?:/\S*/)?(?:(?:ba)?sh|true|:|echo|cat|test)(?=\s)", shell)
            and not re.search(r"\s-\w*e", shell)
        ):
            yield TamperFinding(
                "ci-loosened", change.path, line, f"`shell: {shell[:60]}` may let a failure pass", "suspect"
            )
    for variable, line in new.variables.items():
        if variable not in old.variables:
            yield TamperFinding(
                "ci-loosened", change.path, line, f"`{variable[:80]}` may leave something out", "suspect"
            )
    if old.events and old.steps and (rarer := _rarer(old.events, new.events)):
        event, what = rarer
        line = new.events[event][1] if event in new.events else min((at for _, at in new.events.values()), default=1)
        yield TamperFinding("ci-loosened", change.path, line, what, "suspect")


def _rarer(old: Mapping[str, tuple[str, int]], new: Mapping[str, tuple[str, int]]) -> tuple[str, str] | None:
    """Return why changes are checked less often than before, or None: some event must still cover all of them."""
    before, after = (
        {event: filters for event, (filters, _) in events.items() if event in _EVENTS} for events in (old, new)
    )
    if before and not after:
        return "", f"no longer runs on {', '.join(before)}"
    whole_before, whole_after = (
        [event for event, filters in side.items() if not _filtered(event, filters)] for side in (before, after)
    )
    if whole_before and not whole_after:
        event = next((each for each in whole_before if each in after), next(iter(after)))
        return event, f"now runs only on some changes: `{event}: {after[event][:60]}`"
    return None


def _filtered(event: str, filters: str) -> bool:
    """Return True if an event covers only some changes.

    A pull request into one of the main branches is covered; a push is, if it may be to any branch. Paths of
    documentation may be left out.
    """
    ignored = re.search(r"(?:^|, )branches-ignore: (.*?)(?:, [\w-]+: |$)", filters)
    if ignored and _MAIN_BRANCHES.search(ignored[1]):
        return True
    branches = re.search(r"(?:^|, )(?:branches|tags): (.*?)(?:, [\w-]+: |$)", filters)
    if branches and (event == "push" or not _MAIN_BRANCHES.search(branches[1])):
        return True
    if "types: " in filters and not re.search(r"types: [^:]*\b(?:opened|synchronize)\b", filters):
        return True
    paths = re.search(r"paths(?:-ignore)?: (.*?)(?:, [\w-]+: |$)", filters)
    return paths is not None and not ("paths-ignore" in filters and all(map(_PROSE.search, paths[1].split(", "))))


# Coverage services ------------------------------------------------------------------------------------------


def _coverage_service(change: ChangedFile) -> Iterator[TamperFinding]:
    old, new = _leaves(change.before), _leaves(change.after)
    for key, (value, line) in new.items():
        before = old.get(key, ("", 0))[0]
        name = key.rpartition(".")[2]
        lower = name == "target" and (number(value) or 0) < (number(before) or 0)
        wider = name == "threshold" and before and (number(value) or 0) > (number(before) or 0)
        if lower or wider or (name == "informational" and truth(value) and not truth(before)):
            what = f"{key} is `{value}` now" + (f", and was `{before}`" if before else "")
            yield TamperFinding("ci-loosened", change.path, line, what, "suspect")


def _leaves(data: bytes | None) -> dict[str, tuple[str, int]]:
    leaves: dict[str, tuple[str, int]] = {}

    def visit(node: yaml.Node | None, prefix: str) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in pairs(node):
                visit(value, f"{prefix}.{key}" if prefix else key)
        elif isinstance(node, yaml.ScalarNode):
            leaves[prefix] = (str(node.value), line_of(node))

    try:
        visit(yaml.compose((data or b"").decode(errors="replace"), Loader=yaml.SafeLoader), "")
    except yaml.YAMLError:
        return {}
    return leaves
