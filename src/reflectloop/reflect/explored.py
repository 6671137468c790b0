"""What lies there when a reflection begins, as a value."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Explored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    ticket_id: str
    target: str | None
    target_exists: bool = False
    target_bytes: int | None = None
    target_sha256: str | None = None
    tree: str | None = None  # that the task last came to
    artifacts: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()  # steps that are done, and the tree each left
