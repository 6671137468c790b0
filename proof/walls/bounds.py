"""What a step may cost the machine and the engine: memory, disk, time after it has ended, deaths at a bad moment."""

# ruff: noqa: E501
from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from proof.walls.person import SYSTEM_PYTHON, Person
from proof.walls.stories import ALL, Documented, story

PART = "bounds"
_ENGINE_S = 240  # on a machine with other work; record_s does not bound the look for secrets
_MEMORY_MB = 256
_LIMITS = f"processes = 64\nmemory_mb = {_MEMORY_MB}\nfile_mb = 64\n"


def _limited(person: Person) -> Path:
    level = "full" if person.wall == "full" else "fs"
    settings = f'[box]\nstrongest = "{level}"\n{_LIMITS}[run]\nidle_s = 30\n[workspace]\nkeep_failed = 0\n'
    person.own_settings(settings)
    return person.project({"reflectloop.toml": settings})


def left_behind(
    name: str, line: str, *, of: str = "new", walls: tuple[str, ...] = ("full", "landlock"), check: str = ""
) -> None:
    """Register what a step leaves for the engine to record; it must end within its time, with a known code."""

    def tell(person: Person) -> str:
        person.own_settings("[workspace]\nrecord_s = 20\n")
        project = person.project({"a.txt": "a\n", ".gitignore": "ign/\n"})
        begun = time.monotonic()
        answer = person.run(project, line, timeout_s=_ENGINE_S)
        if answer.code in (None, 70):
            return f"the engine ended with {answer.word} after {time.monotonic() - begun:.0f} s"
        for words in (["diff", "--stat"], ["show"], ["status"], ["apply", "--yes"], ["gc", "--all"]):
            after = person.loop(project, *words, timeout_s=40)
            if after.code in (None, 70):
                return f"then `{words[0]}` ended with {after.word}"
        return ""

    def control(person: Person) -> str:
        project = person.project({"a.txt": "a\n"})
        person.sh(line, project)
        default = "timeout 5 git add -A && timeout 5 cat * .gitignore > /dev/null || exit 9; test $(du -sm --apparent-size . | cut -f1) -gt 300 && exit 9; "
        default += "test $(find . -path ./.git -prune -o -print | wc -l) -gt 1500 && exit 9; find . ! -readable -o -type p -o -type s -o -name '*[^ -~]*' -o -type l | grep -q . && exit 9"
        code, _ = person.sh(check or default, project)
        return f"plain tools end with {code}" if code else ""

    story(PART, f"a step leaves {name}", control=control, of=of, walls=walls)(tell)


_PYTHON = SYSTEM_PYTHON
left_behind("a sparse file of 400 MB", "truncate -s 400M a", of="report", walls=("full",))
left_behind(
    "three sparse files of 400 MB", "for i in 1 2 3; do truncate -s 400M a$i; done", of="report", walls=("full",)
)
left_behind("forty sparse files of 400 MB", "for i in $(seq 1 40); do truncate -s 400M a$i; done", walls=("full",))
left_behind(
    "attributes of 200,000 lines and 2,000 files",
    f"{_PYTHON} -c \"print(chr(10).join('*a%d*b*c* filter=x'%i for i in range(200000)))\" > .gitattributes; seq 1 2000 | xargs touch",
    of="report",
    walls=("full",),
)
left_behind(
    "ignore rules of 200,000 lines and 2,000 files",
    f"{_PYTHON} -c \"print(chr(10).join('/a%d*b*c*d*'%i for i in range(200000)))\" > .gitignore; seq 1 2000 | xargs touch",
    walls=("full",),
)
left_behind(
    "one pattern made to be slow for names made to be slow",
    f"{_PYTHON} -c \"print('*a' * 60 + 'b')\" > .gitattributes; cp .gitattributes .gitignore; for i in $(seq 1 50); do touch $(printf 'a%.0s' $(seq 1 200))$i; done",
    walls=("full",),
    check="timeout 3 git status > /dev/null || exit 9; exit 9",
)
left_behind(
    "a pipe called .gitignore",
    "mkfifo .gitignore 2>/dev/null || (rm .gitignore; mkfifo .gitignore)",
    of="report",
    walls=ALL,
)
left_behind("a pipe called .gitattributes", "mkfifo .gitattributes", of="report", walls=ALL)
left_behind(
    "pipes called as what the engine reads",
    "for f in reflectloop.toml .gitmodules .mailmap package.json pyproject.toml Makefile CLAUDE.md; do mkfifo $f; done; mkdir -p .reflectloop/rules .github/workflows; mkfifo .reflectloop/rules/x.yaml .github/workflows/a.yml",
    walls=("full", "landlock"),
)
left_behind(
    "pipes in its own git folder",
    "rm -f .git/HEAD .git/config .git/index; mkfifo .git/HEAD .git/config .git/index .git/packed-refs .git/COMMIT_EDITMSG",
)
left_behind(
    "a nested repository with pipes",
    "git init -q n; rm n/.git/HEAD; mkfifo n/.git/HEAD; git init -q m; rm -rf m/.git/refs; mkfifo m/.git/refs",
)
left_behind(
    "a file swapped for a pipe again and again",
    "(for i in $(seq 1 900); do rm -f a.txt; mkfifo a.txt; rm -f a.txt; echo x > a.txt; done) > /dev/null 2>&1 & sleep 0.3; exit 0",
)
left_behind("a top folder that nobody may enter", "chmod 000 .", of="report")
left_behind("folders and files that nobody may read", "mkdir z; echo x > z/f; chmod 000 z; echo y > g; chmod 000 g")
left_behind(
    "a tree 3,000 deep",
    f"{_PYTHON} -c \"import os\nfor i in range(3000):\n  os.mkdir('d'); os.chdir('d')\nopen('f', 'w').write('x')\"",
    walls=("full",),
)
left_behind("30,000 files", "mkdir d; cd d; seq 1 30000 | xargs touch", walls=("full",))
left_behind(
    "names with newlines, escapes, no text, options",
    "printf x > $'a\\nb'; printf x > $'\\x1b]0;pwn\\x07'; printf x > $'\\xff\\xfe'; printf x > '-rf'; printf x > ' lead'; printf x > \"$(printf 'n%.0s' $(seq 1 255))\"; mkdir -p -- --help; touch -- --help/x",
)
left_behind(
    "links of all kinds",
    "ln -s a b; ln -s b a; ln -s . self; ln -s / root; ln -s /proc/self/environ env; ln -s /dev/zero zero; ln -s $(printf 'x%.0s' $(seq 1 4000)) long",
)
left_behind(
    "sockets and devices", f"{_PYTHON} -c \"import socket; socket.socket(1).bind('s.sock')\"; mknod n c 1 3; true"
)
left_behind(
    "a .git that is a link or a file", "rm -rf .git; ln -s /root .git; echo x >> a.txt", check="git status || exit 9"
)
left_behind(
    "grafts, replacements, alternates",
    "mkdir -p .git/info .git/objects/info; echo $(git rev-parse HEAD) > .git/info/grafts; echo /etc >> .git/objects/info/alternates; git replace -f $(git rev-parse HEAD:a.txt) $(git hash-object -w .gitignore); echo x >> a.txt",
    check="exit 9",
)
left_behind(
    "a line of 60 MB and noise of 60 MB",
    "head -c 60M /dev/zero | tr '\\0' a > one.txt; head -c 60M /dev/urandom > r.bin; truncate -s 300M s",
    walls=("full",),
)
left_behind(
    "20,000 empty folders and a file in each tenth",
    "for i in $(seq 1 200); do mkdir -p e$i; for j in $(seq 1 100); do mkdir e$i/$j; done; touch e$i/f; done",
    walls=("full",),
)
left_behind(
    "default access rules that lock everybody out",
    f"{_PYTHON} -c \"import os, struct; E = lambda t, p: struct.pack('<HHI', t, p, 0xffffffff); os.setxattr('.', 'system.posix_acl_default', struct.pack('<I', 2) + E(1, 4) + E(4, 0) + E(0x20, 0))\"; echo x > one.txt",
    of="report",
    walls=("full",),
    check="touch y; mkdir z; echo x > z/f || exit 9; exit 9",
)
left_behind(
    "attributes on files (xattr) of 60 kB",
    f"{_PYTHON} -c \"import os\nfor i in range(20):\n  try: os.setxattr('a.txt', 'user.x%d' % i, b'x' * 60000)\n  except OSError: pass\"; chmod 4777 a.txt; echo z >> a.txt",
    walls=("full",),
    check="exit 9",
)


def _available_mb() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable"))


def _shared_mb() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("Shmem:"))


def takes(name: str, code: str, *, of: str = "report", walls: tuple[str, ...] = ALL, uncounted: str = "") -> None:
    """Register what takes memory past the limit; it says how many MB it has.

    `uncounted` is what only a control group counts, as documented.
    """

    def tell(person: Person) -> str:
        project = _limited(person)
        person.put(project / "take.py", code)
        person.sh("git add -A; git commit -qm take", project)
        answer = person.run(project, {"commands": [f"{_PYTHON} take.py"], "timeout_s": 25}, timeout_s=90)
        taken = [int(word[3:]) for word in person.log(project).split() if word.startswith("GOT") and word[3:].isdigit()]
        if not taken or max(taken) <= 2 * _MEMORY_MB:
            return ""
        if uncounted and (answer.document.get("envelope") or {}).get("limits_by") != "cgroup":
            raise Documented(f"{uncounted} count where there is a control group, as documented")
        return f"{max(taken)} MB were taken, {_MEMORY_MB} allowed"

    def control(person: Person) -> str:
        person.put(person.temp / "take.py", code)
        _, out = person.sh(f"{_PYTHON} take.py", person.temp)
        taken = [int(word[3:]) for word in out.split() if word.startswith("GOT") and word[3:].isdigit()]
        return f"a plain process takes {max(taken)} MB" if taken and max(taken) > 2 * _MEMORY_MB else ""

    story(PART, f"memory: {name}", control=control, of=of, walls=walls)(tell)


takes("plain", "b = bytearray(900 << 20)\nprint('GOT900', flush=True)\n")
takes(
    "of several children",
    "import os, time\nfor i in range(6):\n  if os.fork() == 0:\n    b = bytearray(150 << 20); time.sleep(3); os._exit(0)\nalive = 0\nfor i in range(6):\n  alive += os.wait()[1] == 0\nprint('GOT%d' % (alive * 150), flush=True)\n",
)
takes(
    "in /dev/shm",
    "got = 0\ntry:\n  for i in range(16):\n    with open('/dev/shm/walls%d' % i, 'wb') as f:\n      f.write(bytes(60 << 20)); got += 60\nexcept OSError as e: print(e)\nfinally:\n  import os\n  print('GOT%d' % got, flush=True)\n  for i in range(16):\n    try: os.unlink('/dev/shm/walls%d' % i)\n    except OSError: pass\n",
)
takes(
    "in memory files",
    "import os\ngot = 0\nfds = []\ntry:\n  for i in range(16):\n    fd = os.memfd_create('x'); fds.append(fd)\n    for j in range(60): got += os.write(fd, b'x' * (1 << 20)) >> 20\nexcept OSError as e: print(e)\nprint('GOT%d' % got, flush=True)\n",
)
takes(
    "in the box's temp folder",
    "import os\ngot = 0\ntry:\n  for i in range(16):\n    with open('/tmp/walls%d' % i, 'wb') as f:\n      f.write(bytes(60 << 20)); got += 60\nexcept OSError as e: print(e)\nfinally:\n  kind = [l.split()[2] for l in open('/proc/self/mounts') if l.split()[1] == '/tmp'] or ['disk']\n  print('GOT%d' % got if 'tmpfs' in kind else 'on disk', flush=True)\n  for i in range(16):\n    try: os.unlink('/tmp/walls%d' % i)\n    except OSError: pass\n",
    of="new",
    walls=("full",),
)
takes(
    "in pipes",
    "import fcntl, os\ngot = 0\nheld = []\ntry:\n  while got < 1000:\n    r, w = os.pipe(); fcntl.fcntl(w, 1031, 1 << 20); os.set_blocking(w, False); os.write(w, b'x' * (1 << 20)); held.append((r, w)); got += 1\nexcept OSError as e: print(e)\nprint('GOT%d' % got, flush=True)\n",
)
takes(
    "in System V segments",
    "import ctypes\nl = ctypes.CDLL(None); l.shmat.restype = ctypes.c_void_p\ngot, ids = 0, []\nfor k in range(15):\n  i = l.shmget(0, 60 << 20, 0o1600)\n  if i < 0: break\n  ids.append(i); p = l.shmat(i, None, 0); l.shmctl(i, 0, None)\n  if p in (None, 2**64 - 1): break\n  ctypes.memset(p, 1, 60 << 20); got += 60\nprint('GOT%d' % got, flush=True)\n",
)
takes(
    "in socket buffers",
    "import socket\ngot, held = 0, []\ntry:\n  while got < 700:\n    a, b = socket.socketpair(); a.setsockopt(1, 7, 1 << 24); a.setblocking(False); held.append((a, b))\n    try:\n      while True: got += a.send(b'x' * 65536) / (1 << 20)\n    except BlockingIOError: pass\n    if len(held) > 9000: break\nexcept OSError as e: print(e)\nprint('GOT%d' % got, flush=True)\n",
    of="new",
    walls=("full",),
    uncounted="socket buffers",
)
takes(
    "locked, in a child of a child that detached",
    "import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    b = bytearray(900 << 20); print('GOT900', flush=True); os._exit(0)\n  os.wait(); os._exit(0)\nos.wait(); time.sleep(0.5)\n",
    of="new",
)


@story(
    PART,
    "a fork bomb of 400",
    of="report",
    walls=("full",),
    control=lambda person: "a plain process makes them" if "GOT" in person.sh(f'{_PYTHON} -c "{_FORKS}"')[1] else "",
)
def _forks(person: Person) -> str:
    project = _limited(person)
    person.run(project, {"commands": [f'{_PYTHON} -c "{_FORKS}"'], "timeout_s": 25}, timeout_s=90)
    return "400 processes where 64 are allowed" if "GOT400" in person.log(project) else ""


_FORKS = "import os,time\nn=0\ntry:\n  for i in range(400):\n    if os.fork()==0: time.sleep(2); os._exit(0)\n    n+=1\nexcept OSError as e: pass\nprint('GOT%d'%n,flush=True)"


@story(
    PART,
    "a file larger than allowed",
    of="report",
    walls=("full",),
    control=lambda person: (
        "a plain process writes it"
        if person.sh("head -c 200M /dev/zero > big && ls -l big", person.temp)[0] == 0
        else ""
    ),
)
def _big_file(person: Person) -> str:
    project = _limited(person)
    person.run(project, "head -c 200M /dev/zero > /tmp/big; stat -c GOT%s /tmp/big")
    return "200 MB where 64 are allowed" if "GOT209715200" in person.log(project) else ""


def ends(name: str, line: str) -> None:
    def tell(person: Person) -> str:
        project = _limited(person)
        answer = person.run(project, {"commands": [line], "timeout_s": 4}, timeout_s=60)
        return "" if answer.code in (30, 31, 40, 42, 0) else f"the engine ended with {answer.word}"

    def control(person: Person) -> str:
        code, _ = person.sh(
            f"timeout -s INT 2 bash -c '{line.replace(chr(39), chr(34))}' > /dev/null", person.temp, timeout_s=5
        )
        return "it does not end by itself" if code in (None, 124, 137, 147, 148) else ""

    story(PART, f"a command that {name}", control=control, walls=("full", "landlock"))(tell)


ends("ignores TERM, INT and HUP", "trap : TERM INT HUP; while :; do sleep 1; done")
ends("stops itself", "kill -STOP $$; sleep 100")
ends("prints without end", "yes")
ends("prints without a line's end", "tr '\\0' 'a' < /dev/zero")


@story(
    PART,
    "the engine is killed while the box starts: nothing runs on",
    of="report",
    walls=("full", "landlock"),
    control=lambda person: _orphan(person),  # noqa: PLW0108 - it is defined below
)
def _stray(person: Person) -> str:
    project = person.project()
    plan = person.plan([{"commands": ["sleep 1.5; touch done; sleep 60.606"]} for _ in range(3)], jobs=3)
    strays = 0
    for number in range(4):
        engine = person.popen(
            person.engine("run", plan, "--new", "-j", "3"),
            project,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + 10
        while time.monotonic() < end and not _with_words(b"--block-fd", str(project).encode()):
            time.sleep(0.005)
        time.sleep(number * 0.006)
        os.kill(engine.pid, signal.SIGKILL)
        engine.wait()
        time.sleep(2.5)
        strays += any(not _words(process).split("\0")[0].endswith("bwrap") for process in _of(person, b"60.606"))
        person.loop(project, "gc")  # a bubblewrap that waits and runs nothing is ended by it, as documented
        left = _of(person, b"60.606")
        strays += bool(left)
        for process in left:
            _kill(process)
    strays += any("done" in files for _, _, files in os.walk(person.folder))
    return f"{strays} signs that it went on" if strays else ""


def _of(person: Person, word: bytes) -> list[int]:
    """Return the processes of a person that have a word in their command."""
    return [process for process in _with_words(word) if str(person.folder) in _environ(process) + _words(process)]


def _orphan(person: Person) -> str:
    plain = person.popen(["/bin/bash", "-c", "sleep 60.607 & disown; kill -9 $$"], stdout=subprocess.DEVNULL)
    plain.wait()
    found = _with_words(b"60.607")
    for process in found:
        _kill(process)
    return "a plain child goes on" if found else ""


def _with_words(*words: bytes) -> list[int]:
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - names, not paths
        if name.isdigit():
            try:
                text = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if all(word in text for word in words) and int(name) != os.getpid():
                found.append(int(name))
    return found


def _environ(process: int) -> str:
    try:
        return Path(f"/proc/{process}/environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _words(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except OSError:
        return
