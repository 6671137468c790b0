"""Find the JavaScript functions whose code a patch adds or changes, and those that read what it changes; pure."""

from __future__ import annotations

import difflib
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from reflectloop.verification.probing.changed import ChangedFunction, ChangeReport
from reflectloop.verification.probing.javascript import functions, tokens
from reflectloop.verification.probing.javascript.functions import SourceParts
from reflectloop.verification.probing.javascript.tokens import SourceTokens, Token, Unreadable
from reflectloop.verification.probing.tables import is_part
from reflectloop.verification.result import ChangedFile

ENDINGS = (".js", ".cjs", ".mjs")
EXPORTS = "exports"  # the name under which a function is probed that the file exports as a whole
_DECLARING = ("var", "let", "const", "class", "import", "export")
_LITERALS = ("string", "number", "regex")
_LEAST_ENTRIES = 3  # that a table of base has
_SIGNS_OF_ENTRIES = frozenset((",", ":", "[", "]", "{", "}", "-"))
_WORDS = ("true", "false", "null", "undefined")


def find(changes: Sequence[ChangedFile]) -> ChangeReport:
    """Return the changed functions of the sources in `changes`."""
    out: list[ChangedFunction] = []
    unread: list[str] = []
    for change in changes:
        if change.after is None:
            continue
        try:
            new = tokens.split(change.after)
        except Unreadable as fault:
            unread.append(f"{change.path}: {fault}")
            continue
        out += _changed(change.path, _read(change.before), (new, functions.read(new)))
    return ChangeReport(tuple(out), tuple(unread))


def _read(source: bytes | None) -> tuple[SourceTokens, SourceParts]:
    try:
        split = tokens.split(source or b"")
    except Unreadable:
        split = tokens.split(b"")
    return split, functions.read(split)


def _changed(
    path: str, old: tuple[SourceTokens, SourceParts], new: tuple[SourceTokens, SourceParts]
) -> Iterator[ChangedFunction]:
    known = {item.qualname: item for item in old[1].functions}
    names, every = _changed_names(old, new)
    exported = _export_line(new[0])
    if (
        exported
        and old[0].tokens
        and (every or "" in names)
        and EXPORTS not in {item.qualname for item in new[1].functions}
    ):
        yield ChangedFunction(path, EXPORTS, exported, is_new=False, direct=False, base_line=_export_line(old[0]))
    for item in new[1].functions:
        before = known.get(item.qualname)
        texts = item.texts(new[0])
        plain = known.get(item.qualname.partition("#")[0])
        if before is None and plain is not None and plain.texts(old[0]) == texts:
            continue  # base's function, which a later one of its name replaces
        if before is None or before.texts(old[0]) != texts:
            line = before.line if before else 0
            yield ChangedFunction(path, item.qualname, item.line, before is None, base_line=line)
        elif every or names & {*texts}:
            yield ChangedFunction(path, item.qualname, item.line, is_new=False, direct=False, base_line=before.line)


def _changed_names(
    old: tuple[SourceTokens, SourceParts], new: tuple[SourceTokens, SourceParts]
) -> tuple[set[str], bool]:
    """Return the names that changed statements outside of functions bind, and whether some bind none."""
    before = Counter(_text(statement) for statement in functions.outside(*old))
    after = [(_text(statement), statement) for statement in functions.outside(*new)]
    names: set[str] = set()
    every = False
    added = [statement for text, statement in after if not before[text]]
    removed = before - Counter(text for text, _ in after)
    for statement in added:
        bound = _bound(statement)
        names |= bound
        every = every or not bound
    for text in removed:
        words = text.split(" ")
        names |= {words[1]} if len(words) > 1 and words[0] in _DECLARING else set()
    return names, every and bool(old[0].tokens)


def _export_line(source: SourceTokens) -> int:
    """Return the line of the last `module.exports` of a source, or 0."""
    numbers = [
        number
        for number, token in enumerate(source.tokens[2:], 2)
        if token.text == "exports" and source.tokens[number - 2].text == "module"
    ]
    return source.line(numbers[-1]) if numbers else 0


def is_module(source: SourceTokens) -> bool:
    """Return True for an ES module: a statement of it imports or exports."""
    depth = 0
    for number, token in enumerate(source.tokens):
        if token.kind == "sign":
            depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        following = source.tokens[number + 1].text if number + 1 < len(source.tokens) else ""
        if depth == 0 and token.kind == "name" and following not in ("(", ".", "=", ":"):
            before = source.tokens[number - 1].text if number else ";"
            if token.text in ("import", "export") and (token.lines_before or before in (";", "}") or not number):
                return True
    return False


def _text(statement: Sequence[Token]) -> str:
    return " ".join(token.text for token in statement)


def _bound(statement: Sequence[Token]) -> set[str]:
    """Return the names that a statement declares or assigns; of an export, which is no news to functions, a mark."""
    first = statement[0].text
    if first in _DECLARING:
        out, depth = set(), 0
        for number, token in enumerate(statement[1:], 1):
            if token.kind == "sign":
                depth += (token.text in "([{") - (token.text in ")]}")
            elif token.kind == "name" and (depth == 0 or first == "import") and statement[number - 1].text != ".":
                out.add(token.text)
        return out
    if first in ("module", "exports", "'use strict'", '"use strict"', ";"):
        return {""}
    if len(statement) > 1 and statement[0].kind == "name" and statement[1].text in (".", "[", "="):
        return {first}
    return set()


# Literals and tables -----------------------------------------------------------------------------------------------


def literals(source: bytes) -> tuple[object, ...]:
    """Return the different texts and numbers that a source writes down."""
    try:
        split = tokens.split(source)
    except Unreadable:
        return ()
    values = [_value(token) for token in split.tokens if token.kind in ("string", "number")]
    return tuple(dict.fromkeys(value for value in values if value is not None))


def _value(token: Token) -> str | int | float | None:
    if token.kind == "string":
        return token.text[1:-1] if "\\" not in token.text else None
    try:
        return int(token.text, 0)
    except ValueError:
        try:
            return float(token.text)
        except ValueError:
            return None


def only_grows(before: bytes | None, after: bytes | None) -> bool:
    """Return True if two sources differ only in entries added to tables of literals that base has."""
    try:
        old, new = tokens.split(before or b""), tokens.split(after or b"")
    except Unreadable:
        return False
    first, second = ([token.text for token in split.tokens] for split in (old, new))
    edits = difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
    changed = [edit for edit in edits if edit[0] != "equal"]
    return bool(changed) and all(
        kind == "insert" and _is_entry(new.tokens[start:end]) and _in_table(old, at)
        for kind, at, _, start, end in changed
    )


def only_removes(before: bytes, after: bytes) -> bool:
    """Return True if the second source is the first one with parts left out, but not with shorter tables."""
    try:
        old, new = tokens.split(before), tokens.split(after)
    except Unreadable:
        return False
    return is_part(_of_entries(new.tokens), _of_entries(old.tokens))


def _of_entries(given: Sequence[Token]) -> Iterator[tuple[str, bool]]:
    """Yield each token with whether it may be a part of an entry of a table."""
    for token, following in itertools.zip_longest(given, given[1:]):
        is_key = token.kind == "name" and following is not None and following.text == ":"
        yield token.text, is_key or token.kind in ("string", "number") or token.text in (",", ":")


def _is_entry(added: Sequence[Token]) -> bool:
    """Return True for tokens that write entries: literals, names before a colon, and the signs between them."""
    for number, token in enumerate(added):
        if token.kind == "sign":
            if token.text not in _SIGNS_OF_ENTRIES:
                return False
        elif token.kind == "name" and token.text not in _WORDS:
            following = added[number + 1].text if number + 1 < len(added) else ":"
            if following != ":":
                return False
        elif token.kind not in (*_LITERALS, "name"):
            return False
    return True


def _in_table(split: SourceTokens, at: int) -> bool:
    """Return True if a place is directly inside brackets that hold some literal entries."""
    number = at - 1
    while number >= 0:
        token = split.tokens[number]
        if token.kind == "sign" and token.text in (")", "]", "}"):
            number = split.partner[number]
        elif token.kind == "sign" and token.text in ("(", "[", "{"):
            break
        number -= 1
    if number < 0 or split.tokens[number].text not in ("[", "{"):
        return False
    inner = split.tokens[number + 1 : split.partner[number]]
    return _is_entry(inner) and sum(token.kind in _LITERALS for token in inner) >= _LEAST_ENTRIES
