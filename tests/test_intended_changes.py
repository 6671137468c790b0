"""A change of behaviour that was meant is one finding for a person; a test that breaks is a refusal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from gate_builders import FULL_CONTRACT
from reflectloop.verification import intended
from reflectloop.verification.flaky_tests import FlakyTests
from reflectloop.verification.intended import IntendedChanges, NewVersionOutcomes
from reflectloop.verification.result import ChangedFile, DetectedCheck, Outcome, TamperFinding, VerificationResult
from test_verify import Calc, calc

pytestmark = pytest.mark.usefixtures("without_probing")

__all__ = ["calc"]  # a fixture


def rules(found: dict[str, Any]) -> list[str]:
    return [reason["rule"] for reason in found["reasons"]]


def test_a_changed_expectation_is_one_finding_with_both_versions(calc: Calc) -> None:
    calc.fix()
    calc.commit("mended")
    calc.edit("calc.py", "return a * b", "return -(a * b)")
    calc.edit("tests/test_calc.py", "mul(2, 3) == 6", "mul(2, 3) == -6")
    found = calc.verify(code=33)
    assert (found["outcome"], rules(found)) == ("REVIEW", [intended.RULE])
    (reason,) = found["reasons"]
    assert "test_mul expects something else now" in reason["text"]
    assert reason["details"] == ["-     assert mul(2, 3) == 6", "+     assert mul(2, 3) == -6"]
    assert found["comparison"]["newly_failing"] == []
    said = calc.say().stderr
    assert "REVIEW: 1 finding for a person to approve" in said
    assert "+     assert mul(2, 3) == -6" in said
    run_id = found["envelope"]["run_id"]
    both = ["-     assert mul(2, 3) == 6", "+     assert mul(2, 3) == -6"]
    shown = calc.run("show", run_id).stdout
    assert all(f"\n      {line}\n" in shown for line in both)
    printed = calc.run("approve", run_id, "--print").stdout
    assert all(f"\n  # {line}\n" in printed for line in both)
    assert yaml.safe_load(printed)["approvals"][0]["finding"] == reason["finding"]
    titles = [line for line in calc.run("log", run_id).stdout.splitlines() if line.startswith("== ")]
    assert titles[0] == "== verify.1.pytest.log: pytest on base: 3 passed"
    own = ".pytest.log: pytest tests of the patch, on base: 1 failed, 2 passed"
    assert any(title.endswith(own) for title in titles)
    contract = calc.path.parent / "contract.json"
    named = ["calc.py", "tests/test_calc.py"]
    claims = {"track": "refactor", "files_changed": named, "may_change": named, "acceptance": []}
    contract.write_text(json.dumps(FULL_CONTRACT | claims))
    gated = calc.run("gate", "--contract", contract).stderr
    assert all(f"\n        {line}\n" in gated for line in both)
    assert f"\n  # {both[1]}\n" in calc.run("approve", "latest", "--print").stdout


def test_a_corrected_expectation_is_the_proof_of_a_fix_once_a_person_agrees(calc: Calc) -> None:
    calc.fix()
    calc.commit("mended")
    calc.edit("calc.py", "return a * b", "return -(a * b)")
    calc.edit("tests/test_calc.py", "mul(2, 3) == 6", "mul(2, 3) == -6")
    assert rules(calc.verify("--track", "fix", code=33)) == [intended.RULE]


def test_a_test_that_also_fails_in_its_new_version_is_broken(calc: Calc) -> None:
    calc.edit("calc.py", "return a * b", "return -(a * b)")
    calc.edit("tests/test_calc.py", "mul(2, 3) == 6", "mul(2, 3) == -7")
    found = calc.verify(code=32)
    assert found["outcome"] == "REFUSED"
    assert "tests/test_calc.py::test_mul" in found["comparison"]["newly_failing"]


def test_a_test_that_was_loosened_is_called_so(calc: Calc) -> None:
    calc.fix()
    calc.commit("mended")
    calc.edit("calc.py", "return a * b", "return -(a * b)")
    calc.edit("tests/test_calc.py", "mul(2, 3) == 6", "mul(2, 3) in (6, -6)")
    found = calc.verify(code=33)
    assert found["outcome"] == "REVIEW"
    assert (
        "test_mul was changed: the old version fails on the change, the new version passes on base too"
        in found["reasons"][0]["text"]
    )


def test_tests_removed_with_the_code_they_tested_are_one_finding(calc: Calc) -> None:
    calc.fix()
    calc.commit("mended")
    calc.edit("calc.py", "def mul(a, b):\n    return a * b\n", "")
    calc.edit("tests/test_calc.py", "from calc import add, mul", "from calc import add")
    calc.edit("tests/test_calc.py", "def test_mul():\n    assert mul(2, 3) == 6\n", "")
    found = calc.verify(code=33)
    assert found["outcome"] == "REVIEW"
    assert any("test_mul" in reason["text"] for reason in found["reasons"])
    assert not found["comparison"]["newly_failing"]


def test_a_changed_golden_file_is_one_finding(calc: Calc) -> None:
    calc.fix()
    calc.write("tests/data/product.txt", "6\n")
    calc.write(
        "tests/test_golden.py",
        "from pathlib import Path\nfrom calc import mul\n\n\ndef test_product():\n"
        "    assert str(mul(2, 3)) == (Path(__file__).parent / 'data/product.txt').read_text().strip()\n",
    )
    calc.edit("tests/test_calc.py", "def test_mul():\n    assert mul(2, 3) == 6\n", "")
    calc.commit("golden")
    calc.edit("calc.py", "return a * b", "return -(a * b)")
    calc.write("tests/data/product.txt", "-6\n")
    found = calc.verify(code=33)
    assert (found["outcome"], rules(found)) == ("REVIEW", [intended.RULE])
    assert found["reasons"][0]["details"] == ["- 6", "+ -6"]


def test_an_edit_of_a_test_is_a_note_where_its_old_version_passes_on_the_change(calc: Calc) -> None:
    calc.fix()
    calc.commit("mended")
    calc.edit("calc.py", "return a * b", "return b * a")
    calc.edit("tests/test_calc.py", "mul(2, 3) == 6", "mul(4, 3) == 12")
    found = calc.verify(code=0)
    assert found["outcome"] == "PASS"
    assert any("every old test of the file passes" in finding["what"] for finding in found["findings"])


@pytest.mark.parametrize(
    ("outcome", "skipped", "grade"),
    [("passed", (), "note"), ("skipped", (), "suspect"), ("skipped", ("test_b[2]",), "note")],
)
def test_a_skip_that_is_not_reached_here_is_a_note_though_other_cases_were_always_skipped(
    outcome: Outcome, skipped: Sequence[str], grade: str
) -> None:
    text = b"def test_b(x):\n    if x and old:\n        skip()\n    assert f(x)\n"
    change = ChangedFile("tests/test_a.py", text.replace(b"    if x and old:\n        skip()\n", b""), text)
    names = ("tests/test_a.py::test_b[1]", "tests/test_a.py::test_b[2]")
    seen: dict[str, Outcome] = {names[0]: "passed", names[1]: outcome}
    skips = frozenset(f"tests/test_a.py::{name}" for name in skipped)
    nothing = frozenset[str]()
    runs = intended.RunEvidence([change], nothing, nothing, nothing, True, frozenset(names), seen, skips)
    finding = TamperFinding("skip-added", "tests/test_a.py", 3, "test_b: `skip() if x and old`", "suspect")
    assert [each.grade for each in intended.settle([finding], [], runs)] == [grade]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("tests.test_a.Case.runTest.60", "runTest"),
        ("tests.test_a.Case.test_b", "test_b"),
        ("tests/test_a.py::Case::test_b[1.5]", "test_b"),
        ("parser > reads 1.5", "5"),
    ],
)
def test_the_function_of_a_case_with_a_number_of_its_own_is_known(name: str, function: str) -> None:
    assert intended.function_name(name) == function


def test_a_finding_about_a_renamed_test_is_not_answered_by_its_neighbour() -> None:
    before = b"def test_old():\n    r = 1\n    assert r == 1\n\ndef test_beside():\n    assert 4\n    assert 5\n"
    after = b"# one\n# two\n# three\n\ndef test_new():\n    r = 2\n    assert r == 2\n\ndef test_beside():\n    assert 4\n    assert 5\n"
    change, nothing = ChangedFile("test_it.py", before, after), frozenset[str]()
    finding = TamperFinding("assert-replaced", "test_it.py", 7, "test_new: `r == 1` -> `r == 2`", "suspect")
    renamed = TamperFinding("test-renamed", "test_it.py", 5, "test_old is now test_new", "note")
    old = frozenset({"test_it.py::test_old", "test_it.py::test_beside"})
    red = frozenset({"test_it.py::test_old"})
    seen: dict[str, Outcome] = {"test_it.py::test_new": "passed", "test_it.py::test_beside": "passed"}
    runs = intended.RunEvidence([change], nothing, nothing, red, True, old, seen)
    assert intended.settle([finding, renamed], [], runs) == [finding, renamed]
    asked = finding._replace(rule=intended.RULE)
    absorbed = intended.settle([finding, renamed], [asked], runs._replace(intended=red, removed=red))
    assert [each.what.endswith(intended.PART) for each in absorbed] == [False, True, False]


def test_an_edit_of_a_test_that_no_check_runs_is_for_a_person(calc: Calc) -> None:
    calc.fix()
    calc.write("more/test_more.py", "from calc import mul\n\n\ndef test_more():\n    assert mul(2, 4) == 8\n")
    calc.commit("a test beside the folder that is run")
    calc.edit("more/test_more.py", "mul(2, 4) == 8", "mul(2, 5) == 10")
    found = calc.verify(code=33)
    assert (found["outcome"], rules(found)) == ("REVIEW", ["assert-replaced"])


def test_a_weakening_of_the_same_test_is_told_with_the_changed_expectation(calc: Calc) -> None:
    calc.fix()
    calc.edit("tests/test_calc.py", "assert mul(2, 3) == 6", "assert mul(2, 3) == 6\n    assert mul(1, 1) == 1")
    calc.commit("mended")
    calc.edit("calc.py", "return a * b", "return -(a * b)")
    calc.edit("tests/test_calc.py", "== 6\n    assert mul(1, 1) == 1", "== -6")
    found = calc.verify(code=33)
    assert rules(found) == [intended.RULE]
    assert any("also: " in line and "mul(1, 1) == 1" in line for line in found["reasons"][0]["details"])


def test_a_red_test_whose_expectation_is_bent_is_for_a_person(calc: Calc) -> None:
    calc.edit("calc.py", "return a * b", "return b * a")
    calc.edit("tests/test_calc.py", "(1, 2, 3)", "(1, 2, -1)")
    found = calc.verify(code=33)
    assert found["outcome"] == "REVIEW"


def test_tests_that_need_settings_of_the_change_are_for_a_person(calc: Calc) -> None:
    calc.fix()
    calc.commit("mended")
    calc.write("calc.py", (calc.path / "calc.py").read_text() + "\n\ndef sub(a, b):\n    return a - b\n")
    calc.write("extra/more.py", "VALUE = 1\n")
    calc.edit("pyproject.toml", 'pythonpath = ["."]', 'pythonpath = [".", "extra"]')
    calc.write(
        "tests/test_sub.py",
        "import more\nfrom calc import sub\n\n\ndef test_sub():\n    assert sub(3, more.VALUE) == 2\n",
    )
    found = calc.verify(code=33)
    assert found["outcome"] == "REVIEW"
    assert "passes-with-own-settings" in rules(found)


def test_a_crash_on_base_that_is_gone_with_the_change_proves_a_fix(calc: Calc) -> None:
    calc.fix()
    calc.edit("calc.py", "return a * b", "import os\n    return a * b if a != 7 else os._exit(3)")
    calc.commit("crashes for seven")
    calc.edit("calc.py", "import os\n    return a * b if a != 7 else os._exit(3)", "return a * b")
    calc.write("tests/test_seven.py", "from calc import mul\n\n\ndef test_seven():\n    assert mul(7, 2) == 14\n")
    found = calc.verify("--track", "fix", code=0)
    assert found["outcome"] == "PASS"
    assert found["own_tests"][0]["red_then_green"] == ["tests/test_seven.py::test_seven"]


def test_a_case_in_a_data_file_proves_a_fix(calc: Calc) -> None:
    calc.write("tests/data/sums.txt", "0 0 0\n")
    calc.write(
        "tests/test_calc.py",
        "from pathlib import Path\nimport pytest\nfrom calc import add\n"
        "ROWS = (Path(__file__).parent / 'data/sums.txt').read_text().splitlines()\n\n\n"
        "@pytest.mark.parametrize('row', ROWS)\ndef test_row(row):\n"
        "    a, b, c = map(int, row.split())\n    assert add(a, b) == c\n",
    )
    calc.commit("no case shows the bug")
    calc.fix()
    calc.write("tests/data/sums.txt", "0 0 0\n1 2 3\n")
    found = calc.verify("--track", "fix", code=0)
    assert found["own_tests"][0]["red_then_green"] == ["tests/test_calc.py::test_row[1 2 3]"]


def test_a_build_that_fails_on_base_too_does_not_keep_the_tests_from_judging(calc: Calc) -> None:
    calc.fix()
    calc.write(
        "reflectloop.toml",
        '[verify]\nchecks = [{name = "ext", run = ["false"], kind = "build"}, '
        '{name = "pytest", run = ["pytest"], kind = "test"}]\n',
    )
    calc.commit("an optional extension that does not build here")
    calc.edit("calc.py", "return a * b", "return b * a")
    found = calc.verify(code=53)  # named in the settings, so it must be built
    assert found["checks"][1]["sealed"]["counts"]["passed"] == 3


@pytest.mark.parametrize(
    ("sealed", "base", "flaky"),
    [
        (["failed", "failed"], ["passed", "passed"], []),
        (["failed", "failed"], ["passed", "failed"], ["t"]),  # fails on base too, now and then
        (["failed", "passed", "passed", *["passed"] * 4], [], ["t"]),
        (["failed", "passed", "passed", "failed"], ["passed"] * 20, []),  # unstable by the change
        (["failed", "passed", "passed", "failed"], [*["passed"] * 19, "failed"], ["t"]),
        (["passed", "failed", "failed"], [], []),  # passes alone, and fails with the others
        (["passed", "failed", *["passed"] * 5], [*["passed"] * 8, "failed"], ["t"]),  # comes and goes in full runs too
        (["passed", "failed", *["passed"] * 5], ["passed"] * 20, []),
    ],
)
def test_a_test_is_flaky_if_it_passes_again_or_fails_on_base_too(
    sealed: list[Outcome], base: list[Outcome], flaky: list[str]
) -> None:
    outcomes = {"sealed": list(sealed), "base": list(base)}

    def again(tree: str, check: DetectedCheck, description: str, only: Sequence[str]) -> VerificationResult:
        del check, description, only
        return VerificationResult(ok=False, type="test_failure", summary="", tests={"t": outcomes[tree].pop(0)})

    check = DetectedCheck("tests", "test", "pytest", ("pytest",))
    assert FlakyTests(again, "base", "sealed").among(check, ["t"]) == flaky


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("tests/test_a.py::test_x[1]", "tests/test_a.py"),
        ("tests/test_b.py::test_x", None),  # names its file, which did not change
        ("test_a.Case.test_x", "tests/test_a.py"),
        ("test_x (pkg.test_a.Case.test_x)", "tests/test_a.py"),
        ("/a/project/test/add.js::adds two numbers", "test/add.js"),
        ("adds two numbers", "test/add.js"),
        ("Sums of numbers adds two numbers", "test/add.js"),  # after the title of its group
        ("unheard of", None),
    ],
)
def test_the_file_of_a_test_is_found_by_its_id(name: str, path: str | None) -> None:
    changes = [
        ChangedFile("tests/test_a.py", b"def test_x(): pass\n", b"def test_x(): return\n"),
        ChangedFile("test/add.js", b"test('adds two numbers', f)\n", b"test('adds two numbers', g)\n"),
    ]
    assert intended.owner(name, changes) == path


def test_a_test_that_is_named_like_a_path_is_no_file() -> None:
    changes = [ChangedFile("sub/test/add.test.js", b"test('conf/a.json', f)\n", b"")]
    names = ["sub/test/add.test.js", "test/add.test.js", "unittest.loader._FailedTest.x", "conf/a.json", "TestA/v1.0"]
    assert [intended.is_file(name, changes) for name in names] == [True, True, True, False, False]


def test_tests_are_sorted_by_what_became_of_them() -> None:
    versions = NewVersionOutcomes(
        {"changed": "passed", "loose": "passed", "skip": "skipped", "broken": "failed"},
        {"changed": "failed", "loose": "passed"},
    )
    found = intended.classify(["changed", "loose", "skip", "broken", "gone"], versions)
    cases = NewVersionOutcomes({"t[1]": "passed", "t[2]": "passed"}, {"t[1]": "passed", "t[2]": "failed"})
    assert intended.classify(["t[1]"], cases) == IntendedChanges(("t[1]",))  # judged by all its cases
    assert found == IntendedChanges(("changed",), ("loose",), ("gone",), ("skip",))


USES_PRIVATE = b"""from __future__ import annotations
from pkg import api
from pkg._hooks import _Thing

LIMIT = 1


def test_x():
    assert _Thing().go() == LIMIT == api.limit()


def test_other():
    assert api
"""
MOVED = ChangedFile("src/pkg/_hooks.py", b"class _Thing: ...\n", b"# moved\n")


@pytest.mark.parametrize(
    ("old", "new", "follows"),
    [
        (b"pkg._hooks import", b"pkg._result import", True),
        (b"    assert api\n", b"    assert api.limit\n", True),  # with the move, since another test judges itself
        (b"== LIMIT ==", b"== 2 ==", False),
        (b"LIMIT = 1", b"LIMIT = 2", False),
        (b"from pkg._hooks", b"from tests.fake", False),
        (b"pkg._hooks import _Thing", b"pkg._result import _Easier as _Thing", False),
        (b"from pkg import api", b"from pkg.other import api", False),
        (b"import annotations\n", b"import annotations\nfrom pkg.other import LIMIT\n", False),
        (b"from pkg import api\n", b"from pkg import api\nfrom pkg.other import api\n", False),
        (b"from __future__ import annotations\n", b"from pkg.compat import api\n", False),
    ],
)
def test_a_test_that_only_follows_the_move_of_a_private_name_expects_the_same(
    old: bytes, new: bytes, *, follows: bool
) -> None:
    change = ChangedFile("tests/test_a.py", USES_PRIVATE, USES_PRIVATE.replace(old, new))
    both = change._replace(after=(change.after or b"").replace(b"pkg._hooks import", b"pkg._result import"))
    assert intended.follows_private_move(both, ["test_x"], [both, MOVED]) is follows
    back = MOVED._replace(after=b"if TYPE_CHECKING:\n    from ._result import _Thing\n")
    assert intended.follows_private_move(both, ["test_x"], [both, back]) is follows
    elsewhere = MOVED._replace(after=b"from ._broken import _Thing\n")
    assert not intended.follows_private_move(both, ["test_x"], [both, elsewhere])
    still_there = MOVED._replace(after=b"class _Thing:\n    broken = True\n")
    assert not intended.follows_private_move(both, ["test_x"], [both, still_there])
    assert not intended.follows_private_move(both, ["test_y"], [both, MOVED])


def test_a_broken_public_name_is_not_hidden_by_an_import_of_another_one(calc: Calc) -> None:
    calc.fix()
    calc.edit("tests/test_calc.py", "import pytest\n", "from __future__ import annotations\nimport pytest\n")
    calc.commit("mended")
    calc.edit("calc.py", "return a * b", "return 0")
    calc.write("compat.py", "def mul(a, b):\n    return a * b\n")
    calc.edit("tests/test_calc.py", "from __future__ import annotations\n", "")
    calc.edit("tests/test_calc.py", "import add, mul\n", "import add, mul\nfrom compat import mul\n")
    assert rules(calc.verify(code=33)) == [intended.RULE]


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("def test_mul", "@pytest.mark.skipif('CI' in os.environ, reason='x')\ndef test_mul", "skip-added"),
        ("def test_mul", "@pytest.mark.xfail\ndef test_mul", "skip-added"),
        ("def test_mul", "@gentle\ndef test_mul", "decorator-added"),
        ("sys.platform == 'win32'", "'CI' in os.environ", "skip-changed"),
        ("    assert mul", "    for _ in some():\n        assert mul", "assert-conditional"),
        ("    assert mul", "    if 'CI' not in os.environ:\n        assert mul", "assert-conditional"),
        ("assert mul(2, 3) == 6", "assert callable(mul)", "assert-replaced"),
    ],
)
def test_an_edit_that_finds_less_from_now_on_is_for_a_person_though_all_tests_pass(
    calc: Calc, old: str, new: str, rule: str
) -> None:
    calc.fix()
    if rule == "skip-changed":
        calc.edit("tests/test_calc.py", "def test_mul", f"@pytest.mark.skipif({old}, reason='x')\ndef test_mul")
        calc.edit("tests/test_calc.py", "import pytest\n", "import sys\nimport pytest\n")
    calc.commit("mended")
    calc.edit("tests/test_calc.py", "import pytest\n", "import os\nimport pytest\nfrom tools import gentle, some\n")
    calc.edit("tests/test_calc.py", old, new)
    calc.write("tests/tools.py", "def gentle(test):\n    return lambda: None\n\n\ndef some():\n    return []\n")
    assert rules(calc.verify(code=33)) == [rule]


@pytest.mark.parametrize(
    ("path", "source", "names"),
    [
        ("a_test.go", b"func TestA(t *testing.T) {\n\tx()\n}\n\nfunc TestB(t *testing.T) {\n}\n", ["TestA", "TestB"]),
        ("a.test.js", b"describe('x', () => {\n  it('adds up', () => {})\n  test.only(`b`, f)\n})\n", ["adds up", "b"]),
        ("a.rs", b"#[test]\nfn adds() {\n}\n", ["adds"]),
        ("a.cc", b"TEST(Sum, Adds) {\n}\n", ["Sum.Adds"]),
        ("a.py", b"class A:\n    def test_a(self):\n        pass\n", ["test_a"]),
    ],
)
def test_the_tests_of_a_source_are_found_in_any_language(path: str, source: bytes, names: list[str]) -> None:
    assert [name for name, _ in intended.function_spans(path, source)] == names


@pytest.mark.parametrize(
    ("name", "code"), [("requirements-dev.txt", 33), ("requirements/lint-tests.txt", 33), ("docs-requirements.txt", 0)]
)
def test_a_list_of_packages_is_for_a_person_unless_tests_do_without_it(calc: Calc, name: str, code: int) -> None:
    calc.fix()
    calc.write(name, "pytest==8.0\n")
    calc.commit("mended")
    calc.write(name, "another==8.0\n")
    assert rules(calc.verify(code=code)) == ["dependencies-changed"] * (code != 0)


def test_another_version_of_a_package_is_no_question_and_another_package_is_one(calc: Calc) -> None:
    calc.fix()
    calc.write(
        "requirements-dev.txt", "# tests\npytest==8.0 \\\n    --hash=sha256:aa\nmy.pkg[x]>=1; python_version > '3'\n"
    )
    calc.commit("mended")
    calc.write("requirements-dev.txt", "pytest==9.1 --hash=sha256:bb\nmy_pkg[x]>=2\n")
    assert rules(calc.verify(code=0)) == []
    calc.write("requirements-dev.txt", "pytest @ https://example.invalid/x.whl\nmy_pkg[x]>=2\n")
    assert rules(calc.verify(code=33)) == ["dependencies-changed"]
