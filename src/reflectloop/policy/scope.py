"""Holds the variables, arrays and positional parameters of a line, and takes them back at the end of a scope."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from reflectloop.policy.simple_command import FRESH, ShellWord

Values = tuple[ShellWord, ...]
_MOST_PASSED = 64  # variables that a text run by a shell is given


def _is_told(value: ShellWord) -> bool:
    """Say whether a value is known as far as it counts: a fresh temp folder has a name that nobody else uses."""
    return value.known or value.text == FRESH


class Scope:
    """Names with their values: several values of a plain name are the ones of a loop, `name[]` is an array."""

    def __init__(self, variables: Iterable[tuple[str, str]]) -> None:
        given = list(variables)
        self._known: dict[str, Values] = {name: (ShellWord(value),) for name, value in given}
        positional = [ShellWord(value) for name, value in given if name.isdigit() and name != "0"]
        if positional:
            self._known["@[]"] = tuple(positional)
        self._changes: list[tuple[str, Values | None]] = []  # what each name was before, latest last
        self._exported: set[str] = set()

    @property
    def mark(self) -> int:
        return len(self._changes)

    def undo(self, mark: int) -> None:
        """Forget what was set since `mark`."""
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
        """Set a name for a moment; the caller puts it back."""
        self._known[name] = values

    def get(self, name: str) -> Values:
        """Return the values of a variable or of a positional parameter."""
        found = self._known.get(name)
        if found is None and name.isdigit() and name != "0":
            found = self.array("@")[int(name) - 1 : int(name)] if len(name) < 4 else ()  # noqa: PLR2004
        return found or self.array(name)[:1]

    def array(self, name: str) -> Values:
        return self._known.get(f"{name}[]", ())

    def set_array(self, name: str, values: Values) -> None:
        self.set(f"{name}[]", values)

    def set_element(self, name: str, index: str, value: ShellWord) -> None:
        """Set one element; what is no number is taken for the next one."""
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
        """Return the variables that a shell below this one knows."""
        names = list(self._known) if everything else [name for name in self._exported if name in self._known]
        found = ((name, self._known[name]) for name in names if "[" not in name)
        plain = ((name, values[0].text) for name, values in found if len(values) == 1 and _is_told(values[0]))
        return tuple(itertools.islice(plain, _MOST_PASSED))
