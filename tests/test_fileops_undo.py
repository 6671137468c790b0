"""A request is carried out whole or not at all, and a secret in it goes nowhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fileops_workspace import TOKEN, Place, fields, place_in
from reflectloop.config import Config
from reflectloop.errors import SecretLeak
from support import Repo


def test_an_op_that_fails_in_the_middle_of_ten_undoes_the_five_before_it(place: Place) -> None:
    first = place.ask(
        {"op": "run", "cmd": "mkdir -p build/empty && echo old > build/out && echo old > app.log && chmod 600 app.log"},
        {"op": "run", "cmd": "git -c user.name=x -c user.email=x@y commit -qam mine --allow-empty"},
    )
    assert first.status == "ok", first.fail
    before = place.state()
    answer = place.ask(
        {"op": "write_file", "path": "src/app.py", "content": "broken"},
        {"op": "delete_file", "path": "build/out"},
        {"op": "move_file", "from": "app.log", "to": "other.log"},
        {
            "op": "run",
            "cmd": "rm -rf src build .git/refs; ln -s /etc build; mkdir deep; cp -r /bin/sh deep; git init -q nested",
        },
        {"op": "write_json", "path": "x/y/z.json", "value": {}},
        {"op": "run", "cmd": "exit 7"},
        *({"op": "write_file", "path": f"never{number}", "content": ""} for number in range(4)),
    )
    assert answer.status == "fail"
    assert answer.fail
    assert answer.fail.reason == "exit 7: exited 7"
    assert fields(answer) == ["ops[5].cmd"]
    assert [one.status for one in answer.ops] == ["undone"] * 5 + ["fail"] + ["skipped"] * 4
    assert answer.changedFiles == ()
    assert place.state() == before
    assert (place.repo / "build/empty").is_dir()
    assert (
        place.ask(
            {"op": "run", "cmd": "git status --short; git log -1 --format=%s"}, report={"commandOutputs": "always"}
        )
        .proof.commands[0]
        .stdout
        == "mine\n"
    )


def test_a_request_that_touched_only_ignored_files_is_rolled_back_too(place: Place) -> None:
    made = place.ask(
        {"op": "write_file", "path": "build/a", "content": "1"}, {"op": "write_file", "path": "build/b", "content": "1"}
    )
    assert made.status == "ok"
    assert made.changedFiles == ()
    assert "build/a" in made.proof.notes[0]
    before, tree = place.state(), place.hands.workspace.tree
    for _ in range(2):  # the second time from the copies that the first time gave back
        answer = place.ask(
            {"op": "write_file", "path": "build/a", "content": "2"},
            {"op": "delete_file", "path": "build/b"},
            {"op": "write_file", "path": "build/c", "content": "2"},
            {"op": "read_file", "path": "nowhere"},
        )
        assert (answer.status, fields(answer)) == ("fail", ["ops[3].path"])
        assert place.state() == before
        assert place.hands.workspace.tree == tree


def test_copied_folders_are_rolled_back_as_well(repo: Repo, tmp_path: Path) -> None:
    repo.write(".gitignore", "/vendor\n")
    repo.commit("ignore")
    repo.write("vendor/lib/x.py", "x = 1\n")
    carry = Config().workspace.model_copy(update={"carry_copy": ("vendor",)})
    with place_in(repo, tmp_path, carry=carry) as place:
        before = place.state()
        assert "vendor/lib/x.py" in before
        answer = place.ask({"op": "run", "cmd": "rm -r vendor/lib; echo > vendor/y; exit 1"})
        assert answer.status == "fail"
        assert place.state() == before


def test_commands_may_change_only_what_the_request_may_write(place: Place) -> None:
    before = place.state()
    answer = place.ask(
        {"op": "run", "cmd": "echo x > src/new.txt; echo x > outside.txt"}, constraints={"writable_roots": ["src"]}
    )
    assert answer.status == "fail"
    assert "outside.txt" in answer.errors[0].error
    assert place.state() == before
    assert (
        place.ask({"op": "run", "cmd": "echo x > src/new.txt"}, constraints={"writable_roots": ["src/"]}).status == "ok"
    )
    place.hands.writable = ("docs",)
    barred = place.ask({"op": "write_file", "path": "src/a", "content": ""})
    assert (barred.status, fields(barred)) == ("validation_error", ["ops[0].path"])


def test_the_same_request_is_answered_once_and_another_under_its_id_is_refused(place: Place) -> None:
    request = {
        "proto": "triflow.fileops.v1",
        "id": "same",
        "purpose": "execute_step",
        "ops": [{"op": "run", "cmd": "echo x >> count.txt"}],
    }
    first = place.send(request)
    assert place.send({**request, "summary": ""}) == first
    assert place.text("count.txt") == "x\n"
    other = place.send({**request, "summary": "another"})
    assert (other.status, fields(other)) == ("validation_error", ["id"])
    invalid = {**request, "id": "mended", "ops": []}
    assert place.send(invalid).status == "validation_error"
    assert place.send({**invalid, "ops": [{"op": "list_dir"}]}).status == "ok"


def test_failed_attempts_of_a_purpose_are_counted(place: Place) -> None:
    limited = {"constraints": {"max_attempts": 2}}
    for _ in range(2):
        assert place.ask({"op": "run", "cmd": "exit 1"}, **limited).status == "fail"
    spent = place.ask({"op": "list_dir"}, **limited)
    assert (spent.status, fields(spent)) == ("fail", ["constraints.max_attempts"])
    assert place.ask({"op": "list_dir"}, purpose="split_step", **limited).status == "ok"
    assert place.ask({"op": "list_dir"}).status == "ok"
    assert place.ask({"op": "list_dir"}, **limited).status == "ok"


# Secrets ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op",
    [
        {"op": "write_file", "path": "build/a", "content": f"key = {TOKEN}\n"},
        {"op": "write_json", "path": "a.json", "value": {"key": TOKEN}},
        {"op": "apply_patch", "patch": f"*** Begin Patch\n*** Add File: a\n+key = {TOKEN}\n*** End Patch\n"},
        {"op": "run", "cmd": f"echo key = {TOKEN}"},
        {"op": "run", "cmd": f"echo key = {TOKEN} > a"},
    ],
)
# A command that is stopped for what it prints leaves a pipe to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_secret_stops_the_request_and_is_written_nowhere(place: Place, op: Any) -> None:
    before = place.state()
    with pytest.raises(SecretLeak):
        place.ask({"op": "write_file", "path": "b", "content": "b"}, op)
    assert place.state() == before
    assert place.hands.memory.recall("R-1") is None


def test_a_secret_already_in_a_file_is_allowed_and_redacted(repo: Repo, tmp_path: Path) -> None:
    repo.write("old.txt", f"key = {TOKEN}\nnext\n")
    repo.commit("too late")
    with place_in(repo, tmp_path) as place:
        answer = place.ask(
            {"op": "read_file", "path": "old.txt"},
            {"op": "search", "pattern": "key"},
            {
                "op": "apply_patch",
                "patch": "*** Begin Patch\n*** Update File: old.txt\n@@\n-next\n+later\n*** End Patch",
            },
        )
        assert answer.status == "ok"
        assert TOKEN not in json.dumps(answer.as_json())
        assert place.text("old.txt") == f"key = {TOKEN}\nlater\n"
