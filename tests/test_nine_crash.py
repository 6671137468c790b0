"""The nine steps when their engine is killed, and when a person steers: finished steps stay, half ones never were."""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest

from reflectloop.commands import route, task_control, task_status
from reflectloop.errors import InvalidInput, NeedsInput, NothingToDo
from reflectloop.state import events
from reflectloop.state.fold import StepState
from scripted_task import BROKEN, CHECK, DESIGN, DONE, PASSES, RIGHT, Crew
from support import Repo, start, wait_until
from warm import Engine

pytestmark = pytest.mark.usefixtures("without_probing")

# Where a command in the box would not see a gate open, there is none.
OPEN = '[box]\nstrongest = "workspace"\n'
FIRST = {"title": "Note it", "commands": ["echo noted >> notes.txt"], "checks": ["test -s notes.txt"]}
PLAN: dict[str, Any] = {
    "role": "planner",
    "says": "Make a plan",
    "answer": {**DESIGN, "steps": [FIRST, *DESIGN["steps"]]},
}
WRONG = {**DONE, "approach": "a comment"}
# Another agent, which remembers nothing of the one before and works with hands of its own.
OTHER = """
import json, pathlib, sys
json.load(sys.stdin)
pathlib.Path("calc.py").write_text({right!r})
print(json.dumps({{"data": {done!r}}}))
"""


class Scene(Crew):
    """A task of two steps, and a place where whoever is told to waits for its end."""

    @property
    def hold(self) -> str:
        """Says that it is here, and stays."""
        folder = self.repo.path.parent
        return f"touch {folder}/here; while [ ! -e {folder}/gate ]; do sleep 0.02; done"

    def begin(self, *entries: dict[str, Any]) -> Scene:
        self.plays(*entries, PLAN, settings=OPEN)
        self.plan()
        return self

    def killed(self) -> None:
        """An engine that comes as far as the hold, and no further."""
        engine = self.engine()
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        (self.repo.path.parent / "here").unlink()

    def engine(self) -> Engine:
        engine = start(self.repo.path, "tr", "--all")
        here = self.repo.path.parent / "here"
        assert wait_until(lambda: here.exists() or engine.poll() is not None)
        assert engine.poll() is None, engine.ended().stderr.decode()
        return engine

    def let_go(self) -> None:
        (self.repo.path.parent / "gate").touch()

    def bind_another(self, makes: str = RIGHT) -> None:
        """The executor is a program now."""
        program = self.repo.write("../other.py", OTHER.format(right=makes, done=DONE))
        settings = (
            (self.repo.path / "reflectloop.toml").read_text().replace('executor = "script"', 'executor = "other"')
        )
        other = f'[agents.other]\nkind = "command"\nrun = ["{sys.executable}", "{program}"]\n'
        self.repo.write("reflectloop.toml", settings + other)

    def done(self) -> dict[str, Any]:
        """Gone on with to its end, and applied."""
        answer = self.repo.run("tr", "--all", "--json")
        assert answer.code == 0, answer.stdout
        assert answer.json["data"]["state"] == "DONE"
        assert self.repo.workspaces() == []
        self.repo.no_process_left()
        assert self.repo.run("apply", "--yes").code == 0
        assert (self.repo.path / "calc.py").read_text() == RIGHT
        assert (self.repo.path / "notes.txt").read_text() == "noted\n"
        data: dict[str, Any] = answer.json["data"]
        return data

    def todo(self) -> str:
        (found,) = (self.repo.path / ".reflectloop").glob("tasks/*/todo.md")
        return found.read_text()

    def kinds(self, kind: type[events.Event], step: str) -> list[events.Event]:
        return [one for one in self.history() if isinstance(one, kind) and getattr(one, "step_id", "") == step]


@pytest.fixture
def scene(repo: Repo) -> Scene:
    return Scene(repo)


# Killed -----------------------------------------------------------------------------------------------------------


def test_what_a_dead_engine_left_half_done_is_done_by_another_agent_from_the_start(scene: Scene) -> None:
    half = {"role": "executor", "step": "2", "run": f"echo half > half.txt; {scene.hold}", "answer": DONE}
    scene.begin(half).killed()
    scene.bind_another()
    scene.done()
    assert not (scene.repo.path / "half.txt").exists()
    assert len(scene.kinds(events.StepStarted, "1")) == 1
    assert len(scene.kinds(events.StepInterrupted, "2")) == 1
    assert [(one.agent, one.status, one.attempt) for one in scene.asked("executor")] == [("other", "ok", 1)]
    assert scene.steps()["2"].attempts == 1


def test_killed_in_its_review_a_step_is_done_and_reviewed_again(scene: Scene) -> None:
    stays = {"role": "reviewer", "step": "2", "run": scene.hold, "answer": PASSES}
    scene.begin(stays).killed()
    assert scene.steps()["2"].status == "running"
    scene.let_go()
    scene.done()
    assert [one.attempt for one in scene.asked("executor")] == [1, 1]
    assert scene.steps()["2"].attempts == 1


def test_killed_in_the_final_judgement_no_step_is_done_again(scene: Scene) -> None:
    outside = scene.repo.path.parent
    check = f"if [ -e {outside}/judging ]; then {scene.hold}; fi; {CHECK}"
    plan = {**DESIGN, "steps": [FIRST, {**DESIGN["steps"][0], "checks": [check]}]}
    scene.begin(
        {"role": "planner", "says": "Make a plan", "answer": plan},
        {"role": "reviewer", "says": "the whole change", "run": f"touch {outside}/judging", "answer": PASSES},
    ).killed()
    assert {one.status for one in scene.steps().values()} == {"done"}
    scene.let_go()
    scene.done()
    assert [one.step_id for one in scene.asked("executor")] == ["2"]
    assert not [one for one in scene.history() if isinstance(one, events.StepInterrupted)]


def test_what_the_journal_calls_done_is_there_although_its_engine_died_before_it_said_where(scene: Scene) -> None:
    pointer = scene.begin().repo.path / ".reflectloop/requests/pointer.json"
    before = pointer.read_bytes()
    scene.work(every=False)
    assert scene.steps()["1"].status == "done"
    pointer.write_bytes(before)  # killed between the two writes
    scene.done()


def test_killed_when_all_was_decided_and_nothing_written_it_is_told_by_the_next_engine(scene: Scene) -> None:
    done = scene.begin().work()
    assert done.report
    (scene.repo.latest() / "envelope.yaml").unlink()
    done.report.unlink()
    told = scene.work()
    assert told.report == done.report
    assert f"The gates let it through: {done.run.id}, 2 file(s)" in done.report.read_text()
    scene.apply()


def test_what_was_tried_and_asked_for_is_passed_to_whoever_continues_after_a_death(scene: Scene) -> None:
    item = {"file": "calc.py", "problem": "no docstring"}
    scene.begin(
        {"role": "executor", "step": "2", "attempt": 1, "run": "echo '# x' >> calc.py", "answer": WRONG},
        {"role": "reviewer", "step": "2", "attempt": 2, "answer": {"verdict": "RETRY", "items": [item]}},
        {"role": "executor", "step": "2", "attempt": 3, "run": f"rm calc.py; {scene.hold}", "answer": DONE},
    ).killed()
    scene.bind_another(RIGHT + "# with a docstring, some day\n")
    assert scene.repo.run("tr", "--all").code == 0
    told = scene.papers("2/3/executor.prompt.md")[0].read_text()
    assert "Step 2, attempt 1 failed." in told
    assert "\na comment\nEND approach of " in told
    assert "AssertionError" in told
    assert "Step 2: the engine died; the changes were discarded." in told
    assert "The review asks for:\n- medium: calc.py: no docstring" in told
    assert scene.steps()["2"].attempts == 3


def test_a_step_that_ends_its_engine_again_and_again_is_put_to_a_person(scene: Scene) -> None:
    scene.begin({"role": "executor", "step": "2", "run": scene.hold, "answer": DONE})
    for _ in range(5):
        scene.killed()
    answer = scene.repo.run("tr", "--all", "--json")
    assert answer.json["envelope"]["error_code"] == "NEEDS_INPUT"
    assert "died 5 times in a row" in answer.json["envelope"]["message"]
    assert answer.json["envelope"]["next"].startswith("reflectloop answer 2 ")


# Steered ----------------------------------------------------------------------------------------------------------


def test_an_engine_at_work_is_paused_before_its_next_step_and_resumed(scene: Scene) -> None:
    scene.begin({"role": "executor", "step": "2", "run": scene.hold, "answer": {"control": "fail", "reason": "no"}})
    engine = scene.engine()
    assert "before its next step" in scene.repo.run("pause", "--json").json["data"]["said"]
    locked = scene.repo.run("tr", "--json")
    assert (locked.envelope["error_code"], ", tr, since" in locked.envelope["message"]) == ("LOCKED", True)
    scene.let_go()
    ended = engine.ended()
    assert ended.code == 130
    assert "next: reflectloop tr --all" in ended.stderr.decode()


def test_a_paused_task_is_resumed_and_then_worked_on_by_tr(scene: Scene) -> None:
    scene.begin()
    assert task_control.pause(scene.repo.path).next_step == "reflectloop resume"
    with pytest.raises(NothingToDo, match="is paused") as told:
        scene.work()
    assert told.value.next_step == "reflectloop resume"
    resumed = scene.repo.run("resume", "--json")
    assert (resumed.envelope["error_code"], resumed.envelope["next"]) == ("NOTHING_TO_DO", "reflectloop tr --all")
    scene.done()


def test_an_aborted_task_ends_the_engine_at_work_on_it_and_leaves_nothing_to_do(scene: Scene) -> None:
    scene.begin({"role": "executor", "step": "2", "run": scene.hold, "answer": DONE})
    engine = scene.engine()
    assert scene.repo.run("abort", "--reason", "not wanted").code == 0
    assert engine.wait() == 130
    assert scene.repo.workspaces() == []
    nothing = scene.repo.run("tr", "--json").envelope
    assert (nothing["error_code"], nothing["next"]) == ("NOTHING_TO_DO", "reflectloop tp GOAL")


def test_a_task_that_is_done_leaves_tr_nothing_to_do(scene: Scene) -> None:
    scene.begin().done()
    with pytest.raises(NothingToDo, match="no plan to work on"):
        scene.work()


def test_a_blocked_step_can_be_left_out(scene: Scene) -> None:
    stops = {"verdict": "BLOCKED", "items": [{"problem": "the goal is unclear"}]}
    item = {"verdict": "RETRY", "items": [{"problem": "no docstring"}]}
    scene.begin(
        {"role": "reviewer", "step": "2", "attempt": 1, "answer": item},
        {"role": "executor", "attempt": 2, "run": "echo '# more' >> calc.py", "answer": DONE},
        {"role": "reviewer", "step": "2", "attempt": 2, "answer": stops},
    )
    assert isinstance(scene.work().error, NeedsInput)
    assert "- [>] 2 Make add add (BLOCKED: the review stops: the goal is unclear" in scene.todo()
    assert task_status.status(scene.repo.path, everything=False)["next"] == "reflectloop answer 2 TEXT"
    assert task_control.skip(scene.repo.path, "2", "not now").next_step == "reflectloop tr --all"
    assert route.route(scene.repo.path).command == "reflectloop tr --all"
    assert scene.work().error is None
    scene.apply()
    assert (scene.repo.path / "notes.txt").exists()
    assert (scene.repo.path / "calc.py").read_text() == BROKEN  # nothing of what the review refused


def test_a_step_left_out_is_done_after_all_on_what_came_before_it(scene: Scene) -> None:
    scene.begin().work(every=False)
    task_control.skip(scene.repo.path, "2", "not now")
    redone = task_control.again(scene.repo.path, "2", "rewind", "now")
    assert (redone.steps, redone.next_step) == (("2",), "reflectloop tr --all")
    scene.done()


def test_a_step_to_be_done_again_has_all_its_attempts_again(scene: Scene) -> None:
    wrong = {"role": "executor", "step": "2", "run": "exit 1", "answer": DONE}
    last = {"title": "End", "commands": ["echo end > end.txt"]}
    plan = {**PLAN["answer"], "steps": [FIRST, *DESIGN["steps"], last]}
    scene.begin(
        *({**wrong, "attempt": number} for number in (1, 2, 4, 5)),
        {"role": "planner", "says": "Make a plan", "answer": plan},
    )
    for _ in range(2):
        scene.work(every=False)
    assert scene.steps()["2"].attempts == 3
    assert task_control.again(scene.repo.path, "2", task_control.REDO, "not so").steps == ("2",)
    scene.done()
    assert scene.steps()["2"].attempts == 6


def test_parts_of_a_step_are_done_again_and_the_step_itself_is_not(scene: Scene) -> None:
    parts = [{"title": f"Part {n}", "commands": [f"echo {n} >> parts"]} for n in (1, 2)]
    parts.append({"title": "The rest", "checks": [CHECK]})
    cut = {"role": "executor", "step": "2", "answer": {"control": "split", "reason": "large", "substeps": parts}}
    scene.begin(cut)
    while scene.steps().get("2.2", StepState("")).status != "done":
        scene.work(every=False)
    with pytest.raises(InvalidInput, match=r"was split into 2\.1, 2\.2, 2\.3"):
        task_control.again(scene.repo.path, "2", task_control.REDO, "again")
    assert task_control.again(scene.repo.path, "2.2", "rewind", "again").steps == ("2.2",)
    scene.done()
    assert (scene.repo.path / "parts").read_text() == "1\n2\n"
