"""Find the code that shells, interpreters and database clients run, in options, arguments, files or input."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

import re2

from reflectloop.policy import options, path_classes, shell_words
from reflectloop.policy.files import DECODERS, FETCHERS
from reflectloop.policy.rule import compiled
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
    flags: frozenset[str]  # options whose value is code
    letters: str  # letters of those options that may end a cluster: `perl -ne`


# The language, the programs that run it, and the options whose value is code.
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
    """Return True if a program runs code that is among its arguments."""
    return program in _BY_NAME or re.sub(r"[\d.]+$", "", program[:_LONGEST_NAME]) in _BY_NAME


def inner_commands(command: SimpleCommand) -> Iterator[Inner]:
    program = command.program
    if program in SHELLS:
        yield from _shell(command)
    elif program in _POWERSHELL:
        yield from _powershell(command)
    elif program in (".", "source") and command.texts[1:2] and command.texts[1] in _STDIN:
        yield from _from_input(command)
    elif program in (".", "source", "(evaluated)"):
        yield from _from_substitution(command, command.words[1:])
    elif program.lower() in ("iex", "invoke-expression") and command.feed:
        yield from _unknown_input(command)
    elif program in ("at", "batch", "newgrp") and command.feed and command.feed.text:
        yield ShellScript(command.feed.text, (*command.through, program))
    elif program in _READERS and command.feed and set(command.feed.made_by) & FETCHERS:
        yield from _unknown_input(command)
    elif program in _FRAMEWORKS:
        yield from _framework(command)
    else:
        yield from _interpreter(command, program)


# Tools that run an argument, or the value of an option, as code: language, subcommand, option.
_FRAMEWORKS = {
    "rails": ("ruby", "runner", ""),
    "rake": ("ruby", "", "-e"),
    "artisan": ("php", "tinker", "--execute"),
    "wp": ("php", "eval", ""),
    "drush": ("php", "eval", ""),
    "django-admin": ("python", "shell", "-c"),
    "flask": ("python", "shell", "-c"),
}


def _framework(command: SimpleCommand) -> Iterator[Inner]:
    language, sub, flag = _FRAMEWORKS[command.program]
    texts = command.texts[1:]
    if sub and sub not in texts:
        return
    args = options.split(command.words[1:], frozenset((flag,)))
    codes = [value for name, value in args.values if name == flag]
    codes += [] if flag else [text for text in texts[texts.index(sub) + 1 :] if not text.startswith("-")]
    yield from (Code(language, code, (*command.through, command.program), command.folder) for code in codes)


def _shell(command: SimpleCommand) -> Iterator[Inner]:
    words = command.words[1:]
    at = next(
        (at for at, word in enumerate(words) if re.fullmatch(r"-[a-zA-Z]{0,8}?c[a-zA-Z]{0,8}|--command", word.text)),
        None,
    )
    before = options.split(words[:at], _SHELL_TAKING, stop=True).rest if at is not None else ()
    if at is not None and all(word.text[:1] in "-+" or word.text == "pipefail" for word in before):
        yield from _script_argument(command, options.split(words[at + 1 :], _SHELL_TAKING, stop=True).rest)
        return
    files = options.split(words, _SHELL_TAKING, stop=True)
    started = [word for flag, word in itertools.pairwise(words) if flag.text in ("--rcfile", "--init-file")]
    if started and (started[0].made_by or path_classes.path_class(started[0]) in ("temp", "device")):
        yield from _from_substitution(command, tuple(started))
        yield Opaque("shell.unknown-script", command.source, command.through)
    if files.rest and files.rest[0].text not in _STDIN and not files.has(("-s",)):
        yield from _from_substitution(command, files.rest)
    else:
        yield from _from_input(command)


def _from_input(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the commands that a shell reads from its input."""
    if command.feed is not None and command.feed.text is not None:
        yield ShellScript(command.feed.text, (*command.through, command.program), command.env, command.folder)
        is_whole_line = re.search(rf"(?m)^\s*{re.escape(UNKNOWN)}\s*$", command.feed.text) is not None
        yield from _unknown_input(command, encoded_only=not is_whole_line)
    elif command.feed is not None:
        yield from _unknown_input(command)


def _script_argument(command: SimpleCommand, words: tuple[ShellWord, ...]) -> Iterator[Inner]:
    if not words:
        return
    script, through = words[0], (*command.through, command.program)
    if script.made_by and not script.known:
        yield from _from_substitution(command, words[:1])
    if not script.known and re.fullmatch(r"\s*(\$\(…\)|\$\{?[\w@*]+\}?)\s*", script.text):
        yield Opaque("shell.unknown-script", command.source, command.through)
        return
    if script.known and set(script.made_by) & DECODERS:
        yield Opaque("shell.encoded", command.source, command.through)
    variables = (*command.env, *((str(at), word.text) for at, word in enumerate(words[1:])))
    yield ShellScript(script.text.replace(UNKNOWN, "${unknown}"), through, variables, command.folder)


def _from_substitution(command: SimpleCommand, words: tuple[ShellWord, ...]) -> Iterator[Inner]:
    """Yield the script that a substitution produces and a shell runs."""
    made_by = {name for word in words[:1] for name in word.made_by}
    if words and words[0].content is not None:
        yield ShellScript(words[0].content, (*command.through, command.program), command.env, command.folder)
    if made_by & DECODERS:
        yield Opaque("shell.encoded", command.source, command.through)
    elif made_by & FETCHERS:
        yield Opaque("shell.fetched", command.source, command.through)


def _unknown_input(command: SimpleCommand, *, encoded_only: bool = False) -> Iterator[Inner]:
    made_by = set(command.feed.made_by if command.feed else ())
    if made_by & DECODERS and not made_by & {"tar", "psql"}:
        yield Opaque("shell.encoded", command.source, command.through)
    elif encoded_only:
        return
    elif made_by & FETCHERS:
        yield Opaque("shell.fetched", command.source, command.through)
    elif made_by:
        yield Opaque("shell.piped", command.source, command.through)


def _powershell(command: SimpleCommand) -> Iterator[Inner]:
    texts, through = command.texts[1:], (*command.through, command.program)
    for at, text in enumerate(texts):
        low = text.lower()
        if low in ("-c", "-command", "/c", "/k", "-commandwithargs"):
            code = " ".join(texts[at + 1 :])
            yield Code("powershell", code, through)
            yield ShellScript(code, through, guess=True)
        elif low in ("-e", "-ec", "-enc", "-encodedcommand"):
            yield Opaque("shell.encoded", command.source, command.through)
    if command.feed and command.feed.text:
        yield Code("powershell", command.feed.text, through)


def _interpreter(command: SimpleCommand, program: str) -> Iterator[Inner]:
    name = program if program in _BY_NAME else re.sub(r"[\d.]+$", "", program[:_LONGEST_NAME])
    known = _BY_NAME.get(name)
    if known is None:
        return
    through = (*command.through, program)
    named = options.split(command.words[1:], known.flags, stop=True).rest[:1]
    if named and named[0].made_by and UNKNOWN in named[0].text and name not in _WORDS_ARE_CODE:
        yield from _from_substitution(command, named)
    for flag, word in itertools.pairwise(command.words[1:]):
        if flag.text in known.flags and word.text == UNKNOWN:
            yield from _from_substitution(command, (word,))
    yield from _named_inside(command, known)
    for text in _codes(command, name, known):
        yield Code(known.language, text, through, command.folder)
    if command.feed is not None:
        yield from _interpreter_input(command, command.feed, name, known)


def _named_inside(command: SimpleCommand, known: Interpreter) -> Iterator[Inner]:
    """Yield the tool that `python -m tool` or `php artisan` runs."""
    if known.language == "php" and command.texts[1:2] == ["artisan"]:
        yield command.inside(command.words[1:])
    if known.language == "python" and "-m" in command.texts[1:-1]:
        yield command.inside(command.words[command.texts.index("-m") + 1 :])


def _interpreter_input(command: SimpleCommand, feed: Feed, name: str, known: Interpreter) -> Iterator[Inner]:
    """Yield the code that an interpreter reads from its input."""
    code = Code(known.language, feed.text or "", (*command.through, command.program), command.folder)
    if name in _WORDS_ARE_CODE:
        named = bool({"-f", "--file"} & set(command.texts)) and bool(set(command.texts) & _STDIN)
        if named and feed.text is not None:
            yield code
        elif named and known.language in ("awk", "sed"):
            yield from _unknown_input(command)
        return
    reads = _reads_input(command, known)
    if feed.text is not None and (reads or known.language == "sql"):
        yield code
    elif reads and known.language not in ("sql", "mongo"):
        yield from _unknown_input(command)


# Options of interpreters that take the next word, and python modules that run their input.
_VALUES = frozenset("-W -X -r --require --import --loader --conditions -C -I -l --check-hash-based-pycs".split())
_READING_MODULES = frozenset(("code", "asyncio", "IPython", "bpython", "ptpython"))


def _reads_input(command: SimpleCommand, known: Interpreter) -> bool:
    """Return True if an interpreter reads its code from the input: it gets no script, or the input as one."""
    words = command.words[1:]
    if known.language == "node" and words and words[0].text == "run":
        words = words[1:]
    if known.language == "php" and words and words[0].text == "--":
        return True
    if known.language == "python" and "-m" in command.texts[1:-1]:
        return command.texts[command.texts.index("-m") + 1] in _READING_MODULES
    taking = _VALUES if known.language in ("python", "node", "ruby", "lua") else frozenset[str]()
    args = options.split(words, taking | known.flags, stop=True)
    if known.flags & {name for name, _ in args.values} or any(_codes(command, command.program, known)):
        return False
    if not args.rest:
        return not args.has(("--version", "-v", "-V", "--help", "-h"))
    return args.rest[0].text in _STDIN


def _codes(command: SimpleCommand, name: str, known: Interpreter) -> Iterator[str]:
    texts = command.texts[1:]
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
    """Yield the arguments of `python -m timeit`, which are code."""
    if "-m" in texts[:-1] and texts[texts.index("-m") + 1] == "timeit":
        yield from (text for text in texts[texts.index("-m") + 2 :] if not text.startswith("-"))


_LONGEST_CODE = 100_000  # characters
_QUOTED = r"""(?s)'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`((?:[^`\\]|\\.)*)`|%[xqQ]?[\[({|]([^\])}|]*)[\])}|]"""
_LIST_LITERAL = r"""(?:(?:'[^'\\]*'|"[^"\\]*")\s*,\s*[\[(]?\s*)+(?:'[^'\\]*'|"[^"\\]*")"""
_LIST_ITEM = r"""['"]([^'"]*)['"]"""
_STARTS_PROGRAMS = (
    r"(?i)system|popen|subprocess|exec|getattr|__import__|importlib|globals|spawn|child_process|shell|\bsh\b|qx|%x|`|\brun\b|proc_open|passthru|pty|\$\("
    r"|\|\s*(?:getline|\")"
)
_NO_STRINGS = frozenset(("sql", "redis", "mongo"))
_NO_SHELL = frozenset(("awk", "sed", "vim", "emacs"))


def shell_in_code(code: Code) -> Iterator[Inner]:
    """Yield shell lines inside code: its string literals, and the code itself read as shell."""
    if code.language in _NO_STRINGS:
        return
    if len(code.text) > _LONGEST_CODE:
        yield Opaque("shell.too-long", code.text[:_LONGEST_CODE], code.through)
        return
    if code.language not in _NO_SHELL:
        yield ShellScript(code.text, code.through, folder=code.folder, guess=True)
    if compiled(_STARTS_PROGRAMS).search(code.text):
        yield from _literals(code)


def _literals(code: Code) -> Iterator[Inner]:
    for match in re2.finditer(_QUOTED, code.text):
        text = shell_words.ansi(next((group for group in match.groups() if group), ""))
        if text.strip():
            yield ShellScript(text, code.through, folder=code.folder, guess=True)
    for match in re2.finditer(_LIST_LITERAL, code.text):
        argv = re2.findall(_LIST_ITEM, match.group())
        yield SimpleCommand(tuple(ShellWord(word) for word in argv), source=" ".join(argv), through=code.through)
