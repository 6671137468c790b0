"""Find test programs in CMake lists that still exist but are no longer built as tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering.added import code, stood

_ENDINGS = (".c", ".cc", ".cpp", ".cxx")
_WORD = re.compile(r"[A-Za-z_][\w.-]*")


def look(changes: Sequence[ChangedFile], context: Mapping[str, bytes]) -> Iterator[TamperFinding]:
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
            if word.removesuffix(".c") in programs and word not in listed:
                listed.add(word)
                at = stood(change.before, change.after, number)
                yield TamperFinding("test-uncollected", change.path, at, f"{word} is no longer listed as a test")
