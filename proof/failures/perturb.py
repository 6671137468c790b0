"""The same failure as another machine would print it: other folders, lines, times, colours, addresses and order."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

from proof.failures.ground import Log

_BLOCKS = re.compile(r"^(?:={70}|_{3,} .* _{3,}|(?=[^\s:]+\.\w+:\d+(?::\d+)?: ))", re.MULTILINE)
_ENDS = re.compile(r"^(?:-{70}\nRan |=+ short test summary)", re.MULTILINE)


def _numbered(text: str, pattern: str, dice: random.Random, low: int, high: int) -> str:
    shift = dice.randint(low, high)
    return re.sub(pattern, lambda found: f"{found[1]}{int(found[2]) + shift}", text)


def paths(log: Log, dice: random.Random) -> str:
    word = "".join(dice.choices("abcdefgh", k=6))
    text = log.text.replace(log.folder, f"/home/{word}/code/{word}-project")
    root = log.folder.rpartition("/")[0]
    return text.replace(root, f"/srv/{word}").replace(str(Path(sys.base_prefix).parent), f"/opt/{word}")


def shifted(log: Log, dice: random.Random) -> str:
    text = _numbered(log.text, r"(\bline )(\d+)", dice, 3, 400)
    return _numbered(text, r"(\b[\w/.-]+\.(?:py|c|rs|java|js|mjs|sh|toml):)(\d+)", dice, 3, 400)


def times(log: Log, dice: random.Random) -> str:
    text = re.sub(r"\b\d+\.\d+s\b", lambda _: f"{dice.uniform(0.01, 99):.2f}s", log.text)
    text = re.sub(
        r"\b(in |after |duration_ms:? )\d+(?:\.\d+)?", lambda found: f"{found[1]}{dice.uniform(1, 9999):.3f}", text
    )
    return re.sub(r"\b20\d\d-\d\d-\d\d([ T_])\d\d([:_])\d\d([:_])\d\d", r"2031-01-02\g<1>03\g<2>04\g<3>05", text)


def clocked(log: Log, dice: random.Random) -> str:
    """As a CI service keeps it: a time before every line."""
    second = dice.randint(0, 50)
    lines = log.text.splitlines()
    return "".join(
        f"2031-05-06T07:08:{second + number % 9:02d}.{number:07d}Z {line}\n" for number, line in enumerate(lines)
    )


def colours(log: Log, _: random.Random) -> str:
    text = re.sub(r"\b(error|Error|ERROR|fatal|FAILED|failed)\b", "\x1b[31;1m\\1\x1b[0m", log.text)
    return re.sub(r"^(\S+:\d+)", "\x1b[36m\\1\x1b[39;49m", text, flags=re.MULTILINE)


def addresses(log: Log, dice: random.Random) -> str:
    text = re.sub(r"0x[0-9a-f]{6,}", lambda _: f"0x{dice.getrandbits(44):x}", log.text)
    text = re.sub(
        r"(127\.0\.0\.1|localhost)([:/ ]| port )(\d{4,5})", lambda f: f"{f[1]}{f[2]}{dice.randint(1025, 65000)}", text
    )
    text = re.sub(r"(port=|pid |process )\d+", lambda f: f"{f[1]}{dice.randint(1025, 65000)}", text)
    return re.sub(
        r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b",
        lambda f: f"{dice.getrandbits(160):040x}"[: len(f[0]) - 1] + "a" if len(f[0]) > 8 else f[0],
        text,
    )


def order(log: Log, dice: random.Random) -> str:
    """The complaints of a log, each as a whole, in another order."""
    starts = [found.start() for found in _BLOCKS.finditer(log.text)]
    end = _ENDS.search(log.text)
    last = end.start() if end else len(log.text)
    starts = [start for start in starts if start < last]
    if len(starts) < 2:
        return log.text
    blocks = [log.text[start:stop] for start, stop in zip(starts, [*starts[1:], last], strict=True)]
    dice.shuffle(blocks)
    blocks = [block if block.endswith("\n") else block + "\n" for block in blocks]
    return log.text[: starts[0]] + "".join(blocks) + log.text[last:]


PERTURBATIONS: dict[str, Callable[[Log, random.Random], str]] = {
    "other folders": paths,
    "other line numbers": shifted,
    "other times and durations": times,
    "a clock before every line": clocked,
    "colours": colours,
    "other addresses, ports, hashes": addresses,
    "another order": order,
}


def everything(log: Log, dice: random.Random) -> str:
    for name, perturb in PERTURBATIONS.items():
        if name != "a clock before every line":
            log = log._replace(text=perturb(log, dice))
    return clocked(log, dice)
