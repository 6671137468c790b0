"""Rust: cargo's tests or nextest, and clippy if the project configures it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Any

from reflectloop.verification.detect.hints import hints, of_tool
from reflectloop.verification.detect.part import ProjectPart, at, listed, table
from reflectloop.verification.result import DetectedCheck

_TESTED = re.compile(r"#\[(\w+::)*(test|rstest|test_case|quickcheck)\b|\bproptest!|^\s*//[/!] ```\w*$", re.MULTILINE)
MANIFESTS = (r"^Cargo\.toml$",)


def found(part: ProjectPart) -> Iterator[DetectedCheck]:
    manifest = part.toml("Cargo.toml")
    if not manifest:
        return
    scope = ("--workspace",) if "workspace" in manifest else ()
    lint = _clippy(part, manifest)
    if lint:
        yield part.check("clippy", "lint", "clippy", ("cargo", "clippy", *scope, "--all-targets"), lint)
    nextest = _nextest(part)
    if nextest:
        yield part.check("nextest", "test", "nextest", ("cargo", "nextest", "run", *scope), nextest)
        return
    tested = next((path for path in part.matching(r"\.rs$") if _TESTED.search(part.text(path))), None)
    if tested:
        yield part.check("cargo-test", "test", "cargo-test", ("cargo", "test", *scope), f"{tested} has tests")
    else:
        yield part.check("cargo-build", "build", "cargo-build", ("cargo", "build", *scope), "Cargo.toml exists")


def covers(part: ProjectPart, folder: str) -> bool:
    """Return True for workspace members and path dependencies below the workspace."""
    workspace = at(part.toml("Cargo.toml"), "workspace")
    if workspace is None:
        return False
    below = str(PurePosixPath(folder).relative_to(part.folder))
    members = [str(member).rstrip("/") for member in listed(workspace, "members")]
    return any(fnmatch(below, pattern) for pattern in (*members, *_paths(part.toml("Cargo.toml"))))


def _paths(manifest: dict[str, Any]) -> Iterator[str]:
    tables = [table(manifest, name) for name in ("dependencies", "dev-dependencies", "build-dependencies")]
    tables.append(table(manifest, "workspace", "dependencies"))
    for needs in tables:
        for dependency in needs.values():
            if isinstance(at(dependency, "path"), str):
                yield str(PurePosixPath(dependency["path"]))


def _clippy(part: ProjectPart, manifest: dict[str, Any]) -> str | None:
    name = part.first(("clippy.toml", ".clippy.toml"))
    if name:
        return f"{name} exists"
    if at(manifest, "lints", "clippy") or at(manifest, "workspace", "lints", "clippy"):
        return "Cargo.toml has lints for clippy"
    runs = of_tool(hints(part), "clippy")
    return f"{runs.source} runs clippy" if runs else None


def _nextest(part: ProjectPart) -> str | None:
    name = part.first((".config/nextest.toml",))
    if name:
        return f"{name} exists"
    runs = of_tool(hints(part), "nextest")
    return f"{runs.source} runs nextest" if runs else None
