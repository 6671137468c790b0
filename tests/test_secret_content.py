"""Secrets in files of any form: databases, pickles, UTF-16, archives, base64, and zero-width letters."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import lzma
import pickle
import random
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from reflectloop.secrets import Detector, SecretFinding, content, sqlite
from reflectloop.secrets.detector import builtin_rules
from reflectloop.secrets.rulefile import fill_sample
from reflectloop.system import terminal

DETECTOR = Detector(builtin_rules())
TOKEN = fill_sample("ghp_{alnum:36}", "content")
PASSWORD = fill_sample("{lownum:14}", "password")
INVISIBLE = "\u00ad\u034f\u061c\u115f\u180e\u200b\u200d\u2060\u3164\ufe0f\ufeff\U000e0041\U000e01ef"


def scan(data: bytes) -> list[SecretFinding]:
    return content.scan_content(DETECTOR, data)


def grades(data: bytes) -> set[str]:
    return {finding.grade for finding in scan(data)}


def zipped(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner/settings.env", data)
    return buffer.getvalue()


def wrapped(data: bytes) -> bytes:
    return b"payload:\n" + base64.encodebytes(data)


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "base64": base64.b64encode,
    "base64 in lines": wrapped,
    "base64 for addresses": base64.urlsafe_b64encode,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zip": zipped,
}
TEXT = b"# the settings of the deployment\nexport TOKEN=" + TOKEN.encode() + b"\n"


@pytest.mark.parametrize("form", PACKED)
def test_a_providers_token_is_found_in_compressed_or_encoded_data(form: str) -> None:
    assert grades(PACKED[form](TEXT)) == {"certain"}


@pytest.mark.parametrize("outer", PACKED)
def test_a_providers_token_is_found_in_data_compressed_twice(outer: str) -> None:
    assert grades(PACKED[outer](gzip.compress(TEXT))) == {"certain"}


@pytest.mark.parametrize("shift", range(4))
def test_base64_is_decoded_at_any_alignment(shift: int) -> None:
    assert grades(b"x" * shift + base64.b64encode(TEXT)) == {"certain"}


def test_a_likely_secret_in_compressed_data_is_ignored() -> None:
    assert scan(gzip.compress(f'db_password = "{PASSWORD}"'.encode())) == []


def test_a_compression_bomb_is_unpacked_within_the_limit() -> None:
    assert scan(gzip.compress(gzip.compress(bytes(3 * content.LARGEST)))) == []


@pytest.mark.parametrize("data", [b"\x1f\x8bno gzip at all", b"PK\x03\x04no zip", b"BZhno bzip2", b"\xfd7zXZ\0no xz"])
def test_a_damaged_archive_has_no_findings(data: bytes) -> None:
    assert scan(data) == []


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_utf_16_and_utf_32_are_read_as_text(coding: str) -> None:
    assert grades(f'name = "x"\ndb_password = "{PASSWORD}"\n'.encode(coding)) == {"likely"}
    assert grades(TEXT.decode().encode(coding)) == {"certain"}


def test_a_password_next_to_its_name_in_a_pickle_is_likely() -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert grades(pickle.dumps({"id": 1, "db_password": PASSWORD}, protocol)) == {"likely"}, protocol


def test_a_password_next_to_its_name_in_a_database_is_likely(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as base:
        base.execute("create table settings (name text, value text)")
        base.execute("insert into settings values (?, ?)", ("db_password", PASSWORD))
    assert "likely" in grades((tmp_path / "x.db").read_bytes())


@pytest.mark.parametrize("coding", ["UTF-8", "UTF-16le", "UTF-16be"])
def test_a_password_in_a_column_with_a_secret_name_is_likely(coding: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as base:
        base.execute(f"pragma encoding = '{coding}'")
        base.execute("create table users (id integer primary key, name text, [password] varchar(80), check (id > 0))")
        base.executemany(
            "insert into users (name, password) values (?, ?)", [(f"name {i}", "none") for i in range(900)]
        )
        base.execute("insert into users (name, password) values (?, ?)", ("bob", PASSWORD))
    assert [finding.grade for finding in scan((tmp_path / "x.db").read_bytes())] == ["likely"]


def test_overlapping_rows_are_read_within_the_limit() -> None:
    """The first page of 64 kB lists the same row, of thousands of columns, 14,000 times."""
    page = bytearray(1 << 16)
    page[:18] = sqlite.MAGIC + b"\0\1"
    page[100], page[103:105] = 0x0D, (14_000).to_bytes(2, "big")
    page[108:28_108] = (30_000).to_bytes(2, "big") * 14_000
    page[30_000:30_005] = b"\1\1" + bytes([0x81, 0xF5, 0x10])  # a header of 31,376 bytes
    assert sum(1 for _ in sqlite.rows(bytes(page))) == 0
    base = sqlite._Database(bytes(page))
    assert sum(len(values) for values in base.rows(1)) == 2_000_000


@pytest.mark.parametrize("number", range(60))
def test_a_damaged_database_raises_nothing(number: int, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as base:
        base.execute("create table users (name text, password text)")
        base.execute("insert into users values (?, ?)", ("bob", PASSWORD))
    data = bytearray((tmp_path / "x.db").read_bytes())
    rng = random.Random(number)
    for _ in range(30):
        data[rng.choice((rng.randrange(16, 120), rng.randrange(len(data))))] = rng.randrange(256)
    scan(bytes(data[: rng.randrange(len(data))] if number % 3 == 0 else data))


def test_names_alone_in_a_binary_file_are_not_secrets() -> None:
    names = b"\0".join(b"get_%s_password\0set_password\0token_length\0api_key_name" % word for word in (b"user", b"my"))
    assert scan(b"\x7fELF\0\0\1" + names + b"\0") == []


@pytest.mark.parametrize("letter", INVISIBLE)
def test_zero_width_letters_do_not_hide_a_token(letter: str) -> None:
    hidden = f"token = {TOKEN[:7]}{letter}{TOKEN[7:]}\n".encode()
    assert grades(hidden) == {"certain"}
    assert terminal.plain(hidden) == f"token = {TOKEN}\n".encode()


def test_letters_of_other_scripts_stay() -> None:
    text = "Grüße, 漢字, ไทย, ភាសា, ㅎ, ﷺ, 𝄞, 🙂\n".encode()
    assert terminal.plain(text) == terminal.visible(text) == text
