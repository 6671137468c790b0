"""Find files outside of packages that only tests use: what is written there is what the tests expect."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath

from reflectloop.system.patterns import lazy
from reflectloop.verification import protected
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.tools import javascript
from reflectloop.verification.used_files import Read, imported_names, module_name

# Folders of code that is not part of the package, so that tests import it only to compare.
_BESIDE_PACKAGES = frozenset(("tools", "scripts", "reference", "oracle", "oracles", "examples", "benchmarks", "misc"))
_IMPORTS = (".py", *javascript.ENDINGS)
_MANIFESTS = frozenset(("pyproject.toml", "setup.cfg", "MANIFEST.in", "package.json", "Cargo.toml", "Makefile"))
_DOCUMENTS = (".md", ".rst", ".txt", ".adoc")
_JUDGING = frozenset(("test", "fixture", "hook", "snapshot"))
_HEADERS = (".h", ".hh", ".hpp")
_C_SOURCES = (*_HEADERS, ".c", ".cc", ".cpp", ".cxx")
_INCLUDED = lazy(rb"^[ \t]*#[ \t]*include[ \t]*\"(?:[^\"\n]*/)?([^\"/\n]+)\"", re.MULTILINE)
_MOST_READ = 5000  # files that are searched for names


def find_test_only_files(changes: Iterable[ChangedFile], base: Collection[str], read: Read) -> frozenset[str]:
    """Return changed files that tests of base use and no other file of base does: data, and code beside packages."""
    changed = [change.path for change in changes if change.before is not None and protected.guard(change.path) is None]
    headers = _headers_of_tests([path for path in changed if path.endswith(_HEADERS)], base, read)
    candidates = [path for path in changed if _may_be_expected(path, base)]
    if not candidates:
        return headers
    named = [path for path in base if path.endswith(_IMPORTS) or PurePosixPath(path).name in _MANIFESTS]
    contents = read(sorted(named, key=lambda path: not _judges(path))[:_MOST_READ])
    return headers | {path for path in candidates if _only_tests_use(path, contents)}


def _headers_of_tests(changed: Collection[str], base: Collection[str], read: Read) -> frozenset[str]:
    """Return the headers of C that only tests include, beside one that sources include too: frameworks of tests."""
    if not changed:
        return frozenset()
    contents = read([path for path in base if path.endswith(_C_SOURCES)][:_MOST_READ])
    included = {path: {name.decode() for name in _INCLUDED.findall(data)} for path, data in contents.items()}
    of_sources = {name for path, names in included.items() if not _judges(path) for name in names}

    def is_framework(path: str) -> bool:
        users = [names for other, names in included.items() if other != path and PurePosixPath(path).name in names]
        return bool(users) and all(names & of_sources for names in users)

    return frozenset(path for path in changed if PurePosixPath(path).name not in of_sources and is_framework(path))


def _may_be_expected(path: str, base: Collection[str]) -> bool:
    """Return True for data in a folder without code, and for code in a folder beside the packages."""
    parts = PurePosixPath(path).parts
    if path.endswith(_IMPORTS):
        return len(parts) > 1 and parts[0] in _BESIDE_PACKAGES
    if len(parts) == 1 or path.endswith(_DOCUMENTS) or path.rpartition(".")[2].lower() in protected.CODE_ENDINGS:
        return False
    return not any(other.startswith(f"{parts[0]}/") and other.endswith(_IMPORTS) for other in base)


def _judges(path: str) -> bool:
    protection = protected.guard(path)
    return protection is not None and protection.kind in _JUDGING


def _only_tests_use(path: str, contents: Mapping[str, bytes]) -> bool:
    users = [other for other, data in contents.items() if other != path and _uses(path, other, data)]
    if not users or not all(map(_judges, users)):
        return False
    # A test that imports nothing else tests this file, rather than comparing with it.
    return not path.endswith(_IMPORTS) or all(_compares(other, contents) for other in users)


def _uses(path: str, other: str, data: bytes) -> bool:
    if path.endswith(_IMPORTS):
        return module_name(path) in imported_names(other, data)
    if PurePosixPath(path).name.encode() in data:
        return True
    folder = re.escape(posixpath.basename(posixpath.dirname(path)).encode())
    return not _judges(other) and re.search(rb"[\"'/]" + folder + rb"[\"'/]", data) is not None


def _compares(test: str, contents: Mapping[str, bytes]) -> bool:
    """Return True if a test imports code of a package, too."""
    packages = [other for other in contents if other.partition("/")[0] not in _BESIDE_PACKAGES and not _judges(other)]
    return not {module_name(other) for other in packages}.isdisjoint(imported_names(test, contents[test]))
