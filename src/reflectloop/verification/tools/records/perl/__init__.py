"""Perl: the test programs of a distribution, run by prove."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools import record
from reflectloop.verification.tools.project import ProjectPart
from reflectloop.verification.tools.selectors import files, wanted

_MANIFESTS = ("Makefile.PL", "Build.PL", "dist.ini", "minil.toml", "cpanfile", ".proverc")
_ENDINGS = (".t",)


def _find(part: ProjectPart) -> Iterator[DetectedCheck]:
    """Yield prove for a Perl project with tests in `t`, unless it has C sources (`*.xs`) that must be built."""
    manifest = part.first(_MANIFESTS) or next(part.matching(r"^lib/.+\.pm$"), None)
    tests = next(part.matching(r"^t/.+\.t$"), None)
    if manifest and tests and not any(part.matching(r"\.xs$")):
        yield part.check(
            "prove", "test", "prove", ("prove", "--lib", "--recurse", "t"), f"{manifest} and {tests} exist"
        )


def _covers(part: ProjectPart, folder: str) -> bool:  # noqa: ARG001
    """Return False: a distribution below another one has tests of its own."""
    return False


def _select(tests: Sequence[str]) -> tuple[str, ...] | None:
    """Select whole files, since prove runs no part of one; None if a test is named without its file."""
    parts = [wanted(test, _ENDINGS) for test in tests]
    return files(parts) if all(part.file for part in parts) else None


def _read_text(text: str, lines: list[str]) -> Any:  # noqa: ANN401
    from reflectloop.verification.tools.records.perl import report  # noqa: PLC0415 - a parser is loaded when a log is read

    return report.read(text, lines)


_SYNTAX = record.TestSyntax(
    ("t",),
    r"^\s*subtest\s*\(?\s*(?P<quote>['\"])(?P<name>.*?)(?P=quote)",
    r"\bskip_all\b|^\s*(?:skip|todo_skip)\b|\blocal\s+\$TODO\b|^\s*(?:__END__|__DATA__)\s*$",
    r"^\s*(?:ok|is|isnt|like|unlike|cmp_ok|is_deeply|can_ok|isa_ok|new_ok|pass|fail|use_ok|require_ok|"
    r"(?:throws|dies|lives)_ok|is_\w+|cmp_\w+|eq_or_diff)\b.*$",
    r"^\s*(?:ok|isnt|unlike|pass|can_ok|isa_ok|lives_ok)\b",
    r"^\s*(?:is|is_deeply|cmp_ok|eq_or_diff|is_\w+|cmp_\w+)\b",
)

TOOLS = (
    record.Tool(
        name="prove",
        kind="test",
        precedence=12,
        call=record.Call(programs=("prove",)),
        # One job: with several, prove does not print the results of single tests.
        run=record.Run(arguments=("--verbose", "--jobs", "1", "--nocolor"), valued=frozenset({"-I", "-e", "-j", "-P"})),
        select=record.Selector(_select),
        endings=_ENDINGS,
        detect=record.Ecosystem(
            manifests=(r"^(?:Makefile\.PL|Build\.PL|dist\.ini|minil\.toml|cpanfile|\.proverc)$",),
            find=_find,
            covers=_covers,
        ),
        output=record.Output(kinds=(("test", "prove"),), read_text=_read_text, contains_tap=True),
        files=record.Files(
            runner=".proverc",
            lint=".perlcriticrc .perltidyrc",
            tests="*.t",
            dependencies="cpanfile cpanfile.snapshot",
            executables="prove perl",
            commands="prove",
        ),
        tampering=record.Tampering(
            syntax=_SYNTAX,
            source_signs=(
                record.SourceSign(
                    r"\$ENV\{['\"]?HARNESS_(?:ACTIVE|VERSION)|\$INC\{['\"]Test/(?:More|Builder)\.pm|\bTest::(?:More|Builder)\b",
                    "asks whether it is under test",
                    ("pm", "pl"),
                ),
            ),
            variables=(r"HARNESS_\w+", r"PERL_TEST_\w+"),
        ),
    ),
)
