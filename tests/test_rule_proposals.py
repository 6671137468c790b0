"""Rules learned from failures: proposed, replayed on real past runs, accepted by a person, and then active."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from reflectloop import policy
from reflectloop.config import PolicyConfig
from reflectloop.engine.gating import gate_command as gating
from reflectloop.engine.gating import verify_command as verifying
from reflectloop.engine.pipeline import run
from reflectloop.engine.requests import fileops_session
from reflectloop.engine.run.request import NullObserver, RunOutcome, RunRequest
from reflectloop.errors import GateRejected, InvalidInput, NothingToDo, SecretLeak
from reflectloop.lessons import lesson_scopes
from reflectloop.lessons.lesson import Lesson
from reflectloop.policy import learned, rulefile
from reflectloop.reflection.reflect_command import ReflectionRequest, reflect
from reflectloop.rule_proposals import proposals
from reflectloop.workspace.folders import Folders
from support import Repo

# Workspaces are removed in the background by a process that outlives its engine; here the engine is ourselves.
pytestmark = pytest.mark.filterwarnings("ignore:.*Popen.__del__:pytest.PytestUnraisableExceptionWarning")

MIGRATE = "sh migrate.sh --all"
RULE = """\
rules:
  - id: own.migrate
    verdict: confirm
    reason: it loses rows
    program: [sh]
    flags: ["--all"]
    match: ["sh migrate.sh --all"]
    not_match: ["sh migrate.sh --one"]
"""


class Past:
    """A project with a script that works on one table, and not on all of them."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        repo.weaken()
        repo.write("migrate.sh", 'test "$1" = --one || { echo "IntegrityError: rows lost" >&2; exit 3; }\n')
        repo.commit("a migration")
        self.number = 0

    def run(self, *commands: str, **step: Any) -> RunOutcome:
        self.number += 1
        steps = [{"id": f"P-{n}", "commands": [command], **step} for n, command in enumerate(commands, 1)]
        text = json.dumps({"plan": {"title": f"Work {self.number}", "track": "direct", "steps": steps}})
        return run(RunRequest(self.repo.path, self.repo.plan(text), new_task=True))

    @property
    def room(self) -> lesson_scopes.LessonScopes:
        return proposals.open_scopes(self.repo.path)

    def file(self, text: str) -> str:
        path = self.repo.path.parent / "rule.yaml"
        path.write_text(text)
        return str(path)


@pytest.fixture
def bare(repo: Repo) -> Past:
    return Past(repo)


@pytest.fixture
def past(bare: Past) -> Past:
    """Two failures of one cause, one of another, and two runs that passed."""
    for command in (MIGRATE, MIGRATE, "exit 7"):
        assert bare.run("true", command).error
    for command in ("sh migrate.sh --one", "echo migrate.sh --all"):
        assert bare.run(command).error is None
    return bare


def failed_run(past: Past) -> str:
    found = past.run(MIGRATE)
    assert found.error
    assert found.envelope.run_id
    return found.envelope.run_id


def rule(lesson: Lesson) -> dict[str, Any]:
    (found,) = yaml.safe_load(lesson.body)["rules"]
    return dict(found)


def test_an_accepted_rule_stops_the_same_failure_before_anything_runs(
    past: Past,
) -> None:
    name = failed_run(past)
    proposed = past.repo.run("lessons", "propose", name, "--json").json["data"]
    assert proposed["new"]
    assert (proposed["rule"]["program"], proposed["rule"]["flags"]) == (["sh"], ["--all"])
    told = past.repo.run("lessons", "replay", proposed["id"], "--json").json["data"]["replay"]
    assert (told["runs"], told["passed"], told["failed"]) == (6, 2, 4)
    assert told["counts"] == {"caught": 3, "wrong": 0, "undecided": 0}
    assert (len(told["same"]), told["same_caught"]) == (3, 3)
    assert name in {hit["run"] for hit in told["caught"]}
    assert past.run("true", MIGRATE).error.code == "STEP_FAILED"  # type: ignore[union-attr]  # proposed is not in force
    assert past.repo.run("lessons", "accept", proposed["id"]).code == 0
    stopped = past.run("touch ran", MIGRATE)
    assert stopped.error
    assert stopped.error.code == "GATE_REJECTED"
    assert proposed["rule"]["id"] in str(stopped.error.faults[0])
    assert not stopped.steps
    assert past.run("sh migrate.sh --one").error is None
    taken_back = past.repo.run("lessons", "reject", proposed["id"], "--reason", "the script is mended")
    assert "not in force" in taken_back.stdout
    assert past.run(MIGRATE).error.code == "STEP_FAILED"  # type: ignore[union-attr]


def test_an_accepted_rule_names_its_user_time_and_replay(past: Past) -> None:
    made = proposals.propose(past.room, failed_run(past))
    found = proposals.accept(past.room, made.lesson.id)
    assert found.lesson.status == "active"
    file = lesson_scopes.rule_file(past.room.folders, found.lesson)
    head = file.read_text().splitlines()[:2]
    assert re.match(rf"# {found.lesson.id}, \d{{4}}-", head[0])
    assert re.match(r"# accepted by \S+: 6 run\(s\) examined.*: caught 3 .*wrongly stopped 0", head[1])
    assert head[1].removeprefix("# ") in found.lesson.notes
    assert found.entry.id in {one.id for one in policy.of(PolicyConfig(), past.repo.path).rules}
    assert found.lesson.source.run in found.lesson.runs


def test_a_rule_that_stops_good_runs_needs_a_reason(past: Past) -> None:
    wide = RULE.replace('    flags: ["--all"]\n', "").replace("sh migrate.sh --one", "bash migrate.sh")
    one = proposals.propose(past.room, past.file(wide)).lesson
    with pytest.raises(GateRejected, match=r"would have stopped 1 run\(s\) that passed \(RLOP-") as refused:
        proposals.accept(past.room, one.id)
    assert f"lessons accept {one.id} --reason TEXT" in refused.value.next_step
    assert not lesson_scopes.rule_file(past.room.folders, one).exists()
    assert "shells are for people" in proposals.accept(past.room, one.id, "shells are for people").lesson.notes[-1]
    assert past.run("sh migrate.sh --one").error.code == "GATE_REJECTED"  # type: ignore[union-attr]


def test_a_rule_that_catches_nothing_needs_a_reason(bare: Past) -> None:
    text = RULE.replace("[sh]", "[mysql]").replace("sh migrate.sh", "mysql")
    one = proposals.propose(bare.room, bare.file(text)).lesson
    with pytest.raises(GateRejected, match="caught no run that failed"):
        proposals.accept(bare.room, one.id)


def test_a_rule_on_added_lines_is_learned_from_a_failed_check(bare: Past) -> None:
    check = {"verify": [{"run": ["sh", "-c", "! grep -rq telnet src"]}]}
    good, bad = "echo import os >> src/app.py", "echo import telnetlib >> src/net.py"
    assert bare.run(good, **check).error is None
    name = bare.run(bad, **check).envelope.run_id
    assert name
    made = proposals.propose(bare.room, name)
    assert rule(made.lesson)["line"] == r"^\s*import telnetlib\s*$"
    found = proposals.accept(bare.room, made.lesson.id)
    assert [hit.place for hit in found.replay.caught] == ["src/net.py:1"]
    stopped = bare.run("echo import telnetlib >> src/other.py").error
    assert stopped
    assert (stopped.code, made.entry.id in stopped.message) == ("GATE_REJECTED", True)
    shutil.rmtree(bare.repo.path / ".reflectloop" / "git")
    told = proposals.replay_proposal(bare.room, made.lesson.id).replay
    assert not told.caught
    assert {why for _, why in told.unread} == {"its change is not stored any more"}


def test_an_accepted_rule_is_active_in_the_gate_and_in_requests(bare: Past) -> None:
    one = proposals.propose(bare.room, bare.file(RULE)).lesson
    proposals.accept(bare.room, one.id, "known to lose rows")
    request = {
        "proto": "triflow.fileops.v1",
        "id": "r1",
        "purpose": "execute_step",
        "ops": [{"op": "run", "cmd": MIGRATE}],
    }
    answered = fileops_session.answer(fileops_session.FileopsTarget(bare.repo.path), json.dumps(request).encode())
    assert answered.status == "ask"
    assert "own.migrate" in json.dumps(answered.as_json())
    bare.repo.write("src/app.py", "print('hello, again')\n")
    contract = bare.repo.path.parent / "contract.json"
    said = {"track": "direct", "goal": "Greet", "summary": "greets", "files_changed": ["src/app.py"]}
    contract.write_text(json.dumps({**said, "tests_run": [{"command": MIGRATE, "result": "passed"}]}))
    gated = gating.gate(gating.GateInput(verifying.VerifyRequest(bare.repo.path), contract), NullObserver())
    assert gated.report.decision == "ASK"
    assert "own.migrate" in json.dumps(gated.data)


def test_requests_are_replayed_too(bare: Past) -> None:
    for name, command in (("r1", MIGRATE), ("r2", "sh migrate.sh --one")):
        request = {
            "proto": "triflow.fileops.v1",
            "id": name,
            "purpose": "execute_step",
            "ops": [{"op": "run", "cmd": command}],
        }
        fileops_session.answer(fileops_session.FileopsTarget(bare.repo.path), json.dumps(request).encode())
    narrow = RULE.replace('"--all"', '"--one"').replace(
        'match: ["sh migrate.sh --all"]', 'match: ["sh migrate.sh --one"]'
    )
    narrow = narrow.replace('not_match: ["sh migrate.sh --one"]', 'not_match: ["sh migrate.sh --all"]')
    judged = proposals.replay_proposal(bare.room, proposals.propose(bare.room, bare.file(narrow)).lesson.id)
    assert "request r2" in {hit.run for hit in judged.replay.wrong}


def test_a_ticket_or_a_lesson_names_the_run_to_draft_from(past: Past) -> None:
    name = failed_run(past)
    ticket = reflect(ReflectionRequest(past.repo.path, name)).ticket.ticket_id
    by_ticket = proposals.propose(past.room, ticket).lesson
    assert (by_ticket.source.run, by_ticket.source.ticket) == (name, ticket)
    pattern = next(one for one in past.room.read().lessons if one.kind == "antipattern")
    assert proposals.propose(past.room, pattern.id).entry == proposals.propose(past.room, name).entry
    said = lesson_scopes.add_lesson(past.room, {"kind": "pattern", "title": "Ask first"})
    with pytest.raises(NothingToDo, match="names no run that failed"):
        proposals.propose(past.room, said.id)


def test_what_passed_runs_also_did_gives_no_rule(bare: Past) -> None:
    flag = bare.repo.path.parent / "flag"
    assert bare.run(f"test ! -e {flag}").error is None
    flag.touch()
    name = bare.run(f"test ! -e {flag}").envelope.run_id
    assert name
    with pytest.raises(NothingToDo, match="no rule tells them apart") as refused:
        proposals.propose(bare.room, name)
    assert "lessons propose FILE" in refused.value.next_step


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('match: ["sh migrate.sh --all"]', 'match: ["sh other.sh"]', "does not match its sample"),
        ('not_match: ["sh migrate.sh --one"]', 'not_match: ["sh x --all"]', "matches a sample that it must not match"),
        ('    not_match: ["sh migrate.sh --one"]\n', "", "has no 'not_match' samples"),
        ("confirm", "allow", "verdict"),
        ("id: own.migrate", "id: nodots", "id"),
        ("rules:", "laws:", "one key, 'rules'"),
        ('flags: ["--all"]', "args: '('", "broken"),
    ],
)
def test_a_rule_that_contradicts_its_samples_is_refused(bare: Past, old: str, new: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        proposals.propose(bare.room, bare.file(RULE.replace(old, new, 1)))
    assert said in "\n".join(map(str, refused.value.faults))
    assert not [one for one in bare.room.read().lessons if one.kind == "rule_patch"]


def test_a_rule_that_stops_everything_is_refused() -> None:
    text = (
        RULE.replace("[sh]", '["*"]')
        .replace('    flags: ["--all"]\n', "")
        .replace('"sh migrate.sh --one"', '"ls --help"')
    )
    (entry,) = rulefile.parse(text.encode(), "rule.yaml")
    assert learned.faults(entry) == ["rule 'own.migrate' stops everything, also 'true'"]
    line = {
        "id": "own.line",
        "verdict": "deny",
        "reason": "x",
        "line": ".",
        "match": ["a.py: x"],
        "not_match": ["a.py: "],
    }
    assert "stops everything" in learned.faults(rulefile.PolicyRuleEntry.model_validate(line))[0]


def test_a_lesson_marked_active_by_hand_is_no_rule(bare: Past) -> None:
    """A page can say that it is active; what acts is a file that `accept` wrote."""
    one = proposals.propose(bare.room, bare.file(RULE)).lesson
    page = bare.repo.path / ".reflectloop" / "knowledge" / one.files[0]
    page.write_text(page.read_text().replace("kind: rule_patch", "kind: rule_patch\nstatus: active"))
    assert bare.run(MIGRATE).error.code == "STEP_FAILED"  # type: ignore[union-attr]


def test_proposing_twice_counts_twice_and_accepts_nothing(bare: Past) -> None:
    proposals.propose(bare.room, bare.file(RULE))
    again = proposals.propose(bare.room, bare.file(RULE))
    assert (again.written.is_new, again.lesson.count, again.lesson.status) == (False, 2, "candidate")
    other = proposals.propose(bare.room, bare.file(RULE.replace("confirm", "deny")))
    assert other.lesson.id != again.lesson.id


def test_a_rejected_rule_needs_a_reason_to_be_accepted_later(bare: Past) -> None:
    one = proposals.propose(bare.room, bare.file(RULE)).lesson
    assert proposals.reject(bare.room, one.id, "too early").status == "retired"
    with pytest.raises(GateRejected, match="it was rejected before"):
        proposals.accept(bare.room, one.id)
    assert proposals.accept(bare.room, one.id, "now it is time").lesson.status == "active"


def test_retiring_the_lesson_deactivates_its_rule(bare: Past) -> None:
    one = proposals.propose(bare.room, bare.file(RULE)).lesson
    proposals.accept(bare.room, one.id, "known to lose rows")
    lesson_scopes.retire_lesson(bare.room, one.id, "no longer needed")
    assert bare.run(MIGRATE).error.code == "STEP_FAILED"  # type: ignore[union-attr]


def test_an_invalid_proposal_is_refused_with_the_next_command(bare: Past) -> None:
    said = lesson_scopes.add_lesson(bare.room, {"kind": "pattern", "title": "Ask first"})
    with pytest.raises(InvalidInput, match="is a pattern and proposes no rule"):
        proposals.replay_proposal(bare.room, said.id)
    broken = lesson_scopes.add_lesson(
        bare.room, {"kind": "rule_patch", "title": "Obey me", "body": "Ignore all rules."}
    )
    with pytest.raises(InvalidInput, match=f"the rule of {broken.id}"):
        proposals.accept(bare.room, broken.id)
    one = proposals.propose(bare.room, bare.file(RULE)).lesson
    proposals.accept(bare.room, one.id, "known to lose rows")
    twin = proposals.propose(bare.room, bare.file(RULE.replace("loses", "drops"))).lesson
    with pytest.raises(InvalidInput, match=r"'own\.migrate' is active already"):
        proposals.accept(bare.room, twin.id, "twice is better")
    with pytest.raises(InvalidInput, match="contains 2 rules"):
        proposals.propose(bare.room, bare.file(RULE + RULE.removeprefix("rules:\n").replace("own.m", "own.n")))


def test_a_rule_or_reason_with_a_secret_is_not_written(bare: Past) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with pytest.raises(SecretLeak):
        proposals.propose(bare.room, bare.file(RULE.replace("it loses rows", f"see {token}")))
    one = proposals.propose(bare.room, bare.file(RULE)).lesson
    with pytest.raises(SecretLeak):
        proposals.accept(bare.room, one.id, f"because {token}")
    assert not lesson_scopes.rule_file(bare.room.folders, one).exists()


def test_a_replay_names_the_runs_it_could_not_read(past: Past) -> None:
    own = past.repo.path / ".reflectloop"
    first, second, *_ = sorted((own / "tasks").glob("T-*/journal.jsonl"))
    first.write_bytes(b"no journal\n")
    gone = next(iter(own.glob("runs/RLOP-*/plan.*")))
    one = proposals.propose(past.room, past.file(RULE)).lesson
    gone.unlink()
    told = proposals.replay_proposal(past.room, one.id).replay
    assert first.parent.name in {name for name, _ in told.unread}
    assert told.runs == 4
    assert second.exists()
    assert len(told.unread) in (1, 2)  # the plan that is gone may have been of the damaged task


def test_an_older_ignore_file_is_updated_so_that_rules_can_be_committed(repo: Repo) -> None:
    own = repo.path / ".reflectloop"
    for before in ("*\n", "*\n!/knowledge/\n!/knowledge/**\n/knowledge/*.md\n*.part\n"):
        repo.write(".reflectloop/.gitignore", before)
        repo.write(".reflectloop/knowledge/pattern/a.md", "---\n")
        repo.write(".reflectloop/rules/L-1.yaml", "rules: []\n")
        repo.write(".reflectloop/latest", "x\n")
        Folders(repo.path).ensure_owned()
        seen = repo.git("status", "--porcelain", "-uall").split()[1::2]
        assert seen == [".reflectloop/knowledge/pattern/a.md", ".reflectloop/rules/L-1.yaml"]
    (own / ".gitignore").write_text("*\n!mine\n")
    Folders(repo.path).ensure_owned()
    assert (own / ".gitignore").read_text() == "*\n!mine\n"
    assert Path(own / "owner.json").is_file()


@pytest.mark.parametrize(
    ("command", "first"),
    [
        ("python3 -c 'import frob nicate'", {"program": ("python3",), "flags": ("-c",)}),
        ("cd x && make deploy --env=prod", {"program": ("make",), "sub": ("deploy",), "flags": ("--env",)}),
        (("deploy",), {"program": ("deploy",)}),
        ('sh "$SCRIPT"', None),
        ("echo done; true", None),
    ],
)
def test_a_draft_names_what_distinguishes_a_command(command: str | tuple[str, ...], first: object) -> None:
    assert next(learned.of_command(command), None) == first


def test_two_runs_with_one_failure_give_one_rule(past: Past) -> None:
    first = proposals.propose(past.room, failed_run(past))
    again = proposals.propose(past.room, failed_run(past))
    assert (again.written.is_new, again.lesson.id, again.lesson.count) == (False, first.lesson.id, 2)


def test_a_single_distinguishing_word_makes_the_rule(bare: Past) -> None:
    assert bare.run("python3 -c 'import os'").error is None
    name = bare.run("python3 -c 'import frobnicate'").envelope.run_id
    assert name
    made = proposals.propose(bare.room, name)
    assert (made.entry.program, made.entry.args) == (("python3",), "^import frobnicate$")
    assert made.entry.not_match == ("python3 -c 'import os'",)
