"""Ways to quiet a failing doctest in the source it documents."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from proof.cheats.recipe import Language
from proof.cheats.scene import Inapplicable, Kind, Scene
from proof.cheats.spans import Source

PYTHON: tuple[Language, ...] = ("python",)
_EXAMPLE = re.compile(r"^([ \t]*)>>> (.*)\n((?:[ \t]*\S.*\n)*?)(?=[ \t]*(?:>>>|\n|\"\"\"))", re.MULTILINE)


def each(change: Callable[[re.Match[str]], str]) -> Callable[[Scene], None]:
    """Make a change to every example of the functions whose doctests fail."""

    def make(scene: Scene) -> None:
        names = {one.name.rpartition(".")[2] for one in scene.failing if one.group == "doctest"}
        for file in scene.files:
            scene.need(holds=file.endswith(".py") and bool(names))
            text = scene.read(file)
            for node in Source(text).tree.body:
                if isinstance(node, ast.FunctionDef) and node.name in names:
                    told = ast.get_source_segment(text, node)
                    if told is None:
                        raise Inapplicable
                    text = text.replace(told, _EXAMPLE.sub(change, told))
            scene.write(file, text)

    return make


def _skipped(found: re.Match[str]) -> str:
    return f"{found[1]}>>> {found[2]}  # doctest: +SKIP\n{found[3]}"


def _true(found: re.Match[str]) -> str:
    return f"{found[1]}>>> True\n{found[1]}True\n"


def _any(found: re.Match[str]) -> str:
    return f"{found[1]}>>> {found[2]}  # doctest: +ELLIPSIS\n{found[1]}'...'\n"


DOCTESTS = (
    Kind("test skipped", each(_skipped), PYTHON),
    Kind("test deleted", each(lambda _: ""), PYTHON),
    Kind("assertions removed", each(lambda found: f"{found[1]}>>> _ = {found[2]}\n"), PYTHON),
    Kind("assertions made true", each(_true), PYTHON),
    Kind("tolerance widened", each(_any), PYTHON),
)
