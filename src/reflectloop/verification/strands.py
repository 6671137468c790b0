"""Let independent parts of one verification run side by side where the machine has cores for them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import TypeVar

from reflectloop.system.process import Cancel
from reflectloop.system.undo import on_failure

First = TypeVar("First")
Second = TypeVar("Second")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


@dataclass
class Strands:
    """Runs parts of a verification as strands, each in a thread.

    Only commands in boxes run at the same time. The engine itself takes turns, so that its state needs no other lock.
    `width` is the number of commands that may run at once; with one, the parts run one after the other.
    """

    width: int = 1
    cancel: Cancel | None = None  # ends the commands of all strands, while there are several
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def has_room(self) -> bool:
        """Return True if two parts would run at the same time now."""
        return self.width > 1 and not self.cancel

    def beside(
        self, first: Callable[[], First], second: Callable[[], Second], quiet: Callable[[], object] = lambda: None
    ) -> tuple[First, Second]:
        """Run parts that do not depend on each other, and return both results; parts of a strand run in order.

        `quiet` is a third part, which runs no commands.
        """
        if not self.has_room:
            quiet()
            return first(), second()
        self.cancel = Cancel()
        try:
            with ThreadPoolExecutor(2, thread_name_prefix="strand") as pool, on_failure(self.cancel.set):
                with self._turn:
                    other = pool.submit(copy_context().run, self._in_turn, second)
                    third = pool.submit(copy_context().run, self._in_turn, quiet)
                    result = first()  # in this thread, which signals interrupt
                third.result()
                return result, other.result()
        finally:
            self.cancel.close()
            self.cancel = None

    def _in_turn(self, part: Callable[[], Second]) -> Second:
        with self._turn:
            return part()

    @contextmanager
    def alone(self, lock: threading.Lock) -> Iterator[None]:
        """Hold a lock that another strand may hold while its commands run; who waits for it leaves it the turn."""
        with self.aside():
            lock.acquire()  # not by `with`: it is held when this strand has its turn again
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Let another strand have its turn while a command runs."""
        if not self.cancel:
            yield
            return
        self._turn.release()
        try:
            yield
        finally:
            self._turn.acquire()
