"""Writes help pages in the user's language; wide characters are wrapped by their width on a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from reflectloop.system import patterns

_AS_IT_IS = "\b"  # click's mark of a paragraph that is not wrapped
# A word, with the blanks after it; or one wide character, with the signs that may not begin a line.
_UNIT = patterns.lazy(
    r"(?:[（“]?[\u2e80-\u9fff\uac00-\ud7ff\uff00-\uffef]|[^\s\u2e80-\uffef]+)[，。；：、）”！？…]*\s*|\S\s*"
)
_NARROWEST = 10
_LONGEST_SUMMARY = 400


class HelpFormatter(click.HelpFormatter):
    """Writes the help in the language of the command line, the settings or the locale."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, prefix if prefix is not None else f"{translated('Usage')}: ")

    def write_heading(self, heading: str) -> None:
        super().write_heading(translated(heading))

    def write_text(self, text: str) -> None:
        blank = " " * self.current_indent
        paragraphs = [_paragraph(part, self.width - self.current_indent) for part in text.split("\n\n")]
        self.write("\n\n".join("\n".join(blank + line for line in lines) for lines in paragraphs) + "\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        rows = list(rows)
        first_column = min(max(len(first) for first, _ in rows), col_max) + col_spacing
        width = max(self.width - first_column - 2, _NARROWEST)
        for first, second in rows:
            lines = _wrap(translated(_one_line(second)), width)
            if len(first) > first_column - col_spacing:
                lines = ["", *lines]
            for number, line in enumerate(lines):
                term = first if number == 0 else ""
                self.write(f"{'':{self.current_indent}}{term:{first_column}}{line}".rstrip() + "\n")


def write_commands(commands: Sequence[tuple[str, click.Command]], formatter: click.HelpFormatter) -> None:
    """List the commands of a group with their whole summaries."""
    with formatter.section("Commands"):
        formatter.write_dl([(name, command.get_short_help_str(_LONGEST_SUMMARY)) for name, command in commands])


def translated(text: str) -> str:
    """Return a text of the help in the user's language."""
    from reflectloop import languages

    if not languages.is_chosen():
        languages.use(_setting() or languages.AUTO)
    return languages.document(text)


def choose_language(arguments: list[str]) -> list[str]:
    """Speak the language that the command line names, and return the rest of a request for help.

    Click ends at `--help` before it reads `--language`; and a group of commands has no such option.
    """
    place = next((number for number, word in enumerate(arguments) if word.startswith("--language")), None)
    if place is None or "--" in arguments[:place]:
        return arguments
    from reflectloop import languages

    option, sign, value = arguments[place].partition("=")
    end = place + (1 if sign else 2)
    name = value if sign else "".join(arguments[place + 1 : end])
    if option != "--language" or name not in (languages.AUTO, *languages.names()):
        return arguments
    languages.use(name)
    return arguments[:place] + arguments[end:] if {"-h", "--help"} & set(arguments) else arguments


def _setting() -> str | None:
    """Return the language of the settings; nothing large is imported if they do not name one."""
    here = Path.cwd()
    names = [folder / "reflectloop.toml" for folder in (here, *here.parents)]
    project = next((path for path in names if path.is_file()), None)
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    for path in (project, Path(home, "reflectloop", "config.toml")):
        if path is not None and path.is_file() and b"language" in path.read_bytes():
            from reflectloop import settings_files

            return settings_files.language(project.parent if project else here)
    return None


def _paragraph(text: str, width: int) -> list[str]:
    first, _, rest = text.partition("\n")
    if first.strip() == _AS_IT_IS:
        return [translated(line) for line in rest.split("\n")]
    return _wrap(translated(_one_line(text)), width)


def _one_line(text: str) -> str:
    return text.replace("\n", " ")


def _wrap(text: str, width: int) -> list[str]:
    lines = [""]
    for unit in _UNIT.findall(text):
        if lines[-1] and columns((lines[-1] + unit).rstrip()) > width:
            lines[-1] = lines[-1].rstrip()
            lines.append("")
        lines[-1] += unit
    return [line.rstrip() for line in lines]


def columns(text: str) -> int:
    """Return the width of a text on a terminal, where Chinese characters are wide."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
