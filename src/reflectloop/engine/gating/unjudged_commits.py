"""Commits between the project's main branch and HEAD, which a verification of uncommitted changes does not judge."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from reflectloop.system.git import Git
from reflectloop.verification.tree_builder import TreeBuilder

_MAIN = ("origin/HEAD", "origin/main", "origin/master", "upstream/main", "upstream/master", "main", "master")
_MOST_COMMITS = 1000  # a branch that is this far ahead is no work in progress


class UnjudgedCommits(NamedTuple):
    """Commits since the nearest main branch, and what they do to tests and settings that judge."""

    number: int
    branch: str
    findings: Sequence[str] = ()

    @property
    def note(self) -> str:
        several = self.number > 1
        commits = f"{self.number} commit{'s' if several else ''} since {self.branch} {'were' if several else 'was'}"
        return f"judges uncommitted changes only; {commits} not judged: --base {self.branch}"

    @property
    def doubts(self) -> list[str]:
        """Return what a person must decide: tests that these commits may have weakened judge the change now."""
        if not self.findings:
            return []
        shown = "; ".join(self.findings[:3]) + ("; and more" if len(self.findings) > 3 else "")  # noqa: PLR2004
        return [f"commits since {self.branch}, which were not judged, changed what judges this change: {shown}"]


def find(git: Git, trees: TreeBuilder, head: str) -> UnjudgedCommits | None:
    """Return the commits of HEAD that no main branch has; None if there are none, or no main branch is known."""
    current = os.fsdecode(git.attempt("symbolic-ref", "--quiet", "--short", "HEAD").stdout).strip()
    nearest: UnjudgedCommits | None = None
    start = ""
    refs = {f"refs/remotes/{branch}" if "/" in branch else f"refs/heads/{branch}": branch for branch in _MAIN}
    known = os.fsdecode(git.attempt("for-each-ref", "--format=%(refname)", *refs).stdout).split()
    for ref, branch in refs.items():
        joint = git.attempt("merge-base", ref, head) if branch != current and ref in known else None
        if joint is None or joint.code:
            continue
        fork = os.fsdecode(joint.stdout).strip()
        number = int(git.line("rev-list", "--count", f"{fork}..{head}"))
        if nearest is None or number < nearest.number:
            nearest, start = UnjudgedCommits(number, branch), fork
    if nearest is None or not 0 < nearest.number <= _MOST_COMMITS:
        return None
    before, after = (git.line("rev-parse", f"{commit}^{{tree}}") for commit in (start, head))
    from reflectloop.verification import tampering  # noqa: PLC0415 - most changes leave out no commit
    from reflectloop.verification.tampering.powers import patched_files  # noqa: PLC0415

    findings = tampering.look(trees.changes(before, after), project=patched_files(trees, after))
    texts = [
        f"{finding.path}:{finding.line or 1}: {finding.what} ({finding.rule})"
        for finding in findings
        if finding.grade in ("weakening", "suspect")
    ]
    return nearest._replace(findings=texts)
