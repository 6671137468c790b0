"""Secrets are found at any chunking, stopped before disk and terminal, and stored nowhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reflectloop.errors import SecretLeak
from reflectloop.secrets import Scanner, SecretFinding, as_plain_text, current_detector
from reflectloop.secrets.detector import environment_values
from reflectloop.secrets.scanner import fingerprint
from reflectloop.workspace.added_lines import AddedLines
from reflectloop.workspace.patch import RedactedPatch
from support import Repo, calls_of, noise

KEY = "sk-" + "q1w2e3r4t5y6u7i8o9p0"


def scan(text: bytes) -> list[SecretFinding]:
    return current_detector().scan(text)


def new_scanner() -> Scanner:
    return current_detector().scanner()


def joined(*parts: str) -> bytes:
    """Join a test vector that must not appear as one text in the source."""
    return "".join(parts).encode()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (joined("TAVILY_API_KEY", "=", "abcd1234"), "search-api-key"),
        (joined("BRAVE_SEARCH_API_KEY", ": ", "abcd1234"), "search-api-key"),
        (joined('"DASHSCOPE_API_KEY"', ': "', "abcd1234", '"'), "search-api-key"),
        (joined("TAVILY_MCP_URL", "=", "wss://host/x"), "search-api-key"),
        (joined("key = ", "sk-", "abcdefghij12"), "prefixed-token"),
        (joined("token: ", "tvly-", "abcdefghij12"), "prefixed-token"),
        (joined("GET https://host/path?x=1&", "api_key=", "abcd1234"), "url-with-secret"),
        (joined("http://host/?", "token=", "abcd1234&y=2"), "url-with-secret"),
    ],
)
def test_the_basic_patterns_are_found(text: bytes, rule: str) -> None:
    assert [finding.rule for finding in scan(b"before\n" + text + b"\nafter\n")] == [rule]
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
def test_names_and_placeholders_are_not_secrets(text: str) -> None:
    assert scan(text.encode()) == []


@given(st.binary(max_size=300), st.binary(max_size=300), st.lists(st.integers(1, 40), min_size=1, max_size=60))
def test_findings_do_not_depend_on_the_chunking(before: bytes, after: bytes, sizes: list[int]) -> None:
    stream = before + b"\nkey = " + KEY.encode() + b"\n" + after
    at_once = new_scanner()
    expected = at_once.feed(stream) + at_once.finish()
    pieces = new_scanner()
    out, position = b"", 0
    for size in sizes * (1 + len(stream) // sum(sizes)):
        out += pieces.feed(stream[position : position + size])
        position += size
    out += pieces.feed(stream[position:]) + pieces.finish()
    assert out == expected
    assert pieces.findings == at_once.findings
    assert KEY.encode() not in out


def test_a_secret_in_a_huge_line_is_found_across_windows() -> None:
    for offset in range(0, 140_000, 9_973):
        scanner = new_scanner()
        line = b"x" * offset + b" key=" + KEY.encode() + b" " + b"y" * (200_000 - offset)
        out = (
            b"".join(scanner.feed(line[start : start + 4096]) for start in range(0, len(line), 4096)) + scanner.finish()
        )
        assert KEY.encode() not in out
        assert len(scanner.findings) == 1


def test_memory_is_bounded_on_a_huge_line() -> None:
    scanner = new_scanner()
    for _ in range(100):
        scanner.feed(b"x" * 100_000)
        assert len(scanner._data) < 200_000


def test_redaction_keeps_the_other_text() -> None:
    assert current_detector().redact(f"a\nkey = {KEY} and more\nb") == "a\nkey = [REDACTED:prefixed-token] and more\nb"


def test_only_lines_that_a_patch_adds_count() -> None:
    patch = f"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-key = {KEY}\n context = {KEY}\n+key = $KEY\n".encode()
    for size in (1, 7, 1000):
        added = AddedLines(current_detector())
        for start in range(0, len(patch), size):
            added.feed(patch[start : start + size])
        assert added.finish() == []
        assert len(added.moved) == 1
    leaking = AddedLines(current_detector())
    leaking.feed(patch.replace(b"+key = $KEY", b"+key = " + KEY.encode()))
    (secret,) = leaking.finish()
    assert (secret.path, secret.line, secret.finding.grade) == ("f", 2, "certain")


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_added_lines_of_any_length_are_recognised_in_a_patch(size: int) -> None:
    long = b"x" * 300_000
    lines = [b"-" + long, b"- key = " + KEY.encode(), b" " + long, b"+" + long + b" key = " + KEY.encode(), b"+ short"]
    patch = (
        b"--- a/f\n+++ b/f\n@@ -8,3 +8,3 @@\n"
        + b"\n".join(lines)
        + b"\n--- a/g\n+++ b/g\n@@ -0,0 +1 @@\n+key="
        + KEY.encode()
    )
    added = AddedLines(current_detector())
    redacted: list[bytes] = []
    cleaned = RedactedPatch(redacted.append)
    for start in range(0, len(patch), size):
        added.feed(patch[start : start + size])
        cleaned.feed(patch[start : start + size])
    cleaned.finish()
    secrets = added.finish()
    assert [(secret.path, secret.line) for secret in secrets] == [("f", 9), ("g", 1)]
    assert len(added.moved) == 1
    assert b"".join(redacted) == patch.replace(KEY.encode(), b"[REDACTED:prefixed-token]")


def cost_of_hunks(count: int) -> int:
    """Count the calls for a patch of `count` hunks with a possible secret each, read every few kB."""
    hunk = "@@ -{0} +{0} @@\n-a\n+db_password = '" + possible_secret() + "{0}'\n"
    patch = ("--- a/f\n+++ b/f\n" + "".join(hunk.format(n) for n in range(1, count + 1))).encode()
    added = AddedLines(current_detector())

    def read() -> None:
        for start in range(0, len(patch), 4096):
            added.feed(patch[start : start + 4096])
        assert [secret.line for secret in added.finish()] == list(range(1, count + 1))

    return calls_of(read)


def test_the_cost_of_a_scan_is_linear_in_the_number_of_hunks() -> None:
    cost_of_hunks(10)
    assert cost_of_hunks(600) < 2.2 * cost_of_hunks(300)


@pytest.mark.parametrize("sign", [b"+", b"-", b" "])
def test_the_cost_of_a_scan_is_linear_in_the_length_of_a_line(sign: bytes) -> None:
    def read(size: int) -> None:
        for reader in (AddedLines(current_detector()), RedactedPatch(lambda _: None)):
            reader.feed(b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n" + sign)
            for _ in range(size):
                reader.feed(b"x" * 1024)
            reader.finish()

    read(10)
    assert calls_of(lambda: read(2000)) < 2.2 * calls_of(lambda: read(1000))


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_secret_in_utf_16_is_a_leak(coding: str, repo: Repo) -> None:
    half, rest = KEY[:9], KEY[9:]
    make = f"python3 -c \"open('x','wb').write(('é = 1\\nkey = {half}'+'{rest}\\n').encode('{coding}'))\""
    output = leaks_nowhere(repo, repo.steps(make), KEY)
    assert "prefixed-token" in output


@given(
    st.text(st.characters(max_codepoint=0x250), max_size=40),
    st.sampled_from(["utf-16-le", "utf-16-be"]),
    st.integers(0, 60),
)
def test_utf_16_is_read_as_text_across_chunks(before: str, coding: str, cut: int) -> None:
    wide = f"{before}\nkey = {KEY}\n\xe9".encode(coding)
    cut = len(wide) - 90 + cut
    pieces = new_scanner()
    pieces.feed(as_plain_text(wide[:cut]))
    pieces.feed(as_plain_text(wide[cut:]))
    pieces.finish()
    assert "prefixed-token" in [finding.rule for finding in pieces.findings]


def test_strings_that_end_in_nul_are_not_joined() -> None:
    binary = b"a\0b\0c\0d\0" + KEY.encode() + b"\0abc\0"
    assert as_plain_text(binary) == b"abcd\0" + KEY.encode() + b"\0abc\0"
    assert as_plain_text(b"abc\0x\0y\0z\0w\0\0\xff\0") == b"abc\0xyzw\0\xff\0"


def everywhere(*roots: Path) -> bytes:
    """Return every byte under the folders, with file names and the content of git objects."""
    out = []
    for root in roots:
        for path in root.rglob("*"):
            out.append(os.fsencode(path.name))
            if path.is_file() and not path.is_symlink():
                out.append(path.read_bytes())
                if "objects" in path.parts and len(path.name) == 38:
                    git_dir = path.parents[2] if path.parents[1].name == "objects" else path.parents[1]
                    oid = path.parent.name + path.name
                    result = subprocess.run(
                        ["git", f"--git-dir={git_dir}", "cat-file", "-p", oid], capture_output=True, check=False
                    )
                    out.append(result.stdout)
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
    "after much else": "head -c 12000000 /dev/zero | tr '\\0' 'a'; echo; echo key = $K; head -c 9000000 /dev/zero | tr '\\0' b",
    "amid escapes and binary": f"{noise(1, 100_000)}; printf '\\033[2J\\000 key = %s \\033[0m' $K",
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_stops_the_run_and_the_value_is_stored_nowhere(name: str, repo: Repo, tmp_path: Path) -> None:
    """The value is put together only inside the sandbox, from two halves that are not secrets."""
    halves = f"K={KEY[:4]}; K=${{K}}{KEY[4:]}; "
    plan = repo.steps(halves + LEAKS[name], "touch never")
    done = repo.run("run", plan)
    assert done.code == 99, done.stderr
    assert KEY not in done.stdout + done.stderr
    assert repo.workspaces() == []
    assert KEY.encode() not in everywhere(repo.path / ".reflectloop", Path(os.environ["TMPDIR"]))
    assert repo.run("diff").code == 14
    del tmp_path


def leaks_nowhere(repo: Repo, plan: Path, *values: str, env: dict[str, str] | None = None) -> str:
    done = repo.run("run", plan, env=env)
    output = done.stdout + done.stderr
    assert done.code == 99, output
    left = everywhere(repo.path / ".reflectloop", Path(os.environ["TMPDIR"]))
    for value in values:
        assert value.encode() not in left
        assert value not in output
    return output


def test_a_secret_split_over_stdout_and_stderr_is_a_leak(repo: Repo) -> None:
    command = f"printf 'key = {KEY[:9]}'; sleep 0.2; printf '{KEY[9:]}' >&2"
    plan = repo.steps("true", verify=[{"run": command}])
    assert "stdout and stderr together" in leaks_nowhere(repo, plan, KEY)


@pytest.mark.parametrize("form", ["as it is", "base64", "hex", "url"])
def test_a_value_of_the_callers_environment_is_found_in_any_form(form: str, repo: Repo) -> None:
    value = joined("quiet", "+Harbour/", "42;", "lantern").decode()
    print_it = {
        "as it is": "printf 'x%sy' \"$V\"",
        "base64": "printf 'user:%s' \"$V\" | base64 -w0",
        "hex": "printf %s \"$V\" | od -An -tx1 | tr -d ' \\n'",
        "url": 'python3 -c \'import sys, urllib.parse; print(urllib.parse.quote(sys.argv[1], safe=""))\' "$V"',
    }[form]
    plan = repo.steps(f"V=quiet; V=$V'+Harbour/42;'lantern; {print_it}")
    output = leaks_nowhere(repo, plan, value, env={"PAYMENT_API_KEY": value})
    assert "SECRET_LEAK" in output


def possible_secret() -> str:
    return joined("pass", "word = ", '"Vq8', "#zT1", 'xLw92"').decode()


def test_a_possible_secret_in_output_is_redacted_and_reported(repo: Repo) -> None:
    first, second = possible_secret()[:15], possible_secret()[15:]
    answer = repo.run("run", "--json", repo.steps(f"printf '%s%s\\n' '{first}' '{second}'"))
    assert answer.code == 0, answer.stdout
    assert "may be a secret" in "".join(answer.envelope["warnings"])
    text = (repo.latest() / "logs" / "P-1.1.log").read_text()
    assert "[REDACTED:" in text
    assert second not in text


def test_a_possible_secret_in_the_patch_asks_a_person(repo: Repo) -> None:
    first, second = possible_secret()[:15], possible_secret()[15:]
    plan = repo.steps(f"printf '# one\\n%s%s\\n' '{first}' '{second}' > settings.py")
    answer = repo.run("run", "--json", plan)
    assert answer.code == 33, answer.stdout
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


def test_a_moved_line_adds_no_secret(repo: Repo) -> None:
    repo.write("old.py", possible_secret() + "\n" + "filler = 1\n" * 3)
    repo.commit("as it was")
    assert repo.run("run", repo.steps("head -1 old.py > new.py; sed -i 1d old.py; echo x = 1 >> new.py")).code == 0


def test_a_reason_that_contains_a_secret_is_refused(repo: Repo) -> None:
    assert repo.run("run", repo.steps("exit 1")).code == 30
    for argv in (["retry", "--reason"], ["unlock", "--reason"]):
        answer = repo.run(*argv, f"the token = {KEY} was wrong")
        assert answer.code == 12
        assert KEY not in answer.stderr
    assert KEY.encode() not in everywhere(repo.path / ".reflectloop")


def test_a_failing_scanner_is_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise MemoryError

    scanner = new_scanner()
    monkeypatch.setattr(type(scanner._matcher), "find", die)
    with pytest.raises(SecretLeak, match="the scanner failed"):
        scanner.feed(b"a line\n")


def test_a_binary_patch_is_not_redacted(repo: Repo) -> None:
    """Packed lines may match by chance, and they must still apply."""
    redacted: list[bytes] = []
    packed = b"diff --git a/x b/x\nGIT binary patch\nliteral 9\nz=" + KEY.encode() + b"\n\n"
    text = b"diff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -1 +0,0 @@\n-key = " + KEY.encode() + b"\n"
    cleaned = RedactedPatch(redacted.append)
    for byte in packed + text:
        cleaned.feed(bytes([byte]))
    cleaned.finish()
    assert b"".join(redacted) == packed + text.replace(KEY.encode(), b"[REDACTED:prefixed-token]")
    del repo


def test_a_patch_may_remove_a_leaked_key(repo: Repo) -> None:
    repo.write("settings.ini", f"key = {KEY}\nother = 1\n")
    repo.commit("a leak of old")
    assert repo.run("run", repo.steps("sed -i /sk-/d settings.ini")).code == 0
    diff = repo.run("diff")
    assert KEY not in diff.stdout
    assert "[REDACTED:prefixed-token]" in diff.stdout
    assert repo.run("apply", "--yes").code == 0
    assert (repo.path / "settings.ini").read_text() == "other = 1\n"


def test_a_likely_secret_in_the_output_is_redacted_and_the_run_continues(repo: Repo) -> None:
    plan = repo.steps("A=x7Kq; B=29mZtLw4; echo \"db_password = '$A$B'\"; echo done")
    done = repo.run("run", plan)
    assert done.code == 0
    log = next((repo.latest() / "logs").iterdir()).read_bytes()
    assert joined("x7Kq", "29mZtLw4") not in log + done.stdout.encode()
    assert b"db_password = '[REDACTED:assignment]'" in log
    assert b"done" in log


def test_a_value_of_the_callers_environment_stops_the_run_in_base64_too(repo: Repo) -> None:
    plan = repo.steps('A=x7Kq; B=29mZtLw4; echo "login: $A$B" | base64')
    value = joined("x7Kq", "29mZtLw4").decode()
    assert repo.run("run", plan).code == 0
    done = repo.run("run", "--new", plan, env={"ACME_TOKEN": value})
    assert done.code == 99
    assert "environment-value" in done.stderr + done.stdout


def test_a_projects_rules_and_baseline_apply_to_runs(repo: Repo) -> None:
    rule = '[[rule]]\nid = "badge"\ndescription = "x"\nkeywords = ["acme-"]\nformat = "acme-[0-9]{6}"\n'
    repo.write("rules.toml", rule + 'grade = "certain"\nmatch = ["acme-{digits:6}"]\n')
    repo.write("reflectloop.toml", '[secrets]\nrules = "rules.toml"\n')
    plan = repo.steps("echo acme-$((314000 + 159))")
    assert repo.run("run", plan).code == 99
    mark = fingerprint(joined("acme-", "314159"))
    repo.write("baseline.json", f'{{"findings": [{{"fingerprint": "{mark}"}}]}}')
    repo.write("reflectloop.toml", '[secrets]\nrules = "rules.toml"\nbaseline = "baseline.json"\n')
    repo.run("unlock", "--reason", "a badge is no secret")
    assert repo.run("run", "--new", plan).code == 0


@pytest.mark.parametrize("name", ["PWD", "OLDPWD", "INIT_PWD"])
def test_the_working_directory_is_never_a_secret(name: str) -> None:
    assert environment_values({name: "/home/ada/my project @ home: 2026/shop-9f8e7d"}) == ()
