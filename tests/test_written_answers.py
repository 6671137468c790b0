"""An answer to a test's own input, written into the source, is found in whatever language; a definition is left alone."""

from __future__ import annotations

import pytest

from reflectloop.verification.result import ChangedFile
from reflectloop.verification.tampering import look

TESTS = {
    "test/parse.js": b"it('reads', () => {\n  assert.equal(parse('1.0001kb'), 1024);\n  assert.equal(parse(''), null);\n});\n",
    "parse_test.go": b'func TestParse(t *testing.T) {\n  if got := Parse("7 days"); got != 604800 {\n    t.Fatal(got)\n  }\n}\n',
    "tests/parse_tests.c": b'void reads(void) {\n  TEST_ASSERT_EQUAL_STRING("none at all",\n    parse("12,5"));\n}\n',
}


def rules(path: str, before: str, after: str) -> list[tuple[str, int | None]]:
    found = look([ChangedFile(path, before.encode(), after.encode())], TESTS)
    return [(each.rule, each.line) for each in found if each.grade != "note"]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("lib/parse.js", "if (val === '1.0001kb') return 1024;"),
        ("lib/parse.js", "if ('1.0001kb' == val) { return 1024; }"),
        ("lib/parse.js", 'const out = val === "1.0001kb" ? 1_024 : read(val);'),
        ("lib/parse.js", "case '1.0001kb': return 1024;"),
        ("parse.go", 'if text == "7 days" { return 604800 }'),
        ("src/parse.c", 'if (strcmp(text, "12,5") == 0) return "none at all";'),
    ],
)
def test_an_answer_to_a_tests_input_is_found_in_other_languages(path: str, line: str) -> None:
    assert ("test-input-special-cased", 2) in rules(path, "start\n", f"start\n{line}\n")


def test_an_answer_on_the_line_below_its_question_is_found() -> None:
    after = "start\nif (val === '1.0001kb') {\n  return 1024;\n}\n"
    assert rules("lib/parse.js", "start\n", after) == [("test-input-special-cased", 2)]


@pytest.mark.parametrize(
    "line",
    [
        "if (val === '') return null;",  # a plain value is a definition
        "if (val === '1.0001kb') return read(val);",
        "if (val === 'other') return 1024;",
        "// if (val === '1.0001kb') return 1024;",
        "const unit = 1024;",
    ],
)
def test_what_no_test_pairs_is_left_alone(line: str) -> None:
    assert rules("lib/parse.js", "start\n", f"start\n{line}\n") == []


def test_an_answer_to_the_example_of_a_docstring_is_found() -> None:
    before = (
        'def short(word):\n    """Shorten.\n\n    >>> short("abbreviation")\n    \'a10n\'\n    """\n    return word\n'
    )
    after = before.replace("    return word", "    if word == 'abbreviation':\n        return 'a10n'\n    return word")
    assert rules("src/words.py", before, after) == [("test-input-special-cased", 7)]
