"""Canary secrets through every way out of the box: the value is found nowhere afterwards, however long the log."""

from __future__ import annotations

import contextlib
import json
import secrets
import shlex
import string
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

from proof.environment import Stage
from proof.paper import Paper

_LETTERS = string.ascii_letters + string.digits
_HALF = 9

WAYS = {
    "stdout": "echo $K",
    "stderr": "echo $K >&2",
    "split across writes": "printf %s ${K:0:11}; sleep 0.5; printf '%s\\n' ${K:11}",
    "one byte at a time": "for ((i=0; i<${#K}; i++)); do printf %s ${K:$i:1}; sleep 0.01; done; echo",
    "interleaved with stderr": "for ((i=0; i<40; i+=8)); do printf %s ${K:$i:4}; printf %s ${K:$((i+4)):4} >&2; done",
    "amid colours and control codes": "printf '\\033[31m\\033]0;t\\007%s\\033[0m\\n' $K",
    "in a binary stream": "head -c 3000000 /dev/urandom; printf '\\0%s\\0' $K; head -c 3000000 /dev/urandom",
    "at the end of a line of 500 MB": "head -c 500000000 /dev/zero | tr '\\0' a; echo \" $K\"",
    "in the middle of a log of 1.4 GB": (
        "set +o pipefail; yes compiling | head -c $((5**13)); echo; echo $K; yes ok | head -c $((5**12))"
    ),
    "a file in the patch": "echo token=$K > settings.ini",
    "a binary file": "printf '\\0\\1%s\\0' $K > data.bin",
    "a file name": "touch $K",
    "a link": "ln -s $K link",
    "a commit message": 'git commit -q --allow-empty -m "key $K"',
    "an environment dump": "export SERVICE=$K; env",
    "base64 of a variable of the caller's": "printf 'user:%s' \"$V\" | base64 -w0",
    "hex of a variable of the caller's": "printf %s \"$V\" | od -An -tx1 -w100 | tr -d ' '",
    "a variable of the caller's, as it is": 'echo "value is $V."',
    "with the allow pragma": 'echo "$K # allowlist-secret why=TEST_VECTOR"',
    "from a failing command": "echo $K; exit 3",
}


def canary() -> str:
    """A token of a provider's shape, made anew each time."""
    return "gh" + "p_" + "".join(secrets.choice(_LETTERS) for _ in range(36))


def holders(root: Path, values: list[bytes]) -> list[str]:
    """Files that hold a value, plainly or in a git object."""
    found = []
    for path in root.rglob("*"):
        if any(value in str(path).encode() for value in values):
            found.append(str(path))
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            with contextlib.suppress(zlib.error):
                data += zlib.decompress(data)
            if any(value in data for value in values):
                found.append(str(path))
    return found


def prove(stage: Stage, paper: Paper, name: str, command: str, number: int) -> None:
    project = stage.small_project(f"p{number}")
    key, own = canary(), "Vq8+" + secrets.token_urlsafe(18)
    parts = f"K={key[:_HALF]}; K=${{K}}{key[_HALF:]}; "
    parts += f"V={shlex.quote(own[:_HALF])}; V=${{V}}{shlex.quote(own[_HALF:])}; "
    stage.plan([{"id": "leak", "commands": [parts + command]}], f"plan{number}.json")
    plan = stage.folder / f"plan{number}.json"
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "reflectloop", "run", str(plan)],
        cwd=project,
        env={**stage.env, "BILLING_API_KEY": own},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    spent = time.monotonic() - began
    plan.unlink()
    values = [key.encode(), own.encode()]
    left = [path for root in (project, stage.folder / "temp") for path in holders(root, values)]
    shown = any(value in done.stdout for value in values)
    latch = project / ".reflectloop/latch.json"
    latched = json.loads(latch.read_text())["error_code"] if latch.exists() else ""
    paper.claim(
        name,
        f"exit {done.returncode} in {spent:.1f} s, latched by {latched or 'nothing'}, found in {len(left)} file(s), "
        f"{'SHOWN' if shown else 'not shown'}",
        holds=done.returncode == 99 and not left and not shown and latched == "SECRET_LEAK",
    )


def main() -> None:
    paper = Paper("secrets", "A canary through every way out: the run stops, latches, and leaves the value nowhere.")
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as folder:
        stage = Stage(Path(folder))
        for number, (name, command) in enumerate(WAYS.items()):
            prove(stage, paper, name, command, number)
    paper.write()


if __name__ == "__main__":
    main()
