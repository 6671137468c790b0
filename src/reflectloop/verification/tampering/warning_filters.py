"""Say which filters of warnings have an effect: of those that match a warning, the last one counts."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import NamedTuple


class WarningFilter(NamedTuple):
    """One filter as Python and pytest write it: `action:message:category:module:line`."""

    text: str
    action: str
    message: str
    category: str
    module: str

    def covers(self, other: WarningFilter) -> bool:
        """Return True if this filter matches every warning that the other one matches."""
        return (
            self.message in {"", other.message}
            and self.module in {"", other.module}
            and _is_kind_of(other.category, self.category)
        )


def _read(text: str) -> WarningFilter:
    parts = [part.strip() for part in text.replace("\\", "").split(":")]
    action, message, category, module = (*parts, "", "", "", "")[:4]
    return WarningFilter(text, action, message, category or "Warning", module)


def _is_kind_of(category: str, other: str) -> bool:
    if other in {category, "Warning"}:
        return True
    inner, outer = (getattr(builtins, name, None) for name in (category, other))
    return isinstance(inner, type) and isinstance(outer, type) and issubclass(inner, outer)


def effective(texts: Sequence[str]) -> list[str]:
    """Return the filters that no later one overrides, in their order."""
    filters = [_read(text) for text in texts]
    return [each.text for at, each in enumerate(filters) if not any(later.covers(each) for later in filters[at + 1 :])]
