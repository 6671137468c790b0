"""Random settings files, set-up leftovers and trees of reports: the engine ends with a known code and reads nothing outside.

Everything is drawn from a seed, so that a fault can be played again: `python -m proof.walls --only fuzz`.
"""

# ruff: noqa: E501, PERF401, PLR0911
from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from proof.walls.person import CANARY, Grounds, Person
from proof.walls.rows import Row
from reflectloop import errors

_KNOWN = {0, 1, 2} | {error.exit_code for error in errors.published() if error.code != "INTERNAL"}
_PLAN = "plan: {title: t, track: direct, verification: {mode: none}, steps: [{id: a, commands: ['echo x >> a.txt']}]}\n"
_MOST_READ = 32 << 20
_SECTIONS = {
    "workspace": ("root", "keep_failed", "warm", "exclude", "carry", "carry_copy", "largest_change_mb"),
    "run": ("env_allow", "idle_s", "grace_s", "log_cap_mb"),
    "box": ("isolation", "strongest", "read", "processes", "memory_mb", "file_mb"),
    "publish": ("claude", "claude_home", "research", "triflow"),
    "roles": ("planner", "executor", "reviewer"),
    "agents.m": ("kind", "run", "file", "model", "base_url", "key_env", "env", "network", "turns", "timeout_s"),
    "cost": ("prices", "tokens", "usd"),
    "secrets": ("rules", "baseline"),
    "policy": ("allow", "rules"),
    "verify": ("checks", "setup", "timeout_s", "protect"),
    "reflect": ("rules",),
}
_LOOKS = (
    ["status"],
    ["config"],
    ["detect"],
    ["agents"],
    ["run", "plan.yaml", "--new"],
    ["scan"],
    ["run", "plan.yaml", "--dry-run"],
)


class Dice(random.Random):
    """Draws what a settings file, a tree or a report may hold."""

    def word(self) -> str:
        return self.choice(
            (
                "a",
                "",
                "none",
                "full",
                "fs",
                "m",
                "claude",
                "-",
                "..",
                "/",
                "~",
                "x" * 300,
                "é\u202e",
                "a\nb",
                "\x1b[2J",
                "0",
            )
        )

    def value(self, home: str, depth: int = 0) -> str:
        """Return a value as TOML writes it, now and then one that TOML does not know."""
        kind = self.randrange(12 if depth < 3 else 7)
        if kind < 3:
            return json.dumps(self.word())
        if kind == 3:
            return self.choice(
                ("0", "1", "-1", "9" * 30, "1e308", "nan", "inf", "true", "false", "0x10", "1979-05-27", "1_000")
            )
        if kind == 4:
            return json.dumps(
                self.choice(
                    (home + "/.ssh", home, "../sibling", "/dev/zero", "/proc/self/environ", "pipe", "loop", "a.txt")
                )
            )
        if kind == 5:
            return self.choice(("", "=", "[", '"""', "'", "\x00", "\xff", "{", "}", "[[", "#"))
        if kind == 6:
            return json.dumps(["sh", "-c", f"cat {home}/.ssh/id_walls"])
        if kind == 7:
            return (
                "{"
                + ", ".join(
                    f"{self.choice(('name', 'run', 'kind', 'x'))} = {self.value(home, depth + 1)}" for _ in range(2)
                )
                + "}"
            )
        return "[" + ", ".join(self.value(home, depth + 1) for _ in range(self.randrange(4))) + "]"

    def settings(self, home: str) -> bytes:
        lines = []
        for section in self.sample(sorted(_SECTIONS), self.randrange(1, 5)):
            lines.append(
                self.choice((f"[{section}]", f"[{section}]", f"[{section}]", f"[[{section}]]", f"[{section}.x]"))
            )
            for key in self.sample(_SECTIONS[section], self.randrange(1, len(_SECTIONS[section]) + 1)):
                lines.append(f"{self.choice((key, key, key, key, key + 'x', json.dumps(key)))} = {self.value(home)}")
        text = "\n".join(lines).encode("utf-8", "surrogatepass") + b"\n"
        if self.randrange(5) == 0:
            place = self.randrange(len(text))
            text = text[:place] + self.randbytes(self.randrange(1, 8)) + text[place + self.randrange(3) :]
        return text

    def name(self) -> str:
        plain = (
            "a",
            "b",
            "deps",
            "bin",
            "lib",
            ".venv",
            "node_modules",
            "target",
            "pyvenv.cfg",
            "python",
            "package.json",
            "x.pth",
        )
        odd = (
            "..a",
            "-rf",
            "--bind",
            "a\nb",
            "\x1b]0;x\x07",
            "\udcff",
            "é",
            " ",
            "n" * 200,
            "TEST-a.xml",
            ".git",
            ".gitignore",
            ".gitattributes",
        )
        return self.choice(plain + odd)

    def tree(self, home: str, depth: int = 0) -> list[str]:
        """Return Python lines that make a random tree in the current folder."""
        lines = []
        for _ in range(self.randrange(1, 6)):
            name, kind = repr(self.name()), self.randrange(14)
            target = self.choice(
                (
                    home + "/.ssh",
                    home,
                    "/",
                    "..",
                    "../../..",
                    "a",
                    "/proc/self/fd",
                    "/proc/self/environ",
                    "/dev/zero",
                    "/dev/stdin",
                    home + "/.ssh/id_walls",
                )
            )
            if kind < 4 and depth < 4:
                lines += [f"d({name})", *self.tree(home, depth + 1), "u()"]
            elif kind < 8:
                lines.append(f"t(os.symlink, {target!r}, {name})")
            elif kind == 8:
                lines.append(f"t(os.mkfifo, {name})")
            elif kind == 9:
                lines.append(f"t(os.mknod, {name}, 0o20666, os.makedev(1, 5))")
            elif kind == 10:
                lines.append(f"t(lambda: socket.socket(1).bind({name}))")
            elif kind == 11:
                lines.append(
                    f"t(os.chmod, {self.choice(('.', name[1:-1]))!r}, {self.choice((0, 0o111, 0o444, 0o4777))})"
                )
            elif kind == 12:
                lines.append(
                    f"t(lambda: os.truncate(os.open({name}, os.O_CREAT | os.O_WRONLY | os.O_NONBLOCK), {self.choice((0, 1 << 20, 1 << 33))}))"
                )
            else:
                lines.append(f"t(w, {name}, {self.randbytes(self.randrange(50))!r})")
        return lines

    def report(self) -> bytes:
        """Return a report, whole or damaged."""
        head = self.choice(
            (
                '<?xml version="1.0"?>',
                '<?xml version="1.0" encoding="utf-16"?>',
                "\ufeff",
                '<!DOCTYPE x [<!ENTITY e "eeee">]>',
                "",
            )
        )
        case = '<testcase classname="{0}" name="{0}" time="{1}"><{2} message="{0}">{0}</{2}></testcase>'
        numbers = ("1", "-1", "nan", "1e999", "")
        kinds = ("failure", "error", "skipped", "system-out", "x")
        cases = "".join(
            case.format(
                self.choice(("a", "&amp;", "]]>", "&#0;", "x" * 500, "é", "../../a")),
                self.choice(numbers),
                self.choice(kinds),
            )
            for _ in range(self.randrange(30))
        )
        xml = f'{head}<testsuites><testsuite tests="{self.choice(numbers)}">{cases}</testsuite></testsuites>'
        deep = self.randrange(1, 2000)
        made = self.choice(
            (
                xml,
                json.dumps({"testResults": [{"assertionResults": [{"status": "passed", "title": "a"}] * 9}]}),
                "[" * deep,
                "{" + '"a":{' * deep,
                xml * 3,
            )
        )
        raw = made.encode("utf-8", "surrogatepass")
        if self.randrange(2):
            place = self.randrange(len(raw))
            raw = raw[:place] + self.randbytes(self.randrange(6)) + raw[place + self.randrange(20) :]
        return raw


_MAKE = """import os, socket
def t(f, *a):
    try: f(*a)
    except (OSError, ValueError): pass
def d(n):
    try: os.mkdir(n)
    except (OSError, ValueError): pass
    try: os.chdir(n); stack.append(1)
    except (OSError, ValueError): stack.append(0)
def u():
    if stack.pop(): os.chdir('..')
def w(n, b):
    f = os.open(n, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK)
    os.write(f, b); os.close(f)
stack = []
"""


def _ended(person: Person, project: Path, words: list[str]) -> str:
    answer = person.loop(project, *words, timeout_s=60)
    if answer.code not in _KNOWN:
        return f"`{' '.join(words)}` ended with {'no end' if answer.code is None else answer.code}"
    return f"`{' '.join(words)}` showed a canary" if CANARY in answer.out else ""


def _kept_canary(project: Path) -> str:
    """Say if the engine keeps a canary; of a file with gigabytes of nothing, the beginning is read."""
    folder = project / ".reflectloop"
    if folder.is_symlink():
        return ""
    for path in (path for path in folder.rglob("*") if ".reflectloop/git" not in str(path)):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if CANARY.encode() in file.read(_MOST_READ):
                    return "a canary was kept"
    return ""


def _settings(person: Person, seed: int) -> str:
    dice = Dice(seed)
    project = person.project({"plan.yaml": _PLAN, "a.txt": "a\n"}, name=f"s{seed}")
    person.put(project / "reflectloop.toml", dice.settings(str(person.home)))
    person.sh("mkfifo pipe; ln -s loop loop; git add -A; git commit -qm fuzz", project)
    for words in (dice.choice(_LOOKS), ["run", "plan.yaml", "--new"], ["status"]):
        fault = _ended(person, project, words)
        if fault:
            return fault
    return _kept_canary(project)


def _leftovers(person: Person, seed: int) -> str:
    dice = Dice(seed)
    setup = '[verify]\nsetup = [["/usr/bin/python3", "make.py"]]\nchecks = [{name = "t", run = ["sh", "-c", "cat deps/* deps/*/* .venv/* 2>/dev/null | head -c 5000; true"], kind = "custom"}]\n'
    body = (
        _MAKE
        + "d('deps')\n"
        + "\n".join(dice.tree(str(person.home)))
        + "\nu()\n"
        + "\n".join(dice.tree(str(person.home), 3))
        + "\n"
    )
    files: dict[str, str | bytes] = {
        "reflectloop.toml": setup,
        "make.py": body,
        "a.txt": "a\n",
        ".gitignore": "deps\n.venv\nnode_modules\ntarget\n",
    }
    project = person.project(files, name=f"l{seed}")
    person.own_settings(setup)
    person.trust(project)
    person.put(project / "a.txt", "b\n")
    for _ in range(2):
        fault = _ended(person, project, ["verify"])
        if fault:
            return fault
    person.plan([])
    step = person.run(project, "python3 make.py", timeout_s=90)
    if step.code not in _KNOWN:
        return f"`run` ended with {'no end' if step.code is None else step.code}"
    return _kept_canary(project)


def _reports(person: Person, seed: int) -> str:
    dice = Dice(seed)
    pom = "<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>b</artifactId><version>1</version></project>\n"
    body = _MAKE + "d('target')\nd('surefire-reports')\n"
    for number in range(dice.randrange(1, 4)):
        body += f"t(w, 'TEST-{number}.xml', {dice.report()!r})\n"
    body += "\n".join(dice.tree(str(person.home), 2)) + "\n"
    files: dict[str, str | bytes] = {
        "pom.xml": pom,
        "make.py": body,
        "mvnw": "#!/bin/sh\n/usr/bin/python3 make.py\nexit 0\n",
    }
    files |= {"src/test/java/ATest.java": "class ATest {}\n", "a.txt": "a\n", ".gitignore": "target\n"}
    project = person.project(files, name=f"r{seed}")
    person.put(project / "a.txt", "b\n")
    person.put(project / "one.xml", dice.report())
    fault = _ended(person, project, ["verify"]) or _ended(person, project, ["diagnose", "one.xml"])
    return fault or _kept_canary(project)


_KINDS: tuple[tuple[str, Callable[[Person, int], str], int], ...] = (
    ("settings files", _settings, 40),
    ("set-up leftovers", _leftovers, 24),
    ("trees of reports", _reports, 24),
)


def rows(grounds: Grounds, budget_s: float = 420.0) -> Iterator[Row]:
    """Play each kind for a number of seeds, within a time, as each user; say every fault with its seed."""
    share = budget_s / (len(_KINDS) * len(grounds.users))
    for name, play, count in _KINDS:
        for uid in grounds.users:
            played: Counter[str] = Counter()
            end = time.monotonic() + share
            for seed in range(count):
                if time.monotonic() > end:
                    break
                wall = grounds.walls[seed % len(grounds.walls)]
                person = grounds.person(uid, wall)
                fault = play(person, seed * 2 + (uid == 0))
                played["faults" if fault else "well"] += 1
                if fault:
                    yield Row("fuzz", f"{name}, seed {seed * 2 + (uid == 0)}", "new", str(person), "got out", fault)
            who = f"{'root' if uid == 0 else 'nobody'}/all"
            yield Row(
                "fuzz",
                f"{name}: {played.total()} random ones",
                "new",
                who,
                "held",
                f"{played['well']} ended with a known code",
            )
