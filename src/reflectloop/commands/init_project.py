"""`init` and `config`: write a project's first files, and list its settings."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop import config
from reflectloop.plan.schema import plan_schema
from reflectloop.system import files
from reflectloop.system.git import Git
from reflectloop.terms import join_first
from reflectloop.verification.result import DetectedCheck
from reflectloop.workspace import carry, project, repository, store
from reflectloop.workspace.folders import open_project_dirs
from reflectloop.workspace.project import OWN_FOLDER

_FIRST_PLAN = """\
# yaml-language-server: $schema=./plan.schema.json
plan:
  title: A first plan
  track: direct
  checks:
{checks}
  steps:
    - id: P-1
      title: Say hello from the workspace
      commands:
        - echo "hello from $PWD" > hello-from-reflectloop.txt
      verify:
        - {{file_nonempty: hello-from-reflectloop.txt}}
{names}
"""
_NO_TESTS = "    tree-is-sound: {run: [git, fsck, --connectivity-only, --no-dangling]}"
# Folders that git should not show, each with a file in it whose state tells whether git ignores the folder.
_IGNORED = {OWN_FOLDER: "knowledge/pattern/x.md", ".venv": "pyvenv.cfg", "venv": "pyvenv.cfg", "node_modules": "x.js"}
_IGNORE_COMMENT = "# Records of reflectloop. Without the next line its lessons can be committed like code."
_MOST_SHOWN = 5
_SOURCES = re.compile(r".+\.(?:py|pyi|js|mjs|ts|tsx|go|rs|c|h|cc|cpp|hpp|java|rb)")
_MADE_BY_TOOLS = re.compile(
    r"(?:^|/)(?:\.[^/]+|__pycache__|node_modules|venv|env|build|dist|target|out|[^/]+\.egg-info)/"
)

_TABLES = "agents"  # one table for each agent that the user names


def settings_text(*, triflow: bool = False) -> str:
    """Return a settings file with every setting, its default and its meaning, commented out; `triflow` sets one."""
    lines = ["# Settings of reflectloop for this project. Everything here is optional; these are the defaults.", ""]
    for section, info in config.Config.model_fields.items():
        lines.append(f"[{section}]")
        if section == _TABLES:
            lines += ["# a table for each agent of your own, such as [agents.local]; see docs/agents.md", ""]
            continue
        for name, setting in type(info.default).model_fields.items():
            lines += [f"# {setting.description}", f"# {name} = {_toml(setting.default)}"]
        lines.append("")
    text = "\n".join(lines)
    return text.replace("# triflow = false", "triflow = true") if triflow else text


def _toml(value: object) -> str:
    if value is None:
        return "…"
    if isinstance(value, tuple):
        return json.dumps(value)
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


class InitResult(NamedTuple):
    written: list[str]
    kept: list[str]
    left: list[str]  # what the user must do by hand
    ignored: list[str]  # lines that were added to .gitignore
    tests: list[str]  # the project's test commands, which the first plan runs


def init(start: Path, *, triflow: bool = False, caller: Mapping[str, str]) -> InitResult:
    """Write the files that are missing, and ignore our folder in git; what exists stays as it is."""
    from reflectloop.engine.gating import verify_command  # noqa: PLC0415 - most commands here detect nothing

    folders = open_project_dirs(start)
    tests = [check for check in verify_command.detected(folders.root, caller) if check.kind == "test"]
    wanted = {
        folders.root / config.NAME: settings_text(triflow=triflow),
        folders.own / ".gitignore": store.HIDDEN,
        folders.own / "plan.yaml": first_plan(tests),
        folders.own / "plan.schema.json": json.dumps(plan_schema(), indent=2) + "\n",
    }
    result = InitResult([], [], [], [], [_shell_line(check) for check in tests])
    for path, text in wanted.items():
        name = os.fspath(path.relative_to(folders.root))
        if path.exists():
            result.kept.append(name)
        else:
            files.write_atomic(path, text)
            result.written.append(name)
    if triflow and not config.load(folders.root).publish.triflow:
        result.left.append(f"{config.NAME} exists already: set triflow = true under [publish] in it")
    if not tests:
        result.left.append("no tests were detected; name them in reflectloop.toml: [verify] checks")
    if repository.find(folders.root):
        git = Git(cwd=folders.root)
        _ignore_in_git(git, folders.root, result)
        _name_ignored_sources(git, folders.root, result)
    return result


def first_plan(tests: Sequence[DetectedCheck]) -> str:
    """Return a plan with one harmless step, proven by the project's own tests if it has any."""
    if not tests:
        return _FIRST_PLAN.format(checks=_NO_TESTS, names="        - tree-is-sound")
    named = {re.sub(r"[^\w.-]+", "-", check.name): check for check in tests}
    checks = [f"    {name}: {{run: {_run(check)}, kind: test}}  # {check.reason}" for name, check in named.items()]
    return _FIRST_PLAN.format(checks="\n".join(checks), names="\n".join(f"        - {name}" for name in named))


def _run(check: DetectedCheck) -> str:
    return json.dumps(check.command) if check.cwd == "." else json.dumps(_shell_line(check))


def _shell_line(check: DetectedCheck) -> str:
    command = shlex.join(check.command)
    return command if check.cwd == "." else f"cd {shlex.quote(check.cwd)} && {command}"


def _ignore_in_git(git: Git, root: Path, result: InitResult) -> None:
    """Add our folder and installed environments to .gitignore, so that `git status` stays clean; tracked ones stay."""
    wanted = {
        f"/{name}/": sample
        for name, sample in _IGNORED.items()
        if (name == OWN_FOLDER or (root / name).is_dir())
        and git.attempt("check-ignore", "-q", "--no-index", f"{name}/{sample}").code
        and not git.run("ls-files", "-z", "--", name)
    }
    if not wanted:
        return
    path = root / ".gitignore"
    if path.is_symlink() or (path.exists() and not path.is_file()):
        result.left.append(f"{path.name} is no plain file: let git ignore {', '.join(wanted)}")
        return
    before = path.read_text("utf-8", "surrogateescape") if path.exists() else ""
    joint = "\n" if before and not before.endswith("\n") else ""
    comment = f"{_IGNORE_COMMENT}\n" if f"/{OWN_FOLDER}/" in wanted else ""
    text = f"{before}{joint}{comment}" + "".join(f"{line}\n" for line in wanted)
    files.write_atomic(path, text.encode("utf-8", "surrogateescape"))
    result.ignored.extend(wanted)


def _name_ignored_sources(git: Git, root: Path, result: InitResult) -> None:
    """Name sources that git ignores: a workspace lacks them, except version files that build tools write."""
    ignored = os.fsdecode(git.run("ls-files", "-z", "--others", "--ignored", "--exclude-standard")).split("\0")
    tracked = os.fsdecode(git.run("ls-files", "-z")).split("\0")
    folders = {path.rpartition("/")[0] for path in tracked if _SOURCES.fullmatch(path)}
    manifests = [root / name for name in ("pyproject.toml", "setup.cfg", "setup.py") if name in tracked]
    carried = {
        path for file in manifests if file.is_file() for path in carry.version_files(file.read_text("utf-8", "replace"))
    }
    names = [
        files.display(path)
        for path in ignored
        if _SOURCES.fullmatch(path)
        and not _MADE_BY_TOOLS.search(path)
        and path.rpartition("/")[0] in folders
        and path not in carried
    ]
    if names:
        result.left.append(
            f"git ignores {join_first(names, _MOST_SHOWN)}: where tests need them, list them in "
            "[workspace] carry_copy, or make them in [verify] setup"
        )


def settings(start: Path) -> list[dict[str, Any]]:
    """Return every active setting and the file it comes from."""
    root = project.locate(start)
    sources = config.sources(root)
    out = []
    named = {f"{_TABLES}.{name}": agent for name, agent in sources.config.agents.items()}
    plain = {name: getattr(sources.config, name) for name in config.Config.model_fields if name != _TABLES}
    for section, model in {**plain, **named}.items():
        for name in type(model).model_fields:
            value = model.model_dump(mode="json")[name]
            out.append({"name": f"{section}.{name}", "value": value, "origin": _origin(sources, section, name)})
    return out


def _origin(sources: config.Sources, section: str, name: str) -> str:
    def sets(values: dict[str, Any]) -> bool:
        for part in section.split(".", 1):
            values = values.get(part, {})
        return name in values

    if sets(sources.project if sources.is_trusted or not sources.split.grants else sources.split.always):
        return config.NAME
    origin = "your config.toml" if sets(sources.user) else "default"
    return f"{origin} ({config.NAME} is not trusted)" if sets(sources.project) else origin
