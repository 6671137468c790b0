"""Secrets in files of any form: databases, pickles, wide characters, archives, base64, and letters without width."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import lzma
import pickle
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from reflectloop.secrets import Detector, Finding, content, shipped
from reflectloop.secrets.samples import filled
from reflectloop.world import terminal

DETECTOR = Detector(shipped.rules())
TOKEN = filled("ghp_{alnum:36}", "content")
PASSWORD = filled("{lownum:14}", "password")
INVISIBLE = "\u00ad\u034f\u061c\u115f\u180e\u200b\u200d\u2060\u3164\ufe0f\ufeff\U000e0041\U000e01ef"


def scan(data: bytes) -> list[Finding]:
    return content.scan(DETECTOR, data)


def grades(data: bytes) -> set[str]:
    return {finding.grade for finding in scan(data)}


def zipped(data: bytes) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner/settings.env", data)
    return whole.getvalue()


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
def test_a_providers_token_is_found_in_what_is_packed(form: str) -> None:
    assert grades(PACKED[form](TEXT)) == {"certain"}


@pytest.mark.parametrize("outer", PACKED)
def test_a_providers_token_is_found_in_what_is_packed_twice(outer: str) -> None:
    assert grades(PACKED[outer](gzip.compress(TEXT))) == {"certain"}


@pytest.mark.parametrize("shift", range(4))
def test_base64_is_read_wherever_it_begins_in_its_line(shift: int) -> None:
    assert grades(b"x" * shift + base64.b64encode(TEXT)) == {"certain"}


def test_a_likely_secret_in_what_is_packed_is_let_pass() -> None:
    assert scan(gzip.compress(f'db_password = "{PASSWORD}"'.encode())) == []


def test_a_bomb_is_unpacked_as_far_as_there_is_room() -> None:
    assert scan(gzip.compress(gzip.compress(bytes(3 * content.LARGEST)))) == []


@pytest.mark.parametrize("data", [b"\x1f\x8bno gzip at all", b"PK\x03\x04no zip", b"BZhno bzip2", b"\xfd7zXZ\0no xz"])
def test_a_damaged_archive_holds_nothing(data: bytes) -> None:
    assert scan(data) == []


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_wide_characters_are_read_as_text(coding: str) -> None:
    assert grades(f'name = "x"\ndb_password = "{PASSWORD}"\n'.encode(coding)) == {"likely"}
    assert grades(TEXT.decode().encode(coding)) == {"certain"}


def test_a_password_beside_its_name_in_a_pickle_is_likely() -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert grades(pickle.dumps({"id": 1, "db_password": PASSWORD}, protocol)) == {"likely"}, protocol


def test_a_password_beside_its_name_in_a_database_is_likely(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as base:
        base.execute("create table settings (name text, value text)")
        base.execute("insert into settings values (?, ?)", ("db_password", PASSWORD))
    assert "likely" in grades((tmp_path / "x.db").read_bytes())


def test_names_alone_in_a_binary_file_are_no_secrets() -> None:
    names = b"\0".join(b"get_%s_password\0set_password\0token_length\0api_key_name" % word for word in (b"user", b"my"))
    assert scan(b"\x7fELF\0\0\1" + names + b"\0") == []


@pytest.mark.parametrize("letter", INVISIBLE)
def test_letters_without_width_hide_nothing(letter: str) -> None:
    hidden = f"token = {TOKEN[:7]}{letter}{TOKEN[7:]}\n".encode()
    assert grades(hidden) == {"certain"}
    assert terminal.plain(hidden) == f"token = {TOKEN}\n".encode()


def test_letters_of_other_scripts_stay() -> None:
    text = "Grüße, 漢字, ไทย, ភាសា, ㅎ, ﷺ, 𝄞, 🙂\n".encode()
    assert terminal.plain(text) == terminal.visible(text) == text
