"""Installed links back to the project: where the workspace cannot stand at its path, they would test the original."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from reflectloop.errors import SandboxCreateFailed
from reflectloop.system import beneath

_PYTHON_LINKS = ("*.pth", "*.egg-link", "__editable__*.py", "*.dist-info/direct_url.json")


def refuse(root: Path, caller: Mapping[str, str], carried: Iterable[Path]) -> None:
    """SANDBOX_CREATE_FAILED when what commands would import or require is the user's tree and not the workspace."""
    for link in _links(root, caller, carried):
        raise SandboxCreateFailed(
            f"{link} leads to {root}: commands would run your files instead of the workspace's, and this level of"
            " isolation cannot put the workspace in their place",
            next_step="reflectloop doctor; or install the project without links (pip install .)",
            missing=("mount-namespace",),
        )


def _links(root: Path, caller: Mapping[str, str], carried: Iterable[Path]) -> Iterator[Path]:
    folders = [root / name for name in carried]
    for site in sites(caller, folders):
        for pattern in _PYTHON_LINKS:
            yield from (path for path in site.glob(pattern) if _names(path, root))
    for folder in folders:
        yield from (path for path in _linked(folder) if _leads_into(path, root))


def sites(caller: Mapping[str, str], folders: Iterable[Path]) -> list[Path]:
    """Where Python may find installed packages: in these environments, and in the caller's."""
    return list(_site_packages([*folders, *_environments(caller)]))


def _environments(caller: Mapping[str, str]) -> Iterator[Path]:
    """Where a `python` of this caller's may keep packages."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if caller.get(name):
            yield Path(caller[name])
    for entry in caller.get("PATH", "").split(os.pathsep):
        if Path(entry).is_absolute():
            yield Path(entry).parent
    pyenv = Path(caller.get("PYENV_ROOT") or Path(caller.get("HOME") or "/") / ".pyenv")
    yield from pyenv.glob("versions/*")


def _site_packages(environments: Iterable[Path]) -> Iterator[Path]:
    for environment in dict.fromkeys(environments):
        for pattern in ("lib/python3*/site-packages", "lib/python3*/dist-packages", "lib/python3/dist-packages"):
            yield from environment.glob(pattern)


def _names(path: Path, root: Path) -> bool:
    try:
        text = beneath.read_path(path)
    except OSError:
        return False
    place = os.fsencode(root)
    return any(text[end : end + 1] in (b"", b"/", b"\n", b"\r", b"'", b'"') for end in _ends(text, place))


def _ends(text: bytes, place: bytes) -> Iterator[int]:
    position = text.find(place)
    while position >= 0:
        yield position + len(place)
        position = text.find(place, position + 1)


def _linked(folder: Path) -> Iterator[Path]:
    """Packages that are links, in a folder of packages or under a scope in it."""
    if folder.is_dir():
        for entry in folder.iterdir():
            if entry.is_symlink():
                yield entry
            elif entry.name.startswith("@") and entry.is_dir():
                yield from (path for path in entry.iterdir() if path.is_symlink())


def _leads_into(path: Path, root: Path) -> bool:
    """By an absolute name: a relative one leads to the workspace, where the folder is copied to."""
    target = path.readlink()
    return target.is_absolute() and target.is_relative_to(root)
