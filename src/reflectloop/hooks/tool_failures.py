"""Explain a failed tool call to the agent that made it."""

from __future__ import annotations

from reflectloop.diagnosis import log_diagnosis
from reflectloop.hooks.model import ALLOW, HookAnswer, HookCall

_MOST_PLACES = 3


def explain(call: HookCall) -> HookAnswer:
    """Return the cause of the failure, the known fix and the places, as more context for the agent."""
    if not call.output.strip():
        return ALLOW
    result = log_diagnosis.diagnose_log(call.output, exit_code=1, rules=log_diagnosis.use_project(call.folder))
    known = result.failure.diagnosis if result.failure else None
    lines = [f"TOOL REFLECTION: {call.tool or 'the tool'} failed.", f"What: {result.result.summary}"]
    if known and known.root_cause:
        lines.append(f"Cause: {known.root_cause}")
    fix = ((known.next_command or known.suggestion) if known else "") or result.result.suggestion
    if fix:
        lines.append(f"Fix: {fix}")
    lines += [f"At {detail.file}:{detail.line}: {detail.error}" for detail in result.result.details[:_MOST_PLACES]]
    return HookAnswer(context="\n".join(lines))
