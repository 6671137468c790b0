"""Compare what each changed source can do with what its base version could."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from posixpath import dirname, join, normpath

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected import guard
from reflectloop.verification.protected.names import CODE_ENDINGS
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering.added import JAVASCRIPT, added, ending
from reflectloop.verification.tampering.powers.equality import unequal_comparisons
from reflectloop.verification.tampering.powers.javascript import javascript_uses
from reflectloop.verification.tampering.powers.kinds import POWERS, PowerUse
from reflectloop.verification.tampering.powers.names import power_of
from reflectloop.verification.tampering.powers.project import SurroundingFiles
from reflectloop.verification.tampering.powers.python_uses import PythonUses
from reflectloop.verification.tampering.powers.words import questions
from reflectloop.verification.tools.record import words

_LINK, _REPOSITORY = "120000", "160000"
_TOO_LARGE = b"\0"
# Files that run, or from which code is loaded.
_RUNNABLE = frozenset(
    words(
        "so pyd dll dylib pyc pyo pyz pex whl egg zip jar war class wasm node a o lib exe com msi apk pkl pickle dill "
        "joblib marshal shiv xpi crx asar pt onnx"
    )
)
_DATA = frozenset(
    words(
        "png jpg jpeg gif webp ico bmp tif tiff avif svg mp3 mp4 ogg wav flac webm mov avi pdf ttf otf woff woff2 "
        "eot xls xlsx doc docx ppt pptx odt ods mo npy npz parquet feather arrow sqlite db sqlite3 geojson shp dbf "
        "csv tsv json jsonl ndjson xml txt md rst html htm css map lock log po pot bib tex yaml yml toml ini cfg "
        "proto sql"
    )
)
_MAGIC = (
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"\xcf\xfa\xed\xfe", "a program"),
    (b"\xca\xfe\xba\xbe", "a program"),
    (b"\0asm", "a program"),
    (b"PK\x03\x04", "an archive"),
    (b"PK\x05\x06", "an archive"),
)
_PICKLE = lazy(rb"\x80[\x02-\x05](?:\x95.{8})?[}\]()K\x8cc]", re.DOTALL)
_COOKIE = lazy(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_LARGEST_SCRIPT = 2 << 20
_LONG_LINE, _LEAST_SIZE = 3000, 4000  # of JavaScript that no person wrote


def content_of(change: ChangedFile, project: SurroundingFiles) -> bytes | None:
    """Return what a changed path holds: for a link within the tree, the content of its target."""
    if change.mode_after != _LINK or change.after is None:
        return change.after
    target = _target(change)
    return project.head_file(target) if target is not None else None


def _target(change: ChangedFile) -> str | None:
    """Return the path in the tree that a link leads to, or None for one that leads out of it."""
    text = (change.after or b"").decode("utf-8", "surrogateescape")
    if text.startswith("/") or "\0" in text:
        return None
    target = normpath(join(dirname(change.path), text))
    return None if target.startswith("..") else target


def unread(original: ChangedFile, change: ChangedFile, project: SurroundingFiles) -> TamperFinding | None:
    """Return a finding if nobody can tell what a file does; `change` has the content behind a link."""
    why = _reason(original, change, project)
    return TamperFinding("unread", original.path, None, why, "suspect") if why else None


def _reason(original: ChangedFile, change: ChangedFile, project: SurroundingFiles) -> str | None:
    if original.mode_after == _REPOSITORY:
        return "is a repository of its own (submodule), whose code is not part of the patch"
    if original.mode_after == _LINK and change.after is None:
        target = _target(original)
        if target is None or target not in project.head_folders:
            return "is a link to something outside of the project, which cannot be read"
        return None
    data = change.after or b""
    if data == _TOO_LARGE:
        plain = ending(change.path) in _DATA and original.mode_after != "100755"
        return None if plain else "is too large to be read (over 4 MiB)"
    binary = b"\0" in data or not _is_text(data)
    program = original.mode_after == "100755" and ending(change.path) not in _DATA
    if ending(change.path) in CODE_ENDINGS or program:
        return _unreadable_code(change, data, binary, project)
    return _unreadable_data(change, data, binary)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unreadable_code(change: ChangedFile, data: bytes, binary: bool, project: SurroundingFiles) -> str | None:
    if ending(change.path) == "py":
        return _unreadable_python(change, data, project)
    if binary and (b"\0" in data or change.before is None or _is_text(change.before)):
        return "is code that cannot be read as text"
    if ending(change.path) in JAVASCRIPT and len(data) > _LARGEST_SCRIPT:
        return "is too large to be read (over 2 MiB)"
    if ending(change.path) in JAVASCRIPT and _is_minified(data) and not _is_minified(change.before or b""):
        return "is minified, so a person cannot read it"
    return None


def _unreadable_python(change: ChangedFile, data: bytes, project: SurroundingFiles) -> str | None:
    encoding = _encoding(data)
    if encoding and encoding != _encoding(change.before or b"") and not _keeps_ascii(encoding):
        return f"is written in the encoding {encoding[:30]}, in which plain letters may mean something else"
    if project.module(data) is None:
        version = ".".join(map(str, sys.version_info[:2]))
        return f"cannot be read by Python {version}, so nothing is known about what it does"
    return None


def _encoding(data: bytes) -> str | None:
    for line in data.splitlines()[:2]:
        if match := _COOKIE.match(line):
            return match[1].decode("ascii", "replace").lower()
    return None


def _keeps_ascii(encoding: str) -> bool:
    """Return True if every ASCII byte stands for itself, so that code means what it looks like."""
    plain = bytes(code for code in range(128) if code != ord("\\")) + b"\\n"
    try:
        return plain.decode(encoding) == plain.decode("ascii")
    except (LookupError, UnicodeError, TypeError, ValueError):
        return False


def _is_minified(data: bytes) -> bool:
    return len(data) >= _LEAST_SIZE and max(map(len, data.splitlines()), default=0) >= _LONG_LINE


def _unreadable_data(change: ChangedFile, data: bytes, binary: bool) -> str | None:
    kind = ending(change.path)
    if not binary:
        return None
    if kind in _RUNNABLE:
        return f"is a binary file (.{kind}) from which code may be run"
    if kind not in _DATA:
        for magic, what in _MAGIC:
            if data.startswith(magic):
                return f"is {what}, whatever its name"
        if _PICKLE.match(data):
            return "is a pickle, which may run code when it is loaded"
    return None


_BESIDE = frozenset(("docs", "doc", "examples", "example", "benchmarks", "benchmark", "bench"))
_ON_A_FIX = frozenset(("environment", "arguments", "clock", "surroundings", "read", "write", "handlers", "chance"))
_LONGEST = 80  # characters of a line that a message shows
_ROOTS = frozenset(("src", "lib", "python", ""))


def look(changes: Sequence[ChangedFile], project: SurroundingFiles) -> Iterator[TamperFinding]:
    """Yield one finding for each power that a changed source newly has, and for each file that cannot be read."""
    moved = _removed_lines(changes)
    for changed in changes:
        if changed.after is None or not _is_source(changed.path, changes):
            continue
        change = changed._replace(before=moved_from(changed, changes), after=content_of(changed, project))
        if finding := unread(changed, change, project):
            yield finding
        elif change.after is not None:
            yield from _new_powers(change, project, moved)


def moved_from(change: ChangedFile, changes: Sequence[ChangedFile]) -> bytes | None:
    """Return the base version of a file, for a new one that of a removed file with the same name."""
    if change.before is not None:
        return change.before
    name = change.path.rpartition("/")[2]
    removed = [other for other in changes if other.after is None and other.path.rpartition("/")[2] == name]
    return removed[0].before if len(removed) == 1 else None


def _is_source(path: str, changes: Sequence[ChangedFile]) -> bool:
    """Return True for code that a change brings; tests and settings are judged by base's version."""
    protection = guard(path)
    if protection is not None and protection.kind not in ("shadow", "artefact"):
        return False
    folder = path.partition("/")[0].lower()
    if folder not in _BESIDE:
        return True
    imported = re.compile(rf"\b(?:from|import)\s+{re.escape(folder)}\b|[\"'./]{re.escape(folder)}[./]".encode())
    sources = [other for other in changes if ending(other.path) in CODE_ENDINGS and guard(other.path) is None]
    return any(
        imported.search(other.after or b"") for other in sources if not other.path.lower().startswith(f"{folder}/")
    )


def _removed_lines(changes: Sequence[ChangedFile]) -> frozenset[str]:
    """Return the lines that the patch takes out of some source; they bring nothing new elsewhere."""
    removed: set[str] = set()
    for change in changes:
        if change.before is not None and guard(change.path) is None and b"\0" not in change.before:
            old = Counter(_normal(line) for line in _lines(change.before))
            removed |= {*(old - Counter(_normal(line) for line in _lines(change.after)))}
    return frozenset(removed - {""})


def _lines(data: bytes | None) -> list[str]:
    return re.split(r"\r\n|\r|\n", (data or b"").decode(errors="replace"))  # as Python counts lines


def _normal(line: str) -> str:
    return re.sub(r"\s+", "", line).replace('"', "'")


def _new_powers(change: ChangedFile, project: SurroundingFiles, moved: frozenset[str]) -> Iterator[TamperFinding]:
    before = Counter(use.power for use in uses(change.path, change.before, project))
    rows = _lines(change.after)
    places_of: dict[str, list[PowerUse]] = {}
    for use in uses(change.path, change.after, project):
        if not (0 < use.line <= len(rows) and _normal(rows[use.line - 1]) in moved):
            places_of.setdefault(use.power, []).append(use)
    # A power is there or not; of questions about tests, each further one counts.
    new = {
        power: places
        for power, places in places_of.items()
        if not before[power] or (power.startswith("knows-") and len(places) > before[power])
    }
    added_lines = {line.number for line in added(change)} if new else set()
    for power, places in new.items():
        places.sort(key=lambda use: (use.line not in added_lines, use.line))
        if finding := _finding(change, POWERS[power].name, places[0], project, rows):
            yield finding


def uses(path: str, data: bytes | None, project: SurroundingFiles) -> list[PowerUse]:
    """Return every use of a power in one version of a file."""
    if data is None:
        return []
    if is_python(path, data):
        tree = project.module(data)
        if tree is None:
            return []
        python = PythonUses(tree, project.packages | _package_of(path))
        return [*python.all(), *unequal_comparisons(python.names), *questions(python)]
    return list(javascript_uses(data)) if ending(path) in JAVASCRIPT else []


def is_python(path: str, data: bytes) -> bool:
    """Return True for a Python file, by its ending or by its first line."""
    if ending(path) in ("py", "pyw"):
        return True
    return "." not in path.rpartition("/")[2] and re.match(rb"#!.*\bpython", data[:80]) is not None


def _package_of(path: str) -> frozenset[str]:
    """Return the top-level package of a file; never the name of something that gives powers."""
    parts = [part for part in path.split("/")[:-1] if part not in _ROOTS]
    return frozenset(part for part in parts[:1] if not power_of(part))


def _finding(
    change: ChangedFile, power: str, use: PowerUse, project: SurroundingFiles, rows: Sequence[str]
) -> TamperFinding | None:
    known = POWERS[power]
    shown = rows[use.line - 1].strip()[:_LONGEST] if 0 < use.line <= len(rows) else ""
    if known.reach == "dangerous":
        since = "a new file" if change.before is None else "its base version could not"
    else:
        if not project.is_known or project.had(power):
            return None
        since = "nothing in the project could before"
    asks = known.reach != "ordinary" or (project.is_fix and power in _ON_A_FIX)
    message = f"can now {known.phrase}: `{shown}` ({since})"
    return TamperFinding(use.rule, change.path, use.line, message, "suspect" if asks else "note")
