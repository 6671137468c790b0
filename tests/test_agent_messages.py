"""What the built-in loop is made of, without a world around it: histories that fit, plans in words, calls counted."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_turns import Call as Said
from model_turns import Tokens, Turn, events, whole
from reflectloop.agents import plan_text
from reflectloop.agents.loop.context_window import head_and_tail, trim_history
from reflectloop.agents.loop.repetition import RepetitionDetector, RepetitionVerdict
from reflectloop.agents.messages import Message, StopReason, ToolCall, ToolResult, tokens
from reflectloop.agents.wire import transport
from reflectloop.agents.wire.anthropic import Anthropic
from reflectloop.agents.wire.openai import OpenAI
from reflectloop.agents.wire.protocol import Malformed, call

# Histories -----------------------------------------------------------------------------------------------------------

TEXTS = st.one_of(
    st.text(max_size=60), st.integers(0, 3000).map("word ".__mul__), st.integers(0, 400).map("字".__mul__)
)


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """A brief, then exchanges as the loop makes them: words or calls, and what was answered."""
    made = [Message("user", "brief " + draw(TEXTS))]
    for number in range(draw(st.integers(0, 12))):
        count = draw(st.integers(0, 3))
        calls = tuple(ToolCall(f"{number}.{one}", "write_file", {"content": draw(TEXTS)}) for one in range(count))
        made.append(Message("assistant", draw(TEXTS), calls))
        results = tuple(ToolResult(call.id, draw(TEXTS)) for call in calls)
        made.append(Message("user", "" if results else "Go on.", results=results))
    return made[: len(made) - draw(st.integers(0, 1))] if len(made) > 1 else made


def needed(messages: list[Message]) -> int:
    """Tokens that the brief and the last exchange take when every part is as short as it gets."""
    last = max((at for at, one in enumerate(messages) if one.role == "assistant"), default=0)
    kept = [messages[0], *messages[last or 1 :]]
    return sum(8 + 70 * (1 + 2 * len(one.calls) + len(one.results)) for one in kept)


@given(histories(), st.integers(0, 4000))
def test_a_trimmed_history_keeps_its_prompt_its_end_and_each_call_with_its_result(
    messages: list[Message], more: int
) -> None:
    room = needed(messages) + more
    kept = trim_history(messages, room)
    assert sum(one.tokens for one in kept.messages) == kept.tokens <= room
    assert kept.messages[0].role == "user"
    assert kept.messages[0].text[:5] == "brief"
    called = [call.id for one in kept.messages for call in one.calls]
    answered = [result.call_id for one in kept.messages for result in one.results]
    assert answered == called[: len(answered)]
    assert set(called) - set(answered) <= {call.id for call in messages[-1].calls}
    assert len(kept.messages) + kept.dropped == len(messages)
    tail = messages[len(messages) - len(kept.messages) + 1 :]
    if kept.cut == 0:
        assert list(kept.messages) == [messages[0], *tail]  # the oldest went, and nothing was changed
    if len(messages) > 1:
        assert len(kept.messages) > 1
    if sum(one.tokens for one in messages) <= room:
        assert kept.messages == tuple(messages)


@given(histories(), st.integers(50, 4000))
def test_trimming_twice_changes_nothing_more(messages: list[Message], more: int) -> None:
    room = needed(messages) + more
    once = trim_history(messages, room)
    assert trim_history(once.messages, room).messages == once.messages


def test_one_huge_message_is_cut_in_its_middle_and_the_small_ones_stay() -> None:
    huge = "A" + "x" * 1_000_000 + "Z"
    messages = [
        Message("user", "brief"),
        Message("assistant", "", (ToolCall("1", "run", {"cmd": "make"}),)),
        Message("user", results=(ToolResult("1", huge), ToolResult("2", "short"))),
    ]
    kept = trim_history(messages, 1000)
    text = kept.messages[2].results[0].text
    assert (text[0], text[-1], kept.dropped, kept.cut) == ("A", "Z", 0, 1)
    assert "characters were left out here" in text
    assert kept.messages[2].results[1].text == "short"
    assert 900 < kept.tokens <= 1000


@given(st.text(max_size=300), st.integers(0, 300))
def test_head_and_tail_never_exceed_the_limit(text: str, most: int) -> None:
    cut = head_and_tail(text, most)
    assert len(cut) <= most or cut == text
    assert cut == text or len(text) > most


# Calls that repeat ---------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 30), max_size=80))
def test_different_calls_or_a_changed_tree_are_never_a_repetition(numbers: list[int]) -> None:
    detector = RepetitionDetector()
    for epoch, number in enumerate(numbers):
        assert detector.count_call(ToolCall("1", "run", {"cmd": str(number)}), epoch) is RepetitionVerdict.FINE
    for number in range(200):
        assert detector.count_call(ToolCall("1", "read_file", {"path": str(number)}), 1000) is RepetitionVerdict.FINE


def test_counts_of_a_task_outlive_a_run_and_belong_to_their_step() -> None:
    counts: Counter[str] = Counter()
    look = ToolCall("1", "read_file", {"path": "a"})
    for run in range(12):
        detector = RepetitionDetector(counts, "S-1")
        said = [detector.count_call(look, 0) for _ in range(4)]
        assert said == [
            RepetitionVerdict.FINE,
            RepetitionVerdict.FINE,
            RepetitionVerdict.WARN,
            RepetitionVerdict.WARN,
        ], run
    last = RepetitionDetector(counts, "S-1")
    assert [last.count_call(look, 0), last.count_call(look, 0)] == [RepetitionVerdict.FINE, RepetitionVerdict.STOP]
    assert RepetitionDetector(counts, "S-2").count_call(look, 0) is RepetitionVerdict.FINE


# Plans in words ------------------------------------------------------------------------------------------------------


def test_the_plan_form_is_parsed_in_both_languages() -> None:
    said = """
> **[PLAN]**
> 1. [ ] 分析登录逻辑 (工具: read_file, grep)
> 2. [ ] Change the expiry (tools: apply_patch)
> 3. [x] Run the tests

That is all.
"""
    plan = plan_text.parse_plan(said).plan
    assert plan is not None
    assert [one.description for one in plan.steps] == ["分析登录逻辑", "Change the expiry", "Run the tests"]
    assert [one.tools_expected for one in plan.steps] == [("read_file", "grep"), ("apply_patch",), ()]
    assert plan.steps[2].dependencies == ("step_2",)


def test_the_plan_object_is_parsed_with_prose_around_it() -> None:
    value = {
        "title": "goal",
        "steps": [
            {
                "id": "step_1",
                "description": "look",
                "dependencies": [],
                "status": "pending",
                "tools_expected": ["grep"],
            },
            {"id": "step_2", "description": "change", "dependencies": ["step_1"]},
        ],
        "verification_policy": "run_pytest",
    }
    plan = plan_text.parse_plan(f"Sure!\n```json\n{json.dumps(value)}\n```\n").plan
    assert plan is not None
    assert (plan.title, plan.steps[1].dependencies, plan.verification_policy) == ("goal", ("step_1",), "run_pytest")


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("no plan", ["there is neither a line [PLAN] nor a JSON object with 'steps'"]),
        ("[PLAN]\nlater", ["there is no step after [PLAN]"]),
        ("[PLAN]\n1. look\n3. [ ] mend\n", ["step 1 has no box", "step 2 is numbered 3"]),
        ("[PLAN]\n1. [ ] (tools: run)\n", ["step 1 does not say what is done"]),
        ('{"steps": []}', ["steps: must not be empty"]),
        ('{"steps": [{"id": "a"}], "x": 1}', ["steps[0].description: is required", "x: "]),
        ('{"steps": [{"id": "a", "description": "d", "dependencies": ["b"]}]}', ["there is no step 'b'"]),
        ('{"steps": [{"id": "a", "description": "d"}, {"id": "a", "description": "e"}]}', ["'a' appears twice"]),
        ('{"steps": [', ["is not JSON"]),
    ],
)
def test_a_faulty_plan_is_refused_with_every_fault(text: str, faults: list[str]) -> None:
    read = plan_text.parse_plan(text)
    assert read.plan is None
    for said, wanted in zip(read.faults, faults, strict=True):
        assert wanted in said


@given(st.lists(st.from_regex(r"[A-Za-z][A-Za-z ]{0,30}[a-z]", fullmatch=True), min_size=1, max_size=20))
def test_every_plan_in_the_form_is_parsed_into_its_steps(steps: list[str]) -> None:
    text = "[PLAN]\n" + "".join(f"{at}. [ ] {one} (tools: run)\n" for at, one in enumerate(steps, 1))
    plan = plan_text.parse_plan(text).plan
    assert plan is not None
    assert [one.description for one in plan.steps] == [one.strip() for one in steps]


# Protocols -----------------------------------------------------------------------------------------------------------

JSON = st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=20), st.booleans()), max_size=3)
TEXT = st.one_of(st.none(), st.text(min_size=1, max_size=50))
CALLS = st.lists(JSON, max_size=3)


@given(TEXT, CALLS)
def test_a_stream_and_a_document_are_read_alike_in_both_protocols(text: str | None, calls: list[Any]) -> None:
    turn = Turn(text, tuple(Said("run", one) for one in calls), Tokens(7, 5, 3, 0))
    for wire, protocol in ((Anthropic(), "messages"), (OpenAI(), "chat")):
        reading = wire.reader()
        for event in events(protocol, turn, "m", 1):  # type: ignore[arg-type]
            reading.take(event)
        found = reading.turn
        assert found == wire.parse_document(whole(protocol, turn, "m", 1))  # type: ignore[arg-type]
        assert found is not None
        assert found.text == (turn.text or "")
        assert [one.arguments for one in found.calls] == [one.arguments for one in turn.calls]
        assert found.usage[:3] == (turn.tokens.input, turn.tokens.output, turn.tokens.cache_read)
        assert found.stop_reason is (StopReason.TOOL_USE if turn.calls else StopReason.END_TURN)


def test_blank_lines_separate_events_and_other_lines_are_ignored() -> None:
    lines = ["event: x", "data: {", "data: }", "", ": comment", "id: 3", "data:[DONE]", "", "retry: 1", "data: last"]
    assert list(transport.events(lines)) == ["{\n}", "[DONE]", "last"]


@given(
    st.lists(st.sampled_from(["data: é", "data: 字\u2028x", "", ": ping"])),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.data(),
)
def test_lines_do_not_depend_on_chunk_boundaries(said: list[str], end: str, data: st.DataObject) -> None:
    raw = end.join([*said, ""]).encode()
    cuts = sorted({0, len(raw), *data.draw(st.lists(st.integers(0, len(raw)), max_size=6))})
    chunks = [raw[begin:stop] for begin, stop in itertools.pairwise(cuts)]
    assert list(transport.split_lines(chunks)) == [*said, ""]


def test_other_scripts_count_more_tokens_than_english() -> None:
    assert tokens("word" * 30) == 40
    assert tokens("字" * 30) == 30
    assert tokens("") == 0


KEYS = st.sampled_from(["type", "index", "delta", "choices", "error", "usage", "message", "content", "tool_calls"])
ANYTHING = st.recursive(
    st.one_of(st.none(), st.integers(), st.sampled_from(["content_block_delta", "message_start", "error", "text"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)


@given(ANYTHING)
def test_any_server_output_is_an_answer_or_a_reported_fault(value: Any) -> None:
    for wire in (Anthropic(), OpenAI()):
        with contextlib.suppress(Malformed):
            reading = wire.reader()
            transport.parse_event(reading, json.dumps(value))
            transport.finished_turn(reading)
        with contextlib.suppress(Malformed):
            transport.parse_document(wire, json.dumps(value).encode())


def test_invalid_arguments_are_reported_to_the_model_and_text_is_made_valid() -> None:
    for arguments, words in (
        ('{"a": "\\ud800"}', "surrogate"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ("3", "object"),
    ):
        assert words in call("1", "run", arguments).fault
    said = {"choices": [{"message": {"content": "a\ud800"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": -5}}
    turn = OpenAI().parse_document(said)
    assert (turn.text, turn.usage.tokens) == ("a?", 0)
