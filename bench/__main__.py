"""`python -m bench [NAME…] [--quick]`: measures, prints the table, and writes it to docs/benchmarks.md."""

from __future__ import annotations

import argparse
import compileall
import re
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import (
    agents,
    autoloop,
    context,
    hooks,
    lessons,
    machine,
    mcp,
    parallel,
    patch,
    policy,
    recovery,
    removal,
    sandbox,
    scan,
    start,
    state,
    step,
    table,
    verify,
    workspace,
)
from bench.ground import Ground, prepared
from bench.table import Section
from reflectloop import errors

REPORT = Path(__file__).parent.parent / "docs" / "benchmarks.md"
GROUPS: dict[str, Callable[[Ground], Section]] = {
    "start": start.measure,
    "hooks": hooks.measure,
    "sandbox": sandbox.measure,
    "step": step.measure,
    "patch": patch.measure,
    "workspace": workspace.measure,
    "recovery": recovery.measure,
    "removal": removal.measure,
    "parallel": parallel.measure,
    "scan": scan.measure,
    "policy": policy.measure,
    "verify": verify.measure,
    "state": state.measure,
    "lessons": lessons.measure,
    "context": context.measure,
    "agents": agents.measure,
    "mcp": mcp.measure,
    "autoloop": autoloop.measure,
}
_PREFACE = """\
# Benchmarks

Written by `make bench` (`python -m bench`) on {date}; do not edit. Every ratio was taken in one run on one machine,
ours and its peers in turn. A ratio is ours to the peer, or to the floor where there is no peer: below 1 is faster.
A missed bar is written as missed.

{facts}

**{verdict}.**
"""


def _compile() -> None:
    """Compile the program's modules, as an installer does: with PYTHONDONTWRITEBYTECODE every start would do it."""
    program = Path(errors.__file__).parent
    compileall.compile_dir(program, quiet=1, rx=re.compile("/sample/"))


def main(words: Sequence[str]) -> None:
    asked = _parse(words)
    # Ended from outside, it still clears away what it made.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    names = asked.names or list(GROUPS)
    _compile()
    sections: list[Section] = []
    with prepared(quick=asked.quick) as ground:
        facts = machine.facts(ground.disk)
        for name in names:
            sections.append(GROUPS[name](ground))
            print(table.plain(sections[-1]), end="\n\n", flush=True)
    print(table.verdict(sections))
    if asked.renew:
        REPORT.write_text(_renewed(REPORT.read_text(), sections))
        return
    if asked.quick or asked.names:
        print("not written: docs/benchmarks.md holds whole runs, or groups with --renew")
        return
    REPORT.write_text(_report(sections, facts))


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(GROUPS)}")
    parser.add_argument("--quick", action="store_true", help="few rounds and no large repository")
    parser.add_argument("--renew", action="store_true", help="write these groups into docs/benchmarks.md")
    asked = parser.parse_args(words)
    unknown = [name for name in asked.names if name not in GROUPS]
    if unknown:
        parser.error(f"there is no group {', '.join(unknown)}; there are: {', '.join(GROUPS)}")
    return asked


def _report(sections: Sequence[Section], facts: dict[str, str]) -> str:
    said = ", ".join(f"{name} {value}" for name, value in facts.items())
    preface = _PREFACE.format(date=datetime.now(UTC).date(), facts=f"Machine: {said}.", verdict=table.verdict(sections))
    return "\n".join([preface, *(table.markdown(section) for section in sections)])


def _renewed(text: str, sections: Sequence[Section]) -> str:
    """Every ratio is of one group's own run, so a group can be measured alone."""
    preface, *blocks = text.split("\n## ")
    today = f"Measured alone on {datetime.now(UTC).date()}."
    new = {
        section.name: table.markdown(Section(section.name, [*section.notes, today], section.rows)).removeprefix("## ")
        for section in sections
    }
    blocks = [new.pop(block.partition("\n")[0], block) for block in blocks]
    blocks += new.values()
    met, missed = (sum(block.count(f"| {word} |\n") for block in blocks) for word in ("yes", "MISSED"))
    verdict = f"**{met} of {met + missed} bars met, {missed} missed.**"
    preface = re.sub(r"^\*\*\d+ of .*\*\*$", verdict, preface, flags=re.MULTILINE)
    return "\n## ".join([preface, *blocks])


main(sys.argv[1:])
