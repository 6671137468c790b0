"""The remediation of each error class, as a table; other modules act on it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from reflectloop.diagnosis.failure_record import ErrorClass, Needs

Measure = Literal[
    "record_antipattern",
    "ask_stronger_backend",
    "human_checkpoint",
    "amend_contract",
    "add_checkpoint",
    "repair_order",
    "resume",
    "ask_research",
    "store_answer",
    "do_again",
    "verify_repair",
    "record_attempt",
]


class Remediation(NamedTuple):
    """The remediation of one error class."""

    remediation: str
    measures: tuple[Measure, ...]  # in order
    needs: Needs
    question: str = ""  # for the agent or person who is asked


HANDLING: dict[ErrorClass, Remediation] = {
    ErrorClass.CAPABILITY: Remediation(
        "record the anti-pattern, expect less of the same agent, and ask a stronger backend or a person",
        ("record_antipattern", "ask_stronger_backend", "human_checkpoint"),
        "ASK",
        "the same mistake keeps recurring: which stronger backend, or which person, should do this?",
    ),
    ErrorClass.DECISION: Remediation(
        "state the minimum requirements in the prompt or the contract, and check them before the end",
        ("amend_contract", "add_checkpoint", "do_again", "verify_repair"),
        "REPLAN",
    ),
    ErrorClass.PIPELINE: Remediation(
        "fix the order of the steps and their dependencies, then resume where it stopped",
        ("repair_order", "resume", "verify_repair"),
        "RETRY",
    ),
    ErrorClass.KNOWLEDGE: Remediation(
        "find the missing knowledge, store the answer, and try again",
        ("ask_research", "store_answer", "do_again"),
        "RESEARCH",
        "which knowledge was missing here, and where can it be found?",
    ),
    ErrorClass.ITERATION: Remediation(
        "record what was tried; start the next attempt where this one ended", ("record_attempt",), "RETRY"
    ),
}


class TicketRemediation(NamedTuple):
    """The measures for one ticket, each with its subject."""

    error_class: ErrorClass
    needs: Needs
    measures: tuple[tuple[Measure, str], ...]


def handle(
    error_class: ErrorClass, *, what: str, checkpoint: str, pattern: str = "", step: str = ""
) -> TicketRemediation:
    """Return the measures for `what` went wrong, with the `checkpoint` that would have shown it in time."""
    row = HANDLING[error_class]
    about: dict[Measure, str] = {
        "record_antipattern": pattern or what,
        "ask_stronger_backend": row.question,
        "human_checkpoint": f"a person looks before the next try: {what}",
        "amend_contract": f"minimum requirement: {checkpoint}",
        "add_checkpoint": f"before the end, check that this holds: {checkpoint}",
        "repair_order": f"see that what {step or 'it'} needs is done before it",
        "resume": "reflectloop resume",
        "ask_research": row.question,
        "store_answer": f"reflectloop lessons add: {what}",
        "do_again": f"do {step} again" if step else "do it again",
        "verify_repair": checkpoint,
        "record_attempt": what,
    }
    return TicketRemediation(error_class, row.needs, tuple((measure, about[measure]) for measure in row.measures))
