"""Reads the line in which a runner sums up, in whatever order it puts its words and numbers."""

from __future__ import annotations

import re

from reflectloop.verify.result import Counts

_WORDS = {
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
_NAMES = "|".join(sorted((word.replace(" ", r"\s") for word in _WORDS), key=len, reverse=True))
_PAIRS = re.compile(
    rf"\b(?P<before>\d{{1,9}})\s+(?:tests?\s+)?(?P<word>{_NAMES})\b|"
    rf"\b(?P<name>{_NAMES})\s*[:=\]]?\s+?(?P<after>\d{{1,9}})\b(?![ \t]+(?:{_NAMES})\b)|"
    rf"\b(?P<named>{_NAMES})[:=](?P<number>\d{{1,9}})\b",
    re.IGNORECASE,
)
_OUT_OF = re.compile(r"\bout of (\d{1,9})\b")


def words(text: str) -> dict[str, int]:
    """`3 failed, 12 passed`, `Failures: 3`, `failures=3`: what each word counts."""
    found: dict[str, int] = {}
    for one in _PAIRS.finditer(text):
        word = " ".join((one["word"] or one["name"] or one["named"]).lower().split())
        found[_WORDS[word]] = found.get(_WORDS[word], 0) + int(one["before"] or one["after"] or one["number"])
    if "total" not in found and (whole := _OUT_OF.search(text)):
        found["total"] = int(whole[1])
    return found


def counts(said: dict[str, int]) -> Counts:
    """What did not fail and was not left out has passed, where only the whole is told."""
    passed = said.get("passed", 0)
    if "passed" not in said and "total" in said:
        others = sum(said.get(word, 0) for word in ("failed", "errors", "skipped", "xfailed", "xpassed"))
        passed = said["total"] - others
        if passed < 0:  # parts of tests are counted among the skipped, and the tests they are parts of among the whole
            passed = max(0, passed + said.get("skipped", 0))
    return Counts(
        passed=passed + said.get("xpassed", 0),
        failed=said.get("failed", 0),
        errors=said.get("errors", 0),
        skipped=said.get("skipped", 0),
        xfailed=said.get("xfailed", 0),
    )


def added(one: Counts, other: Counts) -> Counts:
    return Counts(**{name: getattr(one, name) + getattr(other, name) for name in Counts.model_fields})
