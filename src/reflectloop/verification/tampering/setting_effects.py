"""Say in which direction a setting is stricter, and whether its new value checks less; values count, not spelling."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.tampering import commands
from reflectloop.verification.tampering.commands import Weakening, covers
from reflectloop.verification.tampering.warning_filters import effective
from reflectloop.verification.tools.record import SettingRule
from reflectloop.verification.tools.registry import tools

Words = tuple[str, ...]
Settings = Mapping[str, object]


class Setting(NamedTuple):
    """A setting that changed, among all settings before and after."""

    key: str
    old: object
    new: object
    before: Settings
    after: Settings


Judge = Callable[[Setting], Weakening | None]  # returns why the setting checks less, or None


_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_OFF = frozenset({"off", "0", "none", "allow", "false"})
_MILD = frozenset({"warn", "1", "warning", "info", "suggestion", "information", "hint"})
# Folders that nobody wants to have checked.
_BUILT = lazy(
    r"(?:^|/)(?:\.?venv|env|build|dist|node_modules|\.tox|\.nox|\.git|\.eggs|__pycache__|_build|coverage|\.cache|site-packages|"
    r"third_party|builtin|_?vendor(?:ed)?|tmp|out|generated|\.next|\.\w+_cache)(?:/|$|\*|\$)|_version\.py$|\.min\.js$|\.pyc$|lock\.json$"
)
_CODES = lazy(r"[\w-]+(?:,\s*[\w-]+)*,?")
# Lines that no test can reach, or that coverage leaves out anyway.
_UNREACHABLE = lazy(
    r"pragma|TYPE_CHECKING|"
    r"NotImplemented|__main__|\.\.\.|overload|abstract|assert_never|__repr__|\\\.\{3\}|Protocol|if 0|"
    r"if False|\^\\s\*(?:pass|raise)"
)
_WIDE = lazy(r"\||\.[*+]|\[\^|^.{60}")
_CODE = lazy(r"^[A-Z]{1,6}\d*$")
_DEFAULT_CODES = {"ruff": ("E4", "E7", "E9", "F"), "flake8": ("E", "F", "W", "C90")}
_CHECKING = lazy(r"lint|test|check|types?\b|audit|format|build|coverage")
_SOURCE_FOLDERS = (".", "src", "lib", "tests", "test", "source", "python")
_DEFAULT_NAMES = {
    "python_files": ("test_*.py", "*_test.py"),
    "python_classes": ("Test",),
    "python_functions": ("test",),
}
_STRICT_FLAGS = (
    ("--strict-markers", "strict_markers"),
    ("--strict-config", "strict_config"),
    ("--strict", "strict_markers"),
)
_ON_BY_DEFAULT = frozenset({"warn_no_return", "strict_optional", "esModuleInterop"})


def entries(value: object) -> Words:
    """Return a value as a tuple of words, whether it is a list, lines, or comma-separated."""
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return tuple(str(item).strip() for item in value)
    if isinstance(value, bool):
        return (str(value).lower(),)
    text = str(value)
    lines = [line.partition(" #")[0].strip() for line in text.splitlines() if not line.strip().startswith("#")]
    parts = lines if len(lines) > 1 else re.split(r"[,\s]+", text)
    return tuple(part.strip().strip("\"'").rstrip(",") for part in parts if part.strip())


def plain(value: object) -> object:
    """Return a value without what has no meaning: spelling of booleans, quotes, order, final slashes."""
    if isinstance(value, str | int | float) and str(value).strip().lower() in _TRUE | _FALSE:
        return truth(value)
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return sorted((plain(item) for item in value), key=repr)
    if (as_number := number(value)) is not None:
        return as_number
    return sorted(word.strip("\"'").removeprefix("./").rstrip("/,;") for word in entries(value))


def same(key: str, old: object, new: object) -> bool:
    """Return True if two values of a setting mean the same; of filters the last one counts, so their order matters."""
    ordered = key.endswith("filterwarnings")
    return plain(old) == plain(new) and not (ordered and entries(old) != entries(new))


def truth(value: object) -> bool:
    return str(value).strip().lower() in _TRUE


def number(value: object) -> float | None:
    match = re.fullmatch(r"-?\d{1,15}(?:\.\d{1,15})?", str(value).strip().rstrip("%"))
    return float(match[0]) if match else None


def _words(value: object) -> Words:
    """Return the words of a list of codes or paths, which may stand on one line or on several."""
    if isinstance(value, list | tuple):
        found_words = [_compact(item) for item in value]
    else:
        found_words = [
            word for entry in entries(value) for word in (entry.split(",") if _CODES.fullmatch(entry) else [entry])
        ]
    return tuple(word.strip().strip("\"'").removeprefix("./").rstrip("/") for word in found_words if word.strip())


def _compact(item: object) -> str:
    if isinstance(item, Mapping):
        return ", ".join(f"{key}: {_compact(value)}" for key, value in item.items())
    return ", ".join(_compact(each) for each in item) if isinstance(item, list) else str(item)


def _harmless(_: Setting) -> Weakening | None:
    return None


def _strict_when_true(setting: Setting) -> Weakening | None:
    if isinstance(setting.old, list):  # names what is checked strictly
        return _including(setting) or (Weakening("was removed") if setting.old and not setting.new else None)
    if truth(setting.new):
        return None
    name = setting.key.rpartition(".")[2]
    table = setting.key.rpartition(".")[0].partition("-")[0]
    on_anyway = (
        truth(setting.after.get(f"{table}.strict"))
        or truth(setting.after.get(f"{table}.{name}"))
        or name in _ON_BY_DEFAULT
    )
    if setting.new is None:
        switched_on = (truth(setting.after.get(f"{table}.strict")) and name != "strict") or name in _ON_BY_DEFAULT
        return Weakening("is no longer on") if truth(setting.old) and not switched_on else None
    return Weakening("is switched off") if truth(setting.old) or (setting.old is None and on_anyway) else None


def _loose_when_true(setting: Setting) -> Weakening | None:
    return Weakening("is switched on") if truth(setting.new) and not truth(setting.old) else None


def _follow_imports(setting: Setting) -> Weakening | None:
    loose = str(setting.new) in {"skip", "silent"} and str(setting.old) not in {"skip", str(setting.new)}
    return Weakening(f"is `{setting.new}` now", "suspect") if loose else None


_MODES = ("off", "basic", "standard", "recommended", "strict", "all")  # of type checkers, from loose to strict


def _mode(setting: Setting) -> Weakening | None:
    was, now = (str(value or "standard") for value in (setting.old, setting.new))
    if was not in _MODES or now not in _MODES:
        return _unknown(setting)
    return Weakening(f"is `{now}`, and was `{was}`") if _MODES.index(now) < _MODES.index(was) else None


def _threshold(setting: Setting) -> Weakening | None:
    was, now = number(setting.old), number(setting.new)
    if was is None:
        return None
    return (
        Weakening(f"is lower: `{setting.new}`, and was `{setting.old}`" if now is not None else "was removed")
        if now is None or now < was
        else None
    )


def _limit(setting: Setting) -> Weakening | None:
    was, now = number(setting.old), number(setting.new)
    if was is None:
        loose = now is not None and setting.key.startswith("pylint.")
        return (
            Weakening(f"is set to `{setting.new}`, which may be above the tool's own bound", "suspect")
            if loose
            else None
        )
    if now is None:
        return Weakening("was removed")
    return Weakening(f"is higher: `{setting.new}`, and was `{setting.old}`") if now > was else None


def _excluding(setting: Setting) -> Weakening | None:
    if isinstance(setting.new, bool) or str(setting.new).lower() in _TRUE | _FALSE:
        return None  # a switch of that name
    by_line = setting.key.endswith(("exclude_lines", "exclude_also", "partial_branches"))
    known, words = (_lines(value) if by_line else _words(value) for value in (setting.old, setting.new))
    if "per-file-ignores" in setting.key:
        known, words = _codes_by_file(setting, known), _codes_by_file(setting._replace(before={}), words)
    words = tuple(word for word in words if not (by_line and _UNREACHABLE.search(word) and not _WIDE.search(word)))
    added = [word for word in words if not any(_covers(other, word) for other in known)]
    added = [word for word in added if not _BUILT.search(word.replace("\\", "")) and _was_checked(setting, word)]
    return (
        Weakening(f"now leaves out `{added[0][:60]}`" + (f" and {len(added) - 1} more" if added[1:] else ""))
        if added
        else None
    )


def _codes_by_file(setting: Setting, listed: Words) -> Words:
    """Return the codes; for a pattern that moved, those that were left out under its former name."""
    table, _, name = setting.key.partition(".per-file-ignores")
    if not name:  # lines of `pattern: code, code`; a file that moved keeps its name
        pairs = [(head.rpartition("/")[2], rest) for head, _, rest in (line.rpartition(":") for line in listed)]
        return tuple(f"{head}:{code.strip()}" for head, rest in pairs for code in rest.split(",") if code.strip())
    prefix = f"{table}.per-file-ignores."
    moved = [value for key, value in setting.before.items() if key.startswith(prefix) and key not in setting.after]
    return (*listed, *(word for value in moved for word in _words(value)))


def _covers(pattern: str, word: str) -> bool:
    if _CODE.match(pattern) and _CODE.match(word):
        return _contains_code(pattern, word)
    return covers(pattern, word)


def _contains_code(group: str, code: str) -> bool:
    """Return True if a group of rules has the code: `E5` has `E501`, but `D` does not have `DTZ001`."""
    letters, inner = (text.rstrip("0123456789") for text in (group, code))
    return (letters == inner and code.startswith(group)) or (group == "PL" and code.startswith("PL"))


def _was_checked(setting: Setting, code: str) -> bool:
    """Return True unless the code belongs to a rule that the linter was not told to apply before."""
    table, code = setting.key.partition(".")[0], code.rpartition(":")[2].strip()
    if table not in _DEFAULT_CODES or not _CODE.match(code) or code == "ALL":
        return True
    chosen = [word for name in ("select", "extend-select") for word in _words(setting.before.get(f"{table}.{name}"))]
    if not setting.before.get(f"{table}.select"):
        chosen += _DEFAULT_CODES[table]
    ignored = [word for name in ("ignore", "extend-ignore") for word in _words(setting.before.get(f"{table}.{name}"))]
    selected = any(word == "ALL" or _contains_code(word, code) or _contains_code(code, word) for word in chosen)
    return selected and not any(_contains_code(word, code) for word in ignored)


def _including(setting: Setting) -> Weakening | None:
    was, now = _words(setting.old), _words(setting.new)
    lost = [word for word in was if not any(covers(other, word) for other in now)]
    if lost and not now and setting.key.startswith(("mypy.", "coverage.")):
        return Weakening("no longer names what to include", "suspect")
    return Weakening(f"no longer includes `{lost[0][:60]}`") if lost and now else None


def _including_all(setting: Setting) -> Weakening | None:
    """Judge a list without which everything is included."""
    default = _DEFAULT_NAMES.get(setting.key.rpartition(".")[2])
    if default and (setting.old is None or setting.new is None):
        return _including(setting._replace(old=setting.old or default, new=setting.new or default))
    table, _, name = setting.key.rpartition(".")
    if name == "files" and f"{table}.include".lstrip(".") in setting.before:
        return None  # compared together with `include`
    setting = _with_files(setting)
    if not _words(setting.old) and (now := _words(setting.new)) and now != (".",):
        return Weakening(f"now includes only `{', '.join(now)[:60]}`", "suspect")
    return _including(setting)


_BESIDE_EACH_OTHER = {"include": "files", "files": "include"}


def _with_files(setting: Setting) -> Setting:
    """Return the setting with what `include` and `files`, which add to each other, name together."""
    table, dot, name = setting.key.rpartition(".")
    other = f"{table}{dot}{_BESIDE_EACH_OTHER.get(name, '')}"
    old, new = (
        [*_words(value), *_words(side.get(other))]
        for value, side in ((setting.old, setting.before), (setting.new, setting.after))
    )
    return setting._replace(old=old, new=new) if other in setting.before or other in setting.after else setting


def _members(setting: Setting) -> Weakening | None:
    """Judge the parts of a workspace that run by default; without a list of them all do."""
    table = setting.key.rpartition(".")[0]
    was, now = (
        _words(value) or _words(side.get(f"{table}.members"))
        for value, side in ((setting.old, setting.before), (setting.new, setting.after))
    )
    return _including(setting._replace(old=was, new=now))


def _selecting(setting: Setting) -> Weakening | None:
    now = _words(setting.new)
    table, _, name = setting.key.rpartition(".")
    now = (
        *now,
        *_words(setting.after.get(f"{table}.extend-{name}")),
        *_words(setting.after.get(f"{table}.{name.removeprefix('extend-')}")),
    )
    if setting.new is None and name == "select":
        now = (*now, *_DEFAULT_CODES.get(table, ()))
    lost = [
        word for word in _words(setting.old) if "ALL" not in now and not any(_includes(other, word) for other in now)
    ]
    if setting.new is None and name == "extends":
        return Weakening("was removed")
    return (
        Weakening(f"no longer has `{lost[0][:60]}`" + (f" and {len(lost) - 1} more" if lost[1:] else ""))
        if lost
        else None
    )


def _includes(chosen: str, word: str) -> bool:
    """Return True if a set of rules contains another: `recommendedTypeChecked` has all of `recommended`."""
    return _covers(chosen, word) or (not _CODE.match(word) and chosen.startswith(word))


def _filters(setting: Setting) -> Weakening | None:
    was, now = (
        effective([entry.replace("\\", "") for entry in entries(value)]) for value in (setting.old, setting.new)
    )
    removed = [entry for entry in was if entry not in now and entry.startswith("error")]
    if removed and not any(entry == "error" for entry in now):
        return Weakening(f"no longer turns warnings into failures: `{removed[0][:60]}`")
    fails = any(entry.startswith("error") for entry in was) or "-W error" in str(setting.before.get("pytest.addopts"))
    added = [entry for entry in now if entry not in was and not entry.startswith("error")]
    return Weakening(f"a warning is ignored: `{added[0][:80]}`") if added and fails else None


def _options(setting: Setting) -> Weakening | None:
    implied = [
        flag
        for flag, name in _STRICT_FLAGS
        if truth(setting.after.get(f"pytest.{name}")) or truth(setting.after.get("pytest.strict"))
    ]
    words = [word for word in _words_of(setting.old) if word not in implied]
    return commands.options(words, _words_of(setting.new))


def _words_of(value: object) -> Sequence[str]:
    return commands.words(
        " ".join(f"'{word}'" if " " in str(word) and not str(word).startswith("-") else str(word) for word in value)
        if isinstance(value, list | tuple)
        else str(value or "")
    )


def _commands(setting: Setting) -> Weakening | None:
    was, now = (
        [command for line in _lines(value) for command in commands.read(line) if not commands.prepares(command)]
        for value in (setting.old, setting.new)
    )
    return next((loss.effect for loss in commands.lost(was, now)), None) if was else None


def _lines(value: object) -> Words:
    if isinstance(value, list):
        return tuple(
            " ".join(str(word) for word in entry) if isinstance(entry, list) else str(entry) for entry in value
        )
    return tuple(line.strip() for line in str(value or "").splitlines() if line.strip())


def _severity(setting: Setting) -> Weakening | None:
    was, now = "" if setting.old is None else _level(setting.old), _level(setting.new)
    if setting.new is None:
        extends = any(key.rpartition(".")[2] in {"extends", "..."} for key in setting.after)
        if was in _OFF or (was in _MILD and extends):
            return None
        return Weakening("was removed", "suspect" if extends else "weakening")
    if now in _OFF and setting.old is None and _more_is_chosen(setting):
        return None
    if (now in _OFF and was not in _OFF) or (now in _MILD and was not in _OFF | _MILD and setting.old is not None):
        return Weakening(f"is `{now}` now" + (f", and was `{was}`" if was else ""))
    higher = [(a, b) for a, b in zip(_numbers(setting.old), _numbers(setting.new), strict=False) if b > a]
    if setting.old is not None and higher and "max" in setting.key:
        return Weakening(f"is higher: `{higher[0][1]:g}`, and was `{higher[0][0]:g}`")
    return None


def _more_is_chosen(setting: Setting) -> bool:
    """Return True if sets of rules are added, so that a rule that is switched off with them was not on before."""
    prefix = setting.key.rpartition("rules.")[0]
    return any(
        set(_words(setting.after.get(name))) - set(_words(setting.before.get(name)))
        for name in (f"{prefix}extends", "extends", "...")
    )


def _level(value: object) -> str:
    first = value[0] if isinstance(value, list) and value else value
    first = first.get("level", first) if isinstance(first, dict) else first
    return str(first).strip().strip("\"'").lower()


def _numbers(value: object) -> list[float]:
    return [
        float(word)
        for word in re.findall(
            r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", repr(value[1:] if isinstance(value, list) else value)
        )
    ]


def _import_paths(setting: Setting) -> Weakening | None:
    added = [word for word in _words(setting.new) if word not in (*_words(setting.old), *_SOURCE_FOLDERS)]
    return Weakening(f"now imports from `{added[0][:60]}` first", "suspect") if added else None


_BESIDE = lazy(r"[\^(\\]*\.[\\.]*(?:\{1,2\})?\\?/")  # the beginning of a relative path, also as a pattern
_SAME_NAME = lazy(r"(?:\$\d|\.\w+)+")


def _aliases(setting: Setting) -> Weakening | None:
    """Judge what stands in the place of imported modules: of those beside a test, which are under test, it matters."""
    name = re.split(r"(?:moduleNameMapper|alias)\.", setting.key, maxsplit=1)[-1]
    if setting.new is None or not _BESIDE.match(name) or _SAME_NAME.fullmatch(str(setting.new)):
        return None
    return Weakening(f"`{str(setting.new)[:60]}` takes the place of a module", "suspect")


def _environment(setting: Setting) -> Weakening | None:
    """Judge variables that are given to the checks, of which some hold options."""
    old, new = (
        [word for line in _assignments(setting.key, value) for word in commands.words(line)]
        for value in (setting.old, setting.new)
    )
    return commands.options(old, new)


def _assignments(key: str, value: object) -> list[str]:
    lines = [f"{key.rpartition('.')[2]}={value}"] if isinstance(value, str) and "=" not in value else _lines(value)
    pairs = [line.partition("=") for line in lines]
    return [text.strip().strip("\"'") for name, _, text in pairs if name.strip() in {"PYTEST_ADDOPTS", "NODE_OPTIONS"}]


def _exit_code(setting: Setting) -> Weakening | None:
    return Weakening("is `0` now, which lets a failure pass") if number(setting.new) == 0 else None


def _strict_by_default(setting: Setting) -> Weakening | None:
    off = setting.new is not None and not truth(setting.new)
    return Weakening("is switched off") if off and (setting.old is None or truth(setting.old)) else None


def _hook_script(setting: Setting) -> Weakening | None:
    """Judge a script that runs before or after another one: one that only checks is no cause to ask."""
    called = list(commands.read(str(setting.new or "")))
    plain_checks = all(
        commands.is_check(command) and (not command.program.startswith("npm run ") or _CHECKING.search(command.program))
        for command in called
    )
    return None if plain_checks else _unknown(setting)


def _registered(setting: Setting) -> Weakening | None:
    """Return why a counted entry checks less: it is removed or occurs fewer times."""
    if setting.new is None:
        return Weakening("was removed")
    return Weakening("occurs fewer times") if (number(setting.old) or 0) > (number(setting.new) or 0) else None


def _loosening(setting: Setting) -> Weakening | None:
    return None if setting.new is None else _changed(setting)


def _changed(setting: Setting) -> Weakening | None:
    """Report any change of a key whose effect cannot be told."""
    return Weakening(
        "changed"
        if setting.old is not None and setting.new is not None
        else "was added"
        if setting.old is None
        else "was removed"
    )


def _unknown(setting: Setting) -> Weakening | None:
    effect = _changed(setting)
    return effect._replace(grade="suspect") if effect else None


_GENERAL: tuple[tuple[str, Judge], ...] = (
    (r"variable .*|line (?:\.IGNORE|set)\b.*", _loosening),
    (r"line .*|ruff\.extend|linters\.default", _unknown),
    (r"(?:.*\.)?(?:exit[-_]zero|fix-only|disable-all|new|new-from-\w+)", _loose_when_true),
    (r"(?:.*\.)?issues-exit-code", _exit_code),
    (r"run\.tests|(?:.*\.)?[eE]nabled", _strict_by_default),
    (r"(?:.*\.)?typeCheckingMode", _mode),
    (r"(?:parameters\.)?level", _threshold),
    (r"formatters\..*", _harmless),
    (r"(?:.*\.)?exclu(?:de-[\w.-]+|sions\.(?:paths|rules|presets))|run\.skip-(?:dirs|files)", _excluding),
    (r"flake8\.filename", _including_all),
    (r"entry-points\..*|commands-named-like-tools\..*|build-system\.backend-path|bin\..*", _changed),
    (r"(?:poetry|flit|setuptools)\.scripts\..*|scripts\.(?:pre|post)(?:version|publish\w*|pack)", _harmless),
    (r"scripts\.(?:pre|post)(?:test|lint|check)\S*|scripts\.(?:pre|post)?install", _hook_script),
    (r".*(?:^|\.)scripts\..*|.*\.tasks\..*|.*\.commands", _commands),
    (r"(?:.*\.)?(?:fail_under|fail-under|min_coverage)|.*\.(?:statements|branches|functions|lines)", _threshold),
    (
        r"(?:.*\.)?max-(?:complexity|warnings|args|branches|statements|returns|locals|nested-blocks|attributes|public-methods)",
        _limit,
    ),
    (r".*(?:per-file-ignores|per_file_ignores).*", _excluding),
    (
        (
            r"(?:.*\.)?(?:[a-z]+[-_])?(?:ignore|exclude|skip|omit)s?(?:[-_](?:dirs|paths|patterns|files|globs?|regex))?|"
            r"(?:.*\.)?(?:disable|disable_error_code|exclude_lines|exclude_also|partial_branches|ignorePatterns|"
            r"suppress_warnings)"
        ),
        _excluding,
    ),
    (r"(?:pyright|basedpyright|tsconfig|ruff)?\.?(?:include|files)|test\.include", _including_all),
    (r"(?:.*\.)?(?:files|include|source|source_pkgs|packages|modules)", _including),
    (r"(?:.*\.)?(?:extend-)?(?:select|enable|enable_error_code|plugins|load-plugins|extends)", _selecting),
    (
        (
            r"(?:.*\.)?(?:strict\w*|warn_\w+|disallow_\w+|check_untyped_defs|no_implicit\w*|branch|extra_checks|"
            r"check-coverage|checkCoverage|all)"
        ),
        _strict_when_true,
    ),
    (r"(?:.*\.)?follow_imports", _follow_imports),
    (
        r"(?:.*\.)?(?:ignore_missing_imports|ignore_errors|allow_\w+|implicit_optional|implicit_reexport|allowUn\w+|allowOnly)",
        _loose_when_true,
    ),
)
# The names of rules are free, so that they are asked before the names of settings.
_SEVERITIES: tuple[str, Judge] = (r"(?:.*\.)?rules\..*|lints\..*|workspace\.lints\..*", _severity)
_JUDGES: dict[str, Judge] = {
    "aliases": _aliases,
    "changed": _changed,
    "commands": _commands,
    "environment": _environment,
    "excluding": _excluding,
    "filters": _filters,
    "harmless": _harmless,
    "import_paths": _import_paths,
    "including": _including,
    "including_all": _including_all,
    "limit": _limit,
    "loose_when_true": _loose_when_true,
    "loosening": _loosening,
    "members": _members,
    "options": _options,
    "registered": _registered,
    "selecting": _selecting,
    "severity": _severity,
    "strict_by_default": _strict_by_default,
    "strict_when_true": _strict_when_true,
    "threshold": _threshold,
    "unknown": _unknown,
}


@cache
def _rules() -> tuple[tuple[re.Pattern[str], Judge], ...]:
    """Return the rules in the order in which they are asked; what any of them judges, no tool declares harmless."""
    rules = [rule for tool in tools() for rule in tool.tampering.settings]
    first, last, harmless = (
        [(rule.keys, _JUDGES[rule.judge]) for rule in rules if _turn(rule) == turn]
        for turn in ("first", "last", "harmless")
    )
    ordered = (*first, _SEVERITIES, *_GENERAL, *last, *harmless)
    return tuple((re.compile(keys), judge) for keys, judge in ordered)


def _turn(rule: SettingRule) -> str:
    return "first" if rule.first else "harmless" if rule.judge == "harmless" else "last"


def judge(key: str, before: Settings, after: Settings, *, strange: bool) -> Weakening | None:
    """Return why the setting checks less now, or None; `strange` says that unknown keys are worth a look."""
    known = next((judge for keys, judge in _rules() if keys.fullmatch(key)), _unknown if strange else _harmless)
    return known(Setting(key, before.get(key), after.get(key), before, after))
