"""What a project of this proof is: a real package, how its suite starts, and where it is broken."""

from __future__ import annotations

from typing import Literal, NamedTuple

HOLE = "§"  # where the right or the wrong expression stands in the text of a bug

Language = Literal["python", "javascript", "c"]
Runner = Literal["pytest", "unittest", "mocha", "jest", "node", "tape", "ctest"]
Origin = Literal["sdist", "npm", "debian"]


class Bug(NamedTuple):
    """A small mutation of one expression."""

    file: str
    around: str
    right: str
    wrong: str

    def text(self, expression: str) -> str:
        return self.around.replace(HOLE, expression)


class Failing(NamedTuple):
    """A test that catches the bug: its file, its name without parameters, and its class."""

    file: str
    name: str
    group: str = ""
    ids: tuple[str, ...] = ()  # as the runner names it, one for each set of parameters


class Swap(NamedTuple):
    """Text put in the place of other text."""

    file: str
    old: str
    new: str


class Recipe(NamedTuple):
    name: str
    version: str
    kind: str
    language: Language
    runner: Runner
    origin: Origin
    plain: str  # what a person types to run the tests
    bug: Bug
    other: Bug  # a second one, caught by other tests
    failing: tuple[Failing, ...] = ()  # said here where it is not read from the runner's output
    package: str = ""  # its name where it comes from, if it is another
    archive: str = ""  # the name of its archive, if it is another
    needs: tuple[str, ...] = ()
    install: tuple[str, ...] = ("-e", ".")
    system_site: bool = False
    imports: str = ""  # the folder on Python's path
    config: str = ""  # the file in which its runner is configured
    settings: str = ""  # our reflectloop.toml
    scripts: tuple[tuple[str, str], ...] = ()  # of package.json, without linters and type checkers
    removed: tuple[str, ...] = ()
    swaps: tuple[Swap, ...] = ()  # of ours, before the first commit
    ignored: tuple[str, ...] = (".venv",)
    data: tuple[Swap, ...] = ()  # cuts the data of the failing test
    expected: tuple[Swap, ...] = ()  # makes the failing test expect what the bug gives
    cut: tuple[Swap, ...] = ()  # cuts the list of parameters, where it is not written in the decorator
    special: str = ""  # an expression, at the bug, that holds for the inputs of the failing tests alone
    answers: tuple[Swap, ...] = ()  # writes the expected answers into the source
    quiet: tuple[Swap, ...] = ()  # takes the failing examples out of the documentation
    catches: str = ""  # a test of ours that catches the bug
    fresh: tuple[str, str] = ("", "")  # a new test file, and how it begins

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def layout(self) -> str:
        """All that a project on disk is made from; when it changes, the project is laid out again."""
        parts = (self.wanted, self.version, self.bug, self.needs, self.install, self.system_site, self.settings)
        return repr((*parts, self.scripts, self.removed, self.swaps, self.ignored))

    @property
    def wanted(self) -> str:
        return self.package or self.name
