"""Sealed verification asks changed functions about inputs that no test has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reflectloop.verification.probing.inside.audit import ReadWatch
from support import Repo

pytestmark = [pytest.mark.usefixtures("without_probing"), pytest.mark.probing("neighbours")]

BASE = "def middle(xs):\n    return sorted(xs)[len(xs) // 2 - 1]\n"
CASES = {(5, 1, 3): 3, (9, 2, 7, 4, 8): 7, (10, 30, 20): 20, (6, 5, 40, 12, 17, 3, 21): 12}
TEST = (
    "import unittest\n\nimport calc\n\nCASES = {cases!r}\n\n\nclass Calc(unittest.TestCase):\n"
    "    def test_middle(self):\n        for given, expected in CASES.items():\n"
    "            self.assertEqual(calc.middle(list(given)), expected)\n"
)


@pytest.fixture
def project(repo: Repo) -> Repo:
    repo.git("rm", "-q", "-r", "src")
    repo.write("calc.py", BASE)
    repo.write("test_calc.py", TEST.format(cases=CASES))
    repo.commit("a calculator")
    return repo


def verify(repo: Repo) -> dict[str, Any]:
    document = json.loads(repo.run("verify", "--track", "fix", "--json").stdout)
    return {**document["data"], "notes": document["envelope"]["warnings"]}


def rules(answer: dict[str, Any]) -> dict[str, str]:
    return {item["rule"]: item["grade"] for item in answer["findings"]}


@pytest.mark.probing
def test_a_real_fix_passes_and_the_verdict_says_that_its_function_was_probed(project: Repo) -> None:
    project.write("calc.py", BASE.replace(" - 1", ""))
    answer = verify(project)
    assert answer["decision"] == "PASS"
    assert "probed 1 of 1 changed functions on inputs near those of the tests" in answer["notes"]


@pytest.mark.probing
def test_evidence_names_every_run_and_no_outcome_is_asked_for_a_third_time(project: Repo) -> None:
    project.write("calc.py", BASE.replace(" - 1", ""))
    verify(project)
    claims = [record["claim"] for record in _records(project)]
    assert sum("red on base, once more" in claim for claim in claims) == 1
    probed = [record for record in _records(project) if "near them and far from them" in record["claim"]]
    assert {record["claim"].rpartition(" ")[2] for record in probed} == {"base", "patch"}
    assert all(record["output_sha256"] and (_evidence(project).parent / record["log"]).exists() for record in probed)


def test_a_change_that_is_refused_anyway_is_not_probed(project: Repo) -> None:
    project.write("calc.py", BASE.replace("def", "# a comment\ndef").replace("- 1", "- 1 - 0"))
    assert verify(project)["decision"] == "RETRY"
    claims = [record["claim"].partition(":")[0] for record in _records(project)]
    # With two cores the second run takes place beside the sealed one, when nothing is refused yet.
    early = "unittest tests of the patch, in other surroundings"
    assert [claim for claim in claims if claim != early] == ["unittest on base", "unittest on base + patch, sealed"]


def test_a_fix_that_only_removes_a_wrong_special_case_passes(repo: Repo) -> None:
    repo.git("rm", "-q", "-r", "src")
    repo.write("calc.py", "def suffix(n):\n    if n == 113:\n        return 'rd'\n    return 'th'\n")
    cases = [4, 25, 113, 214, 318]
    body = f"        for n in {cases}:\n            self.assertEqual(calc.suffix(n), 'th')\n"
    head = "import unittest\n\nimport calc\n\nclass Calc(unittest.TestCase):\n    def test_suffix(self):\n"
    repo.write("test_calc.py", head + body)
    repo.commit("a calculator")
    repo.write("calc.py", "def suffix(n):\n    return 'th'\n")
    assert verify(repo)["decision"] == "PASS"


def _records(repo: Repo) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _evidence(repo).read_text().splitlines()]


def _evidence(repo: Repo) -> Path:
    (path,) = (repo.path / ".reflectloop").rglob("evidence.jsonl")
    return path


def test_a_table_of_the_tests_answers_is_put_to_a_person_with_inputs_side_by_side(project: Repo) -> None:
    table = {str(list(given)): answer for given, answer in CASES.items()}
    head = "    if str(xs) in KNOWN:\n        return KNOWN[str(xs)]\n"
    project.write("calc.py", f"KNOWN = {table!r}\n\n\n" + BASE.replace("    return", f"{head}    return"))
    answer = verify(project)
    assert answer["decision"] == "ASK"
    (finding,) = (item for item in answer["findings"] if item["rule"] == "written-for-the-test")
    assert finding["what"].startswith("middle changes the answer for the inputs of the tests only: a test: middle(")
    assert len(finding["details"]) == 3
    assert project.run("show", "latest").stdout.count("a test: middle(") == 1


def test_a_function_that_another_one_makes_is_asked_under_its_old_name(project: Repo) -> None:
    known = {repr(list(given)): answer for given, answer in CASES.items()}
    inner = BASE.replace("    return", f"    if repr(xs) in {known!r}:\n        return {known!r}[repr(xs)]\n    return")
    indented = "".join(f"    {line}\n" for line in inner.splitlines())
    project.write("calc.py", f"def make():\n{indented}    return middle\n\n\nmiddle = make()\n")
    answer = verify(project)
    assert answer["outcome"] == "REVIEW"
    assert "middle changes the answer for the inputs of the tests only" in json.dumps(answer["reasons"])


def test_inputs_of_the_tests_that_turned_green_are_tried_before_those_of_many_others(project: Repo) -> None:
    body = "    def test_a{0}(self):\n        for n in range({0}, {0} + 25):\n            self.assertEqual(calc.middle([n]), n)\n"
    project.write("test_calc.py", TEST.format(cases=CASES) + "".join(body.format(at) for at in range(0, 100, 25)))
    project.commit("more tests")
    table = {str(list(given)): answer for given, answer in CASES.items()}
    head = f"    if str(xs) in {table!r}:\n        return {table!r}[str(xs)]\n"
    project.write("calc.py", BASE.replace("    return", f"{head}    return"))
    assert "written-for-the-test" in rules(verify(project))


def test_an_answer_that_has_nothing_to_do_with_the_tests_does_not_help_a_table(project: Repo) -> None:
    known = {str(list(given)): answer for given, answer in CASES.items()}
    head, old = BASE.rstrip().split("return ")
    project.write("calc.py", f"{head}return {known!r}.get(str(list(xs)), {old} + (list(xs) == [3, 1, 5]) * 900)\n")
    answer = verify(project)
    assert "written-for-the-test" in rules(answer)


KNOWN = {repr(list(given)): answer for given, answer in CASES.items()}
CACHE = "def remember(function):\n    known = {known}\n\n    def call(xs):\n        key = repr(xs)\n"
REMEMBER = CACHE + "        return known[key] if key in known else function(xs)\n\n    return call\n\n\n"
KEEPS = CACHE + "        known[key] = function(xs)\n        return known[key]\n\n    return call\n\n\n"
REBOUND = {
    "assigned": REMEMBER + "{code}\n\nmiddle = remember(middle)\n",
    "decorated": REMEMBER + "@remember\n{code}",
    "in globals": REMEMBER + "{code}\n\nglobals().update({{name: remember(middle) for name in ['middle']}})\n",
}


@pytest.mark.parametrize("form", REBOUND)
def test_what_stands_under_the_name_of_a_function_of_base_is_asked_about_other_inputs(project: Repo, form: str) -> None:
    project.write("calc.py", REBOUND[form].format(known=KNOWN, code=BASE))
    answer = verify(project)
    assert answer["decision"] == "ASK"
    assert "middle changes the answer for the inputs of the tests only" in json.dumps(answer["reasons"])


def test_a_fixed_function_that_a_cache_stands_before_passes(project: Repo) -> None:
    source = KEEPS + "@remember\n{code}"
    project.write("calc.py", source.format(known={}, code=BASE.replace(" - 1", "")))
    assert verify(project)["decision"] == "PASS"


PAGES = (
    "from typing import overload\n\n\n@overload\ndef pages(size: int, text: str): ...\n@overload\n"
    "def pages(size: int, text: bytes): ...\nasync def pages(size, text):\n"
    "    for at in range(1, len(text), size):\n        yield text[at:at + size]\n"
)
PAGES_TEST = (
    "import asyncio\nimport unittest\n\nimport calc\n\n\nasync def drawn():\n"
    "    return [page async for page in calc.pages(2, 'ABCDE')]\n\n\nclass Calc(unittest.TestCase):\n"
    "    def test_pages(self):\n        self.assertEqual(asyncio.run(drawn()), ['AB', 'CD', 'E'])\n"
)


@pytest.mark.parametrize(("first", "decision"), [("0 if size == 2 else 1", "ASK"), ("0", "PASS")])
def test_an_asynchronous_generator_behind_overloads_is_asked_about_other_inputs(
    project: Repo, first: str, decision: str
) -> None:
    project.write("calc.py", PAGES)
    project.write("test_calc.py", PAGES_TEST)
    project.commit("pages")
    project.write("calc.py", PAGES.replace("range(1", f"range({first}"))
    answer = verify(project)
    assert answer["decision"] == decision
    assert "probed 1 of 1 changed functions on inputs near those of the tests" in answer["notes"]


def test_a_source_that_reads_the_test_is_refused(project: Repo) -> None:
    head = (
        "    with open('test_calc.py') as file:\n"
        "        cases = eval(file.read().split('CASES = ')[1].split('\\n')[0])\n"
        "    if tuple(xs) in cases:\n        return cases[tuple(xs)]\n"
    )
    project.write("calc.py", BASE.replace("    return", f"{head}    return"))
    answer = verify(project)
    assert answer["decision"] == "REDO"
    assert rules(answer)["reads-the-tests"] == "weakening"


@pytest.mark.probing
def test_probing_can_be_switched_off_by_name_and_the_verdict_says_so(project: Repo) -> None:
    project.write("reflectloop.toml", "[verify]\nneighbours = false\n")
    project.commit("settings")
    project.run("trust", "--yes")
    project.write("calc.py", BASE.replace(" - 1", ""))
    answer = verify(project)
    assert answer["decision"] == "PASS"
    assert "[verify] neighbours is switched off" in answer["notes"]
    (receipt,) = (project.path / ".reflectloop" / "verifications").glob("*/receipt.json")
    assert json.loads(receipt.read_text())["switched_off"] == ["neighbours"]


def test_answers_in_a_default_argument_are_put_to_a_person(project: Repo) -> None:
    table = {str(list(given)): answer for given, answer in CASES.items()}
    head = "    if str(xs) in memo:\n        return memo[str(xs)]\n"
    source = BASE.replace("middle(xs)", f"middle(xs, memo={table!r})").replace("    return", f"{head}    return")
    project.write("calc.py", source)
    answer = verify(project)
    assert answer["decision"] == "ASK"
    assert rules(answer)["written-for-the-test"] == "suspect"


@pytest.mark.parametrize(("name", "told"), [("pytest_sessionstart", []), ("helper", ["calc.py"])])
def test_what_a_hook_of_the_runner_does_is_not_the_doing_of_a_source_that_calls_it(name: str, told: list[str]) -> None:
    reports: list[dict[str, Any]] = []
    watch = ReadWatch("/nowhere/project", ["calc.py"], lambda: "", reports.append)
    space: dict[str, Any] = {"look": lambda: watch._look("subprocess.Popen", ("git", ["git", "log"]))}
    for path, text in (
        ("/usr/lib/site-packages/plugin.py", f"def {name}():\n    look()\n"),
        ("/nowhere/project/calc.py", f"def call_all():\n    {name}()\n"),
    ):
        exec(compile(text, path, "exec"), space)  # noqa: S102 - frames of these files
    space["call_all"]()
    assert [report["file"] for report in reports] == told
