"""The retriever finds the code that a text is about, in every state of a project and of its index."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from reflectloop.context import database, impact, index, overview, retriever, words
from reflectloop.context.hit import Hit
from reflectloop.context.retriever import retrieve
from reflectloop.errors import InvalidInput
from reflectloop.workspace.folders import Folders
from support import Repo, reflectloop

BACKOFF = '''\
"""Helpers."""
import random


def wait_before_retry(attempt):
    """Return the seconds to wait, growing with each attempt."""
    return min(60, 2 ** attempt) + random.random()


class RetryPolicy:
    def __init__(self, limit):
        self.limit = limit

    def should_retry(self, attempt):
        return attempt < self.limit
'''
CLIENT = '''\
from net.backoff import RetryPolicy, wait_before_retry


def fetch_page(address):
    """Download one page."""
    policy = RetryPolicy(3)
    return policy, address, wait_before_retry(1)
'''


@pytest.fixture
def code(repo: Repo) -> Repo:
    repo.write("net/__init__.py", "")
    repo.write("net/backoff.py", BACKOFF)
    repo.write("net/client.py", CLIENT)
    repo.write("net/colour.py", "def paint_terminal(colour):\n    return colour\n")
    repo.write(
        "tests/test_backoff.py",
        "from net.backoff import wait_before_retry\n\n\ndef test_it_waits():\n    assert wait_before_retry(1)\n",
    )
    repo.write("docs/guide.md", "# Guide\n\nHow retries wait between attempts.\n")
    repo.commit("wait between retries")
    return repo


def paths(hits: list[Hit]) -> list[str]:
    return list(dict.fromkeys(hit.path for hit in hits))


def watch_parsing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that names each file as it is parsed."""
    parsed: list[str] = []
    real = index._parse_file

    def parse(path: str, key: str, data: bytes) -> index._Parsed:
        parsed.append(path)
        return real(path, key, data)

    monkeypatch.setattr(index, "_parse_file", parse)
    return parsed


def index_file(repo: Repo) -> Path:
    place = database.place_for(repo.path)
    assert place
    return place


# Finding ----------------------------------------------------------------------------------------------------------


def test_a_question_finds_the_whole_function_with_its_reasons(code: Repo) -> None:
    best = retrieve(code.path, "the seconds to wait before a retry do not grow")[0]
    assert (best.path, best.start_line, best.end_line) == ("net/backoff.py", 5, 7)
    assert best.text == "\n".join(BACKOFF.split("\n")[4:7])
    assert "words" in best.source
    assert "wait_before_retry" in best.why


def test_a_name_of_code_finds_its_definition(code: Repo) -> None:
    hits = retrieve(code.path, "`paint_terminal` is called with None")
    assert hits[0].path == "net/colour.py"
    assert "symbols" in hits[0].source


def test_a_stack_trace_finds_the_function_of_its_line(code: Repo) -> None:
    trace = 'Traceback (most recent call last):\n  File "/srv/app/net/backoff.py", line 15, in should_retry\nTypeError'
    best = retrieve(code.path, "", failure=trace)[0]
    assert (best.path, best.start_line, best.end_line) == ("net/backoff.py", 14, 15)
    assert "stack frame" in best.why
    assert "failure" in best.source


@pytest.mark.parametrize(
    "text", ["see net/colour.py", "net.colour is wrong", "from net import colour", "at net/colour.py:1"]
)
def test_files_and_modules_named_in_a_text_are_found(code: Repo, text: str) -> None:
    assert retrieve(code.path, text)[0].path == "net/colour.py"


def test_commits_that_say_similar_things_lead_to_their_files(code: Repo) -> None:
    code.write("net/zone.py", "VALUES = (1, 2)\n")
    code.commit("daylight saving shifts the calendar")
    code.write("other.txt", "x")
    code.commit("nothing else")
    hits = retrieve(code.path, "the calendar is wrong after daylight saving")
    assert hits[0].path == "net/zone.py"
    assert "history" in hits[0].source


def test_new_and_edited_files_count_at_once_and_ignored_ones_never(code: Repo) -> None:
    retrieve(code.path, "warm up")
    code.write(".gitignore", "secret_area/\n")
    code.write("secret_area/telescope.py", "def aim_telescope():\n    pass\n")
    code.write("net/telescope.py", "def aim_telescope():\n    pass\n")
    code.write("net/colour.py", "def polish_mirror(telescope):\n    return telescope\n")
    assert paths(retrieve(code.path, "aim the telescope mirror")) == ["net/colour.py", "net/telescope.py"] or paths(
        retrieve(code.path, "aim the telescope mirror")
    ) == ["net/telescope.py", "net/colour.py"]


def test_a_deleted_file_is_not_found(code: Repo) -> None:
    assert "net/colour.py" in paths(retrieve(code.path, "paint terminal colour"))
    (code.path / "net/colour.py").unlink()
    assert "net/colour.py" not in paths(retrieve(code.path, "paint terminal colour"))


def test_a_tree_of_git_is_searched_instead_of_the_folder(code: Repo) -> None:
    old = code.git("rev-parse", "HEAD").strip()
    code.git("rm", "-q", "net/colour.py")
    code.commit("gone")
    assert "net/colour.py" not in paths(retrieve(code.path, "paint terminal colour"))
    assert retrieve(code.path, "paint terminal colour", tree=old)[0].text.startswith("def paint_terminal")


def test_chinese_words_find_chinese_comments(code: Repo) -> None:
    code.write("net/cache.py", "def purge(store):\n    # 清除过期的缓存条目\n    store.clear()\n")
    code.write("net/login.py", "def enter(user):\n    # 用户登录后刷新令牌\n    return user\n")
    assert retrieve(code.path, "缓存没有过期")[0].path == "net/cache.py"
    found = paths(retrieve(code.path, "登录之后 wait_before_retry 出错"))
    assert {"net/login.py", "net/backoff.py"} <= set(found[:4])


def test_the_budget_is_kept_and_no_function_is_cut(code: Repo) -> None:
    wide = retrieve(code.path, "retry wait attempt policy", tokens=10_000)
    tight = retrieve(code.path, "retry wait attempt policy", tokens=60)
    none = retrieve(code.path, "retry wait attempt policy", tokens=0)
    assert [hit[1:4] for hit in wide] == [hit[1:4] for hit in tight] == [hit[1:4] for hit in none]
    whole = {hit[1:4]: hit.text for hit in wide}
    assert all(hit.text in ("", whole[hit[1:4]]) for hit in tight)
    assert 0 < sum(words.count_tokens(hit.text) for hit in tight) <= 60
    assert not any(hit.text for hit in none)


def test_the_same_question_has_the_same_answer(code: Repo) -> None:
    first = retrieve(code.path, "retry wait attempt policy")
    assert retrieve(code.path, "retry wait attempt policy") == first
    index_file(code).unlink()
    assert retrieve(code.path, "retry wait attempt policy") == first


# Dependence -------------------------------------------------------------------------------------------------------


def test_impact_names_tests_importers_and_uses(code: Repo) -> None:
    hits = impact.impact(code.path, "net/backoff.py")
    assert [(hit.source[0], hit.path) for hit in hits][:2] == [
        ("tests", "tests/test_backoff.py"),
        ("imports", "net/client.py"),
    ]
    assert "wait_before_retry" in hits[1].why or "RetryPolicy" in hits[1].why


def test_impact_finds_a_name_with_capitals_and_an_ending_and_spells_it_as_the_file_does(code: Repo) -> None:
    code.write("sky.py", "class ManyTelescopes:\n    pass\n")
    code.write("use.py", "def aim(make):\n    return make.ManyTelescopes()\n")
    code.commit("a sky")
    assert ("use.py", "uses its names; uses `ManyTelescopes`") in [
        (hit.path, hit.why) for hit in impact.impact(code.path, "sky.py")
    ]


def test_impact_leaves_out_uses_of_another_files_function_of_the_same_name(code: Repo) -> None:
    code.write("web/backoff.py", "def wait_before_retry(attempt):\n    return 0\n")
    code.write("web/server.py", "from web.backoff import wait_before_retry\n\n\nSECONDS = wait_before_retry(1)\n")
    found = paths(impact.impact(code.path, "net/backoff.py"))
    assert "net/client.py" in found
    assert "web/server.py" not in found


def test_impact_knows_the_module_of_go_and_its_packages(repo: Repo) -> None:
    repo.write("go.mod", "module example.org/sky/v2\n\ngo 1.22\n")
    repo.write("lens.go", "package sky\n\nfunc Focus() int {\n\treturn 1\n}\n")
    repo.write("tube.go", "package sky\n\nfunc Aim() int {\n\treturn Focus()\n}\n")
    repo.write("cmd/main.go", 'package main\n\nimport "example.org/sky/v2"\n\nfunc main() {\n\tsky.Focus()\n}\n')
    repo.write("other/plain.go", "package other\n\nfunc Focus2() int {\n\treturn 2\n}\n")
    repo.commit("a telescope")
    hits = {hit.path: hit for hit in impact.impact(repo.path, "lens.go")}
    assert (hits["cmd/main.go"].source, hits["cmd/main.go"].start_line) == (("imports",), 5)
    assert hits["tube.go"].why == "uses its names; uses `Focus`"
    assert hits["other/plain.go"].source == ("history",)


def test_impact_shows_no_text_of_a_file_in_which_no_place_is_known(code: Repo) -> None:
    shown = reflectloop(code.path, "context", "--impact", "net/colour.py").stdout.split("\n")
    assert not [line for line in shown if ":1-1" in line or line.startswith("    ")]


def test_what_speaks_for_a_file_is_said_once(code: Repo) -> None:
    hits = [
        hit for hit in retrieve(code.path, "net.backoff: retry policy, wait before retry") if "backoff.py" in hit.path
    ]
    first, second, *_ = [hit for hit in hits if hit.path == "net/backoff.py"]
    assert "the text names this file or module" in first.why
    assert "the text names this file or module" not in second.why
    assert second.source == first.source


def test_a_lesson_about_the_question_is_quoted_as_advice(code: Repo) -> None:
    for title in 2 * ("Retries must wait between attempts", "Paint nothing on a terminal that is none"):
        code.run("lessons", "add", "--kind", "constraint", title)  # seen twice: active
    code.run("lessons", "add", "--kind", "pattern", "Wait between retries, says a candidate")
    hits = [hit for hit in retrieve(code.path, "wait longer between retries") if "lessons" in hit.source]
    assert [hit.why.partition(";")[0] for hit in hits] == ["lesson: Retries must wait between attempts"]
    assert "Retries must wait" in hits[0].text


def test_files_that_an_earlier_run_changed_for_a_similar_task_are_found(code: Repo) -> None:
    steps = [{"id": "P-1", "commands": ["echo '# 1' >> net/colour.py"]}]
    plan = {"plan": {"title": "Slow down the downloads", "track": "direct", "steps": steps}}
    before = paths(retrieve(code.path, "downloads slow down everything"))
    assert code.run("run", code.plan(json.dumps(plan))).code == 0
    hits = [hit for hit in retrieve(code.path, "downloads slow down everything") if "runs" in hit.source]
    assert paths(hits) == ["net/colour.py"]
    assert "net/colour.py" not in before


def test_the_map_shows_parts_and_what_most_depends_on(code: Repo) -> None:
    shown = overview.project_map(code.path)
    assert shown.languages["python"] == 6
    assert shown.parts["tests"] == {"test": 1}
    assert shown.important[0] == ("net/backoff.py", ["wait_before_retry", "RetryPolicy"])


def test_a_change_leads_to_its_tests_and_importers_and_not_to_itself(code: Repo) -> None:
    code.write("net/backoff.py", BACKOFF.replace("min(60", "min(90"))
    answer = reflectloop(code.path, "context", "--for-diff", "--json")
    found = [hit["path"] for hit in answer.json["data"]["hits"]]
    assert {"tests/test_backoff.py", "net/client.py"} <= set(found[:3])
    assert "net/backoff.py" not in found


# The command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_places_and_text(code: Repo) -> None:
    answer = reflectloop(code.path, "context", "the seconds to wait before a retry do not grow", "--limit", "1")
    assert answer.code == 0
    assert answer.stdout.startswith("net/backoff.py:5-7")
    assert "    def wait_before_retry(attempt):" in answer.stdout.split("\n")
    assert not [line for line in answer.stdout.split("\n") if line.startswith("net/client.py")]


def test_a_question_of_a_megabyte_is_read_from_standard_input(code: Repo) -> None:
    text = "retries do not wait between attempts\n" + "2026-11-18 filler of a long log 0x7f\n" * 30_000
    assert len(text) > 1_000_000
    answer = reflectloop(code.path, "context", "-", "--json", stdin=text)
    assert answer.json["data"]["hits"][0]["path"] == "net/backoff.py"
    assert reflectloop(code.path, "context", "-", stdin="\n").code == 12


def test_the_command_refuses_nothing_and_contradictions(code: Repo) -> None:
    assert reflectloop(code.path, "context").code == 12
    assert reflectloop(code.path, "context", "x", "--map").code == 2
    assert reflectloop(code.path, "context", "--impact", "no/such.py").code == 12
    assert reflectloop(code.path, "context", "--for-diff", "no-such-commit").code == 12
    assert reflectloop(code.path, "context", "zzzz qqqq").code == 1


def test_a_failed_run_is_a_question(code: Repo) -> None:
    line = 'File "net/backoff.py", line 15, in should_retry'
    code.run("run", code.steps(f"printf '%s\\n' '{line}'; exit 3"))
    answer = reflectloop(code.path, "context", "--for-failure", "latest", "--json")
    assert answer.json["data"]["hits"][0]["path"] == "net/backoff.py"


def test_other_commands_import_neither_the_retriever_nor_sqlite(code: Repo) -> None:
    program = (
        "import sys\nfrom reflectloop.cli import main\n"
        "try:\n    main.main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in sys.modules if name.startswith(('reflectloop.context', 'sqlite3', 'tree_sitter'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=code.path, capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]")


# The index --------------------------------------------------------------------------------------------------------


def test_one_changed_file_costs_one_file(code: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    retrieve(code.path, "warm up")
    parsed = watch_parsing(monkeypatch)
    retrieve(code.path, "again")
    assert parsed == []
    code.write("net/colour.py", "def other():\n    return 1\n")
    retrieve(code.path, "again")
    retrieve(code.path, "again")
    assert parsed == ["net/colour.py"]
    code.git("checkout", "-q", "-b", "branch")
    code.commit("the same content on a branch")
    code.git("mv", "net/colour.py", "net/renamed.py")
    retrieve(code.path, "again")
    assert parsed == ["net/colour.py"]


def test_a_file_that_was_changed_at_first_counts_with_its_old_text_when_it_is_restored(code: Repo) -> None:
    code.write("net/colour.py", "def other():\n    return 1\n")
    assert "net/colour.py" not in paths(retrieve(code.path, "paint_terminal"))
    code.git("checkout", "-q", "net/colour.py")
    for _ in range(2):
        assert paths(retrieve(code.path, "paint_terminal")) == ["net/colour.py"]
    code.git("rm", "-q", "net/colour.py")
    assert retrieve(code.path, "paint_terminal") == []


def test_only_the_newest_sets_of_tracked_files_are_remembered(code: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_MOST_BASES", 2)
    for number in range(4):
        code.write("net/colour.py", f"def paint_{number}():\n    return {number}\n")
        code.commit(f"paint {number}")
        assert paths(retrieve(code.path, f"paint_{number}"))[0] == "net/colour.py"
    with contextlib.closing(sqlite3.connect(index_file(code))) as connection:
        assert connection.execute("SELECT count(*) FROM base").fetchone() == (2,)


def test_worktrees_share_the_index(code: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    retrieve(code.path, "warm up")
    code.git("worktree", "add", "-q", str(tmp_path / "second"))
    parsed = watch_parsing(monkeypatch)
    assert retrieve(tmp_path / "second", "paint terminal colour")[0].path == "net/colour.py"
    assert parsed == []
    assert not (tmp_path / "second" / ".reflectloop").exists()


@pytest.mark.parametrize("harm", [b"", b"not a database at all" * 100, None])
def test_a_damaged_index_is_rebuilt(code: Repo, harm: bytes | None) -> None:
    expected = retrieve(code.path, "retry wait")
    place = index_file(code)
    data = place.read_bytes()
    for end in ("-wal", "-shm"):
        place.with_name(place.name + end).unlink(missing_ok=True)
    place.write_bytes(data[:5000] + b"\xff" * (len(data) - 5000) if harm is None else harm)
    assert retrieve(code.path, "retry wait") == expected


def test_an_index_of_another_version_is_rebuilt(code: Repo) -> None:
    expected = retrieve(code.path, "retry wait")
    connection = sqlite3.connect(index_file(code))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert retrieve(code.path, "retry wait") == expected


def test_an_index_that_is_too_large_is_rebuilt(code: Repo) -> None:
    retrieve(code.path, "warm up")
    place = index_file(code)
    before = place.stat().st_ino
    assert database.ask(
        place, lambda connection: connection.execute("SELECT count(*) FROM blob").fetchone(), largest=10
    ) == (0,)
    assert place.stat().st_ino != before or place.stat().st_size < 200_000


def test_an_index_of_mostly_earlier_versions_is_rebuilt(code: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retriever, "_MANY_BLOBS", 0)
    monkeypatch.setattr(retriever, "_MOST_VERSIONS", 2)
    counts = []
    for number in range(30):
        code.write("net/colour.py", f"def paint_{number}():\n    return {number}\n")
        assert retrieve(code.path, f"paint_{number}")[0].path == "net/colour.py"
        connection = sqlite3.connect(index_file(code))
        counts.append(connection.execute("SELECT count(*) FROM blob").fetchone()[0])
        connection.close()
    files = len(code.git("ls-files").split())
    assert max(counts) <= 2 * files + 1
    assert counts != sorted(counts)


def test_an_index_that_another_process_locks_does_not_stop_a_question(
    code: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = retrieve(code.path, "retry wait")
    code.write("net/extra.py", "def retry_wait_extra():\n    pass\n")
    monkeypatch.setattr(database, "_WAIT_S", 0.0)
    with sqlite3.connect(index_file(code), isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        hits = retrieve(code.path, "retry wait extra")
        other.execute("ROLLBACK")
    other.close()
    assert hits[0].path == "net/extra.py"
    assert expected


def test_two_processes_build_one_index(code: Repo) -> None:
    for number in range(40):
        code.write(f"many/part_{number}.py", f"def part_{number}():\n    return {number}\n")
    program = (
        "import sys; from pathlib import Path; from reflectloop.context.retriever import retrieve\n"
        "print(retrieve(Path(sys.argv[1]), 'where is part_7')[0].path)"
    )
    argv = [sys.executable, "-c", program, str(code.path)]
    both = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0].strip() for process in both] == ["many/part_7.py"] * 2
    connection = sqlite3.connect(index_file(code))
    (count, distinct) = connection.execute("SELECT count(*), count(DISTINCT key) FROM blob").fetchone()
    connection.close()
    assert count == distinct >= 40


def test_a_folder_that_cannot_be_written_is_searched_in_memory(code: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: Folders) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Folders, "ensure_owned", refuse)
    assert retrieve(code.path, "retries do not wait")[0].path == "net/backoff.py"
    assert not (code.path / ".reflectloop").exists()


def test_without_full_text_search_files_are_read_one_by_one(code: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "has_full_text", lambda: False)
    assert retrieve(code.path, "retries do not wait between attempts")[0].path == "net/backoff.py"


def test_a_folder_without_git_is_searched(folder: Path) -> None:
    (folder / "lib").mkdir()
    (folder / "lib/backoff.py").write_text(BACKOFF)
    (folder / "loop").symlink_to(folder)
    assert paths(retrieve(folder, "retries wait between attempts")) == ["lib/backoff.py", "state.json"]


def test_no_secret_enters_the_index_or_the_answer(code: Repo) -> None:
    secret = "ghp_" + "Zq8Lm2Xv9Rt4Yw7Bn3Kc6Hd1Js5Pf0Ga8UeD"[:36]
    code.write("net/settings.py", f'def github_login():\n    token = "{secret}"\n    return token\n')
    hits = retrieve(code.path, "github login token")
    assert hits[0].path == "net/settings.py"
    assert "[REDACTED]" in hits[0].text
    assert secret not in str(hits)
    stored = b"".join(path.read_bytes() for path in index_file(code).parent.glob("context*"))
    assert secret.lower().encode() not in stored.lower()
    assert secret[4:].lower().encode() not in stored.lower()


def test_a_question_opens_no_connection(code: Repo) -> None:
    program = (
        "import os, sys; from pathlib import Path; from reflectloop.context.retriever import retrieve\n"
        "sys.addaudithook(lambda event, _: os._exit(9) if event.startswith('socket.') else None)\n"
        "print(retrieve(Path(sys.argv[1]), 'retries do not wait https://example.com/issues/1')[0].path)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(code.path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "net/backoff.py")


# Bad input --------------------------------------------------------------------------------------------------------


def test_files_that_nobody_wrote_or_can_read_are_left_out(code: Repo) -> None:
    marker = "def telescope():\n    return 'telescope'\n"
    code.write("good.py", marker)
    code.write("binary.py", b"\0\1" + marker.encode())
    code.write("bundle.min.js", "function telescope(){}")
    code.write("packed.js", "function telescope(){};" * 4000)
    code.write("made.go", "// Code generated by stringer. DO NOT EDIT.\nfunc telescope() {}\n")
    code.write("node_modules/x/index.js", "function telescope() {}\n")
    code.write("huge.py", marker + "# filler\n" * 200_000)
    code.write("latin.py", "def telescope_caf\xe9():\n    pass\n".encode("latin-1"))
    code.write("broken.py", "def telescope(:\n  class (((\n")
    (code.path / "link.py").symlink_to("good.py")
    (code.path / "circle").symlink_to(".")
    assert set(paths(retrieve(code.path, "telescope"))) == {"good.py", "latin.py", "broken.py"}


def test_vendored_code_comes_after_the_projects_own(code: Repo) -> None:
    code.write("a/vendor/telescope.py", "def aim_telescope():\n    pass\n")
    code.write("b/telescope.py", "def aim_telescope():\n    pass\n")
    assert paths(retrieve(code.path, "aim the telescope")) == ["b/telescope.py", "a/vendor/telescope.py"]


def test_names_with_tabs_are_found_whether_git_knows_them_or_not(code: Repo) -> None:
    code.write("net/one\tknown.py", "def open_first_socket():\n    pass\n")
    code.commit("a tab")
    code.write("net/one\tnew.py", "def open_second_socket():\n    pass\n")
    code.write("net/colour.py", "def open_third_socket():\n    pass\n")
    for number, name in (("first", "one\tknown"), ("second", "one\tnew"), ("third", "colour")):
        assert paths(retrieve(code.path, f"open_{number}_socket"))[0] == f"net/{name}.py"


def test_names_that_are_no_text_are_found(code: Repo) -> None:
    name = os.fsdecode(b"net/t\xe9lescope.py")
    code.write(name, "def aim_telescope():\n    pass\n")
    assert paths(retrieve(code.path, "aim the telescope")) == [name]
    code.commit("with a name that is no text")
    assert paths(retrieve(code.path, "aim the telescope")) == [name]


def test_a_tree_that_does_not_exist_is_refused(code: Repo) -> None:
    for name in ("no-such-thing", "--output=x", ""):
        with pytest.raises(InvalidInput):
            retrieve(code.path, "retry", tree=name)


@pytest.mark.parametrize("query", ["", " \n ", "()[]{}*+?.\\", '"', "\0", "AND OR NOT NEAR", "\ud800", "—", "a" * 300])
def test_any_text_is_a_question(code: Repo, query: str) -> None:
    assert isinstance(retrieve(code.path, query), list)


def test_a_long_text_is_a_question(code: Repo) -> None:
    text = "retries do not wait between attempts\n" + "filler words of a long log line 0x7f " * 30_000
    assert len(text) > 1_000_000
    assert retrieve(code.path, text)[0].path == "net/backoff.py"


def test_a_regular_expression_finds_what_it_names(code: Repo) -> None:
    assert retrieve(code.path, r"wait_\w+_retry\(.*\)")[0].path in ("net/backoff.py", "net/client.py")


def test_an_index_of_an_unborn_repository_is_possible(tmp_path: Path) -> None:
    fresh = Repo(tmp_path / "fresh")
    fresh.path.mkdir()
    fresh.git("init", "-q")
    fresh.write("net.py", BACKOFF)
    assert retriever.retrieve(fresh.path, "wait before retry")[0].path == "net.py"
