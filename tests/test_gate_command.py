"""The gates on real repositories: `gate` with a contract, and the gates at the end of a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gate_builders import FULL_CONTRACT
from reflectloop.engine.gating import gate_command as gating
from reflectloop.engine.gating.gate_command import GateInput, GateResult
from reflectloop.engine.gating.verify_command import VerifyRequest
from reflectloop.engine.run.request import NullObserver
from reflectloop.engine.tasks import open_tasks
from reflectloop.errors import InvalidInput, Latched
from reflectloop.lessons import lesson_scopes
from reflectloop.lessons.lesson import KINDS
from reflectloop.lessons.lesson_store import LIVING
from reflectloop.state import journal, snapshot
from reflectloop.state.fold import Task, fold
from reflectloop.workspace.folders import Folders
from support import Repo

pytestmark = pytest.mark.usefixtures("without_probing")

# Workspaces are removed in the background by a process that outlives its engine; here the engine is ourselves.
pytestmark = pytest.mark.filterwarnings("ignore:.*Popen.__del__:pytest.PytestUnraisableExceptionWarning")

CHECKED = (
    '[verify]\nchecks = [{name = "suite", run = ["sh", "check.sh"], kind = "custom"}]\n[box]\nstrongest = "workspace"\n'
)
# What fails on base and passes with the change, as the criterion of a feature must.
SHOWN: dict[str, Any] = {
    "tests_run": [{"command": ["grep", "-q", "a + 0", "app.py"]}],
    "acceptance": [{"id": "AC-1", "text": "holds", "check": "claimed 1"}],
}
ALL_GOOD = "All good, verified end-to-end, 15/15 passed"


class GatedRepo:
    """A repository with one check, and `gate` calls on it."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        repo.write("reflectloop.toml", CHECKED)
        repo.write("check.sh", "test ! -e broken\n")
        repo.write("app.py", "def f(a):\n    return a\n")
        repo.commit("a project with a check")

    def contract(self, track: str = "feature", **other: Any) -> Path:
        fields = {
            **FULL_CONTRACT,
            "track": track,
            "acceptance": [{"id": "AC-1", "text": "holds", "check": "suite"}],
            **other,
        }
        path = self.repo.path.parent / "contract.json"
        path.write_text(json.dumps({name: value for name, value in fields.items() if value is not None}))
        return path

    def gate(self, track: str = "feature", report: str | None = None, **other: Any) -> GateResult:
        report_file = self.repo.path.parent / "report.md"
        report_file.write_text(report or "")
        asked = GateInput(VerifyRequest(self.repo.path), self.contract(track, **other), report_file if report else None)
        return gating.gate(asked, NullObserver())

    def change(self, name: str = "app.py", text: str = "def f(a):\n    return a + 0\n") -> None:
        self.repo.write(name, text)

    def task(self) -> Task:
        [task] = [
            fold(journal.read(path)) for path in (self.repo.path / ".reflectloop" / "tasks").glob("*/journal.jsonl")
        ]
        return task


@pytest.fixture
def gated(repo: Repo) -> GatedRepo:
    return GatedRepo(repo)


def reasons(result: GateResult) -> str:
    return " | ".join(reason["text"] for gate in result.data["gates"] for reason in gate["reasons"])


def test_a_feature_passes_all_four_gates_and_leaves_report_receipt_and_summary(gated: GatedRepo) -> None:
    gated.change()
    result = gated.gate(report="It should work.", **SHOWN)
    assert result.error is None, reasons(result)
    assert (result.data["decision"], result.data["level"]) == ("PASS", "L3")
    assert [gate["sign"] for gate in result.data["gates"]] == ["戒", "定", "慧", "识"]
    assert "## Gate report" in (result.folder / "gates.md").read_text()
    assert json.loads((result.folder / "gates.json").read_text())["decision"] == "PASS"
    assert gated.repo.run("receipt", "verify", str(result.folder)).code == 0
    task = gated.task()
    assert str(task.state) == "DONE"
    assert "- **decision**: PASS" in (gated.repo.path / ".reflectloop" / "tasks" / task.id / "compact.md").read_text()


def test_a_report_without_any_run_is_rejected(repo: Repo) -> None:
    repo.weaken()
    repo.commit("no check anywhere")
    repo.write("src/app.py", "print('bye')\n")
    path = repo.path.parent / "contract.yaml"
    path.write_text(
        yaml.safe_dump({**FULL_CONTRACT, "track": "feature", "files_changed": ["src/app.py"], "may_change": ["src"]})
    )
    (repo.path.parent / "report.md").write_text(ALL_GOOD)
    argv = ("gate", "--json", "--contract", path, "--report", repo.path.parent / "report.md")
    done = repo.run(*argv)
    assert done.code == 33, done.stdout
    assert (done.json["data"]["decision"], done.json["data"]["level"]) == ("REDO", "L0")
    assert done.envelope["error_code"] == "GATE_REJECTED"


def test_the_command_prints_each_gate(gated: GatedRepo) -> None:
    gated.change("other.py")
    done = gated.repo.run("gate", "--contract", gated.contract())
    assert done.code == 33
    assert done.stderr.startswith("REFUSED\n  rules: REFUSED\n")
    assert "outside may_change (app.py): other.py" in done.stderr
    assert "proof" not in done.stderr


def test_a_patch_and_a_branch_are_gated_like_the_working_tree(gated: GatedRepo) -> None:
    gated.change()
    patch = gated.repo.path.parent / "a.patch"
    patch.write_text(gated.repo.git("diff"))
    gated.repo.git("checkout", "-q", "-b", "topic")
    gated.repo.commit("on a branch")
    gated.repo.git("checkout", "-q", "main")
    for request in (
        VerifyRequest(gated.repo.path, patch=patch),
        VerifyRequest(gated.repo.path, branch="topic", base="main"),
    ):
        assert gating.gate(GateInput(request, gated.contract(goal=str(request), **SHOWN)), NullObserver()).error is None


@pytest.mark.parametrize(
    ("other", "decision", "words"),
    [
        ({"role": "planner"}, "REDO", "a planner may not change files"),
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
def test_each_fault_has_its_own_decision_and_message(
    gated: GatedRepo, other: dict[str, Any], decision: str, words: str
) -> None:
    gated.change()
    result = gated.gate(**other)
    assert result.data["decision"] == decision, reasons(result)
    assert words in reasons(result)
    assert result.error
    assert result.error.exit_code == (33 if decision == "REDO" else 32)


def test_a_refactoring_that_changes_a_signature_is_sent_back(gated: GatedRepo) -> None:
    gated.change(text="def f(a, b):\n    return a\n")
    result = gated.gate("refactor")
    assert result.data["decision"] == "RETRY"
    assert "app.f: parameter was added as required (b)" in reasons(result)
    gated.change()
    assert gated.gate("refactor").error is None


def test_a_fix_that_turns_its_reproduction_green_passes(gated: GatedRepo) -> None:
    gated.change()
    result = gated.gate("fix", reproduction={"run": ["grep", "-q", "a + 0", "app.py"]})
    assert result.error is None, reasons(result)
    assert result.data["gates"][2]["why_skipped"] == "a fix of 2 line(s) in one file"


def test_a_direct_change_needs_no_run_but_a_false_citation_is_rejected(gated: GatedRepo) -> None:
    gated.change()
    cited = {"file": "app.py", "line": 2, "says": "return a + 0"}
    good = gated.gate("direct", evidence=[cited])
    assert (good.data["level"], good.error) == ("L1", None)
    assert not list((good.folder / "logs").iterdir())
    bad = gated.gate("direct", evidence=[{**cited, "line": 1}])
    assert (bad.data["level"], bad.data["decision"]) == ("L0", "REDO")


def test_the_third_retry_stops_the_project_and_lists_every_attempt(gated: GatedRepo) -> None:
    """Each attempt is a new engine with new output; only the journal connects them."""
    gated.change()
    gated.change("broken", "x\n")
    wrong: dict[str, Any] = {"files_changed": ["app.py", "broken"], "may_change": ["**"]}
    first = gated.gate(**wrong)
    gated.change(text="def f(a):\n    return a or 0\n")
    second = gated.gate(**wrong)
    assert [result.data["decision"] for result in (first, second)] == ["RETRY", "RETRY"]
    with pytest.raises(Latched, match="a third try needs the cause"):
        gated.gate(**wrong)
    third = gated.gate(**wrong, root_cause="the check looks for a file that we make")
    assert third.data["decision"] == "STOP"
    assert third.error
    assert third.error.code == "MAX_RETRIES"
    packet = third.data["escalation"]
    runs = [str(result.envelope.run_id) for result in (first, second, third)]
    assert [attempt["run_id"] for attempt in packet["attempts"]] == runs
    assert packet["attempts"][2]["root_cause"] == "the check looks for a file that we make"
    assert "### Escalation" in (third.folder / "gates.md").read_text()
    with pytest.raises(Latched):
        gated.gate()
    lifted = open_tasks.unlock(Folders(gated.repo.path), "the check was wrong")
    assert lifted.again == "reflectloop gate --contract FILE"
    assert gated.gate(**wrong).data["decision"] == "RETRY"


def test_the_third_redo_stops_too_and_goals_are_counted_separately(gated: GatedRepo) -> None:
    gated.change("other.py")
    first_two = [gated.gate().data["decision"] for _ in range(2)]
    assert gated.gate(goal="Something else").data["decision"] == "REDO"
    assert [*first_two, gated.gate().data["decision"]] == ["REDO", "REDO", "STOP"]


def test_an_attempt_ended_by_a_crash_is_not_counted(gated: GatedRepo) -> None:
    gated.change("other.py")
    gated.gate()
    folder = next((gated.repo.path / ".reflectloop" / "tasks").iterdir())
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    gated.gate()
    # Simulate a crash after the second attempt started and before its state was written.
    (folder / "state.json").unlink()
    (folder / "journal.jsonl").write_bytes(
        b"".join((folder / "journal.jsonl").read_bytes().splitlines(keepends=True)[: len(lines) + 1])
    )
    assert gated.gate().data["decision"] == "REDO"
    assert gated.gate().data["decision"] == "STOP"


def test_the_task_snapshot_contains_the_gate_decisions(gated: GatedRepo) -> None:
    gated.change("other.py")
    gated.gate()
    folder = next((gated.repo.path / ".reflectloop" / "tasks").iterdir())
    assert snapshot.load_task(folder).gated == snapshot.load_from_journal(folder).gated
    assert snapshot.load_task(folder).gated[0]["decision"] == "REDO"


def test_a_repeated_decision_is_kept_with_a_number(gated: GatedRepo) -> None:
    page = gated.repo.path / ".reflectloop" / "knowledge" / "anchors.md"
    gated.change()
    gated.gate(goal="one", **SHOWN)
    assert "negate twice" not in page.read_text()
    gated.gate(goal="two", **SHOWN)
    assert "**D001** negate twice (seen 2 times)" in page.read_text()
    gated.gate(goal="three", decisions=["another"], **SHOWN)
    assert "D002" not in page.read_text()
    by_title = {
        lesson.title: lesson
        for lesson in lesson_scopes.list_lessons(lesson_scopes.open_scopes(gated.repo.path), KINDS, LIVING).lessons
    }
    active, waiting = by_title["negate twice"], by_title["another"]
    assert (active.kind, active.status, active.count, active.name) == ("decision", "active", 2, "D001")
    assert (waiting.status, waiting.name) == ("candidate", "")
    assert "anchors.md" not in gated.repo.git("status", "--porcelain", "-uall")


def test_a_lesson_added_by_a_person_and_seen_by_the_gates_is_one_lesson(gated: GatedRepo) -> None:
    room = lesson_scopes.open_scopes(gated.repo.path, "project")
    name = lesson_scopes.add_lesson(room, {"kind": "decision", "title": "Negate twice"}).id
    gated.change()
    gated.gate(goal="one", **SHOWN)
    [lesson] = lesson_scopes.list_lessons(room, KINDS, LIVING).lessons
    assert (lesson.id, lesson.count, lesson.name) == (name, 2, "D001")


def test_gating_does_not_change_the_users_files(gated: GatedRepo) -> None:
    gated.change()
    before = gated.repo.state()
    gated.gate()
    assert gated.repo.state() == before
    assert not (gated.repo.path / ".reflectloop" / "current").exists()


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
    gated: GatedRepo, text: str | bytes, words: str
) -> None:
    path = gated.repo.path.parent / "bad.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidInput, match=words):
        gating.gate(GateInput(VerifyRequest(gated.repo.path), path), NullObserver())
    assert not (gated.repo.path / ".reflectloop").exists()


@pytest.mark.parametrize("what", ["contract", "report"])
def test_a_huge_contract_or_report_is_refused(gated: GatedRepo, what: str) -> None:
    path = gated.repo.path.parent / "long"
    with path.open("wb") as file:
        file.truncate(50_000_000)
    asked = GateInput(
        VerifyRequest(gated.repo.path), *((path, None) if what == "contract" else (gated.contract(), path))
    )
    with pytest.raises(InvalidInput, match=r"50\.0 MB"):
        gating.gate(asked, NullObserver())


def test_a_missing_contract_file_is_reported(gated: GatedRepo) -> None:
    done = gated.repo.run("gate", "--contract", "nowhere.yaml")
    assert done.code == 12
    assert "nowhere.yaml" in done.stderr
    assert done.stderr.endswith("next: reflectloop gate --help\n")


def test_a_secret_in_a_contract_is_refused_and_not_repeated(gated: GatedRepo) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    with pytest.raises(InvalidInput, match="what looks like a secret") as refused:
        gated.gate(goal=f"use {token}")
    assert token not in str(refused.value)


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


def test_a_run_ends_at_the_gates_and_leaves_their_report(gated: GatedRepo) -> None:
    envelope = run(gated.repo, "echo x > made.txt", code=0, **FEATURE)
    assert [Path(path).name for path in envelope["artifacts_written"] if "gates" in path] == ["gates.md", "gates.json"]
    data = json.loads((gated.repo.latest() / "gates.json").read_text())
    assert (data["decision"], [gate["sign"] for gate in data["gates"]]) == ("PASS", ["戒", "定", "慧", "识"])
    [task] = (gated.repo.path / ".reflectloop" / "tasks").iterdir()
    assert "- **decision**: PASS" in (task / "compact.md").read_text()


@pytest.mark.parametrize("track", ["direct", "feature"])
def test_a_run_outside_its_boundaries_has_no_patch_to_apply(gated: GatedRepo, track: str) -> None:
    envelope = run(
        gated.repo,
        "echo x > made.txt; echo y > stray.txt",
        code=33,
        **{**FEATURE, "track": track, "may_change": ["made.txt"]},
    )
    assert "outside may_change (made.txt): stray.txt" in envelope["message"]
    assert gated.repo.run("apply", "--yes").code != 0
    receipt = json.loads((gated.repo.latest() / "receipt.json").read_text())
    assert receipt["decision"] == "REDO"


def test_a_feature_plan_without_criteria_is_refused_before_it_runs(gated: GatedRepo) -> None:
    envelope = run(gated.repo, "echo x > made.txt", code=33, track="feature")
    assert "acceptance is required on track feature" in envelope["message"]
    assert not (gated.repo.path / ".reflectloop" / "tasks").exists()


def test_the_gates_count_across_runs_and_ask_for_the_cause(gated: GatedRepo) -> None:
    limits = {"limits": {"runs": 9}}
    for number in range(2):
        run(gated.repo, f"echo {number} > other.txt", code=32, **FEATURE, **limits)
    envelope = run(gated.repo, "echo 2 > other.txt", code=41, **FEATURE, **limits)
    assert "two tries were sent back by the gates" in envelope["message"]
    done = gated.repo.run("retry", "--json", "--reason", "it is made under another name")
    assert done.code == 42, done.stdout
    assert done.envelope["message"].count("RLOP-") >= 2
    card = yaml.safe_load((gated.repo.latest() / "blocker.yaml").read_text())
    assert [attempt["number"] for attempt in card["attempts"]] == [1, 2, 3]
    assert card["attempts"][2]["root_cause"] == "it is made under another name"
    assert card["root_cause_hypothesis"]
    assert card["asked"]
    assert gated.repo.run("run", gated.repo.path.parent / "plan.yaml").code == 41


def test_dangerous_lines_of_a_direct_run_ask_or_stop(gated: GatedRepo) -> None:
    line = "requests.get(url, veri" + "fy=False)"
    envelope = run(gated.repo, f"echo '{line}' > web.py", code=33, track="direct")
    assert "web.py:1: disables the check of the server's certificate (added.tls-off)" in envelope["message"]
    assert '[policy] allow = ["added.tls-off"]' in envelope["message"]
    gated.repo.write("make.sh", "echo x > id_rsa\n")
    run(gated.repo, "sh make.sh", "--new", code=33, track="direct")
    assert json.loads((gated.repo.latest() / "gates.json").read_text())["decision"] == "STOP"
    assert gated.repo.run("run", gated.repo.steps("true")).code == 41


def test_a_link_inside_the_project_is_no_question_in_a_direct_run(gated: GatedRepo) -> None:
    gated.repo.write("tests/test_old.py", "def test_old():\n    pass\n")
    gated.repo.commit("a test")
    move = "echo '# a remark' >> tests/test_old.py; "
    run(gated.repo, move + "ln -s old.txt link; echo x > old.txt; ln -s tests folder", code=0, track="direct")
    envelope = run(gated.repo, move + "ln -s ../elsewhere link", "--new", code=33, track="direct")
    assert "link: is a link to something outside of the project" in envelope["message"]


def test_a_direct_run_without_checks_or_bounds_loads_no_gate(gated: GatedRepo) -> None:
    argv = [sys.executable, "-X", "importtime", "-m", "reflectloop", "run", str(gated.repo.steps("echo x > made.txt"))]
    done = subprocess.run(argv, cwd=gated.repo.path, capture_output=True, check=True)
    loaded = done.stderr.decode()
    assert "reflectloop.engine.pipeline" in loaded
    assert not [name for name in ("reflectloop.gates", "reflectloop.engine.gating.gated", "griffe") if name in loaded]


def test_a_crash_after_the_gates_records_their_decision_once(gated: GatedRepo) -> None:
    run(gated.repo, "echo x > made.txt", code=0, **FEATURE)
    [path] = (gated.repo.path / ".reflectloop" / "tasks").glob("*/journal.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    assert json.loads(lines[-1])["kind"] == "run_finished"
    path.write_bytes(b"".join(lines[:-1]))
    path.with_name("state.json").unlink()
    (gated.repo.latest() / "envelope.yaml").unlink()
    assert gated.repo.run("resume").code == 0
    kinds = [json.loads(line)["kind"] for line in path.read_text().splitlines()]
    assert kinds.count("gate_decided") == 1
    assert kinds[-1] == "run_finished"
    [sightings] = (gated.repo.path / ".reflectloop" / "knowledge" / "sightings").iterdir()
    assert len(sightings.read_text().splitlines()) == 1
