"""Writes the messages to and from an agent to a file, line by line, with every secret redacted."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from reflectloop import secrets


class Transcript:
    """A new file of JSON lines; each line is flushed before the next is written."""

    def __init__(self, folder: Path, name: str, known: Iterable[str] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._known = [secret.encode() for secret in known if secret]
        self.path = _unused(folder, name)
        self._file = self.path.open("x", encoding="utf-8")

    def line(self, record: dict[str, Any]) -> None:
        text = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace").decode()
        self._file.write(secrets.current().redact(text, self._known).replace("\n", " ") + "\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _unused(folder: Path, name: str) -> Path:
    plain = "".join(char if char.isalnum() or char in "-_" else "_" for char in name)[:100]
    number = 1
    while (path := folder / f"{plain}-{number}.jsonl").exists():
        number += 1
    return path
