"""The variables, arrays and positional parameters of a shell line, with undo at the end of a scope."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from reflectloop.policy.simple_command import FRESH, ShellWord

Values = tuple[ShellWord, ...]
_MOST_PASSED = 64  # variables that are passed to an inner shell


def _is_usable(value: ShellWord) -> bool:
    """Return True if a value is known, or is a fresh temp folder, whose name nobody else uses."""
    return value.known or value.text == FRESH


class Scope:
    """Names and their values. Several values of a plain name are those of a loop; `name[]` is an array."""

    def __init__(self, variables: Iterable[tuple[str, str]]) -> None:
        initial = list(variables)
        self._known: dict[str, Values] = {name: (ShellWord(value),) for name, value in initial}
        positional = [ShellWord(value) for name, value in initial if name.isdigit() and name != "0"]
        if positional:
            self._known["@[]"] = tuple(positional)
        self._changes: list[tuple[str, Values | None]] = []  # earlier values of changed names, latest last
        self._exported: set[str] = set()

    @property
    def mark(self) -> int:
        return len(self._changes)

    def undo(self, mark: int) -> None:
        """Restore the values that names had at `mark`."""
        while len(self._changes) > mark:
            name, before = self._changes.pop()
            if before is None:
                self._known.pop(name, None)
            else:
                self._known[name] = before

    def set(self, name: str, values: Values) -> None:
        self._changes.append((name, self._known.get(name)))
        self._known[name] = values

    def swap(self, name: str, values: Values) -> None:
        """Set a name temporarily; the caller restores it."""
        self._known[name] = values

    def get(self, name: str) -> Values:
        """Return the values of a variable or positional parameter."""
        values = self._known.get(name)
        if values is None and name.isdigit() and name != "0":
            values = self.array("@")[int(name) - 1 : int(name)] if len(name) < 4 else ()  # noqa: PLR2004
        return values or self.array(name)[:1]

    def array(self, name: str) -> Values:
        return self._known.get(f"{name}[]", ())

    def set_array(self, name: str, values: Values) -> None:
        self.set(f"{name}[]", values)

    def set_element(self, name: str, index: str, value: ShellWord) -> None:
        """Set one element of an array; an index that is not a number appends."""
        elements = list(self.array(name))
        if index.isdigit() and len(index) < 4 and int(index) < len(elements):  # noqa: PLR2004
            elements[int(index)] = value
        else:
            elements.append(value)
        self.set_array(name, tuple(elements))
        self.set(f"{name}[{index}]", (value,))

    def element(self, name: str, index: str) -> Values:
        if index.isdigit() and len(index) < 4:  # noqa: PLR2004
            return self.array(name)[int(index) : int(index) + 1]
        return self._known.get(f"{name}[{index}]", ())

    def export(self, name: str) -> None:
        self._exported.add(name)

    def passed(self, *, everything: bool) -> tuple[tuple[str, str], ...]:
        """Return the variables that an inner shell knows."""
        names = list(self._known) if everything else [name for name in self._exported if name in self._known]
        variables = ((name, self._known[name]) for name in names if "[" not in name)
        plain = ((name, values[0].text) for name, values in variables if len(values) == 1 and _is_usable(values[0]))
        return tuple(itertools.islice(plain, _MOST_PASSED))
