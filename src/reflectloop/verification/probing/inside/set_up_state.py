"""See what a test has set up around a call: patched names, files, and the state of the project's modules.

The project's Python runs this file: standard library of 3.8 only.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import hashlib
import itertools
import json
import operator
import os
import re
import sys
import types
from collections.abc import Callable
from typing import Any

if __package__:
    from . import plain_data
else:
    import plain_data  # type: ignore[import-not-found,no-redef]

_ROOM = 4 << 10  # characters of one variable
_MOST_MODULES = 150
_MOST_OBJECTS, _MOST_HELD = 5000, 300  # that are looked at, and in one object
_FURTHER = 1_000_000  # calls that a counter seems to have seen
_PLAIN = (int, float, str, bytes, bool, type(None))
_SIZED = (list, dict, set, collections.deque, bytearray)
_MEMBER = types.MemberDescriptorType
_INSIDE = ("__dict__", "__self__", "__defaults__", "__kwdefaults__", "cell_contents")
OTHERS = re.compile(r"/(tests?|site-packages)/|/(test_[^/]*|[^/]*_tests?|conftest|tests?)\.py$")


def states(root: str) -> dict[str, str]:
    """Return a hash of the plain variables of each module below a folder, by its name."""
    return {name: _state(vars(module)) for name, module in _own_modules(root).items()}


def _own_modules(root: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        is_own = isinstance(file, str) and file.startswith(root + os.sep) and not OTHERS.search(file[len(root) :])
        if is_own and len(out) < _MOST_MODULES:
            out[name] = module
    return out


def _state(variables: dict[str, Any]) -> str:
    parts = []
    for name, value in sorted(variables.items()):
        if not name.startswith("__") and not callable(value) and not isinstance(value, type(sys)):
            try:
                parts.append([name, plain_data.text_of(plain_data.describe(value, plain_data.ValueBudget(_ROOM)))])
            except Exception as fault:  # describing may run code of the value
                parts.append([name, type(fault).__name__])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:10]


class CallCounters:
    """Finds numbers, lengths and positions in the project's variables that calls move, and moves them much further."""

    def __init__(self, root: str) -> None:
        self.modules = _own_modules(root)
        self.readings: list[dict[Any, Any]] = []

    def read(self) -> None:
        """Note where the variables are now."""
        self.readings.append({key: at for key, at, _ in self._places()})

    def move_on(self) -> bool:
        """Move what moved equally far between the last three readings; return False if nothing did."""
        first, second, third = self.readings[-3:]
        both = {key: (second.get(key, at) - first.get(key, at), at - second.get(key, at)) for key, at in third.items()}
        steps = {key: step for key, (step, again) in both.items() if step and step == again}
        for move, by in [(move, steps[key]) for key, _, move in self._places() if key in steps]:
            move(by)
        return bool(steps)

    def _places(self) -> list[Any]:
        """Return [key, where it is, how it is moved] for what the project's modules hold, the nearest first."""
        out: list[Any] = []
        seen: dict[int, Any] = {}
        waiting = collections.deque(vars(module) for module in self.modules.values())
        while waiting and len(seen) < _MOST_OBJECTS:
            item = waiting.popleft()
            if id(item) in seen:
                continue
            seen[id(item)] = item
            at = _position(item)
            if at is not None:
                out.append(((id(item), ""), at, functools.partial(_lengthen, item)))
            for name, value, put in self._held(item):
                if type(value) in (int, float, str, bytes, tuple):
                    at = value if type(value) in (int, float) else len(value)
                    out.append(((id(item), name), at, functools.partial(_replace, value, put)))
                waiting.extend([] if type(value) in _PLAIN else [value])
        return out

    def _held(self, item: Any) -> list[Any]:
        """Return [name, value, how it is set] for what an object holds."""
        kind = type(item)
        if isinstance(item, (list, dict)):
            pairs = dict.items(item) if isinstance(item, dict) else enumerate(list.__iter__(item))
            some = list(itertools.islice(pairs, _MOST_HELD))
            return [(name, value, functools.partial(kind.__setitem__, item, name)) for name, value in some]
        if kind in (tuple, set, frozenset, collections.deque):
            return [("", value, _leave) for value in list(itertools.islice(item, _MOST_HELD))]
        if isinstance(item, (type, types.FunctionType)) and item.__module__ not in self.modules:
            return []
        if isinstance(item, type):
            some = list(vars(item).items())
            return [(name, value, functools.partial(type.__setattr__, item, name)) for name, value in some]
        members = [name for base in kind.__mro__ for name, value in vars(base).items() if type(value) is _MEMBER]
        out = []
        for name in (*_INSIDE, *members) if not isinstance(item, types.ModuleType) else ():
            with contextlib.suppress(Exception):  # a name without a value
                out.append((name, object.__getattribute__(item, name), functools.partial(setattr, item, name)))
        return out


def _position(item: Any) -> Any:
    """Return the length of a container, or how far an iterator is; None for other objects."""
    if isinstance(item, _SIZED):
        return len(item)
    if isinstance(item, types.GeneratorType):
        return sum(value for value in (item.gi_frame.f_locals if item.gi_frame else {}).values() if type(value) is int)
    if type(item) is itertools.count:
        return int(re.findall(r"-?\d+", repr(item))[0])
    return operator.length_hint(item) if hasattr(type(item), "__length_hint__") else None


def _lengthen(item: Any, by: float) -> None:
    if not isinstance(item, _SIZED):
        collections.deque(itertools.islice(item, _FURTHER), maxlen=0)
    elif by < 0:
        item.clear()
    elif isinstance(item, dict):
        item.update(dict.fromkeys(range(-_FURTHER, 0)))
    elif isinstance(item, set):
        item.update(range(-_FURTHER, 0))
    else:
        item.extend(itertools.repeat(item[-1], _FURTHER))


def _replace(value: Any, put: Any, by: float) -> None:
    if type(value) in (int, float):
        put(value + by * _FURTHER)
    else:
        put(value + value[-1:] * _FURTHER if by > 0 else value[:0])


def _leave(_value: Any) -> None:
    """Set nothing: what holds the value cannot be changed."""


class PatchCounter:
    """Counts the patches of names that tests have made and not undone."""

    def __init__(self) -> None:
        self.active: dict[int, int] = {}
        self._wrapped: set[str] = set()

    @property
    def any_active(self) -> bool:
        return any(count > 0 for count in self.active.values())

    def follow(self) -> None:
        """Watch the tools for patching that are loaded by now."""
        mock = sys.modules.get("unittest.mock")
        for name in ("_patch", "_patch_dict"):
            kind = getattr(mock, name, None)
            if kind is not None:
                self._wrap(kind, ("__enter__",), ("__exit__",))
        kind = getattr(sys.modules.get("_pytest.monkeypatch"), "MonkeyPatch", None)
        if kind is not None:
            self._wrap(kind, ("setattr", "delattr", "setitem", "delitem", "syspath_prepend"), ("undo",))

    def _wrap(self, kind: Any, begins: tuple[str, ...], ends: tuple[str, ...]) -> None:
        if kind.__module__ + kind.__name__ in self._wrapped:
            return
        self._wrapped.add(kind.__module__ + kind.__name__)
        for names, step in ((begins, 1), (ends, 0)):
            for name in names:
                if hasattr(kind, name):
                    setattr(kind, name, self._counting(getattr(kind, name), step))

    def _counting(self, usual: Any, step: int) -> Any:
        def counting(this: Any, *args: Any, **kwargs: Any) -> Any:
            if not (args and args[0] is os.environ):
                self.active[id(this)] = self.active.get(id(this), 0) + 1 if step else 0
            return usual(this, *args, **kwargs)

        return counting


class FileWatch:
    """Notices files that are opened while recorded calls run."""

    def __init__(self, name_of: Callable[[str], str]) -> None:
        self.name_of = name_of  # names a file that is written down with a call
        self.busy = False
        self.open_calls: dict[int, dict[str, Any]] = {}
        sys.addaudithook(self._audit)

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and self.open_calls and not self.busy and isinstance(args[0], (str, bytes)):
            path = os.path.abspath(os.fsdecode(args[0]))
            name = self.name_of(path)
            if not path.endswith((".py", ".pyc", ".so")):
                for record in list(self.open_calls.values()):
                    if name in record["unused"]:
                        record["unused"].remove(name)
                    elif not name or name not in record["named"]:
                        record["files"] = True
