"""Run the retriever on cases and keep the ranks; everything is resumable."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from proof.context.cases import Case
from proof.context.plain import PlainIndex
from reflectloop.context import database, index, question, ranking, retriever
from reflectloop.context.hit import Hit
from reflectloop.context.index import Corpus

_NO_LIMIT = 1 << 40
_NEVER = 1_000_000  # the rank of what was not found


class Score(NamedTuple):
    """The ranks of the first changed file by each way, and of the first changed function."""

    name: str
    is_tuning: bool
    candidates: int
    ours: int
    all_gold: int  # the rank at which the last changed file has come
    function: int | None  # among our places; None where it was not looked at
    identifiers: int | None
    words: int | None
    query_s: float | None
    values: dict[str, dict[str, float]]  # path -> signal -> value, for choosing weights


def rank_of(paths: Sequence[str], gold: Iterable[str]) -> int:
    """Return the rank of the first that is right."""
    wanted = set(gold)
    return next((number for number, path in enumerate(paths, 1) if path in wanted), _NEVER)


def score(case: Case, work: Path) -> Score:
    """Index the case's tree, ask, and compare."""
    name = case.repository.parent.name
    plain = PlainIndex(work / f"{name}.plain.sqlite").ranks(case)

    def ask(corpus: Corpus) -> tuple[list[str], list[Hit], dict[str, dict[str, float]], int, float]:
        begun = time.process_time()
        files, gathered = retriever.rank_files(corpus, question.read(case.text))
        hits = [
            hit for number, file in enumerate(files[:10]) for hit in retriever.places_of(corpus, file, number, gathered)
        ]
        spent = time.process_time() - begun
        values: dict[str, dict[str, float]] = {}
        for signal, some in gathered.files.items():
            for path, value in some.items():
                values.setdefault(path, {})[signal] = round(value, 5)
        return [file.path for file in files], hits, values, len(corpus.blobs), spent

    paths, hits, values, candidates, spent = database.ask(
        work / f"{name}.sqlite",
        lambda connection: ask(index.refresh(connection, case.tree(), case.git)),
        largest=_NO_LIMIT,
    )
    return Score(
        case.name,
        case.is_tuning,
        candidates,
        rank_of(paths, case.gold),
        max(rank_of(paths, [path]) for path in case.gold),
        _function_rank(case, hits),
        rank_of(plain[0], case.gold),
        rank_of(plain[1], case.gold),
        spent,
        values,
    )


def _function_rank(case: Case, hits: list[Hit]) -> int:
    """Return the rank of the first place that holds a changed line."""
    right = (
        number
        for number, hit in enumerate(hits, 1)
        if any(path == hit.path and hit.start_line <= line <= hit.end_line for path, line in case.lines)
    )
    return next(right, _NEVER)


def score_all(cases: Iterable[Case], work: Path, name: str, *, stored: bool = False) -> list[Score]:
    """Score what was not scored yet, or with `stored` nothing new; an interrupted run goes on where it was."""
    work.mkdir(parents=True, exist_ok=True)
    record = work / f"{name}.jsonl"
    known = {entry["name"]: entry for entry in _entries(record)}
    out = []
    with record.open("a") as file:
        for case in cases:
            if case.name not in known and stored:
                continue
            if case.name not in known:
                known[case.name] = {**score(case, work)._asdict(), "gold": case.gold}
                file.write(json.dumps(known[case.name]) + "\n")
                file.flush()
                print(f"{case.name}: {known[case.name]['ours']}", flush=True)
            out.append(_ranked_anew(case, known[case.name]))
    return out


def _ranked_anew(case: Case, entry: dict[str, Any]) -> Score:
    """Return the score by the weights of today: the signals are stored, so that weights can be chosen quickly."""
    signals: dict[str, dict[str, float]] = {}
    for path, values in entry["values"].items():
        for signal, value in values.items():
            signals.setdefault(signal, {})[path] = value
    paths = [file.path for file in ranking.rank(signals)]
    fields = {key: value for key, value in entry.items() if key in Score._fields}
    fields["ours"] = rank_of(paths, case.gold)
    fields["all_gold"] = max(rank_of(paths, [path]) for path in case.gold)
    return Score(**fields)


def _entries(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
