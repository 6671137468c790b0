"""The cases: a text, the commit it was written at, and the files that were changed because of it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reflectloop.context.trees import GitTree
from reflectloop.system.git import Git

_CHANGED = re.compile(r"^diff --git a/(\S+) b/\S+$", re.MULTILINE)
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@", re.MULTILINE)


class Case(NamedTuple):
    """A question with a known answer."""

    name: str
    repository: Path
    commit: str
    text: str
    gold: tuple[str, ...]
    lines: tuple[tuple[str, int], ...]  # path and line of every changed line, at the commit
    suffixes: tuple[str, ...]

    @property
    def git(self) -> Git:
        return Git(git_dir=self.repository)

    @property
    def is_tuning(self) -> bool:
        """Return True for the half that weights may be chosen by."""
        return int(hashlib.sha256(self.name.encode()).hexdigest(), 16) % 2 == 0

    def tree(self) -> GitTree:
        return GitTree(self.git, self.commit, self.commit, self.suffixes, without_tests=True)


def git_dir(folder: Path) -> Path | None:
    """Return the git folder of a clone, a bare repository, or a folder that holds one as `repo`."""
    return next((path for path in (folder / ".git", folder / "repo", folder) if (path / "HEAD").is_file()), None)


class SweBenchLite(NamedTuple):
    """The 300 instances as the published runs of another tool hold them."""

    data: Path  # the repository with `results/*/…/meta.json`
    repositories: Path  # the folder of the twelve repositories

    def cases(self) -> list[Case]:
        git = Git(git_dir=self.data)
        names = git.line("ls-tree", "-r", "--name-only", "HEAD", "results").split("\n")
        chosen = {name.split("/")[-2].rpartition("_2024")[0]: name for name in names if name.endswith("/meta.json")}
        texts = git.run("cat-file", "--batch", stdin="".join(f"HEAD:{name}\n" for name in chosen.values()).encode())
        out = [self._case(json.loads(text)) for text in _objects(texts, len(chosen))]
        return sorted({case.name: case for case in out if case}.values(), key=lambda case: case.name)

    def _case(self, meta: dict[str, object]) -> Case | None:
        info = meta["task_info"]
        assert isinstance(info, dict)  # noqa: S101
        owner, _, rest = info["instance_id"].partition("__")
        repository = git_dir(self.repositories / f"{owner}+{rest.rpartition('-')[0]}")
        if repository is None:
            return None
        lines = tuple(changed_lines(info["patch"]))
        gold = tuple(dict.fromkeys(_CHANGED.findall(info["patch"])))
        return Case(
            info["instance_id"], repository, info["base_commit"], info["problem_statement"], gold, lines, (".py",)
        )


def changed_lines(patch: str) -> Iterator[tuple[str, int]]:
    """Yield path and old line of everything that a patch removes, and of the line before what it adds."""
    for part in re.split(r"^(?=diff --git )", patch, flags=re.MULTILINE):
        name = _CHANGED.search(part)
        if name is None:
            continue
        line, inside = 0, False
        for text in part.split("\n"):
            hunk = _HUNK.match(text)
            if hunk:
                line, inside = int(hunk[1]), True
            elif inside and text.startswith("-"):
                yield name[1], line
                line += 1
            elif inside and text.startswith("+"):
                yield name[1], max(1, line - 1)
            elif inside:
                line += 1


def _objects(listing: bytes, count: int) -> Iterator[bytes]:
    at = 0
    for _ in range(count):
        end = listing.index(b"\n", at)
        size = int(listing[at:end].split()[2])
        yield listing[end + 1 : end + 1 + size]
        at = end + size + 2
