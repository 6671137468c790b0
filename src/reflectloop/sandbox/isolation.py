"""Which isolation this machine gives, found out by trying, and whether that is what was asked for."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Literal, NamedTuple

from reflectloop.errors import SandboxCreateFailed
from reflectloop.system import bubblewrap, landlock
from reflectloop.system.bubblewrap import Namespaces
from reflectloop.terms import Isolation, Network

By = Literal["bubblewrap", "landlock", "nothing"]
NET = "+net"


class IsolationLevel(NamedTuple):
    """A level, and what makes it. Only bubblewrap can show the workspace where the project is."""

    level: Isolation
    by: By
    why_not_more: str = ""

    @property
    def mounted(self) -> bool:
        return self.by == "bubblewrap" and self.level.rank >= Isolation.FS.rank

    def network(self, asked: Network | None) -> Network:
        return asked or (Network.NONE if self.level is Isolation.FULL else Network.HOST)

    def stamp(self, asked: Iterable[Network | None]) -> str:
        """What is written on the envelope: a step given the network lowers `full` for the whole run."""
        opened = self.level is Isolation.FULL and any(self.network(one) is Network.HOST for one in asked)
        return f"{self.level}{NET}" if opened else str(self.level)


def strength(stamp: str) -> tuple[int, bool]:
    """Of a stamp, to compare with another's: the level, and whether the network stayed shut."""
    return Isolation(stamp.removesuffix(NET)).rank, not stamp.endswith(NET)


@functools.cache
def possible() -> tuple[IsolationLevel, ...]:
    """Every wall this machine can build, strongest first."""
    out = []
    apart = bubblewrap.refusal(Namespaces(network=True, own_user=True))
    mounts = bubblewrap.refusal(Namespaces(own_user=True))
    processes = bubblewrap.refusal()
    if apart is None:
        out.append(IsolationLevel(Isolation.FULL, "bubblewrap"))
    if mounts is None:
        out.append(IsolationLevel(Isolation.FS, "bubblewrap", apart or ""))
    if landlock.refusal() is None:
        out.append(IsolationLevel(Isolation.FS, "landlock", apart or ""))
    lacking = "; ".join(filter(None, (mounts, landlock.refusal())))
    out.append(IsolationLevel(Isolation.WORKSPACE, "nothing" if processes else "bubblewrap", lacking))
    return tuple(out)


def reach(floor: Isolation, strongest: Isolation = Isolation.FULL) -> IsolationLevel:
    """The best wall up to `strongest`; refuses when it is below what was asked for."""
    wall = next(one for one in possible() if one.level.rank <= max(strongest.rank, 1))
    if floor.rank > wall.level.rank:
        why = f"[box] strongest is {strongest}" if wall.level is strongest else wall.why_not_more
        raise SandboxCreateFailed(
            f"isolation {floor} is required and {wall.level} is reached: {why}",
            next_step="reflectloop doctor",
            missing=(f"isolation:{floor}",),
        )
    return wall


def refuse_network(wall: IsolationLevel, floor: Isolation, asked: dict[str, Network | None]) -> None:
    """Before anything runs: what steps ask for must fit the level that was promised."""
    opened = [name for name, one in asked.items() if one is Network.HOST]
    if floor is Isolation.FULL and opened:
        raise SandboxCreateFailed(
            f"isolation full is required, and step(s) {', '.join(opened)} ask for the network of the host",
            next_step="take `network: host` out of the plan, or require fs",
            missing=("isolation:full",),
        )
    closed = [name for name, one in asked.items() if one is Network.NONE]
    if closed and wall.level.rank < Isolation.FS.rank:
        raise SandboxCreateFailed(
            f"step(s) {', '.join(closed)} are to have no network, which level {wall.level} cannot promise",
            next_step="reflectloop doctor",
            missing=("network:none",),
        )
