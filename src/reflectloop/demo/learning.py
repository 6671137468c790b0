"""The story's second part: what a person says of one failure helps the next time it happens, and no one is asked."""

from __future__ import annotations

import json
from pathlib import Path

from reflectloop.demo.project import Say
from reflectloop.engine.pipeline import run
from reflectloop.engine.run.request import RunOutcome, RunRequest
from reflectloop.errors import Internal
from reflectloop.lessons import lesson_scopes
from reflectloop.reflection import blocker_card

_FIX = "echo 1.0 > VERSION"
_TAUGHT = {"kind": "failfix", "commands": [_FIX]}


def play(project: Path, stage: Path, say: Say) -> None:
    """Raises Internal when anything came out otherwise than told."""
    say("scene", "A failure teaches")
    first = _run(project, stage, "notes", "cat VERSION > NOTES", say)
    if first.error is None or first.error.code != "STEP_FAILED":
        raise Internal("demo: a step without its file was to fail")
    say("answer", f"{first.error.code}, exit {first.error.exit_code}")
    room = lesson_scopes.room_at(project, "project")
    lesson_scopes.added(room, blocker_card.lesson_of(room.folders, first.folder.run_id, dict(_TAUGHT)))
    say("do", f"reflectloop lessons add --kind failfix --run latest --command '{_FIX}'")
    say("moral", "nothing knew of this failure; now something does")
    say("scene", "The second time it is met with the stored fix")
    second = _run(project, stage, "release", "cat VERSION > RELEASE", say)
    _check_mended(second)
    say("answer", "OK, exit 0")
    say("moral", "another plan failed of the same, and nobody was asked; what the fix did is in the patch")


def _run(project: Path, stage: Path, name: str, command: str, say: Say) -> RunOutcome:
    plan = stage / f"{name}.yaml"
    steps = [{"id": name, "title": f"Write the {name}", "commands": [command]}]
    plan.write_text(json.dumps({"plan": {"title": name, "track": "direct", "steps": steps}}))
    outcome = run(RunRequest(project, plan, sandbox_root=stage / "sandbox"))
    say("do", f"reflectloop run   # Write the {name}")
    (step,) = outcome.steps
    for fix in step.fixes:
        say("step", str(fix))
    say("step" if step.success else "failed", f"{step.id}: {step.title}" + (f" ({step.reason})" if step.reason else ""))
    return outcome


def _check_mended(outcome: RunOutcome) -> None:
    if outcome.error:
        raise Internal(f"demo: a known failure was to be mended, and ended in {outcome.error.code}")
    if [fix.outcome for fix in outcome.steps[0].fixes] != ["worked"]:
        raise Internal("demo: the stored fix was to be tried, and to work")
    if {change.path for change in outcome.touched} != {"RELEASE", "VERSION"}:
        raise Internal("demo: the patch was to hold what the step and its fix did")
