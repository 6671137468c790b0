"""What follows from each class of error, as a table; who acts on it is another room's affair."""

from __future__ import annotations

from typing import Literal, NamedTuple

from reflectloop.reflect.record import ErrorClass, Needs

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


class Handling(NamedTuple):
    remediation: str
    measures: tuple[Measure, ...]  # in this order
    needs: Needs
    question: str = ""  # to whoever is asked


HANDLING: dict[ErrorClass, Handling] = {
    ErrorClass.CAPABILITY: Handling(
        "record the anti-pattern, expect less of the same worker, and let a stronger backend or a person look",
        ("record_antipattern", "ask_stronger_backend", "human_checkpoint"),
        "ASK",
        "the same mistake keeps coming back: which stronger backend, or who, is to do this?",
    ),
    ErrorClass.DECISION: Handling(
        "say in the prompt or the contract what must be met at the least, and check it half way",
        ("amend_contract", "add_checkpoint", "do_again", "verify_repair"),
        "REPLAN",
    ),
    ErrorClass.PIPELINE: Handling(
        "mend the order of the steps and what they depend on, then go on from where it broke",
        ("repair_order", "resume", "verify_repair"),
        "RETRY",
    ),
    ErrorClass.KNOWLEDGE: Handling(
        "find out what was not known, store the answer, and do it again",
        ("ask_research", "store_answer", "do_again"),
        "RESEARCH",
        "what was not known here, and where does it stand?",
    ),
    ErrorClass.ITERATION: Handling(
        "record what was tried; begin the next time where this one ended", ("record_attempt",), "RETRY"
    ),
}


class Handled(NamedTuple):
    """What is to be done about one ticket, each measure with what it is about."""

    error_class: ErrorClass
    needs: Needs
    measures: tuple[tuple[Measure, str], ...]


def handle(error_class: ErrorClass, *, what: str, checkpoint: str, pattern: str = "", step: str = "") -> Handled:
    """`what` went wrong, and the `checkpoint` that would have shown it in time."""
    row = HANDLING[error_class]
    about: dict[Measure, str] = {
        "record_antipattern": pattern or what,
        "ask_stronger_backend": row.question,
        "human_checkpoint": f"a person looks before the next try: {what}",
        "amend_contract": f"must be met at the least: {checkpoint}",
        "add_checkpoint": f"half way, look whether this holds: {checkpoint}",
        "repair_order": f"see that what {step or 'it'} needs is done before it",
        "resume": "reflectloop resume",
        "ask_research": row.question,
        "store_answer": f"reflectloop lessons add: {what}",
        "do_again": f"do {step or 'it'} again",
        "verify_repair": checkpoint,
        "record_attempt": what,
    }
    return Handled(error_class, row.needs, tuple((one, about[one]) for one in row.measures))
