"""Track files that one part of a line writes and another part runs: downloads, written text, copies."""

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
from reflectloop.system import patterns

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
_RUNNERS = patterns.lazy(r"(?:python|pypy|perl|ruby|node|bun|deno|php|lua|tclsh|expect|osascript|Rscript)[\d.]*$")
_LANGUAGES = {"python": "python", "pypy": "python", "perl": "perl", "ruby": "ruby", "node": "node", "php": "php"}
_SYSTEM = patterns.lazy(r"(?:/usr)?(?:/local)?/s?bin/")


_CLONED = "(fetched folder)"  # in `made_by`: a folder with files from another machine
_CLONE_TAKING = frozenset(
    "-b --branch --depth -o --origin -c --config --filter --reference -j --jobs --template -u --upload-pack".split()
)
_UNPACKERS = frozenset("tar gtar bsdtar unzip 7z 7za".split())
_ELSEWHERE = patterns.lazy(r"(?:https?|git|ssh|ftp)://(?!localhost|127\.)|[\w.-]+@[\w.-]+:|[\w-]+/[\w.-]+$")


def _unpacked(command: SimpleCommand, before: Mapping[str, File]) -> Iterator[tuple[str, File]]:
    """Yield the folders that a clone, or an archive from another machine, fills."""
    texts = command.texts
    if command.program in ("git", "gh", "hg", "svn", "glab") and {"clone", "checkout", "co"} & set(texts[1:5]):
        at = next(at for at, text in enumerate(texts) if text in ("clone", "checkout", "co"))
        rest = [word.text for word in options.split(command.words[at + 1 :], _CLONE_TAKING).rest]
        is_short = command.program in ("gh", "glab")
        if rest and _ELSEWHERE.match(rest[0]) and (is_short or ":" in rest[0]):
            name = rest[1] if len(rest) > 1 else re.split(r"[/:]", rest[0].rstrip("/"))[-1].removesuffix(".git")
            yield f"{command.path(name)}/", File(None, (_CLONED,))
    elif command.program in _UNPACKERS:
        sources = set(command.feed.made_by) if command.feed else set[str]()
        sources |= {name for text in texts[1:] for name in before.get(command.path(text), File()).made_by}
        if sources & FETCHERS:
            args = options.split(command.words[1:], frozenset(("-C", "--directory", "-d")))
            folder = args.value("-C", "--directory", "-d") or "."
            yield f"{command.path(folder)}/", File(None, (_CLONED,))


def _is_below(path: str, files: Mapping[str, File]) -> bool:
    """Return True if a path is in a folder that the line downloaded."""
    folders = (name for name, file in files.items() if name.endswith("/") and _CLONED in file.made_by)
    return any(
        path.startswith(folder) or (folder == "./" and not path.startswith(("/", "~", "$", ".."))) for folder in folders
    )


def written(command: SimpleCommand, printed: Feed, before: Mapping[str, File]) -> Mapping[str, File]:
    """Return the known files of the line after a command."""
    changes = dict(_writes(command, printed, before))
    if not changes or len(before) + len(changes) > _MOST:
        return before
    return {**before, **changes}


def _writes(command: SimpleCommand, printed: Feed, before: Mapping[str, File]) -> Iterator[tuple[str, File]]:
    for redirect in command.redirects:
        if redirect.operator in (">", ">>", ">|", "&>") and redirect.target.known:
            path = command.path(redirect.target.text)
            earlier = before.get(path, File("")) if redirect.operator == ">>" else File("")
            copied = [word.text for word in command.words[1:] if command.program == "cat" and _SYSTEM.match(word.text)]
            yield path, File(None, (), posixpath.basename(copied[0])) if copied else _joined(earlier, printed)
    if command.program in _OUTPUT:
        yield from ((command.path(name), File(None, (command.program,))) for name in _fetched(command))
    elif command.program == "tee" and command.feed is not None:
        names = options.split(command.words[1:]).rest
        yield from ((command.path(word.text), File(command.feed.text, command.feed.made_by)) for word in names)
    elif command.program in _COPIERS:
        yield from _copied(command, before)
    elif command.program in ("scp", "rsync", "sftp"):
        yield from _received(command)
    yield from _unpacked(command, before)


def _joined(earlier: File, printed: Feed) -> File:
    if earlier.text is None or printed.text is None:
        return File(None, (*earlier.made_by, *printed.made_by))
    return File(f"{earlier.text}\n{printed.text}" if earlier.text else printed.text, printed.made_by)


def _fetched(command: SimpleCommand) -> Iterator[str]:
    """Yield the names that downloads are saved under."""
    args = options.split(command.words[1:], _OUTPUT[command.program] | _FOLDERS)
    folder = args.value(*_FOLDERS) or ""
    named = [value for name, value in args.values if name in _OUTPUT[command.program]]
    if named:
        yield from (posixpath.join(folder, name) for name in named if name not in ("-", "/dev/null"))
    elif command.program in ("wget", "aria2c", "fetch") or args.has(("-O", "--remote-name", "--remote-name-all", "-J")):
        for word in args.rest:
            name = posixpath.basename(word.text.split("?")[0].rstrip("/"))
            if name and ("/" in word.text or "." in word.text):
                yield posixpath.join(folder, name)


def _received(command: SimpleCommand) -> Iterator[tuple[str, File]]:
    """Yield the files that are copied from another machine."""
    rest = options.split(command.words[1:], frozenset("-e --rsh -i -P -F -o -J -l -S".split())).rest
    for word in rest[:-1]:
        host, colon, path = word.text.partition(":")
        if colon and "/" not in host:
            place, name = rest[-1].text, posixpath.basename(path)
            yield (
                command.path(posixpath.join(place, name) if place in (".", "./") or place.endswith("/") else place),
                _FETCHED,
            )


_FETCHED = File(None, ("curl",))


def _copied(command: SimpleCommand, before: Mapping[str, File]) -> Iterator[tuple[str, File]]:
    args = options.split(command.words[1:], _COPY_TAKING)
    target = args.value("-t", "--target-directory")
    sources = args.rest if target else args.rest[:-1]
    if not target and len(args.rest) < 2:  # noqa: PLR2004 - a source and a target
        return
    place = f"{target}/" if target else args.rest[-1].text
    for word in sources:
        name = posixpath.basename(word.text)
        copy = before.get(command.path(word.text))
        if copy is None and (_SYSTEM.match(word.text) or word.made_by):
            copy = File(None, (), name)
        if copy is not None:
            yield command.path(posixpath.join(place, name) if place.endswith("/") else place), copy


def inner_commands(command: SimpleCommand) -> Iterator[Inner]:
    """Yield what runs if a command runs a file that the same line wrote."""
    if not command.files or not command.words:
        return
    word = command.words[0]
    language = "shell"
    if command.program in SHELLS or command.program in (".", "source"):
        word = next(iter(options.split(command.words[1:], stop=True).rest), ShellWord(""))
    elif _RUNNERS.match(command.program):
        word = next(iter(options.split(command.words[1:], stop=True).rest), ShellWord(""))
        language = _LANGUAGES.get(re.sub(r"[\d.]+$", "", command.program), "")
    elif "/" not in word.text and command.path(word.text) not in command.files:
        if (
            command.program in _INSTALLERS
            and _INSTALLERS[command.program] in command.texts
            and _is_below(f"{command.folder}/", command.files)
        ):
            yield Opaque("shell.fetched-folder", command.source, command.through)
        return
    file = command.files.get(command.path(word.text))
    if file is not None:
        yield from _run(command, file, language)
    elif word.text and _is_below(command.path(word.text), command.files):
        yield Opaque("shell.fetched-folder", command.source, command.through)


_INSTALLERS = {"make": "install", "gmake": "install", "ninja": "install", "just": "install"}


def _run(command: SimpleCommand, file: File, language: str) -> Iterator[Inner]:
    through = (*command.through, command.program)
    if file.program:
        yield command.inside((ShellWord(file.program), *command.words[1:]))
    elif file.text is not None and language == "shell" and not re.match(r"#!.*(python|perl|ruby|node)", file.text):
        yield ShellScript(file.text, through, folder=command.folder)
    elif file.text is not None:
        yield Code(language if language != "shell" else "python", file.text, through, command.folder)
    if set(file.made_by) & DECODERS:
        yield Opaque("shell.encoded", command.source, command.through)
    elif set(file.made_by) & FETCHERS and file.text is None:
        yield Opaque("shell.fetched", command.source, command.through)
