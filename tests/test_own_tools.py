"""A check that is a script finds the project's own tools first."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from reflectloop.engine.gating.verify_command import VerifyRequest, verify
from reflectloop.engine.run.request import NullObserver
from reflectloop.terms import Track
from support import Repo

pytestmark = pytest.mark.usefixtures("without_probing")


def test_a_script_calls_tools_inside_the_project(repo: Repo) -> None:
    tool = repo.write(".venv/bin/our-tool", "#!/bin/sh\nexit 0\n")
    tool.chmod(0o755)
    repo.write(".gitignore", ".venv\n")
    settings = '[[verify.checks]]\nname = "own"\nkind = "custom"\nrun = ["sh", "-c", "our-tool && test -f README.md"]\n'
    repo.write("reflectloop.toml", settings)
    repo.commit("a tool")
    repo.write("README.md", "# changed\n")
    assert verify(VerifyRequest(repo.path), NullObserver()).error is None


SUM_TEST = '#include <stdio.h>\nint main(void) { puts("t.c:2:adds:PASS\\n1 Tests 0 Failures 0 Ignored"); return 0; }\n'


@pytest.mark.skipif(not shutil.which("ctest") or not shutil.which("cc"), reason="needs ctest and cc")
def test_the_tests_of_a_patch_in_c_are_run(repo: Repo) -> None:
    """ctest names no source files, so the whole list is run; a failing case is reported by its name."""
    repo.write("CTestTestfile.cmake", 'add_test(sums "sh" "-c" "cc -o t tests/sum.c && ./t")\n')
    repo.write("tests/sum.c", SUM_TEST)
    repo.write("reflectloop.toml", '[[verify.checks]]\nname = "ctest"\nrun = ["ctest"]\n')
    repo.commit("a test")
    repo.write(
        "tests/sum.c",
        SUM_TEST.replace("1 Tests 0", "t.c:3:subtracts:FAIL: no\\n2 Tests 1").replace("return 0", "return 1"),
    )
    outcome = verify(VerifyRequest(repo.path), NullObserver())
    assert outcome.verdict is not None
    assert outcome.verdict.own[0].failing == ("sums", "sums::subtracts")


LIB = """/// Join words by hyphens.
///
/// ```
/// assert_eq!(m::kebab("C d"), "c-d");
/// ```
pub fn kebab(text: &str) -> String {
    text.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    macro_rules! t {
        ($name:ident : $given:expr => $wanted:expr) => {
            #[test]
            fn $name() {
                assert_eq!(super::kebab($given), $wanted)
            }
        };
    }

    t!(one: "A b" => "a-b");
}
"""


def rust_toolchain() -> str | None:
    """Return the folder of the real cargo: the one on PATH may be a link that looks for it in the HOME of a user."""
    if not shutil.which("rustc"):
        return None
    asked = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=False)
    return f"{asked.stdout.strip()}/bin" if asked.returncode == 0 else None


RUST = rust_toolchain()


@pytest.mark.skipif(RUST is None, reason="needs cargo")
def test_the_tests_inside_a_rust_source_judge_in_their_old_version(repo: Repo) -> None:
    repo.write("Cargo.toml", '[package]\nname = "m"\nversion = "0.1.0"\nedition = "2021"\n')
    repo.write("Cargo.lock", 'version = 3\n\n[[package]]\nname = "m"\nversion = "0.1.0"\n')
    repo.write("src/lib.rs", LIB)
    repo.write("reflectloop.toml", '[[verify.checks]]\nname = "cargo"\nrun = ["cargo", "test", "--offline"]\n')
    repo.commit("a library")
    caller = {**os.environ, "PATH": f"{RUST}:{os.environ['PATH']}"}
    repo.write("src/lib.rs", LIB.replace('"-")', '"_")').replace('"a-b"', '"a_b"').replace("c-d", "c_d"))
    changed = verify(VerifyRequest(repo.path, caller=caller), NullObserver())
    assert changed.verdict is not None
    assert changed.verdict.checks[0].sealed.counts.failed == 2
    assert [(finding.rule, finding.grade) for finding in changed.verdict.findings if finding.grade != "note"] == [
        ("expectation-changed", "suspect")
    ]
    fixed = (
        LIB.replace('("C d"), "c-d"', '("E f"), "e-f"')
        .replace("text.to_lower", "text.trim().to_lower")
        .replace("    t!(one", '    t!(two: " a" => "a");\n    t!(one')
    )
    repo.write("src/lib.rs", fixed)
    proven = verify(VerifyRequest(repo.path, track=Track.FIX, caller=caller), NullObserver())
    assert proven.error is None


@pytest.mark.skipif(not shutil.which("prove"), reason="needs prove")
def test_a_fix_in_perl_is_proven_by_its_new_test_and_a_broken_one_is_refused(repo: Repo) -> None:
    pager = "package Pager;\nsub pages { my ($all, $size) = @_; return int($all / $size); }\n1;\n"
    repo.write("cpanfile", "requires 'perl', '5.10';\n")
    repo.write("lib/Pager.pm", pager)
    repo.write("t/even.t", "use Test::More tests => 1;\nuse Pager;\nis(Pager::pages(10, 5), 2, 'even');\n")
    repo.commit("a distribution")
    repo.write("t/odd.t", "use Test::More tests => 1;\nuse Pager;\nis(Pager::pages(11, 5), 3, 'rounds up');\n")
    repo.write("lib/Pager.pm", pager.replace("$all / $size", "($all + $size - 1) / $size"))
    proven = verify(VerifyRequest(repo.path, track=Track.FIX), NullObserver())
    assert proven.error is None
    repo.write("lib/Pager.pm", pager.replace("int($all / $size)", "3"))
    broken = verify(VerifyRequest(repo.path, track=Track.FIX), NullObserver())
    assert broken.verdict is not None
    assert broken.verdict.checks[0].comparison.newly_failing == ("t/even.t::even",)
