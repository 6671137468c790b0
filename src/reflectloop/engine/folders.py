"""Where everything of ours lies under `.reflectloop/`."""

from __future__ import annotations

import itertools
import json
import os
import re
from pathlib import Path
from typing import NamedTuple

from reflectloop import config, secrets
from reflectloop.errors import InvalidInput, NothingToDo
from reflectloop.state.journal import Journal, OnEvent
from reflectloop.system import files
from reflectloop.workspace import project, store
from reflectloop.workspace.project import OWN_FOLDER

RUN_ID = re.compile(r"RLOP-\d{8}-[0-9a-f]{6}")
TASK_ID = re.compile(r"T-\d{8}-[0-9a-f]{6}")
KNOWLEDGE = "knowledge"
_OWNER = "owner.json"
_LARGEST_OWNER = 1 << 10
# What could make the engine act outside the project, were it not ours.
_SET_ASIDE = "came-with-the-project"
# What tells of work: believed only where we did the work.
_RECORDS = ("runs", "tasks", "verifications", "reflections", "tickets", "final")
_ACTING = ("git", "workspaces", "tmp", "open", "current", "latest", "lock", "cache", "requests", "asked")


def pointed(path: Path, shape: re.Pattern[str]) -> str | None:
    """The id that a small file of ours names; None where there is none, or it names nothing of ours."""
    try:
        if not path.is_file():
            return None
        said = path.read_text("utf-8", "replace").strip()
    except OSError:
        return None
    return said if shape.fullmatch(said) else None


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
        """Our folder must be a folder, and nothing in it a link: we would write where the link leads."""
        if not os.path.lexists(self.own):
            return
        with files.room_for("our folder", self.own):
            inside = [] if self.own.is_symlink() or not self.own.is_dir() else list(self.own.iterdir())
        strange = (
            [self.own]
            if not self.own.is_dir() or self.own.is_symlink()
            else [one for one in inside if one.is_symlink()]
        )
        if strange:
            raise InvalidInput(
                f"{strange[0]} is not ours, but a link or a file", next_step=f"look at it and remove {strange[0]}"
            )

    def claim(self) -> None:
        """Make the folder, or see that it is the one we made. One that came with the project loses what could act."""
        with files.room_for("our folder", self.own):
            self.own.mkdir(exist_ok=True)
        store.hide(self.own)
        if self.is_ours:
            return
        for name in _ACTING:
            if os.path.lexists(self.own / name):
                files.remove_tree(self.own / name)
        for path in self.own.glob("copy-*.index"):
            files.remove_tree(path)
        self._set_records_aside()
        files.write_atomic(self.own / _OWNER, json.dumps(files.identity_of(self.own)))
        store.hide(self.own)

    @property
    def is_ours(self) -> bool:
        """Whether this is the folder that we made, and not a copy of one, or one that came with the project."""
        owner = self.own / _OWNER
        if not owner.is_file() or owner.is_symlink() or owner.stat().st_size > _LARGEST_OWNER:
            return False
        return owner.read_text("utf-8", "replace") == json.dumps(files.identity_of(self.own))

    def _set_records_aside(self) -> None:
        """Move records that are not ours to where no command looks. They may be of use to a person."""
        names = [name for name in _RECORDS if os.path.lexists(self.own / name)]
        if not names:
            return
        taken = (self.own / f"{_SET_ASIDE}{f'-{number}' if number > 1 else ''}" for number in itertools.count(1))
        aside = next(place for place in taken if not os.path.lexists(place))
        with files.room_for("records that came with the project", aside):
            aside.mkdir()
            for name in names:
                (self.own / name).rename(aside / name)

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
            store.hide(self.own)
        return folder

    def set_latest(self, run_id: str) -> None:
        files.write_atomic(self.own / "latest", run_id + "\n")

    def find_run(self, name: str | None) -> RunFolder:
        """A run by its id, the beginning or end of it, or the latest where none is named."""
        if name in (None, "latest"):
            return self._latest()
        known = [path for path in (self.own / "runs").glob("RLOP-*") if path.is_dir()]
        found = [path for path in known if path.name.startswith(str(name)) or path.name.endswith(str(name))]
        if len(found) > 1:
            raise InvalidInput(f"{name!r} fits {len(found)} runs", next_step="reflectloop status --all")
        if not found:
            aside = next((f"; records that came with the project lie in {path}" for path in self._aside()), "")
            raise NothingToDo(f"there is no run {name!r} of ours{aside}", next_step="reflectloop status --all")
        return RunFolder(found[0])

    def _aside(self) -> list[Path]:
        return sorted(self.own.glob(f"{_SET_ASIDE}*"))

    def _latest(self) -> RunFolder:
        run_id = pointed(self.own / "latest", RUN_ID)
        if run_id is None:
            if self.current_task():
                raise NothingToDo("the task at work has not been judged yet", next_step="reflectloop status")
            raise NothingToDo("nothing has run here yet", next_step="reflectloop run PLAN")
        return RunFolder(self.own / "runs" / run_id)

    @property
    def knowledge(self) -> Path:
        return self.own / KNOWLEDGE

    def journal(self, task_id: str) -> Path:
        return self.own / "tasks" / task_id / "journal.jsonl"

    def open_journal(self, task_id: str, tell: OnEvent | None = None) -> Journal:
        """Return the journal of a task to write to; what may be a secret is taken out of what it is told."""
        return Journal(self.journal(task_id), tell, lambda text: secrets.current().redact(text))

    def current_task(self) -> str | None:
        return pointed(self.own / "current", TASK_ID)

    def set_current_task(self, task_id: str) -> None:
        files.write_atomic(self.own / "current", task_id + "\n")


def user_knowledge() -> Path:
    return config.user_file().parent / KNOWLEDGE


def folders_at(start: Path, mode: project.Mode = "auto") -> Folders:
    folders = Folders(project.locate(start, mode))
    folders.refuse_strange()
    if folders.own.is_dir() and os.access(folders.own, os.W_OK):
        folders.claim()
    elif folders.own.is_dir() and not folders.is_ours:
        raise InvalidInput(
            f"{folders.own} was not made here by you and cannot be written: what it says is not believed",
            next_step=f"remove {folders.own}, or work on a copy of the project that you can write to",
        )
    return folders
