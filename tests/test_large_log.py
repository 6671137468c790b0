"""Huge, binary and empty logs: read in bounded memory, and no binary data is shown."""

from __future__ import annotations

import io
import itertools
import random
import tracemalloc
from typing import Any

import pytest

from reflectloop.diagnosis import diagnosis, large_log, log_diagnosis
from reflectloop.engine.pipeline import run
from reflectloop.engine.run.request import RunRequest
from support import Repo, noise

MISSING = b"ModuleNotFoundError: No module named 'frobnicate'\n"
LAST = b"make: *** [all] Error 1\n"
_CHATTER = b"".join(
    b"INFO worker %d handled item %d without trouble\n" % (number % 7, number) for number in range(20_000)
)


class Endless(io.RawIOBase):
    """A log of a given size that lies on no disk: chatter, one line that tells in the middle, and a last line."""

    def __init__(self, size: int) -> None:
        times = size // len(_CHATTER)
        self.parts = itertools.chain(
            itertools.repeat(_CHATTER, times // 2), [MISSING], itertools.repeat(_CHATTER, times // 2), [LAST]
        )
        self.rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        self.rest = self.rest or next(self.parts, b"")
        said, self.rest = self.rest[: len(into)], self.rest[len(into) :]
        into[: len(said)] = said
        return len(said)


def test_the_one_error_line_of_a_huge_log_is_found_in_bounded_memory() -> None:
    tracemalloc.start()
    data = log_diagnosis.stream(io.BufferedReader(Endless(1 << 28)))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 100 << 20
    assert len(data) < 16 << 20
    found = log_diagnosis.diagnose_log(data, rules=diagnosis.shipped())
    assert found.failure
    assert (found.failure.category, found.failure.needs) == ("ENV", "RESEARCH")
    assert found.failure.diagnosis
    assert "frobnicate" in found.failure.diagnosis.root_cause


def test_a_small_log_is_read_completely() -> None:
    data = _CHATTER + MISSING
    assert large_log.read(io.BytesIO(data)) == data
    report = b"[" + b" " * (25 << 20) + b"]"
    assert large_log.read(io.BytesIO(report)) == report, "a report is no use in pieces"


def test_the_beginning_and_the_end_of_a_huge_log_are_complete() -> None:
    data = large_log.read(io.BytesIO(b"first line\n" + _CHATTER * 40 + b"last line\n"))
    assert data.startswith(b"first line\nINFO worker 0 handled item 0 ")
    assert data.endswith(_CHATTER + b"last line\n")


def test_binary_data_is_reported_and_not_shown(repo: Repo) -> None:
    noise = random.Random(1).randbytes(3 << 20)
    path = repo.path.parent / "noise.log"
    path.write_bytes(noise)
    answer = repo.run("diagnose", path)
    assert answer.code == 1
    assert "not text" in answer.stdout
    assert (answer.stdout + answer.stderr).isascii()
    assert len(answer.stdout) < 1000
    told = log_diagnosis.diagnose_log(noise, exit_code=3, rules=diagnosis.shipped()).as_data()
    assert told["failure"]["exit_code"] == 3
    assert str(told).isascii()


@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "shift-jis", "utf-16"])
def test_text_in_any_encoding_is_not_binary(encoding: str) -> None:
    text = "エラー: 模块 not found\n".replace("模块", "" if encoding == "shift-jis" else "模块")
    assert not large_log.is_noise((text * 1000).encode(encoding))
    assert not large_log.is_noise(b"\x1b[31mred\x1b[0m\r 50%\b\b\b 60%\n" * 1000)
    assert large_log.is_noise(b"\x1f\x8b\x08\x00" + random.Random(2).randbytes(1000))


def test_an_empty_log_is_reported_and_does_not_pass(repo: Repo) -> None:
    for nothing in (b"", b" \n\n"):
        found = log_diagnosis.diagnose_log(nothing, rules=diagnosis.shipped())
        assert (found.result.ok, found.result.summary) == (False, "the log is empty")
        assert found.failure
    assert log_diagnosis.diagnose_log(b"", exit_code=0, rules=diagnosis.shipped()).result.exit_code == 0
    answer = repo.run("diagnose", "-", "--json")
    assert (answer.code, answer.json["data"]["result"]["summary"]) == (1, "the log is empty")


@pytest.mark.filterwarnings("ignore:.*Popen.__del__:pytest.PytestUnraisableExceptionWarning")
def test_a_step_that_prints_binary_data_is_diagnosed_by_its_exit_code(repo: Repo) -> None:
    repo.weaken()
    outcome = run(RunRequest(repo.path, repo.steps(f"{noise(33, 300_000)}; exit 3"), new_task=True))
    assert outcome.error
    assert outcome.error.code == "STEP_FAILED"
    assert "EXECUTION" in (repo.latest() / "blocker.yaml").read_text()
