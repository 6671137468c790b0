"""Causes every scenario, a few at a time, and drops what did not fail."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from proof.failures.ground import Log, ground
from proof.failures.scenario import Scenario

_AT_ONCE = 2


def logs(scenarios: Iterable[Scenario], prefix: str = "reflectloop-failures-") -> list[Log]:
    with ground(prefix) as place, ThreadPoolExecutor(_AT_ONCE) as pool:
        return [log for log in pool.map(place.cause, scenarios) if log.exit_code]


def told_apart(scenario: Scenario) -> Scenario:
    """With a name of its own for what is missing: each scenario is then another failure."""
    letters = "".join(chr(97 + byte % 26) for byte in hashlib.sha256(scenario.id.encode()).digest()[:6])
    script = scenario.script.replace("frobnicate", f"frob{letters}")
    return scenario._replace(script=script, before=scenario.before.replace("frobnicate", f"frob{letters}"))
