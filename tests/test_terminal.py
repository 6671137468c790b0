"""What commands a terminal or cannot be seen on one: out of a command's output before anything looks at it."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflectloop.cli.render import harmless, plain
from reflectloop.errors import SecretLeak
from reflectloop.sandbox.output import Recorder
from reflectloop.system import terminal
from support import Repo, calls_of

TOKEN = ("ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2)[:40]
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
UNSEEN = "\u200b\u200c\u200d\u2060\ufeff"


def hidden() -> dict[str, bytes]:
    """A token that a person would read, and a pattern would not."""
    half, rest = TOKEN[:9], TOKEN[9:]
    between = {
        "colour": "\x1b[36m",
        "colour in eight bits": "\x9b36m",
        "erase": "\x1b[0K",
        "title": "\x1b]0;title\x07",
        "link": "\x1b]8;;https://example.test\x1b\\",
        "charset": "\x1b(B",
        "bell": "\x07",
        "nul": "\0",
        "backspace": "x\b",
        "backspaces": "é!\b\b",
        "colour around a bell": "\x1b[3\x076m",
        **{f"U+{ord(one):04X}": one for one in UNSEEN + BIDI},
    }
    out = {name: (half + what + rest).encode() for name, what in between.items()}
    return out | {
        "coloured": f"\x1b[36m{TOKEN}\x1b[0m".encode(),
        "little": TOKEN.encode("utf-16"),
        "big": TOKEN.encode("utf-16-be"),
    }


def record(folder: Path, *chunks: bytes) -> tuple[bytes, bytes]:
    """What is stored, and what is looked at raw."""
    raw: list[bytes] = []
    recorder = Recorder(folder / "log", 1 << 20, show=lambda _: None, look=raw.append)
    try:
        for chunk in chunks:
            recorder.take("stdout", chunk)
    finally:
        recorder.close()
    return (folder / "log").read_bytes(), b"".join(raw)


@pytest.mark.parametrize("name", hidden())
@pytest.mark.parametrize("whole", [True, False])
def test_a_token_that_a_terminal_would_show_is_a_leak(name: str, whole: bool, tmp_path: Path) -> None:
    said = b"see " + hidden()[name] + b"\n"
    if "backspace" in name and not whole:
        pytest.skip("what was passed on already is not taken back")
    with pytest.raises(SecretLeak):
        record(tmp_path, *([said] if whole else [bytes([one]) for one in said]))
    assert TOKEN.encode() not in (tmp_path / "log").read_bytes()


def test_a_log_is_plain_text_and_what_checks_read_is_not_touched(tmp_path: Path) -> None:
    said = "\x1b[1mbold\x1b[0m\t\x1b]0;title\x07näh – ✓\r\n50%\r100%\u202e\n|\b/\b-\bdone\x1b[3".encode()
    stored, looked_at = record(tmp_path, said)
    assert stored.decode() == "bold\tnäh – ✓\r\n50%\r100%\ndone"
    assert looked_at == said


PIECES = st.lists(
    st.sampled_from(
        [b"\x1b", b"[", b"]", b"3", b";", b"m", b"\x07", b"\\", b" ", b"(", b"\n", b"\xc2\x9b", b"\xe2\x80\xae", b"x"]
    ),
    max_size=40,
)


@given(PIECES, st.integers(1, 5))
def test_removed_sequences_do_not_depend_on_chunk_boundaries(parts: list[bytes], size: int) -> None:
    said = b"".join(parts)
    stream = terminal.PlainText()
    out = b"".join(stream.feed(said[start : start + size]) for start in range(0, len(said), size)) + stream.finish()
    assert out == terminal.plain(said)
    assert b"\x1b" not in out


def test_an_endless_sequence_becomes_text_at_linear_cost() -> None:
    stream = terminal.PlainText()
    out = b"".join(stream.feed(chunk) for chunk in [b"\x1b]0;", *[b"y" * 1000] * 500])
    assert len(out) > 490_000
    assert len(stream._pending) < 8192
    for unit in (b"\x1b]", b"\x1b[", b"\x1b", b"\xe2", b"ab\b\b", b"\x1b]" + b"z" * 5000):
        once, twice = (functools.partial(terminal.plain, unit * (size // len(unit))) for size in (50_000, 100_000))
        assert calls_of(twice) < 2.2 * calls_of(once)


def test_terminal_output_does_not_change_the_writing_direction() -> None:
    assert harmless(f"a{BIDI}{UNSEEN}b\x1b[31mred\x1b[0m\x1b[2J\rc\bd") == "ab\x1b[31mred\x1b[0mcd"
    assert plain(f"a{BIDI}{UNSEEN}b\x1b[31mred\x1b[0m".encode()) == ["abred"]
    assert harmless("\x1b[2m\bJ") == "\x1b[2mJ"


def test_a_coloured_token_is_nowhere_in_log_or_output(repo: Repo) -> None:
    half, rest = TOKEN[:9], TOKEN[9:]
    answer = repo.run("run", repo.steps(f"printf '\\033[36m%s\\033[1m%s\\033[0m\\n' {half} {rest}"))
    assert "SECRET_LEAK" in answer.stderr + answer.stdout
    assert rest not in repo.run("log").stdout


def test_log_to_a_pipe_has_no_colours(repo: Repo) -> None:
    assert repo.run("run", repo.steps("printf '\\033[36mblue\\033[0m \\342\\200\\256x\\n'")).code == 0
    assert repo.run("log").stdout.endswith("blue x\n")
