"""Compare files that say which packages are installed."""

from __future__ import annotations

import re

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import ChangedFile

# A requirement of pip by its name: extras, version, hashes and markers follow.
_PINNED = lazy(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?P<extras>\[[^\]]*\])?\s*(?:[=<>!~][^;@#]*)?(?P<marker>;[^#]*)?(?:#.*)?"
)
_CONTINUED = lazy(r"\\\n")
_HASH = lazy(r"\s*--hash[= ]\S+")

# Lists of packages for documentation, linters and releases, which tests do not import.
FOR_OTHER_WORK = lazy(
    r"(?i)(?:^|[/_.-])(?:docs?|lint|typing|mypy|style|release|pre-commit|flake8|black)[_.-](?![^/]*(?:test|dev))[^/]*(?:txt|in)$"
)


def moves_versions_only(change: ChangedFile) -> bool:
    """Return True if a requirements file names the same packages as before, in other versions."""
    if not change.path.endswith((".txt", ".in")) or change.before is None or change.after is None:
        return False
    return _packages(change.before) == _packages(change.after)


def _packages(data: bytes) -> set[str]:
    """Return the packages by name; every other line, such as an address or an index, stands for itself."""
    text = _CONTINUED.sub(" ", data.decode("utf-8", "replace"))
    packages = set()
    for written in text.splitlines():
        line = _HASH.sub("", written).strip()
        if not line or line.startswith("#"):
            continue
        named = _PINNED.fullmatch(line)
        if named:
            name = re.sub(r"[-_.]+", "-", named["name"]).lower()
            packages.add(f"{name}{named['extras'] or ''}")
        else:
            packages.add(line)
    return packages
