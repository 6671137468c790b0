"""The baseline: a file of fingerprints that the user reviewed and accepted."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from reflectloop.errors import InvalidInput
from reflectloop.system import beneath, files, patterns

DEFAULT = ".reflectloop-baseline.json"
_FINGERPRINT = patterns.lazy(r"[0-9a-f]{12}\Z")


def read_baseline(path: Path) -> frozenset[str]:
    try:
        document = json.loads(beneath.read_path(path))
    except OSError as fault:
        raise InvalidInput(f"cannot read the baseline {path}: {fault.strerror}") from fault
    except ValueError as fault:
        raise InvalidInput(f"{path} is not JSON: {fault}", next_step="reflectloop scan --write-baseline") from fault
    entries = document.get("findings") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise InvalidInput(f"{path} is not a baseline: it has no list of findings")
    marks = [entry.get("fingerprint") if isinstance(entry, dict) else None for entry in entries]
    for number, mark in enumerate(marks, 1):
        if not isinstance(mark, str) or not _FINGERPRINT.match(mark):
            raise InvalidInput(f"{path}: finding {number} has no fingerprint of twelve hex digits")
    return frozenset(str(mark) for mark in marks)


def write_baseline(path: Path, findings: Iterable[dict[str, object]]) -> None:
    """Write the findings, sorted so that a diff of the file is short."""
    entries = sorted(findings, key=lambda entry: (str(entry["path"]), str(entry["fingerprint"])))
    files.write_atomic(path, (files.json_text({"version": 1, "findings": entries}) + "\n").encode())
