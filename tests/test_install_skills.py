"""Skills, subagents, the block of AGENTS.md, the plugin folder and git's hook are entered and taken out again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import cast

import pytest

from reflectloop.errors import InvalidInput
from reflectloop.hooks import client_files, install, plugin
from reflectloop.hooks.fragments import Scope
from reflectloop.hooks.install import InstallPlan, Place
from reflectloop.skills import bundle
from reflectloop.trust import installed
from support import Repo

CLIENTS = tuple(client for client in client_files.CLIENTS if client not in ("git", "autoloop"))  # those with skills
PROGRAM = "reflectloop"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "a-home").mkdir()
    return tmp_path / "a-home"


def at(repo: Repo, client: str, home: Path, scope: str = "project") -> Place:
    return install.place(client, cast("Scope", scope), repo.path, home)


def enter(place: Place) -> InstallPlan:
    plan = install.plan_install(place, PROGRAM)
    install.carry_out(place, plan)
    return plan


def take_out(place: Place) -> InstallPlan:
    plan = install.plan_uninstall(place)
    install.carry_out(place, plan)
    return plan


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Every folder and file, except git's and the engine's own."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if not {".git", ".reflectloop"} & set(path.relative_to(folder).parts)
    }


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("scope", ["project", "user"])
def test_install_twice_and_uninstall_leaves_every_folder_and_byte(
    repo: Repo, home: Path, client: str, scope: str
) -> None:
    root = repo.path if scope == "project" else home
    (root / ".claude").mkdir()
    before = snapshot(root)
    place = at(repo, client, home, scope)
    assert enter(place).changes
    pages = {path for path in snapshot(root) if path.endswith("/SKILL.md")}
    assert len(pages) == len(bundle.skills())
    assert not enter(place).changes
    assert install.check(place, PROGRAM).left == []
    assert take_out(place).left == []
    assert snapshot(root) == before
    assert not place.ledger.exists()


def test_clients_share_a_folder_until_the_last_of_them_leaves(repo: Repo, home: Path) -> None:
    before = snapshot(repo.path)
    page = repo.path / ".agents/skills/tp/SKILL.md"
    for client in CLIENTS:
        enter(at(repo, client, home))
    for client in CLIENTS:
        assert page.exists() == (client != "antigravity")  # which comes last, with a folder of its own
        take_out(at(repo, client, home))
    assert snapshot(repo.path) == before


def test_a_skill_of_the_users_own_stays(repo: Repo, home: Path) -> None:
    repo.write(".claude/skills/review/SKILL.md", "mine\n")
    place = at(repo, "claude", home)
    assert enter(place).left == [".claude/skills/review"]
    assert not (repo.path / ".claude/skills/review/references").exists()
    assert (repo.path / ".claude/skills/tp/SKILL.md").exists()
    checked = install.check(place, PROGRAM)
    assert checked.left == [str(repo.path / ".claude/skills/review/SKILL.md")]
    assert not any("skills" in fault for fault in checked.faults)
    take_out(place)
    assert (repo.path / ".claude/skills/review/SKILL.md").read_text() == "mine\n"


@pytest.mark.parametrize("exists", [False, True])
def test_no_page_is_written_through_a_link(repo: Repo, home: Path, tmp_path: Path, *, exists: bool) -> None:
    target, link = tmp_path / "target", repo.path / ".claude/skills/tp/SKILL.md"
    if exists:
        target.write_text("mine\n")
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    place = at(repo, "claude", home)
    assert enter(place).left == [".claude/skills/tp"]
    assert take_out(place).left == []
    assert link.is_symlink()
    assert (target.read_text() if target.exists() else None) == ("mine\n" if exists else None)


@pytest.mark.parametrize("kind", ["folder", "pipe", "file above"])
def test_what_is_no_file_is_named_and_nothing_is_written(repo: Repo, home: Path, kind: str) -> None:
    page = repo.path / ".claude/skills/tr/SKILL.md"
    page.parent.parent.mkdir(parents=True)
    if kind == "file above":
        page.parent.write_text("")
    else:
        page.parent.mkdir()
        page.mkdir() if kind == "folder" else os.mkfifo(page)
    with pytest.raises(InvalidInput, match="cannot be read"):
        enter(at(repo, "claude", home))
    assert not (repo.path / ".claude/settings.json").exists()


def test_an_edited_page_stays_and_an_older_one_is_replaced(repo: Repo, home: Path) -> None:
    place = at(repo, "claude", home)
    enter(place)
    page, other = (repo.path / f".claude/skills/{name}/SKILL.md" for name in ("tp", "tr"))
    ours = other.read_bytes()
    page.write_text("edited\n")
    ledger = json.loads(place.ledger.read_text())
    other.write_text("an older version\n")
    ledger[place.key(other)]["after"] = installed.digest(b"an older version\n")
    place.ledger.write_text(json.dumps(ledger))
    assert install.check(place, PROGRAM) == ([f"{other} is of another version"], [str(page)])
    assert enter(place).left == [".claude/skills/tp"]
    assert (page.read_text(), other.read_bytes()) == ("edited\n", ours)
    assert take_out(place).left == [str(page)]
    assert snapshot(repo.path / ".claude") == {"skills": None, "skills/tp": None, "skills/tp/SKILL.md": b"edited\n"}


def test_a_file_that_is_no_longer_shipped_is_removed(repo: Repo, home: Path) -> None:
    place = at(repo, "claude", home)
    enter(place)
    old = repo.path / ".claude/skills/old/SKILL.md"
    repo.write(".claude/skills/old/SKILL.md", "old\n")
    ledger = json.loads(place.ledger.read_text())
    entry = {**ledger[place.key(repo.path / ".claude/skills/tp/SKILL.md")], "folders": [str(old.parent)]}
    ledger[place.key(old)] = {**entry, "after": installed.digest(b"old\n")}
    place.ledger.write_text(json.dumps(ledger))
    enter(place)
    assert not old.parent.exists()


def test_an_installation_that_was_interrupted_is_taken_back(repo: Repo, home: Path) -> None:
    repo.write("AGENTS.md", "# Mine\n")
    before = snapshot(repo.path)
    place = at(repo, "agents", home)
    plan = install.plan_install(place, PROGRAM)
    install.carry_out(place, plan._replace(edits=plan.edits[20:]))  # the ledger, and some of the files
    assert take_out(place).left == []
    assert snapshot(repo.path) == before


def test_a_block_in_agents_md_leaves_when_others_wrote_around_it(repo: Repo, home: Path) -> None:
    repo.write("AGENTS.md", "# Mine\n")
    place = at(repo, "agents", home)
    enter(place)
    page = repo.path / "AGENTS.md"
    assert page.read_text().startswith("# Mine\n\n<!-- reflectloop: begin -->\n## reflectloop\n")
    page.write_text(page.read_text() + "\nLater.\n")
    take_out(place)
    assert page.read_text() == "# Mine\n\nLater.\n"
    enter(place)
    page.write_text(page.read_text().replace("sealed copies", "copies"))
    assert take_out(place).left == [str(page)]
    assert "## reflectloop" in page.read_text()


def test_subagents_have_the_form_of_each_client(repo: Repo, home: Path) -> None:
    for client in CLIENTS:
        enter(at(repo, client, home))
    codex = tomllib.loads((repo.path / ".codex/agents/critic-evaluator.toml").read_text())
    [agent] = [agent for agent in bundle.subagents() if agent.name == "critic-evaluator"]
    assert codex == {
        "name": agent.name,
        "description": agent.description,
        "developer_instructions": agent.text,
    }
    for path in (".claude/agents/critic-evaluator.md", ".cursor/agents/critic-evaluator.md"):
        front, text = bundle.front_matter((repo.path / path).read_text())
        assert (front["name"], front["description"], text) == (agent.name, agent.description, agent.text)
    assert (repo.path / ".github/agents/critic-evaluator.agent.md").exists()


def test_the_plugin_folder_has_the_manifests_of_each_client_in_agreement(repo: Repo, home: Path) -> None:
    place = at(repo, "codex", home, "plugin")
    enter(place)
    manifests = [
        json.loads((place.root / name).read_text())
        for name in ("portable/plugin.json", ".claude-plugin/plugin.json", ".codex-plugin/plugin.json")
    ]
    shared = ("name", "version", "description", "author", "license", "keywords")
    assert all(manifest[key] == manifests[0][key] for manifest in manifests for key in shared)
    assert set(manifests[0]) == {"$schema", *shared}
    hooks = {client: (place.root / f"hooks/{client}.json").read_text() for client in ("hooks", "codex")}
    assert "--client claude" in hooks["hooks"]
    assert "--client codex" in hooks["codex"]
    assert manifests[2]["hooks"] == "./hooks/codex.json"
    assert not (place.root / "plugin.json").exists()  # Codex would load no hooks
    named = json.loads((place.root / "portable/hooks.json").read_text())["reflectloop"]
    assert named["PreToolUse"][0]["hooks"][0]["command"] == "reflectloop hook PreToolUse --client antigravity"
    assert named["Stop"][0]["command"] == "reflectloop hook Stop --client antigravity"
    servers = json.loads((place.root / ".mcp.json").read_text())["mcpServers"]
    assert servers == {"reflectloop": {"command": "reflectloop", "args": ["mcp"]}}
    assert manifests[2]["mcpServers"] == "./.mcp.json"
    assert json.loads((place.root / "portable/mcp.json").read_text())["mcpServers"]["reflectloop"]["type"] == "stdio"
    assert ".mcp.json" not in plugin.files("/a/path/reflectloop")  # no plain word, so no server
    take_out(place)
    assert not place.root.exists()


def test_the_hook_before_a_push_goes_where_git_looks_and_never_over_another(repo: Repo, home: Path) -> None:
    place = at(repo, "git", home)
    hook = repo.path / ".git/hooks/pre-push"
    enter(place)
    assert os.access(hook, os.X_OK)
    assert hook.read_text() == "#!/bin/sh\nexec reflectloop hook pre-push --client git\n"
    take_out(place)
    assert not hook.exists()
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n")
    assert enter(place).left == [str(hook)]
    assert hook.read_text() == "#!/bin/sh\nexit 0\n"
    repo.git("config", "core.hooksPath", "own")
    enter(place)
    assert (repo.path / "own/pre-push").exists()
    with pytest.raises(InvalidInput, match="in a project"):
        install.plan_install(at(repo, "git", home, "user"), PROGRAM)


def test_git_runs_the_hook_before_a_push_and_no_longer_without_it(repo: Repo, home: Path, tmp_path: Path) -> None:
    remote = tmp_path / "remote.git"
    repo.git("init", "-q", "--bare", str(remote))
    repo.git("push", "-q", str(remote), "HEAD:refs/heads/main")
    place = at(repo, "git", home)
    install.carry_out(place, install.plan_install(place, str(Path(sys.executable).parent / "reflectloop")))
    repo.write("more.py", "value = 1\n")
    repo.commit("unproven")

    def push() -> subprocess.CompletedProcess[str]:
        words = ["git", "push", "-q", str(remote), "HEAD:refs/heads/main"]
        return subprocess.run(words, cwd=repo.path, capture_output=True, text=True, check=False)

    refused = push()
    assert refused.returncode != 0
    assert "reflectloop verify" in refused.stderr
    take_out(place)
    assert push().returncode == 0


def test_the_command_names_what_it_wrote_and_what_comes_next(repo: Repo) -> None:
    shown = repo.run("install", "git", "--dry-run").stdout
    assert "pre-push (2 lines)" in shown
    done = repo.run("install", "codex", "--plugin")
    assert "codex plugin marketplace add" in done.stderr + done.stdout
    data = json.loads(repo.run("install", "codex", "--plugin", "--uninstall", "--json").stdout)["data"]
    assert data["changed"]
    assert any(name.endswith("skills/tp/SKILL.md") for name in data["files"])
    assert repo.run("install", "codex", "--plugin", "--user").code == 2
    assert "every file is there" not in repo.run("install", "agents", "--check").stdout
