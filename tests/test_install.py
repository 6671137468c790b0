"""Hooks are entered into a client's settings and taken out again; nothing of the user's is lost."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from reflectloop.hooks import fragments, health, install, json_files
from reflectloop.hooks.clients import CLIENTS
from support import Repo

OWN = '{\n\t"model": "x",\n\t"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}\n}'
FILES = {name: settings.files["project"] for name, settings in fragments.SETTINGS.items()}


@pytest.mark.parametrize("client", FILES)
@pytest.mark.parametrize("before", [None, "{}", OWN, '{"hooks": {}, "名": "值"}\n'])
def test_install_twice_and_uninstall_leaves_every_byte_as_it_was(repo: Repo, client: str, before: str | None) -> None:
    path = repo.path / FILES[client]
    if before is not None:
        repo.write(FILES[client], before)
    assert repo.run("install", client).code == 0
    first = path.read_bytes()
    assert "has it already" in repo.run("install", client).stdout
    assert path.read_bytes() == first
    document = json.loads(first)
    assert document["hooks"]
    if before == OWN:
        assert document["model"] == "x"
        assert '"mine"' in first.decode()
        assert first.startswith(b'{\n\t"model"')
    assert repo.run("install", client, "--uninstall").code == 0
    assert (path.read_text() if path.exists() else None) == before


def test_what_others_write_afterwards_stays(repo: Repo) -> None:
    repo.write(".claude/settings.json", OWN)
    repo.run("install", "claude")
    path = repo.path / ".claude/settings.json"
    document = json.loads(path.read_text())
    document["hooks"]["Stop"].insert(0, {"hooks": [{"type": "command", "command": "later"}]})
    document["hooks"]["PreToolUse"][0]["hooks"][0]["timeout"] = 5
    path.write_text(json.dumps(document))
    done = repo.run("install", "claude", "--uninstall")
    assert "hooks.PreToolUse: somebody edited it, so it stays" in done.stdout
    left = json.loads(path.read_text())
    assert [group["hooks"][0]["command"] for group in left["hooks"]["Stop"]] == ["later", "mine"]
    assert list(left["hooks"]) == ["Stop", "PreToolUse"]
    assert left["model"] == "x"
    assert "env" not in left


def test_every_client_that_can_be_installed_can_be_answered() -> None:
    for name, settings in fragments.SETTINGS.items():
        events = [item.keys[1] for item in settings.fragments("reflectloop") if item.keys[0] == "hooks"]
        assert set(events) <= set(CLIENTS[name].events)


def test_a_dry_run_writes_nothing(repo: Repo) -> None:
    done = repo.run("install", "codex", "--dry-run")
    assert "+++ " in done.stdout
    assert not (repo.path / ".codex").exists()


def test_a_link_stays_a_link(repo: Repo, tmp_path: Path) -> None:
    target = tmp_path / "settings.json"
    target.write_text("{}\n")
    (repo.path / ".claude").mkdir()
    (repo.path / ".claude/settings.json").symlink_to(target)
    repo.run("install", "claude")
    assert (repo.path / ".claude/settings.json").is_symlink()
    assert "hooks" in target.read_text()
    repo.run("install", "claude", "--uninstall")
    assert target.read_text() == "{}\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, // comment\n}', "no plain JSON"),
        ('{"a": 1, "a": 2}', "occurs twice"),
        ("[]", "no JSON object"),
        ('{"hooks": []}', "no object"),
        ('{"hooks": {"Stop": 3}}', "no list"),
    ],
)
def test_settings_that_cannot_be_edited_safely_are_left_alone(repo: Repo, text: str, why: str) -> None:
    repo.write(".claude/settings.json", text)
    done = repo.run("install", "claude")
    assert done.code == 12
    assert why in done.stderr
    assert (repo.path / ".claude/settings.json").read_text() == text


def test_check_names_what_is_missing(repo: Repo) -> None:
    assert repo.run("install", "claude", "--check").code == 12
    repo.run("install", "claude")
    assert "answers" in repo.run("install", "claude", "--check").stdout
    document = json.loads((repo.path / ".claude/settings.json").read_text())
    del document["hooks"]["Stop"]
    repo.write(".claude/settings.json", json.dumps(document))
    assert "hooks.Stop is missing" in repo.run("install", "claude", "--check").stderr
    assert repo.run("install", "cursor", "--uninstall").code == 14


def _shim(folder: Path, script: str) -> dict[str, str]:
    """Return an environment whose `reflectloop` is another program."""
    program = folder / "shim" / "reflectloop"
    program.parent.mkdir(exist_ok=True)
    program.write_text(script)
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("#!/bin/sh\nexit 0\n", "another program answers, or none"),
        ("#!/bin/sh\ncat\n", "another program answers, or none"),
        ("#!/bin/sh\nexit 3\n", "exit code"),
        (f"#!/bin/sh\nexec {sys.executable} -m reflectloop hook Stop --client claude\n", "another program answers"),
    ],
)
def test_a_hook_that_another_program_answers_is_not_live(tmp_path: Path, script: str, why: str) -> None:
    env = _shim(tmp_path, script)
    line = f"{env['PATH'].partition(':')[0]}/reflectloop hook PreToolUse --client claude"
    [fault] = install.silent_hooks("claude", {"PreToolUse": line}, None)
    assert why in fault


@pytest.mark.parametrize(
    ("client", "event"), [("claude", "PreToolUse"), ("cursor", "preToolUse"), ("copilot", "preToolUse")]
)
def test_a_hook_is_live_if_it_refuses_what_is_always_refused(
    repo: Repo, tmp_path: Path, client: str, event: str
) -> None:
    line = f"{sys.executable} -m reflectloop hook {event} --client {client}"
    assert install.silent_hooks(client, {event: line}, repo.path) == []
    lax = tmp_path / "lax"
    lax.write_text(f'#!/bin/sh\ni=$(cat)\ncase "$i" in *reflectloop_check*) printf %s "$i" | {line};; esac\n')
    lax.chmod(0o755)
    assert install.silent_hooks(client, {event: str(lax)}, repo.path) == [f"{client} {event}: it lets rm -rf / pass"]


def test_doctor_fails_where_an_installed_hook_is_not_live(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    assert health.findings(repo.path) == []
    repo.run("install", "claude")
    monkeypatch.setattr(install, "program", lambda: _program_in(repo.path / ".claude/settings.json"))
    [finding] = health.findings(repo.path)
    assert (finding.name, finding.state) == ("claude hooks", "ok"), finding.detail
    settings = repo.path / ".claude/settings.json"
    settings.write_text(settings.read_text().replace("PreToolUse --client", "PreToolUse --limit 1 --client"))
    [finding] = health.findings(repo.path)
    assert finding.state == "missing"
    assert "hooks.PreToolUse is missing or edited" in finding.detail
    assert finding.remedy == "reflectloop install claude --check"


def _program_in(settings: Path) -> str:
    command = json.loads(settings.read_text())["hooks"]["SessionStart"][0]["hooks"][0]["command"]
    return shlex.split(command)[0]


def _stop_command(program: str) -> str:
    [group] = [one.value for one in fragments.SETTINGS["claude"].fragments(program) if one.keys == ("hooks", "Stop")]
    assert isinstance(group, dict)
    return str(group["hooks"][0]["command"])


@pytest.mark.parametrize("program", ["/nowhere/reflectloop", "/bin/false"])
def test_a_hook_that_dies_refuses_the_stop_once(program: str) -> None:
    for active, code in (("false", 2), ("true", 0)):
        done = subprocess.run(
            ["sh", "-c", _stop_command(program)],
            input=f'{{"stop_hook_active":{active}}}'.encode(),
            capture_output=True,
            check=False,
        )
        assert done.returncode == code
        assert (b"reflectloop doctor" in done.stderr) is (code == 2)


def test_a_value_of_the_users_own_stays() -> None:
    document = {"env": {"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "4"}}
    json_files.add(document, ("env", "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"), "20")
    json_files.remove(document, ("env", "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"), "20")
    assert document == {"env": {"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "4"}}
    assert install.Edit(Path("a"), b"a\n", b"b\n").diff()[-2:] == ["-a", "+b"]


FAKE_CODEX = """#!{python}
import json, os, sys
state = os.path.join(os.path.dirname(__file__), "trusted")
settings = json.load(open({path!r}))
print("a line that is no answer", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    result = {{}}
    if asked["method"] == "hooks/list":
        hooks = [(event, group["hooks"][0]["command"]) for event, [group] in settings["hooks"].items()]
        trust = "trusted" if os.path.exists(state) else "untrusted"
        listed = [
            {{"key": event, "eventName": event, "command": command, "currentHash": "h", "trustStatus": trust}}
            for event, command in hooks
        ]
        result = {{"data": [{{"hooks": listed}}]}}
    elif asked["method"] == "config/batchWrite":
        open(state, "w").write(json.dumps(asked["params"]))
    if "id" in asked:
        print(json.dumps({{"id": asked["id"], "result": result}}), flush=True)
"""


def test_codex_is_asked_whether_it_trusts_the_hooks(repo: Repo, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "codex"
    program.parent.mkdir()
    program.write_text(FAKE_CODEX.format(python=sys.executable, path=str(repo.path / ".codex/hooks.json")))
    program.chmod(0o755)
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    repo.run("install", "codex", env=env)
    skipped = repo.run("install", "codex", "--check", env=env)
    assert skipped.code == 12
    assert "codex skips hooks it does not trust: SessionStart, PreToolUse" in skipped.stderr
    assert "next: reflectloop install codex --trust" in skipped.stderr
    assert "codex trusts: SessionStart" in repo.run("install", "codex", "--trust", env=env).stdout
    [edit] = json.loads((program.parent / "trusted").read_text())["edits"]
    assert edit["value"]["Stop"] == {"trusted_hash": "h"}
    assert repo.run("install", "codex", "--check", env=env).code == 0
    assert repo.run("install", "claude", "--trust", env=env).code == 2


def test_what_install_wrote_is_not_asked_about_and_what_others_wrote_is(repo: Repo) -> None:
    repo.git("rm", "-q", "-r", "src")
    repo.write("calc.py", "def one():\n    return 1\n")
    repo.write(
        "test_calc.py",
        "import unittest\n\nimport calc\n\n\nclass Calc(unittest.TestCase):\n"
        "    def test_one(self):\n        self.assertEqual(calc.one(), 1)\n",
    )
    repo.commit("a calculator")
    repo.run("install", "claude")
    repo.write("calc.py", "def one():\n    return 2 - 1\n")
    assert repo.run("verify").code == 0
    path = repo.path / ".claude/settings.json"
    path.write_text(path.read_text().replace("hook Stop", "hook Start"))
    asked = repo.run("verify")
    assert asked.code == 33
    assert ".claude/settings.json" in asked.stderr
