"""Refuses installed links to the project where the workspace cannot be mounted at the project's path.

Commands would follow such a link and test the user's files instead of the workspace's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from reflectloop.errors import SandboxCreateFailed
from reflectloop.system import beneath

_PYTHON_LINKS = ("*.pth", "*.egg-link", "__editable__*.py", "*.dist-info/direct_url.json")


def refuse_editable_installs(root: Path, caller: Mapping[str, str], carried: Iterable[Path]) -> None:
    """Raise SandboxCreateFailed if commands would import the user's files instead of the workspace's."""
    for link in _links(root, caller, carried):
        raise SandboxCreateFailed(
            f"{link} points to {root}: commands would run your files instead of the workspace's, and this level of"
            " isolation cannot mount the workspace there",
            next_step="reflectloop doctor; or install the project without links (pip install .)",
            missing=("mount-namespace",),
        )


def _links(root: Path, caller: Mapping[str, str], carried: Iterable[Path]) -> Iterator[Path]:
    folders = [root / name for name in carried]
    for site in sites(caller, folders):
        for pattern in _PYTHON_LINKS:
            yield from (path for path in site.glob(pattern) if _mentions(path, root))
    for folder in folders:
        yield from (path for path in _linked(folder) if _points_into(path, root))


def sites(caller: Mapping[str, str], folders: Iterable[Path]) -> list[Path]:
    """Return the folders of installed Python packages, in these environments and in the caller's."""
    return list(_site_packages([*folders, *_environments(caller)]))


def _environments(caller: Mapping[str, str]) -> Iterator[Path]:
    """Yield the Python environments of the caller."""
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


def _mentions(path: Path, root: Path) -> bool:
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
    """Yield the packages in a folder, or under a scope in it, that are symbolic links."""
    if folder.is_dir():
        for entry in folder.iterdir():
            if entry.is_symlink():
                yield entry
            elif entry.name.startswith("@") and entry.is_dir():
                yield from (path for path in entry.iterdir() if path.is_symlink())


def _points_into(path: Path, root: Path) -> bool:
    """Return True for an absolute link into the project; a relative one stays in the copied folder."""
    target = path.readlink()
    return target.is_absolute() and target.is_relative_to(root)
