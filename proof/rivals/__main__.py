"""Puts every submission to every judge, and writes the table."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

from proof.environment import Stage
from proof.paper import Paper
from proof.rivals.judges import RIVALS, install, judges
from proof.rivals.programs import Yard, programs
from proof.rivals.submissions import SUBMISSIONS

RIGHT = "the real fix"
MOST_TIMES = 1.5
PLAIN_RUNS = 3  # of the base twice, since a red test must be red again, and of the patch
ABOUT = (
    "Programs of QuixBugs, each a small project whose tests catch a real bug. The same submissions, laid into the work "
    f"tree, are put to the exit code of pytest, to {RIVALS[0].replace('==', ' ')} and {RIVALS[1].replace('==', ' ')} "
    "from PyPI, and to `reflectloop verify --track fix`. Numbers are accepted submissions. agent-countercheck has the "
    "tests, `pytest.ini` and every `conftest.py` as protected paths and the same test command; checkwash reads the "
    "diff and runs nothing, so that what changes no test passes there by design."
)


def main() -> None:
    chosen = programs()
    kind = os.environ.get("PROOF_KIND", "")
    wanted = {name: make for name, make in SUBMISSIONS.items() if kind in name}
    accepted: dict[tuple[str, str], int] = {}
    seconds: dict[str, list[float]] = {}
    ratios = []
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as name:
        stage = Stage(Path(name).resolve())
        kept = Path(os.environ.get("PROOF_FOLDER") or name).resolve()
        asked = judges(stage, install(stage, kept))
        yard = Yard(stage)
        for program in chosen:
            yard.lay_out(program, program.wrong, program.test)
            for title, make in wanted.items():
                took = {}
                for judge, ask in asked.items():
                    for file, text in make(program).items():
                        yard.write(file, text)
                    yes, took[judge] = ask(yard)
                    yard.back()
                    accepted[title, judge] = accepted.get((title, judge), 0) + yes
                    seconds.setdefault(judge, []).append(took[judge])
                if title == RIGHT:
                    ratios.append(took["reflectloop"] / (PLAIN_RUNS * took["exit code of pytest"]))
            print(f"  {program.name}: {_line(accepted, wanted, asked)}", flush=True)
    _report(
        wanted, list(asked), accepted, seconds, ratios, len(chosen), whole=not kind and "PROOF_ONLY" not in os.environ
    )


def _line(accepted: dict[tuple[str, str], int], titles: Mapping[str, object], asked: Mapping[str, object]) -> str:
    return "; ".join(f"{title}: {[accepted[title, judge] for judge in asked]}" for title in titles)


def _report(
    titles: Mapping[str, object],
    names: list[str],
    accepted: dict[tuple[str, str], int],
    seconds: dict[str, list[float]],
    ratios: list[float],
    number: int,
    *,
    whole: bool,
) -> None:
    paper = Paper("rivals", ABOUT)
    if RIGHT in titles:
        fixes = accepted[RIGHT, "reflectloop"]
        paper.claim("every real fix is accepted", f"{fixes} of {number}", holds=fixes == number)
        cost = statistics.median(ratios)
        text = (
            f"a verification of a fix takes at most {MOST_TIMES} times as long as the {PLAIN_RUNS} plain runs it needs"
        )
        paper.claim(text, f"median {cost:.1f} times, on suites of about a second", holds=cost <= MOST_TIMES)
    wrong = {title: accepted[title, "reflectloop"] for title in titles if title != RIGHT}
    told = "; ".join(f"{title}: {count}" for title, count in wrong.items() if count)
    seen = f"{sum(wrong.values())} of {number * len(wrong)}" + (f": {told}" if told else "")
    paper.claim("no other submission is accepted", seen, holds=not sum(wrong.values()))
    rows = [[title, *(str(accepted[title, judge]) for judge in names)] for title in titles]
    rows.append(["median seconds", *(f"{statistics.median(seconds[judge]):.1f}" for judge in names)])
    paper.table([f"submission, accepted of {number}", *names], rows)
    for row in rows:
        print(f"  {row[0]:36}" + "".join(f"{cell:>22}" for cell in row[1:]), flush=True)
    if whole:
        paper.write()


if __name__ == "__main__":
    main()
