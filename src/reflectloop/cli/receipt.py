"""`protected` and `receipt`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from reflectloop.cli import render
from reflectloop.cli.main import SuggestingGroup
from reflectloop.cli.render import common, say
from reflectloop.engine.gating import receipts


@click.command()
@common
def protected(project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """List the files that judge a change, and so are taken from the base, each with the reason.

    \b
    Example: reflectloop protected
    """
    found = receipts.protected_files(project_dir)
    if as_json:
        render.answer("protected", found, next_step="reflectloop verify")
        return
    for one in found:
        say(f"{one['path']}  {one['kind']}: {one['why']}")
    if not found:
        say("nothing here judges a change: no tests, no checks, no configuration of either")


@click.group(cls=SuggestingGroup)
def receipt() -> None:
    """Show what was proven, or check that nothing of it was changed since.

    \b
    Example: reflectloop receipt verify
    """


@receipt.command("show")
@click.argument("name", required=False, metavar="[RUN|FILE]")
@common
def receipt_show(name: str | None, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Show the receipt of a run or a verification: the decision, and the evidence it rests on.

    \b
    Example: reflectloop receipt show
    """
    found = receipts.checked(project_dir, name)
    if as_json:
        render.answer("receipt", found.data(), next_step=f"reflectloop receipt verify {found.path}")
        return
    told = found.verified.receipt
    say(
        f"{told['run_id']}: {told['decision']}"
        + (f" at {told['level']}" if told["level"] else "")
        + (f", track {told['track']}" if told["track"] else "")
    )
    for reason in told["reasons"]:
        say(f"  {reason}")
    for record in found.verified.records:
        say(f"  {record['id']} {record['level']} {record['claim']}")
    say(f"next: reflectloop receipt verify {found.path}")


@receipt.command("verify")
@click.argument("name", required=False, metavar="[RUN|FILE]")
@common
def receipt_verify(name: str | None, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Check a receipt offline: the chain of evidence, every file it names, and, in the repository, the trees.

    \b
    Example: reflectloop receipt verify .reflectloop/runs/RLOP-…/receipt.json
    """
    found = receipts.checked(project_dir, name)
    data: dict[str, Any] = found.data()
    found.refuse_changed()
    if as_json:
        render.answer("receipt", data, next_step="reflectloop status")
        return
    say(f"{found.path}: {len(found.verified.records)} record(s), unchanged; {found.trees}")
