"""TriFlow v3 as its document says it, named by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import seed_samples as samples

from reflectloop.errors import InvalidInput
from reflectloop.fileops import templates, validate
from reflectloop.fileops.response import Response
from scripted_task import DESIGN, WRITE, Crew
from support import Repo, reflectloop

_WRITES = {"op": "write_file", "path": "src/n.txt", "content": "1\n"}
_SHOWS = {"op": "run", "cmd": "test -f src/n.txt"}


class _Requests:
    """Requests of one task, each with its own id."""

    def __init__(self, repo: Repo, *steps: Any) -> None:
        self.repo, self.count = repo, 0
        init = {"op": "triflow_plan_init", "taskName": "T", "steps": list(steps) or ["Write it"]}
        assert self.send("write_plan_files", init)["status"] == "ok"

    def send(self, purpose: str, *ops: dict[str, Any]) -> dict[str, Any]:
        self.count += 1
        return self.raw({"proto": "triflow.fileops.v1", "id": f"R-{self.count}", "purpose": purpose, "ops": list(ops)})

    def raw(self, request: dict[str, Any] | str) -> dict[str, Any]:
        text = request if isinstance(request, str) else json.dumps(request)
        return reflectloop(self.repo.path, "fileops", stdin=text).json

    def begin(self) -> dict[str, Any]:
        return self.send("execute_step", {"op": "triflow_state_preflight"})


def test_line_105_the_sample_request_finalizes_what_an_earlier_request_of_the_step_showed(repo: Repo) -> None:
    requests = _Requests(repo)
    requests.begin()
    assert requests.send("execute_step", _WRITES, _SHOWS)["status"] == "ok"
    done = requests.raw(samples.text("003-line-108-finalize.json"))
    assert done["status"] == "ok", done
    assert done["data"]["0"]["evidence"] == ["test -f src/n.txt"]
    assert "automation/autoloop.py is not in the project" in done["proof"]["notes"][0]


def test_line_105_a_finalize_is_refused_when_the_files_changed_or_a_command_failed_since(repo: Repo) -> None:
    requests = _Requests(repo)
    requests.begin()
    requests.send("execute_step", _WRITES, _SHOWS)
    requests.send("execute_step", {**_WRITES, "content": "2\n"})
    assert requests.send("finalize_step", {"op": "triflow_state_finalize"})["status"] == "fail"
    requests.send("execute_step", _SHOWS)
    requests.send("execute_step", {"op": "run", "cmd": "false"})
    assert requests.send("finalize_step", {"op": "triflow_state_finalize"})["status"] == "fail"


def test_line_117_the_daemon_is_run_where_the_project_has_it(repo: Repo) -> None:
    repo.write("automation/autoloop.py", "raise SystemExit(7)\n")
    repo.commit("daemon")
    requests = _Requests(repo)
    requests.begin()
    requests.send("execute_step", _WRITES, _SHOWS)
    assert requests.raw(samples.text("003-line-108-finalize.json"))["status"] == "fail"


def test_line_129_a_request_to_read_the_state_reads_its_three_files_and_counts_nothing(repo: Repo) -> None:
    requests = _Requests(repo)
    names = ("state.json", "todo.md", "plan_log.md")
    read = [{"op": "read_file", "path": name} for name in names]
    for _ in range(4):
        told = requests.send("read_state", {"op": "triflow_state_preflight"}, *read)
        assert told["status"] == "ok", told
        assert told["data"]["0"]["attempt"] == 0
    state = json.loads(told["data"]["1"]["content"])
    assert (state["taskName"], state["steps"][0]["attempts"]) == ("T", 0)
    assert "1. Write it" in told["data"]["2"]["content"]
    assert "# Log of T" in told["data"]["3"]["content"]
    assert requests.begin()["data"]["0"]["attempt"] == 1


def test_line_124_a_step_that_had_its_attempts_is_answered_with_split_and_a_blocked_one_with_ask(repo: Repo) -> None:
    requests = _Requests(repo)
    for _ in range(3):
        assert requests.begin()["status"] == "ok"
    asked = requests.begin()
    assert (asked["status"], asked["split"]["step"], asked["split"]["fewest"]) == ("split", "1", 3)
    blocked = {"op": "triflow_state_mark_blocked", "reason": "which port?", "unblock": "a number"}
    assert requests.send("execute_step", blocked)["status"] == "ok"
    asked = requests.begin()
    assert asked["status"] == "ask"
    assert asked["ask"] == {
        "question": "which port?",
        "step": "1",
        "unblock": "a number",
        "answer": "reflectloop answer 1 TEXT",
    }


def _papers(crew: Crew) -> tuple[dict[str, Any], dict[str, Any]]:
    [folder] = [path.parent for path in crew.papers("1/1/req.json")]
    read = [json.loads((folder / name).read_text()) for name in ("req.json", "res.json")]
    return read[0], read[1]


@pytest.fixture
def told(repo: Repo) -> tuple[dict[str, Any], dict[str, Any]]:
    design = {"approach": "swap the operator", "done": ["2 + 3 is 5"]}
    crew = Crew(repo).plays(
        {"role": "planner", "says": "Make a plan", "answer": {**DESIGN, "may_change": ["calc.py", "docs/**"]}},
        {"role": "planner", "says": "Design one step", "answer": design},
        {"role": "executor", "ops": [WRITE], "answer": {"control": "step_done", "approach": "plus"}},
    )
    crew.story()
    return _papers(crew)


def test_line_163_the_request_of_an_agents_step_is_built_from_the_design(told: Any) -> None:
    asked, _ = told
    assert validate.parse(json.dumps(asked).encode(), strict=True).ops
    assert asked["summary"] == "swap the operator"
    assert asked["done"] == ["2 + 3 is 5"]
    assert asked["ops"][0]["cmd"] == "python3 test_calc.py"
    assert asked["constraints"]["writable_roots"] == ["calc.py", "docs"]


def test_line_38_the_response_of_an_agents_step_has_its_real_changes_and_the_requests_id(told: Any) -> None:
    asked, answered = told
    assert Response.model_validate(answered).status == "ok"
    assert answered["id"] == asked["id"]
    assert answered["changedFiles"] == ["calc.py"]
    assert answered["proof"]["commands"][0]["exitCode"] == 0


def test_line_165_an_executor_that_asks_for_a_split_or_a_person_is_answered_so(repo: Repo) -> None:
    crew = Crew(repo).plays({"role": "executor", "answer": {"control": "ask", "question": "which port?"}})
    crew.story()
    _, answered = _papers(crew)
    assert (answered["status"], answered["ask"]["question"]) == ("ask", "which port?")
    assert Path(crew.repo.path).is_dir()


def _top(repo: Repo) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((repo.path / "state.json").read_text())
    return found


@pytest.fixture
def split(repo: Repo) -> _Requests:
    """A published task of which the second step is split into three."""
    repo.write("reflectloop.toml", "[publish]\ntriflow = true\n")
    repo.commit("settings")
    requests = _Requests(repo, "First", "Second", "Third")
    requests.begin()
    requests.send("execute_step", _WRITES, _SHOWS, {"op": "triflow_state_finalize"})
    requests.begin()
    parts = {"op": "triflow_state_apply_split", "substeps": ["a", "b", "c"]}
    assert requests.send("split_step", parts)["status"] == "ok"
    return requests


def test_line_96_the_parts_of_a_step_are_nested_and_the_pointer_names_them(split: _Requests) -> None:
    state = _top(split.repo)
    assert [step["index"] for step in state["steps"]] == [1, 2, 3]
    assert [part["title"] for part in state["steps"][1]["substeps"]] == ["a", "b", "c"]
    assert state["steps"][1]["status"] == "todo"
    assert state["current"] == {"type": "substep", "stepIndex": 2, "subIndex": 1}
    todo = (split.repo.path / "todo.md").read_text()
    assert "- [ ] 2. Second\n  - [>] 2.1. a\n" in todo


def test_line_96_one_id_names_a_part_everywhere(split: _Requests) -> None:
    for name in ("2.1", "2.2"):
        begun = split.begin()
        assert begun["data"]["0"]["step"] == name
        split.send("execute_step", _SHOWS, {"op": "triflow_state_finalize"})
    split.begin()
    split.send("execute_step", {"op": "triflow_state_mark_blocked", "reason": "which?", "unblock": "say"})
    state = _top(split.repo)
    assert state["current"] == {"type": "substep", "stepIndex": 2, "subIndex": 3}
    assert state["steps"][1]["status"] == "blocked"
    assert "2.3. c (BLOCKED: which?)" in (split.repo.path / "todo.md").read_text()
    assert split.repo.run("answer", "2.3", "the first").code == 0


def test_line_96_a_step_of_a_plan_file_is_named_by_its_place_too(repo: Repo) -> None:
    assert repo.run("run", repo.steps("true", "exit 3")).code == 30
    done = repo.run("skip", "2", "--reason", "not needed", "--json")
    assert done.code == 0, done.stderr
    assert done.json["data"]["steps"] == ["P-2"]


def test_line_97_edits_of_the_published_files_are_pointed_out(split: _Requests) -> None:
    repo = split.repo
    assert repo.run("status", "--json").json["data"]["warnings"] == []
    for name in ("state.json", "todo.md"):
        path = repo.path / name
        path.write_text(path.read_text().replace("First", "Other"))
    [warning] = repo.run("status", "--json").json["data"]["warnings"]
    assert "state.json, todo.md at the top of the project were edited by hand" in warning


def test_line_169_the_final_report_is_published_where_triflow_looks_for_it(repo: Repo) -> None:
    crew = Crew(repo).plays(settings="[publish]\ntriflow = true\n")
    crew.story()
    [path] = (repo.path / "final").glob("T-*-report.md")
    assert "## Steps" in path.read_text()
    assert "calc.py" in repo.run("diff").stdout
    assert "final/" not in repo.run("diff").stdout
    assert repo.run("run", repo.steps("test ! -e final"), "--new").code == 0


_THEIRS: dict[str, Any] = {
    "taskName": "Theirs",
    "objective": {"goal": "add() adds"},
    "current": {"type": "substep", "stepIndex": 2, "subIndex": 2},
    "steps": [
        {"index": 1, "title": "Look", "status": "done", "attempts": 1},
        {
            "index": 2,
            "title": "Mend",
            "status": "doing",
            "attempts": 1,
            "substeps": [
                {"index": 1, "title": "Find it", "status": "done", "attempts": 1},
                {"index": 2, "title": "Make add add", "status": "todo", "attempts": 0},
            ],
        },
    ],
}


def test_line_22_an_imported_state_is_continued_by_agents_at_its_pointer(repo: Repo) -> None:
    crew = Crew(repo).plays(settings="[publish]\ntriflow = true\n", roles="executor reviewer")
    repo.write("test_calc.py", samples.UNITTEST)
    repo.commit("a test that unittest finds")
    repo.write("../theirs.json", json.dumps(_THEIRS))
    assert repo.run("import-state", repo.path.parent / "theirs.json").code == 0
    assert _top(repo)["current"] == _THEIRS["current"]
    result = crew.work()
    assert result.error is None, result.error
    assert [call.step_id for call in crew.asked("executor")] == ["2.2"]
    assert result.run.steps["1"].status == "done"


def test_line_22_an_imported_state_is_continued_by_requests(repo: Repo) -> None:
    repo.write("../theirs.json", json.dumps(_THEIRS))
    assert repo.run("import-state", repo.path.parent / "theirs.json").code == 0
    begin = {
        "proto": "triflow.fileops.v1",
        "id": "R",
        "purpose": "execute_step",
        "ops": [{"op": "triflow_state_preflight"}],
    }
    told = reflectloop(repo.path, "fileops", stdin=json.dumps(begin)).json
    assert (told["status"], told["data"]["0"]["step"]) == ("ok", "2.2"), told


def test_line_192_every_variable_of_a_template_says_where_its_value_comes_from(repo: Repo) -> None:
    listed = repo.run("template", "--list", "--json").json["data"]
    assert len(listed) == 8
    assert all(gap["source"] for one in listed.values() for gap in one["placeholders"].values())
    assert "from: `checks` of the step in state.json" in repo.run("template", "run_checks", "--list").stdout


def test_line_192_a_template_whose_variable_names_no_source_is_refused() -> None:
    meta = {"about": "x", "placeholders": {"CMD": {"type": "list", "about": "a command"}}}
    raw = json.dumps({"_meta": meta, "ops": [{"op": "run", "cmd": "{{CMD}}"}]}).encode()
    with pytest.raises(InvalidInput, match="source"):
        templates.parse_template("t", raw)


def test_line_193_a_readme_says_how_templates_are_called(repo: Repo) -> None:
    text = repo.run("template", "--readme").stdout
    assert "reflectloop template run_checks" in text
    assert all(f"`{name}`" in text for name in templates.names() if name != "write_plan_files")


def test_line_132_a_split_does_not_shed_the_checks_of_its_step(repo: Repo) -> None:
    requests = _Requests(repo, {"title": "Write it", "checks": ["test -f src/NEVER.txt"]})
    requests.begin()
    parts = {"op": "triflow_state_apply_split", "substeps": [{"title": name, "checks": ["true"]} for name in "abc"]}
    assert requests.send("split_step", parts)["status"] == "ok"
    ends = []
    for _ in range(3):
        requests.begin()
        ends.append(requests.send("finalize_step", {"op": "triflow_state_finalize"})["status"])
    assert ends == ["ok", "ok", "fail"]
    assert repo.run("resume").code != 0
    assert repo.run("apply", "--yes").code != 0


def test_line_162_an_executor_that_splits_does_not_shed_the_confirmed_checks(repo: Repo) -> None:
    parts = [{"title": name, "checks": ["true"]} for name in ("a", "b", "c")]
    crew = Crew(repo).plays(
        {"role": "executor", "step": "1", "answer": {"control": "split", "reason": "large", "substeps": parts}},
        {"role": "executor", "ops": [{**WRITE, "content": "wrong = 1\n"}], "answer": {"control": "step_done"}},
    )
    result = crew.story()
    assert result.error is not None
    assert result.run.steps["1.3"].status != "done"


def test_line_153_initialising_a_plan_makes_state_and_todo_at_once(repo: Repo) -> None:
    repo.write("reflectloop.toml", "[publish]\ntriflow = true\n")
    _Requests(repo, "Write it")
    state = json.loads((repo.path / "state.json").read_text())
    assert [step["title"] for step in state["steps"]] == ["Write it"]
    assert "Write it" in (repo.path / "todo.md").read_text()
