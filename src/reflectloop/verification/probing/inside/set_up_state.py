"""See what a test has set up around a call: patched names, files, and the state of the project's modules.

The project's Python runs this file: standard library of 3.8 only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from typing import Any

if __package__:
    from . import plain_data
else:
    import plain_data  # type: ignore[import-not-found,no-redef]

_ROOM = 4 << 10  # characters of one variable
_MOST_MODULES = 150
_OTHERS = re.compile(r"/(tests?|site-packages)/|/(test_[^/]*|[^/]*_tests?|conftest|tests?)\.py$")


def states(root: str) -> dict[str, str]:
    """Return a hash of the plain variables of each module below a folder, by its name."""
    out: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        is_own = isinstance(file, str) and file.startswith(root + os.sep) and not _OTHERS.search(file[len(root) :])
        if is_own and len(out) < _MOST_MODULES:
            out[name] = _state(vars(module))
    return out


def _state(variables: dict[str, Any]) -> str:
    parts = []
    for name, value in sorted(variables.items()):
        if not name.startswith("__") and not callable(value) and not isinstance(value, type(sys)):
            try:
                parts.append([name, plain_data.text_of(plain_data.describe(value, plain_data.ValueBudget(_ROOM)))])
            except Exception as fault:
                parts.append([name, type(fault).__name__])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:10]


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

    def __init__(self, root: str) -> None:
        self.root = root
        self.open_calls: dict[int, dict[str, Any]] = {}
        sys.addaudithook(self._audit)

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and self.open_calls and isinstance(args[0], (str, bytes)):
            path = os.fsdecode(args[0])
            if not path.endswith((".py", ".pyc", ".so")):
                for record in list(self.open_calls.values()):
                    record["files"] = True
