"""Write evidence: a record of each command that the engine ran, each with the hash of the one before, and a receipt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from reflectloop import secrets
from reflectloop.system import files
from reflectloop.verification.evidence import FILE, FIRST, VERSION, Level, canonical, digest, digest_of, seal_receipt
from reflectloop.verification.result import Counts


class EvidenceRecord(BaseModel):
    """One command the engine ran. `prev` is the hash of the previous line."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = ""  # assigned when it is appended
    claim: str
    level: Level
    kind: str
    command: tuple[str, ...]
    exit_code: int | None
    counts: Counts = Counts()
    tree: str
    base_tree: str
    plan_hash: str | None
    output_sha256: str | None
    log: str | None = None  # the file with that hash, below the folder of the receipt
    remembered: str | None = None  # the earlier run or verification that ran it; None if it ran now
    isolation: str
    started: str
    duration_ms: int
    prev: str = FIRST


class Chain:
    """An append-only writer of `evidence.jsonl`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last = FIRST
        self.records: list[EvidenceRecord] = []

    def add(self, record: EvidenceRecord) -> EvidenceRecord:
        """Append a record with its id and the hash of the previous line, its command redacted, and return it."""
        shown = tuple(secrets.current_detector().redact(word) for word in record.command)
        place = {"id": f"E-{len(self.records) + 1:03d}", "prev": self.last}
        linked = record.model_copy(update={**place, "command": shown})
        line = canonical(linked.model_dump(mode="json"))
        with files.room_for("the evidence", self.path.parent), self.path.open("ab") as file:
            file.write(line + b"\n")
        self.last = digest(line)
        self.records.append(linked)
        return linked


def write_receipt(folder: Path, chain: Chain, decision: Mapping[str, Any], named: Sequence[str]) -> Path:
    """Write a signed receipt: the decision, the end of the chain, and the hash of every file in `named`."""
    body = {
        "version": VERSION,
        **decision,
        "evidence": {"count": len(chain.records), "last": chain.last},
        "files": {name: digest_of(folder / name) for name in (*named, FILE)},
    }
    return seal_receipt(folder, body)
