"""Read the versions and systems that checks run with: lists of a CI matrix, names of tox environments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)-(\d+)")
_PYTHON_FACTOR = re.compile(r"^(?:py|python|cp)?-?(\d)\.?(\d{1,2})?t?(?:-dev)?$|^(?:py|python)$")
_PYPY = re.compile(r"^(?:pypy|graalpy|jython)")
_NUMBER = re.compile(r"(\d+)(?:\.(\d+))?")
_SYSTEMS = {
    "ubuntu": "Linux",
    "linux": "Linux",
    "debian": "Linux",
    "windows": "Windows",
    "win": "Windows",
    "macos": "macOS",
    "osx": "macOS",
}
_MOVING = frozenset({"latest", "stable", "beta", "nightly", "dev", "lts", "current", "node", "default", "*", "x"})
_LIMIT = 4096  # names that one expression may stand for

# Names of lists, and the name of what they list.
_AXES = (
    (re.compile(r"^(?:python|py)(?:[-_]?versions?)?$"), "Python"),
    (re.compile(r"^(?:node|nodejs|node_js)(?:[-_]?versions?)?$"), "Node"),
    (re.compile(r"^(?:go|golang)(?:[-_]?versions?)?$"), "Go"),
    (re.compile(r"^(?:ruby|rvm)(?:[-_]?versions?)?$"), "Ruby"),
    (re.compile(r"^(?:php)(?:[-_]?versions?)?$"), "PHP"),
    (re.compile(r"^(?:java|jdk)(?:[-_]?versions?)?$"), "Java"),
    (re.compile(r"^(?:os|runs-on|platform|runner|vmimage|image)$"), "system"),
)


def expanded(text: str) -> list[str]:
    """Return the names that an expression of tox stands for: `py{38,39}-{a,b}`, `py3{8-11}`."""
    names = []
    for part in _parts(text):
        choices: list[list[str]] = []
        for position, piece in enumerate(_BRACES.split(part)):
            choices.append(list(_alternatives(piece)) if position % 2 else [piece])
        size = 1
        for choice in choices:
            size *= len(choice)
        names += ["".join(pieces) for pieces in product(*choices)] if size <= _LIMIT else [part]
    return [name.strip().strip("-") for name in names if name.strip()]


def _parts(text: str) -> Iterator[str]:
    """Yield what commas, spaces and line ends outside braces separate."""
    depth, current = 0, ""
    for sign in text:
        depth += (sign == "{") - (sign == "}")
        if depth <= 0 and (sign in ",\n" or sign.isspace()):
            yield current
            current = ""
        elif not (depth > 0 and sign.isspace()):
            current += sign
    yield current


def _alternatives(piece: str) -> Iterator[str]:
    for word in piece.split(","):
        if match := _RANGE.fullmatch(word.strip()):
            first, last = int(match[1]), int(match[2])
            step = 1 if first <= last else -1
            yield from (str(number) for number in range(first, last + step, step)[:200])
        else:
            yield word.strip()


def factors(name: str) -> tuple[str, frozenset[str]]:
    """Return the name of an environment without its Python version, and that version."""
    rest, found_versions = [], set()
    for factor in name.split("-"):
        if _PYTHON_FACTOR.match(factor) or _PYPY.match(factor):
            found_versions.add(factor)
        else:
            rest.append(factor)
    return "-".join(rest), frozenset(version for factor in found_versions for version in [_python(factor)] if version)


def _python(text: str) -> str | None:
    if _PYPY.match(text):
        return "PyPy" if text.startswith("pypy") else text
    match = _PYTHON_FACTOR.match(text)
    return f"{match[1]}.{match[2]}" if match and match[2] else None


def axis_name(key: str) -> str | None:
    """Return what a list of this name lists, or None if it is none of the known ones."""
    return next((name for pattern, name in _AXES if pattern.match(key.lower())), None)


def version(axis: str, text: str) -> str | None:
    """Return a version in its shortest form, or None for one that moves by itself, such as `latest`."""
    plain = text.strip().strip("\"'").lower()
    if axis == "system":
        return next((name for word, name in _SYSTEMS.items() if plain.startswith(word)), None)
    if axis == "Python" and _PYPY.match(plain):
        return _python(plain)
    if (
        not plain
        or "$" in plain
        or plain in _MOVING
        or (plain.endswith(("-dev", ".x")) and plain.count(".") == 1 and axis == "Python")
    ):
        return None
    match = _NUMBER.search(plain)
    if not match:
        return None
    return match[1] if axis in {"Node", "Java"} or not match[2] else f"{match[1]}.{match[2]}"


def dropped(before: Mapping[str, Iterable[str]], after: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return the versions by axis that are no longer used; one version in place of one other is no loss."""
    losses: dict[str, list[str]] = {}
    for axis, listed in before.items():
        old = {each for text in listed if (each := version(axis, text))}
        new = {each for text in after.get(axis, ()) if (each := version(axis, text))}
        gone = old - new
        computed = any("$" in text for text in after.get(axis, ()))
        moving = [text for text in after.get(axis, ()) if version(axis, text) is None and text not in listed]
        gone = gone if len(gone) > len(moving) else set()
        if gone and not computed and not (len(old) == 1 and len(new) >= 1):
            losses[axis] = sorted(gone, key=lambda text: (_order(text), text))
    return losses


def _order(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))
