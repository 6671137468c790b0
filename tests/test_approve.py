"""A person's yes: typed on a terminal, recorded, bound to base, change and finding, and never an agent's."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gate_builders import FULL_CONTRACT
from reflectloop import api
from reflectloop.state import journal
from reflectloop.trust import person
from scripted_task import DONE, WRITE, Crew
from support import Answer, Repo
from test_secret_gate import SETTING

pytestmark = pytest.mark.usefixtures("without_probing")

SETTINGS = (
    '[verify]\nchecks = [{name = "suite", run = ["sh", "check.sh"], kind = "custom"}]\n[box]\nstrongest = "workspace"\n'
)
TESTS = "import app\n\n\ndef test_f():\n    assert app.f() == 1\n\n\ndef test_g():\n    assert app.f() != 2\n"
WEAKER = TESTS.replace("    assert app.f() == 1\n", "    pass\n")
WEAKEST = WEAKER.replace("    assert app.f() != 2\n", "    pass\n")
REASON = "f may return anything from now on"
PROMPT = b"Type yes to approve: "


@pytest.fixture(autouse=True)
def _not_by_an_agent() -> None:
    """The suite itself may have been started by an agent, which nobody can hide from the command."""
    sign = next(person.ancestor_signs(hooks=True), None)
    if sign:
        pytest.skip(f"an agent runs these tests: {sign}")


@pytest.fixture
def shop(repo: Repo) -> Repo:
    repo.write("reflectloop.toml", SETTINGS)
    repo.write("check.sh", "test ! -e broken\n")
    repo.write("app.py", "def f():\n    return 1\n")
    repo.write("tests/test_app.py", TESTS)
    repo.commit("a project with tests")
    return repo


class Typed:
    """A command on a terminal of its own, where a person types."""

    def __init__(
        self,
        repo: Repo,
        *words: str,
        reply: bytes = b"yes\n",
        prompt: bytes = PROMPT,
        env: Mapping[str, str] | None = None,
    ) -> None:
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(repo.path)
            os.execve(sys.executable, [sys.executable, "-m", "reflectloop", *words], {**os.environ, **(env or {})})  # noqa: S606
        shown, replied = b"", False
        deadline = time.monotonic() + 120
        while select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0]:
            try:
                shown += os.read(terminal, 65536)
            except OSError:
                break
            if prompt in shown and not replied:
                replied = True
                os.write(terminal, reply)
        else:
            os.kill(pid, signal.SIGKILL)
        self.code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(terminal)
        self.text, self.asked = shown.decode("utf-8", "replace").replace("\r\n", "\n"), replied


def approve(repo: Repo, *words: str, reason: str = REASON, **more: Any) -> Typed:
    return Typed(repo, "approve", *words, "--reason", reason, **more)


def verified(repo: Repo, *words: str | Path) -> Answer:
    return repo.run("verify", "--json", *words)


def reviewed(repo: Repo, text: str = WEAKER) -> Answer:
    """Return the verification of a change that weakens a test."""
    repo.write("tests/test_app.py", text)
    answer = verified(repo)
    assert answer.code == 33, answer.stdout
    assert answer.json["data"]["outcome"] == "REVIEW", answer.json["data"]["reasons"]
    return answer


def findings(answer: Answer) -> list[str]:
    return [reason["finding"] for reason in answer.json["data"]["reasons"]]


def run_id(answer: Answer) -> str:
    return str(answer.envelope["run_id"])


def receipt(repo: Repo, name: str) -> dict[str, Any]:
    answer = repo.run("receipt", "verify", name, "--json")
    assert answer.code == 0, answer.stdout
    found: dict[str, Any] = answer.json["data"]["receipt"]
    return found


# A verification ----------------------------------------------------------------------------------------------------


def test_an_approved_verification_passes_and_its_receipt_says_who_and_why(shop: Repo) -> None:
    answer = reviewed(shop)
    assert answer.envelope["next"] == f"reflectloop approve {run_id(answer)} --reason TEXT"
    assert answer.envelope["next"] in shop.run("show", run_id(answer)).stdout
    done = approve(shop, run_id(answer))
    assert done.code == 0, done.text
    assert f"approved {answer.json['data']['reasons'][0]['text']}" in shop.run("show", run_id(answer)).stdout
    assert findings(answer)[0] in done.text
    assert "PASS" in done.text
    written = receipt(shop, run_id(answer))
    assert (written["decision"], written["outcome"], written["reasons"]) == ("PASS", "PASS", [])
    assert [item["finding"] for item in written["approvals"]] == findings(answer)
    assert "Test <test@localhost>" in written["approvals"][0]["approval"]
    assert REASON in written["approvals"][0]["approval"]
    again = verified(shop)
    assert again.code == 0
    assert [item["finding"] for item in again.json["data"]["approved"]] == findings(answer)


def test_reports_for_other_tools_name_the_outcome_and_suppress_what_is_approved(shop: Repo, tmp_path: Path) -> None:
    shop.write("tests/test_app.py", WEAKER)
    words = ("--junit", tmp_path / "v.xml", "--sarif", tmp_path / "v.sarif")
    answer = verified(shop, *words)
    [finding] = findings(answer)
    assert 'type="REVIEW" message="REVIEW: tests/test_app.py' in (tmp_path / "v.xml").read_text()
    assert f'"text": "REVIEW {finding}: ' in (tmp_path / "v.sarif").read_text()
    summary = api.verify(project=shop.path)
    assert (summary.ok, summary.outcome, summary.findings) == (False, "REVIEW", (finding,))
    assert verified(shop, "--approve-file", filled(shop, answer), *words).code == 0
    results = json.loads((tmp_path / "v.sarif").read_text())["runs"][0]["results"]
    [accepted] = [result["suppressions"][0] for result in results if "suppressions" in result]
    assert (accepted["status"], accepted["justification"][:5]) == ("accepted", "Ann: ")
    assert "approved: tests/test_app.py" in (tmp_path / "v.xml").read_text()


def test_another_patch_or_base_needs_another_yes(shop: Repo) -> None:
    assert approve(shop, run_id(reviewed(shop))).code == 0
    shop.write("app.py", "def f():\n    return 3\n")
    assert verified(shop).code == 33  # the same finding, on another change
    shop.git("checkout", "-q", "app.py")
    assert verified(shop).code == 0
    shop.write("tests/test_app.py", TESTS)
    shop.write("README.md", "another base\n")
    shop.commit("another base")
    assert reviewed(shop).code == 33


def test_what_is_not_approved_still_waits(shop: Repo) -> None:
    answer = reviewed(shop, WEAKEST)
    first, second = findings(answer)
    done = approve(shop, run_id(answer), first[:6])
    assert done.code == 33, done.text
    assert "1 more will still wait" in done.text
    assert receipt(shop, run_id(answer))["outcome"] == "REVIEW"
    assert approve(shop, run_id(answer), first).code == 12  # it waits no longer
    done = approve(shop, run_id(answer))
    assert (done.code, second in done.text, first in done.text) == (0, True, False)
    assert [item["finding"] for item in receipt(shop, run_id(answer))["approvals"]] == [first, second]


@pytest.mark.parametrize("reply", [b"y\n", b"\x04"])
def test_only_the_word_yes_approves(shop: Repo, reply: bytes) -> None:
    answer = reviewed(shop)
    done = approve(shop, run_id(answer), reply=reply)
    assert (done.code, done.asked) == (40, True)
    assert verified(shop).code == 33


def test_without_a_terminal_the_way_for_ci_is_named(shop: Repo) -> None:
    answer = reviewed(shop)
    done = shop.run("approve", run_id(answer), "--reason", REASON)
    assert done.code == 40
    assert "--print" in done.stderr
    assert "--approve-file FILE" in done.stderr


@pytest.mark.parametrize("mark", ["CLAUDECODE", "CODEX_SANDBOX", "GEMINI_CLI", "CURSOR_AGENT", "REFLECTLOOP_RUN"])
def test_an_agent_cannot_approve(shop: Repo, mark: str) -> None:
    done = shop.run("approve", "latest", "--reason", REASON, env={mark: "1"})
    assert (done.code, f"a program started this command ({mark})" in done.stderr) == (40, True)
    given = shop.run("verify", "--approve-file", "/dev/null", env={mark: "1"})
    assert (given.code, mark in given.stderr) == (40, True)


@pytest.mark.parametrize(("name", "sign"), [("claude", b"(claude, process"), ("git", b"(a hook of git, process")])
def test_a_program_that_hides_its_variables_is_seen_by_its_process(
    shop: Repo, tmp_path: Path, name: str, sign: bytes
) -> None:
    program = tmp_path / name
    program.symlink_to("/bin/sh")
    words = [sys.executable, "-m", "reflectloop", "approve", "latest", "--reason", REASON]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(shop.path)
        os.execve(program, [str(program), "-c", '"$@"; exit $?', "sh", *words], os.environ)  # noqa: S606
    shown = b""
    while select.select([terminal], [], [], 60)[0]:
        try:
            shown += os.read(terminal, 65536)
        except OSError:
            break
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 40
    assert b"a program started this command " + sign in shown


def test_a_person_may_have_settings_of_agents() -> None:
    assert person.agent_sign({"CODEX_HOME": "x", "CODEX_API_KEY": "x", "PATH": "x", "AGENT": "linux-1"}) is None
    assert person.agent_sign({"AGENT": "goose"}) == "AGENT=goose"
    assert person.program_sign(["/usr/bin/node", "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js"])
    assert person.program_sign(["/bin/bash", "claude"]) is None
    assert person.program_sign(["/usr/bin/python3", "-m", "pytest"]) is None


def test_bad_input_is_refused_with_the_next_command(shop: Repo) -> None:
    answer = reviewed(shop)
    name = run_id(answer)
    for words, code, text in (
        ((name, "--reason", "  "), 12, "the reason is empty"),
        ((name,), 2, "--reason TEXT"),
        ((name, "0123456789", "--reason", "x"), 12, f"it has: {findings(answer)[0]}"),
        (("RLOP-20260101-000000", "--reason", "x"), 14, "there is no run or verification"),
    ):
        done = shop.run("approve", *words)
        assert (done.code, text in done.stderr) == (code, True), done.stderr


def test_status_show_and_log_know_the_verification_that_came_last(shop: Repo) -> None:
    assert shop.run("run", shop.steps("true")).code == 0
    name = run_id(reviewed(shop))
    status = shop.run("status", "--json").json["data"]
    assert [check["run_id"] for check in status["verifications"]] == [name]
    assert status["next"] == f"reflectloop approve {name} --reason TEXT"
    assert name in shop.run("show", "latest").stdout
    assert shop.run("run", "--new", shop.steps("echo once more")).code == 0
    assert shop.run("status", "--json").json["data"]["verifications"] == []
    assert name not in shop.run("show", "latest").stdout


def test_a_file_of_approvals_that_nobody_filled_in_says_what_to_write(shop: Repo, tmp_path: Path) -> None:
    answer = reviewed(shop)
    file = tmp_path / "approvals.yaml"
    file.write_text(shop.run("approve", run_id(answer), "--print").stdout)
    done = shop.run("verify", "--approve-file", file)
    assert done.code == 12
    assert "next: write who approves, and why, in approvals.yaml" in done.stderr


def test_nobody_approves_a_failing_check(shop: Repo) -> None:
    shop.write("tests/test_app.py", WEAKER)
    shop.write("broken", "")
    answer = verified(shop)
    assert answer.json["data"]["outcome"] == "REFUSED"
    done = shop.run("approve", run_id(answer), "--reason", REASON)
    assert done.code == 14
    assert "REFUSED, and nobody can approve that: suite" in done.stderr
    assert "reflectloop receipt show" in done.stderr


def test_a_changed_record_is_not_approved(shop: Repo) -> None:
    """Whoever can write the project's folder must not show a person another text than what was found."""
    answer = reviewed(shop)
    folder = shop.path / ".reflectloop" / "verifications" / run_id(answer)
    verdict = json.loads((folder / "verdict.json").read_text())
    verdict["data"]["reasons"][0]["text"] = "a comment was corrected"
    (folder / "verdict.json").write_text(json.dumps(verdict))
    assert "verdict.json is not the file that was written" in shop.run("approve", run_id(answer), "--print").stderr
    from reflectloop.verification import evidence

    content = json.loads((folder / "receipt.json").read_text())
    evidence.update_receipt(folder, content, {})
    done = shop.run("approve", run_id(answer), "--reason", REASON)
    assert (done.code, "is not the one that was found" in done.stderr) == (12, True)


def test_a_store_that_others_can_write_is_not_believed(shop: Repo) -> None:
    assert approve(shop, run_id(reviewed(shop))).code == 0
    [store] = (Path(os.environ["HOME"]) / ".local/state/reflectloop/approvals").glob("*.json")
    assert store.stat().st_mode & 0o777 == 0o600
    store.chmod(0o666)
    assert verified(shop).envelope["error_code"] == "NOT_TRUSTED"
    store.chmod(0o600)
    store.write_text(store.read_text().replace('"tree": "', '"tree": "0'))
    assert "about another change" in verified(shop).envelope["message"]


# A file for CI -----------------------------------------------------------------------------------------------------


def filled(shop: Repo, answer: Answer, name: str = "approvals.yaml", **fields: str) -> Path:
    """Return the file that `--print` makes, filled in by a person."""
    printed = shop.run("approve", run_id(answer), "--print")
    assert printed.code == 0, printed.stderr
    document = yaml.safe_load(printed.stdout)
    for entry in document["approvals"]:
        assert (entry["by"], entry["reason"]) == ("", "")
        entry |= {"by": "Ann", "reason": REASON, **fields}
    path = shop.path.parent / name
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_file_approves_this_change_and_no_other(shop: Repo) -> None:
    path = filled(shop, reviewed(shop))
    answer = verified(shop, "--approve-file", path)
    assert answer.code == 0, answer.stdout
    assert answer.json["data"]["approved"][0]["approval"] == f"Ann: {REASON} (approvals.yaml)"
    assert receipt(shop, run_id(answer))["approvals"][0]["approval"].startswith("Ann: ")
    assert f"approved {answer.json['data']['approved'][0]['text']}; Ann: " in shop.run("receipt", "show").stdout
    shop.write("app.py", "def f():\n    return 3\n")
    replayed = verified(shop, "--approve-file", path)
    assert replayed.code == 33
    assert "does not count: it is for another change" in replayed.envelope["warnings"][0]
    assert replayed.json["data"]["approved"] == []


def test_a_file_with_faults_is_refused(shop: Repo) -> None:
    answer = reviewed(shop)
    for path, text in (
        (filled(shop, answer, reason=" "), "approvals[0].reason: must not be empty"),
        (filled(shop, answer, "blank.yaml", by="", reason=""), "line 3: approvals[0].by: must not be empty"),
        (filled(shop, answer, "other.yaml", other="x"), "approvals[0].other: is not a field"),
        (shop.path.parent / "none.yaml", "No such file"),
        (shop.write("in-project.yaml", "approvals: []\n"), "lies in the project"),
    ):
        done = verified(shop, "--approve-file", path)
        assert (done.code, text in done.envelope["message"]) == (12, True), done.stdout


# A run -------------------------------------------------------------------------------------------------------------


def weakening_plan(shop: Repo, text: str = WEAKER, **plan: Any) -> Path:
    steps = [{"id": "work", "commands": [["python3", "-c", f"open('tests/test_app.py', 'w').write({text!r})"]]}]
    fields = {"title": "Test", "track": "direct", "steps": steps, **plan}
    return shop.plan(json.dumps({"plan": fields}))


def test_a_run_is_approved_and_applied(shop: Repo) -> None:
    refused = shop.run("run", "--json", weakening_plan(shop))
    assert refused.code == 33, refused.stdout
    name = run_id(refused)
    assert refused.envelope["next"] == f"reflectloop approve {name} --reason TEXT"
    assert shop.run("apply", name).code == 14
    status = shop.run("status").stdout
    assert "REVIEW (GATE_REJECTED)  waits for a person" in status
    assert f"reflectloop approve {name}" in status
    assert f"reflectloop approve {name}" in shop.run("route").stdout
    assert "**REVIEW**" in shop.run("show", name).stdout
    done = approve(shop, name)
    assert done.code == 0, done.text
    assert f"reflectloop apply {name}" in done.text
    written = receipt(shop, name)
    assert (written["outcome"], len(written["approvals"])) == ("PASS", 1)
    assert "PASS (1 file(s) changed)  approved by Test <test@localhost>" in shop.run("status").stdout
    assert REASON in shop.run("show", name).stdout
    assert shop.run("apply", name, "--yes").code == 0
    assert (shop.path / "tests/test_app.py").read_text() == WEAKER
    [path] = (shop.path / ".reflectloop" / "tasks").glob("*/journal.jsonl")
    kinds = [entry.event.kind for entry in journal.read(path)]
    assert kinds[-6:] == ["run_reopened", "approved", "run_resumed", "gate_decided", "run_finished", "applied"]
    assert shop.run("tasks", "--json").json["data"][0]["state"] == "DONE"


def test_the_same_work_again_needs_no_new_yes_and_no_try_is_counted(shop: Repo) -> None:
    """Dead code goes with its tests, as the plan says; the sealed checks hold, and a person must agree."""
    steps = [{"id": "rm", "commands": ["rm app.py tests/test_app.py"]}]
    fields = {"title": "Remove it", "track": "direct", "steps": steps, "checks": {"suite": {"run": "sh check.sh"}}}
    plan = shop.plan(json.dumps({"plan": {**fields, "may_change_protected": ["tests/test_app.py"]}}))
    for _ in range(4):
        refused = shop.run("run", "--json", plan)
        assert refused.envelope["error_code"] == "GATE_REJECTED"  # never MAX_RETRIES
        assert "(file-deleted)" in refused.envelope["message"]
    assert approve(shop, run_id(refused)).code == 0
    assert shop.run("run", "--json", plan).code == 0
    assert shop.run("apply", "--yes").code == 0
    assert not (shop.path / "app.py").exists()


def test_a_file_approves_the_change_of_a_run(shop: Repo) -> None:
    plan = weakening_plan(shop)
    path = filled(shop, shop.run("run", "--json", plan))
    done = shop.run("run", "--json", "--approve-file", path, plan)
    assert done.code == 0, done.stdout
    assert receipt(shop, run_id(done))["approvals"][0]["approval"] == f"Ann: {REASON} (approvals.yaml)"


def test_an_approval_of_a_rule_lets_the_next_gate_judge(shop: Repo) -> None:
    """A file that runs by itself stops a change before it must be proven; that it must be proven stays."""
    steps = [{"id": "work", "commands": ["mkdir -p .husky && echo make > .husky/pre-commit"]}]
    plan = shop.plan(json.dumps({"plan": {"title": "T", "steps": steps, "verification": {"mode": "custom"}}}))
    first = shop.run("run", "--json", plan)
    assert (first.code, "autorun.git-hooks" in first.envelope["message"]) == (33, True), first.stdout
    done = approve(shop, run_id(first))
    assert (done.code, "NOT JUDGED" in done.text) == (53, True), done.text  # no check of that kind
    assert receipt(shop, run_id(first))["outcome"] == "NOT JUDGED"


def contract_for(shop: Repo, *paths: str) -> Path:
    contract = shop.path.parent / "contract.json"
    fields = {**FULL_CONTRACT, "track": "refactor", "acceptance": [{"id": "A", "text": "holds", "check": "suite"}]}
    contract.write_text(json.dumps({**fields, "files_changed": list(paths), "may_change": ["**"]}))
    return contract


def test_gate_judges_again_after_an_approval(shop: Repo) -> None:
    shop.write(".husky/pre-commit", "make check\n")
    shop.write("tests/test_app.py", WEAKER)
    contract = contract_for(shop, ".husky/pre-commit", "tests/test_app.py")
    answer = shop.run("gate", "--json", "--contract", contract)
    assert (answer.code, answer.json["data"]["outcome"]) == (33, "REVIEW"), answer.stdout
    assert [stage["gate"] for stage in answer.json["data"]["gates"]] == ["rules"]
    finding = answer.json["data"]["gates"][0]["reasons"][0]["finding"]
    assert answer.envelope["faults"][0]["path"] == finding
    page = shop.path / ".reflectloop/verifications" / run_id(answer) / "gates.md"
    assert "**Outcome**: REVIEW" in page.read_text()
    assert f"- `{finding}` .husky/pre-commit" in page.read_text()
    name = run_id(answer)
    done = approve(shop, name)
    assert done.code == 33, done.text  # the proof gate has findings of its own
    assert "tests/test_app.py" in done.text
    done = approve(shop, name)
    assert done.code == 0, done.text
    approved = " ".join(item["text"] for item in receipt(shop, name)["approvals"])
    assert ("autorun.git-hooks" in approved, "tests/test_app.py" in approved) == (True, True)
    shown = shop.run("gate", "--contract", contract)
    assert (shown.code, shown.stderr.splitlines()[0]) == (0, "PASS")
    assert "approved .husky/pre-commit: git runs it on the next commit, checkout or push (autorun.git-hooks); Test" in (
        shown.stderr
    )


def test_what_may_be_a_secret_is_not_stored_so_gate_is_asked_again(shop: Repo) -> None:
    shop.write("app.py", "def f():\n    return 1\n\n\ndb_" + SETTING)
    contract = contract_for(shop, "app.py")
    answer = shop.run("gate", "--json", "--contract", contract)
    assert (answer.code, answer.json["data"]["outcome"]) == (33, "REVIEW"), answer.stdout
    done = approve(shop, run_id(answer))
    assert (done.code, "for the same change" in done.text) == (33, True), done.text
    again = shop.run("gate", "--json", "--contract", contract)
    assert (again.code, again.json["data"]["outcome"]) == (0, "PASS"), again.stdout


# Tasks of agents and of requests -----------------------------------------------------------------------------------


def test_a_task_done_by_requests_is_approved_and_applied(shop: Repo) -> None:
    ops = [
        {"op": "triflow_plan_init", "taskName": "Loosen", "steps": [{"title": "Loosen the test"}]},
        {"op": "triflow_state_preflight"},
        {"op": "write_file", "path": "tests/test_app.py", "content": WEAKER},
        {"op": "run", "cmd": ["test", "-s", "tests/test_app.py"]},
        {"op": "triflow_state_finalize"},
    ]
    request = {"proto": "triflow.fileops.v1", "id": "A-1", "purpose": "execute_step", "ops": ops}
    (shop.path.parent / "request.json").write_text(json.dumps(request))
    assert shop.run("fileops", shop.path.parent / "request.json").code == 0
    refused = shop.run("resume", "--json")
    assert (refused.code, "REVIEW" in refused.envelope["message"]) == (33, True), refused.stdout
    name = run_id(refused)
    assert f"reflectloop approve {name}" in shop.run("status").stdout
    done = approve(shop, name)
    assert done.code == 0, done.text
    assert shop.run("apply", name, "--yes").code == 0
    assert shop.run("tasks", "--json").json["data"][0]["state"] == "DONE"


def test_a_task_of_agents_waits_for_a_person_and_no_agent_repairs_it(repo: Repo) -> None:
    hook = {"op": "write_file", "path": ".husky/pre-commit", "content": "make check\n"}
    crew = Crew(repo).plays({"role": "executor", "ops": [WRITE, hook], "answer": DONE})
    result = crew.story()
    assert result.error
    assert (result.error.review, len(result.run.steps)) == (True, 1)
    assert result.error.next_step == f"reflectloop approve {result.run.id} --reason TEXT"
    assert result.error.next_step in repo.run("status").stdout
    assert result.error.next_step in repo.run("route").stdout
    asked = len(crew.history())
    again = crew.work()
    assert again.error
    assert again.error.review
    assert [event.kind for event in crew.history()[asked:]] == ["gate_decided"]  # no agent is asked
    done = approve(repo, result.run.id)
    while done.code == 33:  # the proof gate asks about the hook as well
        done = approve(repo, result.run.id)
    assert done.code == 0, done.text
    assert repo.run("apply", result.run.id, "--yes").code == 0
    assert (repo.path / ".husky/pre-commit").exists()


def test_apply_asks_about_the_files_or_about_the_branch(repo: Repo) -> None:
    assert repo.run("run", repo.steps("echo 1 > new.txt")).code == 0
    on_branch = Typed(repo, "apply", "--branch", "fix", prompt=b"[Y/n]", reply=b"n\n")
    assert "Commit this change of 1 file(s) on the branch fix?" in on_branch.text
    assert "nothing was changed" in on_branch.text
    to_files = Typed(repo, "apply", prompt=b"[Y/n]", reply=b"y\n")
    assert "Apply this to 1 file(s)?" in to_files.text
    assert (repo.path / "new.txt").exists()
