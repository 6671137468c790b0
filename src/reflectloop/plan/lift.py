"""Turns a plain-text expectation of a plan into a check, if it can be checked."""

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


def parse_expectation(text: str) -> dict[str, Any] | None:
    """Return a check in the native form, or None if the text is only a claim."""
    line = text.strip()
    if match := _EXIT.match(line):
        return {"commands_exit": int(match[1])}
    for pattern in (_OUTPUT, _OUTPUT_ZH):
        if match := pattern.match(line):
            return {"output_contains": match[1]}
    if (match := _COMMAND.match(line)) and int(match[2]) <= _LARGEST_EXIT:
        return {"run": match[1], "exit_code": int(match[2])}
    if (match := _BARE_COMMAND.match(line)) and _is_command(match[1]) and int(match[2]) <= _LARGEST_EXIT:
        return {"run": match[1], "exit_code": int(match[2])}
    for pattern in (_EXISTS, _EXISTS_AFTER):
        if match := pattern.match(line):
            return {"file_exists": match[1]}
    return None


_LARGEST_EXIT = 255


def _is_command(text: str) -> bool:
    """Return True if unquoted text is a command; 'The function returns 0' is not."""
    first = text.split(maxsplit=1)[0]
    return first in _TOOLS or first.startswith("./")
