"""The detector: the rules and exact values to look for, and the fingerprints to ignore."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from reflectloop.config import SecretsConfig
from reflectloop.secrets import baseline, builtin_rules, env_values
from reflectloop.secrets.matcher import Exact, Matcher, ScanBlock
from reflectloop.secrets.rule import SecretRule
from reflectloop.secrets.scanner import Scanner, SecretFinding, fingerprint
from reflectloop.secrets.spans import clusters

_MIN_HIDDEN = 8  # characters; a shorter value occurs inside ordinary words


class Detector:
    """Creates scanners with one set of rules. Nothing is compiled before the first text is scanned."""

    def __init__(
        self,
        rules: Iterable[SecretRule],
        *,
        values: Iterable[bytes] = (),
        allowed: frozenset[str] = frozenset(),
        fillers: bool = False,
    ) -> None:
        self._exact = [form for value in values for form in env_values.forms(value)]
        self._rules = list(rules)
        self._fillers = fillers
        self._matcher = Matcher(self._rules, self._exact, fillers=fillers)
        self._allowed = allowed

    def scanner(self) -> Scanner:
        return Scanner(self._matcher, self._allowed)

    def scan(self, data: bytes) -> list[SecretFinding]:
        scanner = self.scanner()
        scanner.feed(data)
        scanner.finish()
        return scanner.findings

    def redact(self, text: str, known: Iterable[bytes] = ()) -> str:
        """Return the text with every secret redacted, and every `known` value even if no rule matches it."""
        raw = text.encode("utf-8", "surrogateescape")
        for value in known:
            raw = raw.replace(value, b"[REDACTED]")
        scanner = self.scanner()
        return (scanner.feed(raw) + scanner.finish()).decode("utf-8", "surrogateescape")

    def values(self, data: bytes) -> set[bytes]:
        """Return the secret values themselves, to search for them elsewhere. They must never be stored or shown."""
        result = self._matcher.find(ScanBlock(data, 0, len(data)))
        values = {data[cluster.chief.start : cluster.chief.end] for cluster in clusters(result.spans)}
        return {value for value in values if fingerprint(value) not in self._allowed}

    def hide(self, values: Iterable[bytes]) -> None:
        """From now on report these values as likely secrets, even without the name that identified them."""
        self._exact += [
            Exact(value, "value-in-plan", "likely") for value in sorted(values) if len(value) >= _MIN_HIDDEN
        ]
        self._matcher = Matcher(self._rules, self._exact, fillers=self._fillers)


def of(
    config: SecretsConfig, root: Path, environment: Mapping[str, str] | None = None, *, fillers: bool = False
) -> Detector:
    """Create a project's detector: built-in rules, the user's rules, the caller's own values, minus the baseline."""
    from reflectloop.secrets import rulefile  # noqa: PLC0415 - loads pydantic, and rule files are rare

    user_rules = rulefile.checked(root / config.rules) if config.rules else ()
    allowed = baseline.read(root / config.baseline) if config.baseline else frozenset()
    variables = os.environ if environment is None else environment
    return Detector(
        (*user_rules, *builtin_rules.rules()), values=env_values.values(variables), allowed=allowed, fillers=fillers
    )


@cache
def default() -> Detector:
    """Return the detector with the built-in rules and the caller's own values."""
    return Detector(builtin_rules.rules(), values=env_values.values(os.environ))


_active: list[Detector] = []


def use(detector: Detector) -> None:
    """Make `detector` the one that this process uses."""
    _active[:] = [detector]


def current() -> Detector:
    """Return the detector of this process: the project's once its settings are read, else the default."""
    return _active[0] if _active else default()
