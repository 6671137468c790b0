"""What a rule cannot say with words and options alone, by name. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from reflectloop.policy import gitwords, options, places
from reflectloop.policy.simple import Simple, Word

_MODES = re.compile(r"[0-7]{2,3}[2367]|a\+rwx|[ugo]*[ao][ugo]*\+[rx]*w[rx]*|o\+\w*w\w*|\+s|[ug]\+s|0?[4267]7[0-7]{2}")
_LONGEST_MODE = 16
_WHOLE = frozenset(("machine", "home", "device"))
_REMOVERS = frozenset("rm rmdir unlink shred srm dd truncate mv".split())


def _find_start(one: Simple) -> list[str]:
    """What kinds of places a `find` begins at."""
    starts: list[str] = []
    for word in one.words[1:]:
        if word.text.startswith(("-", "(", "!")) and word.text not in ("-H", "-L", "-P"):
            break
        if not word.text.startswith("-"):
            starts.append(places.of(word, one.folder))
    return starts or ["here"]


def _finds_whole(one: Simple) -> bool:
    removes = "-delete" in one.texts or bool({"-exec", "-execdir"} & set(one.texts) and _REMOVERS & set(one.texts))
    return removes and bool(_WHOLE & set(_find_start(one)))


def _opens_mode(one: Simple) -> bool:
    return any(_MODES.fullmatch(word.text[:_LONGEST_MODE]) for word in one.words[1:])


def _looks_like_removal(one: Simple) -> bool:
    """A program known only when it runs, with words that say what `rm -rf` says."""
    if len(one.words) < 2 or one.words[0].known:  # noqa: PLR2004 - a program and its words
        return False
    given = options.split(one.words[1:])
    where = [places.of(word, one.folder) for word in given.rest]
    return given.has(("-r", "-R")) and given.has(("-f",)) and bool(_WHOLE & set(where))


def _kills_all(one: Simple) -> bool:
    texts = [text for text in one.texts[1:] if text != "--"]
    return (len(texts) > 1 and texts[-1] in ("-1", "1", "0")) or texts in (["-1"], ["1"])


def _moves_away(one: Simple) -> bool:
    """`mv` of a whole place, or into nothing."""
    rest = options.split(one.words[1:], frozenset(("-t", "-S"))).rest
    where = [places.of(word, one.folder) for word in rest[:-1]]
    return bool(_WHOLE & set(where)) or (len(rest) > 1 and rest[-1].text == "/dev/null")


def _syncs_away(one: Simple) -> bool:
    """`rsync --delete` from an empty or temp folder onto something that counts is a removal by another name."""
    rest = options.split(one.words[1:], frozenset(("-e", "--rsh", "--exclude", "--include", "-f", "--filter"))).rest
    return bool(rest) and places.of(rest[-1], one.folder) not in ("temp", "built")


def _sends_private(one: Simple) -> bool:
    """Keys, credentials or the environment as an argument, a file to be sent, or the input."""
    made_by = {name for word in one.words for name in word.made_by} | set(one.feed.made_by if one.feed else ())
    if made_by & {"env", "printenv", "set", "export"}:
        return True
    parts = [part for word in one.words[1:] for part in re.split(r"[@=]", word.text)]
    return any(places.of(Word(part), one.folder) == "private" for part in parts if "/" in part or part.startswith("."))


CHECKS: dict[str, Callable[[Simple], bool]] = {
    "find-whole": _finds_whole,
    "git-branch-delete": lambda one: gitwords.deletes_branch(one.words[2:]),
    "git-checkout-overwrite": lambda one: gitwords.overwrites(one.words[2:]),
    "git-clean": lambda one: gitwords.cleans(one.words[2:], one.source),
    "git-push-delete": lambda one: gitwords.deletes_remote(one.words[2:]),
    "git-push-force": lambda one: gitwords.forces(one.words[2:]),
    "git-restore": lambda one: gitwords.restores(one.words[2:]),
    "git-switch-force": lambda one: gitwords.switches_hard(one.words[2:]),
    "kill-all": _kills_all,
    "moves-away": _moves_away,
    "opens-mode": _opens_mode,
    "sends-private": _sends_private,
    "syncs-away": _syncs_away,
    "unknown-removal": _looks_like_removal,
}
