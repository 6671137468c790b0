"""Scores SWE-bench Lite and fix commits in CONTEXT_DIR, and writes the paper; everything is resumable.

CONTEXT_DIR holds bare repositories or clones as `owner+name`: the twelve of SWE-bench, those of `fixes.LANGUAGES`,
`nus-apr+auto-code-rover` for the instances and `gersteinlab+LocAgent` for that tool's published answers.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from proof.context import fixes, report, scoring
from proof.context.cases import SweBenchLite, git_dir
from proof.context.locagent import LocAgent


def main() -> None:
    parser = argparse.ArgumentParser(prog="proof.context")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth case; writes no paper")
    parser.add_argument("--quota", type=int, default=25, metavar="N", help="so many fixes of each repository")
    parser.add_argument("--stored", action="store_true", help="rank anew what was scored before, and score nothing new")
    options = parser.parse_args(os.environ.get("PROOF_ARGS", "").split() + sys.argv[1:])
    folder = os.environ.get("CONTEXT_DIR")
    if not folder:
        sys.exit("set CONTEXT_DIR to a folder of bare repositories or clones, named owner+name")
    work = Path(os.environ.get("CONTEXT_WORK", "/var/tmp/reflectloop-context"))  # noqa: S108 - large, and kept from run to run
    data = git_dir(Path(folder) / "nus-apr+auto-code-rover")
    peer = git_dir(Path(folder) / "gersteinlab+LocAgent")
    if data is None or peer is None:
        sys.exit("CONTEXT_DIR lacks nus-apr+auto-code-rover or gersteinlab+LocAgent")
    issues = SweBenchLite(data, Path(folder)).cases()[:: options.every]
    issue_scores = scoring.score_all(issues, work, "issues", stored=options.stored)
    fix_cases = fixes.cases(Path(folder), options.quota)[:: options.every]
    fix_scores = scoring.score_all(fix_cases, work, "fixes", stored=options.stored)
    answers = LocAgent(peer).ranks(issues)
    if options.every > 1:
        print(report.table_of(issue_scores, answers))
        return
    report.write(issue_scores, fix_scores, answers)


if __name__ == "__main__":
    main()
