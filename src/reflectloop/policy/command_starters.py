"""Find the commands that xargs, find, env, eval and similar programs start, from their input, options or arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from reflectloop.policy import checks, git_programs, launchers, options
from reflectloop.policy.files import DECODERS
from reflectloop.policy.simple_command import (
    SHELLS,
    UNKNOWN,
    Feed,
    Inner,
    Opaque,
    ShellScript,
    ShellWord,
    SimpleCommand,
)

_MOST = 64  # inputs of one `parallel` that are read one by one
_XARGS = frozenset(
    """
    -I -n -P -L -s -d -a -E -J -R -S --max-args --max-procs --max-lines --delimiter --arg-file --replace-str
    """.split()
)
_PARALLEL = frozenset(
    """
    -j --jobs -a --arg-file -I -d --delimiter --colsep -C -N -n -S --sshlogin --timeout --retries --joblog --results
    --tmpdir --wd --workdir
    """.split()
)
_EXECS = frozenset("-exec -execdir -ok -okdir -x -X --exec --exec-batch".split())


def inner_commands(command: SimpleCommand) -> Iterator[Inner]:
    program = command.program
    special = _SPECIAL.get(program) or launchers.LAUNCHERS.get(program) or launchers.dynamic_loader(program)
    return special(command) if special else iter(())


def _env(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the command of `env -S 'A=1 cmd' args`: the string is split and put before the rest."""
    for at, word in enumerate(command.words[1:], 1):
        match = re.match(r"(?:-[a-zA-Z]*S|--split-string=?)(.*)", word.text, re.DOTALL)
        if match:
            rest = command.words[at + 1 :]
            text = match[1] or (rest[0].text if rest else "")
            rest = rest if match[1] else rest[1:]
            words = (command.words[0], *(ShellWord(word) for word in text.split()), *rest)
            yield command.inside(words)
            return
        if not word.text.startswith("-"):
            return


def _xargs(command: SimpleCommand) -> Iterator[Inner]:
    arguments = options.split(command.words[1:], _XARGS, stop=True)
    words = arguments.rest
    if not words:
        return
    placeholder = arguments.value("-I", "-J", "--replace") or ("{}" if arguments.has(("-i", "--replace")) else "")
    placeholder = next((word.text[2:] for word in command.words[1:] if re.match(r"-i.", word.text)), placeholder)
    inputs = _input_words(command.feed) if "-a" not in arguments.flags else [ShellWord(UNKNOWN, known=False)]
    if words[0].text.rpartition("/")[2] in SHELLS and any(
        _is_script(at, words, placeholder) for at in range(len(words))
    ):
        yield Opaque("shell.unknown-script", command.source, command.through)
    if placeholder and any(placeholder in word.text for word in words):
        text = " ".join(word.text for word in inputs)
        yield command.inside(tuple(_filled(word, placeholder, text, known=inputs[0].known) for word in words))
    else:
        yield command.inside((*words, *inputs))


def _is_script(at: int, words: Sequence[ShellWord], placeholder: str) -> bool:
    """Return True if the script of a shell comes from the input: the placeholder after `-c`, or nothing."""
    following = words[at + 1].text if at + 1 < len(words) else placeholder
    return words[at].text.endswith("c") and words[at].text.startswith("-") and following == placeholder


def _input_words(feed: Feed | None) -> list[ShellWord]:
    if feed is None or feed.text is None or not feed.text.split():
        return [ShellWord(UNKNOWN, known=False)]
    return [ShellWord(text) for text in feed.text.split()]


def _filled(word: ShellWord, placeholder: str, text: str, *, known: bool) -> ShellWord:
    return ShellWord(word.text.replace(placeholder, text), word.known and known) if placeholder in word.text else word


def _parallel(command: SimpleCommand) -> Iterator[Inner]:
    words = options.split(command.words[1:], _PARALLEL, stop=True).rest
    at = next((at for at, part in enumerate(words) if part.text in (":::", ":::+", "::::")), None)
    template, inputs = (words, None) if at is None else (words[:at], words[at + 1 :])
    if inputs is not None and words[len(template)].text == "::::":
        inputs = None
    for word in _inputs(command, inputs):
        if not template:
            yield (
                ShellScript(word.text, (*command.through, "parallel"))
                if word.known
                else Opaque("shell.unknown-script", command.source, command.through)
            )
        elif any("{}" in part.text for part in template):
            yield command.inside(tuple(_filled(part, "{}", word.text, known=word.known) for part in template))
        else:
            yield command.inside((*template, word))
    if len(template) == 1 and " " in template[0].text:
        yield ShellScript(template[0].text.replace("{}", UNKNOWN), (*command.through, "parallel"))


def _inputs(command: SimpleCommand, inputs: Sequence[ShellWord] | None) -> list[ShellWord]:
    if inputs is None:
        return _input_words(command.feed)
    return [word for word in inputs if word.text not in (":::", ":::+")][:_MOST]


def _find(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the command of each `-exec`, up to its terminator or the end of the line."""
    exec_words: list[ShellWord] | None = None
    name = checks.find_leaves(command)
    placeholder, known = (f"./{name}", True) if name else (UNKNOWN, False)
    for word in (*command.words, ShellWord(";")):
        if exec_words is None:
            exec_words = [] if word.text in _EXECS else None
        elif word.text in (";", "+"):
            filled = tuple(_filled(part, "{}", placeholder, known=known) for part in exec_words)
            if command.program.startswith("fd") and filled == tuple(exec_words):
                filled = (*filled, ShellWord(UNKNOWN, known=False))
            yield command.inside(filled)
            exec_words = None
        else:
            exec_words.append(word)


def _scripts(*flags: str) -> Callable[[SimpleCommand], Iterator[Inner]]:
    """Return a reader for programs with an option whose value a shell runs."""

    def read_options(command: SimpleCommand) -> Iterator[Inner]:
        arguments = options.split(command.words[1:], frozenset(flags))
        for name, value in arguments.values:
            if name in flags and value:
                yield ShellScript(value, (*command.through, command.program))

    return read_options


def _all_words(command: SimpleCommand) -> Iterator[Inner]:
    """Yield each argument that may be a shell line."""
    for word in command.words[1:]:
        if " " in word.text and word.known:
            yield ShellScript(word.text, (*command.through, command.program), guess=True)


def _first_word(command: SimpleCommand) -> Iterator[Inner]:
    for word in command.words[1:2]:
        yield ShellScript(word.text, (*command.through, command.program), command.env, guess=True)


def _alias(command: SimpleCommand) -> Iterator[Inner]:
    for word in command.words[1:]:
        name, equals, value = word.text.partition("=")
        if equals and name:
            yield ShellScript(value, (*command.through, "alias"), guess=True)


def _eval(command: SimpleCommand) -> Iterator[Inner]:
    words = command.words[1:]
    made_by = tuple(name for word in words for name in word.made_by)
    if "read" in made_by and any(not word.known for word in words):
        yield Opaque("shell.unknown-script", command.source, command.through)
    elif made_by and any(not word.known for word in words):
        yield command.inside((ShellWord("(evaluated)"), *words))
    elif any(not word.known for word in words) and words[0].text.startswith("$"):
        yield Opaque("shell.unknown-script", command.source, command.through)
    elif words:
        yield ShellScript(
            " ".join(word.text for word in words), (*command.through, "eval"), command.env, command.folder
        )
        if set(made_by) & DECODERS:
            yield Opaque("shell.encoded", command.source, command.through)


_SPECIAL: dict[str, Callable[[SimpleCommand], Iterator[Inner]]] = {
    "alias": _alias,
    "env": _env,
    "eval": _eval,
    "fd": _find,
    "fdfind": _find,
    "find": _find,
    "gfind": _find,
    "flock": _scripts("-c", "--command"),
    "gcloud": _scripts("--command"),
    "git": git_programs.inner_commands,
    "hyperfine": _all_words,
    "concurrently": _all_words,
    "npm-run-all": _all_words,
    "entr": _all_words,
    "nodemon": _scripts("--exec", "-x"),
    "watchexec": _all_words,
    "nix": _scripts("-c", "--command"),
    "nix-shell": _scripts("--run", "--command"),
    "npx": _scripts("-c", "--call"),
    "parallel": _parallel,
    "runuser": _scripts("-c", "--command"),
    "script": _scripts("-c", "--command"),
    "su": _scripts("-c", "--command", "--session-command"),
    "tmux": _all_words,
    "screen": _all_words,
    "trap": _first_word,
    "vagrant": _scripts("-c", "--command"),
    "fly": _scripts("-C", "--command"),
    "xargs": _xargs,
    "gxargs": _xargs,
    "sem": _all_words,
}
