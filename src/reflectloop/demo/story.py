"""Plays the main story on a sample project in a folder of its own, and checks every outcome it claims."""

from __future__ import annotations

import secrets as randomness
import sys
from pathlib import Path
from typing import NamedTuple

from reflectloop.commands import apply_run
from reflectloop.demo import learning
from reflectloop.demo.project import Say, check_tests, check_untouched, lay_out, opened
from reflectloop.engine.pipeline import run
from reflectloop.engine.run.request import RunOutcome, RunRequest
from reflectloop.errors import Internal

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
    """Raises Internal when anything came out otherwise than told."""
    with opened() as stage:
        project = lay_out(stage / "pager")
        # Made up here and now, so that no secret-looking text stands in the program.
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
            outcome = _perform(scene, project, stage)
            _tell(outcome, scene, say)
            check_untouched(project)
            if scene.expected == "SECRET_LEAK":
                _check_stopped(scene, project, stage, say)
        _check_nowhere(secret, stage)
        say("scene", "The patch is applied")
        apply_run.apply(project, None, commit=False, branch=None, message=None, agree=lambda _: True)
        say("do", "reflectloop apply")
        check_tests(project)
        say("moral", "the project's own tests now pass in your tree")
        learning.play(project, stage, say)


def _perform(scene: DemoStep, project: Path, stage: Path) -> RunOutcome:
    plan = stage / "plan.yaml"
    command = '"' + scene.command.replace("\\", "\\\\").replace('"', '\\"') + '"'
    plan.write_text(_PLAN.format(title=scene.title, command=command, python=sys.executable))
    return run(RunRequest(project, plan, sandbox_root=stage / "sandbox"))


def _tell(outcome: RunOutcome, scene: DemoStep, say: Say) -> None:
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
    held = _perform(scene._replace(title="Anything else", command="true"), project, stage)
    if held.error is None or held.error.code != "LATCHED":
        raise Internal("demo: the project was to be latched after a leak")
    say("do", "reflectloop run   # anything else")
    say("answer", f"LATCHED, exit {held.error.exit_code}")
    apply_run.unlock(project, "the demo's key is no key")
    say("do", "reflectloop unlock --reason 'the key was revoked'")


def _check_nowhere(secret: str, stage: Path) -> None:
    for path in stage.rglob("*"):
        if path.is_file() and secret.encode() in path.read_bytes():
            raise Internal(f"demo: the secret was written to {path}")
