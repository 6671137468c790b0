"""Text functions for search and comparison: split identifiers, negations, signatures. Pure."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")
_WORD = re.compile(r"\w+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")  # scripts without spaces between words
_COMPOUND = re.compile(f"{_HUMP.pattern}|{_CJK.pattern}")
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
    """Return a hash that ignores numbers, which change from run to run."""
    return digest(_NUMBERS.sub("0", _plain(text)))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def slug(title: str) -> str:
    """Return the letters and digits of a title, of any script, as a file name."""
    plain = "-".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFC", title.lower())))
    return plain[:_LONGEST_NAME].strip("-") or "lesson"


# Search -----------------------------------------------------------------------------------------------------------


def searchable(text: str) -> str:
    """Return the text with the parts of its identifiers added, so that "response" finds `parseHTTPResponse`."""
    if not _COMPOUND.search(text):
        return text
    compound = (word for word in _WORD.findall(text) if _COMPOUND.search(word))
    return " ".join([text, *(piece for word in compound for piece in _pieces(word))])


def terms(query: str) -> list[str]:
    """Return the distinct search terms; common words are used only if there are no others."""
    distinct = dict.fromkeys(terms_of(query))
    return ([word for word in distinct if word not in _COMMON] or list(distinct))[:_MOST_TERMS]


def terms_of(text: str) -> Iterator[str]:
    """Yield every word, and every part of a compound one."""
    return (piece.lower() for word in _WORD.findall(text) for piece in _pieces(word))


def _pieces(word: str) -> Iterator[str]:
    for part in filter(None, _HUMP.sub(" ", word).split(" ")):
        yield from _pairs(part) if _CJK.search(part) else (part,)


def _pairs(part: str) -> Iterator[str]:
    """Yield adjacent pairs of characters, since these scripts do not mark the end of words."""
    for run in _CJK.findall(part):
        yield from (run[at : at + 2] for at in range(max(1, len(run) - 1)))
    yield from filter(None, _CJK.sub(" ", part).split(" "))


# Contradictions ---------------------------------------------------------------------------------------------------


class WordStance(NamedTuple):
    """The topic of a sentence, and whether the sentence is against it."""

    topic: str
    against: bool


@lru_cache(1 << 15)
def stance(title: str) -> WordStance:
    """Return what a sentence is about and whether it is against it, as in "always use tabs" and "never use tabs"."""
    negations = len(_AGAINST.findall(title))
    rest = _FOR.sub(" ", _AGAINST.sub(" ", title)).lower()
    sentence_words = _WORD.findall(rest)
    negations += sum(word in _NEGATIONS and word != "t" for word in sentence_words)
    topic = [word for word in sentence_words if word not in _FILLERS and word not in _NEGATIONS]
    return WordStance(" ".join(topic), bool(negations % 2))


def count(text: str) -> int:
    """Count words for a budget; in scripts without spaces every character counts as one."""
    pictures = sum(map(len, _CJK.findall(text)))
    return pictures + len(_CJK.sub(" ", text).split())
