"""The environment of checks and steps: what is carried besides the tree, which tools come first, what is kept."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reflectloop import secrets
from reflectloop.config import Config, SecretsConfig
from reflectloop.errors import SandboxCreateFailed
from reflectloop.system.git import Git
from reflectloop.verification import environment_key
from reflectloop.verification.check_runner import CheckRun, CheckRunner, hanging_test, last_started
from reflectloop.verification.fresh_workspaces import hash_seed
from reflectloop.verification.result import Outcome, Type, VerificationResult
from reflectloop.verification.stable_ids import HiddenIds, match_unstable_ids, renumbered
from reflectloop.workspace import carry
from support import Answer, Repo, reflectloop

pytestmark = pytest.mark.usefixtures("without_probing")

TEST = """
import unittest

import pkg


class T(unittest.TestCase):
    def test_f(self):
        self.assertEqual(pkg.f(), 1)
"""


class Package(Repo):
    """A project with one package and one test, run by unittest."""

    def verify(self, *words: str, code: int = 0, env: Mapping[str, str] | None = None) -> dict[str, Any]:
        answer = self.run("verify", *words, "--json", env=env)
        assert answer.code == code, (answer.code, answer.stdout, answer.stderr)
        return {**(answer.json["data"] or {}), "envelope": answer.envelope}

    def settings(self, text: str) -> None:
        self.write("reflectloop.toml", text)
        self.commit("settings")


@pytest.fixture
def package(repo: Repo) -> Iterator[Package]:
    made = Package(repo.path)
    made.git("rm", "-q", "-r", "src")
    made.write("pkg/__init__.py", "def f():\n    return 1\n")
    made.write("test_pkg.py", TEST)
    made.write(".gitignore", ".reflectloop/\n.venv\n_version.py\nnode_modules\n")
    made.commit("a package")
    yield made
    made.no_process_left()


def steps_log(repo: Repo, name: str = "P-1.1") -> str:
    return (repo.latest() / "logs" / f"{name}.log").read_text()


# What is carried -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('carry_copy = ["pkg"]', "pkg/__init__.py"),
        ('carry = ["pkg/"]', "pkg/__init__.py"),
        ('carry_copy = ["pkg/__init__.py"]', "is a file that git tracks"),
    ],
)
def test_a_carried_path_that_git_tracks_is_refused_and_nothing_is_judged(
    package: Package, line: str, named: str
) -> None:
    package.settings(f"[workspace]\n{line}\n")
    package.git("checkout", "-q", "-b", "broken")
    package.write("pkg/__init__.py", "def f():\n    return 2\n")
    package.commit("break it")
    package.git("checkout", "-q", "-")
    envelope = package.verify("--branch", "broken", code=12)["envelope"]
    assert named in envelope["message"]
    assert line.partition(" ")[0] in envelope["next"]
    assert not (package.path / ".reflectloop" / "cache" / "verify").exists()
    assert package.run("run", package.steps("true")).code == 12
    package.git("rm", "-q", "reflectloop.toml")
    package.commit("no settings")
    assert package.verify("--branch", "broken", code=32)["reasons"][0]["text"].startswith("unittest: newly failing")


def test_a_path_that_only_the_change_tracks_is_refused_before_base_runs(package: Package) -> None:
    package.settings('[workspace]\ncarry_copy = ["gen"]\n')
    package.write("gen/made.py", "x = 1\n")
    package.commit("track it")
    assert "gen/made.py" in package.verify("--base", "HEAD^", "--branch", "HEAD", code=12)["envelope"]["message"]
    assert not (package.path / ".reflectloop" / "cache" / "verify").exists()


def test_a_submodule_is_carried_if_it_is_at_the_commit_that_git_tracks(package: Package, tmp_path: Path) -> None:
    part = Repo(tmp_path / "part")
    part.path.mkdir()
    part.git("init", "-q")
    part.write("number.py", "number = 1\n")
    part.commit("a part")
    package.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(part.path), "part")
    package.write("pkg/__init__.py", "from part.number import number\n\n\ndef f():\n    return number\n")
    package.settings('[workspace]\ncarry_copy = ["part"]\n')
    package.write("note.txt", "changed\n")
    assert package.verify("--check", "unittest")["decision"] == "PASS"
    package.write("part/number.py", "number = 2\n")
    assert "is a submodule with changes" in package.verify("--check", "unittest", code=12)["envelope"]["message"]


def test_an_ignored_file_is_carried_by_its_name_and_a_missing_one_is_reported(package: Package) -> None:
    package.write("pkg/__init__.py", "from pkg._version import number\n\n\ndef f():\n    return number\n")
    package.settings('[workspace]\ncarry_copy = ["pkg/_version.py", "pkg/_build.py"]\n')
    package.write("pkg/_version.py", "number = 1\n")
    package.write("note.txt", "changed\n")
    verdict = package.verify()
    assert verdict["decision"] == "PASS"
    missing = "[workspace] carry_copy: pkg/_build.py is not in the project, so it is not carried"
    assert missing in verdict["envelope"]["warnings"]
    answer = package.run("run", "--json", package.steps("python3 -m unittest && echo number = 3 > pkg/_version.py"))
    assert answer.code == 0, answer.stdout
    assert missing in answer.envelope["warnings"]
    assert answer.json["data"]["touched_files"] == []
    assert (package.path / "pkg" / "_version.py").read_text() == "number = 1\n"


@pytest.mark.parametrize(
    "manifest",
    [
        '[tool.hatch.build.hooks.vcs]\nversion-file = "pkg/_version.py"\n',
        "[tool.setuptools_scm]\nwrite_to = 'pkg/_version.py'\n",
        'setup(use_scm_version={"version_file": "pkg/_version.py"})\n',
        "[tool:setuptools_scm]\nversion_file = pkg/_version.py\n",
        '[tool.hatch.build.hooks.version]\nsome = 1\npath = "pkg/_version.py"\n',
        '[tool.versioningit.write]\nfile = "pkg/_version.py"\n',
    ],
)
def test_a_manifest_names_the_version_file_that_its_build_tool_writes(manifest: str) -> None:
    assert carry.version_files(manifest) == ["pkg/_version.py"]


def test_a_generated_version_file_is_carried_by_itself_for_base_and_change(package: Package) -> None:
    package.write("pkg/__init__.py", "from pkg._version import number\n\n\ndef f():\n    return number\n")
    package.write("pyproject.toml", '[tool.setuptools_scm]\nversion_file = "pkg/_version.py"\n')
    package.commit("a generated version")
    package.write("pkg/_version.py", "number = 1\n")
    package.write("note.txt", "changed\n")
    verdict = package.verify("--check", "unittest")
    assert verdict["decision"] == "PASS"
    assert any("pkg/_version.py is generated" in warning for warning in verdict["envelope"]["warnings"])
    again = package.verify("--check", "unittest")["envelope"]["warnings"]
    assert {*again} >= {*verdict["envelope"]["warnings"]}, "a kept outcome says it too"


def test_steps_have_the_generated_version_file_too(package: Package) -> None:
    package.write("pyproject.toml", '[tool.setuptools_scm]\nversion_file = "pkg/_version.py"\n')
    package.commit("a generated version")
    package.write("pkg/_version.py", "number = 1\n")
    answer = package.run("run", "--json", package.steps("cat pkg/_version.py"))
    assert answer.code == 0
    assert steps_log(package) == "number = 1\n"
    assert any("pkg/_version.py" in warning for warning in answer.envelope["warnings"])


def test_the_named_version_files_are_kept_until_a_manifest_or_what_is_kept_changes(package: Package) -> None:
    def named() -> list[str]:
        tree = git.line("rev-parse", "HEAD^{tree}")
        carry._named_version_files.cache_clear()
        return [os.fspath(path) for path in carry._named_version_files(own, git, tree)]

    git, own = Git(git_dir=package.path / ".git"), package.path / ".reflectloop"
    own.mkdir(exist_ok=True)
    package.write("setup.cfg", "[tool:setuptools_scm]\nversion_file = pkg/_version.py\n")
    package.commit("a manifest")
    assert named() == ["pkg/_version.py"]
    kept = own / "cache" / "version-files.json"
    written = kept.read_bytes()
    package.write("other.py", "x = 1\n")
    package.commit("no manifest")
    assert named() == ["pkg/_version.py"]
    assert kept.read_bytes() == written, "nothing was searched again"
    for damage in (written.replace(b"_version", b"_another"), b"[]", b"{", written.replace(b'"names"', b'"other"')):
        kept.write_bytes(damage)
        assert named() == ["pkg/_version.py"]
    package.write("sub/pyproject.toml", '[tool.x]\nwrite_to = "sub/_made.py"\n')
    package.commit("another manifest")
    assert named() == ["pkg/_version.py", "sub/sub/_made.py"]


def test_only_ignored_python_files_beside_tracked_ones_are_carried_by_themselves(package: Package) -> None:
    package.write(
        "pyproject.toml",
        '[tool.setuptools_scm]\nversion_file = "../_version.py"\n[tool.x]\nwrite_to = "private/_version.py"\n'
        '[tool.y]\nwrite_to = "pkg/seen.py"\n[tool.z]\nversion_file = ".env"\n',
    )
    package.commit("names other files")
    package.write("private/_version.py", "secret = 1\n")
    package.write(".env", "secret = 1\n")
    package.git("checkout", "-q", "-b", "topic")
    package.write("pkg/seen.py", "x = 1\n")
    plan = package.steps("find . -name '*.py' -path './p*'; find . -name .env")
    assert package.run("run", plan).code == 0
    assert sorted(steps_log(package).split()) == ["./.env", "./pkg/__init__.py", "./pkg/seen.py"]


def failed_import(package: Package) -> Answer:
    package.write("pkg/__init__.py", "from pkg._version import number\n")
    package.commit("imports what is not there")
    return package.run("run", "--json", package.steps("python3 -m unittest"))


def test_a_missing_generated_module_is_explained_as_one_in_run(package: Package) -> None:
    assert failed_import(package).code == 30
    blocker = (package.latest() / "blocker.yaml").read_text()
    assert "carry_copy" in blocker
    assert "pip show" not in blocker


# Which tools come first ------------------------------------------------------------------------------------------------


def tool(repo: Repo, name: str, prints: str) -> None:
    repo.write(name, f"#!/bin/sh\necho {prints}\n").chmod(0o755)


def test_steps_find_the_projects_own_tools_first_as_sealed_runs_do(package: Package) -> None:
    tool(package, ".venv/bin/python", "our own python")
    package.write(".venv/pyvenv.cfg", "")
    tool(package, "node_modules/.bin/our-tool", "our own tool")
    answer = package.run("run", "--json", package.steps("python; our-tool"))
    assert answer.code == 0, answer.stdout
    assert steps_log(package) == "our own python\nour own tool\n"


def test_steps_in_a_part_of_the_project_find_the_tools_of_that_part(package: Package) -> None:
    package.write("part/own.txt", "")
    package.commit("a part")
    tool(package, "part/node_modules/.bin/our-tool", "of the part")
    tool(package, "node_modules/.bin/our-tool", "of the project")
    assert package.run("run", package.steps("our-tool", cwd="part")).code == 0
    assert steps_log(package) == "of the part\n"


def test_requests_find_the_projects_own_tools_first(package: Package) -> None:
    tool(package, ".venv/bin/python", "our own python")
    run = {"op": "run", "cmd": ["sh", "-c", "test \"$(python)\" = 'our own python'"]}
    request = {"proto": "triflow.fileops.v1", "id": "r", "purpose": "execute_step", "ops": [run]}
    answer = reflectloop(package.path, "fileops", "--json", stdin=json.dumps(request))
    assert answer.json["status"] == "ok", answer.stdout


MAKES_ENVIRONMENT = """
[verify]
setup = [
  ["python3", "-m", "venv", "--without-pip", ".venv"],
  ["sh", "-c", "echo number = 1 > $(echo .venv/lib/python3*/site-packages)/dep.py"],
]
"""


def test_an_environment_that_the_setup_makes_in_a_fresh_clone_is_used_on_both_sides(package: Package) -> None:
    package.write("pkg/__init__.py", "import dep\n\n\ndef f():\n    return dep.number\n")
    package.settings(MAKES_ENVIRONMENT)
    package.write("note.txt", "changed\n")
    verdict = package.verify()
    assert verdict["decision"] == "PASS"
    commands = [verdict["checks"][0][side]["command"][0] for side in ("base", "sealed")]
    assert commands == [".venv/bin/python", ".venv/bin/python"]


def test_a_setup_that_makes_no_environment_leaves_the_projects_own_in_use(package: Package) -> None:
    tool(package, ".venv/bin/our-tool", "x")
    package.settings(
        '[verify]\nsetup = [["sh", "-c", "echo x > made.txt"]]\n'
        '[[verify.checks]]\nname = "own"\nkind = "custom"\nrun = ["sh", "-c", "our-tool && test -f made.txt"]\n'
    )
    package.write("note.txt", "changed\n")
    verdict = package.verify()
    assert verdict["decision"] == "PASS"
    assert "[verify] setup made no .venv, so the project's own is used" in verdict["envelope"]["warnings"]


def test_an_environment_that_is_a_link_is_used(package: Package, tmp_path: Path) -> None:
    tool(package, "../elsewhere/bin/python", "our own python")
    package.write("../elsewhere/bin/our-tool", f"#!{tmp_path}/elsewhere/bin/python\n").chmod(0o755)
    package.write("../elsewhere/pyvenv.cfg", "")
    (package.path / ".venv").symlink_to("../elsewhere")
    package.settings('[[verify.checks]]\nname = "own"\nkind = "custom"\nrun = ["sh", "-c", "python && our-tool"]\n')
    package.write("note.txt", "changed\n")
    assert package.verify()["decision"] == "PASS"
    assert package.verify()["decision"] == "PASS"


def test_a_link_out_of_the_project_that_is_no_environment_is_not_carried(package: Package) -> None:
    package.write("../private/key.txt", "private\n")
    (package.path / ".venv").symlink_to("../private")
    answer = package.run("run", "--json", package.steps("! cat .venv/key.txt"))
    assert answer.code == 0, answer.stdout
    assert any(".venv leads to no folder of installed packages" in warning for warning in answer.envelope["warnings"])


CACHING = (
    "echo x > node_modules/.cache/a || (mkdir -p node_modules/.cache/b && echo x > node_modules/.cache/b/c); "
    "test ! -e node_modules/.vite/old && mkdir -p node_modules/.vite && echo x > node_modules/.vite/a"
)
READS = "node_modules/.bin/our-tool && cat node_modules/@scope/part/own.txt node_modules/package/own.txt"


@pytest.mark.parametrize(("level", "has_cache"), [("full", True), ("full", False), ("workspace", False)])
def test_checks_can_write_caches_into_node_modules_and_the_users_stay_as_they_are(
    package: Package, level: str, *, has_cache: bool
) -> None:
    package.write("part/own.txt", "of the workspace\n")
    package.settings(
        f'[box]\nstrongest = "{level}"\n[[verify.checks]]\nname = "caches"\nkind = "custom"\n'
        f'run = ["sh", "-c", "test ! -e node_modules/.cache/old && {READS} && {CACHING}"]\n'
        if has_cache
        else f'[box]\nstrongest = "{level}"\n[[verify.checks]]\nname = "caches"\nkind = "custom"\n'
        f'run = ["sh", "-c", "{READS} && {CACHING} && ! touch node_modules/package/new"]\n'
    )
    tool(package, "node_modules/tool/cli", "x")
    package.write("node_modules/package/own.txt", "of a package\n")
    for link, target in ((".bin/our-tool", "../tool/cli"), ("@scope/part", "../../part")):
        (package.path / "node_modules" / link).parent.mkdir(exist_ok=True)
        (package.path / "node_modules" / link).symlink_to(target)
    package.write("node_modules/.vite/old", "x\n")
    if has_cache:
        package.write("node_modules/.cache/old", "x\n")
    package.write("note.txt", "changed\n")
    before = package.state()
    assert package.verify()["decision"] == "PASS"
    assert package.state() == before


# What is kept ----------------------------------------------------------------------------------------------------------

PASSWORD = "pedia"
URL = f"http://wiki:{PASSWORD}@hatnote.com"
WITH_URL = f"""
import unittest


def make(url):
    def test(self):
        self.assertTrue(url)

    return test


class T(unittest.TestCase):
    pass


for url in ["{URL}", "http://x.org"]:
    setattr(T, f"test_host[{{url}}]", make(url))
"""


def test_a_kept_outcome_has_the_same_test_ids_as_a_fresh_one_and_no_secret(package: Package) -> None:
    package.write("test_pkg.py", WITH_URL)
    package.commit("a test named by an address")
    package.write("note.txt", "1\n")
    assert package.verify()["decision"] == "PASS"
    stored = [path.read_text() for path in (package.path / ".reflectloop" / "cache" / "verify").iterdir()]
    assert all(PASSWORD not in text and "REDACTED" in text for text in stored)
    package.write("note.txt", "2\n")
    verdict = package.verify()
    assert verdict["comparison"]["vanished"] == []
    assert verdict["comparison"]["added"] == []


def test_ids_that_hold_a_secret_are_told_apart_and_can_be_selected_again() -> None:
    ids, other = HiddenIds(), HiddenIds()
    names = [f"t.py::test[{URL}]", f"t.py::test[{URL.replace(PASSWORD, 'other')}]", "t.py::test[1]"]
    hidden = [ids.hide(name) for name in names]
    assert len(set(hidden)) == 3
    assert hidden[2] == names[2]
    assert [other.hide(name) for name in names] == hidden, "another process hides them alike"
    assert ids.exact(hidden) == names
    later = HiddenIds()
    assert later.recall(hidden, ids.key_mark)
    assert later.exact(hidden) is None
    assert later.exact(hidden[2:]) == names[2:]
    assert not HiddenIds().recall(hidden, "another key")


def test_an_id_stays_hidden_when_the_secret_is_no_longer_known() -> None:
    ids = HiddenIds()
    secrets.use_detector(secrets.detector_for(SecretsConfig(), Path(), {"SERVICE_PASSWORD": "plain-word-of-77"}))
    hidden = ids.hide("t.py::test[plain-word-of-77]")
    secrets.use_detector(secrets.detector_for(SecretsConfig(), Path(), {}))
    fresh = HiddenIds()
    assert fresh.hide("t.py::other[plain-word-of-77]") == "t.py::other[plain-word-of-77]"
    assert fresh.recall([hidden], ids.key_mark)
    assert fresh.exact([hidden]) is None
    assert fresh.hide("t.py::test[plain-word-of-77]") == hidden


def test_only_what_path_resolves_to_decides_whether_an_outcome_is_kept(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "data.txt").write_text("no program")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "our-tool").touch(0o755)
    usual = {"PATH": "/usr/bin:/bin", "LANG": "C"}

    def key(path: str, **more: str) -> str:
        return environment_key.hashed([], {**usual, "PATH": path, **more}, [], {})

    assert key("/usr/bin:/bin") == key(f"{tmp_path / 'empty'}:/usr/bin:/bin:/usr/bin:/not-there")
    assert key("/usr/bin:/bin") != key(f"{tools}:/usr/bin:/bin")
    assert key("/usr/bin:/bin") != key("/usr/bin:/bin", LANG="de_DE")


# Ids that differ in every run ------------------------------------------------------------------------------------------


def outcomes(*names: str, **other: Outcome) -> dict[str, Outcome]:
    return {**dict.fromkeys(names, "passed"), **other}


def test_ids_with_a_time_are_matched_by_the_rest_of_them() -> None:
    first = outcomes("t[11-15-2026 19:32:23]", "t[x-0x7f01]", "u[1]", "u[2]")
    second = outcomes("t[11-15-2026 19:33:01]", "t[x-0x7f02]", "u[1]", "u[2]")
    patch = outcomes("t[11-16-2026 00:00:09]", "t[x-0x7fff]", "u[1]")
    unstable = match_unstable_ids(first, second, patch)
    assert unstable.rename(patch) == outcomes("t[11-15-2026 19:32:23]", "t[x-0x7f01]", "u[1]")
    assert unstable.missing == (), "u[2] is on base each time: that the patch lacks it is not explained"


def test_ids_that_hold_the_place_of_a_parameter_are_matched_without_it() -> None:
    known = ["t[10:20-expected0-None]", "t[11-expected1-%H]", "t[12-expected2-%M]", "t[utf8]", "u[expected5]"]
    names = ("t[10:20-expected2-None]", "t[11-None-%H]", "t[12-expected0-%M]", "t[utf16]", "u[expected7]")
    result = VerificationResult(ok=True, type="passed", summary="", tests=outcomes(*names))
    assert list(renumbered(result, known).tests) == [
        "t[10:20-expected0-None]",
        "t[11-None-%H]",
        "t[12-expected2-%M]",
        "t[utf16]",
        "u[expected7]",
    ]


def test_random_words_are_matched_by_their_test_and_worse_outcomes_stay_worse() -> None:
    first = {"t[kqzv]": "passed", "t[wexy]": "failed", "other": "passed"}
    second = {"t[bbbb]": "passed", "t[cccc]": "failed", "other": "passed"}
    patch = {"t[dddd]": "failed", "t[eeee]": "failed", "other": "passed"}
    unstable = match_unstable_ids(first, second, patch)  # type: ignore[arg-type]
    assert sorted(unstable.rename(patch).items()) == [  # type: ignore[arg-type]
        ("other", "passed"),
        ("t[kqzv]", "failed"),
        ("t[wexy]", "failed"),
    ]


def test_one_unstable_test_less_is_not_explained_and_a_test_that_comes_and_goes_is_named() -> None:
    first = outcomes("t[1]", "t[2]", "sometimes")
    second = outcomes("t[3]", "t[4]", "at times")
    patch = outcomes("t[5]", "at times")
    unstable = match_unstable_ids(first, second, patch)
    assert len(unstable.renamed) == 1
    assert unstable.missing == ("sometimes",)
    assert unstable.extra == outcomes("at times")


def test_tests_named_by_the_time_are_the_same_tests_in_every_run(package: Package) -> None:
    package.write(
        "test_pkg.py",
        "import time\nimport unittest\n\n\nclass T(unittest.TestCase):\n    pass\n\n\n"
        "setattr(T, f'test_at[{time.time_ns()}]', lambda self: None)\n",
    )
    package.commit("a test named by the time")
    package.write("note.txt", "changed\n")
    assert not any(package.verify()["comparison"].values())


def test_sets_have_one_order_in_every_sealed_run(package: Package) -> None:
    package.settings(
        '[[verify.checks]]\nname = "seed"\nkind = "custom"\n'
        f'run = ["sh", "-c", "test $PYTHONHASHSEED = {hash_seed()}"]\n'
    )
    package.write("note.txt", "changed\n")
    assert package.verify()["decision"] == "PASS"


# A check that hangs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "test"),
    [
        ("t.py::test_a PASSED [ 50%]\nt.py::test_b[x y] ", "t.py::test_b[x y]"),
        ("t.py::test_a PASSED [ 50%]\nt.py::test_b PASSED [100%]\n", None),
        ("test_a (t.T.test_a) ... ok\ntest_b (t.T.test_b) ... ", "test_b (t.T.test_b)"),
        ("collected 3 items\n\ntests/test_a.py .. [ 66%]\ntests/test_b.py .", "tests/test_b.py"),
        ("=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n", "TestB"),
        ("=== RUN   TestA\n--- PASS: TestA (0.00s)\n", None),
        ("test a::ok ... ok\ntest a::slow has been running for over 60 seconds\n", "a::slow"),
        ("      Start  1: one\n 1/2 Test  #1: one .... Passed\n      Start  2: two\n", "two"),
    ],
)
def test_the_log_of_a_runner_that_was_ended_names_the_test_it_was_in(log: str, test: str | None) -> None:
    assert last_started(log) == test


def test_the_number_of_tests_that_were_done_tells_which_test_of_a_file_hangs() -> None:
    order = ("tests/test_a.py::test_1", "tests/test_b.py::test_1", "tests/test_b.py::test_2")
    log = "tests/test_a.py . [ 33%]\ntests/test_b.py ."
    assert hanging_test(log, 2, order) == "tests/test_b.py::test_2"
    assert hanging_test(log, 0, order) == "tests/test_b.py", "the count does not fit the file"
    assert hanging_test(log, 3, order) == "tests/test_b.py"


def test_a_change_that_hangs_is_ended_and_the_test_is_named(package: Package) -> None:
    package.write("pytest.ini", "[pytest]\n")
    package.write("test_pkg.py", "import pkg\n\n\ndef test_a():\n    pass\n\n\ndef test_f():\n    pkg.f()\n")
    package.settings("[run]\nidle_s = 10\n")
    package.write("pkg/__init__.py", "import time\n\n\ndef f():\n    time.sleep(10**6)\n")
    verdict = package.verify("--check", "pytest", code=32)
    sealed = verdict["checks"][-1]["sealed"]
    assert sealed["type"] == "timeout"
    assert sealed["summary"] == "pytest: did nothing for 10 s, in test_pkg.py::test_f"
    assert verdict["checks"][-1]["base"]["duration_ms"] > 0


def test_results_are_cached_when_the_layers_were_compared(tmp_path: Path) -> None:
    damaged: list[Exception] = []
    compared = []

    def compare(_: object) -> None:
        compared.append(True)
        if damaged:
            raise damaged[0]

    layers = SimpleNamespace(is_sure=False, compare_again=compare)
    ground = SimpleNamespace(settings=Config(), layers=layers, trees=SimpleNamespace(store=None))
    result = VerificationResult(ok=True, type="passed", summary="", duration_ms=1)
    for number in range(3):
        runner = CheckRunner(ground, tmp_path, Path(), str, "", None, None)  # type: ignore[arg-type]
        damaged += [SandboxCreateFailed("damaged")] if number == 1 else []
        layers.is_sure = number == 2
        with suppress(SandboxCreateFailed), runner:
            runner._remember(f"key{number}", CheckRun(result, "", None, "", ""))
            kept = (tmp_path / f"key{number}.json").exists()
        assert [kept, (tmp_path / f"key{number}.json").exists()] == [number == 2, number != 1]
    assert len(compared) == 2


def test_a_check_has_ten_times_as_long_as_base_took_and_a_minute_at_least() -> None:
    def limit(duration_ms: int, kind: Type = "passed") -> float:
        result = VerificationResult(ok=True, type=kind, summary="", duration_ms=duration_ms)
        ground = SimpleNamespace(settings=Config())
        return CheckRunner(ground, Path(), Path(), str, "", None, None).time_limit(result)  # type: ignore[arg-type]

    assert [limit(100), limit(9000), limit(1_000_000), limit(5000, "timeout")] == [60, 90, 1800, 1800]
