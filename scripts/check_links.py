"""Finds dead links: paths and anchors in Markdown files, pages that messages name. The network is not visited."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
_SKIPPED = {".venv", ".git", "node_modules", "recorded", "golden", "sample"}
_FENCE = re.compile(r"^(```|~~~)")
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\s*\)|(?:src|href)=\"([^\"]+)\"")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
_ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")
_PAGE = re.compile(r"\bdocs/[\w-]+\.md\b")
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


class DeadLink(NamedTuple):
    """A link that leads nowhere, and where it stands."""

    path: Path
    line: int
    target: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.target}: {self.reason}"


def text_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside of code blocks, with their numbers."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line.lstrip())
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1] == fence:
            fence = ""
        elif not fence:
            yield number, line


def anchors(text: str) -> set[str]:
    """Return the anchors of a page: one for each heading, as GitHub makes them, and those written by hand."""
    names: set[str] = set()
    counts: Counter[str] = Counter()
    for _, line in text_lines(text):
        names.update(_ANCHOR.findall(line))
        if heading := _HEADING.match(line):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "")
            slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
            names.add(f"{slug}-{counts[slug]}" if counts[slug] else slug)
            counts[slug] += 1
    return names


def dead_links(page: Path, root: Path) -> Iterator[DeadLink]:
    """Yield the links of a page to files or anchors that do not exist."""
    text = page.read_text()
    for number, line in text_lines(text):
        for match in _LINK.finditer(_CODE.sub("", line)):
            target = match[1] or match[2]
            if _SCHEME.match(target):
                continue
            name, _, anchor = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            place = page.relative_to(root)
            if not file.is_relative_to(root) or not file.exists():
                yield DeadLink(place, number, target, "there is no such file")
            elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
                yield DeadLink(place, number, target, f"{file.relative_to(root)} has no such heading")


def unknown_pages(source: Path, root: Path) -> Iterator[DeadLink]:
    """Yield the pages of docs that a source or a file of messages names, and that do not exist."""
    for number, line in enumerate(source.read_text().splitlines(), 1):
        for name in _PAGE.findall(line):
            if not (root / name).exists():
                yield DeadLink(source.relative_to(root), number, name, "there is no such page")


def files(root: Path, *patterns: str) -> list[Path]:
    found = (path for pattern in patterns for path in root.rglob(pattern))
    return sorted(path for path in found if not _SKIPPED & set(path.relative_to(root).parts))


def main() -> int:
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    dead = [link for page in files(root, "*.md") for link in dead_links(page, root)]
    dead += [link for source in files(root / "src", "*.py", "*.toml") for link in unknown_pages(source, root)]
    for link in dead:
        print(link, file=sys.stderr)
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
