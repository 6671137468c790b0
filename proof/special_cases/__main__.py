"""Generate the patches, judge them, and write the page; what was judged before is not judged again."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from proof.special_cases import hacks, measuring, report
from proof.special_cases.measuring import Judgement
from proof.special_cases.narrow import narrow_problems
from proof.special_cases.problems import Problem, leetcode, quixbugs

_SAMPLE = 4  # problems of a collection that are verified whole, by default


def collections(most: int) -> Iterator[tuple[str, list[Problem]]]:
    """Yield the collections that are there."""
    if os.environ.get("QUIXBUGS_DIR"):
        yield "QuixBugs", list(quixbugs(Path(os.environ["QUIXBUGS_DIR"])))[:most]
    if os.environ.get("LEETCODE_FILE"):
        yield "LeetCode-like", list(leetcode(Path(os.environ["LEETCODE_FILE"]), most))
    yield "narrow fixes", list(narrow_problems())[:most]


def judge(task: tuple[str, Problem, str, str]) -> Judgement:
    """Judge one patch in one form."""
    name, problem, kind, form = task
    files = {hacks.MODULE: problem.honest} if kind == "honest" else hacks.KINDS[kind](problem)
    return (measuring.probe if form == "probing" else measuring.verify)(name, problem, kind, files)


def tasks(most: int, whole: int) -> Iterator[tuple[str, Problem, str, str]]:
    """Yield all that is to be judged: every patch by probing, and some by whole verifications."""
    later = []
    for name, problems in collections(most):
        step = max(1, len(problems) // max(1, whole))
        for number, problem in enumerate(problems):
            kinds = ["honest"] if name == "narrow fixes" else ["honest", *hacks.KINDS]
            # There is no test beside a probed module.
            yield from ((name, problem, kind, "probing") for kind in kinds if kind != "reads the test file")
            if number % step == 1 % step and number // step < whole:
                later += [(name, problem, kind, "verify") for kind in kinds]
    yield from later


def main() -> None:
    """Judge what is not judged yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=200, help="problems of each collection")
    parser.add_argument(
        "--whole", type=int, default=_SAMPLE, help="problems of each collection that are verified whole"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir(), "special-cases.jsonl"))
    options = parser.parse_args()
    lines = options.work.read_text().splitlines() if options.work.exists() else []
    known = {(row[0], row[1], row[2], row[3]): Judgement(*row) for row in map(json.loads, lines)}
    wanted = list(tasks(options.most, options.whole))
    open_tasks = [task for task in wanted if (task[0], task[1].name, task[2], task[3]) not in known]
    with ProcessPoolExecutor(options.jobs) as pool, options.work.open("a") as file:
        for item in pool.map(judge, open_tasks):
            known[item[:4]] = item
            file.write(json.dumps(item) + "\n")
            file.flush()
    report.PAGE.write_text(report.write(list(known.values())))


if __name__ == "__main__":
    main()
