"""Find which powers a JavaScript or TypeScript source uses, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reflectloop.verification.tampering.powers import javascript_names as names
from reflectloop.verification.tampering.powers.javascript_tokens import JsToken, tokens
from reflectloop.verification.tampering.powers.kinds import SENSING, PowerUse

_OPEN = {"(": ")", "[": "]", "{": "}"}
_CONDITIONS = frozenset(("if", "while", "for", "switch", "with"))
_DECLARES = frozenset(("const", "let", "var"))
_STORES = frozenset(("=", "+=", "-=", "||=", "&&=", "??=", "++", "--"))
_SETTERS = frozenset(
    ("Object.defineProperty", "Object.defineProperties", "Object.assign", "Reflect.set", "Reflect.defineProperty")
)
_STARTERS = frozenset((("module", "parent"), ("require", "main"), ("process", "mainModule")))
_LOOK_THROUGH = frozenset(
    ("keys", "values", "entries", "ownKeys", "getOwnPropertyNames", "getOwnPropertyDescriptors", "get", "has")
)
_MOST_PARTS = 24  # of a chain of names
_LONGEST = 200  # characters of a text that may be a name
_NEAR = 6  # lines between the name of a tool and what tells who runs the code
_EXITS = frozenset(("process.exit", "process.exitCode", "process.reallyExit", "process.abort"))


class NameChain(NamedTuple):
    """Names joined by dots, such as `process.env.HOME`, with where they begin and end."""

    parts: tuple[str, ...]  # "()" stands for a call
    start: int
    end: int
    through: str = ""  # `globalThis` and the like, which are left out of the parts

    @property
    def text(self) -> str:
        return ".".join(self.parts)


def javascript_uses(data: bytes) -> Iterator[PowerUse]:
    """Yield every use of a power."""
    yield from JavaScriptUses(tokens(data.decode(errors="replace"))).all()


class JavaScriptUses:
    """The powers of one source."""

    def __init__(self, parts: list[JsToken]) -> None:
        self.tokens = parts
        self.closing = _closings(parts)
        self.opening = {end: start for start, end in self.closing.items()}
        self.aliases: dict[str, tuple[str, ...]] = {}
        self.declared = self._declared()
        self._imports()
        self._assigned()
        self.chains = [chain for at in range(len(parts)) if (chain := self._chain(at)) is not None]
        self.statement_of = _statements(parts)
        self.sensing = self._sensing()

    def _at(self, at: int) -> JsToken:
        return self.tokens[at] if 0 <= at < len(self.tokens) else JsToken("end", "", 0)

    def _is(self, at: int, *texts: str) -> bool:
        token = self._at(at)
        return token.kind in ("punct", "name") and token.text in texts

    # Names -----------------------------------------------------------------------------------------------------

    def _declared(self) -> set[str]:
        """Return the names that the source binds itself: declarations, functions and their parameters."""
        names_bound: set[str] = set()
        for at, token in enumerate(self.tokens):
            if (
                token.kind == "name"
                and token.text in ("function", "class", *_DECLARES)
                and self._at(at + 1).kind == "name"
            ):
                names_bound.add(self._at(at + 1).text)
            elif token.text in _DECLARES and self._is(at + 1, "{", "["):
                names_bound |= self._names_between(at + 1)
            elif token.text == "(" and not self._is(at - 1, *_CONDITIONS):
                end = self.closing.get(at, -1)
                if self._is(end + 1, "=>", "{"):
                    names_bound |= self._names_between(at)
            elif token.kind == "name" and self._is(at + 1, "=>"):
                names_bound.add(token.text)
        return names_bound

    def _names_between(self, start: int) -> set[str]:
        inner = range(start + 1, self.closing.get(start, start))
        return {
            self._at(at).text for at in inner if self._at(at).kind == "name" and not self._is(at - 1, ".", "?.", "=")
        }

    def _imports(self) -> None:
        """Read `import a, {b as c}, * as d from "m"`."""
        for at, token in enumerate(self.tokens):
            if token.text != "import" or token.kind != "name" or self._is(at + 1, "(", "."):
                continue
            end = next(
                (to for to in range(at + 1, min(at + 400, len(self.tokens))) if self._at(to).kind == "string"), None
            )
            if end is None or not (end == at + 1 or self._is(end - 1, "from")):
                continue
            module = _module(self._at(end).text)
            self._import_names(at + 1, end - 1, module)

    def _import_names(self, start: int, end: int, module: str) -> None:
        braces = False
        for at in range(start, end):
            token = self._at(at)
            if token.text in ("{", "}"):
                braces = token.text == "{"
            elif token.kind == "name" and token.text not in ("as", "type") and not self._is(at + 1, "as"):
                original = self._at(at - 2).text if self._is(at - 1, "as") else token.text
                path = (module, original) if braces and original != "default" else (module,)
                self.aliases[token.text] = path

    def _assigned(self) -> None:
        """Read `const a = b.c`, and `const {d, e: f} = b.c`."""
        for at, token in enumerate(self.tokens):
            if token.text != "=" or token.kind != "punct":
                continue
            start = at + 2 if self._is(at + 1, "await", "new") else at + 1
            chain = self._chain(start)
            before = self._at(at - 1)
            if chain is not None and "createRequire" in chain.parts:
                self.aliases[before.text] = ("require",)
            if chain is None or "()" in chain.parts[-1:]:
                continue
            if before.kind == "name" and not self._is(at - 2, ".", "?.") and before.text not in chain.parts:
                self.aliases[before.text] = chain.parts
            elif before.text == "}":
                self._unpacked(at - 1, chain.parts)

    def _unpacked(self, end: int, parts: tuple[str, ...]) -> None:
        for at in range(self.opening.get(end, end) + 1, end):
            token = self._at(at)
            if token.kind == "name" and not self._is(at + 1, ":") and not self._is(at - 1, "="):
                original = self._at(at - 2).text if self._is(at - 1, ":") else token.text
                self.aliases[token.text] = (*parts, original)

    def _chain(self, at: int) -> NameChain | None:
        """Return the chain of names that begins here, with its first name resolved."""
        token = self._at(at)
        if token.kind != "name" or self._is(at - 1, ".", "?."):
            return None
        if self._is(at + 1, ":") and self._is(at - 1, "{", ","):
            return None  # a key
        parts, end = [token.text], at + 1
        loader = token.text in ("require", "import") or self.aliases.get(token.text) == ("require",)
        loads = loader and self._is(end, "(") and self.closing.get(end) == end + 2
        if loads and self._at(end + 1).kind == "string":
            parts, end = [_module(self._at(end + 1).text)], end + 3
        while True:
            following = self._at(end + 1)
            if self._is(end, ".", "?.") and following.kind == "name":
                parts.append(following.text)
                end += 2
            elif self._is(end, "?.") and following.text == "[":
                end += 1
            elif self._is(end, "[") and following.kind in ("string", "number") and self.closing.get(end) == end + 2:
                parts.append(following.text)
                end += 3
            elif self._is(end, "(") and end in self.closing and len(parts) < 20:  # noqa: PLR2004 - long chains of calls
                parts.append("()")
                end = self.closing[end] + 1
            else:
                break
        return self._resolved(parts[:_MOST_PARTS], at, end)

    def _resolved(self, parts: list[str], start: int, end: int) -> NameChain:
        for _ in range(4):
            alias = self.aliases.get(parts[0])
            if alias is None:
                break
            parts = [*alias, *parts[1:]]
        if parts[0] == "module:process":
            parts[0] = "process"
        through = ""
        while len(parts) > 1 and parts[0] in names.GLOBALS and parts[0] not in self.declared and parts[1] != "()":
            through, parts = parts[0], parts[1:]
        return NameChain(tuple(parts), start, end, through)

    def _is_local(self, chain: NameChain) -> bool:
        return not chain.through and chain.parts[0] in self.declared

    # Uses ------------------------------------------------------------------------------------------------------

    def all(self) -> Iterator[PowerUse]:
        for chain in self.chains:
            line = self.tokens[chain.start].line
            for power in self._of_chain(chain):
                rule = power if power.startswith("knows-") else "new-power"
                yield PowerUse(power, line, rule)
        yield from self._of_tokens()
        yield from self._questions()

    def _of_chain(self, chain: NameChain) -> Iterator[str]:
        if not self._is_local(chain) or chain.parts[0].startswith("module:"):
            power = names.power_of(chain.text)
            if power and self._counts(power, chain):
                yield power
        if chain.parts[0].startswith("module:") and chain.parts[0].endswith((".node", ".wasm")):
            yield "native"
        if chain.parts[:2] in _STARTERS and self._is_handed_on(chain):
            yield "processes"
        yield from self._stored(chain)
        yield from self._computed(chain)
        yield from self._asked(chain)
        if chain.parts[:1] == ("process",) and chain.parts[1:2] and chain.parts[1] in ("on", "once", "addListener"):
            yield from self._handler(chain)

    def _is_handed_on(self, chain: NameChain) -> bool:
        """Return True where more is asked than whether there is a starter: `require.main.filename`."""
        if len(chain.parts) > 2:  # noqa: PLR2004 - a starter has two parts
            return True
        argument = self._is(chain.start - 1, "(", ",") and self._is(chain.end, ")", ",")
        return argument and not self._is(chain.start - 2, *_CONDITIONS)

    def _counts(self, power: str, chain: NameChain) -> bool:
        if power == "clock" and chain.parts[0] == "Date":  # `new Date(value)` reads no clock
            return chain.parts[1:2] == ("now",) or (self._is(chain.start + 1, "(") and self._is(chain.start + 2, ")"))
        if power == "equality" and chain.parts[0] == "Proxy":
            return self._is(chain.start - 1, "new") or "revocable" in chain.parts
        if power == "dynamic" and chain.parts[0] in ("Function", "eval"):
            return chain.parts[1:2] in (("()",), ("call",), ("apply",)) or (
                len(chain.parts) == 1 and chain.parts[0] == "eval"
            )
        return True

    def _stored(self, chain: NameChain) -> Iterator[str]:
        """Yield a power for setting a part of something that is not the source's own."""
        stored = self._is(chain.end, *_STORES) or self._is(chain.start - 1, "delete")
        stored = stored and chain.end > chain.start + 1  # a plain name is the source's own
        computed = self._is(chain.end, "[") and self._is(self.closing.get(chain.end, -2) + 1, "=")
        if computed and self._is_foreign(chain, whole=True) and "()" not in chain.parts:
            yield "patching"
        foreign = chain.through in ("global", "globalThis") or self._is_foreign(chain)
        if stored and foreign and "()" not in chain.parts:
            yield "settings" if chain.parts[:2] in (("process", "env"), ("process", "title")) else "patching"
        plain = tuple(part for part in chain.parts if part != "()")
        if ".".join(plain) in _SETTERS and "()" in chain.parts:
            opening = next((at for at in range(chain.start, chain.end) if self._is(at, "(")), chain.end)
            first = self._chain(opening + 1)
            if (
                first is not None
                and "()" not in first.parts
                and (self._is_foreign(first, whole=True) or first.parts[0] in names.GLOBALS)
            ):
                yield "patching"

    def _is_foreign(self, chain: NameChain, whole: bool = False) -> bool:
        root, rest = chain.parts[0], chain.parts[1:]
        if self._is_local(chain) and not root.startswith("module:"):
            return False
        if root in names.RUNNER_WORDS and rest:
            return True
        if root == "process":
            return rest[0] not in ("exitCode", "env", "title", "argv") if rest else whole
        if root == "Error" and rest[:1] == ("stackTraceLimit",):
            return False
        if root.startswith("module:") and (rest or whole):
            return not root.startswith(("module:.", "module:/", "module:#"))
        return root in names.INTRINSICS and (bool(rest) or whole or bool(chain.through))

    def _computed(self, chain: NameChain) -> Iterator[str]:
        """Yield a power for `require(name)`, `import(name)` and parts of globals with a computed name."""
        first = self._at(chain.start + 2)
        if chain.parts in (("require", "()"), ("import", "()")) and not self._is_local(chain):
            own = first.kind == "string" and first.text.startswith((".", "/"))
            folder = first.text in ("path", "__dirname", "new", "pathToFileURL", "url", "join", "resolve")
            if not own and not folder:
                yield "computed-import"
        if chain.parts in (("process",), ("require",)) and self._is(chain.end, "[") and not self._is_local(chain):
            yield "computed-name"
        if chain.parts[0] in names.GLOBALS and len(chain.parts) == 1 and not self._is_local(chain):
            yield from self._searched(chain)

    def _searched(self, chain: NameChain) -> Iterator[str]:
        """Yield a power where all globals are looked through: `Object.keys(globalThis)`, `for (x in global)`."""
        if self._is(chain.end, "["):
            yield "computed-name"
        in_call = self._is(chain.start - 1, "(", ",") and self._is(chain.end, ")", ",")
        if in_call and self._at(chain.start - 2).text in _LOOK_THROUGH:
            yield "objects"
        if self._is(chain.start - 1, "in") and self._at(chain.start - 2).kind == "name":
            yield "objects"

    def _handler(self, chain: NameChain) -> Iterator[str]:
        """Yield a power if a handler of the end of the process leaves it, or sets its exit code."""
        opening = next((at for at in range(chain.start, chain.end) if self._is(at, "(")), None)
        if opening is None or self._at(opening + 1).text not in ("exit", "beforeExit", "uncaughtException"):
            return
        inner = [each for each in self.chains if opening < each.start < self.closing.get(opening, opening)]
        if (
            any(".".join(each.parts[:2]) in _EXITS for each in inner)
            and self._at(opening + 1).text != "uncaughtException"
        ):
            yield "exit-handler"

    def _of_tokens(self) -> Iterator[PowerUse]:
        for at, token in enumerate(self.tokens):
            if token.text in names.EQUALITY_NAMES and token.kind in ("name", "string"):
                yield PowerUse("equality", token.line)
            elif token.text == "constructor" and self._is(at - 1, ".", "?.") and self._is(at + 1, "("):
                yield PowerUse("dynamic", token.line)  # `(() => {}).constructor("…")` makes a function of a text
            elif token.kind == "string" and token.text.startswith("/proc/"):
                yield PowerUse("processes", token.line)
            elif token.text in ("import", "export") and token.kind == "name" and not self._is(at + 1, "(", "."):
                end = next(
                    (to for to in range(at + 1, min(at + 400, len(self.tokens))) if self._at(to).kind == "string"), at
                )
                if end > at and names.is_test_module(_module(self._at(end).text).removeprefix("module:")):
                    yield PowerUse("test-tools", token.line)

    # Questions about tests -------------------------------------------------------------------------------------

    def _asked(self, chain: NameChain) -> Iterator[str]:
        """Yield where a chain asks for a runner: its globals, or the variables that it sets."""
        parts = chain.parts
        if (parts[0] == "process" and parts[1:2] == ("env",)) or "env" in parts[1:3]:
            if any(names.variables().match(part) for part in parts[2:]):
                yield "knows-the-test"
            elif any(names.CI.match(part) for part in parts[2:]):
                yield "knows-the-ci"
        if parts[:2] == ("import", "meta") and len(parts) > 2 and names.tool().fullmatch(parts[2]):  # noqa: PLR2004
            yield "knows-the-test"
        if parts[0] in ("module:ci-info", "module:is-ci"):
            yield "knows-the-ci"
        if parts[0] in self.declared and not chain.through:
            return
        asks = self._is(chain.start - 1, "typeof")
        if parts[0] in names.RUNNER_GLOBALS and (asks or chain.through or len(parts) > 1):
            yield "knows-the-test" if asks or chain.through else "test-tools"
        elif parts[0] in names.RUNNER_WORDS and (
            chain.through or (asks and self._at(chain.end + 1).text == "undefined")
        ):
            yield "knows-the-test"

    def _sensing(self) -> dict[int, set[str]]:
        """Return the sensing powers by statement, also those of names that are set from them."""
        by_statement: dict[int, set[str]] = {}
        tainted: dict[str, set[str]] = {}
        for _ in range(2):
            for chain in self.chains:
                powers = set(tainted.get(self.tokens[chain.start].text, ()))
                power = names.power_of(chain.text) if not self._is_local(chain) else None
                if power in SENSING and not self._is_own_argument(chain):
                    powers.add(power)
                if not powers:
                    continue
                by_statement.setdefault(self.statement_of[chain.start], set()).update(powers)
                if (name := self._set_by(chain.start)) is not None:
                    tainted.setdefault(name, set()).update(powers)
        return by_statement

    def _is_own_argument(self, chain: NameChain) -> bool:
        """Return True for `process.argv[2]` and `process.argv.slice(2)`: what the user wrote."""
        rest = chain.parts[2:3]
        if chain.parts[:2] != ("process", "argv"):
            return False
        if not rest:  # `const [, , command] = process.argv`
            opening = self.opening.get(chain.start - 2, chain.start)
            return self._is(chain.start - 1, "=") and self._is(opening + 1, ",") and self._is(opening + 2, ",")
        return rest[0] == "slice" or (rest[0].isdigit() and int(rest[0]) > 1)

    def _set_by(self, at: int) -> str | None:
        """Return the name that the statement around a token declares, or None."""
        statement = self.statement_of[at]
        while at > 0 and self.statement_of[at - 1] == statement:
            at -= 1
        if self._at(at).text in _DECLARES:
            at += 1
        return self._at(at).text if self._at(at).kind == "name" and self._is(at + 1, "=") else None

    def _questions(self) -> Iterator[PowerUse]:
        lines = {
            self.tokens[chain.start].line for chain in self.chains if self.sensing.get(self.statement_of[chain.start])
        }
        near = {line + by for line in lines for by in range(-_NEAR, _NEAR + 1)}
        for at, token in enumerate(self.tokens):
            if token.kind not in ("string", "regex") or token.text.startswith("-") or len(token.text) > _LONGEST:
                continue
            powers = self.sensing.get(self.statement_of[at], set())
            if self._asks(at, powers, near):
                yield PowerUse("knows-the-test", token.line, "knows-the-test")
            elif "environment" in powers and names.CI.match(token.text):
                yield PowerUse("knows-the-ci", token.line, "knows-the-ci")

    def _asks(self, at: int, powers: set[str], near: set[int]) -> bool:
        text = self._at(at).text
        if names.variables().match(text):
            return True
        if text in names.RUNNER_GLOBALS and self._is(at + 1, "in") and self._at(at + 2).text in names.GLOBALS:
            return True
        if _is_prose(text):
            return False
        if names.tool().search(text) and self._at(at).line in near:
            return True
        generic = names.TEST.search(text) or (powers - {"read"} and names.SPEC.search(text))
        return bool(powers - {"subprocess"} and generic)


def _is_prose(text: str) -> bool:
    return len(text.split()) > 3  # noqa: PLR2004 - words of a sentence


def _module(name: str) -> str:
    return f"module:{name.removeprefix('node:') if name != 'node:test' else name}"


def _closings(parts: Sequence[JsToken]) -> dict[int, int]:
    """Return the index of the closing bracket of each opening one."""
    out: dict[int, int] = {}
    stack: list[int] = []
    for at, token in enumerate(parts):
        if token.kind != "punct":
            continue
        if token.text in _OPEN:
            stack.append(at)
        elif token.text in _OPEN.values() and stack and _OPEN[parts[stack[-1]].text] == token.text:
            out[stack.pop()] = at
    return out


def _statements(parts: Sequence[JsToken]) -> list[int]:
    """Return the number of the statement that each token stands in; braces and semicolons divide statements."""
    out: list[int] = []
    number = 0
    for at, token in enumerate(parts):
        before = parts[at - 1] if at else token
        divided = before.kind == "punct" and before.text in (";", "{", "}")
        ended = before.kind != "punct" or before.text in (")", "]")
        if divided or (token.line > before.line and token.kind == "name" and ended):
            number += 1
        out.append(number)
    return out
