"""Which folders of the user's hold tools and nothing private: what a test suite needs to run, and no more of a HOME."""

from __future__ import annotations

import contextlib
import os
import pwd
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_SYSTEM = """
/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /nix /gnu /sys/devices/system /snap
/run/current-system /var/lib/dpkg
/var/lib/gems /var/lib/ghc /var/lib/texmf /var/cache/fontconfig /home/linuxbrew/.linuxbrew
"""

# Under HOME. Only the parts without credentials, where the rest of a folder may hold some.
_AT_HOME = """
.local/bin .local/lib .local/pipx/venvs .local/share/pipx/venvs .local/share/uv/python .local/share/uv/tools
.local/share/mise/installs .local/share/mise/shims .local/share/fnm .local/share/pnpm .local/share/virtualenvs
.local/share/hatch/env .local/state/fnm_multishells .local/state/nix/profiles .nix-profile
.pyenv .rye/shims .rye/py .rye/tools .rye/self .poetry/bin .poetry/lib .virtualenvs .conda/envs
miniconda3/bin miniconda3/lib miniconda3/envs anaconda3/bin anaconda3/lib anaconda3/envs
miniforge3/bin miniforge3/lib miniforge3/envs mambaforge/bin mambaforge/lib mambaforge/envs
.nvm/versions .nvm/nvm.sh .nvm/nvm-exec .nvm/alias .volta/bin .volta/tools .fnm .bun/bin .bun/install/global .deno/bin
.yarn/bin .npm-global/bin .npm-global/lib .nodenv .n/bin .n/lib
.rustup/toolchains .rustup/settings.toml .rustup/update-hashes .cargo/bin .cargo/registry .cargo/git .cargo/env
go/bin go/pkg .goenv .swiftly .elan .juliaup .rbenv .rvm .gem/ruby .asdf .composer/vendor .phpenv
.sdkman/candidates .jenv .m2/repository .gradle/caches .gradle/wrapper
.dotnet/sdk .dotnet/shared .dotnet/host .dotnet/tools .dotnet/packs .dotnet/dotnet .nuget/packages
.ghcup .cabal/bin .cabal/packages .stack/programs .opam
"""

# Variables that say where tools are.
_NAMED = """
VIRTUAL_ENV CONDA_PREFIX PYENV_ROOT NVM_DIR NVM_BIN NODE_PATH GOROOT RUSTUP_HOME JAVA_HOME MAVEN_HOME GRADLE_HOME
DOTNET_ROOT GEM_HOME GEM_PATH SSL_CERT_FILE SSL_CERT_DIR
"""

# In system folders, for those who may read them: root.
_PRIVATE = """
/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d /etc/ssl/private
/etc/pki/tls/private /etc/letsencrypt /etc/krb5.keytab /etc/wireguard /etc/openvpn /etc/ppp
/etc/NetworkManager/system-connections /etc/apt/auth.conf /etc/apt/auth.conf.d /etc/kubernetes /etc/rancher
/etc/docker /etc/machine-id
"""
_NO_HOME = ("bin", "sbin", "games", "lib")  # where the system says that some of its own users live
_HOST_KEYS = ("/etc/ssh", "ssh_host_*_key")


def system() -> list[Path]:
    """Folders of the machine's own, which every command may read."""
    return [Path(name) for name in _SYSTEM.split()]


def private(home: Path) -> list[Path]:
    """What is masked inside system folders. What this user cannot read needs no mask."""
    there = [Path(name) for name in _PRIVATE.split()] + list(Path(_HOST_KEYS[0]).glob(_HOST_KEYS[1]))
    own = [one for one in homes(home) if one.name not in _NO_HOME]
    there += [one for one in own if any(one.is_relative_to(shown) for shown in system())]
    return [path for path in there if is_there(path)]


def is_there(path: Path) -> bool:
    """And can be read: what this user cannot reach does not exist for a command either."""
    return os.access(path, os.R_OK)


def found(caller: Mapping[str, str], home: Path, also: Iterable[Path] = (), carried: Iterable[Path] = ()) -> list[Path]:
    """Readable besides the system's own folders; `also` is what the user's settings name."""
    out = [path for path in also if is_there(path)]
    out += [path for path in _known(caller, home, carried) if is_there(path) and not too_wide(path, home)]
    return list(dict.fromkeys(out))


def _known(caller: Mapping[str, str], home: Path, carried: Iterable[Path]) -> Iterator[Path]:
    yield from (home / name for name in _AT_HOME.split())
    for name in _NAMED.split():
        yield from (Path(part) for part in caller.get(name, "").split(os.pathsep) if Path(part).is_absolute())
    yield from (Path(prefix) for prefix in (sys.prefix, sys.base_prefix))
    active = [Path(caller["VIRTUAL_ENV"])] if caller.get("VIRTUAL_ENV") else []
    for environment in [*active, *carried, Path(sys.prefix)]:
        yield from _interpreter(environment)
    for entry in caller.get("PATH", "").split(os.pathsep):
        if Path(entry).is_absolute():
            yield from _around(Path(entry))


def _interpreter(environment: Path) -> Iterator[Path]:
    """Where the Python of a virtual environment really lives, if it is one."""
    if is_there(environment / "pyvenv.cfg"):
        yield (environment / "bin" / "python").resolve().parent.parent


def _around(folder: Path) -> Iterator[Path]:
    """A folder of PATH, what its links lead to, and the installation it belongs to."""
    yield folder
    above = folder.parent
    looks_installed = any(is_there(above / part) for part in ("pyvenv.cfg", "conda-meta", "lib", "libexec"))
    if folder.name in ("bin", "shims") and looks_installed and not is_there(above / ".git"):
        yield above


def homes(home: Path) -> list[Path]:
    """Every name of the user's HOME: what the variable says, what the system says, and what they really are."""
    named = [home]
    with contextlib.suppress(KeyError):
        named.append(Path(pwd.getpwuid(os.geteuid()).pw_dir))
    return list(dict.fromkeys([*named, *(path.resolve() for path in named)]))


def too_wide(path: Path, home: Path) -> bool:
    """Whether a folder holds a HOME, or is one, or everything; by whatever name."""
    real = path.resolve()
    if real in (Path("/"), Path("/tmp"), Path("/home")):  # noqa: S108
        return True
    return any(one != Path("/") and (real == one or real in one.parents) for one in homes(home))
