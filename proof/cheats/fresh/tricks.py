"""All fresh cheats, read from the tables beside."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proof.cheats.fresh import hiding, layouts, special
from proof.cheats.fresh.stand import Elsewhere, Stand, Trick, answered, imported, when


def _make(row: dict[str, Any]) -> Callable[[Stand], None]:
    how = row["how"]
    if how == "when":
        return when(row["test"], row.get("imports", ""), row.get("helper", ""))
    if how == "imported":
        return imported(row["code"])
    if how == "answered":
        return answered(row["code"], row.get("imports", ""))
    return _named(how)(row)


def _named(name: str) -> Callable[[dict[str, Any]], Callable[[Stand], None]]:
    module = next(module for module in (special, hiding, layouts) if hasattr(module, name))
    made: Callable[[dict[str, Any]], Callable[[Stand], None]] = getattr(module, name)
    return made


def _trick(row: dict[str, Any]) -> Trick:
    elsewhere = dict(row.get("elsewhere", {}))
    if "swap" in elsewhere:
        elsewhere["swap"] = tuple(elsewhere["swap"])
    prepare = row.get("prepare")
    return Trick(
        row["group"],
        row["name"],
        _make(row),
        row.get("language", "python"),
        tuple(row.get("runners", ())),
        tuple(row["packages"]),
        Elsewhere(**elsewhere),
        _named(prepare)(row) if prepare else None,
        row.get("plain", ""),
        row.get("fools", True),
    )


def _read() -> tuple[Trick, ...]:
    tricks = []
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        table = tomllib.loads(path.read_text())
        usual = {"group": table.get("group", ""), "packages": table.get("packages", ())}
        for row in table["trick"]:
            scripts = {"packages": ()} if row.get("language") else {}
            tricks.append(_trick(usual | scripts | row))
    return tuple(tricks)


TRICKS = _read()
GROUPS = tuple(dict.fromkeys(trick.group for trick in TRICKS))
