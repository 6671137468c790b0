"""Detect all checks of a project: every ecosystem in every self-contained folder; and convert configured ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from reflectloop.config import Config, ConfiguredCheck
from reflectloop.verification.detect import node, python
from reflectloop.verification.result import KIND_ORDER, DetectedCheck, Kind
from reflectloop.verification.tools.commands import recognise
from reflectloop.verification.tools.project import ProjectFiles, ProjectPart, at
from reflectloop.verification.tools.record import Ecosystem
from reflectloop.verification.tools.registry import runnable, tools

_DEEPEST = 4
# Manifests in these folders are test data or examples, not parts of the project.
_MATERIAL = frozenset(
    [
        *(
            "t",
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


@cache
def _ecosystems() -> tuple[Ecosystem, ...]:
    return (
        Ecosystem(manifests=python.manifests(), find=python.find, covers=python.covers),
        Ecosystem(manifests=node.MANIFESTS, find=node.find, covers=node.covers),
        *(tool.detect for tool in tools() if isinstance(tool.detect, Ecosystem)),
    )


def checks(tree: ProjectFiles) -> list[DetectedCheck]:
    """Return every check with its reason, builds first and tests last; an empty list if nothing is detected."""
    top = ProjectPart(tree)
    usual = [ecosystem for ecosystem in _ecosystems() if not ecosystem.last_resort]
    named = _manifests(usual, tree)
    detected = [check for ecosystem in usual for check in _checks_of(ecosystem, tree, top, named)]
    for ecosystem in _ecosystems():
        if ecosystem.last_resort and not any(check.kind == "test" for check in detected):
            detected += ecosystem.find(top)
    return list(_with_unique_names(sorted(detected, key=lambda check: KIND_ORDER.index(check.kind))))


def configured(
    tree: ProjectFiles, name: str, run: Sequence[str], kind: Kind | None = None, cwd: str = "."
) -> DetectedCheck:
    """Return a check that the user configured, with the tool recognised from its command or package.json script."""
    scripts = at(ProjectPart(tree, cwd).json("package.json"), "scripts")
    tool = recognise(tuple(run), scripts if isinstance(scripts, dict) else {}) or "custom"
    known = runnable(tool)
    return DetectedCheck(
        name, kind or (known.kind if known else "custom"), tool, tuple(run), cwd, "configured in reflectloop.toml"
    )


def _checks_of(
    ecosystem: Ecosystem, tree: ProjectFiles, top: ProjectPart, named: Iterable[tuple[str, str]]
) -> Iterator[DetectedCheck]:
    parts: list[ProjectPart] = []
    for folder in _folders(ecosystem, named):
        if any(_below(folder, part.folder) and ecosystem.covers(part, folder) for part in parts):
            continue
        part = top if folder == "." else ProjectPart(tree, folder, top)
        detected = list(ecosystem.find(part))
        if detected:
            parts.append(part)
            yield from detected


def _manifests(ecosystems: Iterable[Ecosystem], tree: ProjectFiles) -> list[tuple[str, str]]:
    """Return the folder and the name of every manifest of any ecosystem below the top folder."""
    patterns = dict.fromkeys(pattern for ecosystem in ecosystems for pattern in ecosystem.manifests)
    search = cache(re.compile("|".join(patterns)).search)  # many files have the same name
    named = (path.rpartition("/") for path in tree.paths)
    return [(folder, name) for folder, _, name in named if folder and search(name) and _is_part_of_project(folder)]


def _folders(ecosystem: Ecosystem, named: Iterable[tuple[str, str]]) -> list[str]:
    """Return the top folder and every folder with a manifest, shallow ones first."""
    out = {"."}
    if ecosystem.manifests:
        search = re.compile("|".join(ecosystem.manifests)).search
        out |= {folder for folder, name in named if search(name)}
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


def known_checks(settings: Config, tree: ProjectFiles) -> list[DetectedCheck]:
    """Return the project's checks: those its settings name, else those that are found.

    Their executables are chosen when they run, after the set-up.
    """
    named = [_named(check, tree) for check in settings.verify.checks]
    return named or checks(tree)


def _named(check: ConfiguredCheck, tree: ProjectFiles) -> DetectedCheck:
    """Return a check of the settings; without a kind it has its tool's, and an unknown command must show tests."""
    named = configured(tree, check.name, check.run, check.kind, check.cwd)._replace(service=check.service)
    return named._replace(kind="test") if check.kind is None and named.kind == "custom" else named
