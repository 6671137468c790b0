"""Find files of a patch that nobody can read: binary code, links to other places, odd encodings, unknown syntax."""

from __future__ import annotations

import re
import sys
from posixpath import dirname, join, normpath

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected.names import CODE_ENDINGS
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering.added import JAVASCRIPT, ending
from reflectloop.verification.tampering.powers.project import SurroundingFiles
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
        if target is None or not project.is_head_folder(target):
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
