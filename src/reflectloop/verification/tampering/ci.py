"""Find checks that continuous integration or git hooks no longer run, or whose failure they let pass."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import yaml

from reflectloop.verification.protected import guard
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering import commands, recipes, versions
from reflectloop.verification.tampering.added import stood
from reflectloop.verification.tampering.commands import Command
from reflectloop.verification.tampering.setting_effects import number, truth

_COMMANDS = re.compile(
    r"^(?:run|script|scripts|command|commands|bash|sh|pwsh|powershell|ps|cmd|(?:before_|after_)?(?:test|build)?_?script|"
    r"before_install|install|after_success|after_failure|entry|check)$"
)
_NO_COMMANDS = frozenset(
    {"name", "displayname", "description", "with", "env", "environment", "variables", "inputs", "outputs"}
)
_LENIENT = frozenset(
    {"continue-on-error", "allow_failure", "continueonerror", "soft_fail", "ignore_failure", "ignoreerrors"}
)
_CONDITIONS = frozenset({"if", "condition", "when", "only", "except", "rules", "filters", "branches"})
_ALWAYS = re.compile(
    r"^(?:\$\{\{)?\s*(?:always\(\)|success\(\)|!cancelled\(\)|!failure\(\)|true|on_success)\s*(?:\}\})?$"
)
_NEVER = re.compile(r"^(?:\$\{\{)?\s*(?:false|never|always\(\)\s*&&\s*false)\s*(?:\}\})?$")
_ACTION_CHECKS = re.compile(
    r"(?i)(?:^|[/-])(?:tests?|lint\w*|checks?|codeql\w*|golangci\w*|pre-commit|audit|typos|spell\w*|ruff|black|mypy|flake8|"
    r"eslint|clippy|deny|semgrep|zizmor|analyze)(?:$|[/-])"
)
_STEERING_VARIABLES = re.compile(r"^(?:PYTEST_ADDOPTS|TOX_SKIP_ENV|SKIP|PRE_COMMIT_ALLOW_NO_CONFIG|PYTHONOPTIMIZE)$")
_OTHER_AXES = re.compile(
    r"(?i)^(?:tox_?-?env|tox|nox\w*|session|env|task|check|suite|command|script|target|job|test\w*)$"
)
_EVENTS = ("pull_request", "push", "merge_group", "pull_request_target")
_MAIN_BRANCHES = re.compile(r"\b(?:main|master|develop|trunk|default|next)\b|[*$]")
_PROSE = re.compile(r"(?i)docs?/|\.(?:md|rst|txt|adoc)$|license|changelog|\.github/issue")
_LETS_PASS_LINE = re.compile(r"^(?:(?:trap\s.*)?\bexit\s+0|set\s+\+e\w*)\b")
_DASH = "-"  # the sign of make and tox for a command that may fail is the sign of a list here
_MAY_FAIL = " may fail"
_UNFINISHED = re.compile(r"dev|nightly|beta|tip|master|head|alpha|rc\b")
_BUILDS = re.compile(r"build|wheel|publish|release|deploy|docs?\b")
_ACTIONS = {
    "pre-commit/action": "pre-commit run",
    "golangci/golangci-lint-action": "golangci-lint",
    "astral-sh/ruff-action": "ruff",
    "chartboost/ruff-action": "ruff",
    "psf/black": "black",
}


class CheckStep(NamedTuple):
    """A check with the conditions under which it runs and counts."""

    command: Command
    line: int
    conditions: tuple[tuple[str, int], ...] = ()  # with the line of each
    lenient: tuple[str, int] | None = None  # the value of the flag that lets it fail, and its line


class Workflow(NamedTuple):
    """What a file of continuous integration checks, and with what."""

    steps: list[CheckStep]
    axes: dict[str, set[str]]
    others: dict[str, int]  # values of other lists of the matrix, with their lines
    left_out: dict[str, int]
    shells: dict[str, int]
    variables: dict[str, int]
    events: dict[str, tuple[str, int]]


def is_workflow(path: str) -> bool:
    protection = guard(path)
    # Elsewhere no service reads such a file.
    at_top = "/" not in path or path.startswith(".")
    return protection is not None and protection.kind == "ci" and at_top and path.lower().endswith((".yml", ".yaml"))


def look(changes: Sequence[ChangedFile], context: Mapping[str, bytes]) -> Iterator[TamperFinding]:
    """Compare all workflows of a patch together, since checks move between them."""
    relevant = [change for change in changes if is_workflow(change.path)]
    before = {change.path: _read(change.before) for change in relevant}
    after = {change.path: _read(change.after) for change in relevant}
    unchanged = [_read(data) for path, data in context.items() if is_workflow(path)]
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


def _read(data: bytes | None) -> Workflow | None:
    workflow = Workflow([], {}, {}, {}, {}, {}, {})
    if data is None:
        return workflow
    try:
        document = yaml.compose(data.decode("utf-8-sig"), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if isinstance(document, yaml.MappingNode):
        _visit(document, workflow, Circumstances(), top=True)
    return workflow


def pairs(node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node]]:
    for key, value in node.value:
        yield str(key.value).strip() if isinstance(key, yaml.ScalarNode) else "", value


def line_of(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


class Circumstances(NamedTuple):
    """What applies to all steps below a node: the conditions, and the flag that lets them fail."""

    conditions: tuple[tuple[str, int], ...] = ()
    lenient: tuple[str, int] | None = None

    def of(self, node: yaml.MappingNode, *, top: bool) -> Circumstances:
        """Return the circumstances of the steps below this node."""
        conditions, lenient = self
        for key, value in pairs(node):
            text = " ".join(text_of(value).split())
            if key.lower() in _LENIENT and text not in {"false", ""}:
                lenient = (text, line_of(value))
            if key.lower() in _CONDITIONS and not top and not _ALWAYS.match(text):
                conditions = (*conditions, (text, line_of(value)))
        return Circumstances(conditions, lenient)


def _visit(node: yaml.Node, workflow: Workflow, around: Circumstances, *, top: bool = False) -> None:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _visit(item, workflow, around)
    elif isinstance(node, yaml.MappingNode):
        around = around.of(node, top=top)
        idle = _is_idle(node)
        for key, value in pairs(node):
            if idle and key in {"strategy", "runs-on"}:
                continue
            if not _is_matrix(key, value, workflow, top=top) and not _is_setting(key, value, workflow, top=top):
                _visit_steps(key, value, workflow, around)


def _is_idle(node: yaml.MappingNode) -> bool:
    """Return True for a job that checks nothing, so that its matrix does not matter."""
    keys = dict(pairs(node))
    if "steps" not in keys:
        return "uses" in keys and _BUILDS.search(text_of(keys["uses"])) is not None
    own = Workflow([], {}, {}, {}, {}, {}, {})
    _visit(keys["steps"], own, Circumstances())
    return not own.steps


def _is_matrix(key: str, value: yaml.Node, workflow: Workflow, *, top: bool) -> bool:
    """Take in a list of versions or systems; return False if the node is none."""
    if key == "matrix" or (top and versions.axis_name(key)):
        _matrix(value, workflow, key)
    elif key in {"runs-on", "vmImage"}:
        if "$" not in text_of(value):
            _values("os", value, workflow)
    else:
        return False
    return True


def _is_setting(key: str, value: yaml.Node, workflow: Workflow, *, top: bool) -> bool:
    """Take in events, variables and shells; return False if the node is none of them."""
    if top and key in {"on", "true"}:
        workflow.events.update(_events(value))
    elif key in {"env", "environment", "variables"}:
        workflow.variables.update({f"{name}={text_of(each)}": line_of(each) for name, each in _variables(value)})
        if top and isinstance(value, yaml.SequenceNode):
            _matrix(value, workflow, key)
    elif key == "shell":
        workflow.shells[text_of(value)] = line_of(value)
    else:
        return False
    return True


def _visit_steps(key: str, value: yaml.Node, workflow: Workflow, around: Circumstances) -> None:
    if _COMMANDS.match(key.lower()):
        workflow.steps.extend(_steps(value, around))
        _visit(value, workflow, around)
    elif key == "uses":
        name = text_of(value).partition("@")[0]
        if _ACTION_CHECKS.search(name):
            command = Command(name, _ACTIONS.get(name, name), kind="lint")
            workflow.steps.append(CheckStep(command, line_of(value), *around))
    elif key.lower() not in _NO_COMMANDS and key.lower() not in _CONDITIONS:
        _visit(value, workflow, around)


def text_of(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    if isinstance(node, yaml.MappingNode):
        return ", ".join(f"{key}: {text_of(value)}" for key, value in pairs(node))
    return ", ".join(text_of(item) for item in node.value)


def _variables(node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        yield from ((name, value) for name, value in pairs(node) if _STEERING_VARIABLES.match(name))


def _steps(node: yaml.Node, around: Circumstances) -> Iterator[CheckStep]:
    scalars = node.value if isinstance(node, yaml.SequenceNode) else [node]
    for scalar in scalars:
        if not isinstance(scalar, yaml.ScalarNode):
            continue
        first = line_of(scalar) + (1 if scalar.style in {"|", ">"} else 0)
        for at, line in _shell_lines(str(scalar.value)):
            for command in commands.read(line):
                plain = command._replace(lets_pass="") if command.lets_pass == _DASH else command
                if commands.is_check(plain) or _LETS_PASS_LINE.match(plain.text):
                    yield CheckStep(plain, first + at, *around)


def _shell_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a script with their positions, each joined with those it continues on."""
    pending, begins = "", 0
    for at, line in enumerate(text.splitlines()):
        begins = begins if pending else at
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1] + " "
            continue
        whole = re.sub(r"(?:^|\s)#(?!\{).*$", "", pending + line).strip()
        pending = ""
        if whole:
            yield begins, whole
    if pending.strip():
        yield begins, pending.strip()


def _matrix(node: yaml.Node, workflow: Workflow, name: str) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in pairs(node):
            if key == "exclude":
                workflow.left_out.update({text_of(item): line_of(item) for item in getattr(value, "value", [])})
            elif key in {"include", "jobs", "allow_failures"} or isinstance(value, yaml.MappingNode):
                _matrix(value, workflow, key)
            else:
                _values(key, value, workflow)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            if name == "allow_failures":
                workflow.left_out[f"{text_of(item)}{_MAY_FAIL}"] = line_of(item)
            elif isinstance(item, yaml.MappingNode):
                _matrix(item, workflow, name)
            else:
                _values(name, item, workflow)
    else:
        _values(name, node, workflow)


def _values(key: str, node: yaml.Node, workflow: Workflow) -> None:
    scalars = [
        item
        for item in (node.value if isinstance(node, yaml.SequenceNode) else [node])
        if isinstance(item, yaml.ScalarNode)
    ]
    axis = versions.axis_name(key)
    for scalar in scalars:
        text = str(scalar.value)
        if axis:
            workflow.axes.setdefault(axis, set()).add(text)
        elif _OTHER_AXES.match(key):
            for word in (
                versions.expanded(text.removeprefix("TOXENV=")) if "=" not in text.removeprefix("TOXENV=") else ()
            ):
                rest, python = versions.factors(word.strip())
                workflow.axes.setdefault("Python", set()).update(python)
                if rest and not commands.prepares(Command(rest, rest)):
                    workflow.others[rest] = line_of(scalar)


def _events(node: yaml.Node) -> dict[str, tuple[str, int]]:
    if isinstance(node, yaml.MappingNode):
        return {key: (text_of(value), line_of(value)) for key, value in pairs(node)}
    listed = node.value if isinstance(node, yaml.SequenceNode) else [node]
    return {str(item.value): ("", line_of(item)) for item in listed}


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
    if change.after is None or not any(not _LETS_PASS_LINE.match(step.command.text) for step in new.steps):
        return
    yield from _let_pass(change, old, new, reported)
    yield from _conditional(change, old, new, remaining)
    yield from _matrix_losses(change, old, new)
    yield from _unusual(change, old, new)


def _plain(steps: Iterable[CheckStep]) -> list[Command]:
    return [step.command for step in steps if not _LETS_PASS_LINE.match(step.command.text)]


def _let_pass(change: ChangedFile, old: Workflow, new: Workflow, reported: set[str]) -> Iterator[TamperFinding]:
    firm = {step.command.program for step in new.steps if not step.lenient and not step.command.lets_pass}
    known = {(step.command.program, step.lenient[0] if step.lenient else step.command.lets_pass) for step in old.steps}
    lines = {step.command.text for step in old.steps}
    for step in new.steps:
        flag = step.lenient[0] if step.lenient else step.command.lets_pass
        if _LETS_PASS_LINE.match(step.command.text):
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
    for program, steps in _by_program(new.steps).items():
        known = {_plain_condition(text) for step in before.get(program, ()) for text, _ in step.conditions}
        always = any(not step.conditions for step in after[program])
        fresh = [item for step in steps for item in step.conditions if _plain_condition(item[0]) not in known]
        for text, line in fresh[:1] if program in before and not always else ():
            if text not in reported:
                reported.add(text)
                what = f"`{steps[0].command.text[:60]}` now runs only if `{text[:60]}`"
                grade: Literal["weakening", "suspect"] = "weakening" if _NEVER.match(text) else "suspect"
                yield TamperFinding("ci-loosened", change.path, line, what, grade)


def _plain_condition(text: str) -> str:
    """Return a condition without quotes, spaces and the numbers of versions."""
    return re.sub(r"[\s\"'${}\d.]+", "", text)


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
        if text not in old.left_out and not (text.endswith(_MAY_FAIL) and _UNFINISHED.search(text))
    ]
    if left_out and old.steps:
        text = left_out[0][0]
        entry = text.removesuffix(_MAY_FAIL)[:80]
        what = f"`{entry}` may fail" if text.endswith(_MAY_FAIL) else f"the matrix leaves out `{entry}`"
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
            and not re.search(r"sh\s.*-\w*e", shell)
        ):
            yield TamperFinding(
                "ci-loosened", change.path, line, f"`shell: {shell[:60]}` may let a failure pass", "suspect"
            )
    for variable, line in new.variables.items():
        words = commands.words(variable.partition("=")[2])
        if variable not in old.variables and not (variable.startswith("PYTEST_") and not commands.options((), words)):
            yield TamperFinding(
                "ci-loosened", change.path, line, f"`{variable[:80]}` may leave something out", "suspect"
            )
    if old.events and old.steps and (what := _rarer(old.events, new.events)):
        line = min((line for _, line in new.events.values()), default=1)
        yield TamperFinding("ci-loosened", change.path, line, what, "suspect")


def _rarer(old: Mapping[str, tuple[str, int]], new: Mapping[str, tuple[str, int]]) -> str | None:
    """Return why changes are checked less often than before, or None: some event must still cover all of them."""
    before, after = (
        {event: filters for event, (filters, _) in events.items() if event in _EVENTS} for events in (old, new)
    )
    if before and not after:
        return f"no longer runs on {', '.join(before)}"
    whole_before, whole_after = (
        [event for event, filters in side.items() if not _filtered(event, filters)] for side in (before, after)
    )
    if whole_before and not whole_after:
        event = next(iter(after))
        return f"now runs only on some changes: `{event}: {after[event][:60]}`"
    return None


def _filtered(event: str, filters: str) -> bool:
    """Return True if an event covers only some changes.

    A pull request into one of the main branches is covered; a push is, if it may be to any branch. Paths of
    documentation may be left out.
    """
    branches = re.search(r"(?:^|, )(?:branches|branches-ignore|tags): (.*?)(?:, [\w-]+: |$)", filters)
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
