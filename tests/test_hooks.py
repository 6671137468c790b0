"""The hooks of agents: what a client sends, and the answer in its own shape."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reflectloop.errors import InvalidInput
from reflectloop.hooks import clients, tool_calls
from reflectloop.hooks.clients import CLIENTS
from reflectloop.hooks.model import HookAnswer
from support import PROGRAM, Answer, Repo, reflectloop

pytestmark = pytest.mark.usefixtures("without_probing")

KEY = "AKIA" + "QYLPMN5HFIQR7XYA"  # looks like a key, and is none
TEST = (
    "import unittest\n\nimport calc\n\n\nclass Calc(unittest.TestCase):\n"
    "    def test_one(self):\n        self.assertEqual(calc.one(), 1)\n"
)


class Agent:
    """A session of a client in a small project."""

    def __init__(self, repo: Repo, client: str = "claude") -> None:
        self.repo, self.client = repo, client
        repo.git("rm", "-q", "-r", "src")
        repo.write("calc.py", "def one():\n    return 1\n")
        repo.write("test_calc.py", TEST)
        repo.commit("a calculator")

    def send(self, event: str, **fields: Any) -> dict[str, Any]:
        document = {"session_id": "s-1", "cwd": os.fspath(self.repo.path), **fields}
        done = reflectloop(self.repo.path, "hook", event, "--client", self.client, stdin=json.dumps(document))
        assert done.code == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout) if done.stdout else {}

    def bash(self, command: str, **fields: Any) -> dict[str, Any]:
        return self.send("PreToolUse", tool_name="Bash", tool_input={"command": command}, **fields)

    def edits(self, name: str, **fields: Any) -> dict[str, Any]:
        return self.send(
            "PreToolUse", tool_name="Edit", tool_input={"file_path": os.fspath(self.repo.path / name)}, **fields
        )

    def stop(self, **fields: Any) -> dict[str, Any]:
        return self.send("Stop", stop_hook_active=False, **fields)


@pytest.fixture
def agent(repo: Repo) -> Agent:
    return Agent(repo)


def decision(answer: dict[str, Any]) -> str:
    return str(answer.get("hookSpecificOutput", {}).get("permissionDecision", "allow"))


def test_a_turn_may_end_only_with_a_proven_change(agent: Agent) -> None:
    brief = agent.send("SessionStart", source="startup")["hookSpecificOutput"]["additionalContext"]
    assert "before your turn may end" in brief
    assert agent.stop() == {}  # nothing changed
    agent.repo.write("README.md", "# Calculator\n")
    assert agent.stop() == {}  # prose alone
    agent.repo.write("calc.py", "def one():\n    return 2\n")
    refused = agent.stop()
    assert refused["decision"] == "block"
    assert "newly failing: test_calc.Calc.test_one" in refused["reason"]
    assert "AssertionError: 2 != 1" in refused["reason"]
    agent.repo.write("calc.py", "def one():\n    return 3 - 2\n")
    assert agent.stop() == {}


def test_three_refusals_for_the_same_reason_lock_the_project(agent: Agent) -> None:
    agent.send("SessionStart")
    agent.repo.write("calc.py", "def one():\n    return 2\n")
    words = [agent.stop() for _ in range(2)]
    assert [word["decision"] for word in words] == ["block", "block"]
    end = agent.stop()
    assert end["continue"] is False
    assert "reflectloop unlock" in end["stopReason"]
    assert "2 != 1" in (agent.repo.path / ".reflectloop/sessions/claude-s-1/blocker.md").read_text()
    assert agent.repo.run("verify").code != 0  # locked
    assert decision(agent.bash("ls")) == "deny"
    assert agent.stop() == {}  # the agent cannot do anything more


def test_a_weakened_test_is_for_a_person_and_is_asked_about_once(agent: Agent) -> None:
    agent.send("SessionStart")
    agent.repo.write("calc.py", "def one():\n    return 2\n")
    agent.repo.write("test_calc.py", TEST.replace("calc.one(), 1", "calc.one(), 2"))
    first = agent.stop()
    assert first["decision"] == "block"
    assert "reflectloop approve RLOP-" in first["reason"]
    assert agent.stop()["continue"] is False
    assert agent.repo.run("status").code == 0
    assert not (agent.repo.path / ".reflectloop/latch.json").exists()


def test_a_session_whose_start_nobody_saw_is_judged_from_the_last_commit(agent: Agent) -> None:
    agent.repo.write("calc.py", "def one():\n    return 2\n")
    assert agent.stop()["decision"] == "block"


def record_of(agent: Agent) -> Path:
    return agent.repo.path / ".reflectloop/sessions/claude-s-1/session.json"


@pytest.mark.parametrize("how", ["edited", "deleted", "linked"])
def test_an_agent_that_changes_the_record_of_its_session_gains_nothing(agent: Agent, how: str) -> None:
    agent.send("SessionStart")
    record = record_of(agent)
    agent.repo.write("calc.py", "def one():\n    return 2\n")
    agent.repo.commit("a bug that the record shall hide")
    tree = agent.repo.git("rev-parse", "HEAD^{tree}").strip()
    forged = json.dumps({**json.loads(record.read_text()), "tree": tree})
    record.unlink()
    if how == "edited":
        record.write_text(forged)
    elif how == "linked":
        agent.repo.write("forged.json", forged)
        record.symlink_to(agent.repo.path / "forged.json")
    told = agent.stop()
    assert told["decision"] == "block"
    assert "was edited or deleted" in told["reason"]
    judged = agent.stop()
    assert judged["decision"] == "block"
    assert "2 != 1" in judged["reason"]
    agent.repo.write("calc.py", "def one():\n    return 1\n")
    assert agent.stop() == {}


def test_without_a_copy_outside_an_edited_record_proves_nothing(agent: Agent) -> None:
    agent.send("SessionStart")
    for copy in (Path.home() / ".local/state/reflectloop/sessions").iterdir():
        copy.unlink()
    record = record_of(agent)
    record.write_text(record.read_text().replace('"reminded": false', '"reminded": true'))
    answer = agent.stop()
    assert answer["continue"] is False
    assert "not proven" in answer["stopReason"]
    assert agent.stop() == answer


def test_a_signed_record_of_another_session_is_not_believed(agent: Agent) -> None:
    agent.send("SessionStart")
    agent.repo.write("calc.py", "def one():\n    return 2\n")
    agent.repo.commit("a bug")
    agent.send("SessionStart", session_id="s-2")
    record_of(agent).write_bytes(record_of(agent).parents[1].joinpath("claude-s-2/session.json").read_bytes())
    assert "was edited or deleted" in agent.stop()["reason"]
    assert "2 != 1" in agent.stop()["reason"]


def test_tests_that_were_red_before_are_pointed_out_once(agent: Agent) -> None:
    agent.repo.write("calc.py", "def one():\n    return 0\n")
    agent.repo.write(
        "test_calc.py", TEST + "\n    def test_callable(self):\n        self.assertTrue(callable(calc.one))\n"
    )
    agent.repo.commit("a bug")
    agent.send("SessionStart")
    agent.repo.write("calc.py", "def one():\n    return 3\n")
    first = agent.stop()
    assert first["decision"] == "block"
    assert "3 != 1" in first["reason"]
    assert agent.stop() == {}  # it was not the task
    agent.repo.write("calc.py", "def one():\n    return 1\n")
    assert agent.stop() == {}


def test_what_was_there_before_the_session_is_not_the_agents(agent: Agent) -> None:
    agent.repo.write("test_calc.py", TEST.replace("calc.one(), 1", "calc.one(), 7"))  # the user's own unfinished work
    agent.send("SessionStart")
    agent.repo.write("calc.py", "def one():\n    return 7\n")
    assert agent.stop() == {}


def test_an_edit_starts_the_verification_in_the_background(agent: Agent) -> None:
    agent.send("SessionStart")
    agent.repo.write("calc.py", "def one():\n    return 4 - 3\n")
    edit = {"tool_name": "Edit", "tool_input": {"file_path": os.fspath(agent.repo.path / "calc.py")}}
    assert agent.send("PostToolUse", **edit, tool_response={"filePath": "calc.py"}) == {}
    assert json.loads((agent.repo.path / ".reflectloop/sessions/claude-s-1/running.json").read_text())["pid"]
    assert agent.stop() == {}
    assert len(list((agent.repo.path / ".reflectloop/verifications").iterdir())) == 1


@pytest.mark.parametrize(
    ("command", "word"),
    [("ls -la", "allow"), ("rm -rf ~", "deny"), ("git push --force origin main", "ask"), ("python -m pytest", "allow")],
)
def test_commands_are_judged_by_the_policy(agent: Agent, command: str, word: str) -> None:
    assert decision(agent.bash(command)) == word


def test_files_that_judge_the_work_are_asked_about(agent: Agent) -> None:
    assert decision(agent.edits("calc.py")) == "allow"
    assert decision(agent.edits("test_calc.py")) == "ask"
    assert decision(agent.edits("test_new.py")) == "allow"
    assert decision(agent.edits(".reflectloop/latch.json")) == "deny"
    assert decision(agent.edits(".claude/settings.json")) == "ask"
    link = agent.repo.path / "notes.txt"
    link.symlink_to("test_calc.py")
    assert decision(agent.edits("notes.txt")) == "ask"


def test_a_planner_may_not_write(agent: Agent) -> None:
    assert decision(agent.edits("calc.py", permission_mode="plan")) == "deny"
    assert decision(agent.bash("echo 1 > x", permission_mode="plan")) == "deny"
    assert decision(agent.bash("git log --oneline | head", permission_mode="plan")) == "allow"


@pytest.mark.parametrize(
    ("command", "reads"),
    [
        ("cat a | grep b 2>&1", True),
        ("ls 2>/dev/null", True),
        ("git diff HEAD~1", True),
        ("sed -n 1,5p a", True),
        ('grep ">" a', True),
        ("cat a > b", False),
        ("git commit -m x", False),
        ("git -c core.pager=x log", False),
        ("sed -i s/a/b/ c", False),
        ("find . -delete", False),
        ("bash -c 'ls'", True),
        ("bash -c 'touch a'", False),
        ("ls $(rm x)", False),
        ("sort -o a b", False),
        ("FOO=1 ls", False),
        ("python3 x.py", False),
        ("reflectloop status", True),
        ("reflectloop template preflight | reflectloop fileops", True),
        ('reflectloop tp --from - --yes <<\'END\'\n{"goal": "a > b"}\nEND', True),
        ("reflectloop fileops <<'END'\n{}\nEND\ntouch a", False),
        ("cat > a <<'END'\nx\nEND", False),
        ("reflectloop lessons search a", True),
        ("reflectloop lessons accept a", False),
        ("reflectloop apply", False),
        ("reflectloop unlock --reason a", False),
        ("reflectloop run --trust-project", False),
        ("./reflectloop status", False),
        ("ls 'unclosed", False),
        (("ls", "-l"), True),
        (("touch", "x"), False),
    ],
)
def test_commands_that_only_read(command: str | tuple[str, ...], reads: bool) -> None:
    assert tool_calls.only_reads(command) is reads


def test_a_secret_in_output_or_a_written_file_is_named_without_its_value(agent: Agent) -> None:
    printed = agent.send(
        "PostToolUse", tool_name="Bash", tool_input={"command": "env"}, tool_response={"stdout": f"K={KEY}\n"}
    )
    assert printed["decision"] == "block"
    assert "the output:1" in printed["reason"]
    agent.repo.write("conf.py", f"KEY = '{KEY}'\n")
    edit = {"tool_name": "Write", "tool_input": {"file_path": "conf.py"}}
    written = agent.send("PostToolUse", **edit, tool_response={})
    assert "conf.py:1" in written["reason"]
    assert KEY not in json.dumps([printed, written])


def test_a_failed_tool_is_explained(agent: Agent) -> None:
    answer = agent.send(
        "PostToolUseFailure",
        tool_name="Bash",
        tool_input={"command": "python x.py"},
        error="ModuleNotFoundError: No module named 'yaml'",
    )
    context = answer["hookSpecificOutput"]["additionalContext"]
    assert context.startswith("TOOL REFLECTION: Bash failed.")
    assert "yaml" in context


def test_a_checkpoint_is_kept_before_a_client_forgets(agent: Agent) -> None:
    agent.send("SessionStart")
    agent.repo.write("calc.py", "def one():\n    return 5\n")
    assert agent.send("PreCompact", trigger="auto") == {}
    record = json.loads((agent.repo.path / ".reflectloop/sessions/claude-s-1/session.json").read_text())
    [tree] = record["checkpoints"]
    shown = agent.repo.git("--git-dir", os.fspath(agent.repo.path / ".reflectloop/git"), "show", f"{tree}:calc.py")
    assert "return 5" in shown


def test_outside_of_a_project_nothing_is_held_up(tmp_path: Path) -> None:
    document = json.dumps({"session_id": "x", "cwd": os.fspath(tmp_path / "gone")})
    done = reflectloop(tmp_path, "hook", "Stop", stdin=document)
    assert (done.code, done.stdout) == (0, "")


@pytest.mark.parametrize(("event", "text"), [("Nonsense", "{}"), ("Stop", "not json"), ("Stop", "[1]")])
def test_input_that_is_none_is_a_clear_error(repo: Repo, event: str, text: str) -> None:
    done = subprocess.run(  # a process of its own, as of a client: it is answered without click
        [*PROGRAM, "hook", event], cwd=repo.path, input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (12, "")
    assert done.stderr.startswith("INVALID_INPUT: ")
    assert "next: reflectloop " in done.stderr


def test_what_cannot_be_judged_is_refused_and_a_second_stop_is_let_through(agent: Agent) -> None:
    agent.send("SessionStart")
    agent.repo.write("calc.py", "def one():\n    return 2\n")
    own = agent.repo.path / ".reflectloop"
    own.rename(agent.repo.path.parent / "elsewhere")
    own.symlink_to(agent.repo.path.parent / "elsewhere")
    assert "is a link" in agent.stop()["reason"]
    assert agent.send("Stop", stop_hook_active=True) == {}


@pytest.mark.parametrize(
    ("client", "event", "document", "command", "writes"),
    [
        ("codex", "PreToolUse", {"tool_name": "Bash", "tool_input": {"command": ["ls", "-l"]}}, ("ls", "-l"), ()),
        (
            "codex",
            "PreToolUse",
            {
                "tool_name": "apply_patch",
                "tool_input": {"command": "*** Begin Patch\n*** Update File: a.py\n@@\n*** Move to: b.py\n"},
            },
            None,
            ("a.py", "b.py"),
        ),
        ("cursor", "beforeShellExecution", {"command": "ls", "conversation_id": "c"}, "ls", ()),
        ("cursor", "afterFileEdit", {"file_path": "/p/a.py", "edits": []}, None, ("/p/a.py",)),
        ("copilot", "preToolUse", {"toolName": "bash", "toolArgs": '{"command": "ls"}'}, "ls", ()),
        ("antigravity", "PreToolUse", {"toolCall": {"name": "run_command", "args": {"CommandLine": "ls"}}}, "ls", ()),
        (
            "antigravity",
            "PreToolUse",
            {"toolCall": {"name": "write_to_file", "args": {"TargetFile": "a"}}},
            None,
            ("a",),
        ),
    ],
)
def test_each_client_is_read_in_its_own_form(
    client: str, event: str, document: dict[str, Any], command: object, writes: tuple[str, ...]
) -> None:
    call = clients.read(CLIENTS[client], event, json.dumps(document))
    assert call.command == command
    assert call.writes == writes


@pytest.mark.parametrize(
    ("client", "event", "answer", "expected"),
    [
        ("codex", "Stop", HookAnswer("block", "no"), {"decision": "block", "reason": "no"}),
        ("cursor", "stop", HookAnswer("block", "no"), {"followup_message": "no"}),
        ("cursor", "preToolUse", HookAnswer("allow"), {"permission": "allow"}),
        ("copilot", "agentStop", HookAnswer("block", "no"), {"decision": "block", "reason": "no"}),
        ("antigravity", "PreToolUse", HookAnswer("deny", "no"), {"decision": "deny", "reason": "no"}),
    ],
)
def test_each_client_is_answered_in_its_own_form(
    client: str, event: str, answer: HookAnswer, expected: dict[str, Any]
) -> None:
    call = clients.read(CLIENTS[client], event, "{}")
    assert json.loads(clients.output(CLIENTS[client], call, answer).stdout) == expected


def test_a_client_that_cannot_ask_a_person_refuses() -> None:
    call = clients.read(CLIENTS["codex"], "PreToolUse", "{}")
    printed = json.loads(clients.output(CLIENTS["codex"], call, HookAnswer("ask", "Why?")).stdout)
    assert printed["hookSpecificOutput"]["permissionDecision"] == "deny"
    with pytest.raises(InvalidInput, match="no hook"):
        clients.read(CLIENTS["antigravity"], "PreCompact", "{}")


def push(agent: Agent, base: str = "") -> Answer:
    head = agent.repo.git("rev-parse", "HEAD").strip()
    line = f"refs/heads/main {head} refs/heads/main {base or '0' * 40}\n"
    return reflectloop(agent.repo.path, "hook", "pre-push", "--client", "git", stdin=line)


def test_only_proven_commits_are_pushed(agent: Agent) -> None:
    base = agent.repo.git("rev-parse", "HEAD").strip()
    assert push(agent, base).code == 0
    agent.repo.write("README.md", "prose\n")
    prose = agent.repo.commit("prose")
    assert push(agent, base).code == 0
    agent.repo.write("calc.py", "def one():\n    return 4 - 3\n")
    agent.repo.commit("one")
    refused = push(agent, base)
    assert refused.code == 33
    assert "has no receipt" in refused.stderr
    assert agent.repo.run("verify", "--base", prose.strip()).code == 0
    assert push(agent, base).code == 33  # nothing joins the remote's tree with the one that was the base
    assert push(agent, prose.strip()).code == 0
    assert agent.repo.run("verify", "--base", base).code == 0
    assert push(agent, base).code == 0


def test_a_forged_receipt_does_not_let_a_push_through(agent: Agent) -> None:
    base = agent.repo.git("rev-parse", "HEAD").strip()
    agent.repo.write("calc.py", "def one():\n    return 2\n")
    agent.repo.commit("wrong")
    assert agent.repo.run("verify", "--base", base).code != 0
    [path] = (agent.repo.path / ".reflectloop/verifications").glob("*/receipt.json")
    path.write_text(path.read_text().replace("REFUSED", "PASS").replace("RETRY", "PASS"))
    assert push(agent, base).code == 33
    done = reflectloop(agent.repo.path, "hook", "pre-push", "--client", "git", stdin="rubbish\n")
    assert done.code == 12
