"""Looks at what a patch did to tests in languages read by their text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from reflectloop.verify.protected import guard, is_test
from reflectloop.verify.result import Change, Finding
from reflectloop.verify.weakening.added import added, ending
from reflectloop.verify.weakening.text import registered
from reflectloop.verify.weakening.text.languages import BY_ENDING, TAUTOLOGY
from reflectloop.verify.weakening.text.reading import Block, Check, Read, known, read

_NUMBER = re.compile(r"(toBeCloseTo|_NEAR|InDelta|be_within|within)\((.*?)(-?[\d.]+(?:e-?\d+)?)\)*$")


def look(changes: Sequence[Change]) -> Iterator[Finding]:
    ours = [each for each in changes if known(each.path) and _concerns(each.path)]
    read_ = {each.path: (read(each.path, each.before), read(each.path, each.after)) for each in ours}
    fresh = [block for old, new in read_.values() for name, block in new.blocks.items() if name not in old.blocks]
    for change in ours:
        yield from _file(change, *read_[change.path], fresh)
    yield from registered.look(ours, read_)


def _concerns(path: str) -> bool:
    """Tests, sources of Rust, which hold their tests, and in C whatever lies among tests."""
    found = guard(path)
    return is_test(path) or path.endswith(".rs") or (found is not None and found.kind == "fixture" and _is_c(path))


def _is_c(path: str) -> bool:
    return ending(path) in registered.C


def _file(change: Change, old: Read, new: Read, fresh: Sequence[Block]) -> Iterator[Finding]:
    gone = []
    for name, was in old.blocks.items():
        now = new.blocks.get(name)
        if now is not None:
            yield from _pair(was, now)
        elif same := next((each for each in fresh if _kept(was, each)), None):
            yield Finding("test-renamed", same.path, same.line, f"{was.name} is now {same.name}", "note")
            yield from _skips(was, same)
        elif _judges(was):
            gone.append(was)
    if gone and change.after is None:
        yield Finding(
            "file-deleted",
            change.path,
            None,
            f"the file is gone, and with it {len(gone)} test(s) that are nowhere else",
        )
    else:
        yield from (Finding("test-deleted", was.path, was.line, f"{was.name} is gone") for was in gone)
    if change.before is not None:
        yield from _lines(change)
        yield from _new_skips(old.skips, new.skips, change.path, "the file")


_MOCKED = re.compile(r"\b(?:jest|vi)\.(?:mock|doMock|unstable_mockModule)\(|\bproxyquire\b|\bmock\.module\(")
_DEFINED = re.compile(
    r"^#\s*define\s+(NDEBUG|(?:TEST_)?(?:ASSERT|EXPECT|REQUIRE|CHECK)\w*|assert\w*|RUN_TEST\w*|TEST(?:_F|_CASE)?)\b"
)
_NOTHING = re.compile(r"[^{}]*\{(?:return(?:0|null|nil)?;?|;|\(void\)0;|pass)*\}\)?;?")
_TAGGED = re.compile(r"^//\s*(?:go:build|\+build)\b")


def _lines(change: Change) -> Iterator[Finding]:
    """What acts on a whole file: a module replaced, a build tag that leaves the file out."""
    for line in added(change, comments=True):
        if _TAGGED.match(line.text):
            yield Finding("skip-added", change.path, line.number, f"the file: `{line.text[:60]}`")
        elif _is_c(change.path) and (macro := _DEFINED.match(line.text)) and _used(change.before, macro[1]):
            words = f"an assertion is defined anew: `{line.text[:60]}`"
            yield Finding("patches-the-runner", change.path, line.number, words)
        elif _MOCKED.search(line.text) and is_test(change.path):
            words = f"a stand-in may replace the code under test: `{line.text[:60]}`"
            yield Finding("code-mocked", change.path, line.number, words, "suspect")


def _used(data: bytes | None, macro: str) -> bool:
    text = (data or b"").decode(errors="replace")
    return "assert(" in text if macro == "NDEBUG" else f"{macro}(" in text.replace(" (", "(")


def _judges(block: Block) -> bool:
    """In C every function is read; one that neither asserts nor is named like a test only helps."""
    return not (_is_c(block.path) and block.name.isidentifier()) or bool(block.checks) or "test" in block.name.lower()


def _kept(was: Block, other: Block) -> bool:
    wanted = {each.text for each in was.checks}
    return was.body == other.body or bool(wanted and wanted <= {each.text for each in other.checks})


def _skips(was: Block, now: Block) -> Iterator[Finding]:
    yield from _new_skips(was.skips, now.skips, now.path, now.name)


def _new_skips(old: Sequence[Check], new: Sequence[Check], path: str, name: str) -> Iterator[Finding]:
    left = Counter(each.text for each in old)
    for skip in new:
        if left[skip.text] > 0:
            left[skip.text] -= 1
        else:
            rule = "focus-added" if re.search(r"only|^f(?:it|describe)|focus", skip.text) else "skip-added"
            yield Finding(rule, path, skip.line, f"{name}: `{skip.text}`")


def _pair(was: Block, now: Block) -> Iterator[Finding]:
    yield from _skips(was, now)
    if was.body == now.body:
        return
    if _judges(was) and _NOTHING.fullmatch(now.body) and not _NOTHING.fullmatch(was.body):
        yield Finding("test-emptied", now.path, now.line, f"{now.name} no longer does anything")
        return
    if now.returns and not was.returns:
        yield Finding("early-return", now.path, now.line, f"{now.name} returns before its first assertion")
    if now.rows < was.rows:
        words = f"{now.name} has {was.rows - now.rows} row(s) of cases fewer"
        yield Finding("cases-removed", now.path, now.line, words, "suspect")
    if now.catches > was.catches and now.checks:
        yield Finding(
            "failure-swallowed", now.path, now.line, f"{now.name} now catches what its code throws", "suspect"
        )
    left = Counter(each.text for each in now.checks)
    gone = []
    for check in was.checks:
        if left[check.text] > 0:
            left[check.text] -= 1
        else:
            gone.append(check)
    come = [each for each in now.checks if left[each.text] > 0]
    if now.branches > was.branches and not come and not gone:
        yield Finding("assert-conditional", now.path, now.line, f"{now.name} has a new condition around it", "suspect")
    yield from _rewritten(now, gone, come)


def _rewritten(now: Block, gone: Sequence[Check], come: Sequence[Check]) -> Iterator[Finding]:
    waiting = list(come)
    for check in gone:
        partner = max(waiting, key=lambda each: SequenceMatcher(None, check.text, each.text).ratio(), default=None)
        if partner is None:
            words = f"{now.name} no longer demands `{check.text[:80]}`"
            yield Finding("assert-removed", now.path, now.line, words)
            continue
        waiting.remove(partner)
        yield _compared(now, check, partner)


def _compared(now: Block, old: Check, new: Check) -> Finding:
    language = BY_ENDING[ending(now.path)]
    words = f"`{old.text[:80]}` became `{new.text[:80]}`"
    if TAUTOLOGY.search(new.text) and not TAUTOLOGY.search(old.text):
        return Finding("assert-always-true", now.path, new.line, f"{words}: it always holds")
    if language.weak.search(new.text) and language.strong.search(old.text) and not language.strong.search(new.text):
        return Finding("assert-weaker", now.path, new.line, f"{words}: it asks less")
    if language.strong.search(new.text) and not language.strong.search(old.text):
        return Finding("assert-stricter", now.path, new.line, words, "note")
    was, is_ = _NUMBER.search(old.text), _NUMBER.search(new.text)
    if was and is_ and was[2] == is_[2] and was[3] != is_[3]:
        return Finding("tolerance-widened", now.path, new.line, f"{words}: the tolerance changed")
    return Finding("expected-changed", now.path, new.line, words, "suspect")
