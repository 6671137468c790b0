"""Hands for an agent that has none: its ops on the workspace as it is, and none of those that act on the plan."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reflectloop.agents.backend import Act
from reflectloop.fileops import execute
from reflectloop.fileops.ops_context import InMemoryResponses, NoPlanOps, OpsContext
from reflectloop.fileops.response import FieldError, Response
from reflectloop.plan import tool_names
from reflectloop.system import clock

PROTO = "triflow.fileops.v1"


def by(context: OpsContext, *, writable: bool, tools: Sequence[str] = ()) -> Act:
    """Return file operations for an agent: validated, judged by the policy, executed in the sandbox, all or nothing.

    If the plan names the tools of the step, an op that none of them stands for is refused.
    """
    own = replace(
        context,
        box=replace(context.box, read_only=not writable),
        domain=NoPlanOps(),
        memory=InMemoryResponses(),
        writable=(".",) if writable else (),
    )

    def act(ops: Sequence[Mapping[str, Any]]) -> Response:
        errors = tuple(not_permitted(tools, ops))
        if errors:
            return Response(id=new_id(), status="validation_error", errors=errors)
        request = {
            "proto": PROTO,
            "id": new_id(),
            "purpose": "execute_step",
            "ops": list(ops),
            "report": {"commandOutputs": "always"},
        }
        return execute.answer(json.dumps(request).encode(), own)

    return act


def not_permitted(tools: Sequence[str], ops: Sequence[Mapping[str, Any]]) -> Iterator[FieldError]:
    """Yield an error for each op that the tools of a step do not permit; unknown names of tools permit everything."""
    kinds = tool_names.kinds_of(tools)
    for number, op in enumerate(ops):
        kind = tool_names.kind_of(str(op.get("op", "")))
        if kinds is not None and kind is not None and kind not in kinds:
            why = f"{op['op']!r} is outside the tools that the plan names for this step: {', '.join(tools)}"
            yield FieldError(field=f"ops[{number}].op", error=why)


def new_id() -> str:
    return clock.run_id(clock.now()).replace("RLOP", "REQ")
