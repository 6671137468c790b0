"""Filters of system calls, assembled here: few rules, so a library would be more to trust than to write."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import struct
from typing import NamedTuple

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_REFUSE = 0x00050000 | errno.EPERM
_NOT_THERE = 0x00050000 | errno.ENOSYS
_NO_FAMILY = 0x00050000 | errno.EAFNOSUPPORT
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT = 0, 4, 16, 24
_X32 = 0x40000000
_TYPING = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: put words into a terminal's mouth
_NEW_USER = 0x10000000  # a namespace in which a command would have capabilities
_LOCAL, _INTERNET, _NETLINK = (1,), (2, 10), (16,)  # families of sockets; of others nothing is known to hold them
_CLONE3, _IO_URING = 435, 425  # the same everywhere


class _Machine(NamedTuple):
    audit: int
    socket: int
    ioctl: int
    clone: int
    unshare: int
    keys: tuple[int, ...]  # add_key, request_key, keyctl: the user's keyring is not behind any file
    prying: tuple[int, ...]  # bpf, perf_event_open, userfaultfd
    peeking: tuple[int, ...]  # ptrace, process_vm_readv, process_vm_writev, pidfd_getfd: the jailer is a process too


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 41, 16, 56, 272, (248, 249, 250), (321, 298, 323), (101, 310, 311, 438)),
    "aarch64": _Machine(0xC00000B7, 198, 29, 220, 97, (217, 218, 219), (280, 241, 282), (117, 270, 271, 438)),
}


def known() -> bool:
    return platform.machine() in _MACHINES


@functools.cache
def program(*, local: bool = True, internet: bool = True) -> bytes:
    """What every command is refused. Without `local` it opens no socket by a name in the file system either."""
    machine = _MACHINES[platform.machine()]
    code = [
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_EQUAL, machine.audit, skip_true=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_AT),
        _step(_AT_LEAST, _X32, skip_false=1),
        _step(_RETURN, _NOT_THERE),
    ]
    for number in (*machine.keys, *machine.prying, *machine.peeking):
        code += [_step(_EQUAL, number, skip_false=1), _step(_RETURN, _REFUSE)]
    # Its flags lie in memory, where a filter cannot look; libraries then use the older call. io_uring opens sockets.
    for number in (_CLONE3, _IO_URING):
        code += [_step(_EQUAL, number, skip_false=1), _step(_RETURN, _NOT_THERE)]
    for number in (machine.clone, machine.unshare):
        code += _refuse_bit(number, _NEW_USER)
    code += _refuse_values(machine.ioctl, _SECOND_ARGUMENT_AT, _TYPING)
    families = _NETLINK + (_LOCAL if local else ()) + (_INTERNET if internet else ())
    code += _allow_values(machine.socket, _FIRST_ARGUMENT_AT, families)
    return b"".join([*code, _step(_RETURN, _ALLOW)])


def _refuse_bit(number: int, bit: int) -> list[bytes]:
    test = [_step(_LOAD, _FIRST_ARGUMENT_AT), _step(_ANY_BIT, bit, skip_false=1), _step(_RETURN, _REFUSE)]
    return _for_call(number, test)


def _refuse_values(number: int, place: int, refused: tuple[int, ...]) -> list[bytes]:
    test = [_step(_LOAD, place)]
    for value in refused:
        test += [_step(_EQUAL, value, skip_false=1), _step(_RETURN, _REFUSE)]
    return _for_call(number, test)


def _allow_values(number: int, place: int, allowed: tuple[int, ...]) -> list[bytes]:
    test = [_step(_LOAD, place)]
    for value in allowed:
        test += [_step(_EQUAL, value, skip_false=1), _step(_RETURN, _ALLOW)]
    return _for_call(number, [*test, _step(_RETURN, _NO_FAMILY)])


def _for_call(number: int, test: list[bytes]) -> list[bytes]:
    """The test for one call only; the number is looked at again after it."""
    again = _step(_LOAD, _NUMBER_AT)
    return [_step(_EQUAL, number, skip_false=len(test) + 1), *test, again]


def _step(operation: int, value: int, *, skip_true: int = 0, skip_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, skip_true, skip_false, value)


def load(code: bytes) -> None:
    """On this thread and everything it starts, for good. Needs no_new_privs."""

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))

    whole = Filter(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(whole), 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
