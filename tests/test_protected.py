"""What judges work is known by its path, and of mixed files only the part that steers checks counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflectloop.verification.protected import dependencies, guard, is_test, names, paths
from reflectloop.verification.protected.changes import built_by_lists, restored, serves_tests
from reflectloop.verification.protected.inline_tests import with_tests_of
from reflectloop.verification.protected.tool_names import of_tools
from reflectloop.verification.result import ChangedFile

KINDS = {
    "test": (
        "tests/test_a.py tests/unit/a_test.py app/tests.py src/a.test.ts src/a.spec.jsx src/__tests__/a.js test/a.mjs "
        "cypress/e2e/a.cy.ts pkg/a_test.go crates/a/tests/cli.rs src/test/java/x/FooTest.java src/test/kotlin/FooTest.kt "
        "spec/models/a_spec.rb test/a_test.rb tests/ATest.php test/a.bats App.Tests/FooTests.cs a_unittest.cc test.c src/tests.cpp unittest.c "
        "tests/parse_array.c src/parser/tests.rs t/a.t tests/test_utils/test_style.py test-utils/a.test.ts"
    ),
    "fixture": (
        "tests/helper.py tests/data/a.json pkg/testdata/a.txt fixtures/a.yml src/__mocks__/a.js src/test/resources/a.xml "
        "spec/support/a.rb tests/cassettes/a.yaml tests/unity/src/unity.c tests/test_utils/style.py "
        "tests/fixtures/test_a.py test_utils/a.py"
    ),
    "hook": (
        "conftest.py tests/unit/conftest.py sitecustomize.py src/usercustomize.py a.pth .husky/pre-commit .githooks/pre-push "
        ".pre-commit-config.yaml .gitattributes spec/spec_helper.rb jest.setup.ts src/setupTests.js"
    ),
    "snapshot": "src/__snapshots__/a.snap tests/golden/a.txt tests/__snapshots__/a.ambr a.snap tests/a.approved.txt",
    "runner": (
        "pytest.ini .coveragerc noxfile.py jest.config.js vitest.config.mts .mocharc.json karma.conf.js ava.config.js "
        "phpunit.xml .rspec pyproject.toml setup.cfg tox.ini package.json Cargo.toml CMakeLists.txt pom.xml build.gradle.kts "
        "Makefile justfile sub/Makefile .cargo/config.toml vite.config.ts"
    ),
    "lint": (
        ".eslintrc.json eslint.config.mjs .prettierrc ruff.toml .flake8 mypy.ini .pylintrc pyrightconfig.json tsconfig.json "
        "tsconfig.build.json .golangci.yml clippy.toml .rubocop.yml"
    ),
    "ci": (
        ".github/workflows/ci.yml .gitlab-ci.yml azure-pipelines.yml .circleci/config.yml Jenkinsfile .travis.yml "
        ".buildkite/pipeline.yml"
    ),
    "script": "Rakefile scripts/test.sh bin/test run_tests.py gradlew scripts/lint",
    "shadow": (
        "pytest.py src/_pytest/__init__.py json.py src/logging/__init__.py lib/coverage.py bin/pytest node_modules/.bin/jest "
        ".venv/bin/python tools/mypy"
    ),
    "artefact": (
        "src/__pycache__/a.cpython-311.pyc a.pyc .pytest_cache/v .mypy_cache/x .ruff_cache/x .hypothesis/x build/lib/a.py "
        "a.egg-info/entry_points.txt node_modules/jest/index.js"
    ),
    "own": ".reflectloop/git/config reflectloop.toml .claude/settings.json",
}
FREE = (
    "src/shop.py src/shop/testing.py src/latest.py src/contest.py src/main/java/Unit.java src/main/java/Audit.java README.md "
    "docs/testing.md src/snapshots/store.py src/spec/openapi.py lib/shop.rb src/app.ts index.js src/lib.rs cmd/main.go "
    "scripts/release.sh src/shop/json.py src/shop/unittest.py requirements.txt src/attr/x.py src/manifest.json"
)


@pytest.mark.parametrize(("kind", "path"), [(kind, path) for kind, paths in KINDS.items() for path in paths.split()])
def test_what_judges_work_is_known_by_its_path(kind: str, path: str) -> None:
    found = guard(path)
    assert found is not None
    assert found.kind == kind
    assert found.why
    assert is_test(path) == (kind == "test")


@pytest.mark.parametrize("path", FREE.split())
def test_plain_sources_and_documents_are_free(path: str) -> None:
    assert guard(path) is None
    assert not is_test(path)
    assert not restored(ChangedFile(path, b"a", b"b"))


PYPROJECT = b'[project]\nname = "a"\nversion = "1"\n\n[tool.pytest.ini_options]\naddopts = "-ra"\n\n[tool.ruff]\nline-length = 100\n'
PACKAGE = b'{"version": "1", "scripts": {"test": "npm run unit", "unit": "node unit.js", "start": "node ."}, "jest": {"bail": true}}'
MAKEFILE = (
    b"VERSION = 1\nARGS = -q\n\ntest: build\n\tpytest $(ARGS)\n\nbuild:\n\tcc a.c\n\nrelease:\n\tupload $(VERSION)\n"
)
CARGO = b'[package]\nname = "a"\nversion = "1"\n\n[lib]\ndoctest = true\n'
CMAKE = b"project(a)\nadd_library(a a.c)\nenable_testing()\nadd_test(NAME t COMMAND t)\n"
POM = b"<project><version>1</version><properties><a>1</a></properties></project>"
GRADLE = b"version = '1'\ntest {\n  useJUnitPlatform()\n}\n"


@pytest.mark.parametrize(
    ("path", "before", "old", "new"),
    [
        ("pyproject.toml", PYPROJECT, b'"-ra"', b'"-ra -x"'),
        ("pyproject.toml", PYPROJECT, b"line-length = 100", b"line-length = 200"),
        ("pyproject.toml", PYPROJECT, b"[project]", b'[build-system]\nbackend-path = ["."]\n[project]'),
        ("pyproject.toml", PYPROJECT, b'version = "1"', b'version = "1"\n[project.entry-points.pytest11]\na = "a"'),
        ("pyproject.toml", PYPROJECT, b"[project]", b"[project"),
        ("package.json", PACKAGE, b"npm run unit", b"true"),
        ("package.json", PACKAGE, b"node unit.js", b"true"),
        ("package.json", PACKAGE, b'"bail": true', b'"bail": false'),
        ("package.json", PACKAGE, b'"1",', b'"1"'),
        ("Makefile", MAKEFILE, b"pytest $(ARGS)", b"true"),
        ("Makefile", MAKEFILE, b"ARGS = -q", b"ARGS = --co"),
        ("Makefile", MAKEFILE, b"cc a.c", b"rm -r tests"),
        ("Makefile", MAKEFILE, b"VERSION = 1", b"SHELL = /bin/true"),
        ("Cargo.toml", CARGO, b"doctest = true", b"doctest = false"),
        ("Cargo.toml", CARGO, b'version = "1"', b'version = "1"\nautotests = false'),
        ("CMakeLists.txt", CMAKE, b"add_test(NAME t COMMAND t)", b""),
        ("CMakeLists.txt", CMAKE, b"enable_testing()", b"if(OFF)\nenable_testing()\nendif()"),
        ("pom.xml", POM, b"<a>1</a>", b"<a>1</a><skipTests>true</skipTests>"),
        ("build.gradle", GRADLE, b"useJUnitPlatform()", b"enabled = false"),
        ("tox.ini", b"[testenv]\ncommands = pytest\n", b"pytest", b"true"),
        ("setup.cfg", b"[metadata]\nname = a\n[flake8]\nignore = E1\n", b"E1", b"E"),
        ("tsconfig.json", b'{"compilerOptions": {"strict": true}}', b"true", b"false"),
    ],
)
def test_a_mixed_file_is_restored_where_its_steering_part_differs(
    path: str, before: bytes, old: bytes, new: bytes
) -> None:
    assert old in before
    found = guard(path)
    assert found is not None
    assert found.mixed
    assert restored(ChangedFile(path, before, before.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("path", "before", "old", "new"),
    [
        ("pyproject.toml", PYPROJECT, b'version = "1"', b'version = "2"\ndependencies = ["click"]'),
        ("pyproject.toml", PYPROJECT, b"[project]", b"# words\n[project]"),
        ("pyproject.toml", PYPROJECT, b"[tool.ruff]", b'[project.urls]\nhome = "x"\n[tool.ruff]'),
        ("package.json", PACKAGE, b'"version": "1"', b'"version": "2", "dependencies": {"a": "1"}'),
        ("package.json", PACKAGE, b"node .", b"node server.js"),
        ("Makefile", MAKEFILE, b"VERSION = 1", b"VERSION = 2"),
        ("Makefile", MAKEFILE, b"upload $(VERSION)", b"upload --all $(VERSION)"),
        ("Cargo.toml", CARGO, b'version = "1"', b'version = "2"'),
        ("CMakeLists.txt", CMAKE, b"add_library(a a.c)", b"add_library(a a.c b.c)"),
        ("pom.xml", POM, b"<version>1</version>", b"<version>2</version>"),
        ("build.gradle", GRADLE, b"version = '1'", b"version = '2'"),
        ("setup.cfg", b"[metadata]\nname = a\n[flake8]\nignore = E1\n", b"name = a", b"name = b"),
        ("tsconfig.json", b'{"compilerOptions": {"target": "es5"}}', b"es5", b"es6"),
    ],
)
def test_a_mixed_file_keeps_a_change_that_steers_nothing(path: str, before: bytes, old: bytes, new: bytes) -> None:
    assert old in before
    assert not restored(ChangedFile(path, before, before.replace(old, new, 1)))


def test_whole_files_are_restored_however_small_the_change() -> None:
    for path in (
        "tests/test_a.py",
        "conftest.py",
        ".github/workflows/ci.yml",
        "pytest.ini",
        "src/__snapshots__/a.snap",
    ):
        assert restored(ChangedFile(path, b"a\n", b"a\nb\n"))


def test_a_module_shadows_only_where_it_is_new() -> None:
    assert restored(ChangedFile("src/types.py", None, b""))
    assert not restored(ChangedFile("src/types.py", b"a", b"b"))


def test_a_tool_is_shadowed_only_by_what_can_be_started() -> None:
    assert restored(ChangedFile("tools/pytest", None, b"", mode_after="100755"))
    assert restored(ChangedFile("tools/pytest", None, b"/bin/true", mode_after="120000"))
    assert not restored(ChangedFile("tools/pytest", None, b""))


FIXTURE = b"import pytest\n\n\n@pytest.fixture\ndef shop():\n    return 1\n"


@pytest.mark.parametrize(
    "path",
    [
        *("tests/test_a.py", "tests/helper.py", "tests/data/a.json", "src/__snapshots__/a.snap", "a_test.go"),
        *("tests/CMakeLists.txt", "tests/Makefile.am"),  # a new test is built only by the new list
    ],
)
def test_tests_and_what_they_stand_on_serve_the_patchs_own_tests(path: str) -> None:
    assert serves_tests(ChangedFile(path, None, b"x"))
    assert serves_tests(ChangedFile(path, b"x", None, "100644", "000000"))


@pytest.mark.parametrize(
    "path",
    [
        "src/a.py",
        "pyproject.toml",
        "pytest.ini",
        "tests/pytest.py",
        "tests/json.py",
        ".github/workflows/a.yml",
        "tests/x.pyc",
        "sitecustomize.py",
    ],
)
def test_what_steers_or_stands_in_does_not_serve(path: str) -> None:
    assert not serves_tests(ChangedFile(path, None, b"x = 1\n"))


def test_a_conftest_serves_while_it_only_adds_fixtures() -> None:
    assert serves_tests(ChangedFile("tests/conftest.py", None, FIXTURE))
    assert serves_tests(
        ChangedFile("tests/conftest.py", FIXTURE, FIXTURE + b"\n\n@pytest.fixture()\ndef more():\n    yield 2\n")
    )


@pytest.mark.parametrize(
    "code",
    [
        b"def pytest_collection_modifyitems(items):\n    items.clear()\n",
        b"@pytest.fixture(autouse=True)\ndef always():\n    yield\n",
        b"@pytest.hookimpl\ndef other():\n    pass\n",
        b"pytest_plugins = ['a']\n",
        b"collect_ignore = ['a']\n",
        b"import sys\nsys.exit(0)\n",
        b"@pytest.fixture\ndef a():\n    pytest.skip('no')\n",
        b"class A(\n",
    ],
)
def test_a_conftest_that_does_more_does_not_serve(code: bytes) -> None:
    assert not serves_tests(ChangedFile("tests/conftest.py", FIXTURE, FIXTURE + b"\n\n" + code))


def test_a_conftest_that_is_removed_with_its_fixtures_does_not_serve() -> None:
    assert not serves_tests(ChangedFile("tests/conftest.py", FIXTURE, None, "100644", "000000"))


def test_a_conftest_that_changes_a_fixture_does_not_serve() -> None:
    assert not serves_tests(ChangedFile("tests/conftest.py", FIXTURE, FIXTURE.replace(b"return 1", b"return 2")))


LOCKS = (
    "uv.lock poetry.lock requirements.txt requirements-dev.txt requirements/base.txt sub/package-lock.json pnpm-lock.yaml yarn.lock "
    "Cargo.lock go.sum go.mod Gemfile.lock composer.lock Pipfile.lock bun.lockb packages.lock.json mix.lock"
)


@pytest.mark.parametrize("path", LOCKS.split())
def test_lock_and_requirement_files_say_what_is_installed(path: str) -> None:
    assert dependencies(path)


@pytest.mark.parametrize("path", ["src/requirements.py", "README.md", "src/a.py", "notes.txt"])
def test_other_files_do_not(path: str) -> None:
    assert not dependencies(path)


@pytest.mark.parametrize(
    "folder", ["", "pkg", "deep/er", "src", "src/pkg", "lib.d", "x/.config", "x/tests", "a/scripts"]
)
def test_a_name_that_tells_in_some_folder_is_never_passed_over(folder: str) -> None:
    known = ["a.py", "__init__.py", "json.py", "nextest.toml", "sitecustomize.cpython-311.so", "x.egg-info"]
    known += [
        name for field in ("runner", "lint", "tests", "hooks", "modules", "executables") for name in of_tools(field)
    ]
    known += [*names.CAPITAL_FILES, *names.EXECUTABLES, *names.CI_FILES, *names.SCRIPT_FILES, *of_tools("artefacts")]
    plain = [one.replace("*", filler).replace("?", "x") for one in known for filler in ("", "a", "A-b")]
    for name in (form for one in plain for form in (one, one.lower(), one.title(), f"{one}.py")):
        path = f"{folder}/{name}".lstrip("/")
        place = paths._place(folder)
        assert guard(path) == paths._asked_in_order(path, name, place), path


@given(st.text(), st.none() | st.binary(), st.none() | st.binary())
def test_no_path_and_no_bytes_make_it_fail(path: str, before: bytes | None, after: bytes | None) -> None:
    for name in (
        path,
        "pyproject.toml",
        "package.json",
        "Makefile",
        "setup.cfg",
        "pom.xml",
        "conftest.py",
        "CMakeLists.txt",
        "tsconfig.json",
    ):
        restored(ChangedFile(name, before, after))
        serves_tests(ChangedFile(name, before, after))
    dependencies(path)


LIB = b"""pub fn add<'a>(a: i32, b: i32) -> i32 {
    a + b
}

#[cfg(test)]
use std::fmt;

macro_rules! t {
    ($name:ident) => {
        #[test]
        fn $name() {}
    };
}

t!(empty);

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(super::add(1, 2), 3);
        assert_eq!('{', '\\u{7b}');
    }
}
"""


def test_the_examples_of_a_rust_source_are_exchanged_with_the_most_alike() -> None:
    def source(*examples: str, code: str) -> bytes:
        blocks = [
            f"/// Text.\n///\n/// ```\n/// {example}\n/// ```\npub fn f{n}() {{ {code} }}\n"
            for n, example in enumerate(examples)
        ]
        return "\n".join(blocks).encode()

    base = source("assert_eq!(add(1, 2), 3);", "mul(2, 3);", code="1")
    patch = source("let a = 1;\n/// assert_eq!(add(a, 2), 4);", "mul(2, 3);", code="2")
    assert with_tests_of(base, patch) == source("assert_eq!(add(1, 2), 3);", "mul(2, 3);", code="2")
    assert with_tests_of(base, source("assert_eq!(add(1, 2), 3);", "mul(2, 3);", code="2")) is None


def test_the_tests_inside_a_rust_source_are_exchanged_by_structure() -> None:
    patch = LIB.replace(b"a + b", b"a - b").replace(b"(1, 2), 3", b"(1, 2), -1").replace(b"t!(empty);\n\n", b"")
    sealed = with_tests_of(LIB, patch)
    assert sealed is not None
    assert b"a - b" in sealed
    assert b"(1, 2), 3" in sealed
    assert b"-1" not in sealed
    assert sealed.count(b"t!(empty);") == sealed.count(b"macro_rules! t") == sealed.count(b"use std::fmt;") == 1
    assert with_tests_of(LIB, LIB.replace(b"a + b", b"a - b")) is None
    assert with_tests_of(b"fn f() {}\n", LIB) == b"pub fn add<'a>(a: i32, b: i32) -> i32 {\n    a + b\n}\n"


def test_a_new_test_that_a_kept_list_of_what_to_build_names_is_kept_too() -> None:
    lists = ChangedFile("tests/CMakeLists.txt", b"set(tests\n  a\n)\n", b"set(tests\n  a\n  readme_examples\n)\n")
    named = ChangedFile("tests/readme_examples.c", None, b"int main(void) { return 0; }\n")
    other = ChangedFile("tests/other.c", None, b"int main(void) { return 0; }\n")
    edited = ChangedFile("tests/a.c", b"int main(void) { return 1; }\n", b"int main(void) { return 0; }\n")
    changes = [lists, named, other, edited]
    assert built_by_lists([lists], changes) == {"tests/readme_examples.c"}
    assert built_by_lists([], changes) == frozenset()  # the list is as in base, and names no new test
