"""`verify`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from reflectloop.cli import render
from reflectloop.cli.interrupts import as_interrupts
from reflectloop.cli.render import colours, common, say
from reflectloop.engine.gating import verdict_export
from reflectloop.engine.gating import verify_command as verifying
from reflectloop.engine.gating.verify_command import VerifyOutcome, VerifyRequest
from reflectloop.errors import InvalidInput
from reflectloop.system import files
from reflectloop.terms import Decision, Isolation, Track
from reflectloop.verification.verdict import CheckComparison

_MARKS = {"weakening": "red", "suspect": "yellow", "note": "dim"}
_SHOWN = 20


@click.command()
@click.option("--base", metavar="REV", help="Judge against this revision (default: HEAD).")
@click.option("--patch", type=click.Path(path_type=Path), metavar="FILE", help="Judge this patch on top of the base.")
@click.option("--worktree", is_flag=True, help="Judge the working tree as it stands (the default).")
@click.option("--branch", metavar="BRANCH", help="Judge what a branch changes.")
@click.option(
    "--track", type=click.Choice([track.value for track in Track]), help="What kind of change it claims to be."
)
@click.option("--check", "checks", multiple=True, metavar="NAME", help="Only this check; may be given again.")
@click.option("--isolation", type=click.Choice([level.value for level in Isolation]), help="Refuse to run below this.")
@click.option("--sandbox-root", type=click.Path(path_type=Path), help="Make workspaces under this folder.")
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE", help="Also write the verdict as JUnit XML.")
@click.option("--sarif", type=click.Path(path_type=Path), metavar="FILE", help="Also write the findings as SARIF.")
@click.option("--wait", is_flag=True, help="Wait while another engine works here.")
@common
def verify(
    base: str | None,
    patch: Path | None,
    worktree: bool,
    branch: str | None,
    track: str | None,
    checks: tuple[str, ...],
    isolation: str | None,
    sandbox_root: Path | None,
    junit: Path | None,
    sarif: Path | None,
    wait: bool,
    project_dir: Path,
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> None:
    """Judge a change by sealed runs: the engine's own, with tests and configuration as they are in the base.

    Exit 0 only when it is proven: not worse than base and nothing weakened; with --track also what that track asks.

    \b
    Example: reflectloop verify --base main --track fix
    """
    if sum((patch is not None, worktree, branch is not None)) > 1:
        raise click.UsageError("Name one of --patch, --worktree and --branch.")
    as_interrupts()
    request = VerifyRequest(
        project_dir,
        base,
        patch,
        branch,
        Track(track) if track else None,
        checks,
        Isolation(isolation) if isolation else None,
        sandbox_root,
        wait,
    )
    outcome = verifying.verify(request, QuietProgress() if as_json else VerifyProgress())
    if outcome.verdict:
        _export(junit, verdict_export.junit(outcome.verdict))
        _export(sarif, verdict_export.sarif(outcome.verdict))
    if as_json:
        render.as_json(outcome.envelope, verifying.as_data(outcome.verdict) if outcome.verdict else None)
    else:
        _tell(outcome)
    sys.exit(outcome.error.exit_code if outcome.error else 0)


def _export(path: Path | None, text: str) -> None:
    if path is None:
        return
    try:
        files.write_atomic(path, text)
    except OSError as fault:
        raise InvalidInput(f"cannot write {path}: {fault.strerror}", next_step="name another file") from fault


class QuietProgress:
    def waits(self, why: str) -> None:
        pass

    def check(self, name: str, words: str) -> None:
        pass

    def output(self, name: str, data: bytes) -> None:
        pass


class VerifyProgress(QuietProgress):
    def waits(self, why: str) -> None:
        say(why, err=True)

    def check(self, name: str, words: str) -> None:
        say(f"{colours()('dim', '·')} {name} {words}", err=True)


def _tell(outcome: VerifyOutcome) -> None:
    paint, found = colours(), outcome.verdict
    assert found  # noqa: S101
    for one in found.checks:
        say(_line(one), err=True)
    for own in found.own:
        say(f"  {own.check}, tests of the patch: {own.on_patch.summary}; on base: {own.on_base.summary}", err=True)
    said = " ".join(reason.text for reason in found.reasons)
    for finding in [one for one in found.findings if f"{one.what} ({one.rule})" not in said][:_SHOWN]:
        place = f"{finding.path}:{finding.line}" if finding.line else finding.path
        say(f"  {paint(_MARKS[finding.grade], finding.grade)} {place}: {finding.what} ({finding.rule})", err=True)
    for warning in (one for one in outcome.envelope.warnings if one not in found.notes):
        say(f"{paint('yellow', 'warning:')} {warning}", err=True)
    for reason in found.reasons[:_SHOWN]:
        say(f"  {paint('bold', str(reason.decision))} {reason.text}", err=True)
    colour = "green" if found.decision is Decision.PASS else "red"
    proven = f" (track {found.track})" if found.track else ""
    say(
        f"{paint(colour, str(found.decision))} at {found.level}{proven}, isolation {outcome.envelope.isolation}",
        err=True,
    )
    say(f"{paint('dim', 'next:')} {outcome.envelope.next}", err=True)


def _line(one: CheckComparison) -> str:
    change = one.comparison
    said = one.left_out or f"{one.sealed.summary}; on base: {one.base.summary if one.base else 'not run'}"
    told = [
        f"{len(names)} {words}"
        for names, words in (
            (change.fixed, "fixed"),
            (change.newly_failing, "newly failing"),
            (change.vanished, "gone"),
            (change.now_skipped, "skipped now"),
            (change.pre_existing, "failing before and now"),
            (change.flaky, "flaky"),
        )
        if names
    ]
    return f"  {one.check.name}: {said}" + (f" ({', '.join(told)})" if told else "")
