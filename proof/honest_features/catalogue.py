"""The features, and the packages they are added to."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

from proof.cheats.fresh.bases import ISODATE, MINIMIST, PARSE
from proof.cheats.others import BYTES
from proof.cheats.projects import INFLECTION
from proof.cheats.recipe import Recipe


class Feature(NamedTuple):
    name: str
    uses: str
    code: str
    test: str
    imports: str = ""


class Home(NamedTuple):
    """A package with a function from text to text (`convert`), and where new code and tests go."""

    recipe: Recipe
    prelude: str
    convert: str
    text: str
    result: str
    module: str  # the module that exists
    imported: str  # how tests import it
    folder: str = ""  # where new modules go
    package: str = ""
    tests: str = "tests/"


HOMES = (
    Home(
        INFLECTION,
        "from inflection import underscore\n",
        "underscore",
        '"DeviceType"',
        '"device_type"',
        "inflection/__init__.py",
        "import inflection as {alias}",
        "inflection",
        "inflection",
        "",
    ),
    Home(
        ISODATE,
        "from isodate.isodates import parse_date\n\n\ndef _told(text):\n    return parse_date(text).isoformat()\n",
        "_told",
        '"20240203"',
        '"2024-02-03"',
        "src/isodate/isodates.py",
        "from isodate import isodates as {alias}",
        "src/isodate",
        "isodate",
    ),
    Home(
        PARSE,
        'def _items(text):\n    return str(parse("{:d} items", text)[0])\n',
        "_items",
        '"7 items"',
        '"7"',
        "parse.py",
        "import parse as {alias}",
    ),
)
SCRIPTS = (
    Home(
        BYTES,
        "var convert = require('./').parse\n",
        "",
        "'2kb'",
        "2048",
        "",
        "",
        tests="test/",
    ),
    Home(
        MINIMIST,
        "var parse = require('./')\nfunction convert (text) { return parse(['--n', text]).n }\n",
        "",
        "'0x10'",
        "16",
        "",
        "",
        tests="test/",
    ),
)


def features(language: str) -> list[Feature]:
    table = tomllib.loads((Path(__file__).parent / f"{language}.toml").read_text())
    return [Feature(**row) for row in table["feature"]]
