"""Keep vitest from writing its bundled configuration into node_modules, which is carried read-only."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from reflectloop.system import beneath

LOADER = "--configLoader=runner"
_NEEDED = {"vitest": (3, 1), "vite": (6, 1)}  # the first to know the option
_NOT_FOR_IT = re.compile(r"\b(__dirname|__filename|require\s*\(|module\.exports)")
_LARGEST = 1 << 20  # bytes of a configuration or a manifest
_NUMBERS = re.compile(r"(\d+)\.(\d+)")


def loader(folder: Path, modules: Sequence[Path]) -> tuple[str, ...]:
    """Return the option that loads the configuration without a temporary file, or nothing if it is unsupported."""
    configs = [path for kind in ("vitest", "vite") for path in folder.glob(f"{kind}.config.*")]
    if not configs or any(_NOT_FOR_IT.search(_text(path)) for path in configs):
        return ()
    supported = all(_version(modules, name) >= first for name, first in _NEEDED.items())
    return (LOADER,) if supported else ()


def _text(path: Path) -> str:
    """Return a configuration's text; what cannot be read may hold anything that the option is not for."""
    try:
        return beneath.read_path(path, _LARGEST).decode("utf-8", "replace")
    except OSError:
        return "__dirname"


def _version(modules: Sequence[Path], name: str) -> tuple[int, int]:
    for folder in modules:
        try:
            version = json.loads(beneath.read_path(folder / name / "package.json", _LARGEST))["version"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        match = _NUMBERS.match(str(version))
        if match:
            return int(match[1]), int(match[2])
    return 0, 0
