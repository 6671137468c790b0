"""Correct the parameters of a tool by what its error says about them. Pure; what is not certain is left alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Params = Mapping[str, Any]
_UNKNOWN = re.compile(
    r"(?i)(?:unexpected|unknown|unrecogni[sz]ed|extra|unsupported)\s+(?:keyword\s+)?"
    r"(?:argument|parameter|field|property|key|option)s?\W{1,4}(?P<name>\w+)"
)
_LIMIT = re.compile(
    r"(?i)(?P<name>\w+)['\"`]?\s*(?:\S+\s+){0,3}?"
    r"(?:(?P<most>at most|<=|less than or equal to|maximum(?: is| of)?|exceeds(?: the)?(?: maximum| limit)?(?: of)?)|"
    r"(?P<least>at least|>=|greater than or equal to|minimum(?: is| of)?))\W{0,3}(?P<bound>-?\d+)"
)
_TYPED = re.compile(
    r"(?i)(?P<name>\w+)['\"`]?\W{0,3}(?:\S+\s+){0,4}?(?:must be|should be|expected|is not)\s+(?:of type\s+)?(?:an?\s+)?"
    r"(?:valid\s+)?['\"`]?(?P<type>int(?:eger)?|number|float|str(?:ing)?|bool(?:ean)?|list|array)\b"
)
_SYNTAX = re.compile(
    r"(?i)\b(?:invalid|bad|malformed|cannot parse|could not parse)\b.{0,40}\b(?:query|syntax|expression)\b"
)
_QUERIES = ("query", "q", "search", "search_query", "expression")
_OR, _AND = re.compile(r"\s*(?:\|\|?|,|;|\bor\b)\s*"), re.compile(r"\s*(?:&&?|\band\b)\s*")
_STRAY = re.compile(r"[^\w\s\"():.*-]")


def corrected(params: Params, message: str) -> dict[str, Any] | None:
    """Return the parameters with what the message complains about corrected; None if nothing can be."""
    better = dict(params)
    for match in _UNKNOWN.finditer(message):
        better.pop(match["name"], None)
    for match in _LIMIT.finditer(message):
        _bound(better, match["name"], int(match["bound"]), is_most=match["most"] is not None)
    for match in _TYPED.finditer(message):
        if match["name"] in better:
            better[match["name"]] = _converted(better[match["name"]], match["type"].lower())
    if _SYNTAX.search(message):
        for name in _QUERIES:
            if isinstance(better.get(name), str):
                better[name] = corrected_query(better[name])
    return better if better != dict(params) and better else None


def corrected_query(text: str) -> str:
    """Return a query whose alternatives are joined by OR and AND, with brackets and quotes that fit."""
    query = _AND.sub(" AND ", _OR.sub(" OR ", text.strip(" ,;|&")))
    query = " ".join(_STRAY.sub(" ", query).split())
    if query.count('"') % 2:
        query = query.replace('"', "")
    if query.count("(") != query.count(")"):
        query = query.replace("(", "").replace(")", "")
    words = query.split()
    while words and words[-1] in ("OR", "AND", "NOT"):
        words.pop()
    while words and words[0] in ("OR", "AND"):
        words.pop(0)
    return " ".join(words)


def _bound(params: dict[str, Any], name: str, bound: int, *, is_most: bool) -> None:
    value = params.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        params[name] = min(value, bound) if is_most else max(value, bound)


def _converted(value: Any, kind: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        if kind.startswith("int"):
            return int(str(value)) if isinstance(value, str | float) else value
        if kind in ("number", "float"):
            return float(value) if isinstance(value, str) else value
        if kind.startswith("bool"):
            return {"true": True, "false": False}.get(str(value).lower(), value)
    except ValueError:
        return value
    if kind.startswith("str"):
        return value if isinstance(value, str) else str(value)
    return value if isinstance(value, list) else [value]
