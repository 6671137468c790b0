"""Reads test results that come as one JSON document: jest, vitest, mocha, RSpec, pytest, cucumber and more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from reflectloop.verify.reports import failure, identity
from reflectloop.verify.reports.objects import number_of, text_of
from reflectloop.verify.reports.tally import COLLECTION, Tally
from reflectloop.verify.result import Outcome, Reading

_OUTCOMES: dict[str, Outcome] = {
    **dict.fromkeys(("passed", "pass", "ok", "expected", "success", "completed", "flaky"), "passed"),
    **dict.fromkeys(("failed", "fail", "unexpected", "timedout", "interrupted", "failure", "undefined"), "failed"),
    **dict.fromkeys(("error", "broken"), "error"),
    **dict.fromkeys(("skipped", "pending", "todo", "disabled", "ignored", "skip", "suppressed"), "skipped"),
    **dict.fromkeys(("xfailed",), "xfailed"),
    **dict.fromkeys(("xpassed",), "xpassed"),
}


def _dicts(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (one for one in value if isinstance(one, dict))


def _outcome(word: object) -> Outcome:
    """A word we do not know is no pass."""
    return _OUTCOMES.get(text_of(word).lower(), "error")


def _jest(root: dict[str, Any]) -> Tally:
    noted = Tally(
        "vitest" if "numTotalTestSuites" in root and "startTime" in root and "wasInterrupted" not in root else "jest"
    )
    for suite in _dicts(root.get("testResults")):
        file = text_of(suite.get("name")) or text_of(suite.get("testFilePath"))
        told = list(_dicts(suite.get("assertionResults"))) or list(_dicts(suite.get("testResults")))
        for one in told:
            _jest_test(noted, file, one)
        if not told and suite.get("status") == "failed":
            noted.collected = False
            said = text_of(suite.get("message"))
            noted.test(file, "error", failure.detail(file, "", said, file=file, rule=COLLECTION))
    return noted


def _jest_test(noted: Tally, file: str, one: dict[str, Any]) -> None:
    scope = " > ".join(title for title in one.get("ancestorTitles") or [] if isinstance(title, str))
    name = identity.plain(scope, text_of(one.get("title")) or text_of(one.get("fullName")), file)
    outcome = _outcome(one.get("status"))
    problem = None
    if outcome in {"failed", "error"}:
        place = one.get("location") if isinstance(one.get("location"), dict) else {}
        text = text_of(one.get("failureMessages"))
        problem = failure.detail(name, "", text, file=file, line=number_of((place or {}).get("line")))
    noted.test(name, outcome, problem)


def _mocha(root: dict[str, Any]) -> Tally:
    noted = Tally("mocha")
    lists: tuple[tuple[str, Outcome], ...] = (("passes", "passed"), ("failures", "failed"), ("pending", "skipped"))
    for key, outcome in lists:
        for one in _dicts(root.get(key)):
            name = identity.plain(
                "", text_of(one.get("fullTitle")) or text_of(one.get("title")), text_of(one.get("file"))
            )
            error = one.get("err") if isinstance(one.get("err"), dict) else {}
            said, stack = text_of((error or {}).get("message")), text_of((error or {}).get("stack"))
            noted.test(name, outcome, failure.detail(name, said, stack) if outcome == "failed" else None)
    return noted


def _mochawesome(root: dict[str, Any]) -> Tally:
    noted = Tally("mocha")
    waiting = list(_dicts(root.get("results")))
    while waiting:
        suite = waiting.pop()
        waiting.extend(_dicts(suite.get("suites")))
        for one in _dicts(suite.get("tests")):
            outcome: Outcome = "passed" if one.get("pass") else "failed" if one.get("fail") else "skipped"
            name = identity.plain("", text_of(one.get("fullTitle")), text_of(suite.get("file")))
            error = one.get("err") if isinstance(one.get("err"), dict) else {}
            said, stack = text_of((error or {}).get("message")), text_of((error or {}).get("estack"))
            noted.test(name, outcome, failure.detail(name, said, stack) if outcome == "failed" else None)
    return noted


def _rspec(root: dict[str, Any]) -> Tally:
    noted = Tally("rspec")
    for one in _dicts(root.get("examples")):
        file = text_of(one.get("file_path"))
        name = identity.plain("", text_of(one.get("full_description")), file)
        outcome = _outcome(one.get("status"))
        error = one.get("exception") if isinstance(one.get("exception"), dict) else {}
        said, stack = text_of((error or {}).get("message")), text_of((error or {}).get("backtrace"))
        line = number_of(one.get("line_number"))
        bad = outcome in {"failed", "error"}
        noted.test(name, outcome, failure.detail(name, said, stack, file=file, line=line) if bad else None)
    summary = root.get("summary") if isinstance(root.get("summary"), dict) else {}
    if number_of((summary or {}).get("errors_outside_of_examples_count")):
        noted.collected = False
    return noted


def _pytest(root: dict[str, Any]) -> Tally:
    noted = Tally("pytest")
    for one in _dicts(root.get("collectors")):
        if one.get("outcome") == "failed":
            name = text_of(one.get("nodeid"))
            noted.collected = False
            noted.test(name, "error", failure.detail(name, "", text_of(one.get("longrepr")), rule=COLLECTION))
    for one in _dicts(root.get("tests")):
        name, outcome = text_of(one.get("nodeid")), _outcome(one.get("outcome"))
        part: dict[str, Any] = next((one[when] for when in ("call", "setup", "teardown") if _broke(one.get(when))), {})
        bad = outcome in {"failed", "error"}
        noted.test(name, outcome, failure.detail(name, "", text_of(part.get("longrepr"))) if bad else None)
    return noted


def _broke(part: object) -> bool:
    return isinstance(part, dict) and part.get("outcome") == "failed"


def _playwright(root: dict[str, Any]) -> Tally:
    noted = Tally("playwright")
    waiting = [(suite, "") for suite in _dicts(root.get("suites"))]
    while waiting:
        suite, scope = waiting.pop()
        inner = f"{scope} > {text_of(suite.get('title'))}".removeprefix(" > ")
        waiting.extend((one, inner) for one in _dicts(suite.get("suites")))
        for spec in _dicts(suite.get("specs")):
            for test in _dicts(spec.get("tests")):
                project = text_of(test.get("projectName"))
                name = identity.plain(inner, text_of(spec.get("title")), project and f"[{project}]")
                results = list(_dicts(test.get("results")))
                error = results[-1].get("error") if results else {}
                outcome = _outcome(test.get("status"))
                said = text_of(error) if isinstance(error, dict) else ""
                line = number_of(spec.get("line"))
                file = text_of(spec.get("file")) or None
                bad = outcome in {"failed", "error"}
                noted.test(name, outcome, failure.detail(name, said, "", file=file, line=line) if bad else None)
    return noted


def _cucumber(features: list[Any]) -> Tally:
    noted = Tally("cucumber")
    for feature in _dicts(features):
        for scenario in _dicts(feature.get("elements")):
            if scenario.get("type") == "background":
                continue
            results = [step["result"] for step in _dicts(scenario.get("steps")) if isinstance(step.get("result"), dict)]
            each = [_outcome(result.get("status")) for result in results]
            outcome: Outcome = "passed" if each else "skipped"
            outcome = next((one for one in ("error", "failed", "skipped") if one in each), outcome)
            name = identity.plain(
                text_of(feature.get("name")), text_of(scenario.get("name")), text_of(feature.get("uri"))
            )
            said = next((text_of(result["error_message"]) for result in results if result.get("error_message")), "")
            bad = outcome in {"failed", "error"}
            line = number_of(scenario.get("line"))
            noted.test(name, outcome, failure.detail(name, said, said, line=line) if bad else None)
    return noted


def _gtest(root: dict[str, Any]) -> Tally:
    noted = Tally("gtest")
    for suite in _dicts(root.get("testsuites")):
        for one in _dicts(suite.get("testsuite")):
            name = identity.plain(text_of(one.get("classname")) or text_of(suite.get("name")), text_of(one.get("name")))
            broken = list(_dicts(one.get("failures")))
            ran = text_of(one.get("status")).upper() == "RUN" and text_of(one.get("result")).upper() != "SKIPPED"
            outcome: Outcome = "failed" if broken else "passed" if ran else "skipped"
            said = text_of(broken[0].get("failure")) if broken else ""
            noted.test(name, outcome, failure.detail(name, said, said) if broken else None)
    return noted


_READERS: tuple[tuple[frozenset[str], Callable[[dict[str, Any]], Tally]], ...] = (
    (frozenset({"testResults", "numTotalTests"}), _jest),
    (frozenset({"stats", "passes", "failures"}), _mocha),
    (frozenset({"stats", "results"}), _mochawesome),
    (frozenset({"examples", "summary"}), _rspec),
    (frozenset({"tests", "exitcode"}), _pytest),
    (frozenset({"suites", "config"}), _playwright),
    (frozenset({"testsuites", "tests"}), _gtest),
)


def read(root: object) -> Reading | None:
    if isinstance(root, dict):
        for keys, reader in _READERS:
            if keys <= set(root):
                return reader(root).reading()
    if isinstance(root, list) and root and all(isinstance(one, dict) and "elements" in one for one in root):
        return _cucumber(root).reading()
    return None
