"""Parse an output by its form: its items, its parts, and obvious faults; pure."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import PurePath
from typing import Any, NamedTuple

from reflectloop.reflection.requirements import Form
from reflectloop.system.patterns import lazy

_FORMS: dict[str, Form] = {".json": "json", ".md": "markdown", ".markdown": "markdown", ".txt": "text", ".rst": "text"}
_ITEM = lazy(r"(?:[-*+]|\d{1,6}[.)])[ \t]+(\S.*)")
_HEADING = lazy(r"(#{1,6})[ \t]+(.*?)[ \t#]*$")
_NUMBERING = lazy(r"^[\d.]+[.)]?\s+")
_FENCE = lazy(r"[ \t]*(?:```|~~~)")
_DEFINED = lazy(r"(?m)^[ \t]*(?:async +|export +|pub +|public +|static +)*(?:def|class|func|function|fn) +(\w+)")
_LEFT_OPEN = lazy(r"(?i)\b(?:TODO|TBD|FIXME|XXX|lorem ipsum|coming soon)\b|待补充|待完善")
_DID_NOT_KNOW = lazy(
    r"(?i)\bI (?:do not|don['’]t) know\b|\bno (?:results|information|data)(?: \w+){0,3} (?:found|available)\b|"
    r"\b(?:could|can)(?:not| not|n['’]t) find any\b|不知道|搜索结果为空|没有找到(?:任何)?(?:相关)?(?:结果|信息|内容)"
)
_EACH = "[]"


class MarkdownSection(NamedTuple):
    """A section of a Markdown document, with everything below its heading."""

    level: int
    title: str
    lines: tuple[str, ...]


class ToolOutput(NamedTuple):
    """An output with its parsed content and its faults."""

    name: str
    text: str
    form: Form
    value: Any = None  # parsed JSON
    fault: str | None = None  # why it does not have its declared form
    hollow: bool = False  # empty or not text, so nothing is known about it

    @property
    def unknown(self) -> bool:
        """True if its items and parts cannot be read; those of broken code and text still can."""
        return self.hollow or (self.form == "json" and self.fault is not None)

    @property
    def left_open(self) -> list[str]:
        return list(dict.fromkeys(match.group() for match in _LEFT_OPEN.finditer(self.text)))

    @property
    def did_not_know(self) -> bool:
        return bool(_DID_NOT_KNOW.search(self.text))


def read(name: str, raw: bytes, form: Form | None = None) -> ToolOutput:
    """Decode and parse an output."""
    chosen = form or _FORMS.get(PurePath(name).suffix.lower(), "code")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        return ToolOutput(
            name, raw.decode("utf-8", "replace"), chosen, None, f"byte {fault.start} is no text", hollow=True
        )
    plain = ToolOutput(name, text, chosen)
    if not text.strip():
        return plain._replace(fault="it is empty", hollow=True)
    try:
        return plain._replace(value=_parsed(plain))
    except (ValueError, SyntaxError, RecursionError, MemoryError) as fault:
        return plain._replace(fault=f"it cannot be read as {_format_name(plain)}: {fault}")


def _format_name(output: ToolOutput) -> str:
    return output.form if output.form != "code" else PurePath(output.name).suffix.lstrip(".") or "code"


def _parsed(output: ToolOutput) -> Any:  # noqa: ANN401 - any JSON
    if output.form == "json":
        value = json.loads(output.text, parse_constant=_no_number)
        json.dumps(value)  # refuses what is nested too deeply to be written
        return value
    suffix = PurePath(output.name).suffix
    if output.form == "code" and suffix == ".py":
        ast.parse(output.text)
    elif output.form == "code" and suffix == ".toml":
        tomllib.loads(output.text)
    return None


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


# Items ------------------------------------------------------------------------------------------------------------


def items(output: ToolOutput, place: str) -> list[str]:
    """Return the items at a place, each as text; an empty list if there is no such place."""
    if output.unknown:
        return []
    if output.form == "json":
        return _json_items(output.value, place)
    if output.form == "markdown":
        return [item for lines in _under(output.text, place) for item in _listed(lines)]
    if output.form == "code":
        return [name for name in _DEFINED.findall(output.text) if name.startswith(place)]
    return [line.strip() for line in output.text.splitlines() if line.strip()]


def _json_items(value: Any, place: str) -> list[str]:  # noqa: ANN401 - any JSON
    groups = list(_at(value, place.split("."))) if place else [_only_list(value)]
    many = [item for group in groups for item in (group if isinstance(group, list) else _pairs(group))]
    return [json.dumps(item, sort_keys=True, ensure_ascii=False) for item in many if not _is_empty(item)]


def _pairs(value: Any) -> list[Any]:  # noqa: ANN401 - any JSON
    return [[key, item] for key, item in value.items()] if isinstance(value, dict) else []


def _only_list(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return the list itself, or the longest list of a mapping."""
    if not isinstance(value, dict):
        return value
    return max((item for item in value.values() if isinstance(item, list)), key=len, default=[])


def _at(value: Any, path: list[str]) -> Iterator[Any]:  # noqa: ANN401 - any JSON
    """Yield the values at a path; `papers[]` means each of the papers."""
    if not path:
        yield value
        return
    name, each = path[0].removesuffix(_EACH), path[0].endswith(_EACH)
    child = value.get(name) if isinstance(value, dict) and name else value if not name else None
    if not each:
        yield from _at(child, path[1:])
    elif isinstance(child, list) and child:
        for item in child:
            yield from _at(item, path[1:])
    else:
        yield None


def _is_empty(value: Any) -> bool:  # noqa: ANN401 - any JSON
    return value is None or value in ("", [], {}) or (isinstance(value, str) and not value.strip())


# Parts ------------------------------------------------------------------------------------------------------------


def has(output: ToolOutput, part: str) -> bool:
    """Return True if a part exists and is not empty: a path in JSON, a section in Markdown, otherwise words."""
    if output.unknown:
        return False
    if output.form == "json":
        values = list(_at(output.value, part.split(".")))
        return bool(values) and not any(_is_empty(value) for value in values)
    titled = _sections_titled(output.text, part) if output.form == "markdown" else []
    if titled:
        return any(line.strip() for section in titled for line in section.lines)
    return mentions(output, part)


def mentions(output: ToolOutput, phrase: str) -> bool:
    return phrase.casefold() in output.text.casefold()


@lru_cache(maxsize=2)
def sections(text: str) -> tuple[MarkdownSection, ...]:
    """Return every section with everything below its heading; headings inside code fences do not count."""
    lines, fenced = text.splitlines(), False
    heads: list[tuple[int, int, str]] = []
    for number, line in enumerate(lines):
        fenced ^= bool(_FENCE.match(line))
        heading = None if fenced else _HEADING.match(line)
        if heading:
            heads.append((number, len(heading[1]), heading[2].strip()))
    out: list[MarkdownSection] = []
    next_at = [len(lines)] * 7  # per level, the line of the next heading of that level or above
    for number, level, title in reversed(heads):
        out.append(MarkdownSection(level, title, tuple(lines[number + 1 : next_at[level]])))
        next_at[level:] = [number] * (7 - level)
    return tuple(reversed(out))


def bare_sections(output: ToolOutput) -> list[str]:
    """Return headings with nothing below them."""
    if output.form != "markdown":
        return []
    bare = (section.title for section in sections(output.text) if not any(line.strip() for line in section.lines))
    return list(dict.fromkeys(bare))


def _sections_titled(text: str, title: str) -> list[MarkdownSection]:
    return [section for section in sections(text) if _same_title(section.title, title)]


def _same_title(title: str, heading: str) -> bool:
    wanted = heading.lstrip("# ").casefold()
    return wanted in (title.casefold(), _NUMBERING.sub("", title).casefold())


def _under(text: str, place: str) -> list[tuple[str, ...]]:
    if not place:
        return [tuple(text.splitlines())]
    return [section.lines for section in _sections_titled(text, place)]


def _listed(lines: tuple[str, ...]) -> Iterator[str]:
    """Yield the entries of lists, but not nested entries."""
    fenced = False
    for line in lines:
        fenced ^= bool(_FENCE.match(line))
        item = None if fenced else _ITEM.match(line)
        if item:
            yield item[1].strip()
