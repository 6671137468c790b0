"""Python builds, coverage, environments and task runners; and test runners that are only protected."""

from __future__ import annotations

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools import record
from reflectloop.verification.tools.project import ProjectPart, at
from reflectloop.verification.tools.record import Hint

_EXTENSION = lazy(r"\b(Extension\s*\(|ext_modules\s*=|cythonize\s*\(|cffi_modules\s*=)")


def _find_extensions(part: ProjectPart, project_hints: list[Hint]) -> DetectedCheck | None:  # noqa: ARG001
    script = part.text("setup.py")
    modules = at(part.toml("pyproject.toml"), "tool", "setuptools", "ext-modules")
    if not _EXTENSION.search(script) and not (modules and script):
        return None
    command = ("python", "setup.py", "build_ext", "--inplace")
    return part.check("build-ext", "build", "setuptools", command, "setup.py builds extension modules")


TOOLS = (
    record.Tool(
        name="setuptools",
        kind="build",
        run=record.Run(),
        detect=record.PythonTool(find=_find_extensions, manifests=("pyproject.toml", "setup.py", "setup.cfg")),
        files=record.Files(
            mixed_runner="pyproject.toml setup.cfg",
            artefacts="*.pyc *.pyo *.egg-link",
            artefact_folders="__pycache__ .eggs site-packages dist-packages",
            hooks="sitecustomize.py usercustomize.py *.pth",
            modules="pip setuptools wheel pkg_resources _distutils_hack",
            executables="python python2 python3 pip pip3",
            ini_sections="aliases|test|run|report|paths|html|xml",
        ),
    ),
    record.Tool(
        name="coverage",
        files=record.Files(
            runner=".coveragerc .coveragerc.toml",
            artefacts=".coverage .coverage.*",
            modules="coverage",
            executables="coverage",
            pyproject="coverage coverage-*",
            ini_sections=r"coverage:.*",
            commands="coverage",
            parts=(record.PartReader(r"\.coveragerc", "ini", "coverage"),),
        ),
        tampering=record.Tampering(
            settings=(
                record.SettingRule(
                    r"coverage\.(?:html|xml|json|paths|lcov)\..*|"
                    r"coverage\.report\.(?:show_\w+|precision|sort|skip_covered|skip_empty)",
                    "harmless",
                    first=True,
                ),
                record.SettingRule(
                    r"coverage\.run\.(?:parallel|concurrency|data_file|dynamic_context|context|relative_files|core|patch)",
                    "harmless",
                ),
            ),
            silences_line=(r"#\s*pragma:\s*no\s*(?:cover|branch)",),
        ),
    ),
    record.Tool(
        name="nose",
        kind="test",
        files=record.Files(
            runner="nose.cfg .noserc", modules="nose nose2 ward green stestr", ini_sections="nosetests|green"
        ),
        tampering=record.Tampering(imports=("nose2?",)),
    ),
    record.Tool(
        name="behave",
        kind="test",
        files=record.Files(modules="behave robot tavern", pyproject="behave robot", commands="behave"),
    ),
    record.Tool(name="mutmut", files=record.Files(runner=".mutmut*", pyproject="mutmut")),
    record.Tool(
        name="hatch",
        files=record.Files(executables="hatch", pyproject="hatch flit-test", commands="hatch (?:run|test)"),
        tampering=record.Tampering(
            settings=(record.SettingRule(r"hatch\.(?!envs\..*(?:scripts|matrix)).*", "harmless"),)
        ),
    ),
    record.Tool(
        name="cibuildwheel",
        files=record.Files(pyproject="cibuildwheel"),
        tampering=record.Tampering(settings=(record.SettingRule(r"cibuildwheel\.test-command", "commands"),)),
    ),
    record.Tool(
        name="python-environments",
        files=record.Files(
            artefact_folders=".venv venv",
            dependencies=(
                "uv.lock poetry.lock pdm.lock pylock*.toml pipfile pipfile.lock requirements*.txt requirements*.in "
                "*-requirements.txt *_requirements.txt constraints*.txt environment.y*ml conda-lock.yml pixi.lock"
            ),
            runner="pip.conf",
            executables="poetry pdm uv uvx pipenv",
            pyproject="poe taskipy doit invoke",
            commands="uv run|poetry run",
        ),
    ),
    record.Tool(
        name="pre-commit",
        files=record.Files(
            hooks=".pre-commit-config.y*ml .pre-commit-hooks.y*ml", executables="pre-commit", commands="pre-commit"
        ),
    ),
)
