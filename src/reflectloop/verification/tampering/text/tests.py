"""Check what a patch did to tests in languages that are read as text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected import guard, is_test
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering.added import added, ending
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
    fresh = [block for old, new in parsed.values() for name, block in new.blocks.items() if name not in old.blocks]
    for change in relevant:
        if line := _broken(change):
            yield TamperFinding(
                "test-unreadable", change.path, line, "the test file cannot be read: its brackets do not match"
            )
        else:
            yield from _file(change, *parsed[change.path], fresh)
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


def _file(
    change: ChangedFile, old: TestFileReading, new: TestFileReading, fresh: Sequence[TestBlock]
) -> Iterator[TamperFinding]:
    removed = []
    for name, old_block in old.blocks.items():
        new_block = new.blocks.get(name)
        if new_block is not None:
            yield from _pair(old_block, new_block)
        elif same := next((block for block in fresh if _same_test(old_block, block)), None):
            moved = f"moved from {old_block.path}" if old_block.name == same.name else f"is now {same.name}"
            yield TamperFinding("test-renamed", same.path, same.line, f"{old_block.name} {moved}", "note")
            yield from _skips(old_block, same)
        elif _judges(old_block):
            removed.append(old_block)
    if removed and change.after is None:
        yield TamperFinding(
            "file-deleted",
            change.path,
            None,
            f"the file was removed, with {len(removed)} test(s) that exist nowhere else",
        )
    else:
        yield from (
            TamperFinding("test-deleted", old_block.path, old_block.line, f"{old_block.name} was removed")
            for old_block in removed
        )
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


def _pair(was: TestBlock, now: TestBlock) -> Iterator[TamperFinding]:
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
    removed = []
    for check, earlier in zip(was.checks, (None, *was.checks), strict=False):
        if earlier is not None and check.text == earlier.text and left[check.text] == 0:
            continue  # it was there twice in a row
        if left[check.text] > 0:
            left[check.text] -= 1
        else:
            removed.append(check)
    new_checks = [check for check in now.checks if left[check.text] > 0]
    if now.branches > was.branches and not new_checks and not removed:
        yield TamperFinding(
            "assert-conditional", now.path, now.line, f"{now.name} has a new condition around it", "suspect"
        )
    yield from _rewritten(now, removed, new_checks)


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
    if syntax.strong.search(new.text) and not syntax.strong.search(old.text):
        return TamperFinding("assert-stricter", now.path, new.line, message, "note")
    stricter = _stricter_tolerance(old.text, new.text)
    if stricter:
        return TamperFinding("assert-stricter", now.path, new.line, message, "note")
    if stricter is False:
        return TamperFinding("tolerance-widened", now.path, new.line, f"{message}: the tolerance is wider")
    return TamperFinding("expected-changed", now.path, new.line, message, "suspect")


def _stricter_tolerance(old: str, new: str) -> bool | None:
    """Return True if only the tolerance changed and is stricter, False if it is wider, None otherwise."""
    for pattern, smaller_is_stricter in _TOLERANCES:
        was, now = pattern.search(old), pattern.search(new)
        if was and now and (was[1], was[3]) == (now[1], now[3]) and float(was[2]) != float(now[2]):
            return (float(now[2]) < float(was[2])) is smaller_is_stricter
    return None
