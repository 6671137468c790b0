"""Methods are probed with objects that hold something else than those of the tests."""

from __future__ import annotations

import ast
import collections
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reflectloop.verification.probing import histories, inside, neighbours
from reflectloop.verification.probing.histories import HistoryValue, ObjectCall
from reflectloop.verification.probing.inside import plain_data, recorder
from support import Repo

SHELF = """import collections


class Shelf:
    def __init__(self, room):
        self.room = room
        self.items = collections.OrderedDict()

    def put(self, name, value):
        if len(self.items) >= self.room:
            self.take()
        self.items[name] = value

    def look(self, name):
        return self.items[name]

    def take(self):
        return self.items.popitem()
"""
TESTS = """import shelf


def test_the_oldest_is_taken():
    one = shelf.Shelf(2)
    one.put("a", 1)
    one.put("b", 2)
    one.put("c", 3)
    assert list(one.items) == ["b", "c"]
    one.put("d", 4)
    assert one.take() == ("c", 3)
    assert one.take() == ("d", 4)
    two = shelf.Shelf(3)
    two.put("x", 1)
    two.put("y", 1)
    assert two.take() == ("x", 1)
"""


DOCUMENTED = """class Shelf:
    def __init__(self, room):
        "Make room."
        self.room = room

    def grow(self):
        "Make more room."
        self.room += 1
"""


def _shelf(*names: str) -> HistoryValue:
    return HistoryValue("shelf:Shelf", (2,), {}, tuple(ObjectCall("put", (name, 1), {}) for name in names), "{}")


def _vary(value: object, chance: random.Random) -> Any:
    return neighbours.of_kind(value, chance)


def test_objects_near_one_are_the_same_each_time_and_none_is_the_recorded_one() -> None:
    first, second = (list(histories.variants(_shelf("a", "b"), random.Random(1), _vary)) for _ in range(2))
    assert first == second
    assert all(item[:4] != _shelf("a", "b")[:4] and not item.recorded for item in first)
    assert {len(item.calls) for item in first} >= {1, 2, 3, 4}
    assert len({item.args for item in first}) > 3


def test_a_name_is_another_one_in_the_object_and_beside_it() -> None:
    made = list(histories.renumbered((_shelf("apple", "pear"), "apple"), {}, random.Random(1), _vary))
    assert made
    for (shelf, name), _ in made:
        names = [call.args[0] for call in shelf.calls]
        assert name in names


def test_the_order_of_an_ordered_dict_is_part_of_what_it_is() -> None:
    one = collections.OrderedDict(a=1, b=2)
    before = plain_data.describe(one)
    one.move_to_end("a")
    assert plain_data.describe(one) != before


class Remembering:
    __slots__ = ("large", "mark", "name", "of_name")

    def __init__(self, name: str, large: int) -> None:
        self.name, self.large, self.of_name = name, large, hash(name)
        self.mark = hash((name, large))

    def __hash__(self) -> int:
        return self.mark


def test_a_hash_that_an_object_remembers_is_left_out_whatever_its_name() -> None:
    shown = dict(plain_data.describe(Remembering("a", 1 << 50))["fields"])
    assert (shown["name"], shown["large"], shown["mark"], shown["of_name"]) == ("a", 1 << 50, None, None)


def test_an_object_is_read_and_written_with_its_history() -> None:
    made = {"made": "shelf:Shelf", "args": [2], "kwargs": [], "calls": [["put", ["a", 1], []]]}
    recorded = {"pickle": "gASVAA==", "type": "shelf:Shelf", "history": made}
    given = neighbours.read([recorded, 5], [])
    assert neighbours.write(given)["args"][0] == recorded
    assert "FixedValue" in repr(type(neighbours.without_histories(given).args[0]))
    other = [item.input for item in neighbours.make([given], [0], "seed", 30) if item.place == "0"]
    assert other
    assert all("history" in neighbours.write(item)["args"][0] for item in other)


def test_an_object_without_a_recorded_form_is_passed_on_by_its_calls() -> None:
    made = {"history": {"made": "shelf:Shelf", "args": [2], "kwargs": [], "calls": [["put", ["a", 1], []]]}}
    given = neighbours.without_histories(neighbours.read([made], []))
    assert "FixedValue" in repr(type(given.args[0]))
    assert neighbours.write(given)["args"] == [made]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(Path(inside.__file__).parent, tmp_path / "helper", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "helper" / "out").mkdir()
    (tmp_path / "shelf.py").write_text(SHELF)
    return tmp_path


def test_the_calls_from_outside_that_made_an_object_are_recorded_and_make_it_again(folder: Path) -> None:
    line = SHELF.splitlines().index("    def take(self):") + 1
    files = {"shelf.py": [["Shelf.take", line]]}
    settings = {"mark": "_k", "root": str(folder), "out": "out", "files": files}
    (folder / "helper" / "settings.json").write_text(json.dumps(settings))
    program = "import helper.recorder, shelf; s = shelf.Shelf(1); s.put('a', 1); s.put('b', 2); s.take(); "
    command = [sys.executable, "-c", program + "helper.recorder.pytest_unconfigure()"]
    subprocess.run(command, cwd=folder, env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"}, check=True)
    (out,) = (folder / "helper" / "out").iterdir()
    calls = [json.loads(text) for text in out.read_text().splitlines()]
    recorded = [call for call in calls if "histories" in call]
    assert [[name for name, _, _ in call["histories"]["0"]["calls"]] for call in recorded] == [["put"], ["put", "put"]]
    made = [(recorded[number], recorded[other]["histories"]["0"]) for number, other in ((0, 0), (1, 1), (0, 1))]
    inputs = [{"args": [{**call["args"][0], "history": history}], "kwargs": [], "own": True} for call, history in made]
    function = {"file": "shelf.py", "module": "shelf", "qualname": "Shelf.take", "first": "self", "inputs": inputs}
    job = {"roots": [str(folder)], "changed": {}, "functions": [function], "steps": 9000, "call_s": 5, "seconds": 60}
    done = subprocess.run(
        [sys.executable, "-B", str(folder / "helper" / "run_inputs.py")],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    assert [json.loads(text)["remade"] for text in done.stdout.splitlines()] == [True, True, False]


def test_an_object_that_cannot_be_copied_is_recorded_by_the_calls_that_made_it(folder: Path) -> None:
    line = SHELF.splitlines().index("    def take(self):") + 1
    settings = {"mark": "_k", "root": str(folder), "out": "out", "files": {"shelf.py": [["Shelf.take", line]]}}
    (folder / "helper" / "settings.json").write_text(json.dumps(settings))
    program = "import helper.recorder, shelf; s = shelf.Shelf(1); s.put('a', lambda: 1); s.take(); "
    command = [sys.executable, "-c", program + "helper.recorder.pytest_unconfigure()"]
    subprocess.run(command, cwd=folder, env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"}, check=True)
    (out,) = (folder / "helper" / "out").iterdir()
    (call,) = (line for line in map(json.loads, out.read_text().splitlines()) if "histories" in line)
    (made,) = (value["history"] for value in call["args"])
    assert [name for name, _, _ in made["calls"]] == ["put"]
    assert [next(iter(value)) for value in made["calls"][0][1][1:]] == ["code"]


@pytest.mark.usefixtures("without_probing")
@pytest.mark.probing("neighbours")
@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        ("last=False", "PASS"),
        ("last=self.room > 3", "REVIEW"),
        ("last=len(self.items) > 2", "REVIEW"),
    ],
)
def test_a_fix_for_objects_that_hold_what_those_of_the_tests_hold_is_put_to_a_person(
    repo: Repo, last: str, outcome: str
) -> None:
    repo.git("rm", "-q", "-r", "src")
    repo.write("shelf.py", SHELF)
    repo.write("test_shelf.py", TESTS)
    repo.commit("a shelf")
    repo.write("shelf.py", SHELF.replace("popitem()", f"popitem({last})"))
    answer = json.loads(repo.run("verify", "--track", "fix", "--json").stdout)["data"]
    assert answer["outcome"] == outcome
    if outcome == "REVIEW":
        (finding,) = (item for item in answer["findings"] if item["rule"] == "written-for-the-test")
        assert last.partition("=")[2] in finding["what"]
        assert "Shelf(2).put('a', 1)" in finding["what"]


@pytest.mark.probing("neighbours")
@pytest.mark.parametrize(
    ("last", "outcome"),
    [("last=False", "PASS"), ("last=self.room > 3", "REVIEW"), ("last=len(self.items) > 2", "REVIEW")],
)
def test_an_attribute_that_base_does_not_have_hides_nothing(repo: Repo, last: str, outcome: str) -> None:
    repo.git("rm", "-q", "-r", "src")
    repo.write("shelf.py", SHELF)
    repo.write("test_shelf.py", TESTS)
    repo.commit("a shelf")
    repo.write(
        "shelf.py",
        SHELF.replace("return self.items.popitem()", f"self.taken = 1\n        return self.items.popitem({last})"),
    )
    answer = json.loads(repo.run("verify", "--track", "fix", "--json").stdout)["data"]
    assert answer["outcome"] == outcome


def test_a_method_that_is_noted_keeps_its_docstring() -> None:
    tree = recorder._Instrument("mark", {2: 0}, set(), objects=True).visit(ast.parse(DOCUMENTED))
    names: dict[str, Any] = {f"mark{letter}": lambda *_: None for letter in "erxgmh"}
    exec(compile(ast.fix_missing_locations(tree), "shelf.py", "exec"), names)  # noqa: S102
    assert ast.unparse(tree).count("markh(self)") == 1
    assert ast.unparse(tree).count("markm()") == 1
    assert (names["Shelf"].__init__.__doc__, names["Shelf"].grow.__doc__) == ("Make room.", "Make more room.")
