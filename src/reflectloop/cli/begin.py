"""`init`, `doctor`, `config`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from reflectloop.cli import render
from reflectloop.cli.render import colours, common, say
from reflectloop.flow import begin


@click.command()
@common
def init(project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Write reflectloop.toml and a first plan; what is there already stays as it is.

    \b
    Example: reflectloop init && reflectloop run
    """
    made = begin.init(project_dir)
    if as_json:
        render.answer("init", made._asdict(), next_step="reflectloop run")
        return
    for name in made.written:
        say(f"wrote {name}")
    for name in made.kept:
        say(f"kept  {name}")
    say("next: edit .reflectloop/plan.yaml, then reflectloop run")


@click.command()
@common
def doctor(project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Say what this machine has, what it lacks and how to get it.

    \b
    Example: reflectloop doctor --json
    """
    found = begin.doctor(project_dir)
    if as_json:
        data = {
            "sound": found.sound,
            "isolation": found.level,
            "findings": [one._asdict() for one in found.findings],
        }
        render.answer("doctor", data)
    else:
        paint = colours()
        marks = {"ok": paint("green", "✓"), "weak": paint("yellow", "!"), "missing": paint("red", "✗")}
        for one in found.findings:
            say(f"{marks[one.state]} {one.name:15} {one.detail}")
            if one.state != "ok" and one.remedy:
                say(f"  {'':15} → {one.remedy}")
        say(f"isolation reached: {found.level}")
    sys.exit(0 if found.sound else 1)


@click.command()
@common
def config(project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Show the settings in force, and whether each comes from reflectloop.toml.

    \b
    Example: reflectloop config
    """
    found = begin.settings(project_dir)
    if as_json:
        render.answer("config", found)
        return
    for one in found:
        say(f"{one['name']:28} {json.dumps(one['value'], ensure_ascii=False):20} {one['origin']}")
