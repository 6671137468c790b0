"""The TypeScript compiler as a type checker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import DetectedCheck, Kind
from reflectloop.verification.tools import record
from reflectloop.verification.tools.json_values import table
from reflectloop.verification.tools.project import PackageScripts, ProjectPart

_STRICTNESS = lazy(r"(?i)strict|^no[A-Z]|check|allow|isolated|exact|useUnknown|types$|typeRoots|plugins|jsx$")


def _find(part: ProjectPart, packed: PackageScripts) -> DetectedCheck | None:
    config = part.json("tsconfig.json")
    only_references = config.get("references") and config.get("files") == []
    if part.first(["tsconfig.json"]) and "typescript" in packed.needs and not only_references:
        return part.check("tsc", "type", "tsc", ("tsc", "--noEmit"), "tsconfig.json exists")
    return None


def _kind(part: ProjectPart, arguments: Sequence[str], requested: Kind | None) -> Kind:
    """Return the kind of a call: one that writes its output is a build."""
    if requested == "type" or "--noEmit" in arguments:
        return "type"
    project = next((after for word, after in pairwise(arguments) if word in ("-p", "--project")), "tsconfig.json")
    return "type" if table(part.json(project).get("compilerOptions")).get("noEmit") else "build"


def _steering(document: Mapping[str, Any]) -> Mapping[str, object]:
    parts: dict[str, object] = {key: document[key] for key in ("exclude", "extends") if key in document}
    parts["tsconfig"] = {key: document[key] for key in ("include", "files") if key in document}
    options = document.get("compilerOptions", {})
    parts["compilerOptions"] = {key: value for key, value in options.items() if _STRICTNESS.search(key)}
    return parts


TOOLS = (
    record.Tool(
        name="tsc",
        kind="type",
        precedence=110,
        call=record.Call(programs=("tsc", "vue-tsc"), needs_shell=True),
        run=record.Run(arguments=("--pretty", "false")),
        detect=record.NodeTool(find=_find),
        kind_of_call=_kind,
        output=record.Output(kinds=(("type", "tsc vue-tsc flow"),), signs=r"\berror TS\d{3,5}: "),
        files=record.Files(
            mixed_lint="tsconfig*.json jsconfig*.json",
            artefacts="*.tsbuildinfo",
            executables="tsc ts-node tsx",
            commands="tsc",
            script_names="tsc",
            parts=(record.PartReader(r"[tj]sconfig.*\.json", "jsonc", select=_steering),),
        ),
        tampering=record.Tampering(
            settings=(
                record.SettingRule(
                    r"(?:.*\.)?(?:noImplicit\w*|noUnused\w*|noUnchecked\w*|noFallthrough\w*|exactOptional\w*|checkJs|"
                    r"isolatedModules|useUnknown\w*|alwaysStrict|forceConsistent\w*)",
                    "strict_when_true",
                ),
                record.SettingRule(r"(?:.*\.)?(?:skipLibCheck|noCheck|suppressImplicit\w*)", "loose_when_true"),
                record.SettingRule(r"compilerOptions\.(?:types|typeRoots|plugins|jsx)", "harmless"),
            ),
            silences_file=(r"//\s*@ts-nocheck", r"^//\s*tslint:disable\s*$"),
            silences_line=(r"@ts-(?:ignore|expect-error)",),
        ),
    ),
)
