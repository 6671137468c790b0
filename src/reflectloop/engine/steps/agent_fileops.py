"""Hands for an agent that has none: its ops on the workspace as it is, and none of those that act on the plan."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reflectloop.agents.backend import Act
from reflectloop.fileops import execute
from reflectloop.fileops.ops_context import InMemoryResponses, NoPlanOps, OpsContext
from reflectloop.fileops.response import Response
from reflectloop.system import clock

PROTO = "triflow.fileops.v1"


def by(hands: OpsContext, *, writable: bool) -> Act:
    """Return file operations for an agent: validated, judged by the policy, executed in the sandbox, all or nothing."""
    own = replace(
        hands,
        box=replace(hands.box, read_only=not writable),
        domain=NoPlanOps(),
        memory=InMemoryResponses(),
        writable=(".",) if writable else (),
    )

    def act(ops: Sequence[Mapping[str, Any]]) -> Response:
        said = {
            "proto": PROTO,
            "id": new_id(),
            "purpose": "execute_step",
            "ops": list(ops),
            "report": {"commandOutputs": "always"},
        }
        return execute.answer(json.dumps(said).encode(), own)

    return act


def new_id() -> str:
    return clock.run_id(clock.now()).replace("RLOP", "REQ")
