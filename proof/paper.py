"""What a proof leaves behind: claims, each with what was done and what was seen."""

from __future__ import annotations

import datetime as dt
import platform
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Claim(NamedTuple):
    text: str
    seen: str
    holds: bool


class Paper:
    def __init__(self, name: str, about: str) -> None:
        self.name, self.about = name, about
        self.claims: list[Claim] = []
        self.tables: list[str] = []

    def claim(self, text: str, seen: str, *, holds: bool) -> None:
        self.claims.append(Claim(text, seen, holds))
        print(f"{'ok ' if holds else 'NOT'} {text}: {seen}", flush=True)

    def table(self, head: list[str], rows: list[list[str]]) -> None:
        """More than a claim can say; comes after all of them."""
        lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
        self.tables += ["", lines[0], "|---" * len(head) + "|", *lines[1:]]

    def write(self) -> None:
        """Leave the document, and fail when a claim does not hold."""
        today = dt.datetime.now(dt.UTC).date()
        lines = [f"# Proof: {self.name}", "", self.about, "", f"`make proof-{self.name}`, {today}, Python "]
        lines[-1] += f"{platform.python_version()}, Linux {platform.release().split('-')[0]}."
        lines += ["", "| claim | seen | holds |", "|---|---|---|"]
        lines += [f"| {one.text} | {one.seen} | {'yes' if one.holds else '**no**'} |" for one in self.claims]
        lines += self.tables
        path = ROOT / "docs" / "proof" / f"{self.name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
        if not all(one.holds for one in self.claims):
            sys.exit(1)
