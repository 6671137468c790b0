"""The agents of a task: asked within what they may use, with every call journalled; who is to look only, only looks."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from reflectloop import secrets
from reflectloop.agents import plan_text
from reflectloop.agents.answer_models import PlanDesign
from reflectloop.agents.backend import Act, AgentLimits, AgentRequest, Backend, Reply
from reflectloop.agents.registry import bind
from reflectloop.artifacts.usage import AgentBudget
from reflectloop.config import AgentConfig, Config
from reflectloop.diagnosis.breaker import Breakers
from reflectloop.diagnosis.safe_call import RetryOptions, ToolError, ToolFailure, safe_call
from reflectloop.engine.steps import prompts
from reflectloop.errors import AgentFailed, AgentUnavailable, BudgetSpent, GateRejected, ReflectloopError
from reflectloop.gates.decisions import Gate
from reflectloop.plan import tool_names
from reflectloop.sandbox.sandbox import Box
from reflectloop.state import events
from reflectloop.state.fold import AgentUsage
from reflectloop.system import files
from reflectloop.system.process import Cancel
from reflectloop.system.undo import on_failure
from reflectloop.terms import Decision, Role
from reflectloop.workspace import patch

_SHOWN = 5  # files, in a message
_TURN_S = 0.2
_UNWELL = ("error", "timeout", "no_output")
LOOKED_ONLY = "role.read_only"  # the rule that is broken by one who was to look only


class AgentCall(NamedTuple):
    """One question to one role."""

    role: Role
    prompt: str
    answer: type[BaseModel]
    folder: Path  # of the engine's: what was asked and answered
    step: str = ""
    attempt: int = 1
    act: Act | None = None
    label: str = ""  # tells two calls of a role in one folder apart
    tools: tuple[str, ...] = ()  # that the plan names for the step

    @property
    def looks_only(self) -> bool:
        return self.role.looks_only or tool_names.reads_only(self.tools)


@dataclass
class Budget:
    """The budget of a task and what was used of it, shared by all its agents."""

    allowance: AgentBudget
    spent: AgentUsage = field(default_factory=AgentUsage)  # since a person last gave leave
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _counting: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the budget during a call: if there is a limit, only one agent is called at a time."""
        if self.allowance == AgentBudget():
            yield
            return
        with self._lock:
            yield

    def add(self, usage: AgentUsage) -> None:
        with self._counting:
            self.spent = self.spent.plus(usage)

    def bounds(self, agent: AgentConfig) -> AgentLimits:
        """Return the limits of the next call: what is left of the budget."""
        most, spent = self.allowance, self.spent
        if most.usd is not None and spent.unpriced:
            raise BudgetSpent(
                f"{spent.unpriced} call(s) of unknown price were made, and the budget is in money",
                next_step="[cost] prices names a model's price, a program says cost_usd; or limit tokens or wall_s "
                "instead; then: reflectloop unlock --reason TEXT",
            )
        tokens = _left(most.tokens, spent.tokens, "tokens")
        usd = _left(most.usd, spent.usd, "USD")
        wall_s = _left(most.wall_s, spent.wall_ms / 1000, "seconds")
        return AgentLimits(
            turns=agent.turns,
            timeout_s=min(agent.timeout_s, wall_s) if wall_s is not None else agent.timeout_s,
            tokens=None if tokens is None else int(tokens),
            usd=usd,
        )


@dataclass
class AgentPool:
    settings: Config
    root: Path
    caller: Mapping[str, str]
    box: Box
    run_id: str
    note: Callable[[events.Event], object]
    budget: Budget = field(default_factory=lambda: Budget(AgentBudget()))
    origin: str = ""  # the tree that the task began with
    read_only_act: Act | None = None  # for read-only agents without tools of their own
    breakers: Breakers = field(default_factory=Breakers)
    second: Callable[[], tuple[Box, Act]] | None = None  # lays out another workspace with the same files
    _bound: dict[str, Backend] = field(default_factory=dict)
    _writing: threading.Lock = field(default_factory=threading.Lock)  # of the journal

    def name_of(self, role: Role) -> str | None:
        """Return the agent that plays a role. One that the project binds and nobody trusted is not passed over."""
        name = self.settings.roles.bound_to(role)
        if name is None:
            self.settings.refuse_without(f"roles.{role}")
        return name

    def has(self, role: Role) -> bool:
        return self.name_of(role) is not None

    def ask(self, call: AgentCall) -> Reply:
        """Call an agent and return its reply. A read-only agent is called again after a temporary fault."""
        name = self.name_of(call.role)
        if name is None:
            raise AgentUnavailable(f"no agent is bound to the role {call.role}")
        backend = self._backend(name)
        prompt = secrets.current_detector().redact(call.prompt)
        stem = "-".join(filter(None, (call.role, call.label)))
        files.write_atomic(call.folder / f"{stem}.prompt.md", prompt)

        def invoke(_tool: str, _params: Mapping[str, Any]) -> Reply | ReflectloopError:
            try:
                with self.budget.held():
                    reply = self._once(backend, call, prompt)
            except ReflectloopError as fault:
                return fault  # the engine's own, and no failure of the agent's
            if reply.status in _UNWELL and call.role.looks_only:
                raise _Unwell(reply)
            return reply

        outcome = safe_call(
            f"agent {name}",
            {"role": str(call.role)},
            invoke=invoke,
            idempotent=call.role.looks_only,
            options=RetryOptions(breakers=self.breakers, retries=1),  # backends that can try again do so themselves
        )
        if not isinstance(outcome, ToolFailure) and isinstance(outcome.value, ReflectloopError):
            raise outcome.value
        if isinstance(outcome, ToolFailure):
            printed = outcome.failure.log_excerpt or outcome.failure.code
            reply = Reply("error", reason=f"agent {name} as {call.role}: {printed.strip()}")
        else:
            reply = outcome.value
        _write(call.folder / f"{stem}.reply.json", reply)
        return reply

    def need(self, call: AgentCall) -> Reply:
        """Call an agent and return its reply; raise AgentFailed if it gives no answer."""
        reply = self.ask(call)
        if not reply.ok:
            why = prompts.one_line(reply.reason) or "no answer"
            raise AgentFailed(
                f"{call.role} ({self.name_of(call.role)}): {reply.status}: {why}",
                next_step=f"look at what it was asked and answered in {call.folder}, then try again",
            )
        return reply

    def need_both(self, first: AgentCall, second: AgentCall) -> tuple[Reply, Reply]:
        """Ask two roles that only look at the same time, each in a workspace of its own; if one fails, end the other.

        Workspaces are recorded and reset without a lock, so no two agents share one. A budget is used by one agent at
        a time: with a limit, the second one waits for the first.
        """
        if self.second is None:
            return self.need(first), self.need(second)
        for role in (first.role, second.role):
            self._backend(self.name_of(role) or "")  # bound here, not by two threads
        box, read_only_act = self.second()
        with contextlib.closing(Cancel()) as cancel, ThreadPoolExecutor(2, thread_name_prefix="agent") as threads:
            here = replace(self, box=replace(self.box, cancel=cancel))
            there = replace(self, box=replace(box, cancel=cancel), read_only_act=read_only_act)
            asked = [threads.submit(here.need, first), threads.submit(there.need, second)]
            with on_failure(cancel.set):  # before the threads are waited for
                _wait(asked)
        return asked[0].result(), asked[1].result()

    def _backend(self, name: str) -> Backend:
        if name not in self._bound:
            backend = bind(name, self.settings, self.caller, self.root)
            probed = backend.probe()
            if probed.problem:
                raise AgentUnavailable(
                    f"agent {name}: {probed.problem}", next_step=probed.next_step, missing=(f"backend:{name}",)
                )
            self._bound[name] = backend
        return self._bound[name]

    def _once(self, backend: Backend, call: AgentCall, prompt: str) -> Reply:
        space = self.box.workspace
        self._refuse_rewritten(backend.name, call.role)
        # Each attempt finds an empty one: what an executor leaves reaches neither its reviewer nor its next try.
        home = space.folder / "agents" / f"{backend.name}-{call.role}" / f"{call.step or 'task'}-{call.attempt}"
        home.mkdir(parents=True, exist_ok=True)
        before = space.record().tree if call.role.looks_only else None
        asking = AgentRequest(
            call.role,
            prompt,
            self.box.for_agent(home, read_only=call.looks_only),
            call.folder,
            self.budget.bounds(self.settings.agent(backend.name)),
            answer=call.answer,
            act=call.act or self.read_only_act,
            step=call.step,
            attempt=call.attempt,
            tools=call.tools,
        )
        try:
            reply = _plan_in_words(call, backend.run(asking))
        except ReflectloopError as fault:
            self._journal(backend.name, call, Reply("error", reason=fault.message), [])  # of unknown cost
            raise
        changed = self._undone(before) if before is not None else []
        if changed:
            reason = f"was to look only, and changed {', '.join(changed[:_SHOWN])}"
            reply = reply._replace(status="denied", reason=reason, data=None, denials=(*reply.denials, reason))
        self._journal(backend.name, call, reply, changed)
        if reply.reason.startswith(BudgetSpent.code):
            why = reply.reason.removeprefix(BudgetSpent.code).strip(" :")
            raise BudgetSpent(
                f"{call.role} ({backend.name}): {why}",
                next_step="more in [cost] or the plan's limits, or a smaller reply_tokens where one call does not fit; "
                "then: reflectloop unlock --reason TEXT",
            )
        return reply

    def _refuse_rewritten(self, name: str, role: Role) -> None:
        """Refuse an agent whose program lies in the project and was changed: nobody would have judged it."""
        own = [Path(word) for word in self.settings.agent(name).run if (self.root / word).is_file()]
        inside = [path for path in own if not path.is_absolute() and ".." not in path.parts]
        space = self.box.workspace
        if not inside or not self.origin:
            return
        changed = [Path(file.path) for file in patch.touched_files(space.git(), self.origin, space.record().tree)]
        for program in inside:
            beside = program.parent
            hit = next(
                (path for path in changed if path == program or (beside != Path() and beside in path.parents)), None
            )
            if hit:
                raise GateRejected(
                    f"the change rewrites {hit}, and {program} plays the {role}",
                    next_step=f"put the program of agent {name} outside of the project, then: reflectloop tr --all",
                )

    def _undone(self, before: str) -> list[str]:
        """Undo what a read-only agent changed, and return the names."""
        space = self.box.workspace
        now = space.record(thorough=True).tree
        if now == before:
            return []
        names = [str(file) for file in patch.touched_files(space.git(), before, now)]
        space.reset_to(before)
        return names

    def _journal(self, name: str, call: AgentCall, reply: Reply, changed: list[str]) -> None:
        asked = events.AgentAsked(
            run_id=self.run_id,
            step_id=call.step,
            role=str(call.role),
            agent=name,
            status=reply.status,
            attempt=call.attempt,
            cost_usd=reply.cost_usd,
            duration_ms=reply.duration_ms,
            reason=secrets.current_detector().redact(reply.reason),
            changed=changed,
            **reply.usage._asdict(),
        )
        self.budget.add(AgentUsage.of(asked))
        with self._writing:
            self._note(asked, call, reply, changed)

    def _note(self, asked: events.AgentAsked, call: AgentCall, reply: Reply, changed: list[str]) -> None:
        self.note(asked)
        if changed:
            self.note(
                events.GateDecided(
                    run_id=self.run_id,
                    subject=f"{call.role} of {f'step {call.step}' if call.step else 'the task'}",
                    gate=str(Gate.RULES),
                    decision=str(Decision.RETRY),
                    reasons=[reply.reason],
                    rules=[LOOKED_ONLY],
                )
            )


def _wait(asked: Sequence[Future[Reply]]) -> None:
    """Wait for all replies, or raise the first failure. By turns: a signal handed to another thread wakes no wait."""
    waiting = set(asked)
    while waiting:
        done, waiting = wait(waiting, timeout=_TURN_S, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()


def _plan_in_words(call: AgentCall, reply: Reply) -> Reply:
    """Take a planner's plan in the `[PLAN]` form, or as the protocol's Plan object, where it gave no other answer."""
    if call.answer is not PlanDesign or reply.ok or reply.status == "denied" or not reply.text.strip():
        return reply
    plan = plan_text.parse_plan(reply.text).plan
    return reply._replace(status="ok", data=plan.model_dump(mode="json"), reason="") if plan else reply


def _left(most: float | None, used: float, unit: str) -> float | None:
    if most is None:
        return None
    if used >= most:
        raise BudgetSpent(
            f"the agents of this task used {used:,.6g} of {most:,.6g} {unit}",
            next_step="reflectloop unlock --reason TEXT (they may then use as much again), or raise the limit first",
        )
    return most - used


class _Unwell(ToolError):
    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.reason or reply.status)


def _write(path: Path, reply: Reply) -> None:
    data = {**reply._asdict(), "usage": reply.usage._asdict(), "raw_log": str(reply.raw_log) if reply.raw_log else None}
    files.write_atomic(path, secrets.current_detector().redact(json.dumps(data, indent=2, ensure_ascii=False)) + "\n")
