"""The skills and subagents that ship are well formed, and name only commands, files and fields that exist."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from reflectloop import errors
from reflectloop.agents.answer_models import PlanDesign, Review, StepDesign
from reflectloop.cli.main import cli
from reflectloop.fileops import templates
from reflectloop.gates.contract import Contract
from reflectloop.plan import load as plans
from reflectloop.skills import bundle
from support import Repo, reflectloop

NAMES = (
    *("tp", "tr", "dual-design", "dual-review", "review", "ask-codex", "file-op", "mode-switch"),
    *("reflectloop-core", "thinking", "verification-pipeline"),
)
FILES = {name: data.decode() for name, data in bundle.skill_files().items()}
PAGES = {name: text for name, text in FILES.items() if name.endswith(".md")}
TEXTS = {**PAGES, **{f"agents/{agent.name}.md": agent.text for agent in bundle.subagents()}}
_SPAN = re.compile(r"`([^`\n]+)`")
_FENCE = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)]+)\)")
STEPS = [{"title": "Write it", "checks": ["test -e a"]}]


def test_every_skill_of_the_protocols_is_there() -> None:
    assert bundle.skills() == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_skill_is_a_short_page_with_the_fields_of_the_open_form(name: str) -> None:
    front, body = bundle.front_matter(FILES[f"{name}/SKILL.md"])
    assert set(front) <= {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert front["name"] == name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    description = str(front["description"])
    assert len(description) <= 1024
    assert "Use " in description
    assert re.search(r"[\u4e00-\u9fff]", description), "says it in Chinese too"
    assert len(str(front["compatibility"])) <= 500
    assert len(body.strip().splitlines()) <= 12


@pytest.mark.parametrize("name", NAMES)
def test_every_page_of_a_skill_is_linked_from_it_and_exists_in_both_languages(name: str) -> None:
    own = {path.removeprefix(f"{name}/") for path in FILES if path.startswith(f"{name}/")}
    linked = set(_LINK.findall(FILES[f"{name}/SKILL.md"]))
    assert linked <= own
    references = {path for path in own if path.startswith("references/")}
    assert references <= linked
    assert {path for path in references if ".zh." not in path} == {path.replace(".zh.", ".") for path in references}
    assert all(len(FILES[f"{name}/{path}"].encode()) < 24_000 for path in own)


def test_all_descriptions_together_are_short() -> None:
    """Claude Code shows some thousand characters of them to the model, and of the skills after that the name alone."""
    texts = [str(bundle.front_matter(FILES[f"{name}/SKILL.md"])[0]["description"]) for name in NAMES]
    assert sum(map(len, texts)) < 1_500


def _commands(text: str) -> Iterator[list[str]]:
    """Yield the words of every command line of ours in the code of a page."""
    lines = [line for block in _FENCE.findall(text) for line in block.splitlines()]
    for line in (*lines, *_SPAN.findall(_FENCE.sub("", text))):
        for part in line.replace("\\|", "|").split(" | "):
            code = part.partition("  #")[0].partition(" <<")[0].strip()
            if code.startswith("reflectloop "):
                yield shlex.split(code)[1:]


def _fault(words: list[str]) -> str:
    """Return what is wrong with a command line: an unknown command or option."""
    command: click.Command | None = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words:
        command = command.get_command(context, words[0])
        words = words[1:]
    if command is None:
        return "no such command"
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    used = words[: words.index("--")] if "--" in words else words
    unknown = [word for word in used if word.startswith("--") and word not in known]
    return f"no such option: {unknown[0]}" if unknown else ""


def test_every_command_that_a_skill_or_subagent_names_exists() -> None:
    commands = [(name, words) for name, text in TEXTS.items() for words in _commands(text)]
    assert len(commands) > 150
    assert [(name, words, fault) for name, words in commands if (fault := _fault(list(words)))] == []


@pytest.mark.parametrize(("line", "fault"), [("fly", "no such command"), ("tr --fly", "no such option: --fly")])
def test_a_command_that_does_not_exist_would_be_found(line: str, fault: str) -> None:
    assert [_fault(words) for words in _commands(f"Run `reflectloop {line}`.")] == [fault]


def test_templates_and_their_pages_are_the_ones_that_are_generated() -> None:
    made = bundle.shared_files()
    assert {name: text for name, text in FILES.items() if "/templates/" in name} == made


def test_every_value_of_a_template_names_its_source() -> None:
    for names in bundle.TEMPLATES.values():
        for name in names:
            gaps = bundle.template(name).gaps
            assert gaps
            assert all(gap.source and gap.about for gap in gaps.values())


VALUES: dict[str, dict[str, Any]] = {
    "preflight": {},
    "finalize_step": {},
    "execute_step": {"summary": "s", "done": ["d"], "ops": [{"op": "read_file", "path": "a"}]},
    "run_checks": {"command": ["make", "test"]},
    "split_step": {"substeps": ["a", "b", "c"]},
    "mark_blocked": {"reason": "r", "unblock": "u"},
    "append_steps": {"steps": ["a"]},
    "write_plan_files": {"task": "t", "steps": STEPS},
}


def test_requests_are_valid_by_the_protocol() -> None:
    used = {name for names in bundle.TEMPLATES.values() for name in names} & set(templates.names())
    assert used == set(VALUES)
    for name, values in VALUES.items():
        assert templates.fill_template(bundle.template(name), {"id": "X-1", **values}).ops


def test_the_other_templates_are_valid_by_our_own_models(tmp_path: Path) -> None:
    def filled(name: str, **values: Any) -> dict[str, Any]:
        return templates.fill_body(bundle.template(name), values)

    PlanDesign.model_validate(filled("design", title="t", goal="g", steps=STEPS))
    StepDesign.model_validate(filled("step-design", approach="a", done=["d"]))
    item = {"severity": "low", "file": "a", "line": 1, "problem": "p", "fix": "f"}
    Review.model_validate(filled("review", verdict="RETRY", items=[item], summary="s"))
    Contract.model_validate(filled("contract", goal="g", track="direct", summary="s", files_changed=["a"]))
    step = {"id": "P-1", "action": "Do it", "commands": ["true"], "verification": ["true"], "depends_on": []}
    path = tmp_path / "plan.latest.yaml"
    path.write_text(str(filled("plan", timestamp="2026-01-01T00:00:00Z", steps=[step])).replace("None", "null"))
    assert [step.id for step in plans.load(path).plan.steps] == ["P-1"]


def test_the_subagents_of_the_reflection_protocol_are_defined() -> None:
    agents = {agent.name: agent for agent in bundle.subagents()}
    assert set(agents) == {"academic-researcher", "community-listener", "critic-evaluator"}
    for agent in agents.values():
        assert "Use " in agent.description
        assert "REFLECTION REQUIRED" in agent.text
        assert "Bash" in agent.tools
        assert re.search(r"[\u4e00-\u9fff]", agent.text)
    for step in ("Explore", "Reflect", "Classify", "Plan", "Execute", "Submit"):
        assert f"{step}: " in agents["academic-researcher"].text


def test_the_rule_documents_of_the_pipeline_are_pages_of_a_skill() -> None:
    for name, words in {
        "jie": ("may_change", "security", "REJECT"),
        "ding": ("L0", "L3", "reflectloop verify"),
        "hui": ("anchor", "rule_patch", "Three backtracks"),
        "shi": ("candidate", "active", "retired", "Inertia"),
        "verification-pipeline": ("PASS", "REJECT", "RETRY", "SKIP", "FEEDBACK"),
    }.items():
        page = FILES[f"verification-pipeline/references/{name}.md"]
        assert [word for word in words if word not in page] == []


def test_the_core_skill_names_the_codes_of_the_protocol_with_our_numbers() -> None:
    numbers = {cls.code: cls.exit_code for cls in errors.published()}
    named = {
        code: int(exit_code)
        for code, exit_code in re.findall(r"([A-Z_]{6,}) (\d+)", FILES["reflectloop-core/SKILL.md"])
    }
    assert len(named) == 8
    assert named == {code: numbers[code] for code in named}


def test_a_planner_begins_a_plan_without_writing_a_file(repo: Repo) -> None:
    design = json.dumps({"title": "t", "goal": "g", "steps": STEPS})
    done = reflectloop(repo.path, "tp", "--from", "-", "--yes", "--json", stdin=design)
    assert done.code == 0
    assert json.loads(done.stdout)["data"]["plan"]["title"] == "t"
