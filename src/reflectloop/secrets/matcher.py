"""Find the secrets in a block of lines: one pass for keywords, then patterns on the lines that contain a keyword."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import ahocorasick_rs

from reflectloop.secrets import pem, validators
from reflectloop.secrets.rule import Grade, SecretRule, compile_pattern
from reflectloop.secrets.spans import Span

if TYPE_CHECKING:
    import re2

TILE = 1 << 12  # a longer line is split into tiles of this size,
AHEAD = 1 << 12  # each matched with this much of the text after it,
BEHIND = 1 << 9  # and this much of the text before it
_NAME_BEFORE = 40  # bytes before a match, so that the check sees the whole name
_AFTER = 128  # bytes after a value, so that the check sees the host of an address
_WORD = 200  # anything longer is not a name
_TRIES = 4  # the number of later starts that are tried in the same text
_REMEMBERED = 1 << 12  # number of texts without a secret that are remembered
_OPENERS = b">:=({[,|\\"
_FORMATS = frozenset(("value", "near"))  # checks of rules whose patterns are short enough to be joined


class Exact(NamedTuple):
    """A literal value to search for."""

    value: bytes
    rule: str
    grade: Grade = "certain"


class ScanBlock(NamedTuple):
    """The bytes to scan: `data[start:end]`, where `start` is `column` bytes into its line."""

    data: bytes
    start: int
    end: int
    column: int = 0
    final: bool = True  # the stream ends here


class MatchResult(NamedTuple):
    spans: list[Span]
    judged_to: int  # from this offset on, more data is needed


class _Place(NamedTuple):
    """A line, or a tile of a long line, and the rules whose keywords occur in it."""

    start: int
    end: int
    mask: int
    line_start: int
    keys_at: tuple[int, ...] = ()
    view: tuple[int, int] | None = None  # of a tile: the part of its line that patterns match on

    @property
    def is_tile(self) -> bool:
        return self.view is not None


class Matcher:
    """The rules and values to search for. A pattern is compiled when its keyword first occurs."""

    def __init__(self, rules: Iterable[SecretRule], exact: Iterable[Exact] = (), *, fillers: bool = False) -> None:
        """Compile rules. A format filled with one repeated letter is ignored, or `likely` with `fillers`."""
        self._fillers = fillers
        self._rules = tuple(rules)
        self._exact = tuple(exact)
        self._patterns: dict[int, re2._Regexp] = {}
        self._numbers_by_mask: dict[int, tuple[int, ...]] = {}
        self._lines_by_mask: dict[int, int] = {}
        self._without_secrets: set[bytes] = set()

    @cached_property
    def _keywords(self) -> dict[bytes, int]:
        """Map each keyword to its rules, as the bits of a number."""
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
            *(exact.value.lower() for exact in self._exact),
        ]
        return ahocorasick_rs.BytesAhoCorasick(words, implementation=ahocorasick_rs.Implementation.DFA)

    @cached_property
    def _masks(self) -> list[int]:
        return [mask for word, mask in self._keywords.items() if word not in self._runs]

    @cached_property
    def _runs(self) -> dict[bytes, int]:
        """Return the keywords of one repeated letter: in a run of it the automaton would match at every byte."""
        return {word: mask for word, mask in self._keywords.items() if len(word) > 1 and len(set(word)) == 1}

    @cached_property
    def _gates(self) -> tuple[tuple[re2._Regexp, int], ...]:
        """Return the patterns of rules without keywords, which match on everything: formats joined, others separate."""
        bare = [(number, rule) for number, rule in enumerate(self._rules) if not rule.keywords]
        formats = [(number, rule) for number, rule in bare if rule.check in _FORMATS]
        out = [
            (compile_pattern(f"(?m){rule.pattern}", captures=False), 1 << number)
            for number, rule in bare
            if rule.check not in _FORMATS
        ]
        if formats:
            union = "(?m)" + "|".join(f"(?:{rule.pattern})" for _, rule in formats)
            out.append((compile_pattern(union, captures=False), sum(1 << number for number, _ in formats)))
        return tuple(out)

    def _pattern(self, number: int) -> re2._Regexp:
        pattern = self._patterns.get(number)
        if pattern is None:
            pattern = self._patterns[number] = compile_pattern(self._rules[number].pattern)
        return pattern

    def _numbers(self, mask: int) -> tuple[int, ...]:
        numbers = self._numbers_by_mask.get(mask)
        if numbers is None:
            numbers = self._numbers_by_mask[mask] = tuple(n for n in range(len(self._rules)) if mask >> n & 1)
        return numbers

    def find(self, block: ScanBlock) -> MatchResult:
        """Return the secrets that start in the block."""
        spans: list[Span] = []
        key_end = 0
        for place in self._places(block, spans):
            for position in place.keys_at:
                if position < key_end:
                    continue
                key = pem.find(block.data, position, final=block.final)
                if key and not key.complete:
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
            if mark in self._without_secrets:
                continue  # logs repeat themselves
            matches = list(self._look(block, place, window))
            spans += matches
            if not matches:
                self._remember(mark)
        return MatchResult(spans, block.end)

    def _most_lines(self, mask: int) -> int:
        lines = self._lines_by_mask.get(mask)
        if lines is None:
            lines = self._lines_by_mask[mask] = max(self._rules[number].lines for number in self._numbers(mask))
        return lines

    def _look(self, block: ScanBlock, place: _Place, widest: tuple[int, int]) -> Iterator[Span]:
        for number in self._numbers(place.mask):
            window = _window(block, place, self._rules[number].lines)
            yield from self._matches(number, block.data, window or widest, place)

    def _matches(self, number: int, data: bytes, window: tuple[int, int], place: _Place) -> Iterator[Span]:
        rule = self._rules[number]
        text = data[window[0] : window[1]]
        pattern = self._pattern(number)
        position = refused = last = 0
        known: set[validators.Candidate] = set()  # rejected before: checks are slower than patterns
        while position <= len(text) and (match := pattern.search(text, position)):
            match_start, (start, end) = match.start(), match.span(1)
            if start == end:  # a user's pattern may match an empty text
                position = max(match.end(), position + 1)
                continue
            while text[end - 1 : end] == b"\\" and end > start:
                end -= 1  # part of an escape sequence; redacting half of it would break the text
            position = max(end, position + 1)
            if place.is_tile and window[0] + start < place.start:
                continue
            if place.is_tile and window[0] + start >= place.end:
                return
            if rule.each:
                yield from self._values_in(rule, text[start:end], window[0] + start)
                continue
            before, after = text[max(0, match_start - _NAME_BEFORE) : match_start], text[end : end + _AFTER]
            candidate = validators.Candidate(before, text[match_start:start], text[start:end], after)
            if candidate not in known and (grade := self._grade(rule, candidate)):
                yield Span(window[0] + start, window[0] + end, rule.id, grade)
                continue
            known.add(candidate)
            refused, last = refused + 1 if end == last else 0, end
            if end - start <= _WORD and refused < _TRIES:
                position = max(start, match_start + 1)  # the rejected value may be the name of the next one

    def _values_in(self, rule: SecretRule, block: bytes, offset: int) -> Iterator[Span]:
        for match in compile_pattern(rule.each).finditer(block):
            start, end = match.span(1)
            if grade := self._grade(rule, validators.Candidate(b"", block[match.start() : start], block[start:end])):
                yield Span(offset + start, offset + end, rule.id, grade)

    def _grade(self, rule: SecretRule, candidate: validators.Candidate) -> Grade | None:
        """Return the grade of a match, or None if it is not a secret."""
        if validators.CHECKS[rule.check](candidate, rule.entropy):
            return rule.grade
        return "likely" if self._fillers and rule.check == "value" and validators.is_filler(candidate.value) else None

    def _remember(self, mark: bytes) -> None:
        if len(self._without_secrets) >= _REMEMBERED:
            self._without_secrets.clear()
        self._without_secrets.add(mark)

    def _places(self, block: ScanBlock, spans: list[Span]) -> Iterator[_Place]:
        """Yield the places to match patterns on, in order; add the literal values to `spans` at once."""
        stop = block.end if block.data[block.end - 1 : block.end] == b"\n" else min(len(block.data), block.end + AHEAD)
        text = block.data[block.start : stop].lower()
        hits = [
            (block.start + begin, index)
            for index, begin, end in self._automaton.find_matches_as_indexes(text, overlapping=True)
            if index < len(self._masks) or self._add_exact(block, index, begin, end, spans)
        ]
        position = 0
        for start, end, is_long in _split_long_lines(block):
            first = position
            while position < len(hits) and hits[position][0] < end:
                position += 1
            own_hits = hits[first:position]
            yield from (self._tiles if is_long else self._lines)(block, start, end, own_hits)

    def _add_exact(self, block: ScanBlock, index: int, begin: int, end: int, spans: list[Span]) -> bool:
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
                # A match may start with the line break before it: mark every line that it touches.
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
        """Yield the tiles of one long line, counted from its start, so that the chunks of the stream do not matter."""
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
            # Not past the end of the line: the result must not depend on how much of the stream has arrived.
            line_end = block.data.find(b"\n", tile, tile + TILE + AHEAD)
            view = (
                max(0, line_start, tile - BEHIND),
                line_end + 1 if line_end >= 0 else min(len(block.data), tile + TILE + AHEAD),
            )
            text = block.data[view[0] : view[1]]
            low = block.data[tile : view[1]].lower() if self._runs else b""
            for word, bits in self._runs.items():
                mask |= bits if word in low[: TILE + len(word) - 1] else 0
            for gate, bits in self._gates:
                mask |= bits if gate.search(text) else 0
            yield _Place(tile, tile + TILE, mask, max(tile, start), tuple(keys_at), view)
            tile += TILE


def _split_long_lines(block: ScanBlock) -> Iterator[tuple[int, int, bool]]:
    """Split the block into runs of ordinary lines and single long lines."""
    data, end = block.data, block.end
    position = run_start = block.start
    if block.column:
        line_end = data.find(b"\n", position, end) + 1 or end
        yield position, line_end, True
        position = run_start = line_end
    while position < end:
        last = data.rfind(b"\n", position, min(end, position + TILE + 1)) + 1
        if last or (block.final and end - position <= TILE):
            position = last or end
            continue
        if run_start < position:
            yield run_start, position, False
        line_end = data.find(b"\n", position, end) + 1 or end
        yield position, line_end, True
        position = run_start = line_end
    if run_start < end:
        yield run_start, end, False


def _window(block: ScanBlock, place: _Place, lines: int) -> tuple[int, int] | None:
    """Return the range that patterns match on for a place; None if part of it has not arrived yet."""
    data = block.data
    if place.view:
        return place.view
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
    """Return a digest of the text and the rules to match on it; the text itself is never stored."""
    where = b"%d %d " % (place.mask, place.start - window[0] if place.is_tile else place.end - place.start)
    return hashlib.blake2b(where + block.data[window[0] : window[1]], digest_size=16).digest()


_OPENER_SET = frozenset(bytes([letter]) for letter in _OPENERS)
