"""Find C and C++ tests that still exist but are no longer run, or no longer listed as tests in CMake lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering.added import code, ending, stood
from reflectloop.verification.tampering.text.reading import TestFileReading

C = frozenset({"c", "cc", "cpp", "cxx"})
_ENDINGS = tuple(f".{name}" for name in sorted(C))
_WORD = lazy(r"[A-Za-z_][\w.-]*")
_REGISTERS = lazy(
    r"\b(?:(?:MU_|mu_)?(?:RUN_TEST|run_test)(?:_CASE|_GROUP|_SUITE)?|RUN_TEST_GROUP|TEST_RUN|ADD_TEST|CU_add_test|CU_ADD_TEST|"
    r"cmocka_unit_test\w*|unit_test\w*|tcase_add_\w*test|g_test_add_\w+|suite_add_tcase)\s*\(([^;{}()]{0,400})\)"
)
_CALL = lazy(r"^[ \t]*(\w+)\s*\(\s*\)\s*;", re.MULTILINE)
_NAME = lazy(r"(?<![\"\w])[A-Za-z_]\w*(?![\"\w])")


def look_at_lists(changes: Sequence[ChangedFile], context: Mapping[str, bytes]) -> Iterator[TamperFinding]:
    for change in changes:
        folder, _, name = change.path.rpartition("/")
        if name.lower() == "cmakelists.txt" and change.before is not None and change.after is not None:
            yield from _unlisted(change, {path for path in context if path.rpartition("/")[0] == folder})


def _unlisted(change: ChangedFile, siblings: set[str]) -> Iterator[TamperFinding]:
    """Report each removed word that was the name of a test program."""
    listed = set(_WORD.findall(code(change.path, change.after)))
    programs = {path.rpartition("/")[2].rpartition(".")[0] for path in siblings if path.endswith(_ENDINGS)}
    for number, line in enumerate(code(change.path, change.before).splitlines(), 1):
        for word in _WORD.findall(line):
            if _stem(word) in programs and word not in listed:
                listed.add(word)
                at = stood(change.before, change.after, number)
                yield TamperFinding("test-uncollected", change.path, at, f"{word} is no longer listed as a test")


def _stem(word: str) -> str:
    """Return the name of a program from the name of its source."""
    return next((word.removesuffix(suffix) for suffix in _ENDINGS if word.endswith(suffix)), word)


def look_at_calls(
    changes: Sequence[ChangedFile], read: Mapping[str, tuple[TestFileReading, TestFileReading]]
) -> Iterator[TamperFinding]:
    relevant = [c_change for c_change in changes if ending(c_change.path) in C]
    before = {block.name for c_change in relevant for block in read[c_change.path][0].blocks.values()}
    after = {block.name for c_change in relevant for block in read[c_change.path][1].blocks.values()}
    run = {name for c_change in relevant for name, _ in _run(c_change.path, c_change.after, after)}
    for change in relevant:
        if change.after is None:
            continue
        for name, line in _run(change.path, change.before, before):
            # A test whose function is removed too is reported as deleted.
            if name not in run and (name in after or name not in before):
                run.add(name)
                message = f"{name} is no longer run"
                yield TamperFinding("test-uncollected", change.path, stood(change.before, change.after, line), message)


def _run(path: str, data: bytes | None, known: set[str]) -> Iterator[tuple[str, int]]:
    """Yield the names of functions passed to a runner, or called by name alone."""
    text = code(path, data)
    for match in _REGISTERS.finditer(text):
        for name in _NAME.findall(match[1]):
            yield name, text.count("\n", 0, match.start()) + 1
    for match in _CALL.finditer(text):
        if match[1] in known and "test" in match[1].lower():
            yield match[1], text.count("\n", 0, match.start(1)) + 1
