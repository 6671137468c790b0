"""Repositories that bring settings, and a user who has agreed to nothing."""

from __future__ import annotations

import os
from pathlib import Path

from reflectloop.commands import trust
from support import Answer, Repo

PLAN = "plan: {title: t, track: direct, steps: [{id: a, commands: ['sh build.sh']}]}\n"
HELPER = '[roles]\nplanner = "helper"\nexecutor = "helper"\n[agents.helper]\nkind = "%s"\nrun = ["sh", "tool.sh"]\n'
LOWERED = '[box]\nstrongest = "workspace"\n'


def home() -> Path:
    return Path(os.environ["HOME"])


def brings(repo: Repo, text: str, **files: str) -> Repo:
    """A repository that came with these settings."""
    repo.write("reflectloop.toml", text)
    for name, content in files.items():
        repo.write(name.replace("__", "/").replace("_dot_", "."), content)
    repo.commit("settings")
    return repo


def agree(repo: Repo) -> None:
    assert trust.ask(repo.path, lambda _asked: True).answer == "trusted"


def warnings(answer: Answer) -> list[str]:
    found: list[str] = answer.envelope["warnings"]
    return [one for one in found if "not trusted" in one]


# What counts ------------------------------------------------------------------------------------------------------

GRANTING = {
    "box.strongest": LOWERED,
    "box.read": '[box]\nread = ["/srv"]\n',
    "box.processes": "[box]\nprocesses = 4097\n",
    "box.memory_mb": "[box]\nmemory_mb = 999999999\n",
    "box.file_mb": "[box]\nfile_mb = 16385\n",
    "run.env_allow": '[run]\nenv_allow = ["GITHUB_TOKEN"]\n',
    "run.log_cap_mb": "[run]\nlog_cap_mb = 9\n",
    "workspace.root": '[workspace]\nroot = "/srv"\n',
    "workspace.carry": '[workspace]\ncarry = ["private"]\n',
    "workspace.carry_copy": '[workspace]\ncarry_copy = ["private"]\n',
    "workspace.largest_change_mb": "[workspace]\nlargest_change_mb = 501\n",
    "workspace.largest_total_mb": "[workspace]\nlargest_total_mb = 1001\n",
    "workspace.record_s": "[workspace]\nrecord_s = 601\n",
    "publish.claude_home": "[publish]\nclaude_home = true\n",
    "cost.prices": '[cost]\nprices = "prices.toml"\n',
    "secrets.baseline": '[secrets]\nbaseline = "known.json"\n',
    "secrets.rules": '[secrets]\nrules = "/srv/rules.toml"\n',
    "policy.allow": '[policy]\nallow = ["git.push-force"]\n',
    "policy.rules": '[policy]\nrules = "../rules.yaml"\n',
    "autoloop.apply": '[autoloop]\napply = "branch"\n',
    "autoloop.branch": '[autoloop]\nbranch = "main"\n',
    "autoloop.notify": '[autoloop]\nnotify = ["./tell"]\n',
    "reflect.rules": '[reflect]\nrules = "~/rules.toml"\n',
    "verify.setup": '[verify]\nsetup = [["npm", "ci"]]\n',
    "verify.checks.web.service": '[[verify.checks]]\nname = "web"\nrun = ["true"]\n'
    'service = {run = ["sh", "serve.sh"], ready_url = "http://localhost:8000/"}\n',
    "agents.x.run": '[agents.x]\nkind = "command"\nrun = ["true"]\n',
    "agents.x.file": '[agents.x]\nkind = "script"\nfile = "a.yaml"\n',
    "agents.x.base_url": '[agents.x]\nkind = "http"\nbase_url = "https://models.example"\n',
    "agents.x.key_env": '[agents.x]\nkind = "http"\nkey_env = "GITHUB_TOKEN"\n',
    "agents.x.env": '[agents.x]\nkind = "claude"\nenv = ["GITHUB_TOKEN"]\n',
    "agents.x.network": '[agents.x]\nkind = "claude"\nnetwork = "host"\n',
    "agents.claude.run": '[agents.claude]\nrun = ["/srv/claude"]\n',
}
