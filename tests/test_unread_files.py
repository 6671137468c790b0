"""A file of a patch that nobody can read asks a person once; plain data does not."""

from __future__ import annotations

import ast
import io
import marshal
import pickle
import sys
import zipfile
from pathlib import Path

import pytest

from python_test_diff import bad
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.tampering import look
from reflectloop.verification.tampering.powers import SurroundingFiles, newer_reader

UNREAD = [("unread", "suspect")]
LARGE = b"\0"  # stands for the content of a file over 4 MiB
NEWER = b"type Number = int\n\n\ndef price[T](n: T) -> T:\n    return n\n"


def archive() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("shop.py", "x = 1\n")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("path", "after", "mode"),
    [
        ("src/shop.py", LARGE, "100644"),
        ("src/shop.js", LARGE, "100644"),
        ("bin/shop", LARGE, "100755"),
        ("src/fast.so", b"\x7fELF\2\1\1\0", "100644"),
        ("src/fast.cpython-311-x86_64-linux-gnu.so", b"\x7fELF\2\1\1\0", "100644"),
        ("src/rates.bin", b"\x7fELF\2\1\1\0", "100644"),
        ("src/rates", b"\x7fELF\2\1\1\0", "100755"),
        ("src/extra.zip", archive(), "100644"),
        ("src/extra.rates", archive(), "100644"),
        ("src/shop-1.0-py3-none-any.whl", archive(), "100644"),
        ("src/rates.pkl", pickle.dumps({1: "a"}), "100644"),
        ("src/rates.table", pickle.dumps({1: "a"}), "100644"),
        ("src/rates.dat", pickle.dumps([1, 2]), "100644"),
        ("src/rates.marshal", marshal.dumps({1: "a"}), "100644"),
        ("src/fast.wasm", b"\0asm\1\0\0\0", "100644"),
        ("src/shop.py", b"# coding: utf-7\nx = +AGEAYg-\n", "100644"),
        ("src/shop.py", b"#!/usr/bin/python\n# -*- coding: unicode_escape -*-\nx = 1\n", "100644"),
        ("src/shop.py", b"# coding: no-such\nx = 1\n", "100644"),
        ("src/shop.py", b"x = '\xe4'\n", "100644"),
        ("src/shop.py", NEWER, "100644"),
        ("src/shop.py", b"print 'old'\n", "100644"),
        ("src/shop.py", b"/etc/shop.py", "120000"),
        ("src/shop.py", b"../../elsewhere.py", "120000"),
        ("src/shop.py", b"no-such.py", "120000"),
        ("vendor/lib", b"0" * 40, "160000"),
        ("src/shop.min.js", b"a=1;" * 2000, "100644"),
        ("src/shop.js", b"let a = '\0';\n", "100644"),
        ("src/shop.js", b"let a = 1;\n" * 200_000, "100644"),
    ],
)
def test_what_nobody_can_read_asks_once(path: str, after: bytes, mode: str) -> None:
    [finding] = [each for each in look([ChangedFile(path, None, after, mode_after=mode)]) if each.grade != "note"]
    assert (finding.rule, finding.grade, finding.line) == ("unread", "suspect", None)


@pytest.mark.parametrize(
    ("path", "after", "mode"),
    [
        ("docs/logo.png", b"\x89PNG\r\n\x1a\n\0\0", "100644"),
        ("src/logo.png", b"\x89PNG\r\n\x1a\n\0\0", "100755"),
        ("src/words.txt.gz", b"\x1f\x8b\x08\0\0", "100644"),
        ("src/levels.dat", b"\0\1\2\3\xff", "100644"),
        ("src/font.woff2", b"wOF2\0\1\0\0", "100644"),
        ("src/rates.json", LARGE, "100644"),
        ("src/rates.csv", "Preis;1,50 €\n".encode("cp1252"), "100644"),
        ("src/locale/de.mo", b"\xde\x12\x04\x95\0\0", "100644"),
        ("src/rates.npy", b"\x93NUMPY\1\0", "100644"),
        ("src/shop.py", "# -*- coding: latin-1 -*-\nx = 'ä'\n".encode("latin-1"), "100644"),
        ("src/shop.py", b"\xef\xbb\xbfx = 1\n", "100644"),
        ("src/shop.py", "# кодировка\nx = 'д'\n".encode(), "100755"),
        ("bin/shop", b"#!/bin/sh\nexec python -m shop\n", "100755"),
        ("src/app.js", b"let a = 1;\n" * 2000, "100644"),
        ("src/shop.pyi", b"x: int\n", "100644"),
    ],
)
def test_plain_data_and_readable_code_do_not_ask(path: str, after: bytes, mode: str) -> None:
    assert bad(look([ChangedFile(path, None, after, mode_after=mode)])) == []


def test_a_link_is_read_where_it_leads() -> None:
    files = {"src/other.py": b"x = 1\n", "data/code.txt": b"import gc\ngc.get_objects()\n"}
    project = SurroundingFiles(head_file=files.get, is_head_folder={"src", "data"}.__contains__)
    harmless = ChangedFile("src/shop.py", None, b"other.py", mode_after="120000")
    assert bad(look([harmless], {}, project)) == []
    folder = ChangedFile("src/data", None, b"../data", mode_after="120000")
    assert bad(look([folder], {}, project)) == []
    hidden = ChangedFile("src/shop.py", b"x = 1\n", b"../data/code.txt", mode_after="120000")
    assert bad(look([hidden], {}, project)) == [("new-power", "suspect")]


def test_a_file_that_was_minified_before_does_not_ask_again() -> None:
    before, after = b"a=1;" * 2000, b"a=2;" * 2000
    assert bad(look([ChangedFile("src/shop.min.js", before, after)])) == []
    assert bad(look([ChangedFile("src/shop.min.js", b"a = 1;\n", after)])) == UNREAD


def test_a_changed_library_asks_although_it_was_binary_before() -> None:
    assert bad(look([ChangedFile("src/fast.so", b"\x7fELF\0", b"\x7fELF\0\1")])) == UNREAD


SOURCES = (
    "x = f'{a!r:>{width}}' + 'b' * 0x1F\ny = b'\\xff', 1.5, 2j, ..., None, True\n",
    "@wrap\nasync def f(a, /, b=1, *c, d: int = 2, **e) -> None:\n    async with g() as h:\n        await h\n",
    "class A(B, metaclass=C):\n    def __eq__(self, other):\n        return True\n",
    "match x:\n    case {'a': [1, *rest], **more} if rest:\n        pass\n    case A(b=2) | None:\n        pass\n",
    "try:\n    pass\nexcept* ValueError as e:\n    raise e from None\n",
)


def pretend_newer(home: Path, project: Path) -> dict[str, str]:
    """Make this Python look like a newer one; return the environment in which it is found."""
    place = home / ".pyenv/versions/3.13.9/bin"
    place.mkdir(parents=True)
    (place / "python3").symlink_to(sys.executable)
    project.mkdir()
    return {"HOME": str(home), "PATH": "/nonexistent"}


@pytest.mark.parametrize("source", SOURCES)
def test_a_tree_from_another_interpreter_is_the_same(source: str, tmp_path: Path) -> None:
    read = newer_reader(tmp_path / "project", pretend_newer(tmp_path / "home", tmp_path / "project"))
    tree = read(source.encode())
    assert tree is not None
    assert ast.dump(tree, include_attributes=True) == ast.dump(ast.parse(source), include_attributes=True)
    assert read(b"def (") is None


def test_an_interpreter_inside_the_project_is_not_started(tmp_path: Path) -> None:
    project = tmp_path / "project"
    place = project / ".venv/bin"
    place.mkdir(parents=True)
    (place / "python").write_text(f'#!/bin/sh\ntouch {tmp_path}/started\nexec {sys.executable} "$@"\n')
    (place / "python").chmod(0o755)
    assert newer_reader(project, {"PATH": str(place)})(b"x = 1\n") is None
    assert not (tmp_path / "started").exists()


def test_newer_syntax_is_read_where_an_interpreter_knows_it() -> None:
    def read(data: bytes) -> ast.Module:
        return ast.parse(data.replace(b"type Number = int", b"Number = int").replace(b"[T]", b""))

    project = SurroundingFiles(read_newer=read)
    assert bad(look([ChangedFile("src/shop.py", None, NEWER)], {}, project)) == []
    stack = NEWER + b"import inspect\ninspect.stack()\n"
    assert bad(look([ChangedFile("src/shop.py", NEWER, stack)], {}, project)) == [("new-power", "suspect")]
