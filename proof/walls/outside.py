"""What stands outside of the box: files with canaries, servers that note who speaks to them, processes, shared memory."""

# ruff: noqa: E501
from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Self

from proof.walls.person import CANARY, SYSTEM_PYTHON, Person

_PRIVATE = [
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".bash_history",
    ".gnupg/private.key",
    ".aws/credentials",
    ".azure/msal.json",
    ".kube/config",
    ".docker/config.json",
    ".config/gcloud/credentials.db",
    ".config/gh/hosts.yml",
    ".config/rclone/rclone.conf",
    ".config/hub",
    ".config/op/config",
    ".password-store/a.gpg",
    ".mozilla/firefox/p/logins.json",
    ".thunderbird/p/key4.db",
    ".local/share/keyrings/login.keyring",
    ".local/share/com.vercel.cli/auth.json",
    ".local/share/fish/fish_history",
    ".local/share/opencode/auth.json",
    ".local/state/app/token",
    ".cargo/credentials.toml",
    ".cargo/config.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".luarocks/upload_config.lua",
    ".cabal/config",
    ".wasmer/wasmer.toml",
    ".pyenv/.netrc",
    ".nvm/.npmrc",
    ".rustup/settings.token",
    ".terraform.d/credentials.tfrc.json",
    ".vault-token",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".cursor/mcp.json",
    ".vscode/argv.json",
    ".ansible/vault",
    ".conda/token",
    ".bun/auth",
    ".deno/auth",
    ".sdkman/token",
    ".rbenv/token",
    ".asdf/token",
    ".volta/token",
    ".go/auth",
    ".cache/app/token",
    ".yarnrc.yml",
    ".yarn/token",
    ".npm/_cacache/token",
    "Documents/taxes.txt",
    "plain.txt",
    ".opam/token",
    ".stack/token",
    ".mix/token",
    ".hex/token",
    ".pub-cache/credentials.json",
    ".ghcup/token",
    ".config/pypoetry/auth.toml",
    ".config/uv/credentials",
    ".config/pip/pip.conf",
    ".local/share/uv/credentials/a.toml",
]
_ON_PATH = (".local/bin", ".luarocks/bin", ".cabal/bin", ".wasmer/bin", ".cargo/bin", "go/bin", ".bun/bin", ".deno/bin")
_STATES = ("exists", "text", "mode", "times", "owner", "links", "attributes")

_IPC = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
libc.syscall.restype = ctypes.c_long
key, text = int(sys.argv[1]), sys.argv[2].encode()
segment = libc.shmget(key, 4096, 0o1600)
place = libc.shmat(segment, None, 0)
ctypes.memmove(place, text, len(text))
queue = libc.msgget(key, 0o1600)
class Message(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_long), ("text", ctypes.c_char * 64)]
for kind in range(1, 5):
    libc.msgsnd(queue, ctypes.byref(Message(kind, text)), 63, 0)
sems = libc.semget(key, 1, 0o1600)
libc.semctl(sems, 0, 16, 7)
shm = "/dev/shm/" + sys.argv[3]
descriptor = os.open(shm, os.O_CREAT | os.O_WRONLY, 0o600)
os.write(descriptor, text)
named = libc.syscall(ctypes.c_long(240), sys.argv[3].encode(), ctypes.c_long(os.O_CREAT | os.O_RDWR), ctypes.c_long(0o600), None)
print("ready", flush=True)
sys.stdin.read()
written = b"mark-" in ctypes.string_at(place, 4096)
value = libc.semctl(sems, 0, 12, 0)
class Count(ctypes.Structure):
    _fields_ = [("padding", ctypes.c_char * 80), ("number", ctypes.c_ulong)]
count = Count()
libc.msgctl(queue, 2, ctypes.byref(count))
print("%d %d %d" % (written, value, count.number), flush=True)
libc.shmctl(segment, 0, None)
libc.msgctl(queue, 0, None)
libc.semctl(sems, 0, 0)
libc.syscall(ctypes.c_long(241), sys.argv[3].encode())
os.path.exists(shm) and os.unlink(shm)
"""


class Outside:
    """Everything a person has that no box may touch; `judge` says which attempts touched it."""

    def __init__(self, person: Person, attempts: list[dict[str, Any]]) -> None:
        self.person = person
        self.heard: list[bytes] = []
        self._sockets: list[socket.socket] = []
        self._victims: dict[str, subprocess.Popen[bytes]] = {}
        self._before: dict[str, Any] = {}
        self.attempts = [self._numbered(number, attempt) for number, attempt in enumerate(attempts)]
        self.system = [
            Path(place) / f"reflectloop-{os.getpid()}-{person.folder.name}"
            for place in ("/etc", "/opt", "/usr/local/lib")
        ]
        self._system = self.system if os.geteuid() == 0 else []

    def _numbered(self, number: int, attempt: dict[str, Any]) -> dict[str, Any]:
        mark = f"mark-{os.getpid()}-{self.person.folder.name}-{number}-"  # two proofs may run at the same time
        keep = str(self.person.sibling / f"keep-{number}")
        return {**attempt, "mark": mark, "victim": 0, "keep": keep}

    def __enter__(self) -> Self:
        person = self.person
        for name in _PRIVATE:
            person.put(person.home / name, CANARY + "\n", mode=0o600)
        for name in _ON_PATH:
            person.put(person.home / name / "tool", "#!/bin/sh\n", mode=0o755)
        for name in (
            ".local/lib/python3.11/site-packages/a.py",
            ".luarocks/lib/a.lua",
            ".cabal/lib/a",
            ".wasmer/lib/a",
        ):
            person.put(person.home / name, "x = 1\n")
        person.env["PATH"] += "".join(f":{person.home}/{name}" for name in _ON_PATH)
        person.env |= {
            "GEM_HOME": str(person.home / ".gem"),
            "WALLS_VARIABLE": CANARY,
            "GOPATH": str(person.home / "go"),
        }
        (person.home / "canary-link").symlink_to(CANARY)
        os.setxattr(person.home / "plain.txt", "user.note", CANARY.encode())
        for folder in self._system:
            folder.mkdir(mode=0o755)
            (folder / "private.conf").write_text(CANARY)
            (folder / "private.conf").chmod(0o600)
            (folder / "group.conf").write_text(CANARY)
            (folder / "group.conf").chmod(0o640)
            (folder / "closed").mkdir(mode=0o700)
            (folder / "closed" / "inner.conf").write_text(CANARY)
        self._serve()
        self._ipc()
        for attempt in self.attempts:
            person.put(Path(attempt["keep"]), "keep\n")
            if "victim" in attempt["judge"] or attempt.get("needs_victim"):
                victim = person.popen(["/bin/sleep", "600"], stdin=subprocess.DEVNULL)
                attempt["victim"], self._victims[attempt["id"]] = victim.pid, victim
        time.sleep(0.3)
        return self

    def note(self, attempt: dict[str, Any]) -> None:
        """Note how an attempt's target is before it is made."""
        self._before[attempt["id"]] = self._state(attempt)

    def place(self, project: Path) -> dict[str, Any]:
        """What an attempt is told: paths and addresses, never a canary."""
        person = self.person
        given: dict[str, Any] = {
            "home": person.home,
            "sibling": person.sibling,
            "project": project,
            "base": person.folder,
        }
        given |= {"temp": person.temp, "private": _PRIVATE, "system": [str(folder) for folder in self.system]}
        given |= {
            "tcp": self._port(0),
            "tcp6": self._port(1),
            "udp": self._port(2),
            "key": self._key,
            "shm": self._name,
        }
        given |= {
            "abstract": self._name,
            "abstract_datagram": self._name + "-d",
            "uid": person.uid,
            "wall": person.wall,
        }
        given |= {"named": f"{person.home}/s.sock", "named_datagram": f"{person.home}/d.sock", "engine": os.getpid()}
        given |= {"named_temp": f"{person.temp}/s.sock", "named_tool": f"{person.home}/.local/bin/s.sock"}
        told: dict[str, Any] = json.loads(json.dumps(given, default=str))
        return told

    def _port(self, number: int) -> int:
        return int(self._sockets[number].getsockname()[1])

    def _serve(self) -> None:
        self._name = f"reflectloop-walls-{os.getpid()}-{self.person.folder.name}"
        home, temp = self.person.home, self.person.temp
        inet, inet6, unix = socket.AF_INET, socket.AF_INET6, socket.AF_UNIX
        talk, send = socket.SOCK_STREAM, socket.SOCK_DGRAM
        self._listen(inet, talk, ("127.0.0.1", 0))
        self._listen(inet6, talk, ("::1", 0))
        self._listen(inet, send, ("127.0.0.1", 0))
        self._listen(unix, talk, "\0" + self._name)
        self._listen(unix, send, "\0" + self._name + "-d")
        for path in (home / "s.sock", temp / "s.sock", home / ".local/bin/s.sock"):
            self._listen(unix, talk, str(path))
        self._listen(unix, send, str(home / "d.sock"))

    def _listen(self, family: int, kind: int, address: Any) -> None:  # noqa: ANN401
        server = socket.socket(family, kind)
        server.bind(address)
        if isinstance(address, str) and address[0] != "\0":
            Path(address).chmod(0o777)
            os.chown(address, self.person.uid, self.person.uid)
        if kind == socket.SOCK_STREAM:
            server.listen(20)
        self._sockets.append(server)
        threading.Thread(target=self._note, args=(server, kind), daemon=True).start()

    def _note(self, server: socket.socket, kind: int) -> None:
        while True:
            try:
                if kind == socket.SOCK_DGRAM:
                    self.heard.append(server.recvfrom(4096)[0])
                    continue
                link, _ = server.accept()
            except OSError:
                return
            with link:
                link.settimeout(3)
                try:
                    self.heard.append(link.recv(4096))
                    link.sendall(CANARY.encode())
                except OSError:
                    continue

    def _ipc(self) -> None:
        self._key = 0x52000000 | (os.getpid() & 0xFFFF) << 4 | int(self.person.folder.name[1:]) & 15
        words = [SYSTEM_PYTHON, "-c", _IPC, str(self._key), CANARY, self._name]
        self._holder = self.person.popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self._holder.stdout:
            self._holder.stdout.readline()

    def _state(self, attempt: dict[str, Any]) -> Any:  # noqa: ANN401
        if "victim" in attempt["judge"]:
            return self._process_state(self._victims[attempt["id"]])
        if "keep" in attempt["judge"]:
            return self._file_state(Path(attempt["keep"]))
        if "where" in attempt:
            return self._file_state(self._where(attempt))
        return None

    def _where(self, attempt: dict[str, Any]) -> Path:
        person = self.person
        names = {"home": person.home, "sibling": person.sibling, "temp": person.temp, "base": person.folder}
        names |= {"project": person.folder / "project", "etc": self.system[0], "shm": Path("/dev/shm") / self._name}  # noqa: S108
        return Path(str(attempt["where"]).format(**names))

    @staticmethod
    def _file_state(path: Path) -> dict[str, Any]:
        try:
            seen = path.lstat()
        except OSError:
            return {"exists": False}
        text = path.read_bytes()[:1000] if path.is_file() else b""
        state: dict[str, Any] = {"exists": True, "text": text, "mode": seen.st_mode, "times": seen.st_mtime_ns}
        attributes = sorted(os.listxattr(path, follow_symlinks=False))
        return state | {"owner": (seen.st_uid, seen.st_gid), "links": seen.st_nlink, "attributes": attributes}

    @staticmethod
    def _process_state(process: subprocess.Popen[bytes]) -> dict[str, Any]:
        try:
            return Outside._living_state(process)
        except OSError:
            return {"alive": False}

    @staticmethod
    def _living_state(process: subprocess.Popen[bytes]) -> dict[str, Any]:
        if process.poll() is not None:
            return {"alive": False}
        folder = Path(f"/proc/{process.pid}")
        status = (folder / "status").read_text()
        limits = (folder / "limits").read_text()
        stat = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        names = ("State", "Cpus_allowed_list", "SigPnd", "ShdPnd")
        found = [line for line in status.splitlines() if line.startswith(names)]
        score = (folder / "oom_score_adj").read_text()
        comm = (folder / "comm").read_text()
        group = (folder / "cgroup").read_text()
        return {
            "alive": True,
            "status": found,
            "limits": limits,
            "nice": (stat[16], stat[38]),
            "oom": (score, comm, group),
        }

    def got_out(self, attempt: dict[str, Any], said: str) -> str:
        """Say how an attempt got out, or nothing."""
        mark, judge = attempt["mark"].encode(), attempt["judge"]
        if "leak" in judge and CANARY in said:
            return "a canary was read: " + " ".join(said.replace(CANARY, "").split())[:300]
        if "says" in judge and "GOT" in said:
            return said.strip()[:80].replace("\n", " ")
        if "heard" in judge and any(mark in text for text in self.heard):
            return "a server outside was spoken to"
        if "alive" in judge and self._alive(mark):
            return "a process lives on"
        if ("keep" in judge or "where" in attempt or "victim" in judge) and "still" not in judge:
            after = self._state(attempt)
            if after != self._before[attempt["id"]]:
                return "changed outside: " + self._difference(self._before[attempt["id"]], after)
        return self._shared(judge)

    @staticmethod
    def _difference(before: dict[str, Any], after: dict[str, Any]) -> str:
        return ", ".join(name for name in {**before, **after} if before.get(name) != after.get(name))

    def _shared(self, judge: str) -> str:
        names = {"segment": 0, "semaphore": 1, "queue": 2}
        for name, number in names.items():
            if name in judge:
                return f"{name} of the user changed" if self.ipc()[number] != (0, 7, 4)[number] else ""
        return ""

    def ipc(self) -> tuple[int, int, int]:
        """Return what became of the segment, the semaphore and the queue, once."""
        if not hasattr(self, "_shared_after"):
            out, _ = self._holder.communicate(b"", timeout=20)
            words = [int(word) for word in out.split()[-3:]]
            self._shared_after = (words[0], words[1], words[2])
        return self._shared_after

    @staticmethod
    def _alive(mark: bytes) -> bool:
        for name in os.listdir("/proc"):  # noqa: PTH208 - names, not paths
            if name.isdigit() and int(name) != os.getpid():
                try:
                    words = Path(f"/proc/{name}/cmdline").read_bytes()
                    if mark in words and Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                        os.kill(int(name), signal.SIGKILL)
                        return True
                except OSError:
                    continue
        return False

    def __exit__(self, *_: object) -> None:
        self.ipc()
        for server in self._sockets:
            server.close()
        for victim in self._victims.values():
            victim.kill()
            victim.wait()
        for folder in self._system:
            shutil.rmtree(folder, ignore_errors=True)
