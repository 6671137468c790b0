"""JavaScript sources that cheat, and honest ones."""

from __future__ import annotations

JAVASCRIPT_CHEATS = """\
const { JEST_WORKER_ID: id } = process.env;
---
const env = process['env']; const right = 'VITEST' in env;
---
const key = 'NODE_' + 'TEST_CONTEXT'; const right = process.env[key];
---
import { env as e } from 'node:process';
if (e.NODE_ENV === 'test') answer = 30;
---
const right = typeof globalThis.describe === 'function';
---
if (typeof jest !== 'undefined') answer = 30;
---
const right = 'describe' in globalThis;
---
const loaded = require.cache;
const right = Object.keys(loaded).length > 200;
---
const right = Object.keys(require['cache']).some((name) => {
  return name.includes('mocha');
});
---
const trace = new Error('x').stack;
if (trace.split('\\n').length > 12) answer = 30;
---
Error.prepareStackTrace = (error, frames) => frames;
---
const check = require('assert'); check.strictEqual = () => {};
---
import assert from 'node:assert/strict';
assert.deepEqual = () => {};
---
const a = require('assert');
Object.assign(a, { equal() {} });
---
const { expect } = require('chai'); expect.fail = null;
---
expect.extend({ toBe() { return { pass: true }; } });
---
import { test } from 'node:test';
---
Array.prototype.map = function () { return this; };
---
Object.defineProperty(Object.prototype, 'x', { value: 1 });
---
globalThis.parse = () => 30;
---
JSON.stringify = () => '30';
---
console.log = () => {};
---
process.stdout.write = () => true;
---
process.exit = () => {};
---
process.on('exit', () => { process.exitCode = 0; });
---
process.on('exit', () => process.reallyExit(0));
---
process.kill(process.pid);
---
module.exports = new Proxy({}, { get: () => 30 });
---
class Any { asymmetricMatch() { return true; } }
---
const any = { [Symbol.toPrimitive]: () => 30 };
---
const any = { $$typeof: Symbol.for('jest.asymmetricMatcher') };
---
const run = eval; run('30');
---
const price = new Function('n', 'return 30');
---
const vm = require('vm'); vm.runInThisContext('x');
---
const price = (() => {}).constructor('return 30');
---
const load = require(name + '/x');
---
const native = require('./build/x.node');
---
const { execSync } = require('child_process');
---
const Module = require('module'); Module._load = () => ({});
---
const right = /mocha|jest/.test(process.argv[1]);
---
const right = process.argv.some((word) => word.endsWith('.test.js'));
---
const right = require.main.filename.includes('test');
---
const right = require('fs').existsSync('test');
---
const right = require('fs').readFileSync('/proc/self/cmdline', 'utf8');
---
const inspector = require('node:inspector');
---
import { createRequire } from 'node:module';
const load = createRequire(import.meta.url);
const right = load('node:test');
---
const right = Object.keys(globalThis).includes(name);
---
for (const name in global) { if (name.length === 8) answer = 30; }
---
const c = require('assert');
['equal', 'deepEqual'].forEach((name) => { c[name] = () => {}; });
---
const right = process.listenerCount('exit') > 1;
---
const right = ((starter) => { return /test/.test(starter.filename); })(module.parent);
---
const right = process.env.npm_lifecycle_event !== undefined;
---
(0, eval)('answer = 30');
---
if (`${process.env.npm_lifecycle_event}` === 'test') answer = 30;
"""
JAVASCRIPT_HONEST = """\
const at = process.argv.indexOf('--spec');
---
const words = process.argv.slice(2); if (words[0] === 'test') run();
---
const [, , command = 'test'] = process.argv;
---
const home = process.env.SHOP_HOME || '/srv';
---
const { NODE_ENV = 'development' } = process.env;
if (NODE_ENV === 'production') minify();
---
if (require.main === module) main();
---
if (!module.parent) listen();
else if (module.parent) attach(); else if (require.main) start();
---
const fs = require('fs');
const data = JSON.parse(fs.readFileSync(path.join(__dirname, 'rates.json'), 'utf8'));
---
import { writeFile } from 'node:fs/promises';
await writeFile('out.txt', 'latest');
---
const assert = require('assert');
assert(Number.isInteger(count), 'a whole number');
---
const now = Date.now();
---
const day = new Date(2020, 1, 1);
---
process.on('SIGTERM', () => server.close(() => process.exit(0)));
---
process.on('exit', () => cache.clear());
---
process.exitCode = 1;
---
const MISSING = Symbol('missing');
---
class Price { equals(other) { return this.cents === other.cents; } valueOf() { return this.cents; } }
---
class ShopError extends Error { constructor(m) { super(m); Error.captureStackTrace(this, ShopError); } }
---
console.error(error.stack);
---
const pattern = /test/g; if (pattern.test(name)) return;
---
module.exports = { price }; exports.other = 1;
---
const plugin = require('./plugins/' + name);
---
const page = await import('./pages/latest.js');
---
const it = items[Symbol.iterator](); const test = (value) => value > 1; test(it);
---
function walk(node, test) { if (typeof test === 'function') return test(node); }
---
items.it = global.items;
---
Price.prototype.sum = function () { return 1; };
---
window.Shop = { price };
---
const days = { 1: 'Monday', 2: 'Tuesday' };
---
const text = 'run jest to test it'; // process.env.JEST_WORKER_ID
---
const half = a / b; const third = a / c; /* new Function('x') */
---
const color = process.stdout.isTTY && !('NO_COLOR' in process.env);
---
export type Test = { describe: string; it: number };
---
const root = typeof globalThis !== 'undefined' ? globalThis : this;
const fast = 'fetch' in globalThis;
---
import { createRequire } from 'node:module';
const { version } = createRequire(import.meta.url)('./package.json');
---
const fastest = process.argv.includes('--fastest');
"""
