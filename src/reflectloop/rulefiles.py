"""Load files of rules: the parts that rules of policy, secrets and diagnosis share.

Every rule contains samples. A rule of a user's file that contradicts its samples is refused.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from reflectloop.errors import Fault, InvalidInput
from reflectloop.system import beneath

Entry = TypeVar("Entry", bound=BaseModel)


def read_bytes(path: Path) -> bytes:
    try:
        return beneath.read_path(path)
    except OSError as fault:
        raise InvalidInput(f"cannot read the rules in {path}: {fault.strerror}") from fault


def read_toml(path: Path, tables: Sequence[str]) -> dict[str, Any]:
    """Return a TOML file that contains only arrays of these tables."""
    try:
        raw = tomllib.loads(read_bytes(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise InvalidInput(f"{path} is not TOML: {fault}", next_step=f"correct {path}") from fault
    unknown = sorted(set(raw) - set(tables))
    if unknown or not all(isinstance(raw.get(table, []), list) for table in tables):
        what = f"unknown keys: {', '.join(unknown)}; " if unknown else ""
        wanted = " or ".join(f"[[{table}]]" for table in tables)
        raise InvalidInput(f"{path}: {what}entries are written as {wanted}", next_step=f"correct {path}")
    return raw


def entries(path: Path, table: str, raw: dict[str, Any], model: type[Entry]) -> tuple[Entry, ...]:
    """Return the entries of a table; raise InvalidInput with every fault of the first one that is not valid."""
    return tuple(_entry(path, f"{table} {number}", value, model) for number, value in enumerate(raw.get(table, ()), 1))


def _entry(path: Path, place: str, value: object, model: type[Entry]) -> Entry:
    try:
        return model.model_validate(value)
    except ValidationError as fault:
        name = value.get("id") or value.get("tool") if isinstance(value, dict) else None
        label = f"{place} ({name})" if name else place
        faults = tuple(
            Fault(".".join([label, *map(str, error["loc"])]), None, error["msg"], InvalidInput.code)
            for error in fault.errors()
        )
        raise InvalidInput(f"{path}: {label} is not usable", next_step=f"correct {path}", faults=faults) from fault


def refused(name: str, faults: Iterable[Fault]) -> InvalidInput:
    """Return the error for a file with these faults in its rules."""
    coded = tuple(fault._replace(code=InvalidInput.code) for fault in faults)
    return InvalidInput(f"{name}: {len(coded)} fault(s) in its rules", next_step=f"correct {name}", faults=coded)


def sample_faults(
    rule_id: str, match: Iterable[str], not_match: Iterable[str], matches: Callable[[str], bool]
) -> list[str]:
    """Return how a rule contradicts its samples."""
    missed = [sample for sample in match if not matches(sample)]
    wrong = [sample for sample in not_match if matches(sample)]
    return [f"rule '{rule_id}' does not match its sample {sample!r}" for sample in missed] + [
        f"rule '{rule_id}' matches a sample that it must not match: {sample!r}" for sample in wrong
    ]
