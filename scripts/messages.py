"""Compare the messages in the source with those of a language: `python scripts/messages.py zh [PART …]`.

Prints the messages below these parts of the package that the language lacks, and its entries that no message of the
source has any more. Exits 1 if there is such an entry, since nobody would ever read it; `--prune` removes them.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import yaml

from reflectloop import languages
from reflectloop.cli.main import cli
from reflectloop.languages import catalogue

SOURCE = Path(__file__).resolve().parent.parent / "src" / "reflectloop"
_SENTENCE = re.compile(r"[A-Za-z]{2,}[^A-Za-z]* [^A-Za-z]*[a-z]{2,}")
_RULE_TEXTS = ("cause", "suggestion", "reason", "action", "alternative")
_COMMANDS = ("reflectloop ", "next: reflectloop ", "git ", "apt-get ", "pip install", "npm ", "df ", "<", "[", "{}")
# What agents or programs read, in English for everybody.
FOR_PROGRAMS = (
    "engine/steps/prompts.py",
    "engine/steps/planner_context.py",
    "engine/run/junit_sarif.py",
    "commands/init_project.py",
    "plan/tool_names.py",
    "plan/model.py",
)
_NOT_SHOWN = ("help", "description", "metavar", "pattern")  # arguments that the help or the settings have


class SourceMessage(NamedTuple):
    place: str
    text: str  # with its values as {name}


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def source_messages(*parts: str) -> Iterator[SourceMessage]:
    """Yield every text of the source that is not a docstring, a help text (see `help_messages`) or a pattern."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if (
            name.startswith(parts or ("",))
            and not (parts and name in FOR_PROGRAMS)
            and "/sample/" not in name
            and "/inside/" not in name
        ):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            hidden = set(_hidden(tree))
            for node in ast.walk(tree):
                text = None if node in hidden else _text(node)
                if text is not None:
                    yield SourceMessage(f"{name}:{getattr(node, 'lineno', 0)}", text)


def template_messages() -> Iterator[SourceMessage]:
    """Yield what the templates of requests say of themselves and of their values."""
    for path in sorted(SOURCE.glob("fileops/templates/*.json")):
        about = json.loads(path.read_text(encoding="utf-8"))["_meta"]
        gaps = about["placeholders"].values()
        for text in (about["about"], *(gap[key] for gap in gaps for key in ("about", "source"))):
            yield SourceMessage(f"fileops/templates/{path.name}:0", text)


def help_messages() -> Iterator[SourceMessage]:
    """Yield the texts of the help: paragraphs, summaries, options."""
    context = click.Context(cli, info_name="reflectloop")
    commands: list[tuple[click.Context, click.Command]] = [(context, cli)]
    while commands:
        context, command = commands.pop()
        is_listed = context.parent is not None and context.parent.parent is not None  # under a group of its own
        summary = [command.get_short_help_str(limit=1000)] if is_listed else []
        for text in (*_help_texts(command), *summary):
            yield SourceMessage(f"--help:{context.command_path}", text)
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                commands.append((click.Context(below, info_name=name, parent=context), below))


def _help_texts(command: click.Command) -> Iterator[str]:
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        is_raw = paragraph.startswith("\b\n")
        for line in paragraph.split("\n")[1:] if is_raw else [paragraph.replace("\n", " ")]:
            yield re.sub(r"^(Example|Start|Then|More)(: +).*", r"\1\2{command}", line)
    for option in command.params:
        if isinstance(option, click.Option):
            yield option.help or ""
            if isinstance(option.show_default, str):
                yield f"({option.show_default})"


def rule_messages(*parts: str) -> Iterator[SourceMessage]:
    """Yield the texts of the rule files: causes, suggestions, reasons and actions."""
    for path in sorted((*SOURCE.rglob("rules/*.toml"), *SOURCE.rglob("rules/*.yaml"))):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(parts or ("",)):
            continue
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
        for rules in tables.values():
            for rule in rules if isinstance(rules, list) else ():
                shown = [rule[key] for key in _RULE_TEXTS if isinstance(rule.get(key), str)]
                for words in shown:
                    yield SourceMessage(f"{name}:0", _english(words))


def _english(text: str) -> str:
    """Return the English part of a text in both languages."""
    before, sign, rest = text.partition(" (")
    return rest.removesuffix(")") if sign and not before.isascii() else text


def _hidden(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes of texts that are parts of others, or that nobody is shown."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for value in node.values:
                if isinstance(value, ast.Constant):
                    yield value
                elif isinstance(value, ast.FormattedValue) and value.format_spec:
                    yield from ast.walk(value.format_spec)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
        elif isinstance(node, ast.keyword) and node.arg in _NOT_SHOWN:
            yield from ast.walk(node.value)
        elif isinstance(node, ast.Call) and _name_of(node.func) in ("compile", "lazy"):  # patterns
            yield from ast.walk(node)


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    out, names, run = "", [], []  # type: str, list[str], list[str]
    for value in [*node.values, ast.Constant("")]:
        if isinstance(value, ast.FormattedValue):
            run.append(_name(value.value))
            continue
        if run:
            name = "_".join(dict.fromkeys(run))
            names.append(name)
            out += "{" + (name if names.count(name) == 1 else f"{name}{names.count(name)}") + "}"
            run = []
        out += str(value.value) if isinstance(value, ast.Constant) else ""
    return out


def _name(node: ast.expr) -> str:
    """Return a name for a value: the last name in its expression."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_").lower()
        case ast.Call(func=ast.Name(id="len"), args=[arg]):
            return f"{_name(arg)}_count"
        case ast.Call(args=[arg, *_]) | ast.Subscript(value=arg) | ast.FormattedValue(value=arg):
            return _name(arg)
        case ast.Call(func=ast.Attribute(value=arg)):
            return _name(arg)
        case _:
            return "value"


def is_sentence(text: str) -> bool:
    if text.startswith(_COMMANDS):
        return False
    return bool(_SENTENCE.search(re.sub(r"\{\w+\}", "", text))) and "\n" not in text.strip("\n")


def entries(language: str) -> dict[str, str]:
    folder = languages.folders()[language]
    files = (catalogue.read_file(path) for path in sorted(folder.glob("*.toml")))
    return {key: text for file in files for key, text in file.items() if isinstance(text, str)}


def of_libraries(language: str) -> dict[str, str | dict[str, str]]:
    """Return the entries for messages of libraries, which are not in our source."""
    path = languages.folders()[language] / "libraries.toml"
    return catalogue.read_file(path) if path.is_file() else {}


def stale(language: str) -> list[str]:
    """Return the entries of a language that are no message of the source."""
    source = (*source_messages(), *rule_messages(), *help_messages(), *template_messages())
    known = {catalogue.shape(message.text).strip() for message in source}
    known |= {_english(text) for text in known}
    known |= {text.replace("_", " ") for text in known if text.islower()}  # codes are shown as words
    known |= {line.strip() for text in list(known) if "\n" in text for line in text.split("\n")}
    foreign = of_libraries(language)
    return [key for key in entries(language) if key not in foreign and catalogue.shape(key).strip() not in known]


def missing(language: str, *parts: str) -> list[SourceMessage]:
    """Return the sentences in these parts of the source that a language lacks."""
    known = {catalogue.shape(key).strip() for key in entries(language)}
    out = {
        catalogue.shape(message.text): message
        for message in (*source_messages(*parts), *rule_messages(*parts), *_help_of(*parts))
        if is_sentence(message.text) and catalogue.shape(message.text).strip() not in known
    }
    return sorted(out.values(), key=lambda message: message.place)


def _help_of(*parts: str) -> Iterator[SourceMessage]:
    return iter((*help_messages(), *template_messages()) if not parts or "cli/" in parts else ())


def prune(language: str) -> None:
    """Remove the entries that no message of the source has."""
    gone = set(stale(language))
    for path in languages.folders()[language].glob("*.toml"):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if not (line.startswith('"') and gone & set(tomllib.loads(line)))]
        path.write_text("".join(kept), encoding="utf-8")


def main() -> None:
    language, *parts = [word for word in sys.argv[1:] if word != "--prune"]
    if "--prune" in sys.argv:
        prune(language)
    for message in missing(language, *parts):
        print(f"{message.place}\t{message.text!r}")
    gone = stale(language)
    for key in gone:
        print(f"no message of the source: {key!r}")
    sys.exit(1 if gone else 0)


if __name__ == "__main__":
    main()
