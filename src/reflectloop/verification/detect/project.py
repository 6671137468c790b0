"""Detect all checks of a project: every ecosystem in every self-contained folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import NamedTuple

from reflectloop.verification.detect import dotnet, go, jvm, make, native, node, php, python, ruby, rust, shell
from reflectloop.verification.detect.part import ProjectPart
from reflectloop.verification.detect.tree import ProjectFiles
from reflectloop.verification.result import DetectedCheck

_ORDER = ("build", "lint", "type", "test", "custom")
_DEEPEST = 4
# Manifests in these folders are test data or examples, not parts of the project.
_MATERIAL = frozenset(
    [
        *(
            "test",
            "tests",
            "testing",
            "__tests__",
            "spec",
            "testdata",
            "test-data",
            "fixtures",
            "__fixtures__",
            "fixture",
        ),
        *("example", "examples", "samples", "demo", "demos", "template", "templates", "skeleton", "playground"),
        *(
            "docs",
            "doc",
            "website",
            "bench",
            "benches",
            "benchmark",
            "benchmarks",
            "dist",
            "build",
            "extern",
            "external",
        ),
    ]
)


class _Ecosystem(NamedTuple):
    manifests: tuple[str, ...]
    found: Callable[[ProjectPart], Iterable[DetectedCheck]]
    covers: Callable[[ProjectPart, str], bool]


def _ecosystem(module: ModuleType) -> _Ecosystem:
    return _Ecosystem(module.MANIFESTS, module.found, module.covers)


_ECOSYSTEMS = tuple(_ecosystem(module) for module in (python, node, go, rust, jvm, native, dotnet, ruby, php, shell))


def checks(tree: ProjectFiles) -> list[DetectedCheck]:
    """Return every check with its reason, builds first and tests last; an empty list if nothing is detected."""
    top = ProjectPart(tree)
    detected = [check for ecosystem in _ECOSYSTEMS for check in _checks_of(ecosystem, tree, top)]
    if not any(check.kind == "test" for check in detected):
        detected += make.found(top)
    return list(_with_unique_names(sorted(detected, key=lambda check: _ORDER.index(check.kind))))


def _checks_of(ecosystem: _Ecosystem, tree: ProjectFiles, top: ProjectPart) -> Iterator[DetectedCheck]:
    parts: list[ProjectPart] = []
    for folder in _folders(ecosystem, tree):
        if any(_below(folder, part.folder) and ecosystem.covers(part, folder) for part in parts):
            continue
        part = top if folder == "." else ProjectPart(tree, folder, top)
        detected = list(ecosystem.found(part))
        if detected:
            parts.append(part)
            yield from detected


def _folders(ecosystem: _Ecosystem, tree: ProjectFiles) -> list[str]:
    """Return the top folder and every folder with a manifest, shallow ones first."""
    out = {"."}
    if ecosystem.manifests:
        search = re.compile("|".join(ecosystem.manifests)).search
        named = (path.rpartition("/") for path in tree.paths)
        out |= {folder for folder, _, name in named if folder and search(name) and _is_part_of_project(folder)}
    return sorted(out, key=lambda folder: (folder != ".", folder.count("/"), folder))


def _is_part_of_project(folder: str) -> bool:
    parts = folder.split("/")
    return len(parts) <= _DEEPEST and _MATERIAL.isdisjoint(parts) and not any(part.startswith(".") for part in parts)


def _below(folder: str, above: str) -> bool:
    return folder != above and (above == "." or folder.startswith(f"{above}/"))


def _with_unique_names(detected: Iterable[DetectedCheck]) -> Iterator[DetectedCheck]:
    """Yield the checks with unique names: the second tsc of a folder is `tsc-2`."""
    taken: dict[str, int] = {}
    for check in detected:
        taken[check.name] = taken.get(check.name, 0) + 1
        count = taken[check.name]
        yield check if count == 1 else check._replace(name=f"{check.name}-{count}")
