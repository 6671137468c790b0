"""Check what a patch did to tests in languages that are read as text."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from difflib import SequenceMatcher
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected import guard, is_test
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering.added import added, ending
from reflectloop.verification.tampering.python.verdict import listed
from reflectloop.verification.tampering.text import uncollected
from reflectloop.verification.tampering.text.reading import (
    TAUTOLOGY,
    TestBlock,
    TestFileReading,
    TextAssertion,
    became,
    brackets_match,
    known,
    language,
    read,
    without_message,
)

_NUMBER = r"(-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?)"
# Each with whether a smaller number is stricter: a distance is, a number of digits is not.
_TOLERANCES = (
    (lazy(rf"((?:_NEAR|InDelta)\(.*,){_NUMBER}(\)*)$"), True),
    (lazy(rf"(within\(){_NUMBER}(\).*)$"), True),
    (lazy(rf"(toBeCloseTo\(.*,){_NUMBER}(\)*)$"), False),
)


def look(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    relevant = [candidate for candidate in changes if known(candidate.path) and _concerns(candidate.path)]
    parsed = {
        candidate.path: (read(candidate.path, candidate.before), read(candidate.path, candidate.after))
        for candidate in relevant
    }
    same = {path: _same_names(old, new) for path, (old, new) in parsed.items()}
    taken = {_place(new) for pairs in same.values() for _, new in pairs}
    fresh = [block for _, new in parsed.values() for block in new.blocks.values() if _place(block) not in taken]
    made = _still_made(parsed.values())
    for change in relevant:
        if line := _broken(change):
            yield TamperFinding(
                "test-unreadable", change.path, line, "the test file cannot be read: its brackets do not match"
            )
        else:
            yield from _joined(_file(change, _Versions(*parsed[change.path], same[change.path]), fresh, made))
    yield from uncollected.look_at_calls(relevant, parsed)


def _broken(change: ChangedFile) -> int | None:
    """Return the first line that differs, if the brackets of base match, and those of the patch do not."""
    if change.before is None or change.after is None:
        return None
    if not brackets_match(change.path, change.before) or brackets_match(change.path, change.after):
        return None
    old, new = change.before.splitlines(), change.after.splitlines()
    lines = enumerate(zip(old, new, strict=False), 1)
    return next((number for number, (was, now) in lines if was != now), min(len(old), len(new)))


def _concerns(path: str) -> bool:
    """Return True for tests, for Rust sources, which contain their tests, and for C files among tests."""
    protection = guard(path)
    return (
        is_test(path)
        or path.endswith(".rs")
        or (protection is not None and protection.kind == "fixture" and _is_c(path))
    )


def _is_c(path: str) -> bool:
    return ending(path) in uncollected.C


class _Versions(NamedTuple):
    """A test file before and after, and the tests that both versions have by the same name."""

    old: TestFileReading
    new: TestFileReading
    same: Sequence[tuple[TestBlock, TestBlock]]


def _same_names(old: TestFileReading, new: TestFileReading) -> list[tuple[TestBlock, TestBlock]]:
    """Return the tests with the same name in both versions; of several, first those with the same body."""
    waiting: dict[str, list[TestBlock]] = defaultdict(list)
    for block in new.blocks.values():
        waiting[block.name].append(block)
    pairs, edited = [], []
    for block in old.blocks.values():
        same = next((other for other in waiting[block.name] if other.body == block.body), None)
        if same is None:
            edited.append(block)
        else:
            waiting[block.name].remove(same)
            pairs.append((block, same))
    pairs += [(block, waiting[block.name].pop(0)) for block in edited if waiting[block.name]]
    return sorted(pairs, key=lambda pair: pair[0].line)


def _place(block: TestBlock) -> tuple[str, str, int]:
    return block.path, block.name, block.line


_ASKS_BY_ITSELF = lazy(r"^[^(]*\([^()]*\w\(.*['\d]")  # it calls something, with or for a value that is written down


def _still_made(files: Iterable[tuple[TestFileReading, TestFileReading]]) -> frozenset[str]:
    """Return the assertions that tests make as often as before, wherever, if they need no other line to ask that."""
    made: Counter[str] = Counter()
    for old, new in files:
        for block in new.blocks.values():
            made.update(check.text for check in block.checks if _surely_asks(block, new))
        for block in old.blocks.values():
            made.subtract(check.text for check in block.checks)
    return frozenset(text for text, count in made.items() if count >= 0 and _ASKS_BY_ITSELF.search(text))


def _surely_asks(block: TestBlock, file: TestFileReading) -> bool:
    """Return True for a test that reaches its assertions; in C, where every function is read, another names it."""
    if not block.is_test or block.skips or block.returns or block.branches or block.catches:
        return False
    named = re.compile(rf"\b{re.escape(block.name)}\b")
    return not _is_c(block.path) or any(
        named.search(other.body) for other in file.blocks.values() if other.name != block.name
    )


_MOST_TOLD = 3


def _joined(findings: Iterable[TamperFinding]) -> Iterator[TamperFinding]:
    """Yield the findings of a file, those of one test that break the same rule as one."""
    groups: dict[tuple[str, ...], list[TamperFinding]] = defaultdict(list)
    for finding in findings:
        alone = finding.grade == "note" or finding.line is None or not finding.details
        groups[finding.rule, finding.grade, str(len(groups)) if alone else finding.details[0]].append(finding)
    for group in groups.values():
        texts = list(dict.fromkeys(finding.what for finding in group))
        more = [f"and {len(texts) - _MOST_TOLD} more"] if len(texts) > _MOST_TOLD else []
        yield group[0]._replace(what="; ".join([*texts[:_MOST_TOLD], *more]), details=())


def _file(
    change: ChangedFile, versions: _Versions, fresh: Sequence[TestBlock], made: AbstractSet[str]
) -> Iterator[TamperFinding]:
    old, new, same_names = versions
    partners = {_place(block): other for block, other in same_names}
    removed = []
    for old_block in old.blocks.values():
        if (new_block := partners.get(_place(old_block))) is not None:
            yield from _of_test(new_block, _pair(old_block, new_block, made))
        elif same := next((block for block in fresh if _same_test(old_block, block)), None):
            renamed = f"moved from {old_block.path}" if old_block.name == same.name else f"is now {same.name}"
            yield TamperFinding("test-renamed", same.path, same.line, f"{old_block.name} {renamed}", "note")
            yield from _skips(old_block, same)
        elif near := next((block for block in fresh if _is_like(old_block, block)), None):
            message = f"{old_block.name} is now {near.name}"
            yield TamperFinding("test-renamed", near.path, near.line, message, "note")
            yield from _of_test(near, _pair(old_block, near, made))
        elif old_block.checks and all(check.text in made for check in old_block.checks):
            message = f"{old_block.name} was removed; other tests check the same"
            yield TamperFinding("test-merged", change.path, old_block.line, message, "note")
        elif _judges(old_block):
            removed.append(old_block)
    if removed and change.after is None:
        yield TamperFinding(
            "file-deleted",
            change.path,
            None,
            f"the file was removed, with {len(removed)} test(s) that exist nowhere else",
        )
    elif removed:
        message = f"{len(removed)} test(s) removed: {listed([block.name for block in removed])}"
        yield TamperFinding("test-deleted", change.path, removed[0].line, message)
    if change.before is not None:
        yield from _lines(change)
        yield from _new_skips(old.skips, new.skips, change.path, "the file")


_MOCKED = lazy(r"\b(?:jest|vi)\.(?:mock|doMock|unstable_mockModule)\(|\bproxyquire\b|\bmock\.module\(")
_DEFINED = lazy(
    r"^#\s*define\s+(NDEBUG|(?:TEST_)?(?:ASSERT|EXPECT|REQUIRE|CHECK)\w*|assert\w*|RUN_TEST\w*|TEST(?:_F|_CASE)?)\b"
)
_NOTHING = lazy(r"[^{}]*\{(?:return(?:0|null|nil)?;?|;|\(void\)0;|pass)*\}\)?;?")
_TAGGED = lazy(r"^//\s*(?:go:build|\+build)\b")


def _lines(change: ChangedFile) -> Iterator[TamperFinding]:
    """Report lines that affect the whole file: a replaced module, a build tag that excludes the file."""
    for line in added(change, comments=True):
        if _TAGGED.match(line.text):
            yield TamperFinding("skip-added", change.path, line.number, f"the file: `{line.text[:60]}`")
        elif _is_c(change.path) and (macro := _DEFINED.match(line.text)) and _used(change.before, macro[1]):
            message = f"an assertion is redefined: `{line.text[:60]}`"
            yield TamperFinding("patches-the-runner", change.path, line.number, message)
        elif _MOCKED.search(line.text) and is_test(change.path):
            message = f"a mock may replace the code under test: `{line.text[:60]}`"
            yield TamperFinding("code-mocked", change.path, line.number, message, "suspect")


def _used(data: bytes | None, macro: str) -> bool:
    text = (data or b"").decode(errors="replace")
    return "assert(" in text if macro == "NDEBUG" else f"{macro}(" in text.replace(" (", "(")


def _judges(block: TestBlock) -> bool:
    """Return True if the block is a test; in C, where every function is read, it must assert or be named like one."""
    if not block.is_test:
        return False
    return not (_is_c(block.path) and block.name.isidentifier()) or bool(block.checks) or "test" in block.name.lower()


def _of_test(block: TestBlock, findings: Iterable[TamperFinding]) -> Iterator[TamperFinding]:
    """Yield findings with the test they are about, for `_joined`."""
    for finding in findings:
        yield finding._replace(details=(f"{block.line}",))


def _is_like(was: TestBlock, other: TestBlock) -> bool:
    """Return True if a new test of the same file makes at least half of the assertions of an old one."""
    asked = {check.text for check in was.checks}
    shared = asked & {check.text for check in other.checks}
    return was.path == other.path and len(shared) > 1 and 2 * len(shared) >= len(asked)


def _same_test(was: TestBlock, other: TestBlock) -> bool:
    wanted = {check.text for check in was.checks}
    return was.body == other.body or bool(wanted and wanted <= {check.text for check in other.checks})


def _skips(was: TestBlock, now: TestBlock) -> Iterator[TamperFinding]:
    yield from _new_skips(was.skips, now.skips, now.path, now.name)


def _new_skips(
    old: Sequence[TextAssertion], new: Sequence[TextAssertion], path: str, name: str
) -> Iterator[TamperFinding]:
    left = Counter(known_skip.text for known_skip in old)
    for skip in new:
        if left[skip.text] > 0:
            left[skip.text] -= 1
        else:
            rule = "focus-added" if re.search(r"only|^f(?:it|describe)|focus", skip.text) else "skip-added"
            yield TamperFinding(rule, path, skip.line, f"{name}: `{skip.shown}`")


def _pair(was: TestBlock, now: TestBlock, made: AbstractSet[str]) -> Iterator[TamperFinding]:
    yield from _skips(was, now)
    if was.body == now.body:
        return
    if (_judges(was) or was.checks) and _NOTHING.fullmatch(now.body) and not _NOTHING.fullmatch(was.body):
        yield TamperFinding("test-emptied", now.path, now.line, f"{now.name} no longer does anything")
        return
    if now.returns and not was.returns:
        yield TamperFinding("early-return", now.path, now.line, f"{now.name} returns before its first assertion")
    if now.rows < was.rows:
        message = f"{now.name} has {was.rows - now.rows} fewer row(s) of cases"
        yield TamperFinding("cases-removed", now.path, now.line, message, "suspect")
    if now.catches > was.catches and now.checks:
        yield TamperFinding(
            "failure-swallowed", now.path, now.line, f"{now.name} now catches what its code throws", "suspect"
        )
    left = Counter(check.text for check in now.checks)
    removed = _not_asked(was, left, made)
    new_checks = [check for check in now.checks if left[check.text] > 0]
    if now.branches > was.branches and not new_checks and not removed:
        yield TamperFinding(
            "assert-conditional", now.path, now.line, f"{now.name} has a new condition around it", "suspect"
        )
    yield from _rewritten(now, removed, new_checks)


def _not_asked(was: TestBlock, left: Counter[str], made: AbstractSet[str]) -> list[TextAssertion]:
    """Return the assertions that neither the new version of the test nor another test makes; `left` is counted down."""
    removed = []
    for check, earlier in zip(was.checks, (None, *was.checks), strict=False):
        if earlier is not None and check.text == earlier.text and left[check.text] == 0:
            continue  # it was there twice in a row
        if left[check.text] > 0:
            left[check.text] -= 1
        elif check.text not in made:
            removed.append(check)
    return removed


def _rewritten(
    now: TestBlock, removed: Sequence[TextAssertion], new_checks: Sequence[TextAssertion]
) -> Iterator[TamperFinding]:
    waiting = list(new_checks)
    for check in removed:
        plain = without_message(check, ending(now.path))
        reworded = next((other for other in waiting if without_message(other, ending(now.path)) == plain), None)
        if reworded is not None:
            waiting.remove(reworded)  # it checks the same, and only fails with other words
            continue
        partner = max(
            waiting, key=lambda candidate: SequenceMatcher(None, check.text, candidate.text).ratio(), default=None
        )
        if partner is None:
            yield _removed(now, check)
            continue
        waiting.remove(partner)
        yield _compared(now, check, partner)


def _removed(now: TestBlock, check: TextAssertion) -> TamperFinding:
    """Report a removed assertion; a line of a longer call or table may be a case, or only a part of its code."""
    if check.is_row:
        message = f"{now.name} no longer has `{check.shown[:80]}`"
        return TamperFinding("cases-removed", now.path, now.line, message, "suspect")
    message = f"{now.name} no longer checks `{check.shown[:80]}`"
    return TamperFinding("assert-removed", now.path, now.line, message)


def _compared(now: TestBlock, old: TextAssertion, new: TextAssertion) -> TamperFinding:
    syntax = language(ending(now.path))
    message = became(old.shown, new.shown)
    if TAUTOLOGY.search(new.text) and not TAUTOLOGY.search(old.text):
        return TamperFinding("assert-always-true", now.path, new.line, f"{message}: it always passes")
    if syntax.weak.search(new.text) and syntax.strong.search(old.text) and not syntax.strong.search(new.text):
        return TamperFinding("assert-weaker", now.path, new.line, f"{message}: it checks less")
    stricter_name = old.text == _without_strict(new.text) != new.text
    if stricter_name or (syntax.strong.search(new.text) and not syntax.strong.search(old.text)):
        return TamperFinding("assert-stricter", now.path, new.line, message, "note")
    stricter = _stricter_tolerance(old.text, new.text)
    if stricter:
        return TamperFinding("assert-stricter", now.path, new.line, message, "note")
    if stricter is False:
        return TamperFinding("tolerance-widened", now.path, new.line, f"{message}: the tolerance is wider")
    return TamperFinding("expected-changed", now.path, new.line, message, "suspect")


_STRICT = lazy(r"(?:\.strict|(?<=[a-z])Strict)([A-Z])")


def _without_strict(text: str) -> str:
    """Return an assertion with its less strict name: `equal` for `strictEqual`, `deepEqual` for `deepStrictEqual`."""
    return _STRICT.sub(lambda word: f".{word[1].lower()}" if word[0].startswith(".") else word[1], text, count=1)


def _stricter_tolerance(old: str, new: str) -> bool | None:
    """Return True if only the tolerance changed and is stricter, False if it is wider, None otherwise."""
    for pattern, smaller_is_stricter in _TOLERANCES:
        was, now = pattern.search(old), pattern.search(new)
        if was and now and (was[1], was[3]) == (now[1], now[3]) and float(was[2]) != float(now[2]):
            return (float(now[2]) < float(was[2])) is smaller_is_stricter
    return None
