"""The help of the command line: groups, examples, and an answer to unknown names."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from reflectloop.cli.main import GROUPS, cli
from support import Repo


def every_command(command: click.Command, parent: click.Context | None, name: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the help text of a command and of all below it."""
    context = click.Context(command, info_name=name, parent=parent)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            inner = command.get_command(context, below)
            assert inner is not None
            yield from every_command(inner, context, below)


def test_every_command_shows_an_example_of_itself() -> None:
    helps = dict(every_command(cli, None, "reflectloop"))
    assert len(helps) > 55
    for path, text in helps.items():
        if path != "reflectloop":
            assert f"Example: {path}" in text or f"| {path}" in text, path


def test_every_command_without_commands_below_it_takes_json_and_project() -> None:
    for path, text in every_command(cli, None, "reflectloop"):
        if "COMMAND [ARGS]" not in text:
            assert "--json" in text, path
            assert "--project" in text, path


def test_help_lists_every_command_once_in_groups_of_at_most_eight(repo: Repo) -> None:
    lines = repo.run("help").stdout.splitlines()
    for title, commands in GROUPS.items():
        assert len(commands) <= 8
        start = lines.index(f"{title}:")
        end = lines.index("", start) if "" in lines[start:] else len(lines)
        named = [line.split()[0] for line in lines[start + 1 : end] if line[:3].strip()]
        assert named == list(commands)


def test_every_summary_is_one_sentence() -> None:
    for commands in GROUPS.values():
        for name, entry in commands.items():
            assert entry.summary.endswith("."), name
            assert ". " not in entry.summary, name


@pytest.mark.parametrize("words", [("help", "run"), ("run", "-h"), ("run", "--help")])
def test_help_of_a_command_can_be_asked_for_in_three_ways(repo: Repo, words: tuple[str, ...]) -> None:
    answer = repo.run(*words)
    assert answer.code == 0
    assert answer.stdout.startswith("Usage: reflectloop run [OPTIONS] [PLAN]")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("stauts",), "Did you mean 'status'?"),
        (("import",), "Did you mean 'import-state'?"),
        (("desk",), "See 'reflectloop --help'."),
        (("continue",), "Use 'reflectloop resume'."),
        (("lessons", "serach"), "Did you mean 'search'?"),
        (("knowledge",), "Use 'reflectloop lessons'."),
        (("xyzzy",), "See 'reflectloop --help'."),
        (("help", "stauts"), "Did you mean 'status'?"),
    ],
)
def test_an_unknown_command_is_answered_with_the_nearest(repo: Repo, words: tuple[str, ...], hint: str) -> None:
    answer = repo.run(*words)
    assert answer.code == 2
    assert f"There is no command '{words[-1]}'. {hint}" in answer.stderr


def test_an_unknown_command_names_a_help_that_exists_in_json(repo: Repo) -> None:
    answer = repo.run("lessons", "serach", "--json")
    assert answer.code == 2
    assert answer.envelope["error_code"] == "USAGE"
    assert answer.envelope["next"] == "reflectloop lessons --help"
    assert repo.run("lessons", "--help").code == 0


@pytest.mark.parametrize(
    ("section", "known"), [("sandbox", "box"), ("verification", "verify"), ("reflection", "reflect")]
)
def test_an_unknown_section_of_the_settings_is_answered_with_the_nearest(repo: Repo, section: str, known: str) -> None:
    repo.write("reflectloop.toml", f"[{section}]\nx = 1\n")
    answer = repo.run("config", "--json")
    assert answer.code == 12
    assert answer.envelope["faults"][0]["message"] == f"unknown key; did you mean '{known}'?"
    assert answer.envelope["faults"][0]["line"] == 1
