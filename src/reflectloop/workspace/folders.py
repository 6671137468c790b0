"""The layout of `.reflectloop/` in a project: its folders, its files, and who made them."""

from __future__ import annotations

import itertools
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reflectloop import settings_files
from reflectloop.errors import InvalidInput, NothingToDo, StateDamaged
from reflectloop.system import files
from reflectloop.system.patterns import lazy
from reflectloop.workspace import project, store
from reflectloop.workspace.project import OWN_FOLDER

if TYPE_CHECKING:  # the state of tasks, which hooks do not read
    from reflectloop.state.fold import Task
    from reflectloop.state.journal import Journal, OnEvent

RUN_ID = lazy(r"RLOP-\d{8}-[0-9a-f]{6}")
TASK_ID = lazy(r"T-\d{8}-[0-9a-f]{6}")
KNOWLEDGE = "knowledge"
SAVED = "apply.saved"  # the files of the user while they are replaced
_OWNER = "owner.json"
_LARGEST_OWNER = 1 << 10
# Records of work, believed only if this user's engine wrote them; others are moved to the folder named here.
_SET_ASIDE = "came-with-the-project"
_RECORDS = ("runs", "tasks", "verifications", "reflections", "tickets", "final")
# Files that the engine acts on; removed if they came with the project.
_ACTING = (
    "git",
    "workspaces",
    "tmp",
    "open",
    "current",
    "latest",
    "lock",
    "cache",
    "requests",
    "asked",
    "work",
    "autoloop",
)


def read_id_file(path: Path, shape: re.Pattern[str]) -> str | None:
    """Return the id in a small file; None if there is no file, or no id of this shape in it."""
    try:
        if not path.is_file():
            return None
        text = path.read_text("utf-8", "replace").strip()
    except OSError:
        return None
    return text if shape.fullmatch(text) else None


class RunFolder(NamedTuple):
    path: Path

    @property
    def run_id(self) -> str:
        return self.path.name

    def saved_plan(self) -> Path:
        """Return the copy of the plan that was made when the run began."""
        copies = sorted(self.path.glob("plan.*"))
        if not copies:
            raise StateDamaged(
                f"the plan of {self.run_id} is not in {self.path}", next_step="reflectloop run PLAN --new"
            )
        return copies[0]

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

    def reject_links(self) -> None:
        """Raise InvalidInput if `.reflectloop` is not a folder or contains links, which would be written through."""
        if not os.path.lexists(self.own):
            return
        with files.room_for("our folder", self.own):
            inside = [] if self.own.is_symlink() or not self.own.is_dir() else list(self.own.iterdir())
        strange = (
            [self.own]
            if not self.own.is_dir() or self.own.is_symlink()
            else [path for path in inside if path.is_symlink()]
        )
        if strange:
            raise InvalidInput(
                f"{strange[0]} is a link or a file that reflectloop did not make",
                next_step=f"look at it and remove {strange[0]}",
            )

    def ensure_owned(self) -> None:
        """Create the folder, or check that this user created it.

        In one that came with the project, files that the engine acts on are removed and records are moved aside.
        """
        with files.room_for("our folder", self.own):
            self.own.mkdir(exist_ok=True)
        store.write_gitignore(self.own)
        if self.is_ours:
            return
        # Two engines that begin at once must not clear each other's files.
        with files.room_for("our folder", self.own), files.locked(self.own / f"{_OWNER}.lock"):
            if not self.is_ours:
                self._take_over()

    def _take_over(self) -> None:
        for name in _ACTING:
            if os.path.lexists(self.own / name):
                files.remove_tree(self.own / name)
        for path in self.own.glob("copy-*.index"):
            files.remove_tree(path)
        self._set_records_aside()
        files.write_atomic(self.own / _OWNER, json.dumps(files.identity_of(self.own)))
        store.write_gitignore(self.own)

    @property
    def is_ours(self) -> bool:
        """Return True if this user's engine made the folder: it is no copy, and did not come with the project."""
        owner = self.own / _OWNER
        if not owner.is_file() or owner.is_symlink() or owner.stat().st_size > _LARGEST_OWNER:
            return False
        return owner.read_text("utf-8", "replace") == json.dumps(files.identity_of(self.own))

    def _set_records_aside(self) -> None:
        """Move foreign records to a folder that no command reads; a person may still want them."""
        names = [name for name in _RECORDS if os.path.lexists(self.own / name)]
        if not names:
            return
        names_to_try = (self.own / f"{_SET_ASIDE}{f'-{number}' if number > 1 else ''}" for number in itertools.count(1))
        aside = next(place for place in names_to_try if not os.path.lexists(place))
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

    @property
    def apply_was_killed(self) -> bool:
        return (self.own / "tmp" / SAVED).exists()

    def open_run(self, run_id: str) -> RunFolder:
        folder = self.run_folder(run_id)
        with files.room_for("the run's folder", folder.path):
            folder.logs.mkdir(parents=True)
            store.write_gitignore(self.own)
        return folder

    def run_folder(self, run_id: str) -> RunFolder:
        return RunFolder(self.own / "runs" / run_id)

    def set_latest(self, run_id: str) -> None:
        files.write_atomic(self.own / "latest", run_id + "\n")

    def find_run(self, name: str | None) -> RunFolder:
        """Return the run with this id, or with an id that begins or ends so; without a name, the latest."""
        if name in (None, "latest"):
            return self._latest()
        matches = self._matching("runs", str(name))
        if not matches and self._matching("verifications", str(name)):
            raise NothingToDo(
                f"{name} is a verification: no run to apply or to look into", next_step=f"reflectloop show {name}"
            )
        if len(matches) > 1:
            raise InvalidInput(f"{name!r} fits {len(matches)} runs", next_step="reflectloop status --all")
        if not matches:
            aside = next((f"; records that came with the project lie in {path}" for path in self._aside()), "")
            raise NothingToDo(f"there is no run {name!r}{aside}", next_step="reflectloop status --all")
        return RunFolder(matches[0])

    def find_verification(self, name: str | None) -> RunFolder | None:
        """Return the verification with this id, or with an id that begins or ends so; None if it is none.

        Without a name it is the newest one, if no run is newer.
        """
        if name in (None, "latest"):
            newest = next(reversed(self.verifications()), None)
            runs = self._matching("runs", "RLOP-")
            return newest if newest and all(_begun(run) < _begun(newest.path) for run in runs) else None
        if self._matching("runs", str(name)):
            return None
        matches = self._matching("verifications", str(name))
        if len(matches) > 1:
            raise InvalidInput(f"{name!r} fits {len(matches)} verifications", next_step="reflectloop status --all")
        return RunFolder(matches[0]) if matches else None

    def verifications(self) -> list[RunFolder]:
        """Return the folders of all verifications, oldest first."""
        return [RunFolder(path) for path in sorted(self._matching("verifications", "RLOP-"), key=_begun)]

    def _matching(self, kind: str, name: str) -> list[Path]:
        known = [path for path in (self.own / kind).glob("RLOP-*") if path.is_dir()]
        return [path for path in known if path.name.startswith(name) or path.name.endswith(name)]

    def _aside(self) -> list[Path]:
        return sorted(self.own.glob(f"{_SET_ASIDE}*"))

    def _latest(self) -> RunFolder:
        run_id = read_id_file(self.own / "latest", RUN_ID)
        if run_id is None:
            if self.current_task():
                raise NothingToDo("the current task has no finished run yet", next_step="reflectloop status")
            raise NothingToDo("nothing has run here yet", next_step=self.first_command())
        return self.run_folder(run_id)

    def first_command(self) -> str:
        """Return the command for a person with whom nothing has run yet; it can be typed as it is."""
        return "reflectloop run" if (self.own / "plan.yaml").is_file() else "reflectloop init"

    @property
    def knowledge(self) -> Path:
        return self.own / KNOWLEDGE

    def journal(self, task_id: str) -> Path:
        return self.own / "tasks" / task_id / "journal.jsonl"

    def open_journal(self, task_id: str, tell: OnEvent | None = None) -> Journal:
        """Open the journal of a task for writing; possible secrets in events are redacted, and each line is signed."""
        from reflectloop import secrets  # noqa: PLC0415 - readers of a journal need neither
        from reflectloop.state.journal import Journal  # noqa: PLC0415
        from reflectloop.trust import signing  # noqa: PLC0415

        key = signing.key()
        return Journal(
            self.journal(task_id),
            tell,
            lambda text: secrets.current_detector().redact(text),
            key.signer("journal") if key else None,
        )

    def current_task(self) -> str | None:
        return read_id_file(self.own / "current", TASK_ID)

    def load_task(self, task_id: str) -> Task:
        """Return a task as its whole journal says, which is how work on it is decided."""
        from reflectloop.state.fold import fold  # noqa: PLC0415 - a hook reads no task
        from reflectloop.state.journal import read  # noqa: PLC0415

        return fold(read(self.journal(task_id)))

    def load_current(self) -> Task:
        """Return the current task by its whole journal; an empty one if there is none."""
        task_id = self.current_task()
        return self.load_task(task_id) if task_id else _no_task()

    def load_tasks(self) -> list[Task]:
        """Return every task by its whole journal, oldest first."""
        from reflectloop.state import snapshot  # noqa: PLC0415

        return [snapshot.load_from_journal(path.parent) for path in self._journals()]

    def peek_tasks(self) -> list[Task]:
        """Return every task for reading only, oldest first."""
        from reflectloop.state import snapshot  # noqa: PLC0415

        return [snapshot.load_task(path.parent) for path in self._journals()]

    def _journals(self) -> list[Path]:
        paths = (self.own / "tasks").glob("T-*/journal.jsonl")
        return sorted(paths, key=lambda path: path.stat().st_mtime_ns)

    def peek_current(self) -> Task:
        """Return the current task for reading only, with as little of its journal read as is safe."""
        task_id = self.current_task()
        from reflectloop.state import snapshot  # noqa: PLC0415

        return snapshot.load_task(self.journal(task_id).parent) if task_id else _no_task()

    def set_current_task(self, task_id: str) -> None:
        files.write_atomic(self.own / "current", task_id + "\n")


def _no_task() -> Task:
    from reflectloop.state.fold import Task  # noqa: PLC0415

    return Task()


def _begun(folder: Path) -> int:
    return (folder / "logs").stat().st_ctime_ns if (folder / "logs").exists() else 0


def user_knowledge() -> Path:
    return settings_files.user_file().parent / KNOWLEDGE


def open_project_dirs(start: Path, mode: project.Mode = "auto") -> Folders:
    """Return the folders of the project around `start`, after checking who made them."""
    folders = Folders(project.locate(start, mode))
    folders.reject_links()
    if folders.own.is_dir() and os.access(folders.own, os.W_OK):
        folders.ensure_owned()
    elif folders.own.is_dir() and not folders.is_ours:
        raise InvalidInput(
            f"{folders.own} was not made by this user and cannot be written, so it is not trusted",
            next_step=f"remove {folders.own}, or work on a copy of the project that you can write to",
        )
    return folders
