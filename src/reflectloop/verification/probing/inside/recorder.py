"""Record the calls of some functions while tests run: a plugin of pytest, also loaded by `launch.py`.

The project's Python runs this file: standard library of 3.8 only. `settings.json` beside it says which functions.
Only the named functions get other code, when their file is imported: a call at entry, at each return and at an
exception. Everything else runs as it would, so that the cost depends on the calls of these functions alone.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import contextlib
import importlib.machinery
import json
import os
import sys
import threading
import time
from typing import Any

from . import audit, call_arguments, content, copies, functions, plain_data, set_up_state

_HERE = os.path.dirname(os.path.abspath(__file__))
_MOST_CALLS, _MOST_OF_A_TEST, _MOST_NESTED = 200, 25, 60  # recorded calls of one function
_MOST_TESTS = 2000  # tests that are named as callers of one function
_MOST_STATES = 300  # calls with which the state of the project's modules is written
_MOST_TRIES, _MOST_TRIES_OF_A_TEST = 10_000, 500  # calls of one function that are looked at
_LONGEST_CALL = 96 << 10  # characters, with all that a call finds
_MOST_LEFT_OUT = 100  # calls of one function that cannot be written, before it is not looked at any more
_RUNNER_VARIABLES = ("PYTEST_",)
_RUNNER = os.path.join(_HERE, "runner.json")  # the variables of the process that runs the tests
# Python runs this first in each process that a test starts; one of the environment that has the same name comes after.
_AT_START = """import importlib, os, sys
def begin():
    folder, path = os.path.dirname(os.path.abspath(__file__)), sys.path
    own = sys.modules.pop(__name__)
    try:
        sys.path = [item for item in path if os.path.abspath(item) != folder]
        __import__("sitecustomize")
    except ImportError:
        pass
    finally:
        sys.path, sys.modules[__name__] = path, own
    if sys.version_info >= (3, 8):
        importlib.import_module("%s.recorder")
try:
    begin()
except (ImportError, OSError, SyntaxError, ValueError, LookupError, AttributeError, TypeError):
    pass
"""


class RecordedFunction:
    """One function whose calls are recorded."""

    def __init__(self, file: str, qualname: str, line: int) -> None:
        self.file, self.qualname, self.line = file, qualname, line
        self.tries = self.calls = self.nested = 0
        self.seen: set[str] = set()
        self.by_test: dict[str, int] = {}
        self.reasons: dict[str, int] = {}
        self.loaded = False
        self.last_test, self.tries_in_test = "", 0
        self.tests: set[str] = set()
        self.paths: list[Any] = []  # the project's functions on the stack, innermost first, for different calls

    def is_full(self, test: str) -> bool:
        return (
            self.calls >= _MOST_CALLS
            or self.tries >= _MOST_TRIES
            or self.by_test.get(test, 0) >= _MOST_OF_A_TEST
            or (test == self.last_test and self.tries_in_test >= _MOST_TRIES_OF_A_TEST)
            or (not self.calls and sum(self.reasons.values()) >= _MOST_LEFT_OUT)
        )

    def count_try(self, test: str) -> None:
        if test != self.last_test:
            self.last_test, self.tries_in_test = test, 0
        self.tries += 1
        self.tries_in_test += 1


class CallRecorder:
    """The calls of all named functions in one process."""

    def __init__(self, settings: dict[str, Any], runner: dict[str, str] | None = None) -> None:
        self.started = runner is not None  # by a test of another process, which `runner` has the variables of
        self.mark: str = settings["mark"]
        self.root = os.path.realpath(settings["root"])
        self.order: str = settings.get("order", "")
        self.functions: list[RecordedFunction] = []
        self.by_file: dict[str, dict[int, int]] = {}
        self.makers: dict[str, set[int]] = {}  # by file, the lines of constructors whose arguments are remembered
        for file, begins in settings.get("makers", {}).items():
            path = os.path.realpath(os.path.join(self.root, file))
            self.by_file[path], self.makers[path] = {}, set(begins)
        self.folders = content.PlacesOfTest(self.root, self._is_own_source)
        self.stdin = sys.stdin
        self.made = call_arguments.ObjectHistories(self.folders)
        self.arguments = call_arguments.ArgumentReader()
        self.stack = call_arguments.StackReader(self.root)
        for file, places in settings["files"].items():
            lines = self.by_file.setdefault(os.path.realpath(os.path.join(self.root, file)), {})
            for qualname, line in places:
                lines[line] = len(self.functions)
                self.functions.append(RecordedFunction(file, qualname, line))
        self.test = ""
        self.patches = set_up_state.PatchCounter()
        self.watch = set_up_state.FileWatch(self.folders.name_of)
        self.open = self.watch.open_calls
        self.quiet: set[int] = set()  # functions of which enough is recorded in the present test
        self.states_left = _MOST_STATES
        self.local = threading.local()
        self.own_environ = dict(os.environ)
        self.environ = self.own_environ if runner is None else runner
        self.sources = settings.get("sources", settings["files"])
        self.argv, self.begun = [] if self.started else list(sys.argv), False
        self.out = os.path.join(_HERE, settings["out"])
        self.waiting = set(self.by_file)  # files that no import has been seen of
        self.looked_at: set[str] = set()  # names of imported modules
        self.pid = 0
        self.descriptor = -1

    def begin_test(self, name: str) -> None:
        if not self.begun:  # the runner has set its arguments by now, and no test has changed them
            self.begun, self.argv = True, list(sys.argv)
            self._run_tests()
        self.test = name
        self.folders.forget()
        self.stdin = sys.stdin
        self.quiet.clear()
        self.patches.follow()
        self._reach_loaded()

    def _run_tests(self) -> None:
        """Take the process for one that runs tests, such as a worker of the runner, if another one started it."""
        if self.started:
            self.started, self.environ = False, self.own_environ
            self.watch_reads()
            if self.pid:
                self.write_start()

    def watch_reads(self) -> None:
        """Report what the changed sources read of the tests from now on."""
        audit.ReadWatch(self.root, self.sources, lambda: self.test, self.write).start()

    # Called by the recorded functions -------------------------------------------------------------------------

    def calls(self) -> dict[str, Any]:  # noqa: C901 - five small functions
        """Return the functions that the other code calls: quick for a function of which enough is recorded."""
        quiet, open_calls, frame_of = self.quiet, self.open, sys._getframe

        def enter(index: int) -> None:
            if index not in quiet:
                frame = frame_of(1)
                record = self._looked_at(index, frame)
                if record is not None:
                    open_calls[id(frame)] = record

        def leave(value: Any) -> Any:
            if open_calls:
                record = open_calls.pop(id(frame_of(1)), None)
                if record is not None:
                    self._finish(record, lambda: {"value": plain_data.describe(value)})
            return value

        def fail() -> None:
            record = open_calls.pop(id(frame_of(1)), None)
            if record is not None:
                fault = sys.exc_info()[1]
                self._finish(record, lambda: plain_data.described_exception(fault))

        def start(index: int) -> None:
            """Begin a generator, whose values are not recorded."""
            record = self._looked_at(index, frame_of(1)) if index not in quiet else None
            if record is not None:
                self._finish(record, lambda: {"generator": True})

        def quietly(action: Any, *args: Any) -> None:
            if not getattr(self.local, "busy", False):
                self.local.busy = True
                try:
                    action(*args)
                except Exception:  # noqa: BLE001, S110 - a test must not notice
                    pass
                finally:
                    self.local.busy = False

        def make() -> None:
            quietly(self.made.remember, frame_of(1))

        def note(value: Any) -> None:
            quietly(self.made.note, value, frame_of(1))

        return {"e": enter, "r": leave, "x": fail, "g": start, "m": make, "h": note}

    def _looked_at(self, index: int, frame: Any) -> dict[str, Any] | None:
        """Return the record of a call that begins, or None if it is not recorded."""
        function = self.functions[index]
        if getattr(self.local, "busy", False):
            return None
        if len(function.tests) < _MOST_TESTS:
            function.tests.add(self.test)
            self.stack.note(frame, function.paths)
        if function.is_full(self.test):
            self.quiet.add(index)
            return None
        function.count_try(self.test)
        self.local.busy = self.watch.busy = True
        try:
            return self._begun(function, frame)
        except plain_data.NotPlainData as fault:
            reason = str(fault)[:200]
            if reason in function.reasons or len(function.reasons) < 20:
                function.reasons[reason] = function.reasons.get(reason, 0) + 1
        except Exception as fault:  # noqa: BLE001 - a test must not notice
            function.reasons[type(fault).__name__] = 1
        finally:
            self.local.busy = self.watch.busy = False
        return None

    # One call -------------------------------------------------------------------------------------------------

    def _begun(self, function: RecordedFunction, frame: Any) -> dict[str, Any] | None:
        nested = bool(self.open)
        if nested and function.nested >= _MOST_NESTED:
            return None
        code = frame.f_code
        live, keywords = self.arguments.read(frame, with_defaults=_is_inner(function))
        self.made.frame = frame
        args, beside, budget = plain_data.encode_call(live, self.folders)
        kwargs = [[name, plain_data.encode_argument(value, budget)] for name, value in keywords]
        first = code.co_varnames[0] if code.co_argcount and "." in function.qualname else ""
        objects = [place for place, value in enumerate(args) if isinstance(value, dict) and "pickle" in value]
        histories = {str(place): self.made.history(live[place], frame) for place in objects}
        self._look_around(function, frame, beside)
        for place in objects:
            is_made = histories[str(place)] is not None and not self.made.is_in_use(live[place])
            known = self.made.surroundings(live[place]) if is_made else {}
            if known:  # the object names a file or holds a stream, which it finds elsewhere when it is made again
                args[place] = {"history": histories.pop(str(place))}
                beside.content.update(known)
        surroundings: list[list[Any]] = [[name, value] for name, value in beside.content.items()]
        names = [name[len(content.FILE) :] for name in beside.content if name.startswith(content.FILE)]
        key = json.dumps([args, kwargs, surroundings])
        if len(key) > _LONGEST_CALL:
            raise plain_data.NotPlainData("too large")
        if key in function.seen:
            return None
        function.seen.add(key)
        return {
            "function": function,
            "is_nested": nested,
            "live": live,
            "began": time.perf_counter(),
            "file": function.file,
            "module": _module_name(frame.f_globals),
            "qualname": function.qualname,
            "line": function.line,
            "test": self.test,
            "args": args,
            "kwargs": kwargs,
            "surroundings": surroundings,
            "named": names,
            "unused": list(names),
            "before": _after(live) if surroundings else args,
            "first": first if first in ("self", "cls") and not _is_inner(function) else "",
            "nested": nested,
            "histories": {place: made for place, made in histories.items() if made is not None},
            **self._settings(),
            **self._set_up(),
        }

    def _look_around(self, function: RecordedFunction, frame: Any, beside: content.CallSurroundings) -> None:
        """Add what a call finds beside its arguments."""
        settings = self._settings()
        if "argv" in settings:
            beside.content[content.ARGV] = beside.encode(settings["argv"][1:])
            beside.content[content.PROGRAM] = {"program": settings["argv"][0] if settings["argv"] else ""}
        for name, value in settings.get("env", {}).items():
            beside.content[content.ENVIRONMENT + name] = beside.encode(value)
        beside.working_folder()
        beside.standard_input(self.stdin)
        if "<locals>" in function.qualname:
            for name in frame.f_code.co_freevars:
                with contextlib.suppress(plain_data.NotPlainData, KeyError):
                    value = frame.f_locals[name]
                    written = functions.encode_variable(value, frame.f_code, beside.encode)
                    beside.content[content.VARIABLE + name] = written

    def _is_own_source(self, file: str) -> bool:
        """Return True for a file of the project that is no test."""
        path = os.path.realpath(file)
        is_inside = path.startswith(self.root + os.sep) and os.path.isfile(path)
        return is_inside and not set_up_state.OTHERS.search(path[len(self.root) :])

    def _settings(self) -> dict[str, Any]:
        """Return what the test itself set: arguments of the program, folder, variables."""
        out: dict[str, Any] = {}
        if sys.argv != self.argv:
            out["argv"] = [str(part) for part in sys.argv][:50]
        folder = os.getcwd()
        if os.path.realpath(folder) != self.root:
            out["cwd"] = os.path.relpath(folder, self.root)
        now = dict(os.environ)
        if now != self.environ:
            names = [name for name in {*now, *self.environ} if now.get(name) != self.environ.get(name)]
            changed = {name: now.get(name) for name in names if not name.startswith(_RUNNER_VARIABLES)}
            if changed:
                out["env"] = changed
        return out

    def _set_up(self) -> dict[str, Any]:
        """Return what else the test may have set up: patched names, and the state of the project's modules."""
        out: dict[str, Any] = {}
        if self.patches.any_active:
            out["patched"] = True
        if self.states_left > 0:
            self.states_left -= 1
            out["states"] = set_up_state.states(self.root)
        return out

    def _finish(self, record: dict[str, Any], outcome: Any) -> None:
        self.local.busy = self.watch.busy = True
        try:
            record["ms"] = round((time.perf_counter() - record.pop("began")) * 1000, 3)
            function, nested, live = record.pop("function"), record.pop("is_nested"), record.pop("live")
            record.pop("named")
            record["outcome"] = self._placed(outcome())
            before, after = record.pop("before"), _after(live)
            if before is not None and after is not None and not plain_data.same(after, before):
                record["after"] = self._placed([plain_data.describe(value) for value in live])
            if function.calls >= _MOST_CALLS:
                return
            function.calls += 1
            function.nested += nested
            function.by_test[record["test"]] = function.by_test.get(record["test"], 0) + 1
            self.write(record)
        except Exception as fault:  # noqa: BLE001 - a test must not notice
            record.clear()
            self.functions[0].reasons["recording failed: " + type(fault).__name__] = 1
        finally:
            self.local.busy = self.watch.busy = False

    def _placed(self, written: Any) -> Any:
        """Return JSON in which the folders of the test have the names that they have when the call is repeated."""
        return json.loads(self.folders.without(json.dumps(written))) if self.folders.numbers else written

    def write(self, record: dict[str, Any]) -> None:
        """Append one line at once, so that nothing is lost if the process is ended."""
        if self.pid != os.getpid():
            self.pid = os.getpid()
            name = os.path.join(self.out, "calls-%d.jsonl" % self.pid)
            self.descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            if not self.started:
                self.write_start()
        os.write(self.descriptor, (json.dumps(record) + "\n").encode())

    def write_start(self) -> None:
        """Write which interpreter runs, and from which folders of the project it imports."""
        folders = [os.path.realpath(folder) for folder in sys.path]
        inside = [folder for folder in folders if folder == self.root or folder.startswith(self.root + os.sep)]
        path = [os.path.relpath(folder, self.root) for folder in inside]
        self.write({"python": sys.executable, "path": path})

    def close(self) -> None:
        """Write which functions could not be recorded."""
        for function in self.functions:
            self.write(
                {
                    "summary": function.qualname,
                    "file": function.file,
                    "line": function.line,
                    "loaded": function.loaded,
                    "tries": function.tries,
                    "calls": function.calls,
                    "reasons": function.reasons,
                    "tests": sorted(function.tests),
                    "paths": function.paths,
                }
            )

    # Other code for the named functions -----------------------------------------------------------------------

    def compile(self, source: bytes, path: str, lines: dict[int, int]) -> Any:
        makers = self.makers.get(os.path.realpath(path), set())
        tree = _Instrument(self.mark, lines, makers, objects=bool(lines)).visit(ast.parse(source, path))
        ast.fix_missing_locations(tree)
        code = compile(tree, path, "exec", dont_inherit=True)
        self.waiting.discard(os.path.realpath(path))
        for index in lines.values():
            self.functions[index].loaded = True
        return code

    def install(self) -> None:
        for name, function in self.calls().items():
            setattr(builtins, self.mark + name, function)
        loader = importlib.machinery.SourceFileLoader
        usual = loader.get_code

        def get_code(this: Any, fullname: str) -> Any:
            try:
                path = this.get_filename(fullname)
                lines = self.by_file.get(os.path.realpath(path))
                if lines is not None:
                    return self.compile(this.get_data(path), path, lines)
            except (SyntaxError, ValueError, RecursionError):
                pass
            return usual(this, fullname)

        loader.get_code = get_code  # type: ignore[assignment,method-assign]
        self._reach_loaded()
        plain_data.remembered = self.made.remembered
        copies.find_new_hooks(self.root, [(item.file, item.qualname) for item in self.functions])

    def _reach_loaded(self) -> None:
        """Give functions other code whose file was imported another way.

        Such as a package that the runner uses itself, or a source with examples that the runner imports as a test.
        """
        if not self.waiting:
            return
        for name in [name for name in list(sys.modules) if name not in self.looked_at]:
            self.looked_at.add(name)
            module = sys.modules.get(name)
            path = getattr(module, "__file__", None)
            if not isinstance(path, str) or not path.endswith(".py") or os.path.realpath(path) not in self.waiting:
                continue
            try:
                with open(path, "rb") as file:
                    code = self.compile(file.read(), path, self.by_file[os.path.realpath(path)])
                call_arguments.replace_code(module, code)
            except (OSError, SyntaxError, ValueError, RecursionError):
                pass


def _is_inner(function: RecordedFunction) -> bool:
    return function.qualname.rpartition(".")[0].endswith("<locals>")


def _module_name(names: dict[str, Any]) -> str:
    """Return the name by which the module can be imported, also of one that was started as a program."""
    spec = names.get("__spec__") if names.get("__name__") == "__main__" else None
    return str(getattr(spec, "name", None) or names.get("__name__", ""))


def _after(live: list[Any]) -> list[Any] | None:
    try:
        budget = plain_data.ValueBudget()
        return [plain_data.encode_argument(value, budget) for value in live]
    except plain_data.NotPlainData:
        return None


class _Instrument(ast.NodeTransformer):
    """Adds calls of the recorder to the functions that begin in some lines."""

    def __init__(self, mark: str, lines: dict[int, int], makers: set[int], *, objects: bool) -> None:
        self.mark, self.lines, self.makers = mark, lines, makers
        self.objects = objects  # whether the histories of objects are remembered
        self.methods: set[Any] = set()

    def visit_ClassDef(self, node: Any) -> Any:  # noqa: N802
        if self.objects:
            self.methods.update(item for item in node.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)))
        self.generic_visit(node)
        return node

    def _call(self, letter: str, *args: ast.expr) -> ast.Call:
        return ast.Call(ast.Name(self.mark + letter, ast.Load()), list(args), [])

    def _first_calls(self, node: Any, line: int) -> list[ast.stmt]:
        """Return the calls that remember how an object is made, or that a method of it is called."""
        calls = []
        if line in self.makers or (node in self.methods and node.name == "__init__"):
            calls.append(self._call("m"))
        if node in self.methods and call_arguments.may_change(node):
            calls.append(self._call("h", ast.Name(node.args.args[0].arg, ast.Load())))
        return [ast.Expr(call) for call in calls]

    def visit_FunctionDef(self, node: Any) -> Any:  # noqa: N802
        line = min([node.lineno] + [decorator.lineno for decorator in node.decorator_list])
        self.generic_visit(node)
        index = self.lines.get(line)
        start = 1 if ast.get_docstring(node, clean=False) is not None else 0  # it stays the first statement
        before, body = node.body[:start], node.body[start:]
        first = self._first_calls(node, line)
        if index is None:
            if not first:
                return node
            node.body = before + first + body
        elif _own_nodes(node, (ast.Yield, ast.YieldFrom)):
            node.body = before + [ast.Expr(self._call("g", ast.Constant(index)))] + first + body
        elif body:
            for inner in _own_nodes(node, (ast.Return,)):
                inner.value = self._call("r", inner.value or ast.Constant(None))
            end = ast.Expr(self._call("r", ast.Constant(None)))
            handler = ast.ExceptHandler(None, None, [ast.Expr(self._call("x")), ast.Raise(None, None)])
            handled = ast.Try(body + [end], [handler], [], [])
            node.body = before + [ast.Expr(self._call("e", ast.Constant(index)))] + first + [handled]
        self._place(node, before)
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: Any) -> Any:  # noqa: N802
        self.generic_visit(node)
        index = self.lines.get(node.lineno)
        if index is not None and not _own_nodes(node, (ast.Yield, ast.YieldFrom)):
            both = ast.Tuple([self._call("e", ast.Constant(index)), self._call("r", node.body)], ast.Load())
            node.body = ast.Subscript(both, _index(1), ast.Load())
            ast.copy_location(node.body, node)
        return node

    def _place(self, node: Any, before: list[Any]) -> None:
        """Give the added code the place of the first statement, so that no line of the file changes."""
        for statement in node.body[len(before) :]:
            if not hasattr(statement, "lineno"):
                ast.copy_location(statement, node)


def _index(number: int) -> Any:
    value = ast.Constant(number)
    return value if sys.version_info >= (3, 9) else ast.Index(value)


def _own_nodes(node: Any, kinds: Any) -> list[Any]:
    """Return the nodes of these kinds in a function, without those of functions inside it."""
    out: list[Any] = []
    todo = list(node.body) if isinstance(node.body, list) else [node.body]
    while todo:
        item = todo.pop()
        if isinstance(item, kinds):
            out.append(item)
        if not isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo.extend(ast.iter_child_nodes(item))
    return out


def load() -> CallRecorder:
    """Read the settings beside this file and begin to record."""
    with open(os.path.join(_HERE, "settings.json"), encoding="utf-8") as file:
        settings = json.load(file)
    if os.path.exists(_RUNNER):
        return _load_in_program(settings)
    recorder = CallRecorder(settings)
    recorder.install()
    recorder.watch_reads()
    if recorder.functions:
        _record_programs()
    return recorder


def _record_programs() -> None:
    """Let the processes that tests start record calls too, where they are of Python and keep its search path."""
    try:
        with open(_RUNNER, "w", encoding="utf-8") as file:
            json.dump(dict(os.environ), file)
        with open(os.path.join(os.path.dirname(_HERE), "sitecustomize.py"), "w", encoding="utf-8") as file:
            file.write(_AT_START % os.path.basename(_HERE))
    except OSError:
        pass


def _load_in_program(settings: dict[str, Any]) -> CallRecorder:
    """Begin to record in a process that a test, or the runner, started."""
    with open(_RUNNER, encoding="utf-8") as file:
        recorder = CallRecorder(settings, json.load(file))
    recorder.install()
    recorder.test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    atexit.register(recorder.close)
    return recorder


_recorder = load() if os.path.exists(os.path.join(_HERE, "settings.json")) else None


# Hooks of pytest ---------------------------------------------------------------------------------------------------


def pytest_runtest_logstart(nodeid: str) -> None:
    if _recorder is not None:
        _recorder.begin_test(nodeid)


def pytest_runtest_logfinish() -> None:
    if _recorder is not None:
        _recorder.test = ""


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Run the files of tests in the opposite order, if the settings ask for it."""
    if _recorder is None or _recorder.order != "reversed":
        return
    files: dict[str, list[Any]] = {}
    for item in items:
        files.setdefault(item.nodeid.split("::")[0], []).append(item)
    items[:] = [item for file in reversed(list(files)) for item in files[file]]


def pytest_unconfigure() -> None:
    if _recorder is not None:
        _recorder.close()
