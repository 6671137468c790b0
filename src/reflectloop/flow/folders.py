"""Where everything of ours lies under `.reflectloop/`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import InvalidInput, NothingToDo
from reflectloop.workspace import project
from reflectloop.workspace.project import OWN_FOLDER
from reflectloop.world import files


class RunFolder(NamedTuple):
    path: Path

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def envelope(self) -> Path:
        return self.path / "envelope.yaml"

    @property
    def result(self) -> Path:
        return self.path / "result.yaml"

    @property
    def patch(self) -> Path:
        return self.path / "changes.patch"

    @property
    def summary(self) -> Path:
        return self.path / "summary.md"

    @property
    def blocker(self) -> Path:
        return self.path / "blocker.yaml"

    @property
    def junit(self) -> Path:
        return self.path / "junit.xml"

    @property
    def sarif(self) -> Path:
        return self.path / "results.sarif"

    @property
    def logs(self) -> Path:
        return self.path / "logs"


class Folders(NamedTuple):
    root: Path  # the project

    @property
    def own(self) -> Path:
        return self.root / OWN_FOLDER

    def refuse_strange(self) -> None:
        """Our folder must be a folder: through a link we would write where the link leads."""
        if self.own.is_symlink() or (self.own.exists() and not self.own.is_dir()):
            raise InvalidInput(
                f"{self.own} is not a folder of ours, but a link or a file",
                next_step=f"look at it and remove {self.own}",
            )

    @property
    def scratch(self) -> Path:
        folder = self.own / "tmp"
        with files.room_for("a temporary file", folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def open_run(self, run_id: str) -> RunFolder:
        folder = RunFolder(self.own / "runs" / run_id)
        with files.room_for("the run's folder", folder.path):
            folder.logs.mkdir(parents=True)
            ignore = self.own / ".gitignore"
            if not ignore.exists():
                files.write_atomic(ignore, "*\n")
        files.write_atomic(self.own / "latest", run_id + "\n")
        return folder

    def find_run(self, name: str | None) -> RunFolder:
        """A run by its id, the beginning or end of it, or the latest where none is named."""
        if name in (None, "latest"):
            return self._latest()
        known = [path for path in (self.own / "runs").glob("RLOP-*") if path.is_dir()]
        found = [path for path in known if path.name.startswith(str(name)) or path.name.endswith(str(name))]
        if len(found) > 1:
            raise InvalidInput(f"{name!r} fits {len(found)} runs", next_step="reflectloop status --all")
        if not found:
            raise NothingToDo(f"there is no run {name!r}", next_step="reflectloop status --all")
        return RunFolder(found[0])

    def _latest(self) -> RunFolder:
        try:
            return RunFolder(self.own / "runs" / (self.own / "latest").read_text().strip())
        except FileNotFoundError as fault:
            raise NothingToDo("nothing has run here yet") from fault

    def journal(self, task_id: str) -> Path:
        return self.own / "tasks" / task_id / "journal.jsonl"

    def current_task(self) -> str | None:
        try:
            return (self.own / "current").read_text().strip() or None
        except FileNotFoundError:
            return None

    def set_current_task(self, task_id: str) -> None:
        files.write_atomic(self.own / "current", task_id + "\n")


def folders_at(start: Path, mode: project.Mode = "auto") -> Folders:
    folders = Folders(project.locate(start, mode))
    folders.refuse_strange()
    return folders
