"""The real Claude Code, Codex and Copilot CLIs, pinned, in folders of their own outside the repository."""

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


_COPILOT = "@github/copilot@1.0.102"


def copilot() -> Path:
    """Where Copilot CLI is, installed once for this version and this user; npm runs no script of it."""
    folder = Path(tempfile.gettempdir()) / ("reflectloop-proof-" + _COPILOT.strip("@").replace("/", "-"))
    if not (folder / "ready").exists():
        folder.mkdir(exist_ok=True)
        npm = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), _COPILOT]
        done = subprocess.run(npm, capture_output=True, check=False)
        if done.returncode:
            sys.exit(f"Copilot CLI could not be installed: {done.stderr.decode('utf-8', 'replace')[-500:]}")
        (folder / "ready").touch()
    return folder / "node_modules" / ".bin" / "copilot"
