"""Runs a small suite as a check does, with the observer next to its report."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.verification import reports, tools
from reflectloop.verification.observe import watch
from reflectloop.verification.result import DetectedCheck, Outcome

# Without the plugins of our own tests, whose import is most of what a run of pytest costs.
FEW_PLUGINS = ("-p", "no:xdist", "-p", "no:xdist.looponfail", "-p", "no:hypothesispytest", "-p", "no:anyio")


class ObservedRun(NamedTuple):
    exit_code: int
    output: str
    report: Mapping[str, Outcome]
    odd: Mapping[str, str]  # text by key
    events: tuple[Mapping[str, Any], ...]

    @property
    def told(self) -> dict[str, list[str]]:
        """The outcomes that were told, by test."""
        out: dict[str, list[str]] = {}
        for event in self.events:
            if event["e"] == "told" and event.get("when", "call") == "call":
                out.setdefault(event["id"], []).append(event["outcome"])
        return out


def observe(
    project: Path,
    tool: str = "pytest",
    command: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
    chosen: Sequence[str] = (),
) -> ObservedRun:
    """Run a project's tests, or the chosen ones, and return what was seen and what is odd about it."""
    folder = project.parent / f"{project.name}-report-{len(list(project.parent.iterdir()))}"
    folder.mkdir()
    command = command or (sys.executable, "-m", "pytest", "-q", *FEW_PLUGINS)
    check = DetectedCheck(tool, "test", tool, command)
    prepared = tools.prepare(check, report=folder / "report")
    if prepared.stand_in:
        shutil.copyfile(prepared.stand_in, folder / prepared.stand_in.name)
    begun = watch.begin(tool, prepared, folder, folder, chosen=chosen)
    assert begun is not None
    surroundings = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    done = subprocess.run(
        begun.argv,
        cwd=project,
        env=begun.environment({**surroundings, **prepared.env, **(env or {})}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    told = begun.close()
    reading = reports.read((folder / "report").read_bytes(), tool=tool) if (folder / "report").is_file() else None
    report = (
        reading.tests
        if reading
        else (r.tests if prepared.report is None and (r := reports.read(done.stdout, tool=tool)) else {})
    )
    odd = {item.key: item.text for item in begun.oddities(told, report, ended=True)}
    return ObservedRun(done.returncode, done.stdout, report, odd, told.events)


def write(project: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return project
