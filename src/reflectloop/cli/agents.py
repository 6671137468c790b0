"""`agents`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from reflectloop.cli import render
from reflectloop.cli.interrupts import as_interrupts
from reflectloop.cli.render import colours, common, say
from reflectloop.engine import agent_status
from reflectloop.engine.agent_status import AgentRow, AgentTable
from reflectloop.engine.envelope import of_error
from reflectloop.system import clock

_CAN = ("schema_output", "os_sandbox", "resume", "usage")
_MARKS = {"ready": ("green", "✓"), "unavailable": ("red", "✗"), "not set up": ("dim", "·")}


@click.command()
@click.option("--check", is_flag=True, help="Ask each one that is ready for one word, outside the project.")
@common
def agents(check: bool, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """List the agents: what is bound to which role, what is installed, what each can do and what it lacks.

    Of keys it is said whether they are set, never what they are. Exits 61 when a role is bound to an agent that
    cannot be asked, or that did not answer.

    \b
    Example: reflectloop agents --check
    """
    as_interrupts()
    found = agent_status.listed(project_dir, check=check)
    fault = found.fault
    if as_json and fault:
        render.as_json(of_error("agents", clock.stamp(clock.now()), fault), _as_data(found))
    elif as_json:
        render.answer("agents", _as_data(found))
    else:
        _show(found)
        if fault:
            render.explain(fault)
    sys.exit(fault.exit_code if fault else 0)


def _as_data(found: AgentTable) -> dict[str, Any]:
    return {"agents": [_row(row) for row in found.rows], "unbound_roles": found.free}


def _row(row: AgentRow) -> dict[str, Any]:
    probe, tried = row.probe, row.tried
    return {
        "name": row.name,
        "kind": row.kind,
        "roles": row.roles,
        "state": row.state,
        "version": probe.version,
        "can": [name for name in _CAN if getattr(probe, name)],
        "keys": dict(row.keys),
        "problem": probe.problem,
        "next": probe.next_step if probe.problem else None,
        "tried": None
        if tried is None
        else {
            "status": tried.status,
            "reason": tried.reason,
            "duration_ms": tried.duration_ms,
            "tokens": tried.usage.tokens,
            "cost_usd": tried.cost_usd,
        },
    }


def _show(found: AgentTable) -> None:
    paint = colours()
    for row in found.rows:
        kind = f" ({row.kind})" if row.kind != row.name else ""
        told = ", ".join([*([row.probe.version] if row.probe.version else []), *_abilities(row)])
        roles = f"  → {', '.join(row.roles)}" if row.roles else ""
        mark = _MARKS["unavailable" if row.tried and not row.tried.ok else row.state]
        say(f"{paint(*mark)} {row.name + kind:20} {told or row.state}{roles}")
        if row.keys and row.state != "not set up":
            say(f"  {'':20} {', '.join(f'{name} {state}' for name, state in row.keys.items())}")
        if row.probe.problem:
            say(f"  {'':20} {row.probe.problem} → {row.probe.next_step}")
        if row.tried:
            word = "answered" if row.tried.ok else f"{row.tried.status}: {row.tried.reason}"
            say(f"  {'':20} {word} in {row.tried.duration_ms / 1000:.1f} s, {row.tried.usage.tokens} tokens")
    if found.free:
        say(f"roles bound to none: {', '.join(found.free)}")


def _abilities(row: AgentRow) -> list[str]:
    return [name.replace("_", " ") for name in _CAN if getattr(row.probe, name)]
