"""Patches of both forms turn one text into another, or are refused with the place."""

from __future__ import annotations

import contextlib
import difflib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fileops_workspace import Place, fields
from reflectloop.fileops import patches
from support import Repo

BOTH = """\
*** Begin Patch
*** Add File: docs/new.md
+# New
+
*** Update File: src/numbers.txt
@@ line 3
-line 4
+line four
@@
 line 9
-line 10
+line ten
+line ten and a half
 line 11
*** Update File: src/app.py
*** Move to: src/main.py
@@
-print('hello')
+print('goodbye')
*** Delete File: README.md
*** End Patch
"""


def test_the_begin_patch_form_adds_updates_moves_and_deletes(place: Place) -> None:
    answer = place.ask({"op": "apply_patch", "patch": BOTH})
    assert answer.status == "ok", answer.fail
    assert place.text("docs/new.md") == "# New\n\n"
    numbers = place.text("src/numbers.txt").splitlines()
    assert numbers[3] == "line four"
    assert numbers[8:12] == ["line 9", "line ten", "line ten and a half", "line 11"]
    assert place.text("src/main.py") == "print('goodbye')\n"
    assert not (place.repo / "src/app.py").exists()
    assert not (place.repo / "README.md").exists()


def patched(before: str, patch: str, name: str = "f") -> str:
    made = patches.resulting_files(patches.parse_patch(patch), lambda path: before.encode() if path == name else None)
    content = made[name].content
    assert content is not None
    return content.decode()


def begun(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", "*** Update File: f", *lines, "*** End Patch"])


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        ("def f():\n\treturn 1  \n", ["@@", " def f():", "-    return 1", "+\treturn 2"], "def f():\n\treturn 2\n"),
        ("say “hi” – now\n", ["@@", '-say "hi" - now', "+done"], "done\n"),
        ("keep\u00a0me\nold\n", [" keep me", "-old", "+new"], "keep\u00a0me\nnew\n"),
        ("a\nx\nb\nx\n", ["@@ b", "-x", "+y"], "a\nx\nb\ny\n"),
        ("class A:\n  def f():\n    x\nclass B:\n  def f():\n    x\n", ["@@ class B:", "@@ def f():", "-    x", "+    y"],
         "class A:\n  def f():\n    x\nclass B:\n  def f():\n    y\n"),
        ("x\na\nx\n", ["@@", "-x", "+y", "*** End of File"], "x\na\ny\n"),
        ("a\nb\n", ["@@ a", "+between"], "a\nbetween\nb\n"),
        ("a\n", ["@@", "+last"], "a\nlast\n"),
        ("a\nb", ["@@", "-b", "+c"], "a\nc\n"),
        ("a\r\nb\r\n", ["@@", " a", "-b", "+c"], "a\r\nc\r\n"),
        ("a\nb\n", ["@@ -1,2 +1,2 @@", " a", "-b", "+c"], "a\nc\n"),
        ("a\nb\n", ["@@", " a", "-b", "+c", ""], "a\nc\n"),
    ],
)  # fmt: skip
def test_context_is_matched_with_tolerance(before: str, lines: list[str], after: str) -> None:
    assert patched(before, begun(*lines)) == after


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("hello", "neither"),
        ("*** Begin Patch\n*** End Patch\n", "neither"),
        ("*** Begin Patch\n*** Add File: a\n+x\n", "'*** End Patch' is missing"),
        (begun("@@", " a"), "changes nothing"),
        (begun("@@", "*a"), "begins with"),
        (begun(), "no change"),
        ("*** Begin Patch\n*** Add File: ../a\n+x\n*** End Patch", "must not contain '..'"),
        ("*** Begin Patch\n*** Add File: .git/config\n+x\n*** End Patch", "may not be read or written by a request"),
        ("*** Begin Patch\n*** Patch File: a\n+x\n*** End Patch", "heading is expected"),
        ("*** Begin Patch\n*** Delete File: a\n*** End Patch\nmore", "something follows"),
        ("--- a/f\n+++ b/../../f\n@@ -1 +1 @@\n-a\n+b\n", "must not contain '..'"),
        ("--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", "must be relative"),
        ("diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+/etc/passwd\n", "links"),
        ("diff --git a/f b/f\nGIT binary patch\nliteral 1\n", "binary"),
        ("@@ -1 +1 @@\n-a\n+b\n", "is not the heading of a hunk of a file"),
        ("--- a/f\n+++ b/f\n@@ what @@\n-a\n+b\n", "not the heading"),
    ],
)
def test_a_patch_that_cannot_be_read_is_refused_before_anything_is_done(patch: str, words: str, place: Place) -> None:
    before = place.state()
    answer = place.ask({"op": "write_file", "path": "x", "content": ""}, {"op": "apply_patch", "patch": patch})
    assert (answer.status, fields(answer)) == ("validation_error", ["ops[1].patch"])
    assert words in answer.errors[0].error
    assert place.state() == before


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        (begun("@@", "-nowhere", "+x"), "'f' does not exist"),
        (BOTH.replace("-line 10\n", "-line 10!\n"), "hunk 2: these lines are not there"),
        (BOTH.replace("@@ line 3", "@@ line 33"), "the line 'line 33' is not there"),
        ("*** Begin Patch\n*** Add File: README.md\n+x\n*** End Patch", "'README.md' already exists"),
    ],
)
def test_a_patch_that_does_not_fit_says_where_and_changes_nothing(patch: str, words: str, place: Place) -> None:
    before = place.state()
    answer = place.ask({"op": "apply_patch", "patch": patch})
    assert (answer.status, fields(answer)) == ("fail", ["ops[0].patch"])
    assert words in answer.errors[0].error
    assert place.state() == before


def test_unified_diffs_of_git_do_what_git_says(place: Place, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["git", "clone", "-q", str(tmp_path / "project"), str(copy)], check=True)
    other = Repo(copy)
    other.write("src/numbers.txt", "".join(f"line {n}\n" for n in range(3, 26)) + "no end")
    other.write("a folder/ünder.txt", "new\n")
    (copy / "README.md").unlink()
    (copy / "src/app.py").rename(copy / "src/main.py")
    other.write("tool.sh", "#!/bin/sh\n").chmod(0o755)
    other.git("add", "-A")
    patch = other.git("diff", "--cached", "--find-renames", "HEAD")
    assert "rename from" in patch
    answer = place.ask({"op": "apply_patch", "patch": patch})
    assert answer.status == "ok", answer.fail
    assert place.hands.workspace.tree == other.git("write-tree").strip()


@pytest.mark.parametrize(
    "patch",
    [
        "--- f\t2026-01-01 00:00:00\n+++ f\t2026-01-02 00:00:00\n@@ -2 +2 @@\n-b\n+B\n",
        "--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@ counts that are wrong\n a\n-b\n+B\n c\n",
        "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n a\n-b\n+B\n c\n",
        "--- a/f\n+++ b/f\n@@ -40,3 +40,3 @@\n a\n-b\n+B\n c\n",
        "some words first\n\ndiff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
    ],
)
def test_plain_diffs_and_wrong_counts_are_parsed(patch: str) -> None:
    assert patched("a\nb\nc\n", patch) == "a\nB\nc\n"


def test_of_several_matches_the_line_of_the_diff_is_chosen() -> None:
    before = "".join(f"{'  x' if number % 2 else 'y'}\n" for number in range(5000))
    for named in (3, 2500, 4999):
        after = patched(before, f"--- a/f\n+++ b/f\n@@ -{named},1 +{named},1 @@\n-\tx\n+z\n").split("\n")
        assert abs(after.index("z") + 1 - named) <= 1


LINES = st.lists(st.sampled_from(["a", "b", "", "  x", "-- x", "++ y", "@@", "é"]), max_size=12)


@given(LINES, LINES, st.booleans(), st.booleans(), st.integers(0, 3))
def test_a_unified_diff_of_two_texts_turns_one_into_the_other(
    old: list[str], new: list[str], old_ends: bool, new_ends: bool, around: int
) -> None:
    before, after = (_joined(lines, ends=ends) for lines, ends in ((old, old_ends), (new, new_ends)))
    diff = [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(before.splitlines(True), after.splitlines(True), "a/f", "b/f", n=around)
    ]
    if diff:
        assert patched(before, "".join(diff)) == after


def _joined(lines: list[str], *, ends: bool) -> str:
    text = "\n".join(lines)
    return text + "\n" if ends and text else text


@settings(max_examples=50)
@given(st.text(alphabet="*- +@ab\n", max_size=60))
def test_any_text_as_a_patch_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(patches.PatchUnfit):
        patches.parse_patch("*** Begin Patch\n*** Update File: f\n" + text)
    with contextlib.suppress(patches.PatchUnfit):
        patches.parse_patch("--- f\n+++ f\n@@ -1 +1 @@\n" + text)
