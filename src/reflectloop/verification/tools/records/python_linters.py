"""Ruff, Flake8, mypy and Pyright, which are run, and other Python linters, which are recognised and protected."""

from __future__ import annotations

from reflectloop.verification.tools import record
from reflectloop.verification.tools.project import ProjectPart, table
from reflectloop.verification.tools.selectors import files_alone


def _names_its_files(part: ProjectPart) -> bool:
    """Return True if the settings of mypy say what it checks."""
    tables = [table(part.toml("pyproject.toml"), "tool", "mypy")]
    tables += [table(part.ini(name), "mypy") for name in ("mypy.ini", ".mypy.ini", "setup.cfg")]
    return any(key in settings for settings in tables for key in ("files", "packages", "modules"))


_LEFT_OUT = frozenset(
    record.words(
        "-q --quiet -v --verbose -j --jobs --color --no-color --statistics --count --fix --diff --watch -w "
        "--exit-zero --exit-non-zero-on-fix --no-cache --cache-dir --format --output-format --output-file "
        "--tee --show-source --show-files --benchmark --show-fixes --unsafe-fixes --pretty --no-pretty "
        "--show-error-codes --show-error-context --show-column-numbers --no-error-summary --install-types "
        "--non-interactive --junit-xml --html-report --xml-report --txt-report --cobertura-xml-report "
        "--outputjson --stats --no-incremental --sqlite-cache"
    )
)
_FLAKE8_VALUED = frozenset(
    record.words(
        "--ignore --extend-ignore --select --extend-select --max-line-length --max-complexity --max-doc- "
        "length --exclude --extend-exclude --filename --per-file-ignores --config --append-config --builtins "
        "--indent-size --format -j --jobs --output-file --color --enable-extensions --application-import- "
        "names --import-order-style --docstring-convention"
    )
)
_RUFF_VALUED = frozenset(
    record.words(
        "--select --ignore --extend-select --extend-ignore --per-file-ignores --extend-per-file-ignores "
        "--config --exclude --extend-exclude --target-version --line-length --output-format --output-file "
        "--cache-dir --color --fixable --unfixable"
    )
)
_MYPY_VALUED = frozenset(
    record.words(
        "--config-file --python-version --platform --exclude --disable-error-code --enable-error-code "
        "--follow-imports --cache-dir --python-executable --untyped-calls-exclude --junit-xml --html-report "
        "--xml-report --txt-report --cobertura-xml-report -p --package -m --module -c --always-true --always- "
        "false --package-root"
    )
)
_PYRIGHT_VALUED = frozenset(
    record.words("-p --project --pythonversion --pythonplatform --pythonpath --level -v --venvpath --threads")
)


TOOLS = (
    record.Tool(
        name="ruff",
        kind="lint",
        precedence=90,
        call=record.Call(
            programs=("ruff check",), modules=("ruff check", "ruff"), python_program="ruff", python_module=True
        ),
        run=record.Run(
            format="ruff-json",
            place="file",
            arguments=("--output-format=json", "--output-file={report}", "--no-cache"),
            valued=_RUFF_VALUED,
        ),
        select=record.Selector(files_alone),
        detect=record.PythonLinter(
            files=("ruff.toml", ".ruff.toml"),
            hooks=("ruff", "ruff-check"),
            command=("ruff", "check"),
            left_out=_LEFT_OUT,
        ),
        output=record.Output(
            signs=r"^All checks passed!$|^Found \d+ errors?\.(?:\n|$)|^ *--> .*\n(?:.*\n){1,12}help: ",
            clean=r"All checks passed!",
        ),
        files=record.Files(
            lint="ruff.toml .ruff.toml",
            artefact_folders=".ruff_cache",
            modules="ruff",
            executables="ruff",
            pyproject="ruff",
            commands="ruff",
            parts=(record.PartReader(r"\.?ruff\.toml", "toml", "ruff"),),
        ),
        tampering=record.Tampering(
            settings=(
                record.SettingRule(
                    r"(?:ruff\.format|ruff\.isort|ruff\.lint\.isort)\..*|ruff\.(?:lint\.)?(?:line-length|"
                    r"target-version|src|fix|show-\w+|cache-dir|output-format|preview|indent-width|pydocstyle.*|"
                    r"fixable|unsafe-fixes|required-version)",
                    "harmless",
                ),
            ),
            narrows=(r"--extend-ignore\S*", r"--extend-exclude\S*", r"--per-file-ignores\S*", "--exit-zero"),
            silences_file=(r"#\s*(?:ruff|flake8):\s*noqa(?!:\s*[A-Z])",),
            silences_line=(r"#\s*noqa\b",),
        ),
    ),
    record.Tool(
        name="flake8",
        kind="lint",
        precedence=88,
        call=record.Call(programs=("flake8",), modules=("flake8",), python_program="flake8", python_module=True),
        run=record.Run(arguments=("--format=default",), valued=_FLAKE8_VALUED),
        select=record.Selector(files_alone),
        detect=record.PythonLinter(files=(".flake8",), hooks=("flake8",), sections=("flake8",), left_out=_LEFT_OUT),
        files=record.Files(
            lint=".flake8",
            modules="flake8 pyflakes pycodestyle",
            executables="flake8",
            pyproject="flake8 flake8-*",
            ini_sections=r"flake8.*|pycodestyle|pydocstyle|pep8",
            commands="flake8",
            parts=(record.PartReader(r"\.flake8", "ini"),),
        ),
        tampering=record.Tampering(
            settings=(
                record.SettingRule(
                    r"flake8\.(?:max-line-length|max_line_length|application-\w+|show-source|statistics|count|format)",
                    "harmless",
                ),
            ),
        ),
    ),
    record.Tool(
        name="mypy",
        kind="type",
        precedence=130,
        call=record.Call(programs=("mypy",), modules=("mypy",), python_program="mypy", python_module=True),
        run=record.Run(
            arguments=(
                "--show-column-numbers",
                "--show-error-codes",
                "--no-pretty",
                "--hide-error-context",
                "--no-color-output",
                "--cache-dir={kept}",
            ),
            valued=_MYPY_VALUED,
        ),
        detect=record.PythonLinter(
            files=("mypy.ini", ".mypy.ini"),
            hooks=("mypy",),
            sections=("mypy",),
            names_its_files=_names_its_files,
            left_out=_LEFT_OUT,
        ),
        output=record.Output(
            kinds=(("type", "mypy"),),
            signs=(
                r"^Found \d+ errors? in \d+ files? \(checked |^Success: no issues found in |"
                r": error: .*  \[[a-z-]+\]$"
            ),
            clean=r"Success: no issues found in \d+ source files?",
        ),
        files=record.Files(
            lint="mypy.ini .mypy.ini",
            artefact_folders=".mypy_cache",
            modules="mypy",
            executables="mypy",
            pyproject="mypy mypy-*",
            ini_sections=r"mypy.*",
            commands="mypy",
            parts=(record.PartReader(r"\.?mypy\.ini", "ini"),),
        ),
        tampering=record.Tampering(
            settings=(
                record.SettingRule(
                    r"mypy\.(?:python_version|pretty|show_\w+|color_output|cache_dir|sqlite_cache|incremental|files_help|"
                    r"mypy_path|local_partial\w*)",
                    "harmless",
                ),
            ),
            silences_file=(r"#\s*mypy:\s*(?:ignore-errors|disable|allow)", r"^#\s*type:\s*ignore\s*$"),
            silences_line=(r"#\s*type:\s*ignore",),
        ),
    ),
    record.Tool(
        name="pyright",
        kind="type",
        precedence=120,
        call=record.Call(programs=("pyright", "basedpyright"), modules=("pyright",), python_program="pyright"),
        run=record.Run(format="pyright-json", arguments=("--outputjson",), valued=_PYRIGHT_VALUED),
        detect=record.PythonLinter(
            files=("pyrightconfig.json",),
            hooks=("pyright", "basedpyright"),
            command=("pyright",),
            left_out=_LEFT_OUT - {"-v"},
        ),
        output=record.Output(
            kinds=(("type", "pyright basedpyright"),),
            findings_keys="generalDiagnostics",
            signs=(
                r"^\d+ errors?, \d+ warnings?, \d+ informations?|\(report[A-Z]\w+\)$|"
                r"^ +\S+:\d+:\d+ - \w+: .*\(report"
            ),
            clean=r"\d+ errors?, 0 warnings.*|0 errors, .*",
        ),
        files=record.Files(
            lint="pyrightconfig*.json basedpyrightconfig*.json",
            modules="pyright",
            executables="pyright",
            pyproject="pyright basedpyright",
            commands="pyright",
        ),
        tampering=record.Tampering(
            settings=(
                record.SettingRule(r"(?:basedpyright|pyright)\.report\w+|report\w+", "severity"),
                record.SettingRule(r"(?:pyright|basedpyright)\.(?:pythonVersion|pythonPlatform|venv\w*)", "harmless"),
            ),
            silences_file=(r"^#\s*pyright:\s*(?:basic|false|report\w+\s*=\s*false)",),
            silences_line=(r"#\s*pyright:\s*ignore",),
        ),
    ),
    record.Tool(
        name="pylint",
        kind="lint",
        precedence=85,
        output=record.Output(
            signs=r"^Your code has been rated at |^\*{5,} Module ",
            clean=r"Your code has been rated at 10\.00/10.*",
            findings_keys="messages statistics",
        ),
        files=record.Files(
            lint=".pylintrc* pylintrc",
            modules="pylint",
            executables="pylint",
            pyproject="pylint",
            ini_sections=r"pylint.*",
            commands="pylint",
            parts=(record.PartReader(r"\.?pylintrc", "ini", "pylint"),),
        ),
        tampering=record.Tampering(
            silences_file=(r"#\s*pylint:\s*(?:skip-file|disable=all)",),
            silences_line=(r"#\s*pylint:\s*disable",),
        ),
    ),
    record.Tool(
        name="black",
        kind="lint",
        precedence=71,
        output=record.Output(
            signs=r"^(?:All done!|Oh no!) .*|^would reformat ",
            clean=r"All done! .*|\d+ files? (?:left unchanged|already formatted|would be left unchanged)\.?",
        ),
        files=record.Files(modules="black", executables="black", pyproject="black", commands="black"),
        tampering=record.Tampering(
            settings=(record.SettingRule(r"(?:black|isort|yapf|autopep8|docformatter)\..*", "harmless"),),
        ),
    ),
    record.Tool(
        name="isort",
        kind="lint",
        files=record.Files(
            lint=".isort.cfg",
            modules="isort",
            executables="isort",
            pyproject="isort",
            ini_sections="isort",
            commands="isort",
        ),
        tampering=record.Tampering(silences_file=(r"^#\s*isort:\s*skip_file",)),
    ),
    record.Tool(
        name="bandit",
        kind="lint",
        output=record.Output(findings_keys="errors metrics results"),
        files=record.Files(
            lint=".bandit* bandit.yaml bandit.yml bandit.toml",
            modules="bandit",
            executables="bandit",
            pyproject="bandit",
            ini_sections="bandit",
            commands="bandit",
            parts=(record.PartReader(r"bandit\.ya?ml", "yaml", "bandit"), record.PartReader(r"\.bandit", "ini")),
        ),
        tampering=record.Tampering(
            settings=(record.SettingRule(r"bandit\.tests", "including_all"),),
            silences_line=(r"#\s*nosec\b",),
        ),
    ),
    record.Tool(
        name="import-linter",
        kind="lint",
        files=record.Files(
            lint=".importlinter",
            artefact_folders=".import_linter_cache",
            pyproject="importlinter",
            ini_sections=r"importlinter.*",
            commands="lint-imports",
        ),
        tampering=record.Tampering(
            settings=(record.SettingRule(r"importlinter\.(?!.*ignore_imports).*", "selecting"),)
        ),
    ),
    record.Tool(
        name="other-type-checkers",
        kind="type",
        output=record.Output(kinds=(("type", "pyre pytype ty pyrefly"),)),
        files=record.Files(artefact_folders=".pytype", pyproject="ty pytype pyre pyrefly"),
    ),
    record.Tool(
        name="other-python-linters",
        kind="lint",
        files=record.Files(
            lint=".pycodestyle .pydocstyle* .codespellrc typos.toml _typos.toml",
            pyproject=(
                "pycodestyle pydocstyle vulture interrogate codespell yapf autopep8 deptry refurb djlint typos "
                "pydoclint nitpick ssort check-manifest slotscheck darglint autoflake pyupgrade docformatter"
            ),
            ini_sections="vulture|codespell",
            commands="deptry",
        ),
        tampering=record.Tampering(
            settings=(
                record.SettingRule(
                    r"(?:typos|codespell|towncrier|check-manifest|interrogate|vulture)\.(?!ignore|skip).*", "harmless"
                ),
            )
        ),
    ),
)
