"""Diagnosis of failures that were really caused, labelled by how: what is developed on, and what is only scored."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from proof.failures import causing, corpus
from proof.failures.ground import Log
from proof.paper import Paper
from reflectloop.diagnosis import diagnosis
from reflectloop.diagnosis import log_diagnosis as flow

_FEWEST, _BAR = 150, 0.9


class Score(NamedTuple):
    logs: int
    category: float
    needs: float


def told(log: Log) -> tuple[str, str]:
    failure = flow.diagnose_log(log.text, exit_code=log.exit_code, rules=diagnosis.shipped()).failure
    return (failure.category, failure.needs) if failure else ("", "")


def score(logs: list[Log]) -> Score:
    pairs = [(told(log), log.scenario.label) for log in logs]
    return Score(
        len(pairs),
        sum(said[0] == label[0] for said, label in pairs) / len(pairs),
        sum(said[1] == label[1] for said, label in pairs) / len(pairs),
    )


def _claim(paper: Paper, what: str, seen: Score) -> None:
    numbers = f"{seen.logs} logs: category {seen.category:.3f}, needs {seen.needs:.3f}"
    paper.claim(what, numbers, holds=min(seen.category, seen.needs) >= _BAR)


def by_cause(paper: Paper, logs: list[Log]) -> None:
    groups: dict[str, list[Log]] = defaultdict(list)
    for log in logs:
        groups[log.scenario.cause].append(log)
    rows = [
        [
            cause,
            "/".join(some[0].scenario.label),
            str(len(some)),
            f"{sum(told(log) == log.scenario.label for log in some)}",
        ]
        for cause, some in sorted(groups.items())
    ]
    paper.table(["how it was caused", "label", "logs", "both right"], rows)


def main() -> None:
    paper = Paper(
        "diagnosis",
        "Failures really caused (proof/failures/*.toml), labelled by their cause. A third, chosen by a hash of the "
        "scenario's name, is only scored: rules are written from knowledge of tools and from the other two thirds. "
        "Scenarios and rules have one author: the figures say how far rules reach, not what nobody thought of.",
    )
    logs = causing.logs(corpus.scenarios())
    paper.claim(f"at least {_FEWEST} logs of real failures", str(len(logs)), holds=len(logs) >= _FEWEST)
    _claim(paper, "developed on", score([log for log in logs if not log.scenario.held_aside]))
    _claim(paper, "held aside", score([log for log in logs if log.scenario.held_aside]))
    by_cause(paper, logs)
    paper.write()


if __name__ == "__main__":
    main()
