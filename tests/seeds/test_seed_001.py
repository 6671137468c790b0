"""The reflection protocol as its document says it, named by line."""

from __future__ import annotations

from typing import Any

import yaml

from support import Repo


def test_line_39_a_command_that_a_signal_ends_is_an_interrupted_pipeline(repo: Repo) -> None:
    assert repo.run("run", repo.steps("kill -9 $$")).code == 30
    told: dict[str, Any] = yaml.safe_load((repo.latest() / "blocker.yaml").read_text())
    assert told["failure"]["class"] == "3.3.3"
