"""Views at the paths other tools of this family read. They are copies: nothing here is ever read back."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from reflectloop.config import PublishConfig
from reflectloop.engine.envelope import Envelope
from reflectloop.engine.folders import Folders, RunFolder
from reflectloop.engine.run import result_files
from reflectloop.errors import NoSpace
from reflectloop.state import latch
from reflectloop.system import files

STATE = Path(".claude/state")
_RESULT = STATE / "reflectloop" / "reflectloop.latest.yaml"
_BLOCKER = STATE / "thinking" / "blocker.latest.yaml"
# Words of theirs for needs of ours.
_NEEDS = {"ASK": "RESEARCH", "RETRY": "RESEARCH"}


def wanted(settings: PublishConfig, plan: str | None) -> bool:
    """Asked for by the settings, or because the plan itself came from there."""
    return settings.claude or (plan is not None and plan.startswith(f"{STATE}/"))


def attempt(
    folders: Folders, run: RunFolder, envelope: Envelope, result: dict[str, Any], blocker: dict[str, Any] | None
) -> list[str]:
    """Publish; what stands in the way is said, and changes nothing of how the run ended."""
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
    """Write the views; the names of what was written."""
    base = folders.root / STATE / "reflectloop" / "runs" / run.run_id
    mode = {"git": "worktree"}.get(str(result["sandbox_mode"]), result["sandbox_mode"])
    prefix = os.fspath(base.relative_to(folders.root))
    theirs = envelope.model_copy(update={"command": "reflectloop", "next": "/thinking" if blocker else envelope.next})
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
    theirs = theirs.model_copy(update={"artifacts_written": names})
    result_files.write_yaml(folders.root / _RESULT, theirs, body)
    if blocker:
        card = blocker | {"needs": list(dict.fromkeys(_NEEDS.get(need, need) for need in blocker["needs"]))}
        result_files.write_yaml(folders.root / _BLOCKER, theirs, card)
    else:
        with contextlib.suppress(FileNotFoundError):
            (folders.root / _BLOCKER).unlink()
    return names


def _home_latch() -> Path:
    return Path.home() / ".claude" / "latch.lock"


def set_home_latch(folders: Folders, settings: PublishConfig, stop: latch.Stop, grade: str) -> list[str]:
    """The lock in HOME, with the project it belongs to; somebody else's is left alone and said."""
    if not settings.claude_home:
        return []
    path = _home_latch()
    owner = _owner(path)
    if owner not in (None, os.fspath(folders.root)):
        return [f"{path} belongs to {owner}; it was left alone"]
    content = stop.as_json() | {"project": os.fspath(folders.root), "grade": grade}
    files.write_atomic(path, json.dumps(content, indent=2) + "\n")
    return []


def remove_home_latch(folders: Folders, settings: PublishConfig) -> None:
    if settings.claude_home and _owner(_home_latch()) == os.fspath(folders.root):
        _home_latch().unlink(missing_ok=True)


def foreign_latch(folders: Folders) -> str | None:
    """A lock in HOME that another project set: worth saying, not ours to obey."""
    owner = _owner(_home_latch())
    return (
        None
        if owner in (None, os.fspath(folders.root))
        else f"{_home_latch()} belongs to {owner} and is not obeyed here"
    )


def _owner(path: Path) -> str | None:
    """Whose lock it is; a lock that does not say is nobody's we know."""
    try:
        said = json.loads(path.read_text())
        return str(said["project"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return "somebody unknown"
