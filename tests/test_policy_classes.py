"""Whole classes of commands: each way to hide, start or reach something is stopped, and what looks alike is not."""

from __future__ import annotations

import pytest

import policy_ordinary_samples
import policy_source_samples
from policy_samples import DANGEROUS, DISGUISED, ORDINARY
from reflectloop import policy

RULES = policy.default()
CLASSES = [
    (name, line)
    for name, lines in (DANGEROUS | policy_source_samples.DANGEROUS).items()
    for line in lines.strip().splitlines()
]


def verdict(line: str) -> str:
    return RULES.judge(line.replace(r"EOF'\n", "EOF'\n").replace(r"\nEOF", "\nEOF").replace(r"EOF\n", "EOF\n")).verdict


@pytest.mark.parametrize("line", DISGUISED)
def test_a_removal_in_disguise_is_stopped(line: str) -> None:
    assert verdict(line) != "allow"


@pytest.mark.parametrize(("name", "line"), CLASSES)
def test_a_dangerous_command_of_each_class_is_stopped(name: str, line: str) -> None:
    assert verdict(line) != "allow", name


@pytest.mark.parametrize("line", [*ORDINARY, *policy_ordinary_samples.ORDINARY])
def test_ordinary_work_that_looks_alike_passes(line: str) -> None:
    assert verdict(line) == "allow"
