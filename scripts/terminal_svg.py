"""Draws docs/terminal.svg: what the program really prints on the bundled sample project.

`python scripts/terminal_svg.py [FILE]` runs the commands in a temporary folder and writes the picture.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "src" / "reflectloop" / "demo" / "sample"
_WIDTH = 104  # characters
_CHARACTER_PX, _LINE_PX, _MARGIN_PX = 7.8, 18, 20
_PLAIN, _DIM, _GREEN, _RED, _PROMPT = "#d0d4da", "#7d8590", "#57ab5a", "#f47067", "#ffffff"
# The first pattern that matches colours the line.
_COLOURS = (
    (re.compile(r"^\$ "), _PROMPT),
    (re.compile(r"^(✓|OK|\+|PASS)"), _GREEN),
    (re.compile(r"^(✗|-|REVIEW|REFUSED|\s+→)"), _RED),
    (re.compile(r"^(·|next:|diff|index|@@|  note)"), _DIM),
)


# The commands that are run and shown.
SCENES = (
    "reflectloop run plan.yaml",
    "reflectloop diff",
    "reflectloop apply --commit",
    "sed -i 's/    def test_the_last/    @unittest.skip(\"later\")\\n&/' test_pager.py  # skip a test",
    "reflectloop verify",
)


def plan() -> str:
    """Return the plan of the README."""
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return str(text)


def record(folder: Path) -> list[str]:
    """Run the scenes in a new repository, and return the prompt lines and the output lines."""
    project = folder / "project"
    project.mkdir()
    for path in SAMPLE.iterdir():
        if path.is_file():
            (project / path.name).write_bytes(path.read_bytes())
    program = folder / "bin" / "reflectloop"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reflectloop "$@"\n')
    program.chmod(0o755)
    env = {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LC_ALL": "C.UTF-8",
        **{f"GIT_{who}_{what}": "sample" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }

    def shell(command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=project,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout

    shell("git init -q && git config user.name Sample && git config user.email sample@example.com")
    shell("git add -A && git commit -qm sample")
    (folder / "plan.yaml").write_text(plan())
    lines: list[str] = []
    for command in SCENES:
        output = shell(command.replace("plan.yaml", "../plan.yaml"))
        lines += [f"$ {command}", *output.splitlines(), ""]
    return lines[:-1]


def wrap(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(line, _WIDTH, subsequent_indent=indent, drop_whitespace=False) or [""]


def draw(lines: list[str]) -> str:
    """Return the lines as an SVG picture of a terminal."""
    rows = [(part, colour(line)) for line in lines for part in wrap(line)]
    width = round(_WIDTH * _CHARACTER_PX + 2 * _MARGIN_PX)
    height = len(rows) * _LINE_PX + 2 * _MARGIN_PX + _LINE_PX
    text = "\n".join(
        f'<text x="{_MARGIN_PX}" y="{_MARGIN_PX + (number + 2) * _LINE_PX}" fill="{fill}">{escape(part)}</text>'
        for number, (part, fill) in enumerate(rows)
        if part
    )
    dots = "".join(
        f'<circle cx="{_MARGIN_PX + 6 + 20 * number}" cy="20" r="6" fill="{fill}"/>'
        for number, fill in enumerate(("#f47067", "#daaa3f", "#57ab5a"))
    )
    style = "font: 13px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; white-space: pre"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="reflectloop in a terminal">\n'
        f'<rect width="{width}" height="{height}" rx="10" fill="#1c2128"/>\n{dots}\n'
        f'<g style="{style}" xml:space="preserve">\n{text}\n</g>\n</svg>\n'
    )


def colour(line: str) -> str:
    return next((fill for pattern, fill in _COLOURS if pattern.match(line)), _PLAIN)


def main() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # on one core, the lines always have the same order
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "terminal.svg"
    with tempfile.TemporaryDirectory() as folder:
        target.write_text(draw(record(Path(folder))))


if __name__ == "__main__":
    main()
