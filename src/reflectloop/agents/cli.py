"""The common part of the Claude Code and Codex backends: a program on PATH, a minimum version, a key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

from reflectloop.agents import network, subprocess_agent
from reflectloop.agents.backend import AgentRequest, Probe
from reflectloop.config import AgentConfig
from reflectloop.errors import AgentUnavailable
from reflectloop.sandbox.network_forward import Forward


class Cli(ABC):
    """A backend that runs a command-line agent; `can` lists its abilities."""

    program: ClassVar[str]
    minimum: ClassVar[tuple[int, ...]]
    how: ClassVar[str]  # the command that installs it
    hosts: ClassVar[tuple[str, ...]]  # the provider's servers, used if the settings name none
    can: ClassVar[Probe]

    def __init__(self, name: str, agent: AgentConfig, caller: Mapping[str, str]) -> None:
        self.name = name
        self._agent, self._caller = agent, caller
        self._version: str | None = None

    @abstractmethod
    def _key(self) -> object:
        """Return the credentials, or raise AgentUnavailable if there are none."""

    def probe(self) -> Probe:
        """Return what is known without starting the program; its files may contain the version."""
        can = self.can
        try:
            version = subprocess_agent.version_by_files(self._command)
            can = can._replace(version=version)
            self._key()
            self._forward()
            if version is not None:
                subprocess_agent.refuse_old_version(self.name, version, self.minimum, self.how)
        except AgentUnavailable as fault:
            return can._replace(problem=fault.message, next_step=fault.next_step)
        return can

    @cached_property
    def _command(self) -> tuple[str, ...]:
        return subprocess_agent.find_command(self.name, self._agent, self._caller, self.how, self.program)

    def _forward(self) -> Forward | None:
        return network.forward_for(self.name, self._agent, self.hosts)

    def _require_version(self, request: AgentRequest) -> None:
        """Raise if the version is too old. If its files do not tell the version, run `--version` in the sandbox."""
        if self._version is None:
            self._version = subprocess_agent.version_by_files(self._command) or subprocess_agent.version_of(
                self._command, request
            )
        subprocess_agent.refuse_old_version(self.name, self._version, self.minimum, self.how)
