"""Run base and patch on recorded inputs and on neighbours of them, and keep what both answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from reflectloop.verification.probing import fitted, neighbours, number_rows, renaming
from reflectloop.verification.probing.inside import plain_data
from reflectloop.verification.probing.neighbours import CallInput, NeighbourInput

MOST_INPUTS = 80  # recorded inputs of one function
MOST_NEIGHBOURS = 160  # of one function
_STEPS, _LEAST_STEPS, _TIMES_STEPS = 200_000, 8_000, 6
_ALL_STEPS, _LEAST_NEIGHBOURS = 1_000_000, 36  # of all neighbours of one function
_LEAST_IN_TIME = 40  # neighbours by which a function is judged if there was no time for the others
_MOST_ALIKE = 2  # tests that keep the answer of base
_LEAST_MORE = 24  # inputs with other words or digits, or in rows of numbers
_CALL_S = 0.5
TOO_LONG = "needs too much time or memory"  # as `inside/run_inputs.py` says it
Job = dict[str, Any]
Side = Callable[[Job], Sequence[Mapping[str, Any]]]  # runs a job on one version of the project


class Option(NamedTuple):
    """A value with which base's version of a function compares an argument."""

    value: str | int | float
    is_whole: bool  # not a part of the argument, such as its beginning


class FunctionInputs(NamedTuple):
    """A function that tests called, with the inputs that they called it with."""

    file: str
    module: str
    qualname: str
    inputs: tuple[CallInput, ...]
    first: str = ""  # "self" or "cls" for a method
    outcomes: tuple[Mapping[str, Any], ...] = ()  # as recorded, for each input
    literals: tuple[object, ...] = ()  # values written in its file, used as inputs of a new function
    written: frozenset[str] = frozenset()  # words of the changed sources
    vocabulary: frozenset[str] = frozenset()  # words that they have on base
    former: tuple[str, str] = ("", "")  # the file and the module of a function that was moved, on base
    names: frozenset[str] = frozenset()  # of the functions in its file
    added: frozenset[object] = frozenset()  # values that the changed sources write down and base's do not
    options: Mapping[str, frozenset[Option]] = {}  # by the place of an argument


@dataclass(frozen=True)
class FunctionAnswer:
    """The answer of one version to one input."""

    outcome: Mapping[str, Any]
    reached: Mapping[str, int] = field(default_factory=dict)  # by code object, a bit for each instruction
    equality: tuple[tuple[str, str], ...] = ()
    steps: int = 0
    meets: bool = False  # the function called itself with an input of the tests; counts if base's does so too
    remade: bool = True  # the calls that made the objects of the input lead to the recorded objects
    compared: Mapping[str, Any] | None = None  # the outcome without attributes that the other version does not have

    @property
    def returns(self) -> bool:
        return "value" in self.outcome

    @property
    def stopped(self) -> bool:
        return "stopped" in self.outcome

    @property
    def endless(self) -> bool:
        return "endless" in self.outcome

    @property
    def late(self) -> bool:
        return self.outcome.get("stopped") == TOO_LONG

    @property
    def kind(self) -> str:
        """Return the type of the exception, or the kind of outcome."""
        return str(self.outcome.get("raises") or next(iter(self.outcome)))

    @cached_property
    def text(self) -> str:
        """Return the outcome as it is compared; each answer is compared many times."""
        return json.dumps(self.outcome if self.compared is None else self.compared, sort_keys=True)

    def beside(self, other: FunctionAnswer) -> FunctionAnswer:
        """Return the answer as it is compared with one of another version: by the attributes that both have."""
        own, others = ({"new": {"object": "", "fields": []}, **item.outcome} for item in (self, other))
        compared = _shared(own, others)
        return replace(
            self, compared={name: compared[name] for name in own if name != "new" or compared[name]["fields"]}
        )

    def without(self, parts: Collection[str]) -> FunctionAnswer:
        """Return the answer as it is compared without some of its parts."""
        compared = self.outcome if self.compared is None else self.compared
        if not any(name in compared for name in parts):
            return self
        return replace(self, compared={name: value for name, value in compared.items() if name not in parts})


def _shared(value: Any, other: Any) -> Any:  # noqa: ANN401 - encoded data
    """Return encoded data without the fields of objects that the same objects of other data do not have."""
    if isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        return [_shared(item, beside) for item, beside in zip(value, other, strict=True)]
    if not isinstance(value, dict) or not isinstance(other, dict):
        return value
    out = {name: _shared(item, other[name]) if name in other else item for name, item in value.items()}
    if "fields" in value and "fields" in other and value.get("object") == other.get("object"):
        known = dict(other["fields"])
        out["fields"] = [[name, _shared(item, known[name])] for name, item in value["fields"] if name in known]
    return out


_STOPPED = FunctionAnswer({"stopped": "gave no answer"})
_EFFECTS = ("after", "new", "files", "printed")  # parts of an answer besides what the call returns or raises
_ELSEWHERE = FunctionAnswer({"stopped": "depends on what its test set up"})
_ABSENT = FunctionAnswer({"absent": True})


class AnswerPair(NamedTuple):
    """One input with the answers of base and of the patch."""

    input: CallInput
    base: FunctionAnswer
    patch: FunctionAnswer
    origin: int = -1  # for a neighbour, the recorded input that it is near to
    place: str = ""
    family: str = ""  # see NeighbourInput
    lost: bool = False  # the patch fails in a way, or with another text, that it shows at no changed input of the tests

    @property
    def differs(self) -> bool:
        """Return True if the patch gives another answer. A lost answer is no sign of a general fix."""
        return self.base.text != self.patch.text and not self.lost

    def by_shared(self) -> AnswerPair:
        """Return the pair with both answers compared by the attributes that both versions have, if both return."""
        if not self.base.returns or not self.patch.returns:
            return self
        return self._replace(base=self.base.beside(self.patch), patch=self.patch.beside(self.base))

    def without(self, parts: Collection[str]) -> AnswerPair:
        """Return the pair with both answers compared without some of their parts."""
        return self._replace(base=self.base.without(parts), patch=self.patch.without(parts)) if parts else self

    def tells(self, faults: frozenset[str], limit: int) -> bool:
        """Return True if the input could run: not stopped, and not refused in the same way by both versions.

        A refusal in one of the ways in which base failed at the tests' inputs counts: there the fault may still be.
        """
        if self.base.stopped or self.patch.stopped or (self.patch.meets and self.base.meets):
            return False
        if (self.base.endless or self.patch.endless) and not (self.base.endless and self.patch.endless):
            steps = (self.patch if self.base.endless else self.base).steps
            if steps * 4 > limit:
                return False  # the two versions are counted differently: too near the limit to tell
        same_fault = not self.base.returns and self.base.kind == self.patch.kind
        return not same_fault or self.base.kind in faults


@dataclass
class Observation:
    """The answers of base and patch for one function."""

    function: FunctionInputs
    new: bool = False  # base does not have the function
    tests: list[AnswerPair] = field(default_factory=list)
    near: list[AnswerPair] = field(default_factory=list)
    letters: list[AnswerPair] = field(default_factory=list)  # inputs that differ in one letter of a text
    words: list[AnswerPair] = field(default_factory=list)  # inputs with another word, or other digits in a word
    rows: list[AnswerPair] = field(default_factory=list)  # numbers at equal distances
    grown: list[AnswerPair] = field(default_factory=list)  # inputs several times as large as those of the tests
    fitted: list[AnswerPair] = field(default_factory=list)  # a text and a number that grew by the same count
    numbered: list[AnswerPair] = field(default_factory=list)  # other numbers beside a larger argument
    entries: list[AnswerPair] = field(default_factory=list)  # another entry of a dictionary
    twins: list[AnswerPair] = field(default_factory=list)  # equal values of another type
    left_out: str = ""  # the reason why the function could not be probed
    of_caller: bool = False  # the function calls a changed one, and its inputs are often texts with a form
    limit: int = 0  # steps after which a call counted as endless
    ignored: tuple[str, ...] = ()  # parts of answers that are not compared
    by_shared: bool = False  # the change shows at the tests' inputs without attributes that only one version has

    @property
    def changed(self) -> list[int]:
        """Return the numbers of the recorded inputs that base and patch answer differently."""
        return [
            at
            for at, item in enumerate(self.tests)
            if item.differs and not item.base.stopped and not item.patch.stopped and not item.patch.endless
        ]

    @property
    def telling(self) -> list[AnswerPair]:
        """Return the neighbours that say something about the change."""
        return self.told(self.near)

    def told(self, items: Sequence[AnswerPair]) -> list[AnswerPair]:
        """Return those of some inputs that say something about the change."""
        faults = frozenset(self.tests[at].base.kind for at in self.changed if not self.tests[at].base.returns)
        failing = [self.tests[at] for at in self.changed if not self.tests[at].patch.returns]
        expected = frozenset(item.patch.kind for item in failing)
        texts = frozenset(
            item.patch.kind for item in failing if item.base.kind == item.patch.kind
        )  # they were corrected

        def is_lost(item: AnswerPair) -> bool:
            if item.patch.returns or (item.patch.endless and item.base.endless):
                return False
            return item.patch.kind not in (expected if item.base.kind != item.patch.kind else texts)

        return [item._replace(lost=is_lost(item)) for item in items if item.tells(faults, self.limit)]


class _Reply(NamedTuple):
    answers: dict[tuple[int, int], FunctionAnswer]
    missing: dict[int, str]
    late: frozenset[int]

    def count(self, function: int) -> int:
        """Return how many inputs of a function were run."""
        return sum(1 for at, _ in self.answers if at == function)


def observe(
    functions: Sequence[FunctionInputs],
    base: Side,
    patch: Side,
    changed: Mapping[str, Sequence[tuple[int, int]]],
    seed: str,
    roots: Sequence[str] = ("",),
    seconds: float = 5.0,
    most: int = MOST_NEIGHBOURS,
    tried: int = MOST_INPUTS,
) -> list[Observation]:
    """Run the recorded inputs on both versions, and neighbours of them where the versions differ.

    `tried` recorded inputs are run; those that the versions answer differently are chosen first.
    """
    out = [Observation(distinct(function, tried)) for function in functions]
    own = [[(given, True) for given in seen.function.inputs] for seen in out]
    run = _Runs(out, changed, roots, seconds / 4)
    after = run.ask(patch, own, _STEPS, watched=True)
    limit = _step_limit(after)
    before = run.ask(base, own, limit, on_base=True)
    plans: list[list[NeighbourInput]] = []
    for at, seen in enumerate(out):
        seen.limit = limit
        _fill_tests(seen, at, before, after)
        _choose(seen)
        focus = seen.changed
        name = f"{seed} {seen.function.file} {seen.function.qualname}"
        wanted = not seen.left_out and (bool(focus) or seen.new)
        literals = seen.function.literals if seen.new else _names_like_those(seen)
        count = min(most, _affordable(seen)) if wanted else 0
        plan = neighbours.make(seen.function.inputs, focus, name, count, literals) if wanted else []
        if wanted and not seen.new:
            alike = renaming.make(seen.function.inputs, _with_the_right_answer(seen), name)
            alike = [item for item in alike if item.family.startswith(renaming.FIGURE)]
            figures = (renaming.MORE_FIGURES,) if alike else ()
            more = renaming.make(seen.function.inputs, focus, name, *figures) + alike
            more += number_rows.make(seen.function.inputs, focus)
            plan += more[: max(_LEAST_MORE, _affordable(seen) - most)]
            plan += renaming.ties(seen.function.inputs, focus, name)
            plan += neighbours.twins(seen.function.inputs, focus) if seen.function.file.endswith(".py") else []
        if wanted and not seen.new and count == most:
            plan += neighbours.one_letter_apart(seen.function.inputs, focus, name)
            plan += neighbours.grown(seen.function.inputs, focus, name)
            plan += fitted.make(seen.function.inputs, focus, name)
            plan += neighbours.numbered(seen.function.inputs, focus, name)
            plan += renaming.with_other_entries(seen.function.inputs, focus, name)
        plans.append(plan)
    asked = [[(item.input, False) for item in plan] for plan in plans]
    if any(asked):
        on_base = [[] if seen.new else items for seen, items in zip(out, asked, strict=True)]
        before = run.ask(base, on_base, limit, on_base=True)
        asked = [
            items if seen.new else items[: before.count(at)]
            for at, (seen, items) in enumerate(zip(out, asked, strict=True))
        ]
        after = run.ask(patch, asked, limit, watched=True)
        for at, (seen, plan) in enumerate(zip(out, plans, strict=True)):
            _fill_near(seen, at, plan, before, after)
    return out


def answers_of_versions(
    seen: Sequence[Observation],
    near: Sequence[Sequence[AnswerPair]],
    patch: Side,
    sources: Sequence[tuple[str, str]],
    roots: Sequence[str] = ("",),
    seconds: float = 1.0,
    *,
    as_patch: bool = True,
) -> dict[int, list[list[FunctionAnswer | None]]]:
    """Run other versions of the patch on the tests' inputs and on some near them; return the answers to the latter.

    `sources` are a path and its text for each version. With `as_patch`, only versions are returned that answer the
    tests as the patch does; without, the tests' inputs are not run.
    """
    run = _Runs(seen, {}, roots, seconds)
    tests = [[item.input for item in one.tests if as_patch and not item.patch.stopped] for one in seen]
    asked = [
        [*((given, True) for given in own), *((item.input, False) for item in others)]
        for own, others in zip(tests, near, strict=True)
    ]
    limit = max(one.limit for one in seen)
    job = run.job(asked, limit)
    for one, function in zip(seen, job["functions"], strict=True):
        function["expected"] = [item.patch.outcome for item in one.tests if as_patch and not item.patch.stopped]
    job["versions"] = [{"file": path, "text": text} for path, text in sources]
    answers: dict[int, dict[tuple[int, int], FunctionAnswer]] = {}
    dropped = set()
    for line in patch(job):
        number = line.get("version")
        if not isinstance(number, int) or "missing" in line or "late" in line:
            dropped.add(number)
        else:
            answers.setdefault(number, {})[line["function"], line["input"]] = _answer(line)
    return {
        number: [
            [
                _as_compared(answer, item, seen[at]) if answer else None
                for place, item in enumerate(others)
                for answer in [lines.get((at, len(own) + place))]
            ]
            for at, (own, others) in enumerate(zip(tests, near, strict=True))
        ]
        for number, lines in answers.items()
        if number not in dropped
    }


def _as_compared(answer: FunctionAnswer, item: AnswerPair, seen: Observation) -> FunctionAnswer:
    """Return the answer of another version to an input as it is compared with those of base and patch."""
    return (answer.beside(item.base) if seen.by_shared and item.base.compared else answer).without(seen.ignored)


def plain_answers(
    seen: Sequence[Observation],
    asked: Sequence[Sequence[AnswerPair]],
    side: Side,
    roots: Sequence[str],
    program: str,
    seconds: float = 1.0,
) -> dict[tuple[int, int], str]:
    """Return what one version answers, as it is compared, in a process where time passes and no step is counted."""
    run = _Runs(seen, {}, roots, seconds)
    chosen = [at for at, items in enumerate(asked) if items]
    job = run.job([[(item.input, False) for item in items] for items in asked], max(item.limit for item in seen))
    job["plain"] = program
    out = {}
    for line in side(job):
        if "missing" not in line and "late" not in line:
            at, number = chosen[line["function"]], line["input"]
            out[at, number] = _as_compared(_answer(line), asked[at][number], seen[at]).text
    return out


def _choose(seen: Observation) -> None:
    """Leave out inputs of the tests if there are too many: first those that both versions answer alike."""
    if len(seen.tests) <= MOST_INPUTS:
        return
    focus = seen.changed[:MOST_INPUTS]
    rest = [at for at in range(len(seen.tests)) if at not in {*seen.changed}]
    chosen = sorted([*focus, *rest[: MOST_INPUTS - len(focus)]])
    function = seen.function
    outcomes = tuple(function.outcomes[at] for at in chosen) if function.outcomes else ()
    seen.function = function._replace(inputs=tuple(function.inputs[at] for at in chosen), outcomes=outcomes)
    seen.tests = [seen.tests[at] for at in chosen]


def distinct(function: FunctionInputs, most: int = MOST_INPUTS) -> FunctionInputs:
    """Return the function with different inputs, the first ones if there are too many."""
    numbers: dict[str, int] = {}
    for number, given in enumerate(function.inputs):
        numbers.setdefault(neighbours.key(given), number)
    chosen = [*numbers.values()][:most]
    outcomes = tuple(function.outcomes[number] for number in chosen) if function.outcomes else ()
    return function._replace(inputs=tuple(function.inputs[number] for number in chosen), outcomes=outcomes)


def _names_like_those(seen: Observation) -> Sequence[str]:
    """Return the names of functions if a changed test has one as an argument: other names may be faulty, too."""
    given = [value for at in seen.changed for _, value in neighbours.arguments(seen.tests[at].input)]
    named = any(isinstance(value, str) and value in seen.function.names for value in given)
    return sorted(seen.function.names) if named else ()


def _with_the_right_answer(seen: Observation) -> list[int]:
    """Return some tests to which base says yes or no as the patch newly does to others."""
    answers = {seen.tests[at].patch.text for at in seen.changed}
    tests = [at for at, item in enumerate(seen.tests) if not item.differs and item.patch.text in answers]
    return [at for at in tests if isinstance(seen.tests[at].patch.outcome.get("value"), bool)][:_MOST_ALIKE]


def _affordable(seen: Observation) -> int:
    """Return the number of other inputs that can be run, fewer for a function that takes long."""
    steps = [item.patch.steps for item in seen.tests]
    return max(_LEAST_NEIGHBOURS, _ALL_STEPS * len(steps) // max(1, sum(steps)))


def _step_limit(after: _Reply) -> int:
    """Return the number of steps after which a call counts as endless: many times those of the tests' calls."""
    most = max((answer.steps for answer in after.answers.values() if answer.returns), default=0)
    return min(_STEPS, max(_LEAST_STEPS, _TIMES_STEPS * most))


def _fill_tests(seen: Observation, at: int, before: _Reply, after: _Reply) -> None:
    seen.new = at in before.missing
    if at in after.missing:
        seen.left_out = f"could not be loaded: {after.missing[at]}"
    elif at in before.late | after.late:
        seen.left_out = "took too long"
    answered = [after.answers.get((at, number), _STOPPED) for number in range(len(seen.function.inputs))]
    inputs = [
        given if answer.remade and not answer.stopped else neighbours.without_histories(given)
        for given, answer in zip(seen.function.inputs, answered, strict=True)
    ]
    seen.function = seen.function._replace(inputs=tuple(inputs))
    for number, given in enumerate(seen.function.inputs):
        first = _ABSENT if seen.new else before.answers.get((at, number), _STOPPED)
        last = answered[number]
        if number < len(seen.function.outcomes) and _contradicts(last.outcome, seen.function.outcomes[number]):
            last = _ELSEWHERE
        seen.tests.append(AnswerPair(given, first, last))
    shared = [item.by_shared() for item in seen.tests]
    seen.by_shared = any(shared[at].differs for at in seen.changed)
    seen.tests = shared if seen.by_shared else seen.tests
    if any(seen.tests[at].without(_EFFECTS).differs for at in seen.changed):  # then effects may be there for show
        seen.ignored = _EFFECTS
        seen.tests = [item.without(_EFFECTS) for item in seen.tests]
    ran = [item for item in seen.tests if not item.patch.stopped and not item.base.stopped]
    if not ran and not seen.left_out:
        why = next(
            (str(answer.outcome["stopped"]) for item in seen.tests for answer in item[1:3] if answer.stopped), ""
        )
        seen.left_out = f"has effects or does not end: {why}"


def _contradicts(outcome: Mapping[str, Any], recorded: Mapping[str, Any]) -> bool:
    """Return True if the call gave another result in its test."""
    if "value" in recorded and "value" in outcome and "iterator" not in str(outcome["value"])[:20]:
        return not plain_data.same(outcome["value"], recorded["value"])
    return "value" in recorded and "raises" in outcome


def _fill_near(seen: Observation, at: int, plan: Sequence[NeighbourInput], before: _Reply, after: _Reply) -> None:
    for number, item in enumerate(plan):
        first = _ABSENT if seen.new else before.answers.get((at, number))
        last = after.answers.get((at, number))
        if first and last:  # the rest was left out after many endless calls
            pair = AnswerPair(item.input, first, last, item.origin, item.place, item.family)
            lists = {neighbours.LETTER: seen.letters, number_rows.ROW: seen.rows, neighbours.GROWN: seen.grown}
            lists |= {
                fitted.FITTED: seen.fitted,
                neighbours.NUMBERED: seen.numbered,
                renaming.ENTRY: seen.entries,
                neighbours.TWIN: seen.twins,
                renaming.WORD: seen.words,
                renaming.FIGURE: seen.words,
            }
            lists.get(item.family.partition(" ")[0], seen.near).append(
                (pair.by_shared() if seen.by_shared else pair).without(seen.ignored)
            )
    if plan and at in before.late | after.late and len(seen.telling) < _LEAST_IN_TIME:
        seen.left_out = "took too long"


@dataclass
class _Runs:
    seen: Sequence[Observation]
    changed: Mapping[str, Sequence[tuple[int, int]]]
    roots: Sequence[str]
    seconds: float

    def ask(
        self,
        side: Side,
        inputs: Sequence[Sequence[tuple[CallInput, bool]]],
        steps: int,
        *,
        watched: bool = False,
        on_base: bool = False,
    ) -> _Reply:
        """Run inputs of all functions on one version."""
        chosen = [at for at, given in enumerate(inputs) if given]
        if not chosen:
            return _Reply({}, {}, frozenset())
        job = self.job(inputs, steps, watched=watched, on_base=on_base)
        answers, missing, late = {}, {}, set()
        for line in side(job):
            at = chosen[line["function"]]
            if "missing" in line:
                missing[at] = line["missing"]
            elif "late" in line:
                late.add(at)
            else:
                answers[at, line["input"]] = _answer(line)
        return _Reply(answers, missing, frozenset(late))

    def job(
        self,
        inputs: Sequence[Sequence[tuple[CallInput, bool]]],
        steps: int,
        *,
        watched: bool = False,
        on_base: bool = False,
    ) -> Job:
        """Return the job that runs the inputs of the functions that have some."""
        spans = {file: [list(span) for span in some] for file, some in self.changed.items()} if watched else {}
        return {
            "roots": list(self.roots),
            "changed": spans,
            "functions": [self._function(at, given, on_base=on_base) for at, given in enumerate(inputs) if given],
            "steps": steps,
            "call_s": _CALL_S,
            "seconds": self.seconds,
        }

    def _function(self, at: int, inputs: Sequence[tuple[CallInput, bool]], *, on_base: bool) -> dict[str, Any]:
        function = self.seen[at].function
        file, module = function.former if on_base and function.former[0] else (function.file, function.module)
        listed = [{**neighbours.write(given), "own": own} for given, own in inputs]
        return {
            "file": file,
            "module": module,
            "qualname": function.qualname,
            "first": function.first,
            "inputs": listed,
            "known": [neighbours.write(self.seen[at].tests[number].input)["args"] for number in self.seen[at].changed],
        }


def _answer(line: Mapping[str, Any]) -> FunctionAnswer:
    outcome = line["outcome"]
    if outcome.get("raises") == "RecursionError":
        outcome = {"endless": True}  # where it ends depends on how the calls are counted
    reached = {name: int(bits, 16) for name, bits in line.get("reached", {}).items()}
    equality = tuple((str(kind), str(name)) for kind, name in line.get("equality", ()))
    remade = line.get("remade") is not False
    return FunctionAnswer(outcome, reached, equality, line.get("steps", 0), line.get("meets", False), remade)
