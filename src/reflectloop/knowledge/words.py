"""Words as search and comparison see them: identifiers split, negations told apart, signatures. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")
_WORD = re.compile(r"\w+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+")
_PICTURED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")  # scripts that put no space between words
_COMPOUND = re.compile(f"{_HUMP.pattern}|{_PICTURED.pattern}")
_LONGEST_NAME = 48
_MOST_TERMS = 32
_COMMON = frozenset("a an and are as at be by for from in is it its of on or that the this to was with".split())
_FILLERS = _COMMON | frozenset(
    "always do does must need needs please prefer shall should use used using we you".split()
)
_NEGATIONS = frozenset("avoid cannot don dont forbid forbidden never no nor not stop t without".split())
_AGAINST = re.compile("不要|不得|不能|不可|不应|禁止|避免|切勿|不|勿|别")
_FOR = re.compile("必须|应该|应当|总是|使用|要")


def signature(text: str) -> str:
    """The same for the same thing: numbers change from run to run and say nothing."""
    return digest(_NUMBERS.sub("0", _plain(text)))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def slug(title: str) -> str:
    """What of a title can be part of a file name everywhere."""
    plain = "-".join(re.findall(r"[a-z0-9]+", title.lower()))
    return plain[:_LONGEST_NAME].strip("-") or "lesson"


# Searching --------------------------------------------------------------------------------------------------------


def searchable(text: str) -> str:
    """The text, and what its identifiers are made of: `parseHTTPResponse` is found by response, too."""
    if not _COMPOUND.search(text):
        return text
    compound = (word for word in _WORD.findall(text) if _COMPOUND.search(word))
    return " ".join([text, *(piece for word in compound for piece in _pieces(word))])


def terms(query: str) -> list[str]:
    """What is looked for, each once; words that stand everywhere only where there are no others."""
    found = dict.fromkeys(terms_of(query))
    return ([word for word in found if word not in _COMMON] or list(found))[:_MOST_TERMS]


def terms_of(text: str) -> Iterator[str]:
    """Every word, and every piece of a compound one."""
    return (piece.lower() for word in _WORD.findall(text) for piece in _pieces(word))


def _pieces(word: str) -> Iterator[str]:
    for part in filter(None, _HUMP.sub(" ", word).split(" ")):
        yield from _pairs(part) if _PICTURED.search(part) else (part,)


def _pairs(part: str) -> Iterator[str]:
    """Neighbours two by two, since nobody says where a word ends."""
    for run in _PICTURED.findall(part):
        yield from (run[at : at + 2] for at in range(max(1, len(run) - 1)))
    yield from filter(None, _PICTURED.sub(" ", part).split(" "))


# Contradicting ----------------------------------------------------------------------------------------------------


class Stance(NamedTuple):
    topic: str
    against: bool


@lru_cache(1 << 15)
def stance(title: str) -> Stance:
    """What a sentence is about, and whether it is against it: "always use tabs" and "never use tabs" differ in that."""
    negations = len(_AGAINST.findall(title))
    rest = _FOR.sub(" ", _AGAINST.sub(" ", title)).lower()
    said = _WORD.findall(rest)
    negations += sum(word in _NEGATIONS and word != "t" for word in said)
    topic = [word for word in said if word not in _FILLERS and word not in _NEGATIONS]
    return Stance(" ".join(topic), bool(negations % 2))


def count(text: str) -> int:
    """Words, as a budget counts them; of a script without spaces every character is one."""
    pictures = sum(map(len, _PICTURED.findall(text)))
    return pictures + len(_PICTURED.sub(" ", text).split())
