"""What of the caller's environment a command may see: where tools are and how text is written, no more."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from reflectloop.workspace.checkout import Workspace

_ALLOWED = frozenset(
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
_ALLOWED_PREFIX = "LC_"
MARK = "REFLECTLOOP_COMMAND"
RUN = "REFLECTLOOP_RUN"


def build(
    workspace: Workspace, caller: Mapping[str, str], *, also: Sequence[str] = (), added: Mapping[str, str] | None = None
) -> dict[str, str]:
    return for_folder(workspace.name, workspace.folder, caller, also) | dict(added or {})


def for_folder(name: str, folder: Path, caller: Mapping[str, str], also: Sequence[str] = ()) -> dict[str, str]:
    """The environment of commands in the workspace at `folder`."""
    env = {key: caller[key] for key in caller if key in _ALLOWED or key.startswith(_ALLOWED_PREFIX) or key in also}
    env.setdefault("PATH", os.defpath)
    env.setdefault("LANG", "C.UTF-8")
    return env | {
        "HOME": os.fspath(folder / "home"),
        "TMPDIR": os.fspath(folder / "tmp"),
        RUN: name,
        "GIT_TERMINAL_PROMPT": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def status(names: Sequence[str], caller: Mapping[str, str]) -> dict[str, str]:
    """Whether variables are there; never what they hold."""
    return {name: "<SET>" if caller.get(name) else "<UNSET>" for name in names}
