"""The files that start `autoloop` from elsewhere: automation/autoloop.py and .sh in a project, a systemd user unit."""

from __future__ import annotations

import json
import shlex

FOLDER = "automation"
UNIT = ".config/systemd/user/reflectloop-autoloop@.service"
_PYTHON = '''#!/usr/bin/env python3
"""Look once (--once, the default), or start, stop, status, logs: `reflectloop autoloop` for this project."""

import os
import shutil
import subprocess
import sys

PROGRAM = {program}


def main(words):
    words = ["once"] if words in ([], ["--once"]) else words
    program = shutil.which(PROGRAM)
    if program is None:  # inside of a sandbox, or not installed
        print("reflectloop is not here; autoloop did nothing")
        return 0
    project = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    code = subprocess.call([program, "autoloop", *words, "--project", project])
    return 0 if words[0] == "once" else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
'''
_SHELL = """#!/bin/sh
# start, stop, status, once or logs: `reflectloop autoloop` for this project
exec python3 "$(dirname "$0")/autoloop.py" "$@"
"""
_SERVICE = """[Unit]
Description=reflectloop autoloop in %f

[Service]
ExecStart={program} autoloop start --foreground --project %f
EnvironmentFile=-%h/.config/reflectloop/environment
Restart=on-failure
RestartSec=30
RestartPreventExitStatus=12 16 50
KillMode=mixed
TimeoutStopSec=150

[Install]
WantedBy=default.target
"""


def project_files(program: str) -> dict[str, bytes]:
    """Return the files of a project, by name."""
    return {
        "autoloop.py": _PYTHON.format(program=json.dumps(program)).encode(),
        "autoloop.sh": _SHELL.encode(),
    }


def unit(program: str) -> bytes:
    """Return the unit: `systemctl --user start "reflectloop-autoloop@$(systemd-escape -p DIR)"`.

    A service has neither the PATH of a shell, in which agents are found, nor the variables with their keys: a file of
    the user's may set them.
    """
    return _SERVICE.format(program=shlex.quote(program).replace("%", "%%")).encode()
