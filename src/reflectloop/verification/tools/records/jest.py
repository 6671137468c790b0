"""Jest, and tools that run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reflectloop.verification.tools import javascript, record
from reflectloop.verification.tools.json_values import dicts, number_of, table, text_of
from reflectloop.verification.tools.selectors import by_pattern


def _json(root: Mapping[str, Any]) -> Iterator[record.TestEntry]:
    for suite in dicts(root.get("testResults")):
        file = text_of(suite.get("name")) or text_of(suite.get("testFilePath"))
        tests = list(dicts(suite.get("assertionResults"))) or list(dicts(suite.get("testResults")))
        for test in tests:
            yield record.TestEntry(
                text_of(test.get("status")),
                text_of(test.get("title")) or text_of(test.get("fullName")),
                " > ".join(title for title in test.get("ancestorTitles") or [] if isinstance(title, str)),
                file,
                text=text_of(test.get("failureMessages")),
                at_file=file,
                at_line=number_of(table(test.get("location")).get("line")),
            )
        if not tests and suite.get("status") == "failed":
            yield record.TestEntry("error", id=file, text=text_of(suite.get("message")), at_file=file, unloaded=True)


def _writer(root: Mapping[str, Any]) -> str:
    """Return which of the two tools wrote the report: only jest says whether it was interrupted."""
    other = "numTotalTestSuites" in root and "startTime" in root and "wasInterrupted" not in root
    return "vitest" if other else "jest"


TOOLS = (
    record.Tool(
        name="jest",
        kind="test",
        precedence=40,
        call=record.Call(programs=("jest", "react-scripts test", "craco test")),
        run=record.Run(
            format="jest-json",
            place="file",
            arguments=("--json", "--outputFile={report}", "--testLocationInResults", "--bail=0", "--ci"),
            valued=frozenset(["-t", "-c", "--config", "--selectProjects"]),
        ),
        select=by_pattern("--testNamePattern", ("--runTestsByPath",), joined=True),
        endings=javascript.ENDINGS,
        detect=record.NodeTool(find=javascript.configured("jest", r"^jest\.config\.", ("jest",)), reaches_members=True),
        output=record.Output(
            kinds=(("test", "jest"),),
            text=record.TextFormat(
                "jest",
                ("Tests: ", "Test Suites: ", "No tests found"),
                r"^Tests: +\d.*total$",
                cases=(
                    (rf"^\s+[✓√] (?P<test>.+?){javascript.TIME}$", "passed"),
                    (rf"^\s+[✕×] (?P<test>.+?){javascript.TIME}$", "failed"),
                    (r"^\s+○ (?:skipped |todo )?(?P<test>.+)$", "skipped"),
                ),
                scope=r"^(?:(?:PASS|FAIL) |\s+)(?P<test>[^\s●>|].*?)(?: \([\d.]+ m?s\))?$",
                block=r"^\s{2}● (?P<test>.+)$",
                ends=r"^Test Suites: |^(?:PASS|FAIL) ",
                unloaded=r"^ {2}● Test suite failed to run$",
                empty=r"^No tests found, exiting with code \d$",
            ),
            json=(record.JsonFormat(frozenset({"testResults", "numTotalTests"}), _json, _writer),),
            junit_names=("jest",),
        ),
        files=record.Files(
            runner="jest.config.* jest-*.config.* jest.preset.*",
            hooks="jest.setup.* jest-setup.*",
            artefact_folders=".jest-cache",
            executables="jest",
            package_keys="jest jest-junit",
            commands="jest",
            script_names="jest",
        ),
        tampering=record.Tampering(
            settings=(
                record.SettingRule(r".*coverageThreshold.*", "threshold"),
                record.SettingRule(
                    r"(?:.*\.)?(?:modulePathIgnorePatterns|testPathIgnorePatterns|coveragePathIgnorePatterns|"
                    r"watchPathIgnorePatterns)",
                    "excluding",
                ),
                record.SettingRule(r"(?:.*\.)?(?:testMatch|testRegex)", "including"),
                record.SettingRule(r"(?:.*\.)?roots", "including_all"),
                record.SettingRule(r"(?:.*\.)?moduleNameMapper\..*", "aliases"),
                record.SettingRule(r"(?:.*\.)?errorOnDeprecated", "strict_when_true"),
                record.SettingRule(r"(?:.*\.)?(?:passWithNoTests|forceExit|bail)", "loose_when_true"),
                record.SettingRule(
                    r"(?:jest\.)?(?:(?:global|projects\S*)\.)?(?:transform\S*|moduleNameMapper\S*|moduleFileExtensions|"
                    r"testEnvironment\S*|collectCoverage\w*|coverageDirectory|coverageReporters|coverageProvider|verbose|"
                    r"preset|globals\S*|snapshot\w*|testTimeout|maxWorkers|reporters\S*|clearMocks|resetMocks|restoreMocks|"
                    r"moduleDirectories|modulePaths|extensionsToTreatAsEsm|workerIdleMemoryLimit|displayName|cacheDirectory|"
                    r"timers|fakeTimers\S*|watchPlugins|randomize|injectGlobals|rootDir|prettierPath)",
                    "harmless",
                ),
            ),
            loosens=(r"--passWithNoTests", r"--forceExit", r"--bail=0"),
            narrows=(
                *(r"--testPathIgnorePatterns\S*", r"--testNamePattern\S*", "-t", "--onlyChanged", "-o"),
                *("--findRelatedTests", r"--testPathPattern\S*", r"--shard\S*"),
            ),
            stricter=(r"--coverage\S*", "--ci", "--runInBand"),
            valued_flags=("-t",),
            source_signs=(record.SourceSign("JEST_WORKER_ID", "asks whether a test runner runs it", javascript.CODE),),
            imports=("jest",),
            javascript_names=("jest",),
            javascript_variables=("JEST_WORKER_ID",),
        ),
    ),
)
