"""Warnings before a step and what became of them: which lessons speak of it, precision and recall."""

from __future__ import annotations

import pytest

from reflectloop.diagnosis import diagnosis
from reflectloop.diagnosis.diagnosis import FailedCommand
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.folders import Folders
from reflectloop.engine.learning import warnings as kept
from reflectloop.reflection.warnings import (
    StepToWarn,
    WarningLesson,
    WarningOutcome,
    WarningStats,
    afterflect,
    preflect,
)
from support import Repo

MODULE = WarningLesson("problem", "yaml module missing in import", "install pyyaml first", ("yaml", "import"), "")
MIGRATION = WarningLesson("antipattern", "database migration without backup", "take a backup", ("migration",), "42")
STYLE = WarningLesson("preference", "yaml import order", "", ("yaml", "import"))
STEP = StepToWarn("P-1", "Import the YAML settings", ("python3 import_settings.py",), ("config/settings.yaml",))


def failed(text: str) -> FailureRecord:
    return diagnosis.bare(text, FailedCommand("STEP_FAILED"))


def test_only_lessons_that_speak_of_a_step_warn_of_it_each_with_a_way_out() -> None:
    (warning,) = preflect(STEP, [MODULE, MIGRATION, STYLE])
    assert warning.lesson == MODULE.title
    assert warning.mitigation == "install pyyaml first"
    assert warning.check
    assert preflect(StepToWarn("P-2", "Write the changelog"), [MODULE, MIGRATION]) == ()


def test_a_failure_of_the_steps_own_past_warns_before_all_others() -> None:
    warnings = preflect(STEP._replace(signatures=("42",)), [MODULE, MIGRATION])
    assert [one.lesson for one in warnings] == [MIGRATION.title, MODULE.title]
    many = [MODULE._replace(title=f"yaml import trouble {number}") for number in range(9)]
    assert len(preflect(STEP, many)) == 5


def test_names_are_compared_by_their_words() -> None:
    lesson = WarningLesson("problem", "loadUsers times out", keywords=("load_users",))
    assert preflect(StepToWarn("a", commands=("python3 load_users.py",)), [lesson])


def test_a_warning_was_right_where_the_step_failed_of_it() -> None:
    warnings = preflect(STEP._replace(signatures=("42",)), [MODULE, MIGRATION])
    thought = afterflect(warnings, failed("import failed: no module named yaml"))
    assert [one.lesson for one in thought.right] == [MODULE.title]
    assert (thought.precision, thought.recall) == (0.5, 1.0)
    other = afterflect(warnings, failed("disk full"))
    assert (other.right, other.missed, other.recall) == ((), True, 0.0)


def test_a_success_makes_warnings_wrong_unless_they_were_heeded() -> None:
    warnings = preflect(STEP, [MODULE])
    assert afterflect(warnings, None).precision == 0.0
    heeded = afterflect(warnings, None, heeded=[MODULE.title])
    assert heeded == WarningOutcome((), (), missed=False)
    assert (heeded.precision, heeded.recall) == (None, None)


def test_precision_and_recall_are_kept_and_a_torn_line_counts_for_nothing(repo: Repo) -> None:
    folders = Folders(repo.path)
    assert kept.tally(folders) == WarningStats()
    warnings = preflect(STEP, [MODULE])
    counted = WarningStats()
    for failure in (failed("no module yaml in import"), None, failed("disk full")):
        thought = afterflect(warnings, failure)
        kept.keep(folders, "RLOP-20260101-aaaaaa", "P-1", thought)
        counted = counted.with_(thought)
    with (folders.own / "foresight.jsonl").open("a") as file:
        file.write('{"right": ["x"')
    assert kept.tally(folders) == counted == WarningStats(right=1, wrong=2, foreseen=1, missed=1)
    assert counted.precision == pytest.approx(1 / 3)
    assert counted.recall == 0.5
