"""Builds a command's environment: of the caller's variables only those for tools and locale."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from reflectloop.sandbox.mounts import TEMP, MountTable
from reflectloop.system import process
from reflectloop.system.patterns import lazy
from reflectloop.workspace.carry import ENVIRONMENTS, MODULES
from reflectloop.workspace.checkout import Workspace

ALLOWED = frozenset(
    [
        "PATH",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TERM",
        "COLORTERM",
        "NO_COLOR",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "PYENV_ROOT",
        "PYENV_VERSION",
        "NVM_DIR",
        "NVM_BIN",
        "NODE_PATH",
        "GOROOT",
        "GOPATH",
        "GOTOOLCHAIN",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "RUSTUP_TOOLCHAIN",
        "JAVA_HOME",
        "MAVEN_HOME",
        "GRADLE_HOME",
        "DOTNET_ROOT",
        "GEM_HOME",
        "GEM_PATH",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "NIX_PATH",
    ]
)
_CREDENTIAL = lazy(r"(?i)(?:^|_)(?:API_?KEY|TOKEN|SECRET|SECRET_KEY|PASSWORD|PASSWD|MCP_URL|CREDENTIALS?)$")
_ALLOWED_PREFIX = "LC_"
MARK = "REFLECTLOOP_COMMAND"
RUN = "REFLECTLOOP_RUN"


# Folders below the user's HOME that tools need, although the command has another HOME.
_UNDER_HOME = {"PYENV_ROOT": ".pyenv", "RUSTUP_HOME": ".rustup", "NVM_DIR": ".nvm"}


def build(
    workspace: Workspace,
    caller: Mapping[str, str],
    view: MountTable | None,
    also: Sequence[str],
    own_home: Path | None = None,
    *,
    marked: bool = True,
) -> dict[str, str]:
    """Return the environment of a command. With mounts, HOME and the temp folder have their usual paths.

    `marked`: a variable names the workspace, by which leftover processes are found.
    """
    env = {key: caller[key] for key in caller if key in ALLOWED or key.startswith(_ALLOWED_PREFIX) or key in also}
    env.setdefault("PATH", os.defpath)
    env.setdefault("LANG", "C.UTF-8")
    if view is None:
        home = Path(caller.get("HOME") or "/")
        env |= {key: f"{home / name}" for key, name in _UNDER_HOME.items() if key not in env and (home / name).is_dir()}
    return env | {
        "HOME": os.fspath(view.home if view else own_home or workspace.home),
        "TMPDIR": os.fspath(TEMP if view else workspace.tmp),
        **({RUN: workspace.name} if marked else {}),
        "GIT_TERMINAL_PROMPT": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def with_own_tools(path: str, workspace: Workspace, cwd: Path, top: Path) -> str:
    """Return PATH with the programs of the project's own environments first, as after `activate`.

    Those nearest to the command's folder come first. `top` is the workspace's path as the command sees it.
    """
    carried = {*workspace.carried, *map(Path, workspace.copied)}
    if not carried:
        return path
    repo = workspace.repo.resolve()
    inside = cwd.relative_to(repo) if cwd.is_relative_to(repo) else Path()
    above = [inside, *inside.parents]
    folders = [folder / name for folder in above for name in (*ENVIRONMENTS, MODULES) if folder / name in carried]
    own = [os.fspath(top / folder / (".bin" if folder.name == MODULES else "bin")) for folder in folders]
    return os.pathsep.join([*own, path])


def past_pyenv(env: Mapping[str, str], cwd: Path, repo: Path) -> str:
    """Return PATH with the chosen version of pyenv before its shims, which start some twenty shells for each program.

    Where the project or the caller chooses the version, only the shims know which one that is.
    """
    path = env["PATH"]
    shims = next((entry for entry in path.split(os.pathsep) if entry.endswith("/.pyenv/shims")), None)
    if not shims or env.get("PYENV_VERSION"):
        return path
    top = repo.resolve()
    above = [cwd, *(folder for folder in cwd.parents if folder.is_relative_to(top))]
    if any(os.path.lexists(folder / ".python-version") for folder in above):
        return path
    root = Path(shims).parent
    with contextlib.suppress(OSError, UnicodeError):
        versions = (root / "version").read_text(encoding="utf-8").split()
        chosen = root / "versions" / versions[0] / "bin" if len(versions) == 1 else None
        if chosen and chosen.parent.parent == root / "versions" and chosen.is_dir():
            return path.replace(shims, f"{chosen}{os.pathsep}{shims}", 1)
    return path


def temp_mark(folder: Path) -> str:
    """Return the variable by which the processes of a workspace without a mark are found."""
    return f"TMPDIR={folder / 'tmp'}"


def kill_leftovers(name: str, folder: Path) -> int:
    """Kill every process that a dead engine left in a workspace; return their number."""
    return process.kill_by_marker(f"{RUN}={name}") + process.kill_by_marker(temp_mark(folder))


def status(names: Sequence[str], caller: Mapping[str, str]) -> dict[str, str]:
    """Return for each variable whether it is set; never its value.

    These are the variables that commands get, and the caller's own whose names are those of credentials.
    """
    credentials = sorted(name for name in caller if _CREDENTIAL.search(name))
    return {name: "<SET>" if caller.get(name) else "<UNSET>" for name in dict.fromkeys((*names, *credentials))}
