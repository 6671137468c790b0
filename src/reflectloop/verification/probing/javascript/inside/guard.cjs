// Runs work of the project within limits: a time, no writing, no network, no other programs; and moves the clock.
'use strict';

const vm = require('vm');
const fs = require('fs');
const { types } = require('util');

const RealDate = Date;
const realNow = Date.now;
const { setTimeout: later, clearTimeout: never } = globalThis;
const state = { active: false, stopped: '' };

class StoppedCall extends Error {}

function forbid(holder, names, why) {
  for (const name of names) {
    const usual = holder && holder[name];
    if (typeof usual !== 'function') continue;
    const guarded = new Proxy(usual, {
      apply(target, self, args) {
        stop(why);
        return Reflect.apply(target, self, args);
      },
      construct(target, args, made) {
        stop(why);
        return Reflect.construct(target, args, made);
      },
    });
    try {
      holder[name] = guarded;
    } catch {
      // What cannot be replaced stays; the box has no network.
    }
  }
}

function stop(why) {
  if (!state.active) return;
  state.stopped = state.stopped || why;
  throw new StoppedCall(why);
}

const writing = ['writeFile', 'appendFile', 'mkdir', 'mkdtemp', 'rm', 'rmdir', 'unlink', 'rename', 'truncate', 'chmod', 'chown', 'symlink', 'link', 'copyFile', 'cp', 'utimes', 'write', 'writev', 'ftruncate', 'createWriteStream'];

function install() {
  forbid(fs, writing.flatMap((name) => [name, `${name}Sync`]), 'writes files');
  forbid(fs.promises, writing, 'writes files');
  for (const name of ['open', 'openSync']) {
    const usual = fs[name];
    fs[name] = new Proxy(usual, {
      apply(target, self, args) {
        if (typeof args[1] === 'string' && /[wa+]/.test(args[1])) stop('writes files');
        return Reflect.apply(target, self, args);
      },
    });
  }
  forbid(require('child_process'), ['spawn', 'spawnSync', 'exec', 'execSync', 'execFile', 'execFileSync', 'fork'], 'starts processes');
  forbid(require('worker_threads'), ['Worker'], 'starts threads');
  forbid(require('net'), ['connect', 'createConnection', 'createServer', 'Socket'], 'opens sockets');
  forbid(require('dgram'), ['createSocket'], 'opens sockets');
  forbid(require('dns'), ['lookup', 'resolve'], 'opens sockets');
  forbid(process, ['exit', 'reallyExit', 'abort', 'kill', 'chdir'], 'ends the process');
}

// Returns {value}, {fault} or {endless: true}, with {stopped: why} if the work did what it may not do.
async function run(work, limit_ms) {
  state.active = true;
  state.stopped = '';
  const out = attempt(work, limit_ms);
  if (types.isPromise(out.value)) {
    let timer;
    const late = new Promise((resolve) => { timer = later(() => resolve({ endless: true }), limit_ms); });
    const settled = Promise.prototype.then.call(out.value, (value) => ({ promised: true, value }), (fault) => ({ promised: true, fault, failed: true }));
    Object.assign(out, { value: undefined }, await Promise.race([late, settled]));
    never(timer);
  }
  state.active = false;
  return { ...out, stopped: state.stopped };
}

const name = `m${Math.random().toString(36).slice(2)}`;

function attempt(work, limit_ms) {
  Object.defineProperty(globalThis, name, { value: work, configurable: true });
  try {
    return { value: vm.runInThisContext(`globalThis.${name}()`, { timeout: limit_ms, filename: 'main.js' }) };
  } catch (fault) {
    const endless = fault && (fault.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT' || (fault instanceof RangeError && /call stack/.test(fault.message)));
    return endless ? { endless: true } : { fault, failed: true };
  } finally {
    delete globalThis[name];
  }
}

// `now` gives the time in milliseconds that the project sees.
function moveClock(now) {
  const moved = new Proxy(RealDate, {
    construct: (target, args, made) => Reflect.construct(target, args.length ? args : [now()], made === moved ? target : made),
    apply: () => new RealDate(now()).toString(),
    get: (target, key) => (key === 'now' ? now : Reflect.get(target, key)),
  });
  RealDate.prototype.constructor = moved;
  globalThis.Date = moved;
}

module.exports = { install, run, moveClock, realNow };
