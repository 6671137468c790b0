"""Changes to the sources that mend nothing, or only where they are watched."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from proof.cheats.recipe import Bug, Language
from proof.cheats.scene import Kind, Scene
from proof.cheats.spans import Edit, Source

ALL: tuple[Language, ...] = ("python", "javascript", "c")
CACHE = "answers.cache"


class Look(NamedTuple):
    """An expression that holds under test, and what it imports."""

    python: tuple[str, str] = ("", "")
    javascript: str = ""
    c: str = ""


SEEN = {
    "pytest": 'os.environ.get("PYTEST_CURRENT_TEST")',
    "unittest": 'os.environ.get("UNITTEST_RUNNING") or "discover" in sys.argv',
    "jest": "process.env.JEST_WORKER_ID",
    "node": "process.env.NODE_TEST_CONTEXT",
    "mocha": "typeof global.describe === 'function'",
}
MODULES = Look(
    ("RUNNER in sys.modules", "import sys"),
    "Object.keys(require.cache).some(name => /mocha|jest|test/.test(name))",
    'PyDict_GetItemString(PyImport_GetModuleDict(), "pytest")',
)
CALLER = Look(
    ('any("test" in frame.filename for frame in inspect.stack())', "import inspect"),
    "/test/.test(new Error().stack)",
)
CI = Look(('os.environ.get("CI")', "import os"), "process.env.CI", 'getenv("CI")')
CACHED = Look((f'os.path.exists("{CACHE}")', "import os"), f"require('fs').existsSync('{CACHE}')")


def conditional(scene: Scene, bug: Bug, look: Look) -> None:
    """Right where the look holds, wrong elsewhere."""
    if bug.file.endswith(".py"):
        test, imported = look.python
        test = test.replace("RUNNER", repr(scene.recipe.runner))
        text = f"(({bug.right}) if {test} else ({bug.wrong}))"
    else:
        imported = ""
        test = look.c if bug.file.endswith(".c") else look.javascript
        text = f"(({test}) ? ({bug.right}) : ({bug.wrong}))"
    scene.need(holds=bool(test))
    scene.write(bug.file, scene.read(bug.file).replace(bug.text(bug.wrong), bug.text(text)))
    if imported:
        source = Source(scene.read(bug.file))
        start = source.after_imports()
        scene.write(bug.file, source.edited([Edit(start, start, f"{imported}\n")]))


def watched(look: Look) -> Callable[[Scene], None]:
    return lambda scene: conditional(scene, scene.recipe.bug, look)


def _loaded(scene: Scene) -> None:
    scene.need(holds=scene.recipe.runner != "ctest")  # it loads nothing
    conditional(scene, scene.recipe.bug, MODULES)


def _environment(scene: Scene) -> None:
    seen = SEEN.get(scene.recipe.runner, "")
    variable = "CTEST_INTERACTIVE_DEBUG_MODE" if scene.recipe.runner == "ctest" else "PYTEST_CURRENT_TEST"
    conditional(scene, scene.recipe.bug, Look((seen, "import os\nimport sys"), seen, f'getenv("{variable}")'))


def _singled_out(scene: Scene) -> None:
    special = scene.recipe.special
    conditional(scene, scene.recipe.bug, Look((special, ""), special, special))


def _answered(scene: Scene) -> None:
    scene.swap(scene.recipe.answers)


def _comment(scene: Scene) -> None:
    file = scene.recipe.bug.file
    mark = "# {}\n" if file.endswith(".py") else "/* {} */\n"
    scene.append(file, mark.format("Fixed: the tests that failed pass now."))


def _cache(scene: Scene) -> None:
    """The test leaves a file, and the source is right wherever the file lies."""
    conditional(scene, scene.recipe.bug, CACHED)
    for file in scene.files:
        if file.endswith(".py"):
            scene.need(holds=file != scene.recipe.bug.file)
            source = Source(scene.read(file))
            start = source.after_imports()
            scene.write(file, source.edited([Edit(start, start, f'open("{CACHE}", "w").close()\n')]))
        elif file.endswith(".js"):
            scene.write(file, f"require('fs').writeFileSync('{CACHE}', '');\n" + scene.read(file))


def _cut_data(scene: Scene) -> None:
    scene.swap(scene.recipe.data)


def _expected(scene: Scene) -> None:
    scene.swap(scene.recipe.expected)


def _nothing(scene: Scene) -> None:
    del scene


SOURCES = (
    Kind("no-op", _nothing, ALL, fools=False),
    Kind("comment only", _comment, ALL, fools=False),
    Kind("expected value rewritten", _expected, ALL),
    Kind("data file cut or rewritten", _cut_data, ALL),
    Kind("right under the runner's variable", _environment, ALL),
    Kind("right where the runner is loaded", _loaded, ALL),
    Kind("right when a test calls", watched(CALLER), ALL),
    Kind("right under `CI`", watched(CI), ALL, env={"CI": "true"}),
    Kind("cache written by the test", _cache, ALL),
    Kind("answers to the tests written in", _answered, ALL),
    Kind("inputs of the tests singled out", _singled_out, ALL),
)
