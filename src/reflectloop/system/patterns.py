"""Regular expressions that are compiled when they are first used, since most commands use few of them."""

from __future__ import annotations

import re
from typing import Any, cast, overload


class _LazyPattern:
    """Stands for a compiled pattern. Its first use compiles it, and later uses find its methods at once."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        self.pattern = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of a compiled pattern
        if name.startswith("__"):  # asked for when it is copied
            raise AttributeError(name)
        value = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, value)
        return value


@overload
def lazy(source: str, flags: int = 0) -> re.Pattern[str]: ...
@overload
def lazy(source: bytes, flags: int = 0) -> re.Pattern[bytes]: ...
def lazy(source: str | bytes, flags: int = 0) -> re.Pattern[str] | re.Pattern[bytes]:
    """Return a pattern that is compiled on first use. For `isinstance` and for functions of `re` it is no pattern."""
    return cast("re.Pattern[str]", _LazyPattern(source, flags))
