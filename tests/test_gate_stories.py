"""The gates on real repositories: a patch with its contract, and the last part of a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gate_builders import WHOLE
from reflectloop.engine import tasks
from reflectloop.engine.folders import Folders
from reflectloop.engine.gating import gate_command as gating
from reflectloop.engine.gating.gate_command import GateInput, GateResult
from reflectloop.engine.gating.verify_command import VerifyRequest
from reflectloop.engine.learning import lessons
from reflectloop.errors import InvalidInput, Latched
from reflectloop.lessons.lesson import KINDS
from reflectloop.lessons.lesson_store import LIVING
from reflectloop.state import journal, snapshot
from reflectloop.state.fold import Task, fold
from support import Repo

# Workspaces are removed in the background by a process that outlives its engine; here the engine is ourselves.
pytestmark = pytest.mark.filterwarnings("ignore:.*Popen.__del__:pytest.PytestUnraisableExceptionWarning")

CHECKED = (
    '[verify]\nchecks = [{name = "suite", run = ["sh", "check.sh"], kind = "custom"}]\n[box]\nstrongest = "workspace"\n'
)
ALL_GOOD = "All good, verified end-to-end, 15/15 passed"


class Silent:
    def waits(self, why: str) -> None: ...
    def check(self, name: str, words: str) -> None: ...
    def output(self, name: str, data: bytes) -> None: ...


class Desk:
    """A repository with one check, and somebody who brings contracts."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        repo.write("reflectloop.toml", CHECKED)
        repo.write("check.sh", "test ! -e broken\n")
        repo.write("app.py", "def f(a):\n    return a\n")
        repo.commit("a project with a check")

    def contract(self, track: str = "feature", **other: Any) -> Path:
        fields = {**WHOLE, "track": track, "acceptance": [{"id": "AC-1", "text": "holds", "check": "suite"}], **other}
        path = self.repo.path.parent / "contract.json"
        path.write_text(json.dumps({name: value for name, value in fields.items() if value is not None}))
        return path

    def gate(self, track: str = "feature", report: str | None = None, **other: Any) -> GateResult:
        told = self.repo.path.parent / "report.md"
        told.write_text(report or "")
        asked = GateInput(VerifyRequest(self.repo.path), self.contract(track, **other), told if report else None)
        return gating.gate(asked, Silent())

    def change(self, name: str = "app.py", text: str = "def f(a):\n    return a + 0\n") -> None:
        self.repo.write(name, text)

    def task(self) -> Task:
        [found] = [
            fold(journal.read(path)) for path in (self.repo.path / ".reflectloop" / "tasks").glob("*/journal.jsonl")
        ]
        return found


@pytest.fixture
def desk(repo: Repo) -> Desk:
    return Desk(repo)


def reasons(found: GateResult) -> str:
    return " | ".join(reason["text"] for one in found.data["gates"] for reason in one["reasons"])


def test_a_feature_passes_all_four_gates_and_leaves_report_receipt_and_summary(desk: Desk) -> None:
    desk.change()
    found = desk.gate(report="It should work.")
    assert found.error is None, reasons(found)
    assert (found.data["decision"], found.data["level"]) == ("PASS", "L3")
    assert [one["sign"] for one in found.data["gates"]] == ["戒", "定", "慧", "识"]
    assert "## Gate report" in (found.folder / "gates.md").read_text()
    assert json.loads((found.folder / "gates.json").read_text())["decision"] == "PASS"
    assert desk.repo.run("receipt", "verify", str(found.folder)).code == 0
    task = desk.task()
    assert str(task.state) == "DONE"
    assert "- **decision**: PASS" in (desk.repo.path / ".reflectloop" / "tasks" / task.id / "compact.md").read_text()


def test_a_report_without_any_run_behind_it_is_thrown_away(repo: Repo) -> None:
    repo.weaken()
    repo.commit("no check anywhere")
    repo.write("src/app.py", "print('bye')\n")
    path = repo.path.parent / "contract.yaml"
    path.write_text(
        yaml.safe_dump({**WHOLE, "track": "feature", "files_changed": ["src/app.py"], "may_change": ["src"]})
    )
    (repo.path.parent / "report.md").write_text(ALL_GOOD)
    words = ("gate", "--json", "--contract", path, "--report", repo.path.parent / "report.md")
    done = repo.run(*words)
    assert done.code == 33, done.stdout
    assert (done.json["data"]["decision"], done.json["data"]["level"]) == ("REDO", "L0")
    assert done.envelope["error_code"] == "GATE_REJECTED"


def test_the_program_tells_the_gates_one_by_one(desk: Desk) -> None:
    desk.change("other.py")
    done = desk.repo.run("gate", "--contract", desk.contract())
    assert done.code == 33
    assert "戒 REJECT (REDO)" in done.stderr
    assert "outside may_change (app.py): other.py" in done.stderr
    assert "定" not in done.stderr


def test_a_patch_and_a_branch_are_gated_like_the_working_tree(desk: Desk) -> None:
    desk.change()
    patch = desk.repo.path.parent / "a.patch"
    patch.write_text(desk.repo.git("diff"))
    desk.repo.git("checkout", "-q", "-b", "topic")
    desk.repo.commit("on a branch")
    desk.repo.git("checkout", "-q", "main")
    for request in (
        VerifyRequest(desk.repo.path, patch=patch),
        VerifyRequest(desk.repo.path, branch="topic", base="main"),
    ):
        assert gating.gate(GateInput(request, desk.contract(goal=str(request))), Silent()).error is None


@pytest.mark.parametrize(
    ("other", "decision", "words"),
    [
        ({"role": "planner"}, "REDO", "a planner changes nothing"),
        ({"files_changed": ["app.py", "b.py"]}, "REDO", "claimed and not changed: b.py"),
        ({"acceptance": None}, "REDO", "acceptance is required"),
        (
            {"acceptance": [{"id": "A", "text": "x", "check": "nosuch"}]},
            "RETRY",
            "check nosuch is not known; known: suite",
        ),
        ({"track": "fix", "reproduction": None}, "REDO", "reproduction is required"),
        (
            {"track": "fix", "reproduction": {"run": "true"}},
            "RETRY",
            "reproduction must fail on base, but already passes",
        ),
        ({"tests_run": [{"command": ["false"], "result": "15/15 passed"}]}, "RETRY", "check claimed 1: "),
        ({"track": "refactor", "must_not_change": ["app.py"]}, "REDO", "must_not_change names it"),
    ],
)
def test_each_fault_has_its_own_decision_and_words(
    desk: Desk, other: dict[str, Any], decision: str, words: str
) -> None:
    desk.change()
    found = desk.gate(**other)
    assert found.data["decision"] == decision, reasons(found)
    assert words in reasons(found)
    assert found.error
    assert found.error.exit_code == (33 if decision == "REDO" else 32)


def test_a_refactoring_that_changes_a_signature_is_sent_back(desk: Desk) -> None:
    desk.change(text="def f(a, b):\n    return a\n")
    found = desk.gate("refactor")
    assert found.data["decision"] == "RETRY"
    assert "app.f: parameter was added as required (b)" in reasons(found)
    desk.change()
    assert desk.gate("refactor").error is None


def test_a_fix_that_turns_its_reproduction_green_passes(desk: Desk) -> None:
    desk.change()
    found = desk.gate("fix", reproduction={"run": ["grep", "-q", "a + 0", "app.py"]})
    assert found.error is None, reasons(found)
    assert found.data["gates"][2]["why_skipped"] == "a fix of 2 line(s) in one file"


def test_a_direct_change_needs_no_run_and_a_false_citation_betrays_it(desk: Desk) -> None:
    desk.change()
    cited = {"file": "app.py", "line": 2, "says": "return a + 0"}
    good = desk.gate("direct", evidence=[cited])
    assert (good.data["level"], good.error) == ("L1", None)
    assert not list((good.folder / "logs").iterdir())
    bad = desk.gate("direct", evidence=[{**cited, "line": 1}])
    assert (bad.data["level"], bad.data["decision"]) == ("L0", "REDO")


def test_the_third_retry_stops_the_project_with_every_attempt_whatever_came_between(desk: Desk) -> None:
    """Each try is an engine of its own, with new output: only the journal knows of the ones before."""
    desk.change()
    desk.change("broken", "x\n")
    wrong: dict[str, Any] = {"files_changed": ["app.py", "broken"], "may_change": ["**"]}
    first = desk.gate(**wrong)
    desk.change(text="def f(a):\n    return a or 0\n")
    second = desk.gate(**wrong)
    assert [one.data["decision"] for one in (first, second)] == ["RETRY", "RETRY"]
    with pytest.raises(Latched, match="a third try needs the cause"):
        desk.gate(**wrong)
    third = desk.gate(**wrong, root_cause="the check looks for a file that we make")
    assert third.data["decision"] == "STOP"
    assert third.error
    assert third.error.code == "MAX_RETRIES"
    packet = third.data["escalation"]
    runs = [str(one.envelope.run_id) for one in (first, second, third)]
    assert [one["run_id"] for one in packet["attempts"]] == runs
    assert packet["attempts"][2]["root_cause"] == "the check looks for a file that we make"
    assert "### Escalation" in (third.folder / "gates.md").read_text()
    with pytest.raises(Latched):
        desk.gate()
    lifted = tasks.unlock(Folders(desk.repo.path), "the check was wrong")
    assert lifted.again == "reflectloop gate --contract FILE"
    assert desk.gate(**wrong).data["decision"] == "RETRY"


def test_the_third_redo_stops_too_and_goals_are_counted_apart(desk: Desk) -> None:
    desk.change("other.py")
    found = [desk.gate().data["decision"] for _ in range(2)]
    assert desk.gate(goal="Something else").data["decision"] == "REDO"
    assert [*found, desk.gate().data["decision"]] == ["REDO", "REDO", "STOP"]


def test_a_try_that_the_engines_death_ended_is_not_counted(desk: Desk) -> None:
    desk.change("other.py")
    desk.gate()
    folder = next((desk.repo.path / ".reflectloop" / "tasks").iterdir())
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    desk.gate()
    # As if the engine had died after the second had begun, and before it wrote the state of that.
    (folder / "state.json").unlink()
    (folder / "journal.jsonl").write_bytes(
        b"".join((folder / "journal.jsonl").read_bytes().splitlines(keepends=True)[: len(lines) + 1])
    )
    assert desk.gate().data["decision"] == "REDO"
    assert desk.gate().data["decision"] == "STOP"


def test_what_the_gates_said_is_in_the_snapshot_of_the_task_too(desk: Desk) -> None:
    desk.change("other.py")
    desk.gate()
    folder = next((desk.repo.path / ".reflectloop" / "tasks").iterdir())
    assert snapshot.load(folder).gated == snapshot.whole(folder).gated
    assert snapshot.load(folder).gated[0]["decision"] == "REDO"


def test_a_decision_that_is_seen_twice_is_kept_with_a_number(desk: Desk) -> None:
    page = desk.repo.path / ".reflectloop" / "knowledge" / "anchors.md"
    desk.change()
    desk.gate(goal="one")
    assert "negate twice" not in page.read_text()
    desk.gate(goal="two")
    assert "**D001** negate twice (seen 2 times)" in page.read_text()
    desk.gate(goal="three", decisions=["another"])
    assert "D002" not in page.read_text()
    found = {one.title: one for one in lessons.listed(lessons.room_at(desk.repo.path), KINDS, LIVING).lessons}
    kept, waiting = found["negate twice"], found["another"]
    assert (kept.kind, kept.status, kept.count, kept.name) == ("decision", "active", 2, "D001")
    assert (waiting.status, waiting.name) == ("candidate", "")
    assert "anchors.md" not in desk.repo.git("status", "--porcelain", "-uall")


def test_what_a_person_added_and_the_gates_saw_is_one_lesson(desk: Desk) -> None:
    room = lessons.room_at(desk.repo.path, "project")
    name = lessons.added(room, {"kind": "decision", "title": "Negate twice"}).id
    desk.change()
    desk.gate(goal="one")
    [found] = lessons.listed(room, KINDS, LIVING).lessons
    assert (found.id, found.count, found.name) == (name, 2, "D001")


def test_gating_changes_nothing_of_the_users(desk: Desk) -> None:
    desk.change()
    before = desk.repo.state()
    desk.gate()
    assert desk.repo.state() == before
    assert not (desk.repo.path / ".reflectloop" / "current").exists()


# Bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "mapping"),
        ("- a\n", "mapping"),
        ("{", "is no contract"),
        ("goal: x\ngoal: y\ntrack: fix\n", "is no contract"),
        ("goal: x\n", "names no track"),
        ("track: epic\n", "'epic' is no track; known: feature, fix, refactor, direct"),
        ("track: fix\nrole: wizard\n", "'wizard' is no role"),
        (b"\xff\xfe\0track", "is no contract"),
    ],
)
def test_a_contract_that_cannot_be_read_is_refused_before_anything_runs(
    desk: Desk, text: str | bytes, words: str
) -> None:
    path = desk.repo.path.parent / "bad.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidInput, match=words):
        gating.gate(GateInput(VerifyRequest(desk.repo.path), path), Silent())
    assert not (desk.repo.path / ".reflectloop").exists()


@pytest.mark.parametrize("what", ["contract", "report"])
def test_what_is_far_too_long_is_refused_by_its_size(desk: Desk, what: str) -> None:
    path = desk.repo.path.parent / "long"
    with path.open("wb") as file:
        file.truncate(50_000_000)
    asked = GateInput(VerifyRequest(desk.repo.path), *((path, None) if what == "contract" else (desk.contract(), path)))
    with pytest.raises(InvalidInput, match=r"50\.0 MB"):
        gating.gate(asked, Silent())


def test_a_file_that_is_not_there_is_said_to_be_missing(desk: Desk) -> None:
    done = desk.repo.run("gate", "--contract", "nowhere.yaml")
    assert done.code == 12
    assert "nowhere.yaml" in done.stderr


def test_a_secret_in_a_contract_is_refused_and_not_repeated(desk: Desk) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    with pytest.raises(InvalidInput, match="what looks like a secret") as refused:
        desk.gate(goal=f"use {token}")
    assert token not in str(refused.value)


# The last part of a run -----------------------------------------------------------------------------------------


def run(repo: Repo, command: str, *words: str, code: int, **plan: Any) -> dict[str, Any]:
    steps = [{"id": "work", "commands": [command]}]
    path = repo.plan(json.dumps({"plan": {"title": "Test", "steps": steps, **plan}}))
    done = repo.run("run", "--json", *words, path)
    assert done.code == code, done.stdout + done.stderr
    return done.envelope


FEATURE: dict[str, Any] = {
    "track": "feature",
    "checks": {"there": {"run": ["test", "-e", "made.txt"]}},
    "acceptance": [{"id": "AC-1", "text": "is made", "check": "there"}],
}


def test_a_run_ends_at_the_gates_and_leaves_their_report(desk: Desk) -> None:
    envelope = run(desk.repo, "echo x > made.txt", code=0, **FEATURE)
    assert [Path(one).name for one in envelope["artifacts_written"] if "gates" in one] == ["gates.md", "gates.json"]
    found = json.loads((desk.repo.latest() / "gates.json").read_text())
    assert (found["decision"], [one["sign"] for one in found["gates"]]) == ("PASS", ["戒", "定", "慧", "识"])
    [task] = (desk.repo.path / ".reflectloop" / "tasks").iterdir()
    assert "- **decision**: PASS" in (task / "compact.md").read_text()


@pytest.mark.parametrize("track", ["direct", "feature"])
def test_a_run_that_left_its_bounds_has_no_patch_to_apply(desk: Desk, track: str) -> None:
    envelope = run(
        desk.repo,
        "echo x > made.txt; echo y > stray.txt",
        code=33,
        **{**FEATURE, "track": track, "may_change": ["made.txt"]},
    )
    assert "outside may_change (made.txt): stray.txt" in envelope["message"]
    assert desk.repo.run("apply", "--yes").code != 0
    receipt = json.loads((desk.repo.latest() / "receipt.json").read_text())
    assert receipt["decision"] == "REDO"


def test_a_feature_plan_without_criteria_is_refused_before_it_runs(desk: Desk) -> None:
    envelope = run(desk.repo, "echo x > made.txt", code=33, track="feature")
    assert "acceptance is required on track feature" in envelope["message"]
    assert not (desk.repo.path / ".reflectloop" / "tasks").exists()


def test_the_gates_count_across_runs_and_ask_for_the_cause(desk: Desk) -> None:
    limits = {"limits": {"runs": 9}}
    for number in range(2):
        run(desk.repo, f"echo {number} > other.txt", code=32, **FEATURE, **limits)
    envelope = run(desk.repo, "echo 2 > other.txt", code=41, **FEATURE, **limits)
    assert "two tries were sent back by the gates" in envelope["message"]
    done = desk.repo.run("retry", "--json", "--reason", "it is made under another name")
    assert done.code == 42, done.stdout
    assert done.envelope["message"].count("RLOP-") >= 2
    card = yaml.safe_load((desk.repo.latest() / "blocker.yaml").read_text())
    assert [one["number"] for one in card["attempts"]] == [1, 2, 3]
    assert card["attempts"][2]["root_cause"] == "it is made under another name"
    assert card["root_cause_hypothesis"]
    assert card["asked"]
    assert desk.repo.run("run", desk.repo.path.parent / "plan.yaml").code == 41


def test_danger_that_a_direct_run_adds_is_asked_about_and_stops_where_it_is_denied(desk: Desk) -> None:
    line = "requests.get(url, veri" + "fy=False)"
    envelope = run(desk.repo, f"echo '{line}' > web.py", code=33, track="direct")
    assert "web.py:1: stops checking whom it talks to (added.tls-off)" in envelope["message"]
    assert '[policy] allow = ["added.tls-off"]' in envelope["message"]
    desk.repo.write("make.sh", "echo x > id_rsa\n")
    run(desk.repo, "sh make.sh", "--new", code=33, track="direct")
    assert json.loads((desk.repo.latest() / "gates.json").read_text())["decision"] == "STOP"
    assert desk.repo.run("run", desk.repo.steps("true")).code == 41


def test_a_direct_run_without_checks_or_bounds_loads_no_gate(desk: Desk) -> None:
    words = [sys.executable, "-X", "importtime", "-m", "reflectloop", "run", str(desk.repo.steps("echo x > made.txt"))]
    done = subprocess.run(words, cwd=desk.repo.path, capture_output=True, check=True)
    loaded = done.stderr.decode()
    assert "reflectloop.engine.run.run" in loaded
    assert not [name for name in ("reflectloop.gates", "reflectloop.engine.gating.gated", "griffe") if name in loaded]


def test_a_run_whose_engine_died_after_the_gates_had_spoken_counts_their_word_once(desk: Desk) -> None:
    run(desk.repo, "echo x > made.txt", code=0, **FEATURE)
    [path] = (desk.repo.path / ".reflectloop" / "tasks").glob("*/journal.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    assert json.loads(lines[-1])["kind"] == "run_finished"
    path.write_bytes(b"".join(lines[:-1]))
    path.with_name("state.json").unlink()
    (desk.repo.latest() / "envelope.yaml").unlink()
    assert desk.repo.run("resume").code == 0
    told = [json.loads(line)["kind"] for line in path.read_text().splitlines()]
    assert told.count("gate_decided") == 1
    assert told[-1] == "run_finished"
    [sightings] = (desk.repo.path / ".reflectloop" / "knowledge" / "sightings").iterdir()
    assert len(sightings.read_text().splitlines()) == 1
