"""Start the program. A hook runs before every tool of an agent, so its plain form is answered without click."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

_VALUES = ("--client", "--limit", "--project")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the code of docs/codes.md."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["hook"]:
        _answer_hook(arguments[1:])
    from reflectloop.cli.main import main as run

    run(arguments)


def _answer_hook(words: list[str]) -> None:
    """Answer `hook EVENT` with plain options, and exit; return if click must read the words."""
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
        answering.run(client, event, Path(options["--project"]), limit_s)
