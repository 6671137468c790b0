"""Count the modules of the package that `run`, `verify` and `tr --all` enter on the demo's sample project.

`python scripts/trace_modules.py` prints the three counts; `python scripts/house.py --trace` adds them to its table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "reflectloop"
_TRACER = """
import json, os, sys, threading
entered = set()
def profile(frame, event, argument):
    if event == "call" and frame.f_code.co_name != "<module>":
        entered.add(frame.f_globals.get("__name__", ""))
from reflectloop.cli.main import main
threading.setprofile(profile)
sys.setprofile(profile)
try:
    main(sys.argv[2:])
finally:
    sys.setprofile(None)
    with open(sys.argv[1], "w") as file:
        json.dump(sorted(name for name in entered if name.startswith("reflectloop")), file)
"""
_PLAN = {
    "plan": {
        "title": "Round up",
        "track": "fix",
        "checks": {"tests": {"run": [sys.executable, "-m", "unittest", "-q"], "kind": "test"}},
        "steps": [
            {
                "id": "fix",
                "commands": ["sed -i 's|len(items) // size|-(-len(items) // size)|' pager.py"],
                "verify": ["tests"],
            }
        ],
    }
}
_SETTINGS = (
    '[roles]\nplanner = "script"\nexecutor = "script"\nreviewer = "script"\n[agents.script]\nfile = "../agent.json"\n'
)
_STEP = {"title": "Round up", "details": "pages() drops the last page", "checks": [f"{sys.executable} -m unittest -q"]}
_SCRIPT = [
    {"role": "planner", "says": "Make a plan", "answer": {"title": "Fix", "goal": "round up", "steps": [_STEP]}},
    {"role": "planner", "says": "Design one step", "answer": {"approach": "round up"}},
    {"role": "planner", "says": "Review", "answer": {"verdict": "PASS"}},
    {"role": "reviewer", "answer": {"verdict": "PASS"}},
    {
        "role": "executor",
        "ops": [{"op": "run", "cmd": "sed -i 's|len(items) // size|-(-len(items) // size)|' pager.py"}],
        "answer": {"control": "step_done", "approach": "round up"},
    },
]


def counts() -> dict[str, int]:
    """Return how many modules each command enters."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        top = Path(name).resolve()
        (top / "agent.json").write_text(json.dumps({"script": _SCRIPT}))
        (top / "plan.json").write_text(json.dumps(_PLAN))
        return {
            "run": _run(top),
            "verify": _verify(top),
            "tr --all": _tr(top),
        }


def _run(top: Path) -> int:
    return _trace(top, _project(top, "run"), "run", "../plan.json")


def _verify(top: Path) -> int:
    project = _project(top, "verify")
    source = project / "pager.py"
    source.write_text(source.read_text().replace("len(items) // size", "-(-len(items) // size)"))
    return _trace(top, project, "verify", "--track", "fix")


def _tr(top: Path) -> int:
    project = _project(top, "tr")
    subprocess.run([sys.executable, "-m", PACKAGE, "tp", "round up", "--yes"], cwd=project, env=_env(top), check=True)
    return _trace(top, project, "tr", "--all")


def _project(top: Path, name: str) -> Path:
    code = f"from reflectloop.demo import project as p; p.lay_out(p.Path({name!r}), {_SETTINGS!r})"
    subprocess.run([sys.executable, "-c", code], cwd=top, env=_env(top), check=True)
    return top / name


def _trace(top: Path, project: Path, *arguments: str) -> int:
    result = top / "entered.json"
    command = [sys.executable, "-c", _TRACER, str(result), *arguments]
    subprocess.run(
        command, cwd=project, env=_env(top), check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return len(json.loads(result.read_text()))


def _env(top: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(top), "TMPDIR": str(top), "REFLECTLOOP_TRUST_PROJECT": "1"}


if __name__ == "__main__":
    for command, count in counts().items():
        print(f"{command}: {count} modules")
