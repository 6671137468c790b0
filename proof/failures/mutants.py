"""Real packages broken in real ways: modules of the standard library, one operator changed, under their tests."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from proof.failures.scenario import Scenario

MODULES = [
    "textwrap",
    "shlex",
    "fnmatch",
    "colorsys",
    "graphlib",
    "reprlib",
    "fractions",
    "difflib",
    "string",
    "ipaddress",
    "calendar",
    "configparser",
]
_EACH = 6
_CHANGES = (
    (r" == ", " != "),
    (r" < ", " >= "),
    (r" \+ 1\b", " - 1"),
    (r"\bnot in\b", "in"),
    (r" and ", " or "),
    (r"(?m)^( {8}return )(?!None$).+$", r"\1None"),
    (r" > ", " <= "),
    (r"\bTrue\b", "False"),
)


def _sites(source: str) -> list[tuple[int, int, str]]:
    found = [
        (one.start(), one.end(), one.expand(put)) for pattern, put in _CHANGES for one in re.finditer(pattern, source)
    ]
    return [found[number * len(found) // _EACH] for number in range(min(_EACH, len(found)))]


def _broken(module: str, number: int, site: tuple[int, int, str]) -> Scenario:
    start, end, put = site
    library = Path(sys.base_prefix) / "lib" / f"python3.{sys.version_info.minor}"
    change = f"""cat > change.py <<"X"
source = open({str(library / module)!r} + ".py").read()
open("{module}.py", "w").write(source[:{start}] + {put!r} + source[{end}:])
X
$BASEPY change.py"""
    script = f"{change}; PYTHONPATH=. timeout 20 $BASEPY -m unittest test.test_{module}"
    return Scenario(f"mutant-{module}-{number}", "a test is broken", script)


def mutants() -> list[Scenario]:
    library = Path(sys.base_prefix) / "lib" / f"python3.{sys.version_info.minor}"
    return [
        _broken(module, number, site)
        for module in MODULES
        for number, site in enumerate(_sites((library / f"{module}.py").read_text()))
    ]
