"""Compare what a check told while it ran with the report that it left; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.observe.canaries import ROUNDS, Canary
from reflectloop.verification.observe.channel import ChannelEvents
from reflectloop.verification.reports import identity
from reflectloop.verification.result import RED, Outcome

_NO_XML = lazy("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GREEN = ("passed", "xpassed")
_NARROW = 0xFF
_LONGEST_TITLE = 1500
KNOWN = "known "  # of the keys that say that a known test came out wrong: they are tampering on base too


class Oddity(NamedTuple):
    """Something that an untouched runner does not do. On base and on the patch the same one has the same key."""

    key: str
    text: str


def began(told: ChannelEvents) -> bool:
    return any(event["e"] == "start" for event in told.events)


def oddities(
    told: ChannelEvents,
    canaries: Sequence[Canary],
    reported: Mapping[str, Outcome],
    outcomes: Mapping[str, bool] | None,
    *,
    ended: bool,
) -> list[Oddity]:
    """Return everything odd about a run.

    `reported` are the outcomes that the check left, `outcomes` says of each test whether it was told to be green.
    `ended` is False if the engine ended the check: then nothing is missed.
    """
    passed = [test for test, outcome in reported.items() if outcome in _GREEN]
    out = [
        *_of_known(told, canaries),
        *(Oddity(f"replaced {name}", f"{name} was replaced while the tests ran") for name in _replaced(told)),
        *_of_reports(told),
    ]
    if not ended:
        return out
    out += [Oddity("channel", f"the outcomes were not told one after the other: {fault}") for fault in told.faults]
    if not passed:
        return out
    if not began(told):
        return [*out, Oddity("silent", "no outcome was told while the tests ran, though the report names passed ones")]
    for session in _sessions(told):
        names = [event["e"] for event in session]
        if "end" not in names:
            out.append(Oddity("unfinished", "the session of the runner did not end, though a report says that it did"))
        elif names[-1] != "end":
            out.append(Oddity("after the end", "something was told after the end of the session"))
        out += _missing(session, canaries)
    return [*out, *_of_report(passed, outcomes), *_of_totals(told, reported)]


def _sessions(told: ChannelEvents) -> Iterable[list[Mapping[str, Any]]]:
    by_name: dict[Any, list[Mapping[str, Any]]] = {}
    for event in told.events:
        by_name.setdefault(event.get("s"), []).append(event)
    return by_name.values()


def _of_totals(told: ChannelEvents, reported: Mapping[str, Outcome]) -> Iterator[Oddity]:
    failed = [event.get("failed") for event in told.events if event["e"] == "totals"]
    if any(failed) and not any(outcome in RED for outcome in reported.values()):
        yield Oddity("totals", f"{failed[0]} assertions failed, and the report names none")


def _of_known(told: ChannelEvents, canaries: Sequence[Canary]) -> Iterator[Oddity]:
    wanted = {canary.style: canary for canary in canaries}
    for event in told.events:
        if event["e"] == "known":
            canary = wanted.get(str(event.get("style")))
            if canary is None:
                continue
            if event.get("got") != canary.outcome:
                how = f"must come out {canary.outcome}, and came out {event.get('got')}"
                yield Oddity(f"{KNOWN}{canary.style}", f"a test of the verifier ({canary.style}) {how}")
            elif event.get("raised") is not canary.raises:
                how = "raised nothing" if canary.raises else "raised an exception"
                yield Oddity(f"{KNOWN}{canary.style}", f"an assertion of the verifier ({canary.style}) {how}")
        elif event["e"] == "twin" and event.get("got") != "failed":
            how = f"came out {event.get('got')}"
            yield Oddity(f"{KNOWN}twin", f"a failing test of the verifier under the name {event.get('id')} {how}")
        elif event["e"] == "broken":
            yield Oddity("broken", f"the tests of the verifier could not be run: {event.get('error')}")


def _missing(session: Sequence[Mapping[str, Any]], canaries: Sequence[Canary]) -> Iterator[Oddity]:
    """Miss known tests of a round that the runner should have run."""
    if any(event["e"] == "broken" for event in session):
        return
    seen = {(event.get("round"), event.get("style")) for event in session if event["e"] == "known"}
    wanted = [canary.style for canary in canaries if not canary.optional]
    left = [style for style in wanted for number in range(ROUNDS) if (number, style) not in seen]
    if left:
        yield Oddity("unrun", f"{len(left)} tests of the verifier were not run")


def _replaced(told: ChannelEvents) -> list[str]:
    names: dict[str, None] = {}
    for event in told.events:
        if event["e"] == "changed":
            names.update(dict.fromkeys(str(name) for name in event.get("names", ())))
    return list(names)


def _of_reports(told: ChannelEvents) -> Iterator[Oddity]:
    """Compare each report as the runner made it with the same report as it told it to others."""
    failed: dict[tuple[Any, Any], bool] = {}
    for event in told.events:
        test, passed = event.get("id"), event.get("outcome") == "passed"
        if event["e"] == "made":
            failed[test, event.get("when")] = event.get("outcome") == "failed"
            if passed and event.get("raised"):
                yield Oddity("raised", f"{test} raised an exception, and its report says that it passed")
        elif event["e"] == "told" and passed and failed.get((test, event.get("when"))):
            yield Oddity("turned", f"the failed report of {test} was turned into a passed one")


def _of_report(passed: Sequence[str], outcomes: Mapping[str, bool] | None) -> Iterator[Oddity]:
    if outcomes is None:
        return
    for test in passed:
        if outcomes.get(test) is False:
            yield Oddity(f"report {test}", f"the report says that {test} passed, but it did not")
    unknown = [test for test in passed if test not in outcomes]
    other = sum(green and test not in {*passed} for test, green in outcomes.items()) if unknown else 0
    if len(unknown) > other:
        yield Oddity("more", f"the report says that {unknown[0]} passed, but it was not run")


def pytest_outcomes(told: ChannelEvents) -> dict[str, bool]:
    """Return whether each test was green, by the id that pytest's report gives it."""
    green: dict[str, bool] = {}
    for event in told.events:
        if event["e"] != "told":
            continue
        test, outcome = _reported_id(str(event.get("id")), str(event.get("file"))), event.get("outcome")
        if outcome == "failed":
            green[test] = False
        elif outcome == "passed" and event.get("when") in ("call", None):
            green.setdefault(test, True)
    return green


def unittest_outcomes(told: ChannelEvents) -> dict[str, bool]:
    """Return whether each test was green, by the id that the report gives it."""
    green: dict[str, bool] = {}
    for event in told.events:
        if event["e"] == "told":
            test = identity.plain("", _NO_XML.sub("\ufffd", str(event.get("id"))))
            if event.get("outcome") != "skipped in part":
                green[test] = green.get(test, True) and event.get("outcome") == "passed"
    return green


def mocha_outcomes(told: ChannelEvents) -> dict[str, bool]:
    """Return whether each title was green; tests of several files may share one."""
    green: dict[str, bool] = {}
    for event in told.events:
        if event["e"] == "told":
            test = str(event.get("id"))
            green[test] = green.get(test, False) or event.get("outcome") == "passed"
    return green


def node_outcomes(told: ChannelEvents) -> dict[str, bool]:
    """Return whether each name was green, and the empty name for tests that were not told, such as whole files."""
    return {"": True, **mocha_outcomes(told)}


def node_name(test: str, outcomes: Mapping[str, bool]) -> str:
    """Return a test's name from its id in the report, or the empty name if it was not told."""
    parts = test.split("::")
    names = [" > ".join(parts[at:])[:_LONGEST_TITLE] for at in range(len(parts))]
    return next((name for name in names if name in outcomes), "")


def tape_outcomes(told: ChannelEvents) -> dict[str, bool]:
    """Return whether all assertions of each name held, and the empty name for those that were not told."""
    green = {"": True}
    for event in told.events:
        if event["e"] == "told":
            name = str(event.get("id"))
            green[name] = green.get(name, True) and event.get("outcome") == "passed"
    return green


def no_outcomes(told: ChannelEvents) -> dict[str, bool] | None:  # noqa: ARG001
    """Return None: the report is not written by the process of the tests, so nothing is to be compared."""
    return None


def mocha_title(test: str, outcomes: Mapping[str, bool]) -> str:
    """Return a test's title from its id in the report, which may begin with its file."""
    return test if test in outcomes else (test.partition("::")[2] or test)[:_LONGEST_TITLE]


def _reported_id(nodeid: str, file: str) -> str:
    path, bracket, parameters = nodeid.partition("[")
    first, *names = path.split("::")
    names = [re.sub(r"\.py$", "", first.replace("/", ".")), *names]
    names[-1] += bracket + parameters
    return identity.pytest(".".join(names[:-1]), _NO_XML.sub(_escaped, names[-1]), file)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"#x{code:02X}" if code <= _NARROW else f"#x{code:04X}"
