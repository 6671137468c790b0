"""Copies of a run's results at the paths that related tools read. They are never read back."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from reflectloop import languages
from reflectloop.artifacts.envelope import Envelope, write_yaml
from reflectloop.config import PublishConfig
from reflectloop.errors import NoSpace
from reflectloop.state import latch
from reflectloop.system import files
from reflectloop.workspace.folders import Folders, RunFolder

STATE = Path(".claude/state")
_RESULT = STATE / "reflectloop" / "reflectloop.latest.yaml"
_SHOWN = ("summary", "root_cause_hypothesis", "asked")  # texts of a blocker that people read
_BLOCKER = STATE / "thinking" / "blocker.latest.yaml"
# Needs that those tools know by another name.
_NEEDS = {"ASK": "RESEARCH", "RETRY": "RESEARCH"}


def wanted(settings: PublishConfig, plan: str | None) -> bool:
    """Return True if the settings ask for copies, or if the plan itself lies at such a path."""
    return settings.claude or (plan is not None and plan.startswith(f"{STATE}/"))


def attempt(
    folders: Folders, run: RunFolder, envelope: Envelope, result: dict[str, Any], blocker: dict[str, Any] | None
) -> list[str]:
    """Publish the copies. Faults become warnings; they never change the run's outcome."""
    for place in (
        ".claude",
        ".claude/state",
        ".claude/state/reflectloop",
        ".claude/state/reflectloop/runs",
        ".claude/state/thinking",
    ):
        if (folders.root / place).is_symlink():
            return [f"nothing was published: {place} is a link"]
    try:
        publish(folders, run, envelope, result, blocker)
    except (OSError, NoSpace) as fault:
        return [f"not all was published under {STATE}: {fault}"]
    return []


def publish(
    folders: Folders, run: RunFolder, envelope: Envelope, result: dict[str, Any], blocker: dict[str, Any] | None
) -> list[str]:
    """Write the copies and return their names."""
    base = folders.root / STATE / "reflectloop" / "runs" / run.run_id
    mode = {"git": "worktree"}.get(str(result["sandbox_mode"]), result["sandbox_mode"])
    prefix = os.fspath(base.relative_to(folders.root))
    published = envelope.model_copy(
        update={"command": "reflectloop", "next": "/thinking" if blocker else envelope.next}
    )
    written = [base / "summary.md"]
    files.write_atomic(base / "summary.md", run.summary.read_bytes())
    for log in sorted(run.logs.glob("*.log")):
        files.copy_atomic(log, base / "logs" / log.name)
        written.append(base / "logs" / log.name)
    if run.patch.exists():
        files.copy_atomic(run.patch, base / "changes.patch")
        written.append(base / "changes.patch")
    body = result | {"sandbox_mode": mode}
    body["steps"] = [
        step | {"log_path": f"{prefix}/{step['log_path']}"} if step["log_path"] else step for step in result["steps"]
    ]
    outputs = result["outputs"]
    body["outputs"] = outputs | {
        key: f"{prefix}/{outputs[key]}" if outputs[key] else None for key in ("patch_path", "summary_path")
    }
    written.append(folders.root / _RESULT)
    if blocker:
        written.append(folders.root / _BLOCKER)
    names = [os.fspath(path.relative_to(folders.root)) for path in written]
    published = published.model_copy(update={"artifacts_written": names})
    write_yaml(folders.root / _RESULT, published, body)
    if blocker:
        card = blocker | {"needs": list(dict.fromkeys(_NEEDS.get(need, need) for need in blocker["needs"]))}
        shown = {name: languages.texts(card[name]) for name in _SHOWN if name in card}
        write_yaml(folders.root / _BLOCKER, published, card | shown)
    else:
        with contextlib.suppress(FileNotFoundError):
            (folders.root / _BLOCKER).unlink()
    return names


def _home_latch() -> Path:
    return Path.home() / ".claude" / "latch.lock"


def set_home_latch(folders: Folders, settings: PublishConfig, stop: latch.Stop, grade: str) -> list[str]:
    """Write the latch file in HOME for this project; return a warning if it belongs to another one."""
    if not settings.claude_home:
        return []
    path = _home_latch()
    owner = _owner(path)
    if owner not in (None, os.fspath(folders.root)):
        return [f"{path} belongs to {owner}; it was left alone"]
    content = stop.as_json() | {"project": os.fspath(folders.root), "grade": grade}
    files.write_atomic(path, files.json_text(content) + "\n")
    return []


def remove_home_latch(folders: Folders, settings: PublishConfig) -> None:
    if settings.claude_home and _owner(_home_latch()) == os.fspath(folders.root):
        _home_latch().unlink(missing_ok=True)


def foreign_latch(folders: Folders) -> str | None:
    """Return a warning if the latch file in HOME belongs to another project; it is not obeyed here."""
    owner = _owner(_home_latch())
    return (
        None
        if owner in (None, os.fspath(folders.root))
        else f"{_home_latch()} belongs to {owner} and is not obeyed here"
    )


def _owner(path: Path) -> str | None:
    """Return the project that a latch file names, or None if there is no file."""
    try:
        return str(json.loads(path.read_text())["project"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return "somebody unknown"
