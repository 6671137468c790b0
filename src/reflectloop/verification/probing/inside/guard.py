"""Bound what repeated calls may do: time, memory, files, network, processes; and move the clock.

The project's Python runs this file: standard library of 3.8 only.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

_STOPPED = (
    "socket.",
    "subprocess.",
    "os.system",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.truncate",
    "os.link",
    "os.symlink",
    "os.kill",
    "os.mkdir",
    "os.chmod",
    "os.chown",
    "shutil.",
    "tempfile.",
    "ftplib.",
    "http.",
    "urllib.",
    "smtplib.",
    "webbrowser.",
    "pty.",
)
_HARMLESS = ("socket.gethostname", "socket.__new__", "urllib.parse")
_MEMORY = 3 << 30


class TimeIsUp(BaseException):
    """A call took too long."""


class OutsideEffect(BaseException):
    """A call wanted to change something outside of its process."""


class Guard:
    """Stops calls that reach outside, while one runs."""

    def __init__(self) -> None:
        self.active = False
        self.stopped = ""
        sys.addaudithook(self._audit)

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.active:
            return
        why = ""
        if event == "open":
            why = _writes(args)
        elif event.startswith(_STOPPED) and not event.startswith(_HARMLESS):
            why = "uses " + event
        if why:
            self.stopped = self.stopped or why
            raise OutsideEffect(why)

    def run(self, work: Callable[[], None], limit_s: float) -> BaseException | None:
        """Do the work and return what it raised."""
        self.stopped = ""
        timed = limit_s > 0 and threading.current_thread() is threading.main_thread()
        if timed:
            usual = signal.signal(signal.SIGALRM, _time_is_up)
            signal.setitimer(signal.ITIMER_REAL, limit_s, 1.0)
        self.active = True
        try:
            work()
        except BaseException as fault:  # noqa: BLE001 - any outcome is one
            return fault
        finally:
            self.active = False
            if timed:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, usual)
        return None


def _time_is_up(_number: int, _frame: Any) -> None:
    raise TimeIsUp


def _writes(args: tuple[Any, ...]) -> str:
    path, mode, flags = (*args, None, None, None)[:3]
    if path == os.devnull or isinstance(path, int):
        return ""
    by_flags = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    return "writes files" if by_flags or (isinstance(mode, str) and set(mode) & set("wax+")) else ""


def limit_memory() -> None:
    """Let the interpreter fail instead of the machine."""
    try:
        import resource  # noqa: PLC0415 - not on every system

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    except (ImportError, ValueError, OSError):
        pass


def move_clock(days: int) -> None:  # noqa: C901 - one small function for each of the clock's
    """Let this interpreter believe that it is some days later; values keep their usual types."""
    shift, span = days * 86400, dt.timedelta(days=days)
    real_time, real_ns = time.time, time.time_ns
    real_local, real_gm, real_strftime, real_ctime = time.localtime, time.gmtime, time.strftime, time.ctime
    real_datetime, real_date = dt.datetime, dt.date
    module: Any = time
    module.time = lambda: real_time() + shift
    module.time_ns = lambda: real_ns() + shift * 10**9
    module.localtime = lambda seconds=None: real_local(real_time() + shift if seconds is None else seconds)
    module.gmtime = lambda seconds=None: real_gm(real_time() + shift if seconds is None else seconds)
    module.ctime = lambda seconds=None: real_ctime(real_time() + shift if seconds is None else seconds)
    module.strftime = lambda form, moment=None: real_strftime(form, module.localtime() if moment is None else moment)

    class Kind(type):
        real: Any = None

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, cls.real) if "real" in cls.__dict__ else type.__instancecheck__(cls, value)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, cls.real) if "real" in cls.__dict__ else type.__subclasscheck__(cls, other)

        def __eq__(cls, other: object) -> bool:
            return other is cls or ("real" in cls.__dict__ and other is cls.real)

        def __hash__(cls) -> int:
            return hash(cls.real) if "real" in cls.__dict__ else type.__hash__(cls)

    class MovedDateTime(real_datetime, metaclass=Kind):  # type: ignore[valid-type,misc]
        real = real_datetime

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return real_datetime(*args, **kwargs) if "real" in cls.__dict__ else super().__new__(cls, *args, **kwargs)

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return real_datetime.now(tz) + span

        @classmethod
        def utcnow(cls) -> Any:
            return real_datetime.now(dt.UTC).replace(tzinfo=None) + span

        @classmethod
        def today(cls) -> Any:
            return real_datetime.now() + span  # noqa: DTZ005

    class MovedDate(real_date, metaclass=Kind):  # type: ignore[valid-type,misc]
        real = real_date

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return real_date(*args, **kwargs) if "real" in cls.__dict__ else super().__new__(cls, *args, **kwargs)

        @classmethod
        def today(cls) -> Any:
            return (real_datetime.now() + span).date()  # noqa: DTZ005

    for moved, real in ((MovedDateTime, real_datetime), (MovedDate, real_date)):
        for name in ("fromisoformat", "fromtimestamp", "fromordinal", "strptime", "combine", "utcfromtimestamp"):
            if hasattr(real, name):
                setattr(moved, name, getattr(real, name))
        moved.__name__ = moved.__qualname__ = real.__name__
        moved.__module__ = "datetime"
    module = dt
    module.datetime, module.date = MovedDateTime, MovedDate
