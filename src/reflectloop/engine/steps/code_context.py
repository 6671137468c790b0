"""Asks the project's retriever for code, and quotes what it finds as data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from reflectloop.context.hit import Hit
from reflectloop.engine.steps import prompts
from reflectloop.errors import ReflectloopError
from reflectloop.system.git import GitFailed
from reflectloop.workspace.project import OWN_FOLDER

TOKENS = 3_000
_QUERY = 4_000  # characters
_FAILURE = 16_000
_MAP_LINE = 300


def find(
    root: Path,
    query: str,
    *,
    tokens: int = TOKENS,
    failure: str = "",
    changed: Sequence[str] = (),
    leave_out: Collection[str] = (),
    most_new: int | None = None,
) -> list[Hit]:
    """Return the places of a project that a text is about, without lessons; none if it cannot be searched."""
    from reflectloop.context import retriever  # noqa: PLC0415 - loads parsers

    try:
        hits = retriever.retrieve(
            root,
            query[:_QUERY],
            tokens=tokens,
            failure=failure[-_FAILURE:],
            changed=changed,
            leave_out=leave_out,
            most_new=most_new,
        )
    except (OSError, GitFailed, ReflectloopError):
        return []
    return [hit for hit in hits if not hit.path.startswith(f"{OWN_FOLDER}/")]


def quoted(root: Path, query: str, *, tokens: int = TOKENS, failure: str = "", leave_out: Collection[str] = ()) -> str:
    """Return the same as text for a prompt: code as data, and the names of further places."""
    hits = find(root, query, tokens=tokens, failure=failure, leave_out=leave_out)
    parts = [prompts.quoted(place(hit), hit.text) for hit in hits if hit.text]
    others = [f"{place(hit)} ({prompts.one_line(hit.why, 200)})" for hit in hits if not hit.text]
    parts += [prompts.quoted("other places", "\n".join(others))] if others else []
    return "\n\n".join([prompts.CODE, *parts]) if parts else ""


def map_of(root: Path, tokens: int) -> str:
    """Return the project in a few lines: its parts, and the files that most others depend on; empty if unreadable."""
    from reflectloop.context import overview  # noqa: PLC0415 - loads parsers
    from reflectloop.context.database import NoFullText  # noqa: PLC0415

    try:
        project = overview.project_map(root, tokens)
    except (OSError, GitFailed, NoFullText, ReflectloopError):
        return ""
    lines = [
        f"{part}: {', '.join(f'{kind} {count}' for kind, count in kinds.items())}"
        for part, kinds in project.parts.items()
    ]
    lines += [f"{path}: {', '.join(names)}".rstrip(": ") for path, names in project.important]
    return "\n".join(prompts.one_line(line, _MAP_LINE) for line in lines)


def place(hit: Hit) -> str:
    return f"{prompts.one_line(hit.path)}:{hit.start_line}-{hit.end_line}"
