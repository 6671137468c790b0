"""The powers that code can have, and how far each is ordinary."""

from __future__ import annotations

from typing import Literal, NamedTuple

# dangerous: new in one module asks a person. project: new in the whole project asks. ordinary: new in the whole
# project asks on a fix, which seldom needs it; otherwise it is listed only.
Reach = Literal["dangerous", "project", "ordinary"]


class Power(NamedTuple):
    """Something that code can do beyond computing with its arguments."""

    name: str
    phrase: str  # completes "can now …"
    reach: Reach


class PowerUse(NamedTuple):
    """One place that uses a power."""

    power: str
    line: int
    rule: str = "new-power"


_TABLE: tuple[tuple[str, str, Reach], ...] = (
    ("frames", "look at the call stack", "dangerous"),
    ("modules", "look through or replace the loaded modules", "dangerous"),
    ("objects", "look through all objects or classes of the process", "dangerous"),
    ("dynamic", "run code that is not written in it", "dangerous"),
    ("computed-name", "reach parts of the interpreter by a computed name", "dangerous"),
    ("computed-import", "import modules by a computed name", "dangerous"),
    ("native", "call native code", "dangerous"),
    ("equality", "be equal to values that it does not compare", "dangerous"),
    ("disguise", "appear to be of another type", "dangerous"),
    ("patching", "replace parts of other modules", "dangerous"),
    ("hooks", "watch or change how the interpreter runs code", "dangerous"),
    ("process", "end, replace or copy the process", "dangerous"),
    ("exit-handler", "leave the process from a handler that runs at its end", "dangerous"),
    ("test-tools", "use the tools that test it", "dangerous"),
    ("import-path", "change where modules are imported from", "dangerous"),
    ("watchers", "look at the handlers, hooks and filters that others set", "dangerous"),
    ("processes", "look at other processes, or how this one was started", "dangerous"),
    ("knows-the-test", "ask whether it is being tested", "dangerous"),
    ("knows-the-checkout", "ask whether it lies in its source folder", "dangerous"),
    ("knows-the-ci", "ask whether it runs in continuous integration", "dangerous"),
    ("subprocess", "start other programs", "project"),
    ("network", "use the network", "project"),
    ("write", "write files", "ordinary"),
    ("read", "read files", "ordinary"),
    ("environment", "read the environment", "ordinary"),
    ("arguments", "read the command line", "ordinary"),
    ("clock", "read the clock", "ordinary"),
    ("chance", "use random numbers", "ordinary"),
    ("later", "run code later, or beside its caller", "ordinary"),
    ("surroundings", "look at the process and the machine it runs on", "ordinary"),
    ("handlers", "run code at the end of the process or on signals", "ordinary"),
    ("settings", "change settings of the whole process", "ordinary"),
    ("exit", "leave the program", "ordinary"),
)
POWERS = {name: Power(name, phrase, reach) for name, phrase, reach in _TABLE}
# Powers by which code can tell where and by whom it is run.
SENSING = frozenset(
    ("frames", "modules", "objects", "environment", "arguments", "read", "surroundings", "subprocess", "processes")
) | {"watchers"}
