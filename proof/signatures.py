"""Signatures of real failures: the same however a machine prints them, and different for different causes."""

from __future__ import annotations

import random
from collections import defaultdict

from proof.failures import causing, corpus, mutants
from proof.failures.ground import Log
from proof.failures.perturb import PERTURBATIONS, everything
from proof.paper import Paper
from reflectloop.diagnosis import diagnosis
from reflectloop.diagnosis import log_diagnosis as flow

_FEWEST, _SAME, _COLLIDING = 200, 0.98, 0.01


def signature(text: str, exit_code: int) -> str:
    failure = flow.diagnose_log(text, exit_code=exit_code, rules=diagnosis.shipped()).failure
    return failure.signature if failure else ""


def prove_same(paper: Paper, logs: list[Log], again: dict[str, Log]) -> None:
    cases = {**PERTURBATIONS, "all of these at once": everything}
    same, asked = 0, 0
    for name, perturb in cases.items():
        held = sum(
            signature(perturb(log, random.Random(log.scenario.id)), log.exit_code) == signature(log.text, log.exit_code)
            for log in logs
        )
        same, asked = same + held, asked + len(logs)
        paper.claim(name, f"{held} of {len(logs)} keep their signature", holds=held / len(logs) >= _SAME - 0.01)
    pairs = [(log, again[log.scenario.id]) for log in logs if log.scenario.id in again]
    held = sum(signature(one.text, one.exit_code) == signature(two.text, two.exit_code) for one, two in pairs)
    paper.claim("caused again in another place", f"{held} of {len(pairs)}", holds=held / len(pairs) >= _SAME)
    rate = (same + held) / (asked + len(pairs))
    paper.claim(f"the same signature in {_SAME} of all", f"{rate:.4f}", holds=rate >= _SAME)


def _cause(log: Log) -> str:
    """A changed operator is a cause of its own."""
    return log.scenario.id if log.scenario.id.startswith("mutant-") else log.scenario.cause


def prove_different(paper: Paper, logs: list[Log]) -> None:
    groups: dict[str, list[Log]] = defaultdict(list)
    for log in logs:
        groups[signature(log.text, log.exit_code)].append(log)
    mixed = [group for group in groups.values() if len({_cause(log) for log in group}) > 1]
    colliding = sum(len(group) for group in mixed)
    total = len(logs) * (len(logs) - 1) // 2
    pairs = sum(_cause(one) != _cause(two) for group in mixed for at, one in enumerate(group) for two in group[:at])
    paper.claim(
        f"at most {_COLLIDING} share a signature with another cause",
        f"{colliding} of {len(logs)} logs ({colliding / len(logs):.4f}); {pairs} of {total} pairs; "
        f"{len(groups)} signatures",
        holds=colliding / len(logs) <= _COLLIDING,
    )
    paper.table(
        ["share a signature, by different causes"], [[", ".join(log.scenario.id for log in one)] for one in mixed]
    )


def main() -> None:
    paper = Paper(
        "signatures",
        "Real failures (proof/failures/*.toml) and modules of the standard library with one operator changed, under "
        "their own tests; each log printed as another machine would, and each failure caused a second time elsewhere.",
    )
    scenarios = [causing.told_apart(one) for one in corpus.scenarios()] + mutants.mutants()
    logs = causing.logs(scenarios)
    again = {log.scenario.id: log for log in causing.logs(scenarios, "rf-another-place-")}
    paper.claim(f"at least {_FEWEST} logs", str(len(logs)), holds=len(logs) >= _FEWEST)
    prove_same(paper, logs, again)
    prove_different(paper, logs)
    paper.write()


if __name__ == "__main__":
    main()
