"""`watch` verifies the tree while somebody edits, and says of every answer which tree it is about."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from reflectloop.cli.main import cli
from reflectloop.commands import watch, watch_status
from reflectloop.commands.watch import Watcher
from reflectloop.commands.watch_status import ENDED, LOCKED, UNCHANGED, VERIFYING
from reflectloop.engine.gating.background import TreeVerdict
from reflectloop.errors import InvalidInput, SecretLeak
from reflectloop.state import latch
from reflectloop.system import clock
from reflectloop.system.inotify import TreeWatch
from reflectloop.workspace.folders import Folders, open_project_dirs
from support import Repo, reflectloop

PASS = TreeVerdict("PASS", (), "RLOP-1", "reflectloop show RLOP-1")
REFUSED = TreeVerdict("REFUSED", ("a test fails",), "RLOP-2", "reflectloop show RLOP-2")


class Desk:
    """A verification that answers what a test wrote down, instead of running checks."""

    def __init__(self) -> None:
        self.tree = "base"
        self.verdicts: dict[str, TreeVerdict] = {}
        self.under_way = ""
        self.done: list[str] = []
        self.fault: Exception | None = None

    def __call__(self, _folders: Folders, _folder: Path) -> Desk:
        self.project = self
        self.head = "commit"
        return self

    def git(self) -> Desk:
        return self

    def line(self, *_words: str) -> str:
        return "base"

    def record(self, _head: str, _base: str) -> str:
        if self.fault:
            raise self.fault
        return self.tree

    def judged_paths(self, base: str, tree: str) -> list[str]:
        return [] if tree == base else ["a.py"]

    def known(self, _base: str, tree: str) -> TreeVerdict | None:
        return self.verdicts.get(tree)

    def running(self, tree: str) -> int | None:
        return 1 if self.under_way == tree else None

    def start(self, tree: str) -> int:
        self.under_way = tree
        self.done.append(f"start {tree}")
        return 1

    def cancel(self) -> None:
        self.done.append(f"cancel {self.under_way}")
        self.under_way = ""

    def failed(self) -> TreeVerdict:
        return TreeVerdict("NOT JUDGED", ("the verification ended without an answer",), "", "reflectloop doctor")


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    made = Desk()
    monkeypatch.setattr(watch, "BackgroundVerification", made)
    return made


@pytest.fixture
def folders(repo: Repo) -> Folders:
    opened = open_project_dirs(repo.path)
    opened.ensure_owned()
    return opened


@pytest.fixture
def watcher(folders: Folders, desk: Desk) -> Iterator[Watcher]:  # noqa: ARG001 - the watcher uses the desk
    made = Watcher(folders, lambda _pid: None)
    yield made
    made.close()


def test_an_edit_during_a_verification_makes_its_answer_old(watcher: Watcher, desk: Desk) -> None:
    assert watcher.look().state == UNCHANGED
    desk.tree = "first"
    assert watcher.look()[:4] == (VERIFYING, "first", "base", 1)
    desk.verdicts["first"] = PASS
    assert watcher.look().state == "PASS"
    desk.tree = "second"
    second = watcher.look()
    assert (second.state, second.tree, second.old) == (VERIFYING, "second", "PASS")
    desk.tree = "third"
    desk.verdicts["second"] = REFUSED  # the answer to a tree that is no longer there
    third = watcher.look()
    assert (third.state, third.tree, third.old) == (VERIFYING, "third", "PASS")
    assert desk.done[-2:] == ["cancel second", "start third"]
    desk.tree = "first"
    assert watcher.look().state == "PASS"  # known already: nothing runs again
    assert desk.done[-1] == "start third"


def test_statuses_are_told_once_and_end_with_the_answer(folders: Folders, desk: Desk) -> None:
    desk.tree = "first"
    waits: list[int | None] = []

    def wait(pid: int | None) -> None:
        waits.append(pid)
        if len(waits) == 2:
            desk.verdicts["first"] = REFUSED

    watcher = Watcher(folders, wait)
    states = [status.state for status in watcher.statuses(once=True)]
    watcher.close()
    assert states == [VERIFYING, "REFUSED"]
    assert waits == [1, 1]
    assert desk.done == ["cancel ", "start first", "cancel first"]


def test_a_verification_without_an_answer_is_not_started_again_for_the_same_tree(watcher: Watcher, desk: Desk) -> None:
    desk.tree = "first"
    watcher.look()
    desk.under_way = ""
    status = watcher.look()
    assert status.state == "NOT JUDGED"
    assert status.reasons == ("the verification ended without an answer",)
    assert watcher.look().state == "NOT JUDGED"
    assert desk.done == ["cancel ", "start first"]


def test_a_secret_in_a_file_is_reported_and_does_not_end_the_watch(watcher: Watcher, desk: Desk) -> None:
    desk.fault = SecretLeak("a.py:1 looks like a key")
    status = watcher.look()
    assert status.state == "NOT JUDGED"
    assert status.reasons == ("SECRET_LEAK: a.py:1 looks like a key",)
    desk.fault = None
    assert watcher.look().state == UNCHANGED


def test_a_locked_project_is_not_verified(watcher: Watcher, desk: Desk, folders: Folders) -> None:
    desk.tree = "first"
    watcher.look()
    reason = {"reason": "a leak", "error_code": "SECRET_LEAK", "run_id": "RLOP-3", "step_id": None}
    latch.set_stop(folders.own, latch.make(clock.now(), **reason, plan_hash="", base_tree=""))  # type: ignore[arg-type]
    status = watcher.look()
    assert (status.state, status.reasons) == (LOCKED, ("a leak",))
    assert desk.done[-1] == "cancel first"
    latch.clear_stop(folders.own)
    assert watcher.look().state == VERIFYING


def test_a_folder_that_is_gone_ends_the_watch(watcher: Watcher, folders: Folders, tmp_path: Path) -> None:
    watcher.look()
    folders.root.rename(tmp_path / "elsewhere")
    with pytest.raises(InvalidInput, match="is gone"):
        watcher.look()
    watcher.close()
    assert not folders.root.exists()


def test_a_second_watch_shows_what_the_first_finds_and_takes_over(folders: Folders, desk: Desk) -> None:
    first, second = Watcher(folders, lambda _pid: None), Watcher(folders, lambda _pid: None)
    desk.tree = "first"
    first.look()
    desk.verdicts["first"] = PASS
    found = first.look()
    assert second.look() == found
    assert [first.leads, second.leads] == [True, False]
    desk.tree = "second"
    assert second.look() == found  # it looks at nothing itself
    first.close()
    assert second.look().state == VERIFYING
    assert [first.leads, second.leads] == [False, True]
    second.close()


def test_the_status_line_shows_the_last_answer_and_whether_somebody_watches(folders: Folders, desk: Desk) -> None:
    def line(*words: str, stdin: str = "") -> str:
        return reflectloop(folders.root, "watch", "--statusline", *words, stdin=stdin).stdout

    assert line() == ""
    watcher = Watcher(folders, lambda _pid: None)
    desk.tree, desk.verdicts = "first", {"first": REFUSED}
    watcher.look()
    assert line() == "✗ REFUSED\n"
    desk.tree = "second"
    watcher.look()
    assert line() == "· verifying (REFUSED, old)\n"
    place = json.dumps({"workspace": {"current_dir": str(folders.root)}})
    asked = reflectloop(Path("/"), "watch", "--statusline=claude", stdin=place)
    assert asked.stdout == "· verifying (REFUSED, old)\n"
    watcher.close()
    assert line() == "· nobody watches\n"
    (watch_status.folder_of(folders.own) / "status.json").write_text("[1]")
    assert line() == ""


@pytest.mark.parametrize("words", [("watch",), ("watch", "--json")])
def test_ctrl_c_ends_the_watch_and_its_verification(
    folders: Folders, desk: Desk, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    desk.tree = "first"

    def interrupted(_pid: int | None) -> None:
        raise KeyboardInterrupt

    made = Watcher(folders, interrupted)
    monkeypatch.setattr(watch, "open_watcher", lambda _start: (made, TreeWatch(folders.root)))
    monkeypatch.setattr("reflectloop.cli.interrupts.as_interrupts", lambda: None)
    ended = CliRunner().invoke(cli, words)
    assert ended.exit_code == 130
    assert desk.done[-1] == "cancel first"
    last = watch_status.read(folders.own)
    assert last
    assert last.state == ENDED
    shown = ended.stdout.splitlines()
    assert (json.loads(shown[0])["state"] if "--json" in words else shown[0]).endswith(("verifying", "file(s)"))


def test_once_verifies_for_real_and_exits_as_verify_does(repo: Repo, without_probing: None) -> None:  # noqa: ARG001
    repo.git("rm", "-q", "-r", "src")
    repo.write("calc.py", "def one():\n    return 1\n")
    repo.write(
        "test_calc.py",
        "import unittest\n\nimport calc\n\n\nclass Calc(unittest.TestCase):\n"
        "    def test_one(self):\n        self.assertEqual(calc.one(), 1)\n",
    )
    repo.commit("a calculator")
    assert repo.run("watch", "--once").code == 0
    repo.write("calc.py", "def one():\n    return 2\n")
    refused = repo.run("watch", "--once", "--json")
    lines = [json.loads(line) for line in refused.stdout.splitlines()]
    assert [line["state"] for line in lines] == [VERIFYING, "REFUSED"]
    assert refused.code == repo.run("verify").code


def _change(path: Path, change: Callable[[Path], object]) -> None:
    watch_of = TreeWatch(path)
    assert watch_of.watches
    assert not watch_of.wait(0)
    change(path)
    assert watch_of.wait(10)
    watch_of.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda path: (path / "a.py").write_text("changed\n"),
        lambda path: (path / "a.py").unlink(),
        lambda path: (path / "a.py").rename(path / "b.py"),
        lambda path: (path / "a.py").chmod(0o755),
        lambda path: (path / "below/c.py").write_text("new\n"),
        lambda path: (path / ".git/logs/HEAD").write_text("a commit\n"),
    ],
)
def test_the_kernel_tells_of_every_kind_of_change(tmp_path: Path, change: Callable[[Path], object]) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / ".git/logs").mkdir(parents=True)
    (tmp_path / "a.py").write_text("a\n")
    _change(tmp_path, change)


def test_a_folder_that_was_made_meanwhile_is_watched_and_packages_are_not(tmp_path: Path) -> None:
    (tmp_path / ".git/logs").mkdir(parents=True)
    (tmp_path / "node_modules").mkdir()
    watch_of = TreeWatch(tmp_path)
    (tmp_path / "new").mkdir()
    assert watch_of.wait(10)
    (tmp_path / "new/a.py").write_text("a\n")
    assert watch_of.wait(10)
    (tmp_path / "node_modules/a.js").write_text("a\n")
    assert not watch_of.wait(0)
    watch_of.close()
