"""`detect`: which checks a project has, and why we think so."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from reflectloop.cli import render
from reflectloop.cli.render import colours, common, say
from reflectloop.engine.gating.verify_command import detected
from reflectloop.verification.result import DetectedCheck

_NONE = (
    "nothing tells how this project is checked; say it in reflectloop.toml: "
    '[verify] checks = [{name = "tests", run = ["make", "test"], kind = "test"}]'
)


@click.command()
@common
def detect(project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Say which builds, linters, type checkers and tests the project has, and by what sign.

    \b
    Example: reflectloop detect
    """
    found = detected(project_dir, os.environ)
    if as_json:
        data = {"checks": [check._asdict() for check in found]}
        render.answer("detect", data, next_step=None if found else _NONE)
        return
    for check in found:
        _show(check)
    if not found:
        say(_NONE)


def _show(check: DetectedCheck) -> None:
    paint = colours()
    where = "" if check.cwd == "." else f"  (in {check.cwd})"
    say(f"{check.kind:6} {paint('bold', f'{check.name:20}')} {shlex.join(check.command)}{where}")
    say(f"{'':27} {paint('dim', check.reason)}")
