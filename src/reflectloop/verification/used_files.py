"""Find the files that judge by use: the run of base ran tests in them, whatever they are called."""

from __future__ import annotations

import configparser
import json
import posixpath
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Any

from reflectloop.plan.globs import matches_any
from reflectloop.system.patterns import lazy
from reflectloop.verification import protected
from reflectloop.verification.result import ChangedFile, DetectedCheck, VerificationResult
from reflectloop.verification.tools import by_name, javascript
from reflectloop.verification.tools.commands import call, is_script, script_name, split

Read = Callable[[Iterable[str]], Mapping[str, bytes]]  # the content of files of base
_PYTHON_IMPORT = lazy(
    rb"^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+([^#\n]+)|import[ \t]+([^#\n]+))", re.MULTILINE
)
_SCRIPT_IMPORT = lazy(rb"""(?:require|import|from)\s*\(?\s*["'](\.[^"'\n]*)["']""")
_JUDGING_WORD = lazy(r"(?i)(?:^|[-_.])(?:tests?|specs?|checks?)(?:$|[-_.])")
_INTERPRETER = lazy(r"node|tsx|ts-node|bun|deno|python[\d.]*|ruby|perl|php|sh|bash")
_ENTRY_KEYS = ("main", "module", "browser", "bin", "exports", "types", "typings", "unpkg", "jsdelivr")
_PATTERN_OPTIONS = ("-p", "--pattern")  # of unittest
_PYTEST_SETTINGS = (
    ("pytest.ini", "pytest"),
    (".pytest.ini", "pytest"),
    ("pyproject.toml", ""),
    ("tox.ini", "pytest"),
    ("setup.cfg", "tool:pytest"),
)
_MOST_READ = 5000  # files whose imports are read


def find_used_files(
    checks: Iterable[DetectedCheck],
    results: Mapping[str, VerificationResult],
    base: Collection[str],
    changes: Sequence[ChangedFile],
    read: Read,
) -> frozenset[str]:
    """Return files of base, and new ones of the change, that tests are in though no name says so.

    A file that something imports or that a package names as its entry is the code under test, not a judge.
    """
    added = [change.path for change in changes if change.before is None]
    named: list[str] = []
    for check in (check for check in checks if check.kind == "test"):
        reported = list(_reported(results[check.name].tests, check.cwd, base))
        named += [*(reported or _operands(check, base, read)), *_collected(check, added, read)]
    unknown = [path for path in dict.fromkeys(named) if protected.guard(path) is None]
    sources = _sources(unknown, base, read) if unknown else set()
    judging = {path for path in unknown if path not in sources}
    if _only_change(changes, judging):
        programs = [path for path in judging if _is_code(path) and not _JUDGING_WORD.search(PurePosixPath(path).name)]
        judging -= {path for path, data in read(programs).items() if not _uses_project(path, data, base)}
    return frozenset(judging)


def _uses_project(path: str, data: bytes, base: Collection[str]) -> bool:
    """Return True if a file with tests imports code of the project, which it then judges."""
    if not path.endswith(".py"):
        return _SCRIPT_IMPORT.search(data) is not None
    modules = {module_name(other) for other in base if other.endswith(".py") and other != path}
    return not modules.isdisjoint(imported_names(path, data))


def _only_change(changes: Sequence[ChangedFile], judging: Collection[str]) -> bool:
    """Return True if no other code is changed: a program with its own tests may then be the code under test."""
    return not any(
        _is_code(change.path) and change.path not in judging and protected.guard(change.path) is None
        for change in changes
    )


def _is_code(path: str) -> bool:
    return path.rpartition(".")[2].lower() in protected.CODE_ENDINGS


# Which files tests were seen in ------------------------------------------------------------------------------------


def _reported(tests: Iterable[str], cwd: str, known: Collection[str]) -> Iterator[str]:
    """Yield the files that a report names in the ids of tests, but for sources with examples in their docstrings."""
    for test in tests:
        file, _, name = test.partition("::")
        for path in (_joined(cwd, file), file, *_dotted(cwd, test)):
            if path in known:
                if not _is_docstring(path, name):
                    yield path
                break


def _dotted(cwd: str, test: str) -> Iterator[str]:
    """Yield the modules that a dotted id may name, such as `checks.check_a.Add.test_add`."""
    if "::" in test or "/" in test:
        return
    parts = test.partition(" ")[2].strip("()").split(".") if " (" in test else test.split(".")
    for upto in range(len(parts) - 1, 0, -1):
        yield _joined(cwd, "/".join(parts[:upto]) + ".py")


def _is_docstring(path: str, name: str) -> bool:
    """Return True if an id names an object of a module by its dotted name, as pytest does for its docstring."""
    module = path.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
    parts = module.split(".")
    return path.endswith(".py") and any(
        name == tail or name.startswith(f"{tail}.") for tail in (".".join(parts[at:]) for at in range(len(parts)))
    )


def _joined(cwd: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(cwd, path)) if path else ""


def _operands(check: DetectedCheck, known: Collection[str], read: Read) -> Iterator[str]:
    """Yield the files that the test command names, directly or by a pattern."""
    for argv in _command_lines(check, read):
        parsed = call(argv)
        tool = by_name().get(parsed.tool) if parsed else None
        if parsed is None or tool is None or tool.kind != "test":
            yield from _script_run(argv, check.cwd, known)
            continue
        valued = tool.run.valued if tool.run else frozenset()
        for before, argument in zip(("", *parsed.arguments), parsed.arguments, strict=False):
            if argument.startswith("-") or before in valued:
                continue
            operand = _joined(check.cwd, argument.partition("::")[0])
            yield from (path for path in known if path == operand or ("*" in operand and matches_any(path, (operand,))))


def _script_run(argv: Sequence[str], cwd: str, known: Collection[str]) -> Iterator[str]:
    """Yield the script that an interpreter runs, if its name says that it judges."""
    if not argv or not _INTERPRETER.fullmatch(PurePosixPath(argv[0]).name):
        return
    operand = next((_joined(cwd, word) for word in argv[1:] if not word.startswith("-")), "")
    if operand in known and _JUDGING_WORD.search(PurePosixPath(operand).name):
        yield operand


def _command_lines(check: DetectedCheck, read: Read) -> Iterator[tuple[str, ...]]:
    """Yield the command of a check, or those of the package script that it runs."""
    if not is_script(check.command):
        yield check.command
        return
    manifest = _joined(check.cwd, "package.json")
    scripts = _document(read([manifest]).get(manifest)).get("scripts")
    line = scripts.get(script_name(check.command) or "") if isinstance(scripts, dict) else None
    for piece in str(line or "").split("&&"):
        yield split(piece.strip()) or ()


def _collected(check: DetectedCheck, added: Iterable[str], read: Read) -> Iterator[str]:
    """Yield new files that the settings of base make the runner collect."""
    patterns = [
        value
        for option, value in zip(check.command, check.command[1:], strict=False)
        if check.tool == "unittest" and option in _PATTERN_OPTIONS
    ]
    patterns += _python_files(check.cwd, read) if check.tool == "pytest" else []
    prefix = "" if check.cwd in (".", "") else f"{check.cwd}/"
    for path in added:
        if path.startswith(prefix) and any(fnmatch(PurePosixPath(path).name, pattern) for pattern in patterns):
            yield path


def _python_files(cwd: str, read: Read) -> list[str]:
    """Return the patterns of test files in the first settings of pytest that exist."""
    contents = read([_joined(cwd, name) for name, _ in _PYTEST_SETTINGS])
    for name, section in _PYTEST_SETTINGS:
        data = contents.get(_joined(cwd, name))
        value = _setting(data, section) if data is not None else None
        if value is not None:
            return value if isinstance(value, list) else value.split()
    return []


def _setting(data: bytes, section: str) -> list[str] | str | None:
    try:
        text = data.decode("utf-8-sig")
        if not section:
            options: Any = tomllib.loads(text).get("tool", {}).get("pytest", {}).get("ini_options", {})
            value = options.get("python_files")
            return [str(item) for item in value] if isinstance(value, list) else value
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.read_string(text)
        return parser.get(section, "python_files", fallback=None)
    except (ValueError, AttributeError, configparser.Error):
        return None


# Which of them are code under test ---------------------------------------------------------------------------------


def _sources(paths: Collection[str], base: Collection[str], read: Read) -> set[str]:
    """Return those of the paths that other files import, or that a package names as its entry."""
    out = set(_entries(paths, base, read))
    by_stem: dict[str, list[str]] = {}
    for path in paths:
        by_stem.setdefault(module_name(path), []).append(path)
    importers = [path for path in base if path.endswith((".py", *javascript.ENDINGS))][:_MOST_READ]
    for importer, data in read(importers).items():
        for stem in imported_names(importer, data):
            out |= {path for path in by_stem.get(stem, ()) if path != importer}
    return out


def module_name(path: str) -> str:
    """Return the last part of the name by which a source is imported."""
    pure = PurePosixPath(path)
    name = pure.name.partition(".")[0] if pure.suffix != ".py" else pure.stem
    return pure.parent.name if name in ("__init__", "index") and pure.parent.name else name


def imported_names(path: str, data: bytes) -> set[str]:
    """Return the last parts of the names that a source imports."""
    out: set[str] = set()
    if path.endswith(".py"):
        for origin, names, plain in _PYTHON_IMPORT.findall(data):
            words = re.findall(rb"[\w.]+", names or plain)
            out |= {word.decode("ascii", "replace").rpartition(".")[2] for word in (*words, origin)}
        return out
    for target in _SCRIPT_IMPORT.findall(data):
        name = PurePosixPath(
            posixpath.normpath(posixpath.join(posixpath.dirname(path), target.decode("utf-8", "replace")))
        )
        out.add(name.name.partition(".")[0])
    return out


def _entries(paths: Collection[str], base: Collection[str], read: Read) -> Iterator[str]:
    manifests = [path for path in base if PurePosixPath(path).name == "package.json"]
    for manifest, data in read(manifests).items():
        folder, document = posixpath.dirname(manifest), _document(data)
        values = [document[key] for key in _ENTRY_KEYS if key in document]
        while values:
            value = values.pop()
            if isinstance(value, dict):
                values += value.values()
            elif isinstance(value, str):
                place = posixpath.normpath(posixpath.join(folder, value))
                yield from (path for path in (place, f"{place}.js", f"{place}/index.js") if path in paths)
        if "main" not in document and (default := posixpath.join(folder, "index.js")) in paths:
            yield default


def _document(data: bytes | None) -> dict[str, Any]:
    try:
        document = json.loads(data or b"{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
