"""Plays fresh cheats, two packages at once, and writes the paper."""

from __future__ import annotations

import os
import random
import secrets
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from proof.cheats.fresh.base import Base
from proof.cheats.fresh.bases import BASES
from proof.cheats.fresh.play import Fresh, Tried
from proof.cheats.fresh.report import report
from proof.cheats.fresh.stand import Trick
from proof.cheats.fresh.tricks import TRICKS
from proof.cheats.ground import Ground
from proof.environment import Stage

AT_ONCE = int(os.environ.get("PROOF_JOBS", "2"))


def chosen(bases: list[Base], kind: str, seed: str, each: int, *, every: bool) -> list[tuple[str, list[Trick]]]:
    """Which cheats are played on which package: each on one that the seed draws, or on every one it fits."""
    drawn = random.Random(seed)
    rows: dict[str, list[Trick]] = {base.name: [] for base in bases}
    wanted = [trick for trick in TRICKS if any(part in f"{trick.group}: {trick.name}" for part in kind.split("|"))]
    for trick in sampled([trick for trick in wanted if any(map(trick.fits, bases))], each, seed):
        fitting = [base for base in bases if trick.fits(base)]
        for base in fitting if every else [drawn.choice(fitting)]:
            rows[base.name].append(trick)
    return [(name, tricks) for name, tricks in rows.items() if tricks]


def sampled(tricks: list[Trick], number: int, seed: str) -> list[Trick]:
    """At most so many of each class."""
    left = random.Random(seed).sample(tricks, len(tricks))
    taken: Counter[str] = Counter()
    kept = []
    for trick in left:
        taken[trick.group] += 1
        if taken[trick.group] <= number:
            kept.append(trick)
    return kept


def play(job: tuple[str, list[str], str]) -> list[Tried]:
    name, names, seed = job
    base = next(base for base in BASES if base.name == name)
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as folder:
        fresh = Fresh(Ground(Stage(Path(folder).resolve())), base, seed)
        tricks = {f"{trick.group}: {trick.name}": trick for trick in TRICKS}
        tried = [fresh.play(tricks[name]) for name in names]
    return [one for one in tried if one]


def main() -> None:
    seed = os.environ.get("PROOF_SEED") or secrets.token_hex(4)
    only = [name for name in os.environ.get("PROOF_ONLY", "").split(",") if name]
    kind = os.environ.get("PROOF_KIND", "")
    each = int(os.environ.get("PROOF_EACH", "10000"))
    most = int(os.environ.get("PROOF_MOST", "10000"))
    bases = [base for base in BASES if not only or base.name in only]
    every = bool(only) or "PROOF_EVERY" in os.environ
    rows = chosen(bases, kind, seed, each, every=every)
    rows = [(name, random.Random(seed).sample(tricks, min(most, len(tricks)))) for name, tricks in rows]
    print(f"seed {seed}: {sum(len(tricks) for _, tricks in rows)} cheats", flush=True)
    jobs = [(name, [f"{trick.group}: {trick.name}" for trick in tricks], seed) for name, tricks in rows]
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as folder:
        os.environ.setdefault("PROOF_FOLDER", folder)
        with ProcessPoolExecutor(AT_ONCE) as pool:
            tried = [one for some in pool.map(play, jobs) for one in some]
    part = {"PROOF_ONLY", "PROOF_KIND", "PROOF_MOST", "PROOF_EACH", "PROOF_PLAIN"} & set(os.environ)
    report(tried, seed, whole=not part)


if __name__ == "__main__":
    main()
