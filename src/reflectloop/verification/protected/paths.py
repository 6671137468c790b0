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
_WILDS, _SET = lazy(r"\*|\?|\[.*?\]"), lazy(r"\[(\w+)\]")
_MOST_PATHS = 250_000  # of a large repository, each of which is asked about several times


class NamePatterns:
    """Patterns of file names. A repository asks about each of its files, so few of the patterns are compared."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        self._exact: set[str] = set()
        self._starts: dict[str, tuple[str, ...]] = {}  # by their first letter, as the next
        self._both: dict[str, tuple[tuple[str, str], ...]] = {}
        self._endings: dict[str, tuple[str, ...]] = {}  # by their last letter
        rest = []
        for pattern in (plain for mixed in self.patterns for plain in _without_sets(mixed)):
            before, star, after = pattern.partition("*")
            if not _WILD.isdisjoint(before + after):
                rest.append(pattern)
            elif not star:
                self._exact.add(pattern)
            elif not before:
                self._endings[after[-1:]] = (*self._endings.get(after[-1:], ()), after)
            elif not after:
                self._starts[before[0]] = (*self._starts.get(before[0], ()), before)
            else:
                self._both[before[0]] = (*self._both.get(before[0], ()), (before, after))
        self._parts = tuple({max(_WILDS.split(pattern), key=len) for pattern in rest})
        self._rest = lazy("|".join(f"(?:{translate(pattern)})" for pattern in rest)) if rest else None

    def match(self, name: str) -> bool:
        """Return True if the whole name matches a pattern; case counts."""
        if name in self._exact or name.endswith(self._endings.get(name[-1:], ())):
            return True
        letter = name[:1]
        if letter in self._starts and name.startswith(self._starts[letter]):
            return True
        for before, after in self._both.get(letter, ()):
            if name.startswith(before) and name.endswith(after) and len(name) >= len(before) + len(after):
                return True
        for part in self._parts:
            if part in name:
                return self._rest is not None and self._rest.match(name) is not None
        return False


def _without_sets(pattern: str) -> Iterator[str]:
    """Yield the pattern once for each letter that a set in it allows."""
    letters = _SET.search(pattern)
    if letters is None:
        yield pattern
        return
    for letter in letters[1]:
        yield from _without_sets(pattern[: letters.start()] + letter + pattern[letters.end() :])


_CI_TOPS = frozenset(run[0] for run in names.CI_FOLDERS)
_CAPITAL = NamePatterns(names.CAPITAL_FILES)
_DOTNET_TESTS = lazy(r"(?i).*[._-]?(?:unit|integration|functional)?tests?\Z")
_GRADLE_TESTS = lazy(r"(?:^|/)src/(?:test|testFixtures|\w+Test)/")
_BUILDS = lazy(r"(?:^|/)build/(?:lib|bdist|temp)[^/]*/|\.(?:egg-info|dist-info)/")
_BUILT_ENDINGS = (".egg-info", ".dist-info")
_MODULE_NAMES = (*names.START_MODULES, ".pth", *_BUILT_ENDINGS)
_MODULES = (".py", ".pyc", ".so", ".pyd")
_DOTNET_CODE = (".cs", ".fs", ".vb", ".csproj", ".fsproj", ".json", ".resx")
_TOOL_FOLDER = lazy("|".join(rf"(?:^|/){re.escape(folder)}/" for folder in names.TOOL_FOLDERS))


@cache
def _by_name() -> tuple[tuple[NamePatterns, Protection], ...]:
    """Return the patterns of file names, in lower case, in the order in which they are asked."""
    mixed_lint = Protection("lint", "has a part that controls the type checker", mixed=True)
    mixed_runner = Protection("runner", "has a part that controls checks", mixed=True)
    return (
        (NamePatterns(names.OWN_FILES), Protection("own", "the engine's own settings")),
        (NamePatterns(of_tools("artefacts")), _BUILT),
        (NamePatterns((*names.HOOK_FILES, *of_tools("hooks"))), _HOOK),
        (NamePatterns(names.CI_FILES), _CI),
        (NamePatterns((*names.SNAPSHOT_FILES, *of_tools("snapshots"))), _SNAPSHOT),
        (NamePatterns((*names.RUNNER_FILES, *of_tools("runner"))), Protection("runner", "configures a test runner")),
        (
            NamePatterns((*names.LINT_FILES, *of_tools("lint"))),
            Protection("lint", "configures a linter or a type checker"),
        ),
        (NamePatterns((*names.MIXED_RUNNER_FILES, *of_tools("mixed_runner"))), mixed_runner),
        (NamePatterns(of_tools("mixed_lint")), mixed_lint),
        (NamePatterns((*names.SCRIPT_FILES, *of_tools("scripts"))), _SCRIPT),
    )


@cache
def _any_name() -> NamePatterns:
    """Return all these patterns as one, which most names match with none."""
    return NamePatterns(pattern for patterns, _ in _by_name() for pattern in patterns.patterns)


@cache
def _tests() -> NamePatterns:
    return NamePatterns(of_tools("tests"))


@cache
def _dependencies() -> NamePatterns:
    return NamePatterns(of_tools("dependencies"))


_OWN = Protection("own", "the engine's or the agent's own settings")
_HOOK = Protection("hook", "run automatically by git, the interpreter or the runner")
_GIT_HOOK = Protection("hook", "run automatically by git")
_ON_PATH = Protection("shadow", "would be found on PATH before the real tool")
_BUILT = Protection("artefact", "built from sources, and could replace them")
_CI = Protection("ci", "defines what continuous integration checks")
_RUNNER = Protection("runner", "configures the build tool that runs tests")
_SCRIPT = Protection("script", "runs checks")
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
    folder, _, name = path.rpartition("/")
    place = _place(folder)
    if place.usual and not _telling_names().match(name.lower()):
        return None  # most files of a large repository
    return _asked_in_order(path, name, place)


def _asked_in_order(path: str, name: str, place: _Place) -> Protection | None:
    return (
        _by_folder(path, name, place)
        or _by_known_name(name.lower())
        or _test_or_fixture(name, place)
        or (_script(name) if place.has_scripts else None)
        or _shadow(path, name)
    )


class _Place(NamedTuple):
    """The part of the answer for a file that depends on its folder alone; it is found once for each folder."""

    names: tuple[str, ...]  # of the folder and those above it
    lower: frozenset[str]
    own: Protection | None
    at_start: bool  # modules in it are imported when Python starts
    before: Protection | None  # asked before the endings of built packages, and after them
    after: Protection | None
    tests: bool  # in a folder of tests, or in one whose name has other meanings in some languages
    perhaps_tests: bool
    dotnet_tests: bool
    product: bool  # the sources of a Java project
    has_scripts: bool
    usual: bool = False  # a file in it is protected only if its name alone tells


@lru_cache(_MOST_PATHS)
def _place(folder: str) -> _Place:
    place = _described(folder)
    says = (place.own, place.before, place.after, place.at_start, place.tests, place.perhaps_tests, place.dotnet_tests)
    apart = names.IMPORT_ROOTS.isdisjoint((folder, folder.rpartition("/")[0]))  # nothing is imported from it
    plain = place.lower.isdisjoint(names.SNAPSHOT_FOLDERS | names.DATA_FOLDERS | names.HELPER_FOLDERS)
    tools = any(part.partition("/")[0] in folder for part in of_tools("paths"))
    return place._replace(usual=apart and plain and not (any(says) or place.has_scripts or tools))


@cache
def _telling_names() -> NamePatterns:
    """Return patterns, for names in lower case, of all names that may be protected in any folder."""
    lists = (
        _any_name().patterns,
        *(of_tools(field) for field in ("tests", "executables")),
        *(names.CAPITAL_FILES, names.EXECUTABLES),
        *((f"*{name}*" for name in listed) for listed in (_MODULE_NAMES, of_tools("paths"))),
    )
    return NamePatterns(pattern.lower() for patterns in lists for pattern in patterns)


def _described(folder: str) -> _Place:
    parts = tuple(folder.split("/")) if folder else ()
    folders, lower, inside = set(parts), frozenset(part.lower() for part in parts), f"{folder}/"
    gradle = _GRADLE_TESTS.search(inside) is not None
    return _Place(
        parts,
        lower,
        _OWN if folders & names.OWN_FOLDERS else None,
        not names.START_MODULES.isdisjoint(part.partition(".")[0] for part in parts),
        _ON_PATH
        if on_path(inside)
        else _BUILT
        if folders & of_tools("artefact_folders") or _BUILDS.search(inside)
        else None,
        _GIT_HOOK if folders & names.HOOK_FOLDERS else _by_run(parts),
        gradle or not lower.isdisjoint(names.TEST_FOLDERS - names.OTHER_MEANINGS),
        gradle or not lower.isdisjoint(names.TEST_FOLDERS),
        any(_DOTNET_TESTS.match(part) for part in parts),
        "src/main/" in inside,
        bool(parts) and parts[-1] in names.SCRIPT_FOLDERS,
    )


def _by_known_name(name: str) -> Protection | None:
    if not _any_name().match(name):
        return None
    return next((protection for pattern, protection in _by_name() if pattern.match(name)), None)


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


def _by_folder(path: str, name: str, place: _Place) -> Protection | None:
    if place.own:
        return place.own
    if _runs_at_start(name, at_start=place.at_start):
        return _HOOK
    if place.before:
        return place.before
    if name.endswith(_BUILT_ENDINGS):
        return _BUILT
    return place.after or (_RUNNER if any(part in path for part in of_tools("paths")) else None)


def runs_at_start(path: str) -> bool:
    """Return True for a module, in any form, that Python imports when it starts, and for a file of paths."""
    folder, _, name = path.rpartition("/")
    return _runs_at_start(name, at_start=_place(folder).at_start)


def _runs_at_start(name: str, *, at_start: bool) -> bool:
    if name.endswith(".pth"):
        return True
    return name.endswith(_MODULES) and (at_start or name.partition(".")[0] in names.START_MODULES)


def on_path(path: str) -> bool:
    """Return True if the file is in a folder that is searched for tools."""
    return _TOOL_FOLDER.search(path) is not None


def _by_run(folders: tuple[str, ...]) -> Protection | None:
    runs = () if _CI_TOPS.isdisjoint(folders) else names.CI_FOLDERS
    if any(folders[at : at + len(run)] == run for run in runs for at in range(len(folders))):
        return _CI
    return None if of_tools("folders").isdisjoint(folders) else _RUNNER


def _test_or_fixture(name: str, place: _Place) -> Protection | None:
    ending = name.rpartition(".")[2].lower()
    in_tests = place.tests if ending in {"py", "go", "rs"} else place.perhaps_tests
    in_tests = in_tests or (place.dotnet_tests and name.endswith(_DOTNET_CODE))
    if place.lower & names.SNAPSHOT_FOLDERS and (in_tests or ending not in names.CODE_ENDINGS):
        return _SNAPSHOT
    if place.lower & names.DATA_FOLDERS:
        return _FIXTURE
    if _named_like_a_test(name):
        return _TEST_FILE
    if place.lower & names.HELPER_FOLDERS:
        return _FIXTURE
    if in_tests and not place.product:
        return _TEST_FILE if _collected_by_folder(name, place, ending) else _FIXTURE
    return None


def _named_like_a_test(name: str) -> bool:
    if name.endswith(_capital_endings()):
        return _CAPITAL.match(name)
    return _tests().match(name.lower())


@cache
def _capital_endings() -> tuple[str, ...]:
    return tuple(f".{ending}" for ending in of_tools("capital_endings"))


def _collected_by_folder(name: str, place: _Place, ending: str) -> bool:
    """Return True if the runners of this language collect every such file in a test folder."""
    nearest = place.names[-1] if place.names else ""
    if ending == "py":
        return name.startswith("test")
    if ending in {"js", "ts", "jsx", "tsx", "mjs", "cjs"}:
        return not {"__tests__", "test"}.isdisjoint((*place.names, name))
    if ending in {"c", "cc", "cpp", "cxx"}:
        return nearest.lower() in names.TEST_FOLDERS
    return ending == "rs" and nearest == "tests"


def _script(name: str) -> Protection | None:
    words = re.split(r"[._-]", name.lower())
    return _SCRIPT if words[0] in names.SCRIPT_WORDS or words[-1] in names.SCRIPT_WORDS else None


def _shadow(path: str, name: str) -> Protection | None:
    if is_executable(name):
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
