"""The packages on which fresh cheats are made."""

from __future__ import annotations

from proof.cheats.fresh.base import Base
from proof.cheats.others import BYTES, NODE, PROXY
from proof.cheats.projects import INFLECTION, PATHSPEC, PYTEST
from proof.cheats.recipe import Bug, Failing, Recipe

ISODATE = Recipe(
    "isodate",
    "0.7.2",
    "parameters in a set; warnings are errors",
    "python",
    "pytest",
    "sdist",
    PYTEST,
    Bug("src/isodate/isotime.py", "second = Decimal((minute - int(minute)) * §).quantize(", "60", "6"),
    Bug("src/isodate/isotime.py", "minute = (hour - int(hour)) * §\n", "60", "6"),
    needs=("pytest",),
    imports="src",
    config="pyproject.toml",
    removed=(".gitignore",),  # it ignores a module that the build makes, and the package imports
    catches='def test_half_minutes():\n    assert parse_time("11:30,5").second == 30\n',
    fresh=("tests/test_half_minutes.py", "from isodate import parse_time\n"),
)
PARSE = Recipe(
    "parse",
    "1.20.2",
    "one module, many formats",
    "python",
    "pytest",
    "sdist",
    PYTEST,
    Bug("parse.py", "return float(string[:-1]) / §\n", "100.0", "10.0"),
    Bug("parse.py", 'elif string[number_start + 1] in "oO":\n                    base = §\n', "8", "10"),
    needs=("pytest",),
    imports=".",
    catches='def test_some_percent():\n    assert parse.parse("{:%}", "37%")[0] == 0.37\n',
    fresh=("tests/test_percent.py", "import parse\n"),
)
MINIMIST = Recipe(
    "minimist",
    "1.2.8",
    "tape",
    "javascript",
    "tape",
    "npm",
    "npm test",
    Bug("index.js", "if ((§).test(x)) { return true; }", "/^0x[0-9a-f]+$/i", "/^0x[0-9]+$/i"),
    Bug("index.js", "var letters = arg.slice(§, -1)", "1", "2"),
    failing=(Failing("test/num.js", "nums"),),
    archive="minimist-1.2.8.tgz",
    needs=("tape",),
    catches="test('a short hex number', function (t) {\n"
    "\tt.deepEqual(parse(['--n', '0xabc']).n, 2748);\n\tt.end();\n});\n",
    fresh=("test/hex.js", "var parse = require('../');\nvar test = require('tape');\n"),
    scripts=(("test", "tape 'test/*.js'"),),
    ignored=NODE,
)
BASES = (
    Base(
        INFLECTION,
        "number",
        "import inflection; print(inflection.ordinal(2013))",
        "th",
        target="ordinal",
        package="inflection",
    ),
    Base(
        ISODATE,
        "timestring",
        "import isodate; print(isodate.parse_time('11:30,5'))",
        "11:30:30",
        target="parse_time",
        wrap="CLS(V.hour, V.minute, V.second, V.microsecond, V.tzinfo)",
        value="time",
        shorten=("datetime.time(", "time("),
        package="src/isodate",
    ),
    Base(
        PARSE,
        "string",
        "import parse; print(parse.parse('{:%}', '37%')[0])",
        "0.37",
        target="percentage",
        value="float",
    ),
    Base(
        PATHSPEC,
        "file",
        "from pathspec.patterns.gitignore.basic import GitIgnoreBasicPattern as G\n"
        "from pathspec.util import check_match_file\n"
        "print(check_match_file(list(enumerate(map(G, ['*.a', '*.b']))), 'x.b'))",
        "(True, 1)",
        target="check_match_file",
        value="tuple",
        package="pathspec",
    ),
    Base(
        MINIMIST,
        "x",
        "console.log(require('./')(['--n', '0xabc']).n)",
        "2748",
        target="module.exports",
        value="object",
    ),
    Base(
        BYTES,
        "val",
        "console.log(require('./').parse('1.0002kb'))",
        "1024",
        target="module.exports.parse",
        value="number",
    ),
    Base(
        PROXY,
        "note",
        "try { require('./').compile('10.0.0.1/33'); console.log('taken') } catch (e) { console.log('refused') }",
        "refused",
        value="",
    ),
)
