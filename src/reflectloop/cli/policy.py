"""The command `policy`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from reflectloop.cli import render
from reflectloop.cli.render import Answer, Note, answers, paint
from reflectloop.commands import policy as policy_command
from reflectloop.errors import GateRejected, NeedsInput
from reflectloop.policy import CommandPolicy, PolicyVerdict
from reflectloop.terms import shorten

_COLOURS = {"allow": "green", "confirm": "yellow", "deny": "red"}
_EXITS = {"allow": 0, "confirm": NeedsInput.exit_code, "deny": GateRejected.exit_code}
_LONGEST = 100  # characters of a part of a command


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--jsonl", is_flag=True, help="Answer JSON lines with 'id' and 'command' from standard input, one each.")
@click.argument("words", nargs=-1, metavar="COMMAND…|-|explain COMMAND…|rules")
@answers
def policy(words: tuple[str, ...], jsonl: bool, project_dir: Path) -> Answer | None:
    """Judge COMMAND before it runs: allow, confirm or deny. Exits 0, 40 or 33.

    A single word is a shell line; several words are a program and its arguments; `-` reads a shell line from standard
    input. Options of reflectloop come before COMMAND.

    \b
    explain COMMAND…  show each part of it, what starts the part, and the rule with its samples
    rules             list the active rules

    \b
    Example: reflectloop policy 'pytest; rm -rf ~'
    """
    rules = policy_command.active_policy(project_dir)
    if jsonl:
        render.answer_each_line(lambda question, number: policy_command.answer(rules, question, number))
        return None
    if not words or words == ("explain",):
        raise click.UsageError("COMMAND is missing; see 'reflectloop policy --help'.")
    if words == ("rules",):
        return _list(rules)
    if words[0] == "explain":
        return _explain(rules, _command(words[1:]))
    return _judge(rules, _command(words))


def _command(words: tuple[str, ...]) -> str | tuple[str, ...]:
    if words == ("-",):
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    return words[0] if len(words) == 1 else words


def _judge(rules: CommandPolicy, command: str | tuple[str, ...]) -> Answer:
    verdict = rules.judge(command)
    in_workspace = rules.in_workspace.judge(command)
    lines = list(_verdict_lines(verdict))
    if in_workspace.verdict != verdict.verdict:
        lines.append(f"  in a plan or a request: {in_workspace.verdict}, because it would run in a copy")
    data = {**policy_command.as_data(verdict), "in_workspace": in_workspace.verdict}
    return Answer(data, lines, exit_code=_EXITS[verdict.verdict])


def _verdict_lines(verdict: PolicyVerdict) -> Iterator[str]:
    word = paint(_COLOURS[verdict.verdict], verdict.verdict)
    if not verdict.rule:
        yield f"{word}: {verdict.reason}"
        return
    yield f"{word} {verdict.rule}: {verdict.reason}"
    yield f"  {' > '.join((*verdict.through, _shorten(verdict.where)))}"
    if not verdict.allowed:
        yield Note(
            f'next: another command; or, if you want this one: [policy] allow = ["{verdict.rule}"] in '
            "reflectloop.toml, then: reflectloop trust"
        )


def _shorten(text: str) -> str:
    return shorten(" ".join(text.split()), _LONGEST)


def _explain(rules: CommandPolicy, command: str | tuple[str, ...]) -> Answer:
    parts = list(policy_command.explain(rules, command))
    verdict = rules.judge(command)
    lines = []
    for part in parts:
        word = paint(_COLOURS[part.verdict.verdict], part.verdict.verdict)
        lines.append(f"{word}  {' > '.join((*part.through, _shorten(part.command)))}")
        if part.verdict.rule:
            lines.append(f"    {part.verdict.rule}: {part.verdict.reason}")
            lines.append(f"    matches, for example: {'   '.join(_shorten(sample) for sample in part.match)}")
            lines.append(f"    and not: {'   '.join(_shorten(sample) for sample in part.not_match)}")
    data = {
        **policy_command.as_data(verdict),
        "parts": [{**part._asdict(), "verdict": policy_command.as_data(part.verdict)} for part in parts],
    }
    return Answer(data, [*lines, *_verdict_lines(verdict)], exit_code=_EXITS[verdict.verdict])


def _list(rules: CommandPolicy) -> Answer:
    rows = policy_command.rows(rules)
    lines = []
    for row in rows:
        word = "allow" if row["allowed"] else row["verdict"]
        lines.append(f"{paint(_COLOURS[word], word):8} {row['id']}  ({row['about']}) {row['reason']}")
    return Answer({"rules": rows}, lines)
