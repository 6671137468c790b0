"""Plans: what is accepted, what is refused, and that every fault is named at once with its place."""

from __future__ import annotations

import itertools
import json
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflectloop.engine.run.context import note_steps
from reflectloop.engine.steps.execution import StepResult
from reflectloop.errors import Fault, MissingPlan
from reflectloop.plan import load, order, strict_yaml
from reflectloop.plan.model import FILE_STATEMENTS, Check, Plan
from reflectloop.plan.schema import plan_schema
from reflectloop.verification.checks import CheckResult
from reflectloop.verification.evidence_chain import Chain
from support import Repo, reflectloop

GOOD = """
plan:
  title: Fix the pager
  track: fix
  objective: {goal: last page, non_goals: [speed], done_when: shown}
  acceptance: [{id: AC-1, text: last page is shown, check: last}]
  may_change: ["src/**"]
  checks:
    last: {run: [pytest, -q], red_on_base: true, kind: test}
  steps:
    - id: P-1
      title: Test
      commands: ["echo a", [echo, b]]
      env: {A: "1"}
      timeout_s: 60
      verify: [last, {check: last, expect: fail}, {run: "true", stdout_contains: x}, "looks nice"]
    - id: P-2
      agent: {role: executor, prompt: do it, tools: [run]}
      depends_on: [P-1]
  verification: {mode: test}
  limits: {runs: 2}
"""


def faults(text: str) -> list[Fault]:
    return load.parse(textwrap.dedent(text).encode())[1]


def test_a_valid_plan_loads_completely() -> None:
    plan, found, _ = load.parse(GOOD.encode())
    assert found == []
    assert plan is not None
    assert plan.steps[0].commands == ("echo a", ("echo", "b"))
    assert [item.must_fail for item in plan.checks_of(plan.steps[0])] == [False, True, False]


def test_every_fault_is_reported_at_once_with_its_line() -> None:
    found = faults(
        """\
        plan:
          titel: Typo
          steps:
            - id: P-1
              comands: [echo]
              timeout_s: "10"
            - id: P 2
              commands: []
              cwd: ../..
          limits: {runs: 0}
        """
    )
    said = {(fault.path, fault.line) for fault in found}
    assert ("titel", 2) in said
    assert ("title", 1) in said
    assert ("steps[0].comands", 5) in said
    assert ("steps[0].timeout_s", 6) in said
    assert ("steps[1].id", 7) in said
    assert ("steps[1].cwd", 9) in said
    assert ("limits.runs", 10) in said
    assert any("did you mean 'title'" in fault.message for fault in found)
    assert any("did you mean 'commands'" in fault.message for fault in found)


def places(value: object, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield (*above, key)
        yield from places(one, (*above, key))


def put(value: Any, place: tuple[str | int, ...], new: object) -> Any:
    if not place:
        return new
    out = value.copy()
    out[place[0]] = put(value[place[0]], place[1:], new)
    return out


GOOD_VALUE = strict_yaml.parse(GOOD.encode()).value


@pytest.mark.parametrize("place", [(), *places(GOOD_VALUE)], ids=str)
def test_no_message_uses_the_text_of_a_library(place: tuple[str | int, ...]) -> None:
    theirs = (
        "nput should",
        "valid ",
        "instance",
        "tuple",
        "dictionary",
        "validation",
        "pydantic",
        "integer",
        "boolean",
    )
    wrong: list[Any] = [None, True, 3, -1, 10**12, 2.5, "", "x y/z", [], [None], {}, {"x": 1}, [[]], {"plan": 3}]
    for new in wrong:
        _, found, _ = load.parse(json.dumps(put(GOOD_VALUE, place, new)).encode())
        for fault in found:
            assert not any(word in fault.message for word in theirs), (place, new, fault)


def test_an_invalid_expression_is_reported_without_other_output(repo: Repo) -> None:
    plan = repo.steps("true", verify=[{"run": "true", "stdout_regex": "(a"}])
    answer = repo.run("plan", "check", plan)
    assert answer.code == 11
    assert answer.stderr.splitlines()[0].startswith("INVALID_PLAN")
    assert len(answer.stderr.splitlines()) == 3, answer.stderr


@pytest.mark.parametrize(
    ("body", "path", "words"),
    [
        ("steps: [{id: a, commands: [x]}, {id: a, commands: [x]}]", "steps[1].id", "also the id of step 1"),
        ("steps: [{id: one, commands: [x], depends_on: [onee]}]", "steps[0].depends_on[0]", "did you mean 'one'"),
        (
            "steps: [{id: a, commands: [x], depends_on: [b]}, {id: b, commands: [x], depends_on: [c]}, {id: c, commands: [x], depends_on: [a]}]",
            "steps[0].depends_on",
            "a → b → c → a",
        ),
        ("steps: [{id: a, commands: [x], depends_on: [a]}]", "steps[0].depends_on", "a → a"),
        ("steps: [{id: a}]", "steps[0]", "either commands or an agent"),
        ("steps: [{id: a, commands: [x], agent: {prompt: p}}]", "steps[0]", "not both"),
        ("steps: []", "steps", "must not be empty"),
        ("steps: [{id: a, commands: ['']}]", "steps[0].commands[0]", "shell line"),
        ("steps: [{id: a, commands: [[]]}]", "steps[0].commands[0]", "shell line"),
        ("steps: [{id: a, commands: [3]}]", "steps[0].commands[0]", "shell line"),
        ("steps: [{id: a, commands: [x], verify: [{check: no}]}]", "steps[0].verify[0].check", "no check 'no'"),
        (
            "checks: {tests: {run: x}}\n  steps: [{id: a, commands: [x], verify: [test]}]",
            "steps[0].verify[0]",
            "did you",
        ),
        ("checks: {t: {}}\n  steps: [{id: a, commands: [x]}]", "checks.t", "a check has 'run'"),
        ("checks: {t: {run: x, stdout_regex: '('}}\n  steps: [{id: a, commands: [x]}]", "checks.t.stdout_regex", "RE2"),
        ("track: fix\n  verification: {mode: none}\n  steps: [{id: a, commands: [x]}]", "verification.mode", "direct"),
        ("track: quick\n  steps: [{id: a, commands: [x]}]", "track", "feature"),
        ("steps: [{id: a, commands: [x], env: {a-b: x}}]", "steps[0].env.a-b", "letters"),
        ("steps: [{id: a, commands: [x], env: {A: on}}]", None, ""),
        ("title: again\n  steps: [{id: a, commands: [x]}]", "plan.title", "duplicate key"),
    ],
)
def test_a_faulty_plan_reports_fault_and_place(body: str, path: str | None, words: str) -> None:
    found = faults(f"plan:\n  title: T\n  {body}\n")
    if path is None:
        assert found == []
    else:
        assert [(fault.path, words in fault.message) for fault in found] == [(path, True)]
        assert found[0].line is not None


@pytest.mark.parametrize("cwd", ["..", "/", "/tmp", "a/../..", "~/x", "../repo-evil"])
def test_a_cwd_outside_is_an_escape_before_anything_runs(cwd: str, repo: Repo) -> None:
    plan = repo.steps("touch never", cwd=cwd)
    answer = repo.run("run", "--json", plan)
    assert answer.code == 98
    assert answer.envelope["error_code"] == "SANDBOX_ESCAPE"
    assert repo.run("plan", "check", plan).code == 98
    assert repo.workspaces() == []


def test_a_pipe_in_the_place_of_a_plan_is_refused_and_one_of_the_shell_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.yaml")
    with pytest.raises(MissingPlan, match="is a pipe"):
        load.load(tmp_path / "p.yaml")
    reader, writer = os.pipe()
    os.write(writer, b"plan: {title: t, steps: [{id: a, commands: [ls]}]}\n")
    os.close(writer)
    assert load.load(Path(f"/dev/fd/{reader}")).plan.title == "t"
    os.close(reader)


@pytest.mark.parametrize(
    ("asked", "following"),
    [
        ("chek.yml", "reflectloop plan check check.yaml"),
        ("nofile.yaml", "reflectloop plan --help"),
        ("none/check.yaml", "reflectloop plan --help"),
    ],
)
def test_a_missing_plan_is_answered_with_the_one_of_the_nearest_name(repo: Repo, asked: str, following: str) -> None:
    repo.write("check.yaml", "plan: {title: T, steps: [{id: a, commands: ['true']}]}\n")
    assert repo.run("run", "--json", asked).envelope["next"] == following


def test_a_secret_that_is_on_one_line_twice_is_one_fault() -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    text = f"plan: {{title: T, steps: [{{id: a, commands: ['echo {key}; echo {key}']}}]}}"
    assert [fault.line for fault in faults(text) if fault.code == "SECRET_LEAK"] == [1]


def test_the_gravest_fault_gives_the_code(repo: Repo) -> None:
    key = "sk-" + "a1b2c3d4e5f6a7b8"
    plan = repo.plan(f"plan:\n  title: T\n  steps: [{{id: a, commands: ['echo key={key}'], cwd: ..}}, {{id: a}}]\n")
    answer = repo.run("plan", "check", plan, "--json")
    assert answer.code == 99
    assert {fault["code"] for fault in answer.envelope["faults"]} == {"SECRET_LEAK", "SANDBOX_ESCAPE", "INVALID_PLAN"}
    assert key not in answer.stdout + answer.stderr


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on: yes", {"on": "yes"}),
        ("a: 22:22", {"a": "22:22"}),
        ("a: 010", {"a": "010"}),
        ("a: 0x1f", {"a": "0x1f"}),
        ("a: 1_000", {"a": "1_000"}),
        ("a: 2001-01-01", {"a": "2001-01-01"}),
        ("a: [1, -2, 0, 1.5, 1e3, true, false, null, ~, ]", {"a": [1, -2, 0, 1.5, 1000.0, True, False, None, None]}),
        ("a: '1'", {"a": "1"}),
        ("a: .inf", {"a": ".inf"}),
        ("a: 12345678901234567890", {"a": "12345678901234567890"}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("a: |\n  two\n  lines\n", {"a": "two\nlines\n"}),
        ('{"json": ["too", 1]}', {"json": ["too", 1]}),
        ("", None),
    ],
)
def test_yaml_stays_what_was_written(text: str, value: object) -> None:
    assert strict_yaml.parse(text.encode()).value == value


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(12)
)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (BOMB.encode(), "with aliases expanded"),
        (b"[" * 100_000, "nested deeper"),
        (b"a: " + b"{a: " * 1000, "nested deeper"),
        (b"a: &a [*a]", "inside its own value"),
        (b"a: *b", "alias"),
        (b"\x00\x01\x02\xff\xfe", "not UTF-8"),
        (b"\x00\x01\x02", "not allowed"),
        (b"a: b: c", "not YAML"),
        (b"a: 1\n---\nb: 2", "second one begins"),
        (b"a:\n\t- b", "not YAML"),
        (b"<<: {a: 1}", "merge keys"),
        (b"[a]: 1", "plain text"),
        (b"x" * (strict_yaml.MAX_BYTES + 1), "at most 8 MB"),
    ],
)
def test_dangerous_yaml_is_refused_with_a_message(raw: bytes, words: str) -> None:
    with pytest.raises(strict_yaml.UnreadableYaml) as refused:
        strict_yaml.parse(raw)
    assert words in refused.value.fault.message


@given(st.binary(max_size=400))
def test_no_bytes_break_the_reader(raw: bytes) -> None:
    plan, found, _ = load.parse(raw)
    assert plan is not None or found


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_no_document_breaks_the_validator(value: object) -> None:
    plan, found, _ = load.parse(json.dumps({"plan": value}).encode())
    assert plan is not None or found


def test_the_hash_is_of_the_work_not_of_the_writing() -> None:
    def digest(text: str) -> str:
        plan, found, _ = load.parse(text.encode())
        assert plan is not None, found
        return plan.hash

    base = "plan:\n  title: A\n  steps: [{id: a, commands: [x], timeout_s: 600}]\n"
    assert digest(base) == digest(
        "# note\nplan: {steps: [{commands: ['x'], id: a, title: New}], title: Other, track: direct}"
    )
    assert digest(base) != digest(base.replace("[x]", "[y]"))
    assert digest(base) != digest(base.replace("600", "601"))
    assert digest(base) != digest("plan:\n  title: A\n  track: fix\n  steps: [{id: a, commands: [x]}]\n")


@given(st.dictionaries(st.integers(0, 30), st.lists(st.integers(0, 30), max_size=4), max_size=31))
def test_order_respects_every_dependency_or_names_a_cycle(raw: dict[int, list[int]]) -> None:
    needs = {str(name): [str(need) for need in before if need in raw] for name, before in raw.items()}
    cycle = order.find_cycle(needs)
    if cycle:
        assert cycle[0] == cycle[-1]
        assert all(after in needs[before] for before, after in itertools.pairwise(cycle))
        return
    sequence = order.sequence(needs)
    assert sorted(sequence) == sorted(needs)
    assert all(sequence.index(need) < sequence.index(name) for name in needs for need in needs[name])
    level = {name: number for number, batch in enumerate(order.batches(needs)) for name in batch}
    assert all(level[need] < level[name] for name in needs for need in needs[name])


def test_the_schema_accepts_what_the_loader_accepts_and_is_published(tmp_path: Path) -> None:
    schema = json.loads(reflectloop(tmp_path, "plan", "schema").stdout)
    assert schema == plan_schema()
    value = strict_yaml.parse(GOOD.encode()).value
    jsonschema.validate(value, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"plan": {"title": "T", "steps": [{"id": "a", "comands": []}]}}, schema)


def test_plan_show_prints_order_commands_and_assumptions(repo: Repo) -> None:
    plan = repo.plan(GOOD)
    shown = repo.run("plan", "show", plan)
    assert shown.code == 0
    assert "$ echo a" in shown.stdout
    assert "agent executor: do it" in shown.stdout
    assert "'looks nice'; it is a claim, not evidence" in shown.stdout
    data = repo.run("plan", "show", plan, "--json").json["data"]
    assert [[step["id"] for step in batch] for batch in data["batches"]] == [["P-1"], ["P-2"]]


@pytest.mark.parametrize("name", FILE_STATEMENTS)
def test_a_statement_about_a_file_is_described_needs_no_step_and_is_false_of_a_removed_file(
    repo: Repo, name: str
) -> None:
    check = Check.model_validate({name: "README.md"})
    assert "README.md" in check.description
    assert check.stands_alone
    plan = {"title": "Remove", "steps": [{"id": "a", "commands": ["rm README.md"], "verify": [{name: "README.md"}]}]}
    answer = repo.run("run", repo.plan(json.dumps({"plan": plan})))
    assert answer.code == 32
    assert "README.md" in answer.stderr


def test_the_plan_of_a_run_is_hashed_once_for_all_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan.model_validate({"title": "A", "steps": [{"id": f"s{number}"} for number in range(20)]})
    of_plan, hashed = plan.hash, 0

    def count(_: Plan) -> str:
        nonlocal hashed
        hashed += 1
        return of_plan

    monkeypatch.setattr(Plan, "hash", property(count))
    results = [StepResult(step.id, "", 0, 0, "tree", changed=False, logs=(), checks=()) for step in plan.steps]
    chain = Chain(tmp_path / "evidence.jsonl")
    note_steps(chain, results, "base", plan, "none")
    assert hashed == 1
    assert [record.plan_hash for record in chain.records] == [of_plan] * len(results)


def test_evidence_has_the_commands_that_ran_and_the_words_of_each_check(tmp_path: Path) -> None:
    check = {"run": ["grep", "-c", "zoo"], "stdout_contains": "no number", "file_exists": "README.md"}
    steps = [{"id": "a", "commands": ["echo one", ["false", "x"], "echo never"], "verify": [check]}]
    plan = Plan.model_validate({"title": "Some", "steps": steps})
    ran = CheckResult(
        "a.1", held=False, reason="", exit_code=0, duration_ms=0, log=None, command="grep; README.md exists"
    )
    result = StepResult("a", "", 1, 0, "tree", changed=False, logs=(), checks=(ran, ran._replace(exit_code=None)))
    for count, commands in ((2, ("echo one", "false x")), (0, ()), (None, ("echo one", "false x", "echo never"))):
        chain = Chain(tmp_path / f"{count}.jsonl")
        note_steps(chain, [result._replace(commands_run=count)], "base", plan, "none")
        assert [record.command for record in chain.records] == [("grep", "-c", "zoo"), (), commands]


def test_evidence_of_a_run_has_no_command_after_the_one_that_failed(repo: Repo) -> None:
    steps = [{"id": "a", "commands": ["echo one", ["false"], "echo never"]}]
    assert repo.run("run", repo.plan(json.dumps({"plan": {"title": "Some", "steps": steps}}))).code != 0
    records = map(json.loads, (repo.latest() / "evidence.jsonl").read_text().splitlines())
    assert [record["command"] for record in records if record["kind"] == "exit"] == [["echo one", "false"]]
