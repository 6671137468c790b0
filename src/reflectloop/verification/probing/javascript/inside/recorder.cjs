// Records the calls of some functions while tests run. Loaded before the test runner; `settings.json` beside it says
// which functions: {"mark", "root", "option", "reads", "tests": [...], "files": {path: {source, text, esm, "functions": [{id,
// name, line}]}}}. Only the named functions are followed.
'use strict';

const fs = require('fs');
const path = require('path');
const { types } = require('util');
const values = require('./values.cjs');
const loading = require('./loading.cjs');

const { openSync, writeSync } = fs;
const clock = performance.now.bind(performance);
const { apply, construct } = Reflect;
const then = Promise.prototype.then;
const most = { calls: 200, nested: 60, tries: 10000, leftOut: 100 };
const settings = JSON.parse(fs.readFileSync(path.join(__dirname, 'settings.json'), 'utf8'));
const environment = { ...process.env };
const folder = process.cwd();
const functions = [];
const opened = []; // the arguments of the calls that have not ended
let descriptor = -1;
let busy = false;
let begun = false;

for (const [file, { functions: listed }] of Object.entries(settings.files)) {
  for (const { id, name, line, self } of listed) {
    functions[id] = { file, name, line, self, tries: 0, calls: 0, nested: 0, seen: new Set(), reasons: {}, leftOut: 0, loaded: false };
  }
}

function send(line) {
  if (descriptor < 0) {
    descriptor = openSync(path.join(__dirname, 'out', `calls-${process.pid}.jsonl`), 'a', 0o600);
    send({ python: process.execPath, path: [] });
  }
  writeSync(descriptor, values.stringify(line) + '\n');
}

// The file of the project from which the call began, which is that of the test; and the line of the changed source.
function callers() {
  const limit = Error.stackTraceLimit;
  const prepare = Error.prepareStackTrace;
  Error.stackTraceLimit = 60;
  Error.prepareStackTrace = undefined;
  const { stack } = new Error();
  Error.stackTraceLimit = limit;
  Error.prepareStackTrace = prepare;
  const out = [];
  for (const line of String(stack).split('\n')) {
    const at = /(\/[^():]+):(\d+):\d+\)?$/.exec(line);
    const name = at && path.relative(settings.root, at[1]);
    if (name && !name.startsWith('..') && !name.includes('node_modules')) out.push([name, Number(at[2])]);
  }
  return out;
}

function surroundings() {
  const out = {};
  const names = new Set([...Object.keys(process.env), ...Object.keys(environment)]);
  const changed = {};
  for (const name of names) {
    if (process.env[name] !== environment[name] && name !== 'NODE_OPTIONS') changed[name] = process.env[name] ?? null;
  }
  if (Object.keys(changed).length) out.env = changed;
  if (process.cwd() !== folder) out.cwd = process.cwd();
  return out;
}

function begin(record, self, args, isNew) {
  if (busy || record.calls >= most.calls || record.tries >= most.tries || (!record.calls && record.leftOut >= most.leftOut)) return null;
  record.tries++;
  if (opened.length && record.nested >= most.nested) return null;
  busy = true;
  try {
    const holder = record.self && !isNew && self !== undefined && self !== globalThis;
    const live = holder ? [self, ...args] : [...args];
    const budget = { left: 16 << 10 };
    const written = live.map((value) => values.encode(value, budget));
    const key = values.stringify([isNew, written]);
    if (record.seen.has(key)) return null;
    record.seen.add(key);
    const test = callers().pop();
    return {
      live,
      began: clock(),
      line: {
        file: record.file,
        module: isNew ? 'new' : 'call',
        qualname: record.name,
        line: record.line,
        test: test ? test[0] : '',
        args: written,
        kwargs: [],
        first: holder ? 'self' : '',
        nested: opened.length > 0,
        ...surroundings(),
      },
    };
  } catch (fault) {
    const reason = fault instanceof values.NotPlainData ? fault.message.slice(0, 200) : 'recording failed';
    record.reasons[reason] = (record.reasons[reason] || 0) + 1;
    record.leftOut++;
    return null;
  } finally {
    busy = false;
  }
}

function finish(record, call, outcome) {
  busy = true;
  try {
    const { line, live } = call;
    line.ms = Math.round((clock() - call.began) * 1000) / 1000;
    line.outcome = outcome();
    const after = live.map((value) => values.describe(value));
    if (values.stringify(after) !== values.stringify(line.args)) line.after = after;
    if (record.calls >= most.calls) return;
    record.calls++;
    record.nested += line.nested ? 1 : 0;
    send(line);
  } catch {
    record.reasons['recording failed'] = 1;
  } finally {
    busy = false;
  }
}

function followed(record, self, args, isNew, work) {
  const call = begin(record, self, args, isNew);
  opened.push(args);
  let result;
  try {
    result = work();
  } catch (fault) {
    if (call) finish(record, call, () => values.raised(fault));
    throw fault;
  } finally {
    opened.pop();
  }
  if (call && types.isPromise(result)) {
    const settled = (outcome) => finish(record, call, outcome);
    apply(then, result, [
      (value) => settled(() => ({ value: { promise: values.describe(value) } })),
      (fault) => settled(() => ({ ...values.raised(fault), rejects: true })),
    ]);
  } else if (call) {
    finish(record, call, () => ({ value: values.describe(result) }));
  }
  return result;
}

function mark(id, target) {
  const record = functions[id];
  if (!record || typeof target !== 'function') return target;
  record.loaded = true;
  start();
  if (!target.name) {
    try {
      Object.defineProperty(target, 'name', { value: record.name.split('.').pop(), configurable: true });
    } catch {
      // A function that cannot be changed keeps its name.
    }
  }
  const outer = new Proxy(target, {
    apply: (inner, self, args) => followed(record, self, args, false, () => apply(inner, self, args)),
    construct: (inner, args, made) => followed(record, undefined, args, true, () => construct(inner, args, made === outer ? inner : made)),
  });
  return outer;
}

mark.exported = (module, id) => {
  if (typeof module.exports === 'function') module.exports = mark(id, module.exports);
};
mark.methods = (target, names) => {
  for (const [name, id] of Object.entries(names)) {
    const isStatic = name.startsWith('static ');
    const holder = isStatic ? target : target.prototype;
    const key = isStatic ? name.slice(7) : name;
    const described = Object.getOwnPropertyDescriptor(holder, key);
    values.follow(`${functions[id].file}#${target.name}`, target.prototype);
    if (described && described.configurable && typeof described.value === 'function') {
      Object.defineProperty(holder, key, { ...described, value: mark(id, described.value) });
    }
  }
  return target;
};

// Programs that the tests start are not recorded, and the tests do not see the option.
function hide() {
  const rest = (process.env.NODE_OPTIONS || '').split(settings.option).join('').trim();
  if (rest) process.env.NODE_OPTIONS = rest;
  else delete process.env.NODE_OPTIONS;
}

// In the process that loads a changed source.
function start() {
  if (begun) return;
  begun = true;
  hide();
  watchReading();
}

// Reading of tests and of git by a changed source --------------------------------------------------------------------

const audited = new Set();
const tests = new Set(settings.tests);

function audit(what, given) {
  if (busy || audited.size > 50) return;
  busy = true;
  try {
    const frames = callers();
    const source = frames.find(([name]) => name in settings.files);
    const test = frames[frames.length - 1];
    if (!source || !test || test[0] in settings.files) return;
    const key = `${source[0]} ${what}`;
    if (audited.has(key) || given) return;
    audited.add(key);
    send({ audit: what, file: source[0], at: source[1], test: test[0] });
  } finally {
    busy = false;
  }
}

function watch(holder, name, look) {
  const usual = holder[name];
  if (typeof usual !== 'function') return;
  holder[name] = new Proxy(usual, {
    apply(target, self, args) {
      look(args);
      return apply(target, self, args);
    },
  });
}

function reading(args) {
  if (typeof args[0] !== 'string') return;
  const name = path.relative(settings.root, path.resolve(args[0]));
  const part = name.split(path.sep)[0];
  const what = part === '.git' ? part : tests.has(name) ? name : '';
  if (what) audit(what, wasGiven(path.resolve(args[0])));
}

// The test handed over this path, or a folder above it.
function wasGiven(name) {
  const texts = opened.flat().filter((value) => typeof value === 'string' && value);
  return texts.some((value) => name === path.resolve(value) || name.startsWith(path.resolve(value) + path.sep));
}

function starting(args) {
  if (/^(?:.*\/)?git(?:\s|$)/.test(String(args[0]))) audit('git', false);
}

function watchReading() {
  for (const name of ['readFileSync', 'readFile', 'openSync', 'open', 'createReadStream']) watch(fs, name, reading);
  watch(fs.promises, 'readFile', reading);
  const child = require('child_process');
  for (const name of ['execSync', 'exec', 'spawnSync', 'spawn', 'execFileSync', 'execFile']) watch(child, name, starting);
}

Object.defineProperty(globalThis, settings.mark, { value: mark });
if (settings.reads) loading.substituteReads(loading.below(settings.root, settings.files), settings.mark, mark);
else loading.substitute(loading.below(settings.root, settings.files), (name) => {
  for (const record of functions) if (record && path.join(settings.root, record.file) === name) record.loaded = true;
  start();
});
process.on('exit', () => {
  for (const record of functions) {
    if (!record || !record.loaded) continue;
    send({ summary: record.name, file: record.file, line: record.line, loaded: true, tries: record.tries, calls: record.calls, reasons: record.reasons, tests: [] });
  }
});
