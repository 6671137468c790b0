"""`scan`: what it finds in files, streams and commits, what it lets stand, and that it never says the value."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from reflectloop.secrets.samples import filled
from support import Repo, reflectloop

TOKEN = filled("ghp_{alnum:36}", "a story")
OTHER = filled("glpat-{alnum:20}", "another story")
LIKELY = filled("{lownum:20}", "a third story")


def rules(repo: Repo, *words: str) -> list[tuple[str, int, str]]:
    done = repo.run("scan", "--json", *words)
    found = done.json["data"]["findings"]
    assert done.code == (1 if found else 0)
    assert TOKEN not in done.stdout
    return [(one["path"], one["line"], one["rule"]) for one in found]


def test_a_clean_project_exits_0_and_one_with_a_secret_1(repo: Repo) -> None:
    assert repo.run("scan").code == 0
    repo.write("notes.txt", f"one\ntoken {TOKEN}\n")
    done = repo.run("scan")
    assert done.code == 1
    assert "notes.txt:2: certain github-token" in done.stdout
    assert TOKEN not in done.stdout + done.stderr


def test_ignored_files_and_the_git_folder_are_left_out_and_untracked_ones_are_not(repo: Repo) -> None:
    repo.write(".gitignore", "ignored.txt\n")
    repo.write("ignored.txt", TOKEN)
    repo.write(".git/description", TOKEN)
    repo.write("new.txt", TOKEN)
    assert rules(repo) == [("new.txt", 1, "github-token")]


def test_outside_a_repository_everything_is_looked_at(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.bin").write_bytes(b"\0\xff\n" + TOKEN.encode() + b"\0")
    (folder / "link").symlink_to(f"https://host/?token={LIKELY}")
    done = reflectloop(folder, "scan", "--json", ".")
    assert sorted(one["rule"] for one in done.json["data"]["findings"]) == ["github-token", "url-with-secret"]


def test_a_stream_is_looked_at_and_a_pragma_does_not_count_there(repo: Repo) -> None:
    done = reflectloop(repo.path, "scan", "-", stdin=f"x\n{TOKEN}  # allowlist-secret why=FIXTURE\n")
    assert done.code == 1
    assert "(standard input):2: certain github-token" in done.stdout
    assert TOKEN not in done.stdout


def test_a_pragma_counts_only_on_lines_that_head_holds(repo: Repo) -> None:
    repo.write("vectors.txt", f"{TOKEN}  # allowlist-secret why=TEST_VECTOR\n")
    assert rules(repo) == [("vectors.txt", 1, "github-token")]
    repo.commit("vectors")
    assert rules(repo) == []
    repo.write(
        "vectors.txt", f"\n{TOKEN}  # allowlist-secret why=TEST_VECTOR\n{OTHER} # allowlist-secret why=FIXTURE\n"
    )
    assert rules(repo) == [("vectors.txt", 3, "gitlab-token")]


def test_a_pragma_without_a_known_reason_does_not_count(repo: Repo) -> None:
    repo.write("vectors.txt", f"{TOKEN}  # allowlist-secret why=BECAUSE\n")
    repo.commit("vectors")
    assert rules(repo) == [("vectors.txt", 1, "github-token")]


def test_staged_lines_are_looked_at_with_their_numbers_and_others_are_not(repo: Repo) -> None:
    repo.write("old.txt", f"{OTHER}\na\nb\nc\n")
    repo.commit("old")
    repo.write("old.txt", f"{OTHER}\na\nb\nnew {TOKEN}\nc\n")
    repo.git("add", "-A")
    repo.write("old.txt", "nothing\n")
    repo.write("unstaged.txt", TOKEN)
    assert rules(repo, "--staged") == [("old.txt", 4, "github-token")]


@pytest.mark.parametrize("kind", ["empty", "binary", "text", "renamed", "odd"])
def test_names_that_a_commit_adds_are_looked_at(kind: str, repo: Repo) -> None:
    repo.write("old.txt", "one\ntwo\nthree\n")
    base = repo.commit("old")
    if kind == "renamed":
        repo.git("mv", "old.txt", f"{TOKEN}.txt")
    else:
        name = f'a "b"/{TOKEN}.txt' if kind == "odd" else f"{TOKEN}.txt"
        text = {"empty": "", "binary": "\0\1\2", "text": "x\n", "odd": ""}[kind]
        repo.write(name, text)
    repo.git("add", "-A")
    (found,) = rules(repo, "--staged")
    assert found[1:] == (0, "github-token")
    assert "region" not in repo.run("scan", "--staged", "--format", "sarif").stdout
    repo.commit("named")
    (found,) = rules(repo, "--range", f"{base}..HEAD")
    assert found[1:] == (0, "github-token")


def test_a_format_filled_with_one_letter_is_likely_in_a_scan(repo: Repo) -> None:
    repo.write("a.txt", "AKIA" + "Z" * 16 + "\nkey: AKC" + "x" * 10 + "\n")
    found = repo.run("scan", "--json").json["data"]["findings"]
    assert [(one["rule"], one["grade"]) for one in found] == [
        ("aws-access-key-id", "likely"),
        ("artifactory-short-key", "likely"),
    ]


def test_other_placeholders_are_nothing_in_a_scan_either(repo: Repo) -> None:
    for number, text in enumerate(
        [
            "password = 'xxxxxxxxxxxxxxxx'",
            "twitch_token = '" + "x" * 30 + "'",
            "token: ghp_${TOKEN}",
            "AKIA****",
            "key: <key>",
        ]
    ):
        repo.write(f"{number}.txt", text + "\n")
    assert rules(repo) == []


def test_content_that_looks_like_a_patch_does_not_hide_a_staged_secret(repo: Repo) -> None:
    repo.write("p.txt", f"++ b/other.txt\n@@ -1,9 +1,9 @@\n-- a\n{TOKEN}\n")
    repo.git("add", "-A")
    assert rules(repo, "--staged") == [("p.txt", 4, "github-token")]


def test_a_key_over_many_staged_lines_is_found(repo: Repo) -> None:
    body = "\n".join(filled("{base64:64}", str(line)) for line in range(6))
    repo.write("id", f"-----BEGIN {'RSA'} PRIVATE KEY-----\n{body}\n-----END {'RSA'} PRIVATE KEY-----\n")
    repo.git("add", "-A")
    assert rules(repo, "--staged") == [("id", 1, "private-key")]


def test_a_range_shows_what_was_added_and_taken_out_again_and_what_messages_say(repo: Repo) -> None:
    base = repo.git("rev-parse", "HEAD").strip()
    repo.write("a.txt", f"x\n{TOKEN}\n")
    with_token = repo.commit("add")
    repo.write("a.txt", "x\n")
    repo.commit(f"take out {OTHER}")
    assert rules(repo) == []
    done = repo.run("scan", "--json", "--range", f"{base}..HEAD")
    found = {(one["path"], one["line"], one["rule"], one["commit"]) for one in done.json["data"]["findings"]}
    assert ("a.txt", 2, "github-token", with_token) in found
    assert {rule for path, _, rule, _ in found if path == "(message)"} == {"gitlab-token"}


@pytest.mark.parametrize("asked", ["HEAD", "--output=x..y", "nowhere..HEAD"])
def test_what_is_no_range_is_refused(asked: str, repo: Repo) -> None:
    done = repo.run("scan", "--json", f"--range={asked}")
    assert (done.code, done.envelope["error_code"]) == (12, "INVALID_INPUT")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_said_and_is_not_clean(repo: Repo) -> None:
    repo.write("closed.txt", "x").chmod(0)
    done = repo.run("scan", "--json")
    assert done.code == 1
    assert [one["path"] for one in done.json["data"]["unread"]] == ["closed.txt"]


def test_a_pipe_in_a_folder_is_said_and_waited_for_by_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    done = reflectloop(folder, "scan", "--json", ".")
    assert done.code == 1
    assert [one["reason"] for one in done.json["data"]["unread"]] == ["not a regular file"]


def test_a_path_that_is_not_there_is_refused(repo: Repo) -> None:
    assert repo.run("scan", "nowhere").code == 12


def test_a_baseline_lets_stand_what_was_found_and_nothing_else(repo: Repo) -> None:
    repo.write("a.txt", TOKEN)
    assert repo.run("scan", "--write-baseline").code == 0
    text = (repo.path / ".reflectloop-baseline.json").read_text()
    assert TOKEN not in text
    assert json.loads(text)["findings"][0]["rule"] == "github-token"
    repo.write("reflectloop.toml", '[secrets]\nbaseline = ".reflectloop-baseline.json"\n')
    assert rules(repo) == []
    repo.write("b.txt", OTHER)
    assert rules(repo) == [("b.txt", 1, "gitlab-token")]
    repo.write(".reflectloop-baseline.json", "{}")
    assert repo.run("scan").code == 12


USER_RULE = """
[[rule]]
id = "acme-badge"
description = "Badge of acme"
keywords = ["acme-"]
format = 'acme-[0-9]{6}'
grade = "certain"
match = ["acme-{digits:6}"]
not_match = ["acme-{digits:3}"]
"""


def test_a_users_own_rules_are_looked_for(repo: Repo) -> None:
    repo.write("rules.toml", USER_RULE)
    repo.write("reflectloop.toml", '[secrets]\nrules = "rules.toml"\n')
    repo.write("a.txt", "his acme-" + "314159 badge\n")
    assert rules(repo) == [("a.txt", 1, "acme-badge")]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (USER_RULE.replace("{6}'", "{6'").replace("[0-9]", "("), "broken"),
        (USER_RULE.replace('["acme-{digits:6}"]', "[]"), "match"),
        (USER_RULE.replace('["acme-{digits:6}"]', '["acme"]'), "does not find"),
        (USER_RULE.replace('["acme-{digits:3}"]', '["acme-{digits:6}"]'), "should not"),
        (USER_RULE.replace("format", "formt"), "formt"),
        (USER_RULE.replace("acme-[0-9]{6}", "(acme)-([0-9]{6})"), "groups"),
        (USER_RULE.replace("acme-[0-9]{6}", "[0-9]*"), "empty text"),
        ("[[rule", "TOML"),
    ],
)
def test_a_users_rule_that_does_not_work_is_refused_by_name(wrong: str, said: str, repo: Repo) -> None:
    repo.write("rules.toml", wrong)
    repo.write("reflectloop.toml", '[secrets]\nrules = "rules.toml"\n')
    done = repo.run("scan", "--json")
    assert (done.code, done.envelope["error_code"]) == (12, "INVALID_INPUT")
    everything = done.stdout
    assert "rules.toml" in everything
    assert said in everything
    assert said == "TOML" or "acme-badge" in everything


def test_sarif_names_rule_place_and_fingerprint(repo: Repo) -> None:
    repo.write("a.txt", f"\npassword = '{LIKELY}'\n{TOKEN}\n")
    done = repo.run("scan", "--format", "sarif")
    (run,) = json.loads(done.stdout)["runs"]
    assert [(one["ruleId"], one["level"]) for one in run["results"]] == [
        ("assignment", "warning"),
        ("github-token", "error"),
    ]
    assert run["results"][1]["locations"][0]["physicalLocation"]["region"] == {"startLine": 3}
    assert TOKEN not in done.stdout


def test_json_lines_are_answered_by_their_ids(repo: Repo) -> None:
    asked = [{"id": "a", "text": f"x\n{TOKEN}"}, {"id": 2, "text": "nothing"}]
    done = reflectloop(repo.path, "scan", "--jsonl", stdin="".join(json.dumps(one) + "\n" for one in asked))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["id"], [found["line"] for found in one["findings"]]) for one in answers] == [("a", [2]), (2, [])]
    assert reflectloop(repo.path, "scan", "--jsonl", stdin="[]\n").code == 12


def test_the_callers_own_values_are_found_in_every_form(repo: Repo) -> None:
    value = "Zr8/" + "kq+W2m_77pLx"
    encoded = {
        "hex": value.encode().hex().upper(),
        "base64": __import__("base64").b64encode(b"ab" + value.encode()).decode(),
    }
    for name, text in {"plain": value, "url": "Zr8%2f" + "kq%2bW2m_77pLx", **encoded}.items():
        repo.write(f"{name}.txt", f"say {text} now\n")
    done = repo.run("scan", "--json", env={"ACME_API_TOKEN": value})
    found = {one["path"].rsplit("/", 1)[-1]: one["rule"] for one in done.json["data"]["findings"]}
    assert found == dict.fromkeys(["plain.txt", "url.txt", "hex.txt", "base64.txt"], "environment-value")
