""".NET: the solution, or each project that belongs to none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools import record
from reflectloop.verification.tools.project import ProjectPart

_TEST_PROJECT = lazy(r"Microsoft\.NET\.Test\.Sdk|\b(xunit|NUnit|MSTest)\b|<IsTestProject>\s*true", re.IGNORECASE)
_ENV = {"DOTNET_CLI_TELEMETRY_OPTOUT": "1", "DOTNET_NOLOGO": "1"}


def _find(part: ProjectPart) -> Iterator[DetectedCheck]:
    project_file = next(part.matching(r"^[^/]+\.slnx?$"), None) or next(part.matching(r"^[^/]+\.(cs|fs|vb)proj$"), None)
    if project_file is None:
        return
    yield part.check("dotnet-build", "build", "dotnet-build", ("dotnet", "build"), f"{project_file} exists")
    projects = part.matching(r"\.(cs|fs|vb)proj$")
    test_project = next((path for path in projects if _TEST_PROJECT.search(part.text(path))), None)
    if test_project:
        yield part.check("dotnet-test", "test", "dotnet-test", ("dotnet", "test"), f"{test_project} is a test project")


def _covers(part: ProjectPart, folder: str) -> bool:  # noqa: ARG001
    return True


_ENDINGS = (".cs", ".fs", ".vb")


def _select(tests: Sequence[str]) -> tuple[str, ...] | None:
    """Select tests by their full names; None for a file, whose classes may have any name."""
    if any(test.endswith(_ENDINGS) for test in tests):
        return None
    return ("--filter", "|".join(f"FullyQualifiedName={test}" for test in tests))


_SYNTAX = record.TestSyntax(
    ("cs", "fs", "vb"),
    r"\[(?:Fact|Theory|Test|TestMethod|TestCase)\b[^\]]*\]\s*(?:\[[^\]\n]*\]\s{0,99}){0,8}(?:(?:public|private|internal|async|static|override)\s+)*[\w<>\[\]]+\s+(?P<name>\w+)\s*\(",
    r"\bSkip\s*=|\[(?:Ignore|Explicit)\b|\bAssert\.(?:Ignore|Inconclusive)\s*\(|\bSkip\.If\w*\s*\(",
    r"\bAssert\.\w+(?:<[^>]*>)?\s*\(|\.Should\(\)\.\w+|\bShould\w+\s*\(",
    r"\.(?:NotNull|True|NotEqual|IsType|Contains|NotEmpty|IsNotNull|IsTrue)\b",
    r"\.(?:Equal|AreEqual|Same|Be|BeEquivalentTo|Throws\w*|Collection)\b",
)

TOOLS = (
    record.Tool(
        name="dotnet-test",
        kind="test",
        precedence=40,
        call=record.Call(programs=("dotnet test",)),
        run=record.Run(
            format="trx", place="folder", arguments=("--logger", "trx", "--results-directory", "{report}"), env=_ENV
        ),
        select=record.Selector(_select, replaces=False),
        endings=(".cs", ".fs", ".vb"),
        detect=record.Ecosystem(manifests=(r"\.slnx?$", r"\.(cs|fs|vb)proj$"), find=_find, covers=_covers),
        output=record.Output(
            kinds=(("test", "nunit xunit trx"),),
            text=record.TextFormat(
                "dotnet",
                ("Total tests: ", "Passed!  - ", "Failed!  - ", "No test is available"),
                r"^(?:Passed|Failed|Skipped)! +- .*$|^Total tests: \d+\n(?: +\w+: \d+\n?)+",
                way="all",
                cases=(
                    (r"^\s+Passed (?P<test>\S.*?) \[", "passed"),
                    (r"^\s+Failed (?P<test>\S.*?) \[", "failed"),
                    (r"^\s+Skipped (?P<test>\S.*?)(?: \[|$)", "skipped"),
                ),
                block=r"^\s+Failed (?P<test>\S.*?) \[",
                ends=r"^\s+(?:Passed|Skipped) \S",
                empty=r"^No test is available in ",
            ),
            xml=(
                record.XmlFormat("test-run", "nunit", "test-case", ("result", "label"), scope=()),
                record.XmlFormat(
                    "test-results", "nunit", "test-case", ("result", "success", "executed"), ("name",), ()
                ),
                record.XmlFormat("assemblies", "xunit", "test", ("result",), ("name",), ()),
                record.XmlFormat("assembly", "xunit", "test", ("result",), ("name",), ()),
                record.XmlFormat("TestRun", "trx", "UnitTestResult", ("outcome",), ("testName",), ()),
            ),
        ),
        files=record.Files(
            runner=(
                "*.runsettings *.tests.csproj *.test.csproj *tests.fsproj xunit.runner.json directory.build.props "
                "directory.build.targets"
            ),
            tests="*test.cs *tests.cs",
            capital_endings="cs",
            dependencies="packages.lock.json packages.config directory.packages.props paket.lock",
            executables="dotnet msbuild",
            commands="dotnet test",
        ),
        tampering=record.Tampering(narrows=(r"--filter\S*",), syntax=_SYNTAX),
    ),
    record.Tool(
        name="dotnet-build",
        kind="build",
        call=record.Call(programs=("dotnet build",)),
        run=record.Run(arguments=("--nologo",), env=_ENV),
        files=record.Files(lint=".globalconfig *.ruleset stylecop.json"),
        tampering=record.Tampering(silences_line=("#pragma warning disable",)),
    ),
)
