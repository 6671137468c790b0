"""Tell the outcomes of a pytest session as they happen, and run known tests before the first and after the last.

The text of `events.py` stands before this text. Works with pytest 5 to 9.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
import unittest  # noqa: F401 - loaded before the project can replace it
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import _pytest.reports
import _pytest.runner
import pytest

if TYPE_CHECKING:
    from reflectloop.verification.observe.inside.events import _START, Originals, Pipe, raises

_MODULES = (
    "_pytest.runner _pytest.reports _pytest.python _pytest.main _pytest.nodes _pytest.unittest _pytest.outcomes "
    "_pytest.skipping _pytest.junitxml _pytest.assertion _pytest.assertion.rewrite _pytest.assertion.util "
    "_pytest.python_api _pytest.raises _pytest.doctest _pytest._code.code "
    "pluggy._hooks pluggy._caller pluggy._callers pluggy._execution pluggy._manager pluggy._result pluggy.hooks "
    "pluggy.callers pluggy.manager "
    "unittest.case unittest.result unittest.suite unittest.loader unittest.runner doctest"
)
_OFTEN = (
    "_pytest.runner.runtestprotocol _pytest.runner.call_and_report _pytest.runner.call_runtest_hook "
    "_pytest.runner.CallInfo _pytest.runner.CallInfo.from_call _pytest.runner.CallInfo.__init__ "
    "_pytest.runner.pytest_runtest_call _pytest.runner.pytest_runtest_makereport "
    "_pytest.reports.TestReport _pytest.reports.TestReport.__init__ _pytest.reports.TestReport.from_item_and_call "
    "_pytest.reports.BaseReport _pytest.reports.BaseReport.passed _pytest.reports.BaseReport.failed "
    "_pytest.python.Function.runtest _pytest.python.pytest_pyfunc_call "
    "_pytest.unittest.TestCaseFunction.runtest _pytest.unittest.TestCaseFunction.addFailure "
    "_pytest.unittest.TestCaseFunction.addError _pytest.unittest.TestCaseFunction._addexcinfo "
    "_pytest.junitxml.LogXML.pytest_runtest_logreport "
    "unittest.case.TestCase.run unittest.case.TestCase.assertEqual unittest.case.TestCase.assertTrue "
    "unittest.case.TestCase.assertRaises unittest.case.TestCase.fail unittest.case._Outcome.testPartExecutor "
    "pluggy._callers._multicall pluggy._execution._multicall pluggy._caller.HookCaller.__call__ "
    "pluggy._hooks.HookCaller.__call__ pluggy._hooks._HookCaller.__call__"
)
_MOST_TWINS = 40


class _Settings:
    """The names of this run: written next to this file, read once."""

    def __init__(self, folder: str, name: str) -> None:
        self.folder = folder
        self.name = name
        with open(os.path.join(folder, name + ".json"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            values = json.load(file)
        self.rounds = values["rounds"]  # the modules of known tests: [name, [[style, function], ...]]
        self.wanted = frozenset(values["wanted"])  # tests whose names known failures get too
        self.chosen = values["chosen"]  # the files and tests to run; all if there are none

    def hide(self) -> None:
        """Take the traces of this file from the environment, so that programs the tests start do not load it."""
        places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        rest = [place for place in places if place != self.folder]
        if any(rest):
            os.environ["PYTHONPATH"] = os.pathsep.join(rest)
        else:
            os.environ.pop("PYTHONPATH", None)
        sys.path[:] = [place for place in sys.path if place != self.folder]
        for arguments in (sys.argv, getattr(sys, "orig_argv", [])):
            for at in range(len(arguments) - 1, 0, -1):
                if arguments[at] == self.name and arguments[at - 1] == "-p":
                    del arguments[at - 1 : at + 1]


class _Known(pytest.Item):
    """A test with a known outcome. It uses no fixture, no conftest and no plugin of a distribution."""

    function: Any
    relay: Any
    place: tuple[Any, ...]
    broken_setup: bool
    _fixtureinfo: Any

    @property
    def ihook(self) -> Any:  # noqa: ANN401
        return self.relay

    @property
    def location(self) -> Any:  # noqa: ANN401
        return self.place

    def reportinfo(self) -> Any:  # noqa: ANN401
        return self.place

    def setup(self) -> None:
        if self.broken_setup:
            self.function()

    def runtest(self) -> None:
        self.relay.pytest_pyfunc_call(pyfuncitem=self)

    def repr_failure(self, *_args: Any, **_options: Any) -> str:  # noqa: ANN401
        return ""

    def _repr_failure_py(self, *_args: Any, **_options: Any) -> Any:  # noqa: ANN401
        return ""


class _NoArguments:
    argnames = ()


class _Relay:
    """The hooks of pytest itself, and of objects that were registered without being a plugin of anybody."""

    def __init__(self, manager: Any) -> None:  # noqa: ANN401
        conftests = getattr(manager, "_conftest_plugins", ())
        installed = [plugin for plugin, _distribution in manager.list_plugin_distinfo()]
        self._manager = manager
        self._left_out = [*conftests, *installed]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        caller = self._manager.subset_hook_caller(name, remove_plugins=self._left_out)
        setattr(self, name, caller)
        return caller


def _known_item(session: Any, relay: _Relay, names: tuple[Any, ...], function: Any) -> Any:  # noqa: ANN401
    """Return a test with a name, an id and a place."""
    name, nodeid, place = names
    make = getattr(_Known, "from_parent", None)
    item: Any
    item = make(session, name=name, nodeid=nodeid) if make else _Known(name, parent=session, nodeid=nodeid)
    item.function = item.obj = function
    item.relay = relay
    item.place = place
    item.broken_setup = False
    item.funcargs = {}
    item._fixtureinfo = _NoArguments  # noqa: SLF001
    return item


def _outcome(item: Any) -> str:  # noqa: ANN401
    """Run one item as the runner runs any other, and return the outcome that it gives."""
    reports = _pytest.runner.runtestprotocol(item, log=False, nextitem=None)
    for report in reports:
        if report.outcome != "passed" or not report.passed or report.failed or report.skipped:
            word = str(report.outcome) if report.outcome != "passed" else "unclear"
            return "error" if report.when == "setup" and word == "failed" else word
    return "passed" if [report.when for report in reports] == ["setup", "call", "teardown"] else "unfinished"


class Plugin:
    """The hooks. In a worker of xdist, what is seen is handed to the controller at the end."""

    def __init__(self, settings: _Settings) -> None:
        self._settings = settings
        self._pipe: Pipe | None = None
        self._collected: list[list[Any]] = []
        if "PYTEST_XDIST_WORKER" not in os.environ:
            self._pipe = Pipe(os.path.join(settings.folder, settings.name + ".pipe"))  # noqa: PTH118
        self._originals = Originals(_MODULES.split(), _OFTEN.split())
        self._tell("start", pid=os.getpid(), version=pytest.__version__)

    def _tell(self, event: str, **fields: Any) -> None:  # noqa: ANN401
        if self._pipe is not None:
            self._pipe.send(event, **fields)
        elif event in ("known", "twin", "changed", "broken"):
            self._collected.append([event, fields])

    # Known tests ---------------------------------------------------------------------------------------------

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> Iterator[None]:  # noqa: ANN401
        self._round(session, 0)
        yield
        self._round(session, 1)

    def _round(self, session: Any, number: int) -> None:  # noqa: ANN401
        options = session.config.option
        if getattr(options, "collectonly", False) or getattr(options, "setuponly", False):
            return
        if session.shouldstop or session.shouldfail:
            return
        try:
            self._run_known(session, number)
        except Exception as fault:  # noqa: BLE001 - a run must not end because it is observed
            self._tell("broken", round=number, error=repr(fault)[:500])
        self._tell_changed(self._originals.changed())

    def _run_known(self, session: Any, number: int) -> None:  # noqa: ANN401
        module_name, styles = self._settings.rounds[number]
        session.config.pluginmanager.rewrite_hook.mark_rewrite(module_name)
        sys.path.insert(0, self._settings.folder)
        try:
            module = importlib.import_module(module_name)
        finally:
            sys.path.remove(self._settings.folder)
        sys.modules.pop(module_name, None)
        relay = _Relay(session.config.pluginmanager)
        for style, name in styles:
            function = getattr(module, name)
            names = (name, module_name + ".py::" + name, (module_name + ".py", 0, name))
            item = _known_item(session, relay, names, function)
            item.broken_setup = style == "setup"
            got = _outcome(item)
            self._tell("known", round=number, style=style, got=got, raised=raises(function))
        for real in self._twins(getattr(session, "items", [])):
            names = (real.name, real.nodeid, real.location)
            item = _known_item(session, relay, names, getattr(module, styles[0][1]))
            self._tell("twin", round=number, id=real.nodeid, got=_outcome(item))

    def _twins(self, items: Any) -> list[Any]:  # noqa: ANN401
        """Return the real tests whose names known failures get: the wanted ones, and some at equal distances."""
        step = max(1, len(items) // (_MOST_TWINS // 2))
        chosen = [item for item in items if item.nodeid in self._settings.wanted][: _MOST_TWINS // 2]
        return chosen + [item for item in items[::step][: _MOST_TWINS // 2] if item not in chosen]

    def _tell_changed(self, names: list[str]) -> None:
        if names:
            self._tell("changed", names=names[:50])

    # Outcomes ------------------------------------------------------------------------------------------------

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Iterator[None]:  # noqa: ANN401
        outcome: Any = yield
        if isinstance(item, _Known):
            return
        raised = call.excinfo is not None
        if outcome.excinfo is None:
            report = outcome.get_result()
            if report.outcome != "passed" or report.when == "call" or raised:
                self._tell("made", id=report.nodeid, when=report.when, outcome=report.outcome, raised=raised)
        self._tell_changed(self._originals.changed_often())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:  # noqa: ANN401
        if report.outcome == "passed" and report.when in ("setup", "teardown"):
            return
        place = getattr(report, "location", None) or ("",)
        self._tell(
            "told",
            id=report.nodeid,
            when=report.when,
            outcome=report.outcome,
            xfail=hasattr(report, "wasxfail"),
            file=str(place[0]),
        )

    def pytest_collectreport(self, report: Any) -> None:  # noqa: ANN401
        if report.outcome == "failed":
            self._tell("uncollected", id=report.nodeid)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: Any, exitstatus: Any) -> Iterator[None]:  # noqa: ANN401
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[self._settings.name] = self._collected
        yield
        self._tell_changed(self._originals.changed())
        self._tell("end", status=int(getattr(session, "exitstatus", exitstatus)))

    # xdist ---------------------------------------------------------------------------------------------------

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:  # noqa: ANN401, ARG002
        """Let a worker find this plugin: it gets the arguments of the controller."""
        manage: Any = sys.modules.get("xdist.workermanage")
        paths = getattr(manage, "_sys_path", sys.path)
        if self._settings.folder not in paths:
            paths.append(self._settings.folder)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:  # noqa: ANN401, ARG002
        for event, fields in getattr(node, "workeroutput", {}).get(self._settings.name, ()):
            self._tell(event, worker=node.gateway.id, **fields)


class Choice:
    """Runs some tests of a suite, which find what they find in the whole suite.

    All folders and files are visited in their order: settings, hooks, and the folders that pytest adds to the path for
    other files are those of the whole suite. A file without a chosen test is not imported.
    """

    def __init__(self, chosen: list[str]) -> None:
        self._names: dict[str, list[str]] = {}  # by file; an empty name chooses the whole file
        for test in chosen:
            file, _, name = test.partition("::")
            self._names.setdefault(_real(os.path.join(_START, file)), []).append(name)  # noqa: PTH118
        self._visited: set[str] = set()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_collect_file(self, parent: Any) -> Iterator[None]:  # noqa: ANN401
        outcome: Any = yield
        for collected in outcome.get_result():
            for collector in collected if isinstance(collected, (list, tuple)) else [collected]:
                if collector is None or isinstance(collector, pytest.Package):
                    continue
                path = _path_of(collector)
                if path in self._names:
                    self._visited.add(path)
                elif _can_pass_by(parent.config):
                    collector.collect = functools.partial(_pass_by, collector, path)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:  # noqa: ANN401
        left = {(path, name) for path, names in self._names.items() for name in names}
        files: set[str] = set()
        wanted: list[Any] = []
        for item in items:
            path = _path_of(item)
            files.add(path)
            inside = item.nodeid.partition("::")[2]
            matched = [name for name in self._names.get(path, ()) if _is_named(inside, name)]
            left.difference_update((path, name) for name in matched)
            wanted += [item] if matched else []
        # A file that could not be loaded has no tests, and its error is reported.
        unknown = [name or path for path, name in left if path not in self._visited or (name and path in files)]
        if unknown and "PYTEST_XDIST_WORKER" not in os.environ:
            raise pytest.UsageError("not found: " + ", ".join(sorted(unknown)[:5]))
        chosen = set(map(id, wanted))
        others = [item for item in items if unknown or id(item) not in chosen]
        if others:
            config.hook.pytest_deselected(items=others)
            items[:] = [] if unknown else wanted


def _real(path: str) -> str:
    return os.path.realpath(path)


def _path_of(node: Any) -> str:  # noqa: ANN401
    return _real(str(getattr(node, "path", None) or node.fspath))


def _is_named(inside: str, name: str) -> bool:
    return not name or inside == name or inside.startswith((name + "::", name + "["))


def _can_pass_by(config: Any) -> bool:  # noqa: ANN401
    """Return True if it is known here what the import of a file does to the path."""
    try:
        if config.getini("consider_namespace_packages"):
            return False
    except (KeyError, ValueError):
        pass
    return config.getoption("importmode", "prepend") in ("prepend", "append", "importlib")


def _pass_by(collector: Any, path: str) -> list[Any]:  # noqa: ANN401
    """Add the folder of a file to the path, as an import of it would, and return no test."""
    mode = collector.config.getoption("importmode", "prepend")
    if isinstance(collector, pytest.Module) or type(collector).__name__ == "DoctestModule":
        folder = os.path.dirname(path)  # noqa: PTH120
        while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.basename(folder).isidentifier():  # noqa: PTH113, PTH118, PTH119
            folder = os.path.dirname(folder)  # noqa: PTH120
        if mode == "prepend" and sys.path[:1] != [folder]:
            sys.path.insert(0, folder)
        elif mode == "append" and folder not in sys.path:
            sys.path.append(folder)
    return []


def install(names: dict[str, Any], folder: str, name: str) -> None:
    """Create the plugin, and make its hooks those of the module that has these names."""
    settings = _Settings(folder, name)
    parts: list[Any] = [Plugin(settings)]
    settings.hide()
    if settings.chosen:
        parts.append(Choice(settings.chosen))
    for part in parts:
        names.update({key: getattr(part, key) for key in dir(part) if key.startswith("pytest_")})
