"""The loop's tools, which are FileOps ops, and the text of their results for the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel

from reflectloop.agents.loop.context_window import head_and_tail
from reflectloop.agents.loop.control import schema
from reflectloop.agents.messages import Json, ModelTool, ToolCall, ToolResult
from reflectloop.fileops.request import READING, WRITING, RunOp
from reflectloop.fileops.response import Response
from reflectloop.plan import tool_names

_DESCRIPTIONS: dict[str, str] = {
    "read_file": "Read a text file of the workspace, whole or some lines.",
    "list_dir": "List a folder of the workspace.",
    "search": "Find lines that contain a text, or match a regular expression (RE2).",
    "write_file": "Write a whole text file.",
    "write_json": "Write a value as a JSON file.",
    "apply_patch": "Change files by a '*** Begin Patch' text or a unified diff.",
    "delete_file": "Delete a file.",
    "move_file": "Move a file; nothing is moved over another.",
    "run": "Run a command in the workspace. An exit code other than 0 is a failure, and its changes are rolled back.",
}
_DEFAULT_MS: int = RunOp.model_fields["timeoutMs"].default


def tools(*, looks_only: bool, names: Sequence[str] = ()) -> tuple[ModelTool, ...]:
    """Return the tools of a role, without those that the plan's names for the step do not permit."""
    models = READING if looks_only else (*READING, *WRITING, RunOp)
    kinds = tool_names.kinds_of(names)
    made = tuple(_tool(model) for model in models)
    return made if kinds is None else tuple(tool for tool in made if tool_names.kind_of(tool.name) in kinds)


def _tool(model: type[BaseModel]) -> ModelTool:
    name = get_args(model.model_fields["op"].annotation)[0]
    made = schema(model)
    made["properties"].pop("op")
    made["required"] = [key for key in made.get("required", ()) if key != "op"]
    return ModelTool(name, _DESCRIPTIONS[name], made)


def op_of(call: ToolCall, left_s: float) -> Json:
    """Return the op that a call asks for; a command's timeout is limited to the remaining time."""
    op = {**call.arguments, "op": call.name}
    timeout_ms = op.get("timeoutMs", _DEFAULT_MS)
    if call.name == "run" and isinstance(timeout_ms, int):
        op["timeoutMs"] = max(1, min(timeout_ms, int(left_s * 1000)))
    return op


def refusals(response: Response) -> list[str]:
    """Return what the engine did not allow, as opposed to what failed."""
    if response.status == "ask" and response.ask:
        return [str(response.ask.get("question", "a person must say"))]
    if response.status != "validation_error":
        return []
    return [error.error for error in response.errors if error.field.endswith(".cmd") or "is outside" in error.error]


def tool_result(call: ToolCall, response: Response, most: int, warning: str = "") -> ToolResult:
    result: Json = {"status": response.status, **({"warning": warning} if warning else {})}
    if _late(response):
        result["error"] = "E_TIMEOUT"
    if response.status == "ok":
        result |= _done(response)
    else:
        result |= _not_done(response)
    if response.proof.commands:
        result["commands"] = [command.model_dump(mode="json") for command in response.proof.commands]
    if response.proof.notes:
        result["notes"] = list(response.proof.notes)
    text = json.dumps(result, ensure_ascii=False)
    return ToolResult(call.id, _fitting(call, result, text, most), response.status != "ok")


def _done(response: Response) -> Json:
    values = [value for key, value in response.data.items() if key.isdigit()]
    data: Json = {"data": values[0]} if values else {}
    return {**data, "changedFiles": list(response.changedFiles), "summary": [op.summary for op in response.ops]}


def _not_done(response: Response) -> Json:
    result: Json = {"faults": [f"{error.field.removeprefix('ops[0].')}: {error.error}" for error in response.errors]}
    if response.fail:
        result |= {"reason": response.fail.reason, "hint": response.fail.hint}
    return {**result, **({"ask": response.ask} if response.ask else {})}


def _late(response: Response) -> bool:
    return response.status == "fail" and any(error.field.endswith(".timeoutMs") for error in response.errors)


def _fitting(call: ToolCall, result: Json, text: str, most: int) -> str:
    if len(text) <= most:
        return text
    hint = " Ask for fewer lines (startLine, endLine)." if call.name == "read_file" else ""
    shorter = _shorter(result, most // 2)
    return head_and_tail(
        json.dumps({**shorter, "note": f"Too long to be shown whole.{hint}"}, ensure_ascii=False), most
    )


def _shorter(value: Any, most: int) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        return head_and_tail(value, most)
    if isinstance(value, list):
        return [_shorter(item, most) for item in value]
    return {key: _shorter(item, most) for key, item in value.items()} if isinstance(value, dict) else value


def error_result(call: ToolCall, *faults: str, code: str = "E_INVALID_CALL") -> ToolResult:
    return ToolResult(call.id, json.dumps({"error": code, "faults": list(faults)}, ensure_ascii=False), is_error=True)
