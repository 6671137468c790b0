"""A deterministic agent that plays a script file, for demos, tests and dry runs. It has no state between calls.

    script:
      - {role: planner, answer: {…}}
      - role: executor
        step: "1"
        attempt: 1
        says: "text that the prompt must contain"
        ops: [{op: write_file, path: a.txt, content: hello}]
        run: sed -i s/a/b/ a.txt
        answer: {control: step_done}

The first entry that matches the request is played: the engine executes its ops, a shell in the sandbox its `run`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reflectloop.agents.backend import AgentRequest, Backend, Probe, Reply, Status, TokenUsage
from reflectloop.config import AgentConfig
from reflectloop.errors import AgentUnavailable
from reflectloop.plan import strict_yaml
from reflectloop.sandbox.sandbox import SandboxCommand
from reflectloop.system import beneath, clock
from reflectloop.terms import Role, wrong_shape

Kind = Literal["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "turns"]


class ScriptEntry(BaseModel):
    """One entry of a script: the requests it matches, and its actions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role | None = None
    step: str | None = None
    attempt: int | None = None
    says: str = Field(default="", description="text that the prompt must contain")
    ops: tuple[dict[str, Any], ...] = ()
    run: str = ""
    wait_s: Annotated[float, Field(ge=0, le=3600)] = 0.0
    status: Status = "ok"
    answer: dict[str, Any] | None = None
    text: str = ""
    reason: str = ""
    usage: dict[Kind, Annotated[int, Field(ge=0, le=10**12)]] = {}
    cost_usd: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = 0.0

    def fits(self, request: AgentRequest) -> bool:
        return (
            self.role in (None, request.role)
            and self.step in (None, request.step)
            and self.attempt in (None, request.attempt)
            and self.says in request.prompt
        )


class AgentScript(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    script: tuple[ScriptEntry, ...]


def make(name: str, agent: AgentConfig, caller: Mapping[str, str]) -> Backend:
    if agent.file and agent.file.suffix == ".py":
        from reflectloop.agents import command  # noqa: PLC0415 - only a script in Python needs it

        return command.make(name, agent.model_copy(update={"run": ("python3", str(agent.file))}), caller)
    return _Player(name, agent.file)


@dataclasses.dataclass
class _Player:
    name: str
    file: Path | None

    def probe(self) -> Probe:
        try:
            count = len(self._entries())
        except AgentUnavailable as fault:
            return Probe(problem=fault.message, next_step=fault.next_step)
        return Probe(version=f"{count} entries", schema_output=True, usage=True)

    def run(self, request: AgentRequest) -> Reply:
        entry = next((candidate for candidate in self._entries() if candidate.fits(request)), None)
        log = request.folder / f"{request.role}.script.log"
        if entry is None:
            where = f"step {request.step}, " if request.step else ""
            reason = f"the script has no entry for the {request.role}, {where}attempt {request.attempt}"
            return Reply("no_output", reason=reason)
        begun = clock.monotonic()
        failed = self._play(entry, request, log)
        usage = TokenUsage(**{"turns": 1, **entry.usage})
        reply = Reply(entry.status, entry.text, entry.answer, None, usage, entry.cost_usd, raw_log=log)
        reply = reply._replace(reason=entry.reason, duration_ms=round((clock.monotonic() - begun) * 1000))
        return failed._replace(usage=usage, duration_ms=reply.duration_ms) if failed else _judged(request, reply)

    def _play(self, entry: ScriptEntry, request: AgentRequest, log: Path) -> Reply | None:
        """Play an entry; return the failure, or None on success. A refused op ends the entry."""
        if entry.ops and request.act:
            answer = request.act(entry.ops)
            if answer.status != "ok":
                why = "; ".join(error.error for error in answer.errors) or answer.status
                return Reply("denied", reason=why, denials=(why,), raw_log=log)
        if entry.wait_s:
            clock.wait(min(entry.wait_s, request.bounds.timeout_s))
        if entry.run:
            box = request.box
            done = box.run(SandboxCommand(entry.run, box.workspace.resolve("."), log, request.bounds.timeout_s))
            if done.timed_out or done.idle:
                return Reply("timeout", reason=f"took more than {request.bounds.timeout_s:g} s", raw_log=log)
            if done.exit_code:
                return Reply("error", reason=f"its command exited {done.exit_code}", raw_log=log)
        return None

    def _entries(self) -> tuple[ScriptEntry, ...]:
        if self.file is None:
            raise AgentUnavailable(
                f"agent {self.name} plays no file", next_step=f'file = "agent.yaml" under [agents.{self.name}]'
            )
        try:
            read = strict_yaml.parse(beneath.read_path(self.file))
            if not read.faults:
                return AgentScript.model_validate(read.value).script
            why = str(read.faults[0])
        except OSError as fault:
            why = f"cannot be read: {fault.strerror}"
        except strict_yaml.UnreadableYaml as fault:
            why = str(fault)
        except ValidationError as fault:
            first = fault.errors()[0]
            why = (
                f"{'.'.join(map(str, first['loc']))}: {wrong_shape(first['type'], first.get('ctx', {}), first['msg'])}"
            )
        raise AgentUnavailable(f"the script {self.file} of agent {self.name}: {why}", next_step=f"correct {self.file}")


def _judged(request: AgentRequest, reply: Reply) -> Reply:
    faults = request.faults_of(reply.data) if reply.ok else []
    return reply._replace(status="error", reason="; ".join(faults)) if faults else reply
