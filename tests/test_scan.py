"""`scan` finds secrets in files, streams and commits, honours exceptions, and never prints a value."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from reflectloop.secrets.rulefile import fill_sample
from support import Repo, reflectloop

TOKEN = fill_sample("ghp_{alnum:36}", "a story")
OTHER = fill_sample("glpat-{alnum:20}", "another story")
LIKELY = fill_sample("{lownum:20}", "a third story")


def rules(repo: Repo, *options: str) -> list[tuple[str, int, str]]:
    done = repo.run("scan", "--json", *options)
    findings = done.json["data"]["findings"]
    assert done.code == (1 if findings else 0)
    assert TOKEN not in done.stdout
    return [(finding["path"], finding["line"], finding["rule"]) for finding in findings]


def test_a_clean_project_exits_0_and_one_with_a_secret_1(repo: Repo) -> None:
    clean = repo.run("scan")
    assert (clean.code, clean.stdout, clean.stderr) == (0, "", "no secrets were found\n")
    repo.write("notes.txt", f"one\ntoken {TOKEN}\n")
    done = repo.run("scan")
    assert done.code == 1
    assert "notes.txt:2: certain github-token" in done.stdout
    assert TOKEN not in done.stdout + done.stderr


def test_untracked_files_are_scanned_and_ignored_ones_are_not(repo: Repo) -> None:
    repo.write(".gitignore", "ignored.txt\n")
    repo.write("ignored.txt", TOKEN)
    repo.write(".git/description", TOKEN)
    repo.write("new.txt", TOKEN)
    assert rules(repo) == [("new.txt", 1, "github-token")]


def test_every_file_is_scanned_outside_a_repository(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.bin").write_bytes(b"\0\xff\n" + TOKEN.encode() + b"\0")
    (folder / "link").symlink_to(f"https://host/?token={LIKELY}")
    done = reflectloop(folder, "scan", "--json", ".")
    assert sorted(finding["rule"] for finding in done.json["data"]["findings"]) == ["github-token", "url-with-secret"]


def test_a_link_that_the_user_names_is_said_not_to_be_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_text(TOKEN)
    (tmp_path / "link").symlink_to("real")
    done = reflectloop(tmp_path, "scan", "link")
    assert (done.code, done.stdout) == (0, "")
    assert f"is a link, and only its text was scanned; to scan what it leads to: reflectloop scan {tmp_path}/real" in (
        done.stderr
    )


def test_a_pragma_does_not_count_in_a_stream(repo: Repo) -> None:
    done = reflectloop(repo.path, "scan", "-", stdin=f"x\n{TOKEN}  # allowlist-secret why=FIXTURE\n")
    assert done.code == 1
    assert "(standard input):2: certain github-token" in done.stdout
    assert TOKEN not in done.stdout


def test_a_pragma_counts_only_on_lines_that_are_in_head(repo: Repo) -> None:
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


def test_only_staged_lines_are_scanned_with_their_numbers(repo: Repo) -> None:
    repo.write("old.txt", f"{OTHER}\na\nb\nc\n")
    repo.commit("old")
    repo.write("old.txt", f"{OTHER}\na\nb\nnew {TOKEN}\nc\n")
    repo.git("add", "-A")
    repo.write("old.txt", "nothing\n")
    repo.write("unstaged.txt", TOKEN)
    assert rules(repo, "--staged") == [("old.txt", 4, "github-token")]


@pytest.mark.parametrize("kind", ["empty", "binary", "text", "renamed", "odd"])
def test_file_names_that_a_commit_adds_are_scanned(kind: str, repo: Repo) -> None:
    repo.write("old.txt", "one\ntwo\nthree\n")
    base = repo.commit("old")
    if kind == "renamed":
        repo.git("mv", "old.txt", f"{TOKEN}.txt")
    else:
        name = f'a "b"/{TOKEN}.txt' if kind == "odd" else f"{TOKEN}.txt"
        text = {"empty": "", "binary": "\0\1\2", "text": "x\n", "odd": ""}[kind]
        repo.write(name, text)
    repo.git("add", "-A")
    (finding,) = rules(repo, "--staged")
    assert finding[1:] == (0, "github-token")
    assert "region" not in repo.run("scan", "--staged", "--format", "sarif").stdout
    repo.commit("named")
    (finding,) = rules(repo, "--range", f"{base}..HEAD")
    assert finding[1:] == (0, "github-token")


def test_a_format_filled_with_one_letter_is_likely_in_a_scan(repo: Repo) -> None:
    repo.write("a.txt", "AKIA" + "Z" * 16 + "\nkey: AKC" + "x" * 10 + "\n")
    findings = repo.run("scan", "--json").json["data"]["findings"]
    assert [(finding["rule"], finding["grade"]) for finding in findings] == [
        ("aws-access-key-id", "likely"),
        ("artifactory-short-key", "likely"),
    ]


def test_other_placeholders_are_not_reported_by_scan(repo: Repo) -> None:
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
    body = "\n".join(fill_sample("{base64:64}", str(line)) for line in range(6))
    repo.write("id", f"-----BEGIN {'RSA'} PRIVATE KEY-----\n{body}\n-----END {'RSA'} PRIVATE KEY-----\n")
    repo.git("add", "-A")
    assert rules(repo, "--staged") == [("id", 1, "private-key")]


def test_a_range_includes_removed_lines_and_messages(repo: Repo) -> None:
    base = repo.git("rev-parse", "HEAD").strip()
    repo.write("a.txt", f"x\n{TOKEN}\n")
    with_token = repo.commit("add")
    repo.write("a.txt", "x\n")
    repo.commit(f"take out {OTHER}")
    assert rules(repo) == []
    done = repo.run("scan", "--json", "--range", f"{base}..HEAD")
    findings = {(item["path"], item["line"], item["rule"], item["commit"]) for item in done.json["data"]["findings"]}
    assert ("a.txt", 2, "github-token", with_token) in findings
    assert {rule for path, _, rule, _ in findings if path == "(message)"} == {"gitlab-token"}


@pytest.mark.parametrize("asked", ["HEAD", "--output=x..y", "nowhere..HEAD"])
def test_an_invalid_range_is_refused(asked: str, repo: Repo) -> None:
    done = repo.run("scan", "--json", f"--range={asked}")
    assert (done.code, done.envelope["error_code"]) == (12, "INVALID_INPUT")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_reported_and_not_clean(repo: Repo) -> None:
    repo.write("closed.txt", "x").chmod(0)
    done = repo.run("scan", "--json")
    assert done.code == 1
    assert [file["path"] for file in done.json["data"]["unread"]] == ["closed.txt"]


def test_a_pipe_in_a_folder_is_reported_and_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    done = reflectloop(folder, "scan", "--json", ".")
    assert done.code == 1
    assert [file["reason"] for file in done.json["data"]["unread"]] == ["not a regular file"]


def test_a_missing_path_is_refused(repo: Repo) -> None:
    assert repo.run("scan", "nowhere").code == 12


def test_a_baseline_ignores_only_the_recorded_findings(repo: Repo) -> None:
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


def test_the_users_rules_are_applied(repo: Repo) -> None:
    repo.write("rules.toml", USER_RULE)
    repo.write("reflectloop.toml", '[secrets]\nrules = "rules.toml"\n')
    repo.write("a.txt", "his acme-" + "314159 badge\n")
    assert rules(repo) == [("a.txt", 1, "acme-badge")]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (USER_RULE.replace("{6}'", "{6'").replace("[0-9]", "("), "broken"),
        (USER_RULE.replace('["acme-{digits:6}"]', "[]"), "match"),
        (USER_RULE.replace('["acme-{digits:6}"]', '["acme"]'), "does not match"),
        (USER_RULE.replace('["acme-{digits:3}"]', '["acme-{digits:6}"]'), "must not match"),
        (USER_RULE.replace("format", "formt"), "formt"),
        (USER_RULE.replace("acme-[0-9]{6}", "(acme)-([0-9]{6})"), "groups"),
        (USER_RULE.replace("acme-[0-9]{6}", "[0-9]*"), "empty text"),
        ("[[rule", "TOML"),
    ],
)
def test_a_broken_user_rule_is_refused_by_name(wrong: str, message: str, repo: Repo) -> None:
    repo.write("rules.toml", wrong)
    repo.write("reflectloop.toml", '[secrets]\nrules = "rules.toml"\n')
    done = repo.run("scan", "--json")
    assert (done.code, done.envelope["error_code"]) == (12, "INVALID_INPUT")
    everything = done.stdout
    assert "rules.toml" in everything
    assert message in everything
    assert message == "TOML" or "acme-badge" in everything


def test_sarif_names_rule_place_and_fingerprint(repo: Repo) -> None:
    repo.write("a.txt", f"\npassword = '{LIKELY}'\n{TOKEN}\n")
    done = repo.run("scan", "--format", "sarif")
    (run,) = json.loads(done.stdout)["runs"]
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [
        ("assignment", "warning"),
        ("github-token", "error"),
    ]
    assert run["results"][1]["locations"][0]["physicalLocation"]["region"] == {"startLine": 3}
    assert TOKEN not in done.stdout


def test_json_lines_are_answered_by_id(repo: Repo) -> None:
    asked = [{"id": "a", "text": f"x\n{TOKEN}"}, {"id": 2, "text": "nothing"}]
    done = reflectloop(repo.path, "scan", "--jsonl", stdin="".join(json.dumps(request) + "\n" for request in asked))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(answer["id"], [finding["line"] for finding in answer["findings"]]) for answer in answers] == [
        ("a", [2]),
        (2, []),
    ]
    assert reflectloop(repo.path, "scan", "--jsonl", stdin="[]\n").code == 12


def test_identifiers_are_listed_if_asked_for_and_are_no_secrets(repo: Repo) -> None:
    uuid = fill_sample("{uuid}", "a row")
    repo.write(
        "rows.sql",
        f"WHERE id = {uuid};\n-- from 9.9.9.9\nWHERE host = '10.1.2.3' OR id = {'0' * 8}-0000-0000-0000-{'0' * 12};\n",
    )
    assert rules(repo) == []
    done = repo.run("scan", "--identifiers", "--json")
    assert (done.code, done.json["data"]["clean"]) == (0, True)
    assert [(each["line"], each["rule"], each["grade"]) for each in done.json["data"]["findings"]] == [
        (1, "uuid", "identifier"),
        (2, "public-address", "identifier"),
    ]
    shown = repo.run("scan", "--identifiers")
    assert shown.code == 0
    assert "rows.sql:1: identifier uuid" in shown.stdout
    assert "no secrets were found" in shown.stderr
    (run,) = json.loads(repo.run("scan", "--identifiers", "--format", "sarif").stdout)["runs"]
    assert {result["level"] for result in run["results"]} == {"note"}


def test_json_lines_grade_identifiers_below_secrets(repo: Repo) -> None:
    uuid = fill_sample("{uuid}", "a key")
    asked = "".join(
        json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate((f"x {uuid}", f'client_secret = "{uuid}"'))
    )
    done = reflectloop(repo.path, "scan", "--jsonl", stdin=asked)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [[each["grade"] for each in answer["findings"]] for answer in answers] == [["identifier"], ["likely"]]


def test_environment_values_are_found_in_every_form(repo: Repo) -> None:
    value = "Zr8/" + "kq+W2m_77pLx"
    encoded = {
        "hex": value.encode().hex().upper(),
        "base64": __import__("base64").b64encode(b"ab" + value.encode()).decode(),
    }
    for name, text in {"plain": value, "url": "Zr8%2f" + "kq%2bW2m_77pLx", **encoded}.items():
        repo.write(f"{name}.txt", f"say {text} now\n")
    done = repo.run("scan", "--json", env={"ACME_API_TOKEN": value})
    by_file = {item["path"].rsplit("/", 1)[-1]: item["rule"] for item in done.json["data"]["findings"]}
    assert by_file == dict.fromkeys(["plain.txt", "url.txt", "hex.txt", "base64.txt"], "environment-value")
