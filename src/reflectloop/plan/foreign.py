"""Converts the Reflectloop and the Orchestrator form to the native one; unknown keys become notes."""

from __future__ import annotations

from typing import Any

from reflectloop.plan.reading import PlanSource
from reflectloop.plan.strict_yaml import Path, YamlDocument
from reflectloop.terms import UNTITLED, closest, dotted

_COMMANDS_IN_ORCHESTRATOR = "this form gives every step to an agent; for commands, put title and steps under `plan:`"
_NOT_TEXT = "must be text; put it in quotes"
_POLICIES = {
    "pytest": "test",
    "tests": "test",
    "test": "test",
    "unittest": "test",
    "jest": "test",
    "lint": "lint",
    "ruff": "lint",
    "eslint": "lint",
    "build": "build",
    "compile": "build",
    "none": "none",
    "custom": "custom",
}
_STATES = (
    "pending",
    "in_progress",
    "running",
    "doing",
    "done",
    "completed",
    "failed",
    "blocked",
    "skipped",
    "cancelled",
)
_TOOLS = {"grep": "search", "rg": "search", "find": "search", "bash": "run", "shell": "run", "run_cmd": "run"}


def reflectloop(document: YamlDocument) -> PlanSource:
    """Convert `envelope` + `new_plan.steps[]`; a step with an action and no commands is for an agent."""
    reading = PlanSource("reflectloop", document)
    top = _mapping(document.value)
    envelope = top.get("envelope")
    status = envelope.get("status", "OK") if isinstance(envelope, dict) else "OK"
    if status != "OK":
        reading.faults.append(
            reading.fault(("envelope", "status"), f"the plan's own envelope says {status!r}; only an OK plan is run")
        )
    if envelope is not None and not isinstance(envelope, dict):
        reading.faults.append(reading.fault(("envelope",), "an envelope is a mapping"))
    body = top.get("new_plan")
    if not isinstance(body, dict):
        reading.faults.append(reading.fault(("new_plan",), "is required, and is a mapping with steps"))
        return reading
    _note(reading, top, (), {"envelope", "new_plan"})
    _note(reading, body, ("new_plan",), {"steps", "title", "jobs", "track"})
    title = body.get("title") or top.get("unified_goal") or body.get("unified_goal") or UNTITLED
    reading.value = {"plan": {"title": title if isinstance(title, str) else UNTITLED}}
    reading.names = {("plan",): ("new_plan",)}
    if "jobs" in body:
        reading.value["plan"]["jobs"] = body["jobs"]
    _track(reading, body, ("new_plan",))
    _steps(reading, body.get("steps"), ("new_plan", "steps"), _reflectloop_step)
    return reading


def _reflectloop_step(reading: PlanSource, step: dict[str, Any], place: Path, target: Path) -> dict[str, Any]:
    known = {"id": "id", "commands": "commands", "cwd": "cwd", "depends_on": "depends_on", "verification": "verify"}
    known |= {"env": "env", "timeout_s": "timeout_s", "read_only": "read_only"}
    out = _rename(reading, step, known, place, target)
    out["commands"] = out.get("commands") or []
    action = step.get("action", step.get("title", ""))
    if not isinstance(action, str):
        name = "action" if "action" in step else "title"
        reading.faults.append(reading.fault((*place, name), _NOT_TEXT))
    elif action.strip():
        out["title"] = action.strip().splitlines()[0]
        if not out["commands"]:
            out["agent"] = {"role": "executor", "prompt": action}
    _note(reading, step, place, set(known) | {"action", "title"})
    return {key: value for key, value in out.items() if value is not None}


def orchestrator(document: YamlDocument) -> PlanSource:
    """Convert `title, steps[]{id, description, …}, verification_policy`; every step is for an agent."""
    reading = PlanSource("orchestrator", document)
    top = _mapping(document.value)
    known = {"title", "steps", "verification_policy", "track"}
    _note(reading, top, (), known)
    reading.value = {"plan": {"title": top["title"]} if "title" in top else {}}
    reading.names = {("plan",): ()}
    _track(reading, top, ())
    policy = top.get("verification_policy")
    if policy is not None:
        _policy(reading, policy)
    _steps(reading, top.get("steps"), ("steps",), _orchestrator_step)
    return reading


def _track(reading: PlanSource, body: dict[str, Any], place: Path) -> None:
    """Take the track that the file names; without one, direct: these forms cannot say what a feature must prove."""
    if "track" in body:
        reading.names["plan", "track"] = (*place, "track")
    else:
        reading.warnings.append("the plan names no track; direct is assumed")
    reading.value["plan"]["track"] = body.get("track", "direct")


def _policy(reading: PlanSource, policy: object) -> None:
    if not isinstance(policy, str):
        reading.faults.append(reading.fault(("verification_policy",), _NOT_TEXT))
        return
    name = policy.removeprefix("run_").lower()
    mode = _POLICIES.get(name)
    if mode is None or mode == "none":
        reading.warnings.append(
            f"verification_policy {policy!r} names nothing that can be run; the project's checks are used"
        )
    else:
        reading.value["plan"]["verification"] = {"mode": mode}
        reading.names["plan", "verification"] = ("verification_policy",)


def _orchestrator_step(reading: PlanSource, step: dict[str, Any], place: Path, target: Path) -> dict[str, Any]:
    out = _rename(reading, step, {"id": "id", "dependencies": "depends_on"}, place, target)
    text = step.get("description")
    tools = step.get("tools_expected") or []
    if isinstance(tools, list):
        tools = [_TOOLS.get(tool, tool) if isinstance(tool, str) else tool for tool in tools]
    out["title"] = text.splitlines()[0] if isinstance(text, str) and text else ""
    out["agent"] = {"role": "executor", "tools": tools} | ({"prompt": text} if "description" in step else {})
    reading.names[*target, "agent", "prompt"] = (*place, "description")
    reading.names[*target, "agent", "tools"] = (*place, "tools_expected")
    if step.get("status") not in (None, *_STATES):
        known = ", ".join(_STATES)
        reading.faults.append(reading.fault((*place, "status"), f"{step['status']!r} is no state; known: {known}"))
    elif step.get("status") not in (None, "pending"):
        reading.warnings.append(
            f"{dotted(place)}: status {step['status']!r} is ignored; the journal decides what is done"
        )
    native = [key for key in ("commands", "run") if key in step]
    reading.faults += [reading.fault((*place, key), _COMMANDS_IN_ORCHESTRATOR) for key in native]
    _note(reading, step, place, {"id", "description", "dependencies", "status", "tools_expected", *native})
    return {key: value for key, value in out.items() if value is not None}


# Common to both ---------------------------------------------------------------------------------------


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _steps(reading: PlanSource, steps: object, place: Path, convert: Any) -> None:  # noqa: ANN401
    body = reading.value["plan"]
    reading.names["plan", "steps"] = place
    if not isinstance(steps, list):
        body["steps"] = steps if steps is not None else []
        return
    body["steps"] = []
    for number, step in enumerate(steps):
        target: Path = ("plan", "steps", number)
        if isinstance(step, dict):
            body["steps"].append(convert(reading, step, (*place, number), target))
        else:
            body["steps"].append(step)


def _rename(
    reading: PlanSource, step: dict[str, Any], known: dict[str, str], place: Path, target: Path
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for theirs, ours in known.items():
        if theirs in step:
            out[ours] = _as_names(step[theirs]) if ours in ("id", "depends_on") else step[theirs]
            reading.names[*target, ours] = (*place, theirs)
    return out


def _as_names(value: Any) -> Any:  # noqa: ANN401
    """Turn numbers of steps into names."""
    if isinstance(value, list):
        return [_as_names(item) for item in value]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _note(reading: PlanSource, value: dict[str, Any], place: Path, known: set[str]) -> None:
    """Store unknown keys as notes. A key that looks like a misspelled known one is a fault."""
    for key, note in value.items():
        if key in known:
            continue
        close = closest(key, known, 0.75)
        if close and close not in value:
            fault = reading.fault((*place, key), f"unknown key '{key}'; did you mean '{close}'?")
            reading.faults.append(fault._replace(path=dotted((*place, key)), line=reading.document.line((*place, key))))
        else:
            reading.notes[dotted((*place, key))] = note
