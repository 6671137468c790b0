"""Find checks that tox, nox, package scripts or make no longer run, or run less strictly."""

from __future__ import annotations

import ast
import configparser
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected.parts import make_steering
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering import commands, shell_scripts, versions
from reflectloop.verification.tampering.added import stood
from reflectloop.verification.tampering.commands import Command
from reflectloop.verification.tools.commands import script_name

_REFERENCE = lazy(r"\{\[([^\]]+)\]([\w-]+)\}")
_CONDITION = lazy(r"^([!\w{},.\- ]+?)\s*:\s+(\S.*)$")
_MAKE_VARIABLE = lazy(r"\$[({]([\w.-]+)[)}]|\{\{\s*([\w-]+)\s*\}\}")
_NAMED_LIKE_A_CHECK = lazy(r"(?i)(?:^|[-:_.])(?:tests?|check|lint|verify|typecheck|unit|spec)(?:$|[-:_.\d])")
_ENTRY_POINTS = frozenset({"test", "check"})  # what a project runs by this name
_PYTHON = lazy(r"3\.\d+|pypy[\d.-]*")
_DEPTH = 8


class Recipes(NamedTuple):
    """The checks that a file runs, by the name under which it runs them."""

    checks: Mapping[str, Sequence[Command]] = {}
    default: frozenset[str] = frozenset()  # the names that run without being asked for
    python: frozenset[str] = frozenset()  # names of versions

    def all(self) -> list[Command]:
        return [command for listed in self.checks.values() for command in listed]


def is_recipe(path: str) -> bool:
    """Return True if the commands of the file are compared here, not as settings."""
    return _reader(path) is not None


def look(changes: Sequence[ChangedFile], context: Mapping[str, bytes]) -> Iterator[TamperFinding]:
    """Compare the recipes of all changed files; `context` has the settings of base that the patch does not change."""
    relevant = [change for change in changes if is_recipe(change.path)]
    before = {change.path: read(change.path, change.before) for change in relevant}
    after = {change.path: read(change.path, change.after) for change in relevant}
    unchanged = [read(path, data) for path, data in context.items() if is_recipe(path)]
    remaining = [command for recipes in (*after.values(), *unchanged) if recipes for command in recipes.all()]
    removed = frozenset(change.path for change in changes if change.after is None)
    for change in relevant:
        old, new = before[change.path], after[change.path]
        if old is not None and new is not None:
            yield from _compared(change, old, new, remaining, removed)


def tools_run(changes: Sequence[ChangedFile], context: Mapping[str, bytes]) -> frozenset[str]:
    """Return the tools that recipes run after the patch."""
    contents = {**context, **{change.path: change.after for change in changes}}
    recipes = [read(path, data) for path, data in contents.items() if is_recipe(path)]
    return frozenset(command.program for each in recipes if each for command in each.all())


def _compared(
    change: ChangedFile, old: Recipes, new: Recipes, remaining: Sequence[Command], removed: frozenset[str]
) -> Iterator[TamperFinding]:
    losses = list(_losses(old, new, remaining))
    # A command that another name calls is listed under both names, and has become a weaker one under one of them.
    became = {loss.old.text for _, loss in losses if loss.new and loss.effect.grade == "weakening"}
    losses = [
        (name, loss) for name, loss in losses if loss.new or loss.old.text not in became or not new.checks.get(name)
    ]
    reported = set[str]()
    for name, loss in losses:
        # The same tool may be called in the same way under several names.
        identity = f"{loss.old.program} {loss.effect.why.rpartition('` ')[2] if loss.new else ''}"
        if identity not in reported and not any(f"`{path}`" in loss.effect.why for path in removed):
            reported.add(identity)
            yield _finding(change, loss, name)
            if change.after is None:
                return
    for name in _not_by_default(old, new, {name for name, _ in losses}):
        why = f"`{name}` no longer runs by default"
        yield TamperFinding("runner-narrowed", change.path, _line(change, name, name), why, "suspect")
    for name, command in _ignored(old, new):
        why = f"{name}: `{command.text[:80]}` may fail (`{command.lets_pass}`)"
        yield TamperFinding("runner-narrowed", change.path, _line(change, command.text, ""), why)
    for axis, lost_versions in versions.dropped({"Python": old.python}, {"Python": new.python}).items():
        if new.checks:
            why = f"no longer runs with {axis} {', '.join(lost_versions)}"
            yield TamperFinding("runner-narrowed", change.path, 1, why, "suspect")


def _losses(old: Recipes, new: Recipes, remaining: Sequence[Command]) -> Iterator[tuple[str, commands.LostCheck]]:
    """Yield the checks that are gone or check less, each with the name it ran under."""
    elsewhere = frozenset(command.program for command in remaining)
    for name, listed in old.checks.items():
        own = new.checks.get(name, ())
        entry = name in _ENTRY_POINTS and own
        losses = commands.lost(
            listed, own if entry else (*own, *remaining), elsewhere, () if entry else (*old.all(), *_others(new, name))
        )
        yield from ((name, loss) for loss in losses)


def _others(new: Recipes, name: str) -> list[Command]:
    """Return the commands under other names, which do not stand in the place of one under this name."""
    return [command for other, listed in new.checks.items() if other != name for command in listed]


def _not_by_default(old: Recipes, new: Recipes, reported: set[str]) -> Iterator[str]:
    run = {command.text for name in new.default for command in new.checks.get(name, ())}
    for name in sorted(old.default - new.default - reported):
        texts = {command.text for command in old.checks.get(name, ())}
        if texts and new.checks and not texts <= run:
            yield name


def _ignored(old: Recipes, new: Recipes) -> Iterator[tuple[str, Command]]:
    """Yield the new checks that may fail."""
    known = {command.program for command in old.all()}
    for name, listed in new.checks.items():
        for command in listed:
            if command.lets_pass and command.program not in known:
                known.add(command.program)
                yield name, command


def _finding(change: ChangedFile, loss: commands.LostCheck, name: str) -> TamperFinding:
    why = re.sub(r"adds `--only-in=(\S+)`", r"now runs in `\1`", loss.effect.why)
    why = re.sub(r"adds `--only-if=(\S+)`", r"now runs only if `\1`", why)
    loss = loss._replace(effect=loss.effect._replace(why=why))
    if change.after is None:
        what = f"the file was removed: {loss.effect.why}"
        return TamperFinding("runner-narrowed", change.path, None, what, loss.effect.grade)
    line = _line(change, loss.new.text if loss.new else "", loss.old.text)
    return TamperFinding("runner-narrowed", change.path, line, f"{name}: {loss.effect.why}", loss.effect.grade)


def _line(change: ChangedFile, new: str, old: str) -> int:
    after, before = ((data or b"").decode(errors="replace") for data in (change.after, change.before))
    if new and (number := _number(after, new)):
        return number
    if old and (number := _number(before, old)):
        return stood(change.before, change.after, number)
    return 1


def _number(text: str, wanted: str) -> int | None:
    words = re.findall(r"[\w./-]+", wanted)[:6]
    for count in range(len(words), 0, -1):
        pattern = r"[^\w./\n-]+".join(re.escape(word) for word in words[:count])
        if match := re.search(pattern, text):
            return text.count("\n", 0, match.start()) + 1
    return None


# Readers ----------------------------------------------------------------------------------------------------


def read(path: str, data: bytes | None) -> Recipes | None:
    """Return the recipes of a file: none if there is no file, None if it cannot be read."""
    reader = _reader(path)
    if data is None or reader is None:
        return Recipes()
    try:
        return reader(data.decode("utf-8-sig"))
    except (ValueError, TypeError, AttributeError, RecursionError, SyntaxError, configparser.Error):
        return None


def _reader(path: str) -> Callable[[str], Recipes] | None:
    name = path.rpartition("/")[2].lower()
    if re.fullmatch(r"(?:gnu)?makefile(?:\..*)?|.*\.mk|\.?justfile|.*\.just", name):
        return _make
    known: dict[str, Callable[[str], Recipes]] = {
        "tox.ini": _tox_ini,
        "setup.cfg": _tox_ini,
        "tox.toml": lambda text: _tox_toml(tomllib.loads(text)),
        "pyproject.toml": _pyproject,
        "noxfile.py": _nox,
        "package.json": _package,
    }
    return known.get(name)


def _checks(lines: Iterable[str], name: str = "") -> list[Command]:
    """Return the commands that are checks; under a name that says so, every command but preparations is one."""
    return [command for line in lines for command in _in_shell(line) if _counts(command, name)]


def _counts(command: Command, name: str) -> bool:
    named = _NAMED_LIKE_A_CHECK.search(name) is not None
    return commands.is_check(command) or (named and bool(command.program) and not commands.prepares(command))


def _in_shell(line: str) -> Iterator[Command]:
    """Yield the commands of a line with the condition and the folder in which they run as words.

    Its shell goes on after a failure, so that only the last of several commands counts.
    """
    firm = re.search(r"\bset\s+-\w*e|\$\$?\?", line) is not None
    for _, command, conditions, folder, sign in shell_scripts.read(line):
        names = ["--only-if=" + re.sub(r"\W+", "_", condition.text)[:40] for condition in conditions]
        words = (*command.words, *names, *([f"--only-in={folder}"] if folder != "." else []))
        lets_pass = command.lets_pass or ("" if firm or sign != ";" else ";")
        yield command._replace(words=words, lets_pass=lets_pass)


def _pyproject(text: str) -> Recipes:
    table = tomllib.loads(text).get("tool", {}).get("tox", {})
    return _tox_ini(table["legacy_tox_ini"]) if "legacy_tox_ini" in table else _tox_toml(table)


def _tox_ini(text: str) -> Recipes:
    reader = configparser.RawConfigParser(strict=False, allow_no_value=True)
    reader.read_string(text)
    sections = {
        name.removeprefix("tox:"): {key: value or "" for key, value in reader.items(name)} for name in reader.sections()
    }
    base = sections.get("testenv", {})
    own: dict[str, dict[str, str]] = {}
    for section, keys in sections.items():
        for name in versions.expanded(section.removeprefix("testenv:")) if section.startswith("testenv:") else ():
            own[name] = {**own.get(name, {}), **keys}
    settings = sections.get("tox", {})
    listed = versions.expanded(_resolved(settings.get("envlist", settings.get("env_list", "")), sections))
    return _tox(listed, own, lambda name: list(_tox_lines({**base, **own.get(name, {})}, name, sections)), bool(base))


def _tox_lines(keys: Mapping[str, str], name: str, sections: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for key in ("commands_pre", "commands", "commands_post"):
        for line in _resolved(keys.get(key, ""), sections).replace("\\\n", " ").splitlines():
            match = _CONDITION.match(line.strip())
            if match and not _applies(match[1], name):
                continue
            yield match[2] if match else line.strip()


def _resolved(text: str, sections: Mapping[str, Mapping[str, str]]) -> str:
    for _ in range(_DEPTH):
        text, count = _REFERENCE.subn(lambda match: sections.get(match[1], {}).get(match[2], ""), text)
        if not count:
            break
    return text


def _applies(condition: str, name: str) -> bool:
    own = set(name.split("-"))
    return any(
        all((factor.removeprefix("!") in own) != factor.startswith("!") for factor in each.split("-"))
        for each in versions.expanded(condition)
    )


def _tox_toml(document: Mapping[str, Any]) -> Recipes:
    base, own = document.get("env_run_base", {}), document.get("env", {})

    def lines(name: str) -> list[str]:
        keys = {**base, **own.get(name, {})}
        listed = [line for key in ("commands_pre", "commands", "commands_post") for line in keys.get(key, [])]
        return [_line_of_words(line, document) for line in listed]

    listed = [name for entry in document.get("env_list", []) for name in _toml_names(entry)]
    return _tox(listed, own, lines, bool(base))


def _toml_names(entry: object) -> list[str]:
    if isinstance(entry, str):
        return versions.expanded(entry)
    groups = entry.get("product", []) if isinstance(entry, dict) else []
    texts = ["{" + ",".join(str(word) for word in group) + "}" for group in groups if isinstance(group, list)]
    return versions.expanded("-".join(texts)) if texts else []


def _line_of_words(line: object, document: Mapping[str, Any]) -> str:
    if isinstance(line, str):
        return line
    if isinstance(line, dict):
        if line.get("replace") == "ref" and "of" in line:
            value: Any = document
            for key in line["of"]:
                value = value[key]
            return " && ".join(_line_of_words(each, document) for each in value)
        return " ".join(str(word) for word in line.get("default", []))
    if not isinstance(line, list):
        return ""
    plain = [
        shlex.quote(word) if isinstance(word, str) and "{" not in word else _line_of_words(word, document)
        for word in line
    ]
    return " ".join(plain)


def _tox(
    listed: Sequence[str], own: Mapping[str, object], lines: Callable[[str], Sequence[str]], has_base: bool
) -> Recipes:
    checks: dict[str, list[Command]] = {}
    for name in [*listed, *own, *([""] if has_base and not listed else [])]:
        label = versions.factors(name)[0] or "the tests"
        if commands.prepares(Command(label, label)):
            continue
        checks.setdefault(label, [])
        checks[label] += [command for command in _checks(lines(name)) if command not in checks[label]]
    default = frozenset(versions.factors(name)[0] or "the tests" for name in listed)
    # `py38` is given to `dropped` as 3.8; it knows how versions are written.
    python = frozenset(version for name in listed for version in versions.factors(name)[1])
    return Recipes({name: each for name, each in checks.items() if each}, default, python)


def _nox(text: str) -> Recipes:
    module = ast.parse(text)
    checks: dict[str, list[Command]] = {}
    left_out = set[str]()
    for definition in (node for node in module.body if isinstance(node, ast.FunctionDef)):
        lines = list(_nox_lines(definition.body))
        checks[definition.name] = _checks(lines)
        if any("default=False" in ast.unparse(decorator) for decorator in definition.decorator_list):
            left_out.add(definition.name)
    python = [node.value for node in ast.walk(module) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return Recipes(
        {name: each for name, each in checks.items() if each},
        frozenset(checks) - left_out,
        # Of versions that are computed none is known to be dropped.
        python=frozenset({"$computed"} if "python_versions(" in text else filter(_PYTHON.fullmatch, python)),
    )


def _nox_lines(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the commands of a session up to its end, those under a condition that nothing else answers marked so."""
    for statement in body:
        calls = [line for node in ast.walk(statement) if isinstance(node, ast.Call) for line in _nox_line(node)]
        asked = (
            re.sub(r"\W+", "_", ast.unparse(statement.test).replace("posargs", "given"))[:40]
            if isinstance(statement, ast.If)
            else ""
        )
        alone = isinstance(statement, ast.If) and not statement.orelse
        yield from (f"{line} --only-if={asked}" if alone else line for line in calls)
        if isinstance(statement, ast.Return | ast.Raise) or ast.unparse(statement).startswith("session.skip("):
            return


def _nox_word(word: ast.expr) -> str:
    """Return a word of a command: a value in braces if it is computed, but the session's own Python is `python`."""
    if isinstance(word, ast.Constant):
        return str(word.value)
    if isinstance(word, ast.JoinedStr) and ast.unparse(word)[2:-1] == "python{session.python}":
        return "python"
    return "{" + re.sub(r"\W+", "_", ast.unparse(word)).strip("_")[:40] + "}"


def _nox_line(node: ast.Call) -> Iterator[str]:
    if not (isinstance(node.func, ast.Attribute) and node.func.attr in {"run", "run_always"} and node.args):
        return
    words = list(map(_nox_word, node.args))
    codes = [ast.unparse(each.value) for each in node.keywords if each.arg == "success_codes"]
    ignored = any(re.search(r"[1-9]|range", code) for code in codes)
    tables = [each.value for each in node.keywords if each.arg == "env" and isinstance(each.value, ast.Dict)]
    variables = [
        f"{key.value}={shlex.quote(str(value.value))} "
        for table in tables
        for key, value in zip(table.keys, table.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(value, ast.Constant)
    ]
    yield (
        "".join(variables)
        + " ".join(word if word.startswith("{") else shlex.quote(word) for word in words)
        + (" || true" if ignored else "")
    )


def _package(text: str) -> Recipes:
    scripts = json.loads(text).get("scripts", {})
    plain = {str(name): str(line) for name, line in scripts.items()} if isinstance(scripts, dict) else {}
    return Recipes({name: each for name in plain if (each := _script(name, plain, 0))})


def _script(name: str, scripts: Mapping[str, str], depth: int) -> list[Command]:
    """Return the checks of a script, of the scripts it calls, and of those that run before and after it."""
    checks: list[Command] = []
    for part in (f"pre{name}", name, f"post{name}"):
        for command in _in_shell(scripts.get(part, "")):
            called = _called(command, scripts) if depth < _DEPTH else []
            for script in called:
                checks += _script(script, scripts, depth + 1)
            if not called:
                (checks if _counts(command, name) else []).append(command)
    return checks


def _called(command: Command, scripts: Mapping[str, str]) -> list[str]:
    argv = command.text.split()
    if argv and argv[0] in {"npm-run-all", "run-s", "run-p"}:
        patterns = [word for word in argv[1:] if not word.startswith("-")]
        return [
            name for name in scripts if any(commands.covers(pattern.replace(":*", ":**"), name) for pattern in patterns)
        ]
    name = script_name(argv)
    return [name] if name is not None and name in scripts else []


def _make(text: str) -> Recipes:
    steering = make_steering(text)
    variables = {
        key.removeprefix("variable "): str(value) for key, value in steering.items() if key.startswith("variable ")
    }
    targets: dict[str, Any] = {
        key.removeprefix("target "): value for key, value in steering.items() if key.startswith("target ")
    }
    return Recipes({name: each for name in targets if (each := _target(name, targets, variables, 0))})


def _target(name: str, targets: Mapping[str, Any], variables: Mapping[str, str], depth: int) -> list[Command]:
    needs, recipe = targets[name]
    checks = [
        check
        for need in needs
        if need in targets and depth < _DEPTH
        for check in _target(need, targets, variables, depth + 1)
    ]
    return checks + _checks([_with_variables(line, variables) for line in recipe], name)


def _with_variables(line: str, variables: Mapping[str, str]) -> str:
    for _ in range(_DEPTH):
        line, count = _MAKE_VARIABLE.subn(
            lambda match: variables.get(match[1] or match[2], match[0].replace("$", "§")), line
        )
        if not count:
            break
    return line.replace("§", "$")
