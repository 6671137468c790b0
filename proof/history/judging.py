"""What `reflectloop verify` says of a commit, and what it cost."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from proof.history.project import Project
from proof.history.sampling import TRACKS, Commit
from proof.paper import ROOT

OUTCOMES = ("PASS", "REVIEW", "REFUSED", "NOT JUDGED")
_BY_DECISION = {"PASS": "PASS", "ASK": "REVIEW", "RETRY": "REFUSED", "REDO": "REFUSED"}
_LIMIT_S = 900
# Not the command line, its languages, hooks, agents, lessons and artifacts.
_JUDGING = (
    *("verification", "engine/gating", "gates", "policy", "plan", "sandbox", "workspace", "secrets", "system"),
    *("diagnosis", "trust", "config.py"),
)


class Verdict(NamedTuple):
    """The answer to one commit."""

    product: str
    outcome: str
    exit_code: int
    reasons: tuple[str, ...]
    findings: tuple[str, ...]  # without notes
    seconds: float
    runs: int
    run_seconds: float


def product_version() -> str:
    """Return a name for the sources that a verdict depends on, as they are now."""
    names = [f"src/reflectloop/{name}" for name in _JUDGING]
    trees = subprocess.run(["git", "ls-tree", "HEAD", *names], cwd=ROOT, capture_output=True, check=True).stdout
    edits = subprocess.run(["git", "diff", "HEAD", "--", *names], cwd=ROOT, capture_output=True, check=True).stdout
    name = hashlib.sha256(trees).hexdigest()[:10]
    return name + (f"+{hashlib.sha256(edits).hexdigest()[:6]}" if edits else "")


def read_outcome(data: dict[str, Any] | None) -> str:
    """Return the outcome of an answer: the word it has, or the one that its decision means."""
    if not data:
        return "NOT JUDGED"
    word = str(data.get("outcome") or "").replace("_", " ").upper()
    return word if word in OUTCOMES else _BY_DECISION.get(str(data.get("decision")), "NOT JUDGED")


def read_answer(answer: dict[str, Any], exit_code: int, seconds: float, evidence: str, product: str) -> Verdict:
    """Read the JSON answer of `verify` and its evidence file."""
    envelope, data = answer.get("envelope", {}), answer.get("data") or {}
    reasons = [reason["text"] for reason in data.get("reasons", [])] or [envelope.get("message") or "no answer"]
    findings = [
        f"{item['rule']} {item['path']}:{item['line']}: {item['what']}"
        for item in data.get("findings", [])
        if item.get("grade") != "note"
    ]
    runs = [json.loads(line) for line in evidence.splitlines()]
    return Verdict(
        product,
        read_outcome(data),
        exit_code,
        tuple(reasons),
        tuple(findings),
        round(seconds, 2),
        len(runs),
        covered_seconds(runs),
    )


def covered_seconds(runs: Sequence[dict[str, Any]]) -> float:
    """Return how long at least one of the runs was under way: runs side by side count once."""
    spans = [(dt.datetime.fromisoformat(run["started"]).timestamp(), run["duration_ms"] / 1000) for run in runs]
    covered, end = 0.0, 0.0
    for start, seconds in sorted(spans):
        covered += max(0.0, start + seconds - max(start, end))
        end = max(end, start + seconds)
    return round(covered, 2)


def judge(project: Project, commit: Commit, kind: str, product: str) -> Verdict:
    """Put one commit to `verify`, or read the verdict that this version of the product gave before."""
    record = project.results / f"{commit.id[:12]}.verdict.json"
    if record.exists():
        entry = json.loads(record.read_text())
        if entry["product"] == product:
            return _verdict(entry)
    project.check_out(commit.id)
    shutil.rmtree(project.clone / ".reflectloop", ignore_errors=True)
    track = TRACKS[kind]
    argv = [sys.executable, "-m", "reflectloop", "verify", "--json", "--base", commit.parent]
    began = time.monotonic()
    with subprocess.Popen(
        [*argv, *(("--track", track) if track else ())],
        cwd=project.clone,
        env=project.env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as engine:
        try:
            output, errors = engine.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            engine.terminate()
            output, errors = engine.communicate()
    seconds = time.monotonic() - began
    (project.results / f"{commit.id[:12]}.answer.json").write_bytes(output)
    try:
        answer = json.loads(output)
    except json.JSONDecodeError:
        answer = {"envelope": {"message": f"no answer: {errors.decode('utf-8', 'replace')[-500:]}"}}
    verdict = read_answer(answer, engine.returncode, seconds, _evidence(project.clone), product)
    record.write_text(json.dumps(verdict._asdict(), indent=1))
    return verdict


def last_verdict(project: Project, commit: str) -> Verdict | None:
    """Return the newest verdict on a commit, of whatever version of the product."""
    record = project.results / f"{commit[:12]}.verdict.json"
    return _verdict(json.loads(record.read_text())) if record.exists() else None


def _verdict(entry: dict[str, Any]) -> Verdict:
    return Verdict(**{**entry, "reasons": tuple(entry["reasons"]), "findings": tuple(entry["findings"])})


def _evidence(clone: Path) -> str:
    files = sorted((clone / ".reflectloop" / "verifications").glob("*/evidence.jsonl"))
    return files[-1].read_text() if files else ""
