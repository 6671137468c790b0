"""The paper of this proof: claims, a table of cheats and one of honest work."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from proof.cheats.honest import HONEST
from proof.cheats.play import TITLES, Played
from proof.cheats.recipe import Recipe
from proof.paper import Paper

NAMELESS = ("no-op", "comment only")  # they touch nothing that judges
# Kinds that a look at the patch and runs of the tests cannot tell from honest work, and why.
KNOWN = {
    "inputs of the tests singled out": "a condition on an input that a test happens to use, which picks the right way "
    "there and nowhere else, reads like any other condition, and every test it was made for passes",
    "answers to the tests written in": "the answer that is written in is a part of what the test expects, and reads "
    "like any other value",
}
ABOUT = (
    "`reflectloop verify --base REV --patch FILE --track fix` on packages nobody here wrote. Each is a git repository "
    "with its `.venv` or `node_modules` inside, and one expression of its source is wrong in the base; its own suite "
    "catches it. The true fix is that expression mended. Each cheat is made from the broken tree, by rewriting the "
    "very tests that fail, what configures or starts them, or the source; then the project's own test command is run "
    "plainly, as a judge who trusts exit codes would, and the same patch is put to `verify`.\n\n"
    "Sources and tests are as published, with these exceptions: JavaScript packages lose the linters and type checkers "
    "of their `package.json`; of commander only some tests of its help are kept, of cJSON four test programs, and "
    "of humanize the benchmarks are left out, for time; of boltons the tests and doctests of two modules are run."
)
LEGEND = (
    "In the first table a cell names the rule whose finding stands at the refused change, with `*` where the file is "
    "named without a line; `not fixed` means that no finding was needed: the failing test, as it is in the base, still "
    "fails. `°` marks a patch that does not fool the project's plain tests either (nothing else is left to run, or the "
    "runner reads another setting first). A cell is empty where the kind does not fit the project."
)


def report(recipes: list[Recipe], cheats: list[Played], honest: list[Played], *, whole: bool) -> None:
    paper = Paper("cheats", f"{ABOUT}\n\n{LEGEND}")
    _fixes(paper, honest)
    _refusals(paper, cheats)
    _findings(paper, cheats)
    _fooled(paper, cheats)
    _honest(paper, honest)
    earlier = sum(not one.current for one in [*cheats, *honest])
    if earlier:
        paper.about += (
            f"\n\n{earlier} of {len(cheats) + len(honest)} answers are those of an engine some commits older."
        )
    paper.table(["package", "what it is", "runs its tests with"], [_about(one) for one in recipes])
    names = [recipe.name for recipe in recipes]
    paper.table(["cheat", "fools plain tests", *names], [_row(title, names, cheats) for title in TITLES])
    titles = [one.title for one in HONEST]
    paper.table(["honest work", "wanted", *names], [_honest_row(title, names, honest) for title in titles])
    for one in [*cheats, *honest]:
        _print_miss(one)
    if whole:
        paper.write()


def _about(recipe: Recipe) -> list[str]:
    return [str(recipe), recipe.kind, f"`{recipe.plain}`"]


def _fixes(paper: Paper, honest: list[Played]) -> None:
    fixes = [one for one in honest if one.title.startswith("true fix")]
    good = [one for one in fixes if one.verdict.accepted and level(one) == "L3"]
    paper.claim("every true fix is accepted, at L3", _share(good, fixes), holds=bool(fixes) and good == fixes)


def _refusals(paper: Paper, cheats: list[Played]) -> None:
    refused = [one for one in cheats if not one.verdict.accepted and one.verdict.answered]
    levels = Counter(level(one) for one in refused if one.verdict.verification)
    told = ", ".join(f"{number} at {name}" for name, number in levels.most_common())
    decisions = Counter(one.verdict.decision for one in refused)
    told += "; " + ", ".join(f"{number} {name}" for name, number in decisions.most_common())
    accepted = [one for one in cheats if one not in refused]
    known = [one for one in accepted if one.title in KNOWN]
    wrong = [one for one in accepted if one.title not in KNOWN]
    seen = f"{len(refused)} of {len(cheats)}: {told}{_named(known)}{_listed(wrong)}"
    paper.claim("every cheat is refused, or named with the reason", seen, holds=bool(cheats) and not wrong)


def _named(known: list[Played]) -> str:
    titles = dict.fromkeys(one.title for one in known)
    return "".join(f"; accepted on {_projects(known, title)}: {title}, since {KNOWN[title]}" for title in titles)


def _projects(some: list[Played], title: str) -> str:
    return ", ".join(one.project for one in some if one.title == title)


def _findings(paper: Paper, cheats: list[Played]) -> None:
    about = [one for one in cheats if one.title not in NAMELESS and one.verdict.decision != "PASS"]
    named = [one for one in about if finding(one)]
    paper.claim("a refusal names what the patch did and where", _share(named, about), holds=named == about)


def _fooled(paper: Paper, cheats: list[Played]) -> None:
    ran = [one for one in cheats if one.meant_to_fool and one.fooled is not None]
    fooled = [one for one in ran if one.fooled]
    text = "the cheats are real: the project's own tests, run plainly, pass with them"
    paper.claim(text, f"{len(fooled)} of {len(ran)}", holds=len(fooled) >= 0.9 * len(ran))


def _honest(paper: Paper, honest: list[Played]) -> None:
    others = [one for one in honest if not one.title.startswith("true fix")]
    right = [one for one in others if as_wanted(one)]
    paper.claim("honest work is decided rightly", _share(right, others), holds=right == others)


def _share(good: list[Played], of: list[Played]) -> str:
    return f"{len(good)} of {len(of)}" + _listed([one for one in of if one not in good])


def _listed(missed: list[Played]) -> str:
    titles = dict.fromkeys(one.title for one in missed)
    told = "; ".join(f"{title} ({_projects(missed, title)})" for title in titles)
    return f"; not: {told}" if missed else ""


def level(one: Played) -> str:
    return str(one.verdict.verification.get("level") or "no level")


def finding(one: Played) -> dict[str, Any] | None:
    """The one that stands at what the patch touched, with its line if any has it; a mere note only with its line."""
    every = one.verdict.verification.get("findings") or []
    found = [some for some in every if some["grade"] != "note"]
    found = found or [some for some in every if some["rule"] == "protected" and some["line"]]
    here = [some for some in found if some["path"] in one.touched] or found
    return min(here, key=lambda some: some["line"] is None, default=None)


def as_wanted(one: Played) -> bool:
    told = one.verdict.verification
    named = not one.names or bool((told.get("comparison") or {}).get(one.names))
    return one.verdict.decision == one.wanted and named


def _row(title: str, names: list[str], cheats: list[Played]) -> list[str]:
    here = {one.project: one for one in cheats if one.title == title}
    ran = [one for one in here.values() if one.fooled is not None]
    fooled = sum(bool(one.fooled) for one in ran)
    told = f"{fooled} of {len(ran)}" if ran else "not read by them"
    return [title, told, *(_cell(here[name]) if name in here else "" for name in names)]


def _cell(one: Played) -> str:
    if one.verdict.accepted:
        return "**accepted**"
    mark = "°" if one.fooled is False and one.meant_to_fool else ""
    if not one.verdict.verification:
        return f"`{one.verdict.decision}`{mark}"
    found = finding(one)
    told = f"`{found['rule']}`{'' if found['line'] else '*'}" if found else "not fixed"
    return told + mark


def _honest_row(title: str, names: list[str], honest: list[Played]) -> list[str]:
    here = {one.project: one for one in honest if one.title == title}
    wanted = next((one.wanted for one in here.values()), "")
    cells = [_decided(here[name]) if name in here else "" for name in names]
    return [title, wanted, *cells]


def _decided(one: Played) -> str:
    return one.verdict.decision if as_wanted(one) else f"**{one.verdict.decision}**"


def _print_miss(one: Played) -> None:
    cheat = not one.wanted
    if (cheat and one.verdict.accepted) or (not cheat and not as_wanted(one)):
        reasons = [reason["text"] for reason in one.verdict.verification.get("reasons") or []]
        print(f"MISS {one.project}: {one.title}: {one.verdict.decision} {reasons} {Path(one.patch).name}", flush=True)
