// Writes JavaScript values as JSON, so that calls can be recorded, repeated elsewhere and compared. VALUE is one of
//   null, true, 12, "text", [VALUE, ...]     null, booleans, whole numbers, strings, arrays
//   {"dict": [[NAME, VALUE], ...]}           a plain object;  {"bare": ...} the same without a prototype
//   {"float": "0.1"} {"undefined": true} {"bigint": "1"} {"datetime": "iso", "fold": 0} {"regexp": [source, flags]}
//   {"bytes": "latin-1"} {"typed": [NAME, [...]]} {"jsset": [...]} {"map": [[VALUE, VALUE], ...]}
//   {"instance": NAME, "fields": [[NAME, VALUE], ...]}   an argument that is an object of a followed class; with a "history"
//   {"history": {"made": NAME, "args": [VALUE], "kwargs": [], "calls": [[METHOD, [VALUE], []], ...]}}
//                                                        one by the calls that made it; see histories.cjs
//   {"callback": TEXT} {"native": NAME}                  an argument that is a function
//   {"object": NAME, "fields": [...]} {"opaque": NAME} {"promise": VALUE} {"iterator": [VALUE, ...]}   results alone
'use strict';

const vm = require('vm');
const { types } = require('util');

const { getPrototypeOf, getOwnPropertyDescriptor, defineProperty, create, is: same } = Object;
const { apply, ownKeys } = Reflect;
const textOf = Function.prototype.toString;
const { isArray } = Array;
const { isSafeInteger } = Number;
const [RealDate, RealMap, RealSet, RealRegExp, realBuffer, text] = [Date, Map, Set, RegExp, Buffer, String];
const stringify = JSON.stringify;
const largest = 16 << 10; // characters of one call's arguments or of its outcome
const deepest = 40;
const mostDrawn = 200; // values of an iterator
const mostHeard = 40; // calls of callbacks during one call
const ownOfFunctions = ['length', 'name', 'prototype', 'arguments', 'caller'];
const prototypes = new Map(); // followed classes: prototype to name
const classes = new Map(); // and name to prototype
const hidden = new Set(); // prototypes of classes with private members
const heard = { calls: [], lacks: false }; // by callbacks that were made again; whether one lacks a name of its test
let remake = () => { throw new NotPlainData('an object that cannot be made here'); };

class NotPlainData extends Error {}

function room() {
  return { left: largest };
}

function take(budget, size) {
  budget.left -= size;
  if (budget.left < 0) throw new NotPlainData('too large');
}

function follow(name, target) {
  const prototype = target && target.prototype;
  if (prototype && !prototypes.has(prototype)) {
    prototypes.set(prototype, name);
    classes.set(name, prototype);
    if (/#[\w$]/.test(apply(textOf, target, []))) hidden.add(prototype);
  }
}

// The name of an object's class, if it is a followed one.
function classOf(value) {
  return value !== null && typeof value === 'object' && !types.isProxy(value) ? prototypes.get(getPrototypeOf(value)) : undefined;
}

// `make` returns the object that a history describes.
function remakeBy(make) {
  remake = make;
}

// An argument as JSON from which it can be made again.
function encode(value, budget = room()) {
  return write(value, budget, 0, ofInstance);
}

// A result as JSON by which it can be compared.
function describe(value) {
  try {
    return write(value, room(), 0, ofObject);
  } catch (fault) {
    if (!(fault instanceof NotPlainData)) throw fault;
    return { opaque: className(value), large: true };
  }
}

function write(value, budget, depth, other) {
  take(budget, 2);
  if (depth > deepest) throw new NotPlainData('too deep');
  switch (typeof value) {
    case 'boolean':
      return value;
    case 'number':
      return isSafeInteger(value) && !same(value, -0) ? value : { float: number(value) };
    case 'string':
      take(budget, value.length);
      return value;
    case 'undefined':
      return { undefined: true };
    case 'bigint':
      return { bigint: text(value) };
    case 'object':
      return value === null ? null : ofAny(value, budget, depth, other);
    default:
      return other(value, budget, depth);
  }
}

function number(value) {
  if (value === Infinity) return 'inf';
  if (value === -Infinity) return '-inf';
  if (value !== value) return 'nan';
  return same(value, -0) ? '-0.0' : text(value);
}

function ofAny(value, budget, depth, other) {
  if (types.isProxy(value)) return other(value, budget, depth);
  if (other === ofObject && isIterator(value)) return { opaque: 'iterator' };
  const inner = (item) => write(item, budget, depth + 1, other);
  if (isArray(value)) {
    if (value.length > largest) throw new NotPlainData('too large');
    const out = [];
    for (let at = 0; at < value.length; at++) out.push(inner(at in value ? property(value, at) : undefined));
    return out;
  }
  const prototype = getPrototypeOf(value);
  if (prototype === null) return { bare: fields(value, inner) };
  if (getPrototypeOf(prototype) === null && getOwnPropertyDescriptor(prototype, 'hasOwnProperty')) return { dict: fields(value, inner) };
  if (types.isDate(value)) {
    const time = RealDate.prototype.getTime.call(value);
    return time === time ? { datetime: new RealDate(time).toISOString().replace('Z', '+00:00'), fold: 0 } : { opaque: 'Invalid Date' };
  }
  if (types.isRegExp(value)) return { regexp: [value.source, value.flags] };
  if (realBuffer.isBuffer(value)) {
    take(budget, value.length);
    return { bytes: value.toString('latin1') };
  }
  if (types.isUint8Array(value)) {
    take(budget, value.length * 4);
    return { typed: ['Uint8Array', [...value]] };
  }
  if (types.isSet(value)) return { jsset: [...RealSet.prototype.values.call(value)].map(inner) };
  if (types.isMap(value)) return { map: [...RealMap.prototype.entries.call(value)].map((pair) => [inner(pair[0]), inner(pair[1])]) };
  return other(value, budget, depth);
}

function property(value, key) {
  const described = getOwnPropertyDescriptor(value, key);
  if (described && !('value' in described)) throw new NotPlainData('a property that is computed');
  return described ? described.value : undefined;
}

function fields(value, inner) {
  const out = [];
  for (const key of ownKeys(value)) {
    const described = getOwnPropertyDescriptor(value, key);
    if (typeof key === 'symbol' || !described.enumerable) continue;
    out.push([key, inner(property(value, key))]);
  }
  return out;
}

function className(value) {
  if (typeof value === 'function') return 'Function';
  if (typeof value === 'symbol') return 'Symbol';
  if (types.isProxy(value)) return 'Proxy';
  for (let item = value; item; item = getPrototypeOf(item)) {
    const made = getOwnPropertyDescriptor(item, 'constructor');
    if (made && typeof made.value === 'function') return text(getOwnPropertyDescriptor(made.value, 'name')?.value);
  }
  return 'Object';
}

// Iterators -----------------------------------------------------------------------------------------------------------

function isIterator(value) {
  if (types.isGeneratorObject(value) || types.isMapIterator(value) || types.isSetIterator(value)) return true;
  return value !== null && typeof value === 'object' && !types.isProxy(value) && (isMethod(value, 'next') && (isMethod(value, Symbol.iterator) || isMethod(value, Symbol.asyncIterator)));
}

function isMethod(value, key) {
  for (let item = value; item && !types.isProxy(item); item = getPrototypeOf(item)) {
    const described = getOwnPropertyDescriptor(item, key);
    if (described) return typeof described.value === 'function';
  }
  return false;
}

class DrawnValues {
  constructor() {
    this.items = [];
  }
}

// The values of an iterator, in place of it; of an asynchronous one, a promise of them. Other results stay as they are.
function drawn(value) {
  if (!isIterator(value)) return value;
  const out = new DrawnValues();
  if (isMethod(value, Symbol.asyncIterator)) return later(value, out);
  for (const item of { [Symbol.iterator]: () => value }) if (isFull(out, item)) break;
  return out;
}

async function later(value, out) {
  for await (const item of { [Symbol.asyncIterator]: () => value }) if (isFull(out, item)) break;
  return out;
}

// What a bounded call came to, as JSON.
function ofResult({ value, promised }) {
  if (value instanceof DrawnValues) return { iterator: value.items };
  return promised ? { promise: describe(value) } : describe(value);
}

function isFull(out, item) {
  out.items.push(describe(item));
  return out.items.length >= mostDrawn;
}

// Functions as arguments ------------------------------------------------------------------------------------------------

function ofFunction(value, budget) {
  if (types.isProxy(value) || ownKeys(value).some((key) => !ownOfFunctions.includes(key))) throw new NotPlainData('function');
  const written = apply(textOf, value, []);
  if (written.endsWith('[native code] }')) {
    if (globalThis[value.name] === value) return { native: value.name };
    throw new NotPlainData('function');
  }
  if (written.startsWith('class')) throw new NotPlainData('function');
  take(budget, written.length);
  return { callback: written };
}

// A function with the text of the test's. What it is called with is noted; a name that only the test has ends it.
function callback(written) {
  const inner = compiled(written);
  const outer = function (...args) {
    if (heard.calls.length < mostHeard) heard.calls.push(args.map((value) => describe(value)));
    try {
      return apply(inner, this, args);
    } catch (fault) {
      if (!(fault instanceof ReferenceError)) throw fault;
      heard.lacks = true;
      return undefined;
    }
  };
  return defineProperty(outer, 'length', { value: inner.length, configurable: true });
}

function compiled(written) {
  for (const source of [`(${written})`, `Object.values({${written}})[0]`]) {
    try {
      const made = vm.runInThisContext(`'use strict';${source}`, { filename: 'test.js' });
      if (typeof made === 'function') return made;
    } catch {
      // It is written as a method, or uses what is no strict code.
    }
  }
  throw new NotPlainData('function');
}

// What callbacks were called with since they were asked last.
function listened() {
  const out = { ...heard };
  Object.assign(heard, { calls: [], lacks: false });
  return out;
}

function ofInstance(value, budget, depth) {
  if (typeof value === 'function') return ofFunction(value, budget);
  const name = classOf(value);
  if (name !== undefined && hidden.has(getPrototypeOf(value))) throw new NotPlainData('an object with private members');
  if (name === undefined) throw new NotPlainData(typeof value === 'object' ? `an object of the class ${className(value)}` : typeof value);
  return { instance: name, fields: fields(value, (item) => write(item, budget, depth + 1, ofInstance)) };
}

function ofObject(value, budget, depth) {
  const name = className(value);
  if (typeof value !== 'object' || types.isProxy(value)) return { opaque: name };
  if (types.isNativeError(value)) return { object: name, of: text(getOwnPropertyDescriptor(value, 'message')?.value) };
  try {
    return { object: name, fields: fields(value, (item) => write(item, budget, depth + 1, ofObject)) };
  } catch (fault) {
    if (!(fault instanceof NotPlainData) || fault.message.startsWith('too')) throw fault;
    return { opaque: name };
  }
}

function raised(fault) {
  const name = types.isNativeError(fault) || fault instanceof Error ? text(fault.name) : `a ${typeof fault} that was thrown`;
  let message = '';
  try {
    message = text(fault && typeof fault === 'object' ? fault.message : fault).slice(0, 2000);
  } catch {
    message = '?';
  }
  return { raises: name, text: message };
}

// Values of JSON, made again ------------------------------------------------------------------------------------------

function decode(value) {
  if (isArray(value)) return value.map(decode);
  if (value === null || typeof value !== 'object') return value;
  const tag = ownKeys(value)[0];
  const maker = makers[tag];
  if (!maker) throw new NotPlainData(`cannot be made again: ${tag}`);
  return maker(value[tag], value);
}

function filled(target, pairs) {
  for (const [key, item] of pairs) {
    defineProperty(target, typeof key === 'string' ? key : text(decode(key)), { value: decode(item), writable: true, enumerable: true, configurable: true });
  }
  return target;
}

const makers = {
  dict: (pairs) => filled({}, pairs),
  bare: (pairs) => filled(create(null), pairs),
  float: (written) => ({ inf: Infinity, '-inf': -Infinity, nan: NaN })[written] ?? Number(written),
  int: (written) => Number(written),
  undefined: () => undefined,
  bigint: (written) => BigInt(written),
  datetime: (written) => new RealDate(written),
  regexp: ([source, flags]) => new RealRegExp(source, flags),
  bytes: (written) => realBuffer.from(written, 'latin1'),
  typed: ([, items]) => new Uint8Array(items),
  jsset: (items) => new RealSet(items.map(decode)),
  map: (pairs) => new RealMap(pairs.map((pair) => pair.map(decode))),
  tuple: (items) => items.map(decode),
  callback,
  native: (name) => globalThis[name],
  history: (made) => remake(made),
  instance: (name, { fields: pairs }) => {
    if (!classes.has(name)) throw new NotPlainData(`the class ${name} is not loaded`);
    return filled(create(classes.get(name)), pairs);
  },
};

module.exports = { NotPlainData, encode, describe, raised, ofResult, decode, drawn, listened, follow, classOf, remakeBy, stringify };
