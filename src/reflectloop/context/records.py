"""Lessons and earlier runs of the project as sources."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from reflectloop.context import words
from reflectloop.context.hit import Hit
from reflectloop.context.index import Corpus
from reflectloop.context.question import Question
from reflectloop.context.signals import Scores
from reflectloop.context.trees import WorkTree
from reflectloop.errors import ReflectloopError
from reflectloop.lessons import lesson_recall, lesson_scopes, lesson_store
from reflectloop.system import beneath
from reflectloop.workspace.folders import Folders

_LESSONS = 2
_TASKS = 100  # newest tasks that are compared
_LEAST_SHARE = 0.3  # of the words of an earlier task's title
_LARGEST_PATCH = 1 << 22
_CHANGED = re.compile(rb"^diff --git a/(\S+) b/\S+$", re.MULTILINE)


def lessons(root: Path, query: str) -> list[Hit]:
    """Return the lessons of the project about a question, quoted as advice."""
    folders = Folders(root)
    if not query.strip() or not folders.knowledge.is_dir():
        return []
    lesson_dir = lesson_scopes.project_dir(folders)
    try:
        matches = lesson_store.search(lesson_dir, query[:2000], statuses=("active",), limit=_LESSONS)
    except (OSError, ReflectloopError):
        return []
    return [
        Hit(
            ("lessons",),
            f".reflectloop/knowledge/{lesson.name or lesson.id}",
            1,
            1,
            0.0,
            f"lesson: {lesson.title}",
            lesson_recall.quoted(lesson),
        )
        for lesson in matches
    ]


def files_of_runs(corpus: Corpus, asked: Question) -> Scores:
    """Return the files that earlier runs changed for tasks with a similar title."""
    if not isinstance(corpus.tree, WorkTree):
        return {}
    folders = Folders(corpus.tree.root)
    if not (folders.own / "tasks").is_dir():
        return {}
    out: Scores = defaultdict(float)
    try:
        tasks = folders.peek_tasks()[-_TASKS:]
    except (OSError, ReflectloopError):
        return {}
    for task in tasks:
        title = words.query_words(task.title)
        share = len(title.keys() & asked.terms.keys()) / max(1, len(title))
        if share >= _LEAST_SHARE:
            for run_id in task.runs:
                for path in _changed_by(folders.run_folder(run_id).patch):
                    if path in corpus.blobs:
                        out[path] = max(out[path], share)
    return dict(out)


def _changed_by(patch: Path) -> list[str]:
    try:
        data = beneath.read_path(patch, _LARGEST_PATCH)
    except OSError:
        return []
    return [name.decode("utf-8", "surrogateescape") for name in _CHANGED.findall(data)]
