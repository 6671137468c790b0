"""Read what a caller passed to a function, how an object was made, and through which functions a call came.

The project's Python runs this file: standard library of 3.8 only.
"""

from __future__ import annotations

import ast
import gc
import os
import types
import weakref
from collections.abc import Iterator
from typing import Any

from . import content, plain_data

_MOST_PATHS, _MOST_FRAMES, _MOST_CALLERS = 12, 120, 20
_MOST_MADE = 3000
_MOST_NOTED, _LONGEST_HISTORY = 20_000, 24  # calls of methods, of all objects and of one
_DEEPEST = 30  # frames above a call that are looked at
# Methods of which an object may be another one afterwards; all that have an ordinary name are, too.
_CHANGING = frozenset(("getitem", "setitem", "delitem", "call", "enter", "exit", "iadd", "isub", "ior", "iand", "ixor"))
_MOST_FUNCTIONS = 8  # function objects of one code that are asked for their defaults
_MISSING = object()


class ArgumentReader:
    """Reads the arguments of a frame, without those that are the very objects of the parameters' defaults."""

    def __init__(self) -> None:
        self._defaults: dict[Any, list[dict[str, Any]]] = {}

    def read(self, frame: Any, *, with_defaults: bool = False) -> tuple[list[Any], list[tuple[str, Any]]]:
        """Return positional arguments and others; after a default that was left out, arguments have names."""
        code, names = frame.f_code, frame.f_locals
        count = code.co_argcount
        known = [] if with_defaults else self._known(frame)
        positional = code.co_varnames[:count]
        at = count + code.co_kwonlyargcount
        rest: Any = ()
        if code.co_flags & 4:  # *args
            rest = names[code.co_varnames[at]]
            at += 1
        end = count if rest else self._first_default(known, positional, names, code.co_posonlyargcount)
        live = [names[name] for name in positional[:end]] + list(rest)
        others = [*positional[end:], *code.co_varnames[count : count + code.co_kwonlyargcount]]
        keywords = [(name, names[name]) for name in others if not _is_default(known, name, names[name])]
        if code.co_flags & 8:  # **kwargs
            keywords += names[code.co_varnames[at]].items()
        return live, keywords

    def _first_default(self, known: Any, positional: Any, names: Any, least: int) -> int:
        """Return the number of arguments before the first default; those that cannot have a name come first."""
        first = next((at for at, name in enumerate(positional) if _is_default(known, name, names[name])), None)
        if first is None or not all(_is_default(known, name, names[name]) for name in positional[first:least]):
            return len(positional)
        return first

    def _known(self, frame: Any) -> list[dict[str, Any]]:
        code = frame.f_code
        if code not in self._defaults:
            # The collector does not see what a project has frozen (`gc.freeze`).
            referring = [*gc.get_referrers(code), frame.f_globals.get(code.co_name)]
            functions = [item for item in referring if type(item) is types.FunctionType and item.__code__ is code]
            self._defaults[code] = [_defaults_of(item) for item in functions[:_MOST_FUNCTIONS]]
        return self._defaults[code]


def _defaults_of(function: Any) -> dict[str, Any]:
    code = function.__code__
    values = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return {**dict(zip(names, values)), **(function.__kwdefaults__ or {})}  # noqa: B905 - not in 3.8


def _is_default(known: list[dict[str, Any]], name: str, value: Any) -> bool:
    return any(defaults.get(name, _MISSING) is value for defaults in known)


class MadeObjects:
    """Remembers with which arguments objects were made, so that one that cannot be copied can be made again."""

    def __init__(self, places: content.PlacesOfTest) -> None:
        self._made: dict[int, tuple[Any, Any]] = {}
        self._surroundings: dict[int, dict[str, Any]] = {}  # what an object found when it was made and used
        self._reader = ArgumentReader()
        self._places = places

    def remember(self, frame: Any) -> None:
        """Note the arguments of a constructor that begins."""
        code = frame.f_code
        value = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        kind = type(value)
        own = getattr(getattr(kind, "__init__", None), "__code__", None)
        if own is not code or id(value) in self._made or len(self._made) >= _MOST_MADE:
            return
        try:
            args, kwargs, beside = self._written(frame)
            name, made = id(value), {"made": plain_data.type_name(kind), "args": args, "kwargs": kwargs}
            self._made[name] = weakref.ref(value, lambda _gone: self._made.pop(name, None) and None), made
            self._surroundings[name] = beside
        except Exception:  # noqa: BLE001 - a test must not notice
            pass

    def _written(self, frame: Any) -> tuple[list[Any], list[Any], dict[str, Any]]:
        """Return the arguments of a method's frame without the object, and what they refer to."""
        live, keywords = self._reader.read(frame)
        args, beside, budget = plain_data.encode_call(live[1:], self._places)
        return args, [[name, plain_data.encode_argument(item, budget)] for name, item in keywords], beside.content

    def recipe(self, value: Any) -> Any:
        """Return how an object was made, or None."""
        reference, made = self._made.get(id(value), (None, None))
        return made if reference is not None and reference() is value else None


class ObjectHistories(MadeObjects):
    """Remembers the calls of methods from outside, by which an object became what it is."""

    def __init__(self, places: content.PlacesOfTest) -> None:
        super().__init__(places)
        self.frame: Any = None  # of the call whose arguments are written
        self._calls: dict[int, Any] = {}  # by the object's id: the object's record, its calls, the frame of the last
        self._codes: set[Any] = set()
        self._left = _MOST_NOTED

    def remember(self, frame: Any) -> None:
        """Note the arguments of a constructor that begins; the calls that it makes are its own."""
        self._codes.add(frame.f_code)
        super().remember(frame)

    def note(self, value: Any, frame: Any) -> None:
        """Add a call that begins to the history of an object, unless another method of an object makes it."""
        self._codes.add(frame.f_code)
        known = self._made.get(id(value))
        if known is None:
            return
        history = self._calls.get(id(value))
        if history is None or history[0] is not known:
            if len(self._calls) > _MOST_MADE:
                self._calls.clear()  # most of these objects are gone
            history = self._calls[id(value)] = [known, [], None]
        calls = history[1]
        if calls is None or self._is_inner(frame) or known[0]() is not value:
            return
        self._left -= 1
        history[1] = None  # in case that this call cannot be written
        if len(calls) < _LONGEST_HISTORY and self._left > 0:
            args, kwargs, beside = self._written(frame)
            self._surroundings[id(value)] = {**beside, **self._surroundings.get(id(value), {})}
            calls.append([frame.f_code.co_name, args, kwargs])
            history[1], history[2] = calls, (id(frame), frame.f_code)

    def history(self, value: Any, frame: Any) -> Any:
        """Return the calls that made an object what it was before the call that still runs, or None."""
        made = self.recipe(value)
        if made is None:
            return None
        record, calls, last = self._calls.get(id(value), (self._made.get(id(value)), [], None))
        if calls is None or record is not self._made.get(id(value)):
            return None
        return dict(made, calls=list(calls[:-1] if calls and self._runs(last, frame) else calls))

    def is_in_use(self, value: Any) -> bool:
        """Return True if a method of an object runs, so that its history does not lead to what it is now."""
        last = self._calls.get(id(value), (None, None, None))[2]
        return self.frame is not None and last is not None and self._runs(last, self.frame)

    def surroundings(self, value: Any) -> dict[str, Any]:
        """Return what an object found when it was made and used, which it may refer to."""
        return self._surroundings.get(id(value), {}) if self.recipe(value) is not None else {}

    def remembered(self, value: Any, beside: content.CallSurroundings | None) -> Any:
        """Return how an object was made that cannot be copied, or None; add what it found then."""
        made = self.history(value, self.frame) if self.frame is not None else self.recipe(value)
        if made is None or self.is_in_use(value):
            return None
        if beside is not None:
            beside.content.update(self.surroundings(value))
        return {"history": made} if made.get("calls") else {key: made[key] for key in ("made", "args", "kwargs")}

    def _is_inner(self, frame: Any) -> bool:
        return any(above.f_code in self._codes for above in _frames_above(frame))

    def _runs(self, last: Any, frame: Any) -> bool:
        """Return True if the call that was noted last is one of those that led to a frame."""
        return any((id(above), above.f_code) == last for above in _frames_above(frame))


def _frames_above(frame: Any) -> Iterator[Any]:
    for _ in range(_DEEPEST):
        frame = frame.f_back
        if frame is None:
            return
        yield frame


def may_change(node: Any) -> bool:
    """Return True for a method that may change its object, by its definition."""
    names = [ast.unparse(item) if hasattr(ast, "unparse") else "?" for item in node.decorator_list]
    if not node.args.args or any(name.endswith(("staticmethod", "classmethod", "property", "?")) for name in names):
        return False
    name = node.name
    return not (name.startswith("__") and name.endswith("__")) or name.strip("_") in _CHANGING


class StackReader:
    """Reads through which functions of the project a call came."""

    def __init__(self, root: str) -> None:
        self._root = os.path.join(root, "")
        self._files: dict[str, str] = {}

    def note(self, frame: Any, paths: list[Any]) -> None:
        """Add the callers of a frame to a list, unless they are in it."""
        if len(paths) >= _MOST_PATHS:
            return
        out: list[Any] = []
        frame, left = frame.f_back, _MOST_FRAMES
        while frame is not None and left and len(out) < _MOST_CALLERS:
            code = frame.f_code
            file = self._inside(code.co_filename)
            if file:
                out.append([file, code.co_firstlineno])
            frame, left = frame.f_back, left - 1
        if out and out not in paths:
            paths.append(out)

    def _inside(self, name: str) -> str:
        """Return the path of a file below the root, or nothing."""
        if name not in self._files:
            path = os.path.realpath(name)
            self._files[name] = path[len(self._root) :] if path.startswith(self._root) else ""
        return self._files[name]


def replace_code(module: Any, code: Any) -> None:
    """Give the functions of a loaded module the code of the same places in another compilation of its file."""
    places: dict[Any, Any] = {}
    todo = [code]
    while todo:
        item = todo.pop()
        places[item.co_name, item.co_firstlineno] = item
        todo.extend(inner for inner in item.co_consts if isinstance(inner, types.CodeType))
    for function in gc.get_objects():
        if type(function) is types.FunctionType and function.__globals__ is vars(module):
            own = function.__code__
            other = places.get((own.co_name, own.co_firstlineno))
            if other is not None and own.co_filename == code.co_filename and other.co_freevars == own.co_freevars:
                function.__code__ = other
