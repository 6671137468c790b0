"""Hands on a real workspace, for what is told of FileOps."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from reflectloop.config import Config
from reflectloop.fileops import execute as executing
from reflectloop.fileops.ops_context import Data, EngineEvidence, InMemoryResponses, OpsContext
from reflectloop.fileops.response import Response
from reflectloop.sandbox import isolation
from reflectloop.sandbox.sandbox import Box
from reflectloop.terms import Isolation
from reflectloop.workspace import checkout, project, snapshot
from reflectloop.workspace.store import open_store
from support import Repo

ROOT = Path(__file__).resolve().parent.parent
TOKEN = "sk-" + "q1w2e3r4t5y6u7i8o9p0"
BAD_PATHS = [
    "",
    ".",
    "a/",
    "/etc/passwd",
    "//server/share/a",
    "\\\\server\\share\\a",
    "C:\\a",
    "c:/a",
    "C:a",
    "a\\b",
    "~/a",
    "~root/a",
    "../a",
    "a/../../b",
    "a/../b",
    "a/..",
    "a\0b",
    "a\nb",
    ".git",
    ".git/config",
    "a/.git/hooks/x",
    ".GIT/config",
    ".Git",
    ".git./config",
    ".git /config",
    ".git::$INDEX_ALLOCATION/config",
    ".g\u200cit/config",
    "git~1/config",
    "．git/config",
    ".reflectloop/latch.json",
    ".ReflectLoop/lock",
    ".claude/state/x",
    "a" * 256,
    "a/" * 2000 + "b",
    "\ud800",
]


class Plan:
    """A domain as the engine's own is one: what is done holds once it is kept."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.pending: list[str] = []
        self.seen: list[EngineEvidence] = []
        self.stop: Exception | None = None
        self.on_take_back: Callable[[], None] = lambda: None

    def _do(self, op: Any, seen: EngineEvidence) -> Data:
        if self.stop:
            raise self.stop
        self.pending.append(op.op)
        self.seen.append(seen)
        return {"done": op.op}

    plan_init = preflight = finalize = mark_blocked = apply_split = append_steps = _do

    def state_file(self, name: str) -> bytes | None:  # noqa: ARG002
        return None

    def keep(self) -> None:
        self.kept += self.pending
        self.pending = []

    def take_back(self) -> None:
        self.pending = []
        self.on_take_back()


class Place:
    """Hands on a real workspace of a real repository."""

    def __init__(self, hands: OpsContext, plan: Plan) -> None:
        self.hands, self.plan, self.repo = hands, plan, hands.workspace.repo
        self.count = 0

    def ask(self, *ops: Any, **more: Any) -> Response:
        self.count += 1
        said = {"proto": "triflow.fileops.v1", "id": f"R-{self.count}", "purpose": "execute_step", "ops": list(ops)}
        return self.send({**said, **more})

    def send(self, value: Any, *, strict: bool = False) -> Response:
        return executing.answer(json.dumps(value).encode(), self.hands, strict=strict)

    def state(self) -> dict[str, Any]:
        """Every file of the workspace, recorded or not, and the throwaway repository too."""
        found: dict[str, Any] = {}
        for folder, folders, names in os.walk(self.repo):
            for name in names + [one for one in folders if os.path.islink(os.path.join(folder, one))]:
                path = os.path.join(folder, name)
                shown = os.path.relpath(path, self.repo)
                found[shown] = os.readlink(path) if os.path.islink(path) else digest(path)
        return found

    def text(self, name: str) -> str:
        return (self.repo / name).read_text()


def digest(path: str) -> str:
    if not os.path.isfile(path):
        return "special"
    return f"{os.stat(path).st_mode:o} {hashlib.sha256(Path(path).read_bytes()).hexdigest()}"


@contextlib.contextmanager
def place_in(repo: Repo, tmp_path: Path, strongest: Isolation = Isolation.FULL, **more: Any) -> Iterator[Place]:
    config = Config()
    found = project.open_project(repo.path)
    store = open_store(found, config.workspace)
    scratch = found.folder / "tmp"
    scratch.mkdir(exist_ok=True)
    wall = isolation.choose_level(Isolation.WORKSPACE, strongest)
    space = checkout.create(
        found,
        store,
        snapshot.take_snapshot(found, store, scratch),
        name="RLOP-20260101-abcdef",
        root=checkout.sandbox_root(found, None),
        carry=more.pop("carry", config.workspace),
        mounted=wall.mounted,
        bound=wall.by == "bubblewrap",
    )
    plan = Plan()
    box = Box.by(config, space, dict(os.environ), wall, None)
    hands = OpsContext(space, box, plan, InMemoryResponses(), tmp_path / "logs", **more)
    try:
        yield Place(hands, plan)
    finally:
        hands.close()
        space.close()


def fields(answer: Response) -> list[str]:
    return [one.field for one in answer.errors]
