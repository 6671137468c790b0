"""Check what a patch did to the configuration of runners and linters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from reflectloop.verification.protected import guard
from reflectloop.verification.protected.parts import Part, part
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering import settings
from reflectloop.verification.tampering.added import stood

_FORMATTING = re.compile(
    r"(?:^|/)(?:\.editorconfig|\.prettierrc[^/]*|\.clang-format|\.?rustfmt\.toml|prettier\.config\.[^/]*)$"
)
_LINE_KEY = re.compile(r"""^["']?([\w.-]+)["']?\s*[:=]\s*(.*?)[,;]?$""")
_WRITTEN = frozenset({"command", "block", "plugin", "line"})
_TOKEN = re.compile(r"\w+|[^\w\s]")
_LINTERS = frozenset({"ruff", "mypy", "pyright", "basedpyright", "flake8", "pylint", "black", "isort", "bandit", "ty"})
Setting = tuple[str, settings.Words]
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
            yield key, settings.entries(value)


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
        if old == new or settings.entries(old) == settings.entries(new) != ():
            continue
        if (key, settings.entries(old if new is None else new)) in moved or _covered(change.path, key, before, after):
            continue
        if why := settings.judge(key, old, new):
            yield key, _line(change, key), why


def _covered(path: str, key: str, before: Part, after: Part) -> bool:
    """Return True if mypy's `strict` replaces the flag, or the linter had no settings before."""
    tool = key.partition(".")[0]
    if tool == "mypy" and settings.truth(after.get("mypy.strict")) and key not in after:
        return True
    fresh = tool in _LINTERS and not any(name.startswith(f"{tool}.") for name in before)
    return fresh and path.rpartition("/")[2] == "pyproject.toml"


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
