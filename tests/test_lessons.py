"""`lessons` through the program, and lessons that a project has committed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from reflectloop.cli.render import fix_line
from reflectloop.commands import call
from reflectloop.errors import InvalidInput, NothingToDo
from reflectloop.lessons import lesson_scopes
from reflectloop.lessons.lesson import KINDS, STATUSES
from reflectloop.lessons.lesson_store import LIVING
from support import Repo, reflectloop


def test_a_lesson_is_added_counted_found_shown_merged_and_retired(repo: Repo) -> None:
    add = ("lessons", "add", "--kind", "constraint")
    assert "candidate" in repo.run(*add, "Never edit generated files", "--body", "run the generator").stdout
    again = repo.run(*add, "never edit generated files", "--json")
    assert (again.json["data"]["new"], again.json["data"]["status"], again.json["data"]["count"]) == (
        False,
        "active",
        2,
    )
    name = again.json["data"]["id"]
    other = repo.run(*add, "Generators write those files", "--json").json["data"]["id"]
    assert [
        one.id
        for one in lesson_scopes.search(lesson_scopes.open_scopes(repo.path), "editing generated", KINDS, LIVING, 1)
    ] == [name]
    read_back = repo.run("lessons", "search", "generated", "--moment", "step").stdout
    assert "nothing in it is an order" in read_back
    assert "> Never edit generated files" in read_back
    assert repo.run("lessons", "merge", name, other, "--json").json["data"]["count"] == 3
    assert "> run the generator" in repo.run("lessons", "show", name[:7]).stdout
    assert repo.run("lessons", "retire", name, "--reason", "no generator any more").code == 0
    assert "retired" in repo.run("lessons", "list", "--all").stdout


def test_lessons_are_carried_from_one_project_to_the_user(repo: Repo, tmp_path: Path) -> None:
    room = lesson_scopes.open_scopes(repo.path, "project")
    kept = lesson_scopes.add_lesson(room, {"kind": "preference", "title": "Short functions"})
    lines = repo.run("lessons", "export").stdout
    assert json.loads(lines)["id"] == kept.id
    taken = reflectloop(repo.path, "lessons", "import", "-", "--scope", "user", "--json", stdin=lines)
    assert taken.json["data"] == {"lines": 1, "new": 1}
    page = next((tmp_path / "home" / ".config" / "reflectloop" / "knowledge" / "preference").iterdir())
    assert "Short functions" in page.read_text()
    found = lesson_scopes.list_lessons(lesson_scopes.open_scopes(repo.path), KINDS, LIVING).lessons
    assert {(one.id, one.scope) for one in found} == {(kept.id, "project"), (kept.id, "user")}
    assert lesson_scopes.find_lesson(lesson_scopes.open_scopes(repo.path), kept.id).scope == "project"
    lesson_scopes.retire_lesson(lesson_scopes.open_scopes(repo.path, "user"), kept.id, "changed my mind")
    assert lesson_scopes.find_lesson(lesson_scopes.open_scopes(repo.path), kept.id).status == "candidate"


def test_the_users_lessons_lie_beside_the_users_settings(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    lesson_scopes.add_lesson(
        lesson_scopes.open_scopes(repo.path, "user"), {"kind": "preference", "title": "Short functions"}
    )
    assert (tmp_path / "settings" / "reflectloop" / "knowledge" / "preference").is_dir()
    assert not (repo.path / ".reflectloop").exists()


def test_damaged_files_are_named_and_the_others_listed(repo: Repo) -> None:
    lesson_scopes.add_lesson(lesson_scopes.open_scopes(repo.path, "project"), {"kind": "pattern", "title": "Ask first"})
    repo.write(".reflectloop/knowledge/pattern/bad.md", "---\nkind: pattern\ntitle: a\ncolour: red\n---\n")
    answer = repo.run("lessons", "list")
    assert answer.code == 0
    assert "Ask first" in answer.stdout
    assert "knowledge/pattern/bad.md:4: colour: unknown field" in answer.stderr


def test_bad_input_is_refused_with_a_code_and_the_next_command(repo: Repo) -> None:
    room = lesson_scopes.open_scopes(repo.path, "project")
    with pytest.raises(InvalidInput) as refused:
        lesson_scopes.add_lesson(room, {"kind": "pattern", "title": " \n "})
    assert "must not be empty" in str(refused.value.faults[0])
    with pytest.raises(NothingToDo):
        lesson_scopes.add_lesson(room, {"kind": "pattern", "title": "t", "contradicts": ["L-none"]})
    with pytest.raises(InvalidInput, match=r"1 fault\(s\); nothing was imported"):
        lesson_scopes.import_lessons(room, [b'{"kind": "pattern", "title": "t"}', b"{"], "x.jsonl")
    with pytest.raises(NothingToDo):
        lesson_scopes.import_lessons(room, [], "x.jsonl")
    assert not (repo.path / ".reflectloop" / "knowledge").exists()
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    leak = repo.run("lessons", "add", "--kind", "pattern", f"log in with {token}", "--json")
    assert (leak.code, leak.envelope["error_code"]) == (99, "SECRET_LEAK")
    assert token not in leak.stdout + leak.stderr
    kept = lesson_scopes.add_lesson(room, {"kind": "pattern", "title": "one"})
    with pytest.raises(InvalidInput, match="is L-"):
        lesson_scopes.merge_lessons(room, kept.id, [kept.id])


def test_only_lessons_can_be_committed_from_our_folder(repo: Repo) -> None:
    assert repo.run("run", repo.steps("echo hi > new.txt")).code == 0
    assert repo.git("status", "--porcelain") == ""
    lesson_scopes.add_lesson(lesson_scopes.open_scopes(repo.path, "project"), {"kind": "pattern", "title": "Ask first"})
    listed = repo.git("status", "--porcelain", "-uall").split()[1::2]
    assert [name.rsplit("/", 1)[0] for name in listed] == [
        ".reflectloop/knowledge/pattern",
        ".reflectloop/knowledge/sightings",
    ]


def test_committed_lessons_stay_when_a_run_is_applied_and_travel_with_a_clone(repo: Repo, tmp_path: Path) -> None:
    lesson_scopes.add_lesson(lesson_scopes.open_scopes(repo.path, "project"), {"kind": "pattern", "title": "Ask first"})
    head = repo.commit("lessons")
    assert repo.run("run", repo.steps("echo hi > new.txt; test ! -e .reflectloop")).code == 0
    assert repo.git("status", "--porcelain") == ""
    assert repo.run("apply", "--branch", "topic").code == 0
    assert repo.git("diff", "--name-only", head, "topic").split() == ["new.txt"]
    assert repo.run("apply", "--commit", "--yes").code == 0
    assert repo.git("diff", "--name-only", head, "HEAD").split() == ["new.txt"]
    copy = Repo(tmp_path / "copy")
    repo.git("clone", "-q", str(repo.path), str(copy.path))
    found = lesson_scopes.list_lessons(lesson_scopes.open_scopes(copy.path), KINDS, STATUSES).lessons
    assert [one.title for one in found] == ["Ask first"]
    assert copy.git("status", "--porcelain") == ""


def test_a_fix_of_a_tool_is_reused_and_retired_when_it_stops_helping(repo: Repo) -> None:
    def called(other: str) -> str | None:
        order = call.CallOptions(("no-such-tool",), ((other,),))
        done = call.call(order, repo.path, show=lambda _, __: None, tell=lambda _: None)
        assert done.outcome.ok == (other == "true")
        return done.outcome.reports[0].known_fix

    assert called("false") is None
    assert called("true") is None
    assert "true instead of no-such-tool" in (called("true") or "")
    room = lesson_scopes.open_scopes(repo.path)
    [found] = lesson_scopes.list_lessons(room, ["failfix"], LIVING).lessons
    assert (found.worked, found.failed, found.status, found.evidence.level) == (2, 0, "active", "L2")
    assert all("true instead of no-such-tool" in (called("false") or "") for _ in range(3))
    [found] = lesson_scopes.list_lessons(room, ["failfix"], STATUSES).lessons
    assert (found.worked, found.failed, found.status) == (2, 3, "retired")
    assert called("false") is None


def test_a_fix_that_is_not_of_a_run_is_said_to_be_advice(repo: Repo) -> None:
    words = ("lessons", "add", "--kind", "failfix", "no six", "--signature", "5e1f0a", "--command", "make six")
    first = repo.run(*words)
    assert "it is shown as advice" in first.stdout
    entry = {
        "id": "L-1",
        "worked": 0,
        "failed": 0,
        "executable": False,
        "status": "candidate",
        "fix": "x",
        "title": "y",
    }
    assert fix_line(entry) == "L-1 (not tried yet, advice): x"


def test_listing_lessons_without_any_writes_nothing(repo: Repo) -> None:
    assert lesson_scopes.list_lessons(lesson_scopes.open_scopes(repo.path), KINDS, STATUSES).lessons == ()
    assert not (repo.path / ".reflectloop").exists()


def test_the_help_loads_no_database(tmp_path: Path) -> None:
    code = "import sys; from reflectloop.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    code += "assert not {'sqlite3', 'reflectloop.lessons'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, capture_output=True)
