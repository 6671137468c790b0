"""The verification pipeline (戒定慧识) as its document says it, named by line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import seed_samples as samples
import yaml

from gate_builders import changed_file
from reflectloop.errors import InvalidInput
from reflectloop.gates import api, contract, cooperation
from reflectloop.gates.cooperation import RoleCall
from reflectloop.gates.insight import RulePatch
from reflectloop.rule_proposals import rule_patches
from scripted_task import DESIGN, PASSES, Crew
from support import Repo

_STEPS = [
    {"id": "left", "commands": ["printf 'def f(:' > left.py"]},
    {"id": "right", "commands": ["echo 'y = 2' > right.py"]},
    {"id": "after", "commands": ["echo ran > after.txt"], "depends_on": ["left", "right"]},
]
_BROKEN = {"plan": {"title": "Batches", "track": "direct", "jobs": 2, "steps": _STEPS}}


def _blocker(repo: Repo) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((repo.latest() / "blocker.yaml").read_text())
    return found


def test_line_159_a_batch_that_is_redone_in_one_run_stops_at_the_third_failure_with_its_attempts(repo: Repo) -> None:
    first = repo.run("run", repo.plan(json.dumps(_BROKEN)))
    assert first.code == 32, first.stderr
    for expected in (32, 42):
        assert repo.run("redo", "left", "--reason", "written again").code == 0
        assert repo.run("resume").code == expected
    told = _blocker(repo)
    assert [attempt["decision"] for attempt in told["attempts"]] == ["RETRY", "RETRY", "RETRY"]
    assert told["asked"]
    assert "the same fault came back" in told["root_cause_hypothesis"][0]
    assert repo.run("resume").code != 0


def test_line_159_the_change_of_a_run_that_is_redone_stops_at_the_third_refusal_with_the_stated_cause(
    repo: Repo,
) -> None:
    plan: dict[str, Any] = {"title": "Sum", "track": "feature", "objective": {"goal": "add a sum"}}
    plan |= {"acceptance": [{"id": "A", "text": "it adds", "check": "adds"}], "may_change": ["src/**"]}
    plan |= {"checks": {"adds": {"run": "python3 -c 'from src import sums'"}}}
    plan |= {"steps": [{"id": "a", "commands": ["echo 'x = (' > src/broken.txt"]}]}
    codes = [repo.run("run", repo.plan(json.dumps({"plan": plan}))).code]
    for _ in range(2):
        assert repo.run("redo", "a", "--reason", "the module was forgotten").code == 0
        codes.append(repo.run("resume").code)
    assert codes == [32, 32, 42]
    told = _blocker(repo)
    assert len(told["attempts"]) == 3
    assert told["attempts"][-1]["root_cause"] == "the module was forgotten"


def test_line_373_the_next_command_names_the_step_that_wrote_the_broken_file(repo: Repo) -> None:
    done = repo.run("run", "--json", repo.plan(json.dumps(_BROKEN)))
    assert done.envelope["next"] == "reflectloop redo left --reason TEXT"


def _reviewed(repo: Repo, *items: dict[str, Any]) -> dict[str, Any]:
    """Return the gates' report of a task whose final reviewer passes it with these remarks."""
    crew = Crew(repo).plays(
        {"role": "planner", "says": "Make a plan", "answer": {**DESIGN, "track": "fix"}},
        {"role": "reviewer", "says": "the whole change", "answer": {**PASSES, "items": list(items)}},
    )
    result = crew.story()
    assert result.outcome
    found: dict[str, Any] = json.loads((Path(result.outcome.folder.path) / "gates.json").read_text())
    return found


def test_line_217_a_reviewers_security_and_contract_remarks_send_the_output_back_to_the_rules(repo: Repo) -> None:
    told = _reviewed(
        repo,
        {"problem": "the file is world readable", "kind": "security"},
        {"problem": "the goal says integers", "kind": "contract"},
    )
    [back] = told["backtracks"]
    assert (back["gate"], back["result"]) == ("rules", "mended")
    assert "world readable; the goal says integers" in back["reason"]
    assert told["decision"] == "PASS"


def test_line_220_a_reviewers_missing_scenario_sends_the_output_back_to_the_proof(repo: Repo) -> None:
    told = _reviewed(repo, {"problem": "negative numbers are not tried", "kind": "scenario"})
    assert [back["gate"] for back in told["backtracks"]] == ["proof"]


def test_line_209_a_reviewers_new_constraint_becomes_an_anchor_and_sends_nothing_back(repo: Repo) -> None:
    told = _reviewed(repo, {"problem": "add() must take integers only", "kind": "constraint"})
    assert told["backtracks"] == []
    assert ("C", "add() must take integers only") in {(one["kind"], one["text"]) for one in told["anchors"]}


@pytest.mark.parametrize(
    ("avatar", "role"),
    [
        ("眼", "researcher"),
        ("耳", "researcher"),
        ("鼻", "reviewer"),
        ("舌", "executor"),
        ("身", "executor"),
        ("意", "planner"),
    ],
)
def test_line_90_an_avatar_is_taken_for_its_role(avatar: str, role: str) -> None:
    fields = {"track": "direct", "role": avatar, "goal": "look", "summary": "looked", "files_changed": []}
    assert contract.parse_contract(fields, "contract").contract.role == role


def test_line_90_an_unknown_role_is_refused_with_the_list_of_roles() -> None:
    with pytest.raises(InvalidInput, match=r"known: planner, .*, 眼, 耳, 鼻, 舌, 身, 意"):
        contract.parse_contract({"track": "direct", "role": "手"}, "contract")


_ADD = "def add(a, b):\n    return a + b\n"


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        ("def add(a, b, c=0):\n    return a + b + c\n", "calc.add: new parameter (c)"),
        (_ADD + "\n\ndef sub(a, b):\n    return a - b\n", "calc.sub: is new, and nothing in the change uses it"),
        ("def plus(a, b):\n    return a + b\n\n\ndef add(a, b):\n    return plus(a, b)\n", ""),
        (_ADD + "\n\ndef _sub(a, b):\n    return a - b\n", ""),
        (_ADD.replace("a + b", "b + a"), ""),
    ],
)
def test_line_266_a_refactoring_that_adds_to_the_interface_is_seen(after: str, reason: str) -> None:
    assert api.additions([changed_file("calc.py", _ADD, after)]) == ((reason,) if reason else ())


def test_line_308_a_function_that_moves_to_another_module_is_no_addition() -> None:
    moved = [changed_file("calc.py", _ADD, "from sums import add\n"), changed_file("sums.py", None, _ADD)]
    assert api.additions(moved) == ()


def test_line_183_rule_patches_are_kept_as_yaml_with_the_keys_of_the_protocol(tmp_path: Path) -> None:
    [sample] = yaml.safe_load(samples.text("004-line-184-rule_patch.yaml"))["rule_patch"]
    first = RulePatch("tighten", "may_change", "leave out a.py", "a.py is in both", "HIGH")
    second = RulePatch("loosen", "may_change_protected", "tests/测试.py", "it is protected", "MEDIUM")
    for name, patches in (("one", [first]), ("two", [first, second])):
        (tmp_path / name).mkdir()
        rule_patches.keep(tmp_path / "knowledge", tmp_path / name, patches)
    kept = yaml.safe_load((tmp_path / "knowledge" / "rule_patch.yaml").read_text())["rule_patch"]
    assert [list(entry) for entry in kept] == [list(sample), list(sample)]
    assert [entry["target"].endswith(".md") for entry in kept] == [True, True]
    assert "tests/测试.py" in (tmp_path / "two" / "rule_patch.yaml").read_text()


def _proposed(repo: Repo, **other: str) -> str:
    [sample] = yaml.safe_load(samples.text("004-line-184-rule_patch.yaml"))["rule_patch"]
    entry = {**sample, "action": "tighten", "target": "jie.md", "priority": "HIGH", **other}
    path = repo.plan(yaml.safe_dump({"rule_patch": [entry]}, allow_unicode=True), "patch.yaml")
    done = repo.run("lessons", "propose", path, "--json")
    assert done.code == 0, done.stderr
    name: str = done.json["data"][0]["id"]
    return name


def _states(repo: Repo) -> list[str]:
    return [one["state"] for one in repo.run("lessons", "patches", "--json").json["data"]]


def test_line_185_a_rule_patch_is_listed_shown_and_accepted_by_command_and_agents_are_told(repo: Repo) -> None:
    crew = Crew(repo).plays()
    name = _proposed(repo, rule="may_change: 测试 stay out of calc.add", reason="calc.add was widened twice")
    assert _states(repo) == ["proposed"]
    shown = repo.run("lessons", "patches", name).stdout
    assert "action: tighten" in shown
    assert "测试" in shown
    assert repo.run("lessons", "accept", name).code == 0
    assert _states(repo) == ["accepted"]
    rules = (repo.path / ".reflectloop/knowledge/rules/jie.md").read_text()
    assert f"- {name} tighten (HIGH): may_change: 测试 stay out of calc.add. calc.add was widened twice" in rules
    crew.story()
    [prompt] = crew.papers("1/1/executor.prompt.md")
    assert "stay out of calc.add" in prompt.read_text()


def test_line_185_a_rejected_patch_is_no_rule_and_remove_ends_one(repo: Repo) -> None:
    first = _proposed(repo, rule="one", reason="a reason")
    repo.run("lessons", "accept", first)
    assert repo.run("lessons", "reject", first, "--reason", "too narrow").code == 0
    assert not (repo.path / ".reflectloop/knowledge/rules/jie.md").exists()
    second = _proposed(repo, rule="two", reason="a reason")
    repo.run("lessons", "accept", second)
    repo.run("lessons", "accept", _proposed(repo, action="remove", rule="two", reason="no longer needed"))
    found = repo.run("lessons", "list", "--all", "--json").json["data"]["lessons"]
    assert {one["title"]: one["status"] for one in found} == {"one": "retired", "two": "retired"}
    assert _states(repo) == ["rejected", "accepted", "accepted"]


def test_line_185_the_form_itself_is_refused_with_every_fault_at_once(repo: Repo) -> None:
    text = samples.text("004-line-184-rule_patch.yaml")
    done = repo.run("lessons", "propose", repo.plan(text, "patch.yaml"), "--json")
    assert done.code == 12
    assert [fault["path"] for fault in done.envelope["faults"]] == ["rule_patch[0].action", "rule_patch[0].priority"]
    entry = {"action": "add", "target": "../jie.txt", "rule": 3, "extra": "x"}
    broken = yaml.safe_dump({"rule_patch": [entry, "text"]})
    done = repo.run("lessons", "propose", repo.plan(broken, "patch.yaml"), "--json")
    assert [fault["path"] for fault in done.envelope["faults"]] == [
        *(f"rule_patch[0].{key}" for key in ("rule", "reason", "priority", "target", "extra")),
        "rule_patch[1]",
    ]


def test_line_185_an_unknown_rule_patch_is_named(repo: Repo) -> None:
    assert "there is no rule patch" in repo.run("lessons", "accept", "RP-00000000").stderr


def _turn(role: str, agent: str, **other: Any) -> RoleCall:
    return RoleCall(role, agent, **{"status": "ok", **other})


@pytest.mark.parametrize(
    ("turns", "remark"),
    [
        ([_turn("executor", "a", step="1"), _turn("reviewer", "b")], ""),
        ([_turn("executor", "a", step="1")], "no agent reviewed what a did"),
        (
            [_turn("executor", "a"), _turn("reviewer", "a")],
            "a reviewed its own work: bind another agent to the reviewer",
        ),
        (
            [_turn("planner", "b"), _turn("executor", "a", step="2", attempt=3)],
            "steps that took several attempts: 2 (3)",
        ),
        (
            [_turn("executor", "a"), _turn("reviewer", "b"), _turn("reviewer", "b", status="timeout")],
            "b as reviewer gave no usable answer to 1 of 2 question(s)",
        ),
        ([], ""),
    ],
)
def test_line_284_insight_sees_how_the_avatars_worked_together(turns: list[RoleCall], remark: str) -> None:
    assert list(cooperation.remarks(turns)) == ([remark] if remark else [])


def test_line_284_the_cooperation_of_a_task_stands_in_its_report(repo: Repo) -> None:
    told = _reviewed(repo, {"problem": "nothing", "kind": "efficiency"})
    assert (
        "cooperation: script reviewed its own work: bind another agent to the reviewer" in told["insight"]["feedback"]
    )


def test_line_493_the_documents_that_the_protocol_names_are_sections_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "gates.md").read_text()
    for name in ("verification-pipeline.md", "jie.md", "ding.md", "hui.md", "shi.md"):
        [line] = [line for line in page.splitlines() if line.startswith(f"| {name}")]
        for heading in re.findall(r"\(#([\w-]+)\)", line):
            assert f"\n## {heading.replace('-', ' ').capitalize()}\n" in page
