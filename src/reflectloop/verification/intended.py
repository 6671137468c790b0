"""Tell an intended change of behaviour from a broken test, by running old and new versions of the tests; pure."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.terms import join_first
from reflectloop.verification import protected
from reflectloop.verification.result import RED, ChangedFile, Outcome, TamperFinding

RULE = "expectation-changed"
PART = f"; part of {RULE}"  # at the end of a note that another finding says more about
_GREEN = ("passed", "xpassed")
_MOST_NAMES = 5
_MOST_LINES = 12  # quoted lines of one finding
_LONGEST = 160  # characters of a quoted line
_PARAMETERS = lazy(r"\[.*\]$", re.DOTALL)
# Rules about tests, where a source has tests inside it.
_ABOUT_TESTS = (
    *("assert-", "cases-", "early-return", "expected-", "failure-swallowed", "test-deleted", "test-emptied"),
    *("test-renamed", "tolerance-"),
)
# Rules that say that a test may not run. One that was seen to run does, unless elsewhere another answer is likely.
_MAY_NOT_RUN = ("skip", "assert-conditional", "test-uncollected")
# Rules that say that a test expects something else. Others say that it finds less from now on, whatever passes today.
_EXPECTS_OTHERWISE = (
    *("expected-changed", "assert-replaced", "cases-changed", "raises-changed", "code-renamed", "doctest-changed"),
    *("data-rewritten", "snapshot-rewritten"),
)


class NewVersionOutcomes(NamedTuple):
    """The outcomes of the new version of the tests, on the change and on base."""

    on_change: Mapping[str, Outcome]
    on_base: Mapping[str, Outcome]


class IntendedChanges(NamedTuple):
    """Tests whose old version does not pass on the change, by what became of them in the new version."""

    changed: tuple[str, ...] = ()  # passes on the change, not on base
    loosened: tuple[str, ...] = ()  # passes on base too, so that it does not tell the change from base
    removed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for names in self for name in names)


def classify(names: Iterable[str], versions: NewVersionOutcomes) -> IntendedChanges:
    """Return which of these tests the change itself rewrote or removed; one that fails in its new version is broken."""
    groups: dict[str, list[str]] = {field: [] for field in IntendedChanges._fields}
    green = [name for name in names if versions.on_change.get(name) in _GREEN]
    # A test with several cases is judged by all of them.
    meant = {_PARAMETERS.sub("", name) for name in versions.on_change if versions.on_base.get(name) not in _GREEN}
    for name in sorted(names):
        outcome = versions.on_change.get(name)
        if name in green:
            groups["changed" if _PARAMETERS.sub("", name) in meant else "loosened"].append(name)
        elif outcome is None:
            groups["removed"].append(name)
        elif outcome not in RED:
            groups["skipped"].append(name)
    return IntendedChanges(*(tuple(group) for group in groups.values()))


_FAILED_IMPORT = "unittest.loader._FailedTest."


def is_file(name: str, changes: Sequence[ChangedFile]) -> bool:
    """Return True if this id is of a changed file or module that could not be loaded, not of a test.

    A test may be named like a path, too.
    """
    if name.startswith(_FAILED_IMPORT):
        return True
    return "/" in name and any(f"/{change.path}".endswith(f"/{name}") for change in changes)


def owner(name: str, changes: Sequence[ChangedFile]) -> str | None:
    """Return which of the changed files a test is in, or None if that is unknown."""
    path = name.partition("::")[0]
    named = next((change.path for change in changes if path == change.path or path.endswith(f"/{change.path}")), None)
    if named:
        return named  # some runners name the whole path
    if "::" in name and "/" in path and PurePosixPath(path).suffix:
        return None  # the test names its file, and that file did not change
    dotted = re.split(r"[\s().:]+", name)
    for change in changes:
        stem = PurePosixPath(change.path).name.partition(".")[0]
        if stem in dotted:
            return change.path
    title = _PARAMETERS.sub("", re.split(r"::|\.| > ", name)[-1]).strip(" ()")
    holding = [change.path for change in changes if title and _mentions(change, title)]
    holding = holding or [change.path for change in changes if _defines(change, name)]
    return holding[0] if holding else None


def _defines(change: ChangedFile, name: str) -> bool:
    """Return True if a test of this file has a title that the id ends with, after those of the groups it is in."""
    spans = (*function_spans(change.path, change.before), *function_spans(change.path, change.after))
    return any(_is_same_test(title, name) for title, _ in spans)


def _is_same_test(title: str, name: str) -> bool:
    return bool(title) and (name == title or name.endswith((f" {title}", f".{title}")))


def _mentions(change: ChangedFile, title: str) -> bool:
    needle = title.encode()
    return any(needle in content for content in (change.before, change.after) if content is not None)


def findings(
    intended: IntendedChanges, changes: Sequence[ChangedFile], patch: Sequence[ChangedFile]
) -> list[TamperFinding]:
    """Return one finding for each changed test file, with the old and the new lines; `patch` has all changed files."""
    if not intended.names or not changes:
        return []
    by_file: dict[str, IntendedChanges] = {}
    for field in IntendedChanges._fields:
        for name in getattr(intended, field):
            path = owner(name, changes) or changes[0].path
            group = by_file.get(path, IntendedChanges())
            by_file[path] = group._replace(**{field: (*getattr(group, field), name)})
    known = {change.path: change for change in changes}
    return [_finding(known[path], group, patch) for path, group in sorted(by_file.items())]


def _finding(change: ChangedFile, intended: IntendedChanges, patch: Sequence[ChangedFile]) -> TamperFinding:
    functions = {function_name(name) for name in intended.names}
    line, quoted = quote(change, functions)
    parts = []
    if intended.changed and quoted:
        parts.append(f"{_tests(intended.changed, 'expects', 'expect')} something else now")
    elif intended.changed:
        names = _tests(intended.changed, "passes", "pass")
        parts.append(f"{names} only in the new version, whose imports or helpers changed")
        line, quoted = quote(change)
    if intended.loosened:
        names = _tests(intended.loosened, "was", "were")
        parts.append(f"{names} changed: the old version fails on the change, the new version passes on base too")
    if intended.removed:
        parts.append(f"{_tests(intended.removed, 'is', 'are')} gone, and the old version does not pass on the change")
    if intended.skipped:
        parts.append(f"{_tests(intended.skipped, 'is', 'are')} skipped, and the old version fails on the change")
    if not quoted:
        line, quoted = quote(change)
    only_changed = bool(intended.changed) and len(intended.changed) == len(intended.names)
    grade: Literal["weakening", "suspect", "note"] = "suspect" if only_changed else "weakening"
    if only_changed and follows_private_move(change, functions, patch):
        grade, parts = "note", [f"{_tests(intended.changed, 'follows', 'follow')} the move of a private name"]
    return TamperFinding(RULE, change.path, line, "; ".join(parts), grade, quoted)


def follows_private_move(change: ChangedFile, functions: Iterable[str], patch: Sequence[ChangedFile]) -> bool:
    """Return True if these functions differ in nothing but imports of private names that the patch moved.

    Nobody outside of the project may rely on a private name, so that a test that follows its move expects the same.
    """
    wanted = set(functions)
    old, new = (_imports_and_rest(change.path, content, wanted) for content in (change.before, change.after))
    if old is None or new is None or old.rest != new.rest or not old.found:
        return False
    moved = [
        (sources, new.imported[bound])
        for bound, sources in old.imported.items()
        if bound in new.imported and new.imported[bound] != sources
    ]
    if any(name in old.named or name == "*" for _, name in new.imported.keys() - old.imported.keys()):
        return False  # another import takes the place of a name that these functions use
    return bool(moved) and all(
        len(before) == len(after) and all(_is_moved(*pair, patch) for pair in zip(before, after, strict=True))
        for before, after in moved
    )


def _is_moved(old: str, new: str, patch: Sequence[ChangedFile]) -> bool:
    """Return True if the new name is the old private one, which is gone from its place, elsewhere in its package."""
    if old == new:
        return True
    parts, others = old.split("."), new.split(".")
    private = any(part.startswith("_") and not part.startswith("__") for part in parts)
    return private and (parts[0], parts[-1]) == (others[0], others[-1]) and _is_gone(parts, others[-2], patch)


def _is_gone(parts: Sequence[str], place: str, patch: Sequence[ChangedFile]) -> bool:
    """Return True if the patch takes a name out of its module, which may import it from its new place."""
    module, name = "/".join(parts[:-1]).lstrip("/"), parts[-1]
    for change in patch:
        if change.before is None:
            continue
        path = f"/{change.path}"
        if path.endswith((f"/{module}/{name}.py", f"/{module}/{name}/__init__.py")):
            return change.after is None
        if module and path.endswith((f"/{module}.py", f"/{module}/__init__.py")):
            text = (change.after or b"").decode("utf-8", "replace")
            word = re.escape(name)
            defined = (
                rf"(?m)^\s*(?:class|(?:async\s+)?def)\s+(?:{word}|__getattr__)\b|"
                rf"^\s*{word}\s*(?::[^=\n]+)?=(?!=)|import \*"
            )
            sources = re.findall(rf"from\s+([\w.]+)\s+import\s+(?:\([^)]*?|[^\n(]*?)\b{word}\b", text)
            return not re.search(defined, text) and all(source.rpartition(".")[2] == place for source in sources)
    return False


class ImportsAndRest(NamedTuple):
    imported: Mapping[tuple[str, str], tuple[str, ...]]  # what each name stands for, by function and name
    rest: str  # of the file, without its imports and without other tests
    named: frozenset[str]  # names in the rest
    found: bool  # the functions are there


def _imports_and_rest(path: str, content: bytes | None, functions: set[str]) -> ImportsAndRest | None:
    if content is None or not path.endswith(".py"):
        return None
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return None
    reader = _ImportReader(functions)
    rest = reader.visit(tree)
    named = frozenset(node.id for node in ast.walk(rest) if isinstance(node, ast.Name))
    imported = {bound: tuple(sources) for bound, sources in reader.imported.items()}
    return ImportsAndRest(imported, ast.dump(rest), named, reader.found)


class _ImportReader(ast.NodeTransformer):
    """Takes imports and other tests out of a test file."""

    def __init__(self, functions: set[str]) -> None:
        self.functions, self.function, self.found = functions, "", False
        self.imported: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST | None:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST | None:
        wanted = node.name in self.functions
        if node.name.startswith("test") and not wanted:
            return None
        self.found |= wanted
        outer, self.function = self.function, f"{self.function}.{node.name}"
        visited = self.generic_visit(node)
        self.function = outer
        return visited

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.imported[self.function, alias.asname or alias.name].append(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            source = f"{'.' * bool(node.level)}{node.module or ''}.{alias.name}"
            self.imported[self.function, alias.asname or alias.name].append(source)


def _tests(names: Sequence[str], one: str, many: str) -> str:
    """Return a phrase such as `2 tests expect (test_a, test_b)`; the cases of one test count once."""
    functions = list(dict.fromkeys(_PARAMETERS.sub("", _short(name)) for name in names))
    return f"{join_first(functions, _MOST_NAMES)} {one if len(functions) == 1 else many}"


def _short(name: str) -> str:
    return name.rpartition("::")[2] if "::" in name else name


def function_name(name: str) -> str:
    """Return the name of a test's function or method, without its class, file and parameters.

    A test that makes its own ids appends the number of a case: `tests.test_a.Case.runTest.60`.
    """
    plain = _PARAMETERS.sub("", _short(name)).partition(" (")[0]
    *before, last = re.split(r"\.| > ", plain)
    if last.isdigit() and len(before) > 1 and all(part.isidentifier() for part in before):
        return before[-1]
    return last.strip()


def quote(change: ChangedFile, functions: Iterable[str] = ()) -> tuple[int | None, tuple[str, ...]]:
    """Return the first changed line and the lines that were removed and added, inside these functions if possible."""
    old, new = _lines(change.before), _lines(change.after)
    wanted = set(functions)
    spans = (_spans(change, change.before, wanted), _spans(change, change.after, wanted))
    limited = bool(spans[0] or spans[1])
    first: int | None = None
    out: list[str] = []
    for tag, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        removed = [at for at in range(old_from, old_to) if not limited or _inside(at + 1, spans[0])]
        added = [at for at in range(new_from, new_to) if not limited or _inside(at + 1, spans[1])]
        if (removed or added) and first is None:
            first = (added[0] if added else new_from) + 1
        out += [f"- {_cut(old[at])}" for at in removed if old[at].strip()]
        out += [f"+ {_cut(new[at])}" for at in added if new[at].strip()]
    if len(out) > _MOST_LINES:
        out = [*out[:_MOST_LINES], f"  and {len(out) - _MOST_LINES} more changed lines"]
    return first, tuple(out)


def _cut(line: str) -> str:
    plain = line.rstrip()
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"


def _lines(content: bytes | None) -> list[str]:
    if content is None or b"\0" in content:
        return []
    return content.decode("utf-8", "replace").splitlines()


Spans = list[tuple[int, int]]


def _inside(line: int, spans: Spans) -> bool:
    return any(start <= line <= end for start, end in spans)


def _spans(change: ChangedFile, content: bytes | None, functions: set[str]) -> Spans:
    spans = function_spans(change.path, content)
    return [span for title, span in spans if any(_is_same_test(title, name) for name in functions)]


_DEFINITION = lazy(
    r"""^\s*(?:(?:export|async|public|private|static|pub|void|final)\s+)*"""
    r"""(?:(?:func|fn|fun|function|def|void|sub)\s+(?P<name>\w+)|(?:\w+\.)?(?:test|it|specify|scenario)(?:\.\w+)?\s*\(\s*"""
    r"""(?P<quote>["'`])(?P<title>.*?)(?P=quote)|(?:TEST\w*|SCENARIO)\s*\((?P<macro>[^)]*)\))"""
)


def _spans_by_text(content: bytes) -> list[tuple[str, tuple[int, int]]]:
    """Return the functions and titled tests of a source in any language; each ends where the next begins."""
    lines = content.decode("utf-8", "replace").splitlines()
    starts = [(match, number) for number, line in enumerate(lines, 1) if (match := _DEFINITION.match(line))]
    ends = [number - 1 for _, number in starts[1:]] + [len(lines)] * bool(starts)
    return [
        (match["name"] or match["title"] or (match["macro"] or "").strip('"').replace(", ", "."), (start, end))
        for (match, start), end in zip(starts, ends, strict=True)
    ]


@lru_cache(maxsize=256)
def function_spans(path: str, content: bytes | None) -> list[tuple[str, tuple[int, int]]]:
    """Return the functions of a file with their first and last lines, decorators included."""
    if content is None:
        return []
    if not path.endswith(".py"):
        return _spans_by_text(content)
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return []
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            out.append((node.name, (start, node.end_lineno or node.lineno)))
    return out


class RunEvidence(NamedTuple):
    """The results that settle what the text of an edited test only suggests."""

    changes: Sequence[ChangedFile]  # of files that serve tests
    intended: frozenset[str]  # tests that a finding about their expectation names
    removed: frozenset[str]  # those of them that the new version lacks
    not_green: frozenset[str]  # tests whose old version did not pass on the change
    answered: bool  # the old tests ran on the change
    old_tests: frozenset[str]  # those that ran
    seen: Mapping[str, Outcome]  # the outcomes of the new version on the change
    skipped: frozenset[str] = frozenset()  # tests that are skipped in their old version, on base too
    renamed: frozenset[tuple[str, str]] = frozenset()  # tests with their names in the old and the new version


def settle(
    findings: Sequence[TamperFinding], asked: Sequence[TamperFinding], evidence: RunEvidence
) -> list[TamperFinding]:
    """Turn findings about the text of tests into notes where the runs say more than the text.

    `asked` are the findings about changed expectations. What the text shows about the same tests is added to them.
    """
    evidence = evidence._replace(renamed=_renamed(findings))
    open_paths = {finding.path for finding in asked if finding.grade != "note"}
    known = {change.path: change for change in evidence.changes}
    owners = {name: owner(name, evidence.changes) for name in evidence.not_green}
    also: dict[str, list[str]] = {}
    out = []
    for finding in findings:
        change = known.get(finding.path)
        if change is None or finding.grade == "note" or finding.rule == RULE or not _is_about_tests(finding, evidence):
            out.append(finding)
        elif finding.path in open_paths and _is_absorbed(finding, change, owners, evidence):
            out.append(finding._replace(grade="note", what=f"{finding.what}{PART}"))
            if finding.grade == "weakening":
                also.setdefault(finding.path, []).append(f"also: {finding.what} ({finding.rule})")
        else:
            answer = _answered_by_runs(finding, change, owners, evidence)
            out.append(_as_note(finding, answer) if answer else finding)
    joined = [finding._replace(details=(*finding.details, *also.pop(finding.path, ()))) for finding in asked]
    return [*joined, *out]


Owners = Mapping[str, str | None]


def _is_absorbed(finding: TamperFinding, change: ChangedFile, owners: Owners, evidence: RunEvidence) -> bool:
    """Return True if a finding about a changed expectation says more about the same test."""
    if not function_spans(change.path, change.after or change.before):
        return finding.grade == "suspect" or finding.rule.startswith("data-")
    functions = _tests_of(finding, change, evidence)
    wanted = {function_name(name) for name in evidence.intended}
    if change.path.endswith(".rs"):  # a test made by a macro, or an example, is named in its text
        functions |= {*re.findall(r"\w+", finding.what)}
        wanted = {word for name in wanted for word in re.findall(r"\w+", name)[-1:]}
    removed = {name for name in evidence.removed if owners.get(name) == finding.path}
    return any(_is_same_test(function, name) for function in functions for name in wanted) or _names_only(
        finding, removed
    )


def _answered_by_runs(finding: TamperFinding, change: ChangedFile, owners: Owners, evidence: RunEvidence) -> str:
    """Return what the runs showed about a finding, or nothing if it stands."""
    functions = _tests_of(finding, change, evidence)
    if _may_not_run(finding) and _all_ran(functions, finding.path, evidence):
        return "the new version was seen to run and pass here"
    if not _expects_otherwise(finding) or any(path is None for path in owners.values()):
        return ""
    if _all_pass(finding.path, owners) and _was_run(change, evidence):
        return "every old test of the file passes on the change"
    if _old_version_passes(functions, change, owners, evidence):
        return "the old version of the test passes on the change"
    return ""


def _old_version_passes(functions: set[str], change: ChangedFile, owners: Owners, evidence: RunEvidence) -> bool:
    """Return True if the tests around a finding ran in their old version, and all of them passed."""

    def concerns(name: str) -> bool:
        return any(_is_same_test(function, function_name(name)) for function in functions)

    failed = any(path == change.path and concerns(name) for name, path in owners.items())
    return not failed and any(concerns(name) and owner(name, [change]) == change.path for name in evidence.old_tests)


def _was_run(change: ChangedFile, evidence: RunEvidence) -> bool:
    """Return True if the old version of this file took part in a run; data and helpers take part in every run."""
    if not protected.is_test(change.path):
        return evidence.answered
    return evidence.answered and any(owner(name, [change]) == change.path for name in evidence.old_tests)


def _may_not_run(finding: TamperFinding) -> bool:
    """Return True if the text is in doubt about whether a test runs; read by text, any condition is in doubt."""
    asks_anything = finding.rule == "assert-conditional" and not finding.path.endswith(".py")
    return finding.grade == "suspect" and finding.rule.startswith(_MAY_NOT_RUN) and not asks_anything


def _expects_otherwise(finding: TamperFinding) -> bool:
    return finding.grade == "suspect" and finding.rule in _EXPECTS_OTHERWISE


def _all_pass(path: str, owners: Owners) -> bool:
    """Return True if every old test of a file passes on the change; of data and helpers, every old test."""
    return path not in owners.values() if protected.is_test(path) else not owners


def _is_about_tests(finding: TamperFinding, evidence: RunEvidence) -> bool:
    """Return True if the runs of tests can answer a finding; a source with tests inside it has other findings too."""
    if finding.rule == "doctest-changed" and any(f"{finding.path} - " in name for name in evidence.seen):
        return True  # cargo names the examples of a file so, where it runs them
    return protected.guard(finding.path) is not None or finding.rule.startswith(_ABOUT_TESTS)


def _names_only(finding: TamperFinding, removed: set[str]) -> bool:
    """Return True if a finding about deleted tests names no other tests than these."""
    count = re.match(r"(\d+) test", finding.what)
    functions = {function_name(name) for name in removed}
    named = {function for function in functions if function in finding.what}
    return finding.rule == "test-deleted" and bool(named) and int(count[1] if count else 1) <= len(functions)


def _as_note(finding: TamperFinding, why: str) -> TamperFinding:
    return finding._replace(grade="note", what=f"{finding.what}; {why}")


def _renamed(findings: Iterable[TamperFinding]) -> frozenset[tuple[str, str]]:
    """Return the pairs of names that the comparison of the texts found."""
    pairs = (finding.what.partition(" is now ") for finding in findings if finding.rule == "test-renamed")
    return frozenset((old, new) for old, joint, new in pairs if joint)


def _tests_of(finding: TamperFinding, change: ChangedFile, evidence: RunEvidence) -> set[str]:
    """Return the functions that a finding is about, and the old names of those that were renamed.

    The same line may be in another test of the other version: where the finding names one, it is about that one.
    """
    at_line = _at_line(change, finding.line)
    named = {name for name in at_line if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", finding.what)}
    functions = named or at_line
    was = [old for old, new in evidence.renamed if any(_is_same_test(function, new) for function in functions)]
    before = [name for name, _ in function_spans(change.path, change.before)]
    return functions | {name for name in before if any(_is_same_test(name, old) for old in was)}


def _at_line(change: ChangedFile, line: int | None) -> set[str]:
    """Return the functions that this line is in, in either version."""
    if line is None:
        return set()
    spans = function_spans(change.path, change.before) + function_spans(change.path, change.after)
    return {name for name, (start, end) in spans if start <= line <= end}


def _all_ran(functions: set[str], path: str, evidence: RunEvidence) -> bool:
    """Return True if all cases of these tests ran and passed that were not skipped before."""
    outcomes = [
        outcome
        for name, outcome in evidence.seen.items()
        if name not in evidence.skipped and function_name(name) in functions and owner(name, evidence.changes) == path
    ]
    return bool(outcomes) and all(outcome == "passed" for outcome in outcomes)
