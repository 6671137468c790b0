"""What the agents of a task have used, of what they may, as people and programs read it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from reflectloop.config import Config
from reflectloop.plan.model import PlanBudget
from reflectloop.state.fold import AgentUsage, Task

_WHOLE = "(task)"  # planning and the final review; no step can be called so
_HEAD = ["| step | role | calls | turns | tokens | USD | seconds |", "|---|---|---|---|---|---|---|"]


class AgentBudget(NamedTuple):
    """What all agents of a task may use together; None: no limit."""

    tokens: int | None = None
    usd: float | None = None
    wall_s: float | None = None

    @classmethod
    def of(cls, settings: Config, limits: PlanBudget | None = None) -> AgentBudget:
        """The narrower of what the project and the plan say."""
        said = (settings.cost, limits or PlanBudget())
        return cls(*(_least(getattr(one, name) for one in said) for name in cls._fields))


def _least(values: Iterable[Any]) -> Any:  # noqa: ANN401 - numbers of either kind
    return min((one for one in values if one is not None), default=None)


def since(task: Task) -> AgentUsage:
    """What was used since a person last gave leave: this is what counts against an allowance."""
    total, granted = task.spent_in_all, task.granted
    return AgentUsage(*(getattr(total, name) - getattr(granted, name) for name in AgentUsage.__dataclass_fields__))


def by_role(task: Task) -> dict[str, AgentUsage]:
    """Over all steps."""
    found: dict[str, AgentUsage] = {}
    for roles in task.spent.values():
        for role, one in roles.items():
            found[role] = found.get(role, AgentUsage()).plus(one)
    return found


# As words ---------------------------------------------------------------------------------------------------------


def line(one: AgentUsage, most: AgentBudget | None = None) -> str:
    """What was used; with an allowance, only what it limits, and of how much."""
    if most is None:
        tokens, seconds = f"{one.tokens:,} tokens", f"{one.wall_ms / 1000:.1f} s"
        return ", ".join((f"{one.calls} call(s)", f"{one.turns} turn(s)", tokens, money(one), seconds))
    found = (
        f"{one.tokens:,} of {most.tokens:,} tokens" if most.tokens else "",
        f"{money(one)} of {most.usd:g} USD" if most.usd else "",
        f"{one.wall_ms / 1000:.1f} of {most.wall_s:g} s" if most.wall_s else "",
    )
    return ", ".join(filter(None, found))


def money(one: AgentUsage) -> str:
    """What is not known is said to be so, and is never nothing."""
    if not one.unpriced:
        return f"{one.usd:.4f} USD"
    if one.unpriced == one.calls:
        return "unknown cost"
    return f"{one.usd:.4f} USD and {one.unpriced} call(s) of unknown cost"


def words(said: Mapping[str, Any], step: str = "") -> Iterator[str]:
    """What `data` says, for a person: in all, by role, and of the step at work."""
    yield f"agents: {line(_spent(said['in_all']))}"
    yield from (f"  {role}: {line(_spent(one))}" for role, one in said["by_role"].items())
    yield from (f"  step {step}, {role}: {line(_spent(one))}" for role, one in said["by_step"].get(step, {}).items())
    most = AgentBudget(**said.get("allowed", {}))
    if most != AgentBudget():
        yield f"  budget: {line(_spent(said['counted']), most)}"


def _spent(said: Mapping[str, Any]) -> AgentUsage:
    return AgentUsage(**{**said, "usd": said["usd"] or 0.0})


def table(task: Task) -> list[str]:
    """By step and role, and in all."""
    rows = [(step or _WHOLE, role, one) for step, roles in task.spent.items() for role, one in roles.items()]
    if not rows:
        return ["No agent was asked."]
    return [*_HEAD, *(_row(*row) for row in [*rows, ("all", "", task.spent_in_all)])]


def _row(step: str, role: str, one: AgentUsage) -> str:
    known = "" if one.unpriced == one.calls else f"{one.usd:.4f}"
    usd = " + ".join(filter(None, (known, f"{one.unpriced} unknown" if one.unpriced else "")))
    return f"| {step} | {role} | {one.calls} | {one.turns} | {one.tokens} | {usd} | {one.wall_ms / 1000:.1f} |"


# As data ----------------------------------------------------------------------------------------------------------


def data(task: Task, most: AgentBudget | None = None) -> dict[str, Any]:
    """`usd` is the part that is known, and null where none of it is; `unpriced` counts the calls it leaves out."""
    steps = {step or _WHOLE: {role: _plain(one) for role, one in roles.items()} for step, roles in task.spent.items()}
    said = {
        "in_all": _plain(task.spent_in_all),
        "by_role": {role: _plain(one) for role, one in by_role(task).items()},
        "by_step": steps,
    }
    return said | ({"counted": _plain(since(task)), "allowed": most._asdict()} if most is not None else {})


def _plain(one: AgentUsage) -> dict[str, Any]:
    found = {name: getattr(one, name) for name in AgentUsage.__dataclass_fields__}
    return found | {"usd": None if one.unpriced and one.unpriced == one.calls else round(one.usd, 6)}
