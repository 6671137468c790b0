"""FileOps: what a request may do, what it may not, and that a request which fails has done nothing."""

from __future__ import annotations

import contextlib
import ctypes
import difflib
import hashlib
import json
import os
import random
import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflectloop.box import walls
from reflectloop.box.box import Box
from reflectloop.config import Config
from reflectloop.errors import SecretLeak
from reflectloop.fileops import execute as executing
from reflectloop.fileops import patches, paths, reading, validate
from reflectloop.fileops.hands import Asked, Data, Hands, Notebook, Refusal, Seen, SplitAsked
from reflectloop.fileops.reach import Barred, opened
from reflectloop.fileops.request import LARGEST_CONTENT, MOST_OPS, Request
from reflectloop.fileops.response import Response
from reflectloop.fileops.schema import request_schema, response_schema
from reflectloop.fileops.validate import Invalid
from reflectloop.policy import Policy, shipped
from reflectloop.state import lock
from reflectloop.terms import Isolation
from reflectloop.workspace import checkout, project, snapshot
from reflectloop.workspace.store import open_for
from support import Repo

ROOT = Path(__file__).resolve().parent.parent
TOKEN = "sk-" + "q1w2e3r4t5y6u7i8o9p0"


class Plan:
    """A domain as the engine's own is one: what is done holds once it is kept."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.pending: list[str] = []
        self.seen: list[Seen] = []
        self.stop: Exception | None = None
        self.on_take_back: Callable[[], None] = lambda: None

    def _do(self, op: Any, seen: Seen) -> Data:
        if self.stop:
            raise self.stop
        self.pending.append(op.op)
        self.seen.append(seen)
        return {"done": op.op}

    plan_init = preflight = finalize = mark_blocked = apply_split = append_steps = _do

    def keep(self) -> None:
        self.kept += self.pending
        self.pending = []

    def take_back(self) -> None:
        self.pending = []
        self.on_take_back()


class Place:
    """Hands on a real workspace of a real repository."""

    def __init__(self, hands: Hands, plan: Plan) -> None:
        self.hands, self.plan, self.repo = hands, plan, hands.workspace.repo
        self.count = 0

    def ask(self, *ops: Any, **more: Any) -> Response:
        self.count += 1
        said = {"proto": "triflow.fileops.v1", "id": f"R-{self.count}", "purpose": "execute_step", "ops": list(ops)}
        return self.send({**said, **more})

    def send(self, value: Any, *, strict: bool = False) -> Response:
        return executing.answer(json.dumps(value).encode(), self.hands, strict=strict)

    def state(self) -> dict[str, Any]:
        """Every file of the workspace, recorded or not, and the throwaway repository too."""
        found: dict[str, Any] = {}
        for folder, folders, names in os.walk(self.repo):
            for name in names + [one for one in folders if os.path.islink(os.path.join(folder, one))]:
                path = os.path.join(folder, name)
                shown = os.path.relpath(path, self.repo)
                found[shown] = os.readlink(path) if os.path.islink(path) else _digest(path)
        return found

    def text(self, name: str) -> str:
        return (self.repo / name).read_text()


def _digest(path: str) -> str:
    if not os.path.isfile(path):
        return "special"
    return f"{os.stat(path).st_mode:o} {hashlib.sha256(Path(path).read_bytes()).hexdigest()}"


@contextlib.contextmanager
def place_in(repo: Repo, tmp_path: Path, strongest: Isolation = Isolation.FULL, **more: Any) -> Iterator[Place]:
    config = Config()
    found = project.open_at(repo.path)
    store = open_for(found, config.workspace)
    scratch = found.folder / "tmp"
    scratch.mkdir(exist_ok=True)
    wall = walls.reach(Isolation.WORKSPACE, strongest)
    space = checkout.create(
        found,
        store,
        snapshot.take(found, store, scratch),
        name="RLOP-20260101-abcdef",
        root=checkout.sandbox_root(found, None),
        carry=more.pop("carry", config.workspace),
        mounted=wall.mounted,
        bound=wall.by == "bubblewrap",
    )
    plan = Plan()
    box = Box.by(config, space, dict(os.environ), wall, None)
    hands = Hands(space, box, plan, Notebook(), tmp_path / "logs", **more)
    try:
        yield Place(hands, plan)
    finally:
        hands.close()
        space.close()


@pytest.fixture
def place(repo: Repo, tmp_path: Path) -> Iterator[Place]:
    repo.write(".gitignore", "build/\n*.log\n")
    repo.write("src/numbers.txt", "".join(f"line {number}\n" for number in range(1, 21)))
    repo.commit("more")
    with place_in(repo, tmp_path) as made:
        yield made


def fields(answer: Response) -> list[str]:
    return [one.field for one in answer.errors]


# Each op ------------------------------------------------------------------------------------------------------------


def test_files_are_read_by_lines_and_binary_ones_are_named_as_such(place: Place) -> None:
    (place.repo / "picture.bin").write_bytes(b"\x00\xff\x00")
    answer = place.ask(
        {"op": "read_file", "path": "src/numbers.txt", "startLine": 2, "endLine": 3},
        {"op": "read_file", "path": "./src//app.py"},
        {"op": "read_file", "path": "picture.bin"},
    )
    assert answer.status == "ok"
    assert answer.data["0"] == {**_read(place, "src/numbers.txt"), "content": "line 2\nline 3\n"}
    assert _read(place, "src/app.py") == answer.data["1"]
    assert isinstance(answer.data["2"], dict)
    assert answer.data["2"]["binary"] is True
    assert "content" not in answer.data["2"]
    assert answer.changedFiles == ()  # what was there before is none of the request's


def _read(place: Place, name: str) -> dict[str, Any]:
    raw = (place.repo / name).read_bytes()
    return {
        "path": name,
        "size": len(raw),
        "sha256": hashlib.sha256(raw).hexdigest(),
        "lines": raw.count(b"\n"),
        "content": raw.decode(),
        "truncated": False,
    }


def test_writing_makes_folders_keeps_modes_and_says_what_changed(place: Place) -> None:
    (place.repo / "tool.sh").write_text("#!/bin/sh\n")
    (place.repo / "tool.sh").chmod(0o755)
    answer = place.ask(
        {"op": "write_file", "path": "new/deep/a.txt", "content": "ä\n"},
        {"op": "write_json", "path": "new/b.json", "value": {"键": [1, True, None]}},
        {"op": "write_file", "path": "tool.sh", "content": "#!/bin/sh\nexit 0\n"},
        report={"changedFiles": True, "diffSummary": True},
    )
    assert answer.status == "ok"
    assert place.text("new/deep/a.txt") == "ä\n"
    assert json.loads(place.text("new/b.json")) == {"键": [1, True, None]}
    assert (place.repo / "tool.sh").stat().st_mode & 0o777 == 0o755
    assert set(answer.changedFiles) == {"new/deep/a.txt", "new/b.json", "tool.sh"}
    assert {"path": "new/b.json", "change": "added", "from": None} in answer.data["diffSummary"]  # type: ignore[operator]
    assert [one.status for one in answer.ops] == ["ok"] * 3
    silent = place.ask({"op": "write_file", "path": "c", "content": ""}, report={"changedFiles": False})
    assert (silent.status, silent.changedFiles) == ("ok", ())


def test_a_file_is_replaced_and_not_written_into_its_other_names(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("mine\n")
    os.link(outside, place.repo / "twin.txt")
    assert place.ask({"op": "write_file", "path": "twin.txt", "content": "theirs\n"}).status == "ok"
    assert outside.read_text() == "mine\n"


def test_files_are_deleted_and_moved_and_nothing_is_moved_over_another(place: Place) -> None:
    answer = place.ask(
        {"op": "move_file", "from": "src/app.py", "to": "lib/main.py"}, {"op": "delete_file", "path": "README.md"}
    )
    assert answer.status == "ok"
    assert set(answer.changedFiles) == {"src/app.py", "lib/main.py", "README.md"}
    assert place.text("lib/main.py") == "print('hello')\n"
    refused = place.ask({"op": "move_file", "from": "lib/main.py", "to": "src/numbers.txt"})
    assert (refused.status, fields(refused)) == ("fail", ["ops[0].from"])
    assert "there already" in refused.errors[0].error


def test_folders_are_listed_without_what_is_ours_and_within_limits(place: Place) -> None:
    (place.repo / "link").symlink_to("/etc")
    found = place.ask({"op": "list_dir", "depth": 2}).data["0"]
    assert isinstance(found, dict)
    listed = {one["path"]: one["kind"] for one in found["entries"]}  # type: ignore[index, union-attr, call-overload]
    assert listed == {
        ".gitignore": "file",
        "README.md": "file",
        "link": "link",
        "src": "folder",
        "src/app.py": "file",
        "src/numbers.txt": "file",
    }
    few = place.ask({"op": "list_dir", "path": "src", "maxEntries": 1}).data["0"]
    assert isinstance(few, dict)
    assert (len(few["entries"]), few["truncated"]) == (1, True)  # type: ignore[arg-type]


def test_search_finds_text_and_expressions_within_limits(place: Place) -> None:
    def lines(**more: Any) -> tuple[list[int], bool]:
        answer = place.ask({"op": "search", "path": "src", **more})
        found = answer.data["0"]
        assert isinstance(found, dict)
        return [one["line"] for one in found["matches"]], bool(found["truncated"])  # type: ignore[index, union-attr, call-overload, misc]

    assert lines(pattern="LINE 1.", glob="*.txt") == ([], False)
    assert lines(pattern="LINE 1$", regex=True, ignoreCase=True) == ([1], False)
    assert lines(pattern="line 1", glob="*.txt") == ([1, *range(10, 20)], False)
    assert lines(pattern="line", maxResults=3) == ([1, 2, 3], True)
    assert lines(pattern="line", glob="*.py") == ([], False)
    assert lines(pattern="line 20", glob="src/**/num?ers.*") == ([20], False)
    assert lines(pattern="line 20", glob="*n" * 100 + "b") == ([], False)
    broken = place.ask({"op": "search", "pattern": "(", "regex": True})
    assert (broken.status, fields(broken)) == ("validation_error", ["ops[0].pattern"])


def test_commands_run_in_the_box_and_their_output_is_proof(place: Place) -> None:
    answer = place.ask(
        {"op": "run", "cmd": ["sh", "-c", "pwd; echo made > made.txt"], "cwd": "src"},
        {"op": "run", "cmd": "echo one | tr a-z A-Z"},
        report={"commandOutputs": "always"},
    )
    assert answer.status == "ok", answer.fail
    assert [one.exitCode for one in answer.proof.commands] == [0, 0]
    assert answer.proof.commands[0].stdout.endswith("/src\n")
    assert answer.proof.commands[1].stdout == "ONE\n"
    assert answer.changedFiles == ("src/made.txt",)


@pytest.mark.parametrize(
    ("wanted", "shown"), [("always", ["good", "bad"]), ("on_failure", ["", "bad"]), ("never", ["", ""])]
)
def test_outputs_are_answered_as_the_report_asks(place: Place, wanted: str, shown: list[str]) -> None:
    answer = place.ask(
        {"op": "run", "cmd": "echo good"},
        {"op": "run", "cmd": "echo bad; exit 4"},
        report={"commandOutputs": wanted},
    )
    assert (answer.status, answer.proof.commands[1].exitCode) == ("fail", 4)
    assert [one.stdout.strip() for one in answer.proof.commands] == shown


def test_a_command_past_its_time_fails_its_op_and_one_without_network_has_none(place: Place) -> None:
    slow = place.ask({"op": "run", "cmd": "sleep 20", "timeoutMs": 300})
    assert (slow.status, fields(slow)) == ("fail", ["ops[0].timeoutMs"])
    with socket.create_server(("127.0.0.1", 0)) as server:
        knock = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        answer = place.ask({"op": "run", "cmd": knock}, constraints={"no_network": True})
    assert answer.status == "fail"


def test_a_command_that_waits_for_input_is_a_question(place: Place) -> None:
    place.hands.box.idle_s = 1
    answer = place.ask({"op": "write_file", "path": "a", "content": ""}, {"op": "run", "cmd": "sleep 60"})
    assert answer.status == "ask"
    assert answer.ask
    assert "wait for input" in str(answer.ask["question"])
    assert not (place.repo / "a").exists()


def test_no_network_is_refused_where_it_cannot_be_promised(repo: Repo, tmp_path: Path) -> None:
    with place_in(repo, tmp_path, Isolation.WORKSPACE) as place:
        answer = place.ask({"op": "run", "cmd": "true"}, constraints={"no_network": True})
        assert (answer.status, fields(answer)) == ("validation_error", ["constraints.no_network"])
        assert place.ask({"op": "run", "cmd": "true"}).status == "ok"


# Patches ------------------------------------------------------------------------------------------------------------

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
    made = patches.outcome(patches.read(patch), lambda path: before.encode() if path == name else None)
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
def test_context_is_searched_as_forgivingly_as_its_users_expect(before: str, lines: list[str], after: str) -> None:
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
        ("*** Begin Patch\n*** Add File: ../a\n+x\n*** End Patch", "must not hold '..'"),
        ("*** Begin Patch\n*** Add File: .git/config\n+x\n*** End Patch", "not a request's"),
        ("*** Begin Patch\n*** Patch File: a\n+x\n*** End Patch", "heading is expected"),
        ("*** Begin Patch\n*** Delete File: a\n*** End Patch\nmore", "something follows"),
        ("--- a/f\n+++ b/../../f\n@@ -1 +1 @@\n-a\n+b\n", "must not hold '..'"),
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
        (begun("@@", "-nowhere", "+x"), "'f' is not there"),
        (BOTH.replace("-line 10\n", "-line 10!\n"), "hunk 2: these lines are not there"),
        (BOTH.replace("@@ line 3", "@@ line 33"), "the line 'line 33' is not there"),
        ("*** Begin Patch\n*** Add File: README.md\n+x\n*** End Patch", "'README.md' is there already"),
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
def test_plain_diffs_and_wrong_counts_are_read_all_the_same(patch: str) -> None:
    assert patched("a\nb\nc\n", patch) == "a\nB\nc\n"


def test_of_many_places_that_fit_the_one_a_diff_names_is_taken() -> None:
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
def test_any_text_given_as_a_patch_is_read_or_refused_and_nothing_else(text: str) -> None:
    with contextlib.suppress(patches.Unfit):
        patches.read("*** Begin Patch\n*** Update File: f\n" + text)
    with contextlib.suppress(patches.Unfit):
        patches.read("--- f\n+++ f\n@@ -1 +1 @@\n" + text)


# The plan's own ops --------------------------------------------------------------------------------------------------


def test_the_six_ops_on_the_plan_reach_the_domain_with_what_the_engine_saw(place: Place) -> None:
    ops: list[dict[str, Any]] = [
        {"op": "triflow_plan_init", "taskName": "T", "steps": ["one", {"title": "two", "checks": ["make test"]}]},
        {"op": "triflow_state_preflight", "step": 1},
        {"op": "run", "cmd": "echo x > proof.txt"},
        {"op": "triflow_state_finalize", "verification": "verify_pointer_moved"},
        {"op": "triflow_state_mark_blocked", "reason": "no key", "unblock": "a key"},
        {"op": "triflow_state_apply_split", "substeps": ["a", "b", "c"]},
        {"op": "triflow_state_append_steps", "steps": ["a", "b"]},
    ]
    answer = place.ask(*ops)
    assert answer.status == "ok", answer.errors
    assert place.plan.kept == [op["op"] for op in ops if op["op"] != "run"]
    assert answer.data["3"] == {"done": "triflow_state_finalize"}
    before, after = place.plan.seen[1], place.plan.seen[2]
    assert before.tree == before.begun != after.tree
    assert [one.exitCode for one in after.commands] == [0]


def test_a_request_as_triflow_writes_it_is_strictly_valid() -> None:
    raw = """{"proto": "triflow.fileops.v1", "id": "TR-FINALIZE", "purpose": "finalize_step",
      "summary": "完成当前步骤并推进状态", "done": ["状态更新为 done", "指针移动到下一步"],
      "ops": [{"op": "triflow_state_finalize", "verification": "verify_pointer_moved"},
              {"op": "run", "cmd": "python3 automation/autoloop.py --once"}],
      "report": {"changedFiles": true}}"""
    assert len(validate.parse(raw.encode(), strict=True).ops) == 2


@pytest.mark.parametrize(
    ("op", "field"),
    [
        ({"op": "triflow_plan_init"}, "ops[0]"),
        ({"op": "triflow_plan_init", "plan": "p.yaml", "steps": ["a"], "taskName": "T"}, "ops[0]"),
        ({"op": "triflow_plan_init", "steps": ["a"]}, "ops[0].taskName"),
        ({"op": "triflow_plan_init", "taskName": "T", "steps": [{"titel": "a"}]}, "ops[0].steps[0].titel"),
        ({"op": "triflow_state_preflight", "step": []}, "ops[0].step"),
        ({"op": "triflow_state_finalize", "evidence": "it works"}, "ops[0].evidence"),
        ({"op": "triflow_state_mark_blocked", "reason": "r"}, "ops[0].unblock"),
        ({"op": "triflow_state_apply_split", "substeps": ["a", "b"]}, "ops[0].substeps"),
        ({"op": "triflow_state_apply_split", "substeps": list("abcdefgh")}, "ops[0].substeps"),
        ({"op": "triflow_state_append_steps", "steps": []}, "ops[0].steps"),
        ({"op": "triflow_state_append_steps", "steps": ["a", "b", "c"]}, "ops[0].steps"),
    ],
)
def test_an_op_on_the_plan_that_says_too_little_or_too_much_is_refused(op: Any, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        validate.check({"proto": "triflow.fileops.v1", "id": "x", "purpose": "finalize_step", "ops": [op]})
    assert field in fields(refused.value.response)


@pytest.mark.parametrize(
    ("stop", "status"),
    [(Refusal("not now", hint="later"), "fail"), (Asked("which?"), "ask"), (SplitAsked("too large"), "split")],
)
def test_what_the_domain_refuses_undoes_the_rest(place: Place, stop: Exception, status: str) -> None:
    before = place.state()
    place.plan.stop = stop
    answer = place.ask({"op": "write_file", "path": "a", "content": "a"}, {"op": "triflow_state_preflight"})
    assert answer.status == status
    assert fields(answer) == ["ops[1].op"]
    assert [one is not None for one in (answer.fail, answer.ask, answer.split)] == [
        one == status for one in ("fail", "ask", "split")
    ]
    assert place.state() == before
    assert [one.status for one in answer.ops] == ["undone", "fail"]


def test_what_was_done_to_the_plan_is_taken_back_when_a_later_op_fails(place: Place) -> None:
    answer = place.ask({"op": "triflow_state_finalize"}, {"op": "run", "cmd": "exit 1"})
    assert answer.status == "fail"
    assert (place.plan.kept, place.plan.pending) == ([], [])


# Validation -----------------------------------------------------------------------------------------------------------


def test_everything_that_is_wrong_is_said_at_once_with_its_field() -> None:
    raw = b"""{"proto": "triflow.fileops.v2", "purpose": "execute_steps", "sumary": "s", "id": "a", "id": "b",
      "ops": [{"op": "write_fil", "path": "a"}, {"op": "write_file", "path": "../a", "contnt": "x"}, {"path": "a"}, 7,
              {"op": "run", "cmd": "a\\u0000b", "timeoutMs": "9"},
              {"op": "write_file", "path": "src2/a", "content": ""}, {"op": "search", "pattern": "(", "regex": true}],
      "constraints": {"writable_roots": ["src"], "max_attempts": 0}}"""
    with pytest.raises(Invalid) as refused:
        validate.parse(raw, strict=True)
    answer = refused.value.response
    assert answer.status == "validation_error"
    found = {one.field: one.error for one in answer.errors}
    assert set(found) == {
        "constraints.max_attempts",
        "done",
        "id",
        "ops[0].op",
        "ops[1].content",
        "ops[1].contnt",
        "ops[1].path",
        "ops[2].op",
        "ops[3]",
        "ops[4].cmd",
        "ops[4].timeoutMs",
        "ops[5].path",
        "ops[6].pattern",
        "proto",
        "purpose",
        "report",
        "sumary",
        "summary",
    }
    assert "did you mean 'write_file'?" in found["ops[0].op"]
    assert "did you mean 'content'?" in found["ops[1].contnt"]
    assert "did you mean 'summary'?" in found["sumary"]
    assert "stands twice" in found["id"]
    assert "outside writable_roots" in found["ops[5].path"]


BAD_PATHS = [
    "",
    ".",
    "a/",
    "/etc/passwd",
    "//server/share/a",
    "\\\\server\\share\\a",
    "C:\\a",
    "c:/a",
    "C:a",
    "a\\b",
    "~/a",
    "~root/a",
    "../a",
    "a/../../b",
    "a/../b",
    "a/..",
    "a\0b",
    "a\nb",
    ".git",
    ".git/config",
    "a/.git/hooks/x",
    ".GIT/config",
    ".Git",
    ".git./config",
    ".git /config",
    ".git::$INDEX_ALLOCATION/config",
    ".g\u200cit/config",
    "git~1/config",
    "．git/config",
    ".reflectloop/latch.json",
    ".ReflectLoop/lock",
    ".claude/state/x",
    "a" * 256,
    "a/" * 2000 + "b",
    "\ud800",
]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_path_that_is_none_of_the_workspaces_files_is_refused(path: str) -> None:
    ops = [
        {"op": "read_file", "path": path},
        {"op": "write_file", "path": path, "content": "x"},
        {"op": "write_json", "path": path, "value": 1},
        {"op": "delete_file", "path": path},
        {"op": "move_file", "from": path, "to": "b"},
        {"op": "move_file", "from": "b", "to": path},
    ]
    folders = [
        {"op": "list_dir", "path": path},
        {"op": "search", "pattern": "x", "path": path},
        {"op": "run", "cmd": "ls", "cwd": path},
    ]
    ops += folders if path not in (".", "a/") else []
    said = {"proto": "triflow.fileops.v1", "id": "x", "purpose": "execute_step", "ops": ops}
    with pytest.raises(Invalid) as refused:
        validate.parse(json.dumps(said).encode())
    keys = ["path"] * 4 + ["from", "to"] + (["path", "path", "cwd"] if path not in (".", "a/") else [])
    assert {f"ops[{number}].{key}" for number, key in enumerate(keys)} <= set(fields(refused.value.response))


def test_paths_like_the_refused_ones_are_let_stand() -> None:
    for path in (
        ".gitignore",
        ".github/workflows/x.yml",
        "a..b",
        "...",
        "git/config",
        "x.git/config",
        ".claude/skills",
        "a b/ü",
    ):
        assert paths.fault_in(path) is None, path
    assert paths.is_within("src/a", ["src"])
    assert not paths.is_within("srcs/a", ["src"])
    assert not paths.is_within("SRC/a", ["src"])


@pytest.mark.parametrize(
    ("around", "found"),
    [
        ("{}", True),
        ("\ufeff{}", True),
        ("```json\n{}\n```", True),
        ("Sure! Here is {{it}} and a {{}}:\n\n```json\n{}\n```\nDone {{:.}}", True),
        ("{}\n\nand again:\n{}", True),
        ("no request", False),
        ('{{"proto": 1,}} {}', False),
        ('{{"a": [1,, {}]}}', False),
        ('{} {{"proto": "other", "ops": []}}', False),
    ],
)
def test_one_request_is_read_out_of_a_reply_and_none_out_of_a_broken_object(around: str, found: bool) -> None:
    said = json.dumps(
        {"proto": "triflow.fileops.v1", "id": "x", "purpose": "execute_step", "ops": [{"op": "list_dir"}]}
    )
    raw = around.format(said, said).encode()
    if found:
        assert validate.parse(raw).id == "x"
    else:
        with pytest.raises(Invalid) as refused:
            validate.parse(raw)
        assert fields(refused.value.response) == ["(request)"]


def test_sizes_and_depths_are_limited_before_anything_is_built() -> None:
    class Unread(bytes):
        def decode(self, *_: Any, **__: Any) -> str:
            raise AssertionError("it was looked at")

    def refusal(raw: bytes) -> str:
        with pytest.raises(Invalid) as refused:
            validate.parse(raw)
        (error,) = refused.value.response.errors
        return f"{error.field}: {error.error}"

    assert refusal(Unread(b" " * (200 << 20))) == "(request): has more than 32 MB"
    assert "nested deeper" in refusal(b'{"ops":' * 100_000)
    assert "nested deeper" in refusal(b'{"ops": ' + b"[" * 100 + b"]" * 100 + b"}")
    assert "not UTF-8" in refusal(b'{"ops": "\xff"}')
    assert "NaN" in refusal(b'{"ops": NaN}')
    assert "more than 20000 values" in refusal(b'{"ops": [' + b"0," * 30_000 + b"0]}")
    assert reading.LARGEST < 200 << 20
    head: dict[str, Any] = {"proto": "triflow.fileops.v1", "id": "x", "purpose": "execute_step"}
    for ops, field in (
        ([], "ops"),
        ([{"op": "list_dir"}] * (MOST_OPS + 1), "ops"),
        ([{"op": "write_file", "path": "a", "content": "x" * (LARGEST_CONTENT + 1)}], "ops[0].content"),
        ([{"op": "write_json", "path": "a", "value": ["x" * LARGEST_CONTENT]}], "ops[0].value"),
        ([{"op": "write_json", "path": "a", "value": float("inf")}], "ops[0].value"),
        ([{"op": "run", "cmd": "x" * 10**6}], "ops[0].cmd"),
    ):
        with pytest.raises(Invalid) as refused:
            validate.check({**head, "ops": ops})
        assert fields(refused.value.response) == [field]


def test_a_request_to_read_state_changes_nothing(place: Place) -> None:
    assert place.ask({"op": "triflow_state_preflight"}, {"op": "list_dir"}, purpose="read_state").status == "ok"
    answer = place.ask({"op": "list_dir"}, {"op": "run", "cmd": "true"}, purpose="read_state")
    assert (answer.status, fields(answer)) == ("validation_error", ["ops[1].op"])


@pytest.mark.parametrize("command", ["cd x && rm -rf ~", "bash -c 'rm -rf /'", ["sudo", "rm", "-r", "/*"]])
def test_a_command_that_the_policy_denies_is_refused_before_anything_is_done(place: Place, command: Any) -> None:
    before = place.state()
    answer = place.ask({"op": "write_file", "path": "a", "content": ""}, {"op": "run", "cmd": command})
    assert (answer.status, fields(answer)) == ("validation_error", ["ops[1].cmd"])
    assert "(rm.machine)" in answer.errors[0].error
    assert place.state() == before


def test_a_command_that_only_a_person_may_let_run_is_a_question_and_nothing_was_done(place: Place) -> None:
    before = place.state()
    answer = place.ask({"op": "write_file", "path": "a", "content": ""}, {"op": "run", "cmd": "git push --force"})
    assert (answer.status, fields(answer)) == ("ask", ["ops[1].cmd"])
    assert answer.ask is not None
    assert answer.ask["rule"] == "git.push-force"
    assert answer.ask["allow"] == '[policy] allow = ["git.push-force"] in reflectloop.toml'
    assert place.state() == before


def test_what_harms_a_copy_only_is_carried_out(place: Place) -> None:
    assert (
        place.ask({"op": "run", "cmd": "mkdir -p old/x && rm -rf old && find . -name '*.none' -delete"}).status == "ok"
    )


def test_a_request_that_was_made_and_not_read_is_looked_at_all_the_same(place: Place) -> None:
    made = Request.model_validate(
        {
            "proto": "triflow.fileops.v1",
            "id": "made",
            "purpose": "execute_step",
            "ops": [
                {"op": "search", "pattern": "(", "regex": True},
                {"op": "write_file", "path": "build/a", "content": ""},
            ],
            "constraints": {"writable_roots": ["src"]},
        }
    )
    answer = executing.execute(made, place.hands)
    assert (answer.status, fields(answer)) == ("validation_error", ["ops[0].pattern", "ops[1].path"])


def test_a_large_value_is_written_though_a_request_has_few(place: Place) -> None:
    assert place.ask({"op": "write_json", "path": "a.json", "value": [0] * 50_000}).status == "ok"
    assert json.loads(place.text("a.json")) == [0] * 50_000


def test_many_faults_and_long_names_make_no_long_answer() -> None:
    many = {f"key{number}{'x' * 1000}": 1 for number in range(5000)}
    raw = json.dumps({"proto": "triflow.fileops.v1", "id": "i" * 10**6, "ops": [], **many}).encode()
    with pytest.raises(Invalid) as refused:
        validate.parse(raw)
    assert len(json.dumps(refused.value.response.as_json())) < 500_000
    assert refused.value.response.errors[-1].error == "has more faults than these"


def test_the_rules_that_the_hands_were_given_are_the_ones_that_hold(place: Place) -> None:
    place.hands.policy = Policy(shipped.rules(), frozenset(["git.push-force"])).in_workspace
    answer = place.ask({"op": "run", "cmd": "git push --force || true"})
    assert answer.status == "ok", answer.errors


# All or nothing --------------------------------------------------------------------------------------------------------


def test_an_op_that_fails_in_the_middle_of_ten_undoes_the_five_before_it(place: Place) -> None:
    first = place.ask(
        {"op": "run", "cmd": "mkdir -p build/empty && echo old > build/out && echo old > app.log && chmod 600 app.log"},
        {"op": "run", "cmd": "git -c user.name=x -c user.email=x@y commit -qam mine --allow-empty"},
    )
    assert first.status == "ok", first.fail
    before = place.state()
    answer = place.ask(
        {"op": "write_file", "path": "src/app.py", "content": "broken"},
        {"op": "delete_file", "path": "build/out"},
        {"op": "move_file", "from": "app.log", "to": "other.log"},
        {
            "op": "run",
            "cmd": "rm -rf src build .git/refs; ln -s /etc build; mkdir deep; cp -r /bin/sh deep; git init -q nested",
        },
        {"op": "write_json", "path": "x/y/z.json", "value": {}},
        {"op": "run", "cmd": "exit 7"},
        *({"op": "write_file", "path": f"never{number}", "content": ""} for number in range(4)),
    )
    assert answer.status == "fail"
    assert answer.fail
    assert answer.fail.reason == "exit 7: exited 7"
    assert fields(answer) == ["ops[5].cmd"]
    assert [one.status for one in answer.ops] == ["undone"] * 5 + ["fail"] + ["skipped"] * 4
    assert answer.changedFiles == ()
    assert place.state() == before
    assert (place.repo / "build/empty").is_dir()
    assert (
        place.ask(
            {"op": "run", "cmd": "git status --short; git log -1 --format=%s"}, report={"commandOutputs": "always"}
        )
        .proof.commands[0]
        .stdout
        == "mine\n"
    )


def test_a_request_that_touched_only_ignored_files_is_rolled_back_too(place: Place) -> None:
    made = place.ask(
        {"op": "write_file", "path": "build/a", "content": "1"}, {"op": "write_file", "path": "build/b", "content": "1"}
    )
    assert made.status == "ok"
    assert made.changedFiles == ()
    assert "build/a" in made.proof.notes[0]
    before, tree = place.state(), place.hands.workspace.tree
    for _ in range(2):  # the second time from the copies that the first time gave back
        answer = place.ask(
            {"op": "write_file", "path": "build/a", "content": "2"},
            {"op": "delete_file", "path": "build/b"},
            {"op": "write_file", "path": "build/c", "content": "2"},
            {"op": "read_file", "path": "nowhere"},
        )
        assert (answer.status, fields(answer)) == ("fail", ["ops[3].path"])
        assert place.state() == before
        assert place.hands.workspace.tree == tree


def test_copied_folders_are_rolled_back_as_well(repo: Repo, tmp_path: Path) -> None:
    repo.write(".gitignore", "/vendor\n")
    repo.commit("ignore")
    repo.write("vendor/lib/x.py", "x = 1\n")
    carry = Config().workspace.model_copy(update={"carry_copy": ("vendor",)})
    with place_in(repo, tmp_path, carry=carry) as place:
        before = place.state()
        assert "vendor/lib/x.py" in before
        answer = place.ask({"op": "run", "cmd": "rm -r vendor/lib; echo > vendor/y; exit 1"})
        assert answer.status == "fail"
        assert place.state() == before


def test_commands_may_change_only_what_the_request_may_write(place: Place) -> None:
    before = place.state()
    answer = place.ask(
        {"op": "run", "cmd": "echo x > src/new.txt; echo x > outside.txt"}, constraints={"writable_roots": ["src"]}
    )
    assert answer.status == "fail"
    assert "outside.txt" in answer.errors[0].error
    assert place.state() == before
    assert (
        place.ask({"op": "run", "cmd": "echo x > src/new.txt"}, constraints={"writable_roots": ["src/"]}).status == "ok"
    )
    place.hands.writable = ("docs",)
    barred = place.ask({"op": "write_file", "path": "src/a", "content": ""})
    assert (barred.status, fields(barred)) == ("validation_error", ["ops[0].path"])


def test_the_same_request_is_answered_once_and_another_under_its_id_is_refused(place: Place) -> None:
    request = {
        "proto": "triflow.fileops.v1",
        "id": "same",
        "purpose": "execute_step",
        "ops": [{"op": "run", "cmd": "echo x >> count.txt"}],
    }
    first = place.send(request)
    assert place.send({**request, "summary": ""}) == first
    assert place.text("count.txt") == "x\n"
    other = place.send({**request, "summary": "another"})
    assert (other.status, fields(other)) == ("validation_error", ["id"])
    invalid = {**request, "id": "mended", "ops": []}
    assert place.send(invalid).status == "validation_error"
    assert place.send({**invalid, "ops": [{"op": "list_dir"}]}).status == "ok"


def test_failed_tries_of_a_purpose_are_counted(place: Place) -> None:
    limited = {"constraints": {"max_attempts": 2}}
    for _ in range(2):
        assert place.ask({"op": "run", "cmd": "exit 1"}, **limited).status == "fail"
    spent = place.ask({"op": "list_dir"}, **limited)
    assert (spent.status, fields(spent)) == ("fail", ["constraints.max_attempts"])
    assert place.ask({"op": "list_dir"}, purpose="split_step", **limited).status == "ok"
    assert place.ask({"op": "list_dir"}).status == "ok"
    assert place.ask({"op": "list_dir"}, **limited).status == "ok"


# Secrets ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op",
    [
        {"op": "write_file", "path": "build/a", "content": f"key = {TOKEN}\n"},
        {"op": "write_json", "path": "a.json", "value": {"key": TOKEN}},
        {"op": "apply_patch", "patch": f"*** Begin Patch\n*** Add File: a\n+key = {TOKEN}\n*** End Patch\n"},
        {"op": "run", "cmd": f"echo key = {TOKEN}"},
        {"op": "run", "cmd": f"echo key = {TOKEN} > a"},
    ],
)
# A command that is stopped for what it prints leaves a pipe to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_secret_stops_the_request_and_is_written_nowhere(place: Place, op: Any) -> None:
    before = place.state()
    with pytest.raises(SecretLeak):
        place.ask({"op": "write_file", "path": "b", "content": "b"}, op)
    assert place.state() == before
    assert place.hands.memory.recall("R-1") is None


def test_a_secret_that_is_there_already_is_let_stand_and_never_answered(repo: Repo, tmp_path: Path) -> None:
    repo.write("old.txt", f"key = {TOKEN}\nnext\n")
    repo.commit("too late")
    with place_in(repo, tmp_path) as place:
        answer = place.ask(
            {"op": "read_file", "path": "old.txt"},
            {"op": "search", "pattern": "key"},
            {
                "op": "apply_patch",
                "patch": "*** Begin Patch\n*** Update File: old.txt\n@@\n-next\n+later\n*** End Patch",
            },
        )
        assert answer.status == "ok"
        assert TOKEN not in json.dumps(answer.as_json())
        assert place.text("old.txt") == f"key = {TOKEN}\nlater\n"


# Links, devices and other hands -----------------------------------------------------------------------------------------


def outside_of(place: Place, tmp_path: Path) -> Path:
    """A folder that must stay as it is."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("mine\n")
    (outside / "folder").mkdir()
    assert place.repo.is_dir()
    return outside


def contents(folder: Path) -> dict[str, str]:
    return {
        os.path.relpath(os.path.join(above, name), folder): _digest(os.path.join(above, name))
        for above, folders, names in os.walk(folder)
        for name in [*names, *folders]
    }


def reaching(path: str) -> list[dict[str, Any]]:
    return [
        {"op": "read_file", "path": path},
        {"op": "write_file", "path": path, "content": "theirs"},
        {"op": "write_json", "path": path, "value": 1},
        {"op": "delete_file", "path": path},
        {"op": "move_file", "from": path, "to": "taken"},
        {"op": "move_file", "from": "README.md", "to": path},
        {"op": "apply_patch", "patch": f"*** Begin Patch\n*** Update File: {path}\n@@\n-mine\n+theirs\n*** End Patch"},
        {"op": "apply_patch", "patch": f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch"},
        {"op": "apply_patch", "patch": f"*** Begin Patch\n*** Add File: {path}2\n+x\n*** End Patch"},
    ]


def test_no_op_goes_through_a_link(place: Place, tmp_path: Path) -> None:
    outside = outside_of(place, tmp_path)
    made = place.ask(
        {"op": "run", "cmd": f"ln -s {outside} out; ln -s {outside}/x file; ln -s ../../src src/loop; ln -s . here"}
    )
    assert made.status == "ok"
    before, mine = place.state(), contents(outside)
    paths_through = ["out/x", "file", "out/folder/y", "src/loop/x", "here/README.md"]
    for path in paths_through:
        for op in reaching(path)[:8]:
            answer = place.ask(op)
            assert answer.status == "fail", (op, answer)
            assert fields(answer)
            assert re.search("a link|not there|there already", answer.errors[0].error), answer.errors
    for op in (
        {"op": "list_dir", "path": "out"},
        {"op": "search", "path": "out", "pattern": "m"},
        {"op": "run", "cmd": "ls", "cwd": "out"},
        {"op": "apply_patch", "patch": "*** Begin Patch\n*** Add File: out/y\n+x\n*** End Patch"},
    ):
        assert place.ask(op).status == "fail"
    assert place.ask({"op": "search", "pattern": "mine"}).data["0"]["matches"] == []  # type: ignore[index, call-overload]
    assert contents(outside) == mine
    assert place.state() == before


def test_pipes_sockets_and_devices_are_not_opened(place: Place) -> None:
    os.mkfifo(place.repo / "build.log")
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.open(place.repo, os.O_RDONLY)
        try:
            server.bind(f"/proc/self/fd/{folder}/s.log")
        finally:
            os.close(folder)
        for name in ("build.log", "s.log"):
            for op in reaching(name)[:7]:
                answer = place.ask(op)
                assert answer.status == "fail"
                assert re.search("a pipe|a socket|not there|already", answer.errors[0].error), answer.errors


class Swapper(threading.Thread):
    """Has a link and a folder change places, as fast as it can; one of them is always there."""

    def __init__(self, folder: Path, target: Path) -> None:
        super().__init__(daemon=True)
        self.names = [os.fsencode(folder), os.fsencode(folder.with_name("aside"))]
        folder.with_name("aside").symlink_to(target)
        self.exchange: Callable[..., int] = ctypes.CDLL(None, use_errno=True).renameat2
        self.over = threading.Event()
        self.turns = 0

    def run(self) -> None:
        while not self.over.is_set():
            if self.exchange(-100, self.names[0], -100, self.names[1], 2) == 0:
                self.turns += 1

    def end(self) -> None:
        self.over.set()
        if self.is_alive():
            self.join()


def test_a_folder_swapped_for_a_link_between_check_and_use_is_no_way_out(place: Place, tmp_path: Path) -> None:
    outside = outside_of(place, tmp_path)
    mine = contents(outside)
    (place.repo / "sub/folder").mkdir(parents=True)
    swapper = Swapper(place.repo / "sub", outside)
    swapper.start()
    tried = 0
    with opened(place.repo) as reach:
        while tried < 1500:
            tried += 1
            for act, names in (
                (reach.write, ("sub/x", b"theirs")),
                (reach.write, ("sub/folder/new/deep/y", b"theirs")),
                (reach.move, ("sub/x", "sub/folder/z")),
                (reach.delete, ("sub/folder/z",)),
                (reach.delete, ("sub/x",)),
            ):
                with contextlib.suppress(Barred):
                    act(*names)
            with contextlib.suppress(Barred):
                assert reach.read("sub/x", 100) == b"theirs"
    swapper.end()
    assert swapper.turns > 100
    assert contents(outside) == mine


def test_requests_at_work_while_a_folder_is_swapped_stay_inside(place: Place, tmp_path: Path) -> None:
    outside = outside_of(place, tmp_path)
    mine = contents(outside)
    statuses = set()
    for _ in range(12):
        (place.repo / "build/sub").mkdir(parents=True, exist_ok=True)
        swapper = Swapper(place.repo / "build/sub", outside)
        place.plan.on_take_back = swapper.end  # a command's processes are dead when a request is taken back
        swapper.start()
        ops = [
            op
            for number in range(8)
            for op in (
                {"op": "write_file", "path": f"build/sub/{number}", "content": "theirs"},
                {"op": "read_file", "path": f"build/sub/{number}"},
            )
        ]
        statuses.add(place.ask(*ops, {"op": "delete_file", "path": "build/sub/0"}).status)
        swapper.end()
        place.plan.on_take_back = lambda: None
        assert place.ask({"op": "run", "cmd": "rm -rf build"}).status == "ok"
    assert contents(outside) == mine
    assert statuses <= {"ok", "fail"}


# A thousand hostile requests -------------------------------------------------------------------------------------------

METACHARACTERS = [
    "; touch /tmp/x",
    "$(reboot)",
    "`id`",
    "&& rm -rf /",
    "'\"",
    "${IFS}",
    "| sh",
    "\u202e",
    "%s%n",
    "../../x",
]
WRONG: list[Any] = [None, True, 7, -1, 1.5, [], {}, [[]], "", "x", {"op": "run"}, ["a", 1]]


class Hostile:
    """Requests as somebody would write them who wants to get out, or to get us confused."""

    def __init__(self, seed: int, outside: Path) -> None:
        self.random = random.Random(seed)
        self.bad = [*BAD_PATHS[:-1], f"{outside}/x", f"../outside/{seed}"]
        self.links = ["link/x", "file", "pipe.log", "link", "src/up/x", "link/folder/y"]  # sound, by the text alone

    def request(self, number: int) -> bytes:
        pick = self.random.choice
        said: dict[str, Any] = {
            "proto": "triflow.fileops.v1",
            "id": f"H-{number}{pick(METACHARACTERS)}",
            "purpose": "execute_step",
            "summary": pick(METACHARACTERS),
            "ops": [self.op() for _ in range(self.random.randint(1, 4))],
        }
        if self.random.random() < 0.12:
            harmless = [
                {"op": "write_file", "path": f"src/{number}", "content": "x"},
                {"op": "delete_file", "path": "README.md"},
            ]
            said["ops"] = [*harmless, pick(reaching(pick(self.links))[:8])]
            return self.as_it_is(said)
        turn = pick([self.as_it_is, self.as_it_is, self.wrong_type, self.twice, self.torn, self.unknown])
        return turn(said)

    def as_it_is(self, said: dict[str, Any]) -> bytes:
        return json.dumps(said).encode()

    def wrong_type(self, said: dict[str, Any]) -> bytes:
        where: Any = self.random.choice([said, said["ops"][0]])
        where[self.random.choice(list(where))] = self.random.choice(WRONG)
        return json.dumps(said).encode()

    def twice(self, said: dict[str, Any]) -> bytes:
        return json.dumps(said).replace('"ops":', '"ops": [], "ops":').encode()

    def torn(self, said: dict[str, Any]) -> bytes:
        raw = json.dumps(said).encode()
        return raw[: self.random.randrange(len(raw))] + self.random.choice([b"", b"\xff", b"}", b"\0"])

    def unknown(self, said: dict[str, Any]) -> bytes:
        said["ops"][0]["op"] = self.random.choice(["exec", "write_files", "Run", "run ", "", "__init__", "triflow_"])
        return json.dumps(said).encode()

    def op(self) -> dict[str, Any]:
        bad = self.random.choice([*self.bad, *self.links])
        ops = [
            *reaching(bad),
            {"op": "list_dir", "path": bad or "..", "depth": 3},
            {"op": "run", "cmd": ["cat", bad or ".."], "cwd": bad or ".."},
            {"op": "write_file", "path": "ok.txt", "content": "x" * (LARGEST_CONTENT + 1)},
            {"op": "write_file", "path": f"t{self.random.choice(METACHARACTERS)}", "content": ""},
            {"op": "triflow_state_mark_blocked", "reason": self.random.choice(METACHARACTERS), "unblock": "x"},
            {"op": "triflow_plan_init", "taskName": self.random.choice(METACHARACTERS), "plan": bad},
        ]
        weights = [3] * (len(ops) - 4) + [0.05, 1, 1, 1]
        return self.random.choices(ops, weights)[0]


def test_a_thousand_hostile_requests_change_nothing_that_is_not_theirs(
    repo: Repo, place: Place, tmp_path: Path
) -> None:
    outside = outside_of(place, tmp_path)
    made = place.ask({"op": "run", "cmd": f"ln -s {outside} link; ln -s {outside}/x file; ln -s .. src/up"})
    assert made.status == "ok"
    os.mkfifo(place.repo / "pipe.log")
    mine, users = contents(outside), repo.state()
    statuses: dict[str, int] = {}
    state = place.state()
    for number in range(1000):
        answer = executing.answer(Hostile(number, outside).request(number), place.hands)
        statuses[answer.status] = statuses.get(answer.status, 0) + 1
        assert answer.status in ("ok", "fail", "validation_error")
        if answer.status != "ok":
            assert answer.errors
            assert all(one.field and one.error for one in answer.errors)
        if not (place.repo / "pipe.log").exists():  # a pipe cannot be kept
            os.mkfifo(place.repo / "pipe.log")
        if answer.status == "ok":
            state = place.state()
        assert answer.status == "validation_error" or place.state() == state
    assert contents(outside) == mine
    assert repo.state() == users
    assert statuses["validation_error"] > 500
    assert statuses["fail"] > 80
    assert place.state() == state


# Schemas, door and document --------------------------------------------------------------------------------------------


def test_the_schemas_take_what_is_sent_and_answered(place: Place) -> None:
    request = {"proto": "autoflow.fileops.v1", "id": "S", "purpose": "execute_step", "ops": [
        {"op": "move_file", "from": "README.md", "to": "R"}, {"op": "run", "cmd": ["true"]},
        {"op": "triflow_state_append_steps", "steps": ["a", {"title": "b"}]}]}  # fmt: skip
    jsonschema.validate(request, request_schema())
    answer = place.send(request)
    assert (answer.status, answer.proto) == ("ok", "autoflow.fileops.v1")
    jsonschema.validate(answer.as_json(), response_schema())
    jsonschema.validate(place.send({**request, "id": ""}).as_json(), response_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**request, "ops": [{"op": "exec"}]}, request_schema())
    for name, made in (("fileops-request", request_schema()), ("fileops-response", response_schema())):
        assert json.loads((ROOT / "schemas" / f"{name}.json").read_text()) == made


def request_file(repo: Repo, name: str, *ops: Any, **more: Any) -> Path:
    said = {"proto": "triflow.fileops.v1", "id": name, "purpose": "execute_step", "ops": list(ops), **more}
    path = repo.path.parent / f"{name}.json"
    path.write_text(json.dumps(said))
    return path


def test_requests_go_on_where_the_last_one_left_off_and_the_users_tree_is_untouched(repo: Repo) -> None:
    before = repo.state()
    first = repo.run("fileops", request_file(repo, "one", {"op": "write_file", "path": "new.txt", "content": "1\n"}))
    assert (first.code, first.json["status"], first.json["changedFiles"]) == (0, "ok", ["new.txt"])
    failed = repo.run(
        "fileops", request_file(repo, "two", {"op": "delete_file", "path": "new.txt"}, {"op": "run", "cmd": "false"})
    )
    assert (failed.code, failed.json["status"]) == (30, "fail")
    second = repo.run("fileops", request_file(repo, "three", {"op": "read_file", "path": "new.txt"}))
    assert second.json["data"]["0"]["content"] == "1\n"
    again = repo.run("fileops", repo.path.parent / "one.json")
    assert again.stdout == first.stdout
    other = repo.run("fileops", request_file(repo, "one", {"op": "list_dir"}))
    assert (other.code, other.json["errors"][0]["field"]) == (12, "id")
    assert repo.state() == before
    repo.write("README.md", "changed by hand\n")
    anew = repo.run("fileops", request_file(repo, "four", {"op": "list_dir"}))
    assert "new.txt" not in anew.stdout
    assert "another now" in anew.json["proof"]["notes"][0]
    assert repo.workspaces() == []


def test_a_request_goes_on_from_where_the_current_task_stands(repo: Repo) -> None:
    plan = repo.steps("echo made by the run > made.txt", "false")
    assert repo.run("run", plan).code == 30
    answer = repo.run("fileops", request_file(repo, "look", {"op": "read_file", "path": "made.txt"}))
    assert answer.json["data"]["0"]["content"] == "made by the run\n"


def test_what_a_crash_left_unfinished_did_not_happen(repo: Repo) -> None:
    pointer = repo.path / ".reflectloop/requests/pointer.json"
    assert repo.run("fileops", request_file(repo, "one", {"op": "write_file", "path": "a", "content": "1\n"})).code == 0
    before = pointer.read_bytes()
    second = request_file(repo, "two", {"op": "run", "cmd": "echo 2 >> a"})
    assert repo.run("fileops", second).code == 0
    pointer.write_bytes(before)  # killed before the last write
    assert repo.run("fileops", second).json["ops"][0]["status"] == "ok"
    read = repo.run("fileops", request_file(repo, "three", {"op": "read_file", "path": "a"}))
    assert read.json["data"]["0"]["content"] == "1\n2\n"


def test_an_answer_that_came_with_a_project_is_not_believed(repo: Repo, tmp_path: Path) -> None:
    request = request_file(repo, "one", {"op": "write_file", "path": "new.txt", "content": "1\n"})
    assert repo.run("fileops", request).code == 0
    stolen = tmp_path / "stolen"
    subprocess.run(["cp", "-a", str(repo.path), str(stolen)], check=True)
    for path in (stolen / ".reflectloop/requests").glob("*.json"):
        path.write_text(path.read_text().replace('"ok"', '"split"'))
    assert Repo(stolen).run("fileops", request).json["status"] == "ok"


def test_serving_answers_line_by_line_and_a_broken_line_ends_nothing(repo: Repo) -> None:
    from support import reflectloop

    lines = [
        request_file(repo, "one", {"op": "run", "cmd": "mkdir -p build; echo x > a.txt"}).read_text(),
        "{broken",
        "",
        request_file(repo, "two", {"op": "delete_file", "path": "a.txt"}, {"op": "run", "cmd": "false"}).read_text(),
        request_file(repo, "three", {"op": "read_file", "path": "a.txt"}).read_text(),
    ]
    answer = reflectloop(repo.path, "fileops", "--serve", stdin="\n".join(lines))
    assert answer.code == 0, answer.stderr
    assert [json.loads(line)["status"] for line in answer.stdout.splitlines()] == [
        "ok",
        "validation_error",
        "fail",
        "ok",
    ]
    assert [json.loads(line)["id"] for line in answer.stdout.splitlines()] == ["one", "", "two", "three"]


def test_a_leak_latches_the_project_and_is_answered_in_json(repo: Repo) -> None:
    leak = request_file(repo, "leak", {"op": "write_file", "path": "a", "content": f"key = {TOKEN}"})
    answer = repo.run("fileops", leak)
    assert answer.code == 99
    assert (answer.json["status"], answer.json["id"]) == ("fail", "leak")
    assert answer.json["fail"]["hint"].startswith("SECRET_LEAK")
    assert repo.run("fileops", request_file(repo, "next", {"op": "list_dir"})).code == 41
    own = repo.path / ".reflectloop"
    assert not [path for path in own.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert repo.workspaces() == []


def test_what_is_no_request_opens_nothing(repo: Repo) -> None:
    from support import reflectloop

    answer = reflectloop(repo.path, "fileops", "--strict", stdin='{"proto": "triflow.fileops.v1", "ops": []}')
    assert answer.code == 12
    assert {one["field"] for one in answer.json["errors"]} == {"done", "id", "ops", "purpose", "report", "summary"}
    assert not (repo.path / ".reflectloop" / "requests").exists()
    nowhere = repo.run("fileops", "nowhere.json")
    assert (nowhere.code, nowhere.json["status"]) == (12, "fail")


def test_a_project_at_work_is_locked_and_says_so_in_json(repo: Repo) -> None:
    assert repo.run("fileops", request_file(repo, "first", {"op": "list_dir"})).code == 0
    with lock.hold(repo.path / ".reflectloop", "test"):
        answer = repo.run("fileops", request_file(repo, "one", {"op": "list_dir"}))
    assert (answer.code, answer.json["id"]) == (50, "one")
    assert answer.json["fail"]["hint"].startswith("LOCKED")


def test_ops_on_a_plan_are_refused_where_none_is_kept(repo: Repo) -> None:
    answer = repo.run("fileops", request_file(repo, "one", {"op": "triflow_state_preflight"}))
    assert (answer.code, answer.json["errors"][0]["field"]) == (30, "ops[0].op")


def test_the_example_in_the_document_does_what_the_document_says(repo: Repo) -> None:
    request, said = re.findall(r"```json\n(.*?)```", (ROOT / "docs/fileops.md").read_text(), re.DOTALL)
    path = repo.path.parent / "example.json"
    path.write_text(request)
    answer = repo.run("fileops", path, "--strict")
    assert answer.code == 0, answer.stdout
    wanted = json.loads(said)
    found = {
        **answer.json,
        "ops": [{**one, "summary": re.sub(r"\d+ ms", "12 ms", one["summary"])} for one in answer.json["ops"]],
    }
    assert {key: found[key] for key in wanted} == wanted
