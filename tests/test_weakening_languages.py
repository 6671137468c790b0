"""What a change does to tests of other languages is found; honest work on them is left alone."""

from __future__ import annotations

import pytest

from python_test_diff import bad, found
from reflectloop.verification import tampering
from reflectloop.verification.result import ChangedFile

JEST = """\
describe('price', () => {
  it('is right', () => {
    expect(price(3)).toBe(30);
    expect(price(4)).toEqual(40);
  });

  test("refuses", () => {
    expect(() => price(1000)).toThrow('too many');
  });
});
"""


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("it('is right'", "it.skip('is right'", "skip-added"),
        ("it('is right'", "xit('is right'", "skip-added"),
        ("it('is right'", "it.only('is right'", "focus-added"),
        ("describe('price'", "describe.skip('price'", "skip-added"),
        ("it('is right', ", "it('is right', { skip: true }, ", "skip-added"),
        ("it('is right', ", "it('is right', { timeout: 5, skip: !process.env.SLOW }, ", "skip-added"),
        ("it('is right'", "test.todo('is right'", "skip-added"),
        ("it('is right'", "test.failing('is right'", "skip-added"),
        ("it('is right'", "it['skip']('is right'", "skip-added"),
        ("    expect(price(3)).toBe(30);\n", "", "assert-removed"),
        ("toBe(30)", "toBeTruthy()", "assert-weaker"),
        ("toBe(30)", "toBe(31)", "expected-changed"),
        ("expect(price(3)).toBe(30)", "expect(true).toBe(true)", "assert-always-true"),
        ("    expect(price(3))", "    return;\n    expect(price(3))", "early-return"),
        (JEST[JEST.index("  test(") : JEST.index("});\n", JEST.index("too many")) + 4], "", "test-deleted"),
    ],
)
def test_a_javascript_test_made_weaker_is_named(old: str, new: str, rule: str) -> None:
    assert old in JEST
    findings = [each for each in found("src/price.test.ts", JEST, JEST.replace(old, new)) if each.grade != "note"]
    assert rule in {each.rule for each in findings}
    assert None not in {each.line for each in findings}


def test_an_assertion_that_stood_there_twice_in_a_row_may_go_once() -> None:
    line = "    expect(price(3)).toBe(30);\n"
    doubled = JEST.replace(line, line + line)
    assert bad(found("src/price.test.ts", doubled, JEST)) == []
    assert bad(found("src/price.test.ts", doubled, JEST.replace(line, "")))


TOLERANT = {
    "src/price.test.ts": "it('is near', () => {\n  expect(price(3)).toBeCloseTo(30.5, 5);\n});\n",
    "price_test.go": "func TestPrice(t *testing.T) {\n\tassert.InDelta(t, 30.5, price(3), 0.01)\n}\n",
    "tests/price_test.cpp": "TEST(Price, Near) {\n  EXPECT_NEAR(30.5, price(3), 1e-3);\n}\n",
    "spec/price_spec.rb": "it 'is near' do\n  expect(price(3)).to be_within(0.1).of(30)\nend\n",
}


@pytest.mark.parametrize(
    ("path", "old", "new", "expected"),
    [
        ("src/price.test.ts", ", 5)", ", 1)", ("tolerance-widened", "weakening")),
        ("src/price.test.ts", ", 5)", ", 9)", ("assert-stricter", "note")),
        ("src/price.test.ts", "30.5", "31.5", ("expected-changed", "suspect")),
        ("price_test.go", "0.01", "10", ("tolerance-widened", "weakening")),
        ("price_test.go", "0.01", "0.001", ("assert-stricter", "note")),
        ("tests/price_test.cpp", "1e-3", "0.5", ("tolerance-widened", "weakening")),
        ("tests/price_test.cpp", "1e-3", "1e-6", ("assert-stricter", "note")),
        ("spec/price_spec.rb", "0.1", "5", ("tolerance-widened", "weakening")),
        ("spec/price_spec.rb", "0.1", "0.05", ("assert-stricter", "note")),
        ("spec/price_spec.rb", "of(30)", "of(31)", ("expected-changed", "suspect")),
    ],
)
def test_a_tolerance_counts_as_widened_only_if_it_is_wider(
    path: str, old: str, new: str, expected: tuple[str, str]
) -> None:
    text = TOLERANT[path]
    assert [(each.rule, each.grade) for each in found(path, text, text.replace(old, new))] == [expected]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  test(", "  it('is new', () => {\n    expect(1 + price(1)).toBe(11);\n  });\n\n  test("),
        ("'is right'", "'costs what it should'"),
        ("expect(price(3)).toBe(30);", "expect(\n      price(3),\n    ).toBe(30); // three"),
        ("'too many'", '"too many"'),
        ("    expect(price(3))", "    expect(price(5)).toBe(50);\n    expect(price(3))"),
        ("it('is right', ", "it('is right', { timeout: 5 }, "),
        ("    expect(price(3))", "    page({ skip: 10, limit: 5 });\n    expect(price(3))"),
    ],
)
def test_honest_work_on_a_javascript_test_is_left_alone(old: str, new: str) -> None:
    assert bad(found("src/price.test.ts", JEST, JEST.replace(old, new))) == []


GROUPS = """\
describe('price', () => {
  it('is right', () => {
    expect(price(3)).toBe(30);
    expect(price(4)).toBe(40);
    expect(price(5)).toBe(50);
  });
});

describe('discount', () => {
  it('is right', () => {
    expect(discount(3)).toBe(1);
    expect(discount(9)).toBe(2);
  });
});
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("it('is right', () => {\n    expect(price", "it('costs what it should', () => {\n    expect(price"),
        (
            "    expect(price(5)).toBe(50);\n  });\n",
            "  });\n\n  it('is new', () => {\n    expect(price(5)).toBe(50);\n  });\n",
        ),
        ("    expect(price(5)).toBe(50);\n  });\n});\n", "  });\n  it('a', () => expect(price(5)).toBe(50));\n});\n"),
    ],
)
def test_a_javascript_test_may_be_renamed_beside_a_namesake_and_split(old: str, new: str) -> None:
    assert old in GROUPS
    assert bad(found("test/price.js", GROUPS, GROUPS.replace(old, new))) == []


TAPE = """\
test('price', (t) => {
  t.equal(price(3), 30);
  t.test('many', (st) => {
    st.deepEqual(prices([3]), [30]);
    st.notOk(price(0));
    st.end();
  });
  t.end();
});
"""


@pytest.mark.parametrize(
    ("old", "new", "findings"),
    [
        ("t.equal(", "t.strictEqual(", []),
        ("st.deepEqual(", "st.deepStrictEqual(", []),
        ("    st.notOk(price(0));\n", "", [("assert-removed", "weakening")]),
        ("st.notOk(price(0))", "st.ok(true)", [("assert-always-true", "weakening")]),
        ("t.equal(price(3), 30)", "t.notEqual(price(3), 31)", [("expected-changed", "suspect")]),
    ],
)
def test_assertions_of_tape_are_read_in_nested_tests_too(old: str, new: str, findings: list[tuple[str, str]]) -> None:
    assert old in TAPE
    assert bad(found("test/price.js", TAPE, TAPE.replace(old, new))) == findings


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


def test_a_test_split_into_several_is_not_deleted() -> None:
    whole = GROUPS[: GROUPS.index("describe('discount'")]
    parts = "".join(f"test('{n}', () => expect(price({n})).toBe({n}0));\n" for n in (3, 4, 5))
    assert bad(found("test/price.js", whole, parts)) == []
    assert bad(found("test/price.js", whole, parts.replace("test('5'", "test.skip('5'"))) != []
    assert (
        bad(found("test/price.js", whole, parts.replace("=> expect(price(5))", "=> { if (late) expect(price(5))")))
        != []
    )
    assert bad(found("test/price.js", whole, parts.replace("50", "51"))) == [("test-deleted", "weakening")]
    asked_of_names = whole.replace("price(5)", "result")
    assert bad(found("test/price.js", asked_of_names, parts.replace("price(5)", "result"))) != []


def test_a_renamed_test_is_compared_with_its_old_version_and_its_edits_are_one_finding() -> None:
    other = GROUPS.replace("it('is right', () => {\n    expect(price", "it('costs', () => {\n    expect(price")
    (finding,) = [each for each in found("test/price.js", GROUPS, other.replace("50)", "51)")) if each.grade != "note"]
    assert (finding.rule, finding.grade, finding.line) == ("expected-changed", "suspect", 5)
    (finding,) = [each for each in found("test/price.js", GROUPS, GROUPS.replace("0);", "1);")) if each.grade != "note"]
    assert finding.what.count(" became ") == 3
    assert bad(found("test/price.js", GROUPS, other.replace("    expect(price(5)).toBe(50);\n", ""))) == [
        ("assert-removed", "weakening")
    ]


def test_all_javascript_tests_removed_from_a_file_are_one_finding() -> None:
    (finding,) = [
        each for each in found("test/price.js", GROUPS, "describe('price', () => {});\n") if each.grade != "note"
    ]
    assert (finding.rule, finding.what) == ("test-deleted", "2 test(s) removed: is right, is right")


SHORT = """\
test('one', () => expect(price(1)).toBe(10));
test('two', async ({ page }) => {
  expect(page(`/(
`)).toBe(20);
});
test('three', { timeout: 5 }, () => {
  expect(price(3).replace(/[)}]/, '')).toBe(30);
});
"""


@pytest.mark.parametrize(("old", "new", "line"), [("10)", "11)", 1), ("20)", "21)", 3), ("30)", "31)", 7)])
def test_a_javascript_test_is_read_to_the_end_of_its_call(old: str, new: str, line: int) -> None:
    (finding,) = found("price.test.js", SHORT, SHORT.replace(old, new))
    assert (finding.rule, finding.line) == ("expected-changed", line)


def test_a_formatter_of_javascript_and_c_changes_nothing() -> None:
    before = (
        "it('b', () => {\n  expect(f.map(x => x)).toEqual({'a': 1, b: 'it\\'s'})\n  expect(g(0XAB, .5)).toBe(1)\n})\n"
    )
    after = 'it("b", () => {\n  expect(f.map((x) => x)).toEqual({ a: 1, b: "it\'s" });\n  expect(g(0xab, 0.5)).toBe(1);\n});\n'
    assert bad(found("a.test.js", before, after)) == []
    before = 'TEST(A, B) {\n  EXPECT_EQ(f("long text"), 1);\n}\n'
    assert bad(found("a_test.cc", before, before.replace("long text", 'long "\n    "text'))) == []
    before, after = "f( process.env.CI )\n", "f(process.env.CI);\n"
    assert found("a.js", before, after) == []
    assert found("tests/data/a.json", '{"a":1,"b":[1,2]}', '{\n  "a": 1,\n  "b": [1, 2]\n}\n') == []


@pytest.mark.parametrize(
    ("name", "content", "rule"),
    [
        ("node_modules/.bin/node", "#!/bin/sh\nexit 0\n", "tool-shadowed"),
        ("tools/mocha", "#!/bin/sh\nexit 0\n", "tool-shadowed"),
        (".npmrc", "script-shell=./shell.sh\n", "runner-narrowed"),
        (".npmrc", "node-options=--require ./hook.js\n", "runner-narrowed"),
        (".yarnrc.yml", "yarnPath: ./yarn.js\n", "runner-narrowed"),
    ],
)
def test_what_stands_before_the_runner_of_javascript_is_a_weakening_with_a_line(
    name: str, content: str, rule: str
) -> None:
    (finding,) = found(name, None, content, "100755" if "/" in name else "100644")
    assert (finding.rule, finding.grade, finding.line) == (rule, "weakening", 1)


@pytest.mark.parametrize(
    ("path", "before", "after", "rule"),
    [
        (
            "a_test.go",
            'func TestA(t *testing.T) {\n\tif f() != 1 {\n\t\tt.Fatal("x")\n\t}\n}\n',
            'func TestA(t *testing.T) {\n\tt.Skip("x")\n\tif f() != 1 {\n\t\tt.Fatal("x")\n\t}\n}\n',
            "skip-added",
        ),
        (
            "a_test.go",
            'func TestA(t *testing.T) {\n\tif f() != 1 {\n\t\tt.Fatal("x")\n\t}\n}\n',
            "func TestA(t *testing.T) {\n\tf()\n}\n",
            "assert-removed",
        ),
        (
            "src/lib.rs",
            "#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {\n        assert_eq!(f(), 1);\n    }\n}\n",
            "#[cfg(test)]\nmod tests {\n    #[test]\n    #[ignore]\n    fn a() {\n        assert_eq!(f(), 1);\n    }\n}\n",
            "skip-added",
        ),
        (
            "src/lib.rs",
            "#[test]\nfn a() {\n    assert_eq!(f(), 1);\n}\n",
            "#[test]\nfn a() {\n    assert!(f() > 0);\n}\n",
            "assert-weaker",
        ),
        (
            "src/test/java/ATest.java",
            "class ATest {\n  @Test\n  void a() {\n    assertEquals(1, f());\n  }\n}\n",
            "class ATest {\n  @Disabled\n  @Test\n  void a() {\n    assertEquals(1, f());\n  }\n}\n",
            "skip-added",
        ),
        (
            "src/test/java/ATest.java",
            "class ATest {\n  @Test\n  void a() {\n    assertEquals(1, f());\n  }\n}\n",
            "class ATest {\n  @Test\n  void a() {\n    assertNotNull(f());\n  }\n}\n",
            "assert-weaker",
        ),
        (
            "spec/a_spec.rb",
            "describe A do\n  it 'works' do\n    expect(f).to eq(1)\n  end\nend\n",
            "describe A do\n  it 'works' do\n    pending\n    expect(f).to eq(1)\n  end\nend\n",
            "skip-added",
        ),
        (
            "spec/a_spec.rb",
            "describe A do\n  it 'works' do\n    expect(f).to eq(1)\n  end\nend\n",
            "describe A do\n  it 'works' do\n    expect(f).to be_truthy\n  end\nend\n",
            "assert-weaker",
        ),
        (
            "tests/ATest.php",
            "class ATest {\n  function testA() {\n    $this->assertSame(1, f());\n  }\n}\n",
            "class ATest {\n  function testA() {\n    $this->markTestSkipped();\n    $this->assertSame(1, f());\n  }\n}\n",
            "skip-added",
        ),
        (
            "a_test.cc",
            "TEST(A, B) {\n  EXPECT_EQ(f(), 1);\n}\n",
            "TEST(A, B) {\n  GTEST_SKIP();\n  EXPECT_EQ(f(), 1);\n}\n",
            "skip-added",
        ),
        (
            "A.Tests/ATests.cs",
            "class A {\n  [Fact]\n  public void B() {\n    Assert.Equal(1, F());\n  }\n}\n",
            'class A {\n  [Fact(Skip = "x")]\n  public void B() {\n    Assert.Equal(1, F());\n  }\n}\n',
            "skip-added",
        ),
        ("a_test.go", "package a\n", "//go:build never\n\npackage a\n", "skip-added"),
        (
            "a_test.go",
            "func TestA(t *testing.T) {\n\tall := []int{\n\t\t{1, 2},\n\t\t{3, 4},\n\t}\n}\n",
            "func TestA(t *testing.T) {\n\tall := []int{\n\t\t{1, 2},\n\t}\n}\n",
            "cases-removed",
        ),
        (
            "tests/a.rs",
            "#[test]\nfn a() {\n    assert_eq!(f(), 1);\n}\n",
            "#[test]\n#[should_panic]\nfn a() {\n    assert_eq!(f(), 1);\n}\n",
            "skip-added",
        ),
        ("src/a.test.ts", "test('a', () => {});\n", "jest.mock('./a');\ntest('a', () => {});\n", "code-mocked"),
        (
            "noxfile.py",
            "def tests(s):\n    s.run('pytest')\n",
            "def tests(s):\n    s.run('pytest', '-k', 'x')\n",
            "runner-narrowed",
        ),
        (
            "package.json",
            '{"scripts": {"test": "jest"}}',
            '{"scripts": {"test": "jest", "pretest": "rm -r test"}}',
            "runner-narrowed",
        ),
        (".pre-commit-config.yaml", "- id: ruff\n", "- id: ruff\n  exclude: src\n", "hook-changed"),
        (
            "test/a.bats",
            '@test "a" {\n  run f\n  [ "$status" -eq 0 ]\n}\n',
            '@test "a" {\n  skip\n  run f\n  [ "$status" -eq 0 ]\n}\n',
            "skip-added",
        ),
        ("t/a.t", "use Test::More tests => 1;\n", "use Test::More skip_all => 'later';\n", "skip-added"),
        (
            "t/a.t",
            "subtest 'a' => sub {\n  is(f(), 1);\n  is(g(), 2);\n};\n",
            "subtest 'a' => sub {\n  is(f(), 1);\n};\n",
            "assert-removed",
        ),
    ],
)
def test_tests_of_other_languages_and_other_files_made_weaker_are_named(
    path: str, before: str, after: str, rule: str
) -> None:
    assert rule in {name for name, _ in bad(found(path, before, after))}


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


def test_a_quotation_shows_where_two_long_lines_differ() -> None:
    long = "a, " * 60
    old = f"it('is right', () => {{\n  expect(sum({long}1)).toBe(30);\n}});\n"
    (finding,) = found("src/sum.test.ts", old, old.replace("30", "31"))
    assert "toBe(30)` became `…" in finding.what
    assert "toBe(31)`" in finding.what


REWORDED = {
    "test/parse.js": "test('parses', (t) => {\n  t.equal(f('a=b'), 1, 'parses one');\n  t.ok(g(1, 'x'), 'holds');\n});\n",
    "pkg/parse_test.go": 'func TestParse(t *testing.T) {\n\tif got := f("a"); got != 1 {\n\t\tt.Errorf("parses one")\n\t}\n}\n',
    "tests/parse_tests.c": 'static void parses(void)\n{\n    TEST_ASSERT_EQUAL_INT_MESSAGE(1, f("a"), "parses one");\n}\n',
    "tests/parse.rs": '#[test]\nfn parses() {\n    assert_eq!(f("a"), 1, "parses one");\n}\n',
}


@pytest.mark.parametrize(("path", "text"), REWORDED.items())
def test_the_words_of_an_assertion_that_fails_may_change(path: str, text: str) -> None:
    assert bad(found(path, text, text.replace("parses one", "gives 1").replace("'holds'", "'is so'"))) == []
    assert bad(found(path, text, text.replace("t.Errorf(", "t.Fatal("))) == []


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("test/parse.js", "1, 'parses one'", "2, 'parses one'"),
        ("test/parse.js", "'a=b'", "'a'"),
        ("test/parse.js", "g(1, 'x')", "g(1, 'y')"),
        ("pkg/parse_test.go", "got != 1", "got != 2"),
        ("tests/parse.rs", '"a"', '"b"'),
        ("tests/parse_tests.c", 'f("a")', 'f("b")'),
    ],
)
def test_what_an_assertion_compares_may_not(path: str, old: str, new: str) -> None:
    assert old in REWORDED[path]
    assert bad(found(path, REWORDED[path], REWORDED[path].replace(old, new))) == [("expected-changed", "suspect")]


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


CALC_TEST = (
    "const assert = require('assert');\ndescribe('calc', () => {\n  it('adds', () => {\n"
    "    assert.equal(add(1, 2), 3);\n  });\n  it('says :)', () => {\n    assert.match(say(), /[(]/);\n  });\n});\n"
)


@pytest.mark.parametrize(
    ("path", "before", "old", "new", "line"),
    [
        ("test/calc.test.js", CALC_TEST, "it('adds', ()", "it('adds', (", 3),
        ("test/calc.test.js", CALC_TEST, "3);\n  });", "3);\n  ;", 5),
        ("tests/a.rs", "#[test]\nfn adds() {\n    assert_eq!(add(1, 2), 3);\n}\n", "adds()", "adds(", 2),
        ("tests/test_a.py", "def test_a():\n    assert f() == 1\n", "test_a()", "test_a(", 1),
    ],
)
def test_a_test_file_that_cannot_be_read_is_called_so(path: str, before: str, old: str, new: str, line: int) -> None:
    findings = [each for each in found(path, before, before.replace(old, new)) if each.grade != "note"]
    assert [(each.rule, each.line) for each in findings] == [("test-unreadable", line)]
