"""Choose the files that git does not track and commands need: installed packages, generated files, what settings name.

A carried path never takes the place of files that git tracks: the checks would judge the user's files instead of the
workspace's.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import posixpath
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from reflectloop.config import WorkspaceConfig
from reflectloop.errors import InvalidInput
from reflectloop.system import beneath, files, tree_walk
from reflectloop.system.git import Git, GitFailed
from reflectloop.system.patterns import lazy
from reflectloop.workspace import tree_diff
from reflectloop.workspace.project import Project

ENVIRONMENTS = (".venv", "venv")
MODULES, CACHE = "node_modules", ".cache"
_PACKAGES = ".packages"  # in node_modules, if that is a folder of links
CACHES = (CACHE, ".vite")  # folders that tools write into node_modules
NOT_CARRIED = "{name} leads to no folder of installed packages, so it is not carried"
_SUBMODULE = "160000 "  # its mode in a tree
_RESERVED = ((".git",), (".reflectloop",))
# Settings of build tools that name the version file they write: setuptools-scm, flit-scm, hatch-vcs, versioningit.
_VERSION_FILE = lazy(
    r"""(?:\b(?:version[-_]file|write[-_]to)["']?\s*[:=]"""
    r"""|\[tool\.hatch\.build\.hooks\.version\][^\[]*?\bpath\s*="""
    r"""|\[tool\.versioningit\.write\][^\[]*?\bfile\s*=)"""
    r"""\s*["']?(?P<path>[\w./-]+\.py)\b"""
)
_NAMES_ONE = r"version[-_]file|write[-_]to|hooks\.version|versioningit\.write"  # for git grep
_KEPT = "version-files.json"
_MANIFESTS = (":(glob)**/pyproject.toml", ":(glob)**/setup.cfg", ":(glob)**/setup.py")


class CarryPlan(NamedTuple):
    """The paths to carry, relative to the project, each with the file or folder it comes from."""

    mounted: Mapping[Path, Path]
    copied: Mapping[Path, Path]
    notes: tuple[str, ...] = ()

    @property
    def sources(self) -> list[Path]:
        return [*self.mounted.values(), *self.copied.values()]


class _Entry(NamedTuple):
    """A path of the project that may be carried."""

    setting: Literal["carry", "carry_copy"]
    path: Path
    source: Path  # without links
    is_default: bool


def plan_carry(
    project: Project,
    settings: WorkspaceConfig,
    git: Git,
    tree: str,
    *,
    base: str | None,
    bound: bool,
    beside: Mapping[Path, Path] | None = None,
    installed: Collection[Path] = (),
) -> CarryPlan:
    """Return what a workspace with the files of `tree` gets besides them.

    `base` names the generated files, so that both sides of a change get the same ones; None: none are wanted.
    `bound`: folders can be mounted. `beside` are more environments of the user, with their sources. `installed` are
    paths that a set-up made; they are not taken from the project.
    """
    notes: list[str] = []
    entries = [*_entries(project, settings, notes), *_more(beside or {}, settings)]
    entries = [entry for entry in entries if not _is_below(entry.path, installed)]
    tracked = _tracked(git, tree, [entry.path for entry in entries])
    submodules = {entry.path for entry in entries if _is_checked_out(entry, tracked.get(entry.path))}
    for entry in entries:
        if entry.path in tracked and not entry.is_default and entry.path not in submodules:
            raise _refuse_tracked(git, tree, entry, is_submodule=tracked[entry.path].startswith(_SUBMODULE))
    entries = [entry for entry in entries if entry.path not in tracked or entry.path in submodules]
    copied = {entry.path: entry.source for entry in entries if _is_copied(entry, bound=bound)}
    mounted = {entry.path: entry.source for entry in entries if entry.path not in copied}
    for path in _version_files(project, git, base, tree) if base else ():
        if not _is_below(path, [*installed, *copied, *mounted]):
            copied[path] = project.root / path
            notes.append(f"{path} is generated and ignored by git: the workspace has a copy of yours")
    return CarryPlan(mounted, copied, tuple(notes))


def _entries(project: Project, settings: WorkspaceConfig, notes: list[str]) -> Iterator[_Entry]:
    """Yield what the settings name and the project has."""
    for name in settings.carry_copy:
        yield from _entry(project, "carry_copy", name, notes, is_default=False)
    copied = {_inside(project, "carry_copy", name) for name in settings.carry_copy}
    is_default = "carry" not in settings.model_fields_set
    for name in (*settings.carry, *(_usual(project.root) if is_default else ())):
        if _inside(project, "carry", name) not in copied:
            yield from _entry(project, "carry", name, notes, is_default=is_default)


def _more(beside: Mapping[Path, Path], settings: WorkspaceConfig) -> list[_Entry]:
    named = {Path(name) for name in (*settings.carry, *settings.carry_copy)}
    return [_Entry("carry", path, source, is_default=True) for path, source in beside.items() if path not in named]


def environments_beside(root: Path, folders: Iterable[str]) -> dict[Path, Path]:
    """Return the folders of installed packages in these folders and above them, below the project's top."""
    parts = dict.fromkeys(part for folder in folders for part in (Path(folder), *Path(folder).parents))
    paths = [part / name for part in parts if part.parts for name in (*ENVIRONMENTS, MODULES)]
    return {path: source for path in paths if (source := find_source(root, path)) and source.is_dir()}


def _usual(root: Path) -> tuple[str, ...]:
    """Return environments with other names than those of the default settings."""
    return tuple(name for name in ENVIRONMENTS[1:] if (root / name / "pyvenv.cfg").is_file())


def _entry(
    project: Project, setting: Literal["carry", "carry_copy"], name: str, notes: list[str], *, is_default: bool
) -> Iterator[_Entry]:
    path, root = _inside(project, setting, name), project.root.resolve()
    if not os.path.lexists(root / path):
        if not is_default:
            notes.append(f"[workspace] {setting}: {name} is not in the project, so it is not carried")
        return
    source = find_source(root, path)
    if is_default and (source is None or not source.is_dir()):
        notes.append(NOT_CARRIED.format(name=name))
    elif source is not None:
        yield _Entry(setting, path, source, is_default)
    else:
        raise InvalidInput(
            f"[workspace] {setting}: {name!r} is no file or folder, or leads out of {project.root}",
            next_step="reflectloop config",
        )


def find_source(root: Path, path: Path) -> Path | None:
    """Return the file or folder behind a path of the project, without links, or None if it may not be carried.

    A link may lead out of the project only to a folder of installed packages.
    """
    root = root.resolve()
    try:
        source = (root / path).resolve(strict=True)
        mode = source.stat().st_mode
    except (OSError, RuntimeError):
        return None
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        return None
    if source.is_relative_to(root):
        return source if source.relative_to(root).parts[:1] not in ((), *_RESERVED) else None
    return source if source.name == MODULES or (source / "pyvenv.cfg").is_file() else None


def _inside(project: Project, setting: str, name: str) -> Path:
    """Return the path of an entry; raise InvalidInput if it is no path inside the project."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or path.parts[:1] in ((), *_RESERVED):
        raise InvalidInput(
            f"[workspace] {setting}: {name!r} is no file or folder inside {project.root}",
            next_step="reflectloop config",
        )
    return path


def has_cache(modules: Path, name: str = CACHE) -> bool:
    """Return True if a node_modules folder has a folder that tools write their caches to."""
    try:
        return stat.S_ISDIR((modules / name).lstat().st_mode)
    except OSError:
        return False


def _is_copied(entry: _Entry, *, bound: bool) -> bool:
    return entry.setting == "carry_copy" or not bound or not entry.source.is_dir()


def _is_below(path: Path, folders: Collection[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _tracked(git: Git, tree: str, paths: Collection[Path]) -> dict[Path, str]:
    """Return those of the paths that a tree has, as a file or as a folder with files, each with its object."""
    if not paths:
        return {}
    # -t: a folder is listed too if a path below it is asked for as well.
    listed = git.run("ls-tree", "-t", "-z", "--full-tree", tree, "--", *map(os.fspath, paths))
    lines = [line.partition(b"\t") for line in listed.split(b"\0") if line]
    return {Path(os.fsdecode(name)): head.decode() for head, _, name in lines}


def _is_checked_out(entry: _Entry, tracked: str | None) -> bool:
    """Return True for a submodule whose files are those of the commit that the tree names."""
    if tracked is None or not tracked.startswith(_SUBMODULE) or entry.is_default:
        return False
    part = Git(cwd=entry.source)
    head, changes = part.attempt("rev-parse", "HEAD"), part.attempt("status", "--porcelain")
    return not head.code and os.fsdecode(head.stdout).strip() == tracked.split()[-1] and not changes.stdout


def _refuse_tracked(git: Git, tree: str, entry: _Entry, *, is_submodule: bool) -> InvalidInput:
    names = git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree, "--", os.fspath(entry.path))
    example, next_step = os.fsdecode(names.split(b"\0")[0]), f"remove it from {entry.setting}, then reflectloop config"
    if is_submodule:
        what, next_step = "is a submodule with changes, or at another commit than git tracks", "git submodule status"
    elif example == os.fspath(entry.path):
        what = "is a file that git tracks"
    else:
        what = f"holds files that git tracks, such as {example}; name the ignored files in it instead"
    return InvalidInput(
        f"[workspace] {entry.setting}: {os.fspath(entry.path)!r} {what}: yours would be judged instead of the change's",
        next_step=next_step,
    )


# Generated files -----------------------------------------------------------------------------------------------------


def _version_files(project: Project, git: Git, base: str, tree: str) -> list[Path]:
    """Return the version files that build tools of `base` write, git ignores, and `tree` does not have."""
    named = [path for path in _named_version_files(project.folder, git, base) if _is_plain(project.root, path)]
    there = _tracked(git, tree, [*named, *(path.parent for path in named)])
    named = [path for path in named if path not in there and (path.parent in there or path.parent == Path())]
    if project.mode != "git":
        return named
    return [path for path in named if project.git().attempt("check-ignore", "-q", "--", os.fspath(path)).code == 0]


@functools.lru_cache(maxsize=16)
def _named_version_files(own_folder: Path, git: Git, tree: str) -> list[Path]:
    """Return the version files that manifests of a tree name.

    To find the manifests git reads every folder, so the answer is kept for all trees with the same manifests. What is
    kept decides nothing alone: a named file is carried only if git ignores it and the project has it.
    """
    cache_file = own_folder / "cache" / _KEPT
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, GitFailed):  # else it is found again
        record = json.loads(cache_file.read_bytes())
        names = [str(name) for name in record["names"]]
        is_whole = record["sum"] == _sum(record["tree"], names)
        if is_whole and not tree_diff.changed_names(git, record["tree"], tree, within=_MANIFESTS):
            return [Path(name) for name in names]
    paths = _find_named(git, tree)
    names = [os.fspath(path) for path in paths]
    with contextlib.suppress(OSError, ValueError):
        cache_file.parent.mkdir(exist_ok=True)
        files.write_atomic(cache_file, json.dumps({"tree": tree, "names": names, "sum": _sum(tree, names)}))
    return paths


def _sum(tree: str, names: list[str]) -> str:
    asked = [_NAMES_ONE, _MANIFESTS, _VERSION_FILE.pattern]
    return hashlib.sha256(json.dumps([asked, tree, names]).encode()).hexdigest()


def _find_named(git: Git, tree: str) -> list[Path]:
    search = ("grep", "-l", "-z", "-I", "-E", "-e", _NAMES_ONE, tree, "--", *_MANIFESTS)
    listed = git.attempt(*search)
    if listed.code > 1:  # 1: no match
        git.refuse(search, listed)
    out: dict[Path, None] = {}
    for line in listed.stdout.split(b"\0"):
        manifest = os.fsdecode(line).removeprefix(f"{tree}:")
        if manifest:
            text = git.run("cat-file", "blob", f"{tree}:{manifest}").decode("utf-8", "replace")
            folder = PurePosixPath(manifest).parent
            names = [posixpath.normpath(folder / name) for name in version_files(text)]
            out |= dict.fromkeys(Path(name) for name in names if not name.startswith(("/", "..")))
    return list(out)


def version_files(manifest: str) -> list[str]:
    """Return the Python files that a manifest tells build tools to write, relative to its folder."""
    return [match["path"] for match in _VERSION_FILE.finditer(manifest)]


def _is_plain(root: Path, path: Path) -> bool:
    with tree_walk.open_folder(root) as top:
        return beneath.is_file(top, os.fspath(path))


def link_packages(repo: Path, path: Path, source: Path) -> Path:
    """Provide node_modules as a folder of links to its packages, and return where `source` is to be mounted below it.

    Tools write caches into node_modules, and no mount point for one can be made in a folder that is read-only. The
    layout is the one of pnpm: a package's own path has the name of the folder twice.
    """
    with tree_walk.open_folder(repo) as top, beneath.open_folder(top, path.parts, make=True) as folder:
        for entry in os.scandir(source):
            if entry.is_dir(follow_symlinks=False) and entry.name.startswith(("@", ".bin")):
                with beneath.open_folder(folder, [entry.name], make=True) as below:
                    for inner in os.scandir(entry.path):
                        _link_entry(inner, below, f"../{_PACKAGES}/{MODULES}/{entry.name}")
            elif entry.name not in (_PACKAGES, *CACHES):
                _link_entry(entry, folder, f"{_PACKAGES}/{MODULES}")
    return path / _PACKAGES / MODULES


def _link_entry(entry: os.DirEntry[str], folder: int, target: str) -> None:
    """Create a link to a package; a link of the user, such as one to a part of a workspace, is created as it is."""
    text = Path(entry.path).readlink() if entry.is_symlink() else f"{target}/{entry.name}"
    with contextlib.suppress(FileExistsError):  # a copy that the settings ask for comes first
        os.symlink(text, entry.name, dir_fd=folder)
