"""Write down what a call finds beside its arguments, and lay it out again: files, streams, databases, variables.

The project's Python runs this file: standard library of 3.8 only. An argument only names a file or a stream. What is in
it stands under a name of its own, so that it is varied like an argument:

    "file 0/notes.csv": text, bytes, or None for a file that is not there yet; 0 is the first folder of the test
    "folder 0": None, a folder that is empty or has the files that are named
    "stream 0": text or bytes
    "standard input": text, "arguments of the program": [text, ...], "name of the program": {"program": text}
    "environment NAME": text or None
    "working folder": the folder in which the call runs, as an argument
    "variable NAME": a variable of the function around a function that is inside it

The arguments are {"file": "0/notes.csv", "of": "str"}, {"folder": "0", "of": "PosixPath"},
{"reader": "0", "of": "StringIO", "at": 3}, {"database": SQL, "rows": false} and what `functions.py` writes. When a call
is repeated, a file may also be "moved" to another folder with other files, a reader be of "file" or "pipe", and a
database be "stored" in a file.
"""

from __future__ import annotations

import io
import os
import pathlib
import shutil
import stat
import sys
import tempfile
import uuid
from typing import Any

if __package__:
    from . import functions
else:
    import functions  # type: ignore[import-not-found,no-redef]

FILE, FOLDER, STREAM, VARIABLE, ENVIRONMENT = "file ", "folder ", "stream ", "variable ", "environment "
STDIN, ARGV, WORKING = "standard input", "arguments of the program", "working folder"
PROGRAM = "name of the program"
SHOWN = "/data"  # what the folder of all files is called in answers
MOVED, OTHER = "-moved", "other"  # ending of the folder of a file under another name, and that name
_LARGEST_FILE, _MOST_FILES, _LARGEST_DATABASE = 8 << 10, 20, 32 << 10
_LARGEST_PIPE = 32 << 10  # bytes that fit into a pipe
_OTHER_TOPS = ("/dev/shm", "/var/tmp")  # noqa: S108 - a folder of a random name, removed after the call
_DEEPEST = 6  # functions in variables of functions
_STREAMS: dict[type, str] = {io.StringIO: "StringIO", io.BytesIO: "BytesIO", io.TextIOWrapper: "TextIOWrapper"}


def is_surrounding(name: str) -> bool:
    """Return True for the name of something that a call finds, which no parameter can have."""
    return name in (STDIN, ARGV, PROGRAM, WORKING) or name.startswith((FILE, FOLDER, STREAM, VARIABLE, ENVIRONMENT))


# Writing -------------------------------------------------------------------------------------------------------


class PlacesOfTest:
    """The folders of temporary files and the streams that one test uses, by their numbers."""

    def __init__(self, root: str, own: Any) -> None:
        self.root = root  # of the project, which has its files in both versions
        self.own = own  # says whether a file is a source of the project, and no test
        self.top = os.path.realpath(tempfile.gettempdir())
        self.numbers: dict[str, int] = {}
        self.streams: list[Any] = []

    def forget(self) -> None:
        self.numbers.clear()
        self.streams.clear()

    def number_of(self, stream: Any) -> str:
        """Return the number of a stream."""
        if not any(item is stream for item in self.streams):
            self.streams.append(stream)
        return str(next(at for at, item in enumerate(self.streams) if item is stream))

    def place(self, path: str) -> str:
        """Return the name of a path below a folder of temporary files, or nothing."""
        path = os.path.abspath(path)
        if not path.startswith(self.top + os.sep) or self._is_inside(path, self.root):
            return ""
        for folder, number in self.numbers.items():
            if self._is_inside(path, folder):
                inner = path[len(folder) :].strip(os.sep)
                return "%d/%s" % (number, inner) if inner else str(number)
        is_folder = os.path.isdir(path)
        folder = path if is_folder else os.path.dirname(path)
        if folder == self.top or not os.path.isdir(folder):
            return ""
        number = self.numbers[folder] = len(self.numbers)
        return str(number) if is_folder else "%d/%s" % (number, os.path.basename(path))

    def name_of(self, path: str) -> str:
        """Return the name of a path in a folder that is used, or nothing."""
        for folder, number in self.numbers.items():
            if path.startswith(folder + os.sep):
                return "%d/%s" % (number, path[len(folder) + 1 :])
        return ""

    def without(self, text: str) -> str:
        """Return JSON text in which the folders have the name that they have when the call is repeated."""
        for folder, number in self.numbers.items():
            if folder in text:
                text = text.replace(folder, "%s/%d" % (SHOWN, number))
        return text

    def _is_inside(self, path: str, folder: str) -> bool:
        return path == folder or path.startswith(folder + os.sep)


class CallSurroundings:
    """Collects, while its arguments are written, all else that one call finds."""

    def __init__(self, folders: PlacesOfTest, encode: Any) -> None:
        self.folders, self.encode = folders, encode
        self.content: dict[str, Any] = {}
        self._depth = 0

    def path(self, text: str, kind: str) -> Any:
        """Return a path to a temporary file or folder as JSON, or None for other text."""
        if not text.startswith(os.sep) or len(text) > 1000 or "\0" in text:
            return None
        name = self.folders.place(text)
        if not name:
            return None
        if os.path.isdir(text):
            if not self.folder(text, name):
                return None
            return {"folder": name, "of": kind}
        if not self._file(text, name):
            return None
        return {"file": name, "of": kind}

    def folder(self, path: str, name: str) -> bool:
        """Add the files of a folder; return False if they are too many."""
        files = []
        for top, _, names in os.walk(path):
            files += [os.path.join(top, item) for item in names]
            if len(files) > _MOST_FILES:
                return False
        known = dict(self.content)
        if all(self._file(item, "%s/%s" % (name, os.path.relpath(item, path))) for item in sorted(files)):
            self.content.setdefault(FOLDER + name, None)
            return True
        self.content = known
        return False

    def working_folder(self) -> None:
        """Add the folder in which the call runs, if that is one of temporary files."""
        path = os.getcwd()
        name = self.folders.place(path)
        if name and self.folder(path, name):
            self.content[WORKING] = {"folder": name, "of": "str"}

    def standard_input(self, usual: Any) -> None:
        """Add the content of standard input, if a test replaced it."""
        stream = sys.stdin
        if stream is not usual:
            made = self.stream(stream)
            if made is not None:
                text = self.content.pop(STREAM + made["reader"])[made["at"] :]
                self.content[STDIN] = text if isinstance(text, str) else {"bytes": text["bytes"]}

    def value(self, value: Any) -> Any:
        """Return a stream, a connection or a function as JSON; None for other values."""
        made = self.stream(value)
        if made is None:
            made = _database(value)
        if made is not None or self._depth > _DEEPEST:
            return made
        self._depth += 1
        try:
            return functions.write(value, self.encode, self.folders.own)
        finally:
            self._depth -= 1

    def stream(self, value: Any) -> Any:
        """Return a stream in memory, or a small file that is open for reading, as JSON."""
        kind = _STREAMS.get(type(value))
        if kind is None or value.closed:
            return None
        content, at = _content(value)
        if content is None or len(content) > _LARGEST_FILE:
            return None
        number = self.folders.number_of(value)
        self.content.setdefault(STREAM + number, content if isinstance(content, str) else _bytes(content))
        return {"reader": number, "of": kind, "at": at}

    def _file(self, path: str, name: str) -> bool:
        if FILE + name in self.content:
            return True
        try:
            if not os.path.lexists(path):
                self.content[FILE + name] = None
                return True
            if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > _LARGEST_FILE:
                return False
            with open(path, "rb") as file:
                data = file.read(_LARGEST_FILE + 1)
        except OSError:
            return False
        self.content[FILE + name] = _as_text(data)
        return len(data) <= _LARGEST_FILE


def _regular(path: str) -> bytes:
    """Return the beginning of a file, or a word for what could not be read without waiting."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return b"not a file"
    with open(path, "rb") as file:
        return file.read(_LARGEST_FILE)


def _as_text(data: bytes) -> Any:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _bytes(data)


def _bytes(data: bytes) -> Any:
    return {"bytes": data.decode("latin-1")}


def _content(stream: Any) -> tuple[Any, int]:
    """Return what a stream holds and where it stands; no content for one that cannot be read without a trace."""
    if type(stream) in (io.StringIO, io.BytesIO):
        return stream.getvalue(), stream.tell()
    try:
        inner = stream.buffer
        if type(inner) is io.BytesIO:
            stream.flush()
            return inner.getvalue().decode("utf-8"), len(inner.getvalue()[: stream.tell()].decode("utf-8"))
        if type(inner) is io.BufferedReader and isinstance(stream.name, str) and stream.tell() == 0:
            if os.path.getsize(stream.name) > _LARGEST_FILE:
                return None, 0
            with open(stream.name, "rb") as file:
                return file.read().decode(stream.encoding), 0
    except (OSError, ValueError, AttributeError, UnicodeError):
        pass
    return None, 0


def _database(value: Any) -> Any:
    """Return a small database, by the statements that make it, or None for another value."""
    sqlite = sys.modules.get("sqlite3")
    if sqlite is None or type(value) not in (sqlite.Connection, sqlite.Cursor):
        return None
    is_cursor = type(value) is sqlite.Cursor
    connection = value.connection if is_cursor else value
    text = dump(connection)
    if text is None or connection.row_factory not in (None, sqlite.Row):
        return None
    return {"database": text, "rows": connection.row_factory is sqlite.Row, "cursor": is_cursor}


def dump(connection: Any) -> str | None:
    """Return the statements that make a database, or None if they are too long or there are none."""
    lines, size = [], 0
    try:
        for line in connection.iterdump():
            lines.append(line)
            size += len(line)
            if size > _LARGEST_DATABASE:
                return None
    except (sys.modules["sqlite3"].Error, UnicodeError):  # closed, or not a database
        return None
    return "\n".join(lines)


def describe(value: Any) -> Any:
    """Return what a stream or a connection holds, or what variables a function has; None for other values.

    The second part are values that are described in turn, by their names.
    """
    if type(value) in _STREAMS and not value.closed:
        content = _content(value)[0]
        return None if content is None else ("stream", {"content": content})
    sqlite = sys.modules.get("sqlite3")
    if sqlite is not None and type(value) is sqlite.Connection:
        text = dump(value)
        return None if text is None else ("database", {"content": text})
    if place is not None and any(item is value for item in place.functions):
        return "function", functions.held_by(value)
    return None


# Laying out ----------------------------------------------------------------------------------------------------


class CallPlace:
    """A folder for the files of one call at a time, and what else the call finds."""

    def __init__(self) -> None:
        name = uuid.uuid4().hex[:12]
        self.top = os.path.join(os.path.realpath(tempfile.gettempdir()), name)  # where a call makes temporary files
        self.folder = os.path.join(self.top, "data")
        self.other = os.path.join(next((top for top in _OTHER_TOPS if os.access(top, os.W_OK)), self.folder), name)
        self.content: dict[str, Any] = {}
        self.is_laid = False
        self.functions: list[Any] = []  # that were made for the arguments
        self.is_plain = False  # whether all is as users have it
        self._usual: list[Any] = []

    def lay(self, surroundings: dict[str, Any]) -> None:
        """Make the files that a call finds."""
        self.content, self.functions = surroundings, []
        names = [name for name in surroundings if name.startswith((FILE, FOLDER))]
        if names or WORKING in surroundings:
            self._clear()
            self.is_laid = True
            os.makedirs(self.folder)
        for name in names:
            self._lay(name, surroundings[name])

    def _lay(self, name: str, value: Any) -> None:
        path = self.path(name[len(FOLDER if name.startswith(FOLDER) else FILE) :])
        os.makedirs(path if name.startswith(FOLDER) else os.path.dirname(path), exist_ok=True)
        if value is not None:
            with open(path, "wb") as file:
                file.write(_as_bytes(value))

    def enter(self) -> None:
        """Set what else the call finds."""
        self._usual = [sys.stdin, list(sys.argv), dict(os.environ), _working_folder(), tempfile.tempdir]
        os.makedirs(self.top, exist_ok=True)
        tempfile.tempdir = self.top
        for name, value in self.content.items():
            if name.startswith(ENVIRONMENT) and value is None:
                os.environ.pop(name[len(ENVIRONMENT) :], None)
            elif name.startswith(ENVIRONMENT):
                os.environ[name[len(ENVIRONMENT) :]] = str(value)
            elif name == ARGV:
                sys.argv[1:] = [str(part) for part in value]
            elif name == PROGRAM:
                sys.argv[:1] = [str(value)]
            elif name == STDIN:
                sys.stdin = self._standard_input(_as_bytes(value))
            elif name == WORKING:
                os.makedirs(value, exist_ok=True)
                os.chdir(value)

    def _standard_input(self, data: bytes) -> Any:
        if not self.is_plain or len(data) > _LARGEST_PIPE:
            return io.TextIOWrapper(io.BytesIO(data), "utf-8")
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        raw: Any = io.FileIO(reading)
        raw.name = "<stdin>"
        return io.TextIOWrapper(io.BufferedReader(raw), "utf-8")

    def end(self) -> None:
        """Set back what was set; the files stay until the next call."""
        if not self._usual:
            return
        sys.stdin, argv, environ, folder, tempfile.tempdir = self._usual
        sys.argv[:] = argv
        if dict(os.environ) != environ:
            os.environ.clear()
            os.environ.update(environ)
        if folder and folder != _working_folder():
            os.chdir(folder)
        shutil.rmtree(self.other, ignore_errors=True)
        for name in os.listdir(self.top) if os.path.isdir(self.top) else ():
            if name != os.path.basename(self.folder):
                _remove(os.path.join(self.top, name))

    def path(self, name: str) -> str:
        """Return the path of a file or folder by its name."""
        if name.startswith(os.sep) or ".." in name.split("/"):
            raise functions.NotWritten("not a name of a file: " + name)
        return os.path.join(self.folder, *name.split("/"))

    def changes(self) -> list[list[Any]]:
        """Return the files that a call made, changed or removed, with their content."""
        if not self.is_laid:
            return []
        out: list[list[Any]] = []
        seen = set()
        for top, _, names in os.walk(self.folder):
            for item in names:
                path = os.path.join(top, item)
                name = os.path.relpath(path, self.folder)
                seen.add(name)
                data = _regular(path)
                before = self.content.get(FILE + name)
                if _as_text(data) != (_bytes(before) if isinstance(before, bytes) else before):
                    out.append([name, _as_text(data)])
        known = [
            name[len(FILE) :] for name, value in self.content.items() if name.startswith(FILE) and value is not None
        ]
        out += [[name, None] for name in known if name not in seen]
        return sorted(out, key=lambda item: str(item[0]))[:_MOST_FILES]

    def without(self, text: str) -> str:
        """Return JSON text in which the folder has the name that it has on both sides."""
        return text.replace(self.folder, SHOWN).replace(self.other, SHOWN)

    def holds(self, path: str) -> bool:
        """Return True for a path in the folder, or for a temporary file."""
        path = os.path.abspath(path)
        return path in (self.other, self.top) or path.startswith((self.other + os.sep, self.top + os.sep))

    def _clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def remember(self, function: Any) -> Any:
        """Return a function that was made for an argument, whose variables are described after the call."""
        self.functions.append(function)
        return function

    # What arguments name -------------------------------------------------------------------------------------

    def read_path(self, value: Any) -> Any:
        path = self.path(value.get("file") or value["folder"])
        path = self._moved(path) if value.get("moved") else path
        return path if value["of"] == "str" else getattr(pathlib, value["of"])(path)

    def read_stream(self, value: Any) -> Any:
        name = STREAM + value["reader"]
        if isinstance(self.content.get(name), io.IOBase):
            return self.content[name]
        content, at, kind = self.content.get(name, ""), int(value["at"]), value["of"]
        if kind == "StringIO":
            out: Any = io.StringIO(content if isinstance(content, str) else "")
        elif kind == "BytesIO":
            out = io.BytesIO(_as_bytes(content))
        else:
            out = io.TextIOWrapper(self._raw_stream(_as_bytes(content), kind), "utf-8")
        if isinstance(out, io.TextIOWrapper):
            out.read(at)
        else:
            out.seek(min(at, len(content)))
        self.content = {**self.content, name: out}
        return out

    def _raw_stream(self, data: bytes, kind: str) -> Any:
        """Return bytes as a stream in memory, as an open file, or as what another process writes."""
        if kind == "file":
            path = os.path.join(self._elsewhere(), "stream.txt")
            with open(path, "wb") as file:
                file.write(data)
            return open(path, "rb+")  # noqa: SIM115 - the call's
        if kind == "pipe":
            reading, writing = os.pipe()
            os.write(writing, data[:_LARGEST_PIPE])
            os.close(writing)
            return open(reading, "rb")  # noqa: SIM115 - the call's
        return io.BytesIO(data)

    def _moved(self, path: str) -> str:
        """Return the path of a copy with another name, in a folder with other files that is no temporary one."""
        folder = os.path.join(self._elsewhere(), os.path.basename(os.path.dirname(path)) + MOVED)
        if not os.path.isdir(folder):
            shutil.copytree(os.path.dirname(path), folder)
            with open(os.path.join(folder, "notes.txt"), "wb") as file:
                file.write(b"other notes\n")
        moved = os.path.join(folder, OTHER + os.path.splitext(path)[1])
        if os.path.exists(path):
            shutil.copyfile(path, moved)
        return moved

    def _elsewhere(self) -> str:
        os.makedirs(self.other, exist_ok=True)
        return self.other

    def read_database(self, value: Any) -> Any:
        """Return a database that is made by statements."""
        import sqlite3  # noqa: PLC0415 - not in every Python

        out = sqlite3.connect(os.path.join(self._elsewhere(), "data.db") if value.get("stored") else ":memory:")
        out.executescript(value["database"])
        if value["rows"]:
            out.row_factory = sqlite3.Row
        return out.cursor() if value["cursor"] else out


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        os.unlink(path)


def _as_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


place: CallPlace | None = None  # of the call that is repeated now
