"""Ordinary commands of popular packages are let through by the command policy, and quickly."""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import yaml

from proof.paper import Paper
from reflectloop import policy
from reflectloop.policy import PolicyVerdict

PYTHON = """
    psutil==7.0.0 PyYAML==6.0.2 pytest==8.3.5 setuptools==80.9.0 celery==5.5.2 coverage==7.8.2 Django==5.2.1
    aiohttp==3.12.4 pexpect==4.9.0 cffi==1.17.1 tornado==6.5 SQLAlchemy==2.0.41
""".split()  # noqa: SIM905
NODE = "axios@1.9.0 eslint@9.27.0 fastify@5.3.3 webpack@5.99.9".split()  # noqa: SIM905
LEAST = 500
RIGHTLY_ASKED = ("publish.", "cloud.", "file.puts-autorun")  # the rules of what only a person can decide
ABOUT = (
    "Every command of the CI files, Makefiles, `tox.ini`, `package.json` and scripts of popular packages, from what "
    "they publish, each distinct one once. Variables of make and expressions of CI are filled in where the same file "
    "defines them, and with a plain word elsewhere, as make and the CI do before a shell sees the line."
)


class Found(NamedTuple):
    package: str
    command: str
    verdict: PolicyVerdict


def main() -> None:
    paper = Paper("policy", ABOUT)
    with tempfile.TemporaryDirectory() as folder:
        packages = Path(os.environ.get("PROOF_FOLDER") or folder).resolve() / "packages"  # kept there, when it is set
        packages.mkdir(parents=True, exist_ok=True)
        commands = dict(_collected(packages))
    rules = policy.default()
    rules.judge("true")  # what is loaded once is not a command's
    began = time.process_time()
    found = [Found(package, command, rules.judge(command)) for command, package in commands.items()]
    spent_ms = (time.process_time() - began) * 1000 / max(1, len(found))
    _claims(paper, found, spent_ms)
    paper.write()


def _claims(paper: Paper, found: list[Found], spent_ms: float) -> None:
    packages = {one.package for one in found}
    denied = [one for one in found if one.verdict.verdict == "deny"]
    asked = [one for one in found if one.verdict.verdict == "confirm"]
    paper.claim(
        f"at least {LEAST} commands of at least ten packages",
        f"{len(found)} of {len(packages)}",
        holds=len(found) >= LEAST and len(packages) >= 10,
    )
    paper.claim("none is denied", str(len(denied)), holds=not denied)
    needless = [one for one in asked if not str(one.verdict.rule).startswith(RIGHTLY_ASKED)]
    share = 100 * len(needless) / max(1, len(found))
    paper.claim(
        "at most 2 % are asked about that neither publish, change a service, nor install what runs by itself",
        f"{len(needless)}, {share:.1f} %; {len(asked) - len(needless)} that do",
        holds=share <= 2,
    )
    paper.claim("at most 1 ms of CPU a command", f"{spent_ms:.2f} ms", holds=spent_ms <= 1)
    cell = "`{}`".format
    rows = [
        [one.package, one.verdict.verdict, str(one.verdict.rule), cell(_short(one.command))]
        for one in (*denied, *asked)
    ]
    paper.table(["package", "verdict", "rule", "command"], rows)


def _short(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("`", "'")[:100]


def _collected(folder: Path) -> Iterator[tuple[str, str]]:
    venv = folder.parent / "tools"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    pip = [str(venv / "bin" / "pip"), "download", "-q", "--no-deps", "--no-binary"]
    # Only the package itself: the tools that build it would otherwise be compiled too.
    wanted = {name: [*pip, name.partition("==")[0], name] for name in PYTHON} | {
        name: ["npm", "pack", "--silent", name] for name in NODE
    }
    with ThreadPoolExecutor(4) as workers:
        list(workers.map(lambda item: _download(folder / item[0], item[1]), wanted.items()))
    for place in sorted(folder.iterdir()):
        for archive in [*place.glob("*.tar.gz"), *place.glob("*.tgz")]:
            with tarfile.open(archive) as tar:
                tar.extractall(place / "unpacked", filter="data")
        for command in _commands(place):
            yield command, place.name


def _download(place: Path, argv: list[str]) -> None:
    if place.exists():
        return
    place.mkdir()
    done = subprocess.run(argv, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode and not any(place.iterdir()):
        print(f"left out: {place.name}: {done.stderr.strip()[-200:]}")


def _commands(place: Path) -> Iterator[str]:
    for path in sorted(one for one in place.rglob("*") if one.is_file()):
        reader = next((read for pattern, read in _READERS if re.search(pattern, path.as_posix())), None)
        if reader:
            text = path.read_text(encoding="utf-8", errors="replace")
            yield from (command.strip() for command in reader(text) if command.strip() and not command.startswith("#"))


def _makefile(text: str) -> Iterator[str]:
    joined = text.replace("\\\n", " ")
    defined = {
        found[1]: found[2].strip()
        for found in re.finditer(r"^(?:export )?(\w+)\s*[:?]?=[ \t]*(.*)$", joined, re.MULTILINE)
    }

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2] or ""
        return defined.get(name, name.lower() or "word") if "$" not in defined.get(name, "") else "word"

    for line in joined.splitlines():
        if line.startswith("\t") and not line.strip().startswith(("#", "ifeq", "else", "endif")):
            filled = re.sub(r"(?<!\$)\$(?:\((\w+)\)|\{(\w+)\}|\([^()]*\)|[@<^*?])", value, line.strip().lstrip("@-+ "))
            yield filled.replace("$$", "$")


def _workflow(text: str) -> Iterator[str]:
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return
    for script in _runs(document):
        yield re.sub(r"\$\{\{.*?\}\}", "word", script)


def _runs(value: object) -> Iterator[str]:
    if isinstance(value, dict) and "python" in str(value.get("shell")):
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("run", "script", "before_script", "install", "before_install") and isinstance(inner, str):
                yield inner
            else:
                yield from _runs(inner)
    elif isinstance(value, list):
        yield from (line for inner in value for line in _runs(inner))


def _tox(text: str) -> Iterator[str]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    for section in parser.sections():
        for key in ("commands", "commands_pre", "commands_post"):
            lines = parser.get(section, key, fallback="").replace("\\\n", " ").splitlines()
            for line in lines:
                yield re.sub(r"^[\w,{}-]+:\s+", "", re.sub(r"\{[^{}]*\}", "word", line.lstrip("- ")))


def _package(text: str) -> Iterator[str]:
    try:
        scripts = json.loads(text).get("scripts", {})
    except (ValueError, AttributeError):
        return
    yield from (script for script in scripts.values() if isinstance(script, str))


def _script(text: str) -> Iterator[str]:
    yield text


_READERS = (
    (r"/(?:GNU)?[Mm]akefile$|\.mk$", _makefile),
    (r"/\.github/.+\.ya?ml$|/\.(?:travis|gitlab-ci|appveyor|cirrus)\.ya?ml$|/azure-pipelines\.yml$", _workflow),
    (r"/tox\.ini$", _tox),
    (r"/package\.json$", _package),
    (r"(?:/ci|/tools|/scripts|/\.github|/\.ci|/buildlibxml|/docker|/util)/[^/]*\.sh$", _script),
)


if __name__ == "__main__":
    main()
