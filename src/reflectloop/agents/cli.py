"""What Claude Code and Codex have in common: a program on PATH, a version from which on it is known, a key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

from reflectloop.agents import program
from reflectloop.agents.backend import Probe
from reflectloop.config import AgentConfig
from reflectloop.errors import AgentUnavailable


class Cli(ABC):
    """One of them; `can` is what it can do, whichever version it is."""

    program: ClassVar[str]
    minimum: ClassVar[tuple[int, ...]]
    how: ClassVar[str]  # it is installed
    can: ClassVar[Probe]

    def __init__(self, name: str, agent: AgentConfig, caller: Mapping[str, str]) -> None:
        self.name = name
        self._agent, self._caller = agent, caller

    @abstractmethod
    def _key(self) -> object:
        """What it is let in with; raises where there is none."""

    def probe(self) -> Probe:
        can = self.can
        try:
            can = can._replace(version=self._version)
            self._key()
            self._refuse_old()
        except AgentUnavailable as fault:
            return can._replace(problem=fault.message, next_step=fault.next_step)
        return can

    @cached_property
    def _words(self) -> tuple[str, ...]:
        found = program.words_of(self._agent, self._caller, self.program)
        if found is None:
            raise program.missing(self.name, (self._agent.run or (self.program,))[0], self.how)
        return found

    @cached_property
    def _version(self) -> str | None:
        return program.version_of(self._words, self._caller)

    def _refuse_old(self) -> None:
        program.refuse_old(self.name, self._version, self.minimum, self.how)
