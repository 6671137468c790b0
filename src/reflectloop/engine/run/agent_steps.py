"""Steps of a plan that an agent does: asked, checked by the engine, and asked again in another way where it fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from reflectloop import policy
from reflectloop.agents.answer_models import StepClaim
from reflectloop.engine.agent_tasks import agent_fileops, planner_context, prompts
from reflectloop.engine.agent_tasks.agent_fileops import PROTO
from reflectloop.engine.agent_tasks.agent_pool import AgentCall, AgentPool, Budget
from reflectloop.engine.agent_tasks.prompts import FailedAttempt, StepBrief
from reflectloop.engine.artifacts.usage import AgentBudget, since
from reflectloop.engine.failures import run_failure
from reflectloop.engine.run.run_context import RunContext
from reflectloop.engine.run.steps import CANCELLED, AgentProblem, StepObserver, StepResult, describe, execute, words
from reflectloop.errors import AgentFailed, NeedsInput, StepFailed
from reflectloop.fileops.ops_context import InMemoryResponses, NoPlanOps, OpsContext
from reflectloop.lessons.lesson_recall import Moment
from reflectloop.plan.model import Plan, Step
from reflectloop.sandbox.sandbox import Box
from reflectloop.state.fold import Task
from reflectloop.state.journal import Journal
from reflectloop.terms import Role

_LARGEST_DIFF = 20_000
_FINAL = frozenset((NeedsInput.code, AgentFailed.code, CANCELLED))  # another attempt would not help


@dataclass
class AgentSteps:
    line: RunContext
    plan: Plan
    journal: Journal
    show: StepObserver
    purse: Budget = field(init=False)

    def __post_init__(self) -> None:
        most = AgentBudget.of(self.line.config, self.plan.limits)
        self.purse = Budget(most, since(self.line.task or Task()))

    def perform(self, step: Step, box: Box, before: str, earlier: tuple[Path, ...]) -> StepResult:
        """As many attempts as the plan allows, each from the step's own beginning."""
        tried: tuple[FailedAttempt, ...] = ()
        trees: set[str] = set()
        for number in range(1, self.plan.limits.step_attempts + 1):
            self.show.command(step.id, f"agent ({step.agent.role if step.agent else ''}), attempt {number}")
            result = self._attempt(step, box, number, tried, earlier)
            result = self._judged(step, result, before, trees)
            if result.success or result.error_code in _FINAL or number == self.plan.limits.step_attempts:
                break
            trees.add(result.tree)
            tried = (*tried, self._tried(number, result, box, before))
            earlier = result.logs
            box.workspace.step_back(before)
        return result

    def _attempt(
        self, step: Step, box: Box, number: int, tried: tuple[FailedAttempt, ...], earlier: tuple[Path, ...]
    ) -> StepResult:
        def acting() -> AgentProblem | None:
            return self._acted(step, box, number, tried)

        return execute(self.plan, step, box, self.line.folder.logs, self.show, earlier, acting)

    def _judged(self, step: Step, result: StepResult, before: str, trees: set[str]) -> StepResult:
        """A claim that nothing shows, or that showed nothing before, is none."""
        looks = step.agent is not None and Role(step.agent.role).looks_only
        if not result.success or step.read_only or looks:
            return result
        if result.tree == before:
            return result._replace(
                error_code=StepFailed.code, exit_code=1, reason="was said to be done, and no file differs"
            )
        if result.tree in trees:
            why = "came to the very files that did not hold before"
            return result._replace(error_code=StepFailed.code, exit_code=1, reason=why)
        return result

    def _acted(self, step: Step, box: Box, number: int, tried: tuple[FailedAttempt, ...]) -> AgentProblem | None:
        assert step.agent  # noqa: S101
        role = Role(step.agent.role)
        folder = self.line.folder.path / "agents" / step.id / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        crew = self._crew(box)
        prompt = self._prompt(step, tried)
        act = agent_fileops.by(self._hands(box, folder), writable=not role.looks_only)
        reply = crew.ask(AgentCall(role, prompt, StepClaim, folder, step.id, number, act))
        if not reply.ok:
            return AgentProblem(AgentFailed.code, f"{crew.name_of(role)} as {role}: {reply.status}: {reply.reason}")
        said = StepClaim.model_validate(reply.data)
        match said.control:
            case "step_done":
                return None
            case "ask":
                return AgentProblem(NeedsInput.code, f"asks: {said.question or said.reason}")
            case _:
                return AgentProblem(StepFailed.code, f"{said.control}: {said.reason or said.summary}")

    def _prompt(self, step: Step, tried: tuple[FailedAttempt, ...]) -> str:
        assert step.agent  # noqa: S101
        checks = tuple(describe(wanted.check) for wanted in self.plan.checks_of(step) if not wanted.must_fail)
        goal = self.plan.objective.goal or self.plan.title
        work = StepBrief(goal, step.id, step.title or step.id, step.agent.prompt, (), checks)
        signature = next((one.failure.signature for one in reversed(tried) if one.failure), "")
        moment: Moment = "failure" if signature else "step"
        advice = planner_context.advice(self.line.folders.root, moment, f"{step.title} {step.agent.prompt}", signature)
        request = {"proto": PROTO, "id": f"{self.line.run_id}.{step.id}", "purpose": "execute_step", "ops": []}
        return prompts.execute(work, "", request, tried, advice)

    def _tried(self, number: int, result: StepResult, box: Box, before: str) -> FailedAttempt:
        failure = run_failure.of_step(result, self.line.config.reflect, self.line.folders.root)
        diff = box.workspace.git().run("diff-tree", "-r", "-p", before, result.tree) if result.tree != before else b""
        text = diff[:_LARGEST_DIFF].decode("utf-8", "replace")
        why = f"{words(result.command)}: {result.reason}" if result.command else result.reason
        return FailedAttempt(number, "", why, failure, result.tail, text)

    def _crew(self, box: Box) -> AgentPool:
        line = self.line
        return AgentPool(
            line.config,
            line.folders.root,
            line.request.caller,
            box,
            line.run_id,
            self.journal.append,
            self.purse,
            line.base.tree if line.base else "",
        )

    def _hands(self, box: Box, folder: Path) -> OpsContext:
        rules = policy.of(self.line.config.policy, self.line.folders.root).in_workspace
        return OpsContext(box.workspace, box, NoPlanOps(), InMemoryResponses(), folder / "logs", policy=rules)
