"""Split text and code into the words of the index. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_WORD = re.compile(r"[^\W_][\w]*|_+[^\W_]\w*")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_LONGEST = 64  # characters; a longer run of letters is data, not a name
_SHORTEST_STEM = 4
_MOST_REMEMBERED = 1 << 17  # names whose words are kept in memory
_ENDINGS = (
    *(("ization", "ize"), ("isation", "ize"), ("ations", "ate"), ("ation", "ate"), ("nesses", ""), ("ness", "")),
    *(("ments", ""), ("ment", ""), ("ingly", ""), ("edly", ""), ("ings", ""), ("ing", ""), ("ies", "y")),
    *(("ied", "y"), ("sses", "ss"), ("ers", "er"), ("ed", ""), ("es", "e"), ("ly", "")),
)
COMMON = frozenset(
    "a an and any are as at be been but by can could did do does for from had has have how i if in into is it its just"
    " me my no not of on or our out over should so some such than that the their them then there these they this to"
    " too us using was we were what when where which while who why will with would you your".split()
)


@lru_cache(_MOST_REMEMBERED)
def stem(word: str) -> str:
    """Return a lower-case word without its ending, so that "parsing" and "parsed" meet."""
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) + len(instead) >= _SHORTEST_STEM - 1:
            word = word[: len(word) - len(ending)] + instead
            break
    else:
        if word.endswith("s") and not word.endswith("ss") and len(word) >= _SHORTEST_STEM:
            word = word[:-1]
    if len(word) >= _SHORTEST_STEM and word[-1] == word[-2] and word[-1] not in "aeioulsz":
        word = word[:-1]  # "running" and "run"
    return word[:-1] if word.endswith("e") and len(word) > _SHORTEST_STEM else word


@lru_cache(_MOST_REMEMBERED)
def pieces(name: str) -> tuple[str, ...]:
    """Return the index words of one name: the whole name first if it has parts, then the stems of its parts."""
    if len(name) > _LONGEST:
        return ()
    bare = name.strip("_")
    if bare.isascii() and bare.islower() and bare.isalpha():
        return (stem(bare),)
    parts = [part for piece in _PIECE.findall(bare) for part in _parts(piece)]
    if len(parts) == 1:
        return (parts[0],)
    whole = bare.lower()
    return (whole, *parts) if _CJK.search(bare) is None else tuple(parts)


def _parts(piece: str) -> Iterable[str]:
    if _CJK.search(piece) is None:
        return (stem(piece.lower()),)
    runs = _CJK.findall(piece)
    return [run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1))]


def names_of(text: str) -> list[str]:
    """Return the names and words of a text in their order."""
    return _WORD.findall(text)


class _JoinedPieces(dict[str, str]):
    """The index words of each name as one text; a look-up of a known name runs no Python, which halves the time."""

    def __missing__(self, name: str) -> str:
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        joined = self[name] = " ".join(pieces(name))
        return joined


_joined = _JoinedPieces()


def index_words(text: str) -> str:
    """Return the text as the words that the index stores, separated by blanks."""
    return " ".join(map(_joined.__getitem__, _WORD.findall(text)))


def query_words(text: str) -> dict[str, int]:
    """Return the words to search for with their counts; common words are left out unless there are no others."""
    counts: dict[str, int] = {}
    for name in _WORD.findall(text):
        for piece in pieces(name):
            counts[piece] = counts.get(piece, 0) + 1
    telling = {word: count for word, count in counts.items() if word not in COMMON and len(word) > 1}
    return telling or counts


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text for a model: a quarter of its characters, and each CJK character."""
    wide = sum(map(len, _CJK.findall(text)))
    return wide + (len(text) - wide + 3) // 4
