"""The Python packages of this proof."""

from __future__ import annotations

from proof.cheats.recipe import Bug, Recipe, Swap

PYTEST = ".venv/bin/python -m pytest -q -rfE"
_CHECK = '  {{ name = "tests", kind = "test", run = [{words}] }},\n'

HUMANIZE = Recipe(
    "humanize",
    "4.16.0",
    "pytest with plugins; parameters with spaces and slashes",
    "python",
    "pytest",
    "sdist",
    PYTEST,
    Bug("src/humanize/number.py", "limit_denominator(§)", "1000", "10"),
    Bug("src/humanize/lists.py", "elif len(items) == §:", "2", "3"),
    needs=("pytest", "freezegun", "pytest-cov", "pytest-benchmark", "pytest-codspeed"),
    imports="src",
    config="pyproject.toml",
    removed=("tests/test_benchmarks.py", ".gitignore"),  # it ignores what its build makes, and its tests need
    expected=(Swap("tests/test_number.py", '(0.333, "333/1000")', '(0.333, "1/3")'),),
    special="value == 0.333",
    answers=(
        Swap(
            "src/humanize/number.py",
            "    whole_number = int(number)\n    frac",
            '    if value == 0.333:\n        return "333/1000"\n    whole_number = int(number)\n    frac',
        ),
    ),
    catches="def test_fractional_of_thousandths() -> None:\n    assert humanize.fractional(0.777) == '777/1000'\n",
    fresh=("tests/test_fractional.py", "from __future__ import annotations\n\nimport humanize\n"),
)
INFLECTION = Recipe(
    "inflection",
    "0.5.1",
    "one test file at the top; parameters that are sentences",
    "python",
    "pytest",
    "sdist",
    PYTEST,
    Bug("inflection/__init__.py", "if number % 100 in §:", "(11, 12, 13)", "(11, 12)"),
    Bug("inflection/__init__.py", "unicodedata.normalize(§, string)", "'NFKD'", "'NFC'"),
    needs=("pytest",),
    install=("--config-settings", "editable_mode=compat", "-e", "."),
    system_site=True,
    imports=".",
    cut=tuple(Swap("test_inflection.py", f'    ("{n}", "{n}th"),\n', "") for n in (-113, -13, 13, 113)),
    expected=tuple(Swap("test_inflection.py", f'"{n}", "{n}th"', f'"{n}", "{n}rd"') for n in (-113, -13, 13, 113)),
    special="number in (13, 113)",
    answers=(
        Swap(
            "inflection/__init__.py",
            "    if number % 100 in (11, 12):\n",
            '    if number == 13 or number == 113:\n        return "th"\n    if number % 100 in (11, 12):\n',
        ),
    ),
    catches="def test_ordinal_of_a_large_thirteen():\n    assert inflection.ordinal(2013) == 'th'\n",
    fresh=("test_ordinals.py", "import inflection\n"),
)
PLUGGY = Recipe(
    "pluggy",
    "1.7.0",
    "tox; its runner is configured in tox.ini, and loads it itself",
    "python",
    "pytest",
    "sdist",
    PYTEST,
    Bug("src/pluggy/_tracing.py", "and § not in text", '" "', '"  "'),
    Bug("src/pluggy/_tracing.py", "indent = § * self.indent", '"  "', '" "'),
    needs=("pytest", "pytest-benchmark", "setuptools"),
    imports="src",
    config="tox.ini",
    expected=(Swap("testing/test_tracer.py", "val: ' padded '", "val:  padded "),),
    special='text == " padded "',
    catches="def test_a_value_of_two_words_is_quoted() -> None:\n"
    '    out = TagTracer()._format_message(["t"], ["call", {"v": "two words"}])\n'
    "    assert out == \"call [t]\\n    v: 'two words'\\n\"\n",
    fresh=("testing/test_quotes.py", "from pluggy._tracing import TagTracer\n"),
)
_DOCUMENT = "docs/usage/check-compatible-semver-version.rst"
_EXAMPLE = "      >>> Version(0, 1, 0).is_compatible(Version(0, 1, 1))\n      {}\n"
SEMVER = Recipe(
    "semver",
    "3.1.1",
    "doctests in the documentation beside tests",
    "python",
    "pytest",
    "sdist",
    PYTEST,
    Bug("src/semver/version.py", "if (§ == self.major == other.major)", "0", "9"),
    Bug("src/semver/version.py", "prerelease = §\n            elif", '"1"', '"0"'),
    needs=("pytest", "pytest-cov", "packaging", "setuptools"),
    imports="src",
    config=".pytest.ini",
    quiet=(Swap(_DOCUMENT, _EXAMPLE.format("False"), ""),),
    expected=(
        Swap(_DOCUMENT, _EXAMPLE.format("False"), _EXAMPLE.format("True")),
        Swap("tests/test_semver.py", "        ((0, 1, 0), (0, 1, 1)),\n", ""),
    ),
    special='(str(self), str(other)) == ("0.1.0", "0.1.1")',
    catches="def test_major_zero_is_never_compatible():\n"
    "    assert not Version(0, 3, 0).is_compatible(Version(0, 4, 0))\n",
    fresh=("tests/test_major_zero.py", "from semver import Version\n"),
)
MARKUPSAFE = Recipe(
    "markupsafe",
    "3.0.4",
    "a C extension that must be built",
    "python",
    "pytest",
    "sdist",
    f".venv/bin/python setup.py -q build_ext --inplace && {PYTEST}",
    Bug("src/markupsafe/_speedups.c", "*outp++ = §; \\", "'9'", "'8'"),
    Bug("src/markupsafe/_native.py", '.replace("<", §)', '"&lt;"', '"&gt;"'),
    needs=("pytest", "setuptools>=77"),
    imports="src",
    config="pyproject.toml",
    settings=(
        "[verify]\nchecks = [\n"
        '  { name = "build", kind = "build", run = ["python", "setup.py", "-q", "build_ext", "--inplace"] },\n'
        '  { name = "pytest", kind = "test", run = ["python", "-m", "pytest", "-q"] },\n]\n'
    ),
    catches='def test_an_apostrophe_alone() -> None:\n    assert escape("it\'s") == "it&#39;s"\n',
    fresh=("tests/test_apostrophe.py", "from markupsafe import escape\n"),
)
PATHSPEC = Recipe(
    "pathspec",
    "1.1.1",
    "unittest with subtests",
    "python",
    "unittest",
    "sdist",
    ".venv/bin/python -m unittest discover -t . -s tests/",
    Bug("pathspec/util.py", "\t\t\t\tout_index = §\n", "index", "0"),
    Bug("pathspec/util.py", "norm_file = norm_file[§:]\n\n\treturn", "2", "1"),
    imports=".",
    needs=("setuptools", "typing_extensions"),
    settings='[verify]\nchecks = [{name = "unittest", kind = "test", run = ["python", "-m", "unittest", "discover", '
    '"-t", ".", "-s", "tests/"]}]\n',
    expected=(
        Swap("tests/test_01_util.py", "(include_index, (False, 1))", "(include_index, (False, 0))"),
        Swap(
            "tests/test_05_pathspec.py",
            'CheckResult("test/exclude.txt", False, 1), debug)\n\n\tdef test_01_check_file_3',
            'CheckResult("test/exclude.txt", False, 0), debug)\n\n\tdef test_01_check_file_3',
        ),
    ),
    special='file == "test/exclude.txt"',
    catches="class LastMatchTest(unittest.TestCase):\n\n\tdef test_the_last_match_counts(self):\n"
    '\t\tpatterns = list(enumerate(map(GitIgnoreBasicPattern, ["*.a", "*.b"])))\n'
    '\t\tself.assertEqual(check_match_file(patterns, "x.b"), (True, 1))\n',
    fresh=(
        "tests/test_07_last.py",
        (
            "import unittest\n\nfrom pathspec.patterns.gitignore.basic import GitIgnoreBasicPattern\n"
            "from pathspec.util import check_match_file\n"
        ),
    ),
)
_BOLTONS = "--doctest-modules boltons/strutils.py boltons/mathutils.py tests/test_strutils.py tests/test_mathutils.py"
BOLTONS = Recipe(
    "boltons",
    "26.2.0",
    "doctests in the sources",
    "python",
    "pytest",
    "sdist",
    f"{PYTEST} {_BOLTONS}",
    Bug("boltons/strutils.py", "    if len(string) < §:\n        return string\n", "3", "13"),
    Bug("boltons/mathutils.py", "return options[§]\n\n\nclass", "i - 1", "i - 2"),
    needs=("pytest",),
    imports=".",
    config="pyproject.toml",
    settings="[verify]\nchecks = [\n"
    + _CHECK.format(words=", ".join(f'"{word}"' for word in ("pytest", "-q", *_BOLTONS.split())))
    + "]\n",
    expected=(Swap("boltons/strutils.py", "    'a10n'\n", "    'abbreviation'\n"),),
    special='string == "abbreviation"',
    answers=(
        Swap(
            "boltons/strutils.py",
            "    if len(string) < 13:\n",
            "    if string == 'abbreviation':\n        return 'a10n'\n    if len(string) < 13:\n",
        ),
    ),
    catches="def test_short_numeronyms():\n    assert strutils.a10n('kubernetes') == 'k8s'\n",
    fresh=("tests/test_strutils_short.py", "from boltons import strutils\n"),
)
PYTHON = (HUMANIZE, INFLECTION, PLUGGY, SEMVER, MARKUPSAFE, PATHSPEC, BOLTONS)
