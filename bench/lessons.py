"""Measures finding one of many lessons: the search, the reading back, the index rebuilt, and what a change costs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.ground import Ground
from bench.table import Measure, Row, Section
from reflectloop.lessons import index, lesson_page, lesson_recall, lesson_store, lesson_words
from reflectloop.lessons.lesson import KINDS, Occurrence, Page
from reflectloop.lessons.lesson_files import LessonDir
from reflectloop.lessons.lesson_store import NewLesson

_SEARCH_BAR_S, _REBUILD_BAR_S = 0.05, 10.0
_RUNS = 1000
_QUERIES = (
    "parser timeout",
    "how does the network retry the parsing of responses",
    "lesson777",
    "cacheSession configResponse",
    "renable",
)
_STEMS = "par ser clo net buf tok ind val que ren sch map ret fil lin cop win gat mem pul".split()  # noqa: SIM905
_ENDS = "er ing ed ion ize able ment al ous ive".split()  # noqa: SIM905
_WORDS = [
    *(stem + end for stem in _STEMS for end in _ENDS),
    *"network timeout cache retry parse response config session parser".split(),  # noqa: SIM905
]


def measure(ground: Ground) -> Section:
    count = 2_000 if ground.quick else 20_000
    lesson_dir = LessonDir(ground.disk / "lessons" / "knowledge", ground.disk / "lessons" / "desk")
    _fill(lesson_dir, count)
    rebuild = _spent(lambda: lesson_store.read(lesson_dir))
    searching = {
        query: min(_spent(partial(lesson_store.search, lesson_dir, query)) for _ in range(5)) for query in _QUERIES
    }
    slowest = max(searching, key=searching.__getitem__)
    recall = min(_spent(lambda: lesson_recall.recall([lesson_dir], "step", _QUERIES[1])) for _ in range(5))
    told = lesson_words.count(lesson_recall.recall([lesson_dir], "step", _QUERIES[1]).text)
    change = _changed(lesson_dir)
    size = (lesson_dir.cache / index.NAME).stat().st_size / 1e6
    notes = [
        f"{count:,} pages of 50 words, seen by {_RUNS:,} runs; CPU time. The index takes {size:.0f} MB.",
        "The floor of a bar is the bar itself: a ratio below 1 is within it.",
        f"The slowest of {len(_QUERIES)} queries is shown: {slowest!r}.",
        f"What is read back has {told} of {lesson_recall.BUDGET} words.",
    ]
    bar, made = Measure("bar", _SEARCH_BAR_S), Measure("bar", _REBUILD_BAR_S)
    rows = [
        Row("search", Measure("", searching[slowest]), floor=bar, limit=1.0),
        Row("reading back before a step", Measure("", recall), floor=bar, limit=1.0),
        Row("index rebuilt", Measure("", rebuild), floor=made, limit=1.0),
        Row("search right after a new lesson", Measure("", change)),
    ]
    return Section("lessons: one of many", notes, rows)


def _spent(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _changed(lesson_dir: LessonDir) -> float:
    page = Page(kind="pattern", title="brand new")
    lesson_store.add_lessons(lesson_dir, [NewLesson(page, Occurrence(lesson=page.id))], "S-new")
    return _spent(lambda: lesson_store.search(lesson_dir, "brand new"))


def _fill(lesson_dir: LessonDir, count: int) -> None:
    chance = random.Random(1)  # noqa: S311
    seen: list[list[str]] = [[] for _ in range(_RUNS)]
    for number in range(count):
        page = Page(
            kind=chance.choice(KINDS[:7]),
            title=" ".join([*chance.choices(_WORDS, k=6), f"lesson{number}"]),
            body=" ".join(chance.choices(_WORDS, k=40)),
            keywords=tuple(chance.choices(_WORDS, k=3)),
            reusable=number % 2 == 0,
        )
        _write(lesson_dir.folder / lesson_page.name(page), lesson_page.text(page))
        run = number % _RUNS
        occurrence = Occurrence(lesson=page.id, at="2026-01-01T00:00:00.000Z", run=f"RLOP-{run}")
        seen[run].append(occurrence.model_dump_json(exclude_defaults=True) + "\n")
    for run, lines in enumerate(seen):
        _write(lesson_dir.folder / "sightings" / f"RLOP-{run}.jsonl", "".join(lines))
    time.sleep(0.1)  # so that the index need not ask again whether more came in the same tick


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
