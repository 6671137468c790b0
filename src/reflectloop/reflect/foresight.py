"""Before a step: which lessons warn of it. After it: which warnings were right, kept as precision and recall. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from reflectloop.reflect.record import FailureRecord

_MOST = 5  # warnings; more are not read
WARNING_KINDS = {"problem": 3, "antipattern": 3, "failfix": 3, "constraint": 2, "pattern": 1}
_WORD = re.compile(r"[a-z][a-z0-9]+|[\u4e00-\u9fff]{2}", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_COMMON = frozenset(
    "the and for with from that this not are was were has have must when then into step run file test tests".split()  # noqa: SIM905 - a list of words
)
_LEAST_SHARED = 2


class Lesson(NamedTuple):
    """What of a lesson matters here, whoever keeps it."""

    kind: str
    title: str
    body: str = ""
    keywords: tuple[str, ...] = ()
    signature: str = ""
    commands: tuple[str, ...] = ()  # a fix that can be run


class Ahead(NamedTuple):
    """A step that is about to begin."""

    id: str
    title: str = ""
    commands: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()  # of its own earlier failures


class Warned(NamedTuple):
    """A risk, what to do about it, and what would show that it came true."""

    lesson: str  # its title
    risk: str
    mitigation: str
    check: str
    signature: str
    keywords: tuple[str, ...]


class Afterthought(NamedTuple):
    right: tuple[Warned, ...]
    wrong: tuple[Warned, ...]
    missed: bool  # it failed, and nothing warned of that

    @property
    def precision(self) -> float | None:
        warned = len(self.right) + len(self.wrong)
        return len(self.right) / warned if warned else None

    @property
    def recall(self) -> float | None:
        """None where nothing happened that could have been foreseen."""
        return 1.0 if self.right else 0.0 if self.missed else None


class Tally(NamedTuple):
    """Every afterthought so far."""

    right: int = 0
    wrong: int = 0
    foreseen: int = 0  # failures
    missed: int = 0

    def with_(self, one: Afterthought) -> Tally:
        return Tally(
            self.right + len(one.right),
            self.wrong + len(one.wrong),
            self.foreseen + bool(one.right),
            self.missed + one.missed,
        )

    @property
    def precision(self) -> float | None:
        return self.right / (self.right + self.wrong) if self.right + self.wrong else None

    @property
    def recall(self) -> float | None:
        return self.foreseen / (self.foreseen + self.missed) if self.foreseen + self.missed else None


def preflect(step: Ahead, lessons: Iterable[Lesson], most: int = _MOST) -> tuple[Warned, ...]:
    """The lessons that speak of such a step, those first that speak of it most."""
    about = _words(" ".join((step.id, step.title, *step.commands, *step.paths)))
    rated = [(_weight(one, about, step.signatures), one) for one in lessons if one.kind in WARNING_KINDS]
    chosen = sorted(((weight, one) for weight, one in rated if weight), key=lambda pair: (-pair[0], pair[1].title))
    return tuple(_warning(one) for _, one in chosen[:most])


def _weight(lesson: Lesson, about: frozenset[str], signatures: Sequence[str]) -> int:
    if lesson.signature and lesson.signature in signatures:
        return 1_000
    own = _words(" ".join((lesson.title, *lesson.keywords)))
    shared = len(own & about)
    return shared * 10 + WARNING_KINDS[lesson.kind] if shared >= min(_LEAST_SHARED, len(own)) and shared else 0


def _warning(lesson: Lesson) -> Warned:
    first = next((line.strip() for line in lesson.body.splitlines() if line.strip()), "")
    todo = "; ".join(lesson.commands) or first
    return Warned(
        lesson=lesson.title,
        risk=lesson.title,
        mitigation=todo or f"see that this does not happen again: {lesson.title}",
        check=f"signature {lesson.signature}" if lesson.signature else f"the log says: {lesson.title}",
        signature=lesson.signature,
        keywords=tuple(sorted(_words(" ".join((lesson.title, *lesson.keywords))))),
    )


def afterflect(warnings: Sequence[Warned], failure: FailureRecord | None, heeded: Collection[str] = ()) -> Afterthought:
    """A warning was right where the step failed of it: by signature, or by its words in what failed.

    One that was heeded, so that nothing could come of it, says nothing about itself; `heeded` are lessons' titles.
    """
    warnings = [one for one in warnings if one.lesson not in heeded]
    if failure is None:
        return Afterthought((), tuple(warnings), missed=False)
    known = failure.diagnosis
    said = _words(f"{failure.log_excerpt} {known.root_cause if known else ''} {known.rule if known else ''}")
    right = tuple(one for one in warnings if _came_true(one, failure.signature, said))
    wrong = tuple(one for one in warnings if one not in right)
    return Afterthought(right, wrong, missed=not right)


def _came_true(one: Warned, signature: str, said: frozenset[str]) -> bool:
    if one.signature:
        return one.signature == signature
    return len(said & set(one.keywords)) >= min(_LEAST_SHARED, len(one.keywords) or 1)


def _words(text: str) -> frozenset[str]:
    """Names taken apart, so that `load_users` and `loadUsers` share their words."""
    found = (word.lower() for word in _WORD.findall(_CAMEL.sub(" ", text).replace("_", " ")))
    return frozenset(word for word in found if word not in _COMMON)
