"""What each op of a request does, and what the ops on a plan reach."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from fileops_workspace import Place, fields, place_in
from reflectloop.fileops import validate
from reflectloop.fileops.ops_context import PersonNeeded, Refusal, SplitNeeded
from reflectloop.fileops.validate import Invalid
from reflectloop.terms import Isolation
from support import Repo


def test_files_are_read_by_lines_and_binary_ones_are_named_as_such(place: Place) -> None:
    (place.repo / "picture.bin").write_bytes(b"\x00\xff\x00")
    answer = place.ask(
        {"op": "read_file", "path": "src/numbers.txt", "startLine": 2, "endLine": 3},
        {"op": "read_file", "path": "./src//app.py"},
        {"op": "read_file", "path": "picture.bin"},
    )
    assert answer.status == "ok"
    assert answer.data["0"] == {**_read(place, "src/numbers.txt"), "content": "line 2\nline 3\n"}
    assert _read(place, "src/app.py") == answer.data["1"]
    assert isinstance(answer.data["2"], dict)
    assert answer.data["2"]["binary"] is True
    assert "content" not in answer.data["2"]
    assert answer.changedFiles == ()  # what was there before is none of the request's


def _read(place: Place, name: str) -> dict[str, Any]:
    raw = (place.repo / name).read_bytes()
    return {
        "path": name,
        "size": len(raw),
        "sha256": hashlib.sha256(raw).hexdigest(),
        "lines": raw.count(b"\n"),
        "content": raw.decode(),
        "truncated": False,
    }


def test_writing_creates_folders_keeps_modes_and_reports_changes(place: Place) -> None:
    (place.repo / "tool.sh").write_text("#!/bin/sh\n")
    (place.repo / "tool.sh").chmod(0o755)
    answer = place.ask(
        {"op": "write_file", "path": "new/deep/a.txt", "content": "ä\n"},
        {"op": "write_json", "path": "new/b.json", "value": {"键": [1, True, None]}},
        {"op": "write_file", "path": "tool.sh", "content": "#!/bin/sh\nexit 0\n"},
        report={"changedFiles": True, "diffSummary": True},
    )
    assert answer.status == "ok"
    assert place.text("new/deep/a.txt") == "ä\n"
    assert json.loads(place.text("new/b.json")) == {"键": [1, True, None]}
    assert (place.repo / "tool.sh").stat().st_mode & 0o777 == 0o755
    assert set(answer.changedFiles) == {"new/deep/a.txt", "new/b.json", "tool.sh"}
    assert {"path": "new/b.json", "change": "added", "from": None} in answer.data["diffSummary"]  # type: ignore[operator]
    assert [one.status for one in answer.ops] == ["ok"] * 3
    silent = place.ask({"op": "write_file", "path": "c", "content": ""}, report={"changedFiles": False})
    assert (silent.status, silent.changedFiles) == ("ok", ())


def test_a_file_is_replaced_and_not_written_into_its_other_names(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("mine\n")
    os.link(outside, place.repo / "twin.txt")
    assert place.ask({"op": "write_file", "path": "twin.txt", "content": "theirs\n"}).status == "ok"
    assert outside.read_text() == "mine\n"


def test_files_are_deleted_and_moved_and_nothing_is_moved_over_another(place: Place) -> None:
    answer = place.ask(
        {"op": "move_file", "from": "src/app.py", "to": "lib/main.py"}, {"op": "delete_file", "path": "README.md"}
    )
    assert answer.status == "ok"
    assert set(answer.changedFiles) == {"src/app.py", "lib/main.py", "README.md"}
    assert place.text("lib/main.py") == "print('hello')\n"
    refused = place.ask({"op": "move_file", "from": "lib/main.py", "to": "src/numbers.txt"})
    assert (refused.status, fields(refused)) == ("fail", ["ops[0].from"])
    assert "already exists" in refused.errors[0].error


def test_folders_are_listed_without_reserved_names_and_within_limits(place: Place) -> None:
    (place.repo / "link").symlink_to("/etc")
    found = place.ask({"op": "list_dir", "depth": 2}).data["0"]
    assert isinstance(found, dict)
    listed = {one["path"]: one["kind"] for one in found["entries"]}  # type: ignore[index, union-attr, call-overload]
    assert listed == {
        ".gitignore": "file",
        "README.md": "file",
        "link": "link",
        "src": "folder",
        "src/app.py": "file",
        "src/numbers.txt": "file",
    }
    few = place.ask({"op": "list_dir", "path": "src", "maxEntries": 1}).data["0"]
    assert isinstance(few, dict)
    assert (len(few["entries"]), few["truncated"]) == (1, True)  # type: ignore[arg-type]


def test_search_finds_text_and_expressions_within_limits(place: Place) -> None:
    def lines(**more: Any) -> tuple[list[int], bool]:
        answer = place.ask({"op": "search", "path": "src", **more})
        found = answer.data["0"]
        assert isinstance(found, dict)
        return [one["line"] for one in found["matches"]], bool(found["truncated"])  # type: ignore[index, union-attr, call-overload, misc]

    assert lines(pattern="LINE 1.", glob="*.txt") == ([], False)
    assert lines(pattern="LINE 1$", regex=True, ignoreCase=True) == ([1], False)
    assert lines(pattern="line 1", glob="*.txt") == ([1, *range(10, 20)], False)
    assert lines(pattern="line", maxResults=3) == ([1, 2, 3], True)
    assert lines(pattern="line", glob="*.py") == ([], False)
    assert lines(pattern="line 20", glob="src/**/num?ers.*") == ([20], False)
    assert lines(pattern="line 20", glob="*n" * 100 + "b") == ([], False)
    broken = place.ask({"op": "search", "pattern": "(", "regex": True})
    assert (broken.status, fields(broken)) == ("validation_error", ["ops[0].pattern"])


def test_commands_run_in_the_sandbox_and_their_output_is_proof(place: Place) -> None:
    answer = place.ask(
        {"op": "run", "cmd": ["sh", "-c", "pwd; echo made > made.txt"], "cwd": "src"},
        {"op": "run", "cmd": "echo one | tr a-z A-Z"},
        report={"commandOutputs": "always"},
    )
    assert answer.status == "ok", answer.fail
    assert [one.exitCode for one in answer.proof.commands] == [0, 0]
    assert answer.proof.commands[0].stdout.endswith("/src\n")
    assert answer.proof.commands[1].stdout == "ONE\n"
    assert answer.changedFiles == ("src/made.txt",)


@pytest.mark.parametrize(
    ("wanted", "shown"), [("always", ["good", "bad"]), ("on_failure", ["", "bad"]), ("never", ["", ""])]
)
def test_outputs_are_reported_as_requested(place: Place, wanted: str, shown: list[str]) -> None:
    answer = place.ask(
        {"op": "run", "cmd": "echo good"},
        {"op": "run", "cmd": "echo bad; exit 4"},
        report={"commandOutputs": wanted},
    )
    assert (answer.status, answer.proof.commands[1].exitCode) == ("fail", 4)
    assert [one.stdout.strip() for one in answer.proof.commands] == shown


def test_a_command_past_its_time_fails_its_op_and_one_without_network_has_none(place: Place) -> None:
    slow = place.ask({"op": "run", "cmd": "sleep 20", "timeoutMs": 300})
    assert (slow.status, fields(slow)) == ("fail", ["ops[0].timeoutMs"])
    with socket.create_server(("127.0.0.1", 0)) as server:
        knock = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        answer = place.ask({"op": "run", "cmd": knock}, constraints={"no_network": True})
    assert answer.status == "fail"


def test_a_command_that_waits_for_input_is_a_question(place: Place) -> None:
    place.hands.box.idle_s = 1
    answer = place.ask({"op": "write_file", "path": "a", "content": ""}, {"op": "run", "cmd": "sleep 60"})
    assert answer.status == "ask"
    assert answer.ask
    assert "wait for input" in str(answer.ask["question"])
    assert not (place.repo / "a").exists()


def test_no_network_is_refused_if_it_cannot_be_enforced(repo: Repo, tmp_path: Path) -> None:
    with place_in(repo, tmp_path, Isolation.WORKSPACE) as place:
        answer = place.ask({"op": "run", "cmd": "true"}, constraints={"no_network": True})
        assert (answer.status, fields(answer)) == ("validation_error", ["constraints.no_network"])
        assert place.ask({"op": "run", "cmd": "true"}).status == "ok"


# The plan's own ops --------------------------------------------------------------------------------------------------


def test_the_six_plan_ops_get_the_evidence_of_the_engine(place: Place) -> None:
    ops: list[dict[str, Any]] = [
        {"op": "triflow_plan_init", "taskName": "T", "steps": ["one", {"title": "two", "checks": ["make test"]}]},
        {"op": "triflow_state_preflight", "step": 1},
        {"op": "run", "cmd": "echo x > proof.txt"},
        {"op": "triflow_state_finalize", "verification": "verify_pointer_moved"},
        {"op": "triflow_state_mark_blocked", "reason": "no key", "unblock": "a key"},
        {"op": "triflow_state_apply_split", "substeps": ["a", "b", "c"]},
        {"op": "triflow_state_append_steps", "steps": ["a", "b"]},
    ]
    answer = place.ask(*ops)
    assert answer.status == "ok", answer.errors
    assert place.plan.kept == [op["op"] for op in ops if op["op"] != "run"]
    assert answer.data["3"] == {"done": "triflow_state_finalize"}
    before, after = place.plan.seen[1], place.plan.seen[2]
    assert before.tree == before.begun != after.tree
    assert [one.exitCode for one in after.commands] == [0]


def test_a_request_as_triflow_writes_it_is_strictly_valid() -> None:
    raw = """{"proto": "triflow.fileops.v1", "id": "TR-FINALIZE", "purpose": "finalize_step",
      "summary": "完成当前步骤并推进状态", "done": ["状态更新为 done", "指针移动到下一步"],
      "ops": [{"op": "triflow_state_finalize", "verification": "verify_pointer_moved"},
              {"op": "run", "cmd": "python3 automation/autoloop.py --once"}],
      "report": {"changedFiles": true}}"""
    assert len(validate.parse(raw.encode(), strict=True).ops) == 2


@pytest.mark.parametrize(
    ("op", "field"),
    [
        ({"op": "triflow_plan_init"}, "ops[0]"),
        ({"op": "triflow_plan_init", "plan": "p.yaml", "steps": ["a"], "taskName": "T"}, "ops[0]"),
        ({"op": "triflow_plan_init", "steps": ["a"]}, "ops[0].taskName"),
        ({"op": "triflow_plan_init", "taskName": "T", "steps": [{"titel": "a"}]}, "ops[0].steps[0].titel"),
        ({"op": "triflow_state_preflight", "step": []}, "ops[0].step"),
        ({"op": "triflow_state_finalize", "evidence": "it works"}, "ops[0].evidence"),
        ({"op": "triflow_state_mark_blocked", "reason": "r"}, "ops[0].unblock"),
        ({"op": "triflow_state_apply_split", "substeps": ["a", "b"]}, "ops[0].substeps"),
        ({"op": "triflow_state_apply_split", "substeps": list("abcdefgh")}, "ops[0].substeps"),
        ({"op": "triflow_state_append_steps", "steps": []}, "ops[0].steps"),
        ({"op": "triflow_state_append_steps", "steps": ["a", "b", "c"]}, "ops[0].steps"),
    ],
)
def test_an_invalid_plan_op_is_refused(op: Any, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        validate.check({"proto": "triflow.fileops.v1", "id": "x", "purpose": "finalize_step", "ops": [op]})
    assert field in fields(refused.value.response)


@pytest.mark.parametrize(
    ("stop", "status"),
    [(Refusal("not now", hint="later"), "fail"), (PersonNeeded("which?"), "ask"), (SplitNeeded("too large"), "split")],
)
def test_a_refused_plan_op_undoes_the_request(place: Place, stop: Exception, status: str) -> None:
    before = place.state()
    place.plan.stop = stop
    answer = place.ask({"op": "write_file", "path": "a", "content": "a"}, {"op": "triflow_state_preflight"})
    assert answer.status == status
    assert fields(answer) == ["ops[1].op"]
    assert [one is not None for one in (answer.fail, answer.ask, answer.split)] == [
        one == status for one in ("fail", "ask", "split")
    ]
    assert place.state() == before
    assert [one.status for one in answer.ops] == ["undone", "fail"]


def test_plan_changes_are_discarded_when_a_later_op_fails(place: Place) -> None:
    answer = place.ask({"op": "triflow_state_finalize"}, {"op": "run", "cmd": "exit 1"})
    assert answer.status == "fail"
    assert (place.plan.kept, place.plan.pending) == ([], [])
