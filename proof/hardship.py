"""Suites and patches that nobody should send, at their full size, put to `verify`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from proof.environment import Stage
from proof.paper import Paper

_MB = 1 << 20
_LARGEST_MB = 900
_PASSED = (None,)  # no error code
_BOMB = '<!DOCTYPE t [<!ENTITY a "{}">{}]><testsuite><testcase name="&j;"/></testsuite>'
_BREAKING = "import helper\n\n\ndef test_well():\n    helper.trouble()\n"


class Answer(NamedTuple):
    code: int
    told: dict[str, Any]
    seconds: float
    largest_mb: int  # of the engine's memory

    @property
    def said(self) -> str:
        envelope = self.told["envelope"]
        reasons = [one["text"] for one in (self.told["data"] or {}).get("reasons", [])]
        words = "; ".join(reasons) or envelope["message"] or "PASS"
        return f"{envelope['error_code'] or 'OK'} in {self.seconds:.0f} s, {self.largest_mb} MB: {words[:160]}"


class Hardship:
    """One small project whose tests run a function that a patch can spoil."""

    def __init__(self, stage: Stage, paper: Paper) -> None:
        self.stage, self.paper = stage, paper
        self.project = stage.small_project("project")
        (self.project / "helper.py").write_text("def trouble():\n    return 1\n")
        (self.project / "tests").mkdir()
        (self.project / "tests" / "test_helper.py").write_text(_BREAKING)
        (self.project / "conftest.py").write_text("")
        (self.project / "reflectloop.toml").write_text("[verify]\ntimeout_s = 120\n")
        self._git("add", "-A")
        self._git("commit", "-q", "-m", "tests")

    def _git(self, *words: str) -> str:
        return self.stage.sh(self.project, "git", *words)

    def verify(self, *words: str) -> Answer:
        begun = time.monotonic()
        read, write = os.pipe()
        argv = [sys.executable, "-c", _MEASURED, str(write), "verify", *words, "--json"]
        env = {**self.stage.env, "PATH": f"{Path(sys.executable).parent}:{self.stage.env['PATH']}"}
        done = subprocess.run(argv, cwd=self.project, env=env, stdout=subprocess.PIPE, pass_fds=(write,), check=False)
        os.close(write)
        with os.fdopen(read, "rb") as file:
            largest = int(file.read() or 0)
        return Answer(done.returncode, json.loads(done.stdout), time.monotonic() - begun, largest // 1024)

    def spoiled(self, trouble: str) -> Answer:
        """The change is in the work tree: the function does this."""
        (self.project / "helper.py").write_text("import os\n\n\ndef trouble():\n" + trouble)
        try:
            return self.verify("--worktree")
        finally:
            self._git("checkout", "-q", "--", ".")
            self._git("clean", "-fdq")

    def claim(self, text: str, answer: Answer, *, codes: tuple[str | None, ...], kept: bool = True) -> None:
        left = self.stage.processes()
        held = answer.told["envelope"]["error_code"] in codes and answer.largest_mb < _LARGEST_MB and not left
        clean = not self._git("status", "--porcelain")
        self.paper.claim(text, answer.said, holds=held and clean and kept)


# Runs the program in this process and tells how large it became, of itself and of each child.
_MEASURED = """
import os, resource, sys
out = int(sys.argv.pop(1))
from reflectloop.cli.main import main
try:
    main()
finally:
    os.write(out, str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss).encode())
"""


def _suites(hard: Hardship) -> None:
    failed = ("VERIFICATION_FAILED", "GATE_REJECTED")
    hard.claim(
        "a suite that prints 1 GB is judged, and its log is bounded",
        hard.spoiled("    line = b'x' * 1023 + b'\\n'\n    for _ in range(1 << 20):\n        os.write(1, line)\n"),
        codes=(*_PASSED, *failed),
    )
    hard.claim(
        "a suite that never ends is a timeout",
        hard.spoiled("    import time\n    while True:\n        time.sleep(1)\n"),
        codes=failed,
    )
    hard.claim(
        "a suite that leaves a daemon leaves none",
        hard.spoiled(
            "    import subprocess\n    subprocess.Popen(['setsid', 'sleep', '9999'], start_new_session=True)\n"
        ),
        codes=(*_PASSED, *failed),
    )
    hard.claim(
        "a suite that deletes its own folder harms only its copy",
        hard.spoiled("    import shutil\n    shutil.rmtree(os.getcwd(), ignore_errors=True)\n    assert False\n"),
        codes=failed,
    )
    outside = hard.stage.folder / "outside"
    hard.claim(
        "a suite that writes outside is kept in",
        hard.spoiled(f"    open({str(outside)!r}, 'w').write('x')\n"),
        codes=(*_PASSED, *failed),
        kept=not outside.exists(),
    )
    hard.claim(
        "a runner that dies of a signal has crashed",
        hard.spoiled("    os.kill(os.getpid(), 11)\n"),
        codes=failed,
    )
    hard.claim(
        "a suite that eats all its memory is told from a failed test",
        hard.spoiled("    hold = []\n    while True:\n        hold.append(bytearray(1 << 26))\n"),
        codes=failed,
    )


def _reports(hard: Hardship) -> None:
    """Whoever runs the tests can write whatever it likes where the report should be."""
    place = "    import sys\n    report = next(word for word in sys.argv if 'junitxml' in word).partition('=')[2]\n"
    leave = "    os.sync()\n    os._exit(0)\n"
    entities = "".join(f'<!ENTITY {b} "{("&" + a + ";") * 10}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True))
    forged: dict[str, str] = {
        "truncated": "'<testsuite><testcase name=\"a\"/><testca'",
        "malformed": "'<<<not xml at all>>>'",
        "an XML bomb": repr(_BOMB.format("ha" * 100, entities)),
        "300 MB": "'<testsuite>' + '<testcase name=\"a\"/>' * (300 * 1024 * 1024 // 20) + '</testsuite>'",
        "empty": "''",
    }
    for name, content in forged.items():
        write = f"    with open(report, 'w') as file:\n        file.write({content})\n"
        hard.claim(
            f"a report that is {name} is no evidence",
            hard.spoiled(place + write + leave),
            codes=("VERIFICATION_FAILED", "GATE_REJECTED"),
        )


def _patches(hard: Hardship) -> None:
    large = hard.stage.folder / "large.patch"
    head = "diff --git a/{0} b/{0}\nnew file mode 100644\n--- /dev/null\n+++ b/{0}\n@@ -0,0 +1,{1} @@\n"
    lines = 100 * _MB // 64
    large.write_text(head.format("large.txt", lines) + ("+" + "x" * 62 + "\n") * lines)
    hard.claim(
        "a patch of 100 MB is refused by its size, or judged",
        hard.verify("--patch", str(large)),
        codes=("INVALID_INPUT", *_PASSED),
    )
    strange: dict[str, str] = {
        "out of the project": head.format("../../outside", 1) + "+x\n",
        "into .git": head.format(".git/hooks/pre-commit", 1) + "+x\n",
        "to an absolute path": head.format(str(hard.stage.folder / "outside"), 1).replace(" b//", " /") + "+x\n",
        "onto what is not there": "--- a/none.py\n+++ b/none.py\n@@ -1 +1 @@\n-a\n+b\n",
        "that is only words": "please apply this\n",
    }
    for name, text in strange.items():
        path = hard.stage.folder / "strange.patch"
        path.write_text(text)
        hard.claim(f"a patch {name} is refused", hard.verify("--patch", str(path)), codes=("INVALID_INPUT",))


def main() -> None:
    paper = Paper(
        "hardship",
        "`reflectloop verify` on a small project whose change misbehaves on purpose; a check may take 120 s. "
        "MB is the largest memory of the engine. With each claim no process is left, and the project is as it was.",
    )
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as name:
        hard = Hardship(Stage(Path(name).resolve()), paper)
        parts: tuple[Callable[[Hardship], None], ...] = (_suites, _reports, _patches)
        for part in parts:
            part(hard)
    paper.write()


if __name__ == "__main__":
    main()
