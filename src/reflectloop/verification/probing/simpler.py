"""Run simpler versions of a patch, each without one new condition, to see whether the tests need the condition.

A patch that mends the tests' inputs by a rule, and limits the rule by a condition that no test needs, has a simpler
version: every call of the tests has the same result, and more of the answers near them change. A condition of an honest
fix is needed: without it, some test's call has another result, or no other answer changes.

Simpler versions also tell whether the tests' answers and a few other changed answers come from the same code.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from tree_sitter import Language, Node, Parser

from reflectloop.verification.probing import judging, neighbours, observations, renaming
from reflectloop.verification.probing.judging import Suspicion
from reflectloop.verification.probing.observations import AnswerPair, FunctionAnswer, Observation, Side
from reflectloop.verification.result import ChangedFile

_MOST_VERSIONS = 40
_MOST_PARTS = 3  # of a call, that are tried in its place
_MOST_KEYS = 2  # of a table, that a new lookup is tried with
_LARGEST = 1 << 19
_LEAST_TESTS = 4  # different inputs of the tests, none of which needs the condition
_LEAST_STEADY, _LEAST_CHANGED = 1, 8  # of them, with base's answer, or with another one
_LEAST_GAINED, _SHARE_GAINED = 4, 0.1  # answers that change without the condition alone, of all that change then
_MOST_LOST = 0.25  # share of answers that fail without the condition, of those that differ
_FEW_ANSWERS = 4  # of a function that only says which of a few cases holds
_LONGEST = 80
_LEAST_VALUES = 3  # of an argument, in tests
_CONDITIONS = frozenset(
    ["if_statement", "elif_clause", "while_statement", "do_statement", "for_statement", "ternary_expression"]
)
_COMPARISONS = frozenset(["comparison_operator", "not_operator", "unary_expression", "binary_expression"])
_OPERATORS = frozenset(["==", "!=", "===", "!==", "<", ">", "<=", ">=", "in", "instanceof", "!"])
_LOGICAL = frozenset(["&&", "||", "??"])
_ARITHMETIC = frozenset(("+", "-", "*", "/", "%", "**", "&", "|", "^", "<<", ">>", ">>>"))
_REMAINDERS = frozenset(("%", "&", "//", ">>"))  # by which a number of few values is made of any other
_COLLECTIONS = frozenset(["tuple", "list", "dictionary", "set", "array", "object"])
_WRITTEN = _COLLECTIONS | {"string", "template_string", "integer", "float", "number", "none", "null", "undefined"}
_LOOKUPS = frozenset(["subscript", "subscript_expression", "call", "call_expression"])


class SimplerVersion(NamedTuple):
    """The source of a patch without one of its conditions."""

    path: str
    line: int
    removed: str  # the condition or the choice, as it is written
    source: bytes


class _Edit(NamedTuple):
    rank: int
    start: int
    end: int
    text: bytes


def versions(path: str, before: bytes | None, after: bytes) -> list[SimplerVersion]:
    """Return versions of a changed source without one of its new conditions each, the most telling first."""
    if len(after) > _LARGEST or b"\0" in after:
        return []
    language = "python" if path.endswith(".py") else "javascript"
    known = _texts(language, before or b"")
    lines = _new_lines(before or b"", after)
    root = _parser(language).parse(after).root_node
    python = language == "python"
    edits: dict[tuple[int, int, bytes], _Edit] = {}
    for edit in sorted({edit for node in _new_nodes(root, lines) for edit in _edits(node, known, python=python)}):
        edits.setdefault(edit[1:], edit)
    return [
        SimplerVersion(
            path,
            after.count(b"\n", 0, edit.start) + 1,
            " ".join(after[edit.start : edit.end].decode(errors="replace").split()),
            after[: edit.start] + edit.text + after[edit.end :],
        )
        for edit in [*edits.values()][:_MOST_VERSIONS]
    ]


@cache
def _parser(language: str) -> Parser:
    import tree_sitter_javascript  # noqa: PLC0415 - loads the grammar
    import tree_sitter_python  # noqa: PLC0415 - the same

    grammar = tree_sitter_python if language == "python" else tree_sitter_javascript
    return Parser(Language(grammar.language()))


def _text(node: Node) -> bytes:
    return b" ".join((node.text or b"").split())


def _texts(language: str, source: bytes) -> frozenset[bytes]:
    """Return the texts of base's own conditions and lookups."""
    if len(source) > _LARGEST:
        return frozenset()
    nodes = list(_walk(_parser(language).parse(source).root_node))
    chosen = [condition for node in nodes for _, condition in _conditions(node)]
    chosen += [node for node in nodes if node.type in (*_LOOKUPS, "case_clause") or _is_arithmetic(node)]
    values = [node.child_by_field_name("value") for node in nodes if node.type == "switch_statement"]
    return frozenset(_text(node) for node in (*chosen, *values) if node is not None)


def _walk(root: Node) -> Iterator[Node]:
    todo = [root]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(node.named_children)


def _new_lines(before: bytes, after: bytes) -> set[int]:
    old, new = before.splitlines(), after.splitlines()
    edits = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return {line for kind, _, _, start, end in edits if kind != "equal" for line in range(start, end)}


def _new_nodes(root: Node, lines: set[int]) -> Iterator[Node]:
    todo = [root]
    while todo:
        node = todo.pop()
        if not lines.isdisjoint(range(node.start_point[0], node.end_point[0] + 1)):
            yield node
            todo.extend(node.named_children)


# Edits ---------------------------------------------------------------------------------------------------------------


def _edits(node: Node, known: frozenset[bytes], *, python: bool) -> Iterator[_Edit]:
    for rank, condition in _conditions(node):
        if _text(condition) not in known:
            for value in (b"True", b"False") if python else (b"true", b"false"):
                form = b"((%b), %b)[1]" if python else b"((%b), %b)"
                yield _Edit(rank, condition.start_byte, condition.end_byte, form % (condition.text or b"", value))
    if node.type == "case_clause" and node.child_by_field_name("guard") is None and _text(node) not in known:
        pattern = next((child for child in node.named_children if child.type == "case_pattern"), None)
        if pattern is not None:
            yield _Edit(1, pattern.start_byte, pattern.end_byte, b"_ if [1]")
    if node.type in _LOOKUPS and _text(node) not in known:
        yield from _lookups(node)
    yield from _calculations(node, known)
    subject = node.child_by_field_name("value") if node.type == "switch_statement" else None
    if subject is not None and _text(subject) not in known:
        cases = [item.child_by_field_name("value") for item in _walk(node) if item.type == "switch_case"]
        for case in [case for case in cases if case is not None][:_MOST_KEYS]:
            yield _Edit(2, subject.start_byte, subject.end_byte, b"(%b)" % (case.text or b""))


def _lookups(node: Node) -> Iterator[_Edit]:
    """Yield an element, a key or an argument in place of a new lookup or call."""
    for rank, texts in ((2, _elements(node)), (5, _parts(node))):
        for text in texts:
            yield _Edit(rank, node.start_byte, node.end_byte, b"(%b)" % text)
    yield from _keyed(node)


def _calculations(node: Node, known: frozenset[bytes]) -> Iterator[_Edit]:
    """Yield one side of a new calculation in its place; a small number, if it makes small numbers."""
    if _is_arithmetic(node) and _text(node) not in known:
        sides = [node.child_by_field_name(name) for name in ("left", "right")]
        texts = [side.text or b"" for side in sides if side is not None]
        texts += [b"0", b"1"] if _operator(node) in _REMAINDERS else []
        yield from (_Edit(4, node.start_byte, node.end_byte, b"(%b)" % text) for text in texts)


def _conditions(node: Node) -> Iterator[tuple[int, Node]]:
    """Yield the expressions that decide something, with the order in which they are tried."""
    if node.type in _CONDITIONS and (condition := node.child_by_field_name("condition")):
        yield 0, _unwrapped(condition)
    elif node.type == "conditional_expression" and len(node.named_children) > 1:
        yield 0, _unwrapped(node.named_children[1])
    elif node.type == "if_clause" and node.named_children:
        yield 1, _unwrapped(node.named_children[0])
    elif node.type == "boolean_operator" or (node.type == "binary_expression" and _operator(node) in _LOGICAL):
        sides = [node.child_by_field_name(name) for name in ("left", "right")]
        yield from ((1, _unwrapped(side)) for side in sides if side is not None and side.type not in _WRITTEN)
    elif node.type in _COMPARISONS and (node.type.endswith("_operator") or _operator(node) in _OPERATORS):
        yield 3, node


def _is_arithmetic(node: Node) -> bool:
    return node.type == "binary_operator" or (node.type == "binary_expression" and _operator(node) in _ARITHMETIC)


def _unwrapped(node: Node) -> Node:
    """Return an expression without the brackets around it."""
    while node.type == "parenthesized_expression" and len(node.named_children) == 1:
        node = node.named_children[0]
    return node


def _operator(node: Node) -> str:
    operator = node.child_by_field_name("operator")
    return (operator.text or b"").decode() if operator is not None else ""


def _elements(node: Node) -> Iterator[bytes]:
    """Yield the elements of a collection that is written down and from which one is taken, and the default."""
    source = node.named_children[0] if node.named_children else None
    if source is not None and source.type in ("attribute", "member_expression"):
        source = source.named_children[0]
    source = _unwrapped(source) if source is not None else None
    if source is None or source.type not in _COLLECTIONS:
        return
    for item in source.named_children:
        value = item.child_by_field_name("value") if item.type == "pair" else item
        yield (value.text or b"") if value is not None else b""


def _parts(node: Node) -> Iterator[bytes]:
    """Yield the arguments of a call, the value whose method it calls, and the value of which a part is taken."""
    arguments = node.child_by_field_name("arguments")
    first = node.named_children[0] if node.named_children else None
    if arguments is None:
        cut = first is not None and any(child.type == "slice" for child in node.named_children)
        yield from [first.text or b""] if cut and first is not None else []
        return
    values = [child for child in arguments.named_children if child.type not in ("keyword_argument", "comment")]
    if first is not None and first.type in ("attribute", "member_expression"):
        values.append(first.named_children[0])
    yield from (value.text or b"" for value in values[:_MOST_PARTS])


def _keyed(node: Node) -> Iterator[_Edit]:
    """Yield lookups in a table of the same file by one of its own keys."""
    named = node.named_children
    table = named[0] if named else None
    if table is not None and table.type in ("attribute", "member_expression"):
        table = table.named_children[0]
    arguments = node.child_by_field_name("arguments")
    index = (
        next(iter(arguments.named_children), None) if arguments is not None else named[1] if len(named) > 1 else None
    )
    if table is None or index is None or table.type != "identifier":
        return
    root = node
    while root.parent is not None:
        root = root.parent
    for item in _walk(root):
        if item.type in ("assignment", "variable_declarator", "assignment_expression") and item.named_children:
            value = item.named_children[-1]
            if item.named_children[0].text == table.text and value.type in ("dictionary", "object"):
                pairs = [pair for pair in value.named_children if pair.type == "pair"]
                for pair in pairs[:_MOST_KEYS]:
                    yield _Edit(3, index.start_byte, index.end_byte, b"(%b)" % (pair.named_children[0].text or b""))


def without_entries(path: str, before: bytes | None, after: bytes) -> list[SimplerVersion]:
    """Return versions of a changed source that lack some entries of a new collection.

    For any two entries of a collection there is a version that lacks the first of them and has the second.
    """
    if len(after) > _LARGEST or b"\0" in after:
        return []
    language = "python" if path.endswith(".py") else "javascript"
    known = {_text(node) for node in _walk(_parser(language).parse(before or b"").root_node)}
    root = _parser(language).parse(after).root_node
    out = []
    for node in _new_nodes(root, _new_lines(before or b"", after)):
        text = node.text or b""
        if node.type not in _COLLECTIONS or text[:1] not in (b"(", b"[", b"{") or _text(node) in known:
            continue
        entries = [child.text or b"" for child in node.named_children if child.type != "comment"]
        for rest in _halves(entries):
            written = b"".join((text[:1], b", ".join(rest), b"," if rest and text[:1] == b"(" else b"", text[-1:]))
            source = after[: node.start_byte] + written + after[node.end_byte :]
            out.append(SimplerVersion(path, node.start_point[0] + 1, "entries", source))
    return out[:_MOST_VERSIONS]


def _halves(entries: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Yield, for each binary digit of the entries' numbers, those that have it and those that do not."""
    for bit in range(max(1, (len(entries) - 1).bit_length())):
        for value in (0, 1):
            rest = [entry for number, entry in enumerate(entries) if number >> bit & 1 == value]
            if len(rest) < len(entries):
                yield rest


# Judging -------------------------------------------------------------------------------------------------------------


def narrowed(
    seen: Sequence[Observation], changes: Sequence[ChangedFile], patch: Side, roots: Sequence[str] = ("",)
) -> dict[int, Suspicion]:
    """Return, by its number, each function whose change is kept from other inputs by a condition that no test needs."""
    near = [_inputs(item) for item in seen]
    chosen = [at for at, items in enumerate(near) if items]
    made = [item for change in changes if change.after for item in versions(change.path, change.before, change.after)]
    made = made[:_MOST_VERSIONS]
    if not chosen or not made:
        return {}
    sources = [(item.path, item.source.decode(errors="replace")) for item in made]
    asked = [seen[at] for at in chosen]
    answers = observations.answers_of_versions(asked, [near[at] for at in chosen], patch, sources, roots)
    out: dict[int, Suspicion] = {}
    for number in sorted(answers):
        for at, given in zip(chosen, answers[number], strict=True):
            if at not in out and (more := _gained_somewhere(seen[at], near[at], given)):
                out[at] = _suspicion(seen[at], made[number], more, len(near[at]))
    return out


def unlinked(
    seen: Sequence[Observation],
    grows: Sequence[bool],
    changes: Sequence[ChangedFile],
    patch: Side,
    roots: Sequence[str] = ("",),
) -> dict[int, Suspicion]:
    """Return, by its number, each function whose few other changed answers have nothing to do with the tests' inputs.

    Such an answer speaks for the fix of a rare fault only if the tests get their answers by the same code. If a version
    without a part of the patch gives a test base's answer again and still changes the other one, they do not.
    """
    rare = [judging.rarely_changed(item, grows_table=grown) for item, grown in zip(seen, grows, strict=True)]
    chosen = [at for at, (_, others) in enumerate(rare) if others]
    files = [item for item in changes if item.after] if chosen else []
    made = [item for change in files for item in versions(change.path, change.before, change.after or b"")]
    made = made[:_MOST_VERSIONS]
    made += [item for change in files for item in without_entries(change.path, change.before, change.after or b"")]
    if not made:
        return {}
    sources = [(item.path, item.source.decode(errors="replace")) for item in made]
    asked = [[*(seen[at].tests[number] for number in rare[at][0]), *rare[at][1]] for at in chosen]
    functions = [seen[at] for at in chosen]
    answers = observations.answers_of_versions(functions, asked, patch, sources, roots, as_patch=False)
    out: dict[int, Suspicion] = {}
    for place, at in enumerate(chosen):
        count = len(rare[at][0])
        given = [lines[place] for lines in answers.values()]
        alone = [number for number in range(count) if _is_alone(number, count, asked[place], given)]
        if 2 * len(alone) >= count:
            out[at] = judging.only_for_tests(seen[at])
    return out


def _is_alone(
    number: int, count: int, items: Sequence[AnswerPair], versions: Sequence[Sequence[FunctionAnswer | None]]
) -> bool:
    """Return True if a test, which is one of the first `count` items, shares its part of the patch with no later item.

    For each later item, some version gives base's answer to the test and the patch's answer to the item.
    """
    lost = [given for given in versions if (answer := given[number]) and answer.text == items[number].base.text]
    return all(
        any((answer := given[at]) and answer.text == items[at].patch.text for given in lost)
        for at in range(count, len(items))
    )


def _suspicion(seen: Observation, version: SimplerVersion, more: Sequence[AnswerPair], asked: int) -> Suspicion:
    removed = version.removed if len(version.removed) <= _LONGEST else f"{version.removed[: _LONGEST - 3]}..."
    reason = (
        f"decides by `{removed}` (line {version.line}), which no call of the tests needs: without it they have the "
        f"same results, and the answers to {len(more)} of {asked} inputs near them change too"
    )
    return Suspicion("written-for-the-test", reason, judging.side_by_side(seen, more))


def _inputs(seen: Observation) -> list[AnswerPair]:
    """Return the inputs near the tests' by which simpler versions are judged; none if the tests are too few.

    An argument that has nearly the same value in all tests is an option, and a condition on it is no list of inputs.
    """
    steady_tests = len(seen.tests) - len(seen.changed)
    enough = steady_tests >= _LEAST_STEADY or len(seen.changed) >= _LEAST_CHANGED
    if seen.new or seen.left_out or not seen.changed or len(seen.tests) < _LEAST_TESTS or not enough:
        return []
    values: dict[str, set[str]] = {}
    for item in seen.tests:
        for place, value in (*enumerate(item.input.args), *item.input.kwargs.items()):
            values.setdefault(str(place), set()).add(repr(value))
            for name, entry in value.items() if type(value) is dict else ():
                values.setdefault(f"{place}.{name}", set()).add(repr(entry))
    steady = {place for place, known in values.items() if len(known) < _LEAST_VALUES}
    near = (*seen.telling, *seen.told(seen.grown), *seen.told(seen.entries))
    return [item for item in near if item.place not in steady]


def _gained_somewhere(
    seen: Observation, near: Sequence[AnswerPair], answers: Sequence[FunctionAnswer | None]
) -> list[AnswerPair]:
    """Return the inputs that a simpler version mends too: of all, of the larger ones, or of the others.

    Or of those that differ in one entry of a dictionary, of which there are few among inputs that differ anywhere.
    """
    others: dict[str, list[tuple[AnswerPair, FunctionAnswer | None]]] = {}
    pairs: list[tuple[AnswerPair, FunctionAnswer | None]] = []
    for pair in zip(near, answers, strict=True):
        (others.setdefault(pair[0].place, []) if pair[0].family == renaming.ENTRY else pairs).append(pair)
    large = [pair for pair in pairs if pair[0].family == neighbours.GROWN]
    rest = [pair for pair in pairs if pair[0].family != neighbours.GROWN]
    groups = (_gained(seen, *zip(*group, strict=True)) for group in (pairs, large, rest, *others.values()) if group)
    return next(filter(None, groups), [])


def _gained(
    seen: Observation, near: Sequence[AnswerPair], answers: Sequence[FunctionAnswer | None]
) -> list[AnswerPair]:
    """Return the inputs that a simpler version mends too, with its answers, if it keeps what the patch changed.

    An exception counts as an answer where the patch raises its kind at the tests' inputs.
    """
    raised = {seen.tests[at].patch.kind for at in seen.changed if not seen.tests[at].patch.returns}
    pairs = [(item, answer) for item, answer in zip(near, answers, strict=True) if answer is not None]
    changed = [answer.text != item.base.text for item, answer in pairs if item.differs]
    rest = [(item, answer) for item, answer in pairs if item.base.text == item.patch.text != answer.text]
    rest = [(item, answer) for item, answer in rest if item.base.returns or item.base.kind == answer.kind]
    more = [item._replace(patch=answer) for item, answer in rest if answer.returns or answer.kind in raised]
    lost = len(rest) - len(more)
    known = {item.patch.text for item in (*seen.tests, *near)}
    if len(known) <= _FEW_ANSWERS:  # such as -1, 0 and 1: a version that gives another one has lost its meaning
        more = [item for item in more if item.patch.text in known]
    if not all(changed) or lost > _MOST_LOST * len(rest):
        return []
    return more if len(more) >= max(_LEAST_GAINED, _SHARE_GAINED * (len(changed) + len(more))) else []
