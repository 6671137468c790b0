"""Makes every attempt and writes docs/proof/walls.md. `--only PART` or `--only PART:words` plays a part.

With `--keep FOLDER` each part, and each door of `inside`, leaves a record. Those recorded on the same code are not
played again, and the page is written when none is missing: parts can be played one by one, or after an interruption.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from proof.paper import Paper
from proof.walls import bounds, fuzzing, inside, judged, repository, settings, spoken, stories
from proof.walls.person import WALLS, Grounds, ground
from proof.walls.records import Records, code_id, program_id
from proof.walls.rows import Row

_PARTS = ("inside", settings.PART, judged.PART, repository.PART, spoken.PART, bounds.PART, "fuzz")


UNITS = (*(f"inside:{door.name}" for door in inside.DOORS), *_PARTS[1:])


def _rows(grounds: Grounds, part: str, only: str) -> Iterator[Row]:
    if part == "inside":
        doors = tuple(door for door in inside.DOORS if only == door.name)
        return inside.rows(grounds, doors or tuple(door for door in inside.DOORS if only in door.name))
    if part == "fuzz":
        return fuzzing.rows(grounds)
    return stories.rows(grounds, part, only)


def _walls_of(rows: list[Row]) -> str:
    return ", ".join(sorted({row.who for row in rows}))


def _tell(paper: Paper, rows: list[Row]) -> None:
    """Claim for each part what held; list each attempt with where it held, got out, or proves nothing."""
    for part in _PARTS:
        mine = [row for row in rows if row.part == part]
        for of, words in (("report", "of the first security report"), ("new", "further")):
            some = [row for row in mine if row.of == of]
            if not some:
                continue
            counts = Counter(row.result for row in some)
            names = {row.attempt for row in some if row.result != "not applicable"}
            seen = f"{len(names)} attempts that work without a wall, {counts['held']} times held, "
            seen += f"{counts['got out']} got out; "
            seen += f"{counts['not applicable']} prove nothing there"
            paper.claim(f"{part}: attempts {words}", seen, holds=counts["got out"] == 0)
    grouped: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row.part, row.attempt, row.of), []).append(row)
    table = []
    for (part, attempt, of), some in sorted(grouped.items()):
        held = [row for row in some if row.result == "held"]
        out = [row for row in some if row.result == "got out"]
        rest = [row for row in some if row.result == "not applicable"]
        cells = [part, attempt, of, _walls_of(held)]
        cells.append("; ".join(sorted({f"**{row.who}**: {row.seen}" for row in out})))
        cells.append(
            "; ".join(
                sorted(
                    {f"{row.seen} ({_walls_of([other for other in rest if other.seen == row.seen])})" for row in rest}
                )
            )
        )
        table.append([_plain(cell) for cell in cells])
    paper.table(["part", "attempt", "of", "held", "got out", "not applicable"], table)


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text).replace("|", "/")


def _play(grounds: Grounds, unit: str) -> list[Row]:
    """Play a part, or the attempts of it with some words in their name; print what got out."""
    part, _, words = unit.partition(":")
    begun, rows = time.monotonic(), []
    for row in _rows(grounds, part, words):
        rows.append(row)
        if row.result == "got out":
            print(f"OUT {row.part}: {row.attempt}: {row.who}: {_plain(row.seen)}", flush=True)
    counts = dict(Counter(row.result for row in rows))
    print(f"{unit}: {time.monotonic() - begun:.0f} s, {counts}", flush=True)
    return rows


def _units(only: list[str]) -> list[str]:
    """Return what to play: `inside` is all of its doors."""
    return [unit for word in only for unit in (UNITS[: len(inside.DOORS)] if word == "inside" else (word,))] or [*UNITS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="PART[:WORDS]", help=", ".join(_PARTS))
    parser.add_argument("--dry", action="store_true", help="print what got out; write neither document nor record")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write a record of each part, and use those there")
    parser.add_argument("--user", type=int, help="play as this user id only; implies --dry")
    parser.add_argument("--wall", choices=WALLS, help="play behind this wall only; implies --dry")
    given = parser.parse_args()
    if os.geteuid():
        print("not root: played as this user only", file=sys.stderr)
    dry = given.dry or given.user is not None or given.wall is not None
    records = Records(given.keep) if given.keep and not dry else None
    codes = {unit: code_id(unit) for unit in UNITS}  # before anything is played
    played: dict[str, list[Row]] = {}
    with ground() as folder:
        grounds = Grounds(folder)
        grounds.users = grounds.users if given.user is None else (given.user,)
        grounds.walls = (given.wall,) if given.wall else WALLS
        for unit in _units(given.only):
            rows = records.read(unit) if records else None
            begun = time.monotonic()
            played[unit] = _play(grounds, unit) if rows is None else rows
            if records and rows is None and unit in UNITS:
                records.write(unit, codes[unit], played[unit], time.monotonic() - begun)
    if not dry:
        _finish(records, played)


def _finish(records: Records | None, played: dict[str, list[Row]]) -> None:
    """Write the document if every part was played on this code."""
    whole = {unit: played.get(unit) or (records.read(unit) if records else None) for unit in UNITS}
    missing = [unit for unit, rows in whole.items() if rows is None]
    if missing:
        print(f"no document: not played on this code: {', '.join(missing)}", flush=True)
        return
    about = "Attempts to get out of every wall, each judged from outside and shown to work where no wall is; "
    about += "as root and as nobody, by bubblewrap at `full` and `fs`, and by Landlock. All parts were played on one "
    about += f"program (`{program_id()}`: a hash of its syntax, which `proof/walls/records.py` computes)."
    paper = Paper("walls", about)
    _tell(paper, [row for rows in whole.values() for row in rows or ()])
    paper.write()


if __name__ == "__main__":
    main()
