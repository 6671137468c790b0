"""`demo`."""

from __future__ import annotations

from pathlib import Path

import click

from reflectloop.cli import render
from reflectloop.cli.render import colours, common, say


@click.command()
@click.option("--agent", is_flag=True, help="The story with agents, whose parts are played by a script.")
@common
def demo(agent: bool, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Play the main story on a bundled sample project: no model, no network, nothing of yours touched.

    \b
    Example: reflectloop demo
    """
    if agent:
        from reflectloop.demo.unattended import play
    else:
        from reflectloop.demo.story import play

    paint = colours()
    shapes = {
        "scene": lambda text: "\n" + paint("bold", text),
        "do": lambda text: paint("dim", f"  $ {text}"),
        "step": lambda text: f"  {paint('green', '✓')} {text}",
        "failed": lambda text: f"  {paint('red', '✗')} {text}",
        "answer": lambda text: f"  → {text}",
        "moral": lambda text: f"  {text}",
    }
    told: list[dict[str, str]] = []

    def tell(kind: str, text: str) -> None:
        told.append({"kind": kind, "text": text})
        if not as_json:
            say(shapes[kind](text))

    play(tell)
    if as_json:
        render.answer("demo", told)
    else:
        yours = "reflectloop agents, then tp and tr --all" if agent else "reflectloop init && reflectloop run"
        say(f"\n{paint('green', 'OK')}: every outcome above was checked. Yours: {yours}")
        if not agent:
            say("With agents: reflectloop demo --agent")
