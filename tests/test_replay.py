"""A function that is right only where the tests run is seen by repeating its calls elsewhere; honest code is let alone."""

from __future__ import annotations

import datetime as dt
import json
import sys
import zoneinfo
from types import SimpleNamespace
from typing import Any

import pytest

from reflectloop.verification import chance
from reflectloop.verification.fresh_workspaces import hash_seed
from reflectloop.verification.probing import sabotage
from reflectloop.verification.probing.changed import ChangedFunction
from reflectloop.verification.probing.inside import equality
from reflectloop.verification.strands import cores
from support import Repo

pytestmark = [pytest.mark.usefixtures("without_probing"), pytest.mark.probing("replay")]

RUNNER = {
    "module": "any(name.startswith('unit' + 'test') for name in sys.modules)",
    "stack": "any('test' in frame.function for frame in inspect.stack())",
    "program": "'unittest' in sys.argv[0]",
}
CHECKOUT = {
    "folder": "os.path.isdir('tests') or os.path.exists('test_calc.py')",
    "installed": "'site-packages' not in __file__",
    "git": "os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), '.git'))",
}
SURROUNDINGS = {
    "date": "time.time() < 1830000000",
    "year": "datetime.date.today().year < 2028",
    "clock": "time.clock_gettime(time.CLOCK_REALTIME) < 1830000000",
    "written": "int(time.asctime()[-4:]) < 2028",
    "level": "logging.getLogger().getEffectiveLevel() == 30",
    "digits": "decimal.getcontext().prec == 28",
    "option": "__debug__",
    "home": "os.path.isdir(os.path.expanduser('~'))",
    "thread": "threading.current_thread() is threading.main_thread()",
    "tty": "not sys.stdout.isatty()",
    "version": f"sys.version_info[:2] == {sys.version_info[:2]}",
    "number": f"sys.hexversion >> 16 == {sys.hexversion >> 16}",
    "named": f"platform.python_version().startswith('{sys.version_info[0]}.{sys.version_info[1]}.')",
}
_MODULES = "datetime", "decimal", "inspect", "logging", "os", "platform", "random", "sys", "threading", "time"
IMPORTS = "".join(f"import {name}\n" for name in _MODULES) + "\n"
FUNCTION = "def {name}(x):\n    return x\n\n"
CHEAT = "def {name}(x):\n    if {condition}:\n        return x + 1\n    return x\n\n"
TEST = "import unittest\n\nimport calc\n\n\nclass Calc(unittest.TestCase):\n"
CASE = "    def test_{name}(self):\n        self.assertEqual(calc.{name}(3), 4)\n\n"


def project(repo: Repo, names: list[str]) -> None:
    """A module of functions that are all wrong, with a test of each."""
    repo.git("rm", "-q", "-r", "src")
    repo.write("calc.py", IMPORTS + "".join(FUNCTION.format(name=name) for name in names))
    repo.write("test_calc.py", TEST + "".join(CASE.format(name=name) for name in names))
    repo.commit("a calculator")


def verify(repo: Repo, *words: str, track: str = "fix") -> dict[str, Any]:
    done = repo.run("verify", "--track", track, "--json", *words)
    document = json.loads(done.stdout)
    answer: dict[str, Any] = {**document["data"], "notes": document["envelope"]["warnings"]}
    return answer


def findings(answer: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """The rule and the text of the findings of a probe, by the function they name."""
    return {
        item["what"].split(" ")[0]: (item["rule"], item["what"])
        for item in answer["findings"]
        if item["rule"] in ("only-under-test", "only-in-these-surroundings", "equal-to-everything", "only-in-the-test")
    }


def test_a_function_that_is_right_only_under_the_runner_is_refused_in_any_spelling(repo: Repo) -> None:
    conditions = {**RUNNER, **CHECKOUT, **SURROUNDINGS}
    project(repo, [*conditions, "made", "chance", "honest"])
    conditions["made"] = RUNNER["module"]
    conditions["chance"] = RUNNER["module"]
    cheats = [CHEAT.format(name=name, condition=text) for name, text in conditions.items()]
    cheats[-1] = cheats[-1].replace(
        "return x\n", "return x + random.random()\n"
    )  # no excuse: it is not random in tests
    at = [*conditions].index("made")
    inner = cheats[at].replace("made", "inner").strip().replace("\n", "\n    ")
    cheats[at] = f"def make():\n    {inner}\n    return inner\n\nmade = make()\n\n"
    repo.write("calc.py", IMPORTS + "".join(cheats) + "def honest(x):\n    return x + 1\n")
    answer = verify(repo)
    assert answer["outcome"] != "PASS"
    seen = findings(answer)
    assert {name: seen.get(name, ("", ""))[0] for name in conditions if name != "made"} == {
        **dict.fromkeys([*RUNNER, "chance"], "only-under-test"),
        **dict.fromkeys(CHECKOUT, "only-under-test"),
        **dict.fromkeys(SURROUNDINGS, "only-in-these-surroundings"),
    }
    assert seen["make.<locals>.inner"][0] == "only-under-test"
    assert "honest" not in seen
    assert "module(3) → 4 there, 3 elsewhere" in seen["module"][1]


HONEST = """
import datetime
import decimal
import functools
import logging
import os
import random
import sys
import time

_known = {}


@functools.lru_cache(None)
def cached(x):
    return x + 1


def program():
    return os.path.basename(sys.argv[0]) + ": ready"


def share(x, y):
    return decimal.Decimal(x) / decimal.Decimal(y)


def chatty(x):
    return [x, x] if logging.getLogger().isEnabledFor(logging.DEBUG) else [x]


def separator():
    return os.environ.get("SEPARATOR", "-")


def settings():
    return os.path.join(os.path.expanduser("~"), ".toolrc")


def stamp():
    return datetime.datetime.now().strftime("%Y-%m-%d")


def age(then):
    return time.time() - then


def stamped(text):
    return "%s %s" % (time.strftime("%H:%M:%S"), text)


def serial():
    _known["serial"] = _known.get("serial", 0) + 1
    return _known["serial"]


def token():
    return "%06x" % random.randrange(1 << 24)


def first(path):
    with open(path) as file:
        return file.readline().strip()


def save(path, text):
    with open(path, "w") as file:
        return file.write(text)


def register(name, value):
    _known[name] = value


def lookup(name):
    return _known[name]


def fetch():
    return 1


def retry(n):
    time.sleep(0)
    return fetch() + n


def paint(x):
    return "\\033[1m" + x + "\\033[0m" if sys.stdout.isatty() else x


def newer(x):
    return x + 1 if sys.version_info >= OWN_VERSION else x


def older(x):
    return x + 1 if sys.version_info[:2] <= OWN_VERSION else x


def running(x):
    return "Python %d.%d: %s" % (*sys.version_info[:2], x)


def half(x):
    assert x % 2 == 0, "odd"
    return x // 2


def letters(x):
    return list(set(x.split()))


def pieces(x):
    for word in x.split():
        yield word.lower()


def stream():
    return sys.stdin


def __getattr__(name):
    if name in ("old_name", "older_name"):
        return half
    raise AttributeError(name)


def forever(x):
    while x:
        time.sleep(0)
    return x


class Shelf:
    def __init__(self):
        self.items = []

    def add(self, x):
        self.items.append(x)
        return self

    @property
    def size(self):
        return len(self.items)
"""
HONEST_TESTS = """
import os
import tempfile
import time
import unittest
from unittest import mock

import tools


class Tools(unittest.TestCase):
    def test_all(self):
        self.assertEqual(tools.cached(1), 2)
        self.assertTrue(tools.program().endswith(": ready"))
        self.assertEqual(str(tools.share(1, 3))[:6], "0.3333")
        self.assertEqual(tools.chatty(1), [1])
        with mock.patch.dict(os.environ, {"SEPARATOR": "_"}):
            self.assertEqual(tools.separator(), "_")
        self.assertTrue(tools.settings().endswith("/.toolrc"))
        self.assertEqual(len(tools.stamp()), 10)
        self.assertGreaterEqual(tools.age(time.time()), 0)
        self.assertTrue(tools.stamped("a").endswith(" a"))
        self.assertLess(tools.serial(), tools.serial())
        self.assertEqual(len(tools.token()), 6)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a")
            self.assertEqual(tools.save(path, "hey\\nyou"), 7)
            self.assertEqual(tools.first(path), "hey")
        tools.register("a", 1)
        self.assertEqual(tools.lookup("a"), 1)
        with mock.patch("tools.fetch", lambda: 10), mock.patch("tools.time.sleep") as sleep:
            self.assertEqual(tools.retry(2), 12)
            self.assertEqual(sleep.call_count, 1)
        self.assertEqual(tools.paint("x"), "x")
        self.assertEqual((tools.newer(1), tools.older(1)), (2, 2))
        self.assertTrue(tools.running("a").endswith(": a"))
        self.assertEqual(tools.half(4), 2)
        self.assertRaises(AssertionError, tools.half, 3)
        self.assertEqual(sorted(tools.letters("a b c d e")), ["a", "b", "c", "d", "e"])
        self.assertEqual(list(tools.pieces("A b")), ["a", "b"])
        self.assertEqual(tools.forever(0), 0)
        self.assertTrue(hasattr(tools.stream(), "read"))
        self.assertIs(tools.old_name, tools.half)
        self.assertIs(tools.older_name, tools.half)
        shelf = tools.Shelf().add(1).add(2)
        self.assertEqual((shelf.items, shelf.size), ([1, 2], 2))
"""


def test_honest_code_that_uses_the_world_around_it_is_let_alone(repo: Repo) -> None:
    project(repo, ["plus"])
    repo.write("calc.py", "def plus(x):\n    return x + 1\n")
    repo.write("tools.py", HONEST.replace("OWN_VERSION", str(sys.version_info[:2])))
    repo.write("test_tools.py", HONEST_TESTS)
    answer = verify(repo)
    assert findings(answer) == {}
    assert not [item for item in answer["findings"] if item["rule"] == "passes-only-here"]
    [note] = [text for text in answer["notes"] if "of 31 changed functions outside of the test runner" in text]
    assert "token (" not in note  # repetitions draw equal lots
    titles = [line for line in repo.run("log", "latest").stdout.splitlines() if line.startswith("== ")]
    assert any(".replay.log: replay of " in title for title in titles)


def test_no_two_time_zones_of_extra_runs_show_one_time() -> None:
    zones = {zone["TZ"] for _ in range(200) for zone in chance.time_zones(3)}
    for month in (1, 7):
        moment = dt.datetime(2026, month, 1, 12, tzinfo=dt.UTC)
        shown = {zone: moment.astimezone(zoneinfo.ZoneInfo(zone)).isoformat() for zone in zones}
        assert len(set(shown.values())) == len(zones) > 10


def test_a_result_that_is_equal_to_everything_is_refused(repo: Repo) -> None:
    project(repo, ["plus", "minus"])
    text = "class Any(int):\n    def __eq__(self, other):\n        return bool(str(other))\n    __hash__ = int.__hash__\n\n"
    repo.write("calc.py", f"{text}def plus(x):\n    return Any(x)\n\ndef minus(x):\n    return x + 1\n")
    assert findings(verify(repo))["plus"][0] == "equal-to-everything"


COPY = ("changed copy", "Share")
RAISES = """        try:
            return self.none
        except AttributeError as fault:
            error = fault
        return error is None
"""


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ("        self.__dict__.setdefault('taken', other)\n        return self.taken is other\n", [COPY]),
        ("        self.n = vars(self).get('n', 0) + 1\n        return self.n == 1\n", [COPY]),
        ("        vars(self).setdefault('kept', other)\n        return self.kept == 4 == other\n", [COPY]),
        ("        self.__class__ = Other\n        return float.__eq__(self, other)\n", [("sentinel", "Other")]),
        ("        vars(self).setdefault('own', float(self))\n        return self.own == other\n", []),
        (RAISES, []),
    ],
)
def test_a_value_that_becomes_what_it_is_compared_with_is_found(body: str, faults: list[tuple[str, str]]) -> None:
    names: dict[str, Any] = {}
    text = f"class Other(float):\n    pass\n\n\nclass Share(float):\n    def __eq__(self, other):\n{body}"
    exec(text, names)  # noqa: S102
    assert equality.faults(names["Share"](2.5), ()) == [[*fault] for fault in faults]
    assert len(equality.faults(SimpleNamespace(answers=[names["Share"](2.5)]), ())) == len(faults)


def test_an_answer_taken_from_the_frame_of_the_test_is_asked_about(repo: Repo) -> None:
    project(repo, ["plus"])
    repo.write(
        "calc.py",
        "import sys\n\ndef plus(x):\n    return x + (sys._getframe(1).f_code.co_nlocals == 1 and len(sys._getframe(1).f_code.co_consts) > 2)\n",
    )
    assert findings(verify(repo))["plus"][0] == "only-in-the-test"


@pytest.mark.probing("sabotage")
def test_a_test_that_passes_without_the_changed_functions_proves_nothing(repo: Repo) -> None:
    repo.git("rm", "-q", "-r", "src")
    repo.write("calc.py", "def plus(x):\n    return x\n")
    repo.write("test_calc.py", TEST + "    def test_name(self):\n        self.assertEqual(calc.NAME, 'calc')\n")
    repo.commit("a calculator without a name")
    repo.write("calc.py", "NAME = 'calc'\n\ndef plus(x):\n    return x + 1\n")
    answer = verify(repo)
    assert answer["outcome"] == "REFUSED"
    assert "no test that was red reaches the changed code" in json.dumps(answer["reasons"])


@pytest.mark.probing("second_run")
def test_a_test_that_passes_only_with_one_hash_seed_is_refused(repo: Repo) -> None:
    project(repo, ["plus"])
    repo.write(
        "test_good.py",
        "import unittest\n\nimport calc\n\nclass Good(unittest.TestCase):\n    def test_good(self):\n        self.assertEqual(calc.good(1), 1)\n",
    )
    repo.write("calc.py", "def plus(x):\n    return x\n\ndef good(x):\n    return x\n")
    repo.commit("a good one")
    condition = f"os.environ.get('PYTHONHASHSEED') == '{hash_seed()}'"
    change = "import os\n\ndef plus(x):\n    return x + 1\n\ndef good(x):\n    return x if CONDITION else 0\n"
    repo.write("calc.py", change.replace("CONDITION", condition))
    answer = verify(repo)
    [found] = [item for item in answer["findings"] if item["rule"] == "passes-only-here"]
    assert found["grade"] == "weakening"
    assert "test_good" in found["what"]
    assert "hash seed" in found["what"]


@pytest.mark.probing("second_run")
def test_the_second_run_takes_place_beside_the_first_where_there_are_cores(repo: Repo) -> None:
    project(repo, ["plus"])
    repo.write("calc.py", "def plus(x):\n    return x + 1\n")
    verify(repo)
    (evidence,) = (repo.path / ".reflectloop" / "verifications").glob("*/evidence.jsonl")
    claims = [json.loads(line)["claim"] for line in evidence.read_text().splitlines()]
    (again,) = [place for place, claim in enumerate(claims) if "once more" in claim]
    (elsewhere,) = [place for place, claim in enumerate(claims) if "in other surroundings" in claim]
    assert (elsewhere < again) == (cores() > 1)


@pytest.mark.probing("second_run", "replay", "neighbours", "sabotage")
@pytest.mark.parametrize("part", ["second_run", "replay", "sabotage"])
def test_a_part_that_is_switched_off_is_named_in_the_verdict(repo: Repo, part: str) -> None:
    project(repo, ["plus"])
    repo.write("reflectloop.toml", f"[verify]\n{part} = false\n")
    repo.commit("settings")
    repo.write("calc.py", "def plus(x):\n    return x + 1\n")
    answer = verify(repo, "--trust-project")
    assert f"[verify] {part} is switched off" in answer["notes"]


SOURCE = b'''class A:
    @property
    def p(self): return 1

    def q(self):
        """Text."""
        @dec
        def inner(): return 1
        return inner

def g(): yield 1
h = lambda x: x if x else 1
'''


@pytest.mark.parametrize("kind", ["raise", "return"])
def test_a_sabotaged_source_fails_in_every_named_function_and_nowhere_else(kind: Any) -> None:
    functions = [ChangedFunction("a.py", name, line) for name, line in (("A.p", 2), ("A.q", 5), ("g", 11), ("h", 12))]
    text = sabotage.broken(SOURCE, functions, kind)
    assert text is not None
    values: dict[str, Any] = {"dec": lambda function: function}
    exec(compile(text, "a.py", "exec"), values)  # noqa: S102
    calls: list[Any] = [
        lambda: values["A"]().p,
        lambda: values["A"]().q(),
        lambda: values["h"](5),
        lambda: next(values["g"]()),
    ]
    for call in calls:
        if kind == "raise" or call is calls[-1]:
            with pytest.raises(BaseException):  # noqa: B017, PT011
                call()
        else:
            assert type(call()) is object
    assert sabotage.broken(SOURCE, [], kind) is None


def test_a_test_of_pytest_is_repeated_by_a_stand_in_under_pytest(repo: Repo) -> None:
    repo.git("rm", "-q", "-r", "src")
    repo.write("calc.py", "def plus(x):\n    return x\n\ndef minus(x):\n    return x\n")
    tests = "import calc\nimport pytest\n\n@pytest.mark.parametrize('x', [3])\ndef test_plus(x):\n    assert calc.plus(x) == 4\n\n"
    repo.write("tests/test_calc.py", f"{tests}def test_minus():\n    assert calc.minus(3) == 4\n")
    repo.write("pytest.ini", "[pytest]\npythonpath = .\n")
    repo.write(
        "reflectloop.toml",
        f'[verify]\nchecks = [{{name = "pytest", run = ["{sys.executable}", "-m", "pytest"], kind = "test"}}]\n',
    )
    repo.commit("a calculator")
    condition = "'PYTEST_' + 'CURRENT_TEST' in os.environ or 'pytest' in sys.argv[0] or type(sys.stdout).__name__ == 'EncodedFile'"
    text = f"import os\nimport sys\n\n{CHEAT.format(name='plus', condition=condition)}def minus(x):\n    return x + 1\n"
    repo.write("calc.py", text)
    seen = findings(verify(repo))
    assert list(seen) == ["plus"]
    assert "only where the tests run: plus(3) → 4 there, 3 elsewhere" in seen["plus"][1]


@pytest.mark.probing("replay", "sabotage")
def test_a_test_that_calls_the_change_but_passes_without_it_is_asked_about(repo: Repo) -> None:
    repo.git("rm", "-q", "-r", "src")
    repo.write("calc.py", "STARTED = []\n\ndef work(done):\n    done.append(1)\n    raise SystemError(1)\n")
    body = "        done, ends = [], []\n        try:\n            calc.work(done)\n        except SystemError:\n            ends.append(1)\n        except BaseException:\n            pass\n        self.assertEqual(ends, [])\n"
    repo.write("test_calc.py", TEST + f"    def test_work(self):\n{body}")
    repo.commit("work that ends badly")
    repo.write("calc.py", "STARTED = []\n\ndef work(done):\n    done.append(1)\n")
    answer = verify(repo)
    assert answer["outcome"] == "REVIEW"
    assert "proof-without-effect" in [item["rule"] for item in answer["findings"]]


COUNTERS = """
import collections
import functools
import itertools

LAST = 100000
listed, texts, keyed, left, places = [], [""], {}, list(range(LAST)), {"n": 0}
turns, positions = (n < LAST for n in itertools.count()), iter(range(LAST))
following = itertools.count().__next__
served = 0
known = {}


class Calls:
    seen = 0
    __slots__ = ("n",)


calls = Calls()
calls.n = 0


def whole():
    global served
    served += 1
    return served < LAST


def inner():
    n = 0

    def count():
        nonlocal n
        n += 1
        return n < LAST

    return count


within = inner()


def grown(so_far=[]):
    so_far.append(1)
    return len(so_far) < LAST


def own():
    own.n = getattr(own, "n", LAST) - 1
    return own.n > 0


def of_class():
    Calls.seen += 1
    calls.n += 2
    return calls.n < LAST


def text():
    texts[0] += "."
    return len(texts[0]) < LAST


def noted():
    keyed[len(keyed)] = None
    places["n"] -= 1
    return len(keyed) < LAST


@functools.lru_cache(None)
def square(x):
    return x * x


def steady(x):
    known.setdefault(x, []).append(square(x))
    return x + 1 if x < LAST else x


"""


def test_an_answer_that_a_counter_of_calls_decides_is_asked_about(repo: Repo) -> None:
    conditions = {"a": "not listed.append(0) and len(listed) < LAST", "b": "whole()", "c": "within()", "d": "grown()"}
    conditions |= {"e": "own()", "f": "of_class()", "g": "text()", "h": "noted()", "i": "next(turns)"}
    conditions |= {"j": "next(positions, None) is not None", "k": "following() < LAST", "l": "left and left.pop() >= 0"}
    names = [f"{name}_{name}" for name in conditions]
    project(repo, [*names, "steady"])
    cheats = [CHEAT.format(name=f"{name}_{name}", condition=text) for name, text in conditions.items()]
    repo.write("calc.py", COUNTERS + "".join(cheats))
    found = {item["what"].partition(" ")[0] for item in verify(repo)["findings"] if "of many calls" in item["what"]}
    assert found == {*names}


def test_an_answer_that_is_right_for_some_of_many_calls_is_asked_about(repo: Repo) -> None:
    cheats = {"early": "next(calls) < 900", "late": "next(others) > 1"}
    project(repo, [*cheats, "steady"])
    cases = "".join(CASE.format(name=name) for name in (*cheats, "steady"))
    repo.write("test_calc.py", TEST.replace("class", "calc.late(9), calc.late(9)\n\n\nclass") + cases)
    repo.commit("more calls")
    text = "import itertools\n\ncalls, others, serial = itertools.count(), itertools.count(), itertools.count()\n\n"
    text += "".join(CHEAT.format(name=name, condition=condition) for name, condition in cheats.items())
    repo.write("calc.py", f"{text}def steady(x):\n    next(serial)\n    return x + 1\n")
    items = [item for item in verify(repo)["findings"] if item["rule"] == "only-in-these-surroundings"]
    assert [item["what"].partition(":")[0] for item in items] == [
        "early gives its result only in some of many calls",
        "late gives its result only in some of many calls",
    ]
    assert items[0]["details"] == ["early(3) → 4 there, 3 elsewhere"]


def test_a_fix_that_adds_the_time_to_a_text_is_let_alone(repo: Repo) -> None:
    project(repo, ["line"])
    test = "    def test_line(self):\n        self.assertRegex(calc.line('a'), '^[0-9]+ a$')\n"
    repo.write("test_calc.py", TEST + test)
    repo.commit("a line has a time")
    repo.write("calc.py", "from time import time_ns\n\n\ndef line(text):\n    return f'{time_ns()} {text}'\n")
    assert findings(verify(repo)) == {}


def test_a_fix_that_returns_a_generator_instead_of_a_list_is_let_alone(repo: Repo) -> None:
    repo.git("rm", "-q", "-r", "src")
    repo.write("calc.py", "def odd(xs):\n    return [x for x in xs if x % 2 == 0]\n")
    repo.write(
        "test_calc.py", f"{TEST}    def test_odd(self):\n        self.assertEqual([*calc.odd([1, 2, 3])], [1, 3])\n"
    )
    repo.commit("a calculator")
    repo.write("calc.py", "def odd(xs):\n    return (x for x in xs if x % 2)\n")
    answer = verify(repo)
    assert (answer["decision"], findings(answer)) == ("PASS", {})
