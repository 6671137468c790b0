"""Classes of dangerous commands are not allowed, and similar ordinary commands are."""

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
def test_a_disguised_removal_is_not_allowed(line: str) -> None:
    assert verdict(line) != "allow"


@pytest.mark.parametrize(("name", "line"), CLASSES)
def test_a_dangerous_command_of_each_class_is_not_allowed(name: str, line: str) -> None:
    assert verdict(line) != "allow", name


@pytest.mark.parametrize("line", [*ORDINARY, *policy_ordinary_samples.ORDINARY])
def test_similar_ordinary_commands_are_allowed(line: str) -> None:
    assert verdict(line) == "allow"
