"""Parses the Markdown form: `### Step N: name`, fenced `bash` blocks, each step after the previous one."""

from __future__ import annotations

import re
from typing import Any

from reflectloop.errors import Fault
from reflectloop.plan.reading import PlanSource
from reflectloop.plan.strict_yaml import YamlDocument
from reflectloop.system.patterns import lazy

_STEP = lazy(r"#{2,4}\s+(?:Step|步骤)\s*(\d+)\s*[:：.\-]?\s*(.*?)\s*#*\Z", re.IGNORECASE)
_TITLE = lazy(r"#\s+(.+?)\s*#*\Z")
_FENCE = lazy(r"(`{3,}|~{3,})\s*([^\s`]*)[^`]*\Z")
_SHELLS = ("bash", "sh", "shell", "console")
_CHECK = lazy(r"[-*]\s+(?:Verify|Check|Expected|Verification|验证)\s*[:：]\s*(.+)\Z", re.IGNORECASE)
_ANYWHERE = lazy(rb"^#{2,4}\s+(?:Step|\xe6\xad\xa5\xe9\xaa\xa4)\s*\d+", re.MULTILINE | re.IGNORECASE)


def looks_like(raw: bytes) -> bool:
    return bool(_ANYWHERE.search(raw))


def parse_markdown(text: str) -> PlanSource:
    document = YamlDocument()
    reading = PlanSource("markdown", document)
    steps: list[dict[str, Any]] = []
    title, fence, block, opened = "", None, list[str](), 0
    for number, line in enumerate(text.splitlines(), 1):
        marker = _FENCE.match(line.strip())
        if fence is not None:
            if line.strip().startswith(fence[0]) and not line.strip().strip(fence[0][0]):
                _close(steps, fence[1], block, opened, document)
                fence, block = None, []
            else:
                block.append(line)
        elif marker:
            fence, opened = (marker[1], marker[2].lower()), number
        elif match := _STEP.match(line):
            _open(steps, match, number, reading)
        elif (match := _TITLE.match(line)) and not title:
            title = match[1]
        elif steps:
            _prose(steps[-1], line)
    if fence is not None:
        reading.faults.append(Fault("", opened, "a fenced block begins here and never ends"))
    reading.value = {"plan": {"title": title or "A Markdown plan", "steps": [_finish(step, reading) for step in steps]}}
    return reading


def _open(steps: list[dict[str, Any]], match: re.Match[str], line: int, reading: PlanSource) -> None:
    place = len(steps)
    name = f"step-{int(match[1])}"
    reading.document.lines["plan", "steps", place] = line
    reading.names["plan", "steps", place] = ("plan", "steps", place)
    steps.append({"id": name, "title": match[2], "commands": [], "verify": [], "text": [], "other": []})
    if place:
        steps[-1]["depends_on"] = [steps[-2]["id"]]


def _close(steps: list[dict[str, Any]], language: str, block: list[str], line: int, document: YamlDocument) -> None:
    script = "\n".join(block).strip("\n")
    if not (steps and script.strip()):
        return
    step = steps[-1]
    if language not in _SHELLS:
        step["other"].append((line, language))
        step["text"] += [f"```{language}", *block, "```"]
    else:
        document.lines["plan", "steps", len(steps) - 1, "commands", len(step["commands"])] = line
        step["commands"].append(_without_prompts(script) if language == "console" else script)


def _without_prompts(script: str) -> str:
    typed = [line[2:] for line in script.splitlines() if line.startswith("$ ")]
    return "\n".join(typed) if typed else script


def _prose(step: dict[str, Any], line: str) -> None:
    if match := _CHECK.match(line.strip()):
        step["verify"].append(match[1].strip())
    elif line.strip():
        step["text"].append(line.strip())


def _finish(step: dict[str, Any], reading: PlanSource) -> dict[str, Any]:
    """Complete a step; without a shell block it is for an agent, whose prompt includes the other blocks."""
    text, other = "\n".join(step.pop("text")), step.pop("other")
    if step["commands"]:
        for line, language in other:
            kind = f"'{language}'" if language else "unnamed"
            reading.warnings.append(
                f"line {line}: the {kind} block of {step['id']} is not run; {', '.join(_SHELLS)} blocks are"
            )
    if not step["commands"]:
        step["agent"] = {"role": "executor", "prompt": "\n".join(filter(None, [step["title"], text])) or step["id"]}
    return step
