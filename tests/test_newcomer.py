"""The first hour with the program: links, shell completion, hooks for pre-commit, the picture of the terminal."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reflectloop.plan import load
from support import Repo

ROOT = Path(__file__).resolve().parent.parent
TOKEN = "AKIA" + "QYLPMN5HFIQR7XYA"


def check_links(folder: Path) -> subprocess.CompletedProcess[str]:
    script = ROOT / "scripts" / "check_links.py"
    return subprocess.run([sys.executable, script, folder], capture_output=True, text=True, check=False, timeout=60)


def test_dead_links_are_found_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "b.md").write_text("# Some `code`, here\n\n# Twice\n\n# Twice\n")
    (tmp_path / "a.md").write_text(
        "[good](docs/b.md) [far](https://example.com/x) [twice](docs/b.md#twice-1) [code](docs/b.md#some-code-here)\n"
        "```\n[in a block](nowhere.md)\n```\n`[in code](nowhere.md)`\n"
        "[gone](docs/c.md) [no heading](docs/b.md#thrice)\n[here](#none) [out](../x.md)\n"
    )
    done = check_links(tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "a.md:6: docs/c.md: there is no such file",
        "a.md:6: docs/b.md#thrice: docs/b.md has no such heading",
        "a.md:7: #none: a.md has no such heading",
        "a.md:7: ../x.md: there is no such file",
    ]


def test_no_link_of_ours_is_dead() -> None:
    assert check_links(ROOT).stderr == ""


def test_the_plan_of_the_tutorial_is_one() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", page("tutorial.md"), re.DOTALL)
    parsed = load.parse(text.encode())
    assert parsed[1] == []
    assert parsed.plan is not None
    assert f"hash {parsed.plan.hash[:12]}" in page("tutorial.md")


def test_the_picture_shows_what_the_program_prints(tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "scripts" / "terminal_svg.py"), str(tmp_path / "new.svg")]
    subprocess.run(script, check=True, timeout=120)
    new, stored = (drawn_lines(path) for path in (tmp_path / "new.svg", ROOT / "docs" / "terminal.svg"))
    assert new == stored, "run: python scripts/terminal_svg.py"


def drawn_lines(path: Path) -> list[str]:
    """Return the text of a picture without what differs from run to run."""
    texts = re.findall(r"<text [^>]*>(.*)</text>", path.read_text())
    return [
        re.sub(r"RLOP-\d+-[0-9a-f]+|[0-9a-f]{12}|[0-9.]+ s\b|isolation \w+|refs/heads/\w+", "…", text) for text in texts
    ]


def complete(shell: str, words: str) -> list[str]:
    """Return what is offered for the last word."""
    position = len(words.split(" ")) - 1
    variables = {"_REFLECTLOOP_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": str(position)}
    done = subprocess.run(
        [sys.executable, "-m", "reflectloop"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_completion_is_printed_for_each_shell(shell: str) -> None:
    env = {**os.environ, "_REFLECTLOOP_COMPLETE": f"{shell}_source"}
    done = subprocess.run([sys.executable, "-m", "reflectloop"], env=env, capture_output=True, text=True, check=True)
    assert f"_REFLECTLOOP_COMPLETE={shell}_complete" in done.stdout


def test_commands_subcommands_and_options_are_completed() -> None:
    assert complete("bash", "reflectloop stat") == ["plain,status"]
    assert complete("bash", "reflectloop lessons sea") == ["plain,search"]
    assert complete("bash", "reflectloop run --dry") == ["plain,--dry-run"]
    assert complete("zsh", "reflectloop pau")[:3] == ["plain", "pause", "Stop a run before its next step."]


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_with_the_line_of_the_page(tmp_path: Path) -> None:
    (line,) = re.findall(
        r'^eval "\$\(_REFLECTLOOP_COMPLETE=bash_source reflectloop\)"', page("install.md"), re.MULTILINE
    )
    script = f'{line}; COMP_WORDS=(reflectloop stat); COMP_CWORD=1; _reflectloop_completion reflectloop; echo "${{COMPREPLY[@]}}"'
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["status"]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def test_hooks_for_pre_commit_have_the_fields_it_needs_and_are_documented() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_bytes())
    assert [hook["id"] for hook in hooks] == ["reflectloop-scan", "reflectloop-verify"]
    for hook in hooks:
        assert {"id", "name", "entry", "language"} <= hook.keys()
        assert hook["language"] == "python"
        assert hook["entry"].startswith("reflectloop ")
        assert f"id: {hook['id']}" in page("install.md")


def run_hook(repo: Repo, name: str) -> int:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_bytes())
    (entry,) = (hook["entry"] for hook in hooks if hook["id"] == name)
    return repo.run(*shlex.split(entry)[1:]).code


def test_the_hook_refuses_a_staged_secret_and_lets_other_lines_pass(repo: Repo) -> None:
    repo.write("notes.txt", "nothing to hide\n")
    repo.git("add", "notes.txt")
    assert run_hook(repo, "reflectloop-scan") == 0
    repo.write("leak.py", f'KEY = "{TOKEN}"\n')
    assert run_hook(repo, "reflectloop-scan") == 0, "it is not staged"
    repo.git("add", "leak.py")
    assert run_hook(repo, "reflectloop-scan") == 1


def test_the_hook_refuses_a_weaker_test_and_lets_a_fix_pass(repo: Repo) -> None:
    sample = ROOT / "src" / "reflectloop" / "demo" / "sample"
    for path in sample.iterdir():
        if path.is_file():
            repo.write(path.name, path.read_bytes())
    repo.commit("the sample")
    repo.write("pager.py", (sample / "pager.py").read_text().replace("// size", "// -size * -1"))
    assert run_hook(repo, "reflectloop-verify") == 0
    repo.write("test_pager.py", (sample / "test_pager.py").read_text().replace("assertEqual", "assertNotEqual"))
    assert run_hook(repo, "reflectloop-verify") == 33
