"""Python scripts that the escape tests run inside the sandbox."""

from __future__ import annotations

WRITE = "import sys; open(sys.argv[1], 'w').write('out')"
READ = "import sys; sys.stdout.write(open(sys.argv[1], errors='replace').read())"
LIST = "import os, sys; print(*os.listdir(sys.argv[1]), sep='\\n')"
THROUGH_LINK = "import os, sys; os.symlink(sys.argv[1], 'way-out'); open('way-out/evil', 'w').write('out')"
CONNECT = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 3).sendall(b'out')"
KILL = "import os, sys; os.kill(int(sys.argv[1]), 9)"
LINGER = """
import os, sys, time
if os.fork(): sys.exit(0)
os.setsid()
if os.fork(): sys.exit(0)
time.sleep(float(sys.argv[2])); open(sys.argv[1], 'w').write('out'); time.sleep(30)
"""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + LINGER.replace(
    "sys.exit(0)", "time.sleep(9)"
)
READ_ENGINE = """
import os, sys
for thread in os.listdir(f'/proc/{sys.argv[1]}/task'):
    if open(f'/proc/{sys.argv[1]}/task/{thread}/environ', 'rb').read(1): print('read')
"""
CALL = """
import os, socket, sys
folder = os.open(sys.argv[1], os.O_PATH)  # a socket's name must be short
socket.socket(socket.AF_UNIX).connect(f'/proc/self/fd/{folder}/socket')
"""
RULE = "import ctypes; print('rules' if ctypes.CDLL(None).unshare(0x10000000) == 0 else 'refused')"
FORK = """
import os, time
count = 0
try:
    while count < 300:
        if os.fork() == 0: time.sleep(5); os._exit(0)
        count += 1
except OSError: pass
print(count, flush=True)
time.sleep(0.5)
"""
HOARD = "x = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('hoarded', flush=True)"
FILL = "f = open('big', 'wb')\nfor _ in range(64): f.write(bytes(1 << 20)); f.flush()"
CALL_ABSTRACT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(chr(0) + sys.argv[1])"
SEND_BY_PAIR = """
import os, socket, sys
folder = os.open(sys.argv[1], os.O_PATH)
socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'out', f'/proc/self/fd/{folder}/datagrams')
"""
LIMIT = "import resource, sys; resource.prlimit(int(sys.argv[1]), resource.RLIMIT_NOFILE, (int(sys.argv[2]),) * 2)"
SLOW_DOWN = "import os, sys\ntry: os.setpriority(os.PRIO_PROCESS, int(sys.argv[1]), int(sys.argv[2]))\n"
SLOW_DOWN += "finally: os.sched_setscheduler(int(sys.argv[1]), os.SCHED_BATCH, os.sched_param(0))"
SHARE = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(int(sys.argv[1]), 0, 0)
if segment >= 0: ctypes.memset(libc.shmat(segment, None, 0), 120, 1)
libc.msgsnd(libc.msgget(int(sys.argv[1]), 0), ctypes.create_string_buffer(b'\\1' + bytes(7) + b'x'), 1, 0o4000)
"""
CHANGE_MODE = "import os, sys; os.chmod(sys.argv[1], 0o777)"
READ_OTHERS = """
import os, stat
for folder, _, names in os.walk('/etc'):
    for name in names:
        path = os.path.join(folder, name)
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISREG(mode) and not mode & 0o005 and open(path, 'rb').read(1): print(path)
        except OSError: pass
"""
SHARED_MEMORY = """
import time
size = 7 << 20
for number in range(64):
    with open(f'/dev/shm/part{number}', 'wb') as file: file.write(bytes(size))
time.sleep(3); print('hoarded', flush=True)
"""
MEMORY_FILES = """
import os, time
parts = [os.memfd_create('part') for _ in range(64)]
for part in parts: os.write(part, bytes(7 << 20))
time.sleep(3); print('hoarded', flush=True)
"""
FILL_DISK = """
import time
for number in range(40):
    with open(f'part{number}', 'wb') as file: file.write(bytes(7 << 20))
    time.sleep(0.05)
time.sleep(3); print('filled', flush=True)
"""
