"""The graph of imports: what a file uses, what uses it, and which tests cover it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property

from reflectloop.context import filekinds, grammars
from reflectloop.context.index import Corpus

INDEXES = ("__init__", "index", "mod", "lib", "main")
_PACKAGES_ARE_FOLDERS = ("go", "java")
_GO_MODULE = re.compile(rb"^module[ \t]+\"?([^\s\"]+)", re.MULTILINE)
_ROOTS = ("src", "lib", "source", "pkg")


def stems_of(path: str) -> list[str]:
    """Return the folders and the stem of a path; a file that stands for its folder has only the folders."""
    parts = path.split("/")
    parts[-1] = parts[-1].partition(".")[0]
    return parts[:-1] if parts[-1] in INDEXES and len(parts) > 1 else parts


class ImportGraph:
    """Resolves the imports that the index holds to files of one tree."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._written: dict[int, list[str]] = {}

    @cached_property
    def _by_stem(self) -> dict[str, list[str]]:
        out: dict[str, list[str]] = defaultdict(list)
        for path in self._corpus.blobs:
            out[stems_of(path)[-1]].append(path)
        return out

    @cached_property
    def _by_base(self) -> dict[str, list[str]]:
        out: dict[str, list[str]] = defaultdict(list)
        for path in self._corpus.blobs:
            out[path.rpartition("/")[2]].append(path)
        return out

    @cached_property
    def _folders(self) -> dict[str, list[str]]:
        out: dict[str, list[str]] = defaultdict(list)
        for path in self._corpus.blobs:
            out[path.rpartition("/")[0]].append(path)
        return out

    def load_all(self) -> None:
        """Read the imports of all files at once."""
        rows = self._corpus.connection.execute("SELECT id, imports FROM blob")
        wanted = set(self._corpus.blobs.values())
        self._written = {blob: json.loads(text) for blob, text in rows if blob in wanted}

    def _imports_as_written(self, path: str) -> list[str]:
        blob = self._corpus.blobs[path]
        if blob not in self._written:
            row = self._corpus.connection.execute("SELECT imports FROM blob WHERE id = ?", (blob,)).fetchone()
            self._written[blob] = json.loads(row[0])
        return self._written[blob]

    def imports(self, path: str) -> set[str]:
        """Return the files that a file imports."""
        grammar = grammars.grammar_of(path)
        if grammar is None or path not in self._corpus.blobs:
            return set()
        resolve = {
            "python": self._python,
            "go": self._go,
            "c": self._include,
            "cpp": self._include,
            "rust": self._rust,
        }.get(grammar.name, self._relative)
        return {target for text in self._imports_as_written(path) for target in resolve(path, text)} - {path}

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """The files that import each file."""
        self.load_all()
        out: dict[str, set[str]] = defaultdict(set)
        for path in self._corpus.blobs:
            for target in self.imports(path):
                out[target].add(path)
        return out

    def tests_of(self, path: str) -> dict[str, str]:
        """Return the tests of a file and why, those that are named after it first, then those that import it."""
        stem = stems_of(path)[-1]
        names = (f"test_{stem}", f"{stem}_test", f"test{stem}", f"{stem}_spec", stem)
        named = [test for name in names for test in self._by_stem.get(name, ()) if filekinds.is_test(test)]
        importing = [test for test in sorted(self.importers.get(path, ())) if filekinds.is_test(test)]
        both = set(importing)
        out = {
            test: "a test that imports it, and is named after it" if test in both else "a test named after it"
            for test in named
            if test != path
        }
        return out | {test: "a test that imports it" for test in importing if test not in out}

    # Resolving ----------------------------------------------------------------------------------------------------

    def _suffix(self, parts: list[str], near: str) -> list[str]:
        """Return the files whose path ends with these parts, the nearest to the importing file only."""
        matches = [path for path in self._by_stem.get(parts[-1], ()) if stems_of(path)[-len(parts) :] == parts]
        if len(matches) < 2:  # noqa: PLR2004
            return matches
        shared = {path: _shared_folders(path, near) for path in matches}
        most = max(shared.values())
        return [path for path in matches if shared[path] == most]

    def _python(self, path: str, text: str) -> Iterable[str]:
        module, _, name = text.partition(":")
        dots = len(module) - len(module.lstrip("."))
        parts = [part for part in module.split(".") if part]
        if dots:
            folders = path.split("/")[:-1]
            parts = [*folders[: len(folders) - dots + 1], *parts]
        if not parts:
            return ()
        if name and (matches := self._suffix([*parts, name], path)):
            return matches
        matches = self._suffix(parts, path)
        return [match for match in matches if dots or len(parts) > 1 or _is_top(match)]

    def _relative(self, path: str, text: str) -> Iterable[str]:
        if not text.startswith("."):
            parts = text.replace(".", "/").split("/")
            return self._suffix(parts, path) if len(parts) > 1 else ()
        folders = path.split("/")[:-1]
        for part in text.split("/"):
            if part == "..":
                folders = folders[:-1]
            elif part not in ("", "."):
                folders = [*folders, part]
        if not folders:
            return ()
        folders[-1] = folders[-1].partition(".")[0] if folders[-1].count(".") else folders[-1]
        return [match for match in self._by_stem.get(folders[-1], ()) if stems_of(match) == folders]

    def _go(self, _path: str, text: str) -> Iterable[str]:
        for module, folder in self._go_modules.items():
            if text == module or text.startswith(f"{module}/"):
                inside = "/".join(filter(None, (folder, text[len(module) + 1 :])))
                return self._go_package(inside)
        parts = text.split("/")
        return next(filter(None, (self._go_package("/".join(parts[at:])) for at in range(len(parts)))), ())

    def _go_package(self, folder: str) -> list[str]:
        return [file for file in self._folders.get(folder, ()) if file.endswith(".go") and not filekinds.is_test(file)]

    @cached_property
    def _go_modules(self) -> dict[str, str]:
        """The modules of Go by the names that their `go.mod` gives them, the longest first, with their folders."""
        files = {path: self._corpus.listing[path] for path in self._by_base.get("go.mod", ())}
        out = {}
        for path, data in self._corpus.tree.read(files) if files else ():
            if match := _GO_MODULE.search(data):
                out[match[1].decode("utf-8", "replace")] = path.rpartition("/")[0]
        return dict(sorted(out.items(), key=lambda item: -len(item[0])))

    def same_package(self, path: str) -> set[str]:
        """Return the files that use the names of a file without importing it."""
        grammar = grammars.grammar_of(path)
        if grammar is None or grammar.name not in _PACKAGES_ARE_FOLDERS:
            return set()
        inside = self._folders.get(path.rpartition("/")[0], ())
        return {other for other in inside if grammars.grammar_of(other) == grammar} - {path}

    def _include(self, path: str, text: str) -> Iterable[str]:
        parts = [part for part in text.split("/") if part not in (".", "..")]
        matches = [file for file in self._by_base.get(parts[-1], ()) if file.split("/")[-len(parts) :] == parts]
        most = max((_shared_folders(file, path) for file in matches), default=0)
        nearest = [file for file in matches if _shared_folders(file, path) == most]
        stem = parts[-1].partition(".")[0]
        bodies = [
            file for file in self._by_stem.get(stem, ()) if file.endswith((".c", ".cc", ".cpp", ".cxx")) and nearest
        ]
        return [*nearest, *bodies[:2]]

    def _rust(self, path: str, text: str) -> Iterable[str]:
        parts = [part for part in text.split("::") if part not in ("crate", "self", "super", "")]
        for end in range(len(parts), 0, -1):
            matches = self._suffix(parts[:end], path)
            if matches and (end > 1 or "::" not in text or text.startswith(("crate", "self", "super"))):
                return matches
        return ()


def _shared_folders(left: str, right: str) -> int:
    count = 0
    for one_part, other_part in zip(left.split("/")[:-1], right.split("/")[:-1], strict=False):
        if one_part != other_part:
            break
        count += 1
    return count


def _is_top(path: str) -> bool:
    """Return True for a module or package at the top of a project or of its source folder."""
    parts = path.split("/")
    depth = len(parts) - (2 if parts[-1].startswith("__init__.") else 1)
    return depth <= 0 or (depth == 1 and parts[0] in _ROOTS)
