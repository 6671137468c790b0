"""The names that plans use for an agent's tools, and what each of them lets the agent do. Pure."""

from __future__ import annotations

from collections.abc import Iterable

_NAMES = {
    "read": "read_file list_dir search grep rg find ls cat glob read view list tree",
    "write": "apply_patch write_file write_json delete_file move_file edit write multiedit patch create_file edit_file",
    "run": "run bash shell run_cmd run_command execute terminal exec pytest test",
}
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}


def kinds_of(tools: Iterable[str]) -> frozenset[str] | None:
    """Return what the named tools let an agent do: read (always), write, run; None if a tool is not known here."""
    names = [tool.strip().lower() for tool in tools]
    if not names or any(name not in _KINDS for name in names):
        return None
    return frozenset(("read", *(_KINDS[name] for name in names)))


def kind_of(op: str) -> str | None:
    return _KINDS.get(op.lower())


def reads_only(tools: Iterable[str]) -> bool:
    return kinds_of(tools) == frozenset(("read",))
