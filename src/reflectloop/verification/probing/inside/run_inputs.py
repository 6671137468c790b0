"""Run functions of a project on lists of inputs, each in a process of its own, and write down what they answer.

The project's Python runs this file: standard library of 3.8 only. Standard input is a job: {"roots": [...], "changed":
{file: [[first line, last line], ...]}, "functions": [{"file", "module", "qualname", "first", "inputs": [{"args",
"kwargs", "own"}]}], "steps", "call_s", "seconds", "now"}. Standard output is one line of JSON for each input. With
"versions": [{"file", "text"}], all inputs are run on each of these versions of a file, until a function gives another
outcome than "expected" has for its first inputs. With "plain": PROGRAM, time passes and no step is counted.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import inspect
import io
import json
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

if not __package__:  # started as a program
    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path[0] = os.path.dirname(_here)
    __package__ = os.path.basename(_here)  # noqa: A001
    importlib.import_module(__package__)

from . import content, equality, functions, plain_data  # noqa: E402 - after the package is known
from .guard import Guard, StillClock, limit_memory  # noqa: E402

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
_LONGEST_TEXT = 300
_MOST_PRINTED = 4_000  # bytes
_LARGEST_ANSWER = 1 << 20  # bytes of one line of output
_STEPS_OF_A_LINE = 8
_DEEPEST = 200  # calls of a function by itself whose arguments are looked at
_MOST_USELESS = 24  # endless or stopped calls of one function
_BATCH = 30  # inputs of one process
_ALL_VERSIONS = 6  # time for all versions, in times of that of one
_TIMES_CPU = 10  # wall time for one input, in times of its processor time


class AnotherOutcome(Exception):
    """Ends the run of a version whose outcome is not the expected one."""


class StopCall(BaseException):
    """Ends a call that does what a probed function may not do."""


class StepCounter:
    """Counts steps, to end endless calls at the same place each time, and notes the bytecode that a call reaches."""

    def __init__(self, root: str, changed: dict[str, list[list[int]]], *, plain: bool = False) -> None:
        self.plain = plain  # counts nothing, so that nobody can see it
        self.root = os.path.join(os.path.realpath(root), "")
        self.changed = changed  # by real path
        self.most = 0
        self.count = 0
        self.over = False
        self.target: Any = None  # the code of the function that is run
        self.known: frozenset[str] = frozenset()  # inputs of tests, as text
        self.counts: frozenset[int] = frozenset()  # of the arguments in `known`
        self.meets = False
        self._depth = 0
        self._points: set[Any] = set()
        self._known: dict[Any, Any] = {}

    def start(self, most: int) -> None:
        """Begin to count."""
        self.most, self.count, self.over, self._points = most, 0, False, set()
        self.meets, self._depth = False, 0
        if self.plain:
            return
        if hasattr(sys, "monitoring"):
            self._monitor()
        else:
            sys.settrace(self._trace)

    def stop(self) -> None:
        """End counting."""
        self.most = 0
        if self.plain:
            return
        if hasattr(sys, "monitoring"):
            sys.monitoring.set_events(sys.monitoring.PROFILER_ID, 0)
            sys.monitoring.free_tool_id(sys.monitoring.PROFILER_ID)
        else:
            sys.settrace(None)

    def reached(self) -> dict[str, str]:
        """Return the instructions that were reached, a bit for each, by the function's name and line."""
        out: dict[str, int] = {}
        for code, offset in self._points:
            name = "%s:%d" % (code.co_name, code.co_firstlineno)
            out[name] = out.get(name, 0) | 1 << (offset // 2)
        return {name: "%x" % bits for name, bits in out.items()}

    def _kind(self, code: Any) -> int:
        """Return 2 for changed code, 1 for other code of the project, 0 for the rest."""
        if code not in self._known:
            name = code.co_filename
            path = os.path.realpath(name) if os.path.isabs(name) else ""
            spans = self.changed.get(path, ())
            changed = any(first <= code.co_firstlineno <= last for first, last in spans)
            self._known[code] = 2 if changed else int(path.startswith(self.root))
        return int(self._known[code])

    def _enter(self, frame: Any) -> None:
        """Note a call of the function by itself with an input of the tests."""
        self._depth += 1
        if self._depth > 1 and self.known and not self.meets and self._depth < _DEEPEST:
            names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
            values = [frame.f_locals.get(name) for name in names]
            self.meets = any(input_text(values[:count]) in self.known for count in self.counts)

    def _step(self, by: int) -> None:
        self.count += by
        if 0 < self.most < self.count:
            self.most, self.over = 0, True  # once: what follows cleans up
            raise StopCall("endless")

    def _trace(self, frame: Any, event: str, _arg: Any) -> Any:
        if event == "call":
            kind = self._kind(frame.f_code)
            if kind == 0:
                return None
            if frame.f_code is self.target:
                self._enter(frame)
            self._step(1)
            if kind == 1:
                return self._trace
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return self._trace_opcodes
        if event == "line":
            self._step(_STEPS_OF_A_LINE)
        return self._trace

    def _trace_opcodes(self, frame: Any, event: str, _arg: Any) -> Any:
        if event == "opcode":
            self._points.add((frame.f_code, frame.f_lasti))
            self.count += 1
            if 0 < self.most < self.count:
                self._step(0)
        return self._trace_opcodes

    def _monitor(self) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        events, tool = monitoring.events, monitoring.PROFILER_ID
        monitoring.use_tool_id(tool, "steps")

        def started(code: Any, _offset: int) -> Any:
            kind = self._kind(code)
            if kind == 0:
                return monitoring.DISABLE
            if code is self.target:
                self._enter(sys._getframe(1))
            if kind > 1:
                monitoring.set_local_events(tool, code, events.INSTRUCTION)
            self._step(1)
            return None

        def instruction(code: Any, offset: int) -> None:
            self._points.add((code, offset))
            self._step(1)

        def jumped(code: Any, _offset: int, _to: int) -> Any:
            if self._kind(code) == 0:
                return monitoring.DISABLE
            self._step(_STEPS_OF_A_LINE)
            return None

        for event, callback in ((events.PY_START, started), (events.PY_RESUME, started), (events.JUMP, jumped)):
            monitoring.register_callback(tool, event, callback)
        monitoring.register_callback(tool, events.INSTRUCTION, instruction)
        monitoring.set_events(tool, events.PY_START | events.PY_RESUME | events.JUMP)


def load(root: str, file: str, module: str) -> Any:
    """Import a module by its name if that leads to its file, or else by its path."""
    path = os.path.realpath(os.path.join(root, file))
    if module and module != "__main__":
        try:
            loaded = importlib.import_module(module)
            if os.path.realpath(getattr(loaded, "__file__", None) or "") == path:
                return loaded
        except ImportError:
            pass
    name = module.rpartition(".")[2] or os.path.splitext(os.path.basename(file))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("cannot be loaded: " + file)
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def find(module: Any, qualname: str, first: str) -> Any:
    """Return a function by its name; it takes all arguments that were recorded."""
    if "<locals>" in qualname:
        return functions.InnerFunction(module, qualname)
    value, owner = module, module
    for part in qualname.split("."):
        owner, value = value, getattr(value, part)
    raw = getattr(owner, "__dict__", {}).get(qualname.rpartition(".")[2], value)
    if isinstance(raw, property) and raw.fget is not None:
        return raw.fget
    if first == "cls":
        return lambda _cls, *args, **kwargs: value(*args, **kwargs)
    return value


class PrintedText:
    """Takes what a call writes to standard output and to standard error."""

    def __init__(self) -> None:
        self.usual = sys.stdout, sys.stderr
        self.content = io.BytesIO()
        self.stream = io.TextIOWrapper(self.content, "utf-8", "backslashreplace", write_through=True)
        sys.stdout = sys.stderr = self.stream

    def end(self) -> str:
        """Give the streams back, and return the beginning of what was written."""
        sys.stdout, sys.stderr = self.usual
        if self.content.closed:
            return ""
        self.stream.flush()
        return _ADDRESS.sub("0x", self.content.getvalue()[:_MOST_PRINTED].decode("utf-8", "replace"))


def _drawn(value: Any) -> tuple[Any, dict[str, Any]]:
    """Return what a call returned, a coroutine's result in its place, and the outcome if that is an iterator."""
    if inspect.iscoroutine(value):
        value = plain_data.awaited(value)
    return value, {"value": plain_data.drain(value)} if plain_data.is_iterator(value) else {}


def answer(
    function: Callable[..., Any], given: dict[str, Any], steps: StepCounter, guard: Guard, most: int
) -> dict[str, Any]:
    """Call a function where it finds what its test had, and return its outcome as JSON."""
    place = content.place = content.place or content.CallPlace()
    beside = [[name, value] for name, value in given["kwargs"] if content.is_surrounding(name)]
    named = [pair for pair in given["kwargs"] if pair not in beside]
    try:
        place.lay({name: plain_data.decode(value) for name, value in beside if not name.startswith(content.VARIABLE)})
        place.enter()
        variables = [
            [name[len(content.VARIABLE) :], value] for name, value in beside if name.startswith(content.VARIABLE)
        ]
        line = _answer(function, {**given, "kwargs": named, "variables": variables}, steps, guard, most)
        files = place.changes()
        if files and "stopped" not in line["outcome"] and "endless" not in line["outcome"]:
            line["outcome"]["files"] = files
        return dict(json.loads(place.without(json.dumps(line))))
    except (OSError, plain_data.NotPlainData, functions.NotWritten) as fault:
        return {"outcome": {"stopped": _text_of(fault)}}
    finally:
        place.end()


def _answer(function: Any, given: dict[str, Any], steps: StepCounter, guard: Guard, most: int) -> dict[str, Any]:
    args, kwargs, variables = _decoded(given, guard)
    if isinstance(function, functions.InnerFunction):
        function = function.made(variables)
    if not _takes(function, args, kwargs):
        return {"outcome": {"stopped": "does not take these arguments"}}
    before = plain_data.describe(_held(function, args, kwargs, variables))
    value: Any = None
    outcome: dict[str, Any] = {}
    guard.active = True
    printed = PrintedText()
    steps.start(most)
    try:
        value = function(*args, **kwargs)
        value, outcome = _drawn(value)
    except (StopCall, plain_data.NotPlainData) as fault:
        outcome = {"stopped": "no answer" if isinstance(fault, StopCall) else _text_of(fault)}
    except MemoryError:
        outcome = {"stopped": "uses too much memory"}
    except BaseException as fault:  # noqa: BLE001 - the project's own
        text = _ADDRESS.sub("0x", _text_of(fault))
        outcome = {"raises": plain_data.type_name(type(fault)).replace("builtins:", ""), "text": text}
    finally:
        steps.stop()
        guard.active = False
        shown = printed.end()
    if guard.stopped or steps.over:  # also if the project's code caught it
        outcome = {"stopped": guard.stopped} if guard.stopped else {"endless": True}
    outcome = outcome or {"value": plain_data.describe(value)}
    after = plain_data.describe(_held(function, args, kwargs, variables))
    if "stopped" not in outcome and "endless" not in outcome:
        new: list[Any] = []
        changed = _changed(before, _without_new(before, after, new))
        outcome.update({"after": changed} if changed else {})
        outcome.update({"new": {"object": "", "fields": new}} if new else {})
        outcome.update({"printed": shown} if shown else {})
    line = {"outcome": outcome, "steps": steps.count, "reached": steps.reached(), "meets": steps.meets}
    if given.get("own") and "value" in outcome:
        line["equality"] = equality.faults(value, tuple(steps.changed))
    if given.get("own"):
        line["remade"] = _is_remade(given["args"], guard)
    return line


def _decoded(given: dict[str, Any], guard: Guard) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    guard.active = True  # an object that is made again runs code of the project
    try:
        args = [plain_data.decode(value) for value in given["args"]]
        kwargs = {name: plain_data.decode(value) for name, value in given["kwargs"]}
        return args, kwargs, {name: plain_data.decode(value) for name, value in given["variables"]}
    except plain_data.NotPlainData as fault:
        raise plain_data.NotPlainData(guard.stopped or _text_of(fault)) from fault
    finally:
        guard.active = False


def _held(function: Any, args: Any, kwargs: Any, variables: dict[str, Any]) -> list[Any]:
    """Return all that a call may change: its arguments, and the variables of the functions around it as they are."""
    if not variables:
        return [args, kwargs]
    now = dict(functions.variables_of(function))
    return [args, kwargs, {name: now[name] for name in variables if now.get(name) is not function and name in now}]


def _changed(before: Any, after: Any) -> Any:
    """Return the arguments and variables that a call changed, by their places and names; with the order of dicts."""
    if not isinstance(before, list) or not isinstance(after, list):
        return after if _written(before) != _written(after) else []  # too large to be compared one by one
    known, now = (
        [*enumerate(side[0]), *(pair for part in side[1:] for pair in part["dict"])] for side in (before, after)
    )
    same = [_written(value) for _, value in known]
    return [[name, value] for at, (name, value) in enumerate(now) if at >= len(same) or _written(value) != same[at]]


def _without_new(before: Any, after: Any, new: list[Any]) -> Any:
    """Return what arguments are after a call, without the attributes that it gave them; those go to `new`."""
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [_without_new(old, now, new) for old, now in zip(before, after)]  # noqa: B905 - as in 3.8
    if not isinstance(before, dict) or not isinstance(after, dict) or [*before] != [*after]:
        return after
    if "fields" not in after or before.get("object") != after.get("object"):
        return {name: _without_new(before[name], after[name], new) for name in after}
    known = dict(before["fields"])
    new.extend([name, value] for name, value in after["fields"] if name not in known)
    fields = [[name, _without_new(known[name], value, new)] for name, value in after["fields"] if name in known]
    return dict(after, fields=fields)


def _is_remade(args: list[Any], guard: Guard) -> bool:
    """Return True if the calls that made the objects of an input lead to the same objects again."""
    known = [value for value in args if isinstance(value, dict) and "history" in value]
    guard.active = True
    try:
        for value in known:
            texts = [_written(plain_data.describe(made)) for made in (plain_data.decode(value), _remade(value))]
            if texts[0] != texts[1] or '"large"' in texts[0] or '"opaque"' in texts[0][:12]:
                return False
    except BaseException:  # noqa: BLE001 - the project's own, or a call that reaches outside
        return False
    finally:
        guard.active = False
    return not guard.stopped


def _remade(value: dict[str, Any]) -> Any:
    return plain_data.decode({"history": value["history"]})


def _takes(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> bool:
    """Return False if a call would fail before the function begins."""
    if not inspect.isfunction(function):
        return True
    try:
        inspect.signature(function, follow_wrapped=False).bind(*args, **kwargs)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def input_text(values: list[Any]) -> str:
    """Return a text by which positional arguments are compared."""
    return plain_data.text_of(plain_data.describe(values))


def _text_of(fault: BaseException) -> str:
    return plain_data.exception_text(fault, _LONGEST_TEXT)


class TimeBudget:
    """The time that is left: mostly processor time, so that a busy machine does not change the answer."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.end = seconds, time.monotonic() + _TIMES_CPU * seconds

    def left(self) -> float:
        """Return the seconds of processor time that are left, or 0 if it has taken far too long."""
        used = sum(os.times()[:4])
        return self.seconds - used if time.monotonic() < self.end else 0.0


class InputBatch:
    """Runs inputs one after the other in a process of its own; the next process goes on after an input that ends it."""

    def __init__(self, work: Callable[[int], dict[str, Any]], cpu_s: float, clock: TimeBudget) -> None:
        self.work, self.cpu_s, self.clock = work, cpu_s, clock

    def run(self, count: int, emit: Callable[[int, dict[str, Any] | None], None]) -> int:
        """Emit one answer, or None, for each input; return the number of inputs that were run in time.

        After some endless or stopped calls the rest is left out: it would take long and tell nothing new.
        """
        number = useless = 0
        while number < count and self.clock.left() > 0:
            last = min(count, number + _BATCH)
            for data in self._in_child(number, last):
                emit(number, data)
                number += 1
                useless += "endless" in data["outcome"] or "stopped" in data["outcome"]
                if useless >= _MOST_USELESS:
                    return count
            if number < last and self.clock.left() > 0:
                emit(number, None)
                number += 1
                useless += 4
        return number

    def _in_child(self, first: int, last: int) -> Iterator[dict[str, Any]]:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reading)
                limit_memory()
                signal.signal(signal.SIGPROF, signal.SIG_DFL)
                for number in range(first, last):
                    signal.setitimer(signal.ITIMER_PROF, self.cpu_s)
                    data = json.dumps(self.work(number)).encode("ascii") + b"\n"
                    if len(data) > _LARGEST_ANSWER:
                        break
                    while data:
                        data = data[os.write(writing, data) :]
            finally:
                os._exit(0)
        os.close(writing)
        try:
            for line in self._lines(reading):
                yield json.loads(line.decode("ascii"))
        except ValueError:
            pass
        finally:
            os.close(reading)
            try:
                os.kill(child, signal.SIGKILL)
            except OSError:
                pass
            os.waitpid(child, 0)

    def _lines(self, descriptor: int) -> Iterator[bytes]:
        """Yield whole lines until the other side closes or is silent for too long."""
        rest = b""
        while True:
            if not select.select([descriptor], [], [], _TIMES_CPU * self.cpu_s)[0]:
                return
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                return
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            yield from lines


def run(job: dict[str, Any], emit: Callable[[dict[str, Any]], None]) -> None:
    """Run all inputs of all functions."""
    roots = [os.path.abspath(root) for root in job["roots"]]
    changed = {os.path.realpath(os.path.join(roots[0], file)): spans for file, spans in job["changed"].items()}
    content.place = content.CallPlace()
    plain = job.get("plain", "")
    steps, guard = StepCounter(roots[0], changed, plain=bool(plain)), Guard(content.place.holds)
    if plain:
        content.place.is_plain = True
        sys.argv[:] = [plain]
        sys.modules["__main__"] = type(sys)("__main__")
    sys.path[:0] = roots
    sys.dont_write_bytecode = True
    if job.get("now") and not plain:
        StillClock(job["now"]).start()
    clock = TimeBudget(job["seconds"])
    for at, wanted in enumerate(job["functions"]):
        guard.active = True
        try:
            function = find(
                load(roots[0], wanted["file"], wanted["module"]), wanted["qualname"], wanted.get("first", "")
            )
        except BaseException as fault:  # noqa: BLE001 - the project's own
            emit({"function": at, "missing": "%s: %s" % (type(fault).__name__, _text_of(fault))})
            continue
        finally:
            guard.active = False
        inputs = wanted["inputs"]
        steps.target = getattr(function, "__code__", None)
        steps.counts = frozenset(map(len, wanted.get("known", ())))
        steps.known = frozenset(input_text(plain_data.decode(args)) for args in wanted.get("known", ()))

        def work(number: int, function: Any = function, inputs: Any = inputs) -> dict[str, Any]:
            guard.stopped = ""
            if "random" in sys.modules:
                sys.modules["random"].seed(1)
            return answer(function, inputs[number], steps, guard, job["steps"])

        expected = wanted.get("expected", ())

        def tell(number: int, line: dict[str, Any] | None, at: int = at, expected: Any = expected) -> None:
            line = line or {"outcome": {"stopped": "needs too much time or memory"}}
            if number < len(expected) and _written(line["outcome"]) != _written(expected[number]):
                raise AnotherOutcome
            emit(dict(line, function=at, input=number))

        if InputBatch(work, job["call_s"], clock).run(len(inputs), tell) < len(inputs):
            emit({"function": at, "late": True})


def _written(outcome: Any) -> str:
    return json.dumps(outcome, sort_keys=True)


def run_versions(job: dict[str, Any], emit: Callable[[dict[str, Any]], None]) -> None:
    """Run all inputs on each version of a file, in a process of its own, as long as there is time."""
    clock = TimeBudget(job["seconds"] * _ALL_VERSIONS)
    for number, version in enumerate(job["versions"]):
        if clock.left() <= 0:
            return
        child = os.fork()
        if child == 0:
            try:
                _replace(os.path.realpath(os.path.join(job["roots"][0], version["file"])), version["text"].encode())
                run(job, lambda line, number=number: emit(dict(line, version=number)))  # type: ignore[misc]
            except AnotherOutcome:
                emit({"function": 0, "late": True, "version": number})
            finally:
                os._exit(0)
        os.waitpid(child, 0)


def _replace(path: str, text: bytes) -> None:
    """Let a source be read as another text."""
    loader: Any = importlib.machinery.SourceFileLoader
    read = loader.get_data

    def get_data(self: Any, name: str) -> bytes:
        if name.endswith(".pyc"):
            raise OSError("compiled from another text")
        return text if os.path.realpath(name) == path else bytes(read(self, name))

    loader.get_data = get_data


def main() -> None:
    """Read the job and write the answers: standard input and output, or the file of the job and one beside it."""
    path = sys.argv[1] if len(sys.argv) > 1 else ""
    if path:
        with open(path, encoding="utf-8") as file:
            job = json.load(file)
        out = os.open(path + "l", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    else:
        job = json.loads(sys.stdin.read())
        out = os.dup(1)
    os.dup2(2, 1)  # what the project prints is not an answer
    sys.argv[:] = [""]
    del sys.path[0]

    def emit(line: dict[str, Any]) -> None:
        data = json.dumps(line).encode("ascii") + b"\n"
        while data:
            data = data[os.write(out, data) :]

    (run_versions if job.get("versions") else run)(job, emit)
    os._exit(0)


if __name__ == "__main__":
    main()
