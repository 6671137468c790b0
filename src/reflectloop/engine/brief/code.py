"""The code that a brief quotes, found by the project's retriever."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from reflectloop.context import retriever
from reflectloop.engine.brief.model import CodePart
from reflectloop.errors import ReflectloopError
from reflectloop.workspace.project import OWN_FOLDER


class CodeQuery(NamedTuple):
    """A question to a source of code."""

    text: str
    tokens: int
    failure: str = ""  # the output of a failed command
    changed: tuple[str, ...] = ()


CodeSource = Callable[[CodeQuery], Sequence[CodePart]]


def of_project(root: Path) -> CodeSource:
    """Return the source of code that asks the retriever; a project that it cannot read gives none."""

    def find(query: CodeQuery) -> Sequence[CodePart]:
        try:
            hits = retriever.retrieve(
                root, query.text, tokens=query.tokens, failure=query.failure, changed=query.changed
            )
        except (OSError, ReflectloopError):
            return ()
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
            if not hit.path.startswith(f"{OWN_FOLDER}/")  # lessons are told by themselves
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
