"""Check what a patch did to the configuration of runners and linters: which direction of a setting is stricter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from reflectloop.verification.protected import guard
from reflectloop.verification.protected.parts import Part, part
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering import commands
from reflectloop.verification.tampering.added import stood
from reflectloop.verification.tools.record import SettingRule
from reflectloop.verification.tools.registry import tools

Words = tuple[str, ...]
Judge = Callable[[object, object], str | None]  # why the setting checks less, or None


_TRUE = frozenset({"true", "yes", "on", "1"})
_OFF = ("off", "warn", "0", "1", "none", "warning", "info", "allow", "suggestion")


def entries(value: object) -> Words:
    """Return a value as a tuple of words, whether it is a list, lines, or comma-separated."""
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return tuple(str(item).strip() for item in value)
    if isinstance(value, bool):
        return (str(value).lower(),)
    text = str(value)
    parts = text.splitlines() if "\n" in text else re.split(r"[,\s]+", text)
    return tuple(part.strip().rstrip(",") for part in parts if part.strip())


def truth(value: object) -> bool:
    return str(value).strip().lower() in _TRUE


def number(value: object) -> float | None:
    match = re.fullmatch(r"-?\d{1,15}(?:\.\d{1,15})?", str(value).strip().rstrip("%"))
    return float(match[0]) if match else None


def _harmless(old: object, new: object) -> str | None:  # noqa: ARG001 - all judges have the same signature
    return None


def _strict_when_true(old: object, new: object) -> str | None:
    return "is no longer on" if truth(old) and not truth(new) else None if truth(new) or old == new else _falsy(new)


def _falsy(new: object) -> str | None:
    return "is switched off" if new is not None else None


def _loose_when_true(old: object, new: object) -> str | None:
    return (
        "is switched on"
        if not truth(old) and new is not None and str(new).lower() not in {"false", "no", "0"}
        else None
    )


def _threshold(old: object, new: object) -> str | None:
    before, after = number(old), number(new)
    if before is None:
        return None
    return "is lower" if after is None or after < before else None


def _limit(old: object, new: object) -> str | None:
    before, after = number(old), number(new)
    if after is None:
        return "was removed" if before is not None else "cannot be read"
    return "is higher" if before is None or after > before else None


def _excluding(old: object, new: object) -> str | None:
    added = [entry for entry in entries(new) if entry not in entries(old)]
    return f"now excludes `{added[0][:60]}`" if added else None


def _including(old: object, new: object) -> str | None:
    before, after = entries(old), entries(new)
    if not before and after:
        return f"now includes only `{', '.join(after)[:60]}`"
    removed = [entry for entry in before if entry not in after]
    return (
        f"no longer includes `{removed[0][:60]}`"
        if removed and after
        else "no longer names what to include"
        if removed
        else None
    )


def _selecting(old: object, new: object) -> str | None:
    removed = [entry for entry in entries(old) if entry not in entries(new)]
    return f"no longer has `{removed[0][:60]}`" if removed and "ALL" not in entries(new) else None


def _filters(old: object, new: object) -> str | None:
    before, after = entries(old), entries(new)
    added = [entry for entry in after if entry not in before and not entry.startswith("error")]
    removed = [entry for entry in before if entry not in after and entry.startswith("error")]
    if added:
        return f"a warning is ignored: `{added[0][:60]}`"
    return f"no longer turns warnings into failures: `{removed[0][:60]}`" if removed else None


def _options(old: object, new: object) -> str | None:
    return commands.options(_words_of(old), _words_of(new))


def _words_of(value: object) -> Sequence[str]:
    return commands.words(
        " ".join(str(word) for word in value) if isinstance(value, list | tuple) else str(value or "")
    )


def _commands(old: object, new: object) -> str | None:
    before, after = _lines(old), _lines(new)
    ignored = [line for line in after if line.startswith("-") and line not in before]
    if ignored:
        return f"a failure of `{ignored[0][:60]}` is ignored"
    return "was removed" if before and not after else commands.recipe(before, after)


def _lines(value: object) -> Words:
    if isinstance(value, list):
        return tuple(
            " ".join(str(word) for word in entry) if isinstance(entry, list) else str(entry) for entry in value
        )
    return tuple(line.strip() for line in str(value or "").splitlines() if line.strip())


def _severity(old: object, new: object) -> str | None:
    was, now = _level(old), _level(new)
    return f"is `{now}` now" if now.startswith(_OFF) and now != was else "was removed" if new is None else None


def _level(value: object) -> str:
    first = value[0] if isinstance(value, list) and value else value
    return str(first).strip().lower()


def _target(old: object, new: object) -> str | None:
    if not isinstance(old, tuple):
        return commands.recipe((), new[1]) if isinstance(new, tuple) else None
    if not isinstance(new, tuple):
        return "was removed"
    lost = [prerequisite for prerequisite in old[0] if prerequisite not in new[0]]
    return f"no longer needs `{lost[0]}`" if lost else commands.recipe(old[1], new[1])


def _registered(old: object, new: object) -> str | None:
    """Return why a counted entry checks less: it is removed or occurs fewer times."""
    return "was removed" if new is None else "occurs fewer times" if (number(old) or 0) > (number(new) or 0) else None


def _loosening(old: object, new: object) -> str | None:
    return None if new is None else unknown(old, new)


def unknown(old: object, new: object) -> str | None:
    """Report any change to a key on no list, since it cannot be assumed harmless."""
    return "changed" if old is not None and new is not None else "was added" if old is None else "was removed"


_GENERAL: tuple[tuple[str, Judge], ...] = (
    (r"scripts\.(?:pre|post)(?:test|lint|check|build)\S*|scripts\.(?:pre|post)?install", unknown),
    (r"scripts\.(?!.*\.).*|.*(?:^|\.)scripts\..*|.*\.tasks\..*|.*\.commands", _commands),
    (r"(?:.*\.)?(?:fail_under|fail-under|min_coverage)|.*\.(?:statements|branches|functions|lines)", _threshold),
    (r"(?:.*\.)?max-(?:complexity|warnings|args|branches|statements|returns|locals|nested-blocks)", _limit),
    (r".*(?:per-file-ignores|per_file_ignores).*", _excluding),
    (
        (
            r"(?:.*\.)?(?:extend-)?(?:ignore|exclude|ignores|ignore-patterns|ignore-paths|ignore_patterns|disable|"
            r"disable_error_code|omit|exclude_lines|exclude_also|partial_branches|skip|skips|unfixable|ignorePatterns|"
            r"suppress_warnings)"
        ),
        _excluding,
    ),
    (r"(?:.*\.)?(?:files|include|source)", _including),
    (r"(?:.*\.)?(?:extend-)?(?:select|enable|enable_error_code|plugins|load-plugins|extends)", _selecting),
    (
        (
            r"(?:.*\.)?(?:strict\w*|warn_\w+|disallow_\w+|check_untyped_defs|no_implicit\w*|branch|extra_checks|"
            r"local_partial_types)"
        ),
        _strict_when_true,
    ),
    (
        (
            r"(?:.*\.)?(?:ignore_missing_imports|ignore_errors|allow_\w+|implicit_optional|implicit_reexport|allow\w+|"
            r"follow_imports|ignore_errors)"
        ),
        _loose_when_true,
    ),
)
# Asked after the rules of tools.
_SEVERITIES: tuple[str, Judge] = (r"(?:.*\.)?rules\..*|lints\..*|workspace\.lints\..*", _severity)
_JUDGES: dict[str, Judge] = {
    "commands": _commands,
    "excluding": _excluding,
    "filters": _filters,
    "harmless": _harmless,
    "including": _including,
    "loose_when_true": _loose_when_true,
    "loosening": _loosening,
    "options": _options,
    "registered": _registered,
    "selecting": _selecting,
    "severity": _severity,
    "strict_when_true": _strict_when_true,
    "target": _target,
    "threshold": _threshold,
}


@cache
def _rules() -> tuple[tuple[re.Pattern[str], Judge], ...]:
    """Return the rules in the order in which they are asked; what any of them judges, no tool declares harmless."""
    rules = [rule for tool in tools() for rule in tool.tampering.settings]
    first, last, harmless = (
        [(rule.keys, _JUDGES[rule.judge]) for rule in rules if _turn(rule) == turn]
        for turn in ("first", "last", "harmless")
    )
    ordered = (*first, *_GENERAL, *last, _SEVERITIES, *harmless)
    return tuple((re.compile(keys), judge) for keys, judge in ordered)


def _turn(rule: SettingRule) -> str:
    return "first" if rule.first else "harmless" if rule.judge == "harmless" else "last"


def judge(key: str, old: object, new: object) -> str | None:
    """Return why the setting checks less now, or None."""
    judge_value = next((judge for keys, judge in _rules() if keys.fullmatch(key)), unknown)
    return judge_value(old, new)


_FORMATTING = re.compile(
    r"(?:^|/)(?:\.editorconfig|\.prettierrc[^/]*|\.clang-format|\.?rustfmt\.toml|prettier\.config\.[^/]*)$"
)
_LINE_KEY = re.compile(r"""^["']?([\w.-]+)["']?\s*[:=]\s*(.*?)[,;]?$""")
_WRITTEN = frozenset({"command", "block", "plugin", "line"})
_TOKEN = re.compile(r"\w+|[^\w\s]")
Setting = tuple[str, Words]
_NAMES = {"runner": "runner-narrowed", "lint": "lint-loosened"}


def look(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    relevant = [change for change in changes if _concerns(change.path)]
    parts = {change.path: (part(change.path, change.before), part(change.path, change.after)) for change in relevant}
    moved = _moved(parts)
    for change in relevant:
        yield from _file(change, *parts[change.path], moved)


def _concerns(path: str) -> bool:
    protection = guard(path)
    return protection is not None and protection.kind in _NAMES


def _moved(parts: Mapping[str, tuple[Part | None, Part | None]]) -> set[Setting]:
    """Return the settings that one file of the patch loses and another gains."""
    removed = {setting for before, after in parts.values() for setting in _only(before, after)}
    new_settings = {setting for before, after in parts.values() for setting in _only(after, before)}
    return removed & new_settings


def _only(part: Part | None, other: Part | None) -> Iterator[Setting]:
    for key, value in _by_key(part or {}).items():
        if key not in _by_key(other or {}):
            yield key, entries(value)


def _file(change: ChangedFile, before: Part | None, after: Part | None, moved: set[Setting]) -> Iterator[TamperFinding]:
    protection = guard(change.path)
    rule = _NAMES[protection.kind] if protection else "runner-narrowed"
    if after is None:
        if change.before is None or before is not None:
            yield TamperFinding(
                "config-unreadable", change.path, 1, "the part that controls checks can no longer be read"
            )
        return
    reported = False
    for key, line, why in _settings(change, before or {}, after, moved):
        reported = True
        yield TamperFinding(
            rule, change.path, line, f"{key} {why}", "note" if _FORMATTING.search(change.path) else "weakening"
        )
    if (
        not reported
        and change.before is None
        and protection
        and not protection.mixed
        and not _FORMATTING.search(change.path)
    ):
        yield TamperFinding(
            "config-added", change.path, 1, "the new configuration may replace the existing one", "suspect"
        )


def _settings(change: ChangedFile, before: Part, after: Part, moved: set[Setting]) -> Iterator[tuple[str, int, str]]:
    before, after = _by_key(before), _by_key(after)
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new or entries(old) == entries(new) != ():
            continue
        if (key, entries(old if new is None else new)) in moved or _covered(change.path, key, before, after):
            continue
        if why := judge(key, old, new):
            yield key, _line(change, key), why


def _covered(path: str, key: str, before: Part, after: Part) -> bool:
    """Return True if a setting that switches all checks on replaces the flag, or the linter had no settings before."""
    table = key.partition(".")[0]
    if key not in after and truth(after.get(_strict_settings().get(table, ""))):
        return True
    fresh = table in _linters() and not any(name.startswith(f"{table}.") for name in before)
    return fresh and path.rpartition("/")[2] == "pyproject.toml"


@cache
def _strict_settings() -> dict[str, str]:
    known = [tool.tampering.strict_setting for tool in tools() if tool.tampering.strict_setting]
    return {key.partition(".")[0]: key for key in known}


@cache
def _linters() -> frozenset[str]:
    return frozenset(table for tool in tools() for table in tool.tampering.adds_checks.split())


def _by_key(settings_part: Part) -> Part:
    """Return the settings by key; a line of code that sets a name is stored under that name."""
    settings_by_key: dict[str, object] = {}
    for written, value in settings_part.items():
        key = written.replace("ruff.lint.", "ruff.")
        named = _LINE_KEY.match(key)
        settings_by_key.update(
            {named[1]: named[2]}
            if named and " " in key and not key.startswith(("target ", "variable "))
            else {key: value}
        )
    return settings_by_key


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
        yield re.escape(word)


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")
