"""Decide by path alone whether a file judges the work, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import translate
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Literal, NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected import names
from reflectloop.verification.protected.tool_names import of_tools

Kind = Literal["test", "fixture", "hook", "runner", "lint", "ci", "script", "snapshot", "shadow", "artefact", "own"]


class Protection(NamedTuple):
    """The reason a file is protected; `mixed` if only a part of it is."""

    kind: Kind
    why: str
    mixed: bool = False


_WILD = frozenset("*?[")
_MOST_PATHS = 250_000  # of a large repository, each of which is asked about several times


class NamePatterns:
    """Patterns of file names. Those with one `*` at most need no regular expression, which is slow to compile."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._exact: set[str] = set()
        ends: list[tuple[str, str]] = []
        rest = []
        for pattern in patterns:
            before, star, after = pattern.partition("*")
            if not _WILD.isdisjoint(before + after):
                rest.append(pattern)
            elif star:
                ends.append((before, after))
            else:
                self._exact.add(pattern)
        # A repository asks about each of its files: one call for all beginnings and one for all ends.
        self._starts = tuple(before for before, after in ends if not after)
        self._endings = tuple(after for before, after in ends if not before)
        self._both = [(before, after) for before, after in ends if before and after]
        self._rest = lazy("|".join(f"(?:{translate(pattern)})" for pattern in rest)) if rest else None

    def match(self, name: str) -> bool:
        """Return True if the whole name matches a pattern; case counts."""
        if name in self._exact or name.startswith(self._starts) or name.endswith(self._endings):
            return True
        for before, after in self._both:
            if name.startswith(before) and name.endswith(after) and len(name) >= len(before) + len(after):
                return True
        return self._rest is not None and self._rest.match(name) is not None


_CAPITAL = NamePatterns(names.CAPITAL_FILES)
_DOTNET_TESTS = lazy(r"(?i).*[._-]?(?:unit|integration|functional)?tests?\Z")
_GRADLE_TESTS = lazy(r"(?:^|/)src/(?:test|testFixtures|\w+Test)/")
_BUILT = lazy(r"(?:^|/)build/(?:lib|bdist|temp)[^/]*/|\.(?:egg-info|dist-info)(?:/|\Z)")
_TOOL_FOLDER = lazy("|".join(rf"(?:^|/){re.escape(folder)}/" for folder in names.TOOL_FOLDERS))


@cache
def _by_name() -> tuple[tuple[NamePatterns, Protection], ...]:
    """Return the patterns of file names, in lower case, in the order in which they are asked."""
    mixed_lint = Protection("lint", "has a part that controls the type checker", mixed=True)
    mixed_runner = Protection("runner", "has a part that controls checks", mixed=True)
    hook = Protection("hook", "run automatically by git, the interpreter or the runner")
    return (
        (NamePatterns(names.OWN_FILES), Protection("own", "the engine's own settings")),
        (NamePatterns(of_tools("artefacts")), Protection("artefact", "built from sources, and could replace them")),
        (NamePatterns((*names.HOOK_FILES, *of_tools("hooks"))), hook),
        (NamePatterns(names.CI_FILES), Protection("ci", "defines what continuous integration checks")),
        (NamePatterns((*names.SNAPSHOT_FILES, *of_tools("snapshots"))), _SNAPSHOT),
        (NamePatterns((*names.RUNNER_FILES, *of_tools("runner"))), Protection("runner", "configures a test runner")),
        (
            NamePatterns((*names.LINT_FILES, *of_tools("lint"))),
            Protection("lint", "configures a linter or a type checker"),
        ),
        (NamePatterns((*names.MIXED_RUNNER_FILES, *of_tools("mixed_runner"))), mixed_runner),
        (NamePatterns(of_tools("mixed_lint")), mixed_lint),
        (NamePatterns((*names.SCRIPT_FILES, *of_tools("scripts"))), Protection("script", "runs checks")),
    )


@cache
def _tests() -> NamePatterns:
    return NamePatterns(of_tools("tests"))


@cache
def _dependencies() -> NamePatterns:
    return NamePatterns(of_tools("dependencies"))


_TEST_FILE = Protection("test", "a test file")
_USED_AS_TEST = Protection("test", "tests in it ran on base")
_USED_BY_TESTS = Protection("fixture", "only tests use it")
_FIXTURE = Protection("fixture", "data or code that tests depend on")
_SNAPSHOT = Protection("snapshot", "expected output of a test")


_USED: ContextVar[Mapping[str, Protection]] = ContextVar("used", default=MappingProxyType({}))


@contextmanager
def judged_by(tests: Iterable[str], data: Iterable[str] = ()) -> Iterator[None]:
    """Protect these paths meanwhile, as tests or as what tests depend on, whatever they are called."""
    token = _USED.set({**dict.fromkeys(data, _USED_BY_TESTS), **dict.fromkeys(tests, _USED_AS_TEST)})
    try:
        yield
    finally:
        _USED.reset(token)


def guard(path: str) -> Protection | None:
    """Return why this path is protected, by its name or by its use, or None.

    Shadows count only if the file is new or executable, which the caller checks.
    """
    return _guard(path) or _USED.get().get(path)


@lru_cache(_MOST_PATHS)
def _guard(path: str) -> Protection | None:
    parts = tuple(path.split("/"))
    name = parts[-1].lower()
    return (
        _by_folder(path, parts[:-1])
        or next((protection for pattern, protection in _by_name() if pattern.match(name)), None)
        or _test_or_fixture(path, parts)
        or _script(parts)
        or _shadow(path, parts)
    )


def is_test(path: str) -> bool:
    """Return True if some runner would collect this file."""
    protection = guard(path)
    return protection is not None and protection.kind == "test"


def configures(path: str) -> bool:
    """Return True if the file says what is checked: settings of runners and linters, and workflows."""
    protection = guard(path)
    return protection is not None and protection.kind in {"runner", "lint", "ci"}


def dependencies(path: str) -> bool:
    """Return True if the file declares which packages are installed."""
    parts = path.lower().split("/")
    named = _dependencies().match(parts[-1])
    return named or (len(parts) > 1 and parts[-2] == "requirements" and parts[-1].endswith((".txt", ".in")))


def _by_folder(path: str, folders: tuple[str, ...]) -> Protection | None:
    folder_names = set(folders)
    if folder_names & names.OWN_FOLDERS:
        return Protection("own", "the engine's or the agent's own settings")
    if runs_at_start(path):
        return Protection("hook", "run automatically by git, the interpreter or the runner")
    if on_path(path):
        return Protection("shadow", "would be found on PATH before the real tool")
    if folder_names & of_tools("artefact_folders") or _BUILT.search(path):
        return Protection("artefact", "built from sources, and could replace them")
    return (
        Protection("hook", "run automatically by git") if folder_names & names.HOOK_FOLDERS else _by_run(path, folders)
    )


def runs_at_start(path: str) -> bool:
    """Return True for a module, in any form, that Python imports when it starts, and for a file of paths."""
    parts = path.split("/")
    if parts[-1].endswith(".pth"):
        return True
    is_module = parts[-1].endswith((".py", ".pyc", ".so", ".pyd"))
    return is_module and not names.START_MODULES.isdisjoint(part.partition(".")[0] for part in parts)


def on_path(path: str) -> bool:
    """Return True if the file is in a folder that is searched for tools."""
    return _TOOL_FOLDER.search(path) is not None


def _by_run(path: str, folders: tuple[str, ...]) -> Protection | None:
    if _is_of_ci(folders):
        return Protection("ci", "defines what continuous integration checks")
    if not of_tools("folders").isdisjoint(folders) or any(part in path for part in of_tools("paths")):
        return Protection("runner", "configures the build tool that runs tests")
    return None


@lru_cache(_MOST_PATHS)
def _is_of_ci(folders: tuple[str, ...]) -> bool:
    """Return True if the folders hold a run of those that continuous integration reads."""
    return any(folders[at : at + len(run)] == run for run in names.CI_FOLDERS for at in range(len(folders)))


def _test_or_fixture(path: str, parts: tuple[str, ...]) -> Protection | None:
    folder_names = {folder.lower() for folder in parts[:-1]}
    ending = parts[-1].rpartition(".")[2].lower()
    in_tests = bool(folder_names & _test_folders(ending)) or _GRADLE_TESTS.search(path) is not None or _dotnet(parts)
    if folder_names & names.SNAPSHOT_FOLDERS and (in_tests or ending not in names.CODE_ENDINGS):
        return _SNAPSHOT
    if folder_names & names.DATA_FOLDERS:
        return _FIXTURE
    if _named_like_a_test(parts[-1]):
        return _TEST_FILE
    if folder_names & names.HELPER_FOLDERS:
        return _FIXTURE
    if in_tests and "src/main/" not in path:
        return _TEST_FILE if _collected_by_folder(parts, ending) else _FIXTURE
    return None


@lru_cache
def _test_folders(ending: str) -> frozenset[str]:
    """Return the names of test folders; Python, Go and Rust packages may be called `spec` or `t` for other reasons."""
    return names.TEST_FOLDERS - {"spec", "specs", "t"} if ending in {"py", "go", "rs"} else names.TEST_FOLDERS


def _named_like_a_test(name: str) -> bool:
    if name.endswith(_capital_endings()):
        return _CAPITAL.match(name)
    return _tests().match(name.lower())


@cache
def _capital_endings() -> tuple[str, ...]:
    return tuple(f".{ending}" for ending in of_tools("capital_endings"))


def _collected_by_folder(parts: tuple[str, ...], ending: str) -> bool:
    """Return True if the runners of this language collect every such file in a test folder."""
    if ending == "py":
        return parts[-1].startswith("test")
    if ending in {"js", "ts", "jsx", "tsx", "mjs", "cjs"}:
        return bool({"__tests__", "test"} & set(parts))
    if ending in {"c", "cc", "cpp", "cxx"}:
        return len(parts) > 1 and parts[-2].lower() in names.TEST_FOLDERS
    return ending == "rs" and len(parts) > 1 and parts[-2] == "tests"


def _dotnet(parts: tuple[str, ...]) -> bool:
    code = parts[-1].endswith((".cs", ".fs", ".vb", ".csproj", ".fsproj", ".json", ".resx"))
    return code and any(_DOTNET_TESTS.match(folder) for folder in parts[:-1])


def _script(parts: tuple[str, ...]) -> Protection | None:
    if len(parts) < 2 or parts[-2] not in names.SCRIPT_FOLDERS:  # noqa: PLR2004 - a folder and a name
        return None
    name_parts = re.split(r"[._-]", parts[-1].lower())
    return (
        Protection("script", "runs checks")
        if name_parts[0] in names.SCRIPT_WORDS or name_parts[-1] in names.SCRIPT_WORDS
        else None
    )


def _shadow(path: str, parts: tuple[str, ...]) -> Protection | None:
    if is_executable(parts[-1]):
        return Protection("shadow", "an executable here could run instead of the tool of that name")
    module = shadowed(path)
    return Protection("shadow", f"a new module here would be imported instead of {module}") if module else None


def is_executable(name: str) -> bool:
    """Return True if checks call a program of this name."""
    return name in of_tools("executables") or name in names.EXECUTABLES


def shadowed(path: str) -> str | None:
    """Return the runner or standard library module that a new file at this path would hide, or None."""
    folder, _, name = path.rpartition("/")
    stem, _, ending = name.partition(".")
    if stem == "__init__" and ending in {"py", "pyc"}:
        folder, _, stem = folder.rpartition("/")
    elif ending != "py" and not ending.endswith(("so", "pyd")):
        return None
    known = stem in of_tools("modules") or stem in names.STANDARD_MODULES
    return stem if known and folder in names.IMPORT_ROOTS else None
