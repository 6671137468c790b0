"""Tests which isolation levels this machine supports, and chooses the one for a run."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from reflectloop.errors import SandboxCreateFailed
from reflectloop.system import bubblewrap, landlock
from reflectloop.system.bubblewrap import Namespaces
from reflectloop.terms import Isolation, Network

By = Literal["bubblewrap", "landlock", "nothing"]
NET = "+net"


class IsolationLevel(NamedTuple):
    """A level and the mechanism behind it. Only bubblewrap can mount the workspace at the project's path."""

    level: Isolation
    by: By
    why_not_more: str = ""

    @property
    def mounted(self) -> bool:
        return self.by == "bubblewrap" and self.level.rank >= Isolation.FS.rank

    def network(self, requested: Network | None) -> Network:
        return requested or (Network.NONE if self.level is Isolation.FULL else Network.HOST)

    def stamp(self, requested: Iterable[Network | None]) -> str:
        """Return the label for the result: one step with the network lowers `full` for the entire run."""
        opened = self.level is Isolation.FULL and any(self.network(network) is Network.HOST for network in requested)
        return f"{self.level}{NET}" if opened else str(self.level)


def strength(stamp: str) -> tuple[int, bool]:
    """Return the strength of a label for comparison: the rank, and True if the network stayed closed."""
    return Isolation(stamp.removesuffix(NET)).rank, not stamp.endswith(NET)


def levels() -> Iterator[IsolationLevel]:
    """Yield every isolation level that this machine supports, strongest first; each is tried when it is asked for."""
    apart = bubblewrap.refusal(Namespaces(network=True, own_user=True))
    if apart is None:
        yield IsolationLevel(Isolation.FULL, "bubblewrap")
    mounts = bubblewrap.refusal(Namespaces(own_user=True))
    if mounts is None:
        yield IsolationLevel(Isolation.FS, "bubblewrap", apart or "")
    if landlock.refusal() is None:
        yield IsolationLevel(Isolation.FS, "landlock", apart or "")
    lacking = "; ".join(filter(None, (mounts, landlock.refusal())))
    yield IsolationLevel(Isolation.WORKSPACE, "nothing" if bubblewrap.refusal() else "bubblewrap", lacking)


@functools.cache
def supported_levels() -> tuple[IsolationLevel, ...]:
    """Return every isolation level that this machine supports, strongest first."""
    return tuple(levels())


def choose_level(floor: Isolation, strongest: Isolation = Isolation.FULL) -> IsolationLevel:
    """Return the best level up to `strongest`, or raise SandboxCreateFailed if it is below `floor`."""
    wall = next(level for level in levels() if level.level.rank <= max(strongest.rank, 1))
    if floor.rank > wall.level.rank:
        why = f"[box] strongest is {strongest}" if wall.level is strongest else wall.why_not_more
        raise SandboxCreateFailed(
            f"isolation {floor} is required, but only {wall.level} is available: {why}",
            next_step="reflectloop doctor",
            missing=(f"isolation:{floor}",),
        )
    return wall


def refuse_network(wall: IsolationLevel, floor: Isolation, requested: dict[str, Network | None]) -> None:
    """Raise SandboxCreateFailed if a step's network setting contradicts the required level, before anything runs."""
    opened = [name for name, network in requested.items() if network is Network.HOST]
    if floor is Isolation.FULL and opened:
        raise SandboxCreateFailed(
            f"isolation full is required, but step(s) {', '.join(opened)} ask for the host's network",
            next_step="remove `network: host` from the plan, or require fs",
            missing=("isolation:full",),
        )
    closed = [name for name, network in requested.items() if network is Network.NONE]
    if closed and wall.level.rank < Isolation.FS.rank:
        raise SandboxCreateFailed(
            f"step(s) {', '.join(closed)} must have no network, which level {wall.level} cannot enforce",
            next_step="reflectloop doctor",
            missing=("network:none",),
        )
