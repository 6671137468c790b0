"""Tool calls: a failure is diagnosed, handled by a policy and reported."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reflectloop.commands import call as calling
from reflectloop.diagnosis.breaker import BreakerLimits, Breakers, BreakerState, PersistentBreakers
from reflectloop.diagnosis.failfix import FailFix, known
from reflectloop.diagnosis.retry_policy import RetryPolicy
from reflectloop.diagnosis.retrying import delay_of, retry_after
from reflectloop.diagnosis.safe_call import RetryIO, RetryOptions, ToolError, ToolFailure, ToolSuccess, safe_call
from reflectloop.diagnosis.tool_failure_report import ToolReport
from reflectloop.errors import ReflectloopError
from reflectloop.secrets.rulefile import fill_sample
from reflectloop.workspace.folders import Folders
from support import Repo, reflectloop

NOW = datetime(2026, 2, 21, 10, 45, tzinfo=UTC)
ARXIV = "mcp__arxiv-mcp-server__search_papers"


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.waited: list[float] = []

    def wait(self, seconds: float) -> None:
        self.seconds += seconds
        self.waited.append(seconds)

    @property
    def io(self) -> RetryIO:
        return RetryIO(lambda: NOW, lambda: self.seconds, self.wait, lambda: 1.0)


class Tool:
    """Fails as it is told to, one failure for each call, and then answers."""

    def __init__(self, *failures: Exception | str) -> None:
        self.failures = list(failures)
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, tool: str, params: Mapping[str, Any]) -> str:
        self.calls.append((tool, dict(params)))
        if self.failures:
            fault = self.failures.pop(0)
            raise fault if isinstance(fault, Exception) else ToolError(fault)
        return f"answer of {tool}"


def test_a_call_that_succeeds_returns_its_value() -> None:
    tool, clock = Tool(), Clock()
    outcome = safe_call("search", {"q": "x"}, invoke=tool, io=clock.io)
    assert outcome == ToolSuccess("answer of search", "search", 1)
    assert clock.waited == []


def test_a_search_that_times_out_is_retried_with_a_simpler_query() -> None:
    tool, clock = Tool("Timeout after 30s"), Clock()
    asked = {"query": "multi-agent orchestration of tools", "categories": ["cs.AI"]}
    outcome = safe_call(ARXIV, asked, invoke=tool, io=clock.io)
    assert isinstance(outcome, ToolSuccess)
    assert tool.calls[1] == (ARXIV, {"query": "multi-agent orchestration", "categories": ["cs.AI"], "max_results": 5})
    assert clock.waited == [5.0]
    (told,) = outcome.reports
    data = told.model_dump(mode="json")
    assert data["reflection_type"] == "tool_failure"
    assert (data["failed_tool"], data["failed_params"]) == (ARXIV, asked)
    assert (data["error_type"], data["diagnosis"]["error_type"]) == ("external_service_exception", "外部服务异常")
    assert set(data["diagnosis"]) == {"error_type", "root_cause", "severity"}
    assert set(data["corrective_action"]) == {
        "action",
        "modified_params",
        "fallback_tool",
        "retry_delay_seconds",
        "alternative",
    }
    assert data["corrective_action"]["retry_delay_seconds"] == 5.0
    assert outcome.pair
    assert (outcome.pair.tool, outcome.pair.worked, outcome.pair.failed) == (ARXIV, 1, 0)
    assert outcome.pair.symptoms == ("Timeout after 30s",)
    assert "简化查询" in outcome.pair.successful_fix


def test_a_rate_limit_waits_a_minute_or_as_the_service_asks() -> None:
    clock = Clock()
    limited = ("Rate limit exceeded", ToolError("HTTP Error 429: Too Many Requests", retry_after_s=200))
    outcome = safe_call("mcp__zread__read_file", {}, invoke=Tool(*limited), idempotent=True, io=clock.io)
    assert outcome.ok
    assert clock.waited == [60.0, 200.0]
    assert outcome.reports[0].corrective_action.alternative
    assert "search_doc" in outcome.reports[0].corrective_action.alternative


def test_a_forbidden_call_is_neither_retried_nor_replaced() -> None:
    tool = Tool("403 Forbidden", "x", "x")
    options = RetryOptions(fallbacks=("other",), retries=5)
    outcome = safe_call("mcp__web-reader__webReader", {"url": "u"}, invoke=tool, idempotent=True, options=options)
    assert isinstance(outcome, ToolFailure)
    assert len(tool.calls) == 1
    assert (outcome.failure.category, outcome.failure.needs) == ("PERMISSION", "ASK")
    assert "跳过该 URL" in outcome.reports[0].corrective_action.action


def test_a_wrong_parameter_is_retried_only_if_it_can_be_corrected() -> None:
    bad = "Invalid query syntax"
    tool = Tool(bad)
    mended = safe_call(
        ARXIV,
        {"query": "a AND"},
        invoke=tool,
        options=RetryOptions(correct=lambda _p, _f: {"query": "a OR b"}),
        io=Clock().io,
    )
    assert mended.ok
    assert tool.calls[1][1] == {"query": "a OR b"}
    tool = Tool(bad, bad)
    assert not safe_call(ARXIV, {"query": "plain"}, invoke=tool, idempotent=True, io=Clock().io).ok
    assert len(tool.calls) == 1


def test_only_an_idempotent_call_is_repeated_unchanged() -> None:
    down = "curl: (7) Failed to connect to localhost port 1: Couldn't connect to server"
    once, again, clock = Tool(down), Tool(down, down), Clock()
    assert not safe_call("send", {}, invoke=once, io=clock.io).ok
    assert len(once.calls) == 1
    assert safe_call("send", {}, invoke=again, idempotent=True, io=clock.io).ok
    assert clock.waited == [3.0, 6.0]


def test_a_missing_tool_is_replaced_by_the_next() -> None:
    tool = Tool(FileNotFoundError(2, "No such file or directory", "rg"))
    outcome = safe_call("rg", {"word": "x"}, invoke=tool, options=RetryOptions(fallbacks=("grep",)))
    assert isinstance(outcome, ToolSuccess)
    assert (outcome.value, outcome.tool) == ("answer of grep", "grep")
    assert outcome.reports[0].error_type == "wrong_tool"
    assert outcome.reports[0].corrective_action.fallback_tool == "grep"
    assert outcome.pair
    assert "grep instead of rg" in outcome.pair.successful_fix


def test_a_failed_call_has_no_value() -> None:
    told: list[ToolReport] = []
    outcome = safe_call("x", {}, invoke=Tool(ValueError("")), options=RetryOptions(tell=told.append))
    assert isinstance(outcome, ToolFailure)
    assert not hasattr(outcome, "value")
    assert outcome.failure.log_excerpt
    assert [one.failed_tool for one in told] == ["x"]


def test_retries_end_and_every_failure_is_reported() -> None:
    tool, clock = Tool(*["TimeoutError: timed out"] * 9), Clock()
    outcome = safe_call("x", {}, invoke=tool, idempotent=True, io=clock.io)
    assert isinstance(outcome, ToolFailure)
    assert (outcome.attempts, len(outcome.reports)) == (3, 3)
    assert outcome.reports[-1].corrective_action.retry_delay_seconds is None


def test_an_interrupt_is_not_a_tools_failure() -> None:
    def interrupted(_tool: str, _params: Mapping[str, Any]) -> None:
        raise KeyboardInterrupt

    breakers = Breakers(BreakerLimits(failures=1, cool_s=0))
    with pytest.raises(KeyboardInterrupt):
        safe_call("x", {}, invoke=interrupted, options=RetryOptions(breakers=breakers))
    assert safe_call("x", {}, invoke=Tool(), options=RetryOptions(breakers=breakers)).ok, (
        "the breaker was not left half-open"
    )


def test_a_breaker_opens_tries_one_call_and_closes_when_it_succeeds() -> None:
    breakers, clock = Breakers(BreakerLimits(failures=2, cool_s=10)), Clock()
    options = RetryOptions(breakers=breakers)
    bad = Tool(*["TimeoutError: timed out"] * 3)

    def ask(invoke: Callable[[str, Mapping[str, Any]], Any]) -> bool:
        return safe_call("x", {}, invoke=invoke, options=options, io=clock.io).ok

    assert [ask(bad), ask(bad)] == [False, False]
    assert breakers.state("x", clock.seconds) == BreakerState.OPEN
    good = Tool()
    assert not ask(good)
    assert good.calls == []
    assert breakers.state("y", clock.seconds) == BreakerState.CLOSED
    clock.seconds += 10
    assert breakers.state("x", clock.seconds) == BreakerState.HALF_OPEN
    assert not ask(bad)
    assert breakers.state("x", clock.seconds) == BreakerState.OPEN
    clock.seconds += 10
    assert breakers.enter("x", clock.seconds)
    assert not breakers.enter("x", clock.seconds), "one call tries, the others wait"
    breakers.leave("x", clock.seconds, well=True)
    assert ask(good)
    assert breakers.state("x", clock.seconds) == BreakerState.CLOSED


def test_a_users_policy_comes_before_the_built_in_ones() -> None:
    own = RetryPolicy(tool="send*", error="external_service_exception", action="wait a second", retries=1, delay_s=1)
    clock = Clock()
    outcome = safe_call(
        "sender",
        {},
        invoke=Tool("TimeoutError: timed out"),
        idempotent=True,
        options=RetryOptions(policies=(own,)),
        io=clock.io,
    )
    assert outcome.ok
    assert clock.waited == [1.0]


def test_the_wait_grows_with_jitter_up_to_a_limit() -> None:
    policy = RetryPolicy(action="wait", delay_s=4, most_s=10)
    assert [delay_of(policy, again, lambda: 1.0) for again in range(3)] == [4.0, 8.0, 10.0]
    assert delay_of(policy, 0, lambda: 0.0) == 5.0
    assert delay_of(policy, 0, lambda: 0.0, 77.0) == 77.0
    assert retry_after("HTTP/1.1 429\nRetry-After: 7\n", NOW) == 7.0
    assert retry_after("Retry-After: Sat, 21 Feb 2026 10:45:30 GMT", NOW) == 30.0
    assert retry_after("please try again in 250ms", NOW) == 0.25
    assert retry_after("Retry-After: soon", NOW) is None
    assert retry_after("nothing of the kind", NOW) is None


def test_a_fix_is_found_by_signature_and_retired_when_it_fails() -> None:
    pair = FailFix(
        pattern_id="p", tool="x", error_type=None, signature="1", symptoms=(), successful_fix="f", timestamp="t"
    )
    assert known([pair], "x", "1") == pair
    assert known([pair], "x", "2") is None
    worn = pair.counted(worked=False).counted(worked=False)
    assert worn.retired
    assert known([worn], "x", "1") is None


def test_a_known_fix_is_reported_with_the_failure() -> None:
    first = safe_call("x", {}, invoke=Tool("TimeoutError: timed out"), idempotent=True, io=Clock().io)
    assert isinstance(first, ToolSuccess)
    assert first.pair
    second = safe_call(
        "x", {}, invoke=Tool("TimeoutError: timed out"), options=RetryOptions(pairs=[first.pair]), io=Clock().io
    )
    assert second.reports[0].known_fix == first.pair.successful_fix


def test_parameters_and_messages_are_reported_without_secrets() -> None:
    key = fill_sample("ghp_{alnum:36}", "a call")
    outcome = safe_call("x", {"token": key, "q": 1}, invoke=Tool(f"403 Forbidden for {key}"))
    assert key not in json.dumps([one.model_dump(mode="json") for one in outcome.reports])


def test_call_runs_a_command_and_tries_another_when_it_fails(repo: Repo) -> None:
    answer = repo.run("call", "--fallback", "echo instead", "--", "frobnicate", "--all")
    assert (answer.code, answer.stdout) == (0, "instead\n")
    assert "frobnicate: wrong tool: " in answer.stderr
    (written,) = (repo.path / ".reflectloop" / "reflections").iterdir()
    assert json.loads(written.read_text())["failed_params"] == {"command": ["frobnicate", "--all"]}


def test_call_says_why_a_command_failed_and_what_to_do(repo: Repo) -> None:
    answer = repo.run("call", "--json", "--", "cat", "nothing.csv")
    assert answer.code == 30
    assert answer.envelope["error_code"] == "STEP_FAILED"
    assert answer.json["data"]["failure"]["category"] == "DATA"
    assert answer.json["data"]["reflections"][0]["failed_tool"] == "cat"
    late = repo.run("call", "--timeout", "0.3", "--", "sleep", "9")
    assert late.code == 31
    assert "EXTERNAL, needs RETRY" in late.stderr


def test_the_documents_example_of_safe_call_runs(capsys: pytest.CaptureFixture[str]) -> None:
    import re

    text = (Path(__file__).parent.parent / "docs" / "diagnosis.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(example, {"call_my_tool": Tool("403 Forbidden")})  # noqa: S102
    assert capsys.readouterr().out == "PERMISSION ASK\n"


@pytest.mark.parametrize(
    ("command", "fallbacks", "code"),
    [
        (("git", "push", "--force"), (), "NEEDS_INPUT"),
        (("chmod", "-R", "777", "/"), (), "GATE_REJECTED"),
        (("false",), (("git", "reset", "--hard"),), "NEEDS_INPUT"),
    ],
)
def test_a_command_that_needs_a_persons_consent_is_not_called(
    repo: Repo, command: tuple[str, ...], fallbacks: tuple[tuple[str, ...], ...], code: str
) -> None:
    def never(*_: object) -> None:
        raise AssertionError

    with pytest.raises(ReflectloopError) as refused:
        calling.call(calling.CallOptions(command, fallbacks, on_host=True), repo.path, show=never, tell=never)
    assert refused.value.code == code
    assert "[policy] allow" in refused.value.next_step


# Between processes ------------------------------------------------------------------------------------------------


def quiet(_: object, __: object = None) -> None:
    """Nobody looks on."""


def tool(repo: Repo, name: str, text: str) -> str:
    path = repo.path / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_an_open_breaker_holds_in_the_next_process(repo: Repo) -> None:
    down = tool(repo, "fetch", "echo 'Connection refused' >&2; exit 1")
    for _ in range(5):
        done = calling.call(calling.CallOptions((down,)), repo.path, show=quiet, tell=quiet)
        assert isinstance(done.outcome, ToolFailure)
        assert (done.outcome.failure.category, done.outcome.attempts) == ("EXTERNAL", 1)
    answer = repo.run("call", "--", down)
    assert answer.code == 30
    assert "fetch failed too often in a row; it is left alone for 60 s" in answer.stderr
    assert "Connection refused" not in answer.stdout + answer.stderr
    assert repo.run("call", "--", tool(repo, "other", "echo fine")).stdout == "fine\n"


def test_a_successful_call_leaves_no_breaker_file(repo: Repo) -> None:
    calling.call(calling.CallOptions((tool(repo, "fetch", "true"),)), repo.path, show=quiet, tell=quiet)
    assert not (repo.path / ".reflectloop" / "cache" / "breakers").exists()


@pytest.mark.parametrize("harm", ["", "{", "[1]", '{"x": 3}', '{"x": {"failures": 9}}'])
def test_a_damaged_breaker_file_is_ignored(repo: Repo, harm: str) -> None:
    breakers = PersistentBreakers(Folders(repo.path), BreakerLimits(failures=1))
    breakers.leave("x", 100.0, well=False)
    assert not PersistentBreakers(Folders(repo.path)).enter("x", 101.0)
    (repo.path / ".reflectloop" / "cache" / "breakers" / "tools.json").write_text(harm)
    assert PersistentBreakers(Folders(repo.path)).enter("x", 101.0)


def test_a_stored_breaker_tries_one_call_and_is_void_after_a_restart(repo: Repo) -> None:
    limits = BreakerLimits(failures=1, cool_s=10)

    def breakers() -> PersistentBreakers:
        return PersistentBreakers(Folders(repo.path), limits)

    breakers().leave("x", 100.0, well=False)
    assert breakers().enter("x", 50.0), "the machine was started since"
    breakers().leave("x", 100.0, well=False)
    assert not breakers().enter("x", 105.0)
    assert breakers().enter("x", 111.0)
    assert not breakers().enter("x", 112.0), "one tries"
    assert breakers().enter("x", 122.0), "and may have died of it"
    breakers().leave("x", 123.0, well=True)
    assert breakers().enter("x", 124.0)
    assert breakers().enter("x", 124.0)


def test_a_silent_command_has_no_trace_in_its_report(repo: Repo) -> None:
    done = calling.call(calling.CallOptions(("false",)), repo.path, show=quiet, tell=quiet)
    assert isinstance(done.outcome, ToolFailure)
    failure = done.outcome.failure
    assert failure.diagnosis
    assert (failure.exit_code, failure.log_excerpt) == (1, "it printed nothing and exited 1")
    assert failure.diagnosis.root_cause == "it failed and printed nothing"
    assert "trace" not in str(failure.as_data())


def test_a_refused_connection_is_tried_again(repo: Repo) -> None:
    flag = "flag"  # in the copy, which all tries share
    text = f"[ -e {flag} ] || {{ touch {flag}; echo 'Connection refused' >&2; exit 1; }}; echo up"
    order = calling.CallOptions((tool(repo, "fetch", text),), idempotent=True)
    told: list[ToolReport] = []
    done = calling.call(order, repo.path, show=quiet, tell=told.append)
    assert isinstance(done.outcome, ToolSuccess)
    assert (done.outcome.value, done.outcome.attempts) == ("up\n", 2)
    assert told[0].error_type == "external_service_exception"


def test_a_failing_script_does_not_block_another_of_the_same_shell(repo: Repo) -> None:
    for _ in range(5):
        calling.call(calling.CallOptions(("sh", "-c", "exit 9")), repo.path, show=quiet, tell=quiet)
    held = calling.call(calling.CallOptions(("sh", "-c", "exit 9")), repo.path, show=quiet, tell=quiet)
    assert held.outcome.attempts == 0
    assert calling.call(calling.CallOptions(("sh", "-c", "exit 0")), repo.path, show=quiet, tell=quiet).outcome.ok


def test_a_secret_in_a_command_is_not_stored_with_its_breaker(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    value = "vR4" * 13 + "x"
    monkeypatch.setenv("SERVICE_API_KEY", value)
    assert repo.run("call", "--", "sh", "-c", f"echo {value}; exit 3").code != 0
    kept = [path for path in (repo.path / ".reflectloop").rglob("*") if path.is_file()]
    assert any(path.name == "tools.json" for path in kept)
    assert not [path for path in kept if value.encode() in path.read_bytes()]


# In the box -------------------------------------------------------------------------------------------------------

REMOVALS = {
    "plain": "rm -rf {data}",
    "by a printed line": "printf 'rm -rf {data}' | sh",
    "by make": "make -f - <<< 'a:; rm -rf {data}'",
    "by sed": "echo x | sed '1e rm -rf {data}'",
    "beside": "coproc rm -rf {data}; wait",
    "by the engine's own folder": "rm -rf .reflectloop .git",
}


@pytest.mark.parametrize("how", REMOVALS)
def test_a_call_cannot_remove_the_users_files(repo: Repo, how: str, tmp_path: Path) -> None:
    data = tmp_path / "home" / "data"
    data.mkdir()
    before = repo.state()
    repo.run("call", "--", "bash", "-c", REMOVALS[how].format(data=data))
    assert data.is_dir()
    assert repo.state() == before


def test_the_changes_of_a_call_are_reported_and_discarded(repo: Repo) -> None:
    answer = repo.run("call", "--", "sh", "-c", "echo x >> README.md; echo y > new.txt; cat new.txt")
    assert (answer.code, answer.stdout) == (0, "y\n")
    assert "changed in its copy of the project, and discarded: README.md, new.txt" in answer.stderr
    assert (repo.path / "README.md").read_text() == "# sample\n"
    assert not (repo.path / "new.txt").exists()
    assert repo.run("call", "--json", "--", "touch", "new.txt").json["data"]["changes"] == ["new.txt"]
    assert repo.run("call", "--json", "--", "true").json["data"]["changes"] == []
    assert repo.workspaces() == []


def test_a_call_runs_in_the_current_folder_with_current_files(repo: Repo) -> None:
    repo.write("src/draft.txt", "not committed")
    repo.write(".gitignore", "ignored/\n")
    (repo.path / "ignored").mkdir()
    answer = reflectloop(repo.path / "src", "call", "--", "cat", "draft.txt")
    assert (answer.code, answer.stdout) == (0, "not committed")
    refused = reflectloop(repo.path / "ignored", "call", "--json", "--", "true")
    assert (refused.code, refused.envelope["error_code"]) == (12, "INVALID_INPUT")


def test_a_call_on_the_host_can_change_files(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    words = ("sh", "-c", f"cat {tmp_path}/mine.txt; touch made.txt")
    assert repo.run("call", "--", *words).stdout == ""
    assert repo.run("call", "--host", "--", *words).stdout == "mine"
    assert (repo.path / "made.txt").exists()
    assert repo.run("call", "--host", "--network", "host", "--", "true").code == 2


@pytest.mark.parametrize("where", [(), ("--host",)])
def test_a_call_prints_no_control_sequences(repo: Repo, where: tuple[str, ...]) -> None:
    shown = "a\\033]0;title\\007b\\033[2Jc\\033[31md\\n"
    answer = repo.run("call", *where, "--", "printf", shown)
    assert (answer.code, answer.stdout) == (0, "abcd\n")


def test_a_call_that_prints_a_secret_is_stopped_and_shows_nothing_of_it(repo: Repo) -> None:
    key = fill_sample("ghp_{alnum:36}", "a call in the box")
    repo.write("print.sh", f"echo {key[:9]}''{key[9:]}\n")
    answer = repo.run("call", "--fallback", "echo more", "--", "sh", "print.sh")
    assert answer.code == 99
    assert key not in answer.stdout + answer.stderr
    assert "more" not in answer.stdout


def test_without_isolation_a_call_is_judged_as_on_the_host(repo: Repo) -> None:
    words = ("call", "--json", "--", "git", "reset", "--hard")
    assert repo.run(*words).code == 0, "in a copy behind a wall it does no harm"
    repo.weaken()
    assert repo.run(*words).envelope["error_code"] == "NEEDS_INPUT"
