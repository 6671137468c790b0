// Runs functions of a project on lists of inputs and writes down what they answer: `node run_inputs.cjs JOB`. JOB has
// {"roots", "changed": {file: {name: [places of tokens]}}, "functions": [{"file", "module", "fn", "first", "inputs":
// [{"args"}], "known"}], "files", "names", "mark", "call_s", "seconds"}; each answer is a line of JOB + "l". With "versions":
// [{"files"}], all inputs are run on each of these versions, in a process of its own (`node run_inputs.cjs JOB NUMBER`), until
// a function gives another outcome than "expected" has for its first inputs.
'use strict';

const fs = require('fs');
const path = require('path');
const { spawnSync } = require('child_process');
const { Session } = require('inspector');
const Module = require('module');
const { pathToFileURL } = require('url');
const values = require('./values.cjs');
const loading = require('./loading.cjs');
const guard = require('./guard.cjs');
const histories = require('./histories.cjs');

const { openSync, writeSync } = fs;
const { apply, construct } = Reflect;
const mostUseless = 24; // endless or stopped calls of one function
const longestText = 300;
const job = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const top = job.roots[0];
const version = process.argv[3] === undefined ? -1 : Number(process.argv[3]);
const allVersionsMs = 40000;
const descriptor = openSync(`${process.argv[2]}l`, 'a', 0o600);
const table = new Map();
const classes = new Map();
const find = histories.finder(job, table, classes);
const state = { fn: -1, depth: 0, known: new Set(), meets: false };
const cpu = process.cpuUsage.bind(process);

function send(line) {
  writeSync(descriptor, values.stringify(version < 0 ? line : { ...line, version }) + '\n');
}

// Runs each version in a process of its own, as long as there is time.
function runVersions() {
  const end = Date.now() + allVersionsMs;
  for (let number = 0; number < job.versions.length && Date.now() < end; number++) {
    const words = [...process.execArgv, __filename, process.argv[2], String(number)];
    spawnSync(process.execPath, words, { stdio: 'ignore', timeout: end - Date.now() });
  }
}

// A text that is the same for equal data.
function written(data) {
  if (Array.isArray(data)) return `[${data.map(written).join(',')}]`;
  if (data === null || typeof data !== 'object') return values.stringify(data);
  return `{${Object.keys(data).sort().map((name) => `${values.stringify(name)}:${written(data[name])}`).join(',')}}`;
}

function mark(id, target) {
  if (typeof target !== 'function') return target;
  table.set(id, target);
  return new Proxy(target, {
    apply(inner, self, args) {
      if (id === state.fn && state.known.size && !state.meets) state.meets = isKnown(args);
      return apply(inner, self, args);
    },
  });
}

// The function calls itself with an input of the tests.
function isKnown(args) {
  try {
    return state.known.has(values.stringify(args.map((value) => values.encode(value))));
  } catch {
    return false;
  }
}

mark.exported = (module, id) => {
  if (typeof module.exports === 'function') module.exports = mark(id, module.exports);
};
mark.methods = (target, names) => {
  for (const [name, id] of Object.entries(names)) {
    const isStatic = name.startsWith('static ');
    values.follow(`${job.names[id]}#${target.name}`, target);
    classes.set(`${job.names[id]}:${target.name}`, target);
    table.set(id, histories.member(isStatic ? target : target.prototype, isStatic ? name.slice(7) : name));
  }
  return target;
};
mark.made = () => {};

// Coverage by blocks, from the engine of JavaScript itself.
const session = new Session();
const watched = Object.keys(job.changed).length > 0;

function post(method, given) {
  let out;
  session.post(method, given, (fault, result) => { out = result; });
  return out;
}

function reached() {
  const out = {};
  let steps = 0;
  for (const script of post('Profiler.takePreciseCoverage').result) {
    const name = script.url.startsWith('file:') ? decodeURIComponent(new URL(script.url).pathname) : script.url;
    const places = job.changed[path.relative(top, name)];
    if (!places) continue;
    const ranges = script.functions.flatMap((item) => item.ranges).sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset);
    for (const range of ranges) steps += range.count;
    for (const [qualname, offsets] of Object.entries(places)) out[qualname] = bits(offsets, ranges);
  }
  return { reached: out, steps };
}

// A bit for each token, from the last to the first, as a hexadecimal number.
function bits(offsets, ranges) {
  const open = [];
  const covered = [];
  let next = 0;
  for (const offset of offsets) {
    while (next < ranges.length && ranges[next].startOffset <= offset) open.push(ranges[next++]);
    while (open.length && open[open.length - 1].endOffset <= offset) open.pop();
    covered.push(open.length > 0 && open[open.length - 1].count > 0);
  }
  let out = '';
  for (let at = 0; at < covered.length; at += 4) {
    out = ((covered[at] ? 1 : 0) + (covered[at + 1] ? 2 : 0) + (covered[at + 2] ? 4 : 0) + (covered[at + 3] ? 8 : 0)).toString(16) + out;
  }
  return out || '0';
}

async function answer(fn, given) {
  const target = table.get(fn.fn);
  let args = [];
  let before = '';
  const work = () => {
    if (histories.isUse(given.args)) return histories.answer(given.args, find);
    args = given.args.map(values.decode);
    before = described(args);
    const [self, ...rest] = fn.first ? args : [undefined, ...args];
    return fn.module === 'new' ? construct(target, rest) : apply(target, self, rest);
  };
  const remade = given.own ? isRemade(given.args) : {};
  state.meets = false;
  values.listened();
  if (watched) post('Profiler.takePreciseCoverage');
  const done = await guard.run(() => values.drawn(work()), job.call_s * 1000);
  const seen = watched ? reached() : {};
  return { outcome: { ...outcome(done), ...told(), ...left(args, before) }, meets: state.meets, ...remade, ...seen };
}

function described(args) {
  try {
    return args.some((value) => value && typeof value === 'object') ? written(values.describe(args)) : '';
  } catch {
    return '';
  }
}

// What a call left in its arguments and in the object whose method it is.
function left(args, before) {
  const after = before && described(args);
  return after && after !== before ? { after: JSON.parse(after) } : {};
}

// What functions that the test passed were called with.
function told() {
  const { calls } = values.listened();
  return calls.length ? { told: calls } : {};
}

// Whether the calls that made the objects of an input lead to the same objects again, where these are also written by fields.
function isRemade(args) {
  const known = args.filter((value) => value && value.instance && value.history);
  try {
    return { remade: known.every((value) => written(values.describe(values.decode(value))) === written(values.describe(values.decode({ history: value.history })))) };
  } catch {
    return { remade: false };
  }
}

function outcome(done) {
  if (done.stopped) return { stopped: done.stopped };
  if (done.failed && done.fault instanceof values.NotPlainData) return { stopped: done.fault.message };
  if (done.endless) return { endless: true };
  if (done.failed) {
    const raised = values.raised(done.fault);
    return { raises: raised.raises, text: raised.text.slice(0, longestText) };
  }
  return { value: values.ofResult(done) };
}

async function main() {
  if (job.versions && version < 0) return runVersions();
  if (version >= 0) Object.assign(job.files, job.versions[version].files);
  guard.install();
  values.remakeBy((history) => histories.remake(history, find));
  guard.moveClock(() => 1767225600000);
  let seed = 1;
  Math.random = () => { seed = (seed * 48271) % 2147483647; return seed / 2147483647; };
  Object.defineProperty(globalThis, job.mark, { value: mark });
  loading.substitute(loading.below(top, job.files));
  session.connect();
  if (watched) {
    post('Profiler.enable');
    post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  }
  const load = Module.createRequire(path.join(top, 'main.js'));
  const spent = () => (cpu().user + cpu().system) / 1e6;
  const seconds = watched ? 2 * job.seconds : job.seconds; // counting what is reached takes as long as the calls
  const begun = Math.min(spent(), seconds / 2);
  // Each function has its part of the time, and what those before it left; an endless call of another one takes none of it.
  const part = (seconds - begun) / job.functions.length;
  let started = begun;
  const late = (number) => spent() > Math.max(begun + part * (number + 1), started + part);
  for (const [number, fn] of job.functions.entries()) {
    try {
      const file = job.files[fn.file];
      if (!file) throw new Error('the file is not there');
      if (!table.has(fn.fn)) await (file.esm ? import(pathToFileURL(path.join(top, fn.file)).href) : load(path.join(top, fn.file)));
      if (!table.has(fn.fn)) throw new Error('it is not there');
    } catch (fault) {
      send({ function: number, missing: `${fault && fault.message}`.slice(0, 200) });
      continue;
    }
    state.fn = fn.fn;
    started = spent();
    let useless = 0;
    for (const [at, given] of fn.inputs.entries()) {
      if (late(number)) {
        send({ function: number, late: true });
        break;
      }
      state.known = new Set(given.own ? [] : fn.known.map((args) => values.stringify(args)));
      let line;
      try {
        line = await answer(fn, given);
      } catch (fault) {
        line = { outcome: { stopped: fault instanceof values.NotPlainData ? fault.message : 'gave no answer' } };
      }
      if (fn.expected && at < fn.expected.length && written(fn.expected[at]) !== written(line.outcome)) {
        send({ function: number, late: true });
        return undefined;
      }
      send({ function: number, input: at, ...line });
      if (line.outcome.endless || line.outcome.stopped) useless++;
      if (useless >= mostUseless) break;
    }
  }
  return undefined;
}

const leave = process.reallyExit.bind(process);
main().then(() => leave(0), () => leave(1));
