"""Every policy rule matches its samples, and a rule file with a fault is refused as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from reflectloop import policy
from reflectloop.config import PolicyConfig
from reflectloop.errors import InvalidInput
from reflectloop.policy import builtin_rules, rulefile

ENTRIES = [entry for path in builtin_rules.files() for entry in rulefile.read(path)]
OWN = """\
rules:
  - id: own.deploy
    verdict: confirm
    reason: a person deploys
    program: [deploy]
    without: ["--check"]
    match: ["deploy prod", "sudo deploy x"]
    not_match: ["deploy --check x", "echo deploy"]
"""


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_a_built_in_rule_matches_its_samples(entry: rulefile.PolicyRuleEntry) -> None:
    assert rulefile.faults_of(entry) == []
    assert entry.not_match


def test_rule_ids_are_unique_and_the_index_is_up_to_date() -> None:
    assert len({entry.id for entry in ENTRIES}) == len(ENTRIES)
    assert builtin_rules.rules() == tuple(entry.rule for entry in ENTRIES)


def put(root: Path, text: str, name: str = "own.yaml") -> PolicyConfig:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
    return PolicyConfig(rules=Path(name))


def test_the_users_rules_and_accepted_rules_are_active(tmp_path: Path) -> None:
    settings = put(tmp_path, OWN)
    assert policy.of(settings, tmp_path).judge("make && deploy prod").rule == "own.deploy"
    put(tmp_path, OWN.replace("own.deploy", "learned.ship").replace("deploy", "ship"), ".reflectloop/rules/1.yaml")
    assert policy.of(settings, tmp_path).judge("ship prod").rule == "learned.ship"


def test_a_rule_is_allowed_by_its_id_and_an_unknown_id_is_refused(tmp_path: Path) -> None:
    rules = policy.of(PolicyConfig(allow=("git.push-force",)), tmp_path)
    verdict = rules.judge("git push -f")
    assert (verdict.verdict, verdict.rule) == ("allow", "git.push-force")
    assert not rules.judge("git push -f; git reset --hard").allowed
    with pytest.raises(InvalidInput, match=r"names no rule: git\.push-forse"):
        policy.of(PolicyConfig(allow=("git.push-forse",)), tmp_path)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (OWN.replace("deploy prod", "undeploy"), "rule 'own.deploy' does not match its sample 'undeploy'"),
        (
            OWN.replace("echo deploy", "deploy now"),
            "rule 'own.deploy' matches a sample that it must not match: 'deploy now'",
        ),
        (OWN.replace("own.deploy", "git.clean"), "a built-in rule has this id"),
        (OWN.replace("program", "progam"), "rules[0].progam"),
        (OWN.replace("confirm", "forbid"), "line 3: rules[0].verdict"),
        (OWN.replace('without: ["--check"]', "args: '('"), "the pattern of 'args' is broken"),
        (OWN.replace('without: ["--check"]', "check: guess"), "'check' is one of"),
        (OWN.replace('without: ["--check"]', "place: [moon]"), "rules[0].place[0]"),
        ("rules: {}\n", "a list below it"),
        ("- a\n", "a mapping with one key"),
        ("rules: [\n", "not YAML"),
        ("rules: []\nrules: []\n", "rules"),
    ],
)
def test_a_rule_file_with_faults_is_refused_with_every_fault(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        policy.of(put(tmp_path, text), tmp_path)
    assert any(fault in str(reported) for reported in refused.value.faults), refused.value.faults
    assert "own.yaml" in refused.value.next_step


def test_a_missing_rule_file_or_a_duplicate_rule_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot read the rules"):
        policy.of(PolicyConfig(rules=Path("none.yaml")), tmp_path)
    settings = put(tmp_path, OWN)
    put(tmp_path, OWN, ".reflectloop/rules/1.yaml")
    with pytest.raises(InvalidInput, match=r"also has a rule 'own\.deploy'"):
        policy.of(settings, tmp_path)
