// Objects by the calls that made them. An object that cannot be written down is often made by a constructor, or returned by
// a function (`matcher('/users/:id')` returns a function, `tally()` an object with functions), and changed by calls of its
// methods. A history is {"made": NAME, "args": [VALUE], "kwargs": [], "calls": [[METHOD, [VALUE], []], ...]}: NAME is
// "FILE:FUNCTION" or "class FILE:CLASS"; METHOD is "" where the result itself is called, "get NAME" or "set NAME" for an accessor.
// Of a function that was returned, `calls` has the last call alone, as if nothing else counted; "earlier": [[VALUE], ...] are
// the arguments of those before, by which the replay makes it what it was, or null if there were too many.
'use strict';

const { types } = require('util');
const values = require('./values.cjs');

const { getPrototypeOf, getOwnPropertyDescriptor, defineProperty } = Object;
const { apply, construct, ownKeys } = Reflect;
const longest = 24; // calls of one object
const mostObjects = 2000;
const mostSigns = 16 << 10; // of the earlier calls of one function

class ObjectHistories {
  constructor() {
    this.known = new WeakMap(); // by object: {made, args, calls}, with calls null if one could not be written
    this.standing = new WeakMap(); // the function that stands for another one
    this.left = mostObjects;
    this.depth = 0; // calls of methods that have not ended: what they call belongs to them
  }

  remember(value, made, args) {
    if (this.known.has(value) || this.left <= 0) return;
    this.left--;
    this.known.set(value, { made, args: [...args].map((item) => values.encode(item)), calls: [] });
  }

  // What made an object what it is, or undefined.
  of(value) {
    const history = value !== null && (typeof value === 'object' || typeof value === 'function') ? this.known.get(value) : undefined;
    return history && history.calls ? { made: history.made, args: history.args, kwargs: [], calls: [...history.calls] } : undefined;
  }

  // Adds a call with its arguments as JSON, or with null if they cannot be written.
  add(value, name, written) {
    const history = this.known.get(value);
    if (!history || !history.calls) return;
    if (!written || history.calls.length >= longest) history.calls = null;
    else history.calls.push([name, written, []]);
  }

  // The history of a function for its last call; its next calls are recorded without this one.
  lastCall(value) {
    const known = this.known.get(value);
    const history = this.of(value);
    if (!history) return undefined;
    const earlier = known.earlier === undefined ? [] : known.earlier;
    const [last] = history.calls.slice(-1);
    const written = JSON.stringify(last[1]).length + JSON.stringify(earlier).length;
    known.earlier = earlier && earlier.length < longest && written < mostSigns ? [...earlier, last[1]] : null;
    known.calls = [];
    return { ...history, calls: [last], earlier };
  }

  // Work of a method: the calls inside it are no part of a history.
  inside(work) {
    this.depth++;
    try {
      return work();
    } finally {
      this.depth--;
    }
  }

  // Lets calls of a result be seen by `see(name, self, args, work)`: those of a function, or of an object's functions.
  watch(result, see) {
    if (typeof result === 'function') return this.stand(result, '', see);
    if (result === null || typeof result !== 'object' || types.isProxy(result)) return result;
    const prototype = getPrototypeOf(result);
    if (prototype !== null && getPrototypeOf(prototype) !== null) return result;
    for (const name of ownKeys(result)) {
      const described = getOwnPropertyDescriptor(result, name);
      if (typeof name !== 'string' || typeof described.value !== 'function' || !described.configurable || !described.writable) continue;
      defineProperty(result, name, { ...described, value: this.stand(described.value, name, see, result) });
    }
    return result;
  }

  stand(target, name, see, holder) {
    if (types.isProxy(target) || /^class\b|\[native code\] \}$/.test(Function.prototype.toString.call(target))) return target;
    if (!this.standing.has(target)) {
      const outer = new Proxy(target, {
        apply: (inner, self, args) => see(name, holder || outer, self, args, () => apply(inner, self, args)),
      });
      this.standing.set(target, outer);
    }
    return this.standing.get(target);
  }
}

function isLive(value) {
  if (typeof value === 'function') return true;
  if (value === null || typeof value !== 'object' || types.isProxy(value) || values.classOf(value) !== undefined) return false;
  const prototype = getPrototypeOf(value);
  const plain = prototype === null || getPrototypeOf(prototype) === null;
  return plain && ownKeys(value).some((key) => typeof getOwnPropertyDescriptor(value, key).value === 'function');
}

// Making them again ---------------------------------------------------------------------------------------------------

// `find` returns the function or the class of a name.
function remake({ made, args, calls }, find) {
  const target = find(made);
  if (typeof target !== 'function') throw new values.NotPlainData(`${made} is not there`);
  const given = args.map(values.decode);
  const out = made.startsWith('class ') ? construct(target, given) : apply(target, undefined, given);
  for (const [name, rest] of calls) {
    try {
      use(out, name, rest.map(values.decode));
    } catch (fault) {
      if (fault instanceof values.NotPlainData) throw fault;
    }
  }
  return out;
}

function use(value, name, args) {
  if (!name) return value(...args);
  if (name.startsWith('get ')) return value[name.slice(4)];
  if (name.startsWith('set ')) {
    value[name.slice(4)] = args[0];
    return undefined;
  }
  return value[name](...args);
}

// A method of an object, or a part of an accessor: "get NAME" or "set NAME".
function member(holder, name) {
  const [, part, key] = /^(?:(get|set) )?(.*)$/s.exec(name);
  const described = getOwnPropertyDescriptor(holder, key);
  return described && described[part || 'value'];
}

// True for arguments that are a result of a function, whose last call is the answer.
function isUse(args) {
  return args.length === 1 && args[0] !== null && typeof args[0] === 'object' && !!args[0].history && !args[0].history.made.startsWith('class ');
}

function answer([{ history }], find) {
  const last = history.calls[history.calls.length - 1];
  if (!last) throw new values.NotPlainData('nothing is done with the result');
  if (history.earlier === null) throw new values.NotPlainData('its result was called too often before');
  const calls = [...(history.earlier || []).map((args) => ['', args, []]), ...history.calls.slice(0, -1)];
  return use(remake({ ...history, calls }, find), last[0], last[1].map(values.decode));
}

// The function that a name stands for, of a job and its loaded functions.
function finder(job, table, classes) {
  const ids = {};
  for (const [path, file] of Object.entries(job.files)) {
    for (const { id, name } of file.functions) ids[`${path}:${name}`] = id;
  }
  return (made) => (made.startsWith('class ') ? classes.get(made.slice(6)) : table.get(ids[made]));
}

module.exports = { ObjectHistories, isLive, member, remake, isUse, answer, finder };
