"""Workspaces that are mounted over a shared layer give the same trees and patches as those that are copies."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from both_workspaces import KINDS, apart, fresh_layers, layer_folder, on_both, opened, recorded, require_overlay
from reflectloop.config import WorkspaceConfig
from reflectloop.demo import project as demo
from reflectloop.errors import SandboxCreateFailed
from reflectloop.system import overlay
from reflectloop.workspace import checkout, layer_removal, layers, project, snapshot, workspace_registry
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.store import open_store
from support import Repo, start, wait_until


@pytest.fixture(autouse=True)
def _needs_overlay(tmp_path: Path) -> None:
    require_overlay(tmp_path / "home")


@pytest.fixture
def tree(repo: Repo) -> Repo:
    for name in ("a.txt", "src/one.py", "src/two.py", "src/deep/three.py", "docs/page.md", "lib/x/y/z.txt"):
        repo.write(name, f"content of {name}\n")
    repo.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    repo.write(".gitignore", "*.log\nbuild/\n")
    (repo.path / "link").symlink_to("src/one.py")
    repo.commit("a tree")
    return repo


def _remove_and_make_again(repo: Path) -> None:
    shutil.rmtree(repo / "src")
    (repo / "src").mkdir()
    (repo / "src" / "new.py").write_text("new\n")


def _rename_folders(repo: Path) -> None:
    (repo / "src").rename(repo / "source")
    (repo / "lib" / "x").rename(repo / "source" / "x")
    (repo / "source" / "x" / "y" / "z.txt").write_text("moved and changed\n")


def _link(repo: Path) -> None:
    os.link(repo / "a.txt", repo / "b.txt")
    with (repo / "b.txt").open("a") as file:
        file.write("through the other name\n")


def _change_modes_and_links(repo: Path) -> None:
    (repo / "run.sh").chmod(0o644)
    (repo / "a.txt").chmod(0o755)
    (repo / "link").unlink()
    (repo / "link").symlink_to("a.txt")
    (repo / "docs").chmod(0o700)


def _make_special_files(repo: Path) -> None:
    os.mkfifo(repo / "src" / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(repo, os.O_PATH)
        listener.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
    (repo / "src" / "one.py").write_text("beside them\n")


def _swap_kinds(repo: Path) -> None:
    shutil.rmtree(repo / "docs")
    (repo / "docs").write_text("a file now\n")
    (repo / "a.txt").unlink()
    (repo / "a.txt").mkdir()
    (repo / "a.txt" / "inside").write_text("a folder now\n")
    shutil.rmtree(repo / "lib")
    (repo / "lib").symlink_to("src")


def _write_ignored(repo: Path) -> None:
    (repo / "build").mkdir()
    (repo / "build" / "out").write_text("built\n")
    (repo / "src" / "a.log").write_text("noise\n")
    (repo / "src" / "one.py").write_text("and a change\n")


def _keep_times(repo: Path) -> None:
    path = repo / "a.txt"
    before = path.stat()
    path.write_text(path.read_text().swapcase())  # of the same size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.setxattr(repo / "src" / "one.py", "user.note", b"only an attribute")


@pytest.mark.parametrize(
    "change",
    [
        lambda repo: (repo / "a.txt").unlink(),
        lambda repo: shutil.rmtree(repo / "src" / "deep"),
        lambda repo: (repo / ".gitignore").rename(repo / "ignored.txt"),  # a file that git reads
        _remove_and_make_again,
        _rename_folders,
        _link,
        _change_modes_and_links,
        _make_special_files,
        _swap_kinds,
        _write_ignored,
        _keep_times,
    ],
)
def test_a_change_is_recorded_the_same_in_both_kinds(tree: Repo, change: Callable[[Path], object]) -> None:
    on_both(tree, recorded(change))


NAMES = [
    "a.txt",
    "src/one.py",
    "src/two.py",
    "src/deep/three.py",
    "lib/x/y/z.txt",
    "new",
    "src/new",
    "other/new",
    "n.log",
]
FOLDERS = ["src", "src/deep", "docs", "lib/x", "other", "fresh/one", "build"]


def _act(repo: Path, chance: random.Random) -> None:
    """Do something that a command may do; what is not possible now is skipped."""
    first, second = repo / chance.choice(NAMES), repo / chance.choice(NAMES)
    folder, target = repo / chance.choice(FOLDERS), repo / chance.choice(FOLDERS)
    kind = chance.randrange(11)
    text = f"{chance.random()}\n"
    acts: list[Callable[[], object]] = [
        lambda: first.write_text(text),
        lambda: first.write_text(text),
        first.unlink,
        lambda: first.rename(second),
        lambda: os.link(first, second),
        lambda: first.chmod(0o755 if chance.random() < 0.5 else 0o644),
        lambda: first.symlink_to("a.txt"),
        lambda: folder.mkdir(parents=True),
        lambda: shutil.rmtree(folder),
        lambda: folder.rename(target),
        lambda: (folder / "inside").write_text(text),
    ]
    with suppress(OSError, shutil.Error):
        acts[kind]()


def _play(space: Workspace, seeds: range) -> list[str]:
    trees = []
    for seed in seeds:
        chance = random.Random(seed)
        for _ in range(4):
            for _ in range(chance.randrange(1, 6)):
                _act(space.repo, chance)
            trees.append(space.record(thorough=chance.random() < 0.3).tree)
            if chance.random() < 0.3:
                space.step_back(chance.choice([space.base_tree, *trees[-2:]]))
        space.reset_to(chance.choice([space.base_tree, trees[-1]]))
        trees.append(space.record(thorough=True).tree)
        space.reset_to(space.base_tree)
    return trees


def test_any_sequence_of_file_operations_gives_the_same_trees_in_both_kinds(tree: Repo) -> None:
    trees = on_both(tree, lambda space: _play(space, range(6)))
    assert len({*trees}) > len(trees) // 2


def test_a_dirty_project_is_laid_over_the_layer_of_its_base(tree: Repo) -> None:
    on_both(tree, recorded(lambda _: None))
    tree.write("a.txt", "mine, not committed\n")
    tree.write("untracked.txt", "mine\n")
    (tree.path / "docs" / "page.md").unlink()

    def work(space: Workspace) -> list[str]:
        assert (space.repo / "a.txt").read_text() == "mine, not committed\n"
        assert not (space.repo / "docs" / "page.md").exists()
        if space.over:
            assert space.over.layer.tree != space.base_tree
        return recorded(lambda repo: (repo / "untracked.txt").unlink())(space)

    on_both(tree, work)


def _reshape(repo: Path) -> None:
    """Let files, folders and links take each other's place, in the user's own tree."""
    shutil.rmtree(repo / "docs")
    (repo / "docs").write_text("a file now\n")
    (repo / "a.txt").unlink()
    (repo / "a.txt").mkdir()
    (repo / "a.txt" / "below.txt").write_text("a folder now\n")
    (repo / "link").unlink()
    (repo / "link").write_text("no link now\r\n")
    shutil.rmtree(repo / "src" / "deep")
    (repo / "src" / "deep").symlink_to("one.py")
    shutil.rmtree(repo / "lib" / "x" / "y")
    (repo / "run.sh").chmod(0o644)


@pytest.mark.parametrize("attributes", [None, "link text eol=crlf\n"])
def test_what_the_user_changed_is_laid_over_a_layer_as_a_checkout_would_write_it(
    tree: Repo, attributes: str | None
) -> None:
    on_both(tree, recorded(lambda _: None))
    _reshape(tree.path)
    if attributes:
        tree.write(".gitattributes", attributes)

    def files_of(space: Workspace) -> list[list[Any]]:
        paths = [path for path in sorted(space.repo.rglob("*")) if ".git" not in path.parts]
        return [
            [path.name, oct(path.lstat().st_mode), path.is_file() and path.read_bytes().decode("latin-1")]
            for path in paths
        ]

    def work(space: Workspace) -> list[Any]:
        laid = files_of(space)
        index = space.engine_dir / "workspace-index"
        shutil.copy2(space.repo / ".git" / "index", index)
        listed = space.store.git(work_tree=space.repo, index=index).run("ls-files", "-z", "-s", "-m").decode()
        (space.repo / "docs").unlink()
        space.reset_to(space.base_tree)
        assert files_of(space) == laid
        return [laid, listed, recorded(lambda repo: (repo / "a.txt" / "below.txt").write_text("changed\n"))(space)]

    on_both(tree, work)


def test_two_workspaces_on_one_layer_see_nothing_of_each_other(tree: Repo) -> None:
    def work() -> list[bool]:
        with opened(tree, "auto", "aaaaaa") as first, opened(tree, "auto", "bbbbbb") as second:
            assert first.over
            assert second.over
            assert first.over.layer.folder == second.over.layer.folder
            (first.repo / "a.txt").write_text("first\n")
            (second.repo / "src" / "one.py").unlink()
            changed = [space.record().changed for space in (first, second)]
            return [
                *changed,
                (second.repo / "a.txt").read_text() == "first\n",
                (first.repo / "src" / "one.py").exists(),
            ]

    assert apart(work) == [True, True, False, True]


def test_a_workspace_is_removed_only_when_no_sandbox_is_being_built(tree: Repo) -> None:
    """bubblewrap reads the table of mounts and sets each of them; one that is renamed meanwhile makes it fail."""

    def work() -> list[bool]:
        with opened(tree, "auto", "aaaaaa"), opened(tree, "auto", "bbbbbb") as second:
            entry = workspace_registry.find(project.open_project(tree.path).folder, second.name)
            assert entry is not None
            second.close()
            remover = threading.Thread(target=workspace_registry.remove, args=[entry])
            with overlay.alone():
                remover.start()
                remover.join(0.5)
                waited = remover.is_alive() and second.folder.exists()
            remover.join()
            workspace_registry.register(entry.engine_dir.parent.parent, entry.name, entry.folder)
            mounted = os.fspath(second.repo) in Path("/proc/self/mounts").read_text()
            return [waited, second.folder.exists(), mounted]

    assert apart(work) == [True, False, False]


def test_a_reset_leaves_what_git_does_not_reset_and_nothing_else(tree: Repo) -> None:
    def work(space: Workspace) -> list[str]:
        (space.repo / ".git" / "note").write_text("stays, as in a copy")
        (space.repo / "src").rename(space.repo / "moved")
        (space.repo / "build").mkdir()
        (space.repo / "build" / "out").write_text("goes")
        os.mkfifo(space.repo / "pipe")
        space.repo.chmod(0)
        space.reset_to(space.base_tree)
        names = [str(path.relative_to(space.repo)) for path in space.repo.rglob("*") if ".git/" not in f"{path}/"]
        return [*sorted(names), (space.repo / ".git" / "note").read_text(), space.record(thorough=True).tree]

    on_both(tree, work)


@pytest.mark.parametrize("lost", ["src/one.py", "src", "."])
def test_files_that_vanish_from_a_layer_are_never_recorded_as_deleted(tree: Repo, lost: str) -> None:
    def work() -> str:
        with opened(tree, "auto") as space:
            subprocess.run(["rm", "-rf", layer_folder() / "files" / lost], check=False)
            (space.repo / "src").mkdir(exist_ok=True)
            (space.repo / "src" / "two.py").write_text("changed\n")
            if lost == "src/one.py":
                return space.record(thorough=True).tree
            with pytest.raises(SandboxCreateFailed, match="outside of the run"):
                space.record()
            return ""

    damaged = apart(work)
    whole = on_both(
        tree, lambda space: recorded(lambda repo: (repo / "src" / "two.py").write_text("changed\n"))(space)[0]
    )
    assert damaged in ("", whole)


def test_a_damaged_file_of_a_layer_enters_no_patch(tree: Repo) -> None:
    def work() -> None:
        with opened(tree, "auto") as space:
            (layer_folder() / "files" / "a.txt").write_text("damaged\n")
            with (space.repo / "a.txt").open("a") as file:
                file.write("by a command\n")
            with pytest.raises(SandboxCreateFailed, match="outside of the run"):
                space.record()

    apart(work)


@pytest.mark.parametrize("many", [1, 20_000])  # so many files and more are compared by two calls of git
@pytest.mark.parametrize("damaged", ["a.txt", "another.txt"])
def test_a_layer_is_compared_with_its_tree_before_a_fresh_workspace_stands_on_it(
    tree: Repo, monkeypatch: pytest.MonkeyPatch, many: int, damaged: str
) -> None:
    def work() -> list[str]:
        with opened(tree, "auto"):
            pass
        (layer_folder() / "files" / damaged).write_text("damaged\n")
        with opened(tree, "auto", "bbbbbb", fresh=fresh_layers(tree)) as space:
            return [path.read_text() for path in (space.repo / "a.txt", space.repo / "another.txt") if path.exists()]

    monkeypatch.setattr(layers, "_MANY_FILES", many)
    assert apart(work) == ["content of a.txt\n"]


def test_fresh_workspaces_of_a_tree_are_the_same_and_share_nothing_that_a_command_writes(tree: Repo) -> None:
    def seen(repo: Path) -> list[Any]:
        files = sorted(
            path.relative_to(repo) for path in repo.rglob("*") if ".git" not in path.parts[len(repo.parts) :]
        )
        status = subprocess.run(["git", "diff-files"], cwd=repo, check=True, capture_output=True, text=True)
        index = subprocess.run(["git", "ls-files", "-s"], cwd=repo, check=True, capture_output=True, text=True)
        return [[[str(path), (repo / path).lstat().st_mode] for path in files], status.stdout, index.stdout]

    def work(kind: str) -> list[Any]:
        fresh = fresh_layers(tree)
        with opened(tree, kind):
            pass
        tree.write("a.txt", "of the patch\n")
        tree.write("src/new/four.py", "new\n")
        (tree.path / "src" / "one.py").unlink()
        shutil.rmtree(tree.path / "docs")
        tree.write("docs", "now a file\n")
        answers: list[Any] = []
        with opened(tree, kind, "bbbbbb", fresh=fresh) as first, opened(tree, kind, "cccccc", fresh=fresh) as second:
            answers.append(seen(first.repo))
            (first.repo / "a.txt").write_text("by a command\n")
            (first.repo / "src" / "new" / "four.py").unlink()
            (first.repo / ".git" / "index").unlink()
            answers.append(seen(second.repo))
        with opened(tree, kind, "dddddd", fresh=fresh) as third:
            answers += [seen(third.repo), (third.repo / "a.txt").read_text()]
        fresh.close()
        tree.git("checkout", "-q", ".")
        tree.git("clean", "-fdq")
        return answers

    answers = [apart(lambda kind=kind: work(kind)) for kind in KINDS]  # type: ignore[misc]
    assert answers[0] == answers[1]
    assert answers[0][0] == answers[0][1] == answers[0][2]
    assert answers[0][3] == "of the patch\n"


def test_a_layer_that_is_changed_during_a_verification_is_noticed_at_its_end(tree: Repo) -> None:
    def work() -> list[bool]:
        fresh, sure = fresh_layers(tree), []
        store = open_store(project.open_project(tree.path))
        for name in ("bbbbbb", "cccccc"):
            with opened(tree, "auto", name, fresh=fresh):
                sure.append(fresh.is_sure)
        fresh.compare_again(store)
        sure.append(fresh.is_sure)
        with opened(tree, "auto", "dddddd", fresh=fresh):
            (layer_folder() / "files" / "a.txt").write_text("damaged\n")
        with pytest.raises(SandboxCreateFailed, match="outside of the verification"):
            fresh.compare_again(store)
        fresh.close()
        with opened(tree, "auto", "eeeeee") as space:
            sure.append((space.repo / "a.txt").read_text() == "content of a.txt\n")
        return sure

    assert apart(work) == [False, False, True, True]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fresh_workspace_gets_the_objects_that_head_lacks_and_no_others(tree: Repo, kind: str) -> None:
    tree.write("src/deep/three.py", "of the patch\n")

    def work() -> int:
        fresh = fresh_layers(tree)
        with opened(tree, kind, fresh=fresh) as space:
            git = ["git", "-C", os.fspath(space.repo)]
            subprocess.run([*git, "rev-list", "--objects", "HEAD"], check=True, capture_output=True)
            (pack,) = (space.repo / ".git" / "objects" / "pack").glob("*.idx")
            names = subprocess.run(["git", "show-index"], stdin=pack.open(), check=True, capture_output=True).stdout
        fresh.close()
        return len(names.splitlines())

    assert apart(work) == 5  # the commit, three folders and the file


def test_a_layer_that_is_half_made_is_not_used_and_is_collected(tree: Repo) -> None:
    def work() -> list[str]:
        with opened(tree, "auto"):
            home = layer_folder().parent
        (home / ".part-killed").mkdir()
        layer_removal.remove_unused(tree.path / ".reflectloop", tree.path, 10**9)
        assert wait_until(lambda: not list(home.glob(".*")))
        names = [path.name for path in home.iterdir()]
        with opened(tree, "auto", "cccccc"):
            layer_removal.remove_unused(tree.path / ".reflectloop", tree.path, 0)  # in use
            names += [path.name for path in home.iterdir()]
        layer_removal.remove_unused(tree.path / ".reflectloop", tree.path, 0)
        assert wait_until(lambda: not any(folders or names for _, folders, names in os.walk(home)))
        return names

    names = apart(work)
    assert len(names) == 2
    assert names[0] == names[1]


def test_a_workspace_whose_git_folder_was_removed_can_be_reset(tree: Repo) -> None:
    def work(space: Workspace) -> list[Any]:
        shutil.rmtree(space.repo / ".git")
        (space.repo / "a.txt").write_text("changed\n")
        space.reset_to(space.base_tree)
        return [(space.repo / "a.txt").read_text(), (space.repo / ".git").exists(), space.record().tree]

    on_both(tree, work)


def test_a_library_call_leaves_the_mounts_of_its_process_alone(tree: Repo) -> None:
    def work() -> bool:
        mine = os.readlink("/proc/self/ns/mnt")
        with overlay.kept_out(), opened(tree, "auto", "bbbbbb", copied=True):
            pass
        kept = os.readlink("/proc/self/ns/mnt") == mine
        with opened(tree, "auto"):
            return kept

    assert apart(work)


def test_a_process_with_threads_gets_a_copy(tree: Repo) -> None:
    def work() -> bool:
        done = threading.Event()
        beside = threading.Thread(target=done.wait)
        beside.start()
        try:
            with opened(tree, "auto", copied=True) as space:
                return (space.repo / "a.txt").exists()
        finally:
            done.set()
            beside.join()

    assert apart(work)


def test_a_disk_without_room_for_a_layer_gets_a_copy(tree: Repo, tmp_path: Path) -> None:
    def work() -> bool:
        found = project.open_project(tree.path)
        small = tmp_path / "small"
        small.mkdir(mode=0o700)
        assert overlay.enter() is None
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=700", "tmpfs", str(small)], check=True)
        settings = WorkspaceConfig(overlay="auto")
        store = open_store(found, settings)
        base = snapshot.take_snapshot(found, store, Folders(found.root).scratch)
        space = checkout.create(found, store, base, name="RLOP-20260101-abcdef", root=small, carry=settings)
        return space.over is None and (space.repo / "big").stat().st_size == 2_000_000

    tree.write("big", bytes(range(250)) * 8_000)
    tree.commit("more than half of the disk")
    assert apart(work)


def test_an_engine_that_is_killed_leaves_no_mount_and_nothing_that_gc_misses(tree: Repo) -> None:
    gate = tree.path.parent / "gate"
    plan = tree.steps(f"echo one > a.txt; mv src moved; echo begun > {gate}; sleep 100")
    (tree.path / "reflectloop.toml").write_text('[box]\nstrongest = "workspace"\n')
    tree.commit("settings")
    engine = start(tree.path, "run", str(plan))
    assert wait_until(gate.exists)
    assert "layers-" not in Path("/proc/mounts").read_text()
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    tree.no_process_left()
    assert str(tree.path.parent) not in Path("/proc/mounts").read_text()
    assert tree.run("gc", "--all").code == 0
    left = Path(os.environ["TMPDIR"], "reflectloop")
    assert wait_until(lambda: not list(left.iterdir()))


def test_the_demo_removes_a_workspace_that_is_still_mounted() -> None:
    def played() -> bool:
        with demo.opened() as stage:
            for name in ("lower", "upper", "work", "sandbox/kept/repo"):
                (stage / name).mkdir(parents=True)
            assert overlay.enter() is None
            overlay.mount([stage / "lower"], stage / "upper", stage / "work", stage / "sandbox/kept/repo")
        return stage.exists()

    assert apart(played) is False


def test_a_kept_workspace_can_be_looked_at_as_the_run_left_it(tree: Repo) -> None:
    assert tree.run("run", tree.steps("mv src moved; rm a.txt; echo evidence > evidence; false")).code == 30
    shown = tree.run("shell", "--", "sh", "-c", "ls; cat evidence; test ! -e a.txt && ls moved")
    assert shown.code == 0, shown.stderr
    assert "evidence" in shown.stdout
    assert "three.py" not in shown.stdout
    assert "deep" in shown.stdout


def test_runs_side_by_side_stand_on_layers_also_if_no_workspace_was_made_before_them(repo: Repo) -> None:
    repo.git("rm", "-q", "-r", "src")
    repo.write("calc.py", "def one():\n    return 1\n")
    head = "import unittest\n\nimport calc\n\nclass Calc(unittest.TestCase):\n    def test_one(self):\n"
    body = "        mounts = open('/proc/self/mountinfo').read()\n        self.assertIn(' - overlay ', mounts)\n"
    repo.write("test_calc.py", f"{head}{body}        self.assertEqual(calc.one(), 1)\n")
    repo.commit("a calculator")
    for number in (1, 2):  # the second time the results of base are remembered
        repo.write("calc.py", f"def one():\n    return {number} // {number}\n")
        answer = repo.run("verify", "--json")
        assert answer.json["data"]["outcome"] == "PASS", answer.stdout


def test_the_setting_off_makes_copies(tree: Repo) -> None:
    (tree.path / "reflectloop.toml").write_text('[workspace]\noverlay = "off"\n')
    tree.commit("settings")
    assert tree.run("run", tree.steps("grep -c overlay /proc/self/mountinfo || true; echo x > a.txt")).code == 0
    assert not list(Path(os.environ["TMPDIR"], "reflectloop").glob("layers-*"))


def test_commands_cannot_reach_the_layer(tree: Repo) -> None:
    assert (
        tree.run("run", tree.steps("grep ' overlay ' /proc/self/mountinfo | grep -c layers- && exit 1; true")).code == 0
    )
    assert stat.S_IMODE(layer_folder().parent.stat().st_mode) == 0o700
