"""What Claude Code and Codex have in common: a program on PATH, a version from which on it is known, a key."""

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
    """One of them; `can` is what it can do, whichever version it is."""

    program: ClassVar[str]
    minimum: ClassVar[tuple[int, ...]]
    how: ClassVar[str]  # it is installed
    hosts: ClassVar[tuple[str, ...]]  # its maker's, which it asks where the settings name no server
    can: ClassVar[Probe]

    def __init__(self, name: str, agent: AgentConfig, caller: Mapping[str, str]) -> None:
        self.name = name
        self._agent, self._caller = agent, caller
        self._version: str | None = None

    @abstractmethod
    def _key(self) -> object:
        """What it is let in with; raises where there is none."""

    def probe(self) -> Probe:
        """Return what can be told without starting the program: its files may say which version it is."""
        can = self.can
        try:
            version = subprocess_agent.version_by_files(self._words)
            can = can._replace(version=version)
            self._key()
            self._reach()
            if version is not None:
                subprocess_agent.refuse_old(self.name, version, self.minimum, self.how)
        except AgentUnavailable as fault:
            return can._replace(problem=fault.message, next_step=fault.next_step)
        return can

    @cached_property
    def _words(self) -> tuple[str, ...]:
        found = subprocess_agent.words_of(self._agent, self._caller, self.program)
        if found is None:
            raise subprocess_agent.missing(self.name, (self._agent.run or (self.program,))[0], self.how)
        return found

    def _reach(self) -> Forward | None:
        return network.of(self.name, self._agent, self.hosts)

    def _refuse_old(self, asking: AgentRequest) -> None:
        """Refuse a version that is not known here. Where its files do not say it, it is asked, in its own box."""
        if self._version is None:
            self._version = subprocess_agent.version_by_files(self._words) or subprocess_agent.version_of(
                self._words, asking
            )
        subprocess_agent.refuse_old(self.name, self._version, self.minimum, self.how)
