"""The critic: scores that can be computed by hand, three verdicts, and requirements for each form of output."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflectloop.errors import GateRejected, InvalidInput
from reflectloop.gates.contract import Contract
from reflectloop.plan.model import Check
from reflectloop.reflection import critic, output, requirements
from reflectloop.reflection import critic_command as flow
from reflectloop.reflection.critic import CriticCheck, CriticReport, Identity
from reflectloop.reflection.requirements import Requirements
from reflectloop.reflection.ticket import CriticVerdict
from support import Repo

FIELDS = {
    "evaluation_id",
    "timestamp",
    "target",
    "completeness",
    "correctness",
    "quality_score",
    "verdict",
    "rewind_ticket",
}
TICKET_FIELDS = {
    "ticket_id",
    "verdict",
    "quality_score",
    "issues",
    "repair_plan",
    "context_needed",
    "target",
    "target_step",
}


def judged(name: str, text: str | bytes, checked: tuple[CriticCheck, ...] = (), **asked: Any) -> CriticReport:
    raw = text if isinstance(text, bytes) else text.encode()
    about = Identity("eval_1", "rewind_1", "2026-01-01T00:00:00Z", "needs.yaml", "P-1")
    wanted = Requirements.model_validate(asked)
    return critic.evaluate(output.read(name, raw, wanted.form), wanted, checked, about)


def papers(*titles: str) -> str:
    return json.dumps({"papers": [{"title": title} for title in titles]})


def test_three_of_five_papers_score_as_computed_by_hand() -> None:
    report = judged("out.json", papers("a", "b", "c"), min_items={"papers": 5})
    assert report.completeness.score == pytest.approx(3 / 5 - 0.4)
    assert report.correctness.score == 1.0
    assert report.quality_score == pytest.approx(0.6)
    assert not report.completeness.requirements_met
    assert report.verdict == CriticVerdict.REVISE
    ticket = report.rewind_ticket
    assert ticket
    assert [(one.category, one.severity) for one in ticket.issues] == [("completeness", "high")]
    assert "3" in ticket.issues[0].description
    assert "at least 5" in ticket.issues[0].suggested_fix
    assert ticket.repair_plan == (ticket.issues[0].suggested_fix,)
    assert ticket.context_needed == ("the output: out.json", "the requirements: needs.yaml")
    assert (ticket.target, ticket.target_step) == ("out.json", "P-1")


def test_a_report_and_its_ticket_have_every_field_of_the_protocol() -> None:
    data = judged("out.json", "[]", min_items=1).model_dump(mode="json")
    assert set(data) == FIELDS
    assert set(data["completeness"]) == {"score", "requirements_met", "issues", "details"}
    assert set(data["correctness"]) == {"score", "issues"}
    assert set(data["rewind_ticket"]) == TICKET_FIELDS
    assert set(data["rewind_ticket"]["issues"][0]) == {"category", "severity", "description", "suggested_fix"}


def test_a_complete_output_passes_without_a_ticket() -> None:
    report = judged("out.json", papers(*"abcde"), min_items={"papers": 5}, must_have=["papers[].title"])
    assert (report.verdict, report.quality_score, report.rewind_ticket) == (CriticVerdict.PASS, 1.0, None)


@pytest.mark.parametrize("text", [b"", b"   \n", b"\xff\xfe\x00"])
@pytest.mark.parametrize("name", ["out.json", "out.md", "out.py", "out.txt"])
def test_an_empty_output_is_rejected(name: str, text: bytes) -> None:
    report = judged(name, text, min_items={"papers": 5}, must_have=["summary"])
    assert (report.verdict, report.quality_score) == (CriticVerdict.REJECT, 0.0)


@pytest.mark.parametrize("text", ["{not json", '{"papers": NaN}', "[" * 100_000])
def test_broken_json_has_no_parts_and_is_to_be_revised(text: str) -> None:
    report = judged("out.json", text, min_items={"papers": 5}, must_have=["summary"])
    assert (report.verdict, report.quality_score) == (CriticVerdict.REVISE, 0.3)
    worse = judged(
        "out.json", text, (CriticCheck("valid", held=False, reason="exit code 1, not 0"),), must_have=["summary"]
    )
    assert worse.verdict == CriticVerdict.REJECT


def test_a_complete_output_off_topic_is_rejected() -> None:
    report = judged("out.json", papers(*"abcde"), min_items={"papers": 5}, about=["multi-agent"])
    assert report.quality_score == 1.0
    assert report.verdict == CriticVerdict.REJECT
    assert [one.category for one in report.issues] == ["direction"]


def test_a_low_quality_output_is_revised_even_if_complete() -> None:
    text = "# A\n\n- one\n- one\n- two\n" + "TODO TBD FIXME XXX\n" + "".join(f"# Empty {n}\n" for n in range(4))
    report = judged("notes.md", text, min_items=2, min_quality=0.8)
    assert report.completeness.requirements_met
    assert report.completeness.score == pytest.approx(1 - 8 * 0.05)
    assert report.correctness.score == pytest.approx(1 - 0.15)
    assert report.verdict == CriticVerdict.REVISE
    assert judged("notes.md", text, min_items=2).verdict == CriticVerdict.PASS


def test_a_forbidden_word_prevents_a_pass() -> None:
    report = judged("notes.md", "- one\n- obviously two\n", min_items=2, must_not_have=["Obviously"])
    assert report.verdict == CriticVerdict.REVISE
    assert [(one.category, one.severity) for one in report.issues] == [("correctness", "medium")]


def test_a_repeated_item_counts_once_and_is_reported() -> None:
    report = judged("out.json", papers("a", "a", "a", "b", "c"), min_items={"papers": 5})
    assert report.completeness.details.each[0].actual == "3"
    assert [(one.severity, one.category) for one in report.correctness.issues] == [("medium", "correctness")]


def test_four_of_five_is_less_severe_than_three_of_five() -> None:
    report = judged("out.json", papers(*"abcd"), min_items={"papers": 5})
    assert [one.severity for one in report.issues] == ["medium"]
    assert report.completeness.score == pytest.approx(0.8 - 0.15)


def test_a_json_field_must_be_present_and_filled_in_every_item() -> None:
    text = json.dumps({"papers": [{"title": "a", "year": 1}, {"title": ""}], "summary": " "})
    report = judged("out.json", text, must_have=["papers[].title", "papers[].year", "summary", "papers"])
    assert [one.met for one in report.completeness.details.each] == [False, False, False, True]


def test_markdown_is_checked_for_sections_and_entries() -> None:
    text = "# Report\n\n## 1. Findings\n\n- a\n- b\n  - below b\n\n```\n- no entry\n# no heading\n```\n\n## Sources\n"
    report = judged("r.md", text, min_items={"Findings": 2}, must_have=["Findings", "Sources", "Method"])
    assert [one.met for one in report.completeness.details.each] == [True, True, False, False]
    assert report.completeness.details.each[0].actual == "2"
    assert any("'Sources'" in one.description for one in report.completeness.issues)


def test_a_section_ends_at_the_next_heading_of_its_level() -> None:
    text = "# A\na\n### C\nc\n## B\nb\n# D\nd\n"
    assert [(one.title, "".join(one.lines)) for one in output.sections(text)] == [
        ("A", "a### Cc## Bb"),
        ("C", "c"),
        ("B", "b"),
        ("D", "d"),
    ]


def test_code_is_checked_for_definitions_and_must_parse() -> None:
    good = "def test_a():\n    pass\n\n\ndef test_b():\n    pass\n"
    assert judged("t.py", good, min_items={"test_": 2}, must_have=["test_a"]).verdict == CriticVerdict.PASS
    broken = judged("t.py", good + "def (:\n", min_items={"test_": 2})
    assert (broken.verdict, broken.quality_score) == (CriticVerdict.REVISE, 0.8)
    assert "cannot be read as py" in broken.correctness.issues[0].description


def test_a_failed_check_prevents_a_pass() -> None:
    report = judged(
        "a.txt", "words", (CriticCheck("tests", held=False, reason="exit code 1, not 0"),), must_have=["words"]
    )
    assert report.completeness.score == 0.5
    assert report.correctness.score == pytest.approx(0.6)
    assert report.verdict == CriticVerdict.REVISE
    assert report.rewind_ticket
    assert report.rewind_ticket.issues[0].description == "check tests: exit code 1, not 0"


def test_a_contract_requires_its_checks_and_boundaries() -> None:
    said = {
        "track": "feature",
        "goal": "g",
        "may_change": ["src/**"],
        "must_not_change": ["src/core.py"],
        "acceptance": [{"id": "A", "text": "works", "check": "unit"}, {"id": "B", "text": "is quick"}],
    }
    asked = requirements.of_contract(Contract.model_validate(said), {"unit": Check(run=("true",))})
    assert list(asked.checks) == ["A works"]
    assert asked.unshown == ("B is quick",)
    held = (CriticCheck("A works", held=True, reason="as expected"),)
    about = Identity("e", "t", "now")
    inside = critic.evaluate(output.read("src/a.py", b"x = 1\n"), asked, held, about)
    assert inside.verdict == CriticVerdict.REVISE  # nothing shows B: what is not known is not met
    outside = critic.evaluate(output.read("docs/a.py", b"x = 1\n"), asked, held, about)
    assert outside.verdict == CriticVerdict.REJECT
    core = critic.evaluate(output.read("src/core.py", b"x = 1\n"), asked, held, about)
    assert core.verdict == CriticVerdict.REJECT


@given(st.binary(max_size=400), st.sampled_from(["a.json", "a.md", "a.py", "a.txt", "a"]), st.integers(1, 9))
def test_any_bytes_get_scores_between_0_and_1(raw: bytes, name: str, count: int) -> None:
    report = judged(name, raw, min_items=count, must_have=["x.y[].z"], about=["a"])
    assert all(0 <= one <= 1 for one in (report.quality_score, report.completeness.score, report.correctness.score))
    assert (report.verdict == CriticVerdict.PASS) == (report.rewind_ticket is None)
    assert report.verdict != CriticVerdict.PASS or report.completeness.requirements_met


# On disk ----------------------------------------------------------------------------------------------------------


def ask(repo: Repo, target: str, needs: str, **more: Any) -> flow.CriticResult:
    path = repo.path.parent / "needs.yaml"
    path.write_text(needs)
    return flow.judge(flow.CriticRequest(repo.path, repo.path / target, path, **more))


def test_checks_run_in_a_copy_of_the_project_with_the_output(repo: Repo) -> None:
    repo.write("out.json", papers("a"))
    needs = 'checks: {alone: {run: "grep -q title out.json; touch made-by-the-check; exit 4"}}\n'
    before = repo.state()
    done = ask(repo, "out.json", needs)
    assert repo.state() == before
    assert not (repo.path / "made-by-the-check").exists()
    assert done.report.completeness.details.each[0].actual == "exit code 4, not 0"
    assert done.report.target == "out.json"
    assert done.error
    assert done.error.exit_code == 32
    again = ask(repo, "out.json", needs.replace("exit 4", "exit 0"))
    assert again.error is None
    assert repo.git("status", "--porcelain").split() == ["??", "out.json"]


def test_a_check_the_policy_forbids_is_not_run(repo: Repo) -> None:
    repo.write("out.json", "[1]")
    with pytest.raises(GateRejected, match="policy refuses"):
        ask(repo, "out.json", 'checks: {a: {run: "git push --force origin main"}}\n')


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        ("min_item: 5\n", "unknown key"),
        ("min_items: many\n", "must be a mapping"),
        ("min_items: 0\n", "at least 1"),
        ("goal: nothing else\n", "asks for nothing"),
        ("checks: {a: {file_exists: x}}\n", "names no command"),
        ("- a list\n", "must be a mapping"),
        ("must_have: [a\n", "not YAML"),
        ("", "must be a mapping"),
        ("track: nonsense\n", "is no track"),
        ("track: fix\nmay_change: 5\n", "must be a list"),
    ],
)
def test_a_file_of_requirements_with_faults_is_refused_with_the_place(repo: Repo, needs: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        ask(repo, "README.md", needs)
    error = refused.value
    assert said in " ".join([error.message, *map(str, error.faults)])
    assert not (repo.path / ".reflectloop" / "tickets").exists()


def test_every_fault_is_reported_at_once_with_its_line(repo: Repo) -> None:
    with pytest.raises(InvalidInput) as refused:
        ask(repo, "README.md", "min_items: 5\nmust_haves: [a]\nform: yaml\n")
    assert [(fault.path, fault.line) for fault in refused.value.faults] == [("form", 3), ("must_haves", 2)]


def test_a_target_that_cannot_be_read_is_refused_by_name(repo: Repo) -> None:
    os.mkfifo(repo.path / "pipe")
    for name, said in (("missing.json", "no such file"), ("src", "is a directory"), ("pipe", "not a regular file")):
        with pytest.raises(InvalidInput, match=said):
            ask(repo, name, "min_items: 1\n")


def test_an_output_of_fifty_megabytes_is_refused_before_it_is_read(repo: Repo) -> None:
    with (repo.path / "big.json").open("wb") as file:
        file.truncate(50 << 20)
    with pytest.raises(InvalidInput, match="52 MB; the limit is 32 MB"):
        ask(repo, "big.json", "min_items: 1\n")


def test_an_output_outside_of_the_project_can_be_judged_but_not_checked(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "else.json").write_text("[1, 2]")
    target = os.path.relpath(tmp_path / "else.json", repo.path)
    assert ask(repo, target, "min_items: 2\n").error is None
    with pytest.raises(InvalidInput, match="lies outside"):
        ask(repo, target, "checks: {a: {run: [sh]}}\n")


def test_the_target_of_a_link_is_judged_but_not_checked_outside(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("[1, 2]")
    (repo.path / "out.json").symlink_to(tmp_path / "real.json")
    with pytest.raises(InvalidInput, match="lies outside"):
        ask(repo, "out.json", "checks: {a: {run: [sh]}}\n")
    assert ask(repo, "out.json", "min_items: 2\n").report.target == str(tmp_path / "real.json")


def test_a_secret_in_an_output_is_not_written_into_a_report(repo: Repo) -> None:
    token = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"
    repo.write("out.json", json.dumps({token: []}))
    done = ask(repo, "out.json", "must_have: [papers]\n")
    assert done.written
    assert all(token not in path.read_text() for path in done.written)
    with pytest.raises(InvalidInput, match="looks like a secret"):
        ask(repo, "out.json", f"must_have: [{token}]\n")


def test_critic_and_reflect_name_the_next_command(repo: Repo) -> None:
    repo.write("out.json", papers("a", "b", "c"))
    needs = repo.path.parent / "needs.yaml"
    needs.write_text("min_items: {papers: 5}\n")
    answer = repo.run("critic", "out.json", "--requirements", needs, "--json")
    assert answer.code == 32
    ticket = answer.json["data"]["rewind_ticket"]["ticket_id"]
    assert answer.envelope["next"] == f"reflectloop reflect {ticket}"
    assert answer.envelope["error_code"] == "VERIFICATION_FAILED"
    (repo.path.parent / "better.json").write_text(papers(*"abcde"))
    done = repo.run("reflect", ticket, "--revised", repo.path.parent / "better.json")
    assert done.code == 0, done.stderr
    assert "ready for re evaluation" in done.stdout
    assert "next: cp .reflectloop/outputs/out_v2.json out.json" in done.stderr
