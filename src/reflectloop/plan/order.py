"""Orders steps by their dependencies, one by one or in batches, in plan order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def find_cycle(needs: Mapping[str, Sequence[str]]) -> list[str] | None:
    """Return one dependency cycle, from its first step back to it, or None."""
    state: dict[str, int] = {}
    for root in needs:
        trail: list[str] = []
        stack: list[tuple[str, int]] = [(root, 0)]
        while stack:
            name, position = stack.pop()
            if position == 0:
                if state.get(name):
                    continue
                state[name] = 1
                trail.append(name)
            following = [need for need in needs.get(name, ()) if need in needs]
            if position < len(following):
                stack.append((name, position + 1))
                need = following[position]
                if state.get(need) == 1:
                    return [*trail[trail.index(need) :], need]
                if not state.get(need):
                    stack.append((need, 0))
            else:
                state[name] = 2
                trail.pop()
    return None


def sequence(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the steps in plan order, except that each comes after its dependencies. There must be no cycle."""
    done: dict[str, None] = {}
    for root in needs:
        stack = [root]
        while stack:
            name = stack[-1]
            missing = [need for need in needs[name] if need not in done]
            if name in done or not missing:
                done.setdefault(stack.pop())
            else:
                stack.append(missing[0])
    return list(done)


def batches(needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return groups of steps that can run in parallel, each in plan order."""
    level: dict[str, int] = {}
    for name in sequence(needs):
        level[name] = 1 + max((level[need] for need in needs[name]), default=-1)
    out: list[list[str]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for name in needs:
        out[level[name]].append(name)
    return out
