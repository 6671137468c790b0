"""Vitest."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from reflectloop.system import beneath
from reflectloop.system.patterns import lazy
from reflectloop.verification.tools import code_blocks, javascript, record
from reflectloop.verification.tools.selectors import by_pattern

_LOADER = "--configLoader=runner"
_NEEDED = {"vitest": (3, 1), "vite": (6, 1)}  # the first to know the option
_NOT_FOR_IT = lazy(r"\b(__dirname|__filename|require\s*\(|module\.exports)")
_LARGEST = 1 << 20  # bytes of a configuration or a manifest
_NUMBERS = lazy(r"(\d+)\.(\d+)")


def _loader(folder: Path, modules: Sequence[Path]) -> tuple[str, ...]:
    """Return the option that loads the configuration without a temporary file, or nothing if it is unsupported.

    The file would be written into node_modules, which is carried read-only.
    """
    configs = [path for kind in ("vitest", "vite") for path in folder.glob(f"{kind}.config.*")]
    if not configs or any(_NOT_FOR_IT.search(_text(path)) for path in configs):
        return ()
    supported = all(_version(modules, name) >= first for name, first in _NEEDED.items())
    return (_LOADER,) if supported else ()


def _text(path: Path) -> str:
    """Return a configuration's text; what cannot be read may hold anything that the option is not for."""
    try:
        return beneath.read_path(path, _LARGEST).decode("utf-8", "replace")
    except OSError:
        return "__dirname"


def _version(modules: Sequence[Path], name: str) -> tuple[int, int]:
    for folder in modules:
        try:
            version = json.loads(beneath.read_path(folder / name / "package.json", _LARGEST))["version"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        match = _NUMBERS.match(str(version))
        if match:
            return int(match[1]), int(match[2])
    return 0, 0


def _test_blocks(text: str) -> dict[str, object]:
    """Return the blocks of a Vite configuration that configure the tests."""
    plain = code_blocks.without_comments(text)
    heads = re.finditer(r"\btest\s*:\s*\{", plain)
    return code_blocks.numbered(
        "block", (plain[head.start() : code_blocks.closing(plain, head.end())] for head in heads)
    )


TOOLS = (
    record.Tool(
        name="vitest",
        kind="test",
        precedence=50,
        call=record.Call(programs=("vitest run", "vitest"), watches=r"\bvitest (watch|dev)\b"),
        run=record.Run(
            format="vitest-json",
            place="file",
            arguments=("--reporter=default", "--reporter=json", "--outputFile.json={report}", "--bail=0"),
            env=javascript.CI,
            valued=frozenset(["-t", "-c", "--config", "--project", "--dir"]),
            local_options=_loader,
        ),
        select=by_pattern("--testNamePattern", joined=True),
        endings=javascript.ENDINGS,
        detect=record.NodeTool(
            find=javascript.configured("vitest", r"^vitest\.(config|workspace)\.", ("vitest", "run")),
            reaches_members=True,
        ),
        output=record.Output(  # its JSON report is jest's
            kinds=(("test", "vitest"),),
            text=record.TextFormat(
                "vitest",
                ("Test Files ", "No test files found"),
                r"^ +Tests +(?:\d.*|no tests)$",
                cases=(
                    (rf"^\s+[✓√] (?P<test>.+?){javascript.TIME}$", "passed"),
                    (rf"^\s+[×✕❯] (?P<test>[^(]+? > .+?){javascript.TIME}$", "failed"),
                    (r"^\s+↓ (?P<test>.+?)(?: \[skipped\])?$", "skipped"),
                ),
                block=r"^\s*FAIL\s+(?P<test>\S.+)$",
                ends=r"^⎯{5,}|^\s+Test Files ",
                unloaded=r"^⎯+ Failed Suites \d+ ⎯+$",
                empty=r"^No test files found, exiting with code \d",
            ),
            junit_names=("vitest",),
        ),
        files=record.Files(
            runner="vitest.config.* vitest.workspace.*",
            hooks="vitest.setup.* vitest-setup.*",
            mixed_runner="vite.config.*",
            artefact_folders=".vite",
            executables="vitest",
            package_keys="vitest",
            commands="vitest",
            script_names="vitest",
            parts=(record.PartReader(r"vite\.config\..*", "text", select=_test_blocks),),
        ),
        tampering=record.Tampering(
            settings=(
                record.SettingRule(r"test\.dangerouslyIgnore\w+", "loose_when_true"),
                record.SettingRule(r"(?:test|resolve)\.alias\..*", "aliases"),
                record.SettingRule(
                    r"test\.(?!setupFiles|globalSetup|runner|retry|bail|testNamePattern|projects|dir$|root$)\w+(?:\..*)?|"
                    r"(?:resolve|ssr|define|esbuild|optimizeDeps|css|server|build|worker|json|root|base|cacheDir|"
                    r"publicDir|envDir|logLevel|clearScreen|preview|appType|oxc|plugins)(?:\..*)?",
                    "harmless",
                ),
            ),
            loosens=(r"--pass-with-no-tests",),
            source_signs=(
                record.SourceSign(
                    r"VITEST_(?:WORKER|POOL)_ID|import\.meta\.vitest",
                    "asks whether a test runner runs it",
                    javascript.CODE,
                ),
            ),
            imports=("vitest",),
            javascript_names=("vitest",),
            javascript_variables=(r"VITEST(?:_\w+)?",),
        ),
    ),
)
