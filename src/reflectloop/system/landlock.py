"""Landlock: a thread restricts itself and starts commands that inherit the restriction. Needs no privileges.

Restrictions of a thread apply to its children, so nothing has to run between fork and exec.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import queue
import stat
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from reflectloop.system import seccomp
from reflectloop.system.seccomp import Openings
from reflectloop.system.undo import on_failure

_CREATE, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_ASK_VERSION = 1
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECUREBITS = 28
_PR_SET_DUMPABLE = 4
_NO_ROOT_LOCKED = 0b11  # uid 0 gains no capabilities by executing a program
_CAPABILITIES_V3 = 0x20080522

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEVICE = 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_ALL_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_ALL_NEWEST = (1 << 16) - 1
_SCOPED = 0b11  # abstract sockets and signals stay inside
_SCOPES_SINCE = 6
_PORT, _CONNECT_TCP = 2, 1 << 1
PORTS_SINCE = 4

T = TypeVar("T")


class LandlockRules(NamedTuple):
    """The paths that a command may read, and those it may also write. It can access nothing else."""

    read: tuple[Path, ...]
    write: tuple[Path, ...]
    network: bool = True
    ports: tuple[int, ...] | None = None  # the only TCP ports it may connect to; None: any


class RestrictedThread:
    """A thread that restricts itself permanently and then calls functions. It must outlive what it started."""

    def __init__(self, restrict: Callable[[], None]) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._live, name="walled", daemon=True)
        self._thread.start()
        with on_failure(self.close):
            self.call(restrict)

    def _live(self) -> None:
        while (function := self._calls.get()) is not None:
            function()

    def call(self, action: Callable[[], T]) -> T:
        """Call a function in the restricted thread and return its result or raise its exception."""
        answer: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

        def call_and_answer() -> None:
            try:
                answer.put((action(), None))
            except BaseException as fault:  # noqa: BLE001 - raised in the calling thread
                answer.put((None, fault))

        self._calls.put(call_and_answer)
        value, fault = answer.get()
        if fault is not None:
            raise fault
        return value  # type: ignore[return-value]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._calls.put(None)
        self._thread.join()


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    result: int = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


@functools.cache
def version() -> int:
    """Return the kernel's Landlock version, or 0 without Landlock."""
    try:
        return _call(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    except OSError:
        return 0


def restricted_thread(rules: LandlockRules) -> RestrictedThread:
    """Return a thread whose commands can access only what the rules allow."""
    _hide_engine()
    return RestrictedThread(lambda: _restrict(rules))


def scoped_thread() -> RestrictedThread:
    """Return a thread whose commands can use only their own abstract sockets and signal only their own processes.

    It restricts no file access: bubblewrap could not mount in a thread that does.
    """
    return RestrictedThread(_restrict_scopes)


def scopes() -> bool:
    """Return True if the kernel can restrict abstract sockets and signals."""
    return version() >= _SCOPES_SINCE


def _restrict_scopes() -> None:
    ruleset = _ruleset(0)
    try:
        _forbid_new_privileges()
        _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _ruleset(handled: int, connecting: int = 0) -> int:
    scoped = _SCOPED if scopes() else 0
    attributes = struct.pack("QQQ", handled, connecting, scoped)[: 24 if scoped else 16 if connecting else 8]
    return _call(_CREATE, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))


def _restrict(rules: LandlockRules) -> None:
    handled = _ALL_BY_VERSION.get(version(), _ALL_NEWEST)
    connecting = _CONNECT_TCP if rules.ports is not None and version() >= PORTS_SINCE else 0
    ruleset = _ruleset(handled, connecting)
    try:
        for path in rules.read:
            _allow(ruleset, path, _READ & handled)
        for path in rules.write:
            _allow(ruleset, path, handled)
        for port in (rules.ports or ()) if connecting else ():
            rule = struct.pack("=QQ", _CONNECT_TCP, port)
            _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PORT), rule, ctypes.c_uint32(0))
        _give_up_privileges()
        if rules.ports is not None:
            seccomp.load(seccomp.tcp_only_program())
        # Landlock does not cover sockets with a path (agents, buses, docker), System V objects, and calls that change
        # limits and scheduling of other processes.
        seccomp.load(
            seccomp.program(
                Openings(local=False, internet=rules.network, processes=False, shared=False, attributes=False)
            )
        )
        _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _hide_engine() -> None:
    """Make the engine's /proc entries unreadable: commands in the same Landlock domain could read them."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "dumpable")


def _give_up_privileges() -> None:
    """Drop all capabilities: with them, root could read other processes' environment in /proc."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0 and libc.prctl(_PR_SET_SECUREBITS, _NO_ROOT_LOCKED, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "securebits")
    header, none = struct.pack("=Ii", _CAPABILITIES_V3, 0), struct.pack("=6I", *[0] * 6)
    if libc.capset(header, none):
        raise OSError(ctypes.get_errno(), "capset")
    _forbid_new_privileges()


def _forbid_new_privileges() -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")


def _allow(ruleset: int, path: Path, access: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # a missing path needs no rule
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            access &= _OF_FILES
        rule = struct.pack("=Qi", access, place)
        _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0))
    finally:
        os.close(place)


@functools.cache
def refusal() -> str | None:
    """Try to write from a restricted thread; return None if that fails as it should, else the reason."""
    if version() == 0:
        return "the kernel has no Landlock, or it is switched off"
    if not seccomp.known():
        return f"the system calls of {platform.machine()} are unknown"
    rules = LandlockRules(read=(Path("/usr"),), write=())
    try:
        thread = restricted_thread(rules)
    except OSError as fault:
        return f"Landlock does not start: {fault.strerror}"
    try:
        thread.call(lambda: os.close(os.open("/dev/null", os.O_WRONLY)))
    except PermissionError:
        return None
    else:
        return "Landlock was enabled but did not prevent writing"
    finally:
        thread.close()
