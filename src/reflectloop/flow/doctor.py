"""`doctor`: what this machine has, and which isolation it gives, proven by trying to get out."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple

import reflectloop
from reflectloop import config
from reflectloop.box import escapes, walls
from reflectloop.box.escapes import Tried
from reflectloop.errors import ReflectloopError
from reflectloop.terms import Isolation
from reflectloop.workspace import project
from reflectloop.world import bubblewrap, git, landlock, process, tools


class Finding(NamedTuple):
    name: str
    state: Literal["ok", "missing", "weak"]
    detail: str
    remedy: str = ""


class Diagnosis(NamedTuple):
    findings: list[Finding]
    tried: list[Tried]  # strongest level first
    floor: Isolation

    @property
    def level(self) -> Isolation:
        """The strongest that was proven."""
        return next((one.wall.level for one in self.tried if one.proven), Isolation.NONE)

    @property
    def sound(self) -> bool:
        """Whether everything needed is there, and the configured floor is met."""
        return self.level.rank >= self.floor.rank and all(finding.state != "missing" for finding in self.findings)


def doctor(start: Path) -> Diagnosis:
    findings = [_python(), _git(), _shell(), _bubblewrap(), _landlock(), *_disk(start), _project(start)]
    settings = config.load(_root(start)).box
    possible = [wall for wall in walls.possible() if wall.level.rank <= max(settings.strongest.rank, 1)]
    if tools.find("bash") is None:
        return Diagnosis(findings, [], settings.isolation)
    with ThreadPoolExecutor() as pool:
        tried = list(pool.map(escapes.attempt, possible))
    return Diagnosis(findings, tried, settings.isolation)


def _root(start: Path) -> Path:
    try:
        return project.locate(start)
    except ReflectloopError:  # a finding of its own says why
        return start


def _python() -> Finding:
    detail = f"{platform.python_version()}, reflectloop {reflectloop.__version__}"
    return Finding("python", "ok" if sys.version_info >= (3, 11) else "missing", detail, "Python 3.11 or newer")


def _git() -> Finding:
    found = tools.find("git")
    if not found:
        return Finding("git", "missing", "not installed", "apt-get install git")
    version = git.version()
    text = ".".join(map(str, version))
    if version < git.MINIMUM:
        return Finding("git", "missing", f"{text} is too old", "git 2.38 or newer")
    return Finding("git", "ok", text)


def _shell() -> Finding:
    found = tools.find("bash")
    return (
        Finding("bash", "ok", found) if found else Finding("bash", "missing", "not installed", "apt-get install bash")
    )


def _bubblewrap() -> Finding:
    reason = bubblewrap.refusal()
    if reason is None:
        version = process.capture([tools.need("bwrap"), "--version"]).stdout.decode().strip()
        scopes = "with Landlock's scopes" if bubblewrap.scopes() else "no scopes: local sockets only without a network"
        return Finding("bubblewrap", "ok", f"{version}, {scopes}")
    return Finding("bubblewrap", "weak", reason, "apt-get install bubblewrap, and allow user namespaces")


def _landlock() -> Finding:
    reason = landlock.refusal()
    if reason is None:
        return Finding("landlock", "ok", f"version {landlock.version()}; guards content, not modes and times of files")
    return Finding("landlock", "weak", reason, "a kernel with Landlock, used where bubblewrap does not work")


def _disk(start: Path) -> list[Finding]:
    out = []
    for name, path in (("temp folder", Path(tempfile.gettempdir())), ("project folder", start)):
        try:
            free = shutil.disk_usage(path).free
        except OSError as fault:
            out.append(Finding(name, "missing", f"{path}: {fault.strerror}", f"make {path} readable"))
            continue
        writable = os.access(path, os.W_OK)
        state: Literal["ok", "missing", "weak"] = (
            "ok" if writable and free > 1 << 30 else "weak" if writable else "missing"
        )
        detail = f"{path}, {free / 1e9:.1f} GB free" + ("" if writable else ", not writable")
        out.append(Finding(name, state, detail, "free some space or choose another folder" if state != "ok" else ""))
    return out


def _project(start: Path) -> Finding:
    try:
        found = project.open_at(start)
    except ReflectloopError as fault:
        return Finding("repository", "weak", fault.message, fault.next_step)
    if found.mode != "git":
        return Finding("repository", "ok", f"{found.root} is no git repository; it is taken by copy")
    return Finding("repository", "ok", f"{found.root} on {found.branch or 'a detached HEAD'}")
