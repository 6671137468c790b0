"""Patterns of tests, skips and assertions in each language; data only."""

from __future__ import annotations

import re
from typing import NamedTuple


class Language(NamedTuple):
    """The patterns of one language."""

    test: re.Pattern[str]  # its group `name` is the name of the test
    skip: re.Pattern[str]
    check: re.Pattern[str]
    weak: re.Pattern[str]  # matchers that check little
    strong: re.Pattern[str]  # matchers that check the exact value
    tags: re.Pattern[str]  # tags in a test's header that skip it
    braces: bool = True
    calls: bool = False  # a test is a call, and ends with its closing bracket


_NONE = r"(?!)"
_TAUTOLOGIES = (
    r"expect\((true|1|'[^']*')\)\.to(?:Be|Equal|BeTruthy)\((?:true|1|\1)?\)|assert(?:\.ok|\.true)?!?\((?:true|1)\)|"
    r"assert(?:True|_eq!|Equals|\.equal|\.strictEqual|Equal|Same)\((?:true|([\w.()]+),\2)\)|expect\((true)\)\.to(?:eq|be)\(?true|"
    r"(?:assert|require)\.(?:True\(t,true|Equal\(t,([\w.]+),\4)\)|\$this->assertTrue\(true\)|"
    r"\b(?:CHECK|REQUIRE|EXPECT_TRUE|ASSERT_TRUE|TEST_ASSERT(?:_TRUE)?)\((?:true|1)\)|"
    r"\b(?:EXPECT_EQ|ASSERT_EQ|TEST_ASSERT_EQUAL\w*|CHECK_EQ)\((?P<same>[\w.()]+),(?P=same)\)"
)
TAUTOLOGY = re.compile(_TAUTOLOGIES)


def _language(
    test: str,
    skip: str,
    check: str,
    weak: str = _NONE,
    strong: str = _NONE,
    *,
    tags: str = _NONE,
    braces: bool = True,
    calls: bool = False,
) -> Language:
    test_, skip_, check_, weak_, strong_, tags_ = (
        re.compile(pattern, re.MULTILINE) for pattern in (test, skip, check, weak, strong, tags)
    )
    return Language(test_, skip_, check_, weak_, strong_, tags_, braces, calls)


_JS = _language(
    r"\b[xf]?(?:it|test|specify)(?:\.\w+)*(?:\([^()]*\)|`[^`]*`)?\s*\(\s*(?P<quote>['\"`])(?P<name>(?:\\.|(?!(?P=quote)).)*)(?P=quote)",
    r"\b(?:it|test|describe|context|suite|specify)\.(?:skip|todo|failing|fails|skipIf|runIf|only)\b|\b(?:xit|xtest|xdescribe|xcontext|fit|fdescribe|fcontext)\s*\(|"
    r"\.each\(\s*\[\s*\]\s*\)|\bthis\.skip\(\)|\bt\.(?:skip|todo)\(|\bctx\.skip\(|[{,]\s*(?:skip|todo|only)\s*:\s*(?:true|['\"!]|process\b|\w+\()|\b(?:it|test|describe|context|suite|specify)\[\s*'",
    r"\bexpect(?:\.\w+)?\s*\(|\bassert(?:\.\w+)*\s*\(|\bt\.(?:is|deepEqual|true|false|throws\w*|not|truthy|falsy|like|regex|equal|same|ok|match)\s*\(|\.should\.\w+|\bsinon\.assert\.\w+\s*\(",
    r"toBeDefined|toBeTruthy|toBeFalsy|toBeInstanceOf|toContain|toMatch\b|toBeGreaterThan|toBeLessThan|anything\(\)|expect\.any\b|not\.to(?:Be|Equal|Throw)|toHaveBeenCalled\(|toHaveLength|"
    r"toBeCloseTo|assert\.ok|toMatchSnapshot|toMatchInlineSnapshot|toBeNull\b|\.exist\b|\.ok\b|toThrow\(\)|toHaveProperty|arrayContaining|objectContaining",
    r"toBe\(|toEqual\(|toStrictEqual\(|toThrow\(.|toHaveBeenCalledWith|toHaveBeenCalledTimes|deepEqual|strictEqual|assert\.equal|\.eql?\(|t\.is\(",
    calls=True,
)
_GO = _language(
    r"^func\s+(?P<name>(?:Test|Fuzz|Example|Benchmark)\w*)\s*\(",
    r"\b[tb]\.(?:Skip|Skipf|SkipNow)\(|\bXIt\(|\bPIt\(|\bFIt\(|\bFDescribe\(|^//go:build\s+ignore",
    r"\bif\s[^{}\n]*\{\s*(?:t|b|s\.T\(\))\.(?:Error|Fatal|Fail)\w*\s*\(|\b(?:assert|require)\.\w+\s*\(|\bExpect\s*\(|\b[tb]\.(?:Error|Fatal|Fail)\w*\s*\(",
    r"\.(?:NotNil|NotEmpty|True|Contains|NoError|IsType|InDelta|NotEqual)\(",
    r"\.(?:Equal|EqualValues|Exactly|JSONEq|EqualError|ErrorIs|ElementsMatch)\(",
)
_RUST = _language(
    r"#\[(?:\w+::)*(?:test|rstest|test_case|quickcheck|proptest)\b[^\]\n]*\]\s{0,99}(?:#\[[^\]\n]*\]\s{0,99}){0,8}(?:pub\s+)?(?:async\s+)?fn\s+(?P<name>\w+)",
    r"#\[ignore\b|#\[should_panic|#\[cfg\((?!test\b)|#\[cfg_attr\([^\]]*ignore",
    r"\b(?:debug_)?assert(?:_eq|_ne|_matches|_snapshot|_debug_snapshot)?!\s*\(|\bpanic!\s*\(|#\[should_panic[^\]]*\]|\bprop_assert\w*!\s*\(",
    r"\bassert!|assert_ne!|should_panic\]",
    r"\bassert_eq!|should_panic\(expected",
)
_JVM = _language(
    r"@(?:Test|ParameterizedTest|RepeatedTest|TestFactory|Property)\b(?:\([^)]*\))?\s*(?:@\w+(?:\([^)]*\))?\s{0,99}){0,8}(?:(?:public|private|protected|internal|final|static|open|suspend|override)\s+)*(?:[\w<>\[\].]+|fun)\s+`?(?P<name>[^`(]+?)`?\s*\(",
    r"@(?:Disabled|Ignore|DisabledIf\w*|EnabledIf\w*|DisabledOn\w*|EnabledOn\w*)\b|\bassume(?:True|False|That)\s*\(|enabled\s*=\s*false|\bthrow\s+SkipException",
    r"\bassert\w*\s*\(|\bverify\s*\(|\bfail\s*\(|expected\s*=\s*\w+|\.should\w*\s*\(|\bshould\w+\b|expectThrows\s*\(",
    r"assertNotNull|assertTrue|assertNotEquals|isNotNull|isInstanceOf|contains\w*\(|isTrue\(",
    r"assertEquals|assertSame|assertArrayEquals|isEqualTo|assertThrows|assertIterableEquals|containsExactly",
)
_RUBY = _language(
    r"^\s*(?:[xf]?(?:it|specify|example|scenario)\s*\(?\s*(?P<quote>['\"])(?P<name>(?:\\.|(?!(?P=quote)).)*)(?P=quote)|def\s+(?P<method>test_\w+)|[xf]?test\s+['\"](?P<words>[^'\"]*)['\"])",
    r"^\s*(?:xit|xdescribe|xcontext|xspecify|fit|fdescribe|fcontext|skip|pending)\b|,\s*(?::?(?:skip|pending|focus))(?:\s*(?::|=>)\s*true|\b)",
    r"^\s*(?:expect|assert\w*|refute\w*|is_expected|must_\w+|flunk|[\w.@\[\]()]+\.(?:should|must_\w+))\b.*$",
    r"be_truthy|be_present|not_tobe_nil|not_toeq|assert_not_nil|include\(|be_a\b|respond_to|be_kind_of",
    r"(?<!not_)toeq|eql\(|match_array|assert_equal|must_equal|contain_exactly|raise_error\(",
    braces=False,
)
_PHP = _language(
    r"function\s+(?P<name>test\w*)\s*\(|@test\b[^}]*?function\s+(?P<method>\w+)\s*\(|\b(?:it|test)\(\s*['\"](?P<words>[^'\"]*)['\"]",
    r"\bmarkTest(?:Skipped|Incomplete)\s*\(|->(?:skip|todo|only)\(|@(?:requires|group\s+skip)",
    r"(?:\$this->|self::|static::)(?:assert|expect|fail)\w*\s*\(|\bexpect\s*\(",
    r"assertNotNull|assertTrue|assertNotEquals|assertInstanceOf|assertContains|toBeTruthy|assertNotEmpty",
    r"assertEquals|assertSame|assertCount|toBe\(|toEqual\(|expectExceptionMessage",
)
_C = _language(
    r"\b(?:TEST|TEST_F|TEST_P|TYPED_TEST|TEST_CASE|SCENARIO|BOOST_AUTO_TEST_CASE|START_TEST)\s*\(\s*(?P<name>[^)]*)\)|"
    r"^(?:[A-Za-z_]\w*[\s*&]{1,80}){1,4}(?!(?:if|for|while|switch|return|catch)\b)(?P<function>[A-Za-z_]\w*)\s*\([^;{}()]*\)\s*(?=\{)",
    r"\bGTEST_SKIP\s*\(|\bDISABLED_\w+|\bSKIP\s*\(|\bTEST_(?:IGNORE|PASS)\w*\s*\(|\bdoctest::(?:skip|may_fail|should_fail|expected_failures)\b|"
    r"^[ \t]*#[ \t]*if[ \t]+(?:0|false)\b|^[ \t]*IGNORE_TEST\s*\(",
    r"\b(?:ASSERT|EXPECT|CHECK|REQUIRE|TEST_ASSERT|TEST_FAIL|FAIL|ck_assert|cr_assert|BOOST_CHECK|BOOST_REQUIRE|BOOST_TEST|CU_ASSERT|TEST_EQUAL)\w*\s*\(|"
    r"\b(?:static_)?assert\w*\s*\(|\breturn\s+(?:UNITY_END|RUN_ALL_TESTS|cmocka_run_group_tests\w*|srunner_ntests_failed)\s*\(|"
    r"\bif\s*\([^{}\n;]{1,300}\)\s*\{?\s*(?:return\s+-?[1-9]|exit\s*\(\s*[1-9E]|abort\s*\()",
    r"_NE\b|_TRUE|_NEAR|NO_THROW|ANY_THROW|_GE\b|_LE\b|NOT_NULL|_WITHIN",
    r"_EQ\b|_STREQ|EQUAL|_THROW\b|==",
    tags=r"\[(?:\.[^\]]*|!?hide|!mayfail|!shouldfail)\]",
)
_DOTNET = _language(
    r"\[(?:Fact|Theory|Test|TestMethod|TestCase)\b[^\]]*\]\s*(?:\[[^\]\n]*\]\s{0,99}){0,8}(?:(?:public|private|internal|async|static|override)\s+)*[\w<>\[\]]+\s+(?P<name>\w+)\s*\(",
    r"\bSkip\s*=|\[(?:Ignore|Explicit)\b|\bAssert\.(?:Ignore|Inconclusive)\s*\(|\bSkip\.If\w*\s*\(",
    r"\bAssert\.\w+(?:<[^>]*>)?\s*\(|\.Should\(\)\.\w+|\bShould\w+\s*\(",
    r"\.(?:NotNull|True|NotEqual|IsType|Contains|NotEmpty|IsNotNull|IsTrue)\b",
    r"\.(?:Equal|AreEqual|Same|Be|BeEquivalentTo|Throws\w*|Collection)\b",
)
_BATS = _language(
    r"^@test\s+(?P<quote>['\"])(?P<name>.*?)(?P=quote)",
    r"^\s*(?:skip|bats_require)\b|bats:focus",
    r"^\s*(?:\[\[?\s.*\]\]?|assert\w*\b.*|refute\w*\b.*|run\s+!?.*|test\s+.*)$",
    r"assert_success|assert_output --partial|refute",
    r"assert_output|assert_equal|assert_line|=",
)
_ELIXIR = _language(
    r"^\s*(?:test|property)\s+\"(?P<name>[^\"]*)\"",
    r"@(?:module|describe)?tag\s+:?skip|@tag\s+skip:",
    r"^\s*(?:assert\w*|refute\w*)\b.*$",
    braces=False,
)

BY_ENDING = {
    **dict.fromkeys(("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue", "svelte"), _JS),
    "go": _GO,
    "rs": _RUST,
    **dict.fromkeys(("java", "kt", "scala", "groovy"), _JVM),
    "rb": _RUBY,
    "php": _PHP,
    **dict.fromkeys(("c", "cc", "cpp", "cxx"), _C),
    **dict.fromkeys(("cs", "fs", "vb"), _DOTNET),
    "bats": _BATS,
    "exs": _ELIXIR,
}
