"""The mount table of a command: which outside path it sees at which inside path."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Literal, NamedTuple

from reflectloop.sandbox import toolchains
from reflectloop.workspace.carry import CACHES, MODULES, has_cache
from reflectloop.workspace.checkout import OBJECTS_INSIDE, Workspace

TEMP = Path("/tmp")  # noqa: S108 - inside; each workspace has its own
_OTHER_TEMP = Path("/var/tmp")  # noqa: S108
_SPARE_HOME = Path("/run/home")
# procfs lets uid 0 write without any capability, and core_pattern could start programs outside.
_PROC_READ_ONLY = ("sys", "sysrq-trigger", "fs", "mtrr", "acpi", "scsi", "driver")

_EMPTY = ("/home", "/mnt", "/srv", "/media", "/var/log", "/var/lib", "/var/cache", "/run/lock", "/root")

_LINKED = (("/var/run", "/run"), ("/var/lock", "/run/lock"), ("/var/tmp", "/tmp"))  # noqa: S108

Kind = Literal["read", "write", "link", "mask", "scratch"]  # scratch: empty and writable, for one command


class Mount(NamedTuple):
    kind: Kind
    inside: Path
    outside: Path


class MountTable(NamedTuple):
    """Mounts in order: a later mount covers an earlier one."""

    mounts: tuple[Mount, ...]
    home: Path
    root: Path  # the project's path inside
    read_only: bool = False  # True if commands may not change the project

    def points(self) -> Iterator[Path]:
        """Yield every outside path through which a mount point inside a writable mount passes."""
        writable = [mount for mount in self.mounts if mount.kind == "write"]
        for mount in self.mounts:
            above = [
                candidate
                for candidate in writable
                if candidate is not mount and mount.inside.is_relative_to(candidate.inside)
            ]
            if above:
                nearest = max(above, key=lambda candidate: len(candidate.inside.parts))
                path = nearest.outside
                for part in mount.inside.relative_to(nearest.inside).parts:
                    path /= part
                    yield path

    def there(self) -> MountTable:
        """Return the table without mounts over paths that no longer exist: bubblewrap could not mount them."""
        over = [mount for mount in self.mounts if mount.kind in ("mask", "scratch")]
        missing = {mount for mount in over if not os.path.lexists(mount.outside)}
        return self._replace(mounts=tuple(mount for mount in self.mounts if mount not in missing)) if missing else self

    def with_sealed(self, paths: Iterable[tuple[Path, Path]]) -> MountTable:
        """Return the table with paths of the project, and their sources, that commands may only read."""
        more = tuple(Mount("read", self.root / path, source) for path, source in paths)
        return self._replace(mounts=(*self.mounts, *more)) if more else self

    def words(self, shared_memory_bytes: int | None = None) -> Iterator[str]:
        """Yield bubblewrap's arguments for the table, with a size limit for shared memory."""
        sized = () if shared_memory_bytes is None else ("--size", str(shared_memory_bytes))
        for mount in self.mounts:
            yield from _words(mount, sized)
        yield from ("--dev", "/dev", *sized, "--tmpfs", "/dev/shm", "--remount-ro", "/dev", "--proc", "/proc")  # noqa: S108
        if os.geteuid() == 0:
            for name in filter(os.path.exists, (f"/proc/{name}" for name in _PROC_READ_ONLY)):
                yield from ("--ro-bind", name, name)
        for name in _EMPTY:
            yield from ("--dir", name)
        for name, target in _LINKED:
            if not any(mount.inside.is_relative_to(name) for mount in self.mounts):
                yield from ("--symlink", target, name)
        if self.read_only:  # last: mounts inside it need their mount points created first
            yield from ("--remount-ro", os.fspath(self.root))
        yield from ("--remount-ro", "/")


def _words(mount: Mount, sized: tuple[str, ...]) -> tuple[str, ...]:
    """Return bubblewrap's arguments for one mount."""
    inside, outside = os.fspath(mount.inside), os.fspath(mount.outside)
    if mount.kind == "scratch":
        return (*sized, "--tmpfs", inside)
    if mount.kind == "link":
        return ("--symlink", os.fspath(mount.outside.readlink()), inside)
    if mount.kind == "mask":
        is_folder = mount.outside.is_dir()
        return ("--tmpfs", inside, "--remount-ro", inside) if is_folder else ("--ro-bind", os.devnull, inside)
    return ("--ro-bind" if mount.kind == "read" else "--bind", outside, inside)


def build_mounts(
    space: Workspace,
    caller: Mapping[str, str],
    also: Sequence[Path],
    *,
    home: Path | None = None,
    read_only: bool = False,
) -> MountTable:
    """Build the mounts: system and tools read-only, a separate HOME and temp folder, the workspace as the project."""
    root = space.root
    own_home, home = home or space.home, _home(caller, root)
    mounts = list(_system())
    private = toolchains.private_paths(Path(caller.get("HOME") or "/"))
    mounts += [Mount("mask", path, path) for path in private if not {*path.parents}.intersection(private)]
    mounts.append(Mount("write", TEMP, space.tmp))
    mounts.append(Mount("write", home, own_home))
    for path in (*toolchains.remembered_tools(caller, home, also, root), *linked_environments(space, home)):
        if not _covered(path, mounts) and not path.is_relative_to(root) and not root.is_relative_to(path):
            mounts.append(Mount("read", path, path))
    mounts.append(Mount("write", root, space.repo))
    mounts += [
        Mount("read", root / path, source)
        for path, source in space.carried.items()
        # A command may have left a link there: its target is mounted only if it is visible anyway.
        if not source.is_symlink() or _covered(source.resolve(), mounts)
    ]
    mounts += [Mount("scratch", root / path, source) for path, source in caches(space).items()]
    resolver = Path("/etc/resolv.conf").resolve()
    mounts += (
        [Mount("read", resolver, resolver)] if toolchains.is_there(resolver) and not _covered(resolver, mounts) else []
    )
    mounts += [Mount("read", OBJECTS_INSIDE / str(number), path) for number, path in enumerate(space.borrowed)]
    mounts += _sockets(mounts)
    if any(mount.inside.is_relative_to(_OTHER_TEMP) for mount in mounts):  # otherwise it is a link
        mounts.insert(0, Mount("write", _OTHER_TEMP, space.tmp))
    return MountTable(tuple(mounts), home, root, read_only)


def linked_environments(space: Workspace, home: Path) -> list[Path]:
    """Return environments outside of the project that it has links to: their programs contain their path."""
    return [path for path in space.linked if not toolchains.too_wide(path, home)]


def caches(space: Workspace) -> dict[Path, Path]:
    """Return the cache folders in read-only node_modules, relative to the project, with their sources."""
    modules = {path: source for path, source in space.carried.items() if path.name == MODULES and has_cache(source)}
    return {
        path / name: source / name for path, source in modules.items() for name in CACHES if has_cache(source, name)
    }


def _home(caller: Mapping[str, str], root: Path) -> Path:
    """Return the path of HOME inside: the user's own, where tools expect it, unless the project is above it."""
    home = Path(os.path.normpath(caller.get("HOME") or "/"))
    usable = home.is_absolute() and home != Path("/") and not home.is_relative_to(root)
    return home if usable and not _covered(home, list(_system())) else _SPARE_HOME


def _system() -> Iterator[Mount]:
    for path in toolchains.system_folders():
        if path.is_symlink():
            yield Mount("link", path, path)
        elif toolchains.is_there(path):
            yield Mount("read", path, path)


def _covered(path: Path, mounts: Sequence[Mount]) -> bool:
    """Return True if a path is visible already and no mask covers it."""
    above = {path, *path.parents}
    return any(mount.kind in ("read", "link") and mount.inside in above for mount in mounts) and not any(
        mount.kind == "mask" and mount.inside in above for mount in mounts
    )


def readable_paths(space: Workspace, caller: Mapping[str, str], also: Sequence[Path]) -> list[Path]:
    """Return the readable paths for Landlock, which cannot mask: folders with private files are split."""
    home = Path(os.path.normpath(caller.get("HOME") or "/"))
    hidden = toolchains.private_paths(home)
    parents = {parent for path in hidden for parent in path.parents}
    out = [part for path in toolchains.system_folders() for part in _without_hidden(path, set(hidden), parents)]
    out += [
        path
        for path in toolchains.remembered_tools(caller, home, also, space.root)
        if path in also or not _is_below(path, toolchains.system_folders()) or _is_below(path, hidden)
    ]
    out += [*space.borrowed, *linked_environments(space, home), Path("/proc")]
    return list(dict.fromkeys(out))


def _sockets(mounts: Sequence[Mount]) -> list[Mount]:
    """Return masks for the sockets in readable mounts: read-only does not prevent connecting to them."""
    try:
        names = [line.partition("/") for line in Path("/proc/net/unix").read_text(errors="replace").splitlines()]
    except OSError:
        return []
    bound = [Path(f"/{rest}") for _, slash, rest in names if slash]
    visible = [mount for mount in mounts if mount.kind == "read"]
    masked = {mount.outside for mount in mounts if mount.kind == "mask"}
    return [
        Mount("mask", mount.inside / path.relative_to(mount.outside), path)
        for path in dict.fromkeys(bound)
        for mount in visible
        if path.is_relative_to(mount.outside) and path.is_socket()
        if not masked.intersection((path, *path.parents))
    ]


def _is_below(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _without_hidden(path: Path, hidden: AbstractSet[Path], parents: AbstractSet[Path]) -> Iterator[Path]:
    """Yield a path, or its parts without the hidden ones; `parents` holds the folders above hidden paths."""
    if path in hidden or not toolchains.is_there(path):
        return
    if path not in parents:
        yield path
        return
    for child in sorted(path.iterdir()):
        yield from _without_hidden(child, hidden, parents)
