"""Honest Python sources, and honest ones that a person is asked about."""

from __future__ import annotations

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
