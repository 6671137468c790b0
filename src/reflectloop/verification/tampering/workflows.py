"""Read files of continuous integration: their checks, with what they run, when, where and under which conditions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import yaml

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected import guard
from reflectloop.verification.tampering import commands, shell_scripts, versions
from reflectloop.verification.tampering.commands import Command

_OF_NODE = lazy(r"[\"']?--(?:experimental|max|no-warnings|enable|openssl|unhandled|trace|stack)\S*")
_OF_MAKE = lazy(r"(?:(?:-j\s*\S*|--jobs\S*|-O\w*|--output-sync\S*|--no-print-directory|-[sr]+)\s*)*")
_SKIPS = lazy(r"-DskipTests|-Dmaven\.test|-Dtest=|-x\s*:?\w*[tT]est|--exclude-task|-DskipITs")
_TOP = lazy(r"^(?:\$\{\{\s*github\.workspace\s*\}\}|\$\{?(?:GITHUB_WORKSPACE|PWD|CI_PROJECT_DIR)\}?|\.)/?")
_SOURCE_FOLDERS = frozenset({"", ".", "src", "lib", "tests", "test", "source", "python"})


def _any(value: str) -> bool:
    return value not in {"", "0", "false"}


def _folders(value: str) -> bool:
    parts = [_TOP.sub("", part.strip("\"' ")).rstrip("/") for part in re.split(r"[:;]", value)]
    return any(part not in _SOURCE_FOLDERS and not re.match(r"^[$/~%]", part) for part in parts)


def _pytest(value: str) -> bool:
    return commands.options((), commands.words(value)) is not None


def _node(value: str) -> bool:
    return any(not _OF_NODE.fullmatch(word) for word in commands.words(value))


_VARIABLES: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("PYTEST_ADDOPTS", _pytest),
    ("NODE_OPTIONS", _node),
    ("PYTHONPATH|NODE_PATH|PERL5LIB|RUBYLIB", _folders),
    ("MAKEFLAGS|GNUMAKEFLAGS", lambda value: _OF_MAKE.fullmatch(value) is None),
    ("RUSTFLAGS|RUSTDOCFLAGS|CARGO_ENCODED_RUSTFLAGS", lambda value: bool(re.search(r"-A\b|--cap-lints", value))),
    ("GOFLAGS", lambda value: bool(re.search(r"-(?:run|skip|short|vet=off)\b", value))),
    ("MAVEN_ARGS|MAVEN_OPTS|GRADLE_OPTS|JAVA_TOOL_OPTIONS", lambda value: bool(_SKIPS.search(value))),
    ("GTEST_FILTER|PYTEST_PLUGINS|TOX_SKIP_ENV|SKIP|PRE_COMMIT_ALLOW_NO_CONFIG|PYTHONOPTIMIZE", _any),
    ("PATH|BASH_ENV|ENV|LD_PRELOAD|DYLD_INSERT_LIBRARIES|RUBYOPT|PERL5OPT", _any),
)


def checks_less(name: str, value: str) -> bool:
    """Return True if checks that run with this variable may do less."""
    return any(re.fullmatch(names, name) and judge(value.strip("\"'")) for names, judge in _VARIABLES)


_COMMANDS = lazy(
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
_ALWAYS = lazy(r"^\s*(?:always\(\)|success\(\)|!\s*cancelled\(\)|!\s*failure\(\)|true|on_success)\s*$")
_THOUGH_SKIPPED = lazy(r"always\(\)|!\s*cancelled\(\)")  # such a job runs though one that it needs was skipped
_ACTION_CHECKS = lazy(
    r"(?i)(?:^|[/-])(?:tests?|lint\w*|checks?|codeql\w*|golangci\w*|pre-commit|audit|typos|spell\w*|ruff|black|mypy|flake8|"
    r"eslint|clippy|deny|semgrep|zizmor|analyze)(?:$|[/-])"
)
_OTHER_AXES = lazy(r"(?i)^(?:tox_?-?env|tox|nox\w*|session|env|task|check|suite|command|script|target|job|test\w*)$")
LETS_PASS_LINE = lazy(r"^(?:(?:trap\s.*)?\bexit\s+0|set\s+\+e\w*)\b")
_DASH = "-"  # the sign of make and tox for a command that may fail is the sign of a list here
MAY_FAIL = " may fail"
_BUILDS = lazy(r"build|wheel|publish|release|deploy|docs?\b")
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
    folder: tuple[str, int] = (".", 1)  # with the line that names it
    effects: tuple[tuple[str, int], ...] = ()  # what steps before it change for it, with their lines


class Workflow(NamedTuple):
    """The checks of a file of continuous integration, and their conditions."""

    steps: list[CheckStep]
    axes: dict[str, set[str]]
    others: dict[str, int]  # values of other lists of the matrix, with their lines
    left_out: dict[str, int]
    shells: dict[str, int]
    variables: dict[str, int]
    events: dict[str, tuple[str, int]]


def _empty() -> Workflow:
    return Workflow([], {}, {}, {}, {}, {}, {})


def is_workflow(path: str) -> bool:
    protection = guard(path)
    # Elsewhere no service reads such a file.
    at_top = "/" not in path or path.startswith(".")
    return protection is not None and protection.kind == "ci" and at_top and path.lower().endswith((".yml", ".yaml"))


def read(data: bytes | None) -> Workflow | None:
    workflow = _empty()
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
    """The circumstances of all steps below a node: conditions, the flag that lets them fail, folder, effects."""

    conditions: tuple[tuple[str, int], ...] = ()
    lenient: tuple[str, int] | None = None
    folder: str = "."
    folder_line: int = 1
    effects: list[tuple[shell_scripts.ScriptEffect, int]] | None = None  # of the steps before, with their lines

    def of(self, node: yaml.MappingNode, *, top: bool) -> Circumstances:
        """Return the circumstances of the steps below this node."""
        conditions, lenient, folder, folder_line, effects = self
        for key, value in pairs(node):
            text = " ".join(text_of(value).split())
            if key.lower() in _LENIENT and text not in {"false", ""}:
                lenient = (text, line_of(value))
            if key.lower() in _CONDITIONS and not top and not _always(text):
                conditions = (*conditions, (text, line_of(value)))
            if key.lower() in {"working-directory", "workingdirectory"}:
                folder, folder_line = shell_scripts.joined(".", text), line_of(value)
            elif key == "defaults" and (match := re.search(r"working-directory: ([^,]+)", text)):
                folder, folder_line = shell_scripts.joined(".", match[1]), line_of(value)
        return Circumstances(conditions, lenient, folder, folder_line, effects)


def _always(text: str) -> bool:
    """Return True if a condition holds unless something failed before: one of its alternatives does."""
    plain = text.strip().removeprefix("${{").removesuffix("}}")
    return any(_ALWAYS.match(part) for part in plain.split("||"))


def _with_needs(jobs: yaml.MappingNode) -> dict[str, tuple[tuple[str, int], ...]]:
    """Return the conditions of the jobs that each job needs, without which it is skipped."""
    nodes = {name: dict(pairs(node)) for name, node in pairs(jobs) if isinstance(node, yaml.MappingNode)}
    own = {name: Circumstances().of(node, top=False).conditions for name, node in pairs(jobs) if name in nodes}  # type: ignore[arg-type]

    def needed(name: str, depth: int) -> tuple[tuple[str, int], ...]:
        keys = nodes.get(name, {})
        if "needs" not in keys or depth > len(nodes) or ("if" in keys and _THOUGH_SKIPPED.search(text_of(keys["if"]))):
            return ()
        others = [each for each in text_of(keys["needs"]).split(", ") if each in nodes]
        return tuple(item for other in others for item in (*own[other], *needed(other, depth + 1)))

    return {name: needed(name, 0) for name in nodes}


def _visit(node: yaml.Node, workflow: Workflow, around: Circumstances, *, top: bool = False) -> None:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _visit(item, workflow, around)
    elif isinstance(node, yaml.MappingNode):
        around = around.of(node, top=top)
        idle = _is_idle(node)
        _note_checkout(node, around)
        for key, value in pairs(node):
            if top and key == "jobs" and isinstance(value, yaml.MappingNode):
                needed = _with_needs(value)
                for name, job in pairs(value):
                    conditions = (*around.conditions, *needed.get(name, ()))
                    _visit(job, workflow, around._replace(conditions=conditions, effects=[]))
                continue
            if idle and key in {"strategy", "runs-on"}:
                continue
            if not _is_matrix(key, value, workflow, top=top) and not _is_setting(key, value, workflow, top=top):
                _visit_steps(key, value, workflow, around)


def _note_checkout(node: yaml.MappingNode, around: Circumstances) -> None:
    """Note a checkout of something else than the change in the place of it."""
    keys = dict(pairs(node))
    if around.effects is None or not ("uses" in keys and text_of(keys["uses"]).startswith("actions/checkout")):
        return
    inputs = dict(pairs(keys["with"])) if isinstance(keys.get("with"), yaml.MappingNode) else {}  # type: ignore[arg-type]
    for name in ("ref", "repository"):
        if name in inputs and "path" not in inputs and "${{" not in (text := text_of(inputs[name])) and text:
            effect = shell_scripts.ScriptEffect("other", f"`{text}` is checked out, not the change", 0)
            around.effects.append((effect, line_of(inputs[name])))


def _is_idle(node: yaml.MappingNode) -> bool:
    """Return True for a job that checks nothing, so that its matrix does not matter."""
    keys = dict(pairs(node))
    if "steps" not in keys:
        return "uses" in keys and _BUILDS.search(text_of(keys["uses"])) is not None
    own = _empty()
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
        workflow.steps.extend(_steps(value, around, workflow))
        _visit(value, workflow, around)
    elif key == "uses":
        name = text_of(value).partition("@")[0]
        if _ACTION_CHECKS.search(name):
            command = Command(name, _ACTIONS.get(name, name), kind="lint")
            workflow.steps.append(CheckStep(command, line_of(value), around.conditions, around.lenient))
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
        yield from ((name, value) for name, value in pairs(node) if checks_less(name, text_of(value)))


def _steps(node: yaml.Node, around: Circumstances, workflow: Workflow) -> Iterator[CheckStep]:
    scalars = node.value if isinstance(node, yaml.SequenceNode) else [node]
    state = shell_scripts.ShellState(folder=around.folder)
    before = around.effects if around.effects is not None else []
    for scalar in scalars:
        if not isinstance(scalar, yaml.ScalarNode):
            continue
        first = line_of(scalar) + (1 if scalar.style in {"|", ">"} else 0)
        for at, command, conditions, folder, _ in shell_scripts.read(str(scalar.value), state):
            plain = command._replace(lets_pass="") if command.lets_pass == _DASH else command
            if commands.is_check(plain) or LETS_PASS_LINE.match(plain.text):
                own = tuple((text, first + line) for text, line in conditions)
                place = (folder, around.folder_line if folder == around.folder else first + at)
                effects = tuple((effect.text, line) for effect, line in before if effect.kind == "other")
                yield CheckStep(plain, first + at, (*around.conditions, *own), around.lenient, place, effects)
                _take_variables(before, workflow)
            before += [(effect, first + effect.at) for effect in state.effects]
            state.effects.clear()


def _take_variables(effects: Iterable[tuple[shell_scripts.ScriptEffect, int]], workflow: Workflow) -> None:
    """Take in the variables that earlier steps set for a check."""
    for effect, line in effects:
        name, _, value = effect.text.partition("=")
        if effect.kind == "variable" and checks_less(name, value):
            workflow.variables.setdefault(effect.text, line)


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
                workflow.left_out[f"{text_of(item)}{MAY_FAIL}"] = line_of(item)
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
