"""The scanner finds providers' formats in any context and does not report ordinary code and documents."""

from __future__ import annotations

import base64
import random
import string
import uuid

import pytest

from reflectloop.secrets import Detector
from reflectloop.secrets.detector import builtin_rules
from reflectloop.secrets.rulefile import fill_sample
from support import Repo

RUN = Detector(builtin_rules())
SCAN = Detector(builtin_rules(), fillers=True)

KINDS = {
    "github": "ghp_{alnum:36}",
    "github app": "ghs_{alnum:36}",
    "gitlab": "glpat-{alnum:20}",
    "aws id": "AKIA{b32:16}",
    "google": "AIza{alnum:35}",
    "slack": "xoxb-{digits:12}-{digits:12}-{alnum:24}",
    "stripe": "sk_live_{alnum:24}",
    "twilio": "SK{hex:32}",
    "sendgrid": "SG.{alnum:22}.{alnum:43}",
    "npm": "npm_{alnum:36}",
    "pypi": "pypi-AgEIcHlwaS5vcmc{alnum:60}",
    "anthropic": "sk-ant-api03-{alnum:93}AA",
    "hugging face": "hf_{letters:34}",
    "digitalocean": "dop_v1_{hex:64}",
    "shopify": "shpat_{hex:32}",
    "databricks": "dapi{hex:32}",
    "linear": "lin_api_{alnum:40}",
    "notion": "ntn_{digits:11}{alnum:35}",
    "postman": "PMAK-{hex:24}-{hex:34}",
    "grafana": "glsa_{alnum:32}_{hex:8}",
    "vault": "hvs.{alnum:90}",
    "vault, older": "s.{alnum:24}",
    "terraform": "{alnum:14}.atlasv1.{alnum:64}",
    "telegram": "{digits:9}:AA{alnum:33}",
    "age": "AGE-SECRET-KEY-1{bech:58}",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ7{alnum:24}.{alnum:43}",
    "doppler": "dp.pt.{alnum:43}",
    "fly": "fo1_{alnum:43}",
    "new relic": "NRAK-{upnum:27}",
    "planetscale": "pscale_tkn_{alnum:43}",
    "rubygems": "rubygems_{hex:48}",
    "sentry": "sntrys_eyJ{alnum:80}_{alnum:43}",
    "adafruit": "aio_{alnum:28}",
    "flutterwave": "FLWSECK_TEST-{hex:32}-X",
}
PLACES = (
    'token = "{}"',
    "export TOKEN={}",
    '{{"token": "{}"}}',
    "token: {}\n",
    "# see {} for it",
    "curl -H 'X-Token: {}' u",
)
KEY = "-----BEGIN RSA " + "PRIVATE KEY-----"
END = "-----END RSA " + "PRIVATE KEY-----"


def rules(text: str, detector: Detector = RUN) -> list[tuple[str, str]]:
    return [(finding.rule, finding.grade) for finding in detector.scan(text.encode())]


@pytest.mark.parametrize("kind", KINDS)
def test_a_providers_value_is_found_in_every_context(kind: str) -> None:
    for number, place in enumerate(PLACES):
        text = place.format(fill_sample(KINDS[kind], f"{kind} {number}"))
        assert rules(text), place


@pytest.mark.parametrize("number", range(40))
def test_hashes_ids_and_addresses_are_not_reported_by_scan(number: int) -> None:
    rng = random.Random(number)
    digest = f"{rng.getrandbits(256):064x}"
    name = str(uuid.UUID(int=rng.getrandbits(128), version=4))
    packed = base64.b64encode(rng.randbytes(48)).decode()
    for text in (
        f'sha256 = "{digest}"',
        f'"integrity": "sha512-{packed}"',
        f"request_id={name}",
        f'commit: "{digest[:40]}"',
        f"token_url = 'https://host.test/{name}'",
    ):
        assert rules(text, SCAN) == [], text


@pytest.mark.parametrize(
    "text",
    [
        "http://localhost:8888/?token=abc...",
        "https://0.0.0.0:9999/?token=123...",
        "http://localhost:8888/?token=c8de56fa...",
        "http://host.test/tree?token=REFERTOKEN",
        "http://host.test/path?token=default_token&normal=value",
        "http://host.test/path?token=secret123",
        "https://badges.host.test/rating/a.svg?token={alnum:40}",
        "https://codecov.test/gh/a/b/branch/main/graph/badge.svg?token={alnum:10}",
        'pyjwt_extra_require = ["pyjwt>=2.0"]',
        "signedtoken_require = ['cryptography>=3.0.0', 'pyjwt>=2.0.0,<3']",
        'resp = await session_client.create("foo/nb1.ipynb")',
        'resp = await session_client.modify_path(sid, "nb2.ipynb")',
        ".. _`Bearer Token`: https://host.test/html/rfc6750",
        '"signature": "{hex:64}"',
        "SignedHeaders=date;host, Signature={hex:64}",
        'BASIC_AUTH_ENCODING = "dXNlcm5hbWU6cGFzc3dvcmQ="',
        "Authorization: Basic dXNlcm5hbWU6cGFzc3dvcmQ=",
        "const p = c.validateBooleanOption(s.disallowAmbiguousJSXLike, true)",
        "return s.getServerSideProperties4(a)",
        '"names":["segment","unstableDisallowPartialRender00","a"]',
        '"openGraph","twitter","createMetadataAccumulator","titleTemplate"',
        '["path",{d:"M12 22V12",key:"d0xqtd"}]',
        "this.password = arg2;",
        "test_empty_token: `slugify('a--b c', max_length=3) == 'a-b'` -> `slugify('a--b c') == 'a'`",
        "var TWO_PWR_32_DBL = TWO_PWR_16_DBL * TWO_PWR_16_DBL;",
        "const RSA_KEY_ALGS = ['RS256', 'RS384'];",
        "crypto.subtle.importKey('raw', key, 'PBKDF2', false)",
        '{"key":"zh-hk","name":"Chinese"}',
        "'code token': hybrid,",
        "User.objects.filter(password__startswith='sha1$$')",
        "boundary: '----WebKitFormBoundaryTB2MiQ36fnSJlrhY',",
        'Public-Key-Pins: pin-sha256="{base64:43}="',
    ],
)  # fmt: skip
def test_an_ordinary_line_is_not_reported(text: str) -> None:
    assert rules(fill_sample(text, text), SCAN) == []


def test_an_alphabet_is_not_a_secret() -> None:
    letters = list(string.ascii_letters + string.digits + "-_")
    random.Random(1).shuffle(letters)
    assert rules(f'let alphabet = "{"".join(letters)}"', SCAN) == []


def test_a_private_key_that_lacks_most_of_its_body_is_a_sample() -> None:
    beginning = base64.b64encode(b"\x30\x82\x04\xa4" + bytes(range(40))).decode()
    for between in ("...", ". ", "\\n.", "\n"):
        assert rules(f"For example, {KEY}{beginning}{between}{END}") == []


def test_a_private_key_without_its_end_is_found() -> None:
    body = base64.b64encode(b"\x30\x82\x04\xa4" + random.Random(2).randbytes(1188)).decode()
    lines = "\n".join(body[start : start + 64] for start in range(0, len(body), 64))
    assert rules(f"{KEY}\n{lines}\n{END}\n") == [("private-key", "certain")]
    assert rules(f"{KEY}\n{lines[:130]}\n") == [("private-key", "certain")]


@pytest.mark.parametrize(
    "text",
    [
        "machine host.test login acme password {}",
        "machine host.test\n\tlogin acme\n\tpassword {}\n",
        "default login acme password {}",
        "echo 'machine host.test login acme password {}' >> ~/.netrc",
    ],
)
def test_a_line_of_netrc_is_found(text: str) -> None:
    assert ("netrc-password", "likely") in rules(text.format(fill_sample("{alnum:14}", "netrc")))
    assert rules(text.format("$PASSWORD")) == []


def test_a_random_key_in_an_address_is_certain() -> None:
    address = fill_sample("https://host.test/a?token={hex:48}", "an address")
    assert rules(address) == [("url-with-secret", "certain")]


def test_the_content_of_an_xml_element_is_found_over_lines() -> None:
    assert rules(fill_sample("<authToken>\n    {alnum:32}\n</authToken>", "element"))


def test_a_repeated_value_is_one_finding_with_all_its_lines(repo: Repo) -> None:
    value = fill_sample("{lownum:20}", "often")
    repo.write("a.py", f'password = "{value}"\n\nsecret = "{value}"\ntoken = "{value}"\n')
    repo.write("b.py", f'password = "{value}"\n')
    findings = repo.run("scan", "--json").json["data"]["findings"]
    assert [(finding["path"], finding["line"], finding["also"]) for finding in findings] == [
        ("a.py", 1, [3, 4]),
        ("b.py", 1, []),
    ]
    assert "also on line 3, 4" in repo.run("scan").stdout
    results = repo.run("scan", "--format", "sarif").json["runs"][0]["results"]
    assert [len(result.get("relatedLocations", [])) for result in results] == [2, 0]


def test_keywords_of_a_lesson_are_no_secrets() -> None:
    assert not SCAN.scan(b'keywords: ["RLOP-20261116-9cd211", "1"]\n')


_UUID_SECRETS = (
    'api_key = "{uuid}"',
    "CONSUL_HTTP_TOKEN={uuid}",
    '"client_secret": "{uuid}"',
    'licence_key = "{uuid}"',
    "InstrumentationKey={uuid};",
    "VAULT_SECRET_ID={uuid}",
    'SetAuthToken("{uuid}")',
)
_UUID_IDENTIFIERS = (
    'key = "{uuid}"',
    'idempotency_key = "{uuid}"',
    'object_key: "{uuid}"',
    'session = "{uuid}"',
    "VAULT_ROLE_ID={uuid}",
    'secret_arn = "arn:aws:x:{uuid}"',
    "WHERE id = '{uuid}'",
    "  - {uuid}",
    'UUID("{uuid}")',
    "correlation: {uuid}",
)


@pytest.mark.parametrize("text", _UUID_SECRETS)
def test_a_uuid_after_the_name_of_a_secret_is_found(text: str) -> None:
    assert rules(fill_sample(text, text), SCAN)


@pytest.mark.parametrize("text", _UUID_IDENTIFIERS)
def test_a_uuid_after_the_name_of_an_identifier_is_none(text: str) -> None:
    assert not rules(fill_sample(text, text), SCAN)


def test_a_number_is_a_password_only_under_its_name_and_if_it_is_not_counted() -> None:
    drawn = "".join(random.Random(5).sample(string.digits, 10))
    assert rules(f"'password': '{drawn}'", SCAN)
    assert not rules(f"'token': '{drawn}'", SCAN)
    assert not any(rules(f"password = '{number}'", SCAN) for number in ("12345678", "98765432", "11112222"))
