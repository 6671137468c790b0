"""Keeps a brief within its tokens: a share for each part, so that one part that grows does not move another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from reflectloop.engine.steps import prompts

_Item = TypeVar("_Item")
_CHARACTERS = 4  # of a token, in text of few letters beyond ASCII
LEAST_TOKENS = 1_000
MOST_TOKENS = 200_000
_OWN_LINES = 400  # tokens of headings and rules

_PARTS = (8, 10, 8, 5, 24, 20, 15, 6, 4)  # percent, in the order of the shares


class Shares(NamedTuple):
    """The tokens that each part of a brief may have."""

    goal: int
    contract: int
    plan: int
    lessons: int
    code: int
    history: int
    now: int
    step_code: int  # for the current step or the last failure
    fixes: int  # lessons against the last failure

    @classmethod
    def of(cls, tokens: int, percent: int = 100) -> Shares:
        """Divide the tokens, without those of our own lines; with less than 100 percent every part is smaller."""
        left = (tokens - _OWN_LINES) * percent // 100
        return cls(*(left * part // 100 for part in _PARTS))


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
    """Return the items with the oldest ones shortened, then left out, until all fit; the last one only if it must.

    Where they do not fit, they are brought down to half: so most new items leave the text before them as it was.
    """
    out: list[_Item] = []
    costs: list[int] = []

    def shorten(place: int) -> None:
        out[place] = short(out[place])
        costs[place] = count_tokens(shown(out[place]))

    for item in items:
        out.append(item)
        costs.append(count_tokens(shown(item)))
        if sum(costs) <= tokens:
            continue
        for place in range(len(out) - 1):
            if sum(costs) > tokens // 2:
                shorten(place)
        least = tokens // 2 if sum(costs) > tokens else tokens
        while len(out) > 1 and sum(costs) > least:
            del out[0], costs[0]
    if sum(costs) > tokens:
        shorten(-1)
    return tuple(out)
