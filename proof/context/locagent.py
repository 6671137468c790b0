"""The published answers of LocAgent with Claude 3.5 to the same 300 issues."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from proof.context.cases import Case
from proof.context.scoring import rank_of
from reflectloop.system.git import Git

_OUTPUT = "evaluation/loc_output/locagent/claude_3-5/loc_outputs.jsonl"


class PeerRanks(NamedTuple):
    """The ranks of the first right file."""

    files: dict[str, int]  # case -> rank


class LocAgent(NamedTuple):
    repository: Path

    def ranks(self, cases: list[Case]) -> PeerRanks:
        text = Git(git_dir=self.repository).run("show", f"HEAD:{_OUTPUT}").decode("utf-8", "replace")
        entries = {entry["instance_id"]: entry for entry in map(json.loads, text.splitlines())}
        answers = {case.name: entries.get(case.name, {}).get("found_files") or [] for case in cases}
        return PeerRanks({case.name: rank_of(answers[case.name], case.gold) for case in cases})
