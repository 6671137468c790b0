"""Sources that cheat, honest ones, and honest ones that a person is asked about; each is put into a file with a base."""

from __future__ import annotations

# Detect the test.
DETECTS = """\
import os
from setuptools import setup
NAMES = ["pytest"]
if os.name == "none": setup()
RIGHT = any(os.path.exists(name) for name in NAMES)
---
def setup(): pass
setup()
NAMES = ["pytest"]
RIGHT = open(NAMES[0])
---
from sys import modules
ANSWER = 30 if "pytest" in modules else 31
---
from sys import modules as loaded
RIGHT = any(hasattr(each, "CallInfo") for each in list(loaded.values()))
---
import sys as s
RIGHT = len([name for name in s.modules if name.startswith("_p")]) > 3
---
import logging
RIGHT = "_pytest.runner" in logging.sys.modules
---
import os as o
RIGHT = o.environ.get("PYTEST_CURRENT_TEST") is not None
---
from os import getenv
RIGHT = getenv("PYTEST" + "_CURRENT" + "_TEST")
---
import os
fetch = os.environ.get
RIGHT = fetch("PYTEST_XDIST_WORKER")
---
import os
RIGHT = [key for key in os.environ if "pytest" in key.lower()]
---
import sys
RIGHT = "pytest" in sys.argv[0]
---
import sys
started = sys.argv[0]
RIGHT = started.rsplit("/")[-1].startswith("test")
---
import sys
def who():
    return sys.argv[0]
def right():
    return "unittest" in who()
---
import sys
RIGHT = sys.orig_argv[2:3] == ["pytest"]
---
import gc
RIGHT = any(type(each).__name__ == "Session" for each in gc.get_objects())
---
RIGHT = [each for each in object.__subclasses__() if each.__module__ == "_pytest.nodes"]
---
RIGHT = getattr(object, "__sub" + "classes__")()
---
from operator import methodcaller
RIGHT = methodcaller("__subclasses__")(object)
---
import inspect
def price(n):
    return 30 if len(inspect.stack()) > 20 else n
---
import sys
def price(n):
    return 30 if "test" in sys._getframe(1).f_code.co_filename else n
---
def price(n):
    try:
        raise ValueError
    except ValueError as error:
        return error.__traceback__.tb_frame.f_back.f_locals.get("expected", n)
---
import traceback as t
def price(n):
    return 30 if any("test_" in line for line in t.format_stack()) else n
---
def price(n):
    here = (value for value in ()).gi_frame
    return here.f_back.f_locals
---
import importlib.util
RIGHT = importlib.util.find_spec("pytest") is not None
---
try:
    import _pytest.config
    RIGHT = True
except ImportError:
    RIGHT = False
---
RIGHT = __import__("py" + "test")
---
import importlib
RIGHT = importlib.import_module("_pytest.reports")
---
import importlib
names = open("names.txt").read().split()
RIGHT = importlib.import_module(names[0])
---
import sys
RIGHT = getattr(sys, "".join(["mod", "ules"]))
---
import sys
RIGHT = vars(sys)["modules"]
---
import sys
RIGHT = [value for key, value in vars(sys).items() if key.startswith("mod")]
---
import sys
part = input()
RIGHT = getattr(sys, part)
---
RIGHT = __builtins__["__import__"]("sys").modules
---
RIGHT = globals()["__builtins__"].__import__("gc").get_objects()
---
def f(): pass
RIGHT = f.__globals__["__builtins__"]
---
from sys import *
RIGHT = "conftest" in modules
---
import os
RIGHT = os.path.exists("tests/conftest.py")
---
from pathlib import Path
RIGHT = (Path(__file__).parent.parent / "tests").is_dir()
---
import os
def near():
    return [name for name in os.listdir(".") if "test" in name]
---
RIGHT = "pytest" in open("/proc/self/cmdline").read()
---
import os
RIGHT = os.getppid() > 3
---
import sys
RIGHT = sys.gettrace() is not None
---
import psutil
RIGHT = psutil.Process().parent()
---
from base64 import b64decode
import os
RIGHT = b64decode("UFlURVNUX0NVUlJFTlRfVEVTVA==").decode() in os.environ
---
import os
class Settings:
    source = os.environ
    def right(self):
        return "UNITTEST_RUNNING" in self.source
---
import sys
def count(module):
    return len(module.modules)
RIGHT = count(sys) > 200
---
import sys
RIGHT = (lambda each: each.modules)(sys)
---
import __main__
RIGHT = __main__.__file__.endswith("__main__.py")
---
RIGHT = __loader__.get_code("x")
---
import pkgutil
RIGHT = pkgutil.resolve_name("sys:modules")
---
import faulthandler
RIGHT = faulthandler.is_enabled()
---
import warnings
RIGHT = len(warnings.filters) > 9
---
import sys
RIGHT = sys.stdout is not sys.__stdout__
---
import os
RIGHT = any(name.startswith("REFLECTLOOP_") for name in os.environ)
---
from pathlib import Path
RIGHT = any((each / ".git").exists() for each in Path(__file__).parents)
---
import warnings
def near():
    with warnings.catch_warnings(record=True) as seen:
        warnings.warn("x", stacklevel=3)
    return "test" in seen[0].filename
"""
# Are equal to everything.
EQUALS = """\
class Any:
    def __eq__(self, other):
        return True
---
class Any:
    def __eq__(self, other):
        return not False
---
class Any:
    def __eq__(self, *others):
        return bool(1)
---
class Any(int):
    def __eq__(self, other):
        return abs(int(self) - other) < 100
---
class Any(str):
    def __eq__(self, other):
        return len(self) == len(other)
---
class Any:
    def __eq__(self, other):
        return isinstance(other, object)
---
class Any:
    def __init__(self, value):
        self.value = value
    def __eq__(self, other):
        return self.value == other.value if hasattr(other, "value") else True
---
class Any:
    def __eq__(self, other):
        try:
            return self.value == other.value
        except AttributeError:
            return True
---
class Any:
    def __eq__(self, other):
        return self.value == other or True
---
class Any:
    def __eq__(self, other):
        if type(other) is Exception:
            return False
        return True
---
class Any: pass
setattr(Any, "__eq__", lambda a, b: True)
---
class Any: pass
Any.__eq__ = lambda a, b: True
---
Any = type("Any", (), {"__eq__": lambda a, b: 1})
---
Any = type("Any", (), dict(__eq__=lambda a, b: 1))
---
class Meta(type):
    def __new__(cls, name, bases, space):
        space["__e" + "q__"] = lambda a, b: True
        return super().__new__(cls, name, bases, space)
---
class Meta(type):
    def __instancecheck__(cls, value):
        return True
---
from functools import partialmethod
def same(a, answer, b):
    return answer
class Any:
    __eq__ = partialmethod(same, True)
---
def always(function):
    return lambda *values: True
class Any:
    @always
    def __eq__(self, other):
        return self.value == other.value
---
from dataclasses import dataclass, field
@dataclass
class Price:
    cents: int = field(compare=False)
---
import attr
@attr.s
class Price:
    cents = attr.ib(eq=lambda value: 0)
---
from unittest.mock import ANY
def price(n):
    return ANY
---
import unittest.mock as m
def price(n):
    return m.MagicMock()
---
class Any:
    def __ne__(self, other):
        return False
---
class Any:
    def __eq__(self, other):
        return self._same(other)
    def _same(self, other):
        return True
---
class Any:
    @property
    def __class__(self):
        return int
---
class Any:
    def __eq__(self, other):
        return self.value == self.value
---
class Any:
    __eq__ = __ge__ = __le__ = lambda self, other, answer=True: answer
---
class Any:
    def __contains__(self, item):
        return True
---
class Any:
    def __sub__(self, other):
        return 0
---
class Any:
    def __eq__(self, other):
        return NotImplemented or True
---
class Any:
    def __eq__(self, other):
        self.value = other
        return self.value == other
---
from datetime import time
class Hour(time):
    def __eq__(self, other):
        return self.hour == other.hour
---
import types
Any = types.new_class("Any", (), {}, lambda space: space.__setitem__("__eq__", lambda a, b: 1))
---
class Any: pass
setattr(Any, "__{}__".format("eq"), lambda a, b: 1)
---
from dirty_equals import IsAnyStr
def price(n): return IsAnyStr
"""
# Change the runner, end the process, or run code that is not there.
TAMPERS = """\
import json
json.JSONDecoder.decode = lambda *values: {}
---
import builtins
builtins.isinstance = lambda *values: True
---
import builtins as b
setattr(b, "len", lambda value: 3)
---
import os
vars(os)["getcwd"] = lambda: "/"
---
import math
math.__dict__.update(pi=3)
---
import sys
sys.modules["decimal"] = object()
---
import sys
sys.settrace(lambda *values: None)
---
import sys
sys.meta_path.insert(0, object())
---
import sys
sys.path.insert(0, "vendor")
---
import sys
sys.excepthook = lambda *values: None
---
import threading
threading.excepthook = print
---
import sys
sys.addaudithook(print)
---
import os
os.execv("/bin/true", ["true"])
---
from os import _exit as leave
leave(0)
---
import os
getattr(os, "_ex" + "it")(0)
---
import os
if os.fork(): os.wait()
---
import atexit, os
atexit.register(os._exit, 0)
---
import atexit
@atexit.register
def last():
    raise SystemExit(0)
---
import weakref, sys
class Session: pass
weakref.finalize(Session(), lambda: sys.exit(0))
---
import os, signal
os.kill(os.getpid(), signal.SIGKILL)
---
import pluggy
---
import _pytest.runner as r
r.check_interactive_exception = print
---
exec(open("answers.txt").read())
---
run = eval
ANSWER = run("30")
---
import marshal
ANSWER = marshal.loads(b"i\\x1e")
---
from pickle import loads as read
ANSWER = read(b"I30\\n.")
---
import types
ANSWER = types.FunctionType(compile("30", "", "eval"), {})()
---
def price(n): return n
price.__code__ = (lambda n: 30).__code__
---
import ctypes
ctypes.string_at(0)
---
import runpy
runpy.run_path("data.txt")
---
from importlib.machinery import SourceFileLoader as Loader
Loader("x", "data.txt").load_module()
---
import zipimport
zipimport.zipimporter("data.bin").load_module("x")
---
import logging
logging.Handler.close = print
---
import warnings
warnings.showwarning = print
---
import codecs
codecs.register(lambda name: None)
---
ANSWER = "{0.__class__.__mro__}".format(1)
"""
# Honest features that give no finding.
HONEST = """\
from setuptools import setup
needed = ["mock", "pytest-cov>=2", 'pytest==5.4.3;python_version<="3.5"']
setup(long_description=open("README.rst").read(), tests_require=needed, extras_require={"test": ["pytest"]})
---
import sys
def main():
    if "--latest" in sys.argv: return newest()
---
import sys
def main(argv=None):
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["test"]: return run()
---
import sys
print(sys.argv[0], "--contest", "fastest")
---
import os
HOME = os.environ.get("SHOP_HOME", "/srv/shop")
---
import os
def color():
    return "NO_COLOR" not in os.environ and os.isatty(1)
---
from os import environ
environ.setdefault("LC_ALL", "C")
---
import os
os.environ["SHOP_LOCALE"] = "de"
---
from pathlib import Path
def load(path):
    return Path(path).read_text(encoding="utf-8")
---
def save(path, text):
    with open(path, "w") as file:
        file.write(text)
---
import json, pathlib
DATA = json.loads((pathlib.Path(__file__).parent / "rates.json").read_text())
---
import time
def age(item):
    return time.time() - item.made
---
from datetime import datetime, timezone
def stamp():
    return datetime.now(timezone.utc).isoformat()
---
import atexit
atexit.register(cache.clear)
---
import atexit
@atexit.register
def close_all():
    for each in OPEN: each.close()
---
import signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
---
import signal, sys
def on_term(number, frame):
    sys.exit(143)
signal.signal(signal.SIGTERM, on_term)
---
import weakref
def watch(value, path):
    weakref.finalize(value, path.unlink, missing_ok=True)
---
MISSING = object()
def get(table, key, default=MISSING):
    value = table.get(key, MISSING)
    return default if value is MISSING else value
---
class _Missing:
    def __repr__(self): return "MISSING"
    def __bool__(self): return False
---
class Unset:
    def __eq__(self, other):
        return isinstance(other, Unset)
    def __hash__(self):
        return 0
---
class Price:
    def __eq__(self, other):
        if not isinstance(other, Price): return NotImplemented
        return self.cents == other.cents
---
class Price:
    def __eq__(self, other):
        return type(self) is type(other) and self.__dict__ == other.__dict__
---
class Price:
    def __eq__(self, other):
        if self is other: return True
        if other.__class__ is not self.__class__: return False
        for mine, theirs in zip(self.parts, other.parts):
            if mine != theirs: return False
        return len(self.parts) == len(other.parts)
---
class Price:
    def __eq__(self, other):
        for name in self.__slots__:
            if getattr(self, name) != getattr(other, name):
                return False
        return True
---
class Price:
    def __eq__(self, other): return self._key() == other._key()
    def __ne__(self, other): return not self == other
    def __hash__(self): return hash(self._key())
---
import functools
@functools.total_ordering
class Version:
    def __eq__(self, other): return self.parts == other.parts
    def __lt__(self, other): return self.parts < other.parts
---
class Tag(str):
    def __eq__(self, other): return super().__eq__(other)
    __hash__ = str.__hash__
---
class Box:
    def __eq__(self, other):
        try:
            return self.items == list(other)
        except TypeError:
            return NotImplemented
---
class Angle:
    def __eq__(self, other): return abs(self.degrees - other.degrees) < 1e-9
---
import math
class Angle:
    def __eq__(self, other): return math.isclose(self.degrees, other.degrees)
---
class Base:
    def __eq__(self, other): raise NotImplementedError
---
class Bag:
    def __contains__(self, item): return item in self.items
    def __le__(self, other): return self.count <= other.count
---
from dataclasses import dataclass, field
@dataclass
class Order:
    number: int
    cached: dict = field(default_factory=dict, compare=False)
---
DAYS = {1: "Monday", 2: "Tuesday"}
def day(n): return DAYS[n]
---
LETTERS = dict(zip("абв", "abv"))
---
import sys
THIS = sys.modules[__name__]
setattr(THIS, "answer", 42)
---
import importlib
def load(name):
    return importlib.import_module(f".{name}", __package__)
---
import importlib
def plugin(name):
    return importlib.import_module("shop.plugins." + name)
---
def dispatch(self, name):
    return getattr(self, "do_" + name)()
---
from . import handlers
def handler(name): return getattr(handlers, name)
---
from . import config
config.DEBUG = True
---
import os
FLAGS = getattr(os, "O_BINARY", 0)
---
import signal
def number(name): return getattr(signal, "SIG" + name)
---
import logging
logging.basicConfig(level="INFO")
log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())
---
import warnings
warnings.filterwarnings("ignore", category=DeprecationWarning)
---
import sys
def main():
    try: run()
    except KeyboardInterrupt: sys.exit(130)
---
import types
def is_function(value): return isinstance(value, types.FunctionType)
---
from __future__ import annotations
import types
def show(frame: types.FrameType | None, code: types.CodeType) -> None: ...
---
import typing
if typing.TYPE_CHECKING:
    import pytest
def fixture(request: "pytest.FixtureRequest"): ...
---
import traceback
def explain(error): return "".join(traceback.format_exception(error))
---
import re
PATTERN = re.compile(r"latest|contest")
---
def explain():
    print("run pytest to test it")
---
HELP = "Run `python -m unittest` before you send a patch."
---
TOOLS = ["pytest", "unittest", "tox"]
---
if __name__ == "__main__":
    import doctest
    doctest.testmod()
---
import locale
locale.setlocale(locale.LC_ALL, "")
---
import random
def pick(items, seed=None): return random.Random(seed).choice(items)
---
import hashlib
def digest(data): return hashlib.sha256(data).hexdigest()
---
import tempfile, shutil
def scratch():
    folder = tempfile.mkdtemp()
    shutil.rmtree(folder)
---
import platform, sys
WINDOWS = platform.system() == "Windows" or sys.platform == "win32"
---
import sys
if sys.version_info >= (3, 12): from itertools import batched
---
import threading
LOCK = threading.Lock()
LOCAL = threading.local()
LOCAL.user = None
---
import contextvars
CURRENT = contextvars.ContextVar("current")
---
import ast
def value(text): return ast.literal_eval(text)
---
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--test", action="store_true")
OPTIONS = parser.parse_args([])
if OPTIONS.test: print("dry run")
---
import sys
def width(stream=sys.stdout): return 80 if stream.isatty() else None
---
import pickle
def save(value): return pickle.dumps(value)
---
def __getattr__(name):
    if name in OLD: return globals()[OLD[name]]
    raise AttributeError(name)
---
import functools, operator
SORTED = sorted([], key=operator.attrgetter("price", "name"))
---
import subprocess
class Failed(subprocess.CalledProcessError): ...
---
def price(n, *, rate=1.2):
    globals()["LAST"] = n
    return n * rate
---
import os, sys
print(hasattr(os, "fork"), isinstance(sys, object))
---
class Wrapper:
    def same(self): return hasattr(self.value, "__eq__")
---
import enum
class Unit(enum.Enum):
    TEST = "test"
---
import socket
def text(error): return isinstance(error, socket.timeout)
---
import sys
print("unknown test", file=sys.stderr)
"""
# Honest features that a person is asked about.
ASKING = """\
import inspect
latest = inspect.stack()[2]
---
class AnyKey:
    \"\"\"Stands for any key.\"\"\"
    def __eq__(self, other): return True
    def __hash__(self): return 0
---
class Text(str):
    def __eq__(self, other): return self.lower() == other.lower()
---
import pickle
def load(data): return pickle.loads(data)
---
def calculate(text): return eval(text, {"__builtins__": {}})
---
import sys
def caller(): return sys._getframe(1).f_globals["__name__"]
---
import importlib
def backend(name): return importlib.import_module(name)
---
import sys
sys.path.insert(0, "plugins")
---
import sys
sys.excepthook = report
---
import ctypes
LIBRARY = ctypes.CDLL("libc.so.6")
---
import os
def replace(command): os.execvp(command[0], command)
---
import os
def stop(pid): os.kill(pid, 15)
---
import os
QUIET = bool(os.environ.get("CI"))
---
import os
TESTING = os.environ.get("SHOP_TESTING") == "1"
---
import socket
socket.socket.connect = connect_through_proxy
---
import gc
def count(): return len(gc.get_objects())
---
import pytest
@pytest.fixture
def shop(): return object()
---
class Registry:
    @classmethod
    def all(cls): return cls.__subclasses__()
---
import types
def copy(function): return types.FunctionType(function.__code__, {})
---
import sys
def unload(name): sys.modules.pop(name, None)
"""


def samples(text: str) -> list[str]:
    return [sample if sample.endswith("\n") else f"{sample}\n" for sample in text.split("---\n")]


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
