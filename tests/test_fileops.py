"""FileOps through the program: requests, answers, schemas and the document."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fileops_workspace import ROOT, TOKEN, Place
from reflectloop.state import lock
from support import Repo


def test_requests_and_responses_validate_against_the_schemas(place: Place) -> None:
    request = {"proto": "autoflow.fileops.v1", "id": "S", "purpose": "execute_step", "ops": [
        {"op": "move_file", "from": "README.md", "to": "R"}, {"op": "run", "cmd": ["true"]},
        {"op": "triflow_state_append_steps", "steps": ["a", {"title": "b"}]}]}  # fmt: skip
    requests, responses = (
        json.loads((ROOT / "schemas" / f"fileops-{name}.json").read_text()) for name in ("request", "response")
    )
    jsonschema.validate(request, requests)
    answer = place.send(request)
    assert (answer.status, answer.proto) == ("ok", "autoflow.fileops.v1")
    jsonschema.validate(answer.as_json(), responses)
    jsonschema.validate(place.send({**request, "id": ""}).as_json(), responses)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**request, "ops": [{"op": "exec"}]}, requests)


def request_file(repo: Repo, name: str, *ops: Any, **more: Any) -> Path:
    said = {"proto": "triflow.fileops.v1", "id": name, "purpose": "execute_step", "ops": list(ops), **more}
    path = repo.path.parent / f"{name}.json"
    path.write_text(json.dumps(said))
    return path


def test_requests_continue_from_the_last_one_and_leave_the_users_tree_alone(repo: Repo) -> None:
    before = repo.state()
    first = repo.run("fileops", request_file(repo, "one", {"op": "write_file", "path": "new.txt", "content": "1\n"}))
    assert (first.code, first.json["status"], first.json["changedFiles"]) == (0, "ok", ["new.txt"])
    failed = repo.run(
        "fileops", request_file(repo, "two", {"op": "delete_file", "path": "new.txt"}, {"op": "run", "cmd": "false"})
    )
    assert (failed.code, failed.json["status"]) == (30, "fail")
    second = repo.run("fileops", request_file(repo, "three", {"op": "read_file", "path": "new.txt"}))
    assert second.json["data"]["0"]["content"] == "1\n"
    again = repo.run("fileops", repo.path.parent / "one.json")
    assert again.stdout == first.stdout
    other = repo.run("fileops", request_file(repo, "one", {"op": "list_dir"}))
    assert (other.code, other.json["errors"][0]["field"]) == (12, "id")
    assert repo.state() == before
    repo.write("README.md", "changed by hand\n")
    anew = repo.run("fileops", request_file(repo, "four", {"op": "list_dir"}))
    assert "new.txt" not in anew.stdout
    assert "changed since the last request" in anew.json["proof"]["notes"][0]
    assert repo.workspaces() == []


def test_a_request_continues_from_the_tree_of_the_current_task(repo: Repo) -> None:
    plan = repo.steps("echo made by the run > made.txt", "false")
    assert repo.run("run", plan).code == 30
    answer = repo.run("fileops", request_file(repo, "look", {"op": "read_file", "path": "made.txt"}))
    assert answer.json["data"]["0"]["content"] == "made by the run\n"


def test_what_a_crash_left_unfinished_did_not_happen(repo: Repo) -> None:
    pointer = repo.path / ".reflectloop/requests/pointer.json"
    assert repo.run("fileops", request_file(repo, "one", {"op": "write_file", "path": "a", "content": "1\n"})).code == 0
    before = pointer.read_bytes()
    second = request_file(repo, "two", {"op": "run", "cmd": "echo 2 >> a"})
    assert repo.run("fileops", second).code == 0
    pointer.write_bytes(before)  # killed before the last write
    assert repo.run("fileops", second).json["ops"][0]["status"] == "ok"
    read = repo.run("fileops", request_file(repo, "three", {"op": "read_file", "path": "a"}))
    assert read.json["data"]["0"]["content"] == "1\n2\n"


def test_a_stored_response_that_came_with_the_project_is_ignored(repo: Repo, tmp_path: Path) -> None:
    request = request_file(repo, "one", {"op": "write_file", "path": "new.txt", "content": "1\n"})
    assert repo.run("fileops", request).code == 0
    stolen = tmp_path / "stolen"
    subprocess.run(["cp", "-a", str(repo.path), str(stolen)], check=True)
    for path in (stolen / ".reflectloop/requests").glob("*.json"):
        path.write_text(path.read_text().replace('"ok"', '"split"'))
    assert Repo(stolen).run("fileops", request).json["status"] == "ok"


def test_serving_answers_line_by_line_and_a_broken_line_ends_nothing(repo: Repo) -> None:
    from support import reflectloop

    lines = [
        request_file(repo, "one", {"op": "run", "cmd": "mkdir -p build; echo x > a.txt"}).read_text(),
        "{broken",
        "",
        request_file(repo, "two", {"op": "delete_file", "path": "a.txt"}, {"op": "run", "cmd": "false"}).read_text(),
        request_file(repo, "three", {"op": "read_file", "path": "a.txt"}).read_text(),
    ]
    answer = reflectloop(repo.path, "fileops", "--serve", stdin="\n".join(lines))
    assert answer.code == 0, answer.stderr
    assert [json.loads(line)["status"] for line in answer.stdout.splitlines()] == [
        "ok",
        "validation_error",
        "fail",
        "ok",
    ]
    assert [json.loads(line)["id"] for line in answer.stdout.splitlines()] == ["one", "", "two", "three"]


def test_a_leak_latches_the_project_and_is_answered_in_json(repo: Repo) -> None:
    leak = request_file(repo, "leak", {"op": "write_file", "path": "a", "content": f"key = {TOKEN}"})
    answer = repo.run("fileops", leak)
    assert answer.code == 99
    assert (answer.json["status"], answer.json["id"]) == ("fail", "leak")
    assert answer.json["fail"]["hint"].startswith("SECRET_LEAK")
    assert repo.run("fileops", request_file(repo, "next", {"op": "list_dir"})).code == 41
    own = repo.path / ".reflectloop"
    assert not [path for path in own.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert repo.workspaces() == []


def test_an_invalid_request_opens_no_workspace(repo: Repo) -> None:
    from support import reflectloop

    answer = reflectloop(repo.path, "fileops", "--strict", stdin='{"proto": "triflow.fileops.v1", "ops": []}')
    assert answer.code == 12
    assert {one["field"] for one in answer.json["errors"]} == {"done", "id", "ops", "purpose", "report", "summary"}
    assert not (repo.path / ".reflectloop" / "requests").exists()
    nowhere = repo.run("fileops", "nowhere.json")
    assert (nowhere.code, nowhere.json["status"]) == (12, "fail")


def test_a_locked_project_is_reported_in_json(repo: Repo) -> None:
    assert repo.run("fileops", request_file(repo, "first", {"op": "list_dir"})).code == 0
    with lock.hold_lock(repo.path / ".reflectloop", "test"):
        answer = repo.run("fileops", request_file(repo, "one", {"op": "list_dir"}))
    assert (answer.code, answer.json["id"]) == (50, "one")
    assert answer.json["fail"]["hint"].startswith("LOCKED")


def test_plan_ops_are_refused_without_a_plan(repo: Repo) -> None:
    answer = repo.run("fileops", request_file(repo, "one", {"op": "triflow_state_preflight"}))
    assert (answer.code, answer.json["errors"][0]["field"]) == (30, "ops[0].op")


def test_the_example_in_the_document_does_what_the_document_says(repo: Repo) -> None:
    request, said = re.findall(r"```json\n(.*?)```", (ROOT / "docs/fileops.md").read_text(), re.DOTALL)
    path = repo.path.parent / "example.json"
    path.write_text(request)
    answer = repo.run("fileops", path, "--strict")
    assert answer.code == 0, answer.stdout
    wanted = json.loads(said)
    found = {
        **answer.json,
        "ops": [{**one, "summary": re.sub(r"\d+ ms", "12 ms", one["summary"])} for one in answer.json["ops"]],
    }
    assert {key: found[key] for key in wanted} == wanted
