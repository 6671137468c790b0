"""Write functions that arguments and variables refer to, and make them again; make functions inside other functions.

The project's Python runs this file: standard library of 3.8 only. A function of a test is written by its code, since a
call is repeated where there are no tests:

    {"code": "base64", "for": "cpython-311", "name": "fake", "defaults": VALUE, "named": [[NAME, VALUE], ...],
     "variables": [[NAME, VALUE], ...], "globals": [[NAME, VALUE], ...]}
    {"inner": "pkg.mod:outer.<locals>.inner", "defaults", "named", "variables"}   one of the project, in another one
    {"wrapped": "pkg.mod:name", "times": 1}       one of the project that a decorator replaced
    {"partial": VALUE, "args": [VALUE, ...], "kwargs": [[NAME, VALUE], ...]}
    {"called": VALUE}                             an object that calls a function when it is called
    {"method": "append", "of": VALUE}             a method of an object, which the call may change by it
    {"module": "os.path"}                         a module, as a global variable of a function
    {"itself": null}                              the function, as a variable of its own
"""

from __future__ import annotations

import base64
import builtins
import dis
import functools
import importlib
import marshal
import sys
import types
from collections.abc import Callable
from typing import Any

_MOST_WRAPPED = 9
_LARGEST_CODE = 8 << 10  # bytes
_MOST_NAMES = 40
_ELSEWHERE = "program"  # the module of a function of a test when it is made again
_FUNCTION = types.FunctionType
_METHODS = (types.MethodType, types.BuiltinMethodType)
_TAG = str(sys.implementation.cache_tag)
Encode = Callable[[Any], Any]


class NotWritten(Exception):  # noqa: N818 - not an error of the program
    """A function that cannot be written or made again."""


# Writing -------------------------------------------------------------------------------------------------------


def write(value: Any, encode: Encode, is_own: Callable[[str], bool]) -> Any:
    """Return a function or a partial one as JSON, or None if it is neither, or can be imported by its name.

    `is_own` says whether a file is one of the project that is no test.
    """
    if type(value) is functools.partial:
        kwargs = [[name, encode(item)] for name, item in value.keywords.items()]
        return {"partial": encode(value.func), "args": [encode(item) for item in value.args], "kwargs": kwargs}
    if type(value) in _METHODS and not isinstance(value.__self__, (type, types.ModuleType)):
        return {"method": value.__name__, "of": encode(value.__self__)}
    if type(value) is not _FUNCTION:
        return None
    own = is_own(value.__code__.co_filename)
    known = _by_name(value.__module__, value.__qualname__)
    if known is value and (own or not _is_of_a_test(value)):
        return None
    times = _times_wrapped(known, value) if own else 0
    if times:
        return {"wrapped": "%s:%s" % (value.__module__, value.__qualname__), "times": times}
    out: dict[str, Any] = {}
    code = value.__code__
    if own:
        name = getattr(code, "co_qualname", value.__qualname__)
        out["inner"] = "%s:%s" % (value.__globals__.get("__name__"), name)
    else:
        text = marshal.dumps(code)
        if len(text) > _LARGEST_CODE:
            raise NotWritten("a function that is too long")
        out["code"], out["for"] = base64.b64encode(text).decode(), _TAG
        out["name"] = value.__name__
        out["globals"] = [[name, _global(item, encode)] for name, item in _globals(value)]
    out["defaults"] = encode(value.__defaults__)
    out["named"] = [[name, encode(item)] for name, item in (value.__kwdefaults__ or {}).items()]
    out["variables"] = [[name, encode_variable(item, code, encode)] for name, item in variables_of(value)]
    return out


def variables_of(function: Any) -> list[tuple[str, Any]]:
    """Return the variables that a function has of functions around it."""
    out = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):  # noqa: B905 - not in 3.8
        try:
            out.append((name, cell.cell_contents))
        except ValueError:
            continue  # not set yet
    return out


def held_by(function: Any) -> dict[str, Any]:
    """Return what a function that was made for a call may change: its object, its variables and its attributes."""
    if type(function) in _METHODS:
        return {"self": function.__self__}
    held = [*variables_of(function), *vars(function).items(), *_own_globals(function)]
    return {name: value for name, value in held if value is not function}


def _own_globals(function: Any) -> list[tuple[str, Any]]:
    """Return the plain global variables of a function that was made by its code."""
    if function.__globals__.get("__builtins__") is not builtins:
        return []
    plain = (str, int, float, list, dict, set, tuple)
    return [
        (name, item)
        for name, item in function.__globals__.items()
        if type(item) in plain and name not in ("__name__", "__file__")
    ]


def encode_variable(value: Any, code: Any, encode: Encode) -> Any:
    """Return a variable of the function with a code as JSON; it may be the function itself."""
    return {"itself": None} if type(value) is _FUNCTION and value.__code__ is code else encode(value)


def _is_of_a_test(function: Any) -> bool:
    names = {*function.__module__.split(".")}
    return any(name in ("conftest", "test", "tests") or name.startswith("test_") for name in names) or any(
        name.endswith("_test") for name in names
    )


def _by_name(module: Any, qualname: str) -> Any:
    known: Any = sys.modules.get(module) if isinstance(module, str) else None
    for part in qualname.split("."):
        known = getattr(known, part, None)
    return known


def _times_wrapped(known: Any, value: Any) -> int:
    """Return how many decorators lie over a function that has a name, or 0."""
    for times in range(1, _MOST_WRAPPED):
        known = getattr(known, "__wrapped__", None)
        if known is value:
            return times
    return 0


def _globals(function: Any) -> list[tuple[str, Any]]:
    """Return the global variables that a function, and those inside it, may read."""
    names: dict[str, None] = {}
    todo = [function.__code__]
    while todo:
        code = todo.pop()
        steps = (step for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
        names.update(dict.fromkeys(step.argval for step in steps))
        todo.extend(inner for inner in code.co_consts if isinstance(inner, types.CodeType))
    if len(names) > _MOST_NAMES:
        raise NotWritten("a function with too many names")
    known = [name for name in names if name in function.__globals__ and name not in ("__name__", "__file__")]
    return [(name, function.__globals__[name]) for name in known]


def _global(value: Any, encode: Encode) -> Any:
    if isinstance(value, types.ModuleType):
        if sys.modules.get(value.__name__) is not value:
            raise NotWritten("a module that cannot be imported")
        return {"module": value.__name__}
    return encode(value)


# Reading -------------------------------------------------------------------------------------------------------


def read_code(value: Any, decode: Callable[[Any], Any]) -> Any:
    """Return a function that was written by its code."""
    if value["for"] != _TAG:
        raise NotWritten("a function of another Python")
    names = {name: decode(item) for name, item in value["globals"]}
    own = {**names, "__builtins__": builtins, "__name__": _ELSEWHERE, "__file__": _ELSEWHERE + ".py"}
    code = _moved(marshal.loads(base64.b64decode(value["code"])))  # noqa: S302 - made and read in the box
    variables = dict(value["variables"])
    return _made(code, own, value["name"], variables, value, decode)


def _moved(code: Any) -> Any:
    """Return code as if it were in the file of a user's program, by which nobody can tell that a test had it."""
    inside = tuple(_moved(item) if isinstance(item, types.CodeType) else item for item in code.co_consts)
    names = {"co_qualname": code.co_name} if hasattr(code, "co_qualname") else {}
    return code.replace(co_filename=_ELSEWHERE + ".py", co_consts=inside, **names)


def read_inner(value: Any, decode: Callable[[Any], Any]) -> Any:
    """Return a function of the project that another function makes."""
    name, _, qualname = value["inner"].partition(":")
    module = importlib.import_module(name)
    code = inner_code(module, qualname)
    return _made(code, vars(module), code.co_name, dict(value["variables"]), value, decode)


def read_wrapped(value: Any) -> Any:
    """Return a function that decorators replaced."""
    name, _, path = value["wrapped"].partition(":")
    importlib.import_module(name)
    known = _by_name(name, path)
    for _ in range(min(int(value["times"]), _MOST_WRAPPED)):
        known = known.__wrapped__
    return known


class CalledObject:
    """An object that calls a function, as users may pass where tests pass the function."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def read_partial(value: Any, decode: Callable[[Any], Any]) -> Any:
    """Return a partial function."""
    kwargs = {name: decode(item) for name, item in value["kwargs"]}
    return functools.partial(decode(value["partial"]), *decode(value["args"]), **kwargs)


def _made(
    code: Any, own: dict[str, Any], name: str, variables: dict[str, Any], value: Any, decode: Callable[[Any], Any]
) -> Any:
    made = {name: decode(item) for name, item in variables.items() if item != {"itself": None}}
    out = with_variables(code, own, name, made, [name for name in variables if name not in made])
    out.__defaults__ = decode(value["defaults"])
    out.__kwdefaults__ = {name: decode(item) for name, item in value["named"]} or None
    return out


def with_variables(code: Any, own: dict[str, Any], name: str, variables: dict[str, Any], itself: Any = ()) -> Any:
    """Return a function with variables of functions around it; those in `itself` are the function."""
    missing = [name for name in code.co_freevars if name not in variables and name not in itself]
    if missing:
        raise NotWritten("needs the variable %s of the function around it" % missing[0])
    cells = {name: types.CellType(variables.get(name)) for name in code.co_freevars}
    out = _FUNCTION(code, own, name, None, tuple(cells.values()))
    for other in itself:
        if other in cells:
            cells[other].cell_contents = out
    return out


# Functions inside others ---------------------------------------------------------------------------------------


class InnerFunction:
    """A function that another one makes, without the variables that it has then."""

    def __init__(self, module: Any, qualname: str) -> None:
        self.own = vars(module)
        self.__code__ = inner_code(module, qualname)

    def made(self, variables: dict[str, Any]) -> Any:
        """Return the function with these variables; one that is missing here is the function itself."""
        known = {name: value for name, value in variables.items() if value is not InnerFunction}
        itself = [name for name in variables if name not in known]
        return with_variables(self.__code__, self.own, self.__code__.co_name, known, itself)


def inner_code(module: Any, qualname: str) -> Any:
    """Return the code of a function by its qualified name. Raise LookupError if the module does not have it."""
    spec = module.__spec__
    code = spec.loader.get_code(spec.name) if spec is not None else None
    for part in qualname.split("."):
        if part == "<locals>":
            continue
        name, _, number = part.partition("#")
        inside = code.co_consts if code is not None else ()
        own = [item for item in inside if isinstance(item, types.CodeType) and item.co_name == name]
        own.sort(key=lambda item: item.co_firstlineno)
        if len(own) < int(number or 1):
            raise LookupError("is not defined: " + qualname)
        code = own[int(number or 1) - 1]
    return code
