"""Shell lines inside the code of other languages: its literals, and the code itself, taken for a shell line."""

from __future__ import annotations

from collections.abc import Iterator

import re2

from reflectloop.policy import shell_words
from reflectloop.policy.rule import compiled
from reflectloop.policy.simple_command import Code, Inner, Opaque, ShellScript, ShellWord, SimpleCommand

_LONGEST = 100_000  # characters
_QUOTED = r"""(?s)'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`((?:[^`\\]|\\.)*)`|%[xqQ]?[\[({|]([^\])}|]*)[\])}|]"""
_LIST = r"""(?:(?:'[^'\\]*'|"[^"\\]*")\s*,\s*[\[(]?\s*)+(?:'[^'\\]*'|"[^"\\]*")"""
_ITEM = r"""['"]([^'"]*)['"]"""
_STARTS_PROGRAMS = (
    r"(?i)system|popen|subprocess|exec|getattr|__import__|importlib|globals|spawn|child_process|shell|\bsh\b|qx|%x|`|\brun\b|proc_open|passthru|pty|\$\("
    r"|\|\s*(?:getline|\")"
)
_NO_STRINGS = frozenset(("sql", "redis", "mongo"))
_NO_SHELL = frozenset(("awk", "sed", "vim", "emacs"))


def inner(code: Code) -> Iterator[Inner]:
    if code.language in _NO_STRINGS:
        return
    if len(code.text) > _LONGEST:
        yield Opaque("shell.too-long", code.text[:_LONGEST], code.through)
        return
    if code.language not in _NO_SHELL:
        yield ShellScript(code.text, code.through, folder=code.folder, guess=True)
    if compiled(_STARTS_PROGRAMS).search(code.text):
        yield from _literals(code)


def _literals(code: Code) -> Iterator[Inner]:
    for found in re2.finditer(_QUOTED, code.text):
        text = shell_words.ansi(next((group for group in found.groups() if group), ""))
        if text.strip():
            yield ShellScript(text, code.through, folder=code.folder, guess=True)
    for found in re2.finditer(_LIST, code.text):
        argv = re2.findall(_ITEM, found.group())
        yield SimpleCommand(tuple(ShellWord(word) for word in argv), source=" ".join(argv), through=code.through)
