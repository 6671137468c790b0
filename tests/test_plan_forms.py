"""Plans in the forms other tools write: what each becomes, and what is wrong with those that are wrong."""

from __future__ import annotations

import json
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflectloop.errors import Fault
from reflectloop.plan import load
from reflectloop.plan.load import parse_expectation
from reflectloop.plan.model import Plan
from support import Repo


def parse(text: str, suffix: str = ".yaml") -> tuple[Plan | None, list[Fault], list[str]]:
    plan, faults, reading = load.parse(textwrap.dedent(text).encode(), suffix)
    return plan, faults, reading.warnings if reading else []


REFLECTLOOP = """\
envelope:
  command: thingking_web
  timestamp: 2026-01-01T00:00:00Z
  status: OK
  error_code: null
unified_goal: Make the greeting longer
guardrails: [do not touch CI]
rollback: git checkout .
new_plan:
  scores: {risk: 2}
  steps:
    - id: P-1
      action: "Write the greeting"
      commands:
        - "echo hello world > greeting.txt"
        - "cat greeting.txt"
      verification:
        - "Exit code 0"
        - "Output contains 'hello'"
        - "file exists greeting.txt"
        - "`grep -q hello greeting.txt` returns 0"
        - "The greeting reads well"
      depends_on: []
    - id: P-2
      action: "Count it"
      commands: ["wc -c greeting.txt"]
      cwd: "."
      depends_on: [P-1]
"""


def test_the_reflectloop_form_runs_and_its_text_becomes_checks(repo: Repo) -> None:
    answer = repo.run("run", "--json", repo.plan(REFLECTLOOP))
    assert answer.code == 0, answer.stdout
    assert answer.envelope["plan_form"] == "reflectloop"
    checks = answer.json["data"]["steps"][0]["checks"]
    assert [check["held"] for check in checks] == [True, True, True, True]
    assert any("'The greeting reads well'; it is a claim" in warning for warning in answer.envelope["warnings"])


def test_guardrails_rollback_and_scores_are_shown_and_never_run(repo: Repo) -> None:
    plan = repo.plan(REFLECTLOOP.replace("git checkout .", "touch never"))
    shown = repo.run("plan", "show", plan, "--json").json["data"]
    assert shown["notes"]["rollback"] == "touch never"
    assert shown["notes"]["guardrails"] == ["do not touch CI"]
    assert shown["notes"]["new_plan.scores"] == {"risk": 2}
    assert shown["title"] == "Make the greeting longer"


def test_a_failed_text_check_fails_the_step(repo: Repo) -> None:
    answer = repo.run("run", "--json", repo.plan(REFLECTLOOP.replace("contains 'hello'", "contains 'good bye'")))
    assert answer.code == 32
    assert "good bye" in answer.envelope["message"]


@pytest.mark.parametrize(
    ("old", "new", "path", "words"),
    [
        ("status: OK", "status: ERROR", "envelope.status", "only an OK plan is run"),
        ("new_plan:", "new_plan: nothing\nold:", "new_plan", "mapping with steps"),
        ("      commands: [", "      comands: [", "new_plan.steps[1].comands", "did you mean 'commands'"),
        ("depends_on: [P-1]", "depends_on: [P-9]", "new_plan.steps[1].depends_on[0]", "no step 'P-9'"),
        ('cwd: "."', 'cwd: ".."', "new_plan.steps[1].cwd", "leads out"),
        ("id: P-2", "id: P-1", "new_plan.steps[1].id", "also the id"),
        ('commands: ["wc -c greeting.txt"]', "commands: wc", "new_plan.steps[1].commands", "must be a list"),
    ],
)
def test_a_faulty_reflectloop_plan_is_refused_with_its_own_keys(old: str, new: str, path: str, words: str) -> None:
    assert old in REFLECTLOOP
    _, faults, _ = parse(REFLECTLOOP.replace(old, new))
    found = {fault.path: fault for fault in faults}
    assert path in found, faults
    assert words in found[path].message
    assert found[path].line is not None


def test_a_reflectloop_step_without_commands_is_for_an_agent(repo: Repo) -> None:
    plan = repo.plan(REFLECTLOOP.replace('commands: ["wc -c greeting.txt"]', "commands: []"))
    answer = repo.run("run", "--json", plan)
    assert answer.code == 61
    assert answer.envelope["missing_inputs"] == ["role:executor"]
    assert answer.json["data"]["steps"] == []


ORCHESTRATOR = {
    "title": "Session expiry",
    "steps": [
        {
            "id": "step_1",
            "description": "Read src/auth.py",
            "dependencies": [],
            "status": "pending",
            "tools_expected": ["read_file", "grep"],
        },
        {
            "id": "step_2",
            "description": "Change it",
            "dependencies": ["step_1"],
            "status": "done",
            "tools_expected": ["apply_patch"],
        },
    ],
    "verification_policy": "run_pytest",
}


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_the_orchestrator_form_is_understood_and_needs_a_backend(repo: Repo, suffix: str) -> None:
    path = repo.plan(json.dumps(ORCHESTRATOR, indent=1 if suffix == "json" else None), f"plan.{suffix}")
    shown = repo.run("plan", "show", path, "--json").json["data"]
    steps = [step for batch in shown["batches"] for step in batch]
    assert [step["agent"]["tools"] for step in steps] == [["read_file", "search"], ["apply_patch"]]
    assert shown["track"] == "direct"
    assert any("status 'done' is ignored" in warning for warning in shown["warnings"])
    answer = repo.run("run", "--json", path)
    assert answer.code == 61
    assert answer.envelope["error_code"] == "AGENT_UNAVAILABLE"
    assert answer.envelope["message"] == "step(s) step_1, step_2 need an agent, and none is bound to their role"
    assert answer.envelope["next"] == (
        'executor = "NAME" under [roles] in reflectloop.toml; what there is: reflectloop agents'
    )
    assert answer.envelope["missing_inputs"] == ["role:executor"]


def test_a_role_bound_to_a_missing_agent_is_reported_before_anything_runs(repo: Repo) -> None:
    repo.write("reflectloop.toml", '[roles]\nexecutor = "command"\n')
    answer = repo.run("run", "--json", repo.plan(json.dumps(ORCHESTRATOR)))
    assert answer.code == 61
    assert answer.envelope["message"].startswith("agent command: ")
    assert answer.envelope["missing_inputs"] == ["backend:command"]
    repo.write("reflectloop.toml", '[roles]\nexecutor = "cloud"\n')
    answer = repo.run("run", "--json", repo.plan(json.dumps(ORCHESTRATOR)))
    assert answer.code == 12
    assert (
        "roles.executor is bound to 'cloud', which is not an agent; known: script, command, claude"
        in (answer.envelope["faults"][0]["message"])
    )


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"title": None}, "title"),
        ({"steps": "none"}, "steps"),
        ({"steps": [1]}, "steps[0]"),
        ({"steps": [{"id": "a"}]}, "steps[0].description"),
        ({"steps": [{"id": "a", "description": "x", "dependencies": ["b"]}]}, "steps[0].dependencies[0]"),
        ({"steps": [{"id": "a", "description": "x", "tools_expected": 3}]}, "steps[0].tools_expected"),
        ({"steps": [{"id": "a", "descriptoin": "x"}]}, "steps[0].descriptoin"),
        ({"steps": [{"id": "a", "description": "x", "commands": ["true"]}]}, "steps[0].commands"),
    ],
)
def test_a_faulty_orchestrator_plan_is_refused_with_its_own_keys(change: dict[str, object], path: str) -> None:
    _, faults, _ = parse(json.dumps(ORCHESTRATOR | change))
    assert path in {fault.path for fault in faults}, faults


MARKDOWN = """\
# Greet the world

Some words about it.

### Step 1: Write

```bash
echo hello > greeting.txt
cat greeting.txt
```

- Verify: Output contains `hello`
- Verify: greeting.txt exists

```python
not = run
```

### Step 2: Count

```bash
wc -l greeting.txt
```
```bash
rm greeting.txt
```
"""


def test_the_markdown_form_runs_in_order(repo: Repo) -> None:
    answer = repo.run("run", "--json", repo.plan(MARKDOWN, "plan.md"))
    assert answer.code == 0, answer.stdout
    assert answer.envelope["plan_form"] == "markdown"
    assert [step["id"] for step in answer.json["data"]["steps"]] == ["step-1", "step-2"]
    assert [check["held"] for check in answer.json["data"]["steps"][0]["checks"]] == [True, True]
    shown = repo.run("plan", "show", repo.plan(MARKDOWN, "plan.txt"), "--json").json["data"]
    assert shown["title"] == "Greet the world"
    assert [len(batch) for batch in shown["batches"]] == [1, 1]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# Title\n\nno steps\n", 1),
        ("### Step 1: x\n\n```bash\necho never closed\n", 3),
        ("### Step 1: x\n```bash\ntrue\n```\n### Step 1: y\n```bash\ntrue\n```\n", 5),
    ],
)
def test_faulty_markdown_is_refused_with_its_line(text: str, line: int) -> None:
    _, faults, _ = parse(text, ".md")
    assert line in {fault.line for fault in faults}


def test_a_markdown_step_without_a_block_is_for_an_agent(repo: Repo) -> None:
    assert repo.run("run", repo.plan("### Step 1: Think\n\nabout it\n", "plan.md")).code == 61


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("Exit code 0", {"commands_exit": 0}),
        ("exit code is 0.", {"commands_exit": 0}),
        ("退出码为 0", {"commands_exit": 0}),
        ("Exit code 1", {"commands_exit": 1}),
        ("returns 2", {"commands_exit": 2}),
        ("exits with code 3", {"commands_exit": 3}),
        ("退出码为 4", {"commands_exit": 4}),
        ("Output contains 'X y'", {"output_contains": "X y"}),
        ('stdout contains "ok"', {"output_contains": "ok"}),
        ("输出包含 'ok'", {"output_contains": "ok"}),
        ("`npm test` returns 0", {"run": "npm test", "exit_code": 0}),
        ("pytest -q tests returns 1", {"run": "pytest -q tests", "exit_code": 1}),
        ("./check.sh exits with 2", {"run": "./check.sh", "exit_code": 2}),
        ("file exists src/a b", None),
        ("file exists src/a.py", {"file_exists": "src/a.py"}),
        ("File dist/app.js exists", {"file_exists": "dist/app.js"}),
        ("文件存在 a.txt", {"file_exists": "a.txt"}),
        ("The function returns 0", None),
        ("Expected output or state", None),
        ("Everything works and exit code 0 is likely", None),
        ("`x` returns 999", None),
        ("", None),
    ],
)
def test_text_that_can_be_checked_becomes_a_check(text: str, check: dict[str, object] | None) -> None:
    assert parse_expectation(text) == check


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("exit 3", 0, None),
        ("true", 32, "check P-1.1: the step's last command exited 0, not 3"),
        ("exit 4", 32, "check P-1.1: the step's last command exited 4, not 3"),
    ],
)
def test_an_exit_code_in_text_is_the_expected_one(repo: Repo, command: str, code: int, message: str | None) -> None:
    plan = repo.plan(
        json.dumps({"new_plan": {"steps": [{"id": "P-1", "commands": [command], "verification": ["Exit code 3"]}]}})
    )
    answer = repo.run("run", "--json", plan)
    assert answer.code == code, answer.stdout
    assert message is None or message in answer.envelope["message"]
    (step,) = answer.json["data"]["steps"]
    assert step["success"] is (code == 0)
    assert code or step["exit_code"] == 3


def test_only_the_last_command_may_have_the_exit_code_from_text(repo: Repo) -> None:
    plan = repo.plan("plan: {title: T, steps: [{id: a, commands: [exit 3, exit 3], verify: [Exit code 3]}]}")
    assert repo.run("run", plan).code == 30


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["Exit code 300"], "must be at most 255"),
        (["Exit code 0", "Exit code 1"], "the step's last command cannot exit 0 and 1"),
    ],
)
def test_an_impossible_exit_code_is_a_fault(words: list[str], message: str) -> None:
    value = {"plan": {"title": "T", "steps": [{"id": "a", "commands": ["true"], "verify": words}]}}
    assert [fault.message for fault in load.parse(json.dumps(value).encode()).faults] == [message]


def test_numbered_steps_use_their_numbers_as_ids(repo: Repo) -> None:
    text = """
    title: T
    steps:
      - {id: 1, description: first}
      - {id: 2, description: second, dependencies: [1]}
    """
    shown = repo.run("plan", "show", "--json", repo.plan(text)).json["data"]
    assert [[(step["id"], step["depends_on"]) for step in batch] for batch in shown["batches"]] == [
        [("1", [])],
        [("2", ["1"])],
    ]


def test_a_file_with_two_plans_is_refused() -> None:
    text = "plan: {title: T, steps: [{id: a, commands: ['true']}]}\nnew_plan: {steps: []}\n"
    assert [str(fault) for fault in load.parse(text.encode()).faults] == [
        "line 2: (top): this file contains two plans: 'plan' on line 1 and 'new_plan' on line 2; keep one"
    ]


def test_two_markdown_steps_with_one_number_are_one_fault() -> None:
    text = "### Step 1: x\n```bash\ntrue\n```\n### Step 1: y\n```bash\ntrue\n```\n"
    assert [fault.message for fault in parse(text, ".md")[1]] == ["id 'step-1' is also the id of step 1"]


def test_a_block_that_is_not_run_is_reported_with_its_line(repo: Repo) -> None:
    text = "### Step 1: x\n```bash title=run\necho hello\n```\n\n```python3\nprint()\n```\n```\nhello\n```\n"
    answer = repo.run("run", "--json", repo.plan(text, "plan.md"))
    assert answer.code == 0, answer.stdout
    assert answer.envelope["warnings"][:2] == [
        "line 6: the 'python3' block of step-1 is not run; bash, sh, shell, console blocks are",
        "line 9: the unnamed block of step-1 is not run; bash, sh, shell, console blocks are",
    ]


def test_an_agent_is_given_the_blocks_of_its_step() -> None:
    plan, _, _ = parse("### Step 1: x\nlike this:\n```python\nprint()\n```\n", ".md")
    assert plan is not None
    assert plan.steps[0].agent is not None
    assert plan.steps[0].agent.prompt == "x\nlike this:\n```python\nprint()\n```"


@given(st.text(max_size=300))
def test_no_text_breaks_the_conversion_to_checks(text: str) -> None:
    parse_expectation(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda v: (
            st.lists(v, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "id",
                        "steps",
                        "action",
                        "commands",
                        "description",
                        "status",
                        "envelope",
                        "verification",
                        "depends_on",
                        "dependencies",
                        "tools_expected",
                    ]
                ),
                v,
                max_size=5,
            )
        ),
        max_leaves=20,
    ),
    st.sampled_from(["new_plan", "steps", "plan", "envelope"]),
)
def test_no_foreign_document_breaks_the_reader(value: object, key: str) -> None:
    for document in ({key: value}, {"new_plan": {"steps": [value]}}, {"steps": [value], "title": "t"}):
        plan, faults, _ = load.parse(json.dumps(document).encode())
        assert plan is not None or faults


@given(st.text(alphabet="#`~ Step1:\nbash-", max_size=120))
def test_no_markdown_breaks_the_reader(text: str) -> None:
    plan, faults, _ = load.parse(("### Step 1: x\n" + text).encode(), ".md")
    assert plan is not None or faults
