"""Which changes discard what `make proof-walls` has recorded, and what it clears at its start."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from proof.walls.person import clear_leftovers
from proof.walls.records import code_id

_FILES = {
    "requirements/dev.txt": "click==8\n",
    "src/reflectloop/sandbox/box.py": "def start():\n    return 1\n",
    "src/reflectloop/sandbox/rules.toml": "rule = 1\n",
    "src/reflectloop/mcp/server.py": "PORT = 1\n",
    "proof/walls/person.py": "UID = 0\n",
    "proof/walls/bounds.py": "MB = 1\n",
    "proof/walls/inside_files.toml": "attempt = 1\n",
}


@pytest.mark.parametrize(
    ("path", "text", "discarded"),
    [
        ("src/reflectloop/sandbox/box.py", "def start():\n    return 2\n", ["inside:a step", "bounds"]),
        ("src/reflectloop/sandbox/box.py", '# why\ndef start():\n    """Start."""\n\n    return 1\n', []),
        ("src/reflectloop/sandbox/rules.toml", "rule = 2\n", ["inside:a step", "bounds"]),
        ("src/reflectloop/mcp/server.py", "PORT = 2\n", []),
        ("requirements/dev.txt", "click==9\n", ["inside:a step", "bounds"]),
        ("proof/walls/person.py", "UID = 1\n", ["inside:a step", "bounds"]),
        ("proof/walls/bounds.py", "MB = 2\n", ["bounds"]),
        ("proof/walls/inside_files.toml", "attempt = 2\n", ["inside:a step"]),
    ],
)
def test_a_change_discards_the_records_of_what_it_can_change(
    tmp_path: Path, path: str, text: str, discarded: list[str]
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for name, content in _FILES.items():
        (before / name).parent.mkdir(parents=True, exist_ok=True)
        (before / name).write_text(content)
    shutil.copytree(before, after)
    (after / path).write_text(text)
    units = ("inside:a step", "bounds")
    assert [unit for unit in units if code_id(unit, before) != code_id(unit, after)] == discarded


def test_a_proof_clears_what_a_killed_one_left_and_keeps_what_a_living_one_uses(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    names = ("var/tmp/walls-proof-{}-ab12", "etc/reflectloop-{}-p2", "dev/shm/reflectloop-walls-{}-p2")
    left = [tmp_path / name.format(ended.pid) for name in names]
    kept = [tmp_path / name.format(os.getpid()) for name in names] + [tmp_path / "etc/reflectloop-tool-p2"]
    for path in (*left, *kept):
        (path / "closed").mkdir(parents=True)
    assert sorted(clear_leftovers(tmp_path)) == sorted(left)
    assert [path for path in (*left, *kept) if path.exists()] == kept
