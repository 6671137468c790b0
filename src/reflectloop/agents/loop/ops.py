"""The tools of the loop, which are FileOps ops, and what a model is told of what they did."""

from __future__ import annotations

import json
from typing import Any, get_args

from pydantic import BaseModel

from reflectloop.agents.loop.context_window import head_and_tail
from reflectloop.agents.loop.control import schema
from reflectloop.agents.messages import Json, ModelTool, ToolCall, ToolResult
from reflectloop.fileops.request import READING, WRITING, RunOp
from reflectloop.fileops.response import Response

_SAID: dict[str, str] = {
    "read_file": "Read a text file of the workspace, whole or some lines.",
    "list_dir": "List a folder of the workspace.",
    "search": "Find lines that hold a text, or match a regular expression (RE2).",
    "write_file": "Write a whole text file.",
    "write_json": "Write a value as a JSON file.",
    "apply_patch": "Change files by a '*** Begin Patch' text or a unified diff.",
    "delete_file": "Delete a file.",
    "move_file": "Move a file; nothing is moved over another.",
    "run": "Run a command in the workspace. An exit code other than 0 fails, and takes back what it changed.",
}
_DEFAULT_MS: int = RunOp.model_fields["timeoutMs"].default


def tools(*, looks_only: bool) -> tuple[ModelTool, ...]:
    models = READING if looks_only else (*READING, *WRITING, RunOp)
    return tuple(_tool(model) for model in models)


def _tool(model: type[BaseModel]) -> ModelTool:
    name = get_args(model.model_fields["op"].annotation)[0]
    made = schema(model)
    made["properties"].pop("op")
    made["required"] = [key for key in made.get("required", ()) if key != "op"]
    return ModelTool(name, _SAID[name], made)


def op_of(call: ToolCall, left_s: float) -> Json:
    """The op that a call asks for; a command gets no more time than there is."""
    op = {**call.arguments, "op": call.name}
    asked = op.get("timeoutMs", _DEFAULT_MS)
    if call.name == "run" and isinstance(asked, int):
        op["timeoutMs"] = max(1, min(asked, int(left_s * 1000)))
    return op


def refusals(response: Response) -> list[str]:
    """What was not allowed, as opposed to what went wrong."""
    if response.status == "ask" and response.ask:
        return [str(response.ask.get("question", "a person must say"))]
    if response.status != "validation_error":
        return []
    return [one.error for one in response.errors if one.field.endswith(".cmd") or "lies outside" in one.error]


def told(call: ToolCall, response: Response, most: int, warning: str = "") -> ToolResult:
    said: Json = {"status": response.status, **({"warning": warning} if warning else {})}
    if _late(response):
        said["error"] = "E_TIMEOUT"
    if response.status == "ok":
        said |= _done(response)
    else:
        said |= _not_done(response)
    if response.proof.commands:
        said["commands"] = [one.model_dump(mode="json") for one in response.proof.commands]
    if response.proof.notes:
        said["notes"] = list(response.proof.notes)
    text = json.dumps(said, ensure_ascii=False)
    return ToolResult(call.id, _fitting(call, said, text, most), response.status != "ok")


def _done(response: Response) -> Json:
    found = [value for key, value in response.data.items() if key.isdigit()]
    data: Json = {"data": found[0]} if found else {}
    return {**data, "changedFiles": list(response.changedFiles), "summary": [one.summary for one in response.ops]}


def _not_done(response: Response) -> Json:
    said: Json = {"faults": [f"{one.field.removeprefix('ops[0].')}: {one.error}" for one in response.errors]}
    if response.fail:
        said |= {"reason": response.fail.reason, "hint": response.fail.hint}
    return {**said, **({"ask": response.ask} if response.ask else {})}


def _late(response: Response) -> bool:
    return response.status == "fail" and any(one.field.endswith(".timeoutMs") for one in response.errors)


def _fitting(call: ToolCall, said: Json, text: str, most: int) -> str:
    if len(text) <= most:
        return text
    hint = " Ask for fewer lines (startLine, endLine)." if call.name == "read_file" else ""
    shorter = _shorter(said, most // 2)
    return head_and_tail(
        json.dumps({**shorter, "note": f"Too long to be shown whole.{hint}"}, ensure_ascii=False), most
    )


def _shorter(value: Any, most: int) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        return head_and_tail(value, most)
    if isinstance(value, list):
        return [_shorter(item, most) for item in value]
    return {key: _shorter(item, most) for key, item in value.items()} if isinstance(value, dict) else value


def wrong(call: ToolCall, *faults: str, code: str = "E_INVALID_CALL") -> ToolResult:
    return ToolResult(call.id, json.dumps({"error": code, "faults": list(faults)}, ensure_ascii=False), is_error=True)
