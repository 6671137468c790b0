"""Fills in the samples of a rule, so that no file of ours holds a text that looks like a credential."""

from __future__ import annotations

import base64
import random
import re
import string

_HOLE = re.compile(r"\{(\w+)(?::(\d+))?\}")
_ALPHABETS = {
    "alnum": string.ascii_letters + string.digits,
    "letters": string.ascii_letters,
    "lower": string.ascii_lowercase,
    "lownum": string.ascii_lowercase + string.digits,
    "upnum": string.ascii_uppercase + string.digits,
    "digits": string.digits,
    "hex": "0123456789abcdef",
    "b32": string.ascii_uppercase + "234567",
    "b32low": string.ascii_lowercase + "234567",
    "bech": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "base58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "base64": string.ascii_letters + string.digits + "+/",
}


def filled(template: str, seed: str) -> str:
    """The template with every `{kind:length}` filled in; the same seed fills in the same."""
    dice = random.Random(seed)  # noqa: S311 - a sample, not a secret

    def fill(hole: re.Match[str]) -> str:
        kind, length = hole[1], int(hole[2] or 0)
        if kind == "uuid":
            return "-".join(_run("hex", size, dice) for size in (8, 4, 4, 4, 12))
        if kind == "login":
            return base64.b64encode(f"acme:{_run('lownum', length, dice)}".encode()).decode()
        return _run(kind, length, dice) if kind in _ALPHABETS else hole[0]

    return _HOLE.sub(fill, template)


def _run(kind: str, length: int, dice: random.Random) -> str:
    """A run that holds a digit where it can: real tokens of that length do, and rules may ask for one."""
    alphabet = _ALPHABETS[kind]
    letters = [dice.choice(alphabet) for _ in range(length)]
    if length >= 8 and "7" in alphabet and not any(letter.isdigit() for letter in letters):  # noqa: PLR2004
        letters[length // 2] = "7"
    return "".join(letters)
