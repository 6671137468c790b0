"""Links, devices, other hands at work and a thousand hostile requests: nothing leaves the workspace."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fileops_workspace import BAD_PATHS, Place, digest, fields
from reflectloop.fileops import execute as executing
from reflectloop.fileops.ignored_backup import IgnoredBackup
from reflectloop.fileops.request import LARGEST_CONTENT
from reflectloop.fileops.safe_files import AccessBarred, open_folder
from support import Repo


def outside_of(place: Place, tmp_path: Path) -> Path:
    """A folder that must stay as it is."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("mine\n")
    (outside / "folder").mkdir()
    assert place.repo.is_dir()
    return outside


def contents(folder: Path) -> dict[str, str]:
    return {
        os.path.relpath(os.path.join(above, name), folder): digest(os.path.join(above, name))
        for above, folders, names in os.walk(folder)
        for name in [*names, *folders]
    }


def reaching(path: str) -> list[dict[str, Any]]:
    return [
        {"op": "read_file", "path": path},
        {"op": "write_file", "path": path, "content": "theirs"},
        {"op": "write_json", "path": path, "value": 1},
        {"op": "delete_file", "path": path},
        {"op": "move_file", "from": path, "to": "taken"},
        {"op": "move_file", "from": "README.md", "to": path},
        {"op": "apply_patch", "patch": f"*** Begin Patch\n*** Update File: {path}\n@@\n-mine\n+theirs\n*** End Patch"},
        {"op": "apply_patch", "patch": f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch"},
        {"op": "apply_patch", "patch": f"*** Begin Patch\n*** Add File: {path}2\n+x\n*** End Patch"},
    ]


def test_no_op_goes_through_a_link(place: Place, tmp_path: Path) -> None:
    outside = outside_of(place, tmp_path)
    made = place.ask(
        {"op": "run", "cmd": f"ln -s {outside} out; ln -s {outside}/x file; ln -s ../../src src/loop; ln -s . here"}
    )
    assert made.status == "ok"
    before, mine = place.state(), contents(outside)
    paths_through = ["out/x", "file", "out/folder/y", "src/loop/x", "here/README.md"]
    for path in paths_through:
        for op in reaching(path)[:8]:
            answer = place.ask(op)
            assert answer.status == "fail", (op, answer)
            assert fields(answer)
            assert re.search("a link|does not exist|already exists", answer.errors[0].error), answer.errors
    for op in (
        {"op": "list_dir", "path": "out"},
        {"op": "search", "path": "out", "pattern": "m"},
        {"op": "run", "cmd": "ls", "cwd": "out"},
        {"op": "apply_patch", "patch": "*** Begin Patch\n*** Add File: out/y\n+x\n*** End Patch"},
    ):
        assert place.ask(op).status == "fail"
    assert place.ask({"op": "search", "pattern": "mine"}).data["0"]["matches"] == []  # type: ignore[index, call-overload]
    assert contents(outside) == mine
    assert place.state() == before


def test_pipes_sockets_and_devices_are_not_opened(place: Place) -> None:
    for name in ("build.log", "s.log"):
        for op in reaching(name)[:7]:
            put(place.repo, name)  # a request that fails takes pipes and sockets away with all else it left
            answer = place.ask(op)
            assert answer.status == "fail"
            assert re.search("a pipe|a socket|not there|already", answer.errors[0].error), answer.errors


def put(folder: Path, name: str) -> None:
    """Make a pipe called build.log, or a socket called s.log, where there is none."""
    if (folder / name).exists():
        return
    if name == "build.log":
        os.mkfifo(folder / name)
        return
    top = os.open(folder, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{top}/{name}")
    os.close(top)


class Swapper(threading.Thread):
    """Has a link and a folder change places, as fast as it can; one of them is always there."""

    def __init__(self, folder: Path, target: Path) -> None:
        super().__init__(daemon=True)
        self.names = [os.fsencode(folder), os.fsencode(folder.with_name("aside"))]
        folder.with_name("aside").symlink_to(target)
        self.exchange: Callable[..., int] = ctypes.CDLL(None, use_errno=True).renameat2
        self.over = threading.Event()
        self.turns = 0

    def run(self) -> None:
        while not self.over.is_set():
            if self.exchange(-100, self.names[0], -100, self.names[1], 2) == 0:
                self.turns += 1

    def end(self) -> None:
        self.over.set()
        if self.is_alive():
            self.join()


def test_a_folder_swapped_for_a_link_between_check_and_use_is_refused(place: Place, tmp_path: Path) -> None:
    outside = outside_of(place, tmp_path)
    mine = contents(outside)
    (place.repo / "sub/folder").mkdir(parents=True)
    swapper = Swapper(place.repo / "sub", outside)
    swapper.start()
    tried = 0
    with open_folder(place.repo) as reach:
        while tried < 1500:
            tried += 1
            for act, names in (
                (reach.write, ("sub/x", b"theirs")),
                (reach.write, ("sub/folder/new/deep/y", b"theirs")),
                (reach.move, ("sub/x", "sub/folder/z")),
                (reach.delete, ("sub/folder/z",)),
                (reach.delete, ("sub/x",)),
            ):
                with contextlib.suppress(AccessBarred):
                    act(*names)
            with contextlib.suppress(AccessBarred):
                assert reach.read("sub/x", 100) == b"theirs"
    swapper.end()
    assert swapper.turns > 100
    assert contents(outside) == mine


def test_requests_at_work_while_a_folder_is_swapped_stay_inside(place: Place, tmp_path: Path) -> None:
    outside = outside_of(place, tmp_path)
    mine = contents(outside)
    statuses = set()
    for _ in range(12):
        (place.repo / "build/sub").mkdir(parents=True, exist_ok=True)
        swapper = Swapper(place.repo / "build/sub", outside)
        place.plan.on_take_back = swapper.end  # a command's processes are dead when a request is taken back
        swapper.start()
        ops = [
            op
            for number in range(8)
            for op in (
                {"op": "write_file", "path": f"build/sub/{number}", "content": "theirs"},
                {"op": "read_file", "path": f"build/sub/{number}"},
            )
        ]
        statuses.add(place.ask(*ops, {"op": "delete_file", "path": "build/sub/0"}).status)
        swapper.end()
        place.plan.on_take_back = lambda: None
        assert place.ask({"op": "run", "cmd": "rm -rf build"}).status == "ok"
    assert contents(outside) == mine
    assert statuses <= {"ok", "fail"}


# A thousand hostile requests -------------------------------------------------------------------------------------------

METACHARACTERS = [
    "; touch /tmp/x",
    "$(reboot)",
    "`id`",
    "&& rm -rf /",
    "'\"",
    "${IFS}",
    "| sh",
    "\u202e",
    "%s%n",
    "../../x",
]
WRONG: list[Any] = [None, True, 7, -1, 1.5, [], {}, [[]], "", "x", {"op": "run"}, ["a", 1]]


def test_a_link_replaced_while_it_is_copied_is_named_and_not_restored(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = place.repo / "build/link"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to("elsewhere")
    readlink = os.readlink

    def replaced(path: str, *, dir_fd: int) -> str:
        link.unlink()
        link.write_text("a file now")
        return readlink(path, dir_fd=dir_fd)

    backup = IgnoredBackup(place.hands.workspace)
    monkeypatch.setattr(os, "readlink", replaced)
    backup.save()
    assert backup.left_out == ("build/link",)


class Hostile:
    """Requests as somebody would write them who wants to get out, or to get us confused."""

    def __init__(self, seed: int, outside: Path) -> None:
        self.random = random.Random(seed)
        self.bad = [*BAD_PATHS[:-1], f"{outside}/x", f"../outside/{seed}"]
        self.links = ["link/x", "file", "pipe.log", "link", "src/up/x", "link/folder/y"]  # sound, by the text alone

    def request(self, number: int) -> bytes:
        pick = self.random.choice
        said: dict[str, Any] = {
            "proto": "triflow.fileops.v1",
            "id": f"H-{number}{pick(METACHARACTERS)}",
            "purpose": "execute_step",
            "summary": pick(METACHARACTERS),
            "ops": [self.op() for _ in range(self.random.randint(1, 4))],
        }
        if self.random.random() < 0.12:
            harmless = [
                {"op": "write_file", "path": f"src/{number}", "content": "x"},
                {"op": "delete_file", "path": "README.md"},
            ]
            said["ops"] = [*harmless, pick(reaching(pick(self.links))[:8])]
            return self.as_it_is(said)
        turn = pick([self.as_it_is, self.as_it_is, self.wrong_type, self.twice, self.torn, self.unknown])
        return turn(said)

    def as_it_is(self, said: dict[str, Any]) -> bytes:
        return json.dumps(said).encode()

    def wrong_type(self, said: dict[str, Any]) -> bytes:
        where: Any = self.random.choice([said, said["ops"][0]])
        where[self.random.choice(list(where))] = self.random.choice(WRONG)
        return json.dumps(said).encode()

    def twice(self, said: dict[str, Any]) -> bytes:
        return json.dumps(said).replace('"ops":', '"ops": [], "ops":').encode()

    def torn(self, said: dict[str, Any]) -> bytes:
        raw = json.dumps(said).encode()
        return raw[: self.random.randrange(len(raw))] + self.random.choice([b"", b"\xff", b"}", b"\0"])

    def unknown(self, said: dict[str, Any]) -> bytes:
        said["ops"][0]["op"] = self.random.choice(["exec", "write_files", "Run", "run ", "", "__init__", "triflow_"])
        return json.dumps(said).encode()

    def op(self) -> dict[str, Any]:
        bad = self.random.choice([*self.bad, *self.links])
        ops = [
            *reaching(bad),
            {"op": "list_dir", "path": bad or "..", "depth": 3},
            {"op": "run", "cmd": ["cat", bad or ".."], "cwd": bad or ".."},
            {"op": "write_file", "path": "ok.txt", "content": "x" * (LARGEST_CONTENT + 1)},
            {"op": "write_file", "path": f"t{self.random.choice(METACHARACTERS)}", "content": ""},
            {"op": "triflow_state_mark_blocked", "reason": self.random.choice(METACHARACTERS), "unblock": "x"},
            {"op": "triflow_plan_init", "taskName": self.random.choice(METACHARACTERS), "plan": bad},
        ]
        weights = [3] * (len(ops) - 4) + [0.05, 1, 1, 1]
        return self.random.choices(ops, weights)[0]


def test_a_thousand_hostile_requests_change_nothing_that_is_not_theirs(
    repo: Repo, place: Place, tmp_path: Path
) -> None:
    outside = outside_of(place, tmp_path)
    made = place.ask({"op": "run", "cmd": f"ln -s {outside} link; ln -s {outside}/x file; ln -s .. src/up"})
    assert made.status == "ok"
    os.mkfifo(place.repo / "pipe.log")
    mine, users = contents(outside), repo.state()
    statuses: dict[str, int] = {}
    state = place.state()
    for number in range(1000):
        answer = executing.answer(Hostile(number, outside).request(number), place.hands)
        statuses[answer.status] = statuses.get(answer.status, 0) + 1
        assert answer.status in ("ok", "fail", "validation_error")
        if answer.status != "ok":
            assert answer.errors
            assert all(one.field and one.error for one in answer.errors)
        if not (place.repo / "pipe.log").exists():  # a pipe cannot be kept
            os.mkfifo(place.repo / "pipe.log")
        if answer.status == "ok":
            state = place.state()
        assert answer.status == "validation_error" or place.state() == state
    assert contents(outside) == mine
    assert repo.state() == users
    assert statuses["validation_error"] > 500
    assert statuses["fail"] > 80
    assert place.state() == state
