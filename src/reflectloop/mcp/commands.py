"""The command line of each tool that starts work. Values are joined to their options: none can be read as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reflectloop.errors import InvalidInput
from reflectloop.mcp.paths import inside, word


class CommandWords:
    """Builds command lines for one project."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def _command(self, name: str, options: Sequence[str], arguments: Sequence[str] = ()) -> list[str]:
        return [name, "--json", f"--project={self.root}", *options, "--", *arguments]

    def run_plan(self, plan: str | None, *, new_task: bool, jobs: int | None) -> list[str]:
        options = ["--wait", *(["--new"] if new_task else []), *([f"--jobs={jobs}"] if jobs else [])]
        return self._command("run", options, [inside(self.root, plan)] if plan else [])

    def verify(
        self, change: Sequence[str], *, track: str | None, checks: Sequence[str], session: str | None
    ) -> list[str]:
        options = [*change, *([f"--track={track}"] if track else [])]
        options += [f"--check={word(check, 'the name of a check')}" for check in checks]
        options += [f"--session={word(session, 'the session')}"] if session else []
        return self._command("verify", ["--wait", *options])

    def gate(self, contract: str, change: Sequence[str], *, report: str | None) -> list[str]:
        options = [f"--contract={inside(self.root, contract)}", *change]
        options += [f"--report={inside(self.root, report)}"] if report else []
        return self._command("gate", ["--wait", *options])

    def change(self, base: str | None, patch: str | None, branch: str | None) -> list[str]:
        """Return the options that name a change: a patch, a branch, or else the working tree."""
        if patch and branch:
            raise InvalidInput("patch and branch exclude each other", next_step="send one of them")
        options = [f"--base={word(base, 'the base')}"] if base else []
        options += [f"--patch={inside(self.root, patch)}"] if patch else []
        return options + ([f"--branch={word(branch, 'the branch')}"] if branch else [])

    def scan(self, paths: Sequence[str], *, staged: bool, commits: str | None) -> list[str]:
        if bool(paths) + staged + bool(commits) > 1:
            raise InvalidInput("paths, staged and commits exclude each other", next_step="send one of them")
        options = ["--staged"] if staged else [f"--range={word(commits, 'the range')}"] if commits else []
        return self._command("scan", options, [inside(self.root, path) for path in paths])

    def diagnose(self, log: str | None, *, exit_code: int | None) -> list[str]:
        """Return the command for a log file of the project, or for a text on standard input."""
        options = [f"--exit-code={exit_code}"] if exit_code is not None else []
        return self._command("diagnose", options, [inside(self.root, log) if log else "-"])

    def fileops(self, *, strict: bool) -> list[str]:
        return self._command("fileops", ["--strict"] if strict else [], ["-"])

    def reflect(self, name: str, *, revised: str | None, agents: bool) -> list[str]:
        options = [f"--revised={inside(self.root, revised)}"] if revised else []
        options += [] if agents else ["--no-agents"]
        is_file = "/" in name or (self.root / name).exists()
        return self._command("reflect", options, [inside(self.root, name) if is_file else word(name, "the name")])
