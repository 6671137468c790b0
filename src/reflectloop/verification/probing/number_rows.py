"""Make rows of numbers at equal distances from a number of the tests; pure.

Where base gives one wrong answer to a whole row, a fix repairs all of it, all from some number on, or every n-th one.
One that repairs some in no order goes by a hash of the number.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from reflectloop.verification.probing import neighbours
from reflectloop.verification.probing.neighbours import CallInput, NeighbourInput

ROW = "row"  # the family of these inputs; the distance and the number of the place in the row follow
_STEPS, _LENGTH, _MOST_TESTS = (1, 10, 100), 24, 2
_SMALLEST = 3
_LEAST, _MOST_RUNS, _LONGEST_PERIOD = 16, 3, 10


def make(inputs: Sequence[CallInput], focus: Sequence[int]) -> list[NeighbourInput]:
    """Return rows of numbers that begin at numbers of the tests whose only argument is a number."""
    numbers = {at: inputs[at].args[0] for at in focus if len(inputs[at].args) == 1 and not inputs[at].kwargs}
    chosen = [at for at, value in numbers.items() if type(value) is int and value >= _SMALLEST]
    known = {neighbours.key(given) for given in inputs}
    out: list[NeighbourInput] = []
    for at in sorted(chosen, key=lambda at: int(numbers[at]))[:_MOST_TESTS]:
        for step in _STEPS:
            for place in range(1, _LENGTH + 1):
                given = CallInput((numbers[at] + step * place,), {})
                if neighbours.key(given) not in known:
                    out.append(NeighbourInput(given, at, "0", f"{ROW} {step} {place}"))
    return out


def is_in_row(given: CallInput, first: int, step: int) -> bool:
    """Return True for a number of the row that begins at a number."""
    values = [*given.args, *given.kwargs.values()]
    if len(values) != 1 or type(values[0]) is not int:
        return False
    return first <= values[0] <= first + step * _LENGTH and (values[0] - first) % step == 0


def in_no_order(marks: Sequence[bool]) -> bool:
    """Return True for marks that are neither few runs nor repeat themselves."""
    if len(marks) < _LEAST or 1 + sum(first != second for first, second in pairwise(marks)) <= _MOST_RUNS:
        return False
    return not any(
        all(marks[at] == marks[at + period] for at in range(len(marks) - period))
        for period in range(1, _LONGEST_PERIOD + 1)
    )
