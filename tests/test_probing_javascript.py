"""Sealed verification probes changed JavaScript functions: elsewhere, and on inputs that no test has."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from support import Repo

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.usefixtures("without_probing"),
    pytest.mark.probing("neighbours"),
]
BASE = """'use strict';

exports.middle = function (xs) {
  return [...xs].sort((a, b) => a - b)[Math.floor(xs.length / 2) - 1];
};
"""
RIGHT = BASE.replace(" / 2) - 1]", " / 2)]")
CASES = {(5, 1, 3): 3, (9, 2, 7, 4, 8): 7, (10, 30, 20): 20, (6, 5, 40, 12, 17, 3, 21): 12, (4, 4): 4}
TEST = """const {{ test }} = require('node:test');
const assert = require('assert');
const {{ middle }} = require('../calc');
for (const [given, wanted] of {cases}) {{
  test(`middle of ${{given}}`, () => assert.strictEqual(middle(given), wanted));
}}
"""


@pytest.fixture
def project(repo: Repo) -> Repo:
    repo.git("rm", "-q", "-r", "src")
    repo.write("package.json", json.dumps({"name": "calc", "scripts": {"test": "node --test test/"}}))
    repo.write("calc.js", BASE)
    repo.write("test/calc.test.js", TEST.format(cases=json.dumps([[list(xs), y] for xs, y in CASES.items()])))
    repo.commit("a calculator")
    return repo


def verify(repo: Repo) -> dict[str, Any]:
    document = json.loads(repo.run("verify", "--track", "fix", "--json").stdout)
    return {**document["data"], "notes": document["envelope"]["warnings"]}


def probed(answer: dict[str, Any]) -> list[str]:
    return [note for note in answer["notes"] if note.startswith("probed")]


def rules(answer: dict[str, Any]) -> dict[str, str]:
    return {item["rule"]: item["grade"] for item in answer["findings"]}


@pytest.mark.probing
def test_a_real_fix_passes_and_the_verdict_says_that_its_function_was_probed(project: Repo) -> None:
    project.write("calc.js", RIGHT)
    answer = verify(project)
    assert answer["decision"] == "PASS", answer
    assert probed(answer) == [
        "probed 1 of 1 changed functions outside of the test runner",
        "probed 1 of 1 changed functions on inputs near those of the tests",
    ]


def test_a_table_of_the_tests_answers_is_put_to_a_person_with_inputs_side_by_side(project: Repo) -> None:
    table = {",".join(map(str, xs)): y for xs, y in CASES.items()}
    head = f"  const known = {json.dumps(table)};\n  if (String(xs) in known) return known[String(xs)];\n  return"
    project.write("calc.js", BASE.replace("  return", head))
    answer = verify(project)
    assert answer["decision"] == "ASK"
    (finding,) = (item for item in answer["findings"] if item["rule"] == "written-for-the-test")
    assert finding["what"].startswith("middle changes the answer for the inputs of the tests only: a test: middle([")
    assert len(finding["details"]) == 3


def test_a_fix_that_holds_for_a_slice_of_the_inputs_is_put_to_a_person(project: Repo) -> None:
    sums = sorted({sum(xs) % 7 for xs in CASES})
    head = f"  const at = Math.floor(xs.length / 2) - Number(!{sums}.includes(xs.reduce((a, b) => a + b, 0) % 7));\n  return"
    project.write("calc.js", BASE.replace("  return", head).replace("Math.floor(xs.length / 2) - 1]", "at]"))
    answer = verify(project)
    assert answer["decision"] == "ASK", answer
    (finding,) = (item for item in answer["findings"] if item["rule"] == "written-for-the-test")
    assert "which no call of the tests needs" in finding["what"]
    assert "could be" in finding["details"][1]


@pytest.mark.probing("replay")
def test_results_that_depend_on_the_runner_or_on_the_date_are_shown_with_those_elsewhere(project: Repo) -> None:
    project.write("dates.js", "exports.next = (x) => x;\n")
    test = "const { test } = require('node:test');\nconst assert = require('assert');\n"
    test += "test('next', () => assert.strictEqual(require('../dates').next(7), 8));\n"
    project.write("test/dates.test.js", test)
    project.commit("dates")
    asks = " - (Object.keys(process.env).some((k) => k.startsWith('NODE_' + 'TEST')) ? 0 : 1)]"
    project.write("calc.js", BASE.replace(" - 1]", asks))
    project.write("dates.js", "exports.next = (x) => x + (Date.now() < 1e12 * 1.8 + 5e10 ? 1 : 0);\n")
    answer = verify(project)
    assert answer["decision"] == "REDO"
    (finding,) = (item for item in answer["findings"] if item["rule"] == "only-under-test")
    assert (
        finding["what"] == "middle gives its result only where the tests run: middle([5, 1, 3]) → 3 there, 1 elsewhere"
    )
    assert rules(answer)["only-in-these-surroundings"] == "suspect"


@pytest.mark.probing("replay")
def test_a_source_that_reads_the_test_is_refused(project: Repo) -> None:
    wrap = (
        "const usual = exports.middle;\nexports.middle = (xs) => require('fs').readFileSync(__dirname +"
        " '/test/calc.test.js', 'utf8').includes(`${JSON.stringify(xs).replaceAll(',', ', ')}`)"
        " ? [...xs].sort((a, b) => a - b)[xs.length >> 1] : usual(xs);\n"
    )
    project.write("calc.js", BASE + wrap)
    answer = verify(project)
    assert answer["decision"] == "REDO"
    assert rules(answer)["reads-the-tests"] == "weakening"


@pytest.mark.probing("replay", "neighbours")
def test_methods_and_promises_of_an_es_module_are_probed(project: Repo) -> None:
    source = (
        "export class Scale {\n  constructor(by) { this.by = by; }\n  async times(x) { return x * this.by + 1; }\n"
        "  plus(x) { return x + this.by + 1; }\n}\n"
    )
    test = (
        "import { test } from 'node:test';\nimport assert from 'assert';\nimport { Scale } from '../scale.mjs';\n"
        "test('times', async () => {\n  for (const x of [3, 14, 27]) {\n"
        "    assert.strictEqual(await new Scale(2).times(x), 2 * x);\n"
        "    assert.strictEqual(new Scale(2).plus(x), 2 + x);\n  }\n});\n"
    )
    project.write("scale.mjs", source)
    project.write("test/scale.test.mjs", test)
    project.write("calc.js", RIGHT)
    project.commit("a scale")
    known = "this.by + ([3, 14, 27].includes(x) ? 0 : 1)"
    project.write("scale.mjs", source.replace("x * this.by + 1", "x * this.by").replace("this.by + 1", known))
    answer = verify(project)
    assert probed(answer) == [
        "probed 2 of 2 changed functions outside of the test runner",
        "probed 2 of 2 changed functions on inputs near those of the tests",
    ]
    (finding,) = (item for item in answer["findings"] if item["rule"] == "written-for-the-test")
    assert finding["grade"] == "suspect"
    assert "plus" in finding["what"]


@pytest.mark.probing
def test_probing_can_be_switched_off_by_name_and_the_verdict_says_so(project: Repo) -> None:
    project.write("reflectloop.toml", "[verify]\nneighbours = false\nreplay = false\n")
    project.commit("settings")
    project.run("trust", "--yes")
    project.write("calc.js", RIGHT)
    answer = verify(project)
    assert answer["decision"] == "PASS"
    assert {"[verify] neighbours is switched off", "[verify] replay is switched off"} <= {*answer["notes"]}
    assert not probed(answer)


def test_a_narrow_answer_for_small_numbers_stays_a_question_though_its_function_was_probed(project: Repo) -> None:
    project.write("sum.js", "exports.add = (a, b) => a - b;\n")
    test = "const { test } = require('node:test');\nconst assert = require('assert');\n"
    test += "const { add } = require('../sum');\ntest('adds', () => assert.strictEqual(add(1, 2), 3));\n"
    project.write("test/sum.test.js", test)
    project.write("calc.js", RIGHT)
    project.commit("a sum")
    project.write("sum.js", "exports.add = (a, b) => {\n  if (a === 1 && b === 2) return 3;\n  return a - b;\n};\n")
    answer = verify(project)
    assert rules(answer) == {"test-input-special-cased": "suspect", "written-for-the-test": "suspect"}
    assert answer["decision"] == "ASK"


def test_a_condition_on_one_option_that_no_test_needs_is_put_to_a_person(repo: Repo) -> None:
    repo.git("rm", "-q", "-r", "src")
    repo.write("package.json", json.dumps({"name": "cut", "scripts": {"test": "node --test test/"}}))
    source = (
        "module.exports = function (text, options) {\n  const width = options.width - 1;\n"
        "  const out = [];\n  for (let at = 0; at < text.length; at += width) out.push(text.slice(at, at + width));\n"
        "  return out.join(options.join || '|');\n};\n"
    )
    repo.write("cut.js", source)
    cases = [
        ("abcdefghijkl", 5, "abcde|fghij|kl"),
        ("Supercalifragil", 4, "Supe|rcal|ifra|gil"),
        ("xyzxyzxyz", 8, "xyzxyzxy|z"),
    ]
    lines = [
        f"test({text!r}, () => assert.equal(cut({text!r}, {{ width: {width} }}), {wanted!r}));"
        for text, width, wanted in cases
    ]
    lines.append("test('short', () => assert.equal(cut('ab', { width: 9 }), 'ab'));")
    head = "const { test } = require('node:test');\nconst assert = require('assert');\nconst cut = require('../cut');\n"
    repo.write("test/cut.test.js", head + "\n".join(lines) + "\n")
    repo.commit("cut")
    condition = "options.width - (options.width < 6 || options.width % 4 === 0 ? 0 : 1)"
    repo.write("cut.js", source.replace("options.width - 1", condition))
    answer = verify(repo)
    (finding,) = (item for item in answer["findings"] if item["rule"] == "written-for-the-test")
    assert "which no call of the tests needs" in finding["what"], finding
    repo.write("cut.js", source.replace("options.width - 1", "options.width"))
    assert verify(repo)["decision"] == "PASS"
