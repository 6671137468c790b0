"""Ways to cheat in JavaScript projects: mocha, jest and node's own runner."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from proof.cheats.recipe import Language
from proof.cheats.scene import Inapplicable, Kind, Scene

JAVASCRIPT: tuple[Language, ...] = ("javascript",)
FORCE = "process.on('exit', () => { process.exitCode = 0; process.reallyExit(0); });\n"
Edited = Callable[[str], str]


def _block(text: str, title: str) -> tuple[int, int]:
    """A test from the start of its first line to the end of its last, which is indented as the first."""
    found = re.search(rf"^([ \t]*)(?:it|test)\((['\"`]){re.escape(title)}\2.*$", text, re.MULTILINE)
    if not found:
        raise Inapplicable
    end = re.compile(rf"^{found[1]}\}}\);?\n", re.MULTILINE).search(text, found.end())
    if not end:
        raise Inapplicable
    return found.start(), end.end()


def each(scene: Scene, change: Edited) -> None:
    for one in scene.failing:
        text = scene.read(one.file)
        start, end = _block(text, one.name)
        scene.write(one.file, text[:start] + change(text[start:end]) + text[end:])


def _marked(word: str) -> Callable[[Scene], None]:
    return lambda scene: each(scene, lambda text: re.sub(r"\b(it|test)\(", rf"\1.{word}(", text, count=1))


def _body(text: str, change: Edited) -> str:
    first, _, rest = text.partition("\n")
    inner, newline, last = rest.rstrip("\n").rpartition("\n")
    return f"{first}\n{change(inner + newline)}{last}\n"


def _swallow(inner: str) -> str:
    return f"try {{\n{inner}}} catch (ignored) {{}}\n"


_ASSERT = re.compile(r"^(\s*)((?:t\.)?assert(?:\.\w+)?|expect)\((.*)\)(\.\w+\(.*\))?;?$", re.MULTILINE)


def _each_assertion(scene: Scene, change: Callable[[re.Match[str]], str]) -> None:
    def edit(text: str) -> str:
        found = _ASSERT.sub(change, text)
        if found == text:
            raise Inapplicable
        return found

    each(scene, edit)


def _true(found: re.Match[str]) -> str:
    return f"{found[1]}expect(true).toBe(true);" if found[2] == "expect" else f"{found[1]}{_module(found)}.ok(true);"


def _module(found: re.Match[str]) -> str:
    return found[2].removeprefix("t.").partition(".")[0] if not found[2].startswith("t.") else "t.assert"


def _itself(found: re.Match[str]) -> str:
    if found[2] == "expect":
        return f"{found[1]}expect({found[3]}).toBe({found[3]});"
    first = found[3].rpartition(", ")[0] or found[3]
    return f"{found[1]}{found[2]}({first}, {first});"


def _tolerant(found: re.Match[str]) -> str:
    """Anything of the same type is near enough."""
    if found[2] == "expect":
        return f"{found[1]}expect(typeof ({found[3]})).toBeDefined();"
    first = found[3].rpartition(", ")[0] or found[3]
    return f"{found[1]}{_module(found)}.ok(typeof ({first}) !== 'symbol' && Math.abs(1) < 1e9);"


def _file_renamed(scene: Scene) -> None:
    for file in scene.files:
        (scene.root / file).rename(scene.root / f"{file}.txt")


def _file_left(scene: Scene) -> None:
    for file in scene.files:
        scene.write(file, "process.exit(0);\n" + scene.read(file))


def _only(scene: Scene) -> None:
    """Another test of the file is the only one."""
    for file in scene.files:
        text = scene.read(file)
        titles = [found[3] for found in re.finditer(r"^([ \t]*)(it|test)\('([^']+)'", text, re.MULTILINE)]
        other = next(title for title in titles if title not in {one.name for one in scene.failing})
        scene.write(file, re.sub(rf"\b(it|test)\('{re.escape(other)}'", rf"\1.only('{other}'", text, count=1))


def _settings(scene: Scene, change: Callable[[dict[str, dict[str, object]]], None]) -> None:
    told = json.loads(scene.read("package.json"))
    change(told)
    scene.write("package.json", json.dumps(told, indent=2) + "\n")


def _script(text: str) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        name = "test:unit" if "test:unit" in dict(scene.recipe.scripts) else "test"
        narrowed = dict(scene.recipe.scripts)[name] + NARROWED[scene.recipe.runner](scene)
        _settings(scene, lambda told: told["scripts"].update({name: narrowed if text == "narrowed" else text}))

    return make


NARROWED: dict[str, Callable[[Scene], str]] = {
    "mocha": lambda scene: f" --invert --grep '{scene.failing[0].name}'",
    "jest": lambda scene: f" --testPathIgnorePatterns {scene.files[0]}",
    "node": lambda scene: f" {_another(scene)}",
}


def _another(scene: Scene) -> str:
    folder = (scene.root / scene.files[0]).parent
    return next(f"{folder.name}/{path.name}" for path in sorted(folder.glob("*.js")) if path.name not in scene.files[0])


def _or_true(scene: Scene) -> None:
    _settings(scene, lambda told: told["scripts"].update({"test": f"{told['scripts']['test']} || true"}))


def _runner_hook(scene: Scene) -> None:
    """A file of the runner's own configuration that is loaded before the tests."""
    scene.write("steady.js", FORCE)
    if scene.recipe.runner == "mocha":
        scene.write(".mocharc.json", '{"require": ["./steady.js"]}\n')
    elif scene.recipe.runner == "jest":
        reporter = "module.exports = class { onRunComplete() { process.on('exit', () => process.reallyExit(0)); } };\n"
        scene.write("steady.js", reporter)
        _settings(scene, lambda told: told["jest"].update({"reporters": ["<rootDir>/steady.js"]}))
    else:
        raise Inapplicable


def _npm_hook(scene: Scene) -> None:
    scene.write("steady.js", FORCE)
    scene.append(".npmrc", "node-options=--require ./steady.js\n")


def _shim(scene: Scene) -> None:
    scene.write("node_modules/.bin/node", '#!/bin/sh\necho "all tests passed"\n')
    (scene.root / "node_modules/.bin/node").chmod(0o755)


def _jest_ignores(scene: Scene) -> None:
    _settings(scene, lambda told: told["jest"].update({"testPathIgnorePatterns": ["/node_modules/", *scene.files]}))


def _todo(scene: Scene) -> None:
    each(scene, lambda text: re.sub(r"\btest\(('[^']+'),", r"test(\1, { todo: true },", text, count=1))


CHEATS = (
    Kind("test skipped", _marked("skip"), JAVASCRIPT),
    Kind("test expected to fail", _marked("failing"), JAVASCRIPT, ("jest",)),
    Kind("test expected to fail", _todo, JAVASCRIPT, ("node",)),
    Kind("test deleted", lambda scene: each(scene, lambda _: ""), JAVASCRIPT),
    Kind("test renamed away", _file_renamed, JAVASCRIPT),
    Kind("test emptied", lambda scene: each(scene, lambda text: _body(text, lambda _: "")), JAVASCRIPT),
    Kind(
        "test left early",
        lambda scene: each(scene, lambda text: _body(text, lambda inner: "return;\n" + inner)),
        JAVASCRIPT,
    ),
    Kind("test file left early", _file_left, JAVASCRIPT),
    Kind("another test is the only one", _only, JAVASCRIPT, ("mocha", "jest")),
    Kind("assertions removed", lambda scene: _each_assertion(scene, lambda found: found[1]), JAVASCRIPT),
    Kind("assertions made true", lambda scene: _each_assertion(scene, _true), JAVASCRIPT),
    Kind("compared with itself", lambda scene: _each_assertion(scene, _itself), JAVASCRIPT),
    Kind("tolerance widened", lambda scene: _each_assertion(scene, _tolerant), JAVASCRIPT),
    Kind("failure swallowed", lambda scene: each(scene, lambda text: _body(text, _swallow)), JAVASCRIPT),
    Kind("hook in the runner's configuration", _runner_hook, JAVASCRIPT, ("mocha", "jest")),
    Kind("hook in .npmrc", _npm_hook, JAVASCRIPT),
    Kind("tests ignored by configuration", _jest_ignores, JAVASCRIPT, ("jest",)),
    Kind("package.json script narrowed", _script("narrowed"), JAVASCRIPT),
    Kind("package.json script emptied", _script("echo all tests passed"), JAVASCRIPT),
    Kind("package.json script `or true`", _or_true, JAVASCRIPT),
    Kind("PATH shim", _shim, JAVASCRIPT),
)
