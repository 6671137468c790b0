"""The command `watch`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reflectloop.cli import render
from reflectloop.cli.render import answers, paint
from reflectloop.commands import watch_status
from reflectloop.commands.watch_status import ENDED, LOCKED, UNCHANGED, VERIFYING, WatchStatus
from reflectloop.terms import OutcomeWord

if TYPE_CHECKING:  # it loads the engine, which a status line does not need
    from reflectloop.commands.watch import Watcher

_SIGNS = {
    OutcomeWord.PASS: ("green", "✓"),
    OutcomeWord.REVIEW: ("yellow", "?"),
    OutcomeWord.REFUSED: ("red", "✗"),
    OutcomeWord.NOT_JUDGED: ("yellow", "✗"),
    LOCKED: ("red", "✗"),
}
_INTERRUPTED = 130
_OWN_FOLDER = ".reflectloop"


@click.command()
@click.option("--once", is_flag=True, help="End when the tree as it is now has an answer; the exit code is verify's.")
@click.option(
    "--statusline",
    type=click.Choice(["plain", "claude"]),
    is_flag=False,
    flag_value="plain",
    help="Print the last answer and end, for a prompt; 'claude' reads Claude Code's JSON from standard input.",
)
@answers
def watch(once: bool, statusline: str | None, project_dir: Path) -> None:
    """Verify the working tree while somebody edits it, and show one line: what the last commit does not have is judged.

    With --json, a line for each status. A second watch of the same project shows what the first one finds.

    \b
    Example: reflectloop watch
    """
    if statusline:
        _print_last(_folder_of_client() if statusline == "claude" else project_dir)
        return
    from reflectloop.cli.interrupts import as_interrupts
    from reflectloop.commands.watch import open_watcher

    as_interrupts()
    watcher, changes = open_watcher(project_dir)
    try:
        sys.exit(_shown(watcher, once=once))
    except KeyboardInterrupt:
        _end_line()
        sys.exit(_INTERRUPTED)
    finally:
        watcher.close()
        changes.close()


def _shown(watcher: Watcher, *, once: bool) -> int:
    """Show each status; return the exit code of the last one."""
    status = WatchStatus(UNCHANGED)
    for status in watcher.statuses(once=once):
        if render.wants_json():
            render.print_raw(render.redacted(json.dumps(status._asdict(), ensure_ascii=False)))
        else:
            _show(status)
    _end_line()
    return _exit_code(status)


def _exit_code(status: WatchStatus) -> int:
    from reflectloop import errors

    codes = {
        OutcomeWord.REVIEW: errors.GateRejected.exit_code,
        OutcomeWord.REFUSED: errors.VerificationFailed.exit_code,
        OutcomeWord.NOT_JUDGED: errors.NotJudged.exit_code,
        LOCKED: errors.Latched.exit_code,
    }
    return codes.get(status.state, 0)


def _show(status: WatchStatus) -> None:
    """Show a status in the one line of a terminal; without a terminal, in a line of its own, with its reasons."""
    if sys.stdout.isatty():
        width = os.get_terminal_size(sys.stdout.fileno()).columns - 1
        text = render.fit(render.harmless(_line(status)), width).rstrip()
        sys.stdout.write(f"\r\x1b[K{_painted(status, render.redacted(text))}")
        sys.stdout.flush()
        return
    render.echo(_line(status))
    for reason in status.reasons:
        render.echo(f"  {reason}")


def _end_line() -> None:
    if sys.stdout.isatty() and not render.wants_json():
        sys.stdout.write("\n")
        sys.stdout.flush()


def _line(status: WatchStatus) -> str:
    from reflectloop import languages

    return " ".join(languages.line(part) for part in _parts(status))


def _parts(status: WatchStatus) -> Iterator[str]:
    sign = _SIGNS.get(status.state, ("dim", "·"))[1]
    if status.state == UNCHANGED:
        yield f"{sign} nothing to verify since the last commit"
    elif status.state == VERIFYING:
        yield f"{sign} verifying {status.changed} changed file(s)"
        if status.old:
            yield f"(before this edit: {status.old}, old)"
    elif status.state == LOCKED:
        yield f"{sign} locked: {' '.join(status.reasons)}; {status.next}"
    elif status.state == ENDED:
        yield f"{sign} nobody watches"
    else:
        yield f"{sign} {status.state}: {status.changed} changed file(s)"
        yield from (f"· {reason}" for reason in status.reasons[:1])
        if status.state != OutcomeWord.PASS and status.next:
            yield f"· {status.next}"


def _painted(status: WatchStatus, text: str) -> str:
    colour = _SIGNS.get(status.state, ("dim", ""))[0]
    return paint(colour, text)


def _folder_of_client() -> Path:
    """Return the folder that Claude Code names on standard input; the current one if it names none."""
    try:
        document = json.loads(sys.stdin.buffer.read())
        place = document.get("workspace", {}).get("current_dir") or document.get("cwd")
    except (ValueError, AttributeError):
        place = None
    return Path(place) if isinstance(place, str) else Path()


def _print_last(folder: Path) -> None:
    """Print the last answer in short; nothing where nobody ever watched."""
    start = folder.absolute()
    own = next((place / _OWN_FOLDER for place in (start, *start.parents) if (place / _OWN_FOLDER).is_dir()), None)
    status = watch_status.read(own) if own else None
    if own is None or status is None:
        return
    if not watch_status.is_watched(own):
        status = WatchStatus(ENDED)
    sign = _SIGNS.get(status.state, ("dim", "·"))[1]
    old = f" ({status.old}, old)" if status.old else ""
    words = {ENDED: "nobody watches", UNCHANGED: "unchanged"}
    click.echo(f"{sign} {words.get(status.state, status.state)}{old}")
