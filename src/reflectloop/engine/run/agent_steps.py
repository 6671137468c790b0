"""Executes the agent steps of a run: asks the agent, runs the checks, and asks again with what failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reflectloop import policy
from reflectloop.artifacts.usage import AgentBudget, used_since_unlock
from reflectloop.engine.run.context import PreparedRun
from reflectloop.engine.steps import agent_executor, agent_fileops, attempt_history, run_failure, step_request
from reflectloop.engine.steps.agent_executor import AgentTask
from reflectloop.engine.steps.agent_pool import AgentPool, Budget
from reflectloop.engine.steps.execution import CANCELLED, AgentProblem, StepResult, execute
from reflectloop.engine.steps.prompts import FailedAttempt, StepBrief
from reflectloop.errors import AgentFailed, NeedsInput
from reflectloop.fileops.ops_context import InMemoryResponses, NoPlanOps, OpsContext
from reflectloop.plan.model import Plan, Step, command_text
from reflectloop.sandbox.sandbox import Box
from reflectloop.workspace import tree_diff

_LARGEST_DIFF = 20_000
_FINAL = frozenset((NeedsInput.code, AgentFailed.code, CANCELLED))  # another attempt would not help


class AttemptState(NamedTuple):
    number: int
    before: str
    trees: frozenset[str]  # that failed attempts left
    failed: tuple[FailedAttempt, ...]


@dataclass
class AgentSteps:
    run: PreparedRun
    budget: Budget = field(init=False)

    def __post_init__(self) -> None:
        most = AgentBudget.of(self.run.config, self.run.plan.limits)
        self.budget = Budget(most, used_since_unlock(self.run.task))

    @property
    def plan(self) -> Plan:
        return self.run.plan

    def perform(self, step: Step, box: Box, before: str, earlier: tuple[Path, ...]) -> StepResult:
        """Make as many attempts as the plan allows, each from the tree before the step."""
        failed: tuple[FailedAttempt, ...] = ()
        trees: set[str] = set()
        role = step.agent.role if step.agent else ""
        for number in range(1, self.plan.limits.step_attempts + 1):
            self.run.show.command(step.id, f"agent ({role}), attempt {number}")
            asking = self._asking(step, box, AttemptState(number, before, frozenset(trees), failed))
            result = execute(self.plan, step, box, self.run.folder.logs, self.run.show, earlier, asking)
            if result.success or result.error_code in _FINAL or number == self.plan.limits.step_attempts:
                break
            trees.add(result.tree)
            failed = (*failed, self._failed(number, result, box, before))
            earlier = result.logs
            box.workspace.step_back(before)
        return result

    def _asking(self, step: Step, box: Box, state: AttemptState) -> Callable[[], AgentProblem | None]:
        def ask() -> AgentProblem | None:
            folder = self.run.folder.path / "agents" / step.id / str(state.number)
            folder.mkdir(parents=True, exist_ok=True)
            request = step_request.request(self.run.run_id, state.number, self.plan, step).as_json()
            task = AgentTask(
                step, self._brief(step), request, folder, state.number, state.before, state.trees, failed=state.failed
            )
            tools = step.agent.tools if step.agent else ()
            writable = not (task.role.looks_only or step.looks_only)
            act = agent_fileops.by(self._ops(box, folder), writable=writable, tools=tools)
            return agent_executor.ask(self._pool(box), act, task).problem

        return ask

    def _brief(self, step: Step) -> StepBrief:
        checks = tuple(wanted.check.description for wanted in self.plan.checks_of(step) if not wanted.must_fail)
        goal = self.plan.objective.goal or self.plan.title
        prompt = step.agent.prompt if step.agent else step.details
        tools = step.agent.tools if step.agent else ()
        return StepBrief(
            goal, step.id, step.title or step.id, prompt, (), checks, tools=tools, findings=self._findings(step)
        )

    def _findings(self, step: Step) -> str:
        """Return what the steps that this one depends on found by looking."""
        folders = {name: self.run.folder.path / "agents" / name for name in step.depends_on}
        texts = {name: attempt_history.findings_in(folder) for name, folder in folders.items()}
        return "\n\n".join(f"step {name}: {text.strip()}" for name, text in texts.items() if text)

    def _failed(self, number: int, result: StepResult, box: Box, before: str) -> FailedAttempt:
        failure = run_failure.of_step(result, self.run.config.reflect, self.run.folders.root)
        diff = tree_diff.patch(box.workspace.git(), before, result.tree) if result.tree != before else b""
        text = diff[:_LARGEST_DIFF].decode("utf-8", "replace")
        why = f"{command_text(result.command)}: {result.reason}" if result.command else result.reason
        return FailedAttempt(number, "", why, failure, result.tail, text)

    def _pool(self, box: Box) -> AgentPool:
        run = self.run
        return AgentPool(
            run.config,
            run.folders.root,
            run.request.caller,
            box,
            run.run_id,
            run.journal.append,
            self.budget,
            run.base.tree,
        )

    def _ops(self, box: Box, folder: Path) -> OpsContext:
        rules = policy.of(self.run.config.policy, self.run.folders.root).in_workspace
        return OpsContext(box.workspace, box, NoPlanOps(), InMemoryResponses(), folder / "logs", policy=rules)
