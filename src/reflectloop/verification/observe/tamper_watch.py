"""Watch all runs of a verification: what is odd on the patch and not on base was done by the patch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reflectloop.verification.observe import watch
from reflectloop.verification.observe.channel import ChannelEvents
from reflectloop.verification.observe.observation import KNOWN, began
from reflectloop.verification.observe.watch import Watch
from reflectloop.verification.result import RED, Counts, DetectedCheck, VerificationResult
from reflectloop.verification.tools import PreparedCommand

TAMPERED = "tampered"
_MOST_NAMED = 3


@dataclass
class TamperWatch:
    """Remembers how each check came out on base, and judges the other runs by it."""

    base_tree: str
    enabled: bool = True
    notes: set[str] = field(default_factory=set)
    _on_base: dict[str, Mapping[str, str]] = field(default_factory=dict)  # by check: oddities
    _red: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by check: tests that fail on base
    _unwatched: set[str] = field(default_factory=set)  # checks whose runner does not load the observer

    def can_choose(self, check: DetectedCheck, prepared: PreparedCommand) -> bool:
        """Return True if the observer can choose the tests to run, so that the command need not name them."""
        return self.enabled and check.name not in self._unwatched and watch.can_choose(check.tool, prepared)

    def begin(
        self,
        check: DetectedCheck,
        prepared: PreparedCommand,
        outside: Path,
        inside: Path,
        chosen: Sequence[str] = (),
    ) -> Watch:
        """Lay the observer next to the report, and return the watch with the command that loads it."""
        if self.enabled and check.name not in self._unwatched:
            begun = watch.begin(check.tool, prepared, outside, inside, self._red.get(check.name, ()), chosen)
            if begun is not None:
                return begun
        if watch.can_observe(check.tool):
            self.notes.add(self._why_not(check.name))
        return Watch(prepared.argv)

    def _why_not(self, name: str) -> str:
        if not self.enabled:
            return f"[verify] canaries is off: {name} was judged by its report alone"
        return f"{name}: outcomes were not observed as they happened: its command does not load the observer"

    def is_unwatchable(self, check: DetectedCheck, tree: str, begun: Watch, told: ChannelEvents) -> bool:
        """Return True if the runner failed to load the observer on base: it is run again without it."""
        if tree != self.base_tree or not begun.observed or began(told):
            return False
        self._unwatched.add(check.name)
        self.notes.add(self._why_not(check.name))
        return begun.changes_command

    def judge(
        self,
        check: DetectedCheck,
        tree: str,
        begun: Watch,
        told: ChannelEvents,
        result: VerificationResult,
        *,
        ended: bool,
    ) -> VerificationResult:
        """Return the result with what was odd about the run; a run that was tampered with has no outcomes."""
        if not begun.observed or (check.name in self._unwatched and not began(told)):
            return result
        odd = {item.key: item.text for item in reversed(begun.oddities(told, result.tests, ended=ended))}
        odd = dict(reversed(odd.items()))
        result = result.model_copy(update={"observed": began(told), "oddities": odd})
        known = {} if tree == self.base_tree else self._on_base.get(check.name, {})
        if tree == self.base_tree:
            self.learn(check.name, result)
            odd = {key: text for key, text in odd.items() if key.startswith(KNOWN)}
        new = [text for key, text in odd.items() if key not in known]
        return _tampered(result, new) if new else result

    def learn(self, name: str, base: VerificationResult) -> None:
        """Remember a run of base."""
        self._on_base[name] = {**self._on_base.get(name, {}), **base.oddities}
        red = tuple(test for test, outcome in base.tests.items() if outcome in RED)
        self._red[name] = tuple(dict.fromkeys((*self._red.get(name, ()), *red)))
        if not base.observed and not base.oddities:
            self._unwatched.add(name)


def _tampered(result: VerificationResult, why: list[str]) -> VerificationResult:
    more = f" (and {len(why) - _MOST_NAMED} more signs)" if len(why) > _MOST_NAMED else ""
    summary = f"the code under test changed the test runner: {'; '.join(why[:_MOST_NAMED])}{more}"
    return result.model_copy(
        update={"ok": False, "type": TAMPERED, "summary": summary, "tests": {}, "counts": Counts(), "details": ()}
    )
