"""`init`, `doctor`, `config`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from reflectloop.cli import render
from reflectloop.cli.render import colours, common, say
from reflectloop.engine import doctor as diagnosis
from reflectloop.engine import init_project
from reflectloop.sandbox.escape_tests import ATTEMPTS, EscapeResults, EscapeTest


@click.command()
@click.option("--triflow", is_flag=True, help="Also keep TriFlow's state.json, todo.md and plan_log.md at the top.")
@common
def init(triflow: bool, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Write reflectloop.toml and a first plan; what is there already stays as it is.

    \b
    Example: reflectloop init && reflectloop run
    """
    made = init_project.init(project_dir, triflow=triflow)
    if as_json:
        render.answer("init", made._asdict(), next_step="reflectloop run")
        return
    for name in made.written:
        say(f"wrote {name}")
    for name in made.kept:
        say(f"kept  {name}")
    for words in made.left:
        say(f"! {words}")
    say("next: edit .reflectloop/plan.yaml, then reflectloop run")


@click.command()
@common
def doctor(project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Say what this machine has, and prove its isolation by trying to get out.

    Exits 0 when the configured floor ([box] isolation) is met, else 1.

    \b
    Example: reflectloop doctor --json
    """
    found = diagnosis.doctor(project_dir)
    if as_json:
        render.answer("doctor", _as_data(found))
    else:
        _show(found)
    sys.exit(0 if found.sound else 1)


def _as_data(found: diagnosis.DoctorReport) -> dict[str, Any]:
    return {
        "sound": found.sound,
        "isolation": found.level,
        "floor": found.floor,
        "findings": [one._asdict() for one in found.findings],
        "levels": [
            {
                "level": one.wall.level,
                "by": one.wall.by,
                "limits_by": one.limits_by,
                "proven": one.proven,
                "held": one.prevented,
                "untried": one.untried,
            }
            for one in found.tried
        ],
        "attempts": [{"name": one.name, "promised_from": one.since} for one in ATTEMPTS],
    }


def _show(found: diagnosis.DoctorReport) -> None:
    paint = colours()
    marks = {"ok": paint("green", "✓"), "weak": paint("yellow", "!"), "missing": paint("red", "✗")}
    for one in found.findings:
        say(f"{marks[one.state]} {one.name:15} {one.detail}")
        if one.state != "ok" and one.remedy:
            say(f"  {'':15} → {one.remedy}")
    if found.tried:
        say("")
        say("attempts to get out".ljust(31) + "".join(f"{one.wall.level:<12}" for one in found.tried))
        say(" " * 31 + "".join(f"{one.wall.by:<12}" for one in found.tried))
        for row in ATTEMPTS:
            say(f"  {row.name:29}" + "".join(_cell(paint, row, level) for level in found.tried))
        say("")
        for level in found.tried:
            for name, reason in level.untried.items():
                say(f"! {level.wall.level} by {level.wall.by}: could not try to {name}: {reason}")
    bound = next((one.limits_by for one in found.tried if one.limits_by), None)
    say(f"isolation reached: {found.level}" + (f", limits by {bound}" if bound else "") + f"; floor: {found.floor}")


def _cell(paint: Callable[[str, str], str], attempt: EscapeTest, level: EscapeResults) -> str:
    """Red is for what was promised and did not hold; a dash is for what this level never promised."""
    if attempt.name in level.untried:
        word, colour = "not tried", "yellow"
    elif level.prevented[attempt.name]:
        word, colour = "held", "green"
    else:
        word, colour = ("GOT OUT", "red") if attempt.since.rank <= level.wall.level.rank else ("–", "dim")
    return paint(colour, word) + " " * (12 - len(word))


@click.command()
@common
def config(project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Show the settings in force, and whether each comes from your own config.toml or the project's reflectloop.toml.

    \b
    Example: reflectloop config
    """
    found = init_project.settings(project_dir)
    if as_json:
        render.answer("config", found)
        return
    for one in found:
        say(f"{one['name']:28} {json.dumps(one['value'], ensure_ascii=False):20} {one['origin']}")
