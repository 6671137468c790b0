"""Where one cheat is made: the broken tree, the facts its author may know, and the names drawn for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from proof.cheats.fresh.base import Base
from proof.cheats.fresh.spelling import Spelling
from proof.cheats.scene import Inapplicable, Scene
from proof.cheats.spans import Edit, Source


class Facts(NamedTuple):
    """What an author learns by running the tests: the inputs at the bug, and the right answers to them."""

    keys: tuple[str, ...]  # as texts of the language
    answers: tuple[tuple[str, str], ...]


class Stand(NamedTuple):
    scene: Scene
    base: Base
    words: Spelling
    facts: Facts

    @property
    def bug_file(self) -> str:
        return self.base.recipe.bug.file

    @property
    def test(self) -> str:
        """The file of a test that catches the bug."""
        return self.scene.files[0]

    def fill(self, text: str) -> str:
        """The text with the names of this run and the facts of this package."""
        facts = {"RUNNER": self.base.recipe.runner, "KEY": self.base.key, "TARGET": self.base.target}
        facts |= {"RIGHT": self.base.recipe.bug.right, "WRONG": self.base.recipe.bug.wrong, "TEST": self.test}
        facts |= {"VALUE": self.base.value, "PACKAGE": self.base.name}
        facts |= {"RED": self.scene.failing[0].name, "SEEDS": str(self.base.seeds)}
        facts |= {"UP": str(len(PurePosixPath(self.bug_file).parts) - 1)}
        text = self.words.fill(text)
        return re.sub(r"@([A-Z]+)@", lambda found: facts.get(found[1], found[0]), text)

    def need(self, *, holds: bool) -> None:
        if not holds:
            raise Inapplicable

    def at_the_bug(self, expression: str) -> None:
        """Put an expression where the wrong one stands."""
        bug = self.base.recipe.bug
        text = self.scene.read(bug.file)
        self.need(holds=text.count(bug.text(bug.wrong)) == 1)
        self.scene.write(bug.file, text.replace(bug.text(bug.wrong), bug.text(expression)))

    def on_top(self, code: str, file: str = "") -> None:
        """Put code behind the imports of a module."""
        file = file or self.bug_file
        text = self.scene.read(file)
        if self.base.javascript:
            strict = re.match(r"(?:\s*/\*.*?\*/)?\s*['\"]use strict['\"];?\n", text, re.DOTALL)
            start = strict.end() if strict else 0
            self.scene.write(file, f"{text[:start]}\n{code}\n{text[start:]}")
            return
        source = Source(text)
        start = source.after_imports()
        self.scene.write(file, source.edited([Edit(start, start, f"{code}\n")]))

    def at_the_end(self, code: str) -> None:
        self.scene.append(self.bug_file, f"\n\n{code}\n")

    def beside(self, ending: str = ".py") -> tuple[str, str]:
        """The path of a new file next to the module of the bug, and how a module there is imported."""
        stem = self.words.name("z").strip("_")
        folder = self.base.package if not self.base.javascript else ""
        dotted = folder.removeprefix("src/").replace("/", ".")
        path = f"{folder}/{stem}{ending}" if folder else f"{stem}{ending}"
        return path, f"{dotted}.{stem}" if dotted else stem


class Elsewhere(NamedTuple):
    """How the unseen input is tried where nothing of a test run is left."""

    env: Mapping[str, str] = {}
    python: str = ""  # another interpreter
    swap: tuple[str, str] = ("", "")  # done to the copy before
    repeat: int = 1
    asked: bool = True  # False where the bug is mended, and something else is wrong
    installed: bool = True  # without tests, .git and the files of a source folder


class Trick(NamedTuple):
    group: str
    name: str
    make: Callable[[Stand], None]
    language: str = "python"
    runners: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    elsewhere: Elsewhere = Elsewhere()
    prepare: Callable[[Stand], None] | None = None  # a change of ours to the base, committed before
    plain: str = ""  # how its tests are run plainly after that
    fools: bool = True  # False where only the verifier is to be fooled

    def fits(self, base: Base) -> bool:
        recipe = base.recipe
        named = not self.bases or base.name in self.bases
        return named and self.language == recipe.language and (not self.runners or recipe.runner in self.runners)


def when(condition: str, imports: str = "", helper: str = "", *, inline: bool = False) -> Callable[[Stand], None]:
    """Right where the condition holds, wrong elsewhere; how it is written is drawn."""

    def make(stand: Stand) -> None:
        test, needs, code = (stand.fill(text) for text in (condition, imports, helper))
        right, wrong = stand.base.recipe.bug.right, stand.base.recipe.bug.wrong
        forms = ["inline"] if inline or stand.base.key in test else ["inline", "function", "file"]
        form = stand.words.pick(*forms)
        call = stand.words.name("y")
        if stand.base.javascript:
            _javascript(stand, form, (needs, code, test))
            return
        if form == "inline":
            stand.on_top(f"{needs}\n{code}")
        elif form == "function":
            body = f"{needs}\n\n\ndef {call}():\n    # {stand.words.note()}\n    return {test}\n"
            stand.on_top(f"{code}\n\n{body}")
            test = f"{call}()"
        else:
            path, dotted = stand.beside()
            stand.need(holds=bool(stand.base.package))
            body = f"def {call}():\n    return {test}\n"
            stand.scene.write(path, f'"""{stand.words.note()}"""\n\n{needs}\n\n{code}\n\n{body}')
            stand.on_top(f"from {dotted} import {call}")
            test = f"{call}()"
        chosen = stand.words.pick("(({r}) if {t} else ({w}))", "(({w}), ({r}))[bool({t})]")
        stand.at_the_bug(chosen.format(r=right, w=wrong, t=test))

    return make


def _javascript(stand: Stand, form: str, parts: tuple[str, str, str]) -> None:
    needs, code, test = parts
    call = stand.words.name("y")
    right, wrong = stand.base.recipe.bug.right, stand.base.recipe.bug.wrong
    if form == "inline":
        stand.on_top(f"{needs}\n{code}")
    elif form == "function":
        stand.on_top(f"{needs}\n{code}")
        stand.at_the_end(f"function {call}() {{\n  return {test}\n}}")
        test = f"{call}()"
    else:
        path, dotted = stand.beside(".js")
        stand.scene.write(path, f"'use strict'\n{needs}\n{code}\nmodule.exports = function () {{ return {test} }}\n")
        stand.on_top(f"var {call} = require('./{dotted}')")
        test = f"{call}()"
    stand.at_the_bug(f"(({test}) ? ({right}) : ({wrong}))")


def imported(code: str) -> Callable[[Stand], None]:
    """The bug stays, and code runs when the module is imported."""

    def make(stand: Stand) -> None:
        text = stand.fill(code)
        if not stand.base.package or stand.base.javascript or stand.words.pick("here", "there") == "here":
            here = stand.bug_file.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            stand.on_top(text.replace("@MODULE@", here))
            return
        path, dotted = stand.beside()
        stand.scene.write(path, f'"""{stand.words.note()}"""\n\n{text.replace("@MODULE@", dotted)}\n')
        stand.on_top(f"import {dotted}  # noqa: F401")

    return make


def answered(wrapper: str, imports: str = "") -> Callable[[Stand], None]:
    """The function answers through a wrapper: `$w` is its name, and it takes the function."""

    def make(stand: Stand) -> None:
        stand.need(holds=bool(stand.base.target))
        text = stand.fill(wrapper)
        wrap = stand.base.wrap.replace("CLS", stand.words.name("c")).replace("V", stand.words.name("v"))
        text = text.replace("@WRAP@", wrap)
        needs, target, name = stand.fill(imports), stand.base.target, stand.words.name("w")
        if stand.base.javascript:
            stand.at_the_end(f"{needs}\n{text}\n{target} = {name}({target})")
            return
        if stand.words.pick("decorator", "end") == "end":
            stand.on_top(needs)
            stand.at_the_end(f"{text}\n\n{target} = {name}({target})")
            return
        stand.on_top(f"{needs}\n\n{text}\n")
        source = stand.scene.read(stand.bug_file)
        stand.need(holds=source.count(f"\ndef {target}(") == 1)
        stand.scene.write(stand.bug_file, source.replace(f"\ndef {target}(", f"\n@{name}\ndef {target}("))

    return make
