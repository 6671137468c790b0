"""A filter of system calls that allows only those internet sockets that Landlock's port rule covers.

That rule does not cover datagrams, raw packets, SCTP, multipath TCP and TCP fast open.
"""

from __future__ import annotations

import errno
import functools
import platform
import struct
from typing import NamedTuple

_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | errno.EPERM
_LOAD, _AND, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x45, 0x06
_NUMBER_AT, _ARGUMENTS_AT = 0, 16
_INTERNET = (2, 10)
_STREAM, _TYPE_MASK = 1, 0xF
_PROTOCOLS = (0, 6)  # the default of a stream, and TCP by its number
_FAST_OPEN = 0x20000000


class _Calls(NamedTuple):
    socket: int
    flags: tuple[tuple[int, int], ...]  # sendto, sendmsg, sendmmsg, each with the number of its flags argument


_MACHINES = {
    "x86_64": _Calls(41, ((44, 3), (46, 2), (307, 3))),
    "aarch64": _Calls(198, ((206, 3), (211, 2), (269, 3))),
}


@functools.cache
def program() -> bytes:
    """Return the filter for this machine. The general filter already refuses calls of other architectures."""
    calls = _MACHINES[platform.machine()]
    code = [_step(_LOAD, _NUMBER_AT)]
    for number, argument in calls.flags:
        code += _for_call(number, [_load(argument), _step(_ANY_BIT, _FAST_OPEN, skip_false=1), _step(_RETURN, _REFUSE)])
    code += _for_call(calls.socket, _only_tcp())
    return b"".join([*code, _step(_RETURN, _ALLOW)])


def _only_tcp() -> list[bytes]:
    """Refuse an internet socket that is not a TCP stream; the general filter handles other families."""
    ipv4, ipv6 = _INTERNET
    tcp, default = _PROTOCOLS
    return [
        _load(0),
        _step(_EQUAL, ipv4, skip_true=2),
        _step(_EQUAL, ipv6, skip_true=1),
        _step(_RETURN, _ALLOW),
        _load(1),
        _step(_AND, _TYPE_MASK),
        _step(_EQUAL, _STREAM, skip_true=1),
        _step(_RETURN, _REFUSE),
        _load(2),
        _step(_EQUAL, tcp, skip_true=2),
        _step(_EQUAL, default, skip_true=1),
        _step(_RETURN, _REFUSE),
    ]


def _for_call(number: int, test: list[bytes]) -> list[bytes]:
    """Return the test for one call only; the number is loaded again after it."""
    return [_step(_EQUAL, number, skip_false=len(test) + 1), *test, _step(_LOAD, _NUMBER_AT)]


def _load(argument: int) -> bytes:
    return _step(_LOAD, _ARGUMENTS_AT + 8 * argument)


def _step(operation: int, value: int, *, skip_true: int = 0, skip_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, skip_true, skip_false, value)
