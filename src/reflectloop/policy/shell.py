"""Reads shell text into its simple commands, by a real parse; follows variables, `cd`, pipes and here documents."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

from tree_sitter import Language, Node, Parser

from reflectloop.policy import output, words
from reflectloop.policy.simple import LONGEST, UNKNOWN, Feed, Redirect, Simple, Word

_DEEPEST = 48  # commands within commands
_MOST_TEXT = 4 * LONGEST  # that variables may be made into
_MOST_VALUES = 16  # of one loop variable
_NOT_WORDS = frozenset(("comment", "file_descriptor", "heredoc_body", "heredoc_end", "heredoc_start"))


class Line(NamedTuple):
    commands: tuple[Simple, ...]
    broken: str = ""  # where the parse failed
    bomb: str = ""  # the function that starts itself without end
    deep: bool = False


@cache
def _parser() -> Parser:
    import tree_sitter_bash  # noqa: PLC0415 - the grammar is loaded when the first line is read

    return Parser(Language(tree_sitter_bash.language()))


def read(text: str, variables: Iterable[tuple[str, str]] = (), folder: str = "") -> Line:
    raw = text.encode("utf-8", "surrogatepass")
    root = _parser().parse(raw).root_node
    if root.has_error and b"<>" in raw:
        # The grammar does not know `<>`; as a place that is written to it is `>`.
        raw = raw.replace(b"<>", b"> ")
        root = _parser().parse(raw).root_node
    reader = _Reader(raw, {name: (Word(value),) for name, value in variables}, folder)
    reader.walk(root, None)
    broken = _broken(root, raw) if root.has_error else ""
    return Line(tuple(reader.commands), broken, reader.bomb, reader.deep)


def _broken(root: Node, raw: bytes) -> str:
    """The first part that is no shell; at least what stands where something is missing."""
    node = root
    while node.type != "ERROR" and not node.is_missing:
        inner = next((child for child in node.children if child.has_error or child.is_missing), None)
        if inner is None:
            break
        node = inner
    said = raw[node.start_byte : node.end_byte] or raw[max(0, node.start_byte - 20) :]
    return said.decode("utf-8", "replace")[:60].strip() or "(nothing)"


class _Redirected(NamedTuple):
    """What stands around a command: more words of it, where its output goes, all of it as it is written."""

    words: list[Word]
    redirects: list[Redirect]
    source: str


class _Reader:
    def __init__(self, raw: bytes, known: dict[str, tuple[Word, ...]], folder: str) -> None:
        self.raw, self.known, self.folder = raw, known, folder
        self.commands: list[Simple] = []
        self.bomb = ""
        self.deep = False
        self._depth = 0
        self._spent = 0  # characters of words made so far
        self._changes: list[tuple[str, tuple[Word, ...] | None]] = []  # what variables were before, latest last

    def walk(self, node: Node, feed: Feed | None) -> Feed:
        """Read what is below a node; answers what it would print."""
        if self._depth > _DEEPEST:
            self.deep = True
            return Feed(None)
        self._depth += 1
        handler = _HANDLERS.get(node.type)
        printed = handler(self, node, feed) if handler else self._each(node.named_children, feed)
        self._depth -= 1
        return printed

    def text(self, node: Node) -> str:
        return self.raw[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _each(self, nodes: Iterable[Node], feed: Feed | None) -> Feed:
        printed = [self.walk(node, feed) for node in nodes]
        if len(printed) == 1:
            return printed[0]
        return Feed(None, tuple(name for one in printed for name in one.made_by))

    def scoped(self, node: Node, feed: Feed | None) -> Feed:
        """A subshell: what it sets, and where it goes, ends with it."""
        mark, folder = len(self._changes), self.folder
        printed = self._each(node.named_children, feed)
        self._undo(mark)
        self.folder = folder
        return printed

    def _set(self, name: str, values: tuple[Word, ...]) -> None:
        self._changes.append((name, self.known.get(name)))
        self.known[name] = values

    def _undo(self, mark: int) -> None:
        while len(self._changes) > mark:
            name, before = self._changes.pop()
            if before is None:
                del self.known[name]
            else:
                self.known[name] = before

    def pipeline(self, node: Node, feed: Feed | None) -> Feed:
        passed = feed
        for child in node.named_children:
            passed = self.walk(child, passed)
        return passed or Feed(None)

    def command(self, node: Node, feed: Feed | None, extra: _Redirected | None = None) -> Feed:
        said: list[Word] = []
        redirects: list[Redirect] = list(extra.redirects) if extra else []
        mark = len(self._changes)
        for child in node.children:
            if child.type == "variable_assignment":
                self.assign(child, None)
            elif child.type.endswith("_redirect"):
                feed = self._redirect(child, said, redirects) or feed
            elif child.is_named or child.type == "$":
                said += self.words(child)
        said += extra.words if extra else []
        printed = self._note(said, redirects, feed, extra.source if extra else self.text(node))
        if said:
            self._undo(mark)
        return printed

    def _note(self, said: list[Word], redirects: list[Redirect], feed: Feed | None, source: str) -> Feed:
        one = Simple(tuple(said), tuple(redirects), feed, source, self.folder)
        if said or redirects:
            self.commands.append(one)
        if one.program in ("cd", "pushd"):
            self.folder = _moved(self.folder, [word for word in said[1:] if not word.text.startswith("-")])
        return output.of(one)

    def redirected(self, node: Node, feed: Feed | None) -> Feed:
        body = node.child_by_field_name("body")
        said: list[Word] = []
        redirects: list[Redirect] = []
        after: list[Node] = []
        for child in node.named_children:
            if child.type.endswith("_redirect"):
                feed = self._redirect(child, said, redirects, after) or feed
        if body is not None and body.type == "command":
            printed = self.command(body, feed, _Redirected(said, redirects, self.text(node)))
        else:
            printed = self.walk(body, feed) if body is not None else Feed(None)
            self._note([], redirects, None, self.text(node))
        for child in after:
            printed = self.walk(child, printed)
        return printed

    def _redirect(
        self, node: Node, said: list[Word], redirects: list[Redirect], after: list[Node] | None = None
    ) -> Feed | None:
        if node.type == "herestring_redirect":
            value = [word for child in node.named_children for word in self.words(child)]
            return Feed(" ".join(word.text for word in value), tuple(name for word in value for name in word.made_by))
        if node.type == "heredoc_redirect":
            return self._heredoc(node, said, redirects, [] if after is None else after)
        operator = next((child.type for child in node.children if not child.is_named), ">")
        targets = [word for child in node.children_by_field_name("destination") for word in self.words(child)]
        # The grammar takes the arguments that stand behind a redirection for more of its targets.
        said += targets[1:]
        redirects += [Redirect(operator, target) for target in targets[:1]]
        return Feed(None, targets[0].made_by) if targets and operator == "<" else None

    def _heredoc(self, node: Node, said: list[Word], redirects: list[Redirect], after: list[Node]) -> Feed:
        text, strip, literal = "", False, False
        made_by: tuple[str, ...] = ()
        for child in node.children:
            if child.type == "<<-":
                strip = True
            elif child.type == "heredoc_start":
                literal = not self.text(child).isidentifier()
            elif child.type == "heredoc_body":
                value = Word(self.text(child)) if literal else self._joined(child, lambda piece: piece)
                text, made_by = value.text, value.made_by
            elif child.type.endswith("_redirect"):
                self._redirect(child, said, redirects)
            elif child.is_named and child.type not in _NOT_WORDS:
                is_argument = node.field_name_for_child(node.children.index(child)) == "argument"
                said += self.words(child) if is_argument else []
                after += [] if is_argument else [child]
        lines = [line.lstrip("\t") for line in text.split("\n")] if strip else [text]
        return Feed("\n".join(lines), made_by)

    def assign(self, node: Node, feed: Feed | None) -> Feed:  # noqa: ARG002
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None:
            self._set(self.text(name), tuple(self.words(value)) if value is not None else (Word(""),))
        return Feed("")

    def loop(self, node: Node, feed: Feed | None) -> Feed:
        name = node.child_by_field_name("variable")
        values = [word for child in node.children_by_field_name("value") for word in self.words(child)]
        if name is not None and 0 < len(values) <= _MOST_VALUES:
            self._set(self.text(name), tuple(values))
        body = node.child_by_field_name("body")
        return self.walk(body, feed) if body is not None else Feed(None)

    def function(self, node: Node, feed: Feed | None) -> Feed:
        name, before = node.child_by_field_name("name"), len(self.commands)
        self.scoped(node, feed)
        called = [one.program for one in self.commands[before:]].count(self.text(name) if name is not None else "")
        body = self.text(node)
        if called > 1 or (called and "&" in body.replace("&&", "")):
            self.bomb = self.bomb or body
        return Feed("")

    def words(self, node: Node) -> list[Word]:
        """What a node of the grammar stands for: one word, or several by braces and loop variables."""
        if node.type in _NOT_WORDS:
            return []
        if node.type == "command_name":
            return [word for child in node.named_children for word in self.words(child)]
        several = self._several(node)
        if several:
            return several
        one = self.word(node)
        if one.known and "{" in one.text and node.type in ("word", "concatenation") and '"' not in self.text(node):
            return [Word(text) for text in words.braces(one.text)]
        if node.type == "simple_expansion" and one.known and " " in one.text:
            self._spent += len(one.text)
            return [Word(text) for text in one.text.split()]
        return [one]

    def _several(self, node: Node) -> list[Word]:
        """Every value of a loop variable, alone or with text around it."""
        inner = [node] if node.type == "simple_expansion" else node.named_children
        for child in inner:
            name = self.text(child).strip("${}")
            values = self.known.get(name, ())
            if child.type in ("simple_expansion", "expansion") and len(values) > 1:
                found = []
                for value in values:
                    self.known[name] = (value,)
                    found.append(self.word(node))
                self.known[name] = values
                return found
        return []

    def word(self, node: Node) -> Word:
        if self._depth > _DEEPEST or self._spent > _MOST_TEXT:
            self.deep = True
            return Word(UNKNOWN, known=False)
        self._depth += 1
        handler = _WORDS.get(node.type)
        one = handler(self, node) if handler else self._other(node)
        self._depth -= 1
        self._spent += len(one.text)
        return one

    def _other(self, node: Node) -> Word:
        self._each(node.named_children, None)  # an array, a subscript: a substitution in it runs too
        return Word(words.plain(self.text(node)))

    def _joined(self, node: Node, between: Callable[[str], str]) -> Word:
        """The parts of a node and whatever stands between them."""
        parts: list[Word] = []
        at = node.start_byte
        for child in node.children:
            parts.append(Word(between(self.raw[at : child.start_byte].decode("utf-8", "replace"))))
            if child.type in ("string_content", "heredoc_content"):
                parts.append(Word(between(self.text(child))))
            elif child.type != '"':
                parts.append(self.word(child))
            at = child.end_byte
        parts.append(Word(between(self.raw[at : node.end_byte].decode("utf-8", "replace"))))
        made_by = tuple(name for part in parts for name in part.made_by)
        return Word("".join(part.text for part in parts), all(part.known for part in parts), made_by)

    def concatenation(self, node: Node) -> Word:
        return self._joined(node, words.plain)

    def string(self, node: Node) -> Word:
        return self._joined(node, words.quoted)

    def expansion(self, node: Node) -> Word:
        """`$X`, `${X}`, `${X:-word}`; any other form is known only when it runs."""
        inner = node.named_children
        others = [self.word(child) for child in inner[1:]]  # a substitution in a default value runs too
        name = self.text(inner[0]) if inner else ""
        operators = [child.type for child in node.children if not child.is_named and child.type not in "${}"]
        values = self.known.get(name, ())
        if values and (not operators or operators[0] in (":-", "-", ":?", "?", ":=", "=")):
            return values[0]
        if operators and operators[0] in (":-", "-", ":=", "=") and others and not name.startswith("TMP"):
            return others[0]
        return Word(f"${{{name}}}", known=False)

    def substitution(self, node: Node) -> Word:
        printed = self.scoped(node, None)
        if printed.text is None or node.type == "process_substitution":
            return Word(UNKNOWN, known=False, made_by=printed.made_by or ("?",))
        return Word(printed.text.strip("\n"), printed.text[:1] != "$", printed.made_by)

    def arithmetic(self, node: Node) -> Word:
        self._each(node.named_children, None)
        return Word("$((…))", known=False)


def _moved(folder: str, places: list[Word]) -> str:
    if not places:
        return "~"
    place = places[0].text
    return posixpath.join(folder, place) if place != "-" else UNKNOWN


_HANDLERS: dict[str, Callable[[_Reader, Node, Feed | None], Feed]] = {
    "command": _Reader.command,
    "command_substitution": _Reader.scoped,
    "for_statement": _Reader.loop,
    "function_definition": _Reader.function,
    "pipeline": _Reader.pipeline,
    "process_substitution": _Reader.scoped,
    "redirected_statement": _Reader.redirected,
    "subshell": _Reader.scoped,
    "variable_assignment": _Reader.assign,
}
_WORDS: dict[str, Callable[[_Reader, Node], Word]] = {
    "ansi_c_string": lambda reader, node: Word(words.ansi(reader.text(node)[2:-1])),
    "arithmetic_expansion": _Reader.arithmetic,
    "command_substitution": _Reader.substitution,
    "concatenation": _Reader.concatenation,
    "expansion": _Reader.expansion,
    "process_substitution": _Reader.substitution,
    "raw_string": lambda reader, node: Word(reader.text(node)[1:-1]),
    "simple_expansion": _Reader.expansion,
    "string": _Reader.string,
    "translated_string": lambda reader, node: reader.word(node.named_children[0]),
}
