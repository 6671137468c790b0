"""Find the commands that a program starts from its input, options or arguments, known or hidden among them."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence

from reflectloop.policy import checks, git_programs, launchers, options, scripts, wrappers
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
from reflectloop.system import patterns

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
    whole = checks.whole_starts(command)
    placeholder, known = (f"./{name}", True) if name else (whole[0], True) if whole else (UNKNOWN, False)
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


HIDDEN = "(among its words)"  # a command found this way counts only if it is denied
_DESTROYERS = frozenset(
    "rm dd mkfs shred wipefs chmod chown sh bash zsh dash ksh python python3 perl ruby node sudo curl wget kill".split()
)
_HINT = patterns.lazy(r"\b(?:rm|dd|mkfs\S*|shred|wipefs|chmod|chown|sh|bash|curl|wget|python3?|perl)\s")
# Options whose value is usually a command.
_TAKES_COMMAND = patterns.lazy(
    r"-[cexsCX]$|--?\S*(?:cmd|command|exec|run|script|shell|before|after|hook|under|On[A-Z]|args)"
)
# Programs whose arguments are text for people, patterns or data.
_TEXT_PROGRAMS = frozenset(
    """
    echo printf grep egrep fgrep rg ag ack git gh glab hub jj curl wget http https xh jq yq logger notify-send
    say wall write mail cowsay figlet man tldr cheat apropos whatis which type whereis test [ [[ expr read tee
    cat ls claude codex gemini aider llm opencode reflectloop pytest pre-commit commitizen cz apt apt-get dnf
    yum apk brew pacman history fc let export declare typeset local readonly unset compgen docker-compose dpkg
    rpm file stat pgrep pkill killall tr cut sort uniq wc head tail diff cmp ln cp mv mkdir touch
    """.split()
)

_READ_ELSEWHERE = frozenset(
    "find gfind fd fdfind alias trap eval make gmake bmake npm pnpm yarn npx su ssh cmake".split()
)


def _is_known(program: str) -> bool:
    return (
        program in _TEXT_PROGRAMS
        or program in SHELLS
        or program in wrappers.WRAPPERS
        or program in _READ_ELSEWHERE
        or scripts.is_interpreter(program)
    )


def _option_of(command: SimpleCommand, at: int) -> str:
    """Return the option that an argument belongs to: its own prefix, or the word before."""
    text = command.words[at].text
    return text.partition("=")[0] if re.match(r"-[\w.:-]+=", text) else command.words[at - 1].text


# Known programs that may start anything if this word is among their arguments.
_STARTING_WORDS = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), "run"),
    "dotenv": "--",
    "hatch": "run",
    "cargo": "with",
    "composer": "exec",
    "tox": "--",
}


def hidden_in_arguments(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the arguments from the name of a destructive program on, and arguments that look like a shell line."""
    started = _STARTING_WORDS.get(command.program, "\0") in command.texts
    if len(command.words) < 2 or HIDDEN in command.through or (_is_known(command.program) and not started):  # noqa: PLR2004 - a program and a word
        return
    through = (*command.through, command.program, HIDDEN)
    judged: set[str] = set()  # the first of each program is judged with all words after it, those of the others too
    for at, word in enumerate(command.words[1:], 1):
        name = posixpath.basename(word.text).rpartition(":")[2]
        if name in _DESTROYERS and at + 1 < len(command.words):
            if name in judged:
                continue
            judged.add(name)
            named = word._replace(text=word.text.rpartition(":")[2])
            yield command.inside((named, *command.words[at + 1 :]))._replace(through=through)
        elif (
            " " in word.text
            and _HINT.search(word.text)
            and (_TAKES_COMMAND.match(_option_of(command, at)) or (started and at > 1))
        ):
            yield ShellScript(re.sub(r"^-[\w.:-]+=", "", word.text), through, guess=True)


# Commands that print text, not the path of a program.
_READERS = frozenset(
    """
    cat head tail sed awk gawk cut tr rev printf echo grep jq read curl wget base64 base32 xxd od openssl perl strings
    tac sort paste fold nc dig zcat gunzip hexdump
    """.split()
)
_GUESSES = ("rm", "dd", "sh", "bash", "nc", "curl", "wget", "chmod", "chown", "mkfs", "shred", "kill", "mv", "python3")

_SHELL_VARIABLES = frozenset(("$SHELL", "${SHELL}", "$BASH", "${BASH}", "$0", "${0}"))


def indirect_programs(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the programs that are named by a pattern, or by the output of another command."""
    if not command.words:
        return
    word = command.words[0]
    if word.text in _SHELL_VARIABLES:
        yield command.inside((ShellWord("bash"), *command.words[1:]))
    elif word.glob and re.fullmatch(r"[\w./?*\[\]^!-]*[?*\[][\w./?*\[\]^!-]*", word.text):
        yield from _globbed(command, word)
    elif (not word.known and set(word.made_by) & _READERS and re.fullmatch(r"\$\(…\)|\$\{\w+\}", word.text)) or (
        UNKNOWN in word.text and set(word.made_by) & {"curl", "wget", "base64", "xxd"}
    ):
        yield Opaque("shell.computed-program", command.source, command.through)


def _globbed(command: SimpleCommand, word: ShellWord) -> Iterator[Inner]:
    name = posixpath.basename(word.text)
    fitting = [guess for guess in _GUESSES if fnmatch.fnmatchcase(guess, name)] if len(name) < 64 else []  # noqa: PLR2004
    yield from (command.inside((ShellWord(guess), *command.words[1:])) for guess in fitting[:3])
    folder = posixpath.dirname(word.text)
    if "/" not in word.text or re.match(r"/[^/]*(?:bin|\?|\*|\[)", folder):
        yield Opaque("shell.globbed-program", command.source, command.through)
