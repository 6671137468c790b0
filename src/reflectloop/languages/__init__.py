"""The language that people read. The engine works in English; what is printed or written for people is translated.

A language is a folder of TOML files, `languages/<name>/*.toml`, or one in the user's settings folder. Each entry maps
an English message, with its values as `{name}`, to the message in that language. Files and answers for programs keep
their keys, codes and messages in English. See docs/language.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # English needs no catalogue
    from reflectloop.languages.catalogue import Catalogue

ENGLISH = "en"
AUTO = "auto"
_BUILT_IN = Path(__file__).parent
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")


class _Choice:
    """The language of this process; the settings are asked once, when the first line is to be shown."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.catalogue: Catalogue | None = None
        self.ask: Callable[[], str] | None = None


_choice = _Choice()


def folders() -> dict[str, Path]:
    """Return the folders of the languages that exist besides English, by name; a user's folder comes first."""
    value = os.environ.get("XDG_CONFIG_HOME", "")
    home = Path(value) if Path(value).is_absolute() else Path(os.path.expanduser("~")) / ".config"  # noqa: PTH111
    present: dict[str, Path] = {}
    for parent in (_BUILT_IN, home / "reflectloop" / "languages"):
        if parent.is_dir():
            present |= {folder.name: folder for folder in sorted(parent.iterdir()) if any(folder.glob("*.toml"))}
    return present


def names() -> list[str]:
    return [ENGLISH, *folders()]


def from_environment() -> str:
    """Return the language of the user's locale if there is one of that name, else English."""
    value = next((os.environ[name] for name in _VARIABLES if os.environ.get(name)), "")
    wanted = value.partition(".")[0].replace("_", "-").lower()
    if wanted.partition("-")[0] in ("", "c", "posix", ENGLISH):
        return ENGLISH
    known = folders()
    return next((name for name in (wanted, wanted.partition("-")[0]) if name in known), ENGLISH)


def use(name: str) -> None:
    """Speak this language from now on; `auto` is the language of the user's locale."""
    _choice.ask = None
    _choice.name = from_environment() if name == AUTO else name
    known = {} if _choice.name == ENGLISH else folders()
    _choice.catalogue = _read(known[_choice.name]) if _choice.name in known else None


def _read(folder: Path) -> Catalogue:
    from reflectloop.languages.catalogue import read  # noqa: PLC0415 - English needs no catalogue

    return read(folder)


def use_answer_of(ask: Callable[[], str]) -> None:
    """Speak the language that `ask` returns; it is called when the first line is to be shown."""
    _choice.ask = ask


def use_setting(name: str) -> None:
    """Speak the language of the settings unless one was chosen already."""
    if not is_chosen():
        use(name)


def is_chosen() -> bool:
    """Return whether a language was chosen, or will be by the settings."""
    return _choice.name is not None or _choice.ask is not None


def chosen() -> str:
    _settle()
    return _choice.name or ENGLISH


def _settle() -> Catalogue | None:
    if _choice.ask is not None:
        ask, _choice.ask = _choice.ask, None
        use(ask())
    return _choice.catalogue


def line(text: str) -> str:
    """Return a line of ours in the chosen language; unknown lines stay as they are."""
    catalogue = _settle()
    return catalogue.line(text) if catalogue else text


def document(text: str) -> str:
    """Return a text of several lines in the chosen language; code between fences stays as it is."""
    catalogue = _settle()
    return catalogue.document(text) if catalogue else text


def texts(value: Any) -> Any:  # noqa: ANN401 - JSON-compatible values
    """Return the same value with the texts in it in the chosen language; keys and single words stay."""
    if _settle() is None:
        return value
    if isinstance(value, str):
        return document(value) if " " in value else value
    if isinstance(value, Mapping):
        return {key: texts(item) for key, item in value.items()}
    return [texts(item) for item in value] if isinstance(value, list | tuple) else value
