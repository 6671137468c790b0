"""What a change does to tests in C, C++ and Rust is found; honest work on them is left alone."""

from __future__ import annotations

import pytest

from python_test_diff import bad, found
from reflectloop.verification import tampering
from reflectloop.verification.result import ChangedFile


def test_an_assertion_in_c_may_move_to_a_function_that_is_called() -> None:
    split = "}\n\nstatic void test_more(void) {\n  assert(price(4) == 40);\n}"
    before = "static void test_price(void) {\n  assert(price(3) == 30);\n  assert(price(4) == 40);\n}\n"
    before += "int main(void) {\n  test_price();\n}\n"
    after = before.replace("  assert(price(4) == 40);\n}", split, 1)
    assert bad(found("tests/price.c", before, after)) != []
    assert bad(found("tests/price.c", before, after.replace("test_price();", "test_price();\n  test_more();"))) == []


def test_rust_tests_made_by_a_macro_may_move_into_a_module_of_one_test_program() -> None:
    tests = b"test!(a, 1, 2);\ntest!(b, 2, 3);\n"
    main = ChangedFile("tests/all/main.rs", None, b"mod a;\n")
    moved = [ChangedFile("tests/a.rs", tests, None), ChangedFile("tests/all/a.rs", None, tests), main]
    assert bad(tampering.look(moved)) == []
    lost = moved[1]._replace(after=tests.replace(b"test!(b, 2, 3);\n", b""))
    assert bad(tampering.look([moved[0], lost, main])) != []


def test_an_assertion_in_rust_may_become_one_of_the_projects_own() -> None:
    before = "#[test]\nfn near() {\n    assert!((0.5 - half(1)).abs() < 0.1);\n}\n"
    after = before.replace("assert!((0.5 - half(1)).abs() < 0.1)", "assert_delta!(0.5, half(1), 0.1)")
    assert bad(found("tests/half.rs", before, after)) == [("expected-changed", "suspect")]
    assert bad(found("tests/half.rs", after, after.replace("    assert_delta!(0.5, half(1), 0.1);\n", ""))) != []


UNITY = """\
#include "unity.h"

static void helper(int n) { use(n); }

void test_price(void) {
  TEST_ASSERT_EQUAL_INT(30, price(3));
  TEST_ASSERT_TRUE(price(1) > 0);
}

void
test_zero(void)
{
  assert(price(0) == 0);
}

int main(void) {
  UNITY_BEGIN();
  RUN_TEST(test_price);
  test_zero();
  return UNITY_END();
}
"""


@pytest.mark.parametrize("path", ["test_shop.c", "tests/shop.c"])
@pytest.mark.parametrize(
    ("old", "new", "rule", "line"),
    [
        ("  TEST_ASSERT_EQUAL_INT(30", "  TEST_IGNORE();\n  TEST_ASSERT_EQUAL_INT(30", "skip-added", 6),
        ("  TEST_ASSERT_EQUAL_INT(30, price(3));\n", "", "assert-removed", 5),
        ("EQUAL_INT(30,", "EQUAL_INT(31,", "expected-changed", 6),
        ("TEST_ASSERT_EQUAL_INT(30, price(3))", "TEST_ASSERT_TRUE(price(3))", "assert-weaker", 6),
        ("TEST_ASSERT_EQUAL_INT(30, price(3))", "TEST_ASSERT_EQUAL_INT(30, 30)", "assert-always-true", 6),
        ("  assert(price(0) == 0);", "  assert(1);", "assert-always-true", 13),
        ("  assert(price(0) == 0);", "  assert(price(0) == price(0));", "assert-always-true", 13),
        ("  assert(price(0) == 0);\n", "", "test-emptied", 10),
        ("  assert(price(0) == 0);", "  return;\n  assert(price(0) == 0);", "early-return", 10),
        ("  assert(price(0) == 0);", "  if (1) return;\n  assert(price(0) == 0);", "early-return", 10),
        ("  assert(price(0) == 0);", "  if (true) {\n    return;\n  }\n  assert(price(0) == 0);", "early-return", 10),
        ("  RUN_TEST(test_price);\n", "", "test-uncollected", 18),
        ("  RUN_TEST(test_price);\n", "  // RUN_TEST(test_price);\n", "test-uncollected", 18),
        ("  test_zero();\n", "", "test-uncollected", 19),
        ("  return UNITY_END();", "  UNITY_END();\n  return 0;", "assert-removed", 16),
        ("void\ntest_zero", "#if 0\nvoid\ntest_zero", "skip-added", 10),
        ('#include "unity.h"', '#define NDEBUG\n#include "unity.h"', "patches-the-runner", 1),
        ('#include "unity.h"', '#define TEST_ASSERT_TRUE(a)\n#include "unity.h"', "patches-the-runner", 1),
    ],
)
def test_a_test_in_c_made_weaker_is_named_with_its_line(path: str, old: str, new: str, rule: str, line: int) -> None:
    assert old in UNITY
    findings = found(path, UNITY, UNITY.replace(old, new))
    assert (rule, line) in {(each.rule, each.line) for each in findings if each.grade != "note"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int main", "void test_new(void) {\n  assert(price(9) == 90);\n}\n\nint main"),
        ("  test_zero();", "  test_zero();\n  RUN_TEST(test_new);"),
        ("static void helper(int n) { use(n); }\n", ""),
        ("test_zero", "test_nothing"),
        ("{\n  assert(price(0) == 0);\n}", "{ assert( price( 0 )==0 ); }"),
    ],
)
def test_honest_work_on_a_test_in_c_is_left_alone(old: str, new: str) -> None:
    assert old in UNITY
    assert bad(found("tests/shop.c", UNITY, UNITY.replace(old, new))) == []


CATCH = 'TEST(Shop, Price) {\n  EXPECT_EQ(price(3), 30);\n}\n\nTEST_CASE("zero", "[shop]") {\n  REQUIRE(price(0) == 0);\n}\n'


@pytest.mark.parametrize(
    ("old", "new", "rule", "line"),
    [
        ("Shop, Price", "Shop, DISABLED_Price", "skip-added", 1),
        ("  EXPECT_EQ", "  GTEST_SKIP();\n  EXPECT_EQ", "skip-added", 2),
        ('"[shop]"', '"[shop][.]"', "skip-added", 5),
        ('"[shop]"', '"[shop][!mayfail]"', "skip-added", 5),
        ("REQUIRE(price(0) == 0)", "CHECK(true)", "assert-always-true", 6),
        ("REQUIRE(price(0) == 0)", "REQUIRE(price(0) == price(0))", "assert-always-true", 6),
        ("REQUIRE(price(0) == 0)", "WARN(price(0) == 0)", "assert-removed", 5),
        ("  REQUIRE(price(0) == 0);\n", "", "test-emptied", 5),
    ],
)
def test_a_test_in_cplusplus_made_weaker_is_named_with_its_line(old: str, new: str, rule: str, line: int) -> None:
    findings = found("tests/shop.cpp", CATCH, CATCH.replace(old, new))
    assert (rule, line, "weakening") in {(each.rule, each.line, each.grade) for each in findings}


RUST = """\
/// Return the words joined by hyphens.
///
/// ```rust
/// use heck::kebab;
/// assert_eq!(kebab("A b"), "a-b");
/// ```
pub fn kebab<'a>(text: &'a str) -> String {
    text.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::kebab;

    const CASES: &[(&str, &str)] = &[
        ("One Two", "one-two"),
        ("Three", "three"),
    ];

    macro_rules! t {
        ($name:ident : $given:expr => $wanted:expr) => {
            #[test]
            fn $name() {
                assert_eq!(kebab($given), $wanted)
            }
        };
    }

    t!(test1: "CamelCase" => "camelcase");
    t!(test2: "Two Words" => "two-words");

    fn check(given: &str, wanted: &str) {
        assert_eq!(kebab(given), wanted);
    }

    #[test]
    fn all() {
        for (given, wanted) in CASES {
            check(given, wanted);
        }
    }
}
"""


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        (
            '=> "two-words"',
            '=> "two_words"',
            (
                "expected-changed",
                30,
                '`t!(test2: "Two Words" => "two-words");` became `t!(test2: "Two Words" => "two_words");`',
            ),
        ),
        (
            '    t!(test2: "Two Words" => "two-words");\n',
            "",
            ("assert-removed", 29, 't! no longer checks `t!(test2: "Two Words" => "two-words");`'),
        ),
        (
            "assert_eq!(kebab($given), $wanted)",
            "let _ = ($given, $wanted);",
            ("assert-removed", 20, "macro t no longer checks `assert_eq!(kebab($given), $wanted)`"),
        ),
        (
            '"one-two")',
            '"one_two")',
            ("expected-changed", 16, '`("One Two", "one-two")` became `("One Two", "one_two")`'),
        ),
        (
            "        assert_eq!(kebab(given), wanted);\n",
            "",
            ("test-emptied", 32, "function check no longer does anything"),
        ),
        (
            'kebab("A b"), "a-b"',
            'kebab("A b"), "a_b"',
            (
                "doctest-changed",
                5,
                'the example `assert_eq!(kebab("A b"), "a-b");` became `assert_eq!(kebab("A b"), "a_b");`',
            ),
        ),
        (
            '/// assert_eq!(kebab("A b"), "a-b");\n',
            '/// kebab("");\n',
            ("doctest-changed", 5, 'the example `assert_eq!(kebab("A b"), "a-b");` became `kebab("");`'),
        ),
        ("```rust", "```ignore", ("skip-added", 4, 'the example `assert_eq!(kebab("A b"), "a-b");` is not run')),
    ],
)  # fmt: skip
def test_a_rust_test_inside_its_source_made_weaker_is_named_with_its_line(
    old: str, new: str, finding: tuple[str, int, str]
) -> None:
    assert old in RUST
    assert [(each.rule, each.line, each.what) for each in found("src/kebab.rs", RUST, RUST.replace(old, new))] == [
        finding
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    t!(test1", '    t!(test0: "" => "");\n    t!(test1'),
        ('        ("Three", "three"),\n', '        ("Three", "three"),\n        ("Four", "four"),\n'),
        ("    t!(test1: ", "    t!(\n        test1: "),
        ("text.to_lowercase()", "text.trim().to_lowercase()"),
        ("/// assert_eq!", "/// // Two words.\n/// assert_eq!"),
        ("/// assert_eq!", '/// assert_eq!(kebab("C d"), "c-d");\n/// assert_eq!'),
    ],
)
def test_honest_work_on_a_rust_source_with_tests_is_left_alone(old: str, new: str) -> None:
    assert old in RUST
    assert found("src/kebab.rs", RUST, RUST.replace(old, new)) == []


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("#[cfg(test)]\nmod", "#[cfg(any())]\nmod", ("skip-added", 11, "the file: `#[cfg(any())]`")),
        (
            '    t!(test2: "Two',
            '    #[cfg(feature = "slow")]\n    t!(test2: "Two',
            ("skip-added", 30, 'the file: `#[cfg(feature = "slow")]`'),
        ),
    ],
)
def test_a_rust_test_that_is_compiled_no_longer_is_named(old: str, new: str, finding: tuple[str, int, str]) -> None:
    assert old in RUST
    findings = [(each.rule, each.line, each.what) for each in found("src/kebab.rs", RUST, RUST.replace(old, new))]
    assert finding in findings


def test_code_that_is_compiled_for_some_platforms_is_no_skipped_test() -> None:
    code = '#[cfg(windows)]\nmod imp {\n    #[cfg(feature = "x")]\n    pub fn f() {}\n}\n\n'
    assert found("src/kebab.rs", RUST, code + RUST) == []


def test_an_example_in_a_file_of_another_name_is_followed() -> None:
    old = ChangedFile("src/kebab.rs", RUST.encode(), None)
    new = ChangedFile("src/dash.rs", None, RUST.replace('"A b"), "a-b"', '"A b"), "a_b"').encode())
    assert [each[:3] for each in tampering.look([old, new]) if each.rule.startswith("doctest")] == [
        ("doctest-changed", "src/dash.rs", 5)
    ]
