"""Parse shell text into simple commands, following variables, `cd`, pipes and here documents."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import NamedTuple

from tree_sitter import Language, Node, Parser

from reflectloop.policy import files, output, shell_words, variables
from reflectloop.policy.scope import BLANKS, Scope, Values, effects_of, fields, new_names
from reflectloop.policy.simple_command import FRESH, LONGEST, UNKNOWN, Feed, File, Redirect, ShellWord, SimpleCommand
from reflectloop.system import patterns

_DEEPEST = 48  # nesting of commands
_MOST_TEXT = 4 * LONGEST  # characters that expansion may produce
_MOST_VALUES = 16  # of one loop variable
_MOST_CALLS = 128  # function calls whose body is read with their arguments
_BETWEEN = "\0"  # separates the fields of a word; shell text never contains it
_EXPANSIONS = frozenset(("simple_expansion", "expansion", "command_substitution"))
_EVALUATORS = frozenset(("eval", "trap", ".", "source"))
_INDEXED = patterns.lazy(r"\A\[\d{1,3}\]=")  # an element of an array with its index
_USES_ARGUMENTS = patterns.lazy(r"\$\{?[@*1-9]")
_OFFSET = patterns.lazy(rb"(\$\{(?:\w+(?:\[[^][{}]*\])?|[@*]):)\$(?=\w)")
_UNGLUED = patterns.lazy(rb"\$(?:IFS(?!\w)|\{IFS\})(?:\$[@*1-9])?")
_ASSIGNED = patterns.lazy(rb"(?:^|[\s;&|({])(\w{1,40})=(\"?(?:\$\(|`)\s*mktemp\b)?", re.MULTILINE)
_NOT_WORDS = frozenset(("comment", "file_descriptor", "heredoc_body", "heredoc_end", "heredoc_start"))


class ParsedShell(NamedTuple):
    commands: tuple[SimpleCommand, ...]
    broken: str = ""  # the text where the parse failed
    bomb: str = ""  # a function that starts itself endlessly
    endless: str = ""  # an endless loop that starts processes in the background
    deep: bool = False


@cache
def _parser() -> Parser:
    import tree_sitter_bash  # noqa: PLC0415 - loads the grammar

    return Parser(Language(tree_sitter_bash.language()))


def read(text: str, initial: Iterable[tuple[str, str]] = (), folder: str = "") -> ParsedShell:
    """Parse a text into its simple commands. `initial` are the variables that it may use."""
    # The grammar fails after a bare `$IFS` in the middle of a word.
    raw = _UNGLUED.sub(b"${IFS}", text.encode("utf-8", "surrogatepass"))
    root = _parser().parse(raw).root_node
    if root.has_error and b"<>" in raw:
        # The grammar does not know `<>`; for its target, `>` is equivalent.
        raw = raw.replace(b"<>", b"> ")
        root = _parser().parse(raw).root_node
    if root.has_error and b":$" in raw:
        # The grammar does not know `${x:$i}`; an offset is arithmetic, where `i` is equivalent.
        raw = _OFFSET.sub(rb"\1 ", raw)
        root = _parser().parse(raw).root_node
    if root.has_error and b"<<<" in raw:
        raw = _with_here_strings_first(root, raw)
        root = _parser().parse(raw).root_node
    reader = _Reader(raw, initial, folder)
    reader.walk(root, None)
    broken = _broken(root, raw) if root.has_error else ""
    return ParsedShell(tuple(reader.commands), broken, reader.bomb, reader.endless, reader.deep)


def _with_here_strings_first(root: Node, raw: bytes) -> bytes:
    """Return the text with each here string directly after its command: the grammar knows none after `> file`."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        for error, redirect in itertools.pairwise(node.children if node.type == "redirected_statement" else ()):
            start, end, body = error.start_byte, redirect.end_byte, node.children[0].end_byte
            if error.type == "ERROR" and raw[start:end].startswith(b"<<<") and redirect.type == "file_redirect":
                # As long as before, so that the other places stay where they are.
                moved = b" " + raw[start:end] + raw[body : max(body, start - 1)]
                raw = raw[:body] + moved + b" " * (end - body - len(moved)) + raw[end:]
                break
    return raw


def _broken(root: Node, raw: bytes) -> str:
    """Return the first part that is not shell, or the text before a missing token."""
    node = root
    while node.type != "ERROR" and not node.is_missing:
        inner = next((child for child in node.children if child.has_error or child.is_missing), None)
        if inner is None:
            break
        node = inner
    text = raw[node.start_byte : node.end_byte] or raw[max(0, node.start_byte - 20) :]
    return text.decode("utf-8", "replace")[:60].strip() or "(nothing)"


class _Redirected(NamedTuple):
    """The context of a command in a redirected statement: more arguments, its redirects, and the whole source."""

    words: list[ShellWord]
    redirects: list[Redirect]
    source: str


def _fresh_names(raw: bytes) -> frozenset[str]:
    """Return the variables that a text sets only to a fresh temp folder."""
    if b"mktemp" not in raw:
        return frozenset()
    assignments = [(name.decode(), bool(fresh)) for name, fresh in _ASSIGNED.findall(raw)]
    others = {name for name, fresh in assignments if not fresh}
    return frozenset(name for name, fresh in assignments if fresh) - others


class _Reader:
    def __init__(self, raw: bytes, initial: Iterable[tuple[str, str]], folder: str) -> None:
        self.raw, self.folder = raw, folder
        self.scope = Scope(initial)
        self.commands: list[SimpleCommand] = []
        self.bomb = self.endless = ""
        self._functions: dict[str, Node] = {}
        self._running: list[str] = []  # functions whose body is being read with the arguments of a call
        self._calls = 0
        self._names: dict[
            str, tuple[ShellWord, ...]
        ] = {}  # aliases and hashed programs: the words that a name stands for
        self._files: Mapping[str, File] = {}
        self.deep = False
        self._fresh = _fresh_names(raw)
        self._later = False  # True while reading a function body, which runs when all variables are set
        self._depth = 0
        self._spent = 0  # characters of the words so far

    def walk(self, node: Node, feed: Feed | None) -> Feed:
        """Read the nodes below a node, and return what they would print."""
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

    def _each(self, nodes: Iterable[Node], stdin: Feed | None) -> Feed:
        printed = [self.walk(node, stdin) for node in nodes]
        if len(printed) == 1:
            return printed[0]
        made_by = tuple(name for feed in printed for name in feed.made_by)
        return Feed(None, made_by, any(feed.private for feed in printed))

    def scoped(self, node: Node, feed: Feed | None) -> Feed:
        """Read a subshell; its variables and its folder are undone at the end."""
        mark, folder = self.scope.mark, self.folder
        printed = self._each(node.named_children, feed)
        self.scope.undo(mark)
        self.folder = folder
        return printed

    def pipeline(self, node: Node, feed: Feed | None) -> Feed:
        passed = feed
        for child in node.named_children:
            passed = self.walk(child, passed)
        return passed or Feed(None)

    def command(self, node: Node, feed: Feed | None, extra: _Redirected | None = None) -> Feed:
        words: list[ShellWord] = []
        redirects: list[Redirect] = list(extra.redirects) if extra else []
        sets: list[tuple[str, ShellWord]] = []
        mark = self.scope.mark
        for child in node.children:
            if child.type == "variable_assignment":
                sets += self._assigned(child)
            elif child.type.endswith("_redirect"):
                feed = self._redirect(child, words, redirects) or feed
            elif child.is_named or child.type == "$":
                words += self.words(child)
        words += extra.words if extra else []
        words = [*self._names.get(words[0].text, words[:1]), *words[1:]] if words else words
        command = SimpleCommand(
            tuple(words), tuple(redirects), feed, extra.source if extra else self.text(node), self.folder
        )
        passed = self.scope.passed(everything=command.program in _EVALUATORS)
        if command.program == "trap":
            passed = (*((name, FRESH) for name in sorted(self._fresh)), *passed)
        assigned = tuple((name, value.text) for name, value in sets if words)
        return self._record(command._replace(sets=tuple(sets), env=(*passed, *assigned)), mark)

    def _record(self, command: SimpleCommand, mark: int) -> Feed:
        """Record a command, and apply its effects on the rest of the line."""
        command = command._replace(files=self._files)
        if command.words or command.redirects or command.sets:
            self.commands.append(command)
        changes = list(effects_of(command, self._separators(), self.scope))
        if command.words:
            self.scope.undo(mark)
        for name, values, array in changes:
            (self.scope.set_array if array else self.scope.set)(name, values)
        if command.program in ("cd", "pushd"):
            self.folder = _moved(self.folder, [word for word in command.words[1:] if not word.text.startswith("-")])
        self._names.update(new_names(command))
        printed = output.output_of(command)
        self._files = files.written(command, printed, self._files)
        body = self._functions.get(command.words[0].text) if command.words else None
        return self._call(body, command) if body is not None else printed

    def _call(self, body: Node, command: SimpleCommand) -> Feed:
        """Read the body of a function again with the arguments of a call."""
        name = command.words[0].text
        if name in self._running or not _USES_ARGUMENTS.search(self.text(body)):
            return Feed(None, (name,))
        self._calls += 1
        if self._calls > _MOST_CALLS:
            self.deep = True
            return Feed(None)
        mark = self.scope.mark
        self.scope.set_array("@", command.words[1:])
        self._running.append(name)
        printed = self.walk(body, command.feed)
        self._running.pop()
        self.scope.undo(mark)
        return printed

    def _separators(self) -> str:
        values = self.scope.get("IFS")
        return values[0].text if values and values[0].known else BLANKS

    def exported(self, node: Node, feed: Feed | None) -> Feed:
        """Read `export X=…`, `declare -x X`, `local X=…` and `declare -n X=Y`, which makes X another name of Y."""
        is_reference = re.match(r"(?:declare|typeset|local)\s+-\w*n", self.text(node)) is not None
        for child in node.named_children:
            name = child.child_by_field_name("name") if child.type == "variable_assignment" else child
            self.walk(child, feed)
            if name is not None:
                self.scope.export(self.text(name))
                target = self.scope.get(self.text(name))
                if is_reference and target and self.scope.get(target[0].text):
                    self.scope.set(self.text(name), self.scope.get(target[0].text))
        return Feed("")

    def unset(self, node: Node, feed: Feed | None) -> Feed:
        names = [ShellWord(self.text(child)) for child in node.named_children]
        self.commands.append(
            SimpleCommand((ShellWord("unset"), *names), feed=feed, source=self.text(node), folder=self.folder)
        )
        return Feed("")

    def while_loop(self, node: Node, feed: Feed | None) -> Feed:
        before = len(self.commands)
        printed = self._each(node.named_children, feed)
        ran = self.commands[before:]
        forever = bool(ran) and ran[0].texts in (["true"], [":"], ["[", "1", "]"])
        background = any(child.type == "&" for body in node.named_children for child in body.children)
        if forever and background:
            programs = {command.program for command in ran}
            if any(command.texts[:1] in (["${0}"], ["$0"]) for command in ran):
                self.bomb = self.bomb or self.text(node)
            elif not programs & {"sleep", "wait", "read", "break", "exit", "return", "inotifywait"}:
                self.endless = self.endless or self.text(node)
        return printed

    def redirected(self, node: Node, feed: Feed | None) -> Feed:
        body = node.child_by_field_name("body")
        words: list[ShellWord] = []
        redirects: list[Redirect] = []
        after: list[Node] = []
        for child in node.named_children:
            if child.type.endswith("_redirect"):
                feed = self._redirect(child, words, redirects, after) or feed
        if body is not None and body.type == "command":
            printed = self.command(body, feed, _Redirected(words, redirects, self.text(node)))
        else:
            printed = self.walk(body, feed) if body is not None else Feed(None)
            command = SimpleCommand((), tuple(redirects), None, self.text(node), self.folder)
            self._record(command, self.scope.mark)
            self._files = files.written(command, printed, self._files)
        for child in after:
            printed = self.walk(child, printed)
        return printed

    def _redirect(
        self, node: Node, words: list[ShellWord], redirects: list[Redirect], after: list[Node] | None = None
    ) -> Feed | None:
        if node.type == "herestring_redirect":
            value = _together([self.word(child) for child in node.named_children if child.type not in _NOT_WORDS])
            hidden = not value.known and re.fullmatch(r"\$\(…\)|\$\{[^}]*\}", value.text) is not None
            return Feed(None if hidden else value.text, value.made_by or (("?",) if hidden else ()))
        if node.type == "heredoc_redirect":
            return self._heredoc(node, words, redirects, [] if after is None else after)
        operator = next((child.type for child in node.children if not child.is_named), ">")
        targets = [word for child in node.children_by_field_name("destination") for word in self.words(child)]
        # The grammar treats the arguments after a redirection as more targets.
        words += targets[1:]
        redirects += [Redirect(operator, target) for target in targets[:1]]
        if not targets or operator not in ("<", "<&"):
            return None
        content = targets[0].content
        path = f"/dev/fd/{targets[0].text}" if operator == "<&" else posixpath.join(self.folder, targets[0].text)
        written = self._files.get(posixpath.normpath(path), File())
        if operator == "<&" and not written.made_by and written.text is None:
            return None
        number = node.child_by_field_name("descriptor")
        if number is not None and self.text(number) != "0":
            name = self.text(number).strip("{}")
            self._files = {**self._files, f"/dev/fd/{name}": File(content, (*targets[0].made_by, *written.made_by))}
            return None
        return Feed(
            content if content is not None else written.text,
            (*targets[0].made_by, *written.made_by),
            output.is_private(targets[0], self.folder),
        )

    def _heredoc(self, node: Node, words: list[ShellWord], redirects: list[Redirect], after: list[Node]) -> Feed:
        text, strip, literal = "", False, False
        made_by: tuple[str, ...] = ()
        for child in node.children:
            if child.type == "<<-":
                strip = True
            elif child.type == "heredoc_start":
                literal = not self.text(child).isidentifier()
            elif child.type == "heredoc_body":
                value = ShellWord(self.text(child)) if literal else self._joined(child, lambda piece: piece)
                text, made_by = value.text, value.made_by
            elif child.type.endswith("_redirect"):
                self._redirect(child, words, redirects)
            elif child.is_named and child.type not in _NOT_WORDS:
                is_argument = node.field_name_for_child(node.children.index(child)) == "argument"
                words += self.words(child) if is_argument else []
                after += [] if is_argument else [child]
        lines = [line.lstrip("\t") for line in text.split("\n")] if strip else [text]
        return Feed("\n".join(lines), made_by)

    def assign(self, node: Node, feed: Feed | None) -> Feed:  # noqa: ARG002
        watched = [(name, value) for name, value in self._assigned(node) if variables.is_watched(name)]
        if watched:
            self.commands.append(SimpleCommand((), source=self.text(node), folder=self.folder, sets=tuple(watched)))
        return Feed("")

    def _assigned(self, node: Node) -> list[tuple[str, ShellWord]]:
        """Apply an assignment, and return the name and its first value."""
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None:
            return []
        more = any(child.type == "+=" for child in node.children)
        if value is not None and value.type == "array":
            words = (word for child in value.named_children for word in self.words(child))
            elements = tuple(word._replace(text=_INDEXED.sub("", word.text)) for word in words)
            before = self.scope.array(self.text(name)) if more else ()
            self.scope.set_array(self.text(name), (*before, *elements))
            return []
        values = tuple(self._values(value)) if value is not None else (ShellWord(""),)
        if name.type == "subscript":
            parts = [self.word(child).text for child in name.named_children]
            self.scope.set_element(parts[0], parts[1] if len(parts) > 1 else "", values[0])
            return []
        if more:
            start = self.scope.get(self.text(name))[:1]
            values = tuple(_together([*start, item], "") for item in values)
        self.scope.set(self.text(name), values)
        return [(self.text(name), values[0])]

    def _values(self, node: Node) -> list[ShellWord]:
        return [
            item._replace(text=item.text.replace(_BETWEEN, " ")) for item in self._several(node) or [self.word(node)]
        ]

    def loop(self, node: Node, feed: Feed | None) -> Feed:
        name = node.child_by_field_name("variable")
        values = [word for child in node.children_by_field_name("value") for word in self.words(child)]
        if name is not None and 0 < len(values) <= _MOST_VALUES:
            self.scope.set(self.text(name), tuple(values))
        elif name is not None and not values:
            self.scope.set(
                self.text(name), self.scope.array("@") or (ShellWord(f"${{{self.text(name)}}}", known=False),)
            )
        body = node.child_by_field_name("body")
        return self.walk(body, feed) if body is not None else Feed(None)

    def function(self, node: Node, feed: Feed | None) -> Feed:
        name, before = node.child_by_field_name("name"), len(self.commands)
        outer, self._later = self._later, True
        self.scoped(node, feed)
        self._later = outer
        called = [command.program for command in self.commands[before:]].count(
            self.text(name) if name is not None else ""
        )
        inside = node.child_by_field_name("body")
        if name is not None and inside is not None:
            self._functions[self.text(name)] = inside
        body = self.text(node)
        if called > 1 or (called and "&" in body.replace("&&", "")):
            self.bomb = self.bomb or body
        return Feed("")

    def words(self, node: Node) -> list[ShellWord]:
        """Return the words that a node stands for: one, or several by braces and loop variables."""
        if node.type in _NOT_WORDS:
            return []
        if node.type == "command_name":
            return [item for child in node.named_children for item in self.words(child)]
        several = self._several(node)
        if several:
            return several
        word = self._split(self.word(node)) if node.type in _EXPANSIONS else self.word(node)
        if _BETWEEN in word.text or (not word.text and node.type in ("simple_expansion", "expansion") and word.known):
            return [word._replace(text=text) for text in word.text.split(_BETWEEN) if text]
        if word.known and "{" in word.text and node.type in ("word", "concatenation") and '"' not in self.text(node):
            return [word._replace(text=text) for text in shell_words.braces(word.text)]
        return [word]

    def _split(self, word: ShellWord) -> ShellWord:
        """Split an unquoted word at the separators."""
        separators = self._separators()
        if not word.known or not any(mark in word.text for mark in separators):
            return word
        parts = _BETWEEN.join(fields(word.text, separators))
        starts = _BETWEEN if word.text[:1] in separators else ""
        ends = _BETWEEN if word.text[-1:] in separators and parts else ""
        return word._replace(text=starts + parts + ends)

    def _several(self, node: Node) -> list[ShellWord]:
        """Return the word for every value of a loop variable in it."""
        inner = [node] if node.type == "simple_expansion" else node.named_children
        for child in inner:
            name = self.text(child).strip("${}")
            values = self.scope.get(name) if child.type in _EXPANSIONS else ()
            if child.type in ("simple_expansion", "expansion") and len(values) > 1:
                words = []
                for value in values:
                    self.scope.swap(name, (value,))
                    words.append(self.word(node))
                self.scope.swap(name, values)
                return words
        return []

    def word(self, node: Node) -> ShellWord:
        if self._depth > _DEEPEST or self._spent > _MOST_TEXT:
            self.deep = True
            return ShellWord(UNKNOWN, known=False)
        self._depth += 1
        handler = _WORDS.get(node.type)
        word = handler(self, node) if handler else self._other(node)
        self._depth -= 1
        self._spent += len(word.text)
        return word

    def _other(self, node: Node) -> ShellWord:
        self._each(node.named_children, None)  # a substitution inside an array or a subscript runs too
        return ShellWord(shell_words.plain(self.text(node)))

    def _joined(self, node: Node, between: Callable[[str], str]) -> ShellWord:
        """Join the parts of a node and the text between them."""
        parts: list[ShellWord] = []
        at = node.start_byte
        for child in node.children:
            parts.append(ShellWord(between(self.raw[at : child.start_byte].decode("utf-8", "replace"))))
            if child.type in ("string_content", "heredoc_content"):
                parts.append(ShellWord(between(self.text(child))))
            elif child.type in _EXPANSIONS and node.type == "concatenation":
                parts.append(self._split(self.word(child)))
            elif child.type != '"':
                parts.append(self.word(child))
            at = child.end_byte
        parts.append(ShellWord(between(self.raw[at : node.end_byte].decode("utf-8", "replace"))))
        return _together(parts, "")

    def concatenation(self, node: Node) -> ShellWord:
        return self._joined(node, shell_words.plain)

    def string(self, node: Node) -> ShellWord:
        return self._joined(node, shell_words.quoted)

    def bare(self, node: Node) -> ShellWord:
        text = self.text(node)
        return ShellWord(shell_words.plain(text), glob="\\" not in text and any(mark in text for mark in "*?["))

    def expansion(self, node: Node) -> ShellWord:
        """Return the value of `$X`, `${X}`, `${X:-word}`, `${X[@]}` or `${X//a/b}`; other forms are unknown."""
        inner = node.named_children
        others = [self.word(child) for child in inner[1:]]  # a substitution in a default value runs too
        name = self.text(inner[0]) if inner else ""
        operators = [child.type for child in node.children if not child.is_named and child.type not in "${}"]
        values = self._value_of(inner[0]) if inner else ()
        if operators[:1] in ([":="], ["="]) and others and not values:
            self.scope.set(name, (others[0],))
        if operators[:1] == ["!"] and values:
            values = self.scope.get(values[0].text)
        elif values and (not operators or operators[0] in (":-", "-", ":?", "?", ":=", "=")):
            return values[0]
        elif (operators and operators[0] in (":-", "-", ":=", "=") and others and not name.startswith("TMP")) or (
            operators and operators[0] in (":+", "+") and others
        ):
            return others[0]
        elif operators:
            return self._computed(name, values, operators, [word.text for word in others])
        if values:
            return values[0]
        if self._later and name in self._fresh:
            return ShellWord(FRESH, known=False)
        return _UNSET.get(name) or ShellWord(f"${{{name}}}", known=False)

    def _value_of(self, node: Node) -> Values:
        """Return the value of a name, an element or an array; the elements of an array become fields of one word."""
        name = self.text(node)
        if node.type == "subscript":
            parts = [self.text(child) for child in node.named_children]
            name, index = parts[0], (parts[1] if len(parts) > 1 else "")
            if index not in ("@", "*"):
                return self.scope.element(name, index)
        elif name not in ("@", "*"):
            return self.scope.get(name)
        joined = self.text(node).endswith(("*", "*]"))
        elements = self.scope.array("@" if name == "*" else name)
        # `${a[*]}` is joined by the first character of IFS, if the line has set it.
        between = self._separators()[:1] if joined and self.scope.get("IFS") else _BETWEEN
        return (_together(elements, between),) if elements else ()

    def _computed(self, name: str, values: Values, operators: list[str], operands: list[str]) -> ShellWord:
        if not values and shell_words.first_character(name, operators, operands):
            return ShellWord("/")
        made = shell_words.expanded(values[0].text, operators, operands) if values and values[0].known else None
        return ShellWord(f"${{{name}}}", known=False) if made is None else values[0]._replace(text=made)

    def substitution(self, node: Node) -> ShellWord:
        feed = Feed(None, ("tee",)) if self.text(node).startswith(">(") else None
        printed = self.scoped(node, feed)
        if printed.text is None or node.type == "process_substitution":
            return ShellWord(UNKNOWN, known=False, made_by=printed.made_by or ("?",), content=printed.text)
        return ShellWord(printed.text.strip("\n"), printed.text[:1] != "$", printed.made_by)

    def arithmetic(self, node: Node) -> ShellWord:
        self._each(node.named_children, None)
        return ShellWord("$((…))", known=False)


def _together(parts: Iterable[ShellWord], between: str = " ") -> ShellWord:
    parts = list(parts)
    made_by = tuple(name for part in parts for name in part.made_by)
    text = between.join(part.text for part in parts)
    return ShellWord(text, all(part.known for part in parts), made_by, glob=any(part.glob for part in parts))


# Variables with the same value on every machine, unless the line sets them.
_UNSET = {"IFS": ShellWord(BLANKS), **{name: ShellWord("") for name in ("7", "8", "9")}}


def _moved(folder: str, places: list[ShellWord]) -> str:
    if not places:
        return "~"
    place = places[0].text
    return posixpath.join(folder, place) if place != "-" else UNKNOWN


_HANDLERS: dict[str, Callable[[_Reader, Node, Feed | None], Feed]] = {
    "command": _Reader.command,
    "command_substitution": _Reader.scoped,
    "declaration_command": _Reader.exported,
    "for_statement": _Reader.loop,
    "function_definition": _Reader.function,
    "pipeline": _Reader.pipeline,
    "process_substitution": _Reader.scoped,
    "redirected_statement": _Reader.redirected,
    "subshell": _Reader.scoped,
    "unset_command": _Reader.unset,
    "variable_assignment": _Reader.assign,
    "while_statement": _Reader.while_loop,
}
_WORDS: dict[str, Callable[[_Reader, Node], ShellWord]] = {
    "ansi_c_string": lambda reader, node: ShellWord(shell_words.ansi(reader.text(node)[2:-1])),
    "arithmetic_expansion": _Reader.arithmetic,
    "command_substitution": _Reader.substitution,
    "concatenation": _Reader.concatenation,
    "expansion": _Reader.expansion,
    "process_substitution": _Reader.substitution,
    "raw_string": lambda reader, node: ShellWord(reader.text(node)[1:-1]),
    "simple_expansion": _Reader.expansion,
    "string": _Reader.string,
    "word": _Reader.bare,
    "translated_string": lambda reader, node: reader.word(node.named_children[0]),
}
