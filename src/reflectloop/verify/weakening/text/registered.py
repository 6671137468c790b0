"""Looks in C and C++ for tests that are still there but that nobody runs any more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from reflectloop.verify.result import Change, Finding
from reflectloop.verify.weakening.added import code, ending, stood
from reflectloop.verify.weakening.text.reading import Read

C = frozenset({"c", "cc", "cpp", "cxx"})
_REGISTERS = re.compile(
    r"\b(?:(?:MU_|mu_)?(?:RUN_TEST|run_test)(?:_CASE|_GROUP|_SUITE)?|RUN_TEST_GROUP|TEST_RUN|ADD_TEST|CU_add_test|CU_ADD_TEST|"
    r"cmocka_unit_test\w*|unit_test\w*|tcase_add_\w*test|g_test_add_\w+|suite_add_tcase)\s*\(([^;{}()]{0,400})\)"
)
_CALL = re.compile(r"^[ \t]*(\w+)\s*\(\s*\)\s*;", re.MULTILINE)
_NAME = re.compile(r"(?<![\"\w])[A-Za-z_]\w*(?![\"\w])")


def look(changes: Sequence[Change], read: Mapping[str, tuple[Read, Read]]) -> Iterator[Finding]:
    ours = [each for each in changes if ending(each.path) in C]
    before = {block.name for each in ours for block in read[each.path][0].blocks.values()}
    after = {block.name for each in ours for block in read[each.path][1].blocks.values()}
    run = {name for each in ours for name, _ in _run(each.path, each.after, after)}
    for change in ours:
        if change.after is None:
            continue
        for name, line in _run(change.path, change.before, before):
            # One whose function is gone too is named for that.
            if name not in run and (name in after or name not in before):
                run.add(name)
                words = f"{name} is no longer run"
                yield Finding("test-uncollected", change.path, stood(change.before, change.after, line), words)


def _run(path: str, data: bytes | None, known: set[str]) -> Iterator[tuple[str, int]]:
    """Names of functions handed to a runner, or called by name alone."""
    text = code(path, data)
    for found in _REGISTERS.finditer(text):
        for name in _NAME.findall(found[1]):
            yield name, text.count("\n", 0, found.start()) + 1
    for found in _CALL.finditer(text):
        if found[1] in known and "test" in found[1].lower():
            yield found[1], text.count("\n", 0, found.start(1)) + 1
