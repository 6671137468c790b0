"""What people read is in their language; what programs read is not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from reflectloop import languages
from reflectloop.cli.help_pages import columns
from reflectloop.languages import catalogue
from support import Repo

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))
import messages

_CHINESE = {"LC_ALL": "zh_CN.UTF-8"}


@pytest.fixture
def chinese() -> catalogue.Catalogue:
    return catalogue.read(languages.folders()["zh"])


def test_every_entry_is_a_message_of_the_source() -> None:
    assert messages.stale("zh") == []


_SHOWN = ("cli/", "commands/", "hooks/", "artifacts/", "engine/", "gates/", "plan/", "reflection/", "terms.py")
_NO_MESSAGES = {
    "commands/agent_status.py",
    "engine/agent_tasks/attempt_reflection.py",
    "engine/steps/syntax_tools.py",  # patterns of compilers' own messages
    "hooks/fragments.py",
    "hooks/plugin.py",
    "reflection/warnings.py",
    "terms.py",
}


def test_every_message_of_the_commands_and_the_engine_exists_in_chinese() -> None:
    missing = [
        message for message in messages.missing("zh", *_SHOWN) if message.place.split(":")[0] not in _NO_MESSAGES
    ]
    assert missing == [], "add them to src/reflectloop/languages/zh; see docs/language.md"


def test_every_entry_has_the_values_of_its_message() -> None:
    wrong = {key: text for key, text in messages.entries("zh").items() if _values(key) != _values(text)}
    assert wrong == {}


def _values(text: str) -> set[str]:
    return catalogue.fields(text) - {"s"}


def test_the_setting_the_flag_and_the_locale_choose_the_language(repo: Repo) -> None:
    assert "nothing has run here yet" in repo.run("status").stdout
    assert "这里还没有运行过任何内容" in repo.run("status", env=_CHINESE).stdout
    assert "这里还没有运行过任何内容" in repo.run("status", "--language", "zh").stdout
    repo.write("reflectloop.toml", '[output]\nlanguage = "zh"\n')
    assert "这里还没有运行过任何内容" in repo.run("status").stdout
    assert "nothing has run here yet" in repo.run("status", "--language", "en", env=_CHINESE).stdout


def test_an_unknown_language_is_refused_with_those_that_exist(repo: Repo) -> None:
    assert "known: auto, en, zh" in repo.run("status", "--language", "xx").stderr
    repo.write("reflectloop.toml", '[output]\nlanguage = "xx"\n')
    assert "output.language" in repo.run("run").stderr


def test_what_programs_read_is_the_same_in_every_language(repo: Repo) -> None:
    plan = repo.steps("echo x > new.txt", "exit 3")
    english = repo.run("run", plan, "--json")
    chinese = repo.run("run", plan, "--json", "--new", env=_CHINESE)
    assert chinese.code == english.code == 30
    assert chinese.envelope["message"] == english.envelope["message"]
    assert list(chinese.json["data"]) == list(english.json["data"])


def test_faults_of_a_plan_are_told_all_at_once_with_their_places_in_the_language(repo: Repo) -> None:
    steps = [{"id": "a", "commands": ["true"], "timeout_s": "soon"}, {"id": "a", "depends_on": ["z"], "color": 1}]
    told = repo.run("plan", "check", repo.plan(json.dumps({"plan": {"title": 3, "steps": steps}})), env=_CHINESE)
    assert told.code == 11
    assert "必须是" in told.stderr
    assert "steps[1]" in told.stderr
    assert "未知的键“color”" in told.stderr


def test_a_third_language_is_a_folder_of_the_user(repo: Repo, tmp_path: Path) -> None:
    folder = tmp_path / "home" / ".config" / "reflectloop" / "languages" / "fr"
    folder.mkdir(parents=True)
    (folder / "messages.toml").write_text('"nothing has run here yet" = "rien n\'a encore tourné ici"\n')
    assert "rien n'a encore tourné ici" in repo.run("status", "--language", "fr").stdout
    assert "rien n'a encore tourné ici" in repo.run("status", env={"LC_ALL": "fr_FR.UTF-8"}).stdout
    repo.write("reflectloop.toml", '[output]\nlanguage = "fr"\n')
    assert "rien n'a encore tourné ici" in repo.run("status").stdout


def test_a_value_stays_and_a_text_of_ours_is_translated() -> None:
    entries = {"step {id} failed: {REASON}": "步骤 {id} 失败：{REASON}", "no space is left": "没有剩余空间"}
    made = catalogue.Catalogue(entries, {"done": "已完成"})
    assert made.line("step done failed: no space is left") == "步骤 done 失败：没有剩余空间"
    assert made.line("\x1b[31mX\x1b[0m: no space is left") == "\x1b[31mX\x1b[0m：没有剩余空间"
    assert made.line("| a | done |") == "| a | 已完成 |"
    assert made.line("done") == "done"
    assert made.document("no space is left\n```\nno space is left\n```") == "没有剩余空间\n```\nno space is left\n```"


def test_the_next_command_is_no_value_of_a_message(chinese: catalogue.Catalogue) -> None:
    line = 'next: executor = "NAME" under [roles] in reflectloop.toml; what there is: reflectloop agents'
    assert (
        chinese.line(line)
        == '下一步：在 reflectloop.toml 的 [roles] 下写 executor = "NAME"；可用的见：reflectloop agents'
    )


def test_the_help_of_every_command_is_chinese() -> None:
    missing = [message for message in messages.missing("zh", "cli/") if message.place.startswith("--help:")]
    assert missing == [], "add them to src/reflectloop/languages/zh/help.toml"
    said = [message.text for message in messages.help_messages()]
    assert "Judge the working tree as it is (the default)." in said  # an option
    assert "RUN may be a verification, and STEP one of its checks." in said  # a later paragraph
    assert "Record a lesson." in said  # a summary in the list of a group


def test_a_help_page_is_wrapped_by_the_width_of_its_characters(repo: Repo) -> None:
    page = repo.run("help", "verify", env=_CHINESE | {"COLUMNS": "60"}).stdout
    assert "判定某个分支的改动。" in page
    assert "示例：reflectloop verify --base main" in page
    assert max(map(columns, page.splitlines())) <= 60
    assert not [line for line in page.splitlines() if line.strip()[:1] in tuple("，。；：、）”")]


def test_the_help_speaks_the_language_of_the_flag_and_of_the_settings(repo: Repo) -> None:
    assert "记录一条经验。" in repo.run("lessons", "--help", "--language", "zh").stdout
    assert "记录一条经验。" in repo.run("lessons", "--language=zh", "add", "-h").stdout
    repo.write("reflectloop.toml", '[output]\nlanguage = "zh"\n')
    assert "记录一条经验。" in repo.run("lessons", "--help").stdout
    assert "Record a lesson." in repo.run("lessons", "--help", "--language", "en").stdout


@pytest.mark.parametrize(
    ("english", "expected"),
    [
        ("blocker: .reflectloop/runs/R/blocker.yaml", "阻塞点卡片：.reflectloop/runs/R/blocker.yaml"),
        ("\x1b[33mwarning:\x1b[0m the plan names no track; direct is assumed", "\x1b[33m警告：\x1b[0m计划没有写明"),
        ("  action (pending): 扩展搜索词", "  修复动作（待执行）：扩展搜索词"),
        ("  needs another iteration", "  需要再次迭代"),
        ('a; remove it, or allow it: [policy] allow = ["b"]', "a；删去它，或允许它：[policy]"),
        ("MAX_RETRIES: 3 runs of this task have failed. R-1: STEP_FAILED", "MAX_RETRIES：此任务已有 3 次运行失败。"),
        (
            "T-1: BLOCKED; held by STEP_FAILED: step P-1: false: exited 1",
            "；被 STEP_FAILED 锁存：步骤 P-1：false：退出码 1",
        ),
        (
            "replan: step P-1: make: exited 1; likely: x; the plan does not work: write a changed one",
            "；计划行不通：请写一个修改后的计划",
        ),
        ("x.json is not JSON: Expecting value: line 1 column 2 (char 1)", "不是 JSON：此处应有值（第 1 行第 2 列）"),
        ("LOGIC, needs REPLAN; class 3.3.2 (decision or reasoning error)", "需要 REPLAN；类别 3.3.2（思路/决策错误）"),
        ("| P-1 | **VERIFICATION_FAILED**: check P-1.1: exit code 1, not 0 | 0 s |", "检查 P-1.1：退出码 1，而不是 0"),
        ("QUALITY SCORE: none", "QUALITY SCORE: 无"),
    ],
)
def test_joined_messages_are_translated_part_by_part(chinese: catalogue.Catalogue, english: str, expected: str) -> None:
    assert expected in chinese.line(english)


def test_the_list_of_templates_is_chinese(repo: Repo) -> None:
    seen = repo.run("template", "--list", env=_CHINESE).stdout
    assert "preflight          询问下一个步骤，并计一次尝试。" in seen
    assert (
        "  step             any: 所指的步骤，用编号或序号；默认：状态所指的步骤（默认：null）；来自：state.json 中"
        in seen
    )
    assert " the " not in seen


def test_tables_stand_in_columns_whatever_their_language(repo: Repo) -> None:
    seen = repo.run("doctor", env=_CHINESE).stdout.splitlines()
    table = seen[seen.index("") + 1 :]
    rows = [line for line in table if "已拦住" in line]
    assert {columns(row[: row.index("已拦住")]) for row in rows} == {31}
    assert not [line for line in seen if "prevented" in line]


def test_a_blocked_step_is_said_in_chinese_to_the_last_bracket(chinese: catalogue.Catalogue) -> None:
    why = "3 attempts failed; the last: the agent said that it is done, and no file differs"
    said = "3 次尝试都失败；最后一次：声称已完成，但没有文件有差异"
    assert chinese.line(f"NEEDS_INPUT: step 2 is blocked: {why}") == f"NEEDS_INPUT：步骤 2 被阻塞：{said}"
    assert chinese.line(f"- [>] 2 写说明 (BLOCKED: {why})") == f"- [>] 2 写说明（BLOCKED：{said}）"
    assert chinese.line("step 1: x (blocked, attempt 1)") == "步骤 1：x（阻塞，第 1 次尝试）"
