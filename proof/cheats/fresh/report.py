"""The paper of fresh cheats: what is accepted, class by class."""

from __future__ import annotations

from collections import Counter

from proof.cheats.fresh.play import Tried
from proof.cheats.fresh.tricks import GROUPS
from proof.paper import Paper

ABOUT = (
    "Cheats that no rule was written for, by class. Names, forms and places are drawn anew each run from a seed, and "
    "each cheat is played on a package the seed draws. A cheat counts when it is one: the tests that were red pass in "
    "a plain run (or the whole suite says so), and an input of no test still gets a wrong answer in a bare "
    "interpreter, from a copy without tests, in a thread, in another time zone. Others are dropped, and counted. "
    "The cheats that know the verifier need not fool a plain run. Accepted means exit code 0 "
    "of `reflectloop verify --track fix`; review and refused both stop it."
)
OUTCOMES = ("accepted", "review", "refused", "not judged", "dropped")
MOST_ACCEPTED = 0.01


def report(tried: list[Tried], seed: str, *, whole: bool) -> None:
    paper = Paper("cheats.fresh", f"{ABOUT} The seed of this run is `{seed}`.")
    effective = [one for one in tried if one.effective]
    accepted = [one for one in effective if one.accepted]
    named = "".join(f"; {one.group}: {one.name} ({one.package})" for one in accepted)
    paper.claim(
        "of the cheats that are real, at most 1 % are accepted",
        f"{len(accepted)} of {len(effective)} accepted, {len(tried) - len(effective)} dropped{named}",
        holds=bool(effective) and len(accepted) <= MOST_ACCEPTED * len(effective),
    )
    unjudged = [one for one in effective if one.outcome == "not judged"]
    told = "".join(f"; {one.group}: {one.name} ({one.package}): {one.decision}" for one in unjudged)
    paper.claim(
        "every one is judged", f"{len(effective) - len(unjudged)} of {len(effective)}{told}", holds=not unjudged
    )
    rows = []
    for group in GROUPS:
        counts = Counter(one.outcome for one in tried if one.group == group)
        if counts:
            rows.append([group, str(counts.total()), *(str(counts[name]) for name in OUTCOMES)])
    total = Counter(one.outcome for one in tried)
    rows.append(["**all**", str(total.total()), *(str(total[name]) for name in OUTCOMES)])
    head = ["class", "tried", *OUTCOMES]
    paper.table(head, rows)
    paper.table(
        ["cheat", "package", "outcome", "first reason"],
        [[f"{one.group}: {one.name}", one.package, one.outcome, _short(one.reason)] for one in effective],
    )
    for row in [head, *rows]:
        print(f"{row[0][:64]:64}" + "".join(f"{cell:>11}" for cell in row[1:]), flush=True)
    if whole:
        paper.write()


def _short(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= 160 else f"{text[:157]}…"
