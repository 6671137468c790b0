"""A deterministic agent that plays a file: for demos, tests and dry runs. It remembers nothing between calls.

    script:
      - {role: planner, answer: {…}}
      - role: executor
        step: "1"
        attempt: 1
        says: "text that the prompt holds"
        ops: [{op: write_file, path: a.txt, content: hello}]
        run: sed -i s/a/b/ a.txt
        answer: {control: step_done}

The first entry that fits what is asked is played: its ops by the engine, its `run` by a shell in the box.
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
from reflectloop.terms import Role

Kind = Literal["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "turns"]


class ScriptEntry(BaseModel):
    """When it is played, and what it does then."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role | None = None
    step: str | None = None
    attempt: int | None = None
    says: str = Field(default="", description="text that the prompt holds")
    ops: tuple[dict[str, Any], ...] = ()
    run: str = ""
    wait_s: Annotated[float, Field(ge=0, le=3600)] = 0.0
    status: Status = "ok"
    answer: dict[str, Any] | None = None
    text: str = ""
    reason: str = ""
    usage: dict[Kind, Annotated[int, Field(ge=0, le=10**12)]] = {}
    cost_usd: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = 0.0

    def fits(self, asking: AgentRequest) -> bool:
        return (
            self.role in (None, asking.role)
            and self.step in (None, asking.step)
            and self.attempt in (None, asking.attempt)
            and self.says in asking.prompt
        )


class AgentScript(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    script: tuple[ScriptEntry, ...]


def make(name: str, agent: AgentConfig, caller: Mapping[str, str]) -> Backend:
    if agent.file and agent.file.suffix == ".py":
        from reflectloop.agents import command  # noqa: PLC0415 - a program of its own

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

    def run(self, asking: AgentRequest) -> Reply:
        entry = next((one for one in self._entries() if one.fits(asking)), None)
        log = asking.folder / "script.log"
        if entry is None:
            where = f"step {asking.step}, " if asking.step else ""
            said = f"the script has nothing for the {asking.role}, {where}attempt {asking.attempt}"
            return Reply("no_output", reason=said)
        begun = clock.monotonic()
        failed = self._play(entry, asking, log)
        usage = TokenUsage(**{"turns": 1, **entry.usage})
        reply = Reply(entry.status, entry.text, entry.answer, None, usage, entry.cost_usd, raw_log=log)
        reply = reply._replace(reason=entry.reason, duration_ms=round((clock.monotonic() - begun) * 1000))
        return failed._replace(usage=usage, duration_ms=reply.duration_ms) if failed else _judged(asking, reply)

    def _play(self, entry: ScriptEntry, asking: AgentRequest, log: Path) -> Reply | None:
        """None where everything went well. A refused op is the engine's no; the rest is not played."""
        if entry.ops and asking.act:
            answer = asking.act(entry.ops)
            if answer.status != "ok":
                why = "; ".join(one.error for one in answer.errors) or answer.status
                return Reply("denied", reason=why, denials=(why,), raw_log=log)
        if entry.wait_s:
            clock.wait(min(entry.wait_s, asking.bounds.timeout_s))
        if entry.run:
            box = asking.box
            done = box.run(SandboxCommand(entry.run, box.workspace.resolve("."), log, asking.bounds.timeout_s))
            if done.timed_out or done.idle:
                return Reply("timeout", reason=f"took more than {asking.bounds.timeout_s:g} s", raw_log=log)
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
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise AgentUnavailable(f"the script {self.file} of agent {self.name}: {why}", next_step=f"correct {self.file}")


def _judged(asking: AgentRequest, reply: Reply) -> Reply:
    faults = asking.faults_of(reply.data) if reply.ok else []
    return reply._replace(status="error", reason="; ".join(faults)) if faults else reply
