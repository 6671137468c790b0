"""Provide fresh workspaces for sealed runs, which no agent, step or earlier check has touched."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from reflectloop.config import Config, WorkspaceConfig
from reflectloop.errors import SecretLeak
from reflectloop.sandbox import limits
from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.sandbox.limits import Limiter
from reflectloop.sandbox.sandbox import Box
from reflectloop.trust import signing
from reflectloop.verification.strands import Strands
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.workspace import checkout, workspace_registry
from reflectloop.workspace.fresh_layers import FreshLayers
from reflectloop.workspace.project import Project
from reflectloop.workspace.snapshot import Snapshot

_LARGEST_SEED = 2**32 - 1
_FIRST_NUMBER = 100  # first number of a run's sealed workspaces; those of its steps are lower


def hash_seed() -> str:
    """Return the seed of every first run: always the same, since tests may be named by the members of a set.

    It comes from the user's key, so that no patch can know it before its first verification.
    """
    key = signing.key()
    return str(int(key.sign("hash seed", b"")[:8], 16) % _LARGEST_SEED + 1) if key else "1"


@dataclass
class WorkspaceFactory:
    """A factory of fresh workspaces.

    `commit` is HEAD in every workspace, so that version tools answer the same on base and on the patch.
    """

    name: str  # name of the run
    project: Project
    trees: TreeBuilder
    settings: Config
    wall: IsolationLevel
    caller: Mapping[str, str]
    root: Path
    commit: str
    beside: Mapping[Path, Path] = field(default_factory=dict)  # further project files to carry
    strands: Strands = field(default_factory=Strands)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(_FIRST_NUMBER))

    def __post_init__(self) -> None:
        self.layers = FreshLayers(self.root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Compare the layers once more if results depend on it, and release them."""
        try:
            if kind is None:
                self.layers.compare_again(self.trees.store)
        finally:
            self.layers.close()

    @contextmanager
    def open(
        self, tree: str, base_tree: str, installed: Mapping[Path, Path] | None = None, *, for_setup: bool = False
    ) -> Iterator[Box]:
        """Open a sandbox around a fresh workspace with the files of `tree`, and remove it afterwards.

        `installed` are files that a set-up made; those of the project that they replace are not carried. `for_setup`:
        carry only what the settings name, since the set-up is about to install the rest.
        """
        name, made = f"{self.name}.{next(self._numbers)}", installed or {}
        limiter: Limiter | None = None
        try:
            space = checkout.create(
                self.project,
                self.trees.store,
                Snapshot(tree, self.commit, warnings=()),
                name=name,
                root=checkout.plain_root(self.root),
                shared_objects=self.trees.objects,
                base_tree=base_tree,
                carry=self._named() if for_setup else self.settings.workspace,
                beside={} if for_setup else self.beside,
                installed=made,
                mounted=self.wall.mounted,
                bound=self.wall.by == "bubblewrap",
                fresh=self.layers,
            )
            limiter = limits.limiter_for(self.wall, space.folder.name, self.settings.box)
            box = Box.by(self.settings, space, self.caller, self.wall, limiter, self.strands.cancel)
            box.aside = self.strands.aside
            box.marked = False
            box.env = {"PYTHONHASHSEED": hash_seed(), **self._without_user_site()}
            yield box
            space.close()
        except SecretLeak:
            self._clear(name, destroy=True)
            raise
        finally:
            if limiter:
                limiter.close()
            self._clear(name)

    def _without_user_site(self) -> dict[str, str]:
        """Keep interpreters from starting what a check wrote to HOME, unless the user's packages are there."""
        packages = Path(self.caller.get("HOME") or "/").glob(".local/lib/python3*")
        return {} if self.wall.mounted and any(packages) else {"PYTHONNOUSERSITE": "1"}

    def _named(self) -> WorkspaceConfig:
        """Return what to carry without the defaults."""
        settings = self.settings.workspace
        return settings.model_copy(update={"carry": settings.names_carried})

    def _clear(self, name: str, *, destroy: bool = False) -> None:
        entry = workspace_registry.find(self.project.folder, name)
        if entry:
            workspace_registry.destroy(entry) if destroy else workspace_registry.remove(entry)
