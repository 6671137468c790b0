"""The commands `critic` and `reflect`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from reflectloop.cli import render
from reflectloop.cli.interrupts import as_interrupts
from reflectloop.cli.render import Answer, Note, answers, paint
from reflectloop.reflection import critic_command as judging
from reflectloop.reflection import outside_files, reflect_command
from reflectloop.reflection.critic import CriticReport
from reflectloop.reflection.critic_command import SelfTrigger as Trigger
from reflectloop.reflection.outside_files import KeptReport
from reflectloop.reflection.reflect_command import ReflectionOutcome, ReflectionRequest

_MOST = 20  # issues or actions shown to a person
_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("file", type=_FILE)
@click.option(
    "--requirements",
    type=_FILE,
    required=True,
    metavar="FILE",
    help="The requirements: a file of requirements (docs/reflection.md), or a contract.",
)
@click.option("--agent", default="executor", show_default=True, help="The role that made the output.")
@click.option("--step", help="The step that made the output.")
@click.option("--self-check", is_flag=True, help="The author of the output judges it; the ticket says so.")
@answers
def critic(file: Path, requirements: Path, agent: str, step: str | None, self_check: bool, project_dir: Path) -> Answer:
    """Judge the output in FILE: PASS (exit 0), REVISE (32) or REJECT (33). A ticket lists what must be repaired.

    \b
    Example: reflectloop critic report.json --requirements needs.yaml
    """
    as_interrupts()
    trigger: Trigger = "self_check" if self_check else "critic_evaluation"
    result = judging.judge(judging.CriticRequest(project_dir, file, requirements, agent, step, trigger))
    lines = [
        *_report_lines(result.report),
        *(f"  {paint('yellow', 'checkpoint')}: {checkpoint}" for checkpoint in result.checkpoints),
        *(render.error_lines(result.error) if result.error else ()),
    ]
    return Answer(
        result.report.model_dump(mode="json"),
        lines,
        error=result.error,
        written=result.written,
        warnings=[f"checkpoint: {checkpoint}" for checkpoint in result.checkpoints],
    )


def _report_lines(report: CriticReport) -> Iterator[str]:
    completeness, correctness = report.completeness, report.correctness
    colour = "green" if report.rewind_ticket is None else "red"
    met = f"{completeness.details.met} of {completeness.details.required} requirement(s) met"
    yield f"{paint(colour, report.verdict)} at {report.quality_score:g}: {met}"
    yield f"completeness {completeness.score:g}, correctness {correctness.score:g}"
    for issue in report.issues[:_MOST]:
        yield f"  {issue.severity} {issue.category}: {issue.description}; {issue.suggested_fix}"


@click.command()
@click.argument("name", metavar="TICKET|RUN|FILE")
@click.option("--revised", type=_FILE, metavar="FILE", help="A repaired version of the output, to be judged.")
@click.option("--fix", "fixes", multiple=True, metavar="CMD", help="A command that repairs the output, in a sandbox.")
@click.option("--answer", metavar="TEXT", help="The missing information; it is recorded as a lesson.")
@click.option(
    "--yes", "unattended", is_flag=True, help="Nobody can be asked: a rejected output needs a new plan instead."
)
@click.option("--no-agents", is_flag=True, help="Ask no agent, whatever [roles] binds.")
@click.option("--prompt", is_flag=True, help="Print the request to reflect, for an agent of your own; do nothing else.")
@answers
def reflect(
    name: str,
    revised: Path | None,
    fixes: tuple[str, ...],
    answer: str | None,
    unattended: bool,
    no_agents: bool,
    prompt: bool,
    project_dir: Path,
) -> Answer:
    """Reflect on a TICKET or a failed RUN in six steps; each step writes a file. At most three rounds of repair.

    Agents that [roles] binds take part: the critic writes the analysis, the researcher answers what is not known, the
    executor repairs the output in a sandbox until the critic passes it.

    FILE is a ticket of another critic, which is taken and reflected on; or a report that an agent or a person wrote,
    which is checked and kept with what it teaches.

    Exits 0 only if the critic lets the revised output pass. Reading a reflection again does not count as a round.

    \b
    Example: reflectloop reflect RLOP-20261115-1f0c2a
    """
    as_interrupts()
    if outside_files.names_report(Path(name)):
        return _kept_report(reflect_command.keep_report(project_dir, Path(name)))
    if prompt:
        text = reflect_command.prompt_of(project_dir, name)
        return Answer({"prompt": text}, text.splitlines())
    request = ReflectionRequest(project_dir, name, revised, fixes, answer=answer, unattended=unattended)
    asked: list[str] = []  # messages about the agents
    result = reflect_command.reflect(request) if no_agents else _with_agents(request, asked.append)
    result = result._replace(warnings=(*result.warnings, *asked))
    next_step = _copy_command(result)
    end = render.error_lines(result.error) if result.error else [Note(f"next: {next_step}")] if next_step else []
    return Answer(
        result.as_data(),
        [*_reflection_lines(result), *end],
        next_step=next_step,
        error=result.error,
        written=result.written,
        warnings=result.warnings,
    )


def _with_agents(request: ReflectionRequest, tell: Callable[[str], None]) -> ReflectionOutcome:
    from reflectloop.engine.agent_tasks import ticket_reflection
    from reflectloop.engine.requests.fileops_session import FileopsTarget

    return ticket_reflection.reflect(FileopsTarget(request.start), request, tell)


def _kept_report(stored: KeptReport) -> Answer:
    report = stored.report
    kind = report.error_classification
    lines = [
        f"{paint('bold', report.reflection_id)} ({report.trigger}): {report.error_analysis.surface_issue}",
        f"  cause: {report.error_analysis.root_cause}",
        f"  class {kind.type}: {kind.remediation}",
        f"  kept: {stored.path}",
        *(Note(f"{paint('yellow', 'warning:')} {warning}") for warning in stored.warnings),
    ]
    return Answer(report.model_dump(mode="json"), lines, written=(stored.path,), warnings=stored.warnings)


def _copy_command(result: ReflectionOutcome) -> str | None:
    """Return the command by which the user replaces their file with the revised one."""
    name = result.rounds[-1].submission.revised_output_file
    return f"cp {shlex.quote(name)} {shlex.quote(str(result.ticket.target))}" if name and not result.error else None


def _reflection_lines(result: ReflectionOutcome) -> Iterator[str]:
    for repair in result.rounds:
        analysis, kind = repair.report.error_analysis, repair.report.error_classification
        yield f"{paint('bold', f'round {repair.number}')}: {analysis.surface_issue}"
        yield f"  cause: {analysis.root_cause}"
        yield f"  class {kind.type}: {kind.remediation}"
        yield from (f"  action ({action.status}): {action.action}" for action in repair.report.repair_actions[:_MOST])
        yield f"  {repair.submission.status.replace('_', ' ')}"
    for act in result.acted:
        yield f"  {act.state}: {act.measure.replace('_', ' ')}: {act.about}  ({act.trace})"
    for warning in result.warnings:
        yield Note(f"{paint('yellow', 'warning:')} {warning}")
