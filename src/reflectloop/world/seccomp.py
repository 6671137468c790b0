"""Filters of system calls, assembled here: few rules, so a library would be more to trust than to write."""

from __future__ import annotations

import ctypes
import errno
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
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT = 0, 4, 16, 24
_X32 = 0x40000000
_INTERNET = (2, 10)  # AF_INET, AF_INET6
_PACKET = (17,)
_TYPING = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: put words into a terminal's mouth
_IO_URING = 425  # the same everywhere


class _Machine(NamedTuple):
    audit: int
    socket: int
    ioctl: int
    keys: tuple[int, ...]  # add_key, request_key, keyctl: the user's keyring is not behind any file
    prying: tuple[int, ...]  # bpf, perf_event_open, userfaultfd
    peeking: tuple[int, ...]  # ptrace, process_vm_readv, process_vm_writev, pidfd_getfd


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 41, 16, (248, 249, 250), (321, 298, 323), (101, 310, 311, 438)),
    "aarch64": _Machine(0xC00000B7, 198, 29, (217, 218, 219), (280, 241, 282), (117, 270, 271, 438)),
}


def known() -> bool:
    return platform.machine() in _MACHINES


def program(*, outside: bool = False, network: bool = True) -> bytes:
    """`outside`: other processes of the user are in sight, and are not to be looked into."""
    machine = _MACHINES[platform.machine()]
    refused = [*machine.keys, *machine.prying, *(machine.peeking if outside else ())]
    code = [
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_EQUAL, machine.audit, skip_false=0, skip_true=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_AT),
        _step(_AT_LEAST, _X32, skip_false=1),
        _step(_RETURN, _NOT_THERE),
    ]
    for number in refused:
        code += [_step(_EQUAL, number, skip_false=1), _step(_RETURN, _REFUSE)]
    code += _by_argument(machine.ioctl, _SECOND_ARGUMENT_AT, _TYPING)
    if not network:
        # io_uring opens sockets without the call that is watched here.
        code += [_step(_EQUAL, _IO_URING, skip_false=1), _step(_RETURN, _NOT_THERE)]
        code += _by_argument(machine.socket, _FIRST_ARGUMENT_AT, _INTERNET + _PACKET)
    code.append(_step(_RETURN, _ALLOW))
    return b"".join(code)


def _by_argument(number: int, place: int, refused: tuple[int, ...]) -> list[bytes]:
    """Refuse a call for some values of one argument, and look at the number again after."""
    code = [_step(_EQUAL, number, skip_false=2 + 2 * len(refused)), _step(_LOAD, place)]
    for value in refused:
        code += [_step(_EQUAL, value, skip_false=1), _step(_RETURN, _REFUSE)]
    return [*code, _step(_LOAD, _NUMBER_AT)]


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
