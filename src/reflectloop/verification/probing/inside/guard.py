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
_PATHS = {"open": 1, "os.mkdir": 1, "os.remove": 1, "os.rmdir": 1, "os.truncate": 1, "os.chmod": 1, "os.rename": 2}
_PATHS.update({"tempfile.mkstemp": 1, "tempfile.mkdtemp": 1, "shutil.rmtree": 1, "shutil.copyfile": 2})
_PATHS.update({"shutil.move": 2, "shutil.copymode": 2, "shutil.copystat": 2, "shutil.copytree": 2})
_HARMLESS = ("socket.gethostname", "socket.__new__", "urllib.parse")
_MEMORY = 3 << 30


class TimeIsUp(BaseException):
    """A call took too long."""


class OutsideEffect(BaseException):
    """A call wanted to change something outside of its process."""


class Guard:
    """Stops calls that reach outside, while one runs."""

    def __init__(self, holds: Callable[[str], bool] = lambda _path: False) -> None:
        self.active = False
        self.stopped = ""
        self.holds = holds  # says whether a path is one of the files that were made for the call
        sys.addaudithook(self._audit)

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.active:
            return
        why = ""
        if event == "open":
            why = _writes(args)
        elif event.startswith(_STOPPED) and not event.startswith(_HARMLESS):
            why = "uses " + event
        if why and not self._is_inside(event, args):
            self.stopped = self.stopped or why
            raise OutsideEffect(why)

    def _is_inside(self, event: str, args: tuple[Any, ...]) -> bool:
        """Return True if all paths that an event names are among the files that were made for the call."""
        paths = args[: _PATHS.get(event, 0)]
        if not paths or not all(isinstance(path, (str, bytes, os.PathLike)) for path in paths):
            return False
        names = [os.fsdecode(path) for path in paths]
        if event.startswith("os.") and type(args[-1]) is int and args[-1] >= 0 and not all(map(os.path.isabs, names)):
            return False  # relative to a folder that is open
        return all(map(self.holds, names))

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


_TICK_NS = 1000  # each reading of a clock that stands still is a little later


class StillClock:
    """A clock that stands at one moment, for all calls that are compared; sleeping moves it on."""

    def __init__(self, now: float, days: float = 0) -> None:
        self._ns = int((now + days * 86400) * 10**9)
        self._replaced: list[tuple[Any, str, Any]] = []
        self._kinds: dict[int, Any] = {}  # by the identity of the real function or class, what replaces it

    def read_ns(self) -> int:
        self._ns += _TICK_NS
        return self._ns

    def read(self) -> float:
        return self.read_ns() / 10**9

    def start(self) -> None:
        """Let this interpreter read this clock."""
        for module, name, value in (*self._functions(), *self._classes()):
            real = getattr(module, name)
            self._kinds[id(real)] = value
            self._replaced.append((module, name, real))
            setattr(module, name, value)

    def reach(self, top: str) -> None:
        """Replace what modules of the project imported by name before the clock was started."""
        for module in list(sys.modules.values()):
            if not (getattr(module, "__file__", None) or "").startswith(top):
                continue
            for name, value in list(vars(module).items()):
                other = self._kinds.get(id(value))
                if other is not None and other is not value:
                    self._replaced.append((module, name, value))
                    setattr(module, name, other)

    def stop(self) -> None:
        for module, name, value in reversed(self._replaced):
            setattr(module, name, value)
        self._replaced = []

    def _functions(self) -> list[tuple[Any, str, Any]]:
        real_local, real_gm, real_strftime, real_ctime = time.localtime, time.gmtime, time.strftime, time.ctime
        real_sleep, real_asctime = time.sleep, time.asctime
        real_gettime, real_gettime_ns = time.clock_gettime, time.clock_gettime_ns

        def moment(seconds: Any = None) -> Any:
            return self.read() if seconds is None else seconds

        def sleep(seconds: Any) -> None:
            real_sleep(seconds)
            self._ns += int(seconds * 10**9)

        def clock_gettime(number: int) -> float:
            return self.read() if number == time.CLOCK_REALTIME else real_gettime(number)

        def clock_gettime_ns(number: int) -> int:
            return self.read_ns() if number == time.CLOCK_REALTIME else real_gettime_ns(number)

        def strftime(form: str, when: Any = None) -> str:
            return real_strftime(form, real_local(self.read()) if when is None else when)

        return [
            (time, "time", self.read),
            (time, "time_ns", self.read_ns),
            (time, "localtime", lambda seconds=None: real_local(moment(seconds))),
            (time, "gmtime", lambda seconds=None: real_gm(moment(seconds))),
            (time, "ctime", lambda seconds=None: real_ctime(moment(seconds))),
            (time, "asctime", lambda when=None: real_asctime(real_local(self.read()) if when is None else when)),
            (time, "clock_gettime", clock_gettime),
            (time, "clock_gettime_ns", clock_gettime_ns),
            (time, "strftime", strftime),
            (time, "sleep", sleep),
        ]

    def _classes(self) -> list[tuple[Any, str, Any]]:
        moved = moved_classes(self.read)
        return [(dt, "datetime", moved[0]), (dt, "date", moved[1])]


def moved_classes(read: Callable[[], float]) -> tuple[Any, Any]:  # noqa: C901 - two small classes
    """Return `datetime` and `date` that read another clock; values keep their usual types."""
    real_datetime, real_date = dt.datetime, dt.date

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
            return real_datetime.fromtimestamp(read(), tz)

        @classmethod
        def utcnow(cls) -> Any:
            return real_datetime.fromtimestamp(read(), dt.timezone.utc).replace(tzinfo=None)  # noqa: UP017 - as in 3.8

        @classmethod
        def today(cls) -> Any:
            return real_datetime.fromtimestamp(read())  # noqa: DTZ006

    class MovedDate(real_date, metaclass=Kind):  # type: ignore[valid-type,misc]
        real = real_date

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return real_date(*args, **kwargs) if "real" in cls.__dict__ else super().__new__(cls, *args, **kwargs)

        @classmethod
        def today(cls) -> Any:
            return real_datetime.fromtimestamp(read()).date()  # noqa: DTZ006

    for moved, real in ((MovedDateTime, real_datetime), (MovedDate, real_date)):
        for name in ("fromisoformat", "fromtimestamp", "fromordinal", "strptime", "combine", "utcfromtimestamp"):
            if hasattr(real, name):
                setattr(moved, name, getattr(real, name))
        moved.__name__ = moved.__qualname__ = real.__name__
        moved.__module__ = "datetime"
    return MovedDateTime, MovedDate
