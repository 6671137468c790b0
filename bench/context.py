"""Measures the retriever: the first index, one changed file, a question, and memory with very many files."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

from bench import race
from bench.ground import Ground, git
from bench.race import Contestant
from bench.table import Measure, Row, Section
from reflectloop.context import database, retriever
from reflectloop.context.retriever import retrieve

_INDEX_BAR_S, _CHANGE_BAR_S, _MEMORY_BAR_MB = 20.0, 0.05, 500.0
_LARGEST = 16 << 10  # bytes of a file that is copied
_QUERY = "the parser does not raise an error when the header of the message has no encoding"
_WORDS = ("parser", "raise", "error", "header", "message", "encoding")
_CHILD = """
import resource, sys
from pathlib import Path
from reflectloop.context.retriever import retrieve
retrieve(Path(sys.argv[1]), "function that returns number 777")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def measure(ground: Ground) -> Section:
    count = 500 if ground.quick else 7_000
    root = _project(ground.disk / "context", count)
    search = _searcher()
    first = race.run([Contestant("ours", lambda: _refresh(root), before=lambda: _forget(root))], 1)["ours"]
    rounds = 3 if ground.quick else 7
    taken = race.run(
        [
            Contestant("unchanged", lambda: _refresh(root)),
            Contestant("changed", lambda: _refresh(root), before=lambda: _edit(root)),
            Contestant("question", lambda: retrieve(root, _QUERY)),
            Contestant(search[0], lambda: _run(search, root)),
        ],
        rounds,
    )
    peer = Measure(search[0], taken[search[0]].cpu_s)
    size = sum(path.stat().st_size for path in (root / "source").iterdir()) / 1e6
    place = database.place_for(root)
    notes = [
        f"{count:,} files of Python's own library, {size:.0f} MB, each with a line of its own; CPU time with children.",
        f"The index takes {place.stat().st_size / 1e6 if place else 0:.0f} MB. One pass is `{' '.join(search[:4])} …`.",
        "The floor of a bar is the bar itself: a ratio below 1 is within it.",
    ]
    rows = [
        Row("first index", Measure("", first.cpu_s), floor=Measure("bar", _INDEX_BAR_S), limit=1.0),
        Row("first index, against one pass", Measure("", first.cpu_s), peer, limit=10.0),
        Row("nothing changed", Measure("", taken["unchanged"].cpu_s)),
        Row("one changed file", Measure("", taken["changed"].cpu_s), floor=Measure("bar", _CHANGE_BAR_S), limit=1.0),
        Row("a question, index check included", Measure("", taken["question"].cpu_s), peer, limit=3.0),
    ]
    rows.append(_memory(ground))
    return Section("context: the retriever", notes, rows)


def _searcher() -> list[str]:
    """One pass over all files for the words of the question: ripgrep, or git's own where it is missing."""
    words = [argument for word in _WORDS for argument in ("-e", word)]
    if shutil.which("rg"):
        return ["rg", "-c", "-w", "-i", *words]
    return ["git", "grep", "-c", "-w", "-i", *words]


def _run(argv: list[str], root: Path) -> None:
    subprocess.run(argv, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)


def _refresh(root: Path) -> None:
    retriever.with_corpus(root, lambda corpus: len(corpus.blobs))


def _forget(root: Path) -> None:
    shutil.rmtree(root / ".reflectloop", ignore_errors=True)


_edits: Iterator[int] = iter(range(1, 1_000_000))


def _edit(root: Path) -> None:
    with (root / "source" / "module_7.py").open("a") as file:
        file.write(f"\n\ndef edited_{next(_edits)}():\n    return None\n")


def _project(root: Path, count: int) -> Path:
    library = Path(sysconfig.get_paths()["stdlib"])
    parts = [path for path in sorted(library.rglob("*.py")) if "site-packages" not in path.parts]
    parts = [path for path in parts if 0 < path.stat().st_size <= _LARGEST]
    (root / "source").mkdir(parents=True)
    for number, path in enumerate(islice(cycle(parts), count)):
        text = path.read_bytes()
        (root / "source" / f"module_{number}.py").write_bytes(text + f"\nNUMBER_{number} = {number}\n".encode())
    _commit(root)
    return root


def _commit(root: Path) -> None:
    git("init", "-q", cwd=root)
    git("add", "-A", cwd=root)
    git("commit", "-q", "-m", "everything", cwd=root)


def _memory(ground: Ground) -> Row:
    count = 2_000 if ground.quick else 100_000
    root = ground.disk / "context-many"
    for number in range(count):
        folder = root / f"part_{number % 97}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file_{number}.py").write_text(f"def give_{number}(value):\n    return value + {number}\n")
    _commit(root)
    done = subprocess.run([sys.executable, "-c", _CHILD, str(root)], capture_output=True, text=True, check=True)
    bar = Measure("bar", _MEMORY_BAR_MB, "MB")
    return Row(f"peak memory, {count:,} files", Measure("", float(done.stdout), "MB"), floor=bar, limit=1.0)
