"""The commands `init`, `demo`, `doctor`, `agents`, `config`, `trust` and `gc`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from reflectloop import languages
from reflectloop.cli import render
from reflectloop.cli.interrupts import as_interrupts
from reflectloop.cli.render import Answer, answers, echo, paint
from reflectloop.commands import agent_status, apply_run, init_project
from reflectloop.commands import doctor as machine
from reflectloop.commands import trust as trust_command
from reflectloop.commands.agent_status import AgentRow, AgentTable
from reflectloop.commands.trust import TrustAnswer, TrustQuestion
from reflectloop.config import NAME
from reflectloop.errors import NeedsInput
from reflectloop.sandbox.escape_tests import ESCAPE_TESTS, EscapeResults, EscapeTest

_AGENT_MARKS = {"ready": ("green", "✓"), "unavailable": ("red", "✗"), "not set up": ("dim", "·")}


@click.command()
@click.option("--triflow", is_flag=True, help="Also write TriFlow's state.json, todo.md and plan_log.md at the top.")
@answers
def init(triflow: bool, project_dir: Path) -> Answer:
    """Write reflectloop.toml and a first plan that runs the project's own tests.

    Existing files stay as they are, except that .gitignore gets lines for .reflectloop and installed packages.

    \b
    Example: reflectloop init && reflectloop run
    """
    made = init_project.init(project_dir, triflow=triflow, caller=os.environ)
    lines = [
        *(f"wrote {name}" for name in made.written),
        *(f"added {line} to .gitignore" for line in made.ignored),
        *(f"kept  {name}" for name in made.kept),
        *(f"tests {command}" for command in made.tests),
        *(f"! {warning}" for warning in made.left),
        "next: edit .reflectloop/plan.yaml, then reflectloop run",
    ]
    return Answer(made._asdict(), lines, next_step="reflectloop run")


@click.command()
@click.option("--agent", is_flag=True, help="Show the loop with agents, whose answers come from a script.")
@answers
def demo(agent: bool, project_dir: Path) -> Answer:  # noqa: ARG001
    """Run a demonstration on a bundled sample project. It needs no model and no network, and changes no file of yours.

    \b
    Example: reflectloop demo
    """
    if agent:
        from reflectloop.demo.unattended import play
    else:
        from reflectloop.demo.story import play

    quiet = render.wants_json()
    shown: list[dict[str, str]] = []

    def show(kind: str, text: str) -> None:
        shown.append({"kind": kind, "text": text})
        if not quiet:
            echo(_demo_line(kind, text))

    play(show)
    yours = "reflectloop agents, then tp and tr --all" if agent else "reflectloop init && reflectloop run"
    lines = [f"\n{paint('green', 'OK')}: every outcome above was checked. Yours: {yours}"]
    return Answer(shown, lines if agent else [*lines, "With agents: reflectloop demo --agent"])


def _demo_line(kind: str, text: str) -> str:
    match kind:
        case "scene":
            return "\n" + paint("bold", text)
        case "do":
            return paint("dim", f"  $ {text}")
        case "step":
            return f"  {paint('green', '✓')} {text}"
        case "failed":
            return f"  {paint('red', '✗')} {text}"
        case "answer":
            return f"  → {text}"
        case _:
            return f"  {text}"


@click.command()
@answers
def doctor(project_dir: Path) -> Answer:
    """Show what this machine has and lacks, and test its isolation by trying to get out of it.

    Runs each installed hook of an agent's program once. Exits 0 if the required isolation level ([box] isolation) is
    reached and every installed hook answers, else 1.

    \b
    Example: reflectloop doctor --json
    """
    from reflectloop.hooks import health

    report = machine.doctor(project_dir)
    report.findings.extend(health.findings(project_dir))
    return Answer(report.as_data(), _doctor_lines(report), exit_code=0 if report.sound else 1)


def _doctor_lines(report: machine.DoctorReport) -> Iterator[str]:
    marks = {"ok": paint("green", "✓"), "weak": paint("yellow", "!"), "missing": paint("red", "✗")}
    for finding in report.findings:
        yield f"{marks[finding.state]} {render.cell(finding.name, 15)} {finding.detail}"
        if finding.state != "ok" and finding.remedy:
            yield f"  {'':15} → {finding.remedy}"
    if report.tried:
        yield ""
        yield render.cell("attempts to get out", 31) + "".join(f"{level.wall.level:<12}" for level in report.tried)
        yield " " * 31 + "".join(f"{level.wall.by:<12}" for level in report.tried)
        for row in ESCAPE_TESTS:
            yield f"  {render.cell(row.name, 29)}" + "".join(_cell(row, level) for level in report.tried)
        yield ""
        for level in report.tried:
            for name, reason in level.untried.items():
                yield f"! {level.wall.level} by {level.wall.by}: could not try to {name}: {reason}"
    limits = next((level.limits_by for level in report.tried if level.limits_by), None)
    yield (
        f"isolation reached: {report.level}" + (f", limits by {limits}" if limits else "") + f"; floor: {report.floor}"
    )


def _cell(attempt: EscapeTest, level: EscapeResults) -> str:
    """Return a cell of the table: red for an attempt that should have failed, a dash where nothing was promised."""
    if attempt.name in level.untried:
        word, colour = "not tried", "yellow"
    elif level.prevented[attempt.name]:
        # A control is work that must succeed, in brackets; its harm is that it does not.
        word, colour = "worked" if attempt.name.startswith("(") else "prevented", "green"
    else:
        word, colour = ("GOT OUT", "red") if attempt.since.rank <= level.wall.level.rank else ("–", "dim")
    shown = render.cell(word, 12)
    return paint(colour, shown.rstrip()) + " " * (len(shown) - len(shown.rstrip()))


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME…]")
@click.option("--check", is_flag=True, help="Send each agent with a role, or each NAME, a short question.")
@answers
def agents(names: tuple[str, ...], check: bool, project_dir: Path) -> Answer:
    """List the agents, or those NAMEd: their roles, whether they are installed, what each can do and what it lacks.

    Shows whether a key is set, never the key. Exits 61 if a role is bound to an agent that is not available or
    did not answer. A question is asked outside the project, and is billed like any other.

    \b
    Example: reflectloop agents --check
    """
    as_interrupts()
    table = agent_status.list_agents(project_dir, names, check=check)
    errors = render.error_lines(table.fault) if table.fault else []
    return Answer(table.as_data(), [*_agent_lines(table), *errors], error=table.fault)


def _agent_lines(table: AgentTable) -> Iterator[str]:
    for row in table.rows:
        kind = f" ({row.kind})" if row.kind != row.name else ""
        abilities = [name.replace("_", " ") for name in row.abilities]
        versions = [row.probe.version] if row.probe.version else []
        facts = ", ".join(languages.line(fact) for fact in (*versions, *abilities))
        roles = f"  → {', '.join(row.roles)}" if row.roles else ""
        mark = _AGENT_MARKS["unavailable" if row.tried and not row.tried.ok else row.state]
        yield f"{paint(*mark)} {row.name + kind:20} {facts or row.state}{roles}"
        yield from (f"  {'':20} {detail}" for detail in _agent_details(row))
    if table.free:
        yield f"roles without an agent: {', '.join(table.free)}"


def _agent_details(row: AgentRow) -> Iterator[str]:
    if row.keys and row.state != "not set up":
        yield ", ".join(f"{name} {state}" for name, state in row.keys.items())
    if row.probe.problem:
        yield f"{row.probe.problem} → {row.probe.next_step}"
    if row.tried:
        result = "answered" if row.tried.ok else f"{row.tried.status}: {row.tried.reason}"
        yield f"{result} in {row.tried.duration_ms / 1000:.1f} s, {row.tried.usage.tokens} tokens"


@click.command()
@answers
def config(project_dir: Path) -> Answer:
    """Show the active settings, and whether each comes from your own config.toml or the project's reflectloop.toml.

    \b
    Example: reflectloop config
    """
    settings = init_project.settings(project_dir)
    shown = ((row["name"], json.dumps(row["value"], ensure_ascii=False), row["origin"]) for row in settings)
    lines = (f"{name:28} {value:20} {languages.line(origin)}" for name, value, origin in shown)
    return Answer(settings, lines)


@click.command()
@click.option("--yes", "-y", is_flag=True, help="Agree without a question; for scripts, after reading the file.")
@click.option("--revoke", is_flag=True, help="Withdraw the agreement for this project.")
@click.option("--list", "list_all", is_flag=True, help="List the projects you trust.")
@answers
def trust(yes: bool, revoke: bool, list_all: bool, project_dir: Path) -> Answer:
    """Show what the project's reflectloop.toml would allow, one line each, and agree to it.

    A project's settings may make yours stricter at once. A setting that lowers isolation, names a program, passes a
    variable or says where a key is sent is ignored until you agree, and again after it changed.

    \b
    Example: reflectloop trust
    """
    if revoke and list_all:
        raise click.UsageError("Choose one: --revoke or --list.")
    if list_all:
        return _trusted_projects()
    if revoke:
        return _trust_answer(trust_command.revoke(project_dir))

    def agree(asked: TrustQuestion) -> bool:
        if not render.wants_json():
            _show_grants(asked)
        if yes:
            return True
        if render.wants_json() or not sys.stdin.isatty():
            keys = ", ".join(grant.key for grant in asked.grants)
            raise NeedsInput(
                f"a person must agree to what {NAME} would allow ({keys}), and there is nobody to ask",
                next_step="read the settings, then: reflectloop trust --yes; for one command: --trust-project",
            )
        return render.confirm("Trust this project with these settings?", default=False)

    return _trust_answer(trust_command.ask(project_dir, agree))


def _show_grants(asked: TrustQuestion) -> None:
    echo(f"{NAME} of {asked.root} would allow:")
    for grant in asked.grants:
        mark = "  (changed since you trusted it)" if grant.key in asked.changed else ""
        echo(f"  {grant.key}: {' '.join(grant.words.split())}{mark}")


def _trust_answer(settled: TrustAnswer) -> Answer:
    asked = settled.asked
    data = {
        "project": str(asked.root),
        "answer": settled.answer,
        "grants": [{"key": grant.key, "allows": grant.words} for grant in asked.grants],
        "changed": list(asked.changed),
    }
    refused = settled.answer == "not trusted"
    return Answer(data, [f"{settled.answer}: {asked.root}"], exit_code=NeedsInput.exit_code if refused else 0)


def _trusted_projects() -> Answer:
    known = trust_command.known()
    projects = [{"project": name, "at": entry.at, "keys": sorted(entry.digests)} for name, entry in known.items()]
    lines = [f"{name}  ({entry.at})  {', '.join(sorted(entry.digests))}" for name, entry in known.items()]
    return Answer({"projects": projects}, lines or ["no project is trusted"])


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also remove the workspaces of failed runs.")
@answers
def gc(everything: bool, project_dir: Path) -> Answer:
    """Remove workspaces that a crash left behind, and those of failed runs beyond the number to keep.

    \b
    Example: reflectloop gc --all
    """
    removed = apply_run.gc(project_dir, everything=everything)
    return Answer(
        removed._asdict(), [f"{removed.workspaces} workspace(s) removed, {render.format_size(removed.freed)}"]
    )
