"""The commands `detect`, `protected` and `receipt`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from reflectloop.cli.main import SuggestingGroup
from reflectloop.cli.render import Answer, answers, paint
from reflectloop.engine.gating import receipts
from reflectloop.engine.gating.verify_command import detected
from reflectloop.terms import describe_level, explain_levels
from reflectloop.verification.result import DetectedCheck

_NO_CHECKS = (
    "no check was detected in this project; name one in reflectloop.toml: "
    '[verify] checks = [{name = "tests", run = ["make", "test"], kind = "test"}]'
)


@click.command()
@answers
def detect(project_dir: Path) -> Answer:
    """List the project's builds, linters, type checkers and tests, and the file that each was detected by.

    \b
    Example: reflectloop detect
    """
    checks = detected(project_dir, os.environ)
    lines = [line for check in checks for line in _check_lines(check)]
    data = {"checks": [check._asdict() for check in checks]}
    return Answer(data, lines or [_NO_CHECKS], next_step=None if checks else _NO_CHECKS)


def _check_lines(check: DetectedCheck) -> Iterator[str]:
    folder = "" if check.cwd == "." else f"  (in {check.cwd})"
    yield f"{check.kind:6} {paint('bold', f'{check.name:20}')} {shlex.join(check.command)}{folder}"
    yield f"{'':27} {paint('dim', check.reason)}"


@click.command()
@answers
def protected(project_dir: Path) -> Answer:
    """List the files that judge a change and are therefore taken from the base, each with the reason.

    \b
    Example: reflectloop protected
    """
    files = receipts.protected_files(project_dir)
    lines = [f"{file['path']}  {file['kind']}: {file['why']}" for file in files]
    nothing = "nothing here judges a change: no tests, no checks, and no configuration of either"
    return Answer(files, lines or [nothing], next_step="reflectloop verify")


@click.group(cls=SuggestingGroup)
def receipt() -> None:
    """Show what was proven, or check that the evidence was not changed since.

    \b
    Example: reflectloop receipt verify
    """


@receipt.command("show")
@click.argument("name", required=False, metavar="[RUN|FILE]")
@answers
def receipt_show(name: str | None, project_dir: Path) -> Answer:
    """Show the receipt of a run or a verification: the decision and its evidence.

    \b
    Example: reflectloop receipt show
    """
    checked = receipts.checked(project_dir, name)
    content = checked.verified.receipt
    next_step = f"reflectloop receipt verify {checked.path}"
    lines = [
        f"{content['run_id']}: {content.get('outcome', content['decision'])}"
        + (f", evidence {describe_level(content['level'])}" if content["level"] else "")
        + (f", track {content['track']}" if content["track"] else ""),
        *(f"  {reason}" for reason in content["reasons"]),
        *(f"  approved {item['text']}; {item['approval']}" for item in content.get("approvals", ())),
        *(f"  {record['id']} {record['level']} {record['claim']}" for record in checked.verified.records),
        f"  {explain_levels(record['level'] for record in checked.verified.records)}",
        *([f"  logs: {logs}"] if (logs := checked.path.parent / "logs").is_dir() else []),
        *(f"  {text}" for text in (*checked.verified.faults, *checked.unsigned)),
        f"next: {next_step}",
    ]
    return Answer(checked.data(), lines, next_step=next_step)


@receipt.command("verify")
@click.argument("name", required=False, metavar="[RUN|FILE]")
@answers
def receipt_verify(name: str | None, project_dir: Path) -> Answer:
    """Check a receipt offline: its signature, the chain of evidence, every file and log that it names.

    In the repository also the trees, their objects, and the journal of the run.

    \b
    Example: reflectloop receipt verify .reflectloop/runs/RLOP-…/receipt.json
    """
    checked = receipts.checked(project_dir, name)
    checked.refuse_changed()
    checked.refuse_unsigned()
    count = len(checked.verified.records)
    line = f"{checked.path}: {count} record(s), unchanged, {checked.verified.signed}; {checked.trees}"
    return Answer(checked.data(), [line], next_step="reflectloop status")
