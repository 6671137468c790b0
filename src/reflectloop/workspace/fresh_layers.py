"""Prepare the layers on which all fresh workspaces of one verification stand, once for each tree.

A layer is compared with its tree before the first workspace stands on it, and once more at the end: the kernel's change
times tell of every change in between. The files by which a tree differs from its layer are a second, thin layer, which
the verification writes itself: at the end, none of them may have been changed since.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from reflectloop.errors import SandboxCreateFailed
from reflectloop.system import overlay
from reflectloop.system.undo import on_failure
from reflectloop.workspace.layers import Layer, ThinLayer, lay_changes
from reflectloop.workspace.store import Store
from reflectloop.workspace.tree_diff import tree_changes

_Key = tuple[Path, int]  # of a layer: the same folder may hold another one later


@dataclass
class FreshLayers:
    """The layers of one verification. `root` is the folder for layers."""

    root: Path
    _compared: dict[_Key, Layer] = field(default_factory=dict)  # locked, so that they can be compared again
    _used: set[_Key] = field(default_factory=set)  # since they were last compared
    _thin: dict[tuple[_Key, str], ThinLayer] = field(default_factory=dict)  # by layer and tree

    @property
    def is_sure(self) -> bool:
        """Return True if no workspace has stood on a layer since the layers were compared."""
        return not self._used

    def was_compared(self, layer: Layer) -> bool:
        return _key(layer) in self._compared

    def note(self, layer: Layer) -> bool:
        """Note that a workspace will stand on a layer, which was compared now or before.

        Return False if another process has discarded it meanwhile, so that nobody could compare it again.
        """
        if not self.was_compared(layer):
            again = layer.attach_again()
            if again is None:
                return False
            self._compared[_key(layer)] = again
        self._used.add(_key(layer))
        return True

    def over(self, layer: Layer, tree: str, store: Store, objects: Path | None) -> ThinLayer | None:
        """Return the files by which a tree differs from a layer, laid out before its first workspace is made."""
        if layer.tree == tree:
            return None
        key = (_key(layer), tree)
        if key not in self._thin:
            self._thin[key] = _lay_out(layer, tree, store, objects)
        return self._thin[key]

    def compare_again(self, store: Store) -> None:
        """Raise SandboxCreateFailed if a layer or a thin one was changed; no workspace may stand on one now."""
        self.refuse_damage(store)
        self._used.clear()

    def refuse_damage(self, store: Store) -> None:
        """Raise SandboxCreateFailed if a layer or a thin one was changed after the first workspace stood on it."""
        for thin in self._thin.values():
            if not thin.is_whole():
                raise _changed_outside(thin.upper)
        for key in sorted(self._used):
            layer = self._compared[key]
            if not layer.is_whole(store, thorough=True):
                layer.discard()
                raise _changed_outside(layer.files)

    def close(self) -> None:
        """Release the layers, and remove the thin ones."""
        for layer in self._compared.values():
            layer.close()
        for thin in self._thin.values():
            thin.remove()
        self._compared, self._thin = {}, {}


def _changed_outside(folder: Path) -> SandboxCreateFailed:
    return SandboxCreateFailed(
        f"something outside of the verification changed files in {folder}, which its commands read",
        next_step="start again: these files are then laid out again",
    )


def _key(layer: Layer) -> _Key:
    return layer.folder, layer.made_ns


def _lay_out(layer: Layer, tree: str, store: Store, objects: Path | None) -> ThinLayer:
    thin = ThinLayer(layer.folder.parent)
    with on_failure(thin.remove):
        files, work = thin.path / "files", thin.path / "work"
        for path in (thin.upper, work, files):
            path.mkdir(mode=0o755)
        os.link(layer.index, thin.index)  # git replaces an index and never writes into one
        overlay.mount([layer.files], thin.upper, work, files)
        try:
            writer = store.git(work_tree=files, index=thin.index, objects=objects)
            changes = tree_changes(store.git(objects=objects), layer.tree, tree)
            lay_changes(writer, files, layer.tree, tree, changes)
        finally:
            with overlay.alone():
                overlay.unmount(files)
        (thin.upper / ".git").mkdir(mode=0o755, exist_ok=True)
        os.link(thin.index, thin.upper / ".git" / "index")
        thin.note_made()
    return thin
