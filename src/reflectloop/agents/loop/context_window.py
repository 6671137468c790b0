"""Makes a history fit a window: the oldest exchanges go first, and no call is parted from its result. Pure, linear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from reflectloop.agents.messages import Message

_MARK = "\n[... about {count} characters were left out here ...]\n"  # ASCII: it must not make a text count for more
_PER_TOKEN = 3
_LEAST = 64  # characters that stay of a part, however small the window


class TrimmedMessages(NamedTuple):
    messages: tuple[Message, ...]
    tokens: int
    dropped: int  # messages that were left out
    cut: int  # messages that were shortened


def trim_history(messages: Sequence[Message], room: int, sizes: Sequence[int] | None = None) -> TrimmedMessages:
    """The brief (the first message) stays, and the last exchange; what is left may only be cut in its middle."""
    weights = [one.tokens for one in messages] if sizes is None else sizes
    total, first = sum(weights), 1
    begins = [at for at in range(1, len(messages)) if messages[at].role == "assistant"]
    for begin in begins:
        if total <= room:
            break
        total -= sum(weights[first:begin])
        first = begin
    kept = (*messages[:1], *messages[first:])
    dropped = len(messages) - len(kept)
    if total <= room or not kept:
        return TrimmedMessages(kept, total, dropped, 0)
    shorter = _shortened(kept, room)
    cut = sum(one != other for one, other in zip(kept, shorter, strict=True))
    return TrimmedMessages(shorter, sum(one.tokens for one in shorter), dropped, cut)


def _shortened(messages: Sequence[Message], room: int) -> tuple[Message, ...]:
    """Long parts are cut to one length, the greatest that fits; short ones stay whole."""
    least, most = _LEAST, max(_longest(one) for one in messages)
    while least < most:
        middle = (least + most + 1) // 2
        if sum(_cut(one, middle).tokens for one in messages) <= room:
            least = middle
        else:
            most = middle - 1
    return tuple(_cut(one, least) for one in messages)


def _longest(message: Message) -> int:
    return message.tokens * _PER_TOKEN


def _cut(message: Message, most: int) -> Message:
    return message._replace(
        text=head_and_tail(message.text, most),
        calls=tuple(one._replace(arguments=_cut_value(one.arguments, most)) for one in message.calls),
        results=tuple(one._replace(text=head_and_tail(one.text, most)) for one in message.results),
    )


def _cut_value(value: Any, most: int) -> Any:  # noqa: ANN401 - any JSON value
    """Within a call's arguments only texts are cut: it stays an object with the same keys."""
    if isinstance(value, str):
        return head_and_tail(value, most)
    if isinstance(value, list):
        return [_cut_value(item, most) for item in value]
    if isinstance(value, dict):
        return {key: _cut_value(item, most) for key, item in value.items()}
    return value


def head_and_tail(text: str, most: int) -> str:
    """A text of at most so many characters: its beginning, a mark that says what is missing, and its end."""
    if len(text) <= most:
        return text
    mark = _MARK.format(count=len(text) - most)
    room = max(0, most - len(mark))
    head = (room + 1) // 2
    return text[:head] + mark[:most] + text[len(text) - (room - head) :]
