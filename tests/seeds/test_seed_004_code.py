"""Line 76 and 126 of the pipeline's document: a dangerous operation is rejected at once, in whatever language it is."""

from __future__ import annotations

import json

import pytest

from gate_builders import changed_file
from reflectloop import policy
from reflectloop.gates import rules
from reflectloop.gates.rules import Breach, DangerPolicy
from reflectloop.policy import PolicyVerdict
from support import Repo


def _breach(verdict: PolicyVerdict) -> Breach | None:
    return None if verdict.allowed else Breach(verdict.verdict == "deny", verdict.rule or "", verdict.reason)


_POLICY = DangerPolicy(
    lambda _path, _number, _text: None, lambda command: _breach(policy.default().in_workspace.judge(command))
)


def _refused(path: str, added: str, before: str = "") -> list[str]:
    change = changed_file(path, before or None, before + added)
    return [str(reason) for reason in rules.started_commands([change], _POLICY)]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", 'import os\nos.system("rm -rf /")\n'),
        ("a.py", 'import subprocess\nsubprocess.run("rm -rf ~", shell=True)\n'),
        ("a.py", 'import subprocess\nsubprocess.run(["rm", "-rf", "/"])\n'),
        (
            "a.py",
            'import subprocess\nsubprocess.check_call(\n    [\n        "rm",\n        "-rf",\n        "/",\n    ]\n)\n',
        ),
        ("a.py", 'from os import system\nsystem("rm -rf " + "/")\n'),
        ("a.py", 'import os\nCMD = "rm -rf /"\nos.popen(CMD)\n'),
        ("a.js", 'const { exec } = require("child_process");\nexec("rm -rf /");\n'),
        ("a.js", "exec('rm -rf /', (err) => { console.log(err) })\n"),
        ("a.ts", 'spawnSync("rm", ["-rf", "/"]);\n'),
        ("a.mjs", "execSync(`rm -rf /`)\n"),
        ("a.go", 'func f() { exec.Command("rm", "-rf", "/").Run() }\n'),
        ("a.rs", 'Command::new("rm").arg("-rf").arg("/").status();\n'),
        ("a.rs", 'Command::new("rm").args(["-rf", "/"]).spawn();\n'),
        ("a.c", 'int main(void) { return system("rm -rf /"); }\n'),
        ("a.rb", "system('rm -rf /')\n"),
        ("a.rb", "x = `rm -rf /`\n"),
        ("a.php", "<?php shell_exec('rm -rf /');\n"),
        ("A.java", 'Runtime.getRuntime().exec("rm -rf /");\n'),
        ("A.java", 'new ProcessBuilder("rm", "-rf", "/").start();\n'),
        ("Jenkinsfile", "sh 'rm -rf /'\n"),
        (".github/workflows/ci.yml", "jobs:\n  a:\n    steps:\n      - run: rm -rf /\n"),
        (".github/workflows/ci.yml", "      - run: |\n          echo hi\n          rm -rf /\n"),
        (".gitlab-ci.yml", "a:\n  script:\n    - rm -rf /\n"),
        ("package.json", '{\n  "scripts": {\n    "clean": "rm -rf /"\n  }\n}\n'),
    ],
)
def test_line_76_a_dangerous_command_in_added_code_is_refused(path: str, text: str) -> None:
    assert _refused(path, text)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", 'import subprocess\nsubprocess.run(["git", "status"], check=True)\n'),
        ("a.py", 'import subprocess\nsubprocess.run(["rm", "-rf", "build"])\n'),
        ("a.py", "import subprocess\nsubprocess.run(command, env=env)\n"),
        ("a.py", 'def judge(text): ...\njudge("rm -rf /")\n'),
        ("a.py", '# os.system("rm -rf /")\n'),
        ("a.py", "TEXT = \"os.system('rm -rf /')\"\n"),
        ("a.js", 'const m = /x/.exec("rm -rf /tmp/x");\n'),
        ("a.js", "// exec('rm -rf /')\n"),
        ("a.js", 'exec("rm -rf " + folder)\n'),
        ("a.go", 'exec.Command("go", "build", "./...").Run()\n'),
        ("a.c", 'printf("rm -rf /");\n'),
        ("README.md", 'os.system("rm -rf /")\n'),
        ("data.json", '{"text": "rm -rf /"}\n'),
        (
            ".github/workflows/ci.yml",
            "on: push\njobs:\n  a:\n    steps:\n      - name: rm -rf /\n      - run: pytest -q\n",
        ),
        ("Jenkinsfile", "sh 'make test'\n"),
    ],
)
def test_line_76_ordinary_code_is_let_through(path: str, text: str) -> None:
    assert _refused(path, text) == []


def test_line_76_only_what_the_change_adds_is_judged() -> None:
    old = 'import os\nos.system("rm -rf /")\n'
    assert _refused("a.py", "print(1)\n", before=old) == []
    assert _refused("a.js", "// more\n", before="exec('rm -rf /')\n") == []


@pytest.mark.parametrize("track", ["direct", "fix"])
def test_line_126_the_change_is_stopped_on_every_track(repo: Repo, track: str) -> None:
    text = 'import subprocess\\nsubprocess.run(["rm", "-rf", "/"])\\n'
    step = {"id": "P-1", "commands": [f"printf '{text}' > src/new.py"]}
    plan = {"plan": {"title": "T", "track": track, "objective": {"goal": "g"}, "steps": [step]}}
    done = repo.run("run", repo.plan(json.dumps(plan)), "--json")
    assert done.code == 33, done.envelope["message"]
    assert "src/new.py:2" in done.envelope["message"]
    assert repo.run("status").code == 0
