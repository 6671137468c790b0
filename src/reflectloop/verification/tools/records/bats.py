"""Shell: tests written for bats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools import record
from reflectloop.verification.tools.project import ProjectPart
from reflectloop.verification.tools.selectors import by_pattern


def _find(part: ProjectPart) -> Iterator[DetectedCheck]:
    tests = list(part.matching(r"\.bats$"))
    if tests:
        tops = dict.fromkeys(PurePosixPath(path).parts[0] for path in tests)
        yield part.check("bats", "test", "bats", ("bats", "--recursive", *tops), f"{tests[0]} exists")


def _covers(part: ProjectPart, folder: str) -> bool:  # noqa: ARG001
    return True


TOOLS = (
    record.Tool(
        name="bats",
        kind="test",
        precedence=10,
        call=record.Call(programs=("bats",)),
        run=record.Run(
            format="junit",
            place="beside",
            arguments=("--report-formatter", "junit", "--output", "{beside}"),
            own="report.xml",
        ),
        select=by_pattern("--filter", endings=(".bats",)),
        endings=(".bats", ".sh", ".bash"),
        detect=record.Ecosystem(manifests=(), find=_find, covers=_covers),
        output=record.Output(
            kinds=(("test", "bats"),),
            text=record.TextFormat(
                "bats",
                (" tests, ", " test, "),
                r"^\d+ tests?, \d+ failures?(?:, \d+ skipped)?(?: in .*)?$",
                cases=(
                    (r"^ ✓ (?P<test>.+)$", "passed"),
                    (r"^ ✗ (?P<test>.+)$", "failed"),
                    (r"^ - (?P<test>.+) \(skipped.*$", "skipped"),
                ),
                block=r"^ ✗ (?P<test>.+)$",
                ends=r"^ [✓✗-] |^\d+ tests?,",
            ),
        ),
        files=record.Files(tests="*.bats", executables="bats", commands="bats"),
        tampering=record.Tampering(
            syntax=record.TestSyntax(
                ("bats",),
                r"^@test\s+(?P<quote>['\"])(?P<name>.*?)(?P=quote)",
                r"^\s*(?:skip|bats_require)\b|bats:focus",
                r"^\s*(?:\[\[?\s.*\]\]?|assert\w*\b.*|refute\w*\b.*|run\s+!?.*|test\s+.*)$",
                r"assert_success|assert_output --partial|refute",
                r"assert_output|assert_equal|assert_line|=",
            ),
            variables=(r"BATS_\w+",),
        ),
    ),
    record.Tool(
        name="shellcheck",
        kind="lint",
        output=record.Output(findings_keys="comments"),
        files=record.Files(lint=".shellcheckrc", commands="shellcheck"),
        tampering=record.Tampering(silences_line=("shellcheck disable",)),
    ),
)
