"""What is true of every finding: its line, its rule in the reference, and that no bytes make it fail."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from python_test_diff import BASE, bad, found
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.tampering import look
from reflectloop.verification.tampering.source import signs


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (
            "pom.xml",
            "<project>\n</project>",
            "<project>\n<properties><skipTests>true</skipTests></properties></project>",
        ),
        ("build.gradle", "test {\n  useJUnit()\n}\n", "test {\n  useJUnit()\n  exclude 'a'\n}\n"),
        ("vite.config.ts", "x({\n  test: { a: 1 } })\n", "x({\n  test: { a: 1, exclude: ['b'] } })\n"),
        ("Makefile", "all:\n\ttrue\ntest:\n\tpytest\n", "all:\n\ttrue\n"),
        ("pytest.ini", "[pytest]\nxfail_strict = true\naddopts = -ra\n", "[pytest]\naddopts = -ra\n"),
        (".eslintignore", "dist\n", "dist\nsrc\n"),
        ("build/lib/shop.py", None, "x = 1\n"),
        ("scripts/test.sh", "set -e\npytest\n", "pytest\n"),
    ],
)
def test_every_finding_has_a_line_where_the_file_has_lines(path: str, before: str | None, after: str) -> None:
    findings = [each for each in found(path, before, after) if each.grade != "note"]
    assert findings
    assert all(each.line and each.line <= after.count("\n") + 1 for each in findings)


def test_a_finding_names_the_line_in_the_new_version() -> None:
    after = BASE.replace("    assert result == 30\n", "\n    assert result\n")
    (finding,) = [each for each in found("tests/test_shop.py", BASE, after) if each.grade == "weakening"]
    assert after.splitlines()[(finding.line or 0) - 1] == "    assert result"


NAMES = [
    "tests/test_a.py",
    "tests/conftest.py",
    "pyproject.toml",
    "package.json",
    "Makefile",
    "a.test.ts",
    "a_test.go",
    "src/lib.rs",
    "src/a.py",
    "tox.ini",
    "CMakeLists.txt",
    "pom.xml",
    ".github/workflows/ci.yml",
    "spec/a_spec.rb",
    "tests/a.c",
    "lib/a.js",
    "tsconfig.json",
    "tests/data/x.json",
    "jest.config.js",
]


@given(
    st.sampled_from(NAMES),
    st.none() | st.binary() | st.text().map(str.encode),
    st.none() | st.binary() | st.text().map(str.encode),
)
def test_no_bytes_make_it_fail(path: str, before: bytes | None, after: bytes | None) -> None:
    look([ChangedFile(path, before, after)], {"tests/test_b.py": before or b""})


def test_every_rule_is_in_the_reference() -> None:
    root = Path(__file__).resolve().parent.parent
    written = (root / "docs" / "weakening.md").read_text()
    code = "".join(each.read_text() for each in (root / "src/reflectloop/verification/tampering").rglob("*.py"))
    rules = set(re.findall(r'(?:Verdict|Finding)\(\s*"([a-z-]+)"', code)) | {sign.rule for sign in signs()}
    rules |= set(re.findall(r'"([a-z]+-(?:narrowed|loosened|changed|rewritten|added))"', code))
    assert len(rules) > 50
    assert [rule for rule in sorted(rules) if f"`{rule}`" not in written] == []


def test_code_nested_too_deep_to_be_walked_is_never_passed() -> None:
    long = "+".join(["1"] * 5000)
    tests = {"tests/test_shop.py": "def test_a():\n    assert price(37) == 481\n"}
    source = f"def price(n):\n    if n == 37 and {long[:1200]}1:\n        return 481\n"
    assert bad(found("src/shop.py", "", source, **tests)) == [("too-deep", "suspect")]
    assert bad(found("tests/test_a.py", "", f"def test_a():\n    assert {long}\n")) == [
        ("test-unreadable", "weakening")
    ]
    assert ("conftest-beyond-fixtures", "weakening") in bad(found("tests/conftest.py", None, f"a = {long}\n"))
