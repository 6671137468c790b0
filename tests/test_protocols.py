"""The table of the five protocols names only tests that exist, and is the one that its rows make."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def protocols() -> ModuleType:
    spec = importlib.util.spec_from_file_location("protocols", ROOT / "scripts" / "protocols.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_row_names_tests_that_exist_or_says_why_we_differ(protocols: Any) -> None:
    assert list(protocols.faults()) == []


def test_the_page_is_the_one_that_the_rows_make(protocols: Any) -> None:
    text = (ROOT / "docs" / "protocols.md").read_text()
    assert text == protocols.page(text.partition("# The five protocols")[0])


def test_all_five_documents_are_there_with_all_their_requirements(protocols: Any) -> None:
    rows = protocols.requirements()
    assert len(rows) >= 220
    assert {row.document for row in rows} == {"000", "001", "002", "003", "004"}
    assert all(row.asks and row.shown_by and row.lines for row in rows)


def test_tests_that_are_named_are_collected(protocols: Any, request: pytest.FixtureRequest) -> None:
    """Of the files that this run collects, every named test is among its items."""
    items = {
        (Path(item.path).relative_to(ROOT / "tests").as_posix(), item.name.partition("[")[0])
        for item in request.session.items
    }
    files = {file for file, _ in items}
    named = {tuple(test.split("::")) for row in protocols.requirements() for test in row.tests}
    if not request.config.option.keyword and not any("::" in arg for arg in request.config.args):
        assert {(file, name) for file, name in named if file in files} <= items


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (["1", "asks", "cmd", "test_run.py::test_that_is_none", ""], "there is no test test_run.py::test_that_is_none"),
        (["1", "asks", "cmd", "test_none.py::test_a", ""], "there is no test test_none.py::test_a"),
        (["1", "asks", "cmd", "support.py::reflectloop", ""], "there is no test support.py::reflectloop"),
        (["1", "asks", "cmd", "", ""], "names neither a test nor why we differ"),
    ],
)
def test_a_row_that_lies_is_found(
    protocols: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, row: list[str], fault: str
) -> None:
    source = tmp_path / "requirements.toml"
    source.write_text(f'[[document]]\nid = "000"\ntitle = "T"\nrows = [{row!r}]\n')
    assert tomllib.loads(source.read_text())
    monkeypatch.setattr(protocols, "SOURCE", source)
    assert list(protocols.faults()) == [f"000 line 1: {fault}"]
    with pytest.raises(ValueError, match="000 line 1"):
        protocols.page("")
