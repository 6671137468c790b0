"""Puts every look at a patch together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from reflectloop.verify.result import Change, Finding
from reflectloop.verify.weakening import answers, config, examples, files, hooks, lines, numbers, source, special
from reflectloop.verify.weakening.python import tests as python
from reflectloop.verify.weakening.text import listed
from reflectloop.verify.weakening.text import tests as text


def look(changes: Sequence[Change], context: Mapping[str, bytes] | None = None) -> list[Finding]:
    """Everything found, by path and line; `context` holds test files of base that the patch leaves alone."""
    changed = [each for each in changes if each.before != each.after or each.mode_before != each.mode_after]
    looks = (python.look, text.look, config.look, lines.look, hooks.look, files.look, source.look, examples.look)
    found = [each for look_ in looks for each in _each(look_, changed)]
    found += _each(lambda some: special.look(some, context or {}), changed)
    found += _each(lambda some: answers.look(some, context or {}), changed)
    found += _each(lambda some: listed.look(some, context or {}), changed)
    answered = {(each.path, each.line) for each in found if each.rule == "test-input-special-cased"}
    singled = _each(lambda some: numbers.look(some, context or {}), changed)
    found += [each for each in singled if (each.path, each.line) not in answered]
    once = {_place(each): each for each in reversed(found)}
    return sorted(once.values(), key=lambda each: (each.path, each.line or 0, each.rule, each.what))


def _each(look_: Callable[[Sequence[Change]], Iterable[Finding]], changes: Sequence[Change]) -> list[Finding]:
    """One look at all of them; where code is nested too deep to be walked, at each alone, and that one is named."""
    try:
        return list(look_(changes))
    except RecursionError:
        if len(changes) == 1:
            words = "nested too deep to be read"
            return [Finding("too-deep", changes[0].path, 1, words, "suspect")]
        return [finding for change in changes for finding in _each(look_, [change])]


def _place(finding: Finding) -> tuple[object, ...]:
    """A mark on a class skips all its tests and is said once."""
    return finding[:3] if finding.rule.startswith("skip") else finding
