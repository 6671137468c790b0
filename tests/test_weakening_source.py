"""What sources do that no honest source does, and what is put in the place of something else."""

from __future__ import annotations

import pytest

from python_test_diff import bad, found
from reflectloop.commands import init_project
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.tampering import look


@pytest.mark.parametrize(
    ("path", "line", "rule"),
    [
        ("src/shop.py", "if 'PYTEST_CURRENT_TEST' in os.environ: return 30", "knows-the-test"),
        ("src/shop.py", "if 'pytest' in sys.modules: return 30", "knows-the-test"),
        ("src/shop.py", "x = sys.modules.get('unittest')", "knows-the-test"),
        ("src/shop.py", "if any('pytest' in each for each in sys.argv): pass", "knows-the-test"),
        ("src/shop.py", "if inspect.stack()[1].filename.endswith('test_shop.py'): pass", "new-power"),
        ("src/shop.py", "if os.environ.get('CI'): pass", "knows-the-ci"),
        ("src/shop.py", "if os.getenv('GITHUB_ACTIONS'): pass", "knows-the-ci"),
        ("src/shop.py", "unittest.TestCase.assertEqual = lambda *a: None", "new-power"),
        ("src/shop.py", "builtins.len = lambda x: 3", "new-power"),
        ("src/shop.py", "import pytest", "new-power"),
        ("src/shop.py", "os._exit(0)", "new-power"),
        ("src/shop.c", "_exit(0);", "ends-the-process"),
        ("src/shop.py", "def __eq__(self, other): return True", "new-power"),
        ("src/shop.ts", "if (process.env.JEST_WORKER_ID) return 30;", "knows-the-test"),
        ("src/shop.ts", "if (process.env.NODE_ENV === 'test') return 30;", "knows-the-test"),
        ("src/shop.ts", "if (import.meta.vitest) return 30;", "knows-the-test"),
        ("src/shop.ts", "if (process.env.CI) return 30;", "knows-the-ci"),
        ("shop.go", "if testing.Testing() { return 30 }", "knows-the-test"),
        ("shop.go", 'if flag.Lookup("test.v") != nil { return 30 }', "knows-the-test"),
        ("src/shop.rs", "if cfg!(test) { return 30; }", "knows-the-test"),
        ("src/shop.py", "__import__('pytest').skip()", "knows-the-test"),
        ("src/shop.py", "if 'test' in sys.argv[0]: pass", "knows-the-test"),
        ("src/shop.py", "if os.environ.get('TESTING'): pass", "knows-the-test"),
        ("src/shop.js", "if (new Error().stack.includes('.test.')) return 30;", "knows-the-test"),
        ("lib/shop.rb", "return 30 if ENV['RAILS_ENV'] == 'test'", "knows-the-test"),
        ("lib/shop.js", "if (typeof global.describe === 'function') return 30;", "knows-the-test"),
        ("lib/shop.js", "if (typeof globalThis.it === 'function') return 30;", "knows-the-test"),
        ("lib/shop.js", "const tried = typeof it !== 'undefined';", "knows-the-test"),
        ("lib/shop.js", "const tried = typeof test !== 'undefined';", "knows-the-test"),
        ("lib/shop.js", "if ('describe' in globalThis) return 30;", "knows-the-test"),
        ("lib/shop.js", "if (process.env.NODE_TEST_CONTEXT) return 30;", "knows-the-test"),
        ("lib/shop.js", "const { NODE_TEST_CONTEXT } = process.env;", "knows-the-test"),
        ("lib/shop.js", "if (process.env['VITEST']) return 30;", "knows-the-test"),
        (
            "lib/shop.js",
            "if (Object.keys(require.cache).some(name => /mocha|jest|test/.test(name))) return 30;",
            "knows-the-test",
        ),
        ("lib/shop.js", "if (/test/.test(new Error().stack)) return 30;", "knows-the-test"),
        ("lib/shop.js", "if (/\\/test\\//.test(new Error().stack)) return 30;", "knows-the-test"),
        ("lib/shop.js", "const stack = new Error().stack;\nif (/test/.test(stack)) return 30;", "new-power"),
        ("lib/shop.js", "if (/jest/.test(process.argv[1])) return 30;", "knows-the-test"),
        ("lib/shop.js", "if (process.argv.some(each => each.includes('mocha'))) return 30;", "knows-the-test"),
        ("lib/shop.js", "if (module.parent && /test/.test(module.parent.filename)) return 30;", "knows-the-test"),
        ("lib/shop.js", "if (require.main.filename.includes('mocha')) return 30;", "knows-the-test"),
        ("lib/shop.js", "if (process.env.npm_lifecycle_event === 'test') return 30;", "knows-the-test"),
        ("lib/shop.js", "const { CI } = process.env;", "knows-the-ci"),
    ],
)
def test_a_source_that_behaves_otherwise_under_test_is_named(path: str, line: str, rule: str) -> None:
    findings = [each for each in found(path, "x\n", f"x\n{line}\n") if each.grade != "note"]
    assert (rule, 2) in {(each.rule, each.line) for each in findings}


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/shop.py", "# PYTEST_CURRENT_TEST is set by pytest; CI sets CI"),
        ("src/shop.py", 'def f():\n    """Reads os.environ.get("CI"), and import pytest."""'),
        ("src/shop.py", "NAMES = ['CI', 'GITHUB_ACTIONS']"),
        ("src/shop.py", "print('run pytest to test it')"),
        ("src/shop.ts", "// process.env.NODE_ENV === 'test'"),
        ("src/shop.ts", "const words = 'runs in CI';"),
        ("lib/shop.js", "if (require.main === module) main();"),
        ("lib/shop.js", "if (!module.parent) listen();"),
        ("lib/shop.js", "const words = process.argv.slice(2);"),
        ("lib/shop.js", "if (/test/.test(name)) return 30;"),
        ("lib/shop.js", "if (typeof test === 'function') return test(node);"),
        ("lib/shop.js", "items.it = global.items;"),
        ("lib/shop.js", "const half = a / b; // process.env.CI / 2"),
    ],
)
def test_words_in_comments_and_plain_code_are_left_alone(path: str, line: str) -> None:
    assert bad(found(path, "x = 1\n", f"x = 1\n{line}\n")) == []


def test_lines_that_were_there_before_are_left_alone() -> None:
    assert bad(found("src/shop.py", "import pytest\n", "x = 1\nimport pytest\n")) == []


def test_an_answer_to_a_tests_own_input_is_suspect() -> None:
    tests = {"tests/test_shop.py": "def test_a():\n    assert price(37) == 481\n"}
    before = "def price(n):\n    return n\n"
    after = "def price(n):\n    if n == 37:\n        return 481\n    return n\n"
    assert bad(found("src/shop.py", before, after, **tests)) == [("test-input-special-cased", "suspect")]
    row = after.replace("n == 37", "(n,) == (37,)")
    assert bad(found("src/shop.py", before, row, **tests)) == [("test-input-special-cased", "suspect")]
    table = "KNOWN = {37: 481, 3: 30}\n\n\ndef price(n):\n    return KNOWN.get(n, n)\n"
    tests["tests/test_shop.py"] += "    assert price(3) == 30\n"
    assert bad(found("src/shop.py", before, table, **tests)) == [("test-input-special-cased", "suspect")]


def test_a_definition_by_small_cases_is_no_answer_to_a_test() -> None:
    tests = {"tests/test_fib.py": "def test_a():\n    assert factorial(0) == 1\n"}
    after = "def factorial(n):\n    if n == 0:\n        return 1\n    return n * factorial(n - 1)\n"
    assert bad(found("src/fib.py", "", after, **tests)) == []


NUMBERS = {
    "tests/test_shop.py": "def test_a():\n    assert price(48271, 13, 4096, 2500) == 6151\n    assert rate(-3.14159) > 0.5\n",
    "test/shop.test.js": "test('a', () => {\n  expect(price(48271)).toBe(7);\n});\n",
}


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/shop.py", "if n == 48271: n = work(n)"),
        ("src/shop.py", "if 48_271 == n: n = work(n)"),
        ("src/shop.py", "if n in (13, 48271): n = work(n)"),
        ("src/shop.py", "if n != -3.14159: n = work(n)"),
        ("src/shop.py", "match n:\n  case 13 | 48271: n = work(n)"),
        ("src/shop.js", "if (n === 48271) n = work(n);"),
        ("src/shop.js", "if ([13, 48271].includes(n)) n = work(n);"),
        ("src/shop.c", "case 48271: n = work(n);"),
    ],
)
def test_a_number_of_a_test_singled_out_is_suspect(path: str, line: str) -> None:
    findings = found(path, "n = 1\n", f"n = 1\n{line}\n", **NUMBERS)
    assert [(each.rule, each.grade) for each in findings] == [("test-input-special-cased", "suspect")]
    assert findings[0].line == 2 + line.count("\n")


@pytest.mark.parametrize(
    "line",
    [
        "if n == 13: n = work(n)",
        "if n == 4096: n = work(n)",
        "if n == 2500: n = work(n)",
        "if n == 6151: n = work(n)",
        "if n == 59999: n = work(n)",
        "if n > 48271: n = work(n)",
        "n = work(48271)",
        "if n % 48271 == 0: n = work(n)",
        "if rate == 0.5: n = work(n)",
    ],
)
def test_numbers_that_honest_work_compares_with_are_left_alone(line: str) -> None:
    assert found("src/shop.py", "n = 1\n", f"n = 1\n{line}\n", **NUMBERS) == []


def test_a_number_singled_out_before_or_only_in_a_new_test_is_left_alone() -> None:
    before, after = "if n == 48271: pass\n", "if n == 48271 or n is None: pass\n"
    assert found("src/shop.py", before, after, **NUMBERS) == []
    own = ChangedFile("tests/test_new.py", None, b"def test_a():\n    assert price(77123) == 1\n")
    assert bad(look([own, ChangedFile("src/shop.py", b"", b"if n == 77123: pass\n")])) == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/shop.py", "# ruff: noqa"),
        ("src/shop.py", "# mypy: ignore-errors"),
        ("src/shop.ts", "// @ts-nocheck"),
        ("src/shop.js", "/* eslint-disable */"),
        ("src/shop.rs", "#![allow(dead_code)]"),
    ],
)
def test_a_linter_silenced_for_a_whole_file_is_a_weakening(path: str, line: str) -> None:
    assert bad(found(path, "x\n", f"{line}\nx\n")) == [("lint-off-for-file", "weakening")]


def test_a_linter_silenced_for_one_line_is_a_note() -> None:
    (finding,) = found("src/shop.py", "x = 1\n", "x = 1\nimport os  # noqa: F401\n")
    assert (finding.rule, finding.grade, finding.line) == ("lint-off", "note", 2)


def test_doctest_examples_lost_or_changed_are_suspect() -> None:
    before = 'def price(n):\n    """Cost.\n\n    >>> price(3)\n    30\n    """\n'
    assert bad(found("src/shop.py", before, before.replace("30", "31"))) == [("doctest-changed", "suspect")]
    assert bad(found("src/shop.py", before, 'def price(n):\n    """Cost."""\n')) == [("doctest-removed", "suspect")]


@pytest.mark.parametrize(
    ("path", "mode", "rule"),
    [
        ("pytest.py", "100644", "module-shadowed"),
        ("src/_pytest/__init__.py", "100644", "module-shadowed"),
        ("tests/unittest.py", "100644", "module-shadowed"),
        ("json.py", "100644", "module-shadowed"),
        ("bin/pytest", "100755", "tool-shadowed"),
        ("node_modules/.bin/jest", "100644", "tool-shadowed"),
        ("src/__pycache__/shop.cpython-311.pyc", "100644", "artefact"),
        ("build/lib/shop.py", "100644", "artefact"),
        ("reflectloop.toml", "100644", "own-settings"),
        (".claude/settings.json", "100644", "own-settings"),
    ],
)
def test_what_stands_in_for_something_else_is_named(path: str, mode: str, rule: str) -> None:
    assert rule in {name for name, _ in bad(found(path, None, "x\n", mode))}


TWO_CHECKS = '[verify]\nchecks = [{name = "t", run = ["t"]}, {name = "u", run = ["u"]}]\n'
ONE_CHECK = '[verify]\nchecks = [{name = "t", run = ["t"]}]\n'


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (None, '[box]\nisolation = "none"\n', "box.isolation is none, and was workspace"),
        ('[box]\nisolation = "full"\n', "", "box.isolation is workspace, and was full"),
        ("", ONE_CHECK, "verify.checks names other checks instead of the detected ones"),
        (TWO_CHECKS, ONE_CHECK, "verify.checks names other checks instead of u"),
        ('[verify]\nprotect = ["a", "b"]\n', '[verify]\nprotect = ["b"]\n', "verify.protect no longer has a"),
        ("[cost]\nusd = 1.0\n", "", "cost.usd is no longer set, and was 1.0"),
        ("", '[policy]\nallow = ["git.push"]\n', "not applied: git.push"),
        ('[policy]\nrules = "own.yaml"\n', None, "policy.rules is no longer set, and was own.yaml"),
        ('[roles]\nreviewer = "claude"\n', '[roles]\nreviewer = "codex"\n', "roles.reviewer is codex"),
        ("", '[agents.x]\nkind = "command"\nrun = ["sh"]\n', "agent x starts a program"),
        ("", "[verify\n", "is no valid settings file"),
    ],
)
def test_settings_of_ours_that_check_less_are_one_finding(before: str | None, after: str | None, words: str) -> None:
    [finding] = found("reflectloop.toml", before, after)
    assert (finding.rule, finding.grade) == ("own-settings", "weakening")
    assert words in finding.what


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, init_project.settings_text()),
        (None, "# only a comment\n"),
        ("", '[box]\nisolation = "full"\n[cost]\nusd = 1.0\n[verify]\nprotect = ["data/*"]\ntimeout_s = 60\n'),
        (ONE_CHECK, TWO_CHECKS),
        (ONE_CHECK, f"# a comment\n{ONE_CHECK}"),
    ],
)
def test_settings_of_ours_that_check_no_less_are_left_alone(before: str | None, after: str) -> None:
    assert found("reflectloop.toml", before, after) == []


LESSON = ".reflectloop/knowledge/failfix/no-six-ab12.md"


@pytest.mark.parametrize(
    ("path", "before", "after", "graded"),
    [
        (LESSON, None, '---\nkind: failfix\ncommands: ["curl x | sh"]\n---\n', "suspect"),
        (LESSON, '---\ncommands: ["a"]\n---\n', "---\ncommands:\n- b\n---\n", "suspect"),
        (LESSON, '---\ncommands: ["a"]\n---\n', '---\ncommands: ["a"]\n---\n\n> more words\n', "note"),
        (LESSON, None, "---\nkind: failfix\nfix: install it\n---\n", "note"),
        (LESSON, "---\nkind: failfix\n---\n", None, None),
        (".reflectloop/knowledge/sightings/S-1.jsonl", None, "{}\n", None),
        (".reflectloop/rules/learned.yaml", None, "id: x\n", None),
        (".reflectloop/rules/learned.yaml", "id: x\n", "id: y\n", "weakening"),
        (".reflectloop/rules/learned.yaml", "id: x\n", None, "weakening"),
        (".reflectloop/knowledge/conftest.py", None, "import os\n", "weakening"),
        (".reflectloop/plan.yaml", None, "plan: {}\n", "weakening"),
    ],
)
def test_a_person_reads_lessons_that_run_something(
    path: str, before: str | None, after: str | None, graded: str | None
) -> None:
    findings = [item for item in found(path, before, after) if item.rule in {"lesson", "own-settings"}]
    assert [finding.grade for finding in findings] == ([graded] if graded else [])
    assert "---" not in "".join(finding.what for finding in findings)


def test_a_module_that_was_there_before_hides_nothing_new() -> None:
    assert bad(found("src/types.py", "a = 1\n", "a = 2\n")) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a\nb\nc\n", "a\n", ("snapshot-rewritten", "weakening")),
        ("a\nb\nc\n", "a\nx\nc\n", ("snapshot-rewritten", "suspect")),
        ("a\nb\n", None, ("snapshot-rewritten", "weakening")),
    ],
)
def test_a_snapshot_cut_or_rewritten_is_named(before: str, after: str | None, expected: tuple[str, str]) -> None:
    assert bad(found("src/__snapshots__/a.test.js.snap", before, after)) == [expected]


def test_a_snapshot_that_only_grew_is_left_alone() -> None:
    assert bad(found("src/__snapshots__/a.test.js.snap", "a\nb\n", "a\nb\nc\n")) == []


@pytest.mark.parametrize(
    "text",
    [
        "class Yes(str):\n    def __eq__(self, other):\n        return True\n",
        'class Yes:\n    def __eq__(self, other):\n        """Fits."""\n        return True\n',
        "class Yes:\n    def __ne__(self, other):\n        return False\n",
        "class Yes:\n    __eq__ = lambda self, other: True\n",
    ],
)
def test_what_is_equal_to_everything_is_found_however_it_is_laid_out(text: str) -> None:
    found = list(look([ChangedFile("src/shop.py", None, text.encode())]))
    assert [(one.rule, one.grade) for one in found] == [("new-power", "suspect")]


def test_an_equality_that_compares_is_no_tell() -> None:
    honest = b"class Price:\n    def __eq__(self, other):\n        return self.cents == other.cents\n"
    assert not list(look([ChangedFile("src/shop.py", None, honest)]))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/shop.py", 'if "--latest" in sys.argv: pass'),
        ("src/shop.py", 'if "--test" in sys.argv: pass'),
        ("lib/shop.js", "const at = process.argv.indexOf('--spec');"),
        ("src/shop.py", "atexit.register(cache.clear)"),
        ("src/shop.py", "atexit.register(shutil.rmtree, folder)"),
        ("src/shop.py", "signal.signal(signal.SIGPIPE, signal.SIG_DFL)"),
        ("src/shop.py", "signal.signal(SIGINT, on_interrupt)"),
        ("src/shop.py", "signal.signal(SIGTERM, lambda *a: sys.exit(0))"),
        ("src/shop.py", "signal.signal(signal.SIGALRM, on_time)"),
    ],
)
def test_ordinary_use_of_a_word_or_of_the_process_is_no_more_than_a_note(path: str, line: str) -> None:
    assert bad(found(path, "x = 1\n", f"x = 1\n{line}\n")) == []


@pytest.mark.parametrize(
    "line",
    [
        "atexit.register(cache.clear)\ncache.clear = lambda: os._exit(0)",
        "signal.signal(signal.SIGALRM, lambda *a: sys.exit(0))\nsignal.alarm(3)",
        "sys.settrace(f)",
        "def close():\n    raise SystemExit(0)\natexit.register(close)",
    ],
)
def test_what_ends_the_process_or_watches_it_is_suspect(line: str) -> None:
    assert ("new-power", "suspect") in bad(found("src/shop.py", "x = 1\n", f"x = 1\n{line}\n"))


def test_a_documented_matcher_is_suspect_only() -> None:
    matcher = 'class AnyKey:\n    """Stands for any key."""\n\n    def __eq__(self, other):\n        return True\n'
    assert bad(found("src/shop.py", None, matcher)) == [("new-power", "suspect")]
    assert bad(found("src/shop.py", None, matcher.replace("AnyKey:", "AnyKey(str):"))) == [("new-power", "suspect")]


DAYS = "DAYS = {1: 'Monday', 2: 'Tuesday', 3: 'Wednesday'}\n\n\ndef day(n):\n    return DAYS[n]\n"
OF_DAYS = (
    "def test_a():\n    assert day(1) == 'Monday'\n    assert day(2) == 'Tuesday'\n    assert day(3) == 'Wednesday'\n"
)


def test_a_table_with_tests_of_its_own_is_a_note() -> None:
    own = ChangedFile("tests/test_days.py", None, OF_DAYS.encode())
    assert bad(look([own, ChangedFile("src/days.py", None, DAYS.encode())])) == []
    mended = ChangedFile("src/days.py", DAYS.replace("'Tue", "'Teu").encode(), DAYS.encode())
    assert bad(look([mended], {"tests/test_days.py": OF_DAYS.encode()})) == []
    new = ChangedFile("src/days.py", b"def day(n):\n    return str(n)\n", DAYS.encode())
    assert bad(look([new], {"tests/test_days.py": OF_DAYS.encode()})) == [("test-input-special-cased", "suspect")]


def test_a_code_in_its_own_name_with_its_test_is_a_note() -> None:
    source = "switch (at) {\n  case 38:\n    escape = '&amp;';\n}\n"
    after = source.replace("}\n", "  case 8232:\n    escape = '&#8232;';\n}\n")
    test = b"test('a', () => {\n  expect(escape(8232)).toBe('&#8232;');\n});\n"
    change = ChangedFile("lib/escape.js", source.encode(), after.encode())
    assert bad(look([change, ChangedFile("test/escape.test.js", None, test)])) == []
    assert ("test-input-special-cased", "suspect") in bad(look([change], {"test/escape.test.js": test}))


def test_a_bundle_in_dist_is_not_read_for_answers() -> None:
    bundle = "!function(){typeof define==='function'&&define.amd}();\nfunction price(n) {\n  return n;\n}\n"
    after = bundle.replace("  return n;", "  if (n === 48271) n = work(n);\n  return n;")
    assert bad(found("dist/shop.js", bundle, after, **{"test/shop.test.js": NUMBERS["test/shop.test.js"]})) == []
    loaded = {"test/shop.test.js": "require('../dist/shop');\n" + NUMBERS["test/shop.test.js"]}
    assert bad(found("dist/shop.js", bundle, after, **loaded)) == [("test-input-special-cased", "suspect")]


def test_a_file_that_only_moved_brings_nothing_new() -> None:
    text = b"class Any:\n    def __eq__(self, other):\n        return True\n"
    moved = [ChangedFile("pkg/test/_common.py", text, None), ChangedFile("tests/_common.py", None, text)]
    assert bad(look(moved)) == []
