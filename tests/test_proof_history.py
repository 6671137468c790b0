"""The pure parts of `make proof-history`: which commits are drawn, how they are labelled, and what the tables count."""

from __future__ import annotations

from pathlib import Path

import pytest
from proof.history.judging import Verdict, read_answer, read_outcome
from proof.history.labels import Signs, compare_texts
from proof.history.project import SuiteRun
from proof.history.recipes import find_recipe, requirements_for_tests
from proof.history.report import Case, cross_table, overhead_table, percentile
from proof.history.sampling import Commit, kind_of, order, read_log


def commit(subject: str, *paths: str, name: str = "c0ffee") -> Commit:
    return Commit(name, "parent", subject, paths)


def verdict(outcome: str, *, seconds: float = 3.0, runs: int = 2, run_seconds: float = 1.0) -> Verdict:
    return Verdict("p", outcome, 0, (), (), seconds, runs, run_seconds)


def case(kind: str, outcome: str, signs: Signs | None = None, *, judged: str = "", seconds: float = 3.0) -> Case:
    return Case("repo", commit("x"), kind, signs or Signs(), 1.0, verdict(outcome, seconds=seconds), judged)


@pytest.mark.parametrize(
    ("subject", "paths", "kind"),
    [
        ("Fix the rounding of negative numbers", ("src/m.py", "tests/test_m.py"), "fix"),
        ("Fix the rounding of negative numbers", ("src/m.py",), None),
        ("Add a separator option", ("lib/index.js", "test/index.js"), "feature"),
        ("Simplify the tokenizer", ("src/lexer.rs",), "refactor"),
        ("Cover empty input", ("pkg/m_test.go",), "tests"),
        ("Add Python 3.13 to the matrix", (".github/workflows/ci.yml", "setup.py"), "maintenance"),
        ("Release 2.1", ("src/m.py", "CHANGES.md"), "maintenance"),
        ("Wobble", ("src/m.py",), None),
    ],
)
def test_a_commit_has_the_kind_that_its_paths_and_subject_say(
    subject: str, paths: tuple[str, ...], kind: str | None
) -> None:
    assert kind_of(commit(subject, *paths)) == kind


def test_the_same_commits_are_drawn_in_the_same_order_every_time() -> None:
    commits = [commit("Fix it", "m.py", "test_m.py", name=str(number)) for number in range(40)]
    first, again, other = order("a", commits), order("a", list(commits)), order("b", commits)
    assert first == again
    assert first["fix"] != other["fix"]
    assert sorted(first["fix"]) == sorted(commits)
    assert first["fix"] != commits


def test_a_merge_is_left_out_of_the_log() -> None:
    text = "\x1eaa\x1fbb\x1fone: two\n\nm.py\ntests/test_m.py\n\n\x1ecc\x1fdd ee\x1fmerge\n\nm.py\n\x1eff\x1f\x1ffirst\n\nm.py\n"
    assert read_log(text) == [Commit("aa", "bb", "one: two", ("m.py", "tests/test_m.py"))]


def test_a_repository_without_a_recipe_gets_the_usual_test_command() -> None:
    recipe = find_recipe("unheard-of", {"Cargo.toml", "src"}, {})
    assert recipe
    assert recipe.test.startswith("cargo test")
    named = find_recipe("known", {"package.json"}, {"known": {"test": "tape", "packages": ["a"]}})
    assert named
    assert (named.test, named.packages) == ("tape", ("a",))
    assert find_recipe("unheard-of", {"README"}, {}) is None


def test_requirements_of_tests_are_read_from_extras_and_groups() -> None:
    pyproject = {
        "project": {
            "name": "m",
            "dependencies": ["six"],
            "optional-dependencies": {"tests": ["m[extra]", "pytest"], "docs": ["sphinx"]},
        },
        "dependency-groups": {"test": ["freezegun", {"include-group": "lint"}]},
    }
    assert requirements_for_tests(pyproject) == ["six", "freezegun", "pytest"]


def test_a_suite_that_fails_is_told_from_one_that_cannot_start_or_is_empty() -> None:
    assert SuiteRun(1, 1.0, ("t",), "1 failed").started
    assert SuiteRun(0, 1.0, (), "1 passed").green
    assert not SuiteRun(0, 1.0, (), "Ran 0 tests in 0.000s").green
    assert not SuiteRun(2, 1.0, (), "1 error during collection").started
    assert not SuiteRun(101, 1.0, (), "error: could not compile `m`").started


def test_an_edit_that_keeps_every_assertion_shows_no_sign() -> None:
    old = {"tests/test_m.py": "def test_a():\n    assert f(1) == 2\n"}
    new = {"tests/test_m.py": "def test_b():\n    assert f(2) == 3\n\ndef test_a():\n  assert f(1)  == 2\n"}
    assert compare_texts(old, new).group == "none"


def test_a_lost_test_and_a_changed_assertion_are_signs() -> None:
    old = {"tests/test_m.py": "def test_a():\n    assert f(1) == 2\n"}
    signs = compare_texts(old, {"tests/test_m.py": "def test_b():\n    assert f(1) == 3\n"})
    assert (signs.tests_gone, signs.assertions_gone, signs.group) == (("test_a",), ("assertf(1)==2",), "tests edited")


@pytest.mark.parametrize(
    ("path", "old", "new", "changed"),
    [
        ("tox.ini", "[tox]\n", "[tox]\nenvlist = py\n", True),
        ("pyproject.toml", "[project]\nversion = '1'\n", "[project]\nversion = '2'\n", False),
        ("pyproject.toml", "[tool.ruff]\nignore = []\n", "[tool.ruff]\nignore = ['E501']\n", True),
        ("setup.cfg", "[metadata]\nversion = 1\n", "[metadata]\nversion = 2\n", False),
        ("package.json", '{"version": "1"}', '{"version": "2"}', False),
        ("package.json", '{"scripts": {"test": "tape"}}', '{"scripts": {"test": "true"}}', True),
        ("README.md", "a", "b", False),
    ],
)
def test_only_the_part_that_steers_checks_is_configuration(path: str, old: str, new: str, changed: bool) -> None:
    assert bool(compare_texts({path: old}, {path: new}).configuration) is changed


@pytest.mark.parametrize(
    ("data", "outcome"),
    [
        ({"decision": "ASK"}, "REVIEW"),
        ({"decision": "RETRY"}, "REFUSED"),
        ({"decision": "RETRY", "outcome": "NOT_JUDGED"}, "NOT JUDGED"),
        ({"decision": "PASS", "outcome": "PASS"}, "PASS"),
        (None, "NOT JUDGED"),
    ],
)
def test_the_outcome_is_the_word_of_the_answer_or_follows_from_the_decision(
    data: dict[str, str] | None, outcome: str
) -> None:
    assert read_outcome(data) == outcome


def test_an_answer_is_read_with_its_findings_and_its_runs() -> None:
    finding = {"rule": "skip-added", "path": "t.py", "line": 3, "what": "skipped", "grade": "weakening"}
    answer = {
        "envelope": {"message": "m"},
        "data": {"decision": "ASK", "reasons": [{"text": "why"}], "findings": [finding, {**finding, "grade": "note"}]},
    }
    runs = [(0, 500), (100, 200), (900, 250)]
    evidence = "".join(
        f'{{"started": "2026-01-01T00:00:00.{start:03}Z", "duration_ms": {run}}}\n' for start, run in runs
    )
    read = read_answer(answer, 33, 4.0, evidence, "p")
    assert read == Verdict("p", "REVIEW", 33, ("why",), ("skip-added t.py:3: skipped",), 4.0, 3, 0.75)
    assert read_answer({}, 70, 1.0, "", "p").reasons == ("no answer",)


def test_the_expected_outcome_follows_the_signs_unless_a_person_has_spoken() -> None:
    assert case("fix", "PASS").right
    assert not case("fix", "REVIEW").right
    assert case("fix", "REVIEW", Signs(old_tests_fail=("t",))).right
    assert not case("fix", "PASS", Signs(old_tests_fail=("t",))).right
    assert case("fix", "REVIEW", judged="REVIEW a bound was raised").right
    either = Signs(configuration=("tox.ini",))
    assert [case("tests", word, either).right for word in ("PASS", "REVIEW", "REFUSED")] == [True, True, False]


def test_the_tables_count_outcomes_and_cost() -> None:
    cases = [case("fix", "PASS"), case("fix", "REFUSED"), case("tests", "PASS", seconds=9.0)]
    assert cross_table(cases, ["fix", "tests"], lambda item: item.kind) == [
        ["fix", "2", "1", "0", "1", "0"],
        ["tests", "1", "1", "0", "0", "0"],
        ["all", "3", "2", "0", "1", "0"],
    ]
    assert [row[:3] for row in overhead_table(cases)][-1] == ["all", "3.0 / 9.0", "2 (2)"]
    assert percentile([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 0.9) == 10


def test_the_known_commits_name_a_kind_and_an_outcome() -> None:
    import tomllib

    from proof.history import recipes
    from proof.history.sampling import KINDS

    words = tomllib.loads((Path(recipes.FOLDER) / "known.toml").read_text())
    for text in (text for commits in words.values() for text in commits.values()):
        kind, outcome, why = text.split(" ", 2)
        assert (kind in KINDS, outcome in {"PASS", "REVIEW", "REFUSED"}, bool(why)) == (True, True, True)
