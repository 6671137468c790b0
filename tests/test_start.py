"""Each command loads what it uses. What counts is the list of modules, never the time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reflectloop.policy import checks, variables
from reflectloop.system import patterns
from reflectloop.verification.protected import paths
from support import Repo

_LINE = re.compile(r"^import time:[ 0-9]+\|[ 0-9]+\| +(\S+)$", re.MULTILINE)
_LARGE = {"pydantic", "yaml", "httpx", "tomllib", "sqlite3", "reflectloop.config", "reflectloop.verification.tools"}
_BESIDE = {"shutil", "tempfile", "zipfile", "socket", "ctypes", "reflectloop.system.bubblewrap"}
_BESIDE_STATUS = {
    "reflectloop.artifacts.edited_views",
    "reflectloop.workspace.workspace_registry",
    "reflectloop.state.latch",
    "reflectloop.system.overlay",
}
_HOOK = _LARGE | {"click", "subprocess", "dataclasses", "reflectloop.secrets", "reflectloop.workspace.folders"}


def _loaded(folder: Path, words: list[str], text: str = "", home: Path | None = None) -> set[str]:
    argv = [sys.executable, "-X", "importtime", "-m", "reflectloop", *words]
    env = {"PATH": os.environ["PATH"], "HOME": str(home or folder), "LANG": "C.UTF-8"}
    ended = subprocess.run(argv, cwd=folder, env=env, input=text, capture_output=True, text=True, check=True)
    return set(_LINE.findall(ended.stderr))


def _bash(folder: Path) -> str:
    return json.dumps({"cwd": str(folder), "tool_name": "Bash", "tool_input": {"command": "git status | head -3"}})


def _edit(folder: Path) -> str:
    return json.dumps({"cwd": str(folder), "tool_name": "Edit", "tool_input": {"file_path": "README.md"}})


@pytest.mark.parametrize("event", [_bash, _edit])
def test_a_hook_before_a_tool_loads_neither_click_nor_pydantic(repo: Repo, event: object) -> None:
    assert callable(event)
    loaded = _loaded(repo.path, ["hook", "PreToolUse"], event(repo.path))
    assert "reflectloop.hooks.tool_calls" in loaded  # it did judge
    assert not loaded & _HOOK


def test_looking_at_a_task_builds_no_model_and_loads_no_sandbox(repo: Repo) -> None:
    assert repo.run("run", repo.steps("echo made > made.txt")).code == 0
    for command in ("status", "log", "diff"):
        loaded = _loaded(repo.path, [command])
        assert "reflectloop.state.fold" in loaded
        assert not loaded & (_LARGE - {"tomllib"} | _BESIDE), command
        assert not {name for name in loaded if name.startswith(("reflectloop.engine", "reflectloop.sandbox"))}, command
        assert not loaded & _BESIDE_STATUS or command == "status"


def test_a_patch_is_shown_without_what_records_or_scans_files(repo: Repo) -> None:
    assert repo.run("run", repo.steps("echo made > made.txt")).code == 0
    loaded = _loaded(repo.path, ["diff"])
    assert "reflectloop.secrets.scanner" in loaded  # it is redacted
    parts = ("content", "sqlite", "baseline")
    assert not loaded & {f"reflectloop.secrets.{name}" for name in parts}
    assert not loaded & {f"reflectloop.workspace.{name}" for name in ("record_tree", "added_lines", "layers")}
    assert not loaded & {"click.shell_completion", "hmac"}


def test_an_ended_command_frees_nothing_but_writes_everything(repo: Repo) -> None:
    program = (
        "import atexit, sys\n"
        "from reflectloop.cli import start\n"
        "class Kept:\n"
        "    def __del__(self): print('freed', file=sys.stderr)\n"
        "kept = Kept()\n"
        "atexit.register(print, 'at exit')\n"
        "start.main(['log', 'no-such-run'])\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=repo.path, capture_output=True, text=True, check=False)
    assert ended.returncode == 14
    assert ended.stdout == "at exit\n"
    assert ended.stderr.startswith("NOTHING_TO_DO")
    assert "freed" not in ended.stderr


def test_a_command_waits_for_its_threads(repo: Repo) -> None:
    program = (
        "import threading\n"
        "from reflectloop.cli import start\n"
        "threading.Thread(target=lambda: (threading.main_thread().join(), print('done'))).start()\n"
        "start.main(['--version'])\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=repo.path, capture_output=True, text=True, check=True)
    assert ended.stdout.endswith("done\n")


def test_a_stop_with_a_known_answer_builds_no_model(repo: Repo) -> None:
    session = json.dumps({"session_id": "s", "cwd": str(repo.path)})
    _loaded(repo.path, ["hook", "SessionStart"], session)
    repo.write("README.md", "prose\n")
    loaded = _loaded(repo.path, ["hook", "Stop"], session)
    assert "reflectloop.engine.gating.background" in loaded
    assert not loaded & (_LARGE | {"click", "reflectloop.state.events", "reflectloop.policy"})


def test_a_status_line_reads_the_last_answer_only(repo: Repo) -> None:
    loaded = _loaded(repo.path, ["watch", "--statusline"])
    assert "reflectloop.commands.watch_status" in loaded
    assert not loaded & (_LARGE | {"subprocess", "reflectloop.workspace.folders"})
    assert not {name for name in loaded if name.startswith(("reflectloop.engine", "reflectloop.verification"))}


def test_a_change_that_was_proven_loads_nothing_that_judges(repo: Repo, tmp_path: Path) -> None:
    repo.write("reflectloop.toml", '[[verify.checks]]\nname = "it"\nkind = "custom"\nrun = ["test", "-s", "it.txt"]\n')
    repo.write("it.txt", "1\n")
    repo.commit("a check")
    repo.write("it.txt", "2\n")
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    first = _loaded(repo.path, ["verify"], home=home)
    assert "reflectloop.verification.sealed" in first
    again = _loaded(repo.path, ["verify"], home=home)
    assert "reflectloop.engine.gating.remembered" in again
    judging = ("sealed", "check_runner", "probing", "tampering", "reports", "observe")
    assert not again & {f"reflectloop.verification.{name}" for name in judging}
    beside = {"asyncio", "doctest", "unittest", "reflectloop.diagnosis", "reflectloop.lessons", "reflectloop.policy"}
    assert sorted(again & beside) == []


def test_the_help_of_verify_does_not_load_the_engine(repo: Repo) -> None:
    loaded = _loaded(repo.path, ["verify", "--help"])
    assert "click" in loaded
    assert not loaded & _LARGE
    assert not {name for name in loaded if name.startswith(("reflectloop.engine", "reflectloop.verification"))}


def _patterns(value: object, depth: int = 3) -> Iterator[object]:
    if isinstance(value, patterns._LazyPattern):
        yield value
    elif isinstance(value, (tuple, list, frozenset)) and depth:
        for item in value:
            yield from _patterns(item, depth - 1)
    elif isinstance(value, dict) and depth:
        for item in (*value, *value.values()):
            yield from _patterns(item, depth - 1)


def test_every_pattern_that_is_compiled_on_first_use_compiles() -> None:
    import importlib
    import pkgutil

    import reflectloop

    seen = 0
    for module in pkgutil.walk_packages(reflectloop.__path__, "reflectloop."):
        if ".sample" in module.name or module.name.endswith("__main__") or ".inside" in module.name:
            continue
        for value in vars(importlib.import_module(module.name)).values():
            for lazy in _patterns(value):
                assert lazy.groups >= 0  # type: ignore[attr-defined]
                seen += 1
    assert seen > 50
    assert not list(_patterns(checks.CHECKS))
    assert variables.is_watched("CARGO_TARGET_X_RUNNER")


def test_a_lazy_pattern_answers_as_a_compiled_one_does() -> None:
    lazy, compiled = patterns.lazy(r"(?i)a(\d+)", re.ASCII), re.compile(r"(?i)a(\d+)", re.ASCII)
    assert lazy.findall("a1 A22 b3") == compiled.findall("a1 A22 b3")
    assert lazy.sub("x", "a1 b") == "x b"
    assert lazy.groups == 1
    assert lazy.flags == compiled.flags
    assert lazy.pattern == compiled.pattern


@pytest.mark.parametrize("name", ["a_test.go", "x.spec.mts", "tsconfig.base.json", "Makefile", "a", "", "test_.py"])
def test_patterns_of_names_match_as_their_regular_expressions_do(name: str) -> None:
    from fnmatch import fnmatchcase

    globs = ("*_test.go", "*.spec.[cm]ts", "tsconfig*.json", "makefile", "test_*.py", "?")
    assert paths.NamePatterns(globs).match(name) == any(fnmatchcase(name, glob) for glob in globs)


def test_the_options_of_a_hook_count_without_click(repo: Repo) -> None:
    argv = [
        sys.executable,
        "-m",
        "reflectloop",
        "hook",
        "preToolUse",
        "--client",
        "cursor",
        "--project",
        str(repo.path),
    ]
    env = {"PATH": os.environ["PATH"], "HOME": str(repo.path)}
    question = json.dumps({"tool_name": "Shell", "tool_input": {"command": "rm -rf /"}})
    ended = subprocess.run(argv, cwd="/", env=env, input=question, capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout)["permission"] == "deny"


def test_click_reads_a_hook_that_is_called_in_another_form(repo: Repo) -> None:
    argv = [sys.executable, "-m", "reflectloop", "hook", "PreToolUse", "--client=codex"]
    env = {"PATH": os.environ["PATH"], "HOME": str(repo.path)}
    question = json.dumps({"cwd": str(repo.path), "tool_name": "Bash", "tool_input": {"command": "rm -rf /"}})
    ended = subprocess.run(argv, cwd=repo.path, env=env, input=question, capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
    wrong = subprocess.run([*argv[:-1], "--limit", "soon"], env=env, capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "soon" in wrong.stderr
