"""Finds the secrets in a block of lines: one pass for keywords, then patterns where a keyword stands."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

import ahocorasick_rs
import re2

from reflectloop.secrets import pem, validators
from reflectloop.secrets.rule import Grade, SecretRule, compiled
from reflectloop.secrets.spans import Span

TILE = 1 << 12  # a longer line is looked at in pieces of this size,
AHEAD = 1 << 12  # each with so much of what follows,
BEHIND = 1 << 9  # and so much of what went before
_NAME_BEFORE = 40  # of what stands before a match, for the check to see the whole name
_AFTER = 128  # of what follows a value, for the check to see the host of an address
_WORD = 200  # what is longer is no name
_TRIES = 4  # as often the same piece of text is looked at from a later beginning
_REMEMBERED = 1 << 12  # pieces of text without a secret that need no second look
_OPENERS = b">:=({[,|\\"
_FORMATS = frozenset(("value", "near"))  # checks of rules whose patterns are short enough to be joined


class Exact(NamedTuple):
    """A value that is looked for as it is."""

    value: bytes
    rule: str
    grade: Grade = "certain"


class ScanBlock(NamedTuple):
    """What is looked at: `data[start:end]`, where `start` lies `column` bytes into its line."""

    data: bytes
    start: int
    end: int
    column: int = 0
    final: bool = True  # nothing more will come


class MatchResult(NamedTuple):
    spans: list[Span]
    held: int  # from here on more must be seen before anything can be said


class _Place(NamedTuple):
    """A line, or a tile of a long one, and the rules whose keyword stands there."""

    start: int
    end: int
    mask: int
    line_start: int
    keys_at: tuple[int, ...] = ()
    seen: tuple[int, int] | None = None  # of a tile: what patterns may see, within its line

    @property
    def is_tile(self) -> bool:
        return self.seen is not None


class Matcher:
    """The rules and values that are looked for. A pattern is compiled when its keyword is first seen."""

    def __init__(self, rules: Iterable[SecretRule], exact: Iterable[Exact] = (), *, fillers: bool = False) -> None:
        """With `fillers`, a provider's format filled with one letter is `likely`; without, it is nothing."""
        self._fillers = fillers
        self._rules = tuple(rules)
        self._exact = tuple(exact)
        self._patterns: dict[int, re2._Regexp] = {}
        self._chosen: dict[int, tuple[int, ...]] = {}
        self._widest: dict[int, int] = {}
        self._barren: set[bytes] = set()

    @cached_property
    def _keywords(self) -> dict[bytes, int]:
        """Each keyword, and the rules it calls for as the bits of a number."""
        out: dict[bytes, int] = {pem.KEYWORD: 0}
        for number, rule in enumerate(self._rules):
            for keyword in rule.keywords:
                word = keyword.encode().lower()
                out[word] = out.get(word, 0) | 1 << number
        return out

    @cached_property
    def _automaton(self) -> ahocorasick_rs.BytesAhoCorasick:
        words = [
            *(word for word in self._keywords if word not in self._runs),
            *(one.value.lower() for one in self._exact),
        ]
        return ahocorasick_rs.BytesAhoCorasick(words, implementation=ahocorasick_rs.Implementation.DFA)

    @cached_property
    def _masks(self) -> list[int]:
        return [mask for word, mask in self._keywords.items() if word not in self._runs]

    @cached_property
    def _runs(self) -> dict[bytes, int]:
        """Keywords of one letter over and over: in a run of it the automaton would find them at every byte."""
        return {word: mask for word, mask in self._keywords.items() if len(word) > 1 and len(set(word)) == 1}

    @cached_property
    def _gates(self) -> tuple[tuple[re2._Regexp, int], ...]:
        """For rules without a keyword: patterns that see everything, the formats together and the others alone."""
        bare = [(number, rule) for number, rule in enumerate(self._rules) if not rule.keywords]
        formats = [(number, rule) for number, rule in bare if rule.check in _FORMATS]
        out = [
            (compiled(f"(?m){rule.pattern}", captures=False), 1 << number)
            for number, rule in bare
            if rule.check not in _FORMATS
        ]
        if formats:
            union = "(?m)" + "|".join(f"(?:{rule.pattern})" for _, rule in formats)
            out.append((compiled(union, captures=False), sum(1 << number for number, _ in formats)))
        return tuple(out)

    def _pattern(self, number: int) -> re2._Regexp:
        found = self._patterns.get(number)
        if found is None:
            found = self._patterns[number] = compiled(self._rules[number].pattern)
        return found

    def _numbers(self, mask: int) -> tuple[int, ...]:
        found = self._chosen.get(mask)
        if found is None:
            found = self._chosen[mask] = tuple(n for n in range(len(self._rules)) if mask >> n & 1)
        return found

    def find(self, block: ScanBlock) -> MatchResult:
        """The secrets that begin in the block."""
        spans: list[Span] = []
        key_end = 0
        for place in self._places(block, spans):
            for position in place.keys_at:
                if position < key_end:
                    continue
                key = pem.find(block.data, position, final=block.final)
                if key and not key.whole:
                    return MatchResult(spans, place.line_start)
                if key:
                    key_end = key.end
                    spans.append(Span(key.start, key.end, pem.RULE, "certain"))
            if not place.mask:
                continue
            window = _window(block, place, self._most_lines(place.mask))
            if window is None:
                return MatchResult(spans, place.line_start)
            mark = _mark(block, place, window)
            if mark in self._barren:
                continue  # a log says the same over and over
            matches = list(self._look(block, place, window))
            spans += matches
            if not matches:
                self._remember(mark)
        return MatchResult(spans, block.end)

    def _most_lines(self, mask: int) -> int:
        found = self._widest.get(mask)
        if found is None:
            found = self._widest[mask] = max(self._rules[number].lines for number in self._numbers(mask))
        return found

    def _look(self, block: ScanBlock, place: _Place, widest: tuple[int, int]) -> Iterator[Span]:
        for number in self._numbers(place.mask):
            window = _window(block, place, self._rules[number].lines)
            yield from self._matches(number, block.data, window or widest, place)

    def _matches(self, number: int, data: bytes, window: tuple[int, int], place: _Place) -> Iterator[Span]:
        rule = self._rules[number]
        text = data[window[0] : window[1]]
        pattern = self._pattern(number)
        position = refused = last = 0
        known: set[validators.Candidate] = set()  # refused already: checks are slower than patterns
        while position <= len(text) and (match := pattern.search(text, position)):
            begun, (start, end) = match.start(), match.span(1)
            if start == end:  # a user's pattern may find nothing at all
                position = max(match.end(), position + 1)
                continue
            while text[end - 1 : end] == b"\\" and end > start:
                end -= 1  # it belongs to what it escapes: hiding half an escape would break the text around
            position = max(end, position + 1)
            if place.is_tile and window[0] + start < place.start:
                continue
            if place.is_tile and window[0] + start >= place.end:
                return
            if rule.each:
                yield from self._values_in(rule, text[start:end], window[0] + start)
                continue
            before, after = text[max(0, begun - _NAME_BEFORE) : begun], text[end : end + _AFTER]
            found = validators.Candidate(before, text[begun:start], text[start:end], after)
            if found not in known and (grade := self._grade(rule, found)):
                yield Span(window[0] + start, window[0] + end, rule.id, grade)
                continue
            known.add(found)
            refused, last = refused + 1 if end == last else 0, end
            if end - start <= _WORD and refused < _TRIES:
                position = max(start, begun + 1)  # what was refused may be the name of what follows

    def _values_in(self, rule: SecretRule, block: bytes, offset: int) -> Iterator[Span]:
        for match in compiled(rule.each).finditer(block):
            start, end = match.span(1)
            if grade := self._grade(rule, validators.Candidate(b"", block[match.start() : start], block[start:end])):
                yield Span(offset + start, offset + end, rule.id, grade)

    def _grade(self, rule: SecretRule, found: validators.Candidate) -> Grade | None:
        """How sure it is that this is a secret; None: it is none."""
        if validators.CHECKS[rule.check](found, rule.entropy):
            return rule.grade
        return "likely" if self._fillers and rule.check == "value" and validators.is_filler(found.value) else None

    def _remember(self, mark: bytes) -> None:
        if len(self._barren) >= _REMEMBERED:
            self._barren.clear()
        self._barren.add(mark)

    def _places(self, block: ScanBlock, spans: list[Span]) -> Iterator[_Place]:
        """Where patterns must look, in order; values that are looked for as they are go to `spans` at once."""
        stop = block.end if block.data[block.end - 1 : block.end] == b"\n" else min(len(block.data), block.end + AHEAD)
        text = block.data[block.start : stop].lower()
        hits = [
            (block.start + begin, index)
            for index, begin, end in self._automaton.find_matches_as_indexes(text, overlapping=True)
            if index < len(self._masks) or self._is_exact(block, index, begin, end, spans)
        ]
        position = 0
        for start, end, is_long in _stretches(block):
            first = position
            while position < len(hits) and hits[position][0] < end:
                position += 1
            mine = hits[first:position]
            yield from (self._tiles if is_long else self._lines)(block, start, end, mine)

    def _is_exact(self, block: ScanBlock, index: int, begin: int, end: int, spans: list[Span]) -> bool:
        exact = self._exact[index - len(self._masks)]
        start = block.start + begin
        if start < block.end and block.data[start : block.start + end] == exact.value:
            spans.append(Span(start, block.start + end, exact.rule, exact.grade))
        return False

    def _lines(self, block: ScanBlock, start: int, end: int, hits: list[tuple[int, int]]) -> Iterator[_Place]:
        marks: dict[int, int] = {}
        keys_at: dict[int, list[int]] = {}
        data, masks = block.data, self._masks
        line_start, line_end = start, start
        for position, index in hits:
            if not line_start <= position < line_end:
                line_start = data.rfind(b"\n", start, position) + 1 or start
                line_end = data.find(b"\n", position, end)
                line_end = line_end if line_end >= 0 else end
            marks[line_start] = marks.get(line_start, 0) | masks[index]
            if index == 0:
                keys_at.setdefault(line_start, []).append(position)
        for line_start, mask in self._lines_with_runs(block, start, end):
            marks[line_start] = marks.get(line_start, 0) | mask
        text = data[start:end] if self._gates else b""
        for gate, mask in self._gates:
            for match in gate.finditer(text):
                line_start = data.rfind(b"\n", start, start + match.start()) + 1 or start
                # A match may begin with the end of the line before: each line it touches is looked at.
                while line_start < start + match.end():
                    marks[line_start] = marks.get(line_start, 0) | mask
                    line_start = data.find(b"\n", line_start, start + match.end()) + 1 or end
        for line_start in sorted(marks):
            line_end = data.find(b"\n", line_start, end)
            line_end = line_end if line_end >= 0 else end
            yield _Place(line_start, line_end, marks[line_start], line_start, tuple(keys_at.get(line_start, ())))

    def _lines_with_runs(self, block: ScanBlock, start: int, end: int) -> Iterator[tuple[int, int]]:
        low = block.data[start:end].lower() if self._runs else b""
        for word, mask in self._runs.items():
            position = low.find(word)
            while position >= 0:
                yield start + low.rfind(b"\n", 0, position) + 1, mask
                line_end = low.find(b"\n", position)
                position = low.find(word, line_end) if line_end >= 0 else -1

    def _tiles(self, block: ScanBlock, start: int, end: int, hits: list[tuple[int, int]]) -> Iterator[_Place]:
        """The pieces of one long line, counted from where it begins: they fall alike however it came."""
        line_start = start - (block.column if start == block.start else 0)
        position = 0
        tile = start - (start - line_start) % TILE
        while tile < end:
            mask, keys_at = 0, []
            while position < len(hits) and hits[position][0] < tile + TILE:
                mask |= self._masks[hits[position][1]]
                if hits[position][1] == 0:
                    keys_at.append(hits[position][0])
                position += 1
            # Not past the line: whether what follows has come already must not matter.
            line_end = block.data.find(b"\n", tile, tile + TILE + AHEAD)
            seen = (
                max(0, line_start, tile - BEHIND),
                line_end + 1 if line_end >= 0 else min(len(block.data), tile + TILE + AHEAD),
            )
            text = block.data[seen[0] : seen[1]]
            low = block.data[tile : seen[1]].lower() if self._runs else b""
            for word, bits in self._runs.items():
                mask |= bits if word in low[: TILE + len(word) - 1] else 0
            for gate, bits in self._gates:
                mask |= bits if gate.search(text) else 0
            yield _Place(tile, tile + TILE, mask, max(tile, start), tuple(keys_at), seen)
            tile += TILE


def _stretches(block: ScanBlock) -> Iterator[tuple[int, int, bool]]:
    """The block as runs of ordinary lines and single long ones."""
    data, end = block.data, block.end
    position = begun = block.start
    if block.column:
        line_end = data.find(b"\n", position, end) + 1 or end
        yield position, line_end, True
        position = begun = line_end
    while position < end:
        last = data.rfind(b"\n", position, min(end, position + TILE + 1)) + 1
        if last or (block.final and end - position <= TILE):
            position = last or end
            continue
        if begun < position:
            yield begun, position, False
        line_end = data.find(b"\n", position, end) + 1 or end
        yield position, line_end, True
        position = begun = line_end
    if begun < end:
        yield begun, end, False


def _window(block: ScanBlock, place: _Place, lines: int) -> tuple[int, int] | None:
    """What a pattern may see for a place; None when some of it has not come yet."""
    data = block.data
    if place.seen:
        return place.seen
    end = place.end
    more = lines - 1 or data[place.start : end].rstrip()[-1:] in _OPENER_SET
    for _ in range(int(more)):
        if end >= len(data):
            return (place.start, end) if block.final else None
        following = data.find(b"\n", end + 1, place.start + TILE)
        if following < 0:
            if place.start + TILE <= len(data):
                return place.start, place.start + TILE
            return (place.start, len(data)) if block.final else None
        end = following
    return place.start, end


def _mark(block: ScanBlock, place: _Place, window: tuple[int, int]) -> bytes:
    """What is looked at, and for what; a digest, for nothing of a text is kept."""
    where = b"%d %d " % (place.mask, place.start - window[0] if place.is_tile else place.end - place.start)
    return hashlib.blake2b(where + block.data[window[0] : window[1]], digest_size=16).digest()


_OPENER_SET = frozenset(bytes([letter]) for letter in _OPENERS)
