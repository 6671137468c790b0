"""A failure that happens again gets its stored fix, in the sandbox, once, and the result is counted."""

from __future__ import annotations

import json
import os
import random
import signal
import string
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from reflectloop.engine.gating import receipts
from reflectloop.engine.pipeline import run
from reflectloop.engine.run.request import NullObserver, RunOutcome, RunRequest
from reflectloop.lessons import lesson_scopes
from reflectloop.lessons.lesson import Lesson
from reflectloop.reflection import blocker_card
from reflectloop.state import journal
from reflectloop.state.fold import Task, fold
from reflectloop.workspace.folders import Folders
from support import Repo, start, wait_until

NEEDS = "cat made/{}.txt >> out.txt"
MAKE = "mkdir -p made; echo {0} > made/{0}.txt"


class Watching(NullObserver):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warning(self, step_id: str, words: str) -> None:
        self.warnings.append(f"{step_id}: {words}")


def plan(repo: Repo, name: str, *commands: str, **more: Any) -> Path:
    steps = [{"id": f"{name}-{number}", "commands": [command]} for number, command in enumerate(commands, 1)]
    return repo.plan(json.dumps({"plan": {"title": name, "track": "direct", "steps": steps, **more}}), f"{name}.yaml")


def ran(repo: Repo, path: Path, **more: Any) -> RunOutcome:
    return run(RunRequest(repo.path, path, **more))


def taught(repo: Repo, command: str, failed: str = "latest", **more: Any) -> Lesson:
    """What a person says after a run failed."""
    scope = more.pop("scope", "project")
    room = lesson_scopes.open_scopes(repo.path, scope)
    said = blocker_card.lesson_of(room.folders, failed, {"kind": "failfix", "commands": [command], **more})
    return lesson_scopes.find_lesson(room, lesson_scopes.add_lesson(room, said).id)


def known(repo: Repo, one: Lesson) -> Lesson:
    return lesson_scopes.find_lesson(lesson_scopes.open_scopes(repo.path, one.scope), one.id)


def tried(outcome: RunOutcome) -> list[tuple[str, str]]:
    return [(step.id, fix.outcome) for step in outcome.steps for fix in step.fixes]


def card(repo: Repo) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((repo.latest() / "blocker.yaml").read_text())
    return found


def task(repo: Repo) -> Task:
    own = repo.path / ".reflectloop"
    return fold(journal.read(own / "tasks" / (own / "current").read_text().strip() / "journal.jsonl"))


def failed_once(repo: Repo, name: str = "a") -> None:
    outcome = ran(repo, plan(repo, f"first-{name}", NEEDS.format(name)))
    assert outcome.error
    assert outcome.error.code == "STEP_FAILED"


# It is met with the stored fix --------------------------------------------------------------------------------------


def test_a_repeated_failure_is_fixed_by_the_stored_fix(repo: Repo) -> None:
    failed_once(repo)
    fix = taught(repo, MAKE.format("a"))
    outcome = ran(repo, plan(repo, "second", NEEDS.format("a")))
    assert outcome.error is None
    assert tried(outcome) == [("second-1", "worked")]
    (told,) = outcome.steps[0].fixes
    assert (told.lesson, told.changed) == (fix.id, ("made/a.txt",))
    assert [one.path for one in outcome.touched] == ["made/a.txt", "out.txt"]
    assert (known(repo, fix).worked, known(repo, fix).count) == (1, 2)


def test_the_result_of_a_fix_is_in_every_artifact(repo: Repo) -> None:
    failed_once(repo)
    fix = taught(repo, MAKE.format("a"))
    folder = ran(repo, plan(repo, "second", NEEDS.format("a"))).folder
    result = yaml.safe_load(folder.result.read_text())
    assert result["steps"][0]["fixes"][0]["changed"] == ["made/a.txt"]
    said = f"known fix {fix.id} tried: worked; it changed made/a.txt"
    assert said in folder.summary.read_text()
    assert said in (folder.path / "evidence.jsonl").read_text()
    assert "made/a.txt" in folder.patch.read_text()
    (event,) = next(iter(task(repo).runs.values())).fixes
    assert (event["outcome"], event["lesson"]) == ("worked", fix.id)
    assert (folder.logs / str(event["log"])).exists()
    assert [path.name for path in sorted(folder.logs.iterdir())] == [
        "second-1.1.log",
        "second-1.2.log",
        "second-1.fix1.log",
    ]
    assert receipts.checked(repo.path, None).verified.faults == []


def test_the_terminal_shows_the_stored_fix(repo: Repo) -> None:
    path = repo.steps(NEEDS.format("a"))
    assert repo.run("run", path).code == 30
    added = repo.run("lessons", "add", "--kind", "failfix", "--run", "latest", "--command", MAKE.format("a"))
    assert "made/a.txt: No such file or directory" in added.stdout
    assert "next: reflectloop retry" in added.stdout
    assert card(repo)["commands"]["teach"].startswith("reflectloop lessons add --kind failfix --run RLOP-")
    assert "known: L-" not in repo.run("status").stdout  # it was not known then
    again = repo.run("retry", "--reason", "a fix is known")
    assert again.code == 0
    assert "tried: worked" in again.stderr
    refused = repo.run("lessons", "add", "--kind", "failfix", "--command", "true")
    assert (refused.code, "--run RUN" in refused.stderr) == (2, True)


def test_two_failures_of_one_step_each_get_their_fix(repo: Repo) -> None:
    for name in "ab":
        failed_once(repo, name)
        taught(repo, MAKE.format(name))
    outcome = ran(repo, plan(repo, "both", f"{NEEDS.format('a')}; {NEEDS.format('b')}"))
    assert outcome.error is None
    assert tried(outcome) == [("both-1", "worked"), ("both-1", "worked")]


def test_a_failed_check_gets_its_fix(repo: Repo) -> None:
    checks = {"made": {"run": "cat made/a.txt"}}
    steps = [{"id": "s", "commands": ["echo x >> out.txt"], "verify": ["made"]}]

    def checked(name: str) -> Path:
        return plan(repo, name, steps=steps, checks=checks)

    assert (failed := ran(repo, checked("one")).error)
    assert failed.code == "VERIFICATION_FAILED"
    taught(repo, MAKE.format("a"))
    outcome = ran(repo, checked("two"))
    assert outcome.error is None
    assert tried(outcome) == [("s", "worked")]
    assert "+x\n" in outcome.folder.patch.read_text()
    assert "+x\n+x\n" not in outcome.folder.patch.read_text()  # the failed attempt's change was taken back


def test_a_fix_can_create_the_working_folder_of_a_step(repo: Repo) -> None:
    steps = [{"id": "s", "commands": ["echo x > x.txt"], "cwd": "deep"}]
    assert ran(repo, plan(repo, "one", steps=steps)).error
    taught(repo, "mkdir deep; echo keep > deep/.keep")
    assert ran(repo, plan(repo, "two", steps=steps)).error is None


@pytest.mark.parametrize("jobs", [1, 3])
def test_parallel_steps_are_fixed_in_their_own_workspaces(repo: Repo, jobs: int) -> None:
    failed_once(repo)
    taught(repo, MAKE.format("a"))
    commands = [f"cat made/a.txt; echo {number} > out-{number}.txt" for number in range(3)]
    outcome = ran(repo, plan(repo, "wide", *commands), jobs=jobs)
    assert outcome.error is None
    mended = 3 if jobs == 3 else 1  # one after another, the first one's fix is there for the others
    assert tried(outcome) == [(f"wide-{number}", "worked") for number in range(1, mended + 1)]
    assert {one.path for one in outcome.touched} == {"made/a.txt", "out-0.txt", "out-1.txt", "out-2.txt"}


def test_with_keep_going_an_unfixed_step_does_not_stop_others(repo: Repo) -> None:
    failed_once(repo)
    taught(repo, MAKE.format("a"))
    outcome = ran(repo, plan(repo, "mixed", "exit 7", NEEDS.format("a")), keep_going=True)
    assert outcome.error
    assert [step.success for step in outcome.steps] == [False, True]
    assert tried(outcome) == [("mixed-2", "worked")]


def test_a_lesson_of_the_user_helps_in_another_project(repo: Repo, tmp_path: Path) -> None:
    failed_once(repo)
    fix = taught(repo, MAKE.format("a"), scope="user")
    other = Repo(tmp_path / "other" / "project")
    other.path.mkdir(parents=True)
    other.git("init", "-q", "-b", "main")
    other.write("README.md", "# other\n")
    other.commit("first")
    outcome = ran(other, plan(other, "there", NEEDS.format("a")))
    assert outcome.error is None
    assert tried(outcome) == [("there-1", "worked")]
    assert known(other, fix).worked == 1
    assert not (other.path / ".reflectloop" / "knowledge").exists()


# And not otherwise --------------------------------------------------------------------------------------------------


def test_a_fix_that_stops_working_is_retired_when_its_failures_outnumber_its_successes(repo: Repo) -> None:
    failed_once(repo)
    fix = taught(repo, "test -e README.md; " + MAKE.format("a"))
    assert ran(repo, plan(repo, "p1", NEEDS.format("a"))).error is None
    repo.git("mv", "README.md", "READ.md")
    for name, status in (("p2", "active"), ("p3", "retired")):
        outcome = ran(repo, plan(repo, name, NEEDS.format("a")))
        assert outcome.error
        assert tried(outcome) == [(f"{name}-1", "failed")]
        assert known(repo, fix).status == status
    assert (known(repo, fix).worked, known(repo, fix).failed) == (1, 2)
    assert tried(ran(repo, plan(repo, "p4", NEEDS.format("a")))) == []
    assert card(repo)["known_fixes"] == []


@pytest.mark.usefixtures("copied_workspaces")
def test_a_fix_that_does_not_help_is_tried_once_and_undone(repo: Repo) -> None:
    failed_once(repo)
    taught(repo, "echo useless > useless.txt; exit 3")
    outcome = ran(repo, plan(repo, "again", "echo half > half.txt; " + NEEDS.format("a")))
    assert tried(outcome) == [("again-1", "failed")]
    assert outcome.steps[0].fixes[0].reason == "its command exited 3"
    space = next(path for path in repo.workspaces() if path.name == outcome.folder.run_id)
    assert (space / "repo" / "half.txt").exists()
    assert not (space / "repo" / "useless.txt").exists()


def test_a_contradicted_fix_is_in_conflict_shown_and_not_tried(repo: Repo) -> None:
    failed_once(repo)
    fix = taught(repo, MAKE.format("a"))
    room = lesson_scopes.open_scopes(repo.path, "project")
    lesson_scopes.add_lesson(
        room, {"kind": "constraint", "title": "made/ is generated elsewhere", "contradicts": [fix.id]}
    )
    outcome = ran(repo, plan(repo, "second", NEEDS.format("a")))
    assert outcome.error
    assert tried(outcome) == []
    (shown,) = card(repo)["known_fixes"]
    assert (shown["id"], shown["status"], shown["executable"]) == (fix.id, "conflict", False)
    assert "in dispute" in repo.run("status").stdout


def test_a_project_lesson_can_contradict_a_users_fix(repo: Repo) -> None:
    failed_once(repo)
    fix = taught(repo, MAKE.format("a"), scope="user")
    lesson_scopes.add_lesson(
        lesson_scopes.open_scopes(repo.path), {"kind": "constraint", "title": "not here", "contradicts": [fix.id]}
    )
    assert tried(ran(repo, plan(repo, "second", NEEDS.format("a")))) == []
    assert [one["executable"] for one in card(repo)["known_fixes"]] == [False]


def test_a_secret_that_a_fix_prints_stops_the_run_like_a_steps_own(repo: Repo) -> None:
    failed_once(repo)
    letters = "".join(random.Random(7).choices(string.ascii_letters + string.digits, k=36))
    taught(repo, f"printf 'ghp_%s\\n' {letters}")
    outcome = ran(repo, plan(repo, "second", NEEDS.format("a")))
    assert outcome.error
    assert outcome.error.code == "SECRET_LEAK"
    assert letters not in "".join(path.read_text() for path in outcome.folder.logs.iterdir())


def test_a_fix_that_the_policy_refuses_is_reported_and_not_run(repo: Repo) -> None:
    failed_once(repo)
    fix = taught(repo, MAKE.format("a") + "; git push --force origin main")
    outcome = ran(repo, plan(repo, "second", NEEDS.format("a")))
    assert outcome.error
    assert tried(outcome) == [("second-1", "refused")]
    assert not list(outcome.folder.logs.glob("*.fix*"))
    assert "was refused and not run" in outcome.folder.summary.read_text()
    assert (known(repo, fix).failed, known(repo, fix).status) == (0, "active")
    assert card(repo)["fixes_tried"][0]["outcome"] == "refused"


def test_inactive_or_similar_fixes_are_advice_and_never_run(repo: Repo) -> None:
    failed_once(repo)
    record = blocker_card.record_of(Folders(repo.path).find_run("latest"))
    room = lesson_scopes.open_scopes(repo.path, "project")
    lesson_scopes.add_lesson(
        room, {"kind": "failfix", "title": "in words", "signature": record.signature, "fix": "make it"}
    )
    unsure = {"signature": record.signature, "commands": [MAKE.format("a")]}
    lesson_scopes.add_lesson(room, {"kind": "failfix", "title": "seen once", **unsure})
    near = {"signature": "other", "commands": ["false"], "status": "active"}
    lesson_scopes.add_lesson(room, {"kind": "failfix", "title": "cat: made: No such file or directory", **near})
    outcome = ran(repo, plan(repo, "second", NEEDS.format("a")))
    assert tried(outcome) == []
    fixes = {one["title"]: (one["match"], one["executable"]) for one in card(repo)["known_fixes"]}
    assert fixes == {
        "in words": ("signature", False),
        "seen once": ("signature", False),
        "cat: made: No such file or directory": ("words", False),
    }


def test_the_plan_says_how_often_a_step_may_be_attempted(repo: Repo) -> None:
    failed_once(repo)
    taught(repo, "true", title="does nothing")
    taught(repo, MAKE.format("a"), title="helps")
    once = ran(repo, plan(repo, "once", NEEDS.format("a"), limits={"step_attempts": 1}))
    assert (once.error is not None, tried(once)) == (True, [])
    assert ran(repo, plan(repo, "often", NEEDS.format("a"), limits={"step_attempts": 3})).error is None


def test_a_fix_that_changes_a_read_only_step_does_not_pass_for_one(repo: Repo) -> None:
    failed_once(repo)
    taught(repo, MAKE.format("a"))
    steps = [{"id": "look", "commands": ["cat made/a.txt"], "read_only": True}]
    outcome = ran(repo, plan(repo, "reading", steps=steps))
    assert outcome.error
    assert "read_only" in outcome.error.message
    assert tried(outcome) == [("look", "other")]


def test_a_fix_that_tampers_with_a_check_is_refused_by_the_gates(repo: Repo) -> None:
    repo.write("test_it.py", "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): self.fail('red')\n")
    repo.commit("a red test")
    body = {
        "checks": {"tests": {"run": [sys.executable, "-m", "unittest", "-q"], "kind": "test"}},
        "steps": [{"id": "s", "commands": ["echo x > x.txt"], "verify": ["tests"]}],
        "track": "fix",
    }
    assert ran(repo, plan(repo, "one", **body)).error
    fix = taught(repo, "sed -i 's/self.fail(.red.)/pass/' test_it.py")
    outcome = ran(repo, plan(repo, "two", **body))
    assert outcome.error
    assert tried(outcome) == [("s", "worked")]
    assert (known(repo, fix).worked, known(repo, fix).failed) == (0, 0)


# Crashes ------------------------------------------------------------------------------------------------------------


def test_a_run_killed_during_a_fix_resumes_and_tries_it_again(repo: Repo) -> None:
    gate = repo.gate()
    began = repo.path.parent / "began"
    failed_once(repo)
    fix = taught(repo, f"echo half > half.txt; touch {began}; {gate.wait}; rm half.txt; " + MAKE.format("a"))
    engine = start(repo.path, "run", str(plan(repo, "second", NEEDS.format("a"))))
    assert wait_until(began.exists)
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    assert known(repo, fix).worked == 0
    gate.open()
    outcome = run(RunRequest(repo.path, resume=True))
    assert outcome.error is None
    assert tried(outcome) == [("second-1", "worked")]
    assert [one.path for one in outcome.touched] == ["made/a.txt", "out.txt"]
    assert (known(repo, fix).worked, known(repo, fix).failed) == (1, 0)


def test_a_run_killed_after_a_fix_counts_it_once(repo: Repo) -> None:
    failed_once(repo)
    fix = taught(repo, MAKE.format("a"))
    path = plan(repo, "second", NEEDS.format("a"), "true")
    for number, event in enumerate(("fix_tried", "step_finished"), 1):
        _killed_at(repo, path, event)
        if task(repo).runs and not task(repo).passed:
            assert run(RunRequest(repo.path, resume=True)).error is None
        (fixes,) = [one.fixes for one in task(repo).runs.values()]
        assert [one["outcome"] for one in fixes] == ["worked"]
        assert known(repo, fix).worked == number


def _killed_at(repo: Repo, path: Path, event: str) -> None:
    engine = start(repo.path, "run", "--new", str(path))
    while engine.poll() is None and _last_event(repo, path) != event:
        time.sleep(0.001)
    engine.send_signal(signal.SIGKILL)
    engine.wait()


def _last_event(repo: Repo, path: Path) -> str:
    books = (repo.path / ".reflectloop" / "tasks").glob("*/journal.jsonl")
    newest = max(books, key=lambda book: book.stat().st_mtime_ns)
    text = newest.read_text()
    last = text.rstrip("\n").rpartition("\n")[2]
    return str(json.loads(last)["kind"]) if path.name in text and text.endswith("\n") else ""


# What a run remembers -----------------------------------------------------------------------------------------------


def test_the_third_failure_of_one_kind_is_a_lack_of_capability(repo: Repo) -> None:
    path = plan(repo, "stubborn", NEEDS.format("a"))
    classes = []
    for number in range(3):
        repo.write("README.md", f"# {number}\n")
        ran(repo, path, max_retries=9)
        classes.append((card(repo)["times_seen"], card(repo)["failure"]["class"]))
    assert classes == [(1, "3.3.2"), (2, "3.3.2"), (3, "3.3.1")]
    assert ran(repo, plan(repo, "other", NEEDS.format("a"))).error
    assert card(repo)["times_seen"] == 1


@pytest.mark.parametrize(
    ("what", "said"),
    [("plan", "step grow-1 was changed from `cat made/a.txt"), ("project", "made/a.txt"), ("retry", "was put there")],
)
def test_the_change_that_made_a_task_pass_is_stored_as_advice(repo: Repo, what: str, said: str) -> None:
    path = plan(repo, "grow", NEEDS.format("a"))
    if what == "retry":
        repo.weaken()
        path = plan(repo, "grow", f"cat {repo.path.parent}/there.txt")
    assert ran(repo, path).error
    record = blocker_card.record_of(Folders(repo.path).find_run("latest"))
    if what == "plan":
        plan(repo, "grow", MAKE.format("a"))
    elif what == "project":
        repo.write("made/a.txt", "a\n")
    else:
        (repo.path.parent / "there.txt").write_text("x")
    outcome = ran(repo, path, retry_reason="it was put there" if what == "retry" else None)
    assert outcome.error is None
    (fix,) = lesson_scopes.list_lessons(lesson_scopes.open_scopes(repo.path), ["failfix"], ["candidate"]).lessons
    assert (fix.signature, fix.commands, fix.evidence.level) == (record.signature, (), "L2")
    assert said in fix.fix


# Warnings -----------------------------------------------------------------------------------------------------------


def test_warnings_of_a_step_are_shown_and_scored(repo: Repo) -> None:
    room = lesson_scopes.open_scopes(repo.path, "project")
    risk = {"title": "made folder missing in cat", "keywords": ["made", "cat"], "body": "make the folder first"}
    lesson_scopes.add_lesson(room, {"kind": "problem", "impact": True, **risk})
    watching = Watching()
    run(RunRequest(repo.path, plan(repo, "warned", NEEDS.format("a"))), watching)
    assert watching.warnings == ["warned-1: made folder missing in cat: make the folder first"]
    repo.write("made/a.txt", "a\n")
    assert run(RunRequest(repo.path, plan(repo, "fine", NEEDS.format("a"), "true")), watching).error is None
    scores = [json.loads(line) for line in (Folders(repo.path).own / "foresight.jsonl").read_text().splitlines()]
    assert [(len(score["right"]), len(score["wrong"]), score["missed"]) for score in scores] == [
        (1, 0, False),
        (0, 1, False),
    ]


def test_a_damaged_lesson_does_not_stop_a_run(repo: Repo) -> None:
    failed_once(repo)
    taught(repo, MAKE.format("a"))
    repo.write(".reflectloop/knowledge/failfix/broken.md", b"---\nkind: [\n\xff")
    (repo.path / ".reflectloop" / "cache" / "lessons").mkdir(exist_ok=True)
    for path in (repo.path / ".reflectloop" / "cache" / "lessons").glob("*.db*"):
        path.write_bytes(b"no index")
    assert ran(repo, plan(repo, "second", NEEDS.format("a"))).error is None


def test_a_project_without_lessons_loads_no_lesson_code(repo: Repo) -> None:
    path = plan(repo, "plain", "echo x > x.txt")
    code = (
        "import sys; from pathlib import Path; from reflectloop.engine.pipeline import run; from reflectloop.engine.run.request import "
        f"RunRequest; done = run(RunRequest(Path({str(repo.path)!r}), Path({str(path)!r}))); assert not done.error; "
        "print([name for name in sys.modules if name.startswith(('reflectloop.lessons', 'reflectloop.reflection', "
        "'reflectloop.engine.run.known_fixes', 'sqlite3'))])"
    )
    said = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, check=True, timeout=60)
    assert said.stdout.decode().strip() == "[]"
    assert not (repo.path / ".reflectloop" / "knowledge").exists()
    assert not (repo.path / ".reflectloop" / "foresight.jsonl").exists()
