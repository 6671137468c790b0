// Repeats recorded calls and writes their outcomes: `node replayer.cjs JOB` in a bare process, or from tests that stand
// in for the real ones, which call `replayGroup`. JOB is a JSON file:
//   {"calls": [{"id", "group", "file", "fn", "module", "args", "first", "env"}, ...], "files": {path: {source, text, esm}},
//    "names": {id of a function: its file and name}, "mark", "top", "out", "limit_s", "moved": {"days", "argv"}}
// Each outcome is a line {"id", "which": "raw", "outcome", "after", "equal"}.
'use strict';

const assert = require('assert');
const fs = require('fs');
const path = require('path');
const Module = require('module');
const { types } = require('util');
const { pathToFileURL } = require('url');
const values = require('./values.cjs');
const loading = require('./loading.cjs');
const guard = require('./guard.cjs');
const histories = require('./histories.cjs');

const { openSync, writeSync } = fs;
const { deepEqual } = assert;
const { apply, construct } = Reflect;

const oftenMs = 1000; // processor time for calls that are made many times over
const cpu = process.cpuUsage.bind(process);

function spentMs() {
  const { user, system } = cpu();
  return (user + system) / 1000;
}

class CallReplayer {
  constructor(job) {
    this.job = job;
    this.spent = spentMs(); // when the present function's turn began
    this.table = new Map();
    this.classes = new Map();
    this.find = histories.finder(job, this.table, this.classes);
    values.remakeBy((history) => histories.remake(history, this.find));
    this.descriptor = openSync(job.out, 'a', 0o600);
    const mark = (id, target) => {
      this.table.set(id, target);
      return target;
    };
    mark.exported = (module, id) => {
      if (typeof module.exports === 'function') module.exports = mark(id, module.exports);
    };
    mark.methods = (target, names) => {
      for (const [name, id] of Object.entries(names)) {
        const isStatic = name.startsWith('static ');
        values.follow(`${job.names[id]}#${target.name}`, target);
        this.classes.set(`${job.names[id]}:${target.name}`, target);
        this.table.set(id, histories.member(isStatic ? target : target.prototype, isStatic ? name.slice(7) : name));
      }
      return target;
    };
    mark.made = () => {};
    Object.defineProperty(globalThis, job.mark, { value: mark });
    loading.substitute(loading.below(job.top, job.files));
    this.require = Module.createRequire(path.join(job.top, '..', '..', 'main.js'));
  }

  async load(file) {
    const name = path.join(this.job.top, file);
    if (this.job.files[file].esm) await import(pathToFileURL(name).href);
    else this.require(name);
  }

  // Modules begin anew for the calls of each file of tests.
  forget() {
    const { cache } = this.require;
    for (const name of Object.keys(cache)) {
      const inner = path.relative(this.job.top, name);
      if (!inner.startsWith('..') && !inner.includes('node_modules')) delete cache[name];
    }
    this.table.clear();
  }

  async run(group) {
    let before;
    for (const call of this.job.calls) {
      if (group !== undefined && call.group !== group) continue;
      if (group === undefined && before !== undefined && before !== call.group) {
        await this.repeat(before);
        this.forget();
      }
      before = call.group;
      const result = await this.once(call);
      writeSync(this.descriptor, values.stringify({ id: call.id, which: 'raw', ...result }) + '\n');
    }
    if (group === undefined) await this.repeat(before);
  }

  // Makes the calls of one group many times over, each function's in turn, and writes down where an answer changes.
  async repeat(group) {
    const times = (this.job.moved || {}).repeat;
    if (!times) return;
    const functions = new Map();
    for (const call of this.job.calls) {
      if (call.group === group) functions.set(call.fn, [...(functions.get(call.fn) || []), call]);
    }
    for (const calls of functions.values()) {
      this.spent = spentMs();
      await guard.run(() => this.often(calls, times), oftenMs * 10);
      values.listened();
    }
  }

  often(calls, times) {
    let left = calls.map((call) => ({ call, first: '' }));
    for (let number = 0; left.length && number < times && spentMs() < this.spent + oftenMs; number++) {
      const item = left[number % left.length];
      const result = this.plainly(item.call);
      const written = result && values.stringify(result);
      item.first = item.first || written;
      if (written && written === item.first) continue;
      if (written) writeSync(this.descriptor, values.stringify({ id: item.call.id, which: 'repeated', ...result }) + '\n');
      left = left.filter((other) => other !== item);
    }
  }

  // What a call answers and leaves in its arguments, or null if that cannot be compared.
  plainly(call) {
    const target = this.table.get(call.fn);
    if (typeof target !== 'function' || call.module === 'new' || Object.keys(call.env || {}).length) return null;
    const args = histories.isUse(call.args) ? [] : call.args.map(values.decode);
    const before = values.stringify(args.map((value) => values.describe(value)));
    const [self, ...rest] = call.first ? args : [undefined, ...args];
    const out = {};
    try {
      const value = histories.isUse(call.args) ? histories.answer(call.args, this.find) : apply(target, self, rest);
      if (types.isPromise(value)) return null;
      out.outcome = { value: values.ofResult({ value: values.drawn(value) }) };
    } catch (fault) {
      out.outcome = values.raised(fault);
    }
    const after = args.map((value) => values.describe(value));
    return values.stringify(after) === before ? out : { ...out, after };
  }

  async once(call) {
    const usual = { ...process.env };
    let target;
    let args;
    try {
      set(call.env);
      if (!this.table.has(call.fn)) await this.load(call.file);
      target = this.table.get(call.fn);
      if (typeof target !== 'function') return { outcome: { left_out: 'cannot be reached by its name' } };
      args = histories.isUse(call.args) ? null : call.args.map(values.decode);
      return await this.result(call, target, args);
    } catch (fault) {
      const why = fault instanceof values.NotPlainData ? fault.message : `cannot be loaded: ${fault && fault.name}: ${fault && fault.message}`;
      return { outcome: { left_out: String(why).slice(0, 300) } };
    } finally {
      for (const name of Object.keys(process.env)) if (!(name in usual)) delete process.env[name];
      set(usual);
    }
  }

  async result(call, target, args) {
    const [self, ...rest] = call.first ? args : [undefined, ...(args || [])];
    const before = values.stringify((args || []).map((value) => values.describe(value)));
    const work = () => (args === null ? histories.answer(call.args, this.find) : call.module === 'new' ? construct(target, rest) : apply(target, self, rest));
    const { random } = Math;
    let lots = 1;
    Math.random = () => {
      lots = (lots * 48271) % 2147483647; // equal in all processes, so that functions that draw lots can be compared
      return lots / 2147483647;
    };
    values.listened();
    const done = await guard.run(() => values.drawn(work()), this.job.limit_s * 1000);
    Math.random = random;
    const out = { drawn: lots !== 1 };
    if (done.stopped) out.outcome = { left_out: done.stopped };
    else if (values.listened().lacks) out.outcome = { left_out: 'a function of the test that it calls needs its test' };
    else if (done.endless) out.outcome = { left_out: 'does not end in time, or needs too much memory or depth' };
    else if (done.fault instanceof values.NotPlainData) out.outcome = { left_out: done.fault.message };
    else if (done.failed) out.outcome = { ...values.raised(done.fault), ...(done.promised ? { rejects: true } : {}) };
    else {
      out.outcome = { value: values.ofResult(done) };
      out.equal = equalToEverything(done.value);
    }
    const after = (args || []).map((value) => values.describe(value));
    if (values.stringify(after) !== before) out.after = after;
    return out;
  }
}

function set(env) {
  for (const [name, value] of Object.entries(env || {})) {
    if (value === null) delete process.env[name];
    else if (process.env[name] !== value) process.env[name] = value;
  }
}

// The kind of a result that calls itself equal to values that it is not, or an empty text.
function equalToEverything(value) {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return '';
  const others = [`\0${Math.random()}`, 1e9 * Math.random(), { [`k${Math.random()}`]: 1 }];
  const ways = [(other) => value == other, (other) => { deepEqual(value, other); return true; }, (other) => value.asymmetricMatch(other) === true];
  for (const way of ways) {
    const equal = (other) => {
      try {
        return way(other);
      } catch {
        return false;
      }
    };
    if (others.every(equal)) return types.isProxy(value) ? 'Proxy' : 'value of its own kind';
  }
  return '';
}

function read(name) {
  return JSON.parse(fs.readFileSync(name, 'utf8'));
}

// Repeats the calls of one file of tests, from the test that stands in for them.
async function replayGroup(group, load) {
  const job = read(path.join(__dirname, 'job.json'));
  job.out = path.join(__dirname, 'outcomes.jsonl');
  shared = shared || new CallReplayer(job);
  shared.require = load;
  await shared.run(group);
}
let shared;

async function main(name) {
  const job = read(name);
  const moved = job.moved || {};
  guard.install();
  if (moved.days) guard.moveClock(() => guard.realNow() + moved.days * 86400000);
  process.argv[1] = moved.argv || path.join(job.top, '..', '..', 'main.js');
  process.argv.length = 2;
  await new CallReplayer(job).run();
}

module.exports = { replayGroup };

if (require.main === module) {
  const leave = process.reallyExit.bind(process);
  main(process.argv[2]).then(() => leave(0), () => leave(1));
}
