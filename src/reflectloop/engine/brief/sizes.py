"""Keeps a brief within its tokens: a share for each part, so that one part that grows does not move another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from reflectloop.engine.steps import prompts

_Item = TypeVar("_Item")
_CHARACTERS = 4  # of a token, in text of few letters beyond ASCII
LEAST_TOKENS = 500
MOST_TOKENS = 200_000


class Shares(NamedTuple):
    """How many tokens each part of a brief may have."""

    goal: int
    contract: int
    plan: int
    lessons: int
    code: int
    history: int
    now: int

    @classmethod
    def of(cls, tokens: int) -> Shares:
        return cls(
            goal=tokens * 8 // 100,
            contract=tokens * 10 // 100,
            plan=tokens * 8 // 100,
            lessons=tokens * 6 // 100,
            code=tokens * 26 // 100,
            history=tokens * 22 // 100,
            now=tokens * 16 // 100,
        )


def count_tokens(text: str) -> int:
    """Return about how many tokens a text has: never fewer than a fourth of its characters."""
    wide = sum(not char.isascii() for char in text)
    return (len(text) - wide) // _CHARACTERS + wide + 1


def cut(text: str, tokens: int) -> str:
    """Return a text within these tokens: its head and its tail."""
    if count_tokens(text) <= tokens:
        return text
    most = max(40, len(text) * tokens // count_tokens(text) - 40)
    return prompts.cut(text, most)


def first_that_fit(items: Iterable[_Item], tokens: int, shown: Callable[[_Item], str]) -> tuple[_Item, ...]:
    """Return the first items whose text fits."""
    out: list[_Item] = []
    for item in items:
        tokens -= count_tokens(shown(item))
        if tokens < 0:
            break
        out.append(item)
    return tuple(out)


def shorten_oldest(
    items: Sequence[_Item], tokens: int, shown: Callable[[_Item], str], short: Callable[[_Item], _Item]
) -> tuple[_Item, ...]:
    """Return the items with the oldest ones shortened, then left out, until all fit.

    Where they do not fit, they are brought down to half: so most new items leave the text before them as it was.
    """
    out: list[_Item] = []
    for item in items:
        out.append(item)
        for change in (short, None):
            if _size(out, shown) > tokens:
                _bring_down(out, tokens // 2, shown, change)
    return tuple(out)


def _size(items: Sequence[_Item], shown: Callable[[_Item], str]) -> int:
    return sum(count_tokens(shown(item)) for item in items)


def _bring_down(
    items: list[_Item], tokens: int, shown: Callable[[_Item], str], change: Callable[[_Item], _Item] | None
) -> None:
    """Shorten or remove items from the first on; the last one stays."""
    size, place = _size(items, shown), 0
    while size > tokens and place < len(items) - 1:
        old = items[place]
        size -= count_tokens(shown(old))
        if change is None:
            del items[place]
        else:
            items[place] = change(old)
            size += count_tokens(shown(items[place]))
            place += 1
