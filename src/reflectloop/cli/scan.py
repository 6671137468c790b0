"""`scan`: the secrets in files, in a stream, or in what git takes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Literal

import click

from reflectloop.cli import render
from reflectloop.cli.render import colours, common, say
from reflectloop.engine import scan as flow

Format = Literal["text", "json", "sarif"]
_LINES = 8  # of those that hold the same value, as many are named


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, allow_dash=True), metavar="[PATH…|-]")
@click.option("--range", "asked", metavar="A..B", help="Look at what the commits of a range add and say.")
@click.option("--staged", is_flag=True, help="Look at the lines the next commit adds; for a pre-commit hook.")
@click.option("--format", "form", type=click.Choice(["text", "json", "sarif"]), default="text", help="How to answer.")
@click.option("--jsonl", is_flag=True, help="Answer JSON lines with 'id' and 'text' from standard input, one each.")
@click.option("--write-baseline", "write", is_flag=True, help="Write what is found to the baseline: it is let stand.")
@common
def scan(
    paths: tuple[Path, ...],
    asked: str | None,
    staged: bool,
    form: Format,
    jsonl: bool,
    write: bool,
    project_dir: Path,
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> None:
    """Look for secrets in PATHs (default: the project), in a stream, or in commits. Exits 1 when there are any.

    \b
    Example: reflectloop scan --staged
    """
    if (bool(paths) + bool(asked) + staged + jsonl) > 1:
        raise click.UsageError("PATH, --range, --staged and --jsonl do not go together")
    here = flow.ground(project_dir, with_baseline=not write)
    if jsonl:
        render.answer_lines(lambda question, _: flow.answer(here.detector, question))
        return
    report = _report(here, paths, asked, staged=staged)
    if write:
        _write(here, report, as_json=as_json)
        sys.exit(1 if report.unread else 0)
    _tell(report, "json" if as_json else form)
    sys.exit(0 if report.clean else 1)


def _report(here: flow.ScanSettings, paths: tuple[Path, ...], asked: str | None, *, staged: bool) -> flow.ScanReport:
    if staged:
        return flow.staged(here.detector, here.root)
    if asked:
        return flow.between(here.detector, here.root, asked)
    if paths == (Path("-"),):
        return flow.stream(here.detector, sys.stdin.buffer, "(standard input)")
    return flow.tree(here, paths or (here.root,))


def _write(here: flow.ScanSettings, report: flow.ScanReport, *, as_json: bool) -> None:
    count = flow.write_baseline(here.baseline, report)
    setting = f'[secrets] baseline = "{here.baseline.name}" in reflectloop.toml'
    if as_json:
        unread = [one._asdict() for one in report.unread]
        render.answer("scan", {"baseline": str(here.baseline), "entries": count, "unread": unread}, next_step=setting)
    else:
        _say(report._replace(findings=[]))
        say(f"{here.baseline}: {count} finding(s) let stand, by {setting}")


def _tell(report: flow.ScanReport, form: Format) -> None:
    if form == "sarif":
        render.tell_program(json.dumps(flow.sarif(report), indent=2))
    elif form == "json":
        data = {
            "clean": report.clean,
            "findings": [one._asdict() for one in report.findings],
            "unread": [one._asdict() for one in report.unread],
        }
        render.answer("scan", data)
    else:
        _say(report)


def _say(report: flow.ScanReport) -> None:
    paint = colours()
    for one in report.findings:
        where = f"{one.commit[:12]} {one.path}" if one.commit else one.path
        grade = paint("red" if one.grade == "certain" else "yellow", one.grade)
        say(f"{where}:{one.line}: {grade} {one.rule} (fingerprint {one.fingerprint}){_further(one.also)}")
    for unread in report.unread:
        say(f"{unread.path}: {paint('red', 'not read')}: {unread.reason}")
    if not report.clean:
        say("next: take each secret out and change it; or a baseline: reflectloop scan --write-baseline", err=True)


def _further(lines: tuple[int, ...]) -> str:
    """Return the words for the other lines that hold the same value."""
    if not lines:
        return ""
    more = f" and {len(lines) - _LINES} more" if len(lines) > _LINES else ""
    return f", also on line {', '.join(map(str, lines[:_LINES]))}{more}"
