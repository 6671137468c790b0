"""The project around a patch, read only where a question about it comes up."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from reflectloop.verification.protected.fixtures import parsed
from reflectloop.verification.tampering.powers import names
from reflectloop.verification.tampering.powers.python_uses import PythonUses

_MOST_BYTES = 16 << 20  # bytes of sources that are searched for one power


def _nothing() -> Iterable[tuple[str, bytes]]:
    return ()


def _no_file(_path: str) -> bytes | None:
    return None


def _no_reader(_data: bytes) -> ast.Module | None:
    return None


@dataclass
class SurroundingFiles:
    """Files of base and of the patched tree that are not part of the patch."""

    base_sources: Callable[[], Iterable[tuple[str, bytes]]] = _nothing  # in a fixed order
    head_file: Callable[[str], bytes | None] = _no_file  # None also for folders
    head_folders: frozenset[str] = frozenset()
    packages: frozenset[str] = frozenset()  # top-level modules and packages of the project
    is_fix: bool = False
    read_newer: Callable[[bytes], ast.Module | None] = _no_reader  # parses syntax that the engine's Python lacks
    _sources: list[tuple[str, bytes]] | None = field(default=None, repr=False)
    _had: dict[str, bool] = field(default_factory=dict, repr=False)
    _powers: dict[str, frozenset[str]] = field(default_factory=dict, repr=False)  # by path

    @property
    def is_known(self) -> bool:
        """Return True if the sources of base can be looked at."""
        return bool(self._listed())

    def had(self, power: str) -> bool:
        """Return True if some source of base uses a power."""
        if power not in self._had:
            self._had[power] = any(self._uses(power, path, data) for path, data in self._within_bound())
        return self._had[power]

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
        if not names.mentions(power, data):
            return False
        if not path.endswith(".py"):
            return True
        if path not in self._powers:
            self._powers[path] = self._powers_of(data)
        return power in self._powers[path]

    def _powers_of(self, data: bytes) -> frozenset[str]:
        tree = parsed(data)
        try:
            uses = PythonUses(tree, self.packages).all() if tree is not None else ()
            return frozenset(use.power for use in uses)
        except RecursionError:  # nested too deeply to be read
            return frozenset()
