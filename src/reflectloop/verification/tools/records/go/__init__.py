"""Go: every module is built, vetted and tested."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools import record
from reflectloop.verification.tools.project import ProjectPart
from reflectloop.verification.tools.selectors import any_of


def _find(part: ProjectPart) -> Iterator[DetectedCheck]:
    if not part.first(["go.mod"]):
        return
    yield part.check("go-build", "build", "go-build", ("go", "build", "./..."), "go.mod exists")
    yield part.check("go-vet", "lint", "go-vet", ("go", "vet", "./..."), "go.mod exists")
    tested = next(part.matching(r"_test\.go$"), None)
    if tested:
        yield part.check("go-test", "test", "go-test", ("go", "test", "./..."), f"{tested} has tests")


def _covers(part: ProjectPart, folder: str) -> bool:  # noqa: ARG001
    """Return False: a Go module ends where another begins."""
    return False


def _select(tests: Sequence[str]) -> tuple[str, ...]:
    """Select subtests by their parent, which may set up what they need."""
    packages, names = [], []
    for test in tests:
        package, name = _parts(test)
        packages.append(package)
        names.append(name.split("/")[0])
    pattern = ("-run", any_of(names)) if all(names) else ()
    return (*pattern, *dict.fromkeys(packages))


def _parts(test: str) -> tuple[str, str]:
    if test.endswith(".go"):
        folder = PurePosixPath(test).parent
        return (f"./{folder}" if str(folder) != "." else "."), ""
    package, joined, name = test.partition("::")
    if not joined:
        package, joined, name = test.rpartition(".")
    return (package, name) if joined else ("./...", test)


def _read_text(text: str, lines: list[str]) -> Any:  # noqa: ANN401
    from reflectloop.verification.tools.records.go import report  # noqa: PLC0415 - a parser is loaded when a log is read

    return report.read(text, lines)


def _read_events(events: list[dict[str, Any]]) -> Any:  # noqa: ANN401
    from reflectloop.verification.tools.records.go import report  # noqa: PLC0415

    return report.read_events(events)


_SYNTAX = record.TestSyntax(
    ("go",),
    r"^func\s+(?P<name>(?:Test|Fuzz|Example|Benchmark)\w*)\s*\(",
    r"\b[tb]\.(?:Skip|Skipf|SkipNow)\(|\bXIt\(|\bPIt\(|\bFIt\(|\bFDescribe\(|^//go:build\s+ignore",
    r"\bif\s[^{}\n]*\{\s*(?:t|b|s\.T\(\))\.(?:Error|Fatal|Fail)\w*\s*\(|\b(?:assert|require)\.\w+\s*\(|\bExpect\s*\(|\b[tb]\.(?:Error|Fatal|Fail)\w*\s*\(",
    r"\.(?:NotNil|NotEmpty|True|Contains|NoError|IsType|InDelta|NotEqual)\(",
    r"\.(?:Equal|EqualValues|Exactly|JSONEq|EqualError|ErrorIs|ElementsMatch)\(",
)

TOOLS = (
    record.Tool(
        name="go-test",
        kind="test",
        precedence=80,
        call=record.Call(programs=("go test",)),
        run=record.Run(
            format="go-json", arguments=("-json",), leading=True, valued=frozenset(["-run", "-tags", "-timeout"])
        ),
        select=record.Selector(_select),
        endings=(".go",),
        detect=record.Ecosystem(manifests=(r"^go\.mod$",), find=_find, covers=_covers),
        output=record.Output(
            kinds=(("test", "go-test"),),
            read_text=_read_text,
            events=(
                record.EventFormat(
                    lambda event: "Action" in event and ("Package" in event or "ImportPath" in event), _read_events
                ),
            ),
        ),
        files=record.Files(
            tests="*_test.go",
            dependencies="go.mod go.sum go.work go.work.sum",
            executables="go gofmt gotestsum",
            commands="go (?:test|vet)",
        ),
        tampering=record.Tampering(
            narrows=(r"-run\S*", r"-skip\S*", "-short"),
            stricter=("-race", "-count=1"),
            syntax=_SYNTAX,
            source_signs=(
                record.SourceSign(
                    r"\btesting\.Testing\(\)|flag\.Lookup\(\s*\"test\.|strings\.HasSuffix\(\s*os\.Args\[0\]",
                    "asks whether go test runs it",
                    ("go",),
                ),
            ),
            variables=(r"GO_TEST_\w+",),
        ),
    ),
    record.Tool(name="go-vet", kind="lint", call=record.Call(programs=("go vet",)), run=record.Run()),
    record.Tool(
        name="go-build",
        kind="build",
        call=record.Call(programs=("go build",)),
        run=record.Run(),
        output=record.Output(errors_only=True),
    ),
    record.Tool(
        name="go",  # the compiler, by its messages
        kind="build",
        precedence=41,
        output=record.Output(
            kinds=(("build", "go"),),
            errors_only=True,
            signs=(
                r"^# \S+\n(?:\./|\S+/)?\S+\.go:\d+:\d+: |"
                r"^\S+\.go:\d+:\d+: (?:undefined|cannot use|syntax error)"
            ),
        ),
    ),
    record.Tool(
        name="golangci-lint",
        kind="lint",
        output=record.Output(findings_keys="Issues"),
        files=record.Files(
            lint=".golangci.* staticcheck.conf revive.toml",
            executables="golangci-lint staticcheck",
            commands="golangci-lint",
        ),
        tampering=record.Tampering(silences_file=(r"^//nolint\b.*\bpackage\b",), silences_line=(r"//\s*nolint",)),
    ),
)
