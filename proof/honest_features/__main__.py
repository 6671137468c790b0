"""Adds a hundred features to packages, each with its tests, and asks for a verdict on each."""

from __future__ import annotations

import json
import os
import random
import secrets
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from proof.cheats.fresh.spelling import Spelling
from proof.cheats.ground import Ground, mend
from proof.cheats.judge import plainly, verify
from proof.cheats.play import Player, slug
from proof.cheats.scene import Scene
from proof.cheats.spans import Edit, Source
from proof.environment import Stage
from proof.honest_features.catalogue import HOMES, SCRIPTS, Feature, Home, features
from proof.paper import Paper

AT_ONCE = int(os.environ.get("PROOF_JOBS", "2"))
NUMBER = 100
MOST_REVIEWED = 0.08
ABOUT = (
    "Features as people write them, added to packages whose own tests pass: command lines, settings from the "
    "environment, files, clocks, sentinels, tables, signal handlers, functions at exit, caches, equality of value "
    "classes, other programs, logs, threads, plug-ins. Each comes with tests. Names and places (a new module or one "
    "that exists) are drawn from a seed. A feature counts when the project's own tests pass with it, run plainly."
)


class Judged(NamedTuple):
    name: str
    uses: str
    package: str
    place: str
    plain: bool
    decision: str = ""
    exit_code: int = -2
    reason: str = ""
    seconds: float = 0.0
    plain_seconds: float = 0.0

    @property
    def outcome(self) -> str:
        if not self.plain:
            return "dropped"
        words = {"PASS": "pass", "ASK": "review", "REDO": "refused", "RETRY": "refused"}
        return "pass" if self.exit_code == 0 else words.get(self.decision, "not judged")


def add(scene: Scene, home: Home, feature: Feature, words: Spelling) -> str:
    """Write the feature and its tests; says where."""
    alias, stem = words.name("z"), words.name("y").strip("_")
    facts = {"@convert@": home.convert, "@text@": home.text, "@result@": home.result, "@module@": alias}
    code, test = (_filled(words, text, facts) for text in (feature.code, feature.test))
    if scene.recipe.language == "javascript":
        return _script(scene, home, (stem, code, test), words.name("m"))
    place = words.pick("new module", "existing module") if home.folder else "existing module"
    if place == "new module":
        scene.write(f"{home.folder}/{stem}.py", f"{feature.imports}\n\n{home.prelude}\n\n{code}")
        imported = f"from {home.package} import {stem} as {alias}"
    else:
        imported = home.imported.format(alias=alias)
        source = Source(scene.read(home.module))
        start, end = source.after_imports(), len(source.data)
        prelude = "\n".join(line for line in home.prelude.split("\n") if not line.startswith("from "))
        edits = [Edit(end, end, f"\n\n{prelude}\n{code}")]
        edits += [Edit(start, start, f"{feature.imports}\n")] if feature.imports else []
        scene.write(home.module, source.edited(edits))
    scene.write(f"{home.tests}test_{stem}.py", f"{imported}\n{test}")
    return place


def _filled(words: Spelling, text: str, facts: dict[str, str]) -> str:
    text = words.fill(text)
    for name, value in facts.items():
        text = text.replace(name, value)
    return text


def _script(scene: Scene, home: Home, parts: tuple[str, str, str], module: str) -> str:
    stem, code, test = parts
    scene.write(f"{stem}.js", f"'use strict'\n\n{home.prelude}{code}")
    body = "".join(f"  {line}\n" for line in test.strip().split("\n"))
    header = f"var assert = require('assert')\nvar {module} = require('../{stem}')\n"
    if scene.recipe.runner == "tape":
        text = f"require('tape')('{stem}', function (t) {{\n{body}  t.pass('as told')\n  t.end()\n}})\n"
    else:
        text = f"it('{stem}', function () {{\n{body}}})\n"
    scene.write(f"{home.tests}{stem}.js", header + text)
    return "new module"


def rows(seed: str, only: list[str], kind: str) -> list[tuple[Home, list[Feature]]]:
    pairs = [(home, one) for home in HOMES for one in features("python")]
    pairs = [(home, one) for home, one in pairs if home.folder or "import time" not in one.imports]
    scripts = [(home, one) for home in SCRIPTS for one in features("javascript")]
    drawn = random.Random(seed)
    chosen = [*drawn.sample(pairs, min(NUMBER - len(scripts), len(pairs))), *scripts]
    if only or kind:
        chosen = [*pairs, *scripts]
    found: dict[str, tuple[Home, list[Feature]]] = {}
    for home, one in chosen:
        if (not only or home.recipe.name in only) and kind in f"{one.uses}: {one.name}":
            found.setdefault(home.recipe.name, (home, []))[1].append(one)
    return list(found.values())


def play(job: tuple[Home, list[Feature], str]) -> list[Judged]:
    home, wanted, seed = job
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as folder:
        ground = Ground(Stage(Path(folder).resolve()))
        player = Player(ground, home.recipe)
        results = ground.kept / "honest" / home.recipe.name
        results.mkdir(parents=True, exist_ok=True)
        mend(player.root, home.recipe.bug)
        for words in (["checkout", "-q", "-B", "mended"], ["add", "-A"], ["commit", "-q", "-m", "mended"]):
            player.tree.git(*words)
        try:
            return [judge(player, home, one, seed, results) for one in wanted]
        finally:
            player.tree.back([])
            player.tree.git("checkout", "-q", "-f", "work")


def judge(player: Player, home: Home, feature: Feature, seed: str, results: Path) -> Judged:
    tree, stage = player.tree, player.ground.stage
    place = add(player.scene, home, feature, Spelling(f"{seed}/{home.recipe.name}/{feature.name}"))
    patch = results / f"{slug(feature.name)}.patch"
    patch.write_text(tree.patch([]))
    plain = plainly(stage, player.root, home.recipe.plain, {})
    tree.back([])
    judged = Judged(feature.name, feature.uses, home.recipe.name, place, plain.code == 0, plain_seconds=plain.seconds)
    if plain.code == 0 and "PROOF_PLAIN" not in os.environ:
        verdict = verify(stage, player.root, "--base", "HEAD", "--patch", str(patch))
        patch.with_suffix(".json").write_text(json.dumps(verdict.told, indent=1))
        reasons = [reason["text"] for reason in verdict.verification.get("reasons") or []]
        judged = judged._replace(
            decision=verdict.decision,
            exit_code=verdict.exit_code,
            reason=reasons[0] if reasons else "",
            seconds=verdict.seconds,
        )
    elif plain.code:
        patch.with_suffix(".txt").write_text(plain.text)
    print(
        f"  {judged.package:10} {judged.name[:40]:40} {judged.place:16} {judged.outcome:10} {judged.reason[:90]}",
        flush=True,
    )
    return judged


def report(judged: list[Judged], seed: str, *, whole: bool) -> None:
    paper = Paper("honest_features", f"{ABOUT} The seed of this run is `{seed}`.")
    real = [one for one in judged if one.plain]
    counts = Counter(one.outcome for one in real)
    told = "; ".join(f"{one.name} ({one.package}): {one.reason[:120]}" for one in real if one.outcome == "review")
    refused = [one for one in real if one.outcome in ("refused", "not judged")]
    paper.claim("features with tests are judged", f"{len(real)} of {len(judged)}", holds=len(real) == len(judged))
    seen = f"{counts['review']} of {len(real)}" + (f": {told}" if told else "")
    paper.claim("at most 8 % are put to a person", seen, holds=counts["review"] <= MOST_REVIEWED * len(real))
    named = "; ".join(f"{one.name} ({one.package}): {one.reason[:120]}" for one in refused)
    paper.claim(
        "none is refused", f"{len(refused)} of {len(real)}" + (f": {named}" if named else ""), holds=not refused
    )
    paper.table(
        ["feature", "uses", "package", "place", "outcome"],
        [[one.name, one.uses, one.package, one.place, one.outcome] for one in judged],
    )
    if whole:
        paper.write()


def main() -> None:
    seed = os.environ.get("PROOF_SEED") or secrets.token_hex(4)
    only = [name for name in os.environ.get("PROOF_ONLY", "").split(",") if name]
    kind = os.environ.get("PROOF_KIND", "")
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as name:
        os.environ.setdefault("PROOF_FOLDER", name)
        with ProcessPoolExecutor(AT_ONCE) as pool:
            jobs = [(home, wanted, seed) for home, wanted in rows(seed, only, kind)]
            judged = [one for some in pool.map(play, jobs) for one in some]
    report(judged, seed, whole=not only and not kind and "PROOF_PLAIN" not in os.environ)


if __name__ == "__main__":
    main()
