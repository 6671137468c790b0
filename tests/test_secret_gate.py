"""The gate sees possible secrets in files of any form, and nothing that is stored contains one."""

from __future__ import annotations

import base64
import contextlib
import json
import signal
import zlib
from pathlib import Path

import pytest

from reflectloop.secrets.rulefile import fill_sample
from reflectloop.verification.expected_texts import is_expected_value
from support import Repo, start, wait_until

pytestmark = pytest.mark.usefixtures("without_probing")

PASSWORD = fill_sample("{lownum:16}", "gate")
TOKEN = fill_sample("ghp_{alnum:36}", "gate")
SETTING = f'db_password = "{PASSWORD}"'
FORMS = {
    "text": "open('settings.py', 'w').write(text)",
    "utf-16": "open('settings.txt', 'w', encoding='utf-16').write(text)",
    "utf-32": "open('settings.txt', 'w', encoding='utf-32').write(text)",
    "binary": "open('data.bin', 'wb').write(bytes(range(32)) + text.encode() + bytes(9))",
    "pickle": "import pickle; pickle.dump({'db_password': word}, open('data.pickle', 'wb'))",
    "database": (
        "import sqlite3; base = sqlite3.connect('x.db'); base.execute('create table a (name text, value text)');"
        " base.execute('insert into a values (?, ?)', ('db_password', word)); base.commit()"
    ),
}


def writing(code: str) -> str:
    """Return a command that runs the code without containing the password, like a step that generates one."""
    hidden = base64.b64encode(PASSWORD[::-1].encode()).decode()
    head = f"import base64; word = base64.b64decode('{hidden}').decode()[::-1]; text = 'db_password = ' + repr(word)"
    return f'python3 -c "{head}; {code}"'


def holders(folder: Path, value: str) -> list[str]:
    """Return the files that contain a value, as UTF-8, UTF-16, UTF-32, or in a git object."""
    wanted = [value.encode(coding) for coding in ("utf-8", "utf-16-le", "utf-32-le")]
    paths = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            with contextlib.suppress(zlib.error):
                data += zlib.decompress(data)
            paths += [str(path)] if any(form in data for form in wanted) else []
    return paths


@pytest.mark.parametrize("form", FORMS)
def test_a_possible_secret_in_a_file_of_any_form_is_rejected_and_not_stored(form: str, repo: Repo) -> None:
    answer = repo.run("run", "--json", repo.steps(writing(FORMS[form])))
    assert answer.envelope["error_code"] == "GATE_REJECTED", answer.stdout
    assert PASSWORD not in answer.stdout
    assert not (repo.latest() / "changes.patch").exists()
    assert (repo.latest() / "changes.redacted.patch").exists()
    assert holders(repo.path / ".reflectloop", PASSWORD) == []
    assert repo.run("apply", "--yes").code == 14
    assert "was not kept" in repo.run("diff").stderr


def test_a_file_that_already_contained_its_password_may_change(repo: Repo) -> None:
    repo.write("data.bin", bytes(range(32)) + SETTING.encode() + bytes(9))
    repo.commit("as it was")
    assert repo.run("run", repo.steps("printf more >> data.bin")).code == 0
    assert repo.run("apply", "--yes").code == 0


def test_a_token_in_base64_in_a_changed_file_stops_the_run(repo: Repo) -> None:
    hidden = base64.b64encode(TOKEN[::-1].encode()).decode()
    plan = repo.steps(
        f"echo {hidden} | base64 -d | rev | sed 's/^/the token of the deployment is /' | base64 > note.txt"
    )
    answer = repo.run("run", "--json", plan)
    assert answer.envelope["error_code"] == "SECRET_LEAK", answer.stdout
    packed = base64.b64encode(f"the token of the deployment is {TOKEN}\n".encode()).decode()
    assert holders(repo.path / ".reflectloop", packed[:60]) == []


def test_verify_stores_nothing_of_a_dirty_file_with_a_secret(repo: Repo) -> None:
    repo.write("settings.ini", f"token = {TOKEN}\n")
    answer = repo.run("verify", "--json")
    assert answer.envelope["error_code"] == "SECRET_LEAK", answer.stdout
    assert holders(repo.path / ".reflectloop", TOKEN) == []


def plan_with(value: str, repo: Repo, *commands: str) -> Path:
    """Return a plan that contains a password in every text field."""
    step = {
        "id": "P-1",
        "title": f"use db_password={value}",
        "env": {"DB_PASSWORD": value},
        "commands": [*commands, f"printf '%s' '{value}' | wc -c > length"],
        "verify": ["known"],
    }
    checks = {"known": {"run": f"echo '{value}'", "stdout_contains": value}}
    plan = {"title": f"Set db_password={value}", "track": "direct", "checks": checks, "steps": [step]}
    return repo.plan(json.dumps({"plan": plan}))


def test_a_password_in_the_text_of_a_plan_is_stored_nowhere(repo: Repo) -> None:
    answer = repo.run("run", "--json", plan_with(PASSWORD, repo))
    assert answer.code == 0, answer.stdout
    assert PASSWORD not in answer.stdout
    assert holders(repo.path / ".reflectloop", PASSWORD) == []
    assert repo.run("apply", "--yes").code == 0
    assert (repo.path / "length").read_text().strip() == str(len(PASSWORD))


def test_resuming_a_plan_with_a_password_needs_the_unchanged_plan_file(repo: Repo) -> None:
    gate = repo.gate()
    plan = plan_with(PASSWORD, repo, gate.wait)
    engine = start(repo.path, "run", str(plan))
    journals = repo.path / ".reflectloop" / "tasks"
    assert wait_until(lambda: any(b"step_started" in path.read_bytes() for path in journals.glob("*/journal.jsonl")))
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    gate.open()
    text = plan.read_text()
    plan.write_text(text.replace("length", "size"))
    refused = repo.run("resume", "--json")
    assert refused.envelope["error_code"] == "MISSING_PLAN", refused.stdout
    plan.write_text(text)
    assert repo.run("resume").code == 0
    assert holders(repo.path / ".reflectloop", PASSWORD) == []


DIGEST = fill_sample("{alnum:48}", "a digest that a test expects")


@pytest.mark.parametrize(
    ("path", "text", "line", "rule", "expected"),
    [
        ("tests/test_a.py", f"def test_a():\n    assert f() == '{DIGEST}'\n", 2, "random-text", True),
        ("tests/test_a.py", f"def test_a():\n    assert f() == (\n        'a'\n        '{DIGEST}'\n    )\n", 4, "random-text", True),
        ("tests/test_a.py", f"class T:\n    def test_a(self):\n        self.assertEqual(f(), '{DIGEST}')\n", 3, "random-text", True),
        ("test/a.test.js", f"it('a', () => {{\n  expect(f()).toBe('{DIGEST}');\n}});\n", 2, "random-text", True),
        ("tests/test_a.py", f"KEY = '{DIGEST}'\n\n\ndef test_a():\n    assert f(KEY) == 1\n", 1, "random-text", False),
        ("tests/test_a.py", f"def test_a():\n    assert f('{DIGEST}') == 1\n", 2, "random-text", False),
        ("tests/test_a.py", f"def test_a():\n    assert f() == '{DIGEST}'\n", 2, "assignment", False),
        ("shop/keys.py", f"assert f() == '{DIGEST}'\n", 1, "random-text", False),
    ],
)  # fmt: skip
def test_an_expected_value_of_a_test_is_no_possible_secret(
    path: str, text: str, line: int, rule: str, expected: bool
) -> None:
    assert is_expected_value(path, text.encode(), line, rule) is expected


def test_a_digest_that_a_test_expects_is_not_asked_about(repo: Repo) -> None:
    head = "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n"
    repo.write("test_a.py", f"{head}        self.assertEqual('a', 'a')\n")
    repo.commit("a test")
    more = f"\n    def test_b(self):\n        self.assertEqual(''.join({list(DIGEST)}), '{DIGEST}')\n"
    repo.write("test_a.py", f"{head}        self.assertEqual('a', 'a')\n{more}")
    assert repo.run("verify").code == 0
    repo.write("test_a.py", f"KEY = '{DIGEST}'\n{head}        self.assertEqual('a', 'a')\n")
    assert "may be a secret" in repo.run("verify").stderr
