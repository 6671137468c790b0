"""One input of the fuzzers: noise with a secret planted in it must come out without the secret, however it is cut."""

from __future__ import annotations

import importlib
import json
import random
import sys
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

from reflectloop.secrets import Detector, rulefile
from reflectloop.secrets.detector import RULE_FILES, builtin_rules
from reflectloop.secrets.rulefile import fill_sample

ENTRIES = [entry for path in RULE_FILES for entry in rulefile.read_rule_file(path)]
_HEAD = 6  # bytes of an input that say what is planted, where, and how it is cut
_NOTED = 200
_FRAGMENTS = (
    b"-----BEGIN RSA PRIVATE KEY-----",
    b"-----BEGIN PRIVATE KEY-----\\n",
    b"-----END RSA PRIVATE KEY-----",
    b"-----",
    b"\x1b[31m",
    b"\x1b]0;title\x07",
    b"\r\n",
    b"\\\n",
    b"\0",
    b"\xff\xfe",
    b"\xc3",
    b"token:\n",
    b"password=",
    b'": "',
    b"kind: Secret\ndata:\n  a: ",
    b"curl -u a:",
    b"A" * 22,
)


@cache
def detector() -> Detector:
    """Without the values of whoever runs it."""
    return Detector(builtin_rules())


class Planted(NamedTuple):
    text: bytes
    value: bytes


@cache
def planted() -> tuple[Planted, ...]:
    """A secret of each certain rule, filled in otherwise than the samples that the noise is made of."""
    out = []
    for entry in ENTRIES:
        text = fill_sample(entry.match[0], f"planted {entry.id}").encode()
        values = detector().values(text)
        if entry.grade == "certain" and len(values) == 1:
            out.append(Planted(text, values.pop()))
    return tuple(out)


@cache
def samples() -> tuple[bytes, ...]:
    return tuple(fill_sample(sample, entry.id).encode() for entry in ENTRIES for sample in entry.match)


def cut(text: bytes, sizes: list[int]) -> tuple[bytes, list[object]]:
    scanner = detector().scanner()
    out, position, turn = [], 0, 0
    while position < len(text):
        size = sizes[turn % len(sizes)]
        out.append(scanner.feed(text[position : position + size]))
        position, turn = position + size, turn + 1
    out.append(scanner.finish())
    return b"".join(out), list(scanner.findings)


def judge(data: bytes) -> None:
    """Raises AssertionError when something that must hold does not."""
    head, noise = data[:_HEAD].ljust(_HEAD, b"\0"), data[_HEAD:]
    secret = planted()[(head[0] << 8 | head[1]) % len(planted())]
    at = len(noise) * head[2] // 256
    text = noise[:at] + b"\n" + secret.text + b"\n" + noise[at:]
    whole = cut(text, [len(text)])
    if secret.value in whole[0]:
        raise AssertionError("a planted value is shown")
    if not whole[1]:
        raise AssertionError("a planted value is not found")
    if cut(text, [1 + head[3], 1 + head[4] * 16, 1 + head[5]]) != whole:
        raise AssertionError("the chunking changes what is found")


def mutated(dice: random.Random) -> bytes:
    """An input of our own making: fragments and samples, cut, doubled and with bytes changed."""
    parts = []
    for _ in range(dice.randrange(1, 8)):
        part = dice.choice(_FRAGMENTS) if dice.random() < 0.5 else dice.choice(samples())
        match dice.randrange(6):
            case 0:
                part = part[: dice.randrange(len(part) + 1)]
            case 1:
                part *= dice.randrange(2, 40)
            case 2:
                part = bytes(dice.randrange(256) if dice.random() < 0.1 else byte for byte in part)
            case 3:
                part = dice.randbytes(dice.randrange(40))
            case 4:
                part += bytes([dice.randrange(256)]) * dice.choice((1, 80, 4_000, 5_000))
            case _:
                pass
        parts.append(part)
    return dice.randbytes(_HEAD) + dice.choice((b"", b" ", b"\n", b"\r\n", b"\0")).join(parts)


class Hunt(NamedTuple):
    inputs: int
    fault: str  # empty: none


def own(seconds: float, seed: int) -> Hunt:
    dice, end, count = random.Random(seed), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        data = mutated(dice)
        count += 1
        try:
            judge(data)
        except Exception as fault:  # noqa: BLE001 - any is what is looked for
            return Hunt(count, f"{type(fault).__name__}: {fault}: {data.hex()[:400]}")
    return Hunt(count, "")


def guided(note: Path) -> None:
    """Coverage-guided; runs in an environment that has atheris. `note` holds how many inputs there were."""
    atheris = importlib.import_module("atheris")

    count = 0

    def one(data: bytes) -> None:
        nonlocal count
        count += 1
        if count % _NOTED == 0:
            note.write_text(json.dumps(count))
        judge(data)

    planted()
    atheris.instrument_all()
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    guided(Path(sys.argv.pop(1)))
