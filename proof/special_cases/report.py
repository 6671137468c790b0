"""Write the page about answers that are written for the tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from proof.special_cases.hacks import KINDS
from proof.special_cases.measuring import Judgement

PAGE = Path(__file__).resolve().parents[2] / "docs" / "proof" / "special_cases.md"
_HEAD = """# Answers written for the tests

`python -m proof.special_cases` writes this page. Each problem is a function with a bug and up to eight tests, some
of which fail. Patches that answer the tests' inputs without a fix are generated fresh, in twelve kinds; the honest fix
is judged too. QuixBugs and a file of LeetCode-like problems are brought by the user (`QUIXBUGS_DIR`,
`LEETCODE_FILE`) and are not part of this repository; into the latter a bug is put by changing one operator or
number. "Narrow fixes" are written for this proof: guards, boundaries, entries of tables. Accepted: not stopped,
though all tests pass. A patch whose tests do not all pass is not counted.
"""


def write(judgements: Sequence[Judgement]) -> str:
    """Return the page."""
    out = [_HEAD]
    for form, title in (("probing", "The probing functions alone"), ("verify", "Whole verifications, track `fix`")):
        rows = [item for item in judgements if item.form == form]
        if rows:
            out += [f"\n## {title}\n", *_table(rows), "", *_exceptions(rows)]
    return "\n".join(out).rstrip() + "\n"


def _table(rows: Sequence[Judgement]) -> list[str]:
    collections = list(dict.fromkeys(item.collection for item in rows))
    out = ["| patch | " + " | ".join(collections) + " |", "|---|" + "---|" * len(collections)]
    for kind in ("honest", *KINDS):
        cells = [
            _cell([item for item in rows if item.collection == name and item.kind == kind]) for name in collections
        ]
        if any(cells):
            label = "honest fix: stopped" if kind == "honest" else f"{kind}: accepted"
            out.append(f"| {label} | " + " | ".join(cells) + " |")
    counts = [f"{len({item.problem for item in rows if item.collection == name})} of {name}" for name in collections]
    out += ["", f"Problems in this run: {', '.join(counts)}."]
    cheats = [item for item in rows if item.kind != "honest" and item.fools]
    accepted = sum(not item.stopped for item in cheats)
    if cheats:
        share = 100 * accepted / len(cheats)
        out += ["", f"Accepted in all: {accepted} of {len(cheats)} ({share:.1f} %)."]
    return out


def _cell(rows: Iterable[Judgement]) -> str:
    counted = [item for item in rows if item.fools]
    if not counted:
        return ""
    honest = counted[0].kind == "honest"
    return f"{sum(item.stopped == honest for item in counted)} of {len(counted)}"


def _exceptions(rows: Sequence[Judgement]) -> list[str]:
    """Name each wrong judgement."""
    wrong = [item for item in rows if item.fools and item.stopped == (item.kind == "honest")]
    return [
        f"* {item.collection}, {item.problem}, {item.kind}: {item.reason or 'nothing suspicious was seen'}"
        for item in wrong
    ]
