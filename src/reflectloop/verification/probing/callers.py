"""Choose callers of changed functions whose own arguments cannot be recorded or varied; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from reflectloop.verification.probing import changed
from reflectloop.verification.probing.changed import ChangedFunction
from reflectloop.verification.probing.programs import CallPath

_MOST_CALLERS = 6  # of all functions
_MOST_OF_ONE = 3  # of one function, innermost first and the outermost one
_MOST_SOURCES, _LARGEST_SOURCES = 100, 3 << 20  # that are read for constructors


class Caller(NamedTuple):
    """A function of the project through which tests reach a changed function."""

    function: ChangedFunction
    reaches: ChangedFunction
    distance: int  # 0 for the innermost caller, -1 for the function itself


def choose(
    missing: Iterable[ChangedFunction],
    paths: Mapping[ChangedFunction, Sequence[CallPath]],
    is_source: Callable[[str], bool],
    read: Callable[[str], bytes | None],
) -> list[Caller]:
    """Return callers of the functions, the innermost ones first, and the outermost: what the test itself calls.

    A method of an object that cannot be copied comes first itself: its object can be made again as the test made it.
    """
    out: list[Caller] = []
    known: dict[str, dict[int, str]] = {}
    for function in missing:
        if function in paths and "." in function.qualname and "<locals>" not in function.qualname:
            out.append(Caller(function, function, -1))
        chosen: dict[tuple[str, int], int] = {}
        for path in paths.get(function, ()):
            inside = _before_tests(path, is_source)
            for distance, step in enumerate(inside):
                if distance < _MOST_OF_ONE - 1 or distance == len(inside) - 1:
                    chosen[step] = min(distance, chosen.get(step, distance))
        for (file, line), distance in sorted(chosen.items(), key=lambda item: item[1])[:_MOST_OF_ONE]:
            names = known.setdefault(file, _names(read(file)))
            caller = ChangedFunction(file, names.get(line, ""), line, direct=False)
            if caller.qualname and (file, line) != (function.path, function.line):
                out.append(Caller(caller, function, distance))
    return out[:_MOST_CALLERS]


def _before_tests(path: CallPath, is_source: Callable[[str], bool]) -> list[tuple[str, int]]:
    out: list[tuple[str, int]] = []
    for file, line in path:
        if not is_source(file):
            break
        if (file, line) not in out:
            out.append((file, line))
    return out


def _names(source: bytes | None) -> dict[int, str]:
    """Return the functions of a source by their first line, without those inside other functions."""
    return {line: name for name, line in changed.places(source or b"") if "<locals>" not in name and "#" not in name}


def constructors(sources: Mapping[str, bytes]) -> dict[str, list[int]]:
    """Return the first lines of the constructors in some sources."""
    out: dict[str, list[int]] = {}
    left = _LARGEST_SOURCES
    for path, source in sources.items():
        left -= len(source)
        if b"def __init__" not in source or left < 0 or len(out) >= _MOST_SOURCES:
            continue
        lines = [line for name, line in changed.places(source) if name.endswith(".__init__")]
        if lines:
            out[path] = lines
    return out
