"""The real Claude Code and Codex CLIs, pinned, in a virtual environment of their own outside the repository."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

# The makers' own packages carry the programs. Installed to be proven with, never shipped.
PINNED = ("claude-agent-sdk==0.2.182", "openai-codex-cli-bin==0.163.0")
_PROGRAMS = {"claude": "claude_agent_sdk/_bundled/claude", "codex": "codex_cli_bin/bin/codex"}


def programs() -> dict[str, Path]:
    """Where each is, installed once for these versions and this user."""
    name = "reflectloop-proof-" + "-".join(one.replace("==", "-") for one in PINNED)
    folder = Path(tempfile.gettempdir()) / name
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(folder / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run([*pip, *PINNED], capture_output=True, check=False)
        if done.returncode:
            sys.exit(f"the CLIs could not be installed: {done.stderr.decode('utf-8', 'replace')[-500:]}")
        (folder / "ready").touch()
    (site,) = folder.glob("lib/python3*/site-packages")
    return {kind: site / path for kind, path in _PROGRAMS.items()}
