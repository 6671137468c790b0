"""What a command can see, reach and use up, at each level this machine gives."""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from boxes import HELD, full, log, name_of, needs_landlock, without_bubblewrap
from reflectloop.sandbox import escape_tests, isolation, toolchains
from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.system import cgroup, landlock, process, seccomp
from reflectloop.terms import Isolation
from support import PROGRAM, Repo

CONTROL = escape_tests.ESCAPE_TESTS[0]


def test_doctor_proves_every_level_by_escape_tests(repo: Repo) -> None:
    """The only test that runs every attempt at every level; the others need a few of them."""
    answer = repo.run("doctor", "--json")
    assert answer.code == 0, answer.stdout
    data = answer.json["data"]
    assert data["isolation"] == isolation.supported_levels()[0].level
    assert [(level["level"], level["by"]) for level in data["levels"]] == [
        (wall.level, wall.by) for wall in isolation.supported_levels()
    ]
    for level in data["levels"]:
        rank = Isolation(level["level"]).rank
        promised = [test.name for test in escape_tests.ESCAPE_TESTS if test.since.rank <= rank]
        assert {name: level["held"][name] for name in promised} == dict.fromkeys(promised, True), level
        assert level["proven"]
        assert level["untried"] == {}


def test_the_escapes_succeed_without_isolation() -> None:
    """Otherwise they would prove nothing."""
    (Path(os.environ["HOME"]) / "diary").write_text("mine")
    tried = escape_tests.run_escape_tests(IsolationLevel(Isolation.WORKSPACE, "nothing"))
    escaped = [
        one.name
        for one in escape_tests.ESCAPE_TESTS
        if one.since is not Isolation.WORKSPACE and not tried.prevented[one.name]
    ]
    assert escaped == [one.name for one in escape_tests.ESCAPE_TESTS if one.since.rank > Isolation.WORKSPACE.rank]


def test_a_sandbox_in_which_nothing_runs_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert not escape_tests.run_escape_tests(isolation.supported_levels()[0], [CONTROL]).proven


def test_doctor_reports_whether_the_required_level_is_reached(repo: Repo) -> None:
    repo.write("reflectloop.toml", '[box]\nisolation = "full"\nstrongest = "workspace"\n')
    below = repo.run("doctor")
    assert below.code == 1
    assert "isolation reached: workspace" in below.stdout
    assert "floor: full" in below.stdout


@full
def test_doctor_says_which_attempts_could_not_be_made(repo: Repo, tmp_path: Path) -> None:
    """A bwrap that passes every probe, and then fails to start commands."""
    fails = "case \"$*\" in *--json-status-fd*) echo 'out of luck' >&2; exit 1;; esac"
    repo.weaken()
    answer = repo.run("doctor", env=_path_with_bwrap(tmp_path, f'{fails}\nexec {shutil.which("bwrap")} "$@"'))
    assert answer.code == 1
    assert "not tried" in answer.stdout
    assert "! workspace by bubblewrap: could not try to leave a process behind" in answer.stdout
    assert "out of luck" in answer.stdout
    assert "isolation reached: none" in answer.stdout
    assert "GOT OUT" not in answer.stdout


@pytest.mark.parametrize("wall", HELD, ids=name_of)
def test_a_command_leaves_no_zombie(wall: IsolationLevel) -> None:
    """Dead ones count against the limit on processes of whatever runs next."""
    before = {*process.descendants(os.getpid())}
    assert escape_tests.run_escape_tests(wall, [CONTROL]).proven
    assert {*process.descendants(os.getpid())} <= before


@full
def test_the_workspace_is_mounted_at_the_projects_path_and_hides_the_project(repo: Repo) -> None:
    repo.write(".gitignore", "private.txt\n")
    repo.write("private.txt", "mine\n")
    before = repo.state()
    answer = repo.run("run", "--json", repo.steps("pwd; ls; cat private.txt || echo changed > src/app.py"))
    assert answer.code == 0, answer.stdout
    assert log(repo).splitlines()[:3] == [str(repo.path), "README.md", "src"]
    assert "mine" not in log(repo)
    assert repo.state() == before
    assert answer.envelope["isolation"] == "full"
    assert answer.envelope["isolation_by"] == "bubblewrap"


@full
def test_history_and_tags_are_there_and_branches_of_the_user_are_not(repo: Repo) -> None:
    repo.git("tag", "v1")
    repo.git("branch", "precious")
    assert (
        repo.run(
            "run", repo.steps("git describe --tags; git log --oneline | wc -l; git branch; git fsck --no-dangling")
        ).code
        == 0
    )
    assert "v1" in log(repo)
    assert "precious" not in log(repo)


@full
def test_a_step_has_no_network_but_a_loopback_of_its_own(repo: Repo) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    reach = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
    own = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname(), 2); print('own')"

    def answer_once() -> None:
        server.accept()[0].close()

    threading.Thread(target=answer_once, daemon=True).start()
    plan = repo.steps(f'python3 -c "{own}"; python3 -c "{reach}"')
    answer = repo.run("run", "--json", plan)
    assert answer.code == 30
    assert log(repo).startswith("own\n")
    assert "Connection refused" in log(repo)
    opened = repo.run("run", "--json", repo.steps(f'python3 -c "{reach}"', network="host"))
    assert opened.code == 0, opened.stdout
    assert opened.envelope["isolation"] == "full+net"
    server.close()


@full
def test_a_step_with_network_does_not_reach_level_full(repo: Repo) -> None:
    answer = repo.run("run", "--json", "--isolation", "full", repo.steps("true", network="host"))
    assert answer.code == 20
    assert "P-1" in answer.envelope["message"]


def test_network_none_is_refused_if_it_cannot_be_enforced(repo: Repo) -> None:
    repo.weaken()
    answer = repo.run("run", "--json", repo.steps("true", network="none"))
    assert answer.code == 20
    assert answer.envelope["missing_inputs"] == ["network:none"]


@full
def test_root_in_the_sandbox_has_no_capabilities(repo: Repo) -> None:
    command = (
        "grep CapEff /proc/self/status; mount -o remount,rw /usr || true; "
        "(cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern) || echo refused; cat /etc/shadow | wc -l"
    )
    repo.write(
        "reflectloop.toml",
        '[policy]\nallow = ["disk.unmount", "file.reads-private", "shell.writes-system", "machine.mounts-over"]\n',
    )
    assert repo.run("run", repo.steps(command)).code in (0, 30)
    assert "CapEff:\t0000000000000000" in log(repo)
    assert "refused" in log(repo)
    assert log(repo).endswith(("\n0\n", "Permission denied\n0\n"))


@full
@pytest.mark.parametrize(
    ("limit", "command", "words"),
    [
        ("memory_mb = 128", "python3 -c 'x = bytearray(1 << 30)'", "memory (128 MB)"),
        ("processes = 32", "for i in $(seq 100); do sleep 5 & done; wait", "processes (32)"),
        ("disk_mb = 8", "for i in $(seq 9); do head -c 4000000 /dev/zero > f$i; sleep 0.2; done", "disk space (8 MB)"),
        ("file_mb = 4", "head -c 9000000 /dev/zero > big", "file size (4 MB)"),
    ],
)
def test_a_command_that_uses_too_much_is_reported_with_the_limit(
    limit: str, command: str, words: str, repo: Repo
) -> None:
    repo.write("reflectloop.toml", f"[box]\n{limit}\n")
    answer = repo.run("run", "--json", repo.steps(command))
    assert answer.code == 30
    assert f"reached the limit on {words}" in answer.envelope["message"]
    assert answer.envelope["limits_by"] in ("cgroup", "rlimit", "watchdog")


@pytest.mark.parametrize("wall", [*HELD[:1], *(wall for wall in HELD if wall.by == "landlock")], ids=name_of)
def test_limits_hold_without_control_groups(wall: IsolationLevel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "make", lambda *_: None)
    tests = [test for test in escape_tests.ESCAPE_TESTS if test.holds in escape_tests.USE_UP]
    tried = escape_tests.run_escape_tests(wall, [CONTROL, *tests, CONTROL])
    assert tried.limits_by in ("rlimit", "watchdog")
    assert tried.prevented == {CONTROL.name: True, **{test.name: True for test in tests}}


def test_a_control_group_is_made_beside_ours_in_a_unified_hierarchy(tmp_path: Path) -> None:
    """The layout of a delegated user session; the files are what the kernel would put there."""
    (tmp_path / "user.slice/app.slice/shell.scope").mkdir(parents=True)
    own = tmp_path / "own"
    own.write_text("0::/user.slice/app.slice/shell.scope\n")
    found = cgroup._parents(tmp_path, own.read_text())
    assert [parent["pids"] for parent in found][:2] == [tmp_path / "user.slice/app.slice", tmp_path / "user.slice"]
    assert (
        cgroup.make("x", cgroup.CgroupLimits(1, 1), root=tmp_path, own_groups=own) is None
    )  # no controller was handed down
    assert list((tmp_path / "user.slice/app.slice").iterdir()) == [tmp_path / "user.slice/app.slice/shell.scope"]


@full
def test_a_command_is_in_its_control_group_from_the_first(repo: Repo) -> None:
    answer = repo.run("run", "--json", repo.steps("cat /proc/self/cgroup"))
    if answer.envelope["limits_by"] != "cgroup":
        pytest.skip("no control group can be made here")
    assert "/run-" in log(repo)


def test_the_engine_stays_out_of_the_control_group_that_it_starts_commands_in() -> None:
    group = cgroup.make("births", cgroup.CgroupLimits(1 << 30, 100))
    if group is None:
        pytest.skip("no control group can be made here")
    before = Path("/proc/thread-self/cgroup").read_text()
    try:
        with group.entered():
            child = subprocess.Popen(["sleep", "60"])
        group.admit(child.pid)
        assert Path("/proc/thread-self/cgroup").read_text() == before
        joined = Path("/proc", str(child.pid), "cgroup").read_text()
        assert sum("/run-" in line for line in joined.splitlines()) in (1, 2)  # one hierarchy, or two
        child.kill()
        child.wait()
    finally:
        group.close()


@needs_landlock
def test_without_bubblewrap_landlock_gives_fs(repo: Repo, tmp_path: Path) -> None:
    env = without_bubblewrap(tmp_path)
    (Path(os.environ["HOME"]) / "diary").write_text("mine")
    steps = repo.steps(
        f"echo made > made; cat {os.environ['HOME']}/diary; cat {repo.path}/README.md; touch {tmp_path}/evil"
    )
    answer = repo.run("run", "--json", steps, env=env)
    assert answer.code == 30
    assert answer.envelope["isolation"] == "fs"
    assert answer.envelope["isolation_by"] == "landlock"
    assert log(repo).count("Permission denied") == 1  # the first one ends the command
    assert "mine" not in log(repo)
    assert repo.run("run", repo.steps("echo x > y", "test -f y"), env=env).code == 0
    refused = repo.run("run", "--json", "--isolation", "full", repo.steps("true"), env=env)
    assert refused.code == 20
    assert "bubblewrap is not installed" in refused.envelope["message"]
    offline = repo.run("run", repo.steps("python3 -c 'import socket; socket.socket()'", network="none"), env=env)
    assert offline.code == 30
    assert "not supported" in log(repo)


def _environment(repo: Repo, link: str) -> None:
    """A virtual environment with an editable install of the project, by path file or by import hook."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(repo.path / ".venv")], check=True)
    (site,) = (repo.path / ".venv").glob("lib/python3*/site-packages")
    if link == "path file":
        (site / "__editable__.sample.pth").write_text(f"{repo.path}/src\n")
    else:
        (site / "__editable___sample_finder.py").write_text(
            f"import sys, importlib.util as u\nMAPPING = {{'sample': '{repo.path}/src/sample.py'}}\n"
            "class Finder:\n    @classmethod\n    def find_spec(cls, name, path=None, target=None):\n"
            "        return u.spec_from_file_location(name, MAPPING[name]) if name in MAPPING else None\n"
            "sys.meta_path.append(Finder)\n"
        )
        (site / "__editable__.sample.pth").write_text("import __editable___sample_finder\n")


@full
@pytest.mark.parametrize("link", ["path file", "import hook"])
def test_an_editable_install_resolves_to_the_workspace(link: str, repo: Repo, tmp_path: Path) -> None:
    repo.write("src/sample.py", "def answer(): return 'original'\n")
    repo.write(".gitignore", ".venv/\n")
    repo.commit("a package")
    _environment(repo, link)
    change = "echo \"def answer(): return 'changed'\" > src/sample.py"
    plan = repo.steps(change, ".venv/bin/python -c 'import sample; print(sample.answer(), sample.__file__)'")
    answer = repo.run("run", plan)
    assert answer.code == 0, answer.stderr
    assert log(repo, "P-2.1") == f"changed {repo.path}/src/sample.py\n"
    assert "original" in (repo.path / "src/sample.py").read_text()
    refused = repo.run("run", "--json", "--new", plan, env=without_bubblewrap(tmp_path))
    assert refused.code == 20
    assert "__editable__" in refused.envelope["message"]
    assert refused.envelope["missing_inputs"] == ["mount-namespace"]


@full
def test_linked_packages_of_a_node_workspace_resolve_to_the_workspace(repo: Repo) -> None:
    repo.write("packages/a/index.js", "module.exports = 'original'\n")
    repo.write(".gitignore", "node_modules/\n")
    repo.commit("a workspace")
    (repo.path / "node_modules").mkdir()
    (repo.path / "node_modules" / "a").symlink_to("../packages/a")
    (repo.path / "node_modules" / "b").symlink_to(repo.path / "packages/a")
    change = "echo \"module.exports = 'changed'\" > packages/a/index.js"
    assert repo.run("run", repo.steps(change, "cat node_modules/a/index.js node_modules/b/index.js")).code == 0
    assert log(repo, "P-2.1").count("changed") == 2


@full
def test_what_is_carried_can_be_read_and_not_written(repo: Repo) -> None:
    repo.write(".gitignore", "node_modules/\n")
    repo.commit("ignore")
    repo.write("node_modules/x.js", "x\n")
    assert repo.run("run", repo.steps("cat node_modules/x.js; echo evil > node_modules/x.js")).code == 30
    assert log(repo).startswith("x\n")
    assert "Read-only" in log(repo)
    assert (repo.path / "node_modules/x.js").read_text() == "x\n"


@full
def test_more_folders_can_be_shown_by_settings(repo: Repo, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "wheel").write_text("cached\n")
    plan = repo.steps(f"cat {cache}/wheel")
    assert repo.run("run", plan).code == 30
    repo.write("reflectloop.toml", f"[box]\nread = [{json.dumps(str(cache))}]\n")
    assert repo.run("run", plan).code == 0
    assert log(repo) == "cached\n"


def test_a_folder_that_contains_a_home_is_never_readable_as_tools(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / ".cargo/bin").mkdir(parents=True)
    (home / ".cargo/credentials.toml").write_text("x")
    caller = {"PATH": f"{home}/bin:{home}/.cargo/bin", "VIRTUAL_ENV": str(home), "NVM_DIR": "/"}
    shown = toolchains.readable_tools(caller, home)
    assert home not in shown
    assert Path("/") not in shown
    assert home / "bin" in shown
    assert not any((home / ".cargo/credentials.toml").is_relative_to(path) for path in shown)


def test_a_filter_refuses_sockets_with_names_and_lets_pairs_pass() -> None:
    if not seccomp.known() or landlock.refusal() is not None:
        pytest.skip("no filters on this machine")
    thread = landlock.restricted_thread(landlock.LandlockRules(read=(Path("/"),), write=(), network=False))
    try:
        for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
            with pytest.raises(OSError, match="not supported"):
                thread.call(functools.partial(socket.socket, family))
        for end in thread.call(socket.socketpair):
            end.close()
    finally:
        thread.close()
    socket.socket(socket.AF_INET).close()  # only that thread was shut in


def test_the_limits_of_bubblewrap_are_detected_by_trying(tmp_path: Path, repo: Repo) -> None:
    """A bwrap that fails is not taken for one that works."""
    repo.weaken()
    env = _path_with_bwrap(tmp_path, "echo 'setting up uid map: Permission denied' >&2; exit 1")
    answer = repo.run("doctor", "--json", env=env)
    (found,) = (one for one in answer.json["data"]["findings"] if one["name"] == "bubblewrap")
    assert "Permission denied" in found["detail"]
    assert [level["by"] for level in answer.json["data"]["levels"]] == ["nothing"]


def _path_with_bwrap(tmp_path: Path, script: str) -> dict[str, str]:
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
    (fake / "bwrap").chmod(0o755)
    return {"PATH": f"{fake}:{os.environ['PATH']}"}


@full
def test_a_command_leads_a_group_of_its_own(repo: Repo) -> None:
    """A program that signals its group reaches itself, not the jailer."""
    command = (
        "import os, signal\nsignal.signal(signal.SIGTERM, lambda *_: print('heard', flush=True))\n"
        "os.killpg(os.getpgid(0), signal.SIGTERM)\nprint(os.getsid(0) > 0)"
    )
    assert repo.run("run", repo.steps(["python3", "-c", command])).code == 0
    assert log(repo) == "heard\nTrue\n"


def test_signals_that_the_engine_was_told_to_ignore_reach_commands(repo: Repo) -> None:
    plan = repo.steps(
        "python3 -c 'import signal; print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGHUP))'"
    )
    ignoring = "import os, signal, sys\nfor n in (1, 2, 3): signal.signal(n, signal.SIG_IGN)\nos.execv(sys.argv[1], sys.argv[1:])"
    subprocess.run([sys.executable, "-c", ignoring, *PROGRAM, "run", str(plan)], cwd=repo.path, check=True)
    assert "SIG_IGN" not in log(repo)


@full
def test_input_cannot_be_injected_into_a_terminal(repo: Repo) -> None:
    script = (
        "import fcntl, os, pty\nparent, child = pty.openpty()\n"
        "for call in (0x5412, 0x541C):\n"
        "    try: fcntl.ioctl(child, call, b'x')\n    except OSError as fault: print(fault.errno)\n"
        "fcntl.ioctl(child, 0x5413, bytes(8)); print('size')"
    )
    assert repo.run("run", repo.steps(["python3", "-c", script])).code == 0
    assert log(repo) == "1\n1\nsize\n"


@full
@pytest.mark.parametrize(
    "trick",
    [
        "mkdir -p ~/.cargo/bin; mv ~/.cargo ~/was; ln -s /oldroot{outside} ~/.cargo",
        "mkdir -p sub; mv sub was; ln -s /oldroot{outside} sub",
    ],
    ids=["under HOME", "in the workspace"],
)
def test_a_link_at_a_mount_point_is_no_escape(trick: str, repo: Repo, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (Path(os.environ["HOME"]) / ".cargo/bin").mkdir(parents=True)
    repo.write(".gitignore", "node_modules/\n")
    repo.commit("ignore")
    repo.write("sub/node_modules/x.js", "x\n")
    repo.write("reflectloop.toml", '[workspace]\ncarry = ["sub/node_modules"]\n')
    answer = repo.run("run", "--json", repo.steps(trick.format(outside=outside), "true"))
    assert answer.code == 98, answer.stdout
    assert list(outside.iterdir()) == []


def test_the_engine_follows_no_link_in_the_workspaces_git(repo: Repo, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "HEAD").write_text("key = sk-" + "q1w2e3r4t5y6u7i8o9p0\n")
    assert (
        repo.run("run", repo.steps(f"rm -rf .git/logs; ln -s {outside} .git/logs", "mkfifo .git/MERGE_MSG")).code == 0
    )
    assert repo.run("run", repo.steps(f"rm -rf .git; ln -s {outside} .git")).code == 0


def test_a_home_is_recognised_under_any_path(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    (real / "bin").mkdir(parents=True)
    (real / "lib").mkdir()
    link.symlink_to(real)
    for home, caller in ((link, {"PATH": f"{real}/bin"}), (real, {"VIRTUAL_ENV": str(link)})):
        shown = toolchains.readable_tools(caller, home)
        assert real not in [path.resolve() for path in shown]


@full
def test_only_known_families_of_sockets_can_be_made(repo: Repo) -> None:
    script = "import socket\nfor f in (1, 2, 10, 40, 31):\n    try: socket.socket(f).close(); print(f)\n    except OSError: pass"
    assert repo.run("run", repo.steps(["python3", "-c", script])).code == 0
    assert log(repo).split() == ["1", "2", "10"]


@full
def test_a_project_under_the_other_temp_folder_is_seen_there(tmp_path: Path) -> None:
    stage = Path("/var/tmp") / f"reflectloop-test-{os.getpid()}-{tmp_path.parent.name}"
    repo = Repo(stage / "project")
    try:
        repo.write("a", "a\n")
        answer = repo.run("run", "--json", repo.steps("pwd; echo x > /var/tmp/y; cat /tmp/y"))
        assert answer.code == 0, answer.stdout
        assert log(repo) == f"{repo.path}\nx\n"
    finally:
        shutil.rmtree(stage)
