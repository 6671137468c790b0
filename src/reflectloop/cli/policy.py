"""`policy`: what the rules say about a command, why, and which rules there are."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from reflectloop.cli import render
from reflectloop.cli.render import colours, common, say
from reflectloop.engine import policy_command as flow
from reflectloop.errors import GateRejected, NeedsInput
from reflectloop.policy import CommandPolicy, PolicyVerdict

_COLOURS = {"allow": "green", "confirm": "yellow", "deny": "red"}
_EXITS = {"allow": 0, "confirm": NeedsInput.exit_code, "deny": GateRejected.exit_code}
_SHOWN = 100  # characters of a part of a command


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--jsonl", is_flag=True, help="Answer JSON lines with 'id' and 'command' from standard input, one each.")
@click.argument("words", nargs=-1, metavar="COMMAND…|-|explain COMMAND…|rules")
@common
def policy(words: tuple[str, ...], jsonl: bool, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Judge COMMAND before it runs: allow, confirm or deny. Exits 0, 40 or 33.

    One word is a shell line, several are a program and its words; `-` reads a shell line from standard input. Options
    of reflectloop stand before COMMAND.

    \b
    explain COMMAND…  every part of it, through what it is started, and the rule with its samples
    rules             list the rules in force
    \b
    Example: reflectloop policy 'pytest; rm -rf ~'
    """
    rules = flow.in_force(project_dir)
    if jsonl:
        render.answer_lines(lambda question, number: flow.answer(rules, question, number))
    elif not words or words == ("explain",):
        raise click.UsageError("COMMAND is missing; see 'reflectloop policy --help'")
    elif words == ("rules",):
        _list(rules, as_json=as_json)
    elif words[0] == "explain" and len(words) > 1:
        _explain(rules, _command(words[1:]), as_json=as_json)
    else:
        _judge(rules, _command(words), as_json=as_json)


def _command(words: tuple[str, ...]) -> str | tuple[str, ...]:
    if words == ("-",):
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    return words[0] if len(words) == 1 else words


def _judge(rules: CommandPolicy, command: str | tuple[str, ...], *, as_json: bool) -> None:
    verdict = rules.judge(command)
    in_workspace = rules.in_workspace.judge(command)
    if as_json:
        render.answer("policy", {**flow.told(verdict), "in_workspace": in_workspace.verdict})
    else:
        _say(verdict)
        if in_workspace.verdict != verdict.verdict:
            say(f"  in a plan or a request: {in_workspace.verdict}, since what runs there runs in a copy")
    sys.exit(_EXITS[verdict.verdict])


def _say(verdict: PolicyVerdict) -> None:
    paint = colours()
    word = paint(_COLOURS[verdict.verdict], verdict.verdict)
    if not verdict.rule:
        say(f"{word}: {verdict.reason}")
        return
    say(f"{word} {verdict.rule}: {verdict.reason}")
    say(f"  {' > '.join((*verdict.through, _short(verdict.where)))}")
    if not verdict.allowed:
        say(
            f'next: another command; or, if it is meant: [policy] allow = ["{verdict.rule}"] in reflectloop.toml, '
            "then: reflectloop trust",
            err=True,
        )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def _explain(rules: CommandPolicy, command: str | tuple[str, ...], *, as_json: bool) -> None:
    parts = list(flow.explain(rules, command))
    verdict = rules.judge(command)
    if as_json:
        shown = [{**part._asdict(), "verdict": flow.told(part.verdict)} for part in parts]
        render.answer("policy", {**flow.told(verdict), "parts": shown})
        sys.exit(_EXITS[verdict.verdict])
    paint = colours()
    for part in parts:
        word = paint(_COLOURS[part.verdict.verdict], part.verdict.verdict)
        say(f"{word}  {' > '.join((*part.through, _short(part.command)))}")
        if part.verdict.rule:
            say(f"    {part.verdict.rule}: {part.verdict.reason}")
            say(f"    matches, for example: {'   '.join(_short(one) for one in part.match)}")
            say(f"    and not: {'   '.join(_short(one) for one in part.not_match)}")
    _say(verdict)
    sys.exit(_EXITS[verdict.verdict])


def _list(rules: CommandPolicy, *, as_json: bool) -> None:
    rows = flow.rows(rules)
    if as_json:
        render.answer("policy", {"rules": rows})
        return
    paint = colours()
    for row in rows:
        word = "allow" if row["allowed"] else row["verdict"]
        say(f"{paint(_COLOURS[word], word):8} {row['id']}  ({row['about']}) {row['reason']}")
