"""Say which variables make checks do less: options of tools, folders of modules, programs that start first."""

from __future__ import annotations

import re
from collections.abc import Callable

from reflectloop.system.patterns import lazy
from reflectloop.verification.tampering import commands

_OF_NODE = lazy(r"[\"']?--(?:experimental|max|no-warnings|enable|openssl|unhandled|trace|stack)\S*")
_OF_MAKE = lazy(r"(?:(?:-j\s*\S*|--jobs\S*|-O\w*|--output-sync\S*|--no-print-directory|-[sr]+)\s*)*")
_SKIPS = lazy(r"-DskipTests|-Dmaven\.test|-Dtest=|-x\s*:?\w*[tT]est|--exclude-task|-DskipITs")
_TOP = lazy(r"^(?:\$\{\{\s*github\.workspace\s*\}\}|\$\{?(?:GITHUB_WORKSPACE|PWD|CI_PROJECT_DIR)\}?|\.)/?")
_SOURCE_FOLDERS = frozenset({"", ".", "src", "lib", "tests", "test", "source", "python"})


def _any(value: str) -> bool:
    return value not in {"", "0", "false"}


def _folders(value: str) -> bool:
    parts = [_TOP.sub("", part.strip("\"' ")).rstrip("/") for part in re.split(r"[:;]", value)]
    return any(part not in _SOURCE_FOLDERS and not re.match(r"^[$/~%]", part) for part in parts)


def _pytest(value: str) -> bool:
    return commands.options((), commands.words(value)) is not None


def _node(value: str) -> bool:
    return any(not _OF_NODE.fullmatch(word) for word in commands.words(value))


_VARIABLES: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("PYTEST_ADDOPTS", _pytest),
    ("NODE_OPTIONS", _node),
    ("PYTHONPATH|NODE_PATH|PERL5LIB|RUBYLIB", _folders),
    ("MAKEFLAGS|GNUMAKEFLAGS", lambda value: _OF_MAKE.fullmatch(value) is None),
    ("RUSTFLAGS|RUSTDOCFLAGS|CARGO_ENCODED_RUSTFLAGS", lambda value: bool(re.search(r"-A\b|--cap-lints", value))),
    ("GOFLAGS", lambda value: bool(re.search(r"-(?:run|skip|short|vet=off)\b", value))),
    ("MAVEN_ARGS|MAVEN_OPTS|GRADLE_OPTS|JAVA_TOOL_OPTIONS", lambda value: bool(_SKIPS.search(value))),
    ("GTEST_FILTER|PYTEST_PLUGINS|TOX_SKIP_ENV|SKIP|PRE_COMMIT_ALLOW_NO_CONFIG|PYTHONOPTIMIZE", _any),
    ("PATH|BASH_ENV|ENV|LD_PRELOAD|DYLD_INSERT_LIBRARIES|RUBYOPT|PERL5OPT", _any),
)


def checks_less(name: str, value: str) -> bool:
    """Return True if checks that run with this variable may do less."""
    return any(re.fullmatch(names, name) and judge(value.strip("\"'")) for names, judge in _VARIABLES)
