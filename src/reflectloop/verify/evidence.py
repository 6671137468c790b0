"""What the engine itself ran, written down so that a changed byte shows: records chained by hash, and a receipt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from reflectloop.errors import InvalidInput
from reflectloop.verify.result import Counts
from reflectloop.world import files

Level = Literal["L0", "L1", "L2", "L3"]
_FIRST = "0" * 64
FILE, RECEIPT = "evidence.jsonl", "receipt.json"
_VERSION = 1


class Record(BaseModel):
    """One thing the engine ran. `prev` is the hash of the line before."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = ""  # given when it is appended
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
    isolation: str
    started: str
    duration_ms: int
    prev: str = _FIRST


class Chain:
    """Appends records to `evidence.jsonl`; nothing is ever rewritten."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last = _FIRST
        self.records: list[Record] = []

    def add(self, record: Record) -> Record:
        linked = record.model_copy(update={"id": f"E-{len(self.records) + 1:03d}", "prev": self.last})
        line = canonical(linked.model_dump(mode="json"))
        with files.room_for("the evidence", self.path.parent), self.path.open("ab") as file:
            file.write(line + b"\n")
        self.last = digest(line)
        self.records.append(linked)
        return linked


def canonical(value: Any) -> bytes:  # noqa: ANN401 - any JSON
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest_of(path: Path) -> str | None:
    """Of a file however large; None where there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def write_receipt(folder: Path, chain: Chain, said: Mapping[str, Any], named: Sequence[str]) -> Path:
    """Summarise a folder: what was decided, the end of the chain, and the hash of every file `named` there."""
    body = {
        "version": _VERSION,
        **said,
        "evidence": {"count": len(chain.records), "last": chain.last},
        "files": {name: digest_of(folder / name) for name in (*named, FILE)},
    }
    target = folder / RECEIPT
    files.write_atomic(target, json.dumps({**body, "digest": digest(canonical(body))}, indent=2) + "\n")
    return target


class Verified(NamedTuple):
    receipt: dict[str, Any]
    records: list[dict[str, Any]]
    faults: list[str]  # empty where everything is as it was written


def verify(path: Path) -> Verified:
    """Check a receipt and all it speaks of, offline. What cannot be read at all is refused."""
    receipt = _load(path)
    faults = _own_faults(receipt)
    folder = path.parent
    for name, known in sorted(receipt.get("files", {}).items()):
        now = digest_of(folder / name) if Path(name).name == name else None
        if now != known:
            faults.append(f"{name} is {'missing' if now is None else 'not the file that was written'}")
    records, broken = _follow(folder / FILE, receipt)
    return Verified(receipt, records, faults + broken)


def _load(path: Path) -> dict[str, Any]:
    try:
        raw = path.read_bytes()
        found = json.loads(raw)
    except OSError as fault:
        raise InvalidInput(f"cannot read {path}: {fault.strerror}", next_step="reflectloop receipt show RUN") from fault
    except ValueError as fault:
        raise InvalidInput(f"{path} is no receipt: {fault}", next_step="reflectloop receipt show RUN") from fault
    if not isinstance(found, dict) or found.get("version") != _VERSION:
        raise InvalidInput(f"{path} is no receipt of version {_VERSION}", next_step="reflectloop receipt show RUN")
    return {**found, "_raw": raw}


def _own_faults(receipt: dict[str, Any]) -> list[str]:
    """The receipt's own bytes: its digest, and that it is written the one way it is written."""
    raw = receipt.pop("_raw")
    body = {key: value for key, value in receipt.items() if key != "digest"}
    whole = (json.dumps(receipt, indent=2) + "\n").encode()
    good = receipt.get("digest") == digest(canonical(body)) and raw == whole
    return [] if good else [f"{RECEIPT} is not the file that was written"]


def _follow(path: Path, receipt: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    records, faults, last = [], [], _FIRST
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return [], []  # said already: the file is missing
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict) or record.get("prev") != last:
            faults.append(f"{FILE}, line {number}: does not follow from the line before")
            break
        records.append(record)
        last = digest(line)
    told = receipt.get("evidence", {})
    if not faults and (told.get("count") != len(records) or told.get("last") != last):
        faults.append(f"{FILE} has {len(records)} record(s), the receipt speaks of {told.get('count')}")
    return records, faults
