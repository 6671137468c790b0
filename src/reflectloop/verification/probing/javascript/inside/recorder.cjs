// Records the calls of some functions while tests run. Loaded before the test runner; `settings.json` beside it says
// which functions: {"mark", "root", "option", "reads", "tests": [...], "files": {path: {source, text, esm, "functions": [{id,
// name, line}]}}}. Only the named functions are followed.
'use strict';

const fs = require('fs');
const path = require('path');
const { types } = require('util');
const values = require('./values.cjs');
const { ObjectHistories, isLive } = require('./histories.cjs');
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
const objects = new ObjectHistories();
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

// The object whose method is called: by its fields, and by the calls that made it.
function ofSelf(value, budget) {
  const history = objects.of(value);
  try {
    const written = values.encode(value, budget);
    return history && written !== null && written.instance ? { ...written, history } : written;
  } catch (fault) {
    if (!history) throw fault;
    return { history };
  }
}

function described(live) {
  return values.stringify(live.map((value) => values.describe(value)));
}

function lineOf(record, test, module, args, first) {
  return {
    file: record.file,
    module,
    qualname: record.name,
    line: record.line,
    test: test ? test[0] : '',
    args,
    kwargs: [],
    first,
    nested: opened.length > 0,
    ...surroundings(),
  };
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
    const written = live.map((value, at) => (holder && at === 0 ? ofSelf(value, budget) : values.encode(value, budget)));
    const key = values.stringify([isNew, written]);
    if (record.seen.has(key)) return null;
    record.seen.add(key);
    const test = callers().pop();
    return { live, before: described(live), began: clock(), line: lineOf(record, test, isNew ? 'new' : 'call', written, holder ? 'self' : '') };
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
    if (described(live) !== call.before) line.after = live.map((value) => values.describe(value));
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
  settle(record, call, result);
  return isNew || !isLive(result) || args.includes(result) ? result : watched(record, args, result);
}

// Notes the outcome of a call when it is known.
function settle(record, call, result) {
  if (call && types.isPromise(result)) {
    const settled = (outcome) => finish(record, call, outcome);
    apply(then, result, [
      (value) => settled(() => ({ value: { promise: values.describe(value) } })),
      (fault) => settled(() => ({ ...values.raised(fault), rejects: true })),
    ]);
  } else if (call) {
    finish(record, call, () => ({ value: values.describe(result) }));
  }
}

// A result with functions: their calls from outside are recorded as calls of the function that returned it.
function watched(record, args, result) {
  if (busy || opened.length || objects.depth) return result;
  busy = true;
  try {
    const out = objects.watch(result, (name, value, self, given, work) => used(record, name, value, given, work));
    if (out !== result || typeof result === 'object') objects.remember(out, `${record.file}:${record.name}`, args);
    return out;
  } catch {
    return result;
  } finally {
    busy = false;
  }
}

function used(record, name, value, args, work) {
  if (busy || opened.length || objects.depth) return objects.inside(work);
  const call = beginUse(record, name, value, args);
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
  settle(record, call, result);
  return result;
}

// Other inputs of a function that was returned are made without its earlier calls; the replay has them.
function beginUse(record, name, value, args) {
  busy = true;
  try {
    objects.add(value, name, args.map((item) => values.encode(item)));
    const history = name ? objects.of(value) : objects.lastCall(value);
    if (!history || record.calls >= most.calls || record.tries >= most.tries) return null;
    record.tries++;
    const { earlier, ...used } = history;
    const key = values.stringify(used);
    if (record.seen.has(key)) return null;
    record.seen.add(key);
    return { live: [], before: '[]', began: clock(), line: lineOf(record, callers().pop(), 'call', [{ history }], '') };
  } catch {
    objects.add(value, name, null);
    return null;
  } finally {
    busy = false;
  }
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
  const { file } = functions[Object.values(names)[0]];
  values.follow(`${file}#${target.name}`, target);
  for (const [name, id] of Object.entries(names)) if (name.startsWith('static ')) exchange(target, name.slice(7), 'value', id);
  for (const key of Object.getOwnPropertyNames(target.prototype)) {
    if (key === 'constructor') continue;
    exchange(target.prototype, key, 'value', names[key], key);
    exchange(target.prototype, key, 'get', names[`get ${key}`], '');
    exchange(target.prototype, key, 'set', names[`set ${key}`], `set ${key}`);
  }
  return target;
};

// Puts another function in place of a method or of a part of an accessor: one that is recorded, or only noted as part of
// what happens to an object.
function exchange(holder, key, part, id, noted) {
  const described = Object.getOwnPropertyDescriptor(holder, key);
  if (!described || !described.configurable || typeof described[part] !== 'function') return;
  const inner = id === undefined ? described[part] : mark(id, described[part]);
  if (id === undefined && !noted) return;
  const outer = noted ? new Proxy(inner, { apply: (target, self, args) => noting(self, noted, args, () => apply(target, self, args)) }) : inner;
  Object.defineProperty(holder, key, { ...described, [part]: outer });
}

// The call is part of the object's history when it has ended; the calls that it makes are its own.
function noting(self, name, args, work) {
  if (busy || opened.length || objects.depth || !objects.of(self)) return work();
  let written = args;
  busy = true;
  try {
    written = args.map((value) => values.encode(value));
  } catch {
    written = null;
  } finally {
    busy = false;
  }
  try {
    return objects.inside(work);
  } finally {
    objects.add(self, name, written);
  }
}

// At the end of a constructor's first statement.
mark.made = (self, args) => {
  if (busy || opened.length || objects.depth) return;
  busy = true;
  try {
    const name = values.classOf(self);
    if (name) objects.remember(self, `class ${name.replace('#', ':')}`, args);
  } catch {
    // Its history is not known.
  } finally {
    busy = false;
  }
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
