"""Reads test results that come as JSON, one event a line: go, cargo, libtest, dart, pytest's report log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reflectloop.verify.reports import failure, identity, tally
from reflectloop.verify.reports.objects import number_of, text_of
from reflectloop.verify.reports.tally import COLLECTION, Tally
from reflectloop.verify.result import Outcome, Reading

_Events = list[dict[str, Any]]
_GO: dict[str, Outcome] = {"pass": "passed", "fail": "failed", "skip": "skipped"}
_LIBTEST: dict[str, Outcome] = {"ok": "passed", "failed": "failed", "ignored": "skipped", "timeout": "failed"}
_MOST_OUTPUT = 400  # lines kept of one test


def read(events: _Events, *, cut: bool) -> Reading | None:
    for fits, reader in _READERS:
        if any(fits(event) for event in events[:400]):
            noted = reader(events)
            if cut:
                noted.cut("its last line is broken off")
            return noted.reading() if noted.kind == "test" else noted.reading(None)
    return None


def _go(events: _Events) -> Tally:
    noted = Tally("go")
    output: dict[str, list[str]] = {}
    begun: dict[str, str] = {}
    broken: set[str] = set()  # packages of which a test failed
    for event in events:
        package, test, action = text_of(event.get("Package")), text_of(event.get("Test")), event.get("Action")
        name = identity.plain(package, test) if test else package or text_of(event.get("ImportPath"))
        if action in {"output", "build-output"}:
            kept = output.setdefault(name, [])
            if len(kept) < _MOST_OUTPUT:
                kept.append(text_of(event.get("Output")))
        elif action == "run":
            begun[name] = package
        elif action in _GO and test:
            begun.pop(name, None)
            bad = action == "fail"
            broken |= {package} if bad else set()
            text = "".join(output.pop(name, []))
            noted.test(name, _GO[action], failure.detail(name, "", _go_text(text)) if bad else None)
        elif action in {"fail", "build-fail"} and package not in broken:
            _go_package(noted, package or name, event, output)
    for name, package in begun.items():  # it was started and never ended
        noted.test(
            name, "error", failure.detail(name, "it did not end", "".join(output.get(name) or output.get(package, [])))
        )
    _without_parents(noted)
    return noted


def _go_text(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith(("=== ", "--- ")))


def _go_package(noted: Tally, package: str, event: dict[str, Any], output: dict[str, list[str]]) -> None:
    """A package that fails though none of its tests does was not built, or broke down."""
    built = event.get("FailedBuild") or event.get("ImportPath")
    text = "".join(output.get(text_of(built), []) + output.get(package, []))
    if "[build failed]" in text or "[setup failed]" in text or built:
        noted.collected = False
        noted.kind = "build"
    if event.get("Action") == "fail" and package not in noted.tests:
        noted.test(package, "error", failure.detail(package, "", text, rule=None if noted.collected else COLLECTION))


def _without_parents(noted: Tally) -> None:
    """A test that failed only because a subtest did has nothing to say itself."""
    parents = identity.parents(name for name, outcome in noted.tests.items() if outcome == "failed")
    noted.details = [one for one in noted.details if one.test not in parents or one.line]


def _libtest(events: _Events) -> Tally:
    noted = Tally("cargo")
    for event in events:
        outcome = _LIBTEST.get(text_of(event.get("event")))
        if event.get("type") != "test" or outcome is None:
            continue
        name = text_of(event.get("name"))
        text = text_of(event.get("stdout")) or text_of(event.get("message"))
        noted.test(name, outcome, failure.detail(name, "", text) if outcome == "failed" else None)
    ended = [event for event in events if event.get("type") == "suite" and event.get("event") != "started"]
    if not ended:
        noted.cut("no suite ended")
    return noted


def _cargo(events: _Events) -> Tally:
    noted = Tally("cargo", "build")
    for event in events:
        message = event.get("message")
        if event.get("reason") == "compiler-message" and isinstance(message, dict):
            _rustc(noted, message)
    if any("clippy::" in (one.rule or "") for one in noted.details):
        noted.tool, noted.kind = "clippy", "lint"
    return noted


def _rustc(noted: Tally, message: dict[str, Any]) -> None:
    spans = [one for one in message.get("spans") or [] if isinstance(one, dict)]
    span = next((one for one in spans if one.get("is_primary")), spans[0] if spans else None)
    code = message.get("code")
    if span is None and not code:
        return  # the sums at the end
    noted.issue(
        tally.detail(
            text_of(message.get("message")),
            file=text_of(span.get("file_name")) if span else None,
            line=number_of(span.get("line_start")) if span else None,
            column=number_of(span.get("column_start")) if span else None,
            context=text_of(message.get("rendered")),
            rule=text_of(code.get("code")) if isinstance(code, dict) else None,
            grade=tally.severity(message.get("level")),
        )
    )


def _dart(events: _Events) -> Tally:
    noted, names, said, suites = Tally("dart"), {}, {}, {}  # type: ignore[var-annotated]
    done = False
    for event in events:
        kind = event.get("type")
        if kind == "suite" and isinstance(event.get("suite"), dict):
            suites[event["suite"].get("id")] = text_of(event["suite"].get("path"))
        elif kind == "testStart" and isinstance(event.get("test"), dict):
            names[event["test"].get("id")] = event["test"]
        elif kind == "error":
            said.setdefault(event.get("testID"), (text_of(event.get("error")), text_of(event.get("stackTrace"))))
        elif kind == "testDone" and not (event.get("hidden") and event.get("result") == "success"):
            _dart_test(noted, event, names.pop(event.get("testID"), {}), said, suites)
        elif kind == "done":
            done = True
    if not done:
        noted.cut("it is not told that the run ended")
    return noted


def _dart_test(
    noted: Tally,
    event: dict[str, Any],
    test: dict[str, Any],
    said: dict[Any, tuple[str, str]],
    suites: dict[Any, str],
) -> None:
    name = identity.plain(suites.get(test.get("suiteID"), ""), text_of(test.get("name")))
    result: Outcome = {"success": "passed", "failure": "failed"}.get(text_of(event.get("result")), "error")  # type: ignore[assignment]
    if event.get("skipped"):
        result = "skipped"
    problem = None
    if result in {"failed", "error"}:
        message, text = said.get(event.get("testID"), ("", ""))
        problem = failure.detail(name, message, text, line=number_of(test.get("line")))
    noted.test(name, result, problem)


def _pytest_log(events: _Events) -> Tally:
    noted = Tally("pytest")
    for event in events:
        outcome, when = text_of(event.get("outcome")), event.get("when")
        name = text_of(event.get("nodeid"))
        if event.get("$report_type") == "CollectReport" and outcome == "failed":
            noted.collected = False
            noted.test(name, "error", failure.detail(name, "", text_of(event.get("longrepr")), rule=COLLECTION))
        elif event.get("$report_type") == "TestReport" and (when == "call" or outcome != "passed"):
            result: Outcome = "error" if outcome == "failed" and when != "call" else outcome  # type: ignore[assignment]
            noted.test(
                name, result, failure.detail(name, "", str(event.get("longrepr"))) if outcome == "failed" else None
            )
    return noted


_READERS: tuple[tuple[Callable[[dict[str, Any]], bool], Callable[[_Events], Tally]], ...] = (
    (lambda event: "Action" in event and ("Package" in event or "ImportPath" in event), _go),
    (lambda event: event.get("type") in {"suite", "test"} and "event" in event, _libtest),
    (lambda event: event.get("type") in {"testStart", "testDone", "suite", "start"} and "time" in event, _dart),
    (lambda event: "$report_type" in event, _pytest_log),
    (lambda event: event.get("reason") in {"compiler-message", "build-finished", "compiler-artifact"}, _cargo),
)
