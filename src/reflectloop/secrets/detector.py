"""What is looked for, said once: rules, exact values, and fingerprints that are let stand."""

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

_HIDDEN = 8  # letters; a shorter value stands in too many words


class Detector:
    """Makes scanners that look for the same. Nothing is compiled before the first text is looked at."""

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
        """The same text with every secret taken out, and every `known` one even where no rule would see it."""
        raw = text.encode("utf-8", "surrogateescape")
        for value in known:
            raw = raw.replace(value, b"[REDACTED]")
        scanner = self.scanner()
        return (scanner.feed(raw) + scanner.finish()).decode("utf-8", "surrogateescape")

    def values(self, data: bytes) -> set[bytes]:
        """The secrets themselves, to look for elsewhere. Never to be stored or shown."""
        found = self._matcher.find(ScanBlock(data, 0, len(data)))
        values = {data[cluster.chief.start : cluster.chief.end] for cluster in clusters(found.spans)}
        return {value for value in values if fingerprint(value) not in self._allowed}

    def hide(self, values: Iterable[bytes]) -> None:
        """Report these as likely from now on, even where they stand without the name that gave them away."""
        self._exact += [Exact(value, "value-in-plan", "likely") for value in sorted(values) if len(value) >= _HIDDEN]
        self._matcher = Matcher(self._rules, self._exact, fillers=self._fillers)


def of(
    config: SecretsConfig, root: Path, environment: Mapping[str, str] | None = None, *, fillers: bool = False
) -> Detector:
    """The shipped rules, the user's, the caller's own values; without what the user's baseline lets stand."""
    from reflectloop.secrets import rulefile  # noqa: PLC0415 - reading rule files is slow and seldom needed

    own = rulefile.checked(root / config.rules) if config.rules else ()
    allowed = baseline.read(root / config.baseline) if config.baseline else frozenset()
    mine = os.environ if environment is None else environment
    return Detector((*own, *builtin_rules.rules()), values=env_values.values(mine), allowed=allowed, fillers=fillers)


@cache
def default() -> Detector:
    """The shipped rules and the caller's own values."""
    return Detector(builtin_rules.rules(), values=env_values.values(os.environ))


_in_force: list[Detector] = []


def use(detector: Detector) -> None:
    """From now on this process looks for what `detector` does."""
    _in_force[:] = [detector]


def current() -> Detector:
    """What this process looks for: a project's own settings once they are read, the default before."""
    return _in_force[0] if _in_force else default()
