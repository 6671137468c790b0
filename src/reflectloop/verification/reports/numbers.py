"""Read the totals line of a test runner, in whatever order it puts words and numbers."""

from __future__ import annotations

import re

from reflectloop.verification.result import Counts

_OUTCOME_WORDS = {
    **dict.fromkeys(("passed", "passing", "pass", "passes", "ok", "succeeded", "successes", "success"), "passed"),
    **dict.fromkeys(("xpassed", "unexpected successes"), "xpassed"),
    **dict.fromkeys(("failed", "failing", "failures", "failure", "fail", "fails", "broken"), "failed"),
    **dict.fromkeys(("errors", "error", "errored"), "errors"),
    **dict.fromkeys(("skipped", "skip", "skips", "pending", "ignored", "todo", "disabled", "incomplete"), "skipped"),
    **dict.fromkeys(("risky", "notrunnable", "not run", "omissions", "pendings", "cancelled"), "skipped"),
    **dict.fromkeys(("xfailed", "expected failures", "known failures"), "xfailed"),
    **dict.fromkeys(("tests", "test", "total", "runs", "run", "examples", "example", "specs", "spec"), "total"),
    **dict.fromkeys(
        ("tests run", "total tests", "scenarios", "scenario", "tests completed", "test completed"), "total"
    ),
}
_NAMES = "|".join(sorted((word.replace(" ", r"\s") for word in _OUTCOME_WORDS), key=len, reverse=True))
_PAIRS = re.compile(
    rf"\b(?P<before>\d{{1,9}})\s+(?:tests?\s+)?(?P<word>{_NAMES})\b|"
    rf"\b(?P<name>{_NAMES})\s*[:=\]]?\s+?(?P<after>\d{{1,9}})\b(?![ \t]+(?:{_NAMES})\b)|"
    rf"\b(?P<named>{_NAMES})[:=](?P<number>\d{{1,9}})\b",
    re.IGNORECASE,
)
_OUT_OF = re.compile(r"\bout of (\d{1,9})\b")


def words(text: str) -> dict[str, int]:
    """Return the number for each kind of outcome, from `3 failed, 12 passed`, `Failures: 3` or `failures=3`."""
    numbers: dict[str, int] = {}
    for match in _PAIRS.finditer(text):
        word = " ".join((match["word"] or match["name"] or match["named"]).lower().split())
        numbers[_OUTCOME_WORDS[word]] = numbers.get(_OUTCOME_WORDS[word], 0) + int(
            match["before"] or match["after"] or match["number"]
        )
    if "total" not in numbers and (total := _OUT_OF.search(text)):
        numbers["total"] = int(total[1])
    return numbers


def counts(totals: dict[str, int]) -> Counts:
    """Convert totals to Counts; if only the total is reported, tests with no other outcome count as passed."""
    passed = totals.get("passed", 0)
    if "passed" not in totals and "total" in totals:
        others = sum(totals.get(word, 0) for word in ("failed", "errors", "skipped", "xfailed", "xpassed"))
        passed = totals["total"] - others
        if passed < 0:  # the runner counts subtests as skipped, but not in the total
            passed = max(0, passed + totals.get("skipped", 0))
    return Counts(
        passed=passed + totals.get("xpassed", 0),
        failed=totals.get("failed", 0),
        errors=totals.get("errors", 0),
        skipped=totals.get("skipped", 0),
        xfailed=totals.get("xfailed", 0),
    )


def added(first: Counts, second: Counts) -> Counts:
    """Return the sum of two Counts."""
    return Counts(**{name: getattr(first, name) + getattr(second, name) for name in Counts.model_fields})
