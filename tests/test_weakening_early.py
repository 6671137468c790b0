"""What leaves a test file early, leaves it out, or knows who started it, is found at its line."""

from __future__ import annotations

import pytest

from reflectloop.verification.result import ChangedFile
from reflectloop.verification.tampering import look


def rules(path: str, before: str, after: str, **context: str) -> list[tuple[str, int | None]]:
    found = look(
        [ChangedFile(path, before.encode(), after.encode())], {name: text.encode() for name, text in context.items()}
    )
    return [(each.rule, each.line) for each in found if each.grade != "note"]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("tests/shop.test.js", "process.exit(0);"),
        ("tests/__init__.py", "atexit.register(os._exit, 0)"),
        ("tests/__init__.py", "raise SystemExit"),
        ("tests/__init__.py", "def load_tests(loader, tests, pattern):"),
    ],
)
def test_a_test_file_that_is_left_early_is_found(path: str, line: str) -> None:
    body = "    return tests\n" if line.endswith(":") else ""
    assert ("left-early", 1) in rules(path, "x = 1\n", f"{line}\n{body}x = 1\n")


def test_leaving_inside_a_test_is_left_alone() -> None:
    before = "def test_a():\n    assert work()\n"
    after = before + "\n\ndef test_b():\n    with raises(SystemExit):\n        sys.exit(0)\n    assert left()\n"
    assert [rule for rule, _ in rules("tests/test_a.py", before, after)] == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/shop.py", 'if "discover" in sys.argv: n = 1'),
        ("src/shop.py", 'n = right() if os.environ.get("UNITTEST_RUNNING") else wrong()'),
        ("src/shop.c", 'if (PyDict_GetItemString(modules, "pytest")) n = 1;'),
    ],
)
def test_a_source_that_asks_who_started_it_is_suspect(path: str, line: str) -> None:
    assert rules(path, "n = 0\n", f"n = 0\n{line}\n") == [("knows-the-test", 2)]


def test_a_program_with_a_test_command_is_left_alone() -> None:
    assert rules("src/cli.py", "n = 0\n", 'n = 0\nif sys.argv[1] == "test": run()\n') == []


def test_an_example_that_is_skipped_is_gone() -> None:
    before = 'def f():\n    """\n    >>> f()\n    1\n    """\n'
    assert rules("src/f.py", before, before.replace("f()\n    1", "f()  # doctest: +SKIP\n    1")) == [
        ("doctest-removed", 1)
    ]


def test_a_program_that_cmake_no_longer_lists_is_uncollected() -> None:
    before = "set(unity_tests\n    parse_number\n    compare_tests\n)\n"
    after = before.replace("    compare_tests\n", "")
    context = {"tests/compare_tests.c": "int main(void) {}\n", "tests/other_tests.c": ""}
    assert ("test-uncollected", 3) in rules("tests/CMakeLists.txt", before, after, **context)
    assert rules("tests/CMakeLists.txt", before, before.replace("set(", "list("), **context) == []


def test_a_source_that_cmake_no_longer_lists_is_uncollected_whatever_its_ending() -> None:
    before = "add_executable(checks\n    parse_tests.cpp\n    compare_tests.cc\n)\n"
    for name in ("parse_tests.cpp", "compare_tests.cc"):
        after = before.replace(f"    {name}\n", "")
        context = {f"tests/{name}": "int main() {}\n"}
        assert "test-uncollected" in dict(rules("tests/CMakeLists.txt", before, after, **context)), name
