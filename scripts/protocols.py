"""Makes docs/protocols.md from tests/seeds/requirements.toml, and finds rows whose tests do not exist."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
SOURCE = TESTS / "seeds" / "requirements.toml"
_FIELDS = 5

_HEAD = """# The five protocols, requirement by requirement

reflectloop implements five protocol documents. Each row is one requirement: the lines of the document, what it asks in
short, the command or place that shows it, the tests that would fail without it, and where we differ and why. Samples of
the documents are in `tests/seeds/data/`, word for word. The table is made from `tests/seeds/requirements.toml`; `make
check` fails if it is out of date or names a test that does not exist.
"""


class Requirement(NamedTuple):
    document: str
    lines: str
    asks: str
    shown_by: str
    tests: tuple[str, ...]
    different: str


def requirements() -> list[Requirement]:
    documents = tomllib.loads(SOURCE.read_text(encoding="utf-8"))["document"]
    return [_requirement(document["id"], row) for document in documents for row in document["rows"]]


def _requirement(document: str, row: list[str]) -> Requirement:
    if len(row) != _FIELDS:
        raise ValueError(f"{SOURCE.name}: {document}: a row has {_FIELDS} fields: {row}")
    lines, asks, shown_by, tests, different = row
    return Requirement(document, lines, asks, shown_by, tuple(tests.split()), different)


def faults() -> Iterator[str]:
    """Yield what is wrong with the rows: a test that does not exist, or a row with neither a test nor a reason."""
    for row in requirements():
        place = f"{row.document} line {row.lines}"
        if not row.tests and not row.different:
            yield f"{place}: names neither a test nor why we differ"
        for test in row.tests:
            file, _, name = test.partition("::")
            if name not in _collected(file):
                yield f"{place}: there is no test {test}"


@cache
def _collected(file: str) -> frozenset[str]:
    """Return the tests that pytest collects from a file: functions at its top that are named so."""
    path = TESTS / file
    if not path.is_file() or not path.name.startswith("test_"):
        return frozenset()
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


def page(head: str) -> str:
    """Return the page; raise ValueError with every fault of the rows."""
    wrong = list(faults())
    if wrong:
        raise ValueError("\n".join(wrong))
    rows = requirements()
    titles = {entry["id"]: entry["title"] for entry in tomllib.loads(SOURCE.read_text(encoding="utf-8"))["document"]}
    parts = [head + _HEAD]
    counts = [f"| {name} {title} | {_count(rows, name)} |" for name, title in titles.items()]
    parts.append("\n".join(["| document | requirements, with tests, different |", "|---|---|", *counts]) + "\n")
    for name, title in titles.items():
        table = ["| lines | the document asks | shown by | tests | where we differ |", "|---|---|---|---|---|"]
        table += [_row(row) for row in rows if row.document == name]
        parts.append(f"## {name} {title}\n\n" + "\n".join(table) + "\n")
    return "\n".join(parts)


def _count(rows: list[Requirement], name: str) -> str:
    mine = [row for row in rows if row.document == name]
    return f"{len(mine)}, {sum(bool(row.tests) for row in mine)}, {sum(bool(row.different) for row in mine)}"


def _row(row: Requirement) -> str:
    tests = "<br>".join(f"`{test}`" for test in row.tests) or "none"
    cells = (row.lines, row.asks, f"`{row.shown_by}`", tests, row.different)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
