"""Describes what a plan would do, and what a run did, as plain data."""

from __future__ import annotations

from typing import Any

from reflectloop import config, policy
from reflectloop.engine.run.admission import networks, reach, refuse_agents, refuse_commands, refuse_untrusted
from reflectloop.engine.run.request import RunOutcome, RunRequest
from reflectloop.plan import load as plans
from reflectloop.plan.load import LoadedPlan
from reflectloop.plan.model import Plan, Step, command_text
from reflectloop.plan.order import batches
from reflectloop.workspace import project


def preview(request: RunRequest) -> dict[str, Any]:
    """Check what `run` checks before it runs; return the plan with its batches, isolation and network."""
    root = project.locate(request.start, request.mode)
    settings = config.load(root)
    loaded = plans.load(plans.locate(root, request.plan, lambda path: project.is_tracked(root, path)))
    refuse_agents(loaded, settings, request.caller, root)
    refuse_untrusted(loaded.plan, settings)
    refuse_commands(loaded, policy.of(settings.policy, root))
    wall = reach(settings, request, loaded)
    asked = networks(settings, loaded.plan).values()
    return {**describe(loaded), "isolation": wall.stamp(asked), "network": str(wall.network(None))}


def describe(loaded: LoadedPlan) -> dict[str, Any]:
    plan = loaded.plan
    by_id = {step.id: step for step in plan.steps}
    order = batches({step.id: step.depends_on for step in plan.steps})
    return {
        "path": str(loaded.path),
        "form": loaded.form,
        "title": plan.title,
        "goal": plan.objective.goal,
        "track": str(plan.settled_track),
        "plan_hash": plan.hash,
        "batches": [[_step(plan, by_id[name]) for name in batch] for batch in order],
        "warnings": list(loaded.warnings),
        "notes": loaded.notes,
    }


def _step(plan: Plan, step: Step) -> dict[str, Any]:
    return {
        "id": step.id,
        "title": step.title,
        "cwd": step.cwd,
        "timeout_s": step.timeout_s,
        "depends_on": list(step.depends_on),
        "commands": [command_text(command) for command in step.commands],
        "agent": step.agent.model_dump(mode="json") if step.agent else None,
        "checks": [
            f"{name}: {check.description}" + (" (must fail)" if must_fail else "")
            for name, check, must_fail in plan.checks_of(step)
        ],
    }


def outcome_data(outcome: RunOutcome) -> dict[str, Any]:
    return {
        "folder": str(outcome.folder.path),
        "steps": [
            {
                "id": step.id,
                "success": step.success,
                "exit_code": step.exit_code,
                "error_code": step.error_code,
                "reason": step.reason,
                "duration_ms": step.duration_ms,
                "tree": step.tree,
                "checks": [{"name": check.name, "held": check.held, "reason": check.reason} for check in step.checks],
                "fixes": [fix._asdict() for fix in step.fixes],
            }
            for step in outcome.steps
        ],
        "touched_files": [
            {"path": change.path, "change": change.change, "from": change.source} for change in outcome.touched
        ],
        "known_fixes": list(outcome.known_fixes),
        "patch": str(outcome.folder.patch) if not outcome.error else None,
    }
