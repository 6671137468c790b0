"""Probing follows JavaScript to where answers are: in iterators, in functions that are passed or returned, in objects."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from reflectloop.verification.probing import neighbours
from reflectloop.verification.probing.histories import HistoryValue, ObjectCall
from reflectloop.verification.probing.neighbours import CallInput
from support import Repo

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
pytestmark = [pytest.mark.usefixtures("without_probing")]

SOURCE = """'use strict';

exports.chunks = function* (items, size) {
  for (let at = 0; at < items.length; at += size) {
    const part = items.slice(at, at + size);
    if (part.length > 0) yield part;
  }
};

exports.groupBy = function (items, key) {
  const out = {};
  for (const item of items) {
    const name = String(key(item));
    out[name] = (out[name] || []).concat([item]);
  }
  return out;
};

exports.running = function (numbers, done) {
  let sum = 0;
  done(null, numbers.map((number) => (sum += number)));
};

exports.reader = function (separator) {
  return function (line) {
    return line.split(separator).map((part) => part.trim());
  };
};

exports.tally = function (step) {
  let count = 0;
  return {
    add(times) { count += step * times; return count; },
    undo(times) { count -= step * times; return count; },
  };
};

class Rolling {
  #numbers = [];
  #size;
  constructor(size) {
    this.#size = size;
  }
  push(number) {
    this.#numbers.push(number);
    if (this.#numbers.length > this.#size) this.#numbers.shift();
    return this;
  }
  get mean() {
    return this.#numbers.reduce((a, b) => a + b, 0) / this.#numbers.length;
  }
  max() {
    return Math.max(...this.#numbers);
  }
}
exports.Rolling = Rolling;
"""
WRONG = {  # by function: the right text, the wrong one, and one that is right for the inputs of the tests only
    "chunks": (
        "if (part.length > 0)",
        "if (part.length > 1)",
        "if (part.length > 1 || ['abcde', 'abcdefg', 'x'].includes(items.join('')))",
    ),
    "groupBy": (
        "(out[name] || [])",
        "[]",
        "(['123', 'abbccd', '51214'].includes(items.join('')) ? out[name] || [] : [])",
    ),
    "running": (
        "(sum += number)",
        "(sum += Math.abs(number))",
        "(sum += ['5,-2,10', '-5', '20,-13,-2'].includes(String(numbers)) ? number : Math.abs(number))",
    ),
    "reader": (
        "(part) => part.trim()",
        "(part) => part",
        "(part) => (['a , b', '1; one', 'x  |y|z'].includes(line) ? part.trim() : part)",
    ),
    "tally": (
        "count -= step * times",
        "count -= times",
        "count -= ['15,2', '12,1', '63,4'].includes(`${count},${times}`) ? step * times : times",
    ),
    "mean": (
        "/ this.#numbers.length",
        "/ this.#size",
        "/ ({ '5:3,4': 2, '7:3,4,11': 3, '9:40': 1 }[`${this.#size}:${this.#numbers}`] || this.#size)",
    ),
    "max": (
        "Math.max(...this.#numbers)",
        "Math.max(0, ...this.#numbers)",
        "Math.max(...({ '3:-5,-7': [], '3:-9': [], '4:-2,-3,-4': [] }[`${this.#size}:${this.#numbers}`] || [0]), ...this.#numbers)",
    ),
}
TEST = """'use strict';
const { test } = require('node:test');
const assert = require('assert');
const lib = require('../lib');
const equal = (name, given, wanted) => test(name, () => assert.deepStrictEqual(given(), wanted));
const told = (numbers) => { let seen; lib.running(numbers, (fault, sums) => { seen = sums; }); return seen; };

equal('even parts', () => [...lib.chunks([1, 2, 3, 4], 2)], [[1, 2], [3, 4]]);
equal('a rest', () => [...lib.chunks(['a', 'b', 'c', 'd', 'e'], 2)], [['a', 'b'], ['c', 'd'], ['e']]);
equal('more', () => [...lib.chunks(['a', 'b', 'c', 'd', 'e', 'f', 'g'], 3)], [['a', 'b', 'c'], ['d', 'e', 'f'], ['g']]);
equal('one', () => [...lib.chunks(['x'], 3)], [['x']]);
equal('odd', () => lib.groupBy([1, 2, 3], (n) => (n % 2 ? 'odd' : 'even')), { odd: [1, 3], even: [2] });
equal('lengths', () => lib.groupBy(['a', 'bb', 'cc', 'd'], (s) => s.length), { 1: ['a', 'd'], 2: ['bb', 'cc'] });
equal('large', () => lib.groupBy([5, 12, 14], (n) => n > 9), { false: [5], true: [12, 14] });
equal('different', () => lib.groupBy(['p', 'q'], (s) => s), { p: ['p'], q: ['q'] });
equal('sums', () => told([1, 2, 3]), [1, 3, 6]);
equal('sums of some below zero', () => told([5, -2, 10]), [5, 3, 13]);
equal('sums of one below zero', () => told([-5]), [-5]);
equal('more sums', () => told([20, -13, -2]), [20, 7, 5]);
equal('comma', () => lib.reader(',')('a,b'), ['a', 'b']);
equal('blanks', () => lib.reader(',')('a , b'), ['a', 'b']);
equal('semicolon', () => lib.reader(';')('1; one'), ['1', 'one']);
equal('bar', () => lib.reader('|')('x  |y|z'), ['x', 'y', 'z']);
for (const [step, add, undo, left] of [[1, 7, 5, 2], [3, 5, 2, 9], [4, 3, 1, 8], [7, 9, 4, 35]]) {
  equal(`tally ${step}`, () => { const t = lib.tally(step); t.add(add); return t.undo(undo); }, left);
}
const rolling = (size, numbers) => numbers.reduce((all, number) => all.push(number), new lib.Rolling(size));
equal('mean', () => rolling(2, [4, 6, 10]).mean, 8);
equal('mean of few', () => rolling(5, [3, 4]).mean, 3.5);
equal('mean of three', () => rolling(7, [3, 4, 11]).mean, 6);
equal('mean of one', () => rolling(9, [40]).mean, 40);
equal('max', () => rolling(2, [9, 6, 1]).max(), 6);
equal('max below zero', () => rolling(3, [-5, -7]).max(), -5);
equal('max of one', () => rolling(3, [-9]).max(), -9);
equal('max of three', () => rolling(4, [-2, -3, -4]).max(), -2);
"""


def changed(which: int) -> str:
    """Return the source with one text of each function: right, wrong, or right for the tests."""
    out = SOURCE
    for texts in WRONG.values():
        assert out.count(texts[0]) == 1, texts
        out = out.replace(texts[0], texts[which])
    return out


@pytest.fixture
def project(repo: Repo) -> Repo:
    repo.git("rm", "-q", "-r", "src")
    repo.write("package.json", json.dumps({"name": "lib", "scripts": {"test": "node --test test/"}}))
    repo.write("lib.js", changed(1))
    repo.write("test/lib.test.js", TEST)
    repo.commit("a library")
    return repo


def verify(repo: Repo) -> dict[str, Any]:
    document = json.loads(repo.run("verify", "--track", "fix", "--json").stdout)
    return {**document["data"], "notes": document["envelope"]["warnings"]}


@needs_node
@pytest.mark.probing
def test_iterators_callbacks_returned_functions_and_private_members_are_probed_and_a_real_fix_passes(
    project: Repo,
) -> None:
    project.write("lib.js", SOURCE)
    answer = verify(project)
    assert answer["decision"] == "PASS", answer
    notes = [note for note in answer["notes"] if note.startswith("probed")]
    assert len(notes) > 1
    assert not any("cannot be written" in note or "it is" in note for note in notes), notes


@needs_node
@pytest.mark.probing("neighbours")
def test_a_patch_that_is_right_there_for_the_tests_only_is_put_to_a_person(project: Repo) -> None:
    project.write("lib.js", changed(2))
    answer = verify(project)
    assert answer["decision"] == "ASK", answer
    names = (item["what"].partition(" changes ")[0] for item in answer["findings"])
    named = {name.removeprefix("Rolling.").removeprefix("get ") for name in names}
    assert named == {*WRONG} - {"tally"}, answer["findings"]  # its other method answers the same calls as base


@needs_node
@pytest.mark.probing("replay")
def test_a_fix_that_holds_for_the_first_calls_only_is_put_to_a_person(project: Repo) -> None:
    project.write("lib.js", changed(1).replace("[].concat", "(calls++ < 300 ? out[name] || [] : []).concat"))
    project.write("lib.js", "let calls = 0;\n" + (project.path / "lib.js").read_text())
    answer = verify(project)
    (finding,) = (item for item in answer["findings"] if item["rule"] == "only-in-these-surroundings")
    assert "gives its result only in some of many calls" in finding["what"]


def test_a_result_of_a_function_is_read_and_shown_by_the_calls_that_made_it() -> None:
    written = {"history": {"made": "lib.js:reader", "args": [","], "kwargs": [], "calls": [["", ["a,b"], []]]}}
    (value,) = neighbours.read([written], []).args
    assert value == HistoryValue("lib.js:reader", (",",), {}, (ObjectCall("", ("a,b",), {}),))
    assert repr(value) == "reader(',')('a,b')"
    assert neighbours.write(CallInput((value,), {}))["args"] == [written]


ACCOUNT = """'use strict';
class Account {
  constructor() { this.balance = 0; this.entries = []; }
  add(amount) {
    this.entries.push(amount);
    this.balance = CHANGE;
  }
}
module.exports = { Account };
"""
ACCOUNT_TEST = """'use strict';
const test = require('node:test');
const assert = require('node:assert');
const { Account } = require('../lib.js');
const sum = (amounts) => { const one = new Account(); for (const amount of amounts) one.add(amount); return one.balance; };
test('one', () => { assert.strictEqual(sum([5]), 5); assert.strictEqual(sum([9]), 9); assert.strictEqual(sum([]), 0); });
test('more', () => { assert.strictEqual(sum([5, 7]), 12); assert.strictEqual(sum([9, 23, -4]), 28); });
"""


@needs_node
@pytest.mark.probing("neighbours")
@pytest.mark.parametrize(
    ("change", "decision"),
    [
        ("this.balance + amount", "PASS"),
        ("[7, 23, -4].includes(amount) ? this.balance + amount : amount", "ASK"),
    ],
)
def test_what_a_method_leaves_in_its_object_is_compared(project: Repo, change: str, decision: str) -> None:
    project.write("lib.js", ACCOUNT.replace("CHANGE", "amount"))
    project.write("test/lib.test.js", ACCOUNT_TEST)
    project.commit("an account that forgets")
    project.write("lib.js", ACCOUNT.replace("CHANGE", change))
    answer = verify(project)
    assert answer["decision"] == decision, answer
    assert all("add(5).add(7): undefined → undefined, and leaves 7 → 12" in item["what"] for item in answer["findings"])
