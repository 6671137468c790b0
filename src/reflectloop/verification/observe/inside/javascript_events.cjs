// Tells through a pipe what a process of tests does, and tries assertions before the first test and after the last.
// The line before this text defines `values`: the pipe, the tool, and the option that loads this file.
'use strict';

const { isMainThread } = require('worker_threads');
const fs = require('fs');
const path = require('path');
const assert = require('assert');

const { writeSync, closeSync } = fs;
const [getpid, stringify, keysOf] = [process.pid, JSON.stringify, Object.getOwnPropertyNames];
const longest = 1500; // of a name, so that a line is written at once

let opened = 0;

function pipe() {
  const descriptor = fs.openSync(values.pipe, fs.constants.O_WRONLY);
  const session = `${getpid}-${Date.now()}-${opened++}`;
  let number = 0;
  return (event, fields) => {
    const line = stringify({ n: number++, s: session, e: event, ...fields }) + '\n';
    try {
      writeSync(descriptor, line);
      if (event === 'end') closeSync(descriptor);
    } catch {
      // A test closed the pipe: the end will be missed.
    }
  };
}

// Functions of an object as they are now ------------------------------------------------------------------------------

const known = [];
const reported = new Set();

function remember(label, object) {
  if (!object) return;
  for (const key of keysOf(object)) {
    const described = Object.getOwnPropertyDescriptor(object, key);
    if (described && typeof described.value === 'function') known.push([`${label}.${key}`, object, key, described.value]);
  }
}

function changed() {
  const names = [];
  for (const [name, object, key, value] of known) {
    const described = Object.getOwnPropertyDescriptor(object, key);
    if ((!described || described.value !== value) && !reported.has(name)) {
      reported.add(name);
      names.push(name);
    }
  }
  return names.slice(0, 20);
}

// What assertions of every library are made of. A test may replace some of it for a while: it is compared at the end.
const parts = {
  Object: ['is', 'keys', 'entries', 'getOwnPropertyNames', 'getPrototypeOf'],
  JSON: ['stringify', 'parse'],
  Array: ['isArray', 'from'],
  Reflect: ['apply', 'ownKeys'],
  Number: ['isNaN'],
  'Object.prototype': ['hasOwnProperty', 'toString'],
  'Array.prototype': ['includes', 'indexOf', 'every', 'some', 'filter', 'map', 'forEach', 'push', 'join', 'sort', 'slice'],
  'String.prototype': ['includes', 'indexOf', 'startsWith', 'match', 'replace', 'split', 'slice'],
  'RegExp.prototype': ['test', 'exec'],
  'Map.prototype': ['get', 'has', 'set'],
  'Set.prototype': ['has', 'add'],
  'Function.prototype': ['call', 'apply', 'bind'],
};

// Returns a function that names the parts of a world which are no longer what they are now.
function partsOf(world) {
  const before = [];
  for (const [holder, names] of Object.entries(parts)) {
    const object = holder.split('.').reduce((inner, name) => inner && inner[name], world);
    for (const name of object ? names : []) before.push([`${holder}.${name}`, object, name, object[name]]);
  }
  return () => before.filter(([, object, name, value]) => object[name] !== value).map(([label]) => label).slice(0, 20);
}

// Assertions with a known outcome -------------------------------------------------------------------------------------

const error = () => new Error('known');
const assertions = {
  assert: [() => assert(0), true],
  'assert.ok': [() => assert.ok(0), true],
  'assert.equal': [() => assert.equal(1, 2), true],
  'assert.notEqual': [() => assert.notEqual(1, 1), true],
  'assert.strictEqual': [() => assert.strictEqual(1, 2), true],
  'assert.notStrictEqual': [() => assert.notStrictEqual(1, 1), true],
  'assert.deepEqual': [() => assert.deepEqual({ a: 1 }, { a: 2 }), true],
  'assert.deepStrictEqual': [() => assert.deepStrictEqual({ a: [1] }, { a: [2] }), true],
  'assert.notDeepEqual': [() => assert.notDeepEqual([1], [1]), true],
  'assert.throws': [() => assert.throws(() => {}), true],
  'assert.doesNotThrow': [() => assert.doesNotThrow(() => { throw error(); }), true],
  'assert.ifError': [() => assert.ifError(error()), true],
  'assert.fail': [() => assert.fail('known'), true],
  'assert.strict.equal': [() => assert.strict.equal(1, 2), true],
  'assert.strict.deepEqual': [() => assert.strict.deepEqual([1], [2]), true],
  'assert.strictEqual, equal': [() => assert.strictEqual(1, 1), false],
  'assert.throws, thrown': [() => assert.throws(() => { throw error(); }), false],
};

function loaded(pattern) {
  const key = Object.keys(require.cache).find((name) => pattern.test(name.split(path.sep).join('/')));
  return key ? require.cache[key].exports : undefined;
}

function expectations(expect) {
  return {
    'expect toBe': [() => expect(1).toBe(2), true],
    'expect toEqual': [() => expect({ a: 1 }).toEqual({ a: 2 }), true],
    'expect toBe, equal': [() => expect(1).toBe(1), false],
  };
}

function libraries() {
  const chai = loaded(/\/chai\/(index|chai|lib\/chai)\.c?js$/);
  const expected = loaded(/\/expect\/build\/index\.js$/);
  const expect = expected && (expected.expect || expected.default || expected);
  const out = {};
  if (chai && chai.expect && chai.assert) {
    out['chai expect'] = [() => chai.expect(1).to.equal(2), true];
    out['chai expect, deep'] = [() => chai.expect({ a: 1 }).to.deep.equal({ a: 2 }), true];
    out['chai expect, equal'] = [() => chai.expect(1).to.equal(1), false];
    out['chai assert'] = [() => chai.assert.equal(1, 2), true];
    out['chai assert, strict'] = [() => chai.assert.strictEqual(1, 2), true];
  }
  return typeof expect === 'function' ? { ...out, ...expectations(expect) } : out;
}

function attempt(send, round, more = libraries()) {
  for (const [style, [check]] of Object.entries({ ...assertions, ...more })) {
    let raised = false;
    try {
      check();
    } catch {
      raised = true;
    }
    send('known', { round, style, got: raised ? 'failed' : 'passed', raised });
  }
}

// Runners -------------------------------------------------------------------------------------------------------------

function begin() {
  const send = pipe();
  const replaced = partsOf(globalThis);
  let rounds = 0;
  const session = {
    send,
    round() {
      if (rounds < 2) attempt(send, rounds++);
      session.tellChanged();
    },
    tellChanged() {
      const names = changed();
      if (names.length) send('changed', { names });
    },
    last: () => {},
  };
  remember('assert', assert);
  remember('assert.strict', assert.strict);
  send('start', { pid: getpid });
  process.on('exit', (code) => {
    while (rounds < 2) session.round();
    session.last();
    session.tellChanged();
    const names = replaced();
    if (names.length) send('changed', { names });
    send('end', { status: code });
  });
  return session;
}

function mocha() {
  const session = begin();
  const Mocha = loaded(/\/mocha\/lib\/mocha\.js$/);
  if (Mocha) {
    for (const name of ['Runner', 'Runnable', 'Test', 'Suite', 'Hook']) {
      remember(`mocha ${name}`, Mocha[name] && Mocha[name].prototype);
    }
  }
  session.round();
  const afterEach = global.afterEach || global.teardown;
  const after = global.after || global.suiteTeardown;
  if (!afterEach || !after) return;
  afterEach(function () {
    const test = this.currentTest;
    if (test && (test.state === 'passed' || test.state === 'failed')) {
      session.send('told', { id: test.fullTitle().slice(0, longest), outcome: test.state });
    }
    session.tellChanged();
  });
  after(function (done) {
    this.timeout(0);
    session.round();
    if (Mocha) runInside(Mocha, session.send, done);
    else done();
  });
}

// Runs a failing and a passing test by a runner of its own, which has the functions of the real one.
function runInside(Mocha, send, done) {
  const inner = new Mocha({ reporter: function () {}, timeout: 0 });
  const outcomes = { fails: 'unclear', passes: 'unclear' };
  inner.suite.addTest(new Mocha.Test('fails', () => { throw error(); }));
  inner.suite.addTest(new Mocha.Test('passes', () => {}));
  const runner = inner.run(() => {
    send('known', { round: 1, style: 'a test of mocha that fails', got: outcomes.fails, raised: true });
    send('known', { round: 1, style: 'a test of mocha that passes', got: outcomes.passes, raised: false });
    done();
  });
  runner.on('fail', (test) => { outcomes[test.title] = 'failed'; });
  runner.on('pass', (test) => { outcomes[test.title] = 'passed'; });
}

function tape() {
  const folder = path.dirname(require.resolve('tape/package.json', { paths: [process.cwd()] }));
  const [main, Test, Results] = ['index.js', 'lib/test.js', 'lib/results.js'].map((name) => require(path.join(folder, name)));
  const session = begin();
  const { run } = Test.prototype;
  Test.prototype.run = function () {
    const title = this.name;
    this.on('result', ({ name, ok, skip, todo }) => {
      const id = `${title} > ${name}`.replace(/\s+/g, ' ').slice(0, longest);
      if (!skip && !todo) session.send('told', { id, outcome: ok ? 'passed' : 'failed' });
    });
    return run.call(this);
  };
  remember('tape', main);
  remember('tape Test', Test.prototype);
  remember('tape Results', Results.prototype);
  const write = process.stdout.write;
  session.round();
  session.last = () => {
    if (process.stdout.write !== write) session.send('changed', { names: ['process.stdout.write'] });
    const styles = {
      'tape equal': [(t) => t.equal(1, 2), false],
      'tape deepEqual': [(t) => t.deepEqual({ a: 1 }, { a: 2 }), false],
      'tape ok': [(t) => t.ok(0), false],
      'tape throws': [(t) => t.throws(() => {}), false],
      'tape fail': [(t) => t.fail('known'), false],
      'tape equal, equal': [(t) => t.equal(1, 1), true],
    };
    for (const [style, [check]] of Object.entries(styles)) {
      const results = [];
      const test = new Test('known', {}, (t) => check(t));
      test.on('result', (result) => results.push(result));
      run.call(test);
      const raised = results.length === 1 && results[0].ok === false;
      session.send('known', { round: 1, style, got: raised ? 'failed' : results.length === 1 ? 'passed' : 'unclear', raised });
    }
    const totals = main.getHarness()._results || {};
    session.send('totals', { passed: totals.pass, failed: totals.fail });
  };
}

function nodeTest() {
  const session = begin();
  try {
    const runner = require('node:test');
    remember('node:test', runner);
    runner.afterEach((test) => {
      // Older versions do not say whether it passed.
      const id = String((test && (test.fullName || test.name)) || '').slice(0, longest);
      if (test && typeof test.passed === 'boolean') session.send('told', { id, outcome: test.passed ? 'passed' : 'failed' });
      session.tellChanged();
    });
  } catch {
    // Older versions have none.
  }
  session.round();
}

// Jest runs each file of tests in a world of its own, and tells its environment, which is outside, what happens there.
function jest() {
  const Module = require('module');
  const load = Module._load;
  const seen = new WeakSet();
  Module._load = function (...request) {
    const exported = load.apply(this, request);
    for (const kind of [exported, exported && exported.TestEnvironment, exported && exported.default]) {
      const prototype = typeof kind === 'function' && kind.prototype;
      if (prototype && prototype.getVmContext && prototype.teardown && !seen.has(prototype)) {
        seen.add(prototype);
        observeEnvironment(prototype);
      }
    }
    return exported;
  };
}

function observeEnvironment(prototype) {
  const own = prototype.handleTestEvent;
  const files = new WeakMap(); // the function that tells about a file, by its environment
  prototype.handleTestEvent = function (event, state) {
    try {
      observeFile(this, event, files);
    } catch {
      // The end of this file will be missed.
    }
    return own ? own.call(this, event, state) : undefined;
  };
}

const worlds = new WeakMap(); // what each file's world was made of, by its environment

function observeFile(environment, event, files) {
  const world = environment.global;
  if (event.name === 'setup' && world.process && world.process.env.NODE_OPTIONS) hide(world.process.env);
  if (event.name === 'setup') worlds.set(environment, partsOf(world));
  if (event.name === 'run_start') {
    files.set(environment, pipe());
    files.get(environment)('start', { pid: getpid });
  }
  const send = files.get(environment);
  if (!send) return;
  if (event.name === 'run_start' || event.name === 'run_finish') {
    attempt(send, event.name === 'run_start' ? 0 : 1, typeof world.expect === 'function' ? expectations(world.expect) : {});
  }
  if (event.name === 'test_done') {
    const titles = [];
    for (let block = event.test.parent; block && block.parent; block = block.parent) titles.unshift(block.name);
    const id = [titles.join(' > '), event.test.name].filter(Boolean).join('::');
    send('told', { id: id.slice(0, longest), outcome: event.test.errors.length ? 'failed' : 'passed' });
  }
  if (event.name === 'run_finish') {
    const replaced = worlds.get(environment);
    const names = [...changed(), ...(replaced ? replaced() : [])];
    if (names.length) send('changed', { names });
    send('end', { status: 0 });
  }
}

// Vitest loads this from a set-up file, before each file of tests, in the process or thread that runs them.
function vitest({ afterEach, afterAll, expect }) {
  const send = pipe();
  const replaced = partsOf(globalThis);
  const more = expectations(expect);
  remember('assert', assert);
  remember('assert.strict', assert.strict);
  send('start', { pid: getpid });
  attempt(send, 0, more);
  afterEach(({ task }) => {
    const titles = [];
    for (let suite = task.suite; suite && suite.name && suite.type === 'suite' && suite !== task.file; suite = suite.suite) titles.unshift(suite.name);
    const id = [titles.join(' > '), task.name].filter(Boolean).join('::');
    const red = task.result && (task.result.state === 'fail' || (task.result.errors || []).length > 0);
    const failed = red && !task.fails; // a test that is said to fail
    send('told', { id: id.slice(0, longest), outcome: failed ? 'failed' : 'passed' });
  });
  afterAll(() => {
    attempt(send, 1, more);
    const names = [...changed(), ...replaced()];
    if (names.length) send('changed', { names });
    send('end', { status: 0 });
  });
}

// Programs that the tests start do not load this file.
function hide(env = process.env) {
  const rest = (env.NODE_OPTIONS || '').split(values.option).join('').trim();
  if (rest) env.NODE_OPTIONS = rest;
  else delete env.NODE_OPTIONS;
}

if (values.tool === 'vitest') {
  module.exports = vitest;
} else if (isMainThread) {
  if (values.tool === 'mocha') {
    mocha();
  } else if (values.tool === 'tape' && /[\\/]tape$/.test(process.argv[1] || '')) {
    hide();
    tape();
  } else if (values.tool === 'node-test' && process.env.NODE_TEST_CONTEXT) {
    hide();
    nodeTest();
  } else if (values.tool === 'jest') {
    remember('assert', assert);
    remember('assert.strict', assert.strict);
    jest();
  }
}
