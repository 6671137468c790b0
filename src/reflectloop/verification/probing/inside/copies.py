"""Pickle objects without the code by which the patch newly says how they are copied, which could hide what they hold.

The project's Python runs this file: standard library of 3.8 only.
"""

from __future__ import annotations

import copyreg
import io
import os
import pickle
import sys
from typing import Any, Callable, Iterable  # noqa: UP035 - as in 3.8

_HOOKS = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
_FILLED: tuple[tuple[type, Callable[[Any, Any], Any]], ...] = (
    (list, list.extend),
    (dict, dict.update),
    (set, set.update),
    (bytearray, bytearray.extend),
)
_MARK = "set state"
new_hooks: set[tuple[str, str]] = set()  # files and qualified names of such methods that the patch adds or changes


def find_new_hooks(root: str, functions: Iterable[tuple[str, str]]) -> None:
    """Remember those of the changed functions, by file and name, that say how objects are copied."""
    for file, name in functions:
        if name.rpartition(".")[2] in _HOOKS:
            new_hooks.add((os.path.realpath(os.path.join(root, file)), name))


class Copier(pickle.Pickler):
    """Writes objects; those with new methods for copies by what they hold."""

    def __init__(self, file: Any, content_of: Callable[[Any], Any]) -> None:
        super().__init__(file, 4)
        self.content_of = content_of

    def reducer_override(self, value: Any) -> Any:
        """Return how an object is made again that the patch wants to be copied in another way."""
        kind = type(value)
        if kind is type or not new_hooks or not any(map(_has_new_hook, kind.__mro__)):
            return NotImplemented
        content = self.content_of(value)
        given = () if content is None or isinstance(value, tuple(base for base, _ in _FILLED)) else (content,)
        if isinstance(value, BaseException):
            given = BaseException.args.__get__(value)  # type: ignore[attr-defined]
        return copyreg.__newobj__, (kind, *given), (_fields(value), content), None, None, set_state  # type: ignore[attr-defined]

    def persistent_id(self, value: Any) -> Any:
        """Return a mark for the function that fills an object: its module has another name elsewhere."""
        return _MARK if value is set_state else None


class CopyReader(pickle.Unpickler):
    """Reads what a `Copier` wrote."""

    def persistent_load(self, pid: Any) -> Any:
        """Return the function that fills an object."""
        if pid != _MARK:
            raise pickle.UnpicklingError("unknown mark")
        return set_state


def read(data: bytes) -> Any:
    """Return a pickled object."""
    return CopyReader(io.BytesIO(data)).load()


def set_state(value: Any, state: Any) -> None:
    """Give an object what it held, without its own methods."""
    fields, content = state
    for name, item in fields.items():
        object.__setattr__(value, name, item)
    for base, fill in _FILLED:
        if content is not None and isinstance(value, base):
            fill(value, content)


def _has_new_hook(kind: type) -> bool:
    path = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if not isinstance(path, str):
        return False
    path = os.path.realpath(path)
    return any((path, "%s.%s" % (kind.__qualname__, name)) in new_hooks for name in _HOOKS if name in kind.__dict__)


def _fields(value: Any) -> dict[str, Any]:
    """Return an object's own attributes and slots."""
    out: dict[str, Any] = {}
    try:
        out.update(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        pass
    for kind in type(value).__mro__:
        for name, member in kind.__dict__.items():
            if type(member).__name__ == "member_descriptor":
                try:
                    out[name] = member.__get__(value, type(value))
                except AttributeError:
                    continue
    return out
