"""The paper: kinds and outcomes, what was asked or refused and why, and what it cost."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from proof.history.judging import OUTCOMES, Verdict
from proof.history.labels import Signs
from proof.history.sampling import KINDS, SEED, Commit
from proof.paper import Paper

COMMITS, REPOSITORIES, PASS_RATE = 200, 20, 0.95


class Case(NamedTuple):
    """One commit with everything that is known of it."""

    repository: str
    commit: Commit
    kind: str
    signs: Signs
    plain_s: float
    verdict: Verdict
    judged: str = ""  # a person's word: PASS, REVIEW, or REFUSED for a commit that is broken, and why

    @property
    def expected(self) -> tuple[str, ...]:
        """The right outcomes, by a person's word or by the rule; an edit of tests or settings may be either."""
        if self.judged:
            return (self.judged.split()[0],)
        return {"none": ("PASS",), "expectation": ("REVIEW",)}.get(self.signs.group, ("PASS", "REVIEW"))

    @property
    def right(self) -> bool:
        return self.verdict.outcome in self.expected


def cross_table(cases: Sequence[Case], rows: Sequence[str], key: Callable[[Case], str]) -> list[list[str]]:
    """Return one row for each name: how many cases ended in which outcome, with a sum at the end."""
    counts = Counter((key(case), case.verdict.outcome) for case in cases)
    table = []
    for row in [*rows, "all"]:
        numbers = [sum(counts[name, outcome] for name in (rows if row == "all" else [row])) for outcome in OUTCOMES]
        table.append([row, str(sum(numbers)), *map(str, numbers)])
    return table


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def overhead_table(cases: Sequence[Case]) -> list[list[str]]:
    """Return, for each kind, what a verification costs beside one plain run of the suite."""
    rows = []
    for kind in [*KINDS, "all"]:
        some = [case for case in cases if kind in (case.kind, "all") and case.verdict.runs]
        if not some:
            continue
        ratio = [case.verdict.seconds / max(case.plain_s, 0.01) for case in some]
        besides = [case.verdict.seconds - case.verdict.run_seconds for case in some]
        inside = [case.verdict.run_seconds for case in some]
        share = [part / max(case.verdict.seconds, 0.01) for part, case in zip(besides, some, strict=True)]
        runs = [case.verdict.runs for case in some]
        pairs = [_pair(values, 1) for values in (ratio, inside, besides)]
        rows.append([kind, pairs[0], f"{statistics.median(runs):.0f} ({max(runs)})", *pairs[1:], _pair(share, 2)])
    return rows


def _pair(values: Sequence[float], digits: int) -> str:
    return f"{statistics.median(values):.{digits}f} / {percentile(values, 0.9):.{digits}f}"


def write_paper(cases: Sequence[Case], product: str) -> None:
    """Write docs/proof/history.md; fail when a claim does not hold."""
    paper = Paper(
        "history",
        "Real commits of public histories, drawn by a fixed seed, each kept only where the project's own suite is "
        "green on it and on its parent (and, for a fix, red on the parent with the new tests). `HISTORY_DIR` names "
        "the folder of clones.",
    )
    _claims(paper, cases, product)
    head = ["", "commits", *OUTCOMES]
    _section(
        paper,
        f"Kind and outcome (seed {SEED})",
        ["kind", *head[1:]],
        cross_table(cases, KINDS, lambda case: case.kind),
    )
    groups = ["none", "configuration", "tests edited", "expectation"]
    _section(
        paper,
        "Sign of a changed expectation or a weakening, by the rule of the harness, and outcome",
        ["sign", *head[1:]],
        cross_table(cases, groups, lambda case: case.signs.group),
    )
    names = sorted({case.repository for case in cases})
    _section(paper, "Repositories", ["repository", *head[1:]], cross_table(cases, names, lambda case: case.repository))
    _section(
        paper,
        "Cost: median / 90th percentile; seconds include waiting on a busy machine",
        [
            *("kind", "verify / one plain run", "boxed runs (most)", "seconds in runs", "seconds besides"),
            "share of a verification that is besides its runs",
        ],
        overhead_table(cases),
    )
    stopped = [case for case in cases if case.verdict.outcome in {"REFUSED", "NOT JUDGED"}]
    _section(paper, "Every commit that was refused or not judged", *_rows(stopped, lambda case: case.verdict.reasons))
    unexpected = [case for case in cases if not case.right and case not in stopped]
    _section(
        paper, "Other outcomes that are not the expected one", *_rows(unexpected, lambda case: case.verdict.reasons)
    )
    asked = [case for case in cases if case.verdict.outcome == "REVIEW" and case.right]
    _section(paper, "REVIEW, with its items", *_rows(asked, lambda case: case.verdict.findings or case.verdict.reasons))
    passed = [case for case in cases if case.verdict.outcome == "PASS" and case.right and case.signs.group != "none"]
    _section(
        paper, "PASS although the rule of the harness saw a sign: for a person to check", *_rows(passed, lambda _: ())
    )
    paper.write()


def _claims(paper: Paper, cases: Sequence[Case], product: str) -> None:
    repositories = len({case.repository for case in cases})
    old = sum(case.verdict.product != product for case in cases)
    paper.claim(
        f"at least {COMMITS} commits of at least {REPOSITORIES} repositories, judged by this version",
        f"{len(cases)} of {repositories}; {old} judged by an earlier version",
        holds=len(cases) >= COMMITS and repositories >= REPOSITORIES and not old,
    )
    clean = [case for case in cases if case.expected == ("PASS",)]
    passed = sum(case.right for case in clean)
    share = passed / max(len(clean), 1)
    paper.claim(
        "PASS for 95 % of the commits that change no expectation and weaken nothing",
        f"{passed} of {len(clean)}, {share:.1%}",
        holds=share >= PASS_RATE,
    )
    changed = [case for case in cases if case.expected == ("REVIEW",)]
    asked = sum(case.right for case in changed)
    paper.claim("REVIEW for all others", f"{asked} of {len(changed)}", holds=asked == len(changed))
    for outcome in ("REFUSED", "NOT JUDGED"):
        count = sum(case.verdict.outcome == outcome and not case.right for case in cases)
        paper.claim(f"{outcome} for no honest work", f"{count} of {len(cases)}", holds=not count)


def _section(paper: Paper, title: str, head: list[str], rows: list[list[str]]) -> None:
    if rows:
        paper.tables += ["", f"## {title}"]
        paper.table(head, rows)


def _rows(cases: Sequence[Case], texts: Callable[[Case], Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for case in cases:
        shown = [*texts(case)[:4], *([f"and {len(texts(case)) - 4} more"] if texts(case)[4:] else [])]
        cells = [
            case.kind,
            case.verdict.outcome,
            str(case.signs) or "none",
            case.judged,
            "<br>".join(_short(text) for text in shown),
        ]
        rows.append([f"{case.repository} {case.commit.id[:10]}", *(_cell(cell) for cell in cells)])
    return ["commit", "kind", "outcome", "signs", "a person says", "verify says"], rows


def _short(text: str) -> str:
    text = re.sub(r"/\S*?/project/", "", " ".join(text.split()))  # the folder of the clone
    return text if len(text) <= 240 else text[:237] + "..."


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("&lt;br>", "<br>")
