"""A check that cannot start on the change is judged by a run with the change's own tests or settings."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reflectloop.verification import compare
from reflectloop.verification.explain import OWN_SETTINGS, ExplainedCheck, FailureExplainer
from reflectloop.verification.intended import RULE
from reflectloop.verification.result import ChangedFile, DetectedCheck, Kind, VerificationResult
from reflectloop.verification.verdict import CheckComparison

GREEN = VerificationResult(ok=True, type="passed", summary="1 passed", tests={"test_a": "passed"})
BROKEN = VerificationResult(ok=False, type="crashed", summary="conftest cannot be imported")
HOOK = ChangedFile(
    "tests/conftest.py", b"import sys\nsys.path.insert(0, 'a')\n", b"import sys\nsys.path.insert(0, 'b')\n"
)
MADE = VerificationResult(ok=True, type="passed", summary="make: passed")
UNMADE = VerificationResult(ok=False, type="build_failure", summary="make: No rule to make target 'a.o'")
RECIPE = ChangedFile("Makefile", b"all: a.o\n", b"all: b.o\n")
SOURCE = ChangedFile("test/tests.c", b'#include "../a.c"\n', b'#include "../b.c"\n')


def explained(
    kind: Kind,
    outcomes: dict[str, VerificationResult],
    served: Sequence[ChangedFile] = (),
    settings: Sequence[ChangedFile] = (),
) -> ExplainedCheck:
    base, now = outcomes["base"], outcomes["sealed"]
    explainer = FailureExplainer(
        lambda tree, _check, _text: outcomes[tree],
        lambda tree, _check, _text, _names: outcomes[tree],
        "sealed",
        "with-tests",
        "base-with-tests",
        "head",
        served,
        settings,
        [*served, *settings],
    )
    check = DetectedCheck("a check", kind, "make", ("make",))
    return explainer.explain(CheckComparison(check, base, now, compare.compare(base, now)), None)


def test_hooks_that_must_move_with_the_sources_are_asked_about_if_the_tests_pass_with_them() -> None:
    def explain(on_head: VerificationResult, settings: list[ChangedFile]) -> list[str]:
        outcomes = {"base": GREEN, "sealed": BROKEN, "with-tests": BROKEN, "head": on_head}
        return [finding.rule for finding in explained("test", outcomes, settings=settings).findings]

    assert explain(GREEN, [HOOK]) == [OWN_SETTINGS]
    assert explain(BROKEN, [HOOK]) == []
    assert explain(GREEN, []) == []


@pytest.mark.parametrize("kind", ["build", "test"])
def test_a_build_that_passes_only_with_the_recipe_of_the_change_is_asked_about(kind: Kind) -> None:
    added = ChangedFile(".clang-format", None, b"Language: Cpp\n")
    outcomes = {"base": MADE, "sealed": UNMADE, "with-tests": UNMADE, "head": MADE}
    answer = explained(kind, outcomes, settings=[added, RECIPE])
    assert [(finding.rule, finding.path) for finding in answer.findings] == [(OWN_SETTINGS, "Makefile")]
    assert not answer.judged.comparison.worse
    broken = explained(kind, {**outcomes, "head": UNMADE}, settings=[RECIPE])
    assert broken.findings == ()
    assert broken.judged.comparison.worse
    assert explained(kind, outcomes).findings == ()


def test_tests_without_names_that_pass_only_in_their_new_version_are_asked_about() -> None:
    outcomes = {"base": MADE, "sealed": UNMADE, "with-tests": MADE, "head": MADE}
    answer = explained("test", outcomes, served=[SOURCE], settings=[RECIPE])
    assert [(finding.rule, finding.path) for finding in answer.findings] == [(RULE, "test/tests.c")]
