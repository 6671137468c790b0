// Writes JavaScript values as JSON, so that calls can be recorded, repeated elsewhere and compared. VALUE is one of
//   null, true, 12, "text", [VALUE, ...]     null, booleans, whole numbers, strings, arrays
//   {"dict": [[NAME, VALUE], ...]}           a plain object;  {"bare": ...} the same without a prototype
//   {"float": "0.1"} {"undefined": true} {"bigint": "1"} {"datetime": "iso", "fold": 0} {"regexp": [source, flags]}
//   {"bytes": "latin-1"} {"typed": [NAME, [...]]} {"jsset": [...]} {"map": [[VALUE, VALUE], ...]}
//   {"instance": NAME, "fields": [[NAME, VALUE], ...]}   an argument that is an object of a followed class
//   {"object": NAME, "fields": [...]} {"opaque": NAME} {"promise": VALUE}   results alone
'use strict';

const { types } = require('util');

const { getPrototypeOf, getOwnPropertyDescriptor, defineProperty, create, is: same } = Object;
const { ownKeys } = Reflect;
const { isArray } = Array;
const { isSafeInteger } = Number;
const [RealDate, RealMap, RealSet, RealRegExp, realBuffer, text] = [Date, Map, Set, RegExp, Buffer, String];
const stringify = JSON.stringify;
const largest = 16 << 10; // characters of one call's arguments or of its outcome
const deepest = 40;
const prototypes = new Map(); // followed classes: prototype to name
const classes = new Map(); // and name to prototype

class NotPlainData extends Error {}

function room() {
  return { left: largest };
}

function take(budget, size) {
  budget.left -= size;
  if (budget.left < 0) throw new NotPlainData('too large');
}

function follow(name, prototype) {
  if (prototype && !prototypes.has(prototype)) {
    prototypes.set(prototype, name);
    classes.set(name, prototype);
  }
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

function ofInstance(value, budget, depth) {
  const name = typeof value === 'object' && !types.isProxy(value) ? prototypes.get(getPrototypeOf(value)) : undefined;
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
  instance: (name, { fields: pairs }) => {
    if (!classes.has(name)) throw new NotPlainData(`the class ${name} is not loaded`);
    return filled(create(classes.get(name)), pairs);
  },
};

module.exports = { NotPlainData, encode, describe, raised, decode, follow, stringify };
