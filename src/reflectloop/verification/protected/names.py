"""Names and folders by which a file is recognised as judging the work, whatever the tool; data only."""

from __future__ import annotations

import sys


def words(text: str) -> tuple[str, ...]:
    """Split a list of names that is written as text."""
    return tuple(text.split())


OWN_FOLDERS = frozenset({".reflectloop", ".claude"})
OWN_FILES = ("reflectloop.toml",)
# Files that git, an interpreter or a runner loads automatically, before or around the checks.
HOOK_FOLDERS = frozenset(words(".git-hooks .githooks .husky githooks"))
HOOK_FILES = words(
    "lefthook.y*ml .lefthook.y*ml .overcommit.yml .gitattributes .lintstagedrc* lint-staged.config.* setuptests.* "
    "setup-tests.* setup_tests.*"
)
START_MODULES = frozenset({"sitecustomize", "usercustomize"})  # Python imports them when it starts
CI_FOLDERS = (
    (".github", "workflows"),
    (".github", "actions"),
    (".circleci",),
    (".buildkite",),
    (".gitlab",),
    (".azure-pipelines",),
    (".azuredevops",),
    (".ci",),
    (".forgejo", "workflows"),
    (".gitea", "workflows"),
    (".woodpecker",),
    (".teamcity",),
    (".semaphore",),
    (".builds",),
)
CI_FILES = words(
    ".gitlab-ci.y*ml azure-pipelines*.y*ml jenkinsfile* .travis.y*ml appveyor.y*ml .appveyor.y*ml "
    "bitbucket-pipelines.yml .drone.y*ml .cirrus.y*ml .cirrus.star codecov.y*ml .codecov.y*ml .coveralls.yml "
    "cloudbuild.y*ml wercker.yml .woodpecker.y*ml buildspec.y*ml .builds.yml codeship-*.yml earthfile"
)
SNAPSHOT_FOLDERS = frozenset(
    words(
        "__snapshots__ __image_snapshots__ snapshots __golden__ golden goldens .storybook-snapshots __file_snapshots__"
    )
)
SNAPSHOT_FILES = words("*.snap *.golden *.approved.* *.verified.* *.snap.new *.snapshot")
DATA_FOLDERS = frozenset(
    words(
        "testdata test_data test-data testfixtures fixtures __fixtures__ __mocks__ cassettes test_fixtures "
        "test-fixtures"
    )
)
# Helpers of tests, but a folder of this name may also hold the tests of a module called `utils`.
HELPER_FOLDERS = frozenset(
    words("testhelpers test_helpers test-helpers test-utils test_utils testutils test_support test-support")
)
TEST_FOLDERS = frozenset(
    words(
        "tests test __tests__ __test__ spec specs e2e cypress t unittests unit_tests integration_tests "
        "functional_tests integration-tests integrationtest androidtest commontest jvmtest testing_tests"
    )
)
OTHER_MEANINGS = frozenset({"spec", "specs", "t"})  # packages of Python, Go and Rust may have these names
# `*it.java` must not match `Unit.java`, so these patterns are case-sensitive.
CAPITAL_FILES = words("*IT.java *Test.* *Tests.* *TestCase.* *Spec.* *Suite.*")
CODE_ENDINGS = frozenset(
    words(
        "py pyi js jsx ts tsx mjs cjs mts cts vue svelte go rs java kt kts scala groovy c cc cpp cxx h hpp rb php "
        "bats cs fs vb exs ex dart zig swift lua clj sh bash t pl pm hs ml r jl"
    )
)
RUNNER_FILES = words("manifest.testing .env.test*")
LINT_FILES = words(
    ".yamllint* .editorconfig .hadolint.y*ml .markdownlint* .semgrepignore .semgrep.y*ml sonar-project.properties"
)
# Files of which only a part controls checks.
MIXED_RUNNER_FILES = words("makefile gnumakefile *.mk makefile.* justfile .justfile *.just")
SCRIPT_FILES = words(
    "taskfile.y*ml taskfile.dist.y*ml gruntfile.* gulpfile.* runtests* run_tests* run-tests* run_test.* run-test.* "
    "test.sh tests.sh check.sh checks.sh lint.sh ci.sh verify.sh test-all* test_all.sh dodo.py magefile.go build.cake"
)
SCRIPT_FOLDERS = frozenset(words(".scripts bin build ci dev etc hack script scripts tools"))
SCRIPT_WORDS = words("test tests check checks lint ci cibuild verify coverage typecheck unit")
STANDARD_MODULES = frozenset(sys.stdlib_module_names) - frozenset(sys.builtin_module_names) - {"this", "antigravity"}
IMPORT_ROOTS = frozenset({"", "src", "lib", "python", "tests", "test", "src/python", "source"})
# Executables that checks call, beside those of the tools.
EXECUTABLES = words(
    "sh bash dash zsh env git diff grep sed awk timeout xargs find cat true false reflectloop just task"
)
TOOL_FOLDERS = words("node_modules/.bin .venv/bin venv/bin .venv/Scripts venv/Scripts vendor/bin")
