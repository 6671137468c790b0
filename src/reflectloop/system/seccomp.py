"""Assembles filters of system calls; for so few rules a library would be more to trust than this code."""

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
_NO_ATTRIBUTES = 0x00050000 | errno.EOPNOTSUPP  # as on a file system without extended attributes
_NO_FAMILY = 0x00050000 | errno.EAFNOSUPPORT
_BAD_SIZE = 0x00050000 | errno.EINVAL  # the kernel's own error for a segment that is too large
_LOAD, _EQUAL, _ABOVE, _AT_LEAST, _ANY_BIT, _KEEP_BITS, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
_ARGUMENTS_AT, _ARGUMENT_SIZE = 16, 8  # the lower half first on both known architectures
_X32 = 0x40000000
_TYPING = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: inject input into a terminal
_NEW_USER = 0x10000000  # a namespace in which a command would have capabilities
_LOCAL, _INTERNET, _NETLINK = (1,), (2, 10), (16,)  # allowed socket families; nothing else restricts the others
_CLONE3, _IO_URING = 435, 425  # the same everywhere
_NEW_ATTRIBUTES = (463, 464, 465, 466)  # setxattrat, getxattrat, listxattrat, removexattrat
_TYPE_BITS, _STREAM, _SEQUENCED = 0xF, 1, 5  # socket types; a pair of any other type can send to other addresses
_PROTOCOLS = (0, 6)  # the default of a stream, and TCP by its number
_FAST_OPEN = 0x20000000  # a flag of send calls that starts a connection
_SMALL_SEGMENT = 64 << 10  # all segments of this size together stay below 256 MB


class _Machine(NamedTuple):
    """The numbers of system calls on one architecture."""

    audit: int
    socket: int
    socketpair: int
    ioctl: int
    clone: int
    unshare: int
    prlimit: int
    shmget: int
    flags: tuple[tuple[int, int], ...]  # sendto, sendmsg, sendmmsg, each with the number of its flags argument
    keys: tuple[int, ...]  # add_key, request_key, keyctl: the user's keyring
    prying: tuple[int, ...]  # bpf, perf_event_open, userfaultfd, fanotify_init, fanotify_mark
    # ptrace, process_vm_readv, process_vm_writev, pidfd_getfd, kcmp, process_madvise, process_mrelease
    peeking: tuple[int, ...]
    # sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr, migrate_pages, move_pages
    by_process: tuple[int, ...]
    by_class: tuple[
        tuple[int, int], ...
    ]  # setpriority, ioprio_set, each with its value for "all processes of this user"
    # shmget, shmat, shmctl, shmdt, semget, semop, semctl, semtimedop, msgget, msgsnd, msgrcv, msgctl, mq_*
    shared: tuple[int, ...]
    attributes: range  # setxattr to fremovexattr: Landlock does not cover extended attributes


_MACHINES = {
    "x86_64": _Machine(
        audit=0xC000003E,
        socket=41,
        socketpair=53,
        ioctl=16,
        clone=56,
        unshare=272,
        prlimit=302,
        shmget=29,
        flags=((44, 3), (46, 2), (307, 3)),
        keys=(248, 249, 250),
        prying=(321, 298, 323, 300, 301),
        peeking=(101, 310, 311, 438, 312, 440, 448),
        by_process=(142, 144, 203, 314, 256, 279),
        by_class=((141, 2), (251, 3)),
        shared=(29, 30, 31, 67, 64, 65, 66, 220, 68, 69, 70, 71, 240, 241),
        attributes=range(188, 200),
    ),
    "aarch64": _Machine(
        audit=0xC00000B7,
        socket=198,
        socketpair=199,
        ioctl=29,
        clone=220,
        unshare=97,
        prlimit=261,
        shmget=194,
        flags=((206, 3), (211, 2), (269, 3)),
        keys=(217, 218, 219),
        prying=(280, 241, 282, 262, 263),
        peeking=(117, 270, 271, 438, 272, 440, 448),
        by_process=(118, 119, 122, 274, 238, 239),
        by_class=((140, 2), (30, 3)),
        shared=(194, 196, 195, 197, 190, 193, 191, 192, 186, 189, 188, 187, 180, 181),
        attributes=range(5, 17),
    ),
}


def known() -> bool:
    return platform.machine() in _MACHINES


class Openings(NamedTuple):
    """The system calls that a filter allows, because other mechanisms restrict them."""

    local: bool = True  # sockets with a path, and abstract ones
    internet: bool = True
    processes: bool = True  # calls on other processes: in a process namespace there are only its own
    shared: bool = True  # System V objects and message queues: in a separate namespace there are only its own
    large_segments: bool = True  # allowed if a control group counts shared memory
    attributes: bool = True  # extended attributes of files


_EVERYTHING = Openings()


@functools.cache
def program(openings: Openings = _EVERYTHING) -> bytes:
    """Return the filter for every command, which also blocks what `openings` does not allow."""
    machine = _MACHINES[platform.machine()]
    code = [
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_EQUAL, machine.audit, skip_true=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_AT),
        _step(_AT_LEAST, _X32, skip_false=1),
        _step(_RETURN, _NOT_THERE),
    ]
    blocked = () if openings.shared else machine.shared
    for number in (*machine.keys, *machine.prying, *machine.peeking, *blocked):
        code += [_step(_EQUAL, number, skip_false=1), _step(_RETURN, _REFUSE)]
    # A filter cannot read clone3's flags in memory; libraries fall back to clone. io_uring can open sockets.
    for number in (_CLONE3, _IO_URING):
        code += [_step(_EQUAL, number, skip_false=1), _step(_RETURN, _NOT_THERE)]
    if not openings.attributes:
        for number in (*machine.attributes, *_NEW_ATTRIBUTES):
            code += [_step(_EQUAL, number, skip_false=1), _step(_RETURN, _NO_ATTRIBUTES)]
    for number in (machine.clone, machine.unshare):
        code += _for_call(number, [_load(0), _step(_ANY_BIT, _NEW_USER, skip_false=1), _step(_RETURN, _REFUSE)])
    code += _for_call(machine.ioctl, [_load(1), *_refuse_values(_TYPING)])
    if not openings.processes:
        code += _refuse_other_processes(machine)
    if openings.shared and not openings.large_segments:
        code += _for_call(machine.shmget, _refuse_large_segments())
    if not openings.local:
        test = [_load(1), _step(_KEEP_BITS, _TYPE_BITS), *_allow_values((_STREAM, _SEQUENCED), otherwise=_REFUSE)]
        code += _for_call(machine.socketpair, test)
    families = _NETLINK + (_LOCAL if openings.local else ()) + (_INTERNET if openings.internet else ())
    code += _for_call(machine.socket, [_load(0), *_allow_values(families, otherwise=_NO_FAMILY)])
    return b"".join([*code, _step(_RETURN, _ALLOW)])


@functools.cache
def tcp_only_program() -> bytes:
    """Return a filter that allows only those internet sockets that Landlock's port rule covers.

    That rule does not cover datagrams, raw packets, SCTP, multipath TCP and TCP fast open. `program` already refuses
    calls of other architectures and other socket families.
    """
    machine = _MACHINES[platform.machine()]
    code = [_step(_LOAD, _NUMBER_AT)]
    for number, argument in machine.flags:
        code += _for_call(number, [_load(argument), _step(_ANY_BIT, _FAST_OPEN, skip_false=1), _step(_RETURN, _REFUSE)])
    code += _for_call(machine.socket, _refuse_other_than_tcp())
    return b"".join([*code, _step(_RETURN, _ALLOW)])


def _refuse_other_than_tcp() -> list[bytes]:
    ipv4, ipv6 = _INTERNET
    return [
        _load(0),
        _step(_EQUAL, ipv4, skip_true=2),
        _step(_EQUAL, ipv6, skip_true=1),
        _step(_RETURN, _ALLOW),
        _load(1),
        _step(_KEEP_BITS, _TYPE_BITS),
        _step(_EQUAL, _STREAM, skip_true=1),
        _step(_RETURN, _REFUSE),
        _load(2),
        *(_step(_EQUAL, protocol, skip_true=skip) for protocol, skip in zip(_PROTOCOLS, (2, 1), strict=True)),
        _step(_RETURN, _REFUSE),
    ]


def _refuse_other_processes(machine: _Machine) -> list[bytes]:
    """Refuse calls on another process. A filter does not know the caller's pid, so only 0 is allowed."""
    code = _for_call(machine.prlimit, _refuse_new_limits())
    for number in machine.by_process:
        code += _for_call(number, [_load(0), _step(_EQUAL, 0, skip_true=1), _step(_RETURN, _REFUSE)])
    for number, whole_user in machine.by_class:
        test = [_load(0), *_refuse_values((whole_user,))]
        code += _for_call(number, [*test, _load(1), _step(_EQUAL, 0, skip_true=1), _step(_RETURN, _REFUSE)])
    return code


def _refuse_new_limits() -> list[bytes]:
    """Allow reading another process's limits, but not setting them."""
    return [
        _load(0),
        _step(_EQUAL, 0, skip_true=5),
        _load(2),
        _step(_EQUAL, 0, skip_false=2),
        _load(2, upper=True),
        _step(_EQUAL, 0, skip_true=1),
        _step(_RETURN, _REFUSE),
    ]


def _refuse_large_segments() -> list[bytes]:
    return [
        _load(1, upper=True),
        _step(_EQUAL, 0, skip_false=2),
        _load(1),
        _step(_ABOVE, _SMALL_SEGMENT, skip_false=1),
        _step(_RETURN, _BAD_SIZE),
    ]


def _load(argument: int, *, upper: bool = False) -> bytes:
    return _step(_LOAD, _ARGUMENTS_AT + _ARGUMENT_SIZE * argument + (4 if upper else 0))


def _refuse_values(refused: tuple[int, ...]) -> list[bytes]:
    return [step for value in refused for step in (_step(_EQUAL, value, skip_false=1), _step(_RETURN, _REFUSE))]


def _allow_values(allowed: tuple[int, ...], *, otherwise: int) -> list[bytes]:
    test = [step for value in allowed for step in (_step(_EQUAL, value, skip_false=1), _step(_RETURN, _ALLOW))]
    return [*test, _step(_RETURN, otherwise)]


def _for_call(number: int, test: list[bytes]) -> list[bytes]:
    """Return the test for one call only; the call number is loaded again after it."""
    again = _step(_LOAD, _NUMBER_AT)
    return [_step(_EQUAL, number, skip_false=len(test) + 1), *test, again]


def _step(operation: int, value: int, *, skip_true: int = 0, skip_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, skip_true, skip_false, value)


def load(code: bytes) -> None:
    """Apply a filter to this thread and its children, permanently. Needs no_new_privs."""

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))

    filter_program = Filter(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(filter_program), 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
