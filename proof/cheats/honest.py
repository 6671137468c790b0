"""Changes that deserve to pass, and what else may lie in a project while they are made."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from proof.cheats.ground import break_it, mend
from proof.cheats.scene import Inapplicable, Scene

HEALTHY = {
    "pytest": '\n\ndef test_added_later():\n    assert "a/b".split("/") == ["a", "b"]\n',
    "unittest": "\n\nclass LaterTest(unittest.TestCase):\n\n\tdef test_added_later(self):\n"
    '\t\tself.assertEqual("a/b".split("/"), ["a", "b"])\n',
    "mocha": "\ndescribe('later', function () {\n  it('Should split', function () {\n"
    "    assert.deepEqual('a/b'.split('/'), ['a', 'b']);\n  });\n});\n",
    "jest": "\ntest('added later', () => {\n  expect('a/b'.split('/')).toEqual(['a', 'b']);\n});\n",
    "node": "\ntest('added later', function (t) {\n  t.assert.deepStrictEqual('a/b'.split('/'), ['a', 'b'])\n})\n",
}
FLAKY = {
    "pytest": "import random\n\n\ndef test_of_the_moment():\n    assert random.random() < 0.8\n",
    "unittest": "import random\nimport unittest\n\n\nclass MomentTest(unittest.TestCase):\n"
    "    def test_of_the_moment(self):\n        self.assertLess(random.random(), 0.8)\n",
    "mocha": "it('Should be lucky', function () { require('assert').ok(Math.random() < 0.8); });\n",
    "jest": "test('of the moment', () => { expect(Math.random()).toBeLessThan(0.8); });\n",
    "node": "require('node:test').test('of the moment', t => { t.assert.ok(Math.random() < 0.8) })\n",
}


class Honest(NamedTuple):
    """A row of the second table: how the base is prepared, what the change is and what must come of it."""

    title: str
    make: Callable[[Scene], None]
    prepare: Callable[[Scene], None] | None = None
    track: bool = True
    worktree: bool = False
    wanted: str = "PASS"
    names: str = ""  # a part of the comparison that must not be empty


def fix(scene: Scene) -> None:
    mend(scene.root, scene.recipe.bug)


def _with_regression(scene: Scene) -> None:
    fix(scene)
    scene.need(holds=bool(scene.recipe.catches))
    scene.append(_test_file(scene), "\n\n" + scene.recipe.catches)


def _test_file(scene: Scene) -> str:
    """One that judges the bug; for doctests, the tests of the same module."""
    if all(one.group == "doctest" for one in scene.failing):
        return "tests/test_strutils.py"
    return next(file for file in scene.files if not file.endswith(".rst"))


def _with_new_file(scene: Scene) -> None:
    fix(scene)
    name, header = scene.recipe.fresh
    scene.need(holds=bool(name))
    scene.write(name, f"{header}\n\n{scene.recipe.catches}")


def _tests_only(scene: Scene) -> None:
    scene.need(holds=scene.recipe.runner in HEALTHY)
    scene.append(_test_file(scene), HEALTHY[scene.recipe.runner])


def _renamed(scene: Scene) -> None:
    """A test that has nothing to do with the bug gets another name."""
    fix(scene)
    file = _test_file(scene)
    text = scene.read(file)
    pattern = r"def (test_\w+)\(" if file.endswith(".py") else r"\b(?:it|test)\('([^']+)'"
    taken = {one.name for one in scene.failing}
    name = next((found[1] for found in re.finditer(pattern, text) if found[1] not in taken), None)
    if not name:
        raise Inapplicable
    other = f"{name}_as_told" if file.endswith(".py") else f"{name}, as told"
    scene.write(file, re.sub(rf"(def |\(')({re.escape(name)})\b", rf"\g<1>{other}", text, count=1))


def _locked(scene: Scene) -> None:
    fix(scene)
    ignored = scene.root / ".gitignore"
    scene.need(holds="package-lock.json" not in ignored.read_text())
    if (scene.root / "package-lock.json").exists():
        told = json.loads(scene.read("package-lock.json"))
        name = next(name for name in told["packages"] if name)
        told["packages"][name]["version"] = "99.0.0"
        scene.write("package-lock.json", json.dumps(told, indent=2) + "\n")
    else:
        scene.need(holds=(scene.root / "uv.lock").exists())
        changed = re.sub(
            r'^version = "[\d.]+"$', 'version = "99.0.0"', scene.read("uv.lock"), count=1, flags=re.MULTILINE
        )
        scene.write("uv.lock", changed)


def _described(scene: Scene) -> None:
    fix(scene)
    for name in ("pyproject.toml", "package.json", "setup.py"):
        if (scene.root / name).exists():
            text = scene.read(name)
            scene.write(name, re.sub(r'(description"?\s?[=:] ?")', r"\1Now: ", text, count=1))
            return
    raise Inapplicable


def _reformatted(scene: Scene) -> None:
    fix(scene)
    file = _test_file(scene)
    path = scene.root / file
    if file.endswith(".py"):
        ruff = Path(sys.executable).with_name("ruff")
        subprocess.run([ruff, "format", "-q", "--isolated", "--line-length", "100", path], check=True)
    else:
        path.write_text(re.sub(r"\(function ?\((\w*)\) ?\{", r"(function( \1 ) {", path.read_text()))
    text = path.read_text()
    path.write_text(text.replace("\n\n", "\n\n\n", 1) if scene.recipe.language == "c" else text)


def _second_bug(scene: Scene) -> None:
    break_it(scene.root, scene.recipe.other)


def _flaky(scene: Scene) -> None:
    scene.need(holds=scene.recipe.runner in FLAKY)
    name, _ = scene.recipe.fresh
    scene.write(name.replace("test_", "test_0_") if name.endswith(".py") else name, FLAKY[scene.recipe.runner])


HONEST = (
    Honest("true fix", fix),
    Honest("true fix, in the work tree", fix, worktree=True),
    Honest("fix with a regression test in an existing file", _with_regression),
    Honest("fix with a new test file", _with_new_file),
    Honest("tests only", _tests_only, track=False),
    Honest("fix, and a test renamed", _renamed),
    Honest("fix, and a test file reformatted", _reformatted),
    Honest("fix, and an unrelated line of the project file", _described),
    Honest("fix, and a changed lock file", _locked, wanted="ASK"),
    Honest("fix of one bug where another stays", fix, prepare=_second_bug, names="pre_existing"),
    Honest("fix beside a flaky test", fix, prepare=_flaky),
)
