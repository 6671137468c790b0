"""The scanner under texts made to be slow, to crash it, or to slip a value through."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from proof import hunt
from proof.paper import ROOT, Paper
from reflectloop.secrets.rulefile import SecretRuleEntry, fill_sample

_SIZES = (100_000, 200_000)
_RATIO = 3.0
_SECONDS = 190
_CHUNK = 1 << 16
_FLAT_KB = 20_000
_LIMIT_KB = 300_000


class Slow(NamedTuple):
    rule: str
    text: str
    speed: float  # MB of text for a second of CPU
    ratio: float
    findings: int


def seconds(text: bytes) -> float:
    begun = time.process_time()
    hunt.detector().scan(text)
    return time.process_time() - begun


def adversarial(entry: SecretRuleEntry) -> Iterator[tuple[str, str]]:
    """What a rule must look at and refuse: its keyword over and over, its sample too short and too long."""
    sample = fill_sample(entry.match[0], entry.id)
    word = entry.keywords[0] if entry.keywords else sample[:4]
    separator = random.Random(entry.id).choice(["", " ", "=", '"', ":"])
    yield f"`{word}` over and over", word + separator
    yield f"`{word}` in lines of 80", (word + separator) * max(1, 80 // len(word + separator)) + "\n"
    yield "the sample, a third too short", sample[: len(sample) * 2 // 3] + " "
    yield "the sample, run on", sample.rstrip()[:-1] * 3


def measured(entry: SecretRuleEntry) -> list[Slow]:
    out = []
    for name, unit in adversarial(entry):
        once, twice = ((unit * (size // len(unit) + 1))[:size].encode() for size in _SIZES)
        seconds(once[:5_000])  # patterns are compiled when first needed
        took = [seconds(once), seconds(twice)]
        for _ in range(2):
            if took[1] > _RATIO * took[0]:
                took = [min(took[0], seconds(once)), min(took[1], seconds(twice))]
        findings = len(hunt.detector().scan(once[:20_000]))
        shown = re.sub(r"[\r\n\t]", "␤", name).replace("|", "/")
        out.append(Slow(entry.id, shown, len(twice) / took[1] / 1e6, took[1] / took[0], findings))
    return out


def linear(paper: Paper) -> None:
    with ProcessPoolExecutor(2) as pool:
        found = [one for each in pool.map(measured, hunt.ENTRIES, chunksize=8) for one in each]
    steepest = max(found, key=lambda one: one.ratio)
    paper.claim(
        "time grows with the text and not faster, for texts made against each rule",
        f"{len(found)} texts against {len(hunt.ENTRIES)} rules at 100 and 200 kB; the steepest took "
        f"{steepest.ratio:.2f} times as long for twice as much ({steepest.rule}, {steepest.text})",
        holds=steepest.ratio <= _RATIO,
    )
    for name, some in (
        ("without", [one for one in found if not one.findings]),
        ("with", [o for o in found if o.findings]),
    ):
        slowest = sorted(some, key=lambda one: one.speed)
        paper.claim(
            f"the slowest of the texts {name} findings",
            f"{slowest[0].speed:.2f} MB/s of CPU ({slowest[0].rule}, {slowest[0].text}); "
            f"{sum(one.speed < 2 for one in some)} of {len(some)} below 2 MB/s",
            holds=slowest[0].speed > 0.05,
        )
        rows = [[one.rule, one.text, f"{one.speed:.2f}", f"{one.ratio:.2f}"] for one in slowest[:8]]
        paper.table([f"slowest {name} findings", "text", "MB/s of CPU", "200 kB against 100 kB"], rows)


class Guided(NamedTuple):
    process: subprocess.Popen[bytes]
    note: Path
    log: Path


def guided(folder: Path) -> Guided | str:
    """Starts the coverage-guided fuzzer in an environment of its own; or why it cannot be."""
    python = str(folder / "venv" / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "atheris"]
    if subprocess.run(install, check=False, capture_output=True).returncode:
        return "atheris has no wheel for this Python"
    corpus, note, log = folder / "corpus", folder / "count", folder / "log"
    corpus.mkdir()
    dice = random.Random(0)
    for number in range(500):
        (corpus / str(number)).write_bytes(hunt.mutated(dice)[:4_000])
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), sysconfig.get_path("purelib")])
    argv = [python, "-m", "proof.hunt", str(note), f"-max_total_time={_SECONDS}", "-max_len=12000", str(corpus)]
    with log.open("wb") as file:
        process = subprocess.Popen(argv, cwd=folder, env={**os.environ, "PYTHONPATH": path}, stdout=file, stderr=file)
    return Guided(process, note, log)


def fuzzed(paper: Paper, running: Guided | str) -> None:
    text = "no crash, the same findings whatever the chunking, and no planted value shown"
    mine = hunt.own(60 if isinstance(running, Guided) else _SECONDS, seed=1)
    paper.claim(
        f"{text}: mutations of our own", f"{mine.inputs} inputs{mine.fault and ', ' + mine.fault}", holds=not mine.fault
    )
    if isinstance(running, str):
        paper.claim(f"{text}: coverage-guided", f"not run: {running}", holds=True)
        return
    code = running.process.wait()
    count = json.loads(running.note.read_text()) if running.note.exists() else 0
    last = running.log.read_text(errors="replace").strip().splitlines()[-1:]
    paper.claim(
        f"{text}: coverage-guided (atheris)",
        f"{count} inputs in {_SECONDS} s, exit {code}" + (f": {last}" if code else ""),
        holds=code == 0 and count > 0,
    )


def _streams() -> dict[str, Iterator[bytes]]:
    dice = random.Random(0)
    flood = b"\x1b[31m\x1b[1A\x1b]0;t\x07\x1b[2K\r" * 3_000
    return {
        "line": (b"a" * _CHUNK for _ in range(500_000_000 // _CHUNK)),
        "escapes": (flood[:_CHUNK] for _ in range(50_000_000 // _CHUNK)),
        "binary": (dice.randbytes(_CHUNK) for _ in range(50_000_000 // _CHUNK)),
    }


def stream(kind: str) -> None:
    """In a process of its own: one stream with a canary at its end. Says what it took."""
    secret = next(one for one in hunt.planted() if one.text.startswith(b"ghp_"))
    scanner = hunt.detector().scanner()
    shown, size, spent, early = b"", 0, 0.0, 0
    for number, chunk in enumerate(_streams()[kind]):
        begun = time.process_time()
        shown = shown[-200:] + scanner.feed(chunk)
        spent += time.process_time() - begun
        size += len(chunk)
        early = _peak() if number == 100 else early
    shown += scanner.feed(b" " + secret.text + b"\n") + scanner.finish()
    found = [one.rule for one in scanner.findings]
    answer = {"found": found[-1:], "shown": secret.value in shown, "speed": size / spent / 1e6}
    print(json.dumps({**answer, "early": early, "peak": _peak()}))


def _peak() -> int:
    """The most memory this process ever had, in kB."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) if found else 0


def streams(paper: Paper) -> None:
    names = {
        "line": "a line of 500 MB without an end, a canary behind it",
        "escapes": "50 MB of terminal escapes, a canary behind them",
        "binary": "50 MB of chance bytes, a canary behind them",
    }
    for kind, name in names.items():
        done = subprocess.run(
            [sys.executable, "-m", "proof.fuzz", kind], cwd=ROOT, check=True, capture_output=True, text=True
        )
        seen = json.loads(done.stdout)
        paper.claim(
            f"{name}: found, and memory stays flat",
            f"{seen['found']}, {seen['speed']:.0f} MB/s of CPU in chunks of 64 kB, "
            f"peak {seen['early'] / 1000:.0f} MB after 6 MB and {seen['peak'] / 1000:.0f} MB at the end",
            holds=seen["found"] == ["github-token"]
            and not seen["shown"]
            and seen["peak"] - seen["early"] < _FLAT_KB
            and seen["peak"] < _LIMIT_KB,
        )


def main() -> None:
    if len(sys.argv) > 1:
        stream(sys.argv[1])
        return
    paper = Paper("fuzz", "The scanner under texts made to be slow, to crash it, or to slip a value through.")
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as folder:
        running = guided(Path(folder))
        try:
            linear(paper)
            streams(paper)
            fuzzed(paper, running)
        finally:
            if isinstance(running, Guided):
                running.process.kill()
                running.process.wait()
    paper.write()


if __name__ == "__main__":
    main()
