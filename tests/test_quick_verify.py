"""A quick verification runs the tests that depend on the change, and its answer is provisional."""

from __future__ import annotations

import pytest

from reflectloop.verification.quick import ChosenTests, choose_tests
from support import Repo, reflectloop

FILES = {
    "src/shop/__init__.py": "",
    "src/shop/prices.py": "def total(items):\n    return sum(items)\n",
    "src/shop/orders.py": "from . import prices\n\n\ndef order(items):\n    return prices.total(items)\n",
    "src/shop/names.py": "def upper(name):\n    return name.upper()\n",
    "src/shop/unused.py": "VALUE = 1\n",
    "tests/conftest.py": "import shop.names\n",
    "tests/test_prices.py": "from shop.prices import (\n    total,\n)\n",
    "tests/test_orders.py": "import shop.orders as orders\n",
    "tests/deep/test_other.py": "def test_it():\n    import json\n",
}


def _chosen(*changed: str, **more: str) -> ChosenTests:
    files = {name: text.encode() for name, text in {**FILES, **more}.items()}
    return choose_tests(changed, files, lambda paths: {path: files[path] for path in paths})


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("src/shop/orders.py", ("tests/test_orders.py",)),
        ("src/shop/prices.py", ("tests/test_orders.py", "tests/test_prices.py")),
        ("tests/test_prices.py", ("tests/test_prices.py",)),
        # A package runs before its modules, and a conftest.py before the tests below it.
        ("src/shop/__init__.py", ("tests/deep/test_other.py", "tests/test_orders.py", "tests/test_prices.py")),
        ("src/shop/names.py", ("tests/deep/test_other.py", "tests/test_orders.py", "tests/test_prices.py")),
    ],
)
def test_tests_are_chosen_that_import_what_changed_also_through_others(changed: str, expected: tuple[str, ...]) -> None:
    assert _chosen(changed) == ChosenTests(expected)


def test_prose_beside_a_source_does_not_matter() -> None:
    assert _chosen("README.md", "src/shop/orders.py") == ChosenTests(("tests/test_orders.py",))


@pytest.mark.parametrize(
    ("changed", "more", "why"),
    [
        ("data.json", {}, "data.json is no Python file"),
        ("src/shop/unused.py", {}, "no test imports src/shop/unused.py"),
        ("src/shop/orders.py", {"src/shop/old.py": "print 1\n"}, "src/shop/old.py cannot be read as Python"),
    ],
)
def test_tests_are_not_chosen_where_it_is_not_known_which_depend_on_the_change(
    changed: str, more: dict[str, str], why: str
) -> None:
    assert _chosen(changed, **more) == ChosenTests(unknown=why)


@pytest.mark.usefixtures("without_probing")
def test_a_quick_answer_is_provisional_or_a_refusal_and_never_pass(repo: Repo) -> None:
    repo.write("pyproject.toml", '[tool.pytest.ini_options]\npythonpath = ["."]\n')
    for name in ("one", "two"):
        repo.write(f"{name}.py", "def value():\n    return 1\n")
        repo.write(f"tests/test_{name}.py", f"import {name}\n\n\ndef test_it():\n    assert {name}.value() == 1\n")
    repo.commit("two modules")
    repo.write("one.py", "def value():\n    return 2 - 1\n")

    answer = reflectloop(repo.path, "verify", "--quick", "--json")
    assert (answer.code, answer.envelope["error_code"]) == (53, "NOT_JUDGED")
    assert answer.envelope["evidence_level"] == answer.json["data"]["level"] == "L2"
    assert answer.json["data"]["provisional"] == {"files": ["tests/test_one.py"], "unknown": ""}
    assert [check["sealed"]["counts"]["passed"] for check in answer.json["data"]["checks"]] == [1]
    assert answer.envelope["next"] == "reflectloop verify"

    repo.write("one.py", "def value():\n    return 3\n")
    refused = reflectloop(repo.path, "verify", "--quick", "--json")
    assert (refused.code, refused.json["data"]["outcome"]) == (32, "REFUSED")
    assert "tests/test_one.py::test_it" in refused.json["data"]["comparison"]["newly_failing"]
    assert refused.json["data"]["provisional"]
