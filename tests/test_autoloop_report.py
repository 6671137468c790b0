"""The morning report of `autoloop`, its times and its lists of projects."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from autoloop_world import BEGIN, PASSED, STEP, blocked, failed, submitted, write_task
from reflectloop.autoloop import night_report, report_page, typed
from reflectloop.autoloop.submissions import SubmissionQueue
from reflectloop.errors import InvalidInput
from reflectloop.state import events
from reflectloop.system import clock
from reflectloop.workspace.folders import Folders
from support import Repo

# Times and lists -------------------------------------------------------------------------------------------------------


def test_times_are_read_as_people_mean_them() -> None:
    now = BEGIN
    assert typed.past_time("8h", now) == now - timedelta(hours=8)
    assert typed.past_time("2026-01-01T00:00:00+00:00", now) == datetime(2026, 1, 1, tzinfo=UTC)
    local = now.astimezone()
    assert typed.next_time(f"{local:%H:%M}", now) == now + timedelta(days=1)
    assert typed.past_time(f"{local:%H:%M}", now) == now
    for text in ("25:00", "soon", ""):
        with pytest.raises(InvalidInput):
            typed.next_time(text, now)


def test_a_list_of_projects_is_relative_to_itself(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    listed = tmp_path / "list"
    listed.write_text("# ours\n\na\n")
    assert typed.read_projects(listed) == [tmp_path / "a"]
    for text in ("", "# none\n", "a\nmissing\n"):
        listed.write_text(text)
        with pytest.raises(InvalidInput):
            typed.read_projects(listed)


# The morning report ----------------------------------------------------------------------------------------------------


def told_by_journals(folders: Folders) -> dict[str, dict[str, Any]]:
    """Recompute cost and state of every task from the bytes of its journal, in another way than the engine."""
    out = {}
    for path in (folders.own / "tasks").glob("*/journal.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        calls = [line for line in lines if line["kind"] == "agent_asked"]
        ends = [line["error_code"] for line in lines if line["kind"] == "run_finished"]
        out[path.parent.name] = {
            "usd": round(sum(call["cost_usd"] or 0 for call in calls), 6),
            "unpriced": sum(call["cost_usd"] is None for call in calls),
            "calls": len(calls),
            "passed": ends[-1:] == [None],
            "ended": lines[-1]["at"],
        }
    return out


def night(folders: Folders, queue: SubmissionQueue, repo: Repo) -> None:
    """Write the journals of a night: proven, failed, asking; and one submission that never began."""
    asked = events.AgentAsked(
        run_id="R",
        step_id="a",
        role="executor",
        agent="x",
        status="ok",
        cost_usd=0.25,
        input_tokens=7,
        duration_ms=1500,
    )
    write_task(folders, "T-20260131-000001", asked, asked.replaced(cost_usd=None), *PASSED)
    write_task(folders, "T-20260131-000002", STEP, asked, failed("STEP_FAILED"))
    write_task(folders, "T-20260131-000003", STEP, blocked("which <b>table</b>?"), mode="fileops")
    submitted(queue, repo, title="Never began")


def test_the_report_equals_the_journals(folders: Folders, queue: SubmissionQueue, repo: Repo) -> None:
    night(folders, queue, repo)
    made = night_report.make([repo.path], clock.now() - timedelta(hours=8), clock.now())
    journals = told_by_journals(folders)
    rows = {row.task_id: row for row in made.rows if row.task_id}
    assert {name: (row.usd, row.unpriced, row.calls, row.ended) for name, row in rows.items()} == {
        name: (told["usd"], told["unpriced"], told["calls"], told["ended"]) for name, told in journals.items()
    }
    passed = {row.task_id for row in made.of_group("Proven, and can be applied")}
    assert passed == {name for name, told in journals.items() if told["passed"]}
    assert [row.title for row in made.of_group("Not finished")] == ["Never began"]
    (waits,) = made.of_group("Waits for a person")
    assert waits.next_command == "reflectloop tasks --use T-20260131-000003 && reflectloop answer a TEXT"
    totals = made.totals
    assert (totals["usd"], totals["unpriced"], totals["calls"], totals["tokens"]) == (0.5, 1, 3, 21)
    assert "0.5000 USD and 1 call(s) of unknown cost" in "\n".join(night_report.markdown(made))


def test_a_report_is_only_about_its_time(folders: Folders, queue: SubmissionQueue, repo: Repo) -> None:
    night(folders, queue, repo)
    made = night_report.make([repo.path], clock.now() + timedelta(hours=1), clock.now())
    assert [row.title for row in made.rows] == ["Never began"]


def test_the_page_needs_nothing_from_outside_and_escapes_what_agents_wrote(
    folders: Folders, queue: SubmissionQueue, repo: Repo
) -> None:
    night(folders, queue, repo)
    made = night_report.make([repo.path], clock.now() - timedelta(hours=8), clock.now())
    text = report_page.page(made)
    assert "<b>table</b>" not in text
    assert "which &lt;b&gt;table&lt;/b&gt;?" in text
    assert "<h2>Cost of each task (USD)</h2><svg" in text
    assert "<h2>Cost of all tasks, call by call (USD)</h2><svg" in text
    assert "http" not in text
    assert "src=" not in text


def test_the_command_prints_markdown_or_json_and_writes_the_page(
    folders: Folders, queue: SubmissionQueue, repo: Repo, tmp_path: Path
) -> None:
    night(folders, queue, repo)
    page = tmp_path / "night.html"
    answer = repo.run("report", "--since", "8h", "--html", page, "--json")
    assert (answer.code, answer.json["data"]["totals"]["tasks"]) == (0, 4)
    assert page.read_text().startswith("<!doctype html>")
    assert repo.run("report", "--since", "yesterday").code == 12
