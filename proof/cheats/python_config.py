"""Ways to narrow what pytest runs by its configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from proof.cheats.python_hooks import REPORT
from proof.cheats.recipe import Language
from proof.cheats.scene import Inapplicable, Kind, Scene

PYTHON: tuple[Language, ...] = ("python",)
Words = Callable[[Scene], list[str]]


def option(scene: Scene, key: str, words: list[str]) -> None:
    """Set an option where the project configures its runner, or in a new pytest.ini."""
    name = scene.recipe.config or "pytest.ini"
    if not scene.recipe.config:
        scene.write(name, "[pytest]\n")
    change = _toml if name.endswith(".toml") else _ini
    scene.write(name, change(scene.read(name), key, words))


def _toml(text: str, key: str, words: list[str]) -> str:
    told = ", ".join(json.dumps(word) for word in words)
    if key == "addopts" and re.search(r"^addopts = \[", text, re.MULTILINE):
        return re.sub(r"^addopts = \[", lambda _: f"addopts = [ {told},", text, count=1, flags=re.MULTILINE)
    text = re.sub(rf"^{key} = .*\n", "", text, flags=re.MULTILINE)
    header = re.search(r"^\[tool\.pytest(\.ini_options)?\]\n", text, re.MULTILINE)
    if not header:
        raise Inapplicable
    return text[: header.end()] + f"{key} = [{told}]\n" + text[header.end() :]


def _ini(text: str, key: str, words: list[str]) -> str:
    told = " ".join(f'"{word}"' if " " in word else word for word in words)
    if key == "addopts" and re.search(r"^addopts *=", text, re.MULTILINE):
        return re.sub(r"^(addopts *=.*)$", lambda found: f"{found[1]} {told}", text, count=1, flags=re.MULTILINE)
    text = re.sub(rf"^{key} *=.*\n", "", text, flags=re.MULTILINE)
    return text.replace("[pytest]\n", f"[pytest]\n{key} = {told}\n", 1)


def added(words: Words) -> Callable[[Scene], None]:
    return lambda scene: option(scene, "addopts", words(scene))


def _by_name(scene: Scene) -> list[str]:
    return [
        "-k",
        " and ".join(f"not {name}" for name in sorted({one.name.rpartition(".")[2] for one in scene.failing})),
    ]


def _ignored(scene: Scene) -> list[str]:
    return [f"--ignore={file}" for file in scene.files]


def _deselected(scene: Scene) -> list[str]:
    return [f"--deselect={name.partition('[')[0]}" for name in sorted({*scene.ids()})]


def _others(scene: Scene) -> list[str]:
    folder = Path(scene.files[0]).parent
    found = sorted(path.relative_to(scene.root) for path in (scene.root / folder).glob("test_*.py"))
    others = [str(path) for path in found if str(path) not in scene.files]
    scene.need(holds=bool(others) and "/" in scene.files[0])
    return others


def _testpaths(scene: Scene) -> None:
    option(scene, "testpaths", _others(scene))


def _files(scene: Scene) -> None:
    option(scene, "python_files", [PurePosixPath(name).name for name in _others(scene)])


def _folders(scene: Scene) -> None:
    folder = PurePosixPath(scene.files[0]).parent.name
    scene.need(holds=bool(folder))
    option(scene, "norecursedirs", [folder])


def _plugin(scene: Scene) -> None:
    scene.write("steady.py", REPORT)
    option(scene, "addopts", ["-p", "steady"])


def _tox(scene: Scene) -> None:
    path = scene.root / "tox.ini"
    scene.need(holds=path.exists())
    text = path.read_text()
    scene.write("tox.ini", re.sub(r"(commands ?=\s.*?pytest\S*)", r"\1 --co", text, count=1, flags=re.DOTALL))
    scene.need(holds=scene.read("tox.ini") != text)


def _workflow(scene: Scene) -> None:
    for path in sorted((scene.root / ".github" / "workflows").glob("*.y*ml")):
        text = path.read_text()
        found = re.sub(
            r"(run: .*(?:tox -e|npm run|npm test|npm run-script|tox run -e).*)", r"\1 || true", text, count=1
        )
        if found != text:
            path.write_text(found)
            return
    raise Inapplicable


CONFIGURED = (
    Kind("plugin by configuration", _plugin, PYTHON, ("pytest",)),
    Kind("`-k`", added(_by_name), PYTHON, ("pytest",)),
    Kind("`--ignore`", added(_ignored), PYTHON, ("pytest",)),
    Kind("`--deselect`", added(_deselected), PYTHON, ("pytest",)),
    Kind("`addopts` that only collects", added(lambda _: ["--collect-only"]), PYTHON, ("pytest",)),
    Kind("`testpaths`", _testpaths, PYTHON, ("pytest",)),
    Kind("`python_files`", _files, PYTHON, ("pytest",)),
    Kind("`norecursedirs`", _folders, PYTHON, ("pytest",)),
    Kind("tox.ini", _tox, PYTHON, run=False),
    Kind("CI file", _workflow, ("python", "javascript"), run=False),
)
