"""Known tests: one for each way to write an assertion, with the outcome that a runner must give it."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from typing import NamedTuple


class Canary(NamedTuple):
    """A test whose outcome is known. Every line of it runs, so that it does not disturb a measured coverage."""

    style: str
    outcome: str
    body: tuple[str, ...] = ()
    optional: bool = False  # True if it is run only where the project loads what it tries

    @property
    def raises(self) -> bool:
        return self.outcome != "passed"


_CASE = "unittest.TestCase()."
_WITH_ANOTHER = "assertRaises, with another"
_RAISES = "with pytest.raises(ValueError):"
UNITTEST = (
    Canary("assertEqual", "failed", (f"{_CASE}assertEqual(1, 2)",)),
    Canary("assertNotEqual", "failed", (f"{_CASE}assertNotEqual(1, 1)",)),
    Canary("assertTrue", "failed", (f"{_CASE}assertTrue(0)",)),
    Canary("assertFalse", "failed", (f"{_CASE}assertFalse(1)",)),
    Canary("assertIs", "failed", (f"{_CASE}assertIs(None, True)",)),
    Canary("assertIsNone", "failed", (f"{_CASE}assertIsNone(1)",)),
    Canary("assertIn", "failed", (f"{_CASE}assertIn(1, [])",)),
    Canary("assertIsInstance", "failed", (f"{_CASE}assertIsInstance(1, str)",)),
    Canary("assertAlmostEqual", "failed", (f"{_CASE}assertAlmostEqual(1.0, 2.0)",)),
    Canary("assertGreater", "failed", (f"{_CASE}assertGreater(1, 2)",)),
    Canary("assertListEqual", "failed", (f"{_CASE}assertListEqual([1], [2])",)),
    Canary("assertDictEqual", "failed", (f"{_CASE}assertDictEqual({{1: 2}}, {{}})",)),
    Canary("assertRegex", "failed", (f'{_CASE}assertRegex("a", "b")',)),
    Canary("assertRaises", "failed", (f'{_CASE}assertRaises(ValueError, int, "1")',)),
    Canary(_WITH_ANOTHER, "failed", (f"{_CASE}assertRaises(ValueError, {{}}.__getitem__, 1)",)),
    Canary("assertRaises, raised", "passed", (f'{_CASE}assertRaises(ValueError, int, "x")',)),
    Canary("assertEqual, equal", "passed", (f"{_CASE}assertEqual(1, 1)",)),
    Canary("fail", "failed", (f'{_CASE}fail("no")',)),
    Canary(
        "a test case that fails",
        "passed",
        (
            'kind = type("Case", (unittest.TestCase,), {"runTest": lambda self: self.assertEqual(1, 2)})',
            "result = unittest.TestResult()",
            "kind().run(result)",
            "{1: None}[len(result.failures)]",
        ),
    ),
)
PYTEST = (
    Canary("assert", "failed", ("assert 1 == 2",)),
    Canary("assert of a list", "failed", ("assert [1, 2] == [1, 3]",)),
    Canary("assert of a truth", "failed", ("assert not [1]",)),
    Canary("assert of a part", "failed", ('assert "a" in "b"',)),
    Canary("assert that holds", "passed", ("assert 1 == 1",)),
    Canary("approx", "failed", ("assert 1.0 == pytest.approx(2.0)",)),
    Canary("raises", "failed", (_RAISES, "    pass")),
    Canary("raises, with another", "failed", (_RAISES, "    {}[1]")),
    Canary("raises, raised", "passed", (_RAISES, '    int("x")')),
    Canary("pytest.fail", "failed", ('pytest.fail("no")',)),
    Canary("pytest.skip", "skipped", ('pytest.skip("no")',)),
    Canary("an exception", "failed", ("{}[1]",)),
    Canary("nothing", "passed", ("pass",)),
    Canary("setup", "error", ("{}[1]",)),
    *UNITTEST,
)
UNITTEST_RUN = (
    Canary("assert", "failed", ("assert 1 == 2",)),
    Canary("assert that holds", "passed", ("assert 1 == 1",)),
    Canary("an exception", "error", ("{}[1]",)),
    Canary("nothing", "passed", ("pass",)),
    Canary("setup", "error", ("{}[1]",)),
    Canary("skip", "skipped", ('unittest.TestCase().skipTest("no")',)),
    # unittest tells failed assertions from other exceptions.
    *(canary._replace(outcome="error") if canary.style == _WITH_ANOTHER else canary for canary in UNITTEST),
)
_ASSERT_FAILS = (
    *("assert", "assert.ok", "assert.equal", "assert.notEqual", "assert.strictEqual", "assert.notStrictEqual"),
    *("assert.deepEqual", "assert.deepStrictEqual", "assert.notDeepEqual", "assert.throws", "assert.doesNotThrow"),
    *("assert.ifError", "assert.fail", "assert.strict.equal", "assert.strict.deepEqual"),
)
_LIBRARY_FAILS = (
    *("chai expect", "chai expect, deep", "chai assert", "chai assert, strict", "expect toBe", "expect toEqual"),
    *("a test of mocha that fails", "tape equal", "tape deepEqual", "tape ok", "tape throws", "tape fail"),
)
_LIBRARY_PASSES = ("chai expect, equal", "expect toBe, equal", "a test of mocha that passes", "tape equal, equal")
# Their text stands in `inside/javascript_events.cjs`; what a project does not load is not tried.
JAVASCRIPT = (
    *(Canary(style, "failed") for style in _ASSERT_FAILS),
    *(Canary(style, "passed") for style in ("assert.strictEqual, equal", "assert.throws, thrown")),
    *(Canary(style, "failed", optional=True) for style in _LIBRARY_FAILS),
    *(Canary(style, "passed", optional=True) for style in _LIBRARY_PASSES),
)
ROUNDS = 2  # before the first test of the project, and after the last


class CanaryModule(NamedTuple):
    """The text of a module of known tests, and each test's style and function, in their order."""

    name: str
    text: str
    functions: tuple[tuple[str, str], ...]


def random_name() -> str:
    """Return a name for a module or a function that code under test cannot know."""
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(10))


def write_module(canaries: Sequence[Canary], imports: Sequence[str]) -> CanaryModule:
    """Write known tests as a module with random names; the first stays first, the others are shuffled."""
    first, *others = canaries
    random.SystemRandom().shuffle(others)
    functions = [(canary.style, f"test_{random_name()}") for canary in (first, *others)]
    lines = [f"import {name}" for name in imports]
    for canary, (_, function) in zip((first, *others), functions, strict=True):
        lines += ["", "", f"def {function}():", *(f"    {line}" for line in canary.body)]
    return CanaryModule(f"test_{random_name()}", "\n".join([*lines, ""]), tuple(functions))
