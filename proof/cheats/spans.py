"""Edits of Python sources by place: what the syntax tree names is cut or replaced, and the rest stays as written."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

from proof.cheats.recipe import Failing
from proof.cheats.scene import Inapplicable, Scene

Function = ast.FunctionDef | ast.AsyncFunctionDef
Place = ast.stmt | ast.expr


class Edit(NamedTuple):
    start: int
    end: int
    text: str


class Source:
    """A Python file and where its lines begin, in bytes as the syntax tree counts them."""

    def __init__(self, text: str) -> None:
        self.data = text.encode()
        self.tree = ast.parse(text)
        self.starts = [0]
        for line in self.data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def at(self, line: int, column: int = 0) -> int:
        return self.starts[line - 1] + column

    def text(self, node: Place) -> str:
        start, end = self.span(node)
        return self.data[start:end].decode()

    def span(self, node: Place) -> tuple[int, int]:
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno or 0, node.end_col_offset or 0)

    def indent(self, node: ast.stmt) -> str:
        start = self.at(node.lineno)
        return self.data[start : start + node.col_offset].decode()

    def lines(self, node: Function) -> tuple[int, int]:
        """Of a whole function with its decorators, to the end of its last line."""
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        return self.at(first), self.at((node.end_lineno or 0) + 1)

    def body(self, node: Function) -> list[ast.stmt]:
        """What it does, without its docstring."""
        first = node.body[0]
        told = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(node.body) > 1
        return node.body[1:] if told else node.body

    def edited(self, edits: list[Edit]) -> str:
        data = self.data
        for start, end, text in sorted(edits, reverse=True):
            data = data[:start] + text.encode() + data[end:]
        return data.decode()

    def function(self, wanted: Failing) -> Function:
        for node in ast.walk(self.tree):
            inside = node.body if isinstance(node, ast.ClassDef) and node.name == wanted.group else []
            for one in self.tree.body if isinstance(node, ast.Module) and not wanted.group else inside:
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name == wanted.name:
                    return one
        raise Inapplicable

    def after_imports(self) -> int:
        imports = [node for node in self.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        if imports:
            return self.at((imports[-1].end_lineno or 0) + 1)
        told = ast.get_docstring(self.tree) is not None
        return self.at((self.tree.body[0].end_lineno or 0) + 1) if told else 0


Change = Callable[[Source, Function], Iterator[Edit]]


def each(scene: Scene, change: Change, imported: str = "") -> None:
    """Make a change to every test that catches the bug."""
    for file in scene.files:
        if not file.endswith(".py"):
            scene.swap(scene.recipe.quiet)
            continue
        scene.need(holds=not any(one.group == "doctest" for one in scene.failing if one.file == file))
        source = Source(scene.read(file))
        edits = []
        for node in {source.function(one) for one in scene.failing if one.file == file}:
            edits += list(change(source, node))
        if imported and f"{imported}\n".encode() not in source.data:
            edits.append(Edit(source.after_imports(), source.after_imports(), f"{imported}\n"))
        scene.write(file, source.edited(edits))
