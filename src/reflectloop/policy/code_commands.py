"""Find the commands that source code of any language starts: calls of a shell or a program with literal words. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from reflectloop.system import patterns

_LARGEST = 2 << 20  # characters of a file that is read
_LONGEST_CALL = 2_000
_PROSE = frozenset((".md", ".markdown", ".rst", ".txt", ".adoc", ".csv", ".lock", ".svg", ".html", ".po", ".snap"))
_DATA = frozenset((".json", ".jsonl", ".xml", ".toml", ".ini", ".cfg"))
_YAML = frozenset((".yml", ".yaml"))
_PIPELINES = patterns.lazy(
    r"(?i)(?:^|/)(?:\.github/(?:workflows|actions)/|\.circleci/|\.gitlab-ci|azure-pipelines|\.travis|appveyor|"
    r"bitbucket-pipelines|\.drone|\.woodpecker|cloudbuild|buildspec|\.buildkite/)"
)
_STEP = patterns.lazy(r"^\s*(?:-\s+)?(?:[\w.-]+\s*:\s*)?(?P<text>\S.*)$")
_NOT_SHELL = patterns.lazy(
    r"^\s*(?:-\s+)?(?:name|uses|if|on|env|with|description|image|id|needs|key|path)\s*:", re.IGNORECASE
)
# Python functions whose first argument is a command, by module.
_PYTHON = {
    "os": frozenset(("system", "popen", "execv", "execvp", "execl", "execlp", "spawnlp", "spawnvp", "posix_spawn")),
    "subprocess": frozenset(("run", "call", "check_call", "check_output", "Popen", "getoutput", "getstatusoutput")),
    "asyncio": frozenset(("create_subprocess_shell", "create_subprocess_exec")),
    "pty": frozenset(("spawn",)),
    "commands": frozenset(("getoutput", "getstatusoutput")),
}
_PYTHON_NAMES = frozenset(name for names in _PYTHON.values() for name in names) - {"run", "call", "spawn"}
# Functions of other languages; the strings among their arguments are the words of a command, or a line for a shell.
_CALL = patterns.lazy(
    r"(?<![\w.$])(?:child_process\.|cp\.|Deno\.|Bun\.|Kernel\.|Process\.|shell\.|IO\.|Open3\.|exec\.|os\.|std::|libc::)*"
    r"(?:exec|execSync|execFile|execFileSync|spawn|spawnSync|execa|execaSync|system|popen|popen2|popen3|shell_exec|"
    r"passthru|proc_open|pcntl_exec|Command|CommandContext|execvp|execlp|execv|execl|posix_spawn|capture2|capture3|"
    r"ProcessBuilder|shelljs|sh|bat)\s*(?:::new\s*)?[(]|"
    r"\.(?:exec|Start|execSync|spawnSync)\s*[(]|(?:^|[\s;])(?:sh|bat)\s+(?=['\"])"
)
_STRING = patterns.lazy(r"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|`([^`$\\]*)`")
_CHAINED = patterns.lazy(r"\s*\)?\s*\.\s*args?\s*\(")
_BACKTICKS = patterns.lazy(r"(?<![\w`])`([^`$\\\n]{2,500})`|%x[({\[]([^)}\]\n]{2,500})[)}\]]")
_COMMENT = patterns.lazy(r"^\s*(?://|#(?!!)|\*|--|;)")
_HINT = patterns.lazy(
    r"(?i)\b(?:os\s*\.\s*\w+|subprocess|popen|exec\w*|spawn\w*|system|shell_exec|passthru|Command|ProcessBuilder|%x|sh|bat)\b"
    r"|`|['\"]\s*(?:rm|dd|mkfs[\w.]*|shutdown|reboot|halt|poweroff|chmod|chown|sudo|bash|curl|wget|find|mv|kill)\b"
)


class CodeCommand(NamedTuple):
    first_line: int
    last_line: int
    command: str | tuple[str, ...]


def may_start_commands(path: str, line: str) -> bool:
    """Return True if a line of a file may start a command; a False is certain for the functions known here."""
    return _is_pipeline(path) or (not _is_prose(path) and _HINT.search(line) is not None)


def commands_in(path: str, text: str) -> Iterator[CodeCommand]:
    """Yield every command with literal words that a file starts, with its lines."""
    if len(text) > _LARGEST or _is_prose(path):
        return
    if _is_pipeline(path):
        yield from _pipeline_lines(text)
        return
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _DATA:
        if PurePosixPath(path).name == "package.json":
            yield from _script_values(text)
        return
    if suffix in (".py", ".pyi", ".pyw") and (tree := _parsed(text)) is not None:
        yield from _python(tree)
        return
    yield from _calls(text, PurePosixPath(path).suffix.lower())


def _is_prose(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in _PROSE


def _is_pipeline(path: str) -> bool:
    name = PurePosixPath(path)
    return _PIPELINES.search(path) is not None and (name.suffix.lower() in _YAML or name.name.startswith(".gitlab-ci"))


def _pipeline_lines(text: str) -> Iterator[CodeCommand]:
    """Yield the lines of a pipeline: a `run:` or `script:` with its text, an entry of a list, a line of a block."""
    for number, line in enumerate(text.splitlines(), 1):
        match = _STEP.match(line)
        if match and not line.lstrip().startswith("#") and not _NOT_SHELL.match(line):
            yield CodeCommand(number, number, match["text"].strip("'\""))


def _script_values(text: str) -> Iterator[CodeCommand]:
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*"[^"]+"\s*:\s*"((?:[^"\\]|\\.)*)"\s*,?\s*$', line)
        if match:
            yield CodeCommand(number, number, _plain(match[1]))


# Python -----------------------------------------------------------------------------------------------------------


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _python(tree: ast.Module) -> Iterator[CodeCommand]:
    known = _constants(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args or not _starts_command(node.func):
            continue
        words = [_literal(argument, known) for argument in node.args]
        first = words[0]
        command = tuple(word for word in words if isinstance(word, str)) if _takes_words(node.func) else first
        if isinstance(first, tuple):
            command = first
        if command and first is not None:
            yield CodeCommand(node.lineno, node.end_lineno or node.lineno, command)


def _starts_command(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in _PYTHON_NAMES
    if not isinstance(function, ast.Attribute):
        return False
    module = function.value
    name = module.id if isinstance(module, ast.Name) else module.attr if isinstance(module, ast.Attribute) else ""
    return function.attr in _PYTHON.get(name, frozenset()) or (name == "sp" and function.attr in _PYTHON["subprocess"])


def _takes_words(function: ast.expr) -> bool:
    """Return True for functions that get a program and its arguments one by one."""
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("execl", "execlp", "create_subprocess_exec")


def _constants(tree: ast.Module) -> dict[str, str | tuple[str, ...]]:
    """Return the names that the file assigns exactly once, to literal text or a literal list of texts."""
    values: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else ()
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(node, ast.Assign):
                values.setdefault(target.id, []).append(node.value)
    literals = {name: _literal(items[0], {}) for name, items in values.items() if len(items) == 1}
    return {name: value for name, value in literals.items() if value is not None}


def _literal(node: ast.expr, known: dict[str, str | tuple[str, ...]]) -> str | tuple[str, ...] | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _literal(node.left, known), _literal(node.right, known)
        return left + right if isinstance(left, str) and isinstance(right, str) else None
    if isinstance(node, ast.List | ast.Tuple):
        words = [_literal(item, known) for item in node.elts]
        texts = tuple(word for word in words if isinstance(word, str))
        return texts if texts and len(texts) == len(words) else None
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "split"
        and not node.args
    ):
        text = _literal(node.func.value, known)
        return tuple(text.split()) if isinstance(text, str) else None
    return None


# Other languages --------------------------------------------------------------------------------------------------


def _calls(text: str, suffix: str) -> Iterator[CodeCommand]:
    """Yield the calls whose arguments are strings only, or strings in lists; others are not known."""
    for match in _CALL.finditer(text):
        start = text.rfind("\n", 0, match.start()) + 1
        if _COMMENT.match(text[start : match.start()]):
            continue
        words, end = _strings_from(text, match.end())
        if words:
            lines = text.count("\n", 0, match.start()) + 1, text.count("\n", 0, end) + 1
            yield CodeCommand(*lines, words[0] if len(words) == 1 else words)
    if suffix in (".rb", ".pl", ".pm", ".php", ".rake", ".gemspec"):
        for match in _BACKTICKS.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield CodeCommand(line, line, match[1] or match[2])


def _strings_from(text: str, start: int) -> tuple[tuple[str, ...], int]:
    """Return the string literals that follow one after another, with only commas and brackets between; and the end."""
    words: list[str] = []
    at, limit = start, min(len(text), start + _LONGEST_CALL)
    while at < limit:
        gap = re.compile(r"[\s,\[\]&{(]*(?:new\s+String\[\]\s*\{|vec!\[|args\s*:\s*)?[\s,\[\]&{(]*").match(text, at)
        at = gap.end() if gap else at
        string = _STRING.match(text, at)
        if string is None:
            chained = _CHAINED.match(text, at)
            if chained and words:
                at = chained.end()
                continue
            break
        words.append(_plain(next(part for part in string.groups() if part is not None)))
        at = string.end()
        if re.match(r"\s*[+.%]\s*[\w\"'(]", text[at : at + 20]) and not _CHAINED.match(text, at):
            return (), at  # joined with something that is not known
    return tuple(words), at


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", lambda escape: {"n": "\n", "t": "\t"}.get(escape[1], escape[1]), text)
