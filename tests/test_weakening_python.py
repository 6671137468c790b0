"""What a change does to Python tests is found; honest work on them is left alone."""

from __future__ import annotations

import pytest

from python_test_diff import BASE, bad, changed, found
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.tampering import look
from reflectloop.verification.tampering.powers import SurroundingFiles

PYTHON = [
    ("def test_price", "@pytest.mark.skip\ndef test_price", "skip-added", "weakening"),
    ("def test_price", "@pytest.mark.skipif(True, reason='later')\ndef test_price", "skip-added", "weakening"),
    ("def test_price", "@pytest.mark.xfail\ndef test_price", "skip-added", "weakening"),
    ("def test_price", "@unittest.skipUnless(x, 'y')\ndef test_price", "skip-added", "weakening"),
    ("    result = price(3)", "    pytest.skip('later')\n    result = price(3)", "skip-added", "weakening"),
    ("    result = price(3)", "    raise unittest.SkipTest('later')\n    result = price(3)", "skip-added", "weakening"),
    ("CASES =", "pytestmark = pytest.mark.skip\nCASES =", "skip-added", "weakening"),
    ("from shop import price", "shop = pytest.importorskip('shop')", "skip-added", "weakening"),
    ("CASES =", "__test__ = False\nCASES =", "skip-added", "weakening"),
    ("class TestMore:", "class TestMore:\n    __test__ = False", "test-uncollected", "weakening"),
    ("class TestMore:", "class More:", "test-uncollected", "weakening"),
    ("def test_price", "def check_price", "test-uncollected", "weakening"),
    (
        """def test_all():
    for case in CASES:
        assert price(case) > 0
""",
        "",
        "test-deleted",
        "weakening",
    ),
    ("    for case in CASES:\n        assert price(case) > 0", "    pass", "test-emptied", "weakening"),
    ("    assert result == 30\n", "", "assert-removed", "weakening"),
    ("    assert result == 30\n", "    assert True\n", "assert-always-true", "weakening"),
    ("    assert result == 30\n", "    assert result == result\n", "assert-always-true", "weakening"),
    ("    assert result == 30\n", "    assert result == 30 or True\n", "assert-always-true", "weakening"),
    ("    assert result == 30\n", "    assert (result == 30, 'message')\n", "assert-always-true", "weakening"),
    ("    assert result == 30\n", "    assert result\n", "assert-weaker", "weakening"),
    ("    assert result == 30\n", "    assert result is not None\n", "assert-weaker", "weakening"),
    ("    assert result == 30\n", "    assert isinstance(result, int)\n", "assert-weaker", "weakening"),
    ("    assert result == 30\n", "    assert result in (30, 31)\n", "assert-weaker", "weakening"),
    ("    assert result == 30\n", "    assert result >= 30\n", "assert-weaker", "weakening"),
    ("    assert result == 30\n", "    assert result != 31\n", "assert-weaker", "weakening"),
    ("    assert result == 30\n", "    assert result == 30 or result == 31\n", "assert-weaker", "weakening"),
    ("    assert result == 30\n", "    assert result == mock.ANY\n", "assert-always-true", "weakening"),
    ("    assert result == 30\n", "    assert result == 31\n", "expected-changed", "suspect"),
    ("    assert price(0) == 0", "    assert price(0) == price(0)", "assert-always-true", "weakening"),
    ("    assert price(0) == 0", "    assert price(0) == 2 * price(0)", "expected-computed", "weakening"),
    ("rel=1e-6", "rel=0.5", "tolerance-widened", "weakening"),
    ("assert price(case) > 0", "assert price(case) > -100", "tolerance-widened", "weakening"),
    ("ValueError, match", "Exception, match", "raises-wider", "weakening"),
    ('ValueError, match="too many"', "ValueError", "raises-wider", "weakening"),
    ('match="too many"', 'match="too"', "raises-wider", "weakening"),
    ("pytest.raises(ValueError,", "pytest.raises((ValueError, Exception),", "raises-wider", "weakening"),
    (
        "    result = price(3)\n    assert result == 30\n",
        "    try:\n        result = price(3)\n        assert result == 30\n    except Exception:\n        pass\n",
        "failure-swallowed",
        "weakening",
    ),
    (
        "    assert result == 30\n",
        "    with contextlib.suppress(AssertionError):\n        assert result == 30\n",
        "failure-swallowed",
        "weakening",
    ),
    ("    result = price(3)\n", "    return\n    result = price(3)\n", "assert-removed", "weakening"),
    (
        "    result = price(3)\n",
        "    if slow():\n        return\n    result = price(3)\n",
        "assert-conditional",
        "weakening",
    ),
    ("    assert result == 30\n", "    if result:\n        assert result == 30\n", "assert-conditional", "weakening"),
    ("    assert result == 30\n", "    if False:\n        assert result == 30\n", "assert-removed", "weakening"),
    ("(2, 20), ", "", "cases-removed", "weakening"),
    ("(2, 20)", "(2, 21)", "cases-changed", "suspect"),
    ("(2, 20)", "pytest.param(2, 20, marks=pytest.mark.xfail)", "skip-added", "weakening"),
    ("CASES = [1, 2, 3]", "CASES = [1]", "data-cut", "weakening"),
    ("for case in CASES:", "for case in CASES[:1]:", "loop-cut", "weakening"),
    ("result = price(3)", "result = 30", "value-written-down", "weakening"),
    ("result = price(3)", "result = price(3)\n    result = 30", "value-written-down", "weakening"),
    (
        "def test_price():",
        "@mock.patch('shop.price')\ndef test_price():",
        "code-mocked",
        "weakening",
    ),
    ("def test_all():", "def test_all(:", "test-unreadable", "weakening"),
    ("class TestMore:", "test_price = None\n\n\nclass TestMore:", "test-uncollected", "weakening"),
    ("class TestMore:", "del test_price\n\n\nclass TestMore:", "test-uncollected", "weakening"),
    ("def test_price", "@flaky(9)\ndef test_price", "decorator-added", "suspect"),
    ("    assert result == 30\n", "    assert result * 0 == 0\n", "assert-replaced", "suspect"),
    ("CASES =", "import shop\n\nshop.price = lambda n: 10 * n\nCASES =", "code-mocked", "weakening"),
    ("CASES =", "pytest.raises = None\nCASES =", "patches-the-runner", "suspect"),
    ("    assert result == 30\n", "    for _ in []:\n        assert result == 30\n", "assert-conditional", "weakening"),
    ("    assert result == 30\n", "    def later():\n        assert result == 30\n", "assert-conditional", "suspect"),
    ("    result = price(3)\n", "    price = lambda n: 10 * n\n    result = price(3)\n", "code-mocked", "weakening"),
    ("def test_price():", "def test_price(price=lambda n: n * 10):", "code-mocked", "weakening"),
    ("from shop import price", "price = lambda n: n * 10", "code-mocked", "weakening"),
    ("from shop import price", "from unittest.mock import MagicMock as price", "code-mocked", "weakening"),
    ("import pytest\n", "import pytest\nfrom cheat import *\n", "code-mocked", "suspect"),
    ("CASES =", "globals()['price'] = len\nCASES =", "code-mocked", "suspect"),
    ("    result = price(3)\n", "    wanted = 30\n    result = wanted\n", "value-written-down", "weakening"),
    ("def test_price():", "async def test_price():", "test-uncollected", "suspect"),
    ("    result = price(3)\n", "    yield\n    result = price(3)\n", "test-uncollected", "weakening"),
    ("class TestMore:", "class TestMore:\n    def __init__(self): pass\n", "test-uncollected", "weakening"),
    ("    def test_zero", "    @property\n    def test_zero", "test-uncollected", "weakening"),
    ("        price(1000)", "        raise ValueError('too many')", "raises-itself", "weakening"),
    ("CASES = [1, 2, 3]", "CASES = [1, 2, 3][:0]", "data-cut", "suspect"),
    ("CASES = [1, 2, 3]", "CASES = [1, 2, 3]\nCASES.clear()", "data-cut", "suspect"),
    ("CASES =", "import sys\nsys.exit(0)\nCASES =", "skip-added", "weakening"),
    ("    assert price(count)", "    cost = price(count)\n    assert price(count)", "expected-computed", "suspect"),
    (
        "    assert result == 30\n",
        "    try:\n        assert result == 30\n    finally:\n        return\n",
        "failure-swallowed",
        "weakening",
    ),
    (
        "    assert result == 30\n",
        "    with pytest.raises(AssertionError):\n        assert result == 30\n",
        "failure-swallowed",
        "weakening",
    ),
    (
        "    assert result == 30\n",
        "    assert result == (30 if result == 30 else result)\n",
        "expected-computed",
        "weakening",
    ),
    ("pytest.approx(10.0, rel=1e-6)", "pytest.approx(10.0, 0.9)", "tolerance-widened", "weakening"),
]


@pytest.mark.parametrize(("old", "new", "rule", "grade"), PYTHON)
def test_a_python_test_made_weaker_is_named_by_rule(old: str, new: str, rule: str, grade: str) -> None:
    assert (rule, grade) in changed(old, new)


HONEST = [
    ("class TestMore:", "def test_new():\n    assert price(7) == 70\n\n\nclass TestMore:"),
    ("class TestMore:", "@pytest.mark.skip\ndef test_new():\n    assert price(7) == 70\n\n\nclass TestMore:"),
    ("(5, 50)]", "(5, 50), (6, 60)]"),
    ("def test_price", "def test_the_price_is_right"),
    ("assert price(case) > 0", "assert price(case) == 10 * case"),
    ("    assert result == 30\n", "    assert result == 30\n    assert isinstance(result, int)\n"),
    ("    assert result == 30\n", "    assert result == 30\n    result = ''\n    assert result == price('')\n"),
    ("    assert result == 30\n", "    assert result == 30, 'three cost thirty'\n"),
    ("    assert result == 30\n", "    assert (\n        result\n        == 30\n    )  # three\n"),
    ('match="too many"', "match='too many'"),
    ('    """What it costs."""\n', '    """What three cost."""\n'),
    ("import pytest\nfrom shop import price\n", "from shop import price\nimport pytest\n"),
    ("def test_price():", "def test_price() -> None:"),
    ("    result = price(3)\n", "    result: int = price(3)\n"),
    ("def test_price", "@pytest.mark.slow\ndef test_price"),
    ("    result = price(3)\n    assert result == 30\n", "    assert price(3) == 30\n"),
    ("    assert price(0) == 0", "    assert 0 == price(0)"),
    ("CASES = [1, 2, 3]", "CASES = [1, 2, 3, 4]"),
    ("pytest.raises(ValueError, match", "pytest.raises( ValueError , match"),
]


@pytest.mark.parametrize(("old", "new"), HONEST)
def test_honest_work_on_a_python_test_is_left_alone(old: str, new: str) -> None:
    assert changed(old, new) == []


def test_a_check_moved_into_a_helper_is_kept() -> None:
    helper = "def check(result, wanted):\n    assert result == wanted\n\n\n"
    after = BASE.replace("def test_price", helper + "def test_price").replace(
        "assert result == 30", "check(result, 30)"
    )
    assert bad(found("tests/test_shop.py", BASE, after)) == []


def test_a_test_moved_to_another_file_is_kept_and_noted() -> None:
    moved = 'def test_refuses():\n    with pytest.raises(ValueError, match="too many"):\n        price(1000)\n'
    found_ = look(
        [
            ChangedFile("tests/test_shop.py", BASE.encode(), BASE.replace(moved, "").encode()),
            ChangedFile("tests/test_limits.py", None, f"import pytest\nfrom shop import price\n\n\n{moved}".encode()),
        ]
    )
    assert bad(found_) == []
    assert ("test-renamed", "tests/test_limits.py") in [(each.rule, each.path) for each in found_]


def test_a_file_moved_out_of_collection_is_named() -> None:
    changes = [
        ChangedFile("tests/test_shop.py", BASE.encode(), None),
        ChangedFile("tests/shop_cases.py", None, BASE.encode()),
    ]
    assert {rule for rule, _ in bad(look(changes))} == {"test-uncollected"}


def test_a_deleted_test_file_is_one_finding_with_its_count() -> None:
    (finding,) = found("tests/test_shop.py", BASE, None)
    assert (finding.rule, finding.grade) == ("file-deleted", "weakening")
    assert "5 test(s)" in finding.what


def test_asserts_merged_into_cases_are_kept() -> None:
    before = "def test_a():\n    assert f(2) == 4\n    assert f(3) == 9\n"
    after = (
        "import pytest\n\n@pytest.mark.parametrize(('n', 'square'), [(2, 4), (3, 9)])\n"
        "def test_a(n, square):\n    assert f(n) == square\n"
    )
    assert bad(found("tests/test_a.py", before, after)) == []


def test_unittest_and_plain_asserts_are_the_same_demand() -> None:
    before = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(f(2), 4)\n        self.assertTrue(g())\n"
    after = "class TestT:\n    def test_a(self):\n        assert f(2) == 4\n        assert g()\n"
    assert bad(found("tests/test_a.py", before, after)) == []


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        (
            "WANTED = 30\n\n\ndef test_a():\n    assert f() == WANTED\n",
            "WANTED = 31\n\n\ndef test_a():\n    assert f() == WANTED\n",
            "expected-changed",
        ),
        (
            "def test_a():\n    wanted = 30\n    assert f() == wanted\n",
            "def test_a():\n    wanted = 31\n    assert f() == wanted\n",
            "expected-changed",
        ),
        (
            "@pytest.fixture\ndef got():\n    return f()\n",
            "@pytest.fixture\ndef got():\n    return 30\n",
            "value-written-down",
        ),
    ],
)
def test_a_value_changed_behind_a_name_is_suspect(before: str, after: str, rule: str) -> None:
    assert bad(found("tests/test_a.py", before, after)) == [(rule, "suspect")]


def test_a_weaker_mock_assertion_is_named() -> None:
    before = "def test_a(m):\n    run(m)\n    m.assert_called_once_with(1)\n"
    after = "def test_a(m):\n    run(m)\n    m.assert_called()\n"
    assert bad(found("tests/test_a.py", before, after)) == [("assert-weaker", "weakening")]


@pytest.mark.parametrize(
    "code",
    [
        "def pytest_runtest_makereport(item, call):\n    pass\n",
        "collect_ignore = ['test_a.py']\n",
        "pytest_plugins = ['cheat']\n",
        "import os\nos._exit(0)\n",
        "import pytest\n@pytest.fixture(autouse=True)\ndef always():\n    yield\n",
        "import pytest\n@pytest.fixture\ndef a():\n    pytest.skip('no')\n",
        "import unittest\ndef f():\n    unittest.TestCase.assertEqual = None\n",
        "from cheat import *\n",
    ],
)
def test_a_conftest_beyond_plain_fixtures_is_named(code: str) -> None:
    assert ("conftest-beyond-fixtures", "weakening") in bad(
        found("tests/conftest.py", "import os\n", "import os\n" + code)
    )


def test_a_plain_fixture_added_to_conftest_is_left_alone() -> None:
    after = "import pytest\n\n\n@pytest.fixture\ndef shop(tmp_path):\n    return tmp_path / 'shop'\n"
    assert bad(found("tests/conftest.py", None, after)) == []


@pytest.mark.parametrize("name", ["sitecustomize.py", "src/usercustomize.py", "cheat.pth"])
def test_what_python_runs_at_start_is_named(name: str) -> None:
    assert bad(found(name, None, "import os\n")) == [("runs-at-start", "weakening")]


UNFORMATTED = """\
import sys, os
from shop import (price,
    rate)
import pytest

CASES = [u'Donald', 'a' 'b', 0XFF, 1E5, 10000000]
WANTED = {u'a': u'b', 'c': [1,2,3]}

@pytest.mark.parametrize('name, cost', [(u'Donald', 1), ('it\\'s', 2), ("a" "b", 0XAB), (u'x', 1000000)])
def test_each(name, cost):
    assert price(name) == cost, u'no'
    assert (price(name)) == (cost)
    assert price(u'x') == u'y' and \\
        rate(1.) == .5
    with pytest.raises(ValueError, match=u'too many'):
        price(u'q')
    print(f'{name} {u"q"}' 'more'); case = 0o17

def helper(name=u'x'):
    if os.environ.get('CI'): return u'1'
    return WANTED[u'a']
"""
FORMATTED = """\
import os
import sys

import pytest

from shop import price, rate

# fmt: off
CASES = ["Donald", "ab", 0xFF, 1e5, 10_000_000]
# fmt: on
WANTED = {"a": "b", "c": [1, 2, 3]}


@pytest.mark.parametrize(
    ("name", "cost"),
    [
        ("Donald", 1),
        ("it's", 2),
        ("ab", 0xAB),
        ("x", 1_000_000),
    ],
)
def test_each(name, cost):
    assert price(name) == cost, "no"
    assert price(name) == cost
    assert price("x") == "y" and rate(1.0) == 0.5
    with pytest.raises(ValueError, match="too many"):
        price("q")
    print(f"{name} {'q'}more")
    case = 0o17


def helper(name="x"):
    if os.environ.get(
        "CI",
    ):
        return "1"
    return WANTED["a"]
"""


@pytest.mark.parametrize("path", ["tests/test_shop.py", "tests/conftest.py", "tests/helpers.py", "src/shop.py"])
def test_a_formatter_of_python_changes_nothing(path: str) -> None:
    assert [each for each in found(path, UNFORMATTED, FORMATTED) if each.rule != "conftest-beyond-fixtures"] == []


def test_rows_changed_behind_another_spelling_of_their_names_are_seen() -> None:
    after = FORMATTED.replace('("it\'s", 2)', '("it\'s", 3)')
    assert bad(found("tests/test_shop.py", UNFORMATTED, after)) == [("cases-changed", "suspect")]


def test_a_second_question_like_one_that_was_there_is_seen() -> None:
    after = FORMATTED + '\n\ndef price(name):\n    if os.environ.get("CI"):\n        return 1\n'
    assert bad(found("src/shop.py", UNFORMATTED, after)) == [("knows-the-ci", "suspect")]


def test_a_doctest_spelled_otherwise_is_kept() -> None:
    before = 'def price(n):\n    """Cost.\n\n    >>> price( \'a\' )\n    30\n    """\n'
    assert found("src/shop.py", before, before.replace("price( 'a' )", 'price("a")')) == []


SET_UPS = [
    ("def test_price", 'def setUpModule():\n    raise unittest.SkipTest("later")\n\n\ndef test_price'),
    ("def test_price", 'def setup_module():\n    pytest.skip("later")\n\n\ndef test_price'),
    ("def test_price", '@pytest.fixture(autouse=True)\ndef calm():\n    pytest.skip("later")\n\n\ndef test_price'),
    ("    def test_zero", '    def setup_method(self):\n        pytest.skip("later")\n\n    def test_zero'),
]


@pytest.mark.parametrize(("old", "new"), SET_UPS)
def test_a_new_set_up_that_skips_is_named(old: str, new: str) -> None:
    assert changed(old, new) == [("skip-added", "weakening")]
    assert changed(old, new.replace("pytest.skip", "print").replace("raise unittest.SkipTest", "print")) == []


WINDOWS = "from shop import price\nfrom shop.compat import WIN\n"
SKIPPED = "@pytest.mark.skipif({}, reason='no sed')\ndef test_price"
COMPAT = b"import sys\nWIN = sys.platform.startswith('win')\nSLOW = 'x' in sys.argv\n"


@pytest.mark.parametrize(
    ("old", "new", "compat", "rules"),
    [
        ("platform.system() == 'Windows'", "WIN", COMPAT, []),
        ("platform.system() == 'Windows'", "os.name == 'nt'", COMPAT, []),
        ("WIN", "sys.platform == 'win32'", COMPAT, []),
        ("not WIN", "os.name != 'nt'", COMPAT, []),
        ("WIN", "sys.platform != 'linux'", COMPAT, ["skip-changed"]),
        ("os.name == 'nt'", "WIN", COMPAT + b"WIN = True\n", ["skip-changed"]),
        ("os.name == 'nt'", "SLOW", COMPAT, ["skip-changed"]),
        ("os.geteuid() == 0", "sys.platform != 'win32' and os.geteuid() == 0", COMPAT, []),
        ("SLOW and os.geteuid() == 0", "os.geteuid() == 0", COMPAT, ["skip-changed"]),
        ("os.name == 'nt'", "WIN", None, ["skip-changed"]),
    ],
)
def test_a_skip_on_a_platform_is_compared_by_its_answers(
    old: str, new: str, compat: bytes | None, rules: list[str]
) -> None:
    base = BASE.replace("from shop import price\n", WINDOWS)
    sides = [base.replace("def test_price", SKIPPED.format(condition)).encode() for condition in (old, new)]
    project = SurroundingFiles(head_file={"src/shop/compat.py": compat}.get)
    findings = look([ChangedFile("tests/test_shop.py", sides[0], sides[1])], {}, project)
    assert [each.rule for each in findings if each.grade != "note"] == rules


def test_a_platform_name_that_the_patch_redefines_is_not_believed() -> None:
    base = BASE.replace("from shop import price\n", WINDOWS)
    sides = [base.replace("def test_price", SKIPPED.format(text)).encode() for text in ("os.name == 'nt'", "WIN")]
    test = ChangedFile("tests/test_shop.py", sides[0], sides[1])
    changes = [test, ChangedFile("shop/compat.py", b"WIN = True\n", COMPAT)]
    assert [each.rule for each in look(changes) if each.path.startswith("tests")] == ["skip-changed"]
