"""Broken samples of the five documents: every fault at once, each with its path."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import seed_samples as samples
import yaml

from reflectloop.errors import InvalidInput
from reflectloop.fileops import validate
from reflectloop.plan import load
from reflectloop.reflection import outside_files, reflection_report
from reflectloop.state import journal
from scripted_task import Crew
from support import Repo, reflectloop

Keys = tuple[str | int, ...]


def _dotted(keys: Keys) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


def _without(value: Any, keys: Keys) -> Any:
    out = copy.deepcopy(value)
    place = out
    for key in keys[:-1]:
        place = place[key]
    del place[keys[-1]]
    return out


def _with(value: Any, keys: Keys, other: Any) -> Any:
    out = copy.deepcopy(value)
    place = out
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = other
    return out


def _plan_faults(value: Any) -> list[str]:
    return [fault.path for fault in load.parse(json.dumps(value, ensure_ascii=False).encode())[1]]


_PLAN = samples.data("002-line-12-plan.json")
_OLD = yaml.safe_load(samples.text("000-line-52-plan.yaml"))
_REPORT = samples.data("001-line-59-report.json")
_TICKET = samples.data("001-line-708-ticket.json")
_REQUEST = samples.data("003-line-108-finalize.json")


# 000: the Reflectloop plan ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [("new_plan", "steps"), ("new_plan", "steps", 0, "id")])
def test_000_line_50_a_required_field_that_is_missing_is_named(keys: Keys) -> None:
    assert _plan_faults(_without(_OLD, keys)) == [_dotted(keys)]


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("envelope",), "text"),
        (("envelope", "status"), "MAYBE"),
        (("new_plan",), []),
        (("new_plan", "steps"), "all"),
        (("new_plan", "steps", 0), "run it"),
        (("new_plan", "steps", 0, "action"), 4),
        (("new_plan", "steps", 0, "commands"), "npm test"),
        (("new_plan", "steps", 0, "cwd"), 5),
        (("new_plan", "steps", 0, "verification"), "green"),
        (("new_plan", "steps", 0, "depends_on"), {}),
    ],
)
def test_000_line_50_a_field_of_the_wrong_type_is_named(keys: Keys, value: Any) -> None:
    assert _plan_faults(_with(_OLD, keys, value)) == [_dotted(keys)]


def test_000_line_50_without_new_plan_the_known_forms_are_named() -> None:
    [fault] = load.parse(json.dumps(_without(_OLD, ("new_plan",))).encode())[1]
    assert "'new_plan:' (Reflectloop)" in fault.message


def test_000_line_50_all_faults_are_named_at_once() -> None:
    steps = [{"id": "P-1", "commands": 3, "cwd": 5}, {"action": 4}]
    broken = {"envelope": {"status": "ERROR"}, "new_plan": {"steps": steps}}
    assert _plan_faults(broken) == [
        "envelope.status",
        "new_plan.steps[1].action",
        "new_plan.steps[0].commands",
        "new_plan.steps[0].cwd",
        "new_plan.steps[1].id",
    ]


# 001: tickets and reports -----------------------------------------------------------------------------------------


def _report_faults(value: Any) -> set[str]:
    return {fault.partition(":")[0] for fault in reflection_report.faults_of(outside_files.complete(value))}


_OPTIONAL = (("timestamp",), ("agent",), ("trigger",), ("rewind_ticket_id",), ("anti_pattern",))


@pytest.mark.parametrize("name", [key for key in _REPORT if (key,) not in _OPTIONAL])
def test_001_line_405_a_required_field_of_a_report_that_is_missing_is_named(name: str) -> None:
    assert name in {path.split(".")[0] for path in _report_faults(_without(_REPORT, (name,)))}


@pytest.mark.parametrize(
    "keys",
    [
        *(("error_analysis", key) for key in _REPORT["error_analysis"]),
        *(("error_classification", key) for key in ("type", "description")),
        *(("anti_pattern", key) for key in _REPORT["anti_pattern"]),
        ("repair_actions", 0, "action"),
    ],
)
def test_001_line_405_a_missing_or_wrong_part_of_a_report_is_named(keys: Keys) -> None:
    path = ".".join(map(str, keys))
    assert path in _report_faults(_without(_REPORT, keys))
    assert path in _report_faults(_with(_REPORT, keys, 7))


@pytest.mark.parametrize(
    ("keys", "value"), [(("trigger",), "moon"), (("error_classification", "type"), "3.3.9"), (("timestamp",), "soon")]
)
def test_001_line_405_an_unknown_word_of_a_report_is_named(keys: Keys, value: str) -> None:
    assert ".".join(map(str, keys)) in _report_faults(_with(_REPORT, keys, value))


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("ticket_id",), None),
        (("ticket_id",), "../out"),
        (("verdict",), None),
        (("verdict",), "MAYBE"),
        (("issues",), None),
        (("issues",), []),
        (("issues", 0, "category"), None),
        (("issues", 0, "category"), "taste"),
        (("issues", 0, "severity"), "huge"),
        (("issues", 0, "description"), None),
        (("quality_score",), "good"),
        (("repair_plan",), "all of it"),
    ],
)
def test_001_line_707_a_missing_or_wrong_field_of_a_ticket_is_named(keys: Keys, value: Any) -> None:
    broken = _without(_TICKET, keys) if value is None else _with(_TICKET, keys, value)
    with pytest.raises(InvalidInput) as told:
        outside_files._ticket(Path("t.json"), broken)
    assert [fault.path for fault in told.value.faults] == [".".join(map(str, keys))]


def test_001_line_707_all_faults_of_a_ticket_are_named_at_once(repo: Repo) -> None:
    broken = {"ticket_id": "x", "verdict": "NO", "issues": [{"category": "taste"}], "more": 1}
    done = repo.run("reflect", repo.plan(json.dumps(broken), "t.json"), "--json")
    assert done.code == 12
    paths = {fault["path"] for fault in done.envelope["faults"]}
    assert paths == {
        "ticket_id",
        "verdict",
        "issues.0.category",
        "issues.0.severity",
        "issues.0.description",
        "more",
    }


def test_001_line_119_a_ticket_about_a_file_that_is_gone_asks_no_executor(repo: Repo) -> None:
    Crew(repo).plays(roles="executor")
    ticket = {**_TICKET, "target": "research_data/gone.json"}
    done = repo.run("reflect", repo.plan(json.dumps(ticket), "t.json"), "--json")
    assert done.code == 32
    [seen] = (repo.path / ".reflectloop").rglob("reflections/rewind_001/1-explore.json")
    assert json.loads(seen.read_text())["target_exists"] is False
    assert done.json["data"]["rounds"][0]["submission"]["revised_output_file"] is None
    assert not list((repo.path / ".reflectloop").rglob("*.prompt.md"))


# 002: the Plan object ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [("title",), ("steps", 0, "id"), ("steps", 1, "description")])
def test_002_line_11_a_required_field_that_is_missing_is_named(keys: Keys) -> None:
    assert _plan_faults(_without(_PLAN, keys)) == [_dotted(keys)]


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("title",), 3),
        (("steps", 0, "description"), 3),
        (("steps", 0, "dependencies"), "step_2"),
        (("steps", 1, "dependencies"), ["step_9"]),
        (("steps", 0, "status"), "flying"),
        (("steps", 0, "status"), 3),
        (("steps", 0, "tools_expected"), "grep"),
        (("verification_policy",), 5),
    ],
)
def test_002_line_11_a_wrong_type_or_an_unknown_state_is_named(keys: Keys, value: Any) -> None:
    assert any(path.startswith(_dotted(keys)) for path in _plan_faults(_with(_PLAN, keys, value)))


def test_002_line_11_all_faults_are_named_at_once() -> None:
    broken = {
        "title": 3,
        "steps": [{"id": "a", "dependencies": "x", "status": "flying", "tools_expected": [1]}, {"description": "y"}],
        "verification_policy": 5,
    }
    assert set(_plan_faults(broken)) == {
        "title",
        "steps[0].description",
        "steps[0].dependencies",
        "steps[0].status",
        "steps[0].tools_expected[0]",
        "steps[1].id",
        "verification_policy",
    }


# 003: requests and state ------------------------------------------------------------------------------------------


def _request_faults(value: Any) -> list[str]:
    with pytest.raises(validate.Invalid) as told:
        validate.parse(json.dumps(value).encode())
    return [error.field for error in told.value.response.errors]


@pytest.mark.parametrize("name", ["proto", "id", "purpose", "ops"])
def test_003_line_138_a_required_field_that_is_missing_is_named(name: str) -> None:
    assert _request_faults(_without(_REQUEST, (name,))) == [name]


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("proto",), "triflow.fileops.v9"),
        (("id",), 3),
        (("purpose",), "dance"),
        (("ops",), "all"),
        (("ops",), []),
        (("ops", 0, "op"), "triflow_state_fly"),
        (("ops", 0, "verification"), 3),
        (("ops", 1, "cmd"), 3),
        (("report", "changedFiles"), "yes"),
        (("done",), 3),
    ],
)
def test_003_line_138_a_wrong_type_or_an_unknown_op_is_named(keys: Keys, value: Any) -> None:
    assert [path for path in _request_faults(_with(_REQUEST, keys, value)) if path.startswith(_dotted(keys))]


def test_003_line_143_all_faults_of_a_request_are_answered_at_once(repo: Repo) -> None:
    broken = {"proto": "x", "ops": [{"op": "fly"}, {"op": "run"}], "report": {"changedFiles": "yes"}}
    told = reflectloop(repo.path, "fileops", stdin=json.dumps(broken)).json
    assert told["status"] == "validation_error"
    assert {error["field"] for error in told["errors"]} == {
        "id",
        "proto",
        "purpose",
        "ops[0].op",
        "ops[1].cmd",
        "report.changedFiles",
    }


_STATE: dict[str, Any] = {
    "taskName": "Theirs",
    "objective": {"goal": "add() adds"},
    "current": {"type": "step", "stepIndex": 1},
    "steps": [{"index": 1, "title": "Look", "status": "todo", "attempts": 0}],
}


def _import_faults(repo: Repo, value: Any) -> dict[str, str]:
    done = repo.run("import-state", repo.plan(json.dumps(value), "state.json"), "--json")
    assert done.code == 12
    return {fault["path"]: fault["message"] for fault in done.envelope["faults"]}


def test_003_line_96_all_faults_of_a_state_are_named_at_once(repo: Repo) -> None:
    step = {"index": "1", "title": "", "status": "flying", "attempts": -1}
    broken = {"objective": {}, "current": {"type": "nowhere"}, "steps": [step]}
    assert set(_import_faults(repo, broken)) == {
        "taskName",
        "objective.goal",
        "current.type",
        "steps[0].index",
        "steps[0].title",
        "steps[0].status",
        "steps[0].attempts",
    }


@pytest.mark.parametrize("key", ["schemaVersion", "version"])
def test_003_line_96_a_state_of_a_newer_schema_is_refused_as_such(repo: Repo, key: str) -> None:
    [(path, message)] = _import_faults(repo, {**_STATE, key: 4}).items()
    assert path == key
    assert message == "it was written by another version (4), which this one cannot read"


def test_003_line_96_our_own_state_of_a_newer_schema_is_made_again_from_the_journal(repo: Repo) -> None:
    assert repo.run("run", repo.steps("true")).code == 0
    [path] = (repo.path / ".reflectloop/tasks").glob("T-*/state.json")
    document = path.read_text()
    path.write_text(document.replace('"schema_version":1', '"schema_version":99'))
    assert path.read_text() != document
    assert repo.run("status").code == 0
    assert repo.run("tasks", "--json").json["data"][0]["state"] == "DONE"


def test_003_line_96_a_journal_of_a_newer_schema_is_refused_with_its_line(repo: Repo) -> None:
    assert repo.run("run", repo.steps("true")).code == 0
    [path] = (repo.path / ".reflectloop/tasks").glob("T-*/journal.jsonl")
    first, _, rest = path.read_bytes().partition(b"\n")
    record = journal.unseal(first)
    assert record
    path.write_bytes(journal.seal({**record, "v": 99})[:-1] + b"\n" + rest)
    told = repo.run("status", "--json")
    assert told.code != 0
    assert "journal.jsonl:1: it was written by another version (schema 99" in told.envelope["message"]


def _send(repo: Repo, number: int, purpose: str, *ops: dict[str, Any]) -> dict[str, Any]:
    request = {"proto": "triflow.fileops.v1", "id": f"R-{number}", "purpose": purpose, "ops": list(ops)}
    return reflectloop(repo.path, "fileops", stdin=json.dumps(request)).json


def test_003_line_132_a_part_of_a_step_can_be_split_and_a_part_of_a_part_cannot(repo: Repo) -> None:
    begin, split = {"op": "triflow_state_preflight"}, {"op": "triflow_state_apply_split", "substeps": ["a", "b", "c"]}
    _send(repo, 1, "write_plan_files", {"op": "triflow_plan_init", "taskName": "T", "steps": ["One"]})
    told = []
    for number in (2, 4, 6):
        assert _send(repo, number, "execute_step", begin)["status"] == "ok"
        told.append(_send(repo, number + 1, "split_step", split))
    assert [one["status"] for one in told] == ["ok", "ok", "fail"]
    assert told[1]["data"]["0"]["substeps"] == ["1.1.1", "1.1.2", "1.1.3"]
    assert "step 1.1.1 is a part of a part already" in told[2]["fail"]["reason"]
    assert _send(repo, 8, "read_state", begin)["data"]["0"]["step"] == "1.1.1"
