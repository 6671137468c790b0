"""What a set-up or a check leaves behind leads a later check, or the engine, nowhere outside the workspace."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from boxes import without_bubblewrap
from reflectloop.system import landlock
from reflectloop.verification.setup import stays_inside
from support import Answer, Repo

pytestmark = pytest.mark.usefixtures("without_probing")

SETTINGS = """
[verify]
setup = [["sh", "setup.sh"]]
checks = [{name = "look", run = ["sh", "check.sh"], kind = "custom"}]
"""
KEY = "the private key of the user"


class Machine(NamedTuple):
    """The user's HOME with something private in it, and the environment of a command."""

    home: Path
    env: dict[str, str]

    def verify(self, repo: Repo) -> Answer:
        return repo.run("verify", "--json", env=self.env)


@pytest.fixture(params=["bubblewrap", "landlock"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    """A machine with bubblewrap, and one without."""
    if request.param == "landlock" and landlock.refusal() is not None:
        pytest.skip("this kernel has no Landlock")
    home = tmp_path / "user"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_test").write_text(KEY + "\n")
    env = without_bubblewrap(tmp_path) if request.param == "landlock" else {}
    return Machine(home, {**env, "HOME": os.fspath(home)})


def set_up(repo: Repo, machine: Machine, made: str, check: str) -> Answer:
    """Judge a change of a project with this set-up and this check."""
    repo.write("setup.sh", f"{made}\n")
    repo.write("check.sh", f"{check}\n")
    repo.write("reflectloop.toml", SETTINGS)
    repo.write(".gitignore", "deps\n.venv\nlinks\n")
    repo.commit("a set-up")
    repo.write("README.md", "# changed\n")
    return machine.verify(repo)


def stored(repo: Repo) -> bytes:
    """All that the engine keeps, but for what git packed."""
    kept = [path for path in (repo.path / ".reflectloop").rglob("*") if path.is_file() and not path.is_symlink()]
    return b"\n".join(path.read_bytes() for path in kept)


def test_a_set_up_that_leaves_a_link_out_of_the_project_is_refused(repo: Repo, machine: Machine) -> None:
    done = set_up(repo, machine, f"ln -s {machine.home}/.ssh deps", "cat deps/id_test; true")
    assert done.envelope["error_code"] == "VERIFICATION_FAILED"
    assert "deps is a link out of the project" in done.envelope["message"]
    assert KEY.encode() not in stored(repo)


def test_a_set_up_that_leaves_a_pipe_where_git_reads_is_refused(repo: Repo, machine: Machine) -> None:
    done = set_up(repo, machine, "mkdir -p deps/.git && mkfifo deps/.git/HEAD", "true")
    assert done.envelope["error_code"] == "VERIFICATION_FAILED"
    assert "deps/.git/HEAD would hold git up" in done.envelope["message"]


def test_a_link_left_by_a_set_up_does_not_lead_out_of_the_sandbox(repo: Repo, machine: Machine) -> None:
    made = f"mkdir -p deps && touch deps/one && ln -s {machine.home}/.ssh deps/more"
    done = set_up(repo, machine, made, "test -f deps/one && ! cat deps/more/id_test")
    assert done.code == 0, done.stdout
    assert KEY.encode() not in stored(repo)


def test_an_environment_left_by_a_set_up_makes_nothing_of_home_readable(repo: Repo, machine: Machine) -> None:
    made = f"mkdir -p .venv/bin && touch .venv/pyvenv.cfg && ln -s {machine.home}/.ssh/a/b .venv/bin/python"
    done = set_up(repo, machine, made, f"test -f .venv/pyvenv.cfg && ! cat {machine.home}/.ssh/id_test")
    assert done.code == 0, done.stdout
    assert KEY.encode() not in stored(repo)


def test_a_link_within_the_project_works_as_the_set_up_left_it(repo: Repo, machine: Machine) -> None:
    made = "mkdir -p deps && echo made > deps/one && mkdir -p links && ln -s ../deps links/deps"
    done = set_up(repo, machine, made, 'test "$(cat links/deps/one)" = made')
    assert done.code == 0, done.stdout


@pytest.mark.parametrize(
    ("name", "target", "inside"),
    [
        ("a", "b", True),
        ("a/b", "../c", True),
        ("a/b", "../../c", False),
        ("a", "..", False),
        ("a", "/etc", False),
        ("a", "b/../../c", False),
        ("a", ".", True),
    ],
)
def test_a_link_is_checked_by_its_text(name: str, target: str, inside: bool) -> None:
    assert stays_inside(name, target) is inside


def test_reports_are_not_read_through_a_link_above_them(repo: Repo, machine: Machine) -> None:
    other = machine.home / "other" / "surefire-reports"
    other.mkdir(parents=True)
    (other / "TEST-other.xml").write_text(
        '<testsuite name="Other" tests="1"><testcase classname="Other" name="of_another_project"/></testsuite>'
    )
    repo.write("pom.xml", "<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId></project>\n")
    repo.write("src/test/java/ATest.java", "class ATest {}\n")
    repo.write("mvnw", f"#!/bin/sh\nrm -rf target\nln -s {other.parent} target\nexit 0\n").chmod(0o755)
    repo.commit("a project")
    repo.write("README.md", "# changed\n")
    done = machine.verify(repo)
    assert done.code == 53, done.stdout
    assert b"of_another_project" not in stored(repo)


def test_a_tracked_link_to_dependencies_is_not_carried(repo: Repo, machine: Machine) -> None:
    repo.write(
        "reflectloop.toml",
        '[[verify.checks]]\nname = "look"\nkind = "custom"\ncwd = "part"\nrun = ["sh", "-c", "! cat node_modules/id_test"]\n',
    )
    repo.write("part/package.json", "{}\n")
    (repo.path / "part" / "node_modules").symlink_to(machine.home / ".ssh")
    repo.git("add", "-Af")
    repo.git("commit", "-qm", "a link")
    repo.write("README.md", "# changed\n")
    done = machine.verify(repo)
    assert KEY.encode() not in stored(repo)
    assert done.code == 0, done.stdout


def test_an_untracked_link_out_of_the_project_to_no_dependencies_is_not_carried(repo: Repo, machine: Machine) -> None:
    look = 'run = ["sh", "-c", "! cat node_modules/id_test"]'
    repo.write("reflectloop.toml", f'[[verify.checks]]\nname = "look"\nkind = "custom"\ncwd = "part"\n{look}\n')
    repo.write("part/package.json", "{}\n")
    repo.write(".gitignore", "node_modules\n")
    repo.commit("a part")
    (repo.path / "part" / "node_modules").symlink_to(machine.home / ".ssh")
    repo.write("README.md", "# changed\n")
    done = machine.verify(repo)
    assert done.code == 0, done.stdout
    assert KEY.encode() not in stored(repo)
    assert any("part/node_modules leads to no folder" in warning for warning in done.envelope["warnings"])


def test_the_set_up_of_one_change_is_not_used_for_another(repo: Repo, machine: Machine) -> None:
    """The set-up installs what the change under judgement says: a later change with the same lock file gets its own."""
    repo.write("requirements.txt", "one==1\n")
    repo.write("install.sh", "echo honest\n")
    set_up(repo, machine, "mkdir -p deps; sh install.sh > deps/by", 'grep -q honest "$PWD/deps/by"')
    repo.commit("honest")
    repo.write("requirements.txt", "one==2\n")
    repo.write("install.sh", "echo poisoned\n")
    assert machine.verify(repo).code != 0
    repo.write("install.sh", "echo honest\n")
    assert machine.verify(repo).envelope["error_code"] != "VERIFICATION_FAILED"


def test_a_change_of_the_installer_alone_uses_the_installation_of_base(repo: Repo, machine: Machine) -> None:
    repo.write("install.sh", "echo honest\n")
    set_up(repo, machine, "mkdir -p deps; sh install.sh > deps/by", 'grep -q honest "$PWD/deps/by"')
    repo.commit("honest")
    repo.write("install.sh", "echo poisoned\n")
    assert machine.verify(repo).code == 0
