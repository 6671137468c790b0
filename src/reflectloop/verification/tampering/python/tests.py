"""Check what a patch did to Python tests and to the code they use."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected import guard, is_test
from reflectloop.verification.protected.fixtures import Function, parsed
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering.added import stood
from reflectloop.verification.tampering.python.assertion_strength import claim
from reflectloop.verification.tampering.python.bypasses import cut, in_file, replaced, top_values
from reflectloop.verification.tampering.python.compare import (
    NewFileContext,
    compared,
    expected_names,
    marks_added,
    skeleton,
)
from reflectloop.verification.tampering.python.expanded import Expansion, expand, imported, prepared, set_values
from reflectloop.verification.tampering.python.flow import Skip
from reflectloop.verification.tampering.python.pairing import Ledger, Renaming, TestPair, pairs, renamed
from reflectloop.verification.tampering.python.rows import ParameterTable, constants, tables
from reflectloop.verification.tampering.python.suite import Suite, SuiteFunction, read, suite_of, with_names
from reflectloop.verification.tampering.python.values import asks_about_the_machine, is_literal
from reflectloop.verification.tampering.python.verdict import LocatedVerdict, listed, short

Versions = Callable[[str], Sequence[bytes]]  # the versions of a source: of base and of the patch, if it differs
_ROOTS = ("", "src/", "lib/", "python/")


def no_versions(_path: str) -> Sequence[bytes]:
    return ()


def with_platform_names(module: ast.Module, versions: Versions) -> ast.Module:
    """Return the module with such names set at its top, as if it had defined them itself."""
    assignments = list(_assignments(module, versions))
    return ast.Module([*assignments, *module.body], module.type_ignores) if assignments else module


def _assignments(module: ast.Module, versions: Versions) -> Iterator[ast.stmt]:
    for statement in module.body:
        if not isinstance(statement, ast.ImportFrom) or statement.level or not statement.module:
            continue
        for alias in statement.names:
            if alias.name.isupper() and (value := _value(statement.module, alias.name, versions)):
                name = ast.Name(alias.asname or alias.name, ast.Store())
                yield ast.fix_missing_locations(ast.copy_location(ast.Assign([name], value), statement))


def _value(module: str, name: str, versions: Versions) -> ast.expr | None:
    """Return the value of a name, if all versions of its module say the same, and it asks only for the platform."""
    path = module.replace(".", "/")
    for root in _ROOTS:
        texts = versions(f"{root}{path}.py") or versions(f"{root}{path}/__init__.py")
        if texts:
            values = [_set_in(parsed(text), name) for text in texts]
            same = len({ast.unparse(value) if value else "" for value in values}) == 1
            return values[0] if same and values[0] and asks_about_the_machine(values[0]) else None
    return None


def _set_in(module: ast.Module | None, name: str) -> ast.expr | None:
    """Return the only value that the module gives to the name, or None."""
    if module is None:
        return None
    names = [node for node in ast.walk(module) if isinstance(node, ast.Name) and node.id == name]
    stored = [node for node in names if not isinstance(node.ctx, ast.Load)]
    values = [
        part.value
        for part in module.body
        if isinstance(part, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in part.targets)
    ]
    return values[0] if len(values) == len(stored) == 1 else None


_WORD = lazy(r"\b[A-Za-z_]\w*\b")
_DEEP = 3


class Helpers:
    """All functions of the files that are not tests, by their last name."""

    def __init__(self, suites: Iterable[Suite]) -> None:
        self._known: dict[str, SuiteFunction] = {}
        for suite in suites:
            for case in suite.cases:
                if not case.collected:
                    self._known[case.name.rpartition(".")[2]] = case

    def named(self, name: str) -> SuiteFunction | None:
        return self._known.get(name)

    def demands(self, case: SuiteFunction) -> frozenset[str]:
        """Return the blanked assertions of every function this test reaches."""
        reached: dict[str, SuiteFunction] = {}
        names = set(_WORD.findall(case.body)) | {helper.arg for helper in case.node.args.args}
        for _ in range(_DEEP):
            fresh = {name: self._known[name] for name in names if name in self._known and name not in reached}
            reached.update(fresh)
            names = {name for helper in fresh.values() for name in _WORD.findall(helper.body)}
        return frozenset(skeleton(check.text) for helper in reached.values() for check in helper.checks)


class _Side(NamedTuple):
    """All Python test files of one version, old or new."""

    suites: dict[str, Suite]
    helpers: Helpers

    def rows_of(self, case: SuiteFunction) -> Sequence[ParameterTable]:
        return tables(case.node, constants(self.suites[case.path].module))

    def expanded(self, case: SuiteFunction) -> Sequence[Expansion]:
        return self._expanded(case, self.rows_of(case))

    def unrolled(self, case: SuiteFunction) -> Sequence[Expansion]:
        return self._expanded(case, ())

    def _expanded(self, case: SuiteFunction, rows: Sequence[ParameterTable]) -> Sequence[Expansion]:
        values = top_values(self.suites[case.path].module)
        module = self.suites[case.path].module
        known = {name: value for name, value in values.items() if is_literal(value)}
        known = prepared(module, case) | imported(module) | set_values(module, values) | known
        return expand(case, rows, known, self.helpers.named)

    def with_names(self, names: Mapping[str, str]) -> _Side:
        """Return the same files with other names for some code."""
        return _side({path: suite_of(path, with_names(suite.module, names)) for path, suite in self.suites.items()})


def look(changes: Sequence[ChangedFile], versions: Versions = no_versions) -> Iterator[TamperFinding]:
    """Compare the tests; `versions` returns those of a source of the project."""
    relevant = [change for change in changes if _concerns(change.path)]
    yield from _unreadable(relevant)
    old = _side({change.path: _read(change.path, change.before, versions) for change in relevant})
    new = _side({change.path: _read(change.path, change.after, versions) for change in relevant})
    unread = {change.path for change in relevant} - new.suites.keys()
    old = _side({path: suite for path, suite in old.suites.items() if path not in unread})
    matched, ledger = _matched(old, new)
    renaming = renamed(matched, old.suites, new.suites)
    if renaming.names or renaming.own:
        old = old.with_names({**renaming.names, **renaming.own})
        matched, ledger = _matched(old, new)
    yield from _renamed(renaming)
    yield from _removed([pair.old for pair in matched if pair.how == "gone"], ledger, changes)
    yield from _alike(
        finding for pair in matched if pair.new is not None for finding in _pair(pair, pair.new, old, new, ledger)
    )
    yield from _support_code(old, new, ledger)
    yield from _file_level(old, new)


def _read(path: str, data: bytes | None, versions: Versions) -> Suite | None:
    suite = read(path, data)
    module = with_platform_names(suite.module, versions) if suite else None
    return suite_of(path, module) if suite and module and module is not suite.module else suite


def _concerns(path: str) -> bool:
    protection = guard(path)
    return path.endswith(".py") and protection is not None and protection.kind in {"test", "fixture", "hook"}


def _unreadable(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    for change in changes:
        if is_test(change.path) and change.after is not None and read(change.path, change.after) is None:
            line, why = _fault(change.after)
            yield TamperFinding("test-unreadable", change.path, line, f"the test file cannot be read as Python{why}")


def _fault(data: bytes) -> tuple[int, str]:
    """Return the line of the first fault of the syntax, and what it is."""
    try:
        ast.parse(data)
    except SyntaxError as error:
        return error.lineno or 1, f": {error.msg}"
    except (ValueError, RecursionError):
        pass
    return 1, ""


def _side(suites: Mapping[str, Suite | None]) -> _Side:
    readable = {path: suite for path, suite in suites.items() if suite is not None}
    return _Side(readable, Helpers(readable.values()))


def _matched(old: _Side, new: _Side) -> tuple[list[TestPair], Ledger]:
    """Return each old test with its new version, and the assertions of both versions."""
    before = [case for suite in old.suites.values() for case in suite.tests]
    known = {case.path for case in before}
    after = [case for suite in new.suites.values() for case in suite.tests if is_test(case.path) or case.path in known]
    remaining = {(case.path, case.name) for case in after}
    others = [case for suite in new.suites.values() for case in suite.cases if (case.path, case.name) not in remaining]
    ledger = Ledger(old.expanded, new.expanded, old.unrolled)
    return pairs(before, after, others, ledger), ledger


def _renamed(renaming: Renaming) -> Iterator[TamperFinding]:
    if renaming.names:
        first = renaming.tests[0]
        names = ", ".join(f"`{old}` -> `{new}`" for old, new in sorted(renaming.names.items()))
        tests = listed([case.name for case in renaming.tests])
        yield TamperFinding("code-renamed", first.path, first.line, f"{names} in {tests}", "suspect")


def _removed(cases: Sequence[SuiteFunction], ledger: Ledger, changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    """Report the tests of each file that are gone, with the code that is gone with them."""
    removed: dict[str, list[SuiteFunction]] = defaultdict(list)
    partly: dict[str, str] = {}
    for case in cases:
        if any(mark.unconditional for mark in case.marks):
            yield TamperFinding("test-merged", case.path, 1, f"{case.name} was removed; it was always skipped", "note")
            continue
        expansions = ledger.of_old(case)
        lost = [part for part in expansions if not ledger.take(part.check, part.texts)]
        if expansions and not lost:
            message = f"{case.name} was removed; other tests newly check the same"
            yield TamperFinding("test-merged", case.path, 1, message, "note")
            continue
        removed[case.path].append(case)
        if len(lost) < len(expansions):
            partly[case.name] = f"{case.name} (of which nothing else checks `{short(lost[0].check.text)}`)"
    files = {change.path: change for change in changes}
    for path, gone in removed.items():
        change = files[path]
        message = _told(gone, partly, _code_removed(changes))
        if change.after is None:
            what = f"the file was removed, with {len(gone)} test(s) that exist nowhere else: {message}"
            yield TamperFinding("file-deleted", path, None, what)
        else:
            line = stood(change.before, change.after, gone[0].line)
            yield TamperFinding("test-deleted", path, line, f"{len(gone)} test(s) removed: {message}")


def _told(cases: Sequence[SuiteFunction], partly: Mapping[str, str], code: frozenset[str]) -> str:
    """Return the names of removed tests; those whose code is removed too come with its name."""
    used = {partly.get(case.name, case.name): sorted(code & _names_in(case.node)) for case in cases}
    together = [name for name, words in used.items() if words]
    alone = [name for name, words in used.items() if not words]
    names = sorted({word for words in used.values() for word in words})
    parts = [listed(alone)] if alone else []
    if together:
        parts.append(
            f"together with {listed([f'`{name}`' for name in names])}, which the patch removes: {listed(together)}"
        )
    return "; ".join(parts)


def _names_in(node: ast.AST) -> set[str]:
    parts = list(ast.walk(node))
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    names |= {part.attr for part in parts if isinstance(part, ast.Attribute)}
    names |= {part.module for part in parts if isinstance(part, ast.ImportFrom) and part.module}
    return names | {part.name for part in parts if isinstance(part, ast.alias)}


def _code_removed(changes: Sequence[ChangedFile]) -> frozenset[str]:
    """Return the functions, classes and values that the sources defined and no longer define."""
    sources = [change for change in changes if change.path.endswith(".py") and not _concerns(change.path)]
    before = {name for change in sources for name in _definitions(change.before)}
    modules = {_module(change.path) for change in sources if change.after is None}
    return frozenset(modules | before - {name for change in sources for name in _definitions(change.after)})


def _module(path: str) -> str:
    """Return the name by which a file is imported."""
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _definitions(data: bytes | None) -> Iterator[str]:
    module = parsed(data)
    waiting = list(module.body) if module else []
    for node in waiting:
        if isinstance(node, Function | ast.ClassDef):
            yield node.name
        if not isinstance(node, Function):
            waiting += [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.stmt)]
    yield from top_values(module) if module else ()


def _pair(pair: TestPair, case: SuiteFunction, old: _Side, new: _Side, ledger: Ledger) -> Iterator[TamperFinding]:
    was = pair.old
    if pair.how == "uncollected":
        message = f"{was.name} is no longer collected: its body is now {case.name} in {case.path}"
        yield TamperFinding("test-uncollected", case.path, case.line, message)
    elif pair.how == "merged":
        message = f"{was.name} was removed; {case.name} checks the same"
        yield TamperFinding("test-merged", case.path, case.line, message, "note")
    else:
        if pair.how == "renamed":
            moved = f"moved from {was.path}" if was.name == case.name else f"is now {case.name}"
            yield TamperFinding("test-renamed", case.path, case.line, f"{was.name} {moved}", "note")
        yield from _joined(case, compared(was, case, _around(was, case, old, new, ledger), old.rows_of(was)))
        if was.body != case.body:
            yield TamperFinding("test-changed", case.path, case.line, f"{case.name} was changed", "note")


def _alike(findings: Iterable[TamperFinding]) -> Iterator[TamperFinding]:
    """Yield suspects that say the same of several tests of a file as one; each weakening is judged for itself."""
    groups: dict[tuple[str, ...], list[TamperFinding]] = defaultdict(list)
    for finding in findings:
        text = finding.what.partition(": ")[2]
        alone = finding.grade != "suspect" or not text
        groups[finding.rule, finding.path, finding.grade, str(len(groups)) if alone else text].append(finding)
    for (_, _, _, text), group in groups.items():
        names = list(dict.fromkeys(finding.what.partition(": ")[0] for finding in group))
        yield group[0]._replace(what=f"{listed(names)}: {text}") if len(names) > 1 else group[0]


def _around(was: SuiteFunction, now: SuiteFunction, old: _Side, new: _Side, ledger: Ledger) -> NewFileContext:
    return NewFileContext(lambda: new.helpers.demands(now) - old.helpers.demands(was), new.rows_of(now), ledger)


_GRAVITY = ("weakening", "suspect", "note")
_MOST_TOLD = 3


def _joined(case: SuiteFunction, results: Iterable[LocatedVerdict]) -> Iterator[TamperFinding]:
    """Yield one finding about a function, the gravest part first; marks of its class and notes are apart."""
    inside: list[LocatedVerdict] = []
    first = min((decorator.lineno for decorator in case.node.decorator_list), default=case.node.lineno)
    for result in results:
        line, (rule, what, grade) = result
        if rule.startswith("skip") and not first <= line <= (case.node.end_lineno or first):
            yield TamperFinding(rule, case.path, line, f"{_around_line(case, line)}: {what}", grade)
        elif grade == "note":
            yield TamperFinding(rule, case.path, line, f"{case.name}: {what}", grade)
        else:
            inside.append(result)
    inside.sort(key=lambda result: _GRAVITY.index(result.verdict.grade))
    texts = list(dict.fromkeys(result.verdict.what for result in inside))
    if inside:
        line, (rule, _, grade) = inside[0]
        more = [f"and {len(texts) - _MOST_TOLD} more"] if len(texts) > _MOST_TOLD else []
        yield TamperFinding(rule, case.path, line, f"{case.name}: {'; '.join([*texts[:_MOST_TOLD], *more])}", grade)


def _around_line(case: SuiteFunction, line: int) -> str:
    """Return the name of what a mark outside the function stands on: its class or the file."""
    in_class = "." in case.name and line > case.class_line
    return case.name.rpartition(".")[0] if in_class else "the whole file"


def _findings(path: str, results: Iterator[LocatedVerdict]) -> Iterator[TamperFinding]:
    for line, (rule, what, grade) in results:
        yield TamperFinding(rule, path, line, what, grade)


def _support_code(old: _Side, new: _Side, ledger: Ledger) -> Iterator[TamperFinding]:
    """Compare fixtures, setUp and helpers that keep their name."""
    for path, suite in old.suites.items():
        after = {case.name: case for case in new.suites[path].cases} if path in new.suites else {}
        before = {case.name for case in suite.cases}
        for case in after.values():
            if case.name not in before and not case.collected and _runs_by_itself(case):
                yield from _joined(case, marks_added((), case.marks))
        for was in suite.cases:
            now = after.get(was.name)
            if now is not None and not was.collected and not now.collected:
                yield from _joined(now, compared(was, now, _around(was, now, old, new, ledger), ()))


_SET_UPS = frozenset(
    "setUp asyncSetUp setUpClass setUpModule setup setup_method setup_class setup_module setup_function".split()  # noqa: SIM905
)


def _runs_by_itself(case: SuiteFunction) -> bool:
    """Return True for support code that runs before tests which do not name it."""
    return case.name.rpartition(".")[2] in _SET_UPS or any("autouse=True" in text for text in case.decorators)


def _file_level(old: _Side, new: _Side) -> Iterator[TamperFinding]:
    for path, suite in old.suites.items():
        now = new.suites.get(path)
        if now is not None and suite.cases:
            yield from _findings(path, marks_added((*suite.marks, *_shared_marks(suite)), now.marks))
            yield from _findings(path, cut(suite.module, now.module))
            yield from _findings(path, _expected(suite, now))
            yield from _findings(path, replaced(suite.module, now.module))
            yield from _findings(path, in_file(suite.module, now.module))


def _shared_marks(suite: Suite) -> list[Skip]:
    """Return the marks that every test of the file has, which may as well stand on the file."""
    tests_ = suite.tests
    return [
        mark
        for mark in (tests_[0].marks if tests_ else ())
        if all(mark.meaning in {other.meaning for other in case.marks} for case in tests_)
    ]


def _expected(old: Suite, new: Suite) -> Iterator[LocatedVerdict]:
    claims = [claim(check.node) for case in new.cases for check in case.checks if check.kind == "claim"]
    return expected_names(claims, top_values(old.module), top_values(new.module))
