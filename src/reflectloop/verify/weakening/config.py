"""Looks at what a patch did to the configuration of runners and linters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from reflectloop.verify.protected import guard
from reflectloop.verify.protected.parts import Part, part
from reflectloop.verify.result import Change, Finding
from reflectloop.verify.weakening import settings
from reflectloop.verify.weakening.added import stood

_FORMATTING = re.compile(
    r"(?:^|/)(?:\.editorconfig|\.prettierrc[^/]*|\.clang-format|\.?rustfmt\.toml|prettier\.config\.[^/]*)$"
)
_LINE_KEY = re.compile(r"""^["']?([\w.-]+)["']?\s*[:=]\s*(.*?)[,;]?$""")
_WRITTEN = frozenset({"command", "block", "plugin", "line"})
_TOKEN = re.compile(r"\w+|[^\w\s]")
_LINTERS = frozenset({"ruff", "mypy", "pyright", "basedpyright", "flake8", "pylint", "black", "isort", "bandit", "ty"})
Setting = tuple[str, settings.Words]
_NAMES = {"runner": "runner-narrowed", "lint": "lint-loosened"}


def look(changes: Sequence[Change]) -> Iterator[Finding]:
    ours = [change for change in changes if _concerns(change.path)]
    read = {change.path: (part(change.path, change.before), part(change.path, change.after)) for change in ours}
    moved = _moved(read)
    for change in ours:
        yield from _file(change, *read[change.path], moved)


def _concerns(path: str) -> bool:
    found = guard(path)
    return found is not None and found.kind in _NAMES


def _moved(read: Mapping[str, tuple[Part | None, Part | None]]) -> set[Setting]:
    """Settings that left one file of the patch and appear in another."""
    left = {each for before, after in read.values() for each in _only(before, after)}
    come = {each for before, after in read.values() for each in _only(after, before)}
    return left & come


def _only(one: Part | None, other: Part | None) -> Iterator[Setting]:
    for key, value in _by_key(one or {}).items():
        if key not in _by_key(other or {}):
            yield key, settings.entries(value)


def _file(change: Change, before: Part | None, after: Part | None, moved: set[Setting]) -> Iterator[Finding]:
    found = guard(change.path)
    rule = _NAMES[found.kind] if found else "runner-narrowed"
    if after is None:
        if change.before is None or before is not None:
            yield Finding("config-unreadable", change.path, 1, "the part that steers checks cannot be read any more")
        return
    said = False
    for key, line, why in _settings(change, before or {}, after, moved):
        said = True
        yield Finding(
            rule, change.path, line, f"{key} {why}", "note" if _FORMATTING.search(change.path) else "weakening"
        )
    if not said and change.before is None and found and not found.mixed and not _FORMATTING.search(change.path):
        yield Finding(
            "config-added", change.path, 1, "new configuration may take the place of what was there", "suspect"
        )


def _settings(change: Change, before: Part, after: Part, moved: set[Setting]) -> Iterator[tuple[str, int, str]]:
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
    """Mypy's `strict` stands for many flags; a linter that had no settings at all asks more with any."""
    tool = key.partition(".")[0]
    if tool == "mypy" and settings.truth(after.get("mypy.strict")) and key not in after:
        return True
    fresh = tool in _LINTERS and not any(each.startswith(f"{tool}.") for each in before)
    return fresh and path.rpartition("/")[2] == "pyproject.toml"


def _by_key(read: Part) -> Part:
    """Lines of code that set something, under the name they set."""
    found: dict[str, object] = {}
    for written, value in read.items():
        key = written.replace("ruff.lint.", "ruff.")
        named = _LINE_KEY.match(key)
        found.update(
            {named[1]: named[2]}
            if named and " " in key and not key.startswith(("target ", "variable "))
            else {key: value}
        )
    return found


def _line(change: Change, key: str) -> int:
    """The line that most likely says it, in the new version; where it stood, if it is gone."""
    for spelled in _spellings(key):
        pattern = re.compile(spelled, re.IGNORECASE)
        if found := pattern.search(_text(change.after)):
            return _text(change.after).count("\n", 0, found.start()) + 1
        if found := pattern.search(_text(change.before)):
            number = _text(change.before).count("\n", 0, found.start()) + 1
            return stood(change.before, change.after, number)
    return 1


def _spellings(key: str) -> Iterator[str]:
    """A command as it is written or as it begins, else the last word of a key."""
    kind, _, words = key.partition(" ")
    if kind in _WRITTEN:
        tokens = [re.escape(each) for each in _TOKEN.findall(words.partition(" if ")[0][:300])]
        yield r"\s*".join(tokens)
        yield r"\s*".join(tokens[:4])
    word = words if kind in {"target", "variable"} else key.rpartition(".")[2]
    if word:
        yield re.escape(word)


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")
