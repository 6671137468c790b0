"""What a command sees of the machine, as a table of mounts: one path inside, one place outside."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Literal, NamedTuple

from reflectloop.sandbox import toolchains
from reflectloop.workspace.checkout import OBJECTS_INSIDE, Workspace

TEMP = Path("/tmp")  # noqa: S108 - inside; each workspace has its own
_OTHER_TEMP = Path("/var/tmp")  # noqa: S108
_SPARE_HOME = Path("/run/home")
# procfs lets root's uid write root's files without any capability, and core_pattern starts programs outside.
_PROC_READ_ONLY = ("sys", "sysrq-trigger", "fs", "mtrr", "acpi", "scsi", "driver")

_EMPTY = ("/home", "/mnt", "/srv", "/media", "/var/log", "/var/lib", "/var/cache", "/run/lock", "/root")

_LINKED = (("/var/run", "/run"), ("/var/lock", "/run/lock"), ("/var/tmp", "/tmp"))  # noqa: S108

Kind = Literal["read", "write", "link", "mask"]


class Mount(NamedTuple):
    kind: Kind
    inside: Path
    outside: Path


class MountTable(NamedTuple):
    """In the order of mounting: a later mount lies over an earlier one."""

    mounts: tuple[Mount, ...]
    home: Path
    root: Path  # where the project is seen
    read_only: bool = False  # whether it may be changed there

    def points(self) -> Iterator[Path]:
        """Every folder outside that a mount point inside a writable one passes through."""
        writable = [mount for mount in self.mounts if mount.kind == "write"]
        for mount in self.mounts:
            above = [one for one in writable if one is not mount and mount.inside.is_relative_to(one.inside)]
            if above:
                nearest = max(above, key=lambda one: len(one.inside.parts))
                path = nearest.outside
                for part in mount.inside.relative_to(nearest.inside).parts:
                    path /= part
                    yield path

    def there(self) -> MountTable:
        """Return the view without masks over what is gone meanwhile: bubblewrap could not put them anywhere."""
        gone = {mount for mount in self.mounts if mount.kind == "mask" and not os.path.lexists(mount.outside)}
        return self._replace(mounts=tuple(mount for mount in self.mounts if mount not in gone)) if gone else self

    def words(self, shared_memory_bytes: int | None = None) -> Iterator[str]:
        """Yield the same in bubblewrap's language, with shared memory up to a size."""
        for mount in self.mounts:
            inside, outside = os.fspath(mount.inside), os.fspath(mount.outside)
            if mount.kind == "link":
                yield from ("--symlink", os.fspath(mount.outside.readlink()), inside)
            elif mount.kind == "mask":
                yield from (
                    ("--tmpfs", inside, "--remount-ro", inside)
                    if mount.outside.is_dir()
                    else (
                        "--ro-bind",
                        "/dev/null",
                        inside,
                    )
                )
            else:
                yield from ("--ro-bind" if mount.kind == "read" else "--bind", outside, inside)
        sized = () if shared_memory_bytes is None else ("--size", str(shared_memory_bytes))
        yield from ("--dev", "/dev", *sized, "--tmpfs", "/dev/shm", "--remount-ro", "/dev", "--proc", "/proc")  # noqa: S108
        if os.geteuid() == 0:
            for name in filter(os.path.exists, (f"/proc/{name}" for name in _PROC_READ_ONLY)):
                yield from ("--ro-bind", name, name)
        for name in _EMPTY:
            yield from ("--dir", name)
        for name, target in _LINKED:
            if not any(mount.inside.is_relative_to(name) for mount in self.mounts):
                yield from ("--symlink", target, name)
        if self.read_only:  # last: the mounts inside it want their mount points made
            yield from ("--remount-ro", os.fspath(self.root))
        yield from ("--remount-ro", "/")


def of(
    space: Workspace,
    caller: Mapping[str, str],
    also: Sequence[Path],
    *,
    home: Path | None = None,
    read_only: bool = False,
) -> MountTable:
    """The system and tools read-only, a HOME and a temp folder of its own, the workspace where the project is."""
    root = space.root
    own_home, home = home or space.home, _home(caller, root)
    mounts = list(_system())
    private = toolchains.private(Path(caller.get("HOME") or "/"))
    mounts += [Mount("mask", path, path) for path in private if not {*path.parents}.intersection(private)]
    mounts.append(Mount("write", TEMP, space.tmp))
    mounts.append(Mount("write", home, own_home))
    for path in toolchains.found(caller, home, also, root):
        if not _covered(path, mounts) and not path.is_relative_to(root) and not root.is_relative_to(path):
            mounts.append(Mount("read", path, path))
    mounts.append(Mount("write", root, space.repo))
    mounts += [
        Mount("read", root / path, source)
        for path, source in space.carried.items()
        # A command may have left a link there: what it leads to is shown only if it would be anyway.
        if not source.is_symlink() or _covered(source.resolve(), mounts)
    ]
    resolver = Path("/etc/resolv.conf").resolve()
    mounts += (
        [Mount("read", resolver, resolver)] if toolchains.is_there(resolver) and not _covered(resolver, mounts) else []
    )
    mounts += [Mount("read", OBJECTS_INSIDE / str(number), path) for number, path in enumerate(space.borrowed)]
    mounts += _sockets(mounts)
    if any(mount.inside.is_relative_to(_OTHER_TEMP) for mount in mounts):  # else it is a link
        mounts.insert(0, Mount("write", _OTHER_TEMP, space.tmp))
    return MountTable(tuple(mounts), home, root, read_only)


def _home(caller: Mapping[str, str], root: Path) -> Path:
    """The user's own path, so that what tools expect under HOME is where they look; never one over the project."""
    home = Path(os.path.normpath(caller.get("HOME") or "/"))
    usable = home.is_absolute() and home != Path("/") and not home.is_relative_to(root)
    return home if usable and not _covered(home, list(_system())) else _SPARE_HOME


def _system() -> Iterator[Mount]:
    for path in toolchains.system():
        if path.is_symlink():
            yield Mount("link", path, path)
        elif toolchains.is_there(path):
            yield Mount("read", path, path)


def _covered(path: Path, mounts: Sequence[Mount]) -> bool:
    """Whether a path is shown already, and nothing that is hidden lies on the way to it."""
    above = {path, *path.parents}
    return any(mount.kind in ("read", "link") and mount.inside in above for mount in mounts) and not any(
        mount.kind == "mask" and mount.inside in above for mount in mounts
    )


def readable(space: Workspace, caller: Mapping[str, str], also: Sequence[Path]) -> list[Path]:
    """The same for walls that hide nothing inside what they show: folders with something private are listed apart."""
    home = Path(os.path.normpath(caller.get("HOME") or "/"))
    hidden = toolchains.private(home)
    beside = {parent for path in hidden for parent in path.parents}
    out = [part for path in toolchains.system() for part in _but(path, set(hidden), beside)]
    out += [
        path
        for path in toolchains.found(caller, home, also, space.root)
        if path in also or not _stands_under(path, toolchains.system()) or _stands_under(path, hidden)
    ]
    out += [*space.borrowed, Path("/proc")]
    return list(dict.fromkeys(out))


def _sockets(mounts: Sequence[Mount]) -> list[Mount]:
    """Return masks for the sockets that lie in what is shown: to be read-only does not keep anyone from calling."""
    try:
        names = [line.partition("/") for line in Path("/proc/net/unix").read_text(errors="replace").splitlines()]
    except OSError:
        return []
    bound = [Path(f"/{rest}") for _, slash, rest in names if slash]
    shown = [mount for mount in mounts if mount.kind == "read"]
    masked = {mount.outside for mount in mounts if mount.kind == "mask"}
    return [
        Mount("mask", mount.inside / path.relative_to(mount.outside), path)
        for path in dict.fromkeys(bound)
        for mount in shown
        if path.is_relative_to(mount.outside) and path.is_socket()
        if not masked.intersection((path, *path.parents))
    ]


def _stands_under(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _but(path: Path, hidden: AbstractSet[Path], beside: AbstractSet[Path]) -> Iterator[Path]:
    """Yield a path, or in pieces if something below it is hidden; `beside` holds the folders above what is."""
    if path in hidden or not toolchains.is_there(path):
        return
    if path not in beside:
        yield path
        return
    for child in sorted(path.iterdir()):
        yield from _but(child, hidden, beside)
