"""Processes of JavaScript tests tell what they do: changed assertions, runners and reports are noticed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from observed_runs import ObservedRun, observe, write

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
pytestmark = needs_node
NODE = shutil.which("node") or "node"
WRONG = "exports.add = (a, b) => a - b;\n"
TEST = """
const assert = require('assert'); const { add } = require('./calc');
test('zero', () => assert.strictEqual(add(0, 0), 0));
test('adds', () => assert.strictEqual(add(1, 2), 3));
"""
# A runner with the interface of mocha: its files, its globals, its options and its report.
MOCHA = """
class Test { constructor(title, fn) { this.title = title; this.fn = fn; this.file = require('path').resolve('test.js'); }
  fullTitle() { return this.title; } }
class Suite { constructor() { this.tests = []; this.hooks = { after: [], afterEach: [] }; }
  addTest(test) { this.tests.push(test); } }
class Runner extends require('events') {
  constructor(suite) { super(); this.suite = suite; }
  fail(test) { test.state = 'failed'; this.emit('fail', test); }
  one(test) { try { test.fn(); test.state = 'passed'; this.emit('pass', test); } catch (error) { this.fail(test); }
    for (const hook of this.suite.hooks.afterEach) hook.call({ currentTest: test }); }
  run(done) { setImmediate(() => { this.suite.tests.forEach((test) => this.one(test));
    const left = [...this.suite.hooks.after];
    const next = () => left.length ? left.shift().call({ timeout() {} }, next) : done(); next(); }); return this; }
}
class Mocha { constructor() { this.suite = new Suite(); } run(done) { return new Runner(this.suite).run(done); } }
module.exports = Object.assign(Mocha, { Test, Suite, Runner });
"""
PROGRAM = """#!/usr/bin/env node
const Mocha = require('../lib/mocha.js'); const path = require('path');
const option = (name) => process.argv.map((word) => word.split(name)).find((parts) => parts.length === 2)?.[1];
if (process.argv.filter((word) => /^(-R|--reporter)(=|$)/.test(word)).length > 1) throw Error('one reporter only');
const mocha = new Mocha(); const { suite } = mocha;
global.test = (title, fn) => suite.addTest(new Mocha.Test(title, fn));
global.after = (fn) => suite.hooks.after.push(fn); global.afterEach = (fn) => suite.hooks.afterEach.push(fn);
if (option('--file=')) require(option('--file='));
require(path.resolve('test.js'));
const runner = mocha.run(() => runner.emit('end'));
runner.on('fail', () => { process.exitCode = 1; });
new (require(option('--reporter=')))(runner, {});
"""
RUNNER = "require.cache[Object.keys(require.cache).find((key) => key.endsWith('mocha/lib/mocha.js'))].exports"
MOCHA_CHEATS = {
    "an assertion": "const check = require('assert'); check.strictEqual = () => {};",
    "an assertion about one value": (
        "const old = require('assert').strictEqual;"
        "require('assert').strictEqual = (a, b) => { if (b !== 3) old(a, b); };"
    ),
    "the runner": (
        f"{RUNNER}.Runner.prototype.fail = function (test) {{ test.state = 'passed'; this.emit('pass', test); }};"
    ),
    "the report, at the exit": """
const fs = require('fs');
const out = process.argv.find((word) => word.includes('--reporter=')).split('=')[1].replace(/[.]cjs$/, '');
process.on('exit', () => { const { passes, failures } = JSON.parse(fs.readFileSync(out));
  fs.writeFileSync(out, JSON.stringify({ stats: {}, passes: [...passes, ...failures], failures: [] }));
  process.exitCode = 0; });
""",
    "the report, before an early end": """
const fs = require('fs');
const out = process.argv.find((word) => word.includes('--reporter=')).split('=')[1].replace(/[.]cjs$/, '');
exports.add = () => { const passes = [{ fullTitle: 'zero' }, { fullTitle: 'adds' }];
  fs.writeFileSync(out, JSON.stringify({ stats: {}, passes, failures: [] })); process.reallyExit(0); };
""",
}


def mocha(tmp_path: Path, source: str, *options: str) -> ObservedRun:
    files = {"calc.js": source, "test.js": TEST, "node_modules/mocha/lib/mocha.js": MOCHA}
    project = write(tmp_path / "project", {**files, "node_modules/mocha/bin/mocha": PROGRAM})
    (project / "node_modules/mocha/bin/mocha").chmod(0o755)
    return observe(project, "mocha", ("node_modules/mocha/bin/mocha", *options))


# A runner that tells an environment what happens, as jest does.
JEST = """#!/usr/bin/env node
const Environment = require('../environment.js'); const fs = require('fs'); const path = require('path');
const out = process.argv.find((word) => word.startsWith('--outputFile=')).split('=')[1];
const environment = new Environment(); const tests = [];
const tell = (event) => environment.handleTestEvent && environment.handleTestEvent(event, {});
global.test = (name, fn) => tests.push({ name, fn, errors: [], parent: { name: 'ROOT', parent: null } });
global.expect = (value) => ({ toBe(wanted) { if (expect.held(value, wanted)) return; throw new Error('not equal'); },
  toEqual(wanted) { if (JSON.stringify(value) !== JSON.stringify(wanted)) throw new Error('not equal'); } });
expect.held = Object.is;
tell({ name: 'setup' });
require(path.resolve('test.js'));
tell({ name: 'run_start' });
for (const test of tests) {
  try { test.fn(); } catch (error) { test.errors.push(error); }
  tell({ name: 'test_done', test });
}
tell({ name: 'run_finish' });
const status = (test) => (test.errors.length ? 'failed' : 'passed');
const results = tests.map((test) => ({ status: status(test), title: test.name, ancestorTitles: [] }));
const report = { numTotalTests: tests.length, wasInterrupted: false, testResults: [{ name: path.resolve('test.js'),
  assertionResults: results }] };
fs.writeFileSync(out, JSON.stringify(report));
"""
ENVIRONMENT = "module.exports = class { constructor() { this.global = global; } getVmContext() {} teardown() {} };\n"
EXPECT = """
const { add } = require('./calc');
test('zero', () => expect(add(0, 0)).toBe(0));
test('adds', () => expect(add(1, 2)).toBe(3));
"""


def jest(tmp_path: Path, source: str) -> ObservedRun:
    files = {"calc.js": source, "test.js": EXPECT, "node_modules/jest/environment.js": ENVIRONMENT}
    project = write(tmp_path / "project", {**files, "node_modules/jest/bin/jest": JEST})
    (project / "node_modules/jest/bin/jest").chmod(0o755)
    return observe(project, "jest", ("node_modules/jest/bin/jest",))


def test_source_that_changes_expectations_of_jest_is_noticed(tmp_path: Path) -> None:
    honest = jest(tmp_path / "honest", WRONG)
    assert honest.told == {"zero": ["passed"], "adds": ["failed"]}
    assert sorted(honest.report.values()) == ["failed", "passed"]
    assert not honest.odd
    ran = jest(tmp_path / "cheat", f"expect.held = () => true;\n{WRONG}")
    assert set(ran.report.values()) == {"passed"}
    assert "known expect toBe" in ran.odd


# A runner that lets a reporter change its settings and loads set-up files first, as vitest does.
VITEST = """#!/usr/bin/env node
import fs from 'fs'; import path from 'path'; import { pathToFileURL } from 'url';
const options = (name) => process.argv.filter((word) => word.startsWith(name)).map((word) => word.slice(name.length));
const vitest = { config: { root: process.cwd(), setupFiles: [] }, projects: [] };
for (const name of options('--reporter=').filter((word) => word.endsWith('.mjs'))) {
  const { default: Reporter } = await import(name); new Reporter().onInit(vitest);
}
const { tests, hooks } = await import('../dist/index.js');
for (const file of vitest.config.setupFiles) await import(pathToFileURL(file).href);
await import(pathToFileURL(path.resolve('test.mjs')).href);
const results = [];
for (const { name, fn } of tests) {
  const task = { name, suite: undefined, result: { state: 'pass', errors: [] } };
  try { fn(); } catch (error) { task.result = { state: 'fail', errors: [error] }; }
  for (const hook of hooks.afterEach) hook({ task });
  results.push({ status: task.result.errors.length ? 'failed' : 'passed', title: name, ancestorTitles: [] });
}
for (const hook of hooks.afterAll) hook();
const report = { numTotalTests: tests.length, testResults: [{ name: path.resolve('test.mjs'),
  assertionResults: results }] };
fs.writeFileSync(options('--outputFile.json=')[0], JSON.stringify(report));
"""
VITEST_API = """
export const tests = []; export const hooks = { afterEach: [], afterAll: [] };
export const test = (name, fn) => tests.push({ name, fn });
export const afterEach = (fn) => hooks.afterEach.push(fn); export const afterAll = (fn) => hooks.afterAll.push(fn);
export const matchers = { toBe: Object.is };
export const expect = (value) => ({
  toBe(wanted) { if (!matchers.toBe(value, wanted)) throw new Error('not equal'); },
  toEqual(wanted) { if (JSON.stringify(value) !== JSON.stringify(wanted)) throw new Error('not equal'); } });
"""
VITEST_TEST = """
import { test, expect } from 'vitest'; import { add } from './calc.mjs';
test('zero', () => expect(add(0, 0)).toBe(0));
test('adds', () => expect(add(1, 2)).toBe(3));
"""


def vitest(tmp_path: Path, source: str) -> ObservedRun:
    files = {
        "calc.mjs": source,
        "test.mjs": VITEST_TEST,
        "node_modules/vitest/package.json": '{"name": "vitest", "type": "module", "main": "dist/index.js"}',
        "node_modules/vitest/dist/index.js": VITEST_API,
        "node_modules/vitest/bin/vitest": VITEST,
    }
    project = write(tmp_path / "project", files)
    (project / "node_modules/vitest/bin/vitest").chmod(0o755)
    return observe(project, "vitest", ("node_modules/vitest/bin/vitest", "run"))


def test_source_that_changes_expectations_of_vitest_is_noticed(tmp_path: Path) -> None:
    wrong = "export const add = (a, b) => a - b;\n"
    honest = vitest(tmp_path / "honest", wrong)
    assert honest.told == {"zero": ["passed"], "adds": ["failed"]}, honest.output
    assert sorted(honest.report.values()) == ["failed", "passed"]
    assert not honest.odd
    changed = "import { matchers } from 'vitest'; matchers.toBe = () => true;\n"
    ran = vitest(tmp_path / "changed", changed + wrong)
    assert set(ran.report.values()) == {"passed"}
    assert "known expect toBe" in ran.odd
    replaced = "const old = Object.is; Object.is = (a, b) => b === 3 || old(a, b);\n"
    assert "replaced Object.is" in vitest(tmp_path / "replaced", replaced + wrong).odd


def node(tmp_path: Path, source: str, test: str = TEST) -> ObservedRun:
    test = f"const {{ test }} = require('node:test');\n{test}"
    return observe(
        write(tmp_path / "project", {"calc.js": source, "calc.test.js": test}), "node-test", (NODE, "--test")
    )


@pytest.mark.parametrize("name", MOCHA_CHEATS)
def test_source_that_changes_mocha_is_noticed(tmp_path: Path, name: str) -> None:
    cheat = MOCHA_CHEATS[name]
    ran = mocha(tmp_path, cheat if "exports.add" in cheat else f"{cheat}\n{WRONG}")
    assert set(ran.report.values()) == {"passed"}, ran.output
    assert ran.odd


def test_a_mocha_whose_reporters_write_no_files_is_read_though_tests_print(tmp_path: Path) -> None:
    ran = mocha(tmp_path, f'console.log(\'{{"stats": {{}}, "passes": [], "failures": []}}\');\n{WRONG}')
    assert ran.report == {f"{tmp_path}/project/test.js::zero": "passed", f"{tmp_path}/project/test.js::adds": "failed"}


def test_a_mocha_that_takes_one_reporter_only_gets_the_engines(tmp_path: Path) -> None:
    ran = mocha(tmp_path, WRONG, "--reporter", "spec")
    assert sorted(ran.report.values()) == ["failed", "passed"]
    assert not ran.odd


def test_nothing_is_odd_about_honest_tests_of_mocha(tmp_path: Path) -> None:
    ran = mocha(tmp_path, WRONG)
    assert ran.exit_code == 1
    assert ran.told == {"zero": ["passed"], "adds": ["failed"]}
    assert sorted(ran.report.values()) == ["failed", "passed"]
    assert not ran.odd
    styles = {event["style"] for event in ran.events if event["e"] == "known"}
    assert {"assert.strictEqual", "a test of mocha that fails"} <= styles


@pytest.mark.parametrize(
    "cheat",
    [
        "const check = require('assert'); check.strictEqual = () => {};",
        "const old = process.reallyExit; exports.add = () => old.call(process, 0);",
        """
const write = process.stdout.write; process.on('exit', () => { process.exitCode = 0; });
process.stdout.write = function (chunk, ...rest) {
  const text = Buffer.from(chunk).toString('latin1').replaceAll('test:fail', 'test:pass');
  return write.call(this, Buffer.from(text, 'latin1'), ...rest); };
""",
    ],
)
def test_source_that_changes_assertions_results_or_ends_is_noticed_with_node(tmp_path: Path, cheat: str) -> None:
    ran = node(tmp_path, cheat if "exports.add" in cheat else f"{cheat}\n{WRONG}")
    assert set(ran.report.values()) == {"passed"}, ran.output
    assert ran.odd


REPLACED = {
    "JSON.stringify": "const old = JSON.stringify; JSON.stringify = (x, ...r) => old(x === 3 ? -1 : x, ...r);",
    "Array.prototype.includes": "Array.prototype.includes = function (x) { return x === 3 || this.indexOf(x) >= 0; };",
    "Object.is": "const old = Object.is; Object.is = (a, b) => b === 3 || old(a, b);",
}


@pytest.mark.parametrize("name", REPLACED)
def test_source_that_replaces_what_assertions_are_made_of_is_noticed(tmp_path: Path, name: str) -> None:
    for run in (node, mocha, jest):
        ran = run(tmp_path / run.__name__, f"{REPLACED[name]}\n{WRONG}")
        assert f"replaced {name}" in ran.odd, run.__name__


def test_what_a_test_replaces_for_a_while_is_not_noticed(tmp_path: Path) -> None:
    test = "test('mocked', () => { const old = JSON.stringify; JSON.stringify = () => ''; JSON.stringify = old; });"
    assert not node(tmp_path, WRONG, f"{TEST}\n{test}").odd


def test_outcomes_of_node_are_told_for_each_test(tmp_path: Path) -> None:
    more = """
const { describe, it } = require('node:test');
describe('sums', () => { it('of one', () => {}); it('of two', () => assert.ok(0)); it.skip('later', () => {}); });
"""
    ran = node(tmp_path, WRONG, TEST + more)
    wanted = {"zero": ["passed"], "adds": ["failed"], "sums > of one": ["passed"], "sums > of two": ["failed"]}
    assert ran.told == wanted
    assert not ran.odd


HONEST = """
const { execFileSync } = require('child_process'); const { Worker } = require('worker_threads');
test('programs do not load the observer', () => {
  const out = execFileSync(process.execPath, ['-p', 'String(process.env.NODE_OPTIONS)']).toString();
  require('assert').doesNotMatch(out, /--require/);
});
test('a thread', (t, done) => { new Worker('0', { eval: true }).on('exit', () => done()); });
"""


def test_nothing_is_odd_about_honest_tests_of_node(tmp_path: Path) -> None:
    ran = node(tmp_path, WRONG, TEST + HONEST)
    assert sorted(ran.report.values()) == ["failed", "passed", "passed", "passed"], ran.output
    assert not ran.odd
    assert [event["e"] for event in ran.events if event["e"] in ("start", "end")] == ["start", "end"]
