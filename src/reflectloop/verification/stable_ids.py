"""Test ids across runs: ids that hold a secret are never stored, and ids that hold a time are matched.

A stored result and a fresh one must have equal ids, so an id that the redactor would change is replaced by its redacted
form with a keyed hash of the exact id, in both.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets as random_bytes
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from reflectloop import secrets
from reflectloop.system import beneath, files
from reflectloop.system.patterns import lazy
from reflectloop.trust.private_file import state_folder
from reflectloop.verification.result import Detail, Outcome, VerificationResult

_KEY_BYTES = 32
_MARK = lazy(r" #([0-9a-f]{12})$")


def key_path() -> Path:
    """Return the path of the user's key for hashes of test ids."""
    return state_folder() / "test-ids.key"


@dataclass
class HiddenIds:
    """Replaces ids that hold a secret by a form that may be stored and shown.

    An id that is hidden in a stored result stays hidden in the same form, even if the redactor, which also knows the
    secrets of the caller's environment, would change it otherwise or not at all.
    """

    _forms: dict[str, str] = field(default_factory=dict)  # the hidden forms, by the hash of the exact id
    _exact: dict[str, str] = field(default_factory=dict)  # by the hidden form
    _hidden: dict[str, str] = field(default_factory=dict)  # by the exact id

    def hide(self, name: str) -> str:
        """Return an id unchanged, or its hidden form."""
        if name not in self._hidden:
            shown = secrets.current_detector().redact(name)
            mark = self._mark(name) if self._forms or shown != name else ""
            if shown != name:
                self._forms.setdefault(mark, f"{shown} #{mark}")
            self._hidden[name] = self._forms.get(mark, name)
            if self._hidden[name] != name:
                self._exact[self._hidden[name]] = name
        return self._hidden[name]

    def exact(self, names: Sequence[str]) -> list[str] | None:
        """Return the exact ids, or None if one was hidden by an earlier process and cannot be selected."""
        exact = [self._exact.get(name, name) for name in names]
        return None if any(self._is_hidden(name) for name in exact) else exact

    def clean(self, result: VerificationResult) -> VerificationResult:
        """Return a result that may be stored and shown, with ids that are equal in every run."""
        redact = secrets.current_detector().redact
        return result.model_copy(
            update={
                "tests": {self.hide(name): outcome for name, outcome in result.tests.items()},
                "details": tuple(self._clean_detail(detail, redact) for detail in result.details),
                "summary": redact(result.summary),
                "suggestion": redact(result.suggestion),
                "command": tuple(redact(word) for word in result.command),
                "oddities": {redact(key): redact(text) for key, text in result.oddities.items()},
            }
        )

    def _clean_detail(self, detail: Detail, redact: Callable[[str], str]) -> Detail:
        return detail.model_copy(
            update={
                "file": redact(detail.file) if detail.file else detail.file,
                "error": redact(detail.error),
                "context": redact(detail.context) if detail.context else detail.context,
                "test": self.hide(detail.test) if detail.test else detail.test,
            }
        )

    def recall(self, names: Iterable[str], key_mark: str) -> bool:
        """Remember the hidden ids of a stored result; return False if another key hid them."""
        forms = {match[1]: match.string for match in map(_MARK.search, names) if match} if key_mark else {}
        if forms and key_mark != self._mark(""):
            return False
        if forms.keys() - self._forms.keys():
            self._hidden = {}  # an id that was shown in clear so far may be among them
        self._forms = {**forms, **self._forms}
        return True

    @property
    def key_mark(self) -> str:
        """Return the fingerprint of the key, to store beside hidden ids; empty if none is hidden."""
        return self._mark("") if self._forms else ""

    def _mark(self, name: str) -> str:
        return hmac.new(self._key, name.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()[:12]

    def _is_hidden(self, name: str) -> bool:
        match = _MARK.search(name)
        return match is not None and match[1] in self._forms

    @cached_property
    def _key(self) -> bytes:
        with suppress(OSError):
            key = beneath.read_path(key_path())
            if len(key) == _KEY_BYTES:
                return key
        key = random_bytes.token_bytes(_KEY_BYTES)
        with suppress(OSError):  # without a stored key, results with hidden ids are computed again each time
            files.make_private(key_path().parent)
            files.write_atomic(key_path(), key, mode=0o600)
        return key


# Ids that differ in every run ----------------------------------------------------------------------------------------

_VOLATILE = lazy(
    r"0[xX][0-9a-fA-F]+"  # addresses
    r"|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"  # UUIDs
    r"|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*\b"
    r"|\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{6,}\b"  # hashes
    r"|\d+"  # times and random numbers
)


class UnstableIds(NamedTuple):
    """The ids that differ between two runs of base, and what they are in another run."""

    renamed: Mapping[str, str]  # by the id in the other run, the id in the first run of base
    missing: tuple[str, ...]  # of base's first run: gone in its second run too, and without a counterpart
    extra: Mapping[str, Outcome]  # of base's second run: ids that its first run lacks and the other run has

    def rename(self, tests: Mapping[str, Outcome]) -> dict[str, Outcome]:
        """Return the other run's outcomes by the ids of base's first run."""
        return {self.renamed.get(name, name): outcome for name, outcome in tests.items()}


def match_unstable_ids(
    first: Mapping[str, Outcome], second: Mapping[str, Outcome], patch: Mapping[str, Outcome]
) -> UnstableIds:
    """Match the ids of base that hold a time, an address or a random value with those of the patch.

    `first` and `second` are two runs of base, the same tree. Only an id that is in one of them and not in the other is
    unstable, so an id that both have and the patch has not stays missing. Unstable ids of one test are matched by
    what remains of them without numbers and hashes, then by their test alone; of several alike, those with equal
    outcomes are matched first. No two ids of base are matched with one id of the patch.
    """
    old = [name for name in first if name not in second and name not in patch]
    new = [name for name in patch if name not in first]
    shapes = [name for name in second if name not in first]  # base's own second form of an unstable id
    renamed: dict[str, str] = {}
    for fold in (_without_volatile, _test_of):
        seen = {fold(name) for name in shapes}
        waiting: dict[str, list[str]] = defaultdict(list)
        for name in new:
            if name not in renamed and fold(name) in seen:
                waiting[fold(name)].append(name)
        for equal in (True, False):
            for name in [name for name in old if name not in renamed.values()]:
                alike = waiting.get(fold(name), [])
                match = next((other for other in alike if not equal or patch[other] == first[name]), None)
                if match is not None:
                    alike.remove(match)
                    renamed[match] = name
    matched = set(renamed.values())
    extra = {name: second[name] for name in new if name in second and name not in renamed}
    return UnstableIds(renamed, tuple(sorted(_unmatched(old, matched, shapes))), extra)


def _unmatched(old: Iterable[str], matched: set[str], shapes: Iterable[str]) -> Iterable[str]:
    """Return the ids that base's second run has in no form, so that a run without them shows nothing."""
    tests = {_test_of(name) for name in shapes}
    return [name for name in old if name not in matched and _test_of(name) not in tests]


def _without_volatile(name: str) -> str:
    return _VOLATILE.sub("#", name)


def _test_of(name: str) -> str:
    """Return the test without its parameters."""
    return name.partition("[")[0] if "[" in name else _without_volatile(name)


# Ids that hold the place of a parameter ------------------------------------------------------------------------------

_NUMBERED = lazy(r"(?<=[\[-])([A-Za-z_]\w*?)(\d+)(?=[\]-])")


def renumbered(result: VerificationResult, known: Iterable[str]) -> VerificationResult:
    """Return a result with the ids of an earlier run, where ids differ only in the places of their parameters.

    pytest names a parameter that is no text or number by its place, as in `test_parse[12:30-expected19]`. Where the
    parameters are a set, the places follow its order, which memory addresses may change from run to run.
    """
    first = frozenset(known)
    new = [name for name in result.tests if name not in first and "[" in name]
    if not new:
        return result
    counts = Counter(_test_of(name) for name in first)
    waiting: dict[str, list[str]] = defaultdict(list)
    for name in sorted(first - result.tests.keys()):
        waiting[_without_place(name, counts)].append(name)
    arrived: dict[str, list[str]] = defaultdict(list)
    for name in sorted(new):
        arrived[_without_place(name, counts)].append(name)
    renamed = {
        name: old
        for form, names in arrived.items()
        if form not in names and len(names) == len(waiting.get(form, ()))
        for name, old in zip(names, waiting[form], strict=True)
    }
    details = [
        detail.model_copy(update={"test": renamed.get(detail.test or "", detail.test)}) for detail in result.details
    ]
    tests = {renamed.get(name, name): outcome for name, outcome in result.tests.items()}
    return result.model_copy(update={"tests": tests, "details": tuple(details)}) if renamed else result


def _without_place(name: str, counts: Mapping[str, int]) -> str:
    """Return an id without numbers that may be the place of a parameter."""
    most = counts.get(_test_of(name), 0)
    return _NUMBERED.sub(lambda match: f"{match[1]}#" if int(match[2][:9]) < most else match[0], name)
