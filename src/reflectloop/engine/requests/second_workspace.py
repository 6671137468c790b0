"""A second workspace with the files of a session's first one, for an agent that looks while another one does."""

from __future__ import annotations

from reflectloop.config import Config
from reflectloop.fileops.ops_context import InMemoryResponses, NoPlanOps, OpsContext
from reflectloop.sandbox import limits
from reflectloop.sandbox.limits import Limiter
from reflectloop.sandbox.sandbox import Box
from reflectloop.workspace import checkout, workspace_registry
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.project import Project
from reflectloop.workspace.snapshot import Snapshot
from reflectloop.workspace.store import Store


class SecondWorkspace:
    """Laid out on first use. Commands are told apart, limited and ended by workspace, so two agents need two."""

    def __init__(self, project: Project, store: Store, base: Snapshot, settings: Config, first: OpsContext) -> None:
        self.project, self.store, self.base, self.settings, self.first = project, store, base, settings, first
        self.ops: OpsContext | None = None
        self.limiter: Limiter | None = None

    def open(self) -> OpsContext:
        """Return a workspace with the files that the first one has now."""
        tree = self.first.workspace.record().tree
        if self.ops is None:
            self.ops = self._lay_out(tree)
        elif self.ops.workspace.record().tree != tree:
            self.ops.workspace.reset_to(tree)
        return self.ops

    def _lay_out(self, tree: str) -> OpsContext:
        first, level = self.first.workspace, self.first.box.wall
        space = checkout.create(
            self.project,
            self.store,
            self.base._replace(tree=tree),
            name=f"{first.name}.1",
            root=first.folder.parent,
            shared_objects=first.quarantine,
            carry=self.settings.workspace,
            mounted=level.mounted,
            bound=level.by == "bubblewrap",
        )
        self.limiter = limits.limiter_for(level, space.name, self.settings.box)
        box = Box.by(self.settings, space, self.first.box.caller, level, self.limiter)
        return OpsContext(space, box, NoPlanOps(), InMemoryResponses(), self.first.logs, policy=self.first.policy)

    def close(self, folders: Folders) -> None:
        if self.limiter:
            self.limiter.close()
        if self.ops is None:
            return
        self.ops.close()
        self.ops.workspace.close()
        entry = workspace_registry.find(folders.own, self.ops.workspace.name)
        if entry:
            workspace_registry.remove(entry)
