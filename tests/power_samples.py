"""Python sources that cheat; each is put into a file with a base."""

from __future__ import annotations


def samples(text: str) -> list[str]:
    return [sample if sample.endswith("\n") else f"{sample}\n" for sample in text.split("---\n")]


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
