"""What every story stands on: a HOME that is not the user's, real git, and the program itself."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from support import Repo

# The same examples every time, and no clock: what lands must not depend on chance. `make proof-fuzz` plays at random.
# Started in the background, we may have been told to ignore ^C; what we start would ignore it too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("calm", deadline=None, derandomize=True)
hypothesis.settings.load_profile("calm")


@pytest.fixture(autouse=True)
def _own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads the real HOME, the caller's git settings, or leaves anything in the shared temp folder."""
    home = tmp_path / "home"
    home.mkdir()
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_", "REFLECTLOOP"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "temp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    """A small repository with one commit."""
    made = Repo(tmp_path / "project")
    made.path.mkdir()
    made.git("init", "-q", "-b", "main")
    made.git("config", "user.name", "Test")
    made.git("config", "user.email", "test@localhost")
    made.write("README.md", "# sample\n")
    made.write("src/app.py", "print('hello')\n")
    made.commit("first")
    yield made
    made.no_process_left()
