"""The packages whose own tests are run: where each is from, how it is installed and how its suite is started."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from proof.outcome import Reader, of_node, of_pytest, of_unittest

PYTEST = ".venv/bin/pytest -q --tb=short -rfE -p no:cacheprovider"


class Package(NamedTuple):
    """A package, its kind, and the command that runs its suite at the top of its source."""

    name: str
    version: str
    kind: str
    runner: str
    suite: str
    read: Reader = of_pytest
    needs: tuple[str, ...] = ("pytest",)
    install: tuple[str, ...] = ("-e", ".")
    carry: tuple[str, ...] = (".venv",)
    files: tuple[tuple[str, str], ...] = ()  # of ours, laid into the project; {project} is its path

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


# Two count the ticks of a clock and fail anywhere under load; one adds a user to the machine when root runs it.
_SH_LEFT_OUT = " ".join(
    f"--deselect tests/sh_test.py::FunctionalTests::test_{name}"
    for name in ("general_signal", "done_callback_no_deadlock", "uid_drops_supplementary_groups")
)

PYTHON = (
    Package(
        "attrs",
        "26.1.0",
        "pure Python, src layout, editable by a path file",
        "pytest",
        PYTEST,
        needs=("pytest", "hypothesis", "cloudpickle", "pympler"),
    ),
    Package("click", "8.5.1", "pure Python, pagers and editors as child processes", "pytest", PYTEST),
    Package(
        "more-itertools",
        "11.2.1",
        "pure Python",
        "unittest",
        ".venv/bin/python -m unittest -q",
        of_unittest,
        needs=(),
    ),
    Package(
        "sh",
        "2.4.0",
        "child processes, pipes, signals, terminals",
        "pytest",
        f"{PYTEST} tests {_SH_LEFT_OUT}",
    ),
    Package(
        "pexpect",
        "4.9.0",
        "pseudo-terminals",
        "pytest",
        f"{PYTEST} tests/test_{{{{run,isalive,misc,unicode}}}}.py",
        needs=("pytest", "ptyprocess"),
    ),
    Package("pebble", "5.2.3", "multiprocessing: fork, spawn and forkserver pools", "pytest", f"{PYTEST} test"),
    Package(
        "joblib",
        "1.6.0",
        "worker processes, shared memory, memory-mapped files",
        "pytest",
        f"{PYTEST} joblib/test/test_{{{{memmapping,memory,hashing,disk}}}}.py",
        needs=("pytest", "numpy", "psutil"),
    ),
    Package(
        "waitress",
        "3.0.2",
        "an HTTP server on loopback and unix sockets",
        "pytest",
        f"{PYTEST} tests",
        needs=("pytest", "pytest-cov"),
    ),
    Package(
        "tornado",
        "6.6.1",
        "asynchronous HTTP client and server, C extension built in the step",
        "unittest",
        ".venv/bin/python setup.py -q build_ext --inplace && .venv/bin/python -m tornado.test",
        of_unittest,
        needs=("setuptools",),
        install=(),
    ),
    Package(
        "markupsafe",
        "3.0.4",
        "C extension built in the step",
        "pytest",
        f".venv/bin/python setup.py -q build_ext --inplace && {PYTEST}",
        needs=("pytest", "setuptools>=77"),
    ),
    Package("h11", "0.16.0", "editable by an import hook", "pytest", f"{PYTEST} --pyargs h11"),
    Package(
        "cachetools",
        "8.0.0",
        "src layout, editable by a folder of links (strict)",
        "pytest",
        f"{PYTEST} tests",
        install=("--config-settings", "editable_mode=strict", "-e", "."),
        carry=(".venv", "build"),
    ),
    Package("parso", "0.8.7", "writes a cache under HOME", "pytest", PYTEST),
    Package(
        "blinker",
        "1.9.0",
        "absolute paths of the project in its configuration",
        "pytest",
        PYTEST + " -c {project}/absolute.ini",
        needs=("pytest", "pytest-asyncio"),
        install=(),
        files=(
            (
                "absolute.ini",
                (
                    "[pytest]\nasyncio_mode = auto\npythonpath = {project}/src\ntestpaths = {project}/tests\n"
                    "cache_dir = {project}/.cache\naddopts = --rootdir={project} --confcutdir={project}\n"
                ),
            ),
        ),
    ),
)

FASTIFY = Package(
    "fastify",
    "5.12.8",
    "node, `node_modules`, HTTP server on loopback",
    "node:test",
    "node --test --test-reporter=tap test/{{hooks,inject,listen,plugin,reply,route,schema}}*.test.js",
    of_node,
    carry=("node_modules",),
)
# Of the packages that its own package.json names for development, those that the tests above load.
FASTIFY_NEEDS = [
    "ajv",
    "ajv-errors",
    "ajv-formats",
    "ajv-i18n",
    "ajv-merge-patch",
    "fast-json-body",
    "fastify-plugin",
    "fluent-json-schema",
    "h2url",
    "http-errors",
    "joi",
    "JSONStream",
    "node-forge",
    "proxyquire",
    "split2",
    "typebox",
    "undici",
    "vary",
    "yup",
]

QS = Package(
    "qs",
    "6.17.1",
    "node workspace: qs, side-channel and object-inspect linked into `node_modules`",
    "tape",
    "node_modules/.bin/tape 'packages/*/test/*.js'",
    of_node,
    carry=("node_modules",),
)
QS_MEMBERS = ("qs@6.17.1", "side-channel@1.1.1", "object-inspect@1.13.4")
QS_NEEDS = [
    "error-cause",
    "es-value-fixtures",
    "for-each",
    "functions-have-names",
    "globalthis",
    "has-bigints",
    "has-override-mistake",
    "has-property-descriptors",
    "has-proto",
    "has-symbols",
    "has-tostringtag",
    "iconv-lite",
    "make-arrow-function",
    "mock-property",
    "safer-buffer",
    "semver",
    "string.prototype.repeat",
    "tape",
]


class Story(NamedTuple):
    """A change to one file of a package, and a test that can only pass where the change is what is loaded."""

    package: str
    how: str  # it is linked to its source
    source: str  # the folder that holds the file, watched in the original
    file: str
    change: str  # added at the file's end
    test_file: str
    test: str
    start: str

    def probe(self, project: Path) -> str:
        """Runs the test from a folder that is not the project, so that only the links lead to the source."""
        test = shlex.quote(self.test.format(project=project))
        return f"cd $TMPDIR && printf %s {test} > {self.test_file} && {self.start.format(project=project)}"

    @property
    def edit(self) -> str:
        return f"printf '\\n%s\\n' {shlex.quote(self.change)} >> {self.file}"


def _python_story(package: str, how: str, source: str, name: str) -> Story:
    module = source.rpartition("/")[2]
    return Story(
        package,
        how,
        source,
        f"{source}/__init__.py",
        f"def {name}(*_): return 'changed'",
        "test_seen.py",
        f"import {module}\ndef test_change(): assert {module}.{name}(1) == 'changed'\n",
        "{project}/.venv/bin/python -m pytest -q -p no:cacheprovider test_seen.py",
    )


STORIES = (
    _python_story("attrs", "a path file", "src/attr", "asdict"),
    _python_story("h11", "an import hook", "h11", "Connection"),
    _python_story("cachetools", "a folder of links", "src/cachetools", "LRUCache"),
    Story(
        "qs",
        "workspace links in `node_modules`",
        "packages/qs/lib",
        "packages/qs/lib/index.js",
        "module.exports.stringify = function () { return 'changed'; };",
        "seen.test.js",
        "const qs = require('{project}/node_modules/qs');\n"
        "require('node:test')('change', () => require('node:assert').strictEqual(qs.stringify({{}}), 'changed'));\n",
        "node --test seen.test.js",
    ),
)
