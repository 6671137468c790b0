"""What a change does to tests of other languages is found; honest work on them is left alone."""

from __future__ import annotations

import pytest

from python_test_diff import bad, found

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
