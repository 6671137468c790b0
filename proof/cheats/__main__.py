"""Plays all kinds on all projects, two projects at once, and writes the paper."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from proof.cheats.fresh.__main__ import main as play_fresh
from proof.cheats.ground import Ground
from proof.cheats.others import OTHERS
from proof.cheats.play import Played, Player
from proof.cheats.projects import PYTHON
from proof.cheats.recipe import Recipe
from proof.cheats.report import report
from proof.environment import Stage

AT_ONCE = 2
RECIPES = (*OTHERS, *reversed(PYTHON))  # the slowest first, so that none is waited for at the end


def play(recipe: Recipe) -> tuple[list[Played], list[Played]]:
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as name:
        player = Player(Ground(Stage(Path(name).resolve())), recipe)
        return player.cheats(), player.honest()


def main() -> None:
    """Plays the part that PROOF_PART names, `known` or `fresh`; both, if it names none."""
    try:
        if os.environ.get("PROOF_PART", "known") == "known":
            play_known()
    finally:
        if os.environ.get("PROOF_PART", "fresh") == "fresh":
            play_fresh()


def play_known() -> None:
    only = [name for name in os.environ.get("PROOF_ONLY", "").split(",") if name]
    recipes = [recipe for recipe in RECIPES if not only or recipe.name in only]
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as name:
        os.environ.setdefault("PROOF_FOLDER", name)
        with ProcessPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(play, recipes))
    cheats = [one for some, _ in found for one in some]
    honest = [one for _, some in found for one in some]
    report(recipes, cheats, honest, whole=not only and "PROOF_KIND" not in os.environ)


if __name__ == "__main__":
    main()
