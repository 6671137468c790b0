"""Run simpler versions of a patch, each without one new condition, to see whether the tests need the condition.

A patch that fixes the tests' inputs by a rule, and limits the rule by a condition that no test needs, has a simpler
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

from reflectloop.verification.probing import fitted, judging, neighbours, observations, renaming
from reflectloop.verification.probing.judging import Suspicion
from reflectloop.verification.probing.observations import AnswerPair, FunctionAnswer, Observation, Side
from reflectloop.verification.result import ChangedFile

_MOST_VERSIONS = 40
_CHOICE, _CALCULATION, _PART = 2, 4, 5  # the order in which edits are tried; conditions come before and between
_MOST_PARTS = 3  # of a call, that are tried in its place
_MOST_KEYS = 2  # of a table, that a new lookup is tried with
_LARGEST = 1 << 19
_LEAST_TESTS = 4  # different inputs of the tests, none of which needs the condition
_LEAST_STEADY, _LEAST_CHANGED = 1, 8  # of them, with base's answer, or with another one
_LEAST_GAINED, _SHARE_GAINED = 4, 0.1  # answers that change without the condition alone, of all that change then
_MOST_LOST = 0.25  # share of answers that fail without the condition, of those that differ
_FEW_ANSWERS = 4  # of a function that only says which of a few cases holds
_LONGEST = 80
_MOST_CHANGED = 24  # changed answers near the tests that a condition of the surroundings is judged by
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
    looks_at_input: bool = True  # whether it depends on what the function is given
    is_condition: bool = False  # held true or false


class _Edit(NamedTuple):
    rank: int
    start: int
    end: int
    text: bytes
    is_condition: bool = False


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
        edits.setdefault(edit[1:4], edit)
    return [
        SimplerVersion(
            path,
            after.count(b"\n", 0, edit.start) + 1,
            " ".join(after[edit.start : edit.end].decode(errors="replace").split()),
            after[: edit.start] + edit.text + after[edit.end :],
            _looks_at_input(root, edit),
            edit.is_condition,
        )
        for edit in [*edits.values()][:_MOST_VERSIONS]
    ]


def _looks_at_input(root: Node, edit: _Edit) -> bool:
    """Return True if what an edit takes away depends on what its function is given; of a lookup, its key."""
    node = root.descendant_for_byte_range(edit.start, edit.end)
    if node is None or edit.rank >= _CALCULATION:
        return True  # it decides nothing
    if node.type in _LOOKUPS and edit.rank == _CHOICE:
        arguments = node.child_by_field_name("arguments")
        keys = arguments.named_children if arguments is not None else node.named_children[-1:]
        node = keys[0] if keys else node
    return looks_at_input(node)


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
                text = form % (condition.text or b"", value)
                yield _Edit(rank, condition.start_byte, condition.end_byte, text, is_condition=True)
    if node.type == "case_clause" and node.child_by_field_name("guard") is None and _text(node) not in known:
        pattern = next((child for child in node.named_children if child.type == "case_pattern"), None)
        if pattern is not None:
            yield _Edit(1, pattern.start_byte, pattern.end_byte, b"_ if [1]", is_condition=True)
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
    for rank, texts in ((_CHOICE, _elements(node)), (_PART, _parts(node))):
        for text in texts:
            yield _Edit(rank, node.start_byte, node.end_byte, b"(%b)" % text)
    yield from _keyed(node)


def _calculations(node: Node, known: frozenset[bytes]) -> Iterator[_Edit]:
    """Yield one side of a new calculation in its place; a small number, if it makes small numbers."""
    if _is_arithmetic(node) and _text(node) not in known:
        sides = [node.child_by_field_name(name) for name in ("left", "right")]
        texts = [side.text or b"" for side in sides if side is not None]
        texts += [b"0", b"1"] if _operator(node) in _REMAINDERS else []
        yield from (_Edit(_CALCULATION, node.start_byte, node.end_byte, b"(%b)" % text) for text in texts)


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


# What an expression looks at ------------------------------------------------------------------------------------------

_FUNCTIONS = frozenset(
    (
        *("function_definition", "lambda", "function_declaration", "generator_function_declaration"),
        *("function_expression", "generator_function", "arrow_function", "method_definition"),
    )
)
_NAMES = frozenset(("identifier", "this", "shorthand_property_identifier_pattern", "shorthand_property_identifier"))
_WITH_MORE = frozenset(  # a parameter's name comes first; its type and its default are no parameters
    ("typed_parameter", "typed_default_parameter", "default_parameter", "assignment_pattern")
)
_SET = ("assignment", "augmented_assignment", "assignment_expression", "augmented_assignment_expression")
_ASSIGNMENTS = {"variable_declarator": ("name", "value"), **dict.fromkeys(_SET, ("left", "right"))}
_CALLS = {"call": "attribute", "call_expression": "member_expression"}  # with the form of a method
_PLAIN_BLOCKS = frozenset(("expression_statement", "lexical_declaration", "variable_declaration", "block"))


def looks_at_input(expression: Node) -> bool:
    """Return True if an expression depends on an argument, or on a variable that may come of one.

    True also if that cannot be told: outside of functions with parameters, or without any name in the expression.
    """
    around = list(_functions_around(expression))
    given = {name for function in around for name in _parameters(function)}
    names = set(_names(expression))
    if not given or not names:
        return True
    for function in around:
        given |= _derived(function, given)
    return not names.isdisjoint(given | {"this", "arguments"})


def _functions_around(node: Node) -> Iterator[Node]:
    parent = node.parent
    while parent is not None:
        if parent.type in _FUNCTIONS:
            yield parent
        parent = parent.parent


def _parameters(function: Node) -> Iterator[str]:
    for field in ("parameters", "parameter"):
        listed = function.child_by_field_name(field)
        yield from _names(listed) if listed is not None else ()


def _names(node: Node) -> Iterator[str]:
    todo = [node]
    while todo:
        item = todo.pop()
        if item.type in _NAMES:
            yield (item.text or b"").decode(errors="replace")
        todo.extend(item.named_children[: 1 if item.type in _WITH_MORE else None])


def _derived(function: Node, given: set[str]) -> set[str]:
    """Return the variables of a function that may depend on what it is given.

    Those that are set inside a loop, a condition or a handler count, since their surroundings may depend on it; so do
    those of its own that a method fills, as in `out.append(part)`.
    """
    out: set[str] = set()
    own = {name for node in _walk(function) if node.type in _ASSIGNMENTS for name in _names(node.named_children[0])}
    todo = [(child, True) for child in function.named_children]
    while todo:
        node, plain = todo.pop(0)
        fields = _ASSIGNMENTS.get(node.type)
        if fields:
            target, value = (node.child_by_field_name(field) for field in fields)
            depends = not plain or (value is not None and not (given | out).isdisjoint(_names(value)))
            out.update(_names(target) if target is not None and depends else ())
        elif node.type in _CALLS and (not plain or not (given | out).isdisjoint(_names(node))):
            out.update(_filled(node, own))
        elif not plain and node.type in _NAMES and _is_bound(node):
            out.update(_names(node))
        inner = plain and (fields is not None or node.type in _PLAIN_BLOCKS or node.type == "statement_block")
        todo.extend((child, inner) for child in node.named_children)
    return out


def _filled(call: Node, own: set[str]) -> set[str]:
    """Return the name of the function's own variable of which a method is called."""
    method = call.named_children[0]
    first = method.named_children[0] if method.type == _CALLS[call.type] else None
    return own & {(first.text or b"").decode(errors="replace")} if first is not None else set()


def _is_bound(node: Node) -> bool:
    """Return True for a name that a loop, a handler, a `with` or an expression gives a value to."""
    parent = node.parent
    while parent is not None and parent.type in ("pattern_list", "tuple_pattern", "array_pattern", "object_pattern"):
        node, parent = parent, parent.parent
    if parent is None:
        return False
    fields = (parent.child_by_field_name(field) for field in ("left", "name", "alias", "parameter"))
    return parent.type == "as_pattern_target" or any(field is not None and field.id == node.id for field in fields)


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


def of_surroundings(
    seen: Sequence[Observation], changes: Sequence[ChangedFile], patch: Side, roots: Sequence[str] = ("",)
) -> dict[int, Suspicion]:
    """Return, by its number, each function that is repaired only while something holds that no argument decides.

    Without that condition all changed answers are base's again: elsewhere the fault may be there as before.
    """
    chosen = [at for at, item in enumerate(seen) if item.changed and not item.new and not item.left_out]
    files = [item for item in changes if item.after] if chosen else []
    made = [item for change in files for item in versions(change.path, change.before, change.after or b"")]
    made = [item for item in made if not item.looks_at_input][:_MOST_VERSIONS]
    if not made:
        return {}
    sources = [(item.path, item.source.decode(errors="replace")) for item in made]
    asked = [_changed_pairs(seen[at]) for at in chosen]
    functions = [seen[at] for at in chosen]
    answers = observations.answers_of_versions(functions, asked, patch, sources, roots, as_patch=False)
    out: dict[int, Suspicion] = {}
    for number in sorted(answers):
        for at, items, given in zip(chosen, asked, answers[number], strict=True):
            lost = [
                answer is not None and answer.text == item.base.text for item, answer in zip(items, given, strict=True)
            ]
            if all(lost) and at not in out:
                out[at] = _only_while(seen[at], made[number], len(items))
    return out


def _changed_pairs(seen: Observation) -> list[AnswerPair]:
    near = [item for item in seen.telling if item.differs]
    return [*(seen.tests[at] for at in seen.changed), *near[:_MOST_CHANGED]]


def _only_while(seen: Observation, version: SimplerVersion, count: int) -> Suspicion:
    reason = (
        f"has another answer than before only while `{shortened(version.removed)}` (line {version.line}) holds, which "
        f"looks at no argument: without it all {count} changed answers are as before"
    )
    return Suspicion("only-in-these-surroundings", reason, judging.side_by_side(seen, []))


def shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


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
    reason = (
        f"decides by `{shortened(version.removed)}` (line {version.line}), which no call of the tests needs: without "
        f"it they have the same results, and the answers to {len(more)} of {asked} inputs near them change too"
    )
    return Suspicion("written-for-the-test", reason, judging.side_by_side(seen, more))


def has_enough_tests(seen: Observation) -> bool:
    """Return True if the tests show what base's answers to other inputs are worth, or change very many of them."""
    steady = len(seen.tests) - len(seen.changed)
    return len(seen.tests) >= _LEAST_TESTS and (steady >= _LEAST_STEADY or len(seen.changed) >= _LEAST_CHANGED)


def _inputs(seen: Observation) -> list[AnswerPair]:
    """Return the inputs near the tests' by which simpler versions are judged; none if the tests are too few.

    An argument that has nearly the same value in all tests is an option, and a condition on it is no list of inputs.
    """
    if seen.new or seen.left_out or not seen.changed or not has_enough_tests(seen):
        return []
    values: dict[str, set[str]] = {}
    for item in seen.tests:
        for place, value in (*enumerate(item.input.args), *item.input.kwargs.items()):
            values.setdefault(str(place), set()).add(repr(value))
            for name, entry in value.items() if type(value) is dict else ():
                values.setdefault(f"{place}.{name}", set()).add(repr(entry))
    steady = {place for place, known in values.items() if len(known) < _LEAST_VALUES}
    near = (*seen.telling, *seen.told(seen.grown), *seen.told(seen.fitted), *seen.told(seen.entries))
    return [item for item in near if item.place not in steady]


def _gained_somewhere(
    seen: Observation, near: Sequence[AnswerPair], answers: Sequence[FunctionAnswer | None]
) -> list[AnswerPair]:
    """Return the inputs that a simpler version fixes too: of all, of the larger ones, or of the others.

    Or of those at a limit, or those that differ in one entry of a dictionary: there are few of them among all.
    """
    others: dict[str, list[tuple[AnswerPair, FunctionAnswer | None]]] = {}
    pairs: list[tuple[AnswerPair, FunctionAnswer | None]] = []
    for pair in zip(near, answers, strict=True):
        (others.setdefault(pair[0].place, []) if pair[0].family == renaming.ENTRY else pairs).append(pair)
    fits = [pair for pair in pairs if pair[0].family == fitted.FITTED]
    pairs = [pair for pair in pairs if pair[0].family != fitted.FITTED]
    large = [pair for pair in pairs if pair[0].family == neighbours.GROWN]
    rest = [pair for pair in pairs if pair[0].family != neighbours.GROWN]
    chosen = (pairs, large, fits, rest, *others.values())
    groups = (_gained(seen, *zip(*group, strict=True)) for group in chosen if group)
    return next(filter(None, groups), [])


def _gained(
    seen: Observation, near: Sequence[AnswerPair], answers: Sequence[FunctionAnswer | None]
) -> list[AnswerPair]:
    """Return the inputs that a simpler version fixes too, with its answers, if it keeps what the patch changed.

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
