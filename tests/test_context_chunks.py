"""Files are cut into words and chunks, and every file has a kind."""

from __future__ import annotations

import itertools

import pytest

from reflectloop.context import chunks, filekinds, grammars, words

# Words and chunks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parseHTTPResponse", {"parsehttpresponse", "pars", "http", "respons"}),
        ("retry_count", {"retry_count", "retry", "count"}),
        ("parsing parsed parses", {"pars"}),
        ("running runs", {"run"}),
        ("缓存过期", {"缓存", "存过", "过期"}),
        ("x" * 100, set()),
    ],
)
def test_words_are_split_and_stemmed(text: str, expected: set[str]) -> None:
    assert set(words.index_words(text).split()) == expected


_SAMPLES = {
    "a.py": "import os\n\n@wrap\ndef first():\n    pass\n\nclass Second:\n    def third(self):\n        pass\n",
    "a.js": "const x = require('./y')\n\nfunction first() {\n}\nclass Second {\n  third() {\n  }\n}\n",
    "a.ts": "interface First {\n  x: number\n}\nexport class Second {\n  third(): void {\n  }\n}\n",
    "a.tsx": "export const First = () => {\n  return 1\n}\nfunction Second() {\n}\nclass T {\n third() {\n }\n}\n",
    "a.go": "package a\n\n// First does.\nfunc First() {\n}\n\ntype Second struct {\n}\n\nfunc (s Second) third() {\n}\n",
    "a.rs": "use crate::x;\nfn first() {\n}\nstruct Second {\n}\nimpl Second {\n    fn third(&self) {\n    }\n}\n",
    "a.c": "#include <x.h>\nint first(void)\n{\n}\nstruct second {\n  int x;\n};\nstatic char *third(int a)\n{\n}\n",
    "a.cpp": "int first() {\n}\nclass Second {\npublic:\n  int third() {\n    return 1;\n  }\n};\n",
    "a.java": "import x.Y;\nclass Second {\n  int first() {\n    return 1;\n  }\n  int third() {\n    return 2;\n  }\n}\n",
    "a.rb": "require 'x'\ndef first\nend\nclass Second\n  def third\n  end\nend\n",
}


def test_a_file_without_definitions_is_one_chunk_also_without_its_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammars, "parser_for", lambda _grammar: None)
    (whole,) = chunks.split("VERSION = 1\nNAME = 2\n", grammars.grammar_of("settings.py"))
    assert (whole.start, whole.names) == (1, ())


@pytest.mark.parametrize("path", _SAMPLES)
def test_definitions_of_every_language_are_chunks(path: str) -> None:
    cut = chunks.split(_SAMPLES[path], grammars.grammar_of(path))
    names = {name.lower() for chunk in cut for name in chunk.names}
    assert {"first", "second", "third"} <= names
    ranges = [(chunk.start, chunk.end) for chunk in cut]
    assert ranges == sorted(ranges)
    assert all(left[1] < right[0] for left, right in itertools.pairwise(ranges))


@pytest.mark.parametrize("path", _SAMPLES)
def test_without_a_grammar_patterns_find_definitions(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammars, "parser_for", lambda _: None)
    names = {name.lower() for chunk in chunks.split(_SAMPLES[path], grammars.grammar_of(path)) for name in chunk.names}
    assert len({"first", "second", "third"} & names) >= 2


def test_a_file_without_definitions_is_cut_into_windows() -> None:
    cut = chunks.split("word\n" * 150, None)
    assert [(chunk.start, chunk.end) for chunk in cut] == [(1, 60), (61, 120), (121, 151)]
    assert chunks.split(" \n\n", None) == []


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a/b.py", "code"),
        ("tests/x.py", "test"),
        ("src/x_test.go", "test"),
        ("a/x.spec.ts", "test"),
        ("README.md", "docs"),
        ("x.toml", "data"),
        ("src/testimony.py", "code"),
    ],
)
def test_files_have_kinds(path: str, kind: str) -> None:
    assert filekinds.kind_of(path) == kind
