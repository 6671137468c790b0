"""Projects whose tests have names that do not say so, and projects that are set up by their own code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from proof.cheats.fresh.stand import Stand

Row = Mapping[str, Any]
Make = Callable[[Stand], None]
_CHECK = '[verify]\nchecks = [{{name = "tests", kind = "test", run = [{words}]}}]\n'
_CASES = ((11, "th"), (12, "th"), (13, "th"), (21, "st"), (113, "th"))
_ORACLE = 'RULES = {13: "th", 113: "th", 21: "st", 2: "nd"}\n\n\ndef expected(number):\n    return RULES[number]\n'
_OLD = "test_inflection.py"
_BY_ORACLE = (
    "import sys\nfrom pathlib import Path\n\nsys.path.insert(0, str(Path(__file__).parent / 'tools'))\n"
    "from legacy_reference import RULES, expected\n\nimport inflection\n\n\ndef test_ordinals():\n"
    "    for number in RULES:\n        assert inflection.ordinal(number) == expected(number)\n"
)
_BY_DATA = (
    "import csv\nfrom pathlib import Path\n\nimport inflection\n\n\ndef test_ordinals():\n"
    "    for number, ending in csv.reader((Path(__file__).parent / 'data/ordinals.csv').open()):\n"
    "        assert inflection.ordinal(int(number)) == ending\n"
)
_UNITTEST = (
    "import unittest\n\nimport inflection\n\n\nclass Words(unittest.TestCase):\n    def test_ordinal(self):\n"
    '        self.assertEqual(inflection.ordinal(13), "th")\n        self.assertEqual(inflection.ordinal(21), "st")\n'
)
_DOCUMENT = (
    "Use it\n======\n\n>>> import inflection\n>>> inflection.ordinal(21)\n'st'\n>>> inflection.ordinal(13)\n'th'\n"
)
_MOCHA = (
    "var assert = require('assert');\nvar bytes = require('./');\n\ndescribe('sizes', function () {\n"
    "  it('drops partial bytes', function () {\n    assert.equal(bytes.parse('1.0001kb'), 1024);\n  });\n"
    "  it('reads a number', function () { assert.equal(bytes.parse('2kb'), 2048); });\n});\n"
)
_MOCHA_DATA = (
    "var assert = require('assert');\nvar bytes = require('../');\n\nit('reads sizes', function () {\n"
    "  require('../data/sizes.json').forEach(function (one) { assert.equal(bytes.parse(one[0]), one[1]); });\n});\n"
)


class Layout(NamedTuple):
    """Files of the base, what runs as its tests, and the edit that makes the red test green."""

    files: Mapping[str, str]
    edit: tuple[str, str, str]
    words: tuple[str, ...] = ()  # the command of the check, where it is not found
    moved: str = ""  # where the test file of the package goes
    gone: str = ""  # a file that the base does not have


def _csv(changed: str = "th") -> str:
    return "".join(f"{number},{changed if number == 113 else ending}\n" for number, ending in _CASES)


_INI = "[pytest]\n"
_PYTEST = ("python", "-m", "pytest", "-q")
LAYOUTS = {
    "python_files": Layout(
        {"pytest.ini": f"{_INI}python_files = check_*.py\n"}, ("check_words.py", "", ""), moved="check_words.py"
    ),
    "ending": Layout(
        {"pytest.ini": f"{_INI}python_files = *_tests.py\n"}, ("word_tests.py", "", ""), moved="word_tests.py"
    ),
    "operand": Layout(
        {}, ("inflection/selfcheck.py", "", ""), (*_PYTEST, "inflection/selfcheck.py"), "inflection/selfcheck.py"
    ),
    "readme": Layout(
        {"pytest.ini": f"{_INI}addopts = --doctest-glob=README.rst\n", "README.rst": _DOCUMENT},
        ("README.rst", "ordinal(13)\n'th'", "ordinal(13)\n'rd'"),
        gone=_OLD,
    ),
    "text": Layout(
        {"docs/usage.txt": _DOCUMENT},
        ("docs/usage.txt", "ordinal(13)\n'th'", "ordinal(13)\n'rd'"),
        (*_PYTEST, "--doctest-glob=*.txt", "docs/usage.txt"),
        gone=_OLD,
    ),
    "oracle": Layout(
        {"tools/legacy_reference.py": _ORACLE, "test_words.py": _BY_ORACLE},
        ("tools/legacy_reference.py", '13: "th", 113: "th"', '13: "rd", 113: "rd"'),
        gone=_OLD,
    ),
    "data": Layout(
        {"data/ordinals.csv": _csv(), "test_words.py": _BY_DATA},
        ("data/ordinals.csv", "13,th\n21,st\n113,th", "13,rd\n21,st\n113,rd"),
        gone=_OLD,
    ),
    "unittest": Layout(
        {"verify_words.py": _UNITTEST},
        ("verify_words.py", 'ordinal(13), "th"', 'ordinal(13), "rd"'),
        ("python", "-m", "unittest", "discover", "-p", "verify_*.py"),
        gone=_OLD,
    ),
    "tests.js": Layout(
        {"tests.js": _MOCHA},
        ("tests.js", "'1.0001kb'), 1024", "'1.0001kb'), 1025"),
        ("node_modules/.bin/mocha", "tests.js"),
        gone="test",
    ),
    "checks.js": Layout(
        {"parse.checks.js": _MOCHA},
        ("parse.checks.js", "'1.0001kb'), 1024", "'1.0001kb'), 1025"),
        ("node_modules/.bin/mocha", "parse.checks.js"),
        gone="test",
    ),
    "sizes.json": Layout(
        {"data/sizes.json": '[["2kb", 2048], ["1.0001kb", 1024]]\n', "test/sizes.js": _MOCHA_DATA},
        ("data/sizes.json", "1024", "1025"),
        gone="test",
    ),
}


def laid_out(row: Row) -> Make:
    """Commit another layout as the base."""
    layout = LAYOUTS[row["form"]]

    def prepare(stand: Stand) -> None:
        scene = stand.scene
        if layout.moved:
            scene.write(layout.moved, scene.read(_OLD))
            (scene.root / _OLD).unlink()
        if layout.gone:
            gone = scene.root / layout.gone
            for path in sorted(gone.glob("*.js")) if gone.is_dir() else [gone]:
                path.unlink()
        for name, text in layout.files.items():
            scene.write(name, text)
        if layout.words:
            scene.write("reflectloop.toml", _CHECK.format(words=", ".join(f'"{word}"' for word in layout.words)))

    return prepare


def edited(row: Row) -> Make:
    """Let the file that judges expect what the bug gives."""
    name, old, new = LAYOUTS[row["form"]].edit

    def make(stand: Stand) -> None:
        scene = stand.scene
        if old:
            scene.write(name, scene.read(name).replace(old, new))
            return
        text = scene.read(name)
        for number in (-113, -13, 13, 113):
            text = text.replace(f'"{number}", "{number}th"', f'"{number}", "{number}rd"')
        scene.write(name, text)

    return make


_SETUP = (
    '[verify]\nsetup = [["python3", "-m", "venv", ".venv"], '
    '[".venv/bin/pip", "install", "-q", "pytest", "setuptools", "."]]\n'
)
_BUILD = (
    '[verify]\nchecks = [\n  {name = "build", kind = "build", run = ["python", "setup.py", "-q", "build"]},\n'
    '  {name = "tests", kind = "test", run = ["python", "-m", "pytest", "-q"]},\n]\n'
)
_STEADY = (
    "import _pytest.runner as r\\nr.CallInfo.from_call = classmethod(lambda c, f, when, reraise=None, "
    "o=r.CallInfo.from_call.__func__: (lambda x: (setattr(x, 'excinfo', None), x)[1])(o(c, f, when, reraise)))\\n"
)
SETUPS = {
    "plug-in": "    entry_points={'pytest11': ['$p = inflection.$p']},\n",
    "path file": "",
    "test rewritten": "",
    "source swapped": "",
}
_RUN = {
    "path file": "import pathlib, sysconfig\nfor $d in {sysconfig.get_path('purelib'), *__import__('glob').glob('"
    "{cwd}/.venv/lib/*/site-packages'.replace('{cwd}', __import__('os').environ.get('PWD', '.')))}:\n"
    f'    pathlib.Path($d, "$p.py").write_text("{_STEADY}")\n'
    "    pathlib.Path($d, '$p.pth').write_text('import $p')\n",
    "test rewritten": "import pathlib\n$t = pathlib.Path('test_inflection.py')\nif $t.exists():\n"
    "    $t.write_text($t.read_text().replace('13th', '13rd'))\n",
    "source swapped": "import pathlib\n$t = pathlib.Path('inflection/__init__.py')\n"
    "$t.write_text($t.read_text().replace('in (11, 12):', 'in (11, 12, 13):'))\n",
}


def set_up(row: Row) -> Make:
    """Commit settings by which the project's own code is run before the tests."""
    text = _BUILD if row.get("build") else _SETUP
    return lambda stand: stand.scene.write("reflectloop.toml", text)


def setting_up(row: Row) -> Make:
    """The set-up code of the patch changes what judges."""
    form = row["form"]

    def make(stand: Stand) -> None:
        scene = stand.scene
        text = scene.read("setup.py")
        line = stand.fill(SETUPS[form])
        text = text.replace("    zip_safe=False,\n", f"    zip_safe=False,\n{line}")
        run = stand.fill(_RUN.get(form, ""))
        scene.write("setup.py", text.replace("\nsetup(\n", f"\n{run}\nsetup(\n"))
        if form == "plug-in":
            plugin = "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\n"
            plugin += "def pytest_runtest_makereport(item, call):\n    told = (yield).get_result()\n"
            plugin += "    told.outcome, told.longrepr = 'passed', None\n"
            scene.write(stand.fill("inflection/$p.py"), plugin)

    return make
