"""The first whole line on projects nobody here wrote: sources of packages from PyPI, dirty trees, floods and kills."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from proof.environment import Stage
from proof.paper import Paper

PACKAGES = ("attrs==25.4.0", "click==8.3.1", "more-itertools==10.8.0")
FLOOD = 2 << 30
ODD = (
    "printf '\\000\\377\\001' > 'a new binary.bin'",
    "git rm -q --cached README.md && rm README.md || rm README*",
    "chmod +x pyproject.toml",
    "ln -s pyproject.toml 'a link'",
    'f=$(git ls-files \'*.py\' | grep -v test | head -1); git mv "$f" "$(dirname "$f")/größer und neu.py"',
)
STUBBORN = (
    "import os,signal,sys,time\n"
    "if os.fork()==0:\n os.setsid()\n if os.fork(): os._exit(0)\n"
    "signal.signal(15,signal.SIG_IGN)\ntime.sleep(600)\n"
)


def project_of(stage: Stage, package: str) -> Path:
    """The source of a package as a repository with one commit, then made dirty."""
    place = stage.folder / package.split("==", maxsplit=1)[0]
    place.mkdir()
    _download(package, place)
    (archive,) = place.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(place, filter="data")
    (source,) = [path for path in place.iterdir() if path.is_dir()]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "source"], ["tag", "v1"]):
        stage.sh(source, "git", *words)
    with (source / "pyproject.toml").open("a") as file:
        file.write("# dirty\n")
    (source / "staged.txt").write_text("staged\n")
    stage.sh(source, "git", "add", "staged.txt")
    (source / "untracked ü.txt").write_text("untracked\n")
    return source


def state(stage: Stage, project: Path) -> dict[str, object]:
    times = {}
    for folder, folders, names in os.walk(project):
        folders[:] = [name for name in folders if name != ".reflectloop"]
        for name in names:
            path = Path(folder) / name
            status = path.lstat()
            times[str(path)] = (status.st_mtime_ns, status.st_ctime_ns, status.st_size)
    # Lessons in our own folder are shown by git, to be committed.
    queries = (["status", "--porcelain", "--", ":!.reflectloop"], ["stash", "list"], ["for-each-ref"])
    told = [stage.sh(project, "git", "--no-optional-locks", *query) for query in queries]
    return {"told": told, "index": (project / ".git" / "index").read_bytes(), "times": times}


def _download(package: str, place: Path) -> None:
    tools = place / "tools"
    subprocess.run([sys.executable, "-m", "venv", str(tools)], check=True)
    pip = [str(tools / "bin" / "pip"), "download", "-q", "--no-deps", "-d", str(place)]
    pip += ["--no-binary", package.partition("==")[0], package]
    subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)
    shutil.rmtree(tools)


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file with the part of its mode that git keeps, and its content."""
    found = {}
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in (".git", ".reflectloop")]
        for name in names:
            path = Path(root) / name
            mode = path.lstat().st_mode
            content = os.fsencode(path.readlink()) if stat.S_ISLNK(mode) else path.read_bytes()
            found[str(path.relative_to(folder))] = (stat.S_IFMT(mode) | (mode & 0o100), content)
    return found


def prove_exact(stage: Stage, paper: Paper, package: str) -> None:
    project = project_of(stage, package)
    count = len(stage.sh(project, "git", "ls-files").splitlines())
    before = state(stage, project)
    failed, first = stage.loop(project, "run", stage.commands(*ODD, "false"))
    kept = stage.folder / "temp" / "reflectloop" / first["envelope"]["run_id"]
    wanted = tree(kept / "repo")
    stage.loop(project, "gc", "--all")
    code, told = stage.loop(project, "run", stage.commands(*ODD))
    unchanged = state(stage, project) == before
    paper.claim(
        f"{package} ({count} files, dirty tree): a run changes nothing of the user's",
        f"exit {failed} with a failing step, {code} without; status, index, stash, refs, all file times "
        + ("equal" if unchanged else "DIFFER"),
        holds=unchanged and (failed, code) == (30, 0),
    )
    data = told["data"]
    check = subprocess.run(["git", "apply", "--check", data["patch"]], cwd=project, env=stage.env, check=False)
    kinds = sorted({str(entry["change"]) for entry in data["touched_files"]})
    paper.claim(
        f"{package}: `git apply --check` of the patch passes",
        f"exit {check.returncode}; {', '.join(kinds)}",
        holds=not check.returncode,
    )
    code, _ = stage.loop(project, "apply", "--yes")
    same = tree(project) == wanted
    paper.claim(
        f"{package}: apply yields exactly the workspace's tree",
        f"exit {code}; {len(wanted)} files compared by mode and content",
        holds=same and code == 0,
    )


def prove_flood(stage: Stage, paper: Paper, project: Path) -> None:
    code, told = stage.loop(
        project, "run", stage.commands(f"head -c {FLOOD} /dev/zero | tr '\\0' y; echo; echo the end")
    )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    data = told["data"]
    log = Path(data["folder"]) / "logs" / "P-1.1.log"
    ends = log.read_bytes().endswith(b"the end\n")
    paper.claim(
        "2 GiB of output: disk capped, memory flat, head and tail kept",
        f"exit {code}; log {log.stat().st_size / 1e6:.1f} MB; peak memory of the engine {peak} MB",
        holds=code == 0 and log.stat().st_size < 9_000_000 and peak < 300 and ends,
    )


def alive(mark: str) -> int:
    count = 0
    for name in os.listdir("/proc"):  # noqa: PTH208 - names, not paths
        if name.isdigit():
            try:
                count += mark.encode() in Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
    return count


def prove_kills(stage: Stage, paper: Paper, project: Path) -> None:
    mark = f"{stage.folder}/alive-"
    command = f"{sys.executable} -c {shlex.quote(STUBBORN)} {mark}"
    code, _ = stage.loop(project, "run", stage.commands(command, timeout_s=1))
    paper.claim(
        "a double-forked child in its own session that ignores TERM is gone after the timeout",
        f"exit {code}, {alive(mark)} alive",
        holds=code == 31 and not alive(mark),
    )
    rounds, left = 20, 0
    for number in range(rounds):
        engine = stage.start(project, "run", "--new", stage.commands(command))
        time.sleep(0.2 + number * 0.05)
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        time.sleep(0.2)
        left += alive(mark)
    code, _ = stage.loop(project, "run", stage.commands("true"))
    for other in stage.folder.glob("*/*/.reflectloop"):
        stage.loop(other.parent, "gc", "--all")
    spaces = len([path for path in stage.workspaces() if path.name.startswith("RLOP-")])
    paper.claim(
        f"kill -9 of the engine at {rounds} instants: no process left, the next run works, no workspace left after gc",
        f"{left} processes, exit {code}, {spaces} workspaces",
        holds=not left and code == 0 and not spaces,
    )


def main() -> None:
    paper = Paper(
        "foundation", "A plan runs in a workspace and leaves an exact patch, on sources of packages from PyPI."
    )
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as name:
        stage = Stage(Path(name).resolve())
        for package in PACKAGES:
            prove_exact(stage, paper, package)
        project = next(path for path in (stage.folder / PACKAGES[0].split("==")[0]).iterdir() if path.is_dir())
        prove_flood(stage, paper, project)
        prove_kills(stage, paper, project)
    paper.write()


if __name__ == "__main__":
    main()
