"""The searches of `context`: by a text, a failed run or a change, and for what depends on a file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reflectloop import config, secrets
from reflectloop.context import database, impact, overview, retriever
from reflectloop.context.hit import Hit
from reflectloop.context.overview import ProjectMap
from reflectloop.errors import InvalidInput, NothingToDo
from reflectloop.system import files
from reflectloop.workspace import project
from reflectloop.workspace.folders import Folders, open_project_dirs

_LOGS = 4  # newest logs of a run that are read
_LOG_END = 1 << 14  # bytes


class ContextRequest(NamedTuple):
    """A question of a person or an agent."""

    query: str = ""
    run: str | None = None  # a failed run
    base: str | None = None  # the commit that a change is compared with; "" is the last commit
    tokens: int = retriever.TOKENS
    limit: int = retriever.LIMIT


def search(start: Path, request: ContextRequest) -> list[Hit]:
    """Return the places that belong to a question, a failure or a change."""
    root = _opened(start)
    failure, query, changed = "", request.query, list[str]()
    if request.run is not None:
        query, failure = _of_failure(root, request.run, query)
    if request.base is not None:
        changed = impact.changed_files(root, request.base or None)
        if not changed:
            raise NothingToDo("nothing has changed", next_step="reflectloop context --for-diff BASE")
        with _full_text():
            names = impact.changed_names(root, request.base or None)
        query = "\n".join([query, *(f"`{name}`" for name in names)])
    if not query.strip() and not failure.strip() and not changed:
        raise InvalidInput("there is nothing to search for", next_step='reflectloop context "QUERY"')
    return retriever.retrieve(
        root, query, tokens=request.tokens, limit=request.limit, failure=failure, changed=changed, leave_out=changed
    )


def dependents(start: Path, path: str, *, tokens: int, limit: int) -> list[Hit]:
    """Return what depends on a file of the project."""
    root = _opened(start)
    with _full_text():
        return impact.impact(root, _inside(root, start, path), tokens=tokens, limit=limit)


def show_map(start: Path, tokens: int) -> ProjectMap:
    with _full_text():
        return overview.project_map(_opened(start), tokens)


@contextlib.contextmanager
def _full_text() -> Iterator[None]:
    """Say what is missing if this Python cannot keep an index."""
    try:
        yield
    except database.NoFullText as fault:
        raise InvalidInput("this Python's SQLite has no full-text search (FTS5)") from fault


def _opened(start: Path) -> Path:
    """Return the project's folder, and apply its secret settings to this process."""
    root = project.locate(start)
    secrets.use_detector(secrets.detector_for(config.load(root).secrets, root))
    return root


def _inside(root: Path, start: Path, path: str) -> str:
    """Return a path as the project names it; it may be given from the current folder."""
    for folder in (start.resolve(), Path.cwd(), root):
        whole = (folder / path).absolute()
        if whole.is_relative_to(root) and whole.exists():
            return whole.relative_to(root).as_posix()
    return path


def _of_failure(root: Path, name: str, query: str) -> tuple[str, str]:
    """Return the question and the output of a failed run or verification."""
    folders = open_project_dirs(root)
    folder = folders.find_verification(name) or folders.find_run(name)
    logs = sorted(folder.logs.glob("*.log"), key=lambda path: path.stat().st_mtime_ns)[-_LOGS:]
    texts = [files.last_lines(path, count=400, size=_LOG_END) for path in logs]
    pages = [path for path in (folder.blocker, folder.summary) if path.is_file()]
    texts += [files.last_lines(path, count=200, size=_LOG_END) for path in pages]
    if not any(text.strip() for text in texts):
        raise NothingToDo(f"{folder.run_id} has no output to search by", next_step=f"reflectloop show {folder.run_id}")
    return query or _title(folders, folder.run_id), "\n".join(texts)


def _title(folders: Folders, run_id: str) -> str:
    return next((task.title for task in folders.peek_tasks() if run_id in task.runs), "")
