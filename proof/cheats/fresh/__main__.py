"""Plays fresh cheats, two packages at once, and writes the paper."""

from __future__ import annotations

import os
import random
import secrets
import tempfile
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


def chosen(bases: list[Base], kind: str, seed: str, *, every: bool) -> list[tuple[str, list[Trick]]]:
    """Which cheats are played on which package: each on one that the seed draws, or on every one it fits."""
    drawn = random.Random(seed)
    rows: dict[str, list[Trick]] = {base.name: [] for base in bases}
    for trick in TRICKS:
        fitting = [base for base in bases if trick.fits(base)]
        if kind in f"{trick.group}: {trick.name}" and fitting:
            for base in fitting if every else [drawn.choice(fitting)]:
                rows[base.name].append(trick)
    return [(name, tricks) for name, tricks in rows.items() if tricks]


def play(job: tuple[str, list[str], str]) -> list[Tried]:
    name, names, seed = job
    base = next(base for base in BASES if base.name == name)
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as folder:
        fresh = Fresh(Ground(Stage(Path(folder).resolve())), base, seed)
        wanted = [trick for trick in TRICKS if f"{trick.group}: {trick.name}" in names]
        tried = [fresh.play(trick) for trick in wanted]
    return [one for one in tried if one]


def main() -> None:
    seed = os.environ.get("PROOF_SEED") or secrets.token_hex(4)
    only = [name for name in os.environ.get("PROOF_ONLY", "").split(",") if name]
    kind = os.environ.get("PROOF_KIND", "")
    most = int(os.environ.get("PROOF_MOST", "10000"))
    bases = [base for base in BASES if not only or base.name in only]
    every = bool(only) or "PROOF_EVERY" in os.environ
    rows = chosen(bases, kind, seed, every=every)
    rows = [(name, random.Random(seed).sample(tricks, min(most, len(tricks)))) for name, tricks in rows]
    print(f"seed {seed}: {sum(len(tricks) for _, tricks in rows)} cheats", flush=True)
    jobs = [(name, [f"{trick.group}: {trick.name}" for trick in tricks], seed) for name, tricks in rows]
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as folder:
        os.environ.setdefault("PROOF_FOLDER", folder)
        with ProcessPoolExecutor(AT_ONCE) as pool:
            tried = [one for some in pool.map(play, jobs) for one in some]
    report(tried, seed, whole=not only and not kind and "PROOF_MOST" not in os.environ)


if __name__ == "__main__":
    main()
