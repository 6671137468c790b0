"""The main demo: runs plans on a sample project in a temporary folder, and checks every result it shows."""

from __future__ import annotations

import contextlib
import json
import os
import secrets as randomness
import sys
from pathlib import Path
from typing import NamedTuple

from reflectloop.commands import apply_run
from reflectloop.demo.project import Say, check_tests, check_untouched, lay_out, opened
from reflectloop.engine.pipeline import run
from reflectloop.engine.run.request import RunOutcome, RunRequest
from reflectloop.errors import Internal
from reflectloop.lessons import lesson_scopes
from reflectloop.reflection import blocker_card

_FIX = "echo 1.0 > VERSION"
_LESSON = {"kind": "failfix", "commands": [_FIX]}


def _play_learning(project: Path, stage: Path, say: Say) -> None:
    """Show that a lesson from one failure fixes the same failure the next time."""
    say("scene", "A failure teaches")
    first = _run_plan(project, stage, "notes", "cat VERSION > NOTES", say)
    if first.error is None or first.error.code != "STEP_FAILED":
        raise Internal("demo: a step without its file did not fail")
    say("answer", f"{first.error.code}, exit {first.error.exit_code}")
    scopes = lesson_scopes.open_scopes(project, "project")
    lesson_scopes.add_lesson(scopes, blocker_card.lesson_of(scopes.folders, first.folder.run_id, dict(_LESSON)))
    say("do", f"reflectloop lessons add --kind failfix --run latest --command '{_FIX}'")
    say("moral", "no lesson covered this failure; now one does")
    say("scene", "The second time the stored fix is used")
    second = _run_plan(project, stage, "release", "cat VERSION > RELEASE", say)
    _check_fixed(second)
    say("answer", "OK, exit 0")
    say("moral", "another plan had the same failure, and no person was needed; the fix's changes are in the patch")


def _run_plan(project: Path, stage: Path, name: str, command: str, say: Say) -> RunOutcome:
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


def _check_fixed(outcome: RunOutcome) -> None:
    if outcome.error:
        raise Internal(f"demo: a known failure was not fixed, and ended in {outcome.error.code}")
    if [fix.outcome for fix in outcome.steps[0].fixes] != ["worked"]:
        raise Internal("demo: the stored fix was not tried, or did not work")
    if {change.path for change in outcome.touched} != {"RELEASE", "VERSION"}:
        raise Internal("demo: the patch does not contain the changes of the step and its fix")


_PLAN = """\
plan:
  title: {title}
  track: fix
  may_change: [pager.py]
  checks:
    tests: {{run: ["{python}", -m, unittest, -q], kind: test}}
  steps:
    - id: red
      title: The bug can be seen
      commands: ["true"]
      verify: [{{check: tests, expect: fail}}]
    - id: fix
      title: {title}
      commands:
        - {command}
      verify: [tests]
      depends_on: [red]
"""
_WRONG = "sed -i 's|len(items) // size|len(items) // size - 1|' pager.py"
_RIGHT = "sed -i 's|len(items) // size|-(-len(items) // size)|' pager.py"
_TAMPERED = "sed -i 's|def test_the_last_page|def skip_the_last_page|' test_pager.py"


class DemoStep(NamedTuple):
    heading: str
    title: str
    command: str
    expected: str | None
    moral: str


def play(say: Say) -> None:
    """Run the demo; raise Internal if a result differs from what it shows."""
    with opened() as stage:
        project = lay_out(stage / "pager")
        # Generated, so that no secret-like text is in the source.
        secret = "sk-" + randomness.token_hex(16)
        scenes = (
            DemoStep(
                "A wrong fix is refused",
                "Count one page less",
                _WRONG,
                "VERIFICATION_FAILED",
                "the tests failed in the workspace; your files were never touched",
            ),
            DemoStep(
                "A tampered test is caught",
                "Make the tests green",
                _TAMPERED,
                "GATE_REJECTED",
                "green in the step, and judged again with the tests as they were: nothing was fixed",
            ),
            DemoStep(
                "A secret stops the run",
                "Print the settings",
                f"echo 'key = {secret[:9]}''{secret[9:]}'",
                "SECRET_LEAK",
                "the line was never written, the workspace is destroyed",
            ),
            DemoStep(
                "The right fix passes",
                "Round the number of pages up",
                _RIGHT,
                None,
                "red before, green after; a patch is ready",
            ),
        )
        for scene in scenes:
            say("scene", scene.heading)
            outcome = _run_scene(scene, project, stage)
            _show(outcome, scene, say)
            check_untouched(project)
            if scene.expected == "SECRET_LEAK":
                _check_stopped(scene, project, stage, say)
        _check_nowhere(secret, stage)
        say("scene", "The patch is applied")
        apply_run.apply(project, None, commit=False, branch=None, message=None, agree=lambda _: True)
        say("do", "reflectloop apply")
        check_tests(project)
        say("moral", "the project's own tests now pass in your tree")
        _play_learning(project, stage, say)


def _run_scene(scene: DemoStep, project: Path, stage: Path) -> RunOutcome:
    plan = stage / "plan.yaml"
    command = '"' + scene.command.replace("\\", "\\\\").replace('"', '\\"') + '"'
    plan.write_text(_PLAN.format(title=scene.title, command=command, python=sys.executable))
    return run(RunRequest(project, plan, sandbox_root=stage / "sandbox"))


def _show(outcome: RunOutcome, scene: DemoStep, say: Say) -> None:
    say("do", f"reflectloop run   # {scene.title}")
    for step in outcome.steps:
        say(
            "step" if step.success else "failed",
            f"{step.id}: {step.title}" + (f" ({step.reason})" if step.reason else ""),
        )
    code = outcome.error.code if outcome.error else None
    if code != scene.expected:
        raise Internal(f"demo: {scene.heading}: expected {scene.expected or 'OK'}, got {code or 'OK'}")
    say("answer", f"{code or 'OK'}, exit {outcome.error.exit_code if outcome.error else 0}")
    say("moral", scene.moral)


def _check_stopped(scene: DemoStep, project: Path, stage: Path, say: Say) -> None:
    latched = _run_scene(scene._replace(title="Anything else", command="true"), project, stage)
    if latched.error is None or latched.error.code != "LATCHED":
        raise Internal("demo: the project was not latched after a leak")
    say("do", "reflectloop run   # anything else")
    say("answer", f"LATCHED, exit {latched.error.exit_code}")
    apply_run.unlock(project, "the demo's key is not real")
    say("do", "reflectloop unlock --reason 'the key was revoked'")


def _check_nowhere(secret: str, stage: Path) -> None:
    for folder, _, names in os.walk(stage):  # passes over folders that are deleted in the background meanwhile
        for path in (Path(folder, name) for name in names):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file() and secret.encode() in path.read_bytes():
                    raise Internal(f"demo: the secret was written to {path}")
