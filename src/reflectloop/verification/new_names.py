"""Names that a patch adds, and failures that say no more than that such a name does not exist yet; pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from reflectloop.system.patterns import lazy
from reflectloop.verification import protected
from reflectloop.verification.result import ChangedFile

_WORD = lazy(r"[A-Za-z_]\w*")
_LARGEST = 1 << 20  # bytes of a source that is read
# Failures that name what is missing, as runtimes write them. Those of Python must begin the message.
_MISSING = tuple(
    lazy(pattern)
    for pattern in (
        r"^(?:E +)?(?:[\w.]+\.)?AttributeError: .*has no attribute '(\w+)'",
        r"^(?:E +)?(?:[\w.]+\.)?ImportError: cannot import name '(\w+)'",
        r"^(?:E +)?(?:[\w.]+\.)?ModuleNotFoundError: No module named '(?:[\w.]+\.)?(\w+)'",
        r"^(?:E +)?(?:[\w.]+\.)?NameError: (?:global )?name '(\w+)' is not defined",
        r"^(?:E +)?(?:[\w.]+\.)?TypeError: .*got an unexpected keyword argument '(\w+)'",
        r"^(?:E +)?fixture '(\w+)' not found",
        r"\b(\w+) is not a (?:function|constructor)\b",  # JavaScript
        r"\bReferenceError: (\w+) is not defined",
        r"does not provide an export named '(\w+)'",
        r"\bCannot read propert(?:y|ies) of undefined \(reading '(\w+)'\)",
        r"\bundefined (?:local variable or )?method [`'](\w+[?!]?)'",  # Ruby
        r"\buninitialized constant (?:\w+::)*(\w+)",
        r"\bCall to undefined (?:function|method) (?:[\w\\]+(?:::|->))?(\w+)\(",  # PHP
        r"\bUndefined subroutine &(?:\w+::)*(\w+) called",  # Perl
        r'\bcould not find function "(\w+)"',  # R
    )
)
_NOTHING = lazy(r"'NoneType' object has no attribute|is not a function or its return value")
# Definitions in languages that are not parsed here.
_DEFINED = lazy(
    r"\b(?:function\*?|class|def|fn|func|sub|const|let|var|interface|module|struct|enum)\s+(?:self\.)?([A-Za-z_]\w*)"
    r"|\b(?:exports|prototype|this)\.([A-Za-z_]\w*)\s*="
    r"|^\s*(?:static\s+|async\s+|public\s+|get\s+|set\s+)*([A-Za-z_]\w*)\s*\([^()]*\)\s*\{"
    r"|\b([A-Za-z_]\w*)\s*[:=]\s*(?:async\s*)?(?:function\b|\([^()]*\)\s*=>)",
    re.MULTILINE,
)


def missing_name(error: str) -> str | None:
    """Return the name of which a failure says that it does not exist, or None if it says something else."""
    if _NOTHING.search(error):
        return None
    return next((match[1] for pattern in _MISSING if (match := pattern.search(error))), None)


def missing_in_log(log: str) -> str | None:
    """Return the missing name in the last line of a log that names one."""
    return next((name for line in reversed(log.splitlines()) if (name := missing_name(line.strip()))), None)


def added_names(changes: Iterable[ChangedFile]) -> frozenset[str]:
    """Return the names that the changed sources define and that no changed source of base contains."""
    sources = list(_sources(changes))
    before = {word for change in sources for word in _WORD.findall(_text(change.before))}
    names = {name for change in sources for name in _defined(change)}
    names |= {part for change in sources if change.before is None for part in _parts(change.path)}
    return frozenset(names - before)


def added_definitions(changes: Iterable[ChangedFile]) -> list[str]:
    """Return the new names without those of parameters, for a message."""
    sources = list(_sources(changes))
    parameters = {
        node.arg
        for change in sources
        if change.path.endswith(".py") and (tree := _parsed(_text(change.after)))
        for node in ast.walk(tree)
        if isinstance(node, ast.arg)
    }
    return sorted(added_names(sources) - parameters)


def _parts(path: str) -> Iterable[str]:
    place = PurePosixPath(path)
    return (place.stem, *place.parent.parts[-1:])


def _sources(changes: Iterable[ChangedFile]) -> Iterator[ChangedFile]:
    for change in changes:
        content = change.after or b""
        if not protected.guard(change.path) and b"\0" not in content[:_LARGEST] and len(content) <= _LARGEST:
            yield change


def _text(content: bytes | None) -> str:
    return (content or b"").decode("utf-8", "replace")


def _defined(change: ChangedFile) -> set[str]:
    text = _text(change.after)
    if not change.path.endswith((".py", ".pyi")):
        return {name for match in _DEFINED.finditer(text) for name in match.groups() if name}
    tree = _parsed(text)
    return {name for node in ast.walk(tree) for name in _bound(node)} if tree else set()


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.id if isinstance(node, ast.Name) else node.attr
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.alias):
        yield (node.asname or node.name).split(".")[0]


# Base with nothing but the new definitions ----------------------------------------------------------------------------


def only_additions(changes: Sequence[ChangedFile]) -> dict[str, bytes] | None:
    """Return Python sources of base with the new definitions of the patch and none of its other edits.

    A test that passes on them shows that something new exists. None if the patch adds no definition.
    """
    sources = [change for change in _sources(changes) if change.path.endswith(".py")]
    new = added_names(changes)
    out: dict[str, bytes] = {}
    for change in sources:
        if change.after is None:
            continue
        if change.before is None:
            out[change.path] = change.after
        elif mixed := _with_additions(_text(change.before), _text(change.after), new):
            out[change.path] = mixed.encode()
    return out or None


def _with_additions(before: str, after: str, new: frozenset[str]) -> str | None:
    base, head = _parsed(before), _parsed(after)
    if base is None or head is None:
        return None
    known = {ast.dump(node) for node in base.body}
    added = [node for node in head.body if ast.dump(node) not in known and _is_new(node, new)]
    imports = [node for node in added if isinstance(node, ast.Import | ast.ImportFrom)]
    others = [node for node in added if node not in imports]
    methods = _add_methods(base, head, new)
    if not others and not methods:
        return None
    start = next((at for at, node in enumerate(base.body) if not _is_prologue(node)), len(base.body))
    base.body[start:start] = imports
    base.body += others
    return ast.unparse(ast.fix_missing_locations(base)) + "\n"


def _is_prologue(node: ast.stmt) -> bool:
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _is_new(node: ast.stmt, new: frozenset[str]) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return getattr(node, "module", "") != "__future__"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name in new
    if isinstance(node, ast.Assign | ast.AnnAssign):
        names = [name for part in ast.walk(node) for name in _bound(part)]
        return bool(names) and all(name in new for name in names)
    return False


def _add_methods(base: ast.Module, head: ast.Module, new: frozenset[str]) -> bool:
    """Add new methods to the classes of base; a method that Python calls by itself changes what exists."""
    classes = {node.name: node for node in base.body if isinstance(node, ast.ClassDef)}
    added = False
    for node in head.body:
        if isinstance(node, ast.ClassDef) and node.name in classes:
            methods = [part for part in node.body if _is_new(part, new) and not _is_special(part)]
            classes[node.name].body += methods
            added = added or bool(methods)
    return added


def _is_special(node: ast.stmt) -> bool:
    return getattr(node, "name", "").startswith("__")


def changes_code(changes: Iterable[ChangedFile]) -> bool:
    """Return False if a patch changes nothing but comments, spacing and prose."""
    return any(_changes_code(change) for change in changes)


def _changes_code(change: ChangedFile) -> bool:
    if change.path.lower().endswith((".md", ".rst", ".txt")):
        return False
    if not change.path.endswith(".py") or change.before is None or change.after is None:
        return True
    before, after = _parsed(_text(change.before)), _parsed(_text(change.after))
    return before is None or after is None or ast.dump(before) != ast.dump(after)
