"""Mounts one folder over another with the kernel's overlay, in mounts that only this process and its children have.

Nothing outside sees such a mount, and none outlives its processes, however they end.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from reflectloop.system import tree_walk

_NEW_MOUNTS = 0x00020000  # CLONE_NEWNS
_SLAVE_BELOW = 0x00004000 | 0x00080000  # MS_REC, MS_SLAVE: later mounts of the machine arrive, ours do not leave
_DETACH_NO_FOLLOW = 0x2 | 0x8
# Renamed folders must work as on any disk. Volatile: no sync of the whole disk when it is unmounted, since nothing in
# it must survive a power loss. The rest is named because kernels have different defaults.
_OPTIONS = "redirect_dir=on,volatile,index=off,metacopy=off,xino=auto"
_NEEDED = "trusted.overlay.probe"
_OPAQUE, _REDIRECT = "trusted.overlay.opaque", "trusted.overlay.redirect"
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATIENCE_S = 10.0  # with a sandbox that is being built


class _State:
    entered = kept_out = False
    turn = threading.Lock()


@contextlib.contextmanager
def kept_out() -> Iterator[None]:
    """Leave the mounts of this process alone meanwhile: it belongs to the program that uses the engine."""
    before, _State.kept_out = _State.kept_out, True
    try:
        yield
    finally:
        _State.kept_out = before


def enter() -> str | None:
    """Give this process mounts of its own; return None on success, else the reason.

    Threads inherit them only if they start later, so the process must have one thread.
    """
    if _State.kept_out:
        return "the process is not the engine's own"
    if _State.entered:
        return None
    if os.geteuid() != 0:
        # In a user namespace, the overlay answers EXDEV when a folder of the lower layer is renamed.
        return "not root, and an overlay without root cannot rename folders"
    try:
        if len(os.listdir("/proc/self/task")) > 1:
            return "the process has several threads"
        _call("unshare", _NEW_MOUNTS)
        _call("mount", b"none", b"/", None, _SLAVE_BELOW, None)
    except OSError as fault:
        return f"no mounts of its own: {os.strerror(fault.errno or 0).lower()}"
    _State.entered = True
    return None


def mount(lower: Sequence[Path], upper: Path, work: Path, target: Path) -> None:
    """Mount `upper` over `lower`, the topmost first; raise OSError if the file systems do not allow all it needs."""
    os.setxattr(upper, _NEEDED, b"")  # without such attributes the kernel silently mounts less
    os.removexattr(upper, _NEEDED)
    with contextlib.ExitStack() as stack:
        # Descriptors: a path may hold commas or colons, and commands can read these options.
        layers = []
        for path in (*lower, upper, work):
            layers.append(os.open(path, _FOLDER))
            stack.callback(os.close, layers[-1])
        *below, above, beside = (f"/proc/self/fd/{descriptor}" for descriptor in layers)
        options = f"lowerdir={':'.join(below)},upperdir={above},workdir={beside},{_OPTIONS}"
        _call("mount", b"overlay", os.fsencode(target), b"overlay", 0, options.encode())


def detach(target: Path) -> int | None:
    """Remove a mount of this process, if there is one; return a descriptor of its files, else None.

    The kernel forgets the files when the descriptor is closed, which takes a while if many were read.
    """
    if not _State.entered:
        return None
    files = -1
    try:
        files = os.open(target, _FOLDER)
        _call("umount2", os.fsencode(target), _DETACH_NO_FOLLOW)
    except OSError:
        if files >= 0:
            os.close(files)
        return None
    return files


def unmount(target: Path) -> None:
    """Remove a mount of this process, if there is one."""
    files = detach(target)
    if files is not None:
        os.close(files)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Let one thread at a time build a sandbox or remove a mount.

    bubblewrap reads the table of mounts and then sets each of them, which fails if one disappears meanwhile.
    """
    taken = _State.entered and _State.turn.acquire(timeout=_PATIENCE_S)
    try:
        yield
    finally:
        if taken:
            _State.turn.release()


def is_used() -> bool:
    """Return True if this process may have mounts of its own."""
    return _State.entered


def _call(name: str, *arguments: bytes | int | None) -> None:
    import ctypes  # noqa: PLC0415 - most commands mount nothing

    values = [ctypes.c_ulong(value) if isinstance(value, int) else ctypes.c_char_p(value) for value in arguments]
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*values):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


# The upper layer ---------------------------------------------------------------------------------------------------


def changed_names(lower: Path, upper: Path) -> list[bytes]:
    """Return the paths at which the upper layer adds, changes or hides something, without the top-level `.git`.

    A folder that the lower layer does not have, or that was replaced or renamed, is returned as one path.
    """
    names: list[bytes] = []
    for folder in tree_walk.walk(upper):
        if folder.is_top:
            folder.entries = [entry for entry in folder.entries if entry.name != ".git"]
        deeper = []
        for entry in folder.entries:
            path = folder.within(entry.name)
            if entry.is_dir(follow_symlinks=False) and _is_merged(folder.fd, entry.name, lower / path):
                deeper.append(entry)
            else:
                names.append(os.fsencode(path))
        folder.entries = deeper
    return names


def _is_merged(above: int, name: str, below: Path) -> bool:
    """Return True if a folder of the upper layer shows the entries of the lower layer's folder of the same path."""
    try:
        if not stat.S_ISDIR(below.lstat().st_mode):
            return False
    except (FileNotFoundError, NotADirectoryError):
        return False
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        return not {_OPAQUE, _REDIRECT}.intersection(os.listxattr(folder))
    finally:
        os.close(folder)


# Trying it ---------------------------------------------------------------------------------------------------------


class _Probe(NamedTuple):
    lower: Path
    upper: Path
    work: Path
    target: Path


def try_in(folder: Path) -> str | None:
    """Mount an overlay below an empty folder and change files in it; return None if all works, else the reason."""
    refusal = enter()
    if refusal:
        return refusal
    probe = _Probe(*(folder / name for name in _Probe._fields))
    for path in probe:
        path.mkdir()
    (probe.lower / "old").mkdir()
    (probe.lower / "old" / "file").write_text("lower")
    (probe.lower / "gone").write_text("lower")
    try:
        mount([probe.lower], probe.upper, probe.work, probe.target)
    except OSError as fault:
        return f"the kernel refuses it here: {os.strerror(fault.errno or 0).lower()}"
    try:
        return _try(probe)
    except OSError as fault:
        return f"it does not work here: {fault}"
    finally:
        unmount(probe.target)


def _try(probe: _Probe) -> str | None:
    (probe.target / "old").rename(probe.target / "new")
    (probe.target / "gone").unlink()
    with (probe.target / "new" / "file").open("a") as file:
        file.write(" and upper")
    if sorted(changed_names(probe.lower, probe.upper)) != [b"gone", b"new", b"old"]:
        return "the kernel stores changes in a way that is not known"
    if (probe.target / "new" / "file").read_text() != "lower and upper" or (probe.target / "gone").exists():
        return "the files in it are not those that were written"
    same = {os.lstat(path).st_dev for path in (probe.target, probe.target / "new" / "file")}
    return None if len(same) == 1 else os.strerror(errno.EXDEV).lower()
