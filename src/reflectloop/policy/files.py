"""Follows files that one part of a line writes and another runs: fetched, put there as text, or copied."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from reflectloop.policy import options
from reflectloop.policy.simple_command import (
    SHELLS,
    Code,
    Feed,
    File,
    Inner,
    Opaque,
    ShellScript,
    ShellWord,
    SimpleCommand,
)

DECODERS = frozenset("base64 base32 basenc xxd openssl gunzip zcat bzcat xzcat rev tr uudecode gpg hexdump od".split())
FETCHERS = frozenset(
    "curl wget fetch aria2c http https nc ncat netcat socat ftp lynx w3m iwr invoke-webrequest".split()
)
_MOST = 64  # files of one line that are remembered
_OUTPUT = {
    "curl": frozenset(("-o", "--output")),
    "wget": frozenset(("-O", "--output-document")),
    "aria2c": frozenset(("-o", "--out")),
    "http": frozenset(("-o", "--output")),
    "fetch": frozenset(("-o",)),
}
_FOLDERS = frozenset(("-P", "--directory-prefix", "--output-dir", "--dir"))
_COPIERS = frozenset(("cp", "mv", "ln", "install", "link"))
_COPY_TAKING = frozenset("-m -o -g -S -t --mode --owner --group --suffix --target-directory".split())
_RUNNERS = re.compile(r"(?:python|pypy|perl|ruby|node|bun|deno|php|lua|tclsh|expect|osascript|Rscript)[\d.]*$")
_LANGUAGES = {"python": "python", "pypy": "python", "perl": "perl", "ruby": "ruby", "node": "node", "php": "php"}
_SYSTEM = re.compile(r"(?:/usr)?(?:/local)?/s?bin/")


_CLONED = "(fetched folder)"  # in `made_by`: a folder full of what another machine sent
_CLONE_TAKING = frozenset(
    "-b --branch --depth -o --origin -c --config --filter --reference -j --jobs --template -u --upload-pack".split()
)
_UNPACKERS = frozenset("tar gtar bsdtar unzip 7z 7za".split())
_ELSEWHERE = re.compile(r"(?:https?|git|ssh|ftp)://(?!localhost|127\.)|[\w.-]+@[\w.-]+:|[\w-]+/[\w.-]+$")


def _unpacked(one: SimpleCommand, before: Mapping[str, File]) -> Iterator[tuple[str, File]]:
    """Yield the folders that a clone, or an archive from another machine, fills."""
    texts = one.texts
    if one.program in ("git", "gh", "hg", "svn", "glab") and {"clone", "checkout", "co"} & set(texts[1:5]):
        at = next(at for at, text in enumerate(texts) if text in ("clone", "checkout", "co"))
        rest = [word.text for word in options.split(one.words[at + 1 :], _CLONE_TAKING).rest]
        is_short = one.program in ("gh", "glab")
        if rest and _ELSEWHERE.match(rest[0]) and (is_short or ":" in rest[0]):
            name = rest[1] if len(rest) > 1 else re.split(r"[/:]", rest[0].rstrip("/"))[-1].removesuffix(".git")
            yield f"{one.path(name)}/", File(None, (_CLONED,))
    elif one.program in _UNPACKERS:
        sent = set(one.feed.made_by) if one.feed else set[str]()
        sent |= {name for text in texts[1:] for name in before.get(one.path(text), File()).made_by}
        if sent & FETCHERS:
            given = options.split(one.words[1:], frozenset(("-C", "--directory", "-d")))
            folder = given.value("-C", "--directory", "-d") or "."
            yield f"{one.path(folder)}/", File(None, (_CLONED,))


def _is_below(path: str, files: Mapping[str, File]) -> bool:
    """Say whether a path lies in a folder that the line fetched."""
    folders = (name for name, kept in files.items() if name.endswith("/") and _CLONED in kept.made_by)
    return any(
        path.startswith(folder) or (folder == "./" and not path.startswith(("/", "~", "$", ".."))) for folder in folders
    )


def written(one: SimpleCommand, printed: Feed, before: Mapping[str, File]) -> Mapping[str, File]:
    """Return what is in the files of the line after a command."""
    changes = dict(_writes(one, printed, before))
    if not changes or len(before) + len(changes) > _MOST:
        return before
    return {**before, **changes}


def _writes(one: SimpleCommand, printed: Feed, before: Mapping[str, File]) -> Iterator[tuple[str, File]]:
    for redirect in one.redirects:
        if redirect.operator in (">", ">>", ">|", "&>") and redirect.target.known:
            path = one.path(redirect.target.text)
            earlier = before.get(path, File("")) if redirect.operator == ">>" else File("")
            copied = [word.text for word in one.words[1:] if one.program == "cat" and _SYSTEM.match(word.text)]
            yield path, File(None, (), posixpath.basename(copied[0])) if copied else _joined(earlier, printed)
    if one.program in _OUTPUT:
        yield from ((one.path(name), File(None, (one.program,))) for name in _fetched(one))
    elif one.program == "tee" and one.feed is not None:
        names = options.split(one.words[1:]).rest
        yield from ((one.path(word.text), File(one.feed.text, one.feed.made_by)) for word in names)
    elif one.program in _COPIERS:
        yield from _copied(one, before)
    elif one.program in ("scp", "rsync", "sftp"):
        yield from _received(one)
    yield from _unpacked(one, before)


def _joined(earlier: File, printed: Feed) -> File:
    if earlier.text is None or printed.text is None:
        return File(None, (*earlier.made_by, *printed.made_by))
    return File(f"{earlier.text}\n{printed.text}" if earlier.text else printed.text, printed.made_by)


def _fetched(one: SimpleCommand) -> Iterator[str]:
    """Yield the names under which a download is put."""
    given = options.split(one.words[1:], _OUTPUT[one.program] | _FOLDERS)
    folder = given.value(*_FOLDERS) or ""
    named = [value for name, value in given.values if name in _OUTPUT[one.program]]
    if named:
        yield from (posixpath.join(folder, name) for name in named if name not in ("-", "/dev/null"))
    elif one.program in ("wget", "aria2c", "fetch") or given.has(("-O", "--remote-name", "--remote-name-all", "-J")):
        for word in given.rest:
            name = posixpath.basename(word.text.split("?")[0].rstrip("/"))
            if name and ("/" in word.text or "." in word.text):
                yield posixpath.join(folder, name)


def _received(one: SimpleCommand) -> Iterator[tuple[str, File]]:
    """What is copied from another machine."""
    rest = options.split(one.words[1:], frozenset("-e --rsh -i -P -F -o -J -l -S".split())).rest
    for word in rest[:-1]:
        host, colon, path = word.text.partition(":")
        if colon and "/" not in host:
            place, name = rest[-1].text, posixpath.basename(path)
            yield (
                one.path(posixpath.join(place, name) if place in (".", "./") or place.endswith("/") else place),
                _FETCHED,
            )


_FETCHED = File(None, ("curl",))


def _copied(one: SimpleCommand, before: Mapping[str, File]) -> Iterator[tuple[str, File]]:
    given = options.split(one.words[1:], _COPY_TAKING)
    target = given.value("-t", "--target-directory")
    sources = given.rest if target else given.rest[:-1]
    if not target and len(given.rest) < 2:  # noqa: PLR2004 - a source and a target
        return
    place = f"{target}/" if target else given.rest[-1].text
    for word in sources:
        name = posixpath.basename(word.text)
        copy = before.get(one.path(word.text))
        if copy is None and (_SYSTEM.match(word.text) or word.made_by):
            copy = File(None, (), name)
        if copy is not None:
            yield one.path(posixpath.join(place, name) if place.endswith("/") else place), copy


def inner(one: SimpleCommand) -> Iterator[Inner]:
    """What runs when a command runs a file that the same line wrote."""
    if not one.files or not one.words:
        return
    word = one.words[0]
    language = "shell"
    if one.program in SHELLS or one.program in (".", "source"):
        word = next(iter(options.split(one.words[1:], stop=True).rest), ShellWord(""))
    elif _RUNNERS.match(one.program):
        word = next(iter(options.split(one.words[1:], stop=True).rest), ShellWord(""))
        language = _LANGUAGES.get(re.sub(r"[\d.]+$", "", one.program), "")
    elif "/" not in word.text and one.path(word.text) not in one.files:
        if (
            one.program in _INSTALLERS
            and _INSTALLERS[one.program] in one.texts
            and _is_below(f"{one.folder}/", one.files)
        ):
            yield Opaque("shell.fetched-folder", one.source, one.through)
        return
    ran = one.files.get(one.path(word.text))
    if ran is not None:
        yield from _run(one, ran, language)
    elif word.text and _is_below(one.path(word.text), one.files):
        yield Opaque("shell.fetched-folder", one.source, one.through)


_INSTALLERS = {"make": "install", "gmake": "install", "ninja": "install", "just": "install"}


def _run(one: SimpleCommand, ran: File, language: str) -> Iterator[Inner]:
    through = (*one.through, one.program)
    if ran.program:
        yield one.inside((ShellWord(ran.program), *one.words[1:]))
    elif ran.text is not None and language == "shell" and not re.match(r"#!.*(python|perl|ruby|node)", ran.text):
        yield ShellScript(ran.text, through, folder=one.folder)
    elif ran.text is not None:
        yield Code(language if language != "shell" else "python", ran.text, through, one.folder)
    if set(ran.made_by) & DECODERS:
        yield Opaque("shell.encoded", one.source, one.through)
    elif set(ran.made_by) & FETCHERS and ran.text is None:
        yield Opaque("shell.fetched", one.source, one.through)
