"""Commands that start others in a way of their own: from their input, from options, from one of their words."""

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

_MOST = 64  # inputs of one `parallel` that are looked at one by one
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


def inner(one: SimpleCommand) -> Iterator[Inner]:
    program = one.program
    special = _SPECIAL.get(program) or launchers.LAUNCHERS.get(program) or launchers.loader(program)
    return special(one) if special else iter(())


def _env(one: SimpleCommand) -> Iterator[Inner]:
    """`env -S 'A=1 cmd' args`: the string is split and stands before the rest."""
    for at, word in enumerate(one.words[1:], 1):
        found = re.match(r"(?:-[a-zA-Z]*S|--split-string=?)(.*)", word.text, re.DOTALL)
        if found:
            rest = one.words[at + 1 :]
            said = found[1] or (rest[0].text if rest else "")
            rest = rest if found[1] else rest[1:]
            words = (one.words[0], *(ShellWord(text) for text in said.split()), *rest)
            yield one.inside(words)
            return
        if not word.text.startswith("-"):
            return


def _xargs(one: SimpleCommand) -> Iterator[Inner]:
    arguments = options.split(one.words[1:], _XARGS, stop=True)
    words = arguments.rest
    if not words:
        return
    hole = arguments.value("-I", "-J", "--replace") or ("{}" if arguments.has(("-i", "--replace")) else "")
    hole = next((word.text[2:] for word in one.words[1:] if re.match(r"-i.", word.text)), hole)
    given = _given(one.feed) if "-a" not in arguments.flags else [ShellWord(UNKNOWN, known=False)]
    if words[0].text.rpartition("/")[2] in SHELLS and any(_is_script(at, words, hole) for at in range(len(words))):
        yield Opaque("shell.unknown-script", one.source, one.through)
    if hole and any(hole in word.text for word in words):
        text = " ".join(word.text for word in given)
        yield one.inside(tuple(_filled(word, hole, text, known=given[0].known) for word in words))
    else:
        yield one.inside((*words, *given))


def _is_script(at: int, words: Sequence[ShellWord], hole: str) -> bool:
    """The text that a shell runs is what the input says: the hole behind `-c`, or nothing at all."""
    behind = words[at + 1].text if at + 1 < len(words) else hole
    return words[at].text.endswith("c") and words[at].text.startswith("-") and behind == hole


def _given(feed: Feed | None) -> list[ShellWord]:
    if feed is None or feed.text is None or not feed.text.split():
        return [ShellWord(UNKNOWN, known=False)]
    return [ShellWord(text) for text in feed.text.split()]


def _filled(word: ShellWord, hole: str, text: str, *, known: bool) -> ShellWord:
    return ShellWord(word.text.replace(hole, text), word.known and known) if hole in word.text else word


def _parallel(one: SimpleCommand) -> Iterator[Inner]:
    words = options.split(one.words[1:], _PARALLEL, stop=True).rest
    at = next((at for at, word in enumerate(words) if word.text in (":::", ":::+", "::::")), None)
    template, inputs = (words, None) if at is None else (words[:at], words[at + 1 :])
    if inputs is not None and words[len(template)].text == "::::":
        inputs = None
    for given in _inputs(one, inputs):
        if not template:
            yield (
                ShellScript(given.text, (*one.through, "parallel"))
                if given.known
                else Opaque("shell.unknown-script", one.source, one.through)
            )
        elif any("{}" in word.text for word in template):
            yield one.inside(tuple(_filled(word, "{}", given.text, known=given.known) for word in template))
        else:
            yield one.inside((*template, given))
    if len(template) == 1 and " " in template[0].text:
        yield ShellScript(template[0].text.replace("{}", UNKNOWN), (*one.through, "parallel"))


def _inputs(one: SimpleCommand, inputs: Sequence[ShellWord] | None) -> list[ShellWord]:
    if inputs is None:
        return _given(one.feed)
    return [word for word in inputs if word.text not in (":::", ":::+")][:_MOST]


def _find(one: SimpleCommand) -> Iterator[Inner]:
    """Each `-exec`, up to its end or the line's."""
    command: list[ShellWord] | None = None
    name = checks.find_leaves(one)
    hole, known = (f"./{name}", True) if name else (UNKNOWN, False)
    for word in (*one.words, ShellWord(";")):
        if command is None:
            command = [] if word.text in _EXECS else None
        elif word.text in (";", "+"):
            filled = tuple(_filled(part, "{}", hole, known=known) for part in command)
            if one.program.startswith("fd") and filled == tuple(command):
                filled = (*filled, ShellWord(UNKNOWN, known=False))
            yield one.inside(filled)
            command = None
        else:
            command.append(word)


def _scripts(*flags: str) -> Callable[[SimpleCommand], Iterator[Inner]]:
    """Commands with an option whose value a shell runs."""

    def found(one: SimpleCommand) -> Iterator[Inner]:
        arguments = options.split(one.words[1:], frozenset(flags))
        for name, value in arguments.values:
            if name in flags and value:
                yield ShellScript(value, (*one.through, one.program))

    return found


def _all_words(one: SimpleCommand) -> Iterator[Inner]:
    """Commands whose words may each be a shell line."""
    for word in one.words[1:]:
        if " " in word.text and word.known:
            yield ShellScript(word.text, (*one.through, one.program), guess=True)


def _first_word(one: SimpleCommand) -> Iterator[Inner]:
    for word in one.words[1:2]:
        yield ShellScript(word.text, (*one.through, one.program), one.env, guess=True)


def _alias(one: SimpleCommand) -> Iterator[Inner]:
    for word in one.words[1:]:
        name, equals, value = word.text.partition("=")
        if equals and name:
            yield ShellScript(value, (*one.through, "alias"), guess=True)


def _eval(one: SimpleCommand) -> Iterator[Inner]:
    words = one.words[1:]
    made_by = tuple(name for word in words for name in word.made_by)
    if "read" in made_by and any(not word.known for word in words):
        yield Opaque("shell.unknown-script", one.source, one.through)
    elif made_by and any(not word.known for word in words):
        yield one.inside((ShellWord("(evaluated)"), *words))
    elif any(not word.known for word in words) and words[0].text.startswith("$"):
        yield Opaque("shell.unknown-script", one.source, one.through)
    elif words:
        yield ShellScript(" ".join(word.text for word in words), (*one.through, "eval"), one.env, one.folder)
        if set(made_by) & DECODERS:
            yield Opaque("shell.encoded", one.source, one.through)


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
    "git": git_programs.inner,
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
