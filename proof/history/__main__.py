"""Draws commits from the histories in HISTORY_DIR, judges each, and writes the paper; everything is resumable."""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from proof.history.judging import judge, last_verdict, product_version
from proof.history.labels import Signs, label
from proof.history.project import Project
from proof.history.recipes import FOLDER
from proof.history.report import Case, write_paper
from proof.history.sampling import QUOTA, TRIES, Commit, order


class Harness:
    """The work on all repositories; results lie in the work folder, by commit."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.product = product_version()
        self.known: dict[str, dict[str, str]] = tomllib.loads((FOLDER / "known.toml").read_text())

    def cases(self, project: Project) -> list[Case]:
        """Return the cases of one repository; a repository that cannot be set up is named and left out."""
        try:
            project.prepare()
            chosen = self._known(project) if self.options.known else self._sample(project)
            return [
                case for commit, kind in chosen[: self.options.limit] if (case := self._case(project, commit, kind))
            ]
        except RuntimeError as error:
            print(f"left out: {error}", file=sys.stderr, flush=True)
            return []

    def _known(self, project: Project) -> list[tuple[Commit, str]]:
        words = self.known.get(project.name, {})
        return [(project.commit(name), text.split()[0]) for name, text in words.items()]

    def _sample(self, project: Project) -> list[tuple[Commit, str]]:
        chosen = []
        for kind, candidates in order(project.name, project.log()).items():
            count = 0
            for commit in candidates[: self.options.quota * TRIES]:
                real_kind = self._accept(project, commit, kind)
                if real_kind:
                    chosen.append((commit, real_kind))
                    count += real_kind == kind
                if count == self.options.quota:
                    break
        return chosen

    @staticmethod
    def _accept(project: Project, commit: Commit, kind: str) -> str | None:
        """Return the kind of a commit whose suite shows that it is good; None for any other."""
        if not project.has_own_runner(commit.parent):
            return None
        if not project.suite(commit.id).green or not project.suite(commit.parent).green:
            return None
        if kind != "fix":
            return kind
        run = project.suite(commit.parent, commit.id, project.paths(commit))
        if run.green:
            return None
        return "fix" if run.started else "feature"  # tests that cannot even start on the parent use something new

    def _case(self, project: Project, commit: Commit, kind: str) -> Case | None:
        verdict = last_verdict(project, commit.id)
        if project.read_only and not verdict:
            return None
        signs = label(project, commit) if not self.options.known else Signs()
        plain = project.suite(commit.id)
        settled = self.options.open and verdict is not None and verdict.outcome == "PASS"
        if not (self.options.prepare or self.options.report or settled):
            verdict = judge(project, commit, kind, self.product)
            reason = "" if verdict.outcome == "PASS" else f": {verdict.reasons[0][:150]}"
            print(
                f"{project.name} {commit.id[:10]} {kind} {verdict.outcome} {verdict.seconds:.0f} s{reason}", flush=True
            )
        judged = next(
            (text for name, text in self.known.get(project.name, {}).items() if commit.id.startswith(name)), ""
        )
        word = judged.partition(" ")[2]
        return Case(project.name, commit, kind, signs, plain.seconds, verdict, word) if verdict else None


def main() -> None:
    parser = argparse.ArgumentParser(prog="proof.history")
    parser.add_argument("--only", action="append", metavar="REPO", help="this repository alone; can be repeated")
    parser.add_argument(
        "--quota", type=int, default=QUOTA, metavar="N", help="so many commits of each kind and repository"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="at most so many commits of each repository")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many repositories at once")
    parser.add_argument(
        "--known", action="store_true", help="the commits of known.toml instead of a sample; writes no paper"
    )
    parser.add_argument("--open", action="store_true", help="leave out commits that an earlier version passed")
    parser.add_argument("--prepare", action="store_true", help="only draw the commits and run their plain suites")
    parser.add_argument(
        "--stored", action="store_true", help="judge again what was judged before, and draw nothing new"
    )
    parser.add_argument("--report", action="store_true", help="only write the paper from the verdicts that are there")
    options = parser.parse_args(os.environ.get("PROOF_ARGS", "").split() + sys.argv[1:])
    histories = os.environ.get("HISTORY_DIR")
    if not histories:
        sys.exit("set HISTORY_DIR to a folder whose sub-folders are clones or bare repositories")
    work = Path(os.environ.get("HISTORY_WORK", "/var/tmp/reflectloop-history"))  # noqa: S108 - large, and kept from run to run
    sources = sorted(
        path for path in Path(histories).iterdir() if path.is_dir() and (not options.only or path.name in options.only)
    )
    harness = Harness(options)
    with ThreadPoolExecutor(options.jobs) as pool:
        cases = [
            case
            for some in pool.map(
                lambda source: harness.cases(Project(source, work, read_only=options.report or options.stored)), sources
            )
            for case in some
        ]
    if options.known:
        for case in cases:
            mark = "ok " if case.right else "NOT"
            print(f"{mark} {case.repository} {case.commit.id[:10]} {case.verdict.outcome}, expected {case.judged}")
    elif not options.prepare:
        write_paper(cases, harness.product)


if __name__ == "__main__":
    main()
