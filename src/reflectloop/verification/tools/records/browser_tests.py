"""Runners of tests in a browser, and of scenarios: read and protected, but not run by us."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reflectloop.verification.tools import javascript, record
from reflectloop.verification.tools.json_values import dicts, number_of, outcome_of, table, text_of


def _playwright(root: Mapping[str, Any]) -> Iterator[record.TestEntry]:
    waiting = [(suite, "") for suite in dicts(root.get("suites"))]
    while waiting:
        suite, scope = waiting.pop()
        inner = f"{scope} > {text_of(suite.get('title'))}".removeprefix(" > ")
        waiting.extend((child, inner) for child in dicts(suite.get("suites")))
        for spec in dicts(suite.get("specs")):
            for test in dicts(spec.get("tests")):
                project = text_of(test.get("projectName"))
                results = list(dicts(test.get("results")))
                yield record.TestEntry(
                    text_of(test.get("status")),
                    text_of(spec.get("title")),
                    inner,
                    project and f"[{project}]",
                    message=text_of(table(results[-1].get("error"))) if results else "",
                    at_file=text_of(spec.get("file")) or None,
                    at_line=number_of(spec.get("line")),
                )


def _cucumber(features: list[Any]) -> Iterator[record.TestEntry]:
    for feature in dicts(features):
        for scenario in dicts(feature.get("elements")):
            if scenario.get("type") == "background":
                continue
            results = [step["result"] for step in dicts(scenario.get("steps")) if isinstance(step.get("result"), dict)]
            message = next((text_of(result["error_message"]) for result in results if result.get("error_message")), "")
            yield record.TestEntry(
                _worst([text_of(result.get("status")) for result in results]),
                text_of(scenario.get("name")),
                text_of(feature.get("name")),
                text_of(feature.get("uri")),
                message=message,
                text=message,
                at_line=number_of(scenario.get("line")),
            )


def _worst(words: list[str]) -> str:
    """Return the worst outcome of a scenario's steps."""
    outcomes = [outcome_of(word) for word in words]
    default = "passed" if outcomes else "skipped"
    return next((outcome for outcome in ("error", "failed", "skipped") if outcome in outcomes), default)


TOOLS = (
    record.Tool(
        name="playwright",
        kind="test",
        output=record.Output(
            kinds=(("test", "playwright"),),
            text=record.TextFormat(
                "playwright",
                (" tests using ",),
                r"^ +\d+ (?:passed|failed|skipped|flaky|did not run)\b.*$",
                way="joined",
                cases=(
                    (rf"^\s+[✓ok]+\s+\d+ (?P<test>\S.+?){javascript.TIME}$", "passed"),
                    (rf"^\s+[✘x]+\s+\d+ (?P<test>\S.+?){javascript.TIME}$", "failed"),
                ),
                block=r"^\s{2}\d+\) (?P<test>.+?) ─*$",
            ),
            json=(record.JsonFormat(frozenset({"suites", "config"}), _playwright),),
        ),
        files=record.Files(runner="playwright.config.*", executables="playwright", commands="playwright"),
        tampering=record.Tampering(javascript_names=("playwright",)),
    ),
    record.Tool(
        name="cypress",
        kind="test",
        files=record.Files(
            runner="cypress.config.* cypress.json",
            tests="*.cy.[jt]s *.cy.[jt]sx",
            executables="cypress",
            commands="cypress",
        ),
        tampering=record.Tampering(javascript_names=("cypress",)),
    ),
    record.Tool(
        name="karma",
        kind="test",
        output=record.Output(
            kinds=(("test", "karma"),),
            text=record.TextFormat("karma", ("Executed ",), r"Executed \d+ of \d+[^\n]{0,80}"),
        ),
        files=record.Files(runner="karma.conf*", executables="karma", package_keys="karma", commands="karma"),
        tampering=record.Tampering(javascript_names=("karma",)),
    ),
    record.Tool(
        name="jasmine",
        kind="test",
        output=record.Output(
            kinds=(("test", "jasmine"),),
            text=record.TextFormat(
                "jasmine", (" specs, ", " spec, "), r"^\d+ specs?, \d+ failures?.*$", block=r"^\d+\) (?P<test>.+)$"
            ),
        ),
        tampering=record.Tampering(javascript_names=("jasmine",), javascript_variables=(r"JASMINE_\w+",)),
    ),
    record.Tool(
        name="cucumber",
        kind="test",
        output=record.Output(
            kinds=(("test", "cucumber"),), json=(record.JsonFormat(frozenset({"elements"}), _cucumber, listed=True),)
        ),
    ),
    record.Tool(name="webdriver", kind="test", files=record.Files(runner="wdio.conf.* protractor.conf.* .testcaferc*")),
)
