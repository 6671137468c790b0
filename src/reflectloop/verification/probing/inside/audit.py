"""Notice sources that open files of tests, read git's objects or start git, while tests are recorded.

The project's Python runs this file: standard library of 3.8 only. A file that a test hands over, by its path or by a
folder above it, may be opened by whoever gets it.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Callable  # noqa: UP035 - as in 3.8

_FILES = ("open", "os.listdir", "os.scandir")
_STARTS = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system")
_TEST_NAME = re.compile(r"[/\\](?:test_[^/\\]*|[^/\\]*_test|tests|conftest)\.py$")
_COMPILED = re.compile(r"([/\\])__pycache__[/\\]([^/\\.]+)\.[^/\\]*pyc$")
_MOST = 20  # reports of one process
_DEEPEST = 60


class ReadWatch:
    """Watches what the changed sources of one project open."""

    def __init__(
        self, root: str, files: Any, current_test: Callable[[], str], report: Callable[[dict[str, Any]], None]
    ) -> None:
        self.root = os.path.join(os.path.realpath(root), "")
        self.sources = {os.path.realpath(os.path.join(root, file)): file for file in files}
        self.current_test, self.report = current_test, report
        self.seen: set[tuple[str, str]] = set()
        self.busy = False

    def start(self) -> None:
        """Begin to watch; an audit hook stays for the life of the process."""
        sys.addaudithook(self._look)

    def _look(self, event: str, args: tuple[Any, ...]) -> None:
        if self.busy or (event not in _FILES and event not in _STARTS) or len(self.seen) >= _MOST:
            return
        self.busy = True
        try:
            what = self._read(args) if event in _FILES else _started(event, args)
            if what:
                self._tell(what, sys._getframe(1))
        except Exception:  # noqa: BLE001 - a test must not notice
            pass
        finally:
            self.busy = False

    def _read(self, args: tuple[Any, ...]) -> str:
        """Return the path, relative to the project, of what should not be read; or nothing."""
        path = args[0] if args else None
        if not isinstance(path, (str, bytes, os.PathLike)):
            return ""
        full = os.path.realpath(os.fsdecode(path))
        if not full.startswith(self.root):
            return ""
        inner = full[len(self.root) :]
        if inner.split(os.sep)[0] == ".git":
            return ".git"
        source = _COMPILED.sub(r"\1\2.py", full)
        return inner if source == self._test_file() or _TEST_NAME.search(source) else ""

    def _test_file(self) -> str:
        """Return the file of the test that runs."""
        test = self.current_test()
        path = os.path.realpath(os.path.join(self.root, test.split("::")[0]))
        if "::" in test and os.path.isfile(path):
            return path
        parts = test.split(".")
        for count in range(len(parts), 0, -1):
            module = sys.modules.get(".".join(parts[:count]))
            file = getattr(module, "__file__", None)
            if isinstance(file, str):
                return os.path.realpath(file)
        return ""

    def _tell(self, what: str, frame: Any) -> None:
        """Report a changed source if it is the nearest one of the project, and the test did not hand the file over."""
        depth = 0
        while frame is not None and depth < _DEEPEST:
            depth += 1
            path = os.path.realpath(frame.f_code.co_filename)
            if path in self.sources:
                if not self._handed_over(frame, what) and (self.sources[path], what) not in self.seen:
                    self.seen.add((self.sources[path], what))
                    self.report(
                        {"audit": what, "file": self.sources[path], "at": frame.f_lineno, "test": self.current_test()}
                    )
                return
            if path.startswith(self.root) and "site-packages" not in path:
                return
            if frame.f_code.co_name.startswith("pytest_") or "/_pytest/" in path:
                return  # a hook of the runner did it, which the source only called, as a plugin manager does
            frame = frame.f_back

    def _handed_over(self, frame: Any, what: str) -> bool:
        """Return True if an argument of the calls up to the test is the file, or a folder above it."""
        full = os.path.join(self.root, what)
        while frame is not None and os.path.realpath(frame.f_code.co_filename) != self._test_file():
            code = frame.f_code
            count = code.co_argcount + code.co_kwonlyargcount
            values = [frame.f_locals.get(name) for name in code.co_varnames[:count]]
            for value in values:
                if isinstance(value, (str, os.PathLike)) and os.fspath(value):
                    given = os.path.realpath(os.fspath(value))
                    if full == given or full.startswith(os.path.join(given, "")):
                        return True
            frame = frame.f_back
        return False


def _started(event: str, args: tuple[Any, ...]) -> str:
    """Return "git" if that is the program that is started."""
    words: list[Any] = []
    if event == "os.system":
        words += os.fsdecode(args[0]).split()[:1]
    else:
        program, given = (tuple(args) + (None, None))[:2]
        words += [program, *(given if isinstance(given, (list, tuple)) else [given])[:1]]
    names = [os.path.basename(os.fsdecode(word)) for word in words if isinstance(word, (str, bytes, os.PathLike))]
    return "git" if "git" in names else ""
