"""The Reflectloop envelope as its document says it, named by line."""

from __future__ import annotations

import seed_samples as samples
import yaml

from scripted_task import DONE, WRITE, Crew
from support import Repo


def test_line_34_a_plan_of_actions_only_runs_with_an_executor_bound(repo: Repo) -> None:
    crew = Crew(repo).plays({"role": "executor", "step": "P-1", "ops": [WRITE], "answer": DONE})
    plan = yaml.safe_load(samples.text("000-line-52-plan.yaml"))
    del plan["new_plan"]["steps"][0]["commands"], plan["new_plan"]["steps"][0]["cwd"]
    done = crew.repo.run("run", repo.plan(yaml.safe_dump(plan)), "--json")
    assert done.code == 0, done.envelope["message"]
    assert [one["path"] for one in done.json["data"]["touched_files"]] == ["calc.py"]
