"""A whole task in Chinese, from the goal to the final report: every line a person sees is Chinese or an identifier."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from seed_samples import UNITTEST

from scripted_task import BROKEN, WRITE
from support import Answer, Repo

_IDENTIFIERS = frozenset(
    re.split(
        r"\s+",
        "OK PASS RETRY DONE BLOCKED REFUSED REVIEW SKIP ASK USD tokens kB MB fix full fs workspace tr tp verify route "
        "planner reviewer executor rules unittest calc.py test_calc.py compact.md reflectloop apply gc status run add "
        "show Contract Do/Don't Ticket Critic blocker fileops git diff python3",
    )
)
_ID = re.compile(r"[A-Z]{1,6}-[\w-]+|[A-Z]+_[A-Z_]+|L[0-3]|step-\d\.\d|rewind_\w+|T\d+|Z|s|x")
_COMMAND = re.compile(
    r"`[^`]*`|reflectloop [a-z-]+(?: [\w.-]+)*|python3 -m unittest[ \w-]*|(?<!\w)(?:/[\w.+-]+)+|<!--.*-->"
)
_WORD = re.compile(r"[A-Za-z][\w./'-]*")
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_PLAN = {
    "title": "修复加法",
    "goal": "add() 返回两数之和",
    "track": "fix",
    "steps": [{"title": "让 add 做加法", "details": "现在做的是减法", "checks": ["python3 -m unittest -q"]}],
}
_SCRIPT: list[dict[str, Any]] = [
    {"role": "planner", "says": "Make a plan", "answer": _PLAN},
    {"role": "planner", "says": "Design one step", "answer": {"approach": "把减号换成加号"}},
    {"says": "Review", "answer": {"verdict": "PASS"}},
    {"role": "reviewer", "answer": {"verdict": "PASS"}},
    {"role": "executor", "ops": [WRITE], "answer": {"control": "step_done", "approach": "加号代替减号"}},
]
_SETTINGS = """\
[output]
language = "zh"
[roles]
planner = "script"
executor = "script"
reviewer = "script"
[agents.script]
file = "../agent.yaml"
"""


def foreign_words(text: str) -> list[str]:
    """Return the lines with a word that is neither Chinese nor an identifier, with that word."""
    out = []
    for line in text.splitlines():
        words = _WORD.findall(_COMMAND.sub("", line))
        unknown = [word for word in words if word not in _IDENTIFIERS and not _ID.fullmatch(word)]
        out += [f"{unknown[0]}: {line}"] if unknown else []
    return out


@pytest.fixture
def chinese(repo: Repo) -> Repo:
    repo.write("calc.py", BROKEN)
    repo.write("test_calc.py", UNITTEST)
    repo.write("reflectloop.toml", _SETTINGS)
    repo.write("../agent.yaml", json.dumps({"script": _SCRIPT}))
    repo.commit("first")
    return repo


def _seen(answer: Answer) -> str:
    return answer.stdout + answer.stderr


def test_a_task_is_chinese_from_the_goal_to_the_final_report(chinese: Repo) -> None:
    commands = (["tp", "让 add 做加法", "--yes"], ["status"], ["tr", "--all"], ["status"], ["tasks"], ["show"])
    for words in (*commands, ["receipt", "show"], ["apply", "--yes"], ["status"], ["route"], ["tr"]):
        seen = _seen(chinese.run(*words))
        assert _CHINESE.search(seen), words
        assert foreign_words(seen) == [], words
    own = chinese.path / ".reflectloop"
    pages = [*own.glob("tasks/*/*.md"), *own.glob("final/*.md"), *own.glob("runs/*/*.md")]
    assert {page.name for page in pages} >= {"todo.md", "plan_log.md", "compact.md", "gates.md", "summary.md"}
    for page in pages:
        assert foreign_words(page.read_text(encoding="utf-8")) == [], page.name


def test_line_429_the_pipeline_report_has_the_headings_of_the_protocol(chinese: Repo) -> None:
    chinese.run("tp", "让 add 做加法", "--yes")
    chinese.run("tr", "--all")
    (page,) = (chinese.path / ".reflectloop").glob("runs/*/gates.md")
    text = page.read_text(encoding="utf-8")
    for line in ("## 验证流水线报告", "**任务**: 修复加法", "**轨道**: fix", "**分身**: executor", "### 流水线状态"):
        assert line in text
    for line in (
        "| 关卡 | 状态 | 详情 |",
        "#### 戒关",
        "- [x] Contract 完整性",
        "- [x] Do/Don't 边界",
        "- [x] 安全检查",
    ):
        assert line in text
    for line in ("#### 定关", "- **证据等级**: L3", "- **验证命令**: `", "- **结果**: "):
        assert line in text


def test_line_640_the_box_about_a_failed_tool_is_drawn_in_both_languages(repo: Repo) -> None:
    command = ["call", "--", "sh", "-c", "echo 'curl: (28) Operation timed out' >&2; exit 28"]
    for language, title, error in (
        ("en", "TOOL REFLECTION", "Error: external"),
        ("zh", "结构化反思", "错误: 外部服务异常"),
    ):
        seen = repo.run("call", "--language", language, *command[1:]).stderr
        box = [line for line in seen.splitlines() if line[:1] in "┌│├└"]
        assert len(box) == 7
        assert title in box[1]
        assert error in box[4]


def test_line_725_a_failed_run_is_reflected_on_in_chinese(repo: Repo) -> None:
    repo.write("reflectloop.toml", '[output]\nlanguage = "zh"\n[publish]\nresearch = true\n')
    repo.run("run", repo.steps("python3 -c 'import nosuchmodule'"))
    seen = repo.run("reflect", "latest")
    assert "根因：运行它的环境中没有安装 Python 模块 nosuchmodule" in _seen(seen)
    (published,) = (repo.path / "research_data").glob("reflection_*.json")
    text = published.read_text(encoding="utf-8")
    report = json.loads(text)
    assert "\\u" not in text
    assert report["error_analysis"]["root_cause"] == "运行它的环境中没有安装 Python 模块 nosuchmodule"
    assert all(_CHINESE.search(action["action"]) or "pip" in action["action"] for action in report["repair_actions"])
    assert _CHINESE.search(report["learning_notes"])


def test_a_lesson_with_a_chinese_title_is_a_file_with_that_title(repo: Repo) -> None:
    assert repo.run("lessons", "add", "--kind", "pattern", "先检查数量是否达标").code == 0
    (page,) = (repo.path / ".reflectloop" / "knowledge").glob("pattern/*.md")
    assert page.name.startswith("先检查数量是否达标-")
    assert "先检查数量是否达标" in page.read_text(encoding="utf-8")


def test_json_for_programs_has_chinese_as_itself_and_keys_in_english(chinese: Repo) -> None:
    answer = chinese.run("tp", "让 add 做加法", "--yes", "--json")
    assert "修复加法" in answer.stdout
    assert set(answer.json["data"]) == {"task", "rounds", "designs", "plan"}
    assert answer.envelope["next"] == "reflectloop tr --all"


_BROKEN_PLAN = {"title": 3, "steps": [{"id": "a", "status": "later"}, {"description": ["x"], "dependencies": "a"}]}


def test_faults_of_a_broken_orchestrator_plan_are_all_told_in_chinese(repo: Repo) -> None:
    plan = repo.plan(json.dumps(_BROKEN_PLAN), "plan.json")
    told = repo.run("plan", "check", plan, "--language", "zh")
    assert told.code == 11
    faults = [line for line in told.stderr.splitlines() if line.startswith("  ")]
    assert len(faults) >= 3
    assert all(_CHINESE.search(line) for line in faults), told.stderr
    assert any("steps[1]" in line for line in faults)


def _sample(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(__file__).parent / "data" / name).read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("field", ["ticket_id", "verdict", "issues"])
def test_line_708_a_ticket_without_a_required_field_is_told_in_chinese(repo: Repo, field: str) -> None:
    ticket = {name: value for name, value in _sample("001-line-708-ticket.json").items() if name != field}
    told = repo.run("reflect", "--language", "zh", repo.plan(json.dumps(ticket), "ticket.json"))
    assert told.code == 12
    assert f"{field}：必填，但缺失" in told.stderr


@pytest.mark.parametrize("field", ["error_analysis", "error_classification", "repair_actions", "learning_notes"])
def test_line_59_a_report_without_a_required_field_is_told_in_chinese(repo: Repo, field: str) -> None:
    report = {name: value for name, value in _sample("001-line-59-report.json").items() if name != field}
    told = repo.run("reflect", "--language", "zh", repo.plan(json.dumps(report), "report.json"))
    assert told.code == 12
    assert field in told.stderr
    assert "必填，但缺失" in told.stderr


def test_line_79_the_published_blocker_is_chinese_and_its_codes_are_not(repo: Repo) -> None:
    repo.write("reflectloop.toml", '[output]\nlanguage = "zh"\n[publish]\nclaude = true\n')
    repo.run("run", repo.steps("python3 -c 'import nosuchmodule'"))
    text = (repo.path / ".claude/state/thinking/blocker.latest.yaml").read_text(encoding="utf-8")
    card = yaml.safe_load(text)
    assert card["root_cause_hypothesis"] == ["运行它的环境中没有安装 Python 模块 nosuchmodule"]
    assert card["summary"].startswith("步骤 P-1：")
    assert card["envelope"]["error_code"] == "STEP_FAILED"
    assert card["needs"] == ["RESEARCH"]


def test_line_257_the_prompt_to_reflect_has_the_words_of_the_protocol(repo: Repo) -> None:
    repo.run("run", repo.steps("python3 -c 'import nosuchmodule'"))
    seen = repo.run("reflect", "latest", "--prompt", "--language", "zh").stdout
    assert "REFLECTION REQUIRED" in seen
    for line in ("请执行反思协议:", "1. Explore - 查看当前产出状态", "6. Submit - 提交反思报告 + 修订产出"):
        assert line in seen


def test_an_agent_is_asked_to_write_chinese(chinese: Repo) -> None:
    chinese.run("tp", "让 add 做加法", "--yes")
    (prompt,) = (chinese.path / ".reflectloop").glob("designs/*/planner.prompt.md")
    assert "请用中文书写" in prompt.read_text(encoding="utf-8")
