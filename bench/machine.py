"""What a reader must know of the machine to judge the numbers, and nothing that tells whose machine it is."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path


def facts(folder: Path) -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "kernel": _numbers(f"{platform.system()} {platform.release()}"),
        "file system": file_system(folder),
        "git": _numbers(_said("git", "--version")),
        "bubblewrap": _numbers(_said("bwrap", "--version")),
        "Python": platform.python_version(),
        "load at the start": f"{os.getloadavg()[0]:.1f}",
    }


def file_system(folder: Path) -> str:
    return _said("df", "--output=fstype", os.fspath(folder)).split()[-1]


def _said(*argv: str) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        return "not installed"


def _numbers(text: str) -> str:
    """The version without a builder's suffix."""
    found = re.search(r"\d+(\.\d+)+", text)
    return found.group() if found else text.strip()
