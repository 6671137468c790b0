"""A plan converted to the native form, with the source place of each value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reflectloop.errors import Fault
from reflectloop.plan.strict_yaml import Path, YamlDocument
from reflectloop.terms import dotted


@dataclass
class PlanSource:
    """The native value, and the place in the source of each of its parts."""

    form: str
    document: YamlDocument
    value: dict[str, Any] = field(default_factory=dict)
    names: dict[Path, Path] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)  # stored and displayed, never executed

    def fault(self, path: Path, message: str, code: str = "INVALID_PLAN") -> Fault:
        """Return a fault at a native place, with the path and line in the source."""
        source = self._source(path)
        displayed = source[1:] if self.form == "native" and len(source) > 1 else source
        return Fault(dotted(displayed), self.document.line(source), message, code)

    def _source(self, path: Path) -> Path:
        for length in range(len(path), -1, -1):
            if path[:length] in self.names:
                return (*self.names[path[:length]], *path[length:])
        return path
