"""Stories: attempts that need more than a command in the box. Each says how it got out, and has a control."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from proof.walls.person import CANARY, WALLS, Grounds, Person, remove
from proof.walls.rows import Row, row

Tell = Callable[[Person], str]
ALL = WALLS
ONE = ("full",)
AT_ONCE = 2


class Documented(Exception):
    """An attempt gets out where the documentation says that it does."""


class Story(NamedTuple):
    part: str
    name: str
    of: str
    tell: Tell
    control: Tell
    walls: tuple[str, ...]


STORIES: list[Story] = []


def story(
    part: str, name: str, *, control: Tell, of: str = "new", walls: tuple[str, ...] = ONE
) -> Callable[[Tell], Tell]:
    """Register an attempt. `control` does the same where no wall is, and must get through."""

    def register(tell: Tell) -> Tell:
        STORIES.append(Story(part, name, of, tell, control, walls))
        return tell

    return register


def plainly(line: str) -> Tell:
    """Make a control: a plain process of the user does it, and the canary is read."""

    def tell(person: Person) -> str:
        _, out = person.sh(line.format(home=person.home, sibling=person.sibling, temp=person.temp), person.temp)
        return "a plain process reads it" if CANARY in out else ""

    return tell


def writes(line: str, name: str) -> Tell:
    """Make a control: a plain process of the user does it, and a file appears in HOME."""

    def tell(person: Person) -> str:
        target = person.home / name
        before = target.read_bytes() if target.is_file() else None
        person.sh(line.format(home=person.home, sibling=person.sibling, temp=person.temp), person.temp)
        after = target.read_bytes() if target.is_file() else None
        return "a plain process writes it" if after != before else ""

    return tell


def _tell(told: Story, person: Person) -> tuple[str, str]:
    """Return how a story got out, and the reason if that is documented."""
    try:
        return told.tell(person), ""
    except Documented as reason:
        return "it got out", str(reason)


def _play(grounds: Grounds, told: Story, uid: int) -> list[Row]:
    """Tell a story behind each of its walls, and its control once."""
    people = [grounds.person(uid, wall) for wall in told.walls if wall in grounds.walls]
    seen = [_tell(told, person) for person in people]
    control = told.control(grounds.person(uid, "control"))
    rows = [
        row(told.part, told.name, told.of, str(person), out=out, control=control, why_not=known)
        for person, (out, known) in zip(people, seen, strict=True)
    ]
    for person in people:
        remove(person.folder)
    return rows


def rows(grounds: Grounds, part: str, only: str = "") -> Iterator[Row]:
    """Tell all stories of a part, as each user, behind each wall that matters for them."""
    wanted = [told for told in STORIES if told.part == part and only in told.name]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = [pool.submit(_play, grounds, told, uid) for told in wanted for uid in grounds.users]
        for answer in waiting:
            yield from answer.result()
