"""Dart's test runner: read and protected, but not run by us."""

from __future__ import annotations

from typing import Any

from reflectloop.verification.tools.record import EventFormat, Files, Output, Tool


def _read_events(events: list[dict[str, Any]]) -> Any:  # noqa: ANN401
    from reflectloop.verification.tools.records.dart import report  # noqa: PLC0415 - loaded when a log is read

    return report.read_events(events)


TOOLS = (
    Tool(
        name="dart",
        kind="test",
        output=Output(
            kinds=(("test", "dart"),),
            events=(
                EventFormat(
                    lambda event: event.get("type") in {"testStart", "testDone", "suite", "start"} and "time" in event,
                    _read_events,
                ),
            ),
            clean=r"No issues found!?",
        ),
        files=Files(lint="analysis_options.yaml", tests="*_test.dart", dependencies="pubspec.lock"),
    ),
)
