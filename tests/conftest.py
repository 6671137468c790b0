"""What every story stands on: a HOME that is not the user's, real git, and the program itself."""

from __future__ import annotations

import ctypes
import functools
import gc
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import seeded_chance  # noqa: F401 - before everything else of the engine

# isort: split
import support
from autoloop_world import folders, queue, world  # noqa: F401 - fixtures
from fileops_workspace import Place, place_in
from support import Repo
from tasks import kept, opened
from warm import never_wait_for_disks

never_wait_for_disks()

# The modules and the ten thousand tests stay to the end: looking through them again and again for what can be freed
# took a tenth of the suite's time.
gc.set_threshold(50_000)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


# Started in the background, we may have been told to ignore ^C; what we start would ignore it too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_PR_SET_CHILD_SUBREAPER = 36

# The same examples every time, and no clock: what lands must not depend on chance. `make proof-fuzz` plays at random.
hypothesis.settings.register_profile("calm", deadline=None, derandomize=True)
hypothesis.settings.load_profile("calm")


@pytest.fixture(autouse=True)
def _own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test reads the real HOME, the caller's git settings, or leaves anything in the shared temp folder."""
    home = tmp_path / "home"
    home.mkdir()
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_", "REFLECTLOOP"))]:
        monkeypatch.delenv(name)
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)  # the program speaks the language of the locale
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", support.TOOLS)
    monkeypatch.setenv("REFLECTLOOP_TRUST_PROJECT", "1")  # tests write their projects themselves; test_trust.py asks
    (tmp_path / "temp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield
    # A test that called the engine made us the parent of every orphan, and thousands of dead ones slow each look at /proc.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture
def copied_workspaces(tmp_path: Path) -> None:
    """Let every workspace have its own files, as where the kernel allows no overlay: for tests that look into them."""
    settings = tmp_path / "home" / ".config" / "reflectloop" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[workspace]\noverlay = "off"\n')


@pytest.fixture
def without_probing(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Let `verify` run no more than the checks need: for tests of other things, which would take twice as long.

    A test marked `probing` in a file that uses this fixture runs everything, one marked `probing(PART, …)` those parts.
    """
    marker = request.node.get_closest_marker("probing")
    if marker and not marker.args:
        return
    settings = tmp_path / "home" / ".config" / "reflectloop" / "config.toml"
    settings.parent.mkdir(parents=True)
    wanted = marker.args if marker else ()
    off = [name for name in ("second_run", "replay", "neighbours", "sabotage") if name not in wanted]
    settings.write_text("[verify]\n" + "".join(f"{name} = false\n" for name in off))


@functools.cache
def _first_commit(folder: Path) -> Path:
    """Return a small repository with one commit; each worker makes it once."""
    made = Repo(folder)
    made.path.mkdir()
    made.git("init", "-q", "-b", "main", "--template=")
    made.git("config", "user.name", "Test")
    made.git("config", "user.email", "test@localhost")
    for name in ("hooks", "info"):
        (folder / ".git" / name).mkdir()
    made.write("README.md", "# sample\n")
    made.write("src/app.py", "print('hello')\n")
    made.commit("first")
    return folder


@pytest.fixture
def repo(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repo]:
    """A small repository with one commit."""
    made = Repo(tmp_path / "project")
    shutil.copytree(_first_commit(tmp_path_factory.getbasetemp() / "first-commit"), made.path)
    made.git("update-index", "-q", "--refresh")  # whose times are those of the copied files
    yield made
    made.no_process_left()


@pytest.fixture
def place(repo: Repo, tmp_path: Path) -> Iterator[Place]:
    """A workspace to send requests to."""
    repo.write(".gitignore", "build/\n*.log\n")
    repo.write("src/numbers.txt", "".join(f"line {number}\n" for number in range(1, 21)))
    repo.commit("more")
    with place_in(repo, tmp_path) as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A task's folder with a journal and a state.json that covers it."""
    place = tmp_path / "T-1"
    opened(place, "a", "b", "c").close()
    kept(place)
    return place


@pytest.fixture
def chain(repo: Repo) -> Repo:
    """Three steps of which the second fails."""
    steps = [
        {"id": "a", "title": "The first", "commands": ["echo a >> out.txt; ls"]},
        {"id": "b", "title": "The second", "commands": ["exit 3"]},
        {"id": "c", "title": "The third", "commands": ["echo c >> out.txt; ls"]},
    ]
    plan: dict[str, Any] = {
        "title": "Chain",
        "track": "direct",
        "steps": steps,
        "acceptance": [{"id": "A", "text": "it works"}],
    }
    plan |= {"objective": {"goal": "Get it done", "non_goals": ["more"], "done_when": "it is"}}
    repo.plan(json.dumps({"plan": plan}))
    return repo


@pytest.fixture
def nobody_vouches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs these tests has not agreed to anything."""
    monkeypatch.delenv("REFLECTLOOP_TRUST_PROJECT")
