"""Write what the engine ran as records chained by hash, with a receipt, so that any later change is detected."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reflectloop.errors import InvalidInput
from reflectloop.system import files
from reflectloop.trust import signing

Level = Literal["L0", "L1", "L2", "L3"]
FIRST = "0" * 64
FILE, RECEIPT = "evidence.jsonl", "receipt.json"
VERSION = 1
_PURPOSE = "receipt"
_SIGNATURE = "signature"


class SignatureState(StrEnum):
    """The signer of a receipt, as far as this user can tell."""

    HERE = "signed with this user's key"
    ELSEWHERE = "signed by another machine's key"
    NOT = "not authenticated: it is not signed"
    WRONGLY = "the signature is not the one of this content"


def canonical(value: Any) -> bytes:  # noqa: ANN401 - any JSON
    """Return the canonical JSON encoding of a value, which hashes are computed from."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest_of(path: Path) -> str | None:
    """Return the SHA-256 of a file of any size, or None if there is no file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def log_of(path: Path | None, folder: Path) -> dict[str, str | None]:
    """Return the fields of a record that name a log in the folder of the receipt, and its hash."""
    if path is None:
        return {"log": None, "output_sha256": None}
    inside = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else None
    return {"log": inside, "output_sha256": digest_of(path)}


def update_receipt(folder: Path, receipt: Mapping[str, Any], decision: Mapping[str, Any]) -> Path:
    """Write a receipt again with another decision: its evidence stays, and its files are hashed as they are now."""
    body = _body(receipt) | dict(decision)
    return seal_receipt(folder, body | {"files": {name: digest_of(folder / name) for name in body["files"]}})


def seal_receipt(folder: Path, body: Mapping[str, Any]) -> Path:
    """Write a receipt with its digest and the signature of the user's key."""
    target = folder / RECEIPT
    sealed = {**body, "digest": digest(canonical(body))}
    key = signing.key()
    if key:
        sealed[_SIGNATURE] = {"key": key.id, "mac": key.sign(_PURPOSE, canonical(body))}
    files.write_atomic(target, json.dumps(sealed, indent=2) + "\n")
    return target


def _body(receipt: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in receipt.items() if name not in ("digest", _SIGNATURE)}


def _signed(receipt: Mapping[str, Any]) -> SignatureState:
    signature, key = receipt.get(_SIGNATURE), signing.key()
    if not isinstance(signature, dict):
        return SignatureState.NOT
    if key is None or signature.get("key") != key.id:
        return SignatureState.ELSEWHERE
    expected = key.sign(_PURPOSE, canonical(_body(receipt)))
    return SignatureState.HERE if signing.matches(signature.get("mac"), expected) else SignatureState.WRONGLY


class ReceiptCheck(NamedTuple):
    """A receipt, its records, and the faults found in them."""

    receipt: dict[str, Any]
    records: list[dict[str, Any]]
    faults: list[str]  # empty if nothing changed since it was written
    signed: SignatureState = SignatureState.NOT


def verify(path: Path) -> ReceiptCheck:
    """Check a receipt and the files it lists, offline. Raise InvalidInput if it cannot be read."""
    receipt = _load(path)
    faults = _receipt_faults(receipt)
    folder = path.parent
    for name, known in sorted(receipt.get("files", {}).items()):
        now = digest_of(folder / name) if Path(name).name == name else None
        if now != known:
            faults.append(f"{name} is {'missing' if now is None else 'not the file that was written'}")
    records, broken = _follow(folder / FILE, receipt)
    signed = _signed(receipt)
    faults += [f"{RECEIPT}: {signed}"] if signed is SignatureState.WRONGLY and not faults else []
    return ReceiptCheck(receipt, records, [*faults, *broken, *_log_faults(folder, records)], signed)


def _log_faults(folder: Path, records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Compare each log with the hash in its record. Old records name no log."""
    faults = []
    for record in records:
        name = record.get("log")
        if not isinstance(name, str) or ".." in name.split("/"):
            continue
        now = digest_of(folder / name)
        if now != record.get("output_sha256"):
            state = "missing" if now is None else "not the log that was written"
            faults.append(f"{name} is {state} (evidence {record.get('id')})")
    return list(dict.fromkeys(faults))


def _load(path: Path) -> dict[str, Any]:
    try:
        raw = path.read_bytes()
        receipt = json.loads(raw)
    except OSError as fault:
        raise InvalidInput(f"cannot read {path}: {fault.strerror}", next_step="reflectloop receipt show RUN") from fault
    except ValueError as fault:
        raise InvalidInput(f"{path} is not a receipt: {fault}", next_step="reflectloop receipt show RUN") from fault
    if not isinstance(receipt, dict) or receipt.get("version") != VERSION:
        raise InvalidInput(f"{path} is not a receipt of version {VERSION}", next_step="reflectloop receipt show RUN")
    return {**receipt, "_raw": raw}


def _receipt_faults(receipt: dict[str, Any]) -> list[str]:
    """Return the faults of the receipt itself: a wrong digest, or bytes other than its canonical form."""
    raw = receipt.pop("_raw")
    body = _body(receipt)
    expected = (json.dumps(receipt, indent=2) + "\n").encode()
    good = receipt.get("digest") == digest(canonical(body)) and raw == expected
    return [] if good else [f"{RECEIPT} is not the file that was written"]


def _follow(path: Path, receipt: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Read the chain of records, and return them with its faults."""
    records, faults, last = [], [], FIRST
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return [], []  # already reported: the file is missing
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
    listed = receipt.get("evidence", {})
    if not faults and (listed.get("count") != len(records) or listed.get("last") != last):
        faults.append(f"{FILE} has {len(records)} record(s), the receipt lists {listed.get('count')}")
    return records, faults
