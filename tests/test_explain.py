"""A check that cannot start on the change is judged by a run with the change's own tests or settings."""

from __future__ import annotations

from reflectloop.verification import compare
from reflectloop.verification.explain import OWN_SETTINGS, FailureExplainer
from reflectloop.verification.result import ChangedFile, DetectedCheck, VerificationResult
from reflectloop.verification.verdict import CheckComparison

GREEN = VerificationResult(ok=True, type="passed", summary="1 passed", tests={"test_a": "passed"})
BROKEN = VerificationResult(ok=False, type="crashed", summary="conftest cannot be imported")


def test_hooks_that_must_move_with_the_sources_are_asked_about_if_the_tests_pass_with_them() -> None:
    check = DetectedCheck("pytest", "test", "pytest", ("pytest",))
    hook = ChangedFile(
        "tests/conftest.py", b"import sys\nsys.path.insert(0, 'a')\n", b"import sys\nsys.path.insert(0, 'b')\n"
    )

    def explain(on_head: VerificationResult, settings: list[ChangedFile]) -> list[str]:
        outcomes = {"sealed": BROKEN, "with-tests": BROKEN, "head": on_head}
        explainer = FailureExplainer(
            lambda tree, _check, _text: outcomes[tree],
            lambda tree, _check, _text, _names: outcomes[tree],
            "sealed",
            "with-tests",
            "base-with-tests",
            "head",
            [],
            settings,
            [hook],
        )
        judged = CheckComparison(check, GREEN, BROKEN, compare.compare(GREEN, BROKEN))
        return [finding.rule for finding in explainer.explain(judged, None).findings]

    assert explain(GREEN, [hook]) == [OWN_SETTINGS]
    assert explain(BROKEN, [hook]) == []
    assert explain(GREEN, []) == []
