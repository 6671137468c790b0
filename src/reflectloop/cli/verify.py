"""The commands `verify` and `gate`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from reflectloop.cli.main import showing_start
from reflectloop.cli.render import Answer, answers
from reflectloop.terms import Isolation, Track

F = TypeVar("F", bound=Callable[..., Any])
_FILE = click.Path(path_type=Path)


def _change_options(command: F) -> F:
    """Add the options that say which change is judged, and where."""
    for option in reversed(
        (
            click.option("--base", metavar="REV", help="Compare with this revision (default: HEAD)."),
            click.option("--patch", type=_FILE, metavar="FILE", help="Judge this patch on top of the base."),
            click.option("--worktree", is_flag=True, help="Judge the working tree as it is (the default)."),
            click.option("--branch", metavar="BRANCH", help="Judge what a branch changes."),
            click.option(
                "--isolation",
                type=click.Choice([level.value for level in Isolation]),
                help="Refuse to run with less isolation than this.",
            ),
            click.option("--sandbox-root", type=_FILE, help="Make workspaces under this folder."),
            click.option("--wait", is_flag=True, help="Wait while another engine works on this project."),
            click.option(
                "--approve-file",
                type=_FILE,
                metavar="FILE",
                help="Count the approvals in this file, which people filled in (reflectloop approve RUN --print).",
            ),
        )
    ):
        command = option(command)
    return command


def _check_options(patch: Path | None, branch: str | None, *, worktree: bool) -> None:
    if sum((patch is not None, worktree, branch is not None)) > 1:
        raise click.UsageError("Name one of --patch, --worktree and --branch.")


@click.command()
@_change_options
@click.option("--track", type=click.Choice([track.value for track in Track]), help="The kind of change it should be.")
@click.option("--check", "checks", multiple=True, metavar="NAME", help="Run only this check; can be repeated.")
@click.option(
    "--strength", is_flag=True, help="Try small faults in the changed Python lines: do the tests notice them?"
)
@click.option(
    "--strength-min",
    type=click.IntRange(0, 100),
    metavar="PERCENT",
    help="Refuse the change if fewer of these faults are noticed.",
)
@click.option("--session", metavar="NAME|latest", help="Compare with the start of an agent's session.")
@click.option(
    "--quick",
    is_flag=True,
    help="Run only the tests that depend on the change: provisional, and PASS only if proven before.",
)
@click.option("--fresh", is_flag=True, help="Run everything, even if this very change was proven before.")
@click.option("--junit", type=_FILE, metavar="FILE", help="Also write the verdict as JUnit XML.")
@click.option("--sarif", type=_FILE, metavar="FILE", help="Also write the findings as SARIF.")
@answers
def verify(
    base: str | None,
    patch: Path | None,
    worktree: bool,
    branch: str | None,
    track: str | None,
    checks: tuple[str, ...],
    isolation: str | None,
    sandbox_root: Path | None,
    strength: bool,
    strength_min: int | None,
    session: str | None,
    quick: bool,
    fresh: bool,
    junit: Path | None,
    sarif: Path | None,
    wait: bool,
    approve_file: Path | None,
    project_dir: Path,
) -> Answer:
    """Verify a change with the project's own checks, run in fresh copies, with tests and configuration from the base.

    Exits 0 only if the change is proven: nothing fails that passed on the base, and no test was weakened. With --track
    it must also show what that kind of change requires.

    \b
    Example: reflectloop verify --base main --track fix
    """
    _check_options(patch, branch, worktree=worktree)
    if session and (base or patch or branch):
        raise click.UsageError("--session has its own base: leave --base, --patch and --branch out.")
    if quick and (strength or strength_min is not None):
        raise click.UsageError("--quick stops before --strength is measured: leave one of them out.")
    with showing_start("verifying"):
        from reflectloop.cli import verifying

    wanted = Track(track) if track else None
    level = Isolation(isolation) if isolation else None
    least = strength_min if strength_min is not None else 0 if strength else None
    return verifying.verify(
        verifying.VerifyRequest(
            project_dir,
            base,
            patch,
            branch,
            wanted,
            checks,
            level,
            sandbox_root,
            wait,
            approve_file,
            least,
            session,
            fresh=fresh or junit is not None or sarif is not None,
            quick=quick,
        ),
        junit,
        sarif,
    )


@click.command()
@click.option(
    "--contract",
    type=_FILE,
    required=True,
    metavar="FILE",
    help="What the change claims to be (docs/gates.md).",
)
@_change_options
@click.option(
    "--report",
    type=_FILE,
    metavar="FILE",
    help="The author's report on the change; it proves nothing, but a false citation in it counts against the change.",
)
@answers
def gate(
    contract: Path,
    base: str | None,
    patch: Path | None,
    worktree: bool,
    branch: str | None,
    report: Path | None,
    isolation: str | None,
    sandbox_root: Path | None,
    wait: bool,
    approve_file: Path | None,
    project_dir: Path,
) -> Answer:
    """Put a change through the four gates: rules, proof, insight, retention.

    Exits 0 only if every gate lets it pass. The third time that the same goal is sent back, a person must decide.

    \b
    Example: reflectloop gate --contract contract.yaml --branch topic --base main
    """
    _check_options(patch, branch, worktree=worktree)
    with showing_start("verifying"):
        from reflectloop.cli import verifying

    level = Isolation(isolation) if isolation else None
    request = verifying.VerifyRequest(
        project_dir,
        base,
        patch,
        branch,
        isolation=level,
        sandbox_root=sandbox_root,
        wait=wait,
        approve_file=approve_file,
    )
    return verifying.gate(request, contract, report)
