"""Read the project around a patch from its git trees."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import replace

from reflectloop.verification.protected import guard
from reflectloop.verification.protected.names import CODE_ENDINGS, IMPORT_ROOTS
from reflectloop.verification.tampering.added import ending
from reflectloop.verification.tampering.powers.project import SurroundingFiles
from reflectloop.verification.tree_builder import TreeBuilder


def surrounding_files(
    trees: TreeBuilder,
    base: str,
    head: str,
    *,
    is_fix: bool = False,
    read_newer: Callable[[bytes], ast.Module | None] = lambda _data: None,
) -> SurroundingFiles:
    """Return the files around a patch; each is read when it is asked for."""
    code = [path for path in trees.listing(base) if ending(path) in CODE_ENDINGS]
    paths = [path for path in code if guard(path) is None]

    def read(wanted: Iterable[str]) -> Iterable[tuple[str, bytes]]:
        listing = trees.listing(base)
        contents = trees.contents([listing[path].blob for path in wanted])
        return [(path, contents[listing[path].blob]) for path in sorted(wanted)]

    return replace(
        patched_files(trees, head),
        base_sources=lambda: read(paths),
        base_tests=lambda: read([path for path in code if path.endswith(".py") and guard(path) is not None]),
        packages=_packages(paths),
        is_fix=is_fix,
        read_newer=read_newer,
    )


def patched_files(trees: TreeBuilder, head: str) -> SurroundingFiles:
    """Return only the files of the patched tree, to which links of the patch may lead."""
    folders = {path.rpartition("/")[0] for path in trees.listing(head)}
    folders |= {"/".join(folder.split("/")[:depth]) for folder in folders for depth in range(folder.count("/") + 1)}
    return SurroundingFiles(
        head_file=lambda path: trees.read(head, path),
        head_folders=frozenset(folders | {"."}),
    )


def _packages(paths: Iterable[str]) -> frozenset[str]:
    """Return the top-level modules and packages of a project."""
    out = set()
    for path in paths:
        parts = path.split("/")
        inner = parts[1:] if len(parts) > 1 and parts[0] in IMPORT_ROOTS else parts
        if path.endswith(".py") and inner[0] != "__init__.py":
            out.add(inner[0].removesuffix(".py"))
    return frozenset(out)
