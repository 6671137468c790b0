"""The rule patches that insight or a person proposes, as YAML in the pipeline protocol's form, and what became of them.

Accepted ones stand in `rules/NAME.md` beside the lessons, and each is an active constraint that agents are told.
"""

from __future__ import annotations

import getpass
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import yaml

from reflectloop import secrets
from reflectloop.errors import Fault, InvalidInput, NothingToDo
from reflectloop.gates.insight import RulePatch
from reflectloop.lessons import lesson_store
from reflectloop.lessons.lesson import Occurrence, Page
from reflectloop.lessons.lesson_scopes import LessonScopes, new_session_id
from reflectloop.lessons.lesson_store import NewLesson
from reflectloop.plan import strict_yaml
from reflectloop.system import clock, files

NAME, DECISIONS, RULES = "rule_patch.yaml", "rule_patch.decisions.json", "rules"
RULES_FILE = "jie.md"  # the protocol's file about boundaries, which all patches of insight so far are about
PREFIX = "RP-"
_MOST = 200  # the latest ones
_LONGEST = 300
_ACTIONS = ("add", "tighten", "loosen", "remove")
_PRIORITIES = ("HIGH", "MEDIUM", "LOW")
_KEYS = ("action", "target", "rule", "reason", "priority")
State = Literal["proposed", "accepted", "rejected"]
Entry = dict[str, str]


class KeptPatch(NamedTuple):
    """A rule patch, and what a person decided about it."""

    id: str
    entry: Entry
    state: State = "proposed"
    by: str = ""
    at: str = ""
    note: str = ""

    def as_data(self) -> dict[str, Any]:
        decision = {"state": self.state, "by": self.by, "at": self.at, "note": self.note}
        return {"id": self.id, **self.entry, **decision}

    def as_yaml(self) -> str:
        return _text([self.entry])


# Proposing --------------------------------------------------------------------------------------------------------


def keep(knowledge: Path, run: Path, patches: Sequence[RulePatch]) -> None:
    """Write the patches of a run beside its report, and add them to those of the project, each once."""
    proposed = [_entry(patch) for patch in patches]
    _write(run / NAME, proposed)
    _add(knowledge, proposed)


def _add(knowledge: Path, proposed: Sequence[Entry]) -> None:
    known = [entry for entry in _read(knowledge / NAME) if entry not in proposed]
    knowledge.mkdir(parents=True, exist_ok=True)
    _write(knowledge / NAME, [*known, *proposed][-_MOST:])


def is_patch_file(path: Path) -> bool:
    """Return True if a file holds rule patches in the protocol's form."""
    value = _load(path)
    return isinstance(value, dict) and "rule_patch" in value


def propose(scopes: LessonScopes, path: Path) -> list[KeptPatch]:
    """Take the rule patches that an agent or a person wrote; raise InvalidInput with every fault."""
    document = strict_yaml.parse(path.read_bytes())
    entries: Any = document.value.get("rule_patch") if isinstance(document.value, dict) else None
    faults = list(document.faults) if document.faults else list(_faults(entries))
    if faults:
        coded = tuple(fault._replace(code=InvalidInput.code) for fault in faults)
        raise InvalidInput(f"{path} has {len(coded)} fault(s)", next_step=f"correct {path}", faults=coded)
    proposed = [{key: str(entry[key]) for key in _KEYS} for entry in entries or ()]
    place = scopes.writable("project")
    _add(place.folder, [_redacted(entry) for entry in proposed])
    ids = {id_of(_redacted(entry)) for entry in proposed}
    return [patch for patch in listed(scopes) if patch.id in ids]


def _faults(entries: object) -> Iterator[Fault]:
    if not isinstance(entries, list) or not entries:
        yield Fault("rule_patch", None, "must be a list of patches")
        return
    for number, entry in enumerate(entries):
        place = f"rule_patch[{number}]"
        if not isinstance(entry, dict):
            yield Fault(place, None, f"must have the keys {', '.join(_KEYS)}")
            continue
        for key in _KEYS:
            if not isinstance(entry.get(key), str) or not str(entry[key]).strip():
                yield Fault(f"{place}.{key}", None, "is required and missing" if key not in entry else "must be text")
        for key, allowed in (("action", _ACTIONS), ("priority", _PRIORITIES)):
            if isinstance(entry.get(key), str) and entry[key] not in allowed:
                yield Fault(f"{place}.{key}", None, f"must be one of {', '.join(allowed)}, not {entry[key]!r}")
        target = entry.get("target")
        if isinstance(target, str) and (Path(target).name != target or not target.endswith(".md")):
            yield Fault(f"{place}.target", None, "must be the name of a rule file, such as jie.md")
        yield from (Fault(f"{place}.{key}", None, "is unknown") for key in entry if key not in _KEYS)


def _entry(patch: RulePatch) -> Entry:
    return {
        "action": patch.action,
        "target": RULES_FILE,
        "rule": f"{patch.target}: {patch.rule}",
        "reason": patch.reason,
        "priority": patch.priority,
    }


# Deciding ---------------------------------------------------------------------------------------------------------


def listed(scopes: LessonScopes) -> list[KeptPatch]:
    """Return all rule patches of the project, oldest first."""
    folder = scopes.writable("project").folder
    decided = _decisions(folder)
    patches = [entry for entry in _read(folder / NAME) if isinstance(entry, dict)]
    return [KeptPatch(id_of(entry), entry, **decided.get(id_of(entry), {})) for entry in patches]


def find(scopes: LessonScopes, name: str) -> KeptPatch:
    matching = [patch for patch in listed(scopes) if patch.id == name]
    if not matching:
        raise NothingToDo(f"there is no rule patch {name!r}", next_step="reflectloop lessons patches")
    return matching[0]


def accept(scopes: LessonScopes, name: str, reason: str) -> KeptPatch:
    """Accept a patch: its rule is a constraint from now on; `remove` ends the constraint of the same rule."""
    patch = find(scopes, name)
    if patch.entry["action"] == "remove":
        for other in listed(scopes):
            if other.entry["rule"] == patch.entry["rule"] and other.entry["action"] != "remove":
                _settle_lesson(scopes, other, "retired", reason or patch.entry["reason"])
    else:
        _settle_lesson(scopes, patch, "active", reason or patch.entry["reason"])
    return _decide(scopes, patch, "accepted", reason)


def reject(scopes: LessonScopes, name: str, reason: str) -> KeptPatch:
    """Reject a patch; if it was accepted before, its constraint ends."""
    patch = find(scopes, name)
    if patch.state == "accepted" and patch.entry["action"] != "remove":
        _settle_lesson(scopes, patch, "retired", reason)
    return _decide(scopes, patch, "rejected", reason)


def _settle_lesson(scopes: LessonScopes, patch: KeptPatch, status: Literal["active", "retired"], note: str) -> None:
    place = scopes.writable("project")
    page = Page(
        kind="constraint",
        title=patch.entry["rule"][:_LONGEST],
        keywords=(patch.entry["target"], patch.id),
        body=patch.entry["reason"],
        impact=True,
    )
    at, text = clock.stamp(clock.now()), secrets.current_detector().redact(note)
    known = [lesson for lesson in lesson_store.read(place).lessons if lesson.id == page.id]
    if not known and status == "retired":
        return
    lesson_store.add_lessons(place, [NewLesson(page, Occurrence(lesson=page.id, at=at, level="L0"))], new_session_id())
    lesson = lesson_store.pick(lesson_store.read(place).lessons, page.id)
    ruling = Occurrence(lesson=page.id, what="accepted" if status == "active" else "rejected", at=at, note=text)
    lesson_store.settle(place, lesson, status, ruling, new_session_id())


def _decide(scopes: LessonScopes, patch: KeptPatch, state: State, reason: str) -> KeptPatch:
    folder = scopes.writable("project").folder
    note = secrets.current_detector().redact(reason)
    decided = patch._replace(state=state, by=_user(), at=clock.stamp(clock.now()), note=note)
    row = {"state": decided.state, "by": decided.by, "at": decided.at, "note": decided.note}
    rows = {**_decisions(folder), patch.id: row}
    files.write_atomic(folder / DECISIONS, json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    _write_rules(scopes)
    return decided


def _write_rules(scopes: LessonScopes) -> None:
    """Write the accepted rules of each rule file; a file without any is removed."""
    patches, folder = listed(scopes), scopes.writable("project").folder / RULES
    for target in {patch.entry["target"] for patch in patches}:
        lines = [
            _rule_line(patch) for patch in patches if patch.entry["target"] == target and patch.state == "accepted"
        ]
        path = folder / target
        if not lines:
            path.unlink(missing_ok=True)
            continue
        folder.mkdir(parents=True, exist_ok=True)
        head = (
            f"# Accepted changes of {target}\n\nGenerated by `reflectloop lessons accept`; edits are overwritten.\n\n"
        )
        files.write_atomic(path, head + "\n".join(lines) + "\n")


def _rule_line(patch: KeptPatch) -> str:
    entry = patch.entry
    return f"- {patch.id} {entry['action']} ({entry['priority']}): {entry['rule']}. {entry['reason']}"


# Files ------------------------------------------------------------------------------------------------------------


def id_of(entry: Entry) -> str:
    text = json.dumps([entry.get(key, "") for key in _KEYS], ensure_ascii=False)
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()[:8]


def _text(entries: Sequence[Entry]) -> str:
    return str(yaml.safe_dump({"rule_patch": list(entries)}, allow_unicode=True, sort_keys=False, width=1000))


def _redacted(entry: Entry) -> Entry:
    return {key: secrets.current_detector().redact(value) for key, value in entry.items()}


def _write(path: Path, entries: Sequence[Entry]) -> None:
    files.write_atomic(path, secrets.current_detector().redact(_text(entries)))


def _load(path: Path) -> object:
    try:
        return yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError, ValueError):
        return None


def _read(path: Path) -> list[Any]:
    """Return the patches kept so far; a file that cannot be read is written again."""
    value = _load(path)
    entries = value.get("rule_patch") if isinstance(value, dict) else None
    return entries if isinstance(entries, list) else []


def _decisions(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what was decided, by the id of the patch; rows that nobody here wrote are left out."""
    try:
        rows = json.loads((folder / DECISIONS).read_bytes())
    except (OSError, ValueError):
        return {}
    states, keys = get_args(State), {"state", "by", "at", "note"}
    if not isinstance(rows, dict):
        return {}
    return {name: row for name, row in rows.items() if set(row) == keys and row["state"] in states}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "somebody"
