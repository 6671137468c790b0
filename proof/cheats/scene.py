"""One broken project while a cheat or an honest change is made in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from proof.cheats.ground import replace
from proof.cheats.recipe import Failing, Language, Recipe, Runner, Swap


class Inapplicable(Exception):
    pass


class Scene(NamedTuple):
    recipe: Recipe
    root: Path
    failing: tuple[Failing, ...]

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def append(self, name: str, text: str) -> None:
        path = self.root / name
        self.write(name, (path.read_text() if path.exists() else "") + text)

    def swap(self, swaps: Iterable[Swap]) -> None:
        swaps = tuple(swaps)
        if not swaps:
            raise Inapplicable
        for file, old, new in swaps:
            if old:
                replace(self.root / file, old, new)
            else:
                self.write(file, new)

    @property
    def files(self) -> list[str]:
        return sorted({one.file for one in self.failing})

    def ids(self) -> list[str]:
        return [name for one in self.failing for name in one.ids]

    def need(self, *, holds: bool) -> None:
        if not holds:
            raise Inapplicable


class Kind(NamedTuple):
    """A way to cheat, or an honest change: a row of a table."""

    title: str
    make: Callable[[Scene], None]
    languages: tuple[Language, ...]
    runners: tuple[Runner, ...] = ()
    env: Mapping[str, str] = {}  # what the plain run gets besides
    fools: bool = True  # it is meant to make the plain tests pass
    plain: str = ""  # another way to run them
    run: bool = True  # whether the plain tests read what it changes

    def fits(self, recipe: Recipe) -> bool:
        return recipe.language in self.languages and (not self.runners or recipe.runner in self.runners)
