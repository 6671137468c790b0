"""`doctor`: check this machine, and prove its isolation levels by escape attempts."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

import reflectloop
from reflectloop import config
from reflectloop.errors import ReflectloopError
from reflectloop.sandbox import escape_tests, isolation
from reflectloop.sandbox.escape_tests import EscapeResults
from reflectloop.system import bubblewrap, executables, git, landlock, overlay, process
from reflectloop.terms import Isolation
from reflectloop.workspace import project


class DoctorFinding(NamedTuple):
    name: str
    state: Literal["ok", "missing", "weak"]
    detail: str
    remedy: str = ""


class DoctorReport(NamedTuple):
    findings: list[DoctorFinding]
    tried: list[EscapeResults]  # strongest level first
    floor: Isolation

    @property
    def level(self) -> Isolation:
        """Return the strongest isolation level that was proven."""
        return next((results.wall.level for results in self.tried if results.proven), Isolation.NONE)

    @property
    def sound(self) -> bool:
        """Return True if nothing required is missing and the configured isolation level is met."""
        return self.level.rank >= self.floor.rank and all(finding.state != "missing" for finding in self.findings)

    def as_data(self) -> dict[str, Any]:
        return {
            "sound": self.sound,
            "isolation": self.level,
            "floor": self.floor,
            "findings": [finding._asdict() for finding in self.findings],
            "levels": [
                {
                    "level": results.wall.level,
                    "by": results.wall.by,
                    "limits_by": results.limits_by,
                    "proven": results.proven,
                    "held": results.prevented,
                    "untried": results.untried,
                }
                for results in self.tried
            ],
            "attempts": [{"name": row.name, "promised_from": row.since} for row in escape_tests.ESCAPE_TESTS],
        }


def doctor(start: Path) -> DoctorReport:
    # The overlay before tests of Landlock, which leave threads: only a process with one gets mounts of its own.
    tools = [_python(), _git(), _shell(), _overlay(), _bubblewrap(), _landlock()]
    findings = [*tools, *_disk(start), _project(start)]
    settings = config.load(_root(start)).box
    possible = [level for level in isolation.supported_levels() if level.level.rank <= max(settings.strongest.rank, 1)]
    if executables.find("bash") is None:
        return DoctorReport(findings, [], settings.isolation)
    with ThreadPoolExecutor() as pool:
        tried = list(pool.map(escape_tests.run_escape_tests, possible))
    return DoctorReport(findings, tried, settings.isolation)


def _root(start: Path) -> Path:
    try:
        return project.locate(start)
    except ReflectloopError:  # a finding says why
        return start


def _python() -> DoctorFinding:
    detail = f"{platform.python_version()}, reflectloop {reflectloop.__version__}"
    return DoctorFinding("python", "ok" if sys.version_info >= (3, 11) else "missing", detail, "Python 3.11 or newer")


def _git() -> DoctorFinding:
    if not executables.find("git"):
        return DoctorFinding("git", "missing", "not installed", "apt-get install git")
    version = git.version()
    text = ".".join(map(str, version))
    if version < git.MINIMUM:
        return DoctorFinding("git", "missing", f"{text} is too old", "git 2.38 or newer")
    return DoctorFinding("git", "ok", text)


def _shell() -> DoctorFinding:
    path = executables.find("bash")
    return (
        DoctorFinding("bash", "ok", path)
        if path
        else DoctorFinding("bash", "missing", "not installed", "apt-get install bash")
    )


def _bubblewrap() -> DoctorFinding:
    reason = bubblewrap.refusal()
    if reason is None:
        version = process.capture([executables.need("bwrap"), "--version"]).stdout.decode().strip()
        scopes = "with Landlock's scopes" if bubblewrap.scopes() else "no scopes: local sockets only without a network"
        return DoctorFinding("bubblewrap", "ok", f"{version}, {scopes}")
    return DoctorFinding("bubblewrap", "weak", reason, "apt-get install bubblewrap, and allow user namespaces")


def _landlock() -> DoctorFinding:
    reason = landlock.refusal()
    if reason is None:
        return DoctorFinding(
            "landlock", "ok", f"version {landlock.version()}; guards content, not modes and times of files"
        )
    return DoctorFinding("landlock", "weak", reason, "a kernel with Landlock, used if bubblewrap does not work")


def _overlay() -> DoctorFinding:
    with tempfile.TemporaryDirectory() as folder:
        reason = overlay.try_in(Path(folder))
    if reason is None:
        return DoctorFinding(
            "overlay", "ok", "workspaces can be mounted over a shared copy of the base tree ([workspace] overlay)"
        )
    return DoctorFinding("overlay", "ok", f"not used; workspaces are copies instead ({reason})")


def _disk(start: Path) -> list[DoctorFinding]:
    out = []
    for name, path in (("temp folder", Path(tempfile.gettempdir())), ("project folder", start)):
        try:
            free = shutil.disk_usage(path).free
        except OSError as fault:
            out.append(DoctorFinding(name, "missing", f"{path}: {fault.strerror}", f"make {path} readable"))
            continue
        writable = os.access(path, os.W_OK)
        state: Literal["ok", "missing", "weak"] = (
            "ok" if writable and free > 1 << 30 else "weak" if writable else "missing"
        )
        detail = f"{path}, {free / 1e9:.1f} GB free" + ("" if writable else ", not writable")
        out.append(
            DoctorFinding(name, state, detail, "free some space or choose another folder" if state != "ok" else "")
        )
    return out


def _project(start: Path) -> DoctorFinding:
    try:
        home = project.open_project(start)
    except ReflectloopError as fault:
        return DoctorFinding("repository", "weak", fault.message, fault.next_step)
    if home.mode != "git":
        return DoctorFinding("repository", "ok", f"{home.root} is not a git repository; runs work on a copy of it")
    return DoctorFinding(
        "repository", "ok", f"{home.root}, branch {home.branch}" if home.branch else f"{home.root}, detached HEAD"
    )
