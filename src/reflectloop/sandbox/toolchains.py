"""Lists the folders that commands may read because they contain tools, and the private files in them to hide.

Commands of ordinary users cannot read what other users may not read. Commands of root have no capabilities in the
sandbox, but still own these files, so they are hidden.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import stat
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class _SearchDepth(NamedTuple):
    """The depth to which a folder is searched."""

    folder: str
    depth: int
    besides: tuple[str, ...] = ()  # subfolders with an entry of their own


_UNLIMITED = 40
# Deeper levels of /usr come from packages and are readable for everybody; the others may contain people's files.
_SEARCHED = (
    _SearchDepth("/etc", _UNLIMITED),
    _SearchDepth("/opt", _UNLIMITED),
    _SearchDepth("/usr", 2, besides=("/usr/local", "/usr/etc")),
    _SearchDepth("/usr/local", _UNLIMITED),
    _SearchDepth("/usr/etc", _UNLIMITED),
)
_MOST_ENTRIES = 300_000  # per tree; folders beyond are hidden completely, because they were not searched
_MANY = 50  # with more hidden files than this, a folder is hidden completely if most of it is hidden
_GOOD_FOR_S = 30.0
_remembered: dict[tuple[_SearchDepth, ...], tuple[float, list[Path]]] = {}


def from_others(searches: Sequence[_SearchDepth] = _SEARCHED) -> list[Path]:
    """Return the files and folders that root's commands could read and other users may not; [] if not root."""
    if os.geteuid() != 0:
        return []
    key = tuple(searches)
    searched_at, paths = _remembered.get(key, (float("-inf"), []))
    if time.monotonic() - searched_at > _GOOD_FOR_S:
        paths = [path for search in searches for path in _search(search)]
        _remembered[key] = (time.monotonic(), paths)
    return paths


def _search(search: _SearchDepth) -> Iterator[Path]:
    waiting = deque([(search.folder, search.depth)])  # breadth first: the limit then affects only deep folders
    count = 0
    while waiting:
        folder, depth = waiting.popleft()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        count += len(entries)
        if count > _MOST_ENTRIES:
            yield Path(folder)
            continue
        files: list[Path] = []
        for entry in entries:
            mode = _mode(entry)
            if mode and stat.S_ISDIR(mode) and mode & stat.S_IXOTH:
                if depth > 1 and entry.path not in search.besides:
                    waiting.append((entry.path, depth - 1))
            elif mode and _is_hidden(mode):
                files.append(Path(entry.path))
        yield from [Path(folder)] if len(files) > max(_MANY, len(entries) // 2) else files


def _mode(entry: os.DirEntry[str]) -> int | None:
    """Return the mode of an entry that uid 0 can read without capabilities, else None."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    by_owner = status.st_uid == 0 and status.st_mode & stat.S_IRUSR
    by_group = status.st_gid == os.getegid() and status.st_mode & stat.S_IRGRP
    by_others = status.st_mode & (stat.S_IROTH | stat.S_IXOTH)
    return status.st_mode if by_owner or by_group or by_others else None


def _is_hidden(mode: int) -> bool:
    """Return True if other users may neither read nor execute it, and for every socket."""
    return stat.S_ISSOCK(mode) or (not stat.S_ISLNK(mode) and not mode & (stat.S_IROTH | stat.S_IXOTH))


_SYSTEM = """
/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /nix /gnu /sys/devices/system /snap
/run/current-system /var/lib/dpkg
/var/lib/gems /var/lib/ghc /var/lib/texmf /var/cache/fontconfig /home/linuxbrew/.linuxbrew
"""

# Below HOME: folders that contain only programs. Never their parents, which may contain credentials.
_AT_HOME = """
.local/bin .local/lib/python3* .local/lib/node_modules .local/pipx/venvs
.local/share/pipx/venvs .local/share/uv/python .local/share/uv/tools
.local/share/mise/installs .local/share/mise/shims .local/share/fnm .local/share/pnpm .local/share/virtualenvs
.local/share/hatch/env .local/state/fnm_multishells .local/state/nix/profiles .nix-profile
.pyenv/bin .pyenv/shims .pyenv/versions .pyenv/libexec .pyenv/pyenv.d .pyenv/plugins .pyenv/version
.rye/shims .rye/py .rye/tools .rye/self .poetry/bin .poetry/lib .virtualenvs .conda/envs
miniconda3/bin miniconda3/condabin miniconda3/lib miniconda3/envs anaconda3/bin anaconda3/condabin anaconda3/lib
anaconda3/envs miniforge3/bin miniforge3/condabin miniforge3/lib miniforge3/envs mambaforge/bin mambaforge/condabin
mambaforge/lib mambaforge/envs
.nvm/versions .nvm/nvm.sh .nvm/nvm-exec .nvm/alias .volta/bin .volta/tools .fnm .bun/bin .bun/install/global .deno/bin
.yarn/bin .npm-global/bin .npm-global/lib .nodenv/bin .nodenv/shims .nodenv/versions .nodenv/libexec .nodenv/version
.n/bin .n/lib
.rustup/toolchains .rustup/settings.toml .rustup/update-hashes .cargo/bin .cargo/registry .cargo/git .cargo/env
go/bin go/pkg .goenv/bin .goenv/shims .goenv/versions .goenv/libexec .goenv/version
.swiftly/bin .swiftly/toolchains .elan/bin .elan/toolchains .elan/settings.toml .juliaup/bin .julia/juliaup
.rbenv/bin .rbenv/shims .rbenv/versions .rbenv/libexec .rbenv/plugins .rbenv/version
.rvm/bin .rvm/rubies .rvm/gems .rvm/scripts .rvm/wrappers .rvm/environments .gem/ruby
.asdf/bin .asdf/lib .asdf/libexec .asdf/shims .asdf/installs .asdf/plugins .asdf/asdf.sh
.composer/vendor .config/composer/vendor .phpenv/bin .phpenv/shims .phpenv/versions .phpenv/libexec .phpenv/version
.sdkman/candidates .jenv/bin .jenv/shims .jenv/versions .jenv/libexec .jenv/version .m2/repository .gradle/caches
.gradle/wrapper .dotnet/sdk .dotnet/shared .dotnet/host .dotnet/tools .dotnet/packs .dotnet/dotnet .nuget/packages
.ghcup/bin .ghcup/ghc .ghcup/hls .cabal/bin .cabal/packages .cabal/store .stack/programs
.local/share/claude/versions .local/share/cursor-agent/versions .claude/local/claude .claude/local/node_modules
.opam/config .opam/opam-init .opam/*/bin .opam/*/lib .opam/*/share .opam/*/.opam-switch
"""

# Variables that name an installation, and its parts that contain programs. The rest (settings, credentials) stays
# hidden.
_VENV = "bin lib lib64 include pyvenv.cfg share/jupyter"
_PYTHON = "bin lib lib64 include"
_CONDA = (
    f"{_PYTHON} condabin conda-meta envs etc/fonts libexec sbin shell share ssl x86_64-conda-linux-gnu compiler_compat"
)
_JAVA = "bin lib conf include jmods jre legal release"
_GEMS = "bin bundler build_info cache doc extensions gems plugins ruby specifications"
_NAMED = {
    "VIRTUAL_ENV": _VENV,
    "CONDA_PREFIX": _CONDA,
    "PYENV_ROOT": "bin shims versions libexec pyenv.d plugins version",
    "NVM_DIR": "versions nvm.sh nvm-exec alias",
    "NVM_BIN": ".",
    "GOROOT": "VERSION api bin go.env lib misc pkg src test",
    "RUSTUP_HOME": "toolchains settings.toml update-hashes",
    "JAVA_HOME": _JAVA,
    "MAVEN_HOME": "bin boot lib conf/logging",
    "GRADLE_HOME": "bin lib",
    "DOTNET_ROOT": "dotnet host packs sdk shared templates tools",
    "GEM_HOME": _GEMS,
    "GEM_PATH": _GEMS,
}
_FILES = ("SSL_CERT_FILE",)
_NODE_MODULES = "node_modules"
_MODULES = "NODE_PATH"  # only its folders named node_modules
_BESIDE = ("lib", "lib64", "libexec")  # libraries of the programs in `bin`
_PACKAGES = ("lib/python3*", "lib64/python3*", "lib/node_modules")
_SHARED = ("share", "include")  # also, for an installation outside HOME

# Private files in system folders that root could read.
_PRIVATE = """
/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d /etc/ssl/private
/etc/pki/tls/private /etc/letsencrypt /etc/krb5.keytab /etc/wireguard /etc/openvpn /etc/ppp
/etc/NetworkManager/system-connections /etc/apt/auth.conf /etc/apt/auth.conf.d /etc/kubernetes /etc/rancher
/etc/docker /etc/machine-id
"""
_NO_HOME = ("bin", "sbin", "games", "lib")  # home folders of system users
_HOST_KEYS = ("/etc/ssh", "ssh_host_*_key")


@functools.cache
def system_folders() -> tuple[Path, ...]:
    """Return the machine's own folders, which every command may read."""
    return tuple(Path(name) for name in _SYSTEM.split())


def private_paths(home: Path) -> list[Path]:
    """Return the paths to mask inside system folders. Unreadable paths need no mask."""
    there = [Path(name) for name in _PRIVATE.split()] + list(Path(_HOST_KEYS[0]).glob(_HOST_KEYS[1]))
    own_homes = [folder for folder in homes(home) if folder.name not in _NO_HOME]
    there += [
        folder
        for folder in own_homes
        if any(folder.is_relative_to(system_folder) for system_folder in system_folders())
    ]
    return list(dict.fromkeys([*(path for path in there if is_there(path)), *from_others()]))


def is_there(path: Path) -> bool:
    """Return True if a path exists and this user can read it."""
    return os.access(path, os.R_OK)


def readable_tools(
    caller: Mapping[str, str], home: Path, also: Iterable[Path] = (), root: Path | None = None
) -> list[Path]:
    """Return the readable paths in addition to the system folders.

    `also` comes from the user's settings. Links inside `root`, the project, are ignored: the repository or a
    sandboxed command may have created them.
    """
    out = [path for path in also if is_there(path)]
    places = [*_allowed(home), *_named(caller, home), *_engine(), *_searched(caller, home)]
    out += [path for path in places if is_there(path) and not too_wide(path, home)]
    out += _linked(caller, [*system_folders(), *out], root)
    return list(dict.fromkeys(out))


_known_tools: dict[tuple[object, ...], tuple[float, list[Path]]] = {}


def remembered_tools(caller: Mapping[str, str], home: Path, also: Sequence[Path], root: Path) -> list[Path]:
    """Return what `readable_tools` found within the last half minute: most boxes of a run have the same tools."""
    variables = tuple(caller.get(name, "") for name in ("PATH", *_NAMED, *_FILES, _MODULES))
    key = (variables, home, tuple(also), root)
    found_at, paths = _known_tools.get(key, (float("-inf"), []))
    if time.monotonic() - found_at > _GOOD_FOR_S:
        paths = readable_tools(caller, home, also, root)
        _known_tools[key] = (time.monotonic(), paths)
    return list(paths)


def _allowed(home: Path) -> Iterator[Path]:
    for name in _AT_HOME.split():
        yield from sorted(home.glob(name)) if "*" in name else (home / name,)


def _named(caller: Mapping[str, str], home: Path) -> Iterator[Path]:
    for name, parts in _NAMED.items():
        for place in _absolute(caller.get(name, "")):
            if name == "NVM_BIN" or not too_wide(place, home):
                yield from (place / part for part in parts.split())
    yield from (path for name in _FILES for path in _absolute(caller.get(name, "")) if path.is_file())
    yield from (path for path in _absolute(caller.get(_MODULES, "")) if path.name == "node_modules")


def _engine() -> Iterator[Path]:
    """Yield the folders of the engine's Python."""
    yield from (Path(sys.prefix) / part for part in _VENV.split())
    for place in (Path(sys.base_prefix), Path(sys.executable).resolve().parent.parent):
        yield from (place / part for part in _PYTHON.split())


def _searched(caller: Mapping[str, str], home: Path) -> Iterator[Path]:
    """Yield the folders of PATH with their libraries."""
    for folder in _absolute(caller.get("PATH", "")):
        yield folder
        place = folder.parent
        if folder.name in ("bin", "shims", "condabin", "Scripts") and not too_wide(place, home):
            if place.name == ".local":  # its lib and share also contain programs' data
                yield from (path for name in _PACKAGES for path in sorted(place.glob(name)))
                continue
            shared = () if any(place.is_relative_to(home_name) for home_name in homes(home)) else _SHARED
            yield from (place / part for part in (*_BESIDE, *shared, *_parts(place)))


def _linked(caller: Mapping[str, str], visible: Sequence[Path], root: Path | None) -> Iterator[Path]:
    """Yield the programs that links in folders of PATH point to, if not visible anyway.

    Each is a single file, or the package in node_modules that it belongs to.
    """
    covering = {path.resolve() for path in visible}
    for folder in _absolute(caller.get("PATH", "")):
        if any(folder.is_relative_to(place) for place in (*system_folders(), *((root,) if root else ()))):
            continue
        with contextlib.suppress(OSError):
            for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
                target = Path(entry.path).resolve() if entry.is_symlink() else None
                if target and not covering.intersection((target, *target.parents)) and _is_program(target):
                    yield _package_of(target)


def _package_of(program: Path) -> Path:
    """Return the folder of the package in node_modules to which a program belongs, or the program itself."""
    if _NODE_MODULES not in program.parts:
        return program
    at = len(program.parts) - 1 - program.parts[::-1].index(_NODE_MODULES)
    size = 2 if program.parts[at + 1].startswith("@") else 1
    return Path(*program.parts[: at + 1 + size])


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.R_OK | os.X_OK)


def _parts(place: Path) -> list[str]:
    """Return the additional parts of a known kind of installation."""
    if is_there(place / "pyvenv.cfg"):
        return _VENV.split()
    if is_there(place / "conda-meta"):
        return _CONDA.split()
    if is_there(place / "lib" / "modules") or is_there(place / "jre"):
        return _JAVA.split()
    if is_there(place / "src" / "runtime") and is_there(place / "VERSION"):
        return _NAMED["GOROOT"].split()
    return []


def _absolute(text: str) -> list[Path]:
    return [Path(part) for part in text.split(os.pathsep) if part.startswith(os.sep)]


@functools.cache
def homes(home: Path) -> list[Path]:
    """Return every path of the user's HOME: by the variable, by the user database, and resolved."""
    named = [home]
    with contextlib.suppress(KeyError):
        named.append(Path(pwd.getpwuid(os.geteuid()).pw_dir))
    return list(dict.fromkeys([*named, *(path.resolve() for path in named)]))


def too_wide(path: Path, home: Path) -> bool:
    """Return True if a folder is a HOME, contains one, or is the root, under any path."""
    return path.resolve() in _wide(home)


@functools.cache
def _wide(home: Path) -> set[Path]:
    named = [path for path in homes(home) if path != Path("/")]
    above = [parent for path in named for parent in path.parents]
    return {Path("/"), Path("/tmp"), Path("/home"), *named, *above}  # noqa: S108
