"""Find settings of runners, linters and builds that make them check less."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.terms import join_first
from reflectloop.verification.protected import guard, is_test
from reflectloop.verification.protected.parts import Part, beside, part
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering import recipes
from reflectloop.verification.tampering.added import code, stood
from reflectloop.verification.tampering.commands import Weakening, covers
from reflectloop.verification.tampering.effective_files import (
    is_list_of_ignored_paths,
    prefixed,
    table_of,
    tools_of,
    tools_set_up,
    with_inherited,
)
from reflectloop.verification.tampering.setting_effects import entries, judge, same
from reflectloop.verification.tools.registry import tools

# Configures how files are written or built, or belongs to an example.
_NO_CHECKS = lazy(
    r"(?:^|/)(?:examples?|website|site|docs?|demos?|benchmarks?|playground|templates)/|(?:^|/)(?:babel\.config\.[^/]*|\.babelrc[^/]*|\.editorconfig|\.prettierrc[^/]*|\.prettierignore|\.clang-format|\.?rustfmt\.toml|prettier\.config\.[^/]*)$"
)
_CODE = lazy(r"\.[cm]?[jt]sx?$")
_WRITTEN = frozenset({"command", "block", "plugin", "line"})
_TOKEN = lazy(r"\w+|[^\w\s]")
# Compared by recipes; of a makefile only what affects every target is a setting.
_RECIPE_KEYS = lazy(
    r"testenv.*\.commands(?:_pre|_post)?|(?:tox|env|env_run_base)\..*commands\w*|(?:tox\.)?(?:envlist|env_list)|tox\.legacy_tox_ini|"
    r"scripts\.(?!(?:pre|post)|install$).*|target .*|"
    r"variable (?!SHELL$|\.SHELLFLAGS$|MAKEFLAGS$|PATH$|BASH_ENV$|ENV$|PYTEST_ADDOPTS$|PYTHONPATH$).*"
)
_RULES = {"runner": "runner-narrowed", "lint": "lint-loosened"}
_LABELS = ("module", "files", "path", "name", "id", "text", "linters")
_MEASURES = frozenset({"coverage", "nyc", "c8"})
_LOADS = lazy(r"module\.exports\s*=\s*[\w$]|export\s+default\s+[\w$]|export\s+\*|\brequire\(")
_LABELLED = lazy(r"\w+\[([^\]]+)\]\.")  # an entry of a list of tables, by its name or path
_ASSIGNED = lazy(r"^([\w@./-]+)\s*[=:]\s*(\S.*)$")
_SHOWN = 4
_SEVERAL = 3  # settings of one tool that are gone; more are named together


class SettingsFile(NamedTuple):
    """The settings of one changed file before and after the patch."""

    change: ChangedFile
    before: Part
    after: Part


class Patch(NamedTuple):
    """The settings of all changed files, and what else of base is known."""

    files: Sequence[SettingsFile]
    unchanged: Mapping[str, Part]
    tests: Sequence[str]
    fresh: frozenset[str]  # paths of new files
    removed: frozenset[str]


def look(changes: Sequence[ChangedFile], context: Mapping[str, bytes]) -> Iterator[TamperFinding]:
    """Compare settings; `context` has the tests and settings of base that the patch does not change."""
    relevant = [change for change in changes if _concerns(change.path)]
    files = []
    for change in relevant:
        before, after = settings(change.path, change.before), settings(change.path, change.after)
        if after is None and (change.before is None or before is not None):
            yield TamperFinding(
                "config-unreadable", change.path, 1, "the part that controls checks can no longer be read"
            )
        elif after is not None:
            files.append(SettingsFile(change, before or {}, after))
    unchanged = {path: settings(path, data) or {} for path, data in context.items() if _concerns(path)}
    files = [_compared_with_above(file, files, unchanged) for file in files]
    tests = [path for path in context if is_test(path)] + [change.path for change in changes if is_test(change.path)]
    fresh = frozenset(change.path for change in changes if change.before is None)
    removed = frozenset(change.path for change in changes if change.after is None)
    for file in files:
        yield from _compared(file, Patch(files, unchanged, tests, fresh, removed))


def _compared_with_above(
    file: SettingsFile, files: Sequence[SettingsFile], unchanged: Mapping[str, Part]
) -> SettingsFile:
    """Return a new file with the settings that applied in its folder before, where the linter reads the nearest."""
    if file.change.before is not None or file.change.after is None:
        return file
    others = {**unchanged, **{other.change.path: other.before for other in files if other.before}}
    both = with_inherited(file.change.path, file.after, others)
    return file._replace(before=both[0], after=both[1]) if both else file


def _concerns(path: str) -> bool:
    protection = guard(path)
    return protection is not None and protection.kind in _RULES and not path.endswith("noxfile.py")


def settings(path: str, data: bytes | None) -> Part | None:
    """Return the settings of a file by dotted key, or None if it cannot be read."""
    if data is not None and is_list_of_ignored_paths(path):
        rows = (row.strip() for row in data.decode(errors="replace").splitlines())
        return {row: True for row in rows if row and not row.startswith("#")}
    if data is not None and _CODE.search(path) and not path.endswith(".d.ts"):
        found_settings = read_javascript(code(path, data))
        if not found_settings and _LOADS.search(code(path, data)):
            return None
        return {key: value for key, value in found_settings.items() if not _is_bundler(path) or key.startswith("test.")}
    read = part(path, data)
    return None if read is None else {**dict(_named(read)), **beside(path, data)}


def _is_bundler(path: str) -> bool:
    protection = guard(path)
    return protection is not None and protection.mixed


def _named(read: Part) -> Iterator[tuple[str, object]]:
    """Yield the settings, each table of a list under a name of its own, and mypy's as an ini file names them."""
    for written, value in read.items():
        assigned = _ASSIGNED.match(written) if str(value).isdecimal() else None
        if assigned:  # a line of a file that is read line by line
            yield assigned[1], assigned[2]
            continue
        key = _spelled(written)
        tables = isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
        if not isinstance(value, list) or not tables or "exclu" in key:
            yield key, value
            continue
        for item in value:
            labels = next((item[label] for label in _LABELS if label in item), "")
            for label in entries(labels) if key == "mypy.overrides" else (", ".join(entries(labels)),):
                prefix = f"mypy-{label}" if key == "mypy.overrides" else f"{key}[{label}]"
                for name, inner in item.items():
                    if name not in _LABELS:
                        yield from _leaves(f"{prefix}.{name}", inner)


def _spelled(key: str) -> str:
    """Return the key as its tool writes it today, without spaces beside brackets."""
    if key.startswith("command "):
        return re.sub(r"(?<=\()\s+|\s+(?=\))", "", key)
    if not key.startswith(("ruff.", "flake8.")):
        return key
    table, _, rest = key.replace("ruff.lint.", "ruff.").partition(".")
    name, dot, more = rest.partition(".")
    return f"{table}.{name.replace('_', '-')}{dot}{more}"


def _leaves(prefix: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves(f"{prefix}.{key}", inner)
    else:
        yield prefix, value


def _compared(file: SettingsFile, patch: Patch) -> Iterator[TamperFinding]:
    change = file.change
    protection = guard(change.path)
    if protection is None or _NO_CHECKS.search(change.path):
        return
    rule = _RULES[protection.kind]
    if shadowed := _takes_the_place(file, patch):
        what = f"takes the place of the settings in {shadowed}"
        yield TamperFinding("config-added", change.path, 1, what, "suspect")
    losses = list(_losses(file, patch))
    if change.after is None and losses:
        names = ", ".join(dict.fromkeys(key for key, _ in losses[:_SHOWN]))
        more = f" and {len(losses) - _SHOWN} more" if len(losses) > _SHOWN else ""
        what = f"the file was removed, and with it `{names}`{more}"
        yield TamperFinding(rule, change.path, None, what, losses[0][1].grade)
        return
    for keys, effect in _together(losses, file):
        what = effect.why if is_list_of_ignored_paths(change.path) else f"{join_first(keys, _SHOWN)} {effect.why}"
        yield TamperFinding(rule, change.path, _line(change, keys[0]), what, effect.grade)


def _together(losses: Sequence[tuple[str, Weakening]], file: SettingsFile) -> Iterator[tuple[list[str], Weakening]]:
    """Yield the losses; settings of a tool that are all gone at once are one loss."""
    gone: dict[str, list[str]] = {}
    for key, _ in losses:
        if key not in file.after and not any(table_of(other) == table_of(key) for other in file.after):
            gone.setdefault(table_of(key), []).append(key)
    reported = set[str]()
    alike: dict[tuple[str, str], list[str]] = {}
    for key, effect in losses:
        alike.setdefault((key.rpartition("rules.")[0], _without_former(effect.why)), []).append(key)
    for key, effect in losses:
        table = table_of(key)
        same = alike[key.rpartition("rules.")[0], _without_former(effect.why)]
        if "rules." in key and len(same) >= _SEVERAL:
            if key == same[0]:
                yield same, effect._replace(why=_without_former(effect.why))
        elif len(gone.get(table, ())) < _SEVERAL or key not in gone[table]:
            yield [key], effect
        elif table not in reported:
            reported.add(table)
            yield gone[table], Weakening("and all other settings of the tool are gone", effect.grade)


def _without_former(why: str) -> str:
    return why.partition(", and was")[0]


def _takes_the_place(file: SettingsFile, patch: Patch) -> str | None:
    """Return the file whose settings a new one hides: of one tool only one file is read."""
    if file.change.before is not None or file.change.after is None:  # an empty file takes the place, too
        return None
    folder = file.change.path.rpartition("/")[0]
    own = set(tools_of(file.change.path))
    others = {
        **patch.unchanged,
        **{other.change.path: other.after for other in patch.files if other.change.before is not None},
    }
    protection = guard(file.change.path)
    if protection is None or protection.mixed or is_list_of_ignored_paths(file.change.path):
        return None
    for path, part_of_it in others.items():
        shared = own & ({table_of(key) for key in part_of_it} if prefixed(path) else set(tools_of(path)))
        if path.rpartition("/")[0] == folder and shared and part_of_it and not is_list_of_ignored_paths(path):
            return path
    return None


def _losses(file: SettingsFile, patch: Patch) -> Iterator[tuple[str, Weakening]]:
    path = file.change.path
    everything = [*(other.before for other in patch.files), *patch.unchanged.values()]
    configured = {table_of(key) for each in everything for key in each}
    changed = {other.change.path: other.before for other in patch.files if other.change.before is not None}
    # Each file of a bundler is a project of its own.
    others = {} if _is_bundler(path) else {**patch.unchanged, **{key: part for key, part in changed.items() if part}}
    known = {name for other, part_of_it in others.items() for name in tools_set_up(other, part_of_it)}
    first = file.change.before is None and not set(tools_of(path)) & known
    for key in sorted(file.before.keys() | file.after.keys()):
        fresh_makefile = file.change.before is None and key.startswith(("line ", "variable "))
        if key.startswith(("$", "__")) or fresh_makefile or _about_new_file(key, path, patch.fresh):
            continue
        if key in file.before and key in file.after and same(key, file.before[key], file.after[key]):
            continue
        if (recipes.is_recipe(path) and _RECIPE_KEYS.fullmatch(key)) or _moved_in(key, file, patch.files):
            continue
        after = dict(file.after)
        _add_moved(key, after, file, patch)
        new_tool = first and _only_checks(path) if tools_of(path) else table_of(key) not in configured
        effect = _effect(
            path, key, _without(patch.removed, key, file.before), _without(patch.fresh, key, after), patch.tests
        )
        if effect and (not new_tool or _runs_tests(path, key)):
            yield key, effect


def _about_new_file(key: str, path: str, fresh: frozenset[str]) -> bool:
    """Return True for a setting of one target whose source is new: it was not checked before."""
    named = _LABELLED.match(key)
    return named is not None and f"{path.rpartition('/')[0]}/{named[1]}".strip("/") in fresh


def _without(paths: frozenset[str], key: str, listed: Part) -> Part:
    """Return the settings without these paths in a list: a new file was not checked before, a removed one cannot be."""
    value = listed.get(key)
    if not isinstance(value, list):
        return listed
    folders = {path.rpartition("/")[0] for path in paths if path.endswith(("/Cargo.toml", "/package.json"))}
    return {**listed, key: [item for item in value if not (isinstance(item, str) and item in paths | folders)]}


def _only_checks(path: str) -> bool:
    """Return True if the file belongs to a linter, a type checker or a tool that measures coverage."""
    return all(
        tool.kind in {"lint", "type"} or tool.name in _MEASURES for tool in tools() if tool.name in tools_of(path)
    )


def _moved_in(key: str, file: SettingsFile, files: Sequence[SettingsFile]) -> bool:
    """Return True if the setting comes from another file, where the two values are compared."""
    return key not in file.before and any(key in other.before and key not in other.after for other in files)


def _add_moved(key: str, after: dict[str, object], file: SettingsFile, patch: Patch) -> None:
    """Put in the value that the setting has in another file, with the other settings of its tool."""
    if key in file.after:
        return
    table = table_of(key)
    left = any(table_of(name) == table for name in file.after)
    for other in patch.files:
        gained = key in other.after and key not in other.before
        whole = not left and any(table_of(name) == table and name not in other.before for name in other.after)
        if other is not file and (gained or whole):
            after.update({name: value for name, value in other.after.items() if table_of(name) == table})
    folder = file.change.path.rpartition("/")[0]
    for path, part_of_it in patch.unchanged.items():
        if key not in after and key in part_of_it and path.rpartition("/")[0] == folder:
            after[key] = part_of_it[key]


def _runs_tests(path: str, key: str) -> bool:
    if key.startswith(("variable ", "line ")) or (
        (prefixed(path) or not tools_of(path)) and table_of(key) in _test_tables()
    ):
        return True
    return any(name in _test_tools() for name in tools_of(path)) or _is_build(path)


@cache
def _test_tools() -> frozenset[str]:
    return frozenset(tool.name for tool in tools() if tool.kind == "test" and tool.name not in {"tox", "nox"})


@cache
def _test_tables() -> frozenset[str]:
    known = [tool for tool in tools() if tool.name in _test_tools()]
    named = [
        table
        for tool in known
        for table in f"{tool.files.package_keys} {tool.files.pyproject}".split()
        if "*" not in table
    ]
    return frozenset([*named, "entry", "commands", "build", "bin", "scripts"])


def _is_build(path: str) -> bool:
    protection = guard(path)
    return (
        protection is not None
        and protection.kind == "runner"
        and protection.mixed
        and not prefixed(path)
        and not recipes.is_recipe(path)
    )


def _effect(path: str, key: str, before: Part, after: Part, tests: Sequence[str]) -> Weakening | None:
    if is_list_of_ignored_paths(path):
        added = key not in before and not key.startswith("!")
        effect = judge("ignore", {}, {"ignore": key}, strange=False) if added else None
    elif _is_build(path) and not _CODE.search(path) and not path.endswith(".json"):
        effect = judge(key, before, after, strange=True)
        effect = Weakening(effect.why) if effect else None
    else:
        effect = judge(key, before, after, strange=_runs_tests(path, key))
    return None if effect and tests and _takes_all(key, after.get(key), path, tests) else effect


def _takes_all(key: str, value: object, path: str, tests: Sequence[str]) -> bool:
    """Return True if a list of folders or of names of files takes in every test that is known."""
    name, folder = key.rpartition(".")[2], path.rpartition("/")[0]
    wanted = [test.removeprefix(f"{folder}/") for test in tests if not folder or test.startswith(f"{folder}/")]
    wanted = [test for test in wanted if test.endswith(".py")]
    words = [word for entry in entries(value) for word in entry.split()]
    if name == "testpaths":
        return bool(words) and all(any(covers(word, test) for word in words) for test in wanted)
    if name == "python_files":
        return bool(words) and all(any(fnmatch(test.rpartition("/")[2], word) for word in words) for test in wanted)
    if name == "norecursedirs":
        return not any(fnmatch(part_of, word) for test in wanted for part_of in test.split("/")[:-1] for word in words)
    return False


# Places -----------------------------------------------------------------------------------------------------


def _line(change: ChangedFile, key: str) -> int:
    """Return the line of the new version that most likely has the setting, or its former position."""
    for spelled in _spellings(key):
        pattern = re.compile(spelled, re.IGNORECASE)
        if match := pattern.search(_text(change.after)):
            return _text(change.after).count("\n", 0, match.start()) + 1
        if match := pattern.search(_text(change.before)):
            number = _text(change.before).count("\n", 0, match.start()) + 1
            return stood(change.before, change.after, number)
    return 1


def _spellings(key: str) -> Iterator[str]:
    """Yield patterns for a command as written and for its beginning, or else for the last word of a key."""
    kind, _, rest = key.partition(" ")
    if kind in _WRITTEN:
        tokens = [re.escape(token) for token in _TOKEN.findall(rest.partition(" if ")[0][:300])]
        yield r"\s*".join(tokens)
        yield r"\s*".join(tokens[:4])
    word = rest if kind in {"target", "variable"} else key.rpartition(".")[2]
    if word:
        spelled = re.escape(word).replace(r"\-", "[-_]")
        yield rf"(?<![\w-]){spelled}(?![\w-])"
        yield spelled


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")


# Settings written as JavaScript -----------------------------------------------------------------------------

_JS_TOKEN = lazy(
    r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)|(\.\.\.|=>|[\w$@./-]+)|([^\s])""", re.DOTALL
)


_IGNORES = lazy(r"[\w$.]*[iI]gnores")  # a call of eslint with paths that are left out
_PROPERTY = lazy(r"(?!module\.exports$|exports\.)[\w$]+\.[\w$.]+")


def read_javascript(text: str) -> Part:
    """Return the settings of the object literals in a file of JavaScript, by dotted key."""
    tokens = [match[0] for match in _JS_TOKEN.finditer(text)]
    found_settings: dict[str, object] = {}
    at = 0
    while at < len(tokens):
        if tokens[at] in {"import", "export"} and tokens[at + 1 : at + 2] == ["{"]:
            at = _after_bracket(tokens, at + 1)
        elif _IGNORES.fullmatch(tokens[at]) and tokens[at + 1 : at + 3] == ["(", "["]:
            found_settings["ignores"], at = _js_list(tokens, at + 3)
        elif tokens[at] == "{" and _is_object(tokens, at):
            value, at = _js_value(tokens, at)
            found_settings.update(_js_leaves("", value))
        elif tokens[at + 1 : at + 2] == ["="] and _PROPERTY.fullmatch(tokens[at]) and at + 2 < len(tokens):
            name = tokens[at].partition(".")[2]
            value, at = _js_value(tokens, at + 2)
            found_settings.update(_js_leaves(name, value))
        else:
            at += 1
    return found_settings


def _is_object(tokens: Sequence[str], at: int) -> bool:
    return tokens[at + 2 : at + 3] == [":"] or tokens[at + 1 : at + 2] == ["..."] or tokens[at + 1 : at + 2] == ["}"]


def _after_bracket(tokens: Sequence[str], at: int) -> int:
    depth = 0
    while at < len(tokens):
        depth += (tokens[at] in {"{", "[", "("}) - (tokens[at] in {"}", "]", ")"})
        at += 1
        if depth == 0:
            break
    return at


def _js_value(tokens: Sequence[str], at: int) -> tuple[object, int]:
    """Return the value that begins at a token, and the position behind it."""
    if tokens[at] == "{" and _is_object(tokens, at):
        return _js_object(tokens, at + 1)
    if tokens[at] == "[":
        return _js_list(tokens, at + 1)
    begins, depth = at, 0
    nested: list[object] = []
    while at < len(tokens) and not (depth == 0 and tokens[at] in {",", "}", "]", ";"}):
        if tokens[at] == "{" and _is_object(tokens, at):
            inner, at = _js_object(tokens, at + 1)
            nested.append(inner)
            continue
        depth += (tokens[at] in {"(", "{", "["}) - (tokens[at] in {")", "}", "]"})
        if depth < 0:
            break
        at += 1
    words = tokens[begins:at]
    if len(nested) == 1 and "(" in words:
        return nested[0], at
    return words[0].strip("\"'`") if len(words) == 1 else " ".join(words), max(at, begins + 1)


def _js_object(tokens: Sequence[str], at: int) -> tuple[object, int]:
    table: dict[str, object] = {}
    while at < len(tokens) and tokens[at] != "}":
        if tokens[at + 1 : at + 2] == [":"] and at + 2 < len(tokens):
            key = tokens[at].strip("\"'`")
            table[key], at = _js_value(tokens, at + 2)
        else:
            name, at = _js_value(tokens, at)
            table.setdefault("...", [])
            listed = table["..."]
            if isinstance(listed, list) and name:
                listed.append(name)
        at += at < len(tokens) and tokens[at] in {",", ";"}
    return table, at + 1


def _js_list(tokens: Sequence[str], at: int) -> tuple[object, int]:
    items: list[object] = []
    while at < len(tokens) and tokens[at] != "]":
        if tokens[at] in {",", ";", "}"}:
            at += 1
            continue
        item, at = _js_value(tokens, at)
        items.append(item)
    return items, at + 1


def _js_leaves(prefix: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        label = f"[{', '.join(entries(value['files']))}]" if "rules" in value and "files" in value else ""
        for key, inner in value.items():
            yield from _js_leaves(f"{prefix}{label}.{key}" if prefix or label else key, inner)
    elif (
        isinstance(value, list) and any(isinstance(item, dict) for item in value) and not prefix.rpartition("rules.")[1]
    ):
        for item in value:
            yield from _js_leaves(prefix, item)
    else:
        yield prefix, value
