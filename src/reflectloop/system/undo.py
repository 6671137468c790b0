"""Undoes what a block began when the block does not end well."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def on_failure(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo` if the block raises anything, an interrupt too; the error is raised on."""
    try:
        yield
    except BaseException:
        undo()
        raise
