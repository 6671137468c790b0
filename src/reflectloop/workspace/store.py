"""The engine's bare repository: it borrows the user's objects and writes only to itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from reflectloop.errors import SandboxCreateFailed
from reflectloop.system import beneath, files
from reflectloop.system.git import Git, GitFailed
from reflectloop.workspace import generated_files, tree_diff
from reflectloop.workspace.project import KEPT_OUT, LEFT_OUT, Project

if TYPE_CHECKING:  # it loads the sandbox, and readers need none
    from reflectloop.system.write_guard import WriteGuard

_SMALL = 1000  # bytes
_CONFIG = """\
[core]
	repositoryformatversion = {version}
	filemode = true
	bare = false
	logallrefupdates = false
	attributesFile = /dev/null
	excludesFile = /dev/null
	preloadIndex = true
	compression = 1
[gc]
	auto = 0
[checkout]
	workers = 0
[user]
	name = {user}
	email = {user}@localhost
"""


class StoreSettings(Protocol):
    """The settings of `[workspace]` that a store needs."""

    @property
    def names_carried(self) -> tuple[str, ...]: ...
    @property
    def carry_copy(self) -> tuple[str, ...]: ...
    @property
    def exclude(self) -> tuple[str, ...]: ...


class Store(NamedTuple):
    path: Path
    object_format: str
    copies: bool = False  # copy mode: only our rules decide what is excluded

    @property
    def leave_out(self) -> tuple[str, ...]:
        """Return the options of `ls-files` for files that are not part of the project."""
        return (f"--exclude-from={self.path / 'info' / 'exclude'}",) if self.copies else ("--exclude-standard",)

    @property
    def objects(self) -> Path:
        return self.path / "objects"

    def git(
        self,
        *,
        work_tree: Path | None = None,
        index: Path | None = None,
        objects: Path | None = None,
        shield: WriteGuard | None = None,
    ) -> Git:
        """Return git for the store; without a work tree it runs in the store, so it opens no file of the caller's."""
        cwd = None if work_tree or not self.path.is_dir() else self.path  # git itself says that the store is gone
        return Git(git_dir=self.path, work_tree=work_tree, index_file=index, objects=objects, cwd=cwd, shield=shield)

    def keep(self, name: str, commit: str) -> None:
        """Protect a commit and its ancestors from garbage collection by a ref."""
        files.write_atomic(self.path / "refs" / "reflectloop" / name, commit + "\n")

    def commit(self, tree: str, *parents: str, message: str, git: Git | None = None) -> str:
        """Write a commit with a fixed date, so that the same tree gives the same id."""
        date = "1000000000 +0000"
        text = f"tree {tree}\n" + "".join(f"parent {parent}\n" for parent in parents)
        text += f"author reflectloop <reflectloop@localhost> {date}\n"
        text += f"committer reflectloop <reflectloop@localhost> {date}\n\n{message}\n"
        writer = git or self.git()
        return writer.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=text.encode()).decode().strip()

    def take_in(self, quarantine: Path) -> None:
        """Move the objects of a run's quarantine into the store."""
        paths = [path for path in quarantine.rglob("*") if path.is_file() and "info" not in path.parts[-2:]]
        # A pack's index last: git finds packs by their indexes.
        for path in sorted(paths, key=lambda path: path.suffix == ".idx"):
            target = self.objects / path.relative_to(quarantine)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)


def pack_objects(git: Git, project: Project, target: Path, scratch: Path, tree: str, commit: str) -> bool:
    """Write the objects of a tree and a commit that HEAD lacks to a git folder; return False if git cannot.

    A folder that borrows them would show commands the path of the engine's store. git renames packs from its own
    folder, so they are made in `scratch`, on the disk of the store.
    """
    import shutil  # noqa: PLC0415 - readers need none of it

    head = project.head if project.mode == "git" else None  # with all that it reaches
    key = (git.git_dir, git.objects, tree, commit, head)
    folder = target / "objects" / "pack"
    folder.mkdir(parents=True, exist_ok=True)
    if key in _small_packs:
        for name, content in _small_packs[key].items():
            (folder / name).write_bytes(content)
        return True
    try:
        wanted = _unknown_objects(git, head, tree, commit) if head else git.run("rev-list", *_ALL_OF, commit, tree)
    except GitFailed:
        return False
    if not wanted:
        return True
    scratch.mkdir()
    options = ("--quiet", "--window=0", "--compression=1", os.fspath(scratch / "pack"))
    done = git.attempt("pack-objects", *options, stdin=wanted).code == 0
    made = list(scratch.iterdir())
    if done and sum(path.stat().st_size for path in made) < _SMALL_PACK:
        _small_packs[key] = {path.name: path.read_bytes() for path in made}
        if len(_small_packs) > _MOST_PACKS:
            del _small_packs[next(iter(_small_packs))]  # the oldest
    for path in made:
        shutil.move(path, folder / path.name)
    scratch.rmdir()
    return done


def _unknown_objects(git: Git, head: str, tree: str, commit: str) -> bytes:
    """Return the names of the objects of a tree and a commit that HEAD lacks, without a look at what it has."""
    names = git.run("rev-list", *_ALL_OF, commit, f"^{head}").splitlines() if commit != head else []
    changes = tree_diff.compare(git, commit, tree, "-t")
    if changes:
        names.append(tree.encode())
    names += [change.blob for change in changes if change.mode not in (tree_diff.ABSENT, tree_diff.GITLINK)]
    return b"".join(name + b"\n" for name in names)


_ALL_OF = ("--objects", "--no-object-names")
_SMALL_PACK, _MOST_PACKS = 1 << 20, 8  # bytes, packs in memory
_small_packs: dict[tuple[object, ...], dict[str, bytes]] = {}  # a verification makes several workspaces of a tree


_KNOWLEDGE = "*\n!/knowledge/\n!/knowledge/**\n/knowledge/*.md\n*.part\n"
# Hides everything except lessons and accepted rules, which a team reviews and commits.
HIDDEN = f"{_KNOWLEDGE}!/rules/\n!/rules/*.yaml\n"
_OLDER = frozenset(text.encode() for text in ("*", "*\n", _KNOWLEDGE))  # written by earlier versions


def write_gitignore(folder: Path) -> None:
    """Write a .gitignore that keeps our folder out of the user's git."""
    ignore = folder / ".gitignore"
    if not ignore.exists() or (ignore.is_file() and ignore.stat().st_size < _SMALL and ignore.read_bytes() in _OLDER):
        files.write_atomic(ignore, HIDDEN)


def open_store(project: Project, settings: StoreSettings | None = None) -> Store:
    """Create the store, or update an existing one with the present paths of the user's objects."""
    store = Store(project.folder / "git", project.object_format, project.mode == "copy")
    with files.room_for("the engine's store", project.folder):
        project.folder.mkdir(exist_ok=True)
        write_gitignore(project.folder)
        alternates = [project.objects] if project.objects else []
        write_git_dir(
            store.path,
            object_format=project.object_format,
            head="ref: refs/heads/none",
            alternates=alternates,
            # In copy mode everything is read: compression would cost more than it saves.
            settings="\tcompression = 0\n" if store.copies else project.content_settings,
        )
        _write(store.path / "info" / "exclude", _exclude_rules(project, settings))
        if project.shallow and project.index:
            copy_if_there(project.shallow, store.path / "shallow")
            for shared in project.index.parent.glob("sharedindex.*"):
                copy_if_there(shared, store.path / shared.name)
    return store


def write_git_dir(
    path: Path, *, object_format: str, head: str, alternates: list[Path], settings: str = "", own: bool = True
) -> None:
    """Write a minimal git folder: no template, no hooks, only our configuration.

    `own`: it is the engine's; otherwise commands see it, and nothing in it names the engine.
    """
    refs = ("heads", "reflectloop") if own else ("heads",)
    for folder in (path / "objects" / "info", path / "info", *(path / "refs" / name for name in refs)):
        folder.mkdir(parents=True, exist_ok=True)
    config = _CONFIG.format(version=0 if object_format == "sha1" else 1, user="reflectloop" if own else "user")
    config += f"[core]\n{settings}" if settings else ""
    if object_format != "sha1":
        config += f"[extensions]\n\tobjectformat = {object_format}\n"
    lines = "".join(os.fspath(alternate) + "\n" for alternate in alternates)
    texts = {"config": config, "HEAD": head + "\n", "objects/info/alternates": lines}
    for name, text in texts.items():
        if own:
            _write(path / name, os.fsencode(text))
        else:  # new, and it need not survive a power loss: nothing in a workspace does
            (path / name).write_bytes(os.fsencode(text))


def _write(path: Path, raw: bytes) -> None:
    if not path.exists() or path.read_bytes() != raw:
        files.write_atomic(path, raw)


def copy_if_there(source: Path, target: Path) -> None:
    if source.is_file():
        target.write_bytes(source.read_bytes())
    else:
        target.unlink(missing_ok=True)


def _exclude_rules(project: Project, settings: StoreSettings | None) -> bytes:
    """Return the exclude rules: our files, carried folders, and the user's rules outside the tree."""
    rules = [f"/{path}\n" for path in (*KEPT_OUT, *generated_files.generated_files(project.root))]
    rules += [f"/{path.strip('/')}\n" for path in ((*settings.names_carried, *settings.carry_copy) if settings else ())]
    if project.mode == "copy":
        return "".join(
            [*rules, *(f"{pattern}\n" for pattern in (*LEFT_OUT, *(settings.exclude if settings else ())))]
        ).encode()
    sources = [project.ignore_rules, project.exclude]
    return "".join(rules).encode() + b"".join(_read_rules(source) for source in sources if source)


def _read_rules(source: Path) -> bytes:
    if source == Path(os.devnull) or source.is_dir():  # common ways to disable the file
        return b""
    try:
        return beneath.read_path(source) + b"\n"
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as fault:
        # Unread ignore rules could let a private file into the workspace.
        raise SandboxCreateFailed(f"cannot read the ignore rules in {source}: {fault.strerror}") from fault
