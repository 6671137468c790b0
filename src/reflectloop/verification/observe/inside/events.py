"""Write events into a pipe, and notice functions that were replaced.

The project's Python runs this file, so it uses only the standard library of Python 3.8.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import stat
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any

_START = os.getcwd()  # noqa: PTH109 - of the project
_HIGHEST = 4096  # of the descriptor, so that nothing else is given its number


class Pipe:
    """The writing end of a pipe that another process reads; every line has the next number."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._owner = os.getpid()
        self._number = 0
        self._lock = threading.RLock()
        self._calls = (os.getpid, os.write, os.fstat, os.open, json.dumps)
        self._descriptor = -1
        self._place = (-1, -1)
        self._open()

    def _open(self) -> None:
        low = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)  # fails if nobody reads
        try:
            if not stat.S_ISFIFO(os.fstat(low).st_mode):
                raise OSError(self._path)
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            highest = _HIGHEST if limit in (-1, resource.RLIM_INFINITY) else min(_HIGHEST, limit)
            self._descriptor = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, max(3, highest * 3 // 4))
        finally:
            os.close(low)
        os.set_blocking(self._descriptor, True)
        status = os.fstat(self._descriptor)
        self._place = (status.st_dev, status.st_ino)

    def send(self, event: str, **fields: Any) -> None:  # noqa: ANN401
        getpid, write, _fstat, _open, dumps = self._calls
        if getpid() != self._owner:
            return  # a fork of the runner: only the runner itself tells outcomes
        with self._lock:
            line = dumps({"n": self._number, "e": event, **fields}).encode("ascii") + b"\n"
            self._number += 1
            if not self._is_open():
                self._open()
            while line:
                line = line[write(self._descriptor, line) :]

    def _is_open(self) -> bool:
        """Return False if a test closed the descriptor, or something else has its number by now."""
        try:
            status = self._calls[2](self._descriptor)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._place


class Originals:
    """The functions of some modules as they are before code of the project runs."""

    def __init__(self, modules: Iterable[str], often: Iterable[str] = ()) -> None:
        self._known: dict[str, tuple[Any, ...]] = {}
        for name in modules:
            module = sys.modules.get(name)
            if isinstance(module, ModuleType):
                self._known.update(_functions(name, module))
        often = set(often)
        self._often = [(name, *known) for name, known in self._known.items() if name in often]
        self._reported: set[str] = set()

    def changed(self) -> list[str]:
        """Return the names of functions that are not as they were, each once."""
        return self._news(name for name, known in self._known.items() if not _is_same(*known))

    def changed_often(self) -> list[str]:
        """Return the same of a few important functions: this is done after every test."""
        return self._news(item[0] for item in self._often if not _is_same(*item[1:]))

    def _news(self, names: Iterable[str]) -> list[str]:
        new = [name for name in names if name not in self._reported]
        new = [name for name in new if not _is_installed(*self._known[name][:2])]
        self._reported.update(new)
        return new


def _functions(name: str, module: ModuleType) -> dict[str, tuple[Any, ...]]:
    """Return every function and method that a module defines: its holder, its key, itself and its code."""
    out: dict[str, tuple[Any, ...]] = {}
    for key, value in list(vars(module).items()):
        if getattr(value, "__module__", None) != name:
            continue
        if isinstance(value, type):
            out[name + "." + key] = (module, key, value, None)
            for inner, member in list(vars(value).items()):
                function = _function_of(member)
                if function is not None:
                    out[name + "." + key + "." + inner] = (value, inner, member, function.__code__)
        elif isinstance(value, FunctionType):
            out[name + "." + key] = (module, key, value, value.__code__)
    return out


def _function_of(member: Any) -> FunctionType | None:  # noqa: ANN401
    if isinstance(member, property):
        member = member.fget
    member = getattr(member, "__func__", member)
    return member if isinstance(member, FunctionType) else None


def _is_same(holder: Any, key: str, value: Any, code: Any) -> bool:  # noqa: ANN401
    now = vars(holder).get(key)
    if now is not value:
        return False
    if code is None:
        return True
    function = _function_of(now)
    return function is not None and function.__code__ is code


def _is_installed(holder: Any, key: str) -> bool:  # noqa: ANN401
    """Return True if a function was replaced by one of an installed package, such as a plugin of the runner.

    Its code must stand in the file that it names, and the package must not be one of the project.
    """
    function = _function_of(vars(holder).get(key))
    if function is None:
        return False
    code = function.__code__
    path = os.path.abspath(code.co_filename)  # noqa: PTH100
    places = [place for place in map(sysconfig.get_path, ("purelib", "platlib")) if path.startswith(place + os.sep)]
    if not places:
        return False
    top = path[len(places[0]) + 1 :].split(os.sep)[0]  # noqa: PTH206
    if any(os.path.exists(os.path.join(_START, *parts, top)) for parts in ((), ("src",), ("lib",))):  # noqa: PTH110, PTH118
        return False
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return _contains(compile(file.read(), code.co_filename, "exec", dont_inherit=True), code)
    except (OSError, ValueError, SyntaxError):
        return False


def _contains(outer: CodeType, code: CodeType) -> bool:
    return outer == code or any(_contains(part, code) for part in outer.co_consts if isinstance(part, CodeType))


def raises(function: Callable[[], Any]) -> bool:
    """Return True if a call ends with an exception, without asking any runner."""
    try:
        function()
    except BaseException:  # noqa: BLE001 - skipped and failed tests are told by exceptions of other kinds
        return True
    return False
