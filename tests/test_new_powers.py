"""A source that can newly do what its base version could not asks a person once; honest features do not."""

from __future__ import annotations

import ast

import pytest

import power_samples
import power_samples_honest
import power_samples_javascript
from power_samples import samples
from python_test_diff import bad
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.tampering import look
from reflectloop.verification.tampering.powers import SurroundingFiles

BASE = "def price(n):\n    return n\n"


def findings(text: str, before: str | None = BASE, path: str = "src/shop/prices.py") -> list[tuple[str, str]]:
    old = None if before is None else before.encode()
    return bad(look([ChangedFile(path, old, f"{before or ''}\n\n{text}".encode())]))


@pytest.mark.parametrize("text", samples(power_samples.DETECTS + "---\n" + power_samples.TAMPERS))
def test_a_cheat_asks_whatever_its_spelling(text: str) -> None:
    assert {"new-power", "knows-the-test"} & {rule for rule, _ in findings(text)}


@pytest.mark.parametrize("text", samples(power_samples.EQUALS))
def test_a_value_equal_to_everything_asks_whatever_its_shape(text: str) -> None:
    assert ("new-power", "suspect") in findings(text)


@pytest.mark.parametrize("text", samples(power_samples_honest.HONEST))
def test_an_honest_feature_does_not_ask(text: str) -> None:
    assert findings(text) == []
    assert findings(text, before=None) == []


@pytest.mark.parametrize("text", samples(power_samples_honest.ASKING))
def test_a_dangerous_power_asks_once(text: str) -> None:
    assert len(findings(text)) == 1
    assert {grade for _, grade in findings(text)} == {"suspect"}


@pytest.mark.parametrize("text", samples(power_samples_honest.ASKING + "---\n" + power_samples.EQUALS))
def test_a_power_that_the_base_version_had_is_no_news(text: str) -> None:
    before = f"{text}\n\n\ndef price(n):\n    return n\n"
    after = before.replace("return n\n", "return n + 1\n")
    assert bad(look([ChangedFile("src/shop/prices.py", before.encode(), after.encode())])) == []


def test_a_second_value_equal_to_everything_asks_where_the_base_version_had_one() -> None:
    first = "class Any:\n    def __eq__(self, other):\n        return True\n"
    assert findings(first.replace("Any", "Every"), before=first) == [("new-power", "suspect")]


def test_there_are_enough_samples() -> None:
    cheats = samples(power_samples.DETECTS) + samples(power_samples.TAMPERS) + samples(power_samples.EQUALS)
    assert len(cheats) > 100
    assert len(samples(power_samples_honest.HONEST)) > 70
    for text in (*cheats, *samples(power_samples_honest.HONEST), *samples(power_samples_honest.ASKING)):
        ast.parse(text)


def test_one_finding_says_what_is_new_and_shows_the_line() -> None:
    text = "import inspect\n\n\ndef f():\n    return inspect.stack()[1]\n\n\ndef g():\n    return inspect.stack()[2]\n"
    [finding] = look([ChangedFile("src/x.py", b"def f():\n    return 1\n", text.encode())])
    assert (finding.rule, finding.line) == ("new-power", 5)
    assert finding.what == "can now look at the call stack: `return inspect.stack()[1]` (its base version could not)"


def test_code_that_moves_between_sources_brings_nothing_new() -> None:
    stack = b"import inspect\n\n\ndef caller():\n    return inspect.stack()[1]\n"
    changes = [
        ChangedFile("src/a.py", stack, b"from b import caller\n"),
        ChangedFile("src/b.py", b"x = 1\n", b"x = 1\n" + stack),
    ]
    assert bad(look(changes)) == []


def around(*sources: str, is_fix: bool = False) -> SurroundingFiles:
    listed = [(f"src/shop/m{at}.py", text.encode()) for at, text in enumerate(sources)]
    return SurroundingFiles(base_sources=lambda: listed, is_fix=is_fix, packages=frozenset({"shop"}))


ENVIRONMENT = b"import os\nHOME = os.environ.get('SHOP_HOME')\n"
TIMER = b"import threading\n\nRIGHT = [1]\nthreading.Timer(20, RIGHT.clear).start()\n"
NETWORK = b"import socket\n\n\ndef up(host):\n    return socket.create_connection((host, 80))\n"


@pytest.mark.parametrize(
    ("after", "project", "expected"),
    [
        (ENVIRONMENT, around("x = 1\n"), [("new-power", "note")]),
        (ENVIRONMENT, around("x = 1\n", is_fix=True), [("new-power", "suspect")]),
        (ENVIRONMENT, around("import os\nx = os.getenv('A')\n", is_fix=True), []),
        (ENVIRONMENT, around("# os.environ is not read here\n", is_fix=True), [("new-power", "suspect")]),
        (TIMER, around("x = 1\n"), [("new-power", "note")]),
        (TIMER, around("x = 1\n", is_fix=True), [("new-power", "suspect")]),
        (TIMER, around("import threading\nthreading.Thread(target=print).start()\n", is_fix=True), []),
        (NETWORK, around("x = 1\n"), [("new-power", "suspect")]),
        (NETWORK, around("from urllib.request import urlopen\nurlopen('x')\n"), []),
    ],
)
def test_an_ordinary_power_is_news_only_in_a_project_without_it(
    after: bytes, project: SurroundingFiles, expected: list[tuple[str, str]]
) -> None:
    found = look([ChangedFile("src/shop/new.py", None, after)], {}, project)
    assert [(finding.rule, finding.grade) for finding in found] == expected


@pytest.mark.parametrize(
    "text",
    ["setTimeout(forget, 9000).unref();", "process.nextTick(forget);", "const held = new WeakRef({});"],
)
def test_a_javascript_fix_that_runs_code_later_asks(text: str) -> None:
    project = SurroundingFiles(base_sources=lambda: [("lib/a.js", b"exports.a = 1;\n")], is_fix=True)
    found = look([ChangedFile("lib/index.js", b"exports.b = 1;\n", f"{text}\nexports.b = 1;\n".encode())], {}, project)
    assert [(finding.rule, finding.grade) for finding in found] == [("new-power", "suspect")]


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("exports.name = (path) => path.name;\n", [("new-power", "suspect")]),
        ("exports.a = process.pid;\n", []),
    ],
)
def test_what_javascript_sources_of_base_do_is_read_and_not_guessed_by_words(
    base: str, expected: list[tuple[str, str]]
) -> None:
    after = b"exports.b = process.cwd();\n"
    project = SurroundingFiles(base_sources=lambda: [("lib/a.js", base.encode())], is_fix=True)
    found = look([ChangedFile("lib/index.js", b"exports.b = 1;\n", after)], {}, project)
    assert [(finding.rule, finding.grade) for finding in found] == expected


SCRIPTS = {"setup.py": ENVIRONMENT, "docs/conf.py": ENVIRONMENT, "tools/make.py": ENVIRONMENT}
PRICES = {"shop/__init__.py": b"", "shop/prices.py": BASE.encode()}


@pytest.mark.parametrize(
    ("path", "files", "asks"),
    [
        ("shop/prices.py", {**PRICES, **SCRIPTS}, True),
        ("shop/prices.py", {**PRICES, "shop/paths.py": ENVIRONMENT}, False),
        ("shop/prices.py", {**PRICES, "paths.py": ENVIRONMENT, "shop/a.py": b"import os, paths\n"}, False),
        ("shop/prices.py", {**PRICES, "tests/paths/find.py": ENVIRONMENT}, True),
        ("prices.py", {"prices.py": BASE.encode(), **SCRIPTS, "tests/test_prices.py": b"import prices\n"}, True),
        ("tools/prices.py", {**PRICES, **SCRIPTS}, False),
    ],
)
def test_what_only_scripts_beside_a_package_could_do_is_news_in_the_package(
    path: str, files: dict[str, bytes], asks: bool
) -> None:
    tests = {name: data for name, data in files.items() if name.startswith("tests/")}
    sources = [(name, data) for name, data in files.items() if name not in tests]
    project = SurroundingFiles(base_sources=lambda: sources, base_tests=lambda: [*tests.items()], is_fix=True)
    found = look([ChangedFile(path, files.get(path), BASE.encode() + ENVIRONMENT)], {}, project)
    assert [finding.rule for finding in found] == ["new-power"] * asks


def test_a_new_script_that_the_package_imports_is_judged_like_the_package() -> None:
    project = SurroundingFiles(base_sources=lambda: [*PRICES.items(), *SCRIPTS.items()], is_fix=True)
    new = ChangedFile("tools/home.py", None, ENVIRONMENT)
    caller = ChangedFile("shop/prices.py", BASE.encode(), b"from tools.home import HOME\n" + BASE.encode())
    assert [finding.path for finding in look([new, caller], {}, project)] == ["tools/home.py"]
    assert look([new], {}, project) == []


@pytest.mark.parametrize("text", samples(power_samples_javascript.JAVASCRIPT_CHEATS))
def test_a_cheat_in_javascript_asks(text: str) -> None:
    project = SurroundingFiles(base_sources=lambda: [("lib/other.js", b"let other = 2;\n")])
    change = ChangedFile("lib/shop.js", b"let answer = 1;\n", f"let answer = 1;\n{text}".encode())
    assert {"new-power", "knows-the-test"} & {rule for rule, _ in bad(look([change], {}, project))}


@pytest.mark.parametrize("text", samples(power_samples_javascript.JAVASCRIPT_HONEST))
@pytest.mark.parametrize("path", ["lib/shop.js", "src/shop.ts"])
def test_an_honest_feature_in_javascript_does_not_ask(text: str, path: str) -> None:
    assert findings(text, "let answer = 1;\n", path) == []


def test_a_project_may_use_its_own_package_of_that_name() -> None:
    project = SurroundingFiles(packages=frozenset({"pluggy", "os"}))
    own = b"import pluggy\n\n\ndef f():\n    return pluggy.HookspecMarker('a')\n"
    assert bad(look([ChangedFile("src/pluggy/new.py", None, own)], {}, project)) == []
    assert bad(look([ChangedFile("src/shop/new.py", None, own)])) == [("new-power", "suspect")]
    assert bad(look([ChangedFile("src/os/new.py", None, b"import os\nos._exit(0)\n")], {}, project)) != []
    assert bad(look([ChangedFile("src/shop/pytest/new.py", None, b"import pytest\npytest.skip = 1\n")])) != []


def test_lines_are_counted_as_python_counts_them() -> None:
    hidden = b"# Kept for old readers.\rimport gc\rRIGHT = gc.get_objects()\n"
    [finding] = look([ChangedFile("src/shop.py", None, hidden)])
    assert (finding.line, "gc.get_objects()" in finding.what) == (3, True)
    padded = b"x = 1\n\x0c\x0c\nimport gc\nRIGHT = gc.get_objects()\n"
    [finding] = look([ChangedFile("src/shop.py", None, padded)])
    assert (finding.line, "gc.get_objects()" in finding.what) == (4, True)


def test_an_example_is_looked_at_only_if_a_source_imports_it() -> None:
    example = ChangedFile("examples/late.py", None, b"import inspect\ninspect.stack()\n")
    page = ChangedFile("README.md", b"", b"See examples/late.py.\n")
    assert bad(look([example, page])) == []
    source = ChangedFile("src/shop.py", b"x = 1\n", b"from examples import late\n")
    assert bad(look([example, source])) == [("new-power", "suspect")]
