"""Keeps the rule patches that insight proposes, as YAML in the form of the pipeline's protocol."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from reflectloop import secrets
from reflectloop.gates.insight import RulePatch
from reflectloop.system import files

NAME = "rule_patch.yaml"
RULES_FILE = "jie.md"  # the protocol's file about boundaries, which all patches so far are about
_MOST = 200  # the latest ones


def keep(knowledge: Path, run: Path, patches: Sequence[RulePatch]) -> None:
    """Write the patches of a run beside its report, and add them to those of the project, each once."""
    proposed = [_entry(patch) for patch in patches]
    _write(run / NAME, proposed)
    known = [entry for entry in _read(knowledge / NAME) if entry not in proposed]
    knowledge.mkdir(parents=True, exist_ok=True)
    _write(knowledge / NAME, [*known, *proposed][-_MOST:])


def _entry(patch: RulePatch) -> dict[str, str]:
    return {
        "action": patch.action,
        "target": RULES_FILE,
        "rule": f"{patch.target}: {patch.rule}",
        "reason": patch.reason,
        "priority": patch.priority,
    }


def _write(path: Path, entries: Sequence[dict[str, str]]) -> None:
    text = yaml.safe_dump({"rule_patch": list(entries)}, allow_unicode=True, sort_keys=False, width=1000)
    files.write_atomic(path, secrets.current_detector().redact(text))


def _read(path: Path) -> list[Any]:
    """Return the patches kept so far; a file that cannot be read is written anew."""
    try:
        value = yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError):
        return []
    entries = value.get("rule_patch") if isinstance(value, dict) else None
    return entries if isinstance(entries, list) else []
