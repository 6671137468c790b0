"""Refuses plans, commands and patches: before anything runs, and before anything is let through."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from reflectloop import config
from reflectloop.engine.run.request import RunRequest
from reflectloop.errors import AgentUnavailable, Fault, GateRejected, Latched
from reflectloop.plan.load import LoadedPlan
from reflectloop.plan.model import Plan, Step
from reflectloop.policy import CommandPolicy, PolicyVerdict
from reflectloop.sandbox import isolation
from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.state.fold import Task
from reflectloop.terms import Isolation, Network, Role, Track, join_first
from reflectloop.workspace.added_lines import AddedSecret

_NAMED = 5  # of many findings, in a message
_SHOWN = 120  # characters of a command, in a message


def refuse_agents(loaded: LoadedPlan, settings: config.Config, caller: Mapping[str, str], root: Path) -> None:
    """Refuse a plan whose steps need an agent if no agent is bound to their role, or if it cannot be called."""
    needing = {step.id: Role(step.agent.role) for step in loaded.plan.steps if step.agent}
    unbound = {name: role for name, role in needing.items() if settings.roles.bound_to(role) is None}
    if unbound:
        settings.refuse_without(*(f"roles.{role}" for role in unbound.values()))
        how = ", ".join(f'{role} = "NAME"' for role in dict.fromkeys(unbound.values()))
        raise AgentUnavailable(
            f"step(s) {', '.join(unbound)} need an agent, and none is bound to their role",
            next_step=f"{how} under [roles] in {config.NAME}; what there is: reflectloop agents",
            missing=tuple(f"role:{role}" for role in dict.fromkeys(unbound.values())),
        )
    for agent in dict.fromkeys(str(settings.roles.bound_to(role)) for role in needing.values()):
        _refuse_unwell(agent, settings, caller, root)


def _refuse_unwell(name: str, settings: config.Config, caller: Mapping[str, str], root: Path) -> None:
    from reflectloop.agents import bind  # noqa: PLC0415 - most plans need no agent

    probed = bind(name, settings, caller, root).probe()
    if probed.problem:
        raise AgentUnavailable(
            f"agent {name}: {probed.problem}", next_step=probed.next_step, missing=(f"backend:{name}",)
        )


def refuse_untrusted(plan: Plan, settings: config.Config) -> None:
    """Refuse a plan that must prove something where what its proof needs came with the project and is not trusted."""
    if plan.settled_track is not Track.DIRECT or plan.verification:
        settings.refuse_without("verify.setup", "verify.checks")


def refuse_incomplete(plan: Plan) -> None:
    """Refuse a plan that does not say what its track must prove. A direct plan owes nothing, and loads nothing."""
    if plan.settled_track is Track.DIRECT:
        return
    from reflectloop.gates import contract, decisions  # noqa: PLC0415

    ruling = decisions.make_ruling(
        decisions.Gate.RULES, contract.incomplete_reasons(contract.contract_from_plan(plan, ()))
    )
    error = decisions.as_error(ruling, "correct the plan, then: reflectloop plan check PLAN")
    if error:
        raise error


def refuse_causeless(task: Task | None, reason: str | None) -> None:
    """Refuse a third try after the gates sent two back, unless a person says what the cause was."""
    if task is None or not task.gated or reason:
        return
    from reflectloop.gates import attempt_limits  # noqa: PLC0415 - most tasks were never judged

    for subject in {str(decision["subject"]) for decision in task.gated}:
        past = attempt_limits.of_journal(task.gated, subject)
        if attempt_limits.needs_root_cause(past):
            raise Latched(
                f"two tries were sent back by the gates; the last: {past[-1].reasons[0]}",
                next_step="find the cause, fix it, then: reflectloop retry --reason TEXT (what the cause was)",
            )


def refuse_commands(loaded: LoadedPlan, rules: CommandPolicy, done: Collection[str] = ()) -> None:
    """Refuse commands that the policy denies or that a person must allow, except those of finished steps."""
    left = tuple(step for step in loaded.plan.steps if step.id not in done)
    refused = refusals(loaded.plan.model_copy(update={"steps": left}), rules)
    if refused:
        first = refused[0].verdict.rule
        raise GateRejected(
            f"the command policy refuses {len(refused)} command(s) of the plan",
            next_step=f'write them otherwise; or, if meant: [policy] allow = ["{first}"] in {config.NAME}, '
            "then: reflectloop trust",
            faults=tuple(Fault(refusal.place, None, refusal.message, GateRejected.code) for refusal in refused),
        )


class RefusedCommand(NamedTuple):
    place: str
    verdict: PolicyVerdict

    @property
    def message(self) -> str:
        return f"{self.verdict.rule}: {self.verdict.reason}: {self.verdict.where[:_SHOWN]}"


def refusals(plan: Plan, rules: CommandPolicy) -> list[RefusedCommand]:
    return list(refusals_of(plan, plan.steps, rules.in_workspace))


def refusals_of(plan: Plan, steps: Iterable[Step], rules: CommandPolicy) -> Iterator[RefusedCommand]:
    """Yield the commands of these steps, and of their checks, that the policy does not let run."""
    for place, command in plan.commands(steps):
        verdict = rules.judge(command)
        if not verdict.allowed:
            yield RefusedCommand(place, verdict)


def floor(settings: config.Config, request: RunRequest, loaded: LoadedPlan) -> Isolation:
    """Return the strongest isolation that settings, request or plan require."""
    asked = [settings.box.isolation, request.isolation or Isolation.NONE]
    if loaded.plan.isolation:
        asked.append(loaded.plan.isolation.require)
    return max(asked, key=lambda level: level.rank)


def refuse_doubtful(doubtful: list[AddedSecret]) -> None:
    """Refuse a patch that adds a possible secret: a person decides whether it is one."""
    if doubtful:
        named = {
            f"{secret.path}:{secret.line} ({secret.finding.rule}, fingerprint {secret.finding.fingerprint})"
            for secret in doubtful
        }
        raise GateRejected(
            f"the patch adds what may be a secret: {join_first(sorted(named), _NAMED)}",
            next_step="take it out; or, if it is none, name its fingerprint in the baseline (docs/secrets.md)",
        )


def reach(settings: config.Config, request: RunRequest, loaded: LoadedPlan) -> IsolationLevel:
    """Choose the isolation of this run; raise if it is weaker than required, or if a network is asked for in vain."""
    least = floor(settings, request, loaded)
    wall = isolation.choose_level(least, settings.box.strongest)
    isolation.refuse_network(wall, least, networks(settings, loaded.plan))
    return wall


def networks(settings: config.Config, plan: Plan) -> dict[str, Network | None]:
    """Return the network each step asks for; for an agent step, the network its agent needs."""
    return {
        step.id: step.network or (settings.network_of(Role(step.agent.role)) if step.agent else None)
        for step in plan.steps
    }
