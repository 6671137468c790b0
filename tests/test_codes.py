"""Every published code that can be reached, through the command line: envelope, exit code, what to do next."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from reflectloop.errors import published
from reflectloop.system import files
from reflectloop.workspace.folders import Folders
from support import Answer, Repo, reflectloop, start, wait_until

KEY = "sk-" + "a1b2c3d4e5f6a7b8c9"


class Story(NamedTuple):
    code: str
    exit_code: int
    tell: Callable[[Repo], Answer]
    missing: list[str] | None = None


def _doubtful(repo: Repo) -> Answer:
    half = '"Vq8#zT1'
    return repo.run("run", "--json", repo.steps(f"printf 'password = %s%s\\n' '{half}' 'xLw92\"' > settings.py"))


def _bare(repo: Repo) -> Answer:
    repo.git("init", "-q", "--bare", "../bare.git")
    return reflectloop(repo.path.parent / "bare.git", "run", "--json")


def _no_commits(repo: Repo) -> Answer:
    repo.git("init", "-q", "../empty")
    return reflectloop(repo.path.parent / "empty", "run", "--json", str(repo.steps("true")))


def _unrunnable(repo: Repo) -> Answer:
    repo.write("src/app.py", "VALUE = 2\n")
    return repo.run("verify", "--json")


def _locked(repo: Repo) -> Answer:
    engine = start(repo.path, "run", str(repo.steps("sleep 30")))
    try:
        assert wait_until(lambda: list((repo.path / ".reflectloop").glob("runs/*/logs/*.log")))
        return repo.run("run", "--json", repo.steps("true"))
    finally:
        engine.send_signal(signal.SIGTERM)
        engine.wait()


def _damaged(repo: Repo) -> Answer:
    plan = repo.steps("false")
    repo.run("run", plan)
    (journal,) = (repo.path / ".reflectloop" / "tasks").glob("*/journal.jsonl")
    raw = bytearray(journal.read_bytes())
    raw[raw.index(b"run_started")] ^= 1
    journal.write_bytes(raw)
    return repo.run("run", "--json", plan)


def _conflict(repo: Repo) -> Answer:
    assert repo.run("run", repo.steps("echo theirs > src/app.py")).code == 0
    repo.write("src/app.py", "mine\n")
    answer = repo.run("apply", "--yes", "--json")
    assert (repo.path / "src/app.py").read_text() == "mine\n"
    return answer


def _changed_records(repo: Repo) -> Answer:
    assert repo.run("run", repo.steps("echo theirs > src/app.py")).code == 0
    (repo.latest() / "evidence.jsonl").write_text("")
    return repo.run("apply", "--yes", "--json")


def _other_key(repo: Repo) -> Answer:
    assert repo.run("run", repo.steps("echo theirs > src/app.py")).code == 0
    return repo.run("apply", "--yes", "--json", env={"XDG_STATE_HOME": str(repo.path.parent / "other")})


def _latched(repo: Repo) -> Answer:
    plan = repo.steps("false")
    assert repo.run("run", plan).code == 30
    return repo.run("run", "--json", plan)


def _too_often(repo: Repo) -> Answer:
    assert repo.run("run", repo.steps("false")).code == 30
    return repo.run("run", "--json", "--max-retries", "1", repo.steps("exit 2"))


def _plays(repo: Repo, entry: str, settings: str = "") -> None:
    repo.write("../agent.yaml", f"script:\n  - {entry}\n")
    roles = '[roles]\nplanner = "script"\nexecutor = "script"\n[agents.script]\nfile = "../agent.yaml"\n'
    repo.write("reflectloop.toml", roles + settings)


def _speechless(repo: Repo) -> Answer:
    _plays(repo, "{role: executor, answer: {control: step_done}}")
    return repo.run("tp", "--json", "--yes", "a goal")


def _greedy(repo: Repo) -> Answer:
    _plays(repo, "{answer: {control: fail}, usage: {output_tokens: 50}}", "[cost]\ntokens = 40\n")
    return repo.run("run", "--json", repo.plan(AGENT.replace("title: T", "title: T, track: direct")))


def _untrusted(repo: Repo) -> Answer:
    repo.write("reflectloop.toml", '[roles]\nexecutor = "own"\n[agents.own]\nkind = "command"\nrun = ["true"]\n')
    words = ("run", "--json", str(repo.plan(AGENT)))
    return reflectloop(repo.path, *words, env={"REFLECTLOOP_TRUST_PROJECT": ""})


AGENT = "plan: {title: T, steps: [{id: a, agent: {prompt: do it}}]}"

STORIES = [
    Story(
        "MISSING_PLAN",
        10,
        lambda repo: repo.run("run", "--json"),
        [".reflectloop/plan.yaml", ".claude/state/thinking/plan.latest.yaml"],
    ),
    Story("MISSING_PLAN", 10, lambda repo: repo.run("run", "--json", "none.yaml"), ["none.yaml"]),
    Story("INVALID_PLAN", 11, lambda repo: repo.run("run", "--json", repo.plan("plan: {}"))),
    Story(
        "INVALID_INPUT",
        12,
        lambda repo: (repo.write("reflectloop.toml", "[run]\ngrase_s = 1\n"), repo.run("config", "--json"))[1],
    ),
    Story("NOTHING_TO_DO", 14, lambda repo: repo.run("diff", "--json")),
    Story("UNSUPPORTED_REPOSITORY", 16, _bare),
    Story("UNSUPPORTED_REPOSITORY", 16, _no_commits),
    Story("NOT_TRUSTED", 17, _untrusted, ["trust:roles.executor"]),
    Story(
        "SANDBOX_CREATE_FAILED",
        20,
        lambda repo: (repo.weaken(), repo.run("run", "--json", "--isolation", "full", repo.steps("true")))[1],
        ["isolation:full"],
    ),
    Story("GATE_REJECTED", 33, _doubtful),
    Story("STEP_FAILED", 30, lambda repo: repo.run("run", "--json", repo.steps("false"))),
    Story("STEP_TIMEOUT", 31, lambda repo: repo.run("run", "--json", repo.steps("sleep 30", timeout_s=1))),
    Story(
        "VERIFICATION_FAILED", 32, lambda repo: repo.run("run", "--json", repo.steps("true", verify=[{"run": "false"}]))
    ),
    Story("APPLY_CONFLICT", 34, _conflict, ["src/app.py"]),
    Story("RECORDS_DISAGREE", 35, _changed_records),
    Story("NOT_AUTHENTICATED", 36, _other_key),
    Story(
        "NEEDS_INPUT", 40, lambda repo: repo.run("run", "--json", repo.steps("printf 'Password: '; sleep 30", idle_s=1))
    ),
    Story("LATCHED", 41, _latched),
    Story("MAX_RETRIES", 42, _too_often),
    Story("BUDGET_SPENT", 43, _greedy),
    Story("LOCKED", 50, _locked),
    Story("STATE_DAMAGED", 51, _damaged),
    Story("NOT_JUDGED", 53, _unrunnable),
    Story("AGENT_FAILED", 60, _speechless),
    Story("AGENT_UNAVAILABLE", 61, lambda repo: repo.run("run", "--json", repo.plan(AGENT)), ["role:executor"]),
    Story("SANDBOX_ESCAPE", 98, lambda repo: repo.run("run", "--json", repo.steps("true", cwd=".."))),
    Story("SECRET_LEAK", 99, lambda repo: repo.run("run", "--json", repo.steps(f"echo key = {KEY[:6]}''{KEY[6:]}"))),
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.code)
def test_a_code_is_in_the_envelope_and_is_the_exit_code(story: Story, repo: Repo) -> None:
    answer = story.tell(repo)
    assert answer.envelope["error_code"] == story.code
    assert answer.code == story.exit_code
    assert answer.envelope["status"] == "ERROR"
    assert answer.envelope["next"]
    assert answer.envelope["message"]
    if story.missing is not None:
        assert answer.envelope["missing_inputs"] == story.missing


def test_every_published_code_has_a_story() -> None:
    told = {story.code for story in STORIES} | {
        "INTERRUPTED",  # told in test_process
        "NO_SPACE",  # told in test_power
        "INTERNAL",  # below
    }
    assert {error.code for error in published()} == told
    assert all(
        error.exit_code == next(s.exit_code for s in STORIES if s.code == error.code)
        for error in published()
        if error.code in {s.code for s in STORIES}
    )


def test_a_bug_of_ours_is_called_one(repo: Repo) -> None:
    assert repo.run("run", repo.steps("true")).code == 0
    (repo.latest() / "result.yaml").unlink()
    (repo.latest() / "result.yaml").mkdir()
    answer = repo.run("show", "--json")
    assert answer.code == 70
    assert answer.envelope["error_code"] == "INTERNAL"
    assert "Traceback" not in answer.stderr
    assert "Traceback" in repo.run("show", "--debug", "--json").stderr


def test_bad_flags_are_usage_and_a_typo_gets_a_suggestion(repo: Repo) -> None:
    answer = repo.run("stauts")
    assert answer.code == 2
    assert "Did you mean 'status'" in answer.stderr
    told = repo.run("run", "--no-such-flag", "--json")
    assert told.code == 2
    assert told.envelope["error_code"] == "USAGE"
    assert repo.run("run", "a", "--plan", "b").code == 2


def test_words_for_people_name_the_code_the_place_and_the_next_command(repo: Repo) -> None:
    plan = repo.plan("plan:\n  title: T\n  steps:\n    - id: a\n      comands: [x]\n")
    answer = repo.run("run", plan)
    assert answer.code == 11
    assert answer.stderr.startswith("INVALID_PLAN: ")
    assert "line 5: steps[0].comands: unknown key 'comands'; did you mean 'commands'?" in answer.stderr
    assert f"next: correct it, then: reflectloop plan check {plan}" in answer.stderr


def test_a_fault_found_at_load_leaves_a_blocker_and_no_workspace(repo: Repo) -> None:
    answer = repo.run("run", "--json", repo.plan("plan: {}"))
    assert answer.code == 11
    assert (repo.latest() / "blocker.yaml").exists()
    assert repo.workspaces() == []
    assert not (repo.path / ".reflectloop" / "tasks").exists()


def test_help_and_version_import_nothing_heavy(tmp_path: Path) -> None:
    heavy = ["pydantic", "rich", "yaml", "re2", "httpx", "reflectloop.engine", "reflectloop.plan"]
    for flag in ("--help", "--version"):
        program = (
            "import sys\n"
            "from reflectloop.cli.main import main\n"
            f"try: main([{flag!r}])\n"
            "except SystemExit as left: assert not left.code\n"
            f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)\n"
        )
        done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=True)
        assert done.stderr.decode().strip() == "[]"


def test_output_into_a_closed_pipe_is_no_fault(repo: Repo) -> None:
    assert repo.run("run", repo.steps("seq 200000")).code == 0
    line = f"{sys.executable} -m reflectloop log | head -1"
    done = subprocess.run(["bash", "-c", line], cwd=repo.path, capture_output=True, check=False)
    assert done.stdout == b"1\n"
    assert done.stderr == b""


def test_two_engines_in_one_project_never_mix(repo: Repo) -> None:
    plan = str(repo.steps("sleep 0.5"))
    engines = [start(repo.path, "run", "--json", plan) for _ in range(4)]
    told = [json.loads(engine.ended().stdout)["envelope"] for engine in engines]
    codes = sorted(envelope["error_code"] or "OK" for envelope in told)
    assert codes.count("OK") >= 1, told
    assert set(codes) <= {"OK", "LOCKED"}
    refusals = [envelope["message"] for envelope in told if envelope["error_code"] == "LOCKED"]
    assert all("pid" in message or "did not sign the lock" in message for message in refusals)  # it has just begun
    time.sleep(0.05)
    assert repo.run("run", repo.steps("true")).code == 0


def test_an_engine_that_begins_at_once_with_another_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other engine takes the folder over after this one saw that nobody owns it, and begins a run."""
    ours = Folders(tmp_path)

    @contextlib.contextmanager
    def other_was_first(_path: Path) -> Iterator[None]:
        (ours.own / "owner.json").write_text(json.dumps(files.identity_of(ours.own)))
        (ours.own / "runs" / "RLOP-20260101-aaaaaa").mkdir(parents=True)
        (ours.own / "current").write_text("T-1\n")
        yield

    monkeypatch.setattr(files, "locked", other_was_first)
    ours.ensure_owned()
    assert (ours.own / "runs" / "RLOP-20260101-aaaaaa").is_dir()
    assert (ours.own / "current").exists()


def test_a_reader_that_goes_away_does_not_stop_the_run(repo: Repo) -> None:
    plan = repo.steps("true", "sleep 0.3", "echo x > made")
    for line in (
        f"{sys.executable} -m reflectloop run --events {plan} | head -1",
        f"{sys.executable} -m reflectloop run --new --json {plan} >&-",
    ):
        done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=repo.path, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr
        assert (repo.latest() / "envelope.yaml").exists()


def test_ordinary_bad_input_is_never_called_a_bug(repo: Repo) -> None:
    (repo.path / "loop").symlink_to("loop")
    plans = [
        repo.plan(json.dumps({"plan": {"title": "a\0b", "steps": [{"id": "a", "commands": ["true"]}]}}), "nul.json"),
        repo.plan(
            json.dumps({"plan": {"title": "T", "steps": [{"id": "a", "commands": ["echo " + "x" * 300_000]}]}}),
            "long.json",
        ),
        repo.plan(
            json.dumps({"plan": {"title": "T", "steps": [{"id": "a", "commands": ["true"], "cwd": "x" * 5000}]}}),
            "cwd.json",
        ),
        repo.plan(
            json.dumps({"plan": {"title": "T", "steps": [{"id": "a", "commands": ["true"], "cwd": "loop"}]}}),
            "loop.json",
        ),
        repo.plan(
            json.dumps(
                {
                    "plan": {
                        "title": "T",
                        "steps": [{"id": "a", "commands": ["true"], "verify": [{"file_exists": "loop/x"}]}],
                    }
                }
            ),
            "file.json",
        ),
    ]
    codes = [repo.run("run", "--json", plan).envelope["error_code"] for plan in plans]
    assert codes == ["INVALID_PLAN", "GATE_REJECTED", "INVALID_PLAN", "INVALID_PLAN", "INVALID_PLAN"]
    elsewhere = repo.run("run", "--json", "--sandbox-root", "/proc/x", repo.steps("true"))
    assert elsewhere.envelope["error_code"] == "SANDBOX_CREATE_FAILED"


def test_a_project_whose_path_has_odd_characters_works(tmp_path: Path) -> None:
    for name in ("a:b", 'quo"te', "sp ace", "bäck\\slash", "$HOME", "semi;colon"):
        made = Repo(tmp_path / name / "p")
        made.path.mkdir(parents=True)
        made.git("init", "-q")
        made.write("a", "a\n")
        made.commit("one")
        made.write("a", "dirty\n")
        assert made.run("run", made.steps("cat a; echo x > b")).code == 0, name
        assert made.run("apply", "--yes").code == 0
        assert (made.path / "b").exists()
