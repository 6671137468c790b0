"""Measures how fast the scanner goes through ordinary logs, beside other scanners and a bare keyword pass."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import ahocorasick_rs

from bench import race
from bench.ground import Ground
from bench.race import Contestant, Spent
from bench.table import Measure, Row, Section
from reflectloop.secrets import Detector
from reflectloop.secrets.detector import builtin_rules

_PEERS = ("detect-secrets==1.5.0", "kingfisher-bin==2.14.0")
_CHUNK = 1 << 16
_SMALL = 1 << 18  # detect-secrets takes seconds for this much
_WORDS = """
    alpha build cache client config data entry error field file filter group handler index input key list loader main
    model module name node option output parser path plan query reader record result route rule server session state
    step store stream table task test thread token tree user value view worker writer
""".split()  # noqa: SIM905
_DETECT_SECRETS = """
import sys
from detect_secrets.core import scan
from detect_secrets.settings import default_settings
with default_settings():
    list(scan.scan_file(sys.argv[1]))
"""


def measure(ground: Ground) -> Section:
    size = (2 if ground.quick else 24) << 20
    large, small = ground.disk / "large.log", ground.disk / "small.log"
    large.write_bytes(logs(size))
    small.write_bytes(logs(_SMALL))
    home = ground.disk / "peers"
    notes = [f"Logs made up of what pytest, pip, apt and compilers print, {size >> 20} MB; CPU time; all rules."]
    there = _install(home)
    if not there:
        notes.append("The peers could not be installed: no package index was to be had.")
    rounds = 1 if ground.quick else 5
    rows = [_large(large, home, rounds, peers=there)]
    if there:
        rows.append(_small(small, home, rounds))
    speed = (size / 1e6) / rows[0].ours.value
    notes.append(f"Ours goes through {speed:.0f} MB a second of CPU. kingfisher's time holds its start.")
    return Section("scan: of ordinary logs", notes, rows)


def _large(path: Path, home: Path, rounds: int, *, peers: bool) -> Row:
    text = path.read_bytes()
    words = [word.encode() for rule in builtin_rules() for word in rule.keywords]
    automaton = ahocorasick_rs.BytesAhoCorasick(words, implementation=ahocorasick_rs.Implementation.DFA)
    entrants = [
        Contestant("ours", lambda: _ours(text)),
        Contestant("keywords alone", lambda: automaton.find_matches_as_indexes(text.lower(), overlapping=True)),
    ]
    if peers:
        argv = [os.fspath(home / "bin" / "kingfisher"), "scan", "--no-validate", "--jobs", "1", os.fspath(path)]
        entrants.append(Contestant("kingfisher", lambda: _run(argv)))
    taken = race.run(entrants, rounds)
    peer = _cpu("kingfisher", taken) if peers else None
    return Row(f"{len(text) >> 20} MB, CPU", _cpu("ours", taken), peer, _cpu("keywords alone", taken))


def _small(path: Path, home: Path, rounds: int) -> Row:
    text = path.read_bytes()
    argv = [os.fspath(home / "bin" / "python"), "-c", _DETECT_SECRETS, os.fspath(path)]
    entrants = [Contestant("ours", lambda: _ours(text)), Contestant("detect-secrets", lambda: _run(argv))]
    taken = race.run(entrants, rounds)
    return Row(f"{len(text) >> 10} kB, CPU", _cpu("ours", taken), _cpu("detect-secrets", taken), limit=1 / 50)


def _cpu(name: str, taken: dict[str, Spent]) -> Measure:
    return Measure(name, taken[name].cpu_s)


def _ours(text: bytes) -> None:
    scanner = _DETECTOR.scanner()
    for start in range(0, len(text), _CHUNK):
        scanner.feed(text[start : start + _CHUNK])
    scanner.finish()


def _run(argv: list[str]) -> None:
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _install(home: Path) -> bool:
    made = subprocess.run([sys.executable, "-m", "venv", os.fspath(home)], capture_output=True, check=False)
    argv = [os.fspath(home / "bin" / "python"), "-m", "pip", "install", "-q", *_PEERS]
    return made.returncode == 0 and subprocess.run(argv, capture_output=True, check=False).returncode == 0


def logs(size: int) -> bytes:
    """The same text for the same size."""
    dice = random.Random(size)  # noqa: S311
    lines: list[str] = []
    length = 0
    while length < size:
        lines.append(_line(dice))
        length += len(lines[-1]) + 1
    return "\n".join(lines).encode()


def _line(dice: random.Random) -> str:
    one, two, three = (dice.choice(_WORDS) for _ in range(3))
    number, digest = dice.randrange(10_000), f"{dice.getrandbits(160):040x}"
    return dice.choice(
        (
            f"tests/test_{one}.py::Test{two.title()}::test_{three}_is_{one}[{number}] PASSED [{number % 100:3d}%]",
            f"  Downloading {one}_{two}-{number % 9}.{number % 17}.0-py3-none-any.whl (12.{number % 9} kB)",
            f"Get:{number} http://deb.test/debian stable/main amd64 lib{one}{two} amd64 {number % 7}.2-1 [{number} B]",
            f"gcc -O2 -Wall -I./include/{one} -c src/{two}/{three}.c -o build/{two}/{three}.o",
            f"[{number:5d}/12000] Building CXX object lib/{one}/CMakeFiles/{two}.dir/{three}.cpp.o",
            f"2026-01-02T03:04:{number % 60:02d}Z INFO  {one}.{two} {three}={number} took {number % 997} ms",
            f"src/{one}/{two}.py:{number}: warning: unused variable '{three}' [-Wunused-variable]",
            f"HEAD is now at {digest[:9]} {one} the {two} of the {three}",
            f"    at {one}.{two}.{three.title()}({three.title()}.java:{number % 800})",
            f"sha256:{digest}{digest[:24]}: Pull complete",
        )
    )


_DETECTOR = Detector(builtin_rules())
