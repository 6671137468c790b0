"""Every scenario there is, read from the tables beside this file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proof.failures.scenario import Scenario

_FOLDER = Path(__file__).parent


def scenarios() -> list[Scenario]:
    return [one for path in sorted(_FOLDER.glob("*.toml")) for one in _read(path)]


def _read(path: Path) -> Iterator[Scenario]:
    table = tomllib.loads(path.read_text())
    yield from _sent(path.stem, table)
    for cause, scripts in table.get("causes", {}).items():
        before = scripts.pop("before", "")
        for name, script in scripts.items():
            yield Scenario(_id(path.stem, cause, name), cause, script, before)


def _sent(part: str, table: dict[str, Any]) -> Iterator[Scenario]:
    """Every client to every place that can happen to it."""
    for name, place in table.get("places", {}).items():
        for client in place["clients"].split():
            script = table["clients"][client].replace("@URL@", place["address"])
            yield Scenario(_id(part, place["cause"], f"{name}-{client}"), place["cause"], script)


def _id(part: str, cause: str, name: str) -> str:
    return f"{part}-{cause.replace(' ', '-')[:24]}-{name}"
