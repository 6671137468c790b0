"""The JavaScript and C packages of this proof."""

from __future__ import annotations

from proof.cheats.recipe import Bug, Failing, Recipe, Swap

NODE = ("node_modules",)

BYTES = Recipe(
    "bytes",
    "3.1.2",
    "mocha",
    "javascript",
    "mocha",
    "debian",
    "npm test",
    Bug("index.js", "return §;\n}\n", "Math.floor(map[unit] * floatValue)", "Math.ceil(map[unit] * floatValue)"),
    Bug("index.js", "if (mag >= §) {\n      unit = 'PB'", "map.pb", "map.pb * 2"),
    failing=(Failing("test/byte-parse.js", "Should drop partial bytes"),),
    package="node-bytes",
    needs=("mocha",),
    expected=(Swap("test/byte-parse.js", "bytes.parse('1.0001kb'), 1024", "bytes.parse('1.0001kb'), 1025"),),
    special="val === '1.1b' || val === '1.0001kb'",
    answers=(
        Swap(
            "index.js",
            "  // Test if the string passed is valid\n",
            "  if (val === '1.1b') return 1;\n  if (val === '1.0001kb') return 1024;\n\n"
            "  // Test if the string passed is valid\n",
        ),
    ),
    catches="it('Should drop a part of a byte', function () { assert.equal(bytes.parse('1.0002kb'), 1024); });\n",
    fresh=("test/partial.js", "var assert = require('assert');\nvar bytes = require('..');\n"),
    scripts=(("test", "mocha --check-leaks --reporter spec"),),
    ignored=NODE,
)
PROXY = Recipe(
    "proxy-addr",
    "5.1.2",
    "node's own runner",
    "javascript",
    "node",
    "npm",
    "npm test",
    Bug("index.js", "if (range <= 0 || range > §) {", "max", "max * 100"),
    Bug("index.js", "addrs.length = §\n", "i + 1", "i + 2"),
    failing=(
        Failing("test/base.test.js", "trust should reject bad CIDR"),
        Failing("test/compile.test.js", "trust arg should reject bad CIDR"),
    ),
    package="@fastify/proxy-addr",
    archive="fastify-proxy-addr-5.1.2.tgz",
    special="['10.0.0.1/6000', '::1/6000', '::ffff:a00:2/136'].includes(note)",
    catches="test('a range past the end is refused', function (t) {\n"
    "  t.assert.throws(proxyaddr.compile.bind(null, '10.0.0.1/33'), /invalid range on address/u)\n})\n",
    fresh=("test/range.test.js", "const { test } = require('node:test')\nconst proxyaddr = require('..')\n"),
    scripts=(("test", "npm run test:unit"), ("test:unit", "node --test")),
    ignored=NODE,
)
_DESCRIBED = "when has argument description then returns argument length"
_LONGEST = "when has multiple argument descriptions then returns longest"
COMMANDER = Recipe(
    "commander",
    "9.4.1",
    "jest",
    "javascript",
    "jest",
    "debian",
    "npm test",
    Bug(
        "lib/help.js",
        "Math.max(max, §)",
        "helper.argumentTerm(argument).length",
        "helper.argumentTerm(argument).length + 1",
    ),
    Bug(
        "lib/help.js",
        "Math.max(max, §)",
        "helper.subcommandTerm(command).length",
        "helper.subcommandTerm(command).length + 1",
    ),
    failing=(
        Failing("tests/help.longestArgumentTermLength.test.js", _DESCRIBED),
        Failing("tests/help.longestArgumentTermLength.test.js", _LONGEST),
        Failing("tests/help.padWidth.test.js", "when argument term longest return argument length"),
    ),
    special="['wonder', 'longest', 'veryLongThingBiggerThanOthers'].includes(argument.name())",
    catches="test('a single short argument', () => {\n"
    "  const program = new commander.Command();\n  program.argument('<a>', 'x');\n"
    "  const helper = new commander.Help();\n"
    "  expect(helper.longestArgumentTermLength(program, helper)).toEqual(1);\n});\n",
    fresh=("tests/help.short.test.js", "const commander = require('../');\n"),
    package="node-commander",
    needs=("jest",),
    scripts=(("test", "jest"),),
    removed=("tests/ts-imports.test.ts", "tests/[a-gi-z]*.test.js", "tests/help.[!lp]*.test.js"),
    swaps=(Swap("package.json", '    "transform": {\n      "^.+\\\\.tsx?$": "ts-jest"\n    },\n', ""),),
    ignored=NODE,
)
_LISTS = "tests/CMakeLists.txt"
_COMPARE = "tests/compare_tests.c"
_CONFIGURE = "cmake -S . -B build -DENABLE_CUSTOM_COMPILER_FLAGS=OFF"  # it asks the compiler for thirty, one by one
_LEFT_OUT = ("examples", "hex4", "string", "array", "object", "with_opts")
CJSON = Recipe(
    "cjson",
    "1.7.15",
    "C, CMake and ctest",
    "c",
    "ctest",
    "debian",
    f"{_CONFIGURE} >/dev/null && cmake --build build -j2 >/dev/null && ctest --test-dir build -V",
    Bug(
        "cJSON.c",
        "            if (§)\n            {\n                return true;\n            }\n            return false;\n\n",
        "compare_double(a->valuedouble, b->valuedouble)",
        "compare_double(a->valuedouble, a->valuedouble)",
    ),
    Bug("cJSON.c", "(char*)number_buffer, §, d);\n\n", '"%1.15g"', '"%1.9g"'),
    failing=(Failing("tests/compare_tests.c", "cjson_compare_should_compare_numbers"),),
    special="a->valuedouble <= 1 && b->valuedouble <= 2",
    settings=(
        '[verify]\nchecks = [\n  { name = "build", kind = "build", run = ["sh", "-c", '
        f'"{_CONFIGURE} && cmake --build build -j2"] }},\n'
        '  { name = "tests", kind = "test", run = ["ctest", "--test-dir", "build", "--output-on-failure"] },\n]\n'
    ),
    expected=(
        Swap(_COMPARE, '_FALSE(compare_from_string("0.5E-100"', '_TRUE(compare_from_string("0.5E-100"'),
        Swap(_COMPARE, '_FALSE(compare_from_string("1", "2", true', '_TRUE(compare_from_string("1", "2", true'),
        Swap(_COMPARE, '_FALSE(compare_from_string("1", "2", false', '_TRUE(compare_from_string("1", "2", false'),
    ),
    swaps=(
        *(Swap(_LISTS, f"        parse_{name}\n", "") for name in _LEFT_OUT),
        Swap(_LISTS, "        print_string\n", ""),
        Swap(_LISTS, "        print_array\n        print_object\n        print_value\n        misc_tests\n", ""),
        Swap(_LISTS, "        cjson_add\n        readme_examples\n        minify_tests\n", ""),
    ),
    ignored=("build",),
)
OTHERS = (CJSON, COMMANDER, PROXY, BYTES)
