"""Templates: what they hold is valid, what is put in keeps its type, and no value becomes shell text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reflectloop.errors import InvalidInput, NothingToDo
from reflectloop.fileops import templates, validate
from reflectloop.fileops.request import RunOp
from support import Repo, reflectloop

VALUES: dict[str, dict[str, Any]] = {
    "write_plan_files": {"task": "Mend the pager", "steps": ["red", {"title": "fix", "checks": [["make", "test"]]}]},
    "preflight": {},
    "execute_step": {"summary": "Mend it", "done": ["tests pass"], "ops": [{"op": "run", "cmd": ["make", "test"]}]},
    "run_checks": {"command": ["make", "test"]},
    "finalize_step": {},
    "split_step": {"substeps": ["a", "b", "c"]},
    "append_steps": {"steps": ["a"]},
    "mark_blocked": {"reason": "no key", "unblock": "a key"},
}


def made(ops: list[Any], gaps: dict[str, str], **more: Any) -> bytes:
    placeholders = {name: {"type": kind, "about": "x", "source": "x"} for name, kind in gaps.items()}
    head = {
        "proto": "triflow.fileops.v1",
        "id": "x",
        "purpose": "execute_step",
        "summary": "",
        "done": [],
        "report": {},
    }
    return json.dumps({"_meta": {"about": "x", "placeholders": placeholders}, **head, "ops": ops, **more}).encode()


def test_every_template_makes_a_strictly_valid_request() -> None:
    assert set(VALUES) == set(templates.names())
    for name, values in VALUES.items():
        request = templates.fill_template(templates.load(name), {"id": f"{name}-1", **values})
        assert request.id == f"{name}-1"
        assert validate.check(request.as_json(), strict=True) == request


def test_a_placeholder_alone_keeps_its_type_and_within_text_is_text() -> None:
    raw = made(
        [{"op": "list_dir", "depth": "{{depth}}"}, {"op": "search", "pattern": "{{a}}-{{b}}", "regex": "{{regex}}"}],
        {"depth": "number", "a": "text", "b": "text", "regex": "boolean", "done": "list"},
        done="{{done}}",
    )
    values: dict[str, Any] = {"depth": 3, "a": "{{b}}", "b": "$1", "regex": False, "done": ["x", "y"]}
    request = templates.fill_template(templates.parse_template("t", raw), values)
    assert request.done == ("x", "y")
    assert [op.model_dump(include={"depth", "pattern", "regex"}) for op in request.ops] == [
        {"depth": 3},
        {"pattern": "{{b}}-$1", "regex": False},
    ]


@pytest.mark.parametrize(
    ("command", "gaps"),
    [
        ("make {{target}}", {"target": "text"}),
        ("{{command}}", {"command": "text"}),
        (["sh", "-c", "make {{target}}"], {"target": "text"}),
        (["/bin/bash", "-ec", "{{command}}"], {"command": "text"}),
        (["bash", "{{script}}"], {"script": "text"}),
    ],
)
def test_a_template_that_would_splice_a_value_into_shell_text_is_refused_when_it_is_read(
    command: Any, gaps: Any
) -> None:
    with pytest.raises(InvalidInput) as refused:
        templates.parse_template("t", made([{"op": "run", "cmd": command}], gaps))
    assert [fault.path for fault in refused.value.faults] == ["ops[0].cmd"]


@pytest.mark.parametrize("hostile", ["; rm -rf /", "$(id)", "a b", "'", "{{word}}"])
def test_a_value_in_a_command_list_is_one_argument(hostile: str) -> None:
    raw = made([{"op": "run", "cmd": ["git", "commit", "-m", "{{word}}", "--author={{word}}"]}], {"word": "text"})
    (op,) = templates.fill_template(templates.parse_template("t", raw), {"word": hostile}).ops
    assert isinstance(op, RunOp)
    assert op.cmd == ("git", "commit", "-m", hostile, f"--author={hostile}")


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (made([{"op": "list_dir", "path": "{{nowhere}}"}], {}), "ops[0].path"),
        (made([{"op": "list_dir"}], {"unused": "text"}), "_meta.placeholders.unused"),
        (made([{"op": "list_dir", "path": "a/{{n}}"}], {"n": "number"}), "ops[0].path"),
        (made([{"op": "list_dir"}], {}, id="1").replace(b'"id"', b'"id": "2", "id"'), "id"),
    ],
)
def test_a_template_with_faults_is_refused_with_their_places(raw: bytes, path: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        templates.parse_template("t", raw)
    assert path in [fault.path for fault in refused.value.faults]


def test_all_faults_of_values_are_reported_at_once() -> None:
    with pytest.raises(InvalidInput) as refused:
        templates.fill_template(templates.load("split_step"), {"substeps": "abc", "raeson": "x", "reason": 7})
    assert {fault.path for fault in refused.value.faults} == {"id", "substeps", "raeson", "reason"}
    assert "did you mean 'reason'?" in refused.value.message
    with pytest.raises(InvalidInput) as invalid:
        templates.fill_template(templates.load("split_step"), {"id": "x", "substeps": ["a", "b"]})
    assert [fault.path for fault in invalid.value.faults] == ["ops[0].substeps"]
    with pytest.raises(NothingToDo, match="did you mean 'preflight'"):
        templates.load("prefligt")


def test_the_command_prints_a_request_that_fileops_accepts(repo: Repo) -> None:
    answer = repo.run("template", "run_checks", 'command=["sh", "-c", "cat README.md"]', "timeout_ms=5000")
    assert answer.code == 0, answer.stderr
    assert answer.json["ops"][0]["timeoutMs"] == 5000
    done = reflectloop(repo.path, "fileops", "--strict", stdin=answer.stdout)
    assert (done.code, done.json["status"], done.json["id"]) == (0, "ok", answer.json["id"])
    blocked = repo.run("template", "mark_blocked", "reason=7", 'unblock=["a"]', "id=B", "step=3")
    assert blocked.json["ops"][0] == {"op": "triflow_state_mark_blocked", "reason": "7", "unblock": '["a"]', "step": 3}
    assert repo.run("template", "run_checks", "command").code == 12


def test_the_command_lists_templates_and_their_placeholders(repo: Repo) -> None:
    listed = repo.run("template", "--list")
    assert listed.code == 0
    assert all(name in listed.stdout for name in VALUES)
    one = repo.run("template", "split_step", "--list", "--json").json["data"]["split_step"]
    assert set(one["placeholders"]["substeps"]) == {"type", "about", "source"}
    assert one["placeholders"]["reason"]["default"] == ""
