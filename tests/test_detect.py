"""Detection: which checks a project has, told from its files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from textwrap import dedent

import pytest

from reflectloop.verification import detect
from reflectloop.verification.result import DetectedCheck
from support import Repo

MANIFESTS = {
    "package.json": "scripts scripts.test scripts.pretest workspaces workspaces.packages packageManager jest devDependencies",
    "tsconfig.json": "files references compilerOptions compilerOptions.noEmit",
    "composer.json": "require-dev require-dev.phpunit/phpunit",
    "pyproject.toml": "tool tool.pytest tool.pytest.ini_options tool.pytest.ini_options.testpaths tool.mypy tool.mypy.files "
    "tool.ruff tool.hatch.envs tool.hatch.envs.a.scripts tool.poe.tasks tool.tox.env_run_base.commands tool.setuptools",
    "tox.toml": "env_run_base env_run_base.commands",
    "Cargo.toml": "workspace workspace.members workspace.dependencies dependencies dependencies.a.path lints lints.clippy",
}
CASE = "import unittest\nclass T(unittest.TestCase):\n    def test_one(self): pass\n"


def tree(files: dict[str, str]) -> detect.ProjectFiles:
    held = {name: dedent(text).encode() for name, text in files.items()}
    return detect.ProjectFiles(held, held.get)


def found(files: dict[str, str]) -> dict[str, DetectedCheck]:
    return {check.name: check for check in detect.checks(tree(files))}


def package(**fields: object) -> str:
    return json.dumps(fields)


def as_toml(value: object) -> str:
    """TOML of the kind that fits on one line: every value inline."""
    if isinstance(value, dict):
        return "\n".join(f"{key} = {_inline(one)}" for key, one in value.items())
    return ""


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_inline(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return "0" if value is None else json.dumps(value)


def test_a_project_without_signs_has_no_checks() -> None:
    assert found({"README.md": "pytest is great", "notes/a.txt": ""}) == {}


def test_pytest_is_told_by_its_section_by_a_conftest_by_need_and_by_the_look_of_tests() -> None:
    for files, reason in (
        ({"pyproject.toml": "[tool.pytest.ini_options]"}, "pyproject.toml has [tool.pytest.ini_options]"),
        ({"setup.cfg": "[tool:pytest]\n"}, "setup.cfg has [tool:pytest]"),
        ({"tests/conftest.py": ""}, "tests/conftest.py belongs to pytest"),
        ({"test_a.py": CASE, "requirements-dev.txt": "pytest>=8\n"}, "requirements-dev.txt requires pytest"),
        ({"tests/test_a.py": "def test_one(): pass\n"}, "tests/test_a.py looks like pytest"),
    ):
        check = found(files)["pytest"]
        assert (check.kind, check.tool, check.command, check.reason) == ("test", "pytest", ("pytest",), reason)


def test_a_plugin_for_pytest_among_the_needs_is_not_pytest() -> None:
    assert "unittest" in found({"test_a.py": CASE, "requirements.txt": "pytest-mock\n"})


def test_python_dash_m_pytest_is_kept_where_the_project_calls_it_so() -> None:
    makefile = {"Makefile": "test:\n\t$(VENV)/bin/python -m pytest -q\n", "tests/test_a.py": "def test_a(): pass\n"}
    assert found(makefile)["pytest"].command == ("python", "-m", "pytest")
    mixed = {**makefile, ".github/workflows/ci.yml": "steps:\n  - run: pytest\n"}
    assert found(mixed)["pytest"].command == ("pytest",)


def test_what_tox_and_nox_run_is_taken_over_without_their_comforts() -> None:
    tox = {
        "tox.ini": """
            [testenv]
            commands =
                py: {envpython} -m coverage run -m pytest -v --cov=a -m "not slow" {posargs:checks}
            """,
        "checks/test_a.py": "",
    }
    assert found(tox)["pytest"].command == ("pytest", "-m", "not slow", "checks")
    nox = {
        "noxfile.py": 'def tests(session):\n    session.run("pytest", "-n4", "checks", *session.posargs)\n',
        "checks/test_a.py": "",
    }
    assert found(nox)["pytest"].command == ("pytest", "checks")


def test_a_corner_of_the_tests_that_tox_runs_apart_is_not_taken_for_all() -> None:
    tox = {"tox.ini": "[testenv:apart]\ncommands = pytest tests/apart\n", "tests/apart/test_a.py": ""}
    assert found(tox)["pytest"].command == ("pytest", "tests/apart")
    more = {f"tests/test_{letter}.py": CASE for letter in "bcd"}
    assert list(found({**tox, **more})) == ["unittest"]


def test_a_plain_function_among_test_cases_does_not_make_it_pytest() -> None:
    plain = "def test_b(): pass\n"
    assert "unittest" in found({"test_a.py": CASE, "test_b.py": plain})
    assert "pytest" in found({"test_a.py": CASE, "test_b.py": plain, "test_c.py": plain})


def test_a_cmake_project_that_builds_a_python_package_is_left_to_it() -> None:
    files = {"CMakeLists.txt": "project(a)", "pyproject.toml": 'build-backend = "scikit_build_core.build"'}
    assert found(files) == {}
    assert list(found({**files, "CMakeLists.txt": "add_test(NAME a COMMAND a)"})) == ["cmake", "ctest"]


def test_tox_itself_is_the_last_resort() -> None:
    check = found({"tox.ini": "[testenv]\ncommands = ./run-everything\n"})["tox"]
    assert check.command == ("tox",)


def test_unittest_starts_where_its_tests_are_found() -> None:
    assert found({"tests/test_a.py": CASE})["unittest"].command[3:] == ("discover", "-s", "tests")
    as_package = found({"tests/__init__.py": "", "tests/test_a.py": CASE})["unittest"]
    assert as_package.command[3:] == ("discover", "-s", "tests", "-t", ".")
    in_source = found(
        {"src/a/__init__.py": "", "src/a/b/test_c.py": CASE, "tools/test_d.py": "", "src/a/test_e.py": ""}
    )
    assert in_source["unittest"].command[3:] == ("discover", "-s", "src/a", "-t", "src")
    assert found({"test_a.py": CASE})["unittest"].command == ("python", "-m", "unittest", "discover")


def test_django_projects_are_tested_by_their_own_command() -> None:
    files = {"manage.py": "import django", "app/tests.py": "from django.test import TestCase"}
    assert found(files)["django"].command == ("python", "manage.py", "test")


def test_linters_and_type_checkers_count_only_where_they_are_set_up() -> None:
    assert set(found({"a.py": "", "tests/test_a.py": "def test_a(): pass", "requirements.txt": "ruff\nmypy\n"})) == {
        "pytest"
    }
    files = {
        "pyproject.toml": "[tool.ruff]\n[tool.mypy]\nfiles = ['a']\n",
        ".flake8": "",
        "pyrightconfig.json": "{}",
        "a/__init__.py": "",
    }
    checks = found(files)
    assert {name: check.kind for name, check in checks.items()} == {
        "ruff": "lint",
        "flake8": "lint",
        "mypy": "type",
        "pyright": "type",
    }
    assert checks["mypy"].command == ("mypy",)
    assert checks["flake8"].command == ("flake8", "a")


SOURCES = {"slugify/__init__.py": "", "setup.py": "", "test.py": "import unittest\nclass T(unittest.TestCase): pass\n"}
STEPS = "jobs:\n  a:\n    steps:\n      - run: |\n          {}\n"


@pytest.mark.parametrize(
    ("files", "command"),
    [
        (
            {"tox.ini": "[testenv:flake8]\ncommands = flake8 --ignore=E501,W503 --statistics slugify/ setup.py\n"},
            ("flake8", "--ignore=E501,W503", "slugify/", "setup.py"),
        ),
        (
            {"noxfile.py": "def lint(session):\n    session.run('flake8', '--ignore', 'E501', '-v', 'slugify')\n"},
            ("flake8", "--ignore", "E501", "slugify"),
        ),
        (
            {
                ".github/workflows/ci.yml": STEPS.format(
                    "flake8 . --count --exit-zero --max-complexity=10\n          flake8 slugify --select=E9 --show-source"
                )
            },
            ("flake8", "--select=E9", "slugify"),
        ),
        (
            {
                ".pre-commit-config.yaml": "repos:\n- repo: x\n  hooks:\n  - id: flake8\n    args: [--max-line-length=100]\n"
            },
            ("flake8", "--max-line-length=100", "slugify", "test.py"),
        ),
        (
            {"tox.ini": "[testenv]\ncommands =\n  flake8 --jobs {env:J} --extend-ignore=E203 {posargs:slugify}\n"},
            ("flake8", "--extend-ignore=E203", "slugify"),
        ),
    ],
)
def test_a_linter_is_run_with_the_options_of_the_project(files: dict[str, str], command: tuple[str, ...]) -> None:
    assert found({**SOURCES, **files})["flake8"].command == command


def test_the_other_linters_have_the_options_of_the_project_too() -> None:
    checks = found(
        {
            **SOURCES,
            "tox.ini": "[testenv]\ncommands =\n  mypy -p slugify --strict --pretty\n  ruff check --fix --select E,F slugify\n",
        }
    )
    assert checks["mypy"].command == ("mypy", "-p", "slugify", "--strict")
    assert checks["ruff"].command == ("ruff", "check", "--select", "E,F", "slugify")


def test_a_linter_that_never_fails_is_no_check() -> None:
    files = {**SOURCES, ".github/workflows/ci.yml": STEPS.format("flake8 . --exit-zero")}
    assert "flake8" not in found(files)


def test_a_hook_of_pre_commit_is_a_set_up_linter() -> None:
    hooks = "repos:\n  - repo: x\n    hooks:\n      - id: ruff\n      - id: mypy\n"
    checks = found({".pre-commit-config.yaml": hooks, "src/a/__init__.py": ""})
    assert checks["ruff"].reason == ".pre-commit-config.yaml has the hook ruff"
    assert checks["mypy"].command == ("mypy", "--ignore-missing-imports", "--scripts-are-modules", "src")


def test_extension_modules_are_built_before_anything_is_tested() -> None:
    files = {"setup.py": "setup(ext_modules=[Extension('a', ['a.c'])])", "tests/conftest.py": "", "ruff.toml": ""}
    names = list(found(files))
    assert names == ["build-ext", "ruff", "pytest"]
    assert found(files)["build-ext"].command == ("python", "setup.py", "build_ext", "--inplace")


def test_a_script_that_is_a_plain_call_names_its_runner() -> None:
    for line, tool in (
        ("vitest run", "vitest"),
        ("NODE_ENV=test jest --ci", "jest"),
        ("cross-env A=b mocha test", "mocha"),
        ("node --test", "node-test"),
        ("c8 ava", "ava"),
    ):
        check = found({"package.json": package(scripts={"test": line})})[tool]
        assert (check.tool, check.command, check.kind) == (tool, ("npm", "test"), "test")


def test_a_script_that_is_more_than_that_is_run_as_it_is() -> None:
    check = found({"package.json": package(scripts={"test": "./prepare.sh | jest"})})["npm-test"]
    assert (check.tool, check.command) == ("npm", ("npm", "test"))


def test_a_script_that_is_a_row_of_checks_becomes_those_checks() -> None:
    scripts = {"test": "xo && npm run unit && tsc --noEmit", "unit": "mocha --exit", "posttest": "aud --production"}
    checks = found({"package.json": package(scripts=scripts)})
    assert {name: (check.kind, check.command) for name, check in checks.items()} == {
        "xo": ("lint", ("xo",)),
        "tsc": ("type", ("tsc", "--noEmit")),
        "mocha": ("test", ("npm", "run", "unit")),
    }


def test_the_hooks_of_a_script_are_checks_of_their_own_or_left_out() -> None:
    scripts = {
        "pretest": "npm run --silent readme && npm run lint && npm run build",
        "test": "npm run tests-only",
        "tests-only": "nyc tape 'test/*.js'",
        "posttest": "npx npm audit --production",
        "readme": "evalmd README.md",
        "lint": "eslint .",
        "build": "webpack",
    }
    checks = found({"package.json": package(scripts=scripts)})
    assert {name: check.command for name, check in checks.items()} == {
        "npm-build": ("npm", "run", "build"),
        "eslint": ("npm", "run", "lint"),
        "tape": ("tape", "test/*.js"),
    }
    whole = {**scripts, "tests-only": "node run.js; node more.js"}
    assert found({"package.json": package(scripts=whole)})["npm-test"].command == ("npm", "test", "--ignore-scripts")
    locked = {"package.json": package(scripts=whole), "pnpm-lock.yaml": ""}
    assert found(locked)["pnpm-test"].command == ("pnpm", "--config.enable-pre-post-scripts=false", "run", "test")


def test_the_placeholder_script_and_a_watching_one_are_no_tests() -> None:
    placeholder = 'echo "Error: no test specified" && exit 1'
    assert found({"package.json": package(scripts={"test": placeholder})}) == {}
    watching = {"test": "vitest --watch", "test:run": "vitest run"}
    assert found({"package.json": package(scripts=watching)})["vitest"].command == ("npm", "run", "test:run")


def test_a_lint_script_that_mends_is_run_without_mending() -> None:
    check = found({"package.json": package(scripts={"lint": "eslint --fix src"})})["eslint"]
    assert check.command == ("eslint", "src")


def test_the_package_manager_is_the_one_with_a_lock_file() -> None:
    for lock, program in (("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun")):
        files = {"package.json": package(scripts={"test": "jest"}), lock: ""}
        assert found(files)["jest"].command == (program, "run", "test")


def test_runners_without_a_script_are_told_by_configuration_or_by_the_tests() -> None:
    assert found({"vitest.config.ts": "", "package.json": "{}"})["vitest"].command == ("vitest", "run")
    assert found({"package.json": package(jest={})})["jest"].command == ("jest",)
    files = {"a.test.mjs": 'import test from "node:test"'}
    assert found(files)["node-test"].command == ("node", "--test")


def test_eslint_and_tsc_count_by_their_configuration() -> None:
    files = {
        "package.json": package(devDependencies={"typescript": "5"}),
        "eslint.config.js": "",
        "tsconfig.json": '{ // comments are allowed\n "files": ["a.ts"], }',
    }
    checks = found(files)
    assert checks["eslint"].command == ("eslint", ".")
    assert checks["tsc"].command == ("tsc", "--noEmit")
    assert "tsc" not in found({**files, "tsconfig.json": '{"files": [], "references": [{"path": "a"}]}'})


def test_cargo_tests_the_whole_workspace_once() -> None:
    files = {
        "Cargo.toml": '[workspace]\nmembers = ["crates/*"]\n',
        "crates/a/Cargo.toml": "[package]\nname='a'\n",
        "crates/a/src/lib.rs": "#[test]\nfn a() {}\n",
        "tool/Cargo.toml": "[package]\nname='tool'\n",
    }
    checks = found(files)
    assert {name: (check.command, check.cwd) for name, check in checks.items()} == {
        "cargo-test": (("cargo", "test", "--workspace"), "."),
        "tool:cargo-build": (("cargo", "build"), "tool"),
    }


def test_clippy_and_nextest_count_where_they_are_set_up() -> None:
    files = {"Cargo.toml": "[package]\nname='a'\n[lints.clippy]\nall='warn'\n", ".config/nextest.toml": ""}
    assert list(found(files)) == ["clippy", "nextest"]


def test_cmake_is_configured_and_built_before_ctest_with_the_tests_switched_on() -> None:
    files = {
        "CMakeLists.txt": 'option(A_TESTS "build them" OFF)\nadd_subdirectory(tests)\n',
        "tests/CMakeLists.txt": "add_test(NAME a COMMAND a)\n",
    }
    checks = found(files)
    assert list(checks) == ["cmake", "ctest"]
    assert checks["cmake"].command[-2:] == ("build", "-DA_TESTS=ON")
    assert checks["ctest"].command == ("ctest", "--test-dir", "build")
    assert found({**files, "build/tools.sh": ""})["ctest"].command == ("ctest", "--test-dir", "_build")


def test_meson_is_set_up_and_built_before_its_tests_with_the_tests_switched_on() -> None:
    files = {
        "meson.build": "project('a', 'c')\nsubdir('tests')\n",
        "meson_options.txt": "option('tests', type : 'boolean', value : false)\noption('docs', type : 'boolean')\n",
        "tests/meson.build": "exe = executable('a', 'a.c')\ntest('a', exe)\n",
    }
    checks = found(files)
    assert list(checks) == ["meson", "meson-test"]
    assert checks["meson"].command[-2:] == ("build", "-Dtests=true")
    assert checks["meson-test"].command == ("meson", "test", "-C", "build")
    assert list(found({"meson.build": "project('a', 'c')\n"})) == ["meson"]


def test_a_makefile_with_tests_of_its_own_comes_before_meson() -> None:
    files = {"meson.build": "test('a', exe)\n", "Makefile": "test:\n\t./a\n", "a.c": ""}
    assert list(found(files)) == ["make", "make-test"]
    assert list(found({**files, "Makefile": "test:\n\tmeson test -C build\n"})) == ["meson", "meson-test"]


def test_folders_with_a_manifest_of_their_own_have_checks_of_their_own() -> None:
    files = {
        "server/pyproject.toml": "[tool.pytest.ini_options]",
        "server/tests/test_a.py": "",
        "web/package.json": package(scripts={"test": "vitest run"}),
    }
    checks = found(files)
    assert {name: check.cwd for name, check in checks.items()} == {"server:pytest": "server", "web:vitest": "web"}


def test_manifests_among_fixtures_examples_and_dependencies_are_material() -> None:
    manifest = package(scripts={"test": "jest"})
    places = ("tests/fixtures/a", "examples/b", "node_modules/c", "vendor/d", "docs")
    assert found({f"{place}/package.json": manifest for place in places}) == {}


def test_members_of_a_workspace_are_left_to_tests_at_the_top_that_reach_them() -> None:
    member = {"packages/a/package.json": package(scripts={"test": "mocha"})}
    reaching = package(workspaces=["packages/*"], scripts={"test": "turbo run test"})
    assert set(found({"package.json": reaching, **member})) == {"npm-test"}
    silent = package(workspaces=["packages/*"])
    assert set(found({"package.json": silent, **member})) == {"packages/a:mocha"}


@pytest.mark.parametrize(
    ("line", "manager"),
    [
        ("pnpm -r test", "pnpm"),
        ("pnpm -r run test", "pnpm"),
        ("pnpm run -r test", "pnpm"),
        ("pnpm --recursive --stream test", "pnpm"),
        ("yarn workspaces run test", "yarn"),
        ("yarn workspaces foreach -A run test", "yarn"),
        ("npm run test --workspaces --if-present", "npm"),
        ("npm test -ws", "npm"),
        ("lerna run test --stream", "npm"),
    ],
)
def test_a_script_that_only_starts_those_of_the_members_is_left_to_them(line: str, manager: str) -> None:
    locks = {"pnpm": "pnpm-lock.yaml", "yarn": "yarn.lock", "npm": "package-lock.json"}
    files = {
        "package.json": package(
            workspaces=["packages/*"], scripts={"test": line, "build": line.replace("test", "build")}
        ),
        "packages/a/package.json": package(scripts={"test": "node --test"}),
        "packages/b/package.json": package(scripts={"test": "mocha"}),
        "packages/a/a.test.js": "const test = require('node:test');\n",
        locks[manager]: "",
    }
    names = ["packages/a:node-test", "packages/b:mocha"]
    assert [name for name, check in found(files).items() if check.kind == "test"] == names
    assert [name for name, check in found(files).items() if check.kind == "build"] == [f"{manager}-build"]
    more = {**files, "package.json": package(workspaces=["packages/*"], scripts={"test": f"{line} && mocha"})}
    assert f"{manager}-test" in found(more)


def test_pytest_at_the_top_covers_a_folder_below_unless_its_testpaths_do_not() -> None:
    below = {"libs/a/pyproject.toml": "[tool.pytest.ini_options]", "libs/a/tests/test_a.py": "", "tests/test_b.py": ""}
    assert set(found({"pyproject.toml": "[tool.pytest.ini_options]", **below})) == {"pytest"}
    narrow = "[tool.pytest.ini_options]\ntestpaths = ['tests']"
    assert set(found({"pyproject.toml": narrow, **below})) == {"pytest", "libs/a:pytest"}
    wide = "[tool.pytest.ini_options]\ntestpaths = ['tests', 'libs/*/tests']"
    assert set(found({"pyproject.toml": wide, **below})) == {"pytest"}


def test_broken_manifests_are_passed_over() -> None:
    broken = {
        "pyproject.toml": "[[[",
        "package.json": "{",
        "Cargo.toml": "=",
        "tox.ini": "no section",
        "noxfile.py": "(",
    }
    assert found({**broken, "tests/test_a.py": "def test_a(): pass"})["pytest"].tool == "pytest"


def test_a_folder_is_read_without_its_links_pipes_and_installed_tools(tmp_path: Path) -> None:
    outside = tmp_path / "outside.toml"
    outside.write_text("[tool.ruff]")
    project = tmp_path / "project"
    (project / "node_modules" / "a").mkdir(parents=True)
    (project / "node_modules" / "a" / "package.json").write_text(package(scripts={"test": "jest"}))
    (project / "pyproject.toml").symlink_to(outside)
    os.mkfifo(project / "ruff.toml")
    (project / "conftest.py").write_text("")
    seen = detect.ProjectFiles.of_folder(project)
    assert seen.paths == ("conftest.py", "pyproject.toml", "ruff.toml")
    assert (seen.read("pyproject.toml"), seen.read("ruff.toml"), seen.read("absent")) == (None, None, None)


def test_every_go_module_is_built_vetted_and_tested() -> None:
    checks = found({"go.mod": "", "a_test.go": "", "tools/go.mod": ""})
    assert list(checks) == ["go-build", "tools:go-build", "go-vet", "tools:go-vet", "go-test"]
    assert checks["go-test"].command == ("go", "test", "./...")


def test_maven_and_gradle_are_called_by_their_wrapper_and_take_in_their_modules() -> None:
    maven = {"pom.xml": "", "core/pom.xml": "", "core/src/test/java/ATest.java": ""}
    assert [check.command for check in detect.checks(tree(maven))] == [("mvn", "test")]
    gradle = {"build.gradle.kts": "", "gradlew": "", "src/test/kotlin/ATest.kt": ""}
    assert found(gradle)["gradle"].command == ("./gradlew", "test")
    assert found({"pom.xml": ""})["maven-build"].command == ("mvn", "compile")


def test_tests_that_the_build_has_made_are_made_again() -> None:
    source = {"a.c": "int main(void) { return 0; }\n"}
    built = {
        **source,
        "Makefile": "CC = gcc\n.PHONY: all\nall: app \\\n  test\n\ntest: test.c\n\tcc -o $@ $^ && ./test\n",
    }
    assert found(built)["make-test"].command == ("make", "-B", "test")
    apart = {**source, "Makefile": "all: app\n\ntest: app\n\t./app --test\n"}
    assert found(apart)["make-test"].command == ("make", "test")


def test_autotools_are_configured_and_made_before_make_check() -> None:
    checks = found({"configure.ac": "", "Makefile.am": ""})
    assert [(check.name, check.kind) for check in checks.values()] == [("autotools", "build"), ("make-check", "test")]


def test_a_makefile_counts_where_nothing_says_more() -> None:
    makefile = "SRC := a.c\nall: a\ntest: all\n\t./a\n"
    assert list(found({"Makefile": makefile, "a.c": ""})) == ["make", "make-test"]
    assert list(found({"Makefile": makefile, "conftest.py": ""})) == ["pytest"]


def test_dotnet_ruby_php_and_bats_are_known() -> None:
    project = '<PackageReference Include="Microsoft.NET.Test.Sdk" />'
    assert list(found({"a.sln": "", "tests/a.csproj": project})) == ["dotnet-build", "dotnet-test"]
    assert found({"Gemfile": "", "spec/a_spec.rb": ""})["rspec"].command == ("bundle", "exec", "rspec")
    assert found({"Rakefile": "Rake::TestTask.new"})["rake"].command == ("rake", "test")
    assert found({"phpunit.xml.dist": ""})["phpunit"].command == ("phpunit",)
    assert found({"test/a.bats": ""})["bats"].command == ("bats", "--recursive", "test")


def test_the_tests_of_a_perl_distribution_are_run_by_prove_unless_it_has_c_sources() -> None:
    assert found({"cpanfile": "", "t/a.t": ""})["prove"].command == ("prove", "--lib", "--recurse", "t")
    assert list(found({"lib/My/A.pm": "", "t/deep/a.t": ""})) == ["prove"]
    assert found({"perl/Makefile.PL": "", "perl/t/a.t": ""})["perl:prove"].cwd == "perl"
    assert not found({"lib/A.pm": "", "A.xs": "", "t/a.t": ""})
    assert not found({"README": "", "t/a.t": ""})
    assert list(found({"cpanfile": "", "t/a.t": "", "t/data/CMakeLists.txt": ""})) == ["prove"]


def test_a_check_the_user_wrote_has_its_tool_and_kind_from_the_command() -> None:
    files = tree({"web/package.json": package(scripts={"test": "vitest run", "all": "a; b"})})
    assert detect.configured(files, "unit", ["python", "-m", "pytest", "x"])[:3] == ("unit", "test", "pytest")
    assert detect.configured(files, "web", ["npm", "test"], cwd="web").tool == "vitest"
    assert detect.configured(files, "all", ["npm", "run", "all"], "test", "web")[:3] == ("all", "test", "npm")
    assert detect.configured(files, "own", ["./check.sh"])[:3] == ("own", "custom", "custom")


def test_detect_prints_each_check_with_its_command_folder_and_reason(repo: Repo) -> None:
    repo.write("web/package.json", package(scripts={"test": "vitest run"}))
    repo.write("ruff.toml", "")
    told = repo.run("detect")
    assert told.code == 0
    assert [line.split()[:2] for line in told.stdout.splitlines()[::2]] == [["lint", "ruff"], ["test", "web:vitest"]]
    assert "npm test  (in web)" in told.stdout
    assert "package.json: the script test is vitest run" in told.stdout
    checks = repo.run("detect", "--json").json["data"]["checks"]
    assert [(check["name"], check["cwd"]) for check in checks] == [("ruff", "."), ("web:vitest", "web")]


def test_detect_says_how_to_name_checks_where_it_found_none(repo: Repo) -> None:
    told = repo.run("detect")
    assert told.code == 0
    assert "[verify] checks" in told.stdout
    assert repo.run("detect", "--json").json["data"]["checks"] == []


def test_vitest_is_spared_from_writing_into_node_modules_where_it_can_be(tmp_path: Path) -> None:
    for name, version in (("vitest", "3.1.0"), ("vite", "6.1.0")):
        manifest = tmp_path / "node_modules" / name / "package.json"
        manifest.parent.mkdir(parents=True)
        manifest.write_text(package(version=version))
    config = tmp_path / "vitest.config.ts"
    config.write_text("export default {}")
    check = DetectedCheck("vitest", "test", "vitest", ("npm", "test"))
    assert detect.resolve(check, tmp_path, {}).command == ("npm", "test", "--", "--configLoader=runner")
    config.write_text("export default { root: __dirname }")
    assert detect.resolve(check, tmp_path, {}).command == ("npm", "test")
    config.write_text("export default {}")
    (tmp_path / "node_modules" / "vite" / "package.json").write_text(package(version="5.4.0"))
    assert detect.resolve(check, tmp_path, {}).command == ("npm", "test")


def test_whatever_a_manifest_holds_detection_answers() -> None:
    odd: tuple[object, ...] = (
        None,
        True,
        1,
        "x",
        "npm test",
        [],
        [1],
        [[]],
        [{}],
        {},
        {"a": 1},
        {"a": []},
        {"test": [1]},
    )
    for name, places in MANIFESTS.items():
        for place in places.split():
            for value in odd:
                held = value
                for key in reversed(place.split(".")):
                    held = {key: held}
                text = json.dumps(held) if name.endswith("json") else as_toml(held)
                files = {name: text, f"packages/a/{name}": text, "tests/test_a.py": CASE, "setup.py": ""}
                for check in detect.checks(tree(files)):
                    assert all(isinstance(word, str) for word in check.command), (name, place, value)
