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
