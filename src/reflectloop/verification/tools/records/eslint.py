"""ESLint."""

from __future__ import annotations

from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools import record
from reflectloop.verification.tools.project import PackageScripts, ProjectPart
from reflectloop.verification.tools.selectors import files_alone

_CONFIG = r"^(eslint\.config\.[cm]?[jt]s|\.eslintrc(\.(json|ya?ml|[cm]?js))?)$"


def _find(part: ProjectPart, packed: PackageScripts) -> DetectedCheck | None:
    name = next(part.matching(_CONFIG), None)
    if name is None and "eslintConfig" not in packed.manifest:
        return None
    reason = f"{name} exists" if name else "package.json has eslintConfig"
    return part.check("eslint", "lint", "eslint", ("eslint", "."), reason)


TOOLS = (
    record.Tool(
        name="eslint",
        kind="lint",
        precedence=75,
        call=record.Call(programs=("eslint",)),
        run=record.Run(format="eslint-json", place="file", arguments=("--format=json", "--output-file={report}")),
        select=record.Selector(files_alone),
        detect=record.NodeTool(find=_find),
        output=record.Output(
            findings_keys="filePath messages", signs=r"^✖ \d+ problems? \(\d+ errors?, \d+ warnings?\)"
        ),
        files=record.Files(
            lint=".eslintrc* eslint.config.* .eslintignore",
            artefacts=".eslintcache",
            executables="eslint",
            package_keys="eslintConfig eslintIgnore",
            commands="eslint",
            script_names="eslint",
            parts=(record.PartReader(r"\.eslintrc", "jsonc"),),
        ),
        tampering=record.Tampering(
            settings=(record.SettingRule(r"(?:.*\.)?eslintIgnore", "excluding"),),
            loosens=(r"--max-warnings[ =](?:-1|[1-9]\d*)",),
            narrows=(
                *("--quiet", r"--rule\b.*", r"(?:-c|--config)\b.*", "--no-eslintrc", "--no-config-lookup"),
                *(r"--ignore-p\w+.*", r"--resolve-plugins\S*", r"--rulesdir.*"),
            ),
            valued_flags=record.words(
                "--max-warnings --rule -c --config --ext --ignore-pattern --ignore-path --rulesdir --format -f --env "
                "--parser --plugin --cache-location --resolve-plugins-relative-to"
            ),
            silences_file=(r"^/\*\s*eslint-disable\s*\*/",),
            silences_line=("eslint-disable",),
        ),
    ),
)
