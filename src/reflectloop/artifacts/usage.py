"""The usage of a task's agents and their budget, as text and as data. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from reflectloop.config import Config
from reflectloop.plan.model import PlanBudget
from reflectloop.state.fold import AgentUsage, Task

_TASK = "(task)"  # planning and the final review; no step can have this id
_HEAD = ["| step | role | calls | turns | tokens | USD | seconds |", "|---|---|---|---|---|---|---|"]


class AgentBudget(NamedTuple):
    """The budget that all agents of a task share; None means no limit."""

    tokens: int | None = None
    usd: float | None = None
    wall_s: float | None = None

    @classmethod
    def of(cls, settings: Config, limits: PlanBudget | None = None) -> AgentBudget:
        """Return the lower limits of the project's settings and the plan."""
        budgets = (settings.cost, limits or PlanBudget())
        return cls(*(_least(getattr(budget, name) for budget in budgets) for name in cls._fields))


def _least(values: Iterable[Any]) -> Any:  # noqa: ANN401 - numbers of either kind
    return min((value for value in values if value is not None), default=None)


def used_since_unlock(task: Task) -> AgentUsage:
    """Return what was used since a person last unlocked the task: only that counts against the budget."""
    total, granted = task.spent_in_all, task.granted
    return AgentUsage(**{name: value - getattr(granted, name) for name, value in total.fields().items()})


def by_role(task: Task) -> dict[str, AgentUsage]:
    """Return the usage of each role over all steps."""
    total: dict[str, AgentUsage] = {}
    for roles in task.spent.values():
        for role, used in roles.items():
            total[role] = total.get(role, AgentUsage()).plus(used)
    return total


# As text ---------------------------------------------------------------------------------------------------------


def usage_line(used: AgentUsage, most: AgentBudget | None = None) -> str:
    """Return the usage as one line; with a budget, only what it limits and by how much."""
    if most is None:
        tokens, seconds = f"{used.tokens:,} tokens", f"{used.wall_ms / 1000:.1f} s"
        return ", ".join((f"{used.calls} call(s)", f"{used.turns} turn(s)", tokens, money(used), seconds))
    parts = (
        f"{used.tokens:,} of {most.tokens:,} tokens" if most.tokens else "",
        f"{money(used)} of {most.usd:g} USD" if most.usd else "",
        f"{used.wall_ms / 1000:.1f} of {most.wall_s:g} s" if most.wall_s else "",
    )
    return ", ".join(filter(None, parts))


def money(used: AgentUsage) -> str:
    """Return the cost as text; calls of unknown price are named, never counted as free."""
    if not used.unpriced:
        return f"{used.usd:.4f} USD"
    if used.unpriced == used.calls:
        return "unknown cost"
    return f"{used.usd:.4f} USD and {used.unpriced} call(s) of unknown cost"


def usage_lines(used: Mapping[str, Any], step: str = "") -> Iterator[str]:
    """Yield the result of `data` as lines: the total, by role, and for the current step."""
    yield f"agents: {usage_line(_usage(used['in_all']))}"
    yield from (f"  {role}: {usage_line(_usage(part))}" for role, part in used["by_role"].items())
    yield from (
        f"  step {step}, {role}: {usage_line(_usage(part))}" for role, part in used["by_step"].get(step, {}).items()
    )
    most = AgentBudget(**used.get("allowed", {}))
    if most != AgentBudget():
        yield f"  budget: {usage_line(_usage(used['counted']), most)}"


def _usage(fields: Mapping[str, Any]) -> AgentUsage:
    return AgentUsage(**{**fields, "usd": fields["usd"] or 0.0})


def table(task: Task) -> list[str]:
    """Return the usage by step and role, and the total, as a Markdown table."""
    rows = [(step or _TASK, role, used) for step, roles in task.spent.items() for role, used in roles.items()]
    if not rows:
        return ["No agent was asked."]
    return [*_HEAD, *(_row(*row) for row in [*rows, ("all", "", task.spent_in_all)])]


def _row(step: str, role: str, used: AgentUsage) -> str:
    known = "" if used.unpriced == used.calls else f"{used.usd:.4f}"
    usd = " + ".join(filter(None, (known, f"{used.unpriced} unknown" if used.unpriced else "")))
    return f"| {step} | {role} | {used.calls} | {used.turns} | {used.tokens} | {usd} | {used.wall_ms / 1000:.1f} |"


# As data ----------------------------------------------------------------------------------------------------------


def data(task: Task, most: AgentBudget | None = None) -> dict[str, Any]:
    """Return the usage as JSON data.

    `usd` is the known part of the cost, null if none is known; `unpriced` counts the calls without a price.
    """
    steps = {step or _TASK: {role: _plain(used) for role, used in roles.items()} for step, roles in task.spent.items()}
    used = {
        "in_all": _plain(task.spent_in_all),
        "by_role": {role: _plain(part) for role, part in by_role(task).items()},
        "by_step": steps,
    }
    return used | ({"counted": _plain(used_since_unlock(task)), "allowed": most._asdict()} if most is not None else {})


def _plain(used: AgentUsage) -> dict[str, Any]:
    fields = used.fields()
    return fields | {"usd": None if used.unpriced and used.unpriced == used.calls else round(used.usd, 6)}
