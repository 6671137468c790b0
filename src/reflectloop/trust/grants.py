"""Splits a project's settings into what may always count and what grants something, by one row for each setting.

Settings are plain tables here, as TOML gives them. `own` is what is in force without the project: the user's values
over the defaults. docs/trust.md has the same rows, with the reasons.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.system import files
from reflectloop.terms import Isolation

Table = dict[str, Any]


class Grant(NamedTuple):
    """One thing that the project's settings would allow."""

    key: str  # dotted, as a person finds it in the file
    words: str  # what it allows
    value: Any  # what was agreed to; another value is another grant
    files: tuple[str, ...] = ()  # words of it that may name files of the project


class SettingsSplit(NamedTuple):
    always: Table  # what counts without trust
    grants: tuple[Grant, ...]
    dropped: tuple[str, ...]  # what falls away with the grants: roles bound to an agent that does not count


class _Row(NamedTuple):
    """How one setting is judged. `loosens` compares the project's value with the one in force without it."""

    loosens: Callable[[Any, Any], bool]
    words: str  # with {value} and, for lists, {more}
    names_file: bool = False


def _never(_value: object, _own: object) -> bool:
    return False


def _differs(value: object, own: object) -> bool:
    return value != own


def _has_more(value: list[Any], own: list[Any]) -> bool:
    return bool(_more(value, own))


def _more(value: list[Any], own: list[Any]) -> list[Any]:
    return [part for part in value if part not in own]


def _is_above(value: float, own: float | None) -> bool:
    return own is not None and value > own


def _is_above_machine(value: int, own: int | None) -> bool:
    """For memory: without a limit of the user's, three quarters of the machine's count."""
    machine_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4 >> 20
    return value > (own if own is not None else machine_mb)


def _is_weaker(value: str, own: str) -> bool:
    return Isolation(value).rank < Isolation(own).rank


def _is_outside(value: str, own: str | None) -> bool:
    """A file that lies beside the project, or anywhere."""
    return value != own and (Path(value).is_absolute() or value.startswith("~") or ".." in value.split("/"))


_FREE = _Row(_never, "")
_UNKNOWN = _Row(_differs, "{key} is {value}")  # a setting without a row waits for the user
_NUMBER = "{key} may be {value}, above your limit"
_ROWS: Mapping[str, Mapping[str, _Row]] = {
    "workspace": {
        "root": _Row(_differs, "workspaces are made under {value}"),
        "keep_failed": _FREE,
        "warm": _FREE,
        "exclude": _FREE,
        "carry": _Row(_has_more, "commands may read folders that git ignores: {more}"),
        "carry_copy": _Row(_has_more, "folders that git ignores are copied for commands: {more}"),
        "largest_change_mb": _Row(_is_above, _NUMBER),
        "largest_total_mb": _Row(_is_above, _NUMBER),
        "record_s": _Row(_is_above, _NUMBER),
    },
    "run": {
        "env_allow": _Row(_has_more, "commands see these variables of yours: {more}"),
        "idle_s": _FREE,
        "grace_s": _FREE,
        "log_cap_mb": _Row(_is_above, _NUMBER),
    },
    "box": {
        "isolation": _Row(_is_weaker, "commands may run at the isolation level {value}, below the least you ask for"),
        "strongest": _Row(_is_weaker, "commands run with no stronger isolation than {value}"),
        "read": _Row(_has_more, "commands may read {more}"),
        "processes": _Row(_is_above, _NUMBER),
        "memory_mb": _Row(_is_above_machine, _NUMBER),
        "file_mb": _Row(_is_above, _NUMBER),
        "disk_mb": _Row(_is_above, _NUMBER),
    },
    "publish": {
        "claude": _FREE,
        "claude_home": _Row(_differs, "~/.claude/latch.lock in your HOME is written and removed"),
        "research": _FREE,
        "triflow": _FREE,
    },
    "cost": {
        "prices": _Row(_differs, "what agents cost is counted by {value}", names_file=True),
        "tokens": _Row(_is_above, _NUMBER),
        "usd": _Row(_is_above, _NUMBER),
        "wall_s": _Row(_is_above, _NUMBER),
    },
    "secrets": {
        "rules": _Row(_is_outside, "rules for secrets are read from {value}", names_file=True),
        "baseline": _Row(_differs, "secrets listed in {value} are let stand", names_file=True),
    },
    "policy": {
        "allow": _Row(_has_more, "these rules of the command policy are not applied: {more}"),
        "rules": _Row(_is_outside, "rules for commands are read from {value}", names_file=True),
    },
    "verify": {
        "checks": _FREE,  # but for their services, which are judged below
        "setup": _Row(_differs, "these commands run with the network, in the box, before checks: {value}"),
        "timeout_s": _FREE,
        "protect": _FREE,
    },
    "reflect": {
        "rules": _Row(_is_outside, "rules of diagnosis are read from {value}", names_file=True),
    },
}
_ADDED_TO_YOURS = frozenset({"run.env_allow", "box.read", "policy.allow"})
_AGENT_GRANTS: Mapping[str, str] = {
    "run": "agent {name} starts a program, in the box and with the network: {value}",
    "file": "agent {name} plays {value}",
    "base_url": "agent {name} sends prompts and its key to {value}",
    "key_env": "agent {name} is given the variable {value} as its key",
    "env": "agent {name} sees these variables of yours: {value}",
}
_AGENT_FREE = frozenset({"kind", "model", "protocol", "window", "turns", "timeout_s", "reply_tokens"})
_AGENT_BOUNDS = ("turns", "timeout_s", "reply_tokens")


def rows() -> Iterator[tuple[str, bool]]:
    """Return each setting that has a row, and whether the project may always set it."""
    for section, settings in _ROWS.items():
        for name, row in settings.items():
            yield f"{section}.{name}", row is _FREE


def split(project: Table, own: Table, named: frozenset[str]) -> SettingsSplit:
    """Split the project's settings. `named` are the agents that the user's own configuration has."""
    always: Table = {}
    grants: list[Grant] = []
    for section, settings in _ROWS.items():
        for name, value in project.get(section, {}).items():
            row = settings.get(name, _UNKNOWN)
            if row.loosens(value, own[section][name]):
                grants.append(_grant(f"{section}.{name}", row, value, own[section][name]))
            else:
                always.setdefault(section, {})[name] = value
    if "checks" in always.get("verify", {}):
        always["verify"]["checks"] = [_without_service(check, grants) for check in always["verify"]["checks"]]
    barred = _split_agents(project, own, named, always, grants)
    dropped = []
    for role, agent in project.get("roles", {}).items():
        if agent in barred and agent not in named:
            dropped.append(f"roles.{role}")
        else:
            always.setdefault("roles", {})[role] = agent
    return SettingsSplit(always, tuple(grants), tuple(dropped))


def merge(own: Table, project: Table) -> Table:
    """Put the project's settings over the user's; lists that give leave are added to the user's.

    Neither has been looked at yet: what is of a wrong shape is left for whoever checks the result.
    """
    merged = {section: dict(values) for section, values in own.items()}
    for section, values in project.items():
        target = merged.get(section, {})
        merged[section] = {**target, **_merged(section, target, values)} if isinstance(values, dict) else values
    return merged


def _merged(section: str, own: Table, project: Table) -> Table:
    merged: Table = {}
    for name, value in project.items():
        yours = own.get(name)
        if section == "agents" and isinstance(value, dict):
            merged[name] = {**(yours or {}), **value}
        elif f"{section}.{name}" in _ADDED_TO_YOURS and isinstance(value, list) and _has_more(value, yours or []):
            merged[name] = [*(yours or []), *_more(value, yours or [])]
        else:
            merged[name] = value
    return merged


def normal(project: Table, checked: Table) -> Table:
    """Return the project's settings with each value as it is understood: `checked` are all settings, after checking."""
    found: Table = {}
    for section, values in project.items():
        for name, value in values.items():
            understood = checked[section][name]
            if section == "agents":
                understood = {key: understood[key] for key in value}
            elif f"{section}.{name}" in _ADDED_TO_YOURS:
                understood = value
            found.setdefault(section, {})[name] = understood
    return found


def _grant(key: str, row: _Row, value: Any, own: Any) -> Grant:  # noqa: ANN401 - as TOML gives it
    more = _shown(_more(value, own)) if row.loosens is _has_more else ""
    words = row.words.format(key=key, value=_shown(value), more=more)
    named = (value,) if row.names_file else tuple(_words(value)) if key == "verify.setup" else ()
    return Grant(key, words, value, named)


def _without_service(check: Table, grants: list[Grant]) -> Table:
    """A server beside a check is a program of the project's that the check's verdict rests on."""
    service = check.get("service")
    if service is None:
        return check
    run = service["run"]
    key = files.display(f"verify.checks.{check['name']}.service")
    grants.append(Grant(key, f"a server runs beside the check, in its box: {_shown(run)}", service, tuple(_words(run))))
    return {name: value for name, value in check.items() if name != "service"}


def _split_agents(
    project: Table, own: Table, named: frozenset[str], always: Table, grants: list[Grant]
) -> frozenset[str]:
    """Return the agents of the project's that do not count without trust: half a table would be another agent."""
    barred = set()
    for name, agent in project.get("agents", {}).items():
        found = list(_agent_grants(name, agent, own["agents"].get(name) if name in named else None))
        grants += found
        if found:
            barred.add(name)
        else:
            always.setdefault("agents", {})[name] = agent
    return frozenset(barred)


def _agent_grants(name: str, agent: Table, own: Table | None) -> Iterator[Grant]:
    named = (*_words(agent.get("run", ())), *([agent["file"]] if "file" in agent else ()))
    for key, value in agent.items():
        if own is not None and value == own.get(key):
            continue
        if key in _AGENT_GRANTS and value:
            words = _AGENT_GRANTS[key].format(name=name, value=_shown(value))
        elif key not in _AGENT_FREE and not _tightens(key, value, own or {}) and value:
            words = f"agent {name} gets {key}: {_shown(value)}"
        elif own is not None and not _tightens(key, value, own):
            words = f"your agent {name} gets another {key}: {_shown(value)}"
        else:
            continue
        yield Grant(files.display(f"agents.{name}.{key}"), words, agent, named)


def _tightens(key: str, value: Any, own: Table) -> bool:  # noqa: ANN401
    """Of an agent that the user set up: less time, fewer turns, shorter answers, no network."""
    if key in _AGENT_BOUNDS:
        return bool(value <= own[key])
    return key == "network" and value == "none"


def _words(value: Any) -> Iterator[str]:  # noqa: ANN401
    """Return every word of a command, or of a list of commands."""
    for part in value:
        if isinstance(part, str):
            yield part
        else:
            yield from _words(part)


def _shown(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, (list, tuple)):
        if any(isinstance(part, (list, tuple)) for part in value):
            return "; ".join(_shown(part) for part in value)
        return " ".join(str(part) for part in value)
    return str(value)
