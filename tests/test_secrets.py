"""Secrets: found whatever the chunking, stopped before disk and terminal, and nowhere to be found afterwards."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reflectloop.errors import SecretLeak
from reflectloop.secrets import Scanner, SecretFinding, current, env_values, narrow
from reflectloop.secrets.scanner import fingerprint
from reflectloop.workspace.added_lines import AddedLines
from reflectloop.workspace.patch import RedactedPatch
from support import PROGRAM, Repo, noise

KEY = "sk-" + "q1w2e3r4t5y6u7i8o9p0"


def scan(text: bytes) -> list[SecretFinding]:
    return current().scan(text)


def a_scanner() -> Scanner:
    return current().scanner()


def made(*parts: str) -> bytes:
    """A test vector that stands nowhere in the source as a whole."""
    return "".join(parts).encode()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (made("TAVILY_API_KEY", "=", "abcd1234"), "search-api-key"),
        (made("BRAVE_SEARCH_API_KEY", ": ", "abcd1234"), "search-api-key"),
        (made('"DASHSCOPE_API_KEY"', ': "', "abcd1234", '"'), "search-api-key"),
        (made("TAVILY_MCP_URL", "=", "wss://host/x"), "search-api-key"),
        (made("key = ", "sk-", "abcdefghij12"), "prefixed-token"),
        (made("token: ", "tvly-", "abcdefghij12"), "prefixed-token"),
        (made("GET https://host/path?x=1&", "api_key=", "abcd1234"), "url-with-secret"),
        (made("http://host/?", "token=", "abcd1234&y=2"), "url-with-secret"),
    ],
)
def test_the_seeds_patterns_are_found(text: bytes, rule: str) -> None:
    assert [found.rule for found in scan(b"before\n" + text + b"\nafter\n")] == [rule]
    assert scan(b"before\n" + text + b"\nafter\n")[0].line == 2


@pytest.mark.parametrize(
    "text",
    [
        "BRAVE_API_KEY: <SET>",
        "TAVILY_API_KEY=${TAVILY_API_KEY}",
        "DASHSCOPE_API_KEY = your-key-here",
        "export BRAVE_API_KEY=$KEY",
        "https://host/?token=<token>",
        "https://host/?api_key=xxxxxxxx",
        "task-1234567890 = sk-short",
        "the sk- prefix alone",
        "risk-assessment: done",
    ],
)
def test_names_and_placeholders_are_no_secrets(text: str) -> None:
    assert scan(text.encode()) == []


@given(st.binary(max_size=300), st.binary(max_size=300), st.lists(st.integers(1, 40), min_size=1, max_size=60))
def test_findings_do_not_depend_on_the_chunking(before: bytes, after: bytes, sizes: list[int]) -> None:
    stream = before + b"\nkey = " + KEY.encode() + b"\n" + after
    whole = a_scanner()
    expected = whole.feed(stream) + whole.finish()
    pieces = a_scanner()
    out, position = b"", 0
    for size in sizes * (1 + len(stream) // sum(sizes)):
        out += pieces.feed(stream[position : position + size])
        position += size
    out += pieces.feed(stream[position:]) + pieces.finish()
    assert out == expected
    assert pieces.findings == whole.findings
    assert KEY.encode() not in out


def test_a_secret_in_a_line_without_end_is_found_across_windows() -> None:
    for offset in range(0, 140_000, 9_973):
        scanner = a_scanner()
        line = b"x" * offset + b" key=" + KEY.encode() + b" " + b"y" * (200_000 - offset)
        out = (
            b"".join(scanner.feed(line[start : start + 4096]) for start in range(0, len(line), 4096)) + scanner.finish()
        )
        assert KEY.encode() not in out
        assert len(scanner.findings) == 1


def test_memory_is_flat_on_a_line_without_end() -> None:
    scanner = a_scanner()
    for _ in range(100):
        scanner.feed(b"x" * 100_000)
        assert len(scanner._data) < 200_000


def test_redaction_keeps_the_rest() -> None:
    assert current().redact(f"a\nkey = {KEY} and more\nb") == "a\nkey = [REDACTED:prefixed-token] and more\nb"


def test_only_lines_a_patch_adds_count() -> None:
    patch = f"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-key = {KEY}\n context = {KEY}\n+key = $KEY\n".encode()
    for size in (1, 7, 1000):
        added = AddedLines(current())
        for start in range(0, len(patch), size):
            added.feed(patch[start : start + size])
        assert added.finish() == []
        assert len(added.moved) == 1
    leaking = AddedLines(current())
    leaking.feed(patch.replace(b"+key = $KEY", b"+key = " + KEY.encode()))
    (found,) = leaking.finish()
    assert (found.path, found.line, found.finding.grade) == ("f", 2, "certain")


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_lines_of_any_length_are_told_apart_in_a_patch(size: int) -> None:
    long = b"x" * 300_000
    lines = [b"-" + long, b"- key = " + KEY.encode(), b" " + long, b"+" + long + b" key = " + KEY.encode(), b"+ short"]
    patch = (
        b"--- a/f\n+++ b/f\n@@ -8,3 +8,3 @@\n"
        + b"\n".join(lines)
        + b"\n--- a/g\n+++ b/g\n@@ -0,0 +1 @@\n+key="
        + KEY.encode()
    )
    added = AddedLines(current())
    shown: list[bytes] = []
    cleaned = RedactedPatch(shown.append)
    news = []
    for start in range(0, len(patch), size):
        added.feed(patch[start : start + size])
        news += added.news()
        cleaned.feed(patch[start : start + size])
    cleaned.finish()
    found = added.finish()
    assert [(one.path, one.line) for one in found] == [("f", 9), ("g", 1)]
    assert news + added.news() == found
    assert len(added.moved) == 1
    assert b"".join(shown) == patch.replace(KEY.encode(), b"[REDACTED:prefixed-token]")


def seconds_for_hunks(count: int) -> float:
    """A patch of so many hunks, each with what may be a secret, asked after every few kB."""
    hunk = "@@ -{0} +{0} @@\n-a\n+db_password = '" + doubtful() + "{0}'\n"
    patch = ("--- a/f\n+++ b/f\n" + "".join(hunk.format(n) for n in range(1, count + 1))).encode()
    added = AddedLines(current())
    begun = time.process_time()
    for start in range(0, len(patch), 4096):
        added.feed(patch[start : start + 4096])
        added.news()
    assert [one.line for one in added.finish()] == list(range(1, count + 1))
    return time.process_time() - begun


def test_time_grows_with_the_number_of_hunks_and_not_faster() -> None:
    seconds_for_hunks(100)
    assert seconds_for_hunks(4000) < 8 * seconds_for_hunks(1000) + 0.1


@pytest.mark.parametrize("sign", [b"+", b"-", b" "])
def test_time_grows_with_the_length_of_a_line_and_not_faster(sign: bytes) -> None:
    def seconds(size: int) -> float:
        begun = time.process_time()
        for reader in (AddedLines(current()), RedactedPatch(lambda _: None)):
            reader.feed(b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n" + sign)
            for _ in range(size):
                reader.feed(b"x" * 1024)
            reader.finish()
        return time.process_time() - begun

    seconds(100)
    assert seconds(8000) < 8 * seconds(2000) + 0.2


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_secret_in_utf_16_is_a_leak(coding: str, repo: Repo) -> None:
    half, rest = KEY[:9], KEY[9:]
    make = f"python3 -c \"open('x','wb').write(('é = 1\\nkey = {half}'+'{rest}\\n').encode('{coding}'))\""
    said = leaks_nowhere(repo, repo.steps(make), KEY)
    assert "prefixed-token" in said


@given(
    st.text(st.characters(max_codepoint=0x250), max_size=40),
    st.sampled_from(["utf-16-le", "utf-16-be"]),
    st.integers(0, 60),
)
def test_utf_16_is_read_as_text_wherever_it_is_cut(before: str, coding: str, cut: int) -> None:
    wide = f"{before}\nkey = {KEY}\n\xe9".encode(coding)
    cut = len(wide) - 90 + cut
    pieces = a_scanner()
    pieces.feed(narrow(wide[:cut]))
    pieces.feed(narrow(wide[cut:]))
    pieces.finish()
    assert "prefixed-token" in [one.rule for one in pieces.findings]


def test_strings_that_end_in_nul_do_not_run_together() -> None:
    binary = b"a\0b\0c\0d\0" + KEY.encode() + b"\0abc\0"
    assert narrow(binary) == b"abcd\0" + KEY.encode() + b"\0abc\0"
    assert narrow(b"abc\0x\0y\0z\0w\0\0\xff\0") == b"abc\0xyzw\0\xff\0"


def everywhere(*roots: Path) -> bytes:
    """Every byte under some folders, packed objects and all, names too."""
    out = []
    for root in roots:
        for path in root.rglob("*"):
            out.append(os.fsencode(path.name))
            if path.is_file() and not path.is_symlink():
                out.append(path.read_bytes())
                if "objects" in path.parts and len(path.name) == 38:
                    git_dir = path.parents[2] if path.parents[1].name == "objects" else path.parents[1]
                    oid = path.parent.name + path.name
                    shown = subprocess.run(
                        ["git", f"--git-dir={git_dir}", "cat-file", "-p", oid], capture_output=True, check=False
                    )
                    out.append(shown.stdout)
    return b"\n".join(out)


LEAKS = {
    "stdout": "echo key = $K",
    "stderr": "echo key = $K >&2",
    "split across writes": "printf 'key = '; printf '%s' ${K:0:7}; sleep 0.2; printf '%s\\n' ${K:7}",
    "no newline": "printf 'key = %s' $K",
    "a file in the patch": "echo key = $K > settings.ini",
    "a binary-looking file": "printf 'key = %s\\n\\0' $K > data.bin",
    "an environment dump": "echo SERVICE_TOKEN=$K; env | grep SERVICE",
    "a file name": "touch key=$K",
    "a folder name": "mkdir token=$K && touch token=$K/x",
    "a commit message": "git commit -q --allow-empty -m 'key = '$K",
    "a link's target": "ln -s key=$K link",
    "with the pragma": "echo key = $K '# allowlist-secret why=TEST_VECTOR'",
    "in a file with the pragma": "echo key = $K '# allowlist-secret why=FIXTURE' > fixture.ini",
    "after much else": "head -c 30000000 /dev/zero | tr '\\0' 'a'; echo; echo key = $K; head -c 9000000 /dev/zero | tr '\\0' b",
    "amid escapes and binary": f"{noise(1, 100_000)}; printf '\\033[2J\\000 key = %s \\033[0m' $K",
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_stops_the_run_and_leaves_the_value_nowhere(name: str, repo: Repo, tmp_path: Path) -> None:
    """The value comes together only inside the box, from two halves that are no secret."""
    halves = f"K={KEY[:4]}; K=${{K}}{KEY[4:]}; "
    plan = repo.steps(halves + LEAKS[name], "touch never")
    done = subprocess.run(
        [*PROGRAM, "run", str(plan)], cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert done.returncode == 99, done.stdout.decode()
    assert KEY.encode() not in done.stdout
    assert repo.workspaces() == []
    assert KEY.encode() not in everywhere(repo.path / ".reflectloop", Path(os.environ["TMPDIR"]))
    assert repo.run("diff").code == 14
    del tmp_path


def leaks_nowhere(repo: Repo, plan: Path, *values: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [*PROGRAM, "run", str(plan)],
        cwd=repo.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        env={**os.environ, **(env or {})},
    )
    assert done.returncode == 99, done.stdout.decode()
    left = everywhere(repo.path / ".reflectloop", Path(os.environ["TMPDIR"])) + done.stdout
    for value in values:
        assert value.encode() not in left
    return done.stdout.decode()


def test_two_streams_do_not_make_a_secret_of_their_halves(repo: Repo) -> None:
    command = f"printf 'key = {KEY[:9]}'; sleep 0.2; printf '{KEY[9:]}' >&2"
    plan = repo.steps("true", verify=[{"run": command}])
    assert "stdout and stderr together" in leaks_nowhere(repo, plan, KEY)


@pytest.mark.parametrize("form", ["as it is", "base64", "hex", "url"])
def test_a_value_of_the_callers_own_is_known_in_any_form(form: str, repo: Repo) -> None:
    value = made("quiet", "+Harbour/", "42;", "lantern").decode()
    print_it = {
        "as it is": "printf 'x%sy' \"$V\"",
        "base64": "printf 'user:%s' \"$V\" | base64 -w0",
        "hex": "printf %s \"$V\" | od -An -tx1 | tr -d ' \\n'",
        "url": 'python3 -c \'import sys, urllib.parse; print(urllib.parse.quote(sys.argv[1], safe=""))\' "$V"',
    }[form]
    plan = repo.steps(f"V=quiet; V=$V'+Harbour/42;'lantern; {print_it}")
    told = leaks_nowhere(repo, plan, value, env={"PAYMENT_API_KEY": value})
    assert "SECRET_LEAK" in told


def doubtful() -> str:
    return made("pass", "word = ", '"Vq8', "#zT1", 'xLw92"').decode()


def test_what_may_be_a_secret_is_redacted_from_output_and_said(repo: Repo) -> None:
    first, second = doubtful()[:15], doubtful()[15:]
    answer = repo.run("run", "--json", repo.steps(f"printf '%s%s\\n' '{first}' '{second}'"))
    assert answer.code == 0, answer.stdout
    assert "may be a secret" in "".join(answer.envelope["warnings"])
    text = (repo.latest() / "logs" / "P-1.1.log").read_text()
    assert "[REDACTED:" in text
    assert second not in text


def test_what_may_be_a_secret_in_the_patch_is_for_a_person_to_judge(repo: Repo) -> None:
    first, second = doubtful()[:15], doubtful()[15:]
    plan = repo.steps(f"printf '# one\\n%s%s\\n' '{first}' '{second}' > settings.py")
    answer = repo.run("run", "--json", plan)
    assert answer.code == 33
    assert answer.envelope["error_code"] == "GATE_REJECTED"
    assert "settings.py:2" in answer.envelope["message"]
    card = yaml.safe_load((repo.latest() / "blocker.yaml").read_text())
    assert card["needs"] == ["ASK"]
    assert repo.run("apply", "--yes").code == 14
    again = repo.run("run", "--json", plan)
    assert again.code == 33  # no latch
    mark = re.search(r"fingerprint ([0-9a-f]{12})", again.envelope["message"])
    assert mark
    entry = {"path": "settings.py", "fingerprint": mark[1]}
    (repo.path.parent / "baseline.json").write_text(json.dumps({"version": 1, "findings": [entry]}))
    repo.write("reflectloop.toml", '[secrets]\nbaseline = "../baseline.json"\n')
    assert repo.run("run", plan).code == 0


def test_a_line_that_moves_adds_no_secret(repo: Repo) -> None:
    repo.write("old.py", doubtful() + "\n" + "filler = 1\n" * 3)
    repo.commit("as it was")
    assert repo.run("run", repo.steps("head -1 old.py > new.py; sed -i 1d old.py; echo x = 1 >> new.py")).code == 0


def test_a_reason_or_message_that_holds_a_secret_is_refused(repo: Repo) -> None:
    assert repo.run("run", repo.steps("exit 1")).code == 30
    for words in (["retry", "--reason"], ["unlock", "--reason"]):
        answer = repo.run(*words, f"the token = {KEY} was wrong")
        assert answer.code == 12
        assert KEY not in answer.stderr
    assert KEY.encode() not in everywhere(repo.path / ".reflectloop")


def test_a_scanner_that_dies_is_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise MemoryError

    scanner = a_scanner()
    monkeypatch.setattr(type(scanner._matcher), "find", die)
    with pytest.raises(SecretLeak, match="the scanner failed"):
        scanner.feed(b"a line\n")


def test_a_binary_patch_is_shown_as_it_is(repo: Repo) -> None:
    """Chance makes anything of packed lines: they must apply."""
    shown: list[bytes] = []
    packed = b"diff --git a/x b/x\nGIT binary patch\nliteral 9\nz=" + KEY.encode() + b"\n\n"
    text = b"diff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -1 +0,0 @@\n-key = " + KEY.encode() + b"\n"
    cleaned = RedactedPatch(shown.append)
    for byte in packed + text:
        cleaned.feed(bytes([byte]))
    cleaned.finish()
    assert b"".join(shown) == packed + text.replace(KEY.encode(), b"[REDACTED:prefixed-token]")
    del repo


def test_a_patch_may_take_a_leaked_key_out(repo: Repo) -> None:
    repo.write("settings.ini", f"key = {KEY}\nother = 1\n")
    repo.commit("a leak of old")
    assert repo.run("run", repo.steps("sed -i /sk-/d settings.ini")).code == 0
    shown = repo.run("diff")
    assert KEY not in shown.stdout
    assert "[REDACTED:prefixed-token]" in shown.stdout
    assert repo.run("apply", "--yes").code == 0
    assert (repo.path / "settings.ini").read_text() == "other = 1\n"


def test_a_likely_secret_in_the_output_is_taken_out_and_does_not_stop_the_run(repo: Repo) -> None:
    plan = repo.steps("A=x7Kq; B=29mZtLw4; echo \"db_password = '$A$B'\"; echo done")
    done = repo.run("run", plan)
    assert done.code == 0
    log = next((repo.latest() / "logs").iterdir()).read_bytes()
    assert made("x7Kq", "29mZtLw4") not in log + done.stdout.encode()
    assert b"db_password = '[REDACTED:assignment]'" in log
    assert b"done" in log


def test_a_value_of_the_callers_own_stops_the_run_in_base64_too(repo: Repo) -> None:
    plan = repo.steps('A=x7Kq; B=29mZtLw4; echo "login: $A$B" | base64')
    value = made("x7Kq", "29mZtLw4").decode()
    assert repo.run("run", plan).code == 0
    done = repo.run("run", "--new", plan, env={"ACME_TOKEN": value})
    assert done.code == 99
    assert "environment-value" in done.stderr + done.stdout


def test_a_projects_own_rules_and_baseline_hold_in_runs(repo: Repo) -> None:
    rule = '[[rule]]\nid = "badge"\ndescription = "x"\nkeywords = ["acme-"]\nformat = "acme-[0-9]{6}"\n'
    repo.write("rules.toml", rule + 'grade = "certain"\nmatch = ["acme-{digits:6}"]\n')
    repo.write("reflectloop.toml", '[secrets]\nrules = "rules.toml"\n')
    plan = repo.steps("echo acme-$((314000 + 159))")
    assert repo.run("run", plan).code == 99
    mark = fingerprint(made("acme-", "314159"))
    repo.write("baseline.json", f'{{"findings": [{{"fingerprint": "{mark}"}}]}}')
    repo.write("reflectloop.toml", '[secrets]\nrules = "rules.toml"\nbaseline = "baseline.json"\n')
    repo.run("unlock", "--reason", "a badge is no secret")
    assert repo.run("run", "--new", plan).code == 0


@pytest.mark.parametrize("name", ["PWD", "OLDPWD", "INIT_PWD"])
def test_where_a_shell_stands_is_no_secret_whatever_the_folder_is_called(name: str) -> None:
    assert env_values.values({name: "/home/ada/my project @ home: 2026/shop-9f8e7d"}) == ()
