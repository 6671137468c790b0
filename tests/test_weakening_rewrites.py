"""Python tests written in another form are understood; where something is lost, one finding says what."""

from __future__ import annotations

import pytest

from python_test_diff import bad, found
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering import look

SIX = """\
def test_clamp():
    assert clamp(5, 0, 10) == 5
    assert clamp(-5, 0, 10) == 0
    assert clamp(50, 0, 10) == 10
    assert clamp(5, low=6) == 6
    assert clamp(5, high=4) == 4
    assert clamp(5) == 5
"""
ROWS = """\
import pytest


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((5, 0, 10), {}, 5),
        ((-5, 0, 10), {}, 0),
        ((50, 0, 10), {}, 10),
        ((5,), {"low": 6}, 6),
        ((5,), {"high": 4}, 4),
        pytest.param((5,), {}, 5, id="no bounds"),
    ],
)
def test_clamp(args, kwargs, expected):
    assert clamp(*args, **kwargs) == expected
"""
CLASS = """\
import unittest


class TestSlug(unittest.TestCase):
    def setUp(self):
        self.shop = Shop()

    def test_all(self):
        txt = "This is a test ---"
        r = slugify(txt)
        self.assertEqual(r, "this-is-a-test")
        txt = "Non breaking"
        r = slugify(txt)
        self.assertEqual(r, "non-breaking")
        self.assertTrue(self.shop.is_open)
        self.assertIsNone(self.shop.owner)
        self.assertIn("a", self.shop.goods)

    @unittest.skipIf(sys.version_info < (3, 8), "too old")
    def test_refuses(self):
        with self.assertRaises(ValueError) as caught:
            self.shop.sell(-1)
        self.assertEqual(str(caught.exception), "no")
        self.assertRaises(TypeError, self.shop.sell, None)
"""
SPLIT = """\
import unittest


class TestSlug(unittest.TestCase):
    def setUp(self):
        self.shop = Shop()

    def test_dashes(self):
        txt = "This is a test ---"
        self.assertEqual(slugify(txt), "this-is-a-test")

    def test_non_breaking(self):
        text = "Non breaking"
        r = slugify(text)
        self.assertEqual(r, "non-breaking")


class TestShop(unittest.TestCase):
    def setUp(self):
        self.shop = Shop()

    def test_shop(self):
        self.assertTrue(self.shop.is_open)
        self.assertIsNone(self.shop.owner)
        self.assertIn("a", self.shop.goods)

    @unittest.skipIf(sys.version_info < (3, 8), "too old")
    def test_refuses(self):
        with self.assertRaises(ValueError) as caught:
            self.shop.sell(-1)
        self.assertEqual(str(caught.exception), "no")
        self.assertRaises(TypeError, self.shop.sell, None)
"""
PYTEST = """\
import pytest


@pytest.fixture
def shop():
    return Shop()


def test_all(shop):
    assert slugify("This is a test ---") == "this-is-a-test"
    assert slugify("Non breaking") == "non-breaking"
    assert shop.is_open
    assert shop.owner is None
    assert "a" in shop.goods


@pytest.mark.skipif(sys.version_info < (3, 8), reason="too old")
def test_refuses(shop):
    with pytest.raises(ValueError) as caught:
        shop.sell(-1)
    assert str(caught.value) == "no"
    with pytest.raises(TypeError):
        shop.sell(None)
"""
HELPER = "def check(value, wanted):\n    assert f(value) == wanted\n\n\n"
NEAR = "def test_a():\n    value = f(1)\n    assert value == 2\n    assert f(3) == 6\n"
HONEST = {
    "asserts into rows": (SIX, ROWS),
    "rows into asserts": (ROWS, SIX),
    "a test and its class split": (CLASS, SPLIT),
    "tests merged again": (SPLIT, CLASS),
    "unittest into pytest": (CLASS, PYTEST),
    "pytest into unittest": (PYTEST, CLASS),
    "reordered": (NEAR, "def test_a():\n    assert f(3) == 6\n    value = f(1)\n    assert value == 2\n"),
    "into a helper": (NEAR, HELPER + "def test_a():\n    check(1, 2)\n    check(3, 6)\n"),
    "out of a helper": (HELPER + "def test_a():\n    check(1, 2)\n    check(3, 6)\n", NEAR),
    "into a loop": (
        NEAR,
        "def test_a():\n    for value, wanted in [(1, 2), (3, 6)]:\n        assert f(value) == wanted\n",
    ),
    "assert_equal": (NEAR, "def test_a():\n    assert_equal(f(1), 2)\n    assert_equal(f(3), 6)\n"),
    "sides swapped": (NEAR, "def test_a():\n    assert 2 == f(1)\n    assert 6 == f(3)\n"),
    "async": (
        NEAR,
        "import pytest\n\n\n@pytest.mark.asyncio\nasync def test_a():\n    assert await f(1) == 2\n    assert await f(3) == 6\n",
    ),
    "a doubled name": (
        "def test_a():\n    assert f(1) == 2\n\n\ndef test_a():\n    assert g(1) == 3\n",
        "def test_a():\n    assert f(1) == 2\n\n\ndef test_b():\n    assert g(1) == 3\n",
    ),
    "raises with match": (
        "def test_a():\n    with pytest.raises(ValueError):\n        f(1)\n",
        "def test_a():\n    with pytest.raises(ValueError, match='too small'):\n        f(1)\n",
    ),
    "the same value spelled otherwise": (
        "def test_a():\n    wanted = '\\n'.join(['a', 'b'])\n    assert f(1) == wanted\n    assert g() == dict(a=1)\n",
        "def test_a():\n    assert f(1) == 'a\\nb'\n    assert g() == {'a': 1}\n",
    ),
    "a reason": (
        "@pytest.mark.skipif('sys.platform == \"win32\"')\ndef test_a():\n    assert f(1)\n",
        "@pytest.mark.skipif(sys.platform == 'win32', reason='slow')\ndef test_a():\n    assert f(1)\n",
    ),
    "a named mark": (
        "@pytest.mark.skipif(not HAS_X, reason='x')\ndef test_a():\n    assert f(1)\n",
        "needs_x = pytest.mark.skipif(not HAS_X, reason='x')\n\n\n@needs_x\ndef test_a():\n    assert f(1)\n",
    ),
    "a mark of each test on the file": (
        "@pytest.mark.skipif(A)\ndef test_a():\n    assert f(1)\n\n\n@pytest.mark.skipif(A)\ndef test_b():\n    assert f(2)\n",
        "pytestmark = pytest.mark.skipif(A)\n\n\ndef test_a():\n    assert f(1)\n\n\ndef test_b():\n    assert f(2)\n",
    ),
    "a skip in the body": (
        "@pytest.mark.skipif(not A, reason='x')\ndef test_a():\n    assert f(1)\n",
        "def test_a():\n    if not A:\n        pytest.skip('x')\n    assert f(1)\n",
    ),
    "a skip that asks more": (
        "@pytest.mark.skip\ndef test_a():\n    assert f(1)\n",
        "@pytest.mark.skipif(A, reason='x')\ndef test_a():\n    assert f(1)\n",
    ),
    "cases moved to another test": (
        "@pytest.mark.parametrize('n', [1, 2, 3])\ndef test_a(n):\n    assert f(n) == n\n",
        "@pytest.mark.parametrize('n', [1, 2])\ndef test_a(n):\n    assert f(n) == n\n\n\ndef test_three():\n    assert f(3) == 3\n",
    ),
    "a case that stood twice": (
        "@pytest.mark.parametrize('n', [1, 2, 2])\ndef test_a(n):\n    assert f(n) == n\n",
        "@pytest.mark.parametrize('n', [1, 2])\ndef test_a(n):\n    assert f(n) == n\n",
    ),
    "a condition behind a name": (
        "@unittest.skipUnless(sys.platform.startswith('win'), 'x')\ndef test_a():\n    assert f(1)\n",
        "WINDOWS = sys.platform.startswith('win')\n\n\n@pytest.mark.skipif(not WINDOWS, reason='x')\ndef test_a():\n    assert f(1)\n",
    ),
    "a condition computed otherwise": (
        "HAS = shutil.which('x')\n\n\n@pytest.mark.skipif(not HAS, reason='x')\ndef test_a():\n    assert f(1)\n",
        "HAS = find('x')\n\n\n@pytest.mark.skipif(not HAS, reason='x')\ndef test_a():\n    assert f(1)\n",
    ),
    "a case that differs only in its message": (
        "@pytest.mark.parametrize('n, why', [(1, 'a'), (2, 'b'), (2, 'c')])\ndef test_a(n, why):\n    assert f(n) == n, why\n",
        "@pytest.mark.parametrize('n, why', [(1, 'a'), (2, 'b')])\ndef test_a(n, why):\n    assert f(n) == n, why\n",
    ),
    "a test that was always skipped": (
        "@pytest.mark.skip\ndef test_a():\n    assert f(1) == 2\n\n\ndef test_b():\n    assert f(2)\n",
        "def test_b():\n    assert f(2)\n",
    ),
    "tests into rows with imported names": (
        "from datetime import date\n\n\ndef test_a():\n    assert f('a') == date(1, 2, 3)\n",
        "from datetime import date\n\n\n@pytest.mark.parametrize('t, d', [('a', date(1, 2, 3))])\ndef test_all(t, d):\n    assert f(t) == d\n",
    ),
    "setUp into a fixture of another name": (
        (
            "class T(TestCase):\n    unit = 3\n\n    def setUp(self):\n        self.base = day(2003, 9)\n\n"
            "    def test_a(self):\n        self.assertEqual(parse('a', self.base), 1)\n"
            "        self.assertEqual(self.unit, f())\n"
        ),
        "@pytest.fixture\ndef default():\n    return day(2003, 9)\n\n\ndef test_a(default):\n    assert parse('a', default) == 1\n    assert f() == 3\n",
    ),
    "expected exceptions into rows": (
        "def test_a():\n" + "".join(f"    with raises(ValueError):\n        f({n})\n" for n in (1, 2, 3)),
        "@pytest.mark.parametrize('n', [1, 2, 3])\ndef test_a(n):\n    with raises(ValueError):\n        f(n)\n",
    ),
    "the same two sides by identity": (
        "def test_a():\n    assert fields(C).x.type == Kind[float, 'test']\n",
        "def test_a():\n    assert Kind[float, 'test'] is fields(C).x.type\n",
    ),
    "more inputs in a loop": (
        "def test_a():\n    r = f(1)\n    assert r.x\n",
        "def test_a():\n    for n in (1, two()):\n        r = f(n)\n        assert r.x\n",
    ),
    "an attribute into a value of the module": (
        "from tz import zone\n\n\nclass T(TestCase):\n    def setUp(self):\n        self.z = zone('B')\n\n    def test_a(self):\n        assert f(self.z) == 1\n",
        "from tz import zone\n\n_z = zone('B')\n\n\n@pytest.mark.parametrize('z', [_z])\ndef test_all(z):\n    assert f(z) == 1\n",
    ),
    "a longer message": (
        "def test_a():\n    with pytest.raises(ValueError, match='too small'):\n        f(1)\n",
        "def test_a():\n    with pytest.raises(ValueError, match='n is too small'):\n        f(1)\n",
    ),
    "a chain of equations": (
        "def test_a():\n    assert f(1) == 2\n",
        "def test_a():\n    assert g(1) == f(1) == 2\n",
    ),
    "format into an f-string": (
        "def test_a(x):\n    assert f(x) == 'a {!r} {b} c'.format(x, b=2)\n    assert getattr(x, 'y') == 1\n",
        "def test_a(x):\n    assert f(x) == f'a {x!r} {2} c'\n    assert x.y == 1\n",
    ),
    "two contexts in one statement": (
        "def test_a():\n    with pytest.raises(E):\n        with off():\n            raise E\n",
        "def test_a():\n    with pytest.raises(E), off():\n        raise E\n",
    ),
    "parameters renamed and reordered": (
        "@pytest.mark.parametrize('a, b', [(1, 2), (3, 4)])\ndef test_a(a, b):\n    assert f(a) == b\n",
        "@pytest.mark.parametrize(('y', 'x'), [(2, 1), (4, 3)])\ndef test_a(x, y):\n    assert f(x) == y\n",
    ),
}


def one(before: str, after: str, **sources: tuple[str | None, str | None]) -> list[TamperFinding]:
    changes = [ChangedFile("tests/test_a.py", before.encode(), after.encode())]
    for path, (old, new) in sources.items():
        texts = [None if text is None else text.encode() for text in (old, new)]
        changes.append(ChangedFile(path, texts[0], texts[1]))
    return [finding for finding in look(changes) if finding.grade != "note"]


@pytest.mark.parametrize(("before", "after"), HONEST.values(), ids=HONEST)
def test_a_test_in_another_form_is_understood(before: str, after: str) -> None:
    assert one(before, after) == []


LOST = {
    "a row is left out": (
        SIX,
        ROWS.replace("        ((50, 0, 10), {}, 10),\n", ""),
        "assert-removed",
        "clamp(50, 0, 10) == 10",
    ),
    "a row differs": (
        SIX,
        ROWS.replace("((50, 0, 10), {}, 10)", "((50, 0, 10), {}, 11)"),
        "assert-",
        "clamp(50, 0, 10) == 10",
    ),
    "a part of a split test is gone": (CLASS, SPLIT.replace('"non-breaking"', '"other"'), "", "non-breaking"),
    "a helper that asserts nothing": (
        NEAR,
        "def assert_equal(a, b):\n    pass\n\n\ndef test_a():\n    assert_equal(f(1), 2)\n    assert_equal(f(3), 6)\n",
        "assert-",
        "value == 2",
    ),
    "a loop over fewer": (
        NEAR,
        "def test_a():\n    for value, wanted in [(1, 2)]:\n        assert f(value) == wanted\n",
        "assert-",
        "f(3) == 6",
    ),
    "moved into a skipped test": (
        NEAR,
        "def test_a():\n    value = f(1)\n    assert value == 2\n\n\n@pytest.mark.skip\ndef test_b():\n    assert f(3) == 6\n",
        "assert-removed",
        "f(3) == 6",
    ),
    "moved behind a condition": (
        NEAR,
        "def test_a():\n    value = f(1)\n    assert value == 2\n\n\ndef test_b():\n    if x():\n        assert f(3) == 6\n",
        "assert-removed",
        "f(3) == 6",
    ),
    "cases that no assertion tells apart": (
        "@pytest.mark.parametrize('n', [1, 2, 3])\ndef test_a(n):\n    run(n)\n    assert ok()\n",
        "@pytest.mark.parametrize('n', [1, 2])\ndef test_a(n):\n    run(n)\n    assert ok()\n",
        "cases-removed",
        "3",
    ),
    "weaker here, and new in another test": (
        "def test_a():\n    with record() as w:\n        f(1)\n    assert len(w) == 1\n\n\ndef test_b():\n    assert g()\n",
        (
            "def test_a():\n    with record() as w:\n        f(1)\n    assert len(w) != 0\n\n\n"
            "def test_b():\n    with record() as w:\n        f(1)\n    assert len(w) == 1\n    assert g()\n"
        ),
        "assert-weaker",
        "`len(w) == 1` -> `len(w) != 0`",
    ),
    "gone here, and of another thing in another test": (
        "def test_a():\n    with record() as w:\n        f(1)\n    assert len(w) == 1\n    assert h()\n",
        "def test_a():\n    f(1)\n    assert h()\n\n\ndef test_b():\n    with record() as w:\n        g(1)\n    assert len(w) == 1\n",
        "assert-removed",
        "len(w) == 1",
    ),
    "an input that no assertion names": (
        "@pytest.mark.parametrize('zone, wanted', [('A', 1), ('B', 2)])\ndef test_a(zone, wanted):\n    with set_to(zone):\n        x = 1\n    assert now() == wanted\n",
        "@pytest.mark.parametrize('zone, wanted', [('A', 1), ('C', 2)])\ndef test_a(zone, wanted):\n    with set_to(zone):\n        x = 1\n    assert now() == wanted\n",
        "cases-changed",
        "`'B', 2` -> `'C', 2`",
    ),
    "the same assertion in another context": (
        "def test_a():\n    with zone('A'):\n        assert now() == 1\n\n\ndef test_b():\n    assert g()\n",
        "def test_b():\n    with zone('B'):\n        assert now() == 1\n    assert g()\n",
        "test-deleted",
        "test_a",
    ),
    "one of several equal texts": (
        "def test_a():\n" + "".join(f"    with raises(ValueError):\n        f({n})\n" for n in (1, 2, 3)),
        "def test_a():\n" + "".join(f"    with raises(ValueError):\n        f({n})\n" for n in (2, 3)),
        "assert-removed",
        "raises(ValueError)",
    ),
    "the same words about another thing": (
        "def test_a():\n    r = run('a')\n    assert r.code == 0\n\n\ndef test_b():\n    r = run('b')\n    assert r.code == 0\n",
        "def test_b():\n    r = run('b')\n    assert r.code == 0\n",
        "test-deleted",
        "test_a",
    ),
}


@pytest.mark.parametrize(("before", "after", "rule", "words"), LOST.values(), ids=LOST)
def test_what_another_form_loses_is_one_finding(before: str, after: str, rule: str, words: str) -> None:
    (finding,) = one(before, after)
    assert finding.rule.startswith(rule)
    assert words in finding.what


OLD_NAMES = "import shop\nfrom shop import price_of\n\n\n" + "".join(
    f"def test_{number}():\n    assert price_of({number}) == {number}0\n    assert shop.total_of([{number}]) == 3\n\n\n"
    for number in range(1, 8)
)
NEW_NAMES = OLD_NAMES.replace("price_of", "price").replace("total_of", "total")


def test_a_renamed_function_is_one_finding_however_many_tests_follow() -> None:
    (finding,) = one(OLD_NAMES, NEW_NAMES)
    assert (finding.rule, finding.grade) == ("code-renamed", "suspect")
    assert "`price_of` -> `price`, `total_of` -> `total` in test_1, test_2" in finding.what


def test_a_test_of_the_old_name_beside_the_renamed_ones_is_no_other_finding() -> None:
    alias = "def test_the_old_name():\n    with pytest.deprecated_call():\n        assert shop.price_of(1) == 10\n"
    assert [finding.rule for finding in one(OLD_NAMES, NEW_NAMES + alias)] == ["code-renamed"]


def test_an_expectation_changed_under_a_new_name_is_seen() -> None:
    findings = one(OLD_NAMES, NEW_NAMES.replace("price(3) == 30", "price(3) == 31"))
    assert [(finding.rule, finding.line) for finding in findings] == [("code-renamed", 5), ("expected-changed", 16)]
    assert "`price(3) == 30` -> `price(3) == 31`" in findings[1].what


def test_a_name_renamed_in_the_conditions_of_skips_is_one_finding() -> None:
    before = "".join(
        f"@pytest.mark.skipif(not PY310, reason='x')\nclass Test{name}:\n    def test_a(self):\n        assert {name}()\n\n\n"
        for name in "ABC"
    )
    (finding,) = one(before, before.replace("PY310", "PY_3_10_PLUS"))
    assert (finding.rule, finding.grade) == ("code-renamed", "suspect")


def test_a_helper_renamed_with_its_calls_is_no_finding() -> None:
    before = HELPER + "def test_a():\n    check(1, 2)\n\n\ndef test_b():\n    check(3, 6)\n"
    assert one(before, before.replace("check(", "verify(")) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("from shop import price_of\n", "\n\ndef price(n):\n    return 10 * n\n"),
        ("price_of(", "len("),
    ],
)
def test_a_name_that_the_test_file_or_python_defines_is_no_rename(old: str, new: str) -> None:
    after = OLD_NAMES.replace(old, new).replace("price_of", "price")
    assert "code-renamed" not in {finding.rule for finding in one(OLD_NAMES, after)}
    assert one(OLD_NAMES, after)


def test_tests_removed_with_their_code_are_one_finding_that_names_both() -> None:
    before = "from shop import price, rate\n\n\ndef test_price():\n    assert price(1) == 10\n\n\n" + "".join(
        f"def test_rate_{number}():\n    assert rate({number}) == {number}\n\n\n" for number in range(3)
    )
    after = before[: before.index("def test_rate")].replace(", rate", "")
    source = "def price(n):\n    return 10 * n\n\n\n"
    (finding,) = one(before, after, **{"shop.py": (source + "def rate(n):\n    return n\n", source)})
    assert (finding.rule, finding.grade, finding.line) == ("test-deleted", "weakening", 6)
    assert finding.what == (
        "3 test(s) removed: together with `rate`, which the patch removes: test_rate_0, test_rate_1, test_rate_2"
    )
    (finding,) = one(before, after)
    assert finding.what == "3 test(s) removed: test_rate_0, test_rate_1, test_rate_2"


def test_a_test_file_removed_with_its_module_is_one_finding_that_names_both() -> None:
    changes = [
        ChangedFile("tests/test_rate.py", b"def test_a():\n    from shop.rate import x\n    assert x() == 1\n", None),
        ChangedFile("src/shop/rate.py", b"def x():\n    return 1\n", None),
    ]
    (finding,) = look(changes)
    assert (finding.rule, finding.line) == ("file-deleted", None)
    assert "together with `shop.rate`, `x`, which the patch removes: test_a" in finding.what


def test_everything_about_one_test_is_one_finding_with_the_gravest_first() -> None:
    before = "def test_a():\n    assert f(1) == 2\n    assert g(1) == [1, 2]\n    assert h(1)\n"
    after = "@pytest.mark.skip\ndef test_a():\n    assert f(1) == 3\n    assert len(g(1)) > 1\n"
    (finding,) = one(before, after)
    assert (finding.rule, finding.grade) == ("skip-added", "weakening")
    assert finding.what.startswith("test_a: `@pytest.mark.skip`; ")
    assert "`f(1) == 2` -> `f(1) == 3`" in one(before, before.replace("== 2", "== 3"))[0].what


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("'\\n'.join(['a', 'b', 'c'])", "'\\n'.join(['a', 'x', 'c'])"),
        ("textwrap.dedent('''\\n    a\\n    b''')", "textwrap.dedent('''\\n    a\\n    x''')"),
        ("Decimal('1.5')", "Decimal('1.6')"),
        ("datetime(2020, 1, 1)", "datetime(2020, 1, 2)"),
        ("[1, 2] + [3]", "[1, 2] + [4]"),
        ("f'{1}a'", "f'{1}b'"),
    ],
)
def test_an_expected_value_that_only_puts_literals_together_is_compared(old: str, new: str) -> None:
    for text in (
        "def test_a():\n    assert f(1) == {}\n",
        "def test_a():\n    wanted = {}\n    assert f(1) == wanted\n",
    ):
        (finding,) = one(text.replace("{}", old), text.replace("{}", new))
        assert (finding.rule, finding.grade) == ("expected-changed", "suspect")


def test_the_same_change_in_several_tests_is_one_finding() -> None:
    before = "".join(f"def test_{n}():\n    with raises(ValueError):\n        f({n})\n\n\n" for n in range(3))
    (finding,) = one(before, before.replace("ValueError", "TooSmall"))
    assert finding.what == "test_0, test_1, test_2: `raises(ValueError)` -> `raises(TooSmall)`"


def test_a_long_quotation_shows_the_difference() -> None:
    long = "x" * 300
    before = f"def test_a():\n    assert f(1) == '{long}old'\n"
    (finding,) = one(before, before.replace("old", "new"))
    assert "xold'` -> `" in finding.what
    assert "xnew'`" in finding.what


@pytest.mark.parametrize(
    ("condition", "grade"),
    [
        ("sys.platform == 'no such system'", "suspect"),
        ("os.name == 'nt-like'", "suspect"),
        ("sys.version_info < (3, 2)", "suspect"),
        ("sys.version_info >= (3, 2)", "weakening"),
        ("sys.platform != 'no such system'", "weakening"),
        ("True", "weakening"),
        ("not HAS_X", "weakening"),
    ],
)
def test_a_skip_that_does_not_apply_here_is_only_suspect(condition: str, grade: str) -> None:
    before = "def test_a():\n    assert f(1) == 2\n"
    mark = f"@pytest.mark.skipif({condition}, reason='x')\n"
    assert [(finding.rule, finding.grade) for finding in one(before, mark + before)] == [("skip-added", grade)]
    assert [(finding.rule, finding.grade) for finding in one(before, f"pytestmark = {mark[1:]}\n\n{before}")] == [
        ("skip-added", grade)
    ]


def test_a_skip_made_to_apply_always_is_a_weakening() -> None:
    before = "@pytest.mark.skipif(sys.platform == 'no such system', reason='x')\ndef test_a():\n    assert f(1) == 2\n"
    for condition in ("True", "sys.platform != 'no such system'"):
        after = before.replace("sys.platform == 'no such system'", condition)
        assert bad(found("tests/test_a.py", before, after)) == [("skip-added", "weakening")]


def test_a_condition_whose_name_is_made_true_is_a_weakening() -> None:
    before = "SLOW = os.environ.get('X')\n\n\n@pytest.mark.skipif(SLOW, reason='x')\ndef test_a():\n    assert f(1)\n"
    after = before.replace("os.environ.get('X')", "True")
    assert bad(found("tests/test_a.py", before, after)) == [("skip-added", "weakening")]


def test_a_failure_by_hand_and_an_expected_exception_are_the_same() -> None:
    before = "def test_a():\n    try:\n        f(1)\n    except ValueError:\n        pass\n    else:\n        self.fail('no')\n"
    after = "def test_a():\n    with pytest.raises(ValueError):\n        f(1)\n"
    assert one(before, after) == []
    before = "def test_a():\n    if f(1) is None:\n        pytest.fail('no')\n"
    assert one(before, "def test_a():\n    assert f(1) is not None\n") == []
    assert one(before, "def test_a():\n    f(1)\n")[0].rule == "assert-removed"


def test_an_imported_name_and_its_module_are_the_same() -> None:
    before = "import shop\n\n\ndef test_a():\n    assert shop.f(1) == shop.g(1)\n"
    assert one(before, "from shop import f, g\n\n\ndef test_a():\n    assert f(1) == g(1)\n") == []
    assert one(before, "from stub import f, g\n\n\ndef test_a():\n    assert f(1) == g(1)\n") != []
