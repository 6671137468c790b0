"""The two files with settings, the user's and the project's: where they are, their bytes and their tables.

`config` gives them meaning, which loads much more than this module.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from reflectloop.errors import InvalidInput
from reflectloop.system import beneath

NAME = "reflectloop.toml"
ACCEPTED_RULES = Path(".reflectloop") / "rules"  # one file per accepted rule proposal


def user_file() -> Path:
    """Return the path of the user's settings. A relative XDG_CONFIG_HOME is ignored: it could be in a project."""
    value = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(value) if Path(value).is_absolute() else Path.home() / ".config"
    return base / "reflectloop" / "config.toml"


def read(path: Path, *, within: Path | None = None) -> bytes | None:
    """Return the content of a settings file, or None if there is none. Devices, pipes and huge files are refused.

    With `within` it is a project's file. Without, it is the user's, which no other user may be able to write.
    """
    try:
        if within is None:
            _refuse_foreign(path)
        return beneath.read_path(path, within=within)
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise InvalidInput(
            f"cannot read {path}: {fault.strerror}", next_step=f"check {path}, and remove or replace it"
        ) from fault


def _refuse_foreign(path: Path) -> None:
    status = path.stat()
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o002:
        raise InvalidInput(
            f"{path} belongs to another user, or everybody may write to it",
            next_step=f"check it, then: chown $(id -u) {path} && chmod go-w {path}",
        )


def parse(path: Path, raw: bytes) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - hooks read no table

    try:
        values = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise InvalidInput(f"{path} is not TOML: {fault}", next_step=f"correct {path}") from fault
    return values


def may_set(project_root: Path, section: str) -> bool:
    """Return False if no settings file can have this section, which needs no parser: a key may hide by escapes only."""
    contents = (read(project_root / NAME, within=project_root), read(user_file()))
    return any(raw is not None and (section.encode() in raw or b"\\" in raw) for raw in contents)


def language(project_root: Path) -> str:
    """Return the language of the settings, also of files with faults, since these are reported in that language."""
    from reflectloop import languages  # noqa: PLC0415 - hooks speak English

    for path, within in ((project_root / NAME, project_root), (user_file(), None)):
        try:
            raw = read(path, within=within)
            output = parse(path, raw).get("output") if raw else None
        except InvalidInput:
            continue
        name = output.get("language") if isinstance(output, dict) else None
        if isinstance(name, str) and name in (languages.AUTO, *languages.names()):
            return name
    return languages.AUTO


def policy_rules(root: Path, named: Path | None) -> list[Path]:
    """Return a project's files of policy rules: the one that its settings name, then those of accepted proposals."""
    return ([root / named] if named else []) + sorted((root / ACCEPTED_RULES).glob("*.yaml"))
