"""Commands that run text: shells, interpreters, clients of databases. Finds the text, wherever it comes from."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from reflectloop.policy import options, path_classes
from reflectloop.policy.files import DECODERS, FETCHERS
from reflectloop.policy.simple_command import (
    SHELLS,
    UNKNOWN,
    Code,
    Feed,
    Inner,
    Opaque,
    ShellScript,
    ShellWord,
    SimpleCommand,
)

_SHELL_TAKING = frozenset(("-o", "+o", "-O", "+O", "--rcfile", "--init-file"))
_LONGEST_NAME = 40
_STDIN = frozenset(("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"))
_READERS = frozenset("at batch ghci gnuplot m4 octave jshell groovysh sage maxima gp swipl clisp sbcl guile".split())
_POWERSHELL = frozenset(("powershell", "pwsh", "cmd"))


class Interpreter(NamedTuple):
    language: str
    flags: frozenset[str]  # whose value is code
    letters: str  # of those, the ones that may end a cluster: `perl -ne`


# The language, the programs that run it, the options whose value is code.
_INTERPRETERS = """
    python: python pypy ipython ipython3 bpython ptpython: -c
    node: node nodejs bun tsx ts-node: -e --eval -p --print -pe
    node: deno: eval
    ruby: ruby irb: -e
    perl: perl: -e -E
    php: php: -r
    lua: lua luajit: -e
    r: Rscript R: -e
    julia: julia: -e -E
    elixir: elixir iex mix: -e --eval
    erlang: erl: -eval
    jvm: groovy scala jshell: -e
    haskell: ghc: -e
    applescript: osascript: -e
    emacs: emacs: --eval -eval
    vim: vim nvim vi ex: -c
    awk: awk gawk mawk nawk:
    sed: sed gsed: -e
    redis: redis-cli valkey-cli:
    mongo: mongo mongosh: --eval
    sql: psql pgcli usql duckdb: -c -s --command
    sql: mysql mariadb mycli cqlsh cockroach hive beeline spanner-cli: -e --execute
    sql: sqlcmd: -Q -q
    sql: clickhouse clickhouse-client snowsql: -q --query
    sql: presto trino influx: --execute -execute
    sql: sqlite3 sqlite bq sqlplus isql cypher-shell:
"""
_WORDS_ARE_CODE = frozenset("bq sqlite3 sqlite redis-cli valkey-cli awk gawk mawk nawk sed gsed cypher-shell".split())
_JOINED = frozenset(("redis-cli", "valkey-cli", "bq"))
_ATTACHED = frozenset(("python", "perl", "ruby", "sql"))  # `-c'code'` without a space


def _read(table: str) -> Iterator[tuple[str, Interpreter]]:
    for line in table.strip().splitlines():
        language, programs, flags = (part.split() for part in line.split(":", 2))
        letters = "".join(flag[1] for flag in flags if re.fullmatch(r"-\w", flag))
        for program in programs:
            yield program, Interpreter(language[0], frozenset(flags), letters)


_BY_NAME = dict(_read(_INTERPRETERS))


def is_interpreter(program: str) -> bool:
    """Say whether a program runs code that stands among its words."""
    return program in _BY_NAME or re.sub(r"[\d.]+$", "", program[:_LONGEST_NAME]) in _BY_NAME


def inner(one: SimpleCommand) -> Iterator[Inner]:
    program = one.program
    if program in SHELLS:
        yield from _shell(one)
    elif program in _POWERSHELL:
        yield from _powershell(one)
    elif program in (".", "source") and one.texts[1:2] and one.texts[1] in _STDIN:
        yield from _from_input(one)
    elif program in (".", "source", "(evaluated)"):
        yield from _sourced(one, one.words[1:])
    elif program.lower() in ("iex", "invoke-expression") and one.feed:
        yield from _piped(one)
    elif program in ("at", "batch", "newgrp") and one.feed and one.feed.text:
        yield ShellScript(one.feed.text, (*one.through, program))
    elif program in _READERS and one.feed and set(one.feed.made_by) & FETCHERS:
        yield from _piped(one)
    elif program in _FRAMEWORKS:
        yield from _framework(one)
    else:
        yield from _interpreter(one, program)


# Tools that run a word, or the value of an option, in the language of a framework.
_FRAMEWORKS = {
    "rails": ("ruby", "runner", ""),
    "rake": ("ruby", "", "-e"),
    "artisan": ("php", "tinker", "--execute"),
    "wp": ("php", "eval", ""),
    "drush": ("php", "eval", ""),
    "django-admin": ("python", "shell", "-c"),
    "flask": ("python", "shell", "-c"),
}


def _framework(one: SimpleCommand) -> Iterator[Inner]:
    language, sub, flag = _FRAMEWORKS[one.program]
    texts = one.texts[1:]
    if sub and sub not in texts:
        return
    given = options.split(one.words[1:], frozenset((flag,)))
    codes = [value for name, value in given.values if name == flag]
    codes += [] if flag else [text for text in texts[texts.index(sub) + 1 :] if not text.startswith("-")]
    yield from (Code(language, code, (*one.through, one.program), one.folder) for code in codes)


def _shell(one: SimpleCommand) -> Iterator[Inner]:
    words = one.words[1:]
    at = next(
        (at for at, word in enumerate(words) if re.fullmatch(r"-[a-zA-Z]{0,8}?c[a-zA-Z]{0,8}|--command", word.text)),
        None,
    )
    ahead = options.split(words[:at], _SHELL_TAKING, stop=True).rest if at is not None else ()
    if at is not None and all(word.text[:1] in "-+" or word.text == "pipefail" for word in ahead):
        yield from _given_script(one, options.split(words[at + 1 :], _SHELL_TAKING, stop=True).rest)
        return
    files = options.split(words, _SHELL_TAKING, stop=True)
    started = [word for flag, word in itertools.pairwise(words) if flag.text in ("--rcfile", "--init-file")]
    if started and (started[0].made_by or path_classes.of(started[0]) in ("temp", "device")):
        yield from _sourced(one, tuple(started))
        yield Opaque("shell.unknown-script", one.source, one.through)
    if files.rest and files.rest[0].text not in _STDIN and not files.has(("-s",)):
        yield from _sourced(one, files.rest)
    else:
        yield from _from_input(one)


def _from_input(one: SimpleCommand) -> Iterator[Inner]:
    """What a shell runs that reads its commands from its input."""
    if one.feed is not None and one.feed.text is not None:
        yield ShellScript(one.feed.text, (*one.through, one.program), one.env, one.folder)
        is_whole_line = re.search(rf"(?m)^\s*{re.escape(UNKNOWN)}\s*$", one.feed.text) is not None
        yield from _piped(one, encoded_only=not is_whole_line)
    elif one.feed is not None:
        yield from _piped(one)


def _given_script(one: SimpleCommand, words: tuple[ShellWord, ...]) -> Iterator[Inner]:
    if not words:
        return
    script, through = words[0], (*one.through, one.program)
    if script.made_by and not script.known:
        yield from _sourced(one, words[:1])
    if not script.known and re.fullmatch(r"\s*(\$\(…\)|\$\{?[\w@*]+\}?)\s*", script.text):
        yield Opaque("shell.unknown-script", one.source, one.through)
        return
    if script.known and set(script.made_by) & DECODERS:
        yield Opaque("shell.encoded", one.source, one.through)
    given = (*one.env, *((str(at), word.text) for at, word in enumerate(words[1:])))
    yield ShellScript(script.text.replace(UNKNOWN, "${unknown}"), through, given, one.folder)


def _sourced(one: SimpleCommand, words: tuple[ShellWord, ...]) -> Iterator[Inner]:
    """Text that a substitution makes and a shell runs."""
    made_by = {name for word in words[:1] for name in word.made_by}
    if words and words[0].content is not None:
        yield ShellScript(words[0].content, (*one.through, one.program), one.env, one.folder)
    if made_by & DECODERS:
        yield Opaque("shell.encoded", one.source, one.through)
    elif made_by & FETCHERS:
        yield Opaque("shell.fetched", one.source, one.through)


def _piped(one: SimpleCommand, *, encoded_only: bool = False) -> Iterator[Inner]:
    made_by = set(one.feed.made_by if one.feed else ())
    if made_by & DECODERS and not made_by & {"tar", "psql"}:
        yield Opaque("shell.encoded", one.source, one.through)
    elif encoded_only:
        return
    elif made_by & FETCHERS:
        yield Opaque("shell.fetched", one.source, one.through)
    elif made_by:
        yield Opaque("shell.piped", one.source, one.through)


def _powershell(one: SimpleCommand) -> Iterator[Inner]:
    texts, through = one.texts[1:], (*one.through, one.program)
    for at, text in enumerate(texts):
        low = text.lower()
        if low in ("-c", "-command", "/c", "/k", "-commandwithargs"):
            code = " ".join(texts[at + 1 :])
            yield Code("powershell", code, through)
            yield ShellScript(code, through, guess=True)
        elif low in ("-e", "-ec", "-enc", "-encodedcommand"):
            yield Opaque("shell.encoded", one.source, one.through)
    if one.feed and one.feed.text:
        yield Code("powershell", one.feed.text, through)


def _interpreter(one: SimpleCommand, program: str) -> Iterator[Inner]:
    name = program if program in _BY_NAME else re.sub(r"[\d.]+$", "", program[:_LONGEST_NAME])
    known = _BY_NAME.get(name)
    if known is None:
        return
    through = (*one.through, program)
    named = options.split(one.words[1:], known.flags, stop=True).rest[:1]
    if named and named[0].made_by and UNKNOWN in named[0].text and name not in _WORDS_ARE_CODE:
        yield from _sourced(one, named)
    for flag, word in itertools.pairwise(one.words[1:]):
        if flag.text in known.flags and word.text == UNKNOWN:
            yield from _sourced(one, (word,))
    yield from _named_inside(one, known)
    for text in _codes(one, name, known):
        yield Code(known.language, text, through, one.folder)
    if one.feed is not None:
        yield from _fed(one, one.feed, name, known)


def _named_inside(one: SimpleCommand, known: Interpreter) -> Iterator[Inner]:
    """`python -m tool` and `php artisan` run the tool that is named."""
    if known.language == "php" and one.texts[1:2] == ["artisan"]:
        yield one.inside(one.words[1:])
    if known.language == "python" and "-m" in one.texts[1:-1]:
        yield one.inside(one.words[one.texts.index("-m") + 1 :])


def _fed(one: SimpleCommand, feed: Feed, name: str, known: Interpreter) -> Iterator[Inner]:
    """What an interpreter runs that comes from its input."""
    code = Code(known.language, feed.text or "", (*one.through, one.program), one.folder)
    if name in _WORDS_ARE_CODE:
        named = bool({"-f", "--file"} & set(one.texts)) and bool(set(one.texts) & _STDIN)
        if named and feed.text is not None:
            yield code
        elif named and known.language in ("awk", "sed"):
            yield from _piped(one)
        return
    reads = _reads_input(one, known)
    if feed.text is not None and (reads or known.language == "sql"):
        yield code
    elif reads and known.language not in ("sql", "mongo"):
        yield from _piped(one)


# Options of interpreters that take the next word, and modules of python that run what they read.
_VALUES = frozenset("-W -X -r --require --import --loader --conditions -C -I -l --check-hash-based-pycs".split())
_READING_MODULES = frozenset(("code", "asyncio", "IPython", "bpython", "ptpython"))


def _reads_input(one: SimpleCommand, known: Interpreter) -> bool:
    """Whether the code of an interpreter comes from its input: it names no script, or the input as one."""
    words = one.words[1:]
    if known.language == "node" and words and words[0].text == "run":
        words = words[1:]
    if known.language == "php" and words and words[0].text == "--":
        return True
    if known.language == "python" and "-m" in one.texts[1:-1]:
        return one.texts[one.texts.index("-m") + 1] in _READING_MODULES
    taking = _VALUES if known.language in ("python", "node", "ruby", "lua") else frozenset[str]()
    given = options.split(words, taking | known.flags, stop=True)
    if known.flags & {name for name, _ in given.values} or any(_codes(one, one.program, known)):
        return False
    if not given.rest:
        return not given.has(("--version", "-v", "-V", "--help", "-h"))
    return given.rest[0].text in _STDIN


def _codes(one: SimpleCommand, name: str, known: Interpreter) -> Iterator[str]:
    texts = one.texts[1:]
    letters = known.letters or "~"
    for at, text in enumerate(texts):
        flag, equals, value = text.partition("=")
        front = "[bBdEhiIOPqsSuvx]" if known.language == "python" else "[a-zA-Z0-9]"
        clustered = re.fullmatch(rf"-{front}*[{letters}]", text)
        if text in known.flags or clustered:
            yield from texts[at + 1 : at + 2]
        elif equals and flag in known.flags:
            yield value
        elif known.language in _ATTACHED and re.match(rf"-[{letters}].", text):
            yield text[2:]
        elif known.language == "python" and (attached := re.match(r"-[bBdEiIOPqsSuvx]{1,9}c(.+)", text, re.DOTALL)):
            yield attached[1]
    if name in _WORDS_ARE_CODE:
        words = [text for text in texts if not text.startswith("-")]
        yield from [" ".join(words)] if name in _JOINED else words
    if known.language == "python":
        yield from _module_code(texts)
    if known.language == "vim":
        yield from (text[1:] for text in texts if text.startswith("+"))


def _module_code(texts: list[str]) -> Iterator[str]:
    """Yield the words of `python -m timeit`, which are code."""
    if "-m" in texts[:-1] and texts[texts.index("-m") + 1] == "timeit":
        yield from (text for text in texts[texts.index("-m") + 2 :] if not text.startswith("-"))
