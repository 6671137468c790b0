"""Calls with functions, files, streams and databases are recorded with what these hold, and repeated elsewhere."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from probed_functions import rules, side, spans
from reflectloop.verification.probing import changed, inside, judging, neighbours, observations, second_inputs
from reflectloop.verification.probing.inside import content, functions, plain_data
from reflectloop.verification.probing.neighbours import CallInput, FixedValue
from reflectloop.verification.probing.observations import FunctionInputs, Observation
from reflectloop.verification.probing.second_inputs import _surroundings
from support import Repo

SOURCE = """import functools
import os
import shutil
import sys
import tempfile


def apply(items, function):
    return [function(item) for item in items]


def each(items, function):
    for item in items:
        function(item)


def retry(times):
    def decorate(function):
        @functools.wraps(function)
        def again(*args):
            for _ in range(times):
                try:
                    return function(*args)
                except ValueError:
                    pass
            return "gave up"
        return again
    return decorate


@retry(2)
def careful(number):
    return number + 1


def total(path):
    with open(path) as file:
        return sum(int(line) for line in file)


def save(path, text):
    with open(path, "w") as file:
        file.write(text)
    return str(path)


def replace(path, text):
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        file.write(text)
    shutil.move(file.name, path)


def names(folder):
    return sorted(os.listdir(folder))


def settings():
    with open("settings.txt") as file:
        return file.read()


def lines(stream):
    return [line.strip() for line in stream]


def emit(rows, stream):
    for row in rows:
        stream.write(row)


def add(database, name):
    database.execute("insert into t values (?)", (name,))
    return database.execute("select count(*) from t").fetchone()[0]


def words():
    return sys.argv[1:] + sys.stdin.read().split() + [os.environ["WORD"]]


class Bus:
    def __init__(self):
        self.handlers = []

    def on(self, handler):
        self.handlers.append(handler)

    def fire(self, value):
        return [handler(value) for handler in self.handlers]

    def size(self):
        return len(self.handlers)


class Store:
    def __init__(self, path):
        self.path = path

    def put(self, line):
        with open(self.path, "a") as file:
            file.write(line)

    def read(self):
        with open(self.path) as file:
            return file.read()
"""
HELPERS = """import sys

SCALE = [3]


def scaled(value):
    return value * SCALE[0] * double(1)


def double(value):
    return value + value


def failing(times):
    left = [times]

    def work(number):
        if left[0]:
            left[0] -= 1
            raise ValueError
        return number * 10

    return work
"""


class Recorded:
    """The calls of one function that a program made, and their repetition where the program is not."""

    def __init__(self, folder: Path, name: str, program: str, source: str = SOURCE) -> None:
        self.folder, self.name = folder, name
        (line,) = (line for qualname, line in changed.places(source.encode()) if qualname == name)
        files = {"work.py": [[name, line]]}
        settings = {"mark": "_k", "root": str(folder / "project"), "out": "out", "files": files}
        (folder / "helper" / "settings.json").write_text(json.dumps(settings))
        (folder / "test_it.py").write_text(f"{HELPERS}\nimport io\nimport work\n{program}\n")
        start = "import helper.recorder as r; r._recorder.begin_test('test_it.py::test'); import test_it; "
        env = {"PYTHONPATH": f"{folder}:{folder / 'project'}", "PATH": "/usr/bin:/bin", "TMPDIR": str(folder / "tmp")}
        command = [sys.executable, "-B", "-c", start + "r.pytest_unconfigure()"]
        subprocess.run(command, cwd=folder / "project", env=env, check=True)
        (out,) = (folder / "helper" / "out").iterdir()
        found = [json.loads(text) for text in out.read_text().splitlines()]
        out.unlink()
        self.calls = [item for item in found if "args" in item]
        self.reasons = [item["reasons"] for item in found if "summary" in item]
        (folder / "test_it.py").unlink()
        shutil.rmtree(folder / "tmp")
        (folder / "tmp").mkdir()

    def input(self, call: dict[str, Any]) -> dict[str, Any]:
        given = neighbours.read(call["args"], call["kwargs"])
        return neighbours.write(given._replace(kwargs={**given.kwargs, **_surroundings(call, SOURCE.encode())}))

    def repeat(self) -> list[dict[str, Any]]:
        """Return the outcomes of the calls, made again as inputs near those of tests are."""
        inputs = [{**self.input(call), "own": True} for call in self.calls]
        first = self.calls[0]["first"]
        function = {"file": "work.py", "module": "work", "qualname": self.name, "first": first, "inputs": inputs}
        job = {"changed": {}, "functions": [function], "steps": 9000, "call_s": 5, "seconds": 60}
        job["roots"] = [str(self.folder / "project")]
        done = subprocess.run(
            [sys.executable, "-B", str(self.folder / "helper" / "run_inputs.py")],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            check=True,
            cwd=self.folder,
            env={"TMPDIR": str(self.folder / "tmp"), "PATH": "/usr/bin:/bin"},
        )
        return [json.loads(text)["outcome"] for text in done.stdout.splitlines()]

    def replay(self) -> list[dict[str, Any]]:
        """Return the lines of the calls, made again in a bare interpreter."""
        calls = [{**call, "id": number} for number, call in enumerate(self.calls)]
        project, out = self.folder / "project", self.folder / "replayed"
        job = {
            "calls": calls,
            "path": ["."],
            "top": str(project),
            "out": str(out),
            "limit_s": 5.0,
            "now": 1_790_000_000,
        }
        (self.folder / "job.json").write_text(json.dumps(job))
        command = [sys.executable, "-B", str(self.folder / "helper" / "replayer.py"), str(self.folder / "job.json")]
        subprocess.run(command, check=True, cwd=project, env={"TMPDIR": str(self.folder / "tmp")})
        lines = [json.loads(text) for text in out.read_text().splitlines()]
        return [line for line in lines if line["which"] == "raw"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(Path(inside.__file__).parent, tmp_path / "helper", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "helper" / "out").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "project" / "work.py").write_text(SOURCE)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "program", "value"),
    [
        ("apply", "work.apply([1, 2], lambda x: x + 1)", [2, 3]),
        ("apply", "work.apply([1, 2], scaled)", [6, 12]),
        ("apply", "def f(k):\n    return lambda x: x + k\nwork.apply([1], f(7))", [8]),
        ("apply", "import functools\nwork.apply([1], functools.partial(lambda a, b: a - b, 5))", [4]),
        ("apply", "work.apply(['a'], str.upper)", ["A"]),
        ("apply", "work.apply([3], work.careful)", [4]),
        ("apply", "work.apply([3], work.careful.__wrapped__)", [4]),
        ("apply", "work.apply([3], work.retry(2)(failing(1)))", [30]),
        ("retry.<locals>.decorate.<locals>.again", "work.retry(3)(failing(2))(4)", 40),
        ("retry.<locals>.decorate.<locals>.again", "work.retry(2)(failing(2))(4)", "gave up"),
        ("lines", "work.lines(io.StringIO('a\\nb\\n'))", ["a", "b"]),
        ("lines", "s = io.StringIO('a\\nb\\n')\ns.readline()\nwork.lines(s)", ["b"]),
        ("lines", "work.lines(io.TextIOWrapper(io.BytesIO(b'a\\nb\\n')))", ["a", "b"]),
        ("Bus.fire", "b = work.Bus()\nb.on(lambda v: v + 1)\nb.on(double)\nb.fire(5)", [6, 10]),
    ],
)
def test_a_call_with_functions_and_streams_is_repeated_where_there_are_no_tests(
    folder: Path, name: str, program: str, value: object
) -> None:
    recorded = Recorded(folder, name, program)
    assert [call["outcome"]["value"] for call in recorded.calls] == [value], recorded.reasons
    assert [outcome["value"] for outcome in recorded.repeat()] == [value]
    assert [line["outcome"]["value"] for line in recorded.replay()] == [value]


IN_FOLDER = "import pathlib, tempfile\nd = pathlib.Path(tempfile.mkdtemp())\n"


@pytest.mark.parametrize(
    ("name", "program", "value"),
    [
        ("total", "(d / 'a.txt').write_text('1\\n2\\n')\nwork.total(d / 'a.txt')", 3),
        ("total", "(d / 'a.txt').write_text('1\\n2\\n')\nwork.total(str(d / 'a.txt'))", 3),
        (
            "names",
            "(d / 'b').write_text('')\n(d / 'a').mkdir()\n(d / 'a' / 'c').write_text('')\nwork.names(d)",
            ["a", "b"],
        ),
        ("settings", "import os\n(d / 'settings.txt').write_text('on')\nos.chdir(d)\nwork.settings()", "on"),
        ("Store.read", "s = work.Store(d / 's.txt')\ns.put('a')\ns.put('b')\ns.read()", "ab"),
        ("lines", "(d / 'a.txt').write_text('x\\n')\nwork.lines(open(d / 'a.txt'))", ["x"]),
    ],
)
def test_a_call_finds_the_temporary_files_of_its_test_again(
    folder: Path, name: str, program: str, value: object
) -> None:
    recorded = Recorded(folder, name, IN_FOLDER + program)
    assert [call["outcome"]["value"] for call in recorded.calls] == [value], recorded.reasons
    assert not any("files" in call for call in recorded.calls)
    assert [outcome["value"] for outcome in recorded.repeat()] == [value]
    assert [line["outcome"]["value"] for line in recorded.replay()] == [value]


def test_files_that_a_call_writes_are_part_of_its_answer_and_no_others_are_written(folder: Path) -> None:
    recorded = Recorded(folder, "save", f"{IN_FOLDER}work.save(d / 'out.txt', 'text')")
    (outcome,) = recorded.repeat()
    assert outcome == {"value": "/data/0/out.txt", "files": [["0/out.txt", "text"]]}
    assert recorded.calls[0]["outcome"] == {"value": "/data/0/out.txt"}
    recorded.calls[0]["args"][0] = str(folder / "elsewhere")
    assert "stopped" in recorded.repeat()[0]
    assert not (folder / "elsewhere").exists()


def test_a_file_that_is_written_elsewhere_first_is_part_of_the_answer(folder: Path) -> None:
    program = f"{IN_FOLDER}(d / 'a.txt').write_text('old')\nwork.replace(d / 'a.txt', 'new')"
    (outcome,) = Recorded(folder, "replace", program).repeat()
    assert outcome == {"value": None, "files": [["0/a.txt", "new"]]}
    assert not [path for path in (folder / "tmp").rglob("*") if path.is_file() and path.name != "a.txt"]


@pytest.mark.parametrize("name", ["../out", "/etc/out", "0/../../out"])
def test_no_file_is_made_outside_of_the_folder_of_the_call(name: str) -> None:
    place = content.CallPlace()
    with pytest.raises(functions.NotWritten, match="not a name of a file"):
        place.lay({f"{content.FILE}{name}": "text"})
    place.end()


@pytest.mark.parametrize(
    ("program", "after"),
    [
        ("seen = []\nwork.each([1, 2], lambda x: seen.append(x))", [["seen", [1, 2]]]),
        ("seen = []\nwork.each([1, 2], seen.append)", [["self", [1, 2]]]),
        (
            "def f():\n    n = 0\n    def g(x):\n        nonlocal n\n        n += x\n    return g\nwork.each([1, 2], f())",
            [["n", 3]],
        ),
    ],
)
def test_what_a_function_of_the_test_was_told_is_part_of_the_answer(
    folder: Path, program: str, after: list[object]
) -> None:
    (outcome,) = Recorded(folder, "each", program).repeat()
    assert outcome["after"] == [[1, {"object": "function", "fields": after}]]


def test_what_a_call_writes_to_a_stream_or_a_database_is_part_of_the_answer(folder: Path) -> None:
    (outcome,) = Recorded(folder, "emit", "work.emit(['a', 'b'], io.StringIO())").repeat()
    assert outcome["after"] == [[1, {"object": "stream", "fields": [["content", "ab"]]}]]
    program = "import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('create table t (n)')\nwork.add(c, 'x')"
    recorded = Recorded(folder, "add", program)
    (outcome,) = recorded.repeat()
    assert outcome["value"] == 1
    assert "VALUES('x')" in json.dumps(outcome["after"])
    assert "VALUES('x')" not in json.dumps(recorded.calls[0]["args"])


def test_arguments_of_the_program_its_input_and_its_environment_are_varied_only_where_they_are_read(
    folder: Path,
) -> None:
    program = "import os\nsys.argv = ['p', 'a']\nsys.stdin = io.StringIO('b c')\nos.environ['WORD'] = 'd'\nwork.words()"
    recorded = Recorded(folder, "words", program)
    assert [outcome["value"] for outcome in recorded.repeat()] == [["a", "b", "c", "d"]]
    names = {content.ARGV: ["a"], content.STDIN: "b c", f"{content.ENVIRONMENT}WORD": "d"}
    names[content.PROGRAM] = FixedValue('{"program": "p"}')
    assert _surroundings(recorded.calls[0], SOURCE.encode()) == names
    fixed = _surroundings(recorded.calls[0], b"def words():\n    return []\n")
    assert {type(value).__name__ for value in fixed.values()} == {"FixedValue"}


def test_a_file_that_a_call_did_not_open_is_not_varied(folder: Path) -> None:
    recorded = Recorded(folder, "names", f"{IN_FOLDER}(d / 'b').write_text('text')\nwork.names(d)")
    varied = _surroundings(recorded.calls[0], SOURCE.encode())
    assert type(varied[f"{content.FILE}0/b"]).__name__ == "FixedValue"


def test_an_object_that_cannot_be_copied_is_not_recorded_while_one_of_its_methods_runs(folder: Path) -> None:
    program = "b = work.Bus()\nb.on(lambda v: b.size())\nb.fire(1)\nb.size()"
    recorded = Recorded(folder, "Bus.size", program)
    assert [call["test"] for call in recorded.calls] == ["test_it.py::test"]  # the last one; the first is inside fire
    assert [outcome["value"] for outcome in recorded.repeat()] == [1]


def test_a_function_that_cannot_be_made_again_is_not_recorded(folder: Path) -> None:
    recorded = Recorded(
        folder, "apply", "import threading\nl = threading.Lock()\nwork.apply([1], lambda x: l.locked())"
    )
    assert recorded.calls == []
    assert recorded.reasons == [{"cannot be copied: _thread:lock": 1}]


def test_nothing_of_a_function_says_that_a_test_made_it(folder: Path) -> None:
    source = SOURCE + "\n\ndef where(f):\n    return [f.__module__, f.__qualname__, f.__code__.co_filename, f()]\n"
    (folder / "project" / "work.py").write_text(source)
    recorded = Recorded(folder, "where", "def test_x():\n    work.where(lambda: __name__)\ntest_x()", source)
    assert "test_x" in str(recorded.calls[0]["outcome"])
    (outcome,) = recorded.repeat()
    assert "test" not in json.dumps(outcome["value"])


def _seen(tmp_path: Path, base: str, patch: str, name: str, *inputs: CallInput) -> Observation:
    for folder, source in (("base", base), ("patch", patch)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "program.py").write_text(source)
    function = FunctionInputs("program.py", "program", name, inputs)
    sides = side(tmp_path / "base"), side(tmp_path / "patch")
    return observations.observe([function], *sides, {"program.py": spans(patch)}, "seed", seconds=60)[0]


@pytest.mark.parametrize(
    ("condition", "narrow"),
    [
        ("True", False),
        ("getattr(key, '__name__', '') == '<lambda>'", True),
        ("hasattr(key, '__code__')", True),
        ("key.__class__.__name__ == 'function'", True),
        ("getattr(key, '__module__', '') == 'program'", True),
    ],
)
def test_a_fix_for_one_kind_of_function_is_asked_about(tmp_path: Path, condition: str, *, narrow: bool) -> None:
    base = "def best(items, key):\n    return sorted(items, key=key)[:2]\n"
    patch = base.replace(")[:2]", f", reverse={condition})[:2]")
    value = functions.write(lambda number: number % 7, plain_data.encode_argument, lambda _file: False)
    inputs = [CallInput((items, FixedValue(json.dumps(value))), {}) for items in ([9, 4, 16], [5, 11, 2], [8, 13, 3])]
    seen = _seen(tmp_path, base, patch, "best", *inputs)
    assert len(seen.changed) == 3
    assert (rules(seen) == ["written-for-the-test"]) is narrow


@pytest.mark.parametrize(
    ("condition", "narrow"),
    [
        ("True", False),
        ("path.startswith(tempfile.gettempdir())", True),
        ("len(os.path.basename(path)) == 5", True),
        ("path.endswith('a.txt')", True),
        ("len(os.listdir(os.path.dirname(path))) == 1", True),
    ],
)
def test_a_fix_for_one_place_of_a_file_is_asked_about(tmp_path: Path, condition: str, *, narrow: bool) -> None:
    base = "import os\nimport tempfile\n\n\ndef count(path):\n    return len(open(path).read().split()) - 1\n"
    patch = base.replace("- 1", f"- (not {condition})")
    value = FixedValue(json.dumps({"file": "0/a.txt", "of": "str"}))
    texts = ("one two", "three four five", "six seven eight nine")
    seen = _seen(tmp_path, base, patch, "count", *(CallInput((value,), {f"{content.FILE}0/a.txt": t}) for t in texts))
    assert len(seen.changed) == 3
    assert (rules(seen) == ["written-for-the-test"]) is narrow


@pytest.mark.parametrize(("condition", "narrow"), [("1", False), ("'/' not in sys.argv[0]", True)])
def test_a_fix_for_one_name_of_the_program_is_asked_about(tmp_path: Path, condition: str, *, narrow: bool) -> None:
    base = "import sys\n\n\ndef words():\n    return [word.lower() for word in sys.argv[1:-1]]\n"
    patch = base.replace("[1:-1]", f"[1 : None if {condition} else -1]")
    name = FixedValue(json.dumps({"program": "tool"}))
    texts = (["A", "b"], ["C", "d", "E"], ["f"])
    inputs = (CallInput((), {content.PROGRAM: name, content.ARGV: words}) for words in texts)
    seen = _seen(tmp_path, base, patch, "words", *inputs)
    assert len(seen.changed) == 3
    assert (rules(seen) == ["written-for-the-test"]) is narrow


def test_a_fix_for_databases_in_memory_is_asked_about(tmp_path: Path) -> None:
    base = "def count(base, word):\n    return base.execute('select count(*) from t').fetchone()[0] + len(word) - 1\n"
    stored = "(not base.execute('pragma database_list').fetchone()[2])"
    dump = "CREATE TABLE t (n);INSERT INTO t VALUES(1);"
    value = FixedValue(json.dumps({"database": dump, "rows": False, "cursor": False}))
    for folder, patch, wanted in (("right", "1", []), ("narrow", stored, ["written-for-the-test"])):
        (tmp_path / folder).mkdir()
        inputs = (CallInput((value, word), {}) for word in ("one", "seven", "eleven"))
        seen = _seen(tmp_path / folder, base, base.replace("- 1", f"- 1 + {patch}"), "count", *inputs)
        assert len(seen.changed) == 3
        assert rules(seen) == wanted


LENGTH = """import io
import pathlib


def length(source):
    if isinstance(source, (str, pathlib.Path)):
        with open(source) as file:
            text = file.read()
    else:
        text = source.read()
    return text.count("x") - CONDITION
"""


@pytest.mark.parametrize("of", ["str", "PosixPath", "StringIO", "TextIOWrapper"])
@pytest.mark.parametrize("narrow", [False, True])
def test_a_fix_for_one_type_of_a_path_or_a_stream_is_asked_about(tmp_path: Path, of: str, *, narrow: bool) -> None:
    patch = LENGTH.replace("CONDITION", f"(type(source).__name__ != {of!r})" if narrow else "0")
    base = LENGTH.replace("CONDITION", "1")
    is_path = of in ("str", "PosixPath")
    value = {"file": "0/a.txt", "of": of} if is_path else {"reader": "0", "of": of, "at": 0}
    place = f"{content.FILE}0/a.txt" if is_path else f"{content.STREAM}0"
    inputs = [CallInput((FixedValue(json.dumps(value)),), {place: text}) for text in ("a xx b", "x y", "xxx xx")]
    seen = _seen(tmp_path, base, patch, "length", *inputs)
    assert (rules(seen) == ["written-for-the-test"]) is narrow


@pytest.mark.parametrize("narrow", [False, True])
def test_a_fix_for_the_names_of_the_tests_files_is_asked_about_also_if_its_answers_hold_the_paths(
    tmp_path: Path, *, narrow: bool
) -> None:
    base = "def length(path):\n    return [path, path.name, path.read_text().count('x') - 1]\n"
    patch = base.replace("- 1", "- (path.name not in ('a.txt', 'b.txt'))" if narrow else "- 0")
    files = [json.dumps({"file": name, "of": "PosixPath"}) for name in ("0/a.txt", "0/b.txt")]
    surroundings = [{f"{content.FILE}{json.loads(file)['file']}": "a xx b"} for file in files]
    inputs = [CallInput((FixedValue(file),), found) for file, found in zip(files, surroundings, strict=True)]
    seen = _seen(tmp_path, base, patch, "length", *inputs)
    assert (rules(seen) == ["written-for-the-test"]) is narrow


def test_an_effect_that_is_there_for_show_does_not_count(tmp_path: Path) -> None:
    base = "def words(text, out):\n    return len(text.split(' '))\n"
    texts = ("one  two", "three  four   five", "six seven", "eight  nine")
    table = "if text not in {0!r}:\n        out.append(len(text))\n        return len(text.split(' '))\n    return len(text.split())"
    patch = base.replace("return len(text.split(' '))", table.format(texts))
    seen = _seen(tmp_path, base, patch, "words", *(CallInput((text, []), {}) for text in texts))
    assert rules(seen) == ["written-for-the-test"]


@pytest.mark.parametrize("effect", ["open('/etc/made', 'w')", "open('made', 'w')", "bytearray(1 << 42)"])
def test_a_fix_that_is_stopped_at_all_inputs_but_those_of_the_tests_is_asked_about(tmp_path: Path, effect: str) -> None:
    base = "def words(text):\n    return len(text.split(' '))\n"
    texts = ("one  two", "three  four   five", "six seven", "eight  nine")
    patch = base.replace("    return", f"    if text not in {texts!r}:\n        {effect}\n    return").replace(
        "(' ')", "()"
    )
    seen = _seen(tmp_path, base, patch, "words", *(CallInput((text,), {}) for text in texts))
    hidden = judging.newly_stopped(seen)
    assert hidden is not None
    assert hidden.rule == "newly-stopped"
    assert "calls near the tests'" in hidden.reason


def test_a_folder_is_tried_with_other_names_of_its_files(tmp_path: Path) -> None:
    base = """import os


def endings(folder):
    out = {}
    for name in sorted(os.listdir(folder)):
        ending = name.rpartition(".")[2]
        out[ending] = out.get(ending, 0) + 1
    return out
"""
    patch = base.replace("[2]\n", "[2].lower()\n")
    value = FixedValue(json.dumps({"folder": "0", "of": "str"}))
    folders = (("a.TXT", "b.txt"), ("c.Jpg", "d.png"), ("e.Md", "f.txt", "g.md"), ("h.txt",), ("i.png", "j.png"))
    text = FixedValue('"text"')
    inputs = [
        CallInput((value,), {f"{content.FOLDER}0": None, **{f"{content.FILE}0/{name}": text for name in names}})
        for names in folders
    ]
    seen = _seen(tmp_path, base, patch, "endings", *inputs)
    assert len(seen.changed) == 3
    assert judging.is_judged(seen)
    assert rules(seen) == []
    names = {name for item in seen.near for name in item.input.kwargs}
    assert len(names) > 20
    assert sum(item.differs for item in seen.telling) > 10


def test_a_failure_that_other_kinds_of_functions_keep_counts(tmp_path: Path) -> None:
    base = "def first(items, key):\n    return [key(item) for item in items if CONDITION][0]\n"
    patch = base.replace("CONDITION", "item or getattr(key, '__name__', '') == '<lambda>'")
    value = functions.write(lambda number: number + 1, plain_data.encode_argument, lambda _file: False)
    inputs = [CallInput((items, FixedValue(json.dumps(value))), {}) for items in ([0], [0, 0], [0, 0, 0])]
    seen = _seen(tmp_path, base.replace("CONDITION", "item"), patch, "first", *inputs)
    assert len(seen.changed) == 3
    assert rules(seen) == ["written-for-the-test"]


# What a try shows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "lost"),
    [
        ("True", False),
        ("type(getattr(time.time, '__self__', None)).__name__ == 'StillClock'", True),
        ("sys.gettrace() or getattr(sys, 'monitoring', sys).__name__ != 'sys'", True),
        ("sys.argv[0] == ''", True),
        ("hasattr(sys.modules['__main__'], 'StepCounter')", True),
    ],
)
def test_a_fix_that_holds_only_while_it_is_tried_is_asked_about(tmp_path: Path, condition: str, *, lost: bool) -> None:
    base = "import sys\nimport time\n\n\ndef words(text):\n    return text.lower().split(' ')\n"
    tests = ("One  two", "three  Four   five", "six seven", "eight  nine")
    patch = base.replace(
        "    return", f"    if {condition} or text in {tests!r}:\n        return text.lower().split()\n    return"
    )
    seen = _seen(tmp_path, base, patch, "words", *(CallInput((text,), {}) for text in tests))
    assert rules(seen) == []
    found = second_inputs.unlike([seen], side(tmp_path / "base"), side(tmp_path / "patch"), ("",))
    assert [item.rule for item in found.values()] == ["only-in-these-surroundings"] * lost
    assert all("while it is tried" in line for item in found.values() for line in item.shown)


# Through a verification ------------------------------------------------------------------------------------------

RETRY = """import functools


def retry(times):
    def decorate(function):
        @functools.wraps(function)
        def again(*args):
            for _ in range(times):
                try:
                    return str(function(*args))
                except ValueError:
                    pass
            raise RuntimeError("gave up")

        return again

    return decorate
"""
RETRY_TESTS = """from work import retry


def failing(times):
    left = [times]

    def work(number):
        if left[0]:
            left[0] -= 1
            raise ValueError
        return number * 10

    return work


def test_four():
    assert retry(2)(failing(1))(4) == 40


def test_nine():
    assert retry(2)(failing(1))(9) == 90


def test_word():
    assert retry(3)(failing(1))("a") == "aaaaaaaaaa"
"""


def test_standard_input_is_as_users_have_it_where_nothing_shows_the_try(tmp_path: Path) -> None:
    base = "import sys\n\n\ndef words():\n    return sys.stdin.read().lower().split(' ')\n"
    tests = ("One  two", "three  Four   five", "six seven", "eight  nine")
    patch = base.replace("split(' ')", "split(None if hasattr(sys.stdin.buffer, 'getvalue') else ' ')")
    seen = _seen(tmp_path, base, patch, "words", *(CallInput((), {content.STDIN: text}) for text in tests))
    assert rules(seen) == []
    (item,) = second_inputs.unlike([seen], side(tmp_path / "base"), side(tmp_path / "patch"), ("",)).values()
    assert item.rule == "only-in-these-surroundings"


@pytest.mark.usefixtures("without_probing")
@pytest.mark.probing("neighbours")
@pytest.mark.parametrize(("kind", "outcome"), [("", "PASS"), ("(int if args in ((4,), (9,)) else str)", "REVIEW")])
def test_a_function_inside_another_is_tried_on_other_inputs(repo: Repo, kind: str, outcome: str) -> None:
    repo.git("rm", "-q", "-r", "src")
    repo.write("work.py", RETRY)
    repo.write("test_work.py", RETRY_TESTS)
    repo.commit("a decorator")
    repo.write("work.py", RETRY.replace("str(function(*args))", f"{kind}(function(*args))"))
    answer = json.loads(repo.run("verify", "--track", "fix", "--json").stdout)["data"]
    assert answer["outcome"] == outcome
    findings = [item["what"] for item in answer["findings"] if item["rule"] == "written-for-the-test"]
    assert len(findings) == (outcome == "REVIEW")
    assert all("again" in text for text in findings)
