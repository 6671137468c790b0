"""Read the project around a patch from its git trees."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable
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

    def read(wanted: Collection[str]) -> Iterable[tuple[str, bytes]]:
        listing = trees.listing(base)
        contents = trees.contents([listing[path].blob for path in wanted])
        return [(path, contents[listing[path].blob]) for path in sorted(wanted)]

    return replace(
        patched_files(trees, head),
        base_sources=lambda: read([path for path in code if guard(path) is None]),
        base_tests=lambda: read([path for path in code if path.endswith(".py") and guard(path) is not None]),
        packages=_packages(code),
        is_fix=is_fix,
        read_newer=read_newer,
    )


def patched_files(trees: TreeBuilder, head: str) -> SurroundingFiles:
    """Return only the files of the patched tree, to which links of the patch may lead."""

    def is_folder(path: str) -> bool:
        return path in ("", ".") or any(other.startswith(f"{path}/") for other in trees.listing(head))

    return SurroundingFiles(head_file=lambda path: trees.read(head, path), is_head_folder=is_folder)


def _packages(paths: Iterable[str]) -> frozenset[str]:
    """Return the top-level modules and packages of a project, without those that judge."""
    out = {"__init__"}
    for path in paths:
        if not path.endswith(".py"):
            continue
        top, slash, rest = path.partition("/")
        if slash and top in IMPORT_ROOTS:
            top = rest.partition("/")[0]
        if top.removesuffix(".py") not in out and guard(path) is None:
            out.add(top.removesuffix(".py"))
    return frozenset(out - {"__init__"})
