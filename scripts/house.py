"""Print how readable the code base is, in numbers, and fail when a target that was reached is lost again.

`python scripts/house.py` prints the table; `--trace` adds the modules that commands enter; `--check` also exits 1 when
a row is above its bound. A bound is only ever lowered: when a number falls, lower the bound in the same commit. Those
of files and lines alone may rise, with a capability that the same commit adds or a crowded module that it splits.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "reflectloop"
RIDDLE = re.compile(r"(What|Whether|Where|Who|How|Of|By|Those|As|From|Only|None|Before|After|In|The same) ")
# A class named by a bare participle does not say what it is.
PARTICIPLE = re.compile(r"[A-Z][a-z]+(?:ed|en|wn|ld|id|de|ept)$")
NOUNS = frozenset(("Code", "Feed", "Field", "Grade", "Invalid", "Malformed", "Mode", "Node", "Side", "Token"))
BROAD = re.compile(r"^ *except(?: (?:Base)?Exception(?: as \w+)?)?:", re.MULTILINE)
PUBLISHED = (".events", ".errors")  # their names say what happened, and stand in files and answers
BANNED_VARIABLES = ("one", "found", "said", "told", "kept")
# How far each number may go; it is only ever lowered, in the commit that lowers the number. The last two may rise with
# a new capability, by a commit that says so.
BOUNDS = {
    "collisions": 0,
    "participles": 0,
    "riddles": 0,
    "variables": 10,
    "asserts": 7,
    "broad": 37,  # 23 of them guard against code of the project inside the sandbox
    "cycles": 0,
    "single": 144,
    "vitest": 4,
    "files": 693,
    "lines": 118_200,
}

TRACED = {"run": 161, "verify": 118, "tr --all": 243}  # with --trace


class Module(NamedTuple):
    name: str
    path: Path
    tree: ast.Module
    lines: int


class Row(NamedTuple):
    measure: str
    value: float
    bound: float

    @property
    def reached(self) -> bool:
        return self.value <= self.bound


def modules() -> list[Module]:
    """Parse every module of the package except the demo's sample project."""
    source = ROOT / "src" / PACKAGE
    parsed = []
    for path in sorted(source.rglob("*.py")):
        if "sample" in path.parts:
            continue
        text = path.read_text()
        name = ".".join(path.relative_to(source.parent).with_suffix("").parts).removesuffix(".__init__")
        parsed.append(Module(name, path, ast.parse(text), text.count("\n")))
    return parsed


def public_classes(parsed: list[Module]) -> list[str]:
    return [
        node.name
        for module in parsed
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]


def colliding_classes(parsed: list[Module]) -> dict[str, int]:
    """Return every public class name that two modules define, with how many do."""
    return {name: count for name, count in Counter(public_classes(parsed)).items() if count > 1}


def participle_classes(parsed: list[Module]) -> list[str]:
    """Return the public classes that a bare participle names."""
    names = public_classes([module for module in parsed if not module.name.endswith(PUBLISHED)])
    return sorted({name for name in names if PARTICIPLE.match(name) and name not in NOUNS})


def docstrings(parsed: list[Module]) -> Iterator[str]:
    for module in parsed:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield text


def riddles(parsed: list[Module]) -> int:
    """Count the docstrings that open with What, Whether, Of, By and the like."""
    return sum(1 for text in docstrings(parsed) if RIDDLE.match(text))


def banned_variables(parsed: list[Module]) -> int:
    return sum(
        1
        for module in parsed
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in BANNED_VARIABLES
    )


def narrowing_asserts(parsed: list[Module]) -> int:
    return sum(module.path.read_text().count("# noqa: S101") for module in parsed)


def broad_excepts(parsed: list[Module]) -> int:
    """Count handlers of every exception: they belong to the top of a thread or a command, and to foreign code."""
    return sum(len(BROAD.findall(module.path.read_text())) for module in parsed)


def imports_of(module: Module, names: set[str]) -> set[str]:
    """Return the modules of ours that a module imports."""
    out = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                out.add(whole if whole in names else node.module)
        elif isinstance(node, ast.Import):
            out |= {alias.name for alias in node.names}
    return (out & names) - {module.name}


def single_importers(parsed: list[Module]) -> list[str]:
    """Return modules that exactly one other module imports."""
    names = {module.name for module in parsed}
    importers: dict[str, set[str]] = defaultdict(set)
    for module in parsed:
        for target in imports_of(module, names):
            importers[target].add(module.name)
    return sorted(name for name, users in importers.items() if len(users) == 1)


def packages_in_cycles(parsed: list[Module]) -> list[str]:
    """Return every package that imports another one which, directly or through others, imports it.

    A package and the packages inside it count as one direction: what they share lies in the outer one.
    """
    names = {module.name for module in parsed}
    folders = {module.name: _package_of(module) for module in parsed}
    edges: dict[str, set[str]] = defaultdict(set)
    for module in parsed:
        for target in imports_of(module, names):
            if not _contains(folders[target], folders[module.name]):
                edges[folders[module.name]].add(folders[target])
    reach = {package: _reachable(package, edges) for package in set(folders.values())}
    return sorted(
        package for package, others in reach.items() if any(package in reach[other] for other in others - {package})
    )


def _package_of(module: Module) -> str:
    """Return the package of a module; a module at the top is one of its own."""
    package = module.name.rpartition(".")[0]
    return module.name if module.path.name == "__init__.py" or package == PACKAGE else package


def _contains(package: str, other: str) -> bool:
    """Return whether one of the two packages is the other, or lies inside it."""
    return f"{package}.".startswith(f"{other}.") or f"{other}.".startswith(f"{package}.")


def _reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(edges[start])
    while waiting:
        package = waiting.pop()
        if package not in seen:
            seen.add(package)
            waiting += edges[package]
    return seen


def mentions(parsed: list[Module], word: str) -> int:
    return sum(1 for module in parsed if word in module.path.read_text())


def table() -> list[Row]:
    """Measure the package as it is."""
    parsed = modules()
    return [
        Row("public class names defined twice", len(colliding_classes(parsed)), BOUNDS["collisions"]),
        Row("classes named by a bare participle", len(participle_classes(parsed)), BOUNDS["participles"]),
        Row("docstrings that open with a riddle", riddles(parsed), BOUNDS["riddles"]),
        Row("variables called " + ", ".join(BANNED_VARIABLES), banned_variables(parsed), BOUNDS["variables"]),
        Row("asserts that narrow an Optional", narrowing_asserts(parsed), BOUNDS["asserts"]),
        Row("handlers of every exception", broad_excepts(parsed), BOUNDS["broad"]),
        Row("packages in an import cycle", len(packages_in_cycles(parsed)), BOUNDS["cycles"]),
        Row("modules with exactly one importer", len(single_importers(parsed)), BOUNDS["single"]),
        Row("modules that name vitest", mentions(parsed, "vitest"), BOUNDS["vitest"]),
        Row("files", len(parsed), BOUNDS["files"]),
        Row("lines", sum(module.lines for module in parsed), BOUNDS["lines"]),
    ]


def traced() -> list[Row]:
    """Count the modules that three commands enter. It runs them, which takes half a minute."""
    from trace_modules import counts  # noqa: PLC0415

    return [Row(f"modules that `{command}` enters", count, TRACED[command]) for command, count in counts().items()]


def main() -> int:
    rows = table() + (traced() if "--trace" in sys.argv else [])
    width = max(len(row.measure) for row in rows)
    for row in rows:
        mark = "" if row.reached else f"  ABOVE its bound of {row.bound:g}"
        print(f"{row.measure.ljust(width)}  {row.value:g}{mark}")
    lost = [row for row in rows if not row.reached]
    if lost and "--check" in sys.argv:
        print("a target that was reached is lost again; GLOSSARY.md says which words to use", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
