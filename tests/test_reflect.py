"""Failures: one record each, one name however it is printed, and a likely cause from whole lines of output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflectloop.diagnosis import diagnosis, rulefile, signature
from reflectloop.diagnosis import log_diagnosis as flow
from reflectloop.diagnosis.diagnosis import FailedCommand
from reflectloop.diagnosis.failure_record import ErrorClass, Facts, FailureRecord, ToolErrorType, class_of, classify
from reflectloop.diagnosis.rule import Rules
from reflectloop.errors import InvalidInput
from reflectloop.verification import reports
from support import Repo, reflectloop

MISSING = """Traceback (most recent call last):
  File "{where}/app.py", line {line}, in <module>
    import yaml
ModuleNotFoundError: No module named 'yaml'
"""
PYTEST = """============================= test session starts ==============================
collected 2 items

test_a.py FF                                                             [100%]

=================================== FAILURES ===================================
____________________________________ test_a ____________________________________

    def test_a():
>       {body}
E       {error}

test_a.py:{line}: {kind}
=========================== short test summary info ============================
FAILED test_a.py::test_a - {error}
============================== 1 failed in {took}s ===============================
"""


def failure(text: str, exit_code: int | None = 1, rules: Rules | None = None) -> FailureRecord:
    found = flow.diagnose_log(text, exit_code=exit_code, rules=rules or diagnosis.shipped()).failure
    assert found
    return found


def pytest_log(error: str, kind: str, body: str = "f()", line: int = 3, took: str = "0.01") -> str:
    return PYTEST.format(error=error, kind=kind, body=body, line=line, took=took)


def test_every_shipped_rule_finds_its_samples_and_nothing_it_should_not() -> None:
    rules = rulefile.shipped().rules
    assert [fault for entry in rules for fault in rulefile.faults_of(entry)] == []
    assert len({entry.id for entry in rules}) == len(rules) > 50
    assert all(entry.suggestion and entry.cause for entry in rules)


def test_a_record_says_what_is_missing_and_what_to_type() -> None:
    found = failure(MISSING.format(where="/srv/x", line=3))
    assert (found.category, found.needs, found.error_class) == ("ENV", "RESEARCH", "3.3.4")
    assert found.tool_error_type == ToolErrorType.WRONG_TOOL
    assert not found.transient
    assert found.diagnosis
    assert "yaml" in found.diagnosis.root_cause
    assert found.diagnosis.next_command == "python3 -m pip show yaml"
    assert "No module named 'yaml'" in found.log_excerpt
    assert found.as_data()["class"] == "3.3.4"
    assert FailureRecord.model_validate(found.as_data()) == found


def test_a_log_cannot_put_words_into_the_command_to_type() -> None:
    found = failure("bash: x;rm$IFS-rf: command not found\n", 127)
    assert found.category == "ENV"
    assert "rm" not in ((found.diagnosis and found.diagnosis.next_command) or "")


@pytest.mark.parametrize(
    ("text", "exit_code", "category", "needs"),
    [
        ("curl: (22) The requested URL returned error: 403\n", 22, "PERMISSION", "ASK"),
        ("curl: (22) The requested URL returned error: 503\n", 22, "EXTERNAL", "RETRY"),
        ("curl: (6) Could not resolve host: nowhere.invalid\n", 6, "EXTERNAL", "RETRY"),
        ("cp: error writing 'b': No space left on device\n", 1, "TOOL", "RESEARCH"),
        ("fatal: Unable to create '/x/.git/index.lock': File exists.\n", 128, "EXTERNAL", "RETRY"),
        (
            "CONFLICT (content): Merge conflict in f\nAutomatic merge failed; fix conflicts and then commit the result.\n",
            1,
            "LOGIC",
            "REPLAN",
        ),
        ("ls: unrecognized option '--frob'\n", 2, "DATA", "REPLAN"),
        ("a.c:1:10: fatal error: frob.h: No such file or directory\n", 1, "ENV", "RESEARCH"),
        ("ZeroDivisionError: division by zero\n", 1, "EXECUTION", "RESEARCH"),
        ("", 137, "TOOL", "RESEARCH"),
        ("", 124, "EXTERNAL", "RETRY"),
        ("", 3, "EXECUTION", "RESEARCH"),
        ("", None, "EXECUTION", "RESEARCH"),
    ],
)
def test_causes_are_told_apart_by_whole_lines_and_exit_codes(
    text: str, exit_code: int | None, category: str, needs: str
) -> None:
    found = failure(text, exit_code)
    assert (found.category, found.needs) == (category, needs)


@pytest.mark.parametrize(
    "quoted",
    [
        "cat: /root/x: Permission denied",
        "bash: frob: command not found",
        "OSError: [Errno 28] No space left on device",
        "curl: (6) Could not resolve host: nowhere.invalid",
        "ModuleNotFoundError: No module named 'yaml'",
    ],
)
def test_an_assertion_that_quotes_a_machines_words_stays_a_failed_test(quoted: str) -> None:
    in_a_test = failure(pytest_log(f"AssertionError: {quoted}", "AssertionError"))
    in_a_script = failure(f"Traceback (most recent call last):\nAssertionError: {quoted}\n")
    assert (in_a_test.category, in_a_script.category) == ("LOGIC", "LOGIC")
    assert in_a_test.needs == "REPLAN"


def test_what_a_test_raised_because_of_the_machine_is_the_machines() -> None:
    refused = failure(pytest_log("ConnectionRefusedError: [Errno 111] Connection refused", "ConnectionRefusedError"))
    denied = failure(pytest_log("PermissionError: [Errno 13] Permission denied: 'x'", "PermissionError"))
    own = failure(pytest_log("KeyError: 'name'", "KeyError"))
    assert (refused.category, denied.category, own.category) == ("EXTERNAL", "PERMISSION", "LOGIC")


def test_the_cause_is_reported_and_not_what_followed_from_it() -> None:
    log = """WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError("Failed to establish a new connection: [Errno -2] Name or service not known")': /simple/left/
ERROR: Could not find a version that satisfies the requirement left (from versions: none)
ERROR: No matching distribution found for left
make: *** [Makefile:2: all] Error 1
"""
    found = failure(log, 2)
    assert found.diagnosis
    assert (found.category, found.diagnosis.rule) == ("EXTERNAL", "name-not-resolved")


def test_a_passed_log_has_no_failure() -> None:
    assert flow.diagnose_log("All checks passed!\n", exit_code=0, rules=diagnosis.shipped()).failure is None


def test_the_same_failure_has_one_name_on_every_machine() -> None:
    here = failure(MISSING.format(where="/home/a/project", line=3)).signature
    there = failure(MISSING.format(where="/srv/ci/build-7", line=90)).signature
    lines = MISSING.format(where="/x", line=1).splitlines()
    clocked = "".join(f"2031-01-02T03:04:0{n}.123Z {line}\n" for n, line in enumerate(lines))
    coloured = MISSING.format(where="/x", line=1).replace("ModuleNotFoundError", "\x1b[31mModuleNotFoundError\x1b[0m")
    assert here == there == failure(clocked).signature == failure(coloured).signature
    assert here != failure(MISSING.replace("yaml", "toml").format(where="/x", line=1)).signature


def test_the_order_of_failing_tests_does_not_change_the_name() -> None:
    log = (
        "FAIL: {0} (t.T.{0})\n"
        + "-" * 70
        + '\nTraceback (most recent call last):\n  File "/x/t.py", line 3, in {0}\nAssertionError: 1 != {1}\n\n'
    )
    end = "-" * 70 + "\nRan 2 tests in 0.001s\n\nFAILED (failures=2)\n"
    one, two = (("=" * 70 + "\n" + log).format(name, number) for name, number in (("test_a", 2), ("test_b", 3)))
    assert failure(one + two + end).signature == failure(two + one + end).signature
    assert failure(one + two + end).signature != failure(one + one.replace("test_a", "test_c") + end).signature


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<Client object at 0x7f3a10> failed", "<Client object at 0x55d2ffe0> failed"),
        ("cannot reach 127.0.0.1:8123 after 1.2s", "cannot reach 127.0.0.1:44311 after 980ms"),
        ("no commit 3f2a91bc77", "no commit 90aa12ffd0"),
        ("cannot open ‘/home/a/x.cfg’", "cannot open '/srv/b/c/x.cfg'"),
        ("/tmp/tmpab12cd34: broken", "/tmp/tmpzz99yy88: broken"),
        ("got {'a', 'b'}", "got {'b', 'a'}"),
        ("src/app.py:12:3: bad", "lib/src/app.py:99: bad"),
        ("wrote 1.2 MB of 3 GB", "wrote 980 kB of 3 GB"),
        ("bash: line 3: frob: command not found", "bash: frob: command not found"),
        ("failed at 2026-01-02T03:04:05Z", "failed at 2031-11-12T13:14:15.678+02:00"),
    ],
)
def test_what_changes_without_the_cause_changing_is_not_in_the_name(one: str, other: str) -> None:
    assert signature.normal(one) == signature.normal(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The requested URL returned error: 404", "The requested URL returned error: 500"),
        ("error[E0308]: mismatched types", "error[E0425]: mismatched types"),
        ("No module named 'a'", "No module named 'b'"),
        ("no package github.com/a/x", "no package github.com/b/x"),
        ("app.py: bad", "lib.py: bad"),
    ],
)
def test_what_tells_causes_apart_stays_in_the_name(one: str, other: str) -> None:
    assert signature.normal(one) != signature.normal(other)


@given(st.text(max_size=300))
@settings(max_examples=150, deadline=None)
def test_any_text_has_a_name_that_holds_no_more_than_digits(text: str) -> None:
    name = signature.of([text])
    assert len(name) == 18
    assert name.isdecimal()
    assert signature.normal(signature.normal(text)[:50])[:400] is not None


@given(st.binary(max_size=2000), st.sampled_from([None, 0, 1, 2, 126, 127, 137, -9]))
@settings(max_examples=100, deadline=None)
def test_no_input_makes_diagnosis_fail(data: bytes, exit_code: int | None) -> None:
    found = flow.diagnose_log(data, exit_code=exit_code, rules=diagnosis.shipped())
    assert (found.failure is None) == found.result.ok


def test_a_long_log_is_diagnosed_from_its_ends() -> None:
    noise = "compiling a thing that is not wrong\n" * 100_000
    found = failure(noise + "cp: error writing 'b': No space left on device\n")
    assert found.category == "TOOL"


def test_classes_follow_the_decision_tree() -> None:
    assert classify(Facts(finished=True, times_seen=9)) == ErrorClass.ITERATION
    assert classify(Facts(interrupted=True, did_not_know=True)) == ErrorClass.PIPELINE
    assert classify(Facts(did_not_know=True, times_seen=9)) == ErrorClass.KNOWLEDGE
    assert [classify(Facts(times_seen=times)) for times in (1, 2, 3)] == ["3.3.2", "3.3.2", "3.3.1"]
    assert class_of("LOGIC", code="MAX_RETRIES") == ErrorClass.CAPABILITY


def test_the_third_failure_with_one_signature_is_a_lack_of_capability() -> None:
    text = pytest_log("assert 1 == 2", "AssertionError")
    result = reports.judge(reports.read(text), exit_code=1, log=text)
    third = diagnosis.diagnose(text, result, about=FailedCommand(step="fix", attempt=3, times_seen=2))
    assert third
    assert (third.error_class, third.error_class.chinese) == ("3.3.1", "模型能力不足")
    assert (third.step, third.attempt) == ("fix", 3)


RULE = """[[rule]]
id = "acme-licence"
category = "PERMISSION"
line = 'acme: no licence for (?P<name>\\w+)'
cause = "there is no licence for {name}"
suggestion = "ask for one"
next = "acme licence {name}"
match = ["acme: no licence for solver"]
not_match = ["acme: licence found"]
"""


def test_a_projects_own_rules_come_first_and_are_checked_by_their_samples(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(RULE)
    (tmp_path / "reflectloop.toml").write_text('[reflect]\nrules = "rules.toml"\n')
    found = failure("acme: no licence for solver\n", 4, flow.use_project(tmp_path))
    assert found.diagnosis
    assert (found.category, found.needs, found.diagnosis.next_command) == ("PERMISSION", "ASK", "acme licence solver")
    (tmp_path / "rules.toml").write_text(RULE.replace('"acme: licence found"', '"acme: no licence for x"'))
    with pytest.raises(InvalidInput) as refused:
        flow.use_project(tmp_path)
    assert "must not match" in str(refused.value.faults[0])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("'acme: no", "'(acme: no"), "the pattern is broken"),
        (('match = ["acme: no licence for solver"]', 'match = ["something else"]'), "does not match its sample"),
        (('category = "PERMISSION"', 'category = "WEATHER"'), "is not usable"),
        (("'acme: no licence for (?P<name>\\w+)'", "'.*'"), "matches any line"),
        (("[[rule]]", "[[rules]]"), "unknown keys: rules"),
        (("[[rule]]", "[[rule"), "is not TOML"),
    ],
)
def test_a_rule_file_with_a_fault_is_refused_with_its_place(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(RULE.replace(*change))
    with pytest.raises(InvalidInput) as refused:
        rulefile.checked(path)
    assert said in " ".join([refused.value.message, *map(str, refused.value.faults)])
    assert str(path) in refused.value.message


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("E   SyntaxError: '(' was never closed\n", "a file does not parse: SyntaxError: '(' was never closed"),
        ("collected 0 items\n\n=== no tests ran in 0.09s ===\n", "no test was run: the project has none, or "),
    ],
)
def test_a_cause_names_its_line_and_an_empty_suite_is_no_wrong_selection(tmp_path: Path, log: str, cause: str) -> None:
    (tmp_path / "log.txt").write_text(log)
    assert f"likely cause: {cause}" in reflectloop(tmp_path, "diagnose", "log.txt", "--exit-code", "5").stdout


def test_diagnose_tells_a_person_the_kind_the_cause_and_the_next_command(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(MISSING.format(where="/x", line=3))
    told = reflectloop(tmp_path, "diagnose", "log.txt", "--exit-code", "1")
    assert told.code == 1
    for words in (
        "ENV, needs RESEARCH",
        "class 3.3.4 (missing knowledge)",
        "likely cause: the Python module yaml",
        "suggestion: ",
    ):
        assert words in told.stdout
    assert "next: python3 -m pip show yaml" in told.stderr
    asked = [
        {"id": 7, "text": MISSING.format(where="/y", line=9), "exit_code": 1},
        {"id": 8, "text": "All checks passed!\n"},
    ]
    lines = reflectloop(tmp_path, "diagnose", "--jsonl", stdin="\n".join(map(json.dumps, asked))).stdout.splitlines()
    first, second = (json.loads(line) for line in lines)
    assert set(first) == {"id", "result", "failure"}
    assert f"signature: {first['failure']['signature']}" in told.stdout
    assert second["failure"] is None


def test_a_blocker_carries_the_record_of_its_failure(repo: Repo) -> None:
    import yaml

    plan = repo.plan(
        "plan: {title: T, track: direct, steps: [{id: s, commands: ['python3 -c \"import frobnicate\"']}]}"
    )
    assert repo.run("run", plan).code == 30
    card = yaml.safe_load((repo.latest() / "blocker.yaml").read_text())
    assert (card["category"], card["needs"]) == ("ENV", ["RESEARCH"])
    assert card["failure"]["signature"].startswith(card["blocker_id"].rpartition("-")[2])
    assert card["failure"]["step"] == "s"
    assert "frobnicate" in card["root_cause_hypothesis"][0]


def test_the_same_message_about_another_file_is_another_failure() -> None:
    log = 'Traceback (most recent call last):\n  File "/x/{}", line 3\n    y\nIndentationError: unexpected indent\n'
    assert failure(log.format("a.py")).signature == failure(log.replace("/x/", "/z/q/").format("a.py")).signature
    assert failure(log.format("a.py")).signature != failure(log.format("b.py")).signature
