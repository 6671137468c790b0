"""Every rule matches its samples, in linear time, at any chunking."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflectloop.secrets import Detector, rulefile
from reflectloop.secrets.detector import RULE_FILES, builtin_rules, environment_values
from reflectloop.secrets.rulefile import SecretRuleEntry, fill_sample
from support import calls_of

ENTRIES = [entry for path in RULE_FILES for entry in rulefile.read_rule_file(path)]


@cache
def detector() -> Detector:
    """Return a detector without the environment values of the caller."""
    return Detector(builtin_rules())


def scan_in_chunks(text: bytes, sizes: list[int]) -> tuple[bytes, list[tuple[str, int, str]]]:
    scanner = detector().scanner()
    out, position, count = [], 0, 0
    while position < len(text):
        size = sizes[count % len(sizes)]
        out.append(scanner.feed(text[position : position + size]))
        position += size
        count += 1
    out.append(scanner.finish())
    return b"".join(out), [(finding.rule, finding.line, finding.fingerprint) for finding in scanner.findings]


def matched_rules(text: str) -> list[str]:
    return [finding.rule for finding in detector().scan(text.encode())]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_a_rule_matches_its_samples_and_not_its_counterexamples(entry: SecretRuleEntry) -> None:
    assert rulefile.faults_of(entry) == []
    assert entry.not_match


def test_ids_are_unique_and_every_sample_is_found_with_all_rules() -> None:
    names = [entry.id for entry in ENTRIES]
    assert len(names) == len(set(names)) > 300
    everything = Detector(builtin_rules(), identifiers=True)
    for entry in ENTRIES:
        for sample in entry.match:
            text = f"a\n{fill_sample(sample, entry.id)}\nb"
            assert everything.scan(text.encode()), entry.id
            assert entry.grade != "identifier" or matched_rules(text) == [], "a run does not act on identifiers"


def test_no_sample_is_a_secret_before_it_is_filled_in() -> None:
    for path in RULE_FILES:
        samples = re.findall(r"^(?:match|not_match) = .*$", path.read_text(), re.MULTILINE)
        certain = [
            finding for line in samples for finding in detector().scan(line.encode()) if finding.grade == "certain"
        ]
        assert certain == [], path


CORPUS = [fill_sample(sample, entry.id) for entry in ENTRIES for sample in entry.match]
KEY = "-----BEGIN {}PRIVATE KEY-----\n" + "\n".join(fill_sample("{base64:64}", str(n)) for n in range(5))
CORPUS += [
    KEY.format("RSA ") + "\n-----END RSA PRIVATE KEY-----",
    KEY.format(""),
    KEY.format("EC ").replace("\n", "\\n"),
]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from(CORPUS).map(str.encode), st.binary(max_size=60)), max_size=8),
    st.sampled_from(
        [b"\n", b"\r\n", b" ", b"\0", b"\n\n", b'",\n "'],
    ),
    st.lists(st.integers(1, 90), min_size=1, max_size=5),
)
def test_findings_and_output_do_not_depend_on_the_chunking(
    parts: list[bytes], between: bytes, sizes: list[int]
) -> None:
    text = between.join(parts)
    assert scan_in_chunks(text, sizes) == scan_in_chunks(text, [max(1, len(text))])


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(CORPUS).map(str.encode),
    st.integers(0, 13_000),
    st.integers(0, 13_000),
    st.lists(st.integers(1, 5_000), min_size=1, max_size=4),
)
def test_findings_in_long_lines_do_not_depend_on_the_chunking(
    secret: bytes, before: int, after: int, sizes: list[int]
) -> None:
    text = b"lorem ipsum " * (before // 12) + b" " + secret + b" " + b"dolor sit, " * (after // 11)
    assert scan_in_chunks(text, sizes) == scan_in_chunks(text, [len(text)])


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([entry for entry in ENTRIES if entry.grade == "certain"]),
    st.binary(max_size=200),
    st.binary(max_size=200),
    st.integers(1, 300),
)
def test_a_planted_secret_is_never_shown(entry: SecretRuleEntry, before: bytes, after: bytes, size: int) -> None:
    sample = fill_sample(entry.match[0], entry.id).encode()
    (value,) = detector().values(sample)
    out, findings = scan_in_chunks(before + b"\n" + sample + b"\n" + after, [size])
    assert value not in out
    assert findings


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=3_000))
def test_text_without_a_secret_is_returned_unchanged(noise: bytes) -> None:
    out, findings = scan_in_chunks(noise, [997])
    assert findings or out == noise


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from(CORPUS), st.text(max_size=12)), max_size=6),
    st.sampled_from(["", " ", '"', "\\"]),
)
def test_redacted_json_is_still_json(parts: list[str], between: str) -> None:
    document = {"a": between.join(parts), "b": parts}
    assert json.loads(detector().redact(json.dumps(document, indent=2))).keys() == document.keys()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\\n", " ", '\\n" +\n    "', "\n# "])
@pytest.mark.parametrize("cut", [False, True])
def test_a_private_key_is_redacted_from_begin_to_end(end: str, cut: bool) -> None:
    body = [fill_sample("{base64:64}", str(line)) for line in range(9)]
    lines = ["-----BEGIN RSA PRIVATE KEY-----", *body, *([] if cut else ["-----END RSA PRIVATE KEY-----"])]
    if cut and end == " ":
        return  # its end cannot be distinguished from the words after it
    out, findings = scan_in_chunks(("before\n" + end.join(lines) + "\nafter this\n").encode(), [50])
    assert [(rule, line) for rule, line, _ in findings] == [("private-key", 2)]
    assert not any(line.encode() in out for line in body)
    assert out.startswith(b"before\n[REDACTED:private-key]")
    assert out.endswith(b"after this\n")


def test_a_header_alone_is_not_a_key() -> None:
    text = "it begins with -----BEGIN PRIVATE KEY----- and so on\nnext\n-----BEGIN PRIVATE KEY-----\n...\n"
    assert matched_rules(text) == []


@pytest.mark.parametrize(
    "text",
    [
        'password = "{lownum:14}"',
        "DB_PASSWORD={alnum:16}",
        "  db-password: {alnum:16}",
        '<add key="Password" value="{alnum:16}" />',
        '"clientSecret": "{alnum:30}",',
        "var apiKey = '{alnum:32}';",
        'String secretToken = new String("{alnum:24}");',
        "$config['auth_token'] = '{alnum:24}';",
        'private static final String API_SECRET = "{alnum:24}";',
        "secret_key: str = '{alnum:24}'",
        "tool --password={alnum:14} go",
        "machine host login me password: {alnum:14}",
        'setPassword("{alnum:14}")',
        "Server=db;User Id=sa;Password={alnum:14};",
        "mongodb+srv://me:{alnum:14}@cluster.test/db",
    ],
)
def test_passwords_are_found_in_many_languages(text: str) -> None:
    assert matched_rules(fill_sample(text, text)), text


@pytest.mark.parametrize(
    "text",
    [
        "password = os.environ['DB_PASSWORD']",
        "password = getpass.getpass()",
        "api_key: ${API_KEY}",
        "token: {{ secrets.TOKEN }}",
        "token = <your-token>",
        "password: changeme",
        "secret = '****************'",
        "  integrity sha512-{base64:86}==",
        "commit {hex:40}",
        "sha256:{hex:64}",
        "cache-key: {hex:64}",
        "key id {uuid}",
        "request_id={uuid}",
        "--hash=sha256:{hex:64}",
        "password_hash_iterations = 320000",
        "def check(password: str, token: Token) -> None:",
        "tests/test_auth.py::test_token_is_refreshed PASSED",
        "passed: 1234, failed: 0",
        "monkey: business12345",
    ],
)
def test_placeholders_and_hashes_are_not_secrets(text: str) -> None:
    assert matched_rules(fill_sample(text, text)) == [], text


def test_a_format_filled_with_one_letter_is_ignored_in_a_run() -> None:
    assert matched_rules("AKIA" + "Z" * 16) == []


@pytest.mark.parametrize(
    ("address", "counts"),
    [
        ("https://username:password@yelp.com/x", True),
        ("https://deploy:secret@git.mycorp.io", True),
        ("https://user:pass@host", False),
        ("https://user:pass@localhost:80", False),
        ("https://username:password@proxy.example.com", False),
        ("https://user:password@127.0.0.1", False),
        ("https://user:user@yelp.com", False),
        ("https://user:${PASSWORD}@yelp.com", False),
    ],
)
def test_a_plain_word_is_a_password_if_the_host_is_real(address: str, counts: bool) -> None:
    assert matched_rules(address) == ["url-credentials"] * counts


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_every_value_of_a_kubernetes_secret_is_redacted(form: str) -> None:
    values = {f"key-{number}": fill_sample("{base64:20}", str(number)) for number in range(5)} | {"user": "YWRtaW4x"}
    if form == "yaml":
        entries = "".join(f"  {name}: {value}\n" for name, value in values.items())
        text = f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: a-name-of-it\ndata:\n{entries}type: Opaque\n"
    else:
        text = json.dumps({"kind": "Secret", "data": values, "metadata": {"name": "a-name-of-it"}}, indent=4) + "\n"
    out, findings = scan_in_chunks(text.encode(), [50])
    assert not any(value.encode() in out for value in values.values())
    assert len(findings) == len(values)
    assert b"a-name-of-it" in out


BEFORE = [
    "\x1b[36m",
    "\x1b[1;32m",
    "\x9b0m",
    r"\u001b[36m",
    r"\\u001B[38;5;12m",
    r"\x1b[36m",
    r"\e[0m",
    r"\033[1m",
    r"\n",
    r"\t",
    r"\r\n",
    r"\u003d",
    r"\x3D",
    "%20",
    "%3D",
    "%253d",
    "=3D",
    "=20",
]


@pytest.mark.parametrize("before", BEFORE)
def test_a_token_after_an_escape_or_an_encoded_separator_is_found(before: str) -> None:
    token = ("ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2)[:40]
    for start in ("", "a", "see "):
        assert [finding.grade for finding in detector().scan(f"{start}{before}{token}\n".encode())] == ["certain"]
        assert token not in detector().redact(f'{{"a": "{start}{before}{token}"}}')


@pytest.mark.parametrize("before", ["a", "=AB", "nn", "[36m", "0"])
def test_a_token_inside_a_word_is_not_found(before: str) -> None:
    token = ("ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2)[:40]
    assert not [finding for finding in detector().scan((before + token).encode()) if finding.grade == "certain"]


@pytest.mark.parametrize(
    "text",
    [
        "PWD=/home/runner/jobs/x7Kq29mZ/tLw4",
        "OLDPWD=/tmp/rl-3f9Xk2/repo",
        "PWD=/workspace",
        "PWD=/tmp/tmpx7kq29mz",
        "SECRET_DIR_TOKEN=/var/lib/x7Kq29mZtLw4/run",
        "PWD=/Users/a1b2c3/Projects/x9",
        'password: "/run/user/1000/x7Kq29mZ"',
    ],
)
def test_a_folder_is_not_a_secret(text: str) -> None:
    assert matched_rules(text) == []


def test_a_value_that_starts_with_a_slash_may_be_a_secret() -> None:
    assert matched_rules("DB_PASSWORD=" + "/x7Kq29mZ" + "tLw4Rb8/Qp") != []
    assert matched_rules("Server=db;UID=sa;" + "PWD=" + "x7Kq29mZtLw4") != []


def test_the_more_certain_of_two_overlapping_findings_names_the_rule() -> None:
    token = fill_sample("ghp_{alnum:36}", "overlap")
    assert matched_rules(f'github_token = "{token}"') == ["github-token"]


def test_memory_is_bounded_on_a_huge_line() -> None:
    scanner = detector().scanner()
    for _ in range(20):
        scanner.feed(b"lorem ipsum key=" * 4_000)
        assert len(scanner._data) < 200_000


ADVERSARIAL = [
    *(entry.keywords[0] for entry in ENTRIES if entry.keywords),
    "password=",
    "key:",
    "token='",
    "api",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n",
    "eyJhbGciOiJI.",
    "ghp_" + "a" * 35 + " ",
    "://a:",
    "curl -u \\\n",
    "curl -H 'x: ",
    "kind: secret\n",
    'secret":\n',
]


def cost_of(text: bytes) -> int:
    """Count what a detector calls that has seen no text yet: one remembers what it looked at."""
    new = Detector(builtin_rules())
    new.scan(b"")
    return calls_of(lambda: new.scan(text))


@pytest.mark.parametrize("newline", ["", "\n"])
def test_the_cost_of_a_scan_is_linear_for_any_keyword(newline: str) -> None:
    """Twice as much text with all keywords costs about twice as much."""
    unit = "".join((word * 6 + newline) for word in dict.fromkeys(ADVERSARIAL))
    cost_of(unit.encode())  # patterns are compiled when first needed
    assert cost_of((unit * 2).encode()) < 2.2 * cost_of(unit.encode())


@pytest.mark.parametrize(
    "word", ["password=", "-----BEGIN PRIVATE KEY-----", "token':'", "://a:", "curl -u \\\n", "aws="]
)
def test_the_cost_of_a_scan_is_linear_for_the_worst_words(word: str) -> None:
    once, twice = ((word * (size // len(word))).encode() for size in (25_000, 50_000))
    cost_of(once)
    assert cost_of(twice) < 2.2 * cost_of(once)


@pytest.mark.parametrize("unit", ["a", "A", "x-auth=" * 11 + "\n", "api-key: " * 9 + "\n", "x-auth="])
def test_repeated_text_costs_a_few_calls_a_byte(unit: str) -> None:
    """Keywords at every byte and rejected values on every line were looked at again and again once."""
    text = (unit * (60_000 // len(unit))).encode()
    cost_of(text[:20_000])
    assert cost_of(text) < 2.5 * len(text)


def test_a_remembered_harmless_line_does_not_hide_a_different_one() -> None:
    harmless, leaking = "token = your-token", fill_sample("token = {alnum:30}", "differs")
    assert matched_rules(f"{harmless}\n" * 50 + f"{leaking}\n{harmless}\n{leaking}\n") == ["bare-assignment"] * 2


@pytest.mark.parametrize("before", [0, 30, 4_070, 4_090, 9_000])
def test_a_format_that_starts_with_a_repeated_letter_is_found_anywhere(before: int) -> None:
    (entry,) = [entry for entry in ENTRIES if entry.id == "twitter-bearer-token"]
    text = b"a" * before + b" " + fill_sample(entry.match[0], entry.id).encode() + b" " + b"a" * 5_000
    for sizes in ([len(text)], [1_000], [7]):
        assert [rule for rule, _, _ in scan_in_chunks(text, sizes)[1]] == ["twitter-bearer-token"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_rule_without_a_keyword_finds_its_format_on_every_line(end: str) -> None:
    lines = [fill_sample("AKC{alnum:14}", str(number)) for number in range(4)]
    text = ("before" + end + end.join(lines) + end).encode()
    at_once, in_chunks = scan_in_chunks(text, [len(text)]), scan_in_chunks(text, [9])
    assert at_once == in_chunks
    assert [line for _, line, _ in at_once[1]] == [2, 3, 4, 5]


def test_a_key_with_odd_lines_does_not_depend_on_the_chunking() -> None:
    lines = [fill_sample("prefix-{base64:60}", str(number)) for number in range(9)]
    text = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----", ""]).encode()
    assert scan_in_chunks(text, [50]) == scan_in_chunks(text, [len(text)])
    assert [rule for rule, _, _ in scan_in_chunks(text, [50])[1]] == ["private-key"]


def test_the_end_of_a_long_line_is_scanned_without_the_next_lines() -> None:
    text = b"\x88" * 5_000 + b" a:curl -u\n" + fill_sample("acme:{alnum:20}", "tail").encode() + b" x\n"
    assert scan_in_chunks(text, [50, 881]) == scan_in_chunks(text, [len(text)])


def test_pending_text_is_not_scanned_again_for_every_line() -> None:
    text = b"-----BEGIN PRIVATE KEY-----\n" + b"abcd\n" * 4_000
    half = text[: len(text) // 2]
    assert calls_of(lambda: scan_in_chunks(text, [200])) < 2.2 * calls_of(lambda: scan_in_chunks(half, [200]))


def test_help_imports_no_scanner() -> None:
    code = "import sys; from reflectloop.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    code += "assert not {'re2', 'ahocorasick_rs', 'reflectloop.secrets'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_only_values_of_secret_like_variables_are_searched_for() -> None:
    secret = "q7" + "Zp-44kd_Lw9"
    secret_like = {"DEPLOY_TOKEN": secret, "DB_PASSWORD": "blue horse on the battery", "MYAPIKEY": secret[::-1]}
    harmless = {
        "AUTH_MODE": "password-based-login",
        "SSH_AUTH_SOCK": "/tmp/ssh-abc/agent.123",
        "TOKEN_URL": "https://host.test/oauth/token",
        "SECRET_LENGTH": "1234567890123",
        "API_KEY": "short",
        "OTHER_KEY": "changeme-please",
        "PUBLIC_KEY": secret,
        "GPG_KEY": "A0" * 20,
        "EDITOR": secret,
        "PASSWORD": "administration",
    }
    assert environment_values(secret_like | harmless) == tuple(value.encode() for value in secret_like.values())
