"""PHP: phpunit, and what is only protected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools import record
from reflectloop.verification.tools.project import ProjectPart, at
from reflectloop.verification.tools.selectors import any_of, files_alone, is_file


def _find(part: ProjectPart) -> Iterator[DetectedCheck]:
    name = part.first(["phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml"])
    if name:
        yield part.check("phpunit", "test", "phpunit", ("phpunit",), f"{name} exists")
    elif at(part.json("composer.json"), "require-dev", "phpunit/phpunit") and part.has_folder("tests"):
        yield part.check("phpunit", "test", "phpunit", ("phpunit", "tests"), "composer.json requires phpunit")


def _covers(part: ProjectPart, folder: str) -> bool:  # noqa: ARG001
    return False


def _select(tests: Sequence[str]) -> tuple[str, ...] | None:
    return files_alone(tests) if all(is_file(test) for test in tests) else ("--filter", f"/{any_of(tests)}/")


def _composer(document: Mapping[str, Any]) -> Mapping[str, object]:
    return {"scripts": document.get("scripts", {})}


_SYNTAX = record.TestSyntax(
    ("php",),
    r"function\s+(?P<name>test\w*)\s*\(|@test\b[^}]*?function\s+(?P<method>\w+)\s*\(|\b(?:it|test)\(\s*['\"](?P<words>[^'\"]*)['\"]",
    r"\bmarkTest(?:Skipped|Incomplete)\s*\(|->(?:skip|todo|only)\(|@(?:requires|group\s+skip)",
    r"(?:\$this->|self::|static::)(?:assert|expect|fail)\w*\s*\(|\bexpect\s*\(",
    r"assertNotNull|assertTrue|assertNotEquals|assertInstanceOf|assertContains|toBeTruthy|assertNotEmpty",
    r"assertEquals|assertSame|assertCount|toBe\(|toEqual\(|expectExceptionMessage",
)

TOOLS = (
    record.Tool(
        name="phpunit",
        kind="test",
        precedence=20,
        call=record.Call(programs=("phpunit",)),
        run=record.Run(format="junit", place="file", arguments=("--log-junit", "{report}")),
        select=record.Selector(_select),
        endings=(".php", ".phpt"),
        detect=record.Ecosystem(
            manifests=(r"^composer\.json$", r"^phpunit\.xml(\.dist)?$"), find=_find, covers=_covers
        ),
        output=record.Output(
            kinds=(("test", "phpunit"),),
            text=record.TextFormat(
                "phpunit",
                ("PHPUnit", "OK (", "Assertions: "),
                r"^OK \(\d+ tests?, \d+ assertions?\)$|^Tests: \d+, Assertions: \d+.*$",
                block=r"^\d+\) (?P<test>\S+::.+)$",
                ends=r"^(?:FAILURES|ERRORS)!$|^--$",
                empty=r"^No tests executed!$",
            ),
            junit_names=("phpunit",),
        ),
        files=record.Files(
            runner="phpunit.xml* phpunit.dist.xml",
            mixed_runner="composer.json",
            tests="*test.php *.phpt",
            capital_endings="php",
            dependencies="composer.lock",
            executables="php phpunit composer",
            commands="phpunit",
            parts=(record.PartReader(r"composer\.json", "json", select=_composer),),
        ),
        tampering=record.Tampering(
            syntax=_SYNTAX,
            source_signs=(
                record.SourceSign(
                    r"class_exists\(\s*[\"']PHPUnit|defined\(\s*[\"']PHPUNIT", "asks whether PHPUnit is present"
                ),
            ),
            variables=(r"PHPUNIT_\w+",),
        ),
    ),
    record.Tool(
        name="pest",
        kind="test",
        files=record.Files(runner="pest.php behat.yml* codeception.yml", executables="pest", commands="pest"),
    ),
    record.Tool(
        name="phpstan",
        kind="lint",
        output=record.Output(clean=r"\[OK\] No errors", findings_keys="totals files errors"),
        files=record.Files(
            lint="phpstan*.neon* psalm*.xml* phpcs.xml* .phpcs.xml* .php-cs-fixer* .php_cs* rector.php",
            executables="phpstan",
            commands="phpstan|psalm",
        ),
        tampering=record.Tampering(silences_line=("phpstan-ignore",)),
    ),
)
