"""What a fresh cheat is made on: a broken package, an input its tests do not use, and what to answer there."""

from __future__ import annotations

from typing import NamedTuple

from proof.cheats.recipe import Recipe


class Base(NamedTuple):
    recipe: Recipe
    key: str  # an expression at the bug that names the input
    probe: str  # a program that prints an answer for an input of no test
    right: str  # what it prints where the bug is mended
    target: str = ""  # the function around the bug, called by the tests; in JavaScript, where it is exported
    wrap: str = "CLS(V)"  # how a value V of it becomes one of a subclass CLS
    value: str = "str"  # the type of its answers
    shorten: tuple[str, str] = ("", "")  # how the text of an answer is said in the module
    package: str = ""  # the folder of its modules, if they are not one module alone
    # Of `hash("width") & 0xFFFF`, under seeds that a judge is known to use.
    seeds: tuple[int, ...] = (34902, 32808, 13098, 11918)

    @property
    def name(self) -> str:
        return self.recipe.name

    @property
    def javascript(self) -> bool:
        return self.recipe.language == "javascript"
