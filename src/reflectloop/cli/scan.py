"""The command `scan`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import click

from reflectloop.cli import render
from reflectloop.cli.render import Answer, Note, answers, paint
from reflectloop.commands import scan as scans
from reflectloop.terms import join_first

Format = Literal["text", "json", "sarif"]
_COLOURS = {"certain": "red", "likely": "yellow", "identifier": "dim"}
_MOST_LINES = 8  # further lines with the same value that are named


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, allow_dash=True), metavar="[PATH…|-]")
@click.option("--range", "asked", metavar="A..B", help="Search the added lines and the messages of these commits.")
@click.option("--staged", is_flag=True, help="Search the lines that the next commit adds; for a pre-commit hook.")
@click.option("--format", "form", type=click.Choice(["text", "json", "sarif"]), default="text", help="Output format.")
@click.option("--jsonl", is_flag=True, help="Answer JSON lines with 'id' and 'text' from standard input, one each.")
@click.option("--identifiers", is_flag=True, help="Also list UUIDs and public IP addresses, which are no secrets.")
@click.option("--write-baseline", "write", is_flag=True, help="Write the findings to the baseline, which accepts them.")
@answers
def scan(
    paths: tuple[Path, ...],
    asked: str | None,
    staged: bool,
    form: Format,
    jsonl: bool,
    identifiers: bool,
    write: bool,
    project_dir: Path,
) -> Answer | None:
    """Search PATHs (default: the project), a stream or commits for secrets. Exits 1 if it finds any.

    \b
    Example: reflectloop scan --staged
    """
    if (bool(paths) + bool(asked) + staged + jsonl) > 1:
        raise click.UsageError("PATH, --range, --staged and --jsonl cannot be used together.")
    settings = scans.read_settings(project_dir, with_baseline=not write, identifiers=identifiers or jsonl)
    if jsonl:
        render.answer_each_line(lambda question, _: scans.answer(settings.detector, question))
        return None
    report = _report(settings, paths, asked, staged=staged)
    if write:
        return _write_baseline(settings, report)
    exit_code = 0 if report.clean else 1
    if form == "sarif" and not render.wants_json():
        return Answer(
            lines=lambda: render.print_raw(json.dumps(scans.sarif(report), indent=2)),
            exit_code=exit_code,
        )
    if form == "json":
        render.choose_json()
    return Answer(report.as_data(), _lines(report), exit_code=exit_code)


def _report(
    settings: scans.ScanSettings, paths: tuple[Path, ...], asked: str | None, *, staged: bool
) -> scans.ScanReport:
    if staged:
        return scans.staged(settings.detector, settings.root)
    if asked:
        return scans.between(settings.detector, settings.root, asked)
    if paths == (Path("-"),):
        return scans.stream(settings.detector, sys.stdin.buffer, "(standard input)")
    return scans.tree(settings, paths or (settings.root,))


def _write_baseline(settings: scans.ScanSettings, report: scans.ScanReport) -> Answer:
    count = scans.write_baseline(settings.baseline, report)
    setting = f'[secrets] baseline = "{settings.baseline.name}" in reflectloop.toml'
    unread = [file._asdict() for file in report.unread]
    data = {"baseline": str(settings.baseline), "entries": count, "unread": unread}
    lines = [
        *_lines(report._replace(findings=[])),
        f"{settings.baseline}: {count} finding(s) accepted, by {setting}",
    ]
    return Answer(data, lines, next_step=setting, exit_code=1 if report.unread else 0)


def _lines(report: scans.ScanReport) -> Iterator[str]:
    for finding in report.findings:
        place = f"{finding.commit[:12]} {finding.path}" if finding.commit else finding.path
        grade = paint(_COLOURS[finding.grade], finding.grade)
        further = _further(finding.also)
        yield f"{place}:{finding.line}: {grade} {finding.rule} (fingerprint {finding.fingerprint}){further}"
    for file in report.unread:
        yield f"{file.path}: {paint('red', 'not read')}: {file.reason}"
    for path, target in report.links:
        yield Note(
            f"{path} is a link, and only its text was scanned; to scan what it leads to: reflectloop scan {target}"
        )
    if report.clean:
        yield Note("no secrets were found")
    else:
        yield Note("next: remove and change each secret; or accept them: reflectloop scan --write-baseline")


def _further(lines: tuple[int, ...]) -> str:
    """Return the text that names the other lines with the same value."""
    return f", also on line {join_first([str(line) for line in lines], _MOST_LINES)}" if lines else ""
