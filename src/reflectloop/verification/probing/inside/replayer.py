"""Repeat recorded calls and write their outcomes: in a bare interpreter, or from tests that stand in for the real ones.

The project's Python runs this file: standard library of 3.8 only. `python replayer.py JOB` is the bare interpreter; the
tests call `replay_group`. JOB is a JSON file:

    {"calls": [{"id": 0, "group": "g1", "module", "qualname", "line", "args", "kwargs", "first", "argv", "env"}, ...],
     "path": ["src", ""], "top": "/folder/of/the/package", "out": "/file", "limit_s": 2.0, "now": 1790000000.5,
     "moved": {"days": 767, "thread": true, "argv": "name", "python": 1, "level": 5, "digits": 4,
     "hidden": ["regex"]}}

Each outcome is a JSON line {"id", "which": "raw" or "public", "outcome", "after", "equal": "why"}: `raw` is the
function itself, `public` what callers reach by its name, if a decorator makes that something else. An outcome is one of
`plain_data`, or {"left_out": "why"}.
"""

from __future__ import annotations

import collections
import decimal  # it and logging here, since importing them reads the clock that calls are compared by
import functools
import gc
import importlib
import importlib.machinery
import inspect
import json
import logging
import os
import random
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

if __package__:
    from . import content, equality, functions, guard, plain_data, set_up_state
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import content  # type: ignore[import-not-found,no-redef]
    import equality  # type: ignore[import-not-found,no-redef]
    import functions  # type: ignore[import-not-found,no-redef]
    import guard  # type: ignore[import-not-found,no-redef]
    import plain_data  # type: ignore[import-not-found,no-redef]
    import set_up_state  # type: ignore[import-not-found,no-redef]

    del sys.path[0]

_LOST = "cannot be reached by its name"
_OFTEN_S = 1.0  # processor time for calls that are made many times over
_SIMPLE = (int, str, bool, type(None))


class CallReplayer:
    """Repeats the calls of one job."""

    def __init__(self, job: dict[str, Any], clock: guard.StillClock | None = None) -> None:
        self.job = job
        self.clock = clock  # for modules that were imported before it was started
        self.first: dict[int, str] = {}  # by the id of a call, its first outcome
        self.limit_s = float(job.get("limit_s", 2.0))
        self.moved: dict[str, Any] = job.get("moved") or {}
        self.descriptor = os.open(job["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.environ = dict(os.environ)
        self.argv = list(sys.argv)
        self.place = content.place = content.CallPlace()
        self.guard = guard.Guard(self.place.holds)

    def run(self, group: str | None = None) -> None:
        for call in self.job["calls"]:
            if group is None or call.get("group") == group:
                self._repeat(call)
        if self.moved.get("repeat"):
            self._repeat_often(int(self.moved["repeat"]))

    def _repeat_often(self, times: int) -> None:
        """Make the calls of each function many times over, and write down where an answer changes."""
        functions: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for call in self.job["calls"]:
            functions.setdefault((call["module"], call["qualname"]), []).append(call)
        ends = time.process_time() + _OFTEN_S
        for calls in functions.values():
            self.guard.run(lambda calls=calls: self._often(calls, times, ends), _OFTEN_S * 10)  # type: ignore[misc]
        self.guard.run(self._count_on, _OFTEN_S * 10)

    def _often(self, calls: list[dict[str, Any]], times: int, ends: float) -> None:
        prepared = [item for call in calls if (item := PreparedCall.of(call)) is not None]
        for number in range(times):
            if not prepared or time.process_time() > ends:
                return
            item = prepared[number % len(prepared)]
            if not self._is_steady(item):
                prepared.remove(item)

    def _count_on(self) -> None:
        """Let what counts the calls have seen many more of them, and write down where an answer changes."""
        ends = time.process_time() + _OFTEN_S
        prepared = [item for call in self.job["calls"] if (item := PreparedCall.of(call)) is not None]
        counters = set_up_state.CallCounters(os.path.realpath(self.job["top"]))
        for _ in range(4):  # the first fills caches
            prepared = [item for item in prepared if time.process_time() < ends and self._is_steady(item)]
            counters.read()
        if prepared and counters.move_on():
            for item in prepared:
                self._is_steady(item)

    def _is_steady(self, item: PreparedCall) -> bool:
        """Return True if a call answers as at first; write down another answer, if it can be compared."""
        result = item.result()
        if result is None or self.first.setdefault(item.call["id"], _compared(result)) == _compared(result):
            return result is not None
        line = {"id": item.call["id"], "which": "repeated", **result}
        os.write(self.descriptor, (json.dumps(line) + "\n").encode())
        return False

    def _repeat(self, call: dict[str, Any]) -> None:
        for which in ("raw", "public"):
            result = self._once(call, which)
            if result is not None:
                if which == "raw":
                    self.first[call["id"]] = _compared(result)
                result.update(id=call["id"], which=which)
                os.write(self.descriptor, (json.dumps(result) + "\n").encode())

    def _once(self, call: dict[str, Any], which: str) -> dict[str, Any] | None:
        try:
            self.place.lay(_content(call))
            self._set_surroundings(call)
            module = importlib.import_module(call["module"])
            if self.clock:
                self.clock.reach(os.path.join(os.path.realpath(self.job["top"]), ""))
            args = [plain_data.decode(value) for value in call["args"]]
            kwargs = {name: plain_data.decode(value) for name, value in call["kwargs"]}
            target = _target(module, call, args, which)
        except (plain_data.NotPlainData, functions.NotWritten) as fault:
            return {"outcome": {"left_out": str(fault)[:300]}} if which == "raw" else None
        except BaseException as fault:  # noqa: BLE001 - importing runs code of the project
            return {"outcome": {"left_out": "cannot be imported: %s: %s" % (type(fault).__name__, fault)}}
        finally:
            self._restore_surroundings()
        if target is None:
            return {"outcome": {"left_out": _LOST}} if which == "raw" else None
        self._set_surroundings(call)
        try:
            states = set_up_state.states(os.path.realpath(self.job["top"])) if call.get("states") else None
            result = {**self._result(target, args, kwargs), **({"states": states} if states is not None else {})}
            return json.loads(self.place.without(json.dumps(result))) if self.place.is_laid else result
        finally:
            self._restore_surroundings()

    def _result(self, target: Any, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        before = _written(args)
        holder: dict[str, Any] = {}

        def work() -> None:
            random.seed(1)  # equal in all interpreters, so that functions that draw lots can be compared
            holder["seeded"] = random.getstate()
            holder["value"] = _finished(target(*args, **kwargs))

        fault = self._bounded(work)
        out: dict[str, Any] = {"drawn": random.getstate() != holder.get("seeded")}
        if self.guard.stopped:
            out["outcome"] = {"left_out": self.guard.stopped}
        elif isinstance(fault, (guard.TimeIsUp, MemoryError, RecursionError)):
            out["outcome"] = {"left_out": "does not end in time, or needs too much memory or depth"}
        elif fault is not None:
            out["outcome"] = plain_data.described_exception(fault)
        else:
            described, value = holder["value"]
            out["outcome"] = {"value": described}
            out["equal"] = self._canary(value)
        return {**out, **_left_behind(args, before)}

    def _canary(self, value: Any) -> str:
        holder = [""]

        def work() -> None:
            holder[0] = next((name for _, name in equality.faults(value, ())), "")

        self._bounded(work)
        return holder[0]

    def _bounded(self, work: Callable[[], None]) -> BaseException | None:
        """Do some work of the project, within limits, and return what it raised."""
        if not self.moved.get("thread"):
            return self.guard.run(work, self.limit_s)
        faults: list[BaseException | None] = [guard.TimeIsUp()]

        def in_thread() -> None:
            faults[0] = self.guard.run(work, 0)

        thread = threading.Thread(target=in_thread, daemon=True)
        thread.start()
        thread.join(self.limit_s)
        return faults[0]

    def _set_surroundings(self, call: dict[str, Any]) -> None:
        """Set what the test had set: files, variables, and the arguments of the program."""
        if call.get("argv"):
            sys.argv[:] = call["argv"]
        for name, value in (call.get("env") or {}).items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self.place.enter()

    def _restore_surroundings(self) -> None:
        self.place.end()
        sys.argv[:] = self.argv
        if dict(os.environ) != self.environ:
            os.environ.clear()
            os.environ.update(self.environ)


class PreparedCall:
    """A call that is made many times over, with the same arguments if it does not change them."""

    def __init__(self, call: dict[str, Any], target: Any) -> None:
        self.call, self.target = call, target
        self.given: tuple[list[Any], dict[str, Any]] | None = None

    @classmethod
    def of(cls, call: dict[str, Any]) -> PreparedCall | None:
        if any(
            not name.startswith((content.ARGV, content.PROGRAM, content.ENVIRONMENT))
            for name, _ in call.get("surroundings", ())
        ):
            return None
        try:
            args = [plain_data.decode(value) for value in call["args"]]
            target = _target(importlib.import_module(call["module"]), call, args, "raw")
        except Exception:  # importing and decoding run code of the project
            return None
        return cls(call, target) if target is not None else None

    def result(self) -> dict[str, Any] | None:
        """Return what the call answers and what it leaves in its arguments, or None if that cannot be compared."""
        args, kwargs = self.given or self._decoded()
        before = None if self.given else _written([*args, *kwargs.values()])
        try:
            value = self.target(*args, **kwargs)
        except Exception as fault:  # an outcome like any other
            return {"outcome": plain_data.described_exception(fault), **_left_behind(args, before)}
        if inspect.iscoroutine(value) or plain_data.is_iterator(value):
            return None
        if before is not None and before == _written([*args, *kwargs.values()]):
            self.given = args, kwargs
        outcome = {"value": value if type(value) in _SIMPLE else plain_data.describe(value)}
        return {"outcome": outcome, **_left_behind(args, before)}

    def _decoded(self) -> tuple[list[Any], dict[str, Any]]:
        args = [plain_data.decode(value) for value in self.call["args"]]
        return args, {name: plain_data.decode(value) for name, value in self.call["kwargs"]}


def _content(call: dict[str, Any]) -> dict[str, Any]:
    """Return what a call finds beside its arguments, without the variables of the function around it."""
    taken = (content.VARIABLE, content.PROGRAM)  # the latter is set by the way in which calls are repeated
    beside = [item for item in call.get("surroundings", ()) if not item[0].startswith(taken)]
    return {name: plain_data.decode(value) for name, value in beside}


def _written(args: list[Any]) -> list[Any] | None:
    try:
        budget = plain_data.ValueBudget()
        return [plain_data.encode_argument(value, budget) for value in args]
    except plain_data.NotPlainData:
        return None


def _left_behind(args: list[Any], before: list[Any] | None) -> dict[str, Any]:
    """Return the arguments after a call that changed them; `before` may have more values behind them."""
    after = _written(args)
    if before is None or after is None or plain_data.same(before[: len(args)], after):
        return {}
    return {"after": [plain_data.describe(value) for value in args]}


def _compared(result: dict[str, Any]) -> str:
    return repr((result["outcome"], result.get("after")))


def _finished(value: Any) -> tuple[Any, Any]:
    """Return a result as JSON and itself; wait for a coroutine, and draw the values of an iterator."""
    if inspect.iscoroutine(value):
        import asyncio  # noqa: PLC0415 - slow to import

        value = asyncio.new_event_loop().run_until_complete(value)
    if plain_data.is_iterator(value):
        return plain_data.drain(value), None
    return plain_data.describe(value), value


# Finding a function by its name ------------------------------------------------------------------------------------


def _target(module: Any, call: dict[str, Any], args: list[Any], which: str) -> Any:
    """Return what to call with the recorded arguments, or None."""
    inner = _inner_target(module, call) if which == "raw" and "<locals>" in call["qualname"] else None
    if inner is not None:
        return inner
    parts = call["qualname"].split("#")[0].split(".")
    holder, static = module, module
    for part in parts:
        holder = static
        static = _attribute(holder, part)
        if static is None:
            return _unnamed(module, parts[-1], call.get("line")) if which == "raw" else None
    raw = _raw(static, call.get("line"), parts[-1])
    if which == "raw":
        return raw
    if static is raw or (isinstance(static, (staticmethod, classmethod)) and static.__func__ is raw):
        return None
    return _public(static, holder, parts[-1], call["first"], args)


def _inner_target(module: Any, call: dict[str, Any]) -> Any:
    """Return a function inside another one, with the variables that it had in the test."""
    start = len(content.VARIABLE)
    beside = [item for item in call.get("surroundings", ()) if item[0].startswith(content.VARIABLE)]
    variables = {name[start:]: plain_data.decode(value) for name, value in beside}
    try:
        return functions.InnerFunction(module, call["qualname"]).made(variables)
    except (LookupError, functions.NotWritten):
        return None


def _unnamed(module: Any, name: str, line: int | None) -> Any:
    """Return a function that has no name in its module, such as one made by another function when it was imported.

    Of several that hold other values nobody can tell which one the test called: None.
    """
    made = [item for item in gc.get_objects() if type(item) is types.FunctionType and item.__globals__ is vars(module)]
    made = [item for item in made if item.__code__.co_name == name and line in (None, item.__code__.co_firstlineno)]
    is_one = len(made) == 1 or (
        len({item.__code__ for item in made}) == 1 and not any(item.__closure__ for item in made)
    )
    return made[0] if is_one else None


def _attribute(holder: Any, name: str) -> Any:
    try:
        return inspect.getattr_static(holder, name)
    except AttributeError:
        return None


def _raw(static: Any, line: int | None, name: str) -> Any:
    functions = [item for item in _inner(static) if hasattr(item, "__code__")]
    if line is not None:
        functions = [item for item in functions if item.__code__.co_firstlineno == line] or functions
    named = [item for item in functions if item.__code__.co_name in (name, "<lambda>")]
    return named[-1] if named else functions[-1] if functions else None


def _inner(static: Any) -> Iterator[Any]:
    """Yield an attribute and all that it wraps."""
    seen: list[int] = []
    todo = [static]
    while todo and len(seen) < 50:
        item = todo.pop(0)
        if item is None or id(item) in seen:
            continue
        seen.append(id(item))
        yield item
        names = ["__func__", "__wrapped__", "fget", "fset", "fdel"]
        if isinstance(item, functools.partial) or type(item).__name__ == "cached_property":
            names.append("func")
        todo.extend(_attribute_of(item, name) for name in names)


def _attribute_of(item: Any, name: str) -> Any:
    try:
        return getattr(item, name, None)
    except Exception:  # a property runs code of the project
        return None


def _public(static: Any, holder: Any, name: str, first: str, args: list[Any]) -> Any:
    """Return what a caller reaches by the name."""
    if isinstance(holder, type) and first and args:
        owner = args[0]
        if isinstance(static, property) or type(static).__name__ == "cached_property":
            return lambda *_args, **_kwargs: getattr(owner, name) if len(args) == 1 else None
        return lambda *rest, **kwargs: getattr(owner, name)(*rest[1:], **kwargs)
    public = getattr(holder, name, None)
    return public if callable(public) else None


# Starting ----------------------------------------------------------------------------------------------------------


def _job(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        job: dict[str, Any] = json.load(file)
        return job


def replay_group(group: str) -> None:
    """Repeat the calls of one test, from the test that stands in for it."""
    here = os.path.dirname(os.path.abspath(__file__))
    job = _job(os.path.join(here, "job.json"))
    job["out"] = os.path.join(here, "outcomes.jsonl")
    for folder in reversed(job["path"]):
        _first_in_path(os.path.normpath(os.path.join(job["top"], folder)))
    clock = guard.StillClock(job["now"])
    clock.start()
    try:
        CallReplayer(job, clock).run(group)
    finally:
        clock.stop()


def _first_in_path(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def main(path: str) -> None:
    """Repeat all calls of a job in this interpreter."""
    job = _job(path)
    moved = job.get("moved") or {}
    sys.path[:1] = [os.path.normpath(os.path.join(job["top"], folder)) for folder in job["path"]]
    sys.argv[:] = [moved.get("argv") or "main.py"]
    if moved.get("python"):
        _show_version(sys.version_info[1] + int(moved["python"]))
    _set_library(moved)
    _hide(frozenset(moved.get("hidden") or ()))
    _leave_no_name()
    if job.get("now"):
        guard.StillClock(job["now"], float(moved.get("days") or 0)).start()
    guard.limit_memory()
    os.chdir(job["top"])
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    CallReplayer(job).run()
    sys.stdout.flush()
    os._exit(0)  # a thread that hangs, or code at exit, is not awaited


def _set_library(moved: dict[str, Any]) -> None:
    """Set what a program sets for all modules: the level of logging, and the precision of decimal numbers."""
    if moved.get("level"):
        logging.getLogger().setLevel(moved["level"])
        logging.getLogger().addHandler(logging.NullHandler())
    if moved.get("digits"):
        decimal.DefaultContext.prec = decimal.getcontext().prec = moved["digits"]  # of other threads, of this one


def _hide(names: frozenset[str]) -> None:
    """Let some installed modules be missing."""
    finder: Any = importlib.machinery.PathFinder
    usual = finder.find_spec

    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        return None if name.partition(".")[0] in names else usual(name, path, target)

    if names:
        finder.find_spec = find_spec


def _show_version(minor: int) -> None:
    """Let the project see another version of Python than the one that runs."""
    real, shown, make = sys.version_info, sys, collections.namedtuple  # type: Any, Any, Any  # noqa: PYI024
    kind = make("version_info", "major minor micro releaselevel serial")
    shown.version = sys.version.replace("%d.%d.%d" % real[:3], "%d.%d.0" % (real[0], minor), 1)
    shown.version_info = shown.implementation.version = kind(real[0], minor, 0, "final", 0)
    shown.hexversion = real[0] << 24 | minor << 16 | 0xF0


_OWN_MODULES = ("content", "copies", "equality", "functions", "guard", "plain_data", "set_up_state")
_own: list[Any] = []


def _leave_no_name() -> None:
    """Let the calls see an interpreter that runs some program, not this one."""
    _own.extend(sys.modules.pop(name) for name in _OWN_MODULES)
    _own.append(sys.modules["__main__"])
    main_module = type(sys)("__main__")
    main_module.__file__ = sys.argv[0]
    sys.modules["__main__"] = main_module


if __name__ == "__main__":
    main(sys.argv[1])
