"""Turns what a plan says in words into a check, where the words say something that can be checked."""

from __future__ import annotations

import re
from typing import Any

_QUOTED = r"[`'\"‘“「]([^`'\"’”」]+)[`'\"’”」]"
_TOOLS = frozenset(
    [
        "python",
        "python3",
        "pytest",
        "pip",
        "uv",
        "ruff",
        "mypy",
        "tox",
        "nox",
        "node",
        "npm",
        "npx",
        "pnpm",
        "yarn",
        "go",
        "cargo",
        "make",
        "cmake",
        "ctest",
        "mvn",
        "gradle",
        "dotnet",
        "bash",
        "sh",
        "test",
        "git",
        "ls",
        "cat",
        "grep",
        "diff",
        "curl",
        "true",
        "false",
    ]
)
_EXIT = re.compile(
    r"(?:exit(?:s| code| status)?|returns|退出码)(?:\s*(?:is|为|with|code|=|:|：))*\s*(\d{1,9})\.?\Z", re.IGNORECASE
)
_OUTPUT = re.compile(rf"(?:std)?out(?:put)?\s+(?:contains|includes)\s+{_QUOTED}\.?\Z", re.IGNORECASE)
_OUTPUT_ZH = re.compile(rf"输出(?:中)?包含\s*{_QUOTED}\Z")
_COMMAND = re.compile(r"`([^`]+)`\s+(?:returns|exits(?: with)?|返回)\s*(\d{1,3})\.?\Z")
_BARE_COMMAND = re.compile(r"(\S[^`]*?)\s+(?:returns|exits with|返回)\s*(\d{1,3})\.?\Z")
_EXISTS = re.compile(r"(?:file|文件)\s*(?:exists|存在)\s*:?\s*[`'\"]?([^`'\"\s]+)[`'\"]?\.?\Z", re.IGNORECASE)
_EXISTS_AFTER = re.compile(
    r"(?:file\s+|文件\s*)?[`'\"]?([^`'\"\s]*[./][^`'\"\s]*)[`'\"]?\s*(?:exists|存在)\.?\Z", re.IGNORECASE
)


def lift(text: str) -> dict[str, Any] | None:
    """A check in the native form, or None where the text is a claim for a reviewer."""
    said = text.strip()
    if found := _EXIT.match(said):
        return {"commands_exit": int(found[1])}
    for pattern in (_OUTPUT, _OUTPUT_ZH):
        if found := pattern.match(said):
            return {"output_contains": found[1]}
    if (found := _COMMAND.match(said)) and int(found[2]) <= _LARGEST_EXIT:
        return {"run": found[1], "exit_code": int(found[2])}
    if (found := _BARE_COMMAND.match(said)) and _is_command(found[1]) and int(found[2]) <= _LARGEST_EXIT:
        return {"run": found[1], "exit_code": int(found[2])}
    for pattern in (_EXISTS, _EXISTS_AFTER):
        if found := pattern.match(said):
            return {"file_exists": found[1]}
    return None


_LARGEST_EXIT = 255


def _is_command(text: str) -> bool:
    """Whether words without quotes are meant to be typed: 'The function returns 0' is not."""
    first = text.split(maxsplit=1)[0]
    return first in _TOOLS or first.startswith("./")
