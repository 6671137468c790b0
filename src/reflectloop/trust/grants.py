"""Splits a project's settings into those that always apply and those that need trust, by one row per setting.

Settings are plain TOML tables here. `user` are the settings without the project: the user's values over the defaults.
docs/trust.md has the same rows, with the reasons.
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
    """One permission that the project's settings would give."""

    key: str  # dotted name of the setting
    words: str  # description of what it allows
    value: Any  # another value is another grant
    files: tuple[str, ...] = ()  # parts that may name files of the project


class SettingsSplit(NamedTuple):
    always: Table  # settings that apply without trust
    grants: tuple[Grant, ...]
    dropped: tuple[str, ...]  # roles bound to an agent that needs trust


class _Row(NamedTuple):
    """The rule of one setting. `loosens` compares the project's value with the value without the project."""

    loosens: Callable[[Any, Any], bool]
    words: str  # description with {value} and, for lists, {more}
    names_file: bool = False


def _never(_value: object, _own: object) -> bool:
    return False


def _differs(value: object, user: object) -> bool:
    return value != user


def _has_more(value: list[Any], user: list[Any]) -> bool:
    return bool(_more(value, user))


def _more(value: list[Any], user: list[Any]) -> list[Any]:
    return [part for part in value if part not in user]


def _is_above(value: float, user: float | None) -> bool:
    return user is not None and value > user


def _is_above_machine(value: int, user: int | None) -> bool:
    """Compare memory with the user's limit, by default three quarters of the machine's memory."""
    machine_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4 >> 20
    return value > (user if user is not None else machine_mb)


def _is_weaker(value: str, user: str) -> bool:
    return Isolation(value).rank < Isolation(user).rank


def _is_outside(value: str, user: str | None) -> bool:
    """Return True for a file outside the project, unless it is the user's own setting."""
    return value != user and (Path(value).is_absolute() or value.startswith("~") or ".." in value.split("/"))


def _lands_more(value: str, user: str) -> bool:
    return _LANDING.index(value) > _LANDING.index(user)


_LANDING = ("never", "branch", "commit")
_FREE = _Row(_never, "")
_UNKNOWN = _Row(_differs, "{key} is {value}")  # a setting without a row needs trust
_NUMBER = "{key} may be {value}, above your limit"
_SWITCHED_OFF = "changed functions are probed less: what is right only in the tests may go unnoticed"
_ROWS: Mapping[str, Mapping[str, _Row]] = {
    "workspace": {
        "root": _Row(_differs, "workspaces are made under {value}"),
        "keep_failed": _FREE,
        "warm": _FREE,
        "overlay": _FREE,
        "layers_mb": _Row(_is_above, _NUMBER),
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
    "output": {"language": _FREE},
    "cost": {
        "prices": _Row(_differs, "what agents cost is counted by {value}", names_file=True),
        "tokens": _Row(_is_above, _NUMBER),
        "usd": _Row(_is_above, _NUMBER),
        "wall_s": _Row(_is_above, _NUMBER),
    },
    "secrets": {
        "rules": _Row(_is_outside, "rules for secrets are read from {value}", names_file=True),
        "baseline": _Row(_differs, "secrets listed in {value} are accepted", names_file=True),
    },
    "policy": {
        "allow": _Row(_has_more, "these rules of the command policy are not applied: {more}"),
        "rules": _Row(_is_outside, "rules for commands are read from {value}", names_file=True),
    },
    "verify": {
        "checks": _FREE,  # except their services, which are handled below
        "setup": _Row(_differs, "these commands run with the network, in the box, before checks: {value}"),
        "timeout_s": _FREE,
        "protect": _FREE,
        "second_run": _Row(_differs, _SWITCHED_OFF),
        "replay": _Row(_differs, _SWITCHED_OFF),
        "neighbours": _Row(_differs, _SWITCHED_OFF),
        "sabotage": _Row(_differs, _SWITCHED_OFF),
        "canaries": _Row(_differs, "tests are judged by their report alone: a changed runner goes unnoticed"),
    },
    "autoloop": {
        "apply": _Row(_lands_more, "proven work lands without a person: {value}"),
        "branch": _Row(_differs, "proven work lands on the branch {value}"),
        "notify": _Row(_differs, "a program of the project tells you messages: {value}"),
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


def free_settings(section: str) -> tuple[str, ...]:
    """Return the settings of a section that apply without trust, whatever their value."""
    return tuple(name for name, row in _ROWS[section].items() if row is _FREE)


def rows() -> Iterator[tuple[str, bool]]:
    """Yield each setting with a row, and True if the project may always set it."""
    for section, settings in _ROWS.items():
        for name, row in settings.items():
            yield f"{section}.{name}", row is _FREE


def split(project: Table, user: Table, named: frozenset[str]) -> SettingsSplit:
    """Split the project's settings. `named` are the agents in the user's configuration."""
    always: Table = {}
    grants: list[Grant] = []
    for section, settings in _ROWS.items():
        for name, value in project.get(section, {}).items():
            row = settings.get(name, _UNKNOWN)
            if row.loosens(value, user[section][name]):
                grants.append(_grant(f"{section}.{name}", row, value, user[section][name]))
            else:
                always.setdefault(section, {})[name] = value
    if "checks" in always.get("verify", {}):
        always["verify"]["checks"] = [_without_service(check, grants) for check in always["verify"]["checks"]]
    barred = _split_agents(project, user, named, always, grants)
    dropped = []
    for role, agent in project.get("roles", {}).items():
        if agent in barred and agent not in named:
            dropped.append(f"roles.{role}")
        else:
            always.setdefault("roles", {})[role] = agent
    return SettingsSplit(always, tuple(grants), tuple(dropped))


# Settings that a project may always set, but that check less if an entry or the file is gone.
_ONLY_ADDED = frozenset({"verify.protect"})
_ONLY_SET = frozenset({"secrets.rules", "policy.rules"})


def loosened(before: Table, after: Table) -> dict[str, str]:
    """Return each setting by which a project checks or restricts less than before, with a description.

    Both tables are complete: the project's values over the defaults.
    """
    changed: Table = {}
    out: dict[str, str] = {}
    for section, values in after.items():
        for name, value in values.items():
            key, old = f"{section}.{name}", before[section].get(name)
            if value == old:
                continue
            if value is None or (old is not None and (section == "roles" or key in _ONLY_SET)):
                out[key] = _was(key, old, value)
            elif key in _ONLY_ADDED and _more(old, value):
                out[key] = f"{key} no longer has {_display(_more(old, value))}"
            elif key == "verify.checks" and (not old or _more(old, value)):
                gone = ", ".join(check["name"] for check in _more(old, value)) or "the detected ones"
                out[key] = f"{key} names other checks instead of {gone}"
            changed.setdefault(section, {})[name] = value
    settable = {
        section: {name: value for name, value in values.items() if value is not None}
        for section, values in changed.items()
        if section != "roles"
    }
    for grant in split(settable, before, frozenset(before["agents"])).grants:
        section, _, name = grant.key.partition(".")
        old = before[section].get(name)
        scalar = isinstance(old, str | int | float)
        out.setdefault(grant.key, _was(grant.key, old, grant.value) if scalar else grant.words)
    return out


def _was(key: str, old: object, new: object) -> str:
    return f"{key} is {'no longer set' if new is None else _display(new)}, and was {_display(old)}"


def merge(user: Table, project: Table) -> Table:
    """Merge the project's settings over the user's; lists of permissions are appended to the user's.

    Neither is validated yet: invalid values are left for the validation of the result.
    """
    merged = {section: dict(values) for section, values in user.items()}
    for section, values in project.items():
        target = merged.get(section, {})
        merged[section] = {**target, **_merged(section, target, values)} if isinstance(values, dict) else values
    return merged


def _merged(section: str, user: Table, project: Table) -> Table:
    merged: Table = {}
    for name, value in project.items():
        yours = user.get(name)
        if section == "agents" and isinstance(value, dict):
            merged[name] = {**(yours or {}), **value}
        elif f"{section}.{name}" in _ADDED_TO_YOURS and isinstance(value, list) and _has_more(value, yours or []):
            merged[name] = [*(yours or []), *_more(value, yours or [])]
        else:
            merged[name] = value
    return merged


def normal(project: Table, checked: Table) -> Table:
    """Return the project's settings with validated values; `checked` are all settings after validation."""
    settings: Table = {}
    for section, values in project.items():
        for name, value in values.items():
            value_used = checked[section][name]
            if section == "agents":
                value_used = {key: value_used[key] for key in value}
            elif f"{section}.{name}" in _ADDED_TO_YOURS:
                value_used = value
            settings.setdefault(section, {})[name] = value_used
    return settings


def _grant(key: str, row: _Row, value: Any, user: Any) -> Grant:  # noqa: ANN401 - as TOML gives it
    more = _display(_more(value, user)) if row.loosens is _has_more else ""
    description = row.words.format(key=key, value=_display(value), more=more)
    named = (value,) if row.names_file else tuple(_arguments(value)) if key == "verify.setup" else ()
    return Grant(key, description, value, named)


def _without_service(check: Table, grants: list[Grant]) -> Table:
    """Return a check without its service, and add a grant for it: the check's verdict depends on that program."""
    service = check.get("service")
    if service is None:
        return check
    run = service["run"]
    key = files.display(f"verify.checks.{check['name']}.service")
    grants.append(
        Grant(key, f"a server runs beside the check, in its box: {_display(run)}", service, tuple(_arguments(run)))
    )
    return {name: value for name, value in check.items() if name != "service"}


def _split_agents(
    project: Table, user: Table, named: frozenset[str], always: Table, grants: list[Grant]
) -> frozenset[str]:
    """Return the project's agents that need trust, each as a whole: part of a table would be another agent."""
    barred = set()
    for name, agent in project.get("agents", {}).items():
        agent_grants = list(_agent_grants(name, agent, user["agents"].get(name) if name in named else None))
        grants += agent_grants
        if agent_grants:
            barred.add(name)
        else:
            always.setdefault("agents", {})[name] = agent
    return frozenset(barred)


def _agent_grants(name: str, agent: Table, user: Table | None) -> Iterator[Grant]:
    named = (*_arguments(agent.get("run", ())), *([agent["file"]] if "file" in agent else ()))
    for key, value in agent.items():
        if user is not None and value == user.get(key):
            continue
        if key in _AGENT_GRANTS and value:
            description = _AGENT_GRANTS[key].format(name=name, value=_display(value))
        elif key not in _AGENT_FREE and not _tightens(key, value, user or {}) and value:
            description = f"agent {name} gets {key}: {_display(value)}"
        elif user is not None and not _tightens(key, value, user):
            description = f"your agent {name} gets another {key}: {_display(value)}"
        else:
            continue
        yield Grant(files.display(f"agents.{name}.{key}"), description, agent, named)


def _tightens(key: str, value: Any, user: Table) -> bool:  # noqa: ANN401
    """Return True if a setting restricts the user's agent: less time, fewer turns, shorter answers, no network."""
    if key in _AGENT_BOUNDS:
        return bool(value <= user[key])
    return key == "network" and value == "none"


def _arguments(value: Any) -> Iterator[str]:  # noqa: ANN401
    """Yield every argument of a command, or of a list of commands."""
    for part in value:
        if isinstance(part, str):
            yield part
        else:
            yield from _arguments(part)


def _display(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, (list, tuple)):
        if any(isinstance(part, (list, tuple)) for part in value):
            return "; ".join(_display(part) for part in value)
        return " ".join(str(part) for part in value)
    return str(value)
