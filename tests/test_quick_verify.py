"""A quick verification runs the tests that depend on the change, and its answer is provisional."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reflectloop import api
from reflectloop.verification import check_runner, test_selection
from reflectloop.verification.check_runner import CheckRunner
from reflectloop.verification.progress import RunningCheck
from reflectloop.verification.test_selection import ChosenTests, choose_tests
from support import Repo, reflectloop

FILES = {
    "src/shop/__init__.py": "",
    "src/shop/prices.py": "def total(items):\n    return sum(items)\n",
    "src/shop/orders.py": "from . import prices\n\n\ndef order(items):\n    return prices.total(items)\n",
    "src/shop/names.py": "def upper(name):\n    return name.upper()\n",
    "src/shop/unused.py": "VALUE = 1\n",
    "tests/conftest.py": "import shop.names\n",
    "tests/test_prices.py": "from shop.prices import (\n    total,\n)\n",
    "tests/test_orders.py": "import shop.orders as orders\n",
    "tests/deep/test_other.py": "def test_it():\n    import json\n",
}


def _chosen(*changed: str, **more: str) -> ChosenTests:
    files = {name: text.encode() for name, text in {**FILES, **more}.items()}
    return choose_tests(changed, files, lambda paths: {path: files[path] for path in paths})


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("src/shop/orders.py", ("tests/test_orders.py",)),
        ("src/shop/prices.py", ("tests/test_orders.py", "tests/test_prices.py")),
        ("tests/test_prices.py", ("tests/test_prices.py",)),
        # A package runs before its modules, and a conftest.py before the tests below it.
        ("src/shop/__init__.py", ("tests/deep/test_other.py", "tests/test_orders.py", "tests/test_prices.py")),
        ("src/shop/names.py", ("tests/deep/test_other.py", "tests/test_orders.py", "tests/test_prices.py")),
    ],
)
def test_tests_are_chosen_that_import_what_changed_also_through_others(changed: str, expected: tuple[str, ...]) -> None:
    assert _chosen(changed) == ChosenTests(expected)


def test_prose_beside_a_source_does_not_matter() -> None:
    assert _chosen("README.md", "src/shop/orders.py") == ChosenTests(("tests/test_orders.py",))


@pytest.mark.parametrize(
    ("changed", "more", "why"),
    [
        ("data.json", {}, "data.json is no Python file"),
        ("src/shop/unused.py", {}, "no test imports src/shop/unused.py"),
        ("src/shop/orders.py", {"src/shop/old.py": "print 1\n"}, "src/shop/old.py cannot be read as Python"),
    ],
)
def test_tests_are_not_chosen_where_it_is_not_known_which_depend_on_the_change(
    changed: str, more: dict[str, str], why: str
) -> None:
    assert _chosen(changed, **more) == ChosenTests(unknown=why)


@pytest.mark.usefixtures("without_probing")
def test_a_quick_answer_is_provisional_or_a_refusal_and_never_pass(repo: Repo) -> None:
    repo.write("pyproject.toml", '[tool.pytest.ini_options]\npythonpath = ["."]\n')
    for name in ("one", "two"):
        repo.write(f"{name}.py", "def value():\n    return 1\n")
        repo.write(f"tests/test_{name}.py", f"import {name}\n\n\ndef test_it():\n    assert {name}.value() == 1\n")
    repo.commit("two modules")
    repo.write("one.py", "def value():\n    return 2 - 1\n")

    answer = reflectloop(repo.path, "verify", "--quick", "--json")
    assert (answer.code, answer.envelope["error_code"]) == (53, "NOT_JUDGED")
    assert answer.envelope["evidence_level"] == answer.json["data"]["level"] == "L2"
    assert answer.json["data"]["provisional"] == {"files": ["tests/test_one.py"], "unknown": ""}
    assert [check["sealed"]["counts"]["passed"] for check in answer.json["data"]["checks"]] == [1]
    assert answer.envelope["next"] == "reflectloop verify"

    repo.write("one.py", "def value():\n    return 3\n")
    refused = reflectloop(repo.path, "verify", "--quick", "--json")
    assert (refused.code, refused.json["data"]["outcome"]) == (32, "REFUSED")
    assert "tests/test_one.py::test_it" in refused.json["data"]["comparison"]["newly_failing"]
    assert refused.json["data"]["provisional"]


# The suite imports the package because its doctests do; a test file alone would not find it.
LAYOUT = {
    "pytest.ini": "[pytest]\naddopts = --doctest-modules\n",
    "shop/__init__.py": "",
    "shop/core.py": "def add(a, b):\n    return a - b\n",
    "shop/names.py": "def upper(name):\n    return name.upper()\n",
    "shop/tests/test_core.py": "from shop.core import add\n\n\ndef test_zero():\n    assert add(1, 0) == 1\n",
    "shop/tests/test_names.py": "from shop.names import upper\n\n\ndef test_it():\n    assert upper('a') == 'A'\n",
}
WITH_A_TEST = f"{LAYOUT['shop/tests/test_core.py']}\n\ndef test_add():\n    assert add(1, 2) == 3\n"


@pytest.fixture
def shop(repo: Repo) -> Repo:
    repo.git("rm", "-q", "-r", "src")
    for name, text in LAYOUT.items():
        repo.write(name, text)
    repo.commit("a package with its tests inside")
    repo.write("shop/core.py", "def add(a, b):\n    return a + b\n")
    return repo


@pytest.mark.usefixtures("without_probing")
def test_tests_inside_a_package_are_found_by_a_quick_verification(shop: Repo) -> None:
    answer = reflectloop(shop.path, "verify", "--quick", "--json")
    assert answer.code == 53, answer.stdout
    [check] = answer.json["data"]["checks"]
    assert (check["base"]["counts"]["passed"], check["sealed"]["counts"]["passed"]) == (1, 1)
    assert check["sealed"]["ok"]


def test_new_tests_inside_a_package_prove_a_fix(shop: Repo) -> None:
    shop.write("shop/tests/test_core.py", WITH_A_TEST)
    answer = reflectloop(shop.path, "verify", "--track", "fix", "--json")
    assert (answer.code, answer.json["data"]["outcome"]) == (0, "PASS"), answer.stdout


def test_a_new_test_that_the_suites_own_command_does_not_reach_is_still_run(shop: Repo) -> None:
    shop.write("pytest.ini", "[pytest]\npythonpath = .\ntestpaths = shop\n")
    shop.commit("other settings")
    shop.write("shop/core.py", "def add(a, b):\n    return b + a\n")
    shop.write("checks/test_more.py", "from shop.core import add\n\n\ndef test_more():\n    assert add(2, 2) == 4\n")
    answer = reflectloop(shop.path, "verify", "--json")
    [own] = answer.json["data"]["own_tests"]
    assert own["on_patch"]["counts"]["passed"] == 1


@pytest.mark.usefixtures("without_probing")
@pytest.mark.parametrize("runs", [2, 4])
def test_a_quick_verification_announces_as_many_runs_as_it_has(shop: Repo, runs: int) -> None:
    if runs > 2:  # those of the patch's own tests
        shop.write("shop/tests/test_core.py", WITH_A_TEST)
    lines = reflectloop(shop.path, "verify", "--quick").stderr.splitlines()
    announced = [
        line.removeprefix("· ").partition(":")[0] for line in lines if " of about " in line and ": pytest" in line
    ]
    assert announced == [f"{number} of about {runs}" for number in range(1, runs + 1)]


def test_a_tree_that_is_proven_already_is_answered_by_its_proof(shop: Repo) -> None:
    shop.write("shop/tests/test_core.py", WITH_A_TEST)
    assert reflectloop(shop.path, "verify", "--track", "fix").code == 0
    answer = reflectloop(shop.path, "verify", "--track", "fix", "--quick", "--json")
    assert (answer.code, answer.envelope["evidence_level"]) == (0, "L3")


BUILD = """[verify]
checks = [
    {name = "build", run = ["python", "-c", "print(1)"], kind = "build"},
    {name = "pytest", run = ["python", "-m", "pytest"], kind = "test"},
]
"""


def _write_four_modules(repo: Repo) -> None:
    repo.write("pyproject.toml", '[tool.pytest.ini_options]\npythonpath = ["."]\n')
    for name in ("one", "two", "three", "four"):
        repo.write(f"{name}.py", "def value():\n    return 1\n")
        repo.write(f"tests/test_{name}.py", f"import {name}\n\n\ndef test_it():\n    assert {name}.value() == 1\n")
    repo.commit("four modules")
    repo.write("one.py", "def value():\n    return 2 - 1\n")


def _watch_runs(monkeypatch: pytest.MonkeyPatch) -> list[RunningCheck]:
    runs: list[RunningCheck] = []
    announce = CheckRunner.announce

    def noted(self: CheckRunner, *given: Any) -> RunningCheck:
        runs.append(announce(self, *given))
        return runs[-1]

    monkeypatch.setattr(CheckRunner, "announce", noted)
    return runs


@pytest.mark.usefixtures("without_probing")
@pytest.mark.parametrize(("long_ms", "looks"), [(0, 1), (10**9, 0)])
def test_a_long_suite_first_runs_the_few_tests_that_depend_on_the_change(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, long_ms: int, looks: int
) -> None:
    monkeypatch.setattr(test_selection, "_LONG_MS", long_ms)
    _write_four_modules(repo)
    runs = _watch_runs(monkeypatch)
    summary = api.verify(project=repo.path)
    assert [(run.number, run.total) for run in runs] == ([(1, 2), (2, 3), (3, 3)] if looks else [(1, 2), (2, 2)])
    assert (summary.outcome, summary.level) == ("PASS", "L3")
    lines = (summary.receipt.parent / "evidence.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    first = [record for record in records if "provisional" in record["claim"]]
    assert [(record["level"], record["counts"]["passed"]) for record in first] == [("L2", 1)] * looks
    whole = [record for record in records if record["level"] == "L3"]
    assert [record["counts"]["passed"] for record in whole] == [4]


@pytest.mark.usefixtures("without_probing")
def test_no_first_look_is_had_at_a_suite_whose_results_are_remembered(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.write("reflectloop.toml", BUILD)
    _write_four_modules(repo)
    assert api.verify(project=repo.path).level == "L3"
    monkeypatch.setattr(test_selection, "_LONG_MS", 0)
    runs = _watch_runs(monkeypatch)
    assert (api.verify(project=repo.path).level, runs) == ("L2", [])


@pytest.mark.usefixtures("without_probing")
def test_a_test_that_hangs_is_not_awaited_as_long_at_a_first_look(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_selection, "_LONG_MS", 0)
    monkeypatch.setattr(check_runner, "_LEAST_LIMIT_S", 12.0)
    monkeypatch.setattr(check_runner, "_TIMES_BASE", 6)
    _write_four_modules(repo)
    repo.write("one.py", "def value():\n    while True:\n        pass\n")
    summary = api.verify(project=repo.path)
    assert summary.outcome == "REFUSED"
    lines = (summary.receipt.parent / "evidence.jsonl").read_text().splitlines()
    claims = {record["claim"]: record["duration_ms"] for record in map(json.loads, lines)}
    first = next(ms for claim, ms in claims.items() if "provisional" in claim)
    whole = next(ms for claim, ms in claims.items() if "on base + patch, sealed" in claim)
    assert first < whole / 2
