"""A test file and what is found when it is changed."""

from __future__ import annotations

from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering import look

BASE = '''\
import pytest
from shop import price

CASES = [1, 2, 3]


def test_price():
    """What it costs."""
    result = price(3)
    assert result == 30
    assert price(1) == pytest.approx(10.0, rel=1e-6)


@pytest.mark.parametrize(("count", "cost"), [(1, 10), (2, 20), (5, 50)])
def test_each(count, cost):
    assert price(count) == cost


def test_refuses():
    with pytest.raises(ValueError, match="too many"):
        price(1000)


def test_all():
    for case in CASES:
        assert price(case) > 0


class TestMore:
    def test_zero(self):
        assert price(0) == 0
'''


def found(
    path: str, before: str | None, after: str | None, mode: str = "100644", **context: str
) -> list[TamperFinding]:
    change = ChangedFile(path, _bytes(before), _bytes(after), mode_after=mode)
    return look([change], {name: text.encode() for name, text in context.items()})


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def bad(findings: list[TamperFinding]) -> list[tuple[str, str]]:
    return [(each.rule, each.grade) for each in findings if each.grade != "note"]


def changed(old: str, new: str) -> list[tuple[str, str]]:
    assert old in BASE
    return bad(found("tests/test_shop.py", BASE, BASE.replace(old, new)))
