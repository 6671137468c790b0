"""Creates the sample project of the demos in a temporary folder."""

from __future__ import annotations

import importlib.resources
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reflectloop.errors import Internal
from reflectloop.system import files, overlay, process

Say = Callable[[str, str], None]


@contextmanager
def opened() -> Iterator[Path]:
    # Workspaces are deleted in the background, so files may disappear during the cleanup.
    with tempfile.TemporaryDirectory(prefix="reflectloop-demo-", ignore_cleanup_errors=True) as name:
        stage = Path(name).resolve()
        yield stage
        for entry in (stage / "sandbox").iterdir():
            overlay.unmount(entry / "repo")
            files.remove_tree(entry)


def lay_out(project: Path, settings: str = "") -> Path:
    """Write the sample as a repository with one commit."""
    project.mkdir()
    for item in importlib.resources.files("reflectloop.demo").joinpath("sample").iterdir():
        if item.is_file():
            (project / item.name).write_bytes(item.read_bytes())
    if settings:
        (project / "reflectloop.toml").write_text(settings)
    identity = ["-c", "user.name=demo", "-c", "user.email=demo@localhost"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "A pager"]):
        done = process.capture(["git", *identity, *arguments], cwd=project, env=_bare_environment(project))
        if done.code:
            raise Internal(f"demo: git {arguments[0]} failed: {done.stderr.decode('utf-8', 'replace')}")
    return project


def _bare_environment(project: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.fspath(project),
        "GIT_CONFIG_NOSYSTEM": "1",
    }


def check_untouched(project: Path) -> None:
    command = ["git", "status", "--porcelain", "--", ".", ":!.reflectloop"]  # it contains new lessons
    status = process.capture(command, cwd=project, env=_bare_environment(project))
    if status.stdout or status.code:
        raise Internal("demo: a run changed the user's tree")


def check_tests(project: Path) -> None:
    if process.capture([sys.executable, "-m", "unittest", "-q"], cwd=project).code:
        raise Internal("demo: the applied patch does not pass the project's tests")
