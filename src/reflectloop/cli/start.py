"""Start the program. A hook runs before every tool of an agent, so its plain form is answered without click."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path

_VALUES = ("--client", "--limit", "--project")
_MANY_OBJECTS = 50_000  # between two collections; loading our modules alone would cause dozens of them otherwise


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with the code of docs/codes.md."""
    gc.set_threshold(_MANY_OBJECTS)
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["hook"]:
        _answer_hook(arguments[1:])
    from reflectloop.cli.main import main as run

    try:
        run(arguments)
    except SystemExit as left:
        _end_process(left.code)
        raise


def _end_process(code: object) -> None:
    """End the process without freeing its modules one by one, which takes longer than most commands do.

    Return if that would lose something: a thread that works, output that cannot be written, a message as the code.
    """
    threading = sys.modules.get("threading")
    alone = threading is None or all(thread.daemon for thread in threading.enumerate()[1:])
    if not alone or not (code is None or isinstance(code, int)):
        return
    atexit._run_exitfuncs()  # noqa: SLF001 - temporary folders are removed there
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # closed, a full disk, or none at all
        return
    os._exit(code or 0)


def _answer_hook(words: list[str]) -> None:
    """Answer `hook EVENT` with plain options, and exit; return if click must read the words."""
    from reflectloop.errors import ReflectloopError
    from reflectloop.hooks import answering
    from reflectloop.hooks.clients import CLIENTS

    options = {"--client": "claude", "--project": "."}
    event = words.pop(0) if words else ""
    while len(words) > 1 and words[0] in _VALUES:
        name, value = words.pop(0), words.pop(0)
        options[name] = value
    client = CLIENTS.get(options["--client"])
    try:
        limit_s = float(options["--limit"]) if "--limit" in options else None
    except ValueError:
        return
    if not words and event and not event.startswith("-") and client:
        try:
            answering.run(client, event, Path(options["--project"]), limit_s)
        except ReflectloopError as fault:  # the input cannot be read; what cannot be judged is answered as a refusal
            from reflectloop.cli.render import report_error

            sys.exit(report_error(fault, []))
