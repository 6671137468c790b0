"""The facts of the workspace at the start of a reflection, as a value."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class WorkspaceFacts(BaseModel):
    """The output, tree and artifacts that a reflection starts from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ticket_id: str
    target: str | None
    target_exists: bool = False
    target_bytes: int | None = None
    target_sha256: str | None = None
    tree: str | None = None  # last tree of the task
    artifacts: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()  # finished steps, with the tree of each
