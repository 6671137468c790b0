"""Fits a history into a context window: drops the oldest exchanges first, each call with its results. Pure, linear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from reflectloop.agents.messages import Message

_MARK = (
    "\n[... about {count} characters were left out here ...]\n"  # ASCII: other characters would count as more tokens
)
_PER_TOKEN = 3
_LEAST = 64  # characters that remain of a part, however small the window


class TrimmedMessages(NamedTuple):
    messages: tuple[Message, ...]
    tokens: int
    dropped: int  # messages that were left out
    cut: int  # messages that were shortened


def trim_history(messages: Sequence[Message], room: int, sizes: Sequence[int] | None = None) -> TrimmedMessages:
    """Drop old exchanges, but keep the first message (the prompt) and the last exchange; shorten those if needed."""
    weights = [message.tokens for message in messages] if sizes is None else sizes
    total, first = sum(weights), 1
    begins = [at for at in range(1, len(messages)) if messages[at].role == "assistant"]
    for begin in begins:
        if total <= room:
            break
        total -= sum(weights[first:begin])
        first = begin
    messages_left = (*messages[:1], *messages[first:])
    dropped = len(messages) - len(messages_left)
    if total <= room or not messages_left:
        return TrimmedMessages(messages_left, total, dropped, 0)
    shorter = _shortened(messages_left, room)
    cut = sum(before != after for before, after in zip(messages_left, shorter, strict=True))
    return TrimmedMessages(shorter, sum(message.tokens for message in shorter), dropped, cut)


def _shortened(messages: Sequence[Message], room: int) -> tuple[Message, ...]:
    """Cut all long parts to the same length, the greatest that fits."""
    least, most = _LEAST, max(_longest(message) for message in messages)
    while least < most:
        middle = (least + most + 1) // 2
        if sum(_cut(message, middle).tokens for message in messages) <= room:
            least = middle
        else:
            most = middle - 1
    return tuple(_cut(message, least) for message in messages)


def _longest(message: Message) -> int:
    return message.tokens * _PER_TOKEN


def _cut(message: Message, most: int) -> Message:
    return message._replace(
        text=head_and_tail(message.text, most),
        calls=tuple(part._replace(arguments=_cut_value(part.arguments, most)) for part in message.calls),
        results=tuple(part._replace(text=head_and_tail(part.text, most)) for part in message.results),
    )


def _cut_value(value: Any, most: int) -> Any:  # noqa: ANN401 - any JSON value
    """Cut the texts within a call's arguments; the keys stay."""
    if isinstance(value, str):
        return head_and_tail(value, most)
    if isinstance(value, list):
        return [_cut_value(item, most) for item in value]
    if isinstance(value, dict):
        return {key: _cut_value(item, most) for key, item in value.items()}
    return value


def head_and_tail(text: str, most: int) -> str:
    """Return at most `most` characters: the beginning, a mark with the number of missing ones, and the end."""
    if len(text) <= most:
        return text
    mark = _MARK.format(count=len(text) - most)
    room = max(0, most - len(mark))
    head = (room + 1) // 2
    return text[:head] + mark[:most] + text[len(text) - (room - head) :]
