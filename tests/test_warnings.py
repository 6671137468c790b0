"""Warnings before a step: which lessons match it, and how the warnings are scored afterwards."""

from __future__ import annotations

from reflectloop.diagnosis import diagnosis
from reflectloop.diagnosis.diagnosis import FailedCommand
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.reflection.warnings import (
    StepToWarn,
    WarningLesson,
    WarningOutcome,
    match_warnings,
    score_outcome,
)

MODULE = WarningLesson("problem", "yaml module missing in import", "install pyyaml first", ("yaml", "import"), "")
MIGRATION = WarningLesson("antipattern", "database migration without backup", "take a backup", ("migration",), "42")
STYLE = WarningLesson("preference", "yaml import order", "", ("yaml", "import"))
STEP = StepToWarn("P-1", "Import the YAML settings", ("python3 import_settings.py",), ("config/settings.yaml",))


def failed(text: str) -> FailureRecord:
    return diagnosis.bare(text, FailedCommand("STEP_FAILED"))


def test_only_matching_lessons_warn_each_with_a_mitigation() -> None:
    (warning,) = match_warnings(STEP, [MODULE, MIGRATION, STYLE])
    assert warning.lesson == MODULE.title
    assert warning.mitigation == "install pyyaml first"
    assert warning.check
    assert match_warnings(StepToWarn("P-2", "Write the changelog"), [MODULE, MIGRATION]) == ()


def test_a_lesson_about_an_earlier_failure_of_the_step_comes_first() -> None:
    warnings = match_warnings(STEP._replace(signatures=("42",)), [MODULE, MIGRATION])
    assert [warning.lesson for warning in warnings] == [MIGRATION.title, MODULE.title]
    many = [MODULE._replace(title=f"yaml import trouble {number}") for number in range(9)]
    assert len(match_warnings(STEP, many)) == 5


def test_names_are_compared_by_their_words() -> None:
    lesson = WarningLesson("problem", "loadUsers times out", keywords=("load_users",))
    assert match_warnings(StepToWarn("a", commands=("python3 load_users.py",)), [lesson])


def test_a_warning_is_right_if_the_step_fails_as_warned() -> None:
    warnings = match_warnings(STEP._replace(signatures=("42",)), [MODULE, MIGRATION])
    scored = score_outcome(warnings, failed("import failed: no module named yaml"))
    assert [warning.lesson for warning in scored.right] == [MODULE.title]
    assert (scored.precision, scored.recall) == (0.5, 1.0)
    other = score_outcome(warnings, failed("disk full"))
    assert (other.right, other.missed, other.recall) == ((), True, 0.0)


def test_a_success_makes_warnings_wrong_unless_they_were_heeded() -> None:
    warnings = match_warnings(STEP, [MODULE])
    assert score_outcome(warnings, None).precision == 0.0
    heeded = score_outcome(warnings, None, heeded=[MODULE.title])
    assert heeded == WarningOutcome((), (), missed=False)
    assert (heeded.precision, heeded.recall) == (None, None)
