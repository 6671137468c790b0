"""The project around a patch, read only where a question about it comes up."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from reflectloop.verification.protected.fixtures import parsed
from reflectloop.verification.protected.names import IMPORT_ROOTS
from reflectloop.verification.tampering.added import JAVASCRIPT, ending
from reflectloop.verification.tampering.powers import javascript_names, names
from reflectloop.verification.tampering.powers.javascript import javascript_uses
from reflectloop.verification.tampering.powers.python_uses import PythonUses

_LONGEST_JAVASCRIPT = 1 << 17  # bytes of a source that is parsed; bundles are longer
_MOST_BYTES = 16 << 20  # bytes of sources that are searched for one power
_IMPORT = re.compile(rb"^[ \t>.]*(?:from[ \t]+(\w+)|import[ \t]+([^\r\n#;]+))", re.MULTILINE)


def _nothing() -> Iterable[tuple[str, bytes]]:
    return ()


def _no_file(_path: str) -> bytes | None:
    return None


def _no_folder(_path: str) -> bool:
    return False


def imported_names(texts: Iterable[bytes]) -> frozenset[str]:
    """Return the first words of the modules that some sources import by an absolute name."""
    rows = [match for data in texts for match in _IMPORT.findall(data)]
    words = [word.split()[0].split(b".")[0] for _, several in rows for word in several.split(b",") if word.strip()]
    return frozenset(word.decode(errors="replace") for word in (*words, *(name for name, _ in rows)))


def _no_reader(_data: bytes) -> ast.Module | None:
    return None


@dataclass
class SurroundingFiles:
    """Files of base and of the patched tree that are not part of the patch."""

    base_sources: Callable[[], Iterable[tuple[str, bytes]]] = _nothing  # in a fixed order
    base_tests: Callable[[], Iterable[tuple[str, bytes]]] = _nothing  # which show what is imported
    head_file: Callable[[str], bytes | None] = _no_file  # None also for folders
    is_head_folder: Callable[[str], bool] = _no_folder
    packages: frozenset[str] = frozenset()  # top-level modules and packages of the project
    is_fix: bool = False
    read_newer: Callable[[bytes], ast.Module | None] = _no_reader  # parses syntax that the engine's Python lacks
    _sources: list[tuple[str, bytes]] | None = field(default=None, repr=False)
    _had: dict[tuple[str, bool], bool] = field(default_factory=dict, repr=False)
    _names: frozenset[str] | None = field(default=None, repr=False)  # top-level modules that base imports
    _powers: dict[str, frozenset[str]] = field(default_factory=dict, repr=False)  # by path

    @property
    def is_known(self) -> bool:
        """Return True if the sources of base can be looked at."""
        return bool(self._listed())

    def had(self, power: str, *, beside: bool) -> bool:
        """Return True if some source of base uses a power. What only set-up code could do is news in a library."""
        if (power, beside) not in self._had:
            self._had[power, beside] = any(
                self._uses(power, path, data) and (beside or not self.is_beside(path))
                for path, data in self._within_bound()
            )
        return self._had[power, beside]

    def is_beside(self, path: str, more: frozenset[str] = frozenset()) -> bool:
        """Return True for a Python file in no package that base and `more` do not import: setup.py, a script."""
        *folders, name = path.split("/")
        if not name.endswith(".py") or (len(folders) > 1 and folders[0] in IMPORT_ROOTS):
            return False
        if self._names is None:
            self._names = imported_names(data for _, data in (*self._listed(), *self.base_tests()))
        package = "/".join((*folders, "__init__.py"))
        return not (
            {*folders, name[:-3]} & (self._names | more) or any(other == package for other, _ in self._listed())
        )

    def module(self, data: bytes | None) -> ast.Module | None:
        """Return the parsed module, by the project's Python if the engine's cannot read it."""
        tree = parsed(data)
        return self.read_newer(data) if tree is None and data is not None else tree

    def _listed(self) -> list[tuple[str, bytes]]:
        if self._sources is None:
            self._sources = list(self.base_sources())
        return self._sources

    def _within_bound(self) -> Iterator[tuple[str, bytes]]:
        room = _MOST_BYTES
        for path, data in self._listed():
            room -= len(data)
            if room < 0:
                return
            yield path, data

    def _uses(self, power: str, path: str, data: bytes) -> bool:
        is_javascript = ending(path) in JAVASCRIPT and len(data) <= _LONGEST_JAVASCRIPT
        if is_javascript and not javascript_names.mentions(power, data):
            return False
        if not is_javascript and not names.mentions(power, data, in_python=path.endswith(".py")):
            return False
        if not path.endswith(".py") and not is_javascript:
            return True
        if path not in self._powers:
            self._powers[path] = self._powers_of(data, is_javascript=is_javascript)
        return power in self._powers[path]

    def _powers_of(self, data: bytes, *, is_javascript: bool) -> frozenset[str]:
        try:
            if is_javascript:
                return frozenset(use.power for use in javascript_uses(data))
            tree = parsed(data)
            uses = PythonUses(tree, self.packages).all() if tree is not None else ()
            return frozenset(use.power for use in uses)
        except RecursionError:  # nested too deeply to be read
            return frozenset()
