"""tox and nox, which run checks in environments of their own."""

from __future__ import annotations

from collections.abc import Callable

from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools import record
from reflectloop.verification.tools.project import ProjectPart
from reflectloop.verification.tools.python import ENDINGS
from reflectloop.verification.tools.record import Hint


def _by_file(tool: str, *names: str) -> Callable[[ProjectPart, list[Hint]], DetectedCheck | None]:
    def find(part: ProjectPart, project_hints: list[Hint]) -> DetectedCheck | None:  # noqa: ARG001
        name = part.first(names)
        return part.check(tool, "test", tool, (tool,), f"{name} exists, and nothing simpler") if name else None

    return find


TOOLS = (
    record.Tool(
        name="tox",
        kind="test",
        precedence=10,
        call=record.Call(programs=("tox",), modules=("tox",), python_program="tox", python_module=True),
        run=record.Run(valued=frozenset(["-e", "-c"])),
        endings=ENDINGS,
        detect=record.PythonTool(find=_by_file("tox", "tox.ini", "tox.toml"), manifests=("tox.ini",)),
        output=record.Output(kinds=(("test", "tox"),)),
        files=record.Files(
            runner="tox.toml",
            mixed_runner="tox.ini",
            artefact_folders=".tox",
            modules="tox virtualenv",
            executables="tox",
            pyproject="tox tox-*",
            ini_sections=r"testenv.*|tox|tox:.*|gh-actions.*|gh",
            commands="tox",
        ),
        tampering=record.Tampering(
            settings=(
                record.SettingRule(
                    r"(?:testenv:|tox\.env\.|env\.)(?:docs?|docset|update|build|release|publish|serve|changelog|cog|dev)\b.*",
                    "harmless",
                    first=True,
                ),
                record.SettingRule(r"(?:.*\.)?set_?env(?:\..*)?", "environment", first=True),
                record.SettingRule(r"(?:testenv|tox|env|env_run_base)\S*\.platform", "unknown", first=True),
                record.SettingRule(r"(?:tox\.)?skip_missing_interpreters", "loose_when_true", first=True),
                # Commands and environments are compared by `tampering.recipes`.
                record.SettingRule(r"(?:.*\.)?ignore_(?:outcome|errors)", "loose_when_true", first=True),
                record.SettingRule(
                    r"(?:testenv|tox|gh-actions|gh|env|env_run_base|env_pkg_base)(?::[^.]*)?\..*",
                    "harmless",
                    first=True,
                ),
            ),
            variables=("TOX_ENV_DIR", "TOX_ENV_NAME"),
            imports=("tox",),
        ),
    ),
    record.Tool(
        name="nox",
        kind="test",
        precedence=5,
        call=record.Call(programs=("nox",), modules=("nox",), python_program="nox", python_module=True),
        run=record.Run(valued=frozenset(["-s", "-f"])),
        endings=ENDINGS,
        detect=record.PythonTool(find=_by_file("nox", "noxfile.py"), manifests=("noxfile.py",)),
        output=record.Output(kinds=(("test", "nox"),)),
        files=record.Files(
            runner="noxfile.py",
            artefact_folders=".nox",
            modules="nox",
            executables="nox",
            pyproject="nox",
            ini_sections="nox",
            commands="nox",
        ),
        tampering=record.Tampering(variables=(r"NOX_\w+",)),
    ),
)
