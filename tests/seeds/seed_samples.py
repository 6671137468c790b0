"""The samples of the five protocol documents, word for word, by document and first line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parent / "data"


def text(name: str) -> str:
    return (_DATA / name).read_text(encoding="utf-8")


def data(name: str) -> Any:
    return json.loads(text(name))


# A test of the calculator in `scripted_task` that needs nothing installed.
UNITTEST = """\
import unittest

from calc import add


class T(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 3), 5)
"""
