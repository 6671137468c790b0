"""Journal, receipt, evidence, logs and objects say the same, or nothing is applied."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reflectloop.state import journal
from reflectloop.system import files
from reflectloop.trust import signing
from reflectloop.verification import evidence
from support import Repo
from tasks import journals

pytestmark = pytest.mark.usefixtures("without_probing")

BROKEN = "def last(items, size):\n    return len(items) // size\n"
TEST = (
    "import unittest\n\nfrom pager import last\n\n\nclass Last(unittest.TestCase):\n"
    "    def test_odd(self):\n        self.assertEqual(last([1, 2, 3], 2), 2)\n"
    "    def test_even(self):\n        self.assertEqual(last([1, 2], 2), 1)\n"
)
FIX = "sed -i 's|len(items)|(len(items) + 1)|' pager.py"
Attack = Callable[[Repo], object]


@pytest.fixture
def pager(repo: Repo) -> Repo:
    repo.git("rm", "-q", "-r", "src")
    repo.write("pager.py", BROKEN)
    repo.write("test_pager.py", TEST)
    repo.write(".gitignore", "__pycache__/\n")
    repo.commit("a bug")
    return repo


def plan(repo: Repo, command: str, **more: Any) -> Path:
    steps = [{"id": "S", "commands": [command]}]
    return repo.plan(json.dumps({"plan": {"title": "Pages", "track": "fix", "steps": steps, **more}}))


def own(repo: Repo) -> Path:
    return repo.path / ".reflectloop"


# Attacks of somebody who can write the project's folder, and knows every format -----------------------------------


def rewrite_journal(repo: Repo, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Change events, and compute every checksum and number anew."""
    (path,) = journals(repo)
    records: list[dict[str, Any]] = []
    for line in path.read_text().splitlines():
        record = json.loads(line)
        record.pop("crc")
        changed = change(record)
        if changed is not None:
            records.append(changed | {"seq": len(records) + 1})
    path.write_bytes(b"".join(journal.seal(record) for record in records))
    path.with_name("state.json").unlink(missing_ok=True)


def rewrite_receipt(folder: Path, **changes: Any) -> None:
    """Write a receipt anew with the right digest and the old signature."""
    said = json.loads((folder / "receipt.json").read_text()) | changes
    body = {name: value for name, value in said.items() if name not in ("digest", "signature")}
    said["digest"] = evidence.digest(evidence.canonical(body))
    (folder / "receipt.json").write_text(json.dumps(said, indent=2) + "\n")


def edit_a_claim(repo: Repo) -> None:
    path = repo.latest() / "evidence.jsonl"
    path.write_bytes(path.read_bytes().replace(b"2 passed", b"9 passed"))


def edit_a_claim_and_every_hash(repo: Repo) -> None:
    path, last = repo.latest() / "evidence.jsonl", "0" * 64
    lines = []
    for line in path.read_bytes().replace(b"2 passed", b"9 passed").splitlines():
        lines.append(evidence.canonical(json.loads(line) | {"prev": last}))
        last = evidence.digest(lines[-1])
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    said = json.loads((repo.latest() / "receipt.json").read_text())
    hashes = said["files"] | {"evidence.jsonl": evidence.digest_of(path)}
    rewrite_receipt(repo.latest(), files=hashes, evidence={"count": len(lines), "last": last})


def rewrite_a_log(repo: Repo) -> None:
    log = next(path for path in sorted((repo.latest() / "logs").iterdir()) if path.name.startswith("verify."))
    log.write_text("everything is fine\n")


def remove_a_log(repo: Repo) -> None:
    next((repo.latest() / "logs").glob("verify.*")).unlink()


def remove_the_signature(repo: Repo) -> None:
    path = repo.latest() / "receipt.json"
    said = json.loads(path.read_text())
    del said["signature"]
    path.write_text(json.dumps(said, indent=2) + "\n")


def point_to_another_tree(repo: Repo) -> None:
    base = repo.git("rev-parse", "HEAD^{tree}").strip()
    blob = repo.write("evil.py", "evil = True\n")
    repo.git("add", "evil.py")
    tree = repo.git("write-tree").strip()
    repo.git("reset", "-q")
    blob.unlink()
    assert tree != base
    rewrite_journal(repo, lambda record: record | ({"end_tree": tree} if record["kind"] == "run_finished" else {}))


def _loose(folder: Path, name: str) -> Path:
    return folder / name[:2] / name[2:]


def replace_an_object(repo: Repo) -> None:
    git_dir = own(repo) / "git"
    end = json.loads((repo.latest() / "receipt.json").read_text())["tree"]
    blob = repo.git(f"--git-dir={git_dir}", "rev-parse", f"{end}:pager.py").strip()
    path = _loose(git_dir / "objects", blob)
    content = b"def last(items, size):\n    return 42\n"
    path.chmod(0o644)
    path.write_bytes(zlib.compress(b"blob %d\0" % len(content) + content))


def strip_the_journal(repo: Repo) -> None:
    """As an earlier version wrote it."""
    rewrite_journal(repo, lambda record: {name: value for name, value in record.items() if name != "mac"})


def take_a_line_out(repo: Repo) -> None:
    rewrite_journal(repo, lambda record: None if record["kind"] == "gate_decided" else record)


ATTACKS: dict[str, tuple[Attack, int, int, str]] = {
    "a claim": (edit_a_claim, 35, 12, "evidence.jsonl"),
    "a claim and every hash": (edit_a_claim_and_every_hash, 35, 12, "signature"),
    "a log": (rewrite_a_log, 35, 12, "logs/verify."),
    "a lost log": (remove_a_log, 35, 12, "is missing"),
    "another tree": (point_to_another_tree, 35, 12, "journal.jsonl:"),
    "an object": (replace_an_object, 35, 12, "was replaced"),
    "a line of the journal": (take_a_line_out, 35, 12, "journal.jsonl:"),
    "an old journal": (strip_the_journal, 36, 36, "not signed with this user's key"),
    "no signature": (remove_the_signature, 36, 36, "not authenticated"),
}


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


def restore(folder: Path, known: dict[Path, bytes]) -> None:
    for path in files_of(folder).keys() - known.keys():
        path.unlink()
    for path, content in known.items():
        if not path.exists() or path.read_bytes() != content:
            files.write_atomic(path, content)


def test_no_attack_on_the_records_of_a_run_goes_unnoticed(pager: Repo) -> None:
    done = pager.run("run", plan(pager, FIX))
    assert done.code == 0, done.stderr
    assert pager.run("receipt", "verify").code == 0
    known = files_of(own(pager))
    before = pager.state()
    for name, (attack, at_apply, at_verify, words) in ATTACKS.items():
        attack(pager)
        for command, code in (("apply --yes", at_apply), ("receipt verify", at_verify)):
            answer = pager.run(*command.split(), "--json")
            assert answer.code == code, (name, answer.stdout)
            assert words in answer.envelope["message"], name
            assert answer.envelope["next"], name
        assert (pager.path / "pager.py").read_text() == BROKEN, name
        restore(own(pager), known)
    pager.git("update-index", "-q", "--refresh")
    assert pager.state()["refs"] == before["refs"]
    assert pager.run("receipt", "verify").code == 0
    assert pager.run("apply", "--yes").code == 0
    assert "+ 1" in (pager.path / "pager.py").read_text()


def test_refused_work_is_not_applied_though_journal_and_receipt_say_that_it_passed(pager: Repo) -> None:
    assert pager.run("run", plan(pager, "echo '# nothing' >> pager.py")).code == 32
    assert pager.run("receipt", "verify").code == 0

    def passed(record: dict[str, Any]) -> dict[str, Any] | None:
        if record["kind"] == "latch_set":
            return None
        news: dict[str, dict[str, Any]] = {
            "run_finished": {"error_code": None},
            "judged": {"decision": "PASS"},
            "gate_decided": {"decision": "PASS", "outcome": "PASS"},
        }
        return {**record, **news.get(str(record["kind"]), {})}

    rewrite_journal(pager, passed)
    for path in (own(pager)).rglob("LATCH*"):
        path.unlink()
    answer = pager.run("apply", "--yes", "--json")
    assert answer.code == 35, answer.stdout
    assert "journal.jsonl:" in answer.envelope["message"]
    assert pager.run("receipt", "verify").code == 12
    rewrite_receipt(pager.latest(), decision="PASS", outcome="PASS", reasons=[])
    answer = pager.run("apply", "--yes", "--json")
    assert answer.code == 35, answer.stdout
    assert "signature" in answer.envelope["message"]
    assert pager.run("receipt", "verify").code == 12
    remove_the_signature(pager)
    strip_the_journal(pager)
    answer = pager.run("apply", "--yes", "--json")
    assert answer.code == 36, answer.stdout
    assert "reflectloop verify --patch" in answer.envelope["next"]
    assert (pager.path / "pager.py").read_text() == BROKEN


# The key -----------------------------------------------------------------------------------------------------------


def test_the_key_is_private_made_once_and_outside_the_project(pager: Repo, tmp_path: Path) -> None:
    pager.write("pager.py", BROKEN.replace("len(items)", "(len(items) + 1)"))
    assert pager.run("verify", "--track", "fix").code == 0
    place = tmp_path / "home" / ".local" / "state" / "reflectloop" / "signing.key"
    assert place.stat().st_mode & 0o777 == 0o600
    text = place.read_text()
    assert pager.run("receipt", "verify").code == 0
    assert place.read_text() == text
    known = json.loads(next((own(pager) / "verifications").glob("*/receipt.json")).read_text())
    assert text.strip() not in json.dumps(known)
    place.write_text("0" * 64 + "\n")
    answer = pager.run("receipt", "verify", "--json")
    assert answer.code == 36
    assert "hashes agree; " in answer.envelope["message"]
    assert "signed by another machine's key" in answer.envelope["message"]
    place.chmod(0o644)
    answer = pager.run("receipt", "verify", "--json")
    assert answer.code == 17
    assert str(place) in answer.envelope["message"]


def test_two_engines_make_one_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    first = signing.key()
    assert first is not None
    signing._make(signing.path())  # as an engine that was slower
    monkeypatch.setattr(signing, "_keys", {})
    assert signing.key() == first
    assert sorted(path.name for path in signing.path().parent.iterdir()) == ["signing.key"]


def test_without_a_place_for_a_key_nothing_is_signed_and_nothing_is_applied(repo: Repo, tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path / "file")}
    (tmp_path / "file").write_text("no folder\n")
    assert repo.run("run", repo.steps("echo more >> src/app.py"), env=env).code == 0
    answer = repo.run("apply", "--yes", "--json", env=env)
    assert answer.code == 36
    assert "there is no key" in answer.envelope["message"]


def test_a_key_in_the_project_authenticates_nothing(pager: Repo) -> None:
    pager.write(".gitignore", "__pycache__/\nstate/\n")
    pager.commit("ignored")
    pager.write("pager.py", BROKEN.replace("len(items)", "(len(items) + 1)"))
    env = {"XDG_STATE_HOME": str(pager.path / "state")}
    assert pager.run("verify", env=env).code == 0
    answer = pager.run("receipt", "verify", "--json", env=env)
    assert answer.code == 36
    assert "XDG_STATE_HOME" in answer.envelope["message"]


# Signatures of a journal -------------------------------------------------------------------------------------------


def sign(content: bytes) -> str:
    return evidence.digest(b"secret" + content)


def test_lines_after_those_of_an_earlier_version_sign_them_too(folder: Path) -> None:
    path = folder / "journal.jsonl"
    count = path.read_bytes().count(b"\n")
    book = journal.Journal(path, sign=sign)
    for _ in range(2):
        book.append(book.entries[0].event)
    book.close()
    raw = path.read_bytes()
    assert journal.check_signatures(raw, sign) == (count + 1, None)
    lines = raw.split(b"\n")
    for number in range(len(lines) - 1):
        changed = [*lines]
        changed[number] = lines[number].replace(b'"at":"20', b'"at":"19')
        found = journal.check_signatures(b"\n".join(changed), sign)
        assert found.broken == max(number, count) + 1
    assert len(journal.read(path)) == count + 2


# Remembered results ------------------------------------------------------------------------------------------------


def test_a_remembered_result_is_marked_and_proves_no_more_than_l2(pager: Repo) -> None:
    pager.write(
        "reflectloop.toml", "[verify]\nsecond_run = false\nreplay = false\nneighbours = false\nsabotage = false\n"
    )
    pager.commit("settings")
    pager.write("pager.py", BROKEN.replace("len(items)", "(len(items) + 1)"))
    first = pager.run("verify", "--json").json
    assert first["data"]["level"] == "L3"
    again = pager.run("verify", "--fresh", "--json").json
    assert (again["data"]["decision"], again["data"]["level"]) == ("PASS", "L2")
    assert any("remembered" in warning for warning in again["envelope"]["warnings"])
    records = pager.run("receipt", "show", "--json").json["data"]["evidence"]
    assert {record["remembered"] for record in records} == {first["envelope"]["run_id"]}
    assert all(f"(remembered from {first['envelope']['run_id']})" in record["claim"] for record in records)
    pager.write("pager.py", BROKEN.replace("len(items)", "(1 + len(items))"))
    assert pager.run("verify", "--json").json["data"]["level"] == "L3"  # base is remembered, the change ran


def test_a_remembered_result_that_was_edited_is_not_believed(pager: Repo) -> None:
    pager.write("pager.py", BROKEN.replace("//", "*"))
    assert pager.run("verify").code == 32
    forged = 0
    for path in (own(pager) / "cache" / "verify").glob("*.json"):
        said = json.loads(path.read_text())
        said["result"] |= {"ok": True, "type": "passed"}
        said["result"]["tests"] = dict.fromkeys(said["result"]["tests"], "passed")
        path.write_text(json.dumps(said))
        forged += 1
    assert forged
    answer = pager.run("verify", "--json")
    assert answer.code == 32
    assert any("signature of this user's key" in warning for warning in answer.envelope["warnings"])


# What was proven ----------------------------------------------------------------------------------------------------


def test_run_and_apply_say_whether_the_change_was_verified(pager: Repo) -> None:
    answer = pager.run("run", pager.steps("echo '# more' >> pager.py"), "--json")
    assert answer.envelope["verified"] is False
    answer = pager.run("apply", "--yes", "--json")
    assert (answer.envelope["verified"], answer.json["data"]["verified"]) == (False, False)
    pager.git("checkout", "-q", ".")
    assert ", not verified" in pager.run("apply", "--yes").stderr
    pager.git("checkout", "-q", ".")
    assert pager.run("run", plan(pager, FIX), "--json").envelope["verified"] is True
    assert pager.run("apply", "--yes", "--json").envelope["verified"] is True


def test_a_receipt_that_somebody_else_wrote_cannot_be_approved(pager: Repo) -> None:
    """An approval signs what is left of the verdict."""
    pager.write("pager.py", BROKEN.replace("len(items)", "(len(items) + 1)"))
    pager.write("test_pager.py", TEST.replace("last([1, 2], 2), 1", "last([1, 2], 2), last([1, 2], 2)"))
    assert pager.run("verify").code == 33
    assert pager.run("approve", "latest", "--print").code == 0
    (folder,) = (own(pager) / "verifications").iterdir()
    content = json.loads((folder / "receipt.json").read_text())
    del content["signature"]
    (folder / "receipt.json").write_text(json.dumps(content, indent=2) + "\n")
    answer = pager.run("approve", "latest", "--print", "--json")
    assert answer.code == 36, answer.stdout
    rewrite_receipt(folder, decision="ASK", outcome="REVIEW", signature={"key": "0" * 16, "mac": "0" * 64})
    assert pager.run("approve", "latest", "--print").code == 36
