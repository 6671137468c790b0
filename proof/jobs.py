"""Three jobs on real packages for scripted agents: a fix, a feature with criteria, a refactoring."""

from __future__ import annotations

from typing import Any, NamedTuple

from proof.suites import PYTEST, Package

Entry = dict[str, Any]
# Theirs ignore files that the package cannot be imported without, or ignore themselves.
_OURS = ((".gitignore", ""),)
PASSES = {"verdict": "PASS", "summary": "it does what was asked"}


class Job(NamedTuple):
    package: Package
    goal: str
    script: tuple[Entry, ...]
    about: str  # what the agents do besides the work
    broken: tuple[str, str, str] | None = None  # file, what stands there, what is put there first
    answer: tuple[str, str] | None = None  # to the step that asks
    makes: tuple[str, ...] = ()  # files in the patch


def _plans(first: Entry, second: Entry, merged: Entry) -> tuple[Entry, ...]:
    """Two planners who plan differently, and the second of whom agrees to what was made of both."""
    return (
        {"role": "planner", "says": "independently for the goal", "answer": merged},
        {"role": "second_planner", "says": "made a design for", "answer": {"agree": True}},
        {"role": "planner", "says": "Make a plan", "answer": first},
        {"role": "second_planner", "says": "Make a plan", "answer": second},
    )


def _honest(approach: str) -> tuple[Entry, ...]:
    """Behind everything else: who designs a step alike, and passes what is good."""
    return (
        {"role": "planner", "says": "Design one step", "answer": {"approach": approach}},
        {"role": "second_planner", "says": "Design one step", "answer": {"approach": approach}},
        {"role": "planner", "says": "Review", "answer": PASSES},
        {"role": "reviewer", "answer": PASSES},
    )


def _patch(path: str, *lines: str) -> Entry:
    head = ["*** Begin Patch", f"*** Update File: {path}", "@@"]
    return {"op": "apply_patch", "patch": "\n".join([*head, *lines, "*** End Patch", ""])}


def _does(approach: str, *ops: Entry, **when: Any) -> Entry:  # noqa: ANN401 - the fields of an entry
    return {"role": "executor", **when, "ops": list(ops), "answer": {"control": "step_done", "approach": approach}}


# A fix: the executor asks a question, and the review asks for a comment ------------------------------------------

_ORDINAL = "inflection/__init__.py"
_MEND = {"title": "Mend ordinal()", "details": "13 and 113 get another suffix than 11 and 12", "checks": [PYTEST]}
_NOTE = {"title": "Note it", "commands": ["echo '13 is 13th again.' > NOTES"], "checks": ["grep -q 13th NOTES"]}
_FIX: Entry = {"title": "Ordinals of the teens", "goal": "ordinal(13) is th", "track": "fix", "steps": [_MEND, _NOTE]}

FIX = Job(
    Package("inflection", "0.5.1", "", "pytest", PYTEST),
    "ordinal(13) and ordinal(113) are th, as those of 11 and 12 are",
    (
        *_plans({**_FIX, "steps": [_MEND]}, {**_FIX, "risks": ["negative numbers"]}, _FIX),
        _does(
            "and a word on why",
            _patch(
                _ORDINAL,
                "     number = abs(int(number))",
                "+    # The teens end alike, whatever their last digit.",
                "     if number % 100 in (11, 12, 13):",
            ),
            says="why these three",
        ),
        _does(
            "13 beside 11 and 12",
            _patch(_ORDINAL, "-    if number % 100 in (11, 12):", "+    if number % 100 in (11, 12, 13):"),
            says="as in English",
        ),
        {"role": "executor", "step": "1", "answer": {"control": "ask", "question": "Which suffix do the teens take?"}},
        {
            "role": "reviewer",
            "step": "1",
            "attempt": 2,
            "answer": {
                "verdict": "RETRY",
                "items": [
                    {"severity": "low", "file": _ORDINAL, "line": 253, "problem": "nothing says why these three"}
                ],
            },
        },
        *_honest("put 13 beside 11 and 12"),
    ),
    "a question, answered; a review that asks for a comment",
    broken=(_ORDINAL, "in (11, 12, 13):", "in (11, 12):"),
    answer=("1", "th, as in English"),
    makes=("NOTES", _ORDINAL),
)


# A feature: the step is split by its design, and the review finds a case that was forgotten -----------------------

_LISTS, _INIT, _TESTS = "src/humanize/lists.py", "src/humanize/__init__.py", "tests/test_choices.py"
_IMPORT = ".venv/bin/python -c 'import humanize; assert humanize.natural_choice({}) == {}'"
_THREE = _IMPORT.format('["a", "b", "c"]', '"a, b or c"')
_NONE = _IMPORT.format("[]", '""')
_LIST = ".venv/bin/python -c 'from humanize.lists import natural_choice as c; assert c([1, 2]) == \"1 or 2\"'"
_FUNCTION = '''

def natural_choice(items: list[Any]) -> str:
    """Natural choice.

    Like natural_list, with 'or' before the last item.
    """
    if len(items) == 1:
        return str(items[0])
    return ", ".join(str(item) for item in items[:-1]) + f" or {items[-1]}"
'''
_CASES = """from __future__ import annotations

import pytest

import humanize


@pytest.mark.parametrize(
    "items, expected",
    [([], ""), (["one"], "one"), ([1, 2], "1 or 2"), (["a", "b", "c"], "a, b or c")],
)
def test_natural_choice(items: list[str] | list[int], expected: str) -> None:
    assert humanize.natural_choice(items) == expected
"""
_EXPORT = (
    f"sed -i 's/import natural_list$/import natural_choice, natural_list/; "
    f's/^    "natural_list",$/    "natural_choice",\\n    "natural_list",/\' {_INIT}'
)
_PARTS = [
    {"title": "Write the function", "checks": [_LIST]},
    {"title": "Export it", "commands": [_EXPORT], "checks": [_THREE]},
    {"title": "Test it", "checks": [f"{PYTEST} {_TESTS}"]},
]
_STEP = {"title": "Say choices", "details": "natural_choice() in lists.py", "checks": [_THREE, _NONE]}
_WHOLE = {"title": "Try the whole suite", "commands": [PYTEST], "checks": [_NONE]}
_CRITERIA = [
    {"id": "AC-1", "text": "the last two are joined by or", "check": _THREE},
    {"id": "AC-2", "text": "nothing to choose from is an empty text", "check": _NONE},
]
_FEATURE: Entry = {
    "title": "Choices as people say them",
    "goal": "natural_choice() says a, b or c",
    "track": "feature",
    "acceptance": _CRITERIA,
    "may_change": ["src/humanize/**", "tests/**"],
    "steps": [_STEP, _WHOLE],
}

FEATURE = Job(
    Package("humanize", "4.12.3", "", "pytest", PYTEST, needs=("pytest", "freezegun"), files=_OURS),
    "humanize.natural_choice() joins a list with commas and or",
    (
        *_plans({**_FEATURE, "steps": [_STEP]}, {**_FEATURE, "acceptance": _CRITERIA[:1]}, _FEATURE),
        {
            "role": "planner",
            "step": "1",
            "says": "independently for step 1",
            "answer": {"approach": "function, export, tests", "needs_split": True, "substeps": _PARTS},
        },
        {"role": "planner", "step": "1", "says": "Design one step", "answer": {"approach": "all at once"}},
        {"role": "second_planner", "step": "1", "says": "Design one step", "answer": {"approach": "tests first"}},
        _does(
            "an empty list first",
            _patch(
                _LISTS,
                "     Like natural_list, with 'or' before the last item.",
                '     """',
                "+    if not items:",
                '+        return ""',
                "     if len(items) == 1:",
            ),
            step="1.1",
            says="an empty list",
        ),
        {
            "role": "executor",
            "step": "1.1",
            "run": f"cat >> {_LISTS} <<'END'{_FUNCTION}END\nsed -i 's/= \\[\"natural_list/= "
            f'["natural_choice", "natural_list/\' {_LISTS}',
            "answer": {"control": "step_done", "approach": "as natural_list does it"},
        },
        _does("a table of cases", {"op": "write_file", "path": _TESTS, "content": _CASES}, step="1.3"),
        {
            "role": "reviewer",
            "step": "1.1",
            "attempt": 1,
            "answer": {
                "verdict": "RETRY",
                "items": [{"severity": "high", "file": _LISTS, "problem": "an empty list raises IndexError"}],
            },
        },
        {"role": "reviewer", "step": "1.3", "answer": {**PASSES, "extra_tests": [_NONE]}},
        *_honest("as natural_list does it"),
    ),
    "a step split by its design; a review that finds a forgotten case; an extra test of the reviewer's",
    makes=(_INIT, _LISTS, _TESTS),
)


# A refactoring: the first attempt breaks it -----------------------------------------------------------------------

_TABULATE = "tabulate/__init__.py"
_SAME = [
    "     if has_invisible:",
    "         line_width_fn = _visible_width",
    "     elif enable_widechars:  # optional wide-character support if available",
    "         line_width_fn = wcwidth.wcswidth",
    "     else:",
    "         line_width_fn = len",
]
_GONE = [f"-{line[1:]}" for line in _SAME]
_CALL = "+    line_width_fn = _line_width_fn(has_invisible, enable_widechars)"


def _extracted(wide: str) -> Entry:
    """The choice of a width for one line, in a function that two others use."""
    return _patch(
        _TABULATE,
        "+def _line_width_fn(has_invisible, enable_widechars):",
        '+    """Return a function to calculate the visible width of a line."""',
        "+    if has_invisible:",
        "+        return _visible_width",
        "+    if enable_widechars:  # optional wide-character support if available",
        f"+        return wcwidth.{wide}",
        "+    return len",
        "+",
        "+",
        " def _choose_width_fn(has_invisible, enable_widechars, is_multiline):",
        '     """Return a function to calculate visible cell width."""',
        *_GONE,
        _CALL,
        "@@ def _align_column_choose_width_fn(has_invisible, enable_widechars, is_multiline):",
        *_GONE,
        _CALL,
    )


_RENAME = f"sed -i 's/_append_basic_row/_append_plain_row/' {_TABULATE}"
_EXTRACT = {
    "title": "Choose the width of a line in one place",
    "checks": [PYTEST, f"grep -q _line_width_fn {_TABULATE}"],
}
_NAMES = {"title": "Rename", "commands": [_RENAME], "checks": [PYTEST, f"! grep -q _append_basic_row {_TABULATE}"]}
_REFACTOR: Entry = {
    "title": "Widths in one place",
    "goal": "no choice of a width is written twice",
    "track": "refactor",
    "may_change": ["tabulate/**"],
    "steps": [_EXTRACT, _NAMES],
}

REFACTOR = Job(
    Package("tabulate", "0.9.0", "", "pytest", PYTEST, needs=("pytest", "wcwidth"), files=_OURS),
    "tabulate chooses the width of a line in one place, and behaves as before",
    (
        *_plans({**_REFACTOR, "steps": [_NAMES, _EXTRACT]}, {**_REFACTOR, "steps": [_EXTRACT]}, _REFACTOR),
        _does("a function for both", _extracted("wcwidth"), step="1", attempt=1),
        _does("the same, with the width of whole texts", _extracted("wcswidth"), step="1"),
        *_honest("a function for both"),
    ),
    "a first attempt that the suite refuses; a step made of commands",
    makes=(_TABULATE,),
)

JOBS = (FIX, FEATURE, REFACTOR)
