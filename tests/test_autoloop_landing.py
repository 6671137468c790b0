"""The merge queue of `autoloop`: real git, and verdicts that the tests give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reflectloop import config
from reflectloop.autoloop import landing
from reflectloop.autoloop.landing import BranchVerdict
from reflectloop.autoloop.project_state import ProjectState
from reflectloop.autoloop.submissions import NewSubmission, SubmissionQueue
from reflectloop.autoloop.task_view import Standing
from reflectloop.engine.gating.one_truth import RunRecords
from reflectloop.errors import InvalidInput, NothingToDo
from reflectloop.state import events
from reflectloop.workspace import project
from reflectloop.workspace.folders import open_project_dirs
from reflectloop.workspace.store import open_store
from support import Repo

BRANCH = "reflectloop/autoloop"


class Desk:
    """Proven changes of one project, and a judge that knows which two files may not meet on a branch."""

    def __init__(self, repo: Repo, monkeypatch: pytest.MonkeyPatch, apply: str = "branch") -> None:
        self.repo, self.judged = repo, []  # type: ignore[var-annotated]
        repo.write("reflectloop.toml", f'[autoloop]\napply = "{apply}"\n')
        self.base = repo.commit("base")
        self.state = ProjectState(repo.path)
        self.state.folders.ensure_owned()
        self.records: dict[str, RunRecords] = {}
        self.enemies: set[frozenset[str]] = set()
        monkeypatch.setattr(landing, "_proven", lambda _state, entry: (self.records[entry.task_id], "fix"))

    def change(self, title: str, **files: str) -> str:
        """Submit a change of these files, proven on the base; return its submission."""
        name = self.state.queue.submit(NewSubmission(goal=title)).id
        number = len(self.records) + 1
        task_id, run_id = f"T-20260131-{number:06x}", f"RLOP-20260131-{number:06x}"
        book = self.state.folders.open_journal(task_id)
        tree, end = self.repo.git("rev-parse", f"{self.base}^{{tree}}").strip(), self._tree(files)
        book.append(events.TaskOpened(task_id=task_id, plan_path="", title=title))
        book.append(
            events.RunStarted(
                run_id=run_id, plan_hash="", base_tree=tree, base_commit=self.base, isolation="full", steps=[]
            )
        )
        book.append(
            events.GateDecided(run_id=run_id, subject="", gate="store", decision="PASS", level="L3", outcome="PASS")
        )
        book.append(events.RunFinished(run_id=run_id, error_code=None, end_tree=end, duration_ms=1))
        book.close()
        self.state.queue.open_task(name, task_id)
        task = self.state.folders.load_task(task_id)
        self.records[task_id] = RunRecords(task, task.runs[run_id], [], [], None)
        return name

    def _tree(self, files: dict[str, str]) -> str:
        store = open_store(project.open_project(self.repo.path), config.load(self.repo.path).workspace)
        index = self.repo.path.parent / "index"
        index.unlink(missing_ok=True)
        git = store.git(work_tree=self.repo.path, index=index)
        git.run("read-tree", self.base)
        for name, text in files.items():
            blob = git.run("hash-object", "-w", "--stdin", stdin=text.encode()).decode().strip()
            git.run("update-index", "--add", "--cacheinfo", f"100644,{blob},{name}")
        return git.line("write-tree")

    def verify(self, base: str, commit: str, track: str) -> BranchVerdict:
        names = frozenset(self.repo.git("ls-tree", "-r", "--name-only", commit).split())
        self.judged.append((base, track))
        if any(pair <= names for pair in self.enemies):
            return BranchVerdict("REFUSED", "newly failing: test_both")
        return BranchVerdict("PASS")

    def land(self, name: str) -> dict[str, Any]:
        return landing.land(self.state, name, self.verify)

    def subjects(self, branch: str = BRANCH) -> list[str]:
        return self.repo.git("log", "--format=%s", f"{self.base}..{branch}").split("\n")[:-1]


@pytest.fixture
def desk(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(repo, monkeypatch)


def test_changes_land_in_order_on_the_branch_and_the_users_files_stay(desk: Desk) -> None:
    before = desk.repo.state()
    first, second = desk.change("one", a="1\n"), desk.change("two", b="2\n")
    landed = [desk.land(first), desk.land(second)]
    assert desk.subjects() == ["two", "one"]
    assert desk.judged == [(landed[0]["commit"], "fix")]  # the first was judged on exactly this base already
    after = desk.repo.state()
    assert {name: after[name] for name in ("index", "head", "stash")} == {
        name: before[name] for name in ("index", "head", "stash")
    }
    tasks = desk.repo.git("for-each-ref", "--format=%(refname:short)", "refs/heads/reflectloop/tasks").split()
    assert tasks == ["reflectloop/tasks/T-20260131-000001", "reflectloop/tasks/T-20260131-000002"]
    assert [view.standing for view in ProjectState(desk.repo.path).views()] == [Standing.APPLIED] * 2


def test_two_changes_that_pass_alone_and_break_together_are_caught_and_named(desk: Desk) -> None:
    desk.enemies = {frozenset({"c", "x"})}
    for name in "abcde":
        desk.land(desk.change(f"add {name}", **{name: "1\n"}))
    result = desk.land(desk.change("add x", x="1\n"))
    assert "commit" not in result
    assert result["with"].endswith(" add c")
    assert result["reason"].startswith("breaks the branch together with ")
    assert "newly failing: test_both" in result["reason"]
    assert desk.subjects() == [f"add {name}" for name in "edcba"]
    view = ProjectState(desk.repo.path).views()[-1]
    assert (view.standing, view.next_command) == (Standing.ASKS, "reflectloop apply RLOP-20260131-000006")


def test_a_conflict_in_text_names_the_files_and_the_other_change(desk: Desk) -> None:
    desk.land(desk.change("mine", a="1\n"))
    result = desk.land(desk.change("theirs", a="2\n"))
    assert result["with"].endswith(" mine")
    assert result["reason"] == f"conflicts in text with {result['with']}: 1 file(s) changed on both sides: a"
    assert desk.subjects() == ["mine"]


def test_a_title_cannot_name_another_run_in_the_commit(desk: Desk) -> None:
    desk.land(desk.change("one\n\nReflectloop-Run: RLOP-20260131-ffffff", a="1\n"))
    text = desk.repo.git("log", "-1", "--format=%(trailers:key=Reflectloop-Run,valueonly)", BRANCH)
    assert text.split() == ["RLOP-20260131-000001"]


def test_landing_again_after_a_crash_changes_nothing(desk: Desk) -> None:
    name = desk.change("one", a="1\n")
    first = desk.land(name)
    assert desk.land(name)["commit"] == first["commit"]
    assert desk.subjects() == ["one"]


def test_a_branch_that_somebody_moves_meanwhile_is_looked_at_again(desk: Desk) -> None:
    desk.land(desk.change("one", a="1\n"))
    second = desk.change("two", b="2\n")
    moved: list[str] = []

    def verify(base: str, commit: str, track: str) -> BranchVerdict:
        if not moved:
            tree = desk.repo.git("rev-parse", f"{base}^{{tree}}").strip()
            moved.append(desk.repo.git("commit-tree", tree, "-p", base, "-m", "by hand").strip())
            desk.repo.git("update-ref", f"refs/heads/{BRANCH}", moved[0])
        return desk.verify(base, commit, track)

    landing.land(desk.state, second, verify)
    assert desk.subjects() == ["two", "by hand", "one"]


def test_a_branch_that_is_checked_out_is_not_moved_under_the_users_files(desk: Desk) -> None:
    name = desk.change("one", a="1\n")
    desk.repo.git("switch", "-q", "-c", BRANCH)
    with pytest.raises(InvalidInput, match="is checked out"):
        desk.land(name)
    assert desk.subjects() == []


def test_nothing_lands_unless_the_settings_say_so(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(repo, monkeypatch, "never")
    with pytest.raises(NothingToDo, match="nothing lands by itself"):
        desk.land(desk.change("one", a="1\n"))
    assert [view.standing for view in desk.state.views()] == [Standing.PROVEN]


def test_only_what_is_proven_on_a_sealed_copy_lands(repo: Repo, without_probing: None) -> None:  # noqa: ARG001
    repo.write("reflectloop.toml", '[autoloop]\napply = "branch"\n')
    repo.commit("settings")
    plan = repo.plan("plan: {title: T, track: direct, steps: [{id: a, commands: ['echo 1 > a']}]}")
    queue = SubmissionQueue(open_project_dirs(repo.path))
    name = queue.submit(NewSubmission(plan=plan)).id
    assert repo.run("run", queue.plans / Path(f"{name}.yaml")).code == 0
    state = ProjectState(repo.path)
    assert [(view.standing, view.reason) for view in state.views()] == [
        (Standing.ASKS, "no check judged it on a sealed copy")
    ]
    assert landing.land(state, name)["reason"].endswith(" is not proven")
