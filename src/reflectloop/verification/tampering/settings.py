"""Judge a changed setting by its key: which direction is stricter, and which keys are harmless."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from reflectloop.verification.tampering import commands

Words = tuple[str, ...]
Judge = Callable[[object, object], str | None]  # why the setting checks less, or None


class SettingRule(NamedTuple):
    """The judge for all keys that match a pattern."""

    keys: re.Pattern[str]
    judge: Judge


_TRUE = frozenset({"true", "yes", "on", "1"})
_OFF = ("off", "warn", "0", "1", "none", "warning", "info", "allow", "suggestion")


def entries(value: object) -> Words:
    """Return a value as a tuple of words, whether it is a list, lines, or comma-separated."""
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return tuple(str(item).strip() for item in value)
    if isinstance(value, bool):
        return (str(value).lower(),)
    text = str(value)
    parts = text.splitlines() if "\n" in text else re.split(r"[,\s]+", text)
    return tuple(part.strip().rstrip(",") for part in parts if part.strip())


def truth(value: object) -> bool:
    return str(value).strip().lower() in _TRUE


def number(value: object) -> float | None:
    match = re.fullmatch(r"-?\d{1,15}(?:\.\d{1,15})?", str(value).strip().rstrip("%"))
    return float(match[0]) if match else None


def _harmless(old: object, new: object) -> str | None:  # noqa: ARG001 - all judges have the same signature
    return None


def _strict_when_true(old: object, new: object) -> str | None:
    return "is no longer on" if truth(old) and not truth(new) else None if truth(new) or old == new else _falsy(new)


def _falsy(new: object) -> str | None:
    return "is switched off" if new is not None else None


def _loose_when_true(old: object, new: object) -> str | None:
    return (
        "is switched on"
        if not truth(old) and new is not None and str(new).lower() not in {"false", "no", "0"}
        else None
    )


def _threshold(old: object, new: object) -> str | None:
    before, after = number(old), number(new)
    if before is None:
        return None
    return "is lower" if after is None or after < before else None


def _limit(old: object, new: object) -> str | None:
    before, after = number(old), number(new)
    if after is None:
        return "was removed" if before is not None else "cannot be read"
    return "is higher" if before is None or after > before else None


def _excluding(old: object, new: object) -> str | None:
    added = [entry for entry in entries(new) if entry not in entries(old)]
    return f"now excludes `{added[0][:60]}`" if added else None


def _including(old: object, new: object) -> str | None:
    before, after = entries(old), entries(new)
    if not before and after:
        return f"now includes only `{', '.join(after)[:60]}`"
    removed = [entry for entry in before if entry not in after]
    return (
        f"no longer includes `{removed[0][:60]}`"
        if removed and after
        else "no longer names what to include"
        if removed
        else None
    )


def _selecting(old: object, new: object) -> str | None:
    removed = [entry for entry in entries(old) if entry not in entries(new)]
    return f"no longer has `{removed[0][:60]}`" if removed and "ALL" not in entries(new) else None


def _filters(old: object, new: object) -> str | None:
    before, after = entries(old), entries(new)
    added = [entry for entry in after if entry not in before and not entry.startswith("error")]
    removed = [entry for entry in before if entry not in after and entry.startswith("error")]
    if added:
        return f"a warning is ignored: `{added[0][:60]}`"
    return f"no longer turns warnings into failures: `{removed[0][:60]}`" if removed else None


def _options(old: object, new: object) -> str | None:
    return commands.options(_line(old), _line(new))


def _line(value: object) -> Sequence[str]:
    return commands.words(
        " ".join(str(word) for word in value) if isinstance(value, list | tuple) else str(value or "")
    )


def _commands(old: object, new: object) -> str | None:
    before, after = _lines(old), _lines(new)
    ignored = [line for line in after if line.startswith("-") and line not in before]
    if ignored:
        return f"a failure of `{ignored[0][:60]}` is ignored"
    return "was removed" if before and not after else commands.recipe(before, after)


def _lines(value: object) -> Words:
    if isinstance(value, list):
        return tuple(
            " ".join(str(word) for word in entry) if isinstance(entry, list) else str(entry) for entry in value
        )
    return tuple(line.strip() for line in str(value or "").splitlines() if line.strip())


def _severity(old: object, new: object) -> str | None:
    was, now = _level(old), _level(new)
    return f"is `{now}` now" if now.startswith(_OFF) and now != was else "was removed" if new is None else None


def _level(value: object) -> str:
    first = value[0] if isinstance(value, list) and value else value
    return str(first).strip().lower()


def _target(old: object, new: object) -> str | None:
    if not isinstance(old, tuple):
        return commands.recipe((), new[1]) if isinstance(new, tuple) else None
    if not isinstance(new, tuple):
        return "was removed"
    lost = [prerequisite for prerequisite in old[0] if prerequisite not in new[0]]
    return f"no longer needs `{lost[0]}`" if lost else commands.recipe(old[1], new[1])


def _registered(old: object, new: object) -> str | None:
    """Return why a counted entry checks less: it is removed or occurs fewer times."""
    return "was removed" if new is None else "occurs fewer times" if (number(old) or 0) > (number(new) or 0) else None


def _loosening(old: object, new: object) -> str | None:
    return None if new is None else unknown(old, new)


def unknown(old: object, new: object) -> str | None:
    """Report any change to a key on no list, since it cannot be assumed harmless."""
    return "changed" if old is not None and new is not None else "was added" if old is None else "was removed"


_TABLE: tuple[tuple[str, Judge], ...] = (
    (r"target .*", _target),
    (
        r"command (?:enable_testing|add_subdirectory|add_test|\w*discover_tests|\w*add_(?:g|unit)?test\w*)\(.*",
        _registered,
    ),
    (r"command (?:set|option)\(.*\b(?:ON|TRUE|1)\b.*", _registered),
    (r"command set_tests_properties\(.*\b(?:DISABLED|WILL_FAIL|SKIP_\w+)\b.*", _loosening),
    (r"command set_tests_properties\((?!.*_EXPRESSION\b).*", _harmless),
    (
        r"(?:testenv:|tox\.env\.|env\.)(?:docs?|docset|update|build|release|publish|serve|changelog|cog|dev)\b.*",
        _harmless,
    ),
    (r"scripts\.(?:pre|post)(?:test|lint|check|build)\S*|scripts\.(?:pre|post)?install", unknown),
    (r"scripts\.(?!.*\.).*|.*(?:^|\.)scripts\..*|.*\.tasks\..*", _commands),
    (r"(?:.*\.)?addopts", _options),
    (r"(?:.*\.)?filterwarnings", _filters),
    (r"testenv.*\.commands(?:_pre|_post)?|.*\.commands|cibuildwheel\.test-command", _commands),
    (
        r"(?:.*\.)?(?:fail_under|fail-under|min_coverage)|.*coverageThreshold.*|.*\.(?:statements|branches|functions|lines)",
        _threshold,
    ),
    (r"(?:.*\.)?max-(?:complexity|warnings|args|branches|statements|returns|locals|nested-blocks)", _limit),
    (r".*(?:per-file-ignores|per_file_ignores).*", _excluding),
    (
        (
            r"(?:.*\.)?(?:extend-)?(?:ignore|exclude|ignores|ignore-patterns|ignore-paths|ignore_patterns|disable|disable_error_code|"
            r"norecursedirs|omit|exclude_lines|exclude_also|partial_branches|skip|skips|unfixable|eslintIgnore|ignorePatterns|"
            r"modulePathIgnorePatterns|testPathIgnorePatterns|coveragePathIgnorePatterns|watchPathIgnorePatterns|suppress_warnings)"
        ),
        _excluding,
    ),
    (
        r"(?:.*\.)?(?:testpaths|python_files|python_classes|python_functions|testMatch|testRegex|roots|spec|files|include|source)",
        _including,
    ),
    (
        r"(?:.*\.)?(?:extend-)?(?:select|enable|enable_error_code|plugins|load-plugins|envlist|env_list|extends)",
        _selecting,
    ),
    (
        (
            r"(?:.*\.)?(?:xfail_strict|strict\w*|warn_\w+|disallow_\w+|check_untyped_defs|no_implicit\w*|branch|empty_parameter_set_mark|"
            r"noImplicit\w*|noUnused\w*|noUnchecked\w*|noFallthrough\w*|exactOptional\w*|checkJs|isolatedModules|useUnknown\w*|"
            r"extra_checks|local_partial_types|forbidOnly|bail|errorOnDeprecated|alwaysStrict|forceConsistent\w*)"
        ),
        _strict_when_true,
    ),
    (
        (
            r"(?:.*\.)?(?:ignore_missing_imports|ignore_errors|allow_\w+|implicit_optional|implicit_reexport|skipLibCheck|allow\w+|"
            r"follow_imports|passWithNoTests|ignore_outcome|ignore_errors|forceExit|suppressImplicit\w*)"
        ),
        _loose_when_true,
    ),
    (r"(?:.*\.)?rules\..*|lints\..*|workspace\.lints\..*|(?:basedpyright|pyright)\.report\w+|report\w+", _severity),
    (
        (
            r"(?:pytest|tool:pytest)\.(?:markers|minversion|log_\w+|junit_\w+|console_output_style|required_plugins|cache_dir|asyncio_\w+|"
            r"anyio_mode|timeout\w*|usefixtures_help|faulthandler_timeout|doctest_\w+|python_paths|verbosity_\w+|tmp_path_\w+|env_files)"
        ),
        _harmless,
    ),
    (
        (
            r"(?:black|isort|yapf|autopep8|docformatter|ruff\.format|ruff\.isort|ruff\.lint\.isort)\..*|ruff\.(?:lint\.)?(?:line-length|"
            r"target-version|src|fix|show-\w+|cache-dir|output-format|preview|indent-width|pydocstyle.*|fixable|unsafe-fixes|required-version)"
        ),
        _harmless,
    ),
    (
        r"coverage\.(?:html|xml|json|paths|lcov)\..*|coverage\.report\.(?:show_\w+|precision|sort|skip_covered|skip_empty)",
        _harmless,
    ),
    (r"coverage\.run\.(?:parallel|concurrency|data_file|dynamic_context|context|relative_files|core|patch)", _harmless),
    (
        r"mypy\.(?:python_version|pretty|show_\w+|color_output|cache_dir|sqlite_cache|incremental|files_help|mypy_path|local_partial\w*)",
        _harmless,
    ),
    (r"(?:pyright|basedpyright)\.(?:pythonVersion|pythonPlatform|venv\w*)", _harmless),
    (
        (
            r"(?:testenv|tox|gh-actions|gh|env|env_run_base).*\.(?:deps|dependency_groups|description|package|wheel_build_env|basepython|"
            r"base_python|pass_?env|allowlist_externals|whitelist_externals|extras|min_?version|requires|isolated_build|constrain_\w+|"
            r"package_env|labels|skip_missing_interpreters|usedevelop|platform|python|runner|groups|depends|change_?dir)"
        ),
        _harmless,
    ),
    (
        r"(?:testenv|tox\.env).*\.(?:skip_install|use_frozen_constraints|no_default_groups|parallel_show_output)",
        _harmless,
    ),
    (r"hatch\.(?!envs\..*(?:scripts|matrix)).*", _harmless),
    (r"flake8\.(?:max-line-length|max_line_length|application-\w+|show-source|statistics|count|format)", _harmless),
    (
        r"profile\.(?!test).*|bin|lib\.(?:name|path|crate-type|proc-macro)|config\..*|nx\..*|husky\..*|prettier.*|babel\..*",
        _harmless,
    ),
    (r"(?:typos|codespell|towncrier|check-manifest|interrogate|vulture)\.(?!ignore|skip).*", _harmless),
    (r"importlinter\.(?!.*ignore_imports).*", _selecting),
    (r"compilerOptions\.(?:types|typeRoots|plugins|jsx)", _harmless),
)
RULES = tuple(SettingRule(re.compile(keys), judge) for keys, judge in _TABLE)


def judge(key: str, old: object, new: object) -> str | None:
    """Return why the setting checks less now, or None."""
    judge_value = next((rule.judge for rule in RULES if rule.keys.fullmatch(key)), unknown)
    return judge_value(old, new)
