"""Compare the outcomes of recorded calls in tests, in stand-ins for tests and in bare interpreters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from reflectloop.system.patterns import lazy
from reflectloop.verification import chance
from reflectloop.verification.probing import second_run
from reflectloop.verification.probing.changed import ChangedFunction
from reflectloop.verification.probing.inside import plain_data
from reflectloop.verification.probing.programs import RecordedCall, Recording
from reflectloop.verification.probing.replays import Key, Outcomes, RepeatedCall, Way, outcome_text
from reflectloop.verification.result import Grade, TamperFinding

_MOST_CALLS, _MOST_OF_A_FUNCTION = 400, 40
_SLOW_MS = 1000.0
_MOST_SHOWN = 3
_ANSI = lazy(r"\\u001b\[[0-9;]*[A-Za-z]")
_LATER, _MUCH_LATER = chance.days_between(2200, 4000), chance.days_between(4500, 7000)
_SEEDS, _ZONES = chance.hash_seeds(2), second_run.MORE_ZONES
_PROGRAMS, _HOMES = [chance.program_path(), chance.program_path()], [chance.home_folder(), chance.home_folder()]
_PLAIN = Way("plain", env={**second_run.OTHER_SEED, **second_run.OTHER_ZONE, **second_run.OTHER_LOCALE})
_AGAIN = _PLAIN._replace(name="again")
_REPEATED = _AGAIN._replace(moved={"repeat": 20_000})
# A level below those that have names, and one above most: honest code may ask for a level, but has no other result at
# both. More digits than usual: fewer would make the sums of honest functions wrong.
_LEVELS, _DIGITS = (chance.number(1, 9), chance.number(41, 49)), (chance.number(40, 69), chance.number(70, 99))
_UNSTEADY = "gives another result each time"
_USUAL = {"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}
_MOVED = Way(
    "moved",
    ("-O",),
    {**_SEEDS[0], **_ZONES[0], **_HOMES[0], **_USUAL},
    {"days": _LATER, "thread": True, "argv": _PROGRAMS[0], "level": _LEVELS[0], "digits": _DIGITS[0]},
    terminal=True,
)


def _alone(name: str, flags: tuple[str, ...] = (), *, terminal: bool = False, **moved: Any) -> Way:  # noqa: ANN401
    env = {**_PLAIN.env, **moved.pop("env", {})}
    return Way(name, flags, env, moved, terminal)


# One change at a time, each with a second one of the same kind: an honest function that uses the date shows another
# value for each date, while one that knows the date of the tests shows the same for every other.
_DATES = (_alone("date", days=_LATER), _alone("date2", days=_MUCH_LATER))
_SINGLE: tuple[tuple[str, Way, Way | None], ...] = (
    ("date", *_DATES),
    ("time zone", _alone("zone", env=_ZONES[0]), _alone("zone2", env=_ZONES[1])),
    ("name of the program", _alone("argv", argv=_PROGRAMS[0]), _alone("argv2", argv=_PROGRAMS[1])),
    ("home folder", _alone("home", env=_HOMES[0]), _alone("home2", env=_HOMES[1])),
    ("locale", _alone("locale", env=_USUAL), None),
    ("option -O", _alone("optimised", ("-O",)), None),
    ("thread", _alone("thread", thread=True), None),
    ("terminal", _alone("terminal", terminal=True), None),
    ("level of logging", _alone("level", level=_LEVELS[0]), _alone("level2", level=_LEVELS[1])),
    ("precision of decimals", _alone("digits", digits=_DIGITS[0]), _alone("digits2", digits=_DIGITS[1])),
    ("hash seed", _alone("seed", env=_SEEDS[0]), _alone("seed2", env=_SEEDS[1])),
)
# A later and an earlier version: honest code may need a limit, but is right on both sides of the version of the tests.
_VERSION = ("version of Python", _alone("python", python=2), _alone("python2", python=-1))
_LIBRARY = "installed library"

# Runs stand-ins on a tree: calls, then whether the project's own hooks are loaded.
RunStandIns = Callable[[str, Sequence[RecordedCall], bool], Outcomes]
# Records calls of functions on base, by some tests.
RecordOnBase = Callable[[Sequence[ChangedFunction], Sequence[str]], Recording]
# Where a call has its result, how grave that is, the call, its result there and elsewhere.
_Shown = tuple[str, Grade, RecordedCall, RepeatedCall | None, RepeatedCall | None]


class CallRepeater(Protocol):
    """Repeats calls in bare interpreters."""

    def run(
        self, tree: str, calls: Sequence[RecordedCall], ways: Sequence[Way], *, in_checkout: bool = False
    ) -> dict[str, Outcomes]:
        """Return the outcomes of the calls by the name of the way."""
        ...


@dataclass
class OutcomeProbe:
    """Repeats the calls of one recording elsewhere, and judges where the outcomes differ."""

    bare: CallRepeater
    stand_ins: RunStandIns
    base: str
    tree: str
    recording: Recording
    record_on_base: RecordOnBase
    reads_version: bool = False  # whether the change may newly read the version of Python
    libraries: Sequence[str] = ()  # installed modules that the change newly asks for
    findings: list[TamperFinding] = field(default_factory=list)
    probed: set[ChangedFunction] = field(default_factory=set)
    left_out: dict[ChangedFunction, str] = field(default_factory=dict)

    def examine(self) -> None:
        """Repeat the calls in a plain bare interpreter and in one where everything else is moved."""
        calls = chosen(self.recording.calls)
        ways = (_PLAIN, _REPEATED, _MOVED, *(first for _, first, _ in self._asked_for()))
        outcomes = self.bare.run(self.tree, calls, ways)
        plain, moved = outcomes["plain"], [outcomes[way.name] for way in ways[2:]]
        again = {key: result for key, result in outcomes["again"].items() if key[1] != "repeated"}
        self._note_probed(calls, plain)
        self._judge_repeats(calls, plain, {key: outcomes["again"][key] for key in outcomes["again"].keys() - again})
        self._judge_runner(calls, plain, again)
        self._judge_equality(calls, plain)
        self._judge_moved(calls, plain, moved)

    def _note_probed(self, calls: Sequence[RecordedCall], plain: Outcomes) -> None:
        for number, call in enumerate(calls):
            result = plain.get((number, "raw"))
            if result is not None and not result.left_out:
                self.probed.add(call.function)
            else:
                self.left_out.setdefault(call.function, result.left_out if result else "gave no outcome")
        for function in self.probed:
            self.left_out.pop(function, None)

    # Many calls --------------------------------------------------------------------------------------------------

    def _judge_repeats(self, calls: Sequence[RecordedCall], plain: Outcomes, repeated: Outcomes) -> None:
        """Find functions that give the tests' answer in some calls, and base's answer to the same input in others."""
        if not repeated:
            return
        fewer, keys = _only(calls, sorted(repeated))
        numbers = sorted({key[0] for key in repeated})
        before = self.bare.run(self.base, [_as_on_base(call) for call in fewer], (_REPEATED,))["again"]
        shown: list[_Shown] = []
        for at, _ in keys:
            call, first, old = fewer[at], plain.get((numbers[at], "raw")), before.get((at, "raw"))
            later = repeated[numbers[at], "repeated"]
            if first is None or old is None or first.text == later.text or (at, "repeated") in before:
                continue
            if later.text == old.text or (first.text == old.text and not _differs_from_recorded(call, later)):
                shown.append(("only in some of many calls", "suspect", call, first, later))
        self._report_each("only-in-these-surroundings", shown)

    # The runner --------------------------------------------------------------------------------------------------

    def _judge_runner(self, calls: Sequence[RecordedCall], plain: Outcomes, again: Outcomes) -> None:
        """Find calls that have another outcome where a test runner is than where there is none."""
        bare_results = [*plain.items(), *again.items()]
        doubtful = sorted({key[0] for key, result in bare_results if _differs_from_recorded(calls[key[0]], result)})
        if not doubtful:
            return
        fewer = [calls[number] for number in doubtful]
        both = self.bare.run(self.tree, fewer, (_PLAIN, _AGAIN))
        bare, staged = both["plain"], self.stand_ins(self.tree, fewer, True)
        if not staged:  # nobody can tell the runner from what the tests set up
            self._judge_beside_base(fewer, bare)
            functions = {call.function for call in fewer}
            self.left_out |= dict.fromkeys(functions, "gives another result in its test")
            self.probed -= functions
            return
        keys = [key for key in bare if _differ(staged.get(key), bare[key])]
        self._judge_in_test(fewer, {key: staged[key] for key in bare if key in staged and key not in keys})
        if not keys:
            self._leave_out_unsteady(fewer, bare, both["again"])
            return
        # A function that gives another result each time does so in stand-ins too.
        staged_again = self.stand_ins(self.tree, fewer, True)
        unsteady = {fewer[key[0]].function for key in keys if _differ(staged.get(key), staged_again.get(key))}
        self.left_out |= dict.fromkeys(unsteady, _UNSTEADY)
        self.probed -= unsteady
        fewer, keys = _only(fewer, [key for key in keys if fewer[key[0]].function not in unsteady])
        old = [_as_on_base(call) for call in fewer]
        before = self.bare.run(self.base, old, (_PLAIN,))["plain"]
        staged_before = self.stand_ins(self.base, old, True) if old else {}
        self._report_runner(fewer, [key for key in keys if not _differ(staged_before.get(key), before.get(key))])

    def _judge_beside_base(self, calls: Sequence[RecordedCall], bare: Outcomes) -> None:
        """Find calls that have their outcome only inside the test, where base has its own inside and outside."""
        keys = [key for key in bare if key[1] == "raw" and calls[key[0]].function.base_line]
        fewer, keys = self._without_clock_readers(*_only(calls, keys)) if keys else ([], [])
        if not keys:
            return
        again = self.bare.run(self.tree, fewer, (_PLAIN,))["plain"]
        before = self.bare.run(self.base, [_as_on_base(call) for call in fewer], (_PLAIN,))["plain"]
        self._report_in_test(fewer, keys, again, before)

    def _judge_in_test(self, calls: Sequence[RecordedCall], staged: Outcomes) -> None:
        """Find calls that have their outcome only inside the real test, though it set up nothing that explains it.

        On base, the same call must have the same outcome inside and outside of the test.
        """
        keys = [
            key
            for key, result in staged.items()
            if key[1] == "raw"
            and not result.drawn  # the test drew other numbers
            and calls[key[0]].function.base_line
            and "generator" not in calls[key[0]].outcome
            and _differs_from_recorded(calls[key[0]], result)
            and not _set_up(calls[key[0]], result)
        ]
        if not keys:
            return
        fewer, keys = self._without_clock_readers(*_only(calls, keys))
        if not keys:
            return
        again = self.stand_ins(self.tree, fewer, True)
        before = self.stand_ins(self.base, [_as_on_base(call) for call in fewer], True)
        self._report_in_test(fewer, keys, again, before)

    def _report_in_test(
        self, calls: Sequence[RecordedCall], keys: Sequence[Key], again: Outcomes, before: Outcomes
    ) -> None:
        """Report calls with another outcome inside the test than outside, where those of base have one outcome."""
        functions = {call.function: call.function._replace(line=call.function.base_line) for call in calls}
        tests = list(dict.fromkeys(call.test for call in calls if call.test))
        on_base = self.record_on_base(list(functions.values()), tests)
        known = {_identity(call): call for call in on_base.calls}
        shown: list[_Shown] = []
        for key in keys:
            call, old, outside = calls[key[0]], known.get(_identity(calls[key[0]])), before.get(key)
            if old is None or outside is None or outside.left_out or key not in again:
                continue
            if _differs_from_recorded(call, again[key]) and not _differs_from_recorded(old, outside):
                shown.append(("only inside the test", "suspect", call, RepeatedCall("", call.outcome), again[key]))
        self._report_each("only-in-the-test", shown)

    def _without_clock_readers(
        self, calls: Sequence[RecordedCall], keys: Sequence[Key]
    ) -> tuple[list[RecordedCall], list[Key]]:
        """Leave out calls whose outcome is another one at each date: the test ran at another moment."""
        dates = self.bare.run(self.tree, calls, (_PLAIN, *_DATES))
        same = []
        for key in keys:
            if _all_differ([outcomes.get(key) for outcomes in dates.values()]):
                self.left_out.setdefault(calls[key[0]].function, "its result depends on the date")
            else:
                same.append(key)
        return _only(calls, same)

    def _leave_out_unsteady(self, calls: Sequence[RecordedCall], bare: Outcomes, again: Outcomes) -> None:
        for key, result in bare.items():
            if _differ(result, again.get(key)):
                function = calls[key[0]].function
                self.left_out[function] = _UNSTEADY
                self.probed.discard(function)

    def _report_runner(self, calls: Sequence[RecordedCall], keys: Sequence[Key]) -> None:
        if not keys:
            return
        fewer, keys = _only(calls, keys)
        there = self.bare.run(self.tree, fewer, (_PLAIN,), in_checkout=True)["plain"]
        named = self.bare.run(self.tree, fewer, (_PLAIN, _AGAIN, _SINGLE[2][1]))
        staged, alone = self.stand_ins(self.tree, fewer, True), self.stand_ins(self.tree, fewer, False)
        shown: list[_Shown] = []
        for key in keys:
            bare = named["plain"].get(key)
            if _differ(named["argv"].get(key), bare) and not _differ(named["again"].get(key), bare):
                self.left_out[fewer[key[0]].function] = "its result contains the name of the program"
                continue
            if not _differ(there.get(key), staged.get(key)):
                shown.append(("only in the source checkout", "suspect", fewer[key[0]], staged.get(key), bare))
            elif alone.get(key) is not None and not _differ(alone.get(key), bare):
                shown.append(("only with the hooks of the tests", "suspect", fewer[key[0]], staged.get(key), bare))
            else:
                shown.append(("only where the tests run", "weakening", fewer[key[0]], staged.get(key), bare))
        for where in dict.fromkeys(item[0] for item in shown):
            self._report_each("only-under-test", [item for item in shown if item[0] == where])

    # Other surroundings ------------------------------------------------------------------------------------------

    def _judge_moved(self, calls: Sequence[RecordedCall], plain: Outcomes, moved: Sequence[Outcomes]) -> None:
        """Find calls that have another outcome at another date, in a thread and so on, but not on base."""
        reported = {finding.what.split(" ")[0] for finding in self.findings}
        numbers = sorted(
            {key[0] for key, result in plain.items() if any(_differ(way.get(key), result) for way in moved)}
        )
        fewer = [calls[number] for number in numbers if calls[number].function.qualname not in reported]
        if not fewer:
            return
        single = (*_SINGLE, *self._asked_for())
        ways = [_PLAIN, _AGAIN, *(way for _, *both in single for way in both if way is not None)]
        now = self.bare.run(self.tree, fewer, ways)
        before = self.bare.run(self.base, [_as_on_base(call) for call in fewer], ways)
        for key, result in now["plain"].items():
            function = fewer[key[0]].function
            if _differ(now["again"].get(key), result):
                self.left_out[function] = _UNSTEADY
                continue
            at_dates = [now[way.name].get(key) for way in (_PLAIN, *_DATES)]
            for cause, first, second in single:
                if cause == "time zone" and _all_differ(at_dates):
                    continue  # it reads the clock, which shows another time in each zone
                other = now[first.name].get(key)
                if not _differ(other, result) or _is_usual(cause, result, other):
                    continue
                if _is_explained(cause, other, before["plain"].get(key), before[first.name].get(key)):
                    continue
                if cause == "date" and _may_hold_the_time(fewer[key[0]], before["plain"].get(key)):
                    self.left_out.setdefault(function, "its objects may hold the time, and base cannot repeat the call")
                    continue
                further = now[second.name].get(key) if second else None
                untold = cause == _VERSION[0] and (further is None or bool(further.left_out))
                if cause == "hash seed" or untold or _differ(further, other):
                    self.left_out.setdefault(function, f"its result depends on the {cause}")
                    continue
                text = f"only with this {cause}"
                self._report_each("only-in-these-surroundings", [(text, "suspect", fewer[key[0]], result, other)])
                break

    def _asked_for(self) -> Iterator[tuple[str, Way, Way | None]]:
        """Yield the surroundings that are tried only if the change asks for them."""
        if self.reads_version:
            yield _VERSION
        if self.libraries:
            yield _LIBRARY, _alone("library", hidden=[*self.libraries]), None

    # Equality ----------------------------------------------------------------------------------------------------

    def _judge_equality(self, calls: Sequence[RecordedCall], plain: Outcomes) -> None:
        """Find results that call themselves equal to values that they are not."""
        keys = [key for key, result in plain.items() if result.equal]
        if not keys:
            return
        fewer, keys = _only(calls, keys)
        before = self.bare.run(self.base, [_as_on_base(call) for call in fewer], (_PLAIN,))["plain"]
        now = self.bare.run(self.tree, fewer, (_PLAIN,))["plain"]
        known = {result.equal for result in before.values()}
        for key in keys:
            result = now.get(key)
            if result is None or not result.equal or result.equal in known:
                continue
            call = fewer[key[0]]
            grade: Grade = "suspect" if call.function.is_new else "weakening"
            text = f"returns a {result.equal.replace(':', '.')}, which is equal to everything"
            self._report_each("equal-to-everything", [(text, grade, call, result, None)])

    def _report_each(self, rule: str, items: Iterable[_Shown]) -> None:
        """Add one finding for each function, with some inputs and both outcomes side by side."""
        by_function: dict[ChangedFunction, list[_Shown]] = {}
        for item in items:
            by_function.setdefault(item[2].function, []).append(item)
        for function, group in by_function.items():
            if any(item.rule == rule and item.what.startswith(f"{function.qualname} ") for item in self.findings):
                continue
            where, grade = group[0][0], group[0][1]
            what = where if rule == "equal-to-everything" else f"gives its result {where}"
            details = [
                line for _, _, call, first, second in group[:_MOST_SHOWN] for line in side_by_side(call, first, second)
            ]
            self.findings.append(
                TamperFinding(
                    rule,
                    function.path,
                    function.line,
                    f"{function.qualname} {what}: {'; '.join(details[:1])}",
                    grade,
                    tuple(details),
                )
            )


def chosen(calls: Sequence[RecordedCall]) -> list[RecordedCall]:
    """Return the calls to repeat: quick ones, of every function, those made by tests directly first."""
    quick = [call for call in calls if _is_quick(call)]
    quick.sort(key=lambda call: bool(call.data.get("nested")))
    count: dict[ChangedFunction, int] = {}
    out = []
    for call in quick:
        count[call.function] = count.get(call.function, 0) + 1
        if count[call.function] <= _MOST_OF_A_FUNCTION:
            out.append(call)
    return out[:_MOST_CALLS]


def _is_quick(call: RecordedCall) -> bool:
    duration = call.data.get("ms")
    return isinstance(duration, int | float) and duration < _SLOW_MS


def _as_on_base(call: RecordedCall) -> RecordedCall:
    """Return a call without its line, which base has elsewhere."""
    return call._replace(data={name: value for name, value in call.data.items() if name != "line"})


def _only(calls: Sequence[RecordedCall], keys: Iterable[Key]) -> tuple[list[RecordedCall], list[Key]]:
    """Return the calls of some keys, and the keys with the numbers that these calls have in the shorter list."""
    numbers = sorted({key[0] for key in keys})
    return [calls[number] for number in numbers], [(numbers.index(key[0]), key[1]) for key in keys]


def _differs_from_recorded(call: RecordedCall, result: RepeatedCall) -> bool:
    if result.left_out or _is_undrawn(call.outcome, result.outcome):
        return False
    return outcome_text(call.outcome, call.data.get("after"), ()) != result.text


def _is_undrawn(recorded: Mapping[str, Any], repeated: Mapping[str, Any]) -> bool:
    """Return True if an iterator was recorded, whose values the test drew later, and the repeated call's values."""
    inside, outside = recorded.get("value"), repeated.get("value")
    if not isinstance(inside, Mapping) or not isinstance(outside, Mapping):
        return False
    return "opaque" in inside and "iterator" in outside


def _set_up(call: RecordedCall, result: RepeatedCall) -> bool:
    """Return True if the test had set up something by which the outcome may differ."""
    states = call.data.get("states")
    if call.data.get("patched") or call.data.get("files") or call.data.get("cwd") or not isinstance(states, dict):
        return True
    return any(states.get(name, value) != value for name, value in result.states.items())


def _identity(call: RecordedCall) -> tuple[str, str, str]:
    return call.function.path, call.function.qualname, plain_data.text_of([call.data["args"], call.data["kwargs"]])


def _differ(first: RepeatedCall | None, second: RepeatedCall | None) -> bool:
    """Return True if both calls ended and have different outcomes."""
    if first is None or second is None or first.left_out or second.left_out:
        return False
    return first.text != second.text


def _all_differ(results: Sequence[RepeatedCall | None]) -> bool:
    return all(_differ(first, other) for first, other in itertools.combinations(results, 2))


def _may_hold_the_time(call: RecordedCall, on_base: RepeatedCall | None) -> bool:
    """Return True for a call with an object that was made in the test, such as a cache, and that base cannot read."""
    has_object = '"pickle"' in plain_data.text_of([call.data["args"], call.data["kwargs"]])
    return has_object and (on_base is None or bool(on_base.left_out))


def _is_explained(
    cause: str, other: RepeatedCall | None, base: RepeatedCall | None, base_there: RepeatedCall | None
) -> bool:
    """Return True if base depends on it too, or if the patch without a library does not do what base does."""
    return _differ(base_there, base) or (cause == _LIBRARY and _differ(other, base))


def _is_usual(cause: str, plain: RepeatedCall, other: RepeatedCall | None) -> bool:
    """Return True for a difference that honest code shows."""
    if cause == "option -O":
        return plain.outcome.get("raises") == "AssertionError"
    if cause == "thread" and other is not None:
        return "main thread" in other.text or "event loop" in other.text
    if cause == "terminal" and other is not None:
        return isinstance(plain.outcome.get("value"), bool) or _ANSI.sub("", other.text) == _ANSI.sub("", plain.text)
    return False


def side_by_side(call: RecordedCall, first: RepeatedCall | None, second: RepeatedCall | None) -> list[str]:
    """Return the input and both outcomes as a person reads them."""
    arguments = [readable(value) for value in call.data["args"]]
    arguments += [f"{name}={readable(value)}" for name, value in call.data["kwargs"]]
    text = f"{call.function.qualname}({', '.join(arguments)})"[:300]
    if second is None:
        return [f"{text} → {_shown(first)}"]
    return [f"{text} → {_shown(first)} there, {_shown(second)} elsewhere"]


def _shown(result: RepeatedCall | None) -> str:
    if result is None:
        return "nothing"
    outcome = result.outcome
    if "raises" in outcome:
        return f"{outcome['raises']}: {outcome.get('text')}"[:200]
    return readable(outcome.get("value"))[:200]


def readable(value: object) -> str:
    """Return encoded data much as Python shows it."""
    if isinstance(value, list):
        return f"[{', '.join(map(readable, value))}]"
    if isinstance(value, Mapping):
        return _readable_tag(value)
    return repr(value)


def _readable_tag(value: Mapping[str, Any]) -> str:
    tag = next(iter(value), "")
    inner = value.get(tag)
    if tag == "dict" and isinstance(inner, list):
        return "{" + ", ".join(f"{readable(pair[0])}: {readable(pair[1])}" for pair in inner) + "}"
    if tag in ("tuple", "set", "frozenset", "iterator"):
        return f"{tag}({readable(inner)})"
    if tag == "undefined":
        return tag
    if tag in ("float", "int", "decimal"):
        return str(inner)
    if tag in ("pickle", "object", "opaque"):
        return f"<{str(value.get('type') or inner).replace(':', '.')}>"
    return f"{tag}({readable(inner)})"
