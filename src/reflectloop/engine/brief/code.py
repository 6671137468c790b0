"""The code that a brief quotes, found by the project's retriever."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from reflectloop.engine.brief.model import CodePart
from reflectloop.engine.steps import code_context


class CodeQuery(NamedTuple):
    """A question to a source of code."""

    text: str
    tokens: int
    failure: str = ""  # the output of a failed command
    changed: tuple[str, ...] = ()


CodeSource = Callable[[CodeQuery], Sequence[CodePart]]


def of_project(root: Path, most_new: int | None = None) -> CodeSource:
    """Return the source of code that asks the project's retriever, which indexes at most so many new files."""

    def find(query: CodeQuery) -> Sequence[CodePart]:
        hits = code_context.find(
            root, query.text, tokens=query.tokens, failure=query.failure, changed=query.changed, most_new=most_new
        )
        return [
            CodePart(
                path=hit.path,
                start_line=hit.start_line,
                end_line=hit.end_line,
                text=hit.text,
                source=hit.source,
                why=hit.why,
            )
            for hit in hits
        ]

    return find


def besides(parts: Iterable[CodePart], known: Iterable[CodePart]) -> tuple[CodePart, ...]:
    """Return the parts that are not within known ones."""
    quoted = [part for part in known if part.text]

    def is_known(part: CodePart) -> bool:
        return any(
            part.path == other.path and other.start_line <= part.start_line and part.end_line <= other.end_line
            for other in quoted
        )

    return tuple(part for part in parts if not is_known(part))
