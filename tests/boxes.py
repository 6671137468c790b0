"""What the stories of the box share: which walls this machine has, and a PATH that hides the strongest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reflectloop.sandbox import isolation
from reflectloop.system import landlock
from reflectloop.terms import Isolation
from support import Repo

full = pytest.mark.skipif(
    isolation.supported_levels()[0].level is not Isolation.FULL, reason="needs a working bubblewrap"
)
needs_landlock = pytest.mark.skipif(landlock.refusal() is not None, reason=f"no Landlock: {landlock.refusal()}")
HELD = [wall for wall in isolation.supported_levels() if wall.level.rank >= Isolation.FS.rank]


def name_of(wall: isolation.IsolationLevel) -> str:
    return f"{wall.level}-{wall.by}"


def log(repo: Repo, name: str = "P-1.1") -> str:
    return (repo.latest() / "logs" / f"{name}.log").read_text()


def without_bubblewrap(tmp_path: Path) -> dict[str, str]:
    """Return a PATH with everything but bwrap."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in (Path(sys.executable).parent, Path("/usr/local/bin"), Path("/usr/bin"), Path("/bin")):
        for tool in folder.iterdir():
            if tool.name != "bwrap" and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    return {"PATH": str(tools)}
