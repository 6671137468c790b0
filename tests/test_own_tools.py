"""A check that is a script finds the project's own tools first."""

from __future__ import annotations

from reflectloop.engine.gating.verify_command import VerifyRequest, verify
from support import Repo


class Nobody:
    def waits(self, why: str) -> None: ...
    def check(self, name: str, words: str) -> None: ...
    def output(self, name: str, data: bytes) -> None: ...


def test_a_script_calls_tools_inside_the_project(repo: Repo) -> None:
    tool = repo.write(".venv/bin/our-tool", "#!/bin/sh\nexit 0\n")
    tool.chmod(0o755)
    repo.write(".gitignore", ".venv\n")
    settings = '[[verify.checks]]\nname = "own"\nkind = "custom"\nrun = ["sh", "-c", "our-tool && test -f README.md"]\n'
    repo.write("reflectloop.toml", settings)
    repo.commit("a tool")
    repo.write("README.md", "# changed\n")
    assert verify(VerifyRequest(repo.path), Nobody()).error is None
