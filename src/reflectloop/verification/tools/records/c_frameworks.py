"""Test frameworks of C and C++, whose programs ctest or make runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reflectloop.verification.tools import record
from reflectloop.verification.tools.json_values import dicts, text_of

_AT = r"(?P<file>[^\n]*?):(?P<line>\d+):"
_RULE = r"-{60,}\n"


def _gtest(root: Mapping[str, Any]) -> Iterator[record.TestEntry]:
    for suite in dicts(root.get("testsuites")):
        for test in dicts(suite.get("testsuite")):
            broken = list(dicts(test.get("failures")))
            ran = text_of(test.get("status")).upper() == "RUN" and text_of(test.get("result")).upper() != "SKIPPED"
            message = text_of(broken[0].get("failure")) if broken else ""
            yield record.TestEntry(
                "failed" if broken else "passed" if ran else "skipped",
                text_of(test.get("name")),
                text_of(test.get("classname")) or text_of(suite.get("name")),
                message=message,
                text=message,
            )


TOOLS = (
    record.Tool(
        name="gtest",
        kind="test",
        precedence=5,
        output=record.Output(
            kinds=(("test", "gtest"),),
            text=record.TextFormat(
                "gtest",
                ("[==========]",),
                r"^\[  (?:PASSED|SKIPPED|FAILED)  ?\] \d+(?= tests?\b)|^ \d+ FAILED(?= TEST\(S\))",
                way="joined",
                cases=(
                    (r"^\[       OK \] (?P<test>[^,(]+?)(?: \(|$)", "passed"),
                    # cmocka, which writes the same lines, gives no time.
                    (r"^\[  FAILED  \] (?P<test>[^\s,(]+)(?:, where .*)?(?: \(\d+ ms\))?$", "failed"),
                    (r"^\[  SKIPPED \] (?P<test>[^\s,(]+)(?: \(|$)", "skipped"),
                ),
            ),
            json=(record.JsonFormat(frozenset({"testsuites", "tests"}), _gtest),),
            junit_names=("gtest",),
        ),
        tampering=record.Tampering(variables=(r"GTEST_\w+",)),
    ),
    record.Tool(
        name="unity",
        kind="test",
        output=record.Output(
            kinds=(("test", "unity"),),
            text=record.TextFormat(
                "unity",
                (" Failures ",),
                r"^\d+ Tests \d+ Failures \d+ Ignored ?$",
                way="all",
                cases=(
                    (rf"^{_AT}(?P<test>[A-Za-z_][^:]*?):PASS(?: \(.*\))?$", "passed"),
                    (rf"^{_AT}(?P<test>[A-Za-z_][^:]*?):FAIL(?: \(.*\))?(?:: ?(?P<message>.*))?$", "failed"),
                    (rf"^{_AT}(?P<test>[A-Za-z_][^:]*?):IGNORE(?: \(.*\))?(?::.*)?$", "skipped"),
                    (r"^TEST\((?P<test>[^()]+)\) PASS$", "passed"),
                    (rf"^TEST\((?P<test>[^()]+)\){_AT}:FAIL(?:: ?(?P<message>.*))?$", "failed"),
                    (r"^IGNORE_TEST\((?P<test>[^()]+)\)", "skipped"),
                ),
            ),
        ),
    ),
    record.Tool(
        name="catch2",
        kind="test",
        output=record.Output(
            kinds=(("test", "catch2"),),
            text=record.TextFormat(
                "catch2",
                ("test cases:", "All tests passed (", "No tests ran"),
                r"^All tests passed \(.*$|^test cases:(?:(?! \| +\d+ failed as expected).)*",
                folded=(
                    rf"^{_RULE}(\S.*)\n(?: .*\n)*{_RULE}.*:\d+\n\.{{60,}}\n\n(.*:\d+: FAILED:.*)$",
                    r"Catch2 case failed: \1\n\2",
                ),
                cases=((r"^Catch2 case failed: (?P<test>.+)$", "failed"),),
                block=r"^Catch2 case failed: (?P<test>.+)$",
                ends=r"^-{60,}$|^={60,}$",
                empty=r"^No tests ran$|^No test cases matched .*$",
            ),
        ),
    ),
    record.Tool(
        name="doctest-cpp",
        kind="test",
        output=record.Output(
            kinds=(("test", "doctest-cpp"),),
            text=record.TextFormat(
                "doctest-cpp",
                ("[doctest] test cases:",),
                r"^\[doctest\] test cases:.*$",
                folded=(
                    r"^TEST CASE:  (.*)\n(?:  .*\n)*\n(.*:\d+: (?:FATAL )?ERROR: .*)$",
                    r"doctest case failed: \1\n\2",
                ),
                cases=((r"^doctest case failed: (?P<test>.+)$", "failed"),),
                block=r"^doctest case failed: (?P<test>.+)$",
                ends=r"^={60,}$",
            ),
        ),
    ),
    record.Tool(
        name="qtest",
        kind="test",
        output=record.Output(xml=(record.XmlFormat("TestCase", "qtest", "TestFunction", (), ("name",), ()),)),
    ),
    record.Tool(
        name="boost",
        kind="test",
        output=record.Output(xml=(record.XmlFormat("TestLog", "boost", "TestCase", (), ("name",), ()),)),
    ),
)
