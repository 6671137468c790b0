"""What a step may try against the host: none of it runs there, none of it reaches outside the workspace."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from support import Repo


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a mark when anything runs it, with the place it was run in."""
    program = tmp_path / "trap.sh"
    program.write_text(f'#!/bin/sh\nreadlink /proc/self/ns/pid >> "{tmp_path}/sprung"\ncat\n')
    program.chmod(0o755)
    return program


def sprung_on_host(tmp_path: Path) -> bool:
    """Whether the trap ran outside every box; inside one, a program may run what it likes."""
    mark = tmp_path / "sprung"
    return mark.exists() and os.readlink("/proc/self/ns/pid") in mark.read_text()


ATTACKS = {
    "fsmonitor": "git config core.fsmonitor {trap}; echo x > a",
    "hooks": "for h in post-index-change pre-commit post-checkout reference-transaction; do mkdir -p .git/hooks; "
    "ln -s {trap} .git/hooks/$h; done; echo x > a",
    "filter": "git config filter.evil.clean {trap}; git config filter.evil.smudge {trap}; "
    "git config filter.evil.process {trap}; echo '* filter=evil' > .gitattributes; echo x > a; echo y > src/app.py",
    "textconv": "git config diff.evil.textconv {trap}; git config diff.evil.command {trap}; "
    "git config diff.external {trap}; echo '* diff=evil' > .gitattributes; echo y > src/app.py",
    "alternates": "echo /etc > .git/objects/info/alternates; echo x > a",
    "git file": "rm -rf .git; echo 'gitdir: {outside}' > .git; echo x > a",
    "git link": "rm -rf .git; ln -s {outside} .git; echo x > a",
    "nested repository": "git init -q sub && cd sub && git config core.fsmonitor {trap} && git config filter.e.clean {trap} && "
    "echo '* filter=e' > .gitattributes && echo x > f && git add -A && git commit -qm x && cd .. && echo x > a",
    "nested without commit": "git init -q sub && git -C sub config core.fsmonitor {trap}; echo x > a",
    "submodule": "git init -q mod && cd mod && echo x > f && git add f && git commit -qm x && "
    "git config core.fsmonitor {trap} && git config filter.e.clean {trap} && echo 'f filter=e' > .git/info/attributes && "
    "echo dirty > f && cd .. && git update-index --add --cacheinfo 160000,$(git -C mod rev-parse HEAD),mod && "
    "printf '[submodule \"mod\"]\\n\\tpath = mod\\n\\turl = ./x\\n\\tupdate = !{trap}\\n' > .gitmodules; echo x > a",
    "environment": "export GIT_DIR={outside}; echo x > a",
    "global config": "git config --global core.fsmonitor {trap}; git config --global core.hooksPath /tmp; echo x > a",
    "link out": "ln -s {outside} out; echo x > a",
}


# The policy asks about what puts such files; here it is the walls that are tried.
ALLOWED = """
[policy]
allow = ["file.puts-autorun", "autorun.git-attributes", "autorun.git-modules"]
"""


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_a_step_writes_runs_on_the_host(name: str, repo: Repo, trap: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    repo.write("reflectloop.toml", ALLOWED)
    repo.commit("settings")
    before = repo.state()
    command = ATTACKS[name].format(trap=trap, outside=outside)
    answer = repo.run("run", repo.steps(command, "echo again >> a"))
    assert answer.code == (33 if name == "link out" else 0), answer.stderr  # nobody can read what lies behind it
    for words in (["status"], ["diff"], ["show"], ["log"]):
        assert repo.run(*words).code == 0
    assert repo.state() == before
    assert [path.name for path in outside.iterdir()] == ["precious"]
    assert not sprung_on_host(tmp_path)
    assert repo.run("apply", "--yes").code == (14 if name == "link out" else 0)
    if name not in ("textconv", "link out"):
        assert (repo.path / "a").read_text() == "x\nagain\n"
    assert not sprung_on_host(tmp_path)
    assert [path.name for path in outside.iterdir()] == ["precious"]


def test_the_trap_itself_works(repo: Repo, trap: Path, tmp_path: Path) -> None:
    """Without our care it would go off: this is what makes the stories above mean something."""
    repo.git("config", "core.fsmonitor", str(trap))
    repo.git("status")
    assert sprung_on_host(tmp_path)


def test_a_submodule_made_by_a_step_is_never_entered_by_the_host(repo: Repo, trap: Path, tmp_path: Path) -> None:
    """`git add -A` would start `git status` in there, with that repository's own configuration."""
    repo.git("init", "-q", str(tmp_path / "lib"))
    lib = Repo(tmp_path / "lib")
    lib.write("f", "x\n")
    lib.commit("lib")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(lib.path), "mod")
    repo.commit("with a submodule")
    command = (
        f"git init -q mod; cd mod; git config core.fsmonitor {trap}; git config filter.e.clean {trap}; "
        "echo '* filter=e' > .git/info/attributes; echo x > f; git add f; git commit -qm x; echo dirty > f; cd ..; echo x > a"
    )
    answer = repo.run("run", repo.steps(command, "echo more >> a"))
    assert answer.code == 0, answer.stderr
    assert "submodule mod" in answer.stderr
    assert not sprung_on_host(tmp_path)


def test_a_link_made_by_one_step_does_not_lead_the_next_one_out(repo: Repo) -> None:
    plan = repo.plan(
        """
        plan:
          title: T
          steps:
            - {id: a, commands: ["ln -s /tmp way"]}
            - {id: b, commands: ["touch never"], cwd: way}
        """
    )
    answer = repo.run("run", "--json", plan)
    assert answer.code == 98
    assert "way" in answer.envelope["message"]


def test_a_link_in_the_project_that_leads_out_is_refused_before_anything_runs(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "project-evil").mkdir()
    (repo.path / "evil").symlink_to(tmp_path / "project-evil")
    repo.commit("a link")
    plan = repo.plan(
        "plan: {title: T, steps: [{id: a, commands: ['touch ran']}, {id: b, commands: ['touch x'], cwd: evil}]}"
    )
    answer = repo.run("run", "--json", plan)
    assert answer.code == 98
    assert answer.json["data"]["steps"] == []
    assert repo.workspaces() == []


def test_a_sibling_whose_name_begins_alike_is_outside(repo: Repo) -> None:
    """By path components, not by text: `repo-evil` begins with `repo`."""
    plan = repo.steps("mkdir ../repo-evil && ln -s ../repo-evil way", "true")
    text = plan.read_text().replace('"id": "P-2",', '"id": "P-2", "cwd": "way",')
    plan.write_text(text)
    assert repo.run("run", plan).code == 98


@pytest.mark.usefixtures("copied_workspaces")
def test_a_step_that_removes_its_workspace_is_told_apart_from_success(repo: Repo) -> None:
    repo.weaken()
    answer = repo.run("run", repo.steps('rm -rf "$PWD"'))
    assert answer.code == 30
    assert "it removed the workspace" in answer.stderr


def test_unreadable_leavings_are_named_or_cleared(repo: Repo) -> None:
    assert repo.run("run", repo.steps("mkdir -p locked/in && touch locked/in/x && chmod 000 locked; exit 1")).code == 30
    assert repo.run("gc", "--all").code == 0
    assert repo.workspaces() == []


def test_terminal_escapes_do_not_reach_a_persons_terminal(repo: Repo) -> None:
    answer = repo.run("run", repo.steps("printf '\\033]0;owned\\007\\033[2J'; exit 1"))
    assert answer.code == 30
    assert "\x1b]0;" not in answer.stderr


def test_the_workspace_folder_is_private(repo: Repo) -> None:
    assert repo.run("run", repo.steps("false")).code == 30
    (kept,) = repo.workspaces()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


FAKE = "#!/bin/sh\nreadlink /proc/self/ns/pid >> {mark}\nexit 0\n"


def test_a_tool_of_the_engine_is_not_looked_up_in_the_workspace(repo: Repo, tmp_path: Path) -> None:
    """Neither by a relative entry in the caller's PATH nor by the PATH a step asks for."""
    fake = FAKE.format(mark=tmp_path / "sprung")
    plant = (
        "mkdir -p bin; for n in git bwrap sh setpriv; do printf '%s' \"$F\" > bin/$n; chmod +x bin/$n; done; echo x > a"
    )
    plan = repo.plan(
        json.dumps(
            {
                "plan": {
                    "title": "T",
                    "track": "direct",
                    "steps": [
                        {"id": "a", "commands": [plant], "env": {"F": fake}},
                        {"id": "b", "commands": ["exit 7"], "env": {"PATH": "bin:/usr/bin:/bin"}},
                    ],
                }
            }
        )
    )
    answer = repo.run("run", "--json", plan, env={"PATH": f"bin:{os.environ['PATH']}:"})
    assert answer.code == 30
    assert answer.json["data"]["steps"][1]["exit_code"] == 7
    assert not sprung_on_host(tmp_path)


def test_a_steps_environment_does_not_reach_the_jailer(repo: Repo, tmp_path: Path) -> None:
    plan = repo.steps(
        ["/bin/true"], env={"PATH": "/nonexistent", "LD_PRELOAD": str(tmp_path / "none.so"), "SECRET_X": "v"}
    )
    assert repo.run("run", plan).code == 0


@pytest.mark.parametrize("target", ["nowhere", "moved"])
def test_a_folder_that_becomes_a_link_is_recorded(repo: Repo, target: str) -> None:
    command = (
        "mv src moved; "
        + ("echo more >> moved/app.py; " if target == "moved" else "rm -r moved; ")
        + f"ln -s {target} src"
    )
    assert repo.run("run", repo.steps(command)).code == 0
    assert repo.run("apply", "--yes").code == 0
    assert (repo.path / "src").is_symlink()
    assert repo.run("run", repo.steps("readlink src")).code == 0


def test_our_own_folder_never_comes_out_of_a_workspace(repo: Repo) -> None:
    answer = repo.run(
        "run", "--json", repo.steps("ln -s /etc .reflectloop; mkdir -p .claude; echo x > .claude/state; echo x > n")
    )
    assert answer.code == 0
    assert [change["path"] for change in answer.json["data"]["touched_files"]] == ["n"]


def test_a_link_where_our_folder_should_be_is_not_followed(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (repo.path / ".reflectloop").symlink_to(tmp_path / "elsewhere")
    for words in (["run", str(repo.steps("true"))], ["gc"], ["status"], ["init"]):
        assert repo.run(*words).code == 12
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    "command", ["mkfifo .gitignore", "mkfifo .gitattributes; echo x > n", "mkdir q; mkfifo q/.gitignore; echo x > q/n"]
)
def test_a_pipe_where_git_reads_its_rules_does_not_hang_us(repo: Repo, command: str) -> None:
    answer = repo.run("run", "--json", repo.steps(command))
    assert answer.code == 30
    assert "not a file" in answer.envelope["message"]


def test_control_sequences_that_hide_in_each_other_are_taken_out(repo: Repo) -> None:
    command = "printf 'A\\033[2\\000J B\\033[?1049\\001h C\\033[31mred\\033[0m D\\033[31\\007;5H\\033[3\\nJ\\n'; exit 1"
    plan = repo.plan(
        json.dumps(
            {
                "plan": {
                    "title": "T\u001b[2J",
                    "steps": [{"id": "a", "title": "t\u001b]0;x\u0007", "commands": [command]}],
                }
            }
        )
    )
    answer = repo.run("run", plan)
    assert answer.code == 30
    left = answer.stderr.replace("\x1b[31m", "").replace("\x1b[0m", "")
    assert "\x1b" not in left


def test_a_secret_written_and_removed_again_is_still_a_leak(repo: Repo) -> None:
    key = "sk-" + "h1g2f3d4s5a6q7w8"
    leak = f"K={key[:6]}; echo key = ${{K}}{key[6:]} > conf.ini"
    for commands in ((leak, "rm conf.ini"), (f"{leak}; exit 1",), (f'K={key[:6]}; touch "k=${{K}}{key[6:]}"',)):
        assert repo.run("run", repo.steps(*commands)).code == 99
        assert repo.workspaces() == []
        assert repo.run("unlock", "--reason", "a test").code == 0
        found = subprocess.run(["grep", "-raF", key, str(repo.path / ".reflectloop")], capture_output=True, check=False)
        assert found.stdout == b""


def ship(repo: Repo, tmp_path: Path, name: str, content: str) -> Repo:
    """A clone of a project that brings a file of its own in our folder."""
    repo.write(f".reflectloop/{name}", content)
    repo.git("add", "-f", ".reflectloop")
    repo.git("commit", "-q", "-m", "shipped")
    repo.git("clone", "-q", str(repo.path), str(tmp_path / "victim"))
    return Repo(tmp_path / "victim")


def test_a_shipped_unfinished_apply_is_not_finished(repo: Repo, tmp_path: Path) -> None:
    tree = repo.git("rev-parse", "HEAD^{tree}").strip()
    repo.write(".reflectloop/tmp/apply.saved/0", "#!/bin/sh\necho owned\n")
    repo.write(".reflectloop/tmp/apply.saved/1", "planted\n")
    victim = ship(repo, tmp_path, "tmp/apply.saved/manifest", f"{tree}\0.git/hooks/post-commit\0../planted")
    assert victim.run("run", victim.steps("true")).code == 0
    assert not (victim.path / ".git" / "hooks" / "post-commit").exists()
    assert not (tmp_path / "planted").exists()


def test_an_unfinished_apply_that_names_strange_places_is_refused(repo: Repo, tmp_path: Path) -> None:
    assert repo.run("run", repo.steps("true")).code == 0
    tree = repo.git("rev-parse", "HEAD^{tree}").strip()
    (repo.path / "way").symlink_to(tmp_path)
    for name in (".git/hooks/post-commit", "../planted", "way/planted", "a//b", ".GIT/config"):
        repo.write(".reflectloop/tmp/apply.saved/0", "planted\n")
        repo.write(".reflectloop/tmp/apply.saved/manifest", f"{tree}\0{name}")
        assert repo.run("run", repo.steps("true")).code == 51
        assert not (tmp_path / "planted").exists()
    assert not (repo.path / ".git/hooks/post-commit").exists()


def test_a_shipped_record_of_a_workspace_removes_nothing(repo: Repo, tmp_path: Path) -> None:
    precious = tmp_path / "RLOP-20260101-abcdef"
    (precious / "repo").mkdir(parents=True)
    (precious / "repo" / "mine").write_text("mine")
    for fate in ("at work", "kept", "warm"):
        record = {"name": precious.name, "folder": str(precious), "pid": 1, "born": 5, "fate": fate}
        victim = ship(repo, tmp_path / fate, f"workspaces/{precious.name}/workspace.json", json.dumps(record))
        assert victim.run("run", victim.steps("true")).code == 0
        assert victim.run("gc", "--all").code == 0
        assert (precious / "repo" / "mine").read_text() == "mine"
        repo.git("reset", "-q", "--hard", "HEAD~1")


SWAPS = {
    "repo": "cd ..; mv repo repo.old; ln -s {victim} repo",
    "folder": "cd ..; F=$(pwd); cd ..; mv $F $F.old; ln -s {victim} $F",
}


@pytest.mark.usefixtures("copied_workspaces")
@pytest.mark.parametrize("name", SWAPS)
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_workspace_swapped_for_a_link_stops_everything(name: str, jobs: str, repo: Repo, tmp_path: Path) -> None:
    repo.weaken()
    victim = tmp_path / "victim"
    (victim / "repo").mkdir(parents=True)
    (victim / "home").mkdir()
    for place in ("mine", "repo/mine", "home/mine"):
        (victim / place).write_text("mine")
    steps = [
        {"id": "a", "commands": [SWAPS[name].format(victim=victim)]},
        {"id": "b", "commands": ["sleep 0.5; echo b > b.txt"]},
        {"id": "c", "commands": ["echo c > c.txt"], "depends_on": ["b"]},
    ]
    plan = repo.plan(json.dumps({"plan": {"title": "T", "track": "direct", "steps": steps}}))
    answer = repo.run("run", "--json", "--keep-going", "--jobs", jobs, plan)
    assert answer.code == 98, answer.stdout
    assert repo.run("unlock", "--reason", "a test").code == 0
    assert repo.run("run", repo.steps("echo x > y")).code == 0
    assert repo.run("gc", "--all").code == 0
    found = sorted(str(path.relative_to(victim)) for path in victim.rglob("*"))
    assert found == ["home", "home/mine", "mine", "repo", "repo/mine"]


def test_links_inside_our_folder_are_not_followed(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (repo.path / ".reflectloop").mkdir()
    for name in ("runs", "git", "tmp", "workspaces"):
        (repo.path / ".reflectloop" / name).symlink_to(tmp_path / "elsewhere")
        assert repo.run("run", repo.steps("true")).code == 12
        (repo.path / ".reflectloop" / name).unlink()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_views_are_not_published_through_a_link(repo: Repo, tmp_path: Path) -> None:
    repo.write("reflectloop.toml", "[publish]\nclaude = true\n")
    (tmp_path / "elsewhere").mkdir()
    (repo.path / ".claude").mkdir()
    (repo.path / ".claude" / "state").symlink_to(tmp_path / "elsewhere")
    answer = repo.run("run", repo.steps("true"))
    assert answer.code == 0
    assert "nothing was published" in answer.stderr
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_what_stands_in_the_way_of_publishing_does_not_spoil_a_run(repo: Repo) -> None:
    repo.write("reflectloop.toml", "[publish]\nclaude = true\n")
    (repo.path / ".claude/state/reflectloop/reflectloop.latest.yaml").mkdir(parents=True)
    answer = repo.run("run", repo.steps("true"))
    assert answer.code == 0
    assert "not all was published" in answer.stderr
    assert (repo.latest() / "envelope.yaml").exists()


@pytest.mark.parametrize("name", ["current", "latest", "lock", "latch.json", "open"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "bytes", "traversal"])
def test_damage_to_our_small_files_is_survived_or_said(name: str, kind: str, repo: Repo) -> None:
    assert repo.run("run", repo.steps("false")).code == 30
    path = repo.path / ".reflectloop" / name
    if name == "open":
        (path,) = path.iterdir()
    path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"\xff\xfe" if kind == "bytes" else b"../../../etc")
    for words in (["status"], ["show"], ["route"], ["gc"], ["run", str(repo.steps("true"))]):
        answer = repo.run(*words)
        assert answer.code != 70, (words, answer.stderr)
