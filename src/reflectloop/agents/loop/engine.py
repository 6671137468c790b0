"""Asks, acts and asks again until the model ends its part or a breaker does. Knows no protocol and no disk."""

from __future__ import annotations

import difflib
import json
import random
from collections.abc import Callable
from typing import NamedTuple

from reflectloop.agents.backend import AgentRequest, TokenUsage
from reflectloop.agents.loop import goals, ops, prompt
from reflectloop.agents.loop.budget import LoopBudget
from reflectloop.agents.loop.context_window import trim_history
from reflectloop.agents.loop.goals import Goal, GoalResult
from reflectloop.agents.loop.progress import MOST_IDLE, LoopProgress
from reflectloop.agents.loop.repetition import INJECT, STOP, WINDOW, RepetitionDetector, RepetitionVerdict
from reflectloop.agents.loop.states import LoopEnd, LoopState, stopped
from reflectloop.agents.messages import (
    AgentTurn,
    Ask,
    Json,
    Message,
    ModelRequest,
    ModelTool,
    NoAnswer,
    StopReason,
    ToolCall,
    ToolResult,
    tokens,
)
from reflectloop.agents.prices import Price
from reflectloop.diagnosis.retry_policy import RetryPolicy
from reflectloop.diagnosis.retrying import delay_of
from reflectloop.system import clock

MONOLOGUE = 3
_SHRINKS = 4
CORRECTIONS = 1  # of an end that is not what was asked for
_MOST_RESULT = 60_000  # characters of one tool's answer
_LEAST_ROOM = 200  # tokens for a history to be worth sending
_LEFT_OUT = "\n\n[{count} earlier messages of this work were left out for lack of room]"
_SHOWN = 200
AGAIN = RetryPolicy(tool="model", action="wait and ask again", retries=4, delay_s=1, most_s=30)


class Model(NamedTuple):
    name: str
    window: int
    reply_tokens: int
    price: Price | None = None


class LoopEnvironment(NamedTuple):
    """What the loop knows of the world outside."""

    left_s: Callable[[], float]
    wait: Callable[[float], None] = clock.wait
    chance: Callable[[], float] = random.random
    policy: RetryPolicy = AGAIN
    cancelled: Callable[[], bool] = lambda: False
    record: Callable[[Json], None] = lambda _: None
    clean: Callable[[str], str] = lambda text: text  # takes secrets out of what a model is sent


class AgentLoop:
    def __init__(
        self, asking: AgentRequest, ask: Ask, model: Model, around: LoopEnvironment, stutter: RepetitionDetector
    ) -> None:
        self._asking, self._ask, self._model, self._around, self._stutter = asking, ask, model, around, stutter
        self._goal: Goal = goals.of(asking)
        self._acts = asking.act is not None and not asking.role.looks_only
        own = ops.tools(looks_only=asking.role.looks_only) if asking.act is not None else ()
        self._ops = frozenset(one.name for one in own)
        self._tools: tuple[ModelTool, ...] = (*own, *self._goal.tools)
        self._system = around.clean(prompt.system(asking, self._goal))
        self._fixed = tokens(self._system) + tokens(json.dumps([one._asdict() for one in self._tools]))
        self._history: list[Message] = []
        self._sizes: list[int] = []
        self._add(Message("user", around.clean(asking.prompt)))
        self._progress = LoopProgress()
        self._ratio = 1.0  # what the model's maker counts for what we count
        self._wordy = 0
        self._faulty = 0
        self.budget = LoopBudget(asking.bounds, model.price, model.name)
        self.denials: list[str] = []
        self.turns: list[AgentTurn] = []

    def _add(self, message: Message) -> None:
        self._history.append(message)
        self._sizes.append(message.tokens)

    def run(self) -> LoopEnd:
        state = self._goal.begins
        while True:
            try:
                ending = self._hindrance() or self._after(self._asked(state))
            except NoAnswer as fault:
                ending = stopped(fault.why, fault.reason)
            if ending:
                self._around.record({"state": ending.state, "stop_reason": ending.stop_reason, "reason": ending.reason})
                return ending

    # Before the model is asked ---------------------------------------------------------------------------------------

    def _hindrance(self) -> LoopEnd | None:
        bounds = self._asking.bounds
        if self._around.cancelled():
            return stopped(StopReason.CANCELLED, "it was told to end")
        if self._around.left_s() <= 0:
            return stopped(StopReason.TIMEOUT, f"{bounds.timeout_s:g} s are over")
        if len(self.turns) >= bounds.turns:
            return stopped(StopReason.MAX_ITER, f"{bounds.turns} turns were taken without an end; a person must look")
        if self._progress.idle >= MOST_IDLE:
            why = f"{MOST_IDLE} turns in a row changed neither the tree nor which tests fail"
            return stopped(StopReason.NO_PROGRESS, why)
        return None

    def _asked(self, state: LoopState) -> AgentTurn:
        self._around.record({"state": state, "sent": _plain(self._history[-1])})
        turn, expected = self._fitting()
        self.turns.append(turn)
        self.budget.spend(turn.usage)
        self._weigh(turn.usage, expected)
        self._around.record({"turn": len(self.turns), "trace_id": turn.trace_id, "got": _plain(turn.message)})
        if self._acts:
            self._progress.turn()
        return turn

    def _fitting(self) -> tuple[AgentTurn, int]:
        """Where a server says that it was too much, its window is smaller than we were told."""
        for _ in range(_SHRINKS):
            talk, expected = self._talk()
            try:
                return self._answered(talk, expected), expected
            except NoAnswer as fault:
                if not fault.too_long:
                    raise
                window = min(expected + talk.reply_tokens, self._model.window) * 2 // 3
                self._model = self._model._replace(window=window, reply_tokens=min(talk.reply_tokens, window // 2))
                self._around.record({"window": self._model.window, "reason": fault.reason})
        raise NoAnswer(StopReason.FAILED, "the server says that it is too much, however short it is")

    def _answered(self, talk: ModelRequest, expected: int) -> AgentTurn:
        """Ask again where that may help, as often and as late as the policy says, and as the budget allows."""
        again = 0
        while True:
            if lack := self.budget.lacks(expected, talk.reply_tokens):
                raise NoAnswer(StopReason.BUDGET_SPENT, lack)
            try:
                turn = self._ask(talk)
                return (
                    turn
                    if turn.usage.tokens
                    else turn._replace(usage=TokenUsage(expected, turn.message.tokens, turns=1))
                )
            except NoAnswer as fault:
                if fault.received is not None:
                    self.budget.spend(TokenUsage(expected, fault.received // 3, turns=1))
                if not fault.transient or again >= self._around.policy.retries:
                    raise
                self._around.record({"again": again + 1, "reason": fault.reason})
                self._around.wait(delay_of(self._around.policy, again, self._around.chance, fault.asked_s))
                again += 1

    def _talk(self) -> tuple[ModelRequest, int]:
        """What is sent, and how many tokens that is at most."""
        room = int((self._model.window - self._model.reply_tokens) / self._ratio) - self._fixed - tokens(_LEFT_OUT)
        if room < _LEAST_ROOM:
            words = f"a window of {self._model.window:,} tokens has no room beside {self._fixed:,} of tools and rules"
            raise NoAnswer(StopReason.FAILED, f"{words}; set the agent's window or reply_tokens")
        kept = trim_history(self._history, room, self._sizes)
        messages = kept.messages
        if kept.dropped:
            brief = messages[0]
            noted = brief._replace(text=brief.text + _LEFT_OUT.format(count=kept.dropped))
            messages = (noted, *messages[1:])
        forced = goals.ANSWER if self._goal.names == {goals.ANSWER} and not self._ops else None
        talk = ModelRequest(self._model.name, self._system, messages, self._tools, self._model.reply_tokens, forced)
        return talk, round((self._fixed + kept.tokens + bool(kept.dropped) * tokens(_LEFT_OUT)) * self._ratio)

    def _weigh(self, used: TokenUsage, expected: int) -> None:
        """A maker that counts more than we do is believed from then on."""
        counted = used.tokens - used.output_tokens
        self._ratio = min(max(self._ratio, self._ratio * counted / max(1, expected)), 4.0)

    # After it answered -----------------------------------------------------------------------------------------------

    def _after(self, turn: AgentTurn) -> LoopEnd | None:
        said = turn.message
        self._add(said if said.text.strip() or said.calls else said._replace(text="(nothing)"))
        if turn.stop_reason is StopReason.REFUSED:
            return stopped(StopReason.FAILED, "the model refused to answer", turn.text)
        return self._called(turn) if turn.calls else self._worded(turn)

    def _worded(self, turn: AgentTurn) -> LoopEnd | None:
        if turn.stop_reason is StopReason.MAX_TOKENS:
            found: GoalResult | None = GoalResult(
                None, (f"the reply was cut off at {self._model.reply_tokens} tokens",)
            )
        else:
            found = self._goal.of_text(turn.text)
        if found is not None and not (found.faults and self._acts and not turn.text.strip()):
            return self._judged(found, turn, lambda words: Message("user", words))
        self._wordy += 1
        if self._wordy > MONOLOGUE:
            why = f"{self._wordy} replies in a row called no tool and gave no control word"
            return stopped(StopReason.MONOLOGUE, why, turn.text)
        self._add(Message("user", prompt.SAY_SOMETHING if self._wordy == MONOLOGUE else prompt.GO_ON))
        return None

    def _judged(self, found: GoalResult, turn: AgentTurn, answer: Callable[[str], Message]) -> LoopEnd | None:
        if not found.faults:
            return LoopEnd(found.state, turn.stop_reason, turn.text, found.data or None)
        self._faulty += 1
        if self._faulty > CORRECTIONS:
            why = f"it was asked for twice, and still: {'; '.join(found.faults)}"
            return stopped(self._goal.when_spent, why, turn.text)
        self._add(answer(prompt.correction(found.faults, self._goal)))
        return None

    def _called(self, turn: AgentTurn) -> LoopEnd | None:
        self._wordy = 0
        results: list[ToolResult] = []
        for call in turn.calls:
            if call.name in self._goal.names:
                continue
            if self._around.cancelled():
                return stopped(StopReason.CANCELLED, "it was told to end")
            result = self._act(call)
            if isinstance(result, LoopEnd):
                return result
            results.append(result)
        return self._ended(turn, results)

    def _ended(self, turn: AgentTurn, results: list[ToolResult]) -> LoopEnd | None:
        """The calls are done; an end asked for beside them holds only if all of them went well."""
        ends = [call for call in turn.calls if call.name in self._goal.names]
        if not ends:
            self._faulty = 0
            self._add(Message("user", results=tuple(results)))
            return None
        first, rest = ends[0], [ops.wrong(call, "one end at a time; only the first was looked at") for call in ends[1:]]
        if any(one.is_error for one in results):
            failed = ops.wrong(first, "not taken: another call of the same reply failed; see its result first")
            self._add(Message("user", results=_ordered(turn, [*results, failed, *rest])))
            return None

        def answer(words: str) -> Message:
            return Message(
                "user", results=_ordered(turn, [*results, ToolResult(first.id, words, is_error=True), *rest])
            )

        return self._judged(self._goal.of_call(first), turn, answer)

    def _act(self, call: ToolCall) -> ToolResult | LoopEnd:
        verdict = self._stutter.met(call, self._progress.epoch)
        shown = f"{call.name} {json.dumps(call.arguments, ensure_ascii=False)}"[:_SHOWN]
        if verdict is RepetitionVerdict.STOP:
            return stopped(StopReason.STUTTERING, f"the same call was made {STOP} times in this task: {shown}")
        if verdict is RepetitionVerdict.INJECT:
            words = (
                f"{shown} was called {INJECT} times in the last {WINDOW} calls while nothing changed; it was not done"
            )
            return ops.wrong(call, f"{words}. Change your approach.", code="E_STUTTERING")
        if call.name not in self._ops:
            return ops.wrong(call, self._unknown(call.name), code="E_UNKNOWN_TOOL")
        if call.fault:
            return ops.wrong(call, call.fault)
        return self._carried_out(call, verdict)

    def _carried_out(self, call: ToolCall, verdict: RepetitionVerdict) -> ToolResult:
        assert self._asking.act is not None  # noqa: S101 - else there are no ops
        response = self._asking.act([ops.op_of(call, self._around.left_s())])
        self._progress.saw(response)
        self.denials += ops.refusals(response)
        warning = "this call repeats and nothing has changed meanwhile" if verdict is RepetitionVerdict.WARN else ""
        # A character may be a token: one answer never takes more than a quarter of the window.
        return ops.told(call, response, min(_MOST_RESULT, self._model.window // 4), warning)

    def _unknown(self, name: str) -> str:
        known = [one.name for one in self._tools]
        close = difflib.get_close_matches(name[:_SHOWN], known, n=1, cutoff=0.5)
        hint = f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(known) or 'none'}"
        return f"there is no tool {name[:_SHOWN]!r}; {hint}"


def _ordered(turn: AgentTurn, results: list[ToolResult]) -> tuple[ToolResult, ...]:
    order = {call.id: number for number, call in enumerate(turn.calls)}
    return tuple(sorted(results, key=lambda one: order[one.call_id]))


def _plain(message: Message) -> Json:
    said: Json = {"role": message.role, "text": message.text}
    if message.calls:
        said["calls"] = [one._asdict() for one in message.calls]
    if message.results:
        said["results"] = [one._asdict() for one in message.results]
    return said
