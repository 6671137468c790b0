"""What is wrong with a request is said at once and before anything is done."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fileops_workspace import BAD_PATHS, Place, fields
from reflectloop.fileops import execute as executing
from reflectloop.fileops import json_from_text, paths, validate
from reflectloop.fileops.request import LARGEST_CONTENT, MOST_OPS, FileopsRequest
from reflectloop.fileops.validate import Invalid
from reflectloop.policy import CommandPolicy, builtin_rules


def test_all_faults_are_reported_at_once_with_their_fields() -> None:
    raw = b"""{"proto": "triflow.fileops.v2", "purpose": "execute_steps", "sumary": "s", "id": "a", "id": "b",
      "ops": [{"op": "write_fil", "path": "a"}, {"op": "write_file", "path": "../a", "contnt": "x"}, {"path": "a"}, 7,
              {"op": "run", "cmd": "a\\u0000b", "timeoutMs": "9"},
              {"op": "write_file", "path": "src2/a", "content": ""}, {"op": "search", "pattern": "(", "regex": true}],
      "constraints": {"writable_roots": ["src"], "max_attempts": 0}}"""
    with pytest.raises(Invalid) as refused:
        validate.parse(raw, strict=True)
    answer = refused.value.response
    assert answer.status == "validation_error"
    found = {one.field: one.error for one in answer.errors}
    assert set(found) == {
        "constraints.max_attempts",
        "done",
        "id",
        "ops[0].op",
        "ops[1].content",
        "ops[1].contnt",
        "ops[1].path",
        "ops[2].op",
        "ops[3]",
        "ops[4].cmd",
        "ops[4].timeoutMs",
        "ops[5].path",
        "ops[6].pattern",
        "proto",
        "purpose",
        "report",
        "sumary",
        "summary",
    }
    assert "did you mean 'write_file'?" in found["ops[0].op"]
    assert "did you mean 'content'?" in found["ops[1].contnt"]
    assert "did you mean 'summary'?" in found["sumary"]
    assert "occurs twice" in found["id"]
    assert "outside writable_roots" in found["ops[5].path"]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_path_outside_the_workspace_is_refused(path: str) -> None:
    ops = [
        {"op": "read_file", "path": path},
        {"op": "write_file", "path": path, "content": "x"},
        {"op": "write_json", "path": path, "value": 1},
        {"op": "delete_file", "path": path},
        {"op": "move_file", "from": path, "to": "b"},
        {"op": "move_file", "from": "b", "to": path},
    ]
    folders = [
        {"op": "list_dir", "path": path},
        {"op": "search", "pattern": "x", "path": path},
        {"op": "run", "cmd": "ls", "cwd": path},
    ]
    ops += folders if path not in (".", "a/") else []
    said = {"proto": "triflow.fileops.v1", "id": "x", "purpose": "execute_step", "ops": ops}
    with pytest.raises(Invalid) as refused:
        validate.parse(json.dumps(said).encode())
    keys = ["path"] * 4 + ["from", "to"] + (["path", "path", "cwd"] if path not in (".", "a/") else [])
    assert {f"ops[{number}].{key}" for number, key in enumerate(keys)} <= set(fields(refused.value.response))


def test_paths_similar_to_refused_ones_are_allowed() -> None:
    for path in (
        ".gitignore",
        ".github/workflows/x.yml",
        "a..b",
        "...",
        "git/config",
        "x.git/config",
        ".claude/skills",
        "a b/ü",
    ):
        assert paths.fault_in(path) is None, path
    assert paths.is_within("src/a", ["src"])
    assert not paths.is_within("srcs/a", ["src"])
    assert not paths.is_within("SRC/a", ["src"])


@pytest.mark.parametrize(
    ("around", "found"),
    [
        ("{}", True),
        ("\ufeff{}", True),
        ("```json\n{}\n```", True),
        ("Sure! Here is {{it}} and a {{}}:\n\n```json\n{}\n```\nDone {{:.}}", True),
        ("{}\n\nand again:\n{}", True),
        ("no request", False),
        ('{{"proto": 1,}} {}', False),
        ('{{"a": [1,, {}]}}', False),
        ('{} {{"proto": "other", "ops": []}}', False),
    ],
)
def test_one_request_is_parsed_from_a_reply_and_none_from_a_broken_object(around: str, found: bool) -> None:
    said = json.dumps(
        {"proto": "triflow.fileops.v1", "id": "x", "purpose": "execute_step", "ops": [{"op": "list_dir"}]}
    )
    raw = around.format(said, said).encode()
    if found:
        assert validate.parse(raw).id == "x"
    else:
        with pytest.raises(Invalid) as refused:
            validate.parse(raw)
        assert fields(refused.value.response) == ["(request)"]


def test_sizes_and_depths_are_limited_before_anything_is_built() -> None:
    class Unread(bytes):
        def decode(self, *_: Any, **__: Any) -> str:
            raise AssertionError("it was looked at")

    def refusal(raw: bytes) -> str:
        with pytest.raises(Invalid) as refused:
            validate.parse(raw)
        (error,) = refused.value.response.errors
        return f"{error.field}: {error.error}"

    assert refusal(Unread(b" " * (200 << 20))) == "(request): has more than 32 MB"
    assert "nested deeper" in refusal(b'{"ops":' * 100_000)
    assert "nested deeper" in refusal(b'{"ops": ' + b"[" * 100 + b"]" * 100 + b"}")
    assert "not UTF-8" in refusal(b'{"ops": "\xff"}')
    assert "NaN" in refusal(b'{"ops": NaN}')
    assert "more than 20000 values" in refusal(b'{"ops": [' + b"0," * 30_000 + b"0]}")
    assert json_from_text.LARGEST < 200 << 20
    head: dict[str, Any] = {"proto": "triflow.fileops.v1", "id": "x", "purpose": "execute_step"}
    for ops, field in (
        ([], "ops"),
        ([{"op": "list_dir"}] * (MOST_OPS + 1), "ops"),
        ([{"op": "write_file", "path": "a", "content": "x" * (LARGEST_CONTENT + 1)}], "ops[0].content"),
        ([{"op": "write_json", "path": "a", "value": ["x" * LARGEST_CONTENT]}], "ops[0].value"),
        ([{"op": "write_json", "path": "a", "value": float("inf")}], "ops[0].value"),
        ([{"op": "run", "cmd": "x" * 10**6}], "ops[0].cmd"),
    ):
        with pytest.raises(Invalid) as refused:
            validate.check({**head, "ops": ops})
        assert fields(refused.value.response) == [field]


def test_a_request_to_read_state_changes_nothing(place: Place) -> None:
    assert place.ask({"op": "triflow_state_preflight"}, {"op": "list_dir"}, purpose="read_state").status == "ok"
    answer = place.ask({"op": "list_dir"}, {"op": "run", "cmd": "true"}, purpose="read_state")
    assert (answer.status, fields(answer)) == ("validation_error", ["ops[1].op"])


@pytest.mark.parametrize("command", ["cd x && rm -rf ~", "bash -c 'rm -rf /'", ["sudo", "rm", "-r", "/*"]])
def test_a_command_that_the_policy_denies_is_refused_before_anything_is_done(place: Place, command: Any) -> None:
    before = place.state()
    answer = place.ask({"op": "write_file", "path": "a", "content": ""}, {"op": "run", "cmd": command})
    assert (answer.status, fields(answer)) == ("validation_error", ["ops[1].cmd"])
    assert "(rm.machine)" in answer.errors[0].error
    assert place.state() == before


def test_a_command_that_needs_approval_is_a_question_and_executes_nothing(place: Place) -> None:
    before = place.state()
    answer = place.ask({"op": "write_file", "path": "a", "content": ""}, {"op": "run", "cmd": "git push --force"})
    assert (answer.status, fields(answer)) == ("ask", ["ops[1].cmd"])
    assert answer.ask is not None
    assert answer.ask["rule"] == "git.push-force"
    assert answer.ask["allow"] == '[policy] allow = ["git.push-force"] in reflectloop.toml, then: reflectloop trust'
    assert place.state() == before


def test_a_command_that_harms_only_the_copy_is_executed(place: Place) -> None:
    assert (
        place.ask({"op": "run", "cmd": "mkdir -p old/x && rm -rf old && find . -name '*.none' -delete"}).status == "ok"
    )


def test_a_request_built_in_code_is_validated_too(place: Place) -> None:
    made = FileopsRequest.model_validate(
        {
            "proto": "triflow.fileops.v1",
            "id": "made",
            "purpose": "execute_step",
            "ops": [
                {"op": "search", "pattern": "(", "regex": True},
                {"op": "write_file", "path": "build/a", "content": ""},
            ],
            "constraints": {"writable_roots": ["src"]},
        }
    )
    answer = executing.execute(made, place.hands)
    assert (answer.status, fields(answer)) == ("validation_error", ["ops[0].pattern", "ops[1].path"])


def test_a_large_value_is_written_though_a_request_has_few(place: Place) -> None:
    assert place.ask({"op": "write_json", "path": "a.json", "value": [0] * 50_000}).status == "ok"
    assert json.loads(place.text("a.json")) == [0] * 50_000


def test_many_faults_and_long_names_make_a_bounded_response() -> None:
    many = {f"key{number}{'x' * 1000}": 1 for number in range(5000)}
    raw = json.dumps({"proto": "triflow.fileops.v1", "id": "i" * 10**6, "ops": [], **many}).encode()
    with pytest.raises(Invalid) as refused:
        validate.parse(raw)
    assert len(json.dumps(refused.value.response.as_json())) < 500_000
    assert refused.value.response.errors[-1].error == "has more faults than these"


def test_the_policy_of_the_context_decides(place: Place) -> None:
    place.hands.policy = CommandPolicy(builtin_rules.rules(), frozenset(["git.push-force"])).in_workspace
    answer = place.ask({"op": "run", "cmd": "git push --force || true"})
    assert answer.status == "ok", answer.errors
