"""Names and folders by which a file is recognised as judging the work; data only."""

from __future__ import annotations

import sys


def words(text: str) -> tuple[str, ...]:
    """Split a table of names that is written as text."""
    return tuple(text.split())


OWN_FOLDERS = frozenset({".reflectloop", ".claude"})
OWN_FILES = ("reflectloop.toml",)
ARTEFACT_FOLDERS = frozenset(
    words(
        "__pycache__ .pytest_cache .mypy_cache .ruff_cache .hypothesis .tox .nox .eggs .import_linter_cache .pytype "
        ".jest-cache .nyc_output .gradle node_modules .venv venv site-packages dist-packages .turbo .vite"
    )
)
ARTEFACT_FILES = words("*.pyc *.pyo *.egg-link .coverage .coverage.* *.tsbuildinfo .eslintcache")
# Files that git, an interpreter or a runner loads automatically, before or around the checks.
HOOK_FOLDERS = frozenset(words(".git-hooks .githooks .husky githooks"))
HOOK_FILES = words(
    "conftest.py sitecustomize.py usercustomize.py *.pth .pre-commit-config.y*ml .pre-commit-hooks.y*ml "
    "lefthook.y*ml .lefthook.y*ml .overcommit.yml .gitattributes .lintstagedrc* lint-staged.config.* "
    "spec_helper.rb rails_helper.rb test_helper.rb test_helper.exs setuptests.* setup-tests.* setup_tests.* "
    "jest.setup.* jest-setup.* vitest.setup.* vitest-setup.*"
)
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
SNAPSHOT_FILES = words("*.snap *.ambr *.golden *.approved.* *.verified.* *.snap.new *.snapshot")
FIXTURE_FOLDERS = frozenset(
    words(
        "testdata test_data test-data testfixtures fixtures __fixtures__ __mocks__ cassettes test_fixtures "
        "test-fixtures testhelpers test_helpers test-helpers test-utils test_utils testutils test_support "
        "test-support"
    )
)
TEST_FOLDERS = frozenset(
    words(
        "tests test __tests__ __test__ spec specs e2e cypress t unittests unit_tests integration_tests "
        "functional_tests integration-tests integrationtest androidtest commontest jvmtest testing_tests"
    )
)
# Files that some runner collects by name alone, in any folder.
TEST_FILES = words(
    "test_*.py *_test.py tests.py test.py *.test.[jt]s *.test.[jt]sx *.test.[cm][jt]s *.spec.[jt]s *.spec.[jt]sx "
    "*.spec.[cm][jt]s *.test-d.ts *.test.vue *.test.svelte *.cy.[jt]s *.cy.[jt]sx *-test.[jt]s *-test.[cm]js "
    "*_test.[jt]s *_test.tsx test-*.[jt]s test-*.[cm]js test.[jt]s test.[cm]js *_test.go *_test.rs *test.java "
    "*tests.java *testcase.java *it.java *test.kt *tests.kt *test.scala *spec.scala *suite.scala *test.groovy "
    "*spec.groovy *_test.c *_test.cc *_test.cpp *_test.cxx *_tests.c *_tests.cc *_tests.cpp *_unittest.cc "
    "*_unittest.cpp test_*.c test_*.cc test_*.cpp *_spec.rb *_test.rb test_*.rb *test.php *.phpt *.bats *test.cs "
    "*_test.exs *_test.dart *_test.zig *tests.swift *test.swift *_test.lua *_spec.lua *_test.clj *.t *_test.sh "
    "test_*.sh *tests.cs"
)
# `*it.java` must not match `Unit.java`, so these patterns are case-sensitive.
CAPITAL_FILES = words("*IT.java *Test.* *Tests.* *TestCase.* *Spec.* *Suite.*")
CAPITAL_ENDINGS = words("java kt scala groovy php cs swift")
CODE_ENDINGS = frozenset(
    words(
        "py pyi js jsx ts tsx mjs cjs mts cts vue svelte go rs java kt kts scala groovy c cc cpp cxx h hpp rb php "
        "bats cs fs vb exs ex dart zig swift lua clj sh bash t pl pm hs ml r jl"
    )
)
# Runner configuration files with no other content.
RUNNER_FILES = words(
    "pytest.ini .pytest.ini pytest.toml .pytest.toml noxfile.py .coveragerc .coveragerc.toml tox.toml "
    "jest.config.* jest-*.config.* jest.preset.* vitest.config.* vitest.workspace.* .mocharc* mocha.opts "
    "karma.conf* ava.config.* playwright.config.* cypress.config.* cypress.json wdio.conf.* protractor.conf.* "
    ".nycrc* nyc.config.* .c8rc* .taprc phpunit.xml* phpunit.dist.xml pest.php behat.yml* codeception.yml .rspec "
    ".rspec-local .simplecov .mutmut* stryker.conf.* stryker.config.* ctesttestfile.cmake ctestconfig.cmake "
    "ctestcustom.cmake* nextest.toml tarpaulin.toml junit-platform.properties testng*.xml *.runsettings "
    "*.tests.csproj *.test.csproj *tests.fsproj "
    "xunit.runner.json .testcaferc* babel.config.* .babelrc* nose.cfg .noserc unittest.cfg manifest.testing "
    "turbo.json nx.json lerna.json project.json deno.json* bunfig.toml directory.build.props "
    "directory.build.targets gradle.properties maven.config jvm.config .env.test* .npmrc .yarnrc* pip.conf"
)
LINT_FILES = words(
    "ruff.toml .ruff.toml .flake8 mypy.ini .mypy.ini .pylintrc* pylintrc pyrightconfig*.json "
    "basedpyrightconfig*.json .isort.cfg .pycodestyle .pydocstyle* .bandit* .importlinter .yamllint* .eslintrc* "
    "eslint.config.* .eslintignore .prettierrc* prettier.config.* .prettierignore biome.json* .oxlintrc* "
    ".stylelintrc* stylelint.config.* .stylelintignore .jshintrc .jscsrc tslint.json .golangci.* staticcheck.conf "
    "revive.toml clippy.toml .clippy.toml rustfmt.toml .rustfmt.toml deny.toml .clang-tidy .clang-format "
    ".cppcheck* checkstyle*.xml spotbugs*.xml findbugs*.xml pmd*.xml detekt*.yml .editorconfig .globalconfig "
    "*.ruleset stylecop.json .rubocop*.yml .standard.yml phpstan*.neon* psalm*.xml* phpcs.xml* .phpcs.xml* "
    ".php-cs-fixer* .php_cs* rector.php .shellcheckrc .hadolint.y*ml .markdownlint* .codespellrc typos.toml "
    "_typos.toml .semgrepignore .semgrep.y*ml sonar-project.properties .credo.exs .swiftlint.yml "
    "analysis_options.yaml"
)
# Files of which only a part controls checks.
MIXED_RUNNER_FILES = words(
    "pyproject.toml setup.cfg tox.ini package.json cargo.toml cmakelists.txt cmakepresets.json pom.xml "
    "build.gradle build.gradle.kts composer.json vite.config.* makefile gnumakefile *.mk makefile.* justfile "
    ".justfile *.just"
)
MIXED_LINT_FILES = words("tsconfig*.json jsconfig*.json")
SCRIPT_FILES = words(
    "rakefile *.rake taskfile.y*ml taskfile.dist.y*ml gruntfile.* gulpfile.* gradlew* mvnw* runtests* run_tests* "
    "run-tests* run_test.* run-test.* test.sh tests.sh check.sh checks.sh lint.sh ci.sh verify.sh test-all* "
    "test_all.sh dodo.py magefile.go build.cake"
)
SCRIPT_FOLDERS = frozenset(words(".scripts bin build ci dev etc hack script scripts tools"))
SCRIPT_WORDS = words("test tests check checks lint ci cibuild verify coverage typecheck unit")
DEPENDENCY_FILES = words(
    "uv.lock poetry.lock pdm.lock pylock*.toml pipfile pipfile.lock requirements*.txt requirements*.in "
    "*-requirements.txt *_requirements.txt constraints*.txt environment.y*ml conda-lock.yml pixi.lock "
    "package-lock.json npm-shrinkwrap.json pnpm-lock.yaml pnpm-workspace.yaml yarn.lock bun.lock bun.lockb "
    "deno.lock cargo.lock go.mod go.sum go.work go.work.sum gemfile gemfile.lock *.gemspec composer.lock "
    "gradle.lockfile libs.versions.toml gradle-wrapper.properties packages.lock.json packages.config "
    "directory.packages.props paket.lock mix.lock pubspec.lock podfile.lock package.resolved conanfile.* "
    "vcpkg.json flake.lock"
)
RUNNER_MODULES = frozenset(
    words(
        "pytest _pytest pluggy iniconfig exceptiongroup unittest unittest2 doctest nose nose2 hypothesis "
        "_hypothesis_pytestplugin coverage tox nox xdist execnet pytest_cov pytest_asyncio pytest_mock pytest_timeout "
        "pytest_xdist anyio trio twisted testtools zope ward green stestr py mock ruff mypy flake8 pylint pyflakes "
        "pycodestyle isort black pyright bandit pip setuptools wheel virtualenv pkg_resources _distutils_hack tomli "
        "packaging attr attrs pygments colorama behave robot tavern syrupy freezegun responses importlib_metadata"
    )
)
STANDARD_MODULES = frozenset(sys.stdlib_module_names) - frozenset(sys.builtin_module_names) - {"this", "antigravity"}
IMPORT_ROOTS = frozenset({"", "src", "lib", "python", "tests", "test", "src/python", "source"})
TOOLS = frozenset(
    words(
        "pytest py.test python python2 python3 unittest tox nox coverage ruff flake8 mypy pylint pyright black isort "
        "bandit pre-commit hatch poetry pdm uv uvx pip pip3 pipenv node npm npx pnpm yarn bun deno jest vitest mocha "
        "karma ava tap nyc c8 eslint prettier tsc ts-node tsx biome stylelint playwright cypress go gofmt "
        "golangci-lint gotestsum staticcheck cargo rustc rustfmt clippy-driver cargo-nextest java javac mvn gradle "
        "kotlinc ant cmake ctest make gmake ninja cc gcc g++ clang clang++ clang-tidy dotnet msbuild ruby rake rspec "
        "bundle minitest rubocop php phpunit pest phpstan composer bats sh bash dash zsh env git diff grep sed awk "
        "timeout xargs find cat true false reflectloop just task prove perl"
    )
)
TOOL_FOLDERS = words("node_modules/.bin .venv/bin venv/bin .venv/Scripts venv/Scripts vendor/bin")
