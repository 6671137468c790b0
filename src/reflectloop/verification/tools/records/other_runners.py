"""Runners of other languages: read and protected, but not run by us."""

from __future__ import annotations

from reflectloop.verification.tools import record

TOOLS = (
    record.Tool(
        name="xctest",
        kind="test",
        output=record.Output(
            text=record.TextFormat(
                "xctest",
                ("Executed ", "Test Suite "),
                r"^[ \t]*Executed \d+ tests?, with .*$",
                cases=(
                    (r"^Test Case '(?P<test>[^']+)' passed", "passed"),
                    (r"^Test Case '(?P<test>[^']+)' failed", "failed"),
                    (r"^Test Case '(?P<test>[^']+)' skipped", "skipped"),
                ),
            )
        ),
        files=record.Files(
            lint=".swiftlint.yml",
            tests="*tests.swift *test.swift",
            capital_endings="swift",
            dependencies="podfile.lock package.resolved",
        ),
    ),
    record.Tool(
        name="deno",
        kind="test",
        output=record.Output(
            kinds=(("test", "deno"),),
            text=record.TextFormat(
                "deno",
                (" passed | ",),
                r"^(?:ok|FAILED) \| \d+ passed.*$",
                cases=(
                    (r"^(?P<test>\S.*?) \.\.\. ok \(", "passed"),
                    (r"^(?P<test>\S.*?) \.\.\. FAILED \(", "failed"),
                    (r"^(?P<test>\S.*?) \.\.\. ignored \(", "skipped"),
                ),
                block=r"^(?P<test>\S.*?) => \S+:\d+:\d+$",
            ),
        ),
        files=record.Files(runner="deno.json*", dependencies="deno.lock", executables="deno"),
    ),
    record.Tool(
        name="exunit",
        kind="test",
        precedence=15,  # above bats, whose totals have the same form
        output=record.Output(
            kinds=(("test", "exunit"),),
            text=record.TextFormat(
                "exunit",
                ("Finished in ",),
                r"^(?:\d+ doctests?, )?(?:\d+ propert\w+, )?\d+ tests?, \d+ failures?.*$",
                block=r"^\s{2}\d+\) (?P<test>(?:test|doctest|property) .+)$",
                ends=r"^Finished in |^\s*\.+$",
                unloaded=r"^\*\* \((?:\w+Error)\) .*$",
            ),
        ),
        files=record.Files(lint=".credo.exs", hooks="test_helper.exs", tests="*_test.exs", dependencies="mix.lock"),
        tampering=record.Tampering(
            syntax=record.TestSyntax(
                ("exs",),
                r"^\s*(?:test|property)\s+\"(?P<name>[^\"]*)\"",
                r"@(?:module|describe)?tag\s+:?skip|@tag\s+skip:",
                r"^\s*(?:assert\w*|refute\w*)\b.*$",
                braces=False,
            )
        ),
    ),
    record.Tool(
        name="tasty",
        kind="test",
        output=record.Output(
            text=record.TextFormat(
                "tasty",
                (" tests passed (", " tests failed ("),
                r"^(?:All )?\d+ (?:out of \d+ )?tests (?:passed|failed) \(.*\)$",
            )
        ),
    ),
    record.Tool(
        name="testsuite",
        kind="test",
        output=record.Output(
            kinds=(("test", "junit"),),
            xml=(record.XmlFormat("Tests", "testsuite", "Test", ("Result", "Outcome", "Status"), ("Name",), ()),),
        ),
    ),
    record.Tool(
        name="other-languages",
        kind="test",
        files=record.Files(
            tests="*_test.zig *_test.lua *_spec.lua *_test.clj *_test.sh test_*.sh", dependencies="flake.lock"
        ),
    ),
)
